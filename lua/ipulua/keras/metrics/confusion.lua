-- Metrics from counts of right and wrong decisions at thresholds.

local about = require "ipulua.base.parts.about"
local args = require "ipulua.base.args"
local base = require "ipulua.keras.metrics.base"
local blame = require "ipulua.base.blame"
local ops = require "ipulua.ops"
local shapes = require "ipulua.keras.base.shapes"

local confusion = {classes = {}}

local epsilon <const> = 1e-7
local lowest <const> = -1e10 -- below every threshold

local divide_no_nan <const> = base.divide_no_nan

-- ------------------------------------------------ counting

-- Predictions outside a sample's k greatest fall below every threshold.
local function keep_top_k(y_pred, k)
  local _, indices = ops.top_k(y_pred, {k = k})
  local mask = ops.reduce_sum(ops.cast(ops.one_hot(indices, y_pred.shape[#y_pred.shape]),
    y_pred.dtype), {axis = -2})
  return y_pred * mask + (1 - mask) * lowest
end

-- One class' column.
local function column(x, class_id)
  local rank = #x.shape
  local begin, size = {}, {}
  for i, extent in ipairs(x.shape) do begin[i], size[i] = 0, extent end
  begin[rank], size[rank] = class_id, 1
  return ops.squeeze(ops.slice(x, begin, size), {axis = -1})
end

---Counts of a batch: tables of [thresholds] (or [thresholds, labels]) tensors tp, fp, fn, tn.
---@param o table {thresholds, top_k, class_id, sample_weight, multi_label}
function confusion.count(y_true, y_pred, o)
  y_true, y_pred = base.as_tensor(y_true, "float32"), base.as_tensor(y_pred, "float32")
  y_true, y_pred = shapes.fit_ranks(y_true, y_pred)
  shapes.check_equal(y_true.shape, y_pred.shape, o.who, "y_true", "y_pred")
  if o.top_k then y_pred = keep_top_k(y_pred, o.top_k) end
  if o.class_id then y_true, y_pred = column(y_true, o.class_id), column(y_pred, o.class_id) end
  local count = #o.thresholds
  local thresholds, weights
  if o.sample_weight ~= nil then
    weights = shapes.fit_weight(base.as_tensor(o.sample_weight, "float32"), y_pred)
    weights = ops.broadcast_to(weights, y_pred.shape)
  end
  local lead, axis
  if o.multi_label then -- [1, samples, labels]
    local labels_each = 1 -- not a quotient: a batch may have no sample
    for i = 2, #y_pred.shape do labels_each = labels_each * y_pred.shape[i] end
    lead, axis = {1, y_pred.shape[1], labels_each}, 1
    thresholds = ops.tensor(o.thresholds):reshape{count, 1, 1}
  else
    lead, axis = {1, y_pred.size}, 1
    thresholds = ops.tensor(o.thresholds):reshape{count, 1}
  end
  local labels, predictions = ops.reshape(y_true, lead), ops.reshape(y_pred, lead)
  local w = weights and ops.reshape(weights, lead)
  if o.label_weights then
    w = w and w * o.label_weights or ops.broadcast_to(o.label_weights, lead)
  end
  local positive = ops.cast(ops.greater(predictions, thresholds), "float32")
  local truth = ops.cast(ops.cast(labels, "bool"), "float32")
  local function sum(x)
    if w then x = x * w end
    return ops.reduce_sum(x, {axis = axis})
  end
  return {
    tp = sum(positive * truth), fp = sum(positive * (1 - truth)), fn = sum((1 - positive) * truth),
    tn = sum((1 - positive) * (1 - truth)),
  }
end

local function threshold_list(thresholds, default)
  if thresholds == nil then return {default} end
  local list = type(thresholds) == "number" and {thresholds} or thresholds
  for _, t in ipairs(list) do
    if type(t) ~= "number" or t < 0 or t > 1 then
      blame.error("thresholds must lie in [0, 1], got " .. args.describe(t), "value")
    end
  end
  return list
end

local function add_states(self, states, shape)
  for _, name in ipairs(states) do self[name] = self:add_weight{name = name, shape = shape} end
end

local function add_counts(self, states, counts)
  for _, name in ipairs(states) do
    self[name]:assign_add(ops.cast(ops.reshape(counts[name], self[name].shape), self.dtype))
  end
end

local function first_if_single(self, values)
  if #self.list == 1 then return ops.reshape(values, {}) end
  return values
end

-- ------------------------------------------------ one count

local thresholds_row <const> = {"thresholds", {"number", "list"}, optional = true}

for name, state in pairs{TruePositives = "tp", FalsePositives = "fp", TrueNegatives = "tn",
  FalseNegatives = "fn"} do
  local c = base.declare(name, {thresholds_row})
  confusion.classes[name] = c
  function c:setup()
    self.list = threshold_list(self.thresholds, 0.5)
    add_states(self, {state}, {#self.list})
  end
  ---Takes a batch in: labels and predictions; sample_weight is a weight of each sample.
  function c:update_state(y_true, y_pred, sample_weight)
    add_counts(self, {state}, confusion.count(y_true, y_pred,
      {thresholds = self.list, sample_weight = base.weight_of(sample_weight), who = self.name}))
  end
  ---The value so far.
  function c:result() return first_if_single(self, self[state]:read_value()) end
end

-- ------------------------------------------------ precision and recall

local class_row <const> = {"class_id", "integer", optional = true, range = "[0, inf)"}
local decision_rows <const> = {thresholds_row,
  {"top_k", "integer", optional = true, range = "[1, inf)"}, class_row}

-- name → the count beside the true positives
for name, other in pairs{Precision = "fp", Recall = "fn"} do
  local c = base.declare(name, decision_rows)
  confusion.classes[name] = c
  function c:setup()
    self.list = threshold_list(self.thresholds, self.top_k and lowest / 10 or 0.5)
    add_states(self, {"tp", other}, {#self.list})
  end
  ---Takes a batch in: labels and predictions; sample_weight is a weight of each sample.
  function c:update_state(y_true, y_pred, sample_weight)
    add_counts(self, {"tp", other},
      confusion.count(y_true, y_pred, {thresholds = self.list, top_k = self.top_k,
      class_id = self.class_id, sample_weight = base.weight_of(sample_weight), who = self.name}))
  end
  ---The value so far.
  function c:result()
    local tp = self.tp:read_value()
    return first_if_single(self, divide_no_nan(tp, tp + self[other]:read_value()))
  end
end

-- ------------------------------------------------ one rate where another is good enough

-- thresholds 0, 1/(n-1) … 1
local function even_thresholds(count)
  if count == 1 then return {0.5} end
  local list = {0}
  for i = 1, count - 2 do list[i + 1] = i / (count - 1) end
  list[count] = 1
  return list
end

local all_states <const> = {"tp", "fp", "tn", "fn"}

local function rates(self)
  local tp, fp, tn, fn = self.tp:read_value(), self.fp:read_value(), self.tn:read_value(),
    self.fn:read_value()
  return {
    recall = divide_no_nan(tp, tp + fn), precision = divide_no_nan(tp, tp + fp),
    specificity = divide_no_nan(tn, tn + fp),
  }
end

-- class → argument (and constrained rate), reported rate
local constrained <const> = {
  SensitivityAtSpecificity = {"specificity", "specificity", "recall"},
  SpecificityAtSensitivity = {"sensitivity", "recall", "specificity"},
  PrecisionAtRecall = {"recall", "recall", "precision"},
  RecallAtPrecision = {"precision", "precision", "recall"},
}
for name, row in pairs(constrained) do
  local argument, limited, reported = table.unpack(row)
  local c = base.declare(name, {
    {argument, "number", range = "[0, 1]"},
    {"num_thresholds", "integer", 200, range = "[1, 1000000]"}, class_row,
  })
  confusion.classes[name] = c
  function c:setup()
    self.list = even_thresholds(self.num_thresholds)
    add_states(self, all_states, {#self.list})
  end
  ---Takes a batch in: labels and predictions; sample_weight is a weight of each sample.
  function c:update_state(y_true, y_pred, sample_weight)
    add_counts(self, all_states, confusion.count(y_true, y_pred,
      {thresholds = self.list, class_id = self.class_id,
        sample_weight = base.weight_of(sample_weight), who = self.name}))
  end
  ---The value so far.
  function c:result()
    local r = rates(self)
    local feasible = ops.greater_equal(r[limited], self[argument])
    return ops.reduce_max(ops.where(feasible, r[reported], ops.zeros_like(r[reported])))
  end
end

-- ------------------------------------------------ area under a curve

---@class AUC: Metric
local AUC = base.declare("AUC", {
  {"num_thresholds", "integer", 200, range = "[2, 1000000]"},
  {"curve", "string", "ROC", choices = {"ROC", "PR", "roc", "pr"}},
  {"summation_method", "string", "interpolation", choices = {
    "interpolation", "minoring", "majoring", "Interpolation", "Minoring", "Majoring",
  }},
  {"thresholds", "list", optional = true}, {"multi_label", "boolean", false},
  {"num_labels", "integer", optional = true},
  {"label_weights", "any", optional = true, of = "list or tensor",
    says = "a factor for each label, with multi_label"},
  {"from_logits", "boolean", false},
})
confusion.classes.AUC = AUC

-- The outermost thresholds lie just beyond 0 and 1.
local function auc_thresholds(self)
  local inner = {}
  if self.thresholds then
    inner = table.move(threshold_list(self.thresholds), 1, #self.thresholds, 1, {})
    table.sort(inner)
  else
    for i = 1, self.num_thresholds - 2 do inner[i] = i / (self.num_thresholds - 1) end
  end
  local list = {-epsilon}
  table.move(inner, 1, #inner, 2, list)
  list[#list + 1] = 1 + epsilon
  return list
end

function AUC:setup()
  self.curve, self.summation_method = self.curve:upper(), self.summation_method:lower()
  self.list = auc_thresholds(self)
  if not self.multi_label then add_states(self, all_states, {#self.list})
  elseif self.num_labels then add_states(self, all_states, {#self.list, self.num_labels}) end
end

-- A single weight would count each label so often, and divide once.
local function check_label_weights(self, y_pred)
  local shape = base.as_tensor(self.label_weights, "float32").shape
  shapes.check_equal(shape, {y_pred.shape[#y_pred.shape]}, self.name, "label_weights",
    "the labels of a sample")
end

---Takes a batch in: labels and predictions; sample_weight is a weight of each sample.
function AUC:update_state(y_true, y_pred, sample_weight)
  y_pred = base.as_tensor(y_pred, "float32")
  if self.from_logits then y_pred = ops.sigmoid(y_pred) end
  if self.multi_label and not self.tp then
    add_states(self, all_states, {#self.list, y_pred.shape[#y_pred.shape]})
  end
  local label_weights
  if self.label_weights then check_label_weights(self, y_pred) end
  if self.label_weights and not self.multi_label then
    label_weights = ops.broadcast_to(base.as_tensor(self.label_weights, "float32"), y_pred.shape)
    label_weights = ops.reshape(label_weights, {1, y_pred.size})
  end
  add_counts(self, all_states,
    confusion.count(y_true, y_pred, {thresholds = self.list, multi_label = self.multi_label,
    label_weights = label_weights, sample_weight = base.weight_of(sample_weight), who = self.name}))
end

-- Rows of x but the last, and but the first.
local function neighbours(x)
  local count = x.shape[1]
  local begin, size, after = {}, {}, {}
  for i, extent in ipairs(x.shape) do begin[i], size[i], after[i] = 0, extent, 0 end
  size[1], after[1] = count - 1, 1
  return ops.slice(x, begin, size), ops.slice(x, after, size)
end

-- Precision between two points isn't linear: the interpolation of Davis & Goadrich (2006).
local function interpolated_pr(tp, fp, fn)
  local tp_here, tp_next = neighbours(tp)
  local p_here, p_next = neighbours(tp + fp)
  local _, fn_next = neighbours(fn)
  local dtp, dp = tp_here - tp_next, p_here - p_next
  local slope = divide_no_nan(dtp, ops.maximum(dp, 0))
  local intercept = tp_next - slope * p_next
  local both = ops.logical_and(ops.greater(p_here, 0), ops.greater(p_next, 0))
  local ratio = ops.where(both, divide_no_nan(p_here, ops.maximum(p_next, 0)),
    ops.ones_like(p_next))
  return divide_no_nan(slope * (dtp + intercept * ops.log(ratio)),
    ops.maximum(tp_next + fn_next, 0))
end

function AUC:heights(y)
  local here, following = neighbours(y)
  if self.summation_method == "interpolation" then return (here + following) / 2 end
  if self.summation_method == "minoring" then return ops.minimum(here, following) end
  return ops.maximum(here, following)
end

---The value so far.
function AUC:result()
  local tp, fp, tn, fn = self.tp:read_value(), self.fp:read_value(), self.tn:read_value(),
    self.fn:read_value()
  local areas
  if self.curve == "PR" and self.summation_method == "interpolation" then
    areas = interpolated_pr(tp, fp, fn)
  else
    local recall = divide_no_nan(tp, tp + fn)
    local x, y
    if self.curve == "ROC" then x, y = divide_no_nan(fp, fp + tn), recall
    else x, y = recall, divide_no_nan(tp, tp + fp) end
    local here, following = neighbours(x)
    areas = (here - following) * self:heights(y)
  end
  if not self.multi_label then return ops.reduce_sum(areas) end
  local by_label = ops.reduce_sum(areas, {axis = 0})
  if not self.label_weights then return ops.reduce_mean(by_label) end
  local w = base.as_tensor(self.label_weights, "float32")
  return divide_no_nan(ops.reduce_sum(by_label * w), ops.reduce_sum(w))
end

-- ------------------------------------------------ intersection over union

---@class MeanIoU: Metric
local MeanIoU = base.declare("MeanIoU", {{"num_classes", "integer", range = "[1, inf)"},
  {"ignore_class", "integer", optional = true, by_name = true,
    says = "a label whose pairs don't count"},
  {"sparse_y_true", "boolean", true, by_name = true,
    says = "whether labels are class numbers; else scores of the classes, in `axis`"},
  {"sparse_y_pred", "boolean", true, by_name = true,
    says = "whether predictions are class numbers; else scores of the classes, in `axis`"},
  {"axis", "integer", -1, by_name = true}})
confusion.classes.MeanIoU = MeanIoU

function MeanIoU:setup()
  self.total_cm = self:add_weight{name = "total_confusion_matrix",
    shape = {self.num_classes, self.num_classes}}
end

---Takes a batch in: labels and predictions; sample_weight is a weight of each sample.
function MeanIoU:update_state(y_true, y_pred, sample_weight)
  local function classes(x, sparse)
    if sparse then return base.as_tensor(x, "int32") end
    return ops.argmax(base.as_tensor(x, "float32"), {axis = self.axis})
  end
  y_true, y_pred = classes(y_true, self.sparse_y_true), classes(y_pred, self.sparse_y_pred)
  local count = y_pred.size
  local truth = ops.cast(ops.one_hot(ops.reshape(y_true, {count}), self.num_classes), self.dtype)
  local guess = ops.cast(ops.one_hot(ops.reshape(y_pred, {count}), self.num_classes), self.dtype)
  sample_weight = base.weight_of(sample_weight)
  if sample_weight ~= nil then
    truth = truth * ops.reshape(base.as_tensor(sample_weight, self.dtype), {count, 1})
  end
  if self.ignore_class ~= nil then
    local counts = ops.not_equal(ops.reshape(y_true, {count, 1}), self.ignore_class)
    truth = ops.where(counts, truth, 0)
  end
  self.total_cm:assign_add(ops.matmul(truth, guess, {transpose_a = true}))
end

---The value so far.
function MeanIoU:result()
  local cm = self.total_cm:read_value()
  local hits = ops.reduce_sum(cm * ops.eye(self.num_classes, {dtype = self.dtype}), {axis = 0})
  local union = ops.reduce_sum(cm, {axis = 0}) + ops.reduce_sum(cm, {axis = 1}) - hits
  local present = ops.reduce_sum(ops.cast(ops.not_equal(union, 0), self.dtype))
  return divide_no_nan(ops.reduce_sum(divide_no_nan(hits, union)), present)
end

about.say("metrics", {
  {"AUC", text = "The area under the ROC (or PR) curve, from num_thresholds thresholds."},
  {"FalseNegatives", text = "Counts labels of 1 whose prediction is not above the threshold."},
  {"FalsePositives", text = "Counts labels of 0 whose prediction is above the threshold."},
  {"MeanIoU", text = "Intersection over union of class numbers, averaged over the classes that "
    .. "occur; a pair with a number outside of 0 … num_classes - 1 doesn't count."},
  {"Precision", text = "The share of positive predictions that are right."},
  {"PrecisionAtRecall", text = "The best precision where recall is at least a value."},
  {"Recall", text = "The share of positives that were predicted."},
  {"RecallAtPrecision", text = "The best recall where precision is at least a value."},
  {"SensitivityAtSpecificity", text = "The best sensitivity at a specificity."},
  {"SpecificityAtSensitivity", text = "The best specificity at a sensitivity."},
  {"TrueNegatives", text = "Counts labels of 0 whose prediction is not above the threshold."},
  {"TruePositives", text = "Counts labels of 1 whose prediction is above the threshold."},
})

return confusion
