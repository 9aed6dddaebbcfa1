-- Logs: the report of a step or an execution, a list of {name, value} in the order of the model's
-- metrics.

local blame = require "ipulua.base.blame"
local core = require "ipulua.core"
local compiled = require "ipulua.keras.training.compiled"
local nest = require "ipulua.base.nest"

local logs = {}

---@alias Logs {[1]: string, [2]: any}[]

---As callbacks get them: a table by name.
---@param list Logs
---@return table<string, any>
function logs.by_name(list)
  local t = {}
  for _, pair in ipairs(list) do t[pair[1]] = pair[2] end
  return core.plain(t)
end

---The arguments of callbacks for an execution, besides its logs.
---@param first integer its first step, counted from 0
---@param last integer
---@param samples integer
---@param updates integer? of the weights so far, where it trains
---@param replica integer? whose logs these are, where each has its own
---@param replicas integer?
---@return {step_first: integer, step_last: integer, samples: integer, updates: integer?,
---replica: integer?, replicas: integer?}
function logs.info(first, last, samples, updates, replica, replicas)
  return core.plain{step_first = first, step_last = last, samples = samples, updates = updates,
    replica = replica, replicas = replica and replicas}
end

---As evaluate gives them: a table by name, or a list of values; one value is itself.
---@param list Logs
---@param return_dict boolean
---@return any
function logs.results(list, return_dict)
  if return_dict then return logs.by_name(list) end
  if #list == 1 then return list[1][2] end
  local values = {}
  for i, pair in ipairs(list) do values[i] = pair[2] end
  return core.plain(values)
end

---The running values as they stand, read one by one.
---@param model Model
---@return Logs
function logs.current(model)
  local list = {}
  for _, metric in ipairs(model.metrics) do
    local ok, values = blame.attempt(compiled.values, metric)
    for _, pair in ipairs(ok and values or {{metric.name}}) do
      list[#list + 1] = {pair[1], compiled.read(pair[2])}
    end
  end
  return list
end

---The names of a step's values in the order in which they are shown: the model's metrics, then the
---others.
---@param model Model
---@param values table<string, any>
---@return string[]
function logs.names_in_order(model, values)
  local list, seen = {}, {}
  for _, name in ipairs(model.metrics_names) do
    if values[name] ~= nil and not seen[name] then
      list[#list + 1] = name
      seen[name] = true
    end
  end
  for _, name in ipairs(nest.keys(values)) do
    if not seen[name] then list[#list + 1] = name end
  end
  return list
end

---The values of a step by name, in that order.
---@param model Model
---@param values table<string, any>
---@return Logs
function logs.in_order(model, values)
  local list = {}
  for i, name in ipairs(logs.names_in_order(model, values)) do
    list[i] = {name, compiled.read(values[name])}
  end
  return list
end

return logs
