-- Common parts of layers over space: ranks, windows given as one number or one for each axis, and
-- channels first, which is done by transposing.

local blame = require "ipulua.base.blame"
local ops = require "ipulua.ops"

local spatial = {}

spatial.format_row = {
  "data_format", "string", "channels_last", choices = {"channels_last", "channels_first"},
}

---A number, or a list of `rank` of them, as a list.
---@param layer Layer
---@param name string
---@param value any
---@param rank integer
---@return integer[]
function spatial.list(layer, name, value, rank)
  local list = {}
  for i = 1, rank do list[i] = type(value) == "table" and value[i] or value end
  local fits = type(value) ~= "table" or #value == rank
  for i = 1, rank do
    fits = fits and math.type(list[i]) == "integer" and list[i] >= 0
  end
  if not fits then
    blame.error(string.format("%s: '%s' must be an integer or a list of %d integers", layer.__name,
      name, rank), "value")
  end
  return list
end

---The `call` of a layer that computes with channels last: the result's channels are where the
---input had them.
---@param compute fun(self: Layer, x: userdata): userdata
---@return fun(self: Layer, x: userdata): userdata
function spatial.call(compute)
  return function(self, x)
    if self.data_format ~= "channels_first" then return compute(self, x) end
    local rank = #x.shape
    local forth, back = {0}, {0, rank - 1}
    for axis = 2, rank - 1 do forth[#forth + 1] = axis end
    forth[rank] = 1
    for axis = 1, rank - 2 do back[#back + 1] = axis end
    return ops.transpose(compute(self, ops.transpose(x, forth)), back)
  end
end

---A copy of a list with more values at its end.
---@return integer[]
function spatial.extended(list, ...)
  local more = {...}
  return table.move(more, 1, #more, #list + 1, table.move(list, 1, #list, 1, {}))
end

---The number of channels of an input shape.
---@return integer
function spatial.channels(layer, shape)
  local n = shape[layer.data_format == "channels_first" and 2 or #shape]
  if not n or n < 0 then
    blame.error(string.format("layer '%s': the number of channels of its input must be known",
      layer.name), "value")
  end
  return n
end

return spatial
