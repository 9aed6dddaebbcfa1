-- StringLookup and TextVectorization, with the examples of their pages in Keras 2.6.

local command = require "spec.support.command"
local ipu = require "ipulua"

local layers, data = ipu.keras.layers, ipu.data
local abcd <const> = {"a", "b", "c", "d"}

local function words(list) return {table.unpack(list)} end

describe("StringLookup", function()
  it("gives the numbers of a known vocabulary", function()
    local layer = layers.StringLookup{vocabulary = abcd}
    assert.same({{1, 3, 4}, {4, 0, 2}},
      layer{{"a", "c", "d"}, {"d", "z", "b"}}:totable())
    assert.equal(2, layer("b"):item())
    assert.equal("int32", layer{"b"}.dtype)
  end)

  it("learns a vocabulary, the most frequent word first", function()
    local layer = layers.StringLookup()
    layer:adapt{"a", "c", "d", "d", "z", "b"}
    assert.same({"[UNK]", "d", "z", "c", "b", "a"}, words(layer:get_vocabulary()))
    local short = layers.StringLookup{max_tokens = 3}
    short:adapt{"x", "y", "y", "z", "z", "z"}
    assert.same({"[UNK]", "z", "y"}, words(short:get_vocabulary()))
  end)

  it("encodes", function()
    assert.same({{0, 1, 0, 0, 0}, {0, 0, 0, 0, 1}, {1, 0, 0, 0, 0}},
      layers.StringLookup{vocabulary = abcd, output_mode = "one_hot"}{"a", "d", "z"}:totable())
    local texts <const> = {{"a", "c", "d", "d"}, {"d", "z", "b", "z"}}
    assert.same({{0, 1, 0, 1, 1}, {1, 0, 1, 0, 1}},
      layers.StringLookup{vocabulary = abcd, output_mode = "multi_hot"}(texts):totable())
    assert.same({{0, 1, 0, 1, 2}, {2, 0, 1, 0, 1}},
      layers.StringLookup{vocabulary = abcd, output_mode = "count"}(texts):totable())
    assert.same({{0, 1, 0, 1, 1}, {1, 0, 1, 0, 1}},
      layers.StringLookup{vocabulary = abcd, output_mode = "binary"}(texts):totable())
  end)

  it("weighs words as Keras' documentation shows it", function()
    local layer = layers.StringLookup{output_mode = "tf_idf"}
    layer:set_vocabulary(abcd, {idf_weights = {0.25, 0.75, 0.6, 0.4}})
    local texts <const> = {{"a", "c", "d", "d"}, {"d", "z", "b", "z"}}
    local wanted <const> = ipu.tensor{{0, 0.25, 0, 0.6, 0.8}, {1, 0, 0.75, 0, 0.4}}
    local again = layers.StringLookup:from_config(layer:get_config())
    for _, each in ipairs{layer, again} do
      assert.near(0, ipu.reduce_max(ipu.abs(each(texts) - wanted)):item(), 1e-6)
    end
  end)

  -- "a" is in both documents, "b" and "c" in one: log(1 + 2 / 3) and log(1 + 2 / 2)
  it("learns the weights of words", function()
    local layer = layers.StringLookup{output_mode = "tf-idf"}
    layer:adapt{{"a", "b", "b"}, {"a", "c", "a"}}
    assert.same({"[UNK]", "a", "b", "c"}, words(layer:get_vocabulary()))
    local found = layer{{"a", "b", "c", "c"}}:totable()[1]
    for i, weight in ipairs{0, math.log(1 + 2 / 3), math.log(2), 2 * math.log(2)} do
      assert.near(weight, found[i], 1e-6)
    end
    local each = layers.StringLookup{output_mode = "tf_idf"}
    each:adapt{"a", "b", "b"} -- three documents of a word
    assert.near(math.log(1 + 3 / 3), each{"b"}[1][2]:item(), 1e-6)
  end)

  it("refuses weights that don't fit", function()
    for words_told, arguments in pairs{
      ["with output_mode 'tf_idf' a vocabulary has idf_weights"] = {output_mode = "tf_idf"},
      ["'idf_weights' are for output_mode 'tf_idf', got int"] = {idf_weights = {1}},
      ["'idf_weights' must be a list of 4 numbers, one for each word of the vocabulary, got 2"] =
        {output_mode = "tf_idf", idf_weights = {1, 2}},
      ["'idf_weights' holds numbers; entry 2 is string (x)"] =
        {output_mode = "tf_idf", idf_weights = {1, "x", 3, 4}},
    } do
      arguments.vocabulary = abcd
      local ok, message = pcall(layers.StringLookup, arguments)
      assert.is_false(ok)
      assert.matches(words_told, message, 1, true)
    end
  end)

  -- Keras: in other modes than "int" instances of the mask token are dropped.
  it("counts masks nowhere", function()
    local expected <const> = {
      one_hot = {{0, 0, 0}, {0, 1, 0}, {1, 0, 0}, {0, 0, 0}},
      multi_hot = {{1, 1, 0}, {0, 0, 0}},
      count = {{1, 2, 0}, {0, 0, 0}},
      tf_idf = {{3, 4, 0}, {0, 0, 0}},
    }
    for mode, rows in pairs(expected) do
      local lookup = layers.StringLookup{vocabulary = {"a", "b"}, mask_token = "",
        output_mode = mode, idf_weights = mode == "tf_idf" and {2, 4} or nil}
      local given = mode == "one_hot" and {"", "a", "q", ""}
        or {{"", "a", "q", "a"}, {"", "", "", ""}}
      assert.same(rows, lookup(given):totable())
    end
    local lookup = layers.StringLookup{vocabulary = {"a", "b"}, mask_token = "",
      output_mode = "multi_hot", num_oov_indices = 0}
    assert.same({{0, 1}}, lookup{{"", "b"}}:totable())
  end)

  it("counts empty words of texts nowhere", function()
    local texts = layers.TextVectorization{vocabulary = {"a", "b"}, output_mode = "count",
      standardize = "none", split = function(s)
        local list = {}
        for word in (s .. ","):gmatch("([^,]*),") do list[#list + 1] = word end
        return list
      end}
    assert.same({{0, 1, 0}, {1, 0, 1}}, texts{",a,,", "b,,q"}:totable())
  end)

  it("goes back from numbers to words, with and without a mask", function()
    local back = layers.StringLookup{vocabulary = abcd, invert = true}
    assert.same({"a", "c", "d", "d", "[UNK]", "b"},
      words(back(ipu.tensor({1, 3, 4, 4, 0, 2}, "int32"))))
    local masked = layers.StringLookup{vocabulary = abcd, mask_token = ""}
    assert.same({0, 1, 2}, masked{"", "z", "a"}:totable())
  end)

  it("refuses what it can't number", function()
    assert.error_matches(function()
      layers.StringLookup{vocabulary = abcd, num_oov_indices = 0}{"z"}
    end, "'z' is not in the vocabulary")
    assert.error_matches(function() layers.StringLookup(){"z"} end, "its vocabulary is unknown")
    assert.error_matches(function() layers.StringLookup{vocabulary = {"a", "a"}} end, "'a' twice")
    assert.error_matches(function() layers.StringLookup{vocabulary = abcd}(3) end,
      "expected a string, or the bytes of one, got")
    assert.error_matches(function() layers.StringLookup{vocabulary = abcd, max_tokens = 3} end,
      "larger than max_tokens, 3")
  end)
end)

describe("TextVectorization", function()
  -- "a" and "b" are in two and in one of the two texts; an unknown word has the mean of the weights
  it("weighs words by how rare they are", function()
    local layer = layers.TextVectorization{output_mode = "tf_idf", max_tokens = 5,
      pad_to_max_tokens = true}
    layer:adapt{"a b b", "A"}
    local a, b = math.log(1 + 2 / 3), math.log(1 + 2 / 2)
    local found = layer{"a b, b z"}:totable()[1]
    assert.same({"[UNK]", "b", "a"}, words(layer:get_vocabulary()))
    for i, weight in ipairs{(a + b) / 2, 2 * b, a, 0, 0} do assert.near(weight, found[i], 1e-6) end
  end)

  it("numbers the words of texts", function()
    local layer = layers.TextVectorization{max_tokens = 5000, output_sequence_length = 4,
      vocabulary = {"earth", "wind", "and", "fire"}}
    assert.same({{2, 3, 4, 1}, {1, 1, 5, 0}},
      layer{"Earth, wind & and more", "No 42 (fire)!"}:totable())
    assert.same({2, 4, 5, 0}, layer("earth and fire"):totable())
    assert.same({"", "[UNK]", "earth", "wind", "and", "fire"}, words(layer:get_vocabulary()))
  end)

  it("learns its vocabulary from texts, lists and datasets of lines", function()
    local texts <const> = {"foo bar", "bar baz", "baz bada boom"}
    local layer = layers.TextVectorization()
    layer:adapt(texts)
    assert.same({"", "[UNK]", "baz", "bar", "foo", "boom", "bada"}, words(layer:get_vocabulary()))
    local path = command.scratch ".txt"
    finally(function() os.remove(path) end)
    command.write(path, table.concat(texts, "\n") .. "\n")
    local lines, other = data.from_text(path), layers.TextVectorization{output_sequence_length = 3}
    other:adapt(lines)
    assert.same(words(layer:get_vocabulary()), words(other:get_vocabulary()))
    local rows = {}
    for x in lines:map(function(t) return other(t) end, {eager = true}):iter() do
      rows[#rows + 1] = x:totable()
    end
    assert.same(other(texts):totable(), rows)
    assert.same({{4, 3, 0}, {3, 2, 0}, {2, 6, 5}}, rows)
  end)

  it("counts words and pairs of words", function()
    local layer = layers.TextVectorization{output_mode = "count", ngrams = 2,
      vocabulary = {"the", "cat", "the cat"}}
    -- sat, cat the, cat sat are unknown
    assert.same({{3, 2, 2, 2}}, layer{"the cat the cat sat"}:totable())
    local hot = layers.TextVectorization{output_mode = "multi_hot", vocabulary = {"a", "b"},
      pad_to_max_tokens = true, max_tokens = 5}
    assert.same({{0, 0, 1, 0, 0}}, hot{"b b"}:totable())
  end)

  it("splits texts by its arguments", function()
    local whole = layers.TextVectorization{standardize = "none", split = "character",
      vocabulary = {"A", "a", "!"}}
    assert.same({2, 4, 3, 1}, whole("A!ab"):totable())
    local own = layers.TextVectorization{standardize = function(s) return s:gsub("%d", "#") end,
      split = function(s)
        local list = {}
        for word in s:gmatch("[^,]+") do list[#list + 1] = word end
        return list
      end, vocabulary = {"#", "x"}}
    assert.same({2, 3}, own("7,x"):totable())
    assert.error_matches(function() layers.TextVectorization{split = "word"} end,
      "'split' must be a function or one of")
  end)

  -- Keras refuses it, too: the vectors have the vocabulary's width.
  it("makes small letters of A to Z alone, as tf.strings.lower does", function()
    local layer = layers.TextVectorization{vocabulary = {"Été", "été", "über"}}
    assert.same({2, 3, 1, 4}, layer("Été été Über über"):totable())
  end)

  it("takes a length for numbers alone", function()
    for _, mode in ipairs{"multi_hot", "count"} do
      local ok, message = pcall(layers.TextVectorization,
        {output_mode = mode, output_sequence_length = 3})
      assert.is_false(ok)
      assert.matches("'output_sequence_length' is for output_mode 'int', got " .. mode, message,
        1, true)
    end
  end)

  it("is made again from its configuration", function()
    local layer = layers.TextVectorization{output_sequence_length = 2}
    layer:adapt{"x y", "y"}
    local same = layers.TextVectorization:from_config(layer:get_config())
    assert.same(layer{"y z x"}:totable(), same{"y z x"}:totable())
  end)
end)
