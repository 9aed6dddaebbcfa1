-- A transformer block tells good reviews from bad ones. The texts are made-up Lua strings in a
-- dataset. TextVectorization turns them into numbers. Each batch is padded to one length, and a
-- mask hides the padding from the attention.
local ipu = require "ipulua"
local keras, layers, data = ipu.keras, ipu.keras.layers, ipu.data
local epochs, count = require "ipulua.script".arguments{{"epochs", 10, short = 5},
  {"texts", 1000, short = 400}}
keras.utils.set_random_seed(1)

local judgements <const> = {[0] = {"awful", "boring", "poor"}, {"great", "lovely", "superb"}}
local others <const> = {"the", "film", "was", "a", "plot", "and", "its", "music"}
local texts, labels = {}, {}
math.randomseed(1)
for i = 1, count do
  local words = {}
  for k = 1, math.random(3, 13) do words[k] = others[math.random(#others)] end
  labels[i] = math.random(0, 1)
  table.insert(words, math.random(#words), judgements[labels[i]][math.random(3)])
  texts[i] = table.concat(words, " ")
end

local reviews = data.from_tensor_slices{texts, labels}
local vectors = layers.TextVectorization{max_tokens = 100}
vectors:adapt(reviews:map(function(text) return text end))
local numbered = reviews:map(function(text, label) return vectors(text), label end,
  {output_types = {"int32", "float32"}, output_shapes = {{-1}, {}}})
local held <const> = count // 5
local train = numbered:skip(held):shuffle(count):padded_batch(32)
local validation = numbered:take(held):padded_batch(32)

local Block = layers.Layer:extend "Block"
function Block:init(width, heads)
  layers.Layer.init(self)
  self.supports_masking = true
  self.attention = layers.MultiHeadAttention{num_heads = heads, key_dim = width}
  self.feed = keras.Sequential{layers.Dense{2 * width, activation = "relu"}, layers.Dense{width}}
  self.norm, self.norm2 = layers.LayerNormalization(), layers.LayerNormalization()
end
function Block:call(x, options)
  local mask = options.mask and ipu.expand_dims(options.mask, 1)
  x = self.norm(x + self.attention(x, x, {attention_mask = mask}))
  return self.norm2(x + self.feed(x))
end

local input = keras.Input{shape = {-1}, dtype = "int32"}
local x = layers.Embedding{100, 32, mask_zero = true}(input)
x = layers.GlobalAveragePooling1D()(Block(32, 2)(x))
local model = keras.Model{inputs = input, outputs = layers.Dense{2, activation = "softmax"}(x)}
model:compile{optimizer = "adam", loss = "sparse_categorical_crossentropy",
  metrics = {"accuracy"}}
model:fit(train, {validation_data = validation, epochs = epochs, verbose = 2})
for _, text in ipairs{"a superb film", "the plot was boring and the music poor"} do
  local answer = model:predict(vectors{text})[1]
  print(string.format("good with %.0f %%: %s", 100 * answer[2]:item(), text))
end
