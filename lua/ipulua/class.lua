-- Classes: a class is the metatable of its instances, so a method call costs one table look-up per
-- level. Metamethods are copied when a class is extended, because Lua does not look them up through
-- __index; one that a base gains later is therefore not seen by classes that exist already.

local blame = require "ipulua.blame"
local core = require "ipulua.core"

---@class Class
---@field __name string
---@field super Class?
---@field init fun(self: any, ...: any)?
local class = {}

-- What every class offers. `extend` makes a derived class, `is_a` asks an instance.
local function extend(base, name)
  if type(base) == "string" then
    blame.error(string.format("extend is called with a colon, as in Base:extend(\"%s\")", base), "type")
  end
  if type(name) ~= "string" then
    blame.error(string.format("%s:extend(name): the new class's name must be a string, got %s", base.__name, type(name)), "type")
  end
  return class.new(name, base)
end

local function is_a(self, c)
  return class.is_a(self, c)
end

-- A class may answer a call with something that is there already: `substitute(...)`, nil for a new instance.
local function build(c, ...)
  local other = c.substitute and c.substitute(...)
  if other ~= nil and other ~= false then return other end
  local self = setmetatable({}, c)
  local init = c.init
  if init then init(self, ...) end
  return self
end

-- A class is its name; what it takes, help tells.
local function show(c) return "<class " .. c.__name .. ">" end

---Makes a class; `C(...)` then builds an instance and hands the arguments to `C.init`.
---@param name string shown by messages and by tostring
---@param base Class?
---@return Class
function class.new(name, base)
  local c = {}
  if base then
    for key, value in pairs(base) do
      if type(key) == "string" and key:sub(1, 2) == "__" then c[key] = value end
    end
  end
  if not base or base.__index == base then c.__index = c end
  c.__tostring = c.__tostring or core.show -- name and fields, where the class says nothing better
  c.__name = name
  c.super = base
  c.extend = extend
  c.is_a = is_a
  return setmetatable(c, {__index = base, __call = build, __name = "class", __repr = show, __tostring = show})
end

local unguarded <const> = {init = true, extend = true, is_a = true, new = true, from_config = true, substitute = true}

---Methods of a public class tell those who write x.method() that a colon is wanted. To be called when all are there.
---@param c Class
---@return Class
function class.guard(c)
  for name, f in pairs(c) do
    if type(f) == "function" and type(name) == "string" and name:sub(1, 2) ~= "__" and not unguarded[name] then
      c[name] = function(self, ...)
        if getmetatable(self) ~= c and not class.is_a(self, c) then
          blame.error(string.format("%s.%s is a method; it is called with a colon, as in x:%s(...)", c.__name, name, name), "type")
        end
        return f(self, ...)
      end
    end
  end
  return c
end

---The same for the classes that a module holds, each once whatever its names.
---@param module table
function class.guard_all(module)
  local seen = {}
  for _, c in next, module do
    if class.is_class(c) and not seen[c] then
      seen[c] = true
      class.guard(c)
    end
  end
end

---The class of an instance, nil for anything else.
---@param value any
---@return Class?
function class.of(value)
  local c = type(value) == "table" and getmetatable(value)
  if class.is_class(c) then return c end
  return nil
end

---@param value any
---@return boolean
function class.is_class(value)
  local meta = type(value) == "table" and getmetatable(value)
  return type(meta) == "table" and rawget(meta, "__call") == build
end

---Whether value is an instance of c or of a class derived from it.
---@param value any
---@param c Class
---@return boolean
function class.is_a(value, c)
  local k = class.of(value)
  while k do
    if rawequal(k, c) then return true end
    k = rawget(k, "super")
  end
  return false
end

return class
