-- The programs that fit, evaluate and predict run. A model keeps one for each kind of elements and number of steps.

local core = require "ipulua.core"
local data = require "ipulua.data"
local ipu = require "ipulua"
local pipelining = require "ipulua.keras.pipelining"
local steps = require "ipulua.keras.training.steps"
local structure = require "ipulua.structure"

local programs = {}

-- What a program depends on, as text.
local function program_key(self, mode, dataset, count, outfeed)
  local parts = {core.scope_key(), mode, count, structure.key(dataset.template), outfeed and "logs" or "-", pipelining.replicas(self)}
  for _, t in ipairs(dataset.handle:types()) do parts[#parts + 1] = structure.type_text(t.dtype, t.shape) end
  if mode == "train" then
    parts[#parts + 1] = self.optimizer.version or 0
    for _, v in ipairs(self.trainable_variables) do parts[#parts + 1] = tostring(core.variable_identity(v)) end
  end
  return table.concat(parts, ";")
end

local makers <const> = {train = steps.train_program, test = steps.test_program, predict = steps.predict_program}

---@class ProgramEntry
---@field program StepProgram
---@field infeed IPUInfeedQueue
---@field outfeed IPUOutfeedQueue? of each step's metrics, for asynchronous callbacks

---The next run begins with the dataset's first element.
---@param entry ProgramEntry
function programs.rewind(entry)
  if entry.infeed.queue:state() then entry.infeed:deleter() end
end

---The program for a dataset, with its infeed at the dataset's beginning.
---@param model Model
---@param mode "train"|"test"|"predict"
---@param feed Feed
---@param count integer steps of an execution
---@param wants_logs boolean whether each step's metrics go to an outfeed
---@return ProgramEntry
function programs.open(model, mode, feed, count, wants_logs)
  local dataset = feed.dataset
  local depth = model._options.infeed.prefetch_depth
  local key = program_key(model, mode, dataset, count, wants_logs)
  local entry = model._programs[key]
  if not entry then
    local infeed = data.IPUInfeedQueue(dataset, {prefetch_depth = depth})
    local outfeed = wants_logs and ipu.IPUOutfeedQueue() or nil
    entry = {infeed = infeed, outfeed = outfeed, program = makers[mode](model, infeed, count, outfeed)}
    entry.program.func.changes = function()
      return require "ipulua.keras.training.changes".of(makers[mode], model, infeed, count)
    end
    model._programs[key] = entry
  else
    programs.rewind(entry)
    if entry.infeed.dataset ~= dataset then
      entry.infeed.queue:replace(dataset.handle, entry.infeed.read_ahead)
      entry.infeed.dataset = dataset
    end
  end
  return entry
end

return programs
