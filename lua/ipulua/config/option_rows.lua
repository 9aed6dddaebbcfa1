-- The options of IPUConfig by their full names: the values that each takes, and the errors of other
-- values and of unknown names.

local args = require "ipulua.base.args"
local blame = require "ipulua.base.blame"
local core = require "ipulua.core"
local enum = require "ipulua.base.enumeration"
local log = require "ipulua.base.log"
local nearest = require "ipulua.nearest"
local options = require "ipulua.config.options"

local option_rows = {}

local rows, full_names = {}, {}
option_rows.by_name, option_rows.names = rows, full_names
for i, row in ipairs(options.table) do
  rows[row[1]] = row
  full_names[i] = row[1]
end
local suggestions = table.move(full_names, 1, #full_names, 1, {})
for name in pairs(options.categories) do suggestions[#suggestions + 1] = name end

local type_words <const> = {
  ints = "int or list (a list of int)", dict = "dict (a table of str to str)",
}

---The type of an option, as its metadata have it.
---@param row table
---@return string
function option_rows.type_name(row)
  local t = row[2]
  if enum.is(t) then return enum.name(t) end
  return t == "ints" and "list" or t
end

-- The words after "must be" in a type error of the option.
local function expected(row)
  local t = row[2]
  if enum.is(t) then return enum.name(t) .. " (" .. table.concat(enum.members(t), ", ") .. ")" end
  return type_words[t] or t
end

-- A coercer returns the value to keep, or nil and (perhaps) the problem inside a table.
local coerce = {}

function coerce.bool(v)
  if type(v) == "boolean" then return v end
end

function coerce.int(v)
  return type(v) == "number" and math.tointeger(v) or nil
end

-- An integer is accepted for a float if a float can hold it.
function coerce.float(v)
  if type(v) ~= "number" or v ~= v then return nil end
  local f = v + 0.0
  return f == v and f or nil
end

function coerce.str(v)
  return type(v) == "string" and v or nil
end

function coerce.ints(v)
  if type(v) == "number" then return math.tointeger(v) end
  if type(v) ~= "table" or not args.is_list(v) then return nil end
  local list = core.plain{}
  for i, element in ipairs(v) do
    list[i] = coerce.int(element)
    if not list[i] then
      return nil, string.format("%s at position %d", args.describe(element), i)
    end
  end
  return list
end

function coerce.dict(v)
  if not args.is_plain(v) then return nil end
  local dict = core.plain{}
  for key, value in next, v do
    if type(key) ~= "string" then return nil, "the key " .. args.describe(key) end
    if type(value) ~= "string" then return nil, args.describe(value) .. " for '" .. key .. "'" end
    dict[key] = value
  end
  return dict
end

---The value to keep for an option; raises when its type is wrong.
---@param row table
---@param value any
---@param who string? what the message begins with
---@return any
function option_rows.checked(row, value, who)
  local t = row[2]
  local kept, inside
  if enum.is(t) then
    kept = enum.find(t, value)
  else
    kept, inside = coerce[t](value)
  end
  if kept == nil then
    blame.error(string.format("%s: '%s' must be of type %s, got %s", who or "IPUConfig", row[1],
      expected(row),
      inside or args.describe(value)), "type")
  end
  return kept
end

---A value of an option that shares nothing with the given one.
---@param value any
---@return any
function option_rows.copy(value)
  if type(value) ~= "table" then return value end
  local copy = core.plain{}
  for k, v in next, value do copy[k] = v end
  return copy
end

local function category_deprecation(name)
  while name do
    local category = options.categories[name]
    if category and category.deprecated then return category.deprecated end
    name = name:match("^(.*)%.[^.]*$")
  end
  return nil
end

---Why an option, or a category that it is in, is deprecated.
---@param name string
---@return string?
function option_rows.deprecation(name)
  local row = rows[name]
  return row and row[5] and row[5].deprecated or category_deprecation(name)
end

---Warns when an option, or a category that it is in, is deprecated.
---@param name string
function option_rows.warn(name)
  local words = option_rows.deprecation(name)
  if words then log.warn("IPUConfig: '%s' is deprecated: %s", name, words) end
end

-- ------------------------------------------------ unknown names

local function leaf(name)
  return name:match("[^.]*$")
end

-- The full name nearest to `name`, asked inside `prefix`. The whole names are compared first, then
-- last parts inside the same category, then last parts anywhere.
local function suggest(prefix, name)
  local found = nearest.find(prefix .. name, suggestions)
  if found then return found end
  local by_leaf, leaves = {}, {}
  for _, full in ipairs(suggestions) do
    local l = leaf(full)
    if not by_leaf[l] then
      by_leaf[l] = full
      leaves[#leaves + 1] = l
    end
    if full == prefix .. l then by_leaf[l] = full end
  end
  found = nearest.find(leaf(name), leaves)
  return found and by_leaf[found]
end

---Raises: there is no such option.
---@param prefix string of the category, with its dot
---@param name any
---@param who string? what the message begins with
function option_rows.refuse_unknown(prefix, name, who)
  local full = prefix .. tostring(name):sub(1, 200)
  local near = type(name) == "string" and #name <= 200 and suggest(prefix, name)
  blame.error(string.format("%s'%s' is not a valid attribute of IPUConfig.%s",
    who and who .. ": " or "", full,
    near and " Did you mean '" .. near .. "'?" or ""), "value")
end

---Raises when a number is out of the option's bounds, a text none of its choices.
---@param row table
---@param value any
---@param shown fun(value: any): string
function option_rows.check_bounds(row, value, shown)
  local fields = row[5]
  if not fields then return end
  local problem
  if fields.least and value < fields.least then
    problem = "must be at least " .. fields.least
  elseif fields.most and value > fields.most then
    problem = "must be at most " .. fields.most
  elseif fields.above and value <= fields.above then
    problem = "must be greater than " .. fields.above
  elseif fields.choices then
    local known = false
    for _, choice in ipairs(fields.choices) do known = known or choice == value end
    if not known then problem = "must be one of " .. table.concat(fields.choices, ", ", 2) end
  end
  if problem then
    blame.error(string.format("IPUConfig: '%s' %s, got %s", row[1], problem, shown(value)),
      "value")
  end
end

return option_rows
