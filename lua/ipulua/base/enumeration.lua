-- Enumerations: a table whose fields are its members' names as strings, so that ==, printing and
-- JSON need nothing special. Calling it parses any letter case.

local blame = require "ipulua.base.blame"
local nearest = require "ipulua.nearest"

local enum = {}

local details = setmetatable({}, {__mode = "k"}) -- enumeration → {name, members, by_lower}

local meta = {__name = "enum"}

function meta.__call(self, value)
  local member = enum.find(self, value)
  if member then return member end
  blame.error(enum.refusal(self, value), "value")
end

function meta.__index(self, key)
  local d = details[self]
  blame.error(string.format("%s has no member '%s'%s; it has %s", d.name, tostring(key),
    nearest.hint(key, d.members), table.concat(d.members, ", ")), "value")
end

function meta.__newindex(self)
  blame.error(details[self].name .. " is an enumeration and cannot be changed", "value")
end

function meta.__tostring(self)
  local d = details[self]
  return d.name .. "{" .. table.concat(d.members, ", ") .. "}"
end

---@param name string
---@param members string[] in the order in which messages list them
---@return table<string, string>|fun(value: any): string
function enum.new(name, members)
  local self, by_lower = {}, {}
  for _, member in ipairs(members) do
    self[member] = member
    by_lower[member:lower()] = member
  end
  details[self] = {name = name, members = members, by_lower = by_lower}
  return setmetatable(self, meta)
end

---The member that value spells, in any letter case; nil when it spells none.
---@param self table
---@param value any
---@return string?
function enum.find(self, value)
  return type(value) == "string" and details[self].by_lower[value:lower()] or nil
end

---The words that refuse a value, listing all members.
---@param self table
---@param value any
---@return string
function enum.refusal(self, value)
  local d = details[self]
  local shown = type(value) == "string" and "'" .. value:sub(1, 60) .. "'" or type(value) == "table"
    and "a table" or tostring(value)
  local article = d.name:find("^[AEIOU]") and "an" or "a"
  return string.format("%s is not %s %s; choose one of %s", shown, article, d.name,
    table.concat(d.members, ", "))
end

---@param value any
---@return boolean
function enum.is(value)
  return type(value) == "table" and details[value] ~= nil
end

---@param self table
---@return string
function enum.name(self)
  return details[self].name
end

---@param self table
---@return string[] a fresh list
function enum.members(self)
  return table.move(details[self].members, 1, #details[self].members, 1, {})
end

return enum
