-- A training loop written by hand, with a tape, an optimizer, metrics and a schedule of the
-- learning rate. The steps of an epoch are one program; the script reads the metrics after each
-- epoch. After five epochs (seven seconds) the model has 97.83 % of MNIST's test set right.
local ipu = require "ipulua"
local keras, layers, data = ipu.keras, ipu.keras.layers, ipu.data
local short = require "ipulua.script".arguments{"short"}
local epochs, steps = short and 2 or 5, short and 30 or 600

local x_train, y_train, x_test, y_test = keras.datasets.mnist.load_data()
local function batches(x, y)
  return data.from_tensor_slices{x, y}:shuffle(60000):batch(100,
    {drop_remainder = true}):map(function(images, labels)
    return ipu.cast(images, "float32") / 255, ipu.cast(labels, "int32")
  end):prefetch():repeat_n()
end

local strategy = ipu.IPUStrategy()
local _ <close> = strategy:scope()

local model = keras.Sequential{
  layers.Flatten(), layers.Dense{256, activation = "relu"}, layers.Dropout(0.2), layers.Dense{10},
}
local optimizer = keras.optimizers.Adam{keras.optimizers.schedules.ExponentialDecay{2e-3,
  decay_steps = 600, decay_rate = 0.6}}
local loss_mean, accuracy = keras.metrics.Mean{name = "loss"},
  keras.metrics.SparseCategoricalAccuracy()

local function loss_of(y, logits)
  return ipu.reduce_mean(keras.losses.sparse_categorical_crossentropy(y, logits,
    {from_logits = true}))
end

local function training_step(x, y)
  local tape <close> = ipu.GradientTape()
  local logits = model(x, {training = true})
  local loss = loss_of(y, logits)
  optimizer:apply_gradients(tape:gradient(loss, model.trainable_variables),
    model.trainable_variables)
  loss_mean:update_state(loss)
  accuracy:update_state(y, logits)
end

local train, test = batches(x_train, y_train):iterator(), batches(x_test, y_test):iterator()
local train_epoch = ipu.func(function()
  for _ in ipu.range(steps) do training_step(train:next()) end
  return loss_mean:result(), accuracy:result()
end)
local test_all = ipu.func(function()
  for _ in ipu.range(short and 10 or 100) do
    local x, y = test:next()
    accuracy:update_state(y, model(x, {training = false}))
  end
  return accuracy:result()
end)

for epoch = 1, epochs do
  loss_mean:reset_state()
  accuracy:reset_state()
  local loss, right = strategy:run(train_epoch)
  print(string.format("epoch %d loss %.4f accuracy %.2f %% after %d updates", epoch, loss:item(),
    right:item() * 100,
    optimizer.iterations:item()))
end
accuracy:reset_state()
print(string.format("test accuracy %.2f %%", strategy:run(test_all):item() * 100))
