-- One case in twenty is positive. Without weights most of the positive cases are missed.
-- class_weight makes both classes count the same; sample_weight gives each case a weight of its
-- own.
local ipu = require "ipulua"
local keras, layers = ipu.keras, ipu.keras.layers
local epochs = require "ipulua.script".arguments{{"epochs", 20, short = 8}}

-- A case has ten measurements. Two of them and some noise decide.
keras.utils.set_random_seed(1)
local count = 4000
local x = ipu.random.normal{count, 10}
local score = x[{{}, 1}] + x[{{}, 2}] + 0.5 * ipu.random.normal{count}
local y = ipu.cast(ipu.greater(score, 2.45), "float32")
local x_train, y_train, x_test, y_test = x[{1, 3000}], y[{1, 3000}], x[{3001, -1}], y[{3001, -1}]
local few = y_train:sum():item()
local many = 3000 - few
print(string.format("%d cases, %d of them positive", 3000, few))

local function train(name, options)
  keras.utils.set_random_seed(2)
  local model = keras.Sequential{
    layers.Dense{16, activation = "relu", input_shape = {10}}, layers.Dropout{0.2},
    layers.Dense{1, activation = "sigmoid"},
  }
  model:compile{optimizer = keras.optimizers.Adam{3e-3}, loss = "binary_crossentropy",
    metrics = {keras.metrics.Recall{name = "recall"}, keras.metrics.Precision{name = "precision"},
      keras.metrics.AUC{name = "prc", curve = "PR"}}}
  options.x, options.y, options.verbose = x_train, y_train, 0
  options.batch_size, options.epochs = 128, epochs
  model:fit(options)
  local result = model:evaluate(x_test, y_test, {return_dict = true, verbose = 0})
  print(string.format("%-15s finds %3.0f %% of them; %3.0f %% of its alarms are right", name,
    100 * result.recall, 100 * result.precision))
end
train("plain", {})
train("class_weight", {class_weight = {[0] = 3000 / 2 / many, [1] = 3000 / 2 / few}})
train("sample_weight", {sample_weight = ipu.where(ipu.equal(y_train, 1), 5, 1)})
