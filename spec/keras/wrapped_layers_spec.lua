-- Layers inside of wrappers beside the same layers called by themselves.

local ipu = require "ipulua"
local wrapped_layers = require "spec.support.wrapped_layers"

local layers = ipu.keras.layers

describe("a random layer in a wrapper", function()
  for first = 1, 120, 40 do
    it("gives what it gives by itself, in all forms, seeds " .. first .. " to "
      .. first + 39, function()
      for seed = first, first + 39 do
        local wrong, text = wrapped_layers.check(seed)
        assert.same({}, wrong, text)
      end
    end)
  end
end)

it("StackedRNNCells are built with the layer that steps through them", function()
  local cells = {layers.LSTMCell(4), layers.GRUCell(3), layers.SimpleRNNCell(2)}
  local layer = layers.RNN(layers.StackedRNNCells(cells))
  layer:build{-1, 5, 7}
  assert.equal(9, #layer.weights)
  assert.same({7, 16}, cells[1].weights[1].shape)
  assert.same({4, 9}, cells[2].weights[1].shape)
  assert.same({3, 2}, cells[3].weights[1].shape)
  assert.same({2, 2}, layer(ipu.ones{2, 5, 7}).shape)
end)

-- h1 = x + h1 / 2, then h2 = 2 h1 + h2 / 4: 1, 2, 3 give 1, 2.5, 4.25 and 2, 5.5, 9.875.
it("StackedRNNCells go on from their own states", function()
  local function cell() return layers.SimpleRNNCell{1, activation = "linear", use_bias = false} end
  local layer = layers.RNN{layers.StackedRNNCells{cell(), cell()}, return_sequences = true,
    return_state = true}
  local x = ipu.tensor{{{1}, {2}, {3}}}
  layer(x)
  layer:set_weights{ipu.tensor{{1}}, ipu.tensor{{0.5}}, ipu.tensor{{2}}, ipu.tensor{{0.25}}}
  local y, first, second = layer(x)
  assert.same({{{2}, {5.5}, {9.875}}}, y:totable())
  assert.same({{4.25}}, first:totable())
  assert.same({{9.875}}, second:totable())
  y = layer(x, {initial_state = {ipu.tensor{{8}}, ipu.tensor{{16}}}}) -- 5 …, 10 + 4 …
  assert.equal(14, y[1][1][1]:item())
end)

it("StackedRNNCells tell their cells that they train", function()
  local cell = layers.SimpleRNNCell{1, activation = "linear", use_bias = false, dropout = 0.5}
  local layer = layers.RNN(layers.StackedRNNCells{cell})
  local x = ipu.ones{64, 1, 1}
  layer(x)
  layer:set_weights{ipu.tensor{{1}}, ipu.tensor{{0}}}
  local counts = {[0.0] = 0, [2.0] = 0}
  for _, row in ipairs(layer(x, {training = true}):totable()) do
    counts[row[1]] = counts[row[1]] + 1
  end
  assert.is_true(counts[0.0] > 10 and counts[2.0] > 10)
  assert.same(x:reshape{64, 1}:totable(), layer(x):totable())
end)
