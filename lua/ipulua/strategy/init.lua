-- IPUStrategy: variables made in its scope live on the IPU, and functions that it runs are
-- compiled.

local args = require "ipulua.base.args"
local blame = require "ipulua.base.blame"
local class = require "ipulua.base.class"
local core = require "ipulua.core"
local func = require "ipulua.trace.func"
local placement = require "ipulua.trace.placement"
local scope = require "ipulua.base.scope"
local structure = require "ipulua.base.structure"
local tracing = require "ipulua.trace.tracing"

local strategy = {}

---Variables made in its scope live on the IPU, and functions that it runs are compiled. A device of
---several IPUs makes replicas, or the shards or stages of a model.
---Errors: a device of another form; when it is used, one that is not configured:
---`ipu.IPUStrategy("/device:GPU:0")`
---Source: ipu_strategy.IPUStrategyV1 of Graphcore's TensorFlow 2.6
---@class IPUStrategy
local IPUStrategy = class.new("IPUStrategy")

local strategy_spec <const> = {
  {"ipu_device", "string", "/device:IPU:0"}, {"cpu_device", "string", "/device:CPU:0"},
  {"enable_dataset_iterators", "boolean", true, says = "dataset:iterator() gives an infeed"},
  {"enable_keras_extensions", "boolean", true, says = "changes nothing"},
}

function IPUStrategy:init(...)
  local a = args.check("IPUStrategy", strategy_spec, ...)
  placement.check_ipu("IPUStrategy", a.ipu_device)
  self.ipu_device, self.cpu_device = a.ipu_device, a.cpu_device
  self.enable_dataset_iterators, self.enable_keras_extensions = a.enable_dataset_iterators,
    a.enable_keras_extensions
  self.num_replicas_in_sync = 1
end

function IPUStrategy:__tostring() return "<IPUStrategy " .. self.ipu_device .. ">" end

---Until it is closed, models and variables are made for the strategy's device:
---`local _ <close> = strategy:scope()`.
---@return Scope
function IPUStrategy:scope()
  local leave = placement.enter_device("IPUStrategy", self.ipu_device)
  local former = core.here().strategy
  core.here().strategy = self
  return scope.new("strategy:scope()", function()
    core.here().strategy = former
    leave()
  end)
end

---The strategy whose scope is open, nil outside.
---@return IPUStrategy?
function strategy.current() return core.here().strategy end

local function refuse_float64(value, role)
  for _, leaf in ipairs((structure.flatten(value))) do
    if not core.is_variable(leaf) and (core.type_of(leaf)) == "float64" then
      blame.error(string.format("strategy:run: float64 is not supported for an %s; cast it to "
        .. "float32", role), "type")
    end
  end
end

local run_spec <const> = {
  {"fn", "any", one = true, of = "Function"},
  {"args", "any", optional = true, of = "anything or list of it",
    says = "its arguments by position"},
  {"kwargs", "table", optional = true, says = "its last argument: options by name"},
}

-- {a, b, name = c}: positional ones, then one table of the named ones.
local function spread(given)
  if given == nil then return {n = 0} end
  if not structure.is_plain(given) then return {n = 1, given} end
  local list, named = {n = 0}, nil
  for k, v in pairs(given) do
    if math.type(k) == "integer" then
      list[k] = v
      if k > list.n then list.n = k end
    else
      named = named or {}
      named[k] = v
    end
  end
  if named then
    list.n = list.n + 1
    list[list.n] = named
  end
  return list
end

---Begin to run a compiled function, and go on at once.
---Shapes: as fn takes and gives them
---Errors: as run's; errors while it runs are raised by wait(): `ipu.IPUStrategy():run_async(print)`
---@return Job
function IPUStrategy:run_async(...)
  local a = args.check("IPUStrategy.run_async", run_spec, ...)
  func.check_traced(a.fn, "strategy:run_async")
  local given = spread(a.args)
  refuse_float64(given, "input")
  return self:on_device(function() return a.fn:start(table.unpack(given, 1, given.n)) end)
end

-- Programs run where the strategy is.
function IPUStrategy:on_device(f)
  local leave = placement.enter_device("IPUStrategy", self.ipu_device)
  local _ <close> = setmetatable({}, {__close = leave})
  return f()
end

local reductions <const> = {SUM = "cross_replica_sum", MEAN = "cross_replica_mean"}

---Inside a compiled function the sum or mean over the replicas, elsewhere the value itself.
---Shapes: [...] → [...]
---Errors: a reduction other than SUM and MEAN: `ipu.IPUStrategy():reduce("MAX", x)`
---@param reduce_op string SUM or MEAN
---@param value userdata
---@return userdata
function IPUStrategy:reduce(reduce_op, value) -- luacheck: ignore 212
  local name = type(reduce_op) == "string" and reductions[reduce_op:upper()]
  if not name then
    blame.error("strategy:reduce: the reduction must be SUM or MEAN, got "
      .. args.describe(reduce_op), "value")
  end
  if not tracing.is_active() then return value end
  return core.ops[name](value)
end

---Run a compiled function; {a, b, name = c} are its arguments.
---Shapes: as fn takes and gives them
---Errors: fn is not made by ipu.func, float64 inputs or results: `ipu.IPUStrategy():run(print)`
---@return any
function IPUStrategy:run(...)
  local a = args.check("IPUStrategy.run", run_spec, ...)
  func.check_traced(a.fn, "strategy:run")
  local given = spread(a.args)
  refuse_float64(given, "input")
  local results = self:on_device(function()
    return table.pack(a.fn(table.unpack(given, 1, given.n)))
  end)
  refuse_float64(results, "output")
  return table.unpack(results, 1, results.n)
end

function IPUStrategy:experimental_run_v2()
  blame.error("strategy:experimental_run_v2 was removed; use strategy:run(fn, {args})", "runtime")
end

strategy.IPUStrategy = class.guard(IPUStrategy)
return strategy
