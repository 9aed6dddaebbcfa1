-- Optimizers around optimizers: a map over gradients, accumulation over calls, replicas, automatic loss scaling.

local accumulation = require "ipulua.accumulation"
local args = require "ipulua.args"
local base = require "ipulua.keras.optimizers.base"
local blame = require "ipulua.blame"
local class = require "ipulua.class"
local core = require "ipulua.core"
local enums = require "ipulua.enums"
local ipu = require "ipulua"
local offloading = require "ipulua.offloading"
local parts = require "ipulua.keras.parts"
local rules = require "ipulua.keras.optimizers.rules"
local variables = require "ipulua.variables"

local wrappers = {}

local function check_wrapped(name, opt)
  if class.is_a(opt, base.Optimizer) then return opt end
  blame.error(string.format("%s: 'opt' must be a Keras optimizer, got %s", name, args.describe(opt)), "value")
end

-- What a wrapper doesn't define itself is the wrapped optimizer's.
---@class IpuOptimizerWrapper: Optimizer
local Wrapper = base.Optimizer:extend("Wrapper")

function Wrapper.__index(self, key)
  local c = getmetatable(self)
  local own = c[key]
  if own ~= nil and (type(own) ~= "function" or own ~= base.Optimizer[key]) then return own end
  local opt = rawget(self, "opt")
  if opt == nil then return own end
  local value = opt[key]
  if type(value) ~= "function" then return value end
  return c[key] or value
end

function Wrapper:__newindex(key, value)
  self.opt[key] = value
end

function Wrapper:init_wrapper(opt, name)
  rawset(self, "opt", check_wrapped(getmetatable(self).__name, opt))
  rawset(self, "name", name or getmetatable(self).__name)
end

-- Methods of every optimizer go to the wrapped one, except those that classes define.
for _, method in ipairs{
  "list_weights", "get_weights", "set_weights", "build", "slot", "state", "current_learning_rate", "finalize_variable_values",
} do
  Wrapper[method] = function(self, ...)
    local opt = self.opt
    return opt[method](opt, ...)
  end
end

-- Variables of the wrapper itself, by name.
function Wrapper:own_entries() return {} end -- luacheck: ignore 212

function Wrapper:entries(weights)
  local list = self.opt:entries(weights)
  for _, entry in ipairs(self:own_entries(weights)) do
    list[#list + 1] = {path = self.__name .. "/" .. entry.path, variable = entry.variable}
  end
  return list
end

function Wrapper:apply_gradients(grads, vars)
  return self.opt:apply_gradients(grads, vars)
end

function Wrapper:each_gradient(g, v) return self.opt:each_gradient(g, v) end

function Wrapper:compute_gradients(...)
  return self.opt:compute_gradients(...)
end

function Wrapper:minimize(...)
  self:apply_gradients(self:compute_gradients(...))
end

-- Arguments besides the wrapped optimizer, as far as a file can hold them.
local function plain_settings(settings)
  local config = {}
  for key, value in pairs(settings) do
    if type(value) ~= "function" and type(value) ~= "table" then config[key] = value end
  end
  return config
end

function Wrapper:get_config()
  local config = plain_settings(rawget(self, "settings") or {})
  config.opt = parts.serialize("optimizer", self.opt)
  config.name = self.name
  return config
end

function Wrapper.from_config(c, config, custom_objects)
  local given = {}
  for key, value in pairs(config) do given[key] = value end
  given.opt = parts.get("optimizer", config.opt, {custom_objects = custom_objects})
  return c(given)
end

local function define(name, parent)
  local c = (parent or Wrapper):extend(name)
  wrappers[name] = c
  return c
end

-- Pairs, from pairs or two lists.
local function as_pairs(grads, vars)
  if not vars then return grads end
  local list = {}
  for i, v in ipairs(vars) do list[i] = {grads[i] or false, v} end
  return list
end

-- ------------------------------------------------ maps and replicas

local map_rows <const> = {
  {"wrapped_optimizer", "table"}, {"gradient_mapping_function", "callable"}, {"name", "string", optional = true},
}

---Changes each gradient by f(gradient, variable) before it is accumulated and applied. What was accumulated in another dtype than
---the variable's goes through f once more: it may cast.
---@class MapGradientOptimizer: IpuOptimizerWrapper
local MapGradientOptimizer = define("MapGradientOptimizer")
MapGradientOptimizer.argument_rows = map_rows

function MapGradientOptimizer:init(...)
  local a = args.check(self.__name, map_rows, ...)
  self:init_wrapper(a.wrapped_optimizer, a.name)
  rawset(self, "map", a.gradient_mapping_function)
end

function MapGradientOptimizer:each_gradient(g, v) return self.map(self.opt:each_gradient(g, v), v) end

function MapGradientOptimizer:apply_gradients(grads, vars)
  local mapped = {}
  for i, pair in ipairs(as_pairs(grads, vars)) do
    local g, v = pair[1], pair[2]
    local is_mapped = not g or base.is_accumulated() and g.dtype == v.dtype
    mapped[i] = {is_mapped and g or self.map(g, v), v}
  end
  self.opt:apply_gradients(mapped)
end

---The same, with the map applied after the wrapped optimizer computed its gradients.
define("MapGradientOptimizerInvertedChaining", MapGradientOptimizer)

local wrap_rows <const> = {{"opt", "table"}, {"name", "string", optional = true}}

---The mean of each gradient over the replicas is applied.
---@class CrossReplicaOptimizer: IpuOptimizerWrapper
local CrossReplicaOptimizer = define("CrossReplicaOptimizer")
CrossReplicaOptimizer.argument_rows = wrap_rows

function CrossReplicaOptimizer:init(...)
  local a = args.check(self.__name, wrap_rows, ...)
  self:init_wrapper(a.opt, a.name)
end

function CrossReplicaOptimizer:apply_gradients(grads, vars)
  local means = {}
  for i, pair in ipairs(as_pairs(grads, vars)) do
    means[i] = {pair[1] and ipu.cross_replica_mean(pair[1]) or pair[1], pair[2]}
  end
  base.without_sum(function() self.opt:apply_gradients(means) end)
end

-- ------------------------------------------------ accumulation over calls

local accumulation_rows <const> = {
  {"opt", "table"}, {"num_mini_batches", "integer", check = function(n)
    if n < 1 then return "must be a positive number, got " .. n end
  end}, {"offload_weight_update_variables", "boolean", optional = true},
  {"replicated_optimizer_state_sharding", "boolean", false}, {"dtype", {"dtype", "function"}, optional = true},
  {"reduction_method", enums.GradientAccumulationReductionMethod, "SUM"}, {"name", "string", optional = true},
}

---Sums (or averages) the gradients of num_mini_batches calls, then applies them once.
---@class GradientAccumulationOptimizer: IpuOptimizerWrapper
local GradientAccumulationOptimizer = define("GradientAccumulationOptimizer")
GradientAccumulationOptimizer.argument_rows = accumulation_rows

---Over one mini-batch it is the optimizer itself.
function GradientAccumulationOptimizer.substitute(...)
  local a = args.check("GradientAccumulationOptimizer", accumulation_rows, ...)
  return a.num_mini_batches == 1 and check_wrapped("GradientAccumulationOptimizer", a.opt)
end

function GradientAccumulationOptimizer:init(...)
  local a = args.check(self.__name, accumulation_rows, ...)
  offloading.check_updates(self.__name, a)
  self:init_wrapper(a.opt, a.name)
  rawset(self, "settings", a)
  rawset(self, "accumulators", {})
  rawset(self, "counter", variables.Variable{core.tensor(0, "int32"), name = self.name .. "/counter", trainable = false})
end

local function accumulator_of(self, v)
  local id = core.variable_identity(v)
  local found = self.accumulators[id]
  if not found then
    local dtype = accumulation.dtype(self.name, self.settings.dtype, v)
    found = variables.make(self.name .. "/" .. v.name, dtype, v.shape, false, function() return core.full(v.shape, 0, dtype) end)
    self.accumulators[id] = found
  end
  return found
end

function GradientAccumulationOptimizer:build(list)
  if self.settings.num_mini_batches > 1 then
    for _, v in ipairs(list) do accumulator_of(self, v) end
  end
  self.opt:build(list)
end

function GradientAccumulationOptimizer:own_entries(weights)
  local list = {{path = "counter", variable = self.counter}}
  for _, entry in ipairs(weights) do
    local sum = self.accumulators[core.variable_identity(entry.variable)]
    if sum then list[#list + 1] = {path = "sum/" .. entry.path, variable = sum} end
  end
  return list
end

function GradientAccumulationOptimizer:apply_gradients(grads, vars)
  local count, method = self.settings.num_mini_batches, self.settings.reduction_method
  local given = as_pairs(grads, vars)
  if count == 1 then return self.opt:apply_gradients(given) end
  offloading.of_updates(self.name, self.settings)
  local sums, list = {}, {}
  local n = self.counter:read_value()
  for _, pair in ipairs(given) do
    if pair[1] then
      local sum = accumulator_of(self, pair[2])
      local g = self.opt:each_gradient(pair[1], pair[2])
      sum:assign(accumulation.add(sum:read_value(), g, method, count, n))
      sums[#sums + 1], list[#list + 1] = sum, pair[2]
    end
  end
  self.opt:build(list)
  self.counter:assign_add(1)
  local due = ipu.equal(self.counter, count)
  local function apply()
    local now = {}
    for i, sum in ipairs(sums) do now[i] = sum:read_value() end
    base.apply_accumulated(true, self.opt, now, list)
    for _, sum in ipairs(sums) do sum:assign(ipu.zeros_like(sum)) end
    self.counter:assign(0)
  end
  ipu.cond(due, apply, function() end)
end

-- ------------------------------------------------ automatic loss scaling

local function power_of_two(x)
  if x <= 0 then return "must be positive, got " .. x end
  local log2 = math.log(x, 2)
  if math.abs(log2 - math.floor(log2 + 0.5)) > 1e-9 then return "must be a power of two, got " .. x end
end

local function positive(x)
  if x <= 0 then return "must be positive, got " .. x end
end

local als_rows <const> = {
  {"initial_loss_scaling_factor", "number", 1, check = power_of_two}, {"update_frequency", "integer", 8, check = positive},
  {"increase_factor", "number", 2, check = power_of_two}, {"max_loss_scaling_factor", "number", 32768, check = power_of_two},
  {"accumulate_statistics_over_update_period", "boolean", true}, {"ratio_threshold", "number", 1e-5, check = function(x)
    if x < 0 or x > 1 then return "must lie in [0, 1], got " .. x end
  end}, {"captured_grads_only", "boolean", false}, {"lpf_alpha", "number", 0, check = function(x)
    if x < 0 or x > 1 then return "must lie in [0, 1], got " .. x end
  end}, {"histogram_bin_edge", "number", 2 ^ 13, check = positive}, {"name", "string", optional = true},
}

---Scales the loss so that float16 gradients neither overflow nor vanish: the factor is doubled unless too many
---elements are at or beyond histogram_bin_edge; then it is halved.
---@class ALSOptimizer: IpuOptimizerWrapper
local ALSOptimizer = define("ALSOptimizer")

ALSOptimizer.takes_captured = true

local als_options = {{"opt", "table"}, table.unpack(als_rows)}
ALSOptimizer.argument_rows = als_options

local function scalar_state(self, name, value, shape)
  rawset(self, name, variables.Variable{core.full(shape or {}, value, "float32"), name = self.name .. "/" .. name,
    trainable = false})
end

local read_only <const> = {
  loss_scaling_factor = true, previous_loss_scaling_factor = true, histogram = true, normalized_histogram = true,
  update_counter = true, decrease_factor = true,
}

function ALSOptimizer:init_als(opt, a)
  self:init_wrapper(opt, a.name)
  a.name = nil
  rawset(self, "hyper", a)
  scalar_state(self, "_factor", a.initial_loss_scaling_factor)
  scalar_state(self, "_previous", a.initial_loss_scaling_factor)
  scalar_state(self, "_histogram", 0, {2})
  rawset(self, "_counter", variables.Variable{core.tensor(0, "int32"), name = self.name .. "/update_counter", trainable = false})
end

function ALSOptimizer:init(...)
  local a = args.check(self.__name, als_options, ...)
  local opt = a.opt
  a.opt = nil
  self:init_als(opt, a)
end

local function normalized(histogram)
  local total = ipu.reduce_sum(histogram)
  return histogram / ipu.maximum(total, 1e-30)
end

local computed <const> = {
  loss_scaling_factor = function(self) return self._factor:read_value() end,
  previous_loss_scaling_factor = function(self) return self._previous:read_value() end,
  histogram = function(self) return self._histogram:read_value() end,
  normalized_histogram = function(self) return normalized(self._histogram:read_value()) end,
  update_counter = function(self) return self._counter:read_value() end,
  decrease_factor = function(self) return 1 / self.hyper.increase_factor end,
}

function ALSOptimizer.__index(self, key)
  local f = computed[key]
  if f and rawget(self, "hyper") then return f(self) end
  local hyper = rawget(self, "hyper")
  if hyper and hyper[key] ~= nil then return hyper[key] end
  return Wrapper.__index(self, key)
end

function ALSOptimizer:__newindex(key, value)
  if read_only[key] then
    blame.error(string.format("%s: '%s' is read-only", self.name, key), "value")
  end
  for _, row in ipairs(als_rows) do
    if row[1] == key and key ~= "name" then
      self.hyper[key] = args.check_value(self.name, row, value)
      if key == "update_frequency" then self._counter:assign(0) end
      rawset(self.opt, "version", self.opt.version + 1)
      return
    end
  end
  self.opt[key] = value
end

function ALSOptimizer:own_entries()
  return {
    {path = "factor", variable = self._factor}, {path = "previous", variable = self._previous},
    {path = "histogram", variable = self._histogram}, {path = "counter", variable = self._counter},
  }
end

function ALSOptimizer:get_config()
  local config = Wrapper.get_config(self)
  for key, value in pairs(self.hyper) do config[key] = value end
  return config
end

---The factor goes back to its first value, statistics to none.
function ALSOptimizer:reset()
  self._factor:assign(self.hyper.initial_loss_scaling_factor)
  self._previous:assign(self.hyper.initial_loss_scaling_factor)
  self._histogram:assign(core.full({2}, 0, "float32"))
  self._counter:assign(0)
end

---The loss times the factor.
---@param loss userdata
---@return userdata
function ALSOptimizer:scale_loss(loss)
  return loss * ipu.cast(self._factor, loss.dtype)
end
ALSOptimizer.get_scaled_loss = ALSOptimizer.scale_loss

-- How many elements of float16 gradients lie below the edge, and how many at or beyond it.
local function count_elements(self, grads)
  local edge = self.hyper.histogram_bin_edge
  local histogram
  for _, g in ipairs(grads) do
    if g and g.dtype == "float16" then
      local size = ipu.cast(ipu.abs(g), "float32")
      -- infinities and numbers that are none count as beyond
      local below = ipu.reduce_sum(ipu.cast(ipu.less(size, edge), "float32"))
      local counts = ipu.stack{below, g.size - below}
      histogram = histogram and histogram + counts or counts
    end
  end
  return histogram and ipu.cross_replica_sum(histogram) or core.full({2}, 0, "float32")
end

-- The factor after statistics: unchanged where it would leave [1, max) or be no number.
local function next_factor(self, factor, histogram)
  local h = self.hyper
  local total = ipu.reduce_sum(histogram)
  local upper = ipu.reshape(ipu.slice(histogram, {1}, {1}), {})
  local ratio = upper / ipu.maximum(total, 1e-30)
  local candidate = ipu.where(ipu.greater(ratio, h.ratio_threshold), factor / h.increase_factor, factor * h.increase_factor)
  local usable = ipu.logical_and(ipu.is_finite(candidate),
    ipu.logical_and(ipu.less(candidate, h.max_loss_scaling_factor), ipu.greater_equal(candidate, 1)))
  return ipu.where(usable, candidate, factor)
end

local function update_statistics(self, grads)
  local h = self.hyper
  local former = self._histogram:read_value()
  local counts = count_elements(self, grads)
  local latest = h.accumulate_statistics_over_update_period and former + counts or counts
  local histogram = former * h.lpf_alpha + latest * (1 - h.lpf_alpha)
  local counter, factor = self._counter:read_value(), self._factor:read_value()
  local due
  if h.update_frequency == 1 then
    due = ipu.equal(counter, counter)
  else
    due = ipu.logical_and(ipu.greater(counter, 0), ipu.equal(ipu.mod(counter, h.update_frequency), 0))
  end
  self._previous:assign(factor)
  self._factor:assign(ipu.where(due, next_factor(self, factor, histogram), factor))
  self._histogram:assign(ipu.where(due, ipu.zeros_like(histogram), histogram))
  self._counter:assign(ipu.where(due, ipu.zeros_like(counter), counter + 1))
end

-- Divided in float32 where the update is float32, too: what is small doesn't vanish.
local function unscaled(self, pairs_list)
  local list = {}
  local factor = self._factor:read_value()
  for i, pair in ipairs(pairs_list) do
    local g = pair[1]
    if g and rawget(self.opt, "is_wide") then g = ipu.cast(g, "float32") end
    list[i] = {g and g / ipu.cast(factor, g.dtype) or g, pair[2]}
  end
  return list
end

-- What it wraps maps gradients that are no longer scaled: accumulated ones.
function ALSOptimizer:each_gradient(g) return g end -- luacheck: ignore 212

---Gradients of a scaled loss; captured_grads: further gradients for the statistics.
---@param grads any[]
---@param vars userdata[]?
---@param options {captured_grads: any}?
function ALSOptimizer:apply_gradients(grads, vars, options)
  if args.is_plain(vars) and vars.captured_grads then vars, options = nil, vars end
  local given = as_pairs(grads, vars)
  local counted = {}
  if not self.hyper.captured_grads_only then
    for i, pair in ipairs(given) do counted[i] = pair[1] end
  end
  for _, g in ipairs(require "ipulua.keras.nest".flatten(options and options.captured_grads)) do counted[#counted + 1] = g end
  local ready = unscaled(self, given)
  update_statistics(self, counted)
  base.apply_accumulated(false, self.opt, ready)
end

-- Optimizers with the scaling built in.
for name, rule in pairs{ALSOptimizerSGD = "SGD", ALSOptimizerAdam = "Adam", ALSOptimizerRMSProp = "RMSprop"} do
  local c = define(name, ALSOptimizer)
  local als_names = {}
  for _, row in ipairs(als_rows) do als_names[row[1]] = true end
  local rows = {}
  for _, row in ipairs(rules[rule].argument_rows) do
    if row[1] ~= "name" then rows[#rows + 1] = row end
  end
  table.move(als_rows, 1, #als_rows, #rows + 1, rows)
  c.argument_rows = rows
  -- The rule's arguments and those of the scaling, as the constructor takes them.
  function c:get_config()
    local config = self.opt:get_config()
    for key, value in pairs(self.hyper) do config[key] = value end
    config.name = self.name
    return config
  end
  function c.from_config(kind, config) return kind(config) end
  function c:init(...)
    local a = args.check(name, rows, ...)
    local of_als, of_rule = {}, {}
    for key, value in pairs(a) do
      if als_names[key] then of_als[key] = value else of_rule[key] = value end
    end
    local opt = rules[rule](of_rule)
    rawset(opt, "is_wide", true)
    self:init_als(opt, of_als)
  end
end

---Accumulates the gradients of an ALSOptimizer.
---@class ALSGradientAccumulationOptimizer: GradientAccumulationOptimizer
local ALSAccumulation = define("ALSGradientAccumulationOptimizer", GradientAccumulationOptimizer)
ALSAccumulation.substitute = false

function ALSAccumulation:init(...)
  local first = ...
  local opt = type(first) == "table" and getmetatable(first) == nil and (first.als_optimizer or first.opt or first[1]) or first
  if not class.is_a(opt, ALSOptimizer) then
    blame.error("ALSGradientAccumulationOptimizer: 'als_optimizer' must be an ALSOptimizer, got " .. args.describe(opt), "value")
  end
  if type(first) == "table" and getmetatable(first) == nil and first.als_optimizer then
    first.opt, first.als_optimizer = first.als_optimizer, nil
  end
  GradientAccumulationOptimizer.init(self, ...)
end

function ALSAccumulation:scale_loss(loss) return self.opt:scale_loss(loss) end

return wrappers
