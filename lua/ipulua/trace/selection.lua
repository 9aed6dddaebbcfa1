-- Results whose extent the values decide: unique, nonzero, boolean_mask, where of one argument.
-- Eagerly they have it; a program's shapes are static, so there `size` says how many are kept.

local args = require "ipulua.base.args"
local blame = require "ipulua.base.blame"
local core = require "ipulua.core"
local ops = require "ipulua.ops"

local selection = {}

local x_row <const> = {"x", {"tensor", "list"}}
local sized_rows <const> = {
  {"size", "integer", optional = true, by_name = true, range = "[0, inf)",
    says = "how many are kept; needed in a trace"},
  {"fill", "number", -1, by_name = true, says = "value after the last index"},
}

local function with_size(rows) return table.move(sized_rows, 1, #sized_rows, #rows + 1, rows) end

local function as_tensor(value) return args.is_tensor(value) and value or core.tensor(value) end

-- Whether the result is found by ops, in a size that was given.
local function is_sized(who, a, ...)
  for _, t in ipairs{...} do
    for axis, extent in ipairs(t.shape) do
      if extent < 0 then
        blame.error(string.format("%s: the extent of axis %d is not known until a session feeds "
          .. "it; positions need full static shapes, without -1", who, axis - 1), "value")
      end
    end
  end
  if a.size then return true end
  for _, t in ipairs{...} do
    if core.is_symbolic(t) then
      blame.error(who .. ": how many there are is not known while a function is traced; give "
        .. "{size = n}, how many are kept", "value")
    end
  end
  return false
end

local function count_of(shape)
  local n = 1
  for _, extent in ipairs(shape) do n = n * extent end
  return n
end

-- The first `size` positions of a flat mask, from 0, then -1.
local function first_positions(mask, size)
  local n = mask.shape[1]
  local at = ops.sort(ops.where(mask, ops.arange(n), n))
  if size > n then at = ops.pad(at, {{0, size - n}}, {constant_values = n}) end
  at = ops.slice(at, {0}, {size})
  return ops.where(ops.less(at, n), at, -1)
end

-- The same without a size, on the host.
local function kept_positions(mask)
  local kept = {}
  for i, keep in ipairs(mask:totable()) do
    if keep then kept[#kept + 1] = i - 1 end
  end
  return #kept > 0 and core.tensor(kept, "int32") or ops.zeros({0}, {dtype = "int32"})
end

local function positions_of(mask, size)
  return size and first_positions(mask, size) or kept_positions(mask)
end

-- Flat positions, negative ones for none, as a column for each axis.
local function by_axes(at, shape, fill)
  local columns, step = {}, count_of(shape)
  for axis, extent in ipairs(shape) do
    step = extent > 0 and step // extent or 1
    columns[axis] = (at // math.max(step, 1)) % math.max(extent, 1)
  end
  if #columns == 0 then return ops.zeros({at.shape[1], 0}, {dtype = "int32"}) end
  return ops.where(ops.expand_dims(ops.greater_equal(at, 0), 1), ops.stack(columns, {axis = 1}),
    math.tointeger(fill) or fill)
end

local function nonzero(who, x, a)
  local size = is_sized(who, a, x) and a.size or nil
  local mask = x.dtype == "bool" and x or ops.not_equal(x, 0)
  return by_axes(positions_of(ops.reshape(mask, {-1}), size), x.shape, a.fill)
end

local nonzero_rows <const> = with_size{x_row}

---Where a tensor isn't zero (of bool: is true), in row-major order: a row of positions for each.
---Shapes: [...] → [n, rank], int32; n is `size` where that is given
---Units: positions count from 0, as gather_nd takes them
---Errors: a symbolic tensor without a size, a fill that is no integer:
---`ipu.func(function(x) return ipu.nonzero(x) end)(x)`
---Source: tf.where of one argument
---@param ... any x; by name size, fill
---@return userdata
function selection.nonzero(...)
  local a = args.check("nonzero", nonzero_rows, ...)
  return nonzero("nonzero", as_tensor(a.x), a)
end

local where_rows <const> = with_size{{"condition", {"tensor", "list"}}}

-- Whether a table is a list of booleans, nested to any depth: else it may hold all arguments.
local function is_of_booleans(t)
  while args.is_plain(t) do t = t[#t] end
  return type(t) == "boolean"
end

-- Whether only named arguments follow the condition.
local function is_alone(condition, count, a)
  if count > 0 then return args.is_plain(a) and (a.size ~= nil or a.fill ~= nil) end
  return not args.is_plain(condition) or is_of_booleans(condition)
end

---where(condition, a, b), or where(condition): the positions that are true.
---@param condition any
---@return userdata
function selection.where(condition, ...)
  if not is_alone(condition, select("#", ...), ...) then return ops.where(condition, ...) end
  local named = ... or {}
  local a = args.check("where", where_rows,
    {condition = condition, size = named.size, fill = named.fill})
  return nonzero("where", as_tensor(a.condition), a)
end

local mask_rows <const> = with_size{x_row, {"mask", {"tensor", "list"}}}

local function same_front(shape, front)
  for axis, extent in ipairs(front) do
    if shape[axis] ~= extent then return false end
  end
  return #front > 0
end

---The parts of x at which a mask of its first axes is true.
---Shapes: x [m…, rest…], mask [m…] → [n, rest…]; n is `size` where that is given
---Errors: a mask of another shape or dtype, symbolic tensors without a size:
---`ipu.boolean_mask(x, {true})`
---Source: tf.boolean_mask
---@param ... any x, mask; by name size, fill
---@return userdata
function selection.boolean_mask(...)
  local a = args.check("boolean_mask", mask_rows, ...)
  local x, mask = as_tensor(a.x), as_tensor(a.mask)
  if mask.dtype ~= "bool" then
    blame.error("boolean_mask: 'mask' must be bool, got " .. mask.dtype, "type")
  end
  if not same_front(x.shape, mask.shape) then
    blame.error(string.format("boolean_mask: a mask has the shape of the first axes; got [%s] for "
      .. "[%s]", table.concat(mask.shape, ", "), table.concat(x.shape, ", ")), "invalid_argument")
  end
  local size = is_sized("boolean_mask", a, x, mask) and a.size or nil
  local at = positions_of(ops.reshape(mask, {-1}), size)
  local shape = table.move(x.shape, #mask.shape + 1, #x.shape, 2, {mask.size})
  local flat = ops.reshape(x, shape)
  if not size then return ops.gather(flat, at) end
  local wide = ops.reshape(ops.greater_equal(at, 0),
    table.move({1, 1, 1, 1, 1, 1, 1, 1}, 1, #shape - 1, 2, {size}))
  return ops.where(wide, ops.gather(flat, ops.maximum(at, 0)), a.fill)
end

local unique_rows <const> = with_size{x_row}

-- Where each element stands for the first time, of a flat tensor.
local function first_places(x)
  local n = x.shape[1]
  local order = ops.argsort(x)
  local sorted = ops.gather(x, order)
  local first = ops.ones({1}, {dtype = "bool"})
  local begins = first
  if n > 1 then
    local differs = ops.not_equal(ops.slice(sorted, {1}, {n - 1}), ops.slice(sorted, {0}, {n - 1}))
    if x.dtype:find "float" then -- NaN differs from itself; all of them count as one
      local is_nan = ops.is_nan(sorted)
      differs = ops.logical_and(differs, ops.logical_not(ops.logical_and(
        ops.slice(is_nan, {1}, {n - 1}), ops.slice(is_nan, {0}, {n - 1}))))
    end
    begins = ops.concat({first, differs}, {axis = 0})
  end
  local run = ops.cumsum(ops.cast(begins, "int32")) - 1
  local places = ops.gather(order, ops.gather(first_positions(begins, n), run))
  return ops.gather(places, ops.argsort(order))
end

---The elements that differ, in the order in which they appear. Further results: for each element
---the position of its like among them; how often each is there. NaNs count as one.
---Shapes: [...] → [n], the shape of x, [n]; n is `size` where that is given
---Units: positions count from 0, int32, as gather takes them; counts are int32
---Errors: a symbolic tensor without a size: `ipu.func(function(x) return ipu.unique(x) end)(x)`
---Source: tf.unique_with_counts
---@param ... any x; by name size, fill (of the values; counts have 0 there)
---@return userdata values
---@return userdata indices
---@return userdata counts
function selection.unique(...)
  local a = args.check("unique", unique_rows, ...)
  local x = as_tensor(a.x)
  local size = is_sized("unique", a, x) and a.size or nil
  local flat = ops.reshape(x, {-1})
  local n = flat.shape[1]
  if n == 0 then
    return ops.full({size or 0}, a.fill, {dtype = x.dtype}),
      ops.zeros(x.shape, {dtype = "int32"}), ops.zeros({size or 0}, {dtype = "int32"})
  end
  local places = first_places(flat)
  local is_first = ops.equal(places, ops.arange(n))
  local at = positions_of(is_first, size)
  local indices = ops.gather(ops.cumsum(ops.cast(is_first, "int32")) - 1, places)
  local most = at.shape[1]
  local counts = ops.segment_sum(ops.ones({n}, {dtype = "int32"}), ops.minimum(indices, most),
    most + 1)
  local values = ops.gather(flat, ops.maximum(at, 0))
  if size then values = ops.where(ops.greater_equal(at, 0), values, a.fill) end
  return values, ops.reshape(indices, x.shape), ops.slice(counts, {0}, {most})
end

return selection
