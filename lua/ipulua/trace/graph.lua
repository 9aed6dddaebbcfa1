-- ipu.graph: a traced function or graph as tables, as text, and for Graphviz.

local args = require "ipulua.base.args"
local blame = require "ipulua.base.blame"
local core = require "ipulua.core"
local func = require "ipulua.trace.func"
local json = require "ipulua.base.json"
local plain = require "ipulua.base.plain"
local session_graph = require "ipulua.trace.session_graph"
local structure = require "ipulua.base.structure"

local listing = {}

-- The compiled form of a function that was called before, or takes nothing; or of values of the
-- sessions' graph.
local function program_of(who, what)
  if func.is_function(what) then
    local entry = what.order[#what.order]
    if not entry and (type(what.f) ~= "function" or func.parameters(what) > 0) then
      blame.error(who .. ": the function has not been traced yet; call it once first",
        "failed_precondition")
    end
    return (entry or what:concrete()).program
  end
  local leaves = structure.flatten(what)
  if #leaves == 0 or not session_graph.any_deferred(leaves) then
    blame.error(who .. ": a compiled function (ipu.func) or tensors of a session's graph are "
      .. "expected, got "
      .. args.describe(what), "type")
  end
  local targets, types = session_graph.fed_by_default()
  return core.graph_compile(leaves, targets, types, "listing")
end

local nodes_spec <const> =
  {{"fn", "any", whole = true, of = "Function, tensor or table of tensors"}}

local function nodes(who, what)
  local list = program_of(who, what):nodes()
  for _, node in ipairs(list) do
    if node.attributes then node.attributes = json.decode(node.attributes) end
  end
  return list
end

---The nodes that are computed, in the order of tracing. Each is {op, name, shape, dtype, device,
---shard, stage, backward, line, attributes, operands, id, depth}. Nodes inside of loops and
---branches follow, one deeper. shard, stage and attributes are nil where there is none.
---Shapes: shape of each node as a list
---Errors: an argument that is neither a traced function of ipu.func nor a value of the graph:
---`ipu.graph.nodes(1)`
---@return table[]
function listing.nodes(...)
  return plain.mark(nodes("graph.nodes", args.check("graph.nodes", nodes_spec, ...).fn))
end

local print_spec <const> = {
  {"fn", "any", whole = true, of = "Function, tensor or table of tensors"},
  {"format", "string", "text", of = "\"text\" or \"dot\""},
  {"program", "boolean", false},
}

local function operands_text(node)
  local list = {}
  for i, id in ipairs(node.operands) do list[i] = "%" .. id end
  return table.concat(list, ", ")
end

local function place_text(node)
  local parts = {node.device}
  if node.shard then parts[#parts + 1] = "shard " .. node.shard end
  if node.stage then parts[#parts + 1] = "stage " .. node.stage end
  if node.backward then parts[#parts + 1] = "backward" end
  return table.concat(parts, ", ")
end

local function type_text(node)
  return node.dtype and structure.type_text(node.dtype, node.shape) or ""
end

local formats = {}

function formats.text(list)
  local lines = {}
  for i, node in ipairs(list) do
    lines[i] = string.format("%s%%%d = %s(%s) %s  [%s]%s", ("  "):rep(node.depth), node.id,
      node.name, operands_text(node),
      type_text(node), place_text(node), node.line and "  " .. node.line or "")
  end
  return table.concat(lines, "\n") .. "\n"
end

local function quoted(text) return '"' .. text:gsub('["\\]', "\\%0"):gsub("\n", "\\n") .. '"' end

function formats.dot(list)
  local lines = {"digraph program {", "  node [shape = box, fontname = monospace]"}
  for _, node in ipairs(list) do
    local label = node.name .. "\n" .. type_text(node) .. (node.line and "\n" .. node.line or "")
    lines[#lines + 1] = string.format("  n%d [label = %s]", node.id, quoted(label))
    for _, from in ipairs(node.operands) do
      lines[#lines + 1] = string.format("  n%d -> n%d", from, node.id)
    end
  end
  lines[#lines + 1] = "}"
  return table.concat(lines, "\n") .. "\n"
end

---The nodes as text, a line for each, or as a drawing for Graphviz (format "dot"). With program =
---true it has the steps of the compiled program instead of the nodes.
---Shapes: the dtype and shape of each node stand in its line
---Errors: as graph.nodes'; an unknown format: `ipu.graph.print(f, {format = "svg"})`
---@return string
function listing.print(...)
  local a = args.check("graph.print", print_spec, ...)
  local format = formats[a.format:lower()]
  if not format then
    blame.error("graph.print: 'format' must be text or dot, got '" .. a.format .. "'", "value")
  end
  if not a.program then return format(nodes("graph.print", a.fn)) end
  local program = program_of("graph.print", a.fn)
  return program[a.format:lower()](program)
end

return listing
