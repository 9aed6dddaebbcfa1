-- One conversion an op: convert[op](g, x, a, r) adds the ONNX nodes of an op to a graph and returns
-- its results. x are the operands, a the attributes, r the record (its outputs' types). Opset 17.

local ops = require "ipulua.ops"
local tools = require "ipulua.keras.onnx.tools"

local convert = {}

local END <const> = math.maxinteger -- an open end of a slice

local filled <const>, range <const>, refuse <const> = tools.filled, tools.range, tools.refuse_op
local is_integer <const>, like <const> = tools.is_integer, tools.like

-- ------------------------------------------------ elementwise

local same_name <const> = {
  abs = "Abs", acos = "Acos", asin = "Asin", atan = "Atan", ceil = "Ceil", cos = "Cos",
  cosh = "Cosh", exp = "Exp", erf = "Erf",
  floor = "Floor", is_inf = "IsInf", is_nan = "IsNaN", log = "Log", logical_not = "Not",
  neg = "Neg", identity = "Identity",
  stop_gradient = "Identity", reciprocal = "Reciprocal", round = "Round", sigmoid = "Sigmoid",
  sign = "Sign", sin = "Sin",
  sinh = "Sinh", sqrt = "Sqrt", tan = "Tan", tanh = "Tanh", ["nn.relu"] = "Relu",
  ["nn.softplus"] = "Softplus",
  ["nn.softsign"] = "Softsign", add = "Add", sub = "Sub", mul = "Mul", pow = "Pow", maximum = "Max",
  minimum = "Min",
  equal = "Equal", less = "Less", less_equal = "LessOrEqual", greater = "Greater",
  greater_equal = "GreaterOrEqual",
  logical_and = "And", logical_or = "Or", logical_xor = "Xor", where = "Where",
  ["nn.bias_add"] = "Add",
}
for op, name in pairs(same_name) do
  convert[op] = function(g, x) return g:emit(name, x) end
end

function convert.not_equal(g, x) return g:emit("Not", {g:emit("Equal", x)}) end
function convert.is_finite(g, x)
  return g:emit("Not", {g:emit("Or", {g:emit("IsNaN", {x[1]}), g:emit("IsInf", {x[1]})})})
end
function convert.square(g, x) return g:emit("Mul", {x[1], x[1]}) end
function convert.rsqrt(g, x) return g:emit("Reciprocal", {g:emit("Sqrt", {x[1]})}) end

-- With u = e^x rounded, the result is (u - 1) x / log u, whose errors cancel. If u is 1, it is x.
-- If u - 1 is -1 or infinite, it is u - 1.
function convert.expm1(g, x)
  local one, u = like(g, x[1], 1), g:emit("Exp", {x[1]})
  local d, log = g:emit("Sub", {u, one}), g:emit("Log", {u})
  local exact = g:emit("Mul", {d, g:emit("Div", {x[1], log})})
  local far = g:emit("Greater", {g:emit("Abs", {x[1]}), one})
  return g:emit("Where", {far, d, g:emit("Where", {g:emit("Equal", {u, one}), x[1], exact})})
end

-- With u = 1 + x rounded: log u · x / (u - 1).
function convert.log1p(g, x)
  local one = like(g, x[1], 1)
  local u = g:emit("Add", {x[1], one})
  local d, log = g:emit("Sub", {u, one}), g:emit("Log", {u})
  local exact = g:emit("Mul", {log, g:emit("Div", {x[1], d})})
  local far = g:emit("Greater", {x[1], one})
  return g:emit("Where", {far, log, g:emit("Where", {g:emit("Equal", {u, one}), x[1], exact})})
end

function convert.squared_difference(g, x)
  local d = g:emit("Sub", x)
  return g:emit("Mul", {d, d})
end

function convert.div(g, x)
  if is_integer(x[1]) then x = {g:cast(x[1], "float32"), g:cast(x[2], "float32")} end
  return g:emit("Div", x)
end

-- Whether a remainder and the divisor are on two sides of 0.
local function differ(g, rest, divisor, dtype)
  local zero = g:scalar(0, dtype)
  local signs = g:emit("Xor", {g:emit("Less", {rest, zero}), g:emit("Less", {divisor, zero})})
  return g:emit("And", {signs, g:emit("Not", {g:emit("Equal", {rest, zero})})})
end

-- ONNX divides integers towards zero.
function convert.floordiv(g, x)
  local dtype = x[1].dtype
  if not is_integer(x[1]) then return g:emit("Floor", {g:emit("Div", x)}) end
  local q = g:emit("Div", x)
  if dtype == "uint8" then return q end
  local rest = g:emit("Sub", {x[1], g:emit("Mul", {q, x[2]})})
  return g:emit("Sub", {q, g:cast(differ(g, rest, x[2], dtype), dtype)})
end

function convert.mod(g, x)
  if is_integer(x[1]) then return g:emit("Mod", x, {fmod = 0}) end
  local rest = g:emit("Mod", x, {fmod = 1}) -- of the dividend's sign
  return g:emit("Where", {differ(g, rest, x[2], x[1].dtype), g:emit("Add", {rest, x[2]}), rest})
end

local function constant_like(value)
  return function(g, x)
    local zero = g:emit("Expand", {like(g, x[1], value), g:emit("Shape", {x[1]})})
    return zero
  end
end
convert.zeros_like, convert.ones_like = constant_like(0), constant_like(1)

local ranges <const> = {uint8 = {0, 255}, int8 = {-128, 127}, int32 = {-2147483648, 2147483647},
  int64 = {math.mininteger, math.maxinteger}}

-- Limits of integers turn into the least and the greatest one.
function convert.clip_by_value(g, x, a)
  local dtype = x[1].dtype
  if not ranges[dtype] then
    return g:emit("Clip", {x[1], like(g, x[1], a.min), like(g, x[1], a.max)})
  end
  local limits = ops.clip_by_value(ops.tensor(ranges[dtype], {dtype = dtype}), a.min,
    a.max):totable()
  return g:emit("Clip", {x[1], g:scalar(limits[1], dtype), g:scalar(limits[2], dtype)})
end
function convert.cast(g, x, a) return g:cast(x[1], a.dtype) end

convert["nn.relu6"] = function(g, x)
  return g:emit("Clip", {x[1], like(g, x[1], 0), like(g, x[1], 6)})
end
convert["nn.leaky_relu"] = function(g, x, a) return g:emit("LeakyRelu", x, {alpha = a.alpha}) end
convert["nn.elu"] = function(g, x, a) return g:emit("Elu", x, {alpha = a.alpha}) end
convert["nn.selu"] = function(g, x) return g:emit("Selu", x) end
convert["nn.swish"] = function(g, x) return g:emit("Mul", {x[1], g:emit("Sigmoid", x)}) end
convert["nn.hard_sigmoid"] = function(g, x)
  return g:emit("HardSigmoid", x, {alpha = 0.2, beta = 0.5})
end
convert["nn.softmax"] = function(g, x, a) return g:emit("Softmax", x, {axis = a.axis}) end
convert["nn.log_softmax"] = function(g, x, a) return g:emit("LogSoftmax", x, {axis = a.axis}) end

convert["nn.gelu"] = function(g, x, a)
  local v = x[1]
  local inner
  if a.approximate then
    local cube = g:emit("Mul", {g:emit("Mul", {v, v}), v})
    local sum = g:emit("Add", {v, g:emit("Mul", {cube, like(g, v, 0.044715)})})
    inner = g:emit("Tanh", {g:emit("Mul", {sum, like(g, v, math.sqrt(2 / math.pi))})})
  else
    inner = g:emit("Erf", {g:emit("Mul", {v, like(g, v, math.sqrt(0.5))})})
  end
  return g:emit("Mul", {g:emit("Mul", {v, like(g, v, 0.5)}), g:emit("Add", {inner, like(g, v, 1)})})
end

-- ------------------------------------------------ reductions

local function axes_of(x, axis) return axis or range(0, #x.shape - 1) end

-- ReduceSum takes its axes as an operand, the others as an attribute.
local function reduce(g, op, v, axes, keepdims)
  if #axes == 0 then return g:emit("Identity", {v}) end
  if op == "ReduceSum" then
    return g:emit(op, {v, g:ints(axes)}, {keepdims = keepdims and 1 or 0})
  end
  return g:emit(op, {v}, {axes = axes, keepdims = keepdims and 1 or 0})
end

for name, op in pairs{sum = "Sum", mean = "Mean", max = "Max", min = "Min", prod = "Prod",
  logsumexp = "LogSumExp"} do
  convert["reduce_" .. name] = function(g, x, a)
    return reduce(g, "Reduce" .. op, x[1], axes_of(x[1], a.axis), a.keepdims)
  end
end

local function variance(g, v, axes, keepdims)
  local d = g:emit("Sub", {v, reduce(g, "ReduceMean", v, axes, true)})
  return reduce(g, "ReduceMean", g:emit("Mul", {d, d}), axes, keepdims)
end

function convert.reduce_variance(g, x, a)
  return variance(g, x[1], axes_of(x[1], a.axis), a.keepdims)
end
function convert.reduce_std(g, x, a) return g:emit("Sqrt", {convert.reduce_variance(g, x, a)}) end

convert["nn.moments"] = function(g, x, a)
  local axes = axes_of(x[1], a.axes)
  return reduce(g, "ReduceMean", x[1], axes, a.keepdims), variance(g, x[1], axes, a.keepdims)
end

local function reduce_bool(op)
  return function(g, x, a)
    return g:cast(reduce(g, op, g:cast(x[1], "int32"), axes_of(x[1], a.axis), a.keepdims), "bool")
  end
end
convert.reduce_any, convert.reduce_all = reduce_bool("ReduceMax"), reduce_bool("ReduceMin")

local function position(op)
  return function(g, x, a) return g:cast(g:emit(op, x, {axis = a.axis, keepdims = 0}), "int32") end
end
convert.argmax, convert.argmin = position("ArgMax"), position("ArgMin")

function convert.cumsum(g, x, a)
  return g:emit("CumSum", {x[1], g:scalar(a.axis, "int64")},
    {exclusive = a.exclusive and 1 or 0, reverse = a.reverse and 1 or 0})
end

convert["nn.l2_loss"] = function(g, x)
  local v = x[1]
  return g:emit("Mul", {reduce(g, "ReduceSum", g:emit("Mul", {v, v}), axes_of(v), false),
    like(g, v, 0.5)})
end

convert["nn.l2_normalize"] = function(g, x, a)
  local v = x[1]
  local sum = reduce(g, "ReduceSum", g:emit("Mul", {v, v}), axes_of(v, a.axis), true)
  return g:emit("Div", {v, g:emit("Sqrt", {g:emit("Max", {sum, like(g, v, a.epsilon)})})})
end

-- ------------------------------------------------ shapes

-- The extents of a shape that depends on the batch, as a value. The batch is the first axis of the
-- model's first input.
local function shape_value(g, shape)
  local is_open = false
  for _, extent in ipairs(shape) do
    if extent == -2 then return nil end
    is_open = is_open or extent == -1
  end
  if not is_open then return g:ints(shape) end
  local parts, known = {}, {}
  local function flush()
    if #known > 0 then parts[#parts + 1] = g:ints(known) end
    known = {}
  end
  for _, extent in ipairs(shape) do
    if extent == -1 then
      flush()
      parts[#parts + 1] = g:batch()
    else
      known[#known + 1] = extent
    end
  end
  flush()
  return g:emit("Concat", parts, {axis = 0})
end
convert._shape_value = shape_value

function convert.reshape(g, x, _, r)
  local shape, open = {}, 0
  for i, extent in ipairs(r.outputs[1].shape) do
    shape[i] = math.max(extent, -1)
    if extent < 0 then open = open + 1 end
  end
  if open > 1 then refuse(r, "two extents of the result depend on the batch; give a batch_size") end
  return g:reshape(x[1], shape)
end

function convert.broadcast_to(g, x, _, r)
  local shape = shape_value(g, r.outputs[1].shape)
  if not shape then refuse(r, "the shape depends on the batch; give a batch_size") end
  return g:emit("Expand", {x[1], shape})
end

function convert.transpose(g, x, a)
  return g:transpose(x[1], a.perm or (function()
    local perm = {}
    for i = #x[1].shape, 1, -1 do perm[#perm + 1] = i - 1 end
    return perm
  end)())
end

function convert.concat(g, x, a) return g:emit("Concat", x, {axis = a.axis}) end
function convert.expand_dims(g, x, a) return g:emit("Unsqueeze", {x[1], g:ints{a.axis}}) end

function convert.squeeze(g, x, a)
  local axes = a.axis
  if not axes or #axes == 0 then
    axes = {}
    for i, extent in ipairs(x[1].shape) do
      if extent == 1 then axes[#axes + 1] = i - 1 end
    end
  end
  if #axes == 0 then return g:emit("Identity", {x[1]}) end
  return g:emit("Squeeze", {x[1], g:ints(axes)})
end

function convert.stack(g, x, a)
  local parts = {}
  for i, v in ipairs(x) do parts[i] = g:emit("Unsqueeze", {v, g:ints{a.axis}}) end
  return g:emit("Concat", parts, {axis = a.axis})
end

function convert.split(g, x, a, r)
  local axis, sizes = a.axis, {}
  for i, type in ipairs(r.outputs) do
    sizes[i] = type.shape[(axis < 0 and axis + #type.shape or axis) + 1]
  end
  return g:emit("Split", {x[1], g:ints(sizes)}, {axis = axis}, #sizes)
end

function convert.unstack(g, x, a, r)
  local parts = table.pack(g:emit("Split", {x[1], g:ints(filled(#r.outputs, 1))}, {axis = a.axis},
    #r.outputs))
  for i = 1, parts.n do parts[i] = g:emit("Squeeze", {parts[i], g:ints{a.axis}}) end
  return table.unpack(parts, 1, parts.n)
end

function convert.tile(g, x, a) return g:emit("Tile", {x[1], g:ints(a.multiples)}) end

function convert.pad(g, x, a, r)
  local mode = a.mode:lower()
  if mode ~= "constant" and mode ~= "reflect" then
    refuse(r, "ONNX has no padding of mode " .. a.mode)
  end
  local pads, rank = {}, #x[1].shape
  for i = 1, rank do pads[i], pads[rank + i] = a.paddings[2 * i - 1], a.paddings[2 * i] end
  return g:emit("Pad",
    {x[1], g:ints(pads), mode == "constant" and like(g, x[1], a.constant_values)}, {mode = mode})
end

function convert.reverse(g, x, a)
  local n = #a.axis
  return g:emit("Slice", {x[1], g:ints(filled(n, -1)), g:ints(filled(n, math.mininteger)),
    g:ints(a.axis), g:ints(filled(n, -1))})
end

function convert.slice(g, x, a, r)
  local ends = {}
  for i, from in ipairs(a.begin) do
    local extent = r.outputs[1].shape[i]
    ends[i] = extent < 0 and END or from + extent
  end
  return g:emit("Slice", {x[1], g:ints(a.begin), g:ints(ends), g:ints(range(0, #ends - 1))})
end

function convert.strided_slice(g, x, a)
  local starts, ends, steps = {}, {}, {}
  for i, from in ipairs(a.begins) do
    steps[i] = a.strides and (a.strides[i] or a.strides[1]) or 1
    starts[i] = from or (steps[i] > 0 and 0 or END)
    ends[i] = a.ends[i] or (steps[i] > 0 and END or math.mininteger)
    -- the batch itself
    if ends[i] == -1 and steps[i] > 0 and x[1].shape[i] < 0 then ends[i] = END end
  end
  return g:emit("Slice",
    {x[1], g:ints(starts), g:ints(ends), g:ints(range(0, #starts - 1)), g:ints(steps)})
end

-- Each row so often: the rows' numbers are known, so it is a gather.
function convert.repeat_n(g, x, a, r)
  local v, axis = x[1], a.axis
  if not axis then v, axis = g:reshape(v, {-1}), 0 end
  axis = axis < 0 and axis + #x[1].shape or axis
  local extent = a.axis and x[1].shape[axis + 1] or 1
  if not a.axis then
    for _, n in ipairs(x[1].shape) do extent = extent * n end
  end
  if extent < 0 then refuse(r, "the axis is the batch; give a batch_size") end
  local rows = {}
  for i = 1, extent do
    for _ = 1, a.repeats[i] or a.repeats[1] do rows[#rows + 1] = i - 1 end
  end
  return g:emit("Gather", {v, g:ints(rows)}, {axis = axis})
end

-- ------------------------------------------------ picking

function convert.gather(g, x, a) return g:emit("Gather", x, {axis = a.axis}) end
function convert.embedding_lookup(g, x) return g:emit("Gather", {x[1], x[2]}, {axis = 0}) end
function convert.gather_nd(g, x) return g:emit("GatherND", {x[1], g:cast(x[2], "int64")}) end

-- An index below 0 is no class here, but counts from the end there: the depth itself is none on
-- both sides. Values that float32 holds are given in it, since few runtimes take others.
function convert.one_hot(g, x, a)
  local exact = ops.tensor({a.off_value, a.on_value}, {dtype = a.dtype})
  local values = g:known(ops.cast(exact, "float32"))
  if ops.reduce_any(ops.not_equal(ops.cast(values.tensor, a.dtype), exact)):item() then
    values = g:known(exact)
  end
  local index, depth = g:cast(x[1], "int64"), g:scalar(a.depth, "int64")
  index = g:emit("Where", {g:emit("Less", {index, g:scalar(0, "int64")}), depth, index})
  local out = g:emit("OneHot", {index, depth, values}, {axis = a.axis})
  return values.dtype == a.dtype and out or g:cast(out, a.dtype)
end

function convert.top_k(g, x, a)
  local values, indices = g:emit("TopK", {x[1], g:ints{a.k}}, {axis = -1}, 2)
  return values, g:cast(indices, "int32")
end

local function sorted(which)
  return function(g, x, a, r)
    local axis = a.axis < 0 and a.axis + #x[1].shape or a.axis
    local extent = x[1].shape[axis + 1]
    if extent < 0 then refuse(r, "the axis is the batch; give a batch_size") end
    local largest = a.direction == "DESCENDING" and 1 or 0
    local values, indices = g:emit("TopK", {x[1], g:ints{extent}},
      {axis = axis, largest = largest}, 2)
    return which == 1 and values or g:cast(indices, "int32")
  end
end
convert.sort, convert.argsort = sorted(1), sorted(2)

-- ------------------------------------------------ products

local function swap_last(g, v)
  local rank = #v.shape
  local perm = range(0, rank - 3)
  perm[rank - 1], perm[rank] = rank - 1, rank - 2
  return g:transpose(v, perm)
end

function convert.matmul(g, x, a)
  return g:emit("MatMul",
    {a.transpose_a and swap_last(g, x[1]) or x[1], a.transpose_b and swap_last(g, x[2]) or x[2]})
end
convert.serialized_matmul = convert.matmul

function convert.einsum(g, x, a) return g:emit("Einsum", x, {equation = a.equation}) end

-- Queries, keys and values are [batch, time, heads, depth]; a mask is true where attention goes.
convert["nn.dot_product_attention"] = function(g, x, a)
  local q, k, v, mask = x[1], x[2], x[3], x[4]
  local scale = a.scale or 1 / math.sqrt(q.shape[4])
  local scores = g:emit("MatMul", {g:transpose(q, {0, 2, 1, 3}), g:transpose(k, {0, 2, 3, 1})})
  scores = g:emit("Mul", {scores, like(g, q, scale)})
  local least = g:scalar(-3e38, q.dtype)
  if mask then scores = g:emit("Where", {mask, scores, least}) end
  if a.is_causal then
    local queries, keys = q.shape[2], k.shape[2]
    local seen = ops.less_equal(ops.reshape(ops.arange(keys), {1, keys}),
      ops.reshape(ops.arange(queries), {queries, 1}))
    scores = g:emit("Where", {g:known(seen), scores, least})
  end
  local weights = g:emit("Softmax", {scores}, {axis = -1})
  return g:transpose(g:emit("MatMul", {weights, g:transpose(v, {0, 2, 1, 3})}), {0, 2, 1, 3})
end

for name, f in pairs(require "ipulua.keras.onnx.convert_nn") do convert[name] = f end

require "ipulua.keras.onnx.operand_types"(convert)

return convert
