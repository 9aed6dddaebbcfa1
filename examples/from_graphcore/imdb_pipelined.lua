-- Four stages on two IPUs, by device_mapping {0, 1, 1, 0}: the first and the last share an IPU. A
-- review is 80 numbers of words. Two LSTMs read it, one of them backwards. A sigmoid says whether
-- the review is a good one.
local ipu = require "ipulua"
local keras, layers, data = ipu.keras, ipu.keras.layers, ipu.data
local reviews = dofile((arg[0]:gsub("[^/]*$", "imdb_reviews.lua"))) -- beside this file

local steps = require "ipulua.script".arguments{{"steps", 160, short = 16}} -- of an epoch
local vocabulary, length, batch_size, count = 20000, 80, 32, 16

local function create_model()
  local input = keras.Input{shape = {length}, dtype = "int32"}
  local x, a, b
  do
    local _ <close> = keras.PipelineStage(0)
    x = layers.Embedding{vocabulary, 128}(input)
    a = layers.LSTM{64, dropout = 0.2}(x)
  end
  do
    local _ <close> = keras.PipelineStage(1)
    b = layers.LSTM{64, dropout = 0.2, go_backwards = true}(x)
  end
  do
    local _ <close> = keras.PipelineStage(2)
    x = layers.Dense{16, activation = "relu"}(layers.Concatenate(){a, b})
  end
  do
    local _ <close> = keras.PipelineStage(3)
    x = layers.Dense{1, activation = "sigmoid"}(x)
  end
  return keras.Model{inputs = input, outputs = x, name = "imdb"}
end

local cfg = ipu.IPUConfig()
cfg.auto_select_ipus = 2
cfg:configure_ipu_system()

local strategy = ipu.IPUStrategy()
local _ <close> = strategy:scope()
local model = create_model()
model:compile{
  loss = keras.losses.BinaryCrossentropy(), optimizer = keras.optimizers.Adam(0.005),
  metrics = {"accuracy"},
  steps_per_execution = steps,
}
model:set_pipelining_options{gradient_accumulation_steps_per_replica = count,
  device_mapping = {0, 1, 1, 0},
  pipeline_schedule = "Grouped", gradient_accumulation_reduction_method = "mean"}
local x, y = reviews(vocabulary, length)
local dataset = data.from_tensor_slices{x, y}:batch(batch_size, {drop_remainder = true}):repeat_n()
local history = model:fit(dataset, {epochs = 2, steps_per_epoch = steps})
print(ipu.timetable(model))
for i, loss in ipairs(history.history.loss) do
  print(string.format("epoch %d loss %.4f", i, loss))
end
