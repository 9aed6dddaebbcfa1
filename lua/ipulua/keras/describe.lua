-- A model as the plain description that summary.lua draws: a row a layer.

local args = require "ipulua.args"
local class = require "ipulua.class"
local nest = require "ipulua.keras.nest"
local summary = require "ipulua.keras.summary"

local describe = {}

local function element_bytes(v)
  local sizes <const> = {float64 = 8, int64 = 8, float16 = 2, bfloat16 = 2, int8 = 1, uint8 = 1, bool = 1}
  return sizes[v.dtype] or 4
end

local function total(weights)
  local count, bytes = 0, 0
  for _, v in ipairs(weights) do
    count = count + v.size
    bytes = bytes + v.size * element_bytes(v)
  end
  return count, bytes
end

-- The shape of what the layer gave when it was last called symbolically; nil when nobody did.
local function output_shape(layer)
  local node = layer.nodes and layer.nodes[#layer.nodes]
  local results = node and node.results
  if not results then
    local types = rawget(layer, "output_types")
    return types and types.shape
  end
  if #results == 1 then return results[1].shape end
  local shapes = {}
  for i, t in ipairs(results) do shapes[i] = t.shape end
  return shapes
end

-- "flatten[0][0]" for each KerasTensor that the layer's calls take.
local function connections(layer)
  local list = {}
  for _, node in ipairs(layer.nodes or {}) do
    for _, t in ipairs(nest.flatten(node.given)) do
      if type(t) == "table" and t.node then
        list[#list + 1] = string.format("%s[%d][%d]", t.layer.name, t.node.index, (t.tensor_index or 1) - 1)
      end
    end
  end
  return list
end

---@param model Model
---@return table description for summary.lines
function describe.model(model)
  local functional = class.of(model).__name ~= "Sequential" and model._graph ~= nil
  local rows = {}
  for i, layer in ipairs(model.layers) do
    local weights = layer.weights
    rows[i] = {
      name = layer.name, class = class.of(layer).__name, output_shape = output_shape(layer), params = (total(weights)),
      built = layer.built or #weights > 0, connected_to = functional and connections(layer) or nil,
    }
  end
  local trainable, trainable_bytes = total(model.trainable_weights)
  local non_trainable, non_trainable_bytes = total(model.non_trainable_weights)
  local optimizer = model.optimizer
  local optimizer_count, optimizer_bytes = 0, 0
  if optimizer and optimizer.list_weights then optimizer_count, optimizer_bytes = total(optimizer:list_weights()) end
  return {
    name = model.name, functional = functional, rows = rows,
    totals = {trainable = trainable, trainable_bytes = trainable_bytes, non_trainable = non_trainable,
      non_trainable_bytes = non_trainable_bytes, optimizer = optimizer_count, optimizer_bytes = optimizer_bytes},
  }
end

local spec <const> = {
  {"line_length", "integer", optional = true}, {"positions", "list", optional = true}, {"print_fn", "callable", optional = true},
  {"style", "string", optional = true}, {"ipu", "boolean", false},
}

---Prints the table of layers.
function describe.summary(model, ...)
  local a = args.check("summary", spec, ...)
  local print_fn = a.print_fn or print
  a.print_fn = nil
  for _, line in ipairs(summary.lines(describe.model(model), a)) do print_fn(line) end
end

return describe
