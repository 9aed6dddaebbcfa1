-- A small network learns to read digits, as on the first page of the tutorial. Without the files of
-- MNIST (in $IPULUA_DATA/mnist) the digits are drawn. With --cnn the network is a convolutional
-- one, which has 99.1 % of MNIST's test set right after three epochs (a minute on two cores).
local ipu = require "ipulua"
local keras, layers = ipu.keras, ipu.keras.layers
local epochs, cnn, short = require "ipulua.script".arguments{{"epochs", 5, short = 1}, "cnn",
  "short"}
local x_train, y_train, x_test, y_test = keras.datasets.mnist.load_data()

local strategy = ipu.IPUStrategy()
local _ <close> = strategy:scope()

local model = keras.Sequential{layers.Rescaling{1 / 255, input_shape = {28, 28, 1}}}
for _, layer in ipairs(cnn and {
  layers.Conv2D{32, 3, activation = "relu"}, layers.MaxPooling2D(),
  layers.Conv2D{64, 3, activation = "relu"}, layers.MaxPooling2D(),
  layers.Flatten(), layers.Dense{128, activation = "relu"}, layers.Dropout(0.3),
} or {layers.Flatten(), layers.Dense{128, activation = "relu"}}) do model:add(layer) end
model:add(layers.Dense{10, activation = "softmax"})

model:compile{
  optimizer = cnn and keras.optimizers.Adam(1e-3) or keras.optimizers.SGD{0.01, momentum = 0.9},
  loss = "sparse_categorical_crossentropy", metrics = {"accuracy"}, steps_per_execution = 25,
}
model:fit{x_train, y_train, batch_size = 32, epochs = epochs,
  steps_per_epoch = short and (cnn and 50 or 500) or nil}
local result = model:evaluate(x_test, y_test, {batch_size = 16, return_dict = true, verbose = 0})
print(string.format("test accuracy %.1f %%", result.accuracy * 100))
