-- t[-1], t[{2, 5}], t[{{2, 4}, {}, -1}], t[mask]: what a tensor's index may be besides a row's
-- number. Positions count from 1, negative ones from the end; both ends of a range are in it.

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

-- A position as an offset from 0.
local function offset(t, axis, position)
  if math.type(position) ~= "integer" then
    blame.error("a position in a tensor's index must be an integer, got "
      .. args.describe(position), "type")
  end
  local extent = extent_of(t, axis)
  local from_start = position < 0 and extent + position + 1 or position
  if position ~= 0 and from_start >= 1 and from_start <= extent then return from_start - 1 end
  blame.error(position == 0 and "there is no position 0: a tensor's positions count from 1"
    or string.format("position %d lies outside of axis %d, which has %d", position, axis - 1,
      extent), "value")
end

-- An axis' share: where it begins, how many, and whether the axis goes.
local function part(t, axis, index)
  if index == nil or plain.is(index) and next(index) == nil then return 0, t.shape[axis], false end
  if not plain.is(index) then return offset(t, axis, index), 1, true end
  if #index ~= 2 then
    blame.error(string.format("a range in a tensor's index is {first, last}, got %d numbers",
      #index), "value")
  end
  local first, last = offset(t, axis, index[1]), offset(t, axis, index[2])
  if last < first then
    blame.error(string.format("the range {%s, %s} of axis %d is empty", index[1], index[2],
      axis - 1), "value")
  end
  return first, last - first + 1, false
end

local function by_axes(t, index)
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
  local taken = t:slice(begin, size)
  return #gone > 0 and taken:squeeze{axis = gone} or taken
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

local function by_mask(t, mask)
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
  local kept = {}
  for i, keep in ipairs(mask:reshape{-1}:totable()) do
    if keep then kept[#kept + 1] = i - 1 end
  end
  local shape = table.move(t.shape, #mask.shape + 1, t.rank, 2, {mask.size})
  if #kept == 0 then
    shape[1] = 0
    return core.full(shape, 0, t.dtype)
  end
  return t:reshape(shape):gather(core.tensor(kept, "int32"))
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

return indexing
