-- Wrapper: the base of layers that hold another one.

local about = require "ipulua.base.parts.about"
local args = require "ipulua.base.args"
local blame = require "ipulua.base.blame"
local Layer = require "ipulua.keras.base.layer"
local parts = require "ipulua.base.parts"

---A layer that holds another one, `layer`: own ones extend it with `call(x, {training =, mask =})`.
---It builds the inner layer for its own input, has its weights, and is saved with it.
---@class Wrapper: Layer
---@field layer Layer
local Wrapper = Layer.declare("Wrapper", {{"layer", {Layer, "dict"}}})

function Wrapper:setup()
  self.layer = parts.get("layer", self.layer)
  if not Layer.is_layer(self.layer) then
    blame.error(string.format("%s: 'layer' must be a layer, got %s", self.__name,
      args.describe(self.layer)), "type")
  end
end

function Wrapper:build(input_shape) self.layer:build_once(input_shape) end

function Wrapper:get_config()
  local config = Layer.get_config(self)
  config.layer = parts.serialize("layer", self.layer)
  return config
end

about.say("layers", {
  {"Wrapper", section = "Core", sample = "Wrapper(Dense(4))", wrong = "Wrapper(4)",
    shapes = "any, with the batch first"},
})

return Wrapper
