-- Compares W1's training step with a shuffled, batched, mapped dataset of MNIST's shape. The result
-- is how many times faster batches come. It is processor time on one thread, the median of seven.
local ipu = require "ipulua"
require "ipulua.script".arguments{}
local data, nn = ipu.data, ipu.nn

ipu.set_num_threads(1)
local images = ipu.cast(ipu.random.uniform({10000, 28, 28}, {maxval = 255}), "uint8")
local ds = data.from_tensor_slices{images, ipu.cast(ipu.arange(10000) % 10, "uint8")}
  :shuffle(10000)
  :batch(32, {drop_remainder = true})
  :map(function(x, y)
    return ipu.cast(x:reshape{32, 784}, "float32") / 255, ipu.cast(y, "int32")
  end)
  :prefetch()
  :repeat_n()

local variables = {}
for i, shape in ipairs {{784, 128}, {128}, {128, 10}, {10}} do
  variables[i] = ipu.Variable(ipu.random.normal(shape, {stddev = 0.05, seed = i}))
end
local w1, b1, w2, b2 = table.unpack(variables)
local train = ipu.func(function(x, y)
  return ipu.loops.repeat_n(300, function(i)
    local logits = ipu.matmul(nn.relu(ipu.matmul(x, w1) + b1), w2) + b2
    local loss = ipu.reduce_mean(nn.sparse_softmax_cross_entropy_with_logits(y, logits))
    for k, gradient in ipairs(ipu.gradients(loss, variables)) do
      variables[k]:assign_sub(gradient * 0.01)
    end
    return i + 1
  end, {0})
end)

local function seconds(f)
  local begun = os.clock()
  f()
  return os.clock() - begun
end

local x, y = ipu.random.uniform({32, 784}, {seed = 9}), ipu.zeros({32}, {dtype = "int32"})
train(x, y)
local ratios = {}
for i = 1, 7 do
  local delivered = seconds(function()
    ipu.dataset_benchmark.dataset_benchmark(ds, 1, 900, {print_stats = false})
  end)
  ratios[i] = 3 * seconds(function() train(x, y) end) / delivered
end
table.sort(ratios)
print(string.format('{"workload":"feed","threads":1,"times_faster":%.1f}', ratios[4]))
