-- What a locale must not change: numbers in files, and orders that files and programs depend on. A
-- program that ipulua is embedded in, or os.setlocale, may have set one whose decimal sign is a
-- comma, which string.format and tostring follow, and whose order of texts is not that of their
-- bytes, which `<` follows.

local locale = {}

---A text of string.format or tostring, with a point where the locale's sign stands.
---@param text string of one number
---@return string
function locale.plain_number(text)
  local sign = string.format("%.1f", 0.5):sub(2, -2)
  if sign == "." then return text end
  local at, last = text:find(sign, 1, true)
  return at and text:sub(1, at - 1) .. "." .. text:sub(last + 1) or text
end

---Whether a text comes before another one, by their bytes.
---@param a string
---@param b string
---@return boolean
function locale.before(a, b)
  if a == b then return false end
  local at = 1
  while a:byte(at) == b:byte(at) do at = at + 1 end
  return (a:byte(at) or -1) < (b:byte(at) or -1)
end

return locale
