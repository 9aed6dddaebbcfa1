-- Functions that the files share which interpret or make ONNX's nodes.

local blame = require "ipulua.base.blame"
local core = require "ipulua.core"
local ops = require "ipulua.ops"

local tools = {}

---Refuses a node in its own words.
---@param n table
---@param why string
function tools.refuse(n, why)
  blame.error(string.format("onnx.import: node '%s' (%s): %s", n.name, n.op, why),
    "not_implemented")
end

---The integers of an operand; nil when there is none.
---@return integer[]?
function tools.ints(n, v)
  if not v then return nil end
  if core.is_symbolic(v) then tools.refuse(n, "a shape, axis or count depends on data") end
  local list = v:totable()
  return type(list) == "table" and list or {list}
end

---The number of an operand; nil when there is none.
function tools.number(n, v)
  if not v then return nil end
  if core.is_symbolic(v) or v.size ~= 1 then
    tools.refuse(n, "expected a number that is known in advance")
  end
  return ops.reshape(v, {}):item()
end

---Refuses an op that can't be exported.
---@param r table its record
---@param why string
function tools.refuse_op(r, why)
  blame.error(string.format("onnx.export: %s: %s", r.op, why), "not_implemented")
end

function tools.is_integer(v) return v.dtype:find("int") ~= nil end

---A number of x's dtype, in a graph that is being made.
function tools.like(g, x, number) return g:scalar(number, x.dtype) end

function tools.range(from, to)
  local list = {}
  for i = from, to do list[#list + 1] = i end
  return list
end

function tools.filled(count, value)
  local list = {}
  for i = 1, count do list[i] = value end
  return list
end

---An axis from 0; the last one may be the rank (for positions between axes).
function tools.axis(n, axis, rank, last)
  local at = axis < 0 and axis + rank or axis
  if at < 0 or at > (last or rank - 1) then
    tools.refuse(n, string.format("axis %d is none of an operand of rank %d", axis, rank))
  end
  return at
end

function tools.is_float(v) return v.dtype:find("float") ~= nil end

---A vector of the channels (axis 1), shaped so that it broadcasts to rank axes.
function tools.channels(v, rank)
  local shape = tools.filled(rank, 1)
  shape[2] = -1
  return ops.reshape(v, shape)
end

---f, computed in float32 where a node's first operand has 16 bits: sums on the way may be greater
---than what 16 bits hold. The results have the operand's type again.
---@param f fun(x: table, a: table, n: table): userdata ...
function tools.widened(f)
  return function(x, a, n)
    local dtype, wide = x[1].dtype, {n = x.n}
    if dtype ~= "float16" and dtype ~= "bfloat16" then return f(x, a, n) end
    for i = 1, x.n do
      wide[i] = x[i] and x[i].dtype == dtype and ops.cast(x[i], "float32") or x[i]
    end
    local results = table.pack(f(wide, a, n))
    for i = 1, results.n do
      if results[i].dtype == "float32" then results[i] = ops.cast(results[i], dtype) end
    end
    return table.unpack(results, 1, results.n)
  end
end

-- ------------------------------------------------ sizes

-- others: 4
local sizes <const> = {float64 = 8, int64 = 8, float16 = 2, bfloat16 = 2, int8 = 1,
  uint8 = 1, bool = 1}
local MAX_BYTES <const>, MAX_HELD <const>, MAX_TIMES <const> = 1 << 34, 1 << 26, 1 << 20

---Refuses a result that a few numbers of a file make enormous. Constants are computed at once and
---may be of 64 MiB. Results of inputs and weights are traced, and may be larger, up to a million
---times their operand.
---@param n table
---@param shape integer[]
---@param dtype string
---@param operand userdata? that the result is made of; nil: of numbers alone
function tools.reserve(n, shape, dtype, operand)
  local bytes, is_made = (sizes[dtype] or 4) + 0.0, core.is_symbolic(operand)
  for _, extent in ipairs(shape) do bytes = bytes * extent end
  if bytes <= MAX_HELD or is_made and bytes <= MAX_BYTES
    and bytes <= operand.size * 8.0 * MAX_TIMES then
    return
  end
  tools.refuse(n, string.format("it makes a tensor of %.3g bytes", bytes))
end

---A reduction over axes. ReduceSum takes them as an operand, the others before opset 18 as an
---attribute.
function tools.reduce(g, op, v, axes, keepdims)
  if #axes == 0 then return g:emit("Identity", {v}) end
  if op == "ReduceSum" or g.opset >= 18 then
    return g:emit(op, {v, g:ints(axes)}, {keepdims = keepdims and 1 or 0})
  end
  return g:emit(op, {v}, {axes = axes, keepdims = keepdims and 1 or 0})
end

return tools
