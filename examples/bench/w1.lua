-- W1: an MLP 784-128-10 on MNIST, batch 32, SGD; the data pipeline included. Prints one JSON line.
local ipu = require "ipulua"
package.path = (arg[0]:match("^(.*/)") or "") .. "?.lua;" .. package.path
local report = require "report"
local step_count = require "ipulua.script".arguments{{"steps", 10000}}
local data, nn = ipu.data, ipu.nn

local x_train, y_train = report.mnist()
local ds = data.from_tensor_slices{x_train, y_train}
  :shuffle(60000)
  :batch(32, {drop_remainder = true})
  :map(function(x, y)
    return ipu.cast(x:reshape{32, 784}, "float32") / 255, ipu.cast(y, "int32")
  end)
  :prefetch():repeat_n()
local infeed, outfeed = ipu.IPUInfeedQueue(ds), ipu.IPUOutfeedQueue()

local function dense(inputs, units)
  local limit = math.sqrt(6 / (inputs + units))
  return ipu.Variable(ipu.random.uniform({inputs, units}, {minval = -limit, maxval = limit})),
    ipu.Variable(ipu.zeros{units})
end
local w1, b1 = dense(784, 128)
local w2, b2 = dense(128, 10)
local variables = {w1, b1, w2, b2}

local train = ipu.func(function(steps)
  return ipu.loops.repeat_n(steps, function(x, y)
    local hidden = nn.relu(ipu.matmul(x, w1) + b1)
    local logits = ipu.matmul(hidden, w2) + b2
    local loss = ipu.reduce_mean(nn.sparse_softmax_cross_entropy_with_logits(y, logits))
    for i, gradient in ipairs(ipu.gradients(loss, variables)) do
      variables[i]:assign_sub(gradient * 0.01)
    end
    outfeed:enqueue(loss)
  end, {}, infeed)
end)

report.run{workload = "w1", steps = step_count, flops = 2 * 32 * (2 * 784 * 128 + 3 * 128 * 10),
  train = train, outfeed = outfeed}
