-- Texts taken apart: small letters, characters, words.

local words = {}

-- First and last code point, the step from one capital to the next, and what makes it small
-- (Unicode's simple case mapping of the Latin, Greek, Cyrillic and Armenian letters). Where
-- capitals stand alternately with small letters, the step is 2.
local ranges <const> = {
  {0x41, 0x5A, 1, 32}, {0xC0, 0xD6, 1, 32}, {0xD8, 0xDE, 1, 32}, {0x100, 0x12E, 2, 1},
  {0x132, 0x136, 2, 1}, {0x139, 0x147, 2, 1},
  {0x14A, 0x176, 2, 1}, {0x178, 0x178, 1, -121}, {0x179, 0x17D, 2, 1}, {0x1A0, 0x1A4, 2, 1},
  {0x1AF, 0x1AF, 1, 1},
  {0x1CD, 0x1DB, 2, 1}, {0x1DE, 0x1EE, 2, 1},
  {0x1F4, 0x1F4, 1, 1}, {0x1F8, 0x21E, 2, 1}, {0x222, 0x232, 2, 1}, {0x386, 0x386, 1, 38},
  {0x388, 0x38A, 1, 37}, {0x38C, 0x38C, 1, 64},
  {0x38E, 0x38F, 1, 63}, {0x391, 0x3A1, 1, 32}, {0x3A3, 0x3AB, 1, 32}, {0x400, 0x40F, 1, 80},
  {0x410, 0x42F, 1, 32},
  {0x460, 0x480, 2, 1}, {0x48A, 0x4BE, 2, 1}, {0x4C0, 0x4C0, 1, 15}, {0x4C1, 0x4CD, 2, 1},
  {0x4D0, 0x52E, 2, 1}, {0x531, 0x556, 1, 48},
  {0x1E00, 0x1E94, 2, 1}, {0x1EA0, 0x1EFE, 2, 1},
}

local small -- character → its small letter

local function small_letters()
  if small then return small end
  small = {}
  for _, range in ipairs(ranges) do
    for code = range[1], range[2], range[3] do
      small[utf8.char(code)] = utf8.char(code + range[4])
    end
  end
  return small
end

---A text in small letters; of one that is not UTF-8, A to Z only.
---@param text string
---@return string
function words.lower(text)
  if not text:find("[\x80-\xFF]") or not utf8.len(text) then return text:lower() end
  return (text:gsub(utf8.charpattern, small_letters()))
end

---The characters of a text; bytes where it is not UTF-8.
---@param text string
---@return string[]
function words.characters(text)
  local list = {}
  for c in text:gmatch(utf8.len(text) and utf8.charpattern or ".") do list[#list + 1] = c end
  return list
end

---What stands between the separators, but for empty words. Each of the characters of `filters`
---separates, too.
---@param text string
---@param filters string
---@param separator string
---@return string[]
function words.split(text, filters, separator)
  local replaced = {}
  for _, c in ipairs(words.characters(filters)) do replaced[c] = separator end
  text = text:gsub(utf8.len(text) and utf8.charpattern or ".", replaced)
  local list, at = {}, 1
  while at do
    local from, to = text:find(separator, at, true)
    local word = text:sub(at, (from or 0) - 1)
    if word ~= "" then list[#list + 1] = word end
    at = to and to + 1
  end
  return list
end

return words
