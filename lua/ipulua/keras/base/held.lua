-- Whether a weight's dtype can hold a new value.

local core = require "ipulua.core"

local held = {}

-- Whether two tensors of one dtype and shape are equal, element by element; NaN equals itself.
local function same_values(a, b)
  local equal = core.ops.equal(a, b)
  if a.dtype:find("float") then
    equal = core.ops.logical_or(equal, core.ops.logical_and(core.ops.is_nan(a), core.ops.is_nan(b)))
  end
  return core.ops.reduce_all(equal):item()
end

-- Between floats rounding is allowed, for example when float32 weights are loaded into a float16
-- model. But no number may become infinite or be cut to the greatest one.
local function is_held(t, cast)
  local back <const>, ops <const> = cast:cast(t.dtype), core.ops
  if not (t.dtype:find("float") and cast.dtype:find("float")) then return same_values(t, back) end
  local lost = ops.less(ops.abs(back), ops.mul(ops.abs(t), 0.99))
  return same_values(ops.is_finite(t), ops.is_finite(cast))
    and not ops.reduce_any(ops.logical_and(lost, ops.greater(ops.abs(t), 1))):item()
end

---t in another dtype; nil where that can't hold its values, if they are known.
---@param t userdata
---@param dtype string
---@return userdata?
function held.cast(t, dtype)
  local cast = t:cast(dtype)
  return (core.is_symbolic(t) or is_held(t, cast)) and cast or nil
end

return held
