-- A wrapper: an optimizer around another one, which has all methods that the wrapper lacks.

local args = require "ipulua.base.args"
local base = require "ipulua.keras.optimizers.base"
local blame = require "ipulua.base.blame"
local class = require "ipulua.base.class"
local core = require "ipulua.core"
local parts = require "ipulua.base.parts"

local delegating = {}

---The optimizer that is to be wrapped; an error when it is none.
---@param name string of the wrapper
---@param opt any
---@return Optimizer
function delegating.check(name, opt)
  if class.is_a(opt, base.Optimizer) then return opt end
  blame.error(string.format("%s: 'opt' must be a Keras optimizer, got %s", name,
    args.describe(opt)), "value")
end

-- Members that a wrapper doesn't define are the wrapped optimizer's.
---@class IpuOptimizerWrapper: Optimizer
local Wrapper = base.Optimizer:extend("Wrapper")
delegating.Wrapper = Wrapper

function Wrapper.__index(self, key)
  local c = getmetatable(self)
  local own = c[key]
  if own ~= nil and (type(own) ~= "function" or own ~= base.Optimizer[key]) then return own end
  local opt = rawget(self, "opt")
  if opt == nil then return own end
  if key == "weights" then return self:list_weights() end
  local value = opt[key]
  if type(value) ~= "function" then return value end
  if c[key] then return c[key] end
  -- a method that the wrapper hasn't is called for the optimizer in it
  return function(first, ...)
    if rawequal(first, self) then first = opt end
    return value(first, ...)
  end
end

function Wrapper:__newindex(key, value)
  self.opt[key] = value
end

function Wrapper:init_wrapper(opt, name)
  rawset(self, "opt", delegating.check(getmetatable(self).__name, opt))
  rawset(self, "name", name or getmetatable(self).__name)
end

-- Methods of every optimizer go to the wrapped one, except the methods that classes define.
for _, method in ipairs{
  "build", "slot", "state", "current_learning_rate", "finalize_variable_values",
} do
  Wrapper[method] = function(self, ...)
    local opt = self.opt
    return opt[method](opt, ...)
  end
end

Wrapper.get_weights, Wrapper.set_weights = base.Optimizer.get_weights, base.Optimizer.set_weights

-- Variables of the wrapper itself, by name; those beside weights only for the weights given.
function Wrapper:own_entries() return {} end -- luacheck: ignore 212

-- All variables of the wrapper itself, in the order of their making.
function Wrapper:own_weights()
  local list = {}
  for i, entry in ipairs(self:own_entries{}) do list[i] = entry.variable end
  return list
end

function Wrapper:list_weights()
  local list, own = self.opt:list_weights(), self:own_weights()
  return table.move(own, 1, #own, #list + 1, list)
end

function Wrapper:entries(weights)
  local list = self.opt:entries(weights)
  for _, entry in ipairs(self:own_entries(weights)) do
    list[#list + 1] = {path = self.__name .. "/" .. entry.path, variable = entry.variable}
  end
  return list
end

function Wrapper:apply_gradients(grads, vars, options)
  return self.opt:apply_gradients(grads, vars, options)
end

function Wrapper:each_gradient(g, v) return self.opt:each_gradient(g, v) end

function Wrapper:compute_gradients(...)
  return self.opt:compute_gradients(...)
end

---Arguments besides the wrapped optimizer and the name, as the constructor takes them.
---@return table
function Wrapper:own_settings() return rawget(self, "settings") or {} end

function Wrapper:get_config()
  local config = core.plain{name = self.name}
  for key, value in next, self:own_settings() do
    if value ~= self.opt then config[key] = value end
  end
  config[self.argument_rows[1][1]] = parts.serialize("optimizer", self.opt)
  return config
end

function Wrapper:__tostring()
  local fields = {opt = self.opt, name = self.name}
  for key, value in next, self:own_settings() do
    if type(value) ~= "function" and type(value) ~= "table" then fields[key] = value end
  end
  return class.text(self, fields)
end

function Wrapper.from_config(c, config, custom_objects)
  parts.want_config(c, config)
  local given = {}
  for key, value in pairs(config) do given[key] = value end
  local wrapped = c.argument_rows[1][1]
  given[wrapped] = parts.get("optimizer", config[wrapped] or config.opt,
    {custom_objects = custom_objects})
  return c(given)
end

---Pairs {gradient, variable}, from pairs or two lists, and options such as captured_grads.
---@param grads any[]
---@param vars userdata[]?
---@param options table?
---@return any[]
---@return table? options
function delegating.as_pairs(grads, vars, options)
  if args.is_plain(vars) and vars.captured_grads then vars, options = nil, vars end
  if not vars then return grads, options end
  local list = {}
  for i, v in ipairs(vars) do list[i] = {grads[i] or false, v} end
  return list, options
end

return delegating
