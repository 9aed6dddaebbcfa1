-- The output modes of layers that number words and values, and the weights of "tf_idf". The rarer a
-- word is among the documents, the more it counts.

local args = require "ipulua.base.args"
local blame = require "ipulua.base.blame"
local core = require "ipulua.core"

local most_bytes <const> = 1 << 30 -- of a vocabulary's file

local modes = {}

---The row of the argument output_mode. Older scripts have other names for two modes.
---@param default string
---@param names string[]
---@return table
function modes.row(default, names)
  local known, synonyms = {}, {}
  for _, name in ipairs(names) do known[name] = true end
  synonyms.binary = known.multi_hot and "multi_hot"
  synonyms["tf-idf"] = known.tf_idf and "tf_idf" or nil
  return {"output_mode", "string", default, choices = names, synonyms = synonyms}
end

---Weights that are an argument by name: `set_vocabulary(words, {idf_weights = list})`.
---@param given any
---@return any
function modes.argument(given)
  if args.is_plain(given) and given.idf_weights ~= nil then return given.idf_weights end
  return given
end

---@class Documents what adapt() sees: how many documents there are, and in how many a word is
---@field total integer
---@field counts table<any, integer>

---@return Documents
function modes.documents() return {total = 0, counts = {}} end

---Takes the words of one more document.
---@param documents Documents
---@param list any[]
function modes.add(documents, list)
  local seen = {}
  documents.total = documents.total + 1
  for _, word in ipairs(list) do
    if not seen[word] then documents.counts[word] = (documents.counts[word] or 0) + 1 end
    seen[word] = true
  end
end

---The keys of counts, the most frequent first. Of equally frequent ones the last in their order
---comes first, as in Keras.
---@param counts table<any, integer>
---@param most integer? how many at most
---@return any[]
function modes.most_frequent(counts, most)
  local list = {}
  for word in pairs(counts) do list[#list + 1] = word end
  table.sort(list, function(a, b)
    if counts[a] ~= counts[b] then return counts[a] > counts[b] end
    return a > b
  end)
  return table.move(list, 1, math.min(most or #list, #list), 1, {})
end

---The text of a vocabulary's file.
---@param who string
---@param path string
---@return string
function modes.read_file(who, path)
  return core.content(path, most_bytes)
    or blame.error(string.format("%s: the vocabulary's file '%s' can't be read", who, path),
      "not_found")
end

---The weights of words: the logarithm of 1 + total / (1 + documents with the word).
---@param documents Documents
---@param list any[]
---@return number[]
function modes.weights(documents, list)
  local weights = {}
  for i, word in ipairs(list) do
    weights[i] = math.log(1 + documents.total / (1 + (documents.counts[word] or 0)))
  end
  return weights
end

---The weights that are given for a vocabulary of `count` words, a list of that length. Weights of
---the `special` numbers may stand before them, and are left out.
---@param who string
---@param mode string
---@param given any
---@param count integer
---@param special integer
---@return number[]? nil: there are none
function modes.given_weights(who, mode, given, count, special)
  if mode ~= "tf_idf" then
    if given == nil then return nil end
    blame.error(string.format("%s: 'idf_weights' are for output_mode 'tf_idf', got %s", who, mode),
      "value")
  end
  if given == nil then
    blame.error(who .. ": with output_mode 'tf_idf' a vocabulary has idf_weights, one for each of "
      .. "its words; adapt(data) finds both", "value")
  end
  local list = args.is_tensor(given) and given:totable() or given
  if type(list) ~= "table" or #list ~= count and #list ~= count + special then
    blame.error(string.format("%s: 'idf_weights' must be a list of %d numbers, one for each word "
      .. "of the vocabulary, got %s", who, count,
      type(list) == "table" and #list or args.describe(given)), "value")
  end
  local weights = table.move(list, #list - count + 1, #list, 1, {})
  for i, weight in ipairs(weights) do
    if type(weight) ~= "number" then
      blame.error(string.format("%s: 'idf_weights' holds numbers; entry %d is %s", who, i,
        args.describe(weight)), "type")
    end
  end
  return weights
end

---A weight for each of `width` numbers: of `special` ones for unknown words the mean of the words'.
---@param weights number[]
---@param special integer
---@param width integer
---@return number[]
function modes.spread(weights, special, width)
  local sum, list = 0, {}
  for _, weight in ipairs(weights) do sum = sum + weight end
  for i = 1, width do
    list[i] = i <= special and sum / math.max(#weights, 1) or weights[i - special] or 0
  end
  return list
end

return modes
