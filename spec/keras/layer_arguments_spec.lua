-- Arguments of layers that are rare: numbers worked out by hand, and shares of what is left to
-- chance.

local ipu = require "ipulua"
local layers <const> = ipu.keras.layers

local function near(expected, x, tolerance)
  local got <const> = ipu.reshape(x, {-1}):totable()
  assert.equal(#expected, #got)
  for i, value in ipairs(expected) do assert.is_near(value, got[i], tolerance or 1e-5) end
end

describe("Normalization", function()
  -- Column 1: 1, 3, 5, 7 (mean 4, variance 5). Column 2: 2, 2, 6, 6 (mean 4, variance 4).
  local rows <const> = ipu.tensor{{1, 2}, {3, 2}, {5, 6}, {7, 6}}

  it("adapts to all batches of a dataset", function()
    local layer <const> = layers.Normalization()
    layer:adapt(ipu.data.from_tensor_slices(rows):batch(3))
    near({-3 / math.sqrt(5), -1, 3 / math.sqrt(5), 1}, layer(ipu.tensor{{1, 2}, {7, 6}}))
  end)

  it("takes the mean over all axes but its own", function()
    local layer <const> = layers.Normalization{axis = 1}
    layer:adapt(ipu.reshape(rows, {2, 2, 2})) -- 1, 2, 5, 6 (3.5, 4.25) and 3, 2, 7, 6 (4.5, 4.25)
    near({-2.5 / math.sqrt(4.25), -1.5 / math.sqrt(4.25), -1.5 / math.sqrt(4.25),
      -2.5 / math.sqrt(4.25)}, layer(ipu.tensor{{{1, 2}, {3, 2}}}))
  end)
end)

describe("Normalization of vectors", function()
  -- 1, 2, 6: mean 3, variance 14 / 3
  local vector, deviation = ipu.tensor{1, 2, 6}, math.sqrt(14 / 3)

  it("takes a vector as samples of one feature", function()
    local layer <const> = layers.Normalization()
    layer:adapt(vector)
    local y = layer(ipu.tensor{1, 2, 6, 3})
    assert.same({4, 1}, y.shape)
    near({-2 / deviation, -1 / deviation, 3 / deviation, 0}, y)
  end)

  it("adapts to a dataset of numbers", function()
    for _, axis in ipairs{-1, {}} do
      local layer <const> = layers.Normalization{axis = axis}
      layer:adapt(ipu.data.from_tensor_slices(vector))
      near({-2 / deviation, 0}, layer(ipu.tensor{{1}, {3}}))
    end
  end)

  it("has one mean without axes, for inputs of any rank", function()
    local layer <const> = layers.Normalization{axis = {}}
    layer:adapt(ipu.tensor{{1, 2}, {3, 4}}) -- mean 2.5, variance 1.25
    local y = layer(vector)
    assert.same({3}, y.shape)
    near({-1.5 / math.sqrt(1.25), -0.5 / math.sqrt(1.25), 3.5 / math.sqrt(1.25)}, y)
    local config = layer:get_config()
    near({-1.5 / math.sqrt(1.25)}, layers.Normalization(config)(ipu.tensor{1}))
  end)
end)

describe("Flatten of channels that come first", function()
  it("puts them last, in the order of the other axes", function()
    local x <const> = ipu.reshape(ipu.arange(12), {1, 2, 2, 3})
    assert.same({{0, 6, 1, 7, 2, 8, 3, 9, 4, 10, 5, 11}},
      layers.Flatten{data_format = "channels_first"}(x):totable())
  end)
end)

describe("GlobalAveragePooling1D of channels that come first", function()
  it("leaves masked steps out", function()
    local layer <const> = layers.GlobalAveragePooling1D{data_format = "channels_first"}
    near({2, 5}, layer(ipu.tensor{{{1, 3, 90}, {4, 6, 80}}}, {mask = ipu.tensor{{true, true,
      false}}}))
  end)
end)

describe("MultiHeadAttention", function()
  -- All queries and keys are 0, so each query takes the mean of what it sees of 1, 3 (twice).
  it("takes a mask of queries and keys for all samples", function()
    local layer <const> = layers.MultiHeadAttention{num_heads = 1, key_dim = 1, use_bias = false}
    local value <const> = ipu.tensor{{{1}, {3}}, {{10}, {30}}}
    local function call(mask) return layer(value, value, {attention_mask = mask}) end
    call(ipu.tensor{{true, true}, {true, true}})
    layer:set_weights{ipu.zeros{1, 1, 1}, ipu.zeros{1, 1, 1}, ipu.ones{1, 1, 1}, ipu.ones{1, 1, 1}}
    near({1, 2, 10, 20}, call(ipu.tensor{{true, false}, {true, true}}))
    near({2, 3, 20, 30}, call(ipu.tensor{{true, true}, {false, true}}))
  end)
end)

describe("MultiHeadAttention with inputs by name", function()
  it("is called as by position", function()
    ipu.random.set_seed(3)
    local layer <const> = layers.MultiHeadAttention{num_heads = 2, key_dim = 3}
    local q, v, k = ipu.random.normal{2, 4, 5}, ipu.random.normal{2, 6, 5},
      ipu.random.normal{2, 6, 5}
    local expected = layer(q, v, k)
    local options = {query = q, value = v, key = k}
    assert.same(expected:totable(), layer(options):totable())
    assert.equal(q, options.query)
    assert.same(expected:totable(), layer(q, {value = v, key = k}):totable())
    local inputs = ipu.keras.Input{shape = {4, 5}}
    local model = ipu.keras.Model(inputs, layer{query = inputs, value = inputs,
      use_causal_mask = true})
    assert.same(layer(q, q, {use_causal_mask = true}):totable(), model(q):totable())
  end)

  it("names what is missing", function()
    local layer <const> = layers.MultiHeadAttention{num_heads = 2, key_dim = 3}
    local ok, message = pcall(layer, {query = ipu.ones{2, 4, 5}})
    assert.is_false(ok)
    assert.is_truthy(message:find("it is called with query and value", 1, true), message)
  end)
end)

describe("a layer that is called with nil", function()
  it("says how the outputs of a model are taken apart", function()
    local inputs = ipu.keras.Input{shape = {2}}
    local model = ipu.keras.Model(inputs, {layers.Dense(1)(inputs), layers.Dense(1)(inputs)})
    local _, second = model(ipu.ones{3, 2})
    local ok, message = pcall(layers.Dense(1), second)
    assert.is_false(ok)
    assert.is_truthy(message:find("one list, for table.unpack", 1, true), message)
  end)
end)

describe("a stateful LSTM", function()
  it("begins with the states that it was given, each in its place", function()
    local layer <const> = layers.LSTM{2, stateful = true, return_state = true, seed = 1}
    local x <const> = ipu.ones{1, 1, 3}
    layer(x)
    local states <const> = {ipu.tensor{{0.5, -0.5}}, ipu.tensor{{2, 3}}}
    layer:reset_states(states)
    local _, h <const>, c <const> = layer(x)
    local _, h2 <const>, c2 <const> = layer(x, {initial_state = states})
    near(ipu.reshape(h2, {-1}):totable(), h)
    near(ipu.reshape(c2, {-1}):totable(), c)
  end)
end)

-- Of 40,000 elements: five standard deviations of what chance allows.
describe("noise in training", function()
  local x <const> = ipu.ones{200, 200}

  it("GaussianDropout multiplies by numbers of mean 1 and variance rate / (1 - rate)", function()
    local y <const> = layers.GaussianDropout{0.8, seed = 3}(x, {training = true})
    assert.is_near(1, ipu.reduce_mean(y):item(), 5 * 2 / 200)
    assert.is_near(4, ipu.reduce_mean(ipu.square(y - 1)):item(), 5 * 4 * math.sqrt(2) / 200)
  end)

  it("AlphaDropout keeps mean 0 and variance 1", function()
    local z <const> = ipu.random.normal({200, 200}, {seed = 5})
    local y <const> = layers.AlphaDropout{0.3, seed = 3}(z, {training = true})
    assert.is_near(0, ipu.reduce_mean(y):item(), 5 / 200)
    assert.is_near(1, ipu.reduce_mean(ipu.square(y)):item(), 5 * 1.5 / 200)
  end)

  it("SpatialDropout2D drops whole channels, where they come first, too", function()
    for format, shape in pairs{channels_first = {20, 50, 3, 4}, channels_last = {20, 3, 4, 50}} do
      local axes <const> = format == "channels_first" and {2, 3} or {1, 2}
      local layer <const> = layers.SpatialDropout2D{0.25, data_format = format, seed = 2}
      local y <const> = layer(ipu.ones(shape), {training = true})
      local most <const>, least <const> = ipu.reduce_max(y, {axis = axes}),
        ipu.reduce_min(y, {axis = axes})
      assert.same(most:totable(), least:totable())
      assert.is_near(0.25, ipu.reduce_mean(ipu.cast(ipu.equal(most, 0), "float32")):item(),
        5 * math.sqrt(0.25 * 0.75 / 1000))
    end
  end)
end)
