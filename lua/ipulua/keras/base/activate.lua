-- Applies a layer's activation. A script may have set that field to a name, or to nil, as Keras'
-- examples do for the logits of a trained model.

local activations = require "ipulua.keras.activations"

---@param activation any
---@param x userdata
---@return userdata
return function(activation, x)
  if type(activation) == "function" then return activation(x) end
  return activations.get(activation)(x)
end
