-- The references' words about arguments. Each value here was once accepted against them, or failed
-- inside the library.

local ipu = require "ipulua"

local keras <const> = ipu.keras

describe("an argument is as the reference says", function()
  local function message_of(f)
    local ok, message = pcall(f)
    assert.is_false(ok)
    return (message:gsub("\n.*", ""))
  end

  it("a variable has the shape that was asked for", function()
    assert.matches("words_spec.lua:%d+: Variable: the initial value has the shape %[2%], not "
      .. "'shape', %[3%]",
      message_of(function() ipu.Variable({1, 2}, {shape = {3}}) end))
    assert.same({2}, ipu.Variable({1, 2}, {shape = {-1}}).shape)
  end)

  it("operands are left out from the end", function()
    local x, gamma = ipu.tensor{{1, 3}}, ipu.tensor{2, 2}
    -- (1, 3): mean 2, deviation 1
    assert.same({{-1, 1}}, ipu.round(ipu.nn.layer_norm(x, nil, nil, {epsilon = 1e-9})):totable())
    assert.same({{-2, 2}}, ipu.round(ipu.nn.layer_norm(x, gamma, nil, {epsilon = 1e-9})):totable())
    assert.matches("'gamma' is missing; only the last operands may be left out",
      message_of(function() ipu.nn.layer_norm(x, nil, gamma) end))
  end)

  it("an argument that Keras can't work with is refused where it is given", function()
    local l <const> = keras.layers
    for words, f in pairs{
      ["'strides' must be positive, got 0"] = function() l.Conv2D(4, 3, {strides = 0}) end,
      ["'kernel_size' must be positive, got 0"] = function() l.Conv1D(4, {0}) end,
      ["'momentum' must lie in %[0, 1%], got 2"] = function()
        l.BatchNormalization{momentum = 2}
      end,
      ["'dropout' must lie in %[0, 1%), got 3"] = function() l.Attention{dropout = 3} end,
      ["'label_smoothing' must lie in %[0, 1%], got 2"] = function()
        keras.losses.BinaryCrossentropy{label_smoothing = 2}
      end,
      ["'k' must be positive, got 0"] = function() keras.metrics.TopKCategoricalAccuracy{k = 0} end,
      ["'patience' must not be negative, got %-1"] = function()
        keras.callbacks.EarlyStopping{patience = -1}
      end,
      ["'save_freq' is \"epoch\" or a positive number of steps, got 0"] = function()
        keras.callbacks.ModelCheckpoint{"m.safetensors", save_freq = 0}
      end,
      ["to_categorical: there is a class %-1; they count from 0"] = function()
        keras.utils.to_categorical{-1}
      end,
      ["add_loss: 'loss' must be a tensor, a number or a function that gives one, got string"] =
      function()
        l.Layer():add_loss "mse"
      end,
      ["'shared_axes' count from 1, the first after the batch, to 1, got 7"] = function()
        l.PReLU{shared_axes = {7}}:compute_output_shape{2, 3}
      end,
      ["expected rank 4, got the shape %[2, 6%]"] = function()
        l.LocallyConnected2D{4, 3}:compute_output_shape{2, 6}
      end,
      ["compute_loss: model '[%w_]+' must be compiled first"] = function()
        keras.Sequential{l.Dense{1, input_shape = {3}}}:compute_loss(nil, ipu.ones{2, 1},
          ipu.ones{2, 1})
      end,
      ["'shape' must be a list of integers, got integer"] = function()
        ipu.create_host_embedding("table", 10)
      end,
    } do
      assert.matches("^[^:]*words_spec.lua:%d+: .*" .. words, message_of(f))
    end
  end)
end)
