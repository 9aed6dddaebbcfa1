-- Losses over sampled classes; expected numbers computed apart, in Python's math.

local differences = require "spec.support.differences"
local ipu = require "ipulua"

local function f64(list) return ipu.tensor(list, {dtype = "float64"}) end

local weights = f64{{0.5, -0.25}, {1, 2}, {-1, 0.5}, {0.25, 0.75}, {2, -1}}
local biases = f64{0.1, -0.2, 0.3, 0, -0.5}
local inputs = f64{{1, 2}, {-0.5, 1}}
local labels = ipu.tensor({{1}, {3}}, {dtype = "int32"})
local sampled = {ipu.tensor({0, 3, 4}, {dtype = "int32"}), f64{{0.5}, {0.25}}, f64{0.9, 0.4, 0.3}}

local function near(expected, got)
  for i, v in ipairs(expected) do
    assert.is_true(math.abs(v - got[i]) < 1e-12, got[i] .. " is not " .. v)
  end
end

describe("losses over sampled classes", function()
  it(
    "give the reference's numbers: sampled classes that are right don't count against softmax",
    function()
    near({0.07005848654841706, 0.12775958943334143},
      ipu.nn.sampled_softmax_loss(weights, biases, labels, inputs, 3, 5,
        {sampled_values = sampled}):totable())
    near({4.644529562716885, 2.6593865102538103},
      ipu.nn.nce_loss(weights, biases, labels, inputs, 3, 5, {sampled_values = sampled}):totable())
  end)

  it("know labels of 64 bits by all of them", function()
    local ours = {sampled_values = sampled}
    for _, loss in ipairs{ipu.nn.sampled_softmax_loss, ipu.nn.nce_loss} do
      assert.same(loss(weights, biases, labels, inputs, 3, 5, ours):totable(),
        loss(weights, biases, ipu.cast(labels, "int64"), inputs, 3, 5, ours):totable())
      for _, label in ipairs{(1 << 32) + 1, -(1 << 32) + 1} do
        local far = ipu.tensor({{1}, {label}}, {dtype = "int64"})
        local ok, message = pcall(loss, weights, biases, far, inputs, 3, 5, ours)
        assert.is_false(ok)
        assert.matches("outside 0 … 4", message, 1, true)
      end
    end
  end)

  it("have gradients", function()
    for _, loss in ipairs {ipu.nn.sampled_softmax_loss, ipu.nn.nce_loss} do
      assert.is_true(differences.worst(function(x)
        return ipu.reduce_sum(loss(weights, biases, labels, ipu.reshape(x, {2, 2}), 3, 5,
          {sampled_values = sampled}))
      end, f64{1, 2, -0.5, 1}) < 1e-8)
    end
  end)

  it("draw classes themselves, the same for the same seed", function()
    local w, b, x = ipu.cast(weights, "float32"), ipu.cast(biases, "float32"),
      ipu.cast(inputs, "float32")
    local first = ipu.nn.nce_loss(w, b, labels, x, 2, 5, {seed = 3}):totable()
    assert.same(first, ipu.nn.nce_loss(w, b, labels, x, 2, 5, {seed = 3}):totable())
    for _, v in ipairs(first) do assert.is_true(v > 0 and v < 100) end
    local ok, message = pcall(ipu.nn.nce_loss, w, b, labels, x, 6, 5)
    assert.is_false(ok)
    assert.is_truthy(message:find("'num_sampled' must be between 1 and num_classes (5), got 6", 1,
      true), message)
  end)
end)

describe("einsum", function()
  it("takes the equation first or last", function()
    local a, b = ipu.tensor{{1, 2}, {3, 4}}, ipu.tensor{{5, 6}, {7, 8}}
    local expected = {{19, 22}, {43, 50}}
    assert.same(expected, ipu.einsum("ij,jk->ik", a, b):totable())
    assert.same(expected, ipu.einsum("ij,jk->ik", {a, b}):totable())
    assert.same(expected, ipu.einsum({a, b}, "ij,jk->ik"):totable())
  end)

  -- With y = a (sum of b's rows): dy/da[i] sums all of b, dy/db[j, k] all of a.
  it(
    "has gradients along a summed index that one operand has once and another more often",
    function()
    local a, b = ipu.tensor{{1}, {2}}, ipu.tensor{{1, 2}, {3, 4}, {5, 6}}
    local tape <close> = ipu.GradientTape()
    tape:watch{a, b}
    local y = ipu.einsum("ij,jk->ik", a, b)
    assert.same({{9, 12}, {18, 24}}, y:totable())
    local da, db = table.unpack(tape:gradient(y, {a, b}))
    assert.same({{21}, {21}}, da:totable())
    assert.same({{3, 3}, {3, 3}, {3, 3}}, db:totable())
  end)
end)

describe("cast", function()
  it("takes the low bits into int8 and uint8, and stops at the ends of int32", function()
    local x = ipu.tensor{300, -300, -1, 3.9, -3.9}
    assert.same({44, -44, -1, 3, -3}, ipu.cast(x, "int8"):totable())
    assert.same({44, 212, 255, 3, 253}, ipu.cast(x, "uint8"):totable())
    assert.same({2147483647, -2147483648, -2147483648},
      ipu.cast(ipu.tensor{1e20, -1e20, 0 / 0}, "int32"):totable())
    assert.same({44, -44}, ipu.cast(ipu.tensor({300, -300}, {dtype = "int32"}), "int8"):totable())
  end)
end)
