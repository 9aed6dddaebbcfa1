-- What ONNX' nodes compute, in our ops: interpret[op_type](x, a, n) → results. x are the operands (nil where one is left
-- out), a the attributes, n the node. Shapes and axes given as operands are known while a model is traced.

local blame = require "ipulua.blame"
local core = require "ipulua.core"
local format = require "ipulua.keras.onnx.format"
local ipu = require "ipulua"

local interpret = {}

local function refuse(n, why) blame.error(string.format("onnx.import: node '%s' (%s): %s", n.name, n.op, why), "not_implemented") end

-- The integers of an operand; nil when there is none.
local function ints(n, v)
  if not v then return nil end
  if core.is_symbolic(v) then refuse(n, "a shape, axis or count depends on data") end
  local list = v:totable()
  return type(list) == "table" and list or {list}
end
interpret._ints = ints

local function number(n, v)
  if not v then return nil end
  if core.is_symbolic(v) or v.size ~= 1 then refuse(n, "a number is wanted that is known in advance") end
  return ipu.reshape(v, {}):item()
end

local function range(from, to)
  local list = {}
  for i = from, to do list[#list + 1] = i end
  return list
end

local function positive(axis, rank) return axis < 0 and axis + rank or axis end

-- ------------------------------------------------ elementwise

local same_name <const> = {
  Abs = "abs", Acos = "acos", Asin = "asin", Atan = "atan", Ceil = "ceil", Cos = "cos", Cosh = "cosh", Exp = "exp", Erf = "erf",
  Floor = "floor", IsNaN = "is_nan", Log = "log", Not = "logical_not", Neg = "neg", Identity = "identity",
  Reciprocal = "reciprocal", Round = "round", Sigmoid = "sigmoid", Sign = "sign", Sin = "sin", Sinh = "sinh", Sqrt = "sqrt",
  Tan = "tan", Tanh = "tanh", Relu = "nn.relu", Softplus = "nn.softplus", Softsign = "nn.softsign", Add = "add", Sub = "sub",
  Mul = "mul", Equal = "equal", Less = "less", LessOrEqual = "less_equal", Greater = "greater", GreaterOrEqual = "greater_equal",
  And = "logical_and", Or = "logical_or", Xor = "logical_xor", Where = "where",
}
for name, op in pairs(same_name) do
  local f = core.ops[op]
  interpret[name] = function(x) return f(table.unpack(x, 1, x.n)) end
end

function interpret.Dropout(x) return x[1], ipu.equal(x[1], x[1]) end

function interpret.IsInf(x, a)
  local found = ipu.is_inf(x[1])
  if a.detect_positive == 0 then found = ipu.logical_and(found, ipu.less(x[1], 0)) end
  if a.detect_negative == 0 then found = ipu.logical_and(found, ipu.greater(x[1], 0)) end
  return found
end

local function fold(f)
  return function(x)
    local out = x[1]
    for i = 2, x.n do out = f(out, x[i]) end
    return out
  end
end
interpret.Max, interpret.Min, interpret.Sum = fold(ipu.maximum), fold(ipu.minimum), fold(ipu.add)

function interpret.Div(x)
  local out = ipu.div(x[1], x[2])
  if out.dtype == x[1].dtype then return out end
  return ipu.cast(out, x[1].dtype) -- of integers: towards zero
end

-- With fmod the sign is that of the first.
function interpret.Mod(x, a)
  if a.fmod ~= 1 then return ipu.mod(x[1], x[2]) end
  return ipu.sign(x[1]) * ipu.mod(ipu.abs(x[1]), ipu.abs(x[2]))
end

function interpret.Mean(x)
  local sum = x[1]
  for i = 2, x.n do sum = sum + x[i] end
  return sum / x.n
end

function interpret.Acosh(x) return ipu.log(x[1] + ipu.sqrt(x[1] * x[1] - 1)) end
function interpret.Asinh(x) return ipu.log(x[1] + ipu.sqrt(x[1] * x[1] + 1)) end
function interpret.Atanh(x) return ipu.log((x[1] + 1) / (1 - x[1])) * 0.5 end
function interpret.Celu(x, a)
  local alpha = a.alpha or 1.0
  return ipu.maximum(x[1], 0) + ipu.minimum(ipu.expm1(x[1] / alpha) * alpha, 0)
end
function interpret.ThresholdedRelu(x, a) return ipu.where(ipu.greater(x[1], a.alpha or 1.0), x[1], ipu.zeros_like(x[1])) end
function interpret.Shrink(x, a)
  local limit, bias, zero = a.lambd or 0.5, a.bias or 0, ipu.zeros_like(x[1])
  return ipu.where(ipu.less(x[1], -limit), x[1] + bias, ipu.where(ipu.greater(x[1], limit), x[1] - bias, zero))
end

function interpret.Pow(x) return ipu.pow(x[1], x[2].dtype == x[1].dtype and x[2] or ipu.cast(x[2], x[1].dtype)) end

function interpret.Clip(x, a, n)
  local least, most = x[2] and number(n, x[2]) or a.min, x[3] and number(n, x[3]) or a.max
  local out = x[1]
  if least then out = ipu.maximum(out, least) end
  if most then out = ipu.minimum(out, most) end
  return out
end

function interpret.LeakyRelu(x, a) return ipu.nn.leaky_relu(x[1], {alpha = a.alpha or 0.01}) end
function interpret.PRelu(x) return ipu.maximum(x[1], 0) + x[2] * ipu.minimum(x[1], 0) end
function interpret.Elu(x, a) return ipu.nn.elu(x[1], {alpha = a.alpha or 1.0}) end
function interpret.HardSigmoid(x, a)
  return ipu.clip_by_value(x[1] * (a.alpha or 0.2) + (a.beta or 0.5), 0, 1)
end
function interpret.HardSwish(x) return x[1] * ipu.clip_by_value(x[1] / 6 + 0.5, 0, 1) end

local selu_alpha <const>, selu_gamma <const> = 1.67326319217681884765625, 1.05070102214813232421875
function interpret.Selu(x, a)
  return ipu.nn.elu(x[1], {alpha = a.alpha or selu_alpha}) * (a.gamma or selu_gamma)
end

-- Before opset 13 all axes from `axis` on were one.
local function softmax(op)
  return function(x, a, n)
    if n.opset >= 13 then return ipu.nn[op](x[1], {axis = a.axis or -1}) end
    local shape, rank, rows = x[1].shape, #x[1].shape, 1
    local axis = positive(a.axis or 1, rank)
    for i = 1, axis do rows = rows * shape[i] end
    return ipu.reshape(ipu.nn[op](ipu.reshape(x[1], {rows, -1}), {axis = -1}), shape)
  end
end
interpret.Softmax, interpret.LogSoftmax = softmax("softmax"), softmax("log_softmax")

function interpret.Cast(x, a, n)
  local dtype = format.dtype(a.to)
  if not dtype then refuse(n, "an element type that is not known here") end
  return ipu.cast(x[1], dtype)
end

function interpret.CastLike(x) return ipu.cast(x[1], x[2].dtype) end

-- ------------------------------------------------ reductions

for name, op in pairs{Sum = "sum", Mean = "mean", Max = "max", Min = "min", Prod = "prod", LogSumExp = "logsumexp"} do
  interpret["Reduce" .. name] = function(x, a, n)
    local axes = ints(n, x[2]) or a.axes
    if axes and #axes == 0 then axes = nil end
    if not axes and a.noop_with_empty_axes == 1 then return x[1] end
    return ipu["reduce_" .. op](x[1], {axis = axes, keepdims = a.keepdims ~= 0})
  end
end

function interpret.ReduceSumSquare(x, a, n) return interpret.ReduceSum({x[1] * x[1], x[2], n = x.n}, a, n) end
function interpret.ReduceL1(x, a, n) return interpret.ReduceSum({ipu.abs(x[1]), x[2], n = x.n}, a, n) end
function interpret.ReduceLogSum(x, a, n) return ipu.log(interpret.ReduceSum(x, a, n)) end
function interpret.ReduceL2(x, a, n) return ipu.sqrt(interpret.ReduceSumSquare(x, a, n)) end
function interpret.GlobalAveragePool(x) return ipu.reduce_mean(x[1], {axis = range(2, #x[1].shape - 1), keepdims = true}) end
function interpret.GlobalMaxPool(x) return ipu.reduce_max(x[1], {axis = range(2, #x[1].shape - 1), keepdims = true}) end

local function position(op)
  return function(x, a)
    local axis = positive(a.axis or 0, #x[1].shape)
    local v, last = x[1], a.select_last_index == 1
    local out = ipu.cast(ipu[op](last and ipu.reverse(v, axis) or v, {axis = axis}), "int64")
    if last then out = v.shape[axis + 1] - 1 - out end
    return a.keepdims == 0 and out or ipu.expand_dims(out, axis)
  end
end
interpret.ArgMax, interpret.ArgMin = position("argmax"), position("argmin")

function interpret.CumSum(x, a, n)
  return ipu.cumsum(x[1], {axis = number(n, x[2]), exclusive = a.exclusive == 1, reverse = a.reverse == 1})
end

-- ------------------------------------------------ shapes

local function long(list) return #list > 0 and ipu.tensor(list, {dtype = "int64"}) or ipu.zeros({0}, {dtype = "int64"}) end

function interpret.Shape(x, a)
  local rank = #x[1].shape
  local from, to = math.max(positive(a.start or 0, rank), 0), math.min(positive(a["end"] or rank, rank), rank)
  return long(table.move(x[1].shape, from + 1, to, 1, {}))
end

function interpret.Size(x) return ipu.tensor(x[1].size, {dtype = "int64"}) end

function interpret.Constant(_, a)
  if a.value then return a.value end
  if a.value_float then return ipu.tensor(a.value_float) end
  if a.value_int then return ipu.tensor(a.value_int, {dtype = "int64"}) end
  if a.value_floats then return ipu.tensor(a.value_floats) end
  return long(a.value_ints or {})
end

function interpret.ConstantOfShape(x, a, n)
  local value = a.value or ipu.tensor{0}
  return ipu.full(ints(n, x[1]), ipu.reshape(value, {}):item(), {dtype = value.dtype})
end

function interpret.Range(x, _, n)
  return ipu.cast(ipu.arange(number(n, x[1]), number(n, x[2]), number(n, x[3])), x[1].dtype)
end

function interpret.Reshape(x, a, n)
  local shape = ints(n, x[2])
  for i, extent in ipairs(shape) do
    if extent == 0 and a.allowzero ~= 1 then shape[i] = x[1].shape[i] end
  end
  return ipu.reshape(x[1], shape)
end

function interpret.Flatten(x, a)
  local axis, rows = positive(a.axis or 1, #x[1].shape), 1
  for i = 1, axis do rows = rows * x[1].shape[i] end
  return ipu.reshape(x[1], {rows, -1})
end

function interpret.Transpose(x, a) return ipu.transpose(x[1], a.perm) end
function interpret.Concat(x, a) return ipu.concat(table.move(x, 1, x.n, 1, {}), a.axis) end

function interpret.Unsqueeze(x, a, n)
  local axes = ints(n, x[2]) or a.axes
  local rank = #x[1].shape + #axes
  for i, axis in ipairs(axes) do axes[i] = positive(axis, rank) end
  table.sort(axes)
  local out = x[1]
  for _, axis in ipairs(axes) do out = ipu.expand_dims(out, axis) end
  return out
end

function interpret.Squeeze(x, a, n)
  local axes = ints(n, x[2]) or a.axes
  return axes and ipu.squeeze(x[1], {axis = axes}) or ipu.squeeze(x[1])
end

-- Both ways: an extent of 1 on either side gives way.
function interpret.Expand(x, _, n)
  local wanted, own = ints(n, x[2]), x[1].shape
  local rank = math.max(#wanted, #own)
  local shape = {}
  for i = 1, rank do
    local w, o = wanted[#wanted - rank + i] or 1, own[#own - rank + i] or 1
    shape[i] = w == 1 and o or w
  end
  return ipu.broadcast_to(x[1], shape)
end

function interpret.Tile(x, _, n) return ipu.tile(x[1], ints(n, x[2])) end

function interpret.Split(x, a, n)
  local sizes = ints(n, x[2]) or a.split
  local axis = positive(a.axis or 0, #x[1].shape)
  if not sizes then
    sizes = {}
    for i = 1, #n.outputs do sizes[i] = x[1].shape[axis + 1] // #n.outputs end
  end
  return ipu.split(x[1], sizes, {axis = axis})
end

local function pad_edge(v, pads)
  local rank = #v.shape
  for axis = 0, rank - 1 do
    local rows, extent = {}, v.shape[axis + 1]
    for i = -pads[axis + 1], extent - 1 + pads[rank + axis + 1] do rows[#rows + 1] = math.max(0, math.min(extent - 1, i)) end
    if #rows ~= extent then v = ipu.gather(v, ipu.tensor(rows, {dtype = "int32"}), {axis = axis}) end
  end
  return v
end

function interpret.Pad(x, a, n)
  local pads, rank = ints(n, x[2]) or a.pads, #x[1].shape
  if x[4] then refuse(n, "axes of a Pad are not known here") end
  local mode = (a.mode or "constant"):upper()
  if mode == "EDGE" then return pad_edge(x[1], pads) end
  if mode ~= "CONSTANT" and mode ~= "REFLECT" then refuse(n, "padding of mode " .. mode .. " is not known here") end
  local pairs_of = {}
  for i = 1, rank do pairs_of[i] = {pads[i], pads[rank + i]} end
  return ipu.pad(x[1], pairs_of, {mode = mode, constant_values = x[3] and number(n, x[3]) or a.value or 0})
end

-- One axis at a time, with ONNX' clamping.
local function slice_axis(x, axis, from, to, step)
  local extent = x.shape[axis + 1]
  local function clamp(i, least, most) return math.max(least, math.min(most, i < 0 and i + extent or i)) end
  local rows = {}
  if step > 0 then
    for i = clamp(from, 0, extent), clamp(to, 0, extent) - 1, step do rows[#rows + 1] = i end
  else
    local stop = to < -extent and -1 or clamp(to, -1, extent - 1)
    for i = clamp(from, 0, extent - 1), stop + 1, step do rows[#rows + 1] = i end
  end
  if #rows == extent and step == 1 then return x end
  if step ~= 1 or #rows == 0 then return ipu.gather(x, ipu.tensor(rows, {dtype = "int32"}), {axis = axis}) end
  local begin, size = {}, table.move(x.shape, 1, #x.shape, 1, {})
  for i = 1, #size do begin[i] = 0 end
  begin[axis + 1], size[axis + 1] = rows[1], #rows
  return ipu.slice(x, begin, size)
end

function interpret.Slice(x, a, n)
  local starts, ends = ints(n, x[2]) or a.starts, ints(n, x[3]) or a.ends
  local axes, steps = ints(n, x[4]) or a.axes or range(0, #starts - 1), ints(n, x[5]) or {}
  local out = x[1]
  for i, axis in ipairs(axes) do out = slice_axis(out, positive(axis, #out.shape), starts[i], ends[i], steps[i] or 1) end
  return out
end

-- Channels stand before space: [n, c, h, w] and [n, c / b², h b, w b].
function interpret.DepthToSpace(x, a)
  local n, c, h, w = table.unpack(x[1].shape)
  local b = a.blocksize
  if a.mode == "CRD" then
    return ipu.reshape(ipu.transpose(ipu.reshape(x[1], {n, c // (b * b), b, b, h, w}), {0, 1, 4, 2, 5, 3}), {n, -1, h * b, w * b})
  end
  return ipu.reshape(ipu.transpose(ipu.reshape(x[1], {n, b, b, c // (b * b), h, w}), {0, 3, 4, 1, 5, 2}), {n, -1, h * b, w * b})
end

function interpret.SpaceToDepth(x, a)
  local n, c, h, w = table.unpack(x[1].shape)
  local b = a.blocksize
  return ipu.reshape(ipu.transpose(ipu.reshape(x[1], {n, c, h // b, b, w // b, b}), {0, 3, 5, 1, 2, 4}), {n, -1, h // b, w // b})
end

-- ------------------------------------------------ picking, products

-- Negative indices count from the end.
local function index(v, extent)
  v = ipu.cast(v, "int32")
  return ipu.where(ipu.less(v, 0), v + extent, v)
end

function interpret.Gather(x, a)
  local axis = positive(a.axis or 0, #x[1].shape)
  return ipu.gather(x[1], index(x[2], x[1].shape[axis + 1]), {axis = axis})
end
function interpret.GatherND(x, a, n)
  if (a.batch_dims or 0) ~= 0 then refuse(n, "batch_dims is not known here") end
  return ipu.gather_nd(x[1], ipu.cast(x[2], "int32"))
end

function interpret.OneHot(x, a, n)
  local depth, values = number(n, x[2]), x[3]
  if core.is_symbolic(values) then refuse(n, "its values depend on data") end
  local off, on = table.unpack(values:totable())
  return ipu.one_hot(index(x[1], depth), depth, {axis = a.axis or -1, on_value = on, off_value = off, dtype = values.dtype})
end

function interpret.TopK(x, a, n)
  local rank = #x[1].shape
  local axis, k = positive(a.axis or -1, rank), x[2] and number(n, x[2]) or a.k
  local perm = range(0, rank - 1)
  perm[axis + 1], perm[rank] = rank - 1, axis
  local v = a.largest == 0 and -x[1] or x[1]
  local values, indices = ipu.top_k(ipu.transpose(v, perm), {k = k})
  if a.largest == 0 then values = -values end
  return ipu.transpose(values, perm), ipu.cast(ipu.transpose(indices, perm), "int64")
end

function interpret.MatMul(x) return ipu.matmul(x[1], x[2]) end

function interpret.Gemm(x, a)
  local out = ipu.matmul(x[1], x[2], {transpose_a = a.transA == 1, transpose_b = a.transB == 1})
  if a.alpha and a.alpha ~= 1 then out = out * a.alpha end
  if not x[3] then return out end
  return out + ((a.beta or 1) == 1 and x[3] or x[3] * a.beta)
end

function interpret.Einsum(x, a) return ipu.einsum(table.move(x, 1, x.n, 1, {}), {equation = a.equation}) end

for name, f in pairs(require "ipulua.keras.onnx.interpret_nn") do interpret[name] = f end

return interpret
