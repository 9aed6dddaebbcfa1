-- Predicting through two stages: steps_per_execution says how many micro-batches go through the
-- pipeline in one run.
local ipu = require "ipulua"
require "ipulua.script".arguments{"short"} -- it is short as it stands
local keras, layers = ipu.keras, ipu.keras.layers

local cfg = ipu.IPUConfig()
cfg.auto_select_ipus = 2
cfg:configure_ipu_system()

local strategy = ipu.IPUStrategy()
local _ <close> = strategy:scope()
local input = keras.Input{shape = {28, 28}}
local x = input
do
  local _ <close> = keras.PipelineStage(0)
  x = layers.Flatten()(x)
  x = layers.Dense{128, activation = "relu"}(x)
end
do
  local _ <close> = keras.PipelineStage(1)
  x = layers.Dense{10, activation = "softmax"}(x)
end
local model = keras.Model{inputs = input, outputs = x}
model:compile{loss = "mse", steps_per_execution = 10}

local _, _, images = keras.datasets.mnist.load_data()
local dataset = ipu.data.from_tensor_slices(images)
  :map(function(image) return ipu.cast(image, "float32") / 255 end)
  :batch(32, {drop_remainder = true})
local probabilities = model:predict(dataset, {steps = 20, verbose = 1})
print("predictions", table.concat(probabilities.shape, "x"))
