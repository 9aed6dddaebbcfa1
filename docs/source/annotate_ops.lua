-- LuaLS annotations of the op functions, which follow from the ops' rows: lines handed to `put`.
-- Returns the modules made.
local core = require "ipulua.core"

local types <const> = {
  integer = "integer", number = "number", boolean = "boolean", string = "string",
  list = "integer|integer[]", dtype = "string",
  tensor = "ipulua.Tensor",
}

local put
local function line(...) put(string.format(...)) end

local function attribute_type(a)
  if not a.choices then return types[a.type] or "any" end
  local words = {}
  for word in a.choices:gmatch("%S+") do words[#words + 1] = '"' .. word .. '"' end
  return table.concat(words, "|")
end

local function options_type(row)
  local fields = {}
  for i, a in ipairs(row.attributes) do
    fields[i] = ("%s%s: %s"):format(a.name, a.default and "?" or "", attribute_type(a))
  end
  return "{" .. table.concat(fields, ", ") .. "}"
end

local function annotate(row)
  line("")
  line("---%s", row.summary)
  if row.shapes then line("---Shapes: `%s`", row.shapes) end
  for _, a in ipairs(row.attributes) do
    if a.summary then line("---* `%s`: %s", a.name, a.summary) end
  end
  local parameters = {}
  for i, name in ipairs(row.inputs) do
    local plain, optional = name:gsub("%?$", "")
    plain = plain:gsub("^end$", "end_")
    parameters[i] = plain
    line("---@param %s%s %s", plain, optional > 0 and "?" or "",
      row.variadic and "ipulua.Tensor[]" or "ipulua.Tensor|number|table")
  end
  if #row.attributes > 0 then
    parameters[#parameters + 1] = "options"
    local required = false
    for _, a in ipairs(row.attributes) do required = required or not a.default end
    line("---@param options%s %s", required and "" or "?", options_type(row))
  end
  for _ = 1, math.max(row.outputs, 1) do
    line("---@return ipulua.Tensor%s", row.outputs < 0 and " ..." or "")
  end
  line("function ipu.%s(%s) end", row.name, table.concat(parameters, ", "))
end

return function(given)
  put = given
  line("---@class ipulua.Tensor: userdata")
  for _, field in ipairs{"shape integer[]", "dtype string", "rank integer", "size integer",
    "T ipulua.Tensor"} do
    line("---@field %s", field)
  end
  for _, name in ipairs{"add", "sub", "mul", "div", "mod", "pow", "idiv"} do
    line("---@operator %s(ipulua.Tensor|number): ipulua.Tensor", name)
  end
  line("---@operator unm: ipulua.Tensor")
  line("local Tensor = {}")
  line("---@return number|boolean")
  line("function Tensor:item() end")
  line("---@return any")
  line("function Tensor:totable() end")
  line("---@return any")
  line("function Tensor:tolist() end")
  line("")
  line("local ipu = {}")

  local names, modules = {}, {}
  for name in pairs(core.ops) do
    if not core.describe_op(name).internal then names[#names + 1] = name end
  end
  table.sort(names)
  for _, name in ipairs(names) do
    local module = name:match("^(.*)%.")
    if module and not modules[module] then
      modules[module] = true
      line("ipu.%s = {}", module)
    end
  end
  for _, name in ipairs(names) do
    local row = core.describe_op(name)
    annotate(row)
    if row.method then line("Tensor.%s = ipu.%s", row.method, row.name) end
  end
  return modules
end
