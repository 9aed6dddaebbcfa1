-- Nested tables of tensors: taken apart into a list of leaves and a template, put together again. A
-- leaf is a tensor or a variable; everything else is part of the template.

local blame = require "ipulua.base.blame"
local core = require "ipulua.core"
local locale = require "ipulua.base.locale"
local plain = require "ipulua.base.plain"

local structure = {}

local is_tensor <const>, is_variable <const> = core.is_tensor, core.is_variable

---Whether value is a table without a class: a list or a dict of further values.
structure.is_plain = plain.is

---Whether value is a tensor, a variable, or a number or boolean that may become a tensor.
---@return boolean
function structure.is_value(value)
  return is_tensor(value) or is_variable(value) or type(value) == "number"
    or type(value) == "boolean"
end

---A number or boolean as a tensor: an integer is int32, another number float32. Everything else
---is returned as it is.
---@param value any
---@return any
function structure.number_tensor(value)
  if math.type(value) == "integer" then return core.tensor(value, "int32") end
  local is_number = type(value) == "number" or type(value) == "boolean"
  return is_number and core.tensor(value) or value
end

local order <const> = {number = 1, string = 2, boolean = 3}

-- Numbers, then names, then objects in the order of their first use.
local function comes_before(a, b)
  local kind, other = order[type(a)] or 4, order[type(b)] or 4
  if kind ~= other then return kind < other end
  if kind == 1 then return a < b end
  if kind == 2 then return locale.before(a, b) end
  if kind == 3 then return b and not a end
  return structure.identity(a) < structure.identity(b)
end

-- Keys in a stable order: positions, then names.
local function sorted_keys(t)
  local keys, n, largest = {}, 0, 0
  for k in next, t do
    n = n + 1
    keys[n] = k
    local position = math.type(k) == "integer" and k > 0 and k or math.huge
    if position > largest then largest = position end
  end
  if n == largest then -- a list
    for i = 1, n do keys[i] = i end
    return keys
  end
  table.sort(keys, comes_before)
  return keys
end
structure.sorted_keys = sorted_keys

local function take(value, leaves, leaf, depth)
  if leaf(value) then
    leaves[#leaves + 1] = value
    return {leaf = #leaves}
  end
  if structure.is_plain(value) then
    local items, inner = {}, plain.deeper(depth)
    for _, k in ipairs(sorted_keys(value)) do
      items[#items + 1] = {k, take(value[k], leaves, leaf, inner)}
    end
    return {items = items}
  end
  return {static = value}
end

local function default_leaf(value) return is_tensor(value) or is_variable(value) end

---@param value any
---@param leaf? fun(v: any): boolean what counts as a leaf
---@return any[] leaves, table template
function structure.flatten(value, leaf)
  local leaves = {}
  local template = take(value, leaves, leaf or default_leaf, 0)
  return leaves, template
end

---@return any
function structure.rebuild(template, leaves)
  if template.leaf then return leaves[template.leaf] end
  if not template.items then return template.static end
  local t = {}
  for _, item in ipairs(template.items) do t[item[1]] = structure.rebuild(item[2], leaves) end
  return core.plain(t)
end

local serials, last_serial = setmetatable({}, {__mode = "k"}), 0

---A number that identifies the object. tostring depends on its class, and addresses are used again.
---@return integer
function structure.identity(object)
  local serial = serials[object]
  if serial then return serial end
  last_serial = last_serial + 1
  serials[object] = last_serial
  return last_serial
end

local writers <const> = {
  ["nil"] = function() return "nil" end,
  boolean = tostring,
  string = function(v) return string.format("%q", v) end,
  number = function(v)
    return math.type(v) == "integer" and string.format("%d", v) or string.format("%a", v)
  end,
}

---A text for a value that is no table of values. It is equal for the same object, for numbers of
---the same kind and value, for equal strings.
---@return string
function structure.value_key(v)
  local write = writers[type(v)]
  return write and write(v) or "#" .. structure.identity(v)
end

---A text that is equal for equal templates (statics as value_key has them).
function structure.key(template)
  if template.leaf then return template.text and "text" or "*" end
  if not template.items then return structure.value_key(template.static) end
  local parts = {}
  for i, item in ipairs(template.items) do
    parts[i] = structure.value_key(item[1]) .. "=" .. structure.key(item[2])
  end
  return "{" .. table.concat(parts, ",") .. "}"
end

---An error where a list has a nil before a value. Otherwise later values would take other places.
---@param list table
---@param what string that the message names, as in "repeat_n: carried value"
---@param is_none (fun(value: any): boolean)? values that have no place
function structure.check_gaps(list, what, is_none)
  for i, value in next, list do
    if math.type(i) == "integer" and i > 1 and list[i - 1] == nil
      and not (is_none and is_none(value)) then
      local first = i - 1
      while first > 1 and list[first - 1] == nil do first = first - 1 end
      blame.error(string.format("%s %d is nil, and a value comes after it", what, first), "value")
    end
  end
end

---`float32[2, 3]`
function structure.type_text(dtype, shape)
  return dtype .. "[" .. table.concat(shape, ", ") .. "]"
end

---An error where an extent is not known.
---@param what string what has that type
---@param who string who needs to know it, in the plural
function structure.check_known(dtype, shape, what, who)
  for _, extent in ipairs(shape) do
    if extent < 0 then
      blame.error(string.format("%s is %s; %s need full static shapes, without -1", what,
        structure.type_text(dtype, shape), who), "value")
    end
  end
end

return structure
