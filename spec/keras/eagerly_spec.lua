-- compile{run_eagerly = true}: Lua code in a step sees numbers, and all numbers equal the compiled
-- step's, bit for bit.

local ipu = require "ipulua"

local keras, layers = ipu.keras, ipu.keras.layers

local x <const> = ipu.random.normal({70, 5}, {seed = 1})
local y <const> = ipu.random.uniform({70}, {maxval = 3, dtype = "int32", seed = 2})

local function same_bits(a, b) return ipu.reduce_all(ipu.equal(a, b)):item() end

local makers <const> = {}

function makers.sequential()
  return keras.Sequential{layers.Dense(16, {activation = "relu"}), layers.GaussianNoise(0.1),
    layers.BatchNormalization(), layers.Dropout(0.4), layers.Dense(3)}
end

-- A model that is built by its first step, where it reads numbers in its call.
function makers.own(eager)
  local Own = keras.Model:extend("Own")
  function Own:init()
    keras.Model.init(self)
    self.first, self.drop = layers.Dense(16, {activation = "relu"}), layers.Dropout(0.4)
    self.last = layers.Dense(3)
  end
  function Own:call(inputs, options)
    local h = self.drop(self.first(inputs), options)
    if eager then assert(ipu.reduce_sum(h):item() >= 0) end
    return self.last(h)
  end
  return Own()
end

local function train(make, eager, options)
  keras.utils.set_random_seed(7)
  local model = make(eager)
  local given = {optimizer = "adam", metrics = {"accuracy"}, run_eagerly = eager,
    loss = keras.losses.SparseCategoricalCrossentropy{from_logits = true}}
  for key, value in pairs(options or {}) do given[key] = value end
  model:compile(given)
  local history = model:fit(x, y, {epochs = 3, verbose = 0, validation_split = 0.2,
    batch_size = 8}).history
  local on_batch = model:train_on_batch(x, y)
  model:fit(x, y, {epochs = 1, verbose = 0, class_weight = {[0] = 1, 2, 0.5}})
  return {history = history, on_batch = on_batch, evaluated = model:evaluate(x, y, {verbose = 0}),
    predicted = model:predict(x), weights = model:get_weights(), draw = ipu.random.uniform{1}}
end

local function check_same(a, b)
  assert.same(a.history, b.history)
  assert.same({table.unpack(a.on_batch)}, {table.unpack(b.on_batch)})
  assert.same({table.unpack(a.evaluated)}, {table.unpack(b.evaluated)})
  assert.is_true(same_bits(a.predicted, b.predicted))
  assert.equal(#a.weights, #b.weights)
  for i, w in ipairs(a.weights) do assert.is_true(same_bits(w, b.weights[i])) end
  assert.is_true(same_bits(a.draw, b.draw))
end

describe("run_eagerly has the bits of the compiled steps", function()
  it("with dropout, noise, moving means and a smaller last batch", function()
    check_same(train(makers.sequential, false), train(makers.sequential, true))
  end)

  it("in a script's own model, which the first step builds", function()
    check_same(train(makers.own, false), train(makers.own, true))
  end)

  it("with steps_per_execution", function()
    local function run(eager)
      keras.utils.set_random_seed(5)
      local model = makers.sequential()
      model:compile{optimizer = "adam", loss = "mse", run_eagerly = eager, steps_per_execution = 3}
      local history = model:fit(x[{1, 48}], ipu.ones{48, 3}, {epochs = 2, batch_size = 8,
        verbose = 0}).history
      return history, model:get_weights()[1]
    end
    local history, weights = run(false)
    local eager_history, eager_weights = run(true)
    assert.same(history, eager_history)
    assert.is_true(same_bits(weights, eager_weights))
  end)

  it("in a script's own train_step with two tapes", function()
    local function run(eager)
      keras.utils.set_random_seed(3)
      local Pair = keras.Model:extend("Pair")
      function Pair:init()
        keras.Model.init(self)
        self.maker, self.judge = layers.Dense(2, {input_shape = {4}}), layers.Dense(1)
        self.mean = keras.metrics.Mean{name = "mean"}
      end
      function Pair:train_step(real)
        local function update(part, f)
          local tape = ipu.GradientTape()
          local loss = tape(f)
          local list = part.trainable_weights
          self.optimizer:apply_gradients(tape:gradient(loss, list), list)
          return loss
        end
        local noise = ipu.random.normal{real.shape[1], 4}
        local a = update(self.judge, function()
          return ipu.reduce_mean(self.judge(self.maker(noise)) - self.judge(real))
        end)
        local b = update(self.maker, function()
          return -ipu.reduce_mean(self.judge(self.maker(noise)))
        end)
        if eager then assert(a:item() == a:item()) end
        self.mean:update_state(a)
        return {mean = self.mean:result(), last = b}
      end
      local pair = Pair()
      pair:compile{optimizer = keras.optimizers.SGD(0.01), run_eagerly = eager}
      local history = pair:fit(x[{{}, {1, 2}}], {epochs = 2, batch_size = 16, verbose = 0}).history
      return history, pair.maker:get_weights()[1]
    end
    local history, weights = run(false)
    local eager_history, eager_weights = run(true)
    assert.same(history, eager_history)
    assert.is_true(same_bits(weights, eager_weights))
  end)
end)

describe("run_eagerly", function()
  local function compiled(model, options)
    options.optimizer, options.run_eagerly = "sgd", true
    model:compile(options)
    return model
  end

  it("shows numbers to the model's call, loss, metrics and train_step", function()
    local seen = {}
    local function note(name, t)
      assert.is_number(ipu.reduce_sum(t):item())
      seen[name] = (seen[name] or 0) + 1
    end
    local Own = keras.Model:extend("Own")
    function Own:init()
      keras.Model.init(self)
      self.last = layers.Dense(1)
    end
    function Own:call(inputs)
      note("call", inputs)
      return self.last(inputs)
    end
    function Own:train_step(inputs, labels)
      note("train_step", labels)
      return keras.Model.train_step(self, inputs, labels)
    end
    local model = compiled(Own(), {
      loss = function(a, b)
        note("loss", b)
        return ipu.square(a - b)
      end,
      metrics = {function(_, b)
        note("metric", b)
        return b
      end},
    })
    model:fit(ipu.ones{6, 2}, ipu.ones{6, 1}, {batch_size = 2, verbose = 0, epochs = 2})
    assert.same({call = 6, train_step = 6, loss = 6, metric = 6}, seen)
    model:predict(ipu.ones{4, 2}, {batch_size = 2})
    assert.equal(8, seen.call)
  end)

  it("gives logs of an own train_step as they are, and names the form that it needs", function()
    local Own = keras.Model:extend("Own")
    function Own:train_step(inputs) return {sum = ipu.reduce_sum(inputs), two = 2} end
    local model = compiled(Own(), {})
    assert.same({sum = {4}, two = {2}},
      model:fit(ipu.ones{4, 2}, {batch_size = 2, verbose = 0}).history)
    function Own:train_step(_) end
    local ok, message = pcall(model.fit, model, ipu.ones{4, 2}, {verbose = 0})
    assert.is_false(ok)
    assert.matches("train_step must return a table of logs", message)
  end)

  it("takes effect where a script sets the field, and ends there", function()
    local calls = 0
    local Counting = layers.Layer:extend("Counting")
    function Counting:call(t) -- luacheck: ignore 212
      calls = calls + 1
      return t * 1
    end
    local model = compiled(keras.Sequential{Counting(), layers.Dense(1)}, {loss = "mse"})
    local function new_calls(eagerly)
      model.run_eagerly = eagerly
      local former = calls
      model:fit(ipu.ones{6, 2}, ipu.ones{6, 1}, {batch_size = 2, verbose = 0})
      model:train_on_batch(ipu.ones{6, 2}, ipu.ones{6, 1})
      return calls - former
    end
    new_calls(false)
    assert.equal(3 + 1, new_calls(true)) -- steps of fit, and the batch
    assert.equal(0, new_calls(false))
  end)

  it("shows numbers to the call of predict_on_batch", function()
    local Own, seen = keras.Model:extend("Own"), {}
    function Own:init() keras.Model.init(self) end
    function Own:call(given)
      local known, value = pcall(function() return ipu.reduce_sum(given):item() end)
      if known then seen[#seen + 1] = value end
      return given * 2
    end
    local model = Own()
    model:compile{run_eagerly = true}
    for n = 1, 3 do assert.equal(2, model:predict_on_batch(ipu.ones{n, 2})[n][2]:item()) end
    assert.same({2, 4, 6}, seen)
    model.run_eagerly = false
    model:predict_on_batch(ipu.ones{1, 2})
    assert.same({2, 4, 6}, seen)
  end)

  it("names the line of an error in a step", function()
    local model = compiled(keras.Sequential{layers.Dense(1, {input_shape = {2}})}, {
      loss = function(a, b) return ipu.matmul(a, b) end})
    local ok, message = pcall(model.fit, model, ipu.ones{4, 2}, ipu.ones{4, 1}, {verbose = 0})
    assert.is_false(ok)
    local line <const> = debug.getinfo(1, "l").currentline - 3
    assert.matches("eagerly_spec.lua:" .. line .. ": .*matmul", message)
    -- and the next draw is no run of a step
    ipu.random.set_seed(1)
    local first = ipu.random.uniform{1}
    ipu.random.set_seed(1)
    assert.is_true(same_bits(first, ipu.random.uniform{1}))
  end)

  it("is refused under a strategy", function()
    local strategy <const> = ipu.IPUStrategy()
    local _ <close> = strategy:scope()
    local model = compiled(keras.Sequential{layers.Dense(1, {input_shape = {2}})}, {loss = "mse"})
    for _, call in ipairs{
      function() model:fit(ipu.ones{4, 2}, ipu.ones{4, 1}) end,
      function() model:evaluate(ipu.ones{4, 2}, ipu.ones{4, 1}) end,
      function() model:predict(ipu.ones{4, 2}) end,
    } do
      local ok, message = pcall(call)
      assert.is_false(ok)
      assert.matches("run_eagerly = true, which is not possible on IPUs", message)
    end
  end)
end)
