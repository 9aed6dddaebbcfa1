-- Data sets from tiny files in each format.

local command = require "spec.support.command"
local ipu = require "ipulua"
local datasets = ipu.keras.datasets

local function idx(extents, bytes)
  local head = string.char(0, 0, 8, #extents)
  for _, extent in ipairs(extents) do head = head .. string.pack(">I4", extent) end
  return head .. bytes
end

-- A picture whose red plane holds 1, green 2, blue 3.
local picture <const> = ("\1"):rep(1024) .. ("\2"):rep(1024) .. ("\3"):rep(1024)

describe("keras.datasets", function()
  local folder
  before_each(function() folder = command.folder() end)
  after_each(function() command.remove(folder) end)

  local function write(name, text)
    os.execute("mkdir -p " .. command.quote((folder .. "/" .. name):match("^(.*)/")))
    command.write(folder .. "/" .. name, text)
  end

  it("fashion_mnist reads files in MNIST's format, packed ones too", function()
    for set, count in pairs{train = 2, t10k = 1} do
      write("fashion-mnist/" .. set .. "-images-idx3-ubyte",
        idx({count, 2, 2}, ("abcd"):rep(count)))
      write("fashion-mnist/" .. set .. "-labels-idx1-ubyte", idx({count}, ("\7"):rep(count)))
    end
    os.execute("gzip " .. folder .. "/fashion-mnist/train-images-idx3-ubyte")
    local x_train, y_train, x_test, y_test = datasets.fashion_mnist.load_data{path = folder}
    assert.same({{{97, 98}, {99, 100}}, {{97, 98}, {99, 100}}}, x_train:totable())
    assert.same({7, 7}, y_train:totable())
    assert.same({1, 2, 2}, x_test.shape)
    assert.same({7}, y_test:totable())
  end)

  it("cifar10 reads five files of records and the test file", function()
    for i = 1, 5 do
      write("cifar10/data_batch_" .. i .. ".bin", string.char(i) .. picture .. string.char(i + 4)
        .. picture)
    end
    write("cifar10/test_batch.bin", "\9" .. picture)
    local x_train, y_train, x_test, y_test = datasets.cifar10.load_data{path = folder}
    assert.same({10, 32, 32, 3}, x_train.shape)
    assert.same({1, 2, 3}, x_train[1][1][1]:totable()) -- channels last
    assert.same({{1}, {5}, {2}, {6}, {3}, {7}, {4}, {8}, {5}, {9}}, y_train:totable())
    assert.same({1, 32, 32, 3}, x_test.shape)
    assert.same({{9}}, y_test:totable())
  end)

  it("cifar100 has fine and coarse labels", function()
    write("cifar-100-binary/train.bin", "\3\42" .. picture .. "\19\99" .. picture)
    write("cifar-100-binary/test.bin", "\1\2" .. picture)
    local x_train, fine, _, fine_test = datasets.cifar100.load_data{path = folder
      .. "/cifar-100-binary"}
    assert.same({2, 32, 32, 3}, x_train.shape)
    assert.same({{42}, {99}}, fine:totable())
    assert.same({{2}}, fine_test:totable())
    local _, coarse, _, coarse_test = datasets.cifar100.load_data{label_mode = "coarse",
      path = folder}
    assert.same({{3}, {19}}, coarse:totable())
    assert.same({{1}}, coarse_test:totable())
    assert.error_matches(function() datasets.cifar100.load_data{label_mode = "both"} end,
      "'fine', 'coarse'")
  end)

  it("refuses damaged files by name and offset", function()
    write("cifar10/test_batch.bin", "\9" .. picture:sub(1, -2))
    for i = 1, 5 do write("cifar10/data_batch_" .. i .. ".bin", "\1" .. picture) end
    assert.error_matches(function() datasets.cifar10.load_data{path = folder} end, "test_batch.bin")
  end)

  it("imdb numbers words by how frequent they are", function()
    write("aclImdb/train/pos/0_9.txt", "A good, good film<br />")
    write("aclImdb/train/neg/0_1.txt", "a bad film")
    write("aclImdb/test/pos/1_9.txt", "good new film")
    write("aclImdb/test/neg/1_1.txt", "bad")
    local x_train, y_train, x_test, y_test = datasets.imdb.load_data{path = folder, maxlen = 5}
    -- a, film, good: twice each, in that order; bad: once. Numbers begin after 3; 1 begins a
    -- review, 2 is an unknown word
    assert.same({{0, 1, 4, 7, 5}, {1, 4, 6, 6, 5}}, x_train:totable())
    assert.same({0, 1}, y_train:totable())
    assert.same({{0, 0, 0, 1, 7}, {0, 1, 6, 2, 5}}, x_test:totable())
    assert.same({0, 1}, y_test:totable())
    local few = datasets.imdb.load_data{path = folder, maxlen = 5, num_words = 6}
    assert.same({{0, 1, 4, 2, 5}, {1, 4, 2, 2, 5}}, few:totable())
  end)

  it("text is numbers of characters, with a vocabulary", function()
    write("tinyshakespeare.txt", "hallo\nhall")
    local train, validation, vocabulary = datasets.text.load_data{path = folder,
      validation_split = 0.3}
    assert.equal("\nahlo", table.concat(vocabulary.characters))
    assert.same({2, 1, 3, 3, 4, 0, 2}, train:totable())
    assert.equal("all", vocabulary:decode(validation))
    local whole = datasets.text.load_data{path = folder .. "/tinyshakespeare.txt",
      validation_split = 0}
    assert.equal(10, whole.size)
    assert.error_matches(function()
      datasets.text.load_data{path = folder, validation_split = 1}
    end, "%[0, 1%)")
  end)

  it("say where they looked, and for what", function()
    for name, wanted in pairs{fashion_mnist = "train%-images%-idx3%-ubyte",
      cifar10 = "data_batch_1.bin", cifar100 = "train.bin",
      imdb = "train/pos/%*.txt", text = "tinyshakespeare.txt"} do
      local _, message = pcall(datasets[name].load_data, {path = folder})
      assert.matches("keras.datasets." .. name .. ": its files are missing", message)
      assert.is_truthy(message:find("Looked in: " .. folder, 1, true))
      assert.matches("Wanted there.*" .. wanted, message)
    end
    local script = "local ok, m = pcall(require('ipulua').keras.datasets.cifar10.load_data) "
      .. "print(m)"
    local out = command.run{command.ipulua, "-e", script,
      env = {HOME = "/home/me", IPULUA_DATA = "/data"}}.out
    assert.is_truthy(
      out:find("Looked in: /data/cifar10, /data, /home/me/.ipulua/datasets/cifar10, ", 1, true),
      out)
  end)
end)
