-- Runs a conformance case of kind "closed_form": a function told in words, and what the variable w
-- is after each run.

local config = require "ipulua.config"
local ipu = require "ipulua"
local system = require "spec.support.system_values"
local system_program = require "spec.support.system_program"

local runner = {}

-- A name in words stands for the object of that name in the case. If none has it, it stands for the
-- only one that there is.
local function named(list, name) return list[name] or list[next(list)] end

-- "apply_gradients([(next(infeed), w)]) with SGD(0.5)": the names of a queue and a variable, and
-- the rate.
local words_of_a_step <const> = "^apply_gradients%(%[%(next%(([%w_]+)%), ([%w_]+)%)%]%) "
  .. "with SGD%(([%d.e+-]+)%)$"
local function read_words(words)
  local queue, variable, rate = words:match(words_of_a_step)
  return queue, variable, tonumber(rate)
end

local function step_of(infeed, w, rate)
  local optimizer = ipu.keras.optimizers.SGD(rate)
  return ipu.func(function()
    ipu.loops.repeat_n(1, function(g) optimizer:apply_gradients{{g, w}} end, {}, infeed)
  end)
end

---@param case table
---@return boolean ok, string? message
function runner.run(case)
  config.reset_ipu_configuration()
  local _ <close> = setmetatable({}, {__close = function() config.reset_ipu_configuration() end})
  local cfg = ipu.IPUConfig()
  cfg.auto_select_ipus = case.setup.ipus
  cfg:configure_ipu_system()
  local strategy = ipu.IPUStrategy()
  local _ <close> = strategy:scope()
  local variables, infeeds, runs = {}, {}, {}
  for name, v in pairs(case.variables) do
    variables[name] = ipu.Variable(system.tensor(v.init, v.shape))
  end
  for name, each in pairs(case.infeeds) do
    infeeds[name] = ipu.IPUInfeedQueue(system_program.dataset(each))
  end
  for i, step in ipairs(case.script) do
    local queue, variable, rate = read_words(step.fn)
    if not queue then return false, "unknown function '" .. tostring(step.fn) .. "'" end
    local w = named(variables, variable)
    runs[step.fn] = runs[step.fn] or step_of(named(infeeds, queue), w, rate)
    strategy:run(runs[step.fn])
    local problem = system.compare(variable, w:read_value(), {shape = {}, data = {step.expect_w}},
      {rtol = 1e-5, atol = 1e-5})
    if problem then return false, "step " .. i .. ": " .. problem end
  end
  return true
end

return runner
