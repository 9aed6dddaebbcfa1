-- Layers, optimizers, callbacks and printing of the trainings of fuzz_splits.lua.

local core = require "ipulua.core"
local ipu = require "ipulua"

local keras <const> = ipu.keras
local layers <const> = keras.layers

local parts = {}

-- ------------------------------------------------ printing

local printed = {}

---A line of all instances, which the first one prints.
function parts.say(...)
  local words = table.pack(...)
  for i = 1, words.n do words[i] = tostring(words[i]) end
  local line = table.concat(words, " ")
  printed[#printed + 1] = line
  if ipu.popdist.getInstanceIndex() == 0 then
    print(line)
    io.stdout:flush()
  end
end

---A checksum of all that this instance has said.
---@return integer
function parts.crc() return core.crc(table.concat(printed, "\n")) end

---All bits of numbers, or of a tensor that is one.
function parts.bits(values)
  local out = {}
  for i, v in ipairs(type(values) == "table" and values or {values}) do
    out[i] = type(v) == "table" and "{" .. parts.bits(v) .. "}"
      or string.format("%a", type(v) == "number" and v or v:item())
  end
  return table.concat(out, " ")
end

---A checksum of each tensor's bytes.
function parts.digest(list)
  local out = {}
  for i, t in ipairs(list) do
    if core.is_variable(t) then t = t:read_value() end
    out[i] = string.format("%08x", core.crc(core.to_bytes(t)))
  end
  return table.concat(out, " ")
end

---{{gradient, variable}, ...}
function parts.pairs_of(gradients, variables)
  local list = {}
  for i, v in ipairs(variables) do list[i] = {gradients[i], v} end
  return list
end

-- ------------------------------------------------ layers

local Count = layers.Layer:extend "Count" -- state that each step changes, a loss and a metric
function Count:build()
  self.n = self:add_weight{name = "n", shape = {}, initializer = "zeros", trainable = false}
end
function Count:call(x)
  self.n:assign_add(ipu.reduce_mean(x))
  self:add_loss(ipu.reduce_mean(ipu.square(x)) * 0.01)
  self:add_metric(ipu.reduce_max(x), {name = "largest"})
  return x * (1 + self.n * 0.125)
end

parts.layers = {
  function() return layers.Dense{7, activation = "tanh"} end,
  function() return layers.Dense{5, kernel_regularizer = "l2"} end,
  function() return layers.BatchNormalization() end,
  function() return layers.LayerNormalization() end,
  function() return Count() end,
  function(c) return layers.Dropout(c.draws and 0.25 or 0) end,
  function() return layers.Dense{6, kernel_constraint = keras.constraints.MaxNorm(0.5)} end,
  function(c) return layers.GaussianNoise(c.draws and 0.25 or 0) end,
  function() return layers.BatchNormalization{momentum = 0.5, scale = false} end,
  function() return layers.Dense{40, activation = "relu"} end,
}

---Whether a layer of this kind changes its state where it predicts, too.
function parts.has_state(kind) return kind == 5 end

-- ------------------------------------------------ optimizers, metrics, steps

parts.optimizers = {
  sgd = function() return keras.optimizers.SGD(0.0625) end,
  momentum = function() return keras.optimizers.SGD{0.0625, momentum = 0.5, nesterov = true} end,
  adam = function() return keras.optimizers.Adam(0.0625) end,
  rmsprop = function() return keras.optimizers.RMSprop(0.01) end,
  clipped = function() return keras.optimizers.Adam{0.0625, global_clipnorm = 0.5} end,
  averaged = function()
    return keras.optimizers.SGD{0.0625, use_ema = true, ema_momentum = 0.75}
  end,
  decay = function()
    return keras.optimizers.SGD{keras.optimizers.schedules.ExponentialDecay(0.1, 2, 0.5)}
  end,
  scaled = function()
    return keras.optimizers.ALSOptimizer{keras.optimizers.SGD(0.0625), update_frequency = 2,
      initial_loss_scaling_factor = 4, max_loss_scaling_factor = 64}
  end,
}

---A metric that is a plain function.
function parts.greatest(_, y_pred) return ipu.reduce_max(y_pred, {axis = -1}) end

local Own = keras.Sequential:extend "Own" -- fit with a step of its own
function Own:train_step(x, y, sample_weight)
  local tape, y_pred = ipu.GradientTape(), nil
  local loss = tape(function()
    y_pred = self(x, {training = true})
    return self.compiled_loss(y, y_pred, {sample_weight = sample_weight,
      regularization_losses = self.losses})
  end)
  local list = self.trainable_variables
  self.optimizer:apply_gradients(tape:gradient(loss, list), list)
  self.compiled_metrics:update_state(y, y_pred, sample_weight)
  local logs = {}
  for _, metric in ipairs(self.metrics) do logs[metric.name] = metric:result() end
  logs.own = ipu.cross_replica_sum(loss)
  return logs
end
function parts.own_model(list) return Own(list) end

-- ------------------------------------------------ callbacks

local function told_of(callback)
  callback.told = {}
  return callback
end

local Tells = keras.callbacks.Callback:extend "Tells"
function Tells:on_train_batch_end(batch, logs)
  self.told[#self.told + 1] = batch .. ":" .. parts.bits(logs.loss)
end

local Stops = keras.callbacks.Callback:extend "Stops" -- the last instance alone asks for it
function Stops:on_epoch_end(epoch)
  local last = ipu.popdist.getNumInstances() - 1
  if epoch == 1 and ipu.popdist.getInstanceIndex() == last then self.model.stop_training = true end
end

local Judges = keras.callbacks.Callback:extend "Judges" -- evaluates in the middle of a fit
function Judges:on_epoch_end()
  self.told[#self.told + 1] = parts.bits(ipu.distributed.allreduce(
    ipu.reduce_sum(ipu.cast(self.model:get_weights()[1], "float32")), "MEAN"))
end

local Fails = keras.callbacks.Callback:extend "Fails"
function Fails:init(at)
  keras.callbacks.Callback.init(self)
  self.at, self.seen = at, 0
end
function Fails:on_epoch_end() self:on_epoch_begin() end
function Fails:on_epoch_begin()
  self.seen = self.seen + 1
  if self.seen == self.at then error("stopped", 0) end
end

---An error at the nth begin or end of an epoch, on all instances.
function parts.fails_at(n) return Fails(n) end

parts.callbacks = {
  tells = function() return told_of(Tells()) end,
  stops = function() return Stops() end,
  judges = function() return told_of(Judges()) end,
  early = function() return keras.callbacks.EarlyStopping{monitor = "loss", patience = 1,
    restore_best_weights = true} end,
  plateau = function() return keras.callbacks.ReduceLROnPlateau{monitor = "loss", patience = 1,
    min_delta = 0.25} end,
  rate = function() return keras.callbacks.LearningRateScheduler(function(epoch)
    return 0.0625 / (1 + epoch)
  end) end,
}

return parts
