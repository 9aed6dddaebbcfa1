-- Small text helpers of tables and progress bars. Widths count characters, not bytes.

local text_columns = {}

---@param s string
---@return integer characters; bytes where s is not UTF-8
function text_columns.width(s)
  return utf8.len(s) or #s
end

---The first n characters of s.
---@param s string
---@param n integer
---@return string
function text_columns.cut(s, n)
  if text_columns.width(s) <= n then return s end
  if n <= 0 then return "" end
  return s:sub(1, (utf8.len(s) and utf8.offset(s, n + 1) or n + 1) - 1)
end

---s cut and padded with spaces to exactly n characters.
---@param s string
---@param n integer
---@param right boolean? spaces before instead of after
---@return string
function text_columns.fit(s, n, right)
  s = text_columns.cut(s, n)
  local spaces = (" "):rep(n - text_columns.width(s))
  return right and spaces .. s or s .. spaces
end

---1234567 → "1,234,567"; anything but an integer as it is.
---@param n any
---@return string
function text_columns.commas(n)
  local i = type(n) == "number" and math.tointeger(n)
  if not i then return tostring(n) end
  local digits = string.format("%d", i)
  local sign, body = digits:match("^(%-?)(%d+)$")
  body = body:reverse():gsub("(%d%d%d)", "%1,"):reverse():gsub("^,", "")
  return sign .. body
end

---A row of a table whose columns end at `ends`. Fields are cut and padded, and the last character
---before the next column is a space.
---@param fields string[]
---@param ends integer[]
---@return string
function text_columns.row(fields, ends)
  local line = ""
  for i, field in ipairs(fields) do
    if i > 1 then line = text_columns.cut(line, text_columns.width(line) - 1) .. " " end
    line = text_columns.fit(line .. field, ends[i])
  end
  return line
end

---Where columns end for shares of a width.
---@param width integer
---@param shares number[]
---@return integer[]
function text_columns.column_ends(width, shares)
  local ends = {}
  for i, share in ipairs(shares) do ends[i] = math.floor(width * share) end
  return ends
end

---Words filled into lines of at most n characters; longer words are broken.
---@param s string
---@param n integer
---@return string[]
function text_columns.wrap(s, n)
  local lines, line = {}, ""
  for word in s:gmatch("%S+") do
    if line ~= "" and text_columns.width(line) + 1 + text_columns.width(word) <= n then
      line = line .. " " .. word
    else
      if line ~= "" then lines[#lines + 1] = line end
      while text_columns.width(word) > n do
        local head = text_columns.cut(word, n)
        lines[#lines + 1] = head
        word = word:sub(#head + 1)
      end
      line = word
    end
  end
  if line ~= "" or #lines == 0 then lines[#lines + 1] = line end
  return lines
end

return text_columns
