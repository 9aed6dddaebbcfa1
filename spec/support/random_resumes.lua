-- Random trainings that are stopped in their midst and resumed by BackupAndRestore, beside the same
-- without a stop. The weights, the optimizer's state and the last epochs' logs have the same bits.
--
--   build/ipulua spec/support/random_resumes.lua [first seed] [how many]

local chains = require "spec.support.dataset_chains"
local command = require "spec.support.command"
local core = require "ipulua.core"
local ipu = require "ipulua"

local keras, data = ipu.keras, ipu.data
local layers, optimizers, callbacks = keras.layers, keras.optimizers, keras.callbacks
local schedules = optimizers.schedules

local resumes = {}

local batch <const>, features <const> = 4, 3

local function pick(random, list) return list[random(#list) + 1] end

-- ------------------------------------------------ models

local hidden <const> = {
  function(random) return layers.Dense{random(5) + 2, activation = "tanh"} end,
  function() return layers.BatchNormalization() end,
  function() return layers.Dropout(0.3) end,
  function(random) return layers.Dropout{0.2, seed = random(100)} end,
  function() return layers.GaussianNoise(0.1) end,
  function() return layers.AlphaDropout(0.2) end,
  function() return layers.LayerNormalization() end,
  function() return layers.Dense{4, kernel_regularizer = "l2", kernel_constraint = "max_norm"} end,
}

local recurrent <const> = {
  function(o) return layers.LSTM(o) end, function(o) return layers.GRU(o) end,
  function(o) return layers.SimpleRNN(o) end,
}

local function draw_model(random)
  local list = {layers.InputLayer{input_shape = {features}, batch_size = batch}}
  for _ = 1, random(4) do list[#list + 1] = pick(random, hidden)(random) end
  if random(3) == 0 then
    list[#list + 1] = layers.Reshape{1, -1}
    list[#list + 1] = pick(random, recurrent){4, stateful = random(2) == 0, dropout = 0.2,
      recurrent_dropout = random(2) * 0.3}
  end
  list[#list + 1] = layers.Dense(1)
  return keras.Sequential(list)
end

local function draw_rate(random)
  local makers = {
    function() return schedules.ExponentialDecay(0.05, 3, 0.7, random(2) == 0) end,
    function() return schedules.CosineDecayRestarts(0.05, 4) end,
    function() return schedules.PiecewiseConstantDecay({3, 8}, {0.05, 0.02, 0.01}) end,
    function() return schedules.InverseTimeDecay(0.05, 3, 0.5) end,
    function() return schedules.PolynomialDecay{0.05, 9, cycle = random(2) == 0} end,
  }
  if random(2) == 0 then return 0.03, false end
  return pick(random, makers)(), true
end

local rules <const> = {"SGD", "Adam", "AdamW", "Adamax", "Nadam", "RMSprop", "Adagrad", "Adadelta",
  "Ftrl", "LAMB", "Lion"}

local function draw_optimizer(random)
  local rate, is_schedule = draw_rate(random)
  local o = {learning_rate = rate}
  local name = pick(random, rules)
  if random(4) == 0 then o[pick(random, {"clipnorm", "clipvalue", "global_clipnorm"})] = 0.3 end
  if random(4) == 0 then o.use_ema = true end
  if o.use_ema and random(2) == 0 then o.ema_overwrite_frequency = 3 end
  if random(4) == 0 and name ~= "AdamW" then o.weight_decay = 0.01 end
  if random(5) == 0 then o.decay = 0.1 end
  if (name == "SGD" or name == "RMSprop") and random(2) == 0 then o.momentum = 0.9 end
  local opt, wrapper = optimizers[name](o), random(6)
  if wrapper == 0 then opt = optimizers.GradientAccumulationOptimizer(opt, random(2) + 2) end
  if wrapper == 1 then
    opt = optimizers.ALSOptimizer(opt, {update_frequency = random(3) + 1,
      initial_loss_scaling_factor = 16.0})
  end
  return opt, is_schedule
end

-- ------------------------------------------------ data

local function noisy(random)
  local seed = random(2) == 0 and random(50) or nil
  return function(x, y) return x + ipu.random.normal({features}, {seed = seed}) * 0.1, y end
end

local stages <const> = {
  function(ds, random) return ds:map(noisy(random)) end,
  function(ds, random)
    return ds:shuffle(pick(random, {5, 17, 100}), {seed = random(2) == 0 and 7 or nil,
      reshuffle_each_iteration = random(3) > 0})
  end,
  function(ds) return ds:cache() end,
  function(ds, random) return ds:take(16 + random(9)) end,
  function(ds, random) return ds:repeat_n(random(2) + 1) end,
  function(ds, random) return ds:prefetch(random(3)) end,
  function(ds, random)
    return ds:map(noisy(random), {eager = true, output_types = {"float32", "float32"},
      output_shapes = {{features}, {1}}})
  end,
  function(ds, random)
    local noise = noisy(random)
    return ds:flat_map(function(x, y) return data.from_tensors{noise(x, y)} end)
  end,
  function(ds) return ds:filter(function(x) return ipu.greater(x[1], -1.2) end) end,
  function(ds, random)
    return ds:interleave(function(x, y) return data.from_tensors{x, y}:repeat_n(2) end,
      {cycle_length = random(3) + 1})
  end,
}

local function draw_data(random, n)
  local x, y = {}, {}
  for i = 1, n do
    x[i], y[i] = {}, {random(2001) / 1000 - 1}
    for k = 1, features do x[i][k] = random(2001) / 1000 - 1 end
  end
  return data.from_tensor_slices{ipu.tensor(x), ipu.tensor(y)}
end

local function draw_dataset(random, is_endless)
  local ds = draw_data(random, 24)
  for _ = 1, random(4) do ds = pick(random, stages)(ds, random) end
  if is_endless then ds = ds:repeat_n() end
  return ds:batch(batch, {drop_remainder = true})
end

-- ------------------------------------------------ a training

-- The same for each seed: whoever makes it may have drawn other random numbers before.
local function make(seed)
  local random = chains.random_of(seed)
  local t = {epochs = random(3) + 2, steps = random(3) == 0 and 4 or nil}
  t.model = draw_model(random)
  local opt, is_schedule = draw_optimizer(random)
  t.data = draw_dataset(random, t.steps ~= nil)
  t.model:compile{optimizer = opt, loss = pick(random, {"mse", "mae", "huber"}), metrics = {"mae"},
    steps_per_execution = t.steps and random(2) + 1 or 1}
  t.validation = random(3) == 0 and draw_data(random, 8):shuffle(8):batch(batch) or nil
  t.save_freq = random(2) == 0 and "epoch" or random(3) + 1
  t.stop_at = random(9) + 2
  local watches = t.validation and "val_loss" or "loss"
  t.callbacks = {}
  if not is_schedule and random(2) == 0 then
    t.callbacks[1] = callbacks.ReduceLROnPlateau{monitor = watches, patience = 1, min_delta = 0.05,
      factor = 0.5}
  elseif not is_schedule and random(2) == 0 then
    t.callbacks[1] = callbacks.LearningRateScheduler(function(epoch, rate)
      return epoch % 2 == 1 and rate * 0.7 or rate
    end)
  end
  if random(3) == 0 then
    t.callbacks[#t.callbacks + 1] = callbacks.EarlyStopping{monitor = watches, patience = 1,
      restore_best_weights = random(2) == 0}
  end
  return t
end

local stopped <const> = "stopped in its midst"

-- Trains; at a batch call it is stopped, if there are so many.
local function train(t, folder, stop_at)
  local list, calls = table.move(t.callbacks, 1, #t.callbacks, 1, {}), 0
  if folder then
    list[#list + 1] = callbacks.BackupAndRestore{folder, save_freq = t.save_freq}
  end
  list[#list + 1] = callbacks.LambdaCallback{on_train_batch_end = function()
    calls = calls + 1
    if calls == stop_at then error(stopped, 0) end
  end}
  return t.model:fit(t.data, {epochs = t.epochs, steps_per_epoch = t.steps, verbose = 0,
    validation_data = t.validation, callbacks = list}).history
end

local function bits(t)
  local list = {}
  for _, w in ipairs(t.model:get_weights()) do list[#list + 1] = core.to_bytes(w) end
  for _, w in ipairs(t.model.optimizer:get_weights()) do list[#list + 1] = core.to_bytes(w) end
  return list
end

---What is wrong with a seed's training when it is resumed; nil for nothing. The second result says
---whether it was stopped at all.
---@param seed integer
---@return string?, boolean
function resumes.check(seed)
  keras.utils.set_random_seed(1)
  local whole = make(seed)
  local history = train(whole, nil, nil)
  local folder <const> = command.scratch "backup"
  keras.utils.set_random_seed(1)
  local first = make(seed)
  local fine, why = pcall(train, first, folder, first.stop_at)
  if not fine and why ~= stopped then return why, false end
  local wrong
  if not fine then
    keras.utils.set_random_seed(1)
    local second, others = make(seed), {}
    if ipu.train.latest_checkpoint(folder) then -- all of its weights come from the backup
      for i, w in ipairs(second.model:get_weights()) do others[i] = w + 0.5 end
      second.model:set_weights(others)
    end
    local ended, logs = pcall(train, second, folder, nil)
    if not ended then wrong = tostring(logs) else
      local a, b = bits(whole), bits(second)
      for i = 1, math.max(#a, #b) do
        if a[i] ~= b[i] then wrong = string.format("weight %d of %d differs", i, #a) end
      end
      for name, values in pairs(wrong and {} or logs) do
        local all = history[name]
        for i = 1, #values do
          if all[#all - #values + i] ~= values[i] then wrong = "its logs differ: " .. name end
        end
      end
    end
  end
  os.execute("rm -rf '" .. folder .. "'")
  return wrong, not fine
end

if arg and arg[0] and arg[0]:find("random_resumes.lua", 1, true) then
  local from, count, bad, met = tonumber(arg[1] or 1), tonumber(arg[2] or 20), 0, 0
  for seed = from, from + count - 1 do
    local wrong, was_stopped = resumes.check(seed)
    if was_stopped then met = met + 1 end
    if wrong then
      bad = bad + 1
      print(seed, wrong)
    end
  end
  print(string.format("%d seeds, %d stopped, %d wrong", count, met, bad))
end

return resumes
