-- Adds the nearest name to Lua's error for a misspelt method, "attempt to call a nil value (method
-- 'compil')". The command calls this when an error reaches it. Only then the names are looked up,
-- in the frame that failed.

local class = require "ipulua.base.class"
local elsewhere = require "ipulua.base.elsewhere"
local nearest = require "ipulua.nearest"
local plain = require "ipulua.base.plain"

local explain = {}

-- Names of the methods of a tensor, a variable or an object of one of the library's classes; nil
-- for anything else.
local function methods_of(value)
  local meta = type(value) == "userdata" and getmetatable(value) or nil
  if type(meta) == "table" and type(rawget(meta, "methods")) == "table" then
    local names = {}
    for name in next, rawget(meta, "methods") do names[#names + 1] = name end
    table.sort(names)
    return names, rawget(meta, "__name") == "variable" and "variable" or "tensor"
  end
  if type(value) ~= "table" or plain.is(value) then return nil end
  local names = require "ipulua.tools.help".members(value, true)
  if not names then return nil end
  return names, type(value.fit) == "function" and "model"
    or tostring(getmetatable(value).__name):lower()
end

local function index(value, name) return value[name] end

-- The object whose method was called. Lua has put it on top of the frame's locals. Below it is the
-- value found under the name, of type `found`, and above it are the arguments.
local function receiver(level, name, found)
  local former, i = nil, 1
  while true do
    local slot, value = debug.getlocal(level + 1, i)
    if not slot then return nil end
    if slot == "(temporary)" and type(former) == found then
      local names, kind = methods_of(value)
      -- a tensor refuses names that it lacks, so its method it wasn't
      local known, field = pcall(index, value, name)
      if names and known and type(field) == found then return names, kind end
    end
    former, i = value, i + 1
  end
end

local function method_hint(found, name, level)
  local names, kind = receiver(level + 1, name, found)
  if not names then return nil end
  if found ~= "nil" then
    return string.format("; it is a field, which is not called: x.%s", name)
  end
  local known = elsewhere.method(kind, name) or nearest.find(name, names)
  return known and "; did you mean '" .. known .. "'?"
end

-- The values of a frame's names: its locals, then the upvalues of its function.
local function values_at(level)
  local list, i = {}, 1
  while true do
    local name, value = debug.getlocal(level + 1, i)
    if not name then break end
    if name:find("^%a") then list[#list + 1] = value end
    i = i + 1
  end
  local f = debug.getinfo(level + 1, "f").func
  i = 1
  while debug.getupvalue(f, i) do
    list[#list + 1] = select(2, debug.getupvalue(f, i))
    i = i + 1
  end
  return list
end

-- Names of the fields of an object of the library's classes, or of what it returned as a table.
local function fields_of(value)
  local is_object = class.of(value) ~= nil
  if type(value) ~= "table" or not is_object and not (plain.is(value) and getmetatable(value)) then
    return nil
  end
  local names = is_object and require "ipulua.tools.help".members(value, false) or {}
  for name in next, value do
    if type(name) == "string" and name:find("^%a") then names[#names + 1] = name end
  end
  table.sort(names)
  return names
end

-- A hint for a field that doesn't exist. Lua doesn't tell whose field it is, so the objects that
-- the frame knows are asked, and the objects in their fields.
local function field_hint(name, level)
  local seen = {}
  local function ask(value, deeper)
    if type(value) ~= "table" or seen[value] == "deeper" then return nil end
    local names = fields_of(value)
    if not names then return nil end
    seen[value] = deeper and "deeper" or "itself"
    local known, field = pcall(index, value, name)
    local found = known and field == nil and nearest.find(name, names)
    if found then return "; did you mean '" .. found .. "'?" end
    for _, inner in next, deeper and value or {} do
      local hint = ask(inner, false)
      if hint then return hint end
    end
    return nil
  end
  for _, value in ipairs(values_at(level + 1)) do
    local hint = ask(value, true)
    if hint then return hint end
  end
  return nil
end

local globals <const> = {
  help = "; help is the prompt's: `ipulua`, or `ipulua -i script.lua`",
  ipu = "; a script begins with `local ipu = require \"ipulua\"`",
  keras = "; a script says `local keras = require \"ipulua\".keras`",
}

---A message of Lua with a hint after it, nil when there is none. To be called by the handler of the
---error.
---@param message string
---@return string?
function explain.message(message)
  local global = message:match(": attempt to %a+ a nil value %(global '([%w_]+)'%)$")
  if global then return globals[global] and message .. globals[global] end
  local walked = message:match("call a (%a+) value %(for iterator")
    or message:match("to 'for iterator' %(table expected, got (%a+)%)")
  if walked == "tensor" or walked == "variable" then
    return message .. "; `for i, row in ipairs(x) do` walks over a tensor's rows"
  end
  if not package.loaded["ipulua.core"] then return nil end
  local field = message:match(": attempt to [%a ]+ a nil value %(field '([%w_]+)'%)$")
  local found, name = message:match(": attempt to call a (%a+) value %(method '([%w_]+)'%)$")
  local hint -- 3: this function, the handler in C, the frame
  if field then hint = field_hint(field, 3) elseif name then hint = method_hint(found, name, 3) end
  return hint and message .. hint
end

return explain
