-- keras.optimizers: the update rules, the schedules, and finding an optimizer by name.

local args = require "ipulua.base.args"
local base = require "ipulua.keras.optimizers.base"
local blame = require "ipulua.base.blame"
local class = require "ipulua.base.class"
local parts = require "ipulua.base.parts"

local optimizers = {Optimizer = base.Optimizer,
  schedules = require "ipulua.keras.optimizers.schedules"}
require("ipulua.base.modules").guard("keras.optimizers.schedules", optimizers.schedules)

for _, file in ipairs{"rules", "optimizer_wrappers", "loss_scaling"} do
  for name, c in pairs(require("ipulua.keras.optimizers." .. file)) do optimizers[name] = c end
end

---An optimizer from a name, a config or an optimizer.
---@param optimizer any
---@param custom_objects table?
---@return Optimizer
function optimizers.get(optimizer, custom_objects)
  local found = parts.get("optimizer", optimizer, {custom_objects = custom_objects})
  if class.is_a(found, base.Optimizer) then return found end
  local meta = type(found) == "table" and getmetatable(found)
  if type(meta) == "table" and found.apply_gradients then return found end
  blame.error("an optimizer must be a name or an optimizer object, got "
    .. args.describe(optimizer), "type")
end

class.guard_all(optimizers)
return parts.give("optimizers", optimizers)
