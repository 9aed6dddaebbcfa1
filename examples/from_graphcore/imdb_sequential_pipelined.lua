-- SequentialPipelineModel, an older class, takes a list of layers for each stage. Here an embedding
-- is on the first IPU, an LSTM and a sigmoid are on the second. Here steps_per_epoch counts weight
-- updates, each of 16 micro-batches. The lines of `fit` count micro-batches.
local ipu = require "ipulua"
local keras, layers, data = ipu.keras, ipu.keras.layers, ipu.data
local reviews = dofile((arg[0]:gsub("[^/]*$", "imdb_reviews.lua"))) -- beside this file

local steps = require "ipulua.script".arguments{{"steps", 10, short = 4}} -- of an epoch
local vocabulary, length, batch_size, count = 20000, 80, 32, 16

local cfg = ipu.IPUConfig()
cfg.auto_select_ipus = 2
cfg:configure_ipu_system()

local strategy = ipu.IPUStrategy()
local _ <close> = strategy:scope()
local model = keras.SequentialPipelineModel({
  {layers.Embedding{vocabulary, 128}},
  {layers.LSTM{128, dropout = 0.2}, layers.Dense{1, activation = "sigmoid"}},
}, {gradient_accumulation_count = count})
model:compile{loss = keras.losses.BinaryCrossentropy(), optimizer = keras.optimizers.Adam(0.005)}

local x, y = reviews(vocabulary, length)
local dataset = data.from_tensor_slices{x, y}:batch(batch_size, {drop_remainder = true}):repeat_n()
local history = model:fit(dataset, {epochs = 2, steps_per_epoch = steps})
print("updates", model.optimizer.iterations:item())
for i, loss in ipairs(history.history.loss) do
  print(string.format("epoch %d loss %.4f", i, loss))
end
