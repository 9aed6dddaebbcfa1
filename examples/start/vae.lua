-- A variational autoencoder. The encoder gives a distribution of two numbers for each digit, a
-- sampling layer draws from it, and the decoder makes the picture. The model has a train_step of
-- its own.
local ipu = require "ipulua"
local keras, layers = ipu.keras, ipu.keras.layers
local epochs, images = require "ipulua.script".arguments{{"epochs", 20, short = 3},
  {"images", 10000, short = 1000}}
local latent <const> = 2
keras.utils.set_random_seed(1)

local Sampling = layers.Layer:extend "Sampling"
function Sampling:call(inputs)
  local mean, log_variance = inputs[1], inputs[2]
  return mean + ipu.exp(0.5 * log_variance) * ipu.random.normal(mean.shape)
end

local seen = keras.Input{shape = {28, 28, 1}}
local x = layers.Conv2D{16, 3, activation = "relu", strides = 2, padding = "same"}(seen)
x = layers.Conv2D{32, 3, activation = "relu", strides = 2, padding = "same"}(x)
x = layers.Dense{16, activation = "relu"}(layers.Flatten()(x))
local mean, log_variance = layers.Dense{latent}(x), layers.Dense{latent}(x)
local encoder = keras.Model{inputs = seen,
  outputs = {mean, log_variance, Sampling(){mean, log_variance}}, name = "encoder"}

local code = keras.Input{shape = {latent}}
x = layers.Reshape{7, 7, 32}(layers.Dense{7 * 7 * 32, activation = "relu"}(code))
for _, filters in ipairs{32, 16} do
  x = layers.Conv2DTranspose{filters, 3, activation = "relu", strides = 2, padding = "same"}(x)
end
local decoder = keras.Model{inputs = code, name = "decoder",
  outputs = layers.Conv2DTranspose{1, 3, activation = "sigmoid", padding = "same"}(x)}

local VAE = keras.Model:extend "VAE"
function VAE:init()
  keras.Model.init(self, {name = "vae"})
  self.encoder, self.decoder = encoder, decoder
  self.total, self.kl = keras.metrics.Mean{name = "loss"}, keras.metrics.Mean{name = "kl_loss"}
end
function VAE:train_step(images_of)
  local tape = ipu.GradientTape()
  local total, kl
  do
    local _ <close> = tape
    local m, v, z = table.unpack(self.encoder(images_of))
    local differences = keras.losses.binary_crossentropy(images_of, self.decoder(z))
    kl = ipu.reduce_mean(ipu.reduce_sum(-0.5 * (1 + v - ipu.square(m) - ipu.exp(v)), {axis = 1}))
    total = ipu.reduce_mean(ipu.reduce_sum(differences, {axis = {1, 2}})) + kl
  end
  local weights = self.trainable_weights
  self.optimizer:apply_gradients(tape:gradient(total, weights), weights)
  self.total:update_state(total)
  self.kl:update_state(kl)
  return {loss = self.total:result(), kl_loss = self.kl:result()}
end

local digits = keras.datasets.mnist.load_data()
local vae = VAE()
vae:compile{optimizer = keras.optimizers.Adam()}
local log = vae:fit{ipu.expand_dims(ipu.cast(digits[{1, images}], "float32") / 255, -1),
  epochs = epochs, batch_size = 64, verbose = 2}.history
print(string.format("loss %.1f to %.1f", log.loss[1], log.loss[#log.loss]))
