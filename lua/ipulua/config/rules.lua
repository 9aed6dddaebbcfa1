-- Rules between a configuration's options: which exclude each other, and which override others.

local blame = require "ipulua.base.blame"
local chips = require "ipulua.config.chips"
local selection = require "ipulua.config.device_selection"

local rules = {}

local function check_distribution(values, flags)
  local index = values["experimental.multi_replica_distribution.process_index"]
  local count = values["experimental.multi_replica_distribution.process_count"]
  if count > 0 and flags.use_ipu_model then
    blame.error("IPUConfig: Multi-replica distribution "
      .. "('experimental.multi_replica_distribution.process_count' > 0) is not "
      .. "supported on the IPU Model", "value")
  end
  if index >= math.max(count, 1) then
    blame.error(string.format("IPUConfig: 'experimental.multi_replica_distribution.process_index' "
      .. "must be in [0, "
      .. "process_count), got %d with a process_count of %d", index, count), "value")
  end
end

local function check_chip(values, flags)
  if flags.use_ipu_model and values["ipu_model.version"] == "" then
    blame.error("IPUConfig: 'ipu_model.version' must be set on the IPU Model: "
      .. chips.any_version, "value")
  end
  local connection = values["device_connection.type"]
  if (connection == "PRE_COMPILE" or connection == "NEVER")
    and values["device_connection.version"] == "" then
    blame.error("IPUConfig: 'device_connection.version' must be set (" .. chips.any_version
      .. ") when 'device_connection.type' is " .. connection, "value")
  end
end

local function check_io_tiles(values, flags)
  local io_tiles = values["io_tiles.num_io_tiles"]
  if values["io_tiles.place_ops_on_io_tiles"] and io_tiles == 0 then
    blame.error("IPUConfig: 'io_tiles.place_ops_on_io_tiles' is true but 'io_tiles.num_io_tiles' "
      .. "is 0", "value")
  end
  local tiles = flags.ipu_model_tiles > 0 and flags.ipu_model_tiles
    or values["ipu_model.tiles_per_ipu"]
  if tiles > 0 and io_tiles + io_tiles % 2 >= tiles then
    blame.error(string.format("IPUConfig: 'io_tiles.num_io_tiles' is %d, which leaves no tile of "
      .. "the %d of an IPU to compute",
      io_tiles, tiles), "value")
  end
  local group = values["norms.experimental.distributed_batch_norm_replica_group_size"]
  if group > 1 and io_tiles > 0 then
    blame.error("IPUConfig: 'norms.experimental.distributed_batch_norm_replica_group_size' > 1 "
      .. "cannot be used with I/O tiles "
      .. "('io_tiles.num_io_tiles' > 0)", "value")
  end
end

-- Also for options without effect: an unknown value is a mistake in any case.
local function check_library(values)
  for _, name in ipairs {"matmuls.poplar_options", "convolutions.poplar_options",
    "slices.poplar_options", "pooling.poplar_options"} do
    if next(values[name]) ~= nil then
      require "ipulua.config.library_options".check(values[name], "IPUConfig: '" .. name .. "'")
    end
  end
end

---An error when options exclude each other, or have no such value.
---@param values table<string, any> of a configuration, by full name
---@param flags table<string, any> run flags
function rules.check(values, flags)
  for _, check in ipairs {selection.check, check_distribution, check_chip, check_io_tiles,
    check_library} do
    check(values, flags)
  end
end

---The options that the engine works with: options that speak for others are resolved, flags win.
---@param values table<string, any>
---@param flags table<string, any>
---@return table<string, any>
function rules.effective(values, flags)
  local settings = {}
  for name, value in pairs(values) do settings[name] = value end
  if settings["floating_point_behaviour.set_all"] then
    for _, flag in ipairs {"inv", "div0", "oflo", "nanoo"} do
      settings["floating_point_behaviour." .. flag] = true
    end
    settings["floating_point_behaviour.esr"] = "ON"
  end
  local io_tiles = settings["io_tiles.num_io_tiles"]
  settings["io_tiles.num_io_tiles"] = io_tiles + io_tiles % 2
  settings["optimizations.math.fast"] = settings["optimizations.math.fast"]
    or settings["optimizations.enable_fast_math"]
  if flags.ipu_model_tiles > 0 then settings["ipu_model.tiles_per_ipu"] = flags.ipu_model_tiles end
  return settings
end

return rules
