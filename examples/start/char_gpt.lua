-- A small GPT (four blocks of causal attention, 0.8 million weights) learns to write like
-- Shakespeare. After 3000 steps (four minutes on two cores) its validation loss is 1.580. The text
-- is tinyshakespeare.txt in the folder $IPULUA_DATA; without it, the pages of this project.
--
-- `ipulua -i char_gpt.lua` ends at the prompt. There sample(text, {length =, temperature =})
-- writes, and train(epochs) trains further. Ctrl-C ends a training early.
local ipu = require "ipulua"
local keras, layers, data = ipu.keras, ipu.keras.layers, ipu.data
local short = require "ipulua.script".arguments{"short"}
local context, width, heads, blocks = 64, 128, 4, short and 1 or 4
local batch_size, epochs, steps = short and 4 or 16, short and 1 or 10, short and 200 or 300
local per_execution = short and 1 or 10

local some_text = dofile((arg[0]:gsub("[^/]*$", "some_text.lua"))) -- beside this file
local train, validation, vocabulary, beginning = some_text()

local function pieces(text)
  return data.from_tensor_slices(text):batch(context + 1, {drop_remainder = true})
end
local function split(piece)
  return ipu.slice(piece, {0, 0}, {batch_size, context}),
    ipu.slice(piece, {0, 1}, {batch_size, context})
end

-- The sum of two vectors: one of the token, one of its place in the text.
local Embed = layers.Layer:extend("Embed")
function Embed:build()
  self.tokens = self:add_weight{name = "tokens", shape = {vocabulary.size, width},
    initializer = "random_normal"}
  self.places = self:add_weight{name = "places", shape = {context, width},
    initializer = "random_normal"}
end
function Embed:call(x)
  return ipu.embedding_lookup(self.tokens, x) + ipu.slice(self.places, {0, 0}, {x.shape[2], width})
end

local function block(x)
  local seen = layers.LayerNormalization{epsilon = 1e-5}(x)
  x = layers.Add(){x, layers.MultiHeadAttention{num_heads = heads, key_dim = width // heads}(seen,
    seen, {use_causal_mask = true})}
  local y = layers.LayerNormalization{epsilon = 1e-5}(x)
  y = layers.Dense(width)(layers.Dense{4 * width, activation = "gelu"}(y))
  return layers.Add(){x, y}
end

local strategy = ipu.IPUStrategy()
local scope = strategy:scope()

local input = keras.Input{shape = {context}, dtype = "int32"}
local x = Embed()(input)
for _ = 1, blocks do x = block(x) end
x = layers.Dense(vocabulary.size)(layers.LayerNormalization{epsilon = 1e-5}(x))
local model = keras.Model{inputs = input, outputs = x, name = "char_gpt"}
model:compile{
  optimizer = keras.optimizers.AdamW{keras.optimizers.schedules.CosineDecay{2e-3,
    decay_steps = epochs * steps, alpha = 0.1},
    weight_decay = 0.1, beta_2 = 0.99, global_clipnorm = 1},
  loss = keras.losses.SparseCategoricalCrossentropy{from_logits = true},
  steps_per_execution = per_execution,
}
scope:close()
print("parameters", model:count_params())
local ds = pieces(train):shuffle(20000):batch(batch_size,
  {drop_remainder = true}):map(split):prefetch():repeat_n()
local test = pieces(validation):batch(batch_size, {drop_remainder = true}):map(split)
local test_steps = math.min(short and 5 or 90, validation.size // (context + 1) // batch_size)
  // per_execution * per_execution

-- Prints `text` and its continuation.
local function sample(text, options)
  local given = {model, vocabulary, prompt = text, length = 300, temperature = 0.8}
  for name, value in pairs(options or {}) do given[name] = value end
  print(keras.utils.generate_text(given))
end

local function fit(count)
  local _ <close> = strategy:scope()
  model:fit(ds, {epochs = count, steps_per_epoch = steps})
  print(string.format("validation loss %.3f",
    model:evaluate(test, {steps = test_steps, verbose = 0})))
end

fit(epochs)
sample(beginning, {length = short and 80 or 300})
_G.model, _G.vocabulary, _G.sample, _G.train = model, vocabulary, sample, fit -- for the prompt
