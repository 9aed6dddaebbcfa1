-- A denoising autoencoder: its inputs are noisy pictures of digits, its targets the clean ones.
-- Then it removes noise from pictures that it has not seen.
local ipu = require "ipulua"
local keras, layers = ipu.keras, ipu.keras.layers
local images, epochs = require "ipulua.script".arguments{{"images", 6000, short = 640},
  {"epochs", 5, short = 4}}
keras.utils.set_random_seed(1)

local function prepare(x, count)
  return ipu.expand_dims(ipu.cast(x[{1, count}], "float32") / 255, -1)
end
local function noisy(x)
  return ipu.clip_by_value(x + 0.4 * ipu.random.normal(x.shape), 0, 1)
end
local x_train, _, x_test = keras.datasets.mnist.load_data()
local train, test = prepare(x_train, images), prepare(x_test, 200)
local noisy_train, noisy_test = noisy(train), noisy(test)

local input = keras.Input{shape = {28, 28, 1}}
local x = input
for _ = 1, 2 do -- the encoder
  x = layers.Conv2D{16, 3, activation = "relu", padding = "same"}(x)
  x = layers.MaxPooling2D{2, padding = "same"}(x)
end
for _ = 1, 2 do -- the decoder
  x = layers.Conv2DTranspose{16, 3, strides = 2, activation = "relu", padding = "same"}(x)
end
x = layers.Conv2D{1, 3, activation = "sigmoid", padding = "same"}(x)
local autoencoder = keras.Model{inputs = input, outputs = x}
autoencoder:compile{optimizer = keras.optimizers.Adam{5e-3}, loss = "binary_crossentropy"}
autoencoder:fit{x = noisy_train, y = train, epochs = epochs, batch_size = 32, shuffle = true,
  validation_data = {noisy_test, test}, verbose = 2}

local function error_of(pictures) return (pictures - test):square():mean():item() end
local cleaned = autoencoder:predict(noisy_test, {verbose = 0})
print(string.format("mean squared error %.4f with the noise, %.4f without it", error_of(noisy_test),
  error_of(cleaned)))
