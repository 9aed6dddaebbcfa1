-- ONNX's nodes that make, arrange and pick elements; see interpret.lua.

local class_numbers = require "ipulua.keras.base.class_numbers"
local core = require "ipulua.core"
local ops = require "ipulua.ops"
local tools = require "ipulua.keras.onnx.tools"

local interpret = {}

local refuse <const>, ints <const>, number <const> = tools.refuse, tools.ints, tools.number

local function long(list)
  return #list > 0 and ops.tensor(list, {dtype = "int64"}) or ops.zeros({0}, {dtype = "int64"})
end

-- ------------------------------------------------ shapes and constants

function interpret.Shape(x, a)
  local rank, first, last = #x[1].shape, a.start or 0, a["end"]
  local function clamp(i) return math.max(0, math.min(rank, i < 0 and i + rank or i)) end
  return long(table.move(x[1].shape, clamp(first) + 1, clamp(last or rank), 1, {}))
end

function interpret.Size(x) return ops.tensor(x[1].size, {dtype = "int64"}) end

function interpret.Constant(_, a, n)
  if a.value then return a.value end
  if a.value_float then return ops.tensor(a.value_float, {dtype = "float32"}) end
  if a.value_int then return ops.tensor(a.value_int, {dtype = "int64"}) end
  if a.value_floats then
    return ops.reshape(ops.tensor(a.value_floats, {dtype = "float32"}), {-1})
  end
  if a.value_ints then return long(a.value_ints) end
  refuse(n, "its value is not known here")
end

function interpret.ConstantOfShape(x, a, n)
  local shape, value = ints(n, x[1]), a.value or ops.tensor{0.0}
  if value.size ~= 1 then refuse(n, "its value has more than one element") end
  tools.reserve(n, shape, value.dtype)
  return ops.broadcast_to(ops.reshape(value, {}), shape)
end

function interpret.Range(x, _, n)
  local from, to, step = number(n, x[1]), number(n, x[2]), number(n, x[3])
  if step == 0 then refuse(n, "its step is 0") end
  tools.reserve(n, {math.max((to + 0.0 - from) / step, 0)}, x[1].dtype)
  if math.max((to + 0.0 - from) / step, 0) == 0 then return ops.zeros({0}, {dtype = x[1].dtype}) end
  return ops.arange(from, to, step, {dtype = x[1].dtype})
end

-- ------------------------------------------------ arrangements

function interpret.Reshape(x, a, n)
  local given, shape, keeps_zeros = ints(n, x[2]) or a.shape or {}, {}, a.allowzero == 1
  table.move(given, 1, #given, 1, shape)
  for i, extent in ipairs(shape) do
    if extent == 0 and not keeps_zeros then
      if not x[1].shape[i] then
        refuse(n, string.format("extent %d of its shape is 0, but its operand has none there", i))
      end
      shape[i] = x[1].shape[i]
    end
  end
  return ops.reshape(x[1], shape)
end

function interpret.Flatten(x, a, n)
  local rank, rows, columns = #x[1].shape, 1, 1
  local axis = tools.axis(n, a.axis, rank, rank)
  for i, extent in ipairs(x[1].shape) do
    if i <= axis then rows = rows * extent else columns = columns * extent end
  end
  return ops.reshape(x[1], rows > 0 and {rows, -1} or {rows, columns})
end

function interpret.Transpose(x, a) return ops.transpose(x[1], a.perm) end

function interpret.Concat(x, a, n)
  return ops.concat(table.move(x, 1, x.n, 1, {}), tools.axis(n, a.axis or 1, #x[1].shape))
end

function interpret.Unsqueeze(x, a, n)
  local given, axes = ints(n, x[2]) or a.axes, {}
  local rank = #x[1].shape + #given
  for i, axis in ipairs(given) do axes[i] = tools.axis(n, axis, rank) end
  table.sort(axes)
  local out = x[1]
  for _, axis in ipairs(axes) do out = ops.expand_dims(out, axis) end
  return out
end

function interpret.Squeeze(x, a, n)
  local axes = ints(n, x[2]) or a.axes
  return axes and ops.squeeze(x[1], {axis = axes}) or ops.squeeze(x[1])
end

local function broadcast(n, v, shape)
  tools.reserve(n, shape, v.dtype, v)
  return ops.broadcast_to(v, shape)
end

-- Both ways: an extent of 1 on either side gives way.
function interpret.Expand(x, _, n)
  local wanted, own = ints(n, x[2]), x[1].shape
  local rank, shape = math.max(#wanted, #own), {}
  for i = 1, rank do
    local w, o = wanted[#wanted - rank + i] or 1, own[#own - rank + i] or 1
    shape[i] = w == 1 and o or w
  end
  return broadcast(n, x[1], shape)
end

-- Opset 1 has a count and an axis.
function interpret.Tile(x, _, n)
  local counts, shape = ints(n, x[2]), {}
  if n.opset < 6 then
    local axis = tools.axis(n, number(n, x[3]), #x[1].shape)
    counts = tools.filled(#x[1].shape, 1)
    counts[axis + 1] = number(n, x[2])
  end
  for i, extent in ipairs(x[1].shape) do shape[i] = extent * (counts[i] or 1) end
  tools.reserve(n, shape, x[1].dtype, x[1])
  return ops.tile(x[1], counts)
end

-- Parts without given sizes are equal; those that num_outputs asks for (since opset 18) may leave
-- less for the last.
local function part_sizes(n, sizes, wanted, extent)
  local count = #n.outputs
  if wanted and sizes then refuse(n, "it has both sizes and num_outputs") end
  if wanted and wanted ~= count then
    refuse(n, string.format("num_outputs is %d, but it has %d outputs", wanted, count))
  end
  if sizes then return sizes end
  local size <const> = (extent + count - 1) // count
  local last = extent - size * (count - 1)
  if last < 0 or last ~= size and not wanted then
    refuse(n, string.format("an extent of %d can't be cut into %d equal parts", extent, count))
  end
  sizes = tools.filled(count, size)
  sizes[count] = last
  return sizes
end

function interpret.Split(x, a, n)
  local sizes, rank = ints(n, x[2]) or a.split, #x[1].shape
  local axis = tools.axis(n, a.axis or 0, rank)
  sizes = part_sizes(n, sizes, a.num_outputs, x[1].shape[axis + 1])
  local sum = 0
  for _, size in ipairs(sizes) do sum = sum + size end
  if sum ~= x[1].shape[axis + 1] then refuse(n, "its parts are not the whole") end
  return ops.split(x[1], sizes, {axis = axis})
end

-- Channels stand before space: [n, c, h, w] and [n, c / b², h b, w b].
function interpret.DepthToSpace(x, a, n)
  local batch, c, h, w = table.unpack(x[1].shape)
  local b, mode = a.blocksize, a.mode or "DCR"
  if #x[1].shape ~= 4 or b < 1 or c % (b * b) ~= 0 then
    refuse(n, "its operand doesn't fit its blocksize")
  end
  if mode ~= "DCR" and mode ~= "CRD" then refuse(n, "mode " .. mode .. " is not known here") end
  if mode == "CRD" then
    return ops.reshape(ops.transpose(ops.reshape(x[1], {batch, c // (b * b), b, b, h, w}),
      {0, 1, 4, 2, 5, 3}), {batch, -1, h * b, w * b})
  end
  return ops.reshape(ops.transpose(ops.reshape(x[1], {batch, b, b, c // (b * b), h, w}),
    {0, 3, 4, 1, 5, 2}), {batch, -1, h * b, w * b})
end

function interpret.SpaceToDepth(x, a, n)
  local batch, c, h, w = table.unpack(x[1].shape)
  local b = a.blocksize
  if #x[1].shape ~= 4 or b < 1 or h % b ~= 0 or w % b ~= 0 then
    refuse(n, "its operand doesn't fit its blocksize")
  end
  return ops.reshape(ops.transpose(ops.reshape(x[1], {batch, c, h // b, b, w // b, b}),
    {0, 3, 5, 1, 2, 4}), {batch, -1, h // b, w // b})
end

-- ------------------------------------------------ frames and parts

-- Two lists: for each axis the elements that negative paddings cut off, and the other paddings.
local function cut(v, before, behind)
  local begin, size, any = {}, {}, false
  for i, extent in ipairs(v.shape) do
    begin[i] = math.max(-before[i], 0)
    size[i] = math.max(extent - begin[i] - math.max(-behind[i], 0), 0)
    any = any or before[i] < 0 or behind[i] < 0
    before[i], behind[i] = math.max(before[i], 0), math.max(behind[i], 0)
  end
  return any and ops.slice(v, begin, size) or v
end

local function pad_edge(v, before, behind)
  for axis = 0, #v.shape - 1 do
    local extent, parts = v.shape[axis + 1], {}
    local function edge(at, count)
      if count == 0 then return end
      local begin, size, counts = tools.filled(#v.shape, 0),
        table.move(v.shape, 1, #v.shape, 1, {}), tools.filled(#v.shape, 1)
      begin[axis + 1], size[axis + 1], counts[axis + 1] = at, 1, count
      parts[#parts + 1] = ops.tile(ops.slice(v, begin, size), counts)
    end
    edge(0, before[axis + 1])
    parts[#parts + 1] = v
    edge(extent - 1, behind[axis + 1])
    if #parts > 1 then v = ops.concat(parts, axis) end
  end
  return v
end

-- Each axis repeats without end: element i of the result is element (i - before) mod extent.
local function pad_wrap(v, before, behind)
  for axis = 0, #v.shape - 1 do
    local extent, b, e = v.shape[axis + 1], before[axis + 1], behind[axis + 1]
    if b + e > 0 then
      local counts, begin = tools.filled(#v.shape, 1), tools.filled(#v.shape, 0)
      local size = table.move(v.shape, 1, #v.shape, 1, {})
      counts[axis + 1] = (b + extent - 1) // extent + 1 + (e + extent - 1) // extent
      begin[axis + 1], size[axis + 1] = -b % extent, b + extent + e
      v = ops.slice(ops.tile(v, counts), begin, size)
    end
  end
  return v
end

-- Mode → the op's, and the opset that brought it.
local modes <const> = {
  constant = {"CONSTANT", 1}, reflect = {"REFLECT", 1}, edge = {"EDGE", 1}, wrap = {"WRAP", 19},
}

-- A frame of large integers is made of a tensor: the op's own number is a float.
local function pad_constant(n, v, before, behind, value)
  if value and core.is_symbolic(value) then
    refuse(n, "expected a number that is known in advance")
  end
  local fill, pairs_of = value and number(n, value) or 0, {}
  for i = 1, #v.shape do pairs_of[i] = {before[i], behind[i]} end
  if type(fill) == "boolean" then fill = fill and 1 or 0 end
  if math.type(fill) ~= "integer" or math.abs(fill) <= 1 << 53 then
    return ops.pad(v, pairs_of, {constant_values = fill})
  end
  local inside = ops.pad(ops.cast(ops.ones_like(v), "bool"), pairs_of)
  return ops.where(inside, ops.pad(v, pairs_of), ops.reshape(value, {}))
end

-- Paddings before and after each axis; without axes (an operand since opset 18) they are of all.
local function frame_of(n, pads, axes, rank)
  axes = axes or tools.range(0, rank - 1)
  if #pads ~= 2 * #axes then refuse(n, string.format("%d paddings for %d axes", #pads, #axes)) end
  local before, behind, seen = tools.filled(rank, 0), tools.filled(rank, 0), {}
  for i, given in ipairs(axes) do
    local at = tools.axis(n, given, rank) + 1
    if seen[at] then refuse(n, string.format("its axes name axis %d twice", given)) end
    seen[at], before[at], behind[at] = true, pads[i], pads[#axes + i]
  end
  return before, behind
end

function interpret.Pad(x, a, n)
  local rank, value, shape = #x[1].shape, a.value, {}
  local mode, since = table.unpack(modes[a.mode] or {})
  if not mode or n.opset < since then
    refuse(n, string.format("padding of mode %s is not known here at opset %d", a.mode, n.opset))
  end
  local before, behind = frame_of(n, ints(n, x[2]) or a.pads or a.paddings, ints(n, x[4]), rank)
  local v = cut(x[1], before, behind)
  for i, extent in ipairs(v.shape) do shape[i] = before[i] + 0.0 + extent + behind[i] end
  tools.reserve(n, shape, v.dtype, v)
  if mode == "EDGE" then return pad_edge(v, before, behind) end
  if mode == "WRAP" and v.size == 0 then refuse(n, "there is nothing to repeat") end
  if mode == "WRAP" then return pad_wrap(v, before, behind) end
  if mode == "CONSTANT" then
    return pad_constant(n, v, before, behind, x[3] or value
      and ops.tensor(value, {dtype = "float32"}))
  end
  local pairs_of = {}
  for i = 1, rank do pairs_of[i] = {before[i], behind[i]} end
  return ops.pad(v, pairs_of, {mode = mode})
end

-- One axis from `from` to `to`, which ONNX clamps: begin, end, step in the form of strided_slice.
local function slice_axis(n, extent, from, to, step)
  if step == 0 then refuse(n, "its step is 0") end
  local function clamp(i, least, most)
    return math.max(least, math.min(most, i < 0 and i + extent or i))
  end
  if step > 0 then
    local begin, stop = clamp(from, 0, extent), clamp(to, 0, extent)
    return begin, math.max(begin, stop), math.min(step, math.max(extent, 1))
  end
  step = math.max(step, -math.max(extent, 1))
  local begin, stop = clamp(from, 0, extent - 1), to < -extent and -1 or clamp(to, -1, extent - 1)
  if begin <= stop or extent == 0 then return 0, 0, 1 end
  return begin, stop >= 0 and stop, step -- an open end: false
end

function interpret.Slice(x, a, n)
  local starts, ends = ints(n, x[2]) or a.starts, ints(n, x[3]) or a.ends
  local rank = #x[1].shape
  local axes, steps = ints(n, x[4]) or a.axes or tools.range(0, #starts - 1), ints(n, x[5]) or {}
  if #starts ~= #ends or #axes ~= #starts then
    refuse(n, "its starts, ends and axes differ in number")
  end
  local begins, stops, strides, any = tools.filled(rank, false), tools.filled(rank, false),
    tools.filled(rank, 1), false
  for i, given in ipairs(axes) do
    local at = tools.axis(n, given, rank) + 1
    local extent = x[1].shape[at]
    begins[at], stops[at], strides[at] = slice_axis(n, extent, starts[i], ends[i], steps[i] or 1)
    any = any or begins[at] ~= 0 or stops[at] ~= extent or strides[at] ~= 1
  end
  return any and ops.strided_slice(x[1], begins, stops, strides) or x[1]
end

-- ------------------------------------------------ picking

-- Negative indices count from the end. Indices beyond int32 stay outside.
local function index(v, extent)
  v = class_numbers(v)
  return ops.where(ops.less(v, 0), v + extent, v)
end

function interpret.Gather(x, a, n)
  local axis = tools.axis(n, a.axis, #x[1].shape)
  return ops.gather(x[1], index(x[2], x[1].shape[axis + 1]), {axis = axis})
end

-- Indices within each of the first axes, which both operands share, as indices of the whole.
local function with_batch(n, indices, shape, batch)
  local own, all = indices.shape, {}
  for i = 1, batch do
    if own[i] ~= shape[i] then
      refuse(n, string.format("extent %d of its operands is %d and %d", i, shape[i], own[i]))
    end
    local at, row = tools.filled(#own, 1), table.move(own, 1, #own, 1, {})
    at[i], row[#own] = own[i], 1
    all[i] = ops.broadcast_to(ops.reshape(ops.cast(ops.arange(own[i]), "int32"), at), row)
  end
  all[batch + 1] = indices
  return ops.concat(all, -1)
end

function interpret.GatherND(x, a, n)
  local batch, shape, depth = a.batch_dims or 0, x[1].shape, x[2].shape[#x[2].shape]
  local rank = math.min(#shape, #x[2].shape)
  if batch < 0 or batch >= math.max(rank, 1) then
    refuse(n, string.format("batch_dims %d leaves no axis of an operand of rank %d", batch, rank))
  end
  if not depth or depth + batch > #shape then
    refuse(n, "its indices have more parts than its operand has axes")
  end
  if depth == 0 then refuse(n, "indices without parts are not known here") end
  local extents = table.move(shape, batch + 1, batch + depth, 1, {})
  local parts = index(x[2], ops.tensor(extents, {dtype = "int32"}))
  return ops.gather_nd(x[1], batch == 0 and parts or with_batch(n, parts, shape, batch))
end

function interpret.OneHot(x, a, n)
  local depth = number(n, x[2])
  local shape, rank = table.move(x[1].shape, 1, #x[1].shape, 1, {}), #x[1].shape + 1
  depth = math.tointeger(depth) or math.floor(depth)
  if depth < 1 then refuse(n, "its depth is " .. depth) end
  local axis = tools.axis(n, a.axis, rank)
  shape[rank] = depth
  tools.reserve(n, shape, x[3].dtype, x[1])
  local hot = ops.cast(ops.one_hot(index(x[1], depth), depth, {axis = axis}), "bool")
  local off, on = ops.split(ops.reshape(x[3], {2}), 2, {axis = 0})
  return ops.where(hot, ops.reshape(on, {}), ops.reshape(off, {}))
end

-- Turns the order of numbers round, without overflow; its own inverse.
local function turned(v)
  if v.dtype == "uint8" then return 255 - v end
  return tools.is_float(v) and -v or -1 - v
end

function interpret.TopK(x, a, n)
  local rank, least, _ = #x[1].shape, a.largest == 0, a.sorted -- luacheck: ignore 211
  local axis, k = tools.axis(n, a.axis, rank), x[2] and number(n, x[2]) or a.k
  local perm = tools.range(0, rank - 1)
  perm[axis + 1], perm[rank] = rank - 1, axis
  local v = least and turned(x[1]) or x[1]
  local values, indices = ops.top_k(ops.transpose(v, perm), {k = k})
  if least then values = turned(values) end
  return ops.transpose(values, perm), ops.cast(ops.transpose(indices, perm), "int64")
end

return interpret
