-- depth_to_space and space_to_depth: the example of TensorFlow's documentation, and a network for
-- super resolution, whose last layer is one.

local ipu = require "ipulua"

local keras, layers = ipu.keras, ipu.keras.layers

local deep = ipu.tensor{{{{1, 2, 3, 4}, {5, 6, 7, 8}}, {{9, 10, 11, 12}, {13, 14, 15, 16}}}}
local flat <const> = {{{{1}, {2}, {5}, {6}}, {{3}, {4}, {7}, {8}}, {{9}, {10}, {13}, {14}},
  {{11}, {12}, {15}, {16}}}}

keras.utils.set_random_seed(3)

describe("depth_to_space", function()
  it("makes blocks of pixels of channels, and space_to_depth turns that round", function()
    assert.same(flat, ipu.nn.depth_to_space(deep, 2):totable())
    assert.same(deep:totable(), ipu.nn.space_to_depth(flat, 2):totable())
  end)

  it("stands in a model that takes pictures of any size", function()
    local input = keras.Input{shape = {-1, -1, 1}}
    local x = layers.Conv2D{4, 3, padding = "same", activation = "relu"}(input)
    x = layers.Conv2D{3 ^ 2, 3, padding = "same"}(x)
    local model = keras.Model(input, ipu.nn.depth_to_space(x, 3))
    assert.same({-1, -1, -1, 1}, model.output_shape)
    model:compile{optimizer = keras.optimizers.Adam(0.02), loss = "mse"}
    local small = ipu.random.uniform({8, 4, 4, 1}, {seed = 1})
    local large = ipu.repeat_n(ipu.repeat_n(small, 3, {axis = 1}), 3, {axis = 2})
    local history = model:fit(small, large, {epochs = 30, batch_size = 4, verbose = 0}).history.loss
    assert(history[30] < history[1] / 2, history[30])
    assert.same({2, 15, 21, 1}, model:predict(ipu.ones{2, 5, 7, 1}).shape)
  end)

  it("says which extents can't be divided", function()
    local function fails(words, f, ...)
      local ok, message = pcall(f, ...)
      assert.is_false(ok)
      assert.is_truthy(message:find(words, 1, true), message)
    end
    fails("the 4 channels of [1, 2, 2, 4] can't be divided into blocks of 3 by 3",
      ipu.nn.depth_to_space, deep, 3)
    fails("height and width of [1, 2, 2, 4] can't be divided into blocks of 3 by 3",
      ipu.nn.space_to_depth, deep, 3)
    fails("block_size must be at least 1, got 0", ipu.nn.depth_to_space, deep, 0)
  end)
end)
