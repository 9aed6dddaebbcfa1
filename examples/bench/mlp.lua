-- W2's model and data: an MLP 784-256-128-64-32-10 on MNIST in batches of 32, with momentum. Part
-- of w2.lua and w2_ga4.lua.
local ipu = require "ipulua"
require "ipulua.script".part("w2.lua and w2_ga4.lua")
local report = require "report"
local data, keras = ipu.data, ipu.keras

local extents <const> = {784, 256, 128, 64, 32, 10}

local flops = -extents[1] * extents[2] -- the images need no gradient
for i = 1, #extents - 1 do flops = flops + 3 * extents[i] * extents[i + 1] end

---Trains, one step for each micro-batch.
---@param workload string
---@param step_count integer
---@param optimizer table
return function(workload, step_count, optimizer)
  local x_train, y_train = report.mnist()
  local ds = data.from_tensor_slices{x_train, y_train}
    :shuffle(60000)
    :batch(32, {drop_remainder = true})
    :map(function(x, y)
      return ipu.cast(x:reshape{32, 784}, "float32") / 255, ipu.cast(y, "int32")
    end)
    :prefetch():repeat_n()
  local infeed, outfeed = ipu.IPUInfeedQueue(ds), ipu.IPUOutfeedQueue()
  local model = keras.Sequential()
  for i = 2, #extents do
    model:add(keras.layers.Dense{extents[i], activation = i < #extents and "relu" or nil})
  end
  model:build{32, 784}
  local loss_of = keras.losses.SparseCategoricalCrossentropy{from_logits = true}
  local train = ipu.func(function(steps)
    return ipu.loops.repeat_n(steps, function(x, y)
      local loss = loss_of(y, model(x))
      optimizer:minimize(loss, {var_list = model.trainable_variables})
      outfeed:enqueue(loss)
    end, {}, infeed)
  end)
  report.run{workload = workload, steps = step_count, flops = 2 * 32 * flops, train = train,
    outfeed = outfeed}
end
