-- A layer's weights: making them, listing them in Keras' order, their values.

local args = require "ipulua.base.args"
local blame = require "ipulua.base.blame"
local context = require "ipulua.keras.base.context"
local core = require "ipulua.core"
local counted = require "ipulua.base.counted"
local held = require "ipulua.keras.base.held"
local initializers = require "ipulua.trace.initializers"
local parts = require "ipulua.base.parts"
local plain = require "ipulua.base.plain"
local shapes = require "ipulua.keras.base.shapes"
local teams = require "ipulua.config.teams"
local variables = require "ipulua.trace.variables"

---@class Layer
local Layer = {} -- functions of this file for the class
local properties = {}

-- ------------------------------------------------ making

local add_weight_rows <const> = {
  {"name", "string", "weight"}, {"shape", {"integers", "integer"}, {}},
  {"dtype", "dtype", optional = true},
  {"initializer", {"string", "table", "callable", "number"}, optional = true},
  {"regularizer", {"string", "table", "callable"}, optional = true,
    for_number = "keras.regularizers.L2"},
  {"trainable", "boolean", true},
  {"constraint", {"string", "table", "callable"}, optional = true,
    for_number = "keras.constraints.MaxNorm"},
}

local function default_initializer(dtype)
  return dtype:find("float") and "glorot_uniform" or "zeros"
end

-- A function that gives a weight its first value, and the number of eager random ops that it calls.
-- The number is nil for initializers that don't tell it. Numbers are drawn as outside of steps,
-- also where a step that runs eagerly makes the weight.
local function first_value(name, initializer, dtype, shape)
  if type(initializer) == "number" then
    return function() return core.full(shape, initializer, dtype) end, 0
  end
  local made = parts.get("initializer", initializer or default_initializer(dtype))
  return function()
    local run, stay = core.set_run_number(nil)
    local value = made(shape, {dtype = dtype})
    core.set_run_number(run, stay)
    return shapes.first_value(name, value, dtype, shape)
  end, initializers._draws(made, dtype)
end

local function check_extents(self, name, shape)
  for _, extent in ipairs(shape) do
    if extent < 0 then
      blame.error(string.format("%s: the weight '%s' would have an unknown extent; say the input's "
        .. "shape", self.name, name), "value")
    end
  end
end

-- The names of the layers being called, down to this one.
local function path_of(self)
  local prefix = table.concat(context.path, "/")
  if context.path[#context.path] == self.name then return prefix end
  return prefix == "" and self.name or prefix .. "/" .. self.name
end

---Makes a variable of the layer; named arguments name, shape, dtype, initializer, regularizer,
---trainable, constraint.
---Shapes: shape
---Errors: an unknown initializer, a dtype that there is not, an extent that is not known:
---`keras.layers.Layer():add_weight{shape = {2}, initializer = "onse"}`
---@param ... any
---@return userdata
function Layer:add_weight(...)
  self:ensure_initialised()
  local a = args.check("add_weight", add_weight_rows, ...)
  local dtype = a.dtype or self.dtype
  local shape = type(a.shape) == "table" and a.shape or {a.shape}
  check_extents(self, a.name, shape)
  local v = variables.make(path_of(self) .. "/" .. a.name, dtype, shape, a.trainable,
    first_value(a.name, a.initializer, dtype, shape))
  v.weight_name = a.name
  teams.note_weight(v)
  v.constraint = parts.get("constraint", a.constraint)
  v.regularizer = parts.get("regularizer", a.regularizer)
  self._own[#self._own + 1] = v
  return v
end

-- ------------------------------------------------ listing

-- Variables, each once, where it is first.
local function distinct(list)
  local out, seen = {}, {}
  for _, v in ipairs(list) do
    local id = core.variable_identity(v)
    if not seen[id] then
      seen[id] = true
      out[#out + 1] = v
    end
  end
  return out
end

local function append(list, more)
  return table.move(more, 1, #more, #list + 1, list)
end

function properties.trainable_weights(self)
  if not self.trainable then return {} end
  local list = {}
  for _, v in ipairs(self:own_variables()) do
    if v.trainable then list[#list + 1] = v end
  end
  for _, layer in ipairs(self:sublayers()) do append(list, layer.trainable_weights) end
  return distinct(list)
end

function properties.non_trainable_weights(self)
  local list, frozen = {}, not self.trainable
  if frozen then -- in the order of weights: trainable ones come first
    for _, v in ipairs(self:own_variables()) do
      if v.trainable then list[#list + 1] = v end
    end
  end
  for _, v in ipairs(self:own_variables()) do
    if not v.trainable then list[#list + 1] = v end
  end
  for _, layer in ipairs(self:sublayers()) do
    append(list, frozen and layer.weights or layer.non_trainable_weights)
  end
  return distinct(list)
end

function properties.weights(self)
  return distinct(append(self.trainable_weights, self.non_trainable_weights))
end

properties.trainable_variables = properties.trainable_weights
properties.non_trainable_variables = properties.non_trainable_weights
function properties.variables(self) return self.weights end

-- ------------------------------------------------ values

---The values of the weights.
---Shapes: as the weights have them
---@return userdata[] tensors
function Layer:get_weights()
  local list = {}
  for i, v in ipairs(self.weights) do list[i] = v:read_value() end
  return plain.of_objects(core.plain(list))
end

---Sets the values of the weights, given in the order of get_weights().
---Shapes: as the weights have them, in their order
---Errors: another number of weights, another shape: `model:set_weights{x}`
---@param values any[] tensors or nested lists
function Layer:set_weights(values)
  local weights = self.weights
  if type(values) ~= "table" then
    blame.error("set_weights: expected a list of tensors, got " .. args.describe(values), "type")
  end
  if #values ~= #weights then
    blame.error(string.format("set_weights: layer '%s' has %s, but %s given", self.name,
      counted(#weights, "weight"),
      counted(#values, "value was", "values were")),
      "value")
  end
  local tensors = {}
  for i, v in ipairs(weights) do
    local value = core.is_tensor(values[i]) and values[i] or core.is_variable(values[i])
      and values[i]:read_value()
      or core.tensor(values[i], v.dtype)
    if not shapes.equal(value.shape, v.shape) then
      blame.error(string.format("set_weights: weight %d of layer '%s', %s, has the shape %s; the "
        .. "value given has %s", i,
        self.name, v.name, shapes.text(v.shape), shapes.text(value.shape)), "value")
    end
    tensors[i] = value.dtype == v.dtype and value or held.cast(value, v.dtype)
    if not tensors[i] then
      blame.error(string.format("set_weights: weight %d of layer '%s', %s, is %s, which can't hold "
        .. "the given values, %s", i, self.name, v.name, v.dtype, value.dtype), "value")
    end
  end
  for i, v in ipairs(weights) do v:assign(tensors[i]) end
end

---The number of elements of all weights.
---Errors: weights that are not made yet: `keras.layers.Dense(3):count_params()`
---@return integer
function Layer:count_params()
  if not self.built and #self.weights == 0 and not self._shapeless then
    blame.error(string.format("count_params: layer '%s' has no weights yet; build it or call it "
      .. "first", self.name), "value")
  end
  local count = 0
  for _, v in ipairs(self.weights) do count = count + v.size end
  return count
end

return {methods = Layer, properties = properties, distinct = distinct}
