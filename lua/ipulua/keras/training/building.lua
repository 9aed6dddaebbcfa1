-- Making a model's weights from the data, if its inputs were not given before.

local blame = require "ipulua.base.blame"
local elements = require "ipulua.data.elements"
local KerasTensor = require "ipulua.keras.base.tensor"
local nest = require "ipulua.base.nest"

local building = {}

local function is_unbuilt(model) return not model._graph and not rawget(model, "output_types") end

-- Vectors get a last axis of 1, as in Keras' steps.
local function stand_in(shape, dtype)
  return KerasTensor(#shape == 1 and {shape[1], 1} or shape, dtype)
end

-- KerasTensors like the first value of a dataset's elements, or like all values.
local function input_specs(dataset, of_all)
  local specs = dataset.element_spec
  if elements.is_tuple(dataset.template) and not of_all then specs = specs[1] end
  local function convert(spec)
    if spec.dtype and spec.shape then return stand_in(spec.shape, spec.dtype) end
    local out = {}
    for _, key in ipairs(nest.keys(spec)) do out[key] = convert(spec[key]) end
    return out
  end
  return convert(specs)
end

local left = setmetatable({}, {__mode = "k"}) -- models that were left to their first step

-- A call that reads numbers can't be built by shapes. Run eagerly, the first step builds it.
local function build(model, inputs)
  if not model.run_eagerly then
    model:build_with(inputs)
  elseif not left[model] then
    left[model] = not blame.attempt(model.build_with, model, inputs) or nil
  end
end

local function has_own_steps(model)
  local Model <const> = require "ipulua.keras.models.model".Model
  return model.train_step ~= Model.train_step
end

-- A train_step of one's own may call the model with all values of an element, as with three
-- pictures and no labels. Only `call` shows it: it refuses the first value alone.
local function build_from(model, dataset)
  local ok, problem = blame.attempt(build, model, input_specs(dataset))
  if ok then return end
  local may_take_all = elements.is_tuple(dataset.template) and has_own_steps(model)
  if not may_take_all or not blame.attempt(build, model, input_specs(dataset, true)) then
    error(problem, 0)
  end
end

---@param model Model
---@param dataset Dataset
function building.from_dataset(model, dataset)
  if is_unbuilt(model) then build_from(model, dataset) end
end

---The same for a subclassed model. Its stages are known once it has been called, and the number of
---steps depends on them.
---@param model Model
---@param dataset Dataset
function building.own_from_dataset(model, dataset)
  if not model._stack then building.from_dataset(model, dataset) end
end

---@param model Model
---@param x any a batch of inputs
function building.from_batch(model, x)
  if is_unbuilt(model) then
    build(model, nest.map(function(t) return stand_in(t.shape, t.dtype) end, x))
  end
end

return building
