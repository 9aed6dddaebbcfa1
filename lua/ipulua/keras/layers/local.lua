-- Convolutions that share no weights: each position of the result has a kernel of its own.

local about = require "ipulua.base.parts.about"
local activate = require "ipulua.keras.base.activate"
local activations = require "ipulua.keras.activations"
local blame = require "ipulua.base.blame"
local InputSpec = require "ipulua.keras.layers.input_spec".InputSpec
local Layer = require "ipulua.keras.base.layer"
local ops = require "ipulua.ops"
local spatial = require "ipulua.keras.layers.spatial"
local weight_arguments = require "ipulua.keras.layers.weight_arguments"

local layers = {}

local local_rows <const> = weight_arguments.with_kernel(
  {"filters", "integer", range = "[1, inf)"},
  {"kernel_size", {"integer", "list"}, range = "[1, inf)"},
  {"strides", {"integer", "list"}, 1, range = "[1, inf)"},
  {"padding", "string", "valid", choices = {"valid"}}, spatial.format_row,
  {"activation", "activation"})
local_rows[#local_rows + 1] = {"implementation", "integer", 1, says = "changes nothing"}

---@class LocallyConnected: Layer
local LocallyConnected = Layer.declare("LocallyConnected", local_rows)

function LocallyConnected:setup()
  for _, name in ipairs{"kernel_size", "strides"} do
    self[name] = spatial.list(self, name, self[name], self.space)
  end
  self.activation = self.activation or activations.linear
  self.input_spec = InputSpec{ndim = self.space + 2}
end

-- The extents of the image and of the result. first: the image's first axis in the shape.
local function extents(self, shape, first)
  local image, result = {}, {}
  for i = 1, self.space do
    image[i] = shape[first + i - 1]
    if not image[i] or image[i] < 0 then
      blame.error(string.format("layer '%s': the extents of its input must be known", self.name),
        "value")
    end
    result[i] = (image[i] - self.kernel_size[i]) // self.strides[i] + 1
    if result[i] < 1 then
      blame.error(string.format("layer '%s': a window of %d does not fit into an input of %d",
        self.name, self.kernel_size[i], image[i]),
        "value")
    end
  end
  return image, result
end

local function product(list)
  local n = 1
  for _, x in ipairs(list) do n = n * x end
  return n
end

function LocallyConnected:build(input_shape)
  local first = self.data_format == "channels_first" and 3 or 2
  local _, result = extents(self, input_shape, first)
  local window = product(self.kernel_size) * spatial.channels(self, input_shape)
  self.kernel = weight_arguments.add(self, "kernel", {product(result), window, self.filters})
  if self.use_bias then
    self.bias = weight_arguments.add(self, "bias", spatial.extended(result, self.filters))
  end
end

-- For each position of the result the pixels of its window, both counted row by row: positions in
-- the image laid flat.
local function windows(self, image, result)
  local positions = {}
  local function walk(extent, f, axis, at)
    if axis > #extent then return f(at) end
    for i = 0, extent[axis] - 1 do
      at[axis] = i
      walk(extent, f, axis + 1, at)
    end
  end
  walk(result, function(to)
    walk(self.kernel_size, function(tap)
      local pixel = 0
      for axis = 1, #image do
        pixel = pixel * image[axis] + to[axis] * self.strides[axis] + tap[axis]
      end
      positions[#positions + 1] = pixel
    end, 1, {})
  end, 1, {})
  return ops.tensor(positions, {dtype = "int32"})
end

LocallyConnected.call = spatial.call(function(self, x)
  local image, result = extents(self, x.shape, 2)
  local batch, channels, places = x.shape[1], x.shape[#x.shape], product(result)
  local pixels = ops.gather(ops.reshape(x, {batch, product(image), channels}),
    windows(self, image, result), {axis = 1})
  local rows = ops.transpose(ops.reshape(pixels, {batch, places, self.kernel.shape[2]}), {1, 0, 2})
  local y = ops.transpose(ops.matmul(rows, self.kernel), {1, 0, 2})
  y = ops.reshape(y,
    {batch,
      table.unpack(table.move({self.filters}, 1, 1, #result + 1,
        table.move(result, 1, #result, 1, {})))})
  if self.use_bias then y = y + self.bias end
  return activate(self.activation, y)
end)

for rank = 1, 2 do
  local c = LocallyConnected:extend("LocallyConnected" .. rank .. "D")
  c.space = rank
  layers[c.__name] = c
end

---@class LocallyConnected1D: LocallyConnected
---@class LocallyConnected2D: LocallyConnected

about.say("layers", {
  {"LocallyConnected1D", text = "Conv1D with a kernel of its own at each position.",
    section = "Convolutions", sample = "LocallyConnected1D{4, 3, strides = 2}", input = {2, 6, 3},
    wrong = {2, 6}, is = "[batch, steps, channels] → [batch, steps', filters]"},
  {"LocallyConnected2D", text = "Conv2D with a kernel of its own at each position.",
    section = "Convolutions", sample = "LocallyConnected2D{4, 3}", input = {2, 6, 6, 3},
    wrong = {2, 6}, is = "[batch, rows, cols, channels] → [batch, rows', cols', filters]"},
}, layers)

return layers
