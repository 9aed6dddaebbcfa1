-- Docstrings of the library's functions and classes: the comments above them, as text, and the rows
-- of arguments that they check.

local core = require "ipulua.core"
local own_files = require "ipulua.base.own_files"

local comments = {}

local function is_rows(value)
  local row = type(value) == "table" and value[1]
  return type(row) == "table" and type(row[1]) == "string"
    and (type(row[2]) == "string" or type(row[2]) == "table")
end

-- files whose functions stand before methods
local guards <const> = {class = true, layer_calls = true}

---A method as it was written, without the check that it is called with a colon, or of a layer that
---is built.
---@param f function
---@return function
function comments.written(f)
  f = core.entered(f)
  if not guards[debug.getinfo(f, "S").source:match("([%w_]+)%.lua$")] then return f end
  for i = 1, 8 do
    local name, value = debug.getupvalue(f, i)
    if name == "f" then return comments.written(value) end
  end
  return f
end

local function own_rows(f, wanted)
  for i = 1, 255 do
    local name, value = debug.getupvalue(f, i)
    if not name then return nil end
    if wanted(name) and is_rows(value) then return value end
    if name == "read" and type(value) == "function" then return own_rows(value, wanted) end
  end
end

---The rows of arguments that a function checks, which it, or its `read`, has as an upvalue. Nil if
---there are none.
---@param f any
---@return table[]?
function comments.rows(f)
  if type(f) ~= "function" then return nil end
  return own_rows(comments.written(f), function(name)
    return name:find("rows$") or name:find("spec$") or name:find("arguments$")
  end)
end

---Notes that may follow the sentences of a comment, a paragraph each that begins with the word:
---"Shapes: [n, m] → [n]". Words in backquotes are code: in Errors each raises one, in Shapes a
---shape follows it. The references run them.
comments.notes = {"Shapes", "Units", "Errors", "Source"}

local is_note <const> = {}
for _, name in ipairs(comments.notes) do is_note[name] = true end

---Types of annotations in words: tensors and variables are userdata in Lua.
---@param text string
---@return string
function comments.plain(text)
  return (text:gsub("userdata(%[?%]?) (variables?)%f[%A]", "%2"):gsub("userdata", "tensor"))
end

---The lines of a comment, apart: sentences `text`, `takes` and `gives` as annotated, `notes` by
---name.
---@param lines string[] without the dashes
---@return table
function comments.parts(lines)
  local found = {text = {}, takes = {}, gives = {}, notes = {}}
  local note
  for _, line in ipairs(lines) do
    local tag, rest = line:match("^@(%w+)%s+(.*)$")
    local name, begun = line:match("^(%u%l+): (.*)$")
    if line:find("^@package") then found.internal, line = true, "" end
    if is_note[name] then
      note, found.notes[name] = name, begun
    elseif note and not line:find("^@") then
      found.notes[note] = found.notes[note] .. " " .. line
    else
      note = nil
      local list = tag == "param" and found.takes or tag == "return" and found.gives or not tag
        and line ~= "" and found.text
      if list then list[#list + 1] = tag and rest or line end
    end
  end
  return found
end

-- The text of the comment lines that end just above a line.
local function comment_above(lines, at)
  local first = at
  while first > 1 and lines[first - 1]:match("^%s*%-%-%-") do first = first - 1 end
  local block = {}
  for i = first, at - 1 do block[#block + 1] = lines[i]:match("^%s*%-%-%-%s?(.*)$") end
  return comments.parts(block)
end

local files = {} -- their lines, by source

local function lines_of(source)
  if files[source] then return files[source] end
  local list, text = {}, own_files.read_source(source)
  if not text then return nil end
  for line in text:gmatch("([^\n]*)\n?") do list[#list + 1] = line end
  files[source] = list
  return list
end

local classes = {} -- the line of each "---@class Name", by source and name

local function classes_of(source)
  if classes[source] then return classes[source] end
  local found = {}
  for i, line in ipairs(lines_of(source) or {}) do
    local name = line:match("^%-%-%-@class (%w+)")
    if name and not found[name] then found[name] = i end
  end
  classes[source] = found
  return found
end

local module_sources = {} -- by module; false for one that is no file of the library

local function source_of(module)
  if module_sources[module] == nil then
    module_sources[module] = own_files.source(module) or false
  end
  return module_sources[module] or nil
end

---The facts of a function: sentences `text`, `takes` and `gives` as annotated, `notes`, `rows` of
---arguments, names of `parameters`. Nil for one that is not written in Lua.
---@param f function
---@return table?
function comments.about(f)
  f = comments.written(f)
  local info = debug.getinfo(f, "Su")
  local lines = info.what == "Lua" and lines_of(info.source)
  if not lines or not lines[info.linedefined] then return nil end
  local found = comment_above(lines, info.linedefined)
  found.rows, found.parameters = comments.rows(f), {}
  for i = 1, info.nparams do found.parameters[i] = debug.getlocal(f, i) end
  local takes_more = #found.takes == 0 -- arguments that are refused are not annotated
  for _, each in ipairs(found.takes) do takes_more = takes_more or each:sub(1, 3) == "..." end
  if info.isvararg and takes_more then found.parameters[#found.parameters + 1] = "..." end
  return found
end

---The comment above "---@class Name": in the file of the class's own functions, else in any of the
---library's.
---@param c Class
---@return table as comments.parts gives it
function comments.of_class(c)
  local sources = {}
  for _, f in next, c do
    sources[#sources + 1] = type(f) == "function"
      and debug.getinfo(comments.written(f), "S").source or nil
  end
  for module in pairs(package.loaded) do
    sources[#sources + 1] = type(module) == "string" and source_of(module) or nil
  end
  for _, source in ipairs(sources) do
    local line = classes_of(source)[c.__name]
    if line then return comment_above(lines_of(source), line) end
  end
  return comments.parts{}
end

return comments
