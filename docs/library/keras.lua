---@meta
-- Annotations of ipu.keras for the Lua language server; written by `make docs`.
local layers = {}
local losses = {}
local metrics = {}
local optimizers = {}
local schedules = {}
local initializers = {}
local regularizers = {}
local constraints = {}
local callbacks = {}
local activations = {}
local models = {}
local utils = {}
local preprocessing = {}
local mixed_precision = {}
local datasets = {}
preprocessing.sequence, preprocessing.text = {}, {}

---What trains: layers with compile, fit, evaluate and predict.
---@class keras.Model: keras.layers.Layer
local Model = {}

---The input that a layer expects. It is checked at each call if the layer or its class has it as `input_spec`, or a list of them for several inputs. axes: extents by axis, from 0 or, negative, from the end. shape: rank and extents at once, -1 for any. A plain table with the fields ndim, max_ndim, min_ndim, axes and dtype does as well.
---@class keras.layers.InputSpec
---@overload fun(options?: {dtype?: string, shape?: any, ndim?: integer, max_ndim?: integer, min_ndim?: integer, axes?: table}): keras.layers.InputSpec
layers.InputSpec = {}

---The base of all layers; extend it (`Layer:extend("Name")`) with `build(input_shape)` and `call(x, {training =, mask =})`; `add_weight`, `add_loss`, `add_metric`, `get_weights`, `set_weights`, `count_params`, `compute_output_shape`, `get_config`.
---@class keras.layers.Layer
---@overload fun(options?: {name?: string, trainable?: boolean, dtype?: string, input_shape?: any|integer, batch_input_shape?: any, batch_size?: integer, input_dim?: integer, activity_regularizer?: string|table, weights?: any[]}): keras.layers.Layer
layers.Layer = {}

---The beginning of a functional model; keras.Input makes it.
---@class keras.layers.InputLayer: keras.layers.Layer
---@overload fun(options?: {input_shape?: any|integer, name?: string, trainable?: boolean, dtype?: string, batch_input_shape?: any, batch_size?: integer, input_dim?: integer, activity_regularizer?: string|table, weights?: any[]}): keras.layers.InputLayer
layers.InputLayer = {}

---activation(x · kernel + bias) along the last axis.
---@class keras.layers.Dense: keras.layers.Layer
---@overload fun(units: integer, options?: {activation?: string|function, use_bias?: boolean, kernel_initializer?: string|table, bias_initializer?: string|table, kernel_regularizer?: string|table, bias_regularizer?: string|table, kernel_constraint?: string|table, bias_constraint?: string|table, name?: string, trainable?: boolean, dtype?: string, input_shape?: any|integer, batch_input_shape?: any, batch_size?: integer, input_dim?: integer, activity_regularizer?: string|table, weights?: any[]}): keras.layers.Dense
layers.Dense = {}

---Dense, its product done in parts, for less memory on the machine; the same result.
---@class keras.layers.SerialDense: keras.layers.Layer
---@overload fun(units: integer, serialization_factor: integer, serialization_dimension: string, options?: {activation?: string|function, use_bias?: boolean, kernel_initializer?: string|table, bias_initializer?: string|table, kernel_regularizer?: string|table, bias_regularizer?: string|table, kernel_constraint?: string|table, bias_constraint?: string|table, name?: string, trainable?: boolean, dtype?: string, input_shape?: any|integer, batch_input_shape?: any, batch_size?: integer, input_dim?: integer, activity_regularizer?: string|table, weights?: any[]}): keras.layers.SerialDense
layers.SerialDense = {}

---An activation function as a layer.
---@class keras.layers.Activation: keras.layers.Layer
---@overload fun(options?: {activation?: string|function, name?: string, trainable?: boolean, dtype?: string, input_shape?: any|integer, batch_input_shape?: any, batch_size?: integer, input_dim?: integer, activity_regularizer?: string|table, weights?: any[]}): keras.layers.Activation
layers.Activation = {}

---Everything but the batch in one axis.
---@class keras.layers.Flatten: keras.layers.Layer
---@overload fun(options?: {data_format?: string, name?: string, trainable?: boolean, dtype?: string, input_shape?: any|integer, batch_input_shape?: any, batch_size?: integer, input_dim?: integer, activity_regularizer?: string|table, weights?: any[]}): keras.layers.Flatten
layers.Flatten = {}

---The same elements in another shape; one extent may be -1.
---@class keras.layers.Reshape: keras.layers.Layer
---@overload fun(target_shape: any|integer, options?: {name?: string, trainable?: boolean, dtype?: string, input_shape?: any|integer, batch_input_shape?: any, batch_size?: integer, input_dim?: integer, activity_regularizer?: string|table, weights?: any[]}): keras.layers.Reshape
layers.Reshape = {}

---Axes in another order; dims counts from 1, the batch being 0.
---@class keras.layers.Permute: keras.layers.Layer
---@overload fun(dims: any, options?: {name?: string, trainable?: boolean, dtype?: string, input_shape?: any|integer, batch_input_shape?: any, batch_size?: integer, input_dim?: integer, activity_regularizer?: string|table, weights?: any[]}): keras.layers.Permute
layers.Permute = {}

---Each sample n times along a new axis.
---@class keras.layers.RepeatVector: keras.layers.Layer
---@overload fun(n: integer, options?: {name?: string, trainable?: boolean, dtype?: string, input_shape?: any|integer, batch_input_shape?: any, batch_size?: integer, input_dim?: integer, activity_regularizer?: string|table, weights?: any[]}): keras.layers.RepeatVector
layers.RepeatVector = {}

---Steps whose features all equal mask_value are 0 and masked.
---@class keras.layers.Masking: keras.layers.Layer
---@overload fun(options?: {mask_value?: number, name?: string, trainable?: boolean, dtype?: string, input_shape?: any|integer, batch_input_shape?: any, batch_size?: integer, input_dim?: integer, activity_regularizer?: string|table, weights?: any[]}): keras.layers.Masking
layers.Masking = {}

---Adds to the model's loss a penalty on its input.
---@class keras.layers.ActivityRegularization: keras.layers.Layer
---@overload fun(options?: {l1?: number, l2?: number, name?: string, trainable?: boolean, dtype?: string, input_shape?: any|integer, batch_input_shape?: any, batch_size?: integer, input_dim?: integer, activity_regularizer?: string|table, weights?: any[]}): keras.layers.ActivityRegularization
layers.ActivityRegularization = {}

---Marks a point where recomputation may begin; the value itself.
---@class keras.layers.RecomputationCheckpoint: keras.layers.Layer
---@overload fun(options?: {name?: string, trainable?: boolean, dtype?: string, input_shape?: any|integer, batch_input_shape?: any, batch_size?: integer, input_dim?: integer, activity_regularizer?: string|table, weights?: any[]}): keras.layers.RecomputationCheckpoint
layers.RecomputationCheckpoint = {}

---Promises that a value is equal on all replicas; the value itself.
---@class keras.layers.AssumeEqualAcrossReplicas: keras.layers.Layer
---@overload fun(options?: {inplace?: boolean, name?: string, trainable?: boolean, dtype?: string, input_shape?: any|integer, batch_input_shape?: any, batch_size?: integer, input_dim?: integer, activity_regularizer?: string|table, weights?: any[]}): keras.layers.AssumeEqualAcrossReplicas
layers.AssumeEqualAcrossReplicas = {}

---The beginning of a functional model: a placeholder with the shape of a sample.
function layers.Input(...) end

---A layer that holds another one, `layer`: own ones extend it with `call(x, {training =, mask =})`. It builds the inner layer for its own input, has its weights, and is saved with it.
---@class keras.layers.Wrapper: keras.layers.Layer
---@overload fun(layer: any|table, options?: {name?: string, trainable?: boolean, dtype?: string, input_shape?: any|integer, batch_input_shape?: any, batch_size?: integer, input_dim?: integer, activity_regularizer?: string|table, weights?: any[]}): keras.layers.Wrapper
layers.Wrapper = {}

---A function of your own as a layer.
---@class keras.layers.Lambda: keras.layers.Layer
---@overload fun(func: function, options?: {output_shape?: any, mask?: any, arguments?: table, name?: string, trainable?: boolean, dtype?: string, input_shape?: any|integer, batch_input_shape?: any, batch_size?: integer, input_dim?: integer, activity_regularizer?: string|table, weights?: any[]}): keras.layers.Lambda
layers.Lambda = {}

---An op that is applied to tensors of a functional model, such as `x * 2`; the library makes it.
---@class keras.layers.OpLambda: keras.layers.Layer
---@overload fun(op: string, options?: {name?: string, trainable?: boolean, dtype?: string, input_shape?: any|integer, batch_input_shape?: any, batch_size?: integer, input_dim?: integer, activity_regularizer?: string|table, weights?: any[]}): keras.layers.OpLambda
layers.OpLambda = {}

---A row of a table for each number.
---@class keras.layers.Embedding: keras.layers.Layer
---@overload fun(input_dim: integer, output_dim: integer, options?: {embeddings_initializer?: string|table, embeddings_regularizer?: string|table, embeddings_constraint?: string|table, mask_zero?: boolean, input_length?: integer, serialization_factor?: integer, name?: string, trainable?: boolean, dtype?: string, input_shape?: any|integer, batch_input_shape?: any, batch_size?: integer, activity_regularizer?: string|table, weights?: any[]}): keras.layers.Embedding
layers.Embedding = {}

---The number of the bin of a value: how many of the boundaries it has reached. Either the boundaries are given, or num_bins, and `adapt(data)` finds boundaries between bins of about as many values each. Of each batch of a dataset about 1 / epsilon values are kept, as in Keras. Many small batches shift the boundaries upwards. A tensor is one batch. output_mode as of IntegerLookup, without "tf_idf".
---@class keras.layers.Discretization: keras.layers.Layer
---@overload fun(options?: {bin_boundaries?: any[], num_bins?: integer, epsilon?: number, output_mode?: string, name?: string, trainable?: boolean, dtype?: string, input_shape?: any|integer, batch_input_shape?: any, batch_size?: integer, input_dim?: integer, activity_regularizer?: string|table, weights?: any[]}): keras.layers.Discretization
layers.Discretization = {}

---Class numbers as vectors of 0 and 1, or counted. With output_mode "count" a call takes count_weights, the weight of each number: `layer(x, {count_weights = w})`.
---@class keras.layers.CategoryEncoding: keras.layers.Layer
---@overload fun(num_tokens: integer, options?: {output_mode?: string, name?: string, trainable?: boolean, dtype?: string, input_shape?: any|integer, batch_input_shape?: any, batch_size?: integer, input_dim?: integer, activity_regularizer?: string|table, weights?: any[]}): keras.layers.CategoryEncoding
layers.CategoryEncoding = {}

---The number of a value in a vocabulary. Number 0 is mask_token, if there is one and output_mode is "int". Then come num_oov_indices numbers for unknown values, chosen by the value modulo their count. Then comes the vocabulary, given or learnt by `adapt(data)`, the most frequent value first. output_mode "int" gives the numbers, "one_hot" a vector of 0 and 1 for each. "multi_hot" and "count" give one vector for the values along the last axis. "tf_idf" counts each value with its weight, which `adapt` finds, or idf_weights gives. invert = true goes back from numbers to values; unknown numbers become oov_token. `get_vocabulary()`, `set_vocabulary(list)`, `vocabulary_size()`.
---@class keras.layers.IntegerLookup: keras.layers.Layer
---@overload fun(options?: {max_tokens?: integer, num_oov_indices?: integer, mask_token?: integer, oov_token?: integer, vocabulary?: any|userdata|string, invert?: boolean, output_mode?: string, pad_to_max_tokens?: boolean, idf_weights?: any[]|userdata, name?: string, trainable?: boolean, dtype?: string, input_shape?: any|integer, batch_input_shape?: any, batch_size?: integer, input_dim?: integer, activity_regularizer?: string|table, weights?: any[]}): keras.layers.IntegerLookup
layers.IntegerLookup = {}

---The number of a word in a vocabulary, which is given or learnt by `adapt(data)`: the most frequent word first. Before it come 0 for mask_token, if there is one and output_mode is "int", and num_oov_indices numbers for words that it lacks. FarmHash's fingerprint chooses among those. In other modes mask_token counts nowhere. output_mode as of IntegerLookup. Called with a string, a list, or the bytes of a text; invert = true goes back from numbers to words.
---@class keras.layers.StringLookup: keras.layers.Layer
---@overload fun(options?: {max_tokens?: integer, num_oov_indices?: integer, mask_token?: string, oov_token?: string, vocabulary?: any[]|string, invert?: boolean, output_mode?: string, pad_to_max_tokens?: boolean, idf_weights?: any[]|userdata}): keras.layers.StringLookup
layers.StringLookup = {}

---Texts as the numbers of their words: A to Z in small letters, no punctuation (standardize), split at spaces. The vocabulary is given or learnt by `adapt(data)`. 0 fills up, 1 is an unknown word. ngrams = 2 counts pairs of neighbours as words, too. output_mode "int" gives the numbers, of output_sequence_length or of the longest text. "multi_hot" and "count" give a vector for each text. "tf_idf" counts each word with its weight, which `adapt` finds, or idf_weights gives. Called with a string, a list, or the bytes of a text.
---@class keras.layers.TextVectorization: keras.layers.Layer
---@overload fun(options?: {max_tokens?: integer, standardize?: string|function, split?: string|function, ngrams?: integer|any, output_mode?: string, output_sequence_length?: integer, pad_to_max_tokens?: boolean, vocabulary?: any[]|string, idf_weights?: any[]|userdata}): keras.layers.TextVectorization
layers.TextVectorization = {}

---The bin of a word, 0 … num_bins - 1: FarmHash's 64-bit fingerprint modulo num_bins. With a salt, one integer or two, it is SipHash-2-4 with that key. A whole number is hashed as its decimal digits. With a mask_value bin 0 is for that value alone. output_mode as of IntegerLookup, without "tf_idf". Called with a string, an integer, a list of them, or a tensor of integers.
---@class keras.layers.Hashing
---@overload fun(num_bins: integer, options?: {mask_value?: string|integer, salt?: integer|any, output_mode?: string}): keras.layers.Hashing
layers.Hashing = {}

---In training, each element is 0 with probability rate; the others are scaled to keep the sum.
---@class keras.layers.Dropout: keras.layers.Layer
---@overload fun(rate: number, options?: {noise_shape?: any, seed?: integer, name?: string, trainable?: boolean, dtype?: string, input_shape?: any|integer, batch_input_shape?: any, batch_size?: integer, input_dim?: integer, activity_regularizer?: string|table, weights?: any[]}): keras.layers.Dropout
layers.Dropout = {}

---Dropout of whole channels of a sequence.
---@class keras.layers.SpatialDropout1D: keras.layers.Layer
---@overload fun(rate: number, options?: {seed?: integer, name?: string, trainable?: boolean, dtype?: string, input_shape?: any|integer, batch_input_shape?: any, batch_size?: integer, input_dim?: integer, activity_regularizer?: string|table, weights?: any[]}): keras.layers.SpatialDropout1D
layers.SpatialDropout1D = {}

---Dropout of whole channels of a picture.
---@class keras.layers.SpatialDropout2D: keras.layers.Layer
---@overload fun(rate: number, options?: {seed?: integer, data_format?: string, name?: string, trainable?: boolean, dtype?: string, input_shape?: any|integer, batch_input_shape?: any, batch_size?: integer, input_dim?: integer, activity_regularizer?: string|table, weights?: any[]}): keras.layers.SpatialDropout2D
layers.SpatialDropout2D = {}

---Dropout of whole channels of a volume.
---@class keras.layers.SpatialDropout3D: keras.layers.Layer
---@overload fun(rate: number, options?: {seed?: integer, data_format?: string, name?: string, trainable?: boolean, dtype?: string, input_shape?: any|integer, batch_input_shape?: any, batch_size?: integer, input_dim?: integer, activity_regularizer?: string|table, weights?: any[]}): keras.layers.SpatialDropout3D
layers.SpatialDropout3D = {}

---In training, adds normally distributed noise.
---@class keras.layers.GaussianNoise: keras.layers.Layer
---@overload fun(stddev: number, options?: {seed?: integer, name?: string, trainable?: boolean, dtype?: string, input_shape?: any|integer, batch_input_shape?: any, batch_size?: integer, input_dim?: integer, activity_regularizer?: string|table, weights?: any[]}): keras.layers.GaussianNoise
layers.GaussianNoise = {}

---In training, multiplies by normally distributed noise around 1.
---@class keras.layers.GaussianDropout: keras.layers.Layer
---@overload fun(rate: number, options?: {seed?: integer, name?: string, trainable?: boolean, dtype?: string, input_shape?: any|integer, batch_input_shape?: any, batch_size?: integer, input_dim?: integer, activity_regularizer?: string|table, weights?: any[]}): keras.layers.GaussianDropout
layers.GaussianDropout = {}

---Dropout that keeps mean and variance of SELU's outputs.
---@class keras.layers.AlphaDropout: keras.layers.Layer
---@overload fun(rate: number, options?: {noise_shape?: any, seed?: integer, name?: string, trainable?: boolean, dtype?: string, input_shape?: any|integer, batch_input_shape?: any, batch_size?: integer, input_dim?: integer, activity_regularizer?: string|table, weights?: any[]}): keras.layers.AlphaDropout
layers.AlphaDropout = {}

---max(x, 0), with a slope below the threshold and a greatest value.
---@class keras.layers.ReLU: keras.layers.Layer
---@overload fun(options?: {max_value?: number, negative_slope?: number, threshold?: number, name?: string, trainable?: boolean, dtype?: string, input_shape?: any|integer, batch_input_shape?: any, batch_size?: integer, input_dim?: integer, activity_regularizer?: string|table, weights?: any[]}): keras.layers.ReLU
layers.ReLU = {}

---x above 0, alpha x below; alpha is 0.3 here (0.2 in the function).
---@class keras.layers.LeakyReLU: keras.layers.Layer
---@overload fun(options?: {alpha?: number, name?: string, trainable?: boolean, dtype?: string, input_shape?: any|integer, batch_input_shape?: any, batch_size?: integer, input_dim?: integer, activity_regularizer?: string|table, weights?: any[]}): keras.layers.LeakyReLU
layers.LeakyReLU = {}

---x above 0, alpha x below, alpha being learned for each element (or shared along shared_axes).
---@class keras.layers.PReLU: keras.layers.Layer
---@overload fun(options?: {alpha_initializer?: string|table, alpha_regularizer?: string|table, alpha_constraint?: string|table, shared_axes?: any|integer, name?: string, trainable?: boolean, dtype?: string, input_shape?: any|integer, batch_input_shape?: any, batch_size?: integer, input_dim?: integer, activity_regularizer?: string|table, weights?: any[]}): keras.layers.PReLU
layers.PReLU = {}

---x above 0, alpha (e^x - 1) below.
---@class keras.layers.ELU: keras.layers.Layer
---@overload fun(options?: {alpha?: number, name?: string, trainable?: boolean, dtype?: string, input_shape?: any|integer, batch_input_shape?: any, batch_size?: integer, input_dim?: integer, activity_regularizer?: string|table, weights?: any[]}): keras.layers.ELU
layers.ELU = {}

---x above theta, else 0.
---@class keras.layers.ThresholdedReLU: keras.layers.Layer
---@overload fun(options?: {theta?: number, name?: string, trainable?: boolean, dtype?: string, input_shape?: any|integer, batch_input_shape?: any, batch_size?: integer, input_dim?: integer, activity_regularizer?: string|table, weights?: any[]}): keras.layers.ThresholdedReLU
layers.ThresholdedReLU = {}

---e^x divided by its sum along an axis (or several); a mask leaves elements out: one of x's shape, or of steps.
---@class keras.layers.Softmax: keras.layers.Layer
---@overload fun(options?: {axis?: integer|any, name?: string, trainable?: boolean, dtype?: string, input_shape?: any|integer, batch_input_shape?: any, batch_size?: integer, input_dim?: integer, activity_regularizer?: string|table, weights?: any[]}): keras.layers.Softmax
layers.Softmax = {}

---Filters over a sequence: a product-sum of each window, one number a filter.
---@class keras.layers.Conv1D: keras.layers.Layer
---@overload fun(filters: integer, kernel_size: integer|any[], options?: {strides?: integer|any[], padding?: string, data_format?: string, dilation_rate?: integer|any[], groups?: integer, activation?: string|function, use_bias?: boolean, kernel_initializer?: string|table, bias_initializer?: string|table, kernel_regularizer?: string|table, bias_regularizer?: string|table, kernel_constraint?: string|table, bias_constraint?: string|table, name?: string, trainable?: boolean, dtype?: string, input_shape?: any|integer, batch_input_shape?: any, batch_size?: integer, input_dim?: integer, activity_regularizer?: string|table, weights?: any[]}): keras.layers.Conv1D
layers.Conv1D = {}

---Filters over pictures.
---@class keras.layers.Conv2D: keras.layers.Layer
---@overload fun(filters: integer, kernel_size: integer|any[], options?: {strides?: integer|any[], padding?: string, data_format?: string, dilation_rate?: integer|any[], groups?: integer, activation?: string|function, use_bias?: boolean, kernel_initializer?: string|table, bias_initializer?: string|table, kernel_regularizer?: string|table, bias_regularizer?: string|table, kernel_constraint?: string|table, bias_constraint?: string|table, name?: string, trainable?: boolean, dtype?: string, input_shape?: any|integer, batch_input_shape?: any, batch_size?: integer, input_dim?: integer, activity_regularizer?: string|table, weights?: any[]}): keras.layers.Conv2D
layers.Conv2D = {}

---Filters over volumes.
---@class keras.layers.Conv3D: keras.layers.Layer
---@overload fun(filters: integer, kernel_size: integer|any[], options?: {strides?: integer|any[], padding?: string, data_format?: string, dilation_rate?: integer|any[], groups?: integer, activation?: string|function, use_bias?: boolean, kernel_initializer?: string|table, bias_initializer?: string|table, kernel_regularizer?: string|table, bias_regularizer?: string|table, kernel_constraint?: string|table, bias_constraint?: string|table, name?: string, trainable?: boolean, dtype?: string, input_shape?: any|integer, batch_input_shape?: any, batch_size?: integer, input_dim?: integer, activity_regularizer?: string|table, weights?: any[]}): keras.layers.Conv3D
layers.Conv3D = {}

---A depthwise convolution of a sequence, then one that mixes channels.
---@class keras.layers.SeparableConv1D: keras.layers.Layer
---@overload fun(filters: integer, kernel_size: integer|any[], options?: {strides?: integer|any[], padding?: string, data_format?: string, dilation_rate?: integer|any[], depth_multiplier?: integer, activation?: string|function, use_bias?: boolean, depthwise_initializer?: string|table, pointwise_initializer?: string|table, bias_initializer?: string|table, depthwise_regularizer?: string|table, pointwise_regularizer?: string|table, bias_regularizer?: string|table, depthwise_constraint?: string|table, pointwise_constraint?: string|table, bias_constraint?: string|table, name?: string, trainable?: boolean, dtype?: string, input_shape?: any|integer, batch_input_shape?: any, batch_size?: integer, input_dim?: integer, activity_regularizer?: string|table, weights?: any[]}): keras.layers.SeparableConv1D
layers.SeparableConv1D = {}

---A depthwise convolution, then one that mixes channels.
---@class keras.layers.SeparableConv2D: keras.layers.Layer
---@overload fun(filters: integer, kernel_size: integer|any[], options?: {strides?: integer|any[], padding?: string, data_format?: string, dilation_rate?: integer|any[], depth_multiplier?: integer, activation?: string|function, use_bias?: boolean, depthwise_initializer?: string|table, pointwise_initializer?: string|table, bias_initializer?: string|table, depthwise_regularizer?: string|table, pointwise_regularizer?: string|table, bias_regularizer?: string|table, depthwise_constraint?: string|table, pointwise_constraint?: string|table, bias_constraint?: string|table, name?: string, trainable?: boolean, dtype?: string, input_shape?: any|integer, batch_input_shape?: any, batch_size?: integer, input_dim?: integer, activity_regularizer?: string|table, weights?: any[]}): keras.layers.SeparableConv2D
layers.SeparableConv2D = {}

---Each channel of a sequence convolved by itself.
---@class keras.layers.DepthwiseConv1D: keras.layers.Layer
---@overload fun(kernel_size: integer|any[], options?: {strides?: integer|any[], padding?: string, depth_multiplier?: integer, data_format?: string, dilation_rate?: integer|any[], activation?: string|function, use_bias?: boolean, depthwise_initializer?: string|table, bias_initializer?: string|table, depthwise_regularizer?: string|table, bias_regularizer?: string|table, depthwise_constraint?: string|table, bias_constraint?: string|table, name?: string, trainable?: boolean, dtype?: string, input_shape?: any|integer, batch_input_shape?: any, batch_size?: integer, input_dim?: integer, activity_regularizer?: string|table, weights?: any[]}): keras.layers.DepthwiseConv1D
layers.DepthwiseConv1D = {}

---Each channel convolved by itself.
---@class keras.layers.DepthwiseConv2D: keras.layers.Layer
---@overload fun(kernel_size: integer|any[], options?: {strides?: integer|any[], padding?: string, depth_multiplier?: integer, data_format?: string, dilation_rate?: integer|any[], activation?: string|function, use_bias?: boolean, depthwise_initializer?: string|table, bias_initializer?: string|table, depthwise_regularizer?: string|table, bias_regularizer?: string|table, depthwise_constraint?: string|table, bias_constraint?: string|table, name?: string, trainable?: boolean, dtype?: string, input_shape?: any|integer, batch_input_shape?: any, batch_size?: integer, input_dim?: integer, activity_regularizer?: string|table, weights?: any[]}): keras.layers.DepthwiseConv2D
layers.DepthwiseConv2D = {}

---The adjoint of Conv1D: from small to large.
---@class keras.layers.Conv1DTranspose: keras.layers.Layer
---@overload fun(filters: integer, kernel_size: integer|any[], options?: {strides?: integer|any[], padding?: string, output_padding?: integer|any[], data_format?: string, dilation_rate?: integer|any[], activation?: string|function, use_bias?: boolean, kernel_initializer?: string|table, bias_initializer?: string|table, kernel_regularizer?: string|table, bias_regularizer?: string|table, kernel_constraint?: string|table, bias_constraint?: string|table, name?: string, trainable?: boolean, dtype?: string, input_shape?: any|integer, batch_input_shape?: any, batch_size?: integer, input_dim?: integer, activity_regularizer?: string|table, weights?: any[]}): keras.layers.Conv1DTranspose
layers.Conv1DTranspose = {}

---The adjoint of Conv2D.
---@class keras.layers.Conv2DTranspose: keras.layers.Layer
---@overload fun(filters: integer, kernel_size: integer|any[], options?: {strides?: integer|any[], padding?: string, output_padding?: integer|any[], data_format?: string, dilation_rate?: integer|any[], activation?: string|function, use_bias?: boolean, kernel_initializer?: string|table, bias_initializer?: string|table, kernel_regularizer?: string|table, bias_regularizer?: string|table, kernel_constraint?: string|table, bias_constraint?: string|table, name?: string, trainable?: boolean, dtype?: string, input_shape?: any|integer, batch_input_shape?: any, batch_size?: integer, input_dim?: integer, activity_regularizer?: string|table, weights?: any[]}): keras.layers.Conv2DTranspose
layers.Conv2DTranspose = {}

---The adjoint of Conv3D.
---@class keras.layers.Conv3DTranspose: keras.layers.Layer
---@overload fun(filters: integer, kernel_size: integer|any[], options?: {strides?: integer|any[], padding?: string, output_padding?: integer|any[], data_format?: string, dilation_rate?: integer|any[], activation?: string|function, use_bias?: boolean, kernel_initializer?: string|table, bias_initializer?: string|table, kernel_regularizer?: string|table, bias_regularizer?: string|table, kernel_constraint?: string|table, bias_constraint?: string|table, name?: string, trainable?: boolean, dtype?: string, input_shape?: any|integer, batch_input_shape?: any, batch_size?: integer, input_dim?: integer, activity_regularizer?: string|table, weights?: any[]}): keras.layers.Conv3DTranspose
layers.Conv3DTranspose = {}

---Zeros at both ends.
---@class keras.layers.ZeroPadding1D: keras.layers.Layer
---@overload fun(options?: {padding?: integer|any[], data_format?: string, name?: string, trainable?: boolean, dtype?: string, input_shape?: any|integer, batch_input_shape?: any, batch_size?: integer, input_dim?: integer, activity_regularizer?: string|table, weights?: any[]}): keras.layers.ZeroPadding1D
layers.ZeroPadding1D = {}

---Zeros around pictures; `{{top, bottom}, {left, right}}` says where.
---@class keras.layers.ZeroPadding2D: keras.layers.Layer
---@overload fun(options?: {padding?: integer|any[], data_format?: string, name?: string, trainable?: boolean, dtype?: string, input_shape?: any|integer, batch_input_shape?: any, batch_size?: integer, input_dim?: integer, activity_regularizer?: string|table, weights?: any[]}): keras.layers.ZeroPadding2D
layers.ZeroPadding2D = {}

---Zeros around volumes.
---@class keras.layers.ZeroPadding3D: keras.layers.Layer
---@overload fun(options?: {padding?: integer|any[], data_format?: string, name?: string, trainable?: boolean, dtype?: string, input_shape?: any|integer, batch_input_shape?: any, batch_size?: integer, input_dim?: integer, activity_regularizer?: string|table, weights?: any[]}): keras.layers.ZeroPadding3D
layers.ZeroPadding3D = {}

---Cuts off both ends.
---@class keras.layers.Cropping1D: keras.layers.Layer
---@overload fun(options?: {cropping?: integer|any[], data_format?: string, name?: string, trainable?: boolean, dtype?: string, input_shape?: any|integer, batch_input_shape?: any, batch_size?: integer, input_dim?: integer, activity_regularizer?: string|table, weights?: any[]}): keras.layers.Cropping1D
layers.Cropping1D = {}

---Cuts off the edges of pictures.
---@class keras.layers.Cropping2D: keras.layers.Layer
---@overload fun(options?: {cropping?: integer|any[], data_format?: string, name?: string, trainable?: boolean, dtype?: string, input_shape?: any|integer, batch_input_shape?: any, batch_size?: integer, input_dim?: integer, activity_regularizer?: string|table, weights?: any[]}): keras.layers.Cropping2D
layers.Cropping2D = {}

---Cuts off the edges of volumes.
---@class keras.layers.Cropping3D: keras.layers.Layer
---@overload fun(options?: {cropping?: integer|any[], data_format?: string, name?: string, trainable?: boolean, dtype?: string, input_shape?: any|integer, batch_input_shape?: any, batch_size?: integer, input_dim?: integer, activity_regularizer?: string|table, weights?: any[]}): keras.layers.Cropping3D
layers.Cropping3D = {}

---Each step several times.
---@class keras.layers.UpSampling1D: keras.layers.Layer
---@overload fun(options?: {size?: integer|any[], name?: string, trainable?: boolean, dtype?: string, input_shape?: any|integer, batch_input_shape?: any, batch_size?: integer, input_dim?: integer, activity_regularizer?: string|table, weights?: any[]}): keras.layers.UpSampling1D
layers.UpSampling1D = {}

---Pictures enlarged, by repeating or bilinearly.
---@class keras.layers.UpSampling2D: keras.layers.Layer
---@overload fun(options?: {size?: integer|any[], data_format?: string, interpolation?: string, name?: string, trainable?: boolean, dtype?: string, input_shape?: any|integer, batch_input_shape?: any, batch_size?: integer, input_dim?: integer, activity_regularizer?: string|table, weights?: any[]}): keras.layers.UpSampling2D
layers.UpSampling2D = {}

---Volumes enlarged by repeating.
---@class keras.layers.UpSampling3D: keras.layers.Layer
---@overload fun(options?: {size?: integer|any[], data_format?: string, name?: string, trainable?: boolean, dtype?: string, input_shape?: any|integer, batch_input_shape?: any, batch_size?: integer, input_dim?: integer, activity_regularizer?: string|table, weights?: any[]}): keras.layers.UpSampling3D
layers.UpSampling3D = {}

---Conv1D with a kernel of its own at each position.
---@class keras.layers.LocallyConnected1D: keras.layers.Layer
---@overload fun(filters: integer, kernel_size: integer|any[], options?: {strides?: integer|any[], padding?: string, data_format?: string, activation?: string|function, use_bias?: boolean, kernel_initializer?: string|table, bias_initializer?: string|table, kernel_regularizer?: string|table, bias_regularizer?: string|table, kernel_constraint?: string|table, bias_constraint?: string|table, implementation?: integer, name?: string, trainable?: boolean, dtype?: string, input_shape?: any|integer, batch_input_shape?: any, batch_size?: integer, input_dim?: integer, activity_regularizer?: string|table, weights?: any[]}): keras.layers.LocallyConnected1D
layers.LocallyConnected1D = {}

---Conv2D with a kernel of its own at each position.
---@class keras.layers.LocallyConnected2D: keras.layers.Layer
---@overload fun(filters: integer, kernel_size: integer|any[], options?: {strides?: integer|any[], padding?: string, data_format?: string, activation?: string|function, use_bias?: boolean, kernel_initializer?: string|table, bias_initializer?: string|table, kernel_regularizer?: string|table, bias_regularizer?: string|table, kernel_constraint?: string|table, bias_constraint?: string|table, implementation?: integer, name?: string, trainable?: boolean, dtype?: string, input_shape?: any|integer, batch_input_shape?: any, batch_size?: integer, input_dim?: integer, activity_regularizer?: string|table, weights?: any[]}): keras.layers.LocallyConnected2D
layers.LocallyConnected2D = {}

---The greatest of each window.
---@class keras.layers.MaxPooling1D: keras.layers.Layer
---@overload fun(options?: {pool_size?: integer|any, strides?: integer|any, padding?: string, data_format?: string, name?: string, trainable?: boolean, dtype?: string, input_shape?: any|integer, batch_input_shape?: any, batch_size?: integer, input_dim?: integer, activity_regularizer?: string|table, weights?: any[]}): keras.layers.MaxPooling1D
layers.MaxPooling1D = {}

---The greatest of each window.
---@class keras.layers.MaxPooling2D: keras.layers.Layer
---@overload fun(options?: {pool_size?: integer|any, strides?: integer|any, padding?: string, data_format?: string, name?: string, trainable?: boolean, dtype?: string, input_shape?: any|integer, batch_input_shape?: any, batch_size?: integer, input_dim?: integer, activity_regularizer?: string|table, weights?: any[]}): keras.layers.MaxPooling2D
layers.MaxPooling2D = {}

---The greatest of each window.
---@class keras.layers.MaxPooling3D: keras.layers.Layer
---@overload fun(options?: {pool_size?: integer|any, strides?: integer|any, padding?: string, data_format?: string, name?: string, trainable?: boolean, dtype?: string, input_shape?: any|integer, batch_input_shape?: any, batch_size?: integer, input_dim?: integer, activity_regularizer?: string|table, weights?: any[]}): keras.layers.MaxPooling3D
layers.MaxPooling3D = {}

---The mean of each window.
---@class keras.layers.AveragePooling1D: keras.layers.Layer
---@overload fun(options?: {pool_size?: integer|any, strides?: integer|any, padding?: string, data_format?: string, name?: string, trainable?: boolean, dtype?: string, input_shape?: any|integer, batch_input_shape?: any, batch_size?: integer, input_dim?: integer, activity_regularizer?: string|table, weights?: any[]}): keras.layers.AveragePooling1D
layers.AveragePooling1D = {}

---The mean of each window.
---@class keras.layers.AveragePooling2D: keras.layers.Layer
---@overload fun(options?: {pool_size?: integer|any, strides?: integer|any, padding?: string, data_format?: string, name?: string, trainable?: boolean, dtype?: string, input_shape?: any|integer, batch_input_shape?: any, batch_size?: integer, input_dim?: integer, activity_regularizer?: string|table, weights?: any[]}): keras.layers.AveragePooling2D
layers.AveragePooling2D = {}

---The mean of each window.
---@class keras.layers.AveragePooling3D: keras.layers.Layer
---@overload fun(options?: {pool_size?: integer|any, strides?: integer|any, padding?: string, data_format?: string, name?: string, trainable?: boolean, dtype?: string, input_shape?: any|integer, batch_input_shape?: any, batch_size?: integer, input_dim?: integer, activity_regularizer?: string|table, weights?: any[]}): keras.layers.AveragePooling3D
layers.AveragePooling3D = {}

---The greatest over all steps.
---@class keras.layers.GlobalMaxPooling1D: keras.layers.Layer
---@overload fun(options?: {data_format?: string, keepdims?: boolean, name?: string, trainable?: boolean, dtype?: string, input_shape?: any|integer, batch_input_shape?: any, batch_size?: integer, input_dim?: integer, activity_regularizer?: string|table, weights?: any[]}): keras.layers.GlobalMaxPooling1D
layers.GlobalMaxPooling1D = {}

---The greatest over each picture.
---@class keras.layers.GlobalMaxPooling2D: keras.layers.Layer
---@overload fun(options?: {data_format?: string, keepdims?: boolean, name?: string, trainable?: boolean, dtype?: string, input_shape?: any|integer, batch_input_shape?: any, batch_size?: integer, input_dim?: integer, activity_regularizer?: string|table, weights?: any[]}): keras.layers.GlobalMaxPooling2D
layers.GlobalMaxPooling2D = {}

---The greatest over each volume.
---@class keras.layers.GlobalMaxPooling3D: keras.layers.Layer
---@overload fun(options?: {data_format?: string, keepdims?: boolean, name?: string, trainable?: boolean, dtype?: string, input_shape?: any|integer, batch_input_shape?: any, batch_size?: integer, input_dim?: integer, activity_regularizer?: string|table, weights?: any[]}): keras.layers.GlobalMaxPooling3D
layers.GlobalMaxPooling3D = {}

---The mean over all steps; a mask leaves steps out.
---@class keras.layers.GlobalAveragePooling1D: keras.layers.Layer
---@overload fun(options?: {data_format?: string, keepdims?: boolean, name?: string, trainable?: boolean, dtype?: string, input_shape?: any|integer, batch_input_shape?: any, batch_size?: integer, input_dim?: integer, activity_regularizer?: string|table, weights?: any[]}): keras.layers.GlobalAveragePooling1D
layers.GlobalAveragePooling1D = {}

---The mean over each picture.
---@class keras.layers.GlobalAveragePooling2D: keras.layers.Layer
---@overload fun(options?: {data_format?: string, keepdims?: boolean, name?: string, trainable?: boolean, dtype?: string, input_shape?: any|integer, batch_input_shape?: any, batch_size?: integer, input_dim?: integer, activity_regularizer?: string|table, weights?: any[]}): keras.layers.GlobalAveragePooling2D
layers.GlobalAveragePooling2D = {}

---The mean over each volume.
---@class keras.layers.GlobalAveragePooling3D: keras.layers.Layer
---@overload fun(options?: {data_format?: string, keepdims?: boolean, name?: string, trainable?: boolean, dtype?: string, input_shape?: any|integer, batch_input_shape?: any, batch_size?: integer, input_dim?: integer, activity_regularizer?: string|table, weights?: any[]}): keras.layers.GlobalAveragePooling3D
layers.GlobalAveragePooling3D = {}

---Normalises by mean and variance of the batch in training, otherwise by their moving averages.
---@class keras.layers.BatchNormalization: keras.layers.Layer
---@overload fun(options?: {axis?: integer|any, momentum?: number, epsilon?: number, center?: boolean, scale?: boolean, beta_initializer?: string|table, gamma_initializer?: string|table, moving_mean_initializer?: string|table, moving_variance_initializer?: string|table, beta_regularizer?: string|table, gamma_regularizer?: string|table, beta_constraint?: string|table, gamma_constraint?: string|table, fused?: boolean, name?: string, trainable?: boolean, dtype?: string, input_shape?: any|integer, batch_input_shape?: any, batch_size?: integer, input_dim?: integer, activity_regularizer?: string|table, weights?: any[]}): keras.layers.BatchNormalization
layers.BatchNormalization = {}

---Normalises by mean and variance over axes of each sample.
---@class keras.layers.LayerNormalization: keras.layers.Layer
---@overload fun(options?: {axis?: integer|any, epsilon?: number, center?: boolean, scale?: boolean, beta_initializer?: string|table, gamma_initializer?: string|table, beta_regularizer?: string|table, gamma_regularizer?: string|table, beta_constraint?: string|table, gamma_constraint?: string|table, name?: string, trainable?: boolean, dtype?: string, input_shape?: any|integer, batch_input_shape?: any, batch_size?: integer, input_dim?: integer, activity_regularizer?: string|table, weights?: any[]}): keras.layers.LayerNormalization
layers.LayerNormalization = {}

---Normalises groups of channels by their mean and variance over space, each sample by itself.
---@class keras.layers.GroupNormalization: keras.layers.Layer
---@overload fun(options?: {groups?: integer, axis?: integer, epsilon?: number, channels_axis?: integer, strided_channel_grouping?: boolean, center?: boolean, scale?: boolean, beta_initializer?: string|table, gamma_initializer?: string|table, beta_regularizer?: string|table, gamma_regularizer?: string|table, beta_constraint?: string|table, gamma_constraint?: string|table, name?: string, trainable?: boolean, dtype?: string, input_shape?: any|integer, batch_input_shape?: any, batch_size?: integer, input_dim?: integer, activity_regularizer?: string|table, weights?: any[]}): keras.layers.GroupNormalization
layers.GroupNormalization = {}

---Normalises each channel of each sample by its mean and variance over space.
---@class keras.layers.InstanceNormalization: keras.layers.Layer
---@overload fun(options?: {channels_axis?: integer, epsilon?: number, center?: boolean, scale?: boolean, beta_initializer?: string|table, gamma_initializer?: string|table, beta_regularizer?: string|table, gamma_regularizer?: string|table, beta_constraint?: string|table, gamma_constraint?: string|table, name?: string, trainable?: boolean, dtype?: string, input_shape?: any|integer, batch_input_shape?: any, batch_size?: integer, input_dim?: integer, activity_regularizer?: string|table, weights?: any[]}): keras.layers.InstanceNormalization
layers.InstanceNormalization = {}

---Scales each vector along an axis to length 1.
---@class keras.layers.UnitNormalization: keras.layers.Layer
---@overload fun(options?: {axis?: integer|any, name?: string, trainable?: boolean, dtype?: string, input_shape?: any|integer, batch_input_shape?: any, batch_size?: integer, input_dim?: integer, activity_regularizer?: string|table, weights?: any[]}): keras.layers.UnitNormalization
layers.UnitNormalization = {}

---Shifts and scales features by given or adapted mean and variance.
---@class keras.layers.Normalization: keras.layers.Layer
---@overload fun(options?: {axis?: integer|any, mean?: any, variance?: any, name?: string, trainable?: boolean, dtype?: string, input_shape?: any|integer, batch_input_shape?: any, batch_size?: integer, input_dim?: integer, activity_regularizer?: string|table, weights?: any[]}): keras.layers.Normalization
layers.Normalization = {}

---One step of SimpleRNN: called with x and a list of states.
---@class keras.layers.SimpleRNNCell: keras.layers.Layer
---@overload fun(units: integer, options?: {activation?: string|function, use_bias?: boolean, kernel_initializer?: string|table, recurrent_initializer?: string|table, bias_initializer?: string|table, kernel_regularizer?: string|table, recurrent_regularizer?: string|table, bias_regularizer?: string|table, kernel_constraint?: string|table, recurrent_constraint?: string|table, bias_constraint?: string|table, dropout?: number, recurrent_dropout?: number, seed?: integer, name?: string, trainable?: boolean, dtype?: string, input_shape?: any|integer, batch_input_shape?: any, batch_size?: integer, input_dim?: integer, activity_regularizer?: string|table, weights?: any[]}): keras.layers.SimpleRNNCell
layers.SimpleRNNCell = {}

---One step of LSTM: called with x and the states {h, c}.
---@class keras.layers.LSTMCell: keras.layers.Layer
---@overload fun(units: integer, options?: {activation?: string|function, recurrent_activation?: string|function, use_bias?: boolean, kernel_initializer?: string|table, recurrent_initializer?: string|table, bias_initializer?: string|table, unit_forget_bias?: boolean, kernel_regularizer?: string|table, recurrent_regularizer?: string|table, bias_regularizer?: string|table, kernel_constraint?: string|table, recurrent_constraint?: string|table, bias_constraint?: string|table, dropout?: number, recurrent_dropout?: number, seed?: integer, name?: string, trainable?: boolean, dtype?: string, input_shape?: any|integer, batch_input_shape?: any, batch_size?: integer, input_dim?: integer, activity_regularizer?: string|table, weights?: any[]}): keras.layers.LSTMCell
layers.LSTMCell = {}

---One step of GRU: called with x and the states {h}.
---@class keras.layers.GRUCell: keras.layers.Layer
---@overload fun(units: integer, options?: {activation?: string|function, recurrent_activation?: string|function, use_bias?: boolean, kernel_initializer?: string|table, recurrent_initializer?: string|table, bias_initializer?: string|table, reset_after?: boolean, kernel_regularizer?: string|table, recurrent_regularizer?: string|table, bias_regularizer?: string|table, kernel_constraint?: string|table, recurrent_constraint?: string|table, bias_constraint?: string|table, dropout?: number, recurrent_dropout?: number, seed?: integer, name?: string, trainable?: boolean, dtype?: string, input_shape?: any|integer, batch_input_shape?: any, batch_size?: integer, input_dim?: integer, activity_regularizer?: string|table, weights?: any[]}): keras.layers.GRUCell
layers.GRUCell = {}

---Own cells for RNN extend it. Fields: `state_size` (units; of several states a list of units or shapes) and `output_size`. `call(x, states, {training =})` gives the output and a list of the new states. States begin with zeros.
---@class keras.layers.AbstractRNNCell: keras.layers.Layer
---@overload fun(options?: {name?: string, trainable?: boolean, dtype?: string, input_shape?: any|integer, batch_input_shape?: any, batch_size?: integer, input_dim?: integer, activity_regularizer?: string|table, weights?: any[]}): keras.layers.AbstractRNNCell
layers.AbstractRNNCell = {}

---Cells one above the other.
---@class keras.layers.StackedRNNCells: keras.layers.Layer
---@overload fun(cells: any[], options?: {name?: string, trainable?: boolean, dtype?: string, input_shape?: any|integer, batch_input_shape?: any, batch_size?: integer, input_dim?: integer, activity_regularizer?: string|table, weights?: any[]}): keras.layers.StackedRNNCells
layers.StackedRNNCells = {}

---h ← tanh(x·kernel + h·recurrent_kernel + bias), step by step.
---@class keras.layers.SimpleRNN: keras.layers.Layer
---@overload fun(units: integer, options?: {activation?: string|function, use_bias?: boolean, kernel_initializer?: string|table, recurrent_initializer?: string|table, bias_initializer?: string|table, kernel_regularizer?: string|table, recurrent_regularizer?: string|table, bias_regularizer?: string|table, kernel_constraint?: string|table, recurrent_constraint?: string|table, bias_constraint?: string|table, dropout?: number, recurrent_dropout?: number, seed?: integer, return_sequences?: boolean, return_state?: boolean, go_backwards?: boolean, stateful?: boolean, unroll?: boolean, time_major?: boolean, zero_output_for_mask?: boolean, name?: string, trainable?: boolean, dtype?: string, input_shape?: any|integer, batch_input_shape?: any, batch_size?: integer, input_dim?: integer, activity_regularizer?: string|table, weights?: any[]}): keras.layers.SimpleRNN
layers.SimpleRNN = {}

---Long short-term memory; gates in the order i, f, c, o.
---@class keras.layers.LSTM: keras.layers.Layer
---@overload fun(units: integer, options?: {activation?: string|function, recurrent_activation?: string|function, use_bias?: boolean, kernel_initializer?: string|table, recurrent_initializer?: string|table, bias_initializer?: string|table, unit_forget_bias?: boolean, kernel_regularizer?: string|table, recurrent_regularizer?: string|table, bias_regularizer?: string|table, kernel_constraint?: string|table, recurrent_constraint?: string|table, bias_constraint?: string|table, dropout?: number, recurrent_dropout?: number, seed?: integer, return_sequences?: boolean, return_state?: boolean, go_backwards?: boolean, stateful?: boolean, unroll?: boolean, time_major?: boolean, zero_output_for_mask?: boolean, implementation?: integer, dropout_seed?: integer, partials_dtype?: string, options?: table, options_bwd?: table, name?: string, trainable?: boolean, dtype?: string, input_shape?: any|integer, batch_input_shape?: any, batch_size?: integer, input_dim?: integer, activity_regularizer?: string|table, weights?: any[]}): keras.layers.LSTM
layers.LSTM = {}

---Gated recurrent unit; gates in the order z, r, h; `reset_after` as in cuDNN.
---@class keras.layers.GRU: keras.layers.Layer
---@overload fun(units: integer, options?: {activation?: string|function, recurrent_activation?: string|function, use_bias?: boolean, kernel_initializer?: string|table, recurrent_initializer?: string|table, bias_initializer?: string|table, reset_after?: boolean, kernel_regularizer?: string|table, recurrent_regularizer?: string|table, bias_regularizer?: string|table, kernel_constraint?: string|table, recurrent_constraint?: string|table, bias_constraint?: string|table, dropout?: number, recurrent_dropout?: number, seed?: integer, return_sequences?: boolean, return_state?: boolean, go_backwards?: boolean, stateful?: boolean, unroll?: boolean, time_major?: boolean, zero_output_for_mask?: boolean, implementation?: integer, dropout_seed?: integer, partials_dtype?: string, options?: table, options_bwd?: table, name?: string, trainable?: boolean, dtype?: string, input_shape?: any|integer, batch_input_shape?: any, batch_size?: integer, input_dim?: integer, activity_regularizer?: string|table, weights?: any[]}): keras.layers.GRU
layers.GRU = {}

---Another name of LSTM.
---@class keras.layers.PopnnLSTM: keras.layers.Layer
---@overload fun(units: integer, options?: {activation?: string|function, recurrent_activation?: string|function, use_bias?: boolean, kernel_initializer?: string|table, recurrent_initializer?: string|table, bias_initializer?: string|table, unit_forget_bias?: boolean, kernel_regularizer?: string|table, recurrent_regularizer?: string|table, bias_regularizer?: string|table, kernel_constraint?: string|table, recurrent_constraint?: string|table, bias_constraint?: string|table, dropout?: number, recurrent_dropout?: number, seed?: integer, return_sequences?: boolean, return_state?: boolean, go_backwards?: boolean, stateful?: boolean, unroll?: boolean, time_major?: boolean, zero_output_for_mask?: boolean, implementation?: integer, dropout_seed?: integer, partials_dtype?: string, options?: table, options_bwd?: table, name?: string, trainable?: boolean, dtype?: string, input_shape?: any|integer, batch_input_shape?: any, batch_size?: integer, input_dim?: integer, activity_regularizer?: string|table, weights?: any[]}): keras.layers.PopnnLSTM
layers.PopnnLSTM = {}

---Another name of GRU.
---@class keras.layers.PopnnGRU: keras.layers.Layer
---@overload fun(units: integer, options?: {activation?: string|function, recurrent_activation?: string|function, use_bias?: boolean, kernel_initializer?: string|table, recurrent_initializer?: string|table, bias_initializer?: string|table, reset_after?: boolean, kernel_regularizer?: string|table, recurrent_regularizer?: string|table, bias_regularizer?: string|table, kernel_constraint?: string|table, recurrent_constraint?: string|table, bias_constraint?: string|table, dropout?: number, recurrent_dropout?: number, seed?: integer, return_sequences?: boolean, return_state?: boolean, go_backwards?: boolean, stateful?: boolean, unroll?: boolean, time_major?: boolean, zero_output_for_mask?: boolean, implementation?: integer, dropout_seed?: integer, partials_dtype?: string, options?: table, options_bwd?: table, name?: string, trainable?: boolean, dtype?: string, input_shape?: any|integer, batch_input_shape?: any, batch_size?: integer, input_dim?: integer, activity_regularizer?: string|table, weights?: any[]}): keras.layers.PopnnGRU
layers.PopnnGRU = {}

---A layer that applies a cell (a layer called with x and a list of states) to each step of a sequence.
---@class keras.layers.RNN: keras.layers.Layer
---@overload fun(cell: table|any[]|function, options?: {return_sequences?: boolean, return_state?: boolean, go_backwards?: boolean, stateful?: boolean, unroll?: boolean, time_major?: boolean, zero_output_for_mask?: boolean, name?: string, trainable?: boolean, dtype?: string, input_shape?: any|integer, batch_input_shape?: any, batch_size?: integer, input_dim?: integer, activity_regularizer?: string|table, weights?: any[]}): keras.layers.RNN
layers.RNN = {}

---A recurrent layer forwards and a copy of it backwards; merge_mode: concat, sum, mul, ave, or "none" for both.
---@class keras.layers.Bidirectional: keras.layers.Layer
---@overload fun(layer: any|table, options?: {merge_mode?: string, backward_layer?: table, name?: string, trainable?: boolean, dtype?: string, input_shape?: any|integer, batch_input_shape?: any, batch_size?: integer, input_dim?: integer, activity_regularizer?: string|table, weights?: any[]}): keras.layers.Bidirectional
layers.Bidirectional = {}

---A layer applied to each step of a sequence.
---@class keras.layers.TimeDistributed: keras.layers.Layer
---@overload fun(layer: any|table, options?: {name?: string, trainable?: boolean, dtype?: string, input_shape?: any|integer, batch_input_shape?: any, batch_size?: integer, input_dim?: integer, activity_regularizer?: string|table, weights?: any[]}): keras.layers.TimeDistributed
layers.TimeDistributed = {}

---LSTM whose products are convolutions, over sequences of rows.
---@class keras.layers.ConvLSTM1D: keras.layers.Layer
---@overload fun(filters: integer, kernel_size: integer|any[], options?: {strides?: integer|any[], padding?: string, data_format?: string, dilation_rate?: integer|any[], activation?: string|function, recurrent_activation?: string|function, use_bias?: boolean, kernel_initializer?: string|table, recurrent_initializer?: string|table, bias_initializer?: string|table, unit_forget_bias?: boolean, kernel_regularizer?: string|table, recurrent_regularizer?: string|table, bias_regularizer?: string|table, kernel_constraint?: string|table, recurrent_constraint?: string|table, bias_constraint?: string|table, dropout?: number, recurrent_dropout?: number, seed?: integer, return_sequences?: boolean, return_state?: boolean, go_backwards?: boolean, stateful?: boolean, name?: string, trainable?: boolean, dtype?: string, input_shape?: any|integer, batch_input_shape?: any, batch_size?: integer, input_dim?: integer, activity_regularizer?: string|table, weights?: any[]}): keras.layers.ConvLSTM1D
layers.ConvLSTM1D = {}

---The same over sequences of pictures.
---@class keras.layers.ConvLSTM2D: keras.layers.Layer
---@overload fun(filters: integer, kernel_size: integer|any[], options?: {strides?: integer|any[], padding?: string, data_format?: string, dilation_rate?: integer|any[], activation?: string|function, recurrent_activation?: string|function, use_bias?: boolean, kernel_initializer?: string|table, recurrent_initializer?: string|table, bias_initializer?: string|table, unit_forget_bias?: boolean, kernel_regularizer?: string|table, recurrent_regularizer?: string|table, bias_regularizer?: string|table, kernel_constraint?: string|table, recurrent_constraint?: string|table, bias_constraint?: string|table, dropout?: number, recurrent_dropout?: number, seed?: integer, return_sequences?: boolean, return_state?: boolean, go_backwards?: boolean, stateful?: boolean, name?: string, trainable?: boolean, dtype?: string, input_shape?: any|integer, batch_input_shape?: any, batch_size?: integer, input_dim?: integer, activity_regularizer?: string|table, weights?: any[]}): keras.layers.ConvLSTM2D
layers.ConvLSTM2D = {}

---The same over sequences of volumes.
---@class keras.layers.ConvLSTM3D: keras.layers.Layer
---@overload fun(filters: integer, kernel_size: integer|any[], options?: {strides?: integer|any[], padding?: string, data_format?: string, dilation_rate?: integer|any[], activation?: string|function, recurrent_activation?: string|function, use_bias?: boolean, kernel_initializer?: string|table, recurrent_initializer?: string|table, bias_initializer?: string|table, unit_forget_bias?: boolean, kernel_regularizer?: string|table, recurrent_regularizer?: string|table, bias_regularizer?: string|table, kernel_constraint?: string|table, recurrent_constraint?: string|table, bias_constraint?: string|table, dropout?: number, recurrent_dropout?: number, seed?: integer, return_sequences?: boolean, return_state?: boolean, go_backwards?: boolean, stateful?: boolean, name?: string, trainable?: boolean, dtype?: string, input_shape?: any|integer, batch_input_shape?: any, batch_size?: integer, input_dim?: integer, activity_regularizer?: string|table, weights?: any[]}): keras.layers.ConvLSTM3D
layers.ConvLSTM3D = {}

---Attention with scores that are dot products (Luong); use_scale: times a learned number.
---@class keras.layers.Attention: keras.layers.Layer
---@overload fun(options?: {use_scale?: boolean, causal?: boolean, dropout?: number, seed?: integer, name?: string, trainable?: boolean, dtype?: string, input_shape?: any|integer, batch_input_shape?: any, batch_size?: integer, input_dim?: integer, activity_regularizer?: string|table, weights?: any[]}): keras.layers.Attention
layers.Attention = {}

---Attention with scores that are sums of tanh(query + key) (Bahdanau).
---@class keras.layers.AdditiveAttention: keras.layers.Layer
---@overload fun(options?: {use_scale?: boolean, causal?: boolean, dropout?: number, seed?: integer, name?: string, trainable?: boolean, dtype?: string, input_shape?: any|integer, batch_input_shape?: any, batch_size?: integer, input_dim?: integer, activity_regularizer?: string|table, weights?: any[]}): keras.layers.AdditiveAttention
layers.AdditiveAttention = {}

---Several attentions side by side, each of its own projection of query, key and value. Called as mha(query, value, {key =, attention_mask =, return_attention_scores =, use_causal_mask =}).
---@class keras.layers.MultiHeadAttention: keras.layers.Layer
---@overload fun(num_heads: integer, key_dim: integer, options?: {value_dim?: integer, dropout?: number, use_bias?: boolean, output_shape?: integer|any[], attention_axes?: integer|any[], kernel_initializer?: string|table, bias_initializer?: string|table, kernel_regularizer?: string|table, bias_regularizer?: string|table, kernel_constraint?: string|table, bias_constraint?: string|table, seed?: integer, name?: string, trainable?: boolean, dtype?: string, input_shape?: any|integer, batch_input_shape?: any, batch_size?: integer, input_dim?: integer, activity_regularizer?: string|table, weights?: any[]}): keras.layers.MultiHeadAttention
layers.MultiHeadAttention = {}

---The sum of several tensors.
---@class keras.layers.Add: keras.layers.Layer
---@overload fun(options?: {name?: string, trainable?: boolean, dtype?: string, input_shape?: any|integer, batch_input_shape?: any, batch_size?: integer, input_dim?: integer, activity_regularizer?: string|table, weights?: any[]}): keras.layers.Add
layers.Add = {}

---The first minus the second.
---@class keras.layers.Subtract: keras.layers.Layer
---@overload fun(options?: {name?: string, trainable?: boolean, dtype?: string, input_shape?: any|integer, batch_input_shape?: any, batch_size?: integer, input_dim?: integer, activity_regularizer?: string|table, weights?: any[]}): keras.layers.Subtract
layers.Subtract = {}

---The product, element by element.
---@class keras.layers.Multiply: keras.layers.Layer
---@overload fun(options?: {name?: string, trainable?: boolean, dtype?: string, input_shape?: any|integer, batch_input_shape?: any, batch_size?: integer, input_dim?: integer, activity_regularizer?: string|table, weights?: any[]}): keras.layers.Multiply
layers.Multiply = {}

---The mean, element by element.
---@class keras.layers.Average: keras.layers.Layer
---@overload fun(options?: {name?: string, trainable?: boolean, dtype?: string, input_shape?: any|integer, batch_input_shape?: any, batch_size?: integer, input_dim?: integer, activity_regularizer?: string|table, weights?: any[]}): keras.layers.Average
layers.Average = {}

---The greatest, element by element.
---@class keras.layers.Maximum: keras.layers.Layer
---@overload fun(options?: {name?: string, trainable?: boolean, dtype?: string, input_shape?: any|integer, batch_input_shape?: any, batch_size?: integer, input_dim?: integer, activity_regularizer?: string|table, weights?: any[]}): keras.layers.Maximum
layers.Maximum = {}

---The least, element by element.
---@class keras.layers.Minimum: keras.layers.Layer
---@overload fun(options?: {name?: string, trainable?: boolean, dtype?: string, input_shape?: any|integer, batch_input_shape?: any, batch_size?: integer, input_dim?: integer, activity_regularizer?: string|table, weights?: any[]}): keras.layers.Minimum
layers.Minimum = {}

---Tensors joined along an axis.
---@class keras.layers.Concatenate: keras.layers.Layer
---@overload fun(options?: {axis?: integer, name?: string, trainable?: boolean, dtype?: string, input_shape?: any|integer, batch_input_shape?: any, batch_size?: integer, input_dim?: integer, activity_regularizer?: string|table, weights?: any[]}): keras.layers.Concatenate
layers.Concatenate = {}

---Sums of products over an axis of each of two tensors; normalize: their cosine.
---@class keras.layers.Dot: keras.layers.Layer
---@overload fun(axes: integer|any, options?: {normalize?: boolean, name?: string, trainable?: boolean, dtype?: string, input_shape?: any|integer, batch_input_shape?: any, batch_size?: integer, input_dim?: integer, activity_regularizer?: string|table, weights?: any[]}): keras.layers.Dot
layers.Dot = {}

---Calls Add.
function layers.add(...) end

---Calls Subtract.
function layers.subtract(...) end

---Calls Multiply.
function layers.multiply(...) end

---Calls Average.
function layers.average(...) end

---Calls Maximum.
function layers.maximum(...) end

---Calls Minimum.
function layers.minimum(...) end

---Calls Concatenate.
function layers.concatenate(...) end

---Calls Dot.
function layers.dot(...) end

---x · scale + offset.
---@class keras.layers.Rescaling: keras.layers.Layer
---@overload fun(scale: number|any[], options?: {offset?: number|any[], name?: string, trainable?: boolean, dtype?: string, input_shape?: any|integer, batch_input_shape?: any, batch_size?: integer, input_dim?: integer, activity_regularizer?: string|table, weights?: any[]}): keras.layers.Rescaling
layers.Rescaling = {}

---Images in another size.
---@class keras.layers.Resizing: keras.layers.Layer
---@overload fun(height: integer, width: integer, options?: {interpolation?: string, crop_to_aspect_ratio?: boolean, name?: string, trainable?: boolean, dtype?: string, input_shape?: any|integer, batch_input_shape?: any, batch_size?: integer, input_dim?: integer, activity_regularizer?: string|table, weights?: any[]}): keras.layers.Resizing
layers.Resizing = {}

---The middle of images; smaller ones are enlarged.
---@class keras.layers.CenterCrop: keras.layers.Layer
---@overload fun(height: integer, width: integer, options?: {name?: string, trainable?: boolean, dtype?: string, input_shape?: any|integer, batch_input_shape?: any, batch_size?: integer, input_dim?: integer, activity_regularizer?: string|table, weights?: any[]}): keras.layers.CenterCrop
layers.CenterCrop = {}

---In training a window at a random position, the same for a batch. Else, and of smaller images, it is the middle, after resizing in proportion to the window's height or width.
---@class keras.layers.RandomCrop: keras.layers.Layer
---@overload fun(height: integer, width: integer, options?: {seed?: integer, name?: string, trainable?: boolean, dtype?: string, input_shape?: any|integer, batch_input_shape?: any, batch_size?: integer, input_dim?: integer, activity_regularizer?: string|table, weights?: any[]}): keras.layers.RandomCrop
layers.RandomCrop = {}

---In training each image is mirrored or not.
---@class keras.layers.RandomFlip: keras.layers.Layer
---@overload fun(options?: {mode?: string, seed?: integer, name?: string, trainable?: boolean, dtype?: string, input_shape?: any|integer, batch_input_shape?: any, batch_size?: integer, input_dim?: integer, activity_regularizer?: string|table, weights?: any[]}): keras.layers.RandomFlip
layers.RandomFlip = {}

---In training images are moved by a random share of their height and width.
---@class keras.layers.RandomTranslation: keras.layers.Layer
---@overload fun(height_factor: number|any[], width_factor: number|any[], options?: {fill_mode?: string, interpolation?: string, seed?: integer, fill_value?: number, name?: string, trainable?: boolean, dtype?: string, input_shape?: any|integer, batch_input_shape?: any, batch_size?: integer, input_dim?: integer, activity_regularizer?: string|table, weights?: any[]}): keras.layers.RandomTranslation
layers.RandomTranslation = {}

---In training images are turned by a random share of a full turn.
---@class keras.layers.RandomRotation: keras.layers.Layer
---@overload fun(factor: number|any[], options?: {fill_mode?: string, interpolation?: string, seed?: integer, fill_value?: number, name?: string, trainable?: boolean, dtype?: string, input_shape?: any|integer, batch_input_shape?: any, batch_size?: integer, input_dim?: integer, activity_regularizer?: string|table, weights?: any[]}): keras.layers.RandomRotation
layers.RandomRotation = {}

---In training images are enlarged (negative factors) or made smaller, by a random share.
---@class keras.layers.RandomZoom: keras.layers.Layer
---@overload fun(height_factor: number|any[], options?: {width_factor?: number|any[], fill_mode?: string, interpolation?: string, seed?: integer, fill_value?: number, name?: string, trainable?: boolean, dtype?: string, input_shape?: any|integer, batch_input_shape?: any, batch_size?: integer, input_dim?: integer, activity_regularizer?: string|table, weights?: any[]}): keras.layers.RandomZoom
layers.RandomZoom = {}

---In training the distance of values from their mean is scaled by a random factor from 1 - lower to 1 + upper.
---@class keras.layers.RandomContrast: keras.layers.Layer
---@overload fun(factor: number|any[], options?: {seed?: integer, name?: string, trainable?: boolean, dtype?: string, input_shape?: any|integer, batch_input_shape?: any, batch_size?: integer, input_dim?: integer, activity_regularizer?: string|table, weights?: any[]}): keras.layers.RandomContrast
layers.RandomContrast = {}

---In training a random share of the range of values is added to each image, which stays in the range.
---@class keras.layers.RandomBrightness: keras.layers.Layer
---@overload fun(factor: number|any[], options?: {value_range?: any[], seed?: integer, name?: string, trainable?: boolean, dtype?: string, input_shape?: any|integer, batch_input_shape?: any, batch_size?: integer, input_dim?: integer, activity_regularizer?: string|table, weights?: any[]}): keras.layers.RandomBrightness
layers.RandomBrightness = {}

---The most probable label sequences of [time, batch, classes]: probabilities, lengths, labels. Called with the data and their lengths.
---@class keras.layers.CTCInferenceLayer: keras.layers.Layer
---@overload fun(options?: {blank_index?: integer, beam_width?: integer, top_paths?: integer, from_logits?: boolean, name?: string, trainable?: boolean, dtype?: string, input_shape?: any|integer, batch_input_shape?: any, batch_size?: integer, input_dim?: integer, activity_regularizer?: string|table, weights?: any[]}): keras.layers.CTCInferenceLayer
layers.CTCInferenceLayer = {}

---The most probable label sequence of each sample, filled up with the blank index.
---@class keras.layers.CTCPredictionsLayer: keras.layers.Layer
---@overload fun(options?: {blank_index?: integer, beam_width?: integer, top_paths?: integer, from_logits?: boolean, name?: string, trainable?: boolean, dtype?: string, input_shape?: any|integer, batch_input_shape?: any, batch_size?: integer, input_dim?: integer, activity_regularizer?: string|table, weights?: any[]}): keras.layers.CTCPredictionsLayer
layers.CTCPredictionsLayer = {}

---A layer whose result's gradient is recorded under a tag.
---@class keras.layers.CaptureUpstreamGradients: keras.layers.Layer
---@overload fun(layer: any|table, options?: {tag?: string, name?: string, trainable?: boolean, dtype?: string, input_shape?: any|integer, batch_input_shape?: any, batch_size?: integer, input_dim?: integer, activity_regularizer?: string|table, weights?: any[]}): keras.layers.CaptureUpstreamGradients
layers.CaptureUpstreamGradients = {}

---A layer the gradient of whose activation's input is recorded under a tag.
---@class keras.layers.CaptureActivationGradients: keras.layers.Layer
---@overload fun(layer: any|table, options?: {tag?: string, name?: string, trainable?: boolean, dtype?: string, input_shape?: any|integer, batch_input_shape?: any, batch_size?: integer, input_dim?: integer, activity_regularizer?: string|table, weights?: any[]}): keras.layers.CaptureActivationGradients
layers.CaptureActivationGradients = {}

---The base of all losses; extend it with `call(y_true, y_pred)`, which gives a number for each sample.
---@class keras.losses.Loss
---@overload fun(options?: {reduction?: string, name?: string}): keras.losses.Loss
losses.Loss = {}

---mean((y − p)²)
---@class keras.losses.MeanSquaredError: keras.losses.Loss
---@overload fun(options?: {reduction?: string, name?: string}): keras.losses.MeanSquaredError
losses.MeanSquaredError = {}

---mean(|y − p|)
---@class keras.losses.MeanAbsoluteError: keras.losses.Loss
---@overload fun(options?: {reduction?: string, name?: string}): keras.losses.MeanAbsoluteError
losses.MeanAbsoluteError = {}

---100 · mean(|y − p| / max(|y|, 1e-7))
---@class keras.losses.MeanAbsolutePercentageError: keras.losses.Loss
---@overload fun(options?: {reduction?: string, name?: string}): keras.losses.MeanAbsolutePercentageError
losses.MeanAbsolutePercentageError = {}

---mean((log(1 + y) − log(1 + p))²)
---@class keras.losses.MeanSquaredLogarithmicError: keras.losses.Loss
---@overload fun(options?: {reduction?: string, name?: string}): keras.losses.MeanSquaredLogarithmicError
losses.MeanSquaredLogarithmicError = {}

---−mean(y log p + (1 − y) log(1 − p)), with label smoothing and from_logits
---@class keras.losses.BinaryCrossentropy: keras.losses.Loss
---@overload fun(options?: {from_logits?: boolean, label_smoothing?: number, axis?: integer, reduction?: string, name?: string}): keras.losses.BinaryCrossentropy
losses.BinaryCrossentropy = {}

---−Σ y log p over the classes; labels are one-hot
---@class keras.losses.CategoricalCrossentropy: keras.losses.Loss
---@overload fun(options?: {from_logits?: boolean, label_smoothing?: number, axis?: integer, reduction?: string, name?: string}): keras.losses.CategoricalCrossentropy
losses.CategoricalCrossentropy = {}

---BinaryCrossentropy times (1 − p of the label)^gamma, so that sure predictions count less
---@class keras.losses.BinaryFocalCrossentropy: keras.losses.Loss
---@overload fun(options?: {apply_class_balancing?: boolean, alpha?: number, gamma?: number, from_logits?: boolean, label_smoothing?: number, axis?: integer, reduction?: string, name?: string}): keras.losses.BinaryFocalCrossentropy
losses.BinaryFocalCrossentropy = {}

---−Σ alpha (1 − p)^gamma y log p over the classes
---@class keras.losses.CategoricalFocalCrossentropy: keras.losses.Loss
---@overload fun(options?: {alpha?: number, gamma?: number, from_logits?: boolean, label_smoothing?: number, axis?: integer, reduction?: string, name?: string}): keras.losses.CategoricalFocalCrossentropy
losses.CategoricalFocalCrossentropy = {}

---−log p of the class; labels are class numbers
---@class keras.losses.SparseCategoricalCrossentropy: keras.losses.Loss
---@overload fun(options?: {from_logits?: boolean, axis?: integer, ignore_class?: integer, reduction?: string, name?: string}): keras.losses.SparseCategoricalCrossentropy
losses.SparseCategoricalCrossentropy = {}

---max(0, 1 + max((1 − y)·p) − Σ y·p)
---@class keras.losses.CategoricalHinge: keras.losses.Loss
---@overload fun(options?: {reduction?: string, name?: string}): keras.losses.CategoricalHinge
losses.CategoricalHinge = {}

---mean(max(1 − y·p, 0)), labels −1 and 1 (0 counts as −1)
---@class keras.losses.Hinge: keras.losses.Loss
---@overload fun(options?: {reduction?: string, name?: string}): keras.losses.Hinge
losses.Hinge = {}

---mean(max(1 − y·p, 0)²)
---@class keras.losses.SquaredHinge: keras.losses.Loss
---@overload fun(options?: {reduction?: string, name?: string}): keras.losses.SquaredHinge
losses.SquaredHinge = {}

---½e² where |e| ≤ delta, else delta·|e| − ½delta², averaged
---@class keras.losses.Huber: keras.losses.Loss
---@overload fun(options?: {delta?: number, reduction?: string, name?: string}): keras.losses.Huber
losses.Huber = {}

---mean(log(cosh(p − y)))
---@class keras.losses.LogCosh: keras.losses.Loss
---@overload fun(options?: {reduction?: string, name?: string}): keras.losses.LogCosh
losses.LogCosh = {}

---Σ y log(y / p)
---@class keras.losses.KLDivergence: keras.losses.Loss
---@overload fun(options?: {reduction?: string, name?: string}): keras.losses.KLDivergence
losses.KLDivergence = {}

---mean(p − y log p)
---@class keras.losses.Poisson: keras.losses.Loss
---@overload fun(options?: {reduction?: string, name?: string}): keras.losses.Poisson
losses.Poisson = {}

---minus the cosine of the angle between y and p
---@class keras.losses.CosineSimilarity: keras.losses.Loss
---@overload fun(options?: {axis?: integer, reduction?: string, name?: string}): keras.losses.CosineSimilarity
losses.CosineSimilarity = {}

---connectionist temporal classification: called with (labels, predictions), a dictionary's lengths beside
---@class keras.losses.CTCLoss: keras.losses.Loss
---@overload fun(options?: {blank_index?: integer, from_logits?: boolean, reduction?: string, name?: string}): keras.losses.CTCLoss
losses.CTCLoss = {}

---A plain function as the loss of compile.
---@class keras.losses.FunctionLoss: keras.losses.Loss
---@overload fun(fn: function, options?: {reduction?: string, name?: string}): keras.losses.FunctionLoss
losses.FunctionLoss = {}

---The base of all metrics; extend it with `update_state(y_true, y_pred, {sample_weight})` and `result()`; `add_weight{name =, shape =}` makes its state, `reset_state()`, or by its older name `reset_states()`, clears it.
---@class keras.metrics.Metric
---@overload fun(options?: {name?: string, dtype?: string}): keras.metrics.Metric
metrics.Metric = {}

---The weighted mean of all values.
---@class keras.metrics.Mean: keras.metrics.Metric
---@overload fun(options?: {name?: string, dtype?: string}): keras.metrics.Mean
metrics.Mean = {}

---The weighted sum of all values.
---@class keras.metrics.Sum: keras.metrics.Metric
---@overload fun(options?: {name?: string, dtype?: string}): keras.metrics.Sum
metrics.Sum = {}

---The mean of each element over the batches.
---@class keras.metrics.MeanTensor: keras.metrics.Metric
---@overload fun(options?: {shape?: any, name?: string, dtype?: string}): keras.metrics.MeanTensor
metrics.MeanTensor = {}

---The mean of a function of labels and predictions, which gives a number for each sample.
---@class keras.metrics.MeanMetricWrapper: keras.metrics.Metric
---@overload fun(fn: function, options?: {name?: string, dtype?: string}): keras.metrics.MeanMetricWrapper
metrics.MeanMetricWrapper = {}

---The mean of absolute errors divided by a normalizer.
---@class keras.metrics.MeanRelativeError: keras.metrics.Metric
---@overload fun(normalizer: userdata|any[]|number, options?: {name?: string, dtype?: string}): keras.metrics.MeanRelativeError
metrics.MeanRelativeError = {}

---How often label and prediction are equal.
---@class keras.metrics.Accuracy: keras.metrics.Metric
---@overload fun(options?: {name?: string, dtype?: string}): keras.metrics.Accuracy
metrics.Accuracy = {}

---How often p > threshold says the label, 0 or 1.
---@class keras.metrics.BinaryAccuracy: keras.metrics.Metric
---@overload fun(options?: {threshold?: number, name?: string, dtype?: string}): keras.metrics.BinaryAccuracy
metrics.BinaryAccuracy = {}

---How often the greatest prediction is at the 1 of the label.
---@class keras.metrics.CategoricalAccuracy: keras.metrics.Metric
---@overload fun(options?: {name?: string, dtype?: string}): keras.metrics.CategoricalAccuracy
metrics.CategoricalAccuracy = {}

---How often the greatest prediction is at the class number.
---@class keras.metrics.SparseCategoricalAccuracy: keras.metrics.Metric
---@overload fun(options?: {name?: string, dtype?: string}): keras.metrics.SparseCategoricalAccuracy
metrics.SparseCategoricalAccuracy = {}

---How often the one-hot label is among the k greatest predictions.
---@class keras.metrics.TopKCategoricalAccuracy: keras.metrics.Metric
---@overload fun(options?: {k?: integer, name?: string, dtype?: string}): keras.metrics.TopKCategoricalAccuracy
metrics.TopKCategoricalAccuracy = {}

---How often the class number is among the k greatest predictions.
---@class keras.metrics.SparseTopKCategoricalAccuracy: keras.metrics.Metric
---@overload fun(options?: {k?: integer, name?: string, dtype?: string}): keras.metrics.SparseTopKCategoricalAccuracy
metrics.SparseTopKCategoricalAccuracy = {}

---Counts labels of 1 whose prediction is above the threshold.
---@class keras.metrics.TruePositives: keras.metrics.Metric
---@overload fun(options?: {thresholds?: number|any[], name?: string, dtype?: string}): keras.metrics.TruePositives
metrics.TruePositives = {}

---Counts labels of 0 whose prediction is not above the threshold.
---@class keras.metrics.TrueNegatives: keras.metrics.Metric
---@overload fun(options?: {thresholds?: number|any[], name?: string, dtype?: string}): keras.metrics.TrueNegatives
metrics.TrueNegatives = {}

---Counts labels of 0 whose prediction is above the threshold.
---@class keras.metrics.FalsePositives: keras.metrics.Metric
---@overload fun(options?: {thresholds?: number|any[], name?: string, dtype?: string}): keras.metrics.FalsePositives
metrics.FalsePositives = {}

---Counts labels of 1 whose prediction is not above the threshold.
---@class keras.metrics.FalseNegatives: keras.metrics.Metric
---@overload fun(options?: {thresholds?: number|any[], name?: string, dtype?: string}): keras.metrics.FalseNegatives
metrics.FalseNegatives = {}

---The share of positive predictions that are right.
---@class keras.metrics.Precision: keras.metrics.Metric
---@overload fun(options?: {thresholds?: number|any[], top_k?: integer, class_id?: integer, name?: string, dtype?: string}): keras.metrics.Precision
metrics.Precision = {}

---The share of positives that were predicted.
---@class keras.metrics.Recall: keras.metrics.Metric
---@overload fun(options?: {thresholds?: number|any[], top_k?: integer, class_id?: integer, name?: string, dtype?: string}): keras.metrics.Recall
metrics.Recall = {}

---The best precision where recall is at least a value.
---@class keras.metrics.PrecisionAtRecall: keras.metrics.Metric
---@overload fun(recall: number, options?: {num_thresholds?: integer, class_id?: integer, name?: string, dtype?: string}): keras.metrics.PrecisionAtRecall
metrics.PrecisionAtRecall = {}

---The best recall where precision is at least a value.
---@class keras.metrics.RecallAtPrecision: keras.metrics.Metric
---@overload fun(precision: number, options?: {num_thresholds?: integer, class_id?: integer, name?: string, dtype?: string}): keras.metrics.RecallAtPrecision
metrics.RecallAtPrecision = {}

---The best sensitivity at a specificity.
---@class keras.metrics.SensitivityAtSpecificity: keras.metrics.Metric
---@overload fun(specificity: number, options?: {num_thresholds?: integer, class_id?: integer, name?: string, dtype?: string}): keras.metrics.SensitivityAtSpecificity
metrics.SensitivityAtSpecificity = {}

---The best specificity at a sensitivity.
---@class keras.metrics.SpecificityAtSensitivity: keras.metrics.Metric
---@overload fun(sensitivity: number, options?: {num_thresholds?: integer, class_id?: integer, name?: string, dtype?: string}): keras.metrics.SpecificityAtSensitivity
metrics.SpecificityAtSensitivity = {}

---The area under the ROC (or PR) curve, from num_thresholds thresholds.
---@class keras.metrics.AUC: keras.metrics.Metric
---@overload fun(options?: {num_thresholds?: integer, curve?: string, summation_method?: string, thresholds?: any[], multi_label?: boolean, num_labels?: integer, label_weights?: any, from_logits?: boolean, name?: string, dtype?: string}): keras.metrics.AUC
metrics.AUC = {}

---The harmonic mean of precision and recall, of each class or averaged.
---@class keras.metrics.F1Score: keras.metrics.Metric
---@overload fun(options?: {average?: string, threshold?: number, name?: string, dtype?: string}): keras.metrics.F1Score
metrics.F1Score = {}

---The weighted harmonic mean of precision and recall: beta says how much more recall counts.
---@class keras.metrics.FBetaScore: keras.metrics.Metric
---@overload fun(options?: {average?: string, beta?: number, threshold?: number, name?: string, dtype?: string}): keras.metrics.FBetaScore
metrics.FBetaScore = {}

---The share of the labels' variance that the predictions explain.
---@class keras.metrics.R2Score: keras.metrics.Metric
---@overload fun(options?: {class_aggregation?: string, num_regressors?: integer, name?: string, dtype?: string}): keras.metrics.R2Score
metrics.R2Score = {}

---Intersection over union of class numbers, averaged over the classes that occur; a pair with a number outside of 0 … num_classes - 1 doesn't count.
---@class keras.metrics.MeanIoU: keras.metrics.Metric
---@overload fun(num_classes: integer, options?: {ignore_class?: integer, sparse_y_true?: boolean, sparse_y_pred?: boolean, axis?: integer, name?: string, dtype?: string}): keras.metrics.MeanIoU
metrics.MeanIoU = {}

---The mean of (y − p)².
---@class keras.metrics.MeanSquaredError: keras.metrics.Metric
---@overload fun(options?: {name?: string, dtype?: string}): keras.metrics.MeanSquaredError
metrics.MeanSquaredError = {}

---The root of the mean of squared errors.
---@class keras.metrics.RootMeanSquaredError: keras.metrics.Metric
---@overload fun(options?: {name?: string, dtype?: string}): keras.metrics.RootMeanSquaredError
metrics.RootMeanSquaredError = {}

---The mean of |y − p|.
---@class keras.metrics.MeanAbsoluteError: keras.metrics.Metric
---@overload fun(options?: {name?: string, dtype?: string}): keras.metrics.MeanAbsoluteError
metrics.MeanAbsoluteError = {}

---As the loss, averaged.
---@class keras.metrics.MeanAbsolutePercentageError: keras.metrics.Metric
---@overload fun(options?: {name?: string, dtype?: string}): keras.metrics.MeanAbsolutePercentageError
metrics.MeanAbsolutePercentageError = {}

---As the loss, averaged.
---@class keras.metrics.MeanSquaredLogarithmicError: keras.metrics.Metric
---@overload fun(options?: {name?: string, dtype?: string}): keras.metrics.MeanSquaredLogarithmicError
metrics.MeanSquaredLogarithmicError = {}

---As the loss, averaged.
---@class keras.metrics.BinaryCrossentropy: keras.metrics.Metric
---@overload fun(options?: {from_logits?: boolean, label_smoothing?: number, name?: string, dtype?: string}): keras.metrics.BinaryCrossentropy
metrics.BinaryCrossentropy = {}

---As the loss, averaged.
---@class keras.metrics.CategoricalCrossentropy: keras.metrics.Metric
---@overload fun(options?: {from_logits?: boolean, label_smoothing?: number, name?: string, dtype?: string}): keras.metrics.CategoricalCrossentropy
metrics.CategoricalCrossentropy = {}

---As the loss, averaged.
---@class keras.metrics.SparseCategoricalCrossentropy: keras.metrics.Metric
---@overload fun(options?: {from_logits?: boolean, axis?: integer, name?: string, dtype?: string}): keras.metrics.SparseCategoricalCrossentropy
metrics.SparseCategoricalCrossentropy = {}

---As the loss, averaged.
---@class keras.metrics.CategoricalHinge: keras.metrics.Metric
---@overload fun(options?: {name?: string, dtype?: string}): keras.metrics.CategoricalHinge
metrics.CategoricalHinge = {}

---As the loss, averaged.
---@class keras.metrics.Hinge: keras.metrics.Metric
---@overload fun(options?: {name?: string, dtype?: string}): keras.metrics.Hinge
metrics.Hinge = {}

---As the loss, averaged.
---@class keras.metrics.SquaredHinge: keras.metrics.Metric
---@overload fun(options?: {name?: string, dtype?: string}): keras.metrics.SquaredHinge
metrics.SquaredHinge = {}

---As the loss, averaged.
---@class keras.metrics.KLDivergence: keras.metrics.Metric
---@overload fun(options?: {name?: string, dtype?: string}): keras.metrics.KLDivergence
metrics.KLDivergence = {}

---The loss LogCosh, averaged.
---@class keras.metrics.LogCoshError: keras.metrics.Metric
---@overload fun(options?: {name?: string, dtype?: string}): keras.metrics.LogCoshError
metrics.LogCoshError = {}

---As the loss, averaged.
---@class keras.metrics.Poisson: keras.metrics.Metric
---@overload fun(options?: {name?: string, dtype?: string}): keras.metrics.Poisson
metrics.Poisson = {}

---The cosine of the angle between y and p, averaged.
---@class keras.metrics.CosineSimilarity: keras.metrics.Metric
---@overload fun(options?: {axis?: integer, name?: string, dtype?: string}): keras.metrics.CosineSimilarity
metrics.CosineSimilarity = {}

---The base of all optimizers; extend it with `update(variable, gradient, shared)`, which gives the new value (`shared.rate`: the learning rate), and `make_slots(variable)`, which makes what is kept beside it by `self:slot(variable, "name")`. Hyperparameters are fields; `iterations` counts updates; `apply_gradients(grads, variables)`, `minimize(loss, {var_list})`, `get_weights`, `set_weights`, `get_config`.
---@class keras.optimizers.Optimizer
---@overload fun(options?: {learning_rate?: number|table|function|userdata, name?: string, clipnorm?: number, clipvalue?: number, global_clipnorm?: number, decay?: number, weight_decay?: number, use_ema?: boolean, ema_momentum?: number, ema_overwrite_frequency?: integer, state_dtype?: string}): keras.optimizers.Optimizer
optimizers.Optimizer = {}

---v ← momentum·v − lr·g; w ← w + v (nesterov: w ← w + momentum·v − lr·g).
---@class keras.optimizers.SGD: keras.optimizers.Optimizer
---@overload fun(options?: {learning_rate?: number|table|function|userdata, momentum?: number, nesterov?: boolean, name?: string, clipnorm?: number, clipvalue?: number, global_clipnorm?: number, decay?: number, weight_decay?: number, use_ema?: boolean, ema_momentum?: number, ema_overwrite_frequency?: integer, state_dtype?: string}): keras.optimizers.SGD
optimizers.SGD = {}

---Moments m, v of gradient and square, corrected for their beginning; amsgrad keeps the greatest v.
---@class keras.optimizers.Adam: keras.optimizers.Optimizer
---@overload fun(options?: {learning_rate?: number|table|function|userdata, beta_1?: number, beta_2?: number, epsilon?: number, amsgrad?: boolean, name?: string, clipnorm?: number, clipvalue?: number, global_clipnorm?: number, decay?: number, weight_decay?: number, use_ema?: boolean, ema_momentum?: number, ema_overwrite_frequency?: integer, state_dtype?: string}): keras.optimizers.Adam
optimizers.Adam = {}

---Adam with decoupled weight decay.
---@class keras.optimizers.AdamW: keras.optimizers.Optimizer
---@overload fun(options?: {learning_rate?: number|table|function|userdata, weight_decay?: number, beta_1?: number, beta_2?: number, epsilon?: number, amsgrad?: boolean, name?: string, clipnorm?: number, clipvalue?: number, global_clipnorm?: number, decay?: number, use_ema?: boolean, ema_momentum?: number, ema_overwrite_frequency?: integer, state_dtype?: string}): keras.optimizers.AdamW
optimizers.AdamW = {}

---Adam with the greatest gradient in place of the second moment.
---@class keras.optimizers.Adamax: keras.optimizers.Optimizer
---@overload fun(options?: {learning_rate?: number|table|function|userdata, beta_1?: number, beta_2?: number, epsilon?: number, name?: string, clipnorm?: number, clipvalue?: number, global_clipnorm?: number, decay?: number, weight_decay?: number, use_ema?: boolean, ema_momentum?: number, ema_overwrite_frequency?: integer, state_dtype?: string}): keras.optimizers.Adamax
optimizers.Adamax = {}

---Adam with Nesterov momentum, whose momentum is warmed up (schedule_decay).
---@class keras.optimizers.Nadam: keras.optimizers.Optimizer
---@overload fun(options?: {learning_rate?: number|table|function|userdata, beta_1?: number, beta_2?: number, epsilon?: number, schedule_decay?: number, name?: string, clipnorm?: number, clipvalue?: number, global_clipnorm?: number, decay?: number, weight_decay?: number, use_ema?: boolean, ema_momentum?: number, ema_overwrite_frequency?: integer, state_dtype?: string}): keras.optimizers.Nadam
optimizers.Nadam = {}

---g / √(mean of squares), with momentum and centered.
---@class keras.optimizers.RMSprop: keras.optimizers.Optimizer
---@overload fun(options?: {learning_rate?: number|table|function|userdata, rho?: number, momentum?: number, epsilon?: number, centered?: boolean, name?: string, clipnorm?: number, clipvalue?: number, global_clipnorm?: number, decay?: number, weight_decay?: number, use_ema?: boolean, ema_momentum?: number, ema_overwrite_frequency?: integer, state_dtype?: string}): keras.optimizers.RMSprop
optimizers.RMSprop = {}

---g / √(sum of squares).
---@class keras.optimizers.Adagrad: keras.optimizers.Optimizer
---@overload fun(options?: {learning_rate?: number|table|function|userdata, initial_accumulator_value?: number, epsilon?: number, name?: string, clipnorm?: number, clipvalue?: number, global_clipnorm?: number, decay?: number, weight_decay?: number, use_ema?: boolean, ema_momentum?: number, ema_overwrite_frequency?: integer, state_dtype?: string}): keras.optimizers.Adagrad
optimizers.Adagrad = {}

---Steps as large as the last ones, without a unit of their own.
---@class keras.optimizers.Adadelta: keras.optimizers.Optimizer
---@overload fun(options?: {learning_rate?: number|table|function|userdata, rho?: number, epsilon?: number, name?: string, clipnorm?: number, clipvalue?: number, global_clipnorm?: number, decay?: number, weight_decay?: number, use_ema?: boolean, ema_momentum?: number, ema_overwrite_frequency?: integer, state_dtype?: string}): keras.optimizers.Adadelta
optimizers.Adadelta = {}

---Follow the regularized leader.
---@class keras.optimizers.Ftrl: keras.optimizers.Optimizer
---@overload fun(options?: {learning_rate?: number|table|function|userdata, learning_rate_power?: number, initial_accumulator_value?: number, l1_regularization_strength?: number, l2_regularization_strength?: number, l2_shrinkage_regularization_strength?: number, beta?: number, name?: string, clipnorm?: number, clipvalue?: number, global_clipnorm?: number, decay?: number, weight_decay?: number, use_ema?: boolean, ema_momentum?: number, ema_overwrite_frequency?: integer, state_dtype?: string}): keras.optimizers.Ftrl
optimizers.Ftrl = {}

---Adam whose step is scaled to the length of each variable.
---@class keras.optimizers.LAMB: keras.optimizers.Optimizer
---@overload fun(options?: {learning_rate?: number|table|function|userdata, beta_1?: number, beta_2?: number, epsilon?: number, name?: string, clipnorm?: number, clipvalue?: number, global_clipnorm?: number, decay?: number, weight_decay?: number, use_ema?: boolean, ema_momentum?: number, ema_overwrite_frequency?: integer, state_dtype?: string}): keras.optimizers.LAMB
optimizers.LAMB = {}

---The sign of an interpolated momentum.
---@class keras.optimizers.Lion: keras.optimizers.Optimizer
---@overload fun(options?: {learning_rate?: number|table|function|userdata, beta_1?: number, beta_2?: number, name?: string, clipnorm?: number, clipvalue?: number, global_clipnorm?: number, decay?: number, weight_decay?: number, use_ema?: boolean, ema_momentum?: number, ema_overwrite_frequency?: integer, state_dtype?: string}): keras.optimizers.Lion
optimizers.Lion = {}

---Changes each gradient by f(gradient, variable) before it is accumulated and applied. A sum accumulated in another dtype than the variable's goes through f once more: it may cast.
---@class keras.optimizers.MapGradientOptimizer: keras.optimizers.Optimizer
---@overload fun(wrapped_optimizer: table, gradient_mapping_function: function, options?: {name?: string}): keras.optimizers.MapGradientOptimizer
optimizers.MapGradientOptimizer = {}

---As MapGradientOptimizer, the map being applied last.
---@class keras.optimizers.MapGradientOptimizerInvertedChaining: keras.optimizers.Optimizer
---@overload fun(wrapped_optimizer: table, gradient_mapping_function: function, options?: {name?: string}): keras.optimizers.MapGradientOptimizerInvertedChaining
optimizers.MapGradientOptimizerInvertedChaining = {}

---The mean of each gradient over the replicas is applied.
---@class keras.optimizers.CrossReplicaOptimizer: keras.optimizers.Optimizer
---@overload fun(opt: table, options?: {name?: string}): keras.optimizers.CrossReplicaOptimizer
optimizers.CrossReplicaOptimizer = {}

---Sums (or averages) the gradients of num_mini_batches calls, then applies them once. Captured gradients are handed on as the last call has them.
---@class keras.optimizers.GradientAccumulationOptimizer: keras.optimizers.Optimizer
---@overload fun(opt: table, num_mini_batches: integer, options?: {offload_weight_update_variables?: boolean, replicated_optimizer_state_sharding?: boolean, dtype?: string|function, reduction_method?: any, name?: string}): keras.optimizers.GradientAccumulationOptimizer
optimizers.GradientAccumulationOptimizer = {}

---Scales the loss so that float16 gradients neither overflow nor vanish. The factor is doubled unless too many elements are at or beyond histogram_bin_edge. Otherwise it is halved. Fields that are only read: loss_scaling_factor, previous_loss_scaling_factor, histogram, normalized_histogram, update_counter, decrease_factor.
---@class keras.optimizers.ALSOptimizer: keras.optimizers.Optimizer
---@overload fun(opt: table, options?: {initial_loss_scaling_factor?: number, update_frequency?: integer, increase_factor?: number, max_loss_scaling_factor?: number, accumulate_statistics_over_update_period?: boolean, ratio_threshold?: number, captured_grads_only?: boolean, lpf_alpha?: number, histogram_bin_edge?: number, name?: string}): keras.optimizers.ALSOptimizer
optimizers.ALSOptimizer = {}

---Accumulates the gradients of an ALSOptimizer.
---@class keras.optimizers.ALSGradientAccumulationOptimizer: keras.optimizers.Optimizer
---@overload fun(opt: table, num_mini_batches: integer, options?: {offload_weight_update_variables?: boolean, replicated_optimizer_state_sharding?: boolean, dtype?: string|function, reduction_method?: any, name?: string}): keras.optimizers.ALSGradientAccumulationOptimizer
optimizers.ALSGradientAccumulationOptimizer = {}

---SGD with ALSOptimizer's scaling built in.
---@class keras.optimizers.ALSOptimizerSGD: keras.optimizers.Optimizer
---@overload fun(options?: {learning_rate?: number|table|function|userdata, momentum?: number, nesterov?: boolean, clipnorm?: number, clipvalue?: number, global_clipnorm?: number, decay?: number, weight_decay?: number, use_ema?: boolean, ema_momentum?: number, ema_overwrite_frequency?: integer, state_dtype?: string, initial_loss_scaling_factor?: number, update_frequency?: integer, increase_factor?: number, max_loss_scaling_factor?: number, accumulate_statistics_over_update_period?: boolean, ratio_threshold?: number, captured_grads_only?: boolean, lpf_alpha?: number, histogram_bin_edge?: number, name?: string}): keras.optimizers.ALSOptimizerSGD
optimizers.ALSOptimizerSGD = {}

---Adam with ALSOptimizer's scaling built in.
---@class keras.optimizers.ALSOptimizerAdam: keras.optimizers.Optimizer
---@overload fun(options?: {learning_rate?: number|table|function|userdata, beta_1?: number, beta_2?: number, epsilon?: number, amsgrad?: boolean, clipnorm?: number, clipvalue?: number, global_clipnorm?: number, decay?: number, weight_decay?: number, use_ema?: boolean, ema_momentum?: number, ema_overwrite_frequency?: integer, state_dtype?: string, initial_loss_scaling_factor?: number, update_frequency?: integer, increase_factor?: number, max_loss_scaling_factor?: number, accumulate_statistics_over_update_period?: boolean, ratio_threshold?: number, captured_grads_only?: boolean, lpf_alpha?: number, histogram_bin_edge?: number, name?: string}): keras.optimizers.ALSOptimizerAdam
optimizers.ALSOptimizerAdam = {}

---RMSprop with ALSOptimizer's scaling built in.
---@class keras.optimizers.ALSOptimizerRMSProp: keras.optimizers.Optimizer
---@overload fun(options?: {learning_rate?: number|table|function|userdata, rho?: number, momentum?: number, epsilon?: number, centered?: boolean, clipnorm?: number, clipvalue?: number, global_clipnorm?: number, decay?: number, weight_decay?: number, use_ema?: boolean, ema_momentum?: number, ema_overwrite_frequency?: integer, state_dtype?: string, initial_loss_scaling_factor?: number, update_frequency?: integer, increase_factor?: number, max_loss_scaling_factor?: number, accumulate_statistics_over_update_period?: boolean, ratio_threshold?: number, captured_grads_only?: boolean, lpf_alpha?: number, histogram_bin_edge?: number, name?: string}): keras.optimizers.ALSOptimizerRMSProp
optimizers.ALSOptimizerRMSProp = {}

---The base of all schedules; extend it with `rate(step)`.
---@class keras.schedules.LearningRateSchedule
---@overload fun(): keras.schedules.LearningRateSchedule
schedules.LearningRateSchedule = {}

---initial · rate ^ (step / decay_steps); staircase: whole powers.
---@class keras.schedules.ExponentialDecay: keras.schedules.LearningRateSchedule
---@overload fun(initial_learning_rate: number, decay_steps: number, decay_rate: number, options?: {staircase?: boolean, name?: string}): keras.schedules.ExponentialDecay
schedules.ExponentialDecay = {}

---initial / (1 + rate · step / decay_steps).
---@class keras.schedules.InverseTimeDecay: keras.schedules.LearningRateSchedule
---@overload fun(initial_learning_rate: number, decay_steps: number, decay_rate: number, options?: {staircase?: boolean, name?: string}): keras.schedules.InverseTimeDecay
schedules.InverseTimeDecay = {}

---values[1] up to boundaries[1] (included), and so on.
---@class keras.schedules.PiecewiseConstantDecay: keras.schedules.LearningRateSchedule
---@overload fun(boundaries: any[], values: any[], options?: {name?: string}): keras.schedules.PiecewiseConstantDecay
schedules.PiecewiseConstantDecay = {}

---From initial to end by a power of the time; cycle: again with longer decay_steps.
---@class keras.schedules.PolynomialDecay: keras.schedules.LearningRateSchedule
---@overload fun(initial_learning_rate: number, decay_steps: number, options?: {end_learning_rate?: number, power?: number, cycle?: boolean, name?: string}): keras.schedules.PolynomialDecay
schedules.PolynomialDecay = {}

---Half a cosine from initial to alpha · initial; after a linear warm-up if warmup_target is given.
---@class keras.schedules.CosineDecay: keras.schedules.LearningRateSchedule
---@overload fun(initial_learning_rate: number, decay_steps: number, options?: {alpha?: number, warmup_target?: number, warmup_steps?: number, name?: string}): keras.schedules.CosineDecay
schedules.CosineDecay = {}

---Cosine decays, each t_mul times as long as the one before and m_mul times as high.
---@class keras.schedules.CosineDecayRestarts: keras.schedules.LearningRateSchedule
---@overload fun(initial_learning_rate: number, first_decay_steps: number, options?: {t_mul?: number, m_mul?: number, alpha?: number, name?: string}): keras.schedules.CosineDecayRestarts
schedules.CosineDecayRestarts = {}

---A linear decay times a cosine of num_periods.
---@class keras.schedules.LinearCosineDecay: keras.schedules.LearningRateSchedule
---@overload fun(initial_learning_rate: number, decay_steps: number, options?: {num_periods?: number, alpha?: number, beta?: number, name?: string}): keras.schedules.LinearCosineDecay
schedules.LinearCosineDecay = {}

---The base of all initializers; extend it with `make(shape, dtype)`.
---@class keras.initializers.Initializer
---@overload fun(): keras.initializers.Initializer
initializers.Initializer = {}

---All elements are 0.
---@class keras.initializers.Zeros: keras.initializers.Initializer
---@overload fun(): keras.initializers.Zeros
initializers.Zeros = {}

---All elements are 1.
---@class keras.initializers.Ones: keras.initializers.Initializer
---@overload fun(): keras.initializers.Ones
initializers.Ones = {}

---All elements have one value.
---@class keras.initializers.Constant: keras.initializers.Initializer
---@overload fun(options?: {value?: number|boolean|table|userdata}): keras.initializers.Constant
initializers.Constant = {}

---1 on the diagonal, 0 elsewhere.
---@class keras.initializers.Identity: keras.initializers.Initializer
---@overload fun(options?: {gain?: number}): keras.initializers.Identity
initializers.Identity = {}

---A matrix with orthogonal rows or columns.
---@class keras.initializers.Orthogonal: keras.initializers.Initializer
---@overload fun(options?: {gain?: number, seed?: integer}): keras.initializers.Orthogonal
initializers.Orthogonal = {}

---Numbers of a normal distribution.
---@class keras.initializers.RandomNormal: keras.initializers.Initializer
---@overload fun(options?: {mean?: number, stddev?: number, seed?: integer}): keras.initializers.RandomNormal
initializers.RandomNormal = {}

---Numbers of a uniform distribution.
---@class keras.initializers.RandomUniform: keras.initializers.Initializer
---@overload fun(options?: {minval?: number, maxval?: number, seed?: integer}): keras.initializers.RandomUniform
initializers.RandomUniform = {}

---Numbers of a normal distribution, cut at two standard deviations.
---@class keras.initializers.TruncatedNormal: keras.initializers.Initializer
---@overload fun(options?: {mean?: number, stddev?: number, seed?: integer}): keras.initializers.TruncatedNormal
initializers.TruncatedNormal = {}

---Variance scale / n, n being the fan in, the fan out or their mean.
---@class keras.initializers.VarianceScaling: keras.initializers.Initializer
---@overload fun(options?: {scale?: number, mode?: string, distribution?: string, seed?: integer}): keras.initializers.VarianceScaling
initializers.VarianceScaling = {}

---Variance 2 / (fan in + fan out), truncated normal.
---@class keras.initializers.GlorotNormal: keras.initializers.Initializer
---@overload fun(options?: {seed?: integer}): keras.initializers.GlorotNormal
initializers.GlorotNormal = {}

---Variance 2 / (fan in + fan out), uniform.
---@class keras.initializers.GlorotUniform: keras.initializers.Initializer
---@overload fun(options?: {seed?: integer}): keras.initializers.GlorotUniform
initializers.GlorotUniform = {}

---Variance 2 / fan in, truncated normal.
---@class keras.initializers.HeNormal: keras.initializers.Initializer
---@overload fun(options?: {seed?: integer}): keras.initializers.HeNormal
initializers.HeNormal = {}

---Variance 2 / fan in, uniform.
---@class keras.initializers.HeUniform: keras.initializers.Initializer
---@overload fun(options?: {seed?: integer}): keras.initializers.HeUniform
initializers.HeUniform = {}

---Variance 1 / fan in, truncated normal.
---@class keras.initializers.LecunNormal: keras.initializers.Initializer
---@overload fun(options?: {seed?: integer}): keras.initializers.LecunNormal
initializers.LecunNormal = {}

---Variance 1 / fan in, uniform.
---@class keras.initializers.LecunUniform: keras.initializers.Initializer
---@overload fun(options?: {seed?: integer}): keras.initializers.LecunUniform
initializers.LecunUniform = {}

---The base of all regularizers; extend it with `penalty(x)`, a number.
---@class keras.regularizers.Regularizer
---@overload fun(): keras.regularizers.Regularizer
regularizers.Regularizer = {}

---l1 · Σ|x|.
---@class keras.regularizers.L1
---@overload fun(options?: {l1?: number}): keras.regularizers.L1
regularizers.L1 = {}

---l2 · Σx².
---@class keras.regularizers.L2
---@overload fun(options?: {l2?: number}): keras.regularizers.L2
regularizers.L2 = {}

---l1 times the sum of absolute values plus l2 times the sum of squares; float32 of 16 bits, which soon can't hold it.
---@class keras.regularizers.L1L2
---@overload fun(options?: {l1?: number, l2?: number}): keras.regularizers.L1L2
regularizers.L1L2 = {}

---Calls L1.
function regularizers.l1(...) end

---Calls L2.
function regularizers.l2(...) end

---Calls L1L2.
function regularizers.l1_l2(...) end

---The base of all constraints; extend it with `project(w)`, the new weight.
---@class keras.constraints.Constraint
---@overload fun(): keras.constraints.Constraint
constraints.Constraint = {}

---Vectors along an axis no longer than max_value.
---@class keras.constraints.MaxNorm
---@overload fun(options?: {max_value?: number, axis?: integer|any}): keras.constraints.MaxNorm
constraints.MaxNorm = {}

---Vectors along an axis neither shorter nor longer.
---@class keras.constraints.MinMaxNorm
---@overload fun(options?: {min_value?: number, max_value?: number, rate?: number, axis?: integer|any}): keras.constraints.MinMaxNorm
constraints.MinMaxNorm = {}

---Negative weights become 0.
---@class keras.constraints.NonNeg
---@overload fun(): keras.constraints.NonNeg
constraints.NonNeg = {}

---Vectors along an axis of length 1.
---@class keras.constraints.UnitNorm
---@overload fun(options?: {axis?: integer|any}): keras.constraints.UnitNorm
constraints.UnitNorm = {}

---Square kernels the same in all directions from their middle: a value for each ring.
---@class keras.constraints.RadialConstraint
---@overload fun(): keras.constraints.RadialConstraint
constraints.RadialConstraint = {}

---x
function activations.linear(...) end

---max(x, 0); alpha, max_value and threshold as in the layer ReLU
function activations.relu(...) end

---min(max(x, 0), 6)
function activations.relu6(...) end

---x above 0, alpha·x below
function activations.leaky_relu(...) end

---x above 0, alpha·(eˣ − 1) below
function activations.elu(...) end

---scaled ELU with fixed constants
function activations.selu(...) end

---x·Φ(x); approximate = true takes the tanh formula
function activations.gelu(...) end

---x·σ(x)
function activations.silu(...) end

---x·σ(x)
function activations.swish(...) end

---1 / (1 + e⁻ˣ)
function activations.sigmoid(...) end

---0.2·x + 0.5, from 0 to 1
function activations.hard_sigmoid(...) end

---tanh(x)
function activations.tanh(...) end

---log(1 + eˣ)
function activations.softplus(...) end

---x / (1 + |x|)
function activations.softsign(...) end

---eˣ
function activations.exponential(...) end

---eˣ / Σeˣ along an axis
function activations.softmax(...) end

---log of softmax
function activations.log_softmax(...) end

---the function of a name
function activations.get(...) end

---Makes the weights of a model, given the shape of its input with the batch (-1: unknown).
function Model:build(...) end

---Says how the model trains: optimizer, loss, metrics, loss_weights, weighted_metrics, steps_per_execution, max_programs.
function Model:compile(...) end

---compute_loss(x, y, y_pred), for own train_steps: the loss of a batch, as given to compile. Updates the running means.
function Model:compute_loss(...) end

---The mask of the outputs of a functional model; nil of others, whose call alone knows it.
function Model:compute_mask(...) end

---Loss and metrics of data: a number, a list, or with return_dict a table by name.
function Model:evaluate(...) end

---Trains. Give a dataset, or x and y; then epochs, steps_per_epoch, batch_size, verbose, callbacks, validation_split, validation_data, shuffle, class_weight, sample_weight, initial_epoch, validation_steps, validation_batch_size, validation_freq. Returns a History.
function Model:fit(...) end

---The layer of a name, or the one at a position (from 0; negative from the end).
function Model:get_layer(...) end

---A copy of the assignment: one entry for each layer (Sequential) or call.
function Model:get_pipeline_stage_assignment(...) end

---The values of the weights.
function Model:get_weights(...) end

---The numbers of each layer's output for a batch. The list holds tables of {layer, class, shape, dtype, mean, std, zeros, nan}, and prints as a table. With labels there is gradient_norm too: of the loss by the layer's weights, as a training step has it. The model is built, and stays as it is.
function Model:inspect(...) end

---Whether the model's layers are assigned to stages of a pipeline.
function Model:is_pipelined(...) end

---Sets the weights from a file. by_name: only weights that the file has; skip_mismatch: of these only weights of the same shapes.
function Model:load_weights(...) end

---The outputs for data, in its order: a tensor, or a structure of them.
function Model:predict(...) end

---The outputs for one batch.
function Model:predict_on_batch(...) end

---The prediction of a batch.
function Model:predict_step(...) end

---Prints which layer is in which stage.
function Model:print_pipeline_stage_assignment_summary(...) end

---Sets all metrics back to their beginning.
function Model:reset_metrics(...) end

---The model is no longer pipelined.
function Model:reset_pipeline_stage_assignment(...) end

---Sets the states that stateful layers keep between batches to zero, in nested models, too.
function Model:reset_states(...) end

---Writes the whole model to a .safetensors file: architecture, weights, compile's arguments, the optimizer's state.
function Model:save(...) end

---Writes the weights to a .safetensors or .npz file, and beside them what layers have learnt by adapt.
function Model:save_weights(...) end

---Whether callbacks run for each step, rather than once for each execution.
function Model:set_asynchronous_callbacks(...) end

---Gradient accumulation of training that isn't pipelined.
function Model:set_gradient_accumulation_options(...) end

---Options of the model's infeeds: prefetch_depth, optimise_latency.
function Model:set_infeed_queue_options(...) end

---Options of the model's outfeeds: buffer_depth, optimise_latency. Neither changes anything: there is room for all values.
function Model:set_outfeed_queue_options(...) end

---Says which pipeline stage each layer belongs to: integers or assignments (Sequential), or the assignments of get_pipeline_stage_assignment() with their pipeline_stage set.
function Model:set_pipeline_stage_assignment(...) end

---Options of pipelined training; options of ipu.pipeline that the model doesn't set itself.
function Model:set_pipelining_options(...) end

---How the metrics of replicas become one value: NONE (the last one's), LIST, SUM, MEAN.
function Model:set_replication_options(...) end

---Prints the table of layers. Options: line_length, positions, style, ipu, print_fn, expand_nested (the layers of models in this one, too), show_trainable (Y or N for each layer).
function Model:summary(...) end

---Loss and metrics of one batch.
function Model:test_on_batch(...) end

---One test step: a table of logs.
function Model:test_step(...) end

---The architecture as JSON.
function Model:to_json(...) end

---One weight update on one batch; loss and metrics of it.
function Model:train_on_batch(...) end

---One training step. Models may define their own, which is traced; it returns a table of logs.
function Model:train_step(...) end

---The base of all callbacks; extend it with any of `on_{train,test,predict}_{begin,end}(logs)`, `on_epoch_{begin,end}(epoch, logs)`, `on_{train,test,predict}_batch_{begin,end}(batch, logs, info)`, `on_batch_{begin,end}` (of fit alone); at a batch's end info holds step_first, step_last, samples, and in training updates. Of predict, a batch's logs hold its `outputs`. `self.model`, `self.params`; `get_state` and `set_state(state)` are for BackupAndRestore.
---@class keras.callbacks.Callback
---@overload fun(): keras.callbacks.Callback
callbacks.Callback = {}

---Several callbacks as one, made of a list of them, as fit makes one of its list.
---@class keras.callbacks.CallbackList: keras.callbacks.Callback
---@overload fun(): keras.callbacks.CallbackList
callbacks.CallbackList = {}

---Collects the numbers that training reported: `history`, a list for each number, and `epoch`. `history:plot()` draws curves in letters on standard output, `history:plot("run.svg")` into a file.
---@class keras.callbacks.History: keras.callbacks.Callback
---@overload fun(): keras.callbacks.History
callbacks.History = {}

---Functions as a callback: {on_epoch_end = function(epoch, logs) … end}.
---@class keras.callbacks.LambdaCallback: keras.callbacks.Callback
---@overload fun(options?: {on_epoch_begin?: function, on_epoch_end?: function, on_batch_begin?: function, on_batch_end?: function, on_train_begin?: function, on_train_end?: function, on_test_begin?: function, on_test_end?: function, on_predict_begin?: function, on_predict_end?: function, on_train_batch_begin?: function, on_train_batch_end?: function, on_test_batch_begin?: function, on_test_batch_end?: function, on_predict_batch_begin?: function, on_predict_batch_end?: function}): keras.callbacks.LambdaCallback
callbacks.LambdaCallback = {}

---Ends training when a metric has not become better for `patience` epochs.
---@class keras.callbacks.EarlyStopping: keras.callbacks.Callback
---@overload fun(options?: {monitor?: string, min_delta?: number, patience?: integer, verbose?: integer, mode?: string, baseline?: number, restore_best_weights?: boolean, start_from_epoch?: integer}): keras.callbacks.EarlyStopping
callbacks.EarlyStopping = {}

---Saves the model (or its weights) at each epoch's end, or each save_freq steps; save_best_only: when the metric is the best so far. The path may hold {epoch:02d} and metrics such as {val_loss:.2f}; its folder is made.
---@class keras.callbacks.ModelCheckpoint: keras.callbacks.Callback
---@overload fun(filepath: string, options?: {monitor?: string, verbose?: integer, save_best_only?: boolean, save_weights_only?: boolean, mode?: string, save_freq?: string|integer, initial_value_threshold?: number}): keras.callbacks.ModelCheckpoint
callbacks.ModelCheckpoint = {}

---Saves the whole state of the training (weights, optimizer, random numbers, position in the dataset, metrics, callbacks) at each epoch's end, or each save_freq steps. A later fit begins with it: its weights are bit for bit the weights of a run that was never interrupted. After Ctrl-C the later fit begins with the next step, where executions of several steps were not cut short. double_checkpoint keeps the backup before, too. delete_checkpoint removes them when the training has ended.
---@class keras.callbacks.BackupAndRestore: keras.callbacks.Callback
---@overload fun(backup_dir: string, options?: {save_freq?: string|integer, double_checkpoint?: boolean, delete_checkpoint?: boolean, verbose?: integer}): keras.callbacks.BackupAndRestore
callbacks.BackupAndRestore = {}

---Multiplies the learning rate by `factor` when a metric has not become better for `patience` epochs.
---@class keras.callbacks.ReduceLROnPlateau: keras.callbacks.Callback
---@overload fun(options?: {monitor?: string, factor?: number, patience?: integer, verbose?: integer, mode?: string, min_delta?: number, cooldown?: integer, min_lr?: number}): keras.callbacks.ReduceLROnPlateau
callbacks.ReduceLROnPlateau = {}

---Sets the learning rate at the beginning of each epoch to schedule(epoch, rate).
---@class keras.callbacks.LearningRateScheduler: keras.callbacks.Callback
---@overload fun(schedule: function, options?: {verbose?: integer}): keras.callbacks.LearningRateScheduler
callbacks.LearningRateScheduler = {}

---Ends training when the loss is no number, or infinite.
---@class keras.callbacks.TerminateOnNaN: keras.callbacks.Callback
---@overload fun(options?: {raise_error?: boolean}): keras.callbacks.TerminateOnNaN
callbacks.TerminateOnNaN = {}

---Writes each epoch's metrics as a line of a CSV file.
---@class keras.callbacks.CSVLogger: keras.callbacks.Callback
---@overload fun(filename: string, options?: {separator?: string, append?: boolean}): keras.callbacks.CSVLogger
callbacks.CSVLogger = {}

---Writes event files for TensorBoard into log_dir/train and log_dir/validation; update_freq: "epoch", "batch" or a number of steps. Scalars are written, the graph of the model's layers (write_graph), and each histogram_freq epochs histograms of the weights, with write_images as pictures, too.
---@class keras.callbacks.TensorBoard: keras.callbacks.Callback
---@overload fun(options?: {log_dir?: string, histogram_freq?: integer, write_graph?: boolean, write_images?: boolean, write_steps_per_second?: boolean, update_freq?: string|integer, profile_batch?: any, embeddings_freq?: integer}): keras.callbacks.TensorBoard
callbacks.TensorBoard = {}

---The model of a file that model:save() wrote, with its weights, options, and (compile) its training state.
function models.load_model(...) end

---The model that to_json described, with new weights.
function models.model_from_json(...) end

---The model that a config describes, as model:get_config() gave it, with new weights.
function models.model_from_config(...) end

---Writes a model to a file, as model:save(path) does.
function models.save_model(...) end

---The same architecture with new weights.
function models.clone_model(...) end

---Another name of [Model](models.md#model).
function models.Model(...) end

---Another name of [Sequential](models.md#sequential).
function models.Sequential(...) end

---Class numbers as vectors of 0 and 1.
function utils.to_categorical(...) end

---Vectors along an axis divided by their norm of some order (2: Euclid's, math.huge: the largest element); vectors of length 0 stay.
function utils.normalize(...) end

---Seeds all random numbers: of Lua, of initializers, dropout and shuffling.
function utils.set_random_seed(...) end

---Begins to count the names of layers anew.
function utils.reset_names(...) end

---Draws a model's layers into an .svg or .dot file, or with graphviz a .png, .pdf, .jpg or .gif; returns the DOT text.
function utils.plot_model(...) end

---Another name of `preprocessing.sequence.pad_sequences`.
function utils.pad_sequences(...) end

---Another name of `preprocessing.timeseries_dataset_from_array`.
function utils.timeseries_dataset_from_array(...) end

---Another name of `preprocessing.image_dataset_from_directory`.
function utils.image_dataset_from_directory(...) end

---Another name of `preprocessing.text_dataset_from_directory`.
function utils.text_dataset_from_directory(...) end

---A scope in which names stand for own classes and functions, as `custom_objects` of load_model does for one model. When it is left, get_custom_objects gives the same as before.
function utils.custom_object_scope(...) end

---Names of own classes and functions that every model is loaded with: a table to be changed.
function utils.get_custom_objects(...) end

---Makes models with an own class or function loadable without custom_objects: it is saved as "package>name" and found by that. A class has its own name by default. Returns the class or function.
function utils.register_keras_serializable(...) end

---The name that a class or function has in files: "package>name" if it was registered, else a class' own.
function utils.get_registered_name(...) end

---Another name of `preprocessing.image.array_to_img`.
function utils.array_to_img(...) end

---Another name of `preprocessing.image.img_to_array`.
function utils.img_to_array(...) end

---Another name of `preprocessing.image.load_img`.
function utils.load_img(...) end

---Another name of `preprocessing.image.save_img`.
function utils.save_img(...) end

---The class or function that a name stands for, nil for none: registered, in a scope, or in the given table.
function utils.get_registered_object(...) end

---The characters of a text, sorted; its bytes where it is not UTF-8.
function utils.vocabulary(...) end

---Characters and their numbers: `encode(text)`, `decode(numbers)`, `size`.
---@class keras.utils.Vocabulary
---@overload fun(): keras.utils.Vocabulary
utils.Vocabulary = {}

---The text of numbers; "?" for one that no character has.
function utils.Vocabulary:decode(...) end

---Numbers (from 0) of a text's characters, an int32 tensor.
function utils.Vocabulary:encode(...) end

---Text that a character model (numbers [batch, time] to logits [batch, time, characters]) writes after a prompt. The model sees the last `window` characters (by default as many as its input is long, else 64).
function utils.generate_text(...) end

---A dataset of batches of windows over a series; by position data, targets or nil, sequence_length. A window has sequence_length steps, sampling_rate apart, and begins each sequence_stride steps. With targets elements are pairs: targets[i] belongs to the window that begins at step i. start_index and end_index bound the part of the series that is used. A last smaller batch comes, too, unless drop_remainder is set.
function preprocessing.timeseries_dataset_from_array(...) end

---Batches of the pictures of a folder's folders, and the folders' numbers. `class_names` of the dataset are the folders, `file_paths` the files. Sizes are made equal bilinearly.
function preprocessing.image_dataset_from_directory(...) end

---Batches of the texts of a folder's folders (.txt files, Lua strings, which TextVectorization numbers in `map`), and the folders' numbers. `class_names` of the dataset are the folders, `file_paths` the files.
function preprocessing.text_dataset_from_directory(...) end

---Sequences as the rows of one tensor. Sequences shorter than maxlen (by default the longest one's length) are filled up with `value`, longer ones cut. padding and truncating choose the beginning ("pre") or the end ("post").
function preprocessing.sequence.pad_sequences(...) end

---The probability to keep the word of each rank (0: none; 1: the most frequent). Words are drawn from a text whose frequencies follow Zipf's law: sqrt(sampling_factor / frequency), at most 1.
function preprocessing.sequence.make_sampling_table(...) end

---Pairs of words from a sequence of their numbers (0: no word), and labels. Label 1: words that stand at most window_size apart. Label 0: negative_samples times as many pairs with random words. sampling_table: the probability to keep a word, by its number. With a seed the same each time.
function preprocessing.sequence.skipgrams(...) end

---The words of a text, separated by `split`, in small letters if `lower` is set. Each of the characters of `filters` (by default punctuation but the apostrophe, tabs and line ends) counts as `split`. `keras.preprocessing.text.text_to_word_sequence "Hello, world!"` is {"hello", "world"}.
function preprocessing.text.text_to_word_sequence(...) end

---A number from 1 to n - 1 for each word of a text: its hash, by default MD5. No list of words need be kept. Different words may get the same number.
function preprocessing.text.hashing_trick(...) end

---Numbers the words (or characters) of texts, the most frequent one first. Numbers are Keras' ones, from 1; 0 is no word, and free for padding. Of a text only the num_words - 1 most frequent words count; the others are left out, or become oov_token, which is then number 1. Fields: word_index (word → number), index_word, word_counts, word_docs and index_docs (in how many texts a word or number is), document_count.
---@class keras.preprocessing.text.Tokenizer
---@overload fun(options?: {num_words?: integer, filters?: string, lower?: boolean, split?: string, char_level?: boolean, oov_token?: string, document_count?: integer}): keras.preprocessing.text.Tokenizer
preprocessing.text.Tokenizer = {}

---Counts in how many of the sequences each number is, for sequences_to_matrix with "tfidf"; no word need be known.
function preprocessing.text.Tokenizer:fit_on_sequences(...) end

---Counts the words of texts (a list of strings, or of lists of words) and numbers them anew. Earlier counts are kept.
function preprocessing.text.Tokenizer:fit_on_texts(...) end

---The values that make the tokenizer again, as in Keras: the arguments, and the counts as JSON texts.
function preprocessing.text.Tokenizer:get_config(...) end

---A row of num_words columns for each sequence. The element of a number in the sequence, by mode: 1 ("binary"), its count ("count") or its share of the sequence ("freq"). "tfidf": (1 + log count) · log(1 + document_count / (1 + texts with the word)).
function preprocessing.text.Tokenizer:sequences_to_matrix(...) end

---A text for each sequence of numbers, the words with spaces between them. Numbers without a word, as padding, are left out, or become oov_token.
function preprocessing.text.Tokenizer:sequences_to_texts(...) end

---sequences_to_matrix of the numbers of texts.
function preprocessing.text.Tokenizer:texts_to_matrix(...) end

---The numbers of the words of each text; words that aren't known, or beyond num_words, are left out or become oov_token's.
function preprocessing.text.Tokenizer:texts_to_sequences(...) end

---The tokenizer as JSON, in the form of Keras; tokenizer_from_json reads it.
function preprocessing.text.Tokenizer:to_json(...) end

---The tokenizer that to_json described, here or in Keras.
function preprocessing.text.tokenizer_from_json(...) end

---Numbers as a picture.
function preprocessing.image.array_to_img(...) end

---A picture as numbers.
function preprocessing.image.img_to_array(...) end

---A PNG or JPEG file's picture, of a size where one is wanted.
function preprocessing.image.load_img(...) end

---Writes a picture, by the path's ending as PNG or JPEG. uint8 stays as it is.
function preprocessing.image.save_img(...) end

---Sets it: "float32", "float16", "mixed_float16", …
function mixed_precision.set_global_policy(...) end

---The policy of layers that are given no dtype.
function mixed_precision.global_policy(...) end

---The policy that a layer's dtype argument means.
function mixed_precision.resolve(...) end

---In which dtype a layer computes, and in which it keeps its variables: a dtype, "mixed_float16" or "mixed_bfloat16".
---@class keras.mixed_precision.Policy
---@overload fun(): keras.mixed_precision.Policy
mixed_precision.Policy = {}

---Images (uint8 [60000, 28, 28] and [10000, 28, 28]) and labels (uint8) of handwritten digits: x_train, y_train, x_test, y_test. Without files, digits are drawn.
function datasets.mnist(...) end

---Images of clothes in MNIST's format.
function datasets.fashion_mnist(...) end

---Colour images (uint8 [50000, 32, 32, 3] and [10000, 32, 32, 3]) of ten classes, labels uint8 [n, 1].
function datasets.cifar10(...) end

---As cifar10, of 100 classes (label_mode "fine") or 20 ("coarse").
function datasets.cifar100(...) end

---Film reviews as numbers of words (int32 [n, maxlen], filled up with 0 in front) and labels (0 bad, 1 good). They come from the folders of the Large Movie Review Dataset: train/pos, train/neg, test/pos, test/neg, each with text files.
function datasets.imdb(...) end

---A text as numbers of its characters: those to train on, those to validate with (int32 tensors), and the vocabulary.
function datasets.text(...) end

return {Model = Model, layers = layers, losses = losses, metrics = metrics, optimizers = optimizers, schedules = schedules,
  initializers = initializers, regularizers = regularizers, constraints = constraints, callbacks = callbacks,
  activations = activations, models = models, utils = utils, preprocessing = preprocessing, mixed_precision = mixed_precision,
  datasets = datasets}
