-- Core layers: Dense, shapes, dropout and noise, masking.

local about = require "ipulua.base.parts.about"
local activate = require "ipulua.keras.base.activate"
local activations = require "ipulua.keras.activations"
local blame = require "ipulua.base.blame"
local context = require "ipulua.keras.base.context"
local core = require "ipulua.core"
local InputSpec = require "ipulua.keras.layers.input_spec".InputSpec
local Layer = require "ipulua.keras.base.layer"
local ops = require "ipulua.ops"
local shapes = require "ipulua.keras.base.shapes"
local spatial = require "ipulua.keras.layers.spatial"
local weight_arguments = require "ipulua.keras.layers.weight_arguments"

local keep <const> = require "ipulua.keras.base.layer_fields".keep

local layers = {}

local function declare(name, rows, base)
  local c = Layer.declare(name, rows, base)
  layers[name] = c
  return c
end

-- ------------------------------------------------ dense

---activation(x · kernel + bias) along the last axis.
---@class Dense: Layer
local Dense = declare("Dense", weight_arguments.with_kernel(
  {"units", "integer", range = "[1, inf)"}, {"activation", "activation"}))

Dense.supports_masking = true

function Dense:setup()
  self.activation = self.activation or activations.linear
  self.input_spec = InputSpec{min_ndim = 2}
end

function Dense:build(input_shape)
  local last = input_shape[#input_shape]
  if not last or last < 0 then
    blame.error(string.format("layer '%s': the last axis of the input must be known, got the shape "
      .. "%s", self.name,
      shapes.text(input_shape)), "value")
  end
  self.input_spec = InputSpec{min_ndim = 2, axes = {[-1] = last}}
  self.kernel = weight_arguments.add(self, "kernel", {last, self.units})
  if self.use_bias then self.bias = weight_arguments.add(self, "bias", {self.units}) end
end

function Dense:product(x)
  return ops.matmul(x, self.kernel)
end

function Dense:call(x)
  if x.dtype ~= self.compute_dtype then x = ops.cast(x, self.compute_dtype) end
  local y = self:product(x)
  if self.use_bias then y = ops.nn.bias_add(y, self.bias) end
  return activate(self.activation, y)
end

---Dense, its product done in parts, for less memory on the machine; the same result.
---@class SerialDense: Dense
local SerialDense = declare("SerialDense", weight_arguments.with_kernel(
  {"units", "integer", range = "[1, inf)"},
  {"serialization_factor", "integer", range = "[1, inf)",
    says = "changes no number; in how many parts"},
  {"serialization_dimension", "string", choices = {"input_columns", "input_rows_kernel_columns",
    "kernel_rows"},
    says = "the part that is cut; changes no number"},
  {"activation", "activation"}), Dense)

local serial_names <const> = {
  input_columns = "a_columns", input_rows_kernel_columns = "a_rows_b_columns",
  kernel_rows = "b_rows",
}

local function check_factor(self, what, extent)
  if extent % self.serialization_factor == 0 then return end
  blame.error(string.format("SerialDense: 'serialization_factor' %d does not divide %s %d",
    self.serialization_factor, what, extent),
    "value")
end

function SerialDense:setup()
  Dense.setup(self)
  if self.serialization_dimension == "kernel_rows" then
    check_factor(self, "'units'", self.units)
  end
end

function SerialDense:build(input_shape)
  Dense.build(self, input_shape)
  if self.serialization_dimension == "input_rows_kernel_columns" then
    check_factor(self, "the last axis of the input,", input_shape[#input_shape])
  end
end

function SerialDense:product(x)
  -- of the same shape; a batch that is not known yet can't be divided
  if context.inferring then return Dense.product(self, x) end
  local shape = x.shape
  -- all rows are columns of one matrix to be cut
  local rows = #shape > 2 and ops.reshape(x, {-1, shape[#shape]}) or x
  if self.serialization_dimension == "input_columns" then
    check_factor(self, "the number of rows of the input,", rows.shape[1])
  end
  local y = ops.serialized_matmul(rows, self.kernel,
    {serialization_factor = self.serialization_factor,
    serialization_dimension = serial_names[self.serialization_dimension]})
  shape[#shape] = self.units
  return #shape > 2 and ops.reshape(y, shape) or y
end

-- ------------------------------------------------ activation

---An activation function as a layer.
---@class Activation: Layer
local Activation = declare("Activation", {{"activation", "activation"}})
Activation.supports_masking = true
function Activation:setup() self.activation = self.activation or activations.linear end
function Activation:call(x) return activate(self.activation, x) end

-- ------------------------------------------------ shapes

---The beginning of a functional model; keras.Input makes it.
---@class InputLayer: Layer
local InputLayer = declare("InputLayer", {
  {"input_shape", {"integers", "integer"}, optional = true, list = true},
})

function InputLayer:setup()
  rawset(self, "built", true)
  keep(self, "_shapeless", true)
end

function InputLayer:call(x) return x end -- luacheck: ignore 212

-- How many elements a sample has; no quotient, since a batch may have no sample.
local function sample_size(x)
  local count = 1
  for axis, extent in ipairs(x.shape) do count = axis > 1 and count * extent or 1 end
  return count
end

---Everything but the batch in one axis.
---@class Flatten: Layer
local Flatten = declare("Flatten", {
  {"data_format", "string", "channels_last", choices = {"channels_last", "channels_first"}},
})
function Flatten:call(x)
  local shape = x.shape
  if self.data_format == "channels_first" and #shape > 2 then
    local perm = {0}
    for axis = 2, #shape - 1 do perm[#perm + 1] = axis end
    perm[#perm + 1] = 1
    x = ops.transpose(x, perm)
  end
  return ops.reshape(x, {shape[1], sample_size(x)})
end

---The same elements in another shape; one extent may be -1.
---@class Reshape: Layer
local Reshape = declare("Reshape", {{"target_shape", {"integers", "integer"}, list = true}})
function Reshape:setup()
  if type(self.target_shape) == "number" then self.target_shape = {self.target_shape} end
end
function Reshape:call(x)
  local shape = {x.shape[1]}
  table.move(self.target_shape, 1, #self.target_shape, 2, shape)
  local size, known, open = sample_size(x), 1, nil
  for i = 2, #shape do
    if shape[i] < 0 then open = i else known = known * shape[i] end
  end
  local fits = not open and known == size or open and known > 0 and size % known == 0
  if fits and open then shape[open] = size // known end
  if not fits then
    blame.error(
      string.format("layer '%s': an input of the shape %s can't become %s for each sample",
        self.name,
      shapes.text(x.shape), shapes.text(self.target_shape)), "value")
  end
  return ops.reshape(x, shape)
end

---Axes in another order; dims counts from 1, the batch being 0.
---@class Permute: Layer
local Permute = declare("Permute", {{"dims", "integers", list = true}})
function Permute:setup()
  local sorted = table.move(self.dims, 1, #self.dims, 1, {})
  table.sort(sorted)
  for i, d in ipairs(sorted) do
    if d ~= i then
      blame.error(string.format("Permute: 'dims' must hold 1 … %d in some order, got %s", #sorted,
        shapes.text(self.dims)),
        "value")
    end
  end
  self.input_spec = InputSpec{ndim = #self.dims + 1}
end
function Permute:call(x)
  return ops.transpose(x, table.move(self.dims, 1, #self.dims, 2, {0}))
end

---Each sample n times along a new axis.
---@class RepeatVector: Layer
local RepeatVector = declare("RepeatVector", {{"n", "integer", range = "[1, inf)"}})
RepeatVector.input_spec = InputSpec{ndim = 2}
function RepeatVector:call(x)
  return ops.tile(ops.expand_dims(x, 1), {1, self.n, 1})
end

-- ------------------------------------------------ dropout and noise

---In training, each element is 0 with probability rate; the others are scaled to keep the sum.
---@class Dropout: Layer
local Dropout = declare("Dropout", {
  {"rate", "number", range = "[0, 1]"},
  {"noise_shape", "integers", optional = true}, {"seed", "integer", optional = true},
})
Dropout.supports_masking = true

function Dropout:mask_shape() return self.noise_shape end

function Dropout:call(x, options)
  if not options.training or self.rate == 0 then return ops.identity(x) end
  if self.rate >= 1 then return ops.zeros_like(x) end
  return ops.nn.dropout(x, {rate = self.rate, noise_shape = self:mask_shape(x), seed = self.seed})
end

-- Whole feature maps are dropped.
for name, rank in pairs{SpatialDropout1D = 3, SpatialDropout2D = 4, SpatialDropout3D = 5} do
  local c = declare(name, {
    {"rate", "number", range = "[0, 1)"}, {"seed", "integer", optional = true},
    rank > 3 and spatial.format_row or nil,
  }, Dropout)
  c.input_spec = InputSpec{ndim = rank}
  function c:mask_shape(x)
    local shape = x.shape
    local first = self.data_format == "channels_first" and 3 or 2
    for i = first, first + rank - 3 do shape[i] = 1 end
    return shape
  end
end

---In training, adds normally distributed noise.
---@class GaussianNoise: Layer
local GaussianNoise = declare("GaussianNoise",
  {{"stddev", "number", range = "[0, inf)"}, {"seed", "integer", optional = true}})
GaussianNoise.supports_masking = true
function GaussianNoise:call(x, options)
  if not options.training then return ops.identity(x) end
  return x + ops.cast(ops.random.normal(x.shape, {stddev = self.stddev, seed = self.seed}), x.dtype)
end

---In training, multiplies by normally distributed noise around 1.
---@class GaussianDropout: Layer
local GaussianDropout = declare("GaussianDropout", {{"rate", "number", range = "[0, 1)"},
  {"seed", "integer", optional = true}})
GaussianDropout.supports_masking = true
function GaussianDropout:call(x, options)
  if not options.training or self.rate == 0 then return ops.identity(x) end
  local deviation = math.sqrt(self.rate / (1 - self.rate))
  return x * ops.cast(ops.random.normal(x.shape, {mean = 1, stddev = deviation, seed = self.seed}),
    x.dtype)
end

-- SELU's lower limit: dropped elements take it (Klambauer et al. 2017, section 3).
local selu_limit <const> = -1.0507009873554805 * 1.6732632423543772

---Dropout that keeps mean and variance of SELU's outputs.
---@class AlphaDropout: Layer
local AlphaDropout = declare("AlphaDropout", {{"rate", "number", range = "[0, 1)"},
  {"noise_shape", "integers", optional = true}, {"seed", "integer", optional = true}})
AlphaDropout.supports_masking = true
function AlphaDropout:call(x, options)
  if not options.training or self.rate == 0 then return ops.identity(x) end
  local shape = x.shape
  for i, extent in ipairs(self.noise_shape or {}) do
    shape[i] = extent < 0 and shape[i] or extent
  end
  local noise = ops.random.uniform(shape, {seed = self.seed})
  local kept = ops.cast(ops.greater_equal(noise, self.rate), x.dtype)
  local a = ((1 - self.rate) * (1 + self.rate * selu_limit ^ 2)) ^ -0.5
  local b = -a * selu_limit * self.rate
  return (x * kept + (1 - kept) * selu_limit) * a + b
end

---Adds to the model's loss a penalty on its input.
---@class ActivityRegularization: Layer
local ActivityRegularization = declare("ActivityRegularization",
  {{"l1", "number", 0}, {"l2", "number", 0}})
ActivityRegularization.supports_masking = true
function ActivityRegularization:setup()
  if self.activity_regularizer ~= nil then
    blame.error("ActivityRegularization: its penalty is given by 'l1' and 'l2', not as "
      .. "'activity_regularizer'", "value")
  end
  rawset(self, "activity_regularizer",
    require "ipulua.keras.regularizers".L1L2{l1 = self.l1, l2 = self.l2})
end
function ActivityRegularization:get_config()
  local config = Layer.get_config(self)
  config.activity_regularizer = nil -- which is made of l1 and l2
  return config
end
function ActivityRegularization:call(x) return ops.identity(x) end -- luacheck: ignore 212

-- ------------------------------------------------ masking

---Steps whose features all equal mask_value are 0 and masked.
---@class Masking: Layer
local Masking = declare("Masking", {{"mask_value", "number", 0}})
Masking.supports_masking = true
function Masking:call(x)
  local used = ops.reduce_any(ops.not_equal(x, self.mask_value), {axis = -1, keepdims = true})
  local y = ops.where(used, x, ops.zeros_like(x)) -- a product with 0 keeps what is infinite
  context.set_mask(y, ops.squeeze(used, {axis = -1}))
  return y
end
function Masking:compute_mask(x)
  return ops.reduce_any(ops.not_equal(x, self.mask_value), {axis = -1})
end

-- ------------------------------------------------ IPU

---Marks a point where recomputation may begin; the value itself.
---@class RecomputationCheckpoint: Layer
local RecomputationCheckpoint = declare("RecomputationCheckpoint", {})
RecomputationCheckpoint.supports_masking = true
function RecomputationCheckpoint:call(x) -- luacheck: ignore 212
  local checkpoint = core.ops.recomputation_checkpoint
  return checkpoint and checkpoint(x) or ops.identity(x)
end

---Promises that a value is equal on all replicas; the value itself.
---@class AssumeEqualAcrossReplicas: Layer
local AssumeEqualAcrossReplicas = declare("AssumeEqualAcrossReplicas", {{"inplace", "boolean",
  false, says = "changes nothing"}})
AssumeEqualAcrossReplicas.supports_masking = true
function AssumeEqualAcrossReplicas:call(x) -- luacheck: ignore 212
  return ops.assume_equal_across_replicas(x)
end

about.say("layers", {
  {"InputLayer", section = "Core", sample = "InputLayer{input_shape = {4}}",
    wrong = "InputLayer{shapes = {4}}", shapes = "[batch_size or -1, input_shape…]"},
  {"Dense", section = "Core", sample = "Dense(4)", input = {2, 3}, wrong = "Dense(-1)",
    is = "[batch, ..., features] → [batch, ..., units]"},
  {"SerialDense", source = "ipu.keras.layers.SerialDense of Graphcore's TensorFlow 2.6",
    section = "Core",
    sample = "SerialDense(4, 2, \"kernel_rows\")", input = {2, 3}, wrong = "SerialDense{4}",
    is = "[batch, ..., features] → [batch, ..., units]"},
  {"Activation", takes_one = true, section = "Core", sample = "Activation(\"relu\")",
    input = {2, 3}, wrong = "Activation(\"reluu\")", is = "[batch, ...] → [batch, ...]"},
  {"Flatten", takes_one = true, section = "Core", sample = "Flatten()", input = {2, 6, 6, 3},
    wrong = "Flatten{data_format = \"last\"}",
    is = "[batch, rows, cols, channels] → [batch, rows * cols * channels]"},
  {"Reshape", takes_one = true, section = "Core", sample = "Reshape{3, -1}", input = {2, 6},
    wrong = {2, 7}, is = "[batch, ...] → [batch, ...']", also = "...' is target_shape"},
  {"Permute", takes_one = true, section = "Core", sample = "Permute{2, 1}", input = {2, 3, 4},
    wrong = "Permute{2, 3}", is = "[batch, a, b] → [batch, b, a]"},
  {"RepeatVector", section = "Core", sample = "RepeatVector(3)", input = {2, 4}, wrong = {2, 3, 4},
    is = "[batch, features] → [batch, n, features]"},
  {"Masking", section = "Core", sample = "Masking()", input = {2, 3, 4},
    wrong = "Masking{mask_value = \"none\"}",
    is = "[batch, steps, features] → [batch, steps, features]"},
  {"ActivityRegularization", section = "Core", sample = "ActivityRegularization{l2 = 0.01}",
    input = {2, 3}, wrong = "ActivityRegularization{l3 = 1}", is = "[batch, ...] → [batch, ...]"},
  {"RecomputationCheckpoint",
    source = "ipu.keras.layers.RecomputationCheckpoint of Graphcore's TensorFlow 2.6",
    section = "Core", sample = "RecomputationCheckpoint()", input = {2, 3},
    wrong = "RecomputationCheckpoint{inplace = true}", is = "[batch, ...] → [batch, ...]"},
  {"AssumeEqualAcrossReplicas", source = "ipu.keras.layers.AssumeEqualAcrossReplicas of "
    .. "Graphcore's TensorFlow 2.6", section = "Core", sample = "AssumeEqualAcrossReplicas()",
    input = {2, 3}, wrong = "AssumeEqualAcrossReplicas{inplace = 3}",
    is = "[batch, ...] → [batch, ...]"},
  {"Dropout", source = "Srivastava et al. 2014 (JMLR 15)", takes_one = true,
    section = "Dropout and noise", sample = "Dropout(0.5)", input = {2, 3}, wrong = "Dropout(1.5)",
    is = "[batch, ...] → [batch, ...]"},
  {"SpatialDropout1D", text = "Dropout of whole channels of a sequence.",
    source = "arXiv:1411.4280", section = "Dropout and noise", sample = "SpatialDropout1D(0.5)",
    input = {2, 5, 3}, wrong = {2, 3}, is = "[batch, steps, channels] → [batch, steps, channels]"},
  {"SpatialDropout2D", text = "Dropout of whole channels of a picture.", source = "arXiv:1411.4280",
    section = "Dropout and noise", sample = "SpatialDropout2D(0.5)", input = {2, 6, 6, 3},
    wrong = {2, 3}, is = "[batch, rows, cols, channels] → [batch, rows, cols, channels]"},
  {"SpatialDropout3D", text = "Dropout of whole channels of a volume.", source = "arXiv:1411.4280",
    section = "Dropout and noise", sample = "SpatialDropout3D(0.5)", input = {2, 4, 4, 4, 3},
    wrong = {2, 3}, is = "[batch, depth, rows, cols, channels] → [batch, depth, rows, cols, "
    .. "channels]"},
  {"GaussianNoise", takes_one = true, section = "Dropout and noise", sample = "GaussianNoise(0.1)",
    input = {2, 3}, wrong = "GaussianNoise(-1)", is = "[batch, ...] → [batch, ...]"},
  {"GaussianDropout", source = "Srivastava et al. 2014 (JMLR 15)", takes_one = true,
    section = "Dropout and noise", sample = "GaussianDropout(0.3)", input = {2, 3},
    wrong = "GaussianDropout(1)", is = "[batch, ...] → [batch, ...]"},
  {"AlphaDropout", source = "arXiv:1706.02515", takes_one = true, section = "Dropout and noise",
    sample = "AlphaDropout(0.3)", input = {2, 3}, wrong = "AlphaDropout(2)",
    is = "[batch, ...] → [batch, ...]"},
}, layers)

return layers
