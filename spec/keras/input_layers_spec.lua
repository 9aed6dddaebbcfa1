-- Layers that prepare inputs, beside plain Lua; class numbers of 64 bits.

local input_layers = require "spec.support.input_layers"
local ipu = require "ipulua"

local keras = ipu.keras
local layers = keras.layers

local function int64(list) return ipu.tensor(list, {dtype = "int64"}) end

describe("a random layer for inputs", function()
  for first = 1, 300, 100 do
    it("gives what is computed number by number, in all forms, seeds " .. first .. " to "
      .. first + 99, function()
      for seed = first, first + 99 do
        local wrong, text = input_layers.check(seed)
        assert.same({}, wrong, text)
      end
    end)
  end
end)

describe("an InputLayer", function()
  it("has its shape by position, too, and is kept in a config", function()
    for i, input in ipairs{layers.InputLayer{6, 2}, layers.InputLayer({6, 2}, {batch_size = 5}),
      layers.InputLayer{input_shape = {6, 2}}} do
      local model = keras.Sequential{input, layers.Flatten(), layers.Dense(3)}
      assert.equal(12 * 3 + 3, model:count_params())
      assert.same({i == 2 and 5 or -1, 6, 2}, {table.unpack(model.input_shape)})
      assert.equal(39, keras.models.model_from_json(model:to_json()):count_params())
    end
  end)
end)

describe("a class number that int32 can't hold", function()
  -- the last bits of all are equal to 1's
  local ids <const> = {1, (1 << 32) + 1, -(1 << 40) + 1, (1 << 62) + 1}

  it("is none, rather than one that its last bits name", function()
    assert.same({{0, 1, 0}, {0, 0, 0}, {0, 0, 0}, {0, 0, 0}},
      layers.CategoryEncoding{3, output_mode = "one_hot"}(int64(ids)):totable())
    assert.same({2, 0, 0, 1}, layers.IntegerLookup{vocabulary = {5, 1}, num_oov_indices = 1}(
      int64{1, (1 << 32) + 1, -(1 << 40) + 1, 5}):totable())
    for _, id in ipairs{ids[2], (1 << 62) + 1} do
      assert.is_false(pcall(layers.Embedding(4, 2), int64{1, id}))
      assert.is_false(pcall(keras.utils.to_categorical, int64{1, id}, 3))
      local ds = ipu.data.from_tensor_slices{int64{{1}, {id}}, ipu.ones{2, 1}}:batch(2)
      local model = keras.Sequential{layers.Embedding(4, 2), layers.Flatten(), layers.Dense(1)}
      model:compile{loss = "mse", optimizer = "sgd"}
      local fine, why = pcall(model.fit, model, ds, {verbose = 0})
      assert.is_false(fine)
      assert.matches("outside 0 … 3", why)
    end
    local y, p = int64{1, ids[2]}, ipu.tensor{{0.2, 0.8}, {0.2, 0.8}}
    assert.equal(0.5, keras.metrics.SparseCategoricalAccuracy()(y, p):item())
    assert.is_false(pcall(keras.losses.sparse_categorical_crossentropy, y, p))
  end)

  it("is refused in a vocabulary", function()
    for _, given in ipairs{{1 << 40}, int64{1 << 40}, int64{(1 << 32) + 12}} do
      local fine, why = pcall(layers.IntegerLookup, {vocabulary = given})
      assert.is_false(fine)
      assert.matches("holds int32; entry 1 is", why)
    end
    local fine, why = pcall(function() layers.IntegerLookup():adapt(int64{1 << 40}) end)
    assert.is_false(fine)
    assert.matches("holds int32", why)
  end)
end)
