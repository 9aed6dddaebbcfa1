-- A trained network is exported to an ONNX file and imported again. The imported network predicts
-- the same, and can be trained further.
local ipu = require "ipulua"
local keras, layers = ipu.keras, ipu.keras.layers
local epochs = require "ipulua.script".arguments{{"epochs", 5, short = 2}}
keras.utils.set_random_seed(1)

local x, y = keras.datasets.mnist.load_data()
x = ipu.expand_dims(ipu.cast(x[{1, 1000}], "float32") / 255, -1)
y = ipu.cast(y[{1, 1000}], "int32")
local model = keras.Sequential{
  layers.Conv2D{8, 3, activation = "relu", input_shape = {28, 28, 1}},
  layers.BatchNormalization(), layers.MaxPooling2D(), layers.Flatten(),
  layers.Dense{10, activation = "softmax"},
}
local how <const> = {optimizer = "adam", loss = "sparse_categorical_crossentropy",
  metrics = {"accuracy"}}
model:compile(how)
model:fit{x, y, epochs = epochs, verbose = 2}

local path = os.tmpname() .. ".onnx"
keras.onnx.export(model, path)
local file = assert(io.open(path, "rb"))
print(string.format("%d bytes of ONNX", file:seek "end"))
file:close()
local again = keras.onnx.import(path)
os.remove(path)
local difference = ipu.reduce_max(ipu.abs(again:predict(x) - model:predict(x))):item()
print(string.format("largest difference of 10000 probabilities: %.1e", difference))
again:compile(how)
again:fit{x, y, epochs = 1, verbose = 2}
