-- Effects of a configuration and a seed on the engine: numerics of programs, forgetting programs,
-- random numbers; and the programs compiled and run since.

local args = require "ipulua.base.args"
local config = require "ipulua.config"
local core = require "ipulua.core"
local devices = require "ipulua.config.devices"
local engine_options = require "ipulua.config.engine_options"
local func = require "ipulua.trace.func"
local json = require "ipulua.base.json"
local plain = require "ipulua.base.plain"

local system = {}

-- ------------------------------------------------ numerics

local floating_point <const> = "floating_point_behaviour."

local checking -- the script's setting of checking numerics; nil: none

local function checks_numerics(options)
  if checking ~= nil then return checking end
  return engine_options.value(options, "debug.floatPointOpException") == true
end

core.set_numerics{check_finite = checks_numerics(config.environment_options())}

-- "uniform", "normal" or a number; memory that holds nothing in particular holds zeros.
local function synthetic_values(text) return tonumber(text) or text ~= "" and text or 0 end

config.on_apply(function(settings)
  local function halves(option)
    return next(settings[option]) ~= nil
      and require "ipulua.config.library_options".half_partials(settings[option]) or false
  end
  core.set_numerics{
    inv = settings[floating_point .. "inv"], div0 = settings[floating_point .. "div0"],
    oflo = settings[floating_point .. "oflo"], nanoo = settings[floating_point .. "nanoo"],
    esr = settings[floating_point .. "esr"] ~= "OFF",
    identical_only = settings[floating_point .. "esr"] == "REPLICA_IDENTICAL_ONLY",
    half_products = halves("matmuls.poplar_options"),
    half_convolutions = halves("convolutions.poplar_options"),
    fast_math = settings["optimizations.math.fast"],
    check_finite = checks_numerics(config.engine_options()),
  }
  core.set_synthetic(config.use_synthetic_data_for("infeed"),
    config.use_synthetic_data_for("outfeed"),
    synthetic_values(config.flag("synthetic_data_initializer")),
    config.use_synthetic_data_for("parameters"))
end)

config.on_reset(function()
  core.settle()
  func.reset()
  core.set_numerics{inv = false, div0 = false, oflo = false, nanoo = false, esr = false,
    identical_only = false,
    half_products = false, half_convolutions = false, fast_math = false,
    check_finite = checks_numerics(config.environment_options())}
  core.set_synthetic(false, false, 0, false)
end)

local function check_numerics(on)
  checking = on
  core.settle()
  core.set_numerics{check_finite = on}
  func.recompile()
end

---Programs stop from now on at the first op that makes a NaN or an infinity, and say which and of
---what: slow, for looking.
function system.enable_check_numerics() check_numerics(true) end

---Programs run as usual again.
function system.disable_check_numerics() check_numerics(false) end

-- ------------------------------------------------ seeds

local seed_spec <const> = {{"seed", "integer"}}

---Seeds everything random: initial values, shuffling, and random numbers of compiled functions.
---Errors: a seed that is no integer: `ipu.random.set_seed(0.5)`
function system.set_seed(...)
  core.set_seed(args.check("set_seed", seed_spec, ...).seed)
end

local device_seed_spec <const> = {
  {"seed", "integer"}, {"device", "string", "/device:IPU:0"}, {"cpu_device", "string", "cpu"},
  {"experimental_identical_replicas", "boolean", false},
}

---Starts the random numbers of programs on a device again: the same seed gives the same sequence.
---Errors: a seed that is no integer, a device of another form: `ipu.reset_ipu_seed(0.5)`
---Source: utils.reset_ipu_seed of Graphcore's TensorFlow 2.6
function system.reset_ipu_seed(...)
  local a = args.check("reset_ipu_seed", device_seed_spec, ...)
  devices.ordinal(a.device)
  core.set_device_seed(a.seed, a.experimental_identical_replicas)
end

-- ------------------------------------------------ programs

-- Without the counters of random ops, which no script has made.
local function own_variables(names)
  local list = {}
  for _, name in ipairs(names) do
    if name ~= "random_step" then list[#list + 1] = name end
  end
  return list
end

local function described(record)
  local plans <const> = require "ipulua.pipeline.plan"
  local entry, pipeline = record.entry[1], record.pipeline
  local d = entry and entry.program:describe() or record.facts
  return {
    name = record.name, executions = math.max(d.executions, record.executions),
    variables = own_variables(d.variables),
    replicas = d.replicas or 1, shards = record.shards or d.shards or 1,
    stage_ipus = pipeline and plans.stage_ipus(pipeline) or {},
    stash_depth = pipeline and plans.stash_depth(pipeline) or {},
    time_steps = pipeline and plans.time_steps(pipeline) or nil,
  }
end

---The programs compiled since configuring, in that order.
---Units: executions, and time_steps of a pipeline, are counts
---@return table[]
function system.programs()
  local list = core.plain{}
  for i, record in ipairs(func.compiled()) do list[i] = described(record) end
  return plain.mark(list)
end

-- ------------------------------------------------ events

local events, first, last = {}, 1, 0 -- events[first … last]
local resident = setmetatable({}, {__mode = "k"}) -- variables whose values the device has

local most_events <const> = 10000 -- 1.5 MB, if they are never read: the oldest are dropped

local function add(kind, entry, more)
  local event = {type = kind, timestamp = core.epoch(), device = entry.device or 0,
    module = entry.name}
  for key, value in pairs(more or {}) do event[key] = value end
  last = last + 1
  events[last] = event
  if last - first < most_events then return end -- as many as that, this one among them
  events[first] = nil
  first = first + 1
end

-- [tile, elements] of a variable that is spread evenly.
local grain_bytes <const> = 128 -- at least on a tile

local function spread(elements, bytes, tiles)
  local grain = math.max(1, grain_bytes // bytes)
  local grains = (elements + grain - 1) // grain
  local list, share = {}, math.max(1, (grains + tiles - 1) // tiles) * grain
  for tile = 0, tiles - 1 do
    local rest = elements - tile * share
    if rest <= 0 then break end
    list[#list + 1] = {tile, math.min(rest, share)}
  end
  return list
end

local bytes_of <const> = {
  float64 = 8, int64 = 8, float32 = 4, int32 = 4, float16 = 2, bfloat16 = 2, int8 = 1,
  uint8 = 1, bool = 1,
}

-- For each variable: name, output index, shape, dtype, has_constant, has_aliases, elements, tiles.
local function tensor_map(module, names, types)
  local mapped, tiles = {}, require "ipulua.config.target".chip().tiles
  for i, name in ipairs(names) do
    local elements = 1
    for _, extent in ipairs(types[i].shape) do elements = elements * extent end
    if name ~= "random_step" then
      mapped[#mapped + 1] = {name, 0, types[i].shape, types[i].dtype, false, false, elements,
        spread(elements, bytes_of[types[i].dtype], tiles)}
    end
  end
  return json.encode{mappings = {[module] = mapped}}
end

local watching = {}

function watching.trace(entry)
  watching.begun = core.epoch()
  add("COMPILE_BEGIN", {name = entry.name})
end

function watching.compile(entry)
  if not watching.begun then add("COMPILE_BEGIN", entry) end
  add("COMPILE_END", entry, {duration = core.epoch() - (watching.begun or core.epoch()),
    variables = entry.record.facts.variables,
    types = entry.program:variable_types()})
  watching.begun = nil
end

function watching.execute(entry)
  local moved = {}
  if not resident[entry] then
    resident[entry] = true
    add("LOAD_ENGINE", entry)
    if config.use_synthetic_data_for("parameters") then entry.program:make_up()
    else moved = own_variables(entry.program:describe().variables) end
  end
  if #moved > 0 then add("HOST_TO_DEVICE_TRANSFER", entry, {tensors = moved}) end
  add("EXECUTE", entry)
end

func.listen(function(event, entry)
  if watching[event] then watching[event](entry) end
end)

---The events on the devices since the last call, of more than 10,000 the newest. A list of {type,
---timestamp, duration, device, module, tensors}.
---Units: timestamp in seconds since 1970, duration in seconds
---Source: gen_ipu_ops.ipu_event_trace of Graphcore's TensorFlow 2.6
---@return table[]
function system.ipu_event_trace()
  local list = table.move(events, first, last, 1, {})
  events, first, last = {}, 1, 0
  for _, event in ipairs(list) do
    if event.variables then
      event.tensor_map = tensor_map(event.module, event.variables, event.types)
    end
    event.variables, event.types = nil, nil
  end
  return plain.mark(list)
end

return system
