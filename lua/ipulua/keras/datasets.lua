-- keras.datasets: data sets from local files. Nothing is downloaded: where the files of mnist are missing, digits are
-- drawn; the others tell which files they looked for, and where.

local args = require "ipulua.args"
local blame = require "ipulua.blame"
local core = require "ipulua.core"
local ipu = require "ipulua"
local log = require "ipulua.log"

local datasets = {}

-- ------------------------------------------------ paths

-- Folders where a set may lie: the given path, then $IPULUA_DATA, data/, and Keras' own cache.
local function folders(name, path)
  if path then return {path, path .. "/" .. name} end
  local list = {}
  local root, home = os.getenv("IPULUA_DATA"), os.getenv("HOME")
  if root and root ~= "" then
    list[#list + 1] = root .. "/" .. name
    list[#list + 1] = root
  end
  list[#list + 1] = "data/" .. name
  if home then list[#list + 1] = home .. "/.keras/datasets/" .. name end
  return list
end

local endings <const> = {"", ".gz"}

-- The first folder that holds all files (each may be packed, or have one of several names); their paths.
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

local function missing(name, path, files)
  local wanted = {}
  for i, names in ipairs(files) do wanted[i] = type(names) == "table" and names[1] or names end
  blame.error(string.format("keras.datasets.%s: its files are missing. Looked in: %s. Wanted there (each may end in .gz): %s",
    name,
    table.concat(folders(name, path), ", "), table.concat(wanted, ", ")), "not_found")
end

local path_rows <const> = {{"path", "string", optional = true}}

-- ------------------------------------------------ mnist

local idx_files <const> = {
  {"train-images-idx3-ubyte", "train-images.idx3-ubyte"}, {"train-labels-idx1-ubyte", "train-labels.idx1-ubyte"},
  {"t10k-images-idx3-ubyte", "t10k-images.idx3-ubyte"}, {"t10k-labels-idx1-ubyte", "t10k-labels.idx1-ubyte"},
}

-- mnist.npz as Keras keeps it, beside or in place of the folder.
local function load_npz(name, path)
  for _, folder in ipairs(folders(name, path)) do
    for _, at in ipairs{folder, folder .. ".npz", folder .. "/" .. name .. ".npz"} do
      if at:sub(-4) == ".npz" and core.file_exists(at) then
        local t = core.load(at)
        if t.x_train and t.y_train and t.x_test and t.y_test then return {t.x_train, t.y_train, t.x_test, t.y_test} end
      end
    end
  end
  return nil
end

local function load_idx(name, path)
  local found = find(name, path, idx_files)
  if not found then
    local t = load_npz(name, path)
    return t
  end
  local tensors = {}
  for i, at in ipairs(found) do tensors[i] = core.read_idx(at) end
  return tensors
end

datasets.mnist = {}
local said_so = false

---Images (uint8 [60000, 28, 28] and [10000, 28, 28]) and labels (uint8) of handwritten digits: x_train, y_train,
---x_test, y_test. Without files, digits are drawn.
---@param ... any path
---@return userdata x_train, userdata y_train, userdata x_test, userdata y_test
function datasets.mnist.load_data(...)
  local path = args.check("load_data", path_rows, ...).path
  local t = load_idx("mnist", path)
  if t then return table.unpack(t) end
  if not said_so then
    said_so = true
    log.warn("keras.datasets.mnist: no MNIST files %s; digits are drawn instead", path and "at '" .. path .. "'" or "were found")
  end
  local x_train, y_train = core.digits(false)
  local x_test, y_test = core.digits(true)
  return x_train, y_train, x_test, y_test
end

datasets.fashion_mnist = {}

---Images of clothes in MNIST's format.
---@param ... any path
---@return userdata x_train, userdata y_train, userdata x_test, userdata y_test
function datasets.fashion_mnist.load_data(...)
  local path = args.check("load_data", path_rows, ...).path
  local t = load_idx("fashion_mnist", path) or not path and load_idx("fashion-mnist", path)
  if t then return table.unpack(t) end
  missing("fashion_mnist", path, idx_files)
end

-- ------------------------------------------------ cifar

local function load_cifar(name, folder_names, files, path, classes)
  local found
  for _, folder in ipairs(folder_names) do
    found = found or find(folder, path, files)
  end
  if not found then missing(name, path, files) end
  local images, labels, coarse = {}, {}, {}
  for i, at in ipairs(found) do images[i], labels[i], coarse[i] = core.read_cifar(at, classes) end
  local last = #found
  local function join(list)
    local train = table.move(list, 1, last - 1, 1, {})
    return #train == 1 and train[1] or ipu.concat(train, {axis = 0}), list[last]
  end
  return join, images, labels, coarse
end

datasets.cifar10 = {}

---Colour images (uint8 [50000, 32, 32, 3] and [10000, 32, 32, 3]) of ten classes, labels uint8 [n, 1].
---@param ... any path
---@return userdata x_train, userdata y_train, userdata x_test, userdata y_test
function datasets.cifar10.load_data(...)
  local path = args.check("load_data", path_rows, ...).path
  local files = {}
  for i = 1, 5 do files[i] = "data_batch_" .. i .. ".bin" end
  files[6] = "test_batch.bin"
  local join, images, labels = load_cifar("cifar10", {"cifar10", "cifar-10-batches-bin"}, files, path, 10)
  local x_train, x_test = join(images)
  local y_train, y_test = join(labels)
  return x_train, y_train:reshape{-1, 1}, x_test, y_test:reshape{-1, 1}
end

datasets.cifar100 = {}

local cifar100_rows <const> = {
  {"label_mode", "string", "fine", choices = {"fine", "coarse"}}, {"path", "string", optional = true},
}

---As cifar10, of 100 classes (label_mode "fine") or 20 ("coarse").
---@param ... any label_mode, path
---@return userdata x_train, userdata y_train, userdata x_test, userdata y_test
function datasets.cifar100.load_data(...)
  local a = args.check("load_data", cifar100_rows, ...)
  local join, images, fine, coarse = load_cifar("cifar100", {"cifar100", "cifar-100-binary"}, {"train.bin", "test.bin"},
    a.path, 100)
  local x_train, x_test = join(images)
  local y_train, y_test = join(a.label_mode == "fine" and fine or coarse)
  return x_train, y_train:reshape{-1, 1}, x_test, y_test:reshape{-1, 1}
end

return datasets
