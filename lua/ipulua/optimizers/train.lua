-- ipu.train: optimizers as graphs use them, with minimize(loss) and its two halves. They work with
-- any symbolic loss, in a session's graph, a traced function or a loop. apply_gradients also takes
-- a tape's gradients at once.

local args = require "ipulua.base.args"
local blame = require "ipulua.base.blame"
local class = require "ipulua.base.class"
local core = require "ipulua.core"
local counted = require "ipulua.base.counted"
local operation = require "ipulua.trace.operation"
local rules = require "ipulua.optimizers.rules"
local session_graph = require "ipulua.trace.session_graph"
local structure = require "ipulua.base.structure"
local tape = require "ipulua.trace.tape"
local teams = require "ipulua.config.teams"
local tracing = require "ipulua.trace.tracing"
local variables = require "ipulua.trace.variables"

local train = {}

-- ------------------------------------------------ the step counter

local global_step

session_graph.on_reset(function() global_step = nil end)

---The counter of updates, made at the first call; it lives on the CPU.
---Shapes: int64 []
---Source: tf.train.get_or_create_global_step of TensorFlow 2.6
---@return userdata
function train.get_or_create_global_step()
  if not global_step then
    global_step = variables.declare("global_step", "int64", {}, false)
    variables.with_initial_value(global_step, function() return core.tensor(0, "int64") end)
  end
  return global_step
end

-- ------------------------------------------------ the base class

---The base of optimizers in the manner of sessions: `ipu.train.Optimizer:extend("Name")` with
---`apply_gradient(g, v)`.
---Shapes: gradients and variables alike
---@class Optimizer
local Optimizer = class.new("Optimizer")
train.Optimizer = Optimizer

local function is_rate(value)
  local t = type(value)
  if t == "number" or t == "function" or core.is_tensor(value) or core.is_variable(value) then
    return nil
  end
  return "must be a number, a tensor or a function that gives one"
end

local rate_row <const> = {"learning_rate", "any", one = true, check = is_rate,
  of = "number, tensor or function that gives one"}
local optional_rate <const> = {"learning_rate", "any", optional = true, check = is_rate}
local name_row <const> = {"name", "string", optional = true}

function Optimizer:init(learning_rate, name)
  args.check_value("Optimizer", optional_rate, learning_rate)
  args.check_value("Optimizer", name_row, name)
  self.learning_rate = learning_rate
  self.name = name or class.of(self).__name
  self.slots = {} -- slot name → variable identity → variable
  self.made = {}  -- all of them, as {path =, variable =}
end

local scalars <const> = {number = true, string = true, boolean = true}

function Optimizer:__tostring()
  local fields = {learning_rate = self.learning_rate, opt = self.wrapped}
  for key, value in next, self do
    if scalars[type(value)] then fields[key] = value end
  end
  return class.text(self, fields)
end

-- Its value is the restored one, else make(). If a script makes variables twice, their names
-- differ. So in a checkpoint a slot is known by its position in the order of making.
local function add_slot(self, name, slot, dtype, shape, make)
  local v = variables.declare(name, dtype, shape, false)
  local path = string.format("%s/%d/%s", self.name, #self.made + 1, slot)
  self.made[#self.made + 1] = {path = path, variable = v}
  variables.with_initial_value(v, function()
    return self.restored and self.restored[path] or make()
  end)
  return v
end

---All variables of the optimizer, for a checkpoint.
---@return table[] {path =, variable =}
function Optimizer:entries() return core.plain(table.move(self.made, 1, #self.made, 1, {})) end

---Sets its variables, those there are and those still to be made.
---Shapes: each tensor has its variable's shape
---Errors: a tensor of another shape
---@param tensors table<string, userdata> by path
function Optimizer:restore(tensors)
  self.restored = tensors
  for _, entry in ipairs(self.made) do
    if tensors[entry.path] then core.set_variable(entry.variable, tensors[entry.path]) end
  end
end

local slot_row <const> = {"slot", "string"}

---A variable beside v: made with a value at the first call, the same one afterwards.
---Shapes: as v
---Errors: v is no variable: `ipu.train.GradientDescentOptimizer(0.1):slot("v", "m")`
---@param v userdata
---@param slot string
---@param value number? what all elements start from; 0 by default
---@param dtype string? v's by default
---@return userdata
function Optimizer:slot(v, slot, value, dtype)
  args.check_value("slot", slot_row, slot)
  local of = self.slots[slot] or {}
  self.slots[slot] = of
  local key = core.variable_identity(v)
  if not of[key] then
    local name, shape, stored = v.name .. "/" .. self.name .. "/" .. slot, v.shape, dtype or v.dtype
    of[key] = add_slot(self, name, slot, stored, shape, function()
      return core.full(shape, value or 0, stored)
    end)
    of[key].of_optimizer = true
  end
  return of[key]
end

---A scalar of the optimizer itself.
---Shapes: []
---Errors: a dtype that there is not:
---`ipu.train.GradientDescentOptimizer(0.1):scalar("count", 0, "int")`
---@param slot string
---@param value number
---@param dtype string?
---@return userdata
function Optimizer:scalar(slot, value, dtype)
  args.check_value("scalar", slot_row, slot)
  local of = self.slots[slot]
  if not of then
    of = add_slot(self, self.name .. "/" .. slot, slot, dtype or "float32", {}, function()
      return core.tensor(value, dtype or "float32")
    end)
    self.slots[slot] = of
  end
  return of
end

---The learning rate as a number, or a tensor of a dtype.
---Shapes: [] if it is a tensor
---Errors: a tensor of several elements; errors of learning_rate, if it is a function:
---`ipu.train.GradientDescentOptimizer(function() error("no rate") end):rate("float32")`
---@param dtype string
---@return number|userdata
function Optimizer:rate(dtype)
  local rate = self.learning_rate
  if type(rate) == "function" then rate = rate() end
  if core.is_variable(rate) then rate = rate:read_value() end
  if not core.is_tensor(rate) then return rate end
  rules.check_rate(self.name, rate)
  return rate.dtype == dtype and rate or rate:cast(dtype)
end

-- Trainable variables that the loss can depend on.
local function variables_read()
  local read, list = core.trace_read_variables(), {}
  for _, v in ipairs(variables.trainable_variables()) do
    if read[core.variable_identity(v)] then list[#list + 1] = v end
  end
  return list
end

local compute_spec <const> = {
  {"loss", "any", one = true, of = "tensor"},
  {"var_list", "list", optional = true, says = "variables; all trainable ones by default"},
  {"grad_loss", "any", optional = true, of = "tensor", says = "upstream gradient; ones by default"},
}

---Pairs {gradient, variable} of the variables that the loss depends on; the gradient is nil if
---there is no path.
---Shapes: loss any, summed; each gradient has its variable's shape
---Errors: a loss that is not symbolic:
---`ipu.train.GradientDescentOptimizer(0.1):compute_gradients(x)`
---@return table[]
function Optimizer:compute_gradients(...)
  local a = args.check(self.name .. ".compute_gradients", compute_spec, ...)
  local loss = a.loss
  if not core.is_tensor(loss) or not core.is_symbolic(loss) then
    blame.error(self.name .. ".compute_gradients: the loss must be symbolic, made in a traced "
      .. "function or from placeholders; "
      .. "outside, use ipu.GradientTape and apply_gradients, got " .. args.describe(loss), "value")
  end
  local list = a.var_list or variables_read()
  for i, v in ipairs(list) do
    if not core.is_variable(v) then
      blame.error(string.format("%s.compute_gradients: 'var_list' must hold variables, got %s at "
        .. "position %d", self.name,
        args.describe(v), i), "type")
    end
  end
  local found = tape.gradients(loss, list, {grad_ys = a.grad_loss})
  local given = {}
  for i, v in ipairs(list) do given[i] = {found[i], v} end
  return given
end

---Makes one update of one variable; subclasses define it. Returns the assigned value.
---Shapes: g and v alike
---Errors: always, unless a subclass defines it: `ipu.train.Optimizer():apply_gradient(x, v)`
---@param g userdata
---@param v userdata
---@return any
function Optimizer:apply_gradient(g, v) -- luacheck: ignore 212
  blame.error(self.name .. " defines neither apply_gradient nor apply_gradients", "not_implemented")
end

---Called before the updates of all variables; subclasses may define it.
function Optimizer:begin_update() end
function Optimizer:end_update() end

local function check_dtype(self, g, v)
  local dtype = core.type_of(g)
  if dtype == v.dtype then return end
  blame.error(string.format("%s.apply_gradients: the gradient of '%s' is %s, but the variable is "
    .. "%s; cast it, as in "
    .. "ipu.optimizers.MapGradientOptimizer(opt, function(g, v) return ipu.cast(g, v.dtype) end), "
    .. "or in an optimizer of your own "
    .. "that overrides apply_gradients", self.name, v.name, dtype, v.dtype), "type")
end

-- Pairs {gradient, variable}, which may come as two lists.
local function checked_pairs(self, given, list)
  local checked = {}
  if type(given) ~= "table" then
    blame.error(self.name .. ".apply_gradients: expected pairs {gradient, variable}, got "
      .. args.describe(given), "type")
  end
  for i = 1, #(list or given) do
    local pair = list and {given[i], list[i]} or args.is_plain(given[i]) and given[i]
      or {nil, given[i]}
    if not core.is_variable(pair[2]) then
      blame.error(self.name .. ".apply_gradients: the pairs are {gradient, variable}, got "
        .. args.describe(pair[2]), "type")
    end
    checked[i] = pair
  end
  return checked
end

local function with_gradient(self, given)
  local kept = {}
  for _, pair in ipairs(given) do
    if pair[1] then kept[#kept + 1] = {pair[1], pair[2]} end
  end
  if #kept == 0 then
    blame.error(string.format("%s.apply_gradients: no gradient for any of %s: the loss depends on "
      .. "none of them",
      self.name, counted(#given, "variable")), "value")
  end
  return kept
end

-- In the scope of a strategy for several instances gradients are added over all replicas.
local function sum_over_replicas(kept)
  local how = tracing.is_active() and teams.reduction()
  for _, pair in ipairs(kept) do
    if how then pair[1] = core.ops["cross_replica_" .. how](pair[1]) end
    teams.note_trained(pair[2])
  end
end

-- Apply here: in the current trace, or at once.
local function apply(self, kept, step)
  local done = {}
  for _, pair in ipairs(kept) do
    check_dtype(self, pair[1], pair[2])
    rules.check_shape(self.name .. ".apply_gradients", pair[1], pair[2])
  end
  sum_over_replicas(kept)
  self:begin_update()
  for _, pair in ipairs(kept) do done[#done + 1] = self:apply_gradient(pair[1], pair[2]) end
  done[#done + 1] = self:end_update()
  if step then done[#done + 1] = step:assign_add(1) end
  return operation.group(self.name, done, function(x)
    return core.is_tensor(x) and core.is_deferred(x)
  end)
end

local apply_spec <const> = {
  {"grads_and_vars", "list"}, {"variables", "list", optional = true},
  {"global_step", "any", optional = true, of = "variable", says = "grows by 1 with each update"},
  {"name", "string", optional = true},
}

---Updates the variables; in a session's graph the operation that does it.
---Shapes: each gradient has its variable's shape
---Errors: no gradient at all, one of another dtype or shape than its variable's:
---`ipu.train.GradientDescentOptimizer(0.1):apply_gradients{{nil, v}}`
---@param ... any grads_and_vars, {global_step, name}; or gradients, variables
---@return Operation
function Optimizer:apply_gradients(...)
  local given, step = train.read_apply_arguments(self, ...)
  local kept = with_gradient(self, given)
  local is_deferred = false
  for _, pair in ipairs(kept) do is_deferred = is_deferred or core.is_deferred(pair[1]) end
  if is_deferred and not tracing.is_active() then
    return tracing.in_graph(apply, self, kept, step)
  end
  return apply(self, kept, step)
end

-- Its arguments in each of their forms: gradients or pairs, variables beside gradients, options.
local function apply_arguments(self, first, ...)
  if structure.is_plain(first) and first.grads_and_vars then
    return args.check(self.name .. ".apply_gradients", apply_spec, first, ...)
  end
  local second = ...
  if structure.is_plain(second) and next(second) == nil then second = nil end
  if structure.is_plain(second) and #second > 0 then
    local options = select(2, ...) or {}
    return {grads_and_vars = first, variables = second, global_step = options.global_step}
  end
  if second == nil then return {grads_and_vars = first} end
  return args.check(self.name .. ".apply_gradients", apply_spec, first, nil, second)
end

---The pairs that apply_gradients is given, and global_step, for wrappers.
---@return table[] {gradient?, variable}
---@return userdata?
---@package
function train.read_apply_arguments(self, ...)
  local a = apply_arguments(self, ...)
  return checked_pairs(self, a.grads_and_vars, a.variables), a.global_step
end

local minimize_spec <const> = {
  {"loss", "any", one = true, of = "tensor"},
  {"var_list", "list", optional = true, says = "variables; all trainable ones by default"},
  {"global_step", "any", optional = true, of = "variable", says = "grows by 1 with each update"},
  {"name", "string", optional = true},
}

---compute_gradients and apply_gradients in one.
---Shapes: loss any, summed
---Errors: as compute_gradients' and apply_gradients':
---`ipu.train.GradientDescentOptimizer(0.1):minimize(x)`
---@return Operation
function Optimizer:minimize(...)
  local a = args.check(self.name .. ".minimize", minimize_spec, ...)
  local given = self:compute_gradients(a.loss, a.var_list and {var_list = a.var_list})
  return self:apply_gradients(given, {global_step = a.global_step})
end

-- ------------------------------------------------ the rules

local has_warned <const> = setmetatable({}, {__mode = "k"})

-- RMSPropOptimizer adds epsilon to the squares, AdamOptimizer to their root.
local function warn_of_squares(self, v)
  if has_warned[self] then return end
  has_warned[self] = true
  local in_root = self.decay ~= nil
  rules.warn_of_squares(self.name, v, self.epsilon, in_root, "give epsilon = "
    .. (in_root and "1e-6" or "1e-3") .. ", or keep the weights in float32")
end

-- rule: of rules.lua. begin_update leaves values that it needs beside the rate in self.prepared.
local function define(name, spec, init, rule, methods)
  local Class = Optimizer:extend(name)
  function Class:init(...)
    local a = args.check(name, spec, ...)
    Optimizer.init(self, a.learning_rate, a.name)
    if init then init(self, a) end
  end
  function Class:apply_gradient(g, v)
    local s = self.prepared or {}
    s.rate = self:rate(v.dtype)
    return v:assign(rule(self, v, g, s, function(slot, value)
      if v.dtype == "float16" and slot == Class.mean_of_squares then warn_of_squares(self, v) end
      return self:slot(v, slot, value)
    end))
  end
  for key, method in pairs(methods or {}) do Class[key] = method end
  train[name] = Class
end

---v ← v − learning_rate·g.
---Shapes: gradients and variables alike; learning_rate []
---Errors: a learning_rate that is no number, tensor or function:
---`ipu.train.GradientDescentOptimizer "0.1"`
---Source: tf.compat.v1.train.GradientDescentOptimizer of TensorFlow 2.6
---@class GradientDescentOptimizer: Optimizer
define("GradientDescentOptimizer", {rate_row,
  {"use_locking", "boolean", false, says = "changes nothing"}, name_row}, nil, rules.descent)

---sum ← momentum·sum + g; v ← v − learning_rate·sum (use_nesterov: − learning_rate·(g +
---momentum·sum)).
---Shapes: gradients and variables alike; learning_rate []; beside each variable: Momentum
---Errors: as GradientDescentOptimizer's; a momentum that is no number:
---`ipu.train.MomentumOptimizer(0.1)`
---Source: tf.compat.v1.train.MomentumOptimizer of TensorFlow 2.6
---@class MomentumOptimizer: Optimizer
define("MomentumOptimizer", {
  rate_row, {"momentum", "number"}, {"use_nesterov", "boolean", false},
  {"use_locking", "boolean", false, says = "changes nothing"},
  name_row,
}, function(self, a) self.momentum, self.use_nesterov = a.momentum, a.use_nesterov end,
rules.momentum_of_gradients)

---m ← beta1·m + (1 − beta1)·g and s ← beta2·s + (1 − beta2)·g². After t updates v ← v −
---learning_rate·√(1 − beta2ᵗ) / (1 − beta1ᵗ) · m / (√s + epsilon).
---Shapes: gradients and variables alike; learning_rate []; beside each variable: m, v
---Errors: as GradientDescentOptimizer's; an unknown argument:
---`ipu.train.AdamOptimizer{beta_1 = 0.5}`
---Source: arXiv:1412.6980; tf.compat.v1.train.AdamOptimizer of TensorFlow 2.6
---@class AdamOptimizer: Optimizer
-- The powers of the betas are variables. They advance once for each update, in any kind of loop.
define("AdamOptimizer", {
  {"learning_rate", "any", 0.001, one = true, check = is_rate,
    of = "number, tensor or function that gives one"}, {"beta1", "number", 0.9},
  {"beta2", "number", 0.999},
  {"epsilon", "number", 1e-8}, {"use_locking", "boolean", false, says = "changes nothing"},
  name_row,
}, function(self, a) self.beta1, self.beta2, self.epsilon = a.beta1, a.beta2, a.epsilon end,
rules.adam_with_factor, {
  mean_of_squares = "v",
  begin_update = function(self)
    local power1, power2 = self:scalar("beta1_power", self.beta1),
      self:scalar("beta2_power", self.beta2)
    self.prepared = {factor = (1 - power2:read_value()):sqrt() / (1 - power1:read_value())}
  end,
  end_update = function(self)
    local power1, power2 = self:scalar("beta1_power", self.beta1),
      self:scalar("beta2_power", self.beta2)
    local first, second = power1:assign(power1 * self.beta1), power2:assign(power2 * self.beta2)
    return operation.group("beta powers", {first, second}, function(x)
      return core.is_tensor(x) and core.is_deferred(x)
    end)
  end,
})

---s ← decay·s + (1 − decay)·g², from 1, and step = learning_rate·g / √(s + epsilon). Centered, s is
---less the squared mean of g. Then sum ← momentum·sum + step and v ← v − sum.
---Shapes: gradients and variables alike; learning_rate []; beside each variable: RMSProp,
---MeanGradient if centered, Momentum
---Errors: as GradientDescentOptimizer's: `ipu.train.RMSPropOptimizer()`
---Source: Tieleman & Hinton 2012, lecture 6.5; tf.compat.v1.train.RMSPropOptimizer of
---TensorFlow 2.6
---@class RMSPropOptimizer: Optimizer
define("RMSPropOptimizer", {
  rate_row, {"decay", "number", 0.9}, {"momentum", "number", 0.0}, {"epsilon", "number", 1e-10},
  {"use_locking", "boolean", false, says = "changes nothing"},
  {"centered", "boolean", false}, name_row,
}, function(self, a)
  self.decay, self.momentum, self.epsilon, self.centered = a.decay, a.momentum,
    a.epsilon, a.centered
end, rules.rmsprop_from_one, {mean_of_squares = "RMSProp"})

---sum ← sum + g²; v ← v − learning_rate·g / √sum.
---Shapes: gradients and variables alike; learning_rate []; beside each variable: Adagrad
---Errors: as GradientDescentOptimizer's: `ipu.train.AdagradOptimizer()`
---Source: Duchi, Hazan & Singer 2011 (JMLR 12); tf.compat.v1.train.AdagradOptimizer of
---TensorFlow 2.6
---@class AdagradOptimizer: Optimizer
define("AdagradOptimizer", {
  rate_row, {"initial_accumulator_value", "number", 0.1},
  {"use_locking", "boolean", false, says = "changes nothing"}, name_row,
}, function(self, a) self.initial = a.initial_accumulator_value end,
  rules.adagrad_of_sums)

---Whether value is an optimizer of this kind.
---@package
function train.is_optimizer(value) return class.is_a(value, Optimizer) end

class.guard_all(train)
return train
