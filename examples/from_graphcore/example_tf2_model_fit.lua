-- A convolutional net with residual connections learns the ten classes of CIFAR-10. Without the
-- files of CIFAR-10 (in $IPULUA_DATA) it trains on coloured noise instead.

local ipu = require "ipulua"
local keras = ipu.keras
local layers = keras.layers

local batch_size <const> = 8
local steps, epochs = require "ipulua.script".arguments{
  {"steps", 128, short = 40}, {"epochs", 2, short = 1}}

local cfg = ipu.IPUConfig()
cfg.auto_select_ipus = 1
cfg:configure_ipu_system()

-- Images around one colour for each class.
local function coloured_noise(count)
  local labels = ipu.arange(count) % 10
  local colour = ipu.gather(ipu.random.uniform({10, 1, 1, 3}, {seed = 5}), labels)
  local noise = ipu.random.uniform({count, 32, 32, 3}, {seed = 6})
  return ipu.cast((colour * 0.5 + noise * 0.5) * 255, "uint8"), ipu.cast(labels, "uint8")
end

local function load()
  local ok, x_train, y_train, x_test, y_test = pcall(keras.datasets.cifar10.load_data)
  if ok then return x_train, ipu.reshape(y_train, {-1}), x_test, ipu.reshape(y_test, {-1}) end
  print("no files of CIFAR-10 under IPULUA_DATA: coloured noise instead")
  local x, y = coloured_noise(2000)
  return x, y, x, y
end

local function dataset(x, y)
  return ipu.data.from_tensor_slices{x, y}
    :shuffle(1000, {seed = 1})
    :batch(batch_size, {drop_remainder = true})
    :map(function(images, labels)
      return ipu.cast(images, "float32") / 255, ipu.cast(labels, "int32")
    end)
    :repeat_n()
end

local function residual_net()
  local inputs = keras.Input{shape = {32, 32, 3}, batch_size = batch_size}
  local x = layers.Conv2D{32, 3, activation = "relu"}(inputs)
  x = layers.Conv2D{64, 3, activation = "relu"}(x)
  local block_1 = layers.MaxPooling2D(3)(x)
  x = layers.Conv2D{64, 3, activation = "relu", padding = "same"}(block_1)
  x = layers.Conv2D{64, 3, activation = "relu", padding = "same"}(x)
  local block_2 = layers.Add()({x, block_1})
  x = layers.Conv2D{64, 3, activation = "relu", padding = "same"}(block_2)
  x = layers.Conv2D{64, 3, activation = "relu", padding = "same"}(x)
  local block_3 = layers.Add()({x, block_2})
  x = layers.Conv2D{64, 3, activation = "relu"}(block_3)
  x = layers.GlobalAveragePooling2D()(x)
  x = layers.Dense{256, activation = "relu"}(x)
  x = layers.Dropout(0.5)(x)
  return keras.Model{inputs = inputs, outputs = layers.Dense{10}(x)}
end

local x_train, y_train, x_test, y_test = load()
local strategy = ipu.IPUStrategy()
local _ <close> = strategy:scope()

local model = residual_net()
model:compile{
  optimizer = keras.optimizers.RMSprop(1e-3),
  loss = keras.losses.SparseCategoricalCrossentropy{from_logits = true},
  metrics = {"accuracy"}, steps_per_execution = steps,
}
model:fit(dataset(x_train, y_train), {epochs = epochs, steps_per_epoch = steps, verbose = 0})
local result = model:evaluate(dataset(x_test, y_test),
  {steps = steps, return_dict = true, verbose = 0})
print(string.format("loss %.4f accuracy %.4f", result.loss, result.accuracy))
