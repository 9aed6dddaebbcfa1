-- Losses. A function gives one number for each sample (the mean over the last axis); an object
-- weighs these and reduces them to a scalar. The numerics follow Keras 2.6, to the position of each
-- epsilon.

local about = require "ipulua.base.parts.about"
local args = require "ipulua.base.args"
local blame = require "ipulua.base.blame"
local class = require "ipulua.base.class"
local class_numbers = require "ipulua.keras.base.class_numbers"
local core = require "ipulua.core"
local crossentropies = require "ipulua.keras.crossentropies"
local lengths = require "ipulua.keras.base.lengths"
local names = require "ipulua.base.parts.names"
local operands = require "ipulua.keras.base.operands"
local ops = require "ipulua.ops"
local parts = require "ipulua.base.parts"
local shapes = require "ipulua.keras.base.shapes"

local losses = {}
for name, f in pairs(crossentropies) do losses[name] = f end

local epsilon <const> = 1e-7

-- ------------------------------------------------ functions

local function mean_last(x) return ops.reduce_mean(x, {axis = -1}) end

local function absolute(x) return ops.abs(x) end

---@return userdata one number for each sample
function losses.mean_squared_error(y_true, y_pred)
  return mean_last(ops.squared_difference(y_pred, y_true))
end

---@return userdata
function losses.mean_absolute_error(y_true, y_pred)
  return mean_last(absolute(y_pred - y_true))
end

---@return userdata
function losses.mean_absolute_percentage_error(y_true, y_pred)
  local relative = absolute((y_true - y_pred) / ops.maximum(absolute(y_true), epsilon))
  return mean_last(relative) * 100
end

---@return userdata
function losses.mean_squared_logarithmic_error(y_true, y_pred)
  local first = ops.log(ops.maximum(y_pred, epsilon) + 1)
  local second = ops.log(ops.maximum(y_true, epsilon) + 1)
  return mean_last(ops.squared_difference(first, second))
end

-- Labels of 0 and 1 become -1 and 1; others stay.
local function signed_labels(y_true)
  local is_zero, is_one = ops.equal(y_true, 0), ops.equal(y_true, 1)
  local binary = ops.cast(ops.reduce_all(ops.logical_or(is_zero, is_one)), y_true.dtype)
  return binary * (2 * y_true - 1) + (1 - binary) * y_true
end

---@return userdata
function losses.hinge(y_true, y_pred)
  return mean_last(ops.maximum(1 - signed_labels(y_true) * y_pred, 0))
end

---@return userdata
function losses.squared_hinge(y_true, y_pred)
  return mean_last(ops.square(ops.maximum(1 - signed_labels(y_true) * y_pred, 0)))
end

---@return userdata
function losses.categorical_hinge(y_true, y_pred)
  local positive = ops.reduce_sum(y_true * y_pred, {axis = -1})
  local negative = ops.reduce_max((1 - y_true) * y_pred, {axis = -1})
  return ops.maximum(negative - positive + 1, 0)
end

local huber_rows <const> = {operands.rows[1], operands.rows[2],
  {"delta", "number", 1.0, range = "[0, inf)"}}

---Squared up to delta, linear beyond.
---@return userdata
function losses.huber(...)
  local a = operands.read("huber", huber_rows, ...)
  local difference = absolute(a.y_pred - a.y_true)
  local delta = a.delta
  return mean_last(ops.where(ops.less_equal(difference, delta), ops.square(difference) * 0.5,
    difference * delta - 0.5 * delta * delta))
end

---The logarithm of the hyperbolic cosine of the error.
---@return userdata
function losses.log_cosh(y_true, y_pred)
  local x = y_pred - y_true
  return mean_last(x + ops.nn.softplus(x * -2) - math.log(2))
end

---@return userdata
function losses.kl_divergence(y_true, y_pred)
  y_true = ops.clip_by_value(y_true, epsilon, 1)
  y_pred = ops.clip_by_value(y_pred, epsilon, 1)
  return ops.reduce_sum(y_true * ops.log(y_true / y_pred), {axis = -1})
end

---@return userdata
function losses.poisson(y_true, y_pred)
  return mean_last(y_pred - y_true * ops.log(y_pred + epsilon))
end

local axis_rows <const> = {operands.rows[1], operands.rows[2], {"axis", {"integer", "list"}, -1}}

-- x of length 1 along an axis; the root's argument is at least 1e-12, as in l2_normalize.
function losses._unit(x, axis)
  return lengths.scale(x,
    ops.rsqrt(ops.maximum(lengths.sum_of_squares(x, {axis = axis, keepdims = true}), 1e-12)))
end

---Minus the cosine of the angle between the two.
---@return userdata
function losses.cosine_similarity(...)
  local a = operands.read("cosine_similarity", axis_rows, ...)
  return -ops.reduce_sum(losses._unit(a.y_true, a.axis) * losses._unit(a.y_pred, a.axis),
    {axis = a.axis})
end

local ctc_rows <const> = {
  {"y_true", "list"}, {"y_pred", {"tensor"}}, {"blank_index", "integer", 0},
  {"from_logits", "boolean", false},
}

---y_true holds labels, label lengths and data lengths; y_pred [time, batch, classes].
---@return userdata
function losses.ctc(...)
  local a = args.check("ctc", ctc_rows, ...)
  local labels, label_length, data_length = table.unpack(a.y_true)
  for i = 1, 3 do
    if not args.is_tensor(a.y_true[i]) then
      blame.error("ctc: 'y_true' must hold the tensors labels, label lengths and data lengths",
        "type")
    end
  end
  local f = a.from_logits and ops.nn.ctc_loss or ops.nn.ctc_loss_with_log_probs
  return f(labels, a.y_pred, label_length, data_length, {blank_index = a.blank_index})
end

for _, name in ipairs{"mean_squared_error", "mean_absolute_error", "mean_absolute_percentage_error",
  "mean_squared_logarithmic_error", "hinge", "squared_hinge", "categorical_hinge", "log_cosh",
  "kl_divergence", "poisson"} do
  losses[name] = operands.checked(name, losses[name])
end

-- ------------------------------------------------ objects

---How the losses of a batch become one number.
losses.Reduction = core.plain{AUTO = "auto", SUM_OVER_BATCH_SIZE = "sum_over_batch_size",
  SUM = "sum", NONE = "none"}

local reduction_row <const> = {
  "reduction", "string", "auto", choices = {"auto", "sum_over_batch_size", "sum", "none"},
}
local name_row <const> = {"name", "string", optional = true}

---@class Loss: Class
---@field reduction string
---@field name string
---@overload fun(y_true: any, y_pred: any, sample_weight: any?): userdata
local Loss = parts.declare("Loss", parts.Part, {}, {reduction_row, name_row})
losses.Loss = Loss

function Loss:setup()
  self.name = self.name or names.snake(self.__name)
end

---One number for each sample. Own losses override it.
function Loss:call()
  blame.error(self.__name .. " defines no call(y_true, y_pred)", "not_implemented")
end

local function as_tensor(value)
  if core.is_tensor(value) then return value end
  if core.is_variable(value) then return value:read_value() end
  return core.tensor(value, nil, "what a loss is given")
end

-- Whether it is known to have no elements: the extents that a session feeds are -1.
local function is_empty(t)
  for _, extent in ipairs(t.shape) do
    if extent == 0 then return true end
  end
  return false
end

---per_sample · weights, reduced. Weights have the rank of per_sample, or one less or a last axis of
---1 more.
---@return userdata
---@package
function losses.reduce(per_sample, sample_weight, reduction)
  if not args.is_tensor(per_sample) then
    blame.error("a loss must return a tensor, a number for each sample; it returned "
      .. args.describe(per_sample), "type")
  end
  if sample_weight ~= nil then
    local w = sample_weight
    if type(w) ~= "number" then
      w = shapes.fit_weight(ops.cast(as_tensor(w), per_sample.dtype), per_sample)
    end
    per_sample = per_sample * w
  end
  if reduction == "none" then return per_sample end
  if reduction == "sum" or is_empty(per_sample) then return ops.reduce_sum(per_sample) end
  return ops.reduce_mean(per_sample) -- its sum may exceed the range of half precision
end

function Loss:__call(y_true, y_pred, sample_weight)
  if args.is_plain(sample_weight) and sample_weight.sample_weight then
    sample_weight = sample_weight.sample_weight
  end
  if y_pred == nil and args.is_plain(y_true)
    and (y_true.y_true ~= nil or y_true.y_pred ~= nil) then
    y_true, y_pred, sample_weight = y_true.y_true, y_true.y_pred, y_true.sample_weight
  end
  if y_true == nil or y_pred == nil then
    blame.error(string.format("%s: it is called with y_true and y_pred, got no %s", self.__name,
      y_true == nil and "y_true" or "y_pred"), "type")
  end
  if args.is_plain(y_pred) and type(y_pred[1]) ~= "userdata" then y_pred = as_tensor(y_pred) end
  return losses.reduce(self:call(y_true, y_pred), sample_weight,
    self.reduction == "auto" and "sum_over_batch_size"
    or self.reduction)
end

-- The likely cause of two different shapes.
local function shape_hint(who, a, b)
  if who:find("ategorical") and #a == #b and a[#a] == 1 and b[#b] > 1 then
    return "; for labels that are numbers of classes there is sparse_categorical_crossentropy"
  end
  if who:find("inary") and #a == #b and a[#a] == 1 and b[#b] > 1 then
    return "; it wants one output, Dense(1), or a label for each output; for numbers of classes "
      .. "there is sparse_categorical_crossentropy"
  end
  return a[1] ~= b[1] and "; is the dataset batched?" or nil
end

---y_true and y_pred in the form of a loss function: tensors of one floating dtype, of shapes that
---match.
---@return userdata y_true, userdata y_pred
---@package
function losses.prepare(y_true, y_pred, who, is_sparse)
  y_pred = as_tensor(y_pred)
  if not y_pred.dtype:find("float") then y_pred = ops.cast(y_pred, "float32") end
  y_true = as_tensor(y_true)
  if is_sparse then return y_true, y_pred end
  if y_true.dtype ~= y_pred.dtype then y_true = ops.cast(y_true, y_pred.dtype) end
  y_true, y_pred = shapes.fit_ranks(y_true, y_pred)
  shapes.check_equal(y_true.shape, y_pred.shape, who, "y_true", "y_pred",
    shape_hint(who, y_true.shape, y_pred.shape))
  return y_true, y_pred
end

-- Loss classes around functions: name → function, arguments of the function in order.
local wrapped <const> = {
  MeanSquaredError = {"mean_squared_error"}, MeanAbsoluteError = {"mean_absolute_error"},
  MeanAbsolutePercentageError = {"mean_absolute_percentage_error"},
  MeanSquaredLogarithmicError = {"mean_squared_logarithmic_error"}, Hinge = {"hinge"},
  SquaredHinge = {"squared_hinge"},
  CategoricalHinge = {"categorical_hinge"}, LogCosh = {"log_cosh"},
  KLDivergence = {"kl_divergence"}, Poisson = {"poisson"},
  Huber = {"huber", {"delta", "number", 1.0, range = "[0, inf)"}},
  CosineSimilarity = {"cosine_similarity", {"axis", "integer", -1}},
  BinaryCrossentropy = {"binary_crossentropy", {"from_logits", "boolean", false},
    {"label_smoothing", "number", 0, range = "[0, 1]"},
    {"axis", "integer", -1}},
  CategoricalCrossentropy = {"categorical_crossentropy", {"from_logits", "boolean", false},
    {"label_smoothing", "number", 0, range = "[0, 1]"},
    {"axis", "integer", -1}},
  BinaryFocalCrossentropy = {"binary_focal_crossentropy",
    {"apply_class_balancing", "boolean", false}, {"alpha", "number", 0.25, range = "[0, 1]"},
    {"gamma", "number", 2.0, range = "[0, inf)"}, {"from_logits", "boolean", false},
    {"label_smoothing", "number", 0, range = "[0, 1]"}, {"axis", "integer", -1}},
  CategoricalFocalCrossentropy = {"categorical_focal_crossentropy",
    {"alpha", "number", 0.25, range = "[0, 1]"}, {"gamma", "number", 2.0, range = "[0, inf)"},
    {"from_logits", "boolean", false}, {"label_smoothing", "number", 0, range = "[0, 1]"},
    {"axis", "integer", -1}},
  SparseCategoricalCrossentropy = {"sparse_categorical_crossentropy",
    {"from_logits", "boolean", false},
    {"axis", "integer", -1},
    {"ignore_class", "integer", optional = true, says = "a label whose samples don't count"}},
}

for name, row in pairs(wrapped) do
  local rows = table.move(row, 2, #row, 1, {})
  local c = parts.declare(name, Loss, rows, {reduction_row, name_row})
  local f, is_sparse = losses[row[1]], row[1]:find("^sparse") ~= nil
  c.f = f
  c.is_sparse = is_sparse
  function c:call(y_true, y_pred)
    y_true, y_pred = losses.prepare(y_true, y_pred, self.__name, is_sparse)
    if #rows == 0 then return f(y_true, y_pred) end
    local options = {}
    for _, each in ipairs(rows) do options[each[1]] = self[each[1]] end
    return f(y_true, y_pred, options)
  end
  losses[name] = c
end

-- The mean is over the labels that count.
local of_classes = losses.SparseCategoricalCrossentropy.call
function losses.SparseCategoricalCrossentropy:call(y_true, y_pred)
  local loss = of_classes(self, y_true, y_pred)
  if self.ignore_class == nil or self.reduction == "sum" or self.reduction == "none" then
    return loss
  end
  local counts = ops.not_equal(class_numbers(as_tensor(y_true)), self.ignore_class)
  local share = ops.reduce_mean(ops.cast(counts, "float32"))
  return loss / ops.cast(ops.where(ops.greater(share, 0), share, 1), loss.dtype)
end

local CTCLoss = parts.declare("CTCLoss", Loss,
  {{"blank_index", "integer", 0}, {"from_logits", "boolean", false}},
  {reduction_row, name_row})
losses.CTCLoss = CTCLoss
function CTCLoss:call(y_true, y_pred)
  return losses.ctc(y_true, y_pred,
    {blank_index = self.blank_index, from_logits = self.from_logits})
end

-- A function as a loss, as compile takes one.
local FunctionLoss = parts.declare("FunctionLoss", Loss, {{"fn", "callable"}},
  {reduction_row, {"name", "string", "loss"}})
losses.FunctionLoss = FunctionLoss
function FunctionLoss:call(y_true, y_pred) return self.fn(y_true, y_pred) end

-- Short names that Keras knows.
losses._aliases = {
  mse = "MeanSquaredError", mae = "MeanAbsoluteError", mape = "MeanAbsolutePercentageError",
  msle = "MeanSquaredLogarithmicError", kld = "KLDivergence",
  kullback_leibler_divergence = "KLDivergence",
  logcosh = "LogCosh", huber_loss = "Huber", cosine_proximity = "CosineSimilarity",
  bce = "BinaryCrossentropy",
}

---A loss object from a name, a config, a function or an object.
---@param loss any
---@param custom_objects table?
---@return Loss
function losses.get(loss, custom_objects)
  if type(loss) == "string" then
    local asked <const> = loss:lower():gsub("_", "")
    if asked == "crossentropy" then
      blame.error(string.format("unknown loss '%s'; there are binary_crossentropy (labels 0 and "
        .. "1), categorical_crossentropy (one-hot labels) and sparse_categorical_crossentropy "
        .. "(labels are numbers of classes)", loss), "value")
    end
    loss = losses._aliases[loss:lower()] or loss
  end
  local found = parts.get("loss", loss, {custom_objects = custom_objects})
  if found == nil or class.is_a(found, Loss) then return found end
  for name, row in pairs(wrapped) do
    if losses[row[1]] == found then return losses[name]() end
  end
  if type(found) == "function" then return FunctionLoss(found) end
  local meta = getmetatable(found)
  if type(meta) == "table" and meta.__call then
    return FunctionLoss(function(...) return found(...) end)
  end
  blame.error("a loss must be a name, a loss object or a function, got "
    .. args.describe(loss), "type")
end

-- Other names of the functions. metrics has the same ones.
local other_names = {kullback_leibler_divergence = "kl_divergence", logcosh = "log_cosh"}
for short, long in pairs{
  mse = "mean_squared_error", mae = "mean_absolute_error", mape = "mean_absolute_percentage_error",
  msle = "mean_squared_logarithmic_error", kld = "kl_divergence",
} do other_names[short], other_names[short:upper()] = long, long end

about.say("losses", {
  {"BinaryCrossentropy", text = "−mean(y log p + (1 − y) log(1 − p)), with label smoothing and "
    .. "from_logits"},
  {"BinaryFocalCrossentropy", text = "BinaryCrossentropy times (1 − p of the label)^gamma, so that "
    .. "sure predictions count less",
    source = "Lin et al. 2017, Focal loss for dense object detection"},
  {"CTCLoss", text = "connectionist temporal classification: called with (labels, predictions), a "
    .. "dictionary's lengths beside",
    source = "Graves et al. 2006 (ICML); ipu.keras.losses.CTCLoss of Graphcore's TensorFlow 2.6"},
  {"CategoricalCrossentropy", text = "−Σ y log p over the classes; labels are one-hot"},
  {"CategoricalFocalCrossentropy", text = "−Σ alpha (1 − p)^gamma y log p over the classes",
    source = "Lin et al. 2017, Focal loss for dense object detection"},
  {"CategoricalHinge", text = "max(0, 1 + max((1 − y)·p) − Σ y·p)"},
  {"CosineSimilarity", text = "minus the cosine of the angle between y and p"},
  {"FunctionLoss", text = "A plain function as the loss of compile.",
    keras = "what tf.keras calls LossFunctionWrapper"},
  {"Hinge", text = "mean(max(1 − y·p, 0)), labels −1 and 1 (0 counts as −1)"},
  {"Huber", text = "½e² where |e| ≤ delta, else delta·|e| − ½delta², averaged",
    source = "Huber 1964 (Ann. Math. Statist. 35)"},
  {"KLDivergence", text = "Σ y log(y / p)",
    source = "Kullback & Leibler 1951 (Ann. Math. Statist. 22)"},
  {"LogCosh", text = "mean(log(cosh(p − y)))"},
  {"Loss", text = "The base of all losses; extend it with `call(y_true, y_pred)`, which gives "
    .. "a number for each sample."},
  {"MeanAbsoluteError", text = "mean(|y − p|)"},
  {"MeanAbsolutePercentageError", text = "100 · mean(|y − p| / max(|y|, 1e-7))"},
  {"MeanSquaredError", text = "mean((y − p)²)"},
  {"MeanSquaredLogarithmicError", text = "mean((log(1 + y) − log(1 + p))²)"},
  {"Poisson", text = "mean(p − y log p)"},
  {"SparseCategoricalCrossentropy", text = "−log p of the class; labels are class numbers"},
  {"SquaredHinge", text = "mean(max(1 − y·p, 0)²)"},
})

return parts.give("losses", losses, {names = other_names})
