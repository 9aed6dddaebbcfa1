-- Training without queues: one execution a batch, handed over and its loss handed back. Compare
-- with mnist_with_feeds.lua.

local ipu = require "ipulua"
local keras = ipu.keras

local batches <const> = require "ipulua.script".arguments{{"batches", 10000, short = 300}}

local cfg = ipu.IPUConfig()
cfg.auto_select_ipus = 1
cfg:configure_ipu_system()

local x_train, y_train = keras.datasets.mnist.load_data()
local ds = ipu.data.from_tensor_slices{x_train, y_train}
  :shuffle(10000)
  :batch(32, {drop_remainder = true})
  :map(function(x, y) return ipu.cast(x, "float32") / 255, ipu.cast(y, "float32") end)
  :prefetch()
  :repeat_n()

local strategy = ipu.IPUStrategy{enable_dataset_iterators = false}
local _ <close> = strategy:scope()

local model = keras.Sequential{
  keras.layers.Flatten(),
  keras.layers.Dense{128, activation = "relu"},
  keras.layers.Dense{10, activation = "softmax"},
}
local opt = keras.optimizers.SGD(0.01)

local training_step = ipu.func(function(x, y)
  local tape <close> = ipu.GradientTape()
  local loss = ipu.reduce_mean(keras.losses.sparse_categorical_crossentropy(y,
    model(x, {training = true})))
  opt:apply_gradients(tape:gradient(loss, model.trainable_variables), model.trainable_variables)
  return loss
end)

local iterator = ds:iterator()
local begun, first, last = os.clock(), nil, nil
for _ = 1, batches do
  local x, y = iterator:next()
  last = strategy:run(training_step, {x, y})
  first = first or last
end
print(string.format("Losses: %d, first %.4f, last %.4f", batches, first:item(), last:item()))
print(string.format("Time taken without infeed/outfeed queues: %.2f seconds", os.clock() - begun))
