-- help(x) at the prompt. Ops are explained by their rows, classes by the rows of their arguments, functions by the
-- annotations above them: what the reference is made of, too.

local args = require "ipulua.args"
local class = require "ipulua.class"
local core = require "ipulua.core"
local ipu = require "ipulua"

local help = {}

local op_names = {}
for name, f in pairs(core.ops) do
  op_names[f] = name
  local module, leaf = name:match("^(.-)%.?([^.]+)$")
  local place = module == "" and ipu or rawget(ipu, module)
  local public = place and rawget(place, leaf) -- of some, a Lua function around the row
  if public then op_names[public] = name end
end

---Function → names of its options, for completion.
help.options = {}
for f, name in pairs(op_names) do
  local names = {}
  for i, attribute in ipairs(core.describe_op(name).attributes) do names[i] = attribute.name end
  help.options[f] = names
end

-- ------------------------------------------------ ops

local function attribute_line(width, a)
  local parts = {a.choices and a.choices:gsub(" ", " | ") or a.type}
  if a.default and a.default ~= "nil" then parts[2] = "default " .. a.default:gsub("'", '"') end
  if not a.default then parts[2] = "required" end
  local line = ("  %-" .. width .. "s  %s"):format(a.name, table.concat(parts, ", "))
  return a.summary and line .. ": " .. a.summary or line
end

local function operands(row)
  local list = {}
  for i, name in ipairs(row.inputs) do list[i] = name:match("%?$") and "[" .. name:sub(1, -2) .. "]" or name end
  if row.variadic then return {"{" .. list[1] .. ", ...}"} end
  return list
end

---The lines that explain an op.
---@param name string
---@return string[]
function help.op(name)
  local row = core.describe_op(name)
  local call, width = operands(row), 0
  if #row.attributes > 0 then
    local names = {}
    for i, a in ipairs(row.attributes) do
      names[i] = a.name
      width = math.max(width, #a.name)
    end
    call[#call + 1] = "{" .. table.concat(names, ", ") .. "}"
  end
  local lines = {("ipu.%s(%s)"):format(name, table.concat(call, ", ")), row.summary}
  if row.shapes then lines[#lines + 1] = "  shapes: " .. row.shapes end
  for _, a in ipairs(row.attributes) do lines[#lines + 1] = attribute_line(width, a) end
  if row.outputs > 1 then lines[#lines + 1] = ("  gives %d results"):format(row.outputs) end
  if row.no_gradient then lines[#lines + 1] = "  Gradients stop here." end
  return lines
end

-- ------------------------------------------------ rows of arguments

local function is_rows(value)
  local row = type(value) == "table" and value[1]
  return type(row) == "table" and type(row[1]) == "string" and (type(row[2]) == "string" or type(row[2]) == "table")
end

---The rows of arguments that a function checks: those that it holds as an upvalue, or a function `read` that it calls. Nil for what
---checks none.
---@param f any
---@return table[]?
function help.rows(f)
  if type(f) ~= "function" then return nil end
  for i = 1, 255 do
    local name, value = debug.getupvalue(f, i)
    if not name then return nil end
    if (name:find("rows$") or name:find("spec$")) and is_rows(value) then return value end
    if name == "read" and help.rows(value) then return help.rows(value) end
  end
end

-- part: the kind of Keras' parts that stands behind names and objects ("initializer").
local function row_line(width, row, part)
  local kind = part or type(row[2]) == "table" and table.concat(row[2], " | ") or tostring(row[2])
  local line = ("  %-" .. width .. "s  %s"):format(row[1], kind)
  if row[3] ~= nil then return line .. ", default " .. (args.describe(row[3]):gsub("^%w+ %((.*)%)$", "%1")) end
  return line .. (row.optional and "" or ", required")
end

-- Adds the lines of rows; returns their names.
local function add_rows(lines, rows, kinds)
  local names, width = {}, 0
  for i, row in ipairs(rows) do
    names[i] = row[1]
    width = math.max(width, #row[1])
  end
  for _, row in ipairs(rows) do lines[#lines + 1] = row_line(width, row, kinds and kinds[row[1]]) end
  return names
end

-- ------------------------------------------------ annotations

-- The comment lines that end just above a line: sentences, then what annotations say of parameters and results.
local function comment_above(lines, at)
  local first = at
  while first > 1 and lines[first - 1]:match("^%s*%-%-%-") do first = first - 1 end
  local out = {}
  for i = first, at - 1 do
    local text = lines[i]:match("^%s*%-%-%-%s?(.*)$")
    local tag, rest = text:match("^@(%w+)%s+(.*)$")
    if tag == "param" or tag == "return" then
      out[#out + 1] = ("  %s %s"):format(tag == "param" and "takes" or "gives", rest)
    elseif not tag and text ~= "" then
      out[#out + 1] = text
    end
  end
  return out
end

local function lines_of(path)
  local list = {}
  local file <close> = io.open(path)
  if not file then return nil end
  for line in file:lines() do list[#list + 1] = line end
  return list
end

local function function_help(f, text)
  local info = debug.getinfo(f, "Su")
  local lines = info.what == "Lua" and info.source:sub(1, 1) == "@" and lines_of(info.source:sub(2))
  if not lines or not lines[info.linedefined] then return nil end
  local comment, rows = comment_above(lines, info.linedefined), help.rows(f)
  if #comment == 0 and not rows then return nil end
  if rows then
    for i = #comment, 1, -1 do
      if comment[i]:find("^  takes %.%.%. ") then table.remove(comment, i) end -- the rows say it better
    end
    local names = add_rows(comment, rows)
    table.insert(comment, 1, ("%s{%s}"):format(text or "function", table.concat(names, ", ")))
    return comment
  end
  local parameters = {}
  for i = 1, info.nparams do parameters[i] = debug.getlocal(f, i) end
  if info.isvararg then parameters[#parameters + 1] = "..." end
  table.insert(comment, 1, ("%s(%s)"):format(text or "function", table.concat(parameters, ", ")))
  return comment
end

-- The comment above "---@class Name" in whichever of the library's files has it.
local function class_comment(name)
  for module in pairs(package.loaded) do
    local path = type(module) == "string" and module:find("^ipulua") and package.searchpath(module, package.path)
    for i, line in ipairs(path and lines_of(path) or {}) do
      if line:match("^%-%-%-@class (%w+)") == name then return comment_above(path and lines_of(path), i) end
    end
  end
  return {}
end

local function class_help(c)
  local lines = class_comment(c.__name)
  local names = add_rows(lines, c.argument_rows or {}, c.argument_kinds)
  table.insert(lines, 1, ("%s{%s}"):format(c.__name, table.concat(names, ", ")))
  return lines
end

-- ------------------------------------------------ whatever it is

---The lines that explain a value; nil when there is nothing to say.
---@param x any
---@param text string? the expression as it was typed
---@return string[]?
function help.lines(x, text)
  if op_names[x] then return help.op(op_names[x]) end
  if type(x) == "string" and core.describe_op(x) and not core.describe_op(x).internal then return help.op(x) end
  if type(x) == "function" then return function_help(x, text) end
  if class.is_class(x) then return class_help(x) end
  if class.of(x) then return class_help(class.of(x)) end
  if type(x) == "table" and x == package.loaded.ipulua then
    return {"ipulua: " .. table.concat(x.__names(), " ")}
  end
  return nil
end

---Prints them; false when there is nothing to say.
---@param x any
---@param text string?
---@return boolean?
function help.show(x, text)
  local lines = help.lines(x, text)
  if not lines then return false end
  print(table.concat(lines, "\n"))
end

return help
