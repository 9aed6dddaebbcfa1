-- Metric learning: one network maps two pictures to two points. A contrastive loss, written here,
-- brings the points of equal digits together and moves the points of different digits apart.
local ipu = require "ipulua"
local keras, layers = ipu.keras, ipu.keras.layers
local images, epochs = require "ipulua.script".arguments{{"images", 6000, short = 1000},
  {"epochs", 8, short = 5}}
keras.utils.set_random_seed(1)
math.randomseed(1)

local x, y = keras.datasets.mnist.load_data()
x = ipu.expand_dims(ipu.cast(x[{1, images}], "float32") / 255, -1)
local labels, by_digit = y[{1, images}]:totable(), {}
for d = 0, 9 do by_digit[d] = {} end
for i, digit in ipairs(labels) do table.insert(by_digit[digit], i - 1) end

local firsts, seconds, differ = {}, {}, {}
for i, digit in ipairs(labels) do
  for k, other in ipairs{digit, (digit + math.random(9)) % 10} do
    firsts[#firsts + 1] = i - 1
    seconds[#seconds + 1] = by_digit[other][math.random(#by_digit[other])]
    differ[#differ + 1] = k - 1
  end
end
local function pictures(list) return ipu.gather(x, ipu.tensor(list, {dtype = "int32"})) end

local input = keras.Input{shape = {28, 28, 1}}
local h = layers.Conv2D{8, 5, activation = "tanh"}(input)
h = layers.AveragePooling2D{2}(h)
h = layers.Conv2D{16, 5, activation = "tanh"}(h)
h = layers.AveragePooling2D{2}(h)
local embedding = keras.Model{inputs = input,
  outputs = layers.Dense{10, activation = "tanh"}(layers.Flatten()(h))}

local a, b = keras.Input{shape = {28, 28, 1}}, keras.Input{shape = {28, 28, 1}}
local distance = layers.Lambda(function(v)
  local sum = ipu.reduce_sum(ipu.square(v[1] - v[2]), {axis = 1, keepdims = true})
  return ipu.sqrt(ipu.maximum(sum, keras.backend.epsilon()))
end){embedding(a), embedding(b)}
local model = keras.Model{inputs = {a, b}, outputs = distance}

local function contrastive(margin)
  return function(y_true, y_pred)
    local near = ipu.square(ipu.maximum(margin - y_pred, 0))
    return ipu.reduce_mean((1 - y_true) * ipu.square(y_pred) + y_true * near)
  end
end
model:compile{loss = contrastive(1), optimizer = keras.optimizers.Adam{2e-3},
  metrics = {"accuracy"}}
local log = model:fit{{pictures(firsts), pictures(seconds)}, ipu.tensor(differ),
  validation_split = 0.2, batch_size = 32, epochs = epochs, verbose = 2}.history
print(string.format("%.1f %% of unseen pairs are told apart", 100 * log.val_accuracy[epochs]))
