-- Scores of classifications and regressions, from sums over all samples.

local about = require "ipulua.base.parts.about"
local base = require "ipulua.keras.metrics.base"
local blame = require "ipulua.base.blame"
local ops = require "ipulua.ops"
local shapes = require "ipulua.keras.base.shapes"

local scores = {classes = {}}

local divide_no_nan <const> = base.divide_no_nan
local least_prediction <const> = 1e-9 -- of a class that is the greatest of a sample's

-- A batch as [samples, columns], and the weights as [samples, 1].
local function batch(self, y_true, y_pred, sample_weight)
  y_true, y_pred = base.as_tensor(y_true, self.dtype), base.as_tensor(y_pred, self.dtype)
  y_true, y_pred = shapes.fit_ranks(y_true, y_pred)
  if #y_pred.shape == 1 then
    y_true, y_pred = ops.expand_dims(y_true, -1), ops.expand_dims(y_pred, -1)
  end
  shapes.check_equal(y_true.shape, y_pred.shape, self.name, "y_true", "y_pred")
  if #y_pred.shape ~= 2 then
    blame.error(string.format("%s: y_true and y_pred must be [samples, columns], got rank %d",
      self.name, #y_pred.shape), "value")
  end
  sample_weight = base.weight_of(sample_weight)
  local w
  if sample_weight ~= nil then
    w = ops.reshape(base.as_tensor(sample_weight, self.dtype), {-1, 1})
  end
  return y_true, y_pred, w
end

local function sums(self, names, shape)
  if self[names[1]] then
    shapes.check_equal(shape, self[names[1]].shape, self.name, "the columns",
      "the first batch's")
    return
  end
  for _, name in ipairs(names) do self[name] = self:add_weight{name = name, shape = shape} end
end

local function add(self, name, values, w, axis)
  if w then values = values * w end
  self[name]:assign_add(axis and ops.reduce_sum(values, {axis = axis}) or ops.reduce_sum(values))
end

local function check_begun(self, name)
  if not self[name] then
    blame.error(self.name .. ": there is no value before the first update", "failed_precondition")
  end
end

-- ------------------------------------------------ F scores

local average_row <const> = {"average", "string", optional = true,
  choices = {"micro", "macro", "weighted"}}
local threshold_row <const> = {"threshold", "number", optional = true, range = "[0, 1]"}

---(1 + beta²) precision recall / (beta² precision + recall), of each class. average: "micro" counts
---all decisions, "macro" takes the mean over the classes, "weighted" weighs by each class' samples.
---A decision is the greatest class, or each above the threshold.
---@class FBetaScore: Metric
local FBetaScore = base.declare("FBetaScore", {average_row,
  {"beta", "number", 1.0, range = "(0, inf)"}, threshold_row})
scores.classes.FBetaScore = FBetaScore

local counts <const> = {"tp", "fp", "fn", "weights"}

local function decide(self, y_pred)
  if self.threshold then return ops.greater(y_pred, self.threshold) end
  local greatest = ops.reduce_max(y_pred, {axis = -1, keepdims = true})
  return ops.logical_and(ops.greater_equal(y_pred, greatest),
    ops.greater(ops.abs(y_pred), least_prediction))
end

---Takes a batch in: labels and predictions; sample_weight is a weight of each sample.
function FBetaScore:update_state(y_true, y_pred, sample_weight)
  local truth, predicted, w = batch(self, y_true, y_pred, sample_weight)
  local axis = self.average ~= "micro" and 0 or nil
  sums(self, counts, axis and {predicted.shape[2]} or {})
  local decided = ops.cast(decide(self, predicted), self.dtype)
  truth = ops.cast(ops.cast(truth, "bool"), self.dtype)
  add(self, "tp", decided * truth, w, axis)
  add(self, "fp", decided * (1 - truth), w, axis)
  add(self, "fn", (1 - decided) * truth, w, axis)
  add(self, "weights", truth, w, axis)
end

---The value so far: [classes], or [] with an average.
function FBetaScore:result()
  check_begun(self, "tp")
  local tp, squared = self.tp:read_value(), (self.beta or 1) ^ 2
  local precision = divide_no_nan(tp, tp + self.fp:read_value())
  local recall = divide_no_nan(tp, tp + self.fn:read_value())
  local score = divide_no_nan(precision * recall, precision * squared + recall) * (1 + squared)
  if self.average == "weighted" then
    local weights = self.weights:read_value()
    return ops.reduce_sum(score * divide_no_nan(weights, ops.reduce_sum(weights)))
  end
  return self.average and ops.reduce_mean(score) or score
end

---FBetaScore with beta = 1.
---@class F1Score: Metric
local F1Score = base.declare("F1Score", {average_row, threshold_row}, FBetaScore)
scores.classes.F1Score = F1Score
F1Score.beta = 1

-- ------------------------------------------------ the coefficient of determination

---1 - the squared error / the squares around the labels' mean, of each column. class_aggregation
---makes one number of them. num_regressors: independent variables, for the adjusted score.
---@class R2Score: Metric
local R2Score = base.declare("R2Score", {
  {"class_aggregation", "string", "uniform_average",
    choices = {"uniform_average", "variance_weighted_average", "none"}},
  {"num_regressors", "integer", 0, range = "[0, inf)"},
})
scores.classes.R2Score = R2Score

local moments <const> = {"sum", "squares", "errors", "count"}

---Takes a batch in: labels and predictions; sample_weight is a weight of each sample.
function R2Score:update_state(y_true, y_pred, sample_weight)
  local truth, predicted, w = batch(self, y_true, y_pred, sample_weight)
  sums(self, moments, {predicted.shape[2]})
  if not self.values then self.values = self:add_weight{name = "values"} end
  add(self, "sum", truth, w, 0)
  add(self, "squares", ops.square(truth), w, 0)
  add(self, "errors", ops.squared_difference(truth, predicted), w, 0)
  add(self, "count", ops.ones_like(truth), w, 0)
  self.values:assign_add(truth.size)
end

-- Fewer samples than variables leave nothing to adjust by.
local function adjusted(self, score)
  local n, p = self.values:read_value(), self.num_regressors
  if p == 0 then return score end
  local spare = n - p - 1
  local enough = ops.greater(spare, 0)
  return ops.where(enough, 1 - (1 - score) * (n - 1) / ops.where(enough, spare, ops.ones_like(n)),
    score)
end

---The value so far: [], or [columns] without an aggregation.
function R2Score:result()
  check_begun(self, "sum")
  local sum = self.sum:read_value()
  local total = self.squares:read_value() - sum * divide_no_nan(sum, self.count:read_value())
  local score = 1 - self.errors:read_value() / total
  score = ops.where(ops.is_inf(score), ops.zeros_like(score), score)
  if self.class_aggregation == "uniform_average" then score = ops.reduce_mean(score)
  elseif self.class_aggregation == "variance_weighted_average" then
    score = ops.reduce_sum(score * total) / ops.reduce_sum(total)
  end
  return adjusted(self, score)
end

about.say("metrics", {
  {"F1Score", text = "The harmonic mean of precision and recall, of each class or averaged."},
  {"FBetaScore", text = "The weighted harmonic mean of precision and recall: beta says how much "
    .. "more recall counts."},
  {"R2Score", text = "The share of the labels' variance that the predictions explain."},
})

return scores
