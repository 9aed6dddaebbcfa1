-- Layer: what holds weights and maps tensors to tensors. Own layers: Layer:extend("MyLayer") with
-- `build(input_shape)`, which makes weights, and `call(x, {training =, mask =})`.
--
-- Sublayers and variables are found in the fields of a layer, in the order in which the fields were first
-- assigned; lists and tables of them count too.

local args = require "ipulua.args"
local blame = require "ipulua.blame"
local class = require "ipulua.class"
local context = require "ipulua.keras.context"
local core = require "ipulua.core"
local layer_calls = require "ipulua.keras.layer_calls"
local layer_losses = require "ipulua.keras.layer_losses"
local layer_weights = require "ipulua.keras.layer_weights"
local log = require "ipulua.log"
local names = require "ipulua.keras.names"
local nest = require "ipulua.keras.nest"
local parts = require "ipulua.keras.parts"
local stages = require "ipulua.keras.stages"

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
  {"name", "string", optional = true, by_name = true}, {"trainable", "boolean", true}, {"dtype", "string", optional = true},
  {"input_shape", {"integers", "integer"}, optional = true}, {"batch_input_shape", "integers", optional = true},
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

local state_key <const> = "_keys" -- names of the fields that may hold layers or variables, in order

local function holds_state(value)
  local t = type(value)
  return t == "table" or t == "userdata"
end

function Layer:__newindex(key, value)
  if key == "trainable" then
    rawset(self, "_trainable", value)
    for _, layer in ipairs(self:sublayers()) do layer.trainable = value end
    return
  end
  local setter = getmetatable(self).setters[key]
  if setter then return setter(self, value) end
  if holds_state(value) and type(key) == "string" and key:sub(1, 1) ~= "_" then
    local keys = rawget(self, state_key)
    if not keys then
      keys = {}
      rawset(self, state_key, keys)
    end
    keys[#keys + 1] = key
    if core.is_variable(value) and self.compute_dtype ~= value.dtype and self.policy and self.policy.is_mixed then
      local automatic = rawget(self, "_automatic")
      if not automatic then
        automatic = {}
        rawset(self, "_automatic", automatic)
      end
      automatic[key] = value
      return
    end
  end
  rawset(self, key, value)
end

-- Fields that are computed: name → function of the layer.
local properties = {}
Layer.properties = properties
Layer.setters = {}

function properties.trainable(self) return rawget(self, "_trainable") ~= false end
function properties.dtype(self) return rawget(self, "policy") and self.policy.variable_dtype or "float32" end
function properties.compute_dtype(self) return rawget(self, "policy") and self.policy.compute_dtype or "float32" end

function Layer.__index(self, key)
  local c = getmetatable(self)
  local value = c[key]
  if value ~= nil then return value end
  local property = c.properties[key]
  if property then return core.plain(property(self)) end
  local automatic = rawget(self, "_automatic")
  local variable = automatic and automatic[key]
  if variable == nil or context.depth == 0 then return variable end
  return self:in_compute_dtype(variable)
end

---A field's variable itself, where mixed precision would give its value in the compute dtype.
---@param key string
---@return userdata?
---@package
function Layer:variable(key)
  local automatic = rawget(self, "_automatic")
  return automatic and automatic[key] or rawget(self, key)
end

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
  rawset(self, "_trainable", given.trainable ~= false)
  rawset(self, "activity_regularizer", given.activity_regularizer)
  rawset(self, "batch_input_shape", shape_of_first(given))
  rawset(self, "initial_weights", given.weights)
  local policy = require "ipulua.keras.mixed_precision"
  rawset(self, "policy", policy.resolve(given.dtype))
  rawset(self, "stage", stages.current())
  rawset(self, "nodes", core.plain{})
  rawset(self, "_own", {})
  rawset(self, "_losses", {})
  rawset(self, "_metrics", {})
end

---init_base, for a layer whose own `init` never called the base's.
---@package
function Layer:ensure_initialised()
  if rawget(self, "_own") == nil then
    self:init_base({name = rawget(self, "name"), trainable = rawget(self, "_trainable")})
  end
end

Layer.after_init = Layer.ensure_initialised

-- ------------------------------------------------ what the fields hold

local function in_fields(self, visit)
  local seen = {}
  local function walk(value)
    if class.is_a(value, Layer) or core.is_variable(value) then
      visit(value)
    elseif args.is_plain(value) and not seen[value] then
      seen[value] = true
      for _, key in ipairs(nest.keys(value)) do walk(value[key]) end
    end
  end
  for _, key in ipairs(rawget(self, state_key) or {}) do walk(self:variable(key)) end
end

---Where in the fields a sublayer is: "field" or "field.2".
---@param layer Layer
---@return string?
---@package
function Layer:place_of(layer)
  local seen, found = {}, nil
  local function walk(value, path)
    if rawequal(value, layer) then
      found = found or path
    elseif args.is_plain(value) and not seen[value] then
      seen[value] = true
      for _, key in ipairs(nest.keys(value)) do walk(value[key], path .. "." .. tostring(key)) end
    end
  end
  for _, key in ipairs(rawget(self, state_key) or {}) do walk(self:variable(key), key) end
  return found
end

---Layers that this one holds, in the order of its fields.
---@return Layer[]
---@package
function Layer:sublayers()
  local list, seen = {}, {}
  in_fields(self, function(value)
    if class.is_a(value, Layer) and not seen[value] and value ~= self then
      seen[value] = true
      list[#list + 1] = value
    end
  end)
  return list
end

---Own variables, not those of sublayers.
---@return userdata[]
---@package
function Layer:own_variables()
  local list = {}
  for i, v in ipairs(rawget(self, "_own") or {}) do list[i] = v end
  in_fields(self, function(value)
    if core.is_variable(value) then list[#list + 1] = value end
  end)
  return layer_weights.distinct(list)
end

---Variables that are no weights but last from batch to batch: what a resumed training wants back.
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

-- A file can't say what an init of the script's own was given, unless the class tells by a get_config of its own.
local function tell_lost_arguments(c)
  if told_classes[c] or c.get_config ~= Layer.get_config or rawget(c, "argument_rows") then return end
  local init = debug.getinfo(c.init, "Su")
  if blame.is_own(init.source) or init.nparams < 2 and not init.isvararg then return end
  told_classes[c] = true
  log.warn("class %s has an init with arguments (%s:%d), but no get_config that gives them: saved and loaded, its layers are made "
    .. "without them", c.__name, init.short_src, init.linedefined)
end

---The arguments that make the layer again, without weights.
---@return table
function Layer:get_config()
  tell_lost_arguments(class.of(self))
  local config = parts.config(self)
  config.name, config.trainable = self.name, self.trainable
  config.dtype = self.policy and self.policy.name or nil
  config.weights = nil
  config.input_shape, config.batch_size, config.input_dim = nil, nil, nil
  return config
end

---@param config table
---@return Layer
function Layer.from_config(c, config)
  parts.want_config(c, config)
  return c(config)
end

-- ------------------------------------------------ weights, losses and metrics, calls: files of their own

for _, part in ipairs{layer_weights, layer_losses, layer_calls} do
  for name, f in pairs(part.methods) do Layer[name] = f end
  for name, f in pairs(part.properties) do properties[name] = f end
end

return Layer
