-- Runs a conformance case of kind "benchmark": pulls elements of a case's dataset, or of a queue of
-- it, and looks at the report.

local config = require "ipulua.config"
local ipu = require "ipulua"
local program = require "spec.support.system_program"
local system = require "spec.support.system_values"

local runner = {}

local measures = {}

function measures.dataset(ds, ...) return ipu.dataset_benchmark.dataset_benchmark(ds, ...) end
function measures.infeed(ds, ...)
  return ipu.dataset_benchmark.infeed_benchmark(ipu.IPUInfeedQueue(ds), ...)
end

local function near(a, b) return math.abs(a - b) <= 1e-6 * math.abs(b) end

local function check_epoch(epoch, want)
  local known = {}
  for _, name in ipairs(want.fields) do
    known[name] = true
    if type(epoch[name]) ~= "number" then return "there is no number '" .. name .. "'" end
    if want.all_positive and epoch[name] <= 0 then return name .. " is " .. epoch[name] end
  end
  for name in pairs(epoch) do
    if not known[name] then return "'" .. name .. "' is not among the fields" end
  end
  for _, name in ipairs {"elements_processed", "total_bytes_processed"} do
    if want[name] and epoch[name] ~= want[name] then
      return string.format("%s is %s, expected %s", name, epoch[name], want[name])
    end
  end
  local seconds = epoch.time_elapsed
  if not near(epoch.elements_per_second * seconds, epoch.elements_processed) then
    return "elements_per_second is not elements / seconds"
  end
  if not near(epoch.bandwidth * seconds * 1e9, epoch.total_bytes_processed) then
    return "bandwidth is not bytes / seconds / 1e9"
  end
end

local function check_report(text, want)
  local report = ipu.json.decode(text)
  local epochs = report[want.top_level_key]
  if type(epochs) ~= "table" then return "there is no '" .. want.top_level_key .. "'" end
  if #epochs ~= want.epochs then
    return string.format("%d epochs, expected %d", #epochs, want.epochs)
  end
  for i, epoch in ipairs(epochs) do
    local problem = check_epoch(epoch, want)
    if problem then return string.format("epoch %d: %s", i, problem) end
  end
end

local function run_step(case, step)
  local measure = step["do"] == "benchmark" and measures[step.what]
  if not measure then return "no such step" end
  local ok, result = pcall(function()
    local ds = program.dataset(case.infeeds[step.queue or next(case.infeeds)])
    return measure(ds, step.epochs, step.elements_per_epoch, {print_stats = false})
  end)
  if not ok then
    return step.error and system.check_error(step.error, result) or not step.error
      and tostring(result) or nil
  end
  if step.error then return "no error was raised" end
  return step.expect and check_report(result, step.expect)
end

---@param case table a decoded case of kind "benchmark"
---@return boolean ok
---@return string? message what differs, with the step's number
function runner.run(case)
  config.reset_ipu_configuration()
  for i, step in ipairs(case.script) do
    local problem = run_step(case, step)
    if problem then
      return false, string.format("step %d (%s): %s", i, tostring(step["do"]), problem)
    end
  end
  return true
end

return runner
