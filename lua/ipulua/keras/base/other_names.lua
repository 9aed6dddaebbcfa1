-- Names that Keras has beside those here: the same thing under another name (layers.MaxPool2D is
-- layers.MaxPooling2D), and what static shapes or the lack of text tensors rule out, with what to
-- use instead.

local args = require "ipulua.base.args"
local blame = require "ipulua.base.blame"
local core = require "ipulua.core"
local custom_objects = require "ipulua.keras.base.custom_objects"
local names = require "ipulua.keras.base.names"
local modules = require "ipulua.base.modules"

local other_names = {}

local layers = {}
for _, d in ipairs {"1D", "2D", "3D"} do
  for short, long in pairs {Max = "Max", Avg = "Average"} do
    layers[short .. "Pool" .. d] = long .. "Pooling" .. d
    layers["Global" .. short .. "Pool" .. d] = "Global" .. long .. "Pooling" .. d
  end
  layers["Convolution" .. d] = "Conv" .. d
  layers["Convolution" .. d .. "Transpose"] = "Conv" .. d .. "Transpose"
end
layers.SeparableConvolution1D, layers.SeparableConvolution2D = "SeparableConv1D", "SeparableConv2D"

local errors <const> = {
  mse = "mean_squared_error", mae = "mean_absolute_error", mape = "mean_absolute_percentage_error",
  msle = "mean_squared_logarithmic_error", kld = "kl_divergence",
}
local functions = {kullback_leibler_divergence = "kl_divergence", logcosh = "log_cosh"}
for short, long in pairs(errors) do functions[short], functions[short:upper()] = long, long end

-- Each class under its name in small letters.
local function small(classes)
  local list = {}
  for name in classes:gmatch("%S+") do list[names.snake(name)] = name end
  return list
end

---Module → other name → name.
other_names.names = {
  layers = layers, losses = functions, metrics = functions,
  constraints = small "MaxNorm MinMaxNorm NonNeg RadialConstraint UnitNorm",
}
other_names.names.initializers = small(
  "Constant GlorotNormal GlorotUniform HeNormal HeUniform Identity LecunNormal LecunUniform Ones "
  .. "Orthogonal "
  .. "RandomNormal RandomUniform TruncatedNormal VarianceScaling Zeros")

local size_changes <const> = "the size of its output would change from step to step, and shapes "
  .. "are static; use "
local folder_of_images <const> = "use ipu.data.from_image_folder(path, {image_size = {height, "
  .. "width}})"
local no_texts <const> = "there are no tensors of text; number the words with "
  .. "preprocessing.text.Tokenizer, and make a dataset of the numbers"
local no_downloads <const> = "nothing is downloaded; "
local no_queue <const> = "datasets have threads of their own"
local text_needed <const> = "there are no tensors of text; number the words while the dataset is "
  .. "made, with "

-- What keras.backend has beside the functions of tensors: {names, what to use}.
local backend = {}
for _, group in ipairs{
  {"eval function placeholder", "tensors have their numbers, t:totable(); a program is made by "
    .. "ipu.func, a model begins with keras.Input"},
  {"learning_phase set_learning_phase learning_phase_scope",
    "a layer's call has options.training; a model is called with {training = true}"},
  {"set_floatx set_epsilon", "a layer has a dtype, and mixed_precision.set_global_policy one for "
    .. "all; an epsilon is an argument"},
  {"set_image_data_format", "data_format is an argument of each layer"},
  {"map_fn foldl foldr rnn", "use ipu.loops.repeat_n, or an op on the whole tensor; a layer of "
    .. "steps is layers.RNN"},
  {"conv1d conv2d conv3d conv2d_transpose depthwise_conv2d batch_normalization",
    "use the op in ipu.nn, or the layer"},
  {"separable_conv2d local_conv1d local_conv2d pool2d pool3d resize_images resize_volumes",
    "use the layer"},
  {"temporal_padding spatial_2d_padding spatial_3d_padding", "use ipu.pad, or the layer"},
  {"normalize_batch_in_training moving_average_update",
    "use layers.BatchNormalization, or v:assign"},
  {"ctc_batch_cost ctc_decode ctc_label_dense_to_sparse",
    "use ipu.nn.ctc_loss and ipu.nn.ctc_beam_search_decoder"},
  {"random_uniform_variable random_normal_variable random_binomial",
    "use ipu.Variable(ipu.random.normal(shape)), ipu.random.bernoulli"},
  {"in_top_k", "use metrics.top_k_categorical_accuracy"}, {"print_tensor", "use ipu.print_tensor"},
  {"is_sparse to_dense", "all tensors are dense"},
  {"get_uid", "a layer is numbered when it is made"},
  {"name_scope", "use ipu.name_scope"},
  {"manual_variable_initialization", "variables have values from the start"},
} do
  for name in group[1]:gmatch("%S+") do backend[name] = group[2] end
end

---Module → name → why it can't be had, and what to use.
other_names.missing = {
  backend = backend,
  keras = {applications = no_downloads .. "build the model of keras.layers; load_weights and "
    .. "onnx.import read the weights of a file"},
  callbacks = {
    ProgbarLogger = "fit shows its progress itself; its argument `verbose` and IPULUA_PROGRESS say "
    .. "how",
    BaseLogger = "the logs of an epoch are running means already",
    RemoteMonitor = "nothing is sent over a network; use CSVLogger, or extend Callback with "
    .. "on_epoch_end(epoch, logs)",
  },
  datasets = {
    boston_housing = no_downloads .. "read its file by ipu.load or ipu.data.from_csv",
    reuters = no_downloads .. "read its file by ipu.load, and fill its sequences up by "
    .. "utils.pad_sequences",
  },
  models = {model_from_yaml = "it was taken out of Keras, too; use model_from_json"},
  utils = {
    Sequence = "programs must know the shapes of batches ahead; make them by "
    .. "ipu.data.from_generator",
    Progbar = "fit, evaluate and predict show their progress themselves",
    get_file = no_downloads .. "give the paths of files that are there",
    model_to_dot = "plot_model returns the DOT text",
    GeneratorEnqueuer = no_queue, OrderedEnqueuer = no_queue, SequenceEnqueuer = no_queue,
    image_dataset_from_directory = folder_of_images, text_dataset_from_directory = no_texts,
  },
  preprocessing = {
    image = "use ipu.data.from_image_folder, and layers such as RandomFlip and RandomRotation",
    image_dataset_from_directory = folder_of_images, text_dataset_from_directory = no_texts,
  },
  ["preprocessing.sequence"] = {
    TimeseriesGenerator = "use preprocessing.timeseries_dataset_from_array, a dataset of the same "
    .. "windows",
  },
  ["preprocessing.text"] = {
    one_hot = "its numbers depend on a hash that differs from run to run; use hashing_trick or "
    .. "Tokenizer",
  },
  layers = {
    RandomHeight = size_changes .. "RandomZoom(height_factor, {width_factor = 0}), which keeps it",
    RandomWidth = size_changes .. "RandomZoom(0, {width_factor = factor}), which keeps it",
    StringLookup = text_needed .. "preprocessing.text.Tokenizer, utils.Vocabulary or a Lua table",
    Hashing = text_needed .. "preprocessing.text.hashing_trick",
    TextVectorization = text_needed .. "preprocessing.text.Tokenizer (characters: "
    .. "utils.Vocabulary) and utils.pad_sequences",
    experimental = "what Keras has there is in layers itself",
    DenseFeatures = "there are no feature columns; use Embedding, CategoryEncoding and "
    .. "Normalization",
  },
}

---The name that a module has for another one's; compared as Keras' strings are, without case and
---underscores.
---@param which string? "layers", "losses" …
---@param name string
---@return string?
function other_names.target(which, name)
  local list = other_names.names[which]
  if not list then return nil end
  if list[name] then return list[name] end
  local wanted = names.plain(name)
  for other, target in pairs(list) do
    if names.plain(other) == wanted then return target end
  end
  return nil
end

---Why a module lacks a name of Keras.
---@param which string?
---@param name string
---@return string?
function other_names.why_missing(which, name)
  for each, why in pairs(other_names.missing[which] or {}) do
    if names.plain(each) == names.plain(name) then return each .. " is not offered: " .. why end
  end
  return nil
end

-- Module → the kind of part that it holds, as parts.lua calls it.
local kinds <const> = {
  layers = "layer", losses = "loss", metrics = "metric", initializers = "initializer",
  constraints = "constraint",
  regularizers = "regularizer", optimizers = "optimizer", schedules = "schedule",
  activations = "activation",
}

-- What every module of parts offers: parts.lua needs this file, hence at the call.
local function give_saving(kind, module)
  ---What a config holds for a part: {class_name =, config =}, or the name of a function.
  function module.serialize(part)
    return core.plain(require("ipulua.keras.base.parts").serialize(kind, part))
  end

  ---The part that serialize described, or that a name stands for. objects: {custom_objects = {name
  ---= class}}, or that table itself.
  function module.deserialize(config, objects)
    if type(config) ~= "string"
      and not (args.is_plain(config) and type(config.class_name) == "string") then
      blame.error("deserialize: a name or {class_name =, config =} is wanted, got "
        .. args.describe(config), "type")
    end
    local options = {custom_objects = custom_objects.given(objects),
      prefers_class = kind ~= "activation"}
    return require("ipulua.keras.base.parts").get(kind, config, options)
  end
end

---Lets a module answer to its other names, and say why it lacks those of Keras that can't be had.
---@param which string
---@param module table
---@return table module
function other_names.answer(which, module)
  modules.offer_all(module)
  return setmetatable(module, {__index = function(t, name)
    local target = type(name) == "string" and other_names.names[which]
      and other_names.names[which][name]
    if target then return rawget(t, target) end
    local why = type(name) == "string" and (other_names.missing[which] or {})[name]
    if why then
      blame.error(string.format("keras.%s.%s is not offered: %s", which, name, why), "value")
    end
    return nil
  end})
end

---The same for a module of parts, which also saves them and makes them of what was saved.
---@param which string
---@param module table
---@return table module
function other_names.give(which, module)
  give_saving(kinds[which], module)
  return other_names.answer(which, module)
end

return other_names
