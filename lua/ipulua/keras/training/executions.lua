-- Chooses the program that a run executes next. A run has a program for whole batches, and one for
-- each other size. The last batch may be smaller, and several datasets have batches of several
-- sizes.

local blame = require "ipulua.base.blame"
local core = require "ipulua.core"
local counted = require "ipulua.base.counted"
local Dataset = require "ipulua.data.dataset"
local feeding = require "ipulua.keras.training.feeding"
local ops = require "ipulua.ops"
local programs = require "ipulua.keras.training.programs"

local executions = {}

---@class Execution
---@field entry ProgramEntry
---@field steps integer
---@field samples integer on each replica

-- A program beside the run's own. A resumed run has the random numbers of one that went through.
local function beside(run, name, entry)
  local counters = run.counters_beside and run.counters_beside[name]
  if counters and not run.beside[name] then
    core.set_program_counters(entry.program.func:concrete().program, counters)
    run.counters_beside[name] = nil -- once
  end
  run.beside[name] = entry
  return entry
end

-- By the shapes that a program is for; where only the first extent may differ, that says it.
local function name_of(run, leaves, rows)
  if not rawget(run.dataset, "first_types") then return "batch of " .. rows end
  local shapes = {}
  for i, leaf in ipairs(leaves) do shapes[i] = table.concat(leaf.shape, "x") end
  return "batch of " .. table.concat(shapes, ", ")
end

local most_programs <const> = 64 -- of a model that was not compiled

-- If there are too many programs beside the run's own, drops the one that ran longest ago. A new
-- program of its shape continues its random numbers.
local function leave_oldest(model, run, name)
  local order = run.order or {}
  run.order = order
  for i = #order, 1, -1 do
    if order[i] == name then table.remove(order, i) end
  end
  order[#order + 1] = name
  if #order <= (model.max_programs or most_programs) then return end
  local oldest = table.remove(order, 1)
  local entry = run.beside[oldest]
  programs.forget(model, entry)
  run.beside[oldest] = nil
end

-- A program of a batch of another size or shape, which reads it from a dataset of its own.
local function of_other_batch(model, run, rows)
  local leaves = run.entry.infeed.queue:take_smaller()
  local dataset = Dataset(core.data.from_tensors(leaves), run.dataset.template)
  local name <const> = name_of(run, leaves, rows)
  local entry = run.beside[name]
  if entry then programs.read_from(model, run.prefix, entry, dataset)
  else
    entry = beside(run, name,
      programs.open(model, run.prefix, {dataset = dataset}, 1, false))
  end
  leave_oldest(model, run, name)
  return {entry = entry, steps = 1, samples = rows}
end

local function refuse_larger(run, rows)
  blame.error(string.format("%s: a batch of the dataset has %s, the first one %d; replicas, "
    .. "stages, accumulated steps and a fixed batch size need batches of one size", run.who,
    counted(rows, "sample"), run.batch_size), "value")
end

local function leave_smaller_out(model, run, rows)
  if rows > run.batch_size then refuse_larger(run, rows) end
  if run.prefix == "predict" then
    feeding.refuse_remainder(run.who, model, {batch_size = run.batch_size,
      samples = (run.made or 0) * run.batch_size * run.replicas + rows})
  end
  feeding.say_left_out(model, run.who, 0, rows)
  run.entry.infeed.queue:take_smaller()
end

-- Whole batches that are no execution. A prediction leaves no sample out, and an epoch needs one.
local function refuse_fewer(run, waiting, done)
  local wanted <const> = run.per_execution * run.replicas
  blame.error(string.format("%s: %s %s no whole execution, which takes %s (%s on %s); give a "
    .. "number of batches that %d divides", run.who,
    counted(done * run.replicas + waiting, "batch", "batches"),
    done * run.replicas + waiting == 1 and "makes" or "make", counted(wanted, "batch", "batches"),
    counted(run.per_execution, "step"), counted(run.replicas, "replica"), wanted), "value")
end

-- Fewer whole batches than an execution takes: the data end, or a batch of another size follows.
-- Only the reader knows which batches are whole, so steps were counted without that knowledge.
local function of_fewer(model, run, waiting, done)
  if not run.takes_remainder then
    if run.prefix == "predict" or done == 0 then refuse_fewer(run, waiting, done) end
    feeding.say_left_out(model, run.who, waiting, 0)
    run.entry.infeed.queue:leave_out()
    return nil
  end
  local entry = programs.beside(model, run.prefix, run.entry, waiting)
  return {entry = beside(run, waiting .. " steps", entry), steps = waiting,
    samples = waiting * run.batch_size}
end

local function whole(run)
  return {entry = run.entry, steps = run.per_execution,
    samples = run.per_execution * run.batch_size}
end

---The next execution of an epoch in which `done` steps were made; nil: the data has ended.
---Errors: a dataset that ends before the steps do that were asked for
---@param model Model
---@param run Run
---@param done integer
---@return Execution?
function executions.next(model, run, done)
  if not rawget(run.dataset, "gathered") then return whole(run) end
  local queue = run.entry.infeed.queue
  -- after a smaller batch in the middle of the data, an epoch has fewer steps left than fit in
  local steps = math.min(run.per_execution, (run.steps or math.maxinteger) - done)
  local wanted = steps * run.replicas
  while true do
    local waiting, rows = queue:gather(wanted)
    -- a program that is only priced takes none of them
    if core.is_estimating() then queue:leave_out() end
    if waiting == wanted then
      if steps == run.per_execution then return whole(run) end
      return of_fewer(model, run, waiting, done)
    end
    -- the program's error says that the data has ended
    if run.asked and rows == 0 then return whole(run) end
    if waiting > 0 then return of_fewer(model, run, waiting, done) end
    if rows == 0 then
      if done == 0 then blame.error(run.who .. ": the dataset has no elements", "value") end
      return nil
    end
    if run.takes_remainder then return of_other_batch(model, run, rows) end
    leave_smaller_out(model, run, rows)
  end
end

---Closes the programs that executions opened beside a run's own.
---@param run Run
function executions.close(run)
  for _, entry in pairs(run.beside or {}) do
    if entry.infeed ~= run.entry.infeed then programs.close(entry) end
  end
end

-- ------------------------------------------------ predictions on replicas

---Adds batches at the end of a prediction's data, until each replica has one in the last step. They
---are the first ones again, and their outputs are dropped.
---@param feed Feed whose batches are counted, or are endless
---@param replicas integer
---@param steps integer? number of batches that the script asked for
---@return integer added
function executions.fill(feed, replicas, steps)
  local total <const> = steps or feed.batches
  local lacking <const> = -total % replicas
  local is_enough <const> = feed.batches == -1 or feed.batches >= total
  if total < 1 or lacking == 0 or not is_enough then return 0 end
  local filled = feed.dataset:take(total):repeat_n():take(total + lacking)
  for _, field in ipairs{"gathered", "any_batch", "first_types"} do
    rawset(filled, field, rawget(feed.dataset, field))
  end
  feed.dataset, feed.batches, feed.samples = filled, total + lacking, nil
  return lacking
end

---Outputs of all steps without the rows of batches that were added.
---Shapes: each [batches rows, ...] → [(batches - added) rows, ...]
---@param outputs userdata[]
---@param added integer
---@param batches integer with these
---@return userdata[]
function executions.cut(outputs, added, batches)
  if added == 0 then return outputs end
  local kept = {}
  for i, t in ipairs(outputs) do
    local begin, size = {}, {}
    for k, extent in ipairs(t.shape) do begin[k], size[k] = 0, extent end
    size[1] = t.shape[1] // batches * (batches - added)
    kept[i] = ops.slice(t, begin, size)
  end
  return kept
end

return executions
