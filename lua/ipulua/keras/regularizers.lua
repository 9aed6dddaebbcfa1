-- Regularizers: objects called with a weight that give a scalar loss.

local about = require "ipulua.base.parts.about"
local lengths = require "ipulua.keras.base.lengths"
local ops = require "ipulua.ops"
local parts = require "ipulua.base.parts"

local regularizers = {}

---@class Regularizer: Class
---@overload fun(x: userdata): userdata
local Regularizer = parts.Part:extend("Regularizer")
regularizers.Regularizer = Regularizer
parts.abstract(Regularizer, "penalty", "penalty(x)")

---The penalty. Regularizers override `penalty(x)`.
function Regularizer:__call(x)
  x = parts.want_value(self, x)
  return self:penalty(x)
end

---l1 times the sum of absolute values plus l2 times the sum of squares; float32 of 16 bits, which
---soon can't hold it.
---@class L1L2: Regularizer
local L1L2 = parts.declare("L1L2", Regularizer, {{"l1", "number", 0.0}, {"l2", "number", 0.0}})
regularizers.L1L2 = L1L2

function L1L2:penalty(x)
  local sum
  if self.l1 and self.l1 ~= 0 then sum = ops.reduce_sum(ops.abs(lengths.wide(x))) * self.l1 end
  if self.l2 and self.l2 ~= 0 then
    local squares = lengths.sum_of_squares(x) * self.l2
    sum = sum and sum + squares or squares
  end
  return sum or ops.zeros({}, {dtype = x.dtype})
end

---@class L1: L1L2
regularizers.L1 = parts.declare("L1", L1L2, {{"l1", "number", 0.01}})
---@class L2: L1L2
regularizers.L2 = parts.declare("L2", L1L2, {{"l2", "number", 0.01}})

---A regularizer with l1.
function regularizers.l1(...) return regularizers.L1(...) end

---A regularizer with l2.
function regularizers.l2(...) return regularizers.L2(...) end

local both_rows <const> = {{"l1", "number", 0.01}, {"l2", "number", 0.01}}

---A regularizer with l1 and l2, 0.01 each by default.
function regularizers.l1_l2(...)
  local a = require "ipulua.base.args".check("l1_l2", both_rows, ...)
  return L1L2{l1 = a.l1, l2 = a.l2}
end

-- Under this name it has its own defaults. The class' defaults are 0.
regularizers._named = {l1_l2 = regularizers.l1_l2}

---A regularizer from its name, its description {class_name =, config =}, or itself.
---@param value any
---@return any
function regularizers.get(value)
  return require("ipulua.base.parts").get("regularizer", value)
end

about.say("regularizers", {
  {"L1", text = "l1 · Σ|x|."},
  {"L2", text = "l2 · Σx²."},
  {"Regularizer", text = "The base of all regularizers; extend it with `penalty(x)`, a "
    .. "number."},
  {"l1", text = "Calls L1."},
  {"l1_l2", text = "Calls L1L2."},
  {"l2", text = "Calls L2."},
})

return parts.give("regularizers", regularizers)
