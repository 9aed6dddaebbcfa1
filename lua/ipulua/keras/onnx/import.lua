-- keras.onnx.import: an ONNX file as a Keras model. Its graph is one layer, which runs the nodes
-- (interpret.lua) when it is called. Its float tensors are the layer's weights, so the model can be
-- trained further.

local args = require "ipulua.base.args"
local attributes = require "ipulua.keras.onnx.attributes"
local blame = require "ipulua.base.blame"
local core = require "ipulua.core"
local format = require "ipulua.keras.onnx.format"
local input = require "ipulua.keras.models.input"
local interpret = require "ipulua.keras.onnx.interpret"
local Layer = require "ipulua.keras.base.layer"
local log = require "ipulua.base.log"
local schemas = require "ipulua.keras.onnx.schemas"
local shapes = require "ipulua.keras.base.shapes"
local tools = require "ipulua.keras.onnx.tools"

local keep <const> = require "ipulua.keras.base.layer_fields".keep

local OLDEST <const>, NEWEST <const> = 1, 22

-- ------------------------------------------------ the layer

---The graph of an ONNX file.
---@class OnnxGraph: Layer
local OnnxGraph = Layer.declare("OnnxGraph", {{"graph", "any"}})
OnnxGraph.autocast = false

function OnnxGraph:setup() keep(self, "_shapeless", true) end

-- Operands that are no weights, since they must be known; and weights that are not trained.
local known_operands <const> = {OneHot = {2, 3}, Clip = {2, 3}, Pad = {2, 3}, Range = {1, 2, 3},
  Dropout = {2, 3}}
local still_operands <const> = {BatchNormalization = {4, 5}}

local function names_of(graph, operands)
  local names = {}
  for _, n in ipairs(graph.nodes) do
    for _, i in ipairs(operands[n.op] or {}) do names[n.inputs[i] or ""] = true end -- "" is none
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
      held[name] = self:add_weight{name = name, shape = t.shape, dtype = t.dtype,
        initializer = "zeros", trainable = not still[name]}
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
    if name ~= "" then x[i] = values[name] end
    if name ~= "" and x[i] == nil then
      blame.error(string.format("onnx.import: node '%s' (%s) takes '%s', which nothing gives",
        n.name, n.op, name), "value")
    end
  end
  return x
end

-- The bytes of constants that elementwise nodes and products may make of others. It is checked
-- before they do.
local function check_sizes(n, x)
  local rank, shape, dtype = 0, {}, "float32"
  for i = 1, x.n do
    if core.is_symbolic(x[i]) then return end
    if x[i] then rank, dtype = math.max(rank, #x[i].shape), x[i].dtype end
  end
  for i = 1, x.n do
    for k, extent in ipairs(x[i] and x[i].shape or {}) do
      local at = rank - #x[i].shape + k
      if (n.op == "MatMul" or n.op == "Gemm")
        and (i == 1 and at == rank or i == 2 and at == rank - 1) then
        extent = 1
      end
      shape[at] = math.max(shape[at] or 1, extent)
    end
  end
  if x.n > 1 and n.op ~= "Concat" then tools.reserve(n, shape, dtype) end
end

-- One node: any error in it is told in the file's terms.
local function run_node(n, x)
  local a, check_read = attributes.reader(n)
  check_sizes(n, x)
  local former <const> = blame.last
  local results = table.pack(blame.attempt(interpret[n.op], x, a, n))
  if results[1] then
    check_read()
    for i = 2, results.n do
      if core.is_symbolic(results[i]) then
        tools.reserve(n, results[i].shape, results[i].dtype, results[i])
      end
    end
    return table.unpack(results, 2, results.n)
  end
  local problem, last = results[2], blame.last
  if type(problem) ~= "string" or problem:find("onnx.import: node", 1, true) then
    error(problem, 0)
  end
  if last == former or not problem:find(last.message, 1, true) then -- Lua's own
    log.debug("onnx.import: node '%s' (%s): %s", n.name, n.op, problem)
    tools.refuse(n, "its operands or attributes are none that are known here")
  end
  -- if our op doesn't take a type, the file is right all the same
  local is_type = last.kind == "type"
  blame.error(string.format("onnx.import: node '%s' (%s): %s", n.name, n.op, last.message),
    is_type and "not_implemented" or last.kind)
end

-- Shapes that the nodes compute may be valid for the file's extents alone.
local function check_shape(input_of_file, t)
  local wanted = input_of_file.shape
  local same = #wanted == #t.shape
  for i, extent in ipairs(same and wanted or {}) do
    same = same and (extent < 0 or t.shape[i] < 0 or extent == t.shape[i])
  end
  if same then return end
  blame.error(string.format("input '%s' has the shape %s in the ONNX file, got %s",
    input_of_file.name, shapes.text(wanted),
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
    local results = table.pack(run_node(n, operands(n, values)))
    for i, name in ipairs(n.outputs) do
      if name ~= "" then
        values[name] = results[i] or tools.refuse(n, "its output " .. i .. " is not known here")
      end
    end
  end
  local out = {}
  for i, each in ipairs(graph.outputs) do
    out[i] = values[each.name]
    if out[i] == nil then
      blame.error(string.format("onnx.import: nothing gives the output '%s'", each.name), "value")
    end
  end
  return #out == 1 and out[1] or out
end

function OnnxGraph:get_config()
  blame.error(string.format("layer '%s': a graph from an ONNX file is saved by onnx.export, its "
    .. "weights by save_weights", self.name),
    "not_implemented")
end

-- ------------------------------------------------ files

local function check(graph, what)
  if graph.opset < OLDEST or graph.opset > NEWEST then
    blame.error(string.format("%s: it is of opset %d; %d to %d are known here", what, graph.opset,
      OLDEST, NEWEST), "not_implemented")
  end
  local unknown, seen = {}, {}
  for _, n in ipairs(graph.nodes) do
    local name = n.domain ~= "" and n.domain ~= "ai.onnx" and n.domain .. "." .. n.op or n.op
    if not (schemas[name] and interpret[name]) and not seen[name] then
      seen[name] = true
      unknown[#unknown + 1] = name
    end
  end
  if #unknown > 0 then
    blame.error(string.format("%s: it has nodes that are not known here: %s", what,
      table.concat(unknown, ", ")), "not_implemented")
  end
  for _, n in ipairs(graph.nodes) do attributes.check(n) end
  for _, v in ipairs(graph.inputs) do
    if v.foreign then
      blame.error(string.format("%s: input '%s' is of a type that is not known here: %s",
        what, v.name,
        v.foreign), "not_implemented")
    end
    if not v.dtype or not v.shape then
      blame.error(string.format("%s: input '%s' has no known %s", what, v.name,
        v.dtype and "rank" or "type"), "value")
    end
  end
  for _, side in ipairs{"inputs", "outputs"} do
    if #graph[side] == 0 then
      blame.error(string.format("%s: the graph has no %s", what, side), "value")
    end
  end
end

-- The Keras input for a graph's; an error names the file and the input.
local function input_for(what, v, name)
  local ok, made = blame.attempt(input.Input, {batch_shape = v.shape, dtype = v.dtype, name = name})
  if ok then return made end
  local last <const> = blame.last
  blame.error(string.format("%s: input '%s': %s", what, v.name, last.message), last.kind)
end

local most_bytes <const> = (1 << 31) - 1 -- protobuf's own limit
local rows <const> = {{"path", "string"}}

---The model of an ONNX file (opset 1 to 22).
---Shapes: as the file says
---Errors: a file that is missing or damaged, an operator that is not known:
---`keras.onnx.import "nowhere.onnx"`
---Source: onnx.ai, opsets up to 22
---@param ... any path
---@return Model
return function(...)
  local path = args.check("onnx.import", rows, ...).path
  local text, problem, kind = core.content(path, most_bytes)
  if not text then blame.error("onnx.import: " .. problem, kind) end
  local graph = blame.reading("onnx.import: " .. path, format.decode, text,
    "onnx.import: " .. path)
  check(graph, "onnx.import: " .. path)
  local inputs, taken = {}, {}
  for i, v in ipairs(graph.inputs) do
    local name <const> = v.name:gsub("[^%w_]", "_")
    local free, count = name, 0
    while taken[free] do
      count = count + 1
      free = name .. "_" .. count
    end
    taken[free] = true
    inputs[i] = input_for("onnx.import: " .. path, v, free)
  end
  local layer = OnnxGraph{graph = graph}
  local given = #inputs == 1 and inputs[1] or inputs
  local outputs = layer(given)
  return require "ipulua.keras.models".Model{inputs = given, outputs = outputs,
    name = core.file_exists(path) and
    path:match("([^/]*)%.[^./]*$") or nil}
end
