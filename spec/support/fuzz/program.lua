-- A random program: calls whose operands are earlier results where they fit, as data that can be
-- shrunk and as Lua source.
--   program.inputs  {source}: what the function is given, one a line
--   program.steps   {call, operands, results}; operands: {input = k, wrap = format} or
--                   {step = s, result = r}
-- A program's function returns every result of every step, so that each is compared.

local ipu = require "ipulua"
local calls = require "spec.support.fuzz.calls"
local values = require "spec.support.fuzz.values"

local programs = {}

local function pick(list) return list[math.random(#list)] end

local dtypes <const> = {"float32", "float32", "float32", "float32", "float16", "bfloat16",
  "float64"}
local integers <const> = {"int32", "int32", "int32", "int64"}

local most_results <const> = 64 -- a Lua function has at most 200 local variables

local function function_of(name)
  local f = ipu
  for part in name:gmatch("[^.]+") do f = f[part] end
  return f
end

local function name_of(program, operand)
  if operand.input then return operand.wrap:format("x" .. operand.input) end
  return "v" .. program.steps[operand.step].first + operand.result - 1
end

local function arguments_of(program, step)
  local names = {}
  for i, operand in ipairs(step.operands) do names[i] = name_of(program, operand) end
  local text = table.concat(names, ", ")
  if step.call.variadic then text = "{" .. text .. "}" end
  local attributes = step.call.attributes
  return attributes and text .. (text ~= "" and ", " or "") .. attributes or text
end

-- Names of results are numbered anew, since shrinking takes steps away.
local function number(program)
  local n = 1
  for _, step in ipairs(program.steps) do step.first, n = n, n + step.results end
end

---The inputs, a line each, and the function: a chunk that gives `inputs, f`.
function programs.source(program)
  number(program)
  local lines, names = {'local ipu = require "ipulua"', "local inputs = {"}, {}
  for i, input in ipairs(program.inputs) do
    lines[#lines + 1] = "  " .. input.source .. ","
    names[i] = "x" .. i
  end
  lines[#lines + 1] = "}"
  lines[#lines + 1] = "local function f(" .. table.concat(names, ", ") .. ")"
  local results = {}
  for _, step in ipairs(program.steps) do
    local made = {}
    for r = 1, step.results do made[r] = "v" .. step.first + r - 1 end
    local call = ("ipu.%s(%s)"):format(step.call.name, arguments_of(program, step))
    if step.listed then call = ("table.unpack((%s))"):format(call) end
    lines[#lines + 1] = ("  local %s = %s"):format(table.concat(made, ", "), call)
    table.move(made, 1, #made, #results + 1, results)
  end
  lines[#lines + 1] = "  return " .. table.concat(results, ", ")
  lines[#lines + 1] = "end"
  return table.concat(lines, "\n") .. "\n"
end

function programs.load(program)
  return assert(load(programs.source(program) .. "return inputs, f\n", "=program"))()
end

-- An operand of the call: an earlier result of that shape and dtype, or a new input.
local function choose_operand(program, made, o, dtype, integer)
  if o.letter == "F" or o.letter == "D" then
    local fitting = {}
    for _, each in ipairs(made) do
      if each.tensor.dtype == dtype
        and ipu.json.encode(each.tensor.shape) == ipu.json.encode(o.shape) then
        fitting[#fitting + 1] = each
      end
    end
    if #fitting > 0 and math.random() < 0.8 then
      local each = pick(fitting)
      return {step = each.step, result = each.result}
    end
  end
  local key = table.concat({o.letter, o.below or "", ipu.json.encode(o.shape), dtype, integer}, " ")
  for k, input in ipairs(program.inputs) do -- the same tensor twice
    if input.key == key and math.random() < 0.2 then return {input = k, wrap = "%s"} end
  end
  local source, wrap = values.source(o, dtype, integer)
  program.inputs[#program.inputs + 1] = {source = source, key = wrap == "%s" and key or nil}
  return {input = #program.inputs, wrap = wrap}
end

local function evaluate(operand, program, made)
  if operand.step then
    for _, each in ipairs(made) do
      if each.step == operand.step and each.result == operand.result then return each.tensor end
    end
  end
  local input = program.inputs[operand.input]
  input.tensor = input.tensor or assert(load("local ipu = ... return " .. input.source,
    "=input"))(ipu)
  return assert(load(("local ipu, x = ... return " .. operand.wrap):format("x"), "=view"))(ipu,
    input.tensor)
end

---The operands of the first step, computed.
function programs.operands(program)
  local list = {}
  for i, operand in ipairs(program.steps[1].operands) do
    list[i] = evaluate(operand, program, {})
  end
  return list
end

local function apply(call, given)
  local arguments = call.variadic and {given} or {table.unpack(given)}
  if call.attributes then
    arguments[#arguments + 1] = assert(load("return " .. call.attributes))()
  end
  return function_of(call.name)(table.unpack(arguments))
end

-- Whether the results are of a size that is worth computing; tracing tells without computing them.
-- A program that can't be traced is taken for small.
local function is_small(call, given)
  local elements = 0
  pcall(ipu.func(function(...)
    local results = table.pack(apply(call, {...}))
    for _, t in ipairs(type(results[1]) == "table" and results[1] or results) do
      elements = math.max(elements, calls.count(t.shape))
    end
    error "that is all"
  end), table.unpack(given))
  return elements <= calls.most_elements
end

-- Adds a step if the op takes it; what it says where it doesn't is of no interest here.
local function try_step(program, made, name, dtype)
  local wanted = #made > 0 and math.random() < 0.75 and pick(made).tensor.shape or nil
  local call = calls.random(name, wanted)
  if not call then return false end
  local before = #program.inputs
  local integer = pick(integers)
  local operands, given = {}, {}
  for i, o in ipairs(call.operands) do
    operands[i] = choose_operand(program, made, o, dtype, integer)
  end
  local ok = pcall(function()
    for i, operand in ipairs(operands) do given[i] = evaluate(operand, program, made) end
    assert(is_small(call, given))
    given = table.pack(apply(call, given))
  end)
  local results = ok and given or {n = 0}
  local listed = ok and type(results[1]) == "table"
  if listed then results = table.pack(table.unpack(results[1])) end
  local fits = ok and results.n > 0 and #made + results.n <= most_results
  for i = 1, results.n do fits = fits and results[i].size <= calls.most_elements end
  if not fits then
    for i = #program.inputs, before + 1, -1 do program.inputs[i] = nil end
    return false
  end
  program.steps[#program.steps + 1] = {call = call, operands = operands, results = results.n,
    listed = listed}
  for r = 1, results.n do
    made[#made + 1] = {tensor = results[r], step = #program.steps, result = r}
  end
  return true
end

---A program of at most `steps` calls, of one real dtype; nil where none was found. `name`: an op
---that is to be in it.
function programs.random(steps, name)
  local program, made, dtype = {inputs = {}, steps = {}}, {}, pick(dtypes)
  for _ = 1, name and 8 or 0 do if try_step(program, made, name, dtype) then break end end
  for _ = 1, steps * 6 do
    if #program.steps >= steps then break end
    try_step(program, made, nil, dtype)
  end
  for _, input in ipairs(program.inputs) do input.tensor = nil end
  program.dtype = dtype
  return #program.steps > 0 and program or nil
end

return programs
