-- How the files of C hang together: `make lint`. Each file of dist and of the layers from graph to
-- engine, apart from ops, has a header of its own that declares its exports. Headers include each
-- other in no ring. Facts about a step are asked of the step. So few files name its kind, and kinds
-- have no order. Code that meets an op asks its row's members, not its name. Comments end at 100
-- columns, as code does for clang-format; only texts and tables that are fenced from it may be
-- longer. Prints what is wrong and fails. An argument: the folder that src is in.
package.path = "./?.lua;" .. package.path
local sources = require "spec.support.sources"

local read <const> = sources.read

local root <const> = (arg[1] or ".") .. "/"
local own_headers <const> = {"src/graph", "src/transform", "src/program", "src/machine",
  "src/engine", "src/dist"}
local most_files_naming_kinds <const> = 6
local control_kinds <const> = {"REPEAT", "WHILE", "COND", "CALL", "PIPELINE"}

local problems = {}
local function wrong(format, ...) problems[#problems + 1] = string.format(format, ...) end

-- without comments and what is quoted, but with names of included files
local code = {}
local pipe <const> = assert(io.popen("cd '" .. root .. "' && find src -name '*.[ch]' | sort"))
local paths = {}
for path in pipe:lines() do
  paths[#paths + 1] = path
  local text = read(root .. path):gsub("/%*.-%*/", "")
  code[path] = "\n" .. text:gsub('([^\n]*)', function(line)
    return not line:find("^%s*#include") and line:gsub('"[^"]*"', '""') or nil
  end)
end
pipe:close()

local function includes(path)
  local list = {}
  for name in code[path]:gmatch('#include "([^"]+)"') do list[#list + 1] = "src/" .. name end
  return list
end

---- lines

local most_columns <const> = 100
for _, path in ipairs(paths) do
  local fenced, number = false, 0
  for line in io.lines(root .. path) do
    number = number + 1
    if line:find("clang-format off", 1, true) then fenced = true end
    if line:find("clang-format on", 1, true) then fenced = false end
    local may_be_long <const> = fenced or line:find('"', 1, true) or line:find("\\$")
    if not may_be_long and (utf8.len(line) or #line) > most_columns then
      wrong("%s:%d: a line of more than %d columns", path, number, most_columns)
    end
  end
end

---- kinds of steps

local function names_control_kind(text)
  for _, kind in ipairs(control_kinds) do
    if text:find("%f[%w_]STEP_" .. kind .. "%f[^%w_]") then return true end
  end
  return false
end

local naming = {}
for _, path in ipairs(paths) do
  if path:find("%.c$") and names_control_kind(code[path]) then naming[#naming + 1] = path end
  for line in code[path]:gmatch("[^\n]+") do
    if line:find("[^<>%-][<>]=?%s*STEP_[A-Z]") or line:find("STEP_[A-Z]+%s*[<>]=?%s*[%w_]") then
      wrong("%s: kinds of steps have no order: %s", path, line:match("^%s*(.-)%s*$"))
    end
  end
end
if #naming > most_files_naming_kinds then
  wrong("steps that hold others are named in %d files, %d are enough: %s", #naming,
    most_files_naming_kinds, table.concat(naming, ", "))
end

---- names of ops

-- Where names are looked up: ops by name, and rows of libraries.
local finds_names <const> = {["src/ops/registry.c"] = true, ["src/ops/library.c"] = true}

local function compares_name(line)
  return line:find("%f[%w_]str%a*cmp%([^;]*op%->name") or line:find("%f[%w_]strstr%([^;]*op%->name")
end

for _, path in ipairs(paths) do
  for line in code[path]:gmatch("[^\n]+") do
    if not finds_names[path] and compares_name(line) then
      wrong("%s: it knows an op by its name: %s", path, line:match("^%s*(.-)%s*$"))
    end
  end
end

---- headers

local function check_exports(path, header)
  if not includes(path)[1] or includes(path)[1] ~= header then
    wrong("%s: its own header is not what it includes first", path)
  end
  for head in code[path]:gmatch("\n(%a[%w_ %*]-)%b()%s*{") do
    local name = head:match("[%w_]+$")
    if not head:find("%f[%w]static%f[%W]") and not code[header]:find("%f[%w_]" .. name .. "%(") then
      wrong("%s: %s does not declare %s", path, header, name)
    end
  end
end

for _, path in ipairs(paths) do
  for _, folder in ipairs(own_headers) do
    local header = path:gsub("%.c$", ".h")
    if path:find("^" .. folder .. "/[^/]+%.c$") then
      if code[header] then check_exports(path, header)
      else wrong("%s: it has no header of its own", path) end
    end
  end
end

---- rings

local state = {} -- of headers: being visited, done
local function visit(path, trail)
  if not code[path] or state[path] == "done" then return end
  trail[#trail + 1] = path
  if state[path] then
    wrong("headers include each other: %s", table.concat(trail, " → "))
  else
    state[path] = "open"
    for _, name in ipairs(includes(path)) do visit(name, trail) end
    state[path] = "done"
  end
  trail[#trail] = nil
end
for _, path in ipairs(paths) do if path:find("%.h$") then visit(path, {}) end end

for _, line in ipairs(problems) do print(line) end
os.exit(#problems == 0)
