-- The update rules of ipu.train and ipu.keras.optimizers. Optimizers of both that compute alike
-- share a rule. A rule is a function (o, w, g, s, slot) → the new value of a variable. o has the
-- hyperparameters, w is the variable's value, g its gradient. s has values for all variables, such
-- as s.rate, the learning rate. slot(name, initial) is a variable beside it.

local blame = require "ipulua.base.blame"
local core = require "ipulua.core"
local log = require "ipulua.base.log"
local ops = require "ipulua.ops"

local rules = {}

local function text(shape) return "[" .. table.concat(shape, ", ") .. "]" end

---An error unless a gradient has its variable's shape. Another one might broadcast, and the update
---would pass for a good one. Extents that a session feeds are -1, and fit any.
---@param who string
---@param g userdata
---@param v userdata the variable
function rules.check_shape(who, g, v)
  local a, b = g.shape, v.shape
  local same = #a == #b
  for i = 1, same and #a or 0 do same = same and (a[i] == b[i] or a[i] < 0 or b[i] < 0) end
  if same then return end
  blame.error(string.format("%s: the gradient of variable '%s' has the shape %s, the variable %s",
    who, v.name, text(a), text(b)), "value")
end

local least_half <const> = 2 ^ -24 -- float16's least number above 0

---Warns of a mean of squares that is kept in float16, if epsilon can't replace what vanishes there.
---The steps of small gradients would be divided by epsilon alone.
---@param name string the optimizer's
---@param v userdata the variable
---@param epsilon number
---@param in_root boolean whether epsilon is added to the squares, not to their root
---@param remedy string
function rules.warn_of_squares(name, v, epsilon, in_root, remedy)
  if epsilon >= (in_root and least_half or math.sqrt(least_half)) then return end
  log.warn("%s keeps the mean of squared gradients of '%s' in float16, where small ones are 0; "
    .. "epsilon = %g is too small for that: %s", name, v.name, epsilon, remedy)
end

---An error for a learning rate of several elements, which would broadcast to the variables.
---@param who string
---@param rate number|userdata
function rules.check_rate(who, rate)
  for _, extent in ipairs(type(rate) == "number" and {} or rate.shape) do
    if extent > 1 then
      blame.error(string.format("%s: the learning rate must be a single number, got a tensor of "
        .. "the shape %s", who, text(rate.shape)), "value")
    end
  end
end

---A scalar in the dtype of a tensor or variable; numbers stay.
---@param x number|userdata
---@param like userdata
---@return number|userdata
function rules.scalar(x, like)
  if type(x) == "number" or x.dtype == like.dtype then return x end
  return ops.cast(x, like.dtype)
end
local scalar <const> = rules.scalar

---A moving average moves towards x; the variable's new value.
---@param slot userdata
---@param x userdata
---@param share number
---@return userdata
function rules.move(slot, x, share)
  local value = slot + (x - slot) * share
  slot:assign(value)
  return value
end
local move <const> = rules.move

-- The same as one sum of two products, whose roundings are others.
local function mix(slot, x, keep) return slot:assign(slot * keep + x * (1 - keep)) end

---1 - beta^t, which loses nothing in float32.
---@param beta number
---@param t userdata the update's number, from 1
---@return userdata
function rules.one_minus_power(beta, t)
  if beta == 0 then return core.tensor(1, "float32") end
  return -ops.expm1(t * math.log(beta))
end

---GradientDescentOptimizer, SGD.
function rules.descent(_, w, g, s) return w - g * scalar(s.rate, g) end

-- ------------------------------------------------ momentum

---MomentumOptimizer: gradients add up, and the rate scales their sum.
function rules.momentum_of_gradients(o, w, g, s, slot)
  local sum = slot "Momentum"
  local new = sum:assign(sum * o.momentum + g)
  if o.use_nesterov then new = g + new * o.momentum end
  return w - new * scalar(s.rate, w)
end

---SGD with momentum: steps add up, each with the rate of its time.
function rules.momentum_of_steps(o, w, g, s, slot)
  local step, velocity = g * scalar(s.rate, g), slot "momentum"
  local value = velocity * o.momentum - step
  velocity:assign(value)
  if o.nesterov then return w + (value * o.momentum - step) end
  return w + value
end

-- ------------------------------------------------ Adam

---AdamOptimizer: s.factor is √(1 − beta2ᵗ) / (1 − beta1ᵗ).
function rules.adam_with_factor(o, w, g, s, slot)
  local m, second = mix(slot "m", g, o.beta1), mix(slot "v", g:square(), o.beta2)
  local step = scalar(s.factor, w) * scalar(s.rate, w)
  return w - m / (second:sqrt() + o.epsilon) * step
end

---Adam: s.alpha is the rate times that factor.
function rules.adam(o, w, g, s, slot)
  local m = move(slot "m", g, 1 - o.beta_1)
  local second = move(slot "v", ops.square(g), 1 - o.beta_2)
  if o.amsgrad then
    local highest = slot "vhat"
    second = ops.maximum(highest, second)
    highest:assign(second)
  end
  return w - m * scalar(s.alpha, g) / (ops.sqrt(second) + o.epsilon)
end

-- ------------------------------------------------ RMSprop

---RMSPropOptimizer: the mean square begins at 1, and epsilon stands inside the root.
function rules.rmsprop_from_one(o, w, g, s, slot)
  local square = mix(slot("RMSProp", 1), g:square(), o.decay)
  if o.centered then square = square - mix(slot "MeanGradient", g, o.decay):square() end
  local step = g / (square + o.epsilon):sqrt() * scalar(s.rate, w)
  if o.momentum ~= 0 then
    local sum = slot "Momentum"
    step = sum:assign(sum * o.momentum + step)
  end
  return w - step
end

---RMSprop: from 0; epsilon stands outside the root without momentum, inside it with momentum.
function rules.rmsprop(o, w, g, s, slot)
  local variance = move(slot "rms", ops.square(g), 1 - o.rho)
  if o.centered then variance = variance - ops.square(move(slot "mg", g, 1 - o.rho)) end
  local step = g * scalar(s.rate, g)
  if o.momentum == 0 then return w - step / (ops.sqrt(variance) + o.epsilon) end
  local momentum = slot "momentum"
  local value = momentum * o.momentum + step / ops.sqrt(variance + o.epsilon)
  momentum:assign(value)
  return w - value
end

-- ------------------------------------------------ Adagrad

---AdagradOptimizer: without an epsilon.
function rules.adagrad_of_sums(o, w, g, s, slot)
  local sum = slot("Adagrad", o.initial)
  return w - g / sum:assign_add(g:square()):sqrt() * scalar(s.rate, w)
end

---Adagrad.
function rules.adagrad(o, w, g, s, slot)
  local accumulator = slot("accumulator", o.initial_accumulator_value)
  local sum = accumulator + ops.square(g)
  accumulator:assign(sum)
  return w - g * scalar(s.rate, w) / (ops.sqrt(sum) + o.epsilon)
end

return rules
