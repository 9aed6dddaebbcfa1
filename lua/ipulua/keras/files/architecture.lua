-- A model's architecture as a table and as JSON: its layers' configs, and the calls that connect
-- them.

local args = require "ipulua.base.args"
local blame = require "ipulua.base.blame"
local class = require "ipulua.base.class"
local core = require "ipulua.core"
local input = require "ipulua.keras.models.input"
local json = require "ipulua.base.json"
local KerasTensor = require "ipulua.keras.base.tensor"
local layer_fields = require "ipulua.keras.base.layer_fields"
local nest = require "ipulua.base.nest"
local own_names = require "ipulua.base.parts.custom_objects"
local parts = require "ipulua.base.parts"

local kept <const> = layer_fields.get

local architecture, methods = {}, {}
architecture.methods = methods

-- KerasTensors in the arguments of calls, as {tensor = {node, which result}}.
local function encode(value, position)
  return nest.map(function(leaf)
    if KerasTensor.is(leaf) then
      return {tensor = json.array{position[leaf.node], leaf.tensor_index}}
    end
    return leaf
  end, value)
end

local function decode(value, nodes)
  if not args.is_plain(value) then return value end
  if value.tensor and #value.tensor == 2 then
    return nodes[value.tensor[1]].results[value.tensor[2]]
  end
  local out = {}
  for key, each in pairs(value) do out[key] = decode(each, nodes) end
  return out
end

local function graph_config(model)
  local _ <close> = parts.describing(model)
  local g = model._graph
  local position, nodes, layers = {}, {}, {}
  local inputs_first = {}
  for _, t in ipairs(g.inputs) do inputs_first[#inputs_first + 1] = t.node end
  local order = {}
  for _, node in ipairs(inputs_first) do
    if not position[node] then
      order[#order + 1] = node
      position[node] = #order
    end
  end
  for _, node in ipairs(g.nodes) do
    if not position[node] then
      order[#order + 1] = node
      position[node] = #order
    end
  end
  for i, node in ipairs(order) do
    local given = {}
    for k = 1, node.given.n do given[k] = encode(node.given[k], position) end
    local options = encode(node.options, position)
    nodes[i] = {layer = node.layer.name, args = json.array(given),
      options = next(options) and options or nil, stage = node.stage,
      is_input = i <= #inputs_first or nil}
  end
  for i, layer in ipairs(g.layers) do
    layers[i] = parts.serialize("layer", layer)
    layers[i].name = layer.name
  end
  local watched = {}
  for i, each in ipairs(model._watched or {}) do
    watched[i] = {value = encode(each.tensor, position), metric = each.metric}
  end
  return core.plain{name = model.name, trainable = model._trainable, layers = layers, nodes = nodes,
    inputs = encode(g.input_structure, position), outputs = encode(g.output_structure, position),
    watched = watched[1] and watched}
end

local function graph_from_config(c, config, custom_objects)
  local _ <close> = parts.making()
  local by_name, nodes = {}, {}
  for _, each in ipairs(config.layers) do
    -- a config of the user's own may lack the name; older files have it there alone
    local name = each.name or each.config.name
    if each.class_name == "InputLayer" then
      by_name[name] = each.config
    else
      by_name[name] = parts.get("layer", each, {custom_objects = custom_objects})
    end
  end
  for i, node in ipairs(config.nodes) do
    local layer = by_name[node.layer]
    if not class.of(layer) then
      local t = input.Input{batch_shape = layer.batch_input_shape, dtype = layer.dtype,
        name = layer.name}
      nodes[i] = t.node
    else
      local given = {}
      for k, value in ipairs(node.args) do given[k] = decode(value, nodes) end
      local count = #node.args
      if node.options then
        count = count + 1
        given[count] = decode(node.options, nodes)
      -- a last table must not be taken for options
      elseif args.is_plain(given[count]) and count > 1 then
        count = count + 1
        given[count] = {}
      end
      layer(table.unpack(given, 1, count))
      local calls = kept(layer, "nodes")
      nodes[i] = calls[#calls]
      nodes[i].stage = node.stage
    end
  end
  local model = c{inputs = decode(config.inputs, nodes), outputs = decode(config.outputs, nodes),
    name = config.name}
  layer_fields.keep(model, "_trainable", config.trainable ~= false)
  for _, each in ipairs(config.watched or {}) do
    model:watch(each.metric and "add_metric" or "add_loss", decode(each.value, nodes), each.metric)
  end
  return model
end

function methods:get_config()
  if not self._graph then
    blame.error(string.format("model '%s': its class %s defines no get_config()", self.name,
      class.of(self).__name),
      "not_implemented")
  end
  return graph_config(self)
end

function methods.from_config(c, config, custom_objects)
  parts.want_config(c, config)
  if config.layers then
    return graph_from_config(c, config, custom_objects)
  end
  return parts.made_of(c, config)
end

-- A description as JSON; infinities in it are written, too.
---@param who string
---@return string
function architecture.as_text(who, value)
  local text, problem = json.text(json.pack(value))
  if not text then
    blame.error(string.format("%s: the model can't be written as JSON: %s", who, problem), "value")
  end
  return text
end

---The architecture as JSON.
---@return string
function methods:to_json()
  local spec, problem = parts.written(parts.serialize("layer", self))
  if not spec then
    blame.error(string.format("model '%s': %s", self.name, problem), "not_implemented")
  end
  spec.keras_version, spec.backend = "2.6.0", "ipulua"
  return architecture.as_text("to_json", spec)
end

---The model that to_json described, with new weights.
---Errors: a text that is not JSON or describes no model, an unknown class:
---`keras.models.model_from_json "{}"`
---@param text string
---@param options {custom_objects: table?}?
---@return Model
function architecture.model_from_json(text, options)
  local spec, problem = json.parse(text)
  if problem then
    blame.error("model_from_json: " .. problem, type(text) == "string" and "value" or "type")
  end
  local objects = own_names.given(options)
  local _ <close> = own_names.enter(args.is_plain(objects) and objects or nil)
  return blame.reading("model_from_json: the model's description", architecture.model_from_config,
    parts.unwritten(json.unpack(spec)), objects)
end

---@param spec table {class_name =, config =}
---@param custom_objects table?
---@return Model
function architecture.model_from_config(spec, custom_objects)
  if type(spec) ~= "table" or type(spec.class_name) ~= "string" then
    blame.error("a model's description must hold class_name and config", "value")
  end
  return parts.get("layer", spec, {custom_objects = custom_objects})
end

return architecture
