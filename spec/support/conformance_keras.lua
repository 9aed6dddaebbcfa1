-- Runs conformance cases of Keras' parts (see spec/conformance/README.md): names and arguments are mapped to
-- classes by rule, never by case.
--
--   local ok, message = runner.run(case)

local class = require "ipulua.class"
local context = require "ipulua.keras.context"
local ipu = require "ipulua"
local names = require "ipulua.keras.names"
local parts = require "ipulua.keras.parts"

local runner = {}

-- ------------------------------------------------ tensors

local special <const> = {nan = 0 / 0, inf = math.huge, ["-inf"] = -math.huge}

local function read_tensor(t)
  local data = {}
  for i, x in ipairs(t.data) do
    x = special[x] or x
    if t.dtype == "bool" then x = x == 1 or x == true end
    data[i] = x
  end
  return ipu.reshape(ipu.tensor(data, {dtype = t.dtype}), t.shape)
end

local function read_all(list)
  local out = {}
  for i, t in ipairs(list or {}) do out[i] = read_tensor(t) end
  return out
end

-- Numbers of nested lists, in order.
local function flat(value, out)
  if type(value) ~= "table" then
    out[#out + 1] = value == true and 1 or value == false and 0 or value
  else
    for _, each in ipairs(value) do flat(each, out) end
  end
  return out
end

local function number(x)
  x = special[x] or x
  if type(x) == "boolean" then return x and 1 or 0 end
  return x
end

local function close(got, wanted, rtol, atol)
  if wanted ~= wanted then return got ~= got end
  if wanted == math.huge or wanted == -math.huge then return got == wanted end
  return got == got and math.abs(got - wanted) <= atol + rtol * math.abs(wanted)
end

---nil, or words about the first difference.
local function compare(what, got, wanted, case)
  if type(got) == "number" then got = ipu.tensor(got) end
  if got == nil then return what .. " is missing" end
  local shape = got.shape
  if table.concat(shape, ",") ~= table.concat(wanted.shape, ",") then
    return string.format("%s has the shape [%s] for [%s]", what, table.concat(shape, ", "), table.concat(wanted.shape, ", "))
  end
  local exact = wanted.dtype == "int32" or wanted.dtype == "bool"
  local rtol, atol = exact and 0 or case.rtol or 1e-5, exact and 0 or case.atol or 1e-6
  local values = flat(got:totable(), {})
  for i, x in ipairs(values) do
    local y = number(wanted.data[i])
    if not close(x, y, rtol, atol) then
      return string.format("%s: element %d is %.9g for %.9g", what, i - 1, x, y)
    end
  end
  return nil
end

local function compare_all(what, got, wanted, case)
  if #got < #wanted then return string.format("%d %ss for %d", #got, what, #wanted) end
  for i, t in ipairs(wanted) do
    local problem = compare(what .. " " .. i - 1, got[i], t, case)
    if problem then return problem end
  end
  return nil
end

-- ------------------------------------------------ names

-- The class of a kind of part with a snake_case name, or another name that Keras knows it by.
local function find(kind, name)
  local found = parts.find(kind, name, {prefers_class = true})
  if not class.is_class(found) then error("there is no class '" .. name .. "'", 0) end
  return found
end

-- Decimals that stand for integers are integers here; null is absent.
local function plain_args(args)
  local out = {}
  for key, value in pairs(args or {}) do
    if type(value) == "table" then
      out[key] = value.data and read_tensor(value) or plain_args(value)
    elseif type(value) ~= "userdata" then
      out[key] = value
    end
  end
  return out
end

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
  local function take(list, values)
    for i, w in ipairs(list or {}) do
      if type(w) == "table" and w.data then
        sources[#sources + 1] = values[i]
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
  local constraint, regularizer = case.name:match("^constraint_(.*)"), case.name:match("^regularizer_(.*)")
  if constraint or regularizer then
    local kind = constraint and "constraint" or "regularizer"
    local object = find(kind, constraint or regularizer)(plain_args(case.args))
    return check(case, function() return {object(inputs[1])} end, inputs)
  end
  local options, weighted = split_loss_arguments(case)
  local loss = find("loss", case.name)(options)
  return check(case, function() return {loss(inputs[1], inputs[2], weighted and inputs[3] or nil)} end, inputs)
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

local function make_optimizer(spec)
  local options = plain_args(spec)
  options.name = nil
  if type(options.learning_rate) == "table" then
    local schedule = options.learning_rate
    local name = schedule.schedule or schedule.name
    schedule.schedule, schedule.name = nil, nil
    options.learning_rate = find("schedule", name)(schedule)
  end
  return find("optimizer", spec.name)(options)
end

function groups.optimizer(case)
  local spec = {name = case.name}
  for key, value in pairs(case.args) do spec[key] = value end
  local optimizer = make_optimizer(spec)
  local variables = {}
  for i, t in ipairs(read_all(case.inputs)) do variables[i] = ipu.Variable(t, {name = "v" .. i}) end
  for i, step in ipairs(case.steps) do
    optimizer:apply_gradients(read_all(step.grads), variables)
    local values = {}
    for k, v in ipairs(variables) do values[k] = v:read_value() end
    local problem = compare_all("variable after step " .. i .. ",", values, step.outputs, case)
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
  local values = find("initializer", case.name)(options)(shape)
  local mean, std = ipu.reduce_mean(values):item(), ipu.reduce_std(values):item()
  local low, high = ipu.reduce_min(values):item(), ipu.reduce_max(values):item()
  local wanted = case.outputs[1].data
  for i, w in ipairs(wanted) do wanted[i] = number(w) end
  local slack = 1e-6 * (1 + math.abs(wanted[3]))
  if math.abs(mean - wanted[1]) > case.atol then return string.format("mean %g for %g", mean, wanted[1]) end
  if math.abs(std - wanted[2]) > case.rtol * math.abs(wanted[2]) then
    return string.format("standard deviation %g for %g", std, wanted[2])
  end
  if low < wanted[3] - slack or high > wanted[4] + slack then
    return string.format("values from %g to %g, beyond %g … %g", low, high, wanted[3], wanted[4])
  end
  return nil
end

-- How many inputs a layer's call takes as one list, and what further ones are.
local merges <const> = {
  add = true, subtract = true, multiply = true, average = true, maximum = true, minimum = true, concatenate = true,
  dot = true, attention = true, additiveattention = true,
}

local not_arguments <const> = {
  training = true, mask = true, initial_state = true, query_mask = true, value_mask = true, causal_mask = true,
  attention_mask = true, return_attention_scores = true, use_causal_mask = true, fused = true, alias = true,
}

local function layer_options(case)
  local options = plain_args(case.args)
  for name in pairs(not_arguments) do options[name] = nil end
  return options
end

-- The positional arguments and named options of a layer's call, from the inputs of a case.
local function layer_call(case, inputs)
  local a = case.args
  local options = {training = a.training or false}
  local rest = table.move(inputs, 1, #inputs, 1, {})
  local name = names.plain(case.name)
  if name == "multiheadattention" then
    if a.attention_mask then options.attention_mask = table.remove(rest) end
    options.return_attention_scores, options.use_causal_mask = a.return_attention_scores, a.use_causal_mask
    if #rest == 1 then rest[2] = rest[1] end
    if rest[3] then options.key = table.remove(rest, 3) end
    return rest, options
  end
  if name == "attention" or name == "additiveattention" then
    local masks = {}
    if a.value_mask then masks[2] = table.remove(rest) end
    if a.query_mask then masks[1] = table.remove(rest) end
    if next(masks) then options.mask = {masks[1] or false, masks[2] or false} end
    options.return_attention_scores, options.use_causal_mask = a.return_attention_scores, a.use_causal_mask
    return {rest}, options
  end
  if merges[name] then return {rest}, options end
  if a.mask then options.mask = table.remove(rest) end
  if #rest > 1 then
    local first = table.remove(rest, 1)
    if a.initial_state or name:find("cell$") then
      if name:find("cell$") then return {first, rest}, options end
      options.initial_state = rest
    else
      options.mask = rest[1]
    end
    rest = {first}
  end
  return rest, options
end

local function as_list(...)
  local results = table.pack(...)
  local out = {}
  for i = 1, results.n do
    if type(results[i]) == "table" and getmetatable(results[i]) == nil then
      table.move(results[i], 1, #results[i], #out + 1, out)
    else
      out[#out + 1] = results[i]
    end
  end
  return out
end

-- Arguments that are parts themselves: a name, {class_name =, config =}, or a name beside the part's own arguments.
local part_kinds <const> = {
  {"_regularizer$", "regularizer", "l1_l2"}, {"_constraint$", "constraint"}, {"_initializer$", "initializer"},
}

local function make_parts(options)
  for key, value in pairs(options) do
    for _, row in ipairs(part_kinds) do
      if key:find(row[1]) and type(value) == "table" and not value.class_name then
        local name = value.name or row[3]
        value.name = nil
        options[key] = find(row[2], name)(value)
      end
    end
  end
  return options
end

local make_layer

-- A layer or cell inside another: its name beside its arguments, or a table of them.
local function make_inner(given, options)
  if type(given) == "string" then return make_layer(given, options) end
  local name = given.name or given.class_name or given.class
  local inner = given.config or given.args or given
  inner.name, inner.class = nil, nil
  return make_layer(name, inner)
end

local own_of_wrappers <const> = {
  merge_mode = "layer", return_sequences = "cell", return_state = "cell", go_backwards = "cell", stateful = "cell",
  unroll = "cell", time_major = "cell", zero_output_for_mask = "cell",
}

function make_layer(name, options)
  local wraps = options.layer and "layer" or options.cell and "cell"
  if wraps then
    local outer, inner = {}, {}
    for key, value in pairs(options) do
      if own_of_wrappers[key] == wraps then outer[key] = value elseif key ~= wraps then inner[key] = value end
    end
    outer[wraps] = make_inner(options[wraps], inner)
    options = outer
  end
  return find("layer", name)(make_parts(options))
end

function groups.layer(case)
  local inputs = read_all(case.inputs)
  local options = layer_options(case)
  if inputs[1].dtype == "float16" then options.dtype = "float16" end
  local layer = make_layer(case.name, options)
  if case.args.fused ~= nil then layer.fused = case.args.fused end
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

-- ------------------------------------------------ models

local function build_model(a)
  local tensors, list = {}, {}
  for _, name in ipairs(a.input_names) do
    local spec = a.inputs[name]
    tensors[name] = ipu.keras.Input{shape = spec.shape, dtype = spec.dtype, name = name}
    list[#list + 1] = tensors[name]
  end
  local by_name = {}
  for _, l in ipairs(a.layers) do
    local options = layer_options{args = l.args}
    options.name = l.name
    local layer = make_layer(l.class, options)
    by_name[#by_name + 1] = layer
    local operands = {}
    for i, name in ipairs(l.inputs) do operands[i] = tensors[name] end
    local given, passed = layer_call({name = l.class, args = l.args}, operands)
    passed.training = nil
    given[#given + 1] = passed
    tensors[l.name] = layer(table.unpack(given))
  end
  return ipu.keras.Model{inputs = #list == 1 and list[1] or list, outputs = tensors[a.output]}, by_name
end

local function set_weights(layers, weights)
  local at = 1
  for _, layer in ipairs(layers) do
    local count = #layer.weights
    layer:set_weights(table.move(weights, at, at + count - 1, 1, {}))
    at = at + count
  end
end

local function rows_of(tensor, first, last)
  local begin, size = {}, {}
  for i, extent in ipairs(tensor.shape) do begin[i], size[i] = 0, extent end
  begin[1], size[1] = first, last - first
  return ipu.slice(tensor, begin, size)
end

-- The names of the inputs in the order of the data: as the first layers that use them appear.
local function input_names(a)
  local list, seen = {}, {}
  for _, l in ipairs(a.layers) do
    for _, name in ipairs(l.inputs) do
      if a.inputs[name] and not seen[name] then
        seen[name] = true
        list[#list + 1] = name
      end
    end
  end
  return list
end

-- The gradients of one optimizer step as Keras' pieces give them: micro-batches accumulate, replicas average.
local function gradient_step(case, model, loss, data, step)
  local a = case.args
  local variables = model.trainable_variables
  local sums, step_losses = {}, {}
  local function one(x, y)
    local tape = ipu.GradientTape()
    local value = tape(function()
      local total = loss(y, model(x, {training = true}))
      for _, extra in ipairs(model.losses) do total = total + extra end
      return total
    end)
    return value, tape:gradient(value, variables)
  end
  local count = #step.rows
  for m, range in ipairs(step.rows) do
    local rows = {}
    for i = 1, #data do rows[i] = rows_of(data[i], range[1], range[2]) end
    local y = table.remove(rows)
    local value, grads = one(#rows == 1 and rows[1] or rows, y)
    step_losses[m] = value:item()
    for i = 1, #variables do
      local g = grads[i]
      if g and type(g) ~= "userdata" then g = nil end
      if g then sums[i] = sums[i] and sums[i] + g or g end
    end
  end
  local replicas = a.replicas or 1
  local divisor = a.gradient_reduction == "sum" and replicas or count
  for i, g in pairs(sums) do sums[i] = g / divisor end
  return sums, step_losses
end

local function compare_losses(case, step, got, index)
  local wanted = {}
  for _, list in ipairs(step.losses) do
    for _, loss in ipairs(list) do wanted[#wanted + 1] = loss end
  end
  for i, w in ipairs(wanted) do
    if not close(got[i], w, case.rtol, case.atol) then
      return string.format("step %d: loss %d is %.9g for %.9g", index, i - 1, got[i], w)
    end
  end
  return nil
end

function groups.model(case)
  local a = case.args
  a.input_names = input_names(a)
  local model, layers = build_model(a)
  set_weights(layers, read_all(case.weights))
  local options = plain_args(a.loss)
  local loss_name = options.name
  options.name = nil
  local loss = find("loss", loss_name)(options)
  local optimizer = make_optimizer(a.optimizer)
  local data = read_all(case.inputs)
  for index, step in ipairs(case.steps) do
    local grads, values = gradient_step(case, model, loss, data, step)
    local problem = compare_losses(case, step, values, index)
    if problem then return problem end
    optimizer:apply_gradients(grads, model.trainable_variables)
  end
  local weights = {}
  for _, layer in ipairs(layers) do
    for _, value in ipairs(layer:get_weights()) do weights[#weights + 1] = value end
  end
  return compare_all("final weight", weights, case.outputs, case)
end

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
