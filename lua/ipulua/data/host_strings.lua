-- Strings in datasets. They stay on the host: the C chain carries the number of each string
-- (int64), Lua gets the string back. A template's leaf says so: {leaf = 1, text = true}.

local args = require "ipulua.base.args"
local blame = require "ipulua.base.blame"
local core = require "ipulua.core"
local plain = require "ipulua.base.plain"

local host_strings = {}

-- A string has one number for the whole run, so that datasets can be joined; 0 is the empty one,
-- with which padded_batch fills up.
local strings <const>, numbers <const> = {[0] = ""}, {[""] = 0}

local function number_of(who, value)
  if type(value) ~= "string" then
    blame.error(string.format("%s: a list of strings holds %s", who, args.describe(value)), "type")
  end
  local number = numbers[value]
  if not number then
    number = #strings + 1
    strings[number], numbers[value] = value, number
  end
  return number
end

---Whether value is a string, or a list of strings.
function host_strings.is(value)
  return type(value) == "string" or plain.is(value) and type(value[1]) == "string"
    and args.is_list(value)
end

-- The numbers of a string, or of nested lists of strings.
local function numbered(who, value, depth)
  if not plain.is(value) then return number_of(who, value) end
  local list, inner = {}, plain.deeper(depth)
  for i, each in ipairs(value) do list[i] = numbered(who, each, inner) end
  return list
end

---The tensor that a dataset carries for a string, or for nested lists of strings.
---@param who string
---@param value string|table
---@return userdata int64
function host_strings.tensor(who, value) return core.tensor(numbered(who, value, 0), "int64") end

local function strings_of(value)
  if type(value) ~= "table" then return strings[value] end
  local list = {}
  for i, each in ipairs(value) do list[i] = strings_of(each) end
  return core.plain(list)
end

---The string, or the nested lists of strings, that a dataset's tensor stands for.
---@param tensor userdata
---@return string|table
function host_strings.value(tensor)
  return strings_of(#tensor.shape == 0 and tensor:item() or tensor:totable())
end

---Which components of a template are texts: a set of their positions, nil if there are none.
---@param template table
---@return table<integer, boolean>?
function host_strings.components(template)
  local found
  local function walk(t)
    if t.text then
      found = found or {}
      found[t.leaf] = true
    end
    for _, item in ipairs(t.items or {}) do walk(item[2]) end
  end
  walk(template)
  return found
end

---Raises when x has no values yet, but `who` computes with them in Lua. A dataset's map or filter
---that traces its function then finds host_strings.wanted, and calls that function in Lua.
---@param who string
---@param x any
function host_strings.want_values(who, x)
  local is_of_model = type(x) == "table" and args.is_tensor(x)
  if not is_of_model and not (core.is_tensor(x) and core.is_symbolic(x)) then return end
  host_strings.wanted = true
  blame.error(string.format("%s: it computes in Lua, before the %s, and can't be called with %s; "
    .. "call it in a dataset's map, ds:map(f)", who, is_of_model and "model" or "program",
    is_of_model and args.describe(x) or "a tensor whose value is not known yet"), "type")
end

---Raise where a program would be fed with texts.
---@param who string
---@param template table
function host_strings.refuse(who, template)
  if not host_strings.components(template) then return end
  blame.error(who .. ": the dataset has strings, which stay on the host; number them in map, with "
    .. "keras.layers.TextVectorization or StringLookup", "type")
end

return host_strings
