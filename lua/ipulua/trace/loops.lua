-- Loops and branches on the device. Their bodies are traced once. They carry their arguments, and
-- every variable that the body changes.

local args = require "ipulua.base.args"
local blame = require "ipulua.base.blame"
local class = require "ipulua.base.class"
local core = require "ipulua.core"
local counted = require "ipulua.base.counted"
local func = require "ipulua.trace.func"
local operation = require "ipulua.trace.operation"
local session_graph = require "ipulua.trace.session_graph"
local structure = require "ipulua.base.structure"
local tracing = require "ipulua.trace.tracing"

local loops = {}

-- A carried value as a tensor: Lua integers are int32, other numbers float32.
local function carried_tensor(value, what)
  value = structure.number_tensor(value)
  if core.is_variable(value) then return value:read_value() end
  if core.is_tensor(value) then return value end
  return core.tensor(value, nil, what)
end

local function carried_list(inputs, who)
  if inputs == nil then return {} end
  if not structure.is_plain(inputs) then inputs = {inputs} end
  structure.check_gaps(inputs, who .. ": carried value")
  local list = {}
  for i, value in ipairs(inputs) do
    list[i] = carried_tensor(value, string.format("%s: carried value %d", who, i))
  end
  return list
end

local function count_tensor(n, who)
  if core.is_variable(n) then n = n:read_value() end
  if core.is_tensor(n) then
    local dtype, shape = core.type_of(n)
    if dtype ~= "int32" or #shape > 0 then
      blame.error(string.format("%s: the count must be an int32 scalar, got %s", who,
        structure.type_text(dtype, shape)), "type")
    end
    return n
  end
  if math.type(n) ~= "integer" then
    n = math.tointeger(n)
      or blame.error(who .. ": the count must be an integer, got " .. args.describe(n), "type")
  end
  if n < 0 then blame.error(who .. ": the count must not be negative, got " .. n, "value") end
  return core.tensor(n, "int32")
end

---How many values f takes: a number, or nil when it takes any.
---@return integer?
---@package
function loops.parameter_count(f)
  local count, takes_more = func.parameters(f)
  return not takes_more and count or nil
end

---An error when f declares another number of parameters than it is given values.
---@package
function loops.check_parameters(f, given, role)
  local declared = loops.parameter_count(f)
  if declared and declared ~= given then
    blame.error(string.format("the %s declares %s, but it is given %s", role,
      counted(declared, "parameter"),
      counted(given, "value")), "type")
  end
end

local function symbolic_like(tensors, who)
  local list = {}
  for i, t in ipairs(tensors) do
    local dtype, shape = core.type_of(t)
    structure.check_known(dtype, shape, who .. ": carried value " .. i, "loops")
    list[i] = core.trace_argument(dtype, shape, "carried " .. i)
  end
  return list
end

-- Results of a body: tensors first, then operations; as many tensors as carried values, of the same
-- types.
local function check_results(who, carried, results)
  local list, n = {}, results.n
  if n == 1 and structure.is_plain(results[1]) then
    results, n = results[1], #results[1]
  end
  structure.check_gaps(results, who .. ": the body's result", operation.is)
  local saw_operation = false
  for i = 1, n do
    local is_operation = operation.is(results[i])
    if results[i] ~= nil and not is_operation then
      if saw_operation then
        blame.error(who .. ": the body returned a tensor after an operation; tensors come first",
          "value")
      end
      list[#list + 1] = carried_tensor(results[i],
        string.format("%s: value %d that the body returned", who, #list + 1))
    end
    saw_operation = saw_operation or is_operation
  end
  if #list ~= #carried then
    blame.error(string.format("%s: the body returned %s, but %s carried", who,
      counted(#list, "value"),
      counted(#carried, "value is", "values are")), "type")
  end
  for i, value in ipairs(list) do
    local want_dtype, want = core.type_of(carried[i])
    local dtype, shape = core.type_of(value)
    local a, b = structure.type_text(want_dtype, want), structure.type_text(dtype, shape)
    if a ~= b then
      blame.error(string.format("%s: carried value %d is %s, but the body returned %s", who, i, a,
        b), "type")
    end
  end
  return list
end

local function body_arguments(who, body, carried, infeed)
  local given = {table.unpack(carried)}
  local n = #given
  if infeed then
    if not (class.of(infeed) and class.of(infeed).feeds_loops) then
      blame.error(who .. ": 'infeed_queue' must be an IPUInfeedQueue, got "
        .. args.describe(infeed), "type")
    end
    local element = table.pack(infeed:dequeue_in_loop(who))
    for i = 1, element.n do given[n + i] = element[i] end
    n = n + element.n
  end
  loops.check_parameters(body, n, who .. " body")
  return given, n
end

local function unpack_results(list)
  return table.unpack(list)
end

local of_sessions <const> = {} -- raised by loops that are a part of the sessions' graph

-- Outside a traced function a loop is a program of its own. If it reads values of the sessions'
-- graph, in_graph(a) makes it a part of that graph instead.
local function at_once(f, in_graph, a, ...)
  local loop = func.func(function(...)
    local results = table.pack(pcall(f, ...))
    if core.trace_meets_graph() then error(of_sessions, 0) end
    if not results[1] then error(results[2], 0) end
    return table.unpack(results, 2, results.n)
  end, {name = "loop"})
  local traced, problem = pcall(loop.concrete, loop, ...)
  if problem == of_sessions then return unpack_results(tracing.in_graph(in_graph, a)) end
  if not traced then error(problem, 0) end
  return loop(...)
end

local repeat_spec <const> = {
  {"n", "any", one = true, of = "integer ≥ 0 or int32 tensor []", says = "iterations"},
  {"body", "callable"},
  {"inputs", "any", optional = true, of = "tensor or list of tensors",
    says = "values carried from iteration to iteration"},
  {"infeed_queue", "any", optional = true, of = "IPUInfeedQueue",
    says = "an element each iteration"},
  {"use_while_v1", "boolean", true, says = "changes nothing"},
}

local left_loop = {__close = function(self) core.here().loop = self.former end}

local function enter_loop(kind, count)
  local left = setmetatable({former = core.here().loop}, left_loop)
  core.here().loop = {kind = kind, count = count, root = tracing.root()}
  return left
end

---The innermost loop that is being traced: {kind = "repeat" | "while", count = integer?}.
---@return table?
---@package
function loops.innermost()
  local loop = core.here().loop
  return loop and loop.root == tracing.root() and loop or nil
end

local function trace_repeat(a)
  local count, carried = count_tensor(a.n, "repeat_n"), carried_list(a.inputs, "repeat_n")
  local _ <close> = tracing.guard()
  local _ <close> = enter_loop("repeat", a.static or math.tointeger(a.n))
  core.trace_begin(true)
  core.trace_argument("int32", {}, "iteration")
  local given, n = body_arguments("repeat_n", a.body, symbolic_like(carried, "repeat_n"),
    a.infeed_queue)
  local results = check_results("repeat_n", carried, table.pack(a.body(table.unpack(given, 1, n))))
  return core.end_repeat(count, carried, results)
end

-- A tape that records sees each iteration.
local function repeat_recorded(a)
  local carried = carried_list(a.inputs, "repeat_n")
  loops.check_parameters(a.body, #carried, "repeat_n body")
  for _ = 1, count_tensor(a.n, "repeat_n"):item() do
    carried = check_results("repeat_n", carried, table.pack(a.body(table.unpack(carried))))
  end
  return carried
end

---body(carried…, infeed element…) → new carried values, n times; n is a number or an int32 tensor.
---Shapes: carried values keep their shapes; n [] if it is a tensor
---Errors: a negative count, a body that takes or returns other values than are carried:
---`ipu.loops.repeat_n(-1, function() end)`, `ipu.loops.repeat_n(3, function() end, {0})`
---Source: loops.repeat of Graphcore's TensorFlow 2.6
---@return any the carried values
function loops.repeat_n(...)
  local a = args.check("repeat_n", repeat_spec, ...)
  if tracing.is_active() then return unpack_results(trace_repeat(a)) end
  local carried = carried_list(a.inputs, "repeat_n")
  if core.is_deferred(a.n) or session_graph.any_deferred(carried) then
    return unpack_results(tracing.in_graph(trace_repeat, a))
  end
  if core.tape_records() and not a.infeed_queue then return unpack_results(repeat_recorded(a)) end
  return at_once(function(count, ...)
    return unpack_results(trace_repeat{n = count, static = math.tointeger(a.n), body = a.body,
      inputs = {...},
      infeed_queue = a.infeed_queue})
  end, trace_repeat, a, count_tensor(a.n, "repeat_n"), table.unpack(carried))
end

local while_spec <const> = {
  {"condition", "callable"}, {"body", "callable"},
  {"inputs", "any", optional = true, of = "tensor or list of tensors",
    says = "values carried from iteration to iteration"},
  {"infeed_queue", "any", optional = true, of = "IPUInfeedQueue",
    says = "an element each iteration"},
  {"maximum_iterations", {"integer", "tensor"}, optional = true, says = "no bound by default"},
  {"use_while_v1", "boolean", true, says = "changes nothing"},
}

local function check_test(test)
  local dtype, shape = core.type_of(test)
  if dtype ~= "bool" or #shape > 0 then
    blame.error("while_loop: the condition must give a bool scalar, got "
      .. (dtype and structure.type_text(dtype, shape) or args.describe(test)), "type")
  end
  return test
end

local function while_recorded(a)
  local carried, limit = carried_list(a.inputs, "while_loop"), a.maximum_iterations
  if limit then limit = count_tensor(limit, "while_loop"):item() end
  loops.check_parameters(a.condition, #carried, "while_loop condition")
  loops.check_parameters(a.body, #carried, "while_loop body")
  local i = 0
  while (not limit or i < limit) and check_test(a.condition(table.unpack(carried))):item() do
    carried = check_results("while_loop", carried, table.pack(a.body(table.unpack(carried))))
    i = i + 1
  end
  return carried
end

local trace_cond, trace_while
local no_limit <const> = -2 ^ 31 | 0 -- CONTROL_NO_LIMIT of src/graph/control.h

-- A condition that assigns variables is a part of the iterations: its test is carried from one to
-- the next. It runs once more than the body, but not after the last of maximum_iterations.
local function trace_while_assigning(a, carried, limit)
  local ops, bounded = core.ops, a.maximum_iterations ~= nil
  local function test(i, values)
    local function ask() return check_test(a.condition(table.unpack(values))) end
    if not bounded then return ask() end
    return trace_cond(core.trace_value(ops.less(i, limit)), ask,
      function() return core.tensor(false, "bool") end)
  end
  local zero = core.tensor(0, "int32")
  local results = trace_while{
    condition = function(goes_on, ...) return goes_on end, -- luacheck: ignore 212
    body = function(_, i, ...)
      loops.check_parameters(a.body, select("#", ...), "while_loop body")
      local values, next_i = check_results("while_loop", carried, table.pack(a.body(...))), i + 1
      return test(next_i, values), next_i, table.unpack(values)
    end,
    inputs = {test(zero, carried), zero, table.unpack(carried)}, infeed_queue = a.infeed_queue,
  }
  return core.plain(table.move(results, 3, #results, 1, {}))
end

function trace_while(a)
  local carried = carried_list(a.inputs, "while_loop")
  local limit = a.maximum_iterations and count_tensor(a.maximum_iterations, "while_loop")
    or core.tensor(no_limit, "int32")
  local _ <close> = tracing.guard()
  local _ <close> = enter_loop("while")
  core.trace_begin(true)
  local given = symbolic_like(carried, "while_loop")
  loops.check_parameters(a.condition, #given, "while_loop condition")
  local test = check_test(a.condition(table.unpack(given)))
  if core.trace_writes() then
    core.trace_give_up(core.trace_depth() - 1)
    return trace_while_assigning(a, carried, limit)
  end
  local condition = core.suspend{test}
  core.trace_begin(true)
  local values, n = body_arguments("while_loop", a.body, symbolic_like(carried, "while_loop"),
    a.infeed_queue)
  local results = check_results("while_loop", carried,
    table.pack(a.body(table.unpack(values, 1, n))))
  local body = core.suspend(results)
  return core.end_while(condition, limit, carried, body)
end

---body while condition(carried…) holds; the condition never sees the infeed element.
---Shapes: carried values keep their shapes; condition gives a bool scalar []
---Errors: a body that returns other values than it is given, a condition that gives no bool scalar:
---`ipu.while_loop(function(i) return i end, function(i) return i end, {ipu.tensor(0)})`
---Source: loops.while_loop of Graphcore's TensorFlow 2.6
---@return any the carried values
function loops.while_loop(...)
  local a = args.check("while_loop", while_spec, ...)
  if tracing.is_active() then return unpack_results(trace_while(a)) end
  if session_graph.any_deferred(carried_list(a.inputs, "while_loop")) then
    return unpack_results(tracing.in_graph(trace_while, a))
  end
  if core.tape_records() and not a.infeed_queue then return unpack_results(while_recorded(a)) end
  return at_once(function(...)
    return unpack_results(trace_while{condition = a.condition, body = a.body, inputs = {...},
      infeed_queue = a.infeed_queue,
      maximum_iterations = a.maximum_iterations})
  end, trace_while, a, table.unpack(carried_list(a.inputs, "while_loop")))
end

-- In a traced function the loop's body runs once, between the iterator's two calls.
local function traced_range(n)
  local count = count_tensor(n, "range")
  local depth, state, inside = core.trace_depth(), "before", nil
  local where = core.where()
  local function step()
    if state == "before" then
      state = "inside"
      inside = enter_loop("repeat", math.tointeger(n))
      core.trace_begin(true)
      return core.trace_argument("int32", {}, "iteration")
    end
    state = "after"
    if core.trace_depth() ~= depth + 1 then
      blame.error("ipu.range: a loop inside it is still open", "runtime")
    end
    core.end_repeat(count, {}, {})
    left_loop.__close(inside)
    return nil
  end
  local closing = setmetatable({}, {__close = function(_, err)
    if state ~= "inside" then return end
    left_loop.__close(inside)
    core.trace_give_up(depth)
    if err == nil then
      blame.error("ipu.range: a loop on the device can't be left by break or return; use "
        .. "ipu.while_loop", "runtime", where)
    end
  end})
  return step, nil, nil, closing
end

---`for i in ipu.range(n) do … end`: on the device inside a traced function, an ordinary loop
---outside.
---Shapes: i is an int32 scalar [] inside a traced function
---Errors: a count that is no integer; leaving a loop on the device by break: `ipu.range(1.5)`
---Source: for _ in tf.range(n) of TensorFlow 2.6
---@param n integer|userdata
---@return fun(): integer|userdata
function loops.range(n)
  if tracing.is_active() then return traced_range(n) end
  if core.is_tensor(n) or core.is_variable(n) then n = n:item() end
  local count = math.tointeger(n)
    or blame.error("range: the count must be an integer, got " .. args.describe(n), "type")
  local i = -1
  return function()
    i = i + 1
    if i < count then return i end
    return nil
  end
end

-- A branch's results in words: types of tensors; numbers are called numbers.
local function results_text(results, count)
  local parts = {}
  for i = 1, count do
    local value = results[i]
    if core.is_tensor(value) or core.is_variable(value) then
      parts[i] = structure.type_text(core.type_of(value))
    elseif type(value) == "table" then parts[i] = "a table"
    else parts[i] = args.describe(value) end
  end
  return count == 0 and "nothing" or table.concat(parts, ", ")
end

local function branch(f, role)
  core.trace_begin(true)
  loops.check_parameters(f, 0, role)
  local results = table.pack(f())
  local count = results.n
  results.n = nil
  local leaves, template = structure.flatten(results)
  local types = {}
  for i, leaf in ipairs(leaves) do
    local dtype, shape = core.type_of(leaf)
    types[i] = structure.type_text(dtype, shape)
  end
  types.text = results_text(results, count)
  return core.suspend(leaves), leaves, template, count, types
end

-- If the results look alike, the difference is inside of tables.
local function refuse_branches(yes, no)
  local a, b = yes.text, no.text
  if a == b then a, b = table.concat(yes, ", "), table.concat(no, ", ") end
  local numbers = (a .. b):find("integer (", 1, true) or (a .. b):find("number (", 1, true)
  blame.error(string.format("cond: the branches return different values: %s and %s%s", a, b,
    numbers and "; ipu.tensor(…) makes a tensor of a number" or ""), "type")
end

function trace_cond(pred, yes_fn, no_fn)
  local _ <close> = tracing.guard()
  local yes, leaves, template, count, yes_types = branch(yes_fn, "true branch")
  local no, _, no_template, _, no_types = branch(no_fn, "false branch")
  if structure.key(template) ~= structure.key(no_template)
    or table.concat(yes_types, ", ") ~= table.concat(no_types, ", ") then
    refuse_branches(yes_types, no_types)
  end
  local results = core.end_cond(pred, yes, no, #leaves)
  return table.unpack(structure.rebuild(template, results), 1, count)
end

local function check_pred(dtype, shape)
  if dtype ~= "bool" or #shape > 0 then
    blame.error("cond: 'pred' must be a bool scalar, got "
      .. structure.type_text(dtype, shape), "type")
  end
end

local cond_spec <const> = {{"pred", "any", one = true, of = "bool tensor [] or boolean"},
  {"true_fn", "callable"}, {"false_fn", "callable"}}

---true_fn() or false_fn(), chosen by a bool scalar; both are traced when pred is symbolic.
---Shapes: pred []; both branches give the same dtypes and shapes
---Errors: a pred that is no bool scalar, branches whose results differ: `ipu.cond(x, print, print)`
---@return any what the branch gives
function loops.cond(...)
  local a = args.check("cond", cond_spec, ...)
  local pred = a.pred
  if core.is_variable(pred) then pred = pred:read_value() end
  if core.is_tensor(pred) then check_pred(core.type_of(pred)) end
  if core.is_symbolic(pred) then
    if tracing.is_active() then return trace_cond(pred, a.true_fn, a.false_fn) end
    return tracing.in_graph(trace_cond, pred, a.true_fn, a.false_fn)
  end
  if core.is_tensor(pred) then
    pred = pred:item()
  elseif type(pred) ~= "boolean" then
    blame.error("cond: 'pred' must be a bool scalar, got " .. args.describe(pred), "type")
  end
  if pred then return a.true_fn() end
  return a.false_fn()
end

return loops
