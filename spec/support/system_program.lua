-- Runs a conformance case of kind "program": variables, queues and programs from tables, then its
-- steps in order. `kinds` builds a program of each kind, `ops` has the operations, `steps` the
-- steps.

local config = require "ipulua.config"
local ipu = require "ipulua"
local system = require "spec.support.system_values"

local runner = {}

-- ------------------------------------------------ operations

local ops = {}

for _, name in ipairs {"add", "sub", "mul", "div", "neg", "tanh", "square", "sigmoid",
  "stop_gradient"} do
  ops[name] = function(_, ...) return ipu[name](...) end
end
function ops.relu(_, x) return ipu.nn.relu(x) end
function ops.softmax(_, x) return ipu.nn.softmax(x, {axis = -1}) end
function ops.addc(a, x) return x + a.c end
function ops.mulc(a, x) return x * a.c end
function ops.matmul(a, x, y) return ipu.matmul(x, y, {transpose_b = a.transpose_b or false}) end
function ops.sum(a, x) return ipu.reduce_sum(x, a.axis and {axis = a.axis}) end
function ops.mean(a, x) return ipu.reduce_mean(x, a.axis and {axis = a.axis}) end
function ops.transpose(a, x)
  local axes = a.perm or a.axes
  if axes then return ipu.transpose(x, axes) end
  return ipu.transpose(x)
end
function ops.reshape(a, x) return ipu.reshape(x, a.shape) end
function ops.broadcast(a, x) return ipu.broadcast_to(x, a.shape) end
function ops.concat(a, ...) return ipu.concat({...}, a.axis or 0) end
function ops.slice(a, x) return ipu.slice(x, a.begin, a.size) end
function ops.gather(a, x, indices) return ipu.gather(x, indices, {axis = a.axis or 0}) end
function ops.cast(a, x) return ipu.cast(x, system.dtype(a.to)) end
function ops.const(a) return system.tensor(a.fill, a.shape or {}, a.dtype) end
function ops.conv2d(a, x, kernel)
  return ipu.nn.conv2d(x, kernel,
    {strides = a.stride or 1, padding = (a.padding or "VALID"):upper()})
end
function ops.mse(_, x, y) return ipu.reduce_mean(ipu.square(x - y)) end
function ops.xent(_, logits, labels)
  return ipu.reduce_mean(ipu.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))
end
ops["and"] = function(_, x, y) return ipu.logical_and(x, y) end
function ops.cross_replica_sum(a, x)
  return ipu.cross_replica_sum(x, {replica_group_size = a.group})
end
function ops.cross_replica_mean(a, x)
  return ipu.cross_replica_mean(x, {replica_group_size = a.group})
end
function ops.all_gather(_, x) return ipu.all_gather(x) end
function ops.replication_index() return ipu.replication_index() end
function ops.replica_slice(_, x)
  return ipu.gather(x, ipu.reshape(ipu.replication_index(), {1}), {axis = 0})
end

local function first_element(x)
  if x.rank == 0 then return x end
  return ipu.reshape(x, {-1})[1]
end

function ops.select_gt(a, x)
  return ipu.cond(ipu.greater(first_element(x), a.c), function()
    return ipu.constant(a.yes, {dtype = x.dtype})
  end,
    function() return ipu.constant(a.no, {dtype = x.dtype}) end)
end

-- ------------------------------------------------ optimizers

local maps <const> = {
  clip = function(m) return function(g) return ipu.clip_by_value(g, m.lo, m.hi) end end,
  decay = function(m) return function(g, v) return g + v * m.c end end,
  square = function() return function(g) return ipu.square(g) end end,
  scale = function(m) return function(g) return g * m.c end end,
}

local rules <const> = {
  sgd = function(o) return ipu.train.GradientDescentOptimizer(o.lr) end,
  momentum = function(o)
    return ipu.train.MomentumOptimizer(o.lr, o.momentum or 0.9,
      {use_nesterov = o.nesterov or false})
  end,
  adam = function(o)
    return ipu.train.AdamOptimizer(o.lr,
      {beta1 = o.b1 or 0.9, beta2 = o.b2 or 0.999, epsilon = o.eps or 1e-8})
  end,
  rmsprop = function(o) return ipu.train.RMSPropOptimizer(o.lr, {decay = o.decay or 0.9}) end,
}

-- An optimizer that looks at the gradients it is to apply.
local function observing(at, opt, o)
  local Observer = ipu.train.Optimizer:extend("Observer")
  -- luacheck: ignore 212
  function Observer:compute_gradients(...) return opt:compute_gradients(...) end
  function Observer:apply_gradients(given, options) -- luacheck: ignore 212
    local found, changed = {}, {}
    for i, pair in ipairs(given) do
      local g, v = pair[1], pair[2]
      found[i] = g
      if o.grad_add_var then g = g + at.variables[o.grad_add_var] end
      if g.dtype == v.dtype then changed[#changed + 1] = {g, v}
      -- plain descent, in the gradient's dtype
      else v:assign(ipu.cast(ipu.cast(v, g.dtype) - g * o.lr, v.dtype)) end
    end
    if o.enqueue_gradients then at:outfeed(o.enqueue_gradients):enqueue(found) end
    if #changed > 0 then return opt:apply_gradients(changed, options) end
  end
  return Observer(0.0)
end

local function accumulation_options(ga)
  local dtype = ga.dtype and system.dtype(ga.dtype)
  return {num_mini_batches = ga.count, reduction_method = ga.reduction,
    dtype = dtype and function() return dtype end}
end

local wrappers = {
  MapGradientOptimizer = function(opt, o)
    return ipu.optimizers.MapGradientOptimizer(opt, maps[o.map.fn](o.map))
  end,
  GradientAccumulationOptimizer = function(opt, _, ga)
    return ipu.optimizers.GradientAccumulationOptimizer(opt, {num_mini_batches = ga.count})
  end,
  CrossReplicaGradientAccumulationOptimizer = function(opt, _, ga)
    return ipu.optimizers.CrossReplicaGradientAccumulationOptimizer(opt,
      {num_mini_batches = ga.count})
  end,
}
for _, name in ipairs {"GradientAccumulationOptimizerV2",
  "CrossReplicaGradientAccumulationOptimizerV2"} do
  wrappers[name] = function(opt, _, ga)
    return ipu.optimizers[name](opt, accumulation_options(ga))
  end
end
for _, name in ipairs {"CrossReplicaOptimizer", "ShardedOptimizer"} do
  wrappers[name] = function(opt) return ipu.optimizers[name](opt) end
end

---The optimizer of a minimize operation's attributes.
function runner.optimizer(at, a)
  local o, wrap = a.opt, a.wrap or {}
  local opt = rules[o.kind](o)
  if o.grad_add_var or o.enqueue_gradients then opt = observing(at, opt, o) end
  local mapped = false
  for _, name in ipairs(wrap) do mapped = mapped or name == "MapGradientOptimizer" end
  if o.map and not mapped then opt = wrappers.MapGradientOptimizer(opt, o) end
  for i = #wrap, 1, -1 do opt = wrappers[wrap[i]](opt, o, a.ga or {}) end
  if a.cross_replica and not table.concat(wrap, " "):find("CrossReplica", 1, true) then
    opt = wrappers.CrossReplicaOptimizer(opt)
  end
  return opt
end

function ops.minimize(a, loss, at)
  at.optimizers[a] = at.optimizers[a] or runner.optimizer(at, a)
  at.optimizers[a]:minimize(loss)
end

-- ------------------------------------------------ evaluating lists of operations

local function value_of(at, env, name)
  if name:sub(1, 1) == "$" then return at.variables[name:sub(2)] end
  local value = env[name]
  if value == nil then error("the case names no value '" .. name .. "'") end
  return value
end

local function enqueued(at, env, value)
  if type(value) == "string" then return value_of(at, env, value) end
  local t = {}
  for key, name in pairs(value) do
    t[math.tointeger(tonumber(key)) or key] = value_of(at, env, name)
  end
  return t
end

local function apply(at, env, op, operands, a)
  local name = op[2]
  if name == "identity" and a.barrier_with then
    local x, y = ipu.barrier{operands[1], value_of(at, env, a.barrier_with)}
    env[a.barrier_with] = y
    return x
  end
  if name == "identity" then return ipu.identity(operands[1]) end
  if name == "minimize" then return ops.minimize(a, operands[1], at) end
  local f = ops[name]
  if not f then error("unknown operation '" .. tostring(name) .. "'") end
  return f(a, table.unpack(operands))
end

local evaluate

-- The loop carries the value that it is named after.
local function inner_repeat(at, env, op, a)
  return ipu.loops.repeat_n(a.n, function(x)
    local inner = setmetatable({[op[1]] = x}, {__index = env})
    evaluate(at, inner, a.ops)
    return inner[op[1]]
  end, {env[op[1]]})
end

---Runs a list of operations on the values by name.
function evaluate(at, env, list)
  for _, op in ipairs(list) do
    local a, operands = {}, {}
    for i = 3, #op do
      if type(op[i]) == "table" then
        a = op[i]
      else
        operands[#operands + 1] = value_of(at, env, op[i])
      end
    end
    local _ <close> = a.shard and ipu.ipu_shard(a.shard) or nil
    if op[2] == "enqueue" then
      at:outfeed(op[1]):enqueue(enqueued(at, env, a.value))
    elseif op[2] == "repeat" then
      env[op[1]] = inner_repeat(at, env, op, a)
    else
      env[op[1]] = apply(at, env, op, operands, a)
    end
  end
end
runner.evaluate = evaluate

-- ------------------------------------------------ datasets and queues

-- "nested: ({x0,x1}, y)" → {{dict = {"x0", "x1"}}, "y"}
local function nested_structure(text)
  local items = {}
  local inside = text:match("^nested:%s*%((.*)%)%s*$") or error("unknown structure " .. text)
  while #inside > 0 do
    local names, rest = inside:match("^%s*{([^}]*)}%s*,?(.*)$")
    if names then
      local dict = {}
      for name in names:gmatch("[%w_]+") do dict[#dict + 1] = name end
      items[#items + 1] = {dict = dict}
    else
      names, rest = inside:match("^%s*([%w_]+)%s*,?(.*)$")
      items[#items + 1] = names
    end
    inside = rest
  end
  return items
end

local function structure_of(infeed)
  local text = infeed.structure or "tuple"
  if text == "dict" then
    local names = {}
    for i, field in ipairs(infeed.fields) do names[i] = field.name end
    return {{dict = names}}
  end
  if text ~= "tuple" then return nested_structure(text) end
  local items = {}
  for i, field in ipairs(infeed.fields) do items[i] = field.name end
  return items
end

local function element(items, tensors)
  local list = {}
  for i, item in ipairs(items) do
    if type(item) == "table" then
      list[i] = {}
      for _, name in ipairs(item.dict) do list[i][name] = tensors[name] end
    else
      list[i] = tensors[item]
    end
  end
  if #list == 1 then return list[1] end
  return list
end

---The dataset of an infeed of a case.
function runner.dataset(infeed)
  local tensors = {}
  for _, field in ipairs(infeed.fields) do
    tensors[field.name] = system.elements(field, infeed.n)
  end
  local ds = ipu.data.from_tensor_slices(element(structure_of(infeed), tensors))
  if infeed["repeat"] then ds = ds:repeat_n() end
  if infeed.batch then
    ds = ds:batch(infeed.batch, {drop_remainder = infeed.drop_remainder ~= false})
  end
  return ds
end

-- The fields of an element, given as arguments, by name.
local function bind_element(env, infeed, ...)
  for i, item in ipairs(structure_of(infeed)) do
    local value = select(i, ...)
    if type(item) == "table" then
      for _, name in ipairs(item.dict) do env[name] = value[name] end
    else
      env[item] = value
    end
  end
end
runner.bind_element = bind_element

-- ------------------------------------------------ programs

-- A function that declares so many parameters and hands them to f.
local function with_parameters(n, f)
  local names = {}
  for i = 1, n do names[i] = "a" .. i end
  local list = table.concat(names, ", ")
  return load("local f = ... return function(" .. list .. ") return f(" .. list .. ") end")(f)
end

local function body_parameters(program, infeed)
  if not program.body_params then return nil end
  if infeed and infeed.structure == "dict" then return #program.carried + 1 end
  return #program.body_params
end

local function loop_body(at, program, infeed)
  local carried = program.carried or {}
  local function body(...)
    local env = {}
    for i, c in ipairs(carried) do env[c.name] = (select(i, ...)) end
    if infeed then bind_element(env, infeed, select(#carried + 1, ...)) end
    evaluate(at, env, program.ops)
    local results = {}
    for i, c in ipairs(carried) do results[i] = env[c.name] end
    return table.unpack(results, 1, #carried)
  end
  local declared = body_parameters(program, infeed)
  return declared and with_parameters(declared, body) or body
end

local comparisons <const> = {lt = "less", le = "less_equal", gt = "greater", ge = "greater_equal"}

local function loop_condition(program)
  local op, name, limit = table.unpack(program.cond)
  local function condition(...)
    for i, c in ipairs(program.carried) do
      if c.name == name then return ipu[comparisons[op]](first_element((select(i, ...))), limit) end
    end
  end
  return program.cond_params and with_parameters(#program.cond_params, condition) or condition
end

-- Results by position of the carried values; the rest of the work of a program is its effects.
local function pick(program, carried, results)
  local by_name = {}
  for i, c in ipairs(carried) do by_name[c.name] = results[i] end
  local list = {}
  for i, name in ipairs(program.result or {}) do list[i] = by_name[name] end
  return table.unpack(list)
end

-- Each kind gives a function of the run's inputs (what `arguments` lists).
local kinds = {}
runner.kinds = kinds

kinds["repeat"] = function(at, program)
  local infeed = at.case.infeeds and at.case.infeeds[program.infeed]
  local body, carried = loop_body(at, program, infeed), program.carried or {}
  return function(...)
    local given = {...}
    local n = program.n
    if type(n) == "string" then n = table.remove(given) end
    local queue = infeed and at:infeed(program.infeed)
    for _, times in ipairs(program.split or {n}) do
      given = table.pack(ipu.loops.repeat_n(times, body, given, queue))
    end
    return pick(program, carried, given)
  end
end

kinds["while"] = function(at, program)
  local infeed = at.case.infeeds and at.case.infeeds[program.infeed]
  local body, condition = loop_body(at, program, infeed), loop_condition(program)
  return function(...)
    local queue = infeed and at:infeed(program.infeed)
    local options = {maximum_iterations = program.maximum_iterations}
    local results = table.pack(ipu.loops.while_loop(condition, body, {...}, queue, options))
    return pick(program, program.carried, results)
  end
end

local function sorted_names(t)
  local names = {}
  for name in pairs(t or {}) do names[#names + 1] = name end
  table.sort(names)
  return names
end

function kinds.call(at, program)
  local names = sorted_names(program.feeds)
  return function(...)
    local env, results = {}, {}
    for i, name in ipairs(names) do env[name] = (select(i, ...)) end
    evaluate(at, env, program.ops)
    for i, r in ipairs(program.result or {}) do
      if type(r) == "table" then
        results[i] = ipu.gradients(value_of(at, env, r.of), at.variables[r.grad] or env[r.grad])[1]
      else
        results[i] = value_of(at, env, r)
      end
    end
    return table.unpack(results)
  end
end

-- The tensors that a run hands over, in the order of the function's parameters.
local arguments = {}
runner.arguments = arguments

local function carried_arguments(program, feeds)
  local list = {}
  for i, c in ipairs(program.carried or {}) do
    local fill = feeds[c.name]
    if fill == nil then fill = c.init end
    list[i] = system.tensor(fill == nil and 0 or fill, c.shape, c.dtype)
  end
  if type(program.n) == "string" then
    list[#list + 1] = ipu.tensor(feeds[program.n] or 1, {dtype = "int32"})
  end
  return list
end
arguments["repeat"], arguments["while"] = carried_arguments, carried_arguments

function arguments.call(program, feeds)
  local list = {}
  for i, name in ipairs(sorted_names(program.feeds)) do
    local feed = program.feeds[name]
    local fill = feeds[name]
    if fill == nil then fill = feed.init end
    list[i] = system.tensor(fill == nil and 0 or fill, feed.shape, feed.dtype)
  end
  return list
end

-- ------------------------------------------------ a case in progress

local Case = {}
Case.__index = Case

function Case:infeed(name)
  if not self.queues[name] then
    self.queues[name] = ipu.IPUInfeedQueue(runner.dataset(self.case.infeeds[name]))
  end
  return self.queues[name]
end

function Case:outfeed(name)
  if not self.queues[name] then
    local o = self.case.outfeeds[name]
    self.queues[name] = ipu.IPUOutfeedQueue{outfeed_mode = o.mode,
      device_ordinal = o.device_ordinal}
  end
  return self.queues[name]
end

function Case:queue(name)
  if self.case.infeeds and self.case.infeeds[name] then return self:infeed(name) end
  return self:outfeed(name)
end

function Case:program(name)
  local known = self.programs[name]
  if known then return known end
  local program = self.case.programs[name]
  local build = kinds[program.kind]
    or error("unknown kind of program '" .. tostring(program.kind) .. "'")
  known = {table = program, func = ipu.func(build(self, program), {name = name})}
  self.programs[name] = known
  return known
end

-- Inside the device of a program.
local function on_device(program, f)
  if not program.device_ordinal then return f() end
  return ipu.ipu_scope("/device:IPU:" .. program.device_ordinal)(f)
end

-- ------------------------------------------------ steps

local steps = {}
runner.steps = steps

function steps.init(at, step) at:queue(step.queue):initializer() end
function steps.delete(at, step) at:queue(step.queue):deleter() end

function steps.compile(at, step)
  local p = at:program(step.program)
  on_device(p.table, function()
    p.func:concrete(table.unpack(arguments[p.table.kind](p.table, step.feeds or {})))
  end)
end

-- By the strategy, which initialises queues at their first use; where the script left one
-- uninitialised, by a session, which leaves that to the script.
local function run_once(at, p, given)
  local infeed = p.table.infeed and at:infeed(p.table.infeed)
  if not infeed or infeed.initialised then return table.pack(at.strategy:run(p.func, given)) end
  local session <close> = ipu.Session()
  return table.pack(table.unpack(session:run(ipu.ipu_compiler.compile(p.func.f, given))))
end

function steps.run(at, step)
  local p = at:program(step.program)
  local results
  for _ = 1, step.times or 1 do
    local given = arguments[p.table.kind](p.table, step.feeds or {})
    results = on_device(p.table, function() return run_once(at, p, given) end)
  end
  results.n = nil
  if step.expect then return system.compare("result", results, step.expect, at.tolerance) end
end

function steps.dequeue(at, step)
  local got = at:queue(step.queue):dequeue()
  if step.expect then return system.compare("dequeued", got, step.expect, at.tolerance) end
end

function steps.iterate(at, step)
  local list = {}
  for element_of_queue in at:queue(step.queue):iter() do list[#list + 1] = element_of_queue end
  if step.expect_count and #list ~= step.expect_count then
    return string.format("%d elements, expected %d", #list, step.expect_count)
  end
  for _, side in ipairs {{"expect_first", 1}, {"expect_last", #list}} do
    local want = step[side[1]]
    local problem = want and system.compare(side[1], list[side[2]], want, at.tolerance)
    if problem then return problem end
  end
end

function steps.read(at, step)
  for _, name in ipairs(step.vars) do
    local problem = system.compare(name, at.variables[name]:read_value(), step.expect[name],
      at.tolerance)
    if problem then return problem end
  end
end

function steps.assign(at, step)
  local v = at.variables[step.var]
  local short = {float32 = "f32", float16 = "f16", int32 = "i32"}
  v:assign(system.tensor(step.value, v.shape, short[v.dtype]))
end

local constructors = {}
runner.constructors = constructors

-- Every wrapper of an optimizer, with the arguments by their names.
for name in pairs(wrappers) do
  constructors[name] = function(a)
    local given = {}
    for key, value in pairs(a) do given[key] = value end
    given.opt = nil
    return ipu.optimizers[name](ipu.train.GradientDescentOptimizer(0.1), given)
  end
end

function steps.construct(at, step)
  local name = step.queue
  if step.what then
    local make = constructors[step.what] or error("no constructor for " .. step.what)
    make(step.args or {})
  elseif at.case.infeeds and at.case.infeeds[name] then
    at.queues[name] = ipu.IPUInfeedQueue(runner.dataset(at.case.infeeds[name]), step.args or {})
  else
    local given = {outfeed_mode = at.case.outfeeds[name].mode}
    for key, value in pairs(step.args or {}) do given[key] = value end
    at.queues[name] = ipu.IPUOutfeedQueue(given)
  end
end

function steps.parse_reduction(_, step)
  local got = ipu.GradientAccumulationReductionMethod(step.value)
  if step.expect and got ~= step.expect then return "parsed as " .. got end
end

local strategy_functions <const> = {
  identity = function(x) return ipu.identity(x) end,
  ["cast to float64"] = function(x) return ipu.cast(x, "float64") end,
}

-- The function that words tell of: "identity", "an uncompiled function", "identity, not compiled".
local function function_in_words(words)
  local rest = words:gsub("^an? uncompiled ", ""):gsub(",? ?%(?not compiled%)?$", "")
  local f = strategy_functions[rest == "function" and "identity" or rest]
    or error("unknown function '" .. words .. "'")
  return rest == words and ipu.func(f) or f
end

function steps.strategy_run(at, step)
  local given = {}
  for i, a in ipairs(step.args or {}) do
    given[i] = ipu.tensor(a.value, {dtype = system.dtype(a.dtype)})
  end
  at.strategy:run(function_in_words(step.fn), given)
end

function steps.iterate_dataset_on_host(at)
  local _ <close> = at.strategy:scope()
  ipu.data.from_tensors(ipu.constant(1.0)):iterator():next()
end

-- Programs that a case names in words.
local replicated <const> = {
  ["two shards"] = function(x)
    local y
    do
      local _ <close> = ipu.ipu_shard(0)
      y = x + 1
    end
    local _ <close> = ipu.ipu_shard(1)
    return y * 2
  end,
  unsharded = function(x) return x + 1 end,
}

function steps.outfeed_replica_dim(at, step)
  local f = replicated[step.program] or error("unknown program '" .. step.program .. "'")
  local queue = ipu.IPUOutfeedQueue()
  at.strategy:run(ipu.func(function(x)
    ipu.loops.repeat_n(3, function() queue:enqueue(f(x)) end)
  end), {ipu.constant(1.0)})
  local extent = queue:dequeue().shape[2]
  if extent ~= step.expect then return "the second extent is " .. tostring(extent) end
end

-- A value of a report as text; lists may hold lists.
local function report_text(value)
  if type(value) ~= "table" then return tostring(value) end
  local parts = {}
  for i, each in ipairs(value) do parts[i] = report_text(each) end
  return "[" .. table.concat(parts, ", ") .. "]"
end

-- Facts about what was compiled and run: of all programs, or fields of the newest one.
function steps.report(_, step)
  local programs = ipu.programs()
  local executions, last = 0, programs[#programs] or {}
  for _, p in ipairs(programs) do executions = executions + p.executions end
  local facts = setmetatable({compilations = #programs, executions = executions}, {__index = last})
  for name, want in pairs(step.expect) do
    local got, wanted = report_text(facts[name]), report_text(want)
    if got ~= wanted then return string.format("%s is %s, expected %s", name, got, wanted) end
  end
end

-- The step that follows a step whose error may also come then.
local next_phase <const> = {construct = "init", init = "compile", compile = "run"}

local function acceptable(phases, name)
  for _, phase in ipairs(phases or {}) do
    if phase == name then return true end
  end
  return false
end

local function first_program(case) return (next(case.programs or {})) end

-- Goes on through the moments at which the error may come.
local function run_phases(at, step)
  local name = step["do"]
  local problem = steps[name](at, step)
  while step.error and acceptable(step.error.phase, next_phase[name]) do
    name = next_phase[name]
    if not steps[name] or (name == "compile" or name == "run") and not first_program(at.case) then
      break
    end
    steps[name](at, {queue = step.queue, program = step.program or first_program(at.case)})
  end
  return problem
end

local function run_step(at, step)
  if not steps[step["do"]] then return "no such step" end
  local ok, problem = pcall(run_phases, at, step)
  if ok then return step.error and "no error was raised" or problem end
  if not step.error then return tostring(problem) end
  return system.check_error(step.error, problem)
end

-- ------------------------------------------------ the case

local function configure(case)
  local cfg = ipu.IPUConfig()
  local setup = case.setup or {}
  cfg.auto_select_ipus = setup.ipus or 1
  for path, value in pairs(setup.config or {}) do
    local t = cfg
    for category in path:gmatch("([^.]+)%.") do t = t[category] end
    t[path:match("[^.]+$")] = value
  end
  cfg:configure_ipu_system()
end

local function make_variables(case)
  local list = {}
  for name, v in pairs(case.variables or {}) do
    list[name] = ipu.Variable(system.tensor(v.init or 0, v.shape, v.dtype),
      {name = name, trainable = v.trainable ~= false})
  end
  return list
end

require "spec.support.system_pipeline"(runner)

---@param case table a decoded case of kind "program"
---@return boolean ok
---@return string? message what differs, with the step's number
function runner.run(case)
  config.reset_ipu_configuration()
  local _ <close> = setmetatable({}, {__close = function() config.reset_ipu_configuration() end})
  configure(case)
  local tolerance = {rtol = case.tol and case.tol.rtol or 1e-5,
    atol = case.tol and case.tol.atol or 1e-5}
  local at = setmetatable({
    case = case, variables = make_variables(case), queues = {}, programs = {}, optimizers = {},
    tolerance = tolerance,
    strategy = ipu.IPUStrategy(),
  }, Case)
  for i, step in ipairs(case.script) do
    local problem = run_step(at, step)
    if problem then
      return false, string.format("step %d (%s): %s", i, tostring(step["do"]), problem)
    end
  end
  return true
end

return runner
