-- The options that say how a model trains on IPUs: gradient accumulation, pipelining, replication,
-- queues.

local args = require "ipulua.base.args"
local blame = require "ipulua.base.blame"
local data = require "ipulua.data"
local enums = require "ipulua.enums"
local nearest = require "ipulua.nearest"
local offloading = require "ipulua.trace.offloading"
local optimizers = require "ipulua.optimizers"
local queues = require "ipulua.data.queues"

local training_options = {methods = {}}
local methods <const> = training_options.methods

---@return table options of a new model
function training_options.defaults()
  return {
    asynchronous = false, replicated_metric_reduction_method = "NONE", gradient_accumulation = {},
    pipelining = {},
    infeed = {}, outfeed = {}, assignment = nil,
  }
end

-- ------------------------------------------------ options

local function one_table(who, ...)
  local given = ...
  if select("#", ...) == 1 and args.is_plain(given) and #given == 0 then return given end
  if select("#", ...) == 0 then return {} end
  blame.error(who .. ": expected a table of named options", "type")
end

local function refuse_keys(who, given, refusals)
  for key in pairs(given) do
    local words = refusals[key]
    if words then blame.error(string.format("%s: '%s' %s", who, key, words), "value") end
  end
end

-- Values of named options, each as its row says.
local function check_options(who, given, rows)
  local of, names = {}, {}
  for i, row in ipairs(rows) do of[row[1]], names[i] = row, row[1] end
  local checked = {}
  for key, value in pairs(given) do
    if not of[key] then
      blame.error(string.format("%s has no argument '%s'%s", who, tostring(key),
        nearest.hint(tostring(key), names)), "value")
    end
    checked[key] = args.check_value(who, of[key], value)
  end
  return checked
end

-- Rows of options that a model passes on, by name.
local function rows_of(rows, names)
  local list = {}
  for _, row in ipairs(rows) do
    for name in names:gmatch("%S+") do
      if row[1] == name then list[#list + 1] = row end
    end
  end
  return list
end

local function with(rows, more) return table.move(more, 1, #more, #rows + 1, rows) end

local steps_row <const> = {"gradient_accumulation_steps_per_replica", "any"}
local reduction_row <const> = {"gradient_accumulation_reduction_method",
  enums.GradientAccumulationReductionMethod}

local function positive_steps(who, value)
  if value == nil then return nil end
  local n = type(value) == "number" and math.tointeger(value)
  if not n or n < 1 then
    blame.error(string.format("%s: 'gradient_accumulation_steps_per_replica' must be a positive "
      .. "integer, got %s", who,
      args.describe(value)), "value")
  end
  return n
end

local async_rows <const> = {{"asynchronous", "boolean", false}}

---Whether callbacks run for each step, rather than once for each execution.
---Errors: an argument that is no boolean: `model:set_asynchronous_callbacks(1)`
function methods:set_asynchronous_callbacks(...)
  self._options.asynchronous = args.check("set_asynchronous_callbacks", async_rows,
    ...).asynchronous
  self:discard_programs()
end

local replication_rows <const> = {
  {"replicated_metric_reduction_method", enums.ReplicatedMetricReductionMethod, "NONE"},
}

---How the metrics of replicas become one value: NONE (the last one's), LIST, SUM, MEAN.
---Errors: an unknown method: `model:set_replication_options "MEDIAN"`
function methods:set_replication_options(...)
  local a = args.check("set_replication_options", replication_rows, ...)
  self._options.replicated_metric_reduction_method = a.replicated_metric_reduction_method
  self:discard_programs()
end

local function accumulation_rows()
  local rows <const> = optimizers.GradientAccumulationOptimizerV2.argument_rows
  return with(rows_of(rows, "dtype offload_weight_update_variables "
    .. "replicated_optimizer_state_sharding name"), {steps_row,
    reduction_row, {"use_v2_gradient_accumulation_optimizer", "boolean"}})
end

local accumulation_refusals <const> = {
  opt = "is set automatically by the model",
  num_mini_batches = "is set automatically by the model; use "
  .. "'gradient_accumulation_steps_per_replica'",
  experimental_normalize_gradients = "was removed; use 'gradient_accumulation_reduction_method'",
  reduction_method = "is called 'gradient_accumulation_reduction_method' here",
}

-- Later calls add to earlier ones.
local function merge(into, given)
  for key, value in pairs(given) do into[key] = value end
end

---Gradient accumulation of training that isn't pipelined.
---Errors: fewer than 1 step; when it trains, steps_per_execution that is no multiple:
---`model:set_gradient_accumulation_options(0)`
---@param ... any {gradient_accumulation_steps_per_replica, dtype, …}
function methods:set_gradient_accumulation_options(...)
  local who <const> = "set_gradient_accumulation_options"
  local given = one_table(who, ...)
  refuse_keys(who, given, accumulation_refusals)
  local copy = check_options(who, given, accumulation_rows())
  copy.gradient_accumulation_steps_per_replica = positive_steps(who,
    given.gradient_accumulation_steps_per_replica)
  merge(self._options.gradient_accumulation, copy)
  offloading.check_updates(who, self._options.gradient_accumulation)
  self:discard_programs()
end

local pipelining_names <const> = "device_mapping accumulate_outfeed pipeline_schedule "
  .. "recomputation_mode continuous_weight_updates "
  .. "offload_activations offload_gradient_accumulation_buffers replicated_weight_sharding "
  .. "offload_weights "
  .. "offload_weight_update_variables replicated_optimizer_state_sharding "
  .. "weight_update_poplar_options "
  .. "forward_propagation_stages_poplar_options backward_propagation_stages_poplar_options "
  .. "gradient_accumulation_dtype "
  .. "gradient_accumulation_for_captured_grads name"
local function pipelining_rows()
  return with(rows_of(require "ipulua.pipeline".rows, pipelining_names),
    {steps_row, reduction_row, {"schedule", "any"}})
end
local automatic <const> = "is set automatically by the model"
local incompatible <const> = "is not compatible with Keras models"
local pipelining_refusals <const> = {
  gradient_accumulation_count = "is set by 'gradient_accumulation_steps_per_replica'",
  reduction_method = "is called 'gradient_accumulation_reduction_method' here",
  computational_stages = automatic, repeat_count = automatic, inputs = automatic,
  infeed_queue = automatic,
  outfeed_queue = automatic, optimizer_function = automatic, outfeed_loss = incompatible,
  outfeed_mask = incompatible,
  batch_serialization_iterations = incompatible,
  experimental_normalize_gradients = "was removed; use 'gradient_accumulation_reduction_method'",
}

local function check_mapping(who, mapping)
  if mapping == nil then return end
  local fits = type(mapping) == "table"
  for _, ipu in ipairs(fits and mapping or {}) do fits = fits and math.type(ipu) == "integer" end
  if not fits then blame.error(who .. ": 'device_mapping' must be a list of integers", "value") end
end

---Options of pipelined training; options of ipu.pipeline that the model doesn't set itself.
---Errors: an option that the model sets itself, an unknown one, a schedule that there is not:
---`model:set_pipelining_options{inputs = {}}`
---@param ... any {pipeline_schedule, device_mapping, …} of ipu.pipeline
function methods:set_pipelining_options(...)
  local who <const> = "set_pipelining_options"
  local given = one_table(who, ...)
  refuse_keys(who, given, pipelining_refusals)
  local copy = check_options(who, given, pipelining_rows())
  check_mapping(who, given.device_mapping)
  copy.gradient_accumulation_steps_per_replica = positive_steps(who,
    given.gradient_accumulation_steps_per_replica)
  local schedule = given.pipeline_schedule or given.schedule
  copy.schedule = nil
  if type(schedule) == "string" then
    schedule = args.check_value(who, {"pipeline_schedule", enums.PipelineSchedule}, schedule)
  end
  copy.pipeline_schedule = schedule
  if given.continuous_weight_updates then
    blame.error(who .. ": continuous weight updates ('continuous_weight_updates') are not "
      .. "implemented", "not_implemented")
  end
  merge(self._options.pipelining, copy)
  self:discard_programs()
end

---Options of the model's infeeds: prefetch_depth, optimise_latency.
---Units: prefetch_depth in elements
---Errors: an unknown option, a depth that is none: `model:set_infeed_queue_options{depth = 3}`
---@param ... any {prefetch_depth, optimise_latency}
function methods:set_infeed_queue_options(...)
  local who <const> = "set_infeed_queue_options"
  local given = one_table(who, ...)
  refuse_keys(who, given, {dataset = automatic, infeed_spec = automatic, element_spec = automatic})
  merge(self._options.infeed, check_options(who, given, data.IPUInfeedQueue.argument_rows))
  self:discard_programs()
end

---Options of the model's outfeeds: buffer_depth, optimise_latency. Neither changes anything: there
---is room for all values.
---Units: buffer_depth in elements
---Errors: an unknown option, a depth below 1: `model:set_outfeed_queue_options{depth = 3}`
---@param ... any {buffer_depth, optimise_latency}
function methods:set_outfeed_queue_options(...)
  local who <const> = "set_outfeed_queue_options"
  local given = one_table(who, ...)
  refuse_keys(who, given, {outfeed_mode = automatic, device_ordinal = automatic})
  merge(self._options.outfeed, check_options(who, given, queues.IPUOutfeedQueue.argument_rows))
  self:discard_programs()
end

return training_options
