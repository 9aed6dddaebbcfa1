-- train_step, test_step, predict_step, compute_loss: the parts of a step. Models may define their
-- own with these.

local blame = require "ipulua.base.blame"
local compile = require "ipulua.keras.training.compile"
local compiled = require "ipulua.keras.training.compiled"
local eagerly = require "ipulua.keras.training.eagerly"
local feeding = require "ipulua.keras.training.feeding"
local programs = require "ipulua.keras.training.programs"
local replication = require "ipulua.trace.replication"
local steps = require "ipulua.keras.training.steps"
local together = require "ipulua.keras.base.together"
local tracing = require "ipulua.trace.tracing"

local own_steps = {methods = {}}
local methods <const> = own_steps.methods

local function results(self)
  local logs = {}
  for _, pair in ipairs(compiled.all_values(self)) do logs[pair[1]] = pair[2] end
  return logs
end

-- A step called outside of a traced function is one by itself.
local function at_once(self, name, x, y, sample_weight)
  local _ <close> = together.enter(self)
  local f = programs.of_batch(self, name, function(...)
    replication.alone()
    return methods[name](self, ...)
  end)
  return f(feeding.as_tensors(x, name), feeding.as_tensors(y, name),
    feeding.as_tensors(sample_weight, name))
end

---One training step. Models may define their own, which is traced; it returns a table of logs.
---Shapes: x and y [batch, ...] → a table of []
---Errors: a model that was not compiled: `model:train_step(x, x)`
---@param x any tensor or table of tensors
---@param y any tensor or table of tensors
---@param sample_weight any? tensor, a factor for each sample
---@return table<string, userdata>
function methods:train_step(x, y, sample_weight)
  if not (tracing.is_active() or eagerly.is_running()) then
    compile.check(self, "train_step")
    return at_once(self, "train_step", x, y, sample_weight)
  end
  steps.train(self, x, y, sample_weight)
  return results(self)
end

---One test step: a table of logs.
---Shapes: x and y [batch, ...] → a table of []
---Errors: a model that was not compiled: `model:test_step(x, x)`
---@param x any tensor or table of tensors
---@param y any tensor or table of tensors
---@param sample_weight any? tensor, a factor for each sample
---@return table<string, userdata>
function methods:test_step(x, y, sample_weight)
  if not (tracing.is_active() or eagerly.is_running()) then
    compile.check(self, "test_step")
    return at_once(self, "test_step", x, y, sample_weight)
  end
  steps.test(self, x, y, sample_weight)
  return results(self)
end

---The prediction of a batch.
---Shapes: x [batch, ...] → [batch, ...]
---Errors: errors of the model's ops: `model:predict_step(ipu.ones{4, 7})`
---@param x any tensor or table of tensors
---@return any
function methods:predict_step(x)
  return self(steps.expand(x), {training = false})
end

---compute_loss(x, y, y_pred), for own train_steps: the loss of a batch, as given to compile.
---Updates the running means.
---Shapes: x, y and y_pred [batch, ...] → []; nil where nothing was given that is a loss
---Errors: a model that was not compiled: `model:compute_loss(x, x, x)`
---@param x any tensor or table of tensors
---@param y any tensor or table of tensors
---@param y_pred any tensor or table of tensors
---@param sample_weight any? tensor, a factor for each sample
---@return userdata
function methods:compute_loss(x, y, y_pred, sample_weight)
  if y_pred == nil then
    blame.error("compute_loss: 'y_pred' is missing: compute_loss(x, y, y_pred, sample_weight); x "
      .. "may be nil", "value")
  end
  compile.check(self, "compute_loss")
  return steps.loss(self, x, y, y_pred, sample_weight)
end

return own_steps
