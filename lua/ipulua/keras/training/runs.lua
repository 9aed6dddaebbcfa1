-- Runs of fit, evaluate and predict: executions of a program one after the other, with callbacks, a
-- bar and Ctrl-C between them.

local assignment = require "ipulua.keras.models.stage_assignment"
local asynchronous = require "ipulua.keras.training.asynchronous"
local blame = require "ipulua.base.blame"
local building = require "ipulua.keras.training.building"
local callbacks = require "ipulua.keras.callbacks"
local class = require "ipulua.base.class"
local core = require "ipulua.core"
local executions = require "ipulua.keras.training.executions"
local feeding = require "ipulua.keras.training.feeding"
local log = require "ipulua.base.log"
local logs = require "ipulua.keras.training.logs"
local pipelined = require "ipulua.keras.training.pipelined"
local programs = require "ipulua.keras.training.programs"
local progress = require "ipulua.keras.training.progress"
local nest = require "ipulua.base.nest"
local nested = require "ipulua.keras.training.nested"
local instances = require "ipulua.config.instances"
local teams = require "ipulua.config.teams"
local together = require "ipulua.keras.base.together"

local runs = {}

if core.clock then progress.set_clock(core.clock) end

---@class Run
---@field entry ProgramEntry
---@field prefix "train"|"test"|"predict" of the callbacks' events
---@field who string what the script called
---@field dataset Dataset
---@field steps integer? of an epoch, on each replica; nil: as many as the dataset turns out to have
---@field may_end boolean? whether the data of one of several instances may end before them
---@field asked boolean? these steps are what the script asked for
---@field takes_remainder boolean whether a smaller batch at the end is a step
---@field beside table<string, ProgramEntry> programs of a smaller batch, or of fewer steps
---@field counters_beside table<string, any>? of their random numbers, where a run goes on
---@field made integer? steps of the epoch that were made
---@field per_execution integer
---@field done integer? steps of the epoch that were made before
---@field latest Logs? of these steps
---@field ends_at integer? steps of the epoch when the present execution is over
---@field stopped_at integer? steps of the epoch that Ctrl-C ended; nil: in an execution
---@field added integer? batches that a prediction doesn't give the outputs of
---@field epochs integer
---@field batch_size integer
---@field replicas integer
---@field accumulation integer? steps to a weight update, where it trains
---@field callbacks CallbackList
---@field is_alone boolean? of evaluate or predict, not of a fit that validates
---@field cut any the position of the validation's data before Ctrl-C ended it
---@field bar {update: fun(self, done: integer, values: table)}?
---@field take fun(outputs: userdata[], form: any)? gets an execution's outputs, where it predicts
---@field recreates boolean? whether each epoch begins with the dataset's first element
---@field explain fun(problem: any)? raises better words for a problem, where there are
---@field started boolean? whether an epoch has begun
---@field validation Dataset?

---A progress bar for that many steps, nil if verbose asks for none.
---@param verbose any
---@param target integer
---@param epoch integer?
---@param epochs integer?
---@return ProgressBar?
function runs.bar(verbose, target, epoch, epochs)
  if not instances.is_first() and teams.current() then return nil end
  if progress.verbosity(verbose) == 0 then return nil end
  return progress.new{target = target, verbose = verbose, epoch = epoch, epochs = epochs}
end

---Whether a callback is to be called for each step.
---@param list CallbackList
---@param prefix string
---@return boolean
function runs.wants_batches(list, prefix)
  return list:listens("on_" .. prefix .. "_batch_end")
    or list:listens("on_" .. prefix .. "_batch_begin")
end

-- ------------------------------------------------ beginning

---@param run table what is known of it
---@return Run
function runs.new(run)
  run.beside = {}
  return run
end

-- The callbacks of a fit that validates. They keep their state during validation.
local function is_at_work(list, model)
  return class.is_a(list, callbacks.CallbackList) and list.model == model
end

---The method that the script called: evaluate, or a fit that validates.
---@param model Model
---@param list any callbacks that evaluate was given
---@return string
function runs.who_tests(model, list)
  return is_at_work(list, model) and "fit: validation_data" or "evaluate"
end

---The common part of evaluate and predict, up to where their callbacks begin.
---@param model Model
---@param who string
---@param mode "test"|"predict"
---@param a table arguments
---@param take fun(outputs: userdata[], form: any)?
---@return Run
function runs.begin(model, who, mode, a, take)
  local feed = feeding.open(who, model,
    {x = a.x, y = a.y, sample_weight = a.sample_weight, batch_size = a.batch_size,
    steps = a.steps})
  building.own_from_dataset(model, feed.dataset)
  local replicas = assignment.replicas(model)
  local takes_remainder = feeding.takes_remainder(model, true)
  feeding.check_shapes(who, model, feed, takes_remainder)
  local added = 0
  if mode == "predict" then
    feeding.check_all_taken(who, model, feed, takes_remainder)
    added = executions.fill(feed, replicas, a.steps)
  else feeding.tell_remainder(model, who, feed, takes_remainder)
  end
  local count, per_execution, may_end = feeding.count_steps(who, feed,
    {steps = a.steps and a.steps + added, steps_name = "steps",
    takes_remainder = takes_remainder, steps_per_execution = model.steps_per_execution or 1,
    replicas = replicas, quiet = progress.verbosity(a.verbose) == 0,
    model = mode ~= "predict" and model or nil})
  pipelined.check_count(model, false, per_execution, "steps_per_execution")
  building.from_dataset(model, feed.dataset)
  local run = runs.new{who = who, dataset = feed.dataset, steps = count, asked = a.steps ~= nil,
    may_end = may_end, per_execution = per_execution, prefix = mode,
    takes_remainder = takes_remainder,
    batch_size = feed.batch_size, added = added,
    replicas = replicas, take = take, epochs = 1, is_alone = not is_at_work(a.callbacks, model)}
  local function check() feeding.check_enough(who, feed, run) end
  if mode == "predict" then check() else together.check(model, who, check) end
  run.callbacks = not run.is_alone and a.callbacks
    or callbacks.CallbackList(a.callbacks, model,
      core.plain{verbose = progress.verbosity(a.verbose), steps = count})
  local wants_logs = mode == "test" and model._options.asynchronous
    and runs.wants_batches(run.callbacks, "test")
  run.entry = programs.open(model, mode, feed, per_execution, wants_logs)
  run.bar = runs.bar(a.verbose, count)
  return run
end

---To be closed. However a run ends, its queues are closed then, and elements and callbacks that it
---left are dropped.
---@param model Model
---@param run Run
function runs.closing(model, run)
  local is_validation = run.is_alone == false -- of a fit, whose metrics are done with
  local restore = not is_validation and nested.keep_metrics(model)
  local leave = nested.enter(model, run)
  return setmetatable({}, {__close = function()
    leave()
    local _ <close> = setmetatable({}, {__close = function()
      if not is_validation then run.callbacks:leave() end
    end})
    programs.close(run.entry)
    executions.close(run)
    if restore then restore() end
  end})
end

-- ------------------------------------------------ executions

local function is_cancelled(problem)
  local last = blame.last
  return last and last.code == "IPU_E_CANCELLED"
    and tostring(problem):find(last.message, 1, true) ~= nil
end

-- Ctrl-C ends an epoch of fit, or its validation, in good order. Other calls have no partial
-- result. A second Ctrl-C ends the script.
local function interrupted(run, latest)
  if run.is_alone or core.interrupt_count() > 1 then blame.error("interrupted!", "cancelled") end
  return latest, true
end

-- An execution that called its callbacks when it was over: once, for its last step.
local function call_batch_end(model, run, first, execution, named)
  local list, event = run.callbacks, "on_" .. run.prefix .. "_batch_end"
  if not list:listens(event) then return end
  local updates, last = run.accumulation and model.optimizer.iterations:item() or nil,
    first + execution.steps - 1
  list[event](list, last, named,
    logs.info(first, last, execution.samples * run.replicas, updates))
end

-- One execution after `done` steps; its logs or outputs and their form.
local function execute(model, run, execution, done)
  local list, prefix, entry = run.callbacks, run.prefix, execution.entry
  if entry.outfeed then
    if prefix == "train" then programs.renew(model, entry) end
    return blame.pcall(asynchronous.run, model, run, done)
  end
  list["on_" .. prefix .. "_batch_begin"](list, done, logs.by_name{})
  if prefix == "train" then programs.renew(model, entry) end
  return blame.pcall(entry.program.run)
end

-- Predicting has no meeting of instances.
local function is_interrupted(model, run)
  if run.prefix == "predict" then return core.take_interrupt() end
  return together.interrupted(model, run.who)
end

-- The next execution, nil if the data of any instance have ended. If the number of steps is not
-- known for sure, instances wait for each other here, and an error on one is everybody's.
local function next_execution(model, run, done)
  local is_sure <const> = run.steps and not run.may_end
  if is_sure or run.prefix == "predict" then return executions.next(model, run, done) end
  local ok, execution = blame.pcall(executions.next, model, run, done)
  if not ok and is_cancelled(execution) then error(execution, 0) end
  local ended = together.has_ended(model, run.who, not execution, not ok and execution or nil)
  return not ended and execution or nil
end

---Runs the executions of an epoch.
---@param model Model
---@param run Run
---@return Logs of the last execution; none where outputs are taken
---@return boolean interrupted
function runs.epoch(model, run)
  run.made = run.done or 0
  local latest = run.latest or {}
  while not run.steps or run.made < run.steps do
    local done, more = run.made, nil
    local ok, result = blame.pcall(next_execution, model, run, done)
    local execution = result
    if ok and not execution then break end
    run.ends_at = ok and done + execution.steps or nil
    if ok then ok, result, more = execute(model, run, execution, done) end
    if not ok then
      if is_cancelled(result) then
        return interrupted(run, run.take and latest or logs.current(model))
      end
      if run.explain then run.explain(result) end
      error(result, 0)
    end
    run.made = done + execution.steps
    if run.take then run.take(result, more) else latest = result end
    if run.bar then run.bar:update(run.made, latest) end
    if not execution.entry.outfeed then
      local named = run.take and {{"outputs", nest.pack(more, result)}} or latest
      call_batch_end(model, run, done, execution, logs.by_name(named))
    end
    if run.prefix == "train" then together.compare_data(model, run) end
    if is_interrupted(model, run) then
      run.stopped_at = run.made
      return interrupted(run, latest)
    end
    if model.stop_training and run.prefix == "train" then break end
  end
  if run.bar and run.is_alone then run.bar:finish(latest) end
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
