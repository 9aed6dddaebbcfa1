-- keras.preprocessing: numbers from the examples in Keras 2.6's documentation and tests, or by
-- hand.

local ipu = require "ipulua"

local keras = ipu.keras
local preprocessing = keras.preprocessing
local pad = preprocessing.sequence.pad_sequences

local function message_of(f, ...)
  local ok, message = pcall(f, ...)
  assert.is_false(ok)
  assert.matches("^spec/keras/preprocessing_spec.lua:%d+: ", message)
  return message
end

local function near(wanted, got, tolerance)
  assert.equal(#wanted, #got)
  for i, x in ipairs(wanted) do assert.is_near(x, got[i], tolerance or 1e-6) end
end

describe("pad_sequences", function()
  local sequences <const> = {{1}, {2, 3}, {4, 5, 6}}

  -- The examples of tf.keras.preprocessing.sequence.pad_sequences.
  for name, case in pairs{
    ["fills up at the beginning"] = {{}, {{0, 0, 1}, {0, 2, 3}, {4, 5, 6}}},
    ["fills up with a value"] = {{value = -1}, {{-1, -1, 1}, {-1, 2, 3}, {4, 5, 6}}},
    ["fills up at the end"] = {{padding = "post"}, {{1, 0, 0}, {2, 3, 0}, {4, 5, 6}}},
    ["cuts the beginning"] = {{maxlen = 2}, {{0, 1}, {2, 3}, {5, 6}}},
    ["cuts the end"] = {{maxlen = 2, truncating = "post"}, {{0, 1}, {2, 3}, {4, 5}}},
    ["fills up and cuts both at the end"] = {{maxlen = 2, truncating = "post", padding = "post"},
      {{1, 0}, {2, 3}, {4, 5}}},
    ["is longer than all"] = {{maxlen = 4}, {{0, 0, 0, 1}, {0, 0, 2, 3}, {0, 4, 5, 6}}},
  } do
    it(name, function()
      local t = pad(sequences, case[1])
      assert.are.same(case[2], t:totable())
      assert.equal("int32", t.dtype)
    end)
  end

  it("takes steps that are vectors, tensors, other dtypes", function()
    local t = pad({{{1, 2}}, {{3, 4}, {5, 6}}}, {dtype = "float32", value = 0.5})
    assert.are.same({{{0.5, 0.5}, {1, 2}}, {{3, 4}, {5, 6}}}, t:totable())
    assert.equal("float32", t.dtype)
    local encoded = keras.utils.vocabulary("abc"):encode("ca")
    assert.are.same({{0, 0, 7}, {0, 2, 0}}, pad({{7}, encoded}, {maxlen = 3}):totable())
    assert.are.same({{0, 1}, {2, 3}}, keras.utils.pad_sequences{{1}, {2, 3}}:totable())
  end)

  it("takes empty sequences, and none", function()
    assert.are.same({{0, 0}, {0, 1}}, pad({{}, {1}}, {maxlen = 2}):totable())
    assert.are.same({0, 3}, pad({}, {maxlen = 3}).shape)
    assert.are.same({2, 0}, pad{{}, {}}.shape)
  end)

  it("refuses what holds no lists", function()
    assert.matches("must hold lists or tensors; entry 1 is integer %(1%)", message_of(pad, {1, 2}))
    assert.matches("there are no sequences; give 'maxlen'", message_of(pad, {}))
    assert.matches("step 1 of sequence 0 has the shape %[1%], the first step has %[2%]",
      message_of(pad, {{{1, 2}, {3}}}))
    assert.matches("'padding' must be one of 'pre', 'post', got string %(both%)",
      message_of(pad, {{1}}, {padding = "both"}))
    assert.matches("'value', 0.5, is no int32; give 'dtype'", message_of(pad, {{1}}, {value = 0.5}))
    assert.matches("'maxlen' must not be negative", message_of(pad, {{1}}, {maxlen = -1}))
  end)
end)

describe("skip-grams", function()
  it("make_sampling_table follows Zipf's law", function()
    -- rank·(ln rank + 0.577) + 1/2 − 1/(12·rank), times the factor, of that the root; computed in
    -- Python
    near({0.0031522478751942504, 0.0031522478751942504, 0.0054759726939176976},
      preprocessing.sequence.make_sampling_table(3):totable(), 1e-9)
    local often = preprocessing.sequence.make_sampling_table(5, 0.5):totable()
    near({0.7048640530863617, 0.7048640530863617, 1, 1, 1}, often)
  end)

  it("are the pairs in a window", function()
    local both, labels = preprocessing.sequence.skipgrams({1, 2, 3}, 4,
      {window_size = 1, negative_samples = 0, shuffle = false})
    assert.are.same({{1, 2}, {2, 1}, {2, 3}, {3, 2}}, both)
    assert.are.same({1, 1, 1, 1}, labels)
    -- 0 is no word
    both = preprocessing.sequence.skipgrams({1, 0, 3}, 4, {window_size = 1, negative_samples = 0})
    assert.are.same({}, both)
  end)

  it("have the given number of random pairs, of existing words", function()
    local both, labels = preprocessing.sequence.skipgrams({1, 2, 3, 4}, 6,
      {window_size = 1, negative_samples = 2, shuffle = false,
      categorical = true, seed = 3})
    assert.equal(18, #both)
    local firsts = {0, 0, 0, 0}
    for i, pair in ipairs(both) do
      assert.are.same(i <= 6 and {0, 1} or {1, 0}, labels[i])
      assert.is_true(pair[2] >= 1 and pair[2] <= 5)
      if i > 6 then firsts[pair[1]] = firsts[pair[1]] + 1 end
    end
    assert.are.same({2, 4, 4, 2}, firsts) -- twice as often as among the true ones
  end)

  it("are the same for a seed, in an order of their own", function()
    local words = {}
    for i = 1, 50 do words[i] = i end
    local function draw(seed)
      return {preprocessing.sequence.skipgrams(words, 51, {seed = seed, negative_samples = 0})}
    end
    assert.are.same(draw(1), draw(1))
    assert.are_not.same(draw(1), draw(2))
    assert.equal(50 * 8 - 2 * (4 + 3 + 2 + 1), #draw(1)[1])
  end)

  it("keep words by the table", function()
    local both = preprocessing.sequence.skipgrams({1, 2, 1}, 3,
      {sampling_table = {0, 0, 1}, window_size = 1, negative_samples = 0, seed = 1})
    assert.equal(2, #both)
    for _, pair in ipairs(both) do assert.are.same({2, 1}, pair) end
  end)

  it("refuse numbers that are no words", function()
    assert.matches("numbers of words from 0 to 3; entry 2 is integer %(5%)",
      message_of(preprocessing.sequence.skipgrams, {1, 5}, 4))
    assert.matches("has 2 entries, none for the word 2",
      message_of(preprocessing.sequence.skipgrams, {1, 2}, 4, {sampling_table = {1, 1}}))
    assert.matches("random pairs for each of 2 are too many",
      message_of(preprocessing.sequence.skipgrams, {1, 2}, 3, {negative_samples = math.huge}))
    assert.matches("'size' must be positive",
      message_of(preprocessing.sequence.make_sampling_table, 0))
  end)
end)

describe("timeseries_dataset_from_array", function()
  local windows_of = preprocessing.timeseries_dataset_from_array

  local function all(dataset)
    local list = {}
    for x, y in dataset:unbatch():iter() do list[#list + 1] = {x:totable(), y and y:totable()} end
    return list
  end

  it("gives the windows of Keras' first example", function()
    local list = all(windows_of(ipu.arange(100), nil,
      {sequence_length = 10, sampling_rate = 2, sequence_stride = 3}))
    assert.equal(27, #list)
    assert.are.same({0, 2, 4, 6, 8, 10, 12, 14, 16, 18}, list[1][1])
    assert.are.same({3, 5, 7, 9, 11, 13, 15, 17, 19, 21}, list[2][1])
    assert.are.same({78, 80, 82, 84, 86, 88, 90, 92, 94, 96}, list[27][1])
  end)

  it("gives the targets of Keras' second example: the step after ten", function()
    local series = ipu.arange(40) * 2
    local inputs, targets = series:slice({0}, {30}), series:slice({10}, {30})
    local list = all(windows_of(inputs, targets, 10))
    assert.equal(21, #list)
    assert.are.same({{0, 2, 4, 6, 8, 10, 12, 14, 16, 18}, 20}, list[1])
    assert.equal(60, list[21][2])
  end)

  it("uses the steps from start_index to end_index", function()
    local list = all(windows_of(ipu.arange(10), ipu.arange(10) + 100,
      {sequence_length = 2, start_index = 4, end_index = 8}))
    assert.are.same({{{4, 5}, 104}, {{5, 6}, 105}, {{6, 7}, 106}}, list)
    assert.equal(2, #all(windows_of(ipu.arange(10), ipu.arange(2), 3)))
  end)

  it("cuts batches of vectors, with or without the rest", function()
    local dataset = windows_of(ipu.ones{9, 3}, nil, {sequence_length = 2, batch_size = 3})
    local shapes = {}
    for x in dataset:iter() do shapes[#shapes + 1] = x.shape end
    assert.are.same({{3, 2, 3}, {3, 2, 3}, {2, 2, 3}}, shapes)
    assert.are.same({3, 2, 3}, windows_of(ipu.ones{9, 3}, nil,
      {sequence_length = 2, batch_size = 3, drop_remainder = true}).element_spec.shape)
  end)

  it("shuffles, by its seed", function()
    local function first(seed)
      local list = all(windows_of(ipu.arange(30), nil,
        {sequence_length = 1, shuffle = true, seed = seed}))
      local order = {}
      for i, each in ipairs(list) do order[i] = each[1][1] end
      return order
    end
    local order = first(1)
    assert.are.same(order, first(1))
    assert.are_not.same(order, first(2))
    table.sort(order)
    for i = 1, 30 do assert.equal(i - 1, order[i]) end
  end)

  it("trains a model", function()
    local dataset = windows_of(ipu.random.normal({65, 1}, {seed = 1}), ipu.zeros{65, 1},
      {sequence_length = 2, batch_size = 16, drop_remainder = true})
    local model = keras.Sequential{keras.layers.Flatten{input_shape = {2, 1}},
      keras.layers.Dense(1)}
    model:compile{optimizer = keras.optimizers.SGD(0.1), loss = "mse"}
    local loss = model:fit(dataset, {epochs = 10, verbose = 0}).history.loss
    assert.is_true(loss[10] < loss[1] / 10)
  end)

  it("refuses what doesn't fit the data", function()
    local x = ipu.arange(5)
    assert.matches("no window of 6 steps, 1 apart, fits into 5 steps",
      message_of(windows_of, x, nil, 6))
    assert.matches("'sampling_rate' must be lower than the length of the data, 5, got 5",
      message_of(windows_of, x, nil, 1, {sampling_rate = 5}))
    assert.matches("'sequence_stride' must be positive",
      message_of(windows_of, x, nil, 1, {sequence_stride = 0}))
    assert.matches("no window of %d+ steps",
      message_of(windows_of, x, nil, math.maxinteger, {sampling_rate = 2}))
    assert.matches("'start_index' must lie between 0 and 4",
      message_of(windows_of, x, nil, 1, {start_index = 5}))
    assert.matches("'end_index' must be higher than start_index, 3, and at most 5, got 3",
      message_of(windows_of, x, nil, 1, {start_index = 3, end_index = 3}))
    assert.matches("'data' must have steps along its first axis",
      message_of(windows_of, ipu.tensor(1), nil, 1))
  end)
end)

describe("words", function()
  local split = preprocessing.text.text_to_word_sequence

  it("stand between spaces, small, without punctuation", function()
    assert.are.same({"hello", "world"}, split "Hello, world!")
    assert.are.same({"don't", "stop"}, split "Don't -- stop?\n")
    assert.are.same({"Hello,", "world!"}, split{"Hello, world!", filters = "", lower = false})
    assert.are.same({"a", "b c"}, split{"a;b c", filters = "", split = ";"})
    assert.are.same({}, split "")
    assert.are.same({"one", "two"}, split{"one…two", filters = "…"})
    -- as Python's lower()
    assert.are.same({"äöü", "жё", "čćł"}, split "ÄÖÜ ЖЁ ČĆŁ")
    assert.are.same({"ɓƃɔ", "ἀἁᾳ", "ⴀⴁ", "ａｚ", "ⰰⰱ", "𐐨", "ⱥⱦ", "ϗθϸ"},
      split "ƁƂƆ ἈἉᾼ ႠႡ ＡＺ ⰀⰁ 𐐀 ȺȾ ϏϴϷ")
    assert.matches("'split' must not be empty", message_of(split, {"a b", split = ""}))
  end)

  it("are hashed to numbers that are always the same", function()
    -- int(hashlib.md5(word).hexdigest(), 16) % (n - 1) + 1, in Python
    assert.are.same({6, 3, 1, 1, 6, 8},
      preprocessing.text.hashing_trick("The cat sat on the mat.", 10))
    assert.are.same({2, 3, 2}, preprocessing.text.hashing_trick("a bb a", 4,
      {hash_function = function(word) return #word end}))
    assert.matches("must give integers, got string",
      message_of(preprocessing.text.hashing_trick, "a", 4, function(word) return word end))
    assert.matches("must be \"md5\" or a function",
      message_of(preprocessing.text.hashing_trick, "a", 4, "sha"))
  end)
end)

describe("Tokenizer", function()
  local Tokenizer = preprocessing.text.Tokenizer
  -- Keras' own test
  local texts <const> = {"The cat sat on the mat.", "The dog sat on the log.",
    "Dogs and cats living together."}

  local function fitted(options)
    local tokenizer = Tokenizer(options or {})
    tokenizer:fit_on_texts(texts)
    return tokenizer
  end

  it("numbers words by frequency, the first that came first", function()
    local t = fitted()
    assert.are.same({"the", "sat", "on", "cat", "mat", "dog", "log", "dogs", "and", "cats",
      "living", "together"}, t.index_word)
    assert.equal(4, t.word_index.cat)
    assert.equal(4, t.word_counts.the)
    assert.equal(2, t.word_docs.the)
    assert.equal(2, t.index_docs[1])
    assert.equal(3, t.document_count)
    assert.are.same({{1, 4, 2, 3, 1, 5}, {1, 6, 2, 3, 1, 7}, {8, 9, 10, 11, 12}},
      t:texts_to_sequences(texts))
  end)

  it("leaves out what is beyond num_words, and what it doesn't know", function()
    local t = fitted{num_words = 10}
    assert.are.same({{1, 4, 2, 3, 1, 5}, {8, 9}, {1, 4}},
      t:texts_to_sequences{texts[1], texts[3], "the unknown cat"})
    assert.equal(12, #t.index_word)
    assert.are.same({"the cat", ""}, t:sequences_to_texts{{0, 1, 4, 11, 77}, {}})
  end)

  it("gives oov_token the number 1", function()
    local t = fitted{num_words = 5, oov_token = "<oov>"}
    assert.equal(1, t.word_index["<oov>"])
    assert.are.same({{2, 1, 3, 4, 2, 1}}, t:texts_to_sequences{"The bird sat on the mat"})
    assert.are.same({"the <oov> sat <oov>"}, t:sequences_to_texts{{2, 9, 3, 99}})
  end)

  it("makes matrices in four modes", function()
    local t = fitted{num_words = 10}
    local function row(mode) return t:texts_to_matrix({texts[1]}, mode):totable()[1] end
    assert.are.same({0, 1, 1, 1, 1, 1, 0, 0, 0, 0}, row "binary")
    assert.are.same({0, 2, 1, 1, 1, 1, 0, 0, 0, 0}, row "count")
    near({0, 1 / 3, 1 / 6, 1 / 6, 1 / 6, 1 / 6, 0, 0, 0, 0}, row "freq")
    -- (1 + ln 2)·ln(1 + 3/3), ln(1 + 3/3), ln(1 + 3/2)
    near({0, 1.1736001944781467, 0.6931471805599453, 0.6931471805599453, 0.9162907318741551,
      0.9162907318741551, 0, 0, 0, 0}, row "tfidf")
    assert.are.same({3, 13}, fitted():texts_to_matrix(texts).shape)
    assert.are.same({{0, 0, 0}, {0, 2, 0}},
      Tokenizer{num_words = 3}:sequences_to_matrix({{}, {1, 1, 5}}, {mode = "count"}):totable())
  end)

  it("counts documents of sequences, for tfidf", function()
    local t = Tokenizer{num_words = 3}
    t:fit_on_sequences{{1, 1, 2}, {1}}
    assert.equal(2, t.document_count)
    near({0, math.log(1 + 2 / 3), math.log(1 + 2 / 2)},
      t:sequences_to_matrix({{1, 2}}, {mode = "tfidf"}):totable()[1])
  end)

  it("counts characters, and lists of words", function()
    local t = Tokenizer{char_level = true}
    t:fit_on_texts{"AbaÄ"}
    assert.are.same({"a", "b", "ä"}, t.index_word)
    assert.are.same({{2, 3}}, t:texts_to_sequences{"bä"})
    local words = Tokenizer()
    words:fit_on_texts{{"New York", "x"}, {"new york"}}
    assert.are.same({"new york", "x"}, words.index_word)
  end)

  it("goes on counting", function()
    local t = fitted()
    t:fit_on_texts{"mat mat mat mat"}
    assert.are.same({1, 2}, {t.word_index.mat, t.word_index.the}) -- 5 and 4
    assert.equal(4, t.document_count)
  end)

  it("is saved as Keras saves it", function()
    local t = fitted{num_words = 10, oov_token = "?"}
    local copy = preprocessing.text.tokenizer_from_json(t:to_json())
    assert.equal(t:to_json(), copy:to_json())
    assert.are.same(t:texts_to_sequences(texts), copy:texts_to_sequences(texts))
    assert.are.same(t:texts_to_matrix(texts, "tfidf"):totable(),
      copy:texts_to_matrix(texts, "tfidf"):totable())
    local config = ipu.json.decode(t:to_json()).config
    assert.equal(4, ipu.json.decode(config.word_counts).the)
    assert.matches('^{"the": 4, "cat": 1, "sat": 2', config.word_counts)
  end)

  it("reads what Keras wrote, in Keras' order", function()
    local t = preprocessing.text.tokenizer_from_json([[{"class_name": "Tokenizer", "config": {"num_words": null, "filters": "!,.\t\n",
      "lower": true, "split": " ", "char_level": false, "oov_token": null, "document_count": 1,
      "word_counts": "{\"z\\\"\": 1, \"b\": 2, \"a\": 1}", "word_docs": "{\"a\": 1, \"b\": 1, \"z\\\"\": 1}",
      "index_docs": "{\"1\": 1, \"2\": 1, \"3\": 1}", "index_word": "{\"1\": \"b\", \"2\": \"z\\\"\", \"3\": \"a\"}",
      "word_index": "{\"b\": 1, \"z\\\"\": 2, \"a\": 3}"}}]])
    assert.are.same({{3, 1, 2}}, t:texts_to_sequences{'A! b z"'})
    t:fit_on_texts{"a z\" c"} -- all are 2 now but c: they stay in the order in which they came
    assert.are.same({'z"', "b", "a", "c"}, t.index_word)
  end)

  it("refuses what is no text", function()
    local t = fitted()
    assert.matches("'texts' must be a list, got string", message_of(t.fit_on_texts, t, "a b"))
    assert.matches("'texts' must hold strings or lists of words, got integer",
      message_of(t.texts_to_sequences, t, {1}))
    assert.matches("integers from 0, got string", message_of(t.sequences_to_texts, t, {{"a"}}))
    assert.matches("'num_words' must be positive", message_of(Tokenizer, {num_words = 0}))
    assert.matches("number of columns is unknown",
      message_of(function() Tokenizer():sequences_to_matrix{{1}} end))
    assert.matches("'tfidf' needs counted texts",
      message_of(function() Tokenizer(3):sequences_to_matrix({{1}}, "tfidf") end))
    assert.matches("'mode' must be one of 'binary'",
      message_of(function() t:texts_to_matrix({"a"}, "tf") end))
    local read = preprocessing.text.tokenizer_from_json
    assert.matches("describes no tokenizer: config.word_counts is missing", message_of(read, "{}"))
    local function with(name, value)
      local spec = ipu.json.decode(t:to_json())
      spec.config[name] = value
      return ipu.json.encode(spec)
    end
    assert.matches("config.word_docs must be an object", message_of(read, with("word_docs", "3")))
    assert.matches("config.index_docs must not hold x = integer %(1%)",
      message_of(read, with("index_docs", '{"x": 1}')))
    assert.matches("config.word_counts must not hold a = string %(b%)",
      message_of(read, with("word_counts", '{"a": "b"}')))
    assert.matches("'lower' must be a boolean", message_of(read, with("lower", 3)))
  end)
end)

describe("names of keras.preprocessing", function()
  it("that are not offered say what to use", function()
    assert.matches("TimeseriesGenerator is not offered: use "
      .. "preprocessing.timeseries_dataset_from_array",
      message_of(function() return preprocessing.sequence.TimeseriesGenerator end))
    assert.matches("one_hot is not offered: .*hashing_trick",
      message_of(function() return preprocessing.text.one_hot end))
    assert.matches("has no 'Tokeniser'; did you mean 'Tokenizer'",
      message_of(function() return preprocessing.text.Tokeniser end))
    for module, name in pairs{callbacks = "ProgbarLogger", datasets = "reuters",
      utils = "get_file"} do
      assert.matches(name .. " is not offered: ",
        message_of(function() return keras[module][name] end))
    end
    assert.matches("keras.applications is not offered: ",
      message_of(function() return keras.applications end))
  end)
end)
