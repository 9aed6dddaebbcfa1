-- ONNX' convolutions, pooling and normalisation in our ops; see interpret.lua. ONNX has channels
-- first, and kernels [out, in, …].

local ops = require "ipulua.ops"
local tools = require "ipulua.keras.onnx.tools"

local interpret = {}

local refuse <const>, range <const>, filled <const>, channels <const> = tools.refuse, tools.range,
  tools.filled, tools.channels

-- ------------------------------------------------ windows

local function to_last(v)
  local perm = {0, table.unpack(range(2, #v.shape - 1))}
  perm[#perm + 1] = 1
  return ops.transpose(v, perm)
end

local function to_first(v)
  return ops.transpose(v, {0, #v.shape - 1, table.unpack(range(1, #v.shape - 2))})
end

-- [a, b, k …] → [k …, b, a]
local function kernel_last(v)
  local perm = range(2, #v.shape - 1)
  perm[#perm + 1], perm[#perm + 2] = 1, 0
  return ops.transpose(v, perm)
end

local function positive_list(n, name, list, count, least)
  list = list or filled(count, least)
  if #list ~= count then
    refuse(n, string.format("%d %s for %d axes of space", #list, name, count))
  end
  for _, each in ipairs(list) do
    if each < least then refuse(n, string.format("%s of %d are not known here", name, each)) end
  end
  return list
end

local paddings <const> = {NOTSET = true, VALID = true, SAME_UPPER = true, SAME_LOWER = true}

-- The attributes of a node's windows: {size, strides, dilations, pads, auto, ceil}.
local function windows_of(x, a, n, size)
  local count = #x[1].shape - 2
  if count < 1 or count > 3 then
    refuse(n, string.format("an operand of rank %d is not known here", #x[1].shape))
  end
  local auto = a.auto_pad == "" and "NOTSET" or a.auto_pad
  if not paddings[auto] then refuse(n, "auto_pad " .. auto .. " is not known here") end
  local given = a.kernel_shape
  size = positive_list(n, "kernel extents", size or given, count, 1)
  for i, extent in ipairs(given or {}) do
    if extent ~= size[i] then refuse(n, "kernel_shape is not that of its kernel") end
  end
  return {size = size, strides = positive_list(n, "strides", a.strides, count, 1), auto = auto,
    ceil = a.ceil_mode == 1,
    dilations = positive_list(n, "dilations", a.dilations, count, 1),
    pads = positive_list(n, "pads", a.pads, 2 * count, 0)}
end

-- The frame that windows need around an image (channels last): {before …}, {after …}. The third
-- result is the addition of ceil_mode after it, for a window that begins in the image or in the
-- frame before it.
local function frame_of(v, w)
  local before, behind, more, count = {}, {}, {}, #w.size
  for i = 1, count do
    local stride, extent = w.strides[i], v.shape[i + 1]
    local cover = (w.size[i] - 1) * w.dilations[i] + 1
    if w.auto == "NOTSET" or w.auto == "VALID" then
      before[i] = w.auto == "NOTSET" and w.pads[i] or 0
      behind[i] = w.auto == "NOTSET" and w.pads[count + i] or 0
    else
      local total = math.max(((extent + stride - 1) // stride - 1) * stride + cover - extent, 0)
      before[i] = w.auto == "SAME_LOWER" and total - total // 2 or total // 2
      behind[i] = total - before[i]
    end
    local room = extent + before[i] + behind[i] - cover
    local last = (room // stride + 1) * stride -- where the window that ceil_mode adds begins
    more[i] = w.ceil and room % stride > 0 and last < extent + before[i]
      and stride - room % stride or 0
  end
  return before, behind, more
end

local function padded(n, v, before, behind, value)
  local frame, shape, any = {{0, 0}}, {v.shape[1], v.shape[#v.shape]}, false
  for i, count in ipairs(before) do
    frame[i + 1] = {count, behind[i]}
    shape[i + 2] = v.shape[i + 1] + 0.0 + count + behind[i]
    any = any or count > 0 or behind[i] > 0
  end
  frame[#frame + 1] = {0, 0}
  tools.reserve(n, shape, v.dtype, v)
  return any and ops.pad(v, frame, {constant_values = value or 0}) or v
end

local function with_bias(v, bias) return bias and ops.nn.bias_add(v, bias) or v end

local function spatial(v) return table.move(v.shape, 3, #v.shape, 1, {}) end

function interpret.Conv(x, a, n)
  local w, groups, image = windows_of(x, a, n, spatial(x[2])), a.group, to_last(x[1])
  local before, behind = frame_of(image, w)
  local conv = ops.nn["conv" .. #w.size .. "d"]
  local out = conv(padded(n, image, before, behind), kernel_last(x[2]),
    {strides = w.strides, dilations = w.dilations, groups = groups})
  return to_first(with_bias(out, x[3]))
end

-- Of the transposed convolution's whole spread: how much goes before each axis, and how much is
-- left.
local function cut_of(x, w, shape, more, i)
  local extent, stride = x[1].shape[i + 2], w.strides[i]
  local whole = (extent - 1) * stride + (w.size[i] - 1) * w.dilations[i] + 1
  local wanted = shape and shape[i] or w.auto:find("SAME") and extent * stride
  if not wanted then
    local pads = w.auto == "VALID" and {0, 0} or {w.pads[i], w.pads[#w.size + i]}
    return pads[1], whole - pads[1] - pads[2] + more[i]
  end
  local total = whole + more[i] - wanted
  return w.auto == "SAME_UPPER" and total // 2 or total - total // 2, wanted
end

local function spread_groups(x, w, groups)
  local transposed = ops.nn["conv" .. #w.size .. "d_transpose"]
  local images = table.pack(ops.split(to_last(x[1]), groups, {axis = -1}))
  local kernels, out = table.pack(ops.split(x[2], groups, {axis = 0})), {}
  for g = 1, groups do
    out[g] = transposed(images[g], kernel_last(kernels[g]),
      {strides = w.strides, dilations = w.dilations})
  end
  return groups == 1 and out[1] or ops.concat(out, -1)
end

function interpret.ConvTranspose(x, a, n)
  local w, groups = windows_of(x, a, n, spatial(x[2])), a.group
  local count, shape = #w.size, a.output_shape
  local more = positive_list(n, "output_padding", a.output_padding, count, 0)
  if groups < 1 or x[1].shape[2] % groups ~= 0 then
    refuse(n, "its groups don't divide its channels")
  end
  if shape and #shape == count + 2 then shape = table.move(shape, 3, count + 2, 1, {}) end
  if shape then positive_list(n, "output_shape", shape, count, 1) end
  local spread, room = {x[1].shape[1], x[2].shape[2] * groups},
    {x[1].shape[1], x[2].shape[2] * groups}
  local begin, size, frame = {0}, {x[1].shape[1]}, {{0, 0}}
  for i = 1, count do
    local from, wanted = cut_of(x, w, shape, more, i)
    local whole = (x[1].shape[i + 2] - 1) * w.strides[i]
      + math.max((w.size[i] - 1) * w.dilations[i] + 1, w.strides[i])
    spread[i + 2], room[i + 2] = whole, math.max(wanted, 0)
    if wanted < 1 then refuse(n, "its pads leave nothing") end
    begin[i + 1] = math.max(from, 0)
    size[i + 1] = math.max(0, math.min(wanted + math.min(from, 0), whole - begin[i + 1]))
    frame[i + 1] = {math.max(-from, 0), wanted - size[i + 1] - math.max(-from, 0)}
  end
  for _, each in ipairs{spread, room} do tools.reserve(n, each, x[1].dtype, x[1]) end
  local out = spread_groups(x, w, groups)
  begin[count + 2], size[count + 2], frame[count + 2] = 0, out.shape[count + 2], {0, 0}
  return to_first(with_bias(ops.pad(ops.slice(out, begin, size), frame), x[3]))
end

local function add(a, b)
  local out = {}
  for i, count in ipairs(a) do out[i] = count + b[i] end
  return out
end

local MAX_STEPS <const> = 4096 -- of a fold: each is an op

-- Joins the elements of each window of images (channels last) by join(a, b), which takes and gives
-- as many tensors as `images` has. Axes are joined one by one, the last one first. a has the
-- earlier elements of a window, b the next one.
local function fold(n, images, w, join)
  for i = #w.size, 1, -1 do
    local extent, step, d = images[1].shape[i + 1], w.strides[i], w.dilations[i]
    local count = (extent - (w.size[i] - 1) * d - 1) // step + 1
    if count < 1 then
      refuse(n, string.format("its windows are larger than its operand's extent of %d", extent))
    end
    if w.size[i] > MAX_STEPS then
      refuse(n, string.format("kernel extents of %d are not known here", w.size[i]))
    end
    local out
    for k = 0, w.size[i] - 1 do
      local rank, views = #images[1].shape, {}
      local begins, stops, strides = filled(rank, false), filled(rank, false), filled(rank, 1)
      begins[i + 1], stops[i + 1] = k * d, k * d + (count - 1) * step + 1
      strides[i + 1] = math.min(step, extent)
      for p, image in ipairs(images) do
        views[p] = ops.strided_slice(image, begins, stops, strides)
      end
      out = out and {join(out, views)} or views
    end
    images = out
  end
  return images
end

local function is_dilated(w)
  for _, d in ipairs(w.dilations) do
    if d ~= 1 then return true end
  end
  return false
end

local function window(w) return {ksize = w.size, strides = w.strides} end

-- Each element's position in the whole operand [n, c, space …]; with columns_first the space's
-- first axis runs fastest.
local function positions(n, x, columns_first)
  local shape, total = x.shape, 1
  for _, extent in ipairs(shape) do total = total * extent end
  tools.reserve(n, shape, "int64", x)
  local all = ops.cast(ops.arange(total), "int64")
  if not columns_first then return ops.reshape(all, shape) end
  local turned, perm = {shape[1], shape[2]}, {0, 1}
  for i = #shape, 3, -1 do turned[#turned + 1], perm[#perm + 1] = shape[i], i - 1 end
  return ops.transpose(ops.reshape(all, turned), perm)
end

-- Frames are at position -1: any element of the operand comes before them, of equal ones the first.
local function later(a, b)
  local takes = ops.logical_or(ops.greater(b[1], a[1]), ops.less(a[2], 0))
  return ops.where(takes, b[1], a[1]), ops.where(takes, b[2], a[2])
end

function interpret.MaxPool(x, a, n)
  local w, dtype, columns_first = windows_of(x, a, n), x[1].dtype, a.storage_order == 1
  local image = to_last(tools.is_float(x[1]) and x[1] or ops.cast(x[1], "float32"))
  local before, behind, more = frame_of(image, w)
  behind = add(behind, more)
  local wide = padded(n, image, before, behind, -math.huge)
  local out
  if (n.outputs[2] or "") ~= "" then
    local where = padded(n, to_last(positions(n, x[1], columns_first)), before, behind, -1)
    out = fold(n, {wide, where}, w, later)
  elseif is_dilated(w) then
    out = fold(n, {wide}, w, function(p, q) return ops.maximum(p[1], q[1]) end)
  else
    out = {ops.nn.max_pool(wide, window(w))}
  end
  local values, at = to_first(out[1]), out[2] and to_first(out[2])
  return values.dtype == dtype and values or ops.cast(values, dtype), at
end

-- Means of windows, elements of the frame included.
local function mean_pool(n, image, w)
  if not is_dilated(w) then return ops.nn.avg_pool(image, window(w)) end
  local size = 1
  for _, extent in ipairs(w.size) do size = size * extent end
  return fold(n, {image}, w, function(p, q) return p[1] + q[1] end)[1] / size
end

-- Sums of windows, divided by how many of their elements count: pads with count_include_pad only,
-- ceil_mode's never.
interpret.AveragePool = tools.widened(function(x, a, n)
  local w, image, counts_pads = windows_of(x, a, n), to_last(x[1]), a.count_include_pad == 1
  local before, behind, more = frame_of(image, w)
  local wide = padded(n, image, before, add(behind, more))
  local out = mean_pool(n, wide, w)
  if wide ~= image then
    local ones = ops.ones({1, table.unpack(image.shape, 2)}, {dtype = image.dtype})
    local counted = padded(n, padded(n, ones, before, behind, counts_pads and 1 or 0),
      filled(#more, 0), more)
    out = out / mean_pool(n, counted, w)
  end
  return to_first(out)
end)

-- ------------------------------------------------ normalisation

-- f(x, …) in the widest of the operands' float types, which is float32 at least; the result is of
-- x's.
local function in_widest(x, f)
  local widest = x[1].dtype == "float64" and "float64" or "float32"
  for i = 2, x.n do
    if x[i] and x[i].dtype ~= widest and widest ~= "float64" then
      widest = x[i].dtype == "float64" and "float64" or "float32"
    end
  end
  local wide = {}
  for i = 1, x.n do wide[i] = x[i] and x[i].dtype ~= widest and ops.cast(x[i], widest) or x[i] end
  local out = f(wide)
  return out.dtype == x[1].dtype and out or ops.cast(out, x[1].dtype)
end

-- With training_mode the statistics are the batch's, and outputs 2 and 3 the running ones after it.
local function with_batch_statistics(x, momentum)
  local mean, variance = ops.nn.moments(x[1], {0, table.unpack(range(2, #x[1].shape - 1))})
  local function running(old, new) return old * momentum + new * (1 - momentum) end
  return mean, variance, running(x[4], mean), running(x[5], variance)
end

function interpret.BatchNormalization(x, a, n)
  local epsilon, momentum, rank = a.epsilon, a.momentum, #x[1].shape
  local trains, spatially = a.training_mode == 1, n.opset >= 9 or a.spatial ~= 0
  if n.opset < 7 and a.is_test == 0 then refuse(n, "training (is_test = 0) is not known here") end
  if not spatially then refuse(n, "spatial = 0 is not known here") end
  local running_mean, running_variance
  local out = in_widest(x, function(v)
    local mean, variance = v[4], v[5]
    if trains then
      mean, variance, running_mean, running_variance = with_batch_statistics(v, momentum)
    end
    local scale = v[2] / ops.sqrt(variance + epsilon)
    return (v[1] - channels(mean, rank)) * channels(scale, rank) + channels(v[3], rank)
  end)
  if not trains then return out end
  return out, ops.cast(running_mean, x[4].dtype), ops.cast(running_variance, x[5].dtype)
end

local function normalised(v, axes, epsilon)
  local mean = ops.reduce_mean(v, {axis = axes, keepdims = true})
  local d = v - mean
  local scale = ops.rsqrt(ops.reduce_mean(d * d, {axis = axes, keepdims = true}) + epsilon)
  return d * scale, mean, scale
end

interpret.InstanceNormalization = tools.widened(function(x, a)
  local rank = #x[1].shape
  return normalised(x[1], range(2, rank - 1), a.epsilon) * channels(x[2], rank)
    + channels(x[3], rank)
end)

-- With stash_type 1 the statistics and their results are float32.
function interpret.LayerNormalization(x, a, n)
  local rank, epsilon = #x[1].shape, a.epsilon
  local axes = range(tools.axis(n, a.axis, rank), rank - 1)
  if a.stash_type ~= 1 then refuse(n, "stash_type is not known here") end
  local v = x[1].dtype == "float32" and x[1] or ops.cast(x[1], "float32")
  local out, mean, scale = normalised(v, axes, epsilon)
  out = (out.dtype == x[1].dtype and out or ops.cast(out, x[1].dtype)) * x[2]
  return x[3] and out + x[3] or out, mean, scale
end

return interpret
