-- A dataset that only has the types of its elements, for programs that are priced and never run.
-- Nothing is allocated.

local core = require "ipulua.core"
local Dataset = require "ipulua.data.dataset"
local structure = require "ipulua.base.structure"

local function is_spec(v) return type(v) == "table" and v.shape ~= nil end

local function nothing() return nil end

---@param element table {shape =, dtype =} in any structure
---@return Dataset
return function(element)
  local types, template = structure.flatten(element, is_spec)
  return Dataset(core.data.from_generator(function() return nothing end, types), template)
end
