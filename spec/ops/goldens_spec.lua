-- Numbers of the tests and formulas of Graphcore's TensorFlow 2.6, for the ops that it adds to
-- TensorFlow.

local ipu = require "ipulua"
local layers = ipu.keras.layers

local function close(want, got, tolerance)
  if type(want) ~= "table" then return assert.is_near(want, got, tolerance or 1e-5) end
  assert.equal(#want, #got)
  for i, each in ipairs(want) do close(each, got[i], tolerance) end
end

local function ints(list) return ipu.tensor(list, {dtype = "int32"}) end

local function fails(kind, f, ...)
  local ok, message = pcall(f)
  assert.is_false(ok)
  for _, text in ipairs{...} do assert.is_truthy(message:find(text, 1, true), message) end
  assert.equal(kind, ipu.last_error().kind)
end

describe("activations", function()
  it("row 235: gelu has both forms, hard_sigmoid its line", function()
    local x = {-3, -0.5, 0, 1, 2.5}
    local t = ipu.tensor(x)
    local function map(f)
      local list = {}
      for i, v in ipairs(x) do list[i] = f(v) end
      return list
    end
    close(
      map(function(v) return 0.5 * v * (1
        + (function(z) return (math.exp(2 * z) - 1) / (math.exp(2 * z) + 1) end)(
      math.sqrt(2 / math.pi) * (v + 0.044715 * v ^ 3))) end), ipu.nn.gelu(t):totable())
    -- v·Φ(v), tables of Φ
    close({-0.00404951, -0.15426877, 0, 0.84134475, 2.48447583},
      ipu.nn.gelu(t, {approximate = false}):totable())
    close(map(function(v) return v / (1 + math.exp(-v)) end), ipu.nn.swish(t):totable())
    close(map(function(v) return math.min(1, math.max(0, 0.2 * v + 0.5)) end),
      ipu.nn.hard_sigmoid(t):totable())
    -- the largest is taken off first
    close({0.5, 0.5}, ipu.nn.softmax(ipu.tensor{1e4, 1e4}):totable())
  end)
end)

describe("rows", function()
  it(
    "row 236: segment_sum adds rows of a segment up, and gives zeros for those that are missing",
    function()
    local data = ipu.tensor{{1, 2, 3, 4}, {4, 3, 2, 1}, {5, 6, 7, 8}}
    assert.same({{5, 5, 5, 5}, {5, 6, 7, 8}}, ipu.segment_sum(data, ints{0, 0, 1}, 2):totable())
    assert.same({{5, 5, 5, 5}, {0, 0, 0, 0}, {5, 6, 7, 8}, {0, 0, 0, 0}},
      ipu.segment_sum(data, ints{0, 0, 2}, 4):totable())
  end)

  it("row 236: sequence_slice copies runs of rows", function()
    local rows = {}
    for i = 0, 5 do rows[i + 1] = {i, i, i, i, i, i} end
    local got = ipu.sequence_slice(ipu.zeros{6, 6}, ipu.tensor(rows), ints{2, 2}, ints{2, 1},
      ints{0, 4}, true):totable()
    for i, want in ipairs{2, 3, 0, 0, 1, 2} do
      assert.same({want, want, want, want, want, want}, got[i])
    end
  end)

  it("row 236: histograms count between levels, and add up", function()
    local x = ipu.tensor{-3, 0.5, 1.5, 1.7, 9}
    assert.same({2, 2, 1}, ipu.histogram(x, ipu.tensor{1, 2}):totable())
    assert.same({1, 2, 2}, ipu.histogram(x, ipu.tensor{1, 2}, {absolute_of_input = true}):totable())
    local h = ipu.histogram_update(ipu.histogram(x, ipu.tensor{1, 2}), x, ipu.tensor{1, 2})
    assert.same({4, 4, 2}, h:totable())
    close({0.4, 0.4, 0.2}, ipu.histogram_normalize(h):totable())
  end)

  it("row 238: an embedding's gradient adds up for duplicate ids", function()
    local table_of = ipu.random.normal({5, 2}, {seed = 1})
    local f = ipu.func(function(t, ids)
      return ipu.gradients(ipu.reduce_sum(ipu.embedding_lookup(t, ids)), {t})[1]
    end)
    assert.same({{0, 0}, {3, 3}, {0, 0}, {1, 1}, {0, 0}}, f(table_of, ints{1, 3, 1, 1}):totable())
  end)

  it("row 227: serialization of a table changes nothing, and must divide it", function()
    local table_of, ids = ipu.random.normal({6, 3}, {seed = 1}), ints{5, 0, 3, 3}
    assert.same(ipu.embedding_lookup(table_of, ids):totable(),
      ipu.embedding_lookup(table_of, ids, {serialization_factor = 3}):totable())
    fails("value", function() ipu.embedding_lookup(table_of, ids, {serialization_factor = 4}) end,
      "4", "6")
    fails("value", function() layers.Embedding(10, 4, {serialization_factor = 3})(ids) end, "3",
      "10")
  end)

  it("row 228: serialized products are products", function()
    local a, b = ipu.random.normal({4, 6}, {seed = 1}), ipu.random.normal({6, 8}, {seed = 2})
    local want = ipu.matmul(a, b):totable()
    for _, dimension in ipairs{"a_columns", "a_rows_b_columns", "b_rows"} do
      close(want, ipu.serialized_matmul(a, b, 2, dimension):totable())
    end
    fails("value", function() ipu.serialized_matmul(a, b, 5, "b_rows") end, "5", "b_rows")
    fails("value", function() ipu.serialized_matmul(a, b, 2, "rows") end, "a_columns",
      "a_rows_b_columns", "b_rows")
    local dense, serial = layers.Dense(8), layers.SerialDense(8, 2, "input_rows_kernel_columns")
    dense:build_once{4, 6}
    serial:build_once{4, 6}
    serial:set_weights(dense:get_weights())
    close(dense(a):totable(), serial(a):totable())
  end)

  it("a layer in parts says which argument doesn't divide", function()
    fails("value", function() layers.SerialDense(4, 3, "kernel_rows") end,
      "'serialization_factor' 3 does not divide 'units' 4")
    local by_features, by_rows = layers.SerialDense(4, 2, "input_rows_kernel_columns"),
      layers.SerialDense(4, 2, "input_columns")
    fails("value", function() by_features(ipu.ones{2, 3}) end,
      "does not divide the last axis of the input, 3")
    fails("value", function() by_rows(ipu.ones{3, 3}) end,
      "does not divide the number of rows of the input, 3")
  end)

  it("a layer in parts of the batch takes a batch that is known only when it comes", function()
    local model = ipu.keras.Sequential{layers.SerialDense{4, 2, "input_columns", input_shape = {6}}}
    assert.same({-1, 4}, model.output_shape)
    local x = ipu.random.normal({4, 6}, {seed = 1})
    local kernel = model:get_weights()[1]
    close(ipu.matmul(x, kernel):totable(), model:predict(x, {batch_size = 4}):totable())
    fails("value", function() model:predict(ipu.ones{3, 6}, {batch_size = 3}) end,
      "number of rows of the input, 3")
  end)
end)

describe("normalisation", function()
  it("row 225: takes every groups-th channel together, or neighbours", function()
    -- Channels 1, 3, 10, 30 of one pixel: groups {1, 10} and {3, 30}, or {1, 3} and {10, 30}; two
    -- values are -1 and 1 of their deviation.
    local x, one, zero = ipu.tensor{{1, 3, 10, 30}}, ipu.ones{4}, ipu.zeros{4}
    local function normal(strided)
      return ipu.nn.group_norm(x, one, zero,
        {groups = 2, epsilon = 0, strided_channel_grouping = strided}):totable()
    end
    close({{-1, -1, 1, 1}}, normal(true))
    close({{-1, 1, -1, 1}}, normal(false))
    fails("value", function() ipu.nn.group_norm(x, one, zero, {groups = 3}) end, "3", "4")
    close({{-1, 1, -1, 1}}, layers.GroupNormalization{groups = 2, epsilon = 1e-9}(x):totable(),
      1e-4)
    close({{-1, -1, 1, 1}}, layers.GroupNormalization{groups = 2, epsilon = 1e-9,
      strided_channel_grouping = true}(x):totable(), 1e-4)
  end)

  it("row 237: of images gives a fourth channel of zeros", function()
    local image = ipu.tensor({{{0, 128, 255}}}, {dtype = "uint8"})
    local got = ipu.normalise_image(image, ipu.tensor({0.5, 0.25, 0}, {dtype = "float16"}),
      ipu.tensor({2, 1, 4}, {dtype = "float16"}),
      1 / 255)
    assert.equal("float16", got.dtype)
    close({{{-1, 128 / 255 - 0.25, 4, 0}}}, got:totable(), 2e-3)
    fails("type", function()
      ipu.normalise_image(ints{{{0, 1, 2}}}, ipu.tensor{0, 0, 0}, ipu.tensor{1, 1, 1})
    end, "int32")
  end)
end)

describe("random.uniform", function()
  it("draws between any two numbers that the dtype has, and no others", function()
    for _, case in ipairs{{"float32", -3e38, 3e38}, {"float64", -1.5e308, 1.5e308},
      {"bfloat16", -3e38, 3e38}, {"float16", -65504, 65504}} do
      local dtype, low, high = table.unpack(case)
      local x = ipu.cast(ipu.random.uniform({1000},
        {minval = low, maxval = high, dtype = dtype, seed = 1}), "float64")
      local least, most = ipu.reduce_min(x):item(), ipu.reduce_max(x):item()
      assert.is_true(least < 0.98 * low and least >= low * 1.005 and most > 0.98 * high
        and most <= high * 1.005, dtype)
      assert.is_near(0, ipu.reduce_mean(x / high):item(), 0.1)
    end
    for _, case in ipairs{{"float32", 0, math.huge}, {"float32", -1e300, 0}, {"float16", 0, 1e5},
      {"float64", -math.huge, 0}} do
      fails("value", function()
        ipu.random.uniform({4}, {minval = case[2], maxval = case[3], dtype = case[1]})
      end)
    end
  end)
end)
