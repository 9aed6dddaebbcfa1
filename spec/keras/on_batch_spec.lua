-- train_on_batch and test_on_batch, call after call. The model is y = w x with w = 1. The numbers
-- are worked out by hand.

local ipu = require "ipulua"

local keras = ipu.keras

local function times_one(optimizer, options)
  local model = keras.Sequential{keras.layers.Dense{1, use_bias = false,
    kernel_initializer = "ones", input_shape = {1}}}
  model:compile{loss = "mse", optimizer = optimizer, metrics = {"mae"},
    run_eagerly = options and options.eagerly}
  return model
end

for _, eagerly in ipairs{false, true} do
  describe(eagerly and "one batch, eagerly:" or "one batch:", function()
    -- Gradients of w^2 are 2 w. With momentum 0.5: v = -0.5, w = 0.5. Without: w = 0.5 - 0.25 * 1.
    -- Clipped to 0.25: w = 0.25 - 0.25 * 0.25. The last gradient, 0.375, is clipped too.
    it("train_on_batch sees hyperparameters that were set since", function()
      local optimizer = keras.optimizers.SGD{0.25, momentum = 0.5}
      local model = times_one(optimizer, {eagerly = eagerly})
      local x, y = ipu.ones{1, 1}, ipu.zeros{1, 1}
      local function after()
        model:train_on_batch(x, y)
        return model:get_weights()[1]:item()
      end
      assert.equal(0.5, after())
      optimizer.momentum = 0
      assert.equal(0.25, after())
      optimizer.clipvalue = 0.25
      assert.equal(0.1875, after())
      optimizer.learning_rate = 0.5
      assert.equal(0.0625, after())
    end)

    it("metrics go on where they are not to be reset", function()
      local model = times_one("sgd", {eagerly = eagerly})
      local function mae(y, reset)
        return model:test_on_batch{ipu.zeros{1, 1}, ipu.tensor{{y}}, return_dict = true,
          reset_metrics = reset}.mae
      end
      assert.equal(1, mae(1))
      assert.equal(2, mae(3, false))
      assert.equal(4, mae(8, false)) -- (1 + 3 + 8) / 3
      assert.equal(5, mae(5))
      model.optimizer.learning_rate = 0
      local logs = model:train_on_batch{ipu.zeros{1, 1}, ipu.tensor{{1}}, return_dict = true,
        reset_metrics = false}
      assert.equal(3, logs.mae) -- (5 + 1) / 2
    end)
  end)
end
