-- Training with queues: an execution has ten steps, and their losses come back together. As in
-- Graphcore's tutorial the last layer has no softmax, though the loss expects probabilities. The
-- loss clips its input, so it stays finite, but falls little.

local ipu = require "ipulua"
require "ipulua.script".arguments{"short"} -- it is short as it stands
local keras = ipu.keras

local batch_size <const>, steps <const>, steps_per_execution <const> = 32, 100, 10

local cfg = ipu.IPUConfig()
cfg.auto_select_ipus = 1
cfg:configure_ipu_system()

local x_train, y_train = keras.datasets.mnist.load_data()
local ds = ipu.data.from_tensor_slices{x_train, y_train}
  :shuffle(10000)
  :batch(batch_size, {drop_remainder = true})
  :map(function(x, y) return ipu.cast(x, "float32") / 255, ipu.cast(y, "int32") end)
  :repeat_n()

local strategy = ipu.IPUStrategy()
local _ <close> = strategy:scope()

local model = keras.Sequential{
  keras.layers.Flatten(),
  keras.layers.Dense{256, activation = "relu"},
  keras.layers.Dense{128, activation = "relu"},
  keras.layers.Dense{10},
}
local opt = keras.optimizers.SGD(0.01)
local infeed, outfeed = ipu.IPUInfeedQueue(ds), ipu.IPUOutfeedQueue()

local function training_step(images, labels)
  local tape <close> = ipu.GradientTape()
  local losses = keras.losses.sparse_categorical_crossentropy(labels,
    model(images, {training = true}))
  local loss = ipu.reduce_mean(losses)
  opt:apply_gradients(tape:gradient(loss, model.trainable_variables), model.trainable_variables)
  outfeed:enqueue(loss)
end

local train = ipu.func(function()
  return ipu.loops.repeat_n(steps_per_execution, training_step, {}, infeed)
end)

for step = 0, steps - 1, steps_per_execution do
  strategy:run(train)
  local losses = outfeed:dequeue()
  print(string.format("Current step: %d, training loss: %.6f", step,
    ipu.reduce_mean(losses):item()))
end
