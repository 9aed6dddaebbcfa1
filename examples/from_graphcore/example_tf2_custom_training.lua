-- A training loop written out: the script goes through the data and runs a compiled step for each
-- batch.

local ipu = require "ipulua"
local keras = ipu.keras

local batches <const> = require "ipulua.script".arguments{{"batches", 2000, short = 201}}

local cfg = ipu.IPUConfig()
cfg.auto_select_ipus = 1
cfg:configure_ipu_system()

local x_train, y_train = keras.datasets.mnist.load_data()
local ds = ipu.data.from_tensor_slices{x_train, y_train}
  :shuffle(10000)
  :batch(32, {drop_remainder = true})
  :map(function(x, y) return ipu.cast(x, "float32") / 255, ipu.cast(y, "int32") end)
  :prefetch(16)
  :repeat_n()
  :take(batches)

local strategy = ipu.IPUStrategy{enable_dataset_iterators = false}
local _ <close> = strategy:scope()

local model = keras.Sequential{
  keras.layers.Flatten(),
  keras.layers.Dense{128, activation = "relu"},
  keras.layers.Dense{10},
}
local opt = keras.optimizers.SGD(0.01)
local loss_of = keras.losses.SparseCategoricalCrossentropy{from_logits = true}

local train_step = ipu.func(function(features, labels)
  local tape = ipu.GradientTape()
  local loss = tape(function() return loss_of(labels, model(features, {training = true})) end)
  opt:apply_gradients(tape:gradient(loss, model.trainable_variables), model.trainable_variables)
  return loss
end)

local step = 0
for features, labels in ds:iter() do
  local loss = strategy:run(train_step, {features, labels})
  if step % 50 == 0 then print(string.format("Step %d loss = %.6f", step, loss:item())) end
  step = step + 1
end
