-- A small network learns to read digits, as on the first page of the tutorial. Without the files of
-- MNIST (in $IPULUA_DATA/mnist) the digits are drawn. With --cnn the network is a convolutional
-- one, which has 98.96 % of MNIST's test set right after three epochs (a minute on two cores).
local ipu = require "ipulua"
local keras, layers, data = ipu.keras, ipu.keras.layers, ipu.data
local epochs, cnn, short = require "ipulua.script".arguments{{"epochs", 5, short = 1}, "cnn",
  "short"}

local x_train, y_train, x_test, y_test = keras.datasets.mnist.load_data()

-- Batches of pictures, as numbers from 0 to 1, and their labels.
local function batches(x, y, size, shuffled)
  local ds = data.from_tensor_slices{x, y}
  if shuffled then ds = ds:shuffle(60000) end
  return ds:batch(size, {drop_remainder = true}):map(function(images, labels)
    return ipu.cast(images, "float32") / 255, ipu.cast(labels, "int32")
  end):prefetch()
end

local function dense()
  return keras.Sequential{
    layers.Flatten(),
    layers.Dense{128, activation = "relu"},
    layers.Dense{10, activation = "softmax"},
    name = "mlp",
  }
end

local function convolutional()
  return keras.Sequential{
    layers.Reshape{{28, 28, 1}, input_shape = {28, 28}},
    layers.Conv2D{32, 3, activation = "relu"},
    layers.MaxPooling2D(),
    layers.Conv2D{64, 3, activation = "relu"},
    layers.MaxPooling2D(),
    layers.Flatten(),
    layers.Dense{128, activation = "relu"},
    layers.Dropout(0.3),
    layers.Dense{10, activation = "softmax"},
    name = "cnn",
  }
end

local strategy = ipu.IPUStrategy()
local _ <close> = strategy:scope()

local model = cnn and convolutional() or dense()
model:compile{
  optimizer = cnn and keras.optimizers.Adam(1e-3) or keras.optimizers.SGD{0.01, momentum = 0.9},
  loss = "sparse_categorical_crossentropy",
  metrics = {"accuracy"},
  steps_per_execution = 25,
}
model:fit(batches(x_train, y_train, 32, true):repeat_n(),
  {epochs = epochs, steps_per_epoch = short and (cnn and 50 or 500) or 1875})

local test = batches(x_test, y_test, 16)
local result = model:evaluate(test, {steps = short and 125 or 625, return_dict = true, verbose = 0})
print(string.format("test accuracy %.1f %%", result.accuracy * 100))
