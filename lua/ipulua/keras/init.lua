-- ipulua.keras: layers, models and training. Modules load when they are first used.

local blame = require "ipulua.base.blame"
local elsewhere = require "ipulua.base.elsewhere"
local modules = require "ipulua.base.modules"
local nearest = require "ipulua.nearest"
local registry = require "ipulua.base.parts.registry"

require "ipulua" -- its effects are needed, such as reports of programs

local keras = {}

-- name → module, field; without a field the module itself
local public <const> = {
  layers = {"keras.layers"}, activations = {"keras.activations"},
  initializers = {"trace.initializers"},
  losses = {"keras.losses"},
  metrics = {"keras.metrics"}, optimizers = {"keras.optimizers"},
  regularizers = {"keras.regularizers"},
  constraints = {"keras.constraints"},
  backend = {"keras.backend"}, callbacks = {"keras.callbacks"}, datasets = {"keras.datasets"},
  models = {"keras.models"},
  utils = {"keras.utils"},
  mixed_precision = {"keras.mixed_precision"}, onnx = {"keras.onnx"},
  preprocessing = {"keras.preprocessing"},
  Model = {"keras.models", "Model"}, Sequential = {"keras.models", "Sequential"},
  Input = {"keras.models.input", "Input"},
  PipelineStage = {"keras.models.stage_scope", "PipelineStage"},
  PipelineModel = {"keras.models.older", "PipelineModel"},
  SequentialPipelineModel = {"keras.models.older", "SequentialPipelineModel"},
  PipelineSequential = {"keras.models.older", "PipelineSequential"},
  SequentialLayerPipelineStageAssignment = {"keras.models.stage_assignment",
    "SequentialLayerPipelineStageAssignment"},
  FunctionalLayerPipelineStageAssignment = {"keras.models.stage_assignment",
    "FunctionalLayerPipelineStageAssignment"},
  ModelLayerPipelineStageAssignment = {"keras.models.stage_assignment",
    "ModelLayerPipelineStageAssignment"},
}

-- "layers.Dense" for Dense: a name that stands in a module.
local function in_module(name)
  for _, module in ipairs{"layers", "losses", "metrics", "optimizers", "callbacks", "initializers",
    "utils"} do
    if rawget(keras[module], name) then return module .. "." .. name end
  end
  return nil
end

local missing <const> = {applications = "nothing is downloaded; build the model of keras.layers; "
  .. "load_weights and onnx.import read the weights of a file"}
require "ipulua.base.parts.offering".missing.keras = missing

-- The parts of a kind enter themselves in the registry.
registry.load_by(function(kind)
  local module = kind == "schedule" and "keras.optimizers.schedules"
    or kind == "model" and "keras.models" or public[registry.kinds[kind]][1]
  require("ipulua." .. module)
end)

setmetatable(keras, {
  __tostring = function() return "<module ipulua.keras; help(keras) lists its names>" end,
  __index = function(t, name)
    local at = public[name]
    if not at then
      local why = missing[name]
      if why then blame.error(string.format("keras.%s is not offered: %s", name, why), "value") end
      local list = {}
      for each in pairs(public) do list[#list + 1] = each end
      local known = elsewhere.hint("keras", name)
      local near = not known and type(name) == "string"
        and (in_module(name) or nearest.find(name, list))
      blame.error(string.format("keras has no '%s'%s", tostring(name),
        known or near and "; did you mean '" .. near .. "'?" or ""), "value")
    end
    local module = require("ipulua." .. at[1])
    local value = at[2] and modules.offered(module[at[2]])
      or modules.guard("keras." .. name, module)
    rawset(t, name, value)
    return value
  end,
})

---Every public name, for completion.
function keras.__names()
  local list = {}
  for name in pairs(public) do list[#list + 1] = name end
  table.sort(list)
  return list
end

modules.public().keras = keras
return keras
