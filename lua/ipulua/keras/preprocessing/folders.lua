-- Datasets of a folder's pictures or texts, in which each folder is a class; split into a part for
-- training and one for validation.

local args = require "ipulua.base.args"
local blame = require "ipulua.base.blame"
local core = require "ipulua.core"
local data = require "ipulua.data"
local ops = require "ipulua.ops"

local folders = {}

local pictures <const>, texts <const> = "image_dataset_from_directory",
  "text_dataset_from_directory"

local labels_row <const> = {"labels", {"string", "list", "tensor"}, "inferred",
  of = "\"inferred\", \"none\" or a list of integers",
  says = "the folders' numbers, none, or one for each file in the order of paths"}
local mode_row <const> = {"label_mode", "string", "int",
  choices = {"int", "categorical", "binary", "none"},
  says = "int32 [batch]; float32 [batch, classes]; float32 [batch, 1]; no labels"}
local names_row <const> = {"class_names", "list", optional = true,
  says = "the folders, in the order of their numbers; by name by default"}
local batch_row <const> = {"batch_size", "integer", 32, range = "[1, inf)"}
local drawn_rows <const> = {
  {"shuffle", "boolean", true}, {"seed", "integer", optional = true},
  {"validation_split", "number", optional = true, range = "(0, 1)",
    says = "the share of files that are kept for validation"},
  {"subset", "string", optional = true, choices = {"training", "validation", "both"},
    says = "the part that is read; both: two datasets"},
}

local function with_drawn(rows)
  return table.move(drawn_rows, 1, #drawn_rows, #rows + 1, rows)
end

local picture_rows <const> = with_drawn{
  {"directory", "string"}, labels_row, mode_row, names_row,
  {"color_mode", "string", "rgb", choices = {"grayscale", "rgb", "rgba"}}, batch_row,
  {"image_size", "integers", {256, 256}, says = "{height, width}"},
}
local text_rows <const> = with_drawn{
  {"directory", "string"}, labels_row, mode_row, names_row, batch_row,
  {"max_length", "integer", optional = true, range = "[1, inf)", says = "bytes of a text, at most"},
}

local channels_of <const> = {grayscale = 1, rgb = 3, rgba = 4}

-- ------------------------------------------------ files and their labels

-- Only the classes that were named, numbered in that order.
local function of_named(who, a, paths, labels, names)
  if not a.class_names then return paths, labels, names end
  local number, position = {}, {}
  for i, name in ipairs(names) do position[name] = i - 1 end
  for i, name in ipairs(a.class_names) do
    if not position[name] then
      blame.error(string.format("%s: '%s' has no folder '%s'; it has %s", who, a.directory,
        tostring(name), table.concat(names, ", ")), "value")
    end
    number[position[name]] = i - 1
  end
  local kept_paths, kept_labels = {}, {}
  for i, label in ipairs(labels) do
    if number[label] then
      kept_paths[#kept_paths + 1], kept_labels[#kept_labels + 1] = paths[i], number[label]
    end
  end
  return kept_paths, kept_labels, a.class_names
end

local function given_labels(who, a, paths)
  local list = core.is_tensor(a.labels) and a.labels:totable() or a.labels
  if #list ~= #paths then
    blame.error(string.format("%s: 'labels' has %d entries, but '%s' has %d files", who, #list,
      a.directory, #paths), "value")
  end
  local most, integers = 0, {}
  for i, label in ipairs(list) do
    integers[i] = math.tointeger(label)
    if not integers[i] or integers[i] < 0 then
      blame.error(string.format("%s: 'labels' must hold class numbers, from 0; entry %d is %s", who,
        i, args.describe(label)), "value")
    end
    most = math.max(most, integers[i])
  end
  local names = {}
  for i = 0, most do names[i + 1] = tostring(i) end
  return integers, names
end

local function files_of(who, a)
  local inferred = a.labels == "inferred"
  if type(a.labels) == "string" and not inferred and a.labels ~= "none" then
    blame.error(string.format("%s: 'labels' must be \"inferred\", \"none\" or a list, got %s", who,
      args.describe(a.labels)), "value")
  end
  local paths, labels, names =
    core.data.class_files(who, a.directory, who == texts, not inferred)
  if inferred then return of_named(who, a, paths, labels, names) end
  if a.labels == "none" then
    a.label_mode = "none"
    return paths, labels, names
  end
  labels, names = given_labels(who, a, paths)
  return paths, labels, names
end

-- ------------------------------------------------ order and split

local function check_split(who, a)
  if (a.validation_split == nil) ~= (a.subset == nil) then
    blame.error(who .. ": 'validation_split' and 'subset' are given together", "value")
  end
  if a.validation_split and a.shuffle and not a.seed then
    blame.error(who .. ": 'seed' is needed beside 'validation_split', so that both subsets are "
      .. "drawn from one order; or shuffle = false", "value")
  end
end

-- Positions of the files of a subset, in their order.
local function chosen(who, a, count)
  local order = {}
  for i = 1, count do order[i] = i end
  if a.shuffle then
    local keys = ops.random.uniform({count}, {seed = a.seed, dtype = "float64"})
    for i, position in ipairs(ops.argsort(keys):totable()) do order[i] = position + 1 end
  end
  if not a.subset then return order end
  local held = math.floor(a.validation_split * count)
  local first, last = 1, count - held
  if a.subset == "validation" then first, last = count - held + 1, count end
  if last < first then
    blame.error(string.format("%s: 'validation_split' of %d files leaves none for '%s'", who, count,
      a.subset), "value")
  end
  return table.move(order, first, last, 1, {})
end

local function taken(list, order)
  local result = {}
  for i, position in ipairs(order) do result[i] = list[position] end
  return result
end

local function check_binary(who, a, names)
  if a.label_mode == "binary" and #names ~= 2 then
    blame.error(string.format("%s: label_mode \"binary\" needs two classes, there are %d", who,
      #names), "value")
  end
end

-- Paths and labels of the files of a subset, and the classes' names.
local function wanted(who, a)
  check_split(who, a)
  local paths, labels, names = files_of(who, a)
  check_binary(who, a, names)
  local order = chosen(who, a, #paths)
  return taken(paths, order), taken(labels, order), names
end

-- ------------------------------------------------ datasets

local label_forms <const> = {
  int = function(y) return y end,
  binary = function(y) return ops.expand_dims(ops.cast(y, "float32"), -1) end,
  categorical = function(y, classes) return ops.cast(ops.one_hot(y, classes), "float32") end,
}

-- Batches with labels in the form of label_mode. `form` converts x.
local function batches(who, a, dataset, names, paths, form)
  if a.shuffle then dataset = dataset:shuffle(8 * a.batch_size, {seed = a.seed}) end
  local label = label_forms[a.label_mode]
  dataset = dataset:batch(a.batch_size):map(function(x, y)
    if not label then return form(x) end
    return form(x), label(y, #names)
  end):made_by(who)
  rawset(dataset, "class_names", core.plain(table.move(names, 1, #names, 1, {})))
  rawset(dataset, "file_paths", core.plain(paths))
  return dataset
end

-- The dataset of the part that is wanted, or of both parts.
local function parts_of(a, make)
  if a.subset ~= "both" then return make(a) end
  local function part(subset) return make(setmetatable({subset = subset}, {__index = a})) end
  return part "training", part "validation"
end

---Batches of the pictures of a folder's folders, and the folders' numbers. `class_names` of the
---dataset are the folders, `file_paths` the files. Sizes are made equal bilinearly.
---Shapes: [batch_size, height, width, channels] in 0 … 255, float32; labels by label_mode
---Units: seed draws the order of files; validation_split is a share of them, the last ones
---Errors: a folder without folders of pictures, a subset without a split, another number of labels
---than of files; when read, a damaged picture: `keras.utils.image_dataset_from_directory "nowhere"`
---Source: tf.keras.utils.image_dataset_from_directory
---@param ... any directory, labels, label_mode, class_names, color_mode, batch_size, image_size, …
---@return Dataset, Dataset? two with subset = "both": training, validation
function folders.image_dataset_from_directory(...)
  local a = args.check(pictures, picture_rows, ...)
  local height, width = table.unpack(a.image_size)
  if #a.image_size ~= 2 or height < 1 or width < 1 then
    blame.error(pictures .. ": 'image_size' must be {height, width}, two positive integers",
      "value")
  end
  return parts_of(a, function(part)
    local paths, labels, names = wanted(pictures, part)
    local handle = core.data.from_image_files(paths, labels, height, width,
      channels_of[a.color_mode])
    local dataset = data.Dataset(handle, {items = {{1, {leaf = 1}}, {2, {leaf = 2}}}})
    return batches(pictures, part, dataset, names, paths,
      function(x) return ops.cast(x, "float32") end)
  end)
end

local function read_text(path, most)
  local file, problem = io.open(path, "rb")
  if not file then blame.error(texts .. ": " .. problem, "not_found") end
  local text = file:read(most or "a") or ""
  file:close()
  return text
end

---Batches of the texts of a folder's folders (.txt files, Lua strings, which TextVectorization
---numbers in `map`), and the folders' numbers. `class_names` of the dataset are the folders,
---`file_paths` the files.
---Shapes: [batch_size] strings; labels by label_mode
---Units: seed draws the order of files; validation_split is a share of them, the last ones;
---max_length in bytes
---Errors: a folder without folders of .txt files, a subset without a split, another number of
---labels than of files: `keras.utils.text_dataset_from_directory "nowhere"`
---Source: tf.keras.utils.text_dataset_from_directory
---@param ... any directory, labels, label_mode, class_names, batch_size, max_length, shuffle, …
---@return Dataset, Dataset? two with subset = "both": training, validation
function folders.text_dataset_from_directory(...)
  local a = args.check(texts, text_rows, ...)
  return parts_of(a, function(part)
    local paths, labels, names = wanted(texts, part)
    local list = {}
    for i, path in ipairs(paths) do list[i] = read_text(path, a.max_length) end
    local dataset = data.from_tensor_slices{list, core.tensor(labels, "int32")}
    return batches(texts, part, dataset, names, paths, function(x) return x end)
  end)
end

return folders
