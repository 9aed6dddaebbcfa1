-- Two inputs and two outputs: from pictures of two digits the model predicts their sum, and whether
-- the first is the greater one. Both pictures go through one encoder. After 4800 steps (20 seconds)
-- on MNIST, about 98 % of the sums of the test set are right, and 99 % of the comparisons.
local ipu = require "ipulua"
local keras, layers, data = ipu.keras, ipu.keras.layers, ipu.data
local short = require "ipulua.script".arguments{"short"}
local epochs, steps = short and 1 or 4, short and 100 or 1200
local x_train, y_train, x_test, y_test = keras.datasets.mnist.load_data()

-- Inputs and answers go by the names of the model's inputs and outputs.
local function pairs_of(x, y, seed)
  local all = data.from_tensor_slices{x, y}
  local a, b = all:shuffle(60000, {seed = seed}), all:shuffle(60000, {seed = seed + 1})
  return data.zip(a, b):batch(50):map(function(one, other)
    local first, second = ipu.cast(one[2], "int32"), ipu.cast(other[2], "int32")
    return {first = ipu.cast(one[1], "float32") / 255,
      second = ipu.cast(other[1], "float32") / 255},
      {sum = first + second, greater = ipu.cast(ipu.greater(first, second), "float32")}
  end):prefetch()
end

local encoder = keras.Sequential{layers.Reshape{28, 28, 1},
  layers.Conv2D{16, 5, strides = 2, activation = "relu"},
  layers.Conv2D{32, 3, strides = 2, activation = "relu"},
  layers.Flatten(), layers.Dense{64, activation = "relu"}}
local first = keras.Input{shape = {28, 28}, name = "first"}
local second = keras.Input{shape = {28, 28}, name = "second"}
local both = layers.Concatenate(){encoder(first), encoder(second)}
local hidden = layers.Dense{128, activation = "relu"}(both)
local model = keras.Model{inputs = {first = first, second = second},
  outputs = {sum = layers.Dense{19, name = "sum"}(hidden),
    greater = layers.Dense{1, activation = "sigmoid", name = "greater"}(hidden)}}

local rate = keras.optimizers.schedules.CosineDecay{2e-3, decay_steps = epochs * steps}
model:compile{optimizer = keras.optimizers.Adam{rate}, steps_per_execution = steps // 10,
  loss = {sum = keras.losses.SparseCategoricalCrossentropy{from_logits = true},
    greater = "binary_crossentropy"},
  loss_weights = {sum = 1, greater = 0.5}, metrics = {sum = "accuracy", greater = "accuracy"}}
model:fit(pairs_of(x_train, y_train, 1):repeat_n(), {epochs = epochs, steps_per_epoch = steps})
local result = model:evaluate(pairs_of(x_test, y_test, 3),
  {steps = short and 20 or 120, return_dict = true, verbose = 0})
print(string.format("sum right %.2f %%, greater right %.2f %%", result.sum_accuracy * 100,
  result.greater_accuracy * 100))
