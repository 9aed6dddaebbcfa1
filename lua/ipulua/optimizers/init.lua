-- ipu.optimizers: wrappers around the optimizers of ipu.train.

local accumulation = require "ipulua.optimizers.accumulation"
local args = require "ipulua.base.args"
local blame = require "ipulua.base.blame"
local class = require "ipulua.base.class"
local core = require "ipulua.core"
local counted = require "ipulua.base.counted"
local loops = require "ipulua.trace.loops"
local offloading = require "ipulua.trace.offloading"
local operation = require "ipulua.trace.operation"
local replication = require "ipulua.trace.replication"
local teams = require "ipulua.config.teams"
local tracing = require "ipulua.trace.tracing"
local train = require "ipulua.optimizers.train"

local optimizers = {}

-- ------------------------------------------------ the base class

local wrapper_spec <const> = {{"opt", "any", one = true, of = "Optimizer", says = "of ipu.train"},
  {"name", "string", optional = true}}

---The base class of wrappers, to be extended. It hands everything on to the optimizer that it
---wraps.
---Shapes: gradients and variables alike
---Errors: opt is no optimizer of ipu.train: `ipu.optimizers.IpuOptimizer "sgd"`
---Source: optimizers.IpuOptimizer of Graphcore's TensorFlow 2.6
---@class IpuOptimizer: Optimizer
local IpuOptimizer = train.Optimizer:extend("IpuOptimizer")
optimizers.IpuOptimizer = IpuOptimizer

local function check_wrapped(name, opt)
  if train.is_optimizer(opt) then return end
  blame.error(string.format("%s wraps an optimizer of ipu.train, got %s; Keras optimizers have "
    .. "wrappers of their own in "
    .. "ipu.keras.optimizers", name, args.describe(opt)), "value")
end

function IpuOptimizer:init(...)
  local own = getmetatable(self).__name
  local a = args.check(own, wrapper_spec, ...)
  check_wrapped(own, a.opt)
  train.Optimizer.init(self, nil, a.name or own)
  self.wrapped = a.opt
end

local of_inner <const> = "wrapped/"
local tensors_row <const> = {"tensors", "table"}

---@package
function IpuOptimizer:entries()
  local list = train.Optimizer.entries(self)
  for _, entry in ipairs(self.wrapped:entries()) do
    list[#list + 1] = {path = of_inner .. entry.path, variable = entry.variable}
  end
  return list
end

---@package
function IpuOptimizer:restore(tensors)
  args.check_value("restore", tensors_row, tensors)
  train.Optimizer.restore(self, tensors)
  local of_wrapped = {}
  for path, t in pairs(tensors) do
    local inner = type(path) == "string" and path:match("^" .. of_inner .. "(.*)$")
    if inner then of_wrapped[inner] = t end
  end
  self.wrapped:restore(of_wrapped)
end

function IpuOptimizer:compute_gradients(...) return self.wrapped:compute_gradients(...) end
function IpuOptimizer:apply_gradients(...) return self.wrapped:apply_gradients(...) end

local function define(name, base)
  local Class = (base or IpuOptimizer):extend(name)
  optimizers[name] = Class
  return Class
end

-- ------------------------------------------------ replicas and shards

---Hands on the mean of each gradient over the replicas.
---Shapes: gradients and variables alike
---Errors: opt is no optimizer of ipu.train: `ipu.optimizers.CrossReplicaOptimizer "sgd"`
---Source: optimizers.CrossReplicaOptimizer of Graphcore's TensorFlow 2.6
---@class CrossReplicaOptimizer: IpuOptimizer
local CrossReplicaOptimizer = define("CrossReplicaOptimizer")

function CrossReplicaOptimizer:init(...)
  local a = args.check("CrossReplicaOptimizer", wrapper_spec, ...)
  IpuOptimizer.init(self, a.opt, a.name)
  local inside = a.opt
  while inside do -- the wrapped optimizer gets the means
    inside.gets_means = true
    inside = inside.wrapped
  end
end

function CrossReplicaOptimizer:apply_gradients(...)
  teams.refuse_wrapper(self.name)
  local given, step = train.read_apply_arguments(self, ...)
  local means = {}
  for i, pair in ipairs(given) do
    means[i] = {pair[1] and core.ops.cross_replica_mean(pair[1]), pair[2]}
  end
  return self.wrapped:apply_gradients(means, {global_step = step})
end

---For models cut by ipu_shard: an update stands on the shard of its variable.
---Shapes: gradients and variables alike
---Errors: opt is no optimizer of ipu.train: `ipu.optimizers.ShardedOptimizer "sgd"`
---Source: optimizers.ShardedOptimizer of Graphcore's TensorFlow 2.6
---@class ShardedOptimizer: IpuOptimizer
local ShardedOptimizer = define("ShardedOptimizer")

---Gradients stand on the shards of the ops that they belong to, with or without this wrapper.
function ShardedOptimizer:init(...)
  local a = args.check("ShardedOptimizer", wrapper_spec, ...)
  IpuOptimizer.init(self, a.opt, a.name)
end

-- ------------------------------------------------ a function over the gradients

---Hands on f(gradient, variable) in place of each gradient. A sum accumulated in another dtype than
---the variable's goes through f once more: it may cast.
---Shapes: f gives a gradient of the shape that it is given
---Errors: opt is no optimizer of ipu.train, a mapping that is no function:
---`ipu.optimizers.MapGradientOptimizer("sgd", print)`
---Source: optimizers.MapGradientOptimizer of Graphcore's TensorFlow 2.6
---@class MapGradientOptimizer: IpuOptimizer
local MapGradientOptimizer = define("MapGradientOptimizer")

local map_spec <const> = {
  {"wrapped_optimizer", "any", one = true, of = "Optimizer", says = "of ipu.train"},
  {"gradient_mapping_function", "callable"},
  {"name", "string", optional = true},
}

function MapGradientOptimizer:init(...)
  local a = args.check("MapGradientOptimizer", map_spec, ...)
  IpuOptimizer.init(self, a.wrapped_optimizer, a.name)
  self.map = a.gradient_mapping_function
end

function MapGradientOptimizer:compute_gradients(...)
  local given = self.wrapped:compute_gradients(...)
  for _, pair in ipairs(given) do
    if pair[1] then pair[1] = self.map(pair[1], pair[2]) end
  end
  return given
end

---A sum accumulated in another dtype than the variable's goes through the function once more: it
---may cast.
---Shapes: each gradient has its variable's shape
---Errors: as the wrapped optimizer's:
---`ipu.optimizers.MapGradientOptimizer(ipu.train.AdamOptimizer(0.1), print):apply_gradients{}`
---@param ... any as Optimizer's
---@return Operation
function MapGradientOptimizer:apply_gradients(...)
  local given, step = train.read_apply_arguments(self, ...)
  local fitting = {}
  for i, pair in ipairs(given) do
    local g, v = pair[1], pair[2]
    local is_mapped = not g or g.dtype == v.dtype
    fitting[i] = {is_mapped and g or self.map(g, v), v}
  end
  return self.wrapped:apply_gradients(fitting, {global_step = step})
end

-- ------------------------------------------------ accumulation

local accumulation_spec <const> = {
  {"opt", "any", one = true, of = "Optimizer", says = "of ipu.train"},
  {"num_mini_batches", "integer", range = "[1, inf)", says = "iterations to an update"},
  {"offload_weight_update_variables", "boolean", optional = true,
    says = "momenta and the like in streaming memory; not by default"},
  {"replicated_optimizer_state_sharding", "boolean", false,
    says = "a share of them for each replica"},
  {"dtype", {"dtype", "function"}, optional = true,
    says = "of the sums, or a function of the variable; the variable's by default"},
  {"reduction_method", "any", "SUM", of = "SUM, MEAN or RUNNING_MEAN"},
  {"name", "string", optional = true},
}

---In a training loop: gradients of num_mini_batches iterations are accumulated, then the wrapped
---optimizer makes one update.
---Shapes: gradients and variables alike
---Errors: num_mini_batches below 1; when it is applied, outside of a training loop or in one whose
---count is no multiple:
---`ipu.optimizers.GradientAccumulationOptimizerV2(ipu.train.GradientDescentOptimizer(0.1), 0)`
---Source: gradient_accumulation_optimizer.GradientAccumulationOptimizerV2 of
---Graphcore's TensorFlow 2.6
---@class GradientAccumulationOptimizerV2: IpuOptimizer
local GradientAccumulationOptimizerV2 = define("GradientAccumulationOptimizerV2")
GradientAccumulationOptimizerV2.argument_rows = accumulation_spec

local function check_count(name, count)
  if count < 1 then
    blame.error(string.format("%s: 'num_mini_batches' must be a positive number, got %d", name,
      count), "value")
  end
end

function GradientAccumulationOptimizerV2:init(...)
  local name = getmetatable(self).__name
  local a = args.check(name, accumulation_spec, ...)
  check_count(name, a.num_mini_batches)
  offloading.check_updates(name, a)
  IpuOptimizer.init(self, a.opt, a.name)
  self.count = a.num_mini_batches
  self.reduction = accumulation.parse_reduction(name, a.reduction_method)
  self.dtype = a.dtype
  self.verify_usage = true
  self.offloaded = a
end

-- Updates happen every count-th iteration, so the loop must end with one.
local function check_loop(self)
  local loop = loops.innermost()
  if not loop or loop.kind ~= "repeat" then
    blame.error(string.format("%s accumulates over the iterations of a training loop: call it in "
      .. "the body of ipu.loops.repeat_n "
      .. "or ipu.range", self.name), "failed_precondition")
  end
  if loop.count and loop.count % self.count ~= 0 then
    blame.error(string.format("%s accumulates over %d mini-batches, but the loop has %s; the "
      .. "iterations must be a "
      .. "multiple of the mini-batches", self.name, self.count, counted(loop.count, "iteration")),
      "failed_precondition")
  end
end

local function update(self, given, step)
  local counter = self:scalar("counter", 0, "int32")
  local n = counter:read_value()
  local accumulated = {}
  for _, pair in ipairs(given) do
    local g, v = pair[1], pair[2]
    if g then
      local accumulator = self:slot(v, "accumulator", 0,
        accumulation.dtype(self.name, self.dtype, v))
      accumulator.of_optimizer = false -- every mini-batch adds to it
      accumulator:assign(accumulation.add(accumulator:read_value(), g, self.reduction,
        self.count, n))
      accumulated[#accumulated + 1] = {accumulator, v}
    end
  end
  counter:assign_add(1)
  loops.cond(core.ops.equal(counter, self.count), function()
    local sums = {}
    for i, pair in ipairs(accumulated) do sums[i] = {pair[1]:read_value(), pair[2]} end
    self.wrapped:apply_gradients(sums, {global_step = step})
    for _, pair in ipairs(accumulated) do
      pair[1]:assign(tracing.outside(core.full, pair[1].shape, 0, pair[1].dtype))
    end
    counter:assign(0)
  end, function() end)
  return operation.new(self.name)
end

function GradientAccumulationOptimizerV2:apply_gradients(...)
  local given, step = train.read_apply_arguments(self, ...)
  if self.count == 1 then return self.wrapped:apply_gradients(given, {global_step = step}) end
  if self.verify_usage then check_loop(self) end
  if self.offloaded then offloading.of_updates(self.name, self.offloaded) end
  return update(self, given, step)
end

---GradientAccumulationOptimizerV2, its sums averaged over the replicas.
---Shapes: gradients and variables alike
---Errors: as GradientAccumulationOptimizerV2's:
---`ipu.optimizers.CrossReplicaGradientAccumulationOptimizerV2("sgd", 4)`
---Source: gradient_accumulation_optimizer.CrossReplicaGradientAccumulationOptimizerV2 of
---Graphcore's TensorFlow 2.6
---@class CrossReplicaGradientAccumulationOptimizerV2: GradientAccumulationOptimizerV2
local CrossReplicaV2 = define("CrossReplicaGradientAccumulationOptimizerV2",
  GradientAccumulationOptimizerV2)

function CrossReplicaV2:init(...)
  GradientAccumulationOptimizerV2.init(self, ...)
  self.wrapped = CrossReplicaOptimizer(self.wrapped)
end

-- The first version: sums, and rules that are linear in the gradient.
local first_spec <const> = {
  {"opt", "any", one = true, of = "Optimizer", says = "of ipu.train"},
  {"num_mini_batches", "integer", range = "[1, inf)", says = "iterations to an update"},
  {"verify_usage", "boolean", true, says = "an error outside of a training loop"},
  {"name", "string", optional = true},
}

---The first version: sums, for GradientDescentOptimizer and MomentumOptimizer.
---Shapes: gradients and variables alike
---Errors: as V2's; another optimizer inside:
---`ipu.optimizers.GradientAccumulationOptimizer(ipu.train.AdamOptimizer(), 4)`
---Source: gradient_accumulation_optimizer.GradientAccumulationOptimizer of
---Graphcore's TensorFlow 2.6
---@class GradientAccumulationOptimizer: GradientAccumulationOptimizerV2
local GradientAccumulationOptimizer = define("GradientAccumulationOptimizer",
  GradientAccumulationOptimizerV2)
GradientAccumulationOptimizer.argument_rows = first_spec

local function innermost_optimizer(opt)
  while opt.wrapped do opt = opt.wrapped end
  return opt
end

function GradientAccumulationOptimizer:init(...)
  local name = getmetatable(self).__name
  local a = args.check(name, first_spec, ...)
  check_count(name, a.num_mini_batches)
  IpuOptimizer.init(self, a.opt, a.name)
  local inner = innermost_optimizer(a.opt)
  if not (inner:is_a(train.GradientDescentOptimizer) or inner:is_a(train.MomentumOptimizer)) then
    blame.error(string.format("%s works with GradientDescentOptimizer and MomentumOptimizer, got "
      .. "%s; "
      .. "GradientAccumulationOptimizerV2 takes any", name, inner.name), "value")
  end
  self.count, self.reduction, self.verify_usage = a.num_mini_batches, "SUM", a.verify_usage
end

-- Momenta of each replica's own gradients would take the replicas' weights apart.
local function check_momenta(self)
  local inner = innermost_optimizer(self)
  if self.gets_means or inner.gets_means or not inner:is_a(train.MomentumOptimizer) then return end
  local replicas = replication.count()
  if replicas == 1 then return end
  blame.error(string.format("%s: on %d replicas each would keep momenta, and with them weights, "
    .. "of its own; CrossReplicaGradientAccumulationOptimizer averages over the replicas",
    self.name, replicas), "failed_precondition")
end

function GradientAccumulationOptimizer:apply_gradients(...)
  check_momenta(self)
  return GradientAccumulationOptimizerV2.apply_gradients(self, ...)
end

---GradientAccumulationOptimizer, its sums averaged over the replicas.
---Shapes: gradients and variables alike
---Errors: as GradientAccumulationOptimizer's:
---`ipu.optimizers.CrossReplicaGradientAccumulationOptimizer("sgd", 4)`
---Source: gradient_accumulation_optimizer.CrossReplicaGradientAccumulationOptimizer of
---Graphcore's TensorFlow 2.6
---@class CrossReplicaGradientAccumulationOptimizer: GradientAccumulationOptimizer
local CrossReplicaV1 = define("CrossReplicaGradientAccumulationOptimizer",
  GradientAccumulationOptimizer)

function CrossReplicaV1:init(...)
  GradientAccumulationOptimizer.init(self, ...)
  self.wrapped = CrossReplicaOptimizer(self.wrapped)
end

class.guard_all(optimizers)

return optimizers
