-- Optimizers around optimizers: a map over gradients, replicas, accumulation over calls.

local about = require "ipulua.base.parts.about"
local accumulation = require "ipulua.optimizers.accumulation"
local args = require "ipulua.base.args"
local base = require "ipulua.keras.optimizers.base"
local core = require "ipulua.core"
local delegating = require "ipulua.keras.optimizers.delegating"
local enums = require "ipulua.enums"
local loops = require "ipulua.trace.loops"
local offloading = require "ipulua.trace.offloading"
local gradients = require "ipulua.keras.optimizers.gradients"
local ops = require "ipulua.ops"
local teams = require "ipulua.config.teams"
local variables = require "ipulua.trace.variables"

local wrappers = {}

local as_pairs <const> = delegating.as_pairs

local function define(name, parent)
  local c = (parent or delegating.Wrapper):extend(name)
  wrappers[name] = c
  return c
end

-- ------------------------------------------------ maps and replicas

local map_rows <const> = {
  {"wrapped_optimizer", "table"}, {"gradient_mapping_function", "callable"},
  {"name", "string", optional = true},
}

---Changes each gradient by f(gradient, variable) before it is accumulated and applied. A sum
---accumulated in another dtype than the variable's goes through f once more: it may cast.
---@class MapGradientOptimizer: IpuOptimizerWrapper
local MapGradientOptimizer = define("MapGradientOptimizer")
MapGradientOptimizer.argument_rows = map_rows

function MapGradientOptimizer:init(...)
  local a = args.check(self.__name, map_rows, ...)
  self:init_wrapper(a.wrapped_optimizer, a.name)
  rawset(self, "map", a.gradient_mapping_function)
end

function MapGradientOptimizer:own_settings() return {gradient_mapping_function = self.map} end

function MapGradientOptimizer:each_gradient(g, v)
  return self.map(self.opt:each_gradient(g, v), v)
end

function MapGradientOptimizer:apply_gradients(...)
  local given, options = as_pairs(...)
  local mapped = {}
  for i, pair in ipairs(given) do
    local g, v = pair[1], pair[2]
    local is_mapped = not g or base.is_accumulated() and g.dtype == v.dtype
    mapped[i] = {is_mapped and g or self.map(g, v), v}
  end
  self.opt:apply_gradients(mapped, nil, options)
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

function CrossReplicaOptimizer:apply_gradients(...)
  teams.refuse_wrapper(self.__name)
  local given, options = as_pairs(...)
  local means = {}
  for i, pair in ipairs(given) do
    means[i] = {pair[1] and ops.cross_replica_mean(pair[1]) or pair[1], pair[2]}
  end
  gradients.without_sum(function() self.opt:apply_gradients(means, nil, options) end)
end

-- ------------------------------------------------ accumulation over calls

local accumulation_rows <const> = {
  {"opt", "table"}, {"num_mini_batches", "integer", range = "[1, inf)"},
  {"offload_weight_update_variables", "boolean", optional = true,
    says = "changes no number; whether states lie in streaming memory"},
  {"replicated_optimizer_state_sharding", "boolean", false,
    says = "changes no number; whether replicas share them"},
  {"dtype", {"dtype", "function"}, optional = true},
  {"reduction_method", enums.GradientAccumulationReductionMethod, "SUM"},
  {"name", "string", optional = true},
}

---Sums (or averages) the gradients of num_mini_batches calls, then applies them once. Captured
---gradients are handed on as the last call has them.
---@class GradientAccumulationOptimizer: IpuOptimizerWrapper
local GradientAccumulationOptimizer = define("GradientAccumulationOptimizer")
GradientAccumulationOptimizer.argument_rows = accumulation_rows

---Over one mini-batch it is the optimizer itself.
function GradientAccumulationOptimizer.substitute(...)
  local a = args.check("GradientAccumulationOptimizer", accumulation_rows, ...)
  return a.num_mini_batches == 1 and delegating.check("GradientAccumulationOptimizer", a.opt)
end

function GradientAccumulationOptimizer:init(...)
  local a = args.check(self.__name, accumulation_rows, ...)
  offloading.check_updates(self.__name, a)
  self:init_wrapper(a.opt, a.name)
  rawset(self, "settings", a)
  rawset(self, "accumulators", {})
  rawset(self, "sums", {}) -- the same, in the order of their making
  rawset(self, "counter",
    variables.Variable{core.tensor(0, "int32"), name = self.name .. "/counter", trainable = false})
end

local function accumulator_of(self, v)
  local id = core.variable_identity(v)
  local found = self.accumulators[id]
  if not found then
    local dtype = accumulation.dtype(self.name, self.settings.dtype, v)
    found = variables.make_alone(self.name .. "/" .. v.name, dtype, v.shape, false, function()
      return core.full(v.shape, 0, dtype)
    end)
    self.accumulators[id] = found
    self.sums[#self.sums + 1] = found
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

function GradientAccumulationOptimizer:own_weights()
  return {self.counter, table.unpack(self.sums)}
end

-- Captured gradients have a row for each sample, so batches of several sizes have no sum. The
-- wrapped optimizer gets the captured gradients of the last mini-batch.
function GradientAccumulationOptimizer:apply_gradients(...)
  local count, method = self.settings.num_mini_batches, self.settings.reduction_method
  local given, options = as_pairs(...)
  if count == 1 then return self.opt:apply_gradients(given, nil, options) end
  offloading.of_updates(self.name, self.settings)
  gradients.check_pairs(self, given) -- or a part of a refused step would be in the sums
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
  local due = ops.equal(self.counter, count)
  local function apply()
    local now = {}
    for i, sum in ipairs(sums) do now[i] = sum:read_value() end
    base.apply_accumulated(true, self.opt, now, list, options)
    for _, sum in ipairs(sums) do sum:assign(ops.zeros_like(sum)) end
    self.counter:assign(0)
  end
  loops.cond(due, apply, function() end)
end

about.say("optimizers", {
  {"CrossReplicaOptimizer",
    source = "ipu.keras.optimizers.CrossReplicaOptimizer of Graphcore's TensorFlow 2.6"},
  {"GradientAccumulationOptimizer",
    source = "ipu.keras.optimizers.GradientAccumulationOptimizer of Graphcore's TensorFlow 2.6"},
  {"MapGradientOptimizer",
    source = "ipu.keras.optimizers.MapGradientOptimizer of Graphcore's TensorFlow 2.6"},
  {"MapGradientOptimizerInvertedChaining",
    text = "As MapGradientOptimizer, the map being applied last.",
    source = "ipu.keras.optimizers.MapGradientOptimizerInvertedChaining of Graphcore's "
      .. "TensorFlow 2.6"},
})

return wrappers
