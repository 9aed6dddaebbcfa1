-- What would a weight update of ResNet-50 cost on 16 replicas of one IPU each? No weight is made,
-- and nothing runs. --accumulation is the number of micro-batches of a weight update.
local ipu = require "ipulua"
local keras, layers = ipu.keras, ipu.keras.layers

local target, micro_batch, accumulation = require "ipulua.script".arguments{{"target", "bow"},
  {"micro_batch", 8}, {"accumulation", 16},
  "short"} -- it is short as it stands

local function convolution(x, filters, size, strides)
  x = layers.Conv2D{filters, size, strides = strides or 1, padding = "same", use_bias = false}(x)
  return layers.BatchNormalization()(x)
end

local function relu(x) return layers.Activation("relu")(x) end

local function bottleneck(x, filters, strides, project)
  local y = relu(convolution(x, filters, 1))
  y = relu(convolution(y, filters, 3, strides))
  y = convolution(y, 4 * filters, 1)
  if project then x = convolution(x, 4 * filters, 1, strides) end
  return relu(layers.Add(){x, y})
end

local function resnet50()
  local images = keras.Input{shape = {224, 224, 3}, dtype = "uint8"}
  local x = relu(convolution(layers.Rescaling{1 / 255}(images), 64, 7, 2))
  x = layers.MaxPooling2D{3, strides = 2, padding = "same"}(x)
  for stage, count in ipairs{3, 4, 6, 3} do
    for block = 1, count do
      x = bottleneck(x, 32 << stage, block == 1 and stage > 1 and 2 or 1, block == 1)
    end
  end
  x = layers.Dense{1000}(layers.GlobalAveragePooling2D()(x))
  local model = keras.Model{inputs = images, outputs = x, name = "resnet50"}
  model:compile{optimizer = keras.optimizers.SGD{learning_rate = 0.1, momentum = 0.9},
    loss = keras.losses.SparseCategoricalCrossentropy{from_logits = true}}
  model:set_gradient_accumulation_options{gradient_accumulation_steps_per_replica = accumulation}
  return model
end

local cfg = ipu.IPUConfig()
cfg.auto_select_ipus = 16
cfg.convolutions.poplar_options = {partialsType = "half"}
cfg.matmuls.poplar_options = {partialsType = "half"}
cfg.optimizations.maximum_cross_replica_sum_buffer_size = 64 << 20
cfg:configure_ipu_system()

keras.mixed_precision.set_global_policy("float16")
local strategy = ipu.IPUStrategy()
local _ <close> = strategy:scope()
local e = ipu.estimate(resnet50, {batch_size = micro_batch, target = target, ipus = 16})

print(string.format("ResNet-50 on %d replicas (%s): %s", e.replicas, e.target,
  e.fits and "fits" or "does not fit"))
print(string.format("%d ops, %d of them priced; a weight update takes %.3g s: %.0f images a second",
  e.ops, e.ops_priced,
  e.seconds, e.samples_per_second))
print(string.format("the fullest tile has %d of %d bytes", e.max_tile_bytes, e.tile_bytes))
for _, phase in ipairs{"compute", "exchange", "sync", "stream"} do
  print(string.format("  %-8s %5.1f %%", phase, 100 * e.cycles[phase] / e.cycles.total))
end
