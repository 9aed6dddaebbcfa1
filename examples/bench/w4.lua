-- W4: ResNet-20 on 32x32 images, batch 32, batch normalisation, SGD with momentum; one drawn batch
-- again and again. Prints one JSON line.
local ipu = require "ipulua"
package.path = (arg[0]:match("^(.*/)") or "") .. "?.lua;" .. package.path
local report = require "report"
local step_count = require "ipulua.script".arguments{{"steps", 120}}
local data, keras = ipu.data, ipu.keras
local layers = keras.layers

local batch <const> = 32
-- multiply-adds of an image; the first convolution's have no gradient to hand on
local macs, image_macs = 0, nil

local function conv_bn(x, filters, kernel, strides)
  local y = layers.Conv2D{filters, kernel, strides = strides, padding = "same", use_bias = false}(x)
  macs = macs + y.shape[2] * y.shape[3] * filters * kernel * kernel * x.shape[4]
  image_macs = image_macs or macs
  return layers.BatchNormalization{momentum = 0.9, epsilon = 1e-5}(y)
end

local function block(x, filters, strides)
  local y = layers.ReLU()(conv_bn(x, filters, 3, strides))
  y = conv_bn(y, filters, 3, 1)
  if strides ~= 1 then x = conv_bn(x, filters, 1, strides) end
  return layers.ReLU()(layers.Add(){x, y})
end

local input = keras.Input{shape = {32, 32, 3}, batch_size = batch}
local x = layers.ReLU()(conv_bn(input, 16, 3, 1))
for stage, filters in ipairs{16, 32, 64} do
  for i = 1, 3 do x = block(x, filters, stage > 1 and i == 1 and 2 or 1) end
end
local logits = layers.Dense(10)(layers.GlobalAveragePooling2D()(x))
macs = macs + 64 * 10
local model = keras.Model{inputs = input, outputs = logits}

local images = ipu.random.normal({batch, 32, 32, 3}, {seed = 1})
local labels = ipu.random.uniform({batch}, {maxval = 10, dtype = "int32", seed = 2})
local infeed, outfeed = ipu.IPUInfeedQueue(data.from_tensors{images, labels}:repeat_n()),
  ipu.IPUOutfeedQueue()
local loss_of = keras.losses.SparseCategoricalCrossentropy{from_logits = true}
local optimizer = keras.optimizers.SGD{learning_rate = 0.1, momentum = 0.9}

local train = ipu.func(function(steps)
  return ipu.loops.repeat_n(steps, function(image, label)
    local loss = loss_of(label, model(image, {training = true}))
    local variables = model.trainable_variables
    optimizer:apply_gradients(ipu.gradients(loss, variables), variables)
    outfeed:enqueue(loss)
  end, {}, infeed)
end)

report.run{workload = "w4", steps = step_count, flops = 2 * batch * (3 * macs - image_macs),
  train = train, outfeed = outfeed}
