-- Transfer learning: a network learns the digits 0 to 4, then its weights are frozen. A new last
-- layer learns 5 to 9 from few pictures. At the end all weights are tuned at a small learning rate.
local ipu = require "ipulua"
local keras, layers = ipu.keras, ipu.keras.layers
local images, epochs = require "ipulua.script".arguments{{"images", 12000, short = 1500},
  {"epochs", 4, short = 2}}
keras.utils.set_random_seed(1)

local x, y = keras.datasets.mnist.load_data()
x = ipu.expand_dims(ipu.cast(x[{1, images}], "float32") / 255, -1)
y = ipu.cast(y[{1, images}], "int32")
local low = ipu.less(y, 5)
local high = ipu.logical_not(low)
local old_x, old_y, new_x, new_y = x[low], y[low], x[high], y[high] - 5

local function compile(model, rate)
  model:compile{optimizer = keras.optimizers.Adam{rate}, metrics = {"accuracy"},
    loss = keras.losses.SparseCategoricalCrossentropy{from_logits = true}}
end

local base = keras.Sequential{
  layers.Conv2D{16, 3, activation = "relu", input_shape = {28, 28, 1}}, layers.MaxPooling2D(),
  layers.Conv2D{32, 3, activation = "relu"}, layers.MaxPooling2D(),
  layers.Flatten(), layers.Dense{64, activation = "relu", name = "features"},
  layers.Dense{5},
}
compile(base, 2e-3)
base:fit{old_x, old_y, epochs = epochs, verbose = 2}

local features = keras.Model{inputs = base.inputs, outputs = base:get_layer("features").output}
features.trainable = false
local input = keras.Input{shape = {28, 28, 1}}
local model = keras.Model{inputs = input,
  outputs = layers.Dense{5}(features(input, {training = false}))}
compile(model, 5e-3)
local count = #new_y // 2
print("trained: " .. #model.trainable_weights .. " of " .. #model.weights .. " weights")
model:fit{new_x[{1, count}], new_y[{1, count}], epochs = epochs, verbose = 2}

features.trainable = true
compile(model, 2e-4)
print("trained: " .. #model.trainable_weights .. " of " .. #model.weights .. " weights")
model:fit{new_x[{1, count}], new_y[{1, count}], epochs = epochs, verbose = 2}
local result = model:evaluate(new_x[{count + 1, -1}], new_y[{count + 1, -1}],
  {return_dict = true, verbose = 0})
print(string.format("%.1f %% of unseen digits are right", 100 * result.accuracy))
