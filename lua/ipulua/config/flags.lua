-- The run flags of IPULUA_FLAGS: words `--name` or `--name=value`, separated by spaces. Parsing is
-- a function of the text alone. config.lua keeps the result.

local blame = require "ipulua.base.blame"
local nearest = require "ipulua.nearest"

local flags = {}

flags.synthetic_categories = {"infeed", "outfeed", "seed", "hostembedding", "parameters"}

local is_category = {}
for _, name in ipairs(flags.synthetic_categories) do is_category[name] = true end

local booleans <const> = {["true"] = true, ["1"] = true, ["false"] = false, ["0"] = false}

-- A reader turns the text after `=` into the value, or returns nil and the expected form.
local readers = {}
flags.readers = readers

function readers.bool(text)
  local value = booleans[text:lower()]
  if value == nil then return nil, "true or false" end
  return value
end

function readers.int(text)
  local value = text:match("^[+-]?%d+$") and math.tointeger(tonumber(text))
  if not value then return nil, "an integer" end
  return value
end

function readers.text(text)
  return text
end

function readers.choice(text)
  local value = text:lower()
  if value == "auto" then return value end
  if booleans[value] == nil then return nil, "true, false or auto" end
  return tostring(booleans[value])
end

function readers.categories(text)
  local set = {}
  for word in text:gmatch("[^,]+") do
    if not is_category[word:lower()] then
      local known = table.concat(flags.synthetic_categories, ", ")
      return nil, "a list of " .. known .. " ('" .. word:sub(1, 40) .. "' is none of them)"
    end
    set[word:lower()] = true
  end
  return set
end

function readers.initializer(text)
  local value = text:lower()
  if value == "" or value == "uniform" or value == "normal" then return value end
  local number = tonumber(text)
  if not number or number ~= number or math.abs(number) == math.huge then
    return nil, "uniform, normal or a number"
  end
  return number + 0.0
end

-- {name, kind, default, words}. `least` bounds an integer. `unused`: scripts may set it, but
-- nothing here reads it.
flags.table = {
  {"help", "bool", false, "print these flags and stop"},
  {"use_ipu_model", "bool", false,
    "keep to the limits of the IPU Model: any number of IPUs, but no select_ipus and no "
    .. "multi-replica distribution; without it a machine of 16 IPUs is simulated"},
  {"ipu_model_tiles", "int", 0, "tiles of an IPU; 0: what the configuration says", least = 0},
  {"use_synthetic_data", "bool", false,
    "no data crosses between host and device: feeds, parameters, seeds"},
  {"synthetic_data_categories", "categories", {},
    "the same for a comma-separated list of infeed, outfeed, seed, "
    .. "hostembedding, parameters"},
  {"synthetic_data_initializer", "initializer", "",
    "values of synthetic inputs: uniform, normal or a number"},
  {"log_cycle_count", "int", -1, "log the cycles of this IPU in every run", least = -1},
  {"while_loop_brute_force_max_trip_count", "int", 128,
    "how far to look for a loop's constant trip count", least = 0, unused = true},
  {"max_compilation_threads", "int", -1, "threads that compile; -1: all", least = -1,
    unused = true},
  {"max_infeed_threads", "int", -1, "threads that read datasets; -1: all", least = -1,
    unused = true},
  {"executable_cache_path", "text", "", "folder of compiled programs", unused = true},
  {"dump_schedule_as_dot", "bool", false, "write the schedule as DOT", unused = true},
  {"tensor_map_file_path", "text", "", "folder for the tile mapping as JSON", unused = true},
  {"fallback_scheduler", "bool", false, "use the simple scheduler", unused = true},
  {"allow_nans", "bool", false, "keep rewrites off that NaNs would tell apart", unused = true},
  {"null_data_feed", "bool", false, "feeds deliver memory as it is", unused = true},
  {"show_progress_bar", "choice", "auto", "compile progress: true, false, auto (on a terminal)"},
  {"use_on_demand", "bool", false, "wait for devices that are busy", unused = true},
  {"on_demand_device_poll_time", "int", 1000, "milliseconds between two looks at a busy device",
    least = 100, unused = true},
  {"on_demand_device_timeout", "int", 3600000, "milliseconds to wait for a busy device", least = 0,
    unused = true},
  {"sync_replica_start", "bool", false, "let replicas start together", unused = true},
  {"enable_hlo_verifier", "bool", false, "check graphs after every pass", unused = true},
  {"disable_poplar_version_check", "bool", false, "of the driver", unused = true},
  {"save_vertex_graph", "text", "", "file for the graph of vertices", unused = true},
}

local by_name, names = {}, {}
for i, row in ipairs(flags.table) do
  if row.unused then row[4] = row[4] .. "; accepted, without effect" end
  by_name[row[1]] = row
  names[i] = row[1]
end

---@return table<string, any>
function flags.defaults()
  local values = {}
  for _, row in ipairs(flags.table) do
    local default = row[3]
    values[row[1]] = type(default) == "table" and {} or default
  end
  return values
end

local function read_word(word, values, origin)
  local name, text = word:match("^%-%-([^=]+)=?(.*)$")
  local has_value = word:find("=", 1, true) ~= nil
  if not name then
    blame.error(string.format("%s: '%s' is no flag; flags are written --name or --name=value",
      origin, word:sub(1, 80)),
      "value")
  end
  local row = by_name[name]
  if not row then
    local near = nearest.find(name, names)
    blame.error(string.format("%s: unknown flag '--%s'%s (--help lists all flags)", origin,
      name:sub(1, 80),
      near and "; did you mean '--" .. near .. "'?" or ""), "value")
  end
  local kind = row[2]
  if not has_value then
    if kind ~= "bool" and name ~= "show_progress_bar" and name ~= "save_vertex_graph" then
      blame.error(string.format("%s: --%s needs a value, as in --%s=...", origin, name, name),
        "value")
    end
    text = kind == "text" and "" or "true"
  end
  local value, expected = readers[kind](text)
  if value == nil then
    blame.error(string.format("%s: --%s must be %s, got '%s'", origin, name, expected,
      text:sub(1, 80)), "value")
  end
  if row.least and value < row.least then
    blame.error(string.format("%s: --%s must be at least %d, got %d", origin, name, row.least,
      value), "value")
  end
  values[name] = value
end

---Parses a text of flags; raises for anything that is not understood.
---@param text string
---@param origin string? for messages: "IPULUA_FLAGS" or the call's name
---@return table<string, any> values every flag by name, defaults included
function flags.parse(text, origin)
  local values = flags.defaults()
  origin = origin or "IPULUA_FLAGS"
  for word in text:gmatch("%S+") do read_word(word, values, origin) end
  if values.synthetic_data_initializer ~= "" and not values.use_synthetic_data
    and next(values.synthetic_data_categories) == nil then
    blame.error(origin .. ": --synthetic_data_initializer needs --use_synthetic_data or "
      .. "--synthetic_data_categories", "value")
  end
  return values
end

local function show_default(row)
  local default = row[3]
  if type(default) == "table" or default == "" then return '""' end
  return tostring(default)
end

---The text of --help.
---@return string
function flags.help()
  local lines = {"IPULUA_FLAGS holds words --name or --name=value, separated by spaces:"}
  for _, row in ipairs(flags.table) do
    lines[#lines + 1] = string.format("  --%s (%s, default %s)\n      %s", row[1], row[2],
      show_default(row), row[4])
  end
  return table.concat(lines, "\n") .. "\n"
end

return flags
