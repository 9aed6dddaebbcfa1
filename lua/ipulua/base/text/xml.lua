-- Text in XML. A parser refuses a whole picture for one byte that XML does not have.

local replacement <const> = "\u{FFFD}"
local escapes <const> = {["&"] = "&amp;", ["<"] = "&lt;", [">"] = "&gt;", ['"'] = "&quot;"}

-- Each byte that is not part of UTF-8 becomes U+FFFD.
local function as_utf8(text)
  local parts, at = {}, 1
  local count, bad = utf8.len(text)
  while not count do
    parts[#parts + 1] = text:sub(at, bad - 1) .. replacement
    at = bad + 1
    count, bad = utf8.len(text, at)
  end
  return table.concat(parts) .. text:sub(at)
end

---Text as XML's content or attribute. Characters that XML has not become U+FFFD: control
---characters other than tabs and ends of lines, U+FFFE and U+FFFF.
---@param text string
---@return string
return function(text)
  text = as_utf8(text):gsub("[\0-\8\11\12\14-\31]", replacement)
  text = text:gsub("\xEF\xBF[\xBE\xBF]", replacement)
  return (text:gsub('[&<>"]', escapes))
end
