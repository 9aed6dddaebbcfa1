-- Side effects of a program: calls of the script, printed values; and values that are kept
-- together.

local args = require "ipulua.base.args"
local blame = require "ipulua.base.blame"
local core = require "ipulua.core"
local offloading = require "ipulua.trace.offloading"
local session_graph = require "ipulua.trace.session_graph"
local structure = require "ipulua.base.structure"
local tracing = require "ipulua.trace.tracing"
local variables = require "ipulua.trace.variables"

local effects = {}

local function symbolic(values)
  return tracing.is_active() or session_graph.any_deferred(values)
end

local function declared_types(outputs)
  local list = {}
  for i, o in ipairs(outputs or {}) do
    local given = structure.is_plain(o) and o or {}
    local shape, dtype = given.shape or given[1], given.dtype or given[2] or "float32"
    if not structure.is_plain(shape) then
      blame.error(string.format("host_callback: output %d must be {shape, dtype}, got %s", i,
        args.describe(o)), "type")
    end
    for _, extent in ipairs(shape) do
      if math.type(extent) ~= "integer" or extent < 0 then
        blame.error(string.format("host_callback: output %d has the extent %s; shapes of results "
          .. "are fully known, of integers of at least 0", i, tostring(extent)), "value")
      end
    end
    list[i] = {shape = shape, dtype = dtype}
  end
  return list
end

-- A callback's results, with numbers and lists as tensors of the declared dtypes.
local function as_declared(types, ...)
  local results = table.pack(...)
  for i, t in ipairs(types) do
    local value = results[i]
    if type(value) == "number" or type(value) == "boolean" or structure.is_plain(value) then
      results[i] = core.tensor(value, t.dtype, "host_callback: result " .. i)
    end
  end
  for i = #types + 1, results.n do
    if results[i] ~= nil then
      blame.error(string.format("host_callback: result %d is one more than outputs says", i),
        "invalid_argument")
    end
  end
  return table.unpack(results, 1, #types)
end

-- Results outside of a program, compared as a program compares them.
local function checked(types, ...)
  for i, want in ipairs(types) do
    local value = select(i, ...)
    if not core.is_tensor(value) then
      blame.error(string.format("host_callback: result %d must be a tensor, got %s", i,
        type(value)), "type")
    end
    local dtype, shape = core.type_of(value)
    local given, declared = structure.type_text(dtype, shape),
      structure.type_text(want.dtype, want.shape)
    if given ~= declared then
      blame.error(string.format("host_callback: result %d is %s, but was declared as %s", i, given,
        declared), "invalid_argument")
    end
  end
  return ...
end

local callback_spec <const> = {{"f", "function"}, {"outputs", "list", optional = true},
  {"name", "string", optional = true}}

---A function of tensors that calls f on the host each time that the program comes to it. outputs =
---{{shape, dtype}, …} says the results of f.
---Shapes: results as outputs says: {{shape, dtype}, …}
---Errors: outputs of another form; when it runs, errors of f, or a result of another shape:
---`ipu.host_callback(print, {outputs = {1}})`
---@return fun(...): ...
function effects.host_callback(...)
  local a = args.check("host_callback", callback_spec, ...)
  local types = declared_types(a.outputs)
  local function f(...) return as_declared(types, a.f(...)) end
  return function(...)
    local values, n = {...}, select("#", ...)
    for i = 1, n do
      local v = values[i]
      values[i] = core.is_variable(v) and v or core.tensor(v, nil, "host_callback: argument " .. i)
    end
    if not symbolic(values) then -- as in a program: tensors go in, no gradient comes back
      for i, v in ipairs(values) do values[i] = core.is_variable(v) and v:read_value() or v end
      return checked(types, core.unrecorded(f, table.unpack(values, 1, n)))
    end
    return table.unpack(core.host_callback(f, values, types, true))
  end
end

local print_spec <const> = {{"input", "any", of = "tensor, number or list"},
  {"name", "string", "", says = "stands before the value"}}

local function show(name, value)
  io.stderr:write(name, name ~= "" and ": " or "", tostring(value), "\n")
end

-- x itself. In a session's graph, fetching it runs the printing, which gives zero.
local function after(x, zero)
  if not core.is_deferred(x) then return x end
  if x.dtype == "bool" then return core.ops.logical_xor(x, zero) end
  return x - zero
end

---x; writes its value to standard error at each execution.
---Shapes: [...] → [...]
---Errors: a value that is no tensor: `ipu.print_tensor("x")`
---Source: internal_ops.print_tensor of Graphcore's TensorFlow 2.6
---@return userdata
function effects.print_tensor(...)
  local a = args.check("print_tensor", print_spec, ...)
  local x = core.is_variable(a.input) and a.input:read_value()
    or core.tensor(a.input, nil, "print_tensor: 'input'")
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

local fifo_spec <const> = {
  {"x", "any", of = "tensor, number or list"},
  {"depth", "integer", range = "[1, inf)", says = "executions"},
  {"offload", "boolean", false, says = "keep the values in streaming memory"},
  {"name", "string", "fifo"},
}

-- The oldest value of a queue on the tiles, which moves on by one.
local function shift(kept, x, depth)
  local ops, all, newest = core.ops, kept:read_value(), core.ops.expand_dims(x, 0)
  if depth > 1 then newest = ops.concat({ops.strided_slice(all, {1}, {false}), newest}, 0) end
  kept:assign(newest)
  return ops.reshape(ops.strided_slice(all, {0}, {1}), x.shape)
end

-- In streaming memory each execution transfers one slot: out with the oldest value, in
-- with the newest.
local function take_turns(kept, x, depth, name)
  local ops = core.ops
  local turn = variables.make(name .. "/turn", "int32", {}, false, function()
    return core.full({}, 0, "int32")
  end)
  local now, all = turn:read_value(), kept:read_value()
  local oldest = ops.remote_load_slot(all, now)
  kept:assign(ops.remote_store_slot(x, all, now))
  turn:assign(ops.mod(ops.add(now, 1), depth))
  return oldest
end

---The argument of `depth` executions ago; zeros in the first ones. Only in a program: each call in
---the script has values of its own.
---Shapes: [...] → [...]
---Errors: outside of a compiled function, a depth below 1: `ipu.fifo(x, 2)`
---Source: internal_ops.fifo of Graphcore's TensorFlow 2.6
---@param ... any x, depth, offload, name
---@return userdata
function effects.fifo(...)
  local a = args.check("fifo", fifo_spec, ...)
  if not tracing.is_active() then
    blame.error("fifo works inside a compiled function only: it keeps values from one execution to "
      .. "the next", "runtime")
  end
  local x = core.is_variable(a.x) and a.x:read_value() or core.tensor(a.x)
  local dtype, shape = x.dtype, {a.depth, table.unpack(x.shape)}
  local kept = variables.make(a.name, dtype, shape, false, function()
    return core.full(shape, 0, dtype)
  end)
  if a.offload then offloading.move(kept, "fifo", "offload") end
  if kept.remote then return take_turns(kept, x, a.depth, a.name) end
  return shift(kept, x, a.depth)
end

local remap_spec <const> = {{"x", "any", of = "tensor, number or list"},
  {"name", "string", optional = true}}

---x, for which the machine may choose other tiles.
---Shapes: [...] → [...]
---Errors: a value that is no tensor: `ipu.remap("x")`
---Source: internal_ops.remap of Graphcore's TensorFlow 2.6
---@param ... any x, name
---@return userdata
function effects.remap(...)
  local x = args.check("remap", remap_spec, ...).x
  return core.ops.identity((core.is_tensor(x) or core.is_variable(x)) and x
    or core.tensor(x, nil, "remap: 'x'"))
end

---The values of a list, all of them there before any is used: `a, b = ipu.barrier{a, b}`.
---Shapes: any, each as it was
---Errors: an argument that is no list of tensors: `ipu.barrier(1)`
---@param list userdata[]
---@return userdata ... one for each of the list
function effects.barrier(list)
  if not structure.is_plain(list) then
    blame.error("barrier: 'list' must be a list of tensors, got " .. args.describe(list), "type")
  end
  structure.check_gaps(list, "barrier: value")
  local kept = {}
  for i, x in ipairs(list) do kept[i] = core.ops.identity(x) end
  return table.unpack(kept)
end

return effects
