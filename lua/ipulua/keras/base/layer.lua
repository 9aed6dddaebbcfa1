-- Layer: has weights, and maps tensors to tensors. Own layers: Layer:extend("MyLayer") with
-- `build(input_shape)`, which makes weights, and `call(x, {training =, mask =})`.

local about = require "ipulua.base.parts.about"
local args = require "ipulua.base.args"
local blame = require "ipulua.base.blame"
local class = require "ipulua.base.class"
local core = require "ipulua.core"
local layer_calls = require "ipulua.keras.base.layer_calls"
local layer_fields = require "ipulua.keras.base.layer_fields"
local layer_losses = require "ipulua.keras.base.layer_losses"
local layer_nodes = require "ipulua.keras.base.layer_nodes"
local layer_weights = require "ipulua.keras.base.layer_weights"
local log = require "ipulua.base.log"
local names = require "ipulua.base.parts.names"
local parts = require "ipulua.base.parts"
local stages = require "ipulua.keras.models.stage_scope"

local kept <const> = layer_fields.get

---@class Layer: Class
---@field name string
---@field built boolean
---@field trainable boolean
---@field dtype string of the variables
---@field compute_dtype string of the arithmetic
---@field weights userdata[]
---@field trainable_weights userdata[]
---@field non_trainable_weights userdata[]
---@field trainable_variables userdata[]
---@field non_trainable_variables userdata[]
---@field variables userdata[]
---@field losses userdata[]
---@field input any KerasTensors of the only call in a functional model
---@field output any
---@overload fun(...: any): any
local Layer = class.new("Layer")

-- Arguments that every layer takes, by name.
local base_rows <const> = {
  {"name", "string", optional = true, by_name = true}, {"trainable", "boolean", true},
  {"dtype", "string", optional = true},
  {"input_shape", {"integers", "integer"}, optional = true},
  {"batch_input_shape", "integers", optional = true},
  {"batch_size", "integer", optional = true}, {"input_dim", "integer", optional = true},
  {"activity_regularizer", "regularizer"}, {"weights", "list", optional = true},
}
Layer.argument_rows, Layer.argument_kinds = {}, {}
Layer.base_names = {}
for _, row in ipairs(base_rows) do Layer.base_names[row[1]] = true end

---@package
---A new kind of layer; see parts.declare.
---@param name string
---@param rows table[]
---@param base table?
---@return table
function Layer.declare(name, rows, base)
  local c = parts.declare(name, base or Layer, rows, base_rows)
  return c
end

do
  local c = parts.declare("Layer", Layer, {}, base_rows)
  Layer.argument_rows, Layer.argument_kinds = c.argument_rows, c.argument_kinds
end

-- ------------------------------------------------ fields

-- Fields that are computed: name → function of the layer; and functions that set the fields that a
-- script may set.
local properties = {}
Layer.properties = properties
Layer.setters = {}

function properties.trainable(self) return self._trainable ~= false end
local function of_policy(self, name)
  local policy = kept(self, "policy")
  return policy and policy[name]
end

function properties.dtype(self) return of_policy(self, "variable_dtype") or "float32" end
function properties.dtype_policy(self) return kept(self, "policy") end
function properties.compute_dtype(self) return of_policy(self, "compute_dtype") or "float32" end

function Layer.setters.trainable(self, value)
  if type(value) ~= "boolean" then
    blame.error(string.format("layer '%s': 'trainable' must be true or false, got %s",
      tostring(rawget(self, "name")), args.describe(value)), "type")
  end
  layer_fields.keep(self, "_trainable", value)
  for _, layer in ipairs(self:sublayers()) do layer.trainable = value end
end

Layer.__newindex, Layer.__index = layer_fields.assign, layer_fields.read

function Layer:__tostring()
  return "<" .. getmetatable(self).__name .. " " .. tostring(rawget(self, "name")) .. ">"
end

-- ------------------------------------------------ making

---@param value any
---@return boolean
function Layer.is_layer(value)
  return class.is_a(value, Layer)
end

local function shape_of_first(given)
  if given.batch_input_shape then return given.batch_input_shape end
  local rest = given.input_shape
  if math.type(rest) == "integer" then rest = {rest} end
  if not rest and given.input_dim then rest = {given.input_dim} end
  if not rest then return nil end
  local shape = table.move(rest, 1, #rest, 2, {given.batch_size or -1})
  return shape
end

function Layer:init(...)
  local c = class.of(self)
  local given = parts.read(self, c, ...)
  for _, row in ipairs(c.argument_rows) do
    local name = row[1]
    if not Layer.base_names[name] and given[name] ~= nil then self[name] = given[name] end
  end
  self:init_base(given)
  if self.setup then self:setup() end
end

-- Names, dtypes and flags, from arguments that were read already.
function Layer:init_base(given)
  local c = class.of(self)
  rawset(self, "name", given.name or names.unique(names.snake(c.__name)))
  rawset(self, "built", false)
  rawset(self, "activity_regularizer", given.activity_regularizer)
  local policy = require "ipulua.keras.mixed_precision"
  layer_fields.begin(self, {
    _trainable = given.trainable ~= false, batch_input_shape = shape_of_first(given),
    initial_weights = given.weights,
    policy = policy.resolve(given.dtype), stage = stages.current(), nodes = core.plain{}, _own = {},
    _losses = {}, _lasting_losses = {},
    _metrics = {},
  })
end

---init_base, for a layer whose own `init` never called the base's.
---@package
function Layer:ensure_initialised()
  if not layer_fields.has_begun(self) then
    self:init_base({name = rawget(self, "name"), trainable = self._trainable})
  end
end

Layer.after_init = Layer.ensure_initialised

---Variables that are no weights but last from batch to batch, and that a resumed training needs.
---@return userdata[]
---@package
function Layer:state_variables() return {} end -- luacheck: ignore 212

-- This layer and all below it.
function Layer:walk(visit)
  self:ensure_initialised()
  visit(self)
  for _, layer in ipairs(self:sublayers()) do layer:walk(visit) end
end

-- ------------------------------------------------ configs

local told_classes = setmetatable({}, {__mode = "k"})

-- A file can't have the arguments of a script's own init, unless the class has a get_config.
local function tell_lost_arguments(c)
  if told_classes[c] or c.get_config ~= Layer.get_config or rawget(c, "argument_rows") then
    return
  end
  local init = debug.getinfo(c.init, "Su")
  if blame.is_own(init.source) or init.nparams < 2 and not init.isvararg then return end
  told_classes[c] = true
  log.warn("class %s has an init with arguments (%s:%d), but no get_config that gives them: saved "
    .. "and loaded, its layers are made "
    .. "without them", c.__name, init.short_src, init.linedefined)
end

---The arguments that make the layer again, without weights.
---@return table
function Layer:get_config()
  tell_lost_arguments(class.of(self))
  local config = parts.config(self)
  config.name, config.trainable = self.name, self.trainable
  local policy = self.dtype_policy
  config.dtype = policy and policy.name
  config.weights, config.batch_input_shape = nil, kept(self, "batch_input_shape")
  config.input_shape, config.batch_size, config.input_dim = nil, nil, nil
  return config
end

---@param config table
---@return Layer
function Layer.from_config(c, config)
  return parts.made_of(c, config)
end

-- ------------------------------------------------ fields, weights, losses and metrics, calls:
-- files of their own

for _, part in ipairs{layer_fields, layer_weights, layer_losses, layer_calls, layer_nodes} do
  for name, f in pairs(part.methods) do Layer[name] = f end
  for name, f in pairs(part.properties or {}) do properties[name] = f end
end
layer_fields.Layer = Layer
layer_fields.reserve(Layer)

about.say("layers", {
  {"Layer", text = "The base of all layers; extend it (`Layer:extend(\"Name\")`) with "
    .. "`build(input_shape)` and `call(x, {training =, mask =})`; `add_weight`, `add_loss`, "
    .. "`add_metric`, `get_weights`, `set_weights`, `count_params`, `compute_output_shape`, "
    .. "`get_config`.", section = "Core", wrong = "Layer{size = 3}"},
})

return Layer
