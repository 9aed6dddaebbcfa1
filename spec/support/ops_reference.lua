-- docs/reference/ops.md from the rows of the registry, for `make docs`.
-- What dtypes an op takes is found by calling it on its own sample.

local core = require "ipulua.core"
local help = require "ipulua.tools.help"
local samples = require "spec.support.op_samples"

local reference = {}

local floats <const> = {"float32", "float64", "float16", "bfloat16"}
local others <const> = {"int8", "uint8", "int32", "int64", "bool"}

-- The dtypes of an op's results, as text; nil and what it says where it takes no such arguments.
local function results_of(op, arguments)
  local results = table.pack(pcall(op, table.unpack(arguments)))
  if not results[1] then return nil, (tostring(results[2]):gsub("^[^:]+:%d+: ", "")) end
  local list = type(results[2]) == "table" and results[2] or {table.unpack(results, 2, results.n)}
  for i, each in ipairs(list) do list[i] = each.dtype end
  local alike = true
  for _, each in ipairs(list) do alike = alike and each == list[1] end
  return alike and list[1] or table.concat(list, ", ")
end

-- What the op takes for its numbers, with the dtypes of its results: "float32, int8", "float32,
-- int8 → bool", "float32; int8 → float32".
local function dtypes(op, row)
  local case
  for each in ((row.sample or "") .. "|"):gmatch("([^|]*)|") do
    case = case or each:find("[FPUDMW]") and each
  end
  if not case then return nil end
  local taken, result_of, refusal, all_alike = {}, {}, nil, true
  for _, names in ipairs {floats, others} do
    for _, dtype in ipairs(names) do
      local result, message = results_of(op,
        (samples.arguments({sample = case, variadic = row.variadic}, dtype)))
      refusal = refusal or message
      if result then
        taken[#taken + 1], result_of[dtype] = dtype, result
        all_alike = all_alike and result == result_of[taken[1]]
      end
    end
  end
  if #taken == 0 then return nil, refusal end
  for _, a in ipairs(row.attributes) do
    if a.name == "dtype" then return table.concat(taken, ", ") .. " → dtype", refusal end
  end
  if all_alike then return table.concat(taken, ", ") .. " → " .. result_of[taken[1]], refusal end
  local groups, by_result = {}, {}
  for _, dtype in ipairs(taken) do
    local result = (result_of[dtype] .. ","):gsub("%f[%w]" .. dtype .. ",", "the same,"):sub(1, -2)
    if not by_result[result] then
      by_result[result] = {}
      groups[#groups + 1] = result
    end
    table.insert(by_result[result], dtype)
  end
  for i, result in ipairs(groups) do
    groups[i] = table.concat(by_result[result], ", ") .. " → " .. result
  end
  return table.concat(groups, "; "), refusal
end

-- What else there is: the operands that are indices or conditions, with the dtypes that they may
-- have; or the results' alone.
local function other_dtypes(op, row)
  local lines = {}
  local operands = row.sample and samples.first_case(row.sample) or {}
  local numbers = row.sample and row.sample:find("[FPUDMW]")
  local own = false -- whether an attribute says the dtype of the result
  for _, a in ipairs(row.attributes) do own = own or a.name == "dtype" end
  for i, operand in ipairs(operands) do
    local list, result = {}, nil
    for _, dtype in ipairs(operand.letter:find("[ISB]") and others or {}) do
      local arguments = samples.arguments(row)
      local given = row.variadic and arguments[1] or arguments
      given[i] = core.ops.cast(given[i], dtype)
      local of = results_of(op, arguments)
      if of then
        list[#list + 1] = dtype
        result = of
      end
    end
    -- else they are numbers, too
    if #list > 0 and not (numbers and #list == 1 and list[1] == "int32") then
      local name = (row.inputs[i] or row.inputs[1]):gsub("%?$", "")
      local gives = not numbers and i == 1 and " → " .. (own and "dtype" or result) or ""
      lines[#lines + 1] = string.format("- `%s`: %s%s", name, table.concat(list, ", "), gives)
    end
  end
  if #operands == 0 then
    local attributes = row.sample and select(3, samples.arguments(row))
    local result = results_of(op, attributes and next(attributes) and {attributes} or {})
    if result then lines[#lines + 1] = "- dtypes: → " .. (own and "dtype" or result) end
  end
  return lines
end

-- ---- what is refused besides a dtype ----

local function copy(t) return table.move(t, 1, #t, 1, {}) end
local function without_matrices(letter)
  return (letter == "M" or letter == "W") and "F" or letter
end

-- The sample's call with one thing wrong in it: an operand of another shape, an attribute out of
-- its range, a text for a tensor.
local function wrong_calls(row)
  local calls = {}
  local operands, attributes = samples.first_case(row.sample)
  local function call(changed, with)
    local given = {}
    for i, operand in ipairs(changed) do
      given[i] = operand.shape and samples.value(operand) or operand
    end
    if row.variadic then given = {given} end
    if next(with) then given[#given + 1] = with end
    calls[#calls + 1] = given
  end
  for i = 2, #operands do
    for k = #operands[i].shape, 1, -1 do
      local shape, changed = copy(operands[i].shape), copy(operands)
      shape[k] = shape[k] + 1
      changed[i] = {letter = without_matrices(operands[i].letter), below = operands[i].below,
        shape = shape}
      call(changed, attributes or {})
    end
  end
  local wrong <const> = {integer = 99, list = {99, 99}, string = "OTHER", dtype = "float",
    number = "much"}
  for _, a in ipairs(row.attributes) do
    local with = {[a.name] = wrong[a.type]}
    for name, value in pairs(attributes or {}) do
      if name ~= a.name then with[name] = value end
    end
    if wrong[a.type] then call(operands, with) end
  end
  if #operands > 0 then
    local changed = copy(operands)
    changed[1] = {letter = without_matrices(operands[1].letter), below = operands[1].below,
      shape = {}}
    call(changed, attributes or {})
    changed[1] = "text"
    call(changed, attributes or {})
  end
  return calls
end

-- The first message of a wrong call that is not the one given.
local function refusal_of(op, row, other)
  for _, given in ipairs(row.sample and wrong_calls(row) or {}) do
    local ok, message = pcall(op, table.unpack(given))
    message = not ok and tostring(message):gsub("^[^:]+:%d+: ", "") or nil
    if message and message ~= other
      and message:find("^" .. row.name:gsub("%p", "%%%0") .. "%A") then
      return message
    end
  end
end

-- ---- text ----

local function signature(row)
  local parts, named = {}, {}
  for _, name in ipairs(row.inputs) do
    parts[#parts + 1] = (name:gsub("%?$", ""))
    if row.variadic then parts[1] = "{" .. parts[1] .. ", …}" break end
  end
  for _, a in ipairs(row.attributes) do
    named[#named + 1] = a.default
      and (a.default == "nil" and a.name or a.name .. " = " .. a.default:gsub("'", '"')) or nil
    if not a.default then parts[#parts + 1] = a.name end
  end
  if #named > 0 then parts[#parts + 1] = "{" .. table.concat(named, ", ") .. "}" end
  return string.format("ipu.%s(%s)", row.name, table.concat(parts, ", "))
end

local function gradient(row)
  if #row.inputs == 0 then return "none: it takes no tensor" end
  if row.no_gradient then return "none: gradients end here" end
  return row.differentiable and "yes" or "none"
end

local function entry(row, lines)
  local function add(format, ...) lines[#lines + 1] = string.format(format, ...) end
  add("### %s\n", row.name)
  add("`%s`\n", signature(row))
  add("%s\n", row.summary)
  if row.shapes and row.shapes ~= "" then add("- Shapes: `%s`", row.shapes) end
  for _, name in ipairs(row.inputs) do
    if name:find("?$") then
      add("- `%s` may be left out, with what stands behind it.", (name:gsub("%?$", "")))
    end
  end
  for _, a in ipairs(row.attributes) do
    local kind = a.choices and a.type or help.attribute_type(a)
    add("- `%s`: %s%s%s%s", a.name, kind, a.default
      and (a.default == "nil" and ", optional" or ", default `" .. a.default .. "`") or "",
      a.choices and ", one of " .. a.choices:gsub(" ", ", ") or "",
      a.summary and a.summary ~= "" and "; " .. a.summary or "")
  end
  local list, refusal = dtypes(core.ops[row.name], row)
  if list then add("- dtypes: %s", list) end
  for _, line in ipairs(other_dtypes(core.ops[row.name], row)) do add("%s", line) end
  add("- Gradient: %s", gradient(row))
  if refusal then add("- Error: `%s`", refusal) end
  local other = refusal_of(core.ops[row.name], row, refusal)
  if other then add("- Error: `%s`", other) end
  if row.source then add("- Source: %s", row.source) end
  lines[#lines + 1] = ""
end

local opening <const> = [[
# Ops

Made from the rows of `src/ops` by `make docs`; don't edit. Every op is a function and, where its first argument is a tensor, a
method: `ipu.exp(x)` and `x:exp()`. Numbers and lists stand for tensors, and take the dtype of a tensor beside them (float32 where there
is none; indices int32, masks and conditions bool); named arguments are in the last table. In shapes a name is an extent and `...` any
number of them; `any` alone,
or a shape alone, is that of the operand and of the result; *broadcast* is NumPy's: extents of 1 and missing leading axes are repeated.
An axis counts from 0, or from the end where it is negative. *dtypes* are those of the numbers that an op takes, and behind the arrow
those of its results; operands of different dtypes are an error, there is no promotion. *Gradient: yes* where a function is constant
(floor, sign, round) is 0. An op that is called wrongly raises an error with its name, the shapes or dtypes, and the line of the script;
*Error* shows what comes for a dtype that it doesn't take, and for a shape or an argument that is wrong. Where no *Source* is given, what
an op does is what NumPy and `tf.math`, `tf.nn`, `tf.linalg` and `tf.random` of TensorFlow 2.6 mean by its name (there mul is multiply, sub
subtract, neg negative, div divide, mod floormod, repeat_n repeat).
]]

---@return string
function reference.text()
  local names, lines = {}, {opening}
  for name in pairs(core.ops) do names[#names + 1] = name end
  table.sort(names, function(a, b)
    local in_a, in_b = a:find(".", 1, true) and 1 or 0, b:find(".", 1, true) and 1 or 0
    if in_a ~= in_b then return in_a < in_b end
    return a < b
  end)
  local module
  for _, name in ipairs(names) do
    local row = core.describe_op(name)
    if not row.internal then
      local of = name:match("^(.*)%.") or ""
      if of ~= module then
        lines[#lines + 1] = "## ipu" .. (of ~= "" and "." .. of or "") .. "\n"
      end
      module = of
      entry(row, lines)
    end
  end
  return table.concat(lines, "\n")
end

if arg and arg[0] and arg[0]:find("ops_reference.lua", 1, true) then io.write(reference.text()) end

return reference
