-- A convolutional network in four stages on four IPUs, with recomputation: activations are computed
-- again in the backward pass instead of kept. An update has eight micro-batches, the minimum of
-- four Grouped stages. The IPUs are selected in zigzag order, which changes only the price of
-- copies between them.
local ipu = require "ipulua"
local keras, layers = ipu.keras, ipu.keras.layers

local steps = require "ipulua.script".arguments{{"steps", 128, short = 16}} -- of an epoch

local cfg = ipu.IPUConfig()
cfg.auto_select_ipus = 4
cfg.allow_recompute = true
cfg.selection_order = ipu.SelectionOrder.ZIGZAG
cfg:configure_ipu_system()

local function dataset()
  local x, y = keras.datasets.mnist.load_data()
  return ipu.data.from_tensor_slices{x, y}
    :shuffle(10000)
    :batch(16, {drop_remainder = true})
    :map(function(images, labels)
      return ipu.expand_dims(ipu.cast(images, "float32") / 255, -1), ipu.cast(labels, "int32")
    end)
    :prefetch()
    :repeat_n()
end

local strategy = ipu.IPUStrategy()
local _ <close> = strategy:scope()
local model = keras.Sequential{
  layers.Conv2D{16, 3, strides = 2, activation = "relu", input_shape = {28, 28, 1}},
  layers.Conv2D{32, 3, strides = 2, activation = "relu"},
  layers.Conv2D{32, 3, activation = "relu"},
  layers.Flatten(), layers.Dense{10},
  name = "four_stages",
}
model:set_pipeline_stage_assignment{0, 1, 2, 3, 3}
model:set_pipelining_options{gradient_accumulation_steps_per_replica = 8,
  gradient_accumulation_reduction_method = "mean"}
model:compile{
  loss = keras.losses.SparseCategoricalCrossentropy{from_logits = true},
  optimizer = keras.optimizers.Adam(0.002),
  metrics = {"accuracy"}, steps_per_execution = steps,
}
local history = model:fit(dataset(), {epochs = 3, steps_per_epoch = steps})
print(ipu.timetable(model))
for i, loss in ipairs(history.history.loss) do
  print(string.format("epoch %d loss %.4f", i, loss))
end
