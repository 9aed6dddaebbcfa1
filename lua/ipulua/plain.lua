-- Plain tables: lists and records as a script writes them down, objects of classes not. What the library returns of this kind is marked
-- by core.plain, so that print shows what it holds as the prompt does; its metatable says `plain = true`.

local plain = {}

---@param value any
---@return boolean
function plain.is(value)
  if type(value) ~= "table" then return false end
  local meta = getmetatable(value)
  return meta == nil or type(meta) == "table" and rawget(meta, "plain") == true
end

return plain
