-- Normalization layers.

local about = require "ipulua.base.parts.about"
local Layer = require "ipulua.keras.base.layer"
local Dataset = require "ipulua.data.dataset"
local args = require "ipulua.base.args"
local blame = require "ipulua.base.blame"
local class = require "ipulua.base.class"
local context = require "ipulua.keras.base.context"
local core = require "ipulua.core"
local counted = require "ipulua.base.counted"
local distributed_norm = require "ipulua.trace.distributed_norm"
local learned = require "ipulua.base.learned"
local ops = require "ipulua.ops"
local weight_arguments = require "ipulua.keras.layers.weight_arguments"

local layers = {}

local affine_rows <const> = {
  {"center", "boolean", true}, {"scale", "boolean", true},
  {"beta_initializer", "initializer", "zeros"},
  {"gamma_initializer", "initializer", "ones"}, {"beta_regularizer", "regularizer"},
  {"gamma_regularizer", "regularizer"},
  {"beta_constraint", "constraint"}, {"gamma_constraint", "constraint"},
}

local function rows_of(...)
  local rows = {...}
  return table.move(affine_rows, 1, #affine_rows, #rows + 1, rows)
end

local function declare(name, rows)
  local c = Layer.declare(name, rows)
  c.supports_masking = true
  layers[name] = c
  return c
end

-- gamma and beta, where the layer has them.
local function add_affine(self, shape)
  if self.scale then self.gamma = weight_arguments.add(self, "gamma", shape) end
  if self.center then self.beta = weight_arguments.add(self, "beta", shape) end
end

-- The variables, or constants without effect instead of them. In mixed precision they stay wide, as
-- the statistics do.
local function affine(self, shape, dtype)
  return self.scale and self:variable("gamma") or core.full(shape, 1, dtype),
    self.center and self:variable("beta") or core.full(shape, 0, dtype)
end

local function axis_of(self, axis, rank)
  local a = axis < 0 and rank + axis or axis
  if a < 0 or a >= rank then
    blame.error(string.format("layer '%s': there is no axis %d in an input of rank %d", self.name,
      axis, rank), "value")
  end
  return a
end

local function known(self, extent)
  if not extent or extent < 0 then
    blame.error(string.format("layer '%s': the extent of the axis to normalise must be known",
      self.name), "value")
  end
  return extent
end

-- ------------------------------------------------ batch

---Normalises by mean and variance of the batch in training, otherwise by their moving averages.
---@class BatchNormalization: Layer
local BatchNormalization = declare("BatchNormalization", {
  {"axis", {"integer", "integers"}, -1}, {"momentum", "number", 0.99, range = "[0, 1]"},
  {"epsilon", "number", 0.001, range = "[0, inf)"}, affine_rows[1], affine_rows[2],
  affine_rows[3], affine_rows[4], {"moving_mean_initializer", "initializer", "zeros"},
  {"moving_variance_initializer", "initializer", "ones"}, affine_rows[5], affine_rows[6],
  affine_rows[7], affine_rows[8],
  {"fused", "boolean", optional = true},
})

function BatchNormalization:setup()
  if type(self.axis) == "table" then
    if #self.axis ~= 1 then
      blame.error("BatchNormalization: 'axis' must be one axis, the channels' one", "value")
    end
    self.axis = self.axis[1]
  end
end

function BatchNormalization:build(input_shape)
  local count = known(self, input_shape[axis_of(self, self.axis, #input_shape) + 1])
  add_affine(self, {count})
  self.moving_mean = self:add_weight{name = "moving_mean", shape = {count},
    initializer = self.moving_mean_initializer,
    trainable = false}
  self.moving_variance = self:add_weight{name = "moving_variance", shape = {count},
    initializer = self.moving_variance_initializer, trainable = false}
end

-- Keras' fused path, taken by images, feeds the moving variance with the unbiased estimate.
local function unbiased(self, x, variance, count)
  if self.fused == false or #x.shape ~= 4 then return variance end
  for _, extent in ipairs(x.shape) do
    if extent < 0 then -- a session feeds it
      local ones = ops.ones_like(ops.cast(x, variance.dtype))
      local n = ops.reduce_sum(ones) / count * distributed_norm.group_size()
      return variance * (n / ops.maximum(n - 1, 1))
    end
  end
  local n = x.size // count * distributed_norm.group_size()
  return n < 2 and variance or variance * (n / (n - 1))
end

local function move(variable, value, momentum)
  value = value.dtype == variable.dtype and value or ops.cast(value, variable.dtype)
  variable:assign(variable * momentum + value * (1 - momentum))
end

function BatchNormalization:call(x, options)
  local axis = axis_of(self, self.axis, #x.shape)
  local count = x.shape[axis + 1]
  local gamma, beta = affine(self, {count}, x.dtype)
  if not (options.training and self.trainable) then
    return (distributed_norm.batch_norm(x, gamma, beta,
      self:variable("moving_mean"), self:variable("moving_variance"),
      {axis = axis, epsilon = self.epsilon}))
  end
  local y, mean, variance = distributed_norm.batch_norm(x, gamma, beta,
    {axis = axis, epsilon = self.epsilon, training = true})
  move(self:variable("moving_mean"), ops.stop_gradient(mean), self.momentum)
  move(self:variable("moving_variance"), ops.stop_gradient(unbiased(self, x, variance, count)),
    self.momentum)
  return y
end

-- ------------------------------------------------ layer

---Normalises by mean and variance over axes of each sample.
---@class LayerNormalization: Layer
local LayerNormalization = declare("LayerNormalization",
  rows_of({"axis", {"integer", "integers"}, -1, check = function(axis)
  if type(axis) == "table" and #axis == 0 then return "must name an axis" end
end}, {"epsilon", "number", 0.001, range = "[0, inf)"}))

local function axes_of(self, rank)
  local list = {}
  for i, axis in ipairs(type(self.axis) == "table" and self.axis or {self.axis}) do
    list[i] = axis_of(self, axis, rank)
  end
  table.sort(list)
  for i = 2, #list do
    if list[i] == list[i - 1] then
      blame.error(string.format("layer '%s': its axis %d is named twice", self.name, list[i]),
        "value")
    end
  end
  return list
end

function LayerNormalization:build(input_shape)
  local shape = {}
  for i, axis in ipairs(axes_of(self, #input_shape)) do
    shape[i] = known(self, input_shape[axis + 1])
  end
  add_affine(self, shape)
end

-- The order of axes that puts the listed ones last (the op takes neighbouring axes), and the order
-- back.
local function axes_last(axes, rank)
  local is_last, order, back = {}, {}, {}
  for _, axis in ipairs(axes) do is_last[axis] = true end
  for axis = 0, rank - 1 do if not is_last[axis] then order[#order + 1] = axis end end
  table.move(axes, 1, #axes, #order + 1, order)
  for i, axis in ipairs(order) do back[axis + 1] = i - 1 end
  return order, back
end

function LayerNormalization:call(x)
  local axes, shape = axes_of(self, #x.shape), {}
  for i, axis in ipairs(axes) do shape[i] = x.shape[axis + 1] end
  local gamma, beta = affine(self, shape, x.dtype)
  if axes[#axes] - axes[1] == #axes - 1 then
    return ops.nn.layer_norm(x, gamma, beta, {axis = axes, epsilon = self.epsilon})
  end
  local order, back = axes_last(axes, #x.shape)
  local last = {}
  for i = 1, #axes do last[i] = -i end
  return ops.transpose(ops.nn.layer_norm(ops.transpose(x, order), gamma, beta,
    {axis = last, epsilon = self.epsilon}), back)
end

-- ------------------------------------------------ groups of channels

local groups_row <const> = {"groups", "integer", 32, of = "integer ≥ 1, or -1",
  says = "-1: one a channel", check = function(n)
  if n < -1 or n == 0 then return "must be positive or -1, got " .. n end
end}

---Normalises groups of channels by their mean and variance over space, each sample by itself.
---@class GroupNormalization: Layer
local GroupNormalization = declare("GroupNormalization", rows_of(groups_row,
  {"axis", "integer", optional = true}, {"epsilon", "number", 0.001, range = "[0, inf)"},
  {"channels_axis", "integer", optional = true},
  {"strided_channel_grouping", "boolean", false}))

function GroupNormalization:setup()
  self.axis = self.axis or self.channels_axis or -1
  self.channels_axis = self.axis
end

function GroupNormalization:build(input_shape)
  local count = known(self, input_shape[axis_of(self, self.axis, #input_shape) + 1])
  local groups = self.groups == -1 and count or self.groups
  if groups < 1 or count % groups ~= 0 then
    blame.error(string.format("layer '%s': %s can't be divided into %s", self.name,
      counted(count, "channel"),
      counted(groups, "group")), "value")
  end
  add_affine(self, {count})
end

function GroupNormalization:call(x)
  local axis = axis_of(self, self.axis, #x.shape)
  local count = x.shape[axis + 1]
  local gamma, beta = affine(self, {count}, x.dtype)
  return ops.nn.group_norm(x, gamma, beta,
    {groups = self.groups == -1 and count or self.groups, channels_axis = axis,
    epsilon = self.epsilon, strided_channel_grouping = self.strided_channel_grouping})
end

---Normalises each channel of each sample by its mean and variance over space.
---@class InstanceNormalization: Layer
local InstanceNormalization = declare("InstanceNormalization",
  rows_of({"channels_axis", "integer", -1},
  {"epsilon", "number", 0.001, range = "[0, inf)"}))
function InstanceNormalization:build(input_shape)
  add_affine(self, {known(self, input_shape[axis_of(self, self.channels_axis, #input_shape) + 1])})
end
function InstanceNormalization:call(x)
  local axis = axis_of(self, self.channels_axis, #x.shape)
  local gamma, beta = affine(self, {x.shape[axis + 1]}, x.dtype)
  return ops.nn.instance_norm(x, gamma, beta, {channels_axis = axis, epsilon = self.epsilon})
end

---Scales each vector along an axis to length 1.
---@class UnitNormalization: Layer
local UnitNormalization = declare("UnitNormalization", {{"axis", {"integer", "integers"}, -1}})
function UnitNormalization:call(x) return ops.nn.l2_normalize(x, {axis = self.axis}) end

---Shifts and scales features by given or adapted mean and variance.
---@class Normalization: Layer
local Normalization = declare("Normalization", {
  {"axis", {"integer", "integers"}, -1,
    says = "axes with a mean for each position; {}, Keras' None: one mean for all numbers"},
  {"mean", "any", optional = true, of = "number, list or tensor", says = "of each feature"},
  {"variance", "any", optional = true, of = "number, list or tensor", says = "of each feature"},
})

Normalization.supports_masking = false -- as for layers that prepare features

local function as_values(value)
  if value == nil then return nil end
  return args.is_tensor(value) and value or core.tensor(value)
end

-- A given value has the kept axes, in their order in the input.
local function along_axes(self, value, shape)
  local axes, extents, places = axes_of(self, #shape), {}, {}
  if #value.shape == 0 or #value.shape > #axes then return value end
  for i = 1, #shape do places[i] = 1 end
  for i, axis in ipairs(axes) do
    extents[i] = known(self, shape[axis + 1])
    places[axis + 1] = extents[i]
  end
  return ops.reshape(ops.broadcast_to(value, extents), places)
end

function Normalization:setup()
  if (self.mean == nil) ~= (self.variance == nil) then
    blame.error("Normalization: give both 'mean' and 'variance', or neither and call adapt(data)",
      "value")
  end
  rawset(self, "mean_value", as_values(self.mean))
  rawset(self, "variance_value", as_values(self.variance))
end

local function has_axes(self) return type(self.axis) ~= "table" or #self.axis > 0 end

-- A vector is a batch of samples with one feature.
local function with_features(self, x)
  if #x.shape > 1 or not has_axes(self) then return x end
  return ops.reshape(x, {-1, 1})
end

local function learn(self, mean, variance)
  if self.mean_value then learned.change(self) end
  rawset(self, "mean_value", mean)
  rawset(self, "variance_value", variance)
  rawset(self, "mean", mean.rank > 0 and mean:totable() or mean:item())
  rawset(self, "variance", variance.rank > 0 and variance:totable() or variance:item())
end

---Takes mean and variance from data: a tensor, or a dataset of batches or of numbers.
function Normalization:adapt(data)
  if not args.is_tensor(data) and not class.is_a(data, Dataset) then
    blame.error("adapt: expected a tensor or a dataset of batches, got "
      .. args.describe(data), "type")
  end
  local list = {}
  if args.is_tensor(data) then list[1] = data else
    for x in data:iter() do list[#list + 1] = #x.shape > 0 and x or ops.reshape(x, {1}) end
  end
  local x = #list == 1 and list[1] or ops.concat(list, {axis = 0})
  x = with_features(self, ops.cast(x, "float32"))
  local kept = {}
  for _, axis in ipairs(type(self.axis) == "table" and self.axis or {self.axis}) do
    kept[axis_of(self, axis, #x.shape)] = true
  end
  local axes = {}
  for axis = 0, #x.shape - 1 do
    if not kept[axis] then axes[#axes + 1] = axis end
  end
  local mean, variance = ops.nn.moments(x, axes, {keepdims = has_axes(self)})
  learn(self, mean, variance)
end

-- A file of weights has both. In Keras they are weights of the layer, in this order:
Normalization.learnt_in_keras = {"mean", "variance", "count"}

function Normalization:_learnt()
  return {mean = self.mean_value, variance = self.variance_value}
end

-- A number stands for all features.
local function check_features(self, name, value, t)
  if value and value.size > 1 and t.size > 1 and value.size ~= t.size then
    blame.error(string.format("layer '%s': the %s has %s in the file, %d in the model", self.name,
      name, counted(t.size, "feature"), value.size), "value")
  end
end

function Normalization:_learning(values)
  local mean, variance = values.mean, values.variance
  if not mean or not variance then
    blame.error(string.format("layer '%s': the file has no %s", self.name,
      mean and "variance" or "mean"), "value")
  end
  check_features(self, "mean", self.mean_value, mean)
  check_features(self, "variance", self.variance_value, variance)
  return function() learn(self, ops.cast(mean, "float32"), ops.cast(variance, "float32")) end
end

function Normalization:call(x)
  -- a model may be made before it learns, or reads what another one learnt
  if not self.mean_value and context.inferring then
    x = with_features(self, x)
    return x.dtype:find("float") and ops.identity(x) or ops.cast(x, self.compute_dtype)
  end
  if not self.mean_value then
    blame.error(string.format("layer '%s': its mean and variance are unknown; give them, or call "
      .. "adapt(data)", self.name),
      "failed_precondition")
  end
  learned.use(self, x)
  x = with_features(self, x)
  if not x.dtype:find("float") then x = ops.cast(x, self.compute_dtype) end
  local mean = along_axes(self, self.mean_value, x.shape)
  local variance = along_axes(self, self.variance_value, x.shape)
  local deviation = ops.maximum(ops.sqrt(variance), 1e-7)
  return (x - ops.cast(mean, x.dtype)) / ops.cast(deviation, x.dtype)
end

about.say("layers", {
  {"BatchNormalization", source = "arXiv:1502.03167", takes_one = true, section = "Normalisation",
    sample = "BatchNormalization()", input = {2, 3}, wrong = "BatchNormalization{axis = 5}",
    is = "[batch, ...] → [batch, ...]"},
  {"LayerNormalization", source = "arXiv:1607.06450; ipu.keras.layers.LayerNormalization of "
    .. "Graphcore's TensorFlow 2.6", takes_one = true, section = "Normalisation",
    sample = "LayerNormalization()", input = {2, 3}, wrong = "LayerNormalization{axis = 7}",
    is = "[batch, ...] → [batch, ...]"},
  {"GroupNormalization", source = "arXiv:1803.08494; ipu.keras.layers.GroupNormalization of "
    .. "Graphcore's TensorFlow 2.6", takes_one = true, section = "Normalisation",
    sample = "GroupNormalization{groups = 3}", input = {2, 6, 6, 3},
    wrong = "GroupNormalization{groups = 2}", is = "[batch, ...] → [batch, ...]"},
  {"InstanceNormalization", source = "arXiv:1607.08022; ipu.keras.layers.InstanceNormalization of "
    .. "Graphcore's TensorFlow 2.6", takes_one = true, section = "Normalisation",
    sample = "InstanceNormalization()", input = {2, 6, 6, 3},
    wrong = "InstanceNormalization{groups = 2}", is = "[batch, ...] → [batch, ...]"},
  {"UnitNormalization", section = "Normalisation", sample = "UnitNormalization()", input = {2, 3},
    wrong = "UnitNormalization{axis = \"last\"}", is = "[batch, ...] → [batch, ...]"},
  {"Normalization", takes_one = true, section = "Normalisation",
    sample = "Normalization{mean = 1, variance = 4}", input = {2, 3},
    wrong = "Normalization{mean = 1}", is = "[batch, ...] → [batch, ...]"},
}, layers)

return layers
