-- A functional model over two IPUs: its layers are called in PipelineStage scopes. A weight update
-- takes the sum of the gradients of four micro-batches of 32.
local ipu = require "ipulua"
local keras, layers, data = ipu.keras, ipu.keras.layers, ipu.data

local batch_size, epochs = 32, 4
local steps = require "ipulua.script".arguments{{"steps", 500, short = 100}} -- of an epoch

local function dataset()
  local x, y = keras.datasets.mnist.load_data()
  return data.from_tensor_slices{x, y}
    :shuffle(10000)
    :batch(batch_size, {drop_remainder = true})
    :map(function(images, labels)
      return ipu.cast(images, "float32") / 255, ipu.cast(labels, "float32")
    end)
    :prefetch(16)
    :repeat_n()
end

local function create_model()
  local input = keras.Input{shape = {28, 28}}
  local x = input
  do
    local _ <close> = keras.PipelineStage(0)
    x = layers.Flatten()(x)
    for _, units in ipairs{256, 128, 64} do x = layers.Dense{units, activation = "relu"}(x) end
  end
  do
    local _ <close> = keras.PipelineStage(1)
    x = layers.Dense{32, activation = "relu"}(x)
    x = layers.Dense{10, name = "logits"}(x)
  end
  return keras.Model{inputs = input, outputs = x, name = "two_ipus"}
end

local cfg = ipu.IPUConfig()
cfg.auto_select_ipus = 2
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
model:print_pipeline_stage_assignment_summary()
local history = model:fit(dataset(), {epochs = epochs, steps_per_epoch = steps})
print("updates", model.optimizer.iterations:item())
for i, loss in ipairs(history.history.loss) do
  print(string.format("epoch %d loss %.4f", i, loss))
end
