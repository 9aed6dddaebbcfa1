-- Tables on the host follow gradients wherever these are computed.

local ipu = require "ipulua"

local keras, layers, optimizers <const> = ipu.keras, ipu.keras.layers, ipu.keras.optimizers

-- Row 1 is looked up twice among four samples, and holds r three times. The loss is the mean of
-- (3r)², so the row's gradient is 2·2·3r/4 = 3r. A rate of 0.1 makes 0.7r of r.
describe("a host embedding's rows", function()
  local ids <const> = ipu.tensor({0, 1, 1, 3}, {dtype = "int32"})
  local zeros <const> = ipu.zeros{4, 1}

  local function by_tape(model, opt)
    return function()
      local tape = ipu.GradientTape()
      local loss = tape(function()
        local loss = ipu.reduce_mean(ipu.square(model(ids) - zeros))
        return opt.get_scaled_loss and opt:get_scaled_loss(loss) or loss
      end)
      local weights = model.trainable_variables
      opt:apply_gradients(tape:gradient(loss, weights), weights)
    end
  end

  local steps <const> = {
    {"fit", function(model)
      return function() model:fit{ids, zeros, batch_size = 4, verbose = 0} end
    end},
    {"a fit that runs eagerly", function(model)
      return function() model:fit{ids, zeros, batch_size = 4, verbose = 0} end
    end, eagerly = true},
    {"train_on_batch", function(model)
      return function() model:train_on_batch(ids, zeros) end
    end},
    {"an eager tape", by_tape},
    {"a compiled tape", function(model, opt) return ipu.func(by_tape(model, opt)) end},
    {"minimize", function(model, opt)
      return function()
        opt:minimize(function() return ipu.reduce_mean(ipu.square(model(ids) - zeros)) end,
          model.trainable_variables)
      end
    end},
  }
  local makers <const> = {
    {"", function() return optimizers.SGD(0.0) end},
    {", of a scaled loss", function()
      return optimizers.ALSOptimizer(optimizers.SGD(0.0), {initial_loss_scaling_factor = 4})
    end},
  }

  for _, step in ipairs(steps) do
    for _, maker in ipairs(makers) do
      it("follow gradients of " .. step[1] .. maker[1], function()
        local rows = ipu.create_host_embedding("rows", {5, 3}, "float32", {initializer = "ones",
          optimizer_spec = ipu.HostEmbeddingOptimizerSpec(0.1)})
        local Look = layers.Layer:extend "Look"
        function Look:call(i) return rows:lookup{indices = i} end -- luacheck: ignore 212
        local input = keras.Input{shape = {}, dtype = "int32"}
        local model = keras.Model{inputs = input,
          outputs = layers.Dense{1, kernel_initializer = "ones"}(Look()(input))}
        local opt = maker[2]()
        model:compile{optimizer = opt, loss = "mse", run_eagerly = step.eagerly}
        local run = step[2](model, opt)
        for k = 1, 2 do
          run()
          for _, r in ipairs(rows.value[2]:totable()) do assert.near(0.7 ^ k, r, 1e-6) end
        end
      end)
    end
  end
end)
