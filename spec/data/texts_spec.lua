-- Datasets of Lua strings: they stay on the host, and every stage hands them on as they were.

local ipu = require "ipulua"

local data, layers = ipu.data, ipu.keras.layers

-- The elements that are read, each as its values in words.
local function read(ds)
  local list = {}
  for a, b in ds:iter() do
    local both = {}
    for i, v in ipairs{a, b} do
      both[i] = type(v) == "table" and "{" .. table.concat(v, ",") .. "}" or tostring(v)
    end
    list[#list + 1] = table.concat(both, "=")
  end
  return table.concat(list, " ")
end

local abc <const> = data.from_tensor_slices{"a", "bc", "", "d"}

describe("a dataset of strings", function()
  it("is made of lists, also beside numbers, whichever comes first", function()
    assert.equal("Dataset(from_tensor_slices: string[])", tostring(abc))
    assert.equal("string", abc.element_spec.dtype)
    assert.equal("a bc  d", read(abc))
    assert.equal("x=1.0 y=2.0", read(data.from_tensor_slices{{"x", "y"}, {1, 2}}))
    assert.equal("1.0=x 2.0=y", read(data.from_tensor_slices{{1, 2}, {"x", "y"}}))
    assert.equal("x=u y=v", read(data.from_tensor_slices{{"x", "y"}, {"u", "v"}}))
    for e in data.from_tensor_slices{name = {"x"}, n = ipu.arange(1)}:iter() do
      assert.same({"x", 0}, {e.name, e.n:item()})
    end
    assert.equal("{x,y}", read(data.from_tensors{"x", "y"}))
  end)

  it("comes from a generator that declares them", function()
    local function words()
      return coroutine.wrap(function()
        for i = 1, 3 do coroutine.yield("w" .. i, i) end
      end)
    end
    local ds = data.from_generator(words,
      {output_types = {"string", "int32"}, output_shapes = {{}, {}}})
    assert.equal("Dataset(from_generator: string[], int32[])", tostring(ds))
    assert.equal("w1=1 w2=2 w3=3", read(ds))
  end)

  it("goes through what groups and counts", function()
    assert.equal("{a,bc} {,d}", read(abc:batch(2)))
    assert.equal("a bc  d", read(abc:batch(3):unbatch()))
    assert.equal("bc  a bc ", read(abc:skip(1):take(2):concatenate(abc:take(2)):map(function(s)
      return s
    end)) .. " ")
    assert.equal("0=a 1=bc", read(abc:enumerate():take(2)))
    assert.equal("a=0 bc=1", read(data.zip(abc, data.range(2))))
    assert.equal("a bc a bc", read(abc:take(2):cache():repeat_n(2)))
    assert.equal("{a,bc} {bc,}",
      read(abc:window(2, {shift = 1}):flat_map(function(w) return w:batch(2) end):take(2)))
    assert.equal("bc d", read(abc:shard(2, 1)))
    local shuffled = {}
    for s in abc:shuffle(4, {seed = 3}):iter() do shuffled[#shuffled + 1] = s end
    table.sort(shuffled)
    assert.same({"", "a", "bc", "d"}, shuffled)
  end)

  it("is filled up with empty strings, or with the one that is given", function()
    local words = abc:map(function(s) return {s, s .. "!"} end)
      :concatenate(data.from_tensors{"x"}:map(function(s) return s end))
    assert.equal("{a,a!} {bc,bc!}", read(words:take(2)))
    local rows = data.from_tensors{"a", "b"}:concatenate(data.from_tensors{"c"})
    for batch in rows:padded_batch(2, {padded_shapes = {-1}}):iter() do
      assert.same({"c", ""}, {table.unpack(batch[2])})
    end
    for batch in rows:padded_batch(2, {padded_shapes = {3}, padding_values = "?"}):iter() do
      assert.same({"a", "b", "?"}, {table.unpack(batch[1])})
    end
  end)

  it("is mapped and filtered in Lua, texts to texts or to tensors", function()
    local both = abc:map(function(s) return s:upper(), #s end)
    assert.equal("Dataset(map: string[], float32[])", tostring(both))
    assert.equal("A=1.0 BC=2.0 =0.0 D=1.0", read(both))
    assert.equal("a bc d", read(abc:filter(function(s) return s ~= "" end)))
    assert.equal("n0 n1", read(data.range(2):map(function(i) return "n" .. i:item() end,
      {eager = true})))
  end)

  it("is numbered by StringLookup and TextVectorization, which learn from it", function()
    local pairs_of = data.from_tensor_slices{{"a b", "b c b"}, {"x", "y"}}
    local texts = layers.TextVectorization{output_sequence_length = 3}
    texts:adapt(pairs_of:map(function(s) return s end):batch(2))
    local names = layers.StringLookup()
    names:adapt(pairs_of:map(function(_, name) return name end))
    assert.same({"", "[UNK]", "b", "c", "a"}, {table.unpack(texts:get_vocabulary())})
    assert.same({"[UNK]", "y", "x"}, {table.unpack(names:get_vocabulary())})
    local ds = pairs_of:map(function(s, name) return texts(s), names(name) end)
    assert.equal("Dataset(map: int32[3], int32[])", tostring(ds))
    assert.equal("[4 2 0]=2 [2 3 2]=1", read(ds))
    local batched = pairs_of:batch(2):map(function(s, name) return texts(s), names(name) end)
    assert.equal("Dataset(map: int32[-1, 3], int32[-1])", tostring(batched))
    local back = layers.StringLookup{vocabulary = names:get_vocabulary(), invert = true}
    assert.equal("y", back(ipu.tensor({{0, 1}, {2, 1}}, {dtype = "int32"}))[2][2])
  end)

  it("trains a model with its smaller last batch", function()
    local list, labels = {}, {}
    for i = 1, 50 do list[i], labels[i] = i % 2 == 0 and "good film" or "bad film", i % 2 end
    local texts = layers.TextVectorization{output_mode = "multi_hot"}
    texts:adapt(list)
    local ds = data.from_tensor_slices{list, labels}:batch(16)
      :map(function(s, y) return texts(s), y end)
    ipu.keras.utils.set_random_seed(1)
    local model = ipu.keras.Sequential{layers.Dense{1, activation = "sigmoid"}}
    model:compile{optimizer = ipu.keras.optimizers.Adam{0.1}, loss = "binary_crossentropy",
      metrics = {"accuracy"}}
    model:fit(ds, {epochs = 20, verbose = 0})
    assert.equal(1, model:evaluate(ds, {verbose = 0, return_dict = true}).accuracy)
    local ok, message = pcall(model.fit, model, data.from_tensor_slices{list, labels}:batch(5))
    assert.is_false(ok)
    assert.matches("fit: the dataset has strings, which stay on the host; number them in map",
      message)
  end)

  it("is refused where numbers are expected", function()
    for pattern, f in pairs{
      ["IPUInfeedQueue: the dataset has strings"] = function() ipu.IPUInfeedQueue(abc) end,
      ["cache: a file has numbers"] = function() abc:cache "nowhere" end,
      ["a list of strings holds integer %(3%)"] = function() data.from_tensor_slices{"x", 3} end,
      ["string%[%] in the first dataset, as int64%[%] in the second"] = function()
        abc:concatenate(data.range(2))
      end,
    } do
      local ok, message = pcall(f)
      assert.is_false(ok)
      assert.matches(pattern, message)
    end
  end)
end)
