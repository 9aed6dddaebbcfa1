-- keras.utils: small helpers around models and data.

local args = require "ipulua.base.args"
local class_numbers = require "ipulua.keras.base.class_numbers"
local blame = require "ipulua.base.blame"
local core = require "ipulua.core"
local custom_objects = require "ipulua.base.parts.custom_objects"
local lengths = require "ipulua.keras.base.lengths"
local names = require "ipulua.base.parts.names"
local offering = require "ipulua.base.parts.offering"
local ops = require "ipulua.ops"
local pictures = require "ipulua.keras.pictures"

local Model <const> = require "ipulua.keras.models".Model

local utils = {
  pad_sequences = require "ipulua.keras.preprocessing.sequence".pad_sequences,
  timeseries_dataset_from_array =
  require "ipulua.keras.preprocessing.timeseries".timeseries_dataset_from_array,
}
utils.plot_model = require "ipulua.keras.drawing"
for name, f in pairs(pictures) do utils[name] = f end
for name, f in pairs(require "ipulua.keras.preprocessing.folders") do utils[name] = f end
for _, name in ipairs{"custom_object_scope", "get_custom_objects", "register_keras_serializable",
  "get_registered_name",
  "get_registered_object"} do utils[name] = custom_objects[name] end

local categorical_rows <const> = {
  {"y", {"tensor", "list"}}, {"num_classes", "integer", optional = true, range = "[1, inf)"},
  {"dtype", "dtype", "float32"},
}

---Class numbers as vectors of 0 and 1.
---Shapes: y [...] or [..., 1] → [..., num_classes]. `keras.utils.to_categorical({0, 2, 1})` → [3,
---3]
---Errors: a number outside of 0 … num_classes - 1: `keras.utils.to_categorical({0, 5}, 3)`,
---`keras.utils.to_categorical{-1}`
---Source: tf.keras.utils.to_categorical
---@param ... any y, num_classes, dtype
---@return userdata
function utils.to_categorical(...)
  local a = args.check("to_categorical", categorical_rows, ...)
  local y = class_numbers(core.is_tensor(a.y) and a.y or core.tensor(a.y))
  local shape = y.shape
  if #shape > 1 and shape[#shape] == 1 then y = ops.squeeze(y, {axis = -1}) end
  local highest = y.size > 0 and ops.reduce_max(y):item() or -1
  local count = a.num_classes or math.tointeger(highest) + 1
  local lowest = y.size > 0 and ops.reduce_min(y):item() or 0
  if lowest < 0 then
    blame.error(string.format("to_categorical: there is a class %d; they count from 0", lowest),
      "value")
  end
  if highest >= count then
    blame.error(string.format("to_categorical: there is a class %d, but num_classes is %d", highest,
      count), "value")
  end
  return ops.cast(ops.one_hot(y, count), a.dtype)
end

local normalize_rows <const> = {
  {"x", "tensor"}, {"axis", "integer", -1}, {"order", "number", 2},
}

-- The norm of order p is the sum of |x|^p to the power of 1 / p. Its limits are the largest |x|,
-- the least, and the number of elements that are not 0.
local function norm_of(x, axis, order)
  local reduced <const> = {axis = axis, keepdims = true}
  local size = ops.abs(x)
  if order == math.huge then return ops.reduce_max(size, reduced) end
  if order == -math.huge then return ops.reduce_min(size, reduced) end
  if order == 0 then return ops.reduce_sum(ops.cast(ops.not_equal(x, 0), x.dtype), reduced) end
  return ops.pow(ops.reduce_sum(ops.pow(size, order), reduced), 1 / order)
end

---Vectors along an axis divided by their norm of some order (2: Euclid's, math.huge: the largest
---element); vectors of length 0 stay.
---Shapes: as x: `keras.utils.normalize(x, 0)` → [2, 3]
---Errors: an axis that x lacks: `keras.utils.normalize(x, 5)`
---@param ... any x, axis, order
---@return userdata
function utils.normalize(...)
  local a = args.check("normalize", normalize_rows, ...)
  local x = a.x
  if not x.dtype:find("float", 1, true) then x = ops.cast(x, "float32") end
  local wide = lengths.wide(x)
  local norms = norm_of(wide, a.axis, a.order)
  return ops.cast(wide / ops.where(ops.equal(norms, 0), ops.ones_like(norms), norms), x.dtype)
end

local seed_rows <const> = {{"seed", "integer"}}

---Seeds all random numbers: of Lua, of initializers, dropout and shuffling.
---Errors: a seed that is no integer: `keras.utils.set_random_seed(0.5)`
---@param ... any seed
function utils.set_random_seed(...)
  local seed = args.check("set_random_seed", seed_rows, ...).seed
  math.randomseed(seed)
  core.set_seed(seed)
end

---Begins to count the names of layers anew.
function utils.reset_names()
  names.reset()
end

-- ------------------------------------------------ text

---Characters and their numbers: `encode(text)`, `decode(numbers)`, `size`.
---@class Vocabulary: Class
---@field size integer
---@field characters string[] in the order of their numbers
local Vocabulary = require "ipulua.base.class".new("Vocabulary")
utils.Vocabulary = Vocabulary

local vocabulary_rows <const> = {{"characters", {"list", "string"}, list = true}}

function Vocabulary:init(...)
  local characters = args.check("Vocabulary", vocabulary_rows, ...).characters
  self.characters, self.number = characters, {}
  for i, c in ipairs(characters) do self.number[c] = i - 1 end
  self.size = #characters
end

-- UTF-8 characters; bytes where the text is something else.
local function characters_of(text)
  return text:gmatch(utf8.len(text) and utf8.charpattern or ".")
end

-- Pieces end to end.
local function join(pieces)
  while #pieces > 1 do -- concat takes a bounded number of tensors
    local longer = {}
    for at = 1, #pieces, 32 do
      longer[#longer + 1] = ops.concat(table.move(pieces, at, math.min(at + 31, #pieces), 1, {}),
        {axis = 0})
    end
    pieces = longer
  end
  return pieces[1]
end

---Numbers (from 0) of a text's characters, an int32 tensor.
---Shapes: n characters → [n]
---Errors: a character that the vocabulary does not have
---@param text string
---@return userdata
function Vocabulary:encode(text)
  if type(text) ~= "string" then
    blame.error("Vocabulary.encode: expected a string, got " .. args.describe(text), "type")
  end
  local pieces, list = {}, {} -- a Lua list of a whole text would take several times its memory
  local function finish_piece()
    pieces[#pieces + 1] = core.tensor(list, "int32")
    list = {}
  end
  for c in characters_of(text) do
    local n = self.number[c]
    if not n then
      blame.error(string.format("Vocabulary.encode: the character '%s' is unknown", c), "value")
    end
    list[#list + 1] = n
    if #list == 65536 then finish_piece() end
  end
  if #list > 0 or #pieces == 0 then finish_piece() end
  return join(pieces)
end

---The text of numbers; "?" for one that no character has.
---@param numbers userdata|integer[]
---@return string
function Vocabulary:decode(numbers)
  if args.is_tensor(numbers) then numbers = numbers:reshape{-1}:totable() end
  if not args.is_list(numbers) then
    blame.error("Vocabulary.decode: expected a tensor or a list of integers, got "
      .. args.describe(numbers), "type")
  end
  local list = {}
  for i, n in ipairs(numbers) do
    local number = math.tointeger(n)
    if not number then
      blame.error("Vocabulary.decode: expected integers, got " .. args.describe(n), "type")
    end
    list[i] = self.characters[number + 1] or "?"
  end
  return table.concat(list)
end

local text_rows <const> = {{"text", "string"}}

---The characters of a text, sorted; its bytes where it is not UTF-8.
---Errors: a text that is no string: `keras.utils.vocabulary(1)`
---@param ... any text
---@return Vocabulary
function utils.vocabulary(...)
  local text = args.check("vocabulary", text_rows, ...).text
  local seen, list = {}, {}
  for c in characters_of(text) do
    if not seen[c] then
      seen[c] = true
      list[#list + 1] = c
    end
  end
  table.sort(list)
  return Vocabulary(list)
end

local generate_rows <const> = {
  {"model", Model}, {"vocabulary", Vocabulary}, {"prompt", "string"},
  {"length", "integer", 200, range = "[0, inf)"},
  {"temperature", "number", 1, range = "[0, inf)"},
  {"window", "integer", optional = true, range = "[1, inf)"},
}

-- A number drawn with the probabilities of softmax(logits / temperature); the greatest for
-- temperature 0.
local function sample(logits, temperature)
  local best, greatest = 1, -math.huge
  for i, x in ipairs(logits) do
    if x > greatest then best, greatest = i, x end
  end
  if temperature <= 0 then return best - 1 end
  local weights, sum = {}, 0
  for i, x in ipairs(logits) do
    weights[i] = math.exp((x - greatest) / temperature)
    sum = sum + weights[i]
  end
  local at = math.random() * sum
  for i, w in ipairs(weights) do
    at = at - w
    if at <= 0 then return i - 1 end
  end
  return best - 1
end

---Text that a character model (numbers [batch, time] to logits [batch, time, characters]) writes
---after a prompt. The model sees the last `window` characters (by default as many as its input is
---long, else 64).
---Shapes: the model: [batch, time] → [batch, time, characters]
---Units: length and window in characters
---Errors: a prompt with a character that the vocabulary lacks, a model of other shapes, a
---temperature below 0:
---`keras.utils.generate_text{model, keras.utils.vocabulary("abc"), prompt = "xyz"}`
---@param ... any model, vocabulary, prompt, length, temperature, window
---@return string prompt and continuation
function utils.generate_text(...)
  local a = args.check("generate_text", generate_rows, ...)
  local numbers = a.vocabulary:encode(a.prompt):totable()
  if #numbers == 0 then blame.error("generate_text: the prompt is empty", "value") end
  local model = a.model
  local extent = model._graph and model._graph.inputs[1].shape[2] or -1
  local window = a.window or (extent > 0 and extent or 64)
  for _ = 1, a.length do
    local first = math.max(1, #numbers - window + 1)
    local seen = table.move(numbers, first, #numbers, 1, {})
    local used = #seen
    -- later positions don't matter to a causal model
    while extent > 0 and #seen < window do seen[#seen + 1] = 0 end
    local logits = model:predict_on_batch(core.tensor({seen}, "int32"))
    local shape = logits.shape
    if #shape == 3 then
      logits = ops.slice(logits, {0, math.min(used, shape[2]) - 1, 0}, {1, 1, shape[3]})
    end
    numbers[#numbers + 1] = sample(logits:reshape{-1}:totable(), a.temperature)
  end
  return a.vocabulary:decode(numbers)
end

-- Names of Keras' module that this one lacks, with the names to use instead.
local no_downloads <const> = "nothing is downloaded; "
local no_queue <const> = "datasets have threads of their own"
local missing <const> = {
  Sequence = "programs must know the shapes of batches ahead; make them by "
  .. "ipu.data.from_generator",
  Progbar = "fit, evaluate and predict show their progress themselves",
  get_file = no_downloads .. "give the paths of files that are there",
  model_to_dot = "plot_model returns the DOT text",
  GeneratorEnqueuer = no_queue, OrderedEnqueuer = no_queue, SequenceEnqueuer = no_queue,
}

return offering.answer("utils", utils, {missing = missing})
