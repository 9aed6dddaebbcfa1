-- Mistakes of scripts written from Keras' guides: errors come before the first epoch, and name the
-- function that was called.

local command = require "spec.support.command"
local ipu = require "ipulua"

local data, keras, layers = ipu.data, ipu.keras, ipu.keras.layers

local function classifier(arguments)
  keras.utils.set_random_seed(1)
  local model = keras.Sequential{layers.Dense{3, activation = "softmax", input_shape = {4}}}
  arguments.optimizer, arguments.loss = "sgd", "sparse_categorical_crossentropy"
  model:compile(arguments)
  return model
end

local function batches(count, size)
  return data.from_tensor_slices{ipu.random.normal({count, 4}, {seed = 1}), ipu.arange(count) % 3}
    :batch(size)
end

local function refused(f, ...)
  local ok, message = pcall(f, ...)
  assert.is_false(ok)
  return message
end

describe("fit", function()
  it("tells of validation_steps that steps_per_execution doesn't divide before it trains",
    function()
      local model, steps = classifier{steps_per_execution = 2}, 0
      local counter = keras.callbacks.LambdaCallback{
        on_train_batch_end = function() steps = steps + 1 end}
      local message = refused(model.fit, model, batches(64, 16), {verbose = 0,
        validation_data = batches(64, 16), validation_steps = 3, callbacks = {counter}})
      assert.matches("fit: validation_data: steps_per_execution, 2, must be a divisor of the "
        .. "number of steps, 3", message)
      assert.equal(0, steps)
    end)

  it("names the class of a dataset that class_weight lacks", function()
    local model = classifier{}
    assert.matches("first_hours_spec.*fit: 'class_weight' must hold all classes of the labels; 2 "
      .. "is missing", refused(model.fit, model, batches(50, 16),
      {class_weight = {[0] = 1, [1] = 2}, verbose = 0}))
    model:fit(batches(50, 16), {class_weight = {[0] = 1, [1] = 2, [2] = 1}, verbose = 0})
  end)
end)

it("TensorBoard writes what evaluate gives, by weight updates", function()
  local folder = command.folder()
  local model = classifier{metrics = {"accuracy"}}
  model:evaluate(batches(50, 16), {verbose = 0,
    callbacks = {keras.callbacks.TensorBoard{log_dir = folder}}})
  local pipe <close> = assert(io.popen("cat " .. command.quote(folder) .. "/validation/*"))
  local text = pipe:read "a"
  for _, name in ipairs{"loss", "accuracy"} do
    assert.truthy(text:find("evaluation_" .. name .. "_vs_iterations", 1, true))
  end
  command.remove(folder)
end)

it("a recurrent layer gives its first states, and takes them", function()
  local x = ipu.random.normal({2, 5, 3}, {seed = 1})
  for _, class in ipairs{"GRU", "LSTM", "SimpleRNN"} do
    local layer = layers[class]{4, seed = 1}
    local states = layer:get_initial_state(x)
    assert.equal(class == "LSTM" and 2 or 1, #states)
    assert.same({{0, 0, 0, 0}, {0, 0, 0, 0}}, states[1]:totable())
    assert.same(layer(x):totable(), layer(x, {initial_state = states}):totable())
  end
end)

it("a script's own layer is loaded by the names of its init's arguments", function()
  local Linear = layers.Layer:extend "Linear"
  function Linear:init(units, options)
    layers.Layer.init(self, options)
    self.units = units or 32
  end
  function Linear:build(shape)
    self.w = self:add_weight{shape = {shape[#shape], self.units}, initializer = "random_normal"}
  end
  function Linear:call(x) return ipu.matmul(x, self.w) end
  function Linear:get_config()
    local config = layers.Layer.get_config(self)
    config.units = self.units
    return config
  end
  local folder = command.folder()
  local model = keras.Sequential{Linear(5, {name = "first"}), Linear(2)}
  local x = ipu.ones{1, 3}
  local want = model(x):totable()
  model:save(folder .. "/m.safetensors")
  local again = keras.models.load_model(folder .. "/m.safetensors",
    {custom_objects = {Linear = Linear}})
  assert.same(want, again(x):totable())
  assert.equal("first", again.layers[1].name)
  command.remove(folder)
end)

it("a window of unknown length is mapped by positions that two elements don't have", function()
  local ds = data.range(20):window(5, {shift = 1, drop_remainder = true})
    :flat_map(function(w) return w:batch(5) end)
    :map(function(w) return w[{1, 4}], w[-1] end)
  local x, y = ds:iterator():next()
  assert.same({0, 1, 2, 3}, x:totable())
  assert.equal(4, y:item())
end)

it("inputs and labels by name may be lists of numbers, for one sample too", function()
  local a, b = keras.Input{shape = {1}, name = "a"}, keras.Input{shape = {1}, name = "b"}
  local model = keras.Model({a, b}, layers.Add{name = "sum"}{a, b})
  model:compile{optimizer = "sgd", loss = "mse"}
  assert.same({{61}}, model:predict{a = {60}, b = {1}}:totable())
  assert.same({{61}, {4}}, model:predict({a = {60, 2}, b = {1, 2}}, {verbose = 0}):totable())
  assert.equal(1, model:evaluate({a = {60, 2}, b = {1, 2}}, {sum = {62, 5}}, {verbose = 0}))
  assert.equal(1, model:test_on_batch({a = {60}, b = {1}}, {sum = {62}}))
end)

it("initializers take shape and dtype by name", function()
  local ones, uniform = keras.initializers.Ones(), keras.initializers.RandomUniform{seed = 3}
  assert.same({{1, 1}}, ones{shape = {1, 2}}:totable())
  assert.equal("int32", ones{shape = {2}, dtype = "int32"}.dtype)
  assert.equal("float32", ones({2}, {}).dtype)
  assert.same(uniform{2, 3}:totable(), uniform{shape = {2, 3}, dtype = "float32"}:totable())
  assert.error_matches(function() ones{shape = "wide"} end, "called with a shape, got string")
end)

it("own models, losses, metrics and others are made again by their init's arguments", function()
  local Stack = keras.Model:extend "Stack"
  function Stack:init(units)
    keras.Model.init(self)
    self.units, self.list = units, {}
    for i, n in ipairs(units) do self.list[i] = layers.Dense(n) end
  end
  function Stack:call(x)
    for _, layer in ipairs(self.list) do x = layer(x) end
    return x
  end
  function Stack:get_config() return {units = self.units} end
  local folder, x = command.folder(), ipu.random.normal({4, 5}, {seed = 1})
  local stack = Stack{7, 2}
  local want = stack(x):totable()
  stack:save(folder .. "/m.safetensors")
  local again = keras.models.load_model(folder .. "/m.safetensors",
    {custom_objects = {Stack = Stack}})
  assert.same(want, again(x):totable())
  command.remove(folder)

  for name, base in pairs{losses = "Loss", metrics = "Metric", regularizers = "Regularizer",
    constraints = "Constraint", initializers = "Initializer", optimizers = "Optimizer"} do
    local Base = keras[name][base]
    local Own = Base:extend("Own" .. base)
    function Own:init(share, count)
      Base.init(self, base == "Optimizer" and 0.5 or nil)
      self.share, self.count = share, count
    end
    function Own:get_config() return {share = self.share, count = self.count} end
    local copy = Own:from_config(Own(0.25, 3):get_config())
    assert.same({0.25, 3}, {copy.share, copy.count}, name)
  end
end)

it("metrics are cleared by reset_states, too, which a class may define", function()
  local mean = keras.metrics.Mean()
  mean:update_state(3)
  mean:reset_states()
  assert.equal(0, mean:result():item())
  local function counter(name)
    local Counter = keras.metrics.Metric:extend "Counter"
    function Counter:init()
      keras.metrics.Metric.init(self, {name = "counter"})
      self.count = self:add_weight{name = "count", initializer = "zeros"}
    end
    function Counter:update_state() self.count:assign_add(1) end
    function Counter:result() return self.count end
    Counter[name] = function(self)
      keras.metrics.Metric[name](self)
      self.count:assign_add(100)
    end
    return Counter()
  end
  for _, name in ipairs{"reset_state", "reset_states"} do
    local metric, model = counter(name), classifier{}
    metric:update_state()
    metric:reset_state()
    assert.equal(100, metric:result():item(), name)
    metric:reset_states()
    assert.equal(100, metric:result():item(), name)
    model:compile{optimizer = "sgd", loss = "sparse_categorical_crossentropy", metrics = {metric}}
    local history = model:fit(batches(50, 10), {epochs = 2, verbose = 0}).history
    assert.same({105, 105}, history.counter, name)
  end
end)

it("get_layer takes a position in the second place, an optimizer gives its variables", function()
  local model = classifier{}
  assert.equal(model.layers[1], model:get_layer(nil, 0))
  assert.equal(model.layers[1], model:get_layer(nil, {index = -1}))
  local adam = keras.optimizers.Adam()
  local v = ipu.Variable{1.0, 2.0}
  adam:apply_gradients({ipu.ones{2}}, {v})
  assert.same(adam.weights, adam:variables())
  assert.same({{}, {2}, {2}}, {adam:variables()[1].shape, adam:variables()[2].shape,
    adam:variables()[3].shape})
end)

it("a loss that an own train_step never computes is none of the model's metrics", function()
  local function trained(uses_loss)
    local Own = keras.Model:extend "Own"
    function Own:init()
      keras.Model.init(self)
      self.dense, self.mean = layers.Dense(1), keras.metrics.Mean{name = "mine"}
    end
    function Own:call(x) return self.dense(x) end
    function Own:train_step(x, y)
      if uses_loss then self.compiled_loss(y, self(x)) end
      self.mean:update_state(ipu.reduce_mean(self(x)))
      local logs = {}
      for _, metric in ipairs(self.metrics) do logs[metric.name] = metric:result() end
      return logs
    end
    local model = Own()
    model:compile{loss = "mse"}
    return model:fit(ipu.ones{4, 2}, ipu.ones{4, 1}, {verbose = 0}).history
  end
  assert.is_nil(trained(false).loss)
  assert.equal("number", type(trained(false).mine[1]))
  assert.is_true(trained(true).loss[1] > 0)
end)

it("evaluate's list has the order of model.metrics for an own test_step, too", function()
  local Own = keras.Model:extend "Own"
  function Own:test_step(x, y)
    local y_pred = self(x)
    self.compiled_loss(y, y_pred)
    self.compiled_metrics:update_state(y, y_pred)
    local logs = {before = ipu.ones{}}
    for _, metric in ipairs(self.metrics) do logs[metric.name] = metric:result() end
    return logs
  end
  local input = keras.Input{shape = {4}}
  for _, eagerly in ipairs{false, true} do
    local model = Own(input, layers.Dense{3, activation = "softmax"}(input))
    model:compile{loss = "sparse_categorical_crossentropy", metrics = {"accuracy"},
      run_eagerly = eagerly}
    local list = model:evaluate(batches(30, 10), {verbose = 0})
    local named = model:evaluate(batches(30, 10), {verbose = 0, return_dict = true})
    assert.same({named.loss, named.accuracy, 1}, list)
  end
end)
