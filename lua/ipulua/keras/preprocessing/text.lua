-- keras.preprocessing.text: words and their numbers.

local args = require "ipulua.base.args"
local blame = require "ipulua.base.blame"
local class = require "ipulua.base.class"
local core = require "ipulua.core"
local json = require "ipulua.base.json"
local md5 = require "ipulua.keras.preprocessing.md5"
local offering = require "ipulua.base.parts.offering"
local ops = require "ipulua.ops"
local words = require "ipulua.keras.preprocessing.words"

local text = {}

-- punctuation but the apostrophe, as in Keras
local usual_filters <const> = "!\"#$%&()*+,-./:;<=>?@[\\]^_`{|}~\t\n"

local filter_row <const>, lower_row <const> = {"filters", "string", optional = true},
  {"lower", "boolean", true}
local split_row <const> = {"split", "string", " ", check = function(s)
  if s == "" then return "must not be empty" end
end}

local word_rows <const> = {{"text", "string"}, filter_row, lower_row, split_row}

local function words_in(given, a)
  return words.split(a.lower and words.lower(given) or given, a.filters or usual_filters, a.split)
end

---The words of a text, separated by `split`, in small letters if `lower` is set. Each of the
---characters of `filters` (by default punctuation but the apostrophe, tabs and line ends) counts as
---`split`. `keras.preprocessing.text.text_to_word_sequence "Hello, world!"` is {"hello", "world"}.
---Errors: an empty split: `keras.preprocessing.text.text_to_word_sequence{"a b", split = ""}`
---@param ... any text, filters, lower, split
---@return string[]
function text.text_to_word_sequence(...)
  local a = args.check("text_to_word_sequence", word_rows, ...)
  return core.plain(words_in(a.text, a))
end

local hashing_rows <const> = {
  {"text", "string"}, {"n", "integer", check = function(n)
    if n < 2 or n > 1 << 31 then return "must lie between 2 (0 is no word) and 2^31, got " .. n end
  end},
  {"hash_function", {"string", "callable"}, "md5"}, filter_row, lower_row, split_row,
}

-- A hash from 1 to n - 1 of a word.
local function hash_of(a)
  local f = a.hash_function
  if f == "md5" then return function(word) return md5.modulo(word, a.n - 1) + 1 end end
  if type(f) == "string" then
    blame.error(
      string.format("hashing_trick: 'hash_function' must be \"md5\" or a function, got %s",
        args.describe(f)), "value")
  end
  return function(word)
    local hash = f(word)
    if math.type(hash) == "integer" then return hash % (a.n - 1) + 1 end
    blame.error("hashing_trick: 'hash_function' must give integers, got "
      .. args.describe(hash), "type")
  end
end

---A number from 1 to n - 1 for each word of a text: its hash, by default MD5. No list of words need
---be kept. Different words may get the same number.
---Errors: n below 2, a hash_function that gives no integer:
---`keras.preprocessing.text.hashing_trick("a b", 1)`
---Source: arXiv:0902.2206
---@param ... any text, n, hash_function, filters, lower, split
---@return integer[]
function text.hashing_trick(...)
  local a = args.check("hashing_trick", hashing_rows, ...)
  local hash, numbers = hash_of(a), {}
  for i, word in ipairs(words_in(a.text, a)) do numbers[i] = hash(word) end
  return numbers
end

-- ------------------------------------------------ words and their numbers

local tokenizer_rows <const> = {
  {"num_words", "integer", optional = true, range = "[1, inf)"},
  filter_row, lower_row, split_row, {"char_level", "boolean", false},
  {"oov_token", "string", optional = true},
  {"document_count", "integer", 0},
}

---Numbers the words (or characters) of texts, the most frequent one first. Numbers are Keras' ones,
---from 1; 0 is no word, and free for padding. Of a text only the num_words - 1 most frequent words
---count; the others are left out, or become oov_token, which is then number 1. Fields: word_index
---(word → number), index_word, word_counts, word_docs and index_docs (in how many texts a word or
---number is), document_count.
---Errors: an empty split, num_words below 1: `keras.preprocessing.text.Tokenizer{num_words = 0}`
---@class Tokenizer: Class
---@field word_index table<string, integer>
---@field index_word table<integer, string>
---@field word_counts table<string, integer>
---@field word_docs table<string, integer>
---@field index_docs table<integer, integer>
---@field document_count integer
local Tokenizer = class.new("Tokenizer")
text.Tokenizer = Tokenizer
Tokenizer.argument_rows = tokenizer_rows

function Tokenizer:init(...)
  for name, value in pairs(args.check("Tokenizer", tokenizer_rows, ...)) do self[name] = value end
  self.filters = self.filters or usual_filters
  for _, name in ipairs{"word_counts", "word_docs", "index_docs", "word_index", "index_word"} do
    self[name] = core.plain{}
  end
  -- words in the order in which they came: of equally frequent ones the first has the lower number
  self._seen = {}
end

local function check_list(who, name, given)
  if args.is_list(given) then return given end
  blame.error(string.format("%s: '%s' must be a list, got %s", who, name, args.describe(given)),
    "type")
end

-- The words of an entry of a list of texts: a text, or a list of words.
local function words_of(self, who, given)
  if args.is_list(given) then
    local list = {}
    for i, word in ipairs(given) do
      if type(word) ~= "string" then
        blame.error(string.format("%s: a text must hold words, got %s", who, args.describe(word)),
          "type")
      end
      list[i] = self.lower and words.lower(word) or word
    end
    return list
  end
  if type(given) ~= "string" then
    blame.error(string.format("%s: 'texts' must hold strings or lists of words, got %s", who,
      args.describe(given)), "type")
  end
  if self.char_level then return words.characters(self.lower and words.lower(given) or given) end
  return words_in(given, self)
end

local function count_words(self, list)
  local here = {}
  for _, word in ipairs(list) do
    if not self.word_counts[word] then self._seen[#self._seen + 1] = word end
    self.word_counts[word] = (self.word_counts[word] or 0) + 1
    if not here[word] then self.word_docs[word] = (self.word_docs[word] or 0) + 1 end
    here[word] = true
  end
end

-- Numbers by frequency.
local function number_words(self)
  local place, list = {}, {}
  for i, word in ipairs(self._seen) do place[word], list[i] = i, word end
  local counts = self.word_counts
  table.sort(list, function(a, b)
    if counts[a] ~= counts[b] then return counts[a] > counts[b] end
    return place[a] < place[b]
  end)
  if self.oov_token then table.insert(list, 1, self.oov_token) end
  self.word_index, self.index_word = core.plain{}, core.plain{}
  for number, word in ipairs(list) do self.word_index[word] = number end
  for word, number in pairs(self.word_index) do self.index_word[number] = word end
  for word, count in pairs(self.word_docs) do self.index_docs[self.word_index[word]] = count end
end

---Counts the words of texts (a list of strings, or of lists of words) and numbers them anew.
---Earlier counts are kept.
---Errors: texts that are no list of strings:
---`keras.preprocessing.text.Tokenizer():fit_on_texts "a b"`
---@param texts any[] strings, or lists of words
function Tokenizer:fit_on_texts(texts)
  for _, given in ipairs(check_list("fit_on_texts", "texts", texts)) do
    local list = words_of(self, "fit_on_texts", given)
    self.document_count = self.document_count + 1
    count_words(self, list)
  end
  number_words(self)
end

-- Lists of numbers, from lists or tensors.
local function check_sequences(who, sequences)
  local lists = {}
  for i, given in ipairs(check_list(who, "sequences", sequences)) do
    local list = core.is_tensor(given) and given.rank == 1 and given:totable() or given
    if not args.is_list(list) then
      blame.error(string.format("%s: 'sequences' must hold lists of numbers, got %s", who,
        args.describe(given)), "type")
    end
    for _, number in ipairs(list) do
      if math.type(number) ~= "integer" or number < 0 then
        blame.error(string.format("%s: numbers of words are integers from 0, got %s", who,
          args.describe(number)), "value")
      end
    end
    lists[i] = list
  end
  return lists
end

---Counts in how many of the sequences each number is, for sequences_to_matrix with "tfidf"; no word
---need be known.
---Errors: sequences that are no lists of numbers:
---`keras.preprocessing.text.Tokenizer():fit_on_sequences{{"a"}}`
---@param sequences any[] lists of integers
function Tokenizer:fit_on_sequences(sequences)
  for _, list in ipairs(check_sequences("fit_on_sequences", sequences)) do
    self.document_count = self.document_count + 1
    local here = {}
    for _, number in ipairs(list) do
      if not here[number] then self.index_docs[number] = (self.index_docs[number] or 0) + 1 end
      here[number] = true
    end
  end
end

-- The number that counts for a number of word_index (nil: an unknown word): itself, oov_token's, or
-- nil.
local function known_number(self, number)
  if number and not (self.num_words and number >= self.num_words) then return number end
  return self.oov_token and self.word_index[self.oov_token]
end

---The numbers of the words of each text; words that aren't known, or beyond num_words, are left out
---or become oov_token's.
---Errors: texts that are no list of strings:
---`keras.preprocessing.text.Tokenizer():texts_to_sequences{1}`
---@param texts any[] strings, or lists of words
---@return integer[][]
function Tokenizer:texts_to_sequences(texts)
  local sequences = core.plain{}
  for i, given in ipairs(check_list("texts_to_sequences", "texts", texts)) do
    local numbers = core.plain{}
    for _, word in ipairs(words_of(self, "texts_to_sequences", given)) do
      numbers[#numbers + 1] = known_number(self, self.word_index[word])
    end
    sequences[i] = numbers
  end
  return sequences
end

---A text for each sequence of numbers, the words with spaces between them. Numbers without a word,
---as padding, are left out, or become oov_token.
---Errors: sequences that are no lists of numbers:
---`keras.preprocessing.text.Tokenizer():sequences_to_texts{1}`
---@param sequences any[] lists of integers
---@return string[]
function Tokenizer:sequences_to_texts(sequences)
  local texts = core.plain{}
  for i, list in ipairs(check_sequences("sequences_to_texts", sequences)) do
    local found = {}
    for _, number in ipairs(list) do
      local known = known_number(self, self.index_word[number] and number)
      found[#found + 1] = known and self.index_word[known]
    end
    texts[i] = table.concat(found, " ")
  end
  return texts
end

-- ------------------------------------------------ matrices

-- The value for a number that is `count` times in a sequence of `length`.
local modes <const> = {
  binary = function() return 1 end,
  count = function(_, _, count) return count end,
  freq = function(_, _, count, length) return count / length end,
  tfidf = function(self, number, count)
    return (1 + math.log(count))
      * math.log(1 + self.document_count / (1 + (self.index_docs[number] or 0)))
  end,
}

local mode_row <const> = {"mode", "string", "binary",
  choices = {"binary", "count", "freq", "tfidf"}}
local matrix_rows <const> = {{"sequences", "list", list = true}, mode_row}
local text_matrix_rows <const> = {{"texts", "list", list = true}, mode_row}

local function matrix_width(self)
  if self.num_words then return self.num_words end
  if next(self.word_index) == nil then
    blame.error("sequences_to_matrix: the number of columns is unknown; give 'num_words', or call "
      .. "fit_on_texts first", "value")
  end
  local width = 1
  for _, number in pairs(self.word_index) do width = math.max(width, number + 1) end
  return width
end

-- Number → how often it is in a list, for numbers below width.
local function counts_below(list, width)
  local counts = {}
  for _, number in ipairs(list) do
    if number < width then counts[number] = (counts[number] or 0) + 1 end
  end
  return counts
end

-- Positions and values of the elements that aren't 0 in the matrix.
local function entries(self, lists, width, entry)
  local places, values = {}, {}
  for row, list in ipairs(lists) do
    for number, count in pairs(counts_below(list, width)) do
      places[#places + 1], values[#values + 1] = {row - 1, number},
        entry(self, number, count, #list)
    end
  end
  return places, values
end

---A row of num_words columns for each sequence. The element of a number in the sequence, by mode: 1
---("binary"), its count ("count") or its share of the sequence ("freq"). "tfidf": (1 + log count) ·
---log(1 + document_count / (1 + texts with the word)).
---Shapes: [sequences, num_words]; without num_words as many columns as there are numbers, with 0:
---`keras.preprocessing.text.Tokenizer{num_words = 4}:sequences_to_matrix{{1, 1}, {3}}` → [2, 4]
---Errors: neither num_words nor words, "tfidf" before texts were counted:
---`keras.preprocessing.text.Tokenizer():sequences_to_matrix{{1}}`
---@param ... any sequences, mode
---@return userdata
function Tokenizer:sequences_to_matrix(...)
  local a = args.check("sequences_to_matrix", matrix_rows, ...)
  local lists, width = check_sequences("sequences_to_matrix", a.sequences), matrix_width(self)
  if a.mode == "tfidf" and self.document_count == 0 then
    blame.error("sequences_to_matrix: mode 'tfidf' needs counted texts; call "
      .. "fit_on_texts or fit_on_sequences", "value")
  end
  local places, values = entries(self, lists, width, modes[a.mode])
  if #places == 0 then return core.full({#lists, width}, 0, "float32") end
  return ops.scatter_nd(core.tensor(places, "int32"), core.tensor(values), {#lists, width})
end

---sequences_to_matrix of the numbers of texts.
---Shapes: [texts, num_words].
---`keras.preprocessing.text.Tokenizer{num_words = 4}:texts_to_matrix{"a b"}` → [1, 4]
---Errors: as of texts_to_sequences and sequences_to_matrix:
---`keras.preprocessing.text.Tokenizer():texts_to_matrix{"a"}`
---@param ... any texts, mode
---@return userdata
function Tokenizer:texts_to_matrix(...)
  local a = args.check("texts_to_matrix", text_matrix_rows, ...)
  return self:sequences_to_matrix(self:texts_to_sequences(a.texts), {mode = a.mode})
end

-- ------------------------------------------------ as JSON

-- A flat JSON object with its names in a given order, which Keras keeps in word_counts.
local function ordered_object(t, names)
  local parts = {}
  for i, name in ipairs(names) do parts[i] = json.encode(name) .. ": " .. json.encode(t[name]) end
  return "{" .. table.concat(parts, ", ") .. "}"
end

-- The names of a flat JSON object of numbers, in their order.
local function names_in_order(object)
  local names, at = {}, 1
  while true do
    local from = object:find('"', at, true)
    if not from then return names end
    local to = from + 1
    while object:sub(to, to) ~= '"' do to = to + (object:sub(to, to) == "\\" and 2 or 1) end
    names[#names + 1] = json.decode(object:sub(from, to))
    at = to + 1
  end
end

-- JSON objects have strings for names.
local function with_strings(t)
  local out = {}
  for number, value in pairs(t) do out[tostring(number)] = value end
  return out
end

---The values that make the tokenizer again, as in Keras: the arguments, and the counts as JSON
---texts.
---@return table
function Tokenizer:get_config()
  local function object(t) return next(t) == nil and "{}" or json.encode(t) end
  return core.plain{
    num_words = self.num_words or json.null, filters = self.filters, lower = self.lower,
    split = self.split,
    char_level = self.char_level, oov_token = self.oov_token or json.null,
    document_count = self.document_count,
    word_counts = ordered_object(self.word_counts, self._seen), word_docs = object(self.word_docs),
    index_docs = object(with_strings(self.index_docs)),
    index_word = object(with_strings(self.index_word)),
    word_index = object(self.word_index),
  }
end

---The tokenizer as JSON, in the form of Keras; tokenizer_from_json reads it.
---@return string
function Tokenizer:to_json()
  return json.encode{class_name = "Tokenizer", config = self:get_config()}
end

local json_rows <const> = {{"json_string", "string"}}

-- The parts of a config that are JSON objects themselves: name, whether their own names are
-- numbers, and the kind of their values.
local counted <const> = {
  {"word_counts", false, "integer"}, {"word_docs", false, "integer"},
  {"word_index", false, "integer"},
  {"index_docs", true, "integer"}, {"index_word", true, "string"},
}

local function refuse(name, what)
  blame.error(string.format("tokenizer_from_json: the text describes no tokenizer: config.%s %s",
    name, what), "value")
end

-- One of these parts, decoded.
local function read_part(given, name, has_numbers, kind)
  if type(given) ~= "string" then refuse(name, "is missing") end
  local object, part = json.decode(given), {}
  if not args.is_plain(object) then refuse(name, "must be an object") end
  for key, value in pairs(object) do
    local number = math.tointeger(tonumber(key))
    if type(key) ~= "string" or has_numbers and not number
      or (math.type(value) or type(value)) ~= kind then
      refuse(name, string.format("must not hold %s = %s", tostring(key), args.describe(value)))
    end
    part[has_numbers and number or key] = value
  end
  return part
end

---The tokenizer that to_json described, here or in Keras.
---Errors: a text that is not JSON or describes no tokenizer:
---`keras.preprocessing.text.tokenizer_from_json "{}"`
---@param ... any json_string
---@return Tokenizer
function text.tokenizer_from_json(...)
  local json_string = args.check("tokenizer_from_json", json_rows, ...).json_string
  local spec, problem = json.parse(json_string)
  if problem then blame.error("tokenizer_from_json: " .. problem, "value") end
  local config, given, parts = type(spec) == "table" and args.is_plain(spec.config) and spec.config
    or {}, {}, {}
  for _, row in ipairs(counted) do parts[row[1]] = read_part(config[row[1]], table.unpack(row)) end
  for _, row in ipairs(tokenizer_rows) do
    local value = config[row[1]]
    if value ~= json.null then given[row[1]] = value end
  end
  local tokenizer = Tokenizer(given)
  for name, part in pairs(parts) do tokenizer[name] = part end
  tokenizer._seen = names_in_order(config.word_counts)
  return tokenizer
end

class.guard(Tokenizer)

-- Names of Keras' module that this one lacks, with the names to use instead.
local missing <const> = {
  one_hot = "its numbers depend on a hash that differs from run to run; use hashing_trick or "
  .. "Tokenizer",
}

return offering.answer("preprocessing.text", text, {missing = missing})
