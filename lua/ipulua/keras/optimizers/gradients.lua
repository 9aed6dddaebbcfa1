-- Gradients before an update: paired with their variables, summed over replicas, clipped.

local args = require "ipulua.base.args"
local blame = require "ipulua.base.blame"
local core = require "ipulua.core"
local lengths = require "ipulua.keras.base.lengths"
local log = require "ipulua.base.log"
local ops = require "ipulua.ops"
local optimizer_rules = require "ipulua.optimizers.rules"
local replication = require "ipulua.trace.replication"
local teams = require "ipulua.config.teams"

local gradients = {}

local function clip_to_norm(g, norm)
  return lengths.scale(g, norm / ops.maximum(lengths.of(g), norm))
end

local function widest(grads)
  for _, g in ipairs(grads) do
    if g.dtype == "float64" then return "float64" end
  end
  return "float32"
end

-- Gradients without a finite common norm are all NaN, as in TensorFlow. Else most would be zeros,
-- and the step would look like a good one.
local function clip_global(grads, norm)
  local sum, dtype = nil, widest(grads)
  for _, g in ipairs(grads) do
    local s = lengths.sum_of_squares(ops.cast(g, dtype))
    sum = sum and sum + s or s
  end
  local scale = norm / ops.maximum(ops.sqrt(sum), norm)
  scale = ops.where(ops.is_finite(sum), scale, 0 / 0)
  for i, g in ipairs(grads) do
    local wide = lengths.wide(g)
    grads[i] = ops.cast(wide * ops.cast(scale, wide.dtype), g.dtype)
  end
end

---Clips by value, then each gradient by its norm, then all by their common norm.
---@param self Optimizer
---@param grads userdata[]
function gradients.clip(self, grads)
  for i, g in ipairs(grads) do
    if self.clipvalue then g = ops.clip_by_value(g, -self.clipvalue, self.clipvalue) end
    if self.clipnorm then g = clip_to_norm(g, self.clipnorm) end
    grads[i] = g
  end
  if self.global_clipnorm then clip_global(grads, self.global_clipnorm) end
end

---An error for a gradient and a variable that no update takes.
---@param self Optimizer
---@param g any
---@param v any
function gradients.check(self, g, v)
  if not core.is_variable(v) then
    blame.error("apply_gradients: expected a list of pairs {gradient, variable}, or "
      .. "gradients and variables, got "
      .. args.describe(v), "type")
  end
  if core.is_value(g) then optimizer_rules.check_shape(self.name, g, v) end
end

---The same for pairs. Wrappers call it before they change variables of their own.
---@param self Optimizer
---@param given any[]
function gradients.check_pairs(self, given)
  for _, pair in ipairs(given) do
    if args.is_plain(pair) then gradients.check(self, pair[1], pair[2]) end
  end
end

---The arguments of apply_gradients, pairs or gradients and variables, as two lists without the
---variables that have no gradient.
---@param self Optimizer
---@param first any[]
---@param second userdata[]?
---@return userdata[] gradients
---@return userdata[] variables
function gradients.read(self, first, second)
  local grads, vars, missing = {}, {}, {}
  local function add(g, v)
    gradients.check(self, g, v)
    if core.is_value(g) then
      grads[#grads + 1], vars[#vars + 1] = g, v
    else
      missing[#missing + 1] = v.name
    end
  end
  if type(first) ~= "table" then
    blame.error("apply_gradients: expected a list of gradients, got "
      .. args.describe(first), "type")
  end
  if args.is_plain(second) and second[1] ~= nil then
    for i = 1, #second do add(first[i], second[i]) end
  else
    for _, pair in ipairs(first) do
      local is_pair = args.is_plain(pair)
      add(is_pair and pair[1] or nil, is_pair and pair[2] or pair)
    end
  end
  if #vars == 0 then
    blame.error(string.format("%s: no gradients are provided for any variable%s", self.name,
      #missing > 0 and ": " .. table.concat(missing, ", ")
      or "; is every layer frozen (trainable = false)?"), "value")
  end
  if #missing > 0 then
    log.warn("gradients do not exist for the variables %s when minimizing the loss",
      table.concat(missing, ", "))
  end
  return grads, vars
end

local summing = true

---On several replicas their gradients are added up; of one replica the gradients themselves. A
---strategy for several instances says how.
---@param list userdata[] is changed
function gradients.sum_over_replicas(list)
  if not summing or replication.count() == 1 then return end
  local how = "sum"
  if teams.current() then how = teams.reduction() end
  if not how then return end
  for i, g in ipairs(list) do list[i] = ops["cross_replica_" .. how](g) end
end

local former_summing <const> = {__close = function(self) summing = self.former end}

---f(), for gradients that were reduced over the replicas before.
function gradients.without_sum(f)
  local _ <close> = setmetatable({former = summing}, former_summing)
  summing = false
  f()
end

return gradients
