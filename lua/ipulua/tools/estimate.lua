-- ipu.estimate: what a function or a model would cost on IPUs. Nothing runs and nothing of a
-- model's size is allocated.

local args = require "ipulua.base.args"
local blame = require "ipulua.base.blame"
local chips = require "ipulua.config.chips"
local class = require "ipulua.base.class"
local config = require "ipulua.config"
local core = require "ipulua.core"
local counted = require "ipulua.base.counted"
local func = require "ipulua.trace.func"
local launch = require "ipulua.config.launch"
local machine = require "ipulua.config.target"
local pricing = require "ipulua.machine.pricing"
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
    says = chips.names .. " or a description; the configuration's by default"},
  count("ipus", "of the device; as configured by default, or as many as the program uses; more "
    .. "make replicas"),
  count("instances", "processes, each with such a device and a host of its own"),
  {"labels", "any", optional = true, of = "as inputs",
    says = "of the loss; by default as the outputs"},
  {"training", "boolean", optional = true,
    says = "of a model: a weight update, not a prediction; by default if it is compiled"},
  {"topology", "string", optional = true, choices = {"mesh", "torus", "line"},
    says = "of the links between IPUs; mesh by default"},
  {"host", "string", optional = true, choices = {"machine", "model"}},
  {"timing", "string", "steps", choices = {"steps", "dependencies"},
    says = "of pipelines: all IPUs step together, as they do; or each pass begins when its "
      .. "operands are there and its IPU is free"},
  {"explain", "boolean", false, says = "add a text about what doesn't fit"},
}

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
  if spec.shape then
    return make(spec.dtype or "float32", pricing.known(spec.shape, "inputs"), name)
  end
  if next(spec) == nil or math.type(spec[1]) == "integer" then -- {}: of rank 0
    return make("float32", pricing.known(spec, "inputs"), name)
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

-- The lines that print shows above the table: the time, the need of a tile, and the band of both.
local function headline(e)
  return string.format("%s on %s of %s: %.4g ms, within %.0f %% in the mean; fullest tile %d of "
      .. "%d KiB, within %.0f %%%s",
    e.name, counted(e.ipus, "IPU"), e.target, e.seconds * 1e3, 100 * e.band.cycles,
    e.fullest_tile_bytes // 1024, e.tile_bytes // 1024, 100 * e.band.memory,
    e.fits and "" or "; it does not fit")
end

local function with_headline(e)
  local first, show = headline(e), getmetatable(e).__tostring
  return setmetatable(e, {plain = true,
    __tostring = function(self) return first .. "\n" .. show(self) end})
end

-- The price's table with a fact of the caller: the number of samples in an element of an infeed.
local function finished(price, samples)
  local result = price:summary()
  local elements = result.elements
  if not samples then samples = result.batch > 0 and result.batch or 1 end
  local runs = elements > 0 and elements or result.replicas
  result.samples_per_second = result.seconds > 0 and samples * runs / result.seconds or 0
  result.batch, result.elements = nil, nil
  return with_headline(plain.mark(result))
end

-- ------------------------------------------------ functions

-- Ops on arguments without a description can't be priced.
local function check_count(f, given)
  local wanted = func.parameters(f)
  if #given >= wanted then return end
  blame.error(string.format("estimate: the function takes %s, but 'inputs' describes %d: give "
    .. "tensors or shapes, as in "
    .. "inputs = {{32, 784}}", counted(wanted, "value"), #given), "value")
end

-- Whether inputs beside f describe the model that it returns, since f takes nothing.
local function takes_nothing(f)
  local wanted, more = func.parameters(f)
  return wanted == 0 and not more
end

-- The results of a function of the inputs. A model would be priced as a program without ops.
local function check_results(first, ...)
  if class.of(first) and class.of(first).is_model then
    blame.error("estimate: a function that returns a model takes nothing; 'inputs' are the model's",
      "type")
  end
  return first, ...
end

-- The program of f for arguments that are described.
local function outlined(f, given, make)
  return func.func(function()
    local list = {}
    for i, each in ipairs(given) do list[i] = as_argument(each, "argument " .. i, make) end
    return check_results(f.f(table.unpack(list)))
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

---The price of a function or model: {target, ipus, replicas, instances, local_replicas, fits,
---seconds, samples_per_second, cycles,
---band, memory, max_tile_bytes, tile_bytes, stages, …}. Of a model: one weight update if it is
---compiled,
---else one prediction. A function that returns a model is called first; the weights made in it have
---no values, so that their size doesn't matter. With explain, explanation is a text about a program
---that doesn't fit, otherwise nil. It says by how much, and lists the largest tensors and the bytes
---that each remedy saves.
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
  local _ <close> = pricing.draw_nothing()
  local price, samples, changed = estimate.price(a)
  local result = finished(price, a.batch_size or samples)
  if a.explain and not result.fits then
    result.explanation = price:complaint(changed and changed())
  end
  return result
end

---The price itself. Further results: of a model how many samples an element holds; a function that
---prices changes which may make it fit.
function estimate.price(a)
  local what = a.fn
  pricing.check_ipus(a.ipus)
  local _ <close> = pricing.draw_nothing()
  local _ <close> = config.pretend_ipus(a.ipus)
  local _ <close> = launch.pretend(a.instances)
  local _ <close> = machine.pretend_target(a.target)
  if class.of(what) and class.of(what).is_model then return what:priced(a) end
  if type(what) == "function" and (a.inputs == nil or takes_nothing(what)) then
    check_count(what, {})
    local made
    local traced = func.func(function() made = what() return made end,
      {name = "estimate"}):outline()
    if class.of(made) and class.of(made).is_model then return made:priced(a) end
    return machine.price(traced, machine.options(a, traced.device))
  end
  if type(what) ~= "function" and not func.is_function(what) then
    blame.error("estimate: expected a function or a model, got " .. args.describe(what), "type")
  end
  return of_function(what, a)
end

return estimate
