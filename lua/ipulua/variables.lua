-- Variables: made with a value, or by name and given a value later.

local args = require "ipulua.args"
local blame = require "ipulua.blame"
local core = require "ipulua.core"
local tracing = require "ipulua.tracing"

local variables = {}

local all = setmetatable({}, {__mode = "v"}) -- in order of making; collected ones leave holes
local count = 0
local used_names = {}

local function remember(v)
  count = count + 1
  all[count] = v
  return v
end

local function unique(name)
  local n = used_names[name]
  used_names[name] = (n or 0) + 1
  return n and name .. "_" .. n or name
end
variables.unique_name = unique

local variable_spec <const> = {
  {"initial_value", "any"}, {"name", "string", "Variable"}, {"trainable", "boolean", true}, {"dtype", "dtype", optional = true},
  {"shape", "list", optional = true},
}

---A variable with its value at once; initial_value may be a function that makes it.
---@return userdata
function variables.Variable(...)
  local a = args.check("Variable", variable_spec, ...)
  local initial = a.initial_value
  if type(initial) == "function" then initial = tracing.outside(initial) end
  if core.is_symbolic(initial) then
    blame.error("Variable: the initial value must be known; a symbolic tensor is not", "value")
  end
  local value = tracing.outside(core.tensor, initial, a.dtype)
  local v = core.new_variable(unique(a.name), value.dtype, value.shape, a.trainable)
  core.set_variable(v, value)
  return remember(v)
end

---A variable without a value yet.
function variables.declare(name, dtype, shape, trainable)
  return remember(core.new_variable(name, dtype, shape, trainable ~= false))
end

local function list(test)
  local found = {}
  for i = 1, count do
    local v = all[i]
    if v and test(v) then found[#found + 1] = v end
  end
  return found
end

---@return userdata[]
function variables.global_variables() return list(function() return true end) end

---@return userdata[]
function variables.trainable_variables() return list(function(v) return v.trainable end) end

function variables.forget_names() used_names = {} end

return variables
