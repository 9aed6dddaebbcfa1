-- Random Keras models, cut into random stages. Results of `fit`, `evaluate` and `predict` of a
-- pipelined model must have the bits of the same model on one IPU that accumulates gradients.
--
--   build/ipulua spec/support/fuzz_keras_pipelines.lua [first seed] [how many]

local ipu = require "ipulua"
local pipelines = require "spec.support.pipelines"
local seeds = require "spec.support.fuzz_seeds"

local keras <const> = ipu.keras
local layers <const> = keras.layers

local fuzz = {}

local below <const>, pick <const> = seeds.below, seeds.pick

-- ------------------------------------------------ layers

local function started(seed) return keras.initializers.GlorotUniform{seed = seed} end

local Count = layers.Layer:extend("Count") -- counts its calls, and adds a loss and a metric

function Count:build()
  self.n = self:add_weight{name = "n", shape = {}, initializer = "zeros", trainable = false}
end

function Count:call(x)
  self.n:assign_add(1)
  self:add_loss(ipu.reduce_mean(ipu.square(x)) * 0.01)
  return x * (1 + self.n * 0.125)
end

local kinds <const> = {
  function(k) return layers.Dense{7, activation = "tanh", kernel_initializer = started(k)} end,
  function(k)
    return layers.Dense{5, kernel_initializer = started(k), kernel_regularizer = "l2"}
  end,
  function() return layers.BatchNormalization() end,
  function() return layers.LayerNormalization() end,
  function() return layers.Activation "relu" end,
  function() return Count() end,
  function() return layers.Dropout{0.25, seed = 4} end,
  function(k) return layers.Dense{6, kernel_initializer = started(k), activity_regularizer = "l1",
    kernel_constraint = keras.constraints.MaxNorm(0.5)} end,
  function() return layers.GaussianNoise{0.25, seed = 9} end,
}

local function random_plan(random)
  local plan = {
    kinds = {}, optimizer = pick(random, {"sgd", "adam", "momentum", "clipped", "rmsprop"}),
    count = pick(random, {2, 4, 8}), reduction = pick(random, {"SUM", "MEAN", "RUNNING_MEAN"}),
    functional = random() < 0.5, weighted = random() < 0.3, validates = random() < 0.5,
    changes_rate = random() < 0.3, epochs = 1 + below(random, 2),
    frozen = random() < 0.2, twice = random() < 0.3, runs = 1 + below(random, 2),
  }
  for i = 1, 3 + below(random, 4) do plan.kinds[i] = 1 + below(random, #kinds) end
  plan.recurrent = random() < 0.3 and pick(random, {"LSTM", "GRU", "SimpleRNN"}) or nil
  plan.replicas = random() < 0.3 and 2 or 1
  return plan
end

local optimizers <const> = {
  sgd = function() return keras.optimizers.SGD(0.0625) end,
  momentum = function() return keras.optimizers.SGD{0.0625, momentum = 0.5, nesterov = true} end,
  adam = function() return keras.optimizers.Adam(0.0625) end,
  clipped = function() return keras.optimizers.SGD{0.0625, clipnorm = 0.5} end,
  rmsprop = function() return keras.optimizers.RMSprop(0.0625) end,
}

local function model_of(plan)
  local list = {}
  for i, kind in ipairs(plan.kinds) do
    list[i] = kinds[kind](i)
    if plan.frozen and i == 2 then list[i].trainable = false end
  end
  list[#list + 1] = layers.Dense{2, kernel_initializer = started(77)}
  if plan.recurrent then
    table.insert(list, 1, layers[plan.recurrent]{5, kernel_initializer = started(78),
      dropout = 0.25, return_sequences = true})
    table.insert(list, 2, layers.LSTM{6, kernel_initializer = started(79)})
  end
  if not plan.functional then
    local m = keras.Sequential(list)
    m:build(plan.recurrent and {-1, 3, 6} or {-1, 6})
    return m, #list
  end
  local input = keras.Input{shape = plan.recurrent and {3, 6} or {6}}
  local h = input
  for _, layer in ipairs(list) do h = layer(h) end
  return keras.Model{inputs = input, outputs = h}, #list
end

-- ------------------------------------------------ ways to run

local function sequence(random, n, stages)
  local cut = {}
  while stages - 1 > #cut do
    local at, fresh = 1 + below(random, n - 1), true
    for _, c in ipairs(cut) do fresh = fresh and c ~= at end
    if fresh then cut[#cut + 1] = at end
  end
  table.sort(cut)
  local list, stage = {}, 0
  for i = 1, n do
    list[i] = stage
    if cut[stage + 1] == i then stage = stage + 1 end
  end
  return list
end

local function random_way(random, plan)
  local n = #plan.kinds + 1 + (plan.recurrent and 2 or 0)
  local stages = 2 + below(random, math.min(3, n - 1))
  local schedule = pick(random, {"Grouped", "Interleaved", "Sequential", "OneFOneB"})
  local way = {stages = sequence(random, n, stages), recompute = random() < 0.4, options = {
    pipeline_schedule = schedule, gradient_accumulation_steps_per_replica = plan.count,
    gradient_accumulation_reduction_method = plan.reduction,
  }}
  if schedule ~= "Interleaved" and random() < 0.5 then
    way.options.device_mapping = {}
    for s = 1, stages do way.options.device_mapping[s] = 0 end
  end
  for _, name in ipairs{"offload_activations", "offload_gradient_accumulation_buffers",
    "offload_weight_update_variables"} do
    if random() < 0.3 then way.options[name] = random() < 0.5 end
  end
  if way.recompute and random() < 0.5 then
    way.options.recomputation_mode = "RecomputeAndBackpropagateInterleaved"
  end
  return way
end

local function history_text(h)
  local names, parts = {}, {}
  for name in pairs(h) do names[#names + 1] = name end
  table.sort(names)
  for _, name in ipairs(names) do
    local numbers = {}
    for i, v in ipairs(h[name]) do numbers[i] = string.format("%a", v) end
    parts[#parts + 1] = name .. " " .. table.concat(numbers, " ")
  end
  return table.concat(parts, "\n")
end

local function result_text(r)
  local parts = {}
  for i, v in ipairs(type(r) == "table" and r or {r}) do parts[i] = string.format("%a", v) end
  return table.concat(parts, " ")
end

local Halve = keras.callbacks.Callback:extend("Halve")
function Halve:on_epoch_end(_) self.model.optimizer.learning_rate = 0.03125 end

local function train(plan, way)
  ipu.random.set_seed(5)
  local m = model_of(plan)
  if way.stages then
    if plan.functional then
      local list = m:get_pipeline_stage_assignment()
      for i, each in ipairs(list) do each.pipeline_stage = way.stages[i] end
      m:set_pipeline_stage_assignment(list)
    else
      m:set_pipeline_stage_assignment(way.stages)
    end
    m:set_pipelining_options(way.options)
  else
    m:set_gradient_accumulation_options{
      gradient_accumulation_steps_per_replica = plan.count,
      gradient_accumulation_reduction_method = plan.reduction,
    }
  end
  m:compile{loss = "mse", optimizer = optimizers[plan.optimizer](), metrics = {"mae"},
    steps_per_execution = 8 * plan.runs}
  local rows <const> = 64 * plan.runs * plan.replicas
  local x = ipu.random.normal(plan.recurrent and {rows, 3, 6} or {rows, 6}, {seed = 1})
  local y = ipu.random.normal({rows, 2}, {seed = 2})
  local weights = plan.weighted and ipu.random.uniform({rows}, {seed = 3}) or nil
  local lines = {}
  for _ = 1, plan.twice and 2 or 1 do
    local h = m:fit{x = x, y = y, batch_size = 4, epochs = plan.epochs, verbose = 0,
      shuffle = false, sample_weight = weights,
      validation_data = plan.validates and {x * 0.5, y} or nil,
      callbacks = plan.changes_rate and {Halve()} or nil}
    lines[#lines + 1] = history_text(h.history)
  end
  lines[#lines + 1] = result_text(m:evaluate{x = x, y = y, batch_size = 4, verbose = 0})
  local held = m:get_weights()
  held[#held + 1] = m:predict(x, {batch_size = 4})
  return lines, held
end

local function configured(plan, way)
  local highest, n = 0, 1
  for _, s in ipairs(way.stages or {0}) do highest = math.max(highest, s) end
  if way.options and way.options.device_mapping then highest = 0 end
  while n < highest + 1 do n = n * 2 end
  local _ <close> = pipelines.device(n * plan.replicas, {allow_recompute = way.recompute or false})
  local strategy = plan.replicas > 1 and ipu.PopDistStrategy() or ipu.IPUStrategy()
  local _ <close> = strategy:scope()
  return train(plan, way)
end

local function same_bits(a, b)
  return ipu.reduce_all(ipu.logical_or(ipu.equal(a, b),
    ipu.logical_and(ipu.not_equal(a, a), ipu.not_equal(b, b)))):item()
end

local function refused(message)
  for _, words in ipairs{"is not supported by schedule", "must be a multiple",
    "needs each stage on an IPU of its own"} do
    if message:find(words, 1, true) then return true end
  end
end

---Runs the plan of a seed in several ways: nil, or what disagrees; and how many ran.
---@param seed integer
---@return string?
---@return integer
function fuzz.check(seed)
  local random = seeds.generator(seed)
  local plan, ran = random_plan(random), 0
  local ok, lines, held = pcall(configured, plan, {})
  if not ok then return string.format("seed %d, plainly: %s", seed, lines), ran end
  for _ = 1, 3 do
    local way = random_way(random, plan)
    local done, more, others = pcall(configured, plan, way)
    local wrong
    if done then
      ran = ran + 1
      for i, line in ipairs(lines) do
        if line ~= more[i] then wrong = more[i] .. "\n in place of\n" .. line end
      end
      for i, t in ipairs(held) do
        if not same_bits(t, others[i]) then wrong = "value " .. i .. ": " .. tostring(others[i])
          .. " in place of " .. tostring(t) end
      end
    elseif not refused(more) then
      wrong = more
    end
    if wrong then
      return string.format("seed %d %s %s, %s: %s", seed, ipu.json.encode(plan),
        ipu.json.encode(way.stages), ipu.json.encode(way.options), wrong), ran
    end
  end
  return nil, ran
end

seeds.main("fuzz_keras_pipelines", fuzz.check)

return fuzz
