-- Asynchronous callbacks. An execution runs as a job, and each step sends its values by an outfeed,
-- once for each replica. The callbacks of a step are called when these arrive.

local compiled = require "ipulua.keras.training.compiled"
local logs = require "ipulua.keras.training.logs"

local asynchronous = {}

-- After an error the execution is stopped and waited for, so that later code finds its queues and
-- variables free.
local function cancelled_on_error(job)
  return setmetatable({}, {__close = function(_, problem)
    if problem == nil then return end
    job:cancel()
    pcall(job.wait, job)
  end})
end

---One execution, steps first … first + per_execution - 1 of the epoch.
---@param model Model
---@param run Run
---@param first integer
---@return table logs of the execution, a list of {name, value}
function asynchronous.run(model, run, first)
  local list, accumulation = run.callbacks, run.accumulation or 1
  local begin_event, end_event = "on_" .. run.prefix .. "_batch_begin",
    "on_" .. run.prefix .. "_batch_end"
  local updates = run.accumulation and model.optimizer.iterations:item()
  local job, results = run.entry.program.start()
  local _ <close> = cancelled_on_error(job)
  local step = first
  for element in run.entry.outfeed:iter(job) do
    local is_update = updates and (step - first + 1) % accumulation == 0
    updates = is_update and updates + 1 or updates
    for replica = 1, run.replicas do
      local values = {}
      for i, name in ipairs(run.entry.outfeed.log_names) do
        local value = element["m" .. i]
        values[i] = {name, compiled.read(run.replicas > 1 and value[replica] or value)}
      end
      list[begin_event](list, step, logs.by_name{})
      list[end_event](list, step, logs.by_name(values),
        logs.info(step, step, run.batch_size * run.replicas, updates,
          run.replicas > 1 and replica - 1 or nil, run.replicas))
    end
    step = step + 1
  end
  return results()
end

return asynchronous
