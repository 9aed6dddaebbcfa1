-- model:inspect: numbers of each layer's output, and gradients' norms.

local ipu = require "ipulua"

local keras, layers = ipu.keras, ipu.keras.layers

local nan <const> = 0 / 0

-- relu(x · [[1, -1], [2, 0]]), then the sum of both.
local function model()
  local m = keras.Sequential{
    layers.Dense(2, {activation = "relu", use_bias = false, input_shape = {2}, name = "first"}),
    layers.Dense(1, {use_bias = false, name = "last"}),
  }
  m:set_weights{ipu.tensor{{1, -1}, {2, 0}}, ipu.ones{2, 1}}
  return m
end

local x <const> = ipu.tensor{{1, 1}, {-1, 1}} -- first: [[3, 0], [1, 1]], last: [[3], [2]]

local function near(expected, actual) assert.near(expected, actual, 1e-6) end

describe("model:inspect", function()
  it("gives each layer's numbers in order", function()
    local rows = model():inspect(x)
    assert.equal(2, #rows)
    local first, last = rows[1], rows[2]
    assert.same({"first", "Dense", "float32", 0},
      {first.layer, first.class, first.dtype, first.nan})
    assert.same({2, 2}, {table.unpack(first.shape)})
    near(1.25, first.mean)
    near(math.sqrt((1.75 ^ 2 + 1.25 ^ 2 + 2 * 0.25 ^ 2) / 4), first.std)
    near(0.25, first.zeros)
    near(2.5, last.mean)
    near(0.5, last.std)
    assert.is_nil(last.gradient_norm)
  end)

  it("has gradients' norms with labels, and changes nothing", function()
    local m = model()
    m:compile{optimizer = "sgd", loss = "mse", metrics = {"mae"}}
    m:evaluate(x, ipu.zeros{2, 1}, {verbose = 0})
    local before = m.metrics[1]:result():item()
    local rows = m:inspect(x, ipu.zeros{2, 1})
    -- The loss is (3² + 2²) / 2, its gradient by the outputs [3, 2]. The last kernel's gradient is
    -- 3 [3, 0] + 2 [1, 1]. By the first outputs it is [[3, 0], [2, 2]], whose zero relu stops, and
    -- x' times that by the first kernel
    near(math.sqrt(11 ^ 2 + 2 ^ 2), rows[2].gradient_norm)
    near(math.sqrt((3 - 2) ^ 2 + 2 ^ 2 + (3 + 2) ^ 2 + 2 ^ 2), rows[1].gradient_norm)
    assert.equal(before, m.metrics[1]:result():item())
    assert.same({{3}, {2}}, {{m:predict(x)[1][1]:item()}, {m:predict(x)[2][1]:item()}})
    assert.equal(0, m.optimizer.iterations:item())
  end)

  it("keeps moving means, and sees dropout with labels only", function()
    local m = keras.Sequential{layers.BatchNormalization{input_shape = {2}}, layers.Dropout(0.5)}
    m:compile{loss = "mse"}
    local many = ipu.ones{64, 2} * 3
    assert.equal(0.0, m:inspect(many)[2].zeros)
    local moving = m:get_weights()[3]:totable()
    local zeros = m:inspect(ipu.random.normal({64, 2}, {seed = 1}), many)[2].zeros
    assert.is_true(zeros > 0.2 and zeros < 0.8)
    assert.same(moving, m:get_weights()[3]:totable())
  end)

  it("counts what isn't finite, and leaves it out of the mean", function()
    local rows = model():inspect(ipu.tensor{{1, 1}, {nan, 1}})
    assert.equal(2, rows[1].nan)
    near(1.5, rows[1].mean)
  end)

  it("prints a table", function()
    assert.equal(table.concat({
      "layer          output  mean   std  zeros  nan  gradient",
      "first (Dense)  (2, 2)  1.25  1.09  25.0%    0",
      "last (Dense)   (2, 1)   2.5   0.5   0.0%    0",
    }, "\n"), tostring(model():inspect(x)))
  end)

  it("looks into models in models, and a script's own models", function()
    local Own = keras.Model:extend("Own")
    function Own:init()
      keras.Model.init(self)
      self.inner, self.last = model(), layers.Dense(1)
    end
    function Own:call(inputs) return self.last(self.inner(inputs)) end
    local names = {}
    for i, row in ipairs(Own():inspect(x)) do names[i] = row.class end
    assert.same({"Dense", "Dense", "Sequential", "Dense"}, names)
  end)

  it("is refused in a trace, and needs a loss beside labels", function()
    local m = model()
    assert.matches("must be compiled first", select(2, pcall(m.inspect, m, x, x)))
    assert.matches("no numbers while a function is traced",
      select(2, pcall(ipu.func(function(t) m:inspect(t) return t end), x)))
    assert.matches("inspect: there is no data; give x", select(2, pcall(m.inspect, m, {})))
  end)
end)
