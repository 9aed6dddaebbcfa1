-- keras.layers: the classes of the family files, by name.

local class = require "ipulua.base.class"
local guard = require "ipulua.keras.base.layer_calls".guard

local layers = {Layer = require "ipulua.keras.base.layer",
  Wrapper = require "ipulua.keras.layers.layer_wrapper"}

for _, family in ipairs{
  "core", "activation", "lambda", "merge", "embedding", "lookup", "conv", "pool", "norm",
  "recurrent", "sequence_wrappers", "conv_recurrent", "local", "attention",
  "image", "extensions", "input_spec", "strings", "hashing",
} do
  for name, value in pairs(require("ipulua.keras.layers." .. family)) do
    if name:find("^%u") or name:find("^%l+$") and family == "merge" then layers[name] = value end
  end
end

local other_names = {} -- a name of Keras → the class' own
for name, c in pairs(layers) do
  for _, other in ipairs(class.is_class(c) and rawget(c, "other_names") or {}) do
    other_names[other] = name
  end
end

local called_by_scripts <const> = {
  add_loss = true, add_metric = true, add_weight = true, adapt = true, compute_mask = true,
  compute_output_shape = true, count_params = true,
  get_config = true, get_input_at = true, get_input_shape_at = true, get_output_at = true,
  get_output_shape_at = true, get_vocabulary = true, get_weights = true, reset_states = true,
  set_weights = true, vocabulary_size = true,
}

for _, c in pairs(layers) do
  if class.is_class(c) and c.build then guard(c) end
  if class.is_class(c) then class.guard(c, called_by_scripts) end
end

layers.Input = require "ipulua.keras.models.input".Input

-- Names of Keras' module that this one lacks, with the names to use instead.
local size_changes <const> = "the size of its output would change from step to step, and shapes "
  .. "are static; use "
local missing <const> = {
  RandomHeight = size_changes .. "RandomZoom(height_factor, {width_factor = 0}), which keeps it",
  RandomWidth = size_changes .. "RandomZoom(0, {width_factor = factor}), which keeps it",
  experimental = "what Keras has there is in layers itself",
  EinsumDense = "extend Layer, with add_weight and ipu.einsum",
  RandomFourierFeatures = "extend Layer: it is ipu.cos(x W / scale + b), W and b drawn by "
  .. "add_weight{trainable = false}",
  DenseFeatures = "there are no feature columns; use Embedding, CategoryEncoding and "
  .. "Normalization",
}

return require("ipulua.base.parts").give("layers", layers, {names = other_names, missing = missing})
