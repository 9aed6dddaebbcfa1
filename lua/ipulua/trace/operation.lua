-- An operation runs but has no value: an update, an initialiser, a compiled function without
-- results. In a session's graph it can be fetched. In a traced function it has run already, and is
-- only passed on.

local class = require "ipulua.base.class"

---@class Operation
---@field values userdata[] symbolic tensors whose computation does the work
---@field run fun()? done at once, before anything else that is fetched
local Operation = class.new("Operation")

function Operation:init(name, values, run)
  self.name = name
  self.values = values or {}
  self.run = run
end

function Operation:__tostring() return "Operation: " .. self.name end

local operation = {}

---@param name string
---@param values userdata[]?
---@param run fun()?
---@return Operation
function operation.new(name, values, run) return Operation(name, values, run) end

---@return boolean
function operation.is(value) return class.is_a(value, Operation) end

---One operation that does all of them.
---@param name string
---@param list any[] operations and symbolic tensors; others are skipped
---@param is_symbolic fun(v: any): boolean
---@return Operation
function operation.group(name, list, is_symbolic)
  local values = {}
  for _, item in ipairs(list) do
    if operation.is(item) then
      table.move(item.values, 1, #item.values, #values + 1, values)
    elseif is_symbolic(item) then
      values[#values + 1] = item
    end
  end
  return Operation(name, values)
end

return operation
