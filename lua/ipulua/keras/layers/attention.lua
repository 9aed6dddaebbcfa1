-- Attention layers.

local about = require "ipulua.base.parts.about"
local Layer = require "ipulua.keras.base.layer"
local args = require "ipulua.base.args"
local blame = require "ipulua.base.blame"
local context = require "ipulua.keras.base.context"
local core = require "ipulua.core"
local ops = require "ipulua.ops"
local weight_arguments = require "ipulua.keras.layers.weight_arguments"

local layers = {}

-- The amount that scores of masked positions are lowered by.
local lowered <const> = {float16 = 65504, bfloat16 = 1e9, float32 = 1e9, float64 = 1e9}

-- [1, queries, keys] (bool): the past and the present.
local function causal_mask(queries, keys)
  local rows, columns = ops.arange(queries, {dtype = "float32"}),
    ops.arange(keys, {dtype = "float32"})
  local seen = ops.less_equal(ops.reshape(columns, {1, keys}),
    ops.reshape(rows, {queries, 1}) + 0.5)
  return ops.reshape(seen, {1, queries, keys})
end

local function both(a, b)
  if a == nil or a == false then return b or nil end
  if b == nil or b == false then return a end
  return ops.logical_and(a, b)
end

-- Softmax of the scores, masked, with dropout.
local function weights_of(scores, mask, rate, training, seed)
  if mask then scores = scores - (1 - ops.cast(mask, scores.dtype)) * lowered[scores.dtype] end
  local weights = ops.nn.softmax(scores)
  if training and rate > 0 then weights = ops.nn.dropout(weights, {rate = rate, seed = seed}) end
  return weights
end

-- ------------------------------------------------ dot product and additive

local simple_rows <const> = {
  {"causal", "boolean", false}, {"dropout", "number", 0, range = "[0, 1)"},
  {"seed", "integer", optional = true},
}

local function check_inputs(self, inputs)
  if not args.is_plain(inputs) or #inputs < 2 or #inputs > 3 or type(inputs[1]) == "number" then
    blame.error(string.format("layer '%s': it is called with {query, value} or {query, value, key}",
      self.name), "value")
  end
end

local BaseAttention = Layer.declare("BaseAttention", simple_rows)

BaseAttention.call_options = {"return_attention_scores", "use_causal_mask"}

function BaseAttention:call(inputs, options)
  check_inputs(self, inputs)
  local query, value, key = inputs[1], inputs[2], inputs[3] or inputs[2]
  local masks = args.is_plain(options.mask) and options.mask or {}
  local query_mask, value_mask = masks[1], masks[2]
  local mask
  if value_mask then mask = ops.expand_dims(ops.cast(value_mask, "bool"), 1) end
  if self.causal or options.use_causal_mask then
    mask = both(mask, causal_mask(query.shape[2], value.shape[2]))
  end
  local weights = weights_of(self:scores(query, key), mask, self.dropout,
    options.training, self.seed)
  local y = ops.matmul(weights, value)
  if query_mask then y = y * ops.cast(ops.expand_dims(query_mask, -1), y.dtype) end
  if options.return_attention_scores then return y, weights end
  return y
end

function BaseAttention:compute_mask(_, mask)
  return args.is_plain(mask) and mask[1] or nil
end

---Attention with scores that are dot products (Luong); use_scale: times a learned number.
---@class Attention: Layer
local Attention = Layer.declare("Attention",
  {{"use_scale", "boolean", false}, simple_rows[1], simple_rows[2], simple_rows[3]},
  BaseAttention)
layers.Attention = Attention
function Attention:build()
  if self.use_scale then
    self.scale = self:add_weight{name = "scale", shape = {}, initializer = "ones"}
  end
end
function Attention:scores(query, key)
  local scores = ops.matmul(query, key, {transpose_b = true})
  return self.use_scale and scores * self.scale or scores
end

---Attention with scores that are sums of tanh(query + key) (Bahdanau).
---@class AdditiveAttention: Layer
local AdditiveAttention = Layer.declare("AdditiveAttention",
  {{"use_scale", "boolean", true}, simple_rows[1], simple_rows[2], simple_rows[3]}, BaseAttention)
layers.AdditiveAttention = AdditiveAttention
function AdditiveAttention:build(input_shape)
  check_inputs(self, input_shape)
  if self.use_scale then
    self.scale = self:add_weight{name = "scale", shape = {input_shape[1][3]},
      initializer = "glorot_uniform"}
  end
end
function AdditiveAttention:scores(query, key)
  local sum = ops.tanh(ops.expand_dims(query, 2) + ops.expand_dims(key, 1))
  if self.use_scale then sum = sum * self.scale end
  return ops.reduce_sum(sum, {axis = -1})
end

-- ------------------------------------------------ several heads

---Several attentions side by side, each of its own projection of query, key and value. Called as
---mha(query, value, {key =, attention_mask =, return_attention_scores =, use_causal_mask =}).
---@class MultiHeadAttention: Layer
local MultiHeadAttention = Layer.declare("MultiHeadAttention", {
  {"num_heads", "integer", range = "[1, inf)"}, {"key_dim", "integer", range = "[1, inf)"},
  {"value_dim", "integer", optional = true, range = "[1, inf)"},
  {"dropout", "number", 0, range = "[0, 1)"},
  {"use_bias", "boolean", true}, {"attention_output_shape", {"integer", "list"}, optional = true},
  {"attention_axes", {"integer", "list"}, optional = true,
    says = "changes nothing: it can only be 1, the axis of time"}, {"kernel_initializer",
    "initializer", "glorot_uniform"},
  {"bias_initializer", "initializer", "zeros"}, {"kernel_regularizer", "regularizer"},
  {"bias_regularizer", "regularizer"},
  {"kernel_constraint", "constraint"}, {"bias_constraint", "constraint"},
  {"seed", "integer", optional = true},
})
layers.MultiHeadAttention = MultiHeadAttention

MultiHeadAttention.input_names = {"query", "value"}
MultiHeadAttention.call_options = {"key", "attention_mask", "return_attention_scores",
  "use_causal_mask"}

-- Keras calls the argument output_shape. As a field that name belongs to every layer.
for _, row in ipairs(MultiHeadAttention.argument_rows) do
  if row[1] == "attention_output_shape" then row[1] = "output_shape" end
end

function MultiHeadAttention:init(...)
  local parts = require "ipulua.base.parts"
  local given = parts.read(self, MultiHeadAttention, ...)
  rawset(self, "projected_shape", given.output_shape)
  given.output_shape = nil
  for name, value in pairs(given) do
    if not Layer.base_names[name] then self[name] = value end
  end
  self.value_dim = self.value_dim or self.key_dim
  local axes = type(self.attention_axes) == "table" and self.attention_axes or {self.attention_axes}
  if #axes > 1 or axes[1] ~= nil and axes[1] ~= 1 then
    blame.error("MultiHeadAttention: 'attention_axes' can only be 1, the axis of time",
      "not_implemented")
  end
  self:init_base(given)
end

function MultiHeadAttention:get_config()
  local config = Layer.get_config(self)
  config.output_shape = self.projected_shape
  return config
end

-- kernel [in…, out…] and bias [out…] under a name.
local function add_projection(self, name, inputs, outputs)
  local shape = table.move(outputs, 1, #outputs, #inputs + 1, table.move(inputs, 1, #inputs, 1, {}))
  self[name .. "_kernel"] = weight_arguments.add(self, "kernel", shape, name .. "/kernel")
  if self.use_bias then
    self[name .. "_bias"] = weight_arguments.add(self, "bias", outputs, name .. "/bias")
  end
end

-- The weights need the widths of query, key and value, known when the layer is called.
function MultiHeadAttention:build_for(query, value, key)
  if rawget(self, "has_weights") then return end
  rawset(self, "has_weights", true)
  local heads = self.num_heads
  add_projection(self, "query", {query}, {heads, self.key_dim})
  add_projection(self, "key", {key}, {heads, self.key_dim})
  add_projection(self, "value", {value}, {heads, self.value_dim})
  local out = self.projected_shape or query
  add_projection(self, "attention_output", {heads, self.value_dim},
    type(out) == "table" and out or {out})
end

-- [batch, time, in] → [batch, time, heads, width]
local function project(self, name, x)
  local kernel = self[name .. "_kernel"]
  local heads, width = kernel.shape[2], kernel.shape[3]
  local shape = x.shape
  local y = ops.matmul(ops.reshape(x, {shape[1] * shape[2], shape[3]}),
    ops.reshape(kernel, {shape[3], heads * width}))
  if self.use_bias then
    y = ops.nn.bias_add(y, ops.reshape(self[name .. "_bias"], {heads * width}))
  end
  return ops.reshape(y, {shape[1], shape[2], heads, width})
end

-- Heads before time, and back.
local function swap_heads(x) return ops.transpose(x, {0, 2, 1, 3}) end

local function project_output(self, y)
  local kernel = self.attention_output_kernel
  local heads, width = kernel.shape[1], kernel.shape[2]
  local out = table.move(kernel.shape, 3, #kernel.shape, 1, {})
  local size = 1
  for _, extent in ipairs(out) do size = size * extent end
  local batch, time = y.shape[1], y.shape[2]
  y = ops.reshape(y, {batch * time, heads * width})
  y = ops.matmul(y, ops.reshape(kernel, {heads * width, size}))
  if self.use_bias then y = ops.nn.bias_add(y, ops.reshape(self.attention_output_bias, {size})) end
  return ops.reshape(y, table.move(out, 1, #out, 3, {batch, time}))
end

-- The mask of scores, [batch, 1 or heads, queries, keys]; nil when everything is seen.
local function score_mask(query, value, key, options)
  local mask = options.attention_mask
  if mask then
    if mask.dtype ~= "bool" then mask = ops.cast(mask, "bool") end
    if #mask.shape == 3 then mask = ops.expand_dims(mask, 1) end
    if #mask.shape == 2 then mask = ops.reshape(mask, {1, 1, mask.shape[1], mask.shape[2]}) end
  end
  for _, x in ipairs(rawequal(key, value) and {value} or {value, key}) do
    local padding = context.mask(x)
    if padding then
      mask = both(mask, ops.reshape(padding, {padding.shape[1], 1, 1, padding.shape[2]}))
    end
  end
  if mask then
    mask = ops.broadcast_to(mask, {query.shape[1], mask.shape[2], query.shape[2], value.shape[2]})
  end
  return mask
end

function MultiHeadAttention:call(query, value, ...)
  local key, options = ...
  if options == nil then key, options = nil, key end
  if not core.is_tensor(value) then
    if value ~= nil and options == nil then options = value end
    blame.error(string.format("layer '%s': it is called with query and value", self.name), "value")
  end
  key = key or options.key or value
  if #query.shape ~= 3 or #value.shape ~= 3 then
    blame.error(string.format("layer '%s': query and value must have rank 3, got %d and %d",
      self.name, #query.shape,
      #value.shape), "value")
  end
  self:build_for(query.shape[3], value.shape[3], key.shape[3])
  local mask = score_mask(query, value, key, options)
  local q, k, v = project(self, "query", query), project(self, "key", key),
    project(self, "value", value)
  local explicit = options.return_attention_scores or options.training and self.dropout > 0
  if not explicit then
    return project_output(self, ops.nn.dot_product_attention(q, k, v,
      {mask = mask, is_causal = options.use_causal_mask == true}))
  end
  if options.use_causal_mask then
    local seen = causal_mask(query.shape[2], value.shape[2])
    mask = both(mask, ops.broadcast_to(ops.expand_dims(seen, 1),
      {query.shape[1], 1, query.shape[2], value.shape[2]}))
  end
  local scores = ops.matmul(swap_heads(q * (1 / math.sqrt(self.key_dim))), swap_heads(k),
    {transpose_b = true})
  local weights = weights_of(scores, mask, 0, false)
  local dropped = weights
  if options.training and self.dropout > 0 then
    dropped = ops.nn.dropout(weights, {rate = self.dropout, seed = self.seed})
  end
  local y = project_output(self, swap_heads(ops.matmul(dropped, swap_heads(v))))
  if options.return_attention_scores then return y, weights end
  return y
end

function MultiHeadAttention:compute_mask(_, mask)
  return mask
end

about.say("layers", {
  {"Attention", source = "arXiv:1508.04025", section = "Attention", sample = "Attention()",
    input = {{2, 5, 4}, {2, 6, 4}}, wrong = {2, 5, 4},
    is = "{[batch, queries, width], [batch, keys, width]} → [batch, queries, width]"},
  {"AdditiveAttention", source = "arXiv:1409.0473", section = "Attention",
    sample = "AdditiveAttention()", input = {{2, 5, 4}, {2, 6, 4}}, wrong = {2, 5, 4},
    is = "{[batch, queries, width], [batch, keys, width]} → [batch, queries, width]"},
  {"MultiHeadAttention", source = "arXiv:1706.03762", section = "Attention",
    sample = "MultiHeadAttention{num_heads = 2, key_dim = 4}",
    operands = "ipu.ones{2, 3, 8}, ipu.ones{2, 5, 8}",
    wrong = "MultiHeadAttention{num_heads = 0, key_dim = 4}",
    shapes = "query [batch, queries, width], value [batch, keys, width] → [batch, queries, width]; "
    .. "return_attention_scores: [batch, num_heads, queries, keys] besides"},
}, layers)

return layers
