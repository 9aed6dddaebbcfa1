-- BackupAndRestore: a training that was killed goes on where it was.

local args = require "ipulua.base.args"
local base = require "ipulua.keras.callbacks.base"
local blame = require "ipulua.base.blame"
local checkpoint = require "ipulua.keras.files.checkpoint"
local folder = require "ipulua.keras.files.checkpoint_folder"
local log = require "ipulua.base.log"
local logs = require "ipulua.keras.training.logs"
local start = require "ipulua.base.start"
local together = require "ipulua.keras.base.together"
local state = require "ipulua.keras.files.state"

local rows <const> = {
  {"backup_dir", "string"}, {"save_freq", {"string", "integer"}, "epoch"},
  {"double_checkpoint", "boolean", false},
  {"delete_checkpoint", "boolean", true}, {"verbose", "integer", 0},
}

---Saves the whole state of the training (weights, optimizer, random numbers, position in the
---dataset, metrics, callbacks) at each epoch's end, or each save_freq steps. A later fit begins
---with it: its weights are bit for bit the weights of a run that was never interrupted. After
---Ctrl-C the later fit begins with the next step, where executions of several steps were not cut
---short. double_checkpoint keeps the backup before, too. delete_checkpoint removes them when the
---training has ended.
---@class BackupAndRestore: Callback
local BackupAndRestore = base.Callback:extend("BackupAndRestore")
BackupAndRestore.runs_last = true
BackupAndRestore.argument_rows = rows

function BackupAndRestore:init(...)
  for key, value in pairs(args.check("BackupAndRestore", rows, ...)) do self[key] = value end
  local freq = self.save_freq
  if type(freq) == "string" and freq ~= "epoch" or math.type(freq) == "integer" and freq < 1 then
    blame.error("BackupAndRestore: 'save_freq' is \"epoch\" or a positive number of steps, got "
      .. freq, "value")
  end
end

base._keep_fields(BackupAndRestore, {"steps_since_save", "epoch"})

local function objects_of(model)
  return checkpoint.objects_of{model = model, optimizer = model.optimizer}
end

-- Under verbose = 1 on the terminal, else in the log.
local function tell(self, format, ...)
  local text = "BackupAndRestore: " .. string.format(format, ...)
  if self.verbose > 0 then io.stdout:write(text, "\n") else log.info("%s", text) end
end

-- Where fit begins: it calls resume.apply() when the programs are there.
function BackupAndRestore:on_train_begin()
  self.steps_since_save, self.version = 0, self.model._run.entry.version
  local saved = together.check(self.model, "BackupAndRestore", function()
    if not together.is_speaker(self.model) then return nil end
    -- Two trainings would go on from each other's backups.
    if not start.options.estimate then self.lock = folder.own(self.backup_dir, 0) end
    return folder.read(self.backup_dir)
  end)
  saved = together.from_first(self.model, "BackupAndRestore", saved)
  if not saved then return end
  local model, data = self.model, saved.state.training
  local what <const> = string.format("BackupAndRestore: '%s'", saved.path)
  if type(data) ~= "table" or math.type(data.epoch) ~= "integer"
    or math.type(data.step) ~= "integer" or data.epoch < 0 or data.step < 0 then
    blame.error(what .. " holds no backup of a training", "value")
  end
  local function apply()
    local commit <const> = checkpoint.plan("BackupAndRestore", objects_of(model), saved)
    blame.reading(what, state.restore, model, model._run, data,
      (saved.member("training.safetensors")), commit)
    tell(self, "going on from %s: epoch %d, step %d", saved.path, data.epoch + 1, data.step)
  end
  local latest = state.unpack(data.latest, (saved.member("training.safetensors")) or {})
  rawset(model, "_resume", {epoch = data.epoch, step = data.step, latest = latest, apply = apply})
end

-- Hyperparameters are constants of the program, which no backup holds.
local function warn_changed(self)
  local version = self.model._run.entry.version
  if version == self.version then return end
  self.version = version
  log.warn("BackupAndRestore: a hyperparameter was set while training; a resumed run has the one "
    .. "that its optimizer is made with")
end

function BackupAndRestore:save(epoch, step, latest)
  local model = self.model
  warn_changed(self)
  local data, tensors = state.save(model, model._run, epoch, step, latest)
  if not together.is_speaker(model) then return end
  local members = checkpoint.members(objects_of(model))
  members["training.safetensors"] = {tensors = tensors}
  folder.write(self.backup_dir, model.optimizer.iterations:item(),
    {members = members, state = {training = data,
    iteration = model.optimizer.iterations:item()}}, {keep = self.double_checkpoint and 2 or 1})
  tell(self, "saved epoch %d, step %d, in %s", epoch + 1, step, self.backup_dir)
end

function BackupAndRestore:on_epoch_begin(epoch)
  self.epoch, self.steps_since_save = epoch, 0
end

-- The logs are kept, since of a dataset whose size isn't known the epoch may be over.
function BackupAndRestore:on_train_batch_end(batch, values, info)
  if self.save_freq == "epoch" then return end
  local count, steps = base._new_steps(info), self.params.steps or math.huge
  self.steps_since_save = self.steps_since_save + count
  if count == 0 or self.steps_since_save < self.save_freq or batch + 1 >= steps then return end
  -- asynchronous: the weights are ahead of the step
  if batch + 1 ~= self.model._run.ends_at then return end
  self.steps_since_save = self.steps_since_save % self.save_freq
  self:save(self.epoch, batch + 1, logs.in_order(self.model, values))
end

-- Ctrl-C between two steps of an epoch, before the callbacks of its end: a later fit ends it.
function BackupAndRestore:on_interrupt(epoch, step, latest)
  self:save(epoch, step, latest)
end

function BackupAndRestore:on_epoch_end(epoch)
  if not self.model._interrupted then self:save(epoch + 1, 0) end
end

function BackupAndRestore:on_train_end()
  if not together.is_speaker(self.model) then return end
  if self.delete_checkpoint and not self.model._interrupted then folder.remove(self.backup_dir) end
end

-- Also after an error: the next training may own the folder.
function BackupAndRestore:_leave()
  if self.lock then getmetatable(self.lock).__close() end
  self.lock = nil
end

return {BackupAndRestore = BackupAndRestore}
