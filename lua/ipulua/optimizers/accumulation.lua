-- The arithmetic of accumulated gradients: shared by pipelines, accumulating optimizers and
-- Keras, so that all give the same bits. Micro-batches are added in their order.

local blame = require "ipulua.base.blame"
local core = require "ipulua.core"
local args = require "ipulua.base.args"
local enum = require "ipulua.base.enumeration"
local enums = require "ipulua.enums"

local accumulation = {}

local is_dtype = {}
for _, name in ipairs(args.dtypes) do is_dtype[name] = true end

---The member of GradientAccumulationReductionMethod that value spells, in any letter case.
---@return string
function accumulation.parse_reduction(who, value)
  local methods = enums.GradientAccumulationReductionMethod
  local found = enum.find(methods, value)
  if found then return found end
  blame.error(string.format("%s: 'reduction_method': %s", who, enum.refusal(methods, value)),
    "value")
end

---The dtype of v's accumulator: given as nil (v's own), a dtype, or a function of v.
---@return string
function accumulation.dtype(who, given, v)
  if type(given) == "function" then
    given = given(v)
    if given ~= nil and not is_dtype[given] then
      blame.error(string.format("%s: the function given as accumulation dtype must return a dtype, "
        .. "got %s", who,
        args.describe(given)), "type")
    end
  end
  return given or v.dtype
end

local function cast(x, dtype)
  if x.dtype == dtype then return x end
  return core.ops.cast(x, dtype)
end

local function is_float(dtype) return dtype:find("float", 1, true) ~= nil end

-- 1 / count, where count may be known only at run time.
local function reciprocal(count, dtype)
  if type(count) == "number" then return 1 / count end
  return cast(1 / cast(count, "float32"), dtype)
end

-- Weights of the old mean and of the new value, for the mean of n + 1 values.
local function running_weights(n, dtype)
  local before = cast(n, "float32")
  local after = before + 1
  return cast(before / after, dtype), cast(1 / after, dtype)
end

---The accumulator with one more gradient in it.
---@param accumulator userdata
---@param g userdata
---@param method string SUM, MEAN or RUNNING_MEAN
---@param count integer|userdata how many there will be
---@param n userdata? int32: how many are there already
function accumulation.add(accumulator, g, method, count, n)
  local dtype = accumulator.dtype
  -- before it is added: no overflow
  if method == "MEAN" and is_float(g.dtype) then g = g * reciprocal(count, g.dtype) end
  g = cast(g, dtype)
  if method == "RUNNING_MEAN" then
    local old, new = running_weights(n, dtype)
    accumulator, g = accumulator * old, g * new
  end
  return core.ops.accumulate(accumulator, g)
end

---A plain sum, as of outfed values.
function accumulation.sum(accumulator, x)
  return core.ops.accumulate(accumulator, cast(x, accumulator.dtype))
end

return accumulation
