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
end)
