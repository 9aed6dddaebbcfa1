-- A model keeps the programs of the shapes that it met last, over all of its runs.

local ipu = require "ipulua"
local keras = ipu.keras

describe("a model's programs", function()
  local model, weights
  before_each(function()
    ipu.reset_ipu_configuration() -- programs are counted from here
    model = keras.Sequential{keras.layers.Dense{1, input_shape = {2}}}
    model:compile{loss = "mse", optimizer = "sgd", max_programs = 4}
    weights = {ipu.tensor{{2}, {3}}, ipu.tensor{1}}
    model:set_weights(weights)
  end)

  -- Compilations by f for batches of these sizes.
  local function compiled(sizes, f)
    local before = #ipu.programs()
    for _, n in ipairs(sizes) do f(n) end
    return #ipu.programs() - before
  end

  -- 2 i + 3 * 2 + 1 for row i
  local function predict(n)
    local rows = {}
    for i = 1, n do rows[i] = {i, 2} end
    local y = model:predict(ipu.tensor(rows), {batch_size = n, verbose = 0})
    for i = 1, n do assert.equal(2 * i + 7, y[i][1]:item()) end
  end

  it("are for the shapes that predict met last", function()
    assert.equal(4, compiled({1, 2, 3, 4}, predict))
    assert.equal(0, compiled({1, 2, 3, 4}, predict))
    assert.equal(1, compiled({5}, predict)) -- in the place of 1
    assert.equal(0, compiled({3, 4, 5}, predict))
    assert.equal(1, compiled({1}, predict)) -- in the place of 2
    assert.equal(0, compiled({3, 4, 5, 1}, predict))
  end)

  it("of fit and of evaluate are others, with the results of a model that keeps all", function()
    local function trained(most)
      model = keras.Sequential{keras.layers.Dense{1, input_shape = {2}}}
      model:compile{loss = "mse", optimizer = keras.optimizers.SGD{0.01, momentum = 0.9},
        max_programs = most}
      model:set_weights(weights)
      local losses = {}
      for _ = 1, 2 do
        for n = 1, 7 do
          local x = ipu.reshape(ipu.arange(2.0 * n) / 10, {n, 2})
          local y = ipu.reduce_sum(x, {axis = 1, keepdims = true})
          model:fit(x, y, {batch_size = n, verbose = 0})
          losses[#losses + 1] = model:evaluate(x, y, {batch_size = n, verbose = 0})
        end
      end
      return losses
    end
    local all = trained(64)
    assert.equal(14, #all)
    assert.is_true(all[14] < all[1])
    assert.same(all, trained(2))
  end)

  it("are not taken from a run that is open", function()
    local sizes = {}
    local inner = keras.callbacks.LambdaCallback{on_predict_batch_end = function()
      for n = 1, 6 do
        local y = model:predict(ipu.ones{n, 2}, {batch_size = n, verbose = 0})
        sizes[#sizes + 1] = y.shape[1]
      end
    end}
    local y = model:predict(ipu.ones{30, 2}, {batch_size = 10, verbose = 0, callbacks = {inner}})
    assert.equal(30, y.shape[1])
    assert.equal(6.0, y[30][1]:item())
    assert.same({1, 2, 3, 4, 5, 6}, {table.unpack(sizes, 1, 6)})
  end)

  it("of single batches are no more", function()
    local function train(n) model:train_on_batch(ipu.ones{n, 2}, ipu.ones{n, 1}) end
    local function outputs(n) model:predict_on_batch(ipu.ones{n, 2}) end
    for _, f in ipairs{train, outputs} do
      assert.equal(5, compiled({1, 2, 3, 4, 5}, f))
      assert.equal(0, compiled({2, 3, 4, 5}, f))
      assert.equal(1, compiled({1}, f))
    end
  end)
end)

-- The losses of dropout over 100 ones: how many of them it kept.
describe("a program that is made anew", function()
  local function model_of(options)
    ipu.random.set_seed(7)
    local model = keras.Sequential{
      keras.layers.Dropout{0.5, seed = options.seed},
      keras.layers.Dense{1, kernel_initializer = "ones"},
    }
    model:compile{loss = "mae", optimizer = keras.optimizers.SGD{0, momentum = 0.5},
      max_programs = options.most, run_eagerly = options.eagerly,
      steps_per_execution = options.per_execution}
    return model
  end

  local function fitted(options)
    local model, losses = model_of(options), {}
    for i = 0, 8 do
      local n = i % 3 + 1
      losses[i + 1] = model:fit(ipu.ones{n, 100}, ipu.zeros{n, 1},
        {batch_size = n, verbose = 0}).history.loss[1]
    end
    return losses
  end

  -- Executions of two steps and of one: the number of batches isn't known before.
  local function fitted_with_rest(options)
    options.per_execution = 2
    local model, losses = model_of(options), {}
    for i = 0, 8 do
      local n = i % 3 + 1
      local ds = ipu.data.from_tensor_slices{ipu.ones{3 * n, 100}, ipu.zeros{3 * n, 1}}
      losses[i + 1] = model:fit(ds:take_while(function() return true end):batch(n),
        {verbose = 0}).history.loss[1]
    end
    return losses
  end

  local function fitted_with_momentum(options)
    local model = model_of(options)
    local set = keras.callbacks.LambdaCallback{on_epoch_begin = function(epoch)
      if options.sets then model.optimizer.momentum = 0.1 * epoch end
    end}
    return model:fit(ipu.ones{6, 100}, ipu.zeros{6, 1},
      {batch_size = 2, epochs = 5, verbose = 0, callbacks = {set}}).history.loss
  end

  local function by_batches(options)
    local model, losses = model_of(options), {}
    for i = 1, 6 do
      if options.sets then model.optimizer.momentum = 0.1 * i end
      losses[i] = model:train_on_batch(ipu.ones{2, 100}, ipu.zeros{2, 1})
    end
    return losses
  end

  local function distinct(list)
    local seen, count = {}, 0
    for _, value in ipairs(list) do
      if not seen[value] then seen[value], count = true, count + 1 end
    end
    return count
  end

  for _, seed in ipairs{false, 3} do
    for _, eagerly in ipairs{false, true} do
      it("draws on" .. (seed and ", with a seed" or "") .. (eagerly and ", eagerly" or ""),
        function()
          local function given(more)
            more.seed, more.eagerly = seed or nil, eagerly
            return more
          end
          for _, f in ipairs{fitted, fitted_with_rest} do
            local all = f(given{most = 64})
            assert.is_true(distinct(all) > 5)
            assert.same(all, f(given{most = 2}))
            assert.same(all, f(given{most = 1}))
          end
          for _, f in ipairs{fitted_with_momentum, by_batches} do
            local plain = f(given{})
            assert.is_true(distinct(plain) > 3)
            assert.same(plain, f(given{sets = true}))
          end
        end)
    end
  end
end)
