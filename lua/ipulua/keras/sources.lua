-- Where what ipu.keras offers comes from, for help() and the reference: papers, the names in the
-- original's ipu.keras, or Keras' own.

local sources = {}

-- By class.
sources.given = {
  -- layers
  Dropout = "Srivastava et al. 2014 (JMLR 15)", SpatialDropout1D = "arXiv:1411.4280",
  SpatialDropout2D = "arXiv:1411.4280",
  SpatialDropout3D = "arXiv:1411.4280", GaussianDropout = "Srivastava et al. 2014 (JMLR 15)",
  AlphaDropout = "arXiv:1706.02515",
  PReLU = "arXiv:1502.01852", ELU = "arXiv:1511.07289", LeakyReLU = "Maas, Hannun & Ng 2013 (ICML)",
  ThresholdedReLU = "arXiv:1402.3337",
  SeparableConv2D = "arXiv:1610.02357", DepthwiseConv2D = "arXiv:1610.02357",
  SeparableConv1D = "arXiv:1610.02357",
  Conv2DTranspose = "arXiv:1603.07285", Conv1DTranspose = "arXiv:1603.07285",
  Conv3DTranspose = "arXiv:1603.07285",
  GlobalAveragePooling2D = "arXiv:1312.4400",
  BatchNormalization = "arXiv:1502.03167",
  LayerNormalization = "arXiv:1607.06450; ipu.keras.layers.LayerNormalization of the original",
  GroupNormalization = "arXiv:1803.08494; ipu.keras.layers.GroupNormalization of the original",
  InstanceNormalization =
  "arXiv:1607.08022; ipu.keras.layers.InstanceNormalization of the original",
  SimpleRNN = "Elman 1990 (Cognitive Science 14)",
  LSTM = "Hochreiter & Schmidhuber 1997 (Neural Computation 9)",
  GRU = "arXiv:1406.1078", PopnnLSTM = "ipu.keras.layers.PopnnLSTM of the original",
  PopnnGRU = "ipu.keras.layers.PopnnGRU of the original",
  SimpleRNNCell = "as SimpleRNN", LSTMCell = "as LSTM", GRUCell = "as GRU",
  ConvLSTM1D = "arXiv:1506.04214", ConvLSTM2D = "arXiv:1506.04214", ConvLSTM3D = "arXiv:1506.04214",
  Bidirectional = "Schuster & Paliwal 1997 (IEEE Trans. Signal Processing 45)",
  Attention = "arXiv:1508.04025", AdditiveAttention = "arXiv:1409.0473",
  MultiHeadAttention = "arXiv:1706.03762",
  SerialDense = "ipu.keras.layers.SerialDense of the original",
  Embedding = "ipu.keras.layers.Embedding of the original",
  RecomputationCheckpoint = "ipu.keras.layers.RecomputationCheckpoint of the original",
  AssumeEqualAcrossReplicas = "ipu.keras.layers.AssumeEqualAcrossReplicas of the original",
  CTCInferenceLayer = "Graves et al. 2006 (ICML); ipu.keras.layers.CTCInferenceLayer of the "
  .. "original",
  CTCPredictionsLayer = "Graves et al. 2006 (ICML); ipu.keras.layers.CTCPredictionsLayer of the "
  .. "original",
  CaptureUpstreamGradients = "ipu.keras.layers.CaptureUpstreamGradients of the original",
  CaptureActivationGradients = "ipu.keras.layers.CaptureActivationGradients of the original",
  -- losses and metrics
  Huber = "Huber 1964 (Ann. Math. Statist. 35)",
  CTCLoss = "Graves et al. 2006 (ICML); ipu.keras.losses.CTCLoss of the original",
  KLDivergence = "Kullback & Leibler 1951 (Ann. Math. Statist. 22)",
  -- optimizers and schedules
  SGD = "Sutskever et al. 2013 (ICML), for momentum",
  Adam = "arXiv:1412.6980; amsgrad: arXiv:1904.09237", AdamW = "arXiv:1711.05101",
  Adamax = "arXiv:1412.6980", Nadam = "Dozat 2016 (ICLR workshop)",
  RMSprop = "Tieleman & Hinton 2012, lecture 6.5",
  Adagrad = "Duchi, Hazan & Singer 2011 (JMLR 12)", Adadelta = "arXiv:1212.5701",
  Ftrl = "McMahan et al. 2013 (KDD)",
  LAMB = "arXiv:1904.00962", Lion = "arXiv:2302.06675",
  ["optimizers.MapGradientOptimizer"] = "ipu.keras.optimizers.MapGradientOptimizer of the original",
  MapGradientOptimizerInvertedChaining =
  "ipu.keras.optimizers.MapGradientOptimizerInvertedChaining of the original",
  CrossReplicaOptimizer = "ipu.keras.optimizers.CrossReplicaOptimizer of the original",
  GradientAccumulationOptimizer = "ipu.keras.optimizers.GradientAccumulationOptimizer of the "
  .. "original",
  ALSOptimizer = "ipu.keras.optimizers.ALSOptimizer of the original",
  ALSGradientAccumulationOptimizer = "ipu.keras.optimizers.ALSGradientAccumulationOptimizer of the "
  .. "original",
  CosineDecay = "arXiv:1608.03983", CosineDecayRestarts = "arXiv:1608.03983",
  LinearCosineDecay = "arXiv:1709.07417",
  -- initializers
  Orthogonal = "arXiv:1312.6120", GlorotNormal = "Glorot & Bengio 2010 (AISTATS)",
  GlorotUniform = "Glorot & Bengio 2010 (AISTATS)",
  HeNormal = "arXiv:1502.01852", HeUniform = "arXiv:1502.01852",
  LecunNormal = "LeCun et al. 1998, Efficient BackProp",
  LecunUniform = "LeCun et al. 1998, Efficient BackProp",
}

-- What tf.keras has not, under this name.
local elsewhere <const> = {
  OpLambda = "what tf.keras calls TFOpLambda",
  FunctionLoss = "what tf.keras calls LossFunctionWrapper",
  ALSOptimizerSGD = "as ALSOptimizer", ALSOptimizerAdam = "as ALSOptimizer",
  ALSOptimizerRMSProp = "as ALSOptimizer",
  relu6 = "tf.nn.relu6", leaky_relu = "tf.nn.leaky_relu", log_softmax = "tf.nn.log_softmax",
  silu = "as swish",
  LAMB = false, LinearCosineDecay = "tf.keras.experimental.LinearCosineDecay",
}

local places <const> = {schedules = "optimizers.schedules"}

---The source of a part of Keras: what is given, and its name in tf.keras.
---@param module string "layers", "schedules" …
---@param name string
---@return string
function sources.of(module, name)
  local given = sources.given[module .. "." .. name] or sources.given[name]
  if given and given:find("of the original", 1, true) then return given end
  local keras = elsewhere[name]
  if keras == nil then keras = string.format("tf.keras.%s.%s", places[module] or module, name) end
  return given and keras and given .. "; " .. keras or keras or given
end

return sources
