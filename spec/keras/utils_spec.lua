-- Helpers and data sets.

local ipu = require "ipulua"

local keras = ipu.keras
local layers = keras.layers

local function message_of(f, ...)
  local ok, message = pcall(f, ...)
  assert.is_false(ok)
  return message
end

local function write(path, text)
  local file = assert(io.open(path, "wb"))
  file:write(text)
  file:close()
end

describe("keras.utils", function()
  it("to_categorical", function()
    assert.are.same({{1, 0, 0}, {0, 0, 1}}, keras.utils.to_categorical{{0, 2}}:totable())
    assert.are.same({{0, 1, 0, 0}}, keras.utils.to_categorical({1}, 4):totable())
  end)

  it("set_random_seed repeats weights", function()
    local function weights()
      keras.utils.set_random_seed(7)
      return keras.initializers.GlorotUniform(){3, 2}:totable()
    end
    assert.are.same(weights(), weights())
  end)

  it("plot_model writes the graph of layers", function()
    local x = keras.Input{shape = {2}, name = "in"}
    local y = layers.Dense{3, name = "left"}(x)
    local model = keras.Model{inputs = x, outputs = layers.Add{name = "sum"}{y, y}, name = "m"}
    local path = os.tmpname() .. ".dot"
    local text = keras.utils.plot_model(model, {to_file = path, show_shapes = true})
    os.remove(path)
    assert.matches('digraph "m"', text)
    assert.is_not_nil(text:find('label="left: Dense\\n(None, 3)"', 1, true))
    assert.matches("l1 %-> l2;\n  l2 %-> l3;", text)
  end)

  it("vocabulary numbers characters, generate_text writes", function()
    local v = keras.utils.vocabulary("hello wörld")
    assert.are.equal(" ", v.characters[1])
    assert.are.equal("hell", v:decode(v:encode("hell")))
    assert.matches("the character 'x' is unknown", message_of(v.encode, v, "x"))
    -- a model that says that the next character is the one after in the vocabulary
    local Next = keras.Model:extend("Next")
    function Next:call(x) -- luacheck: ignore 212
      return ipu.one_hot(ipu.mod(x + 1, v.size), v.size) * 100
    end
    assert.are.equal("dehl", keras.utils.generate_text(Next(), v, "d", {length = 3}))
  end)
end)

describe("keras.datasets", function()
  local folder
  before_each(function()
    folder = os.tmpname()
    os.remove(folder)
    os.execute("mkdir -p " .. folder)
  end)
  after_each(function() os.execute("rm -r " .. folder) end)

  local function idx(kind, extents, bytes)
    local text = string.pack(">I2I1I1", 0, kind, #extents)
    for _, extent in ipairs(extents) do text = text .. string.pack(">I4", extent) end
    return text .. bytes
  end

  it("reads mnist's files, and draws digits where there are none", function()
    write(folder .. "/train-images-idx3-ubyte", idx(8, {2, 1, 2}, "\1\2\3\4"))
    write(folder .. "/train-labels-idx1-ubyte", idx(8, {2}, "\5\6"))
    write(folder .. "/t10k-images-idx3-ubyte", idx(8, {1, 1, 2}, "\7\8"))
    write(folder .. "/t10k-labels-idx1-ubyte", idx(8, {1}, "\9"))
    local x_train, y_train, x_test, y_test = keras.datasets.mnist.load_data{path = folder}
    assert.are.same({{{1, 2}}, {{3, 4}}}, x_train:totable())
    assert.are.same({5, 6}, y_train:totable())
    assert.are.same({{{7, 8}}}, x_test:totable())
    assert.are.same({9}, y_test:totable())
  end)

  it("reads cifar10's files", function()
    local record = "\3" .. ("\1"):rep(1024) .. ("\2"):rep(1024) .. ("\4"):rep(1024)
    for i = 1, 5 do write(folder .. "/data_batch_" .. i .. ".bin", record) end
    write(folder .. "/test_batch.bin", record .. record)
    local x_train, y_train, x_test, y_test = keras.datasets.cifar10.load_data{path = folder}
    assert.are.same({5, 32, 32, 3}, x_train.shape)
    assert.are.same({5, 1}, y_train.shape)
    assert.are.same({2, 32, 32, 3}, x_test.shape)
    assert.are.equal(3, y_test[1][1]:item())
    assert.are.same({1, 2, 4}, x_train[1][1][1]:totable())
  end)

  it("reads reviews and texts", function()
    for name, text in pairs{["train/pos"] = "Good good film", ["train/neg"] = "Bad film", ["test/pos"] = "good", ["test/neg"] = "worse"} do
      os.execute("mkdir -p " .. folder .. "/" .. name)
      write(folder .. "/" .. name .. "/0_1.txt", text)
    end
    local x_train, y_train, x_test = keras.datasets.imdb.load_data{path = folder, maxlen = 4}
    -- film and good come twice, bad once: ranks 1, 2 and 3, counted from 3 on
    assert.are.same({{0, 1, 6, 4}, {1, 5, 5, 4}}, x_train:totable())
    assert.are.same({0, 1}, y_train:totable())
    assert.are.same({{0, 0, 1, 2}, {0, 0, 1, 5}}, x_test:totable())
    write(folder .. "/a.txt", "abcab")
    local train, validation, vocabulary = keras.datasets.text.load_data{path = folder .. "/a.txt", validation_split = 0.4}
    assert.are.same({0, 1, 2}, train:totable())
    assert.are.same({0, 1}, validation:totable())
    assert.are.equal(3, vocabulary.size)
  end)

  it("says where it looked and what it wanted", function()
    for _, name in ipairs{"fashion_mnist", "cifar10", "cifar100", "imdb", "text"} do
      local message = message_of(keras.datasets[name].load_data, {path = folder})
      assert.matches("keras.datasets." .. name .. ": its files are missing. Looked in: " .. folder:gsub("%p", "%%%0"), message)
      assert.matches("Wanted there", message)
    end
  end)
end)
