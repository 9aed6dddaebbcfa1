-- keras.models: the models with all that they are asked for, loading and copying them.

local architecture = require "ipulua.keras.files.architecture"
local args = require "ipulua.base.args"
local blame = require "ipulua.base.blame"
local class = require "ipulua.base.class"
local custom_objects = require "ipulua.base.parts.custom_objects"
local layer_fields = require "ipulua.keras.base.layer_fields"
local model_file = require "ipulua.keras.files.model_file"
local offering = require "ipulua.base.parts.offering"
local parts = require "ipulua.base.parts"
local registry = require "ipulua.base.parts.registry"

local Model = require "ipulua.keras.models.model".Model
local Sequential = require "ipulua.keras.models.sequential".Sequential

-- The methods of models are in files of their own.
for _, part in ipairs{
  require "ipulua.keras.training.compile",
  require "ipulua.keras.training.fit",
  require "ipulua.keras.training.evaluate",
  require "ipulua.keras.training.predict",
  require "ipulua.keras.training.on_batch", require "ipulua.keras.models.inspect",
  require "ipulua.keras.training.own_steps",
  require "ipulua.keras.models.containers",
  require "ipulua.keras.training.priced",
  require "ipulua.keras.training.pipelined",
  require "ipulua.keras.models.stage_assignment",
  require "ipulua.keras.models.describe",
  require "ipulua.keras.files.weights",
  require "ipulua.keras.files.architecture",
  require "ipulua.keras.files.model_file",
} do
  for name, f in pairs(part.methods) do Model[name] = f end
  for name, f in pairs(part.properties or {}) do Model.properties[name] = f end
end
class.guard(Model)
layer_fields.reserve(Model)
registry.enter("model", {Model = Model, Sequential = Sequential})

local models = {
  Model = Model, Sequential = Sequential,
  load_model = model_file.load_model, model_from_json = architecture.model_from_json,
}

local clone_rows <const> = {{"model", Model},
  {"custom_objects", "table", optional = true}}

-- The classes of a model and of its parts, by their names in files.
local function classes_of(model)
  local list = {}
  model:walk(function(layer) list[custom_objects.name_of(class.of(layer))] = class.of(layer) end)
  return list
end

---The same architecture with new weights.
---Errors: an argument that is no model, a class that can't be described:
---`keras.models.clone_model(1)`
---@param ... any model
---@return Model
function models.clone_model(...)
  local a = args.check("clone_model", clone_rows, ...)
  return parts.get("layer", parts.serialize("layer", a.model),
    {custom_objects = a.custom_objects or classes_of(a.model)})
end

---The model that a config describes, as model:get_config() gave it, with new weights.
---Errors: an argument that is no config, a class that isn't known:
---`keras.models.model_from_config(1)`
---@param config table
---@param objects table? {custom_objects = {name = class}}, or that table itself
---@return Model
function models.model_from_config(config, objects)
  if not args.is_plain(config) then
    blame.error("model_from_config: expected a config as get_config() gives it, got "
      .. args.describe(config), "type")
  end
  local class_name = config.class_name or (config.inputs or config.input_layers) and "Functional"
    or "Sequential"
  return parts.get("layer",
    {class_name = class_name, config = config.class_name and config.config or config},
    {custom_objects = custom_objects.given(objects)})
end

local save_rows <const> = {{"model", Model}, {"path", "string"}}

---Writes a model to a file, as model:save(path) does.
---Errors: an argument that is no model, a path that model:save refuses: `keras.models.save_model(1,
---"m.safetensors")`
function models.save_model(...)
  local a = args.check("save_model", save_rows, ...)
  a.model:save(a.path)
end

-- Names of Keras' module that this one lacks, with the names to use instead.
local missing <const> = {
  model_from_yaml = "it was taken out of Keras, too; use model_from_json",
}

return offering.answer("models", models, {missing = missing})
