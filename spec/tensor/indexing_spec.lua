-- t[index] beyond a row's number: positions from the end, ranges, axis by axis, masks. Results are
-- as of NumPy's slices, with positions from 1 and both ends in.

local ipu = require "ipulua"

local t <const> = ipu.reshape(ipu.arange(24), {4, 3, 2})

describe("an index", function()
  it("counts from the end", function()
    assert.same({{18, 19}, {20, 21}, {22, 23}}, t[-1]:totable())
    assert.same({{0, 1}, {2, 3}, {4, 5}}, t[-4]:totable())
    assert.equal(23, t[-1][-1][-1]:item())
  end)

  it("is a range of rows", function()
    assert.same({{1, 2}, {2}}, {{t[{2, 3}][1].rank - 1, 2}, {#t[{2, 3}]}})
    assert.same({6, 12}, {t[{2, 3}][1][1][1]:item(), t[{2, 3}][2][1][1]:item()})
    assert.same({2, 3, 2}, t[{-2, -1}].shape)
    assert.same({1, 3, 2}, t[{{1, 1}}].shape)
  end)

  it("names each axis", function()
    assert.same({{7, 9, 11}, {13, 15, 17}}, t[{{2, 3}, {}, -1}]:totable())
    assert.same({{0, 1}, {6, 7}, {12, 13}, {18, 19}}, t[{{}, 1}]:totable())
    assert.same({{2, 3}, {4, 5}}, t[{1, {2, 3}}]:totable())
    assert.equal(11, t[{2, 3, {2, 2}}]:item())
  end)

  it("is a mask of the first axes", function()
    assert.same({21, 22, 23}, t[ipu.greater(t, 20)]:totable())
    assert.same(t[{3, 4}]:totable(), t[ipu.greater(ipu.arange(4), 1)]:totable())
    assert.same({0}, t[ipu.greater(t, 30)].shape)
  end)

  it("works on variables, in programs, and lets gradients through", function()
    local v = ipu.Variable{1.0, 2.0, 3.0}
    local tape = ipu.GradientTape()
    local y = tape(function() return ipu.reduce_sum(v[{2, 3}] * v[{1, 2}]) end)
    assert.same({2, 4, 2}, tape:gradient(y, v):totable()) -- of v1 v2 + v2 v3
    local last = ipu.func(function(x) return x[{{}, -1}] * 2 end)
    assert.same({6, 12}, last(ipu.tensor{{1, 2, 3}, {4, 5, 6}}):totable())
  end)

  it("is a layer of a model, in its file too", function()
    local keras, layers = ipu.keras, ipu.keras.layers
    local input = layers.Input{shape = {5, 3}}
    local model = keras.Model{inputs = input, outputs = input[{{}, -1}] + input[{{}, 1}]}
    local x = ipu.random.normal({2, 5, 3}, {seed = 1})
    local want = (x[{{}, 5}] + x[{{}, 1}]):totable()
    assert.same(want, model:predict(x):totable())
    assert.same(want, keras.models.model_from_json(model:to_json()):predict(x):totable())
  end)

  it("has empty ranges, as the first and the last fold of a cross-validation need them", function()
    local folds, part = ipu.tensor{{1, 2}, {3, 4}, {5, 6}, {7, 8}}, 2
    for i, want in ipairs{{{5, 6}, {7, 8}}, {{1, 2}, {3, 4}}} do
      local before = folds[{1, (i - 1) * part}]
      local after = folds[{i * part + 1, -1}]
      assert.equal(0, (i == 1 and before or after).shape[1])
      assert.same(want, ipu.concat({before, after}, 0):totable())
    end
    assert.same({4, 0}, folds[{{}, {2, 1}}].shape)
    folds[{3, 2}] = 9
    assert.same({{1, 2}, {3, 4}, {5, 6}, {7, 8}}, folds:totable())
  end)

  it("is refused in words", function()
    for pattern, index in pairs{
      ["there is no position 0: a tensor's positions count from 1"] = {0, 1},
      ["the range {3, 1} of axis 0 ends before it begins"] = {3, 1},
      ["position 6 lies outside of axis 0, which has 4"] = {2, 6},
      ["rank 3 has no axis 3"] = {{}, {}, {}, 1},
      ["a range in a tensor's index is {first, last}, got 3 numbers"] = {{1, 2, 3}},
      ["take ipu.gather%(t, indices%), whose indices count from 0"] = ipu.arange(2),
      ["a mask has the shape of the tensor's first axes; got %[3%] for %[4, 3, 2%]"] =
        ipu.greater(ipu.arange(3), 1),
    } do
      local ok, message = pcall(function() return t[index] end)
      assert.is_false(ok)
      assert.matches(pattern, message)
    end
  end)
end)
