-- A small example of each layer of keras.layers: arguments and inputs, for specs over all of them;
-- and for each argument a value unlike its default.

local ipu = require "ipulua"
local keras = ipu.keras
local L = keras.layers

local support = {}

-- Numbers between -1 and 1, other ones for each seed.
function support.values(shape, seed, dtype)
  local x = ipu.random.uniform(shape, {minval = -1, maxval = 1, seed = seed or 1})
  return dtype == "int32" and ipu.cast((x + 1) * 2.4, "int32") or x
end

local steps <const>, image <const> = {4, 5, 3}, {2, 6, 7, 4}
local volume <const> = {2, 4, 5, 4, 4}

local samples = {
  Activation = {arguments = {activation = "tanh"}, input = steps},
    ActivityRegularization = {input = steps},
  AssumeEqualAcrossReplicas = {input = steps}, RecomputationCheckpoint = {input = steps},
  CategoryEncoding = {arguments = {num_tokens = 6}, input = {4, 3}, dtype = "int32"},
  CenterCrop = {arguments = {height = 4, width = 3}, input = image},
    RandomCrop = {arguments = {height = 4, width = 3, seed = 1}, input = image},
  Dense = {arguments = {units = 2}, input = steps},
  SerialDense = {arguments = {units = 8, serialization_factor = 2,
    serialization_dimension = "kernel_rows"}, input = {4, 6}},
  Discretization = {arguments = {bin_boundaries = {-0.5, 0.5}}, input = steps},
    Dot = {arguments = {axes = 1}, inputs = {steps, steps}},
  Dropout = {arguments = {rate = 0.5, seed = 3}, input = steps},
    AlphaDropout = {arguments = {rate = 0.5, seed = 3}, input = steps},
  GaussianDropout = {arguments = {rate = 0.5, seed = 3}, input = steps},
    GaussianNoise = {arguments = {stddev = 1, seed = 3}, input = steps},
  SpatialDropout1D = {arguments = {rate = 0.5, seed = 3}, input = steps},
    SpatialDropout2D = {arguments = {rate = 0.5, seed = 3}, input = image},
  SpatialDropout3D = {arguments = {rate = 0.5, seed = 3}, input = volume},
  Embedding = {arguments = {input_dim = 6, output_dim = 3}, input = {4, 5}, dtype = "int32"},
    Flatten = {input = steps},
  GroupNormalization = {arguments = {groups = 2}, input = image},
    Lambda = {arguments = {func = function(x, o) return x * (o and o.alpha or 2) end},
    input = steps},
  IntegerLookup = {arguments = {vocabulary = {1, 2, 3}, max_tokens = 7, output_mode = "multi_hot"},
    input = {4, 5}, dtype = "int32"},
  MultiHeadAttention = {arguments = {num_heads = 2, key_dim = 3, dropout = 0.5}, input = steps,
    call = function(layer, x, o) return layer(x, x, o) end},
  Attention = {arguments = {dropout = 0.5}, inputs = {steps, steps}},
  AdditiveAttention = {arguments = {dropout = 0.5}, inputs = {steps, steps}},
    Permute = {arguments = {dims = {2, 1}}, input = steps},
  RandomBrightness = {arguments = {factor = 0.5, seed = 3}, input = image},
  RandomContrast = {arguments = {factor = 0.5, seed = 3}, input = image},
    RandomFlip = {arguments = {seed = 3}, input = image},
  RandomRotation = {arguments = {factor = 0.3, seed = 3, fill_mode = "constant"}, input = image},
  RandomTranslation = {arguments = {height_factor = 0.4, width_factor = 0.3, seed = 3,
    fill_mode = "constant"}, input = image},
  RandomZoom = {arguments = {height_factor = 0.4, seed = 3, fill_mode = "constant"}, input = image},
    RepeatVector = {arguments = {n = 3}, input = {4, 3}},
  Rescaling = {arguments = {scale = 2}, input = steps}, Reshape = {arguments = {target_shape = {3,
    5}}, input = steps},
  Resizing = {arguments = {height = 4, width = 3}, input = image},
  RNN = {arguments = function() return {cell = L.LSTMCell{3, activation = "softsign"}} end,
    input = steps},
  TimeDistributed = {arguments = function() return {layer = L.Dense{2}} end, input = steps},
  Bidirectional = {arguments = function() return {layer = L.GRU{3, return_sequences = true}} end,
    input = steps},
  CaptureUpstreamGradients = {arguments = function() return {layer = L.Dense{2,
    activation = "tanh"}} end, input = steps},
  CaptureActivationGradients = {arguments = function() return {layer = L.Dense{2,
    activation = "tanh"}} end, input = steps},
}

for _, name in ipairs{"ELU", "ReLU", "LeakyReLU", "PReLU", "ThresholdedReLU", "Softmax",
  "BatchNormalization", "LayerNormalization",
  "UnitNormalization"} do samples[name] = {input = steps} end
samples.Masking = {input = steps, call = function(layer,
  x) return layer(ipu.floor(x * 1.5) / 2) end} -- of -1, -0.5, 0 and 0.5
samples.Normalization = {arguments = {mean = 0.5, variance = 2}, input = steps}
samples.InstanceNormalization = {input = image}
for _, name in ipairs{"Add", "Average", "Concatenate", "Maximum", "Minimum", "Multiply",
  "Subtract"} do samples[name] = {inputs = {steps, steps}} end
-- The last steps of a sequence are masked.
local function masked(layer, x, o)
  local time = layer.time_major and x.shape[1] or x.shape[2]
  local kept = ipu.less(ipu.arange(time, {dtype = "int32"}), time - 2)
  local shape = layer.time_major and {time, 1} or {1, time}
  return layer(x, {training = o.training, mask = ipu.broadcast_to(ipu.reshape(kept, shape),
    {x.shape[1], x.shape[2]})})
end
samples.RNN.call = masked
for _, name in ipairs{"LSTM", "GRU", "SimpleRNN", "PopnnLSTM",
  "PopnnGRU"} do samples[name] = {arguments = {units = 3, dropout = 0.5}, input = steps,
  call = masked} end

local function step_of_cell(layer, x, o)
  local states = layer:get_initial_state(x.shape[1], "float32")
  for i, state in ipairs(states) do states[i] = state + 0.5 end
  return layer(x, states, o)
end
for _, name in ipairs{"LSTMCell", "GRUCell", "SimpleRNNCell"} do
  samples[name] = {arguments = {units = 3, dropout = 0.5}, input = {4, 3}, call = step_of_cell}
end
samples.StackedRNNCells = {arguments = function() return {cells = {L.LSTMCell(3),
  L.GRUCell(2)}} end, input = {4, 3}, call = step_of_cell}

for rank, shape in ipairs{{2, 7, 4}, image, volume} do
  local d = rank .. "D"
  for _, kind in ipairs{"AveragePooling", "MaxPooling", "GlobalAveragePooling", "GlobalMaxPooling",
    "ZeroPadding", "Cropping", "UpSampling"} do
    samples[kind .. d] = {arguments = {cropping = kind == "Cropping" and 1 or nil}, input = shape}
  end
  for _, kind in ipairs{"Conv", "DepthwiseConv", "SeparableConv", "LocallyConnected"} do
    local arguments = {kernel_size = 2, filters = kind ~= "DepthwiseConv" and 2 or nil}
    if rawget(L, kind .. d) then samples[kind .. d] = {arguments = arguments, input = shape} end
  end
  samples["Conv" .. d .. "Transpose"] = {arguments = {filters = 2, kernel_size = 3, strides = 2},
    input = shape}
  samples["ConvLSTM" .. d] = {arguments = {filters = 2, kernel_size = 2, dropout = 0.5}, input = {2,
    3, table.unpack(shape, 2)}}
end

for _, name in ipairs{"CTCInferenceLayer", "CTCPredictionsLayer"} do
  samples[name] = {arguments = {beam_width = 4}, input = {6, 2, 4}, call = function(layer, x, o)
    local time, lengths <const> = x.shape[1], {}
    for i = 1, x.shape[2] do lengths[i] = math.max(time - (i - 1) % 3, 0) end
    return layer(x * 4, ipu.tensor(lengths, "int32"), o)
  end}
end

support.samples = samples

---Those that are no layers of their own: bases of own ones, what ops become, descriptions of
---inputs.
support.others = {AbstractRNNCell = true, Layer = true, Wrapper = true, OpLambda = true,
  InputSpec = true, InputLayer = true,
  -- of strings: spec/keras/strings_spec.lua, spec/keras/hashing_spec.lua
  Hashing = true, StringLookup = true, TextVectorization = true}

---All classes of keras.layers, by name.
function support.classes()
  local list = {}
  for name, c in pairs(L) do
    if type(c) == "table" and rawget(c, "argument_rows") and c.__name == name or type(c) == "table"
      and samples[name] then list[name] = c end
  end
  return list
end

---The arguments of a sample, with others.
function support.arguments(name, more)
  local given = samples[name].arguments or {}
  local copy = {}
  for key, value in pairs(type(given) == "function" and given() or given) do copy[key] = value end
  for key, value in pairs(more or {}) do copy[key] = value end
  return copy
end

function support.inputs(name)
  local sample = samples[name]
  if sample.input then return support.values(sample.input, 7, sample.dtype) end
  local list = {}
  for i, shape in ipairs(sample.inputs) do list[i] = support.values(shape, 7 + i, sample.dtype) end
  return list
end

function support.call(name, layer, x, options)
  local call = samples[name].call
  if call then return call(layer, x, options) end
  return layer(x, options)
end

-- ------------------------------------------------ values unlike the defaults

local parts <const> = {
  initializer = function() return keras.initializers.RandomNormal{mean = 0.4, stddev = 0.3,
    seed = 5} end,
  regularizer = function() return keras.regularizers.L1L2{l1 = 0.03, l2 = 0.2} end,
  constraint = function() return keras.constraints.UnitNorm{axis = 0} end,
  activation = function() return "softsign" end,
}

-- Where a value of the row's type alone would not do.
local special <const> = {
  noise_shape = {4, 1, 3}, implementation = 3, name = "another", dtype = "float16", tag = "tag",
    input_length = 5, dropout_seed = 9,
  partials_dtype = "float16", options = {a = "b"}, options_bwd = {a = "b"},
    serialization_factor = 2, ["SerialDense.serialization_factor"] = 4, momentum = 0.5,
    epsilon = 0.5,
  top_paths = 2, beam_width = 2, blank_index = 1, layer = function() return L.Dense{3,
    activation = "relu"} end,
  ["Bidirectional.layer"] = function() return L.SimpleRNN{4, return_sequences = true} end,
  ["RNN.cell"] = function() return L.GRUCell(4) end,
    cells = function() return {L.SimpleRNNCell(2)} end,
  backward_layer = function() return L.SimpleRNN{3, return_sequences = true,
    go_backwards = true} end,
  func = function() return ipu.square end, mask = function() return function() return ipu.ones({4,
    5}, {dtype = "bool"}) end end,
  ["Lambda.output_shape"] = {7}, arguments = {alpha = 0.3}, bin_boundaries = {0, 0.25}, axes = 2,
    dims = {1, 2}, target_shape = {15},
  ["BatchNormalization.axis"] = 1, ["LayerNormalization.axis"] = 1, ["UnitNormalization.axis"] = 1,
    ["Softmax.axis"] = 1,
  ["Normalization.axis"] = 1, ["Concatenate.axis"] = 1, ["GroupNormalization.axis"] = 1,
    shared_axes = {1}, mean = 0.25, variance = 4,
  scale = 3, offset = 1.5, factor = 0.8, height_factor = 0.1, width_factor = 0.1,
    mode = "horizontal", max_value = 0.4, threshold = 0.3,
  channels_axis = 1, height = 3, width = 2, strides = 2, dilation_rate = 2, pool_size = 3,
    padding = "same", size = 3, cropping = 1,
  groups = 2, depth_multiplier = 2, attention_axes = 1, ["MultiHeadAttention.output_shape"] = 2,
    num_oov_indices = 2, vocabulary = {3, 2},
  idf_weights = {0.5, 2, 3},
  max_tokens = 9, oov_token = -7, mask_token = 0, ["IntegerLookup.output_mode"] = "count",
    pad_to_max_tokens = true, fused = true, trainable = false, kernel_size = 3,
  serialization_dimension = "input_rows_kernel_columns", output_padding = 1, fill_value = 0.7,
    value_range = {-1, 1},
    ["GroupNormalization.groups"] = 4,
  rate = 0.2, stddev = 0.5, num_tokens = 8, alpha = 0.7, theta = 0.2, negative_slope = 0.3,
    mask_value = -0.5, n = 2, units = 4, filters = 4,
  dropout = 0.4, recurrent_dropout = 0.4, l1 = 0.3, l2 = 0.3, input_dim = 8, output_dim = 2,
    num_heads = 3, key_dim = 2, value_dim = 4,
  seed = 11, num_bins = 3,
}
for rank = 1, 3 do
  special["AveragePooling" .. rank .. "D.strides"], special["MaxPooling" .. rank
    .. "D.strides"] = 1, 1
  special["Cropping" .. rank .. "D.cropping"] = rank == 1 and 2 or {0, 1, 0}
  special["Conv" .. rank .. "DTranspose.kernel_size"] = 2
end
special["Cropping2D.cropping"] = {0, 1}
for rank = 1, 3 do special["Conv" .. rank .. "DTranspose.strides"] = 3 end
for rank = 1, 3 do special["ZeroPadding" .. rank .. "D.padding"] = 2 end

-- What has to be given beside an argument for it to matter.
support.beside = {
  ["IntegerLookup.max_tokens"] = {pad_to_max_tokens = true},
    ["IntegerLookup.invert"] = {output_mode = "int"},
  ["IntegerLookup.mask_token"] = {output_mode = "int"},
    ["IntegerLookup.oov_token"] = {output_mode = "int", invert = true},
  ["IntegerLookup.idf_weights"] = {output_mode = "tf_idf", idf_weights = {1, 1, 1}},
}

---A value for an argument that is not its default.
---@param name string of the class
---@param row table
---@param kind string? of part
function support.unlike(name, row, kind)
  local value = special[name .. "." .. row[1]]
  if value == nil then value = special[row[1]] end
  if type(value) == "function" then return value() end
  if kind and parts[kind] then return parts[kind]() end
  if type(row[3]) == "boolean" then return not row[3] end
  for _, choice in ipairs(row.choices or {}) do
    if choice ~= row[3] and choice ~= support.arguments(name)[row[1]] then return choice end
  end
  return value
end

return support
