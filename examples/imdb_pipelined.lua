-- Four stages on two IPUs, the first and the last on one of them: device_mapping {0, 1, 1, 0}. Reviews as 80 numbers of words; an embedding
-- and an LSTM read them, two branches follow, a sigmoid says whether a review is a good one. Without the data set's file, reviews are
-- drawn whose words are more often good or bad ones.
local ipu = require "ipulua"
local keras, layers, data = ipu.keras, ipu.keras.layers, ipu.data

local steps = math.tointeger(tonumber(arg and arg[1] or "")) or 160 -- of an epoch, and of an execution
local vocabulary, length, batch_size, count = 20000, 80, 32, 16

local function drawn_reviews(n)
  local words = ipu.cast(ipu.random.uniform({n, length}, {maxval = vocabulary // 2, seed = 1}), "int32")
  local labels = ipu.cast(ipu.greater(ipu.random.uniform({n, 1}, {seed = 2}), 0.5), "int32")
  local marked = ipu.cast(ipu.less(ipu.random.uniform({n, length}, {seed = 3}), 0.3), "int32") -- good words are the upper half
  return words + marked * labels * (vocabulary // 2), ipu.cast(labels, "float32")
end

local function reviews()
  local ok, x, y = pcall(keras.datasets.imdb.load_data, {num_words = vocabulary, maxlen = length})
  if ok then return ipu.cast(x, "int32"), ipu.cast(y, "float32") end
  return drawn_reviews(2048)
end

local function create_model()
  local input = keras.Input{shape = {length}, dtype = "int32"}
  local x, a, b
  do
    local _ <close> = keras.PipelineStage(0)
    x = layers.Embedding{vocabulary, 128}(input)
    x = layers.LSTM{128, dropout = 0.2}(x)
  end
  do
    local _ <close> = keras.PipelineStage(1)
    a = layers.Dense{16, activation = "relu"}(x)
  end
  do
    local _ <close> = keras.PipelineStage(2)
    b = layers.Dense{16, activation = "relu"}(x)
  end
  do
    local _ <close> = keras.PipelineStage(3)
    x = layers.Concatenate()({a, b})
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
  loss = keras.losses.BinaryCrossentropy(), optimizer = keras.optimizers.Adam(0.005), metrics = {"accuracy"},
  steps_per_execution = steps,
}
model:set_pipelining_options{gradient_accumulation_steps_per_replica = count, device_mapping = {0, 1, 1, 0}, schedule = "Grouped",
  gradient_accumulation_reduction_method = "mean"}
local x, y = reviews()
local dataset = data.from_tensor_slices{x, y}:batch(batch_size, {drop_remainder = true}):repeat_n()
local history = model:fit(dataset, {epochs = 2, steps_per_epoch = steps})
print(ipu.timetable(model))
for i, loss in ipairs(history.history.loss) do print(string.format("epoch %d loss %.4f", i, loss)) end
