-- Nested tables of tensors: taken apart into a list of leaves and a template, put together again. A leaf is a tensor or a
-- variable; everything else is part of the template.

local blame = require "ipulua.blame"
local core = require "ipulua.core"
local plain = require "ipulua.plain"

local structure = {}

local is_tensor <const>, is_variable <const> = core.is_tensor, core.is_variable

---Whether value is a table without a class: a list or a dict of further values.
structure.is_plain = plain.is

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
  table.sort(keys, function(a, b)
    if type(a) == type(b) then return a < b end
    return type(a) == "number"
  end)
  return keys
end
structure.sorted_keys = sorted_keys

local deepest <const> = 100 -- tables inside tables; more is a table that holds itself

local function take(value, leaves, leaf, depth)
  if depth > deepest then blame.error("tables of tensors are nested too deeply, or one holds itself", "value") end
  if leaf(value) then
    leaves[#leaves + 1] = value
    return {leaf = #leaves}
  end
  if structure.is_plain(value) then
    local items = {}
    for _, k in ipairs(sorted_keys(value)) do items[#items + 1] = {k, take(value[k], leaves, leaf, depth + 1)} end
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

---A text that is equal for equal templates (statics by value or identity).
function structure.key(template)
  if template.leaf then return "*" end
  if not template.items then
    local v = template.static
    if math.type(v) == "float" then return string.format("%a", v) end
    return type(v) == "string" and string.format("%q", v) or type(v):sub(1, 1) .. tostring(v)
  end
  local parts = {}
  for i, item in ipairs(template.items) do parts[i] = tostring(item[1]) .. "=" .. structure.key(item[2]) end
  return "{" .. table.concat(parts, ",") .. "}"
end

---`float32[2, 3]`
function structure.type_text(dtype, shape)
  return dtype .. "[" .. table.concat(shape, ", ") .. "]"
end

return structure
