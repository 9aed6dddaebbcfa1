-- All of ipu.keras but layers, for docs/reference/keras.md, as {name, sample}. The sample of a loss
-- or metric is a kind of data or a call. An initializer has a wrong shape, a callback a wrong
-- sample. Samples are run.
local operand <const> = {{"x", "tensor, number or list", "required", "operand"}}

return {
  losses = {
    {"Loss"}, {"MeanSquaredError"}, {"MeanAbsoluteError"}, {"MeanAbsolutePercentageError"},
    {"MeanSquaredLogarithmicError"},
    {"BinaryCrossentropy"}, {"CategoricalCrossentropy"}, {"BinaryFocalCrossentropy"},
    {"CategoricalFocalCrossentropy"},
    {"SparseCategoricalCrossentropy", "sparse"}, {"CategoricalHinge"}, {"Hinge"},
    {"SquaredHinge"}, {"Huber"}, {"LogCosh"}, {"KLDivergence"}, {"Poisson"}, {"CosineSimilarity"},
    {"CTCLoss", "ctc"},
    {"FunctionLoss", "function"},
  },
  metrics = {
    {"Metric", "none"}, {"Mean", "value"}, {"Sum", "value"}, {"MeanTensor", "value"},
    {"MeanMetricWrapper", "none"},
    {"MeanRelativeError", "normalizer"}, {"Accuracy"}, {"BinaryAccuracy"}, {"CategoricalAccuracy"},
    {"SparseCategoricalAccuracy", "sparse"}, {"TopKCategoricalAccuracy"},
    {"SparseTopKCategoricalAccuracy", "sparse"},
    {"TruePositives"}, {"TrueNegatives"}, {"FalsePositives"}, {"FalseNegatives"}, {"Precision"},
    {"Recall"},
    {"PrecisionAtRecall", "PrecisionAtRecall(0.5)"},
    {"RecallAtPrecision", "RecallAtPrecision(0.5)"},
    {"SensitivityAtSpecificity", "SensitivityAtSpecificity(0.5)"},
    {"SpecificityAtSensitivity", "SpecificityAtSensitivity(0.5)"}, {"AUC"},
    {"F1Score", "none", "labels, predictions [batch, classes] → [classes]; averaged []"},
    {"FBetaScore", "none", "labels, predictions [batch, classes] → [classes]; averaged []"},
    {"R2Score", "none",
      "labels, predictions [batch, outputs] → []; not aggregated [outputs]"},
    {"MeanIoU", "MeanIoU(3)"}, {"MeanSquaredError"}, {"RootMeanSquaredError"},
    {"MeanAbsoluteError"},
    {"MeanAbsolutePercentageError"}, {"MeanSquaredLogarithmicError"}, {"BinaryCrossentropy"},
    {"CategoricalCrossentropy"},
    {"SparseCategoricalCrossentropy", "sparse"}, {"CategoricalHinge"}, {"Hinge"}, {"SquaredHinge"},
    {"KLDivergence"},
    {"LogCoshError"}, {"Poisson"}, {"CosineSimilarity"},
  },
  optimizers = {
    {"Optimizer"}, {"SGD"}, {"Adam"}, {"AdamW"}, {"Adamax"}, {"Nadam"}, {"RMSprop"}, {"Adagrad"},
    {"Adadelta"}, {"Ftrl"},
    {"LAMB"}, {"Lion"}, {"MapGradientOptimizer"}, {"MapGradientOptimizerInvertedChaining"},
    {"CrossReplicaOptimizer"}, {"GradientAccumulationOptimizer"}, {"ALSOptimizer"},
    {"ALSGradientAccumulationOptimizer"},
    {"ALSOptimizerSGD"}, {"ALSOptimizerAdam"}, {"ALSOptimizerRMSProp"},
  },
  schedules = {
    {"LearningRateSchedule"},
    {"ExponentialDecay", "ExponentialDecay{0.1, decay_steps = 10, decay_rate = 0.5}"},
    {"InverseTimeDecay", "InverseTimeDecay{0.1, decay_steps = 10, decay_rate = 0.5}"},
    {"PiecewiseConstantDecay", "PiecewiseConstantDecay{{10, 20}, {0.1, 0.05, 0.01}}"},
    {"PolynomialDecay", "PolynomialDecay{0.1, decay_steps = 10}"},
    {"CosineDecay", "CosineDecay{0.1, decay_steps = 10}"},
    {"CosineDecayRestarts", "CosineDecayRestarts{0.1, first_decay_steps = 10}"},
    {"LinearCosineDecay", "LinearCosineDecay{0.1, decay_steps = 10}"},
  },
  initializers = {
    {"Initializer"}, {"Zeros"}, {"Ones"}, {"Constant", nil}, {"Identity", {2, 3, 4}},
    {"Orthogonal", {4}},
    {"RandomNormal"}, {"RandomUniform"}, {"TruncatedNormal"}, {"VarianceScaling"}, {"GlorotNormal"},
    {"GlorotUniform"},
    {"HeNormal"}, {"HeUniform"}, {"LecunNormal"}, {"LecunUniform"},
  },
  regularizers = {
    {"Regularizer"}, {"L1"}, {"L2"}, {"L1L2"}, {"l1"}, {"l2"}, {"l1_l2"},
  },
  constraints = {
    {"Constraint"}, {"MaxNorm"}, {"MinMaxNorm"}, {"NonNeg"}, {"UnitNorm"}, {"RadialConstraint"},
  },
  callbacks = {
    {"Callback"}, {"CallbackList"}, {"History"}, {"LambdaCallback"},
    {"EarlyStopping", "EarlyStopping{mode = \"best\"}"},
    {"ModelCheckpoint", "ModelCheckpoint(\"model.h5\")"},
    {"BackupAndRestore", "BackupAndRestore{\"backup\", save_freq = 0}"},
    {"ReduceLROnPlateau", "ReduceLROnPlateau{factor = 2}"},
    {"LearningRateScheduler", "LearningRateScheduler(0.1)"},
    {"TerminateOnNaN", "TerminateOnNaN{raise_errors = true}"}, {"CSVLogger", "CSVLogger()"},
    {"TensorBoard", "TensorBoard{update_freq = \"step\"}"},
  },
  activations = {
    {"linear"}, {"relu"}, {"relu6"}, {"leaky_relu"}, {"elu"}, {"selu"}, {"gelu"},
    {"silu"}, {"swish"},
    {"sigmoid"}, {"hard_sigmoid"}, {"tanh"}, {"softplus"}, {"softsign"}, {"exponential"},
    {"softmax"}, {"log_softmax"}, {"get"},
  },
  functions = {
    models = {"load_model", "model_from_json", "model_from_config", "save_model", "clone_model",
      "Model", "Sequential"},
    utils = {"to_categorical", "normalize", "set_random_seed", "reset_names", "plot_model",
      "pad_sequences",
      "timeseries_dataset_from_array", "image_dataset_from_directory",
      "text_dataset_from_directory", "custom_object_scope", "get_custom_objects",
      "register_keras_serializable", "get_registered_name", "array_to_img", "img_to_array",
      "load_img", "save_img",
      "get_registered_object", "vocabulary", "Vocabulary", "generate_text"},
    preprocessing = {"timeseries_dataset_from_array", "image_dataset_from_directory",
      "text_dataset_from_directory"},
    ["preprocessing.sequence"] = {"pad_sequences", "make_sampling_table", "skipgrams"},
    ["preprocessing.text"] = {"text_to_word_sequence", "hashing_trick", "Tokenizer",
      "tokenizer_from_json"},
    ["preprocessing.image"] = {"array_to_img", "img_to_array", "load_img", "save_img"},
    mixed_precision = {"set_global_policy", "global_policy", "resolve", "Policy"},
    datasets = {"mnist", "fashion_mnist", "cifar10", "cifar100", "imdb", "text"},
  },
  -- Functions that stand under another name, too.
  elsewhere = {
    ["utils.array_to_img"] = "preprocessing.image.array_to_img",
    ["utils.img_to_array"] = "preprocessing.image.img_to_array",
    ["utils.load_img"] = "preprocessing.image.load_img",
    ["utils.save_img"] = "preprocessing.image.save_img",
    ["utils.pad_sequences"] = "preprocessing.sequence.pad_sequences",
    ["utils.timeseries_dataset_from_array"] = "preprocessing.timeseries_dataset_from_array",
    ["utils.image_dataset_from_directory"] = "preprocessing.image_dataset_from_directory",
    ["utils.text_dataset_from_directory"] = "preprocessing.text_dataset_from_directory",
  },
  -- Classes among the functions whose methods are shown.
  spelled_out = {Tokenizer = true, Vocabulary = true, Policy = true},
  -- Fields of ipu.keras itself.
  top = {
    {"PipelineStage", "`keras.PipelineStage(stage)`: a scope; layers made or called in it are in "
      .. "that stage of the pipeline, from 0."},
    {"SequentialLayerPipelineStageAssignment",
      "`(layer, pipeline_stage)`: which stage a layer of a Sequential is in, as "
      .. "`set_pipeline_stage_assignment` takes it."},
    {"FunctionalLayerPipelineStageAssignment",
      "`(layer, node_index, pipeline_stage)`: the same for one call of a layer of a functional "
      .. "model; `inbound_layers` tells what feeds it."},
    {"ModelLayerPipelineStageAssignment",
      "`(layer, node_index, pipeline_stage)`: the same for a subclass of Model."},
    {"PipelineModel", "An older class: a functional Model whose options of pipelining stand in the "
      .. "constructor."},
    {"SequentialPipelineModel", "An older class: a Sequential from a list of lists of layers, one "
      .. "for each stage."},
    {"PipelineSequential", "Another name of SequentialPipelineModel."},
    {"onnx", "`keras.onnx.export(model, path)` and `keras.onnx.import(path)`: see "
      .. "[interop.md](../../howto/interop.md)."},
  },
  -- Samples that raise, where a wrong argument says little.
  wrong = {
    ["initializers.Constant"] = "Constant(\"one\")({2})",
    ["initializers.VarianceScaling"] = "VarianceScaling{mode = \"fan\"}",
    ["optimizers.SGD"] = "SGD{momentum = 2}", ["optimizers.Adam"] = "Adam{beta_1 = 1}",
    ["optimizers.AdamW"] = "AdamW{beta_2 = 1}",
    ["optimizers.Adagrad"] = "Adagrad{initial_accumulator_value = -1}",
    ["optimizers.Ftrl"] = "Ftrl{learning_rate_power = 1}",
    ["optimizers.RMSprop"] = "RMSprop{rho = 2}", ["metrics.AUC"] = "AUC{curve = \"F1\"}",
    ["metrics.Precision"] = "Precision{thresholds = 2}",
    ["schedules.PiecewiseConstantDecay"] = "PiecewiseConstantDecay{{10, 20}, {0.1, 0.05}}",
    ["metrics.MeanIoU"] = "MeanIoU(0)",
  },
  -- Functions of the backend that check their arguments themselves.
  backend_calls = {
    concatenate = {"tensors, axis = -1", arguments = {
      {"tensors", "list of tensors", "required", "tensors of one rank"},
      {"axis", "integer", "`-1`", "axis that they are joined along"}}},
    stack = {"tensors, axis = 0", arguments = {
      {"tensors", "list of tensors", "required", "tensors of one shape"},
      {"axis", "integer", "`0`", "position of the new axis"}}},
    batch_get_value = {"variables", arguments = {
      {"variables", "list of variables", "required", "variables that are read"}}},
    batch_set_value = {"tuples", arguments = {
      {"tuples", "list of {variable, value}", "required", "new values"}}},
    hard_sigmoid = {"x", arguments = operand}, softplus = {"x", arguments = operand},
    softsign = {"x", arguments = operand}, cast_to_floatx = {"x", arguments = operand},
    is_keras_tensor = {"x", arguments = {{"x", "any value", "required", "value to look at"}}},
  },
  -- Names for the library itself.
  internal = {declare = true, build_once = true, build_with = true, discard_programs = true,
    watch = true,
    ensure_built = true, prepare = true, reduce = true, get = true,
    serialize = true, deserialize = true},
}
