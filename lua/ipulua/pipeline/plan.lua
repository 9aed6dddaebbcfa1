-- The plan of a pipeline: the schedule, the IPU of each stage, recomputation and offloading. The
-- core makes timetables of it. Here it is checked, in the words of the public functions.

local args = require "ipulua.base.args"
local blame = require "ipulua.base.blame"
local config = require "ipulua.config"
local core = require "ipulua.core"
local counted = require "ipulua.base.counted"
local enum = require "ipulua.base.enumeration"
local enums = require "ipulua.enums"
local offloading = require "ipulua.trace.offloading"

local schedules <const> = core.schedules()

local plans = {}

-- ------------------------------------------------ stages and IPUs

local function check_ipu(who, ipu)
  if math.type(ipu) ~= "integer" or ipu < 0 then
    blame.error(string.format("%s: 'device_mapping' must hold numbers of IPUs, from 0, got %s", who,
      args.describe(ipu)),
      math.type(ipu) == "integer" and "value" or "type")
  end
  return ipu
end

local function check_concurrent(who, position, mapped)
  if not args.is_list(mapped) then
    blame.error(string.format("%s: stage %d is a list of %d concurrent stages, so 'device_mapping' "
      .. "must have a list of as many IPUs "
      .. "there, got %s", who, position.number, position.count, args.describe(mapped)), "type")
  end
  if #mapped ~= position.count then
    blame.error(string.format("%s: stage %d is a list of %d concurrent stages, but "
      .. "'device_mapping' has %s there", who,
      position.number, position.count, counted(#mapped, "IPU")), "value")
  end
end

local function default_mapping(widths)
  local mapping, next_ipu = {}, 0
  for i, width in ipairs(widths) do
    if not width.concurrent then
      mapping[i], next_ipu = next_ipu, next_ipu + 1
    else
      mapping[i] = {}
      for k = 1, width.count do mapping[i][k], next_ipu = next_ipu, next_ipu + 1 end
    end
  end
  return mapping
end

---The IPU of every stage, concurrent ones counted singly: {position_of =, ipu_of =, mapping =,
---is_default =}.
---@param who string
---@param widths table[] of each stage {count = of functions, concurrent = written as a list}
---@param mapping any[]? as written
function plans.read_mapping(who, widths, mapping)
  local is_default = mapping == nil
  if not is_default and not args.is_list(mapping) then
    blame.error(string.format("%s: 'device_mapping' must be a list, got %s", who,
      args.describe(mapping)), "type")
  end
  mapping = mapping or default_mapping(widths)
  if #mapping ~= #widths then
    blame.error(string.format("%s: 'device_mapping' must name a device for each of the %d stages, "
      .. "got %d", who, #widths, #mapping), "value")
  end
  local read = {position_of = {}, ipu_of = {}, mapping = mapping, is_default = is_default}
  for i, width in ipairs(widths) do
    local list = mapping[i]
    if width.concurrent then check_concurrent(who, {number = i - 1, count = width.count}, list)
    elseif type(list) == "table" then
      blame.error(string.format("%s: 'device_mapping' has a list for stage %d, which is a single "
        .. "function", who, i - 1), "type")
    else list = {list} end
    for _, ipu in ipairs(list) do
      read.position_of[#read.position_of + 1] = i - 1
      read.ipu_of[#read.ipu_of + 1] = check_ipu(who, ipu)
    end
  end
  return read
end

---IPUs that one replica takes: a power of two.
---@param ipu_of integer[]
---@return integer
function plans.shards(ipu_of)
  local shards = 1
  while shards < math.max(table.unpack(ipu_of)) + 1 do shards = shards * 2 end
  return shards
end

---Refuses a device whose IPUs can't be shared out.
function plans.check_device(who, shards, ordinal)
  local ipus = config.device(ordinal).ipus
  if ipus % shards == 0 and ipus >= shards then return end
  -- as many as the program needs
  if core.is_estimating() and not config.is_configured() then return end
  blame.error(string.format("%s: the number of shards, %d, must divide the number of IPUs of the "
    .. "device, %d; "
    .. "configure more with auto_select_ipus, or map stages together with device_mapping", who,
    shards, ipus), "internal")
end

-- ------------------------------------------------ recomputation

local ways <const> = {RecomputeThenBackpropagate = "stage",
  RecomputeAndBackpropagateInterleaved = "interleaved"}

---"none", "stage" or "interleaved".
local function recomputation(who, mode, schedule, training)
  local way = ways[mode] or schedule.recomputations[1]
  if not schedule.recomputations[way] then
    blame.error(string.format("%s: recomputation_mode %s is not supported by schedule %s", who,
      mode, schedule.name), "not_implemented")
  end
  return training and config.get("allow_recompute") and way or "none"
end

-- ------------------------------------------------ a schedule given as time steps

local passes <const> = {forward = false, backward = true, f = false, b = true}

-- The schedule as a call gave it.
local function option_of(who) return who == "timetable" and "schedule" or "pipeline_schedule" end

-- {ipu =, kind =, stage =, micro_batch =}, or the same by position.
local function read_entry(who, t, step, i)
  local fields = {t.ipu or t[1], t.kind or t[2], t.stage or t[3], t.micro_batch or t[4]}
  local backward = type(fields[2]) == "string" and passes[fields[2]:lower()]
  if math.type(fields[1]) ~= "integer" or type(backward) ~= "boolean"
    or math.type(fields[3]) ~= "integer"
    or math.type(fields[4]) ~= "integer" then
    blame.error(string.format("%s: entry %d of time step %d in '%s' must be {ipu =, kind = "
      .. "\"forward\" or "
      .. "\"backward\", stage =, micro_batch =}", who, i, step, option_of(who)), "value")
  end
  return fields[1], backward, fields[3], fields[4]
end

-- Each IPU's programs in their order, as the core takes them; and all of them with their time
-- steps: {program, micro-batch, step}.
local function read_order(who, steps, training, positions, ipus)
  local order, listed = {}, {}
  for ipu = 0, ipus - 1 do order[ipu + 1] = {} end
  if not args.is_list(steps) then
    blame.error(string.format("%s: '%s' must be a name, or a list of time steps, numbered from 1 "
      .. "without gaps", who, option_of(who)), "type")
  end
  if #steps == 0 then
    blame.error(string.format("%s: '%s' holds no time steps", who, option_of(who)), "value")
  end
  for step, entries in ipairs(steps) do
    if not args.is_list(entries) then
      blame.error(string.format("%s: '%s' must be a name, or a list of time steps, each a list of "
        .. "entries; step %d is %s", who,
        option_of(who), step, type(entries) == "table" and "no list, but as an entry is"
        or args.describe(entries)), "type")
    end
    for i, t in ipairs(entries) do
      if type(t) ~= "table" then t = {} end
      local ipu, backward, stage, micro = read_entry(who, t, step, i)
      if stage < 0 or stage >= positions or ipu < 0 or ipu >= ipus or micro < 0 or backward
        and not training then
        blame.error(string.format("%s: entry %d of time step %d in '%s' names IPU %d, stage %d%s; "
          .. "there are %s and %s",
          who, i, step, option_of(who), ipu, stage, backward and ", backward" or "",
          counted(ipus, "IPU"), counted(positions, "stage")), "value")
      end
      local list, entry = order[ipu + 1],
        {backward and 2 * positions - 1 - stage or stage, micro, step}
      list[#list + 1], listed[#listed + 1] = entry, entry
    end
  end
  return order, listed
end

-- In a list whose passes are complete each must stand in a later time step than the pass before it
-- of its micro-batch.
local function check_steps(who, listed, positions)
  local last = {} -- last[program][micro-batch]: the last time step that runs it
  for _, e in ipairs(listed) do
    local program, micro, step = table.unpack(e)
    last[program] = last[program] or {}
    last[program][micro] = step
  end
  local function pass(program)
    if program < positions then return "forward pass of stage " .. program end
    return "backward pass of stage " .. 2 * positions - 1 - program
  end
  for _, e in ipairs(listed) do
    local program, micro, step = table.unpack(e)
    local needed = program > 0 and last[program - 1][micro]
    if needed and needed >= step then
      blame.error(string.format("%s: '%s' has the %s on micro-batch %d in time step %d, which must "
        .. "come after the %s, in time step %d",
        who, option_of(who), pass(program), micro, step, pass(program - 1), needed), "value")
    end
  end
end

-- ------------------------------------------------ plans

---@class PipelineFacts what ipu.programs and ipu.timetable tell of a pipeline
---@field plan userdata
---@field schedule string
---@field rules table the schedule's row
---@field training boolean
---@field mapping any[]
---@field position_of integer[]
---@field ipu_of integer[]
---@field shards integer
---@field count integer? nil: known at run time

-- The first whose row has that fact.
local function first_schedule(fact)
  for _, schedule in ipairs(schedules) do
    if schedule[fact] then return schedule end
  end
end

plans.default_schedule = schedules[1].name
---That which lets a stage take batches in a row.
plans.serial_schedule = first_schedule("one_at_a_time").name

---Makes a plan. Fields: schedule (a name or time steps), training, widths, device_mapping,
---recomputation_mode, and the result of offloading.check.
---@return PipelineFacts
function plans.new(who, a)
  local read = plans.read_mapping(who, a.widths, a.device_mapping)
  local custom = type(a.schedule) == "table"
  local schedule = custom and first_schedule "given" or schedules[a.schedule]
  local ipus = math.max(table.unpack(read.ipu_of)) + 1
  local order, listed
  if custom then order, listed = read_order(who, a.schedule, a.training, #a.widths, ipus) end
  local plan = core.pipeline_plan{
    schedule = schedule.name, training = a.training, position_of = read.position_of,
    ipu_of = read.ipu_of,
    recomputation = recomputation(who, a.recomputation_mode or "Auto", schedule, a.training),
    io_overlap = config.get("io_tiles.place_ops_on_io_tiles") == true,
    order = order,
    offload = offloading.of_pipeline(a),
  }
  if custom then check_steps(who, listed, #a.widths) end
  return {
    plan = plan, schedule = schedule.name, rules = schedule, training = a.training,
    mapping = read.mapping,
    position_of = read.position_of, ipu_of = read.ipu_of,
    shards = plans.shards(read.ipu_of), is_default_mapping = read.is_default, positions = #a.widths,
  }
end

---A schedule by its name in any letter case, or a table of time steps.
function plans.read_schedule(who, value)
  if type(value) == "table" then return value end
  if type(value) ~= "string" then
    blame.error(string.format("%s: '%s' must be a PipelineSchedule (%s) or a list of time steps, "
      .. "got %s", who, option_of(who),
      table.concat(enum.members(enums.PipelineSchedule), ", "), args.describe(value)), "type")
  end
  local found = enum.find(enums.PipelineSchedule, value)
  if found then return found end
  blame.error(string.format("%s: '%s': %s", who, option_of(who),
    enum.refusal(enums.PipelineSchedule, value)), "value")
end

-- ------------------------------------------------ counts

---The condition on the number of micro-batches: a multiple, and at least so many.
---@return integer multiple, integer least
function plans.count_rule(facts) return facts.plan:overlap() end

---The least number of micro-batches.
---@return integer
function plans.least_count(facts) return (select(2, plans.count_rule(facts))) end

---Words when count is no legal number of micro-batches, called by the name that its writer knows.
---@return string?
function plans.refuse_count(facts, count, name)
  local multiple, least = plans.count_rule(facts)
  if count >= least and count % multiple == 0
    and (not facts.rules.given or count == multiple) then
    return nil
  end
  local what = string.format("schedule %s with %d stages in %s", facts.schedule, facts.positions,
    facts.training and "training" or "inference")
  if facts.rules.given then
    return string.format("'%s' must be %d, for which the schedule was written, but it is %d", name,
      least, count)
  end
  if multiple == 1 then
    return string.format("'%s' must be at least %d for %s, but it is %d", name, least, what, count)
  end
  return string.format("'%s' must be a multiple of %d for %s, but it is %d", name, multiple,
    what, count)
end

-- ------------------------------------------------ what reports tell

---The positions in the device, after selection order, of the stages' IPUs; lists for concurrent
---stages.
function plans.stage_ipus(facts)
  local order = config.selection_order(config.get("selection_order"), facts.shards,
    {default_pipeline = facts.is_default_mapping})
  local list = {}
  for i, ipu in ipairs(facts.mapping) do
    if type(ipu) == "table" then
      list[i] = {}
      for k, each in ipairs(ipu) do list[i][k] = order[each + 1] end
    else
      list[i] = order[ipu + 1]
    end
  end
  return list
end

---For each stage, the copies of its activations that wait for its backward pass.
---@return integer[]
function plans.stash_depth(facts) return facts.plan:stashes() end

---How many time steps a run takes; nil where the count is known only at run time.
---@return integer?
function plans.time_steps(facts)
  return facts.count and facts.plan:time_steps(facts.count) or nil
end

return plans
