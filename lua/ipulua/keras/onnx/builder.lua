-- The graph of an ONNX file while it is written. A value is {name, dtype, shape, tensor}: tensor is
-- there when it is known already; it becomes an initializer when a node first takes it.

local class = require "ipulua.base.class"
local core = require "ipulua.core"
local format = require "ipulua.keras.onnx.format"
local ops = require "ipulua.ops"

---@class OnnxBuilder
local Builder = class.new("OnnxBuilder")

---@param opset integer version of the operators
function Builder:init(opset)
  self.opset = opset
  self.nodes, self.initializers, self.serial, self.small = {}, {}, 0, {}
  self.first_of = {} -- value in channels-last form → the same with channels first
end

function Builder:name(stem)
  self.serial = self.serial + 1
  return stem .. "_" .. self.serial
end

---A known tensor.
function Builder:known(tensor, name)
  return {name = name, dtype = tensor.dtype, shape = tensor.shape, tensor = tensor}
end

-- Constants made by conversions are shared when they are equal.
local function constant(self, data, dtype)
  local tensor = ops.tensor(data, {dtype = dtype})
  local key = dtype .. table.concat(tensor.shape, ",") .. ":" .. core.to_bytes(tensor)
  self.small[key] = self.small[key] or self:known(tensor)
  return self.small[key]
end

function Builder:ints(list)
  return constant(self, #list > 0 and list or ops.zeros({0}, {dtype = "int64"}), "int64")
end
function Builder:scalar(x, dtype) return constant(self, x, dtype) end

local function operand(self, v)
  if not v then return "" end
  if v.tensor and not v.placed then
    v.placed = true
    v.name = v.name or self:name("constant")
    self.initializers[#self.initializers + 1] = v
  end
  return v.name
end

---Adds a node; inputs may be false where ONNX leaves one out. Returns its outputs, which know no
---type yet.
---@param op string
---@param inputs any[]
---@param attributes table?
---@param count integer? of outputs, 1
function Builder:emit(op, inputs, attributes, count)
  local node = {op = op, name = self:name(op), inputs = {}, outputs = {},
    attributes = attributes or {}}
  for i, v in ipairs(inputs) do node.inputs[i] = operand(self, v) end
  while node.inputs[#node.inputs] == "" do table.remove(node.inputs) end
  local outputs = {}
  for i = 1, count or 1 do
    outputs[i] = {name = node.name .. (i > 1 and "_" .. i or "") .. "_out"}
    node.outputs[i] = outputs[i].name
  end
  self.nodes[#self.nodes + 1] = node
  return table.unpack(outputs)
end

function Builder:cast(v, dtype)
  if v.tensor then return self:known(ops.cast(v.tensor, dtype)) end
  return self:emit("Cast", {v}, {to = format.type_number(dtype)})
end

---@param perm integer[] from 0
function Builder:transpose(v, perm)
  if v.tensor then return self:known(ops.transpose(v.tensor, perm)) end
  return self:emit("Transpose", {v}, {perm = perm})
end

function Builder:reshape(v, shape)
  if v.tensor then return self:known(ops.reshape(v.tensor, shape)) end
  return self:emit("Reshape", {v, self:ints(shape)})
end

-- 0, rank - 1, 1 … rank - 2; and back.
local function channels_first(rank)
  local perm = {0, rank - 1}
  for axis = 1, rank - 2 do perm[#perm + 1] = axis end
  return perm
end
local function channels_last(rank)
  local perm = {0}
  for axis = 2, rank - 1 do perm[#perm + 1] = axis end
  perm[#perm + 1] = 1
  return perm
end

---ONNX takes channels first. A tensor that was just turned back is not turned twice.
function Builder:to_first(v, rank)
  self.first_of[v.name or v] = self.first_of[v.name or v] or self:transpose(v, channels_first(rank))
  return self.first_of[v.name or v]
end
function Builder:to_last(v, rank)
  local out = self:transpose(v, channels_last(rank))
  self.first_of[out.name or out] = v
  return out
end

return Builder
