-- Runs conformance cases of Keras' parts (see spec/conformance/README.md): names and arguments are
-- mapped to classes by rule, never by case.
--
--   local ok, message = runner.run(case)

local context = require "ipulua.keras.base.context"
local ipu = require "ipulua"
local parts = require "ipulua.base.parts"
local run_model = require "spec.support.conformance_models"
local shared = require "spec.support.conformance_parts"
local values = require "spec.support.conformance_values"

local read_tensor = shared.read_tensor
local read_all = shared.read_all
local compare = shared.compare
local compare_all = shared.compare_all
local find = shared.find
local plain_args = shared.plain_args
local make_optimizer = shared.make_optimizer
local layer_options = shared.layer_options
local layer_call = shared.layer_call
local as_list = shared.as_list
local make_layer = shared.make_layer

local runner = {}

-- ------------------------------------------------ gradients

-- sum of output · upstream, over the outputs that are differentiated
local function weighted_sum(outputs, upstream)
  local sum
  for i, t in ipairs(outputs) do
    local up = upstream[i]
    if type(up) == "table" and up.data then
      local part = ipu.reduce_sum(t * ipu.cast(read_tensor(up), t.dtype))
      sum = sum and sum + part or part
    end
  end
  return sum
end

local function check_gradients(case, tape, outputs, inputs, weights)
  if not case.grads then return nil end
  local target
  do
    target = tape(function() return weighted_sum(outputs(), case.upstream) end)
  end
  local sources = {}
  local wanted = {}
  local function take(list, tensors)
    for i, w in ipairs(list or {}) do
      if type(w) == "table" and w.data then
        sources[#sources + 1] = tensors[i]
        wanted[#wanted + 1] = w
      end
    end
  end
  take(case.grads.inputs, inputs)
  take(case.grads.weights, weights or {})
  if #sources == 0 then return nil end
  local found = tape:gradient(target, sources, {unconnected_gradients = "zero"})
  return compare_all("gradient", found, wanted, case)
end

-- Computes the outputs (recorded), compares them, then their gradients.
local function check(case, compute, inputs, weights)
  local tape = ipu.GradientTape()
  local outputs
  local problem = check_gradients(case, tape, function()
    outputs = compute()
    return outputs
  end, inputs, weights)
  if not outputs then
    tape:close()
    outputs = compute()
  end
  return compare_all("output", outputs, case.outputs, case) or problem
end

-- ------------------------------------------------ groups

local groups = {}

function groups.activation(case)
  local f = parts.find("activation", case.name)
  local inputs, options = read_all(case.inputs), plain_args(case.args)
  return check(case, function() return {f(inputs[1], next(options) and options or nil)} end, inputs)
end

local function split_loss_arguments(case)
  local options = plain_args(case.args)
  local weighted = options.sample_weight
  options.sample_weight = nil
  return options, weighted
end

function groups.loss(case)
  local inputs = read_all(case.inputs)
  local constraint, regularizer = case.name:match("^constraint_(.*)"),
    case.name:match("^regularizer_(.*)")
  if constraint or regularizer then
    local kind = constraint and "constraint" or "regularizer"
    local object = find(kind, constraint or regularizer)(plain_args(case.args))
    return check(case, function() return {object(inputs[1])} end, inputs)
  end
  local options, weighted = split_loss_arguments(case)
  local loss = find("loss", case.name)(options)
  return check(case, function()
    return {loss(inputs[1], inputs[2], weighted and inputs[3] or nil)}
  end, inputs)
end

groups.op = groups.loss -- constraints are listed there

function groups.metric(case)
  local options = split_loss_arguments(case)
  local metric = find("metric", case.name)(options)
  for i, step in ipairs(case.steps) do
    metric:update_state(table.unpack(read_all(step.inputs)))
    if step.outputs then
      local problem = compare_all("value after step " .. i, {metric:result()}, step.outputs, case)
      if problem then return problem end
    end
  end
  return nil
end

function groups.optimizer(case)
  local spec = {name = case.name}
  for key, value in pairs(case.args) do spec[key] = value end
  local optimizer = make_optimizer(spec)
  local variables = {}
  for i, t in ipairs(read_all(case.inputs)) do variables[i] = ipu.Variable(t, {name = "v" .. i}) end
  for i, step in ipairs(case.steps) do
    optimizer:apply_gradients(read_all(step.grads), variables)
    local now = {}
    for k, v in ipairs(variables) do now[k] = v:read_value() end
    local problem = compare_all("variable after step " .. i .. ",", now, step.outputs, case)
    if problem then return problem end
  end
  return nil
end

function groups.schedule(case)
  local schedule = find("schedule", case.name)(plain_args(case.args))
  local rates = {}
  for i, step in ipairs(case.inputs[1].data) do
    rates[i] = schedule(ipu.tensor(step, {dtype = "int64"})):item()
  end
  return compare("learning rates", ipu.tensor(rates), case.outputs[1], case)
end

function groups.initializer(case)
  local options = plain_args(case.args)
  local shape = options.shape
  options.shape = nil
  local drawn = find("initializer", case.name)(options)(shape)
  local mean, std = ipu.reduce_mean(drawn):item(), ipu.reduce_std(drawn):item()
  local low, high = ipu.reduce_min(drawn):item(), ipu.reduce_max(drawn):item()
  local wanted = case.outputs[1].data
  for i, w in ipairs(wanted) do wanted[i] = values.number(w) end
  local slack = 1e-6 * (1 + math.abs(wanted[3]))
  if not values.near(mean, wanted[1], 0, case.atol) then
    return string.format("mean %g for %g", mean, wanted[1])
  end
  if not values.near(std, wanted[2], case.rtol, 0) then
    return string.format("standard deviation %g for %g", std, wanted[2])
  end
  if not (low >= wanted[3] - slack and high <= wanted[4] + slack) then
    return string.format("values from %g to %g, beyond %g … %g", low, high, wanted[3], wanted[4])
  end
  return nil
end

function groups.layer(case)
  local inputs = read_all(case.inputs)
  local options = layer_options(case)
  if inputs[1].dtype == "float16" then options.dtype = "float16" end
  local layer = make_layer(case.name, options)
  if case.args.alias then inputs[2] = inputs[1] end
  local given, passed = layer_call(case, inputs)
  local function call()
    local before = table.move(given, 1, #given, 1, {})
    before[#before + 1] = passed
    return as_list(layer(table.unpack(before)))
  end
  local weights = read_all(case.weights)
  if #weights > 0 then
    call()
    layer:set_weights(weights)
  end
  local function compute()
    local outputs = call()
    if #outputs < #case.outputs then -- updated statistics
      for _, v in ipairs(layer.non_trainable_weights) do outputs[#outputs + 1] = v:read_value() end
      outputs[#outputs + 1] = context.mask(outputs[1])
    end
    return outputs
  end
  return check(case, compute, inputs, layer.weights)
end

groups.model = run_model

---Runs one case. Groups: activation, layer, loss, metric, optimizer, schedule, initializer, model.
---@param case table
---@return boolean ok, string? message
function runner.run(case)
  local group = groups[case.group]
  if not group then return false, "unknown group '" .. tostring(case.group) .. "'" end
  context.training = nil
  local ok, problem = pcall(group, case)
  if not ok then return false, tostring(problem) end
  return problem == nil, problem
end

runner.groups = groups

return runner
