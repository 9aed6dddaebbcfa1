-- Changes of a model's program that may make it fit, for ipulua.remedies: the program for half the
-- batch, and spread over twice the pipeline stages.

local config = require "ipulua.config"
local data = require "ipulua.data"
local infeed = require "ipulua.data.infeed"
local outline = require "ipulua.data.outline"
local remedies = require "ipulua.machine.remedies"
local structure = require "ipulua.base.structure"

local changes = {}

local function half_batch(make, model, queue, count)
  local dataset = queue.dataset
  local smaller, batch = remedies.halved((infeed.fed_types(dataset)))
  if not smaller then return nil end
  local program = make(model,
    data.IPUInfeedQueue(outline(structure.rebuild(dataset.template, smaller))), count)
  return program.func:outline(), remedies.words_of_half(batch)
end

local function weight_of(layer)
  local sum = 1
  for _, v in ipairs(layer.weights or {}) do
    local count = 1
    for _, extent in ipairs(v.shape) do count = count * extent end
    sum = sum + count
  end
  return sum
end

-- Each stage's layers in two parts of about the same weight; nil when no stage can be parted.
local function parted(model)
  local list = model:get_pipeline_stage_assignment()
  local stages, total, seen = {}, {}, {}
  for i, entry in ipairs(list) do
    stages[i] = entry.pipeline_stage or 0
    total[stages[i]] = (total[stages[i]] or 0) + weight_of(entry.layer)
  end
  local made, next_stage = {}, -1
  for i, entry in ipairs(list) do
    local s, first = stages[i], i == 1 or stages[i] ~= stages[i - 1]
    if first then next_stage, seen[s] = next_stage + 1, {weight = 0} end
    local weight = weight_of(entry.layer)
    if not first and not seen[s].cut
      and (seen[s].weight + weight / 2 > total[s] / 2 or stages[i + 1] ~= s) then
      next_stage, seen[s].cut = next_stage + 1, true
    end
    seen[s].weight = seen[s].weight + weight
    made[i] = next_stage
  end
  local former = stages[#stages] and stages[#stages] + 1 or 1
  return next_stage + 1 > former and made or nil, former, next_stage + 1
end

local function more_stages(make, model, queue)
  if model._options.pipelining.device_mapping then return nil end
  local made, former, count = parted(model)
  if not made then return nil end
  local options = model._options
  local assignment, was_reset, pipeline = options.assignment, options.was_reset, options.pipelining
  local _ <close> = setmetatable({}, {__close = function()
    options.assignment, options.was_reset, options.pipelining = assignment, was_reset, pipeline
  end})
  options.assignment, options.was_reset = made, nil
  options.pipelining = setmetatable({}, {__index = pipeline})
  for k, v in pairs(pipeline) do options.pipelining[k] = v end
  local steps = pipeline.gradient_accumulation_steps_per_replica or 1
  options.pipelining.gradient_accumulation_steps_per_replica = math.max(steps, 2 * count)
  local ipus = 1
  while ipus < count do ipus = ipus * 2 end
  local _ <close> = config.pretend_ipus(ipus)
  local feed = data.IPUInfeedQueue(queue.dataset)
  local program = make(model, feed, options.pipelining.gradient_accumulation_steps_per_replica)
  return program.func:outline(), string.format(former == 1 and "%d pipeline stages"
    or "%d pipeline stages instead of %d", count, former),
    ipus
end

---@param make fun(model: Model, queue: table, count: integer): StepProgram
---@return function[]
function changes.of(make, model, queue, count)
  return {
    function() return half_batch(make, model, queue, count) end,
    function() return more_stages(make, model, queue) end,
  }
end

return changes
