-- compile, fit, evaluate, predict and their relatives for one batch.

local args = require "ipulua.args"
local asynchronous = require "ipulua.keras.training.asynchronous"
local blame = require "ipulua.blame"
local callbacks = require "ipulua.keras.callbacks"
local compiled = require "ipulua.keras.training.compiled"
local core = require "ipulua.core"
local data = require "ipulua.data"
local elements = require "ipulua.data.elements"
local feeding = require "ipulua.keras.training.feeding"
local ipu = require "ipulua"
local KerasTensor = require "ipulua.keras.tensor"
local log = require "ipulua.log"
local nest = require "ipulua.keras.nest"
local optimizers = require "ipulua.keras.optimizers"
local pipelining = require "ipulua.keras.pipelining"
local progress = require "ipulua.keras.progress"
local staging = require "ipulua.keras.staging"
local replication = require "ipulua.replication"
local steps = require "ipulua.keras.training.steps"
local structure = require "ipulua.structure"
local tracing = require "ipulua.tracing"

local fit = {methods = {}, properties = {}}
local methods <const> = fit.methods

if core.clock then progress.set_clock(core.clock) end

-- ------------------------------------------------ compile

local compile_rows <const> = {
  {"optimizer", {"string", "table"}, "rmsprop"}, {"loss", {"string", "callable", "table"}, optional = true},
  {"metrics", {"string", "callable", "table"}, optional = true},
  {"loss_weights", "any", optional = true}, {"weighted_metrics", "any", optional = true}, {"run_eagerly", "boolean", false},
  {"steps_per_execution", "integer", 1, check = function(n)
    if n < 1 then return "must be positive, got " .. n end
  end},
}

---Says how the model trains: optimizer, loss, metrics, loss_weights, weighted_metrics, steps_per_execution.
---Shapes: what the model gives for labels of the loss' shape
---Errors: an unknown optimizer, loss or metric, a loss for an output that there is not: `model:compile{optimizer = "sgdd"}`
---@param ... any
function methods:compile(...)
  local a = args.check("compile", compile_rows, ...)
  rawset(self, "optimizer", optimizers.get(a.optimizer))
  rawset(self, "compiled", compiled.new(a))
  rawset(self, "compile_arguments", a)
  rawset(self, "run_eagerly", a.run_eagerly)
  rawset(self, "steps_per_execution", a.steps_per_execution)
  self:discard_programs()
end

---Programs are made anew at the next run.
---@package
function methods:discard_programs()
  rawset(self, "_programs", {})
end

function fit.properties.metrics(self)
  local list = self.compiled and self.compiled:all() or {}
  self:walk(function(layer)
    for _, metric in ipairs(layer._metrics) do list[#list + 1] = metric end
  end)
  return list
end

function fit.properties.metrics_names(self)
  local names = {}
  for i, metric in ipairs(self.metrics) do names[i] = metric.name end
  return names
end

---Sets all metrics back to their beginning.
function methods:reset_metrics()
  for _, metric in ipairs(self.metrics) do metric:reset_state() end
end

local function check_compiled(self, who)
  if not self.compiled then
    blame.error(string.format("%s: model '%s' must be compiled first: model:compile{optimizer =, loss =}", who, self.name),
      "runtime")
  end
  if self.run_eagerly then
    blame.error(string.format("%s: model '%s' was compiled with run_eagerly = true, which is not possible on IPUs", who,
      self.name), "runtime")
  end
end

-- ------------------------------------------------ programs

-- KerasTensors like the first value of a dataset's elements.
local function input_specs(dataset)
  local specs = dataset.element_spec
  if elements.is_tuple(dataset.template) then specs = specs[1] end
  local function convert(spec)
    if spec.dtype and spec.shape then
      local t = KerasTensor(spec.shape, spec.dtype)
      if #spec.shape == 1 then t = KerasTensor({spec.shape[1], 1}, spec.dtype) end
      return t
    end
    local out = {}
    for _, key in ipairs(nest.keys(spec)) do out[key] = convert(spec[key]) end
    return out
  end
  return convert(specs)
end

local function ensure_built(self, dataset)
  local unbuilt = not self._graph and not rawget(self, "output_types")
  if unbuilt then self:build_with(input_specs(dataset)) end
end

-- A model of one's own says what is pipelined when it is called.
local function build_own(self, dataset)
  if not rawget(self, "_stack") then ensure_built(self, dataset) end
end

-- What a program depends on, as text.
local function program_key(self, mode, dataset, count, outfeed)
  local parts = {mode, count, structure.key(dataset.template), outfeed and "logs" or "-", pipelining.replicas(self)}
  for _, t in ipairs(dataset.handle:types()) do parts[#parts + 1] = structure.type_text(t.dtype, t.shape) end
  if mode == "train" then
    parts[#parts + 1] = self.optimizer.version or 0
    for _, v in ipairs(self.trainable_variables) do parts[#parts + 1] = tostring(core.variable_identity(v)) end
  end
  return table.concat(parts, ";")
end

local makers <const> = {train = steps.train_program, test = steps.test_program, predict = steps.predict_program}

-- The program for a dataset, with its infeed at the dataset's beginning.
local function program_for(self, mode, feed, count, wants_logs)
  local dataset = feed.dataset
  local depth = self._options.infeed.prefetch_depth
  local key = program_key(self, mode, dataset, count, wants_logs)
  local entry = self._programs[key]
  if not entry then
    local infeed = data.IPUInfeedQueue(dataset, {prefetch_depth = depth})
    local outfeed = wants_logs and ipu.IPUOutfeedQueue() or nil
    entry = {infeed = infeed, outfeed = outfeed, program = makers[mode](self, infeed, count, outfeed)}
    entry.program.func.changes = function()
      return require "ipulua.keras.training.changes".of(makers[mode], self, infeed, count)
    end
    self._programs[key] = entry
  else
    fit.rewind(entry)
    if entry.infeed.dataset ~= dataset then
      entry.infeed.queue:replace(dataset.handle, entry.infeed.read_ahead)
      entry.infeed.dataset = dataset
    end
  end
  return entry
end

---The next run begins with the dataset's first element.
function fit.rewind(entry)
  if entry.infeed.queue:state() then entry.infeed:deleter() end
end

-- ------------------------------------------------ logs

local function as_table(logs)
  local t = {}
  for _, pair in ipairs(logs) do t[pair[1]] = pair[2] end
  return t
end

local function is_cancelled(problem)
  local last = blame.last
  return last and last.code == "IPU_E_CANCELLED" and tostring(problem):find(last.message, 1, true) ~= nil
end

-- ------------------------------------------------ running

-- The running values as they stand, read one by one.
local function current_logs(self)
  local logs = {}
  for i, metric in ipairs(self.metrics) do
    local ok, value = pcall(metric.result, metric)
    logs[i] = {metric.name, ok and compiled.read(value) or nil}
  end
  return logs
end

local function wants_batches(list, prefix)
  return list:listens("on_" .. prefix .. "_batch_end") or list:listens("on_" .. prefix .. "_batch_begin")
end

-- An execution that called its callbacks when it was over: once, for its last step.
local function call_batch_end(self, o, first, done, named)
  local list, event = o.callbacks, "on_" .. o.prefix .. "_batch_end"
  if not list:listens(event) then return end
  list[event](list, done - 1, named, {step_first = first, step_last = done - 1, samples = (done - first) * o.batch_size * o.replicas,
    updates = o.accumulation and self.optimizer.iterations:item() or nil})
end

-- Runs executions of an epoch. Options: entry, steps, per_execution, event prefix, callbacks, bar, updates.
-- Returns the last logs, and whether it was interrupted.
local function run_steps(self, o)
  local logs = {}
  local done = o.done or 0
  local list, prefix = o.callbacks, o.prefix
  local is_asynchronous = o.entry.outfeed ~= nil
  while done < o.steps do
    local ok, result, more
    if is_asynchronous then
      ok, result = pcall(asynchronous.run, self, o, done)
    else
      list["on_" .. prefix .. "_batch_begin"](list, done, {})
      ok, result, more = pcall(o.entry.program.run)
    end
    if not ok then
      if is_cancelled(result) then return o.take and logs or current_logs(self), true end
      error(result, 0)
    end
    local first = done
    done = done + o.per_execution
    if o.take then o.take(result, more) else logs = result end
    if o.bar then o.bar:update(done, o.take and {} or logs) end
    if not is_asynchronous then call_batch_end(self, o, first, done, o.take and {} or as_table(logs)) end
    if core.take_interrupt() then return logs, true end
    if self.stop_training and prefix == "train" then break end
  end
  return logs, false
end

-- While it lives, Ctrl-C leaves Lua code alone: the steps ask for it.
local function hold_interrupts()
  core.hold_interrupts(true)
  return setmetatable({}, {__close = function() core.hold_interrupts(false) end})
end

-- Statistics of batches differ from replica to replica; what is kept are those of the first.
local function agree(self)
  for _, v in ipairs(self.non_trainable_variables) do core.merge_replicas(v) end
end

local function new_bar(verbose, target, epoch, epochs)
  if progress.verbosity(verbose) == 0 then return nil end
  return progress.new{target = target, verbose = verbose, epoch = epoch, epochs = epochs}
end

local function write_line(text)
  local settings = progress.settings()
  if text and settings.mode ~= "off" and settings.mode ~= "json" then io.stderr:write(text, "\n") end
end

-- ------------------------------------------------ fit

local function whole(name, least)
  return {name, "integer", optional = true, check = function(n)
    if n < least then return string.format("must be at least %d, got %d", least, n) end
  end}
end

local fit_rows <const> = {
  {"x", "any", optional = true}, {"y", "any", optional = true}, whole("batch_size", 1), {"epochs", "integer", 1},
  {"verbose", {"integer", "string"}, "auto"}, {"callbacks", "table", optional = true}, {"validation_split", "number", 0},
  {"validation_data", "any", optional = true}, {"shuffle", "boolean", true}, {"class_weight", "table", optional = true},
  {"sample_weight", "any", optional = true}, {"initial_epoch", "integer", 0}, whole("steps_per_epoch", 1),
  whole("validation_steps", 1), whole("validation_batch_size", 1), {"validation_freq", {"integer", "integers"}, 1, check = function(freq)
    if type(freq) == "number" and freq < 1 then return "must be at least 1, got " .. freq end
  end},
  {"prefetch_depth", "integer", optional = true},
}

-- Takes the validation share off tensors.
local function split_validation(a)
  if a.validation_split == 0 then return end
  if a.validation_split < 0 or a.validation_split >= 1 then
    blame.error("fit: 'validation_split' must lie in [0, 1), got " .. a.validation_split, "value")
  end
  if feeding.gives_batches(a.x) then
    blame.error("fit: 'validation_split' can't be taken from a dataset; give validation_data", "value")
  end
  if a.validation_data then return end
  local x, y, w = feeding.as_tensors(a.x, "fit"), feeding.as_tensors(a.y, "fit"), feeding.as_tensors(a.sample_weight, "fit")
  local length = feeding.length_of({x, y, w}, "fit")
  local kept, held = {}, {}
  kept[1], held[1] = feeding.split(x, length, a.validation_split)
  kept[2], held[2] = feeding.split(y, length, a.validation_split)
  kept[3], held[3] = feeding.split(w, length, a.validation_split)
  a.x, a.y, a.sample_weight = kept[1], kept[2], kept[3]
  a.validation_data = held
end

local function validation_due(freq, epoch)
  if type(freq) == "table" then
    for _, each in ipairs(freq) do
      if each == epoch + 1 then return true end
    end
    return false
  end
  return (epoch + 1) % freq == 0
end

local function validation_arguments(a)
  local v = a.validation_data
  local o = {steps = a.validation_steps, verbose = 0, return_dict = true}
  if feeding.gives_batches(v) then o.x = v
  else
    if type(v) ~= "table" then blame.error("fit: 'validation_data' is a dataset, or a list {x, y} of tensors", "type") end
    o.x, o.y, o.sample_weight = v[1] or v.x, v[2] or v.y, v[3]
    o.batch_size = a.validation_batch_size or a.batch_size
  end
  return o
end

local function check_accumulation(self, per_execution, accumulation)
  if per_execution % accumulation ~= 0 then
    blame.error(string.format("fit: steps_per_execution, %d, must be a multiple of the gradient accumulation steps, %d "
      .. "(%s model '%s')",
      per_execution, accumulation, self:is_pipelined() and "pipelined" or "unpipelined", self.name), "runtime")
  end
end

local function check_enough(who, feed, o)
  if feed.batches < 0 then return end
  local epochs = o.recreates and 1 or o.epochs
  local needed = epochs * o.steps * o.replicas
  if needed > feed.batches then
    blame.error(string.format("%s: %d epoch%s of %d steps need %d batches, but the dataset has %d; %srun fewer steps", who, epochs,
      epochs == 1 and "" or "s", o.steps, needed, feed.batches, feed.restarts and "" or "repeat_n() it, or "), "value")
  end
end

local hinted = setmetatable({}, {__mode = "k"})

local function say_steps(self, feed, o, verbose)
  if o.per_execution == 1 and not hinted[self] and o.steps > 1 then
    hinted[self] = true
    log.info("fit: steps_per_execution is 1: each step is an execution of its own; a larger divisor of %d is faster", o.steps)
  end
  log.info("fit: training is %s over %d batch%s on %d replica%s; the effective batch size is %d",
    o.accumulation > 1 and "accumulated" or "not accumulated", o.accumulation, o.accumulation == 1 and "" or "es", o.replicas,
    o.replicas == 1 and "" or "s", feed.batch_size * o.accumulation * o.replicas)
  log.info("fit: there are %d weight updates in each execution and %d in each epoch", o.per_execution // o.accumulation,
    o.steps // o.accumulation)
  if progress.verbosity(verbose) > 0 then
    write_line(progress.step_sentence(feed.batch_size, o.replicas, o.accumulation))
  end
end

-- One epoch; returns its logs in order, and whether it was interrupted. resume: steps of it were made before.
local function run_epoch(self, o, epoch, a, resume)
  self:reset_metrics()
  o.callbacks:on_epoch_begin(epoch, {})
  o.done = resume and resume.step or 0
  if o.done > 0 then resume.apply() end
  write_line(progress.epoch_header(epoch + 1, a.epochs, a.verbose))
  local bar = new_bar(a.verbose, o.steps, epoch + 1, a.epochs)
  if o.recreates and o.started then fit.rewind(o.entry) end
  o.started = true
  local last
  o.bar = bar and {update = function(_, done, values)
    last = values
    if done < o.steps then bar:update(done, values) end
  end}
  local logs, interrupted = run_steps(self, o)
  local named = as_table(logs)
  agree(self)
  if not interrupted and a.validation_data and validation_due(a.validation_freq, epoch) then
    for name, value in pairs(self:evaluate(validation_arguments(a))) do named["val_" .. name] = value end
  end
  if bar then
    local values = table.move(last or {}, 1, #(last or {}), 1, {})
    for _, name in ipairs(nest.keys(named)) do
      if name:sub(1, 4) == "val_" then values[#values + 1] = {name, named[name]} end
    end
    if interrupted or self.stop_training and #values == 0 then bar:finish(values) else bar:update(o.steps, values, true) end
  end
  return named, interrupted
end

-- What BackupAndRestore found, applied where an epoch begins with it.
local function begin_resumed(self, o)
  local resume = self._resume
  if not resume then return nil end
  o.entry.program.prepare()
  if resume.step == 0 then
    resume.apply()
    o.started = true
  end
  return resume
end

---Trains. Give a dataset, x and y, or a keras.utils.Sequence or generator of batches as x; then epochs, steps_per_epoch, batch_size,
---verbose, callbacks, validation_split, validation_data, shuffle, class_weight, sample_weight, initial_epoch, validation_steps,
---validation_batch_size, validation_freq. Returns a History.
---Shapes: x and y [samples, ...]; a dataset's elements [batch, ...]; every step takes a whole batch
---Errors: a model that was not compiled, shapes that the model can't take, a partial batch, an endless dataset without
---steps_per_epoch, steps that steps_per_execution doesn't divide: `model:fit(x)`
---@param ... any
---@return History
function methods:fit(...)
  local a = args.check("fit", fit_rows, ...)
  check_compiled(self, "fit")
  if a.prefetch_depth then self._options.infeed.prefetch_depth = a.prefetch_depth end
  split_validation(a)
  a.validation_data = feeding.from_generator(a.validation_data, "fit")
  local feed = feeding.open("fit", {x = a.x, y = a.y, sample_weight = a.sample_weight, batch_size = a.batch_size,
    shuffle = a.shuffle, class_weight = a.class_weight, epoch = self._epochs_fed})
  rawset(self, "_epochs_fed", (self._epochs_fed or 0) + math.max(a.epochs - a.initial_epoch, 0))
  build_own(self, feed.dataset)
  local replicas = pipelining.replicas(self)
  local count, per_execution = feeding.count_steps("fit", feed, {steps = a.steps_per_epoch, steps_name = "steps_per_epoch",
    steps_per_execution = self.steps_per_execution, replicas = replicas})
  local accumulation = pipelining.accumulation(self)
  check_accumulation(self, per_execution, accumulation)
  staging.check_count(self, true, accumulation, "gradient_accumulation_steps_per_replica")
  local o = {
    steps = count, per_execution = per_execution, prefix = "train", batch_size = feed.batch_size, replicas = replicas,
    accumulation = accumulation, epochs = a.epochs - a.initial_epoch,
    recreates = feed.restarts or a.steps_per_epoch == nil or feed.batches == count * replicas,
    validation = feeding.is_dataset(a.validation_data) and a.validation_data or nil,
  }
  check_enough("fit", feed, o)
  ensure_built(self, feed.dataset)
  local params = {verbose = progress.verbosity(a.verbose), epochs = a.epochs, steps = count}
  o.callbacks = callbacks.CallbackList(a.callbacks, self, params)
  local history = callbacks.History()
  o.callbacks:add(history, self, params)
  self.history = history
  local wants_logs = self._options.asynchronous and not self._options.pipelining.accumulate_outfeed
    and wants_batches(o.callbacks, "train")
  o.entry = program_for(self, "train", feed, per_execution, wants_logs)
  say_steps(self, feed, o, a.verbose)
  self.stop_training = false
  local _ <close> = hold_interrupts()
  rawset(self, "_run", o)
  rawset(self, "_resume", nil)
  rawset(self, "_interrupted", false)
  o.callbacks:on_train_begin({})
  local logs, interrupted = {}, false
  local resume = begin_resumed(self, o)
  for epoch = resume and resume.epoch or a.initial_epoch, a.epochs - 1 do
    if self.stop_training then break end
    logs, interrupted = run_epoch(self, o, epoch, a, resume)
    resume = nil
    rawset(self, "_interrupted", interrupted)
    o.callbacks:on_epoch_end(epoch, logs)
    if interrupted or self.stop_training then break end
    feed.end_epoch()
  end
  if interrupted then log.warn("fit: interrupted; the model keeps what it has learnt so far") end
  fit.rewind(o.entry)
  if self.optimizer.finalize_variable_values then self.optimizer:finalize_variable_values(self.trainable_variables) end
  o.callbacks:on_train_end(logs)
  return history
end

-- ------------------------------------------------ evaluate

local evaluate_rows <const> = {
  {"x", "any", optional = true}, {"y", "any", optional = true}, whole("batch_size", 1), {"verbose", {"integer", "string"}, 1},
  {"sample_weight", "any", optional = true}, whole("steps", 1), {"callbacks", "table", optional = true},
  {"return_dict", "boolean", false},
}

local function results_of(logs, return_dict)
  if return_dict then return as_table(logs) end
  if #logs == 1 then return logs[1][2] end
  local list = {}
  for i, pair in ipairs(logs) do list[i] = pair[2] end
  return list
end

-- What is common to evaluate and predict.
local function begin(self, who, prefix, mode, a, take)
  local feed = feeding.open(who, {x = a.x, y = a.y, sample_weight = a.sample_weight, batch_size = a.batch_size,
    inputs_only = mode == "predict"})
  build_own(self, feed.dataset)
  local replicas = pipelining.replicas(self)
  local count, per_execution = feeding.count_steps(who, feed, {steps = a.steps, steps_name = "steps",
    steps_per_execution = self.steps_per_execution or 1, replicas = replicas, quiet = a.verbose == 0})
  staging.check_count(self, false, per_execution, "steps_per_execution")
  ensure_built(self, feed.dataset)
  local o = {steps = count, per_execution = per_execution, prefix = prefix, batch_size = feed.batch_size,
    replicas = replicas, take = take, epochs = 1, end_epoch = feed.end_epoch}
  check_enough(who, feed, o)
  o.callbacks = callbacks.CallbackList(a.callbacks, self, {verbose = progress.verbosity(a.verbose), steps = count})
  local wants_logs = mode == "test" and self._options.asynchronous and wants_batches(o.callbacks, "test")
  o.entry = program_for(self, mode, feed, per_execution, wants_logs)
  o.bar = new_bar(a.verbose, count)
  return o
end

---Loss and metrics of data: a number, a list, or with return_dict a table by name.
---Shapes: x and y [samples, ...] → loss and metrics []
---Errors: as fit's: `model:evaluate(x)`
---@param ... any x, y, batch_size, verbose, sample_weight, steps, callbacks, return_dict
---@return any
function methods:evaluate(...)
  local a = args.check("evaluate", evaluate_rows, ...)
  check_compiled(self, "evaluate")
  local o = begin(self, "evaluate", "test", "test", a)
  self:reset_metrics()
  o.callbacks:on_test_begin({})
  local logs = run_steps(self, o)
  fit.rewind(o.entry)
  o.end_epoch()
  o.callbacks:on_test_end(as_table(logs))
  return results_of(logs, a.return_dict)
end

-- ------------------------------------------------ predict

local predict_rows <const> = {
  {"x", "any", optional = true}, whole("batch_size", 1), {"verbose", {"integer", "string"}, 0}, whole("steps", 1),
  {"callbacks", "table", optional = true},
}

local function join(parts)
  if #parts == 1 then return parts[1] end
  local joined = {}
  for i = 1, #parts[1] do
    local list = {}
    for k, part in ipairs(parts) do list[k] = part[i] end
    while #list > 1 do -- concat takes a bounded number of tensors
      local shorter = {}
      for at = 1, #list, 32 do
        local chunk = table.move(list, at, math.min(at + 31, #list), 1, {})
        shorter[#shorter + 1] = #chunk == 1 and chunk[1] or ipu.concat(chunk, {axis = 0})
      end
      list = shorter
    end
    joined[i] = list[1]
  end
  return joined
end

---The outputs for data, in its order: a tensor, or a structure of them.
---Shapes: x [samples, ...] → [samples, ...]
---Errors: an input that the model can't take, a partial batch where shapes are fixed:
---`model:predict(ipu.ones{4, 7}, {verbose = 0})`
---@param ... any x, batch_size, verbose, steps, callbacks
---@return any
function methods:predict(...)
  local a = args.check("predict", predict_rows, ...)
  if self.run_eagerly then check_compiled(self, "predict") end
  local parts, form = {}, nil
  local o = begin(self, "predict", "predict", "predict", a, function(outputs, structure_of_outputs)
    parts[#parts + 1], form = outputs, structure_of_outputs
  end)
  o.callbacks:on_predict_begin({})
  run_steps(self, o)
  fit.rewind(o.entry)
  o.end_epoch()
  o.callbacks:on_predict_end({})
  local joined = join(parts)
  return nest.pack(form, joined)
end

-- ------------------------------------------------ one batch

local batch_rows <const> = {
  {"x", "any"}, {"y", "any", optional = true}, {"sample_weight", "any", optional = true},
  {"class_weight", "table", optional = true}, {"reset_metrics", "boolean", true}, {"return_dict", "boolean", false},
}

local function batch_function(self, mode)
  local key = "batch;" .. mode .. ";" .. tostring(self.optimizer.version or 0)
  for _, v in ipairs(self.trainable_variables) do key = key .. ";" .. tostring(core.variable_identity(v)) end
  local f = self._programs[key]
  if not f then
    f = ipu.func(function(x, y, w)
      replication.alone() -- there is one batch
      local logs
      if mode == "train" then logs = self:train_step(x, y, w) else logs = self:test_step(x, y, w) end
      return logs
    end, {name = self.name .. "." .. mode .. "_on_batch"})
    self._programs[key] = f
  end
  return f
end

local function logs_in_order(self, logs)
  local list, seen = {}, {}
  for _, name in ipairs(self.metrics_names) do
    if logs[name] ~= nil then
      list[#list + 1] = {name, compiled.read(logs[name])}
      seen[name] = true
    end
  end
  for _, name in ipairs(nest.keys(logs)) do
    if not seen[name] then list[#list + 1] = {name, compiled.read(logs[name])} end
  end
  return list
end

local function on_batch(self, who, mode, ...)
  local a = args.check(who, batch_rows, ...)
  check_compiled(self, who)
  local x, y, w = feeding.as_tensors(a.x, who), feeding.as_tensors(a.y, who), feeding.as_tensors(a.sample_weight, who)
  if a.class_weight then
    local feed = feeding.open(who, {x = x, y = y, sample_weight = w, class_weight = a.class_weight,
      batch_size = feeding.length_of(x, who)})
    for _, _, weight in feed.dataset:iter() do w = weight end
  end
  if not self._graph and not rawget(self, "output_types") then
    self:build_with(nest.map(function(t) return KerasTensor(#t.shape == 1 and {t.shape[1], 1} or t.shape, t.dtype) end, x))
  end
  if a.reset_metrics then self:reset_metrics() end
  local logs = batch_function(self, mode)(x, y, w)
  return results_of(logs_in_order(self, logs), a.return_dict)
end

---One weight update on one batch; loss and metrics of it.
---Shapes: x and y [batch, ...] → loss and metrics []
---Errors: as fit's: `model:train_on_batch(x, x)`
---@param ... any x, y, sample_weight, class_weight, reset_metrics, return_dict
---@return any
function methods:train_on_batch(...) return on_batch(self, "train_on_batch", "train", ...) end

---Loss and metrics of one batch.
---Shapes: x and y [batch, ...] → loss and metrics []
---Errors: as fit's: `model:test_on_batch(x, x)`
---@param ... any
---@return any
function methods:test_on_batch(...) return on_batch(self, "test_on_batch", "test", ...) end

---The outputs for one batch.
---Shapes: x [batch, ...] → [batch, ...]
---Errors: an input that the model can't take: `model:predict_on_batch(ipu.ones{4, 7})`
---@param x any
---@return any
function methods:predict_on_batch(x)
  x = feeding.as_tensors(x, "predict_on_batch")
  local f = self._programs.predict_on_batch
  if not f then
    f = ipu.func(function(given)
      replication.alone()
      return self:predict_step(given)
    end, {name = self.name .. ".predict_on_batch"})
    self._programs.predict_on_batch = f
    if not self._graph and not rawget(self, "output_types") then
      self:build_with(nest.map(function(t) return KerasTensor(#t.shape == 1 and {t.shape[1], 1} or t.shape, t.dtype) end, x))
    end
  end
  return f(x)
end

-- ------------------------------------------------ steps, for models that define their own

local function results(self)
  local logs = {}
  for _, metric in ipairs(self.metrics) do logs[metric.name] = metric:result() end
  return logs
end

-- A step called outside of a traced function is one by itself.
local function at_once(self, name, ...)
  local f = self._programs[name]
  if not f then
    f = ipu.func(function(...)
      replication.alone()
      return methods[name](self, ...)
    end, {name = self.name .. "." .. name})
    self._programs[name] = f
  end
  return f(...)
end

---One training step. Models may define their own, which is traced; it returns a table of logs.
---Shapes: x and y [batch, ...] → a table of []
---Errors: a model that was not compiled: `model:train_step(x, x)`
---@param x any
---@param y any
---@param sample_weight any?
---@return table<string, userdata>
function methods:train_step(x, y, sample_weight)
  if not tracing.is_active() then
    check_compiled(self, "train_step")
    return at_once(self, "train_step", x, y, sample_weight)
  end
  steps.train(self, x, y, sample_weight)
  return results(self)
end

---One test step: a table of logs.
---Shapes: x and y [batch, ...] → a table of []
---Errors: a model that was not compiled: `model:test_step(x, x)`
---@param x any
---@param y any
---@param sample_weight any?
---@return table<string, userdata>
function methods:test_step(x, y, sample_weight)
  if not tracing.is_active() then
    check_compiled(self, "test_step")
    return at_once(self, "test_step", x, y, sample_weight)
  end
  steps.test(self, x, y, sample_weight)
  return results(self)
end

---The prediction of a batch.
---Shapes: x [batch, ...] → [batch, ...]
---Errors: what the model's ops say: `model:predict_step(ipu.ones{4, 7})`
---@param x any
---@return any
function methods:predict_step(x)
  return self(steps.expand(x), {training = false})
end

---compute_loss(x, y, y_pred): the loss of a batch by what compile was given, for own train_steps; updates the running means.
---Shapes: x, y and y_pred [batch, ...] → []
---Errors: a model that was not compiled with a loss: `model:compute_loss(x, x, x)`
---@param x any
---@param y any
---@param y_pred any
---@param sample_weight any?
---@return userdata
function methods:compute_loss(x, y, y_pred, sample_weight)
  if y_pred == nil then blame.error("compute_loss: 'y_pred' is missing: compute_loss(x, y, y_pred, sample_weight); x may be nil", "value") end
  return steps.loss(self, x, y, y_pred, sample_weight)
end


return fit
