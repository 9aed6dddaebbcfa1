-- A number and a noun, for messages: counted(1, "entry", "entries") is "1 entry".

---@param n integer
---@param one string
---@param many string? one with an s, unless given
---@return string
return function(n, one, many)
  return string.format("%d %s", n, n == 1 and one or many or one .. "s")
end
