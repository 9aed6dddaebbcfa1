-- A node's attributes, as its operator's page has them at the file's opset. An attribute that the
-- page doesn't name is refused. So is one that nothing reads: a setting that is passed over would
-- make the numbers wrong.

local schemas = require "ipulua.keras.onnx.schemas"
local tools = require "ipulua.keras.onnx.tools"

local attributes = {}

-- ------------------------------------------------ pages

local kinds <const> = {i = "an integer", f = "a float", s = "a string", t = "a tensor",
  I = "integers", F = "floats", S = "strings"}

local function default_of(kind, text)
  if kind == "i" then return math.tointeger(tonumber(text)) end
  if kind == "f" then return tonumber(text) + 0.0 end
  if kind ~= "S" then return text end
  local list = {}
  for word in text:gmatch("[^,]+") do list[#list + 1] = word end
  return list
end

local function read_count(text)
  local least, most = text:match("^(%d+)%-(%w+)$")
  return {least = tonumber(least), most = tonumber(most) or math.huge}
end

local function parse(line)
  local words = {}
  for word in line:gmatch("%S+") do words[#words + 1] = word end
  local page = {inputs = read_count(words[1]), outputs = read_count(words[2]), attributes = {}}
  for i = 3, #words do
    local name, kind, required, default = words[i]:match("^([%w_]+):(%a)(!?)=?(.*)$")
    page.attributes[name] = {kind = kind, required = required == "!",
      default = default ~= "" and default_of(kind, default) or nil}
  end
  page.attributes.consumed_inputs = page.attributes.consumed_inputs or {kind = "I", is_idle = true}
  return page
end

local parsed <const> = {}

---The facts of an operator's page at an opset: {inputs = {least =, most =}, outputs =, attributes}.
---attributes: name → {kind =, required =, default =}.
---@param op string
---@param opset integer
---@return table
function attributes.page(op, opset)
  local versions, since = schemas[op], nil
  local first = math.huge
  for version in pairs(versions) do
    first = math.min(first, version)
    if version <= opset and (not since or version > since) then since = version end
  end
  local line = versions[since or first]
  parsed[line] = parsed[line] or parse(line)
  return parsed[line]
end

-- ------------------------------------------------ what a file gives

local function kind_of(value)
  if math.type(value) == "integer" then return "i" end
  if type(value) == "number" then return "f" end
  if type(value) == "string" then return "s" end
  if type(value) == "userdata" then return "t" end
  local first = value[1]
  if first == nil then return "empty" end
  return math.type(first) == "integer" and "I" or type(first) == "number" and "F" or "S"
end

local function check_count(n, what, count, limits)
  if count > limits.most then
    tools.refuse(n, string.format("it has %d %s, where ONNX has %d at most at opset %d", count,
      what, limits.most, n.opset))
  end
end

---Refuses a node that isn't as its page has it.
---@param n table of format.decode
function attributes.check(n)
  local page = attributes.page(n.op, n.opset)
  local given = #n.inputs
  while given > 0 and n.inputs[given] == "" do given = given - 1 end
  check_count(n, "operands", given, page.inputs)
  check_count(n, "outputs", #n.outputs, page.outputs)
  for i = 1, page.inputs.least do
    if (n.inputs[i] or "") == "" then tools.refuse(n, "its operand " .. i .. " is missing") end
  end
  for name, value in pairs(n.attributes) do
    local wanted, kind = page.attributes[name], kind_of(value)
    if not wanted or not kinds[wanted.kind] then
      tools.refuse(n, string.format("the attribute '%s' is not known here at opset %d",
        name, n.opset))
    end
    local is_list = wanted.kind:find("%u") ~= nil
    if kind ~= wanted.kind and not (kind == "i" and wanted.kind == "f")
      and not (kind == "empty" and is_list) then
      tools.refuse(n, string.format("the attribute '%s' is to be %s", name, kinds[wanted.kind]))
    end
  end
  for name, wanted in pairs(page.attributes) do
    if wanted.required and n.attributes[name] == nil then
      tools.refuse(n, "the attribute '" .. name .. "' is missing")
    end
  end
end

local function is_default(value, default)
  if type(value) ~= "table" then return value == default end
  for i = 1, math.max(#value, #(default or {})) do
    if not default or value[i] ~= default[i] then return false end
  end
  return true
end

---The attributes, with the page's defaults; and a function that refuses attributes that were given
---and not read.
---@param n table
---@return table<string, any> a
---@return fun() check_read
function attributes.reader(n)
  local page, read = attributes.page(n.op, n.opset), {}
  local a = setmetatable({}, {__index = function(_, name)
    read[name] = true
    local value = n.attributes[name]
    if value ~= nil then return value end
    return page.attributes[name] and page.attributes[name].default
  end})
  return a, function()
    for name, value in pairs(n.attributes) do
      local wanted = page.attributes[name]
      if not read[name] and not wanted.is_idle and not is_default(value, wanted.default) then
        tools.refuse(n, string.format("the attribute '%s' is not known here", name))
      end
    end
  end
end

return attributes
