-- The time of a training step on one process or, under mpirun, on several. Instance 0 prints the
-- best of eight rounds in microseconds. --step is one of
--   mlp     784-128-10, batch 32, SGD
--   cnn     the convolutional network of w3, batch 64, Adam
--   scalar  a cross_replica_sum in a loop
--   float   distributed.allreduce of one number
local ipu = require "ipulua"
local core = require "ipulua.core"
local keras, popdist = ipu.keras, ipu.popdist
local layers = keras.layers
local kind <const> = require "ipulua.script".arguments{{"step", "mlp"}}
local cfg = ipu.IPUConfig()
popdist.set_ipu_config(cfg)
cfg:configure_ipu_system()
local strategy = ipu.PopDistStrategy()
local _ <close> = strategy:scope()
local mine <const> = popdist.getInstanceIndex() + 1

local function least(rounds, steps, f)
  local found = math.huge
  f()
  for _ = 1, rounds do
    local began = core.clock()
    f()
    found = math.min(found, (core.clock() - began) / steps * 1e6)
  end
  return found
end

local function training(model, batch, shape, optimizer, steps)
  model:compile{loss = keras.losses.SparseCategoricalCrossentropy{from_logits = true},
    optimizer = optimizer, steps_per_execution = steps}
  local x = ipu.random.normal({batch, table.unpack(shape)}, {seed = mine})
  local y = ipu.cast(ipu.floor(ipu.random.uniform({batch}, {seed = mine + 9}) * 10), "int32")
  local ds = ipu.data.from_tensors{x, y}:repeat_n()
  local count <const> = steps * popdist.getNumLocalReplicas()
  return least(8, steps, function() model:fit(ds, {steps_per_epoch = count, verbose = 0}) end)
end

local kinds = {}

function kinds.mlp()
  return training(keras.Sequential{layers.Dense{128, activation = "relu", input_shape = {784}},
    layers.Dense{10}}, 32, {784}, keras.optimizers.SGD(0.01), 300)
end

function kinds.cnn()
  return training(keras.Sequential{
    layers.Conv2D{32, 3, activation = "relu", input_shape = {28, 28, 1}},
    layers.Conv2D{64, 3, activation = "relu"}, layers.MaxPooling2D(2), layers.Flatten(),
    layers.Dense{128, activation = "relu"}, layers.Dense{10}}, 64, {28, 28, 1},
    keras.optimizers.Adam(0.001), 4)
end

function kinds.scalar()
  local loop = ipu.func(function()
    return ipu.loops.repeat_n(2000, function(x) return ipu.cross_replica_sum(x) * 0.5 end, {1.0})
  end)
  return least(8, 2000, function() strategy:run(loop) end)
end

function kinds.float()
  local x = ipu.tensor(1.0)
  return least(8, 500, function()
    for _ = 1, 500 do ipu.distributed.allreduce(x, "SUM") end
  end)
end

local time = assert(kinds[kind], "mlp, cnn, scalar or float")()
if mine == 1 then print(string.format("%.1f", time)) end
