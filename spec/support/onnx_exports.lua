-- Every op of the registry, as a model of one layer that onnx.export writes: its samples with
-- floats and integers of several types.

local command = require "spec.support.command"
local core = require "ipulua.core"
local ipu = require "ipulua"
local samples = require "spec.support.op_samples"

local exports = {}

local keras = ipu.keras

-- Letters as op.h has them; integers with numbers beyond what floats hold.
local function value(operand, dtype, seed, name)
  local shape = operand.shape
  local function uniform(from, to)
    return ipu.random.uniform(shape, {minval = from, maxval = to, seed = seed})
  end
  local letter = operand.letter
  if letter == "B" then return ipu.greater(uniform(0.0, 1.0), 0.5) end
  if letter == "I" then
    return ipu.random.uniform(shape, {minval = operand.is_divisor and 1 or 0,
      maxval = operand.below or 2,
    dtype = "int32", seed = seed}) end
  if not ("FPUD"):find(letter) then return nil end
  if dtype:find("int") then
    local v = ipu.random.uniform(shape, {minval = (letter == "P" or name == "pow") and 1 or -9,
      maxval = name == "pow" and 4
      or 10, dtype = "int32", seed = seed})
    v = ipu.where(ipu.equal(v, 0), ipu.ones_like(v), v) -- a divisor
    if dtype == "int64" and name ~= "pow" then v = ipu.cast(v, "int64") * ((1 << 53) // 3 + 1) end
    return ipu.cast(v, dtype)
  end
  local low, high = -3.0, 3.0
  if letter == "P" then low = 0.25 elseif letter == "U" then low, high = -0.9, 0.9 end
  return ipu.cast(uniform(low, high), dtype)
end

-- The model of a case, or nil: what the op doesn't take.
local function model_of(name, operands, attributes, dtype)
  local f, inputs, given = core.ops[name], {}, {}
  local row = core.describe_op(name)
  for i, operand in ipairs(operands) do
    operand.is_divisor = name == "floordiv" or name == "mod"
    given[i] = value(operand, dtype, i, name)
    if not given[i] or given[i].size == 0 then return nil end
  end
  local function call(values)
    if row.variadic then return f(values, attributes) end
    local list = table.move(values, 1, #values, 1, {})
    list[#list + 1] = attributes
    return f(table.unpack(list))
  end
  local ok, plain = pcall(function() return table.pack(call(given)) end)
  if not ok then return nil end
  local values = {}
  for i, t in ipairs(given) do
    if #t.shape > 0 then
      inputs[#inputs + 1] = keras.Input{batch_shape = t.shape, dtype = t.dtype, name = "x" .. i}
    end
  end
  if #inputs == 0 then return nil end
  local layer = keras.layers.Lambda(function(list)
    local k = 0
    for i, t in ipairs(given) do
      if #t.shape > 0 then k = k + 1 end
      values[i] = #t.shape > 0 and (#inputs == 1 and list or list[k]) or t
    end
    local out = table.pack(call(values))
    for i = out.n, 1, -1 do
      if not core.is_tensor(out[i]) then table.remove(out, i) end
    end
    return #out == 1 and out[1] or out
  end, {dtype = dtype:find("float") and dtype or nil})
  local made, model = pcall(function()
    return keras.Model{inputs = #inputs == 1 and inputs[1] or inputs,
      outputs = layer(#inputs == 1 and inputs[1] or inputs)}
  end)
  if not made then return nil end
  local fed = {}
  for _, t in ipairs(given) do
    if #t.shape > 0 then fed[#fed + 1] = t end
  end
  return model, fed, plain
end

local function told(t, i)
  local list = {}
  for k, x in ipairs(ipu.reshape(t, {-1}):totable()) do
    list[k] = t.dtype == "int64" and tostring(x) or x
  end
  return {name = "x" .. i, shape = t.shape, dtype = t.dtype, data = list}
end

-- NaN and infinities equal themselves.
local function greatest_difference(a, b)
  local x, y = ipu.cast(a, "float64"), ipu.cast(b, "float64")
  local same = ipu.logical_or(ipu.equal(x, y), ipu.logical_and(ipu.is_nan(x), ipu.is_nan(y)))
  local d = ipu.where(same, ipu.zeros_like(x), ipu.abs(x - y) / (1 + ipu.abs(x)))
  return ipu.reduce_max(ipu.where(ipu.is_nan(d), ipu.ones_like(d) * math.huge, d)):item()
end

local function told_type(t) return ("%s [%s]"):format(t.dtype, table.concat(t.shape, ", ")) end

-- A few roundings of the type, relative to 1 and the value itself.
local tolerance <const> = {float64 = 1e-12, float32 = 1e-5, float16 = 4e-3, bfloat16 = 3e-2}

---How two tensors differ in type or value, nil: they don't.
function exports.difference(wanted, got)
  if told_type(wanted) ~= told_type(got) then
    return told_type(got) .. " instead of " .. told_type(wanted)
  end
  local d = wanted.size > 0 and greatest_difference(wanted, got) or 0
  if d > (tolerance[wanted.dtype] or 0) then return ("differs by %.3g"):format(d) end
end

---How the results of a case's file, read and run here, differ from the op's; nil: they don't.
function exports.differs(case, path)
  local fed = {}
  for i, t in ipairs(case.fed) do fed[i] = t end
  local y = keras.onnx.import(path)(#fed == 1 and fed[1] or fed)
  if type(y) ~= "table" then y = {y} end
  for i, t in ipairs(case.wanted) do
    local problem = exports.difference(t, y[i])
    if problem then return problem end
  end
end

---Writes all that can be exported, and cases.json for onnx_run.js; the others are counted by what
---is said of them.
---@return table[] cases {op =, dtype =, file =, inputs =, fed =, wanted =}
---@return table<string, string> refused op → message
function exports.write(folder, dtypes)
  local names, cases, refused = {}, {}, {}
  for name in pairs(core.ops) do
    local row = core.describe_op(name)
    if not row.internal and not row.random and row.sample then names[#names + 1] = name end
  end
  table.sort(names)
  for _, name in ipairs(names) do
    for sample in (core.describe_op(name).sample .. "|"):gmatch("(.-)|") do
      local operands, attributes = samples.first_case(sample)
      for _, dtype in ipairs(dtypes) do
        local model, fed, plain = model_of(name, operands, attributes, dtype)
        local file = #cases + 1 .. ".onnx"
        local ok, problem
        if model then ok, problem = pcall(keras.onnx.export, model, folder .. "/" .. file) end
        if ok then
          local inputs = {}
          for i, t in ipairs(fed) do
            inputs[i] = told(t, tonumber(model.inputs[i].layer.name:match("%d+")))
          end
          local wanted = {}
          for _, t in ipairs(plain) do wanted[#wanted + 1] = core.is_tensor(t) and t or nil end
          cases[#cases + 1] = {op = name, dtype = dtype, file = file, inputs = inputs, fed = fed,
            wanted = wanted,
            sample = sample}
        elseif model then refused[name] = problem end
      end
    end
  end
  local list = {}
  for i, c in ipairs(cases) do list[i] = {file = c.file, inputs = c.inputs} end
  command.write(folder .. "/cases.json", ipu.json.encode(list))
  return cases, refused
end

return exports
