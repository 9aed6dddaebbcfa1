-- Images in another size: every output row (and column) is a weighted mean of input rows, so that resizing is a
-- product with a small matrix on each side. Pixel centres lie at halves, as in TensorFlow 2.

local core = require "ipulua.core"
local ipu = require "ipulua"

local resize = {}

local function empty(rows, columns)
  local m = {}
  for i = 1, rows do
    m[i] = {}
    for j = 1, columns do m[i][j] = 0 end
  end
  return m
end

-- [to, from]: linear interpolation between the two nearest centres.
local function linear(from, to)
  local m, scale = empty(to, from), from / to
  for i = 0, to - 1 do
    local at = (i + 0.5) * scale - 0.5
    local low = math.floor(at)
    local share = at - low
    local a, b = math.max(low, 0), math.min(low + 1, from - 1)
    a, b = math.min(a, from - 1), math.max(b, 0)
    m[i + 1][a + 1] = m[i + 1][a + 1] + 1 - share
    m[i + 1][b + 1] = m[i + 1][b + 1] + share
  end
  return m
end

-- [to, from]: the nearest centre.
local function nearest(from, to)
  local m = empty(to, from)
  for i = 0, to - 1 do m[i + 1][math.min(math.floor((i + 0.5) * from / to), from - 1) + 1] = 1 end
  return m
end

local function apply(x, height, width, weights)
  local shape = x.shape
  if shape[2] ~= height then
    x = ipu.einsum({core.tensor(weights(shape[2], height), x.dtype), x}, {equation = "oh,nhwc->nowc"})
  end
  if shape[3] ~= width then
    x = ipu.einsum({core.tensor(weights(shape[3], width), x.dtype), x}, {equation = "ow,nhwc->nhoc"})
  end
  return x
end

---[batch, height, width, channels] → the same with another height and width.
function resize.bilinear(x, height, width) return apply(x, height, width, linear) end
function resize.nearest(x, height, width) return apply(x, height, width, nearest) end

return resize
