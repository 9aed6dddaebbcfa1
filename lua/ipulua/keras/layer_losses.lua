-- A layer's losses and metrics: those that it adds while it is called, and the penalties of its regularizers.

local args = require "ipulua.args"
local blame = require "ipulua.blame"
local context = require "ipulua.keras.context"
local core = require "ipulua.core"
local nest = require "ipulua.keras.nest"
local stages = require "ipulua.keras.stages"

---@class Layer
local Layer = {} -- what the class gets of this file
local properties = {}

local function is_callable(f)
  local meta = type(f) == "table" and getmetatable(f)
  return type(f) == "function" or type(meta) == "table" and meta.__call ~= nil
end

---Adds a loss: a scalar (or a function that gives one), which training adds to the compiled loss.
---Shapes: []
---Errors: a loss that is no tensor, number or function: `keras.layers.Layer():add_loss "mse"`
---@param loss any tensor, number or function that gives one, or a list
function Layer:add_loss(loss)
  self:ensure_initialised()
  if context.inferring then return end
  for _, each in ipairs(args.is_plain(loss) and loss or {loss}) do
    if not (core.is_tensor(each) or core.is_variable(each) or type(each) == "number" or is_callable(each)) then
      blame.error("add_loss: 'loss' must be a tensor, a number or a function that gives one, got " .. args.describe(each), "type")
    end
    self._losses[#self._losses + 1] = each
  end
end

---Shows the mean of a value as a metric of the model.
---Shapes: value any, averaged
---Errors: a value without a name: `keras.layers.Layer():add_metric(x)`
---@param value any tensor
---@param options {name: string, aggregation: string?}?
function Layer:add_metric(value, options)
  self:ensure_initialised()
  local name = type(options) == "string" and options or args.is_plain(options) and options.name
  if type(name) ~= "string" then blame.error("add_metric: 'name' is missing; it must be a string", "value") end
  local metrics = require "ipulua.keras.metrics"
  local metric = self._metrics[name]
  if not metric then
    metric = metrics.Mean{name = name}
    self._metrics[name] = metric
    self._metrics[#self._metrics + 1] = metric
  end
  if not context.inferring then metric:update_state(value) end
end

-- What a regularizer gives for a value: it may be a function of the script's.
local function penalty(self, which, regularizer, value)
  local loss = regularizer(value)
  if core.is_tensor(loss) or core.is_variable(loss) or type(loss) == "number" then return loss end
  blame.error(string.format("layer '%s': its %s must return a tensor, got %s", self.name, which, args.describe(loss)), "type")
end

function properties.losses(self)
  local list, seen = {}, {}
  self:walk(function(layer)
    for _, loss in ipairs(layer._losses) do list[#list + 1] = type(loss) == "function" and loss() or loss end
    for _, v in ipairs(layer.trainable and layer:own_variables() or {}) do
      local id = core.variable_identity(v)
      if v.regularizer and v.trainable and not seen[id] then
        seen[id] = true
        local _ <close> = stages.beside(id)
        list[#list + 1] = penalty(layer, "regularizer of '" .. (v.weight_name or v.name) .. "'", v.regularizer, v)
      end
    end
  end)
  return list
end

function properties.metrics(self)
  local list = {}
  self:walk(function(layer)
    for _, metric in ipairs(layer._metrics) do list[#list + 1] = metric end
  end)
  return list
end

---Adds what activity_regularizer gives for the results of a call, a packed list: the mean over the batch.
---@package
function Layer:add_activity_loss(results)
  if not self.activity_regularizer or context.inferring then return end
  for i = 1, results.n do
    for _, leaf in ipairs(nest.flatten(results[i])) do
      self:add_loss(penalty(self, "activity_regularizer", self.activity_regularizer, leaf) / leaf.shape[1])
    end
  end
end

return {methods = Layer, properties = properties}
