-- Cross-validation: a small data set is cut into four parts. Each part in turn is held back, and a
-- new model learns from the other three. The mean of the four errors is an estimate for unseen
-- data.
local ipu = require "ipulua"
local keras, layers = ipu.keras, ipu.keras.layers
local folds, epochs = require "ipulua.script".arguments{{"folds", 4, least = 2},
  {"epochs", 60, short = 20}}
keras.utils.set_random_seed(1)

local count <const> = 203
local x = ipu.random.normal({count, 5}, {seed = 2})
local y = ipu.reduce_sum(x, {axis = 1}) + 0.1 * ipu.random.normal({count}, {seed = 3})

local function build()
  local model = keras.Sequential{layers.Dense{16, activation = "relu", input_shape = {5}},
    layers.Dense{1}}
  model:compile{optimizer = keras.optimizers.RMSprop{0.01}, loss = "mse", metrics = {"mae"}}
  return model
end

local place, sum = ipu.arange(count), 0
for fold = 0, folds - 1 do
  local held = ipu.equal(place % folds, fold)
  local kept = ipu.logical_not(held)
  local model = build()
  model:fit{x[kept], y[kept], epochs = epochs, batch_size = 16, verbose = 0}
  local _, mae = table.unpack(model:evaluate(x[held], y[held], {verbose = 0}))
  sum = sum + mae
  print(string.format("fold %d: mean absolute error %.3f", fold, mae))
  keras.backend.clear_session()
end
print(string.format("mean of %d folds: %.3f", folds, sum / folds))
