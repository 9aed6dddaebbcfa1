-- call and build of the library's layers, called by a script instead of the layer itself.
local ipu = require "ipulua"
local layers = ipu.keras.layers

describe("a layer's call by hand", function()
  local cases <const> = {
    {"Dense", function() return layers.Dense(3) end, {2, 4}},
    {"Conv2D", function() return layers.Conv2D(4, 3) end, {2, 4, 4, 3}},
    {"LSTM", function() return layers.LSTM(4) end, {2, 4, 3}},
    {"BatchNormalization", function() return layers.BatchNormalization() end, {2, 3}},
    {"LayerNormalization", function() return layers.LayerNormalization() end, {2, 3}},
    {"PReLU", function() return layers.PReLU() end, {2, 3}},
    {"Bidirectional", function() return layers.Bidirectional(layers.LSTM(4)) end, {2, 4, 3}},
    {"TimeDistributed", function() return layers.TimeDistributed(layers.Dense(3)) end, {2, 4, 3}},
    {"a class made of Dense", function() return layers.Dense:extend("Mine")(3) end, {2, 4}},
  }
  for _, case in ipairs(cases) do
    it("says that it must be built first, then gives what the layer gives: " .. case[1], function()
      local layer, x = case[2](), ipu.random.normal(case[3])
      local ok, message = pcall(function() return layer:call(x) end)
      assert.is_false(ok)
      assert.matches("spec/keras/by_hand_spec.lua:%d+: layer '" .. layer.name
        .. "' is not built yet, .*layer%(x%).*layer:build%(shape%)",
        message)
      layer:build(case[3])
      local by_hand, count = layer:call(x), #layer.weights
      assert.same(layer(x):totable(), by_hand:totable())
      assert.equal(count, #layer.weights)
    end)
  end

  it("needs no building where there are no weights, and takes what options say", function()
    assert.same({1, 1}, layers.Dropout(0.5):call(ipu.ones{2}):totable())
    local kept = layers.Dropout(0.999):call(ipu.ones{100}, {training = true})
    assert.is_true(ipu.reduce_sum(ipu.cast(ipu.equal(kept, 0), "float32")):item() > 50)
  end)
end)

describe("a layer's build by hand", function()
  it("is what the first call would do: weights are made once, in a derived class too", function()
    local dense = layers.Dense(3)
    dense:build{2, 4}
    assert.is_true(dense.built)
    local kernel = dense.kernel
    dense(ipu.ones{2, 4})
    assert.is_true(rawequal(kernel, dense.kernel))
    local Scaled = layers.Dense:extend("Scaled")
    function Scaled:build(shape)
      layers.Dense.build(self, shape)
      self.scale = self:add_weight{name = "scale", shape = {1}}
    end
    local scaled = Scaled(3)
    scaled(ipu.ones{2, 4})
    assert.equal(3, #scaled.weights)
  end)
end)
