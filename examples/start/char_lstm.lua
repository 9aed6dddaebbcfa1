-- An LSTM learns to write like Shakespeare, character by character. After 4000 steps (five minutes
-- on two cores) its validation loss is 1.537. The text is tinyshakespeare.txt in the folder
-- $IPULUA_DATA; without it, the pages of this project.
local ipu = require "ipulua"
local keras, layers, data = ipu.keras, ipu.keras.layers, ipu.data
local short = require "ipulua.script".arguments{"short"}
local context, batch_size = 64, short and 4 or 32
local epochs, steps = short and 1 or 10, short and 200 or 400
local per_execution = short and 1 or 10

local some_text = dofile((arg[0]:gsub("[^/]*$", "some_text.lua"))) -- beside this file
local train, validation, vocabulary, beginning = some_text()

-- Pieces of the text, and the same pieces one character later.
local function pieces(text)
  return data.from_tensor_slices(text):batch(context + 1, {drop_remainder = true})
end
local function split(piece)
  return ipu.slice(piece, {0, 0}, {batch_size, context}),
    ipu.slice(piece, {0, 1}, {batch_size, context})
end

local strategy = ipu.IPUStrategy()
local _ <close> = strategy:scope()

local model = keras.Sequential{
  layers.Embedding(vocabulary.size, 64),
  layers.LSTM{256, return_sequences = true},
  layers.Dense(vocabulary.size),
  name = "char_lstm",
}
model:compile{
  optimizer = keras.optimizers.Adam{3e-3, clipnorm = 1},
  loss = keras.losses.SparseCategoricalCrossentropy{from_logits = true},
  steps_per_execution = per_execution,
}
local ds = pieces(train):shuffle(20000):batch(batch_size,
  {drop_remainder = true}):map(split):prefetch():repeat_n()
model:fit(ds, {epochs = epochs, steps_per_epoch = steps})
local test = pieces(validation):batch(batch_size, {drop_remainder = true}):map(split)
local test_steps = math.min(short and 5 or 40, validation.size // (context + 1) // batch_size)
  // per_execution * per_execution
print(string.format("validation loss %.3f",
  model:evaluate(test, {steps = test_steps, verbose = 0})))
print(keras.utils.generate_text{model, vocabulary, prompt = beginning, length = short and 80 or 300,
  temperature = 0.7,
  window = context})
