-- Trainings of one kind in which one allocation fails, each time another one: `ipulua
-- spec/support/failing.lua MODULE KIND EVERY`, with MODULE (spec/support/failing.c) in LD_PRELOAD.
-- A training that fails says that memory was short. One that goes on, and one after the failures,
-- has the results of a training in which all went well. Allocations number 1, 1 + EVERY, 1 + 2
-- EVERY … fail. Prints how many trainings failed and went on.
local ipu = require "ipulua"

local keras, layers = ipu.keras, ipu.keras.layers
local module <const>, kind <const>, every <const> = arg[1], arg[2], math.tointeger(arg[3])
local failing <const> = assert(package.loadlib(module, "luaopen_failing"))()

local function offloaded(mode)
  return {gradient_accumulation_steps_per_replica = 4, offload_weight_update_variables = true,
    offload_activations = true, offload_gradient_accumulation_buffers = true,
    replicated_optimizer_state_sharding = true, recomputation_mode = mode}
end

local fits <const> = {
  plain = {ipus = 1}, replicas = {ipus = 2},
  pipeline = {ipus = 2, options = {gradient_accumulation_steps_per_replica = 4}},
  recomputing = {ipus = 4, options = offloaded("RecomputeAndBackpropagateInterleaved")},
  offloading = {ipus = 4, options = offloaded("Auto")},
}

local config = ipu.IPUConfig()
config.auto_select_ipus = fits[kind] and fits[kind].ipus or 1
config:configure_ipu_system()

ipu.random.set_seed(2)
local x = ipu.random.uniform{32, 8}
local y = ipu.ones{32, 4}

local function texts_of(tensors)
  local texts = {}
  for i, each in ipairs(tensors) do texts[i] = tostring(each) end
  return table.concat(texts, "\n")
end

local function new_layers()
  return keras.Sequential{layers.Dense{8, activation = "relu", input_shape = {8}},
    layers.Dense{8}, layers.Dropout{0.1}, layers.Dense{4}}
end

local function fit()
  local m = new_layers()
  if fits[kind].options then
    m:set_pipeline_stage_assignment{0, 0, 1, 1}
    m:set_pipelining_options(fits[kind].options)
  end
  m:compile{optimizer = "adam", loss = "mse", steps_per_execution = 4}
  return function() m:fit(x, y, {batch_size = 4, verbose = 0, shuffle = false}) end,
    function() return texts_of(m:get_weights()) end
end

-- A gradient of a gradient, of variables that are assigned to meanwhile, by a tape that goes on.
local function eager()
  local w = ipu.Variable(x[{1}] * 0.5)
  local results
  return function()
    local outer = ipu.GradientTape{persistent = true}
    local dw
    outer(function()
      local inner = ipu.GradientTape()
      local l = inner(function()
        w:assign_sub(w * 0.1)
        return ipu.reduce_sum(ipu.tanh(x * w) ^ 3) + ipu.reduce_sum(w * w * w)
      end)
      dw = inner:gradient(l, w)
    end)
    results = {dw, outer:gradient(dw, w), w:read_value()}
  end, function() return texts_of(results) end
end

-- Programs with loops, branches and random numbers, traced and run.
local function traced()
  local w = ipu.Variable(ipu.zeros{8})
  local step = ipu.func(function(rows)
    local total = ipu.loops.repeat_n(3, function(t)
      return ipu.cond(ipu.greater(ipu.reduce_sum(t), 1), function() return ipu.tanh(t) + w end,
        function() return t * 2 + ipu.random.uniform{8} end)
    end, ipu.reduce_mean(rows, 0))
    w:assign_add(total)
    return total, ipu.gradients(ipu.reduce_sum(total * total), {rows})[1]
  end)
  local results
  return function() results = {step(x)} end,
    function() return texts_of(results) .. tostring(w:read_value()) end
end

-- Datasets whose stages compute, wait and remember, by a program that reads them from a queue.
local function datasets()
  local ds = ipu.data.from_tensor_slices(x):map(function(row) return row * 2 + 1 end)
    :cache():shuffle(8, {seed = 3}):batch(4, true):prefetch(2):repeat_n(2)
  local results = {}
  return function()
    results = {}
    for batch in ds:iter() do results[#results + 1] = batch end
  end, function() return texts_of(results) end
end

local kinds <const> = {eager = eager, traced = traced, datasets = datasets}

-- The result of a training, as text, or nil and its error. Also the number of its allocations.
local function trained(failing_one)
  ipu.random.set_seed(1)
  local train, learnt = (kinds[kind] or fit)()
  failing.arm(failing_one)
  local good, e = pcall(train)
  local allocations = failing.disarm()
  return good and learnt(), e, allocations
end

trained(1 << 40) -- the first one loads modules
local wanted, e, allocations = trained(1 << 40)
assert(wanted, e)
local failed, went_on = 0, 0
for i = 1, allocations, every do
  local results, said = trained(i)
  said = tostring(said)
  if results then
    went_on = went_on + 1
    assert(results == wanted, "a training that went on has other results: allocation " .. i)
  else
    failed = failed + 1
    assert(said:find "memory" or said:find "cannot allocate", said)
  end
end
assert(trained(1 << 40) == wanted, "a training after failures has other results")
print(allocations, failed, went_on)
