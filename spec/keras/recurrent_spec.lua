-- Recurrent layers: first states beside the input, seeds, dtypes of cells.

local ipu = require "ipulua"
local keras = ipu.keras
local L = keras.layers

local function same(a, b, tolerance) return ipu.reduce_max(ipu.abs(a - b)):item() <= (tolerance
  or 1e-6) end
local function normal(shape, seed) return ipu.random.normal(shape, {seed = seed}) end

describe("first states", function()
  local x, h, c = normal({7, 9, 5}, 1), normal({7, 4}, 2), normal({7, 4}, 3)

  it("may stand in one list with the input, eagerly and in functional models", function()
    for _, case in ipairs{
      {L.LSTM(4), {h, c}}, {L.GRU(4), {h}}, {L.SimpleRNN(4), {h}}, {L.RNN(L.LSTMCell(4)), {h, c}},
      {L.RNN{L.LSTMCell(4), L.GRUCell(4)}, {h, c, h}}, {L.Bidirectional(L.LSTM(4)), {h, c, c, h}},
    } do
      local layer, states = case[1], case[2]
      local want = layer(x, {initial_state = states})
      assert.is_false(same(want, layer(x)))
      assert.is_true(same(layer{x, table.unpack(states)}, want))
      local inputs = {keras.Input{shape = {9, 5}}}
      for i = 1, #states do inputs[i + 1] = keras.Input{shape = {4}} end
      local model = keras.Model{inputs = inputs, outputs = layer(inputs)}
      assert.is_true(same(model{x, table.unpack(states)}, want))
    end
  end)

  it("of another number are refused, and so are lists where there are none", function()
    assert.error_matches(function() L.LSTM(4){x, h} end, "has 2 states, but got 1 first state")
    assert.error_matches(function() L.GRU(4)(x, {initial_state = {h, c}}) end,
      "has 1 state, but got 2 first states")
    assert.error_matches(function() L.Dense(4){x, h} end, "takes one tensor, got a list of 2")
    assert.error_matches(function() L.LSTM(4)(x, {initial_states = {h, c}}) end,
      "no option 'initial_states'; did you mean 'initial_state'")
  end)
end)

describe("states kept between batches", function()
  local x = normal({8, 6, 3}, 1)

  it("go on from batch to batch, and begin anew in layers, wrappers and nested models", function()
    local o = {stateful = true, return_sequences = true}
    local both = L.Bidirectional(L.GRU(4, o))
    local model = keras.Sequential{
      keras.Sequential{L.LSTM(4, {stateful = true, batch_input_shape = {8, 6, 3}})}, L.Dense(1)}
    for name, layer in pairs{layer = L.SimpleRNN(4, o), cell = L.RNN(L.LSTMCell(4), o), both = both,
      model = model} do
      local first, second = layer(x), layer(x)
      layer:reset_states()
      assert.is_false(same(first, second), name)
      assert.is_true(same(first, layer(x)), name)
    end
    local whole, parts = L.LSTM(4, {return_sequences = true}), L.LSTM(4, o)
    whole(x)
    parts(x)
    parts:set_weights(whole:get_weights())
    parts:reset_states()
    local halves = {parts(ipu.slice(x, {0, 0, 0}, {8, 3, 3})),
      parts(ipu.slice(x, {0, 3, 0}, {8, 3, 3}))}
    assert.is_true(same(ipu.concat(halves, {axis = 1}), whole(x)))
  end)
end)

describe("a stateful layer", function()
  local o = {stateful = true, batch_input_shape = {2, 5, 3}}
  local function with(more)
    for key, value in pairs(o) do more[key] = value end
    return more
  end

  it("that was built for batches of one size refuses others, at the first call, too", function()
    local images = L.ConvLSTM1D{4, 3, stateful = true, batch_input_shape = {2, 5, 6, 3}}
    for name, layer in pairs{lstm = L.LSTM(with{units = 4}), gru = L.GRU(with{units = 4}),
      cell = L.RNN(with{cell = L.LSTMCell(4)}), images = images,
      both = L.Bidirectional{L.GRU{4, stateful = true}, batch_input_shape = {2, 5, 3}}} do
      local model = keras.Sequential{layer}
      local four = name == "images" and ipu.ones{4, 5, 6, 3} or ipu.ones{4, 5, 3}
      assert.error_matches(function() model(four) end,
        "is stateful, with states for batches of 2 samples; got a batch of 4")
      assert.error_matches(function() model:predict(four, {batch_size = 4}) end, "batches of 2")
      assert.equal(4, model:predict(four, {batch_size = 2}).shape[1], name)
    end
    local model = keras.Sequential{L.LSTM(with{units = 4}), L.Dense(1)}
    model:compile{optimizer = "sgd", loss = "mse"}
    assert.error_matches(function()
      model:fit{ipu.ones{8, 5, 3}, ipu.ones{8, 1}, batch_size = 4, verbose = 0}
    end, "batches of 2 samples; got a batch of 4")
    assert.is_nil(rawget(model.layers[1], "states"))
  end)

  it("of no fixed size keeps to its first batch, which time_major has second", function()
    local layer = L.SimpleRNN{4, stateful = true, time_major = true}
    layer(ipu.ones{5, 3, 2})
    assert.same({3, 4}, layer(ipu.ones{7, 3, 2}).shape)
    assert.error_matches(function() layer(ipu.ones{5, 4, 2}) end,
      "batches of 3 samples; got a batch of 4")
  end)
end)

describe("dropout with a seed", function()
  -- With identity weights each element is 2 where the input is kept, 20 where the state is, or the
  -- sum.
  local function shares(layer, state)
    local y = layer(ipu.ones{32, 1, 64}, {initial_state = state, training = true})
    local neither, both = ipu.less(y, 1), ipu.greater(y, 21)
    return ipu.reduce_mean(ipu.cast(ipu.logical_or(neither, both), "float32")):item()
  end

  it("drops inputs and states independently, and each direction for itself", function()
    local o = {activation = "linear", kernel_initializer = "identity",
      recurrent_initializer = "identity", dropout = 0.5,
      recurrent_dropout = 0.5, seed = 7}
    assert.near(0.5, shares(L.SimpleRNN(64, o), {ipu.full({32, 64}, 10)}), 0.05)
    local function first_call()
      local both = L.Bidirectional(L.SimpleRNN(64, {activation = "linear",
        kernel_initializer = "identity", dropout = 0.5, seed = 7}))
      return both(ipu.ones{32, 1, 64}, {training = true})
    end
    local y = first_call()
    local a, b = ipu.slice(y, {0, 0}, {32, 64}), ipu.slice(y, {0, 64}, {32, 64})
    assert.near(0.5, ipu.reduce_mean(ipu.cast(ipu.equal(a, b), "float32")):item(), 0.05)
    assert.is_true(same(first_call(), y)) -- the seed begins the same sequence again
  end)

  it("does so wherever a layer has its seed: in cells, in cells of cells", function()
    local o = {kernel_initializer = "identity", dropout = 0.5, activation = "linear", seed = 7}
    local function cell() return L.SimpleRNNCell(64, o) end
    local fields = {kernel_initializer = ipu.keras.initializers.GlorotUniform{seed = 1},
      dropout = 0.5, dropout_seed = 7}
    for name, layer in pairs{of_a_cell = L.RNN(cell()), of_cells = L.RNN{cell = {cell(), cell()}},
      of_the_original = L.PopnnLSTM(64, fields)} do
      local y = L.Bidirectional(layer)(ipu.ones{32, 1, 64}, {training = true})
      local a, b = ipu.slice(y, {0, 0}, {32, 64}), ipu.slice(y, {0, 64}, {32, 64})
      local shared = ipu.reduce_mean(ipu.cast(ipu.equal(a, b), "float32")):item()
      assert.is_true(shared < 0.9, name .. ": " .. shared)
    end
  end)
end)

describe("a cell of another dtype than its layer's", function()
  it("computes in its own", function()
    local x = normal({3, 5, 4}, 1)
    local layer = L.RNN{cell = L.GRUCell(2), dtype = "float16"}
    assert.equal("float32", layer(x).dtype)
  end)
end)

describe("a cell of cells", function()
  it("stacks cells that are stacks themselves", function()
    local x = ipu.random.normal({2, 4, 5}, {seed = 1})
    local function cells() return {L.LSTMCell(3), L.GRUCell(2), L.LSTMCell(4)} end
    local flat, list = L.RNN{L.StackedRNNCells{cells()}, return_state = true}, cells()
    local deep = L.RNN{L.StackedRNNCells{{
      L.StackedRNNCells{{list[1], list[2]}}, list[3]}}, return_state = true}
    flat(x)
    deep(x)
    deep:set_weights(flat:get_weights())
    local wanted, got = table.pack(flat(x)), table.pack(deep(x))
    assert.equal(6, got.n)
    for i = 1, 6 do assert.same(wanted[i]:totable(), got[i]:totable()) end
  end)
end)

-- Keras 2.6 flattens the states that reset_states is given, and casts them (backend.set_value).
describe("reset_states", function()
  -- Identity of 0 and of the state: each output is the state that was set.
  local function keeping(class, more)
    local o = {units = 3, stateful = true, use_bias = false, kernel_initializer = "zeros",
      recurrent_initializer = "identity", activation = "linear"}
    for key, value in pairs(more or {}) do o[key] = value end
    local layer = class(o)
    layer(ipu.zeros({2, 4, 5}))
    return layer
  end
  local state = ipu.tensor{{1, 2, 3}, {4, 5, 6}}

  it("takes one state without a list", function()
    local layer = keeping(L.SimpleRNN)
    layer:reset_states(state)
    assert.same(state:totable(), layer(ipu.zeros{2, 4, 5}):totable())
    layer:reset_states{state}
    assert.same(state:totable(), layer(ipu.zeros{2, 4, 5}):totable())
    assert.error_matches(function() layer:reset_states{state, state} end,
      "has 1 state, but 2 values were given")
  end)

  it("takes states in the lists of their cells", function()
    local layer = L.RNN{{L.LSTMCell(3), L.GRUCell(2)}, stateful = true}
    layer(ipu.zeros{2, 4, 5})
    layer:reset_states{{state, state * 2}, {ipu.full({2, 2}, 7)}}
    local kept = {}
    for i, v in ipairs(layer.states) do kept[i] = v:totable() end
    assert.same({state:totable(), (state * 2):totable(), {{7, 7}, {7, 7}}}, kept)
  end)

  it("takes states of another dtype than the layer computes in", function()
    local layer = keeping(L.SimpleRNN, {dtype = "mixed_float16"})
    layer:reset_states(state)
    assert.equal("float16", layer.states[1].dtype)
    assert.same(state:totable(), layer(ipu.zeros{2, 4, 5}):totable())
  end)
end)

-- Keras' page on RNN stacks cells that are plain layers with a state_size.
it("own cells without output_size are stacked", function()
  local Cell = L.Layer:extend "MinimalCell"
  function Cell:init(units)
    L.Layer.init(self)
    self.units, self.state_size = units, units
  end
  function Cell:build(shape)
    self.kernel = self:add_weight{shape = {shape[#shape], self.units}, initializer = "ones"}
  end
  function Cell:call(x, states)
    local y = ipu.matmul(x, self.kernel) + states[1]
    return y, {y}
  end
  local x = keras.Input{shape = {-1, 5}}
  local model = keras.Model{inputs = x, outputs = L.RNN{{Cell(3), Cell(4)}}(x)}
  -- of ones: h1 = 5, 10, 15 and h2 = 3 (5 + 10 + 15)
  assert.same({{90, 90, 90, 90}}, model(ipu.ones{1, 3, 5}):totable())
  assert.same({{5, 3}, {3, 4}}, {model.weights[1].shape, model.weights[2].shape})
  local pairs_of <const> = Cell(2)
  pairs_of.state_size = {2, 6}
  assert.equal(2, L.StackedRNNCells{{Cell(3), pairs_of}}.output_size)
end)
