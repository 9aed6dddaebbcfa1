-- A whole model as one .safetensors file: the weights, and as JSON in the metadata its
-- architecture, how it was compiled, and its options.

local architecture = require "ipulua.keras.files.architecture"
local args = require "ipulua.base.args"
local blame = require "ipulua.base.blame"
local class = require "ipulua.base.class"
local core = require "ipulua.core"
local formats = require "ipulua.keras.files.formats"
local json = require "ipulua.base.json"
local KerasTensor = require "ipulua.keras.base.tensor"
local log = require "ipulua.base.log"
local nest = require "ipulua.base.nest"
local own_names = require "ipulua.base.parts.custom_objects"
local parts = require "ipulua.base.parts"
local PipelineStageOptions = require "ipulua.pipeline.types".PipelineStageOptions
local plain = require "ipulua.base.plain"
local registry = require "ipulua.base.parts.registry"
local together = require "ipulua.keras.base.together"
local untrained = require "ipulua.base.untrained"
local weights = require "ipulua.keras.files.weights"

local model_file, methods = {}, {}
model_file.methods = methods

local scalars <const> = {["nil"] = true, number = true, string = true, boolean = true}

local serialize_compiled

-- Entries by output keep their places, those that are left out too. A flat list of metrics has the
-- others alone.
local function serialize_list(kind, list, lost)
  local out, last, by_output = {}, 0, kind == "loss"
  for key, each in pairs(list) do
    last = math.type(key) == "integer" and math.max(last, key) or last
    by_output = by_output or args.is_plain(each) and not each.class_name
  end
  for i = 1, last do
    local each = serialize_compiled(kind, list[i], lost)
    if each == nil and by_output then each = json.null end
    out[#out + 1] = each
  end
  return out
end

-- The arguments of compile in a file's form. Parts that can't be written go to `lost`, in words.
function serialize_compiled(kind, value, lost)
  if scalars[type(value)] or rawequal(value, json.null) then return value end
  if args.is_plain(value) then
    local out = serialize_list(kind, value, lost)
    for _, key in ipairs(nest.keys(value)) do
      if math.type(key) ~= "integer" then out[key] = serialize_compiled(kind, value[key], lost) end
    end
    return out
  end
  local saved, problem = parts.written(parts.serialize(kind, value))
  if problem then lost[#lost + 1] = {kind, problem} end
  return saved
end

-- A metric that can't be written down is left out. Without a loss or the optimizer a model would
-- learn something else: then nothing is kept of compile, and the loaded model asks for it.
local function training_config(model)
  local a = model.compile_arguments
  if not a then return nil end
  local needed, lost = {}, {}
  local config = {
    optimizer = serialize_compiled("optimizer", model.optimizer, needed),
    loss = serialize_compiled("loss", a.loss, needed),
    metrics = serialize_compiled("metric", a.metrics, lost),
    weighted_metrics = serialize_compiled("metric", a.weighted_metrics, lost),
    loss_weights = a.loss_weights,
    steps_per_execution = model.steps_per_execution,
  }
  for _, each in ipairs(#needed > 0 and needed or lost) do
    log.warn("save: %s %s of compile can't be saved%s; compile the model again after loading it "
      .. "(%s)", each[1] == "optimizer" and "an" or "a", each[1],
      #needed > 0 and ", so nothing that compile was given is" or "", each[2])
  end
  return #needed == 0 and config.optimizer and config or nil
end

local function deserialize_compiled(kind, value, custom_objects)
  if not args.is_plain(value) then return value end
  if value.class_name then return parts.get(kind, value, {custom_objects = custom_objects}) end
  local out = {}
  for key, each in pairs(value) do out[key] = deserialize_compiled(kind, each, custom_objects) end
  return out
end

---Compiles a model as a description says: parts are names or {class_name =, config =}.
---@param model Model
---@param t table what compile takes
---@param custom_objects table?
function model_file.compile(model, t, custom_objects)
  local _ <close> = own_names.enter(custom_objects) -- names may stand where parts do
  local given = {}
  for name, value in pairs(t) do given[name] = value end
  given.optimizer = parts.get("optimizer", t.optimizer or "rmsprop",
    {custom_objects = custom_objects})
  given.loss = deserialize_compiled("loss", t.loss, custom_objects)
  given.metrics = deserialize_compiled("metric", t.metrics, custom_objects)
  given.weighted_metrics = deserialize_compiled("metric", t.weighted_metrics, custom_objects)
  model:compile(given)
end

-- Options as data; a function by the name that it was registered under.
local function plain_options(value, name, depth)
  if class.is_a(value, PipelineStageOptions) then return {["$stage_options"] = value:to_table()} end
  if type(value) == "function" and own_names.name_of(value) then
    return {registered_function = own_names.name_of(value)}
  end
  local is_simple = type(value) ~= "table" and type(value) ~= "function"
    and type(value) ~= "userdata"
  if is_simple then return value end
  if not plain.is(value) then
    blame.error(string.format("save: the option '%s' can't be saved, a %s; a function is saved by "
      .. "its name when it is registered, keras.utils.register_keras_serializable(f, {name = …})",
      name, args.describe(value)), "value")
  end
  local out = {}
  depth = plain.deeper(depth or 0)
  for key, each in pairs(value) do out[key] = plain_options(each, key, depth) end
  return out
end

-- The inverse of plain_options.
local function options_again(value)
  if type(value) ~= "table" then return value end
  if value["$stage_options"] then return PipelineStageOptions(value["$stage_options"]) end
  local out = core.plain{}
  for key, each in pairs(value) do out[key] = options_again(each) end
  return out
end

-- ------------------------------------------------ whole models

local save_rows <const> = {{"path", "string"}, {"include_optimizer", "boolean", true},
  {"overwrite", "boolean", true}, together.every_row}

---Writes the whole model to a .safetensors file: architecture, weights, compile's arguments, the
---optimizer's state.
---Errors: another ending than .safetensors, a class that can't be described, a path that can't be
---written: `model:save "model.h5"`
---@param ... any path, include_optimizer, overwrite, all_instances
function methods:save(...)
  local a = args.check("save", save_rows, ...)
  if not a.path:find("%.safetensors$") then
    blame.error(string.format("save: a model is saved as .safetensors, not as '%s'%s", a.path,
      a.path:find("%.onnx$") and "; keras.onnx.export writes ONNX files" or ""), "value")
  end
  if not a.overwrite and core.file_exists(a.path) then
    blame.error(string.format("save: '%s' exists already", a.path), "value")
  end
  local base = registry.module("model").Model
  if not self._graph and self._stack == nil and self.get_config == base.get_config then
    blame.error(string.format("save: model '%s' is a subclass without get_config(); save_weights "
      .. "saves its weights", self.name),
      "not_implemented")
  end
  local tensors, order = weights.tensors("save", self)
  if a.include_optimizer then
    weights.collect("save", tensors, weights.optimizer_paths(self.optimizer, weights.paths(self)))
  end
  local options = plain_options(self._options)
  local training, inputs = training_config(self), self._input_specs
  if untrained.keeps(a.path) or together.leaves_to_first(self, a) then return end
  core.save(a.path, tensors, {
    format = "ipulua.model/1", order = json.encode(json.array(order)),
    model = architecture.methods.to_json(self),
    options = architecture.as_text("save", options), inputs = inputs
    and architecture.as_text("save", inputs) or nil,
    training = training and architecture.as_text("save", training) or nil,
  })
end

-- A subclass makes its weights when it is first called: it is called with symbols of the inputs
-- that the saved one was built with.
local function build_again(model, inputs, path)
  local function damaged()
    blame.error(string.format("load_model: '%s' is damaged: 'inputs' holds no shapes", path),
      "value")
  end
  local function symbols(spec)
    if type(spec) ~= "table" then damaged() end
    if args.is_dtype(spec.dtype) then
      for _, extent in ipairs(args.is_list(spec.shape) and spec.shape or damaged()) do
        if math.type(extent) ~= "integer" or extent < -1 then damaged() end
      end
      return KerasTensor(spec.shape, spec.dtype)
    end
    local out = {}
    for key, each in pairs(spec) do out[key] = symbols(each) end
    return out
  end
  if not model.built then model:build_with(symbols(inputs)) end
end

local load_model_rows <const> = {
  {"path", "string"}, {"custom_objects", "table", optional = true}, {"compile", "boolean", true},
}

---The model of a file that model:save() wrote, with its weights, options, and (compile) its
---training state.
---Errors: a file that is missing, damaged or not of model:save, a class that custom_objects doesn't
---name: `keras.models.load_model "nowhere.safetensors"`
---@param ... any path, custom_objects, compile
---@return Model
function model_file.load_model(...)
  local a = args.check("load_model", load_model_rows, ...)
  local format = formats.find(a.path)
  if format and format.plan or a.path:find("%.keras$") then
    blame.error(string.format("load_model: '%s' is of Keras, whose layers are not read: build the "
      .. "model here, and give it " ..
      "the weights of an .h5 file with model:load_weights", a.path), "value")
  end
  if not format then
    blame.error(string.format("load_model: '%s' must end in .safetensors", a.path), "value")
  end
  local tensors, metadata = core.load(a.path)
  if not metadata or not metadata.model then
    blame.error(string.format("load_model: '%s' holds no model, only tensors; load_weights reads "
      .. "those", a.path), "value")
  end
  local _ <close> = own_names.enter(a.custom_objects)
  local function described(name)
    local value, problem = json.parse(metadata[name])
    if problem then
      blame.error(string.format("load_model: '%s' is damaged: '%s' is not JSON: %s", a.path, name,
        problem), "value")
    end
    return parts.unwritten(json.unpack(value))
  end
  local file = "load_model: '" .. a.path .. "'"
  local model = blame.reading(file, architecture.model_from_config, described "model",
    a.custom_objects)
  -- a lookup's vocabulary is part of the shapes that a subclass is built with
  weights.commit((weights.plan_learnt(weights.learners(model, ""), tensors, metadata)))
  if metadata.inputs then build_again(model, described "inputs", a.path) end
  local entries = weights.as_in_file(weights.paths(model), tensors, metadata)
  local plan, expected = weights.plan("load_model", entries, tensors)
  local values, names = weights.plan_learnt(weights.learners(model, ""), tensors, metadata)
  for name in pairs(names) do expected[name] = true end
  weights.check_left("load_model", tensors, expected)
  if metadata.options then
    local options = described "options"
    if type(options) ~= "table" then
      blame.error(file .. " is damaged: 'options' is no table", "value")
    end
    for key, value in pairs(options) do model._options[key] = options_again(value) end
  end
  if a.compile and metadata.training then
    blame.reading(file, model_file.compile, model, described "training", a.custom_objects)
    local of_optimizer <const> = weights.plan_optimizer("load_model", model.optimizer, entries,
      tensors)
    table.move(of_optimizer, 1, #of_optimizer, #plan + 1, plan)
  end
  weights.commit(plan)
  weights.commit(values)
  return model
end

return model_file
