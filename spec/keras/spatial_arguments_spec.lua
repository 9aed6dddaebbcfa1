-- Amounts along the axes of space: how they are written, with the shapes of the samples in
-- tf.keras' reference of each layer.

local ipu = require "ipulua"
local layers = ipu.keras.layers

local function shape(layer, ...) return layer(ipu.zeros{...}).shape end

describe("padding, cropping and enlarging", function()
  it("take a number, one for each axis, or pairs", function()
    assert.same({1, 3, 4, 2}, shape(layers.ZeroPadding2D(1), 1, 1, 2, 2))
    assert.same({2, 24, 20, 3}, shape(layers.Cropping2D({{2, 2}, {4, 4}}), 2, 28, 28, 3))
    assert.same({2, 24, 20, 6, 3}, shape(layers.Cropping3D{2, 4, 2}, 2, 28, 28, 10, 3))
    assert.same({2, 2, 2, 3}, shape(layers.UpSampling2D({1, 2}), 2, 2, 1, 3))
    assert.same({2, 6, 2}, shape(layers.ZeroPadding1D{1, 3}, 2, 2, 2))
  end)

  it("take pairs beside names, and other arguments after one list", function()
    assert.same({2, 3, 28, 24},
      shape(layers.Cropping2D{{0, 0}, {1, 3}, data_format = "channels_first"}, 2, 3, 28, 28))
    assert.same({2, 3, 28, 24},
      shape(layers.Cropping2D({{0, 0}, {1, 3}}, "channels_first"), 2, 3, 28, 28))
    assert.same({2, 3, 26, 24}, shape(layers.Cropping2D{{1, 2}, "channels_first"}, 2, 3, 28, 28))
    assert.same({2, 3, 26, 24},
      shape(layers.Cropping2D{1, 2, data_format = "channels_first"}, 2, 3, 28, 28))
    assert.same({2, 3, 4, 6},
      shape(layers.UpSampling2D{2, 3, data_format = "channels_first"}, 2, 3, 2, 2))
  end)

  for what, case in pairs{
    ["too many"] = {layers.ZeroPadding2D, {1, 2, 3},
      "'padding' must be an integer, a list of 2, or a list of 2 pairs"},
    ["a triple among pairs"] = {layers.Cropping2D, {{1, 2}, {3, 4, 5}},
      "'cropping' must be .* a list of 2 pairs"},
    ["half a pair"] = {layers.ZeroPadding2D, {{1, 2}, {3}}, "a list of 2 pairs"},
    ["too few"] = {layers.Cropping3D, {1, 2}, "a list of 3, or a list of 3 pairs"},
    ["more than an axis has sides"] = {layers.ZeroPadding1D, {1, 2, 3},
      "a list of 2, or a list of 1 pair,"},
    ["a negative one"] = {layers.ZeroPadding2D, {1, -1}, "none negative"},
  } do
    it("refuse " .. what, function()
      local ok, message = pcall(case[1], case[2])
      assert.is_false(ok)
      assert.matches(case[3], message)
    end)
  end
end)
