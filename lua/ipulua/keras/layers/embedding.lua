-- Embeddings and encodings of class numbers.

local about = require "ipulua.base.parts.about"
local args = require "ipulua.base.args"
local blame = require "ipulua.base.blame"
local class = require "ipulua.base.class"
local class_numbers = require "ipulua.keras.base.class_numbers"
local context = require "ipulua.keras.base.context"
local core = require "ipulua.core"
local data = require "ipulua.data"
local Layer = require "ipulua.keras.base.layer"
local learned = require "ipulua.base.learned"
local modes = require "ipulua.keras.layers.token_modes"
local ops = require "ipulua.ops"
local quantiles = require "ipulua.keras.base.quantiles"
local shapes = require "ipulua.keras.base.shapes"
local weight_arguments = require "ipulua.keras.layers.weight_arguments"

local layers = {}

---A row of a table for each number.
---@class Embedding: Layer
local Embedding = Layer.declare("Embedding", {
  {"input_dim", "integer"}, {"output_dim", "integer"},
  {"embeddings_initializer", "initializer", "uniform"},
  {"embeddings_regularizer", "regularizer"}, {"embeddings_constraint", "constraint"},
  {"mask_zero", "boolean", false},
  {"input_length", "integer", optional = true, range = "[1, inf)",
    says = "numbers in a sample, for a model's first layer: as input_shape = {input_length}"},
  {"serialization_factor", "integer", 1, range = "[1, inf)",
    says = "changes no number; the look-up is done in so many parts"},
})
layers.Embedding = Embedding
Embedding.autocast = false
Embedding.input_dtype = "int32"

function Embedding:init(...)
  local given = require "ipulua.base.parts".read(self, class.of(self), ...)
  for _, row in ipairs(self.argument_rows) do
    local name = row[1]
    if not Layer.base_names[name] or name == "input_dim" then rawset(self, name, given[name]) end
  end
  given.input_dim = nil
  if not given.batch_input_shape and not given.input_shape and given.input_length then
    given.input_shape = {given.input_length}
  end
  self:init_base(given)
  if self.input_dim <= 0 or self.output_dim <= 0 then
    blame.error(string.format("Embedding: 'input_dim' and 'output_dim' must be positive, got %d "
      .. "and %d", self.input_dim,
      self.output_dim), "value")
  end
  if self.serialization_factor < 1 or self.input_dim % self.serialization_factor ~= 0 then
    blame.error(string.format("Embedding: 'serialization_factor' %d does not divide 'input_dim' %d",
      self.serialization_factor,
      self.input_dim), "value")
  end
end

function Embedding:get_config()
  local config = Layer.get_config(self)
  config.input_dim = self.input_dim
  return config
end

function Embedding:build()
  self.embeddings = weight_arguments.add(self, "embeddings", {self.input_dim, self.output_dim})
end

function Embedding:call(x)
  return ops.embedding_lookup(self.embeddings, class_numbers(x),
    {serialization_factor = self.serialization_factor})
end

function Embedding:compute_mask(x)
  if not self.mask_zero then return nil end
  return ops.not_equal(x, 0)
end

---Numbers as vectors of `count` elements: "one_hot" has a vector for each number, "multi_hot" and
---"count" have one for the numbers along the last axis. "tf_idf" adds up their weights.
---@package
function layers.encode(x, count, mode, dtype, weights)
  local hot = ops.cast(ops.one_hot(class_numbers(x), count), dtype)
  if mode == "one_hot" then
    if x.shape[#x.shape] == 1 then return ops.squeeze(hot, {axis = -2}) end
    return hot
  end
  if mode == "tf_idf" then hot = hot * ops.constant(weights, {dtype = dtype}) end
  if #x.shape == 1 then return hot end
  return mode == "multi_hot" and ops.reduce_max(hot, {axis = -2})
    or ops.reduce_sum(hot, {axis = -2})
end

---The number of the bin of a value: how many of the boundaries it has reached. Either the
---boundaries are given, or num_bins, and `adapt(data)` finds boundaries between bins of about as
---many values each. Of each batch of a dataset about 1 / epsilon values are kept, as in Keras. Many
---small batches shift the boundaries upwards. A tensor is one batch. output_mode as of
---IntegerLookup, without "tf_idf".
---@class Discretization: Layer
local Discretization = Layer.declare("Discretization", {
  {"bin_boundaries", "list", optional = true},
  {"num_bins", "integer", optional = true, range = "[1, 2147483647]",
    says = "number of bins to learn"},
  {"epsilon", "number", 0.01, range = "(0, 1)",
    says = "share of a batch's values between two that are kept"},
  modes.row("int", {"int", "one_hot", "multi_hot", "count"}),
})
layers.Discretization = Discretization

function Discretization:setup()
  local given <const> = rawget(self, "bin_boundaries")
  if (given == nil) == (self.num_bins == nil) then
    blame.error("Discretization: give either 'bin_boundaries', or 'num_bins' and call adapt(data)",
      given and "value" or "type")
  end
  for i, boundary in ipairs(given or {}) do
    if type(boundary) ~= "number" or i > 1 and boundary < given[i - 1] then
      blame.error("Discretization: 'bin_boundaries' must be numbers in ascending order", "value")
    end
  end
end

-- Calls visit with each batch. A tensor is one.
local function each_batch(given, visit)
  if class.is_a(given, data.Dataset) then
    for x in given:iter() do visit(x) end
    return
  end
  if args.is_list(given) then given = core.tensor(given) end
  if not args.is_tensor(given) or type(given) == "table" then
    blame.error("adapt: expected a tensor, a list or a dataset, got " .. args.describe(given),
      "type")
  end
  visit(given)
end

local function learn(self, boundaries)
  if rawget(self, "_boundaries") then learned.change(self) end
  rawset(self, "_boundaries", boundaries)
end

---Takes the boundaries of num_bins bins from data: a tensor, a list, or a dataset of batches.
---@param given any
function Discretization:adapt(given)
  if not self.num_bins then
    blame.error("adapt: Discretization has its 'bin_boundaries'; give 'num_bins' instead to learn "
      .. "them", "failed_precondition")
  end
  local boundaries = quantiles.boundaries(function(visit) each_batch(given, visit) end,
    self.num_bins, self.epsilon)
  learn(self, boundaries)
end

-- Boundaries that were given are arguments. Those that were learnt are in a file of weights, too.
function Discretization:_learnt()
  local found <const> = rawget(self, "_boundaries")
  return {boundaries = found and core.tensor(found, "float64")}
end

function Discretization:_learning(values)
  local found <const> = values.boundaries
  if not self.num_bins or not found or found.rank ~= 1 then
    blame.error(string.format("layer '%s': %s", self.name, self.num_bins
      and "the file has no list of boundaries"
      or "the file has learnt boundaries, the model given ones"), "value")
  end
  return function() learn(self, found:totable()) end
end

---The boundaries that were learnt are kept beside num_bins.
function Discretization:get_config()
  local config = Layer.get_config(self)
  local found = rawget(self, "_boundaries")
  if found then config.bin_boundaries = core.plain(table.move(found, 1, #found, 1, {})) end
  return config
end

function Discretization.from_config(c, config)
  local found = type(config) == "table" and config.num_bins and config.bin_boundaries
  if not found then return Layer.from_config(c, config) end
  local given = {}
  for key, value in pairs(config) do given[key] = value end
  given.bin_boundaries = nil
  local layer = Layer.from_config(c, given)
  rawset(layer, "_boundaries", table.move(found, 1, #found, 1, {}))
  return layer
end

local bounds <const> = { -- of the dtypes of whole numbers
  int8 = {-128, 127}, uint8 = {0, 255}, int32 = {-2 ^ 31 | 0, 2 ^ 31 - 1 | 0},
  int64 = {math.mininteger, math.maxinteger},
}

-- Boundaries for whole numbers. A whole number reaches b if it reaches the next whole number. A
-- boundary above the dtype's range is left out, since no number reaches it.
local function whole_boundaries(list, dtype)
  local least, greatest = table.unpack(bounds[dtype])
  local whole = {}
  for _, b in ipairs(list) do
    if b <= greatest then
      whole[#whole + 1] = math.max(math.tointeger(math.ceil(b)) or least, least)
    end
  end
  return whole
end

local function bins_of(x, boundaries)
  if bounds[x.dtype] then boundaries = whole_boundaries(boundaries, x.dtype) end
  if #boundaries == 0 then return ops.cast(ops.zeros_like(x), "int32") end
  local reached = ops.greater_equal(ops.expand_dims(x, -1),
    ops.constant(boundaries, {dtype = x.dtype}))
  return ops.reduce_sum(ops.cast(reached, "int32"), {axis = -1})
end

function Discretization:call(x)
  local boundaries = rawget(self, "bin_boundaries") or rawget(self, "_boundaries")
    or context.inferring and {} or nil
  if not boundaries then
    blame.error(string.format("layer '%s': its boundaries are unknown; call adapt(data)",
      self.name), "failed_precondition")
  end
  if not rawget(self, "bin_boundaries") then learned.use(self, x) end
  local bins = bins_of(x, boundaries)
  if self.output_mode == "int" then return bins end
  return layers.encode(bins, self.num_bins or #boundaries + 1, self.output_mode, self.compute_dtype)
end

---Class numbers as vectors of 0 and 1, or counted. With output_mode "count" a call takes
---count_weights, the weight of each number: `layer(x, {count_weights = w})`.
---@class CategoryEncoding: Layer
local CategoryEncoding = Layer.declare("CategoryEncoding", {
  {"num_tokens", "integer", range = "[1, inf)"},
  modes.row("multi_hot", {"one_hot", "multi_hot", "count"}),
})
layers.CategoryEncoding = CategoryEncoding
CategoryEncoding.autocast = false
CategoryEncoding.input_dtype = "int32"
CategoryEncoding.call_options = {"count_weights"}

-- As many weights as numbers, in the shape of the numbers.
local function check_weights(self, x, weights)
  local words = self.output_mode ~= "count"
    and "are for output_mode 'count', got " .. self.output_mode
    or not args.is_tensor(weights) and "must be a tensor, got " .. args.describe(weights)
    or not shapes.equal(weights.shape, x.shape) and string.format("must have the shape of the "
      .. "numbers, %s, got %s", shapes.text(x.shape), shapes.text(weights.shape))
  if words then
    blame.error(string.format("layer '%s': 'count_weights' %s", self.name, words), "value")
  end
end

function CategoryEncoding:call(x, options)
  local weights = options and options.count_weights
  if weights == nil then
    return layers.encode(x, self.num_tokens, self.output_mode, self.compute_dtype)
  end
  check_weights(self, x, weights)
  local hot = ops.cast(ops.one_hot(class_numbers(x), self.num_tokens), self.compute_dtype)
  hot = hot * ops.expand_dims(ops.cast(weights, self.compute_dtype), -1)
  return #x.shape == 1 and hot or ops.reduce_sum(hot, {axis = -2})
end

about.say("layers", {
  {"Embedding", source = "ipu.keras.layers.Embedding of Graphcore's TensorFlow 2.6",
    section = "Core",
    sample = "Embedding(100, 8)", input = {2, 5},
    wrong = "Embedding{100, 8, serialization_factor = 3}",
    is = "[batch, ...] → [batch, ..., output_dim]"},
  {"Discretization", section = "Core", sample = "Discretization{bin_boundaries = {0, 1, 2}}",
    input = {2, 3}, wrong = "Discretization{bin_boundaries = {2, 1}}",
    is = "[batch, ...] → [batch, ...]",
    also = "\"one_hot\": [batch, ..., bins]; \"multi_hot\", \"count\": [batch, bins]"},
  {"CategoryEncoding", section = "Core", sample = "CategoryEncoding{num_tokens = 4, output_mode = "
    .. "\"one_hot\"}", input = {2, 1}, wrong = "CategoryEncoding{4, output_mode = \"bag\"}",
    is = "[batch, n] → [batch, num_tokens]"},
}, layers)

return layers
