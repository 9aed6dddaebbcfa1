-- Activation functions. softmax and sigmoid note the tensor that they were applied to, so that the
-- cross-entropies can use it (context.logits).

local about = require "ipulua.base.parts.about"
local args = require "ipulua.base.args"
local blame = require "ipulua.base.blame"
local context = require "ipulua.keras.base.context"
local ops = require "ipulua.ops"

local activations = {}

local function cast_like(condition, x) return ops.cast(condition, x.dtype) end

---x itself.
function activations.linear(x) return x end

-- Checked arguments; x, when it was written as numbers, as a tensor.
local function checked(name, rows, ...)
  local a = args.check(name, rows, ...)
  if type(a.x) == "number" or args.is_plain(a.x) then a.x = ops.tensor(a.x) end
  if not args.is_tensor(a.x) then
    blame.error(string.format("%s: 'x' must be a tensor, a number or a list, got %s", name,
      args.describe(a.x)), "type")
  end
  return a.x, a
end

local relu_rows <const> = {
  {"x", "any", of = "tensor, number or list"}, {"alpha", "number", 0},
  {"max_value", "number", optional = true}, {"threshold", "number", 0},
}

---max(x, 0); with threshold, alpha (slope below it) and max_value.
function activations.relu(x, ...)
  if select("#", ...) == 0 and not args.is_plain(x) then return ops.nn.relu(x) end
  local a, below
  x, a = checked("relu", relu_rows, x, ...)
  if a.alpha ~= 0 then
    below = ops.nn.relu(a.threshold ~= 0 and a.threshold - x or -x)
  end
  local y
  if a.threshold ~= 0 then
    y = x * cast_like(ops.greater(x, a.threshold), x)
  else
    y = ops.nn.relu(x)
  end
  if a.max_value then y = ops.clip_by_value(y, 0, a.max_value) end
  if below then y = y - below * a.alpha end
  return y
end

---min(max(x, 0), 6).
function activations.relu6(x) return ops.nn.relu6(x) end

local leaky_rows <const> = {{"x", "any", of = "tensor, number or list"}, {"alpha", "number", 0.2}}

---x above 0, alpha x below.
function activations.leaky_relu(...)
  local x, a = checked("leaky_relu", leaky_rows, ...)
  return ops.nn.leaky_relu(x, {alpha = a.alpha})
end

local elu_rows <const> = {{"x", "any", of = "tensor, number or list"}, {"alpha", "number", 1}}

---x above 0, alpha (e^x - 1) below.
function activations.elu(...)
  local x, a = checked("elu", elu_rows, ...)
  return ops.nn.elu(x, {alpha = a.alpha})
end

function activations.selu(x) return ops.nn.selu(x) end
function activations.softplus(x) return ops.nn.softplus(x) end
function activations.softsign(x) return ops.nn.softsign(x) end
function activations.tanh(x) return ops.tanh(x) end
function activations.exponential(x) return ops.exp(x) end

---x sigmoid(x).
function activations.swish(x) return ops.nn.swish(x) end
activations.silu = activations.swish

---0.2 x + 0.5, clipped to [0, 1].
function activations.hard_sigmoid(x) return ops.nn.hard_sigmoid(x) end

local gelu_rows <const> = {{"x", "any", of = "tensor, number or list"},
  {"approximate", "boolean", false}}

---x times the normal distribution's integral up to x; approximate: by tanh.
function activations.gelu(...)
  local x, a = checked("gelu", gelu_rows, ...)
  return ops.nn.gelu(x, {approximate = a.approximate})
end

local axis_rows <const> = {{"x", "any", of = "tensor, number or list"}, {"axis", "integer", -1}}
local axes_rows <const> = {
  {"x", "any", of = "tensor, number or list"}, {"axis", {"integer", "integers"}, -1},
}

---e^x divided by its sum along an axis, or several together.
function activations.softmax(...)
  local x, a = checked("softmax", axes_rows, ...)
  local axis = a.axis
  if type(axis) == "table" and #axis == 1 then axis = axis[1] end
  if type(axis) == "table" then
    return ops.exp(x - ops.reduce_logsumexp(x, {axis = axis, keepdims = true}))
  end
  local y = ops.nn.softmax(x, {axis = axis})
  if axis == -1 or axis == #x.shape - 1 then context.set_logits(y, x) end
  return y
end

---The logarithm of softmax.
function activations.log_softmax(...)
  local x, a = checked("log_softmax", axis_rows, ...)
  return ops.nn.log_softmax(x, {axis = a.axis})
end

---1 / (1 + e^-x).
function activations.sigmoid(x)
  return context.set_logits(ops.sigmoid(x), x)
end

---An activation from its name, nil (linear) or a function.
---@param activation any name or function
---@return function
function activations.get(activation)
  if activation == nil then return activations.linear end
  return require "ipulua.base.parts".get("activation", activation, {prefers_class = false})
end

about.say("activations", {
  {"elu", text = "x above 0, alpha·(eˣ − 1) below"},
  {"exponential", text = "eˣ"},
  {"gelu", text = "x·Φ(x); approximate = true takes the tanh formula"},
  {"get", text = "the function of a name"},
  {"hard_sigmoid", text = "0.2·x + 0.5, from 0 to 1"},
  {"leaky_relu", text = "x above 0, alpha·x below", keras = "tf.nn.leaky_relu"},
  {"linear", text = "x"},
  {"log_softmax", text = "log of softmax", keras = "tf.nn.log_softmax"},
  {"relu", text = "max(x, 0); alpha, max_value and threshold as in the layer ReLU"},
  {"relu6", text = "min(max(x, 0), 6)", keras = "tf.nn.relu6"},
  {"selu", text = "scaled ELU with fixed constants"},
  {"sigmoid", text = "1 / (1 + e⁻ˣ)"},
  {"silu", text = "x·σ(x)", keras = "as swish"},
  {"softmax", text = "eˣ / Σeˣ along an axis"},
  {"softplus", text = "log(1 + eˣ)"},
  {"softsign", text = "x / (1 + |x|)"},
  {"swish", text = "x·σ(x)"},
  {"tanh", text = "tanh(x)"},
})

return require("ipulua.base.parts").give("activations", activations)
