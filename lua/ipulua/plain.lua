-- Plain tables: lists and records as a script writes them down, objects of classes not. What the library returns of this kind is marked
-- by core.plain, so that print shows what it holds as the prompt does; its metatable says `plain = true`.

local core = require "ipulua.core"

local plain = {}

---@param value any
---@return boolean
function plain.is(value)
  if type(value) ~= "table" then return false end
  local meta = getmetatable(value)
  return meta == nil or type(meta) == "table" and rawget(meta, "plain") == true
end

---Marks a value, where it is a plain table, and all plain tables in it, so that each prints what it holds.
---@generic T
---@param value T
---@return T value itself
function plain.mark(value)
  if not plain.is(value) then return value end
  for _, inner in pairs(value) do plain.mark(inner) end
  return core.plain(value)
end

return plain
