-- Model: layers that train together. A functional model is given inputs and outputs; a subclass of
-- its own, keras.Model:extend("Net"), defines `call`.

local args = require "ipulua.base.args"
local blame = require "ipulua.base.blame"
local class = require "ipulua.base.class"
local context = require "ipulua.keras.base.context"
local core = require "ipulua.core"
local counted = require "ipulua.base.counted"
local functional = require "ipulua.keras.models.functional"
local infer = require "ipulua.keras.base.infer"
local KerasTensor = require "ipulua.keras.base.tensor"
local Layer = require "ipulua.keras.base.layer"
local layer_fields = require "ipulua.keras.base.layer_fields"
local layer_weights = require "ipulua.keras.base.layer_weights"
local log = require "ipulua.base.log"
local nest = require "ipulua.base.nest"
local ops = require "ipulua.ops"
local registry = require "ipulua.base.parts.registry"
local shapes = require "ipulua.keras.base.shapes"
local stages = require "ipulua.keras.models.stage_scope"

local keep <const> = layer_fields.keep

local model = {}

---Tensors that layers were called with, from inputs to outputs:
---`keras.Model{inputs = x, outputs = y}`; or a subclass with a call of its own:
---`keras.Model:extend("Name")`, `call(x, {training =})`.
---@class Model: Layer
---@field layers Layer[]
---@field inputs KerasTensor[]
---@field outputs KerasTensor[]
---@field optimizer Optimizer?
---@field metrics_names string[]
---@field compiled_loss CompiledLoss
---@field compiled_metrics CompiledMetrics
---@field stop_training boolean
local Model = Layer:extend("Model")
model.Model = Model
Model.is_model = true

Model.properties = setmetatable({}, {__index = Layer.properties})
Model.setters = setmetatable({}, {__index = Layer.setters})
local properties <const> = Model.properties

local rows <const> = {
  {"inputs", "any", optional = true, of = "KerasTensor or table of them"},
  {"outputs", "any", optional = true, of = "KerasTensor or table of them"},
  {"name", "string", optional = true},
  {"trainable", "boolean", true}, {"dtype", "string", optional = true},
}
Model.argument_rows, Model.argument_kinds = rows, {}

function Model:init(...)
  local given = args.check(class.of(self).__name, rows, ...)
  self:init_base(given)
  -- Model{inputs, outputs}
  if given.outputs == nil and args.is_list(given.inputs) and #given.inputs == 2 then
    given.inputs, given.outputs = given.inputs[1], given.inputs[2]
  end
  if given.inputs ~= nil or given.outputs ~= nil then
    if given.inputs == nil or given.outputs == nil then
      blame.error(self.__name .. ": a functional model needs both 'inputs' and 'outputs'", "value")
    end
    self:init_graph(functional.between(given.inputs, given.outputs))
  end
  if given.trainable == false then self.trainable = false end
end

function Model:init_base(given)
  registry.module("model") -- with all methods; the first of them are in this file
  Layer.init_base(self, given)
  rawset(self, "stop_training", false)
  keep(self, "_programs", {})
  keep(self, "_team", require "ipulua.config.teams".current())
  keep(self, "_options", require "ipulua.keras.models.stage_assignment".defaults())
end

function Model:init_graph(g)
  keep(self, "_graph", g)
  rawset(self, "built", true)
  -- some layers in a stage, some in none?
  if not self._stack then require "ipulua.keras.models.stage_assignment".stages(self) end
end

-- ------------------------------------------------ structure

-- The graph's layers, then the layers in the fields.
function Model:sublayers()
  return layer_fields.join(self._graph and self._graph.layers or {}, Layer.sublayers(self))
end

function properties.layers(self) return self:sublayers() end
function properties.inputs(self) return self._graph and self._graph.inputs or nil end
function properties.outputs(self) return self._graph and self._graph.outputs or nil end
function properties.input(self)
  if self._graph then return self._graph.input_structure end
  return Layer.properties.input(self)
end
function properties.output(self)
  if self._graph then return self._graph.output_structure end
  return Layer.properties.output(self)
end
function properties.input_shape(self)
  return nest.map(function(t) return t.shape end, self.input)
end
function properties.output_shape(self)
  return nest.map(function(t) return t.shape end, self.output)
end

-- Layer by layer, then the model's own.
function properties.weights(self)
  local list = {}
  for _, layer in ipairs(self:sublayers()) do
    local weights = layer.weights
    table.move(weights, 1, #weights, #list + 1, list)
  end
  local own = self:own_variables()
  return layer_weights.distinct(table.move(own, 1, #own, #list + 1, list))
end

---The layer of a name, or the one at a position (from 0; negative from the end).
---Errors: a name or position that no layer has: `model:get_layer "conv"`
---@param name string|integer|nil
---@param options {name: string?, index: integer?}|integer|nil
---@return Layer
function Model:get_layer(name, options)
  if type(name) == "table" then options, name = name, nil end
  if name == nil then
    name = options
    if type(options) == "table" then name = options.name or options.index end
  end
  if type(name) ~= "string" and math.type(name) ~= "integer" then
    blame.error("get_layer: expected a layer's name or position, got "
      .. args.describe(name), "type")
  end
  local layers = self.layers
  if math.type(name) == "integer" then
    local layer = layers[name < 0 and #layers + name + 1 or name + 1]
    if not layer then
      blame.error(string.format("model '%s' has %s; there is none at %d", self.name,
        counted(#layers, "layer"), name), "value")
    end
    return layer
  end
  local known = {}
  for i, layer in ipairs(layers) do
    if layer.name == name then return layer end
    known[i] = layer.name
  end
  blame.error(string.format("model '%s' has no layer '%s'%s", self.name, tostring(name),
    require "ipulua.nearest".hint(tostring(name), known)), "value")
end

-- ------------------------------------------------ calling

-- Whether a shape is one sample's, without the batch. A vector may have got a last axis of 1.
local function is_one_sample(given, wanted)
  local rank = #given == #wanted and given[#given] == 1 and #given - 1 or #given
  local is_one = rank == #wanted - 1
  for i = 2, #wanted do is_one = is_one and given[i - 1] == wanted[i] end
  return is_one
end

-- A tensor for an input of a functional model: a missing or superfluous last axis of 1 is mended,
-- the dtype cast.
local function fit_input(self, x, wanted)
  if not core.is_tensor(x) and not core.is_variable(x) then return x end
  local mask = context.mask(x)
  local given = x.shape
  local rank, wanted_rank = #given, #wanted.shape
  if rank == wanted_rank + 1 and x.shape[rank] == 1 then
    x = ops.squeeze(x, {axis = -1})
  elseif rank == wanted_rank - 1 and wanted.shape[wanted_rank] == 1 then
    x = ops.expand_dims(x, -1)
  end
  local fits = #x.shape == wanted_rank
  for i = 2, wanted_rank do
    fits = fits and (wanted.shape[i] < 0 or x.shape[i] == wanted.shape[i])
  end
  if not fits then
    blame.error(string.format("model '%s': its input '%s' has the shape %s, but got %s%s",
      self.name, wanted.layer.name,
      shapes.text(wanted.shape), shapes.text(given),
      is_one_sample(given, wanted.shape)
      and "; the batch axis is missing: ds:batch(n) adds it to a dataset, ipu.expand_dims(x, 0) "
      .. "to one sample" or ""),
      "value")
  end
  if x.dtype ~= wanted.dtype then x = ops.cast(x, wanted.dtype) end
  if context.mask(x) ~= mask then context.set_mask(x, mask) end
  return x
end

-- x with the mask that was given to the call, which is not the mask of the caller's tensor.
local function masked(x, mask)
  if mask == nil or not args.is_tensor(x) or context.mask(x) == mask then return x end
  local copy = ops.identity(x)
  context.set_mask(copy, mask)
  return copy
end

local function missing(self, name, given)
  local names = {}
  for i, key in ipairs(nest.keys(given)) do names[i] = tostring(key) end
  blame.error(string.format("model '%s': its input '%s' is missing; given are: %s", self.name,
    tostring(name), table.concat(names, ", ")), "value")
end

-- Entries of a table beside a model's inputs are reported once. Datasets may have more than a model
-- reads.
local function tell_others(self, given, is_input)
  if self._told_inputs then return end
  for _, key in ipairs(nest.keys(given)) do
    if not is_input[key] then
      keep(self, "_told_inputs", true)
      log.warn("model '%s' has no input '%s'; the value given for it is left out", self.name,
        tostring(key))
    end
  end
end

-- Inputs by name, where a table with names is given for the inputs of a list.
local function by_name(self, given)
  local list, is_input = {}, {}
  for i, t in ipairs(self._graph.inputs) do
    is_input[t.layer.name] = true
    list[i] = given[t.layer.name]
    if list[i] == nil then missing(self, t.layer.name, given) end
  end
  tell_others(self, given, is_input)
  return list
end

-- Inputs by the keys of the table that the model was made with.
local function by_key(self, structure, given, list)
  local is_input = {}
  for _, key in ipairs(nest.keys(structure)) do
    is_input[key] = true
    if given[key] == nil then missing(self, key, given) end
    if args.is_plain(structure[key]) and args.is_plain(given[key]) then
      by_key(self, structure[key], given[key], list)
    else list[#list + 1] = given[key] end
  end
  tell_others(self, given, is_input)
  return list
end

local function graph_inputs(self, inputs, options)
  local g = self._graph
  local values
  if options and options.mask ~= nil then
    local masks = options.mask
    if args.is_plain(inputs) then
      local copy = {}
      for key, x in next, inputs do
        copy[key] = masked(x, args.is_plain(masks) and masks[key] or nil)
      end
      inputs = copy
    else
      inputs = masked(inputs, args.is_plain(masks) and masks[1] or masks)
    end
  end
  if args.is_plain(inputs) and #inputs == 0 and next(inputs) ~= nil then
    if args.is_plain(g.input_structure) and #g.input_structure == 0 then
      values = by_key(self, g.input_structure, inputs, {})
    else
      values = by_name(self, inputs)
    end
  else
    values = nest.flatten(inputs)
  end
  if #values ~= #g.inputs then
    local hint = #values == 1
      and "; several are one list, {a, b} (the second value of a dataset is the labels)" or ""
    blame.error(string.format("model '%s' has %s, but got %s%s", self.name,
      counted(#g.inputs, "input"), counted(#values, "tensor"), hint), "value")
  end
  for i, x in ipairs(values) do values[i] = fit_input(self, x, g.inputs[i]) end
  return values
end

-- Called by a layer's __call with all options; a script that calls it by hand need not give any.
function Model:call(inputs, options)
  if not self._graph then
    blame.error(string.format("model '%s': its class %s defines no call(inputs)", self.name,
      class.of(self).__name),
      "not_implemented")
  end
  if options ~= nil and not args.is_plain(options) then
    blame.error(string.format("model '%s' is called with a tensor or a table of tensors, then "
      .. "options, as in model(x, {training = true}); got "
      .. "%s after them", self.name, args.describe(options)), "type")
  end
  local outputs, values = functional.run(self._graph, graph_inputs(self, inputs, options),
    options or {})
  for _, each in ipairs(self._watched or {}) do
    local value = values[each.tensor]
    if each.metric then self:add_metric(value, {name = each.metric}) else self:add_loss(value) end
  end
  return outputs
end

---A tensor that is computed beside the outputs; its value is a loss, or a metric of a name, in each
---call.
---@package
function Model:watch(who, tensor, metric)
  if not self._graph then return Layer.watch(self, who, tensor, metric) end
  local list, tensors = table.move(self._watched or {}, 1, #(self._watched or {}), 1, {}), {}
  list[#list + 1] = {tensor = tensor, metric = metric}
  for i, each in ipairs(list) do tensors[i] = each.tensor end
  keep(self, "_graph", functional.between(self._graph.input_structure,
    self._graph.output_structure, tensors))
  keep(self, "_watched", list)
  self:discard_programs()
end

Model.autocast, Model.call_options = false, {}

-- The mask of a model's result is from the layer that made it, whose call has recorded it.

---The mask of the outputs of a functional model; nil of others, whose call alone knows it.
---Shapes: inputs [batch, ...], mask [batch, steps]
---Errors: as of a call: `keras.Sequential{keras.layers.Dense(1, {input_shape =
---{3}})}:compute_mask(1)`
---@param inputs any tensor or table of tensors
---@param mask any tensor, or nil
function Model:compute_mask(inputs, mask)
  if not self._graph or context.depth > 0 then return nil end
  local outputs = self(inputs, {mask = mask})
  if not args.is_plain(outputs) then return context.mask(outputs) end
  return nest.map(context.mask, outputs)
end

Model.masks_by_call = true

---Makes the weights of a model, given the shape of its input with the batch (-1: unknown).
---Shapes: input_shape with the batch, [batch, ...]; of several inputs a list of those
---Errors: a shape that a layer can't take, an extent that must be known and is not:
---`keras.Sequential{keras.layers.Conv2D(4, 3)}:build{4, 7}`
---@param input_shape any a shape, or a table of shapes
function Model:build(input_shape)
  if self._graph or context.depth > 0 or context.inferring then return end
  local function specs(shape)
    if math.type(shape[1]) == "integer" then return KerasTensor(shape, "float32") end
    local out = {}
    for _, key in ipairs(nest.keys(shape)) do out[key] = specs(shape[key]) end
    return out
  end
  shapes.check_given("build", input_shape)
  self:build_with(specs(input_shape))
end

-- The shape with which a subclassed model was built is kept, since its config doesn't have it.
-- After loading, it is built with that shape.
local function keep_input_specs(self, inputs)
  keep(self, "_input_specs", nest.map(function(leaf)
    local is_known = core.is_tensor(leaf) or core.is_variable(leaf) or KerasTensor.is(leaf)
    return is_known and {shape = table.move(leaf.shape, 1, #leaf.shape, 1, {}), dtype = leaf.dtype}
      or nil
  end, inputs))
end

-- The layers of a subclass are built when its `call` reaches them, unless it has a `build` of its
-- own.
function Model:ensure_built(inputs)
  if self.built then return end
  keep_input_specs(self, inputs)
  if self._graph or self.build == Model.build then rawset(self, "built", true)
  else Layer.ensure_built(self, inputs) end
end

---Makes the weights, given KerasTensors like the inputs.
---@package
function Model:build_with(inputs)
  if self._graph then return end
  keep_input_specs(self, inputs)
  if self.build ~= Model.build and not self._building then Layer.ensure_built(self, inputs) end
  rawset(self, "built", true)
  if self.call == Model.call then return end -- its steps call the functions that it holds
  local types
  local calls = stages.record(function()
    types = infer.results(function(...) return self(...) end, {n = 1, inputs}, KerasTensor.is)
  end)
  rawset(self, "output_types", types[1])
  keep(self, "_calls", calls)
end

-- ------------------------------------------------ weights in files

---The values of the weights.
---Shapes: as the weights have them
---Errors: a model that is not built, whose weights are still to be made:
---`keras.Sequential{keras.layers.Dense(1)}:get_weights()`
---@return userdata[] tensors
function Model:get_weights()
  if not self.built then
    blame.error(string.format("get_weights: model '%s' is not built yet, so its weights are still "
      .. "to be made; call model:build(shape) or "
      .. "the model itself, or give the first layer an input_shape", self.name), "value")
  end
  return Layer.get_weights(self)
end

---Sets the states that stateful layers keep between batches to zero, in nested models, too.
function Model:reset_states()
  self:walk(function(layer)
    if layer.stateful then layer:reset_states() end
  end)
end

return model
