-- ipu.func: a Lua function is called once per input signature, with symbolic tensors. Its ops
-- become a program, which later calls run.

local args = require "ipulua.base.args"
local blame = require "ipulua.base.blame"
local class = require "ipulua.base.class"
local config = require "ipulua.config"
local core = require "ipulua.core"
local counted = require "ipulua.base.counted"
local learned = require "ipulua.base.learned"
local replication = require "ipulua.trace.replication"
local structure = require "ipulua.base.structure"
local teams = require "ipulua.config.teams"
local tracing = require "ipulua.trace.tracing"
local variables = require "ipulua.trace.variables"

---The result of ipu.func: called like the function, compiled for each signature.
---@class Function
local Function = class.new("Function")

-- a record of every program since the last reset, in order; collected with its function
local compiled = {}
local fewest_to_sweep <const> = 16 -- programs of one function
local listeners = {}  -- functions that are called at each compilation and execution

local most_programs <const> = 64 -- of one function, unless its maker says otherwise

function Function:init(f, name, max_programs)
  self.f = f
  self.name = name
  self.max_programs = max_programs or most_programs
  self.calls, self.left = 0, {}
  self.programs = {}
  self.order = {}
  self.sweep_at = fewest_to_sweep
  self.depth = 0
end

-- All that a trace depends on: how many arguments there are, their structure and types, and the
-- scopes that it is called in.
local function signature(leaves, template, count)
  local team = teams.current()
  local parts = {count .. structure.key(template), core.scope_key(), learned.key(),
    team and team.key or ""}
  for _, leaf in ipairs(leaves) do
    if core.is_variable(leaf) then
      parts[#parts + 1] = "v" .. core.variable_identity(leaf)
    else
      local dtype, shape = core.type_of(leaf)
      parts[#parts + 1] = structure.type_text(dtype, shape)
    end
  end
  return table.concat(parts, ";")
end

-- A variable of sessions is symbolic outside of traced functions.
local function any_symbolic(leaves)
  for _, leaf in ipairs(leaves) do
    if core.is_symbolic(leaf) or core.is_deferred(leaf) then return true end
  end
  return false
end

-- Call f with symbolic arguments: symbolic results, their template, and which leaves are run-time
-- arguments.
local function call_symbolic(self, leaves, template, count)
  local symbolic, passed = {}, {}
  for i, leaf in ipairs(leaves) do
    if core.is_variable(leaf) then
      symbolic[i] = leaf
    else
      local dtype, shape = core.type_of(leaf)
      symbolic[i] = core.trace_argument(dtype, shape, "argument " .. i)
      passed[#passed + 1] = i
    end
  end
  local given = structure.rebuild(template, symbolic)
  local results = table.pack(self.f(table.unpack(given, 1, count)))
  local result_count = results.n
  results.n = nil
  local outputs, result_template = structure.flatten(results)
  return outputs, {results = result_template, passed = passed, result_count = result_count}
end

local report, load_listeners -- see func.attend_by

local function notify(event, ...)
  if load_listeners then
    local load <const> = load_listeners
    load_listeners = nil
    report = load()
  end
  for _, f in ipairs(listeners) do f(event, ...) end
end

-- former: facts about replicas from a trace that has to be made again.
local function trace(self, leaves, template, count, former)
  local _ <close> = tracing.guard()
  local found
  do
    local _ <close> = variables.initialise_at_end()
    tracing.begin_root()
    local _ <close> = replication.begin(former)
    local _ <close> = teams.begin_trace()
    local outputs, traced = call_symbolic(self, leaves, template, count)
    teams.end_trace()
    found = replication.traced()
    if former or not replication.misled() then
      traced.replication, traced.team = found, teams.current()
      local facts = tracing.take_facts()
      traced.pipeline = facts.pipeline
      notify("lower", self)
      traced.program = tracing.end_root(outputs, self.name)
      return traced
    end
    variables.undo_pending()
    tracing.give_up_root()
  end
  return trace(self, leaves, template, count, found)
end

local weak <const> = {__mode = "v"}

local func = {Function = Function}

local forgotten <const> = 256 -- programs whose functions were collected, which a report still shows

---Keeps the newest records of programs whose functions were collected: this many.
---@package
function func.prune(most)
  local kept, gone = {}, 0
  for i = #compiled, 1, -1 do
    local record = compiled[i]
    if not record.entry[1] then gone = gone + 1 end
    if record.entry[1] or gone <= most then kept[#kept + 1] = record end
  end
  for i = 1, #kept // 2 do kept[i], kept[#kept + 1 - i] = kept[#kept + 1 - i], kept[i] end
  compiled = kept
end

---When the first program is made, load() loads the listener. The listener says the costs of
---programs, and stands in for programs that aren't run. It is {pretend = , give_zeros = },
---functions of the entry and its arguments.
---@param load fun(): table
function func.attend_by(load) load_listeners = load end

---Notes a compiled program, {program, name, key}, and gives it back.
function func.register(entry)
  replication.settle(entry)
  entry.record = {name = entry.name, executions = 0, facts = entry.program:describe(),
    shards = entry.shards,
    pipeline = entry.pipeline, entry = setmetatable({entry}, weak)}
  compiled[#compiled + 1] = entry.record
  if #compiled % forgotten == 0 then func.prune(forgotten) end
  require "ipulua.trace.offloading".warn_unshared(entry.name, entry.record.facts)
  notify("compile", entry)
  return entry
end

local function begin(entry, arguments)
  if not entry.replicas then replication.refuse(entry) end
  config.attached_device(entry.device)
  entry.record.executions = entry.record.executions + 1
  notify("execute", entry, arguments)
end

---Runs a registered program on a list of tensors.
---@return userdata[]
function func.execute(entry, arguments)
  begin(entry, arguments)
  if core.is_estimating() then
    tracing.note_pretended()
    return report.pretend(entry, arguments)
  end
  if config.only_compiles() then
    return report.give_zeros(entry, arguments)
  end
  return entry.program:run(arguments)
end

local function passed_arguments(entry, leaves)
  local arguments = {}
  for i, at in ipairs(entry.passed) do arguments[i] = leaves[at] end
  return arguments
end

local function results_of(entry, outputs)
  local results = structure.rebuild(entry.results, outputs)
  return table.unpack(results, 1, entry.result_count)
end

local function run(entry, leaves)
  return results_of(entry, func.execute(entry, passed_arguments(entry, leaves)))
end

---Begins a run of a registered program on a thread of its own. finish(outputs) returns the result
---of waiting for it.
---@return Job
function func.start(entry, arguments, finish)
  if core.is_estimating() or config.only_compiles() then
    return require "ipulua.trace.jobs".ended(finish, func.execute(entry, arguments))
  end
  begin(entry, arguments)
  return require "ipulua.trace.jobs".Job(core.start_job(entry.program, arguments), finish)
end

---@package
---Begins a run on a thread of its own.
---@return Job
function Function:start(...)
  local entry, leaves = self:concrete(...)
  return func.start(entry, passed_arguments(entry, leaves), function(outputs)
    return results_of(entry, outputs)
  end)
end

-- The signature of a program, without its arguments: {dtype =, shape =, is_variable =} of each, and
-- weak references to variables.
local function types_of(leaves)
  local list, held = {}, setmetatable({}, weak)
  for i, leaf in ipairs(leaves) do
    local is_variable = core.is_variable(leaf)
    local dtype, shape = core.type_of(leaf)
    list[i] = {dtype = dtype, shape = shape, is_variable = is_variable}
    if is_variable then held[i] = leaf end
  end
  return list, held
end

---A program's arguments that are variables, by their numbers. nil if one of them was collected, so
---that no call can ask for the program.
---@package
function func.variables_of(entry)
  for i, leaf in ipairs(entry.leaf_types) do
    if leaf.is_variable and not entry.held[i] then return nil end
  end
  return entry.held
end

-- Programs for collected variables are removed. They are searched for each time there are twice as
-- many programs as were left.
local function sweep(self)
  if #self.order < self.sweep_at then return end
  local kept = {}
  for _, entry in ipairs(self.order) do
    if func.variables_of(entry) then
      kept[#kept + 1] = entry
      entry.position = #kept
    else
      self.programs[entry.key] = nil
    end
  end
  self.order, self.sweep_at = kept, math.max(fewest_to_sweep, 2 * #kept)
end

-- Notes what a program drew. A new program of its signature continues its random numbers.
local function note_draws(left, entry)
  local counters = core.program_counters(entry.program)
  if #counters > 0 then left[entry.key] = {place = entry.place, counters = counters} end
end

---@package
---What its programs drew, by signature.
function Function:draws()
  local list = {}
  for key, each in pairs(self.left) do list[key] = each end
  for _, entry in ipairs(self.order) do note_draws(list, entry) end
  return list
end

---@package
---Programs that are traced from now on continue these random numbers, of another Function.
function Function:continue_draws(draws) self.left = draws end

-- If a function has too many programs, drops the one that was called longest ago.
local function leave_oldest(self)
  if #self.order < self.max_programs then return end
  local oldest = self.order[1]
  for _, entry in ipairs(self.order) do
    if entry.called < oldest.called then oldest = entry end
  end
  note_draws(self.left, oldest)
  self.programs[oldest.key] = nil
  table.remove(self.order, oldest.position)
  for i = oldest.position, #self.order do self.order[i].position = i end
end

local place_meta = {__close = function(place) core.set_random_place(table.unpack(place)) end}

-- A new program, which draws as the one did that was left.
local function traced_anew(self, key, ...)
  local now, left = {core.random_place()}, self.left[key]
  if not left then
    local traced = trace(self, ...)
    traced.place = now
    return traced
  end
  local _ <close> = setmetatable(now, place_meta)
  core.set_random_place(table.unpack(left.place))
  local traced = trace(self, ...)
  core.set_program_counters(traced.program, left.counters)
  traced.place, self.left[key] = left.place, nil
  return traced
end

local compilation_meta = {__close = function(self) notify("traced", self.named) end}

---Tells the listeners that a compilation begins; to be closed when it has ended, by an error too.
---@param named {name: string}
function func.compiling(named)
  notify("trace", named)
  return setmetatable({named = named}, compilation_meta)
end

-- The compiled form for arguments taken apart, traced now if need be.
local function concrete(self, leaves, template, count)
  local key = signature(leaves, template, count)
  local entry = self.programs[key]
  if not entry or entry.stale then
    local _ <close> = func.compiling(self)
    local traced = traced_anew(self, key, leaves, template, count)
    traced.key, traced.name = key, self.name
    traced.fn, traced.template, traced.count = self, template, count
    traced.leaf_types, traced.held = types_of(leaves)
    if not entry then
      sweep(self)
      leave_oldest(self)
    end
    self.order[entry and entry.position or #self.order + 1] = traced
    traced.position = entry and entry.position or #self.order
    entry = func.register(traced)
    self.programs[key] = entry
  end
  self.calls = self.calls + 1
  entry.called = self.calls
  return entry, leaves
end

-- Arguments taken apart: leaves, template, how many there were.
local function taken_apart(...)
  local given = table.pack(...)
  local count = given.n
  given.n = nil
  local leaves, template = structure.flatten(given)
  return leaves, template, count
end

---@package
---The compiled form for these arguments, traced now if need be; and the arguments' tensors.
function Function:concrete(...) return concrete(self, taken_apart(...)) end

local function restore_estimating(former)
  return setmetatable({}, {__close = function() core.set_estimating(former) end})
end

---@package
---The traced form for these arguments, which can be priced but not run; it is not remembered.
function Function:outline(...)
  local leaves, template, count = taken_apart(...)
  local _ <close> = restore_estimating(core.set_estimating(true))
  local traced = trace(self, leaves, template, count)
  traced.name, traced.leaves = self.name, leaves
  traced.device = replication.device_of(traced, traced.program:describe()) or 0
  return traced
end

local deepest <const> = 100 -- calls of itself, which only end when a number or a table says so

local inlined_meta = {__close = function(self) self.fn.depth = self.fn.depth - 1 end}

-- Called while another function, or itself, is traced: a part of that.
local function inline(self, ...)
  if self.depth >= deepest then
    blame.error(string.format("'%s' calls itself without end while it is traced; write repetition "
      .. "with ipu.loops", self.name),
      "runtime")
  end
  self.depth = self.depth + 1
  local _ <close> = setmetatable({fn = self}, inlined_meta)
  return self.f(...)
end

function Function:__call(...)
  if tracing.is_active() then return inline(self, ...) end
  local leaves, template, count = taken_apart(...)
  if any_symbolic(leaves) then return tracing.in_graph(self.f, ...) end
  return run(concrete(self, leaves, template, count))
end

function Function:__tostring()
  return string.format("<Function %s, traced for %s>", self.name, counted(#self.order, "signature"))
end

local leaf_meta <const> = {__tostring = function(leaf)
  return string.format("%s[%s]", leaf.dtype, table.concat(leaf.shape, ", "))
end}

local function show(argument)
  if argument == nil then return "nil" end
  if not args.is_plain(argument) then return (tostring(core.plain{argument}):sub(2, -2)) end
  local copy = {}
  for key, value in next, argument do copy[key] = value end
  return tostring(core.plain(copy))
end

-- The arguments a program was traced for, as a call would have them:
-- `(float32[2, 3], {training = true})`.
local function signature_text(entry)
  local leaves = {}
  for i, leaf in ipairs(entry.leaf_types) do
    leaves[i] = setmetatable({dtype = leaf.dtype, shape = leaf.shape}, leaf_meta)
  end
  local given = structure.rebuild(entry.template, leaves)
  for i = 1, entry.count do given[i] = show(given[i]) end
  return "(" .. table.concat(given, ", ", 1, entry.count) .. ")"
end

---The signatures traced so far, a text each: dtypes and shapes of tensors, values of all else.
---@return string[]
function Function:signatures()
  local list = {}
  for i, entry in ipairs(self.order) do list[i] = signature_text(entry) end
  return core.plain(list)
end

-- The function of Lua that runs when a function or an object is called.
local function body_of(f)
  return core.entered(type(f) == "function" and f or getmetatable(f).__call)
end

---How many values a function, Function or object declares that it takes, and whether it takes more.
---@param f any
---@return integer
---@return boolean
---@package
function func.parameters(f)
  if func.is_function(f) then f = f.f end
  local info = debug.getinfo(body_of(f), "u")
  local itself = type(f) == "function" and 0 or math.min(info.nparams, 1) -- self
  return info.nparams - itself, info.isvararg
end

-- The name of a program without a given one: the name of an object or library function, else the
-- line where the function begins.
local function name_of(f)
  if type(f) == "table" then
    local name = rawget(f, "name")
    if type(name) == "string" then return name end
    if blame.is_own(debug.getinfo(body_of(f), "S").source) then
      return tostring(getmetatable(f).__name)
    end
  end
  local info = debug.getinfo(body_of(f), "S")
  local is_c = info.what == "C"
  local public = (is_c or blame.is_own(info.source)) and require "ipulua.base.public_names".of(f)
  return public or is_c and "[C]" or info.short_src:match("[^/]*$") .. ":" .. info.linedefined
end

local spec <const> = {{"f", "callable"}, {"name", "string", optional = true},
  {"max_programs", "integer", most_programs, range = "[1, inf)"}}

---Traced once per signature: dtypes and shapes of tensors, values of numbers, strings, booleans.
---The result is called like f. It keeps max_programs programs. Beyond that it drops the one that
---was called longest ago.
---Shapes: as f takes and gives them; extents are fixed for each signature
---Errors: f is no function; while f is traced whatever its ops say, with f's line: `ipu.func(1)`,
---`ipu.func(function(a) return ipu.matmul(a, a) end)(x)`
---Source: tf.function(jit_compile=True) of TensorFlow 2.6
---@param f function
---@param options? {name: string, max_programs: integer}
---@return Function
function func.func(...)
  local a = args.check("func", spec, ...)
  local f = a.f
  if getmetatable(f) == Function then return f end
  return Function(f, a.name or name_of(f), a.max_programs)
end

function func.is_function(f) return type(f) == "table" and getmetatable(f) == Function end

---The facts of the programs compiled since the last reset: {name, executions, facts}; entry[1] is
---nil if the function was collected.
---@return table[]
function func.compiled() return compiled end

---Compile functions anew at their next call, since their device or options have changed.
function func.recompile()
  for _, record in ipairs(compiled) do
    if record.entry[1] then record.entry[1].stale = true end
  end
end

---Forget them (configuration reset).
function func.reset()
  func.recompile()
  compiled = {}
end

---f(event, entry) is called with "compile" and "execute", f(event, {name}) with "trace", "lower"
---and "traced" around the former.
function func.listen(f) listeners[#listeners + 1] = f end

---Text of the programs compiled for a function.
function func.check_traced(f, who)
  if not func.is_function(f) then
    blame.error(who .. ": the function must be compiled: wrap it in ipu.func(...)", "value")
  end
end

return func
