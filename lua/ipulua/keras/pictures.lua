-- keras.utils' pictures: files and arrays, as keras.preprocessing.image has them. A picture is a
-- uint8 tensor [height, width, channels].

local args = require "ipulua.base.args"
local blame = require "ipulua.base.blame"
local core = require "ipulua.core"
local image = require "ipulua.data.image"
local ops = require "ipulua.ops"
local resize = require "ipulua.keras.base.resize"

local pictures = {}

local channels_of <const> = {grayscale = 1, rgb = 3, rgba = 4}

local load_rows <const> = {
  {"path", "string"},
  {"color_mode", "string", "rgb", choices = {"grayscale", "rgb", "rgba"}},
  {"target_size", "integers", optional = true, says = "{height, width}; the file's by default"},
  {"interpolation", "string", "nearest", choices = {"nearest", "bilinear"}},
}

local function check_size(who, size)
  if size == nil or #size == 2 and size[1] > 0 and size[2] > 0 then return end
  blame.error(who .. ": 'target_size' must be {height, width}, two positive integers", "value")
end

---A PNG or JPEG file's picture, of a size where one is wanted.
---Shapes: → [height, width, channels], uint8
---Errors: a file that is missing, damaged or of another format, an unknown color_mode:
---`keras.utils.load_img("none.png")`
---@param ... any path, color_mode, target_size, interpolation
---@return userdata
function pictures.load_img(...)
  local a = args.check("load_img", load_rows, ...)
  check_size("load_img", a.target_size)
  local x = core.read_image(a.path, channels_of[a.color_mode])
  if not a.target_size then return x end
  local wide = ops.expand_dims(ops.cast(x, "float32"), 0)
  wide = resize[a.interpolation](wide, a.target_size[1], a.target_size[2])
  return ops.cast(ops.round(ops.squeeze(wide, {axis = 0})), "uint8")
end

local format_row <const> = {"data_format", "string", "channels_last",
  choices = {"channels_last", "channels_first"}}

local array_rows <const> = {{"img", "tensor"}, format_row, {"dtype", "dtype", "float32"}}

-- One order of axes and the other.
local function reorder(x, data_format, perm)
  if data_format == "channels_last" then return x end
  return ops.transpose(x, perm)
end

-- A picture of one channel may lack that axis.
local function with_channels(who, x)
  if #x.shape == 2 then return ops.expand_dims(x, -1) end
  if #x.shape ~= 3 then
    blame.error(string.format("%s: a picture has rank 2 or 3, got rank %d", who, #x.shape), "value")
  end
  return x
end

---A picture as numbers.
---Shapes: [height, width, channels] → the same, or [channels, height, width]
---Errors: another rank: `keras.utils.img_to_array(ipu.ones{2})`
---@param ... any img, data_format, dtype
---@return userdata
function pictures.img_to_array(...)
  local a = args.check("img_to_array", array_rows, ...)
  local x = with_channels("img_to_array", a.img)
  return ops.cast(reorder(x, a.data_format, {2, 0, 1}), a.dtype)
end

local picture_rows <const> = {
  {"x", "tensor"}, format_row,
  {"scale", "boolean", true, says = "whether numbers are brought to 0 … 255, least to greatest"},
}

---Numbers as a picture.
---Shapes: [height, width, channels] → the same, uint8
---Errors: another rank: `keras.utils.array_to_img(ipu.ones{2})`
---@param ... any x, data_format, scale
---@return userdata
function pictures.array_to_img(...)
  local a = args.check("array_to_img", picture_rows, ...)
  local x = reorder(with_channels("array_to_img", a.x), a.data_format, {1, 2, 0})
  return image.as_bytes(x, a.scale)
end

local save_rows <const> = {
  {"path", "string"}, {"x", "tensor"}, format_row,
  {"scale", "boolean", true,
    says = "whether floating-point numbers are brought to 0 … 255, least to greatest"},
}

---Writes a picture, by the path's ending as PNG or JPEG. uint8 stays as it is.
---Shapes: [height, width, channels]
---Errors: another ending, another rank: `keras.utils.save_img("x.gif", ipu.ones{2, 2, 1})`
---@param ... any path, x, data_format, scale
function pictures.save_img(...)
  local a = args.check("save_img", save_rows, ...)
  local x = reorder(with_channels("save_img", a.x), a.data_format, {1, 2, 0})
  image.write(a.path, x, {scale = a.scale})
end

return pictures
