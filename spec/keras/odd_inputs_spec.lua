-- Layers of unusual inputs: no sample, infinities, statistics along another axis than the last,
-- values that were learnt after a program had been made.

local ipu = require "ipulua"
local keras = ipu.keras
local L = keras.layers

local inf <const> = math.huge

describe("a batch without samples", function()
  it("keeps the extents of a sample", function()
    local none = ipu.zeros{0, 3, 4}
    assert.same({0, 12}, L.Flatten()(none).shape)
    assert.same({0, 12}, L.Flatten{data_format = "channels_first"}(none).shape)
    assert.same({0, 12}, L.Reshape{-1}(none).shape)
    assert.same({0, 2, 6}, L.Reshape{2, -1}(none).shape)
    assert.same({0, 2}, L.Dense(2)(L.Flatten()(none)).shape)
    assert.has_error(function() L.Reshape{5, -1}(none) end)
    assert.has_error(function() L.Reshape{5}(none) end)
  end)
end)

describe("an infinite value", function()
  it("is 0 where a layer or constraint leaves it out", function()
    assert.same({0, 0, 3}, L.ThresholdedReLU(1)(ipu.tensor{-inf, 0.5, 3}):totable())
    assert.same({0, 0, 3, inf},
      keras.constraints.NonNeg()(ipu.tensor{-inf, -0.5, 3, inf}):totable())
    for _, value in ipairs{inf, -inf} do
      local y = L.Masking{mask_value = value}(ipu.tensor{{{value, value}, {1, value}}})
      assert.same({{{0, 0}, {1, value}}}, y:totable())
    end
  end)

  it("that is no number stays visible", function()
    local y = keras.constraints.NonNeg()(ipu.tensor{0 / 0, -1}):totable()
    assert.is_true(y[1] ~= y[1])
    assert.equal(0, y[2])
    y = L.ThresholdedReLU(1)(ipu.tensor{0 / 0, -1}):totable()
    assert.is_true(y[1] ~= y[1])
  end)
end)

describe("Normalization", function()
  -- x[b][i][j] = 100 b + 10 i + j
  local function numbers(extents)
    local list = {}
    for b = 1, 2 do
      list[b] = {}
      for i = 1, extents[1] do
        list[b][i] = {}
        for j = 1, extents[2] do list[b][i][j] = 100 * b + 10 * i + j end
      end
    end
    return list
  end

  for _, extents in ipairs{{3, 3}, {3, 5}} do
    local shape <const> = table.concat(extents, ", ")
    it("has a given mean for each place of its axis: [batch, " .. shape .. "]", function()
      local x = numbers(extents)
      local mean, variance = {5, -7, 11}, {1, 4, 16}
      local y = L.Normalization{axis = 1, mean = mean, variance = variance}(ipu.tensor(x)):totable()
      for b = 1, 2 do
        for i = 1, extents[1] do
          for j = 1, extents[2] do
            assert.is_near((x[b][i][j] - mean[i]) / math.sqrt(variance[i]), y[b][i][j], 1e-4)
          end
        end
      end
    end)
  end

  it("takes one number for several axes, or a number for each place of them", function()
    local x = numbers{2, 2}
    local places = {{1, 2}, {3, 4}}
    for _, axis in ipairs{{1, 2}, {-1, -2}} do
      local y = L.Normalization{axis = axis, mean = places, variance = 4}(ipu.tensor(x)):totable()
      for b = 1, 2 do
        for i = 1, 2 do
          for j = 1, 2 do assert.is_near((x[b][i][j] - places[i][j]) / 2, y[b][i][j], 1e-5) end
        end
      end
    end
  end)

  it("is the same after saving", function()
    local i = keras.Input{shape = {3, 5}}
    local m = keras.Model{inputs = i,
      outputs = L.Normalization{axis = 1, mean = {1, 2, 3}, variance = {4, 5, 6}}(i)}
    local copy = keras.models.model_from_json(m:to_json())
    local x = ipu.tensor(numbers{3, 5})
    assert.same(m:predict(x):totable(), copy:predict(x):totable())
  end)
end)

describe("a value that a layer learns after a program was made", function()
  local function normalization(l) return l:adapt(ipu.tensor{{10, 20}, {30, 60}}) end
  local function lookup(l) return l:set_vocabulary{9, 6, 5} end
  local function adapted(l) return l:adapt(ipu.tensor({9, 9, 9, 6, 6, 5}, {dtype = "int32"})) end
  local cases = {
    {"Normalization", {2}, "float32", {{20, 80}}, {{0, 2}}, normalization, function()
      local l = L.Normalization()
      l:adapt(ipu.tensor{{1, 2}, {3, 4}})
      return l
    end},
    {"IntegerLookup", {3}, "int32", {{5, 6, 9}}, {{3, 2, 1}}, lookup,
      function() return L.IntegerLookup{vocabulary = {5, 6, 7}} end},
    {"adapted IntegerLookup", {3}, "int32", {{5, 6, 9}}, {{3, 2, 1}}, adapted,
      function() return L.IntegerLookup{vocabulary = {5, 6, 7}} end},
  }
  for _, case in ipairs(cases) do
    local name, shape, dtype, given, wanted, change, make = table.unpack(case)
    it("holds for the next call: " .. name, function()
      local layer, i = make(), keras.Input{shape = shape, dtype = dtype}
      local m = keras.Model{inputs = i, outputs = layer(i)}
      m:compile{loss = "mse"}
      local x, y = ipu.tensor(given, {dtype = dtype}), ipu.tensor(wanted, {dtype = "float32"})
      local f = ipu.func(function(t) return layer(t) end)
      f(x)
      m:predict(x)
      m:predict_on_batch(x)
      assert.is_true(m:evaluate(x, y, {verbose = 0}) > 0)
      change(layer)
      for _, got in ipairs{layer(x), f(x), m(x), m:predict(x), m:predict_on_batch(x)} do
        assert.same(wanted, got:totable())
      end
      assert.equal(0, m:evaluate(x, y, {verbose = 0}))
    end)
  end
end)

describe("Dot", function()
  it("refuses the axis of the batch, and one that isn't there", function()
    for axes, named in pairs{[0] = "got 0", [-2] = "got %-2", [2] = "got 2"} do
      local fine, why = pcall(L.Dot{axes = axes}, {ipu.ones{3, 3}, ipu.ones{3, 3}})
      assert.is_false(fine)
      assert.matches(named, why)
    end
  end)
end)

describe("AlphaDropout", function()
  it("takes an extent of the input for one of the noise that is -1, as Dropout does", function()
    for _, name in ipairs{"AlphaDropout", "Dropout"} do
      local y = L[name]{0.5, noise_shape = {-1, 1}, seed = 3}(ipu.ones{64, 3}, {training = true})
      local same = ipu.reduce_max(y, {axis = 1}) - ipu.reduce_min(y, {axis = 1})
      assert.equal(0, ipu.reduce_max(same):item())
      assert.is_true(ipu.reduce_max(y):item() > ipu.reduce_min(y):item())
    end
  end)
end)
