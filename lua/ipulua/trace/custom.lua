-- Functions with a gradient of their own, and the ops that scripts and C libraries add.

local args = require "ipulua.base.args"
local blame = require "ipulua.base.blame"
local core = require "ipulua.core"
local counted = require "ipulua.base.counted"
local func = require "ipulua.trace.func"
local modules = require "ipulua.base.modules"
local plain = require "ipulua.base.plain"
local session_graph = require "ipulua.trace.session_graph"
local structure = require "ipulua.base.structure"
local tracing = require "ipulua.trace.tracing"

local custom = {}

local function is_callable(value)
  return type(value) == "function"
    or (type(value) == "table" and (getmetatable(value) or {}).__call ~= nil)
end

local function type_text(value) return structure.type_text(core.type_of(value)) end

-- Results of a gradient function: one for each input, nil for an input without a gradient. A single
-- list is also accepted.
local function check_gradients(who, found, inputs)
  if found.n == 1 and structure.is_plain(found[1]) then
    found = {n = #inputs, table.unpack(found[1], 1, #inputs)}
  end
  if found.n ~= #inputs then
    blame.error(string.format("%s: the gradient function returned %s for %s", who,
      counted(found.n, "value"),
      counted(#inputs, "input")), "type")
  end
  local values, given = {}, {}
  for i = 1, #inputs do
    local value = found[i]
    if value then
      if not core.is_value(value) then value = core.tensor(value, (core.type_of(inputs[i]))) end
      if type_text(value) ~= type_text(inputs[i]) then
        blame.error(string.format("%s: the gradient of input %d must be %s, got %s", who, i,
          type_text(inputs[i]), type_text(value)),
          "type")
      end
      values[#values + 1], given[#given + 1] = value, i
    end
  end
  return values, given
end

local function is_float(value) return (core.type_of(value)):find("float", 1, true) ~= nil end

-- The region that computes input gradients, and the list of results whose upstream gradients it
-- reads.
local function trace_gradient(who, gradient, inputs, outputs)
  core.trace_begin(true, false, true)
  local dys, upstream = {}, {}
  for i, y in ipairs(outputs) do
    if is_float(y) then
      local dtype, shape = core.type_of(y)
      dys[i] = core.trace_argument(dtype, shape, "upstream " .. i)
      upstream[#upstream + 1] = i
    end
  end
  local values, given = check_gradients(who, table.pack(gradient(dys)), inputs)
  return core.suspend(values), upstream, given
end

-- f(values…) returns its results, flat, and a function from upstream gradients (a list) to the
-- inputs' gradients.
local function trace(who, f, leaves)
  local _ <close> = tracing.guard()
  core.trace_begin(true)
  local inputs = {}
  for i, leaf in ipairs(leaves) do
    local dtype, shape = core.type_of(leaf)
    structure.check_known(dtype, shape, who .. ": input " .. i, "custom gradients")
    inputs[i] = core.trace_argument(dtype, shape, "input " .. i)
  end
  local outputs, gradient = f(inputs)
  if #outputs == 0 then blame.error(who .. ": the function returned no tensor", "type") end
  return core.end_custom(leaves, outputs, trace_gradient(who, gradient, inputs, outputs))
end

local function values_of(leaves)
  local list = {}
  for i, leaf in ipairs(leaves) do
    list[i] = core.is_variable(leaf) and leaf:read_value() or leaf
  end
  return list
end

-- f in the current trace, in the graph of sessions, or in a program of its own that a tape records.
local function apply(who, f, leaves)
  if tracing.is_active() then return trace(who, f, values_of(leaves)) end
  if session_graph.any_deferred(leaves) then
    return tracing.in_graph(function() return trace(who, f, values_of(leaves)) end)
  end
  return table.pack(func.func(function(...) return table.unpack(trace(who, f, values_of{...})) end,
    {name = who})(table.unpack(leaves)))
end

local function flatten(given)
  local count = given.n
  given.n = nil
  local leaves, template = structure.flatten(given)
  return leaves, template, count
end

-- f's results before its last one, which must be a function.
local function split_results(who, results)
  local gradient = results[results.n]
  if results.n < 2 or not is_callable(gradient) then
    blame.error(who .. ": the function must return its value and a function from upstream to input "
      .. "gradients, got "
      .. args.describe(gradient), "type")
  end
  return {n = results.n - 1, table.unpack(results, 1, results.n - 1)}, gradient
end

-- Call f, whose gradient is gradient_of(arguments, results, gradient that f returned)(list of
-- upstream gradients).
local function call(who, f, splits, gradient_of, ...)
  local leaves, template, count = flatten(table.pack(...))
  local function results_of(arguments)
    local results = table.pack(f(table.unpack(arguments, 1, count)))
    if splits then return split_results(who, results) end
    return results
  end
  if not (tracing.is_active() or session_graph.any_deferred(leaves) or core.tape_records()) then
    local results = results_of(structure.rebuild(template, leaves))
    return table.unpack(results, 1, results.n)
  end
  local result_template, result_count
  local function traced(inputs)
    local arguments = structure.rebuild(template, inputs)
    local results, gradient = results_of(arguments)
    local outputs
    outputs, result_template, result_count = flatten(results)
    arguments.n = count
    return outputs, gradient_of(arguments, outputs, gradient)
  end
  local outputs = apply(who, traced, leaves)
  return table.unpack(structure.rebuild(result_template, outputs), 1, result_count)
end

local function own_gradient(_, outputs, gradient)
  return function(dys) return gradient(table.unpack(dys, 1, #outputs)) end
end

local custom_spec <const> = {{"f", "callable"}}

---A function like f, which returns its value and a function from upstream to input gradients.
---Shapes: as f takes and gives them; each gradient has its input's shape
---Errors: f is no function; when called, results that are not a value and a function:
---`ipu.custom_gradient(1)`
---@return fun(...): ...
function custom.custom_gradient(...)
  local f = args.check("custom_gradient", custom_spec, ...).f
  return function(...) return call("custom_gradient", f, true, own_gradient, ...) end
end

local op_spec <const> = {{"name", "string"}, {"call", "callable"},
  {"gradient", "callable", optional = true}}

-- gradient(upstream…, arguments…, results…)
local function registered_gradient(gradient)
  return function(arguments, outputs)
    return function(dys)
      local given, n = {}, 0
      local function add(list, count)
        for i = 1, count do given[n + i] = list[i] end
        n = n + count
      end
      add(dys, #outputs)
      add(arguments, arguments.n)
      add(outputs, #outputs)
      return gradient(table.unpack(given, 1, n))
    end
  end
end

-- Modules that ops stand in.
local function op_modules()
  local list, seen = {}, {}
  for name in pairs(core.ops) do
    local module = name:match("^(.-)%.")
    if module and not seen[module] then seen[module], list[#list + 1] = true, module end
  end
  table.sort(list)
  return list, seen
end

-- The table that an op is to stand in: ipu, a module of ops, or one that the script has put there.
local function place_of(ipu, module)
  if not module then return ipu end
  local list, seen = op_modules()
  local place = rawget(ipu, module)
  if seen[module] or structure.is_plain(place) then return place end
  blame.error(string.format("register_op: there is no module '%s' of ops; there are ipu itself and "
    .. "ipu.%s%s", module,
    table.concat(list, ", ipu."), require "ipulua.nearest".hint(module, list)), "value")
end

-- ipu.name or ipu.module.name, and the method.
local function publish(name, f)
  local ipu = modules.public()
  local module, leaf = name:match("^([%a_][%w_]*)%.([%a_][%w_]*)$")
  if not module then leaf = name:match("^[%a_][%w_]*$") end
  if not leaf then
    blame.error("register_op: 'name' must be a name such as swish or nn.swish, got '" .. name
      .. "'", "value")
  end
  local place = place_of(ipu, module)
  if core.ops[name] or ipu.__has(module, leaf) then
    blame.error("register_op: there is an op '" .. name .. "' already", "value")
  end
  if core.has_member(leaf) then
    blame.error(string.format("register_op: every tensor has a member '%s' already, which '%s' "
      .. "would replace; choose another name", leaf,
      name), "value")
  end
  place[leaf] = f
  core.add_method(leaf, f)
end

-- op → {name =, call =, gradient =} as the script gave them
local registered = setmetatable({}, {__mode = "k"})

---The arguments of register_op for the op that it returned; nil of other functions.
---@param op function
---@return {name: string, call: function, gradient: function?}?
function custom.of(op) return registered[op] end

---An op written in Lua: call(arguments…) gives its results. gradient(upstream…, arguments…,
---results…) gives the gradients of the tensors among its arguments. Without gradient the gradients
---of the ops in call are taken.
---Shapes: as call takes and gives them; each gradient has its argument's shape
---Errors: a name that is taken, also by a member of tensors, or no name:
---`ipu.register_op("matmul", print)`, `ipu.register_op("a b", print)`
---Source: custom_ops.precompiled_user_op of Graphcore's TensorFlow 2.6
---@return fun(...): ...
function custom.register_op(...)
  local a = args.check("register_op", op_spec, ...)
  local op = a.call
  if a.gradient then
    local gradient_of = registered_gradient(a.gradient)
    op = function(...) return call(a.name, a.call, false, gradient_of, ...) end
  end
  publish(a.name, op)
  registered[op] = a
  return op
end

local libraries = {} -- opened ones by path

---The ops of a shared object that was built against ipulua_op.h, by name.
---Errors: a file that is not there or has no table of ops, one built for another version:
---`ipu.load_op_library "./nowhere.so"`
---Source: custom_ops.precompiled_user_op of Graphcore's TensorFlow 2.6
---@param path string
---@return table<string, fun(...): ...>
function custom.load_op_library(path)
  if type(path) ~= "string" then
    blame.error("load_op_library: 'path' must be a string, got " .. args.describe(path), "type")
  end
  if not libraries[path] then libraries[path] = plain.mark(core.open_op_library(path)) end
  return libraries[path]
end

-- ------------------------------------------------ functions with one copy of their code

local outlined_spec <const> = {
  {"func", "callable"}, {"unique_sharding", "boolean", false},
  {"keep_input_layouts", "boolean", optional = true},
  {"name", "string", optional = true},
}

---A function like f. The compiler keeps the code of equal operations once, outlined or not.
---Shapes: as func takes and gives them
---Errors: func is no function: `ipu.outlined_function(1)`
---Source: functional_ops.outlined_function of Graphcore's TensorFlow 2.6
---@param ... any func, unique_sharding, keep_input_layouts, name
---@return fun(...): ...
function custom.outlined_function(...)
  local f = args.check("outlined_function", outlined_spec, ...).func
  return function(...)
    if not tracing.is_active() and session_graph.any_deferred{...} then
      return tracing.in_graph(f, ...)
    end
    return f(...)
  end
end

return custom
