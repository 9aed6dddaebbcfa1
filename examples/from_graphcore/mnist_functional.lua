-- A functional model on one IPU: MNIST, four epochs of 500 steps of 32. Gradient accumulation is
-- asked for but, without a pipeline, each step is a weight update of its own.
local ipu = require "ipulua"
local keras, layers = ipu.keras, ipu.keras.layers
local batches = dofile((arg[0]:gsub("[^/]*$", "mnist_batches.lua"))) -- beside this file

local batch_size, epochs = 32, 4
local steps = require "ipulua.script".arguments{{"steps", 500}} -- of an epoch, and of an execution

local function create_model()
  local input = keras.Input{shape = {28, 28}}
  local x = layers.Flatten()(input)
  for _, units in ipairs{256, 128, 64, 32} do x = layers.Dense{units, activation = "relu"}(x) end
  return keras.Model{inputs = input, outputs = layers.Dense{10}(x), name = "single_ipu"}
end

local cfg = ipu.IPUConfig()
cfg.auto_select_ipus = 1
cfg:configure_ipu_system()

local strategy = ipu.IPUStrategy()
local _ <close> = strategy:scope()
local model = create_model()
model:compile{
  loss = keras.losses.SparseCategoricalCrossentropy{from_logits = true},
  optimizer = keras.optimizers.SGD{learning_rate = 0.01, momentum = 0.9},
  steps_per_execution = steps,
}
model:set_pipelining_options{gradient_accumulation_steps_per_replica = 4}
print("parameters", model:count_params())
local history = model:fit(batches(batch_size), {epochs = epochs, steps_per_epoch = steps})
for i, loss in ipairs(history.history.loss) do
  print(string.format("epoch %d loss %.4f", i, loss))
end
