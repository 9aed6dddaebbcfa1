-- Convolutions, and layers that pad, cut and enlarge images and sequences.

local about = require "ipulua.base.parts.about"
local activate = require "ipulua.keras.base.activate"
local activations = require "ipulua.keras.activations"
local blame = require "ipulua.base.blame"
local counted = require "ipulua.base.counted"
local InputSpec = require "ipulua.keras.layers.input_spec".InputSpec
local Layer = require "ipulua.keras.base.layer"
local ops = require "ipulua.ops"
local resize = require "ipulua.keras.base.resize"
local spatial = require "ipulua.keras.layers.spatial"
local weight_arguments = require "ipulua.keras.layers.weight_arguments"

local layers = {}

local filters_row <const> = {"filters", "integer", range = "[1, inf)"}
local sizes <const> = {"integer", "list"}
local kernel_row <const> = {"kernel_size", sizes, range = "[1, inf)"}
local strides_row <const> = {"strides", sizes, 1, range = "[1, inf)"}
local dilation_row <const> = {"dilation_rate", sizes, 1, range = "[1, inf)"}
local groups_row <const> = {"groups", "integer", 1, range = "[1, inf)"}
local activation_row <const> = {"activation", "activation"}
local padding_row <const> = {"padding", "string", "valid", choices = {"valid", "same"}}
local causal_row <const> = {"padding", "string", "valid", choices = {"valid", "same", "causal"},
  says = "causal: zeros before the sequence alone, so no output depends on later steps"}

-- ------------------------------------------------ convolutions

---@class Conv: Layer
local Conv = Layer.declare("Conv", weight_arguments.with_kernel(filters_row, kernel_row,
  strides_row, padding_row, spatial.format_row, dilation_row, groups_row, activation_row))

function Conv:setup()
  local rank = self.space
  self.kernel_size = spatial.list(self, "kernel_size", self.kernel_size, rank)
  self.strides = spatial.list(self, "strides", self.strides, rank)
  self.dilation_rate = spatial.list(self, "dilation_rate", self.dilation_rate, rank)
  self.activation = self.activation or activations.linear
  self.input_spec = InputSpec{ndim = rank + 2}
  if self.filters and self.groups and self.filters % self.groups ~= 0 then
    blame.error(string.format("%s: 'filters', %d, must be divisible by 'groups', %d", self.__name,
      self.filters, self.groups),
      "value")
  end
end

function Conv:add_bias(count)
  if self.use_bias then self.bias = weight_arguments.add(self, "bias", {count}) end
end

function Conv:build(input_shape)
  local channels = spatial.channels(self, input_shape)
  if channels % self.groups ~= 0 then
    blame.error(string.format("layer '%s': the input's %s can't be divided into %d groups",
      self.name,
      counted(channels, "channel"), self.groups), "value")
  end
  self.kernel = weight_arguments.add(self, "kernel",
    spatial.extended(self.kernel_size, channels // self.groups, self.filters))
  self:add_bias(self.filters)
end

function Conv:finish(y)
  if self.use_bias then y = ops.nn.bias_add(y, self.bias) end
  return activate(self.activation, y)
end

Conv.call = spatial.call(function(self, x)
  return self:finish(ops.nn[self.op](x, self.kernel,
    {strides = self.strides, padding = self.padding, dilations = self.dilation_rate,
    groups = self.groups}))
end)

-- Layers of sequences take causal padding as well.
local function take_causal(c)
  local rows = table.move(c.argument_rows, 1, #c.argument_rows, 1, {})
  for i, row in ipairs(rows) do rows[i] = row[1] == "padding" and causal_row or row end
  c.argument_rows = rows
end

local function for_each_rank(base, suffix, list)
  for rank, op in ipairs(list) do
    local c = base:extend("Conv" .. rank .. "D" .. suffix)
    c.space, c.op = rank, op
    layers[c.__name] = c
  end
end

for_each_rank(Conv, "", {"conv1d", "conv2d", "conv3d"})
take_causal(layers.Conv1D)

---@class Conv1D: Layer
---@class Conv2D: Layer
---@class Conv3D: Layer

-- ------------------------------------------------ depthwise and separable

local depthwise_rows <const> = {
  {"use_bias", "boolean", true}, {"depthwise_initializer", "initializer", "glorot_uniform"},
  {"bias_initializer", "initializer", "zeros"}, {"depthwise_regularizer", "regularizer"},
  {"bias_regularizer", "regularizer"},
  {"depthwise_constraint", "constraint"}, {"bias_constraint", "constraint"},
}

---Each channel convolved by itself.
---@class DepthwiseConv2D: Layer
local DepthwiseConv2D = Layer.declare("DepthwiseConv2D",
  table.move(depthwise_rows, 1, #depthwise_rows, 8, {
  kernel_row, strides_row, padding_row, {"depth_multiplier", "integer", 1, range = "[1, inf)"},
  spatial.format_row,
  dilation_row, activation_row,
}), Conv)
layers.DepthwiseConv2D = DepthwiseConv2D
DepthwiseConv2D.space = 2

function DepthwiseConv2D:add_depthwise(channels)
  return weight_arguments.add(self, "depthwise",
    spatial.extended(self.kernel_size, channels, self.depth_multiplier), "depthwise_kernel")
end

function DepthwiseConv2D:build(input_shape)
  local channels = spatial.channels(self, input_shape)
  self.depthwise_kernel = self:add_depthwise(channels)
  self:add_bias(channels * self.depth_multiplier)
end

-- A sequence is an image of one row.
function DepthwiseConv2D:depthwise(x)
  local strides, dilations, kernel = self.strides, self.dilation_rate, self.depthwise_kernel
  if self.space == 2 then
    return ops.nn.depthwise_conv2d(x, kernel,
      {strides = strides, padding = self.padding, dilations = dilations})
  end
  x = ops.expand_dims(x, 1)
  local padding = self.padding
  if padding == "causal" then
    x = ops.pad(x, {{0, 0}, {0, 0}, {(self.kernel_size[1] - 1) * dilations[1], 0}, {0, 0}})
    padding = "valid"
  end
  local y = ops.nn.depthwise_conv2d(x, ops.expand_dims(kernel, 0),
    {strides = {strides[1], strides[1]}, padding = padding,
    dilations = {1, dilations[1]}})
  return ops.squeeze(y, {axis = 1})
end

DepthwiseConv2D.call = spatial.call(function(self, x) return self:finish(self:depthwise(x)) end)

local DepthwiseConv1D = DepthwiseConv2D:extend("DepthwiseConv1D")
layers.DepthwiseConv1D = DepthwiseConv1D
DepthwiseConv1D.space = 1
take_causal(DepthwiseConv1D)

local separable_rows <const> = {
  {"use_bias", "boolean", true}, {"depthwise_initializer", "initializer", "glorot_uniform"},
  {"pointwise_initializer", "initializer", "glorot_uniform"},
  {"bias_initializer", "initializer", "zeros"},
  {"depthwise_regularizer", "regularizer"}, {"pointwise_regularizer", "regularizer"},
  {"bias_regularizer", "regularizer"},
  {"depthwise_constraint", "constraint"}, {"pointwise_constraint", "constraint"},
  {"bias_constraint", "constraint"},
}

---A depthwise convolution, then one that mixes channels.
---@class SeparableConv2D: Layer
local SeparableConv2D = Layer.declare("SeparableConv2D",
  table.move(separable_rows, 1, #separable_rows, 9, {
  filters_row, kernel_row, strides_row, padding_row, spatial.format_row, dilation_row,
  {"depth_multiplier", "integer", 1, range = "[1, inf)"}, activation_row,
}), DepthwiseConv2D)
layers.SeparableConv2D = SeparableConv2D

function SeparableConv2D:build(input_shape)
  local channels = spatial.channels(self, input_shape)
  self.depthwise_kernel = self:add_depthwise(channels)
  local ones = {}
  for i = 1, self.space do ones[i] = 1 end
  self.pointwise_kernel = weight_arguments.add(self, "pointwise",
    spatial.extended(ones, channels * self.depth_multiplier, self.filters), "pointwise_kernel")
  self:add_bias(self.filters)
end

SeparableConv2D.call = spatial.call(function(self, x)
  local pointwise = ops.nn[self.space == 2 and "conv2d" or "conv1d"]
  return self:finish(pointwise(self:depthwise(x), self.pointwise_kernel))
end)

local SeparableConv1D = SeparableConv2D:extend("SeparableConv1D")
layers.SeparableConv1D = SeparableConv1D
SeparableConv1D.space = 1
take_causal(SeparableConv1D)

-- ------------------------------------------------ transposed

---The adjoint of a convolution.
---@class ConvTranspose: Layer
local ConvTranspose = Layer.declare("ConvTranspose", weight_arguments.with_kernel(filters_row,
  kernel_row, strides_row, padding_row,
  {"output_padding", sizes, optional = true, range = "[0, inf)"},
  spatial.format_row,
  dilation_row, activation_row), Conv)

function ConvTranspose:build(input_shape)
  local channels = spatial.channels(self, input_shape)
  self.kernel = weight_arguments.add(self, "kernel",
    spatial.extended(self.kernel_size, self.filters, channels))
  self:add_bias(self.filters)
end

ConvTranspose.call = spatial.call(function(self, x)
  local options = {strides = self.strides, padding = self.padding, dilations = self.dilation_rate}
  if self.output_padding then
    options.output_padding = spatial.list(self, "output_padding", self.output_padding, self.space)
  end
  return self:finish(ops.nn[self.op](x, self.kernel, options))
end)

for_each_rank(ConvTranspose, "Transpose",
  {"conv1d_transpose", "conv2d_transpose", "conv3d_transpose"})

---@class Conv1DTranspose: Layer
---@class Conv2DTranspose: Layer
---@class Conv3DTranspose: Layer

-- ------------------------------------------------ padding and cropping

-- Amounts before and after each spatial axis: a number for all, one for each axis, or pairs.
local function amounts(layer, name, value, rank)
  if rank == 1 and type(value) == "table" and type(value[1]) == "number" then value = {value} end
  local is_list = type(value) == "table"
  local fits = not is_list or #value == rank
  local list = {}
  for i = 1, rank do
    local each = is_list and value[i] or value
    if type(each) ~= "table" then each = {each, each} end
    fits = fits and #each == 2
    for k = 1, 2 do fits = fits and math.type(each[k]) == "integer" and each[k] >= 0 end
    list[i] = each
  end
  if not fits then
    blame.error(string.format("%s: '%s' must be an integer, a list of %d, or a list of %s, none "
      .. "negative", layer.__name, name,
      rank == 1 and 2 or rank, counted(rank, "pair")), "value")
  end
  return list
end

for rank = 1, 3 do
  local padding_name, cropping_name = "ZeroPadding" .. rank .. "D", "Cropping" .. rank .. "D"
  local Padding = Layer.declare(padding_name,
    {{"padding", sizes, 1, list_of = "number"}, spatial.format_row})
  layers[padding_name] = Padding
  Padding.input_spec = InputSpec{ndim = rank + 2}
  function Padding:setup() self.padding = amounts(self, "padding", self.padding, rank) end
  Padding.call = spatial.call(function(self, x)
    local paddings = {{0, 0}}
    table.move(self.padding, 1, rank, 2, paddings)
    paddings[rank + 2] = {0, 0}
    return ops.pad(x, paddings)
  end)

  local Cropping = Layer.declare(cropping_name,
    {{"cropping", sizes, rank == 1 and {1, 1} or 0, list_of = "number"},
    spatial.format_row})
  layers[cropping_name] = Cropping
  Cropping.input_spec = InputSpec{ndim = rank + 2}
  function Cropping:setup() self.cropping = amounts(self, "cropping", self.cropping, rank) end
  Cropping.call = spatial.call(function(self, x)
    local begin, size = {0}, {x.shape[1]}
    for i, pair in ipairs(self.cropping) do
      begin[i + 1], size[i + 1] = pair[1], x.shape[i + 1] - pair[1] - pair[2]
      if size[i + 1] <= 0 then
        blame.error(string.format("layer '%s': cropping %d and %d leaves nothing of an axis of %d",
          self.name, pair[1], pair[2],
          x.shape[i + 1]), "value")
      end
    end
    begin[rank + 2], size[rank + 2] = 0, x.shape[rank + 2]
    return ops.slice(x, begin, size)
  end)
end

-- ------------------------------------------------ enlarging

for rank = 1, 3 do
  local name = "UpSampling" .. rank .. "D"
  local rows = {{"size", sizes, 2, range = "[1, inf)", list_of = "number"}}
  if rank > 1 then rows[2] = spatial.format_row end
  if rank == 2 then
    rows[3] = {"interpolation", "string", "nearest", choices = {"nearest", "bilinear"}}
  end
  local c = Layer.declare(name, rows)
  layers[name] = c
  c.input_spec = InputSpec{ndim = rank + 2}
  function c:setup() self.size = spatial.list(self, "size", self.size, rank) end
  c.call = spatial.call(function(self, x)
    if self.interpolation == "bilinear" then
      return resize.bilinear(x, x.shape[2] * self.size[1], x.shape[3] * self.size[2])
    end
    for i = 1, rank do
      if self.size[i] ~= 1 then x = ops.repeat_n(x, self.size[i], {axis = i}) end
    end
    return x
  end)
end

about.say("layers", {
  {"Conv1D", text = "Filters over a sequence: a product-sum of each window, one number a filter.",
    other_names = {"Convolution1D"}, section = "Convolutions", sample = "Conv1D(4, 3)",
    input = {2, 6, 3}, wrong = {2, 6}, is = "[batch, steps, channels] → [batch, steps', filters]"},
  {"Conv2D", text = "Filters over pictures.", other_names = {"Convolution2D"},
    section = "Convolutions", sample = "Conv2D(4, 3)", input = {2, 6, 6, 3},
    wrong = "Conv2D{4, 3, padding = \"full\"}",
    is = "[batch, rows, cols, channels] → [batch, rows', cols', filters]"},
  {"Conv3D", text = "Filters over volumes.", other_names = {"Convolution3D"},
    section = "Convolutions", sample = "Conv3D(4, 3)", input = {2, 6, 6, 6, 3},
    wrong = {2, 6, 6, 3}, is = "[batch, depth, rows, cols, channels] → [batch, depth', rows', "
    .. "cols', filters]"},
  {"SeparableConv1D", text = "A depthwise convolution of a sequence, then one that mixes channels.",
    source = "arXiv:1610.02357", other_names = {"SeparableConvolution1D"}, section = "Convolutions",
    sample = "SeparableConv1D(4, 3)", input = {2, 6, 3}, wrong = {2, 6},
    is = "[batch, steps, channels] → [batch, steps', filters]"},
  {"SeparableConv2D", source = "arXiv:1610.02357", other_names = {"SeparableConvolution2D"},
    section = "Convolutions", sample = "SeparableConv2D(4, 3)", input = {2, 6, 6, 3},
    wrong = {2, 6}, is = "[batch, rows, cols, channels] → [batch, rows', cols', filters]"},
  {"DepthwiseConv1D", text = "Each channel of a sequence convolved by itself.",
    section = "Convolutions", sample = "DepthwiseConv1D(3)", input = {2, 6, 3}, wrong = {2, 6},
    is = "[batch, steps, channels] → [batch, steps', channels * depth_multiplier]"},
  {"DepthwiseConv2D", source = "arXiv:1610.02357", section = "Convolutions",
    sample = "DepthwiseConv2D(3)", input = {2, 6, 6, 3}, wrong = {2, 6},
    is = "[batch, rows, cols, channels] → [batch, rows', cols', channels * depth_multiplier]"},
  {"Conv1DTranspose", text = "The adjoint of Conv1D: from small to large.",
    source = "arXiv:1603.07285", other_names = {"Convolution1DTranspose"}, section = "Convolutions",
    sample = "Conv1DTranspose{4, 3, strides = 2}", input = {2, 6, 3}, wrong = {2, 6},
    is = "[batch, steps, channels] → [batch, steps', filters]"},
  {"Conv2DTranspose", text = "The adjoint of Conv2D.", source = "arXiv:1603.07285",
    other_names = {"Convolution2DTranspose"}, section = "Convolutions",
    sample = "Conv2DTranspose{4, 3, strides = 2}", input = {2, 6, 6, 3}, wrong = {2, 6},
    is = "[batch, rows, cols, channels] → [batch, rows', cols', filters]"},
  {"Conv3DTranspose", text = "The adjoint of Conv3D.", source = "arXiv:1603.07285",
    other_names = {"Convolution3DTranspose"}, section = "Convolutions",
    sample = "Conv3DTranspose{4, 3, strides = 2}", input = {2, 3, 3, 3, 2}, wrong = {2, 6},
    is = "[batch, depth, rows, cols, channels] → [batch, depth', rows', cols', filters]"},
  {"ZeroPadding1D", text = "Zeros at both ends.", section = "Convolutions",
    sample = "ZeroPadding1D(2)", input = {2, 6, 3}, wrong = {2, 6},
    is = "[batch, steps, channels] → [batch, steps', channels]"},
  {"ZeroPadding2D", text = "Zeros around pictures; `{{top, bottom}, {left, right}}` says where.",
    section = "Convolutions", sample = "ZeroPadding2D(2)", input = {2, 6, 6, 3}, wrong = {2, 6},
    is = "[batch, rows, cols, channels] → [batch, rows', cols', channels]"},
  {"ZeroPadding3D", text = "Zeros around volumes.", section = "Convolutions",
    sample = "ZeroPadding3D(1)", input = {2, 3, 3, 3, 2}, wrong = {2, 6},
    is = "[batch, depth, rows, cols, channels] → [batch, depth', rows', cols', channels]"},
  {"Cropping1D", text = "Cuts off both ends.", takes_one = true, section = "Convolutions",
    sample = "Cropping1D(1)", input = {2, 6, 3}, wrong = {2, 2, 3},
    is = "[batch, steps, channels] → [batch, steps', channels]"},
  {"Cropping2D", text = "Cuts off the edges of pictures.", takes_one = true,
    section = "Convolutions", sample = "Cropping2D(1)", input = {2, 6, 6, 3}, wrong = {2, 6},
    is = "[batch, rows, cols, channels] → [batch, rows', cols', channels]"},
  {"Cropping3D", text = "Cuts off the edges of volumes.", takes_one = true,
    section = "Convolutions", sample = "Cropping3D(1)", input = {2, 4, 4, 4, 2}, wrong = {2, 6},
    is = "[batch, depth, rows, cols, channels] → [batch, depth', rows', cols', channels]"},
  {"UpSampling1D", text = "Each step several times.", section = "Convolutions",
    sample = "UpSampling1D(2)", input = {2, 6, 3}, wrong = {2, 6},
    is = "[batch, steps, channels] → [batch, steps * size, channels]"},
  {"UpSampling2D", text = "Pictures enlarged, by repeating or bilinearly.",
    section = "Convolutions", sample = "UpSampling2D(2)", input = {2, 6, 6, 3},
    wrong = "UpSampling2D{2, interpolation = \"cubic\"}",
    is = "[batch, rows, cols, channels] → [batch, rows * size[1], cols * size[2], channels]"},
  {"UpSampling3D", text = "Volumes enlarged by repeating.", section = "Convolutions",
    sample = "UpSampling3D(2)", input = {2, 3, 3, 3, 2}, wrong = {2, 6},
    is = "[batch, depth, rows, cols, channels] → [batch, depth * size[1], rows * size[2], cols * "
    .. "size[3], channels]"},
}, layers)

return layers
