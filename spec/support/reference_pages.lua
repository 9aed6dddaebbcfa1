-- The entries of a reference's pages, as docs/source/entry.lua writes them.

local command = require "spec.support.command"

local reference_pages = {}

---@class ReferenceEntry
---@field name string
---@field page string its path
---@field text string the first sentence and what follows it
---@field signature string?
---@field call string? code that has run
---@field gives string? its result
---@field arguments string[][] rows of {name, type, default, meaning}
---@field notes table<string, string> "Errors" → the line
---@field other string? whose other name it is

local function read_entry(name, page, body)
  local e = {name = name, page = page, arguments = {}, notes = {}}
  e.text = body:match("^\n([^\n]+)")
  e.signature = body:match("\n\n`([%w_.:]+%b())`\n\n")
  e.call, e.gives = body:match("\nCall: `(.-)` → ([^\n]*)")
  e.elsewhere = body:match("\nCall: It takes [^\n]*")
  for row in body:gmatch("\n| `[^\n]*") do
    local cells = {}
    for each in row:gmatch("| ([^|]*) ") do cells[#cells + 1] = each:gsub("`", "") end
    e.arguments[#e.arguments + 1] = cells
  end
  for kind, line in body:gmatch("\n%- (%u[%w ]-): ([^\n]*)") do
    e.notes[kind] = e.notes[kind] and e.notes[kind] .. "\n" .. line or line
  end
  e.notes.dtypes = body:match("\n%- dtypes: ([^\n]*)")
  e.body = body
  e.other = e.text and (e.text:match("^Another name of ") or e.text:match("^The op %[")
    or e.text:match("^The class of that name"))
  return e
end

---Every page of a reference, and its entries in their order.
---@param reference string "api", "ops" or "keras"
---@return ReferenceEntry[] entries, table<string, string> pages by path
function reference_pages.read(reference)
  local list, pages = {}, {}
  local pipe <close> = assert(io.popen("ls docs/reference/" .. reference .. "/*.md"))
  for path in pipe:lines() do
    local text = command.read(path)
    pages[path] = text
    for name, body in (text:gsub("\n####? ", "\n\0") .. "\0"):gmatch("%z([^\n]+)\n(.-)%f[%z]") do
      list[#list + 1] = read_entry(name, path, body)
    end
  end
  return list, pages
end

---All text of a reference: its index and its pages.
---@param reference string
---@return string
function reference_pages.text(reference)
  local _, pages = reference_pages.read(reference)
  local list = {command.read("docs/reference/" .. reference .. ".md")}
  for _, text in pairs(pages) do list[#list + 1] = text end
  return table.concat(list, "\n")
end

return reference_pages
