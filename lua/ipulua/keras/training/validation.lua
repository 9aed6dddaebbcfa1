-- Validation in fit: its data, and the epochs after which it runs.

local assignment = require "ipulua.keras.models.stage_assignment"
local blame = require "ipulua.base.blame"
local feeding = require "ipulua.keras.training.feeding"
local together = require "ipulua.keras.base.together"

local validation = {}

---Takes the validation share off tensors: `a` is fit's arguments, x, y, sample_weight and
---validation_data are set anew.
---@param a table
function validation.split(a)
  if a.validation_split == 0 then return end
  if a.validation_split < 0 or a.validation_split >= 1 then
    blame.error("fit: 'validation_split' must lie in [0, 1), got " .. a.validation_split, "value")
  end
  if feeding.is_dataset(a.x) then
    blame.error("fit: 'validation_split' can't be taken from a dataset; give validation_data",
      "value")
  end
  if a.validation_data then return end
  local x, y, w = feeding.as_tensors(a.x, "fit"), feeding.as_tensors(a.y, "fit"),
    feeding.as_tensors(a.sample_weight, "fit")
  local length = feeding.length_of({x, y, w}, "fit")
  local kept, held = {}, {}
  kept[1], held[1] = feeding.split(x, length, a.validation_split)
  kept[2], held[2] = feeding.split(y, length, a.validation_split)
  kept[3], held[3] = feeding.split(w, length, a.validation_split)
  a.x, a.y, a.sample_weight = kept[1], kept[2], kept[3]
  a.validation_data = held
end

---Whether an epoch ends with validation.
---@param freq integer|integer[] every so many epochs, or after these (from 1)
---@param epoch integer from 0
---@return boolean
function validation.is_due(freq, epoch)
  if type(freq) == "table" then
    for _, each in ipairs(freq) do
      if each == epoch + 1 then return true end
    end
    return false
  end
  return (epoch + 1) % freq == 0
end

local parts <const> = {"x", "y", "sample_weight"}

---Refuses validation data that is neither a dataset nor {x, y, sample_weight}, by position or name.
---@param v any
function validation.check(v)
  if not v or feeding.is_dataset(v) then return end
  if type(v) ~= "table" then
    blame.error("fit: 'validation_data' is a dataset, or a list {x, y} of tensors", "type")
  end
  for key in pairs(v) do
    if not parts[key] and key ~= "x" and key ~= "y" and key ~= "sample_weight" then
      blame.error(string.format("fit: 'validation_data' is {x, y} or {x, y, sample_weight}; it has "
        .. "an entry '%s'", tostring(key)), "value")
    end
  end
end

---The arguments of evaluate, from fit's arguments.
---@param a table
---@param list CallbackList of fit
---@return table
function validation.arguments(a, list)
  local v = a.validation_data
  local o = {steps = a.validation_steps, verbose = 0, return_dict = true, callbacks = list}
  if feeding.is_dataset(v) then o.x = v
  else
    for i, name in ipairs(parts) do
      o[name] = v[i]
      if o[name] == nil then o[name] = v[name] end
    end
    o.batch_size = a.validation_batch_size or a.batch_size
  end
  return o
end

---Raises before the first epoch the errors that evaluate would raise after it: steps that
---steps_per_execution doesn't divide, and data that it can't take.
---@param model Model
---@param a table fit's arguments
function validation.check_steps(model, a)
  if not a.validation_data or together.is_one_of_several(model) then return end
  local who <const>, o = "fit: validation_data", validation.arguments(a, nil)
  feeding.take_apart(who, model, o)
  local feed = feeding.open(who, model,
    {x = o.x, y = o.y, sample_weight = o.sample_weight, batch_size = o.batch_size,
    steps = o.steps})
  feeding.count_steps(who, feed, {steps = o.steps, steps_name = "validation_steps",
    takes_remainder = feeding.takes_remainder(model, true), quiet = true,
    steps_per_execution = model.steps_per_execution, replicas = assignment.replicas(model)})
end

return validation
