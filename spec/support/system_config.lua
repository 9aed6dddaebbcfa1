-- Runs a conformance case of kind "config". It is a list of steps on an IPUConfig, each with its
-- expected result or error. The cases restate tests made on the IPU Model.

local config = require "ipulua.config"
local json = require "ipulua.base.json"
local system = require "spec.support.system_values"

local runner = {}

local function same(a, b)
  if type(a) ~= "table" or type(b) ~= "table" then return a == b end
  for key, value in pairs(a) do
    if not same(value, b[key]) then return false end
  end
  for key in pairs(b) do
    if a[key] == nil then return false end
  end
  return true
end

local function show(value)
  local ok, text = pcall(json.encode, value)
  return ok and text or tostring(value)
end

local function expect(step, got)
  if same(step.expect, got) then return end
  error({mismatch = "expected " .. show(step.expect) .. ", got " .. show(got)})
end

local function expect_equal_configs(a, b)
  if not same(a:to_dict(), b:to_dict()) then
    error({mismatch = "the round trip changed the options"})
  end
end

local function parent(cfg, path)
  local t = cfg
  for category in path:gmatch("([^.]+)%.") do t = t[category] end
  return t, path:match("[^.]+$")
end

local function set(cfg, step)
  local t, key = parent(cfg, step.path)
  t[key] = step.value
end

local function get(cfg, step)
  local t, key = parent(cfg, step.path)
  expect(step, t[key])
end

-- The steps by kind; `at` holds the configurations: cfg, copy, second.
local steps = {}

function steps.set(at, step) set(at.cfg, step) end
function steps.get(at, step) get(at.cfg, step) end
function steps.configure(at) at.cfg:configure_ipu_system() end

function steps.devices(at, step)
  at.cfg:configure_ipu_system()
  local counts = {}
  for i, device in ipairs(config.get_ipu_config()) do
    counts[i] = device.ipus
    if config.get_num_of_ipus_in_device(device.device) ~= device.ipus then
      error({mismatch = "get_num_of_ipus_in_device differs from get_ipu_config"})
    end
  end
  expect(step, counts)
end

function steps.metadata(at, step)
  local data = at.cfg:get_attribute_metadata(step.path)
  local got = {}
  for field in pairs(step.expect or {}) do got[field] = data[field] end
  if step.expect then expect(step, got) end
end

function steps.round_trip_dict(at)
  local other = config.IPUConfig()
  other:from_dict(at.cfg:to_dict())
  expect_equal_configs(at.cfg, other)
end

function steps.round_trip_json(at)
  local other = config.IPUConfig()
  other:from_json(at.cfg:to_json())
  expect_equal_configs(at.cfg, other)
end

function steps.copy(at) at.copy = at.cfg:copy() end
function steps.set_on_copy(at, step) set(at.copy, step) end
function steps.new_second(at) at.second = config.IPUConfig() end
function steps.set_on_second(at, step) set(at.second, step) end

local function run_step(at, step)
  local action = steps[step["do"]]
  if not action then return "no such step" end
  local ok, problem = pcall(action, at, step)
  if type(problem) == "table" then return problem.mismatch end
  if ok then return step.error and "no error was raised" or nil end
  if not step.error then return tostring(problem) end
  return system.check_error(step.error, problem)
end

---@param case table a decoded case of kind "config"
---@return true?
---@return string? message what differs, with the step's number
function runner.run(case)
  config.reset_ipu_configuration()
  config.set_flags("--use_ipu_model")
  local _ <close> = setmetatable({}, {__close = function()
    config.reset_ipu_configuration()
    config.set_flags(os.getenv("IPULUA_FLAGS") or "")
  end})
  local at = {cfg = config.IPUConfig()}
  for i, step in ipairs(case.script) do
    local problem = run_step(at, step)
    if problem then
      return nil, string.format("step %d (%s): %s", i, tostring(step["do"]), problem)
    end
  end
  return true
end

return runner
