-- keras.models: loading and copying models.

local args = require "ipulua.args"
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

return models
