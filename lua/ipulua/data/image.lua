-- ipu.image: pictures in files, uint8 [height, width, channels].

local args = require "ipulua.base.args"
local blame = require "ipulua.base.blame"
local core = require "ipulua.core"
local ops = require "ipulua.ops"

local image = {}

local read_rows <const> = {
  {"path", "string"},
  {"channels", "integer", optional = true, range = "[1, 4]",
    says = "1 grey, 2 grey and alpha, 3 RGB, 4 RGBA; by default as in the file"},
}

---A PNG or JPEG file's picture.
---Shapes: → [height, width, channels], uint8
---Errors: a file that is missing, damaged or of another format: `ipu.image.read("none.png")`
---@param ... any path, channels
---@return userdata
function image.read(...)
  local a = args.check("image.read", read_rows, ...)
  return core.read_image(a.path, a.channels)
end

local endings <const> = {png = "png", jpg = "jpeg", jpeg = "jpeg"}

local write_rows <const> = {
  {"path", "string"}, {"x", "tensor"},
  {"scale", "boolean", true, by_name = true,
    says = "whether floating-point numbers are brought to 0 … 255, least to greatest"},
  {"quality", "integer", 95, by_name = true, range = "[1, 100]", says = "of JPEG"},
}

-- Whole numbers from 0 to 255, as they are cut off beyond.
local function to_bytes(x)
  return ops.cast(ops.clip_by_value(ops.round(ops.cast(x, "float32")), 0, 255), "uint8")
end

---A picture as uint8. Floating-point numbers are brought to 0 … 255 (scale), or rounded.
---@param x userdata
---@param scale boolean
---@return userdata
---@package
function image.as_bytes(x, scale)
  if x.dtype == "uint8" then return x end
  if scale and x.dtype:find("float") and x.size > 0 then
    local wide = ops.cast(x, "float32")
    local least, greatest = ops.reduce_min(wide):item(), ops.reduce_max(wide):item()
    local range = greatest - least
    x = (wide - least) * (range > 0 and 255 / range or 0)
  end
  return to_bytes(x)
end

---Writes a picture, by the path's ending as PNG or JPEG.
---Shapes: [height, width] or [height, width, channels]; 1 to 4 channels, of JPEG 1 or 3
---Errors: another ending, another shape: `ipu.image.write("x.gif", ipu.ones{2, 2})`
---@param ... any path, x, scale, quality
function image.write(...)
  local a = args.check("image.write", write_rows, ...)
  local ending = endings[(a.path:match("%.(%w+)$") or ""):lower()]
  if not ending then
    blame.error("image.write: 'path' must end in .png, .jpg or .jpeg, got " .. a.path, "value")
  end
  local x = core.is_variable(a.x) and a.x:read_value() or a.x
  core.write_image(a.path, image.as_bytes(x, a.scale), ending == "jpeg", a.quality)
end

local grid_rows <const> = {
  {"x", "tensor", of = "tensor [samples, height, width, channels]"},
  {"columns", "integer", optional = true, range = "[1, inf)",
    says = "the square's side by default"},
  {"gap", "integer", 2, range = "[0, inf)", says = "pixels between two"},
  {"scale", "boolean", true, by_name = true,
    says = "whether floating-point numbers are brought to 0 … 255, least to greatest"},
}

---Samples side by side in one picture, row by row, on white: for image.write.
---Shapes: [samples, height, width] or [samples, height, width, channels] →
---[rows, columns, channels]
---Errors: another rank, no samples: `ipu.image.grid(ipu.ones{4, 4})`
---@param ... any x, columns, gap, scale
---@return userdata uint8
function image.grid(...)
  local a = args.check("image.grid", grid_rows, ...)
  local x = core.is_variable(a.x) and a.x:read_value() or a.x
  if #x.shape == 3 then x = ops.expand_dims(x, -1) end
  if #x.shape ~= 4 or x.size == 0 then
    blame.error("image.grid: 'x' must be [samples, height, width, channels], got "
      .. args.describe(a.x), "value")
  end
  x = image.as_bytes(x, a.scale)
  local samples, height, width, channels = table.unpack(x.shape)
  local columns = math.min(a.columns or math.ceil(math.sqrt(samples)), samples)
  local rows = math.ceil(samples / columns)
  local paddings = {{0, rows * columns - samples}, {0, a.gap}, {0, a.gap}, {0, 0}}
  local padded = ops.pad(x, paddings, {constant_values = 255})
  local tall, wide = height + a.gap, width + a.gap
  local parts = ops.reshape(padded, {rows, columns, tall, wide, channels})
  local whole = ops.reshape(ops.transpose(parts, {0, 2, 1, 3, 4}),
    {rows * tall, columns * wide, channels})
  return ops.slice(whole, {0, 0, 0}, {rows * tall - a.gap, columns * wide - a.gap, channels})
end

return image
