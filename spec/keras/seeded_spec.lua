-- Layers with a seed that are called outside of programs. TensorFlow 2.6: each call of a layer
-- draws on from the sequence that its seed begins. Programs draw that sequence, too.

local ipu = require "ipulua"
local keras = ipu.keras
local L = keras.layers

local steps <const> = ipu.random.normal({6, 5, 8}, {seed = 1})
local pictures <const> = ipu.random.uniform({6, 8, 8, 3}, {seed = 2})

local makers <const> = {
  Dropout = {steps, function() return L.Dropout{0.5, seed = 3} end},
  SpatialDropout1D = {steps, function() return L.SpatialDropout1D{0.5, seed = 3} end},
  GaussianNoise = {steps, function() return L.GaussianNoise{0.5, seed = 3} end},
  GaussianDropout = {steps, function() return L.GaussianDropout{0.5, seed = 3} end},
  AlphaDropout = {steps, function() return L.AlphaDropout{0.5, seed = 3} end},
  LSTM = {steps, function()
    return L.LSTM{4, dropout = 0.5, recurrent_dropout = 0.3, seed = 3}
  end},
  ["RNN of a cell"] = {steps, function() return L.RNN(L.LSTMCell{4, dropout = 0.5, seed = 3}) end},
  ["RNN of cells"] = {steps, function()
    return L.RNN{{L.LSTMCell{4, dropout = 0.5, seed = 3}, L.GRUCell(3)}}
  end},
  Bidirectional = {steps, function()
    return L.Bidirectional(L.GRU{4, dropout = 0.5, seed = 3})
  end},
  TimeDistributed = {steps, function() return L.TimeDistributed(L.Dropout{0.5, seed = 3}) end},
  Sequential = {steps, function()
    return keras.Sequential{L.Dense(4), L.Dropout{0.5, seed = 3}}
  end},
  RandomFlip = {pictures, function() return L.RandomFlip{seed = 3} end},
  RandomCrop = {pictures, function() return L.RandomCrop{4, 4, seed = 3} end},
  RandomRotation = {pictures, function() return L.RandomRotation{0.3, seed = 3} end},
}

local function apart(a, b) return ipu.reduce_max(ipu.abs(a - b)):item() end

describe("a layer with a seed, called by hand,", function()
  for name, row in pairs(makers) do
    it("draws in each call what a program draws in each run: " .. name, function()
      local x, make = row[1], row[2]
      local by_hand, traced = make(), make()
      by_hand(x)
      traced(x)
      if #traced.weights > 0 then traced:set_weights(by_hand:get_weights()) end
      local program = ipu.func(function(t) return traced(t, {training = true}) end)
      local former
      for _ = 1, 3 do
        local now = by_hand(x, {training = true})
        assert.near(0, apart(program(x), now), 1e-5)
        if former then assert.is_true(apart(former, now) > 0) end
        former = now
      end
    end)
  end

  it("draws another number for each element of a dataset", function()
    local layer = L.RandomTranslation{0.4, 0.4, fill_mode = "constant", seed = 2}
    local alike = ipu.data.from_tensor_slices(ipu.broadcast_to(pictures[{1, 1}], {6, 8, 8, 3}))
      :batch(1)
    local function sums(options)
      local list = {}
      local function move(t) return layer(t, {training = true}) end
      for t in alike:map(move, options):iter() do list[#list + 1] = ipu.reduce_sum(t):item() end
      return list
    end
    local eagerly = sums{eager = true}
    assert.same(sums(), eagerly)
    assert.is_true(eagerly[1] ~= eagerly[2] and eagerly[2] ~= eagerly[3])
  end)

  it("takes nobody's turn", function()
    local function drawn(between)
      ipu.random.set_seed(4)
      local first = ipu.random.normal{3}
      between()
      return {first:totable(), ipu.random.normal{3}:totable()}
    end
    local layer = L.Dropout{0.5, seed = 3}
    assert.same(drawn(function() end), drawn(function() layer(steps, {training = true}) end))
  end)

  it("draws on from a checkpoint", function()
    local folder <const> = os.tmpname()
    os.remove(folder)
    finally(function() os.execute("rm -r " .. folder) end)
    local function parts()
      local model = keras.Sequential{L.Dropout{0.5, seed = 3}, L.Dense(2)}
      model(steps)
      return model, ipu.train.Checkpoint{model = model}
    end
    local through, checkpoint = parts()
    through(steps, {training = true})
    checkpoint:save(folder)
    local resumed, other = parts()
    other:restore(folder)
    for _ = 1, 2 do
      local a, b = through(steps, {training = true}), resumed(steps, {training = true})
      assert.equal(0, apart(a, b))
    end
  end)
end)
