-- A Sequential model over two IPUs. --schedule is Grouped, Interleaved, Sequential or OneFOneB. It
-- changes time and memory, but no digit of the losses: compare two runs with the same seed, such as
-- `ipulua --seed 1 mnist_sequential_pipelined.lua`. A weight update has four micro-batches, so
-- --steps is a multiple of four.
local ipu = require "ipulua"
local keras, layers, data = ipu.keras, ipu.keras.layers, ipu.data

local batch_size, epochs = 32, 4
-- steps: of an epoch, and of an execution
local steps, schedule = require "ipulua.script".arguments{{"steps", 500, short = 100},
  {"schedule", "Grouped"}}

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
  return keras.Sequential{
    layers.Flatten(),
    layers.Dense{256, activation = "relu"}, layers.Dense{128, activation = "relu"},
    layers.Dense{64, activation = "relu"}, layers.Dense{32, activation = "relu"},
    layers.Dense{10},
    name = "two_ipus",
  }
end

local cfg = ipu.IPUConfig()
cfg.auto_select_ipus = 2
cfg:configure_ipu_system()

local strategy = ipu.IPUStrategy()
local _ <close> = strategy:scope()
local model = create_model()
model:set_pipeline_stage_assignment{0, 0, 1, 1, 1, 1}
model:compile{
  loss = keras.losses.SparseCategoricalCrossentropy{from_logits = true},
  optimizer = keras.optimizers.SGD{learning_rate = 0.01, momentum = 0.9},
  steps_per_execution = steps,
}
model:set_pipelining_options{schedule = schedule}
model:set_pipelining_options{gradient_accumulation_steps_per_replica = 4}
local history = model:fit(dataset(), {epochs = epochs, steps_per_epoch = steps})
print(ipu.timetable(model))
for i, loss in ipairs(history.history.loss) do
  print(string.format("epoch %d loss %.9f", i, loss))
end
