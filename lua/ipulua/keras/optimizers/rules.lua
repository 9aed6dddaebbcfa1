-- The optimizers, each with Keras' formulas and defaults; the rules that ipu.train has, too, are in
-- optimizers/rules.lua.

local about = require "ipulua.base.parts.about"
local base = require "ipulua.keras.optimizers.base"
local core = require "ipulua.core"
local lengths = require "ipulua.keras.base.lengths"
local ops = require "ipulua.ops"
local update_rules = require "ipulua.optimizers.rules"

local rules = {}

local scalar <const>, move <const> = update_rules.scalar, update_rules.move
local one_minus_power <const> = update_rules.one_minus_power

local function declare(name, learning_rate, rows, parent)
  local c = base.declare(name, learning_rate, rows, parent)
  rules[name] = c
  return c
end

-- The number of this update, from 1, as float32.
local function step_number(self)
  return ops.cast(self.iterations, "float32") + 1
end

-- A variable's new value by a rule that ipu.train also has.
local function by(rule, self, v, w, g, s)
  return rule(self, w, g, s, function(name, initial) return self:slot(v, name, initial) end)
end

-- ------------------------------------------------ SGD

---@class SGD: Optimizer
local SGD = declare("SGD", 0.01,
  {{"momentum", "number", 0.0, range = "[0, 1]"}, {"nesterov", "boolean", false}})

function SGD:make_slots(v)
  if self.momentum ~= 0 then self:slot(v, "momentum") end
end

function SGD:update(v, g, s)
  local rule = self.momentum == 0 and update_rules.descent or update_rules.momentum_of_steps
  return by(rule, self, v, self:value_of(v), g, s)
end

-- ------------------------------------------------ Adam and its kin

local beta_rows <const> = {
  {"beta_1", "number", 0.9, range = "[0, 1)"}, {"beta_2", "number", 0.999, range = "[0, 1)"},
  {"epsilon", "number", 1e-7, range = "[0, inf)"},
}

local function with_betas(...)
  return {beta_rows[1], beta_rows[2], beta_rows[3], ...}
end

---@class Adam: Optimizer
local Adam = declare("Adam", 0.001, with_betas({"amsgrad", "boolean", false}))

Adam.mean_of_squares = "v"

function Adam:make_slots(v)
  self:slot(v, "m")
  self:slot(v, "v")
  if self.amsgrad then self:slot(v, "vhat") end
end

function Adam:prepare(rate)
  local t = step_number(self)
  return {alpha = rate * ops.sqrt(one_minus_power(self.beta_2, t))
    / one_minus_power(self.beta_1, t)}
end

function Adam:update(v, g, s) return by(update_rules.adam, self, v, self:value_of(v), g, s) end

---Adam with decoupled weight decay.
---@class AdamW: Adam
declare("AdamW", 0.001, {
  {"weight_decay", "number", 0.004}, beta_rows[1], beta_rows[2], beta_rows[3],
  {"amsgrad", "boolean", false},
}, Adam)

---@class Adamax: Optimizer
local Adamax = declare("Adamax", 0.001, with_betas())

function Adamax:make_slots(v)
  self:slot(v, "m")
  self:slot(v, "v")
end

function Adamax:prepare(rate)
  return {alpha = rate / one_minus_power(self.beta_1, step_number(self))}
end

function Adamax:update(v, g, s)
  local m = move(self:slot(v, "m"), g, 1 - self.beta_1)
  local u = self:slot(v, "v")
  local largest = ops.maximum(u * self.beta_2, ops.abs(g))
  u:assign(largest)
  local w = self:value_of(v)
  return w - m * scalar(s.alpha, w) / (largest + self.epsilon)
end

---Adam with Nesterov momentum, whose momentum is warmed up (schedule_decay).
---@class Nadam: Optimizer
local Nadam = declare("Nadam", 0.001, with_betas({"schedule_decay", "number", 0.004}))

Nadam.mean_of_squares = "v"

function Nadam:make_slots(v)
  self:state("momentum_cache", 1)
  self:slot(v, "m")
  self:slot(v, "v")
end

-- The momentum of update t: beta_1 (1 - 0.96^(decay t) / 2).
function Nadam:momentum_at(t)
  return (1 - ops.exp(t * (self.schedule_decay * math.log(0.96))) * 0.5) * self.beta_1
end

function Nadam:prepare()
  local t = step_number(self)
  local now, following = self:momentum_at(t), self:momentum_at(t + 1)
  local product = self:state("momentum_cache", 1) * now
  return {
    now = now, following = following, product = product, next_product = product * following,
    correction = one_minus_power(self.beta_2, t),
  }
end

function Nadam:update(v, g, s)
  local w = self:value_of(v)
  local m = move(self:slot(v, "m"), g, 1 - self.beta_1)
  local second = move(self:slot(v, "v"), ops.square(g), 1 - self.beta_2)
  local direction = g * scalar((1 - s.now) / (1 - s.product), w)
    + m * scalar(s.following / (1 - s.next_product), w)
  return w - direction * scalar(s.rate, w)
    / (ops.sqrt(second / scalar(s.correction, w)) + self.epsilon)
end

function Nadam:finish(s)
  self:state("momentum_cache", 1):assign(s.product)
end

---Adam whose step is scaled to the length of each variable.
---@class LAMB: Optimizer
local LAMB = declare("LAMB", 0.001, with_betas())

LAMB.mean_of_squares = "v"

function LAMB:make_slots(v)
  self:slot(v, "m")
  self:slot(v, "v")
end

function LAMB:prepare()
  local t = step_number(self)
  return {first = one_minus_power(self.beta_1, t), second = one_minus_power(self.beta_2, t)}
end

function LAMB:update(v, g, s)
  local w = self:value_of(v)
  local m = move(self:slot(v, "m"), g, 1 - self.beta_1) / scalar(s.first, w)
  local second = move(self:slot(v, "v"), ops.square(g), 1 - self.beta_2) / scalar(s.second, w)
  local direction = m / (ops.sqrt(second) + self.epsilon)
  local weight, step = lengths.of(w), lengths.of(direction)
  local both = ops.logical_and(ops.greater(weight, 0), ops.greater(step, 0))
  local ratio = ops.where(both, weight / ops.maximum(step, 1e-30), ops.ones_like(weight))
  return w - direction * scalar(ratio * scalar(s.rate, ratio), w)
end

---The sign of an interpolated momentum.
---@class Lion: Optimizer
local Lion = declare("Lion", 0.001, {
  {"beta_1", "number", 0.9, range = "[0, 1)"}, {"beta_2", "number", 0.99, range = "[0, 1)"},
})

function Lion:make_slots(v) self:slot(v, "m") end

function Lion:update(v, g, s)
  local m, w = self:slot(v, "m"), self:value_of(v)
  local value = w - ops.sign(m * self.beta_1 + g * (1 - self.beta_1)) * scalar(s.rate, w)
  m:assign(m * self.beta_2 + g * (1 - self.beta_2))
  return value
end

-- ------------------------------------------------ RMSprop, Adagrad, Adadelta, Ftrl

---@class RMSprop: Optimizer
local RMSprop = declare("RMSprop", 0.001, {
  {"rho", "number", 0.9, range = "[0, 1]"}, {"momentum", "number", 0.0, range = "[0, 1]"},
  {"epsilon", "number", 1e-7, range = "[0, inf)"},
  {"centered", "boolean", false},
})

RMSprop.mean_of_squares = "rms"

function RMSprop:make_slots(v)
  self:slot(v, "rms")
  if self.momentum ~= 0 then self:slot(v, "momentum") end
  if self.centered then self:slot(v, "mg") end
end

function RMSprop:update(v, g, s)
  return by(update_rules.rmsprop, self, v, self:value_of(v), g, s)
end

---@class Adagrad: Optimizer
local Adagrad = declare("Adagrad", 0.001, {
  {"initial_accumulator_value", "number", 0.1, range = "[0, inf)"},
  {"epsilon", "number", 1e-7, range = "[0, inf)"},
})

function Adagrad:make_slots(v) self:slot(v, "accumulator", self.initial_accumulator_value) end

function Adagrad:update(v, g, s)
  return by(update_rules.adagrad, self, v, self:value_of(v), g, s)
end

---@class Adadelta: Optimizer
local Adadelta = declare("Adadelta", 0.001,
  {{"rho", "number", 0.95, range = "[0, 1]"}, {"epsilon", "number", 1e-7, range = "[0, inf)"}})

function Adadelta:make_slots(v)
  self:slot(v, "accum_grad")
  self:slot(v, "accum_var")
end

function Adadelta:update(v, g, s)
  local squares = move(self:slot(v, "accum_grad"), ops.square(g), 1 - self.rho)
  local updates = self:slot(v, "accum_var")
  local step = g * ops.sqrt(updates + self.epsilon) / ops.sqrt(squares + self.epsilon)
  move(updates, ops.square(step), 1 - self.rho)
  local w = self:value_of(v)
  return w - step * scalar(s.rate, w)
end

---Follow the regularized leader.
---@class Ftrl: Optimizer
local Ftrl = declare("Ftrl", 0.001, {
  {"learning_rate_power", "number", -0.5, range = "(-inf, 0]"},
  {"initial_accumulator_value", "number", 0.1},
  {"l1_regularization_strength", "number", 0.0}, {"l2_regularization_strength", "number", 0.0},
  {"l2_shrinkage_regularization_strength", "number", 0.0}, {"beta", "number", 0.0},
})

function Ftrl:make_slots(v)
  self:slot(v, "accumulator", self.initial_accumulator_value)
  self:slot(v, "linear")
end

function Ftrl:update(v, g, s)
  local w = self:value_of(v)
  local rate = scalar(s.rate, w)
  local accumulator, linear = self:slot(v, "accumulator", self.initial_accumulator_value),
    self:slot(v, "linear")
  local shrunk = g
  if self.l2_shrinkage_regularization_strength ~= 0 then
    shrunk = g + w * (2 * self.l2_shrinkage_regularization_strength)
  end
  local sum = accumulator + ops.square(g)
  local power = core.tensor(-self.learning_rate_power, w.dtype)
  local new_power = ops.pow(sum, power)
  local sigma = (new_power - ops.pow(accumulator, power)) / rate
  local z = linear + shrunk - w * sigma
  accumulator:assign(sum)
  linear:assign(z)
  -- beta acts as l2 = beta / (2 rate)
  local quadratic = (new_power + self.beta) / rate + 2 * self.l2_regularization_strength
  local l1 = self.l1_regularization_strength
  local value = (ops.sign(z) * l1 - z) / quadratic
  return ops.where(ops.greater(ops.abs(z), l1), value, ops.zeros_like(z))
end

about.say("optimizers", {
  {"Adadelta", text = "Steps as large as the last ones, without a unit of their own.",
    source = "arXiv:1212.5701"},
  {"Adagrad", text = "g / √(sum of squares).", source = "Duchi, Hazan & Singer 2011 (JMLR 12)"},
  {"Adam", text = "Moments m, v of gradient and square, corrected for their beginning; amsgrad "
    .. "keeps the greatest v.", source = "arXiv:1412.6980; amsgrad: arXiv:1904.09237"},
  {"AdamW", source = "arXiv:1711.05101"},
  {"Adamax", text = "Adam with the greatest gradient in place of the second moment.",
    source = "arXiv:1412.6980"},
  {"Ftrl", source = "McMahan et al. 2013 (KDD)"},
  {"LAMB", source = "arXiv:1904.00962", keras = false},
  {"Lion", source = "arXiv:2302.06675"},
  {"Nadam", source = "Dozat 2016 (ICLR workshop)"},
  {"RMSprop", text = "g / √(mean of squares), with momentum and centered.",
    source = "Tieleman & Hinton 2012, lecture 6.5"},
  {"SGD", text = "v ← momentum·v − lr·g; w ← w + v (nesterov: w ← w + momentum·v − lr·g).",
    source = "Sutskever et al. 2013 (ICML), for momentum"},
})

return rules
