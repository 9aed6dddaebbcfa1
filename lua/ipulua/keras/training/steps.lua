-- Training, test and prediction steps as programs: loops over an infeed in which nothing of Lua
-- runs.

local args = require "ipulua.base.args"
local assignment = require "ipulua.keras.models.stage_assignment"
local blame = require "ipulua.base.blame"
local capture = require "ipulua.trace.capture"
local compiled = require "ipulua.keras.training.compiled"
local core = require "ipulua.core"
local counted = require "ipulua.base.counted"
local eagerly = require "ipulua.keras.training.eagerly"
local func = require "ipulua.trace.func"
local log = require "ipulua.base.log"
local loops = require "ipulua.trace.loops"
local logs = require "ipulua.keras.training.logs"
local nest = require "ipulua.base.nest"
local ops = require "ipulua.ops"
local pipelined = require "ipulua.keras.training.pipelined"
local queues = require "ipulua.data.queues"
local registry = require "ipulua.base.parts.registry"
local replication = require "ipulua.trace.replication"
local trainable = require "ipulua.keras.training.trainable"
local teams = require "ipulua.config.teams"
local tracing = require "ipulua.trace.tracing"
local variables = require "ipulua.trace.variables"

local steps = {}

-- ------------------------------------------------ one step

-- A list of labels or weights, one for each output; one tensor is for all.
local function by_output(model, what, given, outputs)
  if given == nil then return {} end
  if args.is_plain(given) then
    return compiled.by_output(given, string.format("model '%s': '%s'", model.name, what), outputs)
  end
  local list = {}
  for i = 1, #outputs.names do list[i] = given end
  return list
end

-- A list of labels has one for each loss; a table by name may leave outputs out.
local function check_labels(model, given, labels, outputs)
  if not args.is_list(given) then return end
  for i, loss in ipairs(model.compiled.losses) do
    if loss and labels[i] == nil then
      blame.error(string.format("model '%s': 'y' has nothing for the output '%s', which has a loss",
        model.name, outputs.names[i]), "value")
    end
  end
end

-- Vectors get a last axis of 1, as in Keras' steps.
local function expand(value)
  return nest.map(function(t)
    if (core.is_tensor(t) or core.is_variable(t)) and #t.shape == 1 then
      return ops.expand_dims(t, -1)
    end
    return t
  end, value)
end
steps.expand = expand

-- As Keras: a name that an output before has gets the next number that none before has.
local function apart(name, taken, counts)
  local proposal = name
  while taken[proposal] do
    counts[name] = (counts[name] or 0) + 1
    proposal = name .. "_" .. counts[name]
  end
  taken[proposal] = true
  return proposal
end

---Names of a model's outputs, and their keys where the outputs are a table with names.
---@param model Model
---@param y_pred any
---@return {names: string[], keys: any[]}
function steps.outputs(model, y_pred)
  local names, keys = {}, {}
  local leaves = nest.flatten(y_pred)
  if args.is_plain(y_pred) and #y_pred == 0 then keys = nest.keys(y_pred) end
  local graph = model._graph
  local taken, counts = {}, {}
  for i = 1, #leaves do
    local name = graph and graph.outputs[i] and graph.outputs[i].layer.name or keys[i]
      or "output_" .. i
    names[i] = apart(name, taken, counts)
  end
  return {names = names, keys = keys}
end

---A batch by output: labels, predictions and weights, beside losses and metrics for each output.
---@return Compiled c, table labels, table predictions, table weights
function steps.by_output(model, y, y_pred, weight)
  local c = model.compiled
  local outputs = steps.outputs(model, y_pred)
  local labels, predictions = by_output(model, "y", y, outputs), nest.flatten(y_pred)
  c:build(outputs, labels, predictions)
  check_labels(model, y, labels, outputs)
  return c, labels, predictions, by_output(model, "sample_weight", weight, outputs)
end

---The loss of a batch, with running means updated; nil when there is nothing to lose.
function steps.loss(model, x, y, y_pred, weight) -- luacheck: ignore 212
  local c, labels, predictions, weights = steps.by_output(model, y, y_pred, weight)
  local total = c:loss(labels, predictions, weights, model.losses)
  c:update_metrics(labels, predictions, weights)
  return total
end

local function require_labels(model, y)
  if y == nil and model.compile_arguments.loss ~= nil then
    blame.error(string.format("model '%s': 'y' is missing; the model was compiled with a loss, "
      .. "which compares with it", model.name), "value")
  end
end

local function require_loss(total, model, y)
  if total then return total end
  require_labels(model, y)
  blame.error(string.format("model '%s' has no loss to optimize; compile it with a loss, or "
    .. "add_loss", model.name), "value")
end

-- A batch's loss in the form that the optimizer takes.
local function total_of(model, x, y, weight)
  local y_pred = pipelined.forward(model, x, {training = true})
  local total = require_loss(steps.loss(model, x, y, y_pred, weight), model, y)
  local optimizer = model.optimizer
  if optimizer.scale_loss then total = optimizer:scale_loss(total) end
  return total
end

local function apply_gradients(model, grads, list, captured)
  local options = next(captured) and model.optimizer.takes_captured and {captured_grads = captured}
    or nil
  model.optimizer:apply_gradients(grads, list, options)
end

local function train_eagerly(model, x, y, weight)
  local tape = capture.GradientCaptureTape()
  local total = tape(function()
    return total_of(model, expand(x), expand(y), expand(weight))
  end)
  local list = model.trainable_variables
  local grads = tape:gradient(total, list)
  apply_gradients(model, grads, list, tape.captured_gradients)
end

---One weight update on one batch, in a traced function or where the model runs eagerly.
function steps.train(model, x, y, weight)
  if not tracing.is_active() then return train_eagerly(model, x, y, weight) end
  local list = model.trainable_variables
  local captures <close> = capture.GradientCaptureContext()
  local total = total_of(model, expand(x), expand(y), expand(weight))
  local grads = capture.gradients(captures, total, list)
  apply_gradients(model, grads, list, captures.captured_gradients)
end

---One batch of a test, in a traced function.
function steps.test(model, x, y, weight)
  x, y, weight = expand(x), expand(y), expand(weight)
  local total = steps.loss(model, x, y, pipelined.forward(model, x, {training = false}), weight)
  if not total then require_labels(model, y) end -- else its zeros would look like a result
end

-- ------------------------------------------------ programs

---Whether a model has a step of its own, as train_step.
---@param model Model
---@param name string
---@return boolean
function steps.is_custom(model, name)
  local base = registry.module("model").Model
  return model[name] ~= base[name]
end
local is_custom <const> = steps.is_custom

local function refuse_custom_pipelined(model, name)
  if is_custom(model, name) and model:is_pipelined() then
    blame.error(string.format("model '%s': its own %s can't be pipelined", model.name, name),
      "runtime")
  end
end

local warned = setmetatable({}, {__mode = "k"})

-- Keras hands an own step one value, which it takes apart. Here x, y and sample_weight are several.
local function warn_of_unused(model, name, count)
  local takes, more = func.parameters(model[name])
  takes = takes - 1 -- without self
  if more or takes >= count or warned[model] then return end
  warned[model] = true
  log.warn("model '%s': its %s takes %s, but gets %d; x, y and sample_weight come one by one, "
    .. "as in %s:%s(x, y)", model.name, name, counted(takes, "value"), count,
    getmetatable(model).__name, name)
end

local function check_logs(given)
  if not args.is_plain(given) then
    blame.error("train_step must return a table of logs, such as {loss = …}", "type")
  end
end

-- Logs of an own train_step are kept in variables, for the last step's to be read.
local function log_variables(model, holder, given)
  check_logs(given)
  for _, name in ipairs(logs.names_in_order(model, given)) do
    local value = given[name]
    if type(value) == "number" then value = core.tensor(value) end
    local v = holder[name]
    if not v then
      v = variables.declare("log/" .. name, value.dtype, value.shape, false)
      core.set_variable(v, tracing.outside(core.full, value.shape, 0, value.dtype))
      holder[name] = v
      holder[#holder + 1] = name
    end
    v:assign(value)
  end
end

local function metric_results(model)
  local names, values = {}, {}
  for i, pair in ipairs(compiled.all_values(model)) do names[i], values[i] = pair[1], pair[2] end
  return names, values
end

-- Whether a program's results combine the states of all replicas, so that all have the same.
local function is_joined(model, holder)
  return teams.current() ~= nil and #holder == 0
    and model._options.replicated_metric_reduction_method == "NONE"
end

-- The results of a program, after its loop.
local function joined_results(model)
  if not is_joined(model, {}) then return metric_results(model) end
  local states = {}
  for _, metric in ipairs(model.metrics) do
    local own = metric:all_variables()
    table.move(own, 1, #own, #states + 1, states)
  end
  return teams.with_joined(states, function() return metric_results(model) end)
end
steps.joined_results = joined_results

---The results of one step on each instance: of the library's own steps the results of all together.
---@param model Model
---@param name "train_step"|"test_step"
---@param values table<string, any>
---@return table<string, any>
function steps.joined_logs(model, name, values)
  if not teams.current() or is_custom(model, name) then return values end
  local names, results = joined_results(model)
  for i, each in ipairs(names) do values[each] = results[i] end
  return values
end

-- One value from the values of all replicas.
local reductions <const> = {
  NONE = function(t) return compiled.read(t[#t]) end,
  LIST = function(t)
    local list = {}
    for i = 1, #t do list[i] = compiled.read(t[i]) end
    return list
  end,
  SUM = function(t) return compiled.read(ops.reduce_sum(t, {axis = 0})) end,
  MEAN = function(t) return compiled.read(ops.reduce_mean(ops.cast(t, "float32"), {axis = 0})) end,
}

-- A value of each replica as one.
local function read_replicas(model, value)
  return reductions[model._options.replicated_metric_reduction_method](value)
end
steps.read_replicas = read_replicas

---@class StepProgram
---@field run fun(): table logs, a list of {name, value}
---@field prepare fun() traces it now
---@field start fun(): Job, fun(): table begins to run it; the function waits and gives the logs
---@field func Function what is run
---@field outfeed IPUOutfeedQueue? of its own

-- The name of a pipeline, or of the model.
local function program_name(model, kind)
  local name = model:is_pipelined() and model._options.pipelining.name or model.name
  return name .. "." .. kind
end

-- A program of one kind: body(infeed…) is run `count` times, then the values of the metrics are
-- given back.
local function make_program(model, kind, count, trace_steps)
  local names, replicas
  local holder = {}
  local f = func.func(function()
    local _ <close> = trainable.as_compiled(model)
    replication.need_ipus(assignment.shards(model))
    trace_steps(holder)
    local values
    if #holder > 0 then
      names, values = holder, {}
      for i, name in ipairs(holder) do values[i] = holder[name]:read_value() end
    else
      names, values = joined_results(model)
    end
    replicas = is_joined(model, holder) and 1 or replication.count()
    for i, value in ipairs(values) do
      if replicas > 1 then values[i] = ops.all_gather(value) end
    end
    return table.unpack(values)
  end, {name = program_name(model, kind)})
  local function named(...)
    local results, list = {...}, {}
    for i, name in ipairs(names) do
      list[i] = {name, replicas > 1 and read_replicas(model, results[i])
        or compiled.read(results[i])}
    end
    return list
  end
  return {
    count = count, kind = kind, func = f,
    prepare = function() f:concrete() end,
    run = function() return named(f()) end,
    start = function()
      local job = f:start()
      return job, function() return named(job:wait()) end
    end,
  }
end

-- A step's own logs as a list of {name, value}.
local function read_logs(model, given)
  check_logs(given)
  return logs.in_order(model, given)
end

local function read_metrics(model)
  local list = {}
  for i, pair in ipairs(compiled.all_values(model)) do
    list[i] = {pair[1], compiled.read(pair[2])}
  end
  return list
end

-- The same steps op by op.
local function eager_program(model, kind, infeed, count)
  local name <const> = kind .. "_step"
  local custom <const> = is_custom(model, name)
  return eagerly.program(kind, program_name(model, kind), infeed, count, function(...)
    local _ <close> = trainable.as_compiled(model)
    if not custom then return steps[kind](model, ...) end
    warn_of_unused(model, name, select("#", ...))
    return model[name](model, ...)
  end, function(results)
    return custom and read_logs(model, results[count]) or read_metrics(model)
  end)
end

local function eager_prediction(model, infeed, count)
  local structure
  return eagerly.program("predict", program_name(model, "predict"), infeed, count, function(x)
    structure = model:predict_step(x)
    return nest.flatten(structure)
  end, function(results)
    local joined = {}
    for i = 1, #results[1] do
      local list = {}
      for k, outputs in ipairs(results) do list[k] = outputs[i] end
      joined[i] = ops.concat(list, {axis = 0})
    end
    return joined, structure
  end)
end

-- Values of each step for callbacks that take them: an outfeed of all metrics.
local function enqueue_logs(model, outfeed)
  if not outfeed then return end
  local element = {}
  local names, values = metric_results(model)
  for i, value in ipairs(values) do element["m" .. i] = value end
  rawset(outfeed, "log_names", names)
  outfeed:enqueue(element)
end

---The program of `count` training steps on an infeed.
---@param model Model
---@param infeed table
---@param count integer
---@param outfeed table? receives the logs of each step
---@return StepProgram
function steps.train_program(model, infeed, count, outfeed)
  if model.run_eagerly then return eager_program(model, "train", infeed, count) end
  local accumulation = assignment.accumulation(model)
  local custom = is_custom(model, "train_step")
  refuse_custom_pipelined(model, "train_step")
  if custom and accumulation > 1 then
    blame.error(string.format("model '%s': its own train_step can't accumulate gradients",
      model.name), "runtime")
  end
  return make_program(model, "train", count, function(holder)
    local _ <close> = teams.fitting()
    if accumulation > 1 or model:is_pipelined() then
      pipelined.train(model, infeed, accumulation, count // accumulation, function(x, y, weight)
        local total = total_of(model, expand(x), expand(y), expand(weight))
        enqueue_logs(model, outfeed)
        return total
      end)
      return
    end
    loops.repeat_n(count, function(...)
      if custom then
        warn_of_unused(model, "train_step", select("#", ...))
        log_variables(model, holder, model:train_step(...))
      else
        steps.train(model, ...)
      end
      enqueue_logs(model, outfeed)
    end, {}, infeed)
  end)
end

---The program of `count` test steps.
---@return StepProgram
function steps.test_program(model, infeed, count, outfeed)
  if model.run_eagerly then return eager_program(model, "test", infeed, count) end
  local custom = is_custom(model, "test_step")
  refuse_custom_pipelined(model, "test_step")
  return make_program(model, "test", count, function(holder)
    pipelined.run(model, infeed, count, function(...)
      if custom then
        warn_of_unused(model, "test_step", select("#", ...))
        log_variables(model, holder, model:test_step(...))
      else
        steps.test(model, ...)
      end
      enqueue_logs(model, outfeed)
    end)
  end)
end

---The program of `count` predictions; run() gives the outputs of all its steps, joined along the
---batch.
---@return StepProgram
function steps.predict_program(model, infeed, count)
  if model.run_eagerly then return eager_prediction(model, infeed, count) end
  local outfeed = queues.IPUOutfeedQueue()
  local structure
  local custom = is_custom(model, "predict_step")
  refuse_custom_pipelined(model, "predict_step")
  local replicas
  local f = func.func(function()
    replication.need_ipus(assignment.shards(model))
    replicas = replication.local_count()
    pipelined.run(model, infeed, count, function(x)
      local y
      if custom then
        y = model:predict_step(x)
      else
        y = pipelined.forward(model, expand(x), {training = false})
      end
      structure = y
      outfeed:enqueue(nest.flatten(y))
    end)
  end, {name = program_name(model, "predict")})
  return {
    count = count, kind = "predict", func = f, outfeed = outfeed,
    run = function()
      f()
      local joined = {}
      for i, t in ipairs(outfeed:dequeue()) do
        -- [steps, replicas, batch, …]: elements were dealt in this order
        local shape, at = t.shape, replicas > 1 and 3 or 2
        local rest = table.move(shape, at + 1, #shape, 2, {-1})
        joined[i] = ops.reshape(t, rest)
      end
      return joined, structure
    end,
  }
end

return steps
