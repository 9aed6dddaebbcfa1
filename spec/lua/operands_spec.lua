-- Numbers and lists as operands of ops: what dtype they take. Values were computed with PyTorch.

local ipu = require "ipulua"

local function near(expected, got)
  for i, each in ipairs(expected) do
    assert(math.abs(each - got[i]:item()) < 1e-4,
      string.format("element %d: expected %.4f, got %.4f", i, each, got[i]:item()))
  end
end

local function int32(list) return ipu.tensor(list, {dtype = "int32"}) end

describe("a list", function()
  it("of probabilities is floating point, of classes int32", function()
    local nn = ipu.nn
    near({0.5991}, nn.softmax_cross_entropy_with_logits({{0.25, 0.75}}, {{0.5, 1}}))
    near({0.5991}, nn.softmax_cross_entropy_with_logits({{0.25, 0.75}}, ipu.tensor{{0.5, 1}}))
    near({0.4741, 0.3133}, nn.sigmoid_cross_entropy_with_logits({1, 0}, {0.5, -1}))
    near({0.4741}, nn.sparse_softmax_cross_entropy_with_logits({0}, {{0.5, 0}}))
  end)

  it("does not take the dtype of indices beside it", function()
    near({2.5, 1.5}, ipu.gather({1.5, 2.5}, int32{1, 0}))
    near({1.5}, ipu.embedding_lookup({{1.5}, {2.5}}, int32{0}):reshape{1})
    near({2.5}, ipu.gather_nd({1.5, 2.5}, int32{{1}}))
    near({0, 1.5}, ipu.scatter_nd(int32{{1}}, {1.5}, {2}))
    near({1.75, 2.5}, ipu.segment_sum({1.5, 0.25, 2.5}, int32{0, 0, 1}, 2))
    near({0.4741}, ipu.nn.sparse_softmax_cross_entropy_with_logits(int32{0}, {{0.5, 0}}))
    near({1.0016}, ipu.nn.ctc_loss(int32{{1}}, {{{0.5, 0, 0}}, {{0, 0.25, 0}}}, int32{1}, {2}))
  end)

  it("of counts and positions is int32 beside rows of numbers", function()
    near({0, 0, 1.5, 2.5},
      ipu.sequence_slice(ipu.zeros{4, 1}, ipu.tensor{{1.5}, {2.5}}, {2}, {0}, {2}):reshape{4})
  end)

  it("of offsets of colours takes after the picture", function()
    near({0.5, 0.25, 0}, ipu.normalise_image(ipu.ones{1, 3}, {0.5, 0.75, 1}, {1, 1, 1})[1])
    -- Of bytes float16, as normalise_image of Graphcore's TensorFlow 2.6 gives.
    local bytes = ipu.normalise_image(ipu.tensor({{10, 20, 30}}, {dtype = "uint8"}), {0.5, 2, 3},
      {0.5, 1, 0.25})
    assert.equal("float16", bytes.dtype)
    near({4.75, 18, 6.75, 0}, bytes[1]:cast("float32"))
  end)

  it("of booleans may be a mask", function()
    local outputs = ipu.nn.simple_rnn(ipu.ones{1, 2, 1}, {{1}}, {{0}}, {0}, {{0.5}},
      {{true, false}})
    near({0.7616, 0.7616}, outputs:reshape{2})
  end)
end)

describe("lists", function()
  it("of sizes may be long, and are refused when they hold themselves", function()
    local sizes, endless = {}, {}
    for i = 1, 100 do sizes[i] = i end
    endless[1] = endless
    local parts = {ipu.split(ipu.arange(5050), sizes)}
    assert.equal(100, #parts)
    assert.same({4950, 4951}, parts[100]:slice({0}, {2}):totable())
    local ok, message = pcall(ipu.pad, ipu.ones{2}, endless)
    assert.is_false(ok)
    assert.matches("pad: 'paddings' has lists in lists without end", message)
  end)

  -- Runs that nothing is written by aren't looked at, forwards as backwards.
  it("of a sequence slice into no rows have a gradient of zeros, in each form", function()
    local src = ipu.ones{3, 2}
    local function sliced(x)
      return ipu.sequence_slice(ipu.zeros{0, 2}, x, ipu.tensor({2, 1}, {dtype = "int32"}),
        ipu.tensor({0, 2}, {dtype = "int32"}), ipu.tensor({0, 2}, {dtype = "int32"}))
    end
    for _, f in ipairs{sliced, ipu.func(sliced)} do
      local tape = ipu.GradientTape()
      tape:watch(src)
      local y = tape(function() return f(src) end)
      assert.same({0, 2}, y.shape)
      assert.same(ipu.zeros{3, 2}:totable(), tape:gradient(y, src):totable())
    end
  end)
end)

-- Rows of Lua refuse the same in the same words (args_spec).
describe("a table of arguments by name", function()
  local x = ipu.tensor{{1, 2, 3}, {4, 5, 6}}
  local mixed <const> =
    ": the last table mixes names with a list; give the list as an argument of its own"

  for _, case in ipairs{
    {"a list beside the names", function() return ipu.reduce_sum(x, {1, keepdims = true}) end,
      "reduce_sum" .. mixed},
    {"a list beside an operand's name", function() return ipu.add(x, {1, 2, b = 3}) end,
      "add" .. mixed},
    {"an attribute twice", function() return ipu.reduce_sum(x, 0, {axis = 1}) end,
      "reduce_sum: 'axis' is given twice, by position and by name"},
    {"an attribute twice in one table", function() return ipu.reduce_sum{x, 0, axis = 1} end,
      "reduce_sum: 'axis' is given twice, by position and by name"},
    {"an operand twice", function() return ipu.add(x, 1, {b = 2}) end,
      "add: 'b' is given twice, by position and by name"},
    {"an operand twice in one table", function() return ipu.add{x, 1, b = 2} end,
      "add: 'b' is given twice, by position and by name"},
    {"an attribute of a list twice", function() return ipu.concat({x, x}, 0, {axis = 1}) end,
      "concat: 'axis' is given twice, by position and by name"},
    {"a number behind a gap", function() return ipu.reduce_sum{x, axis = 1, [3] = true} end,
      "reduce_sum has no argument [3]"},
    {"a number beside a name", function() return ipu.reduce_sum(x, {axis = 1, [true] = 2}) end,
      "reduce_sum has no argument [true]"},
    {"names as an operand", function() return x * {b = 3} end,
      "mul: the right operand must be a list; a table with names is none"},
    {"names and a list as an operand", function() return x - {1, 2, b = 3} end,
      "sub: the right operand must be a list; a table with names is none"},
  } do
    it("refuses " .. case[1], function() assert.error_matches(case[2], case[3], 1, true) end)
  end

  it("takes what stands in it once", function()
    assert.same({6, 15}, ipu.reduce_sum{x, axis = 1}:totable())
    assert.same({{6}, {15}}, ipu.reduce_sum{x, 1, keepdims = true}:totable())
    assert.same({{6}, {15}}, ipu.reduce_sum(x, nil, {axis = 1, keepdims = true}):totable())
    assert.same({{2, 4, 6}, {8, 10, 12}}, ipu.mul(x, {b = 2}):totable())
  end)

  -- NumPy: np.concatenate([x, x], 1) and np.stack([x, x], 1).shape
  it("holds a list of tensors as one argument, or as itself", function()
    local beside = {{1, 2, 3, 1, 2, 3}, {4, 5, 6, 4, 5, 6}}
    for _, given in ipairs{{x, x, axis = 1}, {{x, x}, axis = 1}, {tensors = {x, x}, axis = 1}} do
      assert.same(beside, ipu.concat(given):totable())
      assert.same({2, 2, 3}, ipu.stack(given).shape)
    end
    assert.same({1, 2, 2}, ipu.stack{{{1, 2}, {3, 4}}, axis = 0}.shape) -- one list of numbers
  end)
end)

describe("a list of tensors, variables and numbers", function()
  local v = ipu.Variable(ipu.tensor{1, 2})
  before_each(function() v:assign{1, 2} end)

  it("is read whenever a compiled function runs", function()
    local a = ipu.tensor{10, 20}
    local f = ipu.func(function(given) return ipu.tensor{v, given, {3, 4}}, given + {v[2], 1} end)
    local whole, sum = f(a)
    assert.same({{1, 2}, {10, 20}, {3, 4}}, whole:totable())
    assert.same({12, 21}, sum:totable())
    v:assign{5, 7}
    whole, sum = f(a)
    assert.same({{5, 7}, {10, 20}, {3, 4}}, whole:totable())
    assert.same({17, 21}, sum:totable())
  end)

  it("has one dtype, its first element's or the one that is asked for", function()
    local f = ipu.func(function(given)
      return ipu.tensor{given, {1, 2}}, ipu.tensor({given, v}, "float64")
    end)
    local first, asked = f(ipu.tensor({8, 9}, "int32"))
    assert.equal("int32", first.dtype)
    assert.equal("float64", asked.dtype)
    assert.same({{8, 9}, {1, 2}}, first:totable())
    assert.same({{8, 9}, {1, 2}}, asked:totable())
  end)

  it("is refused where it is ragged, as one of numbers is", function()
    for _, case in ipairs{
      {{v, {1, 2, 3}}, "its lists have different lengths"}, {{v, 3}, "a number where a list"},
      {{v, {v, v}}, "different shapes"}, {{{v, v}, v}, "different shapes"},
      {{{v, v}, {v}}, "its lists have different lengths"},
    } do
      assert.error_matches(function() ipu.func(function() return ipu.tensor(case[1]) end)() end,
        case[2], 1, true)
    end
  end)
end)
