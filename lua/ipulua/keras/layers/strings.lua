-- StringLookup and TextVectorization: words as numbers. Strings stay on the host, so these are no
-- layers of a model: they are called with strings, and give tensors for one.

local about = require "ipulua.base.parts.about"
local args = require "ipulua.base.args"
local blame = require "ipulua.base.blame"
local class = require "ipulua.base.class"
local core = require "ipulua.core"
local data = require "ipulua.data"
local encode = require "ipulua.keras.layers.embedding".encode
local hashes = require "ipulua.keras.preprocessing.hashes"
local host_strings = require "ipulua.data.host_strings"
local modes = require "ipulua.keras.layers.token_modes"
local nearest = require "ipulua.nearest"
local ops = require "ipulua.ops"
local words = require "ipulua.keras.preprocessing.words"

local strings = {}

local bytes_at_once <const> = 4096 -- that string.char takes

-- A text, of a string or of its bytes, as datasets of texts have them.
local function as_text(who, value)
  if type(value) == "string" then return value end
  host_strings.want_values(who, value)
  if core.is_tensor(value) and value.dtype == "uint8" and #value.shape == 1 then
    local bytes, parts = value:totable(), {}
    for i = 1, #bytes, bytes_at_once do
      parts[#parts + 1] = string.char(table.unpack(bytes, i, math.min(i + bytes_at_once - 1,
        #bytes)))
    end
    return table.concat(parts)
  end
  blame.error(string.format("%s: expected a string, or the bytes of one, got %s", who,
    args.describe(value)), "type")
end

---@package
strings.as_text = as_text

-- Whether it is a list of texts rather than one.
local function is_list(value) return args.is_plain(value) end

-- Calls visit with each text of nested lists, or of a dataset of texts or of batches of them.
local function each_text(who, given, visit)
  if class.is_a(given, data.Dataset) then
    for x in given:iter() do each_text(who, x, visit) end
  elseif is_list(given) then
    for _, x in ipairs(given) do each_text(who, x, visit) end
  else visit(as_text(who, given)) end
end

-- Calls visit with the words of each document: with the innermost of nested lists, and with each
-- word of a list that is not nested.
local function each_row(given, visit)
  if class.is_a(given, data.Dataset) then
    for x in given:iter() do each_row(x, visit) end
  elseif not is_list(given) then visit{as_text("adapt", given)}
  else
    for _, x in ipairs(given) do
      if is_list(x) and not is_list(x[1]) then visit(x) else each_row(x, visit) end
    end
  end
end

-- ------------------------------------------------ vocabularies

-- Of a file a word on each line.
local function read_vocabulary(who, path)
  local list = {}
  for line in modes.read_file(who, path):gmatch("([^\r\n]+)") do list[#list + 1] = line end
  return list
end

---@class Words: Class
---@field first_words string[] before the vocabulary's: the mask's and the unknown word
local Words = class.new("Words")
Words.takes_texts = true

---Sets the vocabulary: words, or a file with one on each line. For output_mode "tf_idf" a weight
---for each of them, too.
---@param given string[]|string
---@param idf_weights number[]|userdata|nil
function Words:set_vocabulary(given, idf_weights)
  local who <const> = self.__name
  local list = type(given) == "string" and read_vocabulary(who, given) or given
  local skipped = #self.first_words
  for i, word in ipairs(self.first_words) do
    if list[i] ~= word then skipped = 0 end
  end
  local known, own = {}, {}
  for i, word in ipairs(self.first_words) do known[word] = i - 1 end
  for i = skipped + 1, #list do
    local word = list[i]
    if type(word) ~= "string" then
      blame.error(string.format("%s: a vocabulary holds strings; entry %d is %s", who, i,
        args.describe(word)), "type")
    end
    if known[word] then
      blame.error(string.format("%s: the vocabulary has '%s' twice", who, word), "value")
    end
    own[#own + 1] = word
    known[word] = #self.first_words + #own - 1
  end
  if self.max_tokens and #own + #self.first_words > self.max_tokens then
    blame.error(string.format("%s: a vocabulary of %d words and %d special ones is larger than "
      .. "max_tokens, %d", who, #own, #self.first_words, self.max_tokens), "value")
  end
  self.weights = modes.given_weights(who, self.output_mode, modes.argument(idf_weights), #own,
    #self.first_words)
  self.own_words, self.number_of = own, known
end

---The vocabulary in the order of its numbers, the mask's and the unknown word first.
---@return string[]
function Words:get_vocabulary()
  local list = table.move(self.first_words, 1, #self.first_words, 1, {})
  return core.plain(table.move(self.own_words or {}, 1, #(self.own_words or {}), #list + 1, list))
end

---How many numbers there are.
---@return integer
function Words:vocabulary_size() return #self:get_vocabulary() end

function Words:take_counts(counts, documents)
  local list = modes.most_frequent(counts, self.max_tokens
    and self.max_tokens - #self.first_words)
  self:set_vocabulary(list, self.output_mode == "tf_idf" and modes.weights(documents, list) or nil)
end

function Words:known()
  if self.own_words then return self.number_of end
  blame.error(self.__name .. ": its vocabulary is unknown; give it, or call adapt(data)",
    "failed_precondition")
end

local nowhere <const> = -1 -- a number that no vector counts

-- Rows of numbers as the output mode has them.
local function encoded(self, rows, mode)
  local width = self.pad_to_max_tokens and self.max_tokens or self:vocabulary_size()
  return encode(ops.tensor(rows, {dtype = "int32"}), width, mode, "float32",
    self.weights and modes.spread(self.weights, #self.first_words, width))
end

---The arguments that the object was made with, for from_config.
---@return table
function Words:get_config()
  local config = core.plain{}
  for _, row in ipairs(self.argument_rows) do config[row[1]] = self[row[1]] end
  config.vocabulary, config.idf_weights = self.own_words, core.plain(self.weights)
  return config
end

Words.from_config = require "ipulua.base.parts".Part.from_config

local max_row <const> = {"max_tokens", "integer", optional = true, range = "[2, inf)"}
local vocabulary_row <const> = {"vocabulary", {"list", "string"}, optional = true,
  says = "words, or a file with one on each line"}
local weights_row <const> = {"idf_weights", {"list", "tensor"}, optional = true}
local pad_row <const> = {"pad_to_max_tokens", "boolean", false}

local function take_arguments(self, rows, ...)
  local a = args.check(self.__name, rows, ...)
  for key, value in pairs(a) do self[key] = value end
  if a.pad_to_max_tokens and not a.max_tokens then
    blame.error(self.__name .. ": 'pad_to_max_tokens' needs 'max_tokens'", "value")
  end
end

local function take_vocabulary(self)
  local vocabulary, weights = self.vocabulary, self.idf_weights
  self.vocabulary, self.idf_weights = nil, nil
  if vocabulary then self:set_vocabulary(vocabulary, weights) end
end

-- ------------------------------------------------ StringLookup

local lookup_rows <const> = {
  max_row, {"num_oov_indices", "integer", 1, range = "[0, 2147483647]"},
  {"mask_token", "string", optional = true}, {"oov_token", "string", "[UNK]"}, vocabulary_row,
  {"invert", "boolean", false},
  modes.row("int", {"int", "one_hot", "multi_hot", "count", "tf_idf"}), pad_row, weights_row,
}

---The number of a word in a vocabulary, which is given or learnt by `adapt(data)`: the most
---frequent word first. Before it come 0 for mask_token, if there is one and output_mode is "int",
---and num_oov_indices numbers for words that it lacks. FarmHash's fingerprint chooses among those.
---In other modes mask_token counts nowhere.
---output_mode as of IntegerLookup. Called with a string, a list, or the bytes of a text;
---invert = true goes back from numbers to words.
---@class StringLookup: Words
local StringLookup = class.new("StringLookup", Words)
strings.StringLookup = StringLookup
StringLookup.argument_rows = lookup_rows

function StringLookup:init(...)
  take_arguments(self, lookup_rows, ...)
  self.first_words = {}
  if self.mask_token and self.output_mode == "int" then self.first_words[1] = self.mask_token end
  for _ = 1, self.num_oov_indices do table.insert(self.first_words, self.oov_token) end
  take_vocabulary(self)
end

---Takes the vocabulary from a list, a dataset of texts, or one text: each is a word.
---@param given any
function StringLookup:adapt(given)
  local counts, documents = {}, modes.documents()
  each_text("adapt: StringLookup", given, function(word)
    if word ~= self.mask_token and word ~= self.oov_token then
      counts[word] = (counts[word] or 0) + 1
    end
  end)
  each_row(given, function(row) modes.add(documents, row) end)
  self:take_counts(counts, documents)
end

local function number(self, known, word)
  if word == self.mask_token and self.output_mode ~= "int" then return nowhere end
  local found, oov <const> = known[word], self.num_oov_indices
  if found and (oov < 2 or word ~= self.oov_token) then return found end
  if oov > 0 then
    return #self.first_words - oov + hashes.modulo(hashes.fingerprint(word), oov)
  end
  blame.error(string.format("StringLookup: '%s' is not in the vocabulary, and there is no number "
    .. "for unknown words", word), "value")
end

local function inverted(self, x)
  local list = self:get_vocabulary()
  local function word(i) return list[i + 1] or self.oov_token end
  host_strings.want_values("StringLookup", x)
  if not core.is_tensor(x) then
    blame.error("StringLookup: with 'invert' expected numbers, got " .. args.describe(x), "type")
  end
  local function inverse(value)
    if type(value) ~= "table" then return word(value) end
    local out = {}
    for i, each in ipairs(value) do out[i] = inverse(each) end
    return core.plain(out)
  end
  return inverse(#x.shape == 0 and x:item() or x:totable())
end

function StringLookup:__call(x)
  local known = self:known()
  if self.invert then return inverted(self, x) end
  local function numbers(value)
    if not is_list(value) then return number(self, known, as_text("StringLookup", value)) end
    local list = {}
    for i, each in ipairs(value) do list[i] = numbers(each) end
    return list
  end
  local found = numbers(x)
  if self.output_mode == "int" then return ops.tensor(found, {dtype = "int32"}) end
  if type(found) == "number" then found = {found} end
  return encoded(self, found, self.output_mode)
end

-- ------------------------------------------------ TextVectorization

local punctuation <const> = "[!\"#$%%&()*+,%-./:;<=>?@%[\\%]^_`{|}~']"

-- Only A to Z become small letters, as in Keras.
local standards <const> = {
  lower_and_strip_punctuation = function(s) return (s:lower():gsub(punctuation, "")) end,
  lower = string.lower,
  strip_punctuation = function(s) return (s:gsub(punctuation, "")) end,
  none = function(s) return s end,
}

local function split_words(s)
  local list = {}
  for word in s:gmatch("%S+") do list[#list + 1] = word end
  return list
end

local splits <const> = {whitespace = split_words, character = words.characters,
  none = function(s) return {s} end}

local function choice(name, list)
  return {name, {"string", "callable"}, check = function(given)
    if type(given) == "string" and not list[given] then
      local known = {}
      for key in pairs(list) do known[#known + 1] = key end
      table.sort(known)
      return string.format("must be a function or one of %s, got '%s'%s",
        table.concat(known, ", "), given, nearest.hint(given, known))
    end
  end}
end

local function with_default(row, default)
  row[3] = default
  return row
end

local vector_rows <const> = {
  max_row, with_default(choice("standardize", standards), "lower_and_strip_punctuation"),
  with_default(choice("split", splits), "whitespace"),
  {"ngrams", {"integer", "integers"}, optional = true},
  modes.row("int", {"int", "multi_hot", "count", "tf_idf"}),
  {"output_sequence_length", "integer", optional = true, range = "[1, inf)"}, pad_row,
  vocabulary_row, weights_row,
}

---Texts as the numbers of their words: A to Z in small letters, no punctuation (standardize), split
---at spaces. The vocabulary is given or learnt by `adapt(data)`. 0 fills up, 1 is an unknown word.
---ngrams = 2 counts pairs of neighbours as words, too. output_mode "int" gives the numbers, of
---output_sequence_length or of the longest text. "multi_hot" and "count" give a vector for each
---text. "tf_idf" counts each word with its weight, which `adapt` finds, or idf_weights gives.
---Called with a string, a list, or the bytes of a text.
---@class TextVectorization: Words
local TextVectorization = class.new("TextVectorization", Words)
strings.TextVectorization = TextVectorization
TextVectorization.argument_rows = vector_rows

function TextVectorization:init(...)
  take_arguments(self, vector_rows, ...)
  if self.output_sequence_length and self.output_mode ~= "int" then
    blame.error("TextVectorization: 'output_sequence_length' is for output_mode 'int', got "
      .. self.output_mode, "value")
  end
  self.first_words = self.output_mode == "int" and {"", "[UNK]"} or {"[UNK]"}
  take_vocabulary(self)
end

-- The words of a text, then its n-grams.
local function words_of(self, text)
  local standard = standards[self.standardize] or self.standardize
  local list = (splits[self.split] or self.split)(standard(text))
  local sizes = self.ngrams or 1
  if type(sizes) == "number" then
    sizes = {}
    for n = 1, self.ngrams or 1 do sizes[n] = n end
  end
  local all = {}
  for _, n in ipairs(sizes) do
    for i = 1, #list - n + 1 do all[#all + 1] = table.concat(list, " ", i, i + n - 1) end
  end
  return all
end

---Takes the vocabulary from the words of a list of texts, of a dataset of texts, or of one text.
---@param given any
function TextVectorization:adapt(given)
  local counts, documents = {}, modes.documents()
  each_text("adapt: TextVectorization", given, function(text)
    local list = words_of(self, text)
    modes.add(documents, list)
    for _, word in ipairs(list) do
      if word ~= "" and word ~= "[UNK]" then counts[word] = (counts[word] or 0) + 1 end
    end
  end)
  self:take_counts(counts, documents)
end

-- The numbers of each text, filled up to one length.
local function numbered(self, texts, fill)
  local known, rows, longest = self:known(), {}, 0
  local unknown <const> = known["[UNK]"]
  for i, text in ipairs(texts) do
    local row = {}
    for k, word in ipairs(words_of(self, text)) do
      row[k] = known[word] or word == "" and nowhere or unknown
    end
    rows[i], longest = row, math.max(longest, #row)
  end
  local length = fill == 0 and self.output_sequence_length or math.max(longest, 1)
  for _, row in ipairs(rows) do
    for k = #row + 1, length do row[k] = fill end
    for k = #row, length + 1, -1 do row[k] = nil end
  end
  return rows
end

function TextVectorization:__call(given)
  local texts = {}
  each_text("TextVectorization", given, function(text) texts[#texts + 1] = text end)
  local out
  if self.output_mode == "int" then
    out = ops.tensor(numbered(self, texts, 0), {dtype = "int32"})
  else
    out = encoded(self, numbered(self, texts, nowhere), self.output_mode)
  end
  if is_list(given) then return out end
  return ops.squeeze(out, {axis = 0})
end

about.say("layers", {
  {"StringLookup", section = "Core", sample = "StringLookup{vocabulary = {\"a\", \"b\"}}",
    wrong = "StringLookup{vocabulary = {\"a\", \"a\"}}", shapes = "a string → []; n strings → [n]"},
  {"TextVectorization", section = "Core",
    sample = "TextVectorization{output_sequence_length = 4, vocabulary = {\"a\", \"b\"}}",
    wrong = "TextVectorization{split = \"word\"}",
    shapes = "a text → [output_sequence_length]; n texts → [n, output_sequence_length]"},
}, strings)

return strings
