-- Files of legal but unusual ONNX nodes (onnx_kinds.lua), each of one node that onnxruntime runs
-- (onnx_run.js) and keras.onnx.import reads, or refuses by name.

local command = require "spec.support.command"
local format = require "ipulua.keras.onnx.format"
local ipu = require "ipulua"
local nodes = require "spec.support.onnx_kinds"

local graphs = {}

-- ------------------------------------------------ files

local function json_numbers(t)
  local list = {}
  for i, x in ipairs(ipu.reshape(t, {-1}):totable()) do
    list[i] = type(x) == "number" and (x ~= x or math.abs(x) == math.huge) and tostring(x)
      or t.dtype == "int64" and tostring(x) or x
  end
  return ipu.json.array(list)
end

local function write(folder, number, case)
  local node = {op = case[1], name = "n", inputs = {}, outputs = {}, attributes = case.a or {}}
  local graph, inputs = {name = "g", nodes = {node}, initializers = {}, inputs = {}, outputs = {}},
    {}
  local last = 0
  for k in pairs(case) do last = math.max(last, math.type(k) == "integer" and k or 0) end
  for k = 3, last do
    local t, name = case[k], "x" .. k - 2
    node.inputs[k - 2] = t and name or ""
    if t and case.known and case.known[k - 2] then
      graph.initializers[#graph.initializers + 1] = {name = name, tensor = t}
    elseif t then
      graph.inputs[#graph.inputs + 1] = {name = name, dtype = t.dtype, shape = t.shape}
      inputs[#inputs + 1] = {name = name, shape = ipu.json.array(t.shape), dtype = t.dtype,
        data = json_numbers(t), tensor = t}
    end
  end
  for k = 1, case.outputs or 1 do
    node.outputs[k] = "y" .. k
    graph.outputs[k] = {name = "y" .. k}
  end
  local file = number .. ".onnx"
  command.write(folder .. "/" .. file, format.encode(graph, case[2], "test"))
  return {file = file, inputs = inputs, case = case}
end

---Writes `count` random cases, or those of one kind, and cases.json for onnx_run.js.
---@return table[] cases {file =, inputs =, case =}
function graphs.write(folder, seed, count, kind)
  local names, cases = {}, {}
  for name in pairs(nodes.kinds) do names[#names + 1] = name end
  table.sort(names)
  nodes.seed(seed)
  for i = 1, count do
    local name = kind or names[(i - 1) % #names + 1]
    cases[i] = write(folder, i, nodes.kinds[name]())
    cases[i].kind = name
  end
  local told = {}
  for i, c in ipairs(cases) do
    local inputs = {}
    for k, each in ipairs(c.inputs) do
      inputs[k] = {name = each.name, shape = each.shape, dtype = each.dtype, data = each.data}
    end
    told[i] = {file = c.file, inputs = ipu.json.array(inputs)}
  end
  command.write(folder .. "/cases.json", ipu.json.encode(told))
  return cases
end

local function number(x, dtype)
  if type(x) ~= "string" then return x end
  if dtype == "int64" then return math.tointeger(tonumber(x)) end
  if tonumber(x) then return tonumber(x) end
  local odd_names <const> = {["inf"] = math.huge, ["Infinity"] = math.huge, ["-inf"] = -math.huge,
    ["-Infinity"] = -math.huge}
  return odd_names[x] or 0 / 0
end

local function is_near(got, wanted)
  if type(got) == "boolean" then got = got and 1 or 0 end
  if type(wanted) == "boolean" then wanted = wanted and 1 or 0 end
  if got == wanted or (got ~= got and wanted ~= wanted) then return true end
  if math.type(got) == "integer" and math.type(wanted) == "integer" then return false end
  return math.abs(got - wanted) <= 1e-4 * math.max(1, math.abs(wanted))
    and math.abs(got) < math.huge
end

---What is wrong with results beside those that onnxruntime gave; nil: nothing.
function graphs.compare(results, wanted)
  for i, w in ipairs(wanted) do
    local got = results[i]
    local kind = got.dtype .. "[" .. table.concat(got.shape, ",") .. "]"
    if kind ~= w.dtype .. "[" .. table.concat(w.shape, ",") .. "]" then
      return string.format("output %d is %s, not %s[%s]", i, kind, w.dtype,
        table.concat(w.shape, ","))
    end
    local list = got.size > 0 and ipu.reshape(got, {-1}):totable() or {}
    for k, x in ipairs(w.data) do
      if not is_near(list[k], number(x, w.dtype)) then
        return string.format("output %d, element %d is %s, not %s", i, k, list[k], x)
      end
    end
  end
end

---Runs a case: its problem, whether it was refused by name.
function graphs.run(folder, c, wanted)
  local ok, results = pcall(function()
    local model, given = ipu.keras.onnx.import(folder .. "/" .. c.file), {}
    for i, each in ipairs(c.inputs) do given[i] = each.tensor end
    return model(#given == 1 and given[1] or given, {training = false})
  end)
  if not ok then
    local last = ipu.last_error()
    return tostring(results), last and last.kind == "not_implemented"
      and tostring(results):find("known here", 1, true) ~= nil
  end
  return graphs.compare(type(results) == "table" and results or {results}, wanted), false
end

return graphs
