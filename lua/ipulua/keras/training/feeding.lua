-- The data of fit, evaluate and predict: a dataset, or tensors that become one. Also the numbers of
-- steps of an epoch and of an execution.

local args = require "ipulua.base.args"
local assignment = require "ipulua.keras.models.stage_assignment"
local blame = require "ipulua.base.blame"
local class = require "ipulua.base.class"
local class_numbers = require "ipulua.keras.base.class_numbers"
local class_weights = require "ipulua.keras.training.class_weights"
local core = require "ipulua.core"
local counted = require "ipulua.base.counted"
local data = require "ipulua.data"
local infeed = require "ipulua.data.infeed"
local log = require "ipulua.base.log"
local nest = require "ipulua.base.nest"
local ops = require "ipulua.ops"
local plain = require "ipulua.base.plain"
local elements = require "ipulua.data.elements"
local host_strings = require "ipulua.data.host_strings"
local texts = require "ipulua.keras.base.texts"
local together = require "ipulua.keras.base.together"

local feeding = {}

local function is_dataset(x) return class.is_a(x, data.Dataset) end
feeding.is_dataset = is_dataset

-- Lists of numbers as tensors, in a structure.
local function as_tensors(value, who, depth)
  if value == nil then return nil end
  if type(value) == "function" or type(value) == "thread" or class.of(value)
    and (class.of(value).next or class.of(value).get_item) then
    blame.error(who .. ": a generator, iterator or sequence can't be fed, because the shapes of "
      .. "its elements must be known; make a "
      .. "dataset with ipu.data.from_generator", "value")
  end
  if core.is_value(value) then return core.is_variable(value) and value:read_value() or value end
  if args.is_plain(value) then
    local first = nest.first(value)
    -- a table with names holds an input at each, which may be a list of numbers
    if args.is_list(value) and (type(first) == "number" or type(first) == "boolean") then
      return core.tensor(value)
    end
    local out = {}
    depth = plain.deeper(depth or 0)
    for _, key in ipairs(nest.keys(value)) do out[key] = as_tensors(value[key], who, depth) end
    return out
  end
  blame.error(who .. ": expected tensors or a dataset, got " .. args.describe(value)
    .. texts.hint(value), "type")
end

local function length_of(value, who)
  local length
  for _, t in ipairs(nest.flatten(value)) do
    local n = t.shape[1]
    if not n then blame.error(who .. ": a tensor of rank 0 has no samples", "value") end
    if length and n ~= length then
      blame.error(string.format("%s: the tensors have different numbers of samples: %d and %d", who,
        length, n), "value")
    end
    length = n
  end
  return length
end
feeding.length_of = length_of

-- 64-bit components don't go to the device.
local function narrow(dataset)
  local wide = false
  for _, t in ipairs(dataset.handle:types()) do
    wide = wide or t.dtype == "float64" or t.dtype == "int64"
  end
  if not wide then return dataset end
  local function cast(value)
    return nest.map(function(t)
      if t.dtype == "float64" then return ops.cast(t, "float32") end
      if t.dtype == "int64" then return class_numbers(t) end
      return t
    end, value)
  end
  return dataset:map(function(...)
    local given = table.pack(...)
    for i = 1, given.n do given[i] = cast(given[i]) end
    return elements.returned(given, given.n)
  end)
end

---@class Feed
---@field dataset Dataset
---@field batch_size integer of whole batches
---@field batches integer number of batches, the smaller one too; -1 endless, -2 unknown
---@field samples integer? of tensors
---@field goes_on boolean? whether an epoch of tensors goes on where the last one ended

-- The divisor of length that is nearest to the wanted batch size.
local function nearest_divisor(length, wanted)
  local nearest, distance = 1, wanted - 1
  local function consider(divisor)
    local apart = math.abs(divisor - wanted)
    if apart < distance or apart == distance and divisor < nearest then
      nearest, distance = divisor, apart
    end
  end
  for divisor = 1, math.floor(math.sqrt(length)) do
    if length % divisor == 0 then
      consider(divisor)
      consider(length // divisor)
    end
  end
  return nearest
end

-- The batch that all inputs of a model fix (Input{batch_size = 4}).
local function fixed_batch_size(model)
  local fixed
  for _, x in ipairs(model.inputs or {}) do
    local batch = x.shape[1] or -1
    if batch < 1 or (fixed and batch ~= fixed) then return nil end
    fixed = batch
  end
  return fixed
end

-- Samples that make whole batches, where a smaller one can't be taken.
local function refuse_remainder(who, model, feed)
  local length, batch_size = feed.samples, feed.batch_size
  local samples = length == 1 and "1 sample" or length .. " samples"
  local divisor, remedies = nearest_divisor(length, batch_size), {}
  if fixed_batch_size(model) == batch_size then -- layers may hold states of that many samples
    remedies[1] = string.format("the inputs of the model fix it, so add %d",
      batch_size - length % batch_size)
  -- batches of 1 are no useful advice if large ones were asked for
  elseif divisor > 1 or length == 1 then
    remedies[1] = string.format("choose a batch_size that divides %d (%d, say)", length, divisor)
  end
  if length > batch_size then
    remedies[#remedies + 1] = string.format("leave %d out", length % batch_size)
  end
  blame.error(string.format("%s: %s in batches of %d: it has a partial batch; %s", who, samples,
    batch_size, table.concat(remedies, ", or ")), "value")
end

---fit{x, y}: a list of tensors without a y beside it is x and y (and sample weights). The model
---must be compiled with a loss.
---@param who string
---@param model Model
---@param a {x: any, y: any, sample_weight: any}
function feeding.take_apart(who, model, a)
  local list = a.x
  if a.y ~= nil or not model.compile_arguments or model.compile_arguments.loss == nil then
    return
  end
  if not args.is_list(list) or #list < 2 or #list > 3 or not args.is_tensor(nest.first(list)) then
    return
  end
  if args.is_plain(list[3]) and not args.is_list(list[3]) then
    blame.error(string.format("%s: options stand in the table of x and y, %s{x, y, verbose = 0}; "
      .. "or they are the last argument, %s(x, y, {verbose = 0})", who, who, who), "type")
  end
  a.x, a.y = list[1], list[2]
  if a.sample_weight == nil then a.sample_weight = list[3] end
end

local keras_batch <const>, least_batch <const> = 32, 8

-- Keras' 32, or all samples if they are fewer. Steps without a batch size share out all samples.
-- Where a smaller batch at the end can't be taken and batches change no result, one that divides
-- the samples.
local function usual_batch_size(who, model, length, steps)
  local fixed = fixed_batch_size(model)
  if fixed then return fixed end
  if steps then return math.max(math.ceil(length / steps), 1) end
  if length <= keras_batch then return math.max(length, 1) end
  local least = who == "fit" and keras_batch or least_batch
  if feeding.takes_remainder(model, who ~= "fit") then least = keras_batch end
  for size = keras_batch, least, -1 do
    if length % size == 0 then return size end
  end
  return keras_batch
end

---Whether a smaller batch can be trained on (or tested): not with replicas, stages or accumulation,
---which need batches of one size.
---@param model Model
---@param is_test boolean
---@return boolean
function feeding.takes_remainder(model, is_test)
  return not fixed_batch_size(model) and assignment.replicas(model) == 1
    and not together.is_one_of_several(model)
    and not model:is_pipelined() and (is_test or assignment.accumulation(model) == 1)
end

-- Batches of samples in memory. As in Keras, epochs of a given number of steps go on where the last
-- one ended, through the samples once for each epoch.
local function in_batches(dataset, model, o, length, batch_size)
  local whole = length % batch_size == 0
  local goes_on = o.steps and (o.passes or 1) > 1 and o.steps ~= math.ceil(length / batch_size)
  if not goes_on then return dataset:batch(batch_size, {drop_remainder = whole}), false end
  local takes_remainder = feeding.takes_remainder(model, false)
  return dataset:batch(batch_size, {drop_remainder = whole or not takes_remainder})
    :repeat_n(o.passes), true
end

---A dataset of batches from the arguments of fit and the others. `steps` is the number of an
---epoch's steps if the script gave it, `passes` how often samples in memory are read through.
---@param who string
---@param model Model
---@param o table {x, y, sample_weight, batch_size, shuffle, class_weight, epoch, steps, passes}
---@return Feed
function feeding.open(who, model, o)
  local x = o.x
  if args.is_list(x) and #x == 1 and is_dataset(x[1]) then x = x[1] end -- fit{ds}
  local dataset, samples, goes_on
  local is_tensors = not is_dataset(x)
  if x == nil then blame.error(who .. ": there is no data; give a dataset, or x =", "type") end
  if not is_tensors then
    if o.y ~= nil then
      blame.error(who .. ": 'y' must not be given beside a dataset, which holds the labels",
        "value")
    end
    if o.sample_weight ~= nil then
      blame.error(who .. ": 'sample_weight' must not be given beside a dataset; it is the third "
        .. "value of its elements", "value")
    end
    if o.batch_size then
      blame.error(who .. ": 'batch_size' must not be given beside a dataset, which is batched "
        .. "already", "value")
    end
    dataset = x
  else
    x = as_tensors(x, who)
    local y, w = as_tensors(o.y, who), as_tensors(o.sample_weight, who)
    local element = {x, y, w}
    if w ~= nil and y == nil then
      blame.error(who .. ": 'sample_weight' needs 'y', too", "value")
    end
    local length = length_of(element, who)
    if not length then blame.error(who .. ": there is no tensor in the data", "value") end
    local batch_size = o.batch_size or usual_batch_size(who, model, length, o.steps)
    if batch_size < 1 then
      blame.error(who .. ": 'batch_size' must be positive, got " .. batch_size, "value")
    end
    if length == 0 then blame.error(who .. ": there are no samples", "value") end
    if not fixed_batch_size(model) then batch_size = math.min(batch_size, length)
    elseif length % batch_size ~= 0 then
      refuse_remainder(who, model, {samples = length, batch_size = batch_size})
    end
    samples = length
    if o.class_weight then class_weights.check(who, o.class_weight, y) end
    dataset = data.from_tensor_slices(element)
    if o.shuffle then
      dataset = dataset:shuffle(math.max(length, 1))
      dataset.handle:begin_at(o.epoch or 0) -- another order in each call, too
    end
    dataset, goes_on = in_batches(dataset, model, o, length, batch_size)
  end
  local is_distributed <const> = rawget(dataset, "is_distributed") == true
  host_strings.refuse(who, dataset.template)
  dataset = narrow(dataset)
  if o.class_weight then dataset = class_weights.apply(dataset, o.class_weight) end
  return {batch_size = infeed.note_batches(dataset, who), dataset = dataset,
    batches = dataset:cardinality(),
    samples = samples, is_distributed = is_distributed, goes_on = goes_on}
end

---The first `share` of tensors, and the rest: validation_split.
function feeding.split(value, length, share)
  local count = math.floor(length * (1 - share))
  local function part(t, from, to)
    local begin, size = {}, {}
    for i, extent in ipairs(t.shape) do begin[i], size[i] = 0, extent end
    begin[1], size[1] = from, to - from
    return ops.slice(t, begin, size)
  end
  if value == nil then return nil, nil end
  return nest.map(function(t) return part(t, 0, count) end, value),
    nest.map(function(t) return part(t, count, length) end, value)
end
feeding.as_tensors = as_tensors

local told = setmetatable({}, {__mode = "k"})

---Batches of any shape are executions of their own, which not everything can take.
---@param who string
---@param model Model
---@param feed Feed
---@param takes_remainder boolean
function feeding.check_shapes(who, model, feed, takes_remainder)
  if rawget(feed.dataset, "any_batch") and not takes_remainder then
    rawset(feed.dataset, "gathered", nil)
    infeed.check_feedable(feed.dataset, who)
  end
  if not rawget(feed.dataset, "first_types") then return end
  if takes_remainder and (model.steps_per_execution or 1) == 1 then return end
  blame.error(string.format("%s: the batches of the dataset, %s, may have any shape; %s", who,
    tostring(feed.dataset), takes_remainder and "with steps_per_execution = 1 each is an execution"
    or "replicas, stages, accumulated steps and a fixed batch size need one shape: give "
    .. "padded_batch 'padded_shapes'"), "value")
end

---Samples that neither replicas nor accumulation can take are left out, which is said once for a
---model.
function feeding.say_left_out(model, who, batches, samples)
  if told[model] or not together.is_speaker(model) then return end
  told[model] = true
  local what = batches > 0 and counted(batches, "batch", "batches")
    or "a smaller batch of " .. counted(samples, "sample")
  log.warn("%s: %s at the end %s left out: replicas, stages, accumulated steps and a fixed batch "
    .. "size take whole executions", who, what, batches > 1 and "are" or "is")
end

---Tensors whose last samples are no whole batch, where that can't be taken.
function feeding.tell_remainder(model, who, feed, takes_remainder)
  local rest = feed.samples and feed.samples % feed.batch_size or 0
  if rest > 0 and not takes_remainder then feeding.say_left_out(model, who, 0, rest) end
end

---A prediction leaves no sample out.
function feeding.check_all_taken(who, model, feed, takes_remainder)
  if feed.samples and not takes_remainder and feed.samples % feed.batch_size ~= 0 then
    refuse_remainder(who, model, feed)
  end
end

local function refuse_steps(who, per_execution, steps)
  blame.error(string.format("%s: steps_per_execution, %d, must be a divisor of the number of "
    .. "steps, %d", who, per_execution, steps), "value")
end
feeding.refuse_remainder = refuse_remainder

-- Batches of an epoch that are known to be whole. Of a dataset only its reader knows whether the
-- last one is.
local function whole_batches(feed)
  if not feed.samples then return nil end
  return feed.samples // feed.batch_size
end

-- Steps of an execution, where the steps of an epoch are known.
local function fit_execution(who, o, steps, whole)
  local per_execution = o.steps_per_execution
  if per_execution > steps then
    if not o.quiet then
      log.warn("%s: steps_per_execution is %d, but there %s only %s; it is %d for this call", who,
        per_execution,
        steps == 1 and "is" or "are", counted(steps, "step"), steps)
    end
    per_execution = steps
  end
  local divides = steps % per_execution == 0 or whole and whole % per_execution == 0
  if not divides then refuse_steps(who, per_execution, whole or steps) end
  return per_execution
end

-- The number of batches of an epoch, by the script's arguments or the data's length; nil: it is
-- known at the dataset's end.
local function total_of(who, feed, o)
  local total = o.steps
  if total ~= nil and total < 1 then
    blame.error(string.format("%s: '%s' must be positive, got %d", who, o.steps_name, total),
      "value")
  end
  if total == nil and feed.batches == -1 then
    blame.error(string.format("%s: the dataset is endless, so the number of steps can't be "
      .. "inferred; give '%s'", who,
      o.steps_name), "value")
  end
  if total == nil and feed.batches == -2 then return nil end
  if total and feed.batches == -2 then
    log.info("%s: the size of the dataset is unknown; it may end before the steps do", who)
  end
  total = total or (o.takes_remainder and feed.batches or whole_batches(feed) or feed.batches)
  if total == 0 then
    blame.error(who .. ": the dataset has no batches; with drop_remainder it loses those that are "
      .. "not full", "value")
  end
  return total
end

---The number of steps of an epoch on each replica (nil: as many as the dataset turns out to have).
---The second result is how many of these an execution makes. A smaller batch is a step where it can
---be taken. model: whose instances agree, nil where this one is alone. The third result is whether
---the data of one of several instances may end before that many steps.
---@param who string
---@param feed Feed
---@param o table {steps, steps_name, steps_per_execution, replicas, takes_remainder, quiet, model}
---@return integer? steps, integer steps_per_execution, boolean? may_end
function feeding.count_steps(who, feed, o)
  local function find() return total_of(who, feed, o) end
  local total, may_end
  o.may_end_smaller = rawget(feed.dataset, "gathered") ~= nil
  if o.model then total, may_end = together.total(o.model, who, o, find) else total = find() end
  if total == nil then return nil, o.steps_per_execution end
  o.quiet = o.quiet or o.model and not together.is_speaker(o.model)
  local steps = total // o.replicas
  if steps == 0 then
    blame.error(string.format("%s: %s can't be shared among %d replicas: there would be 0 steps on "
      .. "each", who,
      counted(total, "batch", "batches"), o.replicas), "value")
  end
  local rest = total % o.replicas
  if rest ~= 0 and not o.model then
    blame.error(string.format("%s: %d steps on %d replicas: give a number of steps that %d divides",
      who, total, o.replicas, o.replicas), "value")
  elseif rest ~= 0 and together.is_speaker(o.model) then
    log.warn("%s: %d steps on %d replicas: the last %d are left out", who, total, o.replicas, rest)
  end
  local may_end_smaller = not o.steps and o.takes_remainder and rawget(feed.dataset, "gathered")
  local whole = whole_batches(feed)
  return steps, fit_execution(who, o, steps, may_end_smaller and (whole or steps - 1) or nil),
    may_end
end

---An error when a dataset ends before a run's epochs do.
---@param who string
---@param feed Feed
---@param run Run
function feeding.check_enough(who, feed, run)
  if feed.batches < 0 or run.recreates or not run.steps then return end
  local needed = run.epochs * run.steps * run.replicas
  if needed > feed.batches then
    local remedy = feed.samples and "but the samples make %d; run fewer steps, or take a smaller "
      .. "batch_size" or "but the dataset has %d; repeat_n() it, or run fewer steps"
    blame.error(string.format("%s: %s of %s need %s, " .. remedy, who, counted(run.epochs, "epoch"),
      counted(run.steps, "step"), counted(needed, "batch", "batches"), feed.batches), "value")
  end
end

---The row of an argument that counts samples, batches or steps: at least 1, if it is given.
---@param name string
---@param says string? what help adds
---@return table
function feeding.count_row(name, says)
  return {name, "integer", optional = true, range = "[1, inf)", says = says}
end

feeding.batch_size_row = feeding.count_row("batch_size",
  "where x is no dataset; by default what the inputs fix, else what the steps share out, else "
  .. "32, or all of fewer samples; the last batch may be smaller")

return feeding
