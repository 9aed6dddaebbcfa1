-- Learning-rate schedules: objects called with the number of weight updates so far that give a
-- rate.

local about = require "ipulua.base.parts.about"
local blame = require "ipulua.base.blame"
local core = require "ipulua.core"
local counted = require "ipulua.base.counted"
local ops = require "ipulua.ops"
local parts = require "ipulua.base.parts"

local schedules = {}

---@class LearningRateSchedule: Class
---@overload fun(step: any): userdata
local LearningRateSchedule = parts.Part:extend("LearningRateSchedule")
schedules.LearningRateSchedule = LearningRateSchedule
parts.abstract(LearningRateSchedule, "rate", "rate(step), which is Keras' __call__(step)")

---The rate, a float32 scalar. Schedules override `rate(step)`, where step is a float32 scalar.
function LearningRateSchedule:__call(step)
  if core.is_variable(step) then step = step:read_value() end
  if not core.is_tensor(step) then step = core.tensor(step, "float32") end
  if step.dtype ~= "float32" then step = ops.cast(step, "float32") end
  local rate = self:rate(step)
  return type(rate) == "number" and core.tensor(rate, "float32") or rate
end

local function declare(name, rows)
  rows[#rows + 1] = {"name", "string", optional = true}
  local c = parts.declare(name, LearningRateSchedule, rows)
  schedules[name] = c
  return c
end

local initial_row <const> = {"initial_learning_rate", "number"}
local steps_row <const> = {"decay_steps", "number", range = "(0, inf)"}

local function power(base, exponent) return ops.pow(core.tensor(base, "float32"), exponent) end

---initial · rate ^ (step / decay_steps); staircase: whole powers.
---@class ExponentialDecay: LearningRateSchedule
local ExponentialDecay = declare("ExponentialDecay",
  {initial_row, steps_row, {"decay_rate", "number"}, {"staircase", "boolean", false}})
function ExponentialDecay:rate(step)
  local p = step / self.decay_steps
  if self.staircase then p = ops.floor(p) end
  return power(self.decay_rate, p) * self.initial_learning_rate
end

---initial / (1 + rate · step / decay_steps).
---@class InverseTimeDecay: LearningRateSchedule
local InverseTimeDecay = declare("InverseTimeDecay",
  {initial_row, steps_row, {"decay_rate", "number"}, {"staircase", "boolean", false}})
function InverseTimeDecay:rate(step)
  local p = step / self.decay_steps
  if self.staircase then p = ops.floor(p) end
  return self.initial_learning_rate / (p * self.decay_rate + 1)
end

---values[1] up to boundaries[1] (included), and so on.
---@class PiecewiseConstantDecay: LearningRateSchedule
local PiecewiseConstantDecay = declare("PiecewiseConstantDecay",
  {{"boundaries", "list"}, {"values", "list"}})
function PiecewiseConstantDecay:setup()
  if #self.values ~= #self.boundaries + 1 then
    blame.error(string.format("PiecewiseConstantDecay: expected %s for %s, got %d",
      counted(#self.boundaries + 1, "value"),
      counted(#self.boundaries, "boundary", "boundaries"), #self.values), "value")
  end
end
function PiecewiseConstantDecay:rate(step)
  local rate = core.tensor(self.values[#self.values], "float32")
  for i = #self.boundaries, 1, -1 do
    rate = ops.where(ops.less_equal(step, self.boundaries[i]),
      core.tensor(self.values[i], "float32"), rate)
  end
  return rate
end

---From initial to end by a power of the time; cycle: again with longer decay_steps.
---@class PolynomialDecay: LearningRateSchedule
local PolynomialDecay = declare("PolynomialDecay",
  {initial_row, steps_row, {"end_learning_rate", "number", 0.0001},
  {"power", "number", 1.0}, {"cycle", "boolean", false}})
function PolynomialDecay:rate(step)
  local p
  if self.cycle then
    local whole = ops.ceil(step / self.decay_steps)
    local multiplier = ops.where(ops.equal(step, 0), ops.ones_like(step), whole)
    p = step / (multiplier * self.decay_steps)
  else
    p = ops.minimum(step, self.decay_steps) / self.decay_steps
  end
  local difference = self.initial_learning_rate - self.end_learning_rate
  return ops.pow(1 - p, core.tensor(self.power, "float32")) * difference + self.end_learning_rate
end

-- (1 + cos(π p)) / 2
local function cosine(p) return (ops.cos(p * math.pi) + 1) * 0.5 end

---Half a cosine from initial to alpha · initial; after a linear warm-up if warmup_target is given.
---@class CosineDecay: LearningRateSchedule
local CosineDecay = declare("CosineDecay", {initial_row, steps_row, {"alpha", "number", 0.0},
  {"warmup_target", "number", optional = true}, {"warmup_steps", "number", 0}})
function CosineDecay:rate(step)
  local start = self.initial_learning_rate
  local function decayed(from, at)
    local p = ops.minimum(at, self.decay_steps) / self.decay_steps
    return (cosine(p) * (1 - self.alpha) + self.alpha) * from
  end
  if not self.warmup_target then return decayed(start, step) end
  local warm = step * ((self.warmup_target - start) / math.max(self.warmup_steps, 1)) + start
  return ops.where(ops.less(step, self.warmup_steps), warm,
    decayed(self.warmup_target, ops.maximum(step - self.warmup_steps, 0)))
end

---Cosine decays, each t_mul times as long as the one before and m_mul times as high.
---@class CosineDecayRestarts: LearningRateSchedule
local CosineDecayRestarts = declare("CosineDecayRestarts",
  {initial_row, {"first_decay_steps", "number"},
  {"t_mul", "number", 2.0}, {"m_mul", "number", 1.0}, {"alpha", "number", 0.0}})
function CosineDecayRestarts:rate(step)
  local p = step / self.first_decay_steps
  local restart
  if self.t_mul == 1 then
    restart = ops.floor(p)
    p = p - restart
  else
    -- restarts at (1 - t^n) / (1 - t); a hair above, so that rounding doesn't fall short of the
    -- restart itself
    local n = ops.log(1 - p * (1 - self.t_mul)) / math.log(self.t_mul)
    restart = ops.floor(n + 1e-6)
    local t = power(self.t_mul, restart)
    p = (p - (1 - t) / (1 - self.t_mul)) / t
  end
  local height = power(self.m_mul, restart) * cosine(p)
  return (height * (1 - self.alpha) + self.alpha) * self.initial_learning_rate
end

---A linear decay times a cosine of num_periods.
---@class LinearCosineDecay: LearningRateSchedule
local LinearCosineDecay = declare("LinearCosineDecay",
  {initial_row, steps_row, {"num_periods", "number", 0.5},
  {"alpha", "number", 0.0}, {"beta", "number", 0.001}})
function LinearCosineDecay:rate(step)
  local at = ops.minimum(step, self.decay_steps)
  local linear = (self.decay_steps - at) / self.decay_steps
  local wave = cosine(at / self.decay_steps * (2 * self.num_periods))
  return ((linear + self.alpha) * wave + self.beta) * self.initial_learning_rate
end

about.say("schedules", {
  {"CosineDecay", source = "arXiv:1608.03983"},
  {"CosineDecayRestarts", source = "arXiv:1608.03983"},
  {"LearningRateSchedule", text = "The base of all schedules; extend it with `rate(step)`."},
  {"LinearCosineDecay", source = "arXiv:1709.07417",
    keras = "tf.keras.experimental.LinearCosineDecay"},
})

return parts.give("schedules", schedules)
