-- keras.onnx.import against ONNX's own test cases of single nodes (python3-onnx brings them, with their results).
local ipu = require "ipulua"
local command = require "spec.support.command"
local interpret = require "ipulua.keras.onnx.interpret"

local import = ipu.keras.onnx.import
local there = command.python "onnx"

-- Numbers that JSON can't say come as text.
local function number(x)
  if type(x) ~= "string" then return x end
  return x == "inf" and math.huge or x == "-inf" and -math.huge or 0 / 0
end

local function tensor(e)
  local data = {}
  for i, x in ipairs(e.data) do data[i] = number(x) end
  return ipu.reshape(ipu.tensor(data, {dtype = e.dtype}), e.shape)
end

local function is_near(got, wanted, dtype)
  if type(got) == "boolean" then return got == wanted end
  wanted = number(wanted)
  if got == wanted or (got ~= got and wanted ~= wanted) then return true end
  return math.abs(got - wanted) <= (dtype == "float16" and 1e-2 or 1e-4) * math.max(1, math.abs(wanted))
end

-- What is wrong with the results; nil: nothing.
local function compare(results, outputs)
  for i, wanted in ipairs(outputs) do
    local got = results[i]
    if not got then return "there is no result " .. i end
    local type_of = got.dtype .. "[" .. table.concat(got.shape, ",") .. "]"
    if type_of ~= wanted.dtype .. "[" .. table.concat(wanted.shape, ",") .. "]" then return "the type is " .. type_of end
    local list = ipu.reshape(got, {-1}):totable()
    for k, value in ipairs(wanted.data) do
      if not is_near(list[k], value, wanted.dtype) then return ("element %d is %s, not %s"):format(k, list[k], value) end
    end
  end
end

local function run(folder, case)
  local model = import(folder .. "/" .. case.file)
  local inputs = {}
  for i, e in ipairs(case.inputs) do inputs[i] = tensor(e) end
  local out = model(#inputs == 1 and inputs[1] or inputs, {training = false})
  return compare(type(out) == "table" and out or {out}, case.outputs)
end

describe("onnx.import", function()
  (there and it or pending)("gives what ONNX says of each node that it knows", function()
    local folder = command.folder()
    finally(function() command.remove(folder) end)
    local made = command.run{command.python "onnx", "-W", "ignore", "spec/support/onnx_cases.py", folder}
    assert.equal(0, made.status, made.err)
    local good, refused, wrong = 0, 0, {}
    for _, case in ipairs(ipu.json.decode(command.read(folder .. "/cases.json"))) do
      if interpret[case.op] then
        local ok, problem = pcall(run, folder, case)
        if ok and not problem then good = good + 1
        elseif not ok and problem:find("is not known here") or not ok and problem:find("are not known here") then refused = refused + 1
        else wrong[#wrong + 1] = case.name .. ": " .. tostring(problem) end
      end
    end
    assert.same({}, wrong)
    assert(good >= 500 and refused <= 15, ("%d good, %d refused"):format(good, refused))
  end)
end)
