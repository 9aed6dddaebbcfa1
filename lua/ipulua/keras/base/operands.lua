-- Labels and predictions, as the functions among losses and metrics take them: tensors, numbers or
-- nested lists.

local args = require "ipulua.base.args"
local core = require "ipulua.core"
local KerasTensor = require "ipulua.keras.base.tensor"

local operands = {}

local kinds <const> = {"tensor", "number", "list"}
operands.rows = {{"y_true", kinds}, {"y_pred", kinds}}

local function as_tensor(value)
  if core.is_tensor(value) or core.is_variable(value) or KerasTensor.is(value) then return value end
  return core.tensor(value)
end

---args.check, with y_true and y_pred as tensors.
---@param name string
---@param rows table[] those of operands.rows, then the function's own
---@return table
function operands.read(name, rows, ...)
  local a = args.check(name, rows, ...)
  a.y_true, a.y_pred = as_tensor(a.y_true), as_tensor(a.y_pred)
  return a
end

---A function of two tensors that checks them.
---@param name string
---@param f fun(y_true: userdata, y_pred: userdata): userdata
---@return fun(...: any): userdata
function operands.checked(name, f)
  return function(...)
    local a = operands.read(name, operands.rows, ...)
    return f(a.y_true, a.y_pred)
  end
end

return operands
