-- Random trainings of a linear model, compared with plain Lua. Weights and logs of each epoch must
-- agree, and calls of callbacks, and the actions of the library's own callbacks.

local chains = require "spec.support.dataset_chains"
local config = require "ipulua.config"
local core = require "ipulua.core"
local ipu = require "ipulua"

local keras = ipu.keras
local callbacks, layers = keras.callbacks, keras.layers

local runs = {}

-- ------------------------------------------------ the case

local function choose(random, list) return list[random(#list) + 1] end

local function numbers(random, n, scale)
  local list = {}
  for i = 1, n do list[i] = (random(2001) - 1000) / 1000 * scale end
  return list
end

local function draw_data(random, c, n)
  local d = {x = {}, y = {}, weight = c.weighted and {} or nil}
  for i = 1, n do
    d.x[i] = numbers(random, c.inputs, 1)
    d.y[i] = c.class_weight and random(3) or (random(2001) - 1000) / 500
    if d.weight then d.weight[i] = random(5) / 2 end
  end
  return d
end

local function divisors(n, of)
  local list = {}
  for i = 1, n do
    if n % i == 0 and i % of == 0 then list[#list + 1] = i end
  end
  return list
end

local monitored <const> = {"loss", "mae", "val_loss", "val_mae"}

local function draw_callbacks(random, c)
  local o = {}
  local function monitor() return monitored[random(c.validates_always and 4 or 2) + 1] end
  if random(2) == 0 then
    o.stopping = {monitor = monitor(), patience = random(3), min_delta = random(3) / 50,
      mode = choose(random, {"auto", "min", "max"}), restore_best_weights = random(2) == 0,
      start_from_epoch = random(3), baseline = random(3) == 0 and random(10) / 4 or nil}
  end
  local rate = random(3)
  if rate == 1 then
    o.plateau = {monitor = monitor(), factor = 0.5, patience = random(3), cooldown = random(3),
      min_delta = random(4) / 20, min_lr = choose(random, {0, 0.01}),
      mode = choose(random, {"auto", "min", "max"})}
  elseif rate == 2 then
    o.schedule = choose(random, {0.5, 0.75})
  end
  if random(2) == 0 then
    o.checkpoint = {monitor = monitor(), save_best_only = random(2) == 0,
      mode = choose(random, {"auto", "min", "max"}),
      save_freq = random(3) == 0 and random(4) + 1 or "epoch",
      initial_value_threshold = random(4) == 0 and 1 or nil}
  end
  if random(2) == 0 then o.csv = choose(random, {",", ";", "\t"}) end
  return o
end

---A case for a seed.
function runs.case(seed)
  local random = chains.random_of(seed * 7919 + 17)
  for _ = 1, 5 do random(2) end
  local c = {seed = seed, inputs = random(3) + 1, batch = random(3) + 1,
    replicas = choose(random, {1, 1, 2}), accumulation = choose(random, {1, 1, 2, 3}),
    epochs = random(5) + 1, asynchronous = random(4) == 0, momentum = choose(random, {0, 0, 0.5}),
    weighted = random(3) == 0, initial_epoch = choose(random, {0, 0, 0, 1})}
  if random(4) == 0 then c.class_weight = {[0] = 0.5, [1] = 2, [2] = 1} end
  c.reduction = choose(random, {"SUM", "MEAN", "RUNNING_MEAN"})
  c.metrics_of = choose(random, {"NONE", "SUM", "MEAN"})
  c.steps = c.accumulation * (random(4) + 1)
  c.per_execution = choose(random, divisors(c.steps, c.accumulation))
  c.source = choose(random, {"tensors", "list", "dataset", "unknown size"})
  -- a smaller last batch, in training and in validation
  if c.replicas == 1 and c.accumulation == 1 and c.batch > 1 then
    c.rest, c.held_rest = random(c.batch), random(c.batch)
  else
    c.rest, c.held_rest = 0, 0
  end
  c.validation = choose(random, {"none", "split", "list", "named", "dataset"})
  local is_dataset = c.source == "dataset" or c.source == "unknown size"
  if c.validation == "split" and is_dataset then c.validation = "list" end
  if c.validation == "split" then c.held_rest = c.rest end
  c.validation_steps = c.replicas * c.per_execution * (random(2) + 1)
  c.freq = choose(random, {1, 1, 2, {2, 3}})
  c.validates_always = c.validation ~= "none" and c.freq == 1
  local n = c.steps * c.batch * c.replicas + c.rest
  c.data = draw_data(random, c, n)
  -- a split takes the end of all samples, and this is the same share
  c.held = draw_data(random, c, c.validation == "split" and n
    or c.validation_steps * c.batch + c.held_rest)
  c.callbacks = draw_callbacks(random, c)
  c.rate = 0.03
  return c
end

function runs.text(c)
  local shown = {}
  for k, v in pairs(c) do if k ~= "data" and k ~= "held" then shown[k] = v end end
  return tostring(core.plain(shown))
end

-- ------------------------------------------------ the model and its run

function runs.configure(c)
  config.reset_ipu_configuration()
  local cfg = ipu.IPUConfig()
  cfg.auto_select_ipus = c.replicas
  cfg:configure_ipu_system()
end

function runs.model(c)
  local model = keras.Sequential{layers.Dense{1, kernel_initializer = "zeros",
    input_shape = {c.inputs}}}
  if c.accumulation > 1 then
    model:set_gradient_accumulation_options{
      gradient_accumulation_steps_per_replica = c.accumulation,
      gradient_accumulation_reduction_method = c.reduction}
  end
  if c.asynchronous then model:set_asynchronous_callbacks(true) end
  model:set_replication_options{replicated_metric_reduction_method = c.metrics_of}
  model:compile{optimizer = keras.optimizers.SGD{c.rate, momentum = c.momentum}, loss = "mse",
    metrics = {"mae"}, weighted_metrics = c.weighted and {keras.metrics.MeanSquaredError{
      name = "wse"}} or nil, steps_per_execution = c.per_execution}
  return model
end

local function tensors_of(d)
  local y = ipu.reshape(ipu.tensor(d.y), {#d.y, 1})
  return ipu.tensor(d.x), y, d.weight and ipu.tensor(d.weight) or nil
end

local function joined(a, b)
  local d = {}
  for name, list in pairs(a) do
    d[name] = table.move(b[name], 1, #b[name], #list + 1, table.move(list, 1, #list, 1, {}))
  end
  return d
end

local function dataset_of(c, d, rest)
  local ds = ipu.data.from_tensor_slices{tensors_of(d)}
  if c.source == "unknown size" then ds = ds:filter(function() return ipu.tensor(true) end) end
  return ds:batch(c.batch, {drop_remainder = rest == 0})
end

local function validation_of(c, o)
  if c.validation == "none" then return end
  o.validation_freq = c.freq
  if c.validation == "split" then o.validation_split = 0.5 return end
  local x, y, w = tensors_of(c.held)
  if c.validation == "dataset" then
    o.validation_data = dataset_of(c, c.held, c.held_rest)
    if c.source ~= "unknown size" and c.held_rest == 0 then
      o.validation_steps = c.validation_steps
    end
    return
  end
  if type(o.x) ~= "userdata" and not o.batch_size or c.seed % 2 == 0 then
    o.validation_batch_size = c.batch
  end
  o.validation_data = c.validation == "named" and {x = x, y = y, sample_weight = w} or {x, y, w}
end

---Arguments of fit.
function runs.arguments(c, list)
  local d = c.validation == "split" and joined(c.data, c.held) or c.data
  local o = {epochs = c.epochs + c.initial_epoch, initial_epoch = c.initial_epoch, verbose = 0,
    callbacks = list, class_weight = c.class_weight, shuffle = false}
  if c.source == "dataset" or c.source == "unknown size" then
    o.x = dataset_of(c, d, c.rest)
  else
    o.x, o.y, o.sample_weight = tensors_of(d)
    if c.source == "list" then o[1], o[2], o.x, o.y = o.x, o.y, nil, nil end
    o.batch_size = c.batch
  end
  validation_of(c, o)
  return o
end

-- ------------------------------------------------ the same in plain Lua

local Plain = {}
Plain.__index = Plain

local function new_plain(c)
  local p = setmetatable({c = c, w = {}, v = {}, updates = 0}, Plain)
  for i = 1, c.inputs + 1 do p.w[i], p.v[i] = 0, 0 end -- the last is the bias
  return p
end

function Plain:predict(x)
  local sum = self.w[#self.w]
  for i, v in ipairs(x) do sum = sum + v * self.w[i] end
  return sum
end

local function weight_of(c, d, i, trains)
  local w = d.weight and d.weight[i] or 1
  if trains and c.class_weight then w = w * c.class_weight[d.y[i]] end
  return w
end

-- A batch's loss, its gradient, and what it adds to the metrics of its replica.
function Plain:batch(d, from, sums, trains, rows)
  local c, gradient, loss = self.c, {}, 0
  rows = rows or c.batch
  for k = 1, #self.w do gradient[k] = 0 end
  for i = from + 1, from + rows do
    local w, error = weight_of(c, d, i, trains), self:predict(d.x[i]) - d.y[i]
    loss = loss + w * error * error / rows
    for k = 1, #self.w do
      gradient[k] = gradient[k] + 2 * w * error * (d.x[i][k] or 1) / rows
    end
    sums.mae, sums.count = sums.mae + math.abs(error), sums.count + 1
    sums.wse, sums.weights = sums.wse + w * error * error, sums.weights + w
  end
  sums.loss = sums.loss + loss * rows
  return gradient
end

local function new_sums(c)
  local list = {}
  for r = 1, c.replicas do
    list[r] = {loss = 0, mae = 0, count = 0, wse = 0, weights = 0}
  end
  return list
end

-- Of several replicas the last one's, or their sum or mean.
local function logs_of(c, sums, prefix, replica)
  local logs = {}
  local first, last = replica or 1, replica or c.replicas
  if c.metrics_of == "NONE" and not replica then first = last end
  for r = first, last do
    local s = sums[r]
    local values = {loss = s.loss / s.count, mae = s.mae / s.count,
      wse = c.weighted and (s.weights > 0 and s.wse / s.weights or 0) or nil}
    for name, value in pairs(values) do
      if c.metrics_of == "MEAN" then value = value / (last - first + 1) end
      logs[prefix .. name] = (logs[prefix .. name] or 0) + value
    end
  end
  return logs
end

function Plain:update(gradient, rate)
  for k = 1, #self.w do
    self.v[k] = self.c.momentum * self.v[k] - rate * gradient[k]
    self.w[k] = self.w[k] + self.v[k]
  end
  self.updates = self.updates + 1
end

-- Steps of an epoch: the logs after each execution.
function Plain:epoch(rate)
  local c, sums, mean, all = self.c, new_sums(self.c), {}, {}
  for step = 1, c.steps do
    for r = 1, c.replicas do
      local gradient = self:batch(c.data, ((step - 1) * c.replicas + r - 1) * c.batch, sums[r],
        true)
      for k = 1, #self.w do
        mean[k] = (mean[k] or 0) + gradient[k] / (c.reduction == "SUM" and 1 or c.accumulation)
      end
    end
    if step % c.accumulation == 0 then
      self:update(mean, rate)
      mean = {}
    end
    all[step] = logs_of(c, sums, "", c.asynchronous and step < c.steps and c.replicas or nil)
    if step == c.steps then all.last_replica = logs_of(c, sums, "", c.replicas) end
  end
  if c.rest > 0 then
    self:update(self:batch(c.data, c.steps * c.batch, sums[1], true, c.rest), rate)
    all[c.steps + 1] = logs_of(c, sums, "")
  end
  return all
end

function Plain:validate()
  local c, sums = self.c, new_sums(self.c)
  local d = c.held
  local batches = #d.y // c.batch
  for step = 0, batches // c.replicas - 1 do
    for r = 1, c.replicas do
      self:batch(d, (step * c.replicas + r - 1) * c.batch, sums[r], false)
    end
  end
  if c.held_rest > 0 then self:batch(d, batches * c.batch, sums[1], false, c.held_rest) end
  return logs_of(c, sums, "val_"), batches // c.replicas
end

-- ------------------------------------------------ what callbacks do by their logs

local function is_max(o)
  return o.mode == "max" -- of loss and mae "auto" is min
end

local function better(o, a, b)
  local delta = o.min_delta or 0
  if is_max(o) then return a - delta > b end
  return a + delta < b
end

local rules = {}

function rules.stopping(o, s, epoch, logs, weights)
  s.best = s.best or (is_max(o) and -math.huge or math.huge)
  if epoch < o.start_from_epoch then return end
  s.wait = (s.wait or 0) + 1
  s.weights = s.weights or weights
  if better(o, logs[o.monitor], s.best) then
    s.best, s.weights = logs[o.monitor], weights
    if not o.baseline or better(o, logs[o.monitor], o.baseline) then
      s.wait = 0
      return
    end
  end
  if s.wait >= o.patience and epoch > 0 then
    s.stopped = true
    if o.restore_best_weights then s.restored = s.weights end
  end
end

-- The rate after the epoch.
function rules.plateau(o, s, logs, rate)
  s.best = s.best or (is_max(o) and -math.huge or math.huge)
  s.cooldown, s.wait = s.cooldown or 0, s.wait or 0
  if s.cooldown > 0 then s.cooldown, s.wait = s.cooldown - 1, 0 end
  if better(o, logs[o.monitor], s.best) then
    s.best, s.wait = logs[o.monitor], 0
  elseif s.cooldown == 0 then
    s.wait = s.wait + 1
    if s.wait >= o.patience and rate > o.min_lr + 1e-9 then
      s.cooldown, s.wait = o.cooldown, 0
      return math.max(rate * o.factor, o.min_lr)
    end
  end
  return rate
end

function rules.saves(o, s, logs)
  if not o.save_best_only then return true end
  s.best = s.best or o.initial_value_threshold or (is_max(o) and -math.huge or math.huge)
  local value = logs[o.monitor]
  if not value then return false end -- of an epoch's validation, in its midst
  local saves = is_max(o) and value > s.best or not is_max(o) and value < s.best
  if saves then s.best = value end
  return saves
end

-- ------------------------------------------------ the comparison

local hooks = {}
for name in pairs(callbacks.Callback) do
  if type(name) == "string" and name:find "^on_" then hooks[#hooks + 1] = name end
end

local function close(a, b) return a == b or math.abs(a - b) <= 1e-3 + 1e-3 * math.abs(b) end

local function copy(t)
  local out = {}
  for k, v in pairs(t) do out[k] = v end
  return out
end

-- A callback that notes its calls, the logs of epochs and the weights at their ends.
local function watch_of()
  local Watch = callbacks.Callback:extend "Watch"
  local seen = {calls = {}, logs = {}, weights = {}, batch_logs = {}}
  for _, name in ipairs(hooks) do
    Watch[name] = function(self, at, logs, info)
      seen.calls[#seen.calls + 1] = name .. (type(at) == "number" and " " .. at or "")
        .. (info and string.format(" %d-%d", info.step_first, info.step_last) or "")
      if name == "on_train_batch_end" then
        seen.batch_logs[#seen.batch_logs + 1] = {at, copy(logs)}
      end
      if name == "on_epoch_end" then
        seen.logs[at], seen.weights[at] = copy(logs), self.model:get_weights()
      end
    end
  end
  return Watch(), seen
end

local function is_due(freq, epoch)
  if type(freq) == "number" then return (epoch + 1) % freq == 0 end
  for _, each in ipairs(freq) do
    if each == epoch + 1 then return true end
  end
  return false
end

local function expect_steps(c, calls, prefix, steps, per_execution, rest)
  local event = "on_" .. prefix .. "_batch_"
  if c.asynchronous then
    for step = 0, steps - 1 do
      for _ = 1, c.replicas do
        calls[#calls + 1] = string.format("%sbegin %d", event, step)
        calls[#calls + 1] = string.format("%send %d %d-%d", event, step, step, step)
      end
    end
  end
  for first = c.asynchronous and steps or 0, steps - 1 + (rest > 0 and 1 or 0), per_execution do
    local last = math.min(first + per_execution - 1, first < steps and steps - 1 or steps)
    calls[#calls + 1] = string.format("%sbegin %d", event, first)
    calls[#calls + 1] = string.format("%send %d %d-%d", event, last, first, last)
  end
end

local function list_of(c, folder, watch)
  local o, list = c.callbacks, {watch}
  if o.plateau then list[#list + 1] = callbacks.ReduceLROnPlateau(o.plateau) end
  if o.schedule then
    list[#list + 1] = callbacks.LearningRateScheduler(function(epoch, rate)
      return epoch == c.initial_epoch and rate or rate * o.schedule
    end)
  end
  if o.checkpoint then
    local given = copy(o.checkpoint)
    given.filepath = folder .. "/{epoch}" .. (given.save_freq == "epoch" and "" or "-{batch}")
      .. ".safetensors"
    given.save_weights_only = true
    list[#list + 1] = callbacks.ModelCheckpoint(given)
  end
  if o.csv then
    list[#list + 1] = callbacks.CSVLogger{folder .. "/log.csv", separator = o.csv}
  end
  if o.stopping then list[#list + 1] = callbacks.EarlyStopping(o.stopping) end
  return list
end

local function validates(c, epoch) return c.validation ~= "none" and is_due(c.freq, epoch) end

-- Batches of a validation are executed by so many, or all where they are fewer.
local function validation_execution(c, steps) return math.min(c.per_execution, steps) end

-- All that was to be: {calls, logs, rates, files, csv, weights}. Decisions are taken by the logs
-- that were seen, which are compared with the plain ones.
local function expected(c, seen)
  local p, o, e = new_plain(c), c.callbacks, {calls = {"on_train_begin"}, logs = {}, files = {}}
  local rate, stopping, plateau, saving = c.rate, {}, {}, {since = 0}
  for epoch = c.initial_epoch, c.initial_epoch + c.epochs - 1 do
    if not seen.logs[epoch] then break end
    if o.schedule and epoch > c.initial_epoch then rate = rate * o.schedule end
    e.calls[#e.calls + 1] = "on_epoch_begin " .. epoch
    expect_steps(c, e.calls, "train", c.steps, c.per_execution, c.rest)
    local all = p:epoch(rate)
    if o.checkpoint and o.checkpoint.save_freq ~= "epoch" then
      local count, ends = c.asynchronous and 1 or c.per_execution, {}
      for step = count, c.steps, count do ends[#ends + 1] = {step, count} end
      if c.rest > 0 then ends[#ends + 1] = {c.steps + 1, 1} end
      for _, each in ipairs(ends) do
        local step = each[1]
        saving.since = saving.since + each[2]
        if saving.since >= o.checkpoint.save_freq then
          saving.since = saving.since % o.checkpoint.save_freq
          local of_step = c.asynchronous and step == c.steps and all.last_replica or all[step]
          if rules.saves(o.checkpoint, saving, of_step) then
            e.files[epoch + 1 .. "-" .. step .. ".safetensors"] = true
          end
        end
      end
    end
    local logs = all[#all]
    if validates(c, epoch) then
      local values, steps = p:validate()
      for name, value in pairs(values) do logs[name] = value end
      e.calls[#e.calls + 1] = "on_test_begin"
      expect_steps(c, e.calls, "test", steps, validation_execution(c, steps), c.held_rest)
      e.calls[#e.calls + 1] = "on_test_end"
    end
    e.calls[#e.calls + 1] = "on_epoch_end " .. epoch
    e.logs[epoch] = logs
    local mine = seen.logs[epoch]
    local before = rate
    if o.plateau then rate = rules.plateau(o.plateau, plateau, mine, rate) end
    e.rates = e.rates or {}
    e.rates[epoch] = (o.plateau or o.schedule) and before or nil
    if o.checkpoint and o.checkpoint.save_freq == "epoch"
      and rules.saves(o.checkpoint, saving, mine) then
      e.files[epoch + 1 .. ".safetensors"] = true
    end
    if o.stopping then
      rules.stopping(o.stopping, stopping, epoch, mine, seen.weights[epoch])
    end
    e.last = epoch
    if stopping.stopped then break end
  end
  e.calls[#e.calls + 1] = "on_train_end"
  e.weights, e.restored = p.w, stopping.restored
  e.stops_early = stopping.stopped
  return e
end

local function flat(list)
  local out = {}
  for _, t in ipairs(list) do
    for _, value in ipairs(ipu.reshape(t, {-1}):totable()) do out[#out + 1] = value end
  end
  return out
end
runs.flat = flat

local function check_csv(c, path, seen, say)
  local lines = {}
  for line in io.lines(path) do lines[#lines + 1] = line end
  local names = {}
  for name in pairs(seen.logs[c.initial_epoch]) do names[#names + 1] = name end
  if (c.callbacks.plateau or c.callbacks.schedule) then names[#names + 1] = "lr" end
  table.sort(names)
  local separator = c.callbacks.csv
  local header = "epoch" .. separator .. table.concat(names, separator)
  if lines[1] ~= header then say("csv: %s for %s", lines[1], header) end
  for i = 2, #lines do
    local epoch = c.initial_epoch + i - 2
    local values = {tostring(epoch)}
    for k, name in ipairs(names) do
      local value = seen.history[name] and seen.history[name][i - 1]
      if name:find "^val_" then value = seen.logs[epoch][name] end
      values[k + 1] = value and tostring(value) or "NA"
    end
    local want = table.concat(values, separator)
    if lines[i] ~= want then say("csv: %s for %s", lines[i], want) end
  end
end

---Runs a case: a list of what is wrong.
function runs.check(c, folder)
  local wrong = {}
  local function say(...) wrong[#wrong + 1] = string.format(...) end
  core.make_folder(folder)
  runs.configure(c)
  local watch, seen = watch_of()
  local model = runs.model(c)
  local history = model:fit(runs.arguments(c, list_of(c, folder, watch)))
  seen.history = history.history
  local e = expected(c, seen)
  for i = 1, math.max(#e.calls, #seen.calls) do
    if e.calls[i] ~= seen.calls[i] then
      say("call %d is %s, not %s", i, tostring(seen.calls[i]), tostring(e.calls[i]))
      break
    end
  end
  for epoch, logs in pairs(e.logs) do
    for name, value in pairs(logs) do
      local got = seen.logs[epoch][name]
      if not got or not close(got, value) then
        say("epoch %d: %s is %s, not %s", epoch, name, tostring(got), value)
      end
    end
    for name in pairs(seen.logs[epoch]) do
      if logs[name] == nil then say("epoch %d: what is %s?", epoch, name) end
    end
    local rate = history.history.lr and history.history.lr[epoch - c.initial_epoch + 1]
    if (e.rates[epoch] or 0) - (rate or 0) > 1e-7 or (rate or 0) - (e.rates[epoch] or 0) > 1e-7 then
      say("epoch %d: rate %s, not %s", epoch, tostring(rate), tostring(e.rates[epoch]))
    end
  end
  local ends = (e.stops_early and e.last or c.initial_epoch + c.epochs - 1)
  if seen.logs[ends + 1] or not seen.logs[ends] then say("it ends elsewhere than after %d",
    ends) end
  local got = flat(model:get_weights())
  for i, value in ipairs(e.restored and flat(e.restored) or e.weights) do
    if not close(got[i], value) then say("weight %d is %s, not %s", i, got[i], value) end
  end
  for _, name in ipairs(core.list_folder(folder)) do
    if name:find "safetensors$" and not e.files[name] then say("what is %s?", name) end
    e.files[name] = nil
  end
  for name in pairs(e.files) do say("%s is missing", name) end
  if c.callbacks.csv then check_csv(c, folder .. "/log.csv", seen, say) end
  config.reset_ipu_configuration()
  return wrong, got
end

-- ------------------------------------------------ the same run in other ways

-- A callback that fails in its so manyth call.
local function fault_of(at)
  local Fault = callbacks.Callback:extend "Fault"
  for _, name in ipairs(hooks) do
    Fault[name] = function()
      at = at - 1
      if at == 0 then error "it stops here" end
    end
  end
  return Fault()
end

-- Weights, history and CSV file of a run that begins anew with a backup when a callback fails. It
-- fails after each of these numbers of calls.
local function run_resumed(c, folder, freq, faults)
  core.make_folder(folder)
  local history, weights
  for i = 1, #faults + 1 do
    keras.utils.set_random_seed(c.seed)
    local model = runs.model(c)
    local list = list_of(c, folder, faults[i] and fault_of(faults[i]) or watch_of())
    list[#list + 1] = callbacks.BackupAndRestore{folder .. "/backup", save_freq = freq,
      delete_checkpoint = false}
    local o = runs.arguments(c, list)
    o.shuffle = c.source ~= "dataset"
    local fine, result = pcall(model.fit, model, o)
    if not fine and not tostring(result):find("it stops here", 1, true) then error(result, 0) end
    history, weights = fine and result.history, flat(model:get_weights())
    if fine then break end
  end
  local csv = c.callbacks.csv and assert(io.open(folder .. "/log.csv")):read("a")
  return {weights = weights, history = history, csv = csv}
end

local function bits(value)
  if type(value) == "number" then return string.format("%a", value) end
  if type(value) ~= "table" then return tostring(value) end
  local keys, out = {}, {}
  for k in pairs(value) do keys[#keys + 1] = k end
  table.sort(keys)
  for i, k in ipairs(keys) do out[i] = k .. "=" .. bits(value[k]) end
  return "{" .. table.concat(out, " ") .. "}"
end

---A training that fails and begins again, twice, beside one that goes through: what differs.
function runs.check_resumed(c, folder)
  local random, wrong = chains.random_of(c.seed * 31 + 7), {}
  for _ = 1, 5 do random(2) end
  c.callbacks.plateau, c.callbacks.schedule, c.callbacks.checkpoint = nil, nil, nil
  runs.configure(c)
  local freq = random(2) == 0 and "epoch" or random(5) + 1
  local whole = run_resumed(c, folder .. "/whole", freq, {})
  local faults = {random(60) + 1, random(60) + 1}
  local resumed = run_resumed(c, folder .. "/resumed", freq, faults)
  for name, value in pairs(whole) do
    local a, b = bits(value), bits(resumed[name])
    if a ~= b then
      wrong[#wrong + 1] = string.format("save_freq %s, failing after %d and %d calls:"
        .. " %s\n%s\nis\n%s",
        freq, faults[1], faults[2], name, a, b)
    end
  end
  config.reset_ipu_configuration()
  return wrong
end

---Executions of other lengths, callbacks for each step, other threads: the same bits of weights.
function runs.check_forms(c, folder, weights)
  local wrong, threads = {}, core.engine_info().threads
  for i, per_execution in ipairs(divisors(c.steps, c.accumulation)) do
    local other = copy(c)
    other.per_execution, other.asynchronous = per_execution, i % 2 == 0
    if other.validation ~= "none" and c.validation_steps // c.replicas % per_execution ~= 0 then
      other.validation = "none"
      if c.validation == "split" or c.callbacks.stopping or c.callbacks.plateau then
        goto next_one
      end
    end
    runs.configure(other)
    ipu.set_num_threads(i % 3 + 1)
    do
      local model, folder_of = runs.model(other), folder .. "/" .. i
      core.make_folder(folder_of)
      model:fit(runs.arguments(other, list_of(other, folder_of, (watch_of()))))
      if bits(flat(model:get_weights())) ~= bits(weights) then
        wrong[#wrong + 1] = string.format("%d steps an execution: other weights", per_execution)
      end
    end
    ::next_one::
  end
  ipu.set_num_threads(threads)
  config.reset_ipu_configuration()
  return wrong
end

return runs
