-- Arguments of an op, from its row's sample (src/graph/op.h explains samples).

local ipu = require "ipulua"

local samples = {}

---The first case: its operands {letter, below, shape} and its attributes.
function samples.first_case(sample)
  local operands, rest = {}, sample:match("^[^|]*")
  local attributes = rest:match("{.*}")
  for letter, below, shape in rest:gsub("{.*}", ""):gmatch("(%u)(%d*)(%b[])") do
    operands[#operands + 1] = {letter = letter, below = tonumber(below), shape = shape}
  end
  if #operands == 0 or rest:gsub("{.*}", ""):find("%u%d*%s")
    or rest:gsub("{.*}", ""):find("%u%d*$") then
    operands = {}
    for word in rest:gsub("{.*}", ""):gmatch("%S+") do
      local letter, below, shape = word:match("^(%u)(%d*)(%[?[%d,]*%]?)$")
      operands[#operands + 1] = {letter = letter, below = tonumber(below), shape = shape}
    end
  end
  for _, operand in ipairs(operands) do
    local list = {}
    for extent in operand.shape:gmatch("%d+") do list[#list + 1] = tonumber(extent) end
    operand.shape = list
  end
  return operands, attributes and assert(load("return " .. attributes))() or nil
end

local values = {}
function values.F(shape)
  return ipu.random.uniform(shape, {minval = 0.1, maxval = 0.9, seed = 1})
end
values.P, values.U, values.D, values.H = values.F, values.F, values.F, values.F
function values.I(shape, below)
  return ipu.random.uniform(shape, {minval = 0, maxval = below or 2, dtype = "int32", seed = 1})
end
function values.S(shape) return ipu.zeros(shape, {dtype = "int32"}) end
function values.B(shape) return ipu.cast(ipu.ones(shape), "bool") end
function values.M(shape)
  local n = shape[#shape]
  return ipu.broadcast_to(ipu.eye(n) * 4 + 0.5, shape)
end
values.W = values.M

local is_real = {F = true, P = true, U = true, D = true, M = true, W = true}

---@param dtype string? of the numbers; float32
function samples.value(operand, dtype)
  local x = values[operand.letter](operand.shape, operand.below)
  return is_real[operand.letter] and ipu.cast(x, dtype or "float32") or x
end

---The arguments of a call: operands (a list of them for variadic ops), then the attributes as a
---table.
function samples.arguments(row, dtype)
  local operands, attributes = samples.first_case(row.sample)
  local given = {}
  for i, operand in ipairs(operands) do given[i] = samples.value(operand, dtype) end
  if row.variadic then given = {given} end
  if attributes then given[#given + 1] = attributes end
  return given, #operands, attributes
end

return samples
