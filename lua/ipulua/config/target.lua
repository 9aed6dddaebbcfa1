-- The target of a price: the chip, the number of IPUs and the options that change a price. They
-- come from the call, the command line and the configuration.

local args = require "ipulua.base.args"
local blame = require "ipulua.base.blame"
local chips = require "ipulua.config.chips"
local config = require "ipulua.config"
local core = require "ipulua.core"
local json = require "ipulua.base.json"
local launch = require "ipulua.config.launch"
local library_options = require "ipulua.config.library_options"
local start = require "ipulua.base.start"

local here <const> = core.here

local machine = {}

local most_bytes <const> = 1 << 20 -- of a JSON file, which has some 50 numbers

---A target as the core takes it: a name, or JSON. A name, a JSON file, or a table {base =, …}.
---@param given string|table
---@return string
---@return string? file that it is from
function machine.target(given)
  if type(given) == "table" then return json.encode(given) end
  if type(given) ~= "string" then
    blame.error("target: expected a name (" .. chips.names .. "), a JSON file or a table with "
      .. "'base', got " .. args.describe(given),
      "type")
  end
  if given:match("%.json$") then
    local text = core.content(given, most_bytes)
      or blame.error("target: the file '" .. given .. "' can't be read", "not_found")
    local value, problem = json.parse(text)
    if problem then blame.error(string.format("target: '%s': %s", given, problem), "value") end
    if type(value) ~= "table" or #value > 0 then
      blame.error(
        string.format(
          "target: '%s' must hold an object such as "
          .. '{"base": "GC200", "name": "mine", "tiles": 2944}', given), "value")
    end
    return text, given
  end
  return given
end

---To be closed: until then programs are traced for that target (nil: the one that is configured).
---For estimates.
---@param target any
function machine.pretend_target(target)
  local former = here().asked_target
  here().asked_target = target or former
  return setmetatable({}, {__close = function() here().asked_target = former end})
end

-- An architecture is a name of its first chip; without one the core takes its default.
local function chip_of(version) return version ~= "" and version or nil end

-- Without a device programs are for the version that was named for that. Otherwise a version that
-- the script assigned wins over the command line; without either it is the default's.
local function default_target()
  local connection = config.get("device_connection.type")
  if connection == "PRE_COMPILE" or connection == "NEVER" then
    return chip_of(config.get("device_connection.version"))
  end
  local version = config.get("ipu_model.version")
  if config.is_assigned("ipu_model.version") or not start.options.target then
    return chip_of(version)
  end
  return machine.target(start.options.target)
end

local function proportion(option) return library_options.proportion(config.get(option)) end
local function halves(option) return library_options.half_partials(config.get(option)) or false end

local function default_ipus(ordinal)
  if start.options.ipus and not config.is_configured() then return start.options.ipus end
  return config.device(ordinal or 0).ipus
end

---{tiles, streaming_bytes} of the chip that programs are for.
---@return {tiles: integer, streaming_bytes: integer}
function machine.chip()
  local target
  local asked <const> = here().asked_target
  if asked then target = machine.target(asked) else target = default_target() end
  return core.target_facts{target = target, tiles_per_ipu = config.get("ipu_model.tiles_per_ipu")}
end

---Options of core.price for a device.
---@param given? {target: any, ipus: integer?, topology: string?, host: string?}
---@param ordinal? integer
---@return table
function machine.options(given, ordinal)
  given = given or {}
  local flags = config.flags()
  local target, file
  if given.target then
    target, file = machine.target(given.target)
  else
    target, file = default_target()
  end
  local model_host = flags.use_ipu_model
  if given.host then model_host = given.host == "model" end
  return {
    target = target, target_file = file,
    ipus = given.ipus or default_ipus(ordinal), instances = given.instances,
      topology = given.topology, dependencies = given.timing == "dependencies",
    tiles_per_ipu = config.get("ipu_model.tiles_per_ipu"),
    io_tiles = config.get("io_tiles.num_io_tiles"),
    io_proportion = config.get("io_tiles.place_ops_on_io_tiles")
    and config.get("io_tiles.available_memory_proportion") or nil,
    code = config.get("ipu_model.compile_ipu_code"), model_host = model_host,
    matmul_proportion = proportion("matmuls.poplar_options"),
    conv_proportion = proportion("convolutions.poplar_options"),
    cholesky_block = config.get("optimizations.cholesky_block_size"),
    solve_block = config.get("optimizations.triangular_solve_expander_block_size"),
    synthetic_infeed = config.use_synthetic_data_for("infeed"),
    synthetic_outfeed = config.use_synthetic_data_for("outfeed"),
    synthetic_variables = config.use_synthetic_data_for("parameters"),
    no_prefetch = not config.get("optimizations.prefetch_data_streams"),
    split_infeed = not config.get("optimizations.merge_infeed_io_copies"),
    half_products = halves("matmuls.poplar_options"),
    half_convolutions = halves("convolutions.poplar_options"),
    merge_sums = config.get("optimizations.maximum_cross_replica_sum_buffer_size"),
    merge_reduce_scatters = config.get("optimizations.maximum_reduce_scatter_buffer_size"),
    merge_all_gathers = config.get("optimizations.maximum_all_gather_buffer_size"),
    merge_copies = config.get("optimizations.maximum_inter_ipu_copies_buffer_size"),
    no_outlining = not config.get("optimizations.enable_graph_outlining"),
    recompute = config.get("allow_recompute"),
  }
end

---Whether a program that does not fit is an error: once a configuration was applied or a target
---named. It is none on the IPU Model, or on a chip of fewer tiles, which stands for a part of one.
---@return boolean
function machine.enforces()
  if not (config.is_configured() or start.options.target) then return false end
  if config.flags().use_ipu_model or config.get("ipu_model.tiles_per_ipu") > 0 then return false end
  return not config.engine_option("debug.allowOutOfMemory")
end

---The price of a compiled program, {program =, device =}.
---@param entry table
---@param options table of machine.options
---@return userdata
function machine.price(entry, options)
  local shards = entry.shards or entry.program:describe().shards
  if shards > 1 then
    options.order = config.selection_order(config.get("selection_order"), shards,
      {default_pipeline = entry.pipeline ~= nil and entry.pipeline.is_default_mapping})
  end
  -- a strategy's program for several instances has the IPUs of all
  local instances = options.instances or entry.team and launch.count() or 1
  options.ipus, options.instances = options.ipus * instances, instances
  local file = options.target_file
  local _ <close> = file and blame.explaining(function(message)
    return message:find("target", 1, true) and string.format(" ('%s')", file) or ""
  end) or nil
  return core.price(entry.program, options)
end

return machine
