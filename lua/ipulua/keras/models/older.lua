-- The pipelined models of earlier releases. The constructor takes the stages and the pipeline's
-- arguments. A step is a run of the pipeline over gradient_accumulation_count micro-batches.
-- Beneath they are the models of today.

local args = require "ipulua.base.args"
local blame = require "ipulua.base.blame"
local callbacks = require "ipulua.keras.callbacks"
local class = require "ipulua.base.class"
local Layer = require "ipulua.keras.base.layer"
local Model = require "ipulua.keras.models".Model
local Sequential = require "ipulua.keras.models".Sequential

local older = {}

-- Arguments of the constructors that become options of the pipeline.
local option_rows <const> = {
  {"gradient_accumulation_count", "integer", optional = true},
  {"gradient_accumulation_dtype", {"dtype", "function"}, optional = true},
  {"device_mapping", "list", optional = true},
  {"pipeline_schedule", "any", optional = true, of = "PipelineSchedule"},
  {"recomputation_mode", "string", optional = true},
  {"offload_weight_update_variables", "boolean", optional = true},
  {"offload_activations", "boolean", optional = true},
  {"offload_gradient_accumulation_buffers", "boolean", optional = true},
  {"replicated_optimizer_state_sharding", "boolean", optional = true},
  {"replicated_weight_sharding", "boolean", optional = true},
  {"offload_weights", "boolean", optional = true},
  {"forward_propagation_stages_poplar_options", "list", optional = true},
  {"backward_propagation_stages_poplar_options", "list", optional = true},
  {"weight_update_poplar_options", "any", optional = true, of = "PipelineStageOptions"},
  {"layer_replacement", "boolean", false}, {"name", "string", optional = true},
}

local function with_options(rows)
  return table.move(option_rows, 1, #option_rows, #rows + 1, rows)
end

-- Options of a model, which was made already.
local function configure(model, who, a)
  local count = a.gradient_accumulation_count
  if not count or count < 1 then
    blame.error(string.format("%s: 'gradient_accumulation_count' must say how many micro-batches a "
      .. "weight update takes, got %s", who,
      tostring(count)), "value")
  end
  local options = {gradient_accumulation_steps_per_replica = count}
  for _, row in ipairs(option_rows) do
    local name = row[1]
    if name ~= "gradient_accumulation_count" and name ~= "layer_replacement" and name ~= "name" then
      options[name] = a[name]
    end
  end
  model:set_pipelining_options(options)
  rawset(model, "micro_batches", count)
end

-- ------------------------------------------------ steps

local run_row <const> = {"steps_per_run", "integer", 1}

-- The arguments of a call as one table of names, without steps_per_run; steps there become
-- micro-batches.
local function in_micro_batches(self, who, names, ...)
  local given = {...}
  local last = given[#given]
  local named = args.is_plain(last) and {} or nil
  if named then
    for key, value in pairs(last) do named[key] = value end
    given[#given] = named
  else
    named = {}
    given[#given + 1] = named
  end
  local runs = args.check_value(who, run_row, named.steps_per_run)
  named.steps_per_run = nil
  if runs < 1 then
    blame.error(string.format("%s: 'steps_per_run' must be positive, got %d", who, runs), "value")
  end
  for _, name in ipairs(names) do
    local steps = named[name]
    if steps and steps % runs ~= 0 then
      blame.error(string.format("%s: '%s', %d, must be a multiple of steps_per_run, %d", who, name,
        steps, runs), "value")
    end
    named[name] = steps and steps * self.micro_batches
  end
  rawset(self, "steps_per_execution", runs * self.micro_batches)
  return table.unpack(given)
end

-- A fit that validates counts in micro-batches already.
local function is_validation(self, first)
  local list = args.is_plain(first) and first.callbacks
  return class.is_a(list, callbacks.CallbackList) and list.model == self
end

-- To be closed: then the model executes as many steps at once as before.
local function restoring(self)
  local former = rawget(self, "steps_per_execution")
  return setmetatable({}, {__close = function() rawset(self, "steps_per_execution", former) end})
end

local step_names <const> = {fit = {"steps_per_epoch", "validation_steps"}, evaluate = {"steps"},
  predict = {"steps"}}

local function define(name, base)
  local c = base:extend(name)
  for method, names in pairs(step_names) do
    c[method] = function(self, ...)
      if is_validation(self, ...) then return base[method](self, ...) end
      local _ <close> = restoring(self)
      return base[method](self, in_micro_batches(self, method, names, ...))
    end
  end
  older[name] = c
  return c
end

-- ------------------------------------------------ the models

---A functional model whose layers were called in PipelineStage scopes.
---@class PipelineModel
local PipelineModel = define("PipelineModel", Model)

local model_rows <const> = with_options{
  {"inputs", "any", of = "KerasTensor or table of them"},
  {"outputs", "any", of = "KerasTensor or table of them"},
}

function PipelineModel:init(...)
  local a = args.check("PipelineModel", model_rows, ...)
  Model.init(self, {inputs = a.inputs, outputs = a.outputs, name = a.name})
  configure(self, "PipelineModel", a)
  if not self:is_pipelined() then
    blame.error("PipelineModel: its layers are in no stage; make or call them in "
      .. "keras.PipelineStage scopes", "value")
  end
end

---Stages one after the other: a list of layers for each.
---@class SequentialPipelineModel
local SequentialPipelineModel = define("SequentialPipelineModel", Sequential)

local stage_rows <const> = with_options{{"stages", "list", list = true}}

function SequentialPipelineModel:init(...)
  local a = args.check("SequentialPipelineModel", stage_rows, ...)
  local layers, assignment = {}, {}
  for stage, list in ipairs(a.stages) do
    if not args.is_list(list) or #list == 0 then
      blame.error(
        string.format("SequentialPipelineModel: stage %d must be a list of layers, got %s",
          stage - 1, args.describe(list)), "type")
    end
    for _, layer in ipairs(list) do
      if not Layer.is_layer(layer) then
        blame.error(string.format("SequentialPipelineModel: stage %d must hold layers, got %s",
          stage - 1, args.describe(layer)), "type")
      end
      layers[#layers + 1], assignment[#assignment + 1] = layer, stage - 1
    end
  end
  Sequential.init(self, {layers = layers, name = a.name})
  self:set_pipeline_stage_assignment(assignment)
  configure(self, "SequentialPipelineModel", a)
end

older.PipelineSequential = SequentialPipelineModel

return older
