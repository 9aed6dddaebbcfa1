-- Legal but unusual ONNX nodes at random, for onnx_graphs.lua: operators, opsets, types, extents,
-- attributes, operands left out.

local ipu = require "ipulua"

local nodes = {}

local state = 1
function nodes.seed(number) state = number end

local function below(n) -- 0 … n - 1
  state = (state * 6364136223846793005 + 1442695040888963407) & math.maxinteger
  return (state >> 33) % n
end
local function between(a, b) return a + below(b - a + 1) end
local function pick(list) return list[between(1, #list)] end
local function chance(n) return below(n) == 0 end

local function shape_of(rank, least, most)
  local s = {}
  for i = 1, rank do s[i] = between(least or 1, most or 5) end
  return s
end

local function count_of(shape)
  local count = 1
  for _, extent in ipairs(shape) do count = count * extent end
  return count
end

local odd <const> = {0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, 1e-6, -300.0, 5000.0, 1e20,
  math.huge, -math.huge}

-- Elements: small ones, or (wild) also the odd ones; integers around the edges of their types.
local function tensor(shape, dtype, wild)
  local list = {}
  for i = 1, count_of(shape) do
    if dtype == "bool" then list[i] = chance(2)
    elseif dtype:find("float") then list[i] = wild and chance(4) and pick(odd)
      or (below(2001) - 1000) / 256
    elseif dtype == "uint8" then list[i] = below(wild and 256 or 8)
    elseif dtype == "int8" then list[i] = below(wild and 256 or 16) - (wild and 128 or 8)
    elseif dtype == "int64" then list[i] = wild and chance(3)
      and pick{(1 << 53) + 1, -(1 << 40) - 7, 16777217} or below(21) - 10
    else
      list[i] = wild and chance(3) and pick{16777217, 2147483647, -2147483647} or below(21) - 10
    end
  end
  if #list == 0 then return ipu.zeros(shape, {dtype = dtype}) end
  return ipu.reshape(ipu.tensor(list, {dtype = dtype}), shape)
end

local function longs(list)
  return #list > 0 and ipu.tensor(list, {dtype = "int64"}) or ipu.zeros({0}, {dtype = "int64"})
end

-- A shape that broadcasts with the given one.
local function partner(shape)
  local s = table.move(shape, 1 + below(#shape + 1), #shape, 1, {})
  for i = 1, #s do
    if chance(3) then s[i] = 1 end
  end
  return s
end

local function some_axes(rank)
  local axes = {}
  for i = 0, rank - 1 do
    if chance(2) then axes[#axes + 1] = chance(2) and i or i - rank end
  end
  return axes
end

-- ------------------------------------------------ kinds of nodes

-- Each gives {op, opset, operands …, a = attributes, known = {operand = true} for constants},
-- operands being tensors or false.
local kinds = {}
nodes.kinds = kinds

function kinds.unary()
  local op = pick{"Abs", "Acosh", "Asinh", "Atanh", "Ceil", "Cos", "Erf", "Exp", "Floor", "Log",
    "Neg", "Reciprocal", "Relu", "Round",
    "Sigmoid", "Sign", "Sin", "Softplus", "Softsign", "Sqrt", "Tan", "Tanh", "IsNaN", "HardSwish",
    "Atan", "Asin", "Sinh", "Cosh"}
  local wild = op ~= "Sin" and op ~= "Cos" and op ~= "Tan" and op ~= "Softsign"
    and op ~= "HardSwish" and op ~= "Sigmoid"
  return {op, between(14, 17), tensor(shape_of(between(0, 3)), "float32", wild)}
end

function kinds.unary_integer()
  return {pick{"Abs", "Neg", "Sign"}, 13, tensor(shape_of(2), pick{"int32", "int64", "int8"}, true)}
end

function kinds.activation()
  local v, f = tensor(shape_of(between(1, 3)), "float32"), function()
    return (below(200) + 1) / 100
  end
  local case = pick{{"Elu", "alpha"}, {"LeakyRelu", "alpha"}, {"Selu", "alpha", "gamma"},
    {"HardSigmoid", "alpha", "beta"},
    {"ThresholdedRelu", "alpha"}, {"Celu", "alpha"}, {"Shrink", "lambd", "bias"}}
  local a = {}
  for i = 2, #case do
    if chance(2) then a[case[i]] = f() end
  end
  return {case[1], between(12, 17), v, a = a}
end

function kinds.binary()
  local dtype, shape = pick{"float32", "int32", "int64"}, shape_of(between(1, 3))
  local op = pick{"Add", "Sub", "Mul", "Max", "Min", "Div", "Less", "Equal",
    "GreaterOrEqual", "Sum"}
  if op == "Sum" then dtype = "float32" end
  local b = tensor(partner(shape), dtype, true)
  if op == "Div" and dtype ~= "float32" then
    b = ipu.where(ipu.equal(b, 0), ipu.ones_like(b) * 3, b)
  end
  local wild = op ~= "Mul" or dtype == "float32"
  return {op, 13, tensor(shape, dtype, wild), b}
end

function kinds.old_binary()
  local shape = shape_of(between(2, 4))
  local axis = below(#shape)
  local length = between(1, #shape - axis)
  local op = pick{"Add", "Sub", "Mul", "Div"}
  return {op, 6, tensor(shape, "float32"),
    tensor(table.move(shape, axis + 1, axis + length, 1, {}), "float32"),
    a = {broadcast = 1, axis = chance(2) and axis or axis}}
end

function kinds.mod()
  local dtype = pick{"float32", "int32", "int64", "int8"}
  local b = tensor({4}, dtype)
  b = ipu.where(ipu.equal(b, 0), ipu.ones_like(b) * 3, b)
  return {"Mod", 13, tensor({3, 4}, dtype), b, a = {fmod = dtype == "float32" and 1 or below(2)}}
end

function kinds.pow()
  local base, exponent = pick{"float32", "int32", "int64"}, pick{"float32", "int32", "int64"}
  local b = ipu.abs(tensor(shape_of(2), base))
  local e = ipu.cast(ipu.tensor(pick{0, 1, 2, 3}), exponent)
  if exponent == "float32" and chance(2) then e = ipu.tensor(0.5) end
  return {"Pow", 13, b, ipu.reshape(e, {}), known = {[2] = true}}
end

function kinds.logic()
  local shape = shape_of(2)
  return {pick{"And", "Or", "Xor"}, 7, tensor(shape, "bool"), tensor(partner(shape), "bool")}
end

function kinds.where()
  local shape, dtype = shape_of(3), pick{"float32", "int64", "int32"}
  return {"Where", 16, tensor(partner(shape), "bool"), tensor(shape, dtype, true),
    tensor(partner(shape), dtype, true)}
end

function kinds.clip()
  local dtype, opset = pick{"float32", "int32", "int64", "int8"}, pick{6, 11, 12, 13}
  local v = tensor(shape_of(2), opset < 12 and "float32" or dtype, true)
  if opset < 11 then
    return {"Clip", opset, v,
      a = {min = chance(2) and -1.5 or nil, max = chance(2) and 2.25 or nil}}
  end
  local least, most = ipu.cast(ipu.tensor(-2), v.dtype), ipu.cast(ipu.tensor(3), v.dtype)
  return {"Clip", opset, v, chance(3) and false or least, chance(3) and false or most,
    known = {[2] = true, [3] = true}}
end

function kinds.prelu()
  local shape = shape_of(3)
  return {"PRelu", 16, tensor(shape, "float32", false), tensor(partner(shape), "float32"),
    known = {[2] = true}}
end

function kinds.softmax()
  local shape = shape_of(between(1, 4))
  return {pick{"Softmax", "LogSoftmax"}, pick{11, 13}, tensor(shape, "float32"),
    a = {axis = chance(3) and nil
    or between(-#shape, #shape - 1)}}
end

function kinds.cast()
  return {"Cast", 13,
    tensor(shape_of(2), pick{"float32", "int32", "int64", "bool", "uint8", "int8"}),
    a = {to = pick{1, 6, 7, 9, 11}}}
end

function kinds.reduce()
  local op = pick{"L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod",
    "SumSquare", "Sum"}
  local shape = shape_of(between(1, 4), 1, 4)
  local dtype = (op == "LogSum" or op == "LogSumExp") and "float32" or pick{"float32", "int32"}
  local v, axes = tensor(shape, dtype), some_axes(#shape)
  if op == "LogSum" then v = ipu.abs(v) end
  local a = {keepdims = chance(2) and below(2) or nil}
  if op ~= "Sum" or chance(2) then
    a.axes = #axes > 0 and axes or nil
    return {"Reduce" .. op, op == "Sum" and 11 or 13, v, a = a}
  end
  a.noop_with_empty_axes = below(2)
  return {"ReduceSum", 13, v, #axes > 0 and longs(axes) or false, a = a, known = {[2] = true}}
end

-- operands since opset 18; of none noop_with_empty_axes makes runtimes differ
function kinds.reduce_axes()
  local op = pick{"L1", "L2", "Max", "Mean", "Min", "Prod", "SumSquare"}
  local shape = shape_of(between(1, 4), 1, 4)
  local v, axes = tensor(shape, pick{"float32", "int32"}), some_axes(#shape)
  return {"Reduce" .. op, pick{18, 20}, v, #axes > 0 and longs(axes) or false,
    a = {keepdims = chance(2) and below(2) or nil}, known = {[2] = true}}
end

function kinds.position()
  local shape = shape_of(between(1, 3), 1, 4)
  return {pick{"ArgMax", "ArgMin"}, 13, ipu.cast(tensor(shape, "int32"), pick{"float32", "int32"}),
    a = {axis = between(-#shape, #shape - 1), keepdims = below(2), select_last_index = below(2)}}
end

function kinds.cumsum()
  local shape = shape_of(between(1, 3))
  return {"CumSum", 14, tensor(shape, pick{"float32", "int32", "int64"}),
    ipu.tensor(between(-#shape, #shape - 1), {dtype = "int32"}),
    a = {exclusive = below(2), reverse = below(2)}, known = {[2] = true}}
end

function kinds.shape()
  local shape = shape_of(between(1, 4))
  local case = pick{"Shape", "Size", "Flatten", "Transpose", "Squeeze", "Unsqueeze"}
  local v = tensor(shape, "float32")
  if case == "Shape" then
    return {"Shape", 15, v, a = {start = chance(2) and between(-6, 6) or nil,
      ["end"] = chance(2) and between(-6, 6) or nil}}
  elseif case == "Size" then return {"Size", 13, v}
  elseif case == "Flatten" then return {"Flatten", 13, v, a = {axis = between(-#shape, #shape)}}
  elseif case == "Transpose" then return {"Transpose", 13, v}
  elseif case == "Squeeze" then
    table.insert(shape, between(1, #shape + 1), 1)
    return {"Squeeze", pick{11, 13}, tensor(shape, "int64")}
  end
  local axes, rank = {}, #shape + 2
  axes[1], axes[2] = below(rank), nil
  repeat axes[2] = below(rank) until axes[2] ~= axes[1]
  if chance(2) then axes[1] = axes[1] - rank end
  if chance(2) then return {"Unsqueeze", 11, v, a = {axes = axes}} end
  return {"Unsqueeze", 13, v, longs(axes), known = {[2] = true}}
end

function kinds.reshape()
  local shape = shape_of(3, 1, 4)
  local to = pick{{-1}, {0, -1}, {0, 0, -1}, {-1, shape[3]}, {shape[1] * shape[2], 0 + shape[3]},
    {shape[3], -1, 1}}
  return {"Reshape", pick{5, 13, 14}, tensor(shape, pick{"float32", "int64"}), longs(to),
    known = {[2] = true}}
end

function kinds.expand()
  local shape = shape_of(between(1, 3), 1, 3)
  local to = table.move(shape, 1, #shape, 1, {})
  for i = 1, #to do
    if to[i] == 1 and chance(2) then to[i] = 4 elseif chance(3) then to[i] = 1 end
  end
  if chance(2) then table.insert(to, 1, 2) end
  return {"Expand", 13, tensor(shape, pick{"float32", "int64", "bool"}), longs(to),
    known = {[2] = true}}
end

function kinds.tile()
  local shape = shape_of(between(1, 3), 1, 3)
  return {"Tile", 13, tensor(shape, "float32"), longs(shape_of(#shape, 1, 3)), known = {[2] = true}}
end

function kinds.concat()
  local shape = shape_of(between(1, 3))
  local axis, list = below(#shape), {}
  for i = 1, between(1, 3) do
    shape[axis + 1] = between(1, 3)
    list[i] = tensor(shape, "float32")
  end
  return {"Concat", 13, list[1], list[2], list[3], a = {axis = chance(2) and axis or axis - #shape}}
end

function kinds.split()
  local shape = shape_of(2)
  shape[2] = 6
  if chance(3) then
    return {"Split", 13, tensor(shape, "float32"), a = {axis = pick{1, -1}},
      outputs = pick{1, 2, 3}}
  end
  if chance(2) then
    local count = pick{1, 2, 3, 4, 6}
    shape[2] = pick{6, 3 * count - 1}
    if (shape[2] + count - 1) // count * (count - 1) > shape[2] then shape[2] = 3 * count end
    return {"Split", 18, tensor(shape, "float32"), a = {axis = pick{1, -1}, num_outputs = count},
      outputs = count}
  end
  local sizes, axis = {between(0, 2), 3, 0}, pick{1, -1}
  sizes[3] = 6 - sizes[1] - 3
  if chance(2) then
    return {"Split", 11, tensor(shape, "float32"), a = {axis = axis, split = sizes}, outputs = 3}
  end
  return {"Split", 13, tensor(shape, "float32"), longs(sizes), a = {axis = axis}, outputs = 3,
    known = {[2] = true}}
end

function kinds.pad()
  local rank, mode = between(1, 4), pick{"constant", "edge", "reflect"}
  local shape, pads = shape_of(rank, 3, 5), {}
  for i = 1, 2 * rank do pads[i] = chance(3) and mode == "constant" and -1 or below(3) end
  local dtype = mode == "constant" and pick{"float32", "int32", "int64"} or "float32"
  local value = chance(2) and mode == "constant"
    and ipu.reshape(tensor({1}, dtype, dtype ~= "float32"), {}) or nil
  if chance(3) and dtype == "float32" then
    return {"Pad", 10, tensor(shape, dtype),
      a = {pads = pads, mode = mode, value = chance(2) and 1.5 or nil}}
  end
  return {"Pad", 13, tensor(shape, dtype), longs(pads), value, a = {mode = mode},
    known = {[2] = true, [3] = true}}
end

function kinds.pad_axes()
  local rank, mode = between(1, 4), pick{"constant", "edge", "reflect", "wrap"}
  local axes, pads = some_axes(rank), {}
  if #axes == 0 then axes[1] = rank - 1 end
  for i = 1, 2 * #axes do pads[i] = below(mode == "wrap" and 4 or 3) end
  return {"Pad", mode == "wrap" and 19 or pick{18, 19}, tensor(shape_of(rank, 3, 5), "float32"),
    longs(pads), false, longs(axes), a = {mode = mode}, known = {[2] = true, [4] = true}}
end

function kinds.slice()
  local rank = between(1, 3)
  local shape, starts, ends, axes, steps = shape_of(rank, 2, 6), {}, {}, {}, {}
  for i = 0, rank - 1 do
    if chance(2) or i == 0 then
      local k = #axes + 1
      axes[k] = chance(2) and i or i - rank
      starts[k], steps[k] = between(-8, 8), pick{1, 1, 2, -1, -2, 3}
      ends[k] = pick{between(-8, 8), steps[k] > 0 and math.maxinteger or math.mininteger}
    end
  end
  if chance(3) and math.min(table.unpack(steps)) > 0 then
    return {"Slice", 9, tensor(shape, "float32"), a = {starts = starts,
    ends = ends, axes = axes}} end
  return {"Slice", 13, tensor(shape, pick{"float32", "int64"}), longs(starts), longs(ends),
    longs(axes), chance(2)
    and longs(steps) or nil,
    known = {[2] = true, [3] = true, [4] = true, [5] = true}}
end

function kinds.gather()
  local shape = shape_of(between(1, 3), 2, 5)
  local axis = below(#shape)
  local index = {}
  for i = 1, between(1, 4) do index[i] = between(-shape[axis + 1], shape[axis + 1] - 1) end
  return {"Gather", 13, tensor(shape, pick{"float32", "int64"}, true),
    ipu.cast(longs(index), pick{"int32", "int64"}),
    a = {axis = chance(2) and axis or axis - #shape}, known = {[2] = chance(2)}}
end

function kinds.gather_nd()
  local shape = shape_of(3, 2, 4)
  local depth, rows = between(1, 3), {}
  for i = 1, 3 do
    rows[i] = {}
    for k = 1, depth do rows[i][k] = between(-shape[k], shape[k] - 1) end
  end
  return {"GatherND", 13, tensor(shape, "float32"), ipu.tensor(rows, {dtype = "int64"})}
end

function kinds.gather_nd_batches()
  local shape, batch = shape_of(4, 2, 4), between(1, 2)
  local indices, parts = table.move(shape, 1, batch, 1, {}), between(1, 3 - batch)
  if chance(2) then indices[#indices + 1] = between(1, 3) end
  indices[#indices + 1] = parts
  return {"GatherND", 13, tensor(shape, "float32"), ipu.mod(tensor(indices, "int64"), 2) - below(3),
    a = {batch_dims = batch}}
end

function kinds.one_hot()
  local depth, dtype = between(1, 4), pick{"float32", "int64", "int32"}
  local v = tensor(shape_of(between(1, 2)), "int64")
  return {"OneHot", 11, v, ipu.tensor({depth}, {dtype = "int64"}),
    tensor({2}, dtype, dtype == "int64"),
    a = {axis = between(-#v.shape - 1, #v.shape)},
    known = {[2] = true, [3] = true}}
end

function kinds.top_k()
  local shape = shape_of(between(1, 3), 2, 5)
  local axis = below(#shape)
  return {"TopK", 11, tensor(shape, pick{"float32", "int32", "int64"}),
    longs{between(1, shape[axis + 1])},
    a = {axis = chance(2) and axis or axis - #shape, largest = below(2), sorted = 1}, outputs = 2,
    known = {[2] = true}}
end

function kinds.space()
  local b = between(1, 3)
  if chance(2) then
    return {"DepthToSpace", 13, tensor({2, 2 * b * b, 2, 3}, "float32"),
      a = {blocksize = b, mode = chance(3) and nil
      or pick{"DCR", "CRD"}}}
  end
  return {"SpaceToDepth", 13, tensor({2, 2, 2 * b, 3 * b}, "float32"), a = {blocksize = b}}
end

function kinds.mat_mul()
  local m, k, n = between(1, 4), between(1, 5), between(1, 4)
  local a, b = pick{{k}, {m, k}, {2, m, k}, {3, 1, m, k}}, pick{{k}, {k, n}, {2, k, n}}
  return {"MatMul", 13, tensor(a, "float32"), tensor(b, "float32")}
end

function kinds.gemm()
  local m, k, n, ta, tb = between(1, 4), between(1, 5), between(1, 4), below(2), below(2)
  return {"Gemm", 13, tensor(ta == 1 and {k, m} or {m, k}, "float32"),
    tensor(tb == 1 and {n, k} or {k, n}, "float32"),
    chance(3) and false or tensor(pick{{n}, {1, n}, {m, 1}, {m, n}, {}}, "float32"),
    a = {transA = ta, transB = tb, alpha = chance(2) and 0.5 or nil,
      beta = chance(2) and 2.0 or nil}}
end

function kinds.einsum()
  local equation = pick{"ij,jk->ik", "bij,bjk->bik", "ij->ji", "ij->", "i,j->ij", " ij , jk -> i k",
    "ii->i", "ij,ij"}
  local shapes = {}
  for term in equation:gsub("%->.*", ""):gsub(" ", ""):gmatch("[^,]+") do
    local s = {}
    for _ in term:gmatch("%a") do s[#s + 1] = 3 end
    shapes[#shapes + 1] = s
  end
  return {"Einsum", 12, tensor(shapes[1], "float32"), shapes[2] and tensor(shapes[2], "float32")
    or nil, a = {equation = equation}}
end

local function window_attributes(rank, kernel)
  local a, auto = {}, pick{"NOTSET", "NOTSET", "NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"}
  if auto ~= "NOTSET" then a.auto_pad = auto
  elseif chance(2) then
    a.pads = {}
    for i = 1, 2 * rank do a.pads[i] = below(kernel[(i - 1) % rank + 1]) end
  end
  if chance(2) then a.strides = shape_of(rank, 1, 3) end
  -- runtimes differ in what no kernel reaches
  for i = 1, a.strides and auto:find("SAME") and rank or 0 do
    a.strides[i] = math.min(a.strides[i], kernel[i])
  end
  if chance(2) then a.kernel_shape = kernel end
  return a
end

function kinds.conv()
  local rank, groups = between(1, 3), pick{1, 1, 2}
  local kernel = shape_of(rank, 1, 3)
  local a = window_attributes(rank, kernel)
  if groups > 1 then a.group = groups end
  if chance(3) and not (a.auto_pad or ""):find("SAME") then a.dilations = shape_of(rank, 1, 2) end
  local size, image = table.move(kernel, 1, rank, 3, {2 * groups, 2}),
    table.move(shape_of(rank, 5, 8), 1, rank, 3, {2, 2 * groups})
  return {"Conv", 11, tensor(image, "float32"), tensor(size, "float32"),
    chance(2) and tensor({2 * groups}, "float32") or nil,
    a = a, known = {[2] = true, [3] = true}}
end

function kinds.conv_transpose()
  local rank, groups = between(1, 2), pick{1, 2}
  local kernel = shape_of(rank, 1, 4)
  local a = window_attributes(rank, kernel)
  if a.pads then -- something is left
    for i = 1, 2 * rank do a.pads[i] = math.min(a.pads[i], 1) end
  end
  a.group = groups > 1 and groups or nil
  if a.strides and chance(2) then
    a.output_padding = {}
    for i = 1, rank do a.output_padding[i] = below(a.strides[i]) end
  end
  if chance(3) and not a.auto_pad then
    a.pads, a.output_shape = nil, {}
    for i = 1, rank do
      local whole = 4 * (a.strides and a.strides[i] or 1) + kernel[i]
        + (a.output_padding and a.output_padding[i] or 0)
      a.output_shape[i] = whole - 2 * below(2)
    end
  end
  local size, image = table.move(kernel, 1, rank, 3, {2 * groups, 2}),
    {1, 2 * groups, 5, rank == 2 and 5 or nil}
  return {"ConvTranspose", 11, tensor(image, "float32"), tensor(size, "float32"),
    chance(2) and tensor({2 * groups}, "float32") or nil,
    a = a, known = {[2] = true, [3] = true}}
end

function kinds.pool()
  local rank, op = between(1, 3), pick{"MaxPool", "AveragePool"}
  local kernel = shape_of(rank, 1, 3)
  local a = window_attributes(rank, kernel)
  a.kernel_shape = kernel
  -- of means onnxruntime divides by more than ONNX' text says
  if op == "MaxPool" and not a.auto_pad then a.ceil_mode = below(2) end
  -- and has windows that lie after the image or begin in its last pads
  for i = 1, a.ceil_mode == 1 and rank or 0 do
    if a.strides then a.strides[i] = math.min(a.strides[i], kernel[i]) end
    if a.pads then a.pads[rank + i] = 0 end
  end
  if op == "AveragePool" then a.count_include_pad = below(2) end
  local image = table.move(shape_of(rank, 4, 9), 1, rank, 3, {2, 2})
  return {op, 11, tensor(image, "float32"), a = a}
end

function kinds.dilated_pool()
  local rank, op = between(1, 3), pick{"MaxPool", "AveragePool"}
  local kernel = shape_of(rank, 1, 3)
  local a = window_attributes(rank, kernel)
  a.kernel_shape, a.dilations = kernel, shape_of(rank, 1, 2)
  a.auto_pad = a.auto_pad == "VALID" and "VALID" or nil
  if op == "AveragePool" then a.count_include_pad = below(2) end
  local indices = op == "MaxPool" and not a.pads and chance(2)
  local image = table.move(shape_of(rank, 6, 9), 1, rank, 3, {2, 2})
  return {op, op == "MaxPool" and 12 or 19, tensor(image, "float32"), a = a,
    outputs = indices and 2 or 1}
end

function kinds.global_pool()
  return {pick{"GlobalMaxPool", "GlobalAveragePool"}, 13,
    tensor({2, 3, table.unpack(shape_of(between(1, 3)))}, "float32")}
end

function kinds.norm()
  local rank = between(2, 4)
  local shape = shape_of(rank, 2, 4)
  local function vector(positive)
    local v = tensor({shape[2]}, "float32")
    return positive and ipu.abs(v) + 0.5 or v
  end
  local epsilon = chance(2) and 0.125 or nil
  if chance(2) then
    return {"BatchNormalization", pick{9, 14, 15}, tensor(shape, "float32"), vector(), vector(),
      vector(), vector(true),
      a = {epsilon = epsilon},
      known = {[2] = true, [3] = true, [4] = true, [5] = true}}
  elseif chance(2) then
    table.insert(shape, 3)
    return {"InstanceNormalization", 6, tensor(shape, "float32"), vector(), vector(),
      a = {epsilon = epsilon},
      known = {[2] = true, [3] = true}}
  end
  local axis = between(1, rank - 1)
  local part = table.move(shape, axis + 1, rank, 1, {})
  return {"LayerNormalization", 17, tensor(shape, "float32"), tensor(part, "float32"),
    chance(2) and tensor(part, "float32") or nil,
    a = {axis = chance(2) and axis or axis - rank, epsilon = epsilon},
    known = {[2] = true, [3] = true}}
end

function kinds.recurrent()
  local op = pick{"LSTM", "GRU", "RNN"}
  local gates, units, features, steps, batch = ({LSTM = 4, GRU = 3, RNN = 1})[op], between(1, 3),
    between(1, 3), between(1, 4), 2
  local direction = pick{"forward", "reverse", "bidirectional"}
  local d = direction == "bidirectional" and 2 or 1
  local h, c = chance(2) and tensor({d, batch, units}, "float32"),
    op == "LSTM" and chance(2) and tensor({d, batch, units},
    "float32") or nil
  local a = {hidden_size = units, direction = direction}
  if op == "GRU" then a.linear_before_reset = below(2) end
  if op == "RNN" and chance(2) then a.activations = d == 2 and {"Relu", "Tanh"} or {"Relu"} end
  local peepholes = op == "LSTM" and chance(3) and tensor({d, 3 * units}, "float32") / 4 or nil
  if peepholes then h, c = h or false, c or false end
  return {op, 14, tensor({steps, batch, features}, "float32"),
    tensor({d, gates * units, features}, "float32") / 4,
    tensor({d, gates * units, units}, "float32") / 4, chance(2)
    and tensor({d, 2 * gates * units}, "float32") / 4,
    false, h or (c and false or nil), c, peepholes, a = a, outputs = op == "LSTM" and 3 or 2,
    known = {[2] = true, [3] = true, [4] = true, [8] = true}}
end

return nodes
