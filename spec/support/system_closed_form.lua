-- Runs a conformance case of kind "closed_form": a function told in words, and what the variable w
-- is after each run.

local config = require "ipulua.config"
local ipu = require "ipulua"
local system = require "spec.support.system_values"
local system_program = require "spec.support.system_program"

local runner = {}

local functions <const> = {
  ["apply_gradients([(next(infeed), w)]) with SGD(0.5)"] = function(infeed, w)
    local optimizer = ipu.keras.optimizers.SGD(0.5)
    return function()
      ipu.loops.repeat_n(1, function(g) optimizer:apply_gradients{{g, w}} end, {}, infeed)
    end
  end,
}

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
  local w = ipu.Variable(system.tensor(case.variables.w.init, case.variables.w.shape))
  local infeed = ipu.IPUInfeedQueue(system_program.dataset(case.infeeds["in"]))
  local run
  for i, step in ipairs(case.script) do
    local make = functions[step.fn]
    if not make then return false, "unknown function '" .. tostring(step.fn) .. "'" end
    run = run or ipu.func(make(infeed, w))
    strategy:run(run)
    local problem = system.compare("w", w:read_value(), {shape = {}, data = {step.expect_w}},
      {rtol = 1e-5, atol = 1e-5})
    if problem then return false, "step " .. i .. ": " .. problem end
  end
  return true
end

return runner
