-- fit: epochs of training, each with validation where it is due.

local args = require "ipulua.base.args"
local assignment = require "ipulua.keras.models.stage_assignment"
local blame = require "ipulua.base.blame"
local building = require "ipulua.keras.training.building"
local callbacks = require "ipulua.keras.callbacks"
local class_weights = require "ipulua.keras.training.class_weights"
local compile = require "ipulua.keras.training.compile"
local core = require "ipulua.core"
local counted = require "ipulua.base.counted"
local feeding = require "ipulua.keras.training.feeding"
local log = require "ipulua.base.log"
local logs = require "ipulua.keras.training.logs"
local nest = require "ipulua.base.nest"
local pipelined = require "ipulua.keras.training.pipelined"
local programs = require "ipulua.keras.training.programs"
local progress = require "ipulua.keras.training.progress"
local runs = require "ipulua.keras.training.runs"
local together = require "ipulua.keras.base.together"
local validation = require "ipulua.keras.training.validation"

local fit = {methods = {}}
local methods <const> = fit.methods

local fit_rows <const> = {
  {"x", "any", optional = true, of = "tensor, table of tensors or Dataset",
    says = "with y nil a dataset of {x, y}, or {x, y, sample_weight}"},
  {"y", "any", optional = true, of = "tensor or table of tensors", says = "labels"},
  feeding.batch_size_row,
  {"epochs", "integer", 1, range = "[0, inf)"},
  {"verbose", {"integer", "string", "boolean"}, "auto", of = "0, 1, 2, boolean or \"auto\"",
    says = "nothing, a bar, a line an epoch"},
  {"callbacks", "table", optional = true, says = "a callback or a list"},
  {"validation_split", "number", 0, range = "[0, 1)", says = "share of the samples, from the end"},
  {"validation_data", "any", optional = true, of = "{x, y}, {x, y, sample_weight} or Dataset"},
  {"shuffle", "boolean", true, says = "the order of x and y, each epoch"},
  {"class_weight", "table", optional = true, says = "class number → factor"},
  {"sample_weight", "any", optional = true, of = "tensor or list",
    says = "a factor for each sample"},
  {"initial_epoch", "integer", 0, range = "[0, inf)"}, feeding.count_row "steps_per_epoch",
  feeding.count_row "validation_steps", feeding.count_row "validation_batch_size",
  {"validation_freq", {"integer", "integers"}, 1, range = "[1, inf)",
    says = "epochs between validations, or the epochs, from 1"},
  {"prefetch_depth", "integer", optional = true, range = "[1, 255]", says = "elements read ahead"},
}

-- ------------------------------------------------ before the first epoch

local function check_accumulation(self, per_execution, accumulation)
  if per_execution % accumulation ~= 0 then
    blame.error(string.format("fit: steps_per_execution, %d, must be a multiple of the gradient "
      .. "accumulation steps, %d "
      .. "(%s model '%s')",
      per_execution, accumulation, self:is_pipelined() and "pipelined" or "unpipelined",
      self.name), "runtime")
  end
end

-- A run without callbacks and program; the model is built.
local function plan(self, a, feed)
  building.own_from_dataset(self, feed.dataset)
  local replicas = assignment.replicas(self)
  local takes_remainder = feeding.takes_remainder(self, false)
  feeding.check_shapes("fit", self, feed, takes_remainder)
  feeding.tell_remainder(self, "fit", feed, takes_remainder)
  local count, per_execution, may_end = feeding.count_steps("fit", feed,
    {steps = a.steps_per_epoch, steps_name = "steps_per_epoch", takes_remainder = takes_remainder,
    steps_per_execution = self.steps_per_execution, replicas = replicas, model = self})
  local accumulation = assignment.accumulation(self)
  check_accumulation(self, per_execution, accumulation)
  pipelined.check_count(self, true, accumulation, "gradient_accumulation_steps_per_replica")
  local run = runs.new{
    who = "fit", dataset = feed.dataset, asked = a.steps_per_epoch ~= nil,
    takes_remainder = takes_remainder,
    steps = count, may_end = may_end, per_execution = per_execution, prefix = "train",
    batch_size = feed.batch_size, replicas = replicas,
    accumulation = accumulation, epochs = math.max(a.epochs - a.initial_epoch, 0),
    recreates = a.steps_per_epoch == nil
      or feed.batches == a.steps_per_epoch and not feed.goes_on,
    is_distributed = feed.is_distributed,
    validation = feeding.is_dataset(a.validation_data) and a.validation_data or nil,
  }
  together.check(self, "fit", function() feeding.check_enough("fit", feed, run) end)
  building.from_dataset(self, feed.dataset)
  return run
end

-- The caller's, and after them the History that fit gives; returns both.
local function make_callbacks(self, a, steps)
  local params = core.plain{verbose = progress.verbosity(a.verbose), epochs = a.epochs,
    steps = steps}
  local list = callbacks.CallbackList(a.callbacks, self, params)
  local history = callbacks.History()
  list:add(history, self, params)
  return list, history
end

local function program_for(self, feed, run, depth)
  local options = self._options
  local wants_logs = options.asynchronous and not options.pipelining.accumulate_outfeed
    and runs.wants_batches(run.callbacks, "train")
  return programs.open(self, "train", feed, run.per_execution, wants_logs, depth)
end

-- ------------------------------------------------ words of messages

-- The sentence about a step is useful if there are replicas, stages or accumulated steps.
local function is_of_ipus(self, run)
  return run.replicas > 1 or run.accumulation > 1 or self:is_pipelined()
end

local hinted = setmetatable({}, {__mode = "k"})

local function say_steps(self, feed, run, verbose)
  if not together.is_speaker(self) then return end
  local steps = run.steps
  if steps and run.per_execution == 1 and not hinted[self] and steps > 1 then
    hinted[self] = true
    log.info("fit: steps_per_execution is 1: each step is an execution of its own; a larger "
      .. "divisor of %d is faster", steps)
  end
  log.info("fit: training is %s over %s on %s; the effective batch size is %d",
    run.accumulation > 1 and "accumulated" or "not accumulated",
    counted(run.accumulation, "batch", "batches"),
    counted(run.replicas, "replica"), feed.batch_size * run.accumulation * run.replicas)
  log.info("fit: %s in each execution and %s in each epoch",
    counted(run.per_execution // run.accumulation, "weight update"),
    steps and string.format("%d", steps // run.accumulation) or "as many as the dataset gives")
  if progress.verbosity(verbose) > 0 and is_of_ipus(self, run) then
    progress.line(progress.step_sentence(feed.batch_size, run.replicas, run.accumulation))
  end
end

-- ------------------------------------------------ an epoch

-- A bar for executions: its last line waits for the results of validation.
local function all_but_last(bar, steps)
  return {update = function(self, done, values)
    self.values = values
    if not steps or done < steps then bar:update(done, values) end
  end}
end

-- The last line: the newest running values, then the values of validation.
local function finish_bar(self, bar, run, named, interrupted)
  local newest = run.bar.values or {}
  local values = table.move(newest, 1, #newest, 1, {})
  local shown = {}
  for _, value in ipairs(newest) do -- in the order of training's
    local name = "val_" .. value[1]
    if named[name] ~= nil then values[#values + 1], shown[name] = {name, named[name]}, true end
  end
  for _, name in ipairs(nest.keys(named)) do
    if name:sub(1, 4) == "val_" and not shown[name] then
      values[#values + 1] = {name, named[name]}
    end
  end
  if interrupted or self.stop_training and #values == 0 then
    bar:finish(values)
  else
    bar.target = bar.target or run.made
    bar:update(run.made, values, true)
  end
end

-- Statistics of batches differ from replica to replica. The first one's are kept.
local function agree(self)
  for _, v in ipairs(self.non_trainable_variables) do core.merge_replicas(v) end
end

-- Ctrl-C ended an epoch between two executions.
local function tell_interrupted(run, epoch, latest)
  for _, callback in ipairs(run.callbacks.list) do
    if callback.on_interrupt then callback:on_interrupt(epoch, run.stopped_at, latest) end
  end
end

-- Adds the results of validation to the epoch's logs. If Ctrl-C stops validation, it adds nothing
-- and returns true; a later fit validates again.
local function validate(self, run, a, named)
  local place = run.validation and run.validation.handle:iterations()
  local values = self:evaluate(validation.arguments(a, run.callbacks))
  if run.callbacks.interrupted then
    run.stopped_at, run.cut = run.made, place
    return true
  end
  for name, value in pairs(values) do named["val_" .. name] = value end
  return false
end

-- One epoch; returns its logs by name, and whether it was interrupted. resume: steps of it were
-- made before.
local function run_epoch(self, run, epoch, a, resume)
  self:reset_metrics()
  run.callbacks:on_epoch_begin(epoch, logs.by_name{})
  run.done, run.latest = resume and resume.step or 0, resume and resume.latest
  if run.done > 0 then resume.apply() end
  if together.is_speaker(self) then
    progress.line(progress.epoch_header(epoch + 1, a.epochs, a.verbose))
  end
  local steps = run.steps or run.found -- steps that the previous epoch made
  local bar = runs.bar(a.verbose, steps, epoch + 1, a.epochs)
  if run.recreates and run.started then programs.rewind(run.entry) end
  run.started = true
  run.bar = bar and all_but_last(bar, steps)
  local latest, interrupted = runs.epoch(self, run)
  if not interrupted and not self.stop_training then run.found = run.made end
  local named = logs.by_name(latest)
  if interrupted and run.stopped_at then tell_interrupted(run, epoch, latest) end
  agree(self)
  if not interrupted and a.validation_data and validation.is_due(a.validation_freq, epoch) then
    interrupted = validate(self, run, a, named)
    if interrupted then tell_interrupted(run, epoch, latest) end
  end
  if bar then finish_bar(self, bar, run, named, interrupted) end
  return named, interrupted
end

-- ------------------------------------------------ all epochs

-- Applies the state that BackupAndRestore found, if it belongs to the epoch that begins.
local function begin_resumed(self, run)
  local resume = self._resume
  if not resume then return nil end
  run.entry.program.prepare()
  if resume.step == 0 then
    resume.apply()
    run.started = true
  end
  return resume
end

-- Each way by which fit ends before its last epoch has a sentence; errors, such as a dataset's end,
-- have their own.
local function say_end(self, a, first, done, interrupted)
  if not together.is_speaker(self) then return end
  if interrupted then
    log.warn("fit: interrupted; the model keeps what it has learnt so far")
  -- asked to be quiet, or all was done
  elseif progress.verbosity(a.verbose) == 0 or done == a.epochs and first < a.epochs then
    return
  elseif self.stop_training then
    log.warn("fit: training was ended by a callback: stop_training is set after epoch %d of %d",
      done, a.epochs)
  else
    log.warn("fit: no epoch is left: training begins after epoch %d of %d", first, a.epochs)
  end
end

-- Returns the last epoch's logs by name.
local function run_epochs(self, run, a)
  local named, interrupted = {}, false
  local resume = begin_resumed(self, run)
  local first = resume and resume.epoch or a.initial_epoch
  local done = first
  for epoch = first, a.epochs - 1 do
    self.stop_training = together.any(self, "fit", self.stop_training)
    if self.stop_training then break end
    named, interrupted = run_epoch(self, run, epoch, a, resume)
    resume, done = nil, epoch + 1
    rawset(self, "_interrupted", interrupted)
    run.callbacks:on_epoch_end(epoch, named)
    if interrupted then break end
  end
  say_end(self, a, first, done, interrupted)
  return named
end

local noted <const> = {"_run", "_resume", "_interrupted", "stop_training", "history"}

-- To be closed: facts about the run for callbacks such as BackupAndRestore. A fit that a callback
-- begins leaves the outer fit's facts unchanged.
local function known_to_callbacks(self, run, history)
  local former = {}
  for _, name in ipairs(noted) do former[name] = rawget(self, name) end
  rawset(self, "_run", run)
  rawset(self, "_resume", nil)
  rawset(self, "_interrupted", false)
  self.stop_training, self.history = false, history
  return setmetatable({}, {__close = function()
    for i, name in ipairs(noted) do
      if former._run or i <= 3 then rawset(self, name, former[name]) end
    end
  end})
end

---Trains. Give a dataset, or x and y; then epochs, steps_per_epoch, batch_size, verbose, callbacks,
---validation_split, validation_data, shuffle, class_weight, sample_weight, initial_epoch,
---validation_steps, validation_batch_size, validation_freq. Returns a History.
---Shapes: x and y [samples, ...]; a dataset's elements [batch, ...]; every step takes a whole batch
---Errors: a model that was not compiled, shapes that the model can't take, a partial batch, an
---endless dataset without steps_per_epoch, steps that steps_per_execution doesn't divide:
---`model:fit(x)`
---@param ... any
---@return History
function methods:fit(...)
  local a = args.check("fit", fit_rows, ...)
  compile.check(self, "fit")
  local _ <close> = together.enter(self)
  feeding.take_apart("fit", self, a)
  validation.split(a)
  validation.check(a.validation_data)
  local feed = feeding.open("fit", self,
    {x = a.x, y = a.y, sample_weight = a.sample_weight, batch_size = a.batch_size,
    shuffle = a.shuffle, class_weight = a.class_weight, epoch = self._epochs_fed,
    steps = a.steps_per_epoch, passes = a.epochs - a.initial_epoch})
  local run = plan(self, a, feed)
  validation.check_steps(self, a)
  run.explain = a.class_weight and class_weights.explain(a.class_weight)
  local history
  run.callbacks, history = make_callbacks(self, a, run.steps)
  run.entry = program_for(self, feed, run, a.prefetch_depth)
  local _ <close> = runs.closing(self, run)
  say_steps(self, feed, run, a.verbose)
  local _ <close> = runs.hold_interrupts()
  local _ <close> = known_to_callbacks(self, run, history)
  run.callbacks:on_train_begin(logs.by_name{})
  together.watch_data(self, run)
  local named = run_epochs(self, run, a)
  if self.optimizer.finalize_variable_values then
    self.optimizer:finalize_variable_values(self.trainable_variables)
  end
  run.callbacks:on_train_end(named)
  rawset(self, "_epochs_fed", (self._epochs_fed or 0) + run.epochs) -- a call that fails is none
  return history
end

return fit
