-- Sequential: its graph, other lengths than the first, cost of adding layers.

local ipu = require "ipulua"
local keras = ipu.keras
local L = keras.layers

local function same(a, b) return ipu.reduce_max(ipu.abs(a - b)):item() < 1e-5 end

describe("a Sequential", function()
  it("is connected from its inputs through each layer's output", function()
    for _, begin in ipairs{
      function() return keras.Sequential{keras.Input{shape = {4}}, L.Dense(5), L.Dense(6),
        L.Dense(7)} end,
      function() return keras.Sequential{L.Dense{5, input_shape = {4}}, L.Dense(6), L.Dense(7)} end,
      function()
        local m = keras.Sequential{L.Dense(5), L.Dense(6), L.Dense(7)}
        m:build{-1, 4}
        return m
      end,
      function()
        local m = keras.Sequential{L.Dense(5), L.Dense(6), L.Dense(7)}
        m(ipu.ones{3, 4})
        return m
      end,
    } do
      local m = begin()
      assert.equal(m.inputs[1], m.layers[1].input)
      assert.equal(m.outputs[1], m.layers[3].output)
      local inner = keras.Model{inputs = m.inputs, outputs = {m.layers[1].output,
        m.layers[2].output}}
      local x = ipu.random.normal({3, 4}, {seed = 1})
      local y = inner(x)
      assert.is_true(same(m.layers[2](m.layers[1](x)), y[2]))
      m:add(L.Dense(8))
      assert.same({3, 8}, m(x).shape)
      assert.equal(m.outputs[1], m.layers[4].output)
      m:pop()
      m:pop()
      assert.same({3, 6}, m(x).shape)
      assert.equal(m.outputs[1], m.layers[2].output)
      assert.equal(4, #m.weights)
    end
  end)

  it("keeps its layers and graph when a layer can't be added", function()
    local m = keras.Sequential{L.Dense{5, input_shape = {4}}}
    assert.error_matches(function() m:add(L.LSTM(3)) end, "expected rank 3")
    assert.equal(1, #m.layers)
    m:add(L.Dense(2))
    assert.same({3, 2}, m(ipu.ones{3, 4}).shape)
  end)

  it("takes as long for each layer as for the first ones", function()
    -- in thousands of the interpreter's steps
    local function steps(count)
      local n = 0
      local m = keras.Sequential{keras.Input{shape = {2}}}
      debug.sethook(function() n = n + 1 end, "", 1000)
      for _ = 1, count do m:add(L.Dense(2)) end
      debug.sethook()
      return n
    end
    steps(20)
    local short, long = steps(100), steps(800)
    assert.is_true(short > 50 and long < 10 * short, short .. " for 100 layers, " .. long
      .. " for 800")
  end)

  it("takes batches of other lengths than the first one where no input shape was given", function()
    local x, y = ipu.random.normal({16, 20, 6}, {seed = 1}), ipu.random.normal({16, 2}, {seed = 2})
    local m = keras.Sequential{L.LSTM(8), L.Dense(2)}
    m:compile{loss = "mse", optimizer = "sgd"}
    m:fit(x, y, {verbose = 0, batch_size = 8})
    for _, length in ipairs{31, 20, 3} do
      local other = ipu.random.normal({8, length, 6}, {seed = length})
      assert.is_true(same(m.layers[2](m.layers[1](other)), m:predict(other)))
      m:fit(other, ipu.ones{8, 2}, {verbose = 0, batch_size = 8})
      m:evaluate(other, ipu.ones{8, 2}, {verbose = 0, batch_size = 8})
    end
    assert.same({-1, -1, 6}, m.inputs[1].shape)
    assert.equal(m.inputs[1], m.layers[1].input)
    local images = keras.Sequential{L.Conv2D(2, 3), L.GlobalAveragePooling2D()}
    images(ipu.ones{2, 8, 9, 1})
    assert.same({2, 2}, images(ipu.ones{2, 12, 5, 1}).shape)
    assert.same({2, 2}, keras.models.clone_model(images)(ipu.ones{2, 6, 5, 1}).shape)
    local flat = keras.Sequential{L.Flatten(), L.Dense(3)}
    flat(ipu.ones{2, 4, 5})
    assert.error_matches(function() flat(ipu.ones{2, 4, 6}) end,
      "has the shape %[%-1, 4, 5%], but got")
    assert.same({2, 3}, flat(ipu.ones{2, 4, 5}).shape)
    local given = keras.Sequential{L.LSTM{2, input_shape = {7, 3}}}
    assert.error_matches(function() given(ipu.ones{2, 8, 3}) end, "has the shape %[%-1, 7, 3%]")
  end)
end)

describe("a Sequential that is made again", function()
  it("keeps the batch size of its Input, and none of data", function()
    local fixed = keras.Sequential{L.Input{shape = {6, 2}, batch_size = 5}, L.Dense(4)}
    local seen = keras.Sequential{L.Dense(4)}
    seen(ipu.ones{3, 2})
    for model, shape in pairs{[fixed] = {5, 6, 2}, [seen] = {-1, 2}} do
      assert.same(shape, keras.models.clone_model(model).input_shape)
      assert.same(shape, keras.models.model_from_json(model:to_json()).input_shape)
    end
  end)
end)
