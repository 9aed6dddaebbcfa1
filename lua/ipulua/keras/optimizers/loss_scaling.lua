-- Automatic loss scaling: optimizers that scale the loss by a factor, which follows the sizes of
-- float16 gradients.

local about = require "ipulua.base.parts.about"
local args = require "ipulua.base.args"
local base = require "ipulua.keras.optimizers.base"
local blame = require "ipulua.base.blame"
local class = require "ipulua.base.class"
local core = require "ipulua.core"
local delegating = require "ipulua.keras.optimizers.delegating"
local gradients = require "ipulua.keras.optimizers.gradients"
local nest = require "ipulua.base.nest"
local ops = require "ipulua.ops"
local plain = require "ipulua.base.plain"
local rules = require "ipulua.keras.optimizers.rules"
local tape = require "ipulua.trace.tape"
local variables = require "ipulua.trace.variables"
local wrappers = require "ipulua.keras.optimizers.optimizer_wrappers"

local loss_scaling = {}

local Wrapper <const>, Accumulation <const> = delegating.Wrapper,
  wrappers.GradientAccumulationOptimizer

-- ------------------------------------------------ around any optimizer

local function power_of_two(x)
  if x <= 0 then return "must be positive, got " .. x end
  local log2 = math.log(x, 2)
  if math.abs(log2 - math.floor(log2 + 0.5)) > 1e-9 then
    return "must be a power of two, got " .. x
  end
end

local als_rows <const> = {
  {"initial_loss_scaling_factor", "number", 1.0, check = power_of_two, says = "a power of two"},
  {"update_frequency", "integer", 8, range = "[1, inf)",
    says = "weight updates between changes of the factor"},
  {"increase_factor", "number", 2.0, check = power_of_two, says = "a power of two"},
  {"max_loss_scaling_factor", "number", 32768.0, check = power_of_two, says = "a power of two"},
  {"accumulate_statistics_over_update_period", "boolean", true},
  {"ratio_threshold", "number", 1e-5, range = "[0, 1]",
    says = "share of elements beyond the edge from which the factor is halved"},
  {"captured_grads_only", "boolean", false},
  {"lpf_alpha", "number", 0.0, range = "[0, 1]", says = "weight of the old statistics"},
  {"histogram_bin_edge", "number", 2 ^ 13, range = "(0, inf)"}, {"name", "string", optional = true},
}

---Scales the loss so that float16 gradients neither overflow nor vanish. The factor is doubled
---unless too many elements are at or beyond histogram_bin_edge. Otherwise it is halved. Fields that
---are only read: loss_scaling_factor, previous_loss_scaling_factor, histogram,
---normalized_histogram, update_counter, decrease_factor.
---@class ALSOptimizer: IpuOptimizerWrapper
local ALSOptimizer = Wrapper:extend("ALSOptimizer")
loss_scaling.ALSOptimizer = ALSOptimizer

local als_options = {{"opt", "table"}, table.unpack(als_rows)}
ALSOptimizer.argument_rows = als_options
ALSOptimizer.takes_captured = true

local function scalar_state(self, name, value, shape)
  rawset(self, name, variables.Variable{core.full(shape or {}, value, "float32"),
    name = self.name .. "/" .. name,
    trainable = false})
end

-- Two factors would both divide gradients, but only one scale the loss.
local function refuse_scaled(name, opt)
  local inner = opt
  while class.is_a(inner, Wrapper) do
    if class.is_a(inner, ALSOptimizer) then
      blame.error(string.format("%s: 'opt' scales the loss already, by its %s", name, inner.__name),
        "value")
    end
    inner = rawget(inner, "opt")
  end
end

function ALSOptimizer:init_als(opt, a)
  refuse_scaled(self.__name, opt)
  self:init_wrapper(opt, a.name)
  a.name = nil
  rawset(self, "hyper", a)
  scalar_state(self, "_factor", a.initial_loss_scaling_factor)
  scalar_state(self, "_previous", a.initial_loss_scaling_factor)
  scalar_state(self, "_histogram", 0, {2})
  rawset(self, "_counter", variables.Variable{core.tensor(0, "int32"),
    name = self.name .. "/update_counter", trainable = false})
end

function ALSOptimizer:init(...)
  local a = args.check(self.__name, als_options, ...)
  local opt = a.opt
  a.opt = nil
  self:init_als(opt, a)
end

local function normalized(histogram)
  local total = ops.reduce_sum(histogram)
  return histogram / ops.maximum(total, 1e-30)
end

-- Fields that can only be read.
local computed <const> = {
  loss_scaling_factor = function(self) return self._factor:read_value() end,
  previous_loss_scaling_factor = function(self) return self._previous:read_value() end,
  histogram = function(self) return self._histogram:read_value() end,
  normalized_histogram = function(self) return normalized(self._histogram:read_value()) end,
  update_counter = function(self) return self._counter:read_value() end,
  decrease_factor = function(self) return 1 / self.hyper.increase_factor end,
}

function ALSOptimizer.__index(self, key)
  local f = computed[key]
  if f and rawget(self, "hyper") then return f(self) end
  local hyper = rawget(self, "hyper")
  if hyper and hyper[key] ~= nil then return hyper[key] end
  return Wrapper.__index(self, key)
end

function ALSOptimizer:__newindex(key, value)
  if computed[key] then
    blame.error(string.format("%s: '%s' is read-only", self.name, key), "value")
  end
  for _, row in ipairs(als_rows) do
    if row[1] == key and key ~= "name" then
      self.hyper[key] = args.check_value(self.name, row, value)
      if key == "update_frequency" then self._counter:assign(0) end
      rawset(self.opt, "version", self.opt.version + 1)
      return
    end
  end
  self.opt[key] = value
end

function ALSOptimizer:own_entries()
  return {
    {path = "factor", variable = self._factor}, {path = "previous", variable = self._previous},
    {path = "histogram", variable = self._histogram}, {path = "counter", variable = self._counter},
  }
end

function ALSOptimizer:own_settings() return self.hyper end

---The factor goes back to its first value, statistics to none.
function ALSOptimizer:reset()
  self._factor:assign(self.hyper.initial_loss_scaling_factor)
  self._previous:assign(self.hyper.initial_loss_scaling_factor)
  self._histogram:assign(core.full({2}, 0, "float32"))
  self._counter:assign(0)
end

-- ------------------------------------------------ a step

---The loss times the factor.
---@param loss userdata
---@return userdata
function ALSOptimizer:scale_loss(loss)
  local factor = self._factor:read_value()
  tape.note_scale(factor)
  return loss * ops.cast(factor, loss.dtype)
end
ALSOptimizer.get_scaled_loss = ALSOptimizer.scale_loss

---The gradients of the scaled loss, as apply_gradients takes them.
function ALSOptimizer:compute_gradients(...)
  local a = args.check("compute_gradients", base.minimize_rows, ...)
  local loss = a.loss
  if type(loss) == "function" then
    a.loss = function() return self:scale_loss(loss()) end
  elseif core.is_tensor(loss) then -- which a tape has recorded, without the factor
    a.grad_loss = self:scale_loss(a.grad_loss or ops.ones_like(loss))
  end
  return self.opt:compute_gradients(a)
end

-- How many elements of float16 gradients lie below the edge, and how many at or beyond it.
local function count_elements(self, grads)
  local edge = self.hyper.histogram_bin_edge
  local histogram
  for _, g in ipairs(grads) do
    if g.dtype == "float16" then
      local size = ops.cast(ops.abs(g), "float32")
      -- infinities and numbers that are none count as beyond
      local below = ops.reduce_sum(ops.cast(ops.less(size, edge), "float32"))
      local counts = ops.stack{below, g.size - below}
      histogram = histogram and histogram + counts or counts
    end
  end
  return histogram and ops.cross_replica_sum(histogram) or core.full({2}, 0, "float32")
end

-- The factor after statistics: unchanged where it would leave [1, max) or be no number.
local function next_factor(self, factor, histogram)
  local h = self.hyper
  local total = ops.reduce_sum(histogram)
  local upper = ops.reshape(ops.slice(histogram, {1}, {1}), {})
  local ratio = upper / ops.maximum(total, 1e-30)
  local candidate = ops.where(ops.greater(ratio, h.ratio_threshold), factor / h.increase_factor,
    factor * h.increase_factor)
  local usable = ops.logical_and(ops.is_finite(candidate),
    ops.logical_and(ops.less(candidate, h.max_loss_scaling_factor),
      ops.greater_equal(candidate, 1)))
  return ops.where(usable, candidate, factor)
end

local function update_statistics(self, grads)
  local h = self.hyper
  local former = self._histogram:read_value()
  local counts = count_elements(self, grads)
  local latest = h.accumulate_statistics_over_update_period and former + counts or counts
  local histogram = former * h.lpf_alpha + latest * (1 - h.lpf_alpha)
  local counter, factor = self._counter:read_value(), self._factor:read_value()
  local due
  if h.update_frequency == 1 then
    due = ops.equal(counter, counter)
  else
    due = ops.logical_and(ops.greater(counter, 0),
      ops.equal(ops.mod(counter, h.update_frequency), 0))
  end
  self._previous:assign(factor)
  self._factor:assign(ops.where(due, next_factor(self, factor, histogram), factor))
  self._histogram:assign(ops.where(due, ops.zeros_like(histogram), histogram))
  self._counter:assign(ops.where(due, ops.zeros_like(counter), counter + 1))
end

-- If the update is float32, the division is, too, so that small gradients don't vanish.
local function unscaled(self, pairs_list)
  local list = {}
  local factor = self._factor:read_value()
  for i, pair in ipairs(pairs_list) do
    local g = pair[1]
    if g then g = ops.cast(g, self.opt:dtype_of(pair[2])) end
    list[i] = {g and g / ops.cast(factor, g.dtype) or g, pair[2]}
  end
  return list
end

-- The wrapped optimizer maps gradients that are no longer scaled: accumulated ones.
function ALSOptimizer:each_gradient(g) return g end -- luacheck: ignore 212

---Gradients of a scaled loss; captured_grads: further gradients for the statistics.
---@param grads any[]
---@param vars userdata[]?
---@param options {captured_grads: any}?
function ALSOptimizer:apply_gradients(grads, vars, options)
  local given
  given, options = delegating.as_pairs(grads, vars, options)
  gradients.check_pairs(self, given) -- a refused step must not count in the statistics
  local counted = {}
  if not self.hyper.captured_grads_only then
    for _, pair in ipairs(given) do counted[#counted + 1] = pair[1] or nil end
  end
  for _, g in ipairs(nest.flatten(options and options.captured_grads)) do
    counted[#counted + 1] = g
  end
  local ready = unscaled(self, given)
  update_statistics(self, counted)
  base.apply_accumulated(false, self.opt, ready)
end

-- ------------------------------------------------ built in

local is_of_scaling <const> = {} -- by the names of arguments
for _, row in ipairs(als_rows) do is_of_scaling[row[1]] = true end

-- The rule's arguments, then the arguments of the scaling.
local function rows_with(rule)
  local rows = {}
  for _, row in ipairs(rule.argument_rows) do
    if row[1] ~= "name" then rows[#rows + 1] = row end
  end
  return table.move(als_rows, 1, #als_rows, #rows + 1, rows)
end

-- A rule with the scaling built in; its updates are computed in float32.
local function define(name, rule)
  local c = ALSOptimizer:extend(name)
  loss_scaling[name] = c
  local rows <const> = rows_with(rule)
  c.argument_rows = rows

  function c:init(...)
    local a = args.check(name, rows, ...)
    local of_scaling, of_rule = {}, {}
    for key, value in pairs(a) do
      if is_of_scaling[key] then of_scaling[key] = value else of_rule[key] = value end
    end
    local opt = rule(of_rule)
    rawset(opt, "is_wide", true)
    self:init_als(opt, of_scaling)
  end

  -- The arguments of the rule and of the scaling, as the constructor takes them.
  function c:get_config()
    local config = self.opt:get_config()
    for key, value in pairs(self.hyper) do config[key] = value end
    config.name = self.name
    return config
  end

  c.from_config = require "ipulua.base.parts".Part.from_config
end

define("ALSOptimizerSGD", rules.SGD)
define("ALSOptimizerAdam", rules.Adam)
define("ALSOptimizerRMSProp", rules.RMSprop)

-- ------------------------------------------------ with accumulation

---Accumulates the gradients of an ALSOptimizer.
---@class ALSGradientAccumulationOptimizer: GradientAccumulationOptimizer
local ALSAccumulation = Accumulation:extend("ALSGradientAccumulationOptimizer")
loss_scaling.ALSGradientAccumulationOptimizer = ALSAccumulation
ALSAccumulation.substitute = false

function ALSAccumulation:init(...)
  local first = ...
  local opt = plain.is(first) and (first.als_optimizer or first.opt or first[1]) or first
  if not class.is_a(opt, ALSOptimizer) then
    blame.error("ALSGradientAccumulationOptimizer: 'als_optimizer' must be an ALSOptimizer, got "
      .. args.describe(opt), "value")
  end
  if plain.is(first) and first.als_optimizer then
    first.opt, first.als_optimizer = first.als_optimizer, nil
  end
  Accumulation.init(self, ...)
end

function ALSAccumulation:scale_loss(loss) return self.opt:scale_loss(loss) end

about.say("optimizers", {
  {"ALSGradientAccumulationOptimizer",
    source = "ipu.keras.optimizers.ALSGradientAccumulationOptimizer of Graphcore's TensorFlow 2.6"},
  {"ALSOptimizer", source = "ipu.keras.optimizers.ALSOptimizer of Graphcore's TensorFlow 2.6"},
  {"ALSOptimizerAdam", text = "Adam with ALSOptimizer's scaling built in.",
    keras = "as ALSOptimizer"},
  {"ALSOptimizerRMSProp", text = "RMSprop with ALSOptimizer's scaling built in.",
    keras = "as ALSOptimizer"},
  {"ALSOptimizerSGD", text = "SGD with ALSOptimizer's scaling built in.",
    keras = "as ALSOptimizer"},
})

return loss_scaling
