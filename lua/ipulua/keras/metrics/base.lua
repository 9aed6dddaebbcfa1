-- Metrics: variables, to which each batch is added, and a result computed from them. Both are ops,
-- so a metric works eagerly and inside a training program.

local about = require "ipulua.base.parts.about"
local class_numbers = require "ipulua.keras.base.class_numbers"
local args = require "ipulua.base.args"
local blame = require "ipulua.base.blame"
local class = require "ipulua.base.class"
local core = require "ipulua.core"
local names = require "ipulua.base.parts.names"
local nest = require "ipulua.base.nest"
local ops = require "ipulua.ops"
local parts = require "ipulua.base.parts"
local shapes = require "ipulua.keras.base.shapes"
local tracing = require "ipulua.trace.tracing"
local variables = require "ipulua.trace.variables"

local base = {}

---@class Metric: Class
---@field name string
---@field usual_name string? of a class whose objects aren't named after it
---@field variables userdata[]
---@overload fun(...: any): userdata
local Metric = parts.declare("Metric", parts.Part, {},
  {{"name", "string", optional = true}, {"dtype", "dtype", "float32"}})
base.Metric = Metric
-- metrics in the fields are found as well
require "ipulua.keras.base.layer_fields".Metric = Metric

base.common_rows = {{"name", "string", optional = true}, {"dtype", "dtype", "float32"}}

---A new kind of metric; see parts.declare.
---@param name string
---@param rows table[]
---@param parent table?
function base.declare(name, rows, parent)
  return parts.declare(name, parent or Metric, rows, base.common_rows)
end

function Metric:init(...)
  for name, value in next, parts.read(self, class.of(self), ...) do self[name] = value end
  self.name = self.name or self.usual_name or names.snake(self.__name)
  self.variables = {}
  if self.setup then self:setup() end
end

local weight_rows <const> = {
  {"name", "string"}, {"shape", "integers", {}},
  {"initializer", {"string", "number", "table", "callable"}, "zeros"},
  {"dtype", "dtype", optional = true},
}

---A variable of the metric's state.
---@return userdata
function Metric:add_weight(...)
  local a = args.check("add_weight", weight_rows, ...)
  local initializer = a.initializer
  if type(initializer) == "number" then
    initializer = {class_name = "Constant", config = {value = initializer}}
  end
  local dtype = a.dtype or self.dtype
  local value = tracing.outside(parts.get("initializer", initializer), a.shape, {dtype = dtype})
  local v = variables.Variable{
    shapes.first_value(a.name, value, dtype, a.shape),
    name = self.name .. "/" .. a.name, trainable = false, synchronization = "ON_READ",
    aggregation = "SUM",
  }
  self.variables[#self.variables + 1] = v
  return v
end

---Takes a batch in. Metrics override it.
function Metric:update_state()
  blame.error(self.__name .. " defines no update_state", "not_implemented")
end

---The value so far. Metrics override it.
function Metric:result()
  blame.error(self.__name .. " defines no result", "not_implemented")
end

-- Variables and metrics in a metric's fields, besides the variables of add_weight: for example the
-- precision and recall of their mean. Plain tables in the fields are searched, too.
local function in_fields(metric)
  local found, seen = {variables = {}, metrics = {}}, {[metric] = true}
  for _, v in ipairs(metric.variables) do seen[core.variable_identity(v)] = true end
  local function walk(value)
    local id = core.is_variable(value) and core.variable_identity(value) or type(value) == "table"
      and value
    if not id or seen[id] then return end
    seen[id] = true
    if id ~= value then
      table.insert(found.variables, value)
    elseif class.is_a(value, Metric) then
      table.insert(found.metrics, value)
    elseif not class.of(value) and not class.is_class(value) then
      for _, key in ipairs(nest.keys(value)) do walk(rawget(value, key)) end
    end
  end
  for _, key in ipairs(nest.keys(metric)) do walk(rawget(metric, key)) end
  return found
end

local function append(list, more) return table.move(more, 1, #more, #list + 1, list) end

---Its own variables, then the variables of metrics in its fields.
---@return userdata[]
---@package
function Metric:all_variables()
  local found, list = in_fields(self), append({}, self.variables)
  append(list, found.variables)
  for _, inner in ipairs(found.metrics) do append(list, inner:all_variables()) end
  return list
end

local function clear(self)
  local found = in_fields(self)
  for _, v in ipairs(append(append({}, self.variables),
    found.variables)) do v:assign(core.full(v.shape, 0, v.dtype)) end
  for _, inner in ipairs(found.metrics) do inner:reset_state() end
end

---Begins anew, with the metrics in its fields.
function Metric:reset_state()
  local has_older = self.reset_states ~= Metric.reset_states
    and self.reset_state == Metric.reset_state
  if has_older then self:reset_states() else clear(self) end
end

---Keras' older name of reset_state. A class may define either.
function Metric:reset_states()
  local has_newer = self.reset_state ~= Metric.reset_state
    and self.reset_states == Metric.reset_states
  if has_newer then self:reset_state() else clear(self) end
end

-- As long as they live, what metrics gave: add_metric shows it by the metric.
local origins = setmetatable({}, {__mode = "k"})

---The metric that gave a value when it was called, nil for any other value.
---@param value any
---@return Metric?
---@package
function base.origin(value) return value ~= nil and origins[value] or nil end

---update_state, then result.
function Metric:__call(...)
  self:update_state(...)
  local result = self:result()
  if core.is_tensor(result) then origins[result] = self end
  return result
end

---@return table
function Metric:get_config()
  return parts.config(self)
end

-- ------------------------------------------------ helpers

---@param value any
---@param dtype string
---@return userdata
function base.as_tensor(value, dtype)
  if core.is_variable(value) then value = value:read_value() end
  if not core.is_tensor(value) then return core.tensor(value, dtype, "what a metric is given") end
  if dtype == "int32" then return class_numbers(value) end
  return value.dtype == dtype and value or ops.cast(value, dtype)
end

---a / b, 0 where b is 0.
function base.divide_no_nan(a, b)
  local zero = ops.equal(b, 0)
  return ops.where(zero, ops.zeros_like(a), a / ops.where(zero, ops.ones_like(b), b))
end

---The weight argument: a tensor, a number, or a table {sample_weight = …}.
function base.weight_of(given)
  if args.is_plain(given) and given.sample_weight ~= nil then return given.sample_weight end
  return given
end

-- ------------------------------------------------ sums and means

local Reduce = base.declare("Reduce", {})

-- Values and weights of equal shapes. Axes of the values beyond the weights' rank are averaged
-- first; for Sum they are summed.
local function weigh(self, values, sample_weight)
  local w = base.as_tensor(sample_weight, self.dtype)
  local rank, weight_rank = #values.shape, #w.shape
  if weight_rank > 0 and weight_rank < rank - 1 then
    local axes = {}
    for axis = weight_rank, rank - 1 do axes[#axes + 1] = axis end
    values = self.counts and ops.reduce_mean(values, {axis = axes})
      or ops.reduce_sum(values, {axis = axes})
  end
  w = shapes.fit_weight(w, values)
  if not shapes.equal(w.shape, values.shape) then w = ops.broadcast_to(w, values.shape) end
  return values, w
end

function Reduce:setup()
  self.total = self:add_weight{name = "total"}
  if self.counts then self.count = self:add_weight{name = "count"} end
end

---Takes a batch of values in; sample_weight is a weight of each.
function Reduce:update_state(values, sample_weight)
  values = base.as_tensor(values, self.dtype)
  sample_weight = base.weight_of(sample_weight)
  local count
  if sample_weight ~= nil then
    local w
    values, w = weigh(self, values, sample_weight)
    values = values * w
    count = ops.reduce_sum(w)
  end
  self.total:assign_add(ops.reduce_sum(values))
  if self.counts then self.count:assign_add(count or values.size) end
end

---The weighted mean of all values.
---@class Mean: Metric
local Mean = base.declare("Mean", {}, Reduce)
base.Mean = Mean
Mean.counts = true
---The value so far.
function Mean:result()
  return base.divide_no_nan(self.total:read_value(), self.count:read_value())
end

---The weighted sum of all values.
---@class Sum: Metric
local Sum = base.declare("Sum", {}, Reduce)
base.Sum = Sum
---The value so far.
function Sum:result() return self.total:read_value() end

---The mean of a function of labels and predictions, which gives a number for each sample.
---@class MeanMetricWrapper: Metric
local MeanMetricWrapper = base.declare("MeanMetricWrapper", {{"fn", "callable"}}, Mean)
base.MeanMetricWrapper = MeanMetricWrapper

-- Calls fn with labels and predictions. Metrics whose function has more arguments override it.
function MeanMetricWrapper:values(y_true, y_pred)
  return self.fn(y_true, y_pred)
end

---Takes a batch in: labels and predictions; sample_weight is a weight of each sample.
function MeanMetricWrapper:update_state(y_true, y_pred, sample_weight)
  y_pred = base.as_tensor(y_pred, self.dtype)
  y_true = base.as_tensor(y_true, self.dtype)
  if not self.is_sparse then y_true, y_pred = shapes.fit_ranks(y_true, y_pred) end
  if self.wants_equal then
    shapes.check_equal(y_true.shape, y_pred.shape, self.name, "y_true", "y_pred")
  end
  Mean.update_state(self, self:values(y_true, y_pred), sample_weight)
end

---The mean of each element over the batches.
---@class MeanTensor: Metric
local MeanTensor = base.declare("MeanTensor", {{"shape", "integers", optional = true}})
base.MeanTensor = MeanTensor

function MeanTensor:setup()
  if self.shape then self:make_state(self.shape) end
end

function MeanTensor:make_state(shape)
  self.total = self:add_weight{name = "total", shape = shape}
  self.count = self:add_weight{name = "count", shape = shape}
end

---Takes a batch of values in; sample_weight is a weight of each.
function MeanTensor:update_state(values, sample_weight)
  values = base.as_tensor(values, self.dtype)
  if not self.total then self:make_state(values.shape) end
  shapes.check_equal(values.shape, self.total.shape, self.name, "the values",
    "the first batch's")
  sample_weight = base.weight_of(sample_weight)
  local w = ops.ones_like(values)
  if sample_weight ~= nil then
    values, w = weigh({dtype = self.dtype, counts = true}, values, sample_weight)
  end
  self.total:assign_add(values * w)
  self.count:assign_add(w)
end

---The value so far.
function MeanTensor:result()
  if not self.total then
    blame.error(self.name .. ": there is no value before the first update", "failed_precondition")
  end
  return base.divide_no_nan(self.total:read_value(), self.count:read_value())
end

about.say("metrics", {
  {"Metric", text = "The base of all metrics; extend it with `update_state(y_true, y_pred, "
    .. "{sample_weight})` and `result()`; `add_weight{name =, shape =}` makes its state, "
    .. "`reset_state()`, or by its older name `reset_states()`, clears it."},
})

return base
