-- The state of a training run besides weights and optimizer: metrics, states of layers and
-- callbacks, random numbers, the position in the dataset. Tensors by name, and a table that JSON
-- can hold.

local args = require "ipulua.base.args"
local blame = require "ipulua.base.blame"
local core = require "ipulua.core"
local counted = require "ipulua.base.counted"
local instances = require "ipulua.config.instances"
local json = require "ipulua.base.json"
local log = require "ipulua.base.log"
local ops = require "ipulua.ops"
local plain = require "ipulua.base.plain"
local weights = require "ipulua.keras.files.weights"

local state = {}

-- ------------------------------------------------ tables with tensors and odd numbers in them

-- A name that begins with $ gets another one in front, since {"$tensor": …} has a meaning here.
local function packed_key(key)
  return type(key) == "string" and key:sub(1, 1) == "$" and "$" .. key or key
end
local function unpacked_key(key)
  return type(key) == "string" and key:sub(1, 2) == "$$" and key:sub(2) or key
end

---A value as JSON can hold it: tensors move to `tensors` under names that begin with prefix.
---@param value any
---@param tensors table<string, userdata>
---@param prefix string
function state.pack(value, tensors, prefix, depth)
  if core.is_variable(value) then value = value:read_value() end
  if core.is_tensor(value) then
    local name = prefix
    while tensors[name] do name = name .. "'" end -- {["a/b"] = t} beside {a = {b = t}}
    tensors[name] = value
    return {["$tensor"] = name}
  end
  if not args.is_plain(value) then return json.pack_number(value) end
  local out = {}
  depth = plain.deeper(depth or 0)
  for key, each in pairs(value) do
    out[packed_key(key)] = state.pack(each, tensors, prefix .. "/" .. tostring(key), depth)
  end
  return json.is_array(value) and json.array(out) or out
end

---The value that state.pack took apart.
function state.unpack(value, tensors)
  if type(value) ~= "table" then return value end
  if value["$tensor"] then return tensors[value["$tensor"]] end
  if value["$number"] then return json.packed_number(value) end
  local out = core.plain{}
  for key, each in pairs(value) do out[unpacked_key(key)] = state.unpack(each, tensors) end
  return out
end

-- ------------------------------------------------ variables that are no weights

-- Of metrics, and of layers between batches (stateful recurrent ones): by position, since names may
-- differ in another process.
local function variables_of(model)
  local list = {}
  for i, metric in ipairs(model.metrics) do
    for k, v in ipairs(metric:all_variables()) do list[string.format("metric/%d/%d", i, k)] = v end
  end
  local count = 0
  model:walk(function(layer)
    count = count + 1
    for k, v in ipairs(layer:state_variables()) do
      list[string.format("layer/%d/%d", count, k)] = v
    end
  end)
  return list
end

-- All that replicas may have values of their own of: sums of gradients, too, and weights that they
-- change each by itself.
local function of_replicas(model)
  local list = variables_of(model)
  for i, v in ipairs(model.non_trainable_variables) do list["weight/" .. i] = v end
  for i, v in ipairs(model.trainable_variables) do list["trainable/" .. i] = v end
  local numbered = {} -- names of layers may differ in another process
  for i, entry in ipairs(weights.paths(model)) do
    numbered[i] = {path = tostring(i), variable = entry.variable}
  end
  local function add(prefix, optimizer) -- a run that goes on may have made more of them
    for _, entry in ipairs(optimizer:entries(numbered)) do
      list[prefix .. entry.path] = entry.variable
    end
  end
  add("optimizer/", model.optimizer)
  for _, each in ipairs(weights.inner_optimizers(model)) do
    add("optimizer." .. each.name .. "/", each.optimizer)
  end
  return list
end

-- The values of replicas 1 …; none where all agree.
local function differing(v)
  local values = core.replica_values(v)
  if #values == 0 then return values end
  local first = v:read_value()
  for _, value in ipairs(values) do
    if not ops.reduce_all(ops.equal(first, value)):item() then return values end
  end
  return {}
end

-- ------------------------------------------------ replicas of several instances

local function names_of(list)
  local names = {}
  for name in pairs(list) do names[#names + 1] = name end
  table.sort(names)
  return names
end

local function all_equal(all, i)
  for _, each in ipairs(all) do
    for _, crc in ipairs(each.crcs[i]) do
      if crc ~= all[1].crcs[i][1] then return false end
    end
  end
  return true
end

-- A variable's values on the replicas of all instances, [replicas, …].
local function gathered(name, values)
  local own = ops.stack(values)
  if not instances.are_several() then return own end
  local all = instances.collect("allgather", "backup;" .. name, "BackupAndRestore", own)
  return ops.reshape(all, {-1, table.unpack(own.shape, 2)})
end

-- Of variables that replicas may have each for themselves: all replicas' values, where they differ.
local function save_replicas(model, run, place, data, tensors)
  local list = of_replicas(model)
  local names <const> = names_of(list)
  local crcs, values = {}, {}
  for i, name in ipairs(names) do
    values[i], crcs[i] = core.values_of_replicas(list[name], run.replicas), {}
    for r, value in ipairs(values[i]) do crcs[i][r] = core.crc_of_tensor(value) end
  end
  local all = instances.exchange("backup", "BackupAndRestore", {crcs = crcs,
    place = place:totable(), stopped = data.stopped})
  for i, name in ipairs(names) do
    if core.is_aggregated(list[name]) or not all_equal(all, i) then
      tensors["all/" .. name] = gathered(name, values[i])
    end
  end
  data.places = {}
  for q, each in ipairs(all) do
    data.places[q] = each.place
    data.stopped = data.stopped or each.stopped -- a callback of one instance stops all
  end
  data.local_replicas, data.distributed = run.replicas, run.is_distributed
end

-- This instance's position: in a distributed dataset the position of the whole, in its own data its
-- own.
local function place_of(run, data)
  local count <const>, former <const> = instances.count(), #data.places
  if data.distributed then
    local words = data.places[1]
    words[2] = words[2] // data.local_replicas * run.replicas
    return core.tensor(words, "int64")
  end
  if count ~= former or data.local_replicas ~= run.replicas then
    blame.error(string.format("BackupAndRestore: the backup is of %s with %s each and data of "
      .. "their own; it can't go on as %d with %d. Only data of experimental_distribute_dataset "
      .. "has one position for all instances", counted(former, "instance"),
      counted(data.local_replicas, "replica"), count, run.replicas), "value")
  end
  return core.tensor(data.places[instances.index() + 1], "int64")
end

-- This instance's replicas' part of the values saved for all, by variable.
local function replicas_of(model, run, tensors)
  local found, first = {}, instances.index() * run.replicas
  for name, v in pairs(of_replicas(model)) do
    local all = tensors["all/" .. name]
    if all then
      local values, count = {}, instances.count() * run.replicas
      if count ~= all.shape[1] then
        blame.error(string.format("BackupAndRestore: the backup is of %d replicas, these are %d",
          all.shape[1], count), "value")
      end
      for r = 1, run.replicas do
        values[r] = weights.fitted("BackupAndRestore", name, v, all[first + r])
      end
      found[v] = values
    end
  end
  return found
end

-- ------------------------------------------------ a run of fit

local function program_of(run) return run.entry.program.func:concrete().program end

local function counters_beside(run)
  local list = {}
  for name, entry in pairs(run.beside) do
    list[name] = core.program_counters(entry.program.func:concrete().program)
  end
  return next(list) and list or nil
end

---The state of a run after `step` steps of `epoch`. run: the table that fit keeps; latest: the logs
---of these steps, where they may be all of the epoch.
---@return table data, table<string, userdata> tensors
function state.save(model, run, epoch, step, latest)
  local tensors, states = {}, {}
  for name, v in pairs(variables_of(model)) do tensors[name] = v:read_value() end
  for name, v in pairs(model._team and {} or of_replicas(model)) do
    for r, value in ipairs(differing(v)) do
      tensors[string.format("replica/%d/%s", r, name)] = value
    end
  end
  for i, callback in ipairs(run.callbacks.list) do
    states[i] = {class = callback.__name,
      state = state.pack(callback:get_state(), tensors, "callback/" .. i)}
  end
  local place = run.entry.infeed.queue:save()
  -- data isn't read again: only the number of the reading counted
  if step == 0 and run.recreates then
    local words = place:totable()
    words[2] = 0
    place = core.tensor(words, "int64")
  end
  local data = {epoch = epoch, step = step, latest = state.pack(latest, tensors, "latest"),
    stopped = model.stop_training, callbacks = states,
    validations = run.cut or run.validation and run.validation.handle:iterations(),
    random = core.save_random(),
    counters = core.program_counters(program_of(run)), beside = counters_beside(run)}
  if model._team then save_replicas(model, run, place, data, tensors) else tensors.place = place end
  return data, tensors
end

---Puts a run where it stood; its programs must have been traced. Everything that may not fit is
---looked at before anything is changed.
---@param commit fun() sets what was saved beside the run: weights, optimizer
---@return integer epoch, integer step
function state.restore(model, run, data, tensors, commit)
  local entries, replicas = {}, {}
  local is_shared <const> = data.places ~= nil
  local place <const> = is_shared and place_of(run, data) or tensors.place
  local of_all <const> = is_shared and replicas_of(model, run, tensors) or {}
  for name, v in pairs(variables_of(model)) do
    if tensors[name] then entries[#entries + 1] = {path = name, variable = v} end
  end
  for name, v in pairs(of_replicas(model)) do
    local values, r = {}, 1
    while tensors[string.format("replica/%d/%s", r, name)] do
      values[r] = weights.fitted("BackupAndRestore", name, v,
        tensors[string.format("replica/%d/%s", r, name)])
      r = r + 1
    end
    replicas[v] = values
  end
  local plan <const> = weights.plan("BackupAndRestore", entries, tensors)
  local random <const> = core.save_random()
  core.restore_random(data.random)
  -- its stages draw numbers
  local placed, problem = pcall(run.entry.infeed.queue.restore, run.entry.infeed.queue,
    place)
  if not placed then
    core.restore_random(random)
    error(problem, 0)
  end
  commit()
  weights.commit(plan)
  core.set_program_counters(program_of(run), data.counters)
  run.counters_beside = data.beside
  for v, values in pairs(replicas) do core.set_replica_values(v, values) end
  for v, values in pairs(of_all) do core.set_values_of_replicas(v, values) end
  for i, callback in ipairs(run.callbacks.list) do
    local saved = data.callbacks[i]
    if saved and saved.class == callback.__name then
      if saved.state then callback:set_state(state.unpack(saved.state, tensors)) end
    else
      log.warn("fit: callback %d is %s; the interrupted run had %s there, so it begins anew", i,
        callback.__name, saved and saved.class or "none")
    end
  end
  if run.validation and data.validations then
    run.validation.handle:continue_from(data.validations)
  end
  model.stop_training = data.stopped
  return data.epoch, data.step
end

return state
