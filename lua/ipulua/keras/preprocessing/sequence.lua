-- keras.preprocessing.sequence: lists of numbers of unequal lengths as one tensor; pairs of words
-- for embeddings.

local args = require "ipulua.base.args"
local blame = require "ipulua.base.blame"
local core = require "ipulua.core"
local counted = require "ipulua.base.counted"
local offering = require "ipulua.base.parts.offering"
local ops = require "ipulua.ops"
local plain = require "ipulua.base.plain"

local sequence = {}

-- ------------------------------------------------ padding

local pad_rows <const> = {
  {"sequences", "list", list = true}, {"maxlen", "integer", optional = true, range = "[0, inf)"},
  {"dtype", "dtype", "int32"},
  {"padding", "string", "pre", choices = {"pre", "post"}},
  {"truncating", "string", "pre", choices = {"pre", "post"}},
  {"value", "number", 0},
}

-- Each sequence as a Lua list, and the longest one's length.
local function as_lists(sequences)
  local lists, longest = {}, 0
  for i, given in ipairs(sequences) do
    if core.is_tensor(given) then given = given.rank > 0 and given:totable() or nil end
    if not args.is_list(given) then
      blame.error(string.format("pad_sequences: 'sequences' must hold lists or tensors; entry %d "
        .. "is %s", i,
        args.describe(sequences[i])), "type")
    end
    lists[i], longest = given, math.max(longest, #given)
  end
  return lists, longest
end

-- The extents of a nested list.
local function shape_of(value)
  local shape, depth = {}, 0
  while type(value) == "table" do
    shape[#shape + 1], depth = #value, plain.deeper(depth)
    value = value[1]
  end
  return shape
end

local function same_shape(a, b)
  if #a ~= #b then return false end
  for i, extent in ipairs(a) do
    if extent ~= b[i] then return false end
  end
  return true
end

-- The shape that all steps of all sequences have, {} for numbers.
local function step_shape(lists)
  local wanted
  for i, list in ipairs(lists) do
    for k, step in ipairs(list) do
      local shape = shape_of(step)
      wanted = wanted or shape
      if not same_shape(shape, wanted) then
        blame.error(string.format("pad_sequences: step %d of sequence %d has the shape [%s], the "
          .. "first step has [%s]", k - 1, i - 1,
          table.concat(shape, ", "), table.concat(wanted, ", ")), "value")
      end
    end
  end
  return wanted or {}
end

-- `value` in a shape, as nested lists.
local function filled(shape, value, axis)
  axis = axis or 1
  if axis > #shape then return value end
  local list = {}
  for i = 1, shape[axis] do list[i] = filled(shape, value, axis + 1) end
  return list
end

-- All steps that stay, one after another, with a blank one in front; for each sequence the position
-- of its first step, and their number.
local function kept_steps(lists, length, a, blank)
  local steps, offsets, counts = {blank}, {}, {}
  for i, list in ipairs(lists) do
    local kept = math.min(#list, length)
    offsets[i], counts[i] = {#steps}, {kept}
    local first = a.truncating == "pre" and #list - kept + 1 or 1
    table.move(list, first, first + kept - 1, #steps + 1, steps)
  end
  return steps, offsets, counts
end

-- Rows of `length` steps, each a step that stays or the blank one.
local function padded(lists, length, a, blank)
  local steps, offsets, counts = kept_steps(lists, length, a, blank)
  local count = core.tensor(counts, "int32")
  local place = ops.broadcast_to(ops.arange(length):reshape{1, length}, {#lists, length})
  if a.padding == "pre" then place = place - (length - count) end
  local is_step = ops.logical_and(ops.greater_equal(place, 0), ops.less(place, count))
  local index = ops.where(is_step, place + core.tensor(offsets, "int32"), ops.zeros_like(place))
  return ops.gather(core.tensor(steps, a.dtype), index)
end

---Sequences as the rows of one tensor. Sequences shorter than maxlen (by default the longest one's
---length) are filled up with `value`, longer ones cut. padding and truncating choose the beginning
---("pre") or the end ("post").
---Shapes: lists of lengths up to n → [sequences, maxlen]; steps may have a shape of their own,
---which comes after: `keras.preprocessing.sequence.pad_sequences{{1}, {2, 3}, {4, 5, 6}}` → [3, 3]
---Errors: entries that are no lists, steps of unequal shapes, no sequence at all without maxlen:
---`keras.preprocessing.sequence.pad_sequences{1, 2}`
---@param ... any sequences, maxlen, dtype, padding, truncating, value
---@return userdata
function sequence.pad_sequences(...)
  local a = args.check("pad_sequences", pad_rows, ...)
  local lists, longest = as_lists(a.sequences)
  if #lists == 0 and not a.maxlen then
    blame.error("pad_sequences: there are no sequences; give 'maxlen'", "value")
  end
  if not a.dtype:find("float") and not math.tointeger(a.value) then
    blame.error(string.format("pad_sequences: 'value', %s, is no %s; give 'dtype'", a.value,
      a.dtype), "value")
  end
  local length, shape = a.maxlen or longest, step_shape(lists)
  if #lists == 0 or length == 0 then
    return core.full({#lists, length, table.unpack(shape)}, a.value, a.dtype)
  end
  return padded(lists, length, a, filled(shape, a.value))
end

-- ------------------------------------------------ skip-grams

local table_rows <const> = {
  {"size", "integer", range = "[1, inf)"},
  {"sampling_factor", "number", 1e-5, range = "(0, inf)"},
}

-- The assumed frequency of a word is the inverse of this, by Zipf's law: rank·(ln rank + γ) + 1/2 −
-- 1/(12·rank).
local euler <const> = 0.577

---The probability to keep the word of each rank (0: none; 1: the most frequent). Words are drawn
---from a text whose frequencies follow Zipf's law: sqrt(sampling_factor / frequency), at most 1.
---Shapes: [size]. `keras.preprocessing.sequence.make_sampling_table(10)` → [10]
---Errors: a size below 1: `keras.preprocessing.sequence.make_sampling_table(0)`
---Source: arXiv:1310.4546
---@param ... any size, sampling_factor
---@return userdata
function sequence.make_sampling_table(...)
  local a = args.check("make_sampling_table", table_rows, ...)
  local rank = ops.maximum(ops.cast(ops.arange(a.size), "float64"), 1)
  local inverse_frequency = rank * (ops.log(rank) + euler) + 0.5 - ops.reciprocal(rank * 12)
  return ops.cast(ops.minimum(ops.sqrt(inverse_frequency * a.sampling_factor), 1), "float32")
end

local skipgram_rows <const> = {
  {"sequence", {"list", "tensor"}}, {"vocabulary_size", "integer", check = function(n)
    if n < 2 then return "must be at least 2 (0 is no word), got " .. n end
  end},
  {"window_size", "integer", 4, range = "[0, inf)"},
  {"negative_samples", "number", 1, range = "[0, inf)"},
  {"shuffle", "boolean", true}, {"categorical", "boolean", false},
  {"sampling_table", {"tensor", "list"}, optional = true},
  {"seed", "integer", optional = true},
}

-- Numbers from [0, 1); each call of the result gives another.
local function draws(seed)
  local list, at, round = {}, 0, 0
  return function()
    at = at + 1
    if at > #list then
      local own = seed and seed + round
      list, at, round = ops.random.uniform({4096}, {seed = own}):totable(), 1, round + 1
    end
    return list[at]
  end
end

local function shuffle(list, draw)
  for i = #list, 2, -1 do
    local k = math.floor(draw() * i) + 1
    list[i], list[k] = list[k], list[i]
  end
end

-- Pairs of a word and one in its window.
local function near_pairs(words, a, kept, draw)
  local pairs_found, reach = {}, math.min(a.window_size, #words)
  for i, word in ipairs(words) do
    local is_drawn = word ~= 0 and (not kept or kept[word + 1] >= draw())
    for k = math.max(1, i - reach), is_drawn and math.min(#words, i + reach) or 0 do
      if k ~= i and words[k] ~= 0 then pairs_found[#pairs_found + 1] = {word, words[k]} end
    end
  end
  return pairs_found
end

local most_pairs <const> = 1 << 28 -- as Lua lists they take 16 GiB and more

-- Pairs of the same first words with any others.
local function random_pairs(near, a, draw)
  local words, others = {}, {}
  local count = #near * a.negative_samples
  if count ~= count or count >= most_pairs then
    blame.error(string.format("skipgrams: %g random pairs for each of %d are too many",
      a.negative_samples, #near), "value")
  end
  for i, pair in ipairs(near) do words[i] = pair[1] end
  shuffle(words, draw)
  for i = 1, math.floor(count) do
    others[i] = {words[(i - 1) % #words + 1], 1 + math.floor(draw() * (a.vocabulary_size - 1))}
  end
  return others
end

local function check_words(words, a, kept)
  for i, word in ipairs(words) do
    if math.type(word) ~= "integer" or word < 0 or word >= a.vocabulary_size then
      blame.error(string.format("skipgrams: 'sequence' must hold numbers of words from 0 to %d; "
        .. "entry %d is %s",
        a.vocabulary_size - 1, i, args.describe(word)), "value")
    end
    if kept and not kept[word + 1] then
      blame.error(string.format("skipgrams: 'sampling_table' has %s, none for the word %d",
        counted(#kept, "entry", "entries"), word), "value")
    end
  end
end

local function as_list(value) return core.is_tensor(value) and value:totable() or value end

---Pairs of words from a sequence of their numbers (0: no word), and labels. Label 1: words that
---stand at most window_size apart. Label 0: negative_samples times as many pairs with random words.
---sampling_table: the probability to keep a word, by its number. With a seed the same each time.
---Units: window_size in words
---Errors: a number that is no word, a table too short:
---`keras.preprocessing.sequence.skipgrams({1, 5}, 4)`
---Source: arXiv:1301.3781
---@param ... any sequence, vocabulary_size, window_size, negative_samples, shuffle, categorical, …
---@return integer[][] pairs
---@return any[] labels; with categorical {0, 1} and {1, 0}
function sequence.skipgrams(...)
  local a = args.check("skipgrams", skipgram_rows, ...)
  local words, kept, draw = as_list(a.sequence), as_list(a.sampling_table), draws(a.seed)
  check_words(words, a, kept)
  local found, labelled = near_pairs(words, a, kept, draw), {}
  local others = random_pairs(found, a, draw)
  local yes, no = a.categorical and {0, 1} or 1, a.categorical and {1, 0} or 0
  for _, pair in ipairs(found) do labelled[#labelled + 1] = {pair, yes} end
  for _, pair in ipairs(others) do labelled[#labelled + 1] = {pair, no} end
  if a.shuffle then shuffle(labelled, draw) end
  local labels, both = {}, {}
  for i, each in ipairs(labelled) do both[i], labels[i] = each[1], each[2] end
  return both, labels
end

-- Names of Keras' module that this one lacks, with the names to use instead.
local missing <const> = {
  TimeseriesGenerator = "use preprocessing.timeseries_dataset_from_array, a dataset of the same "
  .. "windows",
}

return offering.answer("preprocessing.sequence", sequence, {missing = missing})
