-- Callbacks that watch a metric, and callbacks that set the learning rate.

local args = require "ipulua.base.args"
local blame = require "ipulua.base.blame"
local core = require "ipulua.core"
local log = require "ipulua.base.log"
local base = require "ipulua.keras.callbacks.base"
local Callback <const> = base.Callback

local monitors = {}

local function declare(name, rows, setup)
  local c = Callback:extend(name)
  monitors[name] = c
  c.argument_rows = rows
  function c:init(...)
    for key, value in pairs(args.check(name, rows, ...)) do self[key] = value end
    if setup then setup(self) end
  end
  return c
end

local mode_row <const> = {"mode", "string", "auto", choices = {"auto", "min", "max"}}
local verbose_row <const> = {"verbose", "integer", 0}
local monitor_row <const> = {"monitor", "string", "val_loss"}

---Whether greater values of a metric are better. Mode "auto" decides by the metric's name, which
---may begin with an output's name and end with a number: val_left_accuracy_1.
---@param mode string
---@param monitor string
---@return boolean
function monitors.is_max(mode, monitor)
  if mode ~= "auto" then return mode == "max" end
  local name = monitor:gsub("_%d+$", "")
  if name:find "loss$" then return false end
  for word in name:gmatch "[^_]+" do
    if word == "acc" or word == "accuracy" or word == "auc" then return true end
  end
  return name:find "acc$" ~= nil or name:find "accuracy$" ~= nil or name:find "auc$" ~= nil
    or name:find "^fmeasure" ~= nil
end

---The value of a metric in the logs; a warning when there is none.
function monitors.value(callback, logs)
  local value = logs[callback.monitor]
  if type(value) == "table" then value = value[#value] end
  if type(value) == "number" then return value end
  local names = {}
  for name in pairs(logs) do names[#names + 1] = name end
  table.sort(names)
  log.warn("%s watches '%s', which is not available; there are: %s", getmetatable(callback).__name,
    callback.monitor,
    table.concat(names, ", "))
  return nil
end

---Whether a value is better than another by more than min_delta.
local function is_better(self, value, other)
  if self.is_max then return value - self.min_delta > other end
  return value + self.min_delta < other
end

local function say(self, format, ...)
  if self.verbose > 0 then io.stdout:write(string.format(format, ...), "\n") end
end
monitors.say = say

local function print_rate(rate) return string.format("%g", rate) end

-- ------------------------------------------------ EarlyStopping

---Ends training when a metric has not become better for `patience` epochs.
---@class EarlyStopping: Callback
local EarlyStopping = declare("EarlyStopping", {
  monitor_row, {"min_delta", "number", 0}, {"patience", "integer", 0, range = "[0, inf)"},
  verbose_row, mode_row,
  {"baseline", "number", optional = true}, {"restore_best_weights", "boolean", false},
  {"start_from_epoch", "integer", 0, range = "[0, inf)"},
}, function(self)
  self.is_max = monitors.is_max(self.mode, self.monitor)
  self.min_delta = math.abs(self.min_delta)
end)

base._keep_fields(EarlyStopping, {"wait", "stopped_epoch", "best_epoch", "best", "best_weights"})

function EarlyStopping:on_train_begin()
  self.wait, self.stopped_epoch, self.best_epoch = 0, 0, 0
  self.best = self.is_max and -math.huge or math.huge
  self.best_weights = nil
end

function EarlyStopping:on_epoch_end(epoch, logs)
  local current = monitors.value(self, logs)
  if not current or epoch < self.start_from_epoch then return end
  if self.restore_best_weights and not self.best_weights then
    self.best_weights = self.model:get_weights()
  end
  self.wait = self.wait + 1
  if is_better(self, current, self.best) then
    self.best, self.best_epoch = current, epoch
    if self.restore_best_weights then self.best_weights = self.model:get_weights() end
    if not self.baseline or is_better(self, current, self.baseline) then
      self.wait = 0
      return
    end
  end
  if self.wait >= self.patience and epoch > 0 then
    self.stopped_epoch = epoch
    self.model.stop_training = true
    if self.best_weights then
      say(self, "Restoring model weights from the end of the best epoch: %d.", self.best_epoch + 1)
      self.model:set_weights(self.best_weights)
    end
  end
end

function EarlyStopping:on_train_end()
  if self.stopped_epoch > 0 then say(self, "Epoch %d: early stopping", self.stopped_epoch + 1) end
end

-- ------------------------------------------------ learning rates

-- The learning rate of a model's optimizer as a number.
local function rate_of(self)
  local rate = self.model.optimizer.learning_rate
  if core.is_variable(rate) then return rate:item() end
  blame.error(getmetatable(self).__name .. ": the optimizer's learning rate is a schedule, which "
    .. "can't be set", "value")
end

---Multiplies the learning rate by `factor` when a metric has not become better for `patience`
---epochs.
---@class ReduceLROnPlateau: Callback
local ReduceLROnPlateau = declare("ReduceLROnPlateau", {
  monitor_row, {"factor", "number", 0.1, range = "(-inf, 1)"},
  {"patience", "integer", 10, range = "[0, inf)", says = "epochs"},
  verbose_row, mode_row, {"min_delta", "number", 1e-4, says = "least change that counts"},
  {"cooldown", "integer", 0, range = "[0, inf)",
    says = "epochs after a reduction that don't count"}, {"min_lr", "number", 0},
}, function(self) self.is_max = monitors.is_max(self.mode, self.monitor) end)

base._keep_fields(ReduceLROnPlateau, {"best", "cooldown_counter", "wait"})

local function restart(self)
  self.best = self.is_max and -math.huge or math.huge
  self.cooldown_counter, self.wait = 0, 0
end

function ReduceLROnPlateau:on_train_begin() restart(self) end

function ReduceLROnPlateau:on_epoch_end(epoch, logs)
  logs.lr = rate_of(self)
  local current = monitors.value(self, logs)
  if not current then return end
  if self.cooldown_counter > 0 then
    self.cooldown_counter = self.cooldown_counter - 1
    self.wait = 0
  end
  if is_better(self, current, self.best) then
    self.best, self.wait = current, 0
  elseif self.cooldown_counter == 0 then
    self.wait = self.wait + 1
    local former = logs.lr
    -- the rate is read back as float32
    if self.wait >= self.patience
      and former > string.unpack("f", string.pack("f", self.min_lr)) then
      local rate = math.max(former * self.factor, self.min_lr)
      self.model.optimizer.learning_rate = rate
      say(self, "Epoch %d: ReduceLROnPlateau reducing learning rate to %s.", epoch + 1,
        print_rate(rate))
      self.cooldown_counter, self.wait = self.cooldown, 0
    end
  end
end

---Sets the learning rate at the beginning of each epoch to schedule(epoch, rate).
---@class LearningRateScheduler: Callback
local LearningRateScheduler = declare("LearningRateScheduler",
  {{"schedule", "callable"}, verbose_row})

function LearningRateScheduler:on_epoch_begin(epoch)
  local rate = self.schedule(epoch, rate_of(self))
  if type(rate) == "userdata" then rate = rate:item() end
  if type(rate) ~= "number" then
    blame.error("LearningRateScheduler: the schedule must give a number, got "
      .. args.describe(rate), "value")
  end
  self.model.optimizer.learning_rate = rate
  say(self, "Epoch %d: LearningRateScheduler setting learning rate to %s.", epoch + 1,
    print_rate(rate))
end

function LearningRateScheduler:on_epoch_end(_, logs)
  logs.lr = rate_of(self)
end

-- ------------------------------------------------ TerminateOnNaN

---Ends training when the loss is no number, or infinite.
---@class TerminateOnNaN: Callback
local TerminateOnNaN = declare("TerminateOnNaN", {{"raise_error", "boolean", false}})

function TerminateOnNaN:on_train_batch_end(batch, logs)
  local loss = logs.loss
  if type(loss) ~= "number" or loss == loss and math.abs(loss) ~= math.huge then return end
  if self.raise_error then
    blame.error(string.format("batch %d: the loss is %s", batch, tostring(loss)), "runtime")
  end
  log.warn("batch %d: the loss is %s; training ends", batch, tostring(loss))
  self.model.stop_training = true
end

return {
  EarlyStopping = EarlyStopping, ReduceLROnPlateau = ReduceLROnPlateau,
  LearningRateScheduler = LearningRateScheduler,
  TerminateOnNaN = TerminateOnNaN, _monitors = monitors,
}
