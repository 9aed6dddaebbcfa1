-- Values that layers learn by adapt, in files of weights, checkpoints and traced functions.

local command = require "spec.support.command"
local ipu = require "ipulua"
local log = require "ipulua.base.log"

local keras, layers, data = ipu.keras, ipu.keras.layers, ipu.data

-- (x - mean) / deviation of 1, 2 and 5, whose sum the dense layer gives. The mean of 0 and 2k is k,
-- and so is the deviation.
local x <const> = ipu.tensor{{1, 2, 5}}
local function sum_by(k) return 8 / k - 3 end

local function normalised(k, name)
  local layer <const> = layers.Normalization{name = name}
  layer:adapt(ipu.tensor{{0, 0, 0}, {2 * k, 2 * k, 2 * k}})
  return keras.Sequential{keras.Input{shape = {3}}, layer,
    layers.Dense{1, kernel_initializer = "ones", name = name and name .. "_sum"}}, layer
end

local function result(m) return m:predict(x):item() end

-- Numbers of a vocabulary, and bins.
local function looked_up(words, weights, most)
  local i, f = keras.Input{shape = {3}, dtype = "int32"}, keras.Input{shape = {1}}
  local lookup = layers.IntegerLookup{vocabulary = words, output_mode = "tf_idf",
    idf_weights = weights}
  local bins = layers.Discretization{num_bins = 4}
  bins:adapt(ipu.cast(ipu.arange(most), "float32"))
  return keras.Model{inputs = {i, f}, outputs = {lookup(i), bins(f)}}
end

local function numbers(m)
  local y <const> = m:predict{ipu.tensor({{7, 7, 2}}, {dtype = "int32"}), ipu.tensor{{17}}}
  return {y[1]:totable()[1], y[2]:item()}
end

describe("learnt values", function()
  local folder
  before_each(function() folder = command.folder() end)
  after_each(function() command.remove(folder) end)

  for _, ending in ipairs{".safetensors", ".npz"} do
    it("come back with weights in " .. ending, function()
      local path <const> = folder .. "/w" .. ending
      local m = normalised(2)
      assert.near(sum_by(2), result(m), 1e-6)
      m:save_weights(path)
      local other = normalised(10)
      assert.near(sum_by(10), result(other), 1e-6)
      other:load_weights(path)
      assert.near(sum_by(2), result(other), 1e-6)
    end)

    it("of vocabularies and boundaries, too, in " .. ending, function()
      local path <const> = folder .. "/w" .. ending
      looked_up({7, 1, 2}, {0.5, 1, 2}, 400):save_weights(path)
      local other = looked_up({1, 2, 3}, {4, 4, 4}, 40)
      assert.same({{8, 0, 4, 0}, 1}, numbers(other)) -- unknown values count their mean
      other:load_weights(path)
      assert.same({{0, 1, 0, 2}, 0}, numbers(other))
    end)
  end

  it("come back from a whole model's file as from one of weights", function()
    local path <const> = folder .. "/m.safetensors"
    normalised(2):save(path)
    assert.near(sum_by(2), result(keras.models.load_model(path)), 1e-6)
    local other = normalised(10)
    other:load_weights(path)
    assert.near(sum_by(2), result(other), 1e-6)
  end)

  it("come back to models that were made before anything was learnt", function()
    local path <const> = folder .. "/w.safetensors"
    normalised(2):save_weights(path)
    local m = keras.Sequential{keras.Input{shape = {3}}, layers.Normalization(), layers.Dense(1)}
    assert.error_matches(function() result(m) end, "its mean and variance are unknown")
    m:load_weights(path)
    assert.near(sum_by(2), result(m), 1e-6)

    local function make(learn)
      local i, f = keras.Input{shape = {2}, dtype = "int32"}, keras.Input{shape = {1}}
      local lookup, wide = layers.IntegerLookup(), layers.IntegerLookup{output_mode = "count",
        max_tokens = 4, pad_to_max_tokens = true}
      local bins = layers.Discretization{num_bins = 4, output_mode = "one_hot"}
      local model = keras.Model{inputs = {i, f}, outputs = {lookup(i), wide(i), bins(f)}}
      if learn then
        lookup:adapt(ipu.tensor({5, 5, 9}, {dtype = "int32"}))
        wide:adapt(ipu.tensor({5, 5, 9}, {dtype = "int32"}))
        bins:adapt(ipu.tensor{0, 10, 20, 30})
      end
      return model
    end
    make(true):save_weights(path)
    local other = make(false)
    local given <const> = {ipu.tensor({{9, 5}}, {dtype = "int32"}), ipu.tensor{{40}}}
    assert.error_matches(function() other:predict(given) end, "unknown; ")
    other:load_weights(path)
    local y <const> = other:predict(given)
    assert.same({{2, 1}}, y[1]:totable())
    assert.same({{0, 1, 1, 0}}, y[2]:totable())
    assert.same({{0, 0, 0, 1}}, y[3]:totable())
  end)

  it("come back with a subclass that makes its layers anew", function()
    local path <const> = folder .. "/m.safetensors"
    local Net = keras.Model:extend("Net")
    function Net:init()
      keras.Model.init(self, {name = "net"})
      self.norm, self.numbers = layers.Normalization(), layers.IntegerLookup{output_mode = "count"}
      self.sum = layers.Dense(1)
    end
    function Net:call(v)
      return self.sum(ipu.concat({self.norm(v), self.numbers(ipu.cast(v, "int32"))}, {axis = -1}))
    end
    function Net.get_config() return {} end
    function Net.from_config() return Net() end
    local m = Net()
    m.norm:adapt(ipu.tensor{{0, 0, 0}, {4, 4, 4}})
    m.numbers:adapt(ipu.tensor({1, 5, 5}, {dtype = "int32"}))
    local want <const> = result(m)
    m:save(path)
    assert.equal(want, result(keras.models.load_model(path, {custom_objects = {Net = Net}})))
  end)

  it("that are there already leave programs as they are", function()
    local path <const> = folder .. "/m.safetensors"
    local m, runs = normalised(2), 0
    local f = ipu.func(function(v)
      runs = runs + 1
      return v + 1
    end)
    f(x)
    m:save(path)
    m:load_weights(path)
    keras.models.load_model(path)
    f(x)
    assert.equal(1, runs)
    normalised(10):load_weights(path)
    f(x)
    assert.equal(2, runs)
  end)

  it("come back by name, and stay where a file has none of that name", function()
    local path <const> = folder .. "/w.safetensors"
    normalised(2, "n"):save_weights(path)
    local same, other = normalised(10, "n"), normalised(10, "other")
    same:load_weights(path, {by_name = true})
    other:load_weights(path, {by_name = true})
    assert.near(sum_by(2), result(same), 1e-6)
    assert.near(sum_by(10), result(other), 1e-6)
  end)

  it("come back from a checkpoint, of a model and of a layer alone", function()
    local m, layer = normalised(2), layers.Normalization{mean = 1, variance = 4}
    ipu.train.Checkpoint{net = m, alone = layer}:save(folder)
    local other, its = normalised(10), layers.Normalization{mean = 0, variance = 1}
    ipu.train.Checkpoint{net = other, alone = its}:restore(folder)
    assert.near(sum_by(2), result(other), 1e-6)
    assert.same({{0, 0.5, 2}}, its(x):totable())
  end)

  it("stay as they are where a file has weights alone, as older files do", function()
    local path <const> = folder .. "/w.safetensors"
    local m = normalised(2, "n")
    ipu.save(path, {["n_sum/kernel"] = ipu.ones{3, 1}, ["n_sum/bias"] = ipu.ones{1}})
    m:load_weights(path)
    assert.near(sum_by(2) + 1, result(m), 1e-6)
  end)

  it("are refused where they don't fit, and nothing is changed", function()
    local path <const> = folder .. "/w.safetensors"
    local m = normalised(2, "n")
    local function refused(t, words)
      t["n_sum/kernel"], t["n_sum/bias"] = ipu.zeros{3, 1}, ipu.zeros{1}
      ipu.save(path, t)
      assert.error_matches(function() m:load_weights(path) end, words)
      assert.near(sum_by(2), result(m), 1e-6)
    end
    refused({["n/mean:learnt"] = ipu.ones{2}, ["n/variance:learnt"] = ipu.ones{3}},
      "layer 'n': the mean has 2 features in the file, 3 in the model")
    refused({["n/mean:learnt"] = ipu.ones{3}}, "layer 'n': the file has no variance")
    refused({["o/mean:learnt"] = ipu.ones{3}, ["n/kernel"] = ipu.ones{3}},
      "the model has no place for the file's weight")
  end)

  local ds <const> = data.from_tensors(ipu.tensor{1, 2, 5})
  local function after_another(make)
    local _, layer = normalised(2, "n")
    return log.capture("warn", function()
      make(layer)
      layer:adapt(ipu.zeros{2, 3})
    end)
  end

  it("of a dataset's function are told to be former ones when they change", function()
    local told = after_another(function(layer) ds:batch(1):map(function(v) return layer(v) end) end)
    assert.matches("layer 'n' has learnt other values, but a dataset's function was made with the "
      .. "former ones and keeps them", table.concat(told))
  end)

  it("of a session's graph, too", function()
    local told = after_another(function(layer) layer(ipu.placeholder("float32", {1, 3})) end)
    assert.matches("but the graph of sessions was made", table.concat(told))
    told = after_another(function(layer)
      ipu.ipu_compiler.compile(function(v) return layer(v) end,
        {ipu.placeholder("float32", {1, 3})})
    end)
    assert.matches("but the graph of sessions was made", table.concat(told))
  end)

  it("change without a word in functions that are traced again", function()
    local f
    local told = after_another(function(layer)
      f = ipu.func(function(v) return layer(v) end)
      f(x)
    end)
    assert.same({}, told)
    assert.same({{1e7, 2e7, 5e7}}, f(x):totable()) -- the deviation is 1e-7 at least
  end)
end)
