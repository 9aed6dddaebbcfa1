-- Concurrent stages: two halves of a layer, on two IPUs, work on the same micro-batch in the same
-- time step. The next stage gets the outputs of both. Without concurrency, with one half after the
-- other, the losses are the same.
local ipu = require "ipulua"

local repeat_count = require "ipulua.script".arguments{{"repeat_count", 20, short = 10}}

local cfg = ipu.IPUConfig()
cfg.auto_select_ipus = 4
cfg:configure_ipu_system()

local function weights(shape, seed)
  return ipu.Variable(ipu.random.normal(shape, {stddev = 0.3, seed = seed}))
end

-- y is whether the sum of x's elements is positive.
local function infeed()
  local x = ipu.random.normal({256, 8}, {seed = 1})
  local y = ipu.cast(ipu.greater(ipu.reduce_sum(x, {axis = 1}), 0), "int32")
  return ipu.IPUInfeedQueue(ipu.data.from_tensor_slices{x, y}:batch(16,
    {drop_remainder = true}):repeat_n())
end

-- Four stages. They share no variables; each gets the outputs of the one before it.
local function model()
  local w0, left, right, w3 = weights({8, 16}, 2), weights({16, 8}, 3), weights({16, 8}, 4),
    weights({16, 2}, 5)
  local function first(x, y) return ipu.tanh(x:matmul(w0)), y end
  local function left_half(h, y) return ipu.nn.relu(h:matmul(left)), y end
  local function right_half(h, _) return ipu.nn.relu(h:matmul(right)) end
  local function last(a, y, b)
    local logits = ipu.concat({a, b}, 1):matmul(w3)
    return ipu.reduce_mean(ipu.nn.sparse_softmax_cross_entropy_with_logits(y, logits))
  end
  return first, left_half, right_half, last
end

local function run(name, stages, mapping)
  local data, outfeed = infeed(), ipu.IPUOutfeedQueue()
  local f = ipu.func(function()
    return ipu.pipeline{
      computational_stages = stages, device_mapping = mapping, gradient_accumulation_count = 24,
      repeat_count = repeat_count,
      infeed_queue = data, outfeed_queue = outfeed, outfeed_loss = true,
      optimizer_function = function(loss)
        return ipu.OptimizerFunctionOutput(ipu.train.MomentumOptimizer(0.02, 0.9), loss)
      end,
    }
  end, {name = name})
  f()
  return outfeed:dequeue(), f
end

local first, left_half, right_half, last = model()
local side_by_side, f = run("side by side", {first, {left_half, right_half}, last}, {0, {1, 2}, 3})
print(ipu.timetable(f))

first, left_half, right_half, last = model()
local in_a_row = run("in a row", {
  first, function(h, y) return h, left_half(h, y) end,
  function(h, a, y) return a, y, right_half(h, y) end, last,
}, {0, 1, 2, 3})

print("equal", ipu.reduce_all(ipu.equal(side_by_side, in_a_row)):item())
print(string.format("loss %.4f to %.4f", side_by_side[1]:item(),
  side_by_side[#side_by_side]:item()))
