-- keras.onnx.import: operators at the opsets that files name, what is refused and how, and legal but unusual nodes beside onnxruntime.

local command = require "spec.support.command"
local attributes = require "ipulua.keras.onnx.attributes"
local format = require "ipulua.keras.onnx.format"
local graphs = require "spec.support.onnx_graphs"
local interpret = require "ipulua.keras.onnx.interpret"
local ipu = require "ipulua"

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
      g.nodes[i] = {op = n[1], name = "n" .. i, inputs = n[2], outputs = n[3], attributes = n[4] or {}}
    end
    for name, t in pairs(constants or {}) do g.initializers[#g.initializers + 1] = {name = name, tensor = t} end
    for i, each in ipairs(inputs) do g.inputs[i] = {name = each[1], dtype = each[2].dtype, shape = each[2].shape} end
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
    {"Div", 13, int{16777217, 2147483647, -7, 7, -6}, {int{1, 1, 2, -2, 3}}, nil, {16777217, 2147483647, -3, -3, -2}},
    {"Div", 13, long{(1 << 53) + 1, math.mininteger}, {long{1, 3}}, nil, {(1 << 53) + 1, -3074457345618258602}},
    {"Mod", 13, int{-7, 7}, {int{3, -3}}, {fmod = 1}, {-1, 1}}, {"Mod", 13, int{-7, 7}, {int{3, -3}}, nil, {2, -2}},
    {"Pow", 13, int{0, 1, 4, 9}, {ipu.tensor(0.5)}, nil, {0, 1, 2, 3}}, {"Pow", 13, ipu.tensor{2.0, 3.0}, {long(3)}, nil, {8, 27}},
    {"ReduceMean", 13, int{1, 2, 5}, nil, {axes = {0}, keepdims = 0}, 2}, {"ReduceMean", 13, int{-1, -2, -5}, nil, {keepdims = 0}, -2},
    {"ReduceMean", 13, long{1 << 60, 1 << 60}, nil, {keepdims = 0}, 1 << 60}, {"ReduceL2", 13, int{3, 4}, nil, {keepdims = 0}, 5},
    {"MaxPool", 12, ipu.full({1, 1, 4}, -math.huge), nil, {kernel_shape = {2}, pads = {1, 1}}, {{{-math.huge, -math.huge,
      -math.huge, -math.huge,
      -math.huge}}}},
    {"MaxPool", 12, ipu.reshape(ipu.cast(ipu.arange(11), "float32"), {1, 1, 11}), nil, {kernel_shape = {2}, strides = {2}, pads = {1, 1},
      ceil_mode = 1}, {{{0, 2, 4, 6, 8, 10}}}},
    {"AveragePool", 12, ipu.tensor{{{1.0, 2, 3, 4, 5, 6}}}, nil, {kernel_shape = {4}, strides = {3}, ceil_mode = 1}, {{{2.5, 5}}}},
    {"AveragePool", 12, ipu.tensor{{{1.0, 2, 3, 4, 5, 6}}}, nil, {kernel_shape = {4}, strides = {3}, pads = {2, 0}, ceil_mode = 1,
      count_include_pad = 1}, {{{0.75, 3.5, 5.5}}}},
    {"ConvTranspose", 11, ipu.ones{1, 1, 3}, {ipu.tensor{{{1.0, 2, 4, 8}}}}, {strides = {2}, output_shape = {6}}, {{{2, 5, 10,
      5, 10, 4}}}},
    {"ConvTranspose", 11, ipu.ones{1, 1, 3}, {ipu.tensor{{{1.0, 2, 4, 8}}}}, {strides = {2}, auto_pad = "SAME_UPPER"},
      {{{2, 5, 10, 5, 10, 4}}}},
    {"ConvTranspose", 11, ipu.ones{1, 2, 2}, {ipu.tensor{{{1.0, 2}}, {{10, 20}}}}, {group = 2}, {{{1, 3, 2}, {10, 30, 20}}}},
    {"GatherND", 13, ipu.tensor{1.0, 2, 3, 4, 5}, {long{{-1}, {0}}}, nil, {5, 1}},
    {"GatherND", 13, one_to_six, {long{{-1, -3}, {0, -1}}}, nil, {4, 3}},
    {"Pad", 13, ipu.tensor{1.0, 2, 3}, {long{-1, 2}}, nil, {2, 3, 0, 0}}, {"Pad", 13, long{1, 2}, {long{1, 0}, long((1 << 53) + 1)}, nil,
      {(1 << 53) + 1, 1, 2}},
    {"Pad", 13, ipu.tensor{1.0, 2, 3}, {long{2, -1}}, {mode = "edge"}, {1, 1, 1, 2}}, {"Pad", 2, ipu.tensor{1.0}, nil,
      {pads = {1, 0}, value = 7.0}, {7, 1}},
    {"Pad", 1, one_to_six, nil, {paddings = {0, 1, 0, 1}}, {{0, 1, 2, 3, 0}, {0, 4, 5, 6, 0}}},
    {"Reshape", 1, one_to_six, nil, {shape = {3, 0}}, {{1, 2, 3}, {4, 5, 6}}, refused = true},
    {"Reshape", 1, one_to_six, nil, {shape = {3, 2}, consumed_inputs = {1}}, {{1, 2}, {3, 4}, {5, 6}}},
    {"Concat", 1, one_to_six, {one_to_six}, nil, {{1, 2, 3, 1, 2, 3}, {4, 5, 6, 4, 5, 6}}},
    {"Tile", 1, one_to_six, {long(2), long(1)}, nil, {{1, 2, 3, 1, 2, 3}, {4, 5, 6, 4, 5, 6}}}, {"Cast", 1, ipu.tensor{1.7},
      nil, {to = "INT32"}, {1}},
    {"Add", 6, one_to_six, {ipu.tensor{10.0, 20}}, {broadcast = 1, axis = 0}, {{11, 12, 13}, {24, 25, 26}}},
    {"Sub", 1, one_to_six, {ipu.tensor{1.0, 2, 3}}, {broadcast = 1}, {{0, 0, 0}, {3, 3, 3}}},
    {"PRelu", 6, ipu.tensor{{{-1.0, 1}, {-1, -2}}}, {ipu.tensor{10.0, 20}}, nil, {{{-10, 1}, {-20, -40}}}},
    {"Clip", 6, ipu.tensor{-9.0, 1, 9}, nil, {min = -2.0}, {-2, 1, 9}}, {"Clip", 13, int{-9, 1, 9}, {false, int(3)}, nil, {-9, 1, 3}},
    {"Softmax", 11, ipu.zeros{1, 2, 2}, nil, nil, {{{0.25, 0.25}, {0.25, 0.25}}}}, {"Softmax", 13, ipu.zeros{1, 2, 2}, nil,
      nil, {{{0.5, 0.5}, {0.5, 0.5}}}},
    {"TopK", 11, ipu.tensor({0, 255, 3}, {dtype = "uint8"}), {long{1}}, {largest = 0}, {0}, outputs = {"y", "i"}},
    {"MatMul", 13, ipu.tensor{1.0, 2, 3}, {ipu.tensor{4.0, 5, 6}}, nil, 32}, {"Split", 13, one_to_six, {long{2}}, {axis = 0},
      {{1, 2, 3}, {4, 5, 6}}},
    {"LayerNormalization", 17, ipu.cast(ipu.tensor{{1000.0, 1001}}, "float16"), {ipu.ones({2}, {dtype = "float16"})},
      {epsilon = 0.0}, {{-1, 1}}},
    {"Slice", 13, one_to_six, {long{2}, long{math.mininteger}, long{1}, long{-2}}, nil, {{3, 1}, {6, 4}}},
    {"OneHot", 11, long{-1, 0, 5}, {long{2}, long{7, (1 << 53) + 1}}, nil, {{7, (1 << 53) + 1}, {(1 << 53) + 1, 7}, {7, 7}}},
  }
  for _, c in ipairs(cases) do
    it("computes " .. c[1] .. " of opset " .. c[2] .. " of " .. c[3].dtype, function()
      if c.refused then
        assert.has_error(function() node(c[1], c[2], c[3], c[4], c[5]) end)
        return
      end
      local got = c.outputs and run(c[2], {{c[1], {"x", "k"}, c.outputs, c[5]}}, {{"x", c[3]}}, {k = c[4][1]}) or node(c[1],
        c[2], c[3], c[4], c[5])
      assert.equal(c[3].dtype, c[1] == "OneHot" and "int64" or c[1] == "Cast" and "float32" or got.dtype)
      local function same(wanted, value)
        if type(wanted) ~= "table" then return wanted == value or math.abs(wanted - value) < 1e-3 end
        for i, each in ipairs(wanted) do assert(same(each, value[i]), ("element %d is %s"):format(i, tostring(value[i]))) end
        return #wanted == #value
      end
      assert.is_true(same(c[6], #got.shape == 0 and got:item() or got:totable()))
    end)
  end

  -- Wanted: asinh(x) = log(x + sqrt(x² + 1)) and so on, with 16 digits.
  for op, list in pairs{Asinh = {{-300, -6.3969327119}, {-5000, -9.2103403819}, {1e20, 46.744849040}, {1e-6, 1e-6}, {-0.5,
    -0.4812118251}},
    Acosh = {{1e20, 46.744849040}, {1, 0}, {1.5, 0.9624236501}, {2, 1.3169578969}, {1 + 2^-20, 0.0013810679}},
    Atanh = {{1e-7, 1e-7}, {0.5, 0.5493061443}, {-0.999, -3.8002011672}}} do
    it("computes " .. op .. " of small, large and negative numbers", function()
      for _, pair in ipairs(list) do
        local y = node(op, 13, ipu.tensor{pair[1] + 0.0}):totable()[1]
        assert(math.abs(y - pair[2]) <= 1e-5 * math.abs(pair[2]), op .. "(" .. pair[1] .. ") = " .. y)
      end
    end)
  end

  it("takes an empty name for an operand or output that is left out", function()
    local s, w = ipu.ones{6}, ipu.random.normal({6, 5}, {seed = 1})
    local nodes = {{"LayerNormalization", {"x", "s"}, {"a", "", "inv"}}, {"Gemm", {"a", "w", ""}, {"y"}}}
    local x = ipu.random.normal({4, 6}, {seed = 2}) + 3
    local d = x - ipu.reduce_mean(x, {axis = 1, keepdims = true})
    local want = ipu.matmul(d / ipu.sqrt(ipu.reduce_mean(d * d, {axis = 1, keepdims = true}) + 1e-5), w)
    assert.is_true(ipu.reduce_max(ipu.abs(run(17, nodes, {{"x", x}}, {s = s, w = w}) - want)):item() < 1e-4)
  end)

  it("tells inputs apart whose names differ in odd characters alone", function()
    local y = run(13, {{"Sub", {"a.b", "a_b"}, {"c"}}, {"Sub", {"c", "a:b"}, {"y"}}}, {{"a.b", ipu.tensor{9.0}}, {"a_b", ipu.tensor{4.0}},
      {"a:b", ipu.tensor{1.0}}})
    assert.same({4}, y:totable())
  end)

  it("gives constants and inputs as outputs, too", function()
    local out = run(13, {{"Identity", {"x"}, {"y"}}, {"Shape", {"x"}, {"s"}}}, {{"x", one_to_six}}, {c = long{5}}, {"y", "s", "c"})
    assert.same({{2, 3}, {5}}, {out[2]:totable(), out[3]:totable()})
  end)

  -- What a page doesn't have at that opset, has otherwise, or has and nobody reads here.
  for _, c in ipairs{
    {"the attribute 'speed' is not known here at opset 13", "Relu", 13, {}, {speed = 1}},
    {"the attribute 'axes' is not known here at opset 13", "Squeeze", 13, {}, {axes = {0}}},
    {"the attribute 'ceil_mode' is not known here at opset 7", "MaxPool", 7, {}, {kernel_shape = {2}, ceil_mode = 1}},
    {"the attribute 'kernel_shape' is missing", "MaxPool", 12, {}, {}}, {"the attribute 'axis' is to be an integer", "Softmax",
      13, {}, {axis = "1"}},
    {"it has 2 operands, where ONNX has 1 at most at opset 13", "Relu", 13, {one_to_six}, {}}, {"its operand 2 is missing",
      "Add", 13, {}, {}},
    {"its operand 3 is missing", "Where", 16, {one_to_six}, {}}, {"axis 4 is none of an operand of rank 2", "Softmax", 13, {},
      {axis = 4}},
    {"dilations are not known here", "MaxPool", 12, {}, {kernel_shape = {2}, dilations = {2}}, ipu.ones{1, 1, 5}},
    {"clip are not known here", "RNN", 14, {ipu.ones{1, 2, 3}, ipu.ones{1, 2, 2}}, {clip = 1.0}, ipu.ones{2, 2, 3}},
    {"activation_alpha and activation_beta are not known here", "RNN", 14, {ipu.ones{1, 2, 3}, ipu.ones{1, 2, 2}},
      {activation_alpha = {0.5}}, ipu.ones{2, 2, 3}},
    {"input_forget is not known here", "LSTM", 14, {ipu.ones{1, 8, 3}, ipu.ones{1, 8, 2}}, {input_forget = 1}, ipu.ones{2, 2, 3}},
    {"peephole weights %(P%) are not known here", "LSTM", 14, {ipu.ones{1, 8, 3}, ipu.ones{1, 8, 2}, false, false, false,
      false, ipu.ones{1, 6}}, {},
      ipu.ones{2, 2, 3}},
    {"hidden_size is not that of its weights", "RNN", 14, {ipu.ones{1, 2, 3}, ipu.ones{1, 2, 2}}, {hidden_size = 3}, ipu.ones{2, 2, 3}},
    {"sequence_lens are not known here", "RNN", 14, {ipu.ones{1, 2, 3}, ipu.ones{1, 2, 2}, false, int{1, 2}}, {}, ipu.ones{2, 2, 3}},
    {"training %(is_test = 0%) is not known here", "Dropout", 6, {}, {}}, {"training_mode is not known here", "Dropout", 13,
      {ipu.tensor(0.5), ipu.tensor(true)}},
    {"batch_dims is not known here", "GatherND", 13, {long{{0}, {1}}}, {batch_dims = 1}}, {"Shrink of int32 is not known here",
      "Shrink", 9, {}, {}, int{1}},
    {"erf: wants floating point, got int32", "Erf", 13, {}, {}, int{1}},
  } do
    it("refuses by name: " .. c[1], function()
      local ok, message = pcall(node, c[2], c[3], c[6] or one_to_six, c[4], c[5])
      assert.is_false(ok)
      assert.matches("onnx.import: node 'n1' %(" .. c[2] .. "%): .*" .. c[1], message)
      assert.equal("not_implemented", ipu.last_error().kind)
    end)
  end

  it("refuses an output that it doesn't make, where somebody wants it", function()
    local pool = {"MaxPool", {"x"}, {"y", "i"}, {kernel_shape = {2}}}
    assert.error_matches(function() run(12, {pool}, {{"x", ipu.ones{1, 1, 4}}}) end, "%(MaxPool%): its output 2 is not known here")
    assert.error_matches(function() run(13, {{"Relu", {"x"}, {"z"}}}, {{"x", one_to_six}}) end, "nothing gives the output 'y'")
  end)

  it("sees an attribute that nobody reads, unless it is what it would be anyway", function()
    local function unread(a)
      local reader, check = attributes.reader{op = "Conv", name = "n", opset = 11, attributes = a, inputs = {}, outputs = {}}
      assert(reader.pads == nil or reader.strides == nil)
      return pcall(check)
    end
    assert.is_true(unread{pads = {1, 1}, group = 1, auto_pad = "NOTSET"})
    assert.is_false(unread{pads = {1, 1}, group = 2})
    assert.is_false(unread{dilations = {1}})
  end)

  -- A few bytes that ask for terabytes, of constants or of inputs: in the file's terms, with little memory and soon.
  it("refuses what a few numbers make enormous", function()
    local huge, big, one = long{1 << 40}, long{1 << 30}, ipu.ones{1}
    local nodes = {
      {"ConstantOfShape", {huge}}, {"Expand", {one, huge}}, {"Tile", {one, huge}}, {"Tile", {one, big}}, {"Pad", {one,
        long{1 << 40, 0}}, {mode = "edge"}},
      {"Pad", {one, long{0, 1 << 30}}, {mode = "edge"}}, {"Pad", {one, long{1 << 40, 0}}}, {"Range", {long(0), huge, long(1)}},
        {"Range", {long(0), big, long(1)}},
      {"OneHot", {long{0}, huge, ipu.tensor{0.0, 1}}}, {"Conv", {ipu.ones{1, 1, 1}, ipu.ones{1, 1, 1}}, {pads = {1 << 40, 0}}},
      {"MaxPool", {ipu.ones{1, 1, 4}}, {kernel_shape = {1 << 20}, pads = {1 << 40, 0}}},
      {"ConvTranspose", {ipu.ones{1, 1, 2}, ipu.ones{1, 1, 1}}, {strides = {1 << 40}}},
      {"ConvTranspose", {ipu.ones{1, 1, 2}, ipu.ones{1, 1, 1}}, {output_shape = {1 << 40}}},
      {"Pad", {"x", long{0, 1 << 40, 0, 0}}, {mode = "edge"}}, {"Expand", {"x", long{1 << 40, 1, 1}}}, {"Tile", {"x", long{1 << 40, 1}}},
    }
    local script, began = {"local import, log = require 'ipulua'.keras.onnx.import, {}"}, os.time()
    for i, n in ipairs(nodes) do
      local names, constants = {}, {}
      for k, t in ipairs(n[2]) do
        names[k] = t == "x" and "x" or "c" .. k
        if t ~= "x" then constants["c" .. k] = t end
      end
      write(13, {{n[1], names, {"z"}, n[3]}, {"Shape", {"z"}, {"s"}}, {"Identity", {"x"}, {"y"}}}, {{"x", one_to_six}},
        constants, {"y", "s"})
      os.rename(path, path .. i)
      script[#script + 1] = ("log[#log + 1] = select(2, pcall(import, %q))"):format(path .. i)
    end
    script[#script + 1] = "print(table.concat(log, '\\n'))"
    script[#script + 1] = "print(io.open('/proc/self/status'):read('a'):match('VmHWM:%s*(%d+)'))"
    local r = command.run{command.ipulua, "-e", table.concat(script, "\n")}
    for i = 1, #nodes do os.remove(path .. i) end
    local lines = {}
    for line in r.out:gmatch("[^\n]+") do lines[#lines + 1] = line end
    assert.equal(#nodes + 1, #lines, r.err)
    for i, n in ipairs(nodes) do
      assert.matches("onnx.import: node 'n1' %(" .. n[1] .. "%): .*", lines[i])
      assert.is_nil(lines[i]:find("out of memory", 1, true))
    end
    local sanitized = command.ipulua:find("/build%-[at]san/") -- whose shadow is memory, too
    assert(sanitized or tonumber(lines[#lines]) < 300000, lines[#lines] .. " kB")
    assert(os.time() - began <= 30)
  end)

  it("slices an axis of 2^40 elements without walking along it", function()
    local x = ipu.keras.Input{shape = {4}}
    assert.is_not_nil(x)
    write(13, {{"Slice", {"x", "s", "e", "a", "t"}, {"y"}}}, {{"x", {dtype = "float32", shape = {1, 1 << 31}}}}, {s = long{5},
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
    local r = command.run{command.python "onnx", "-W", "ignore", "spec/support/onnx_schemas.py", table.unpack(names)}
    assert.equal(0, r.status, r.err)
    local text = command.read("lua/ipulua/keras/onnx/schemas.lua")
    assert.equal(r.out, text:match("return {\n(.*)}\n$"))
  end)

  -- spec/support/onnx_graphs.lua: each kind of node several times.
  local packages = os.getenv("NODE_PATH") or "build/npm/node_modules"
  local if_runtime = os.execute("test -d " .. command.quote(packages .. "/onnxruntime-web")) and it or pending
  if_runtime("computes unusual nodes as onnxruntime does, or refuses them by name", function()
    local folder = command.folder()
    finally(function() command.remove(folder) end)
    local cases_of, i, good, wrong = graphs.write(folder, 20, 400), 0, 0, {}
    local r = command.run{"node", "spec/support/onnx_run.js", folder, "typed", env = {NODE_PATH = packages}}
    assert.equal(0, r.status, r.err)
    for line in r.out:gmatch("[^\n]+") do
      i = i + 1
      local wanted, c = ipu.json.decode(line), cases_of[i]
      local problem, refused
      if not wanted.error then problem, refused = graphs.run(folder, c, wanted) end -- else onnxruntime has no such node
      if problem and not refused then wrong[#wrong + 1] = ("%d: %s %s: %s"):format(i, c.kind, c.case[1], problem) end
      if not wanted.error and not problem then good = good + 1 end
    end
    assert.same({}, wrong)
    assert.equal(#cases_of, i)
    assert(good >= 370, good)
  end)
end)
