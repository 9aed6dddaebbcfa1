-- keras.onnx.export in halves and float64: what onnx's own tables say of the files, and what they
-- compute when they are read again. Every layer under each policy, and every op of the registry
-- with the samples of its row.

local command = require "spec.support.command"
local exports = require "spec.support.onnx_exports"
local files = require "spec.support.onnx_layers"
local ipu = require "ipulua"

local keras = ipu.keras
local if_onnx = command.python "onnx" and it or pending

-- onnx before 1.14 doesn't broadcast what an ellipsis covers.
local function is_legal(problem)
  return problem:find("Ellipsis represents incompatible", 1, true) ~= nil
end

local function wrong_types(named_paths)
  local paths, wrong = {}, {}
  for i, each in ipairs(named_paths) do paths[i] = each[2] end
  for i, problems in ipairs(files.types(paths)) do
    for _, problem in ipairs(problems) do
      if not is_legal(problem) then wrong[#wrong + 1] = named_paths[i][1] .. ": " .. problem end
    end
  end
  return wrong
end

describe("onnx.export of halves and float64", function()
  local folder
  before_each(function() folder = command.folder() end)
  after_each(function() command.remove(folder) end)

  it("gives each op types that ONNX's operator takes, and exact results", function()
    local cases, refused = exports.write(folder, {"float16", "bfloat16", "float64"})
    local wrong, named = {}, {}
    for i, case in ipairs(cases) do
      local key = ("%s of %s, %s"):format(case.op, case.dtype, case.sample)
      local path = folder .. "/" .. case.file
      local problem = exports.differs(case, path)
      if problem then wrong[#wrong + 1] = key .. ": " .. problem end
      named[i] = {key, path}
    end
    assert.same({}, wrong)
    assert(#cases >= 1000, #cases)
    if command.python "onnx" then assert.same({}, wrong_types(named)) end
    for op, message in pairs(refused) do
      assert(message:find("ONNX has no", 1, true) or message:find("onnx.export: " .. op, 1, true),
        message)
    end
  end)

  if_onnx("gives every layer under each policy a legal file that computes what the layer does",
    function()
    local cases, refused = files.write(folder, {"mixed_float16", "bfloat16", "float64"})
    local wrong, named = {}, {}
    for i, case in ipairs(cases) do
      if case.problem then wrong[#wrong + 1] = case.key .. ": " .. case.problem end
      named[i] = {case.key, case.path}
    end
    assert.same({}, wrong)
    assert.same({}, wrong_types(named))
    assert(#cases >= 500, #cases)
    for key, message in pairs(refused) do
      assert(message:find("ONNX has no", 1, true) or message:find("a mask has no counterpart", 1,
        true)
        or message:find("extent -1 of dimension 0 is negative", 1, true), key .. ": " .. message)
    end
  end)

  it("takes layers whose weights a policy casts", function()
    keras.mixed_precision.set_global_policy("mixed_float16")
    finally(function() keras.mixed_precision.set_global_policy("float32") end)
    local x = ipu.random.normal({4, 6, 8}, {seed = 1, dtype = "float16"})
    for _, layer in ipairs{keras.layers.BatchNormalization(), keras.layers.GRU{5},
      keras.layers.LSTM{5, return_sequences = true}} do
      local input = keras.Input{shape = {6, 8}, dtype = "float16"}
      local model = keras.Model{inputs = input, outputs = layer(input)}
      keras.onnx.export(model, folder .. "/m.onnx")
      local y, again = model(x), keras.onnx.import(folder .. "/m.onnx")(x)
      assert.equal("float16", again.dtype)
      assert(ipu.reduce_max(ipu.abs(ipu.cast(y, "float32") - ipu.cast(again,
        "float32"))):item() < 4e-3)
    end
  end)
end)
