-- keras.models: loading and copying models.

local args = require "ipulua.base.args"
local blame = require "ipulua.base.blame"
local class = require "ipulua.base.class"
local custom_objects = require "ipulua.keras.base.custom_objects"
local parts = require "ipulua.keras.base.parts"
local saving = require "ipulua.keras.files.saving"

local models = {
  Model = require "ipulua.keras.models.model".Model,
  Sequential = require "ipulua.keras.models.sequential".Sequential,
  load_model = saving.load_model, model_from_json = saving.model_from_json,
}

local clone_rows <const> = {{"model", require "ipulua.keras.models.model".Model},
  {"custom_objects", "table", optional = true}}

-- The classes of a model and of what is in it, by their names in files.
local function classes_of(model)
  local list = {}
  model:walk(function(layer) list[custom_objects.name_of(class.of(layer))] = class.of(layer) end)
  return list
end

---The same architecture with new weights.
---Errors: what is no model, a class that can't be described: `keras.models.clone_model(1)`
---@param ... any model
---@return Model
function models.clone_model(...)
  local a = args.check("clone_model", clone_rows, ...)
  return parts.get("layer", parts.serialize("layer", a.model),
    {custom_objects = a.custom_objects or classes_of(a.model)})
end

---The model that a config describes, as model:get_config() gave it, with new weights.
---Errors: what is no config, a class that isn't known: `keras.models.model_from_config(1)`
---@param config table
---@param objects table? {custom_objects = {name = class}}, or that table itself
---@return Model
function models.model_from_config(config, objects)
  if not args.is_plain(config) then
    blame.error("model_from_config: a config as get_config() gives it is wanted, got "
      .. args.describe(config), "type")
  end
  local class_name = config.class_name or (config.inputs or config.input_layers) and "Functional"
    or "Sequential"
  return parts.get("layer",
    {class_name = class_name, config = config.class_name and config.config or config},
    {custom_objects = custom_objects.given(objects)})
end

local save_rows <const> = {{"model", require "ipulua.keras.models.model".Model}, {"path", "string"}}

---Writes a model to a file, as model:save(path) does.
---Errors: what is no model, a path that model:save refuses:
---`keras.models.save_model(1, "m.safetensors")`
function models.save_model(...)
  local a = args.check("save_model", save_rows, ...)
  a.model:save(a.path)
end

return require("ipulua.keras.base.other_names").answer("models", models)
