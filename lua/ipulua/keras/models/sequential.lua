-- Sequential: layers one after another. Built when the input's shape is known: from the first
-- layer's input_shape, an Input, build(shape), or the first batch.

local args = require "ipulua.base.args"
local blame = require "ipulua.base.blame"
local class = require "ipulua.base.class"
local context = require "ipulua.keras.base.context"
local core = require "ipulua.core"
local functional = require "ipulua.keras.models.functional"
local input = require "ipulua.keras.models.input"
local KerasTensor = require "ipulua.keras.base.tensor"
local Layer = require "ipulua.keras.base.layer"
local layer_fields = require "ipulua.keras.base.layer_fields"
local Model = require "ipulua.keras.models.model".Model
local nest = require "ipulua.base.nest"
local shapes = require "ipulua.keras.base.shapes"
local texts = require "ipulua.keras.base.texts"

local keep <const> = layer_fields.keep
local kept <const> = layer_fields.get

local sequential = {}

---One layer after another: `keras.Sequential{layer, layer, …}`; add(layer) and pop() change the
---list.
---@class Sequential: Model
local Sequential = Model:extend("Sequential")
sequential.Sequential = Sequential
Sequential.properties = setmetatable({}, {__index = Model.properties})

local rows <const> = {
  {"layers", "list", {}, list = true}, {"name", "string", optional = true},
  {"trainable", "boolean", true},
  {"dtype", "string", optional = true},
}

function Sequential:init(...)
  local first = ...
  if class.is_a(first, Layer) then
    blame.error(string.format("%s: the layers stand in one list, as in %s{%s}",
      class.of(self).__name, class.of(self).__name,
      select(2, ...) ~= nil and "a, b" or "a"), "type")
  end
  local given = args.check(class.of(self).__name, rows, ...)
  self:init_base(given)
  keep(self, "_stack", {})
  for _, layer in ipairs(given.layers) do self:add(layer) end
  if given.trainable == false then self.trainable = false end
end

function Sequential:sublayers() return layer_fields.join(self._stack, Layer.sublayers(self)) end

-- Drops the programs and the stage assignment of the former list of layers.
local function discard(self)
  self:discard_programs()
  self._options.assignment = nil
end

-- The shape with which a first layer says that it begins, and its dtype.
local function first_input(self)
  if self._input_tensor then return self._input_tensor end
  local first = self._stack[1]
  local shape = first and kept(first, "batch_input_shape")
  if class.is_a(first, Model) and first._graph and #first._graph.inputs == 1 then
    local t = first._graph.inputs[1]
    return KerasTensor(t.shape, t.dtype)
  end
  return shape and KerasTensor(shape, rawget(first, "input_dtype") or first.input_dtype
    or first.dtype)
end

-- The result of a layer for the result of the layer before it.
local function connect(layer, x)
  local y = layer(x)
  if not KerasTensor.is(y) then
    blame.error(string.format("Sequential: layer '%s' must give one tensor", layer.name), "value")
  end
  return y
end

-- The graph between a first and a last tensor, with the losses and metrics that add_loss and
-- add_metric added for it.
local function between(self, from, to)
  local more = {}
  for i, each in ipairs(self._watched or {}) do more[i] = each.tensor end
  self:init_graph(functional.between(from, to, more))
end

local function build_graph(self, spec)
  local from = spec.layer and spec
    or input.Input{batch_shape = spec.shape, dtype = spec.dtype,
      name = self._stack[1] and self._stack[1].name .. "_input" or nil}
  local x = from
  for _, layer in ipairs(self._stack) do x = connect(layer, x) end
  between(self, from, x)
end

-- The graph with one more layer.
local function extend_graph(self, layer)
  local g = self._graph
  local y = connect(layer, g.outputs[1])
  table.insert(g.nodes, y.node)
  table.insert(g.layers, layer)
  g.outputs, g.output_structure = {y}, y
end

-- The calls of a former graph's layers are forgotten, so that a layer's output is the new graph's.
local function forget_calls(g)
  for _, node in ipairs(g.nodes) do
    local calls = kept(node.layer, "nodes")
    for i = #calls, 1, -1 do
      if calls[i] == node then table.remove(calls, i) end
    end
  end
end

---Appends a layer.
---Errors: an argument that is no layer, a layer that can't take the last one's output:
---`model:add(1)`
---@param layer Layer
function Sequential:add(layer)
  if KerasTensor.is(layer) then
    if #self._stack > 0 then blame.error("Sequential.add: an Input stands first", "value") end
    keep(self, "_input_tensor", layer)
    return
  end
  if class.is_class(layer) then layer = layer() end
  if not class.is_a(layer, Layer) then
    blame.error("Sequential.add: expected a layer, got " .. args.describe(layer)
      .. texts.hint(layer), "type")
  end
  if layer.__name == "InputLayer" then
    keep(self, "_input_tensor", kept(layer, "nodes")[1] and kept(layer, "nodes")[1].outputs
      or input.Input{batch_shape = kept(layer, "batch_input_shape"), dtype = layer.dtype,
        name = layer.name})
    return
  end
  for _, other in ipairs(self._stack) do
    if other.name == layer.name then
      blame.error(string.format("Sequential: the names of layers must differ; there is a '%s' "
        .. "already", layer.name), "value")
    end
  end
  discard(self)
  local stack = self._stack
  stack[#stack + 1] = layer
  local spec = not self._graph and first_input(self)
  local ok, problem = true, nil
  if self._graph then ok, problem = blame.pcall(extend_graph, self, layer)
  elseif spec then ok, problem = blame.pcall(build_graph, self, spec) end
  if ok then return end
  stack[#stack] = nil
  error(problem, 0)
end

---Takes the last layer away.
---Errors: a model without layers
function Sequential:pop()
  if #self._stack == 0 then
    blame.error("Sequential.pop: there are no layers in the model", "type")
  end
  discard(self)
  self._stack[#self._stack] = nil
  local g = self._graph
  if not g then return end
  if #self._stack > 0 then
    local calls = kept(self._stack[#self._stack], "nodes")
    between(self, g.input_structure, calls[#calls].outputs)
  else
    keep(self, "_graph", nil)
    rawset(self, "built", false)
  end
end

---@param input_shape integer[]
function Sequential:build(input_shape)
  if self._graph then return end
  shapes.check_given("Sequential.build", input_shape)
  if nest.is_structure(input_shape[1]) then
    blame.error("Sequential.build: a Sequential model has one input", "value")
  end
  self:build_with(KerasTensor(input_shape, self._stack[1] and self._stack[1].input_dtype
    or "float32"))
end

function Sequential:build_with(spec)
  if self._graph then return end
  if nest.is_structure(spec) then spec = nest.first(spec) end
  if #self._stack == 0 then blame.error("Sequential: there are no layers in the model", "value") end
  local shape = table.move(spec.shape, 1, #spec.shape, 1, {})
  if #shape > 0 and not spec.layer then shape[1] = -1 end
  build_graph(self, KerasTensor(shape, spec.dtype))
  keep(self, "_is_inferred", true)
end

-- The extents that two shapes have in common, -1 elsewhere; nil where nothing is to be changed, or
-- the ranks differ.
local function relaxed(known, given)
  if #known ~= #given then return nil end
  local shape, differs = {}, false
  for i, extent in ipairs(known) do
    local fits = extent < 0 or extent == given[i]
    shape[i] = fits and extent or -1
    differs = differs or not fits
  end
  return differs and shape or nil
end

-- A shape that was taken from data is no more than an example: it gives way to another one, if the
-- layers take that.
local function relax(self, leaf)
  local former = self._graph
  local shape = self._is_inferred and relaxed(former.inputs[1].shape, leaf.shape)
  if not shape then return end
  local from = input.Input{batch_shape = shape, dtype = former.inputs[1].dtype,
    name = former.inputs[1].layer.name}
  local ok = blame.attempt(function()
    local x = from
    for _, layer in ipairs(self._stack) do x = connect(layer, x) end
    forget_calls(former)
    between(self, from, x)
  end)
  -- a call will raise the error of a shape that doesn't fit
  if not ok then keep(self, "_graph", former) end
end

function Sequential:ensure_built(inputs)
  local leaf = nest.first(inputs)
  if not args.is_tensor(leaf) then
    if self._graph then return end
    blame.error(string.format("model '%s' is called with a tensor, got %s", self.name,
      args.describe(leaf)), "type")
  end
  if self._graph
    and not (self._is_inferred and relaxed(self._graph.inputs[1].shape, leaf.shape)) then
    return
  end
  local path = context.path
  context.path = {}
  local ok, problem = pcall(function()
    require "ipulua.trace.tracing".outside(function()
      if self._graph then relax(self, leaf)
      else
        self:build_with(KerasTensor(table.move(leaf.shape, 1, #leaf.shape, 1, {}), leaf.dtype))
      end
    end)
  end)
  context.path = path
  if not ok then error(problem, 0) end
end

function Sequential:get_config()
  local parts = require "ipulua.base.parts"
  local _ <close> = parts.describing(self)
  local config = core.plain{name = self.name, trainable = self._trainable, layers = {}}
  if self._watched then
    blame.error(string.format("model '%s': a Sequential with a tensor in add_loss or add_metric "
      .. "can't be described; make it with keras.Model",
      self.name), "not_implemented")
  end
  for i, layer in ipairs(self._stack) do
    config.layers[i] = parts.serialize("layer", layer)
    config.layers[i].stage = kept(layer, "stage")
  end
  if self._graph then
    local t = self._graph.inputs[1]
    config.build_input_shape, config.build_input_dtype, config.is_inferred = t.shape, t.dtype,
      self._is_inferred
  end
  return config
end

function Sequential.from_config(c, config, custom_objects)
  local parts = require "ipulua.base.parts"
  parts.want_config(c, config)
  local _ <close> = parts.making()
  local layers = {}
  for i, each in ipairs(config.layers or {}) do
    layers[i] = parts.get("layer", each, {custom_objects = custom_objects})
    if each.stage then keep(layers[i], "stage", each.stage) end
  end
  local model = c{layers = layers, name = config.name}
  local shape = config.build_input_shape
  if shape and not model._graph and #layers > 0 then
    -- an Input's batch size is fixed; one that was seen in data is not
    build_graph(model, KerasTensor(shape, config.build_input_dtype or "float32"))
    keep(model, "_is_inferred", config.is_inferred)
  end
  keep(model, "_trainable", config.trainable ~= false)
  return model
end

class.guard(Sequential)

return sequential
