-- Any number of tensors as one; the op takes so many at once.

local ops = require "ipulua.ops"

local concat = {most = 32}

---One after the other along an axis.
---@param list userdata[] at least one
---@param axis integer from 0
---@return userdata
function concat.all(list, axis)
  while #list > 1 do
    local shorter = {}
    for at = 1, #list, concat.most do
      local chunk = table.move(list, at, math.min(at + concat.most - 1, #list), 1, {})
      shorter[#shorter + 1] = #chunk == 1 and chunk[1] or ops.concat(chunk, {axis = axis})
    end
    list = shorter
  end
  return list[1]
end

return concat
