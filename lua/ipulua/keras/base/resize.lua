-- Images in another size: an output row (and column) is an input row, or a mean of two that lie
-- side by side. Pixel centres lie at halves, as in TensorFlow 2.

local core = require "ipulua.core"
local ops = require "ipulua.ops"

local resize = {}

-- For each of `to` positions the two nearest centres (from 0), and the share of the second one.
local function linear(from, to)
  local low, high, share = {}, {}, {}
  for i = 1, to do
    local at = math.min(math.max((i - 0.5) * from / to - 0.5, 0), from - 1)
    low[i] = math.floor(at)
    high[i], share[i] = math.min(low[i] + 1, from - 1), at - low[i]
  end
  return low, high, share
end

-- For each of `to` positions the nearest centre.
local function nearest(from, to)
  local at = {}
  for i = 1, to do at[i] = math.min((2 * i - 1) * from // (2 * to), from - 1) end
  return at
end

local function along(x, axis, places)
  return ops.gather(x, core.tensor(places, "int32"), {axis = axis})
end

---(1 - share) a + share b. An operand without a share isn't read, since it may be no number.
---Shapes: a, b, share of one shape but for broadcasting
function resize.mixed(a, b, share)
  local alone = ops.equal(share, 0)
  return ops.where(alone, a, a * (1 - share) + ops.where(alone, ops.zeros_like(b), b) * share)
end

local function mix(x, axis, low, high, share)
  local first, any, all = along(x, axis, low), false, true
  for _, s in ipairs(share) do any, all = any or s > 0, all and s > 0 end
  if not any then return first end
  local shape = {1, 1, 1, 1}
  shape[axis + 1] = #share
  local second, weight = along(x, axis, high), ops.reshape(core.tensor(share, x.dtype), shape)
  if all then return first * (1 - weight) + second * weight end
  return resize.mixed(first, second, weight)
end

local function apply(x, height, width, change)
  local shape = x.shape
  if shape[2] ~= height then x = change(x, 1, shape[2], height) end
  if shape[3] ~= width then x = change(x, 2, shape[3], width) end
  return x
end

local function change_linear(x, axis, from, to) return mix(x, axis, linear(from, to)) end
local function change_nearest(x, axis, from, to) return along(x, axis, nearest(from, to)) end

---[batch, height, width, channels] → the same with another height and width.
function resize.bilinear(x, height, width) return apply(x, height, width, change_linear) end
function resize.nearest(x, height, width) return apply(x, height, width, change_nearest) end

return resize
