-- Runs of fit, evaluate and predict: executions of a program one after the other, with callbacks, a
-- bar and Ctrl-C between them.

local asynchronous = require "ipulua.keras.training.asynchronous"
local blame = require "ipulua.base.blame"
local building = require "ipulua.keras.training.building"
local callbacks = require "ipulua.keras.callbacks"
local class = require "ipulua.base.class"
local core = require "ipulua.core"
local feeding = require "ipulua.keras.training.feeding"
local log = require "ipulua.base.log"
local logs = require "ipulua.keras.training.logs"
local pipelining = require "ipulua.keras.models.stage_assignment"
local programs = require "ipulua.keras.training.programs"
local progress = require "ipulua.keras.training.progress"
local staging = require "ipulua.keras.training.pipelined"

local runs = {}

if core.clock then progress.set_clock(core.clock) end

---@class Run
---@field entry ProgramEntry
---@field prefix "train"|"test"|"predict" of the callbacks' events
---@field steps integer of an epoch, on each replica
---@field per_execution integer
---@field done integer? steps of the epoch that were made before
---@field latest Logs? of these steps
---@field stopped_at integer? steps of the epoch that Ctrl-C ended; nil: in an execution
---@field epochs integer
---@field batch_size integer
---@field replicas integer
---@field accumulation integer? steps to a weight update, where it trains
---@field callbacks CallbackList
---@field is_alone boolean? of evaluate or predict, not of a fit that validates
---@field cut any the place of the validation's data before Ctrl-C ended it
---@field bar {update: fun(self, done: integer, values: table)}?
---@field take fun(outputs: userdata[], form: any)? gets an execution's outputs, where it predicts
---@field recreates boolean? whether each epoch begins with the dataset's first element
---@field started boolean? whether an epoch has begun
---@field validation Dataset?

---A bar for that many steps; nil where none is wanted.
---@param verbose any
---@param target integer
---@param epoch integer?
---@param epochs integer?
---@return ProgressBar?
function runs.bar(verbose, target, epoch, epochs)
  if progress.verbosity(verbose) == 0 then return nil end
  return progress.new{target = target, verbose = verbose, epoch = epoch, epochs = epochs}
end

---Whether a callback wants to be called for each step.
---@param list CallbackList
---@param prefix string
---@return boolean
function runs.wants_batches(list, prefix)
  return list:listens("on_" .. prefix .. "_batch_end")
    or list:listens("on_" .. prefix .. "_batch_begin")
end

-- ------------------------------------------------ beginning

-- The callbacks of a fit that validates: they keep what they know of it.
local function is_at_work(list, model)
  return class.is_a(list, callbacks.CallbackList) and list.model == model
end

---What is common to evaluate and predict, up to where their callbacks begin.
---@param model Model
---@param who string
---@param mode "test"|"predict"
---@param a table arguments
---@param take fun(outputs: userdata[], form: any)?
---@return Run
function runs.begin(model, who, mode, a, take)
  local feed = feeding.open(who, model,
    {x = a.x, y = a.y, sample_weight = a.sample_weight, batch_size = a.batch_size})
  building.own_from_dataset(model, feed.dataset)
  local replicas = pipelining.replicas(model)
  local count, per_execution = feeding.count_steps(who, feed,
    {steps = a.steps, steps_name = "steps",
    steps_per_execution = model.steps_per_execution or 1, replicas = replicas,
    quiet = progress.verbosity(a.verbose) == 0})
  staging.check_count(model, false, per_execution, "steps_per_execution")
  building.from_dataset(model, feed.dataset)
  local run = {steps = count, per_execution = per_execution, prefix = mode,
    batch_size = feed.batch_size,
    replicas = replicas, take = take, epochs = 1, is_alone = not is_at_work(a.callbacks, model)}
  feeding.check_enough(who, feed, run)
  run.callbacks = not run.is_alone and a.callbacks
    or callbacks.CallbackList(a.callbacks, model,
      core.plain{verbose = progress.verbosity(a.verbose), steps = count})
  local wants_logs = mode == "test" and model._options.asynchronous
    and runs.wants_batches(run.callbacks, "test")
  run.entry = programs.open(model, mode, feed, per_execution, wants_logs)
  run.bar = runs.bar(a.verbose, count)
  return run
end

---To be closed: however a run is left, what it opened is closed, and what it left in queues and
---callbacks is gone.
---@param run Run
function runs.closing(run)
  return setmetatable({}, {__close = function()
    programs.close(run.entry)
    if run.is_alone ~= false then run.callbacks:leave() end
  end})
end

-- ------------------------------------------------ executions

local function is_cancelled(problem)
  local last = blame.last
  return last and last.code == "IPU_E_CANCELLED"
    and tostring(problem):find(last.message, 1, true) ~= nil
end

-- Ctrl-C ends an epoch of fit, or its validation, in good order. Half of what another call was
-- asked for is no result, and who presses it a second time wants the script to end.
local function interrupted(run, latest)
  if run.is_alone or core.interrupt_count() > 1 then blame.error("interrupted!", "cancelled") end
  return latest, true
end

-- An execution that called its callbacks when it was over: once, for its last step.
local function call_batch_end(model, run, first, done, named)
  local list, event = run.callbacks, "on_" .. run.prefix .. "_batch_end"
  if not list:listens(event) then return end
  local updates = run.accumulation and model.optimizer.iterations:item() or nil
  list[event](list, done - 1, named,
    logs.info(first, done - 1, (done - first) * run.batch_size * run.replicas, updates))
end

---Runs the executions of an epoch.
---@param model Model
---@param run Run
---@return Logs of the last execution; none where outputs are taken
---@return boolean interrupted
function runs.epoch(model, run)
  local done = run.done or 0
  local latest = run.latest or {}
  local list, prefix = run.callbacks, run.prefix
  local is_asynchronous = run.entry.outfeed ~= nil
  while done < run.steps do
    local ok, result, more
    if is_asynchronous then
      if prefix == "train" then programs.renew(model, run.entry) end
      ok, result = pcall(asynchronous.run, model, run, done)
    else
      list["on_" .. prefix .. "_batch_begin"](list, done, logs.by_name{})
      if prefix == "train" then programs.renew(model, run.entry) end
      ok, result, more = pcall(run.entry.program.run)
    end
    if not ok then
      if is_cancelled(result) then
        return interrupted(run, run.take and latest or logs.current(model))
      end
      error(result, 0)
    end
    local first = done
    done = done + run.per_execution
    if run.take then run.take(result, more) else latest = result end
    if run.bar then run.bar:update(done, latest) end
    if not is_asynchronous then call_batch_end(model, run, first, done, logs.by_name(latest)) end
    if core.take_interrupt() then
      run.stopped_at = done
      return interrupted(run, latest)
    end
    if model.stop_training and prefix == "train" then break end
  end
  return latest, false
end

---To be closed: while it lives, Ctrl-C leaves Lua code alone; the steps ask for it.
function runs.hold_interrupts()
  core.hold_interrupts(true)
  return setmetatable({}, {__close = function()
    if core.hold_interrupts(false) then
      log.warn("fit: interrupted when all its epochs were over")
    end
  end})
end

return runs
