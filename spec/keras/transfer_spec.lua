-- Models made of parts of others, and what each of them trains: the cases of Keras' guides to
-- transfer learning and to writing a train_step.

local ipu = require "ipulua"
local log = require "ipulua.base.log"

local keras, layers = ipu.keras, ipu.keras.layers

local function first_weight(layer) return layer:get_weights()[1]:totable()[1][1] end

local function warnings_of(f)
  local list = {}
  local former = log.set_writer(function(text) list[#list + 1] = tostring(text) end)
  local ok, problem = pcall(f)
  log.set_writer(former)
  assert(ok, problem)
  return list
end

local x, y = ipu.random.normal{{8, 4}, seed = 1}, ipu.ones{8, 2}

describe("a part of a Sequential", function()
  it("is a model, and the base of another", function()
    local base = keras.Sequential{
      layers.Dense{5, activation = "relu", input_shape = {4}, name = "a"},
      layers.Dense{2, name = "b"}}
    local features = keras.Model{inputs = base.inputs, outputs = base:get_layer("a").output}
    local expected = ipu.nn.relu(ipu.matmul(x, base:get_weights()[1]) + base:get_weights()[2])
    assert.same(expected:totable(), features:predict(x):totable())
    features.trainable = false
    local model = keras.Model{inputs = features.input, outputs = layers.Dense{2}(features.output)}
    model:compile{optimizer = "sgd", loss = "mse"}
    local before = first_weight(base.layers[1])
    model:fit{x, y, verbose = 0, epochs = 2}
    assert.equal(before, first_weight(base.layers[1]))
    assert.equal(2, #model.trainable_weights)
  end)
end)

-- A saliency map is drawn of logits: the example of Keras takes the last activation away.
describe("an activation that is set to nil, or to a name,", function()
  it("is the one that is called from then on", function()
    for _, make in ipairs{
      function() return layers.Dense{3, activation = "relu", input_shape = {4}} end,
      function() return layers.Activation{"relu", input_shape = {4}} end,
      function() return layers.Conv1D{3, 1, activation = "relu", input_shape = {2, 2}} end,
      function()
        return layers.LocallyConnected1D{3, 1, activation = "relu", input_shape = {2, 2}}
      end,
    } do
      local model = keras.Sequential{make()}
      local input = ipu.random.normal({8, table.unpack(model.input_shape, 2)}, {seed = 2})
      local rectified = model(input)
      model.layers[1].activation = nil
      local plain = model(input)
      assert.same(ipu.nn.relu(plain):totable(), rectified:totable())
      assert(ipu.reduce_min(plain):item() < 0)
      model.layers[1].activation = "tanh"
      assert.same(ipu.tanh(plain):totable(), model(input):totable())
    end
  end)
end)

describe("trainable", function()
  local function model()
    local m = keras.Sequential{layers.Dense{3, input_shape = {4}, name = "a"}, layers.Dense{2}}
    m:compile{optimizer = "sgd", loss = "mse"}
    return m
  end

  it("takes effect where the model is compiled, and a change since is told once", function()
    local m = model()
    m.layers[1].trainable = false
    local before = first_weight(m.layers[1])
    local said = warnings_of(function()
      m:fit{x, y, verbose = 0, epochs = 2}
      m:train_on_batch(x, y)
    end)
    assert.equal(1, #said)
    assert.matches("'trainable' of 'a' was set after compile", said[1])
    assert.not_equal(before, first_weight(m.layers[1]))
    assert.is_false(m.layers[1].trainable)
    m:compile{optimizer = "sgd", loss = "mse"}
    before = first_weight(m.layers[1])
    assert.same({}, warnings_of(function() m:fit{x, y, verbose = 0} end))
    assert.equal(before, first_weight(m.layers[1]))
  end)

  it("is each model's own: a discriminator trains by itself, and not after a generator", function()
    local generator = keras.Sequential{layers.Dense{4, input_shape = {2}}}
    local discriminator = keras.Sequential{layers.Dense{1, activation = "sigmoid",
      input_shape = {4}}}
    discriminator:compile{optimizer = "sgd", loss = "binary_crossentropy"}
    discriminator.trainable = false
    local z = keras.Input{shape = {2}}
    local both = keras.Model{inputs = z, outputs = discriminator(generator(z))}
    both:compile{optimizer = "sgd", loss = "binary_crossentropy"}
    local function moved(f)
      local d, g = first_weight(discriminator), first_weight(generator)
      f()
      return {d ~= first_weight(discriminator), g ~= first_weight(generator)}
    end
    warnings_of(function()
      for _ = 1, 2 do
        assert.same({true, false}, moved(function()
          discriminator:train_on_batch(x, ipu.ones{8, 1})
        end))
        assert.same({false, true}, moved(function()
          both:train_on_batch(ipu.ones{4, 2}, ipu.ones{4, 1})
        end))
      end
    end)
  end)
end)

describe("a model whose steps call what it holds", function()
  it("needs no call; its metrics are those in its fields, and begin anew each epoch", function()
    local Pair = keras.Model:extend("Pair")
    function Pair:init(first, second)
      keras.Model.init(self, {name = "pair"})
      self.first, self.second = first, second
      self.tracker = keras.metrics.Mean{name = "distance"}
    end
    function Pair:train_step(data)
      local tape = ipu.GradientTape()
      local loss = tape(function()
        return ipu.reduce_mean(ipu.square(self.second(self.first(data)) - data))
      end)
      self.optimizer:apply_gradients(tape:gradient(loss, self.trainable_variables),
        self.trainable_variables)
      self.tracker:update_state(loss)
      return {distance = self.tracker:result()}
    end
    local m = Pair(layers.Dense{2}, layers.Dense{4})
    m:compile{optimizer = keras.optimizers.SGD{0.0}}
    local names = {}
    for i, metric in ipairs(m.metrics) do names[i] = metric.name end
    assert.same({"distance"}, names)
    local history = m:fit{ipu.data.from_tensor_slices(x):batch(3), epochs = 2, verbose = 0}.history
    local given = m.second(m.first(x))
    local sums = ipu.reduce_mean(ipu.square(given - x), {axis = 1}):totable()
    local function mean(from, to)
      local sum = 0
      for i = from, to do sum = sum + sums[i] end
      return sum / (to - from + 1)
    end
    local expected = (mean(1, 3) + mean(4, 6) + mean(7, 8)) / 3
    for epoch = 1, 2 do assert.is_near(expected, history.distance[epoch], 1e-5) end
    m:reset_metrics()
    assert.equal(0, m.tracker:result():item())
  end)
end)
