-- The first page of the tutorial: a small network learns to read digits. Real MNIST when
-- $IPULUA_DATA/mnist has it, drawn digits otherwise. An argument gives the number of epochs.
local ipu = require "ipulua"
local keras, layers, data = ipu.keras, ipu.keras.layers, ipu.data
local epochs = require "ipulua.script".arguments{{"epochs", 5}}

local x_train, y_train, x_test, y_test = keras.datasets.mnist.load_data()

-- Batches of pictures, bytes turned into numbers from 0 to 1.
local function batches(x, y, size, shuffled)
  local ds = data.from_tensor_slices{x, y}
  if shuffled then ds = ds:shuffle(60000) end
  return ds:batch(size, {drop_remainder = true}):map(function(images, labels)
    return ipu.cast(images, "float32") / 255, ipu.cast(labels, "int32")
  end):prefetch()
end

local strategy = ipu.IPUStrategy()
local _ <close> = strategy:scope()

local model = keras.Sequential{
  layers.Flatten(),
  layers.Dense{128, activation = "relu"},
  layers.Dense{10, activation = "softmax"},
  name = "mlp",
}
model:compile{
  optimizer = keras.optimizers.SGD{0.01, momentum = 0.9},
  loss = "sparse_categorical_crossentropy",
  metrics = {"accuracy"},
  steps_per_execution = 125,
}
model:fit(batches(x_train, y_train, 32, true), {epochs = epochs})

local result = model:evaluate(batches(x_test, y_test, 16), {return_dict = true, verbose = 0})
print(string.format("test accuracy %.1f %%", result.accuracy * 100))
