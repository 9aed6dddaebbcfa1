-- What stands below an entry's signature in the references: its arguments with their types, then
-- the notes of its comment.

local help = require "ipulua.tools.help"
local notes = require "notes"
local rows = require "rows"

local details = {}

---The types of arguments in words: "`shape` list or integer; `dtype` dtype, default `"float32"`";
---nil without arguments.
---@param about table what help.about or help.class says
---@param kinds table<string, string>? of Keras' parts
---@return string?
function details.arguments(about, kinds)
  local list = {}
  for i, row in ipairs(about.rows or {}) do
    local kind = kinds and kinds[row[1]] or help.type_text(row)
    if kind:find(" | ", 1, true) then kind = kind:gsub(" | ", ", "):gsub("^(.*), ", "%1 or ") end
    local default = row[3] ~= nil and ", default `" .. rows.value_text(row[3]) .. "`"
      or row.optional and ", optional" or ""
    list[i] = string.format("`%s` %s%s%s", row[1], kind, default,
      row.says and " (" .. row.says .. ")" or "")
  end
  for i, text in ipairs(about.rows and {} or about.takes or {}) do
    local name, rest = text:match("^(%S+)%s+(.*)$")
    list[i] = string.format("`%s` %s", name:gsub("^%.%.%.$", "…"),
      (help.plain(rest):gsub("^any ", "")))
  end
  return #list > 0 and table.concat(list, "; ") or nil
end

---All of it as lines of a list.
---@param name string
---@param about table
---@param indent string
---@param kinds table<string, string>?
---@return string[]
function details.lines(name, about, indent, kinds)
  local takes = details.arguments(about, kinds)
  local list = notes.lines(name, about.notes, indent)
  if takes then table.insert(list, 1, indent .. "- Takes: " .. takes) end
  return list
end

---" → tensor", or nothing.
---@param about table
---@return string
function details.result(about)
  return #about.gives > 0 and " → " .. help.plain(about.gives[1]) or ""
end

return details
