-- keras.utils.image_dataset_from_directory and text_dataset_from_directory: files, labels, splits.

local ipu = require "ipulua"

local utils <const> = ipu.keras.utils

local root <const> = os.tmpname()
os.remove(root)

-- 7 pictures of "ant", whose pixels are 10 … 16, and 5 of "bee", 100 … 104; the texts likewise.
local first_of <const>, count_of <const> = {ant = 10, bee = 100}, {ant = 7, bee = 5}

setup(function()
  for _, name in ipairs{"ant", "bee"} do
    os.execute("mkdir -p '" .. root .. "/" .. name .. "'")
    for i = 1, count_of[name] do
      local value = first_of[name] + i - 1
      utils.save_img(("%s/%s/%d.png"):format(root, name, i),
        ipu.full({3, 4, 3}, value, {dtype = "uint8"}))
      local file = assert(io.open(("%s/%s/%d.txt"):format(root, name, i), "w"))
      file:write(name, " ", value)
      file:close()
    end
  end
end)

teardown(function() os.execute("rm -r '" .. root .. "'") end)

local function options(more)
  local given = {root, image_size = {2, 2}, batch_size = 5, seed = 3}
  for key, value in pairs(more or {}) do given[key] = value end
  return given
end

-- The first pixel and the label of every picture, in their order.
local function read(dataset)
  local pixels, labels, sizes = {}, {}, {}
  for x, y in dataset:iter() do
    sizes[#sizes + 1] = x.shape[1]
    for i = 1, x.shape[1] do
      pixels[#pixels + 1] = x[i][1][1][1]:item()
      labels[#labels + 1] = y[i]:item()
    end
  end
  return pixels, labels, sizes
end

local function sorted(list)
  local copy = table.move(list, 1, #list, 1, {})
  table.sort(copy)
  return copy
end

local all <const> = {10, 11, 12, 13, 14, 15, 16, 100, 101, 102, 103, 104}

describe("image_dataset_from_directory", function()
  it("gives batches of float32 and the numbers of the folders, in an order of its own", function()
    local dataset = utils.image_dataset_from_directory(options())
    assert.same({"ant", "bee"}, {table.unpack(dataset.class_names)})
    assert.equal(12, #dataset.file_paths)
    local spec = dataset.element_spec
    assert.same({"float32", "int32"}, {spec[1].dtype, spec[2].dtype})
    local pixels, labels, sizes = read(dataset)
    assert.same({5, 5, 2}, sizes)
    assert.same(all, sorted(pixels))
    assert.not_same(all, pixels)
    for i, pixel in ipairs(pixels) do assert.equal(pixel < 100 and 0 or 1, labels[i]) end
  end)

  it("keeps the order of paths where nothing is shuffled", function()
    local dataset = utils.image_dataset_from_directory(options{shuffle = false})
    assert.same(all, (read(dataset)))
    assert.equal(root .. "/bee/5.png", dataset.file_paths[12])
  end)

  it("splits into two parts that have nothing in common: of 12 files 0.3 are 3", function()
    local function part(subset, seed)
      return (read(utils.image_dataset_from_directory(options{validation_split = 0.3, seed = seed,
        subset = subset})))
    end
    local training, validation = part("training", 1), part("validation", 1)
    assert.equal(3, #validation)
    table.move(training, 1, #training, #validation + 1, validation)
    assert.same(all, sorted(validation))
    assert.not_same(sorted(part("validation", 1)), sorted(part("validation", 2)))
  end)

  it("gives both parts at once, those that are read one by one", function()
    local function parts(subset)
      return utils.image_dataset_from_directory(options{validation_split = 0.3, seed = 1,
        subset = subset})
    end
    local training, validation = parts "both"
    assert.same({9, 3}, {#training.file_paths, #validation.file_paths})
    assert.same(parts("training").file_paths, training.file_paths)
    assert.same(parts("validation").file_paths, validation.file_paths)
    local rest = table.move(read(validation), 1, 3, 10, (read(training)))
    assert.same(all, sorted(rest))
  end)

  it("numbers the classes as class_names has them, and leaves others out", function()
    local both = utils.image_dataset_from_directory(options{class_names = {"bee", "ant"}})
    local pixels, labels = read(both)
    for i, pixel in ipairs(pixels) do assert.equal(pixel < 100 and 1 or 0, labels[i]) end
    local one = utils.image_dataset_from_directory(options{class_names = {"bee"}})
    assert.same({100, 101, 102, 103, 104}, sorted((read(one))))
  end)

  it("has labels in the forms of label_mode", function()
    local function labels_of(mode)
      local dataset = utils.image_dataset_from_directory(options{label_mode = mode,
        shuffle = false, batch_size = 12})
      local _, y = dataset:iter()()
      return y
    end
    local binary, categorical = labels_of "binary", labels_of "categorical"
    assert.same({12, 1}, {table.unpack(binary.shape)})
    assert.same({"float32", 0.0, 1.0}, {binary.dtype, binary[7][1]:item(), binary[8][1]:item()})
    assert.same({12, 2}, {table.unpack(categorical.shape)})
    assert.same({1.0, 0.0}, {table.unpack(categorical[7]:totable())})
    assert.same({0.0, 1.0}, {table.unpack(categorical[8]:totable())})
    assert.is_nil(labels_of "none")
  end)

  it("takes labels of a folder's own pictures, or none", function()
    local given = options{root .. "/bee", labels = {4, 0, 1, 1, 2}, shuffle = false}
    local dataset = utils.image_dataset_from_directory(given)
    local pixels, labels = read(dataset)
    assert.same({100, 101, 102, 103, 104}, pixels)
    assert.same({4, 0, 1, 1, 2}, labels)
    assert.same({"0", "1", "2", "3", "4"}, {table.unpack(dataset.class_names)})
    local plain = utils.image_dataset_from_directory(options{root .. "/bee", labels = "none"})
    for x, y in plain:iter() do
      assert.same({5, 2, 2, 3}, {table.unpack(x.shape)})
      assert.is_nil(y)
    end
  end)

  it("makes grey pictures of coloured ones", function()
    local dataset = utils.image_dataset_from_directory(options{color_mode = "grayscale",
      shuffle = false})
    for x in dataset:take(1):iter() do
      assert.same({5, 2, 2, 1}, {table.unpack(x.shape)})
      assert.equal(10, x[1][1][1][1]:item())
    end
  end)
end)

describe("text_dataset_from_directory", function()
  it("gives batches of Lua strings and labels, cut off at max_length", function()
    local function read_texts(more)
      local given = {root, batch_size = 4, seed = 1}
      for key, value in pairs(more) do given[key] = value end
      local list, labels = {}, {}
      for x, y in utils.text_dataset_from_directory(given):iter() do
        for i, text in ipairs(x) do
          list[#list + 1], labels[#labels + 1] = text, y[i]:item()
        end
      end
      return list, labels
    end
    local list, labels = read_texts{}
    for i, text in ipairs(list) do
      assert.equal(text:find "^ant" and 0 or 1, labels[i])
    end
    assert.same({"ant 10", "ant 11", "ant 12", "ant 13", "ant 14", "ant 15", "ant 16", "bee 100",
      "bee 101", "bee 102", "bee 103", "bee 104"}, sorted(list))
    assert.same({"ant", "ant"}, {table.unpack(read_texts{max_length = 3, shuffle = false}, 6, 7)})
  end)

  it("is numbered by TextVectorization, and learnt", function()
    ipu.keras.utils.set_random_seed(1)
    local layers = ipu.keras.layers
    local dataset = utils.text_dataset_from_directory{root, label_mode = "binary", seed = 1,
      batch_size = 6}
    local vectorize = layers.TextVectorization{output_mode = "int", output_sequence_length = 2}
    vectorize:adapt(dataset:map(function(text) return text end))
    local model = ipu.keras.Sequential{layers.Embedding(20, 4, {input_shape = {2}}),
      layers.Flatten(), layers.Dense(1, {activation = "sigmoid"})}
    model:compile{optimizer = ipu.keras.optimizers.Adam(0.1), loss = "binary_crossentropy",
      metrics = {"accuracy"}}
    local numbered = dataset:map(function(text, label) return vectorize(text), label end)
    local history = model:fit{numbered, epochs = 10, verbose = 0}.history
    assert.equal(1.0, history.accuracy[10])
  end)
end)

describe("a fault of a folder or its split is told:", function()
  local wrong <const> = {
    ["no folder"] = {{"/nowhere"}, "image_dataset_from_directory: cannot read the folder /nowhere"},
    ["no pictures"] = {{root .. "/ant"}, "has no folders with .png or .jpg pictures in them"},
    ["a split without a subset"] = {{root, validation_split = 0.2},
      "'validation_split' and 'subset' are given together"},
    ["a split without a seed"] = {{root, validation_split = 0.2, subset = "training"},
      "'seed' is needed beside 'validation_split'"},
    ["a split that leaves nothing"] = {{root, validation_split = 0.01, subset = "validation",
      seed = 1}, "'validation_split' of 12 files leaves none for 'validation'"},
    ["a class that is no folder"] = {{root, class_names = {"ant", "cow"}},
      "has no folder 'cow'; it has ant, bee"},
    ["too few labels"] = {{root .. "/ant", labels = {1, 2}},
      "'labels' has 2 entries, but '.*/ant' has 7 files"},
    ["a size of one number"] = {{root, image_size = {3}}, "'image_size' must be {height, width}"},
    ["binary labels of one class"] = {{root, class_names = {"ant"}, label_mode = "binary"},
      "label_mode \"binary\" needs two classes, there are 1"},
  }
  for name, case in pairs(wrong) do
    it(name, function()
      local ok, message = pcall(utils.image_dataset_from_directory, case[1])
      assert.is_false(ok)
      assert.matches(case[2], message)
      assert.matches("^spec/keras/folders_spec.lua:%d+: ", message)
    end)
  end
end)
