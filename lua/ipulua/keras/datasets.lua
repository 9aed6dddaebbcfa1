-- keras.datasets: data sets from local files. Nothing is downloaded: where the files of mnist are
-- missing, digits are drawn; the others tell which files they looked for, and where.

local locale = require "ipulua.base.locale"
local args = require "ipulua.base.args"
local blame = require "ipulua.base.blame"
local core = require "ipulua.core"
local counted = require "ipulua.base.counted"
local log = require "ipulua.base.log"
local modules = require "ipulua.base.modules"
local offering = require "ipulua.base.parts.offering"
local ops = require "ipulua.ops"

local datasets = {}

-- ------------------------------------------------ paths

-- Folders where a set may lie: the given path alone, or else $IPULUA_DATA and ~/.ipulua/datasets.
local function folders(name, path)
  if path then return {path, path .. "/" .. name} end
  local list = {}
  local root, home = os.getenv("IPULUA_DATA"), os.getenv("HOME")
  if root and root ~= "" then
    list[#list + 1] = root .. "/" .. name
    list[#list + 1] = root
  end
  if home and home ~= "" then list[#list + 1] = home .. "/.ipulua/datasets/" .. name end
  return list
end

local endings <const> = {"", ".gz"}

-- The first folder that holds all files (each may be packed, or have one of several names); their
-- paths.
local function find(name, path, files)
  for _, folder in ipairs(folders(name, path)) do
    local found = {}
    for i, names in ipairs(files) do
      for _, file in ipairs(type(names) == "table" and names or {names}) do
        for _, ending in ipairs(endings) do
          local at = folder .. "/" .. file .. ending
          if not found[i] and core.file_exists(at) then found[i] = at end
        end
      end
      if not found[i] then break end
    end
    if #found == #files then return found end
  end
  return nil
end

-- An error that lists the missing files and the searched places; other_name: the folder's name as
-- the set's makers give it.
local function missing(name, path, files, other_name)
  local wanted, tried, seen = {}, {}, {}
  for i, names in ipairs(files) do wanted[i] = type(names) == "table" and names[1] or names end
  for _, folder_name in ipairs{name, other_name} do
    for _, folder in ipairs(folders(folder_name, path)) do
      if not seen[folder] then tried[#tried + 1] = folder end
      seen[folder] = true
    end
  end
  if #tried == 0 then tried[1] = "nowhere: neither IPULUA_DATA nor HOME is set" end
  blame.error(string.format("keras.datasets.%s: its files are missing. Looked in: %s. Wanted there "
    .. "(each may end in .gz): %s", name,
    table.concat(tried, ", "), table.concat(wanted, ", ")), "not_found")
end

local path_rows <const> = {{"path", "string", optional = true}}

-- ------------------------------------------------ mnist

local idx_files <const> = {
  {"train-images-idx3-ubyte", "train-images.idx3-ubyte"},
  {"train-labels-idx1-ubyte", "train-labels.idx1-ubyte"},
  {"t10k-images-idx3-ubyte", "t10k-images.idx3-ubyte"},
  {"t10k-labels-idx1-ubyte", "t10k-labels.idx1-ubyte"},
}

-- mnist.npz as Keras keeps it, beside or in place of the folder.
local function load_npz(name, path)
  for _, folder in ipairs(folders(name, path)) do
    for _, at in ipairs{folder, folder .. ".npz", folder .. "/" .. name .. ".npz"} do
      if at:sub(-4) == ".npz" and core.file_exists(at) then
        local t = core.load(at)
        if t.x_train and t.y_train and t.x_test and t.y_test then
          return {t.x_train, t.y_train, t.x_test, t.y_test}
        end
      end
    end
  end
  return nil
end

-- An IDX file begins with its magic number (the type, and how many extents), then the extents: the
-- offsets that messages name.
local function check_pair(images_path, images, labels_path, labels)
  for _, file in ipairs{{images_path, images, 3, "images (magic 0x00000803)"},
    {labels_path, labels, 1, "labels (magic 0x00000801)"}} do
    local at, t, rank, what = table.unpack(file)
    if t.dtype ~= "uint8" or t.rank ~= rank then
      blame.error(string.format("%s: wrong magic number at byte offset 0: expected %s, the "
        .. "file holds %s of %s", at, what,
        t.dtype, counted(t.rank, "extent")), "value")
    end
  end
  if images.shape[1] ~= labels.shape[1] then
    blame.error(string.format("%s: %s at byte offset 4, but %s has %s: the files do not belong "
      .. "together", labels_path,
      counted(labels.shape[1], "label"), images_path, counted(images.shape[1], "image")), "value")
  end
end

local function load_idx(name, path)
  local found = find(name, path, idx_files)
  if not found then
    local t = load_npz(name, path)
    return t
  end
  local tensors = {}
  for i, at in ipairs(found) do tensors[i] = core.read_idx(at) end
  for i = 1, #found, 2 do check_pair(found[i], tensors[i], found[i + 1], tensors[i + 1]) end
  return tensors
end

datasets.mnist = {}
local said_so = {} -- by path, "" where none was given

---Images (uint8 [60000, 28, 28] and [10000, 28, 28]) and labels (uint8) of handwritten digits:
---x_train, y_train, x_test, y_test. Without files, digits are drawn.
---Shapes: uint8 [60000, 28, 28], [60000], [10000, 28, 28], [10000]
---Errors: damaged files (missing ones are drawn), a path that is no string:
---`keras.datasets.mnist.load_data(1)`
---Source: yann.lecun.com/exdb/mnist
---@param ... any path
---@return userdata x_train, userdata y_train, userdata x_test, userdata y_test
function datasets.mnist.load_data(...)
  local path = args.check("load_data", path_rows, ...).path
  local t = load_idx("mnist", path)
  if t then return table.unpack(t) end
  if not said_so[path or ""] then
    said_so[path or ""] = true
    log.warn("keras.datasets.mnist: no MNIST files %s; digits are drawn instead",
      path and "at '" .. path .. "'"
      or "were found in $IPULUA_DATA/mnist or ~/.ipulua/datasets/mnist")
  end
  local x_train, y_train = core.digits(false)
  local x_test, y_test = core.digits(true)
  return x_train, y_train, x_test, y_test
end

datasets.fashion_mnist = {}

---Images of clothes in MNIST's format.
---Shapes: as mnist's
---Errors: files that are missing (nothing is downloaded) or damaged:
---`keras.datasets.fashion_mnist.load_data "nowhere"`
---Source: arXiv:1708.07747
---@param ... any path
---@return userdata x_train, userdata y_train, userdata x_test, userdata y_test
function datasets.fashion_mnist.load_data(...)
  local path = args.check("load_data", path_rows, ...).path
  local t = load_idx("fashion_mnist", path) or load_idx("fashion-mnist", path)
  if t then return table.unpack(t) end
  missing("fashion_mnist", path, idx_files, "fashion-mnist")
end

-- ------------------------------------------------ cifar

-- Images and labels of the training files (joined) and of the test file, which is the last; coarse:
-- cifar100's labels of that kind.
local function load_cifar(name, folder_names, files, path, classes, coarse)
  local found
  for _, folder in ipairs(folder_names) do
    found = found or find(folder, path, files)
  end
  if not found then missing(name, path, files, folder_names[2]) end
  local images, labels = {}, {}
  for i, at in ipairs(found) do
    local x, fine, rough = core.read_cifar(at, classes)
    images[i], labels[i] = x, coarse and rough or fine
  end
  local last = #found
  local function joined(list)
    local train = table.move(list, 1, last - 1, 1, {})
    return #train == 1 and train[1] or ops.concat(train, {axis = 0}), list[last]
  end
  local x_train, x_test = joined(images)
  local y_train, y_test = joined(labels)
  return x_train, y_train:reshape{-1, 1}, x_test, y_test:reshape{-1, 1}
end

datasets.cifar10 = {}

---Colour images (uint8 [50000, 32, 32, 3] and [10000, 32, 32, 3]) of ten classes, labels uint8 [n,
---1].
---Shapes: uint8 [50000, 32, 32, 3], [50000, 1], [10000, 32, 32, 3], [10000, 1]
---Errors: files that are missing (nothing is downloaded) or damaged:
---`keras.datasets.cifar10.load_data "nowhere"`
---Source: cs.toronto.edu/~kriz/cifar.html
---@param ... any path
---@return userdata x_train, userdata y_train, userdata x_test, userdata y_test
function datasets.cifar10.load_data(...)
  local path = args.check("load_data", path_rows, ...).path
  local files = {}
  for i = 1, 5 do files[i] = "data_batch_" .. i .. ".bin" end
  files[6] = "test_batch.bin"
  return load_cifar("cifar10", {"cifar10", "cifar-10-batches-bin"}, files, path, 10)
end

datasets.cifar100 = {}

local cifar100_rows <const> = {
  {"label_mode", "string", "fine", choices = {"fine", "coarse"}},
  {"path", "string", optional = true},
}

---As cifar10, of 100 classes (label_mode "fine") or 20 ("coarse").
---Shapes: as cifar10's
---Errors: as cifar10's; an unknown label_mode: `keras.datasets.cifar100.load_data "rough"`
---Source: cs.toronto.edu/~kriz/cifar.html
---@param ... any label_mode, path
---@return userdata x_train, userdata y_train, userdata x_test, userdata y_test
function datasets.cifar100.load_data(...)
  local a = args.check("load_data", cifar100_rows, ...)
  return load_cifar("cifar100", {"cifar100", "cifar-100-binary"}, {"train.bin", "test.bin"}, a.path,
    100, a.label_mode == "coarse")
end

-- ------------------------------------------------ text

local function read_text(path)
  local bytes = core.read_bytes(path) -- unpacks .gz
  if bytes.size == 0 then return "" end
  local file = io.open(path, "rb")
  local text = file and file:read("a") or ""
  if file then file:close() end
  if #text == bytes.size then return text end
  local list, parts = bytes:totable(), {}
  for i = 1, #list, 4096 do
    local chunk = {}
    for k = i, math.min(i + 4095, #list) do chunk[#chunk + 1] = math.tointeger(list[k]) end
    parts[#parts + 1] = string.char(table.unpack(chunk))
  end
  return table.concat(parts)
end

datasets.text = {}

local text_rows <const> = {
  {"path", "string", optional = true}, {"name", "string", "tinyshakespeare.txt"},
  {"validation_split", "number", 0.1, range = "[0, 1)"},
}

---A text as numbers of its characters: those to train on, those to validate with (int32 tensors),
---and the vocabulary.
---Shapes: int32 [characters] twice
---Errors: a file that is missing, a validation_split outside of [0, 1):
---`keras.datasets.text.load_data "nowhere"`
---@param ... any path (of the file or its folder), name, validation_split
---@return userdata train, userdata validation, Vocabulary vocabulary
function datasets.text.load_data(...)
  local a = args.check("load_data", text_rows, ...)
  local found
  if a.path and core.file_exists(a.path) and not core.folder_exists(a.path) then
    found = {a.path}
  end
  found = found or find("text", a.path, {a.name})
  if not found then missing("text", a.path, {a.name}) end
  local text = read_text(found[1])
  local vocabulary = require "ipulua.keras.utils".vocabulary(text)
  local numbers = vocabulary:encode(text)
  local count = math.floor(numbers.size * (1 - a.validation_split))
  return ops.slice(numbers, {0}, {count}),
    ops.slice(numbers, {count}, {numbers.size - count}), vocabulary
end

datasets.imdb = {}

local imdb_rows <const> = {
  {"path", "string", optional = true}, {"num_words", "integer", optional = true},
  {"skip_top", "integer", 0},
  {"maxlen", "integer", 80, range = "[1, inf)"}, {"start_char", "integer", 1},
  {"oov_char", "integer", 2}, {"index_from", "integer", 3},
}

-- The words of a review, in small letters, without punctuation and line breaks' marks.
local function words_of(text)
  local list = {}
  for word in text:gsub("<br />", " "):lower():gmatch("[%w']+") do list[#list + 1] = word end
  return list
end

local function read_reviews(folder)
  local reviews = {}
  for label, name in ipairs{"neg", "pos"} do
    for _, file in ipairs(core.list_folder(folder .. "/" .. name)) do
      if file:find("%.txt$") then
        reviews[#reviews + 1] = {label = label - 1,
          words = words_of(read_text(folder .. "/" .. name .. "/" .. file))}
      end
    end
  end
  return reviews
end

-- Numbers of words, the most frequent first.
local function rank_words(reviews)
  local counts, list, rank = {}, {}, {}
  for _, review in ipairs(reviews) do
    for _, word in ipairs(review.words) do counts[word] = (counts[word] or 0) + 1 end
  end
  for word in pairs(counts) do list[#list + 1] = word end
  table.sort(list, function(p, q)
    if counts[p] ~= counts[q] then return counts[p] > counts[q] end
    return locale.before(p, q)
  end)
  for i, word in ipairs(list) do rank[word] = i end
  return rank
end

local function as_numbers(reviews, rank, a)
  local rows, labels = {}, {}
  for i, review in ipairs(reviews) do
    local numbers = {a.start_char}
    for _, word in ipairs(review.words) do
      local n = rank[word] and rank[word] + a.index_from or a.oov_char
      local kept = n >= a.skip_top and (not a.num_words or n < a.num_words)
      numbers[#numbers + 1] = kept and n or a.oov_char
    end
    local row = {}
    -- the end of a review counts
    for k = 1, a.maxlen do row[k] = numbers[#numbers - a.maxlen + k] or 0 end
    rows[i], labels[i] = row, review.label
  end
  return core.tensor(rows, "int32"), core.tensor(labels, "int32")
end

local function holds_reviews(folder)
  for _, inner in ipairs{"train/pos", "train/neg", "test/pos", "test/neg"} do
    if not core.folder_exists(folder .. "/" .. inner) then return false end
  end
  return true
end

---Film reviews as numbers of words (int32 [n, maxlen], filled up with 0 in front) and labels (0
---bad, 1 good). They come from the folders of the Large Movie Review Dataset: train/pos, train/neg,
---test/pos, test/neg, each with text files.
---Shapes: int32 [25000, maxlen], int32 [25000], twice
---Errors: files that are missing (nothing is downloaded), a maxlen below 1:
---`keras.datasets.imdb.load_data "nowhere"`
---Source: Maas et al. 2011 (ACL)
---@param ... any path, num_words, skip_top, maxlen, start_char, oov_char, index_from
---@return userdata x_train, userdata y_train, userdata x_test, userdata y_test
function datasets.imdb.load_data(...)
  local a = args.check("load_data", imdb_rows, ...)
  local root
  for _, name in ipairs{"imdb", "aclImdb"} do
    for _, folder in ipairs(folders(name, a.path)) do
      if not root and holds_reviews(folder) then root = folder end
    end
  end
  if not root then
    missing("imdb", a.path,
      {"train/pos/*.txt", "train/neg/*.txt", "test/pos/*.txt", "test/neg/*.txt"},
    "aclImdb") end
  local train, test = read_reviews(root .. "/train"), read_reviews(root .. "/test")
  local rank = rank_words(train)
  local x_train, y_train = as_numbers(train, rank, a)
  local x_test, y_test = as_numbers(test, rank, a)
  return x_train, y_train, x_test, y_test
end

for _, name in ipairs{"mnist", "fashion_mnist", "cifar10", "cifar100", "text", "imdb"} do
  modules.guard("keras.datasets." .. name, datasets[name])
end
-- Names of Keras' module that this one lacks, with the names to use instead.
local no_downloads <const> = "nothing is downloaded; "
local not_offered <const> = {
  boston_housing = no_downloads .. "read its file by ipu.load or ipu.data.from_csv",
  reuters = no_downloads .. "read its file by ipu.load, and fill its sequences up by "
  .. "utils.pad_sequences",
}

return offering.answer("datasets", datasets, {missing = not_offered})
