-- Hashing, the numbers of unknown words, and learnt bins. The hashes have published test vectors,
-- the layers the examples and tests of Keras 2.6.

local hashes = require "ipulua.keras.preprocessing.hashes"
local ipu = require "ipulua"

local keras, data = ipu.keras, ipu.data
local layers = keras.layers

describe("FarmHash's fingerprint", function()
  -- Guava's FarmHashFingerprint64Test, BigQuery's documentation of FARM_FINGERPRINT, go-farm's
  -- tests ("" and "a" to "abcdefgh"), a Kotlin library's test of 50 bytes
  local cases <const> = {
    ["test"] = 8581389452482819506, [("test"):rep(8)] = -4196240717365766262,
    [("test"):rep(64)] = 3500507768004279527,
    ["1footrue"] = -1541654101129638711, ["2applefalse"] = 2794438866806483259,
    ["3true"] = -4880158226897771312,
    [""] = 0x9ae16a3b2f90404f, a = 0xb3454265b6df75e3, ab = 0xaa8d6e5242ada51e,
    abc = 0x24a5b3a074e7f369, abcd = 0x1a5502de4a1f8101, abcdefgh = 0xfee9d22990c82909,
    ["F7479877-4690-4A44-AFC9-8FE987EA512F:some_other_id"] = 6862335115798125349,
  }
  it("has its published values, of every length", function()
    for text, wanted in pairs(cases) do assert.equal(wanted, hashes.fingerprint(text), text) end
  end)
end)

describe("SipHash-2-4", function()
  -- Appendix A of the paper, and the first vector of the reference implementation.
  it("has its published values", function()
    local bytes = {}
    for i = 0, 14 do bytes[#bytes + 1] = string.char(i) end
    local low <const>, high <const> = 0x0706050403020100, 0x0f0e0d0c0b0a0908
    assert.equal(0xa129ca6149be45e5, hashes.keyed(table.concat(bytes), low, high))
    assert.equal(0x726fdb47dd0e0e31, hashes.keyed("", low, high))
  end)

  it("is taken without a sign", function()
    assert.equal(0, hashes.modulo(-1, 3)) -- 2^64 - 1
    assert.equal(1, hashes.modulo(math.mininteger, 7)) -- 2^63
    assert.equal(5, hashes.modulo(5, 7))
  end)
end)

describe("Hashing", function()
  local letters <const> = {{"A"}, {"B"}, {"C"}, {"D"}, {"E"}}

  it("has the bins of Keras' documentation", function()
    local plain = layers.Hashing{num_bins = 3}
    assert.same({{1}, {0}, {1}, {1}, {2}}, plain(letters):totable())
    assert.equal("int32", plain(letters).dtype)
    assert.equal(1, plain("A"):item())
    assert.same({{1}, {1}, {0}, {2}, {2}},
      layers.Hashing{num_bins = 3, mask_value = ""}{{"A"}, {"B"}, {""}, {"C"}, {"D"}}:totable())
    assert.same({{1}, {2}, {1}, {0}, {2}},
      layers.Hashing{num_bins = 3, salt = {133, 137}}(letters):totable())
    assert.same({{0}, {0}, {2}, {1}, {0}},
      layers.Hashing{num_bins = 3, salt = 133}(letters):totable())
  end)

  it("hashes integers as their digits, and keeps bin 0 for a masked one", function()
    local hashing = layers.Hashing(5)
    local numbers <const> = ipu.tensor({{3, -12}, {0, 900}}, {dtype = "int64"})
    assert.same(hashing{{"3", "-12"}, {"0", "900"}}:totable(), hashing(numbers):totable())
    local masked = layers.Hashing{5, mask_value = 0}(numbers):totable()
    assert.equal(0, masked[2][1])
    assert.is_true(masked[1][1] > 0 and masked[1][2] > 0 and masked[2][2] > 0)
  end)

  it("encodes, reads datasets, and is made again from its configuration", function()
    local hot = layers.Hashing{3, output_mode = "one_hot"}
    assert.same({{0, 1, 0}, {1, 0, 0}}, hot{"A", "B"}:totable())
    local count = layers.Hashing{3, output_mode = "count"}
    assert.same({{1, 3, 1}}, count{{"A", "B", "C", "D", "E"}}:totable())
    local found = {}
    for x in data.from_tensor_slices{"A", "B", "E"}:map(layers.Hashing(3)):iter() do
      found[#found + 1] = x:item()
    end
    assert.same({1, 0, 2}, found)
    local salted = layers.Hashing{3, salt = {133, 137}}
    local again = keras.layers.deserialize{class_name = "Hashing", config = salted:get_config()}
    assert.same({{1}, {2}, {1}, {0}, {2}}, again(letters):totable())
  end)

  it("says what it takes", function()
    assert.error_matches(function() layers.Hashing() end, "num_bins.*missing")
    assert.error_matches(function() layers.Hashing(0) end, "num_bins")
    assert.error_matches(function() layers.Hashing{3, salt = {1, 2, 3}} end, "salt.*3 of them")
    assert.error_matches(function() layers.Hashing(3)(ipu.ones{2}) end, "strings or integers")
    assert.error_matches(function() layers.Hashing(3)(1.5) end, "string.*1.5")
    assert.error_matches(function() layers.Hashing(3)(keras.Input{shape = {1}}) end,
      "before the model")
    assert.error_matches(function() keras.Sequential{layers.Hashing(3)} end, "texts are no tensors")
  end)
end)

describe("layers that compute in Lua, in a dataset's map", function()
  local numbers = ipu.tensor({0, 2, 1, 7, 2}, {dtype = "int32"})

  local function texts_of(ds)
    local list = {}
    for x in ds:iter() do
      list[#list + 1] = type(x) == "userdata" and tostring(x) or table.concat(x, " ")
    end
    return table.concat(list, ",")
  end

  it("is called with values: Hashing, alone and inside of a function, of batches too", function()
    local hashing = layers.Hashing{5, salt = 3}
    local want = hashing(numbers):totable()
    local ds, got = data.from_tensor_slices(numbers), {}
    for x in ds:map(function(x) return hashing(x + 0) end):iter() do got[#got + 1] = x:item() end
    assert.same(want, got)
    got = {}
    for x in ds:batch(2):map(hashing):iter() do
      table.move(x:totable(), 1, x.size, #got + 1, got)
    end
    assert.same(want, got)
    got = {}
    for x in ds:filter(function(x) return ipu.equal(hashing(x), want[4]) end):iter() do
      got[#got + 1] = x:item()
    end
    local chosen = {}
    for i, bin in ipairs(want) do
      if bin == want[4] then chosen[#chosen + 1] = numbers[i]:item() end
    end
    assert.same(chosen, got)
  end)

  it("keeps the extents that all elements share", function()
    local hot = layers.Hashing{3, output_mode = "multi_hot"}
    local rows = data.from_tensor_slices(ipu.reshape(ipu.arange(10), {5, 2})):batch(2)
    assert.same({-1, 3}, rows:map(hot).element_spec.shape)
  end)

  it("is StringLookup, there and back, and TextVectorization of bytes", function()
    local bytes = data.from_tensor_slices(ipu.tensor({{98}, {97}}, {dtype = "uint8"}))
    local lookup = layers.StringLookup{vocabulary = {"a", "b"}}
    assert.equal("2,1", texts_of(bytes:map(function(x) return lookup(x) end)))
    local vectorize = layers.TextVectorization{vocabulary = {"a", "b"}, output_sequence_length = 2}
    assert.equal("[3 0],[2 0]", texts_of(bytes:map(vectorize)))
    local back = layers.StringLookup{vocabulary = {"a", "b"}, invert = true}
    assert.equal("[UNK] b,a", texts_of(data.from_tensor_slices(
      ipu.tensor({0, 2, 1}, {dtype = "int32"})):batch(2):map(function(x) return back(x) end)))
  end)

  it("says so where it is called inside of a program or a model", function()
    local hashing = layers.Hashing(3)
    assert.error_matches(function() ipu.func(function(x) return hashing(x) end)(numbers) end,
      "Hashing: it computes in Lua, before the program.*ds:map%(f%)")
    local back = layers.StringLookup{vocabulary = {"a"}, invert = true}
    assert.error_matches(function() back(keras.Input{shape = {2}}) end,
      "StringLookup: it computes in Lua, before the model.*KerasTensor")
  end)
end)

describe("StringLookup with several numbers for unknown words", function()
  local layer

  before_each(function()
    layer = layers.StringLookup{vocabulary = {"a", "b", "c", "d"}, num_oov_indices = 2}
  end)

  it("has the numbers of Keras' documentation", function()
    assert.same({{2, 4, 5}, {0, 1, 3}}, layer{{"a", "c", "d"}, {"m", "z", "b"}}:totable())
    assert.equal(6, layer:vocabulary_size())
  end)

  it("takes back what get_vocabulary gives", function()
    local vocabulary <const> = layer:get_vocabulary()
    assert.same({"[UNK]", "[UNK]", "a", "b", "c", "d"}, {table.unpack(vocabulary)})
    local inverse = layers.StringLookup{vocabulary = vocabulary, num_oov_indices = 2,
      invert = true}
    assert.same({"[UNK]", "[UNK]", "a", "d", "[UNK]"},
      {table.unpack(inverse(ipu.tensor({0, 1, 2, 5, 9}, {dtype = "int32"})))})
  end)
end)

describe("Discretization", function()
  local rows <const> = {{-1.5, 1, 3.4, 0.5}, {0, 3, 1.3, 0}}
  local learnt <const> = {{0, 2, 3, 2}, {1, 3, 3, 1}}

  it("learns the bins of Keras' documentation", function()
    local layer = layers.Discretization{num_bins = 4, epsilon = 0.01}
    assert.error_matches(function() layer(ipu.tensor(rows)) end, "adapt")
    layer:adapt(ipu.tensor(rows))
    assert.same(learnt, layer(ipu.tensor(rows)):totable())
    local again = layers.Discretization:from_config(layer:get_config())
    assert.same(learnt, again(ipu.tensor(rows)):totable())
    assert.equal(4, again.num_bins)
    again:adapt{5, 6, 7, 8}
    assert.same({{0, 0, 0, 0}, {0, 0, 0, 0}}, again(ipu.tensor(rows)):totable())
  end)

  local function counts_of(epsilon, bins, power)
    local all = ipu.cast(ipu.arange(300) ^ power, "float32")
    local layer = layers.Discretization{num_bins = bins, epsilon = epsilon}
    layer:adapt(data.from_tensor_slices{all}:shuffle(300, {seed = 4}):batch(150))
    return ipu.reduce_sum(ipu.one_hot(layer(all), bins), {axis = 0}):totable()
  end

  it("learns as Keras from several batches, in any order", function()
    for power = 1, 2 do -- test_layer_computation
      assert.same({101, 99, 100}, counts_of(0.01, 3, power))
    end
  end)

  it("is off by epsilon at most", function()
    local low <const>, high <const> = table.unpack(counts_of(0.1, 2, 1))
    assert.equal(300, low + high)
    assert.near(150, low, 0.1 * 300)
    assert.is_not.equal(150, low) -- a summary of 20 values
  end)

  it("learns from each adapt anew, and its programs with it", function()
    local input = keras.Input{shape = {1}}
    local layer = layers.Discretization{num_bins = 3}
    layer:adapt{{1}, {2}, {3}} -- test_multiple_adapts
    local model = keras.Model{inputs = input, outputs = layer(input)}
    assert.same({{2}, {2}}, model:predict(ipu.tensor{{2}, {2}}, {verbose = 0}):totable())
    layer:adapt{{4}, {5}, {6}}
    assert.same({{0}, {0}}, model:predict(ipu.tensor{{2}, {2}}, {verbose = 0}):totable())
  end)

  it("encodes", function()
    local x = ipu.tensor(rows)
    local function given(mode)
      return layers.Discretization{{0, 1, 2}, output_mode = mode}(x):totable()
    end
    assert.same({{1, 1, 1, 1}, {0, 1, 1, 1}}, given("multi_hot"))
    assert.same({{1, 1, 1, 1}, {0, 2, 1, 1}}, given("count"))
    assert.same({1, 0, 0, 0}, given("one_hot")[1][1])
  end)

  it("says what it lacks", function()
    assert.error_matches(function() layers.Discretization() end, "num_bins")
    assert.error_matches(function() layers.Discretization{{1}, num_bins = 2} end, "either")
    assert.error_matches(function() layers.Discretization{num_bins = -7} end, "num_bins.*%-7")
    assert.error_matches(function() layers.Discretization{{1}}:adapt{1, 2} end, "num_bins")
    assert.error_matches(function() layers.Discretization{num_bins = 2}:adapt{0 / 0, 1} end, "NaN")
    assert.error_matches(function() layers.Discretization{num_bins = 2}:adapt("x") end, "tensor")
  end)
end)
