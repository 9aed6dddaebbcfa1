-- Random calls of each loss and each metric, by their classes: batches of 1 to 5,000, weighted or
-- not; metrics over several of them.

local ipu = require "ipulua"
local parts = require "spec.support.keras_parts"

local families = {}

local batches <const> = {1, 2, 3, 7, 16, 17, 31, 64, 100, 255, 256, 257, 1000, 1023, 1025, 4096,
  4097, 5000}
local most_elements <const> = 60000
local left_out <const> = {name = true, dtype = true, fn = true, shape = true, multi_label = true,
  num_labels = true, label_weights = true,
  axis = true}

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

-- Labels and predictions of a kind.
local function labels_of(name, shape, logits)
  local rows = table.move(shape, 1, #shape - 1, 1, {})
  local n = shape[#shape]
  if name == "MeanIoU" then return uniform(rows, 0, 3, "int32"), uniform(rows, 0, 3, "int32") end
  if name == "Accuracy" then return uniform(shape, 0, 3, "int32"), uniform(shape, 0, 3, "int32") end
  if counting[name] then return zero_or_one(shape), coarse(shape) end
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
  if name:find("Hinge$") then return zero_or_one(shape) * 2 - 1, normal(shape) end
  if name == "KLDivergence" then return softmax(normal(shape)), softmax(normal(shape)) end
  if name == "Poisson" or name:find("Logarithmic") then return coarse(shape) * 3,
    coarse(shape) * 5 end
  return normal(shape), normal(shape) * 3
end

local function arguments_of(module, name, class)
  local changed = {}
  for _, row in ipairs(class.argument_rows) do
    if not left_out[row[1]] and math.random() < 0.3 then
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
  if math.random() < 0.25 and batch * n * 3 <= most_elements then return {batch, 3, n} end
  return {math.min(batch, most_elements // n), n}
end

local function family(module, visit)
  local classes, names = {}, {}
  parts.each(function(m, name, class)
    if m == module then classes[name], names[#names + 1] = class, name end
  end)
  table.sort(names)
  families[module] = {family = module, names = names, random = function(name) return visit(name,
    classes[name]) end}
end

family("losses", function(name, class)
  if name == "CTCLoss" then return nil end -- ops.nn.ctc_loss is asked
  local given = arguments_of("losses", name, class)
  given.reduction = pick{"sum", "none", "sum_over_batch_size", "auto"}
  local loss, shape = class(given), shape_of(name)
  local y, p = labels_of(name, shape, given.from_logits)
  local inputs = {y, p}
  if math.random() < 0.4 then inputs[3] = coarse(table.move(shape, 1, #shape - 1, 1, {})) end
  return {name = name, inputs = inputs, weights = {}, f = function(a, b, w) return loss(a, b,
    w) end, about = {o = loss:get_config()},
    source = ("keras.losses.%s %s on %s"):format(name, ipu.json.encode(loss:get_config()),
      ipu.json.encode(shape))}
end)

local plain <const> = {Mean = true, Sum = true, MeanTensor = true}

family("metrics", function(name, class)
  local given = arguments_of("metrics", name, class)
  local metric, inputs, updates = class(given), {}, math.random(1, 4)
  local weighted = math.random() < 0.4
  local first = shape_of(name)
  for _ = 1, updates do
    local shape = name == "MeanTensor" and first or shape_of(name)
    shape = {shape[1], first[#first]}
    local y, p = labels_of(name, shape, given.from_logits)
    if plain[name] then y = normal(shape) end
    inputs[#inputs + 1] = y
    if not plain[name] then inputs[#inputs + 1] = p end
    if weighted then inputs[#inputs + 1] = coarse(plain[name] and shape or {shape[1]}) end
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
