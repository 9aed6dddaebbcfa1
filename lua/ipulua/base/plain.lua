-- Plain tables: lists and records as a script writes them down, objects of classes not. Those that
-- the library returns are marked by core.plain, so that print shows their contents as the prompt
-- does. Their metatable says `plain = true`.

local blame = require "ipulua.base.blame"
local core = require "ipulua.core"

local plain = {}

local deepest <const> = 100 -- tables inside tables; more is a table that holds itself

-- Position 0 gives nil. A script that counts positions from 0, as axes are counted, would look for
-- the cause elsewhere.
local shapes <const> = getmetatable(core.tensor(0).shape)
function shapes.__index(_, position)
  local caller = position == 0 and debug.getinfo(2, "S")
  if caller and not blame.is_own(caller.source) then
    blame.error("a shape has no position 0: positions count from 1, axes from 0; shape[1] is the "
      .. "extent of axis 0", "value")
  end
end

-- The same for lists of objects: layers, weights. A list of numbers may be asked for anything.
local objects <const> = {}
for key, value in pairs(getmetatable(core.plain{})) do objects[key] = value end
function objects.__index(list, position)
  local caller = position == 0 and rawlen(list) > 0 and debug.getinfo(2, "S")
  if caller and not blame.is_own(caller.source) then
    blame.error("there is no position 0: a list's positions count from 1, up to "
      .. rawlen(list), "value")
  end
end

---A list of objects for a script. Reading position 0 is an error that says where lists begin.
---@generic T
---@param list T
---@return T list itself
function plain.of_objects(list)
  local first = type(list) == "table" and plain.is(list) and rawget(list, 1)
  if type(first) == "table" or type(first) == "userdata" then setmetatable(list, objects) end
  return list
end

---depth + 1, for walks through a script's tables; an error if they are nested without end.
---@param depth integer how many tables are around this one
---@return integer
function plain.deeper(depth)
  if depth == deepest then
    blame.error("tables are nested too deeply, or one holds itself", "value")
  end
  return depth + 1
end

---@param value any
---@return boolean
function plain.is(value)
  if type(value) ~= "table" then return false end
  local meta = getmetatable(value)
  return meta == nil or type(meta) == "table" and rawget(meta, "plain") == true
end

---Marks a plain table, and all plain tables in it, so that print shows their content. Other values
---stay as they are.
---@generic T
---@param value T
---@param depth integer?
---@return T value itself
function plain.mark(value, depth)
  if not plain.is(value) then return value end
  depth = plain.deeper(depth or 0)
  for _, inner in pairs(value) do plain.mark(inner, depth) end
  return core.plain(value)
end

return plain
