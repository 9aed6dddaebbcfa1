-- Names that tensors have beside the names of their ops: x:sum(), x:mean(axis), x.T, x:tolist().
-- The numbers come from NumPy 1.24 for the same arrays.

local ipu = require "ipulua"
local keras <const> = ipu.keras

local x <const> = ipu.tensor{{1, 2, 3}, {4, 5, 9}}
local b <const> = ipu.tensor({{true, false}, {true, true}}, {dtype = "bool"})

describe("a short name", function()
  it("reduces, with the arguments of reduce_*", function()
    assert.equal(24, x:sum():item())
    assert.same({5, 7, 12}, x:sum(0):tolist())
    assert.same({{6}, {18}}, x:sum{axis = -1, keepdims = true}:tolist())
    assert.same({2.5, 3.5, 6}, x:mean(0):tolist())
    assert.same({9, 1}, {x:max():item(), x:min():item()})
    assert.same({6, 180}, x:prod(1):tolist())
    assert.same({2.25, 2.25, 9}, x:variance(0):tolist())
    assert.same({1.5, 1.5, 3}, x:std(0):tolist())
    assert.same({true, false}, b:all(0):tolist())
    assert.same({true, true}, b:any(0):tolist())
    assert.near(3 + math.log(1 + math.exp(-1) + math.exp(-2)), x[1]:logsumexp():item(), 1e-6)
    assert.same({2, 2}, x:argmax(1):tolist())
  end)

  it("transposes all axes", function()
    assert.same({{1, 4}, {2, 5}, {3, 9}}, x.T:tolist())
    assert.same({4, 3, 2}, ipu.zeros{2, 3, 4}.T.shape)
    assert.same({5, 6}, ipu.tensor{5, 6}.T:tolist())
    assert.equal(7, ipu.tensor(7).T:item())
  end)

  it("belongs to variables too, which don't change by it", function()
    local v = ipu.Variable{{1.0, 2.0}, {3.0, 4.0}}
    assert.same({{1, 3}, {2, 4}}, v.T:tolist())
    assert.equal(10, v:sum():item())
    assert.same({{1, 2}, {3, 4}}, v:tolist())
    local ok, words = pcall(function() v.T = 1 end)
    assert.is_false(ok)
    assert.matches("'T' can't be assigned to", words)
  end)

  it("lets gradients through, at once and in programs", function()
    local v = ipu.Variable{{1.0, 2.0}, {3.0, 4.0}}
    local w = ipu.tensor{{1, 10}, {100, 1000}}
    local tape = ipu.GradientTape()
    local loss = tape(function() return (v.T * w):sum() end)
    assert.same({{1, 100}, {10, 1000}}, tape:gradient(loss, v):tolist())
    local f = ipu.func(function(t) return (t.T * w):mean(0), v.T end)
    local mean, turned = f(v:read_value())
    assert.same({100.5, 2015}, mean:tolist())
    assert.same({{1, 3}, {2, 4}}, turned:tolist())
  end)

  it("works while a model is written down", function()
    local input = keras.Input{shape = {2, 3}}
    local model = keras.Model{inputs = input, outputs = input:sum(-1)}
    assert.same({{6, 18}}, model:predict(ipu.reshape(x, {1, 2, 3}), {verbose = 0}):tolist())
    assert.same({3, 2, -1}, input.T.shape)
    local ok, words = pcall(function() return input:tolist() end)
    assert.is_false(ok)
    assert.matches("predict%(x%) gives values", words)
  end)

  it("is refused to a script's own ops", function()
    for _, name in ipairs{"sum", "T"} do
      local ok, words = pcall(ipu.register_op, {name = name, call = function(a) return a end})
      assert.is_false(ok)
      assert.matches("has a member '" .. name .. "' already", words)
    end
  end)
end)
