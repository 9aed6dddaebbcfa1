-- The gain of several IPUs' threads on one computer. A wide and a small MLP are trained as one lane
-- with gradient accumulation, as a pipeline of two stages, and on two replicas. A JSON line each,
-- times per sample against one lane on one thread. --wide or --small measures that one alone. Both
-- take a minute or two.
local core = require "ipulua.core"
local ipu = require "ipulua"
local wide, small = require "ipulua.script".arguments{"wide", "small"}
local keras = ipu.keras

local micro_batches <const>, seconds <const> = 32, 2

local sizes <const> = {
  wide = {batch = 256, units = {1024, 1024, 1024, 1024, 1024, 1024}, stages = {0, 0, 0, 1, 1, 1}},
  small = {batch = 32, units = {256, 128, 64, 32, 10}, inputs = 784, stages = {0, 1, 1, 1, 1}},
}

-- A model of that size in a way of training it; returns a function that trains a few steps.
local function trainer(size, way)
  ipu.reset_ipu_configuration()
  local cfg = ipu.IPUConfig()
  cfg.auto_select_ipus = way.ipus
  cfg:configure_ipu_system()
  local inputs = size.inputs or size.units[1]
  local model = keras.Sequential()
  for i, units in ipairs(size.units) do
    model:add(keras.layers.Dense{units, activation = "relu", input_shape = i == 1
      and {inputs} or nil})
  end
  way.arrange(model, size.stages)
  model:compile{optimizer = keras.optimizers.SGD(0.001), loss = "mse",
    steps_per_execution = micro_batches // way.replicas}
  local x, y = ipu.random.normal({size.batch, inputs}, {seed = 1}),
    ipu.random.normal({size.batch, size.units[#size.units]}, {seed = 2})
  local data = ipu.data.from_tensors{x, y}:repeat_n()
  return function(executions)
    model:fit(data, {steps_per_epoch = micro_batches * executions, verbose = 0})
  end
end

local function accumulate(count)
  return function(model)
    model:set_gradient_accumulation_options{gradient_accumulation_steps_per_replica = count}
  end
end

local ways <const> = {
  one = {ipus = 1, replicas = 1, arrange = accumulate(micro_batches)},
  pipeline = {ipus = 2, replicas = 1, arrange = function(model, stages)
    model:set_pipeline_stage_assignment(stages)
    model:set_pipelining_options{gradient_accumulation_steps_per_replica = micro_batches,
      pipeline_schedule = "Grouped"}
  end},
  replicas = {ipus = 2, replicas = 2, arrange = accumulate(micro_batches // 2)},
}

-- Microseconds a sample; the least of several rounds, since other work on the machine only adds.
local function measure(size, way, threads)
  io.stderr:write(string.format("%s, threads: %d …\n", way, threads))
  ipu.set_num_threads(threads)
  local train = trainer(size, ways[way])
  train(1)
  local start = core.clock()
  train(1)
  local executions = math.max(1, math.floor(seconds / 4 / (core.clock() - start)))
  local best = math.huge
  for _ = 1, 4 do
    start = core.clock()
    train(executions)
    best = math.min(best, core.clock() - start)
  end
  return best / (executions * micro_batches * size.batch) * 1e6
end

local both <const> = wide == small
local function compare(name)
  local size = sizes[name]
  local alone = measure(size, "one", 1)
  local figures = {name = name, us_one = alone, two_threads = alone / measure(size, "one", 2)}
  for _, way in ipairs{"pipeline", "replicas"} do figures[way] = alone / measure(size, way, 2) end
  print(ipu.json.encode(figures))
end
if both or wide then compare "wide" end
if both or small then compare "small" end
