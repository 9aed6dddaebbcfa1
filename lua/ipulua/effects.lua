-- What a program does on the side: calling the script, showing a value; and keeping values together.

local args = require "ipulua.args"
local blame = require "ipulua.blame"
local core = require "ipulua.core"
local graph = require "ipulua.graph"
local structure = require "ipulua.structure"
local tracing = require "ipulua.tracing"

local effects = {}

local function symbolic(values)
  return tracing.is_active() or graph.any_deferred(values)
end

local function declared_types(outputs)
  local list = {}
  for i, o in ipairs(outputs or {}) do
    local given = structure.is_plain(o) and o or {}
    local shape, dtype = given.shape or given[1], given.dtype or given[2] or "float32"
    if not structure.is_plain(shape) then
      blame.error(string.format("host_callback: output %d must be {shape, dtype}, got %s", i, args.describe(o)), "type")
    end
    list[i] = {shape = shape, dtype = dtype}
  end
  return list
end

local callback_spec <const> = {{"f", "function"}, {"outputs", "list", optional = true}, {"name", "string", optional = true}}

---A function of tensors that calls f on the host each time that the program comes to it; outputs = {{shape, dtype}, …} says what
---f returns.
---@return fun(...): ...
function effects.host_callback(...)
  local a = args.check("host_callback", callback_spec, ...)
  local types = declared_types(a.outputs)
  return function(...)
    local values = {...}
    for i, v in ipairs(values) do values[i] = core.is_variable(v) and v or core.tensor(v) end
    if not symbolic(values) then return a.f(...) end
    return table.unpack(core.host_callback(a.f, values, types))
  end
end

local print_spec <const> = {{"input", "any"}, {"name", "string", ""}}

local function show(name, value)
  io.stderr:write(name, name ~= "" and ": " or "", tostring(value), "\n")
end

-- x itself; in a session's graph made so that whoever fetches it runs the printing, which gives zero.
local function after(x, zero)
  if not core.is_deferred(x) then return x end
  if x.dtype == "bool" then return core.ops.logical_xor(x, zero) end
  return x - zero
end

---x; writes its value to standard error at each execution.
---@return userdata
function effects.print_tensor(...)
  local a = args.check("print_tensor", print_spec, ...)
  local x = core.is_variable(a.input) and a.input:read_value() or core.tensor(a.input)
  if not symbolic{x} then
    show(a.name, x)
    return x
  end
  local dtype = x.dtype
  local done = core.host_callback(function(value)
    show(a.name, value)
    return core.tensor(0, dtype)
  end, {x}, {{shape = {}, dtype = dtype}})
  return after(x, done[1])
end

---x; on an IPU its elements might be laid out anew.
---@return userdata
function effects.remap(x) return core.ops.identity(core.is_variable(x) and x:read_value() or core.tensor(x)) end

---The values of a list, all of them there before any is used.
---@param list userdata[]
function effects.barrier(list)
  if not structure.is_plain(list) then
    blame.error("barrier: 'tensors' must be a list of tensors, got " .. args.describe(list), "type")
  end
  local kept = {}
  for i, x in ipairs(list) do kept[i] = core.ops.identity(x) end
  return table.unpack(kept)
end

return effects
