-- A classifier of digits by compile and fit: 2000 steps an epoch, read from an infeed by one
-- program.

local ipu = require "ipulua"
local keras = ipu.keras

local steps, epochs = require "ipulua.script".arguments{
  {"steps", 2000, short = 200}, {"epochs", 4, short = 3}}

local cfg = ipu.IPUConfig()
cfg.auto_select_ipus = 1
cfg:configure_ipu_system()

local function create_model()
  return keras.Sequential{
    keras.layers.Flatten(),
    keras.layers.Dense{128, activation = "relu"},
    keras.layers.Dense{10, activation = "softmax"},
  }
end

local function create_dataset()
  local x_train, y_train = keras.datasets.mnist.load_data()
  return ipu.data.from_tensor_slices{x_train, y_train}
    :shuffle(10000)
    :batch(32, {drop_remainder = true})
    :map(function(x, y) return ipu.cast(x, "float32") / 255, ipu.cast(y, "int32") end)
    :repeat_n()
end

local strategy = ipu.IPUStrategy()
local _ <close> = strategy:scope()

local model = create_model()
model:compile{
  loss = keras.losses.SparseCategoricalCrossentropy(), optimizer = keras.optimizers.SGD(),
  steps_per_execution = steps,
}
local history = model:fit(create_dataset(), {epochs = epochs, steps_per_epoch = steps})
for i, loss in ipairs(history.history.loss) do
  print(string.format("epoch %d loss %.6f", i, loss))
end
