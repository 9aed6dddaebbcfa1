-- `make docs`: the pages of docs/reference/ops, a family each, and their index, from the rows of
-- the registry. The dtypes that an op takes are found by calling it on its own sample. Given a
-- folder, it writes there.

package.path = "docs/source/?.lua;" .. package.path
local own_calls, operand_words = require "calls".ops, require "calls".operands
local core = require "ipulua.core"
local entry = require "entry"
local help = require "ipulua.tools.help"
local notes = require "notes"
local op_files = require "spec.support.op_files"
local pages = require "pages"
local samples = require "spec.support.op_samples"
require "ipulua.base.log".set_writer(function() end)

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

-- The dtypes of an op's numbers, and the dtypes of its results: "float32, int8", "float32, int8 →
-- bool", "float32; int8 → float32".
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

-- Further dtypes, of the operands that are indices or conditions, or of the results alone.
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
      lines[#lines + 1] = string.format("`%s`: %s%s", name, table.concat(list, ", "), gives)
    end
  end
  if #operands == 0 then
    local attributes = row.sample and select(3, samples.arguments(row))
    local result = results_of(op, attributes and next(attributes) and {attributes} or {})
    if result then lines[#lines + 1] = "→ " .. (own and "dtype" or result) end
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

-- A call as a script writes it, of the sample's first case: ones for numbers, zeros for indices.
local function sample_call(row)
  local list, parsed = {}, samples.first_case(row.sample or "")
  local attributes = row.sample and row.sample:match("^[^|]*"):match("{.*}")
  for i, operand in ipairs(parsed) do
    local shape = "{" .. table.concat(operand.shape, ", ") .. "}"
    local n = operand.shape[#operand.shape]
    if operand.letter:find("[MW]") and #operand.shape == 2 then list[i] = "ipu.eye(" .. n .. ")"
    elseif operand.letter:find("[MW]") then
      list[i] = "ipu.eye(" .. n .. ", {batch_shape = {"
        .. table.concat(operand.shape, ", ", 1, #operand.shape - 2) .. "}})"
    elseif operand.letter:find("[IS]") then list[i] = 'ipu.zeros(' .. shape .. ', "int32")'
    elseif operand.letter == "B" then list[i] = 'ipu.ones(' .. shape .. ', "bool")'
    else list[i] = "ipu.ones" .. shape end
  end
  local given = table.concat(list, ", ")
  if row.variadic then given = "{" .. given .. "}" end
  if attributes then given = given .. (given ~= "" and ", " or "") .. attributes end
  if given == "{}" then given = "" end
  return "ipu." .. row.name .. (given:find("^%b{}$") and given or "(" .. given .. ")")
end

local function arguments_of(row)
  local list = {}
  for i, name in ipairs(row.inputs) do
    local plain = name:gsub("%?$", "")
    list[i] = {plain, row.variadic and "list of tensors" or "tensor, number or list",
      name:find("?$") and "none" or "required", assert(operand_words[plain], plain)
        .. (name:find("?$") and "; may be left out, with the operands after it" or "")}
  end
  for _, a in ipairs(row.attributes) do
    list[#list + 1] = {a.name, help.attribute_type(a), a.default and (a.default == "nil" and "none"
      or "`" .. a.default:gsub("'", '"') .. "`") or "required", a.summary}
  end
  return list
end

local function result_of(row)
  if row.outputs < 0 then return "tensors" end
  return row.outputs > 1 and row.outputs .. " tensors" or "tensor"
end

local function write(page, row, near)
  local op = core.ops[row.name]
  local list, refusal = dtypes(op, row)
  local takes = other_dtypes(op, row)
  if list then table.insert(takes, 1, list) end
  local errors = {refusal and "`" .. refusal .. "`"}
  local other = refusal_of(op, row, refusal)
  if other then errors[#errors + 1] = "`" .. other .. "`" end
  local leaf = row.name:match("[%w_]+$")
  local module = row.name:match("^(.*)%.")
  pages.write(page, entry.lines{heading = "###", name = row.name, text = row.summary,
    signature = signature(row), calls = own_calls[row.name] or {sample_call(row)},
    arguments = arguments_of(row), folder = page.folder, near = near,
    names = {(module or "ipu") .. "%." .. leaf .. "%f[^%w_]", ":" .. leaf .. "[({]"},
    notes = {Result = result_of(row), Shapes = row.shapes and "`" .. row.shapes .. "`",
      dtypes = takes, Gradient = gradient(row),
      Errors = #errors > 0 and errors or #row.inputs + #row.attributes == 0 and "none of its own"
        or "arguments that are missing, unknown or of another type", Source = row.source
        or "the function of this name in NumPy or TensorFlow 2.6"}}, row.name)
end

local families <const> = {
  {"elementwise/unary", "Functions of one tensor"},
  {"elementwise/binary", "Functions of two tensors"},
  {"elementwise", "Clipping and conversion"}, {"reduce", "Reductions and scans"},
  {"linear", "Products and attention"}, {"layout", "Shapes and layouts"},
  {"index", "Indices, positions and segments"}, {"conv", "Convolutions, pooling and images"},
  {"norm", "Normalisation and softmax"}, {"loss", "Losses"}, {"recurrent", "Recurrences"},
  {"linalg", "Linear algebra"}, {"random", "Random numbers"},
  {"io", "Collectives and streaming memory"},
}

local opening <const> = [[
Every op is a function and, if its first argument is a tensor, a method: `ipu.exp(x)`
  and `x:exp()`. `make docs` writes these pages from the
rows of `src/ops`.

Numbers and lists stand for tensors. They take the dtype of a tensor beside them; without one they are float32, indices int32 and masks bool.
Named arguments are in the last table. An axis counts from 0, or from the end if it is negative.

In shapes a name is an extent and `...` any number of extents. `any`, or a shape alone,
  holds for operand and result. *broadcast* is NumPy's:
extents of 1 and missing leading axes are repeated.

*dtypes* lists the dtypes of the numbers; the result's follow the arrow. Operands of different '
  .. 'dtypes are an error: there is no promotion.
A gradient where a function is constant (floor, sign, round) is 0.

A wrong call raises an error with the op's name, the shapes or dtypes, and the line of the '
  .. 'script. *Errors* shows the messages for a wrong
dtype, shape or argument. Every call has run; a tensor is shown by its shape. The names mul, sub,
  neg, div, mod and repeat_n stand for
multiply, subtract, negative, divide, floormod and repeat.]]

local names = {}
for name in pairs(core.ops) do
  if not core.describe_op(name).internal then names[#names + 1] = name end
end
table.sort(names, function(a, b)
  local in_a, in_b = a:find(".", 1, true) and 1 or 0, b:find(".", 1, true) and 1 or 0
  if in_a ~= in_b then return in_a < in_b end
  return a < b
end)

local book, by_family = pages.new "ops", {}
for _, family in ipairs(families) do
  by_family[family[1]] = {page = pages.add(book, family[2])}
end
local files = op_files.of(names)
for _, name in ipairs(names) do
  table.insert(by_family[files[name]] or by_family[files[name]:match("^[^/]*")], name)
end
for _, family in ipairs(families) do
  local list = by_family[family[1]]
  for i, name in ipairs(list) do
    write(list.page, core.describe_op(name), {list[i - 1] or list[i + 2], list[i + 1]
      or list[i - 2]})
  end
end
notes.finish()
notes.check()
pages.save(book, "Ops", opening, arg and arg[1])
