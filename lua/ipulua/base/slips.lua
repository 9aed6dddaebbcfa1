-- The words that a misspelt field of a tensor or a variable ends with.

local elsewhere = require "ipulua.base.elsewhere"
local nearest = require "ipulua.nearest"

local slips = {}

local fields <const> = {
  tensor = {"T", "dtype", "rank", "shape", "size"},
  variable = {"T", "dtype", "name", "nbytes", "rank", "shape", "size", "trainable"},
}

---"; did you mean 'rank'?" for a name that tensors or variables lack, or "".
---@param kind "tensor"|"variable"
---@param name string
---@param methods table<string, function> of the kind
---@return string
function slips.field_hint(kind, name, methods)
  local known = elsewhere.method(kind, name)
  if known then return "; did you mean '" .. known .. "'?" end
  local names = table.move(fields[kind], 1, #fields[kind], 1, {})
  for each in next, methods do names[#names + 1] = each end
  table.sort(names)
  return nearest.hint(name, names)
end

return slips
