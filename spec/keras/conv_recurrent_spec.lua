-- Recurrent convolutions of single pixels against recurrent layers, and unshared convolutions
-- against shared ones.

local ipu = require "ipulua"
local layers = ipu.keras.layers

local function normal(shape, seed) return ipu.random.normal(shape, {stddev = 0.5, seed = seed}) end

local function near(want, got, tolerance)
  assert.same(want.shape, got.shape)
  assert.is_true(ipu.reduce_max(ipu.abs(want - got)):item() < (tolerance or 1e-5))
end

describe("ConvLSTM", function()
  -- Kernels of one pixel: each pixel's sequence goes through an LSTM of its own.
  for rank, name in ipairs{"ConvLSTM1D", "ConvLSTM2D", "ConvLSTM3D"} do
    it(name .. " with kernels of 1 is an LSTM for each pixel", function()
      local space = table.move({4, 3, 2}, 1, rank, 1, {})
      local pixels = 1
      for _, n in ipairs(space) do pixels = pixels * n end
      local x = normal({2, 5, table.unpack({pixels, 3})}, 1)
      local conv = layers[name]{filters = 6, kernel_size = 1, return_sequences = true,
        return_state = true}
      local lstm = layers.LSTM{6, recurrent_activation = "hard_sigmoid", return_sequences = true}
      local shape = {2, 5}
      for _, n in ipairs(space) do shape[#shape + 1] = n end
      shape[#shape + 1] = 3
      local y, h, c = conv(ipu.reshape(x, shape))
      lstm:build_once{2, 5, 3}
      lstm:set_weights{conv.kernel:read_value():reshape{3, 24},
        conv.recurrent_kernel:read_value():reshape{6, 24}, conv.bias:read_value()}
      local columns = ipu.transpose(x, {0, 2, 1, 3}):reshape{2 * pixels, 5, 3}
      local want = ipu.transpose(lstm(columns):reshape{2, pixels, 5, 6}, {0, 2, 1, 3})
      near(want, y:reshape{2, 5, pixels, 6})
      near(h, (select(5, ipu.unstack(y, {axis = 1}))))
      assert.same(h.shape, c.shape)
      -- forget's bias is 1
      assert.same({0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1},
        ipu.slice(conv.bias:read_value(), {0}, {12}):totable())
    end)
  end

  it("sees its window in the input, and in the state the neighbours that there are", function()
    -- 'valid' with a kernel as wide as the image: one place, whose state has no neighbours.
    local x = normal({2, 4, 3, 2}, 2)
    local conv = layers.ConvLSTM1D{filters = 3, kernel_size = 3, recurrent_activation = "sigmoid"}
    local y = conv(x)
    local lstm = layers.LSTM{3}
    lstm:build_once{2, 4, 6}
    lstm:set_weights{conv.kernel:read_value():reshape{6, 12}, conv.recurrent_kernel:read_value()[2],
      conv.bias:read_value()}
    near(lstm(x:reshape{2, 4, 6}), y:reshape{2, 3})
  end)

  it(
    "has the shapes of its options, goes backwards, keeps states, and comes back from its config",
    function()
    local x = normal({2, 4, 8, 6, 3}, 3)
    assert.same({2, 3, 3, 5}, layers.ConvLSTM2D{5, {3, 2}, strides = {2, 2}}(x).shape)
    assert.same({2, 4, 8, 6, 5},
      layers.ConvLSTM2D{5, 3, padding = "same", return_sequences = true}(x).shape)
    local forwards = layers.ConvLSTM2D{2, 3, padding = "same"}
    local y = forwards(x)
    local config = forwards:get_config()
    config.go_backwards, config.name = true, nil
    local backwards = layers.ConvLSTM2D:from_config(config)
    backwards:build_once(x.shape)
    backwards:set_weights(forwards:get_weights())
    near(y, backwards(ipu.reverse(x, 1)))
    local stateful = layers.ConvLSTM2D{2, 3, padding = "same", stateful = true}
    stateful:build_once{2, 2, 8, 6, 3}
    stateful:set_weights(forwards:get_weights())
    stateful(ipu.slice(x, {0, 0, 0, 0, 0}, {2, 2, 8, 6, 3}))
    near(y, stateful(ipu.slice(x, {0, 2, 0, 0, 0}, {2, 2, 8, 6, 3})))
    assert.error_matches(function() layers.ConvLSTM2D{5, 3, data_format = "channels_first"} end,
      "channels last")
    assert.error_matches(function() layers.ConvLSTM2D{5, {3, 3, 3}} end,
      "'kernel_size' must be an integer or a list of 2 integers")
  end)

  it("trains", function()
    local model = ipu.keras.Sequential{
      layers.ConvLSTM2D{4, 3, padding = "same", dropout = 0.1, recurrent_dropout = 0.1,
        input_shape = {3, 6, 6, 1}},
      layers.Flatten(), layers.Dense(1),
    }
    model:compile{optimizer = ipu.keras.optimizers.Adam(0.01), loss = "mse"}
    local x = normal({32, 3, 6, 6, 1}, 4)
    local y = ipu.reduce_sum(x, {axis = {1, 2, 3}}) * 0.1
    local losses = model:fit{x = x, y = y, batch_size = 8, epochs = 6, verbose = 0}.history.loss
    assert.is_true(losses[6] < losses[1])
  end)
end)

describe("LocallyConnected", function()
  it("with the same kernel everywhere is a convolution", function()
    local x = normal({2, 9, 3}, 1)
    local one = layers.LocallyConnected1D{4, 3, strides = 2, activation = "relu"}
    one:build_once(x.shape)
    assert.same({4, 9, 4}, one.kernel.shape)
    assert.same({4, 4}, one.bias.shape)
    local k, b = normal({3, 3, 4}, 2), normal({4}, 3)
    one:set_weights{ipu.tile(k:reshape{1, 9, 4}, {4, 1, 1}), ipu.tile(b:reshape{1, 4}, {4, 1})}
    near(ipu.nn.relu(ipu.nn.conv1d(x, k, {strides = 2}) + b), one(x))
    local image = normal({2, 5, 6, 3}, 4)
    local two = layers.LocallyConnected2D{4, {3, 2}, strides = {1, 2}, use_bias = false}
    two:build_once(image.shape)
    assert.same({3 * 3, 18, 4}, two.kernel.shape)
    local k2 = normal({3, 2, 3, 4}, 5)
    two:set_weights{ipu.tile(k2:reshape{1, 18, 4}, {9, 1, 1})}
    near(ipu.nn.conv2d(image, k2, {strides = {1, 2}}), two(image))
    local first = layers.LocallyConnected2D{4, {3, 2}, strides = {1, 2}, use_bias = false,
      data_format = "channels_first"}
    local turned = ipu.transpose(image, {0, 3, 1, 2})
    first:build_once(turned.shape)
    first:set_weights(two:get_weights())
    near(ipu.transpose(two(image), {0, 3, 1, 2}), first(turned))
  end)

  it("has a kernel of its own at each place", function()
    local layer = layers.LocallyConnected1D{1, 1, use_bias = false}
    layer:build_once{1, 3, 1}
    layer:set_weights{ipu.tensor{{{2}}, {{3}}, {{5}}}}
    assert.same({{{2}, {3}, {5}}}, layer(ipu.ones{1, 3, 1}):totable())
    assert.error_matches(function() layers.LocallyConnected1D{1, 4}(ipu.ones{1, 3, 1}) end,
      "a window of 4 does not fit into an input of 3")
  end)
end)
