-- Agreements of fit and evaluate if a model runs on several instances. They agree on the number of
-- steps, on the instance that writes and prints, and on when to stop.

local blame = require "ipulua.base.blame"
local core = require "ipulua.core"
local counted = require "ipulua.base.counted"
local instances = require "ipulua.config.instances"
local json = require "ipulua.base.json"
local log = require "ipulua.base.log"
local teams = require "ipulua.config.teams"

local together = {}

---To be closed: until then new variables and programs belong to the model's strategy.
---@param model Model
function together.enter(model) return teams.enter(model._team) end

---Whether the model meets other instances.
---@param model Model
---@return boolean
function together.is_one_of_several(model)
  return model._team ~= nil and instances.are_several()
end

---Whether this instance writes the files of such a model, and talks for all.
---@param model Model
---@return boolean
function together.is_speaker(model)
  return not together.is_one_of_several(model) or instances.is_first()
end

---Of methods that one of several instances does for all.
together.every_row = {"all_instances", "boolean", false,
  says = "of several instances each writes, not the first alone"}

---Whether this instance leaves a file to the first one.
---@param model Model
---@param a table arguments, with every_row among them
---@return boolean
function together.leaves_to_first(model, a)
  return not a.all_instances and not together.is_speaker(model)
end

-- The words of an error of this instance's own, without the line of the script.
local function words_of(problem)
  local last = blame.last
  local text = tostring(problem)
  return last and text:find(last.message, 1, true) and last.message or text
end

-- An error of any instance is everybody's; nothing has been changed.
local function raise_first(who, all, own)
  for q, each in ipairs(all) do
    if each.problem then
      if q - 1 == instances.index() then error(own, 0) end
      local words = each.problem
      if words:sub(1, #who + 2) == who .. ": " then words = words:sub(#who + 3) end
      blame.error(string.format("%s: instance %d: %s", who, q - 1, words), "value")
    end
  end
end

---f(), which may raise on some instances: then all raise, before anything ran.
---@param model Model
---@param who string
---@param f fun(): any
---@return any
function together.check(model, who, f)
  if not together.is_one_of_several(model) then return f() end
  local results = table.pack(blame.pcall(f))
  local problem = not results[1] and words_of(results[2]) or nil
  raise_first(who, instances.exchange(who, who, {problem = problem}), results[2])
  return table.unpack(results, 2, results.n)
end

local function describe(all)
  local list = {}
  for q, each in ipairs(all) do list[q] = string.format("%d on instance %d", each.total, q - 1) end
  return table.concat(list, ", ")
end

local function differ(all, field)
  for _, each in ipairs(all) do
    if each[field] ~= all[1][field] then return true end
  end
  return false
end

local told = setmetatable({}, {__mode = "k"})

-- Data of unequal length: all make the steps of the shortest.
local function least(model, who, all)
  local total, largest = all[1].total, all[1].total
  for _, each in ipairs(all) do
    total, largest = math.min(total, each.total), math.max(largest, each.total)
  end
  if total ~= largest and instances.is_first() and not told[model] then
    told[model] = true
    log.warn("%s: the instances' data have other numbers of batches: %s; all make %s, and up to %s "
      .. "left out", who, describe(all), counted(total, "step"),
      counted(largest - total, "batch is", "batches are"))
  end
  return total
end

---The number of steps that all instances make, from find() on each of them. A value that a script
---states must be the same; of a value that follows from the data the least holds. The second result
---is whether the last batch of any instance may be smaller, so that its data may end before that.
---@param model Model
---@param who string
---@param o table {steps = what the script states, steps_name, may_end_smaller}
---@param find fun(): integer
---@return integer? steps, boolean? may_end
function together.total(model, who, o, find)
  if not together.is_one_of_several(model) then return find() end
  local ok, total = pcall(find)
  local own = {stated = o.steps ~= nil, total = ok and total or nil,
    may_end = o.may_end_smaller or nil, problem = not ok and words_of(total) or nil}
  local all = instances.exchange(who, who, own)
  raise_first(who, all, total)
  local may_end = false
  for _, each in ipairs(all) do may_end = may_end or each.may_end == true end
  for _, each in ipairs(all) do
    -- it is unknown on all instances
    if each.total == nil and not differ(all, "total") then return nil end
    if each.total == nil then
      blame.error(string.format("%s: some instances know how many batches their data have, and "
        .. "some "
        .. "don't; give '%s'", who, o.steps_name), "value")
    end
  end
  if differ(all, "stated") or all[1].stated and differ(all, "total") then
    blame.error(string.format("%s: '%s' must be the same on all instances; it is %s", who,
      o.steps_name, describe(all)), "value")
  end
  return all[1].stated and total or least(model, who, all), may_end
end

local told_end = setmetatable({}, {__mode = "k"})

---Whether the data of any instance have ended, if the number of batches was unknown. An error of
---reading them is everybody's.
---@param model Model
---@param who string
---@param ended boolean
---@param problem any? the error on this instance
---@return boolean
function together.has_ended(model, who, ended, problem)
  if not together.is_one_of_several(model) then
    if problem ~= nil then error(problem, 0) end
    return ended
  end
  local own = {ended = ended, problem = problem ~= nil and words_of(problem) or nil}
  local all = instances.exchange("ended", who, own)
  raise_first(who, all, problem)
  local first, count = nil, 0
  for q, each in ipairs(all) do
    if each.ended then first, count = first or q - 1, count + 1 end
  end
  if first and count < #all and instances.is_first() and not told_end[model] then
    told_end[model] = true
    log.warn("%s: the data of instance %d have ended; the epoch ends on all, and what others have "
      .. "more is left out", who, first)
  end
  return first ~= nil
end

---Whether anybody's flag is set.
---@param model Model
---@param what string what messages call it
---@param flag boolean
---@return boolean
function together.any(model, what, flag)
  if not together.is_one_of_several(model) then return flag end
  for _, each in ipairs(instances.exchange("flag", what, flag and 1 or 0)) do
    flag = flag or each == 1
  end
  return flag
end

---After an execution: whether Ctrl-C was pressed anywhere. stop_training of one is everybody's.
---@param model Model
---@param who string
---@return boolean
function together.interrupted(model, who)
  local mine = core.take_interrupt()
  if not together.is_one_of_several(model) then return mine end
  local flags = (mine and 1 or 0) + (model.stop_training and 2 or 0)
  for _, each in ipairs(instances.exchange("executed", who, flags)) do flags = flags | each end
  if flags & 2 ~= 0 then model.stop_training = true end
  return flags & 1 ~= 0
end

-- ------------------------------------------------ data

local told_equal = setmetatable({}, {__mode = "k"})

---Before the first execution of a training on data of each instance's own: its first batch is
---noted.
---@param model Model
---@param run Run
function together.watch_data(model, run)
  if run.is_distributed or told_equal[model]
    or not together.is_one_of_several(model) then return end
  run.watches = true
  run.entry.infeed.queue:watch()
end

---After it: a warning if all instances began with the same batch.
---@param model Model
---@param run Run
function together.compare_data(model, run)
  if not run.watches then return end
  run.watches, told_equal[model] = nil, true
  local all = instances.exchange("data", "fit", run.entry.infeed.queue:crc())
  for _, crc in ipairs(all) do
    if crc ~= all[1] then return end
  end
  if instances.is_first() then
    log.warn("every instance is fed the same data; use "
      .. "ds:shard(popdist.getNumInstances(), popdist.getInstanceIndex()) or "
      .. "strategy:experimental_distribute_dataset(ds)")
  end
end

-- ------------------------------------------------ checkpoints

local members <const> = {"weights.safetensors", "optim.safetensors", "variables.safetensors",
  "training.safetensors"}

-- The content of a checkpoint, without the values: {path, state, members}.
local function outline(saved)
  if not saved then return {} end
  local all = {path = saved.path, state = saved.state, members = {}}
  for _, file in ipairs(members) do
    local tensors, metadata = saved.member(file)
    local list = {}
    for name, t in pairs(tensors or {}) do list[#list + 1] = {name, t.dtype, t.shape} end
    table.sort(list, function(a, b) return a[1] < b[1] end)
    all.members[file] = {list = json.array(list), metadata = metadata, is_there = tensors ~= nil}
  end
  return all
end

---A checkpoint that instance 0 has read, on all of them.
---@param model Model
---@param who string
---@param saved table?
---@return table?
function together.from_first(model, who, saved)
  if not together.is_one_of_several(model) then return saved end
  local all = instances.exchange("checkpoint", who, outline(saved))[1]
  if not all.path then return nil end
  local found = {}
  for _, file in ipairs(members) do
    local own, tensors = saved and saved.member(file) or {}, {}
    for _, row in ipairs(all.members[file].list) do
      local name, dtype, shape = row[1], row[2], row[3]
      tensors[name] = instances.collect("broadcast", file .. ":" .. name, who,
        own[name] or core.full(shape, 0, dtype), 0)
    end
    found[file] = {all.members[file].is_there and tensors or nil, all.members[file].metadata}
  end
  return {path = all.path, state = all.state,
    member = function(file) return table.unpack(found[file] or {}, 1, 2) end}
end

return together
