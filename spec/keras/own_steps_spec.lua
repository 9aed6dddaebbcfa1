-- A model's own steps, written as for Keras 2.6 with compiled_loss and compiled_metrics, give the
-- library's numbers. A script's own schedule gets steps as in Keras.

local ipu = require "ipulua"

local keras, layers = ipu.keras, ipu.keras.layers

local function results(model)
  local logs = {}
  for _, metric in ipairs(model.metrics) do logs[metric.name] = metric:result() end
  return logs
end

local Own = keras.Model:extend("Own")
function Own:train_step(x, y, weight)
  local tape = ipu.GradientTape()
  local y_pred, loss
  do
    local _ <close> = tape
    y_pred = self(x, {training = true})
    loss = self.compiled_loss(y, y_pred,
      {sample_weight = weight, regularization_losses = self.losses})
  end
  local weights = self.trainable_variables
  self.optimizer:apply_gradients(tape:gradient(loss, weights), weights)
  self.compiled_metrics:update_state(y, y_pred, weight)
  return results(self)
end
function Own:test_step(x, y)
  local y_pred = self(x, {training = false})
  self.compiled_loss(y, y_pred, {regularization_losses = self.losses})
  self.compiled_metrics:update_state(y, y_pred)
  return results(self)
end

local function make(class, options)
  keras.utils.set_random_seed(4)
  local input = keras.Input{shape = {8}}
  local x = layers.Dense{4, kernel_regularizer = "l2"}(input)
  local model = class(input, {layers.Dense{1, name = "a"}(x), layers.Dense{1, name = "b"}(x)})
  model:compile{optimizer = "adam", loss = "mse", loss_weights = {a = 1, b = 0.5},
    metrics = {a = "mae"}, weighted_metrics = {b = "mse"}, run_eagerly = options.eager}
  return model
end

local x = ipu.random.normal({40, 8}, {seed = 1})
-- vectors, which Keras gives a last axis
local y = {a = ipu.random.normal({40}, {seed = 2}), b = ipu.random.normal({40}, {seed = 3})}

describe("compiled_loss and compiled_metrics", function()
  for _, eager in ipairs{false, true} do
    it("are what compile was given" .. (eager and ", eagerly" or ""), function()
      local function run(class)
        local model = make(class, {eager = eager})
        local history = model:fit(x, y, {epochs = 2, batch_size = 8, verbose = 0,
          sample_weight = ipu.linspace(0, 1, 40), validation_data = {x, y}}).history
        return history, model:get_weights()[1]:totable()
      end
      local want, weights = run(keras.Model)
      local got, own_weights = run(Own)
      assert.same(want, got)
      assert.same(weights, own_weights)
      assert(want.b_mse and want.val_a_loss)
    end)
  end

  it("say how they are called, and what was not compiled", function()
    local function fails(words, f)
      local ok, message = pcall(f)
      assert.is_false(ok)
      assert.is_truthy(message:find(words, 1, true), message)
    end
    local model = make(keras.Model, {})
    fails("compiled_loss is a field, so a dot stands before it: self.compiled_loss(y, y_pred)",
      function() model:compiled_loss(y, y) end)
    local fresh = keras.Sequential{layers.Dense{1, input_shape = {8}}}
    fails("must be compiled first", function() fresh.compiled_loss(y.a, fresh(x)) end)
    fails("must be compiled first", function()
      fresh.compiled_metrics:update_state(y.a, fresh(x))
    end)
    fresh:compile{optimizer = "sgd"}
    fails("was compiled without a loss", function() fresh.compiled_loss(y.a, fresh(x)) end)
    fails("'y_pred' is missing", function() model.compiled_loss(y) end)
  end)
end)

describe("a model that is called with all values of an element", function()
  local Apart = keras.Model:extend("Apart")
  function Apart:init(code)
    keras.Model.init(self)
    self.code = code
    self.mean = keras.metrics.Mean{name = "loss"}
  end
  function Apart:call(three)
    local a, b, c = self.code(three[1]), self.code(three[2]), self.code(three[3])
    return ipu.reduce_sum(ipu.square(a - b) - ipu.square(a - c), {axis = 1})
  end
  function Apart:train_step(...)
    local three = {...}
    local tape = ipu.GradientTape()
    local loss = tape(function() return ipu.reduce_mean(self(three)) end)
    local weights = self.trainable_variables
    self.optimizer:apply_gradients(tape:gradient(loss, weights), weights)
    self.mean:update_state(loss)
    return {loss = self.mean:result()}
  end
  Apart.test_step = function(self, ...)
    self.mean:update_state(self{...})
    return {loss = self.mean:result()}
  end

  local a, b, c = ipu.full({4, 1}, 1), ipu.full({4, 1}, 3), ipu.full({4, 1}, 6)

  it("is built, trained and evaluated", function()
    local model = Apart(layers.Dense{1, kernel_initializer = "ones", use_bias = false})
    model:compile{optimizer = keras.optimizers.SGD(0.01)}
    -- w^2 (2^2 - 5^2) at w = 1, whose derivative is -42
    local dataset = ipu.data.from_tensor_slices{a, b, c}:batch(4)
    assert.equal(-21, model:fit{dataset, verbose = 0}.history.loss[1])
    assert(math.abs(model:get_weights()[1]:item() - 1.42) < 1e-6)
    local loss = model:evaluate{dataset, verbose = 0}
    assert(math.abs((type(loss) == "table" and loss[1] or loss) + 21 * 1.42 ^ 2) < 1e-4)
  end)

  it("tells what its call says of the first value if that is no call for all", function()
    local Wrong = Apart:extend("Wrong")
    function Wrong:call(value) return ipu.matmul(value, ipu.ones{7, 1}) end
    local model = Wrong(layers.Dense(1))
    model:compile{optimizer = "sgd"}
    local ok, message = pcall(model.fit, model,
      {ipu.data.from_tensor_slices{a, b, c}:batch(4), verbose = 0})
    assert.is_false(ok)
    assert.is_truthy(message:find("inner extents 1 and 7 differ", 1, true), message)
  end)
end)

describe("a script's own schedule", function()
  -- the rate of the Transformer's paper, which is written with __call__ in TensorFlow's tutorial
  local Warmup = keras.optimizers.schedules.LearningRateSchedule:extend("Warmup")
  function Warmup:__call(step)
    assert.equal("float32", step.dtype)
    return ipu.minimum(ipu.rsqrt(step + 1), (step + 1) * 4 ^ -1.5)
  end

  it("gets the number of updates as float32", function()
    local v = ipu.Variable(0.0)
    local sgd = keras.optimizers.SGD(Warmup())
    local f = ipu.func(function() sgd:apply_gradients({{ipu.tensor(-1.0), v}}) end)
    local before = 0
    for _, rate in ipairs{1 / 8, 2 / 8, 3 / 8, 1 / 2, 5 ^ -0.5} do
      f()
      assert(math.abs(v:item() - before - rate) < 1e-6, v:item() - before)
      before = v:item()
    end
  end)
end)

-- The loss is w, so each step takes a rate from w: 1, or what its clipping and others leave.
describe("a second optimizer of a model's own step", function()
  local Second = keras.Model:extend("Second")
  function Second:init(optimizer)
    keras.Model.init(self)
    self.layer = layers.Dense{1, kernel_initializer = "zeros", use_bias = false}
    self.others = {optimizer}
  end
  function Second:call(given) return self.layer(given) end
  function Second:train_step(given)
    local loss = ipu.reduce_mean(self(given))
    local weights = self.layer.trainable_variables
    self.others[1]:apply_gradients(ipu.gradients(loss, weights), weights)
    return {loss = loss}
  end

  local ones <const> = ipu.ones{4, 1}
  local function model_of(optimizer)
    local model = Second(optimizer)
    model:compile{optimizer = "sgd"}
    return model
  end
  local function weight(model) return model:get_weights()[1]:item() end

  it("computes with hyperparameters that are set between runs, or is another one", function()
    for _, run in ipairs{
      function(model) model:fit{ones, batch_size = 4, verbose = 0} end,
      function(model) model:train_on_batch(ones) end,
    } do
      local model = model_of(keras.optimizers.SGD(1.0))
      run(model)
      assert.equal(-1, weight(model))
      model.others[1].clipvalue = 0.25
      run(model)
      assert.equal(-1.25, weight(model))
      model.others[1].learning_rate = keras.optimizers.schedules.PiecewiseConstantDecay({9}, {2, 1})
      run(model)
      assert.equal(-1.75, weight(model))
      model.others[1] = keras.optimizers.SGD(0.5)
      run(model)
      assert.equal(-2.25, weight(model))
    end
  end)

  it("computes with hyperparameters that a callback sets", function()
    local model, calls = model_of(keras.optimizers.SGD(1.0)), 0
    local set = keras.callbacks.LambdaCallback{on_train_batch_end = function()
      calls = calls + 1
      if calls == 2 then model.others[1].clipvalue = 0.25 end
    end}
    model:fit{ipu.ones{16, 1}, batch_size = 4, verbose = 0, callbacks = set}
    assert.equal(-2.5, weight(model))
  end)
end)
