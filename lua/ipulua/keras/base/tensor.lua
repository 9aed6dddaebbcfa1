-- KerasTensor: stands for a tensor while a functional model is written. It has a shape (-1:
-- unknown) and a dtype, and knows the layer call that it comes from. Ops and operators on it become
-- layers.

local blame = require "ipulua.base.blame"
local class = require "ipulua.base.class"
local core = require "ipulua.core"

---@class KerasTensor
---@field shape integer[] -1 where the extent is unknown
---@field dtype string
---@field name string
---@field layer table the layer that made it
---@field node table the call of that layer
---@field tensor_index integer which result of that call, from 1
---@field mask_type {shape: integer[], dtype: string}? of its mask, where it has one
local KerasTensor = class.new("KerasTensor")
KerasTensor.is_tensor = true -- args.is_tensor asks the metatable

function KerasTensor:init(shape, dtype, name)
  self.shape, self.dtype, self.name = core.plain(shape), dtype, name
end

-- An op called with a KerasTensor among its arguments.
local function apply(op, ...)
  return require "ipulua.keras.layers.lambda".apply(op, ...)
end

KerasTensor.__op = function(op, ...) return apply(op, ...) end

local operators <const> = {
  __add = "add", __sub = "sub", __mul = "mul", __div = "div", __pow = "pow", __mod = "mod",
  __idiv = "floordiv",
}
for event, op in pairs(operators) do
  KerasTensor[event] = function(a, b) return apply(op, a, b) end
end
KerasTensor.__unm = function(a) return apply("neg", a) end

-- Members that only concrete tensors have.
local of_values <const> = {
  item = "model:predict(x) gives values", totable = "model:predict(x) gives values",
  tolist = "model:predict(x) gives values",
  size = "its batch need not be known",
}
-- nil for a tensor that no layer made
local of_calls <const> = {layer = true, node = true, tensor_index = true}

-- Its methods are the methods of tensors: x:reshape{…} is the op reshape.
local methods
function KerasTensor.__index(self, key)
  local value = KerasTensor[key]
  if value ~= nil then return value end
  if key == "rank" then return #self.shape end
  if key == "T" then return apply("transpose", self) end
  if math.type(key) == "integer" or type(key) == "table" then return apply("row", self, key) end
  if type(key) ~= "string" or of_calls[key] or key:sub(1, 2) == "__" then return nil end
  if of_values[key] then
    blame.error(string.format("a model's symbolic tensor has no '%s'; %s", key, of_values[key]),
      "value")
  end
  methods = methods or getmetatable(core.tensor(0)).methods
  if methods[key] then return methods[key] end
  local hint = require "ipulua.base.slips".field_hint("tensor", key, methods)
  blame.error(string.format("a model's symbolic tensor has no '%s'%s", key, hint), "value")
end

function KerasTensor.__tostring(self)
  local extents = {}
  for i, extent in ipairs(self.shape) do extents[i] = extent < 0 and "None" or tostring(extent) end
  local shape = table.concat(extents, ", ") .. (#extents == 1 and "," or "")
  return string.format("KerasTensor(%s(%s), name='%s')", self.dtype, shape, self.name or "?")
end

---@param value any
---@return boolean
function KerasTensor.is(value)
  return type(value) == "table" and getmetatable(value) == KerasTensor
end

return KerasTensor
