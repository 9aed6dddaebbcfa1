-- t[-1], t[{2, 5}], t[{{2, 4}, {}, -1}], t[mask]: what a tensor's index may be besides a row's
-- number, and t[index] = values. Positions count from 1, negative ones from the end; both ends of a
-- range are in it. A range that ends right before its begin, {1, 0}, is empty.

local args = require "ipulua.base.args"
local blame = require "ipulua.base.blame"
local core = require "ipulua.core"
local plain = require "ipulua.base.plain"

local indexing = {}

local function extent_of(t, axis)
  local extent = t.shape[axis]
  if extent >= 0 then return extent end
  blame.error(string.format("the extent of axis %d is not known until a session feeds it; take "
    .. "t:slice(begin, size)", axis - 1), "value")
end

-- A position from 1 on; `least` and `most` bound it, 1 and the extent by default.
local function from_start(t, axis, position, least, most)
  if math.type(position) ~= "integer" then
    blame.error("a position in a tensor's index must be an integer, got "
      .. args.describe(position), "type")
  end
  local extent = extent_of(t, axis)
  local counted = position < 0 and extent + position + 1 or position
  if counted >= (least or 1) and counted <= (most or extent) then return counted end
  blame.error(position == 0 and "there is no position 0: a tensor's positions count from 1"
    or string.format("position %d lies outside of axis %d, which has %d", position, axis - 1,
      extent), "value")
end

-- The part of an axis: its first position, its extent, and whether the axis is removed.
local function part(t, axis, index)
  if index == nil or plain.is(index) and next(index) == nil then return 0, t.shape[axis], false end
  if not plain.is(index) then return from_start(t, axis, index) - 1, 1, true end
  if #index ~= 2 then
    blame.error(string.format("a range in a tensor's index is {first, last}, got %d numbers",
      #index), "value")
  end
  local extent = extent_of(t, axis)
  local first = from_start(t, axis, index[1], 1, extent + 1)
  -- {first, first - 1} is empty, also at either end of the axis
  local last = from_start(t, axis, index[2], first == 1 and 0 or 1, extent)
  if last < first - 1 then
    blame.error(string.format("the range {%s, %s} of axis %d ends before it begins", index[1],
      index[2], axis - 1), "value")
  end
  return first - 1, last - first + 1, false
end

-- The elements of an index: where they begin, how many there are along each axis, and which axes
-- go.
local function box_of(t, index)
  if #index > t.rank then
    blame.error(string.format("a tensor of rank %d has no axis %d to index", t.rank, #index - 1),
      "value")
  end
  local begin, size, gone = {}, {}, {}
  for axis = 1, t.rank do
    local single
    begin[axis], size[axis], single = part(t, axis, index[axis])
    if single then gone[#gone + 1] = axis - 1 end
  end
  return begin, size, gone
end

local function copy(index)
  if not plain.is(index) then return index end
  local list = {}
  for i, each in ipairs(index) do list[i] = copy(each) end
  return list
end

local function by_axes(t, index)
  local begin, size, gone = box_of(t, index)
  local taken = t:slice(begin, size)
  if #gone > 0 then taken = taken:squeeze{axis = gone} end
  return core.linked(taken, t, copy(index))
end

-- {2, 5} is a range of rows; with a table in it, it is an index for each axis.
local function is_range(index)
  return #index == 2 and not plain.is(index[1]) and not plain.is(index[2])
end

local function same_front(shape, mask)
  for axis, extent in ipairs(mask.shape) do
    if shape[axis] ~= extent then return false end
  end
  return #mask.shape > 0
end

local function check_mask(t, mask)
  if mask.dtype ~= "bool" then
    blame.error("a tensor is not indexed by a tensor of positions; take ipu.gather(t, indices), "
      .. "whose indices count from 0", "type")
  end
  if core.is_symbolic(t) or core.is_symbolic(mask) then
    blame.error("how many elements a mask keeps is not known while a function is traced; take "
      .. "ipu.where(mask, t, other)", "value")
  end
  if not same_front(t.shape, mask) then
    blame.error(string.format("a mask has the shape of the tensor's first axes; got [%s] for [%s]",
      table.concat(mask.shape, ", "), table.concat(t.shape, ", ")), "value")
  end
end

-- The positions, from 0, of the elements that a mask keeps, one after the other.
local function kept_by(mask)
  local kept = {}
  for i, keep in ipairs(mask:reshape{-1}:totable()) do
    if keep then kept[#kept + 1] = i - 1 end
  end
  return kept
end

-- The shape with the mask's axes as one, of n.
local function flat_shape(t, mask, n)
  return table.move(t.shape, #mask.shape + 1, t.rank, 2, {n})
end

local function by_mask(t, mask)
  check_mask(t, mask)
  local kept = kept_by(mask)
  if #kept == 0 then return core.full(flat_shape(t, mask, 0), 0, t.dtype) end
  return t:reshape(flat_shape(t, mask, mask.size)):gather(core.tensor(kept, "int32"))
end

---The value of t[index], for all but a positive row's number.
---@param t userdata
---@param index any
---@return userdata
function indexing.read(t, index)
  if core.is_tensor(index) then return by_mask(t, index) end
  if plain.is(index) and not is_range(index) then return by_axes(t, index) end
  return by_axes(t, {index})
end

-- ------------------------------------------------ assigning

-- The assigned value, as a tensor of a shape.
local function values_of(t, value, shape)
  if not (core.is_tensor(value) or core.is_variable(value)) then
    value = core.tensor(value, t.dtype, "what is assigned to elements")
  end
  if value.dtype ~= t.dtype then
    blame.error(string.format("elements of %s are assigned values of %s; ipu.cast them", t.dtype,
      value.dtype), "type")
  end
  local given = value.shape
  local fits = #given <= #shape
  for i = 1, fits and #given or 0 do
    local extent = shape[#shape - #given + i]
    fits = fits and (given[i] == extent or given[i] == 1)
  end
  if not fits then
    blame.error(string.format("values of the shape [%s] don't fit elements of the shape [%s]",
      table.concat(given, ", "), table.concat(shape, ", ")), "invalid_argument")
  end
  return core.ops.broadcast_to(value, shape)
end

-- A shape without the axes, from 0, that an index takes one position of.
local function without(size, gone)
  local is_gone, shape = {}, {}
  for _, axis in ipairs(gone) do is_gone[axis + 1] = true end
  for axis, extent in ipairs(size) do
    if not is_gone[axis] then shape[#shape + 1] = extent end
  end
  return shape
end

local function write_box(t, index, value)
  local begin, size, gone = box_of(t, index)
  local values = values_of(t, value, without(size, gone))
  core.put_elements(t, begin, size, values:reshape(size))
end

local function write_masked(t, mask, value)
  check_mask(t, mask)
  local kept = kept_by(mask)
  local values = values_of(t, value, flat_shape(t, mask, #kept))
  if #kept == 0 then return end
  local rows, ones = {}, {}
  for i, position in ipairs(kept) do rows[position + 1] = i - 1 end
  for i = 1, mask.size do rows[i] = rows[i] or 0 end
  for i = 1, t.rank - #mask.shape do ones[i] = 1 end
  local spread = values:gather(core.tensor(rows, "int32")):reshape(t.shape)
  local front = table.move(mask.shape, 1, #mask.shape, 1, {})
  local wide = mask:reshape(table.move(ones, 1, #ones, #front + 1, front))
  local begin = {}
  for axis = 1, t.rank do begin[axis] = 0 end
  core.put_elements(t, begin, t.shape, core.ops.where(wide, spread, t))
end

local function check_chain(t)
  while t do
    if core.is_variable(t) then
      blame.error("a variable's elements can't be assigned to one by one; v:assign(values) "
        .. "replaces them all", "type")
    end
    core.check_assignable(t)
    t = core.link_of(t)
  end
end

---t[index] = value. Elements that an index took out of a tensor are written there too.
---@param t userdata
---@param index any
---@param value any
function indexing.write(t, index, value)
  check_chain(t)
  if core.is_tensor(index) then write_masked(t, index, value)
  elseif plain.is(index) and not is_range(index) then write_box(t, index, value)
  else
    write_box(t, {index}, value)
  end
  local parent, at = core.link_of(t)
  if parent then indexing.write(parent, at, t) end
end

return indexing
