-- ipulua.keras: layers, models and what trains them. Modules load when they are first asked for.

local blame = require "ipulua.base.blame"
local elsewhere = require "ipulua.base.elsewhere"
local modules = require "ipulua.base.modules"
local nearest = require "ipulua.nearest"

local keras = {}

-- name → module, field; without a field the module itself
local public <const> = {
  layers = {"layers"}, activations = {"activations"}, initializers = {"initializers"},
  losses = {"losses"},
  metrics = {"metrics"}, optimizers = {"optimizers"}, regularizers = {"regularizers"},
  constraints = {"constraints"},
  backend = {"backend"}, callbacks = {"callbacks"}, datasets = {"datasets"}, models = {"models"},
  utils = {"utils"},
  mixed_precision = {"mixed_precision"}, onnx = {"onnx"}, preprocessing = {"preprocessing"},
  Model = {"models.model", "Model"}, Sequential = {"models.sequential", "Sequential"},
  Input = {"models.input", "Input"},
  PipelineStage = {"models.stage_scope", "PipelineStage"},
  PipelineModel = {"models.older", "PipelineModel"},
  SequentialPipelineModel = {"models.older", "SequentialPipelineModel"},
  PipelineSequential = {"models.older", "PipelineSequential"},
  SequentialLayerPipelineStageAssignment = {"models.stage_assignment",
    "SequentialLayerPipelineStageAssignment"},
  FunctionalLayerPipelineStageAssignment = {"models.stage_assignment",
    "FunctionalLayerPipelineStageAssignment"},
  ModelLayerPipelineStageAssignment = {"models.stage_assignment",
    "ModelLayerPipelineStageAssignment"},
}

-- "layers.Dense" for Dense: a name that stands in a module.
local function in_module(name)
  for _, module in ipairs{"layers", "losses", "metrics", "optimizers", "callbacks", "initializers",
    "utils"} do
    if rawget(require("ipulua.keras." .. module), name) then return module .. "." .. name end
  end
  return nil
end

setmetatable(keras, {
  __tostring = function() return "<module ipulua.keras; help(keras) lists its names>" end,
  __index = function(t, name)
    local at = public[name]
    if not at then
      local why = require "ipulua.keras.base.other_names".missing.keras[name]
      if why then blame.error(string.format("keras.%s is not offered: %s", name, why), "value") end
      local list = {}
      for each in pairs(public) do list[#list + 1] = each end
      local known = elsewhere.hint("keras", name)
      local near = not known and type(name) == "string"
        and (in_module(name) or nearest.find(name, list))
      blame.error(string.format("keras has no '%s'%s", tostring(name),
        known or near and "; did you mean '" .. near .. "'?" or ""), "value")
    end
    local module = require("ipulua.keras." .. at[1])
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

return keras
