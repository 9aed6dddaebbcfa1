-- Names in NumPy, PyTorch, TensorFlow and Keras for the things that have another name here. A
-- newcomer tries those first; the words that refuse them say the name that is meant. Nothing here
-- makes a name work.

local elsewhere = {}

-- Ops, as functions of ipu and as methods of tensors.
local ops <const> = {
  sum = "reduce_sum", mean = "reduce_mean", max = "reduce_max", amax = "reduce_max",
  min = "reduce_min", amin = "reduce_min",
  prod = "reduce_prod", all = "reduce_all", any = "reduce_any", std = "reduce_std",
  var = "reduce_variance",
  dot = "matmul", mm = "matmul", bmm = "matmul",
  view = "reshape", flatten = "reshape", ravel = "reshape", permute = "transpose",
  swapaxes = "transpose", unsqueeze = "expand_dims",
  astype = "cast", type = "cast", to = "cast", float = "cast", int = "cast", long = "cast",
  half = "cast", double = "cast",
  clip = "clip_by_value", clamp = "clip_by_value", power = "pow", subtract = "sub",
  multiply = "mul", divide = "div",
  negative = "neg", take = "gather", index_select = "gather", topk = "top_k",
  detach = "stop_gradient", eq = "equal",
  ne = "not_equal", lt = "less", le = "less_equal", gt = "greater", ge = "greater_equal",
  repeat_interleave = "tile",
}

local functions <const> = {
  cat = "concat", concatenate = "concat", hstack = "concat", vstack = "concat",
  array = "tensor", asarray = "tensor", as_tensor = "tensor", from_numpy = "tensor",
  convert_to_tensor = "tensor", fill = "full",
  rand = "random.uniform", randn = "random.normal", manual_seed = "random.set_seed",
  set_random_seed = "random.set_seed",
  no_grad = "stop_gradient", ["function"] = "func", compile = "func", optim = "keras.optimizers",
  losses = "keras.losses",
  metrics = "keras.metrics", layers = "keras.layers", Model = "keras.Model",
  Sequential = "keras.Sequential", Module = "keras.Model",
  DataLoader = "data.from_tensor_slices", Dataset = "data.Dataset",
  load_model = "keras.models.load_model",
  add_n = "reduce_sum(ipu.stack(list), {axis = 0})",
  tensordot = "einsum", unsorted_segment_sum = "segment_sum", unsorted_segment_mean = "segment_sum",
  newaxis = "expand_dims",
}
for other, name in pairs(ops) do functions[other] = name end

-- Module → other name → the name here, which may stand in another module.
local names <const> = {
  ipu = functions,
  ["ipu.linalg"] = {
    cholesky = "ipu.cholesky", triangular_solve = "ipu.triangular_solve", matmul = "ipu.matmul",
    einsum = "ipu.einsum", eye = "ipu.eye", l2_normalize = "ipu.nn.l2_normalize",
    logdet = "slogdet", eigvalsh = "eigh", svdvals = "svd{compute_uv = false}", lu = "solve",
    lu_solve = "solve", eig = "eigh", tridiagonal_solve = "solve", inverse = "inv",
    matrix_transpose = "ipu.transpose",
  },
  ["ipu.nn"] = {Module = "keras.Model", Linear = "keras.layers.Dense",
    Sequential = "keras.Sequential",
    CrossEntropyLoss = "keras.losses.SparseCategoricalCrossentropy",
    MSELoss = "keras.losses.MeanSquaredError",
    silu = "swish", SiLU = "swish", hardsigmoid = "hard_sigmoid", logsoftmax = "log_softmax",
    linear = "ipu.matmul, or keras.layers.Dense", embedding = "ipu.embedding_lookup",
    cross_entropy = "sparse_softmax_cross_entropy_with_logits",
    Conv2d = "conv2d, or keras.layers.Conv2D", sigmoid = "ipu.sigmoid", tanh = "ipu.tanh"},
  ["ipu.image"] = {resize = "keras.layers.Resizing", flip_left_right = "keras.layers.RandomFlip",
    random_flip_left_right = "keras.layers.RandomFlip", decode_png = "read", decode_jpeg = "read",
    decode_image = "read", extract_patches = "ipu.nn.space_to_depth",
    per_image_standardization = "ipu.normalise_image"},
  ["ipu.random"] = {seed = "set_seed", rand = "uniform", randn = "normal",
    randint = "uniform with dtype = \"int32\""},
  ["ipu.data"] = {DataLoader = "from_tensor_slices", TensorDataset = "from_tensor_slices"},
  keras = {load_model = "models.load_model", save_model = "model:save", Layer = "layers.Layer",
    experimental = "layers"},
  ["keras.mixed_precision"] = {LossScaleOptimizer = "keras.optimizers.ALSOptimizer"},
  ["keras.preprocessing.image"] = {
    ImageDataGenerator = "keras.preprocessing.image_dataset_from_directory"},
  ["keras.layers"] = {Linear = "Dense", Module = "Layer", BatchNorm1d = "BatchNormalization",
    BatchNorm2d = "BatchNormalization",
    LayerNorm = "LayerNormalization", MaxPool2d = "MaxPooling2D", AvgPool2d = "AveragePooling2D"},
  ["keras.metrics"] = {IoU = "MeanIoU", BinaryIoU = "MeanIoU{num_classes = 2}",
    OneHotIoU = "MeanIoU{num_classes, sparse_y_true = false, sparse_y_pred = false}",
    OneHotMeanIoU = "MeanIoU{num_classes, sparse_y_true = false, sparse_y_pred = false}"},
  ["keras.losses"] = {CrossEntropyLoss = "SparseCategoricalCrossentropy{from_logits = true}",
    MSELoss = "MeanSquaredError",
    L1Loss = "MeanAbsoluteError", BCELoss = "BinaryCrossentropy",
    BCEWithLogitsLoss = "BinaryCrossentropy{from_logits = true}",
    NLLLoss = "SparseCategoricalCrossentropy"},
}

local dtypes <const> = {
  float16 = true, bfloat16 = true, float32 = true, float64 = true, int8 = true, uint8 = true,
  int32 = true, int64 = true, bool = true,
}

-- Modules of Graphcore's TensorFlow 2.6 whose contents are in ipu itself → one of their names.
local flattened <const> = {
  config = "IPUConfig", utils = "reset_ipu_seed", scopes = "ipu_scope",
  ipu_strategy = "IPUStrategy",
  ipu_infeed_queue = "IPUInfeedQueue", ipu_outfeed_queue = "IPUOutfeedQueue",
  pipelining_ops = "pipeline",
  cross_replica_ops = "cross_replica_sum", replication_ops = "replication_index",
  embedding_ops = "create_host_embedding",
  internal_ops = "print_tensor", custom_ops = "load_op_library",
  host_embedding = "create_host_embedding",
  normalization_ops = "nn.group_norm", nn_ops = "nn.gelu", rnn_ops = "nn.lstm",
  cross_replica_optimizer = "optimizers.CrossReplicaOptimizer",
  gradient_accumulation_optimizer = "optimizers.GradientAccumulationOptimizerV2",
}

-- Fields and methods of a tensor beside the ops.
local of_tensors <const> = {
  cat = "ipu.concat", concatenate = "ipu.concat", numpy = "totable",
  data = "totable",
  numel = "size", nelement = "size", dim = "rank", ndim = "rank", ndims = "rank",
  mT = "transpose", H = "T",
  backward = "ipu.GradientTape", grad = "ipu.GradientTape", requires_grad_ = "ipu.Variable",
  assign = "ipu.Variable",
}
local of_variables <const> = {value = "read_value", numpy = "totable", eval = "read_value"}
local of_datasets <const> = {
  as_numpy_iterator = "iter", ["repeat"] = "repeat_n", len = "cardinality", next = "iter",
  get_next = "iter", list = "iter",
  as_list = "iter", to_list = "iter", zip = "ipu.data.zip",
}
local of_models <const> = {
  forward = "call", train = "fit", eval = "evaluate", parameters = "trainable_variables",
  state_dict = "get_weights",
  load_state_dict = "load_weights", to_yaml = "to_json",
  fit_generator = "fit", evaluate_generator = "evaluate", predict_generator = "predict",
  predict_classes = "predict", predict_proba = "predict",
}

-- Arguments → their names here. A function has one of the names at most.
local of_arguments <const> = {
  dim = {"axis", "axes"}, dims = {"axis", "axes", "perm"}, reduction_indices = {"axis"},
  axes = {"axis"}, keepdim = {"keepdims"}, keep_dims = {"keepdims"},
  std = {"stddev"}, sigma = {"stddev"}, loc = {"mean"}, low = {"minval"}, high = {"maxval"},
  p = {"rate"}, prob = {"rate"}, betas = {"beta_1"}, lambd = {"l2", "l1"},
  kernel = {"kernel_size"}, filter_size = {"kernel_size"}, out_channels = {"filters"},
  out_features = {"units"}, hidden_size = {"units"}, num_units = {"units"},
  num_embeddings = {"input_dim"}, embedding_dim = {"output_dim"}, nonlinearity = {"activation"},
  bias = {"use_bias"}, regularizer = {"kernel_regularizer"},
  weight_regularizer = {"kernel_regularizer"}, initializer = {"kernel_initializer"},
  weight_initializer = {"kernel_initializer"}, constraint = {"kernel_constraint"},
  limit = {"stop"}, delta = {"step"},
  negative_slope = {"alpha"},
  nb_epoch = {"epochs"}, num_epochs = {"epochs"}, n_epochs = {"epochs"},
}

---The name here of an argument that another library has, if it is among the names of a function.
---@param key any
---@param known string[]
---@return string?
function elsewhere.argument(key, known)
  for _, name in ipairs(of_arguments[key] or {}) do
    for _, each in ipairs(known) do
      if each == name then return name end
    end
  end
end

local missing <const> = {sparse = true, ragged = true}

---Words for an argument that asks for a feature that no function here has, or nil.
---@param key any
---@return string?
function elsewhere.missing_argument(key)
  if not missing[key] then return nil end
  return string.format("; there are no %s tensors: without it the result is a dense one", key)
end

---A hint for a name that a module lacks: "; did you mean 'reduce_sum'?", or nil if no other library
---is known to have it.
---@param module string as scripts write it: "ipu", "keras.layers"
---@param name any
---@return string?
function elsewhere.hint(module, name)
  if module == "ipu" and dtypes[name] then
    return string.format("; a dtype is a string: \"%s\"", name)
  end
  if module == "ipu" and name == "math" then
    return "; its functions stand in ipu itself: ipu.exp, ipu.matmul"
  end
  if module == "ipu" and name == "shape" then return "; it is a field of a tensor, x.shape" end
  if module == "ipu" and flattened[name] then
    return "; a module of Graphcore's TensorFlow; its contents are in ipu itself: ipu."
      .. flattened[name] .. ", for example"
  end
  if module == "ipu.nn" and name == "functional" then
    return "; its functions stand in ipu.nn itself: ipu.nn.relu"
  end
  local found = names[module] and names[module][name]
  return found and "; did you mean '" .. found .. "'?"
end

---The name here of a method that another library has on a tensor, a dataset or a model.
---@param kind "tensor"|"dataset"|"model"
---@param name string
---@return string?
function elsewhere.method(kind, name)
  if kind == "variable" then return of_variables[name] or of_tensors[name] or ops[name] end
  if kind == "tensor" then return of_tensors[name] or ops[name] end
  return kind == "dataset" and of_datasets[name] or kind == "model" and of_models[name] or nil
end

---All names, for the specs: module → other name → name.
elsewhere.names = names
elsewhere.ops = ops
elsewhere.flattened = flattened

return elsewhere
