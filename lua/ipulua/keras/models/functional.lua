-- The graph of a functional model: calls of layers (nodes) that turn KerasTensors into
-- KerasTensors, the order in which they run, and running them.

local args = require "ipulua.base.args"
local blame = require "ipulua.base.blame"
local infer = require "ipulua.keras.base.infer"
local KerasTensor = require "ipulua.keras.base.tensor"
local nest = require "ipulua.base.nest"
local stages = require "ipulua.keras.models.stage_scope"

local kept <const> = require "ipulua.keras.base.layer_fields".get

local functional = {}

---@class LayerCall
---@field layer Layer
---@field index integer of the call among the layer's, from 0
---@field given table packed positional arguments
---@field options table
---@field results KerasTensor[] flat
---@field outputs any the results' structure
---@field inputs any the first argument
---@field stage integer? pipeline stage of the scope of the call

local Node = {__name = "LayerCall"}

function Node:__tostring()
  return string.format("<call %d of layer '%s'>", self.index, self.layer.name)
end

-- Makes the KerasTensors of a call from the types of its results.
local function make_results(node, types)
  local results = {}
  local packed = {n = types.n}
  for i = 1, types.n do
    packed[i] = nest.map(function(type)
      if getmetatable(type) ~= infer.Type then
        blame.error(string.format("layer '%s': its call must give tensors, got %s", node.layer.name,
          args.describe(type)), "type")
      end
      local t = KerasTensor(type.shape, type.dtype, node.layer.name)
      results[#results + 1] = t
      t.layer, t.node, t.tensor_index = node.layer, node, #results
      t.mask_type = type.mask_type
      return t
    end, types[i])
  end
  node.results = results
  node.packed = packed
  if packed.n == 1 then
    node.outputs = packed[1]
  else
    node.outputs = table.move(packed, 1, packed.n, 1, {})
  end
end

---Calls a layer with KerasTensors: builds it, finds its results' types, notes the call.
---@param layer Layer
---@param given table packed positional arguments
---@param options table
---@return any ...
function functional.apply(layer, given, options)
  layer:ensure_built(given[1])
  local arguments = table.move(given, 1, given.n, 1, {n = given.n + 1})
  arguments[given.n + 1] = options
  local types = infer.results(function(...) return layer(...) end, arguments, KerasTensor.is)
  local node = setmetatable({
    layer = layer, index = #kept(layer, "nodes"), given = given, options = options,
    inputs = given[1],
    stage = stages.current() or kept(layer, "stage"),
  }, Node)
  make_results(node, types)
  table.insert(kept(layer, "nodes"), node)
  return table.unpack(node.packed, 1, node.packed.n)
end

---A node without inputs, as an InputLayer has.
---@param layer Layer
---@param shape integer[]
---@param dtype string
---@return KerasTensor
function functional.input(layer, shape, dtype)
  local node = setmetatable({layer = layer, index = #kept(layer, "nodes"), given = {n = 0},
    options = {}, inputs = {}}, Node)
  local type = setmetatable({shape = shape, dtype = dtype}, infer.Type)
  make_results(node, {n = 1, type})
  table.insert(kept(layer, "nodes"), node)
  node.inputs = node.outputs
  return node.outputs
end

---The KerasTensors that a call takes, in order.
---@param node LayerCall
---@return KerasTensor[]
function functional.operands(node)
  local list = {}
  local function add(value)
    for _, leaf in ipairs(nest.flatten(value)) do
      if KerasTensor.is(leaf) then list[#list + 1] = leaf end
    end
  end
  for i = 1, node.given.n do add(node.given[i]) end
  add(node.options)
  return list
end

-- Calls needed for the outputs, each after those it depends on; and layers in the order in which
-- the walk from the outputs reaches them.
local function order_nodes(inputs, outputs)
  local is_input, done, open = {}, {}, {}
  for _, t in ipairs(inputs) do is_input[t] = true end
  local nodes, rank, count = {}, {}, 0
  local function visit(t)
    local node = t.node
    if not node then
      blame.error("Model: its outputs must be KerasTensors, results of layers that were called "
        .. "with keras.Input", "type")
    end
    if done[node] then return end
    if open[node] then blame.error("Model: the graph of its layers has a cycle", "value") end
    if not rank[node.layer] then
      rank[node.layer] = count
      count = count + 1
    end
    open[node] = true
    if not is_input[t] then
      local operands = functional.operands(node)
      if #operands == 0 then
        blame.error(string.format("Model: the graph is not connected: '%s' (layer '%s') can't be "
          .. "computed from the inputs "
          .. "that were given", tostring(t.name), node.layer.name), "value")
      end
      for _, operand in ipairs(operands) do visit(operand) end
    end
    done[node], open[node] = true, nil
    nodes[#nodes + 1] = node
  end
  for _, t in ipairs(outputs) do visit(t) end
  return nodes, rank
end

-- The order of model.layers: by distance from the outputs, farthest first; then as the walk reached
-- them.
local function order_layers(inputs, nodes, rank)
  local node_depth, layer_depth, layers = {}, {}, {}
  local is_input = {}
  for _, t in ipairs(inputs) do is_input[t] = true end
  for i = #nodes, 1, -1 do
    local node = nodes[i]
    local depth = math.max(node_depth[node] or 0, layer_depth[node.layer] or 0)
    node_depth[node] = depth
    if not layer_depth[node.layer] then layers[#layers + 1] = node.layer end
    layer_depth[node.layer] = depth
    local stops = #node.results == 1 and is_input[node.results[1]]
    for _, operand in ipairs(stops and {} or functional.operands(node)) do
      node_depth[operand.node] = math.max(node_depth[operand.node] or 0, depth + 1)
    end
  end
  for _, t in ipairs(inputs) do
    if not layer_depth[t.layer] then
      layer_depth[t.layer], rank[t.layer] = 0, -1
      layers[#layers + 1] = t.layer
    end
  end
  table.sort(layers, function(a, b)
    if layer_depth[a] ~= layer_depth[b] then return layer_depth[a] > layer_depth[b] end
    return rank[a] < rank[b]
  end)
  return layers
end

local function check_names(layers)
  local seen = {}
  for _, layer in ipairs(layers) do
    if seen[layer.name] and seen[layer.name] ~= layer then
      blame.error(string.format("Model: two layers have the name '%s'; the names of a model's "
        .. "layers must differ", layer.name),
        "value")
    end
    seen[layer.name] = layer
  end
end

-- As in Keras, a list of one tensor is that tensor: what is called, predicted and shown is no list.
local function without_list_of_one(tensors)
  local is_one = not KerasTensor.is(tensors) and type(tensors) == "table" and #tensors == 1
    and next(tensors, 1) == nil and next(tensors) == 1
  return is_one and tensors[1] or tensors
end

---The graph between inputs and outputs: {nodes =, layers =, inputs =, outputs =}.
---@param inputs any structure of KerasTensors
---@param outputs any
---@param more KerasTensor[]? that are computed beside the outputs
---@return table
function functional.between(inputs, outputs, more)
  inputs, outputs = without_list_of_one(inputs), without_list_of_one(outputs)
  local flat_inputs, flat_outputs = nest.flatten(inputs), nest.flatten(outputs)
  for _, t in ipairs(flat_inputs) do
    if not KerasTensor.is(t) then
      blame.error("Model: its inputs must come from keras.Input", "type")
    end
  end
  for _, t in ipairs(flat_outputs) do
    if not KerasTensor.is(t) then
      blame.error("Model: its outputs must be KerasTensors, results of layers that were called "
        .. "with keras.Input", "type")
    end
  end
  if #flat_outputs == 0 then blame.error("Model: there are no outputs", "value") end
  local wanted = table.move(flat_outputs, 1, #flat_outputs, 1, {})
  local nodes, rank = order_nodes(flat_inputs,
    table.move(more or {}, 1, #(more or {}), #wanted + 1, wanted))
  local layers = order_layers(flat_inputs, nodes, rank)
  check_names(layers)
  return {nodes = nodes, layers = layers, inputs = flat_inputs, outputs = flat_outputs,
    input_structure = inputs,
    output_structure = outputs}
end

---Runs a graph on tensors.
---@param g table
---@param values any structure like the graph's inputs
---@param options {training: boolean?, mask: any}
---@return any outputs, table<KerasTensor, any> values of all tensors
function functional.run(g, values, options)
  local known = {}
  local flat = nest.flatten(values)
  for i, t in ipairs(g.inputs) do known[t] = flat[i] end
  local function value_of(leaf)
    if KerasTensor.is(leaf) then return known[leaf] end
    return leaf
  end
  for _, node in ipairs(g.nodes) do
    if known[node.results[1]] == nil then
      stages.enter_call(node)
      local given = {}
      for i = 1, node.given.n do given[i] = nest.map(value_of, node.given[i]) end
      local passed = nest.map(value_of, node.options)
      if passed.training == nil then passed.training = options.training end
      given[node.given.n + 1] = passed
      local results = table.pack(node.layer(table.unpack(given, 1, node.given.n + 1)))
      local leaves = {}
      for i = 1, results.n do nest.flatten(results[i], leaves) end
      for i, t in ipairs(node.results) do known[t] = leaves[i] end
    end
  end
  return nest.map(value_of, g.output_structure), known
end

return functional
