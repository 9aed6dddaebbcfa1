-- Where new nodes go: the device, shard and numerics of the scopes that are open.

local args = require "ipulua.base.args"
local blame = require "ipulua.base.blame"
local core = require "ipulua.core"
local json = require "ipulua.base.json"
local scope = require "ipulua.base.scope"
local tracing = require "ipulua.trace.tracing"

local placement = {}

local host <const> = -1 -- the core's number of the CPU

-- Fields of open scopes: device (an ordinal or `host`; nil if no scope sets it), shard, attributes.
-- outside: in an outside_compilation_scope.
local here <const> = core.here

---The IPU's ordinal, or -1 for the CPU; nil outside of all scopes.
---@return integer?
function placement.device() return here().device end

---@return boolean
function placement.on_host() return here().device == host end

---The ordinal that a program begun here runs on.
---@return integer
function placement.ordinal()
  local device = here().device
  return device and device ~= host and device or 0
end

---The shard of the scope that is open, 0 outside.
---@return integer
function placement.shard() return here().shard or 0 end

local most_devices <const> = 1024 -- one of each IPU of the largest machine

-- "/device:IPU:0", "IPU:0", "/device:CPU:0", "cpu:0", "cpu"
local function parse(name)
  local plain = name:lower():gsub("^/", ""):gsub("^device:", "")
  local kind, number = plain:match("^(%a+):?(%d*)$")
  if kind == "cpu" then return host end
  if kind ~= "ipu" then return nil end
  local ordinal = number == "" and 0 or math.tointeger(tonumber(number))
  return ordinal and ordinal < most_devices and ordinal or nil
end

local function device_entered() end

---f(ordinal) is called when a scope of that IPU device is entered.
function placement.on_device(f) device_entered = f end

local function set(field, value)
  local former = core.set_placement(field, value)
  return function() core.set_placement(field, former) end
end

-- The ordinal of a device's name, -1 for the CPU.
local function ordinal_of(who, name)
  local ordinal = parse(name)
  if not ordinal then
    blame.error(string.format("%s: '%s' is no device; a device is written /device:IPU:0 or cpu",
      who, name), "value")
  end
  return ordinal
end

---Refuses a device that isn't an IPU.
function placement.check_ipu(who, name)
  if ordinal_of(who, name) == host then
    blame.error(string.format("%s: '%s' is not an IPU; use ipu.device for the CPU", who, name),
      "value")
  end
end

---Enters a device; the function returned leaves it again.
function placement.enter_device(who, name)
  local ordinal = ordinal_of(who, name)
  local former, undo = here().device, set("device", ordinal)
  here().device = ordinal
  if ordinal ~= host then device_entered(ordinal) end
  return function()
    here().device = former
    undo()
  end
end

local device_spec <const> = {{"device", "string"}}

---Ops inside go to the device.
---Errors: a device that is neither the CPU nor an IPU: `ipu.device "gpu"`
---Source: tf.device of TensorFlow 2.6
---@return Scope
function placement.device_scope(...)
  local a = args.check("device", device_spec, ...)
  return scope.new("device(" .. a.device .. ")", placement.enter_device("device", a.device))
end

---The same, for IPUs.
---Errors: a device that is no IPU: `ipu.ipu_scope "/cpu:0"`
---Source: scopes.ipu_scope of Graphcore's TensorFlow 2.6
---@return Scope
function placement.ipu_scope(...)
  local a = args.check("ipu_scope", device_spec, ...)
  placement.check_ipu("ipu_scope", a.device)
  return scope.new("ipu_scope(" .. a.device .. ")", placement.enter_device("ipu_scope", a.device))
end

local most_shards <const> = 1024 -- of the largest machine

local function check_shard(index)
  if math.type(index) ~= "integer" then
    blame.error("ipu_shard: 'index' must be an integer or a list of integers, got "
      .. args.describe(index), "type")
  end
  if index < 0 then
    blame.error("ipu_shard: 'index' must not be negative, got " .. index, "value")
  end
  if index >= most_shards then
    blame.error(string.format("ipu_shard: no machine has an IPU %d", index), "value")
  end
  return index
end

local function shard_used() end

---f(index) is called when a scope of that shard is entered.
function placement.on_shard(f) shard_used = f end

---Ops inside belong to that IPU of a replica; of a list, one for each output, nodes take the first.
---Errors: an index below 0 or beyond the largest machine (1023): `ipu.ipu_shard(-1)`
---Source: scopes.ipu_shard of Graphcore's TensorFlow 2.6
---@param index integer|integer[]
---@return Scope
function placement.ipu_shard(index, ...)
  if select("#", ...) > 0 then
    blame.error("ipu_shard takes one argument; call its result with the ops: "
      .. "ipu.ipu_shard(0)(function() … end)", "type")
  end
  local list = type(index) == "table" and index or {index}
  for i = 1, math.max(#list, 1) do shard_used(check_shard(list[i])) end
  local former, undo = here().shard, set("shard", list[1])
  here().shard = list[1]
  return scope.new("ipu_shard(" .. table.concat(list, ", ") .. ")", function()
    here().shard = former
    undo()
  end)
end

local jit_spec <const> = {{"ipu_scope", "integer"}}

---Changes nothing, since everything that is traced is compiled. Older scripts have it.
---Errors: an argument that is no integer: `ipu.ipu_jit_scope "a"`
---Source: scopes.ipu_jit_scope of Graphcore's TensorFlow 2.6
---@return Scope
function placement.ipu_jit_scope(...)
  local a = args.check("ipu_jit_scope", jit_spec, ...)
  return scope.new("ipu_jit_scope(" .. a.ipu_scope .. ")", function() end)
end

local outside_spec <const> = {{"name", "string", "outside"}}

---Ops inside run on the host, in the middle of the program.
---Errors: outside of a compiled function, within another one: `ipu.outside_compilation_scope()`
---Source: scopes.outside_compilation_scope of Graphcore's TensorFlow 2.6
---@return Scope
function placement.outside_compilation_scope(...)
  args.check("outside_compilation_scope", outside_spec, ...)
  if not tracing.is_active() then
    blame.error("outside_compilation_scope works only inside a compiled function (ipu.func, "
      .. "ipu_compiler.compile)", "value")
  end
  if here().outside then blame.error("outside_compilation_scope can't be nested", "value") end
  local undo = set("device", host)
  here().outside = true
  return scope.new("outside_compilation_scope()", function()
    here().outside = nil
    undo()
  end)
end

local stage_meta <const> = {__close = function(self)
  core.set_placement("stage", self.stage)
  core.set_placement("shard", self.shard)
  core.set_placement("backward", self.backward)
end}

---To be closed: until then new nodes belong to a pipeline stage, on an IPU of the replica.
---@param stage integer
---@param ipu integer
---@param backward boolean
function placement.in_stage(stage, ipu, backward)
  return setmetatable({stage = core.set_placement("stage", stage),
    shard = core.set_placement("shard", ipu),
    backward = core.set_placement("backward", backward and 1 or 0)}, stage_meta)
end

---New nodes belong to another stage, until the innermost in_stage is closed.
function placement.move_to_stage(stage, ipu)
  core.set_placement("stage", stage)
  core.set_placement("shard", ipu)
end

local rounding_spec <const> = {{"override", "boolean"}}

---float16 results of ops inside are rounded up or down by chance (true), or to the nearest (false).
---The chance belongs to an op's position in its program: one that is added in front of it changes
---it.
---Errors: an override that is no boolean: `ipu.stochastic_rounding(1)`
---Source: scopes.stochastic_rounding of Graphcore's TensorFlow 2.6
---@return Scope
function placement.stochastic_rounding(...)
  local a = args.check("stochastic_rounding", rounding_spec, ...)
  return scope.new("stochastic_rounding(" .. tostring(a.override) .. ")",
    set("stochastic_rounding", a.override and 1 or 0))
end

local partials_spec <const> = {{"override_type", "dtype"}}

---The dtype that matrix products and convolutions inside add up in. Products of einsum, attention
---and recurrent layers are among them.
---Errors: a dtype other than float16 and float32: `ipu.partials_type "int32"`
---Source: scopes.partials_type of Graphcore's TensorFlow 2.6
---@return Scope
function placement.partials_type(...)
  local a = args.check("partials_type", partials_spec, ...)
  if a.override_type ~= "float16" and a.override_type ~= "float32" then
    blame.error("partials_type must be float16 or float32, got " .. a.override_type, "value")
  end
  local code = a.override_type == "float16" and 1 or 0
  local products, convolutions = set("half_products", code), set("half_convolutions", code)
  return scope.new("partials_type(" .. a.override_type .. ")", function()
    products()
    convolutions()
  end)
end

local attribute_spec <const> = {
  {"attribute_name", "string"}, {"attribute_value", "string"},
  {"restore_to", "string", optional = true},
}

---Attaches a key to the ops inside.
---Errors: a value that is no string: `ipu.frontend_attribute("a", 1)`
---Source: scopes.frontend_attribute of Graphcore's TensorFlow 2.6
---@return Scope
function placement.frontend_attribute(...)
  local a = args.check("frontend_attribute", attribute_spec, ...)
  local former = (here().attributes or {})[a.attribute_name]
  local function set_attribute(value)
    local attributes = placement.frontend_attributes()
    attributes[a.attribute_name] = value
    core.set_attributes(next(attributes) and json.encode(attributes) or "")
    here().attributes = next(attributes) and attributes
  end
  set_attribute(a.attribute_value)
  return scope.new("frontend_attribute(" .. a.attribute_name .. ")", function()
    set_attribute(a.restore_to or former)
  end)
end

---The attributes of new nodes.
---@return table<string, string>
function placement.frontend_attributes()
  local copy = {}
  for key, value in pairs(here().attributes or {}) do copy[key] = value end
  return copy
end

return placement
