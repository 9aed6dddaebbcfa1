-- Training through queues: ten batches an execution. Compare with mnist_without_feeds.lua.

local ipu = require "ipulua"
local keras = ipu.keras

local batches <const> = require "ipulua.script".arguments{{"batches", 10000, short = 300}}
local batches_per_execution <const> = 10

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

local strategy = ipu.IPUStrategy()
local _ <close> = strategy:scope()

local model = keras.Sequential{
  keras.layers.Flatten(),
  keras.layers.Dense{128, activation = "relu"},
  keras.layers.Dense{10, activation = "softmax"},
}
local opt = keras.optimizers.SGD(0.01)
local iterator, outfeed = ds:iterator(), ipu.IPUOutfeedQueue()

local function training_step(x, y)
  local tape <close> = ipu.GradientTape()
  local loss = ipu.reduce_mean(keras.losses.sparse_categorical_crossentropy(y,
    model(x, {training = true})))
  opt:apply_gradients(tape:gradient(loss, model.trainable_variables), model.trainable_variables)
  return loss
end

local training_loop = ipu.func(function()
  for _ in ipu.range(batches_per_execution) do
    outfeed:enqueue(training_step(iterator:next()))
  end
end)

local begun = os.clock()
for _ = 1, batches, batches_per_execution do strategy:run(training_loop) end
local losses = outfeed:dequeue()
print(string.format("Losses: %d, first %.4f, last %.4f", losses.shape[1], losses[1]:item(),
  losses[#losses]:item()))
print(string.format("Time taken using infeed/outfeed queues: %.2f seconds", os.clock() - begun))
