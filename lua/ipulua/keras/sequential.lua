-- Sequential: layers one after another. Built when the input's shape is known: from the first layer's
-- input_shape, an Input, build(shape), or the first batch.

local args = require "ipulua.args"
local blame = require "ipulua.blame"
local class = require "ipulua.class"
local core = require "ipulua.core"
local context = require "ipulua.keras.context"
local graph = require "ipulua.keras.graph"
local input = require "ipulua.keras.input"
local KerasTensor = require "ipulua.keras.tensor"
local Layer = require "ipulua.keras.layer"
local Model = require "ipulua.keras.model".Model
local nest = require "ipulua.keras.nest"
local shapes = require "ipulua.keras.shapes"

local sequential = {}

---One layer after another: `keras.Sequential{layer, layer, …}`; add(layer) and pop() change the list.
---@class Sequential: Model
local Sequential = Model:extend("Sequential")
sequential.Sequential = Sequential
Sequential.properties = setmetatable({}, {__index = Model.properties})

local rows <const> = {
  {"layers", "list", {}, list = true}, {"name", "string", optional = true}, {"trainable", "boolean", true},
  {"dtype", "string", optional = true},
}

function Sequential:init(...)
  local given = args.check(class.of(self).__name, rows, ...)
  self:init_base(given)
  rawset(self, "_stack", {})
  for _, layer in ipairs(given.layers) do self:add(layer) end
  if given.trainable == false then self.trainable = false end
end

function Sequential:sublayers() return self._stack end

-- Forgets the graph; the layers keep their weights.
local function reset(self)
  rawset(self, "_graph", nil)
  rawset(self, "built", false)
  self:discard_programs()
  self._options.assignment = nil
end

-- The shape with which a first layer says that it begins, and its dtype.
local function first_input(self)
  if self._input_tensor then return self._input_tensor end
  local first = self._stack[1]
  local shape = first and rawget(first, "batch_input_shape")
  if class.is_a(first, Model) and first._graph and #first._graph.inputs == 1 then
    local t = first._graph.inputs[1]
    return KerasTensor(t.shape, t.dtype)
  end
  return shape and KerasTensor(shape, rawget(first, "input_dtype") or first.input_dtype or first.dtype)
end

local function build_graph(self, spec)
  local from = spec.layer and spec
    or input.Input{batch_shape = spec.shape, dtype = spec.dtype, name = self._stack[1] and self._stack[1].name .. "_input" or nil}
  local x = from
  for _, layer in ipairs(self._stack) do
    x = layer(x)
    if not KerasTensor.is(x) then
      blame.error(string.format("Sequential: layer '%s' must give one tensor", layer.name), "value")
    end
  end
  self:init_graph(graph.between(from, x))
end

---Appends a layer.
---Errors: what is no layer, a layer that can't take what the last one gives: `model:add(1)`
---@param layer Layer
function Sequential:add(layer)
  if KerasTensor.is(layer) then
    if #self._stack > 0 then blame.error("Sequential.add: an Input stands first", "value") end
    rawset(self, "_input_tensor", layer)
    return
  end
  if class.is_class(layer) then layer = layer() end
  if not class.is_a(layer, Layer) then
    blame.error("Sequential.add: a layer is wanted, got " .. args.describe(layer), "type")
  end
  if layer.__name == "InputLayer" then
    rawset(self, "_input_tensor", layer.nodes[1] and layer.nodes[1].outputs
      or input.Input{batch_shape = layer.batch_input_shape, dtype = layer.dtype, name = layer.name})
    return
  end
  for _, other in ipairs(self._stack) do
    if other.name == layer.name then
      blame.error(string.format("Sequential: the names of layers must differ; there is a '%s' already", layer.name), "value")
    end
  end
  reset(self)
  self._stack[#self._stack + 1] = layer
  local spec = first_input(self)
  if spec then build_graph(self, spec) end
end

---Takes the last layer away.
---Errors: a model without layers
function Sequential:pop()
  if #self._stack == 0 then blame.error("Sequential.pop: there are no layers in the model", "type") end
  self._stack[#self._stack] = nil
  reset(self)
  local spec = first_input(self)
  if spec and #self._stack > 0 then build_graph(self, spec) end
end

---@param input_shape integer[]
function Sequential:build(input_shape)
  if self._graph then return end
  shapes.check_given("Sequential.build", input_shape)
  if nest.is_structure(input_shape[1]) then
    blame.error("Sequential.build: a Sequential model has one input", "value")
  end
  self:build_with(KerasTensor(input_shape, self._stack[1] and self._stack[1].input_dtype or "float32"))
end

function Sequential:build_with(spec)
  if self._graph then return end
  if nest.is_structure(spec) then spec = nest.first(spec) end
  if #self._stack == 0 then blame.error("Sequential: there are no layers in the model", "value") end
  local shape = table.move(spec.shape, 1, #spec.shape, 1, {})
  if #shape > 0 and not spec.layer then shape[1] = -1 end
  build_graph(self, KerasTensor(shape, spec.dtype))
end

function Sequential:ensure_built(inputs)
  if self._graph then return end
  local leaf = nest.first(inputs)
  if not args.is_tensor(leaf) then
    blame.error(string.format("model '%s' is called with a tensor, got %s", self.name, args.describe(leaf)), "type")
  end
  local path = context.path
  context.path = {}
  local ok, problem = pcall(function()
    require "ipulua.tracing".outside(function()
      self:build_with(KerasTensor(table.move(leaf.shape, 1, #leaf.shape, 1, {}), leaf.dtype))
    end)
  end)
  context.path = path
  if not ok then error(problem, 0) end
end

function Sequential:get_config()
  local parts = require "ipulua.keras.parts"
  local _ <close> = parts.describing(self)
  local config = core.plain{name = self.name, layers = {}}
  for i, layer in ipairs(self._stack) do config.layers[i] = parts.serialize("layer", layer) end
  if self._graph then
    local t = self._graph.inputs[1]
    config.build_input_shape, config.build_input_dtype = t.shape, t.dtype
  end
  return config
end

function Sequential.from_config(c, config, custom_objects)
  local parts = require "ipulua.keras.parts"
  parts.want_config(c, config)
  local _ <close> = parts.making()
  local layers = {}
  for i, each in ipairs(config.layers or {}) do layers[i] = parts.get("layer", each, {custom_objects = custom_objects}) end
  local model = c{layers = layers, name = config.name}
  if config.build_input_shape and not model._graph then
    model:build_with(KerasTensor(config.build_input_shape, config.build_input_dtype or "float32"))
  end
  return model
end

class.guard(Sequential)

return sequential
