-- W7: an MLP 1024-4096-4096-1024, batch 256, mean squared error, SGD; one drawn batch again and
-- again. Prints one JSON line.
local ipu = require "ipulua"
package.path = (arg[0]:match("^(.*/)") or "") .. "?.lua;" .. package.path
local report = require "report"
local step_count = require "ipulua.script".arguments{{"steps", 100}}
local data, keras = ipu.data, ipu.keras
local layers = keras.layers

local batch <const>, width <const>, hidden <const> = 256, 1024, 4096
local x = ipu.random.normal({batch, width}, {seed = 1})
local y = ipu.random.normal({batch, width}, {seed = 2})
local infeed, outfeed = ipu.IPUInfeedQueue(data.from_tensors{x, y}:repeat_n()),
  ipu.IPUOutfeedQueue()

local model = keras.Sequential{
  layers.Dense{hidden, activation = "relu"}, layers.Dense{hidden, activation = "relu"},
  layers.Dense(width),
}
model:build{batch, width}
local optimizer = keras.optimizers.SGD(0.01)

local train = ipu.func(function(steps)
  return ipu.loops.repeat_n(steps, function(input, target)
    local loss = ipu.reduce_mean(ipu.squared_difference(model(input), target))
    local variables = model.trainable_variables
    optimizer:apply_gradients(ipu.gradients(loss, variables), variables)
    outfeed:enqueue(loss)
  end, {}, infeed)
end)

report.run{workload = "w7", steps = step_count, train = train, outfeed = outfeed,
  flops = 2 * batch * (3 * (2 * width * hidden + hidden * hidden) - width * hidden)}
