-- The help of an op, from its row.

local core = require "ipulua.core"
local public_names = require "ipulua.base.public_names"

local op_help = {}

local op_names <const> = public_names.ops()

---The name of the op that a function calls: "exp"; nil for other functions.
---@param f function
---@return string?
function op_help.name(f) return op_names[f] end

---Function → names of its options, for completion.
op_help.options = {}
for f, name in pairs(op_names) do
  local names = {}
  for i, attribute in ipairs(core.describe_op(name).attributes) do names[i] = attribute.name end
  op_help.options[f] = names
end

function op_help.source_line(source) return "  source: " .. source end

---The type of an op's attribute in words. For a list of integers, a single one is accepted.
---@param a table
---@return string
function op_help.attribute_type(a)
  if a.choices then return (a.choices:gsub(" ", " | ")) end
  return a.type == "list" and "integer or list" or a.type
end

local function attribute_line(width, a)
  local parts = {op_help.attribute_type(a)}
  if a.default and a.default ~= "nil" then parts[2] = "default " .. a.default:gsub("'", '"') end
  if not a.default then parts[2] = "required" end
  local line = ("  %-" .. width .. "s  %s"):format(a.name, table.concat(parts, ", "))
  return a.summary and line .. ": " .. a.summary or line
end

local function operands(row)
  local list = {}
  for i, name in ipairs(row.inputs) do
    list[i] = name:match("%?$") and "[" .. name:sub(1, -2) .. "]" or name
  end
  if row.variadic then return {"{" .. list[1] .. ", ...}"} end
  return list
end

---The lines that explain an op.
---@param name string
---@return string[]
function op_help.lines(name)
  local row = core.describe_op(name)
  local call, named, width = operands(row), {}, 0
  -- required arguments stand in their positions; the last table has the optional ones
  for _, a in ipairs(row.attributes) do
    local list = a.default and named or call
    list[#list + 1] = a.name
    width = math.max(width, #a.name)
  end
  if #named > 0 then call[#call + 1] = "{" .. table.concat(named, ", ") .. "}" end
  local lines = {("ipu.%s(%s)"):format(name, table.concat(call, ", ")), row.summary}
  if row.shapes then lines[#lines + 1] = "  shapes: " .. row.shapes end
  for _, a in ipairs(row.attributes) do lines[#lines + 1] = attribute_line(width, a) end
  if row.outputs > 1 then lines[#lines + 1] = ("  gives %d results"):format(row.outputs) end
  if row.no_gradient and #row.inputs > 0 then lines[#lines + 1] = "  Gradients stop here." end
  if row.source then lines[#lines + 1] = op_help.source_line(row.source) end
  return lines
end

return op_help
