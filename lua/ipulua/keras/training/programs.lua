-- The programs that fit, evaluate and predict run. A model keeps one for each kind of elements and
-- number of steps.

local assignment = require "ipulua.keras.models.stage_assignment"
local core = require "ipulua.core"
local eagerly = require "ipulua.keras.training.eagerly"
local data = require "ipulua.data"
local func = require "ipulua.trace.func"
local infeed = require "ipulua.data.infeed"
local nested = require "ipulua.keras.training.nested"
local queues = require "ipulua.data.queues"
local steps = require "ipulua.keras.training.steps"
local structure = require "ipulua.base.structure"
local trainable = require "ipulua.keras.training.trainable"
local teams = require "ipulua.config.teams"
local weights = require "ipulua.keras.files.weights"

local programs = {}

---The trained variables and the frozen layers, as text. A frozen layer may behave otherwise though
---it has no variables.
---@param model Model
---@return string
function programs.trained(model)
  local _ <close> = trainable.as_compiled(model)
  local parts = {}
  for _, v in ipairs(model.trainable_variables) do
    parts[#parts + 1] = tostring(core.variable_identity(v))
  end
  model:walk(function(layer)
    if not layer.trainable then parts[#parts + 1] = "-" .. structure.identity(layer) end
  end)
  return table.concat(parts, ",")
end

-- The facts that a program depends on, as text.
local function program_key(self, mode, dataset, count, outfeed)
  local parts = {core.scope_key(), mode, count, structure.key(dataset.template),
    outfeed and "logs" or "-", assignment.replicas(self), self.run_eagerly and "eagerly" or "-"}
  for _, t in ipairs(infeed.fed_types(dataset)) do
    parts[#parts + 1] = structure.type_text(t.dtype, t.shape)
  end
  if mode == "train" then
    parts[#parts + 1] = programs.trained(self)
  end
  return table.concat(parts, ";")
end

local makers <const> = {train = steps.train_program, test = steps.test_program,
  predict = steps.predict_program}

---@class ProgramEntry
---@field key string under which the model keeps it
---@field program StepProgram
---@field infeed IPUInfeedQueue
---@field outfeed IPUOutfeedQueue? of each step's metrics, for asynchronous callbacks
---@field version string of the hyperparameters that the program holds
---@field inner Optimizer[] further optimizers that may be in it

---The next run begins with the dataset's first element.
---@param entry ProgramEntry
function programs.rewind(entry)
  if entry.infeed.queue:state() then entry.infeed:deleter() end
end

---Elements that a run left in its queues are dropped.
---@param entry ProgramEntry
function programs.close(entry)
  programs.rewind(entry)
  for _, outfeed in pairs{entry.outfeed, entry.program.outfeed} do outfeed:deleter() end
end

-- Further optimizers that an own train_step may use.
local function inner_optimizers(model)
  if not steps.is_custom(model, "train_step") then return {} end
  local list = {}
  for i, each in ipairs(weights.inner_optimizers(model)) do list[i] = each.optimizer end
  return list
end

-- Hyperparameters are constants of a program: the optimizers, each in the next, and how often
-- hyperparameters of each were set, as text.
local function version_of(model, inner)
  local parts = {}
  local function add(optimizer)
    while type(optimizer) == "table" do
      parts[#parts + 1] = structure.identity(optimizer) .. "."
        .. (rawget(optimizer, "version") or 0)
      optimizer = rawget(optimizer, "wrapped") or rawget(optimizer, "opt")
    end
  end
  add(model.optimizer)
  for _, optimizer in ipairs(inner) do add(optimizer) end
  return table.concat(parts, ",")
end

local function make(model, mode, entry, count)
  entry.program = makers[mode](model, entry.infeed, count, entry.outfeed)
  entry.program.func.changes = function()
    return require "ipulua.keras.training.changes".of(makers[mode], model, entry.infeed, count)
  end
end

-- How far the random numbers of a program are: of its Function, or of steps that run eagerly.
local function draws_of(program)
  return {func = program.func:draws(), eager = program.draws}
end

local function continue_draws(program, draws)
  if not draws then return end
  program.func:continue_draws(draws.func)
  if program.draws and draws.eager then
    program.draws.place, program.draws.runs = draws.eager.place, draws.eager.runs
  end
end

-- A model's table of programs → key → the draws of a program that was left for lack of room. Only
-- the programs in the table are discarded together.
local left = setmetatable({}, {__mode = "k"})

-- Programs of other numbers of steps on the entry's infeed go with it.
local function leave(model, entry)
  local programs_left = left[model._programs] or {}
  left[model._programs] = programs_left
  for key, each in pairs(model._programs) do
    if type(each) == "table" and each.infeed and each.infeed == entry.infeed then
      programs_left[key] = draws_of(each.program)
      model._programs[key] = nil
    end
  end
end

-- A new program of this key continues the random numbers of one that was left.
local function keep(model, entry)
  continue_draws(entry.program, left[model._programs] and left[model._programs][entry.key])
  model._programs[entry.key] = entry
end

---Compiles a training program anew, on its queues as they stand, when a hyperparameter was set
---since. It continues the random numbers: else a layer with a seed would begin again.
---@param model Model
---@param entry ProgramEntry
function programs.renew(model, entry)
  local version = version_of(model, entry.inner)
  if entry.version == version then return end
  entry.version = version
  local draws = draws_of(entry.program)
  make(model, "train", entry, entry.program.count)
  continue_draws(entry.program, draws)
end

---A compiled function of batches for the current training. It is made anew if the optimizer has
---changed.
---@param model Model
---@param name string
---@param f function
---@return Function
function programs.of_batch(model, name, f)
  local key, version = name .. ";" .. programs.trained(model)
    .. (model.run_eagerly and ";eagerly" or ""), version_of(model, inner_optimizers(model))
  local entry = model._programs[key]
  if not entry or entry.version ~= version then
    local function traced(...)
      local _ <close> = trainable.as_compiled(model)
      local _ <close> = teams.fitting()
      return f(...)
    end
    local former <const> = entry
    entry = {version = version}
    if model.run_eagerly then
      entry.f, entry.draws = eagerly.step(traced, former and former.draws)
    else
      entry.f = func.func(traced, {name = model.name .. "." .. name,
        max_programs = model.max_programs})
      if former then entry.f:continue_draws(former.f:draws()) end
    end
    model._programs[key] = entry
  end
  return entry.f
end

---Continues the run of a program with another dataset of the same types of elements.
---@param model Model
---@param mode "train"|"test"|"predict"
---@param entry ProgramEntry
---@param dataset Dataset
---@param depth integer? elements read ahead
function programs.read_from(model, mode, entry, dataset, depth)
  programs.close(entry)
  entry.infeed:read_from(dataset, depth)
  if mode == "train" then programs.renew(model, entry) end
end

---A model keeps this program no longer. A new one of its key continues its random numbers.
---@param model Model
---@param entry ProgramEntry
function programs.forget(model, entry)
  programs.close(entry)
  leave(model, entry)
end

local most_programs <const> = 64 -- of a model that was not compiled

-- The entries of a mode that no open run uses, and the one that was opened longest ago.
local function idle(model, mode)
  local count, oldest = 0, nil
  for _, entry in pairs(model._programs) do
    if type(entry) == "table" and entry.mode == mode and not nested.uses(model, entry) then
      count = count + 1
      if not oldest or entry.opened < oldest.opened then oldest = entry end
    end
  end
  return count, oldest
end

-- Makes room for a new program of a mode: drops those that were opened longest ago.
local function leave_oldest(model, mode)
  local most <const> = model.max_programs or most_programs
  while true do
    local count, oldest = idle(model, mode)
    if count < most then return end
    programs.forget(model, oldest)
  end
end

local opened = 0

---The program for a dataset, with its infeed at the dataset's beginning.
---@param model Model
---@param mode "train"|"test"|"predict"
---@param feed Feed
---@param count integer steps of an execution
---@param wants_logs boolean whether each step's metrics go to an outfeed
---@param depth integer? elements read ahead; the model's by default
---@return ProgramEntry
function programs.open(model, mode, feed, count, wants_logs, depth)
  depth = depth or model._options.infeed.prefetch_depth
  local key, tries = program_key(model, mode, feed.dataset, count, wants_logs), 1
  local entry = model._programs[key]
  while entry and nested.uses(model, entry) do -- a callback of that run begins this one
    tries = tries + 1
    entry = model._programs[key .. ";" .. tries]
  end
  if tries > 1 then key = key .. ";" .. tries end
  local inner <const> = mode == "train" and inner_optimizers(model) or {}
  if entry then
    entry.inner = inner
    programs.read_from(model, mode, entry, feed.dataset, depth)
  else
    leave_oldest(model, mode)
    local outfeed = wants_logs and queues.IPUOutfeedQueue() or nil
    entry = {key = key, infeed = data.IPUInfeedQueue(feed.dataset, {prefetch_depth = depth}),
      outfeed = outfeed, mode = mode, opened = opened, inner = inner,
      version = version_of(model, inner)}
    make(model, mode, entry, count)
    keep(model, entry)
    if mode == "train" then programs.renew(model, entry) end
  end
  opened = opened + 1
  entry.opened = opened
  return entry
end


---A program of another number of steps that reads on where an entry's infeed stands.
---@param model Model
---@param mode "train"|"test"|"predict"
---@param entry ProgramEntry
---@param count integer steps of an execution
---@return ProgramEntry
function programs.beside(model, mode, entry, count)
  local key = entry.key .. ";steps " .. count
  local other = model._programs[key]
  if not other then
    other = {key = key, infeed = entry.infeed, version = version_of(model, entry.inner)}
    make(model, mode, other, count)
    keep(model, other)
  end
  other.inner = entry.inner
  return other
end

return programs
