-- Initializers: objects called with a shape that give the first value of a weight.

local about = require "ipulua.base.parts.about"
local args = require "ipulua.base.args"
local blame = require "ipulua.base.blame"
local class = require "ipulua.base.class"
local core = require "ipulua.core"
local offering = require "ipulua.base.parts.offering"
local ops = require "ipulua.ops"
local parts = require "ipulua.base.parts"

local initializers = {}

---@class Initializer: Class
---@overload fun(shape: integer[], options: {dtype: string}?): userdata
local Initializer = parts.Part:extend("Initializer")
initializers.Initializer = Initializer
parts.abstract(Initializer, "make", "make(shape, dtype)")

---The value of a weight of a shape: `init{2, 3}` or `init{shape = {2, 3}, dtype = "float16"}`.
---Initializers override `make(shape, dtype)`.
function Initializer:__call(shape, options)
  if args.is_plain(shape) and shape.shape ~= nil then -- all by name
    options, shape = shape, shape.shape
  end
  if math.type(shape) == "integer" then shape = {shape} end
  if not args.is_list(shape) or shape[1] ~= nil and math.type(shape[1]) ~= "integer" then
    blame.error(string.format("%s: it is called with a shape, got %s", self.__name,
      args.describe(shape)), "type")
  end
  local dtype = options
  if type(options) == "table" then dtype = options.dtype end
  return self:make(shape, dtype or "float32")
end

local function declare(name, rows)
  local c = parts.declare(name, Initializer, rows)
  initializers[name] = c
  return c
end

local Zeros = declare("Zeros", {})
function Zeros:make(shape, dtype) -- luacheck: ignore 212
  return core.full(shape, 0, dtype)
end

local Ones = declare("Ones", {})
function Ones:make(shape, dtype) -- luacheck: ignore 212
  return core.full(shape, 1, dtype)
end

local Constant = declare("Constant", {{"value", {"number", "boolean", "table", "tensor"}, 0}})
function Constant:make(shape, dtype)
  if type(self.value) == "table" or type(self.value) == "userdata" then
    return ops.reshape(ops.cast(core.tensor(self.value), dtype), shape)
  end
  return core.full(shape, self.value, dtype)
end

-- Random numbers are drawn in float32 and cast.
local function draw(kind, shape, dtype, options)
  local value = ops.random[kind](shape, options)
  return value.dtype == dtype and value or ops.cast(value, dtype)
end

local seed_row <const> = {"seed", "integer", optional = true}

local RandomNormal = declare("RandomNormal",
  {{"mean", "number", 0.0}, {"stddev", "number", 0.05, range = "[0, inf)"}, seed_row})
function RandomNormal:make(shape, dtype)
  return draw("normal", shape, dtype, {mean = self.mean, stddev = self.stddev, seed = self.seed})
end

local RandomUniform = declare("RandomUniform",
  {{"minval", "number", -0.05}, {"maxval", "number", 0.05}, seed_row})
function RandomUniform:make(shape, dtype)
  return draw("uniform", shape, dtype,
    {minval = self.minval, maxval = self.maxval, seed = self.seed})
end

local TruncatedNormal = declare("TruncatedNormal",
  {{"mean", "number", 0.0}, {"stddev", "number", 0.05, range = "[0, inf)"}, seed_row})
function TruncatedNormal:make(shape, dtype)
  return draw("truncated_normal", shape, dtype,
    {mean = self.mean, stddev = self.stddev, seed = self.seed})
end

-- Inputs and outputs of a unit: of a matrix its extents; of a convolution's kernel [space…, in,
-- out] times the number of taps.
local function fans(shape)
  local rank = #shape
  if rank == 0 then return 1, 1 end
  if rank == 1 then return shape[1], shape[1] end
  local taps = 1
  for i = 1, rank - 2 do taps = taps * shape[i] end
  return shape[rank - 1] * taps, shape[rank] * taps
end

local variance_rows <const> = {
  {"scale", "number", 1.0, range = "(0, inf)"},
  {"mode", "string", "fan_in", choices = {"fan_in", "fan_out", "fan_avg"}},
  {"distribution", "string", "truncated_normal",
    choices = {"truncated_normal", "untruncated_normal", "normal", "uniform"}},
  seed_row,
}

local VarianceScaling = declare("VarianceScaling", variance_rows)

-- The standard deviation of a normal distribution cut off at two deviations.
local truncated_deviation <const> = 0.87962566103423978

function VarianceScaling:setup()
end

function VarianceScaling:make(shape, dtype)
  local fan_in, fan_out = fans(shape)
  local fan = self.mode == "fan_in" and fan_in or self.mode == "fan_out" and fan_out
    or (fan_in + fan_out) / 2
  local variance = self.scale / math.max(1, fan)
  if self.distribution == "uniform" then
    local limit = math.sqrt(3 * variance)
    return draw("uniform", shape, dtype, {minval = -limit, maxval = limit, seed = self.seed})
  elseif self.distribution == "untruncated_normal" then
    return draw("normal", shape, dtype, {mean = 0, stddev = math.sqrt(variance), seed = self.seed})
  end
  local stddev = math.sqrt(variance) / truncated_deviation
  return draw("truncated_normal", shape, dtype, {mean = 0, stddev = stddev, seed = self.seed})
end

-- name → scale, mode, distribution
local scalings <const> = {
  GlorotUniform = {1, "fan_avg", "uniform"}, GlorotNormal = {1, "fan_avg", "truncated_normal"},
  HeUniform = {2, "fan_in", "uniform"}, HeNormal = {2, "fan_in", "truncated_normal"},
  LecunUniform = {1, "fan_in", "uniform"}, LecunNormal = {1, "fan_in", "truncated_normal"},
}
for name, scaling in pairs(scalings) do
  local c = parts.declare(name, VarianceScaling, {seed_row})
  function c:setup() self.scale, self.mode, self.distribution = table.unpack(scaling) end
  initializers[name] = c
end

-- Orthonormal columns of random matrices: A = Q R by Cholesky of AᵀA, twice, in float64. R's
-- diagonal is positive, which makes Q uniform among the orthogonal matrices.
local function orthonormal_columns(a)
  for _ = 1, 2 do
    local lower = ops.cholesky(ops.matmul(a, a, {transpose_a = true}))
    a = ops.transpose(ops.triangular_solve(lower, ops.transpose(a)))
  end
  return a
end

local Orthogonal = declare("Orthogonal", {{"gain", "number", 1.0}, seed_row})

function Orthogonal:make(shape, dtype)
  if #shape < 2 then
    blame.error("Orthogonal: the tensor to initialise must have at least two dimensions, got rank "
      .. #shape, "value")
  end
  local rows, columns = 1, shape[#shape]
  for i = 1, #shape - 1 do rows = rows * shape[i] end
  local long, short = math.max(rows, columns), math.min(rows, columns)
  local a = ops.random.normal({long, short}, {seed = self.seed})
  local q = orthonormal_columns(ops.cast(a, "float64"))
  if rows < columns then q = ops.transpose(q) end
  return ops.cast(ops.reshape(q * self.gain, shape), dtype)
end

local Identity = declare("Identity", {{"gain", "number", 1.0}})
function Identity:make(shape, dtype)
  if #shape ~= 2 then
    blame.error("Identity: the tensor to initialise must be a matrix, got rank " .. #shape, "value")
  end
  return ops.eye(shape[1], shape[2], {dtype = dtype}) * self.gain
end

initializers._aliases = {
  zero = "Zeros", one = "Ones", uniform = "RandomUniform", normal = "RandomNormal",
}

-- Classes whose `make` can't fail and calls so many random ops where no seed is given. Classes that
-- scripts derive from them are not among these.
local random_ops <const> = {[Zeros] = 0, [Ones] = 0, [RandomNormal] = 1, [RandomUniform] = 1,
  [TruncatedNormal] = 1, [VarianceScaling] = 1}
for name in pairs(scalings) do random_ops[initializers[name]] = 1 end

---The number of draws from the common sequence that an initializer makes for a weight. nil where
---that isn't known, as for integers.
---@param initializer any
---@param dtype string
---@return integer?
function initializers._draws(initializer, dtype)
  local count = dtype:find("float", 1, true) and random_ops[class.of(initializer)]
  if not count or initializer.seed then return count and 0 or nil end
  return count
end

---An initializer from its name, its description {class_name =, config =}, or itself.
---@param value any
---@return any
function initializers.get(value)
  return parts.get("initializer", value)
end

about.say("initializers", {
  {"Constant", text = "All elements have one value."},
  {"GlorotNormal", text = "Variance 2 / (fan in + fan out), truncated normal.",
    source = "Glorot & Bengio 2010 (AISTATS)"},
  {"GlorotUniform", text = "Variance 2 / (fan in + fan out), uniform.",
    source = "Glorot & Bengio 2010 (AISTATS)"},
  {"HeNormal", text = "Variance 2 / fan in, truncated normal.", source = "arXiv:1502.01852"},
  {"HeUniform", text = "Variance 2 / fan in, uniform.", source = "arXiv:1502.01852"},
  {"Identity", text = "1 on the diagonal, 0 elsewhere."},
  {"Initializer",
    text = "The base of all initializers; extend it with `make(shape, dtype)`."},
  {"LecunNormal", text = "Variance 1 / fan in, truncated normal.",
    source = "LeCun et al. 1998, Efficient BackProp"},
  {"LecunUniform", text = "Variance 1 / fan in, uniform.",
    source = "LeCun et al. 1998, Efficient BackProp"},
  {"Ones", text = "All elements are 1."},
  {"Orthogonal", text = "A matrix with orthogonal rows or columns.", source = "arXiv:1312.6120"},
  {"RandomNormal", text = "Numbers of a normal distribution."},
  {"RandomUniform", text = "Numbers of a uniform distribution."},
  {"TruncatedNormal", text = "Numbers of a normal distribution, cut at two standard deviations."},
  {"VarianceScaling", text = "Variance scale / n, n being the fan in, the fan out or their mean."},
  {"Zeros", text = "All elements are 0."},
})

return parts.give("initializers", initializers,
  {names = offering.small(initializers)})
