-- An optimizer has hyperparameters, slots beside the variables, and an update made of ops. The
-- number of updates and the learning rate are variables, so that compiled programs see changes of
-- both. Changing another hyperparameter raises `version`, which makes models compile anew.

local about = require "ipulua.base.parts.about"
local args = require "ipulua.base.args"
local blame = require "ipulua.base.blame"
local class = require "ipulua.base.class"
local core = require "ipulua.core"
local counted = require "ipulua.base.counted"
local gradients = require "ipulua.keras.optimizers.gradients"
local ops = require "ipulua.ops"
local parts = require "ipulua.base.parts"
local rules = require "ipulua.optimizers.rules"
local shapes = require "ipulua.keras.base.shapes"
local slots = require "ipulua.keras.optimizers.slots"
local tapes = require "ipulua.trace.tape"
local teams = require "ipulua.config.teams"
local tracing = require "ipulua.trace.tracing"
local variables = require "ipulua.trace.variables"

local base = {}

---@class Optimizer: Class
---@field iterations userdata int64: weight updates so far
---@field learning_rate any a variable, or a schedule
---@field weights userdata[] iterations and slots
local Optimizer = class.new("Optimizer")
base.Optimizer = Optimizer
Optimizer.argument_rows, Optimizer.argument_kinds = {}, {}
-- fields that __index makes, for completion
Optimizer.properties = {learning_rate = true, weights = true}

local common_rows <const> = {
  {"name", "string", optional = true}, {"clipnorm", "number", optional = true, range = "[0, inf)"},
  {"clipvalue", "number", optional = true, range = "[0, inf)"},
  {"global_clipnorm", "number", optional = true, range = "[0, inf)"},
  {"decay", "number", 0.0, range = "[0, inf)"},
  {"weight_decay", "number", optional = true}, {"use_ema", "boolean", false},
  {"ema_momentum", "number", 0.99, range = "[0, 1]"},
  {"ema_overwrite_frequency", "integer", optional = true, range = "[1, inf)"},
  {"state_dtype", "string", optional = true, choices = {"float32", "float64"}},
}

---A new kind of optimizer: rows of its arguments, the learning rate first.
---@param name string
---@param learning_rate number default
---@param rows table[]
---@param parent table?
function base.declare(name, learning_rate, rows, parent)
  local all = {{"learning_rate", {"number", "table", "callable", "tensor"}, learning_rate}}
  return parts.declare(name, parent or Optimizer, table.move(rows, 1, #rows, 2, all), common_rows)
end

do
  local c = base.declare("Optimizer", 0.01, {})
  Optimizer.argument_rows, Optimizer.argument_kinds = c.argument_rows, c.argument_kinds
end

-- ------------------------------------------------ hyperparameters

local function set_learning_rate(self, value)
  local current = rawget(self, "_learning_rate")
  local is_rate = type(value) == "number" or core.is_tensor(value) or core.is_variable(value)
  if not is_rate then -- a schedule or a function
    if args.is_plain(value) then value = parts.get("schedule", value) end
    local meta = getmetatable(value)
    if type(value) ~= "function" and not (type(meta) == "table" and meta.__call) then
      blame.error(string.format("%s: 'learning_rate' must be a number, a tensor, a schedule or a "
        .. "function, got %s", self.name,
        args.describe(value)), "type")
    end
    rawset(self, "_learning_rate", value)
    rawset(self, "version", (rawget(self, "version") or 0) + 1)
  elseif core.is_variable(current) then
    current:assign(type(value) == "number" and value or ops.cast(value, "float32"))
  else
    if core.is_variable(value) then value = value:read_value() end
    rawset(self, "_learning_rate", variables.Variable{core.tensor(value, "float32"),
      name = self.name .. "/learning_rate",
      trainable = false})
    rawset(self, "version", (rawget(self, "version") or 0) + 1)
  end
end

function Optimizer.__index(self, key)
  local c = getmetatable(self)
  local value = c[key]
  if value ~= nil then return value end
  if key == "learning_rate" or key == "lr" then return rawget(self, "_learning_rate") end
  local hyper = rawget(self, "_hyper")
  if hyper and hyper[key] ~= nil then return hyper[key] end
  if key == "weights" then return self:list_weights() end
  return nil
end

-- Hyperparameters that are numbers are floats, as Keras' configurations have them, also when they
-- are written 0 or 1.
local function as_kind(value, kind)
  return kind == "number" and math.type(value) == "integer" and value + 0.0 or value
end

function Optimizer:__newindex(key, value)
  local hyper = rawget(self, "_hyper")
  if key == "learning_rate" or key == "lr" then return set_learning_rate(self, value) end
  local kind = hyper and rawget(self, "_kinds")[key]
  if kind then
    if key == "state_dtype" and self._made > 0 and value ~= hyper[key] then
      blame.error(self.name .. ": 'state_dtype' can't be changed once there is state: make another "
        .. "optimizer", "failed_precondition")
    end
    hyper[key] = as_kind(value, kind)
    rawset(self, "version", self.version + 1)
    return
  end
  rawset(self, key, value)
end

-- A learning rate may itself be a table, a schedule's configuration. So a single table of arguments
-- is told apart here. `SGD{0.01, momentum = 0.9}` has the rate in the first position, `SGD{momentum
-- = 0.9}` has none.
local function spread(first, ...)
  if select("#", ...) > 0 or not args.is_plain(first) or first.class_name then return first, ... end
  local given, named = table.move(first, 1, #first, 1, {}), {}
  for k, v in pairs(first) do
    if not given[k] then named[k] = v end
  end
  local count = math.max(#given, 1)
  given[count + 1] = named
  return table.unpack(given, 1, count + 1)
end

function Optimizer:init(...)
  local c = class.of(self)
  local given = parts.read(self, c, spread(...))
  if given.clipnorm and given.global_clipnorm then
    blame.error(string.format("%s: 'clipnorm' and 'global_clipnorm' can't both be given: one clips "
      .. "each gradient by itself, the other all together", c.__name), "value")
  end
  local kinds = {}
  for _, row in ipairs(c.argument_rows) do
    local name <const>, kind <const> = row[1], row[2]
    kinds[name], given[name] = kind, as_kind(given[name], kind)
  end
  rawset(self, "name", given.name or c.__name)
  rawset(self, "version", 0)
  local rate = given.learning_rate
  given.name, given.learning_rate, kinds.name = nil, nil, nil
  rawset(self, "_hyper", given)
  rawset(self, "_kinds", kinds)
  slots.begin(self)
  set_learning_rate(self, rate)
  rawset(self, "iterations", variables.Variable{core.tensor(0, "int64"),
    name = self.name .. "/iterations", trainable = false})
end

-- As numbers are written: 0.001, not the float32 next to it. A variable without a number while a
-- program is traced stays as it is.
local function rate_text(rate)
  if not core.is_variable(rate) then return rate end
  local known, text = pcall(tostring, rate)
  return known and tonumber(text) or rate
end

function Optimizer:__tostring()
  local fields = {name = self.name, learning_rate = rate_text(self.learning_rate)}
  for key, value in next, rawget(self, "_hyper") do fields[key] = value end
  if not fields.use_ema then fields.ema_momentum = nil end
  return class.text(self, fields)
end

---The learning rate of the next update, a float32 scalar.
---@return userdata
function Optimizer:current_learning_rate()
  local rate = self.learning_rate
  if core.is_variable(rate) then rate = rate:read_value()
  elseif class.of(rate) then rate = rate(ops.cast(self.iterations, "float32"))
  else rate = rate() end
  if type(rate) == "number" then rate = core.tensor(rate, "float32") end
  if not core.is_tensor(rate) then
    blame.error(string.format("%s: the learning rate's function must give a number or a tensor, "
      .. "got %s", self.name,
      args.describe(rate)), "type")
  end
  rules.check_rate(self.name, rate)
  if self.decay and self.decay > 0 then
    rate = rate / (ops.cast(self.iterations, "float32") * self.decay + 1)
  end
  return rate
end

for name, f in pairs(slots.methods) do Optimizer[name] = f end

---Makes the slots of variables. Optimizers override `make_slots(v)`.
---@param list userdata[]
function Optimizer:build(list)
  args.check_value("build", {"variables", "list"}, list)
  for _, v in ipairs(list) do
    if self.make_slots then self:make_slots(v) end
    if self.use_ema then self:slot(v, "average", v) end
  end
end

---The variables that the optimizer keeps: iterations, then slots.
---@return userdata[]
function Optimizer:variables() return self.weights end

---@return userdata[]
function Optimizer:get_weights()
  local values = {}
  for i, v in ipairs(self.weights) do values[i] = v:read_value() end
  return core.plain(values)
end

---@param values userdata[]
function Optimizer:set_weights(values)
  local weights = self.weights
  if #values ~= #weights then
    blame.error(string.format("set_weights: optimizer '%s' has %s, but %s given", self.name,
      counted(#weights, "weight"),
      counted(#values, "value was", "values were")), "value")
  end
  local tensors = {} -- nothing is set unless all fit
  for i, v in ipairs(weights) do
    local t = core.is_tensor(values[i]) and values[i] or core.tensor(values[i], v.dtype)
    if t.dtype ~= v.dtype or not shapes.equal(t.shape, v.shape) then
      blame.error(string.format("set_weights: weight %d of optimizer '%s', %s, is %s%s; the value "
        .. "given is %s%s", i, self.name, v.name, v.dtype, shapes.text(v.shape), t.dtype,
        shapes.text(t.shape)), "value")
    end
    tensors[i] = t
  end
  for i, v in ipairs(weights) do v:assign(tensors[i]) end
end

-- ------------------------------------------------ applying

local function check_dtype(self, g, v)
  if g.dtype ~= self:dtype_of(v) then
    blame.error(string.format("%s: the gradient of variable '%s' is %s, the variable is %s; cast "
      .. "it, for instance with "
      .. "ipu.optimizers.MapGradientOptimizer(opt, function(g, v) return ipu.cast(g, v.dtype) end)",
      self.name, v.name, g.dtype,
      v.dtype), "type")
  end
end

local function decays(self) return self.weight_decay and self.weight_decay ~= 0 end

function Optimizer:decay_weight(v, rate)
  if not decays(self) then return end
  v:assign_sub(v * rules.scalar(rate * self.weight_decay, v))
end

-- The new value as the update is computed. In a wider dtype the decayed value is not assigned: the
-- variable's own dtype would round the decay away.
local function updated(self, v, g, shared, rate)
  if self:dtype_of(v) == v.dtype or not decays(self) then
    self:decay_weight(v, rate)
    return self:update(v, g, shared)
  end
  local before = self:value_of(v)
  local decayed = before - before * rules.scalar(rate * self.weight_decay, before)
  rawset(self, "_decayed", {variable = v, value = decayed})
  local _ <close> = setmetatable({}, {__close = function() rawset(self, "_decayed", nil) end})
  return self:update(v, g, shared)
end

local function update_average(self, v)
  local average = self:slot(v, "average", v)
  local later = ops.cast(ops.not_equal(self.iterations, 0), "float32")
  local m = rules.scalar(later * self.ema_momentum, average)
  average:assign(average * m + self:value_of(v) * (1 - m))
  if not self.ema_overwrite_frequency then return end
  local due = ops.equal(ops.mod(self.iterations + 1, self.ema_overwrite_frequency), 0)
  v:assign(ops.where(due, ops.cast(average:read_value(), v.dtype), v:read_value()))
end

---The gradient of one micro-batch as accumulation adds it up: wrappers may change each.
function Optimizer:each_gradient(g) return g end -- luacheck: ignore 212

---Whether the gradients being applied were accumulated from results of each_gradient.
---@return boolean
function base.is_accumulated() return core.here().gradients_accumulated or false end

---opt:apply_gradients(…) for gradients that were accumulated (or, within that, for some that were
---changed since).
function base.apply_accumulated(is_accumulated, opt, ...)
  local former <const> = core.here().gradients_accumulated
  local _ <close> = setmetatable({},
    {__close = function() core.here().gradients_accumulated = former end})
  core.here().gradients_accumulated = is_accumulated
  opt:apply_gradients(...)
end

---self:apply_gradients(…) for gradients that a pipeline or a loop has accumulated.
---@package
function Optimizer:apply_accumulated(...) return base.apply_accumulated(true, self, ...) end

---Updates variables by their gradients: (gradients, variables) or a list of pairs {gradient,
---variable}.
---@param grads any[]
---@param vars userdata[]?
function Optimizer:apply_gradients(grads, vars)
  local list
  list, vars = gradients.read(self, grads, vars)
  gradients.sum_over_replicas(list)
  for _, v in ipairs(vars) do teams.note_trained(v) end
  if self.aggregate then list = self:aggregate(list, vars) end
  for i, v in ipairs(vars) do
    local dtype = self:dtype_of(v)
    if list[i].dtype == v.dtype and dtype ~= v.dtype then list[i] = ops.cast(list[i], dtype) end
    check_dtype(self, list[i], v)
  end
  self:build(vars)
  gradients.clip(self, list)
  local rate = self:current_learning_rate()
  local shared = self.prepare and self:prepare(rate) or {}
  shared.rate = shared.rate or rate
  for i, v in ipairs(vars) do
    local value = updated(self, v, list[i], shared, rate)
    if value.dtype ~= v.dtype then value = ops.cast(value, v.dtype) end
    v:assign(v.constraint and v.constraint(value) or value)
    if self.use_ema then update_average(self, v) end
  end
  if self.finish then self:finish(shared) end
  self.iterations:assign_add(1)
end

---The new value of a variable. Optimizers override it; `shared` is the result of prepare(rate),
---with the rate.
function Optimizer:update()
  blame.error(getmetatable(self).__name .. " defines no update(variable, gradient, shared)",
    "not_implemented")
end

---With use_ema: the variables take their averages, as fit does at its end.
---@param list userdata[]
function Optimizer:finalize_variable_values(list)
  if not self.use_ema then return end
  for _, v in ipairs(list) do
    v:assign(ops.cast(self:slot(v, "average", v):read_value(), v.dtype))
  end
end

local minimize_rows <const> = {
  {"loss", "any", one = true, of = "function without arguments, or tensor"},
  {"var_list", "any", optional = true, of = "list of variables or function that gives one"},
  {"tape", "any", optional = true, of = "GradientTape", says = "of a loss that is a tensor"},
  {"grad_loss", "any", optional = true, of = "tensor", says = "upstream gradient; ones by default"},
}
base.minimize_rows = minimize_rows

---Pairs {gradient, variable} of a loss: a function, or a tensor recorded by `tape` or in a traced
---function.
function Optimizer:compute_gradients(...)
  local a = args.check("compute_gradients", minimize_rows, ...)
  local loss, tape = a.loss, a.tape
  if type(loss) == "function" and not tracing.is_active() then
    tape = tape or tapes.GradientTape()
    loss = tape(loss)
  elseif type(loss) == "function" then
    loss = loss()
  end
  local list = a.var_list or variables.trainable_variables()
  if type(list) == "function" then list = list() end
  local grads = tape and tape:gradient(loss, list, a.grad_loss)
    or tapes.gradients(loss, list, a.grad_loss)
  local found = {}
  for i, v in ipairs(list) do found[i] = {grads[i] or false, v} end
  return found
end

---compute_gradients, then apply_gradients.
function Optimizer:minimize(...)
  self:apply_gradients(self:compute_gradients(...))
end

---@return table
function Optimizer:get_config()
  local config = core.plain{name = self.name}
  for key, value in next, self._hyper do config[key] = value end
  local rate = self.learning_rate
  if core.is_variable(rate) then config.learning_rate = rate:item()
  elseif type(rate) == "function" then config.learning_rate = rate
  else config.learning_rate = parts.serialize("schedule", rate) end
  return config
end

---@param config table
---@return Optimizer
function Optimizer.from_config(c, config) return parts.made_of(c, config) end

about.say("optimizers", {
  {"Optimizer", text = "The base of all optimizers; extend it with `update(variable, "
    .. "gradient, shared)`, which gives the new value (`shared.rate`: the learning rate), and "
    .. "`make_slots(variable)`, which makes what is kept beside it by `self:slot(variable, "
    .. "\"name\")`. Hyperparameters are fields; `iterations` counts updates; "
    .. "`apply_gradients(grads, variables)`, `minimize(loss, {var_list})`, `get_weights`, "
    .. "`set_weights`, `get_config`."},
})

return base
