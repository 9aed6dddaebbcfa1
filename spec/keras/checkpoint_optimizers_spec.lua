-- Optimizers in backups and checkpoints: several of a model, and optimizers inside of others.

local ipu = require "ipulua"
local core = require "ipulua.core"
local keras = ipu.keras
local command = require "spec.support.command"
local pipelines = require "spec.support.pipelines"

local folder
before_each(function() folder = command.folder() end)
after_each(function() command.remove(folder) end)

describe("a backup", function()
  -- fit(epochs) gives weights. After two epochs a new run goes on.
  local function ends_alike(fit)
    local whole = fit(4)
    core.remove_folder(folder .. "/b")
    fit(2)
    assert.same(whole, fit(4))
  end

  -- Where the model's own step finds a second optimizer: {words, put it there, get it}.
  for _, case in ipairs{
    {"in a field", function(model, opt) model.second = opt end,
      function(model) return model.second end},
    {"in a list", function(model, opt) model.others = {opt} end,
      function(model) return model.others[1] end},
    {"of a layer", function(model, opt) model.first.own = opt end,
      function(model) return model.first.own end},
    {"of a model inside", function(model, opt)
      model.last:compile{optimizer = opt, loss = "mse"}
    end, function(model) return model.last.optimizer end},
    {"of ipu.train", function(model)
      local momentum = ipu.train.MomentumOptimizer(0.05, 0.9)
      model.second = ipu.optimizers.MapGradientOptimizer(momentum, function(g) return g * 0.5 end)
    end, function(model) return model.second end},
  } do
    it("has the state of a second optimizer " .. case[1], function()
      local put, get = case[2], case[3]
      local function fit(epochs)
        keras.utils.set_random_seed(2)
        local Two = keras.Model:extend("Two")
        function Two:init()
          keras.Model.init(self, {name = "two"})
          self.first, self.last = keras.layers.Dense(4), keras.Sequential{keras.layers.Dense(1)}
          put(self, keras.optimizers.Adam(0.05))
        end
        function Two:call(x) return self.last(self.first(x)) end
        function Two:train_step(x, y)
          local tape = ipu.GradientTape{persistent = true}
          local loss = tape(function()
            return self:compute_loss(x, y, self(x, {training = true}))
          end)
          for layer, optimizer in pairs{[self.first] = self.optimizer, [self.last] = get(self)} do
            local weights = layer.trainable_variables
            optimizer:apply_gradients(tape:gradient(loss, weights), weights)
          end
          return {loss = loss}
        end
        local model = Two()
        model:compile{optimizer = keras.optimizers.SGD{0.01, momentum = 0.9}, loss = "mse"}
        model:fit{ipu.reshape(ipu.linspace(0, 1, 60), {20, 3}), ipu.ones{20, 1}, batch_size = 4,
          epochs = epochs, verbose = 0,
          callbacks = {keras.callbacks.BackupAndRestore{folder .. "/b", delete_checkpoint = false}}}
        return {model.first:get_weights()[1]:totable(), model.last:get_weights()[1]:totable()}
      end
      ends_alike(fit)
    end)
  end

  -- Sums of gradients differ from replica to replica until an update is due. The model's own step
  -- gives each optimizer a part of the weights.
  for _, accumulates in ipairs{"optimizer", "second"} do
    it("has the sums of each replica, of an own step whose " .. accumulates .. " accumulates",
      function()
        local _ <close> = pipelines.device(2)
        local Two = keras.Model:extend("Two")
        function Two:init()
          keras.Model.init(self, {name = "two"})
          self.first, self.last = keras.layers.Dense(4), keras.layers.Dense(1)
        end
        function Two:call(x) return self.last(self.first(x)) end
        function Two:train_step(x, y)
          local loss = ipu.reduce_mean(ipu.square(self(x) - y))
          for _, part in ipairs{{self.first, self.optimizer}, {self.last, self.second}} do
            local weights = part[1].trainable_variables
            part[2]:apply_gradients(ipu.gradients(loss, weights), weights)
          end
          return {loss = loss}
        end
        local function fit(stop)
          keras.utils.set_random_seed(2)
          local _ <close> = ipu.IPUStrategy():scope()
          local model, optimizers, calls = Two(), {}, 0
          for _, name in ipairs{"optimizer", "second"} do
            optimizers[name] = keras.optimizers.SGD{0.01, momentum = 0.9}
          end
          optimizers[accumulates] =
            keras.optimizers.GradientAccumulationOptimizer(optimizers[accumulates], 4)
          model.second = optimizers.second
          model:compile{optimizer = optimizers.optimizer, loss = "mse"}
          local ok = pcall(model.fit, model, {ipu.random.normal({48, 3}, {seed = 1}),
            ipu.random.normal({48, 1}, {seed = 2}), batch_size = 2, epochs = 2, verbose = 0,
            callbacks = {keras.callbacks.BackupAndRestore{folder .. "/b", save_freq = 3},
              keras.callbacks.LambdaCallback{on_train_batch_end = function()
                calls = calls + 1
                if calls == stop then error "stop" end
              end}}})
          assert.equal(not stop, ok)
          return {model.first:get_weights()[1]:totable(), model.last:get_weights()[1]:totable()}
        end
        local whole = fit()
        fit(8)
        assert.same(whole, fit())
      end)
  end
end)

describe("ipu.train.Checkpoint", function()
  -- Four updates of w by w, at once or with a checkpoint after two. Three iterations make one of
  -- the accumulating optimizer.
  local train <const>, wrap <const> = ipu.train, ipu.optimizers
  for _, case in ipairs{
    {"CrossReplicaOptimizer", function(opt) return wrap.CrossReplicaOptimizer(opt) end},
    {"GradientAccumulationOptimizerV2", function(opt)
      return wrap.GradientAccumulationOptimizerV2(opt, {num_mini_batches = 3})
    end},
    {"MapGradientOptimizer", function(opt)
      return wrap.MapGradientOptimizer(wrap.ShardedOptimizer(opt), function(g) return g end)
    end},
  } do
    local name, make = case[1], case[2]
    it("has what an optimizer inside of " .. name .. " keeps", function()
      for _, inner in ipairs{function() return train.MomentumOptimizer(0.1, 0.9) end,
        function() return train.AdamOptimizer(0.1) end} do
        local function trained(...)
          local w
          for _, updates in ipairs{...} do
            local opt = make(inner())
            w = ipu.Variable(ipu.ones{3})
            local checkpoint = train.Checkpoint{opt = opt, w = w}
            if train.latest_checkpoint(folder) then checkpoint:restore(folder) end
            local step = ipu.func(function()
              for _ in ipu.range(3 * updates) do opt:apply_gradients{{w * 1, w}} end
            end)
            step()
            checkpoint:save(folder)
          end
          core.remove_folder(folder)
          return w:read_value():totable()
        end
        assert.same(trained(4), trained(2, 2))
      end
    end)
  end
end)
