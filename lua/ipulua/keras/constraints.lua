-- Constraints: objects called with a weight's new value that give the value to keep.

local about = require "ipulua.base.parts.about"
local blame = require "ipulua.base.blame"
local lengths = require "ipulua.keras.base.lengths"
local offering = require "ipulua.base.parts.offering"
local ops = require "ipulua.ops"
local parts = require "ipulua.base.parts"

local constraints = {}

local epsilon <const> = 1e-7

---@class Constraint: Class
---@overload fun(w: userdata): userdata
local Constraint = parts.Part:extend("Constraint")
constraints.Constraint = Constraint
parts.abstract(Constraint, "project", "project(w)")

---The value to keep. Constraints override `project(w)`.
function Constraint:__call(w)
  w = parts.want_value(self, w)
  return self:project(w)
end

local function declare(name, rows)
  local c = parts.declare(name, Constraint, rows)
  constraints[name] = c
  return c
end

local axis_row <const> = {"axis", {"integer", "integers"}, 0}

local function norms(w, axis) return lengths.of(w, {axis = axis, keepdims = true}) end

---Norms along an axis are at most max_value.
local MaxNorm = declare("MaxNorm", {{"max_value", "number", 2, range = "[0, inf)"}, axis_row})
function MaxNorm:project(w)
  local n = norms(w, self.axis)
  return lengths.scale(w, ops.clip_by_value(n, 0, self.max_value) / (n + epsilon))
end

---No element is negative.
local NonNeg = declare("NonNeg", {})
function NonNeg:project(w) -- luacheck: ignore 212
  return ops.where(ops.less(w, 0), ops.zeros_like(w), w)
end

---Norms along an axis are 1.
local UnitNorm = declare("UnitNorm", {axis_row})
function UnitNorm:project(w)
  return ops.cast(lengths.wide(w) / (norms(w, self.axis) + epsilon), w.dtype)
end

---Norms along an axis come nearer to the range, by `rate`.
local MinMaxNorm = declare("MinMaxNorm", {
  {"min_value", "number", 0, range = "[0, inf)"}, {"max_value", "number", 1, range = "[0, inf)"},
  {"rate", "number", 1, range = "[0, 1]"}, axis_row,
})
function MinMaxNorm:project(w)
  local n = norms(w, self.axis)
  local wanted = ops.clip_by_value(n, self.min_value, self.max_value) * self.rate
    + n * (1 - self.rate)
  return lengths.scale(w, wanted / (n + epsilon))
end

---The square kernels of a convolution become the same in all directions from their middle: a value
---for each distance.
local RadialConstraint = declare("RadialConstraint", {})

-- The element of the diagonal that a ring takes; ring 0 is the middle. As in Keras, ring 0 takes
-- the element before the middle, and the other rings take later elements.
local function on_diagonal(n, ring)
  local half = n // 2
  if ring == 0 then return math.max(half - 1, 0) end
  return n % 2 == 1 and half + ring - 1 or half + ring
end

-- For each position of a kernel of n × n the position whose value it takes.
local function sources(n)
  local list, outermost = {}, (n + 1) // 2 - 1
  for row = 0, n - 1 do
    for column = 0, n - 1 do
      local k = on_diagonal(n, outermost - math.min(row, column, n - 1 - row, n - 1 - column))
      list[#list + 1] = k * n + k
    end
  end
  return list
end

function RadialConstraint:project(w) -- luacheck: ignore 212
  local shape = w.shape
  if #shape ~= 4 or shape[1] ~= shape[2] then
    blame.error(string.format("RadialConstraint: expected a kernel [n, n, in, out], got [%s]",
      table.concat(shape, ", ")), "value")
  end
  local n = shape[1]
  local places = ops.reshape(w, {n * n, shape[3], shape[4]})
  return ops.reshape(ops.gather(places, ops.tensor(sources(n), {dtype = "int32"}), {axis = 0}),
    shape)
end

---A constraint from its name, its description {class_name =, config =}, or itself.
---@param value any
---@return any
function constraints.get(value)
  return require("ipulua.base.parts").get("constraint", value)
end

about.say("constraints", {
  {"Constraint", text = "The base of all constraints; extend it with `project(w)`, the new "
    .. "weight."},
  {"MaxNorm", text = "Vectors along an axis no longer than max_value."},
  {"MinMaxNorm", text = "Vectors along an axis neither shorter nor longer."},
  {"NonNeg", text = "Negative weights become 0."},
  {"RadialConstraint", text = "Square kernels the same in all directions from their middle: a "
    .. "value for each ring."},
  {"UnitNorm", text = "Vectors along an axis of length 1."},
})

return parts.give("constraints", constraints,
  {names = offering.small(constraints)})
