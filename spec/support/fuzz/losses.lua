-- Random calls of each loss and each metric, by their classes: batches of 1 to 5,000, weighted or
-- not; metrics over several of them.

local ipu = require "ipulua"
local parts = require "spec.support.keras_parts"

local families = {}

local batches <const> = {1, 2, 3, 7, 16, 17, 31, 64, 100, 255, 256, 257, 1000, 1023, 1025, 4096,
  4097, 5000}
local most_elements <const> = 60000
local left_out <const> = {name = true, dtype = true, fn = true, shape = true, multi_label = true,
  num_labels = true, label_weights = true, -- of AUC: by labels_apart
  axis = true} -- by axis_of

local function pick(list) return list[math.random(#list)] end
local function normal(shape) return ipu.random.normal(shape, {seed = math.random(1, 1 << 20)}) end
local function uniform(shape, low, high, dtype)
  return ipu.random.uniform(shape, {minval = low, maxval = high, dtype = dtype,
    seed = math.random(1, 1 << 20)})
end
-- Sixty-fourths: what is compared with a threshold has no rounding.
local function coarse(shape) return ipu.cast(uniform(shape, 1, 64, "int32"), "float32") / 64 end
local function softmax(x) return ipu.nn.softmax(x) end
local function zero_or_one(shape) return ipu.cast(ipu.less(coarse(shape), 0.5), "float32") end

local counting <const> = {AUC = true, BinaryAccuracy = true, FalseNegatives = true,
  FalsePositives = true, TrueNegatives = true,
  TruePositives = true, Precision = true, Recall = true, PrecisionAtRecall = true,
    RecallAtPrecision = true,
  SensitivityAtSpecificity = true, SpecificityAtSensitivity = true}

-- Labels of hinges: -1 and 1, 0 and 1, or any numbers.
local function signs(shape)
  local y = zero_or_one(shape)
  return pick{y * 2 - 1, y, normal(shape)}
end

-- Labels and predictions of a kind.
local function labels_of(name, shape, given)
  local logits <const> = given.from_logits
  local rows = table.move(shape, 1, #shape - 1, 1, {})
  local n = shape[#shape]
  if name == "MeanIoU" then
    local function classes(sparse)
      if sparse ~= false then return uniform(rows, 0, 3, "int32") end
      return normal(table.move({3}, 1, 1, #rows + 1, {table.unpack(rows)})) -- scores
    end
    return classes(given.sparse_y_true), classes(given.sparse_y_pred)
  end
  if name == "Accuracy" then return uniform(shape, 0, 3, "int32"), uniform(shape, 0, 3, "int32") end
  if counting[name] then
    return zero_or_one(shape), given.top_k and normal(shape) or coarse(shape) -- of any sign
  end
  if name == "F1Score" or name == "FBetaScore" then -- some rows say nothing
    return zero_or_one(shape), coarse(shape) * ipu.expand_dims(zero_or_one(rows), -1)
  end
  if name:find("^Sparse") then
    return uniform(rows, 0, n, "int32"), name:find("ccuracy") and coarse(shape) or logits
      and normal(shape) or softmax(normal(shape))
  end
  if name:find("^Categorical") or name:find("^TopK") then
    local y = ipu.one_hot(uniform(rows, 0, n, "int32"), n)
    if name:find("Hinge") then return y, normal(shape) end
    return y, name:find("ccuracy") and coarse(shape) or logits and normal(shape)
      or softmax(normal(shape))
  end
  if name:find("^Binary.*rossentropy") then
    return zero_or_one(shape), logits and normal(shape) or coarse(shape)
  end
  if name:find("Hinge$") then return signs(shape), normal(shape) end
  if name == "KLDivergence" then return softmax(normal(shape)), softmax(normal(shape)) end
  if name == "Poisson" or name:find("Logarithmic") then return coarse(shape) * 3,
    coarse(shape) * 5 end
  return normal(shape), normal(shape) * 3
end

local function arguments_of(module, name, class)
  local changed = {}
  for _, row in ipairs(class.argument_rows) do
    if not left_out[row[1]] and math.random() < 0.4 then
      changed[row[1]] = parts.unlike(module, name, row)
      for key, value in pairs(parts.beside[name .. "." .. row[1]] or parts.beside[row[1]]
        or {}) do changed[key] = value end
    end
  end
  if changed.class_id and changed.top_k then changed.top_k = nil end
  return parts.arguments(name, changed)
end

local function shape_of(name)
  local batch, n = pick(batches), pick{1, 2, 3, 5, 10, 17, 33}
  if name:find("ategorical") or name:find("TopK") or name == "KLDivergence" then n = math.max(n,
    3) end
  if name == "MeanRelativeError" then n = 3 end
  if math.random() < 0.5 and batch * n * 3 <= most_elements then return {batch, 3, n} end
  return {math.min(batch, most_elements // n), n}
end

-- An axis for what has one; of classes it is the last but one, which then has the classes.
local function axis_of(name, rank)
  if math.random() < 0.5 then return nil end
  if name:find("^Categorical") then return rank == 3 and 1 or nil end
  return math.random(1 - rank, rank - 1)
end

-- A shape without an axis, or without its last one.
local function without(shape, axis)
  local left = table.move(shape, 1, #shape, 1, {})
  table.remove(left, (axis or -1) % #shape + 1)
  return left
end

local function swap_last(x) return ipu.transpose(x, {0, 2, 1}) end

local function family(module, visit)
  local classes, names = {}, {}
  parts.each(function(m, name, class)
    if m == module then classes[name], names[#names + 1] = class, name end
  end)
  table.sort(names)
  families[module] = {family = module, names = names, random = function(name) return visit(name,
    classes[name]) end}
end

local with_axis <const> = {CosineSimilarity = true, BinaryCrossentropy = true,
  BinaryFocalCrossentropy = true, CategoricalCrossentropy = true,
  CategoricalFocalCrossentropy = true}

family("losses", function(name, class)
  if name == "CTCLoss" then return nil end -- ops.nn.ctc_loss is asked
  local given = arguments_of("losses", name, class)
  given.reduction = pick{"sum", "none", "sum_over_batch_size", "auto"}
  local shape = shape_of(name)
  given.axis = with_axis[name] and axis_of(name, #shape) or nil
  local loss = class(given)
  local y, p = labels_of(name, shape, given)
  if given.axis and name:find("^Categorical") then
    y, p, shape = swap_last(y), swap_last(p), {shape[1], shape[3], shape[2]}
  end
  local inputs = {y, p}
  if math.random() < 0.4 then inputs[3] = coarse(without(shape, given.axis)) end
  return {name = name, inputs = inputs, weights = {}, f = function(a, b, w) return loss(a, b,
    w) end, about = {o = loss:get_config()},
    source = ("keras.losses.%s %s on %s"):format(name, ipu.json.encode(loss:get_config()),
      ipu.json.encode(shape))}
end)

local plain <const> = {Mean = true, Sum = true, MeanTensor = true}
-- Losses whose weights are for each element, not for each row.
local elementwise <const> = {Mean = true, Sum = true, MeanTensor = true, Accuracy = true,
  RootMeanSquaredError = true, MeanRelativeError = true}
local of_columns <const> = {F1Score = true, FBetaScore = true, R2Score = true}

-- The shape of weights: of each element, each row or each sample, where the metric takes that. One
-- metric has one kind, since a mean over rows counts their samples.
local function weights_for(name, shape, kind, given)
  local rows, samples = without(shape, given.axis), {shape[1]}
  local kinds = elementwise[name] and {shape, rows, samples} or {rows, samples}
  if name == "MeanIoU" or given.class_id then kinds = {rows}
  elseif name == "MeanTensor" or counting[name] and name ~= "BinaryAccuracy" then
    kinds = {shape, rows}
  end
  return kinds[kind % #kinds + 1]
end

-- AUC by labels, weighed or not; weights of labels in one curve.
local function labels_apart(given)
  if math.random() < 0.5 then return nil end
  given.multi_label = math.random() < 0.6
  if math.random() < 0.5 or not given.multi_label then given.label_weights = {1, 2, 0.5} end
  if given.multi_label and math.random() < 0.5 then given.num_labels = 3 end
  return 3
end

family("metrics", function(name, class)
  local given, first = arguments_of("metrics", name, class), shape_of(name)
  local labels = name == "AUC" and labels_apart(given)
  if given.class_id then first[#first] = math.max(first[#first], 2) end
  if labels or of_columns[name] then first = {first[1], labels or first[#first]} end
  if name == "CosineSimilarity" then
    given.axis = axis_of(name, #first)
    if given.axis and given.axis % #first == 0 then given.axis = nil end -- the batch
  end
  local metric, inputs, updates = class(given), {}, math.random(1, 4)
  local weighted, kind = math.random() < 0.6, math.random(6)
  for _ = 1, updates do
    local shape = table.move(first, 1, #first, 1, {})
    if name ~= "MeanTensor" then
      shape[1] = math.min(shape_of(name)[1], most_elements // (#first == 3 and 3 * first[3]
        or first[2]))
    end
    local y, p = labels_of(name, shape, given)
    if plain[name] then y = normal(shape) end
    inputs[#inputs + 1] = y
    if not plain[name] then inputs[#inputs + 1] = p end
    if weighted then inputs[#inputs + 1] = coarse(weights_for(name, shape, kind, given)) end
  end
  local each = #inputs // updates
  local function f(...)
    local list = {...}
    for i = 1, #list, each do metric:update_state(table.unpack(list, i, i + each - 1)) end
    local result = metric:result()
    return table.unpack(type(result) == "table" and result or {result})
  end
  local config = metric:get_config()
  return {name = name, inputs = inputs, weights = {}, f = f,
    reset = function() metric:reset_state() end,
    about = {o = config, each = each, weighted = weighted},
    source = ("keras.metrics.%s %s, %d updates"):format(name, ipu.json.encode(config), updates)}
end)

return families
