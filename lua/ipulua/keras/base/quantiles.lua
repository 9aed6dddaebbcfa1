-- The boundaries between bins of about as many numbers each, from summaries of batches, as Keras
-- finds them.

local blame = require "ipulua.base.blame"
local ops = require "ipulua.ops"

local quantiles = {}

-- A summary of numbers is a list of values, rising, and of the weight of each: how many numbers it
-- stands for.

-- The value of a rising piecewise linear function, which is constant outside.
local function interpolated(x, xs, ys)
  if x <= xs[1] then return ys[1] end
  for i = 2, #xs do
    if x <= xs[i] then
      return ys[i - 1] + (ys[i] - ys[i - 1]) / (xs[i] - xs[i - 1]) * (x - xs[i - 1])
    end
  end
  return ys[#ys]
end

local function in_float32(x) return (string.unpack("f", string.pack("f", x))) end

-- The same numbers by 1 / epsilon values of equal weight.
local function compressed(summary, epsilon)
  if #summary.values * epsilon < 1 then return summary end
  local sums, shares, sum = {}, {}, 0
  for i, weight in ipairs(summary.weights) do
    sum = sum + weight
    sums[i] = sum
  end
  for i, each in ipairs(sums) do shares[i] = each / sum end
  local shorter, before = {values = {}, weights = {}}, 0
  for i = 1, math.ceil(1 / epsilon) do
    local share <const> = epsilon + (i - 1) * epsilon
    local at <const> = interpolated(share, shares, sums)
    shorter.values[i] = in_float32(interpolated(share, shares, summary.values))
    shorter.weights[i] = in_float32(at - before)
    before = at
  end
  return shorter
end

-- Every (n epsilon)th of n numbers.
local function summary_of(x, epsilon)
  local sorted = ops.sort(ops.cast(x:reshape{-1}, "float32")):totable()
  local share <const> = math.floor(in_float32(#sorted / in_float32(1 / epsilon)))
  local step <const> = math.max(share, 1)
  local summary = {values = {}, weights = {}}
  for i = share + 1, #sorted, step do
    summary.values[#summary.values + 1] = sorted[i]
    summary.weights[#summary.weights + 1] = step
  end
  return summary
end

local function merged(a, b, epsilon)
  local pairs_of, summary = {}, {values = {}, weights = {}}
  for _, each in ipairs{a, b} do
    for i, value in ipairs(each.values) do
      pairs_of[#pairs_of + 1] = {value, each.weights[i], #pairs_of}
    end
  end
  table.sort(pairs_of, function(one, other)
    if one[1] ~= other[1] then return one[1] < other[1] end
    return one[3] < other[3]
  end)
  for i, each in ipairs(pairs_of) do summary.values[i], summary.weights[i] = each[1], each[2] end
  return compressed(summary, epsilon)
end

local function check_finite(summary)
  for _, value in ipairs(summary.values) do
    if value ~= value then blame.error("adapt: Discretization takes no NaN", "value") end
  end
end

---The rising boundaries between `bins` bins.
---@param each_batch fun(visit: fun(x: userdata)) calls visit with each batch, one after another
---@param bins integer
---@param epsilon number the share of a batch between two numbers that are kept of it
---@return number[]
function quantiles.boundaries(each_batch, bins, epsilon)
  local summary = {values = {}, weights = {}}
  each_batch(function(x)
    local more = summary_of(x, epsilon)
    check_finite(more)
    summary = merged(summary, more, epsilon)
  end)
  if #summary.values == 0 then blame.error("adapt: there are no values to learn from", "value") end
  local list = compressed(summary, 1 / bins).values
  list[#list] = nil
  return list
end

return quantiles
