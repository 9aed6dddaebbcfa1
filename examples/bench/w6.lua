-- W6: a character LSTM of 256 units, 64 characters, batch 32, Adam. Prints one JSON line.
local ipu = require "ipulua"
package.path = (arg[0]:match("^(.*/)") or "") .. "?.lua;" .. package.path
local report = require "report"
local step_count = require "ipulua.script".arguments{{"steps", 200}}
local keras = ipu.keras
local layers = keras.layers

local batch <const>, length <const>, width <const>, units <const> = 32, 64, 128, 256
local text, _, vocabulary = keras.datasets.text.load_data()
local infeed = ipu.IPUInfeedQueue(report.windows(text, batch, length))
local outfeed = ipu.IPUOutfeedQueue()

local model = keras.Sequential{
  layers.Embedding(vocabulary.size, width),
  layers.LSTM{units, return_sequences = true},
  layers.Dense(vocabulary.size),
}
local loss_of = keras.losses.SparseCategoricalCrossentropy{from_logits = true}
local optimizer = keras.optimizers.Adam(0.001)

local train = ipu.func(function(steps)
  return ipu.loops.repeat_n(steps, function(x, y)
    local loss = loss_of(y, model(x, {training = true}))
    local variables = model.trainable_variables
    optimizer:apply_gradients(ipu.gradients(loss, variables), variables)
    outfeed:enqueue(loss)
  end, {}, infeed)
end)

report.run{workload = "w6", steps = step_count, train = train, outfeed = outfeed,
  flops = 6 * batch * length * (4 * units * (width + units) + units * vocabulary.size)}
