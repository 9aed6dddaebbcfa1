-- Image layers: sizes, values, and augmentation. Images are [batch, height, width, channels], or
-- one image without the batch.

local about = require "ipulua.base.parts.about"
local blame = require "ipulua.base.blame"
local core = require "ipulua.core"
local InputSpec = require "ipulua.keras.layers.input_spec".InputSpec
local Layer = require "ipulua.keras.base.layer"
local ops = require "ipulua.ops"
local resize = require "ipulua.keras.base.resize"

local layers = {}

local function declare(name, rows)
  local c = Layer.declare(name, rows)
  layers[name] = c
  c.input_spec = InputSpec{min_ndim = 3, max_ndim = 4}
  return c
end

local seed_row <const> = {"seed", "integer", optional = true}
local height_row <const>, width_row <const> = {"height", "integer", range = "[1, inf)"},
  {"width", "integer", range = "[1, inf)"}

local function as_float(layer, x)
  return x.dtype:find("float") and x or ops.cast(x, layer.compute_dtype)
end

-- ------------------------------------------------ values

---x · scale + offset.
---@class Rescaling: Layer
local Rescaling = declare("Rescaling",
  {{"scale", {"number", "list"}}, {"offset", {"number", "list"}, 0}})
Rescaling.input_spec = InputSpec{}
local function factor(value, dtype)
  return type(value) == "number" and value or core.tensor(value, dtype)
end
function Rescaling:call(x)
  x = as_float(self, x)
  return x * factor(self.scale, x.dtype) + factor(self.offset, x.dtype)
end

-- ------------------------------------------------ sizes

local function window(x, top, left, height, width)
  return ops.slice(x, {0, top, left, 0}, {x.shape[1], height, width, x.shape[4]})
end

---Images in another size.
---@class Resizing: Layer
local Resizing = declare("Resizing", {height_row, width_row,
  {"interpolation", "string", "bilinear", choices = {"bilinear", "nearest"}},
  {"crop_to_aspect_ratio", "boolean", false}})

local function to_size(x, height, width, interpolation)
  return resize[interpolation or "bilinear"](x, height, width)
end

-- The largest window in the middle with the proportions of the target.
local function crop_to_aspect(x, height, width)
  local h, w = x.shape[2], x.shape[3]
  local crop_height = math.min(h, math.max(1, math.floor(w * height / width)))
  local crop_width = math.min(w, math.max(1, math.floor(h * width / height)))
  return window(x, (h - crop_height) // 2, (w - crop_width) // 2, crop_height, crop_width)
end

function Resizing:call(x)
  x = as_float(self, x)
  if self.crop_to_aspect_ratio then x = crop_to_aspect(x, self.height, self.width) end
  return to_size(x, self.height, self.width, self.interpolation)
end

---The middle of images; smaller ones are enlarged.
---@class CenterCrop: Layer
local CenterCrop = declare("CenterCrop", {height_row, width_row})

local function center_crop(x, height, width)
  local h, w = x.shape[2], x.shape[3]
  if h < height or w < width then
    return to_size(crop_to_aspect(x, height, width), height, width)
  end
  return window(x, (h - height) // 2, (w - width) // 2, height, width)
end

function CenterCrop:call(x) return center_crop(as_float(self, x), self.height, self.width) end

-- A whole random number from 0 to most, an int32 scalar.
local function random_integer(most, seed)
  local u = ops.random.uniform({1}, {seed = seed})
  return ops.minimum(ops.cast(ops.floor(u * (most + 1)), "int32"), most)
end

---In training a window at a random position, the same for a batch; else the middle.
---@class RandomCrop: Layer
local RandomCrop = declare("RandomCrop", {height_row, width_row, seed_row})

function RandomCrop:call(x, options)
  x = as_float(self, x)
  local h, w = x.shape[2], x.shape[3]
  if not options.training or h < self.height or w < self.width then
    return center_crop(x, self.height, self.width)
  end
  local seed = self.seed
  local rows = ops.arange(self.height) + random_integer(h - self.height, seed)
  local columns = ops.arange(self.width) + random_integer(w - self.width, seed and seed + 1)
  return ops.gather(ops.gather(x, rows, {axis = 1}), columns, {axis = 2})
end

-- ------------------------------------------------ flips

---In training each image is mirrored or not.
---@class RandomFlip: Layer
local RandomFlip = declare("RandomFlip", {
  {"mode", "string", "horizontal_and_vertical",
    choices = {"horizontal", "vertical", "horizontal_and_vertical"}}, seed_row,
})

local function flip(x, axis, seed)
  local chosen = ops.less(ops.random.uniform({x.shape[1], 1, 1, 1}, {seed = seed}), 0.5)
  return ops.where(chosen, ops.reverse(x, axis), x)
end

function RandomFlip:call(x, options)
  if not options.training then return ops.identity(x) end
  local seed = self.seed
  if self.mode ~= "vertical" then x = flip(x, 2, seed) end
  if self.mode ~= "horizontal" then x = flip(x, 1, seed and seed + 1) end
  return x
end

-- ------------------------------------------------ moving, turning, zooming

-- Where positions outside 0 … extent - 1 are read.
local outside = {
  nearest = function(p, extent) return ops.clip_by_value(p, 0, extent - 1) end,
  -- abcd → dcba|abcd|dcba
  reflect = function(p, extent)
    local period = 2 * extent
    p = p - ops.floor((p + 0.5) / period) * period
    return ops.clip_by_value(ops.where(ops.greater(p, extent - 0.5), period - 1 - p, p), 0,
      extent - 1)
  end,
  wrap = function(p, extent)
    return ops.clip_by_value(p - ops.floor((p + 0.5) / extent) * extent, 0, extent - 1)
  end,
}

-- The pixels at whole positions y, x: [batch, n] each, in the images' rows and columns.
local function pixels(images, y, x, fill_mode, fill_value)
  local batch, height, width, channels = table.unpack(images.shape)
  local inside
  if fill_mode == "constant" then
    inside = ops.logical_and(
      ops.logical_and(ops.greater_equal(y, 0), ops.less_equal(y, height - 1)),
      ops.logical_and(ops.greater_equal(x, 0), ops.less_equal(x, width - 1)))
    y, x = ops.clip_by_value(y, 0, height - 1), ops.clip_by_value(x, 0, width - 1)
  else
    y, x = outside[fill_mode](y, height), outside[fill_mode](x, width)
  end
  local first = ops.reshape(ops.arange(batch) * (height * width), {batch, 1})
  local index = first + ops.cast(y, "int32") * width + ops.cast(x, "int32")
  local values = ops.gather(ops.reshape(images, {batch * height * width, channels}), index)
  if not inside then return values end
  return ops.where(ops.expand_dims(inside, -1), values, fill_value)
end

-- The output pixel at row i, column j is read at column m0 j + m1 i + m2 and row m3 j + m4 i + m5.
-- m is a list of [batch, 1] tensors or numbers.
local function transform(layer, images, m)
  local batch, height, width, channels = table.unpack(images.shape)
  local rows, columns = {}, {}
  for i = 0, height - 1 do
    for j = 0, width - 1 do
      rows[#rows + 1], columns[#columns + 1] = i, j
    end
  end
  local i, j = core.tensor({rows}, "float32"), core.tensor({columns}, "float32")
  local x, y = j * m[1] + i * m[2] + m[3], j * m[4] + i * m[5] + m[6]
  local n = height * width
  x, y = ops.broadcast_to(x, {batch, n}), ops.broadcast_to(y, {batch, n})
  local function read(at_y, at_x)
    return pixels(images, at_y, at_x, layer.fill_mode, layer.fill_value)
  end
  local result
  if layer.interpolation == "nearest" then
    result = read(ops.floor(y + 0.5), ops.floor(x + 0.5))
  else
    local y0, x0 = ops.floor(y), ops.floor(x)
    local dy, dx = ops.expand_dims(y - y0, -1), ops.expand_dims(x - x0, -1)
    dy, dx = ops.cast(dy, images.dtype), ops.cast(dx, images.dtype)
    local upper = resize.mixed(read(y0, x0), read(y0, x0 + 1), dx)
    local lower = resize.mixed(read(y0 + 1, x0), read(y0 + 1, x0 + 1), dx)
    result = resize.mixed(upper, lower, dy)
  end
  return ops.reshape(result, {batch, height, width, channels})
end

local fill_rows <const> = {
  {"fill_mode", "string", "reflect", choices = {"reflect", "wrap", "constant", "nearest"}},
  {"interpolation", "string", "bilinear", choices = {"bilinear", "nearest"}}, seed_row,
  {"fill_value", "number", 0},
}

-- A range from a number (both signs) or a pair.
local function range_of(layer, name, value)
  if value == nil then return nil end
  local low, high
  if type(value) == "number" then low, high = -value, value else low, high = value[1], value[2] end
  if type(low) ~= "number" or type(high) ~= "number" or low > high then
    blame.error(string.format("%s: '%s' must be a number, or a pair of a lower and an upper bound",
      layer.__name, name), "value")
  end
  return {low, high}
end

local function draw(range, batch, seed)
  return ops.random.uniform({batch, 1}, {minval = range[1], maxval = range[2], seed = seed})
end

-- In training alone, the result is the layer's `augmented(x)`.
local function augment(self, x, options)
  return options.training and self:augmented(as_float(self, x)) or ops.identity(x)
end

local function rows_of(...)
  local rows = {...}
  return table.move(fill_rows, 1, #fill_rows, #rows + 1, rows)
end

---In training images are moved by a random share of their height and width.
---@class RandomTranslation: Layer
local RandomTranslation = declare("RandomTranslation", rows_of(
  {"height_factor", {"number", "list"},
    says = "share of the height, either way; or {lower, upper}, down being positive"},
  {"width_factor", {"number", "list"},
    says = "share of the width, either way; or {lower, upper}, right being positive"}))
local function read_factors(self)
  rawset(self, "heights", range_of(self, "height_factor", self.height_factor))
  rawset(self, "widths", range_of(self, "width_factor", self.width_factor))
end
RandomTranslation.setup, RandomTranslation.call = read_factors, augment
function RandomTranslation:augmented(x)
  local batch, seed = x.shape[1], self.seed
  local down = draw(self.heights, batch, seed) * x.shape[2]
  local right = draw(self.widths, batch, seed and seed + 1) * x.shape[3]
  return transform(self, x, {1, 0, -right, 0, 1, -down})
end

---In training images are turned by a random share of a full turn.
---@class RandomRotation: Layer
local RandomRotation = declare("RandomRotation", rows_of({"factor", {"number", "list"},
  says = "share of a full turn (2 pi), either way; or {lower, upper}, counter-clockwise being "
  .. "positive"}))
function RandomRotation:setup() rawset(self, "turns", range_of(self, "factor", self.factor)) end
RandomRotation.call = augment
function RandomRotation:augmented(x)
  local angle = draw(self.turns, x.shape[1], self.seed) * (2 * math.pi)
  local c, s = ops.cos(angle), ops.sin(angle)
  local cx, cy = (x.shape[3] - 1) / 2, (x.shape[2] - 1) / 2 -- the middle stays where it is
  return transform(self, x, {c, -s, cx - (c * cx - s * cy), s, c, cy - (s * cx + c * cy)})
end

---In training images are enlarged (negative factors) or made smaller, by a random share.
---@class RandomZoom: Layer
local RandomZoom = declare("RandomZoom", rows_of(
  {"height_factor", {"number", "list"},
    says = "share of the height, either way; or {lower, upper}, negative ones enlarging"},
  {"width_factor", {"number", "list"}, optional = true,
    says = "the same of the width; as the height's by default"}))
RandomZoom.setup, RandomZoom.call = read_factors, augment
function RandomZoom:augmented(x)
  local batch, seed = x.shape[1], self.seed
  local zoom_y = draw(self.heights, batch, seed) + 1
  local zoom_x = self.widths and draw(self.widths, batch, seed and seed + 1) + 1 or zoom_y
  local cx, cy = (x.shape[3] - 1) / 2, (x.shape[2] - 1) / 2
  return transform(self, x, {zoom_x, 0, cx - zoom_x * cx, 0, zoom_y, cy - zoom_y * cy})
end

-- ------------------------------------------------ light

---In training the distance of values from their mean is scaled by a random factor from 1 - lower to
---1 + upper.
---@class RandomContrast: Layer
local RandomContrast = declare("RandomContrast", {
  {"factor", {"number", "list"}, range = "[0, inf)",
    says = "lower and upper, or {lower, upper}; lower is at most 1"}, seed_row,
})
function RandomContrast:setup()
  local f <const> = type(self.factor) == "number" and {self.factor, self.factor} or self.factor
  if type(f[1]) ~= "number" or type(f[2]) ~= "number" or f[1] > 1 then
    blame.error("RandomContrast: 'factor' must be a number from 0 to 1, or {lower, upper} with a "
      .. "lower one of at most 1", "value")
  end
  rawset(self, "range", {-f[1], f[2]})
end
RandomContrast.call = augment
function RandomContrast:augmented(x)
  local mean = ops.reduce_mean(x, {axis = {1, 2}, keepdims = true})
  local scale = ops.random.uniform({},
    {minval = 1 + self.range[1], maxval = 1 + self.range[2], seed = self.seed})
  return (x - mean) * ops.cast(scale, x.dtype) + mean
end

---In training a random share of the range of values is added to each image, which stays in the
---range.
---@class RandomBrightness: Layer
local RandomBrightness = declare("RandomBrightness", {
  {"factor", {"number", "list"}, range = "[-1, 1]",
    says = "share of the range, either way; or {lower, upper}"},
  {"value_range", "list", {0, 255}, says = "{least, greatest} value"},
  seed_row,
})
function RandomBrightness:setup()
  rawset(self, "shares", range_of(self, "factor", self.factor))
  rawset(self, "values", range_of(self, "value_range", self.value_range))
end
RandomBrightness.call = augment
function RandomBrightness:augmented(x)
  local low, high = table.unpack(self.values)
  local share = ops.reshape(draw(self.shares, x.shape[1], self.seed), {x.shape[1], 1, 1, 1})
  return ops.clip_by_value(x + ops.cast(share * (high - low), x.dtype), low, high)
end

-- One image is a batch of one.
local function of_one(call)
  return function(self, x, options)
    if #x.shape ~= 3 then return call(self, x, options) end
    return ops.squeeze(call(self, ops.expand_dims(x, 0), options), {axis = 0})
  end
end

for _, c in pairs(layers) do
  if c ~= Rescaling then c.call = of_one(c.call) end
end

about.say("layers", {
  {"Rescaling", takes_one = true, section = "Pictures", sample = "Rescaling{1 / 255}",
    input = {2, 6, 6, 3}, wrong = "Rescaling()", is = "[batch, ...] → [batch, ...]"},
  {"Resizing", section = "Pictures", sample = "Resizing(4, 4)", input = {2, 6, 6, 3},
    wrong = "Resizing{4, 4, interpolation = \"magic\"}",
    is = "[batch, rows, cols, channels] → [batch, height, width, channels]"},
  {"CenterCrop", section = "Pictures", sample = "CenterCrop(4, 4)", input = {2, 6, 6, 3},
    wrong = "CenterCrop{4}",
    is = "[batch, rows, cols, channels] → [batch, height, width, channels]"},
  {"RandomCrop", section = "Pictures", sample = "RandomCrop(4, 4)", input = {2, 6, 6, 3},
    wrong = "RandomCrop{4}",
    is = "[batch, rows, cols, channels] → [batch, height, width, channels]"},
  {"RandomFlip", section = "Pictures", sample = "RandomFlip(\"horizontal\")", input = {2, 6, 6, 3},
    wrong = "RandomFlip(\"diagonal\")",
    is = "[batch, rows, cols, channels] → [batch, rows, cols, channels]"},
  {"RandomTranslation", section = "Pictures", sample = "RandomTranslation(0.1, 0.1)",
    input = {2, 6, 6, 3}, wrong = "RandomTranslation(0.1)",
    is = "[batch, rows, cols, channels] → [batch, rows, cols, channels]"},
  {"RandomRotation", section = "Pictures", sample = "RandomRotation(0.1)", input = {2, 6, 6, 3},
    wrong = "RandomRotation{0.1, fill_mode = \"black\"}",
    is = "[batch, rows, cols, channels] → [batch, rows, cols, channels]"},
  {"RandomZoom", section = "Pictures", sample = "RandomZoom(0.2)", input = {2, 6, 6, 3},
    wrong = "RandomZoom{0.2, interpolation = \"magic\"}",
    is = "[batch, rows, cols, channels] → [batch, rows, cols, channels]"},
  {"RandomContrast", section = "Pictures", sample = "RandomContrast(0.2)", input = {2, 6, 6, 3},
    wrong = "RandomContrast(-1)",
    is = "[batch, rows, cols, channels] → [batch, rows, cols, channels]"},
  {"RandomBrightness", section = "Pictures", sample = "RandomBrightness(0.2)",
    input = {2, 6, 6, 3}, wrong = "RandomBrightness(2)",
    is = "[batch, rows, cols, channels] → [batch, rows, cols, channels]"},
}, layers)

return layers
