-- ipu.estimate: what a function or a model would cost on IPUs. Nothing runs and nothing of a
-- model's size is allocated.

local args = require "ipulua.base.args"
local blame = require "ipulua.base.blame"
local class = require "ipulua.base.class"
local config = require "ipulua.config"
local core = require "ipulua.core"
local counted = require "ipulua.base.counted"
local devices = require "ipulua.config.devices"
local func = require "ipulua.trace.func"
local machine = require "ipulua.config.target"
local plain = require "ipulua.base.plain"
local remedies = require "ipulua.machine.remedies"
local structure = require "ipulua.base.structure"

local estimate = {}

local function count(name, says)
  return {name, "integer", optional = true, range = "[1, inf)", says = says}
end

local rows <const> = {
  {"fn", "any", one = true, of = "Function, function or Model"}, count("batch_size", "samples"),
  {"inputs", "any", optional = true, of = "shape, {shape =, dtype =}, tensor or list of these",
    says = "with the batch; of a model its own by default"},
  {"target", {"string", "table"}, optional = true,
    says = "gc2, gc200, bow, c600 or a description; the configuration's by default"},
  count("ipus", "of the device; as configured by default, or as many as the program uses; more "
    .. "make replicas"),
  {"labels", "any", optional = true, of = "as inputs",
    says = "of the loss; by default as the outputs"},
  {"training", "boolean", optional = true,
    says = "of a model: a weight update, not a prediction; by default if it is compiled"},
  {"topology", "string", optional = true, choices = {"mesh", "torus", "line"},
    says = "of the links between IPUs; mesh by default"},
  {"host", "string", optional = true, choices = {"machine", "model"}},
  {"explain", "boolean", false, says = "add a text about what doesn't fit"},
}

local estimating_meta = {__close = function(self) core.set_estimating(self.former) end}

---To be closed: until then programs are only outlined and variables made have no values.
function estimate.mode()
  return setmetatable({former = core.set_estimating(true)}, estimating_meta)
end

local drawn_meta <const> = {__close = function(self)
  core.set_random_place(self[1], self[2], self[3], true)
end}

-- To be closed: what is traced until then draws no random numbers that others would draw.
local function draw_nothing() return setmetatable({core.random_place()}, drawn_meta) end

-- Devices have 1, 2, 4 … IPUs; the IPU Model takes any number.
local function check_ipus(ipus)
  if not ipus or devices.is_system_size(ipus) or config.running_on_ipu_model() then return end
  blame.error(string.format("estimate: there is no device of %d IPUs; devices have a power of two, "
    .. "at most 1024", ipus), "value")
end

-- A shape whose extents are all known; argument is whose it is.
local function known(shape, argument)
  if not structure.is_plain(shape) then
    blame.error(string.format("estimate: '%s': 'shape' must be a list, got %s", argument,
      args.describe(shape)), "type")
  end
  for _, extent in ipairs(shape) do
    if math.type(extent) == "integer" and extent < 0 then
      blame.error(string.format("estimate: '%s': every extent must be known, the batch's, too; got "
        .. "{%s}", argument,
        table.concat(shape, ", ")), "value")
    end
  end
  return shape
end

-- In the function being traced: an argument for a tensor, a shape or {shape =, dtype =}; integers
-- of rank 0 stay known, since they may count iterations. Nothing of an argument's size is made;
-- make(dtype, shape, name) makes it.
local function as_argument(spec, name, make)
  if core.is_variable(spec) then return spec end
  if core.is_tensor(spec) then
    if #spec.shape == 0 and spec.dtype:find("int", 1, true) then return spec end
    return make(spec.dtype, spec.shape, name)
  end
  if not structure.is_plain(spec) then return spec end
  if spec.shape then return make(spec.dtype or "float32", known(spec.shape, "inputs"), name) end
  if #spec > 0 and math.type(spec[1]) == "integer" then
    return make("float32", known(spec, "inputs"), name)
  end
  local out = {}
  for _, k in ipairs(structure.sorted_keys(spec)) do out[k] = as_argument(spec[k], name, make) end
  return out
end

-- {…} are several arguments; a single tensor, shape or spec is one.
local function arguments_of(inputs)
  local single = not structure.is_plain(inputs) or inputs.shape or math.type(inputs[1]) == "integer"
  return single and {inputs} or inputs
end

-- The price's table with what only the caller knows: how many samples an element of an infeed
-- holds.
local function finished(price, samples)
  local result = price:summary()
  local elements = result.elements
  if not samples then samples = result.batch > 0 and result.batch or 1 end
  local runs = elements > 0 and elements or result.replicas
  result.samples_per_second = result.seconds > 0 and samples * runs / result.seconds or 0
  result.batch, result.elements = nil, nil
  return plain.mark(result)
end

-- ------------------------------------------------ functions

-- What a function computes with arguments that nobody described can't be priced.
local function check_count(f, given)
  local wanted = func.parameters(f)
  if #given >= wanted then return end
  blame.error(string.format("estimate: the function takes %s, but 'inputs' describes %d: give "
    .. "tensors or shapes, as in "
    .. "inputs = {{32, 784}}", counted(wanted, "value"), #given), "value")
end

-- The program of f for arguments that are described.
local function outlined(f, given, make)
  return func.func(function()
    local list = {}
    for i, each in ipairs(given) do list[i] = as_argument(each, "argument " .. i, make) end
    return f.f(table.unpack(list))
  end, {name = f.name}):outline()
end

-- The same for half the batch, types being the arguments' {dtype =, shape =} in the order in which
-- they are made.
local function halved(f, given, types)
  local smaller, batch = remedies.halved(types)
  if not smaller then return nil end
  local at = 0
  return outlined(f, given, function(_, _, name)
    at = at + 1
    return core.trace_argument(smaller[at].dtype, smaller[at].shape, name)
  end), remedies.words_of_half(batch)
end

local function of_described(f, a)
  local given, types = arguments_of(a.inputs or {}), {}
  check_count(f.f, given)
  local entry = outlined(f, given, function(dtype, shape, name)
    types[#types + 1] = {dtype = dtype, shape = shape}
    return core.trace_argument(dtype, shape, name)
  end)
  return machine.price(entry, machine.options(a, entry.device)), nil, function()
    return remedies.price(f.name, {function() return halved(f, given, types) end}, a, entry.device)
  end
end

local function of_function(f, a)
  if not func.is_function(f) then f = func.func(f, {name = "estimate"}) end
  local entry = f.order[#f.order]
  if a.inputs ~= nil or not entry then return of_described(f, a) end
  return machine.price(entry, machine.options(a, entry.device)), nil, function()
    return remedies.of(entry, a)
  end
end

-- ------------------------------------------------ models

local function is_model(x) return class.is_a(x, require "ipulua.keras.models.model".Model) end

-- Extents in a row; {} is the shape of a scalar.
local function is_shape(x)
  return structure.is_plain(x) and (next(x) == nil or math.type(x[1]) == "integer")
end

-- What 'inputs' or 'labels' describes: {shape =, dtype =} for each tensor, in the structure given.
local function described(spec, argument, depth)
  if core.is_tensor(spec) then return {shape = spec.shape, dtype = spec.dtype} end
  if is_shape(spec) then return {shape = known(spec, argument), dtype = "float32"} end
  if not structure.is_plain(spec) then
    blame.error(
      string.format("estimate: '%s' must be shapes, {shape =, dtype =} or tensors, got %s",
        argument, args.describe(spec)),
      "type")
  end
  if spec.shape then
    return {shape = known(spec.shape, argument), dtype = spec.dtype or "float32"}
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
  local nest = require "ipulua.keras.base.nest"
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

local function loss_name(loss)
  if type(loss) == "string" then return loss:lower() end
  local c = class.of(loss)
  if c then return (c.__name or ""):lower() end
  for name, f in pairs(require "ipulua.keras.losses") do
    if f == loss then return name:lower() end
  end
  return ""
end

-- Labels as the loss wants them: classes for sparse losses, else values like the outputs.
local function label_specs(model, outputs, a)
  if a.labels then return described(a.labels, "labels") end
  local nest = require "ipulua.keras.base.nest"
  local list = {}
  for i, out in ipairs(nest.flatten(outputs)) do
    local loss = model.compile_arguments.loss
    if structure.is_plain(loss) and not loss.class_name then
      loss = loss[i] or loss[model._graph and model._graph.outputs[i].layer.name]
    end
    local shape = table.move(out.shape, 1, #out.shape, 1, {})
    if loss_name(loss):find("sparse", 1, true) then
      shape[#shape] = nil
      list[i] = {shape = shape, dtype = "int32"}
    else
      list[i] = {shape = shape, dtype = "float32"}
    end
  end
  return #list == 1 and list[1] or list
end

-- What the model gives for inputs of known shapes: {shape =} in the outputs' structure.
local function output_types(model, specs)
  local KerasTensor = require "ipulua.keras.base.tensor"
  local function keras_tensors(s)
    if s.shape then return KerasTensor(s.shape, s.dtype) end
    local out = {}
    for k, v in pairs(s) do out[k] = keras_tensors(v) end
    return out
  end
  local inputs = keras_tensors(specs)
  if not model._graph and not rawget(model, "output_types") then model:build_with(inputs) end
  local types = require "ipulua.keras.base.infer".results(function(...) return model(...) end,
    {n = 1, inputs}, KerasTensor.is)
  return types[1]
end

-- To be closed: until then the device has the IPUs asked for, or those of the stages where nothing
-- was configured.
local function pretend_ipus(model, a)
  local shards = require "ipulua.keras.models.stage_assignment".shards
  return config.pretend_ipus(a.ipus or not config.is_configured() and shards(model) or nil)
end

-- Training is counted by weight updates, prediction by runs of the pipeline.
local function steps_of(model, training)
  local pipelining = require "ipulua.keras.models.stage_assignment"
  if training then return pipelining.accumulation(model) end
  return model:is_pipelined() and model._options.pipelining.gradient_accumulation_steps_per_replica
    or 1
end

-- See estimate.price.
local function of_model(model, a)
  local data = require "ipulua.data"
  local steps = require "ipulua.keras.training.steps"
  local training = a.training
  if training == nil then training = model.compiled ~= nil end
  if training and not model.compiled then
    blame.error(string.format("estimate: model '%s' must be compiled before its training can be "
      .. "estimated", model.name), "runtime")
  end
  local _ <close> = estimate.mode()
  local _ <close> = pretend_ipus(model, a)
  local specs = input_specs(model, a, a.batch_size or 32)
  local outputs, count_of_steps = output_types(model, specs), steps_of(model, training)
  local element = training and {specs, label_specs(model, outputs, a)} or specs
  -- inputs alone, several: one value of an element, for the second of two would be labels
  if not training and not specs.shape then element = {element} end
  local infeed = data.IPUInfeedQueue(require "ipulua.data.outline"(element))
  local make, ordinal = training and steps.train_program or steps.predict_program,
    config.device(0).ordinal
  local options = machine.options(a, ordinal)
  options.calls = count_of_steps / math.max(model.steps_per_execution or 1, count_of_steps)
  local price = machine.price(make(model, infeed, count_of_steps).func:outline(), options)
  return price, first_spec(specs).shape[1], function()
    local _ <close> = estimate.mode()
    local _ <close> = pretend_ipus(model, a)
    local changes = require "ipulua.keras.training.changes".of(make, model, infeed, count_of_steps)
    return remedies.price(model.name, changes, a, ordinal)
  end
end

---The price of a function or model: {target, ipus, fits, seconds, samples_per_second, cycles,
---memory, max_tile_bytes, tile_bytes, stages, …}. Of a model: one weight update if it is compiled,
---else one prediction. A function that returns a model is called first; the weights made in it have
---no values, so that their size doesn't matter. With explain, explanation is a text about what
---doesn't fit: by how much, the largest tensors, and what each remedy saves; nil if all fits.
---Shapes: inputs: shapes, or {shape =, dtype =}, or tensors, with the batch
---Units: seconds; cycles of the chip's clock; memory in bytes; max_tile_bytes and tile_bytes in
---bytes of one tile; samples per second
---Errors: neither function nor model, a model that is not built when inputs aren't given, an
---unknown target, a number of IPUs that no device has (the IPU Model takes any); a program that
---doesn't
---fit is no error (fits is false): `ipu.estimate(1)`, `ipu.estimate(f, {target = "gc3"})`
---@param ... any fn or model, {batch_size, inputs, target, ipus, labels, training, topology, …}
---@return table
function estimate.estimate(...)
  local a = args.check("estimate", rows, ...)
  local _ <close> = draw_nothing()
  local price, samples, changed = estimate.price(a)
  local result = finished(price, a.batch_size or samples)
  if a.explain and not result.fits then
    result.explanation = price:complaint(changed and changed())
  end
  return result
end

---The price itself; of a model how many samples an element holds; and a function that prices
---changes which may make it fit.
function estimate.price(a)
  local what = a.fn
  check_ipus(a.ipus)
  local _ <close> = draw_nothing()
  local _ <close> = config.pretend_ipus(a.ipus)
  local _ <close> = machine.pretend_target(a.target)
  if is_model(what) then return of_model(what, a) end
  if type(what) == "function" and a.inputs == nil then
    check_count(what, {})
    local made
    local traced = func.func(function() made = what() return made end,
      {name = "estimate"}):outline()
    if is_model(made) then return of_model(made, a) end
    return machine.price(traced, machine.options(a, traced.device))
  end
  if type(what) ~= "function" and not func.is_function(what) then
    blame.error("estimate: a function or a model is wanted, got " .. args.describe(what), "type")
  end
  return of_function(what, a)
end

return estimate
