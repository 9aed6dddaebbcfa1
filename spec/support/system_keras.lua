-- Runs a conformance case of kind "keras": a model of dense layers, data from fills, then its steps
-- in order.

local config = require "ipulua.config"
local ipu = require "ipulua"
local json = require "ipulua.base.json"
local nest = require "ipulua.base.nest"
local scope = require "ipulua.base.scope"
local system = require "spec.support.system_values"

local runner = {}

local function absent(value) return value == nil or value == json.null end

-- ------------------------------------------------ models

local function fill_initializer(fill)
  return function(shape) return system.tensor(fill, shape) end
end

local function in_stage(stage, f)
  if absent(stage) then return f() end
  return ipu.keras.PipelineStage(stage)(f)
end

local function dense(spec, first)
  return in_stage(spec.scope, function()
    return ipu.keras.layers.Dense{
      units = spec.units, activation = not absent(spec.activation) and spec.activation or nil,
      use_bias = not absent(spec.bias),
      kernel_initializer = fill_initializer(spec.kernel),
      bias_initializer = not absent(spec.bias) and fill_initializer(spec.bias) or nil,
      input_shape = first and {spec["in"]} or nil,
    }
  end)
end

local function shared_layers(spec, x)
  local layer = in_stage(spec.created_in, function() return ipu.keras.layers.Dense(x.shape[2]) end)
  for _, stage in ipairs(spec.called_in) do x = in_stage(stage, function() return layer(x) end) end
  return x
end

local function functional(specs)
  local first = specs[1]
  local input = ipu.keras.Input{shape = {first["in"] or 2}}
  local x = input
  for _, spec in ipairs(specs) do
    if spec.shared then
      x = shared_layers(spec, x)
    else
      local layer = dense(spec)
      local before = x
      x = in_stage(spec.scope, function() return layer(before) end)
    end
  end
  return ipu.keras.Model{inputs = input, outputs = x}
end

local function sequential(specs)
  local layers = {}
  for i, spec in ipairs(specs) do layers[i] = dense(spec, i == 1) end
  return ipu.keras.Sequential{layers = layers}
end

local optimizers <const> = {
  sgd = function(o)
    return ipu.keras.optimizers.SGD{learning_rate = o.lr, momentum = o.momentum,
      nesterov = o.nesterov}
  end,
  momentum = function(o)
    return ipu.keras.optimizers.SGD{learning_rate = o.lr, momentum = o.momentum or 0.9,
      nesterov = o.nesterov}
  end,
  adam = function(o)
    return ipu.keras.optimizers.Adam{learning_rate = o.lr, beta_1 = o.b1, beta_2 = o.b2,
      epsilon = o.eps}
  end,
  rmsprop = function(o) return ipu.keras.optimizers.RMSprop{learning_rate = o.lr} end,
}

local function compile(model, c)
  model:compile{
    optimizer = optimizers[c.optimizer.kind](c.optimizer), loss = c.loss, metrics = c.metrics,
    run_eagerly = c.run_eagerly or false,
    steps_per_execution = c.steps_per_execution,
  }
end

local function set_accumulation(model, m)
  local ga, pipeline = m.gradient_accumulation, m.pipeline
  local options = {}
  if ga then
    options.gradient_accumulation_steps_per_replica = ga.steps
    if not ga.leave_default then options.gradient_accumulation_reduction_method = ga.reduction end
  end
  if not pipeline then
    if ga then model:set_gradient_accumulation_options(options) end
    return
  end
  model:set_pipeline_stage_assignment(pipeline.assignment)
  for name, value in pairs(pipeline) do
    if name == "ga" then options.gradient_accumulation_steps_per_replica = value
    elseif name ~= "assignment" then options[name] = value end
  end
  if next(options) then model:set_pipelining_options(options) end
end

local function build(state)
  if state.model then return state.model end
  local m = state.case.model
  local model = (m.style == "functional" and functional or sequential)(m.layers)
  state.model = model
  if m.compile then compile(model, m.compile) end
  set_accumulation(model, m)
  if m.replicated_metric_reduction_method then
    model:set_replication_options{
      replicated_metric_reduction_method = m.replicated_metric_reduction_method}
  end
  return model
end

-- ------------------------------------------------ data

local function replicas(state) return (state.case.setup or {}).replicas or 1 end

-- The data for fit and the others: tensors for finite data, a dataset for endless ones.
local function feed(state, step, name)
  local d = (state.case.data or {})[name]
  -- words that stand for something that is no data
  if not d then return {x = function() return nil end} end
  local fields = {}
  for i, key in ipairs{"x", "y"} do fields[i] = d[key] and system.elements(d[key], d.n) or nil end
  if not d["repeat"] and not d.prebatched then
    return {x = fields[1], y = fields[2], batch_size = step.batch_size}
  end
  local dataset = ipu.data.from_tensor_slices(fields)
  if d["repeat"] then dataset = dataset:repeat_n() end
  return {x = dataset:batch(step.batch_size, {drop_remainder = d.drop_remainder ~= false})}
end

local function total_steps(state, step)
  if step.steps_per_epoch then return step.steps_per_epoch end
  if step.call_steps then return step.call_steps end
  return step.steps and step.steps * replicas(state) or nil
end

-- ------------------------------------------------ steps

local steps = {}

local function compare_lists(what, got, want, tolerance)
  return system.compare(what, ipu.tensor(got), {data = want, shape = {#want}}, tolerance)
end

function steps.fit(state, step)
  local model = build(state)
  local calls = 0
  local options = feed(state, step, step.data)
  options.shuffle, options.verbose = false, 0
  options.epochs, options.steps_per_epoch = step.epochs or 1, total_steps(state, step)
  options.callbacks = {ipu.keras.callbacks.LambdaCallback{on_batch_end = function()
    calls = calls + 1
  end}}
  if step.validation then
    local v = feed(state, step, step.validation.data)
    options.validation_data = ipu.data.from_tensor_slices{v.x, v.y}:batch(step.batch_size,
      {drop_remainder = true})
    options.validation_steps = step.validation.steps
  end
  local history = model:fit(options).history
  for name, want in pairs((step.expect or {}).history or {}) do
    local problem = history[name] and compare_lists(name, history[name], want, state.tolerance) or
      (not history[name] and "history has no " .. name) or nil
    if problem then return problem end
  end
  if step.batch_end_calls and calls ~= step.batch_end_calls then
    return string.format("on_batch_end was called %d times, expected %d", calls,
      step.batch_end_calls)
  end
end

function steps.evaluate(state, step)
  local options = feed(state, step, step.data)
  options.verbose, options.steps = 0, total_steps(state, step)
  local got = build(state):evaluate(options)
  if type(got) == "number" then got = {got} end
  return system.compare("evaluate", ipu.tensor(got),
    {data = nest.flatten(step.expect), shape = ipu.tensor(got).shape},
    state.tolerance)
end

function steps.predict(state, step)
  local options = feed(state, step, step.data)
  options.steps = total_steps(state, step)
  local got = build(state):predict(options)
  return step.expect and system.compare("predict", got, step.expect, state.tolerance)
end

function steps.weights(state, step)
  return system.compare("weights", build(state):get_weights(), step.expect, state.tolerance)
end

function steps.build(state, step)
  local model = build(state)
  if step.input_shape then
    local shape = {}
    for i = 1, 8 do
      local extent = step.input_shape[i]
      if extent == nil then break end
      shape[i] = absent(extent) and -1 or extent
    end
    model:build(shape)
  end
end

function steps.report(state, step)
  local programs = ipu.programs()
  local counts, sum = {}, 0
  for i, p in ipairs(programs) do counts[i], sum = p.executions, sum + p.executions end
  local facts = {compilations = #programs, executions = type(step.expect.executions) == "table"
    and counts or sum,
    variables = #state.model.weights}
  for name, want in pairs(step.expect) do
    local got = facts[name]
    local a = type(got) == "table" and table.concat(got, ", ") or tostring(got)
    local b = type(want) == "table" and table.concat(want, ", ") or tostring(want)
    if a ~= b then return string.format("%s is %s, expected %s", name, a, b) end
  end
end

function steps.set_assignment(state, step)
  local model = build(state)
  local value = step.value
  if state.case.model.style == "functional" then
    local list = model:get_pipeline_stage_assignment()
    for i, entry in ipairs(list) do entry.pipeline_stage = value[i] end
    value = list
  end
  model:set_pipeline_stage_assignment(value)
end

function steps.get_assignment(state, step)
  for i, entry in ipairs(build(state):get_pipeline_stage_assignment()) do
    local want = step.expect[i]
    if absent(want) then want = nil end
    if entry.pipeline_stage ~= want then
      return string.format("stage %d is %s, expected %s", i, tostring(entry.pipeline_stage),
        tostring(want))
    end
  end
end

function steps.reset_assignment(state) build(state):reset_pipeline_stage_assignment() end

function steps.is_pipelined(state, step)
  local got = build(state):is_pipelined()
  return got ~= step.expect and "is_pipelined() is " .. tostring(got) or nil
end

function steps.enter_stage(state, step)
  table.insert(state.stages, ipu.keras.PipelineStage(step.value))
end
function steps.leave_stage(state) table.remove(state.stages):close() end

-- Further arguments by name, which cases list in a table of their own, are beside the others here.
local function options(given)
  local all = {}
  for key, value in pairs(given) do
    if type(value) == "table" and key:find("kwargs$") then
      for name, each in pairs(value) do all[name] = each end
    else
      all[key] = value
    end
  end
  return all
end

function steps.set_pipelining_options(state, step)
  build(state):set_pipelining_options(options(step.args))
end
function steps.set_gradient_accumulation_options(state, step)
  build(state):set_gradient_accumulation_options(options(step.args))
end
function steps.set_replication_options(state, step)
  build(state):set_replication_options(step.args)
end

-- ------------------------------------------------ running

local function run_step(state, step)
  local f = steps[step["do"]]
  if not f then return "unknown step '" .. tostring(step["do"]) .. "'" end
  local ok, problem = pcall(f, state, step)
  if step.error then
    if ok then return step["do"] .. ": no error was raised" end
    return system.check_error(step.error, problem), true
  end
  if not ok then return step["do"] .. ": " .. tostring(problem) end
  return problem and step["do"] .. ": " .. problem
end

local function configure(case)
  config.reset_ipu_configuration()
  local cfg = ipu.IPUConfig()
  cfg.auto_select_ipus = (case.setup or {}).ipus or 1
  cfg:configure_ipu_system()
end

-- Scopes that a case left open.
local function close_scopes(depth)
  while scope.depth() > depth do
    scope.innermost():close()
  end
end

---@param case table
---@return boolean ok, string? message
function runner.run(case)
  local depth = scope.depth()
  configure(case)
  local state = {case = case, stages = {},
    tolerance = {rtol = (case.tol or {}).rtol or 1e-5, atol = (case.tol or {}).atol or 1e-5}}
  local problem
  local strategy = ipu.IPUStrategy():scope()
  for i, step in ipairs(case.script) do
    local failed
    problem, failed = run_step(state, step)
    if problem then
      problem = "step " .. i .. ": " .. problem
      break
    end
    if failed and not case.script[i + 1] then break end
  end
  close_scopes(depth)
  strategy:close()
  config.reset_ipu_configuration()
  return problem == nil, problem
end

return runner
