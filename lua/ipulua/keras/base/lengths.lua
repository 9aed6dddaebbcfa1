-- Sums of squares and lengths of tensors. For dtypes of 16 bits they are computed in float32: in
-- float16 a sum stops at 65504, and squares of numbers below 2.4e-4 vanish.

local ops = require "ipulua.ops"

local lengths = {}

---x itself, or in float32 where it has 16 bits.
---@param x userdata
---@return userdata
function lengths.wide(x)
  if x.dtype == "float16" or x.dtype == "bfloat16" then return ops.cast(x, "float32") end
  return x
end

---The sum of the squares of x; float32 of 16 bits.
---@param x userdata
---@param axes table? as reduce_sum takes them
---@return userdata
function lengths.sum_of_squares(x, axes)
  return ops.reduce_sum(ops.square(lengths.wide(x)), axes)
end

---The root of that.
---@param x userdata
---@param axes table?
---@return userdata
function lengths.of(x, axes) return ops.sqrt(lengths.sum_of_squares(x, axes)) end

---x times a factor that was computed of such a sum, in x's dtype.
---@param x userdata
---@param factor userdata
---@return userdata
function lengths.scale(x, factor) return ops.cast(lengths.wide(x) * factor, x.dtype) end

return lengths
