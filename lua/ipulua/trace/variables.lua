-- Variables: made with a value, or by name and given a value later.

local args = require "ipulua.base.args"
local blame = require "ipulua.base.blame"
local class = require "ipulua.base.class"
local core = require "ipulua.core"
local enumeration = require "ipulua.base.enumeration"
local names = require "ipulua.trace.name_scopes"
local operation = require "ipulua.trace.operation"
local placement = require "ipulua.trace.placement"
local postponed = require "ipulua.trace.postponed"
local scope = require "ipulua.base.scope"
local session_graph = require "ipulua.trace.session_graph"
local structure = require "ipulua.base.structure"
local teams = require "ipulua.config.teams"
local tracing = require "ipulua.trace.tracing"

local variables = {}

local all = setmetatable({}, {__mode = "v"}) -- in order of making; collected ones leave holes
local count = 0

local function remember(v)
  count = count + 1
  all[count] = v
  return v
end

local names_given -- from the first variable on

local function unique(name)
  names_given = names_given or require "ipulua.trace.used_names".new()
  return names_given.unique(name)
end
variables.unique_name = unique

local VariableSynchronization <const> = enumeration.new("VariableSynchronization",
  {"AUTO", "NONE", "ON_WRITE", "ON_READ"})
local VariableAggregation <const> = enumeration.new("VariableAggregation",
  {"NONE", "SUM", "MEAN", "ONLY_FIRST_REPLICA"})

local variable_spec <const> = {
  {"initial_value", "any", list_of = "number",
    of = "tensor, number, nested lists or function that gives one of them"},
  {"name", "string", "Variable"}, {"trainable", "boolean", true},
  {"dtype", "dtype", optional = true, says = "by default the dtype of initial_value"},
  {"shape", "integers", optional = true, says = "that initial_value must have; -1: any extent"},
  {"synchronization", VariableSynchronization, "AUTO",
    says = "ON_READ: replicas have values of their own"},
  {"aggregation", VariableAggregation, "NONE",
    says = "how replicas' values of an ON_READ variable combine outside of programs"},
}

-- Whether a shape agrees with the expected one, in which -1 is any extent.
local function fits_shape(shape, wanted)
  for i, extent in ipairs(wanted) do
    if extent ~= -1 and extent ~= shape[i] then return false end
  end
  return #shape == #wanted
end

-- An ON_READ variable of several replicas is read as the combination of their values, which another
-- variable holds.
local function aggregate(v, a, value)
  if a.synchronization ~= "ON_READ" or a.aggregation == "NONE" then return end
  teams.aggregate(v, a.aggregation, function()
    local of = core.new_variable(v.name .. "/" .. a.aggregation:lower(), value.dtype, value.shape,
      false)
    -- a layer's metric is made while it is traced
    return of, function() tracing.outside(core.set_variable, of, v) end
  end)
end

---A variable with its value at once; initial_value may be a function that makes it.
---Shapes: the shape of initial_value; of a number a scalar [].
---`ipu.Variable(ipu.ones{2, 2}):read_value()` → [2, 2]
---Errors: a symbolic initial value, one that the dtype can't hold, one that has not the shape
---wanted: `ipu.func(function(a) return ipu.Variable(a) end)(x)`,
---`ipu.Variable({1, 2}, {shape = {3}})`
---Source: tf.Variable
---@return userdata variable
function variables.Variable(...)
  local a = args.check("Variable", variable_spec, ...)
  if args.is_dtype(a.name) then
    blame.error(string.format("Variable: '%s' would be its name; the dtype is given as {dtype = "
      .. "\"%s\"}", a.name, a.name), "value")
  end
  local initial = a.initial_value
  if type(initial) == "function" then initial = tracing.outside(initial) end
  if core.is_symbolic(initial) then
    blame.error("Variable: the initial value must be known; a symbolic tensor is not", "value")
  end
  local value = tracing.outside(core.tensor, initial, a.dtype, "Variable: 'initial_value'")
  if a.shape and not fits_shape(value.shape, a.shape) then
    blame.error(string.format("Variable: the initial value has the shape [%s], not 'shape', [%s]",
      table.concat(value.shape, ", "),
      table.concat(a.shape, ", ")), "value")
  end
  local v = core.new_variable(unique(names.qualified(a.name)), value.dtype, value.shape,
    a.trainable)
  core.set_variable(v, value)
  teams.share(v)
  aggregate(v, a, value)
  return remember(v)
end

---The same for a variable with equal first values on all instances: it takes no other instance's
---value.
function variables.make_alone(...)
  local _ <close> = teams.share_nothing()
  return variables.make(...)
end

---A variable whose value make() gives. If `draws` is known, or if programs are only priced, the
---value is made when it is first read.
---@param name string
---@param dtype string
---@param shape integer[]
---@param trainable boolean
---@param make fun(): any
---@param draws integer? the eager random ops that make() calls
function variables.make(name, dtype, shape, trainable, make, draws)
  local later = make
  if not core.is_estimating() then
    later = draws and not teams.current() and postponed.drawing(make, draws)
  end
  if not later then
    return variables.Variable{tracing.outside(make), name = name, trainable = trainable}
  end
  local v = variables.declare(unique(names.qualified(name)), dtype, shape, trainable)
  postponed.note(v, later)
  return v
end

---A variable without a value yet.
function variables.declare(name, dtype, shape, trainable)
  return remember(core.new_variable(name, dtype, shape, trainable ~= false))
end

-- Collected variables leave no holes in it.
local function list(test)
  local found, kept = core.plain{}, 0
  for i = 1, count do
    local v = all[i]
    if v then
      kept = kept + 1
      all[i] = nil
      all[kept] = v
      if test(v) then found[#found + 1] = v end
    end
  end
  count = kept
  return core.plain(found)
end

---All variables there are, in the order of making.
---Shapes: each its own
---@return userdata[] variables
function variables.global_variables() return list(function() return true end) end

---Those that training changes.
---Shapes: each its own
---@return userdata[] variables
function variables.trainable_variables() return list(function(v) return v.trainable end) end

-- ------------------------------------------------ by name, with a value later

local named = {}        -- name → {variable, shape, dtype}
local weak_keys <const> = {__mode = "k"}
-- variable → function that gives its value; removed with the variable
local initialisers = setmetatable({}, weak_keys)
-- core.here().pending, while a function is traced: the variables it made, a list of {variable,
-- function}

session_graph.on_reset(function()
  for i = 1, count do -- a forgotten variable is listed no more
    if all[i] and initialisers[all[i]] then all[i] = nil end
  end
  named, initialisers = {}, setmetatable({}, weak_keys)
  variables.forget_names()
end)

---Gives v the value f() now, and again at each global_variables_initializer. If programs are only
---priced, f is called at the first reading.
function variables.with_initial_value(v, f)
  initialisers[v] = f
  if core.is_estimating() then postponed.note(v, f)
  else core.set_variable(v, tracing.outside(f)) end
  return v
end

local function initialise(items)
  if core.is_estimating() then return end
  for _, item in ipairs(items) do
    local v, f = item[1], item[2]
    local ok, message = blame.pcall(function()
      core.set_variable(v, core.tensor(tracing.outside(f), v.dtype))
    end)
    if not ok then error(message, 0) end
  end
end

local pending_meta = {__close = function(self, err)
  local made, former = core.here().pending, self.former
  core.here().pending = former
  if err == nil and not former then initialise(made) end
  if former then table.move(made, 1, #made, #former + 1, former) end
end}

---To be closed when a trace ends: variables that it made by name get their values then.
function variables.initialise_at_end()
  local former = core.here().pending
  core.here().pending = {}
  return setmetatable({former = former}, pending_meta)
end

---Variables made by name since initialise_at_end, in a trace that is thrown away, were never made.
function variables.undo_pending()
  local pending = core.here().pending
  for _, item in ipairs(pending or {}) do
    for name, v in pairs(named) do
      if v == item[1] then named[name] = nil end
    end
    initialisers[item[1]] = nil
  end
  core.here().pending = pending and {}
end

---An operation that gives the variables that get_variable and the optimizers of ipu.train have
---made so far their initial values. A Variable keeps its value.
---@return Operation
function variables.global_variables_initializer()
  local items = {}
  for i, v in ipairs(list(function(each) return initialisers[each] ~= nil end)) do
    items[i] = {v, initialisers[v]}
  end
  return operation.new("global_variables_initializer", {}, function() initialise(items) end)
end

local move_spec <const> =
  {{"graph", "any", optional = true, of = "anything", says = "changes nothing"}}

---Changes nothing, since initialisers run on the host anyway. Older scripts have it.
---Errors: more arguments than it has: `ipu.move_variable_initialization_to_cpu(1, 2)`
---Source: utils.move_variable_initialization_to_cpu of Graphcore's TensorFlow 2.6
function variables.move_variable_initialization_to_cpu(...)
  args.check("move_variable_initialization_to_cpu", move_spec, ...)
end

local outermost <const> = {prefix = ""}

-- {prefix, reuse, use_resource} of the innermost scope that is open.
local function innermost() return core.here().variable_scope or outermost end

local reuse_choices <const> = {[true] = true, [false] = true, auto = true}

local scope_spec <const> = {
  {"name", "string"}, {"reuse", {"boolean", "string"}, optional = true, of = "boolean or \"auto\""},
  {"use_resource", "boolean", optional = true, says = "false is an error on an IPU"},
}

---Variables made by name inside are called "name/…".
---Errors: a reuse that is not true, false or "auto": `ipu.variable_scope("a", {reuse = "no"})`
---Source: tf.variable_scope of TensorFlow 2.6
---@return Scope
function variables.variable_scope(...)
  local a = args.check("variable_scope", scope_spec, ...)
  local former, outer = core.here().variable_scope, innermost()
  local reuse = a.reuse
  if type(reuse) == "string" then reuse = reuse:lower() end
  if reuse ~= nil and not reuse_choices[reuse] then
    blame.error("variable_scope: 'reuse' must be true, false or 'auto', got "
      .. args.describe(a.reuse), "value")
  end
  if reuse == nil then reuse = outer.reuse end
  local use_resource = a.use_resource
  if use_resource == nil then use_resource = outer.use_resource end
  core.here().variable_scope = {prefix = outer.prefix .. a.name .. "/", reuse = reuse,
    use_resource = use_resource}
  return scope.new("variable_scope(" .. a.name .. ")", function()
    core.here().variable_scope = former
  end)
end

local function same_shape(a, b)
  return table.concat(a, ",") == table.concat(b, ",")
end

local function reused(found, name, a)
  local v = found
  if a.shape and not same_shape(a.shape, v.shape) or a.dtype and a.dtype ~= v.dtype then
    blame.error(string.format("get_variable: '%s' is %s, but %s is asked for", name,
      structure.type_text(v.dtype, v.shape),
      structure.type_text(a.dtype or v.dtype, a.shape or v.shape)), "value")
  end
  return v
end

-- A function without arguments that gives the initial value.
function variables.initial_value(given, shape, dtype)
  if given == nil then
    given = dtype:find("float", 1, true) and "glorot_uniform" or "zeros"
  end
  if type(given) == "string" or class.is_class(given) then
    given = require("ipulua.trace.initializers").get(given)
  end
  if type(given) == "number" or type(given) == "boolean" then
    return function() return core.full(shape, given, dtype) end
  end
  local meta = getmetatable(given)
  if type(given) == "function" or type(given) == "table" and type(meta) == "table"
    and meta.__call then
    return function() return given(shape, dtype) end
  end
  local value = tracing.outside(core.tensor, given, dtype)
  return function() return value end
end

local variable_by_name_spec <const> = {
  {"name", "string"}, {"shape", "list", optional = true}, {"dtype", "dtype", optional = true},
  {"initializer", "any", optional = true,
    of = "function of shape and dtype, tensor, number or list", says = "glorot_uniform by default"},
  {"trainable", "boolean", true},
  {"use_resource", "boolean", optional = true, says = "false is an error on an IPU"},
}

local function check_extents(name, shape)
  for _, extent in ipairs(shape) do
    if math.type(extent) ~= "integer" or extent < 0 then
      blame.error("get_variable: the shape of '" .. name
        .. "' must be fully known, as a list of integers", "value")
    end
  end
end

local function given_shape(name, a)
  if a.shape then
    check_extents(name, a.shape)
    return a.shape
  end
  local initial = a.initializer
  if core.is_tensor(initial) or type(initial) == "number" or structure.is_plain(initial)
    and initial ~= nil then
    return (tracing.outside(core.tensor, initial)).shape
  end
  blame.error("get_variable: 'shape' is missing for the variable '" .. name .. "'", "value")
end

---The variable of that name in the open scopes. It is made now, unless reuse says to use an earlier
---one.
---Shapes: shape, or the initializer's shape if it is a value
---Errors: no shape, a name that is taken, none to be used again, another shape or dtype than
---before: `ipu.get_variable "unshaped"`
---Source: tf.get_variable of TensorFlow 2.6
---@return userdata variable
function variables.get_variable(...)
  local a = args.check("get_variable", variable_by_name_spec, ...)
  local open = innermost()
  local name = open.prefix .. a.name
  local found = named[name]
  if found and open.reuse then return reused(found, name, a) end
  if found then
    blame.error("get_variable: variable '" .. name
      .. "' exists already; use variable_scope(name, {reuse = true}) to get it "
      .. "again", "value")
  end
  if open.reuse == true then
    blame.error("get_variable: there is no variable '" .. name
      .. "' to reuse; make it first, without reuse", "value")
  end
  local use_resource = a.use_resource
  if use_resource == nil then use_resource = open.use_resource end
  local on_ipu = placement.device() and not placement.on_host()
  if use_resource == false and on_ipu then
    blame.error("get_variable: variable '" .. name
      .. "' is placed on an IPU, where only resource variables can be; set "
      .. "use_resource = true", "invalid_argument")
  end
  local shape = given_shape(name, a)
  local dtype = a.dtype or core.is_tensor(a.initializer) and a.initializer.dtype or "float32"
  local v = variables.declare(name, dtype, shape, a.trainable)
  v.deferred = true
  named[name] = v
  local item = {v, variables.initial_value(a.initializer, shape, dtype)}
  initialisers[v] = item[2]
  local pending = core.here().pending
  if pending then pending[#pending + 1] = item end
  return v
end

function variables.forget_names() names_given = nil end

return variables
