-- keras.utils.Sequence: batches that Lua code makes, by number.

local class = require "ipulua.class"
local parts = require "ipulua.keras.parts"

---What fit, evaluate and predict take in place of a dataset: batches that Lua code makes. Own ones extend it with `length()`, how many
---batches there are, and `get_item(index)`, which gives batch `index` (from 0): x; x and y; or x, y and sample weights, as so many
---values or as a list of tensors. Batches must all have the same shapes. `on_epoch_end()`, if defined, is called after each epoch of fit,
---and each evaluate and predict. fit takes the batches in random order unless `shuffle = false`. `#sequence` is its length.
---Errors: a class without length or get_item, a length below 1, batches of unequal shapes: `keras.utils.Sequence():length()`
---@class Sequence: Class
local Sequence = class.new("Sequence")

parts.abstract(Sequence, "length", "length()")
parts.abstract(Sequence, "get_item", "get_item(index)")

-- What is done between epochs; by default nothing.
function Sequence:on_epoch_end() end -- luacheck: ignore 212

function Sequence.__len(self) return self:length() end

---`for x, y in sequence:iter() do`: the batches in their order.
---Errors: a class without length or get_item: `keras.utils.Sequence():iter()`
---@return fun(): ...
function Sequence:iter()
  local index, count = -1, self:length()
  return function()
    index = index + 1
    if index < count then return self:get_item(index) end
  end
end

return {Sequence = Sequence}
