-- A classifier of digits trains in a loop on the device, while the script prints the loss of each
-- step as it comes.

local ipu = require "ipulua"
local keras = ipu.keras

local steps <const> = require "ipulua.script".arguments{{"steps", 100, short = 30}}

local cfg = ipu.IPUConfig()
cfg.auto_select_ipus = 1
cfg:configure_ipu_system()

local x_train, y_train = keras.datasets.mnist.load_data()
local ds = ipu.data.from_tensor_slices{x_train, y_train}
  :batch(32, {drop_remainder = true})
  :map(function(x, y) return ipu.cast(x, "float32") / 255, ipu.cast(y, "int32") end)
  :repeat_n()

local outfeed = ipu.IPUOutfeedQueue()
local strategy = ipu.IPUStrategy()
local _ <close> = strategy:scope()

local model = keras.Sequential{
  keras.layers.Flatten(),
  keras.layers.Dense{128, activation = "relu"},
  keras.layers.Dense{10},
}
local opt = keras.optimizers.SGD(0.01)
local loss_of = keras.losses.SparseCategoricalCrossentropy{from_logits = true}
local iterator = ds:iterator()

local training_loop = ipu.func(function()
  for _ in ipu.range(steps) do
    local x, y = iterator:next()
    local tape <close> = ipu.GradientTape()
    local loss = loss_of(y, model(x, {training = true}))
    opt:apply_gradients(tape:gradient(loss, model.trainable_variables), model.trainable_variables)
    outfeed:enqueue(loss)
  end
end)

local job, step = strategy:run_async(training_loop), 0
for loss in outfeed:iter(job) do
  print(string.format("Step %d loss = %.6f", step, loss:item()))
  step = step + 1
end
job:wait()
