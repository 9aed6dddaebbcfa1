-- The weights that a compiled model trains. As in Keras, `trainable` takes effect when the model is
-- compiled. So of two models that share layers, one may train them and the other not.

local keep = require("ipulua.keras.base.layer_fields").keep
local log = require "ipulua.base.log"

local trainable = {}

---Notes which layers a model trains, where it is compiled.
---@param model Model
function trainable.record(model)
  local flags = setmetatable({}, {__mode = "k"})
  model:walk(function(layer) flags[layer] = layer.trainable end)
  flags[model] = model.trainable
  keep(model, "_trained", flags)
end

local told = setmetatable({}, {__mode = "k"})

local function tell(model, layer)
  if told[model] then return end
  told[model] = true
  log.warn("model '%s': 'trainable' of '%s' was set after compile; it takes effect when the model "
    .. "is compiled again", model.name, layer.name)
end

---To be closed: until then layers are trainable as they were where the model was compiled. Those
---that it got since are as they are. Values that code sets meanwhile stay.
---@param model Model
---@return table
function trainable.as_compiled(model)
  local changed, flags = {}, model._trained or {}
  local function set(layer)
    local flag <const> = flags[layer]
    if flag == nil or flag == layer.trainable then return end
    tell(model, layer)
    changed[#changed + 1] = {layer, flag}
    keep(layer, "_trainable", flag)
  end
  model:walk(set)
  set(model)
  return setmetatable({}, {__close = function()
    for _, each in ipairs(changed) do
      local layer <const>, flag <const> = each[1], each[2]
      if layer.trainable == flag then keep(layer, "_trainable", not flag) end
    end
  end})
end

return trainable
