-- ONNX' convolutions, pooling, normalisation and recurrent nodes in our ops; see interpret.lua. ONNX has channels first,
-- kernels [out, in, …], gates in its own order.

local blame = require "ipulua.blame"
local ipu = require "ipulua"

local interpret = {}

local function refuse(n, why) blame.error(string.format("onnx.import: node '%s' (%s): %s", n.name, n.op, why), "not_implemented") end

local function range(from, to)
  local list = {}
  for i = from, to do list[#list + 1] = i end
  return list
end

local function filled(count, value)
  local list = {}
  for i = 1, count do list[i] = value end
  return list
end

-- ------------------------------------------------ windows

local function to_last(v)
  local perm = {0, table.unpack(range(2, #v.shape - 1))}
  perm[#perm + 1] = 1
  return ipu.transpose(v, perm)
end

local function to_first(v) return ipu.transpose(v, {0, #v.shape - 1, table.unpack(range(1, #v.shape - 2))}) end

-- [a, b, k …] → [k …, b, a]
local function kernel_last(v)
  local perm = range(2, #v.shape - 1)
  perm[#perm + 1], perm[#perm + 2] = 1, 0
  return ipu.transpose(v, perm)
end

-- What a node's windows need around an image (channels last): {before …}, {behind …}, and what ceil_mode adds behind.
local function pads_of(v, a, size)
  local count, auto = #size, a.auto_pad or "NOTSET"
  local before, behind, more = {}, {}, {}
  for i = 1, count do
    local stride, extent = a.strides and a.strides[i] or 1, v.shape[i + 1]
    local cover = (size[i] - 1) * (a.dilations and a.dilations[i] or 1) + 1
    if auto == "NOTSET" or auto == "VALID" then
      before[i] = auto == "NOTSET" and a.pads and a.pads[i] or 0
      behind[i] = auto == "NOTSET" and a.pads and a.pads[count + i] or 0
    else
      local total = math.max(((extent + stride - 1) // stride - 1) * stride + cover - extent, 0)
      before[i] = auto == "SAME_LOWER" and total - total // 2 or total // 2
      behind[i] = total - before[i]
    end
    local left = (extent + before[i] + behind[i] - cover) % stride
    more[i] = a.ceil_mode == 1 and left > 0 and stride - left or 0
  end
  return before, behind, more
end

local function padded(v, before, behind, value)
  local paddings, any = {{0, 0}}, false
  for i, n in ipairs(before) do
    paddings[i + 1] = {n, behind[i]}
    any = any or n > 0 or behind[i] > 0
  end
  paddings[#paddings + 1] = {0, 0}
  return any and ipu.pad(v, paddings, {constant_values = value or 0}) or v
end

local function with_bias(v, bias) return bias and ipu.nn.bias_add(v, bias) or v end

function interpret.Conv(x, a)
  local image = to_last(x[1])
  local before, behind = pads_of(image, a, table.move(x[2].shape, 3, #x[2].shape, 1, {}))
  local conv = ipu.nn["conv" .. #x[1].shape - 2 .. "d"]
  local out = conv(padded(image, before, behind), kernel_last(x[2]), {strides = a.strides or 1, dilations = a.dilations or 1,
    groups = a.group or 1})
  return to_first(with_bias(out, x[3]))
end

-- The whole spread, then what the pads cut off, or output_padding adds.
function interpret.ConvTranspose(x, a, n)
  if (a.group or 1) ~= 1 then refuse(n, "groups are not known here") end
  if a.auto_pad and a.auto_pad ~= "NOTSET" and a.auto_pad ~= "VALID" then refuse(n, "auto_pad is not known here") end
  local count = #x[1].shape - 2
  local strides, dilations, pads = a.strides or filled(count, 1), a.dilations or filled(count, 1), a.pads or filled(2 * count, 0)
  local more = a.output_padding or filled(count, 0)
  local out = ipu.nn["conv" .. count .. "d_transpose"](to_last(x[1]), kernel_last(x[2]), {strides = strides, dilations = dilations})
  local begin, size, paddings = {0}, {out.shape[1]}, {{0, 0}}
  for i = 1, count do
    local whole = (x[1].shape[i + 2] - 1) * strides[i] + (x[2].shape[i + 2] - 1) * dilations[i] + 1
    local wanted = a.output_shape and a.output_shape[i] or whole - pads[i] - pads[count + i] + more[i]
    begin[i + 1] = pads[i]
    size[i + 1] = math.min(wanted, out.shape[i + 1] - pads[i])
    paddings[i + 1] = {0, wanted - size[i + 1]}
  end
  begin[count + 2], size[count + 2], paddings[count + 2] = 0, out.shape[count + 2], {0, 0}
  out = ipu.pad(ipu.slice(out, begin, size), paddings)
  return to_first(with_bias(out, x[3]))
end

local function check_pool(a, n)
  for _, d in ipairs(a.dilations or {}) do
    if d ~= 1 then refuse(n, "dilations are not known here") end
  end
end

local function window(a) return {ksize = a.kernel_shape, strides = a.strides or filled(#a.kernel_shape, 1)} end

local function add(a, b)
  local out = {}
  for i, n in ipairs(a) do out[i] = n + b[i] end
  return out
end

function interpret.MaxPool(x, a, n)
  check_pool(a, n)
  if #n.outputs > 1 then refuse(n, "its positions are not known here") end
  local dtype = x[1].dtype
  local image = to_last(dtype:find("float") and x[1] or ipu.cast(x[1], "float32"))
  local before, behind, more = pads_of(image, a, a.kernel_shape)
  local out = to_first(ipu.nn.max_pool(padded(image, before, add(behind, more), dtype == "float16" and -65504 or -3.4e38), window(a)))
  return out.dtype == dtype and out or ipu.cast(out, dtype)
end

-- Sums of windows, divided by how many of their elements count: pads with count_include_pad only, ceil_mode's never.
function interpret.AveragePool(x, a, n)
  check_pool(a, n)
  local image = to_last(x[1])
  local before, behind, more = pads_of(image, a, a.kernel_shape)
  local wide = padded(image, before, add(behind, more))
  local out = ipu.nn.avg_pool(wide, window(a))
  if wide ~= image then
    local ones = ipu.ones({1, table.unpack(image.shape, 2)}, {dtype = image.dtype})
    local counted = padded(padded(ones, before, behind, a.count_include_pad == 1 and 1 or 0), filled(#more, 0), more)
    out = out / ipu.nn.avg_pool(counted, window(a))
  end
  return to_first(out)
end

-- ------------------------------------------------ normalisation

-- A vector of the channels (axis 1), shaped so that it broadcasts.
local function channels(v, rank)
  local shape = filled(rank, 1)
  shape[2] = -1
  return ipu.reshape(v, shape)
end

function interpret.BatchNormalization(x, a, n)
  if a.training_mode == 1 then refuse(n, "training_mode is not known here") end
  local rank = #x[1].shape
  local scale = x[2] / ipu.sqrt(x[5] + (a.epsilon or 1e-5))
  return (x[1] - channels(x[4], rank)) * channels(scale, rank) + channels(x[3], rank)
end

local function normalised(v, axes, epsilon)
  local d = v - ipu.reduce_mean(v, {axis = axes, keepdims = true})
  return d / ipu.sqrt(ipu.reduce_mean(d * d, {axis = axes, keepdims = true}) + epsilon)
end

function interpret.InstanceNormalization(x, a)
  local rank = #x[1].shape
  return normalised(x[1], range(2, rank - 1), a.epsilon or 1e-5) * channels(x[2], rank) + channels(x[3], rank)
end

function interpret.LayerNormalization(x, a)
  local rank = #x[1].shape
  local axis = a.axis or -1
  local axes = range(axis < 0 and axis + rank or axis, rank - 1)
  local mean = ipu.reduce_mean(x[1], {axis = axes, keepdims = true})
  local d = x[1] - mean
  local scale = ipu.rsqrt(ipu.reduce_mean(d * d, {axis = axes, keepdims = true}) + (a.epsilon or 1e-5))
  local out = d * scale * x[2]
  return x[3] and out + x[3] or out, mean, scale
end

-- ------------------------------------------------ recurrent

-- Part i (from 0) of an operand's first axis, which goes.
local function part(v, i) return v and ipu.squeeze(ipu.slice(v, {i, table.unpack(filled(#v.shape - 1, 0))}, {1, table.unpack(v.shape, 2)}),
  {axis = 0}) end

-- [gates · u, rows] → [rows, gates · u], gates in our order (positions from 1 among ONNX').
local function gates_last(v, order)
  local parts = table.pack(ipu.split(v, #order, {axis = 0}))
  local out = {}
  for i, k in ipairs(order) do out[i] = parts[k] end
  return ipu.transpose(#out == 1 and out[1] or ipu.concat(out, 0), {1, 0})
end

-- The two biases [2 · gates · u] as two in our order, or nil.
local function biases(v, order)
  if not v then return nil end
  local parts = table.pack(ipu.split(v, 2 * #order, {axis = 0}))
  local function half(from)
    local out = {}
    for i, k in ipairs(order) do out[i] = parts[from + k] end
    return #out == 1 and out[1] or ipu.concat(out, 0)
  end
  return half(0), half(#order)
end

local function check_recurrent(x, a, n, usual)
  if x[5] then refuse(n, "sequence_lens are not known here") end
  if a.layout == 1 or a.clip then refuse(n, "layout 1 and clip are not known here") end
  if usual then
    for i, name in ipairs(a.activations or {}) do
      if name:lower() ~= usual[(i - 1) % #usual + 1] then refuse(n, "activation " .. name .. " is not known here") end
    end
  end
end

-- f(sequence [n, t, f], kernel, recurrent, b1, b2, states) → outputs [n, t, u], states …; for each direction.
local function recurrent(order, states, usual, f)
  return function(x, a, n)
    check_recurrent(x, a, n, usual)
    local direction = a.direction or "forward"
    local sequence = ipu.transpose(x[1], {1, 0, 2})
    local outputs, finals = {}, {}
    for d = 0, direction == "bidirectional" and 1 or 0 do
      local backwards = direction == "reverse" or d == 1
      local initial = {}
      for i = 1, states do initial[i] = part(x[5 + i], d) end
      local b1, b2 = biases(part(x[4], d), order)
      local results = table.pack(f(backwards and ipu.reverse(sequence, 1) or sequence, gates_last(part(x[2], d), order),
        gates_last(part(x[3], d), order), b1, b2, initial, a, d))
      outputs[d + 1] = ipu.transpose(backwards and ipu.reverse(results[1], 1) or results[1], {1, 0, 2})
      for i = 1, states do
        finals[i] = finals[i] or {}
        finals[i][d + 1] = results[1 + i]
      end
    end
    local out = {ipu.stack(outputs, 1)}
    for i = 1, states do out[1 + i] = ipu.stack(finals[i], 0) end
    return table.unpack(out)
  end
end

interpret.LSTM = recurrent({1, 3, 4, 2}, 2, {"sigmoid", "tanh", "tanh"}, function(s, kernel, own, b1, b2, initial)
  local units = own.shape[1]
  local bias = b1 and b1 + b2 or ipu.zeros{4 * units}
  local zero = ipu.zeros{s.shape[1], units}
  return ipu.nn.lstm(s, kernel, own, bias, initial[1] or zero, initial[2] or zero)
end)

interpret.GRU = recurrent({1, 2, 3}, 1, {"sigmoid", "tanh"}, function(s, kernel, own, b1, b2, initial, a)
  local units, after = own.shape[1], a.linear_before_reset == 1
  local bias
  if after then bias = b1 and ipu.stack({b1, b2}, 0) or ipu.zeros{2, 3 * units}
  else bias = b1 and b1 + b2 or ipu.zeros{3 * units} end
  return ipu.nn.gru(s, kernel, own, bias, initial[1] or ipu.zeros{s.shape[1], units}, {reset_after = after})
end)

local activations <const> = {tanh = true, relu = true, sigmoid = true}
interpret.RNN = recurrent({1}, 1, nil, function(s, kernel, own, b1, b2, initial, a, d)
  local units = own.shape[1]
  local activation = (a.activations and a.activations[d + 1] or "Tanh"):lower()
  if not activations[activation] then blame.error("onnx.import: RNN: activation " .. activation .. " is not known here", "value") end
  return ipu.nn.simple_rnn(s, kernel, own, b1 and b1 + b2 or ipu.zeros{units}, initial[1] or ipu.zeros{s.shape[1], units},
    {activation = activation})
end)

return interpret
