-- keras.metrics: classes and functions by name.

local accuracy = require "ipulua.keras.metrics.accuracy"
local args = require "ipulua.base.args"
local base = require "ipulua.keras.metrics.base"
local blame = require "ipulua.base.blame"
local by_name = require "ipulua.keras.metrics.by_name"
local class = require "ipulua.base.class"
local confusion = require "ipulua.keras.metrics.confusion"
local function_name = require "ipulua.keras.base.function_name"
local losses = require "ipulua.keras.losses"
local offering = require "ipulua.base.parts.offering"
local parts = require "ipulua.base.parts"
local scores = require "ipulua.keras.metrics.scores"

local metrics = {
  Metric = base.Metric, Mean = base.Mean, Sum = base.Sum, MeanTensor = base.MeanTensor,
  MeanMetricWrapper = base.MeanMetricWrapper,
}

for name, c in pairs(accuracy.classes) do metrics[name] = c end
for name, c in pairs(confusion.classes) do metrics[name] = c end
for name, c in pairs(scores.classes) do metrics[name] = c end
for name, f in pairs(accuracy.functions) do metrics[name] = f end
for name, f in pairs(losses) do
  local is_loss = type(f) == "function"
    and (name:find("^%a+_") or name == "hinge" or name == "poisson")
  if is_loss and metrics[name] == nil then metrics[name] = f end
end

metrics._aliases = {
  mse = "MeanSquaredError", mae = "MeanAbsoluteError", mape = "MeanAbsolutePercentageError",
  msle = "MeanSquaredLogarithmicError", kld = "KLDivergence",
  kullback_leibler_divergence = "KLDivergence",
  logcosh = "LogCoshError", log_cosh = "LogCoshError", cosine_proximity = "CosineSimilarity",
  bce = "BinaryCrossentropy",
  iou = "MeanIoU",
}

-- The metric "accuracy" of an output: by the loss, else by the shapes of labels and predictions.
local function for_output(kind, loss, label_shape, output_shape)
  local loss_name = class.of(loss) and class.of(loss).__name or ""
  local last = output_shape[#output_shape] or 1
  local form
  if loss_name == "SparseCategoricalCrossentropy" then form = "Sparse"
  elseif loss_name == "BinaryCrossentropy" then form = "Binary"
  elseif last == 1 then form = "Binary"
  elseif label_shape and (#label_shape < #output_shape
    or label_shape[#label_shape] == 1) then form = "Sparse"
  else form = "Categorical" end
  local names <const> = {
    accuracy = {Sparse = "SparseCategoricalAccuracy", Binary = "BinaryAccuracy",
      Categorical = "CategoricalAccuracy"},
    crossentropy = {Sparse = "SparseCategoricalCrossentropy", Binary = "BinaryCrossentropy",
      Categorical = "CategoricalCrossentropy"},
  }
  return names[kind][form]
end

metrics._by_output = {accuracy = "accuracy", acc = "accuracy", crossentropy = "crossentropy",
  ce = "crossentropy"}

---A metric object from an entry of compile. Its name is the given one; a class is given its own:
---"AUC" is auc.
---@param given any
---@param about {loss: any, label_shape: integer[]?, output_shape: integer[]}?
---@return Metric
function metrics.get(given, about)
  local asked = type(given) == "string" and given
  if asked then
    local kind = metrics._by_output[given:lower()]
    local name = kind and for_output(kind, about and about.loss, about and about.label_shape,
      about and about.output_shape or {}) or metrics._aliases[given:lower()] or given
    local c = parts.find("metric", name, {prefers_class = true})
    if class.is_class(c) then
      if given == c.__name then return c() end
      return c{name = given}
    end
    given = c
  end
  local found = parts.get("metric", given)
  if class.is_a(found, base.Metric) then return found end
  local meta = class.of(found)
  if type(found) == "function" or meta and meta.__call then
    local name, known = class.of(found) and found.name, nil
    for key, f in pairs(metrics) do
      if f == found then known = key end
    end
    local made = base.MeanMetricWrapper{fn = function(...) return found(...) end,
      name = name or known or asked or function_name(found) or "metric"}
    -- a function of the script's own may compare what it likes
    made.is_sparse = known and known:find("^sparse") ~= nil
    made.wants_equal = known and not made.is_sparse
    return made
  end
  blame.error("a metric must be a name, a metric object or a function, got "
    .. args.describe(given), "type")
end

local classes = {}
for _, c in pairs(metrics) do
  while class.is_class(c) and c ~= base.Metric do
    classes[c] = rawget(c, "update_state")
    c = rawget(c, "super")
  end
end
for c, f in pairs(classes) do c.update_state = by_name(f) end

class.guard_all(metrics)
return parts.give("metrics", metrics,
  {names = offering.names.losses})
