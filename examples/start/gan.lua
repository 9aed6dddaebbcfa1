-- A generative adversarial network. The model's own train_step trains a generator and a
-- discriminator with two optimizers. --picture names a PNG file for ten of the digits that the
-- generator makes.
local ipu = require "ipulua"
local keras, layers, data = ipu.keras, ipu.keras.layers, ipu.data
local epochs, images, picture = require "ipulua.script".arguments{{"epochs", 20, short = 2},
  {"images", 6000, short = 256}, {"picture", ""}}
local latent <const> = 32
keras.utils.set_random_seed(1)

local digits = keras.datasets.mnist.load_data()
local real = ipu.expand_dims(ipu.cast(digits[{1, images}], "float32") / 255, -1)

local discriminator = keras.Sequential{
  layers.Conv2D{32, 3, strides = 2, padding = "same", input_shape = {28, 28, 1}},
  layers.LeakyReLU{alpha = 0.2},
  layers.Conv2D{64, 3, strides = 2, padding = "same"}, layers.LeakyReLU{alpha = 0.2},
  layers.GlobalMaxPooling2D(), layers.Dense{1},
}
local generator = keras.Sequential{
  layers.Dense{7 * 7 * 32, input_shape = {latent}}, layers.LeakyReLU{alpha = 0.2},
  layers.Reshape{7, 7, 32},
  layers.Conv2DTranspose{32, 4, strides = 2, padding = "same"}, layers.LeakyReLU{alpha = 0.2},
  layers.Conv2DTranspose{32, 4, strides = 2, padding = "same"}, layers.LeakyReLU{alpha = 0.2},
  layers.Conv2D{1, 7, padding = "same", activation = "sigmoid"},
}

local GAN = keras.Model:extend "GAN"
function GAN:init()
  keras.Model.init(self, {name = "gan"})
  self.discriminator, self.generator = discriminator, generator
  self.d_loss = keras.metrics.Mean{name = "d_loss"}
  self.g_loss = keras.metrics.Mean{name = "g_loss"}
end
function GAN:compile(d_optimizer, g_optimizer, loss)
  keras.Model.compile(self)
  self.d_optimizer, self.g_optimizer, self.loss_of = d_optimizer, g_optimizer, loss
end
function GAN:train_step(batch)
  local n = batch.shape[1]
  local both = ipu.concat({self.generator(ipu.random.normal{n, latent}), batch}, 0)
  local labels = ipu.concat({ipu.ones{n, 1}, ipu.zeros{n, 1}}, 0)
  local tape = ipu.GradientTape()
  local d_loss = tape(function() return self.loss_of(labels, self.discriminator(both)) end)
  local weights = self.discriminator.trainable_weights
  self.d_optimizer:apply_gradients(tape:gradient(d_loss, weights), weights)

  local misleading = ipu.zeros{n, 1}
  tape = ipu.GradientTape()
  local g_loss = tape(function()
    local made = self.generator(ipu.random.normal{n, latent})
    return self.loss_of(misleading, self.discriminator(made))
  end)
  weights = self.generator.trainable_weights
  self.g_optimizer:apply_gradients(tape:gradient(g_loss, weights), weights)
  self.d_loss:update_state(d_loss)
  self.g_loss:update_state(g_loss)
  return {d_loss = self.d_loss:result(), g_loss = self.g_loss:result()}
end

local gan = GAN()
gan:compile(keras.optimizers.Adam{3e-4}, keras.optimizers.Adam{3e-4},
  keras.losses.BinaryCrossentropy{from_logits = true})
gan:fit(data.from_tensor_slices(real):shuffle(1024):batch(64), {epochs = epochs, verbose = 2})
local made = generator(ipu.random.normal({10, latent}, {seed = 1}))
if picture ~= "" then ipu.image.write(picture, ipu.image.grid(made, {columns = 5})) end
print(string.format("ten digits made, between %.2f and %.2f", ipu.reduce_min(made):item(),
  ipu.reduce_max(made):item()))
