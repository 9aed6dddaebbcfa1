-- ipu.debugging: checks of tensors, at once or, in a traced function, whenever the program comes
-- by.

local args = require "ipulua.base.args"
local blame = require "ipulua.base.blame"
local core = require "ipulua.core"
local effects = require "ipulua.trace.effects"
local ops = require "ipulua.ops"
local system = require "ipulua.strategy.system"

local debugging = {
  enable_check_numerics = system.enable_check_numerics,
  disable_check_numerics = system.disable_check_numerics,
}

local function as_tensor(value, dtype)
  if core.is_variable(value) then return value:read_value() end
  return core.is_tensor(value) and value or core.tensor(value, dtype)
end

-- Calls check(at, values…) on the host: at once, or at each execution; `at` is the script's line,
-- which errors blame.
local function on_host(check, ...)
  local symbolic = false
  for _, t in ipairs{...} do symbolic = symbolic or core.is_symbolic(t) end
  local line <const> = blame.where()
  if not symbolic then return check(line, ...) end
  effects.host_callback(function(...) check(line, ...) end)(...)
end

-- "[3, 0]" of a flat position, from 0.
local function place_of(position, shape)
  local indices = {}
  for axis = #shape, 1, -1 do
    indices[axis] = position % shape[axis]
    position = position // shape[axis]
  end
  return "[" .. table.concat(indices, ", ") .. "]"
end

-- The first true element of a mask, from 0; nil: there is none.
local function first_true(mask)
  if mask.size == 0 or not ops.reduce_any(mask):item() then return nil end
  return ops.argmax(ops.cast(ops.reshape(mask, {-1}), "int32")):item()
end

local function element(t, position) return ops.reshape(t, {-1})[position + 1]:item() end

local numerics_rows <const> = {{"x", {"tensor", "list", "number"}}, {"message", "string", ""}}

---x itself; an error where it holds a NaN or an infinity, at once or in each run of a program. The
---error has the message, the script's line and the first position.
---Shapes: [...] → the same
---Units: positions count from 0
---Errors: integers; a NaN or an infinity: `ipu.debugging.check_numerics({0, 0 / 0}, "loss")`
---Source: tf.debugging.check_numerics
---@param ... any x, message
---@return userdata
function debugging.check_numerics(...)
  local a = args.check("check_numerics", numerics_rows, ...)
  local x = as_tensor(a.x)
  if not x.dtype:find "float" then
    blame.error("check_numerics: 'x' must be floating point, got " .. x.dtype, "type")
  end
  local head = "check_numerics: " .. (a.message ~= "" and a.message or "x")
  on_host(function(line, values)
    local at = first_true(ops.logical_not(ops.is_finite(values)))
    if not at then return end
    local found = element(values, at)
    blame.error(string.format("%s: %s at %s", head, found ~= found and "nan"
      or found < 0 and "-inf" or "inf", place_of(at, values.shape)), "value", line)
  end, x)
  return x
end

local value_type <const> = {"tensor", "list", "number", "boolean"}
local equal_rows <const> = {{"x", value_type}, {"y", value_type}, {"message", "string", ""}}

---An error where two tensors differ, which broadcast; at once, or in a program whenever it comes
---by. A NaN differs from all.
---Shapes: x, y broadcast
---Units: positions count from 0
---Errors: shapes that don't broadcast, dtypes or elements that differ:
---`ipu.debugging.assert_equal({1, 2}, {1, 3})`
---Source: tf.debugging.assert_equal
---@param ... any x, y, message
function debugging.assert_equal(...)
  local a = args.check("assert_equal", equal_rows, ...)
  local x = as_tensor(a.x, core.is_tensor(a.y) and a.y.dtype or nil)
  local y = as_tensor(a.y, x.dtype)
  local differs = ops.not_equal(x, y)
  local head = "assert_equal" .. (a.message ~= "" and ": " .. a.message or "")
  on_host(function(line, mask, left, right)
    local at = first_true(mask)
    if not at then return end
    blame.error(string.format("%s: %s is not %s at %s", head,
      element(ops.broadcast_to(left, mask.shape), at),
      element(ops.broadcast_to(right, mask.shape), at), place_of(at, mask.shape)), "value", line)
  end, differs, x, y)
end

-- Whether an extent agrees with the expected one: a number, -1 for any, or a name for equal ones.
local function fits(wanted, extent, named)
  if wanted == -1 or extent == -1 then return true end
  if type(wanted) ~= "string" then return wanted == extent end
  named[wanted] = named[wanted] or extent
  return named[wanted] == extent
end

local function shape_fits(wanted, shape, named)
  if #wanted ~= #shape then return false end
  for i, each in ipairs(wanted) do
    if not fits(each, shape[i], named) then return false end
  end
  return true
end

local shapes_rows <const> = {{"shapes", "list", list = true, of = "list of {tensor, shape}"}}

---An error where a tensor hasn't the shape given with it: {tensor, {2, -1, "n"}}. -1 is any extent;
---a name is the same extent wherever it stands.
---Shapes: any
---Errors: another shape, a pair of another form: `ipu.debugging.assert_shapes{{ipu.ones{2}, {3}}}`
---Source: tf.debugging.assert_shapes
---@param ... any a list of pairs {tensor, shape}
function debugging.assert_shapes(...)
  local named = {}
  for i, pair in ipairs(args.check("assert_shapes", shapes_rows, ...).shapes) do
    local t, wanted = table.unpack(args.is_plain(pair) and pair or {})
    if not args.is_tensor(t) or not args.is_plain(wanted) then
      blame.error(string.format("assert_shapes: entry %d must be {tensor, shape}", i), "type")
    end
    if not shape_fits(wanted, t.shape, named) then
      local words = {}
      for k, each in ipairs(wanted) do
        words[k] = tostring(each) .. (named[each] and " = " .. named[each] or "")
      end
      blame.error(string.format("assert_shapes: tensor %d has the shape [%s], not [%s]", i,
        table.concat(t.shape, ", "), table.concat(words, ", ")), "invalid_argument")
    end
  end
end

return debugging
