-- Accuracies and the means of errors.

local about = require "ipulua.base.parts.about"
local class_numbers = require "ipulua.keras.base.class_numbers"
local base = require "ipulua.keras.metrics.base"
local context = require "ipulua.keras.base.context"
local losses = require "ipulua.keras.losses"
local operands = require "ipulua.keras.base.operands"
local ops = require "ipulua.ops"
local shapes = require "ipulua.keras.base.shapes"

local accuracy = {functions = {}, classes = {}}

local f <const> = accuracy.functions

local function as_float(condition) return ops.cast(condition, "float32") end

---1 where label and prediction are equal.
function f.accuracy(y_true, y_pred)
  return as_float(ops.equal(y_true, y_pred))
end

local threshold_rows <const> = {operands.rows[1], operands.rows[2], {"threshold", "number", 0.5}}

---The share of a sample's labels that the predictions, cut at a threshold, meet.
function f.binary_accuracy(...)
  local a = operands.read("binary_accuracy", threshold_rows, ...)
  local y_pred = ops.cast(ops.greater(a.y_pred, a.threshold), a.y_true.dtype)
  return ops.reduce_mean(as_float(ops.equal(a.y_true, y_pred)), {axis = -1})
end

---1 where the greatest prediction is at the greatest label.
function f.categorical_accuracy(y_true, y_pred)
  return as_float(ops.equal(ops.argmax(y_true, {axis = -1}), ops.argmax(y_pred, {axis = -1})))
end

-- Labels without a last axis of 1, one for each row of classes.
local function labels_of(who, y_true, y_pred)
  if #y_true.shape == #y_pred.shape then y_true = ops.squeeze(y_true, {axis = -1}) end
  shapes.check_equal(y_true.shape, table.move(y_pred.shape, 1, #y_pred.shape - 1, 1, {}), who,
    "the labels", "the prediction without its classes")
  return class_numbers(y_true)
end

---1 where the greatest prediction is at the label, a class number.
function f.sparse_categorical_accuracy(y_true, y_pred)
  local labels = labels_of("sparse_categorical_accuracy", y_true, y_pred)
  return as_float(ops.equal(labels, ops.argmax(y_pred, {axis = -1})))
end

local k_rows <const> = {operands.rows[1], operands.rows[2], {"k", "integer", 5, range = "[1, inf)"}}

-- 1 where the label is a class whose prediction is finite and exceeded by fewer than k others. A
-- sample with a prediction that is NaN has no order, and gets 0.
local function in_top_k(labels, y_pred, k)
  local hot = ops.cast(ops.one_hot(labels, y_pred.shape[#y_pred.shape]), "bool")
  local nowhere = ops.zeros_like(y_pred) -- a product with 0 would turn infinite values into NaN
  local chosen = ops.reduce_sum(ops.where(hot, y_pred, nowhere), {axis = -1, keepdims = true})
  local above = ops.reduce_sum(as_float(ops.greater(y_pred, chosen)), {axis = -1})
  local known = ops.reduce_any(ops.logical_and(hot, ops.is_finite(y_pred)), {axis = -1})
  local ordered = ops.logical_not(ops.reduce_any(ops.is_nan(y_pred), {axis = -1}))
  return as_float(ops.logical_and(ops.logical_and(known, ordered), ops.less(above, k)))
end

---1 where the label is among the k greatest predictions.
function f.sparse_top_k_categorical_accuracy(...)
  local a = operands.read("sparse_top_k_categorical_accuracy", k_rows, ...)
  local labels = labels_of("sparse_top_k_categorical_accuracy", a.y_true, a.y_pred)
  return in_top_k(labels, a.y_pred, a.k)
end

---1 where the greatest label is among the k greatest predictions.
function f.top_k_categorical_accuracy(...)
  local a = operands.read("top_k_categorical_accuracy", k_rows, ...)
  return in_top_k(ops.argmax(a.y_true, {axis = -1}), a.y_pred, a.k)
end

local axis_rows <const> = {operands.rows[1], operands.rows[2], {"axis", "integer", -1}}

---The cosine of the angle between label and prediction.
function f.cosine_similarity(...)
  local a = operands.read("cosine_similarity", axis_rows, ...)
  return -losses.cosine_similarity(a.y_true, a.y_pred, {axis = a.axis})
end

for _, name in ipairs{"accuracy", "categorical_accuracy", "sparse_categorical_accuracy"} do
  f[name] = operands.checked(name, f[name])
end

-- class → function, whether labels are class numbers, rows of the function's own arguments
local crossentropy_rows <const> = {{"from_logits", "boolean", false},
  {"label_smoothing", "number", 0, range = "[0, 1]"}}
local wrapped <const> = {
  Accuracy = {f.accuracy}, BinaryAccuracy = {f.binary_accuracy, {"threshold", "number", 0.5}},
  CategoricalAccuracy = {f.categorical_accuracy},
  SparseCategoricalAccuracy = {f.sparse_categorical_accuracy, sparse = true},
  TopKCategoricalAccuracy = {f.top_k_categorical_accuracy, {"k", "integer", 5, range = "[1, inf)"}},
  SparseTopKCategoricalAccuracy = {f.sparse_top_k_categorical_accuracy,
    {"k", "integer", 5, range = "[1, inf)"}, sparse = true},
  CosineSimilarity = {f.cosine_similarity, {"axis", "integer", -1}},
  MeanSquaredError = {losses.mean_squared_error}, MeanAbsoluteError = {losses.mean_absolute_error},
  MeanAbsolutePercentageError = {losses.mean_absolute_percentage_error},
  MeanSquaredLogarithmicError = {losses.mean_squared_logarithmic_error}, Hinge = {losses.hinge},
  SquaredHinge = {losses.squared_hinge}, CategoricalHinge = {losses.categorical_hinge},
  LogCoshError = {losses.log_cosh},
  KLDivergence = {losses.kl_divergence}, Poisson = {losses.poisson},
  BinaryCrossentropy = {losses.binary_crossentropy, crossentropy_rows[1], crossentropy_rows[2]},
  CategoricalCrossentropy = {losses.categorical_crossentropy, crossentropy_rows[1],
    crossentropy_rows[2]},
  SparseCategoricalCrossentropy = {losses.sparse_categorical_crossentropy, crossentropy_rows[1],
    {"axis", "integer", -1}, sparse = true},
}

for name, row in pairs(wrapped) do
  local rows = table.move(row, 2, #row, 1, {})
  local c = base.declare(name, rows, base.MeanMetricWrapper)
  c.is_sparse, c.wants_equal = row.sparse, not row.sparse
  function c:values(y_true, y_pred)
    if #rows == 0 then return row[1](y_true, y_pred) end
    local options = {}
    for _, each in ipairs(rows) do options[each[1]] = self[each[1]] end
    return row[1](y_true, y_pred, options)
  end
  accuracy.classes[name] = c
end
accuracy.classes.KLDivergence.usual_name = "kullback_leibler_divergence"
accuracy.classes.LogCoshError.usual_name = "logcosh"

-- A prediction that is cast keeps the logits it came from.
local update <const> = base.MeanMetricWrapper.update_state
---Takes a batch in: labels and predictions; sample_weight is a weight of each sample.
function base.MeanMetricWrapper:update_state(y_true, y_pred, sample_weight)
  local cast = base.as_tensor(y_pred, self.dtype)
  if cast ~= y_pred and context.logits(y_pred) then
    context.set_logits(cast, ops.cast(context.logits(y_pred), self.dtype))
  end
  return update(self, y_true, cast, sample_weight)
end

-- Labels and predictions in the metric's dtype, of equal shapes but for a last axis of 1.
local function fitted(self, y_true, y_pred)
  y_true, y_pred = base.as_tensor(y_true, self.dtype), base.as_tensor(y_pred, self.dtype)
  y_true, y_pred = shapes.fit_ranks(y_true, y_pred)
  shapes.check_equal(y_true.shape, y_pred.shape, self.name, "y_true", "y_pred")
  return y_true, y_pred
end

---The root of the mean of squared errors.
---@class RootMeanSquaredError: Metric
local RootMeanSquaredError = base.declare("RootMeanSquaredError", {}, base.Mean)
accuracy.classes.RootMeanSquaredError = RootMeanSquaredError

---Takes a batch in: labels and predictions; sample_weight is a weight of each sample.
function RootMeanSquaredError:update_state(y_true, y_pred, sample_weight)
  y_true, y_pred = fitted(self, y_true, y_pred)
  base.Mean.update_state(self, ops.squared_difference(y_pred, y_true), sample_weight)
end

---The value so far.
function RootMeanSquaredError:result() return ops.sqrt(base.Mean.result(self)) end

---The mean of absolute errors divided by a normalizer.
---@class MeanRelativeError: Metric
local MeanRelativeError = base.declare("MeanRelativeError",
  {{"normalizer", {"tensor", "list", "number"}}}, base.Mean)
accuracy.classes.MeanRelativeError = MeanRelativeError

---Takes a batch in: labels and predictions; sample_weight is a weight of each sample.
function MeanRelativeError:update_state(y_true, y_pred, sample_weight)
  y_true, y_pred = fitted(self, y_true, y_pred)
  local normalizer = base.as_tensor(self.normalizer, self.dtype)
  local difference = ops.abs(y_true - y_pred)
  normalizer = ops.broadcast_to(normalizer, difference.shape)
  base.Mean.update_state(self, base.divide_no_nan(difference, normalizer), sample_weight)
end

about.say("metrics", {
  {"Accuracy", text = "How often label and prediction are equal."},
  {"BinaryAccuracy", text = "How often p > threshold says the label, 0 or 1."},
  {"BinaryCrossentropy", text = "As the loss, averaged."},
  {"CategoricalAccuracy", text = "How often the greatest prediction is at the 1 of the label."},
  {"CategoricalCrossentropy", text = "As the loss, averaged."},
  {"CategoricalHinge", text = "As the loss, averaged."},
  {"CosineSimilarity", text = "The cosine of the angle between y and p, averaged."},
  {"Hinge", text = "As the loss, averaged."},
  {"KLDivergence", text = "As the loss, averaged.",
    source = "Kullback & Leibler 1951 (Ann. Math. Statist. 22)"},
  {"LogCoshError", text = "The loss LogCosh, averaged."},
  {"MeanAbsoluteError", text = "The mean of |y − p|."},
  {"MeanAbsolutePercentageError", text = "As the loss, averaged."},
  {"MeanSquaredError", text = "The mean of (y − p)²."},
  {"MeanSquaredLogarithmicError", text = "As the loss, averaged."},
  {"Poisson", text = "As the loss, averaged."},
  {"SparseCategoricalAccuracy",
    text = "How often the greatest prediction is at the class number."},
  {"SparseCategoricalCrossentropy", text = "As the loss, averaged."},
  {"SparseTopKCategoricalAccuracy",
    text = "How often the class number is among the k greatest predictions."},
  {"SquaredHinge", text = "As the loss, averaged."},
  {"TopKCategoricalAccuracy", text = "How often the one-hot label is among the k greatest "
    .. "predictions."},
})

return accuracy
