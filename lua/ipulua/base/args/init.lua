-- Arguments are declared once, as rows {name, type, default}; positions, names, types, defaults and
-- messages follow from the rows.
--
--   local spec <const> = {
--     {"units",      "integer"},                     -- no default: required
--     {"activation", "string", "linear"},
--     {"name",       "string", optional = true},     -- may stay nil
--   }
--   Dense(256, {activation = "relu"})   Dense{256, activation = "relu"}   Dense{units = 256, …}
--
-- Fields of a row: [1] name, [2] a type or a list of types, [3] default. A default that is a plain
-- table is copied for each call.
--   optional = true     nil is allowed
--   choices = {…}       the values allowed; strings in any letter case
--   synonyms = {…}      other names of choices: {binary = "multi_hot"}
--   range = "[0, 1)"    the numbers allowed, also in lists of numbers
--   check = f           f(value) returns nil, or words that complete "'name' …"
--   for_number = "f"    what makes a value of a number: the refusal of 2 names f(2)
--   by_name = true      it and the rows after it have no position
--   part = true         a plain table is the argument only if it has a class_name
-- For help and the references:
--   of                  words in place of the type; required for type any
--   says                the meaning of the argument, with its unit
-- On the first row only, for a call with a single table:
--   list = true         the list part of the table *is* the argument (layers, a shape)
--   whole = true        the table is always the argument itself
--   list_of = "number"  the list part is the argument if it has several numbers or lists
--   nested = true       a table with one list of numbers or of lists is the argument itself
--   one = true          of type any, never a list: f{x} is f(x). A row of type table without list
--                       is one value, too, if the value is an object
--
-- Types: integer number string boolean function callable table list integers dict tensor dtype any.
-- A type may also be an enumeration: the value becomes the member's name, whatever its letter case.
-- A class takes its instances. Keep a spec in a local of its file: derived tables are cached by its
-- identity.

local blame = require "ipulua.base.blame"
local counted = require "ipulua.base.counted"
local nearest = require "ipulua.nearest"
local rows = require "ipulua.base.args.rows"

local args = {
  describe = rows.describe, dtypes = rows.dtypes, is_dtype = rows.is_dtype, is_list = rows.is_list,
  is_plain = rows.is_plain, is_tensor = rows.is_tensor,
}

local accept <const>, compiled_spec <const> = rows.accept, rows.compiled_spec

-- Checks one value and stores it under its row's name.
local function put(fname, row, values, value)
  if value == nil then return end
  if values[row.name] ~= nil then
    blame.error(string.format("%s: '%s' is given twice, by position and by name", fname, row.name),
      "type")
  end
  values[row.name] = accept(fname, row, value)
end

local function put_position(fname, compiled, values, i, value)
  local row = compiled.rows[i]
  if row and i <= compiled.positions then
    put(fname, row, values, value)
  elseif value ~= nil then
    return true
  end
end

local function too_many(fname, compiled, count)
  local by_position = compiled.positions < compiled.count and " by position" or ""
  if compiled.positions == 0 then
    blame.error(string.format("%s takes no arguments%s, got %d", fname, by_position, count), "type")
  end
  blame.error(string.format("%s takes at most %s%s, got %d", fname,
    counted(compiled.positions, "argument"), by_position, count), "type")
end

-- The name that a misspelt one means, or one of another library.
local function meant(key, names)
  return require "ipulua.base.elsewhere".argument(key, names) or nearest.find(key, names)
end

-- The names that a function takes, for an error about a name that resembles none of them.
local function taken(names)
  if #names == 0 then return "" end
  local most <const> = 8
  return "; it takes " .. table.concat(names, ", ", 1, math.min(#names, most))
    .. (#names > most and ", …" or "")
end

local function hint(key, names)
  local missing = require "ipulua.base.elsewhere".missing_argument(key)
  if missing then return missing end
  local found = meant(key, names)
  return found and "; did you mean '" .. found .. "'?" or taken(names)
end

local function unknown(fname, compiled, key, value)
  if key == fname and type(value) == "function" then
    blame.error(fname .. " is a function of a module; it is called with a dot, not with a colon",
      "type")
  end
  blame.error(string.format("%s has no argument '%s'%s", fname, tostring(key),
    hint(key, compiled.names)), "type")
end

-- The named part of a table; a list part is the caller's business when `skip_list` is set.
local function put_named(fname, compiled, values, t, skip_list)
  for key, value in next, t do
    local i = compiled.index[key]
    if i then
      put(fname, compiled.rows[i], values, value)
    elseif not (skip_list and math.type(key) == "integer") then
      if math.type(key) == "integer" then
        blame.error(string.format("%s: the last table %s", fname, args.is_list(t)
          and "should hold arguments by name, as in {name = value}; "
          .. "it is a list" or "mixes names with a list; give the list as an argument of its own"),
          "type")
      end
      unknown(fname, compiled, key, value)
    end
  end
end

-- The largest integer key; lists of arguments may have holes (nil means the default).
local function list_extent(t)
  local n = 0
  for key in next, t do
    if math.type(key) == "integer" then
      if key > n then n = key end
    end
  end
  return n
end

local function names_known(compiled, t)
  for key in next, t do
    if not compiled.index[key] then return false end
  end
  return true
end

-- The same for known names and for misspelt ones, which are better reported as slips.
local function names_slipped(compiled, t)
  for key in next, t do
    if not compiled.index[key] and not meant(key, compiled.names) then return false end
  end
  return true
end

-- {1, 2, name = "w"}: the second element can't be the second argument.
local function is_whole_list(first, t)
  return first.list_of ~= nil and #t > 1 and (type(t[2]) == first.list_of or args.is_plain(t[2]))
end

-- f{{"a", "b"}, mode = "count"}: beside names one list is the first argument, as in f({"a", "b"},
-- {mode = "count"}); a list of numbers may be its only element.
local function is_wrapped(t)
  local inner = #t == 1 and t[1]
  return args.is_plain(inner) and type(inner[1]) ~= "number" and next(t, next(t)) ~= nil
end

-- Reshape{3, 2}, but not Reshape{{3, 2}}, which is written as MaxPooling2D{{2, 2}}.
local function is_whole(first, t)
  if first.list then
    return not (args.is_plain(t[1]) and (first.takes_integers or is_wrapped(t)))
  end
  return is_whole_list(first, t)
end

-- f{...}: the list part is the positional arguments (or the first one, when that is a list).
local function from_constructor(fname, compiled, values, t)
  local first = compiled.rows[1]
  if first and is_whole(first, t) then
    local n = #t
    if n > 0 or (values[first.name] == nil and t[first.name] == nil
      and (first.required and next(t) == nil)) then
      put(fname, first, values, table.move(t, 1, n, 1, {}))
    end
    for key in next, t do
      if math.type(key) == "integer" and (key < 1 or key > n) then
        blame.error(string.format("%s: the list has a hole before position %d", fname, key), "type")
      end
    end
  else
    local n = list_extent(t)
    if n > compiled.positions then too_many(fname, compiled, n) end
    for i = 1, n do put_position(fname, compiled, values, i, t[i]) end
  end
  put_named(fname, compiled, values, t, true)
end

-- Whether the last of several arguments (or a single one that isn't a constructor) holds names.
local function holds_names(compiled, position, t)
  local row = compiled.rows[position]
  if row and row.part then return t.class_name == nil end
  if next(t) == nil then return not (row and row.takes_tables) end
  local has_name = false
  for key in next, t do
    if type(key) == "string" then has_name = true break end
  end
  if not has_name then return not (row and row.takes_tables) end
  return not (row and row.takes_names) or names_known(compiled, t)
end

-- Whether a value passes one of a row's tests, plain tables aside.
local function fits(row, value)
  if type(value) == "table" then
    return row.one or (row.takes_objects and not row.takes_lists and not args.is_plain(value))
  end
  for _, test in ipairs(row.tests) do
    if test(value) then return true end
  end
  return false
end

-- Whether a list can't be the first argument alone: the second one must be given, too, or {tensor,
-- 0.5} would be ragged.
local function is_several(compiled, t)
  local second = compiled.rows[2]
  if not second or #t < 2 then return false end
  if second.required then return true end
  local deep = type(t[1]) == "table" or type(t[1]) == "userdata"
  return deep and type(t[2]) ~= "userdata" and fits(second, t[2])
end

-- A single plain table is a constructor, unless its only sensible reading is as the first argument.
local function is_constructor(compiled, t)
  local first = compiled.rows[1]
  if not first or first.list or is_whole_list(first, t)
    or (first.list_of and type(t[2]) == "string") then
    return true
  end
  if first.whole or first.nested and args.is_list(t)
    and (type(t[1]) == "number" or args.is_plain(t[1])) then
    return false
  end
  if not first.takes_tables then return true end
  if next(t) == nil then return not first.required end
  if t[first.name] ~= nil then return true end -- it names the first argument
  if args.is_list(t) then
    -- a value that fits the first argument may stand for it alone; several only if that argument
    -- can't be a list
    if (#t == 1 or first.one or not first.takes_lists) and fits(first, t[1]) then return true end
    if is_several(compiled, t) then return true end
    -- a list for a first argument that takes one: read it as that argument if the element does not
    -- fit there
    return not (first.takes_tables and not args.is_plain(t[1]))
  end
  return not first.takes_names or t[1] ~= nil or names_slipped(compiled, t)
end

local function fill_defaults(fname, compiled, values)
  for i = 1, compiled.count do
    local row = compiled.rows[i]
    if values[row.name] == nil then
      local default = row.default
      if default ~= nil then
        if row.copies then
          local copy = {}
          for key, value in next, default do copy[key] = value end
          default = copy
        end
        values[row.name] = default
      elseif row.required then
        local words = row.noun == rows.nouns.any and "" or "; it must be " .. row.noun
        blame.error(string.format("%s: '%s' is missing%s", fname, row.name, words), "type")
      end
    end
  end
end

---Reads a call's arguments as rule 1 of the interface describes and returns them by name.
---@param fname string for messages
---@param spec table[] rows, see the head of this file
---@param ... any what the user gave (without self)
---@return table<string, any>
function args.check(fname, spec, ...)
  local compiled = compiled_spec(spec)
  local values = {}
  local count = select("#", ...)
  local last = select(count > 0 and count or 1, ...)
  local last_is_plain = count > 0 and args.is_plain(last)
  if count == 1 and last_is_plain and is_constructor(compiled, last) then
    from_constructor(fname, compiled, values, last)
  else
    local named = last_is_plain and (count > 1 or not compiled.rows[1].whole)
      and holds_names(compiled, count, last)
    local positions = named and count - 1 or count
    for i = 1, positions do
      if put_position(fname, compiled, values, i, (select(i, ...))) then
        too_many(fname, compiled, positions)
      end
    end
    if named then put_named(fname, compiled, values, last, false) end
  end
  fill_defaults(fname, compiled, values)
  return values
end

---The same, with the values returned in the order of the rows.
---@param fname string
---@param spec table[]
---@param ... any
---@return any ...
function args.unpack(fname, spec, ...)
  local values = args.check(fname, spec, ...)
  local names = compiled_spec(spec).names
  local list = {}
  for i = 1, #names do list[i] = values[names[i]] end
  return table.unpack(list, 1, #names)
end

---Checks one value against a row and returns it, converted; nil takes the row's default.
---@param fname string
---@param row table
---@param value any
---@return any
function args.check_value(fname, row, value)
  local compiled = rows.compiled(row)
  if value ~= nil then return accept(fname, compiled, value) end
  local values = {}
  fill_defaults(fname, {rows = {compiled}, count = 1}, values)
  return values[compiled.name]
end

return args
