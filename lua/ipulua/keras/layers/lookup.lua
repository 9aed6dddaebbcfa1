-- IntegerLookup: any integers as the numbers of a vocabulary's words.

local about = require "ipulua.base.parts.about"
local args = require "ipulua.base.args"
local blame = require "ipulua.base.blame"
local class = require "ipulua.base.class"
local class_numbers = require "ipulua.keras.base.class_numbers"
local context = require "ipulua.keras.base.context"
local core = require "ipulua.core"
local data = require "ipulua.data"
local encode = require "ipulua.keras.layers.embedding".encode
local Layer = require "ipulua.keras.base.layer"
local learned = require "ipulua.base.learned"
local modes = require "ipulua.keras.layers.token_modes"
local ops = require "ipulua.ops"

local layers = {}

---The number of a value in a vocabulary. Number 0 is mask_token, if there is one and output_mode is
---"int". Then come num_oov_indices numbers for unknown values, chosen by the value modulo their
---count. Then comes the vocabulary, given or learnt by `adapt(data)`, the most frequent value
---first. output_mode "int" gives the numbers, "one_hot" a vector of 0 and 1 for each. "multi_hot"
---and "count" give one vector for the values along the last axis. "tf_idf" counts each value with
---its weight, which `adapt` finds, or idf_weights gives. invert = true goes back from
---numbers to values; unknown numbers become oov_token. `get_vocabulary()`, `set_vocabulary(list)`,
---`vocabulary_size()`.
---@class IntegerLookup: Layer
local IntegerLookup = Layer.declare("IntegerLookup", {
  {"max_tokens", "integer", optional = true, range = "[2, inf)"},
  {"num_oov_indices", "integer", 1, range = "[1, 2147483647]"},
  {"mask_token", "integer", optional = true}, {"oov_token", "integer", -1},
  {"vocabulary", {"integers", "tensor", "string"}, optional = true}, {"invert", "boolean", false},
  modes.row("int", {"int", "one_hot", "multi_hot", "count", "tf_idf"}),
  {"pad_to_max_tokens", "boolean", false}, {"idf_weights", {"list", "tensor"}, optional = true},
})
layers.IntegerLookup = IntegerLookup
IntegerLookup.autocast = false
IntegerLookup.input_dtype = "int32"

function IntegerLookup:setup()
  if self.invert and self.output_mode ~= "int" then
    blame.error("IntegerLookup: 'output_mode' must be 'int' where 'invert' is set, got "
      .. self.output_mode, "value")
  end
  if self.pad_to_max_tokens and not self.max_tokens then
    blame.error("IntegerLookup: 'pad_to_max_tokens' needs 'max_tokens'", "value")
  end
  local vocabulary, weights = rawget(self, "vocabulary"), rawget(self, "idf_weights")
  rawset(self, "vocabulary", nil)
  rawset(self, "idf_weights", nil)
  if vocabulary then self:set_vocabulary(vocabulary, weights) end
end

function IntegerLookup:get_config()
  local config = Layer.get_config(self)
  config.vocabulary = rawget(self, "_tokens")
  config.idf_weights = core.plain(rawget(self, "_weights"))
  return config
end

-- A configuration holds the values themselves: a file's name in it would have a model's file open
-- any other.
function IntegerLookup.from_config(c, config)
  if type(config) == "table" and type(config.vocabulary) == "string" then
    blame.error(string.format("IntegerLookup:from_config: a configuration has a list of integers "
      .. "as its 'vocabulary', got %s",
      args.describe(config.vocabulary)), "type")
  end
  return Layer.from_config(c, config)
end

-- The count of numbers in front of those for unknown values.
local function oov_start(self) return self.mask_token and self.output_mode == "int" and 1 or 0 end

-- How many come before the vocabulary's.
local function token_start(self) return oov_start(self) + self.num_oov_indices end

-- ------------------------------------------------ the vocabulary

-- A file with a value on each line.
local function read_file(path)
  local list = {}
  for line in modes.read_file("IntegerLookup", path):gmatch("([^\n]*)\n?") do
    list[#list + 1] = math.tointeger(tonumber(line)) or line:find("%S")
      and blame.error(string.format(
      "IntegerLookup: line %d of '%s' is no integer: %s", #list + 1, path, args.describe(line)),
      "value") or nil
  end
  return list
end

local function as_list(given)
  if type(given) == "string" then return read_file(given) end
  if core.is_tensor(given) then return given:reshape{-1}:totable() end
  if args.is_list(given) then return given end
  blame.error("IntegerLookup: a vocabulary is a list or tensor of integers, or the name of a file, "
    .. "got " .. args.describe(given), "type")
end

-- The list without mask_token and oov_tokens, where it begins with them as get_vocabulary() does.
local function without_special(self, list)
  local start = token_start(self)
  for i = 1, start do
    if list[i] ~= (i <= oov_start(self) and self.mask_token or self.oov_token) then return list end
  end
  return table.move(list, start + 1, #list, 1, {})
end

local least <const>, greatest <const> = -(1 << 31), (1 << 31) - 1

local function check_tokens(self, list)
  local seen = {}
  for i, token in ipairs(list) do
    if type(token) ~= "number" or not math.tointeger(token) then
      blame.error(string.format("IntegerLookup: a vocabulary holds integers; entry %d is %s", i,
        args.describe(token)), "type")
    end
    token = math.tointeger(token)
    if token < least or token > greatest then
      blame.error(string.format("IntegerLookup: a vocabulary holds int32; entry %d is %d", i,
        token), "value")
    end
    if seen[token] then
      blame.error(string.format("IntegerLookup: the vocabulary has %d twice", token), "value")
    end
    seen[token] = true
  end
  for name, token in pairs{mask_token = self.mask_token, oov_token = self.oov_token} do
    if seen[token] then
      blame.error(string.format("IntegerLookup: the vocabulary must not hold %s, %d, among its "
        .. "values", name, token), "value")
    end
  end
  if self.max_tokens and #list + token_start(self) > self.max_tokens then
    blame.error(string.format("IntegerLookup: a vocabulary of %d values and %d special ones is "
      .. "larger than max_tokens, %d", #list,
      token_start(self), self.max_tokens), "value")
  end
end

---Sets the vocabulary: a list or tensor of integers, or a file with one on each line. For
---output_mode "tf_idf" a weight for each of its values, too.
---@param vocabulary integer[]|userdata|string
---@param idf_weights number[]|userdata|nil
function IntegerLookup:set_vocabulary(vocabulary, idf_weights)
  local list = without_special(self, as_list(vocabulary))
  check_tokens(self, list)
  if rawget(self, "_tokens") then learned.change(self) end
  rawset(self, "_weights", modes.given_weights("IntegerLookup", self.output_mode,
    modes.argument(idf_weights), #list, token_start(self)))
  rawset(self, "_tokens", table.move(list, 1, #list, 1, {})) -- not a field that could hold layers
end

local get_rows <const> = {{"include_special_tokens", "boolean", true}}

---The vocabulary in the order of its numbers, with the tokens of mask and unknown values first.
---@param ... any include_special_tokens
---@return integer[]
function IntegerLookup:get_vocabulary(...)
  local list = {}
  if args.check("get_vocabulary", get_rows, ...).include_special_tokens then
    for i = 1, token_start(self) do
      list[i] = i <= oov_start(self) and self.mask_token or self.oov_token
    end
  end
  local tokens = rawget(self, "_tokens") or {}
  return core.plain(table.move(tokens, 1, #tokens, #list + 1, list))
end

---How many numbers there are.
---@return integer
function IntegerLookup:vocabulary_size()
  return token_start(self) + #(rawget(self, "_tokens") or {})
end

-- Documents are the rows along the last axis.
local function count_values(self, counts, documents, x)
  if not args.is_tensor(x) then x = core.tensor(x, "int32") end
  local rank = #x.shape
  local by_rows = x:reshape{-1, rank > 1 and x.shape[rank] or 1}
  for _, row in ipairs(by_rows:totable()) do modes.add(documents, row) end
  for _, value in ipairs(x:reshape{-1}:totable()) do
    local token = math.tointeger(value)
    if not token then
      blame.error("adapt: IntegerLookup takes integers, got " .. tostring(value), "value")
    end
    if token ~= self.mask_token and token ~= self.oov_token then
      counts[token] = (counts[token] or 0) + 1
    end
  end
end

---Takes the vocabulary from data: a tensor, a list, or a dataset of batches. The most frequent
---value comes first, of equally frequent ones the greatest; no more than max_tokens in all.
---@param given any
function IntegerLookup:adapt(given)
  local counts, documents = {}, modes.documents()
  if class.is_a(given, data.Dataset) then
    for x in given:iter() do count_values(self, counts, documents, x) end
  elseif args.is_tensor(given) or args.is_list(given) then
    count_values(self, counts, documents, given)
  else
    blame.error("adapt: expected a tensor, a list or a dataset, got "
      .. args.describe(given), "type")
  end
  local tokens = modes.most_frequent(counts, self.max_tokens
    and self.max_tokens - token_start(self))
  self:set_vocabulary(tokens,
    self.output_mode == "tf_idf" and modes.weights(documents, tokens) or nil)
end

-- A file of weights has the vocabulary, too, and its weights.
function IntegerLookup:_learnt()
  local tokens <const>, weights <const> = rawget(self, "_tokens"), rawget(self, "_weights")
  return {vocabulary = tokens and core.tensor(tokens, "int32"),
    idf_weights = weights and core.tensor(weights, "float64")}
end

function IntegerLookup:_learning(values)
  local tokens <const>, weights <const> = values.vocabulary, values.idf_weights
  if not tokens or not tokens.dtype:find("int") then
    blame.error(string.format("layer '%s': the file has no vocabulary of integers", self.name),
      "value")
  end
  check_tokens(self, tokens:reshape{-1}:totable())
  modes.given_weights("IntegerLookup", self.output_mode, weights, tokens.size, token_start(self))
  return function() self:set_vocabulary(tokens, weights) end
end

-- ------------------------------------------------ looking up

local function known_tokens(self)
  local tokens = rawget(self, "_tokens")
  if tokens and #tokens > 0 then return tokens end
  local is_wide <const> = self.output_mode ~= "int" and not self.pad_to_max_tokens
  if context.inferring and not is_wide then return {0} end -- a shape doesn't depend on it
  blame.error(string.format("layer '%s': its vocabulary is unknown; give it, or call adapt(data)",
    self.name), "failed_precondition")
end

local function constant(list, dtype) return ops.constant(list, {dtype = dtype or "int32"}) end

-- Numbers of values, int32 or int64; masked values get `masked`.
local function numbers_of(self, x, tokens, masked)
  local positions = {}
  for i = 1, #tokens do positions[i] = token_start(self) + i - 1 end
  local matches = ops.equal(ops.expand_dims(x, -1), constant(tokens, x.dtype))
  local numbers = ops.reduce_sum(ops.cast(matches, "int32") * constant(positions), {axis = -1})
  local unknown = self.num_oov_indices > 1 and ops.cast(x % self.num_oov_indices, "int32")
    or ops.zeros_like(numbers)
  unknown = unknown + oov_start(self)
  numbers = ops.where(ops.reduce_any(matches, {axis = -1}), numbers, unknown)
  if not self.mask_token then return numbers end
  return ops.where(ops.equal(x, self.mask_token), ops.zeros_like(numbers) + masked, numbers)
end

-- Values of numbers.
local function values_of(self, x)
  local all = self:get_vocabulary()
  local is_number = ops.logical_and(ops.greater_equal(x, 0), ops.less(x, #all))
  local values = ops.gather(constant(all), ops.clip_by_value(x, 0, #all - 1))
  return ops.where(is_number, values, ops.zeros_like(x) + self.oov_token)
end

function IntegerLookup:call(x)
  local tokens = known_tokens(self)
  if not args.is_tensor(x) then
    blame.error(string.format("layer '%s': expected a tensor of integers, got %s", self.name,
      args.describe(x)), "type")
  end
  learned.use(self, x)
  if self.invert then return values_of(self, class_numbers(x)) end
  if x.dtype ~= "int32" and x.dtype ~= "int64" then x = ops.cast(x, "int32") end
  if self.output_mode == "int" then return numbers_of(self, x, tokens, 0) end
  local width = self.pad_to_max_tokens and self.max_tokens or self:vocabulary_size()
  -- -1: nowhere
  local weights = rawget(self, "_weights")
  return encode(numbers_of(self, x, tokens, -1), width, self.output_mode, self.compute_dtype,
    weights and modes.spread(weights, token_start(self), width))
end

about.say("layers", {
  {"IntegerLookup", section = "Core", sample = "IntegerLookup{vocabulary = {12, 36, 1138, 42}, "
    .. "output_mode = \"count\"}", input = {2, 3}, wrong = "IntegerLookup{vocabulary = {12, 12}}",
    is = "[batch, n] → [batch, tokens']",
    also = "\"int\": [...] → [...]; tokens: max_tokens or the vocabulary's size"},
}, layers)

return layers
