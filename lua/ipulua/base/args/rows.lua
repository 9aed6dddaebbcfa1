-- One argument: the types that its row may name, the tests of each type, and the error of a value
-- that fails them.

local blame = require "ipulua.base.blame"
local class = require "ipulua.base.class"
local enum = require "ipulua.base.enumeration"
local modules = require "ipulua.base.modules"
local nearest = require "ipulua.nearest"
local plain = require "ipulua.base.plain"

local rows = {}

local math_tointeger <const> = math.tointeger

rows.dtypes = {"float32", "float16", "bfloat16", "float64", "int8", "uint8", "int32",
  "int64", "bool"}

local is_dtype = {}
for _, name in ipairs(rows.dtypes) do is_dtype[name] = true end

---Whether a string is the name of a dtype.
---@param name any
---@return boolean
function rows.is_dtype(name) return is_dtype[name] == true end

local own_names <const> = {tensor = "a tensor", variable = "a variable"}

-- The name of a value's type as a user would say it: a class or userdata by its __name.
local function type_name(value)
  local t = math.type(value) == "integer" and "integer" or type(value)
  local meta = (t == "table" or t == "userdata") and getmetatable(value)
  if type(meta) == "table" then
    local name = rawget(meta, "__name")
    if type(name) == "string" then return own_names[name] or name end
  end
  return t
end

-- A module of the library given where something else is wanted is the `ipu` of ipu:ones{2}.
local function is_module(value)
  if rawequal(value, modules.public()) or modules.is_guarded(value) then return true end
  for name, module in next, package.loaded do
    if rawequal(value, module) then
      return type(name) == "string" and name:sub(1, 7) == "ipulua."
    end
  end
  return false
end

---A value for messages: its type, and for short things the value too: `string (256)`.
---@param value any
---@return string
function rows.describe(value)
  local t = type(value)
  if t == "string" then
    local shown = value:gsub("%c", " ")
    if #shown > 60 then shown = shown:sub(1, 57) .. "..." end
    return "string (" .. shown .. ")"
  elseif t == "number" then
    return type_name(value) .. " (" .. tostring(value) .. ")"
  elseif t == "boolean" then
    return "boolean (" .. tostring(value) .. ")"
  elseif t == "table" and is_module(value) then
    return "a module; its functions are called with a dot, not with a colon"
  end
  return type_name(value)
end

---Whether value is a tensor or something used as one: userdata named "…Tensor" or "…Variable", or
---an object whose metatable says `is_tensor = true`.
---@param value any
---@return boolean
function rows.is_tensor(value)
  local t = type(value)
  if t ~= "userdata" and t ~= "table" then return false end
  local meta = getmetatable(value)
  if type(meta) ~= "table" then return false end
  if meta.is_tensor == true then return true end
  local name = rawget(meta, "__name")
  return t == "userdata" and type(name) == "string" and
    (name:find("[Tt]ensor$") ~= nil or name:find("[Vv]ariable$") ~= nil)
end

---Whether value is a table that a script wrote down, not an object.
---@param value any
---@return boolean
rows.is_plain = plain.is

---Whether a plain table has nothing but a list part (an empty one counts).
---@param t table
---@return boolean
function rows.is_list(t)
  if not rows.is_plain(t) then return false end
  local n, last = 0, 0
  for key in next, t do
    if math.type(key) ~= "integer" or key < 1 then return false end
    n, last = n + 1, math.max(last, key)
  end
  return n == last
end

-- A tester takes a value and returns whether it fits and the value to use.
local testers = {
  any = function(v) return true, v end,
  integer = function(v)
    if type(v) ~= "number" then return false end
    local i = math_tointeger(v)
    return i ~= nil, i
  end,
  number = function(v) return type(v) == "number", v end,
  string = function(v) return type(v) == "string", v end,
  boolean = function(v) return type(v) == "boolean", v end,
  ["function"] = function(v) return type(v) == "function", v end,
  callable = function(v)
    if type(v) == "function" then return true, v end
    local meta = (type(v) == "table" or type(v) == "userdata") and getmetatable(v)
    return type(meta) == "table" and meta.__call ~= nil, v
  end,
  table = function(v) return type(v) == "table", v end,
  list = function(v) return rows.is_list(v), v end,
  integers = function(v)
    if not rows.is_list(v) then return false end
    for _, each in ipairs(v) do
      if type(each) ~= "number" or not math_tointeger(each) then return false end
    end
    return true, v
  end,
  dict = function(v) return rows.is_plain(v) and (next(v) == nil or not rows.is_list(v)), v end,
  tensor = function(v) return rows.is_tensor(v), v end,
  dtype = function(v) return is_dtype[v] == true, v end,
}

rows.nouns = {
  any = "any value", integer = "an integer", number = "a number", string = "a string",
  boolean = "a boolean",
  ["function"] = "a function", callable = "a function", table = "a table", list = "a list",
  integers = "a list of integers",
  dict = "a table with names", tensor = "a tensor",
  dtype = "a dtype (" .. table.concat(rows.dtypes, ", ") .. ")",
}

local takes_tables <const> = {any = true, table = true, list = true, integers = true, dict = true}
-- … and their keys may be strings
local takes_names <const> = {any = true, table = true, dict = true}

local function with_article(name) return (name:find("^[AEIOU]") and "an " or "a ") .. name end

-- tester, noun and, for an enumeration, the enumeration.
local function compile_type(t, where)
  if type(t) == "string" and testers[t] then return testers[t], rows.nouns[t] end
  if enum.is(t) then
    return function(v)
      local member = enum.find(t, v)
      return member ~= nil, member
    end, with_article(enum.name(t)) .. " (" .. table.concat(enum.members(t), ", ") .. ")", t
  end
  if class.is_class(t) then
    return function(v) return class.is_a(v, t), v end, with_article(t.__name)
  end
  error("args: " .. where .. " has an unknown type " .. tostring(t))
end

-- Names are shown on terminals and written into files.
local function check_name(name)
  return type(name) == "string" and name:find("%c") and "has a control character" or nil
end

local function compile_row(row)
  local types = row[2]
  if type(types) ~= "table" or enum.is(types) or class.is_class(types) then types = {types} end
  local compiled = {
    name = row[1], default = row[3], check = row.check or row[1] == "name" and check_name or nil,
    range = row.range,
    list = row.list, whole = row.whole, nested = row.nested, list_of = row.list_of, one = row.one,
    part = row.part, for_number = row.for_number,
    required = row[3] == nil and not row.optional, copies = rows.is_plain(row[3]),
  }
  local tests, words = {}, {}
  for i, t in ipairs(types) do
    local test, noun, enumeration = compile_type(t, row[1])
    tests[i], words[i] = test, noun
    compiled.enumeration = enumeration
    if class.is_class(t) then compiled.takes_objects = true end
    if type(t) == "string" then
      compiled.takes_integers = compiled.takes_integers or t == "integers"
      compiled.takes_tables = compiled.takes_tables or takes_tables[t]
      compiled.takes_lists = compiled.takes_lists or t == "list" or t == "any"
      compiled.takes_names = compiled.takes_names or takes_names[t]
      compiled.takes_objects = compiled.takes_objects or t == "table"
    end
  end
  compiled.tests = tests
  compiled.first_test, compiled.only_test = tests[1], #tests == 1
  compiled.noun = #words > 1 and table.concat(words, ", ", 1, #words - 1) .. " or " .. words[#words]
    or words[1]
  if row.choices then
    compiled.choices = row.choices
    compiled.is_choice = {}
    for _, choice in ipairs(row.choices) do
      compiled.is_choice[choice] = choice
      if type(choice) == "string" then compiled.is_choice[choice:lower()] = choice end
    end
    for former, choice in pairs(row.synonyms or {}) do compiled.is_choice[former] = choice end
  end
  return compiled
end

local function compile(spec)
  local compiled = {count = #spec, positions = #spec, names = {}, index = {}, rows = {}}
  for i, row in ipairs(spec) do
    compiled.rows[i] = compile_row(row)
    compiled.names[i] = row[1]
    compiled.index[row[1]] = i
    if row.by_name then compiled.positions = math.min(compiled.positions, i - 1) end
  end
  return compiled
end

local cache = setmetatable({}, {__mode = "k"})

local function keep(given, compiled)
  cache[given] = compiled
  return compiled
end

---Facts derived from a spec.
---@param spec table[]
---@return table
function rows.compiled_spec(spec) return cache[spec] or keep(spec, compile(spec)) end

---Facts derived from one row.
---@param row table
---@return table
function rows.compiled(row) return cache[row] or keep(row, compile_row(row)) end

-- Words for a value that is none of the row's types, but near one.
local function hint(row, value)
  if row.takes_integers and rows.is_plain(value) and value[1] == nil and value[2] ~= nil then
    return "; an extent that is not known is -1" -- {nil, 8}, which is Keras' (None, 8)
  end
  if row.for_number and type(value) == "number" then
    return string.format("; did you mean %s(%s)?", row.for_number, value)
  end
  return ""
end

local function refuse(fname, row, value)
  local e = row.enumeration
  if e and type(value) == "string" then
    blame.error(string.format("%s: '%s': %s", fname, row.name, enum.refusal(e, value)), "value")
  end
  blame.error(string.format("%s: '%s' must be %s, got %s%s", fname, row.name, row.noun,
    rows.describe(value), hint(row, value)), "type")
end

local function show_choice(choice)
  return type(choice) == "string" and "'" .. choice .. "'" or tostring(choice)
end

-- The row's own spelling of a choice, in which letter case is free.
local function choose(fname, row, value)
  local choice = row.is_choice[type(value) == "string" and value:lower() or value]
  if choice ~= nil then return choice end
  local shown, words = {}, {}
  for i, each in ipairs(row.choices) do
    shown[i] = show_choice(each)
    if type(each) == "string" then words[#words + 1] = each end
  end
  blame.error(string.format("%s: '%s' must be one of %s, got %s%s", fname, row.name,
    table.concat(shown, ", "), rows.describe(value),
    nearest.hint(value, words)), "value")
end

---The value, converted to the type of its row; raises an error if it doesn't fit.
---@param fname string
---@param row table as compiled
---@param value any
---@return any
function rows.accept(fname, row, value)
  local ok, converted = row.first_test(value)
  if not ok and not row.only_test then
    for i = 2, #row.tests do
      ok, converted = row.tests[i](value)
      if ok then break end
    end
  end
  if not ok then refuse(fname, row, value) end
  if row.is_choice then converted = choose(fname, row, converted) end
  if row.check or row.range then
    local words = row.range and require "ipulua.base.interval".refusal(row.range, converted)
      or row.check
      and row.check(converted)
    if words then blame.error(string.format("%s: '%s' %s", fname, row.name, words), "value") end
  end
  return converted
end

return rows
