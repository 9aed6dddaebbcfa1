-- ipu.estimate: what it takes for a model, and what its inputs say.
local ipu = require "ipulua"

local keras <const>, layers <const> = ipu.keras, ipu.keras.layers

local function compiled(list, options)
  local model = keras.Sequential(list)
  options.optimizer, options.loss = "sgd", "mse"
  model:compile(options)
  return model
end

-- A weight update of one layer, 3 to 4 units.
local function small(options)
  return compiled({layers.Dense{4, input_shape = {3}}}, options or {})
end

describe("an estimate", function()
  before_each(ipu.reset_ipu_configuration)

  it("of a model that runs eagerly equals the price of its compiled step", function()
    local eager = small{run_eagerly = true}
    for _, training in ipairs{true, false} do
      local e = ipu.estimate(eager, {batch_size = 8, training = training})
      local expected = ipu.estimate(small(), {batch_size = 8, training = training})
      assert.equal(expected.cycles.total, e.cycles.total)
      assert.equal(expected.ops, e.ops)
      assert.is_true(e.flops >= 2 * 8 * 3 * 4)
    end
    assert.is_true(eager.run_eagerly)
    assert.equal(1, #eager:fit(ipu.zeros{8, 3}, ipu.zeros{8, 4}, {verbose = 0}).history.loss)
  end)

  it("of a function that returns a model takes inputs for the model's", function()
    local function unbuilt() return compiled({layers.Dense{4}}, {}) end
    local e = ipu.estimate(unbuilt, {inputs = {8, 3}})
    assert.equal((8 * 3 + 8 * 4) * 4 + 4, e.streamed_bytes) -- samples, labels, the loss
    local expected = ipu.estimate(small(), {batch_size = 8})
    assert.equal(expected.cycles.total, e.cycles.total)
    local function refused(words, f)
      local ok, message = pcall(ipu.estimate, f, {batch_size = 8, inputs = {16, 3}})
      assert.is_false(ok)
      assert.truthy(message:find(words, 1, true), message)
    end
    refused("'batch_size' is 8, but 'inputs' describes 16 samples", function() return small() end)
    refused("a function that returns a model takes nothing", function(_) return small() end)
  end)

  -- Bytes from the host: samples, and labels of 4 bytes each; the loss goes back, and the losses
  -- of two outputs. Classes are one number a sample.
  it("has labels in the form of the losses, however these are given", function()
    local named <const> = {class_name = "SparseCategoricalCrossentropy"}
    local Mine = keras.losses.SparseCategoricalCrossentropy:extend "Mine"
    local function streamed(outputs, loss)
      local input = keras.Input{shape = {8}}
      local model = keras.Model{inputs = input, outputs = outputs(input)}
      model:compile{optimizer = "sgd", loss = loss}
      return ipu.estimate(model, {batch_size = 4}).streamed_bytes
    end
    local function one(x) return layers.Dense(10)(x) end
    for _, loss in ipairs{named, Mine(), keras.losses.sparse_categorical_crossentropy,
      "SparseCategoricalCrossentropy"} do
      assert.equal(4 * (8 + 1) * 4 + 4, streamed(one, loss))
    end
    assert.equal(4 * (8 + 10) * 4 + 4, streamed(one, {class_name = "MeanSquaredError"}))
    local function two(x) return {a = layers.Dense(10)(x), b = layers.Dense(3)(x)} end
    assert.equal(4 * (8 + 1 + 3) * 4 + 3 * 4, streamed(two, {a = named, b = "mse"}))
    assert.equal(4 * (8 + 10 + 1) * 4 + 3 * 4, streamed(two, {a = "mse", b = named}))
  end)

  it("takes {} among inputs for a number's shape", function()
    local e = ipu.estimate(function(x, y) return x * y end, {inputs = {{}, {5}}})
    assert.equal((1 + 5 + 5) * 4, e.streamed_bytes)
    assert.equal(5, e.flops)
  end)
end)
