-- A forecast of a time series: a window of the past predicts a value some steps ahead. The last 30
-- % of the series are for validation. Training stops early, and the best weights are kept in a
-- file.
local ipu = require "ipulua"
local keras, layers = ipu.keras, ipu.keras.layers
local epochs, length = require "ipulua.script".arguments{{"epochs", 20, short = 6},
  {"length", 4000, short = 1500}}
local past <const>, ahead <const>, stride <const> = 48, 6, 2
keras.utils.set_random_seed(1)

local t = ipu.cast(ipu.arange(length), "float32")
local hour = (ipu.arange(length) % 24) / 24
local series = ipu.stack({ipu.sin(t / 10) + ipu.random.normal({length}, {stddev = 0.1, seed = 1}),
  ipu.cos(t / 25), hour}, {axis = 1})
local border = length * 7 // 10
local seen = series[{1, border}]
series = (series - seen:reduce_mean{axis = 0}) / seen:reduce_std{axis = 0}

-- Batches of windows over rows first … last, and of the first column `ahead` steps after each.
local function windows(first, last)
  return keras.utils.timeseries_dataset_from_array(series[{first, last - past - ahead}],
    series[{{first + past + ahead, last}, {1, 1}}],
    {sequence_length = past // stride, sampling_rate = stride, batch_size = 64})
end

local model = keras.Sequential{layers.LSTM{32, input_shape = {past // stride, 3}}, layers.Dense{1}}
model:compile{optimizer = keras.optimizers.Adam{5e-3}, loss = "mse", metrics = {"mae"}}
local best = os.tmpname() .. ".safetensors"
local log = model:fit(windows(1, border), {validation_data = windows(border + 1, length),
  epochs = epochs, verbose = 2, callbacks = {
    keras.callbacks.EarlyStopping{patience = 4},
    keras.callbacks.ReduceLROnPlateau{patience = 2},
    keras.callbacks.ModelCheckpoint{best, save_best_only = true, save_weights_only = true},
  }}).history
model:load_weights(best)
os.remove(best)
print(string.format("validation loss %.4f to %.4f", log.val_loss[1],
  math.min(table.unpack(log.val_loss))))
for x, y in windows(border + 1, length):take(2):iter() do
  print(string.format("predicted %.2f, measured %.2f", model:predict(x)[1]:item(), y[1]:item()))
end
