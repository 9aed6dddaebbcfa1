-- A reference as pages, one a family, and their index.

local core = require "ipulua.core"
local see = require "see"

local pages = {}

---@class Pages
---@field name string "api": the index is docs/reference/api.md, pages are in docs/reference/api
---@field list table[]

---@param name string
---@return Pages
function pages.new(name) return {name = name, list = {}} end

---A new page; entries are added to it.
---@param book Pages
---@param title string
---@param intro string?
---@return table
function pages.add(book, title, intro)
  local file = title:lower():gsub("'", ""):gsub("[^%w]+", "-"):gsub("^%-+", ""):gsub("%-+$", "")
    .. ".md"
  local page = {title = title, file = file, names = {}, lines = {"# " .. title, "",
      string.format("A page of the [reference](../%s.md), which says how entries are read.",
        book.name), ""},
    folder = "docs/reference/" .. book.name .. "/"}
  if intro then table.move({intro, ""}, 1, 2, 5, page.lines) end
  table.insert(book.list, page)
  return page
end

---Adds lines to a page; with a name, the index leads to them.
---@param page table
---@param lines string[]
---@param name string?
function pages.write(page, lines, name)
  table.move(lines, 1, #lines, #page.lines + 1, page.lines)
  if name then page.names[#page.names + 1] = name end
end

local function index(book, title, intro)
  local lines = {"# " .. title, "", intro, ""}
  for _, page in ipairs(book.list) do
    local names = {}
    for i, name in ipairs(page.names) do
      names[i] = string.format("[%s](%s/%s#%s)", name, book.name, page.file, see.anchor(name))
    end
    lines[#lines + 1] = string.format("- **[%s](%s/%s)**%s%s", page.title, book.name, page.file,
      #names > 0 and ": " or "", table.concat(names, ", "))
  end
  return lines
end

local function save(path, lines)
  core.make_folder(path:match("^(.*)/"))
  core.replace_file(path, (table.concat(lines, "\n"):gsub("\n+$", "")) .. "\n")
end

---Writes all pages and the index into docs/reference, or another folder. Pages of families that
---are no more are removed.
---@param book Pages
---@param title string of the index
---@param intro string
---@param folder string?
function pages.save(book, title, intro, folder)
  local root = folder or "docs/reference"
  os.execute(string.format("rm -f '%s/%s/'*.md", root, book.name))
  save(string.format("%s/%s.md", root, book.name), index(book, title, intro))
  for _, page in ipairs(book.list) do
    save(string.format("%s/%s/%s", root, book.name, page.file), page.lines)
  end
end

return pages
