-- A layer, a metric and a callback of your own: the layer has weights and adds a loss, the callback
-- collects losses. A function sets the learning rate of each epoch. The model is saved and loaded
-- again; custom_objects names the classes.
local ipu = require "ipulua"
local keras, layers = ipu.keras, ipu.keras.layers
local epochs = require "ipulua.script".arguments{{"epochs", 10, short = 6}}
keras.utils.set_random_seed(1)

local Linear = layers.Layer:extend "Linear"
function Linear:init(units, options)
  layers.Layer.init(self, options)
  self.units = units
end
function Linear:build(shape)
  self.w = self:add_weight{shape = {shape[#shape], self.units}, initializer = "glorot_uniform"}
  self.b = self:add_weight{shape = {self.units}, initializer = "zeros"}
end
function Linear:call(x)
  self:add_loss(1e-3 * ipu.reduce_sum(ipu.square(self.w)))
  return ipu.matmul(x, self.w) + self.b
end
function Linear:get_config()
  local config = layers.Layer.get_config(self)
  config.units = self.units
  return config
end

local TruePositives = keras.metrics.Metric:extend "TruePositives"
function TruePositives:init()
  keras.metrics.Metric.init(self, {name = "true_positives"})
  self.count = self:add_weight{name = "count", initializer = "zeros"}
end
function TruePositives:update_state(y_true, y_pred)
  local chosen = ipu.argmax(y_pred, {axis = 1})
  local right = ipu.equal(chosen, ipu.cast(y_true, "int32"):reshape{-1})
  self.count:assign_add(ipu.reduce_sum(ipu.cast(right, "float32")))
end
function TruePositives:result() return self.count end

local Counter = keras.callbacks.Callback:extend "Counter"
function Counter:on_train_begin() self.losses = {} end
function Counter:on_train_batch_end(_, logs) table.insert(self.losses, logs.loss) end

local x = ipu.random.normal({500, 8}, {seed = 2})
local y = ipu.argmax(x[{{}, {1, 3}}], {axis = 1})
local model = keras.Sequential{Linear(16), layers.ReLU(), Linear(3), layers.Softmax()}
model:compile{optimizer = keras.optimizers.SGD{0.5}, loss = "sparse_categorical_crossentropy",
  metrics = {TruePositives()}}
local counter = Counter()
local function schedule(epoch, rate) return epoch < 3 and rate or rate * math.exp(-0.1) end
model:fit{x, y, epochs = epochs, verbose = 2,
  callbacks = {counter, keras.callbacks.LearningRateScheduler(schedule)}}
print(string.format("%d batches, loss %.3f to %.3f, rate %.4f", #counter.losses,
  counter.losses[1], counter.losses[#counter.losses], model.optimizer.learning_rate:item()))

local path = os.tmpname() .. ".safetensors"
model:save(path)
local again = keras.models.load_model(path,
  {custom_objects = {Linear = Linear, TruePositives = TruePositives}})
os.remove(path)
print("loaded, it predicts the same:",
  ipu.reduce_all(ipu.equal(again:predict(x), model:predict(x))):item())
