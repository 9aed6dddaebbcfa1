-- Class numbers, ids and labels as the device has them, int32.

local ops = require "ipulua.ops"

local least <const>, greatest <const> = -(1 << 31), (1 << 31) - 1

---x as int32. A 64-bit number that int32 can't hold becomes its least or greatest one, so that it
---stays no class instead of wrapping round to one.
---Shapes: [...] → [...]
---@param x userdata
---@return userdata
return function(x)
  if x.dtype == "int32" then return x end
  if x.dtype == "int64" then x = ops.clip_by_value(x, least, greatest) end
  return ops.cast(x, "int32")
end
