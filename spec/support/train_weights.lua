-- Trains a small classifier on drawn digits and saves its weights: what the determinism spec
-- compares, byte by byte. arguments: file, steps, prefetch depth
local core = require "ipulua.core"
local ipu = require "ipulua"
local file, steps, depth = arg[1], math.tointeger(tonumber(arg[2])),
  math.tointeger(tonumber(arg[3]))

local images, labels = core.digits(false, 2000, 1)
local ds = ipu.data.from_tensor_slices{images, labels}
  :shuffle(2000):batch(32, {drop_remainder = true})
  :map(function(x, y)
    return ipu.cast(x:reshape{32, 784}, "float32") / 255, ipu.cast(y, "int32")
  end)
  :repeat_n()
local infeed = ipu.IPUInfeedQueue(ds, {prefetch_depth = depth})

local sizes, variables = {784, 96, 33, 10}, {}
for i = 1, #sizes - 1 do
  variables[#variables + 1] =
    ipu.Variable(ipu.random.normal({sizes[i], sizes[i + 1]}, {stddev = 0.05}))
  variables[#variables + 1] = ipu.Variable(ipu.zeros{sizes[i + 1]})
end

local train = ipu.func(function()
  ipu.loops.repeat_n(steps, function(x, y)
    for i = 1, #variables, 2 do
      x = ipu.matmul(x, variables[i]) + variables[i + 1]
      if i + 2 < #variables then x = ipu.nn.dropout(ipu.nn.relu(x), {rate = 0.1}) end
    end
    local loss = ipu.reduce_mean(ipu.nn.sparse_softmax_cross_entropy_with_logits(y, x))
    for i, gradient in ipairs(ipu.gradients(loss, variables)) do
      variables[i]:assign_sub(gradient * 0.05)
    end
  end, {}, infeed)
end)
train()

local named = {}
for i, v in ipairs(variables) do named["w" .. i] = v end
ipu.save(file, named)
