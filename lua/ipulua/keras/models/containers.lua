-- compiled_loss and compiled_metrics: the arguments of compile as objects, for train_steps of
-- subclassed models, as in Keras 2.6. compute_loss uses both at once.

local args = require "ipulua.base.args"
local blame = require "ipulua.base.blame"
local class = require "ipulua.base.class"
local compile = require "ipulua.keras.training.compile"
local nest = require "ipulua.base.nest"
local steps = require "ipulua.keras.training.steps"

local containers = {methods = {}, properties = {}}

local rows <const> = {
  {"y_true", "any", of = "tensor or table of tensors"},
  {"y_pred", "any", of = "tensor or table of tensors"},
  {"sample_weight", "any", optional = true, of = "tensor or table of tensors"},
}

local loss_rows <const> = table.move(rows, 1, #rows, 1, {})
loss_rows[#loss_rows + 1] = {"regularization_losses", "table", optional = true,
  says = "to be added, such as self.losses"}

-- self:compiled_loss(y, p) hands the model over, too.
local function refuse_model(given, who, call)
  if class.of(given) and class.of(given).is_model then
    blame.error(string.format("%s is a field, so a dot stands before it: self.%s(y, y_pred)", who,
      call), "type")
  end
end

-- Vectors of labels and weights beside predictions [batch, n] get a last axis of 1, as in Keras.
local function by_output(model, a)
  local y, weight = a.y_true, a.sample_weight
  local is_matrix = true
  for _, leaf in ipairs(nest.flatten(a.y_pred)) do
    is_matrix = is_matrix and #leaf.shape == 2
  end
  if is_matrix then y, weight = steps.expand(y), steps.expand(weight) end
  return steps.by_output(model, y, a.y_pred, weight)
end

---@class CompiledLoss
local CompiledLoss = class.new("CompiledLoss")

function CompiledLoss:init(model) self.model = model end

function CompiledLoss:__call(...)
  refuse_model((...), "compiled_loss", "compiled_loss")
  local a = args.check("compiled_loss", loss_rows, ...)
  local model = self.model
  compile.check(model, "compiled_loss")
  local c, labels, predictions, weights = by_output(model, a)
  local total = c:loss(labels, predictions, weights, a.regularization_losses or {})
  if total == nil then
    blame.error(string.format("compiled_loss: model '%s' was compiled without a loss", model.name),
      "value")
  end
  return total
end

---@class CompiledMetrics
local CompiledMetrics = class.new("CompiledMetrics")

function CompiledMetrics:init(model) self.model = model end

function CompiledMetrics:update_state(...)
  refuse_model((...), "compiled_metrics", "compiled_metrics:update_state")
  local a = args.check("compiled_metrics.update_state", rows, ...)
  compile.check(self.model, "compiled_metrics.update_state")
  local c, labels, predictions, weights = by_output(self.model, a)
  c:update_metrics(labels, predictions, weights)
end

-- The loss that compile was given; it updates the running means of losses.
function containers.properties.compiled_loss(self) return CompiledLoss(self) end

-- The metrics that compile was given.
function containers.properties.compiled_metrics(self) return CompiledMetrics(self) end

return containers
