-- keras.onnx.import: an ONNX file as a Keras model. Its graph is one layer, which runs the nodes (interpret.lua) when it
-- is called; its float tensors are the layer's weights, so the model can be trained on.

local args = require "ipulua.args"
local blame = require "ipulua.blame"
local core = require "ipulua.core"
local format = require "ipulua.keras.onnx.format"
local input = require "ipulua.keras.input"
local interpret = require "ipulua.keras.onnx.interpret"
local Layer = require "ipulua.keras.layer"
local shapes = require "ipulua.keras.shapes"

local keep <const> = require "ipulua.keras.layer_fields".keep

local OLDEST <const>, NEWEST <const> = 1, 17

-- ------------------------------------------------ the layer

---The graph of an ONNX file.
---@class OnnxGraph: Layer
local OnnxGraph = Layer.declare("OnnxGraph", {{"graph", "any"}})
OnnxGraph.autocast = false

function OnnxGraph:setup() keep(self, "_shapeless", true) end

-- Operands that are no weights, since they must be known; and weights that are not trained.
local known_operands <const> = {OneHot = {2, 3}, Clip = {2, 3}, Pad = {2, 3}, Range = {1, 2, 3}}
local still_operands <const> = {BatchNormalization = {4, 5}}

local function names_of(graph, operands)
  local names = {}
  for _, n in ipairs(graph.nodes) do
    for _, i in ipairs(operands[n.op] or {}) do names[n.inputs[i] or ""] = true end
  end
  return names
end

function OnnxGraph:build()
  local held, constants = {}, {}
  local known, still = names_of(self.graph, known_operands), names_of(self.graph, still_operands)
  local names = {}
  for name in pairs(self.graph.initializers) do names[#names + 1] = name end
  table.sort(names)
  for _, name in ipairs(names) do
    local t = self.graph.initializers[name]
    if t.dtype:find("float") and #t.shape > 0 and not known[name] then
      held[name] = self:add_weight{name = name, shape = t.shape, dtype = t.dtype, initializer = "zeros", trainable = not still[name]}
      held[name]:assign(t)
    else
      constants[name] = t
    end
  end
  rawset(self, "held", held)
  rawset(self, "constants", constants)
  rawset(self, "built", true)
end

local function operands(n, values)
  local x = {n = #n.inputs}
  for i, name in ipairs(n.inputs) do
    x[i] = values[name]
    if name ~= "" and x[i] == nil then
      blame.error(string.format("onnx.import: node '%s' (%s) takes '%s', which nothing gives", n.name, n.op, name), "value")
    end
  end
  return x
end

-- What the nodes compute may hold for the file's extents alone.
local function check_shape(input_of_file, t)
  local wanted = input_of_file.shape
  local same = #wanted == #t.shape
  for i, extent in ipairs(same and wanted or {}) do same = same and (extent < 0 or t.shape[i] < 0 or extent == t.shape[i]) end
  if same then return end
  blame.error(string.format("input '%s' has the shape %s in the ONNX file, got %s", input_of_file.name, shapes.text(wanted),
    shapes.text(t.shape)), "value")
end

function OnnxGraph:call(given)
  local graph, values = self.graph, {}
  for name, t in pairs(self.constants) do values[name] = t end
  for name, v in pairs(self.held) do values[name] = v:read_value() end
  local list = #graph.inputs == 1 and {given} or given
  for i, each in ipairs(graph.inputs) do
    check_shape(each, list[i])
    values[each.name] = list[i]
  end
  for _, n in ipairs(graph.nodes) do
    local results = table.pack(interpret[n.op](operands(n, values), n.attributes, n))
    for i, name in ipairs(n.outputs) do values[name] = results[i] end
  end
  local out = {}
  for i, each in ipairs(graph.outputs) do out[i] = values[each.name] end
  return #out == 1 and out[1] or out
end

function OnnxGraph:get_config()
  blame.error(string.format("layer '%s': a graph from an ONNX file is saved by onnx.export, its weights by save_weights", self.name),
    "not_implemented")
end

-- ------------------------------------------------ files

local function check(graph, what)
  if graph.opset < OLDEST or graph.opset > NEWEST then
    blame.error(string.format("%s: it is of opset %d; %d to %d are known here", what, graph.opset, OLDEST, NEWEST), "not_implemented")
  end
  local unknown, seen = {}, {}
  for _, n in ipairs(graph.nodes) do
    local name = n.domain ~= "" and n.domain ~= "ai.onnx" and n.domain .. "." .. n.op or n.op
    if (not interpret[name] or name:sub(1, 1) == "_") and not seen[name] then
      seen[name] = true
      unknown[#unknown + 1] = name
    end
  end
  if #unknown > 0 then
    blame.error(string.format("%s: it has nodes that are not known here: %s", what, table.concat(unknown, ", ")), "not_implemented")
  end
  for _, n in ipairs(graph.nodes) do
    if n.attributes.broadcast then
      blame.error(string.format("%s: node '%s' (%s): 'broadcast', of opsets before 7, is not known here", what, n.name, n.op),
        "not_implemented")
    end
  end
  for _, v in ipairs(graph.inputs) do
    if not v.dtype or not v.shape then blame.error(string.format("%s: input '%s' has no known type", what, v.name), "value") end
  end
end

local rows <const> = {{"path", "string"}}

---The model of an ONNX file (opset 1 to 17).
---Shapes: as the file says
---Errors: a file that is missing or damaged, an operator that is not known: `keras.onnx.import "nowhere.onnx"`
---Source: onnx.ai, opsets up to 17
---@param ... any path
---@return Model
return function(...)
  local path = args.check("onnx.import", rows, ...).path
  local file, problem = io.open(path, "rb")
  if not file then blame.error("onnx.import: " .. problem, "not_found") end
  local data = file:read("a")
  file:close()
  local graph = format.decode(data or "", "onnx.import: " .. path)
  check(graph, "onnx.import: " .. path)
  local inputs = {}
  for i, v in ipairs(graph.inputs) do
    local name = v.name:gsub("[^%w_]", "_")
    inputs[i] = input.Input{batch_shape = v.shape, dtype = v.dtype, name = name}
  end
  if #inputs == 0 then blame.error("onnx.import: " .. path .. ": the graph has no inputs", "value") end
  local layer = OnnxGraph{graph = graph}
  local given = #inputs == 1 and inputs[1] or inputs
  local outputs = layer(given)
  return require "ipulua.keras.model".Model{inputs = given, outputs = outputs, name = core.file_exists(path) and
    path:match("([^/]*)%.[^./]*$") or nil}
end
