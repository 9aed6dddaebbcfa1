-- Digits learnt on one IPU by a Sequential model or, with --functional, by a functional one: four
-- epochs of 500 steps with batches of 32.
local ipu = require "ipulua"
local keras, layers = ipu.keras, ipu.keras.layers

local steps, functional = require "ipulua.script".arguments{{"steps", 500, short = 100},
  "functional"} -- steps of an epoch, and of an execution
local batch_size <const>, epochs <const> = 32, 4
local widths <const> = {256, 128, 64, 32}

local function dataset()
  local x, y = keras.datasets.mnist.load_data()
  return ipu.data.from_tensor_slices{x, y}
    :shuffle(10000)
    :batch(batch_size, {drop_remainder = true})
    :map(function(images, labels)
      return ipu.cast(images, "float32") / 255, ipu.cast(labels, "int32")
    end)
    :prefetch(16)
    :repeat_n()
end

local function functional_model()
  local input = keras.Input{shape = {28, 28}}
  local x = layers.Flatten()(input)
  for _, units in ipairs(widths) do x = layers.Dense{units, activation = "relu"}(x) end
  return keras.Model{inputs = input, outputs = layers.Dense{10}(x), name = "single_ipu"}
end

local function sequential_model()
  local model = keras.Sequential{layers.Flatten(), name = "single_ipu"}
  for _, units in ipairs(widths) do model:add(layers.Dense{units, activation = "relu"}) end
  model:add(layers.Dense{10})
  return model
end

local cfg = ipu.IPUConfig()
cfg.auto_select_ipus = 1
cfg:configure_ipu_system()

local strategy = ipu.IPUStrategy()
local _ <close> = strategy:scope()
local model = functional and functional_model() or sequential_model()
model:compile{
  loss = keras.losses.SparseCategoricalCrossentropy{from_logits = true},
  optimizer = keras.optimizers.SGD{learning_rate = 0.01, momentum = 0.9},
  steps_per_execution = steps,
}
local history = model:fit(dataset(), {epochs = epochs, steps_per_epoch = steps})
print("parameters", model:count_params())
for i, loss in ipairs(history.history.loss) do
  print(string.format("epoch %d loss %.4f", i, loss))
end
