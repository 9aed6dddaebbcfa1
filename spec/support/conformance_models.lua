-- Runs conformance cases of whole models: training from given weights, micro-batch by micro-batch.

local ipu = require "ipulua"
local shared = require "spec.support.conformance_parts"

local read_all = shared.read_all
local close = shared.close
local compare_all = shared.compare_all
local find = shared.find
local plain_args = shared.plain_args
local make_optimizer = shared.make_optimizer
local layer_call = shared.layer_call
local layer_options = shared.layer_options
local make_layer = shared.make_layer

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
  return ipu.keras.Model{inputs = #list == 1 and list[1] or list, outputs = tensors[a.output]},
    by_name
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

-- The gradients of one optimizer step as Keras' pieces give them: micro-batches accumulate,
-- replicas average.
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
  if #got ~= #wanted then
    return string.format("step %d: %d losses for %d", index, #got, #wanted)
  end
  for i, w in ipairs(wanted) do
    if not close(got[i], w, case.rtol, case.atol) then
      return string.format("step %d: loss %d is %.9g for %.9g", index, i - 1, got[i], w)
    end
  end
  return nil
end

---Runs a case of the group model: nil, or words about the first difference.
---@param case table
---@return string?
return function(case)
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
