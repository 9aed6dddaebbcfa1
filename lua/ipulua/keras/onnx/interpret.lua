-- ONNX's nodes in terms of the library's ops: interpret[op_type](x, a, n) → results. x are the
-- operands (nil where one is left out), a the attributes (attributes.lua), n the node. Shapes and
-- axes given as operands are known while a model is traced. Here: element by element, reductions,
-- products; interpret_shapes, interpret_nn and interpret_recurrent have the others.

local core = require "ipulua.core"
local format = require "ipulua.keras.onnx.format"
local ops = require "ipulua.ops"
local tools = require "ipulua.keras.onnx.tools"

local interpret = {}

local refuse <const>, is_float <const>, range <const> = tools.refuse, tools.is_float, tools.range

-- ------------------------------------------------ two operands before opset 7

-- `broadcast` aligns the second operand with the first one's last axes, or with the axes from
-- `axis` on.
local function aligned(x, a, n)
  local axis, broadcast = a.axis, a.broadcast
  if n.opset >= 7 or broadcast ~= 1 or not axis then return x[2] end
  local rank, shape = #x[1].shape, table.move(x[2].shape, 1, #x[2].shape, 1, {})
  for i = #shape + 1, rank - tools.axis(n, axis, rank) do shape[i] = 1 end
  return ops.reshape(x[2], shape)
end

local function pair(f)
  return function(x, a, n) return f(x[1], aligned(x, a, n)) end
end

-- ------------------------------------------------ element by element

local same_name <const> = {
  Abs = "abs", Acos = "acos", Asin = "asin", Atan = "atan", Ceil = "ceil", Cos = "cos",
  Cosh = "cosh", Exp = "exp", Erf = "erf",
  Floor = "floor", IsNaN = "is_nan", Log = "log", Not = "logical_not", Neg = "neg",
  Identity = "identity",
  Reciprocal = "reciprocal", Round = "round", Sigmoid = "sigmoid", Sign = "sign", Sin = "sin",
  Sinh = "sinh", Sqrt = "sqrt",
  Tan = "tan", Tanh = "tanh", Relu = "nn.relu", Softplus = "nn.softplus", Softsign = "nn.softsign",
  LessOrEqual = "less_equal",
  GreaterOrEqual = "greater_equal", Where = "where",
}
for name, op in pairs(same_name) do
  local f = core.ops[op]
  interpret[name] = function(x) return f(table.unpack(x, 1, x.n)) end
end

for name, op in pairs{Add = "add", Sub = "sub", Mul = "mul", Equal = "equal", Less = "less",
  Greater = "greater", And = "logical_and",
  Or = "logical_or", Xor = "logical_xor"} do
  interpret[name] = pair(core.ops[op])
end

-- Of a model that is run, not trained, and where nothing is dropped: its input.
function interpret.Dropout(x, a, n)
  local is_test, training, _ = a.is_test, x[3], a.ratio or a.seed -- luacheck: ignore 211
  if n.opset < 7 and is_test == 0 then refuse(n, "training (is_test = 0) is not known here") end
  local trains = training and (core.is_symbolic(training)
    or ops.reduce_any(ops.cast(training, "bool")):item())
  if trains and tools.number(n, x[2]) ~= 0 then
    refuse(n, "training_mode is not known here, unless its ratio is 0")
  end
  return x[1], ops.cast(ops.ones_like(x[1]), n.opset < 10 and x[1].dtype or "bool")
end

function interpret.IsInf(x, a)
  local found, zero = ops.is_inf(x[1]), ops.zeros_like(x[1])
  if a.detect_positive == 0 then found = ops.logical_and(found, ops.less(x[1], zero)) end
  if a.detect_negative == 0 then found = ops.logical_and(found, ops.greater(x[1], zero)) end
  return found
end

local function fold(f)
  return function(x)
    local out = x[1]
    for i = 2, x.n do out = f(out, x[i]) end
    return out
  end
end
interpret.Max, interpret.Min, interpret.Sum = fold(ops.maximum), fold(ops.minimum), fold(ops.add)
interpret.Mean = tools.widened(function(x) return interpret.Sum(x) / x.n end)

-- Of integers: towards zero, exactly.
local function quotient(a, b)
  if is_float(a) then return ops.div(a, b) end
  local down = ops.floordiv(a, b)
  if a.dtype == "uint8" then return down end
  local zero = ops.zeros_like(down)
  local is_negative = ops.logical_xor(ops.less(a, ops.zeros_like(a)),
    ops.less(b, ops.zeros_like(b)))
  local has_rest = ops.not_equal(a, down * b)
  return down + ops.where(ops.logical_and(is_negative, has_rest), ops.ones_like(down), zero)
end
interpret.Div = pair(quotient)

-- With fmod the sign is the first operand's.
function interpret.Mod(x, a, n)
  if a.fmod == 0 then
    if is_float(x[1]) then refuse(n, "fmod = 0 is for integers") end
    return ops.mod(x[1], x[2])
  end
  if not is_float(x[1]) then return x[1] - quotient(x[1], x[2]) * x[2] end
  local rest = ops.mod(ops.abs(x[1]), ops.abs(x[2]))
  return ops.where(ops.less(x[1], ops.zeros_like(x[1])), -rest, rest)
end

-- Whether a tensor is known in advance, and a type has each of its numbers.
local function fits(v, dtype)
  if core.is_symbolic(v) then return false end
  return ops.reduce_all(ops.equal(ops.cast(ops.cast(v, dtype), v.dtype), v)):item()
end

-- The result has the base's type, and is computed in one that holds both. A narrow one could make
-- an odd exponent even, which would change the sign.
interpret.Pow = pair(function(base, exponent)
  if base.dtype == exponent.dtype then return ops.pow(base, exponent) end
  if is_float(base) and fits(exponent, base.dtype) then
    return ops.pow(base, ops.cast(exponent, base.dtype))
  end
  if is_float(base) or is_float(exponent) then
    return ops.cast(ops.pow(ops.cast(base, "float64"), ops.cast(exponent, "float64")), base.dtype)
  end
  return ops.cast(ops.pow(ops.cast(base, "int64"), ops.cast(exponent, "int64")), base.dtype)
end)

-- Without differences of neighbours, and without squares of large numbers. Both branches are
-- computed, so each gets operands that are valid for it.
function interpret.Acosh(x)
  local one = ops.ones_like(x[1])
  local near, far = ops.minimum(x[1], one * 2) - 1, ops.maximum(x[1], one * 2)
  local r = 1 / far
  return ops.where(ops.less(x[1], one * 2), ops.log1p(near + ops.sqrt(near * (near + 2))),
    ops.log(far) + ops.log1p(ops.sqrt(1 - r * r)))
end

-- f of |x| with x's sign, and x itself where it is 0.
local function odd(x, f)
  local size, zero = f(ops.abs(x)), ops.zeros_like(x)
  return ops.where(ops.less(x, zero), -size, ops.where(ops.equal(x, zero), x, size))
end

function interpret.Asinh(x)
  return odd(x[1], function(v)
    local one = ops.ones_like(v)
    local near, far = ops.minimum(v, one), ops.maximum(v, one)
    local square, r = near * near, 1 / far
    return ops.where(ops.less(v, one), ops.log1p(near + square / (ops.sqrt(square + 1) + 1)),
      ops.log(far) + ops.log1p(ops.sqrt(r * r + 1)))
  end)
end

function interpret.Atanh(x)
  return odd(x[1], function(v) return ops.log1p(v * 2 / (1 - v)) * 0.5 end)
end

function interpret.Celu(x, a)
  local alpha = a.alpha
  return ops.maximum(x[1], 0) + ops.minimum(ops.expm1(x[1] / alpha) * alpha, 0)
end

function interpret.ThresholdedRelu(x, a)
  return ops.where(ops.greater(x[1], a.alpha), x[1], ops.zeros_like(x[1]))
end

function interpret.Shrink(x, a, n)
  local limit, bias, zero = a.lambd, a.bias, ops.zeros_like(x[1])
  if not is_float(x[1]) then refuse(n, "Shrink of " .. x[1].dtype .. " is not known here") end
  return ops.where(ops.less(x[1], -limit), x[1] + bias,
    ops.where(ops.greater(x[1], limit), x[1] - bias, zero))
end

-- The limits were attributes before opset 11.
function interpret.Clip(x, a, n)
  local least, most, out = a.min, a.max, x[1]
  -- where the limits are the greatest numbers of float32, narrower types have none
  if n.opset < 11 then
    if least and (x[1].dtype ~= "float16" or least >= -65504) then out = ops.maximum(out, least) end
    if most and (x[1].dtype ~= "float16" or most <= 65504) then out = ops.minimum(out, most) end
    return out
  end
  if x[2] then out = ops.maximum(out, ops.reshape(x[2], {})) end
  return x[3] and ops.minimum(out, ops.reshape(x[3], {})) or out
end

function interpret.LeakyRelu(x, a) return ops.nn.leaky_relu(x[1], {alpha = a.alpha}) end
function interpret.Elu(x, a) return ops.nn.elu(x[1], {alpha = a.alpha}) end
function interpret.Selu(x, a) return ops.nn.elu(x[1], {alpha = a.alpha}) * a.gamma end
function interpret.HardSigmoid(x, a) return ops.clip_by_value(x[1] * a.alpha + a.beta, 0, 1) end
function interpret.HardSwish(x) return x[1] * ops.clip_by_value(x[1] / 6 + 0.5, 0, 1) end

-- Before opset 7 a slope for each channel was a vector.
function interpret.PRelu(x, _, n)
  local slope, rank = x[2], #x[1].shape
  if n.opset < 7 and #slope.shape == 1 and slope.size > 1 and rank > 1 then
    slope = tools.channels(slope, rank)
  end
  return ops.where(ops.less(x[1], ops.zeros_like(x[1])), x[1] * slope, x[1])
end

-- Before opset 13 all axes from `axis` on were one.
local function softmax(op)
  return function(x, a, n)
    local shape, rank, rows = x[1].shape, #x[1].shape, 1
    if n.opset >= 13 then return ops.nn[op](x[1], {axis = tools.axis(n, a.axis, rank)}) end
    for i = 1, tools.axis(n, a.axis, rank, rank) do rows = rows * shape[i] end
    return ops.reshape(ops.nn[op](ops.reshape(x[1], {rows, -1}), {axis = -1}), shape)
  end
end
interpret.Softmax, interpret.LogSoftmax = softmax("softmax"), softmax("log_softmax")

-- Opset 1 names the types.
local type_names <const> = {
  FLOAT = "float32", UINT8 = "uint8", INT8 = "int8", INT32 = "int32", INT64 = "int64",
  BOOL = "bool", FLOAT16 = "float16", DOUBLE = "float64",
}
-- `saturate` concerns numbers beyond the range of a float of 8 bits; there is no such dtype here.
function interpret.Cast(x, a, n)
  local dtype, _ = type_names[a.to] or format.dtype(a.to), a.saturate -- luacheck: ignore 211
  if not dtype then refuse(n, "the type " .. format.type_name(a.to) .. " is not known here") end
  return ops.cast(x[1], dtype)
end

function interpret.CastLike(x, a)
  local _ = a.saturate -- luacheck: ignore 211
  return ops.cast(x[1], x[2].dtype)
end

-- ------------------------------------------------ reductions

-- The axes to reduce, from 0; and whether nothing is to be done.
local function axes_of(x, a, n)
  local axes, rank = tools.ints(n, x[2]) or a.axes, #x[1].shape
  local idle = a.noop_with_empty_axes == 1
  if not axes or #axes == 0 then return range(0, rank - 1), idle end
  local out = {}
  for i, axis in ipairs(axes) do out[i] = tools.axis(n, axis, rank) end
  return out, false
end

-- f(v, options) of the operand. If f takes floats, integers become float64, and the result is
-- rounded towards zero.
local function reduction(f, wants_float)
  return function(x, a, n)
    local axes, idle = axes_of(x, a, n)
    local options = {axis = axes, keepdims = a.keepdims ~= 0}
    if idle then return x[1] end
    if is_float(x[1]) or not wants_float then return f(x[1], options) end
    return ops.cast(f(ops.cast(x[1], "float64"), options), x[1].dtype)
  end
end

interpret.ReduceSum, interpret.ReduceProd = reduction(ops.reduce_sum), reduction(ops.reduce_prod)
interpret.ReduceLogSumExp = reduction(ops.reduce_logsumexp, true)
interpret.ReduceSumSquare = reduction(function(v, o) return ops.reduce_sum(v * v, o) end)
interpret.ReduceL1 = reduction(function(v, o) return ops.reduce_sum(ops.abs(v), o) end)
interpret.ReduceL2 = tools.widened(reduction(function(v, o)
  return ops.sqrt(ops.reduce_sum(v * v, o))
end, true))
interpret.ReduceLogSum = tools.widened(reduction(function(v, o)
  return ops.log(ops.reduce_sum(v, o))
end, true))

local least_of <const> = {int8 = -128, uint8 = 0, int32 = -1 << 31, int64 = math.mininteger}
local most_of <const> = {int8 = 127, uint8 = 255, int32 = (1 << 31) - 1, int64 = math.maxinteger}

-- The greatest or least element: of nothing it is the type's other end. Bools (since opset 20):
-- whether any or all are true.
local function extreme(f, of_bools, ends, infinite)
  return reduction(function(v, o)
    if v.dtype == "bool" then return of_bools(v, o) end
    if v.size > 0 then return f(v, o) end
    local none = ops.tensor(ends[v.dtype] or infinite, {dtype = v.dtype})
    return ops.broadcast_to(none, ops.reduce_sum(v, o).shape)
  end)
end
interpret.ReduceMax = extreme(ops.reduce_max, ops.reduce_any, least_of, -math.huge)
interpret.ReduceMin = extreme(ops.reduce_min, ops.reduce_all, most_of, math.huge)

-- Of integers: their sum, divided towards zero.
interpret.ReduceMean = reduction(function(v, o)
  if is_float(v) then return ops.reduce_mean(v, o) end
  local count = 1
  for _, axis in ipairs(o.axis) do count = count * v.shape[axis + 1] end
  local sum = ops.reduce_sum(ops.cast(v, "int64"), o)
  return ops.cast(quotient(sum, ops.tensor(count, {dtype = "int64"})), v.dtype)
end)

function interpret.GlobalAveragePool(x)
  return ops.reduce_mean(x[1], {axis = range(2, #x[1].shape - 1), keepdims = true})
end
function interpret.GlobalMaxPool(x)
  return ops.reduce_max(x[1], {axis = range(2, #x[1].shape - 1), keepdims = true})
end

local function position(op)
  return function(x, a, n)
    local axis = tools.axis(n, a.axis, #x[1].shape)
    local v, last, keeps = x[1], a.select_last_index == 1, a.keepdims ~= 0
    local out = ops.cast(ops[op](last and ops.reverse(v, axis) or v, {axis = axis}), "int64")
    if last then out = v.shape[axis + 1] - 1 - out end
    return keeps and ops.expand_dims(out, axis) or out
  end
end
interpret.ArgMax, interpret.ArgMin = position("argmax"), position("argmin")

function interpret.CumSum(x, a, n)
  local axis = tools.axis(n, tools.number(n, x[2]), #x[1].shape)
  return ops.cumsum(x[1], {axis = axis, exclusive = a.exclusive == 1, reverse = a.reverse == 1})
end

-- ------------------------------------------------ products

-- As NumPy's: vectors are rows on the left and columns on the right, which go again.
function interpret.MatMul(x)
  local a, b = x[1], x[2]
  local row, column = #a.shape == 1, #b.shape == 1
  if row then a = ops.expand_dims(a, 0) end
  if column then b = ops.expand_dims(b, 1) end
  local out = ops.matmul(a, b)
  if column then out = ops.squeeze(out, {axis = -1}) end
  return row and ops.squeeze(out, {axis = column and -1 or -2}) or out
end

function interpret.Gemm(x, a)
  local alpha, beta, _ = a.alpha, a.beta, a.broadcast -- luacheck: ignore 211
  local out = ops.matmul(x[1], x[2], {transpose_a = a.transA ~= 0, transpose_b = a.transB ~= 0})
  if alpha ~= 1 then out = out * alpha end
  if not x[3] then return out end
  return out + (beta == 1 and x[3] or x[3] * beta)
end

function interpret.Einsum(x, a)
  return ops.einsum(table.move(x, 1, x.n, 1, {}), {equation = a.equation})
end

for _, part in ipairs{"shapes", "nn", "recurrent"} do
  for name, f in pairs(require("ipulua.keras.onnx.interpret_" .. part)) do interpret[name] = f end
end

return interpret
