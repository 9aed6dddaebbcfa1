-- Lua's own words for a misspelt method, "attempt to call a nil value (method 'compil')", end here
-- with the name that was meant. The command asks when an error has reached it, so what the hint
-- needs is looked for only then, in the frame that failed.

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
  local found, name = message:match(": attempt to call a (%a+) value %(method '([%w_]+)'%)$")
  if not name or not package.loaded["ipulua.core"] then return nil end
  local hint = method_hint(found, name, 3) -- this function, the handler in C, the frame
  return hint and message .. hint
end

return explain
