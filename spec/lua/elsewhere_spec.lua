-- Names from other libraries: the hints of errors give the name here.

local core = require "ipulua.core"
local ipu = require "ipulua"
local elsewhere = require "ipulua.base.elsewhere"

-- The value of "keras.layers.Dense" or "reduce_sum", looked for in a module, then in ipu; nil when
-- it is nowhere.
local function find(module, path)
  for _, root in ipairs{module, ipu} do
    local value = root
    for name in path:gmatch("[%w_]+") do
      local ok, field = pcall(function() return value[name] end)
      value = ok and field or nil
      if value == nil then break end
    end
    if value ~= nil then return value end
  end
  return nil
end

local modules <const> = {
  ipu = ipu, ["ipu.nn"] = ipu.nn, ["ipu.random"] = ipu.random, ["ipu.data"] = ipu.data,
  ["ipu.linalg"] = ipu.linalg, ["ipu.image"] = ipu.image,
  ["keras.mixed_precision"] = ipu.keras.mixed_precision,
  ["keras.preprocessing.image"] = ipu.keras.preprocessing.image,
  keras = ipu.keras,
  ["keras.layers"] = ipu.keras.layers, ["keras.losses"] = ipu.keras.losses,
  ["keras.metrics"] = ipu.keras.metrics,
}

describe("a name of another library", function()
  for module, names in pairs(elsewhere.names) do
    it("stands for something that is there: " .. module, function()
      for other, name in pairs(names) do
        local path = name:gsub("^ipu%.", ""):match("^[%w_.]+")
        local is_words = name:find("itself") or name:find(":")
        assert.is_truthy(is_words or find(modules[module], path),
          module .. "." .. other .. " → " .. name)
        assert.is_nil(rawget(modules[module], other), module .. "." .. other .. " is there itself")
      end
    end)
  end

  it("is no method of tensors where another is named", function()
    local t = ipu.ones{2}
    for other, name in pairs(elsewhere.ops) do
      local row = core.describe_op(name)
      local is_short = row ~= nil and row.method == other -- x:sum()
      assert.equal(is_short, pcall(function() return t[other] end), other)
      assert.is_truthy(t[name], name)
    end
  end)
end)

describe("a module of Graphcore's TensorFlow", function()
  it("names something that stands in ipu itself", function()
    for other, name in pairs(elsewhere.flattened) do
      assert.is_truthy(find(ipu, name), other .. " → " .. name)
      assert.is_nil(rawget(ipu, other), other .. " is there itself")
    end
  end)

  it("is refused with the name of the same thing here, not with one that is spelt alike", function()
    local ok, message = pcall(function() return ipu.config.IPUConfig() end)
    assert.is_false(ok)
    assert.truthy(message:find("ipu has no 'config'; .*: ipu%.IPUConfig, for example$"), message)
    assert.is_nil(message:find("configure_ipu_system", 1, true))
  end)
end)

describe("#dataset", function()
  it("is its number of elements", function()
    assert.equal(3, #ipu.data.range(3))
    assert.equal(2, #ipu.data.range(5):batch(2, true))
  end)

  it("has its makers in the class, too", function()
    local ds = ipu.data.Dataset.from_tensor_slices{ipu.ones{4, 2}, ipu.zeros{4}}
    assert.equal(4, #ds)
    assert.equal(3, #ipu.data.Dataset.range(3))
  end)
end)

describe("an argument of another library", function()
  local keras = ipu.keras
  local layers = keras.layers

  local cases <const> = {
    {"axis", function() return ipu.reduce_sum(ipu.ones{2}, {dim = 0}) end},
    {"axis", function() return ipu.ones{2}:argmax{dim = 0} end},
    {"keepdims", function() return ipu.reduce_sum(ipu.ones{2}, {keepdim = true}) end},
    {"axis", function() return ipu.concat({ipu.ones{2}}, {dim = 0}) end},
    {"direction", function() return ipu.sort(ipu.ones{2}, {descending = true}) end},
    {"ksize", function()
      return ipu.nn.max_pool(ipu.ones{1, 2, 2, 1}, {kernel_size = 2})
    end},
    {"axis", function() return layers.Concatenate{dim = 0} end},
    {"rate", function() return layers.Dropout{p = 0.5} end},
    {"units", function() return layers.Dense{out_features = 3} end},
    {"use_bias", function() return layers.Dense{3, bias = false} end},
    {"kernel_size", function() return layers.Conv2D{3, kernel = 3} end},
    {"kernel_regularizer", function() return layers.Dense{3, regularizer = "l2"} end},
    {"beta_1", function() return keras.optimizers.Adam{betas = {0.9, 0.99}} end},
  }

  for i, case in ipairs(cases) do
    it("is refused with the name here: " .. i .. ", " .. case[1], function()
      assert.error_matches(case[2], "did you mean '" .. case[1] .. "'?", 1, true)
    end)
  end

  it("is refused with words where nothing here stands for it", function()
    for _, name in ipairs{"IntegerLookup", "StringLookup", "TextVectorization"} do
      assert.error_matches(function() return layers[name]{sparse = true} end, "no sparse tensors")
    end
    assert.error_matches(function() return layers.CategoryEncoding{3, sparse = true} end,
      "no sparse tensors.*dense")
    assert.error_matches(function() return layers.TextVectorization{ragged = true} end,
      "no ragged tensors.*dense")
  end)

  it("is refused as a number with what makes a part of one", function()
    local function refused(words, f) assert.error_matches(f, words, 1, true) end
    refused("keras.regularizers.L2(0.01)", function()
      return layers.Dense{3, kernel_regularizer = 0.01}
    end)
    refused("keras.initializers.Constant(0.5)", function()
      return layers.Dense{3, bias_initializer = 0.5}
    end)
    refused("keras.constraints.MaxNorm(2)", function()
      return layers.Dense{3, kernel_constraint = 2}
    end)
    local Own = layers.Layer:extend("Own")
    function Own:build() self:add_weight{shape = {2}, regularizer = 0.01} end
    function Own:call(x) return x end
    refused("keras.regularizers.L2(0.01)", function() return Own()(ipu.ones{1}) end)
    assert.has_no_error(function()
      return layers.Dense{3, kernel_regularizer = keras.regularizers.L2(0.01)}
    end)
  end)
end)
