-- Activations that have parameters, as layers.

local about = require "ipulua.base.parts.about"
local Layer = require "ipulua.keras.base.layer"
local activations = require "ipulua.keras.activations"
local blame = require "ipulua.base.blame"
local ops = require "ipulua.ops"
local weight_arguments = require "ipulua.keras.layers.weight_arguments"

local layers = {}

local function declare(name, rows)
  local c = Layer.declare(name, rows)
  c.supports_masking = true
  layers[name] = c
  return c
end

---max(x, 0), with a slope below the threshold and a greatest value.
---@class ReLU: Layer
local ReLU = declare("ReLU", {
  {"max_value", "number", optional = true, range = "[0, inf)"}, {"negative_slope", "number", 0},
  {"threshold", "number", 0},
})
function ReLU:call(x)
  return activations.relu(x,
    {alpha = self.negative_slope, max_value = self.max_value, threshold = self.threshold})
end

---x above 0, alpha x below; alpha is 0.3 here (0.2 in the function).
---@class LeakyReLU: Layer
local LeakyReLU = declare("LeakyReLU", {{"alpha", "number", 0.3}})
function LeakyReLU:call(x) return ops.nn.leaky_relu(x, {alpha = self.alpha}) end

---x above 0, alpha x below, alpha being learned for each element (or shared along shared_axes).
---@class PReLU: Layer
local PReLU = declare("PReLU", {
  {"alpha_initializer", "initializer", "zeros"}, {"alpha_regularizer", "regularizer"},
  {"alpha_constraint", "constraint"},
  {"shared_axes", {"integers", "integer"}, optional = true, range = "[1, inf)",
    says = "axes after the batch, from 1"},
})
function PReLU:build(input_shape)
  local shape = table.move(input_shape, 2, #input_shape, 1, {})
  local shared = self.shared_axes
  for _, axis in ipairs(type(shared) == "number" and {shared} or shared or {}) do
    if axis > #shape then
      blame.error(string.format("layer '%s': 'shared_axes' count from 1, the first after the "
        .. "batch, to %d, got %d", self.name, #shape,
        axis), "value")
    end
    shape[axis] = 1
  end
  self.alpha = weight_arguments.add(self, "alpha", shape)
end
function PReLU:call(x)
  return ops.nn.relu(x) - self.alpha * ops.nn.relu(-x)
end

---x above 0, alpha (e^x - 1) below.
---@class ELU: Layer
local ELU = declare("ELU", {{"alpha", "number", 1}})
function ELU:call(x) return ops.nn.elu(x, {alpha = self.alpha}) end

---x above theta, else 0.
---@class ThresholdedReLU: Layer
local ThresholdedReLU = declare("ThresholdedReLU", {{"theta", "number", 1, range = "[0, inf)"}})
function ThresholdedReLU:call(x)
  return ops.where(ops.less_equal(x, self.theta), ops.zeros_like(x), x)
end

-- The number by which masked elements are lowered before the softmax.
local masked <const> = {float16 = -65504, bfloat16 = -1e9, float32 = -1e9, float64 = -1e9}

---e^x divided by its sum along an axis (or several); a mask leaves elements out: one of x's shape,
---or of steps.
---@class Softmax: Layer
local Softmax = declare("Softmax", {{"axis", {"integer", "integers"}, -1}})
function Softmax:call(x, options)
  local mask = options.mask
  -- one of steps leaves out all that is in them
  while mask and #mask.shape < #x.shape do mask = ops.expand_dims(mask, -1) end
  if mask then x = x + (1 - ops.cast(mask, x.dtype)) * masked[x.dtype] end
  return activations.softmax(x, {axis = self.axis})
end

about.say("layers", {
  {"ReLU", takes_one = true, section = "Activations as layers", sample = "ReLU{max_value = 6}",
    input = {2, 3}, wrong = "ReLU{max_value = -1}", is = "[batch, ...] → [batch, ...]"},
  {"LeakyReLU", source = "Maas, Hannun & Ng 2013 (ICML)", takes_one = true,
    section = "Activations as layers", sample = "LeakyReLU()", input = {2, 3},
    wrong = "LeakyReLU{slope = 1}", is = "[batch, ...] → [batch, ...]"},
  {"PReLU", source = "arXiv:1502.01852", takes_one = true, section = "Activations as layers",
    sample = "PReLU()", input = {2, 3}, wrong = "PReLU{shared_axes = \"all\"}",
    is = "[batch, ...] → [batch, ...]"},
  {"ELU", source = "arXiv:1511.07289", takes_one = true, section = "Activations as layers",
    sample = "ELU()", input = {2, 3}, wrong = "ELU{alpha = \"1\"}",
    is = "[batch, ...] → [batch, ...]"},
  {"ThresholdedReLU", source = "arXiv:1402.3337", takes_one = true,
    section = "Activations as layers", sample = "ThresholdedReLU()", input = {2, 3},
    wrong = "ThresholdedReLU{theta = -1}", is = "[batch, ...] → [batch, ...]"},
  {"Softmax", takes_one = true, section = "Activations as layers", sample = "Softmax()",
    input = {2, 3}, wrong = "Softmax{axis = \"last\"}", is = "[batch, ...] → [batch, ...]"},
}, layers)

return layers
