-- The variables that an optimizer keeps beside those that it trains: slots, and its own state.

local args = require "ipulua.base.args"
local blame = require "ipulua.base.blame"
local core = require "ipulua.core"
local nest = require "ipulua.base.nest"
local ops = require "ipulua.ops"
local rules = require "ipulua.optimizers.rules"
local variables = require "ipulua.trace.variables"

local slots, Optimizer = {}, {}
slots.methods = Optimizer

local weak_keys <const>, weak_values <const> = {__mode = "k"}, {__mode = "v"}
local few <const> = 64 -- weights that are noted until collected ones are searched for

---Gives a new optimizer room for its variables.
function slots.begin(self)
  rawset(self, "_slots", setmetatable({}, weak_values))
  rawset(self, "_owners", setmetatable({}, weak_keys))
  rawset(self, "_weights", setmetatable({}, weak_values))
  rawset(self, "_made", 0)
  rawset(self, "_compact_at", few)
end

local bytes <const> = {float64 = 8, float32 = 4, float16 = 2, bfloat16 = 2}

local function check_variable(who, v)
  if not core.is_variable(v) then
    blame.error(who .. ": expected a variable, got " .. args.describe(v), "type")
  end
end

---The dtype in which an update of a variable is computed and its slots are kept: the variable's, or
---state_dtype where it is wider.
---@param v userdata
---@return string
function Optimizer:dtype_of(v)
  check_variable("dtype_of", v)
  local least = self.state_dtype or rawget(self, "is_wide") and "float32"
  return least and bytes[v.dtype] and bytes[least] > bytes[v.dtype] and least or v.dtype
end

---A variable's value as an update computes with it: in dtype_of(v), after the weight's decay.
---@param v userdata
---@return userdata
function Optimizer:value_of(v)
  check_variable("value_of", v)
  local decayed = rawget(self, "_decayed")
  if decayed and decayed.variable == v then return decayed.value end
  local dtype = self:dtype_of(v)
  return dtype == v.dtype and v or ops.cast(v, dtype)
end

local name_row <const> = {"name", "string"}

-- _slots (by identity) live as long as an object that stands for their variable, the key of
-- _owners. _weights are the live ones in the order of making, with holes in place of the others.
local function note_weight(self, v)
  if self._made >= self._compact_at then
    local list = self:list_weights()
    rawset(self, "_weights", setmetatable(table.move(list, 2, #list, 1, {}), weak_values))
    rawset(self, "_made", #list - 1)
    rawset(self, "_compact_at", math.max(2 * #list, few))
  end
  rawset(self, "_made", self._made + 1)
  self._weights[self._made] = v
end

-- mean_of_squares: the name of the slot, in classes that divide by its root plus epsilon.
local function warn_of_squares(self, v)
  if rawget(self, "_has_warned") then return end
  rawset(self, "_has_warned", true)
  rules.warn_of_squares(self.name, v, self.epsilon, (self.momentum or 0) ~= 0,
    'give state_dtype = "float32", or epsilon = 1e-3')
end

---The variable `name` beside a variable; made when first asked for, with zeros or the given first
---value.
---@param v userdata
---@param name string
---@param initial number|userdata|nil
---@return userdata
function Optimizer:slot(v, name, initial)
  args.check_value("slot", name_row, name)
  local id = core.variable_identity(v)
  local of_v = self._slots[id] or {}
  self._slots[id], self._owners[v] = of_v, of_v
  if not of_v[name] then
    local dtype = self:dtype_of(v)
    of_v[name] = variables.make_alone(self.name .. "/" .. v.name .. "/" .. name, dtype, v.shape,
      false, function()
      if type(initial) ~= "userdata" then return core.full(v.shape, initial or 0, dtype) end
      return ops.cast(core.is_variable(initial) and core.variable_value(initial) or initial, dtype)
    end)
    note_weight(self, of_v[name])
    of_v[name].key, of_v[name].of_optimizer = v.name .. "/" .. name, true
    if dtype == "float16" and self.mean_of_squares == name then warn_of_squares(self, v) end
  end
  return of_v[name]
end

---A variable of the optimizer itself.
---@return userdata
function Optimizer:state(name, initial)
  args.check_value("state", name_row, name)
  local key = "_state_" .. name
  local v = rawget(self, key)
  if not v then
    v = variables.Variable{core.tensor(initial, "float32"), name = self.name .. "/" .. name,
      trainable = false}
    v.key = name
    rawset(self, key, v)
    note_weight(self, v)
  end
  return v
end

function Optimizer:list_weights()
  local list = core.plain{self.iterations}
  for i = 1, self._made do list[#list + 1] = self._weights[i] end
  return list
end

---All that must be saved of the optimizer, by name: its own variables, and the slots under the
---paths of their weights.
---@param weights table[] {path =, variable =}
---@return table[] {path =, variable =}
---@package
function Optimizer:entries(weights)
  local list, own = {{path = "iterations", variable = self.iterations}}, self:list_weights()
  local rate = self.learning_rate
  if core.is_variable(rate) then list[2] = {path = "learning_rate", variable = rate} end
  for _, v in ipairs(table.move(own, 2, #own, 1, {})) do
    if rawget(self, "_state_" .. v.key) then
      list[#list + 1] = {path = "state/" .. v.key, variable = v}
    end
  end
  for _, entry in ipairs(weights) do
    local of_v = self._slots[core.variable_identity(entry.variable)] or {}
    for _, name in ipairs(nest.keys(of_v)) do
      list[#list + 1] = {path = "slot/" .. entry.path .. "/" .. name, variable = of_v[name]}
    end
  end
  return list
end

return slots
