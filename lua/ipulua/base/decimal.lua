-- Numbers for files, with a point whatever the locale's decimal sign is: a program that ipulua is
-- embedded in, or os.setlocale, may set one with a comma, and string.format and tostring follow it.

local decimal = {}

---A text of string.format or tostring, with a point where the locale's sign stands.
---@param text string of one number
---@return string
function decimal.plain(text)
  local sign = string.format("%.1f", 0.5):sub(2, -2)
  if sign == "." then return text end
  local at, last = text:find(sign, 1, true)
  return at and text:sub(1, at - 1) .. "." .. text:sub(last + 1) or text
end

return decimal
