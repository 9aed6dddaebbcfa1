-- Layers and losses with random arguments, for keras_oracle.py to compute again. keras_cases.lua
-- SEED COUNT FOLDER writes case-N.npz, with inputs, weights, results, and a mask if there is one.
-- cases.json describes each.

local context = require "ipulua.keras.base.context"
local ipu = require "ipulua"
local keras = ipu.keras
local L = keras.layers

local seed, count, folder = math.tointeger(tonumber(arg[1])), math.tointeger(tonumber(arg[2])),
  arg[3]
math.randomseed(seed)
ipu.random.set_seed(seed)

local drawn = 0
local function normal(shape)
  drawn = drawn + 1
  return ipu.random.normal(shape, {seed = seed * 100000 + drawn})
end

local function pick(list) return list[math.random(#list)] end
local function maybe() return math.random(2) == 1 end
local function between(a, b) return math.random(a, b) end

local function masked(x, mask)
  local copy = ipu.identity(x)
  context.set_mask(copy, mask)
  return copy
end

local function swap(x)
  local perm = {1, 0}
  for axis = 2, #x.shape - 1 do perm[#perm + 1] = axis end
  return ipu.transpose(x, perm)
end

-- Weights that are nowhere 0 or 1 by default.
local function randomize(layer)
  local values = {}
  for i, v in ipairs(layer.weights) do
    local w = normal(v.shape) * 0.5
    values[i] = v.name:find("variance") and ipu.abs(w) + 0.5 or w
  end
  layer:set_weights(values)
  return values
end

local activations <const> = {"linear", "relu", "tanh", "sigmoid", "softsign", "softplus", "elu",
  "hard_sigmoid", "swish"}

local makers = {}

local function recurrent(kind)
  local o = {units = between(1, 5), activation = pick{"tanh", "tanh", "relu", "softsign"},
    use_bias = maybe(), go_backwards = maybe(),
    return_sequences = maybe(), return_state = maybe(), time_major = maybe(),
      zero_output_for_mask = maybe()}
  if kind ~= "SimpleRNN" then o.recurrent_activation = pick{"sigmoid", "sigmoid",
    "hard_sigmoid"} end
  if kind == "GRU" then o.reset_after = maybe() end
  return o
end

function makers.recurrent()
  local kind = pick{"LSTM", "GRU", "SimpleRNN"}
  local o = recurrent(kind)
  local batch, time, features = between(1, 5), between(1, 9), between(1, 4)
  local x, mask = normal{batch, time, features}, maybe() and ipu.greater(normal{batch, time}, -0.6)
    or nil
  if o.time_major then x, mask = swap(x), mask and swap(mask) end
  local bidirectional, merge = maybe(), pick{"concat", "sum", "mul", "ave", "none"}
  if bidirectional then o.return_state = false end
  local layer = L[kind](o)
  if bidirectional then layer = L.Bidirectional{layer, merge_mode = merge} end
  layer(x)
  local weights = randomize(layer)
  return {kind = kind, o = o, merge = bidirectional and merge or nil}, {x}, weights,
    table.pack(layer(mask and masked(x, mask) or x)), mask
end

function makers.conv()
  local rank = between(1, 2)
  local kind = pick{"Conv", "Conv", "DepthwiseConv", "SeparableConv"}
  local stride = between(1, 3)
  local o = {kernel_size = between(1, 3), strides = stride, dilation_rate = stride == 1
    and between(1, 2) or 1,
    padding = pick{"valid", "same", rank == 1 and kind == "Conv" and "causal" or "same"},
      use_bias = maybe(), activation = pick(activations),
    data_format = pick{"channels_last", "channels_first"}}
  if o.padding == "causal" then o.data_format = "channels_last" end
  local groups = kind == "Conv" and pick{1, 1, 2} or 1
  local channels = groups * between(1, 2)
  if kind == "Conv" then o.filters, o.groups = groups * between(1, 3), groups
  else o.depth_multiplier = between(1, 2) end
  if kind == "SeparableConv" then o.filters = between(1, 4) end
  local shape = {between(1, 3)}
  for _ = 1, rank do shape[#shape + 1] = between(6, 10) end
  table.insert(shape, o.data_format == "channels_first" and 2 or #shape + 1, channels)
  local x, layer = normal(shape), L[kind .. rank .. "D"](o)
  layer(x)
  return {kind = kind, rank = rank, o = o}, {x}, randomize(layer), {layer(x)}
end

function makers.pool()
  local rank = between(1, 2)
  local kind = pick{"MaxPooling", "AveragePooling"}
  local o = {pool_size = between(1, 3), strides = between(1, 3), padding = pick{"valid", "same"},
    data_format = pick{"channels_last", "channels_first"}}
  local shape = {between(1, 3), between(4, 8), between(4, 8)}
  if rank == 2 then shape[4] = between(4, 8) end
  local x = normal(shape)
  return {kind = kind, rank = rank, o = o}, {x}, {}, {L[kind .. rank .. "D"](o)(x)}
end

function makers.norm()
  local kind = pick{"BatchNormalization", "LayerNormalization"}
  local shape = {between(2, 5), between(2, 5), between(2, 6)}
  local o = {axis = pick{-1, 1, 2}, epsilon = pick{0.001, 0.1}, center = maybe(), scale = maybe()}
  local x, layer, training = normal(shape), L[kind](o), maybe()
  layer(x)
  local weights = randomize(layer)
  return {kind = kind, o = o, training = training}, {x}, weights, {layer(x, {training = training})}
end

function makers.attention()
  local kind = pick{"Attention", "AdditiveAttention"}
  local o = {use_scale = maybe(), causal = maybe()}
  local batch, queries, keys, width = between(1, 3), between(1, 6), between(1, 6), between(1, 4)
  local q, v, k = normal{batch, queries, width}, normal{batch, keys, width}, normal{batch, keys,
    width}
  local mask = maybe() and ipu.greater(normal{batch, keys}, -0.5) or nil
  local layer = L[kind](o)
  layer{q, v, k}
  local weights = randomize(layer)
  return {kind = kind, o = o}, {q, v, k}, weights, {layer{q, mask and masked(v, mask) or v, k}},
    mask
end

function makers.loss()
  local kind = pick{"MeanSquaredError", "MeanAbsoluteError", "MeanAbsolutePercentageError",
    "MeanSquaredLogarithmicError", "Hinge",
    "SquaredHinge", "CategoricalHinge", "LogCosh", "KLDivergence", "Poisson", "Huber",
      "CosineSimilarity", "BinaryCrossentropy",
    "CategoricalCrossentropy", "SparseCategoricalCrossentropy"}
  local shape = pick{{between(1, 6), between(2, 5)}, {between(1, 4), between(1, 4), between(2, 5)}}
  local o = {reduction = pick{"sum_over_batch_size", "sum", "none"}}
  local logits = normal(shape)
  local p = ipu.exp(logits) / ipu.reduce_sum(ipu.exp(logits), {axis = -1, keepdims = true})
  local y = ipu.exp(normal(shape))
  if kind == "Huber" then o.delta = pick{0.5, 1.5} end
  if kind:find "entropy" then o.from_logits = maybe() end
  if kind == "BinaryCrossentropy" or kind == "CategoricalCrossentropy" then
    o.label_smoothing = pick{0, 0.2}
  end
  if kind:find "^Mean" or kind == "Huber" or kind == "LogCosh" or kind == "CosineSimilarity" then p,
    y = normal(shape) * 3, normal(shape) end
  if kind == "MeanSquaredLogarithmicError" then p, y = ipu.exp(p), ipu.exp(y) end
  if kind:find "inge" then p, y = normal(shape), ipu.cast(ipu.greater(normal(shape), 0),
    "float32") * pick{1, 1, 2} - pick{0, 1} end
  if kind == "BinaryCrossentropy" then y = ipu.cast(ipu.greater(normal(shape), 0), "float32") end
  if kind == "CategoricalCrossentropy" or kind == "KLDivergence" then y = y / ipu.reduce_sum(y,
    {axis = -1, keepdims = true}) end
  if kind:find "^Sparse" then y = ipu.argmax(normal(shape), {axis = -1}) end
  if o.from_logits then p = logits end
  local rows = table.move(shape, 1, #shape - 1, 1, {})
  local weight
  if maybe() then
    weight = ipu.abs(normal(#rows == 2 and maybe() and {rows[1], 1} or rows))
    if maybe() and #weight.shape == 1 then weight = ipu.expand_dims(weight, -1) end
  end
  return {kind = kind, o = o}, {y, p}, {}, {keras.losses[kind](o)(y, p, weight)}, weight
end

local kinds <const> = {"recurrent", "recurrent", "conv", "pool", "norm", "attention", "loss",
  "loss"}

-- ------------------------------------------------

local cases = {}
for i = 1, count do
  local family = pick(kinds)
  local about, inputs, weights, results, mask = makers[family]()
  local tensors = {}
  for k, t in ipairs(inputs) do tensors["x" .. k] = t end
  for k, t in ipairs(weights) do tensors["w" .. k] = t end
  for k, t in ipairs(results) do tensors["y" .. k] = t end
  if mask then tensors.mask = ipu.cast(mask, "float32") end
  ipu.save(folder .. "/case-" .. i .. ".npz", tensors)
  about.family = family
  cases[i] = about
end
local file <close> = assert(io.open(folder .. "/cases.json", "w"))
file:write(ipu.json.encode(cases))
