-- The configured system of this Lua state: run flags, the applied configuration, its devices. The
-- engine registers functions that are called when a configuration is applied or reset. It asks for
-- devices and settings here. Nothing happens before a script configures or the first program needs
-- a device.

local args = require "ipulua.base.args"
local blame = require "ipulua.base.blame"
local class = require "ipulua.base.class"
local core = require "ipulua.core"
local devices = require "ipulua.config.devices"
local engine_options = require "ipulua.config.engine_options"
local flag_table = require "ipulua.config.flags"
local json = require "ipulua.base.json"
local log = require "ipulua.base.log"
local object = require "ipulua.config.ipu_config"
local plain = require "ipulua.base.plain"
local rules = require "ipulua.config.rules"
local selection = require "ipulua.config.device_selection"
local start = require "ipulua.base.start"

local IPUConfig = object.IPUConfig

local config = {IPUConfig = IPUConfig}

local function print_and_stop(text)
  io.stdout:write(text)
  os.exit(0, true)
end

local state = {
  flags = nil,         -- all run flags by name; read from the environment at first need
  system_ipus = nil,   -- of the simulated machine; read from the command line at first need
  devices = nil,       -- list, position = ordinal + 1; nil before configuring or first use
  configured = false,  -- by a script, rather than by first use
  settings = nil,      -- effective values by full name
  assigned = {},       -- the names that the applied configuration's script has set
  fingerprint = nil,   -- of the applied values, to recognise an identical configuration
  on_apply = {}, on_reset = {},
}

-- ------------------------------------------------ run flags

local function use_flags(values)
  if values.help then print_and_stop(flag_table.help()) end
  state.flags = values
end

---The run flags by name, from IPULUA_FLAGS unless set_flags has been called.
---@return table<string, any>
function config.flags()
  if not state.flags then
    use_flags(flag_table.parse(start.environment("IPULUA_FLAGS") or "", "IPULUA_FLAGS"))
  end
  return state.flags
end

---Sets the run flags, in the form of IPULUA_FLAGS, which they replace; only while nothing is
---configured.
---Errors: an unknown flag, a value that it can't have, devices that there are already:
---`ipu.set_flags(1)`
---@param text string
function config.set_flags(text)
  if type(text) ~= "string" then
    blame.error("set_flags takes a text, got " .. args.describe(text), "type")
  end
  if state.devices then
    blame.error("set_flags: flags count when devices are made, and there are devices already; call "
      .. "ipu.reset_ipu_configuration() first", "failed_precondition")
  end
  use_flags(flag_table.parse(text, "set_flags"))
end

---Whether the limits of the IPU Model apply.
---Source: utils.running_on_ipu_model of Graphcore's TensorFlow 2.6
---@return boolean
function config.running_on_ipu_model()
  return config.flags().use_ipu_model
end

---The value of a flag of IPULUA_FLAGS.
---@param name string
---@return any
function config.flag(name) return config.flags()[name] end

---Whether data of a category is made up instead of crossing between host and device.
---Errors: an unknown category: `ipu.use_synthetic_data_for "weights"`
---Source: utils.use_synthetic_data_for of Graphcore's TensorFlow 2.6
---@param category string infeed, outfeed, seed, hostembedding or parameters
---@return boolean
function config.use_synthetic_data_for(category)
  local known = type(category) == "string" and category:lower()
  for _, name in ipairs(flag_table.synthetic_categories) do
    if name == known then
      local flags = config.flags()
      return flags.use_synthetic_data or flags.synthetic_data_categories[name] == true
    end
  end
  blame.error("use_synthetic_data_for: the category must be one of " ..
    table.concat(flag_table.synthetic_categories, ", ") .. ", got "
    .. args.describe(category), "value")
end

---The number of IPUs of the simulated machine (a power of two), for the command's --ipus.
---@param count integer
function config.set_system_ipus(count)
  if not devices.is_system_size(count) then
    blame.error("the number of IPUs of the machine must be a power of two, at most 1024, got "
      .. args.describe(count),
      "value")
  end
  if state.devices then
    blame.error("the machine's size can be set only before configuring", "failed_precondition")
  end
  state.system_ipus = count
end

---The command's --ipus, else 16: four of the boards that have four each.
---@return integer
function config.system_ipus()
  if not state.system_ipus then config.set_system_ipus(start.options.ipus or 16) end
  return state.system_ipus
end

-- ------------------------------------------------ applying and resetting

local function attach(device)
  if device.attached then return end
  device.attached = true
  log.info("Device %s attached to %s: %d", device.device, device.ipus == 1 and "IPU"
    or "IPUs", device.id)
end

local function call_all(hooks, ...)
  for _, hook in ipairs(hooks) do hook(...) end
end

local function forget()
  state.devices, state.settings, state.fingerprint = nil, nil, nil
  state.configured, state.assigned = false, {}
end

---Goes back to no configuration: devices are given up and compiled programs forgotten.
---Source: config.reset_ipu_configuration of Graphcore's TensorFlow 2.6
function config.reset_ipu_configuration()
  if not state.devices then return end
  call_all(state.on_reset)
  forget()
end

local function install(values, assigned, list, flags, configured)
  state.devices = list
  state.settings = rules.effective(values, flags)
  state.assigned = assigned
  state.fingerprint = object.fingerprint(values)
  state.configured = configured
  local ok, message = pcall(call_all, state.on_apply, state.settings, list)
  if not ok then
    forget()
    error(message, 0)
  end
  if state.settings["device_connection.type"] == "ALWAYS" then
    for _, device in ipairs(list) do attach(device) end
  end
end

local apply_arguments <const> = {
  {"config", IPUConfig},
  {"device", "string", "cpu"},
  {"reset_configuration", "boolean", true},
}

---Applies a configuration. A different one that is active is reset first, with a warning; an
---identical one is left as it is.
---Errors: a number of IPUs that the machine can't give (powers of two; 16 without --ipus),
---options that exclude each other, another active configuration with reset_configuration = false:
---`ipu.configure_ipu_system(set(cfg, "auto_select_ipus", 3))`
---Source: config.configure_ipu_system of Graphcore's TensorFlow 2.6
---@param ... any config, device, {reset_configuration = true}
function config.configure_ipu_system(...)
  local a = args.check("configure_ipu_system", apply_arguments, ...)
  local flags = config.flags()
  local values, assigned = object.snapshot(a.config)
  rules.check(values, flags)
  local list = selection.devices(values, flags, config.system_ipus())
  for _, name in ipairs {"auto_select_ipus", "select_ipus"} do
    values[name] = selection.as_list(values[name])
  end
  object.listify(a.config)
  if state.configured then
    if object.fingerprint(values) == state.fingerprint then return end
    if not a.reset_configuration then
      blame.error("configure_ipu_system: another configuration is active; call "
        .. "ipu.reset_ipu_configuration() first, or leave "
        .. "reset_configuration true", "failed_precondition")
    end
    log.warn("configure_ipu_system: the existing configuration is being reset, and its compiled "
      .. "programs are forgotten")
  end
  config.reset_ipu_configuration()
  install(values, assigned, list, flags, true)
end

---The same as ipu.configure_ipu_system(self, ...).
---Errors: as ipu.configure_ipu_system's: `set(cfg, "auto_select_ipus", 3):configure_ipu_system()`
---@param ... any device, {reset_configuration = true}
function IPUConfig:configure_ipu_system(...)
  config.configure_ipu_system(self, ...)
end
class.guard(IPUConfig, {configure_ipu_system = true})

-- Without a configuration there is one device of one IPU, from its first use on.
local function ensure_devices()
  if state.devices then return end
  local flags = config.flags()
  local values = object.snapshot(IPUConfig())
  values.auto_select_ipus = {1}
  install(values, {}, selection.devices(values, flags, config.system_ipus()), flags, false)
end

-- ------------------------------------------------ asking

---Whether a script has applied a configuration (rather than a program having made the default
---device).
---@return boolean
function config.is_configured()
  return state.configured
end

---The configured devices: {device = "/device:IPU:0", ipus = 4, id = 24, members = {4, 5, 6, 7}},
---one each.
---Errors: nothing is configured
---Source: config.get_ipu_config of Graphcore's TensorFlow 2.6
---@return table[]
function config.get_ipu_config()
  if not state.devices then
    blame.error("get_ipu_config: no IPU system is configured; call configure_ipu_system first",
      "runtime")
  end
  local list = {}
  for i, device in ipairs(state.devices) do
    local members = table.move(device.members, 1, device.ipus, 1, {})
    list[i] = {device = device.device, ipus = device.ipus, id = device.id, members = members}
  end
  return plain.mark(list)
end

---The device of a name or ordinal; without a configuration the default device is made. For the
---engine, which must not change the table: {device, ordinal, ipus, id, members, dnc, attached}.
---@param name string|integer "/device:IPU:0" or 0
---@return table
function config.device(name)
  local ordinal = devices.ordinal(name)
  ensure_devices()
  local device = state.devices[ordinal + 1]
  if not device then
    local last = #state.devices - 1
    blame.error(string.format("there is no device /device:IPU:%d; %s", ordinal, last == 0
      and "the only one is /device:IPU:0" or "the configured ones are /device:IPU:0 to /device:IPU:"
      .. last), "not_found")
  end
  local pretended <const> = core.here().pretended_ipus
  if pretended then return setmetatable({ipus = pretended}, {__index = device}) end
  return device
end

---To be closed: until then devices have that many IPUs, whatever is configured (nil: as they are).
---For estimates.
---@param ipus integer?
function config.pretend_ipus(ipus)
  local former = core.here().pretended_ipus
  core.here().pretended_ipus = ipus
  return setmetatable({}, {__close = function() core.here().pretended_ipus = former end})
end

---The device that a program is about to run on, attached if it is not yet.
---@param name string|integer
---@return table
function config.attached_device(name)
  local device = config.device(name)
  local connection = state.settings["device_connection.type"]
  if connection == "NEVER" then
    blame.error("a program cannot run: 'device_connection.type' is NEVER", "failed_precondition")
  end
  if connection ~= "PRE_COMPILE" then attach(device) end
  return device
end

---Whether programs are compiled for a device that isn't there: they give zeros.
---@return boolean
function config.only_compiles()
  return config.is_configured() and config.get("device_connection.type") == "PRE_COMPILE"
end

local device_arguments <const> = {{"ipu_device", {"string", "integer"}},
  {"device", "string", "cpu"}}

---How many IPUs a device has.
---Errors: a device that there is not: `ipu.get_num_of_ipus_in_device "/device:IPU:99"`
---Source: utils.get_num_of_ipus_in_device of Graphcore's TensorFlow 2.6
---@param ... any the device's name, such as "/device:IPU:0"
---@return integer
function config.get_num_of_ipus_in_device(...)
  return config.device(args.check("get_num_of_ipus_in_device", device_arguments,
    ...).ipu_device).ipus
end

---The effective value of an option: of the applied configuration, or the default.
---@param name string full dotted name
---@return any
function config.get(name)
  return config.settings()[name]
end

---All effective values by full dotted name; not to be changed.
---@return table<string, any>
function config.settings()
  if state.settings then return state.settings end
  return rules.effective(object.snapshot(IPUConfig()), config.flags())
end

---Whether the script of the applied configuration has set an option itself.
---@param name string full dotted name
---@return boolean
function config.is_assigned(name)
  return state.assigned[name] == true
end

local order_arguments <const> = {
  {"order", "string", of = "SelectionOrder"},
  {"count", "integer", range = "[1, 1024]", says = "IPUs"},
  {"default_pipeline", "boolean", false},
}

---The positions in a device that shards 0, 1, 2, … take: selection_order("SNAKE", 4) is {0, 1, 3,
---2}.
---Errors: an unknown order, a count outside of 1 … 1024: `ipu.selection_order("SPIRAL", 4)`
---Source: config.SelectionOrder of Graphcore's TensorFlow 2.6
---@param ... any order, count, {default_pipeline = whether AUTO means a pipeline so mapped}
---@return integer[]
function config.selection_order(...)
  local a = args.check("selection_order", order_arguments, ...)
  return plain.mark(devices.selection_order(a.order, a.count, a.default_pipeline))
end

---The profile and compile options of IPULUA_ENGINE_OPTIONS.
---@return table<string, string>
function config.environment_options()
  local text = start.environment("IPULUA_ENGINE_OPTIONS")
  if not text or text == "" then return {} end
  local given, problem = json.parse(text)
  if not problem and (type(given) ~= "table" or #given > 0 or json.is_array(given)) then
    problem = "it must be an object"
  end
  if problem then blame.error("IPULUA_ENGINE_OPTIONS: " .. problem, "value") end
  for key, value in pairs(given) do
    if type(value) ~= "string" then
      blame.error(string.format("IPULUA_ENGINE_OPTIONS: the value of '%s' must be a string, got %s",
        key, args.describe(value)),
        "type")
    end
  end
  engine_options.check(given, "IPULUA_ENGINE_OPTIONS")
  return given
end

---The same over compilation_poplar_options.
---@return table<string, string>
function config.engine_options()
  local merged, own = {}, config.get("compilation_poplar_options")
  engine_options.check(own, "compilation_poplar_options")
  for key, value in pairs(own) do merged[key] = value end
  for key, value in pairs(config.environment_options()) do merged[key] = value end
  return merged
end

---One of them that has an effect, as a boolean, an integer or a text; nil where it isn't given.
---@param name string
---@return any
function config.engine_option(name) return engine_options.value(config.engine_options(), name) end

-- ------------------------------------------------ for the engine

---Registers f(settings, devices), called when a configuration (or the default device) takes effect.
---@param f fun(settings: table<string, any>, devices: table[])
function config.on_apply(f)
  state.on_apply[#state.on_apply + 1] = f
end

---Registers f(), called before devices are given up: wait for jobs, forget programs.
---@param f fun()
function config.on_reset(f)
  state.on_reset[#state.on_reset + 1] = f
end

return config
