-- Conversions of convolutions, pooling, normalisation and recurrent ops; see convert.lua. ONNX has
-- channels first, kernels [out, in, …], gates in its own order.

local ops = require "ipulua.ops"
local tools = require "ipulua.keras.onnx.tools"

local convert = {}

local range <const>, refuse <const> = tools.range, tools.refuse_op

-- One number for each spatial axis, from a list of one or of as many.
local function spread(list, n)
  local out = {}
  for i = 1, n do out[i] = list[i] or list[1] end
  return out
end

-- ------------------------------------------------ windows

-- The frame around an image that windows need: {before …, after …}. padding: VALID, SAME, CAUSAL.
local function pads_of(r, padding, image, size, strides, dilations)
  local n = #size
  local pads = {}
  for i = 1, n do
    local cover = (size[i] - 1) * dilations[i] + 1
    local total = 0
    if padding == "CAUSAL" then
      pads[i], pads[n + i] = cover - 1, 0
    else
      if padding == "SAME" then
        if image[i] < 0 then refuse(r, "SAME padding needs known extents; give a batch_size") end
        total = math.max(((image[i] + strides[i] - 1) // strides[i] - 1) * strides[i] + cover
          - image[i], 0)
      end
      pads[i], pads[n + i] = total // 2, total - total // 2
    end
  end
  return pads
end

local function spatial(shape) return table.move(shape, 2, #shape - 1, 1, {}) end

local function convolution(g, x, a, r, kernel, groups, size)
  local rank = #x[1].shape
  local n = rank - 2
  local strides, dilations = spread(a.strides, n), spread(a.dilations, n)
  local out = g:emit("Conv", {g:to_first(x[1], rank), kernel}, {
    kernel_shape = size, strides = strides, dilations = dilations, group = groups,
    pads = pads_of(r, a.padding, spatial(x[1].shape), size, strides, dilations),
  })
  return g:to_last(out, rank)
end

-- [k …, c / groups, d] → [d, c / groups, k …]
local function conv(g, x, a, r)
  local rank = #x[1].shape
  local perm = {rank - 1, rank - 2, table.unpack(range(0, rank - 3))}
  return convolution(g, x, a, r, g:transpose(x[2], perm), a.groups,
    table.move(x[2].shape, 1, rank - 2, 1, {}))
end
convert["nn.conv1d"], convert["nn.conv2d"], convert["nn.conv3d"] = conv, conv, conv

-- [kh, kw, c, m] → [c m, 1, kh, kw]
convert["nn.depthwise_conv2d"] = function(g, x, a, r)
  local s = x[2].shape
  local kernel = g:reshape(g:transpose(x[2], {2, 3, 0, 1}), {s[3] * s[4], 1, s[1], s[2]})
  return convolution(g, x, a, r, kernel, s[3], {s[1], s[2]})
end

-- [k …, d, c] → [c, d, k …]. Padding is the extent of the windows beyond the result.
local function conv_transpose(g, x, a, r)
  local rank = #x[1].shape
  local n = rank - 2
  local strides, dilations, size = spread(a.strides, n), spread(a.dilations, n),
    table.move(x[2].shape, 1, n, 1, {})
  local image, result = spatial(x[1].shape), spatial(r.outputs[1].shape)
  local pads, more = {}, {}
  for i = 1, n do
    local beyond = (image[i] - 1) * strides[i] + (size[i] - 1) * dilations[i] + 1 - result[i]
    local total = math.max(beyond, 0)
    pads[i], pads[n + i], more[i] = total // 2, total - total // 2, math.max(-beyond, 0)
  end
  local kernel = g:transpose(x[2], {rank - 1, rank - 2, table.unpack(range(0, n - 1))})
  local out = g:emit("ConvTranspose", {g:to_first(x[1], rank), kernel}, {
    kernel_shape = size, strides = strides, dilations = dilations, pads = pads,
    output_padding = more, group = 1,
  })
  return g:to_last(out, rank)
end
convert["nn.conv1d_transpose"], convert["nn.conv2d_transpose"] = conv_transpose, conv_transpose
convert["nn.conv3d_transpose"] = conv_transpose

local function pool(op)
  return function(g, x, a, r)
    local rank = #x[1].shape
    local n = rank - 2
    local size = spread(a.ksize, n)
    local strides = a.strides and #a.strides > 0 and spread(a.strides, n) or size
    local out = g:emit(op, {g:to_first(x[1], rank)}, {
      kernel_shape = size, strides = strides,
      pads = pads_of(r, a.padding, spatial(x[1].shape), size, strides, spread({1}, n)),
    })
    return g:to_last(out, rank)
  end
end
convert["nn.max_pool"], convert["nn.avg_pool"] = pool("MaxPool"), pool("AveragePool")

-- ------------------------------------------------ normalisation

-- A vector of an axis, shaped so that it broadcasts.
local function along(g, v, axis, rank)
  local shape = {}
  for i = 1, rank do shape[i] = 1 end
  shape[(axis < 0 and axis + rank or axis) + 1] = -1
  return g:reshape(v, shape)
end

-- (x - mean) / sqrt(variance + epsilon) over axes
local function normalised(g, v, dtype, axes, epsilon)
  local d = g:emit("Sub", {v, tools.reduce(g, "ReduceMean", v, axes, true)})
  local variance = tools.reduce(g, "ReduceMean", g:emit("Mul", {d, d}), axes, true)
  return g:emit("Div", {d, g:emit("Sqrt", {g:emit("Add", {variance, g:scalar(epsilon, dtype)})})})
end

local function scaled(g, v, gamma, beta)
  if gamma then v = g:emit("Mul", {v, gamma}) end
  if beta then v = g:emit("Add", {v, beta}) end
  return v
end

convert["nn.batch_norm"] = function(g, x, a, r)
  if a.training then refuse(r, "a layer that trains can't be exported") end
  local rank = #x[1].shape
  for i = 2, 5 do
    if not x[i] or not x[i].tensor then refuse(r, "its statistics must be weights") end
  end
  local gamma, beta, mean, variance = x[2].tensor, x[3].tensor, x[4].tensor, x[5].tensor
  local scale = gamma / ops.sqrt(variance + a.epsilon)
  local centred = g:emit("Sub", {x[1], along(g, g:known(mean), a.axis, rank)})
  return scaled(g, centred, along(g, g:known(scale), a.axis, rank),
    along(g, g:known(beta), a.axis, rank))
end

-- Over any axes; in float64, too, in which LayerNormalization computes no mean.
function convert._layer_norm_by_nodes(g, x, a)
  local rank, axes = #x[1].shape, {}
  for i, axis in ipairs(a.axis) do axes[i] = axis < 0 and axis + rank or axis end
  local function shaped(v)
    if not v then return nil end
    local shape = {}
    for i = 1, rank do shape[i] = 1 end
    for _, axis in ipairs(axes) do shape[axis + 1] = x[1].shape[axis + 1] end
    return g:reshape(v, shape)
  end
  return scaled(g, normalised(g, x[1], x[1].dtype, axes, a.epsilon), shaped(x[2]), shaped(x[3]))
end

convert["nn.layer_norm"] = function(g, x, a)
  local rank, axes = #x[1].shape, a.axis
  if #axes ~= 1 or axes[1] % rank ~= rank - 1 or g.opset < 17 then
    return convert._layer_norm_by_nodes(g, x, a)
  end
  local gamma = x[2] or g:known(ops.ones({x[1].shape[rank]}, {dtype = x[1].dtype}))
  return g:emit("LayerNormalization", {x[1], gamma, x[3] or false}, {axis = -1,
    epsilon = a.epsilon})
end

-- Channels last: [n, …, c] as [n, s, c / groups, groups] (strided: a group has every groups-th
-- channel) or [n, s, groups, c / groups].
convert["nn.group_norm"] = function(g, x, a)
  local rank, shape = #x[1].shape, x[1].shape
  local axis = a.channels_axis < 0 and a.channels_axis + rank or a.channels_axis
  local v, extents = x[1], table.move(shape, 1, rank, 1, {})
  if axis ~= rank - 1 then
    v = g:to_last(v, rank)
    extents = {shape[1], table.unpack(shape, 3)}
    extents[rank] = shape[2]
  end
  local channels, space = extents[rank], 1
  for i = 2, rank - 1 do space = space * extents[i] end
  local inner = channels // a.groups
  local grouped = a.strided_channel_grouping and {-1, space, inner, a.groups}
    or {-1, space, a.groups, inner}
  local y = normalised(g, g:reshape(v, grouped), x[1].dtype, a.strided_channel_grouping and {1, 2}
    or {1, 3}, a.epsilon)
  extents[1] = -1
  y = scaled(g, g:reshape(y, extents), x[2], x[3])
  return axis == rank - 1 and y or g:to_first(y, rank)
end

convert["nn.instance_norm"] = function(g, x, a)
  local rank = #x[1].shape
  local axis = a.channels_axis < 0 and a.channels_axis + rank or a.channels_axis
  local axes = {}
  for i = 1, rank - 1 do
    if i ~= axis then axes[#axes + 1] = i end
  end
  return scaled(g, normalised(g, x[1], x[1].dtype, axes, a.epsilon),
    x[2] and along(g, x[2], axis, rank),
    x[3] and along(g, x[3], axis, rank))
end

-- ------------------------------------------------ recurrent

local function is_zero(v)
  if v.zero then return true end
  return v.tensor ~= nil and not ops.reduce_any(ops.not_equal(v.tensor, 0)):item()
end

-- [rows, gates · u] → [1, gates · u, rows], gates in ONNX' order (positions from 1 among ours).
local function gate_matrix(g, v, order, r)
  if not v.tensor then refuse(r, "its weights must be known") end
  local parts, gates = table.pack(ops.split(v.tensor, #order, {axis = 1})), {}
  for i, k in ipairs(order) do gates[i] = ops.transpose(parts[k], {1, 0}) end
  return g:known(ops.expand_dims(#gates == 1 and gates[1] or ops.concat(gates, 0), 0))
end

-- [gates · u] or [2, gates · u] → [1, 2 · gates · u]
local function gate_bias(g, v, order, r)
  if not v then return false end
  if not v.tensor then refuse(r, "its weights must be known") end
  local b = v.tensor
  if #b.shape == 1 then b = ops.stack({b, ops.zeros_like(b)}, 0) end
  local width, out = b.shape[2] // #order, {}
  for row = 0, 1 do
    for _, k in ipairs(order) do
      out[#out + 1] = ops.reshape(ops.slice(b, {row, (k - 1) * width}, {1, width}), {width})
    end
  end
  return g:known(ops.expand_dims(ops.concat(out, 0), 0))
end

-- first: where the initial states stand among the operands; states: how many.
local function recurrent(op, order, states, attributes)
  return function(g, x, a, r)
    local units = x[3].shape[1]
    if x[5 + states] then refuse(r, "a mask has no counterpart") end
    local inputs = {g:transpose(x[1], {1, 0, 2}), gate_matrix(g, x[2], order, r),
      gate_matrix(g, x[3], order, r),
      gate_bias(g, x[4], order, r), false}
    for i = 1, states do
      local initial = x[4 + i]
      inputs[5 + i] = initial and not is_zero(initial) and g:emit("Unsqueeze", {initial, g:ints{0}})
    end
    local given = attributes and attributes(a) or {}
    given.hidden_size = units
    local results = table.pack(g:emit(op, inputs, given, 1 + states))
    results[1] = g:transpose(g:emit("Squeeze", {results[1], g:ints{1}}), {1, 0, 2})
    for i = 1, states do results[1 + i] = g:emit("Squeeze", {results[1 + i], g:ints{0}}) end
    return table.unpack(results, 1, results.n)
  end
end

convert["nn.lstm"] = recurrent("LSTM", {1, 4, 2, 3}, 2) -- ours: input, forget, cell, output
convert["nn.gru"] = recurrent("GRU", {1, 2, 3}, 1, function(a)
  return {linear_before_reset = a.reset_after and 1 or 0}
end)
local activations <const> = {tanh = "Tanh", relu = "Relu", sigmoid = "Sigmoid"}
convert["nn.simple_rnn"] = recurrent("RNN", {1}, 1, function(a)
  return {activations = {activations[a.activation]}}
end)

return convert
