-- keras.onnx.import: nodes of 16 bits whose sums or squares are greater than what 16 bits hold,
-- though their results aren't.

local command = require "spec.support.command"
local format = require "ipulua.keras.onnx.format"
local ipu = require "ipulua"

local sixteen <const> = {float16 = 2e-3, bfloat16 = 1e-2}

local function full(shape, value, dtype) return ipu.full(shape, value, {dtype = dtype}) end

-- One node: {op, opset, attributes}, x, constants.
local function run(op, opset, attributes, x, constants)
  local path <const> = command.scratch ".onnx"
  local names, initializers = {"x"}, {}
  for i, t in ipairs(constants or {}) do
    names[i + 1], initializers[i] = "c" .. i, {name = "c" .. i, tensor = t}
  end
  command.write(path, format.encode({name = "g", initializers = initializers,
    nodes = {{op = op, name = "n", inputs = names, outputs = {"y"}, attributes = attributes}},
    inputs = {{name = "x", dtype = x.dtype, shape = x.shape}}, outputs = {{name = "y"}}}, opset,
    "test"))
  local y = ipu.keras.onnx.import(path)(x)
  os.remove(path)
  return y
end

describe("an ONNX node of 16 bits", function()
  -- ReduceL2: √(1000 · 20²); ReduceLogSum: log(1000 · 200)
  local cases = {
    {"ReduceL2", 13, {axes = {1}, keepdims = 0}, {1, 1000}, 20, {632.4555}},
    {"ReduceLogSum", 13, {axes = {1}, keepdims = 0}, {1, 1000}, 200, {12.206073}},
    {"AveragePool", 19, {kernel_shape = {3}, dilations = {2}}, {1, 1, 6}, 60000, {60000, 60000}},
    {"AveragePool", 13, {kernel_shape = {2}}, {1, 1, 3}, 60000, {60000, 60000}},
  }
  for _, c in ipairs(cases) do
    local op, opset, attributes, shape, value, wanted = table.unpack(c)
    it("computes " .. op .. " of opset " .. opset .. " as if it were wide", function()
      for dtype, error in pairs(sixteen) do
        local y = run(op, opset, attributes, full(shape, value, dtype))
        assert.equal(dtype, y.dtype)
        for i, each in ipairs(y:reshape{-1}:totable()) do
          assert.is_near(wanted[i], each, wanted[i] * error)
        end
      end
    end)
  end

  it("is the mean of operands whose sum is too large", function()
    local y = run("Mean", 13, {}, full({2}, 60000, "float16"), {full({2}, 50000, "float16")})
    assert.same({54976, 54976}, y:totable()) -- 49984 is the half next to 50000
  end)

  it("is normalised though its variance is too large", function()
    for dtype in pairs(sixteen) do
      local x = ipu.cast(ipu.tensor{{{-400, 400, -400, 400}}}, dtype)
      local one, zero = full({1}, 1, dtype), full({1}, 0, dtype)
      local nodes = {
        {"InstanceNormalization", 13, {}, {one, zero}},
        {"BatchNormalization", 15, {training_mode = 1}, {one, zero, zero, one}},
      }
      for _, c in ipairs(nodes) do
        local y = run(c[1], c[2], c[3], x, c[4])
        assert.equal(dtype, y.dtype)
        assert.same({{{-1, 1, -1, 1}}}, y:totable())
      end
    end
  end)
end)
