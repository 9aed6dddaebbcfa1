-- Two inputs and two outputs: from pictures of two digits the model predicts their sum, and whether
-- the first is the greater one. Both pictures go through one encoder. After 4800 steps (20 seconds)
-- on MNIST, 97.55 % of the sums of the test set and 99.03 % of the comparisons are right.
local ipu = require "ipulua"
local keras, layers, data = ipu.keras, ipu.keras.layers, ipu.data
local short = require "ipulua.script".arguments{"short"}
local batch_size = 50
local epochs, steps = short and 1 or 4, short and 100 or 1200

local x_train, y_train, x_test, y_test = keras.datasets.mnist.load_data()

-- Inputs and answers go by the names of the model's inputs and outputs.
local function pairs_of(x, y, seed)
  local function stream(s)
    return data.from_tensor_slices{x, y}:shuffle(60000, {seed = seed + s})
  end
  return data.zip(stream(0), stream(1)):batch(batch_size,
    {drop_remainder = true}):map(function(a, b)
    local first, second = ipu.cast(a[2], "int32"), ipu.cast(b[2], "int32")
    return {first = ipu.cast(a[1], "float32") / 255, second = ipu.cast(b[1], "float32") / 255},
      {sum = first + second, greater = ipu.cast(ipu.greater(first, second), "float32")}
  end):prefetch()
end

local strategy = ipu.IPUStrategy()
local _ <close> = strategy:scope()

local encoder = keras.Sequential{
  layers.Reshape{28, 28, 1},
  layers.Conv2D{16, 5, strides = 2, activation = "relu"},
  layers.Conv2D{32, 3, strides = 2, activation = "relu"},
  layers.Flatten(), layers.Dense{64, activation = "relu"},
  name = "encoder",
}
local first, second = keras.Input{shape = {28, 28}, name = "first"},
  keras.Input{shape = {28, 28}, name = "second"}
local both = layers.Dense{128,
  activation = "relu"}(layers.Concatenate(){encoder(first), encoder(second)})
local model = keras.Model{
  inputs = {first = first, second = second},
  outputs = {sum = layers.Dense{19, name = "sum"}(both),
    greater = layers.Dense{1, activation = "sigmoid", name = "greater"}(both)},
  name = "two_inputs",
}
model:compile{
  optimizer = keras.optimizers.Adam{keras.optimizers.schedules.CosineDecay{2e-3,
    decay_steps = epochs * steps}},
  loss = {sum = keras.losses.SparseCategoricalCrossentropy{from_logits = true},
    greater = "binary_crossentropy"},
  loss_weights = {sum = 1, greater = 0.5},
  metrics = {sum = "accuracy", greater = "accuracy"},
  steps_per_execution = steps // 10,
}
model:fit(pairs_of(x_train, y_train, 1):repeat_n(), {epochs = epochs, steps_per_epoch = steps})
local result = model:evaluate(pairs_of(x_test, y_test, 3),
  {steps = short and 20 or 120, return_dict = true, verbose = 0})
print(string.format("sum right %.2f %%, greater right %.2f %%", result.sum_accuracy * 100,
  result.greater_accuracy * 100))
