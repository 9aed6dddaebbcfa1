-- Classes: a class is the metatable of its instances, so a method call costs one table look-up per
-- level. Metamethods are copied when a class is extended, because Lua does not look them up through
-- __index. So classes that exist already don't see a metamethod that a base gains later.

local blame = require "ipulua.base.blame"
local core = require "ipulua.core"
local plain = require "ipulua.base.plain"

---@class Class
---@field __name string
---@field super Class?
---@field init fun(self: any, ...: any)?
local class = {}

-- Methods of every class: `extend` makes a derived class, `is_a` tests an instance.

---A derived class: `local Own = Base:extend("Own")`. Its methods are defined in it (`function
---Own:call(x) … end`). It inherits all others from its base.
---@param base Class
---@param name string
---@return Class
local function extend(base, name)
  if type(base) == "string" then
    blame.error(string.format("extend is called with a colon, as in Base:extend(\"%s\")", base),
      "type")
  end
  if type(name) ~= "string" then
    blame.error(string.format("%s:extend(name): the new class's name must be a string, got %s",
      base.__name, type(name)), "type")
  end
  return class.new(name, base)
end

local function is_a(self, c)
  return class.is_a(self, c)
end

-- Two hooks of a class. `substitute(...)` may answer a call with an existing object; nil makes a
-- new instance. `after_init(self)` is called after `init`, also after the `init` of a derived
-- class.
local build = core.entry(function(c, ...)
  local other = c.substitute and c.substitute(...)
  if other ~= nil and other ~= false then return other end
  local self = setmetatable({}, c)
  local init = c.init
  if init then init(self, ...) end
  local after_init = c.after_init
  if after_init then after_init(self) end
  return self
end)

-- Scripts call objects, too, so functions that a class defines as __call are entry points as well.
local function define(c, key, value)
  rawset(c, key, key == "__call" and core.entry(value) or value)
end

-- A class is shown by its name; `help` shows its arguments.
local function show(c) return "<class " .. c.__name .. ">" end

local scalars <const> = {number = true, string = true, boolean = true}

-- The parts of an object that fit on a line: its configuration, or its plain arguments or fields.
local function settings(self)
  local c, list = getmetatable(self), {}
  local known, config = pcall(c.get_config or error, self)
  known = known and type(config) == "table"
  local is_argument = not known and c.argument_rows and {}
  for _, row in ipairs(is_argument and c.argument_rows or {}) do is_argument[row[1]] = true end
  for key, value in next, known and config or self do
    local shown = (scalars[type(value)] or known and plain.is(value))
      and (not is_argument or is_argument[key])
    if shown and type(key) == "string" and key:find("^%a") then list[key] = value end
  end
  return list
end

local columns <const> = 80

local function show_field(value)
  if type(value) == "function" then return "<function>" end
  if class.of(value) then return (tostring(value):gsub("\n", "\n  ")) end
  -- removes the brackets of a list of one, and joins the lines of a value that is wide
  return tostring(core.plain{value}):sub(2, -2):match("^%s*(.-)%s*$")
end

---`Huber{delta = 1.0, name = "huber"}`, or a field a line if that is too long. Objects are shown
---so, never by an address.
---@param self any
---@param fields table<string, any> plain values, functions and objects
---@return string
function class.text(self, fields)
  local name, list, width = getmetatable(self).__name, {}, 0
  for key, value in next, fields do list[#list + 1] = key .. " = " .. show_field(value) end
  if #list == 0 then return "<" .. name .. ">" end
  table.sort(list)
  for _, each in ipairs(list) do width = each:find("\n") and columns or width + #each + 2 end
  if #name + width <= columns then return name .. "{" .. table.concat(list, ", ") .. "}" end
  return name .. "{\n  " .. table.concat(list, ",\n  ") .. "\n}"
end

-- For objects whose class has no other text.
local function show_object(self) return class.text(self, settings(self)) end

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
  c.__tostring = c.__tostring or show_object
  c.__name = name
  c.super = base
  c.extend = extend
  c.is_a = is_a
  return setmetatable(c,
    {__index = base, __newindex = define, __call = build, __name = "class", __tostring = show})
end

local unguarded <const> = {init = true, after_init = true, extend = true, is_a = true, new = true,
  from_config = true, substitute = true}

---Lets the methods of a public class say that they are called with a colon, if a script writes
---x.method(). To be called when all methods are there.
---@param c Class
---@param only table<string, boolean>? the methods that do; all
---@return Class
function class.guard(c, only)
  for name, f in pairs(c) do
    if type(f) == "function" and type(name) == "string" and name:sub(1, 2) ~= "__"
      and not unguarded[name] and (not only or only[name]) then
      c[name] = core.entry(function(self, ...)
        if getmetatable(self) ~= c and not class.is_a(self, c) then
          blame.error(string.format("%s.%s is a method; it is called with a colon, as in x:%s(...)",
            c.__name, name, name), "type")
        end
        return f(self, ...)
      end)
    end
  end
  return c
end

---The same for the classes that a module holds and those they are derived from, each once whatever
---its names.
---@param module table
function class.guard_all(module)
  local seen = {}
  for _, c in next, module do
    while class.is_class(c) and not seen[c] do
      seen[c] = true
      class.guard(c)
      c = rawget(c, "super")
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
