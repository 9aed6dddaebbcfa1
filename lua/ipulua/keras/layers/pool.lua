-- Pooling over windows and over all of space.

local about = require "ipulua.base.parts.about"
local blame = require "ipulua.base.blame"
local InputSpec = require "ipulua.keras.layers.input_spec".InputSpec
local Layer = require "ipulua.keras.base.layer"
local lengths = require "ipulua.keras.base.lengths"
local ops = require "ipulua.ops"
local spatial = require "ipulua.keras.layers.spatial"

local layers = {}

local sizes <const> = {"integer", "integers"}

---@class MaxPooling1D: Layer
---@class MaxPooling2D: Layer
---@class MaxPooling3D: Layer
---@class AveragePooling1D: Layer
---@class AveragePooling2D: Layer
---@class AveragePooling3D: Layer

local function declare_pool(name, rank, op)
  local c = Layer.declare(name, {
    {"pool_size", sizes, 2, range = "[1, inf)"},
    {"strides", sizes, optional = true, range = "[1, inf)"},
    {"padding", "string", "valid", choices = {"valid", "same"}},
    spatial.format_row,
  })
  layers[name] = c
  c.input_spec = InputSpec{ndim = rank + 2}
  function c:setup()
    self.pool_size = spatial.list(self, "pool_size", self.pool_size, rank)
    self.strides = spatial.list(self, "strides", self.strides or self.pool_size, rank)
  end
  c.call = spatial.call(function(self, x)
    if self.padding == "valid" then
      for i = 1, rank do
        if x.shape[i + 1] < self.pool_size[i] then
          blame.error(string.format("layer '%s': a window of %d is larger than the input's axis of "
            .. "%d", self.name,
            self.pool_size[i], x.shape[i + 1]), "value")
        end
      end
    end
    return ops.nn[op](x,
      {ksize = self.pool_size, strides = self.strides, padding = self.padding})
  end)
end

---@class GlobalAveragePooling1D: Layer
---@class GlobalAveragePooling2D: Layer
---@class GlobalAveragePooling3D: Layer
---@class GlobalMaxPooling1D: Layer
---@class GlobalMaxPooling2D: Layer
---@class GlobalMaxPooling3D: Layer

local function declare_global(name, rank, op)
  local c = Layer.declare(name, {spatial.format_row, {"keepdims", "boolean", false}})
  layers[name] = c
  c.input_spec = InputSpec{ndim = rank + 2}
  function c:call(x)
    local first = self.data_format == "channels_first" and 2 or 1
    local axes = {}
    for i = 0, rank - 1 do axes[#axes + 1] = first + i end
    return ops[op](x, {axis = axes, keepdims = self.keepdims})
  end
end

for rank = 1, 3 do
  declare_pool("MaxPooling" .. rank .. "D", rank, "max_pool")
  declare_pool("AveragePooling" .. rank .. "D", rank, "avg_pool")
  declare_global("GlobalMaxPooling" .. rank .. "D", rank, "reduce_max")
  declare_global("GlobalAveragePooling" .. rank .. "D", rank, "reduce_mean")
end

-- A mask leaves steps out of the mean.
local GlobalAveragePooling1D = layers.GlobalAveragePooling1D
local mean_over_time <const> = GlobalAveragePooling1D.call
function GlobalAveragePooling1D:call(x, options)
  local mask = options.mask
  if not mask then return mean_over_time(self, x, options) end
  local axis = self.data_format == "channels_first" and 2 or 1
  local values = lengths.wide(x) -- a sum of halves may be greater than what a half holds
  local weights = ops.expand_dims(ops.cast(mask, values.dtype), axis == 1 and 2 or 1)
  local sum = ops.reduce_sum(values * weights, {axis = axis, keepdims = self.keepdims})
  local mean = sum / ops.reduce_sum(weights, {axis = axis, keepdims = self.keepdims})
  return ops.cast(mean, x.dtype)
end

about.say("layers", {
  {"MaxPooling1D", text = "The greatest of each window.", takes_one = true,
    other_names = {"MaxPool1D"}, section = "Pooling", sample = "MaxPooling1D(2)", input = {2, 6, 3},
    wrong = {2, 1, 3}, is = "[batch, steps, channels] → [batch, steps', channels]"},
  {"MaxPooling2D", text = "The greatest of each window.", takes_one = true,
    other_names = {"MaxPool2D"}, section = "Pooling", sample = "MaxPooling2D(2)",
    input = {2, 6, 6, 3}, wrong = {2, 1, 1, 3},
    is = "[batch, rows, cols, channels] → [batch, rows', cols', channels]"},
  {"MaxPooling3D", text = "The greatest of each window.", takes_one = true,
    other_names = {"MaxPool3D"}, section = "Pooling", sample = "MaxPooling3D(2)",
    input = {2, 4, 4, 4, 3}, wrong = {2, 3},
    is = "[batch, depth, rows, cols, channels] → [batch, depth', rows', cols', channels]"},
  {"AveragePooling1D", text = "The mean of each window.", takes_one = true,
    other_names = {"AvgPool1D"}, section = "Pooling", sample = "AveragePooling1D(2)",
    input = {2, 6, 3}, wrong = {2, 1, 3},
    is = "[batch, steps, channels] → [batch, steps', channels]"},
  {"AveragePooling2D", text = "The mean of each window.", takes_one = true,
    other_names = {"AvgPool2D"}, section = "Pooling", sample = "AveragePooling2D(2)",
    input = {2, 6, 6, 3}, wrong = "AveragePooling2D{2, padding = \"full\"}",
    is = "[batch, rows, cols, channels] → [batch, rows', cols', channels]"},
  {"AveragePooling3D", text = "The mean of each window.", takes_one = true,
    other_names = {"AvgPool3D"}, section = "Pooling", sample = "AveragePooling3D(2)",
    input = {2, 4, 4, 4, 3}, wrong = {2, 3},
    is = "[batch, depth, rows, cols, channels] → [batch, depth', rows', cols', channels]"},
  {"GlobalMaxPooling1D", text = "The greatest over all steps.", other_names = {"GlobalMaxPool1D"},
    section = "Pooling", sample = "GlobalMaxPooling1D()", input = {2, 6, 3}, wrong = {2, 3},
    is = "[batch, steps, channels] → [batch, channels]",
    also = "keepdims: 1 in place of each axis"},
  {"GlobalMaxPooling2D", text = "The greatest over each picture.",
    other_names = {"GlobalMaxPool2D"}, section = "Pooling", sample = "GlobalMaxPooling2D()",
    input = {2, 6, 6, 3}, wrong = {2, 3}, is = "[batch, rows, cols, channels] → [batch, channels]",
    also = "keepdims: 1 in place of each axis"},
  {"GlobalMaxPooling3D", text = "The greatest over each volume.", other_names = {"GlobalMaxPool3D"},
    section = "Pooling", sample = "GlobalMaxPooling3D()", input = {2, 4, 4, 4, 3}, wrong = {2, 3},
    is = "[batch, depth, rows, cols, channels] → [batch, channels]",
    also = "keepdims: 1 in place of each axis"},
  {"GlobalAveragePooling1D", text = "The mean over all steps; a mask leaves steps out.",
    other_names = {"GlobalAvgPool1D"}, section = "Pooling", sample = "GlobalAveragePooling1D()",
    input = {2, 6, 3}, wrong = {2, 3}, is = "[batch, steps, channels] → [batch, channels]",
    also = "keepdims: 1 in place of each axis"},
  {"GlobalAveragePooling2D", text = "The mean over each picture.", source = "arXiv:1312.4400",
    other_names = {"GlobalAvgPool2D"}, section = "Pooling", sample = "GlobalAveragePooling2D()",
    input = {2, 6, 6, 3}, wrong = {2, 3}, is = "[batch, rows, cols, channels] → [batch, channels]",
    also = "keepdims: 1 in place of each axis"},
  {"GlobalAveragePooling3D", text = "The mean over each volume.", other_names = {"GlobalAvgPool3D"},
    section = "Pooling", sample = "GlobalAveragePooling3D()", input = {2, 4, 4, 4, 3},
    wrong = {2, 3}, is = "[batch, depth, rows, cols, channels] → [batch, channels]",
    also = "keepdims: 1 in place of each axis"},
}, layers)

return layers
