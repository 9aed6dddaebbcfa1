-- keras.layers: the classes of the family files, by name.

local class = require "ipulua.class"
local guard = require "ipulua.keras.layer_calls".guard

local layers = {Layer = require "ipulua.keras.layer", Wrapper = require "ipulua.keras.layers.wrapper"}

for _, family in ipairs{
  "core", "activation", "lambda", "merge", "embed", "lookup", "conv", "pool", "norm", "recurrent", "conv_recurrent", "local", "attention",
  "image", "wrap", "spec",
} do
  for name, value in pairs(require("ipulua.keras.layers." .. family)) do
    if name:find("^%u") or name:find("^%l+$") and family == "merge" then layers[name] = value end
  end
end

for _, c in pairs(layers) do
  if class.is_class(c) and c.build then guard(c) end
end

layers.Input = require "ipulua.keras.input".Input

return require("ipulua.keras.other_names").give("layers", layers)
