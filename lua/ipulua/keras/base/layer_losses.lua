-- A layer's losses and metrics, which it adds while it is called, and the penalties of its
-- regularizers.

local args = require "ipulua.base.args"
local blame = require "ipulua.base.blame"
local context = require "ipulua.keras.base.context"
local core = require "ipulua.core"
local KerasTensor = require "ipulua.keras.base.tensor"
local nest = require "ipulua.base.nest"
local stages = require "ipulua.keras.models.stage_scope"
local tracing = require "ipulua.trace.tracing"

local kept <const> = require "ipulua.keras.base.layer_fields".get

---@class Layer
local Layer = {} -- functions of this file for the class
local properties = {}

local function is_value(x)
  return core.is_tensor(x) or core.is_variable(x) or type(x) == "number"
end

local function is_callable(f)
  local meta = type(f) == "table" and getmetatable(f)
  return type(f) == "function" or type(meta) == "table" and meta.__call ~= nil
end

-- A call's losses last until the next call; functions that are added outside of calls stay.
local function add_one(self, loss)
  if KerasTensor.is(loss) then return self:watch("add_loss", loss) end
  if not is_value(loss) and not is_callable(loss) then
    blame.error("add_loss: 'loss' must be a tensor, a number or a function that gives one, got "
      .. args.describe(loss), "type")
  end
  local in_call = context.depth > 0 and not self._building
  if not in_call and is_value(loss) then
    blame.error(string.format("add_loss: outside of a call, layer '%s' takes a function, or a "
      .. "tensor of a functional model; a value would be of the past in the next step", self.name),
      "value")
  end
  local list = in_call and self._losses or self._lasting_losses
  list[#list + 1] = loss
end

---Adds a loss to the compiled one. In a call it is a scalar, or a function that gives one. Outside
---of calls it is a function, which each step calls, or a tensor of a functional model.
---Shapes: []
---Errors: a loss that is no tensor, number or function: `keras.layers.Layer():add_loss "mse"`
---@param loss any tensor, number or function that gives one, or a list
function Layer:add_loss(loss)
  self:ensure_initialised()
  if context.inferring then return end
  for _, each in ipairs(args.is_plain(loss) and loss or {loss}) do add_one(self, each) end
end

-- The metric of a name that add_metric was given, made at the first time.
local function named_metric(self, name)
  local metric = self._metrics[name]
  if metric then return metric end
  metric = require "ipulua.keras.metrics".Mean{name = name}
  self._metrics[name] = metric
  self._metrics[#self._metrics + 1] = metric
  return metric
end

-- A value that a metric gave is that metric's: it shows its mean already, under its own name.
local function show_metric(self, metric)
  for _, each in ipairs(self:all_metrics()) do
    if rawequal(each, metric) then return end
  end
  self._metrics[#self._metrics + 1] = metric
end

local metric_rows <const> = {
  {"name", "string"}, {"aggregation", "string", "mean", choices = {"mean"}},
}

---Shows the mean of a value as a metric of the model; outside of calls the value is a tensor of a
---functional model. The value of a metric object is shown by that object, under its name.
---Shapes: value any, averaged
---Errors: a value without a name: `keras.layers.Layer():add_metric(x)`
---@param value any tensor
---@param options {name: string, aggregation: string?}?
function Layer:add_metric(value, options)
  self:ensure_initialised()
  local origin = require "ipulua.keras.metrics.base".origin(value)
  if origin then return show_metric(self, origin) end
  local name = args.check("add_metric", metric_rows, options).name
  local metric = named_metric(self, name)
  if KerasTensor.is(value) then return self:watch("add_metric", value, name) end
  if not context.inferring then metric:update_state(value) end
end

---A tensor of a functional model whose value is a loss or a metric; only such models have them.
---@package
function Layer:watch(who)
  blame.error(string.format("%s: '%s' is no functional model, so a symbolic tensor can't be added "
    .. "to it; add it to the model, or a value in "
    .. "the layer's call", who, self.name), "value")
end

-- A regularizer's penalty for a value; it may be a function of the script's.
local function penalty(self, which, regularizer, value)
  local loss = regularizer(value)
  if core.is_tensor(loss) or core.is_variable(loss) or type(loss) == "number" then return loss end
  blame.error(string.format("layer '%s': its %s must return a tensor, got %s", self.name, which,
    args.describe(loss)), "type")
end

-- The added loss, evaluated if it is a function.
local function added(layer, loss)
  if is_value(loss) then return loss end
  local value = loss()
  if is_value(value) then return value end
  blame.error(string.format("layer '%s': a function given to add_loss must return a tensor, got %s",
    layer.name, args.describe(value)), "type")
end

-- f(layer, …), in the graph of sessions if the layer was last called with values of it: then
-- weights are read when a session runs.
local function evaluated(f, layer, ...)
  if kept(layer, "_of_graph") and not tracing.is_active() then
    return tracing.in_graph(f, layer, ...)
  end
  return f(layer, ...)
end

function properties.losses(self)
  local list, seen = {}, {}
  self:walk(function(layer)
    for _, each in ipairs{layer._losses, layer._lasting_losses} do
      for _, loss in ipairs(each) do list[#list + 1] = evaluated(added, layer, loss) end
    end
    for _, v in ipairs(layer.trainable and layer:own_variables() or {}) do
      local id = core.variable_identity(v)
      if v.regularizer and v.trainable and not seen[id] then
        seen[id] = true
        local _ <close> = stages.beside(id)
        list[#list + 1] = evaluated(penalty, layer,
          "regularizer of '" .. (v.weight_name or v.name) .. "'", v.regularizer, v)
      end
    end
  end)
  return list
end

---Metrics of this layer alone: first the ones of add_metric, then the ones in its fields.
---@return Metric[]
---@package
function Layer:all_metrics()
  local list = table.move(self._metrics, 1, #self._metrics, 1, {})
  local in_fields = self:field_metrics()
  return table.move(in_fields, 1, #in_fields, #list + 1, list)
end

function properties.metrics(self)
  local list = {}
  self:walk(function(layer)
    for _, metric in ipairs(layer:all_metrics()) do list[#list + 1] = metric end
  end)
  return list
end

---Adds the penalty of activity_regularizer for the results of a call, a packed list: the mean over
---the batch.
---@package
function Layer:add_activity_loss(results)
  if not self.activity_regularizer or context.inferring then return end
  for i = 1, results.n do
    for _, leaf in ipairs(nest.flatten(results[i])) do
      self:add_loss(penalty(self, "activity_regularizer", self.activity_regularizer, leaf)
        / leaf.shape[1])
    end
  end
end

return {methods = Layer, properties = properties}
