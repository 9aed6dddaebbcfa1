-- keras.onnx.import against ONNX's own test cases of nodes, which python3-onnx brings with their
-- results. Every case gives ONNX's result, with three exceptions. Operators that are not imported
-- have their names here. Types that are not known are refused by name. A few cases have their own
-- names here.
local ipu = require "ipulua"
local command = require "spec.support.command"
local interpret = require "ipulua.keras.onnx.interpret"

local import = ipu.keras.onnx.import
local there = command.python "onnx"

-- Operators of the cases that are not imported (of opset 17 or 22).
local foreign <const> = [[
  AffineGrid Bernoulli BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor BlackmanWindow
  CenterCropPad Col2Im Compress ConvInteger DFT DeformConv DequantizeLinear Det
  DynamicQuantizeLinear EyeLike GatherElements Gelu GridSample GroupNormalization HammingWindow
  HannWindow Hardmax If ImageDecoder LRN Loop LpPool MatMulInteger MaxUnpool
  MeanVarianceNormalization MelWeightMatrix Mish NegativeLogLikelihoodLoss NonMaxSuppression
  NonZero OptionalGetElement OptionalHasElement QLinearConv QLinearMatMul QuantizeLinear
  RandomUniformLike RegexFullMatch Resize ReverseSequence RoiAlign STFT Scan Scatter
  ScatterElements ScatterND SequenceEmpty SequenceInsert SequenceLength SequenceMap
  SoftmaxCrossEntropyLoss SplitToSequence StringConcat StringNormalizer StringSplit
  TfIdfVectorizer Trilu Unique Upsample ai.onnx.ml.ArrayFeatureExtractor ai.onnx.ml.Binarizer
  ai.onnx.ml.LabelEncoder ai.onnx.ml.TreeEnsemble ai.onnx.preview.training.Adagrad
  ai.onnx.preview.training.Adam ai.onnx.preview.training.Momentum
]]

-- Cases of imported operators that don't give what ONNX says: what is told instead. The first four
-- drop by NumPy's random numbers. The last one also counts the elements that ceil_mode adds beyond
-- the frame, which onnx itself corrected in version 1.18.
local excepted <const> = {
  test_training_dropout = "training_mode is not known here",
  test_training_dropout_default = "training_mode is not known here",
  test_training_dropout_default_mask = "training_mode is not known here",
  test_training_dropout_mask = "training_mode is not known here",
  test_averagepool_3d_dilations_large_count_include_pad_is_1_ceil_mode_is_True = "element %d+ is",
}

-- Opset → how many cases there are: all, good, of types that are refused, of other operators,
-- excepted.
local counts <const> = {
  [17] = {all = 924, good = 602, refused = 22, foreign = 296, excepted = 4},
  [22] = {all = 1288, good = 762, refused = 74, foreign = 447, excepted = 5},
}

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

local tolerances <const> = {float16 = 1e-2, bfloat16 = 1e-2} -- others: 1e-4

local function is_near(got, wanted, dtype)
  if type(got) == "boolean" then return got == wanted end
  wanted = number(wanted)
  if got == wanted or (got ~= got and wanted ~= wanted) then return true end
  return math.abs(got - wanted) <= (tolerances[dtype] or 1e-4) * math.max(1, math.abs(wanted))
end

-- The fault of the results; nil if there is none.
local function compare(results, outputs)
  for i, wanted in ipairs(outputs) do
    local got = results[i]
    if not got then return "there is no result " .. i end
    local type_of = got.dtype .. "[" .. table.concat(got.shape, ",") .. "]"
    if type_of ~= wanted.dtype .. "[" .. table.concat(wanted.shape, ",") .. "]" then
      return "the type is " .. type_of
    end
    local list = got.size == 0 and {} or ipu.reshape(got, {-1}):totable()
    if #list ~= #wanted.data then return ("%d elements, not %d"):format(#list, #wanted.data) end
    for k, value in ipairs(wanted.data) do
      if not is_near(list[k], value, wanted.dtype) then
        return ("element %d is %s, not %s"):format(k, list[k], value)
      end
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

-- Whether the import refuses a file because of a type, and names it; else what is wrong.
local function check_refused(folder, case)
  local ok, problem = pcall(import, folder .. "/" .. case.file)
  if ok then return "it is not refused" end
  for _, name in ipairs(case.types) do
    if problem:find("type " .. name .. " is not known here", 1, true) then return nil end
    if problem:find("not known here: " .. name, 1, true) then return nil end
  end
  return problem
end

local function unknown_of(case)
  local names = {}
  for _, op in ipairs(case.ops) do
    if not interpret[op] then names[#names + 1] = op end
  end
  return names
end

-- The kind of a case, and what is wrong with it (nil: nothing).
local function judge(folder, case)
  local unknown = unknown_of(case)
  for _, op in ipairs(unknown) do
    if not foreign:find(" " .. op .. "%f[%s]") then
      return "foreign", "operator " .. op .. " is neither imported nor listed"
    end
  end
  if #unknown > 0 then return "foreign" end
  if #case.types > 0 then return "refused", check_refused(folder, case) end
  local ok, problem = pcall(run, folder, case)
  local told = excepted[case.name]
  if not told then return "good", not ok and tostring(problem) or problem end
  if problem and problem:find(told) then return "excepted" end
  return "excepted", "not as listed: " .. tostring(problem)
end

describe("onnx.import", function()
  (there and it or pending)("gives what ONNX says of each node that it knows", function()
    local folder = command.folder()
    finally(function() command.remove(folder) end)
    local made = command.run{command.python "onnx", "-W", "ignore",
      "spec/support/onnx_cases.py", folder}
    assert.equal(0, made.status, made.err)
    local list = ipu.json.decode(command.read(folder .. "/cases.json"))
    local found, wrong = {all = #list.cases, good = 0, refused = 0, foreign = 0, excepted = 0}, {}
    for _, case in ipairs(list.cases) do
      local kind, problem = judge(folder, case)
      found[kind] = found[kind] + 1
      if problem then wrong[#wrong + 1] = case.name .. ": " .. problem end
    end
    assert.same({}, wrong)
    assert.same(counts[list.opset], found, "cases of opset " .. list.opset)
  end)

  it("has no operator among those that are not imported", function()
    for op in foreign:gmatch("%S+") do assert.is_nil(interpret[op], op) end
  end)
end)
