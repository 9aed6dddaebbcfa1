-- Variables whose first value is computed at its first reading. So a priced model of any size needs
-- no memory for them.

local core = require "ipulua.core"
local tracing = require "ipulua.trace.tracing"

local postponed = {}

local makers = setmetatable({}, {__mode = "k"}) -- variable → function that gives its value
local by_identity = setmetatable({}, {__mode = "v"}) -- identity → that variable

---Gives v the value make(), which is called at the first reading of v.
---@param v userdata
---@param make fun(): any
function postponed.note(v, make)
  makers[v], by_identity[core.variable_identity(v)] = make, v
end

local place_meta <const> = {__close = function(self)
  core.set_eager_place(self.seed, self.draws)
  core.set_placement("stochastic_rounding", self.rounding)
end}

-- Until the result is closed, eager ops draw with this seed and count of draws, and nothing is
-- rounded stochastically.
local function at(seed, draws)
  local former_seed, former_draws = core.eager_place()
  local former = setmetatable({seed = former_seed, draws = former_draws,
    rounding = core.set_placement("stochastic_rounding", 0)}, place_meta)
  core.set_eager_place(seed, draws)
  return former
end

---A function that gives what make() would give now. The random numbers that make() draws, by so
---many eager ops, are taken now. nil where results are rounded stochastically: that can't wait.
---@param make fun(): any
---@param ops integer
---@return (fun(): any)?
function postponed.drawing(make, ops)
  local seed, draws, rounds = core.eager_place()
  if rounds then return nil end
  core.set_eager_place(seed, draws + ops)
  return function()
    local _ <close> = at(seed, draws)
    return make()
  end
end

core.set_initialiser(function(v)
  if core.is_estimating() then return end
  local id = core.variable_identity(v)
  local known = by_identity[id]
  local make = known and makers[known]
  if not make then return end
  core.set_variable(v, tracing.outside(make))
  makers[known], by_identity[id] = nil, nil
end)

return postponed
