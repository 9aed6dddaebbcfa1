-- A small example of each loss, metric, optimizer, schedule, initializer, regularizer and
-- constraint, and a value unlike its default for each of their arguments, for specs over all of
-- them.

local ipu = require "ipulua"
local class = require "ipulua.base.class"
local values = require "spec.support.keras_layers".values
local keras = ipu.keras
local O = keras.optimizers

local support = {}

local function softmax(x) return ipu.exp(x) / ipu.reduce_sum(ipu.exp(x), {axis = -1,
  keepdims = true}) end

-- ------------------------------------------------ arguments

local required <const> = {
  FunctionLoss = {fn = function(y, p) return ipu.reduce_mean(ipu.abs(y - p), {axis = -1}) end},
  MeanMetricWrapper = {fn = function(y, p) return ipu.reduce_mean(ipu.abs(y - p), {axis = -1}) end},
  MeanIoU = {num_classes = 3}, MeanRelativeError = {normalizer = {2, 3, 4}},
    PrecisionAtRecall = {recall = 0.9},
  RecallAtPrecision = {precision = 0.55}, SensitivityAtSpecificity = {specificity = 0.9},
    SpecificityAtSensitivity = {sensitivity = 0.9},
  Constant = {value = 2}, ExponentialDecay = {initial_learning_rate = 0.1, decay_steps = 7,
    decay_rate = 0.5},
  InverseTimeDecay = {initial_learning_rate = 0.1, decay_steps = 7, decay_rate = 0.5},
  PolynomialDecay = {initial_learning_rate = 0.1, decay_steps = 7},
    CosineDecay = {initial_learning_rate = 0.1, decay_steps = 7},
  CosineDecayRestarts = {initial_learning_rate = 0.1, first_decay_steps = 7},
    LinearCosineDecay = {initial_learning_rate = 0.1, decay_steps = 7},
  PiecewiseConstantDecay = {boundaries = {3, 9}, values = {0.1, 0.02, 0.003}},
  Adadelta = {learning_rate = 0.5}, TopKCategoricalAccuracy = {k = 2},
    SparseTopKCategoricalAccuracy = {k = 2},
}
local function opt() return O.SGD{0.25, momentum = 0.5} end
local scaling <const> = {initial_loss_scaling_factor = 8.0, update_frequency = 2,
  max_loss_scaling_factor = 256.0, histogram_bin_edge = 6.0,
  ratio_threshold = 0.25}
for _, rule in ipairs{"SGD", "Adam", "RMSProp"} do required["ALSOptimizer" .. rule] = scaling end
local wrappers <const> = {
  ALSOptimizer = function()
    local given = {opt = opt()}
    for key, value in pairs(scaling) do given[key] = value end
    return given
  end, CrossReplicaOptimizer = function() return {opt = opt()} end,
  GradientAccumulationOptimizer = function() return {opt = opt(), num_mini_batches = 2} end,
  ALSGradientAccumulationOptimizer = function() return {opt = O.ALSOptimizer{opt()},
    num_mini_batches = 2} end,
  MapGradientOptimizer = function() return {wrapped_optimizer = opt(),
    gradient_mapping_function = function(g) return g * 2 end} end,
}
wrappers.MapGradientOptimizerInvertedChaining = wrappers.MapGradientOptimizer

---The arguments of an example, with others that its class takes.
function support.arguments(name, more)
  local copy = {}
  for key, value in pairs(wrappers[name] and wrappers[name]() or required[name]
    or {}) do copy[key] = value end
  for key, value in pairs(more or {}) do copy[key] = value end
  return copy
end

-- ------------------------------------------------ values unlike the defaults

local special <const> = {
  name = "another", dtype = "float16", from_logits = true, label_smoothing = 0.3, axis = 0,
    delta = 0.3, blank_index = 1, threshold = 0.9,
  gamma = 3.0, ["BinaryFocalCrossentropy.alpha"] = 0.6,
  ["CategoricalFocalCrossentropy.alpha"] = 0.6, num_regressors = 2, class_aggregation = "none",
  ["CategoricalFocalCrossentropy.axis"] = 1,
  ["CategoricalCrossentropy.axis"] = 1, ["constraints.axis"] = 1,
    ["SparseCategoricalCrossentropy.axis"] = 1, thresholds = 0.3, top_k = 1, class_id = 1, k = 1,
  num_thresholds = 3, num_classes = 4, ["AUC.thresholds"] = {0.2, 0.6}, multi_label = true,
    num_labels = 3, label_weights = {1, 2, 3}, ignore_class = 1,
  normalizer = {1, 2, 3}, shape = {5, 3}, recall = 0.2, precision = 0.7, specificity = 0.2,
    sensitivity = 0.2, learning_rate = 0.125,
  beta_1 = 0.5, beta_2 = 0.75, epsilon = 0.5, momentum = 0.75, rho = 0.5, clipnorm = 0.125,
    clipvalue = 0.125, global_clipnorm = 0.125,
  decay = 0.5, weight_decay = 0.25, state_dtype = "float64",
    ema_momentum = 0.5, ema_overwrite_frequency = 2,
    initial_accumulator_value = 0.5, schedule_decay = 0.5,
  learning_rate_power = -0.25, l1_regularization_strength = 0.5, l2_regularization_strength = 0.5,
    beta = 0.5,
  l2_shrinkage_regularization_strength = 0.5, initial_loss_scaling_factor = 4.0,
    update_frequency = 3, increase_factor = 4.0,
  max_loss_scaling_factor = 16.0, ratio_threshold = 0.0, lpf_alpha = 0.5, histogram_bin_edge = 0.5,
    num_mini_batches = 4,
  offload_weight_update_variables = false, reduction_method = "MEAN",
    opt = function() return O.Adam() end, seed = 5, value = 3, gain = 2,
  ["ALSGradientAccumulationOptimizer.opt"] = function() return O.ALSOptimizer{O.Adam()} end,
  wrapped_optimizer = function() return O.Adam() end,
    gradient_mapping_function = function() return function(g) return g * 3 end end,
  mean = 0.5, stddev = 0.3, minval = -3, maxval = 3, scale = 3, mode = "fan_out",
    distribution = "uniform", l1 = 0.3, l2 = 0.3,
  max_value = 0.4, min_value = 0.3, rate = 0.5, initial_learning_rate = 0.3, decay_steps = 9,
    decay_rate = 0.3, alpha = 0.25,
  end_learning_rate = 0.05, power = 2, warmup_target = 0.5, warmup_steps = 4, first_decay_steps = 9,
    t_mul = 3, m_mul = 0.5, num_periods = 2,
  boundaries = {2, 5}, values = {0.3, 0.2, 0.1}, reduction = "sum",
  fn = function() return function(y, p) return ipu.reduce_max(ipu.abs(y - p), {axis = -1}) end end,
}

function support.unlike(module, name, row)
  local value = special[name .. "." .. row[1]]
  if value == nil then value = special[module .. "." .. row[1]] end
  if value == nil then value = special[row[1]] end
  if type(value) == "function" then return value() end
  if type(row[3]) == "boolean" then return not row[3] end
  for _, choice in ipairs(row.choices or {}) do
    if value == nil and choice ~= row[3] and choice:lower() ~= tostring(row[3]):lower() then
      value = choice
    end
  end
  return value
end

-- What has to be given beside an argument for it to matter.
support.beside = {
  ["AUC.num_labels"] = {multi_label = true}, ["AUC.label_weights"] = {multi_label = true},
    ema_momentum = {use_ema = true, ema_overwrite_frequency = 1},
  ema_overwrite_frequency = {use_ema = true}, nesterov = {momentum = 0.5},
    use_ema = {ema_overwrite_frequency = 1},
  warmup_steps = {warmup_target = 0.5}, warmup_target = {warmup_steps = 4},
    ["MinMaxNorm.axis"] = {max_value = 0.5},
  ["BinaryFocalCrossentropy.alpha"] = {apply_class_balancing = true},
  ["BinaryFocalCrossentropy.axis"] = {reduction = "none"},
  ["BinaryCrossentropy.axis"] = {reduction = "none"}, ["RMSprop.epsilon"] = {centered = true},
  replicated_optimizer_state_sharding = {offload_weight_update_variables = true},
}

---What small examples don't show, or what has an own spec.
support.unseen = {
  ["SparseCategoricalCrossentropy.axis"] = true, ["AUC.num_labels"] = true,
    ["MeanIoU.num_classes"] = true, ["MeanIoU.sparse_y_true"] = true,
    ["MeanIoU.sparse_y_pred"] = true, ["MeanIoU.axis"] = true, captured_grads_only = true,
  accumulate_statistics_over_update_period = true, ratio_threshold = true, lpf_alpha = true,
    histogram_bin_edge = true, -- of half gradients
  ["Lion.clipnorm"] = true, ["Lion.global_clipnorm"] = true,
    ["GradientAccumulationOptimizer.dtype"] = true,
  ["ALSGradientAccumulationOptimizer.dtype"] = true,
}

-- ------------------------------------------------ what they do

local text <const> = function(x) return x.dtype .. ipu.json.encode(x:totable()) end

local does = {}

local function labels_of(name)
  local p = values({4, 5, 3}, 1)
  if name:find("Sparse") then return ipu.cast((values({4, 5}, 2) + 1) * 1.4, "int32"),
    softmax(p * 3) end
  if name:find("^Categorical") or name:find("TopK") then
    return ipu.one_hot(ipu.cast((values({4, 5}, 2) + 1) * 1.4, "int32"), 3), softmax(p * 3)
  end
  if name == "MeanIoU" then return ipu.cast((values({4, 5}, 2) + 1) * 1.4, "int32"),
    ipu.cast((values({4, 5}, 3) + 1) * 1.4, "int32") end
  return ipu.cast(ipu.greater(values({20, 3}, 2), 0), "float32"), (values({20, 3}, 1) + 1) / 2
end

function does.losses(object, name)
  if name == "CTCLoss" then
    local lengths = ipu.tensor({2, 1}, "int32")
    return text(object({ipu.tensor({{2, 3}, {2, 2}}, "int32"), lengths, ipu.tensor({6, 5},
      "int32")}, values({6, 2, 4}, 1) * 3)) .. object.name
  end
  local y, p = labels_of(name)
  return text(object(y, p)) .. object.name
end

function does.metrics(object, name)
  local y, p = labels_of(name)
  if name == "Mean" or name == "Sum" or name == "MeanTensor" then
    object:update_state(values({5, 3}, 1))
    object:update_state(values({5, 3}, 2))
  else
    object:update_state(y, p)
  end
  local result = object:result()
  return text(result) .. object.name .. #object.variables .. (object.shape and "shape" or "")
end

function does.optimizers(object)
  local v, w = ipu.Variable(values({4, 3}, 1)), ipu.Variable(values({3}, 2))
  local factors = {}
  local first = object.loss_scaling_factor and object.loss_scaling_factor:item()
  for i = 1, 12 do
    local factor = object.loss_scaling_factor and object.loss_scaling_factor:item() or 1
    factors[i] = factor
    object:apply_gradients({values({4, 3}, 3 + i) * factor, values({3}, 30 + i) * factor}, {v, w})
  end
  local weights = object.weights
  return text(v:read_value()) .. text(w:read_value()) .. object.name .. tostring(first)
    .. weights[math.min(2, #weights)].dtype
    .. table.concat(factors, ",")
end

function does.schedules(object)
  local list = {object.name}
  for step = 0, 30 do list[#list + 1] = text(object(ipu.tensor(step, "int64"))) end
  return table.concat(list, " ")
end

function does.initializers(object) return text(object({4, 9}, {dtype = "float32"})) end
function does.regularizers(object) return text(object(values({4, 3}, 1))) end
function does.constraints(object) return text(object(values({3, 3}, 1) * 2))
  .. text(object(values({3, 3}, 1) * 0.1)) end

support.does = does

-- ------------------------------------------------ all

local modules <const> = {"losses", "metrics", "optimizers", "schedules", "initializers",
  "regularizers", "constraints"}
local bases <const> = {Loss = true, Metric = true, Optimizer = true, LearningRateSchedule = true,
  Initializer = true, Regularizer = true,
  Constraint = true}

---visit(module, name, class) of each class; its name is the one that it shows.
function support.each(visit)
  for _, module in ipairs(modules) do
    local list = module == "schedules" and require "ipulua.keras.optimizers.schedules"
      or keras[module]
    for name, c in next, list do
      if class.is_class(c) and not bases[name] and c.__name == name then visit(module, name, c) end
    end
  end
end

return support
