-- Small networks for specs of pipelines: the same numbers however they are cut into stages.

local ipu = require "ipulua"
local config = require "ipulua.config"

local pipelines = {}

---Configures a device of so many IPUs; options by dotted name. What is returned is to be closed.
function pipelines.device(ipus, options)
  config.reset_ipu_configuration()
  local cfg = ipu.IPUConfig()
  cfg.auto_select_ipus = ipus
  for name, value in pairs(options or {}) do
    local t = cfg
    for category in name:gmatch("([^.]+)%.") do t = t[category] end
    t[name:match("[^.]+$")] = value
  end
  cfg:configure_ipu_system()
  return setmetatable({}, {__close = function() config.reset_ipu_configuration() end})
end

---Configures as many IPUs as a pipeline with these arguments takes, so that there is one replica of
---it.
function pipelines.device_for(given, stages, options)
  local highest = (given.batch_serialization_iterations or 1) > 1 and 0 or stages - 1
  if given.device_mapping then highest = math.max(table.unpack(given.device_mapping)) end
  local ipus = 1
  while ipus < highest + 1 do ipus = ipus * 2 end
  return pipelines.device(ipus, options)
end

---Fails unless f raises an error of the kind whose message has all of the texts.
function pipelines.fails(kind, f, ...)
  local ok, message = pcall(f)
  assert(not ok, "no error was raised")
  for _, text in ipairs {...} do
    assert(tostring(message):find(text, 1, true), "no '" .. text .. "' in: " .. tostring(message))
  end
  local last = ipu.last_error()
  assert(last.kind == kind, "the kind is " .. tostring(last.kind) .. ", not " .. kind .. ": "
    .. tostring(message))
end

-- A network of four layers with dropout and a skip connection, cut after each; batches of 4 rows of
-- 6 numbers.
local Net = {}
Net.__index = Net

function pipelines.net(seed)
  local function weights(shape, k)
    return ipu.Variable(ipu.random.normal(shape, {stddev = 0.4, seed = seed + k}))
  end
  return setmetatable(
    {w = {weights({6, 8}, 1), weights({8, 8}, 2), weights({8, 8}, 3), weights({8, 3}, 4)}}, Net)
end

function Net:infeed(rows)
  local x = ipu.random.normal({rows or 64, 6}, {seed = 11})
  local y = ipu.cast(ipu.random.uniform({rows or 64}, {maxval = 3, seed = 12}), "int32")
  return ipu.IPUInfeedQueue(ipu.data.from_tensor_slices{x, y}:batch(4,
    {drop_remainder = true}):repeat_n())
end

---The four layers as functions; the last gives the loss.
function Net:layers(rate)
  local w = self.w
  return {
    function(x, y) return ipu.tanh(x:matmul(w[1])), y end,
    function(h, y)
      local kept = ipu.recomputation_checkpoint(h)
      return ipu.nn.dropout(ipu.nn.relu(kept:matmul(w[2])), {rate = rate or 0, seed = 3}), h, y
    end,
    function(h, skip, y) return ipu.tanh(h:matmul(w[3])) + skip, y end,
    function(h, y) return ipu.reduce_mean(ipu.nn.sparse_softmax_cross_entropy_with_logits(y,
      h:matmul(w[4]))) end,
  }
end

---Training through ipu.pipeline; the losses, and the weights afterwards as nested lists.
---@param options table arguments of the pipeline that differ from the defaults here
function Net:train(options)
  local infeed, outfeed = self:infeed(), ipu.IPUOutfeedQueue()
  local opt = ipu.train.MomentumOptimizer(0.05, 0.9)
  local given = {
    computational_stages = self:layers(options.rate), gradient_accumulation_count = 8,
    repeat_count = 5, infeed_queue = infeed,
    outfeed_queue = outfeed, outfeed_loss = true,
    optimizer_function = function(loss) return ipu.OptimizerFunctionOutput(opt, loss) end,
  }
  for key, value in pairs(options) do given[key] = value end
  given.rate = nil
  local f = ipu.func(function() return ipu.pipeline(given) end)
  f()
  return outfeed:dequeue(), self:values(), f
end

---The same by gradient accumulation in a loop, on one IPU.
function Net:train_plainly(count, updates, rate)
  local infeed, outfeed = self:infeed(), ipu.IPUOutfeedQueue()
  local opt = ipu.optimizers.GradientAccumulationOptimizerV2(ipu.train.MomentumOptimizer(0.05, 0.9),
    {num_mini_batches = count})
  local layers = self:layers(rate)
  ipu.func(function()
    ipu.loops.repeat_n(count * updates, function(x, y)
      local values = {x, y}
      for _, f in ipairs(layers) do values = table.pack(f(table.unpack(values))) end
      opt:minimize(values[1])
      outfeed:enqueue(values[1])
    end, {}, infeed)
  end)()
  return outfeed:dequeue(), self:values()
end

function Net:values()
  local list = {}
  for i, v in ipairs(self.w) do list[i] = v:read_value():totable() end
  return list
end

return pipelines
