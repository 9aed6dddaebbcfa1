-- The price of a model: its training or its prediction, traced for described inputs.

local args = require "ipulua.base.args"
local assignment = require "ipulua.keras.models.stage_assignment"
local blame = require "ipulua.base.blame"
local changes = require "ipulua.keras.training.changes"
local config = require "ipulua.config"
local core = require "ipulua.core"
local counted = require "ipulua.base.counted"
local data = require "ipulua.data"
local infer = require "ipulua.keras.base.infer"
local KerasTensor = require "ipulua.keras.base.tensor"
local machine = require "ipulua.config.target"
local nest = require "ipulua.base.nest"
local outline = require "ipulua.data.outline"
local plain = require "ipulua.base.plain"
local pricing = require "ipulua.machine.pricing"
local remedies = require "ipulua.machine.remedies"
local steps = require "ipulua.keras.training.steps"
local structure = require "ipulua.base.structure"
local together = require "ipulua.keras.base.together"

local methods = {}

-- Extents in a row; {} is the shape of a scalar.
local function is_shape(x)
  return structure.is_plain(x) and (next(x) == nil or math.type(x[1]) == "integer")
end

-- The description 'inputs' or 'labels': {shape =, dtype =} for each tensor, in the given structure.
local function described(spec, argument, depth)
  if core.is_tensor(spec) then return {shape = spec.shape, dtype = spec.dtype} end
  if is_shape(spec) then return {shape = pricing.known(spec, argument), dtype = "float32"} end
  if not structure.is_plain(spec) then
    blame.error(
      string.format("estimate: '%s' must be shapes, {shape =, dtype =} or tensors, got %s",
        argument, args.describe(spec)),
      "type")
  end
  if spec.shape then
    return {shape = pricing.known(spec.shape, argument), dtype = spec.dtype or "float32"}
  end
  local out = {}
  depth = plain.deeper(depth or 0)
  for k, v in pairs(spec) do out[k] = described(v, argument, depth) end
  return out
end

local function first_spec(specs)
  if specs.shape then return specs end
  for _, key in ipairs(structure.sorted_keys(specs)) do
    local found = first_spec(specs[key])
    if found then return found end
  end
end

-- Shapes and dtypes of a model's inputs with the batch, in their structure.
local function input_specs(model, a, batch)
  local function with_batch(shape, dtype)
    local full = table.move(shape, 1, #shape, 1, {})
    if full[1] == nil or full[1] < 0 then full[1] = batch end
    return {shape = full, dtype = dtype}
  end
  if a.inputs then
    local specs = described(a.inputs, "inputs")
    local given = first_spec(specs)
    if a.batch_size and given and given.shape[1] ~= a.batch_size then
      blame.error(string.format("estimate: 'batch_size' is %d, but 'inputs' describes %s",
        a.batch_size,
        counted(given.shape[1] or 0, "sample")), "value")
    end
    return specs
  end
  if not model._graph then
    blame.error(string.format("estimate: model '%s' is not built; say the shapes of its inputs: "
      .. "inputs = {32, 28, 28}", model.name),
      "value")
  end
  return nest.map(function(t) return with_batch(t.shape, t.dtype) end, model._graph.input_structure)
end

-- Labels in the form of the loss: classes for sparse losses, else values like the outputs.
local function label_specs(model, outputs, a)
  if a.labels then return described(a.labels, "labels") end
  local list, given = {}, model.compiled:losses_of(steps.outputs(model, outputs))
  for i, out in ipairs(nest.flatten(outputs)) do
    local shape = table.move(out.shape, 1, #out.shape, 1, {})
    if given[i] and given[i].is_sparse then
      shape[#shape] = nil
      list[i] = {shape = shape, dtype = "int32"}
    else
      list[i] = {shape = shape, dtype = "float32"}
    end
  end
  return #list == 1 and list[1] or list
end

-- The model's outputs for inputs of known shapes: {shape =} in the outputs' structure.
local function output_types(model, specs)
  local function keras_tensors(s)
    if s.shape then return KerasTensor(s.shape, s.dtype) end
    local out = {}
    for k, v in pairs(s) do out[k] = keras_tensors(v) end
    return out
  end
  local inputs = keras_tensors(specs)
  if not model._graph and not rawget(model, "output_types") then model:build_with(inputs) end
  local types = infer.results(function(...) return model(...) end,
    {n = 1, inputs}, KerasTensor.is)
  return types[1]
end

-- To be closed: until then the device has the given number of IPUs or, if nothing was configured,
-- as many as the stages need.
local function pretend_ipus(model, a)
  local shards = assignment.shards
  return config.pretend_ipus(a.ipus or not config.is_configured() and shards(model) or nil)
end

-- Training is counted by weight updates, prediction by runs of the pipeline.
local function steps_of(model, training)
  if training then return assignment.accumulation(model) end
  return model:is_pipelined() and model._options.pipelining.gradient_accumulation_steps_per_replica
    or 1
end

local eagerly_meta = {__close = function(self) rawset(self[1], "run_eagerly", self[2]) end}

-- To be closed: until then steps are compiled. Op by op the program would only fetch the data.
local function compile_steps(model)
  local former = rawget(model, "run_eagerly")
  if former then rawset(model, "run_eagerly", false) end
  return setmetatable({model, former}, eagerly_meta)
end

---The price of a weight update or, where it isn't compiled, of a prediction. Further results: how
---many samples an element holds; a function that prices changes which may make it fit.
---@package
---@param a table arguments of ipu.estimate
function methods:priced(a)
  local training = a.training
  if training == nil then training = self.compiled ~= nil end
  if training and not self.compiled then
    blame.error(string.format("estimate: model '%s' must be compiled before its training can be "
      .. "estimated", self.name), "runtime")
  end
  local _ <close> = pricing.mode()
  local _ <close> = compile_steps(self)
  local _ <close> = together.enter(self)
  local _ <close> = pretend_ipus(self, a)
  local specs = input_specs(self, a, a.batch_size or 32)
  local outputs, count_of_steps = output_types(self, specs), steps_of(self, training)
  local element = training and {specs, label_specs(self, outputs, a)} or specs
  -- inputs alone, several: one value of an element, for the second of two would be labels
  if not training and not specs.shape then element = {element} end
  local infeed = data.IPUInfeedQueue(outline(element))
  local make, ordinal = training and steps.train_program or steps.predict_program,
    config.device(0).ordinal
  local options = machine.options(a, ordinal)
  options.calls = count_of_steps / math.max(self.steps_per_execution or 1, count_of_steps)
  local price = machine.price(make(self, infeed, count_of_steps).func:outline(), options)
  return price, first_spec(specs).shape[1], function()
    local _ <close> = pricing.mode()
    local _ <close> = compile_steps(self)
    local _ <close> = pretend_ipus(self, a)
    local changed = changes.of(make, self, infeed, count_of_steps)
    return remedies.price(self.name, changed, a, ordinal)
  end
end

return {methods = methods}
