-- Structures of tensors: a tensor, a list or a table with names, nested. Whatever is not a plain
-- table is a leaf. Lists are walked in their order, with holes, too, then names in sorted order.

local args = require "ipulua.base.args"
local locale = require "ipulua.base.locale"
local plain = require "ipulua.base.plain"

local nest = {}

local is_plain <const> = args.is_plain

-- Numbers by their size, before everything else by its text.
local function comes_before(a, b)
  local a_is_number, b_is_number = type(a) == "number", type(b) == "number"
  if a_is_number and b_is_number then return a < b end
  if a_is_number ~= b_is_number then return a_is_number end
  return locale.before(tostring(a), tostring(b))
end

-- The keys of a plain table in the order in which it is walked.
local function keys_of(t)
  local keys, count = {}, #t
  for i = 1, count do keys[i] = i end
  local names = {}
  for key in next, t do
    if not (math.type(key) == "integer" and key >= 1 and key <= count) then
      names[#names + 1] = key
    end
  end
  table.sort(names, comes_before)
  return table.move(names, 1, #names, count + 1, keys)
end
nest.keys = keys_of

---@param s any
---@return boolean
function nest.is_structure(s)
  return is_plain(s)
end

local deeper <const> = plain.deeper

local function append(s, out, depth)
  if not is_plain(s) then
    if s ~= nil then out[#out + 1] = s end
    return out
  end
  depth = deeper(depth)
  for _, key in ipairs(keys_of(s)) do append(s[key], out, depth) end
  return out
end

---The leaves of s, in order.
---@param s any
---@param out any[]? appended to
---@return any[]
function nest.flatten(s, out) return append(s, out or {}, 0) end

local function mapped(f, s, depth)
  if not is_plain(s) then
    if s == nil then return nil end
    return f(s)
  end
  depth = deeper(depth)
  local out = {}
  for _, key in ipairs(keys_of(s)) do out[key] = mapped(f, s[key], depth) end
  return out
end

---A structure as s, with f(leaf) for each leaf.
---@param f fun(leaf: any): any
---@param s any
---@return any
function nest.map(f, s) return mapped(f, s, 0) end

---A structure as s, with the leaves of a list, in order.
---@param s any
---@param leaves any[]
---@return any
function nest.pack(s, leaves)
  local i = 0
  return nest.map(function()
    i = i + 1
    return leaves[i]
  end, s)
end

local function first(s, depth)
  if not is_plain(s) then return s end
  depth = deeper(depth)
  for _, key in ipairs(keys_of(s)) do
    local leaf = first(s[key], depth)
    if leaf ~= nil then return leaf end
  end
  return nil
end

---The first leaf of s.
---@param s any
---@return any
function nest.first(s) return first(s, 0) end

local function any(f, s, depth)
  if not is_plain(s) then return s ~= nil and f(s) or false end
  depth = deeper(depth)
  for _, value in next, s do
    if any(f, value, depth) then return true end
  end
  return false
end

---Whether f holds for some leaf of s.
---@param f fun(leaf: any): boolean?
---@param s any
---@return boolean
function nest.any(f, s) return any(f, s, 0) end

return nest
