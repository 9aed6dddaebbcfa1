-- Options of set_pipelining_options are used: each changes an observation here.

local ipu = require "ipulua"
local config = require "ipulua.config"
local pipeline = require "ipulua.pipeline"

local keras = ipu.keras
local layers = keras.layers

local x, y = ipu.random.normal({96, 33}, {seed = 1}), ipu.random.normal({96, 5}, {seed = 2})

local function configure(ipus)
  config.reset_ipu_configuration()
  local cfg = ipu.IPUConfig()
  cfg.auto_select_ipus = ipus
  cfg.allow_recompute = true
  cfg.device_connection.enable_remote_buffers = true
  cfg.device_connection.type = "PRE_COMPILE"
  cfg.device_connection.version = "ipu2"
  cfg:configure_ipu_system()
end

local optimizers = keras.optimizers
local function sgd() return optimizers.SGD{0.01, momentum = 0.5} end

local function new_model(o, staged, dtype, optimizer)
  local model = keras.Sequential{
    layers.Dense{33, activation = "tanh", dtype = dtype, input_shape = {33}},
    layers.RecomputationCheckpoint(),
    layers.CaptureUpstreamGradients(layers.Dense{33, dtype = dtype}),
    layers.Dense{5, dtype = dtype}}
  if staged then model:set_pipeline_stage_assignment{0, 0, 0, 1} end
  local given = {gradient_accumulation_steps_per_replica = 4}
  for k, v in pairs(o) do given[k] = v end
  if staged then model:set_pipelining_options(given)
  else model:set_gradient_accumulation_options(given) end
  model:compile{optimizer = (optimizer or sgd)(), loss = "mse", steps_per_execution = 12}
  return model
end

-- Cycles, memory by kind and what the stages take.
local function price(ipus, staged)
  return function(o)
    configure(ipus)
    local e = ipu.estimate(new_model(o, staged), {batch_size = 8})
    local memory, stages = {}, {}
    for kind, bytes in pairs(e.memory) do memory[kind] = bytes end
    for i, s in ipairs(e.stages or {}) do
      stages[i] = {s.forward_cycles, s.backward_cycles, s.ipu}
    end
    return {e.cycles.total, memory, stages}
  end
end

-- Weights after a training, its optimizer's state, and what is reported of it.
local function trained(staged, dtype, optimizer)
  return function(o)
    config.reset_ipu_configuration()
    local cfg = ipu.IPUConfig()
    cfg.auto_select_ipus = staged and 2 or 1
    cfg:configure_ipu_system()
    keras.utils.set_random_seed(1)
    local model, seen = new_model(o, staged, dtype, optimizer), {}
    model:set_asynchronous_callbacks(true)
    local history = model:fit{x = x, y = y, batch_size = 8, verbose = 0, shuffle = false,
      callbacks = keras.callbacks.LambdaCallback{on_train_batch_end = function(step)
        seen[#seen + 1] = step
      end}}.history
    local made, weights = ipu.programs(), {}
    for _, list in ipairs{model:get_weights(), model.optimizer:get_weights()} do
      for _, w in ipairs(list) do weights[#weights + 1] = ipu.cast(w, "float32"):totable() end
    end
    return {weights, history.loss, seen, made[#made].name}
  end
end

-- A changed gradient: where it is a matrix, a product.
local function by_product()
  return optimizers.MapGradientOptimizer(sgd(), function(g)
    if g.rank < 2 then return g end
    return ipu.matmul(g, ipu.full({g.shape[2], g.shape[2]}, 0.03, {dtype = g.dtype}))
  end)
end
local function narrowed()
  return optimizers.MapGradientOptimizer(sgd(), function(g) return ipu.cast(g, "float16") end)
end
local function scaling()
  return optimizers.ALSOptimizer(sgd(), {update_frequency = 2, max_loss_scaling_factor = 65536.0,
    initial_loss_scaling_factor = 4096.0})
end

local function both(t) return {ipu.PipelineStageOptions(t), ipu.PipelineStageOptions(t)} end
local half <const> = {matmul_options = {partialsType = "half"}}

-- option → {value, what is observed}
local pipelined <const> = {
  gradient_accumulation_steps_per_replica = {12, trained(true)},
  gradient_accumulation_reduction_method = {"MEAN", trained(true)},
  gradient_accumulation_dtype = {"float32", trained(true, "float16", narrowed)},
  device_mapping = {{1, 0}, price(2, true)},
  accumulate_outfeed = {true, trained(true)},
  pipeline_schedule = {"Sequential", price(2, true)},
  recomputation_mode = {"RecomputeAndBackpropagateInterleaved", price(2, true)},
  offload_activations = {true, price(2, true)},
  offload_gradient_accumulation_buffers = {true, price(2, true)},
  offload_weight_update_variables = {false, price(2, true)},
  offload_weights = {true, price(2, true)},
  replicated_weight_sharding = {true, price(4, true)},
  replicated_optimizer_state_sharding = {true, price(4, true)},
  forward_propagation_stages_poplar_options = {both(half), trained(true, "float16")},
  backward_propagation_stages_poplar_options = {both(half), trained(true, "float16")},
  weight_update_poplar_options = {ipu.PipelineStageOptions(half),
    trained(true, "float16", by_product)},
  gradient_accumulation_for_captured_grads = {false, trained(true, "float16", scaling)},
  name = {"another", trained(true)},
}

local function observe(seen, option, value)
  return seen[2](value ~= nil and {[option] = value} or {})
end

describe("an option of a pipelined model changes something:", function()
  teardown(config.reset_ipu_configuration)
  local names = {"gradient_accumulation_steps_per_replica",
    "gradient_accumulation_reduction_method"}
  local probe = keras.Sequential{layers.Dense{1, input_shape = {1}}}
  for _, row in ipairs(pipeline.rows) do
    -- those that the model hands on
    local taken, why = pcall(probe.set_pipelining_options, probe, {[row[1]] = {}})
    if taken or not tostring(why):find("is set automatically", 1, true)
      and not tostring(why):find("is not compatible", 1, true)
      and not tostring(why):find("is called", 1, true)
      and not tostring(why):find("is set by", 1, true)
      and not tostring(why):find("has no argument", 1, true) then
      names[#names + 1] = row[1]
    end
  end
  for _, option in ipairs(names) do
    it(option, function()
      local seen = pipelined[option]
      if option == "continuous_weight_updates" then
        assert.is_false(pcall(probe.set_pipelining_options, probe, {[option] = true}))
        return
      end
      assert.is_table(seen, "nothing shows what this option changes")
      assert.not_same(observe(seen, option), observe(seen, option, seen[1]))
    end)
  end
end)
