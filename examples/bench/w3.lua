-- W3: two convolutions, a pooling and two dense layers on MNIST, batch 64, Adam. Prints one JSON
-- line.
local ipu = require "ipulua"
package.path = (arg[0]:match("^(.*/)") or "") .. "?.lua;" .. package.path
local report = require "report"
local step_count = require "ipulua.script".arguments{{"steps", 200}}
local data, keras = ipu.data, ipu.keras
local layers = keras.layers

local batch <const> = 64
local x_train, y_train = report.mnist()
local ds = data.from_tensor_slices{x_train, y_train}
  :shuffle(60000)
  :batch(batch, {drop_remainder = true})
  :map(function(x, y)
    return ipu.cast(x:reshape{batch, 28, 28, 1}, "float32") / 255, ipu.cast(y, "int32")
  end)
  :prefetch():repeat_n()
local infeed, outfeed = ipu.IPUInfeedQueue(ds), ipu.IPUOutfeedQueue()

local model = keras.Sequential{
  layers.Conv2D{32, 3, activation = "relu"},
  layers.Conv2D{64, 3, activation = "relu"},
  layers.MaxPooling2D(),
  layers.Flatten(),
  layers.Dense{128, activation = "relu"},
  layers.Dense(10),
}
model:build{batch, 28, 28, 1}
local loss_of = keras.losses.SparseCategoricalCrossentropy{from_logits = true}
local optimizer = keras.optimizers.Adam()

local train = ipu.func(function(steps)
  return ipu.loops.repeat_n(steps, function(x, y)
    local loss = loss_of(y, model(x, {training = true}))
    local variables = model.trainable_variables
    optimizer:apply_gradients(ipu.gradients(loss, variables), variables)
    outfeed:enqueue(loss)
  end, {}, infeed)
end)

local first, second, dense = 26 * 26 * 32 * 9 * 2, 24 * 24 * 64 * 288 * 2, 2 * 9216 * 128 + 2 * 1280
report.run{workload = "w3", steps = step_count,
  flops = batch * (3 * (first + second + dense) - first), train = train, outfeed = outfeed}
