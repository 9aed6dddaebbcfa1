-- A resumed training has the bits of one that was never interrupted. Cases have accumulated sums
-- that are half full, replicas, and random numbers and orders below and above caches.

local ipu = require "ipulua"
local log = require "ipulua.base.log"
local keras = ipu.keras
local layers, optimizers = keras.layers, keras.optimizers

local x, y = ipu.random.normal({96, 37}, {seed = 1}), ipu.random.normal({96, 5}, {seed = 2})

local function draws(a, b) return a + ipu.random.normal({37}, {seed = 7}), b end

local sources <const> = {
  ["tensors"] = function() return nil end,
  ["random numbers, a cache, an order"] = function(ds)
    return ds:map(draws):cache():shuffle(31, {seed = 3})
  end,
  ["an order, a cache, random numbers"] = function(ds) return ds:shuffle(31):cache():map(draws) end,
  ["a cache below and above an order"] = function(ds)
    return ds:cache():shuffle(31, {seed = 3}):map(draws):cache()
  end,
  ["a buffer"] = function(ds)
    return ipu.data.BufferDataset(ds:map(draws):shuffle(20), 96):prefetch(1)
  end,
  ["one order for all epochs"] = function(ds)
    return ds:map(draws):shuffle(31, {seed = 3, reshuffle_each_iteration = false})
  end,
}

local made <const> = {
  sgd = function() return optimizers.SGD(0.1) end,
  adam = function() return optimizers.Adam(0.01) end,
  accumulating = function()
    return optimizers.GradientAccumulationOptimizer(optimizers.SGD(0.1), 4)
  end,
  ["accumulating momenta"] = function()
    return optimizers.GradientAccumulationOptimizer(optimizers.SGD{0.1, momentum = 0.5}, 4)
  end,
}

local function fit(source, optimizer, epochs, folder)
  keras.utils.set_random_seed(1)
  local model = keras.Sequential{layers.Dropout{0.25, input_shape = {37}},
    layers.Dense{5, use_bias = false}}
  model:compile{loss = "mse", optimizer = made[optimizer](), steps_per_execution = 2}
  local o = {epochs = epochs, verbose = 0,
    callbacks = folder and {keras.callbacks.BackupAndRestore{folder, delete_checkpoint = false}}
    or nil}
  if source == "tensors" then o.x, o.y, o.batch_size = x, y, 8
  elseif source == "a short last batch" then o.x, o.y, o.batch_size = x[{1, 83}], y[{1, 83}], 8
  else
    o[1] = sources[source](ipu.data.from_tensor_slices{x, y}):batch(8, {drop_remainder = true})
  end
  model:fit(o)
  return model:get_weights()[1]
end

describe("a resumed training", function()
  local folder
  before_each(function()
    folder = os.tmpname()
    os.remove(folder)
  end)
  after_each(function()
    os.execute("rm -r " .. folder)
    ipu.reset_ipu_configuration()
  end)

  for replicas = 1, 2 do
    for source in pairs(sources) do
      for optimizer in pairs(made) do
        if source == "tensors" or optimizer == "adam" or replicas == 2
          and optimizer == "accumulating" then
          it(string.format("ends as one that went through: %s, %s, %d replicas", source, optimizer,
            replicas), function()
            local config = ipu.IPUConfig()
            config.auto_select_ipus = replicas
            config:configure_ipu_system()
            local whole = fit(source, optimizer, 4)
            fit(source, optimizer, 1, folder) -- 6 steps on each of two replicas: sums are half full
            fit(source, optimizer, 3, folder)
            local resumed = fit(source, optimizer, 4, folder)
            assert.equal(0, ipu.reduce_max(ipu.abs(whole - resumed)):item())
          end)
        end
      end
    end
  end

  -- The script ends between the last epoch and the end of training.
  it("that a callback had ended trains no more", function()
    local function trained(ends)
      keras.utils.set_random_seed(1)
      local Stop = keras.callbacks.Callback:extend "Stop"
      local End = keras.callbacks.Callback:extend "End"
      function Stop:on_epoch_end(epoch) if epoch == 1 then self.model.stop_training = true end end
      function End:on_train_end() if ends then error "the end" end end -- luacheck: ignore 212
      local model = keras.Sequential{layers.Dense{5, input_shape = {37}}}
      model:compile{loss = "mse", optimizer = "sgd"}
      local ran = 0
      local Count = keras.callbacks.Callback:extend "Count"
      function Count:on_epoch_begin() ran = ran + 1 end -- luacheck: ignore 212
      local ok = pcall(model.fit, model, {x = x, y = y, batch_size = 8, epochs = 5, verbose = 0,
        callbacks = {Stop(), Count(), keras.callbacks.BackupAndRestore{folder,
          delete_checkpoint = false}, End()}})
      assert.equal(not ends, ok)
      return ran, model:get_weights()[1]:totable()
    end
    local ran, before = trained(true)
    assert.equal(2, ran)
    local again, after = trained(false)
    assert.equal(0, again)
    assert.same(before, after)
  end)

  it("gives a callback the state of its own kind alone, and says which begins anew", function()
    local lines = {}
    local former <const> = log.set_writer(function(line) lines[#lines + 1] = line end)
    finally(function() log.set_writer(former) end)
    local function trained(name, epochs)
      local Kind, given = keras.callbacks.Callback:extend(name), {}
      function Kind:get_state() return {of = name} end -- luacheck: ignore 212
      function Kind:set_state(state) given[#given + 1] = state.of end -- luacheck: ignore 212
      local model = keras.Sequential{layers.Dense{5, input_shape = {37}}}
      model:compile{loss = "mse", optimizer = "sgd"}
      model:fit{x = x, y = y, batch_size = 8, epochs = epochs, verbose = 0,
        callbacks = {Kind(), keras.callbacks.BackupAndRestore{folder, delete_checkpoint = false}}}
      return given
    end
    assert.same({}, trained("First", 1))
    assert.same({"First"}, trained("First", 2))
    assert.same({}, lines)
    assert.same({}, trained("Second", 3))
    assert.equal(1, #lines)
    assert.matches("callback 1 is Second; the interrupted run had First there, so it begins anew",
      lines[1])
  end)

  -- The program of a short batch draws numbers of its own.
  it("ends as one that went through: the last batch is short", function()
    local whole = fit("a short last batch", "sgd", 4)
    fit("a short last batch", "sgd", 2, folder)
    local resumed = fit("a short last batch", "sgd", 4, folder)
    assert.equal(0, ipu.reduce_max(ipu.abs(whole - resumed)):item())
  end)
end)
