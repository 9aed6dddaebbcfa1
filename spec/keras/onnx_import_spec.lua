-- keras.onnx.import: operators at the opsets that files name, what is refused and how, and legal
-- but unusual nodes beside onnxruntime.

local command = require "spec.support.command"
local attributes = require "ipulua.keras.onnx.attributes"
local format = require "ipulua.keras.onnx.format"
local graphs = require "spec.support.onnx_graphs"
local interpret = require "ipulua.keras.onnx.interpret"
local ipu = require "ipulua"
local schemas = require "ipulua.keras.onnx.schemas"

local import = ipu.keras.onnx.import

local function long(list) return ipu.tensor(list, {dtype = "int64"}) end
local function int(list) return ipu.tensor(list, {dtype = "int32"}) end

describe("onnx.import", function()
  local path
  before_each(function() path = command.scratch ".onnx" end)
  after_each(function() os.remove(path) end)

  -- A file of nodes {op, inputs, outputs, attributes}; inputs and constants by name.
  local function write(opset, nodes, inputs, constants, outputs)
    local g = {name = "g", nodes = {}, initializers = {}, inputs = {}, outputs = {}}
    for i, n in ipairs(nodes) do
      g.nodes[i] = {op = n[1], name = "n" .. i, inputs = n[2], outputs = n[3],
        attributes = n[4] or {}}
    end
    for name, t in pairs(constants or {}) do
      g.initializers[#g.initializers + 1] = {name = name, tensor = t}
    end
    for i, each in ipairs(inputs) do
      g.inputs[i] = {name = each[1], dtype = each[2].dtype, shape = each[2].shape}
    end
    for i, name in ipairs(outputs or {"y"}) do g.outputs[i] = {name = name} end
    command.write(path, format.encode(g, opset, "test"))
  end

  local function run(opset, nodes, inputs, constants, outputs)
    write(opset, nodes, inputs, constants, outputs)
    local given = {}
    for i, each in ipairs(inputs) do given[i] = each[2] end
    return import(path)(#given == 1 and given[1] or given)
  end

  -- One node of x, further operands being constants; false: left out.
  local function node(op, opset, x, more, a)
    local names, constants = {"x"}, {}
    for i, t in ipairs(more or {}) do
      names[i + 1] = t and "c" .. i or ""
      if t then constants["c" .. i] = t end
    end
    return run(opset, {{op, names, {"y"}, a}}, {{"x", x}}, constants)
  end

  local one_to_six = ipu.reshape(ipu.cast(ipu.arange(1, 7), "float32"), {2, 3})

  -- op, opset, x, constants, attributes, what comes out: by hand, from the operators' pages.
  local cases <const> = {
    {"Div", 13, int{16777217, 2147483647, -7, 7, -6}, {int{1, 1, 2, -2, 3}}, nil,
      {16777217, 2147483647, -3, -3, -2}},
    {"Div", 13, long{(1 << 53) + 1, math.mininteger}, {long{1, 3}}, nil,
      {(1 << 53) + 1, -3074457345618258602}},
    {"Mod", 13, int{-7, 7}, {int{3, -3}}, {fmod = 1}, {-1, 1}},
    {"Mod", 13, int{-7, 7}, {int{3, -3}}, nil, {2, -2}},
    {"Pow", 13, int{0, 1, 4, 9}, {ipu.tensor(0.5)}, nil, {0, 1, 2, 3}},
    {"Pow", 13, ipu.tensor{2.0, 3.0}, {long(3)}, nil, {8, 27}},
    {"Pow", 13, ipu.tensor{-1.0, 1}, {long((1 << 24) + 1)}, nil, {-1, 1}},
    {"Pow", 13, ipu.cast(ipu.tensor{-1.0, 1}, "float16"), {int{2049, -70000}}, nil, {-1, 1}},
    {"ReduceMean", 13, int{1, 2, 5}, nil, {axes = {0}, keepdims = 0}, 2},
    {"ReduceMean", 13, int{-1, -2, -5}, nil, {keepdims = 0}, -2},
    {"ReduceMean", 13, long{1 << 60, 1 << 60}, nil, {keepdims = 0}, 1 << 60},
    {"ReduceL2", 13, int{3, 4}, nil, {keepdims = 0}, 5},
    {"MaxPool", 12, ipu.full({1, 1, 4}, -math.huge), nil, {kernel_shape = {2}, pads = {1, 1}},
      {{{-math.huge, -math.huge,
      -math.huge, -math.huge,
      -math.huge}}}},
    {"MaxPool", 12, ipu.reshape(ipu.cast(ipu.arange(11), "float32"), {1, 1, 11}), nil,
      {kernel_shape = {2}, strides = {2}, pads = {1, 1},
      ceil_mode = 1}, {{{0, 2, 4, 6, 8, 10}}}},
    {"AveragePool", 12, ipu.tensor{{{1.0, 2, 3, 4, 5, 6}}}, nil,
      {kernel_shape = {4}, strides = {3}, ceil_mode = 1}, {{{2.5, 5}}}},
    {"AveragePool", 12, ipu.tensor{{{1.0, 2, 3, 4, 5, 6}}}, nil,
      {kernel_shape = {4}, strides = {3}, pads = {2, 0}, ceil_mode = 1,
      count_include_pad = 1}, {{{0.75, 3.5, 5.5}}}},
    {"ConvTranspose", 11, ipu.ones{1, 1, 3}, {ipu.tensor{{{1.0, 2, 4, 8}}}},
      {strides = {2}, output_shape = {6}}, {{{2, 5, 10,
      5, 10, 4}}}},
    {"ConvTranspose", 11, ipu.ones{1, 1, 3}, {ipu.tensor{{{1.0, 2, 4, 8}}}},
      {strides = {2}, auto_pad = "SAME_UPPER"},
      {{{2, 5, 10, 5, 10, 4}}}},
    {"ConvTranspose", 11, ipu.ones{1, 2, 2}, {ipu.tensor{{{1.0, 2}}, {{10, 20}}}}, {group = 2},
      {{{1, 3, 2}, {10, 30, 20}}}},
    {"GatherND", 13, ipu.tensor{1.0, 2, 3, 4, 5}, {long{{-1}, {0}}}, nil, {5, 1}},
    {"GatherND", 13, one_to_six, {long{{-1, -3}, {0, -1}}}, nil, {4, 3}},
    {"Pad", 13, ipu.tensor{1.0, 2, 3}, {long{-1, 2}}, nil, {2, 3, 0, 0}},
    {"Pad", 13, long{1, 2}, {long{1, 0}, long((1 << 53) + 1)}, nil,
      {(1 << 53) + 1, 1, 2}},
    {"Pad", 13, ipu.tensor{1.0, 2, 3}, {long{2, -1}}, {mode = "edge"}, {1, 1, 1, 2}},
    {"Pad", 2, ipu.tensor{1.0}, nil,
      {pads = {1, 0}, value = 7.0}, {7, 1}},
    {"Pad", 1, one_to_six, nil, {paddings = {0, 1, 0, 1}}, {{0, 1, 2, 3, 0}, {0, 4, 5, 6, 0}}},
    {"Reshape", 1, one_to_six, nil, {shape = {3, 0}}, {{1, 2, 3}, {4, 5, 6}}, refused = true},
    {"Reshape", 1, one_to_six, nil, {shape = {3, 2}, consumed_inputs = {1}},
      {{1, 2}, {3, 4}, {5, 6}}},
    {"Concat", 1, one_to_six, {one_to_six}, nil, {{1, 2, 3, 1, 2, 3}, {4, 5, 6, 4, 5, 6}}},
    {"Tile", 1, one_to_six, {long(2), long(1)}, nil, {{1, 2, 3, 1, 2, 3}, {4, 5, 6, 4, 5, 6}}},
    {"Cast", 1, ipu.tensor{1.7},
      nil, {to = "INT32"}, {1}},
    {"Add", 6, one_to_six, {ipu.tensor{10.0, 20}}, {broadcast = 1, axis = 0},
      {{11, 12, 13}, {24, 25, 26}}},
    {"Sub", 1, one_to_six, {ipu.tensor{1.0, 2, 3}}, {broadcast = 1}, {{0, 0, 0}, {3, 3, 3}}},
    {"PRelu", 6, ipu.tensor{{{-1.0, 1}, {-1, -2}}}, {ipu.tensor{10.0, 20}}, nil,
      {{{-10, 1}, {-20, -40}}}},
    {"Clip", 6, ipu.tensor{-9.0, 1, 9}, nil, {min = -2.0}, {-2, 1, 9}},
    {"Clip", 13, int{-9, 1, 9}, {false, int(3)}, nil, {-9, 1, 3}},
    {"Softmax", 11, ipu.zeros{1, 2, 2}, nil, nil, {{{0.25, 0.25}, {0.25, 0.25}}}},
    {"Softmax", 13, ipu.zeros{1, 2, 2}, nil,
      nil, {{{0.5, 0.5}, {0.5, 0.5}}}},
    {"TopK", 11, ipu.tensor({0, 255, 3}, {dtype = "uint8"}), {long{1}}, {largest = 0}, {0},
      outputs = {"y", "i"}},
    {"ReduceMean", 18, int{1, 2, 5}, {long{0}}, {keepdims = 0}, 2},
    {"ReduceMean", 22, one_to_six, {long{-1}}, nil, {{2}, {5}}},
    {"ReduceMax", 18, one_to_six, nil, {noop_with_empty_axes = 1}, {{1, 2, 3}, {4, 5, 6}}},
    {"ReduceMax", 18, one_to_six,
      {long{}}, {keepdims = 0}, 6},
    {"ReduceMax", 20, ipu.tensor{{true, false}, {false, false}}, {long{1}}, {keepdims = 0},
      {true, false}},
    {"ReduceMin", 20, ipu.tensor{{true, false}, {true, true}}, {long{1}}, {keepdims = 0},
      {false, true}},
    {"Pad", 18, one_to_six, {long{1, 1}, false, long{-1}}, nil, {{0, 1, 2, 3, 0}, {0, 4, 5, 6, 0}}},
    {"Pad", 18, one_to_six, {long{0, 1, 1, 0}, ipu.tensor(9.0), long{1, 0}}, nil,
      {{9, 9, 9, 9}, {1, 2, 3, 9}, {4, 5, 6, 9}}},
    {"Pad", 19, ipu.tensor{1.0, 2, 3}, {long{4, 2}}, {mode = "wrap"}, {3, 1, 2, 3, 1, 2, 3, 1, 2}},
    {"Pad", 19, one_to_six, {long{1, 0, 0, 7}}, {mode = "wrap"},
      {{4, 5, 6, 4, 5, 6, 4, 5, 6, 4}, {1, 2, 3, 1, 2, 3, 1, 2, 3, 1},
      {4, 5, 6, 4, 5, 6, 4, 5, 6, 4}}},
    {"MaxPool", 12, ipu.tensor{{{1.0, 3, 2, 5, 4}}}, nil, {kernel_shape = {2}, dilations = {2}},
      {{{2, 5, 4}}}},
    {"MaxPool", 12, ipu.tensor{{{-1.0, -3, -2, -5, -4}}}, nil,
      {kernel_shape = {2}, dilations = {3}, strides = {2}, pads = {1, 1}},
      {{{-2, -3}}}},
    {"AveragePool", 19, ipu.tensor{{{1.0, 2, 3, 4, 5}}}, nil, {kernel_shape = {2}, dilations = {2}},
      {{{2, 3, 4}}}},
    {"AveragePool", 19, ipu.tensor{{{1.0, 2, 3, 4, 5}}}, nil,
      {kernel_shape = {2}, dilations = {2}, pads = {1, 1}}, {{{2, 2, 3,
      4, 4}}}},
    {"AveragePool", 19, ipu.tensor{{{1.0, 2, 3, 4, 5}}}, nil,
      {kernel_shape = {2}, dilations = {2}, pads = {1, 1}, count_include_pad = 1},
      {{{1, 2, 3, 4, 2}}}},
    {"AveragePool", 22, ipu.tensor{{{1.0, 2, 3, 4, 5, 6}}}, nil,
      {kernel_shape = {2}, dilations = {2}, strides = {3}, ceil_mode = 1,
      count_include_pad = 1}, {{{2, 5}}}},
    {"GatherND", 13, one_to_six, {long{{1}, {-3}}}, {batch_dims = 1}, {2, 4}},
    {"GatherND", 13, ipu.reshape(one_to_six, {1, 2, 3}), {long{{{2}, {0}}}},
      {batch_dims = 2}, {{3, 4}}},
    {"Cast", 19, ipu.tensor{1.7}, nil, {to = 6, saturate = 0}, {1}},
    {"MatMul", 13, ipu.tensor{1.0, 2, 3}, {ipu.tensor{4.0, 5, 6}}, nil, 32},
    {"Split", 13, one_to_six, {long{2}}, {axis = 0},
      {{1, 2, 3}, {4, 5, 6}}},
    {"LayerNormalization", 17, ipu.cast(ipu.tensor{{1000.0, 1001}}, "float16"),
      {ipu.ones({2}, {dtype = "float16"})},
      {epsilon = 0.0}, {{-1, 1}}},
    {"Slice", 13, one_to_six, {long{2}, long{math.mininteger}, long{1}, long{-2}}, nil,
      {{3, 1}, {6, 4}}},
    {"OneHot", 11, long{-1, 0, 5}, {long{2}, long{7, (1 << 53) + 1}}, nil,
      {{7, (1 << 53) + 1}, {(1 << 53) + 1, 7}, {7, 7}}},
    -- beyond int32 there is no class, however the lower 32 bits may look
    {"OneHot", 11, long{1, (1 << 32) + 1, -(1 << 32) - 1}, {long{2}, long{0, 1}}, nil,
      {{0, 1}, {0, 0}, {0, 0}}},
    {"Gather", 13, one_to_six, {long{(1 << 32) + 1}}, nil, refused = true},
    {"GatherND", 13, one_to_six, {long{{(1 << 32) + 1}}}, nil, refused = true},
  }
  for _, c in ipairs(cases) do
    it("computes " .. c[1] .. " of opset " .. c[2] .. " of " .. c[3].dtype, function()
      if c.refused then
        assert.has_error(function() node(c[1], c[2], c[3], c[4], c[5]) end)
        return
      end
      local got = c.outputs and run(c[2], {{c[1], {"x", "k"}, c.outputs, c[5]}}, {{"x", c[3]}},
        {k = c[4][1]}) or node(c[1],
        c[2], c[3], c[4], c[5])
      assert.equal(c[3].dtype, c[1] == "OneHot" and "int64" or c[1] == "Cast" and "float32"
        or got.dtype)
      local function same(wanted, value)
        if type(wanted) ~= "table" then
          return wanted == value or math.abs(wanted - value) < 1e-3
        end
        for i, each in ipairs(wanted) do
          assert(same(each, value[i]), ("element %d is %s"):format(i, tostring(value[i])))
        end
        return #wanted == #value
      end
      assert.is_true(same(c[6], #got.shape == 0 and got:item() or got:totable()))
    end)
  end

  -- from + i · step in the operands' own type, as numpy.arange gives it.
  it("ranges in the type of its operands", function()
    local function range(dtype, from, to, step)
      local constants = {}
      for name, number in pairs{a = from, b = to, c = step} do
        constants[name] = ipu.tensor(number, {dtype = dtype})
      end
      local got = run(11, {{"Range", {"a", "b", "c"}, {"y"}}}, {{"x", one_to_six}}, constants)
      assert.equal(dtype, got.dtype)
      return got:totable()
    end
    assert.same({1 << 40, (1 << 40) + 3}, range("int64", 1 << 40, (1 << 40) + 5, 3))
    assert.same({0.1, 0.1 + 0.1, 0.1 + 2 * 0.1}, range("float64", 0.1, 0.35, 0.1))
    assert.same({0.5, 0.25, 0}, range("float16", 0.5, -0.25, -0.25))
    assert.same({5, 2, -1, -4}, range("int32", 5, -6, -3))
  end)

  it("takes the type's other end for the greatest or least element of nothing", function()
    local function of_nothing(op, dtype)
      return run(20, {{op, {"c", "a"}, {"y"}}}, {{"x", one_to_six}},
        {c = ipu.zeros({2, 0}, {dtype = dtype}), a = long{1}}):totable()
    end
    for dtype, ends in pairs{float32 = {-math.huge, math.huge}, float16 = {-math.huge, math.huge},
      int64 = {math.mininteger, math.maxinteger},
      int32 = {-2147483648, 2147483647}, int8 = {-128, 127}, uint8 = {0, 255},
      bool = {false, true}} do
      assert.same({{ends[1]}, {ends[1]}}, of_nothing("ReduceMax", dtype))
      assert.same({{ends[2]}, {ends[2]}}, of_nothing("ReduceMin", dtype))
    end
  end)

  it("cuts num_outputs parts, and the last one may be smaller", function()
    local function parts(count, a)
      local names = {"a", "b", "c"}
      local out = run(18, {{"Split", {"x"}, table.move(names, 1, count, 1, {}), a}},
        {{"x", ipu.tensor{1.0, 2, 3, 4, 5, 6, 7}}}, {},
        table.move(names, 1, count, 1, {}))
      for i, each in ipairs(out) do out[i] = each:totable() end
      return out
    end
    assert.same({{1, 2, 3}, {4, 5, 6}, {7}}, parts(3, {num_outputs = 3}))
    assert.same({{1, 2, 3, 4}, {5, 6, 7}}, parts(2, {num_outputs = 2}))
    assert.error_matches(function() parts(2, {}) end,
      "an extent of 7 can't be cut into 2 equal parts")
  end)

  it("tells where a pool's greatest elements are", function()
    local image = ipu.tensor{{{{1.0, 2, 2}, {5, 2, 9}}}, {{{7, 7, 0}, {7, 7, -1}}}}
    local function indices(a)
      a.kernel_shape = {2, 2}
      local out = run(12, {{"MaxPool", {"x"}, {"y", "i"}, a}}, {{"x", image}}, {}, {"y", "i"})
      assert.equal("int64", out[2].dtype)
      return out[1]:totable(), out[2]:totable()
    end
    local values, at = indices{}
    assert.same({{{{5, 9}}}, {{{7, 7}}}}, values)
    assert.same({{{{3, 5}}}, {{{6, 7}}}}, at) -- of equal ones the first
    values, at = indices{storage_order = 1}
    assert.same({{{{1, 5}}}, {{{6, 8}}}}, at)
    assert.same({{{{5, 9}}}, {{{7, 7}}}}, values)
    image = ipu.full({1, 1, 1, 2}, -math.huge) -- never the frame
    assert.same({{{{0, 0, 1}, {0, 0, 1}}}}, select(2, indices{pads = {1, 1, 1, 1}}))
  end)

  -- Channel 1 is 1, 3, 5, 7: mean 4, variance 5; channel 2 all 2.
  it(
    "normalises by the batch's statistics with training_mode, and keeps the running ones",
    function()
    local x = ipu.tensor{{{1.0, 3}, {2, 2}}, {{5, 7}, {2, 2}}}
    local out = run(15,
      {{"BatchNormalization", {"x", "s", "b", "m", "v"}, {"y", "rm", "rv"},
        {training_mode = 1, momentum = 0.75,
      epsilon = 0.0625}}}, {{"x", x}}, {s = ipu.tensor{2.25, 1}, b = ipu.tensor{1.0, 10},
      m = ipu.tensor{8.0, 6}, v = ipu.tensor{1.0, 4}},
      {"y", "rm", "rv"})
    assert.same({{7, 5}, {2, 3}}, {out[2]:totable(), out[3]:totable()})
    local y = out[1]:totable()
    assert.same({{10, 10}, {10, 10}}, {y[1][2], y[2][2]})
    -- 2.25 / sqrt(5.0625) = 1
    assert(math.abs(y[1][1][1] - (1 - 3 * 1)) < 1e-6 and math.abs(y[2][1][2] - (1 + 3 * 1)) < 1e-6)
  end)

  it("drops nothing in training where the ratio is 0", function()
    local out = run(13, {{"Dropout", {"x", "r", "t"}, {"y", "k"}}}, {{"x", one_to_six}},
      {r = ipu.tensor(0.0), t = ipu.tensor(true)}, {"y", "k"})
    assert.same({{{1, 2, 3}, {4, 5, 6}}, {{true, true, true}, {true, true, true}}},
      {out[1]:totable(), out[2]:totable()})
  end)

  -- One unit, no own weights: i = σ(x + c), f = σ(x / 2 c), and so on, step by step in Lua's
  -- numbers.
  it("runs LSTMs with peephole weights, forwards and backwards", function()
    local function sigmoid(v) return 1 / (1 + math.exp(-v)) end
    local function tanh(v) return 2 * sigmoid(2 * v) - 1 end
    local wanted = {{}, {}}
    for d, p in ipairs{{1, 0.25, 0.5}, {2, -0.5, 0}} do -- input, output, forget
      local c = 0
      for _, x in ipairs(d == 1 and {0.5, -1, 2} or {2, -1, 0.5}) do
        c = sigmoid(x + p[3] * c) * c + sigmoid(x + p[1] * c) * tanh(x)
        table.insert(wanted[d], d == 1 and #wanted[d] + 1 or 1, sigmoid(x + p[2] * c) * tanh(c))
      end
    end
    local y = node("LSTM", 22, ipu.tensor{{{0.5}}, {{-1.0}}, {{2.0}}},
      {ipu.ones{2, 4, 1}, ipu.zeros{2, 4, 1}, false, false, false, false,
      ipu.tensor{{1.0, 0.25, 0.5}, {2, -0.5, 0}}}, {direction = "bidirectional", hidden_size = 1})
    for t = 1, 3 do
      for d = 1, 2 do
        assert(math.abs(y:totable()[t][d][1][1] - wanted[d][t]) < 1e-6, t .. ", " .. d)
      end
    end
  end)

  for _, op in ipairs{"RNN", "GRU", "LSTM"} do
    it("gives the same numbers of " .. op .. " with the batch first", function()
      local gates, options = ({RNN = 1, GRU = 3, LSTM = 4})[op], {seed = 3}
      local x, h = ipu.random.normal({5, 2, 3}, options), ipu.random.normal({2, 2, 4}, options)
      local weights = {w = ipu.random.normal({2, 4 * gates, 3}, options),
        r = ipu.random.normal({2, 4 * gates, 4}, options)}
      local function out(layout, v, initial)
        weights.h = initial
        return run(22,
          {{op, {"x", "w", "r", "", "", "h"}, {"y", "f"},
            {direction = "bidirectional", layout = layout, hidden_size = 4}}},
          {{"x", v}}, weights, {"y", "f"})
      end
      local a, b = out(0, x, h), out(1, ipu.transpose(x, {1, 0, 2}), ipu.transpose(h, {1, 0, 2}))
      assert.same({{2, 5, 2, 4}, {2, 2, 4}}, {b[1].shape, b[2].shape})
      assert.same(ipu.transpose(a[1], {2, 0, 1, 3}):totable(), b[1]:totable())
      assert.same(ipu.transpose(a[2], {1, 0, 2}):totable(), b[2]:totable())
    end)
  end

  it("names an opset and types that are not known", function()
    assert.error_matches(function() node("Relu", 23, one_to_six) end,
      "it is of opset 23; 1 to 22 are known here")
    assert.same({{1, 2, 3}, {4, 5, 6}}, node("Relu", 22, one_to_six):totable())
    write(21, {{"Identity", {"x"}, {"y"}}}, {{"x", one_to_six}})
    local bytes = command.read(path)
    local at = assert(bytes:find("\8\1\18", 1, true)) -- the element type of x: 1, float32
    for number, name in pairs{[4] = "uint16", [8] = "string", [17] = "float8e4m3fn",
      [22] = "int4"} do
      command.write(path, bytes:sub(1, at) .. string.char(number) .. bytes:sub(at + 2))
      assert.error_matches(function() import(path) end,
        "input 'x' is of a type that is not known here: " .. name)
      assert.equal("not_implemented", ipu.last_error().kind)
    end
  end)

  -- Wanted: asinh(x) = log(x + sqrt(x² + 1)) and so on, with 16 digits.
  for op,
    list in pairs{Asinh = {{-300, -6.3969327119}, {-5000, -9.2103403819}, {1e20, 46.744849040},
      {1e-6, 1e-6}, {-0.5,
    -0.4812118251}},
    Acosh = {{1e20, 46.744849040}, {1, 0}, {1.5, 0.9624236501}, {2, 1.3169578969},
      {1 + 2^-20, 0.0013810679}},
    Atanh = {{1e-7, 1e-7}, {0.5, 0.5493061443}, {-0.999, -3.8002011672}}} do
    it("computes " .. op .. " of small, large and negative numbers", function()
      for _, pair in ipairs(list) do
        local y = node(op, 13, ipu.tensor{pair[1] + 0.0}):totable()[1]
        assert(math.abs(y - pair[2]) <= 1e-5 * math.abs(pair[2]),
          op .. "(" .. pair[1] .. ") = " .. y)
      end
    end)
  end

  it("takes an empty name for an operand or output that is left out", function()
    local s, w = ipu.ones{6}, ipu.random.normal({6, 5}, {seed = 1})
    local nodes = {{"LayerNormalization", {"x", "s"}, {"a", "", "inv"}},
      {"Gemm", {"a", "w", ""}, {"y"}}}
    local x = ipu.random.normal({4, 6}, {seed = 2}) + 3
    local d = x - ipu.reduce_mean(x, {axis = 1, keepdims = true})
    local want =
      ipu.matmul(d / ipu.sqrt(ipu.reduce_mean(d * d, {axis = 1, keepdims = true}) + 1e-5), w)
    assert.is_true(ipu.reduce_max(ipu.abs(run(17, nodes, {{"x", x}}, {s = s, w = w}) - want)):item()
      < 1e-4)
  end)

  it("tells inputs apart whose names differ in odd characters alone", function()
    local y = run(13, {{"Sub", {"a.b", "a_b"}, {"c"}}, {"Sub", {"c", "a:b"}, {"y"}}},
      {{"a.b", ipu.tensor{9.0}}, {"a_b", ipu.tensor{4.0}},
      {"a:b", ipu.tensor{1.0}}})
    assert.same({4}, y:totable())
  end)

  it("gives constants and inputs as outputs, too", function()
    local out = run(13, {{"Identity", {"x"}, {"y"}}, {"Shape", {"x"}, {"s"}}}, {{"x", one_to_six}},
      {c = long{5}}, {"y", "s", "c"})
    assert.same({{2, 3}, {5}}, {out[2]:totable(), out[3]:totable()})
  end)

  -- Attributes that a page doesn't have at that opset, has in another form, or has and the import
  -- doesn't read.
  for _, c in ipairs{
    {"the attribute 'speed' is not known here at opset 13", "Relu", 13, {}, {speed = 1}},
    {"the attribute 'axes' is not known here at opset 13", "Squeeze", 13, {}, {axes = {0}}},
    {"the attribute 'ceil_mode' is not known here at opset 7", "MaxPool", 7, {},
      {kernel_shape = {2}, ceil_mode = 1}},
    {"the attribute 'kernel_shape' is missing", "MaxPool", 12, {}, {}},
    {"the attribute 'axis' is to be an integer", "Softmax",
      13, {}, {axis = "1"}},
    {"it has 2 operands, where ONNX has 1 at most at opset 13", "Relu", 13, {one_to_six}, {}},
    {"its operand 2 is missing",
      "Add", 13, {}, {}},
    {"its operand 3 is missing", "Where", 16, {one_to_six}, {}},
    {"axis 4 is none of an operand of rank 2", "Softmax", 13, {},
      {axis = 4}},
    {"the attribute 'dilations' is not known here at opset 18", "AveragePool", 18, {},
      {kernel_shape = {2}, dilations = {2}},
      ipu.ones{1, 1, 5}},
    {"its windows are larger than its operand's extent of 5", "MaxPool", 12, {},
      {kernel_shape = {4}, dilations = {2}}, ipu.ones{1, 1, 5}},
    {"kernel extents of 5000 are not known here", "MaxPool", 12, {},
      {kernel_shape = {5000}, dilations = {2}}, ipu.ones{1, 1, 10000}},
    {"the attribute 'axes' is not known here at opset 18", "ReduceMax", 18, {}, {axes = {0}}},
    {"it has 2 operands, where ONNX has 1 at most at opset 17", "ReduceMax", 17, {long{0}}},
    {"the attribute 'num_outputs' is not known here at opset 17", "Split", 17, {},
      {num_outputs = 1}},
    {"num_outputs is 2, but it has 1 outputs", "Split", 18, {}, {num_outputs = 2}},
    {"it has both sizes and num_outputs", "Split", 18, {long{2}}, {num_outputs = 1}},
    {"padding of mode wrap is not known here at opset 18", "Pad", 18, {long{0, 1, 0, 0}},
      {mode = "wrap"}},
    {"it has 4 operands, where ONNX has 3 at most at opset 17", "Pad", 17,
      {long{1, 1}, false, long{1}}},
    {"2 paddings for 2 axes", "Pad", 18, {long{1, 1}, false, long{0, 1}}},
    {"its axes name axis %-2 twice", "Pad", 18,
      {long{1, 1, 1, 1}, false, long{0, -2}}},
    {"axis 2 is none of an operand of rank 2", "Pad", 18, {long{1, 1}, false, long{2}}},
    {"the type float8e4m3fn is not known here", "Cast", 19, {}, {to = 17}},
    {"the type int4 is not known here", "Cast", 21, {}, {to = 22}},
    {"the type UINT16 is not known here", "Cast", 1, {}, {to = "UINT16"}},
    {"the attribute 'saturate' is not known here at opset 18", "Cast", 18, {},
      {to = 1, saturate = 0}},
    {"batch_dims 2 leaves no axis of an operand of rank 2", "GatherND", 13, {long{{0}, {1}}},
      {batch_dims = 2}},
    {"extent 1 of its operands is 2 and 3", "GatherND", 13, {long{{0}, {1}, {0}}},
      {batch_dims = 1}},
    {"peephole weights %(P%) over 5000 steps are not known here", "LSTM", 14,
      {ipu.ones{1, 4, 1}, ipu.ones{1, 4, 1}, false, false, false,
      false, ipu.ones{1, 3}}, {}, ipu.ones{5000, 1, 1}},
    {"clip is not known here", "RNN", 14, {ipu.ones{1, 2, 3}, ipu.ones{1, 2, 2}}, {clip = 1.0},
      ipu.ones{2, 2, 3}},
    {"activation_alpha and activation_beta are not known here", "RNN", 14,
      {ipu.ones{1, 2, 3}, ipu.ones{1, 2, 2}},
      {activation_alpha = {0.5}}, ipu.ones{2, 2, 3}},
    {"input_forget is not known here", "LSTM", 14, {ipu.ones{1, 8, 3}, ipu.ones{1, 8, 2}},
      {input_forget = 1}, ipu.ones{2, 2, 3}},
    {"hidden_size doesn't match its weights", "RNN", 14, {ipu.ones{1, 2, 3}, ipu.ones{1, 2, 2}},
      {hidden_size = 3}, ipu.ones{2, 2, 3}},
    {"sequence_lens are not known here", "RNN", 14,
      {ipu.ones{1, 2, 3}, ipu.ones{1, 2, 2}, false, int{1, 2}}, {}, ipu.ones{2, 2, 3}},
    {"training %(is_test = 0%) is not known here", "Dropout", 6, {}, {}},
    {"training_mode is not known here", "Dropout", 13,
      {ipu.tensor(0.5), ipu.tensor(true)}},
    {"Shrink of int32 is not known here",
      "Shrink", 9, {}, {}, int{1}},
    {"erf: operands must be floating point, got int32", "Erf", 13, {}, {}, int{1}},
  } do
    it("refuses by name: " .. c[1], function()
      local ok, message = pcall(node, c[2], c[3], c[6] or one_to_six, c[4], c[5])
      assert.is_false(ok)
      assert.matches("onnx.import: node 'n1' %(" .. c[2] .. "%): .*" .. c[1], message)
      assert.equal("not_implemented", ipu.last_error().kind)
    end)
  end

  it("tells of tensors, inputs and outputs that can't be in the file's terms", function()
    local function changed(from, to)
      write(13, {{"Add", {"x", "weight"}, {"y"}}}, {{"x", one_to_six}},
        {weight = ipu.tensor{1.0, 2, 3}})
      local bytes = command.read(path)
      local at <const> = assert(bytes:find(from, 1, true))
      command.write(path, bytes:sub(1, at - 1) .. to .. bytes:sub(at + #from))
      return function() import(path) end
    end
    local file <const> = "onnx.import: " .. path:gsub("%p", "%%%0") .. ": "
    assert.error_matches(changed("\8\3\16\1", "\8\5\16\1"), -- 3 elements
      file .. "tensor 'weight': a tensor of 20 bytes was given 12")
    assert.error_matches(changed("\8\2\10\2\8\3", "\8\2\10\2\8\0"), -- shape [2, 3]
      file .. "input 'x': .*extent 1 of the shape must be positive")
    assert.error_matches(changed("\18\8\10\2\8\2", "\34\8\10\2\8\2"), -- no shape
      file .. "input 'x' has no known rank")
    assert.error_matches(changed("\98\3\10\1y", "\90\3\10\1y"), -- an input in place of the output
      file .. "input 'y' has no known type")
    assert.error_matches(changed("\98\3\10\1y", "\106\3\10\1y"),
      file .. "the graph has no outputs")
  end)

  it("explains once what stands for an unknown extent", function()
    write(13, {{"Conv", {"x", "w"}, {"y"}}}, {{"x", {dtype = "float32", shape = {-1, -1, 8}}}},
      {w = ipu.ones{3, 2, 2}})
    local _, message = pcall(import, path)
    assert.equal(1, select(2, message:gsub("61 stands for an extent", "")), message)
  end)

  it("refuses an output that it doesn't make, if it is used", function()
    local norm = {"BatchNormalization", {"x", "c", "c", "c", "c"}, {"y", "m"}}
    assert.error_matches(function()
      run(9, {norm}, {{"x", ipu.ones{1, 1, 4}}}, {c = ipu.ones{1}})
    end,
      "%(BatchNormalization%): its output 2 is not known here")
    assert.error_matches(function() run(13, {{"Relu", {"x"}, {"z"}}}, {{"x", one_to_six}}) end,
      "nothing gives the output 'y'")
  end)

  it("sees an attribute that nobody reads, unless it is what it would be anyway", function()
    local function unread(a)
      local reader, check = attributes.reader{op = "Conv", name = "n", opset = 11, attributes = a,
        inputs = {}, outputs = {}}
      assert(reader.pads == nil or reader.strides == nil)
      return pcall(check)
    end
    assert.is_true(unread{pads = {1, 1}, group = 1, auto_pad = "NOTSET"})
    assert.is_false(unread{pads = {1, 1}, group = 2})
    assert.is_false(unread{dilations = {1}})
  end)

  -- A few bytes that ask for terabytes, of constants or of inputs: in the file's terms, with little
  -- memory and few steps.
  it("refuses what a few numbers make enormous", function()
    local huge, big, one = long{1 << 40}, long{1 << 30}, ipu.ones{1}
    local nodes = {
      {"ConstantOfShape", {huge}}, {"Expand", {one, huge}}, {"Tile", {one, huge}},
      {"Tile", {one, big}}, {"Pad", {one,
        long{1 << 40, 0}}, {mode = "edge"}},
      {"Pad", {one, long{0, 1 << 30}}, {mode = "edge"}}, {"Pad", {one, long{1 << 40, 0}}},
      {"Range", {long(0), huge, long(1)}},
        {"Range", {long(0), big, long(1)}},
      {"OneHot", {long{0}, huge, ipu.tensor{0.0, 1}}},
      {"Conv", {ipu.ones{1, 1, 1}, ipu.ones{1, 1, 1}}, {pads = {1 << 40, 0}}},
      {"MaxPool", {ipu.ones{1, 1, 4}}, {kernel_shape = {1 << 20}, pads = {1 << 40, 0}}},
      {"ConvTranspose", {ipu.ones{1, 1, 2}, ipu.ones{1, 1, 1}}, {strides = {1 << 40}}},
      {"ConvTranspose", {ipu.ones{1, 1, 2}, ipu.ones{1, 1, 1}}, {output_shape = {1 << 40}}},
      {"Pad", {"x", long{0, 1 << 40, 0, 0}}, {mode = "edge"}},
      {"Expand", {"x", long{1 << 40, 1, 1}}}, {"Tile", {"x", long{1 << 40, 1}}},
    }
    local script = {"local import, log, steps = require 'ipulua'.keras.onnx.import, {}, 0",
      "debug.sethook(function() steps = steps + 1 end, '', 1000)"}
    for i, n in ipairs(nodes) do
      local names, constants = {}, {}
      for k, t in ipairs(n[2]) do
        names[k] = t == "x" and "x" or "c" .. k
        if t ~= "x" then constants["c" .. k] = t end
      end
      write(13, {{n[1], names, {"z"}, n[3]}, {"Shape", {"z"}, {"s"}}, {"Identity", {"x"}, {"y"}}},
        {{"x", one_to_six}},
        constants, {"y", "s"})
      os.rename(path, path .. i)
      script[#script + 1] = ("log[#log + 1] = select(2, pcall(import, %q))"):format(path .. i)
    end
    script[#script + 1] = "print(table.concat(log, '\\n'))"
    script[#script + 1] = "print(steps)"
    script[#script + 1] = "print(io.open('/proc/self/status'):read('a'):match('VmHWM:%s*(%d+)'))"
    local r = command.run{command.ipulua, "-e", table.concat(script, "\n")}
    for i = 1, #nodes do os.remove(path .. i) end
    local lines = {}
    for line in r.out:gmatch("[^\n]+") do lines[#lines + 1] = line end
    assert.equal(#nodes + 2, #lines, r.err)
    for i, n in ipairs(nodes) do
      assert.matches("onnx.import: node 'n1' %(" .. n[1] .. "%): .*", lines[i])
      assert.is_nil(lines[i]:find("out of memory", 1, true))
    end
    local sanitized = command.ipulua:find("/build%-[at]san/") -- whose shadow is memory, too
    assert(sanitized or tonumber(lines[#lines]) < 300000, lines[#lines] .. " kB")
    assert(tonumber(lines[#lines - 1]) < 2000, lines[#lines - 1] .. " thousand steps")
  end)

  it("slices an axis of 2^40 elements without walking along it", function()
    local x = ipu.keras.Input{shape = {4}}
    assert.is_not_nil(x)
    write(13, {{"Slice", {"x", "s", "e", "a", "t"}, {"y"}}},
      {{"x", {dtype = "float32", shape = {1, 1 << 31}}}}, {s = long{5},
      e = long{math.maxinteger},
      a = long{1}, t = long{1 << 20}})
    local steps = 0 -- the interpreter's, in thousands
    debug.sethook(function() steps = steps + 1 end, "", 1000)
    assert.same({1, 1 << 11}, import(path).outputs[1].shape)
    debug.sethook()
    assert(steps < 10000, steps)
  end)

  -- The table of pages is what ONNX's own tables say.
  local has_onnx = command.python "onnx"
  local if_onnx = has_onnx and it or pending
  if_onnx("knows each operator's page, opset by opset", function()
    local names = {}
    for op in pairs(interpret) do names[#names + 1] = op end
    table.sort(names)
    local r = command.run{command.python "onnx", "-W", "ignore", "spec/support/onnx_schemas.py",
      table.unpack(names)}
    assert.equal(0, r.status, r.err)
    local newest = tonumber(r.out:match("^  %-%- opset (%d+)\n"))
    local wanted, ours = assert(load("return {" .. r.out .. "}"))(), {}
    for op, versions in pairs(schemas) do
      ours[op] = {}
      for since, line in pairs(versions) do ours[op][since] = since <= newest and line or nil end
    end
    for op in pairs(wanted) do assert.same(wanted[op], ours[op], op) end
    assert.same(wanted, ours)
  end)

  -- spec/support/onnx_kinds.lua: each kind of node several times.
  local packages = os.getenv("NODE_PATH") or "build/npm/node_modules"
  local if_runtime = os.execute("test -d " .. command.quote(packages .. "/onnxruntime-web"))
    and it or pending
  if_runtime("computes unusual nodes as onnxruntime does, or refuses them by name", function()
    local folder = command.folder()
    finally(function() command.remove(folder) end)
    local cases_of, i, good, wrong = graphs.write(folder, 20, 400), 0, 0, {}
    local r = command.run{"node", "spec/support/onnx_run.js", folder, "typed",
      env = {NODE_PATH = packages}}
    assert.equal(0, r.status, r.err)
    for line in r.out:gmatch("[^\n]+") do
      i = i + 1
      local wanted, c = ipu.json.decode(line), cases_of[i]
      local problem, refused
      -- else onnxruntime has no such node
      if not wanted.error then problem, refused = graphs.run(folder, c, wanted) end
      if problem and not refused then
        wrong[#wrong + 1] = ("%d: %s %s: %s"):format(i, c.kind, c.case[1], problem)
      end
      if not wanted.error and not problem then good = good + 1 end
    end
    assert.same({}, wrong)
    assert.equal(#cases_of, i)
    assert(good >= 370, good)
  end)
end)
