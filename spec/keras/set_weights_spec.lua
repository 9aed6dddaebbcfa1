-- Functions that set weights, slots or states from given values set all of them, or none with an
-- error. They take only values that the dtype holds.

local command = require "spec.support.command"
local ipu = require "ipulua"
local keras = ipu.keras
local L = keras.layers

local function values_of(list)
  local out = {}
  for i, t in ipairs(list) do out[i] = t:totable() end
  return out
end

local function refused(f, words)
  local fine, why = pcall(f)
  assert.is_false(fine)
  assert.matches(words, why)
end

describe("given values", function()
  it("are refused as a whole where one doesn't fit: an optimizer", function()
    local m = keras.Sequential{L.Dense{2, input_shape = {3}}, L.Dense(1)}
    m:compile{loss = "mse", optimizer = "adam"}
    m:fit(ipu.ones{4, 3}, ipu.ones{4, 1}, {verbose = 0})
    local opt = m.optimizer
    local before = values_of(opt:get_weights())
    assert.equal(1, opt.iterations:item())
    local given = opt:get_weights()
    for i, t in ipairs(given) do given[i] = t * 0 end
    given[#given] = ipu.zeros{7, 7}
    refused(function() opt:set_weights(given) end,
      "weight 9 of optimizer 'Adam', .*, is float32%[1%]; the value given is float32%[7, 7%]")
    given[#given] = ipu.zeros({1}, {dtype = "float16"})
    refused(function() opt:set_weights(given) end, "the value given is float16%[1%]")
    assert.same(before, values_of(opt:get_weights()))
  end)

  it("are refused as a whole where one doesn't fit: states of a recurrent layer", function()
    local l = L.LSTM{2, stateful = true}
    refused(function() l:reset_states{ipu.zeros{1, 2}, ipu.zeros{1, 2}} end,
      "layer 'lstm.*' has no states yet; call it first")
    l(ipu.ones{1, 2, 2})
    local before = values_of(l.states)
    refused(function() l:reset_states{ipu.zeros{1, 2}, ipu.zeros{3, 3}} end,
      "state 2 of layer 'lstm.*' has the shape %[1, 2%]; the value given has %[3, 3%]")
    refused(function() l:reset_states{ipu.zeros{1, 2}} end, "has 2 states, but 1 value was given")
    assert.same(before, values_of(l.states))
    l:reset_states{{{1, 2}}, ipu.tensor{{3, 4}}}
    assert.same({{{1, 2}}, {{3, 4}}}, values_of(l.states))
    l:reset_states()
    assert.same({{{0, 0}}, {{0, 0}}}, values_of(l.states))
    local both = L.Bidirectional(L.LSTM{2, stateful = true})
    refused(function() both:reset_states{ipu.zeros{1, 2}} end, "Bidirectional it takes no values")
  end)

  it("are refused where the weight's dtype can't hold them", function()
    local Counting = L.Layer:extend("Counting")
    function Counting:build()
      self.n = self:add_weight{name = "n", shape = {2}, dtype = "int32", initializer = "zeros",
        trainable = false}
    end
    function Counting:call(x) return x end -- luacheck: ignore 212
    local layer = Counting()
    layer(ipu.ones{1, 2})
    layer:set_weights{ipu.tensor{7.0, -3.0}}
    assert.same({7, -3}, layer.n:totable())
    for _, value in ipairs{ipu.tensor{1.7, 2}, ipu.tensor({1 << 40, 2}, {dtype = "int64"}),
      ipu.tensor{0 / 0, 2}, ipu.tensor{1e10, 2}} do
      refused(function() layer:set_weights{value} end,
        "weight 1 of layer 'counting', .*n, is int32, which can't hold the given values")
      assert.same({7, -3}, layer.n:totable())
    end
    local half = L.Dense{1, dtype = "float16"}
    half(ipu.ones({1, 2}, {dtype = "float16"}))
    half:set_weights{ipu.tensor{{0.1}, {1000.3}}, ipu.tensor{0}}
    assert.same({{0.0999755859375}, {1000.5}}, half.kernel:totable())
    refused(function() half:set_weights{ipu.tensor{{1e6}, {0}}, ipu.tensor{0}} end, "float16")
  end)
end)

describe("a checkpoint", function()
  it("isn't restored into a model with a layer that has no weights yet", function()
    local Net = keras.Model:extend("Net")
    function Net:init()
      keras.Model.init(self, {})
      self.a, self.b, self.off = L.Dense(2), L.Dense(3), L.Dropout(0.5)
    end
    function Net:call(x) return self.b(self.a(x)) end
    local whole, part = Net(), Net()
    whole(ipu.ones{1, 4})
    part.a(ipu.ones{1, 4})
    local before = part.a.kernel:totable()
    local dir = command.scratch "checkpoint"
    ipu.train.Checkpoint{net = whole, other = L.Dense(1)}:save(dir)
    refused(function() ipu.train.Checkpoint{net = part}:restore(dir) end,
      "has no weights yet; build it first")
    assert.same(before, part.a.kernel:totable())
    local again = Net()
    again(ipu.ones{1, 4}) -- its dropout was never called, and has none
    ipu.train.Checkpoint{net = again}:restore(dir)
    assert.same(whole.b.kernel:totable(), again.b.kernel:totable())
    os.execute("rm -r '" .. dir .. "'")
  end)
end)
