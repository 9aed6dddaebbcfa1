-- A training of a random kind, alone or after one that fails: fuzz_runs.lua SEED fresh | after |
-- again. It prints the history, weights, evaluation, prediction and optimizer in all their bits.
-- after: a model of the same kind failed before. again: the same model did. Both print what fresh
-- prints, and before it a line that says what failed in the other one.

local ipu = require "ipulua"
local keras, data = ipu.keras, ipu.data
local layers <const> = keras.layers

local seed <const>, mode <const> = tonumber(arg[1]), arg[2]
math.randomseed(seed)
require "ipulua.base.log".set_writer(function() end)

local function one_of(list) return list[math.random(#list)] end
local function chance(p) return math.random() < p end

-- ------------------------------------------------ the case

local c = {
  pipelined = chance(0.25), replicas = one_of{1, 1, 2}, strategy = chance(0.4),
  batch = math.random(2, 4), accumulation = one_of{1, 1, 2, 3}, asynchronous = chance(0.2),
  optimizer = one_of{"sgd", "adam", "schedule", "rmsprop"}, dropout = chance(0.5),
  norm = chance(0.3), weighted = one_of{"none", "none", "sample", "class"},
  validation = chance(0.5), shuffle = chance(0.5), source = one_of{"tensors", "dataset", "lua"},
  masked = chance(0.2), fault = one_of{"callback", "callback", "data", "interrupt", "metric"},
  hook = one_of{"on_train_begin", "on_epoch_begin", "on_train_batch_begin", "on_train_batch_end",
    "on_test_begin", "on_test_batch_end", "on_test_end", "on_epoch_end", "on_train_end"},
  at = math.random(1, 3), verb = one_of{"fit", "fit", "fit", "evaluate", "predict"},
}
if c.pipelined then c.accumulation, c.norm, c.masked = 4, false, false end
if c.fault == "data" then c.source = "lua" end
if c.fault == "metric" then c.at = 1 end
c.execution = one_of{1, 1, 4}
c.samples = c.execution == 1 and one_of{8, 12, 13, 17, 22} or c.batch * 4
c.on_ipus = c.pipelined or c.replicas > 1 or c.accumulation > 1
if c.on_ipus then
  c.steps = c.accumulation * math.random(1, 2)
  c.execution = one_of{c.accumulation, c.steps}
  c.steps = c.steps * c.replicas
  c.samples = c.steps * c.batch
end

local cfg = ipu.IPUConfig()
cfg.auto_select_ipus = (c.pipelined and 2 or 1) * c.replicas
cfg:configure_ipu_system()

local failing, hits = false, 0
local function fail(kind)
  if not failing or c.fault ~= kind then return end
  hits = hits + 1
  if hits < c.at then return end
  failing = false
  if kind ~= "interrupt" then error("planned", 0) end
  io.popen("kill -INT $PPID"):close()
  for _ = 1, 100000 do end
end

-- ------------------------------------------------ data

local length <const> = c.masked and 3 or nil
local x = ipu.random.normal(length and {c.samples, length, 4} or {c.samples, 4}, {seed = seed})
if length then
  local present = ipu.greater(ipu.random.uniform({c.samples, length, 1}, {seed = seed + 5}), 0.3)
  x = x * ipu.cast(present, "float32")
end
local y = ipu.cast(ipu.random.uniform({c.samples, 1}, {seed = seed + 1, maxval = 3}), "int32")
local weights = ipu.random.uniform({c.samples}, {seed = seed + 2})

local function dataset()
  local parts, shapes, types = {x, y}, {}, {}
  if c.weighted == "sample" then parts[3] = weights end
  local ds = data.from_tensor_slices(parts)
  if c.shuffle then ds = ds:shuffle(c.samples, {seed = 4}) end
  if c.on_ipus then ds = ds:repeat_n() end
  if c.source == "lua" then
    local inner <const> = ds
    for i, part in ipairs(parts) do
      types[i], shapes[i] = part.dtype, table.move(part.shape, 2, #part.shape, 1, {})
    end
    ds = data.from_generator(function()
      local next_one = inner:iter()
      return function()
        fail "data"
        return next_one()
      end
    end, types, shapes)
  end
  return ds:batch(c.batch, {drop_remainder = c.on_ipus})
end

-- ------------------------------------------------ the model

local function new_model()
  local list = {keras.Input{shape = length and {length, 4} or {4}}}
  local function add(layer) list[#list + 1] = layer end
  if length then add(layers.Masking(0.0)) end
  add(length and layers.LSTM(3) or layers.Dense{5, activation = "tanh"})
  if c.dropout then add(layers.Dropout(0.3)) end
  if c.norm then add(layers.BatchNormalization()) end
  add(layers.Dense{3, activation = "softmax"})
  return keras.Sequential(list)
end

local optimizers <const> = {
  sgd = function() return keras.optimizers.SGD{0.1, momentum = 0.9} end,
  adam = function() return keras.optimizers.Adam(0.01) end,
  rmsprop = function() return keras.optimizers.RMSprop(0.01) end,
  schedule = function()
    return keras.optimizers.SGD{keras.optimizers.schedules.ExponentialDecay(0.1, 2, 0.5)}
  end,
}

local function greatest(_, y_pred)
  fail "metric" -- while it is traced
  return ipu.reduce_max(y_pred, {axis = -1})
end

local function compile(model)
  if c.pipelined then
    local stages = {}
    for i = 1, #model.layers do stages[i] = i <= #model.layers // 2 and 0 or 1 end
    model:set_pipeline_stage_assignment(stages)
    model:set_pipelining_options{gradient_accumulation_steps_per_replica = c.accumulation}
  elseif c.accumulation > 1 then
    model:set_gradient_accumulation_options{
      gradient_accumulation_steps_per_replica = c.accumulation}
  end
  model:set_asynchronous_callbacks(c.asynchronous)
  model:compile{optimizer = optimizers[c.optimizer](), loss = "sparse_categorical_crossentropy",
    metrics = {"accuracy"}, weighted_metrics = {greatest}, steps_per_execution = c.execution}
end

-- ------------------------------------------------ runs

local Fails = keras.callbacks.Callback:extend "Fails"
Fails[c.hook] = function()
  fail "callback"
  fail "interrupt"
end

local function bits(values)
  local out = {}
  for i, v in ipairs(type(values) == "table" and values or {values}) do
    if type(v) ~= "number" then v = ipu.reduce_sum(ipu.cast(v, "float64") * (i + 1)):item() end
    out[i] = string.format("%a", v)
  end
  return table.concat(out, " ")
end

local function arguments(verb)
  local a = {verbose = 0, callbacks = {Fails()}}
  if c.source == "tensors" and not c.on_ipus then
    a.x, a.batch_size, a.y = x, c.batch, verb ~= "predict" and y or nil
    if c.weighted == "sample" and verb ~= "predict" then a.sample_weight = weights end
    -- after a fit that is no failure the same model goes on with other orders
    if verb == "fit" then a.shuffle = c.shuffle and c.verb ~= "fit" end
  else
    a.x = dataset()
    if c.steps then a[verb == "fit" and "steps_per_epoch" or "steps"] = c.steps end
  end
  if verb ~= "fit" then return a end
  a.epochs = 2
  if c.weighted == "class" then a.class_weight = {[0] = 0.5, [1] = 2, [2] = 1} end
  if c.validation then
    a.validation_data = data.from_tensor_slices{x, y}:batch(c.batch, {drop_remainder = c.on_ipus})
  end
  return a
end

local function run(model, verb)
  local result = model[verb](model, arguments(verb))
  if verb ~= "fit" then return bits(result) end
  local keys, out = {}, {}
  for key in pairs(result.history) do keys[#keys + 1] = key end
  table.sort(keys)
  for i, key in ipairs(keys) do out[i] = key .. " " .. bits(result.history[key]) end
  return table.concat(out, " ")
end

-- f(), in the scope of a strategy where the case has one.
local function placed(f)
  local _ <close> = (c.strategy or c.pipelined or c.replicas > 1)
    and ipu.IPUStrategy():scope() or nil
  return f()
end

local function attempt(model)
  compile(model)
  failing = true
  local fine, problem = pcall(run, model, c.verb)
  failing = false
  local failed <const> = hits == c.at and c.fault or "went through"
  print("before", failed, fine and "" or problem:match("[^:]*$"))
end

keras.utils.set_random_seed(seed)
local model = placed(new_model)
local first = {}
for i, w in ipairs(model:get_weights()) do first[i] = w + 0 end
if mode ~= "fresh" then placed(function() attempt(mode == "again" and model or new_model()) end) end

keras.utils.set_random_seed(seed)
placed(function()
  model:set_weights(first)
  compile(model)
  print(run(model, "fit"))
  print(bits(model:get_weights()))
  print(run(model, "evaluate"))
  print(run(model, "predict"))
  print(bits(model.optimizer:get_weights()))
end)
