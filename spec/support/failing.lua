-- Trainings of one kind in which one allocation fails, each time another one: `ipulua
-- spec/support/failing.lua MODULE KIND TRIES`, with MODULE (spec/support/failing.c) in LD_PRELOAD.
-- A training that fails says that memory was short. One that goes on, and one after the failures,
-- has the weights of a training in which all went well. Prints how many failed and went on.
local ipu = require "ipulua"

local keras, layers = ipu.keras, ipu.keras.layers
local module <const>, kind <const>, tries <const> = arg[1], arg[2], math.tointeger(arg[3])
local failing <const> = assert(package.loadlib(module, "luaopen_failing"))()

local function offloaded(mode)
  return {gradient_accumulation_steps_per_replica = 4, offload_weight_update_variables = true,
    offload_activations = true, offload_gradient_accumulation_buffers = true,
    replicated_optimizer_state_sharding = true, recomputation_mode = mode}
end

local kinds <const> = {
  plain = {ipus = 1}, replicas = {ipus = 2},
  pipeline = {ipus = 2, options = {gradient_accumulation_steps_per_replica = 4}},
  recomputing = {ipus = 4, options = offloaded("RecomputeAndBackpropagateInterleaved")},
  offloading = {ipus = 4, options = offloaded("Auto")},
}

local config = ipu.IPUConfig()
config.auto_select_ipus = kinds[kind].ipus
config:configure_ipu_system()

ipu.random.set_seed(2)
local x = ipu.random.uniform{32, 8}
local y = ipu.ones{32, 4}

-- A model with nothing traced, and what it has learnt as text, by a training.
local function new_model()
  ipu.random.set_seed(1)
  local m = keras.Sequential{layers.Dense{8, activation = "relu", input_shape = {8}},
    layers.Dense{8}, layers.Dropout{0.1}, layers.Dense{4}}
  if kinds[kind].options then
    m:set_pipeline_stage_assignment{0, 0, 1, 1}
    m:set_pipelining_options(kinds[kind].options)
  end
  m:compile{optimizer = "adam", loss = "mse", steps_per_execution = 4}
  return function() m:fit(x, y, {batch_size = 4, verbose = 0, shuffle = false}) end, function()
    local texts = {}
    for i, w in ipairs(m:get_weights()) do texts[i] = tostring(w) end
    return table.concat(texts, "\n")
  end
end

local function trained(failing_one)
  local train, learnt = new_model()
  failing.arm(failing_one)
  local good, e = pcall(train)
  local allocations = failing.disarm()
  return good and learnt(), e, allocations
end

local wanted, e, allocations = trained(1 << 40)
assert(wanted, e)
local failed, went_on = 0, 0
for i = 1, tries do
  local weights, said = trained(1 + i * 245489 % allocations)
  said = tostring(said)
  if weights then
    went_on = went_on + 1
    assert(weights == wanted, "a training that went on has other weights")
  else
    failed = failed + 1
    assert(said:find "memory" or said:find "cannot allocate", said)
  end
end
assert(trained(1 << 40) == wanted, "a training after failures has other weights")
assert(failed + went_on == tries)
print(failed, went_on)
