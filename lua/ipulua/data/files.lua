-- Datasets read from files: ipu.data.from_idx and its like.

local args = require "ipulua.base.args"
local blame = require "ipulua.base.blame"
local core = require "ipulua.core"
local counted = require "ipulua.base.counted"
local data = require "ipulua.data"
local structure = require "ipulua.base.structure"

local files = {}

local idx_spec <const> = {{"path", "string"}, {"labels", "string", optional = true}}

---The rows of an IDX file (MNIST's format), gzipped or not. With a second file, pairs of rows.
---Shapes: [n, ...] → n elements [...]; with labels pairs [...], []
---Errors: a file that is missing, damaged or no IDX file, files of unequal lengths:
---`data.from_idx "nowhere.gz"`
---Source: yann.lecun.com/exdb/mnist describes the format
---@return Dataset
function files.from_idx(...)
  local a = args.check("from_idx", idx_spec, ...)
  local images = core.read_idx(a.path)
  if not a.labels then return data.from_tensor_slices(images):made_by "from_idx" end
  local labels = core.read_idx(a.labels)
  if images.rank > 0 and labels.rank > 0 and images.shape[1] ~= labels.shape[1] then
    blame.error(
      string.format("from_idx: %s has %s, but %s has %s: the files do not belong together", a.path,
      counted(images.shape[1], "element"), a.labels, counted(labels.shape[1], "element")), "value")
  end
  return data.from_tensor_slices{images, labels}:made_by "from_idx"
end

local cifar_spec <const> = {
  {"path", {"string", "list"}}, {"classes", "integer", 10, of = "10 or 100"},
  {"label_mode", "string", "fine", of = "\"fine\" or \"coarse\""},
}

---CIFAR's binary files, one or a list: uint8 [32, 32, 3] and an uint8 label. {classes = 100}:
---CIFAR-100, fine labels unless label_mode is "coarse".
---Shapes: [32, 32, 3], []
---Errors: a file that is missing or holds no whole records, other classes or label_mode:
---`data.from_cifar("nowhere.bin")`, `data.from_cifar("a.bin", {classes = 20})`
---Source: cs.toronto.edu/~kriz/cifar.html describes the format
---@return Dataset
function files.from_cifar(...)
  local a = args.check("from_cifar", cifar_spec, ...)
  if a.classes ~= 10 and a.classes ~= 100 then
    blame.error("from_cifar: 'classes' must be 10 or 100, got " .. a.classes, "value")
  end
  if a.classes == 10 and a.label_mode ~= "fine" then
    blame.error("from_cifar: CIFAR-10 has no coarse labels", "value")
  end
  if a.label_mode ~= "fine" and a.label_mode ~= "coarse" then
    blame.error("from_cifar: 'label_mode' must be \"fine\" or \"coarse\", got "
      .. args.describe(a.label_mode), "value")
  end
  local dataset
  for i, path in ipairs(type(a.path) == "table" and a.path or {a.path}) do
    if type(path) ~= "string" then
      blame.error(string.format("from_cifar: path %d must be a string, got %s", i,
        args.describe(path)), "type")
    end
    local images, fine, coarse = core.read_cifar(path, a.classes)
    local part = data.from_tensor_slices{images, a.label_mode == "coarse" and coarse or fine}
    dataset = dataset and dataset:concatenate(part) or part
  end
  if not dataset then blame.error("from_cifar: no file is given", "value") end
  return dataset:made_by "from_cifar"
end

local path_spec <const> = {{"path", "string"}}

local function ending(path) return path:lower():match("%.(%w+)$") end

-- A dataset of the rows of a file's content: an array, or arrays by name.
local function rows_of(who, path, value)
  local first
  for _, name in ipairs(core.is_tensor(value) and {} or structure.sorted_keys(value)) do
    local rows = value[name].shape[1] -- nil: of a scalar, which is refused as one
    first = first or rows and {name, rows}
    if rows and rows ~= first[2] then
      blame.error(string.format("%s: '%s' holds arrays of unequal lengths: %s has %s, %s has %s",
        who, path, first[1],
        counted(first[2], "row"), name, counted(rows, "row")), "value")
    end
  end
  return data.from_tensor_slices(value):made_by(who)
end

---A NumPy file: the rows of its array; of a .npz a dict of rows.
---Shapes: [n, ...] → n elements [...]
---Errors: a file that is missing or damaged, arrays of unequal lengths or of objects:
---`data.from_npy "nowhere.npy"`
---@return Dataset
function files.from_npy(...)
  local a = args.check("from_npy", path_spec, ...)
  return rows_of("from_npy", a.path,
    (core.load(a.path, ending(a.path) == "npz" and ".npz" or ".npy")))
end

---A .safetensors file: a dict of the rows of its tensors.
---Shapes: [n, ...] → n elements [...]
---Errors: a file that is missing or damaged, tensors of unequal lengths:
---`data.from_safetensors "nowhere.safetensors"`
---@return Dataset
function files.from_safetensors(...)
  local a = args.check("from_safetensors", path_spec, ...)
  return rows_of("from_safetensors", a.path, (core.load(a.path, ".safetensors")))
end

local text_spec <const> = {{"path", "string"},
  {"unit", "string", "line", of = "\"line\", \"char\" or \"byte\""}}

---A text: lines as uint8 vectors, characters as int32 scalars (their Unicode numbers), or bytes as
---uint8 scalars.
---Shapes: [bytes of the line]; of characters and bytes []
---Errors: an unknown unit, a file that is missing: `data.from_text("a.txt", {unit = "word"})`
---@return Dataset
function files.from_text(...)
  local a = args.check("from_text", text_spec, ...)
  if a.unit == "line" then
    return data.Dataset(core.data.from_lines(a.path), {leaf = 1}):made_by "from_text"
  end
  if a.unit == "char" then
    return data.from_tensor_slices(core.read_characters(a.path)):made_by "from_text"
  end
  if a.unit == "byte" then
    return data.from_tensor_slices(core.read_bytes(a.path)):made_by "from_text"
  end
  blame.error("from_text: 'unit' must be \"line\", \"char\" or \"byte\", got "
    .. args.describe(a.unit), "value")
end

local folder_spec <const> = {
  {"path", "string"}, {"image_size", "list", optional = true, says = "{height, width}"},
  {"channels", "integer", 3, of = "1 to 4"},
}

---The pictures of a folder's folders: uint8 [height, width, channels] and an int32 label;
---{image_size = {h, w}} makes them one size. The second result is the list of class names.
---Shapes: [height, width, channels], []
---Errors: a folder without folders of pictures, an image_size that is not two positive integers;
---when read, a damaged picture: `data.from_image_folder("nowhere")`
---@return Dataset
---@return string[] names of the classes
function files.from_image_folder(...)
  local a = args.check("from_image_folder", folder_spec, ...)
  local size = a.image_size or {0, 0}
  if #size ~= 2 or math.type(size[1]) ~= "integer" or math.type(size[2]) ~= "integer"
    or (a.image_size and
    (size[1] < 1 or size[2] < 1)) then
    blame.error("from_image_folder: 'image_size' must be a list of two positive integers, {height, "
      .. "width}", "value")
  end
  local handle, names = core.data.from_images(a.path, size[1], size[2], a.channels)
  return data.Dataset(handle,
    {items = {{1, {leaf = 1}}, {2, {leaf = 2}}}}):made_by "from_image_folder", core.plain(names)
end

for name, f in pairs(require "ipulua.data.csv") do files[name] = f end

return files
