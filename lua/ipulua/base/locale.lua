-- Numbers in files and orders of texts, in any locale. A program that embeds ipulua, or
-- os.setlocale, may have set a locale with a decimal comma, which string.format and tostring
-- follow. It may also order texts otherwise than by bytes, which `<` follows.

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
