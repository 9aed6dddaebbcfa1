-- The same training on one IPU and on several replicas; --replicas is their number, a power of two.
-- Each replica has a copy of the model and batches of its own. Gradients are averaged over the
-- replicas before each update. So four replicas learn the same as one IPU with batches four times
-- as large.
local ipu = require "ipulua"
local data = ipu.data

local replicas, steps = require "ipulua.script".arguments{{"replicas", 4},
  {"steps", 200, short = 20}}
local batch_size <const> = 32

local function dataset(size)
  local x, y = ipu.keras.datasets.mnist.load_data()
  return data.from_tensor_slices{x, y}
    :batch(size, {drop_remainder = true})
    :map(function(images, labels)
      return ipu.reshape(ipu.cast(images, "float32") / 255, {size, 784}), ipu.cast(labels, "int32")
    end)
    :repeat_n()
end

-- Weights after training, and the loss of each step and replica.
local function train(ipus, size)
  ipu.reset_ipu_configuration()
  local cfg = ipu.IPUConfig()
  cfg.auto_select_ipus = ipus
  cfg:configure_ipu_system()
  local w1 = ipu.Variable(ipu.random.normal({784, 64}, {stddev = 0.05, seed = 1}))
  local w2 = ipu.Variable(ipu.random.normal({64, 10}, {stddev = 0.05, seed = 2}))
  local infeed, outfeed = ipu.IPUInfeedQueue(dataset(size)), ipu.IPUOutfeedQueue()
  local optimizer = ipu.optimizers.CrossReplicaOptimizer(ipu.train.MomentumOptimizer(0.05, 0.9))
  local loop = ipu.func(function()
    ipu.loops.repeat_n(steps, function(images, labels)
      local logits = ipu.matmul(ipu.nn.relu(ipu.matmul(images, w1)), w2)
      local loss = ipu.reduce_mean(ipu.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))
      optimizer:minimize(loss, {var_list = {w1, w2}})
      outfeed:enqueue(loss)
    end, {}, infeed)
  end)
  ipu.IPUStrategy():run(loop)
  local losses = outfeed:dequeue()
  print(string.format("%d IPU%s, batches of %d: losses %s, last loss %.6f", ipus,
    ipus == 1 and "" or "s", size,
    table.concat(losses.shape, "x"), ipu.reduce_mean(losses[#losses]):item()))
  return w1:read_value()
end

local shared, joined = train(replicas, batch_size), train(1, batch_size * replicas)
print(string.format("largest difference of a weight: %.1e",
  ipu.reduce_max(ipu.abs(joined - shared)):item()))
