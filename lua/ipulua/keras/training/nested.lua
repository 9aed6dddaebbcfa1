-- Runs inside of runs: a callback of fit, evaluate or predict may run the same model. Each run has
-- queues of its own, and doesn't change the metrics of the run around it.

local core = require "ipulua.core"

local nested = {}

---@class OpenRun
---@field run Run
---@field outer OpenRun? around it

---Whether a run that is open uses a program and its queues.
---@param model Model
---@param entry ProgramEntry
---@return boolean
function nested.uses(model, entry)
  local open = rawget(model, "_runs")
  while open do
    if open.run.entry == entry then return true end
    for _, beside in pairs(open.run.beside) do
      if beside == entry then return true end
    end
    open = open.outer
  end
  return false
end

---The metrics of the run that is open, on all replicas: a function that puts them back.
---@param model Model
---@return fun()? none where no run is open
function nested.keep_metrics(model)
  if not rawget(model, "_runs") then return nil end
  local kept, known = {}, {}
  for _, metric in ipairs(model.metrics) do
    known[metric] = true
    for _, v in ipairs(metric:all_variables()) do
      kept[#kept + 1] = {v, v:read_value(), core.replica_values(v)}
    end
  end
  return function()
    for _, each in ipairs(kept) do
      core.set_variable(each[1], each[2])
      core.set_replica_values(each[1], each[3])
    end
    for _, metric in ipairs(model.metrics) do -- metrics that were made since have seen nothing
      if not known[metric] then metric:reset_state() end
    end
  end
end

---Notes a run that begins.
---@param model Model
---@param run Run
---@return fun() leave
function nested.enter(model, run)
  local outer = rawget(model, "_runs")
  rawset(model, "_runs", {run = run, outer = outer})
  return function() rawset(model, "_runs", outer) end
end

return nested
