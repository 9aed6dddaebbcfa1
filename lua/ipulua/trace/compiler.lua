-- ipu.ipu_compiler: a function becomes one device program, as a value of the session's graph.

local args = require "ipulua.base.args"
local blame = require "ipulua.base.blame"
local core = require "ipulua.core"
local loops = require "ipulua.trace.loops"
local operation = require "ipulua.trace.operation"
local placement = require "ipulua.trace.placement"
local replication = require "ipulua.trace.replication"
local session_graph = require "ipulua.trace.session_graph"
local structure = require "ipulua.base.structure"
local teams = require "ipulua.config.teams"
local tracing = require "ipulua.trace.tracing"
local variables = require "ipulua.trace.variables"

local compiler = {}

-- Arguments must have their full shape.
local function check_input(i, x)
  if core.is_variable(x) then x = x:read_value() end
  if not core.is_tensor(x) then x = core.tensor(x, math.type(x) == "integer" and "int32" or nil) end
  local dtype, shape = core.type_of(x)
  structure.check_known(dtype, shape, "ipu_compiler.compile: input " .. i, "compiled functions")
  return x, dtype, shape
end

-- nil, a value, or a flat list: tensors, then operations.
local function sort_results(results)
  local n = results.n
  if n == 1 and structure.is_plain(results[1]) then
    results, n = results[1], #results[1]
    for key in pairs(results) do
      if math.type(key) ~= "integer" then
        blame.error("ipu_compiler.compile: the computation must return tensors and operations in a "
          .. "flat list, got a table with "
          .. "the name '" .. tostring(key) .. "'", "value")
      end
    end
  end
  structure.check_gaps(results, "ipu_compiler.compile: result", operation.is)
  local tensors, saw_operation = {}, false
  for i = 1, n do
    local x = results[i]
    if operation.is(x) then
      saw_operation = true
    elseif x ~= nil then
      if not core.is_value(x) and type(x) ~= "number" and type(x) ~= "boolean" then
        blame.error(string.format("ipu_compiler.compile: result %d of the computation must be a "
          .. "tensor or an operation, got %s",
          i, args.describe(x)), "value")
      end
      if saw_operation then
        blame.error("ipu_compiler.compile: the computation returned a tensor after an operation; "
          .. "tensors come first", "value")
      end
      tensors[#tensors + 1] = core.is_tensor(x) and x or core.is_value(x) and x:read_value()
        or core.tensor(x, math.type(x) == "integer" and "int32" or nil)
    end
  end
  return tensors
end

local function trace(computation, inputs)
  local symbolic = {}
  for i, x in ipairs(inputs) do
    local dtype, shape
    inputs[i], dtype, shape = check_input(i, x)
    symbolic[i] = {dtype, shape}
  end
  core.trace_begin(true)
  for i, t in ipairs(symbolic) do symbolic[i] = core.trace_argument(t[1], t[2], "input " .. i) end
  local tensors = sort_results(table.pack(computation(table.unpack(symbolic))))
  teams.end_trace()
  local is_empty = #tensors == 0
  if is_empty then tensors[1] = core.tensor(0, "int32") end -- something to fetch
  return core.end_call(inputs, tensors), is_empty
end

local compile_spec <const> = {
  {"computation", "callable"},
  {"inputs", "any", optional = true, of = "tensor or list of tensors",
    says = "the arguments of computation"},
}

---computation(inputs…) as one device program: a list of its tensors, or an operation if it gives
---none.
---Shapes: inputs any; results as computation gives them
---Errors: computation is no function; whatever its ops say, with their line:
---`ipu.ipu_compiler.compile(1)`
---Source: ipu_compiler.compile of Graphcore's TensorFlow 2.6
---@return userdata[]|Operation
function compiler.compile(...)
  local a = args.check("ipu_compiler.compile", compile_spec, ...)
  local inputs = a.inputs == nil and {} or structure.is_plain(a.inputs) and {table.unpack(a.inputs)}
    or {a.inputs}
  loops.check_parameters(a.computation, #inputs, "computation")
  if placement.on_host() then
    blame.error("ipu_compiler.compile: the computation is not placed on an IPU device; call it "
      .. "inside ipu.ipu_scope, or outside "
      .. "of ipu.device(\"cpu\")", "value")
  end
  local results, is_empty, facts
  do
    local _ <close> = tracing.enter_graph()
    local _ <close> = tracing.guard()
    local _ <close> = variables.initialise_at_end()
    local _ <close> = replication.begin()
    local _ <close> = teams.begin_trace()
    results, is_empty = trace(a.computation, inputs)
    facts = tracing.take_facts()
  end
  for _, value in ipairs(results) do session_graph.note_team(value, teams.current()) end
  if facts.pipeline then
    for _, value in ipairs(results) do session_graph.note_pipeline(value, facts.pipeline) end
  end
  if is_empty then return operation.new("compiled function", results) end
  return core.plain(results)
end

return compiler
