-- Cross-entropies: losses of predictions that are probabilities of classes, or logits. The numerics
-- follow Keras 2.6, to the position of each epsilon.

local class_numbers = require "ipulua.keras.base.class_numbers"
local context = require "ipulua.keras.base.context"
local log = require "ipulua.base.log"
local operands = require "ipulua.keras.base.operands"
local ops = require "ipulua.ops"
local shapes = require "ipulua.keras.base.shapes"

local crossentropies = {}

local epsilon <const> = 1e-7

-- The logits that a prediction was made from by softmax or sigmoid, and whether they are to be
-- used.
local function find_logits(y_pred, from_logits, what)
  local logits = context.logits(y_pred)
  if not logits then return y_pred, from_logits end
  if from_logits then
    log.warn("%s has from_logits = true, but its prediction comes from a softmax or sigmoid "
      .. "activation and so is no logits; "
      .. "the activation's input is used", what)
  end
  return logits, true
end

local crossentropy_rows <const> = {
  operands.rows[1], operands.rows[2], {"from_logits", "boolean", false},
  {"label_smoothing", "number", 0, range = "[0, 1]"},
  {"axis", "integer", -1},
}

-- Labels of so many classes, as the argument label_smoothing says.
local function smoothed(a, classes)
  if a.label_smoothing == 0 then return a.y_true end
  return a.y_true * (1 - a.label_smoothing) + a.label_smoothing / classes
end

-- One number for each element: labels of 0 and 1.
local function binary_entropy(y_true, output, from_logits)
  if from_logits then return ops.nn.sigmoid_cross_entropy_with_logits(y_true, output) end
  output = ops.clip_by_value(output, epsilon, 1 - epsilon)
  return -(y_true * ops.log(output + epsilon) + (1 - y_true) * ops.log(1 - output + epsilon))
end

---@return userdata
function crossentropies.binary_crossentropy(...)
  local a = operands.read("binary_crossentropy", crossentropy_rows, ...)
  local y_true = smoothed(a, 2)
  local output, from_logits = find_logits(a.y_pred, a.from_logits, "binary_crossentropy")
  return ops.reduce_mean(binary_entropy(y_true, output, from_logits), {axis = a.axis})
end

local focal_rows <const> = {
  operands.rows[1], operands.rows[2],
  {"alpha", "number", 0.25, range = "[0, 1]", says = "weight of the class 1, or of all classes"},
  {"gamma", "number", 2.0, range = "[0, inf)", says = "how much sure predictions count less"},
  {"from_logits", "boolean", false}, {"label_smoothing", "number", 0, range = "[0, 1]"},
  {"axis", "integer", -1},
}
local balanced_rows <const> = table.move(focal_rows, 1, #focal_rows, 1, {})
balanced_rows[#balanced_rows + 1] = {"apply_class_balancing", "boolean", false,
  says = "whether alpha weighs the classes"}

---Binary cross-entropy in which sure predictions count less: times (1 - p)^gamma, p being the
---probability of the label.
---@return userdata
---Source: Lin et al., Focal loss for dense object detection, 2017
function crossentropies.binary_focal_crossentropy(...)
  local a = operands.read("binary_focal_crossentropy", balanced_rows, ...)
  local y_true = smoothed(a, 2)
  local output, from_logits = find_logits(a.y_pred, a.from_logits, "binary_focal_crossentropy")
  local p = from_logits and ops.sigmoid(output) or output
  local of_label = y_true * p + (1 - y_true) * (1 - p)
  local focal = ops.pow(1 - of_label, a.gamma) * binary_entropy(y_true, output, from_logits)
  if a.apply_class_balancing then
    focal = focal * (y_true * a.alpha + (1 - y_true) * (1 - a.alpha))
  end
  return ops.reduce_mean(focal, {axis = a.axis})
end

-- Of the last axis: with the sum 1, none of them 0 or 1.
local function probabilities(output)
  output = output / ops.reduce_sum(output, {axis = -1, keepdims = true})
  return ops.clip_by_value(output, epsilon, 1 - epsilon)
end

---@return userdata
function crossentropies.categorical_crossentropy(...)
  local a = operands.read("categorical_crossentropy", crossentropy_rows, ...)
  local y_true = smoothed(a, a.y_pred.shape[#a.y_pred.shape])
  local output, from_logits = find_logits(a.y_pred, a.from_logits, "categorical_crossentropy")
  y_true, output = shapes.to_last(y_true, a.axis), shapes.to_last(output, a.axis)
  if from_logits then return ops.nn.softmax_cross_entropy_with_logits(y_true, output) end
  output = probabilities(output)
  return -ops.reduce_sum(y_true * ops.log(output), {axis = -1})
end

---Categorical cross-entropy in which sure predictions count less: times alpha (1 - p)^gamma.
---@return userdata
---Source: Lin et al., Focal loss for dense object detection, 2017
function crossentropies.categorical_focal_crossentropy(...)
  local a = operands.read("categorical_focal_crossentropy", focal_rows, ...)
  local y_true = smoothed(a, a.y_pred.shape[#a.y_pred.shape])
  local output, from_logits = find_logits(a.y_pred, a.from_logits,
    "categorical_focal_crossentropy")
  y_true, output = shapes.to_last(y_true, a.axis), shapes.to_last(output, a.axis)
  if from_logits then output = ops.nn.softmax(output) end
  output = probabilities(output)
  local focal = ops.pow(1 - output, a.gamma) * a.alpha
  return ops.reduce_sum(-(y_true * ops.log(output)) * focal, {axis = -1})
end

local sparse_rows <const> = {
  operands.rows[1], operands.rows[2], {"from_logits", "boolean", false}, {"axis", "integer", -1},
  {"ignore_class", "integer", optional = true, says = "a label whose samples don't count"},
}

---Labels are class numbers, integers or floats, with or without a last axis of 1; one that is no
---class is an error. Where the label is ignore_class, the loss is 0.
---@return userdata
function crossentropies.sparse_categorical_crossentropy(...)
  local a = operands.read("sparse_categorical_crossentropy", sparse_rows, ...)
  local output, from_logits = find_logits(a.y_pred, a.from_logits,
    "sparse_categorical_crossentropy")
  output = shapes.to_last(output, a.axis)
  if not from_logits then output = ops.log(ops.clip_by_value(output, epsilon, 1 - epsilon)) end
  local labels = class_numbers(a.y_true)
  local wanted = table.move(output.shape, 1, #output.shape - 1, 1, {})
  if #labels.shape == #wanted + 1 and labels.shape[#labels.shape] == 1 then
    labels = ops.squeeze(labels, {axis = -1})
  end
  shapes.check_equal(labels.shape, wanted, "sparse_categorical_crossentropy", "the labels",
    "the prediction without its classes")
  local f = ops.nn.sparse_softmax_cross_entropy_with_logits
  if a.ignore_class == nil then return f(labels, output) end
  local counts = ops.not_equal(labels, a.ignore_class)
  return ops.where(counts, f(ops.where(counts, labels, 0), output), 0)
end

return crossentropies
