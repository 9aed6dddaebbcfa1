-- The options that say how a model trains on IPUs: gradient accumulation, pipelining, replication, queues.

local args = require "ipulua.args"
local blame = require "ipulua.blame"
local enums = require "ipulua.enums"
local nearest = require "ipulua.nearest"
local offloading = require "ipulua.offloading"

local training_options = {methods = {}}
local methods <const> = training_options.methods

---@return table options of a new model
function training_options.defaults()
  return {
    asynchronous = false, replicated_metric_reduction_method = "NONE", gradient_accumulation = {}, pipelining = {},
    infeed = {}, outfeed = {}, assignment = nil,
  }
end

-- ------------------------------------------------ options

local function one_table(who, ...)
  local given = ...
  if select("#", ...) == 1 and args.is_plain(given) and #given == 0 then return given end
  if select("#", ...) == 0 then return {} end
  blame.error(who .. ": a table of named options is wanted", "type")
end

local function refuse_keys(who, given, refusals)
  for key in pairs(given) do
    local words = refusals[key]
    if words then blame.error(string.format("%s: '%s' %s", who, key, words), "value") end
  end
end

local function refuse_unknown(who, given, known)
  local is_known = {}
  for _, name in ipairs(known) do is_known[name] = true end
  for key in pairs(given) do
    if not is_known[key] then
      blame.error(string.format("%s has no argument '%s'%s", who, tostring(key), nearest.hint(tostring(key), known)), "value")
    end
  end
end

local function positive_steps(who, value)
  if value == nil then return nil end
  local n = type(value) == "number" and math.tointeger(value)
  if not n or n < 1 then
    blame.error(string.format("%s: 'gradient_accumulation_steps_per_replica' must be a positive integer, got %s", who,
      args.describe(value)), "value")
  end
  return n
end

local async_rows <const> = {{"asynchronous", "boolean", false}}

---Whether callbacks run for each step, rather than once for each execution.
---Errors: an argument that is no boolean: `model:set_asynchronous_callbacks(1)`
function methods:set_asynchronous_callbacks(...)
  self._options.asynchronous = args.check("set_asynchronous_callbacks", async_rows, ...).asynchronous
  self:discard_programs()
end

local replication_rows <const> = {
  {"replicated_metric_reduction_method", enums.ReplicatedMetricReductionMethod, "NONE"},
}

---How the metrics of replicas become one: NONE (the last one's), LIST, SUM, MEAN.
---Errors: an unknown method: `model:set_replication_options "MEDIAN"`
function methods:set_replication_options(...)
  local a = args.check("set_replication_options", replication_rows, ...)
  self._options.replicated_metric_reduction_method = a.replicated_metric_reduction_method
  self:discard_programs()
end

local function reduction_method(who, value)
  if value == nil then return nil end
  return args.check_value(who, {"gradient_accumulation_reduction_method", enums.GradientAccumulationReductionMethod}, value)
end

local accumulation_known <const> = {
  "gradient_accumulation_steps_per_replica", "gradient_accumulation_reduction_method",
  "use_v2_gradient_accumulation_optimizer", "dtype", "offload_weight_update_variables",
  "replicated_optimizer_state_sharding", "name",
}
local accumulation_refusals <const> = {
  opt = "is set automatically by the model",
  num_mini_batches = "is set automatically by the model; use 'gradient_accumulation_steps_per_replica'",
  experimental_normalize_gradients = "was removed; use 'gradient_accumulation_reduction_method'",
  reduction_method = "is called 'gradient_accumulation_reduction_method' here",
}

-- Later calls add to earlier ones.
local function merge(into, given)
  for key, value in pairs(given) do into[key] = value end
end

---Gradient accumulation of training that isn't pipelined.
---Errors: fewer than 1 step; when it trains, steps_per_execution that is no multiple: `model:set_gradient_accumulation_options(0)`
---@param ... any {gradient_accumulation_steps_per_replica, gradient_accumulation_reduction_method, dtype, …}
function methods:set_gradient_accumulation_options(...)
  local who <const> = "set_gradient_accumulation_options"
  local given = one_table(who, ...)
  refuse_keys(who, given, accumulation_refusals)
  refuse_unknown(who, given, accumulation_known)
  local copy = {}
  merge(copy, given)
  copy.gradient_accumulation_steps_per_replica = positive_steps(who, given.gradient_accumulation_steps_per_replica)
  copy.gradient_accumulation_reduction_method = reduction_method(who, given.gradient_accumulation_reduction_method)
  merge(self._options.gradient_accumulation, copy)
  offloading.check_updates(who, self._options.gradient_accumulation)
  self:discard_programs()
end

local pipelining_known <const> = {
  "gradient_accumulation_steps_per_replica", "device_mapping", "accumulate_outfeed", "gradient_accumulation_reduction_method",
  "pipeline_schedule", "schedule", "recomputation_mode", "continuous_weight_updates", "offload_activations",
  "offload_gradient_accumulation_buffers", "replicated_weight_sharding", "offload_weights", "weight_update_poplar_options",
  "forward_propagation_stages_poplar_options", "backward_propagation_stages_poplar_options", "offload_weight_update_variables",
  "replicated_optimizer_state_sharding", "gradient_accumulation_dtype", "gradient_accumulation_for_captured_grads", "name",
  "optimizer_function_options",
}
local automatic <const> = "is set automatically by the model"
local incompatible <const> = "is not compatible with Keras models"
local pipelining_refusals <const> = {
  gradient_accumulation_count = "is set by 'gradient_accumulation_steps_per_replica'",
  reduction_method = "is called 'gradient_accumulation_reduction_method' here",
  computational_stages = automatic, repeat_count = automatic, inputs = automatic, infeed_queue = automatic,
  outfeed_queue = automatic, optimizer_function = automatic, outfeed_loss = incompatible, outfeed_mask = incompatible,
  batch_serialization_iterations = incompatible,
  experimental_normalize_gradients = "was removed; use 'gradient_accumulation_reduction_method'",
}

local function check_mapping(who, mapping)
  if mapping == nil then return end
  local fits = type(mapping) == "table"
  for _, ipu in ipairs(fits and mapping or {}) do fits = fits and math.type(ipu) == "integer" end
  if not fits then blame.error(who .. ": 'device_mapping' must be a list of integers", "value") end
end

local function check_flag(who, given, name)
  if given[name] ~= nil and type(given[name]) ~= "boolean" then
    blame.error(string.format("%s: '%s' must be a boolean, got %s", who, name, args.describe(given[name])), "type")
  end
end

---Options of pipelined training; those of ipu.pipeline that the model doesn't set itself.
---Errors: an option that the model sets itself, an unknown one, a schedule that there is not:
---`model:set_pipelining_options{inputs = {}}`
---@param ... any {gradient_accumulation_steps_per_replica, pipeline_schedule, device_mapping, …} of ipu.pipeline
function methods:set_pipelining_options(...)
  local who <const> = "set_pipelining_options"
  local given = one_table(who, ...)
  refuse_keys(who, given, pipelining_refusals)
  refuse_unknown(who, given, pipelining_known)
  check_mapping(who, given.device_mapping)
  check_flag(who, given, "accumulate_outfeed")
  local copy = {}
  merge(copy, given)
  copy.gradient_accumulation_steps_per_replica = positive_steps(who, given.gradient_accumulation_steps_per_replica)
  copy.gradient_accumulation_reduction_method = reduction_method(who, given.gradient_accumulation_reduction_method)
  local schedule = given.pipeline_schedule or given.schedule
  copy.schedule = nil
  if type(schedule) == "string" then
    schedule = args.check_value(who, {"pipeline_schedule", enums.PipelineSchedule}, schedule)
  end
  copy.pipeline_schedule = schedule
  if given.continuous_weight_updates then
    blame.error(who .. ": continuous weight updates ('continuous_weight_updates') are not implemented", "not_implemented")
  end
  merge(self._options.pipelining, copy)
  self:discard_programs()
end

---Options of the model's infeeds: prefetch_depth, optimise_latency.
---Units: prefetch_depth in elements
---Errors: an unknown option: `model:set_infeed_queue_options{depth = 3}`
---@param ... any {prefetch_depth, optimise_latency}
function methods:set_infeed_queue_options(...)
  local who <const> = "set_infeed_queue_options"
  local given = one_table(who, ...)
  refuse_keys(who, given, {dataset = automatic, infeed_spec = automatic, element_spec = automatic})
  refuse_unknown(who, given, {"prefetch_depth", "optimise_latency", "device_ordinal"})
  merge(self._options.infeed, given)
  self:discard_programs()
end

---Options of the model's outfeeds: buffer_depth, optimise_latency. Neither changes anything: there is room for all values.
---Units: buffer_depth in elements
---Errors: an unknown option: `model:set_outfeed_queue_options{depth = 3}`
---@param ... any {buffer_depth, optimise_latency}
function methods:set_outfeed_queue_options(...)
  local who <const> = "set_outfeed_queue_options"
  local given = one_table(who, ...)
  refuse_keys(who, given, {outfeed_mode = automatic, device_ordinal = automatic})
  refuse_unknown(who, given, {"buffer_depth", "optimise_latency"})
  merge(self._options.outfeed, given)
  self:discard_programs()
end

return training_options
