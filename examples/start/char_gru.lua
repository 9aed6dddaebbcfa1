-- A GRU writes text, character by character. StringLookup turns characters into numbers and back.
-- Each call of the layer returns its state, which the next call takes. So a new character costs one
-- step.
local ipu = require "ipulua"
local keras, layers, data = ipu.keras, ipu.keras.layers, ipu.data
local epochs, length = require "ipulua.script".arguments{{"epochs", 30, short = 12},
  {"length", 200, short = 60}}
keras.utils.set_random_seed(1)

local text = ("the quick brown fox jumps over the lazy dog. "
  .. "pack my box with five dozen jugs. "):rep(60)
local chars, seen, vocabulary = {}, {}, {}
for c in text:gmatch(".") do
  chars[#chars + 1] = c
  if not seen[c] then seen[c], vocabulary[#vocabulary + 1] = true, c end
end
local ids_of = layers.StringLookup{vocabulary = vocabulary}
local chars_of = layers.StringLookup{vocabulary = ids_of:get_vocabulary(), invert = true}

-- Pieces of the text, and the same pieces one character later.
local context = 40
local ds = data.from_tensor_slices(ids_of(chars)):batch(context + 1, {drop_remainder = true})
  :map(function(piece) return piece[{1, context}], piece[{2, context + 1}] end)
  :shuffle(1000):batch(16, {drop_remainder = true}):prefetch(data.AUTOTUNE)

local Writer = keras.Model:extend("Writer")
function Writer:init(size, width, units)
  keras.Model.init(self)
  self.embedding = layers.Embedding(size, width)
  self.gru = layers.GRU{units, return_sequences = true, return_state = true}
  self.dense = layers.Dense(size)
end
function Writer:call(ids, options)
  local y, state = self.gru(self.embedding(ids), {initial_state = options.state})
  if options.return_state then return self.dense(y), state end
  return self.dense(y)
end

local model = Writer(#ids_of:get_vocabulary(), 32, 64)
model:compile{optimizer = keras.optimizers.Adam{1e-2},
  loss = keras.losses.SparseCategoricalCrossentropy{from_logits = true}}
local history = model:fit(ds, {epochs = epochs, verbose = 0}).history.loss
print(string.format("loss %.2f to %.2f", history[1], history[epochs]))

local written, state = {"t"}, nil
for i = 1, length do
  local id = ipu.expand_dims(ids_of{written[i]}, 0)
  local logits, after = model(id, {state = state, return_state = true})
  state = after
  written[i + 1] = chars_of(ipu.random.categorical(logits[{{}, -1}], 1)[1])[1]
end
print(table.concat(written))
