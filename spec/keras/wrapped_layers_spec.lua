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
