-- keras.models: loading and copying models.

local args = require "ipulua.args"
local blame = require "ipulua.blame"
local class = require "ipulua.class"
local parts = require "ipulua.keras.parts"
local saving = require "ipulua.keras.saving"

local models = {
  Model = require "ipulua.keras.model".Model, Sequential = require "ipulua.keras.sequential".Sequential,
  load_model = saving.load_model, model_from_json = saving.model_from_json,
}

local clone_rows <const> = {{"model", require "ipulua.keras.model".Model}, {"custom_objects", "table", optional = true}}

---The same architecture with new weights.
---Errors: what is no model, a class that can't be described: `keras.models.clone_model(1)`
---@param ... any model
---@return Model
function models.clone_model(...)
  local a = args.check("clone_model", clone_rows, ...)
  return parts.get("layer", {class_name = class.of(a.model).__name, config = a.model:get_config()},
    {custom_objects = a.custom_objects or {[class.of(a.model).__name] = class.of(a.model)}})
end

---The model that a config describes, as model:get_config() gave it, with new weights.
---@param config table
---@param custom_objects table?
---@return Model
function models.model_from_config(config, custom_objects)
  if not args.is_plain(config) then
    blame.error("model_from_config: a config as get_config() gives it is wanted, got " .. args.describe(config), "type")
  end
  local class_name = config.class_name or (config.inputs or config.input_layers) and "Functional" or "Sequential"
  return parts.get("layer", {class_name = class_name, config = config.class_name and config.config or config},
    {custom_objects = custom_objects})
end

local save_rows <const> = {{"model", require "ipulua.keras.model".Model}, {"path", "string"}}

---Writes a model to a file, as model:save(path) does.
function models.save_model(...)
  local a = args.check("save_model", save_rows, ...)
  a.model:save(a.path)
end

return models
