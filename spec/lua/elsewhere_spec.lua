-- What other libraries call things: the hints of errors name what is there.

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
