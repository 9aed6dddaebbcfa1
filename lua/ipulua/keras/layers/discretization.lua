-- Discretization: numbers as the bins that they lie in, between given or learnt boundaries.

local about = require "ipulua.base.parts.about"
local args = require "ipulua.base.args"
local blame = require "ipulua.base.blame"
local class = require "ipulua.base.class"
local core = require "ipulua.core"
local data = require "ipulua.data"
local encode = require "ipulua.keras.layers.embedding".encode
local Layer = require "ipulua.keras.base.layer"
local learned = require "ipulua.base.learned"
local modes = require "ipulua.keras.layers.token_modes"
local ops = require "ipulua.ops"

local layers = {}

---The number of the bin of a value: how many of the boundaries it has reached. Either the
---boundaries are given, or num_bins, and `adapt(data)` finds boundaries between bins of about as
---many values each. Of each batch of a dataset about 1 / epsilon values are kept, as in Keras. Many
---small batches shift the boundaries upwards. A tensor is one batch. output_mode as of
---IntegerLookup, without "tf_idf".
---@class Discretization: Layer
local Discretization = Layer.declare("Discretization", {
  {"bin_boundaries", "list", optional = true},
  {"num_bins", "integer", optional = true, range = "[1, 2147483647]",
    says = "number of bins to learn"},
  {"epsilon", "number", 0.01, range = "(0, 1)",
    says = "share of a batch's values between two that are kept"},
  modes.row("int", {"int", "one_hot", "multi_hot", "count"}),
})
layers.Discretization = Discretization

function Discretization:setup()
  local given <const> = rawget(self, "bin_boundaries")
  if (given == nil) == (self.num_bins == nil) then
    blame.error("Discretization: give either 'bin_boundaries', or 'num_bins' and call adapt(data)",
      given and "value" or "type")
  end
  for i, boundary in ipairs(given or {}) do
    if type(boundary) ~= "number" or i > 1 and boundary < given[i - 1] then
      blame.error("Discretization: 'bin_boundaries' must be numbers in ascending order", "value")
    end
  end
end

-- ------------------------------------------------ learning

-- A summary of numbers is a list of values, rising, and of the weight of each: how many numbers it
-- stands for. As in Keras, so that the boundaries are the same.

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

-- Calls visit with each batch. A tensor is one.
local function each_batch(given, visit)
  if class.is_a(given, data.Dataset) then
    for x in given:iter() do visit(x) end
    return
  end
  if args.is_list(given) then given = core.tensor(given) end
  if not args.is_tensor(given) or type(given) == "table" then
    blame.error("adapt: a tensor, a list or a dataset is wanted, got " .. args.describe(given),
      "type")
  end
  visit(given)
end

local function check_finite(summary)
  for _, value in ipairs(summary.values) do
    if value ~= value then blame.error("adapt: Discretization takes no NaN", "value") end
  end
end

---Takes the boundaries of num_bins bins from data: a tensor, a list, or a dataset of batches.
---@param given any
function Discretization:adapt(given)
  if not self.num_bins then
    blame.error("adapt: Discretization has its 'bin_boundaries'; give 'num_bins' instead to learn "
      .. "them", "failed_precondition")
  end
  local summary = {values = {}, weights = {}}
  each_batch(given, function(x)
    local more = summary_of(x, self.epsilon)
    check_finite(more)
    summary = merged(summary, more, self.epsilon)
  end)
  if #summary.values == 0 then blame.error("adapt: there are no values to learn from", "value") end
  local boundaries = compressed(summary, 1 / self.num_bins).values
  boundaries[#boundaries] = nil
  if rawget(self, "_boundaries") then learned.change() end
  rawset(self, "_boundaries", boundaries)
end

---The boundaries that were learnt are kept beside num_bins.
function Discretization:get_config()
  local config = Layer.get_config(self)
  local found = rawget(self, "_boundaries")
  if found then config.bin_boundaries = core.plain(table.move(found, 1, #found, 1, {})) end
  return config
end

function Discretization.from_config(c, config)
  local found = type(config) == "table" and config.num_bins and config.bin_boundaries
  if not found then return Layer.from_config(c, config) end
  local given = {}
  for key, value in pairs(config) do given[key] = value end
  given.bin_boundaries = nil
  local layer = Layer.from_config(c, given)
  rawset(layer, "_boundaries", table.move(found, 1, #found, 1, {}))
  return layer
end

-- ------------------------------------------------ calls

local bounds <const> = { -- of the dtypes of whole numbers
  int8 = {-128, 127}, uint8 = {0, 255}, int32 = {-2 ^ 31 | 0, 2 ^ 31 - 1 | 0},
  int64 = {math.mininteger, math.maxinteger},
}

-- Boundaries for whole numbers. A whole number reaches b if it reaches the next whole number. A
-- boundary above the dtype's range is left out, since no number reaches it.
local function whole_boundaries(list, dtype)
  local least, greatest = table.unpack(bounds[dtype])
  local whole = {}
  for _, b in ipairs(list) do
    if b <= greatest then
      whole[#whole + 1] = math.max(math.tointeger(math.ceil(b)) or least, least)
    end
  end
  return whole
end

local function bins_of(x, boundaries)
  if bounds[x.dtype] then boundaries = whole_boundaries(boundaries, x.dtype) end
  if #boundaries == 0 then return ops.cast(ops.zeros_like(x), "int32") end
  local reached = ops.greater_equal(ops.expand_dims(x, -1),
    ops.constant(boundaries, {dtype = x.dtype}))
  return ops.reduce_sum(ops.cast(reached, "int32"), {axis = -1})
end

function Discretization:call(x)
  local boundaries = rawget(self, "bin_boundaries") or rawget(self, "_boundaries")
  if not boundaries then
    blame.error(string.format("layer '%s': its boundaries are unknown; call adapt(data)",
      self.name), "failed_precondition")
  end
  local bins = bins_of(x, boundaries)
  if self.output_mode == "int" then return bins end
  return encode(bins, self.num_bins or #boundaries + 1, self.output_mode, self.compute_dtype)
end

about.say("layers", {
  {"Discretization", section = "Core", sample = "Discretization{bin_boundaries = {0, 1, 2}}",
    input = {2, 3}, wrong = "Discretization{bin_boundaries = {2, 1}}",
    is = "[batch, ...] → [batch, ...]",
    also = "\"one_hot\": [batch, ..., bins]; \"multi_hot\", \"count\": [batch, bins]"},
}, layers)

return layers
