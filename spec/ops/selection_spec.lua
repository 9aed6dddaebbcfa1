-- unique, nonzero, boolean_mask and where of one argument: eagerly, and in a size that is given.

local ipu = require "ipulua"

local nan <const> = 0 / 0

local function plain(t)
  local list = type(t) == "userdata" and t:totable() or t
  if type(list) ~= "table" then return list ~= list and "nan" or list end
  local copy = {}
  for i, each in ipairs(list) do copy[i] = plain(each) end
  return copy
end

-- Eagerly and traced, which must agree.
local function both(f, ...)
  local eager, traced = table.pack(f(...)), table.pack(ipu.func(f)(...))
  assert.equal(eager.n, traced.n)
  local results = {}
  for i = 1, eager.n do
    results[i] = plain(eager[i])
    assert.equal(eager[i].dtype, traced[i].dtype)
    assert.same(results[i], plain(traced[i]))
  end
  return table.unpack(results)
end

describe("unique", function()
  local x <const> = ipu.tensor{3, 1, 3, 2, 1, 7, 3, 2}

  it("gives values as they appear, positions among them and counts", function()
    local values, indices, counts = ipu.unique(x)
    assert.same({3, 1, 2, 7}, plain(values))
    assert.same({0, 1, 0, 2, 1, 3, 0, 2}, plain(indices))
    assert.same({3, 2, 2, 1}, plain(counts))
    assert.same({"float32", "int32", "int32"}, {values.dtype, indices.dtype, counts.dtype})
    assert.same(plain(x), plain(values:gather(indices)))
  end)

  it("keeps `size` of them, or fills up", function()
    local values, indices, counts = both(function(t) return ipu.unique(t, {size = 6}) end, x)
    assert.same({3, 1, 2, 7, -1, -1}, values)
    assert.same({0, 1, 0, 2, 1, 3, 0, 2}, indices)
    assert.same({3, 2, 2, 1, 0, 0}, counts)
    values, indices, counts = both(function(t) return ipu.unique(t, {size = 2, fill = 0}) end, x)
    assert.same({{3, 1}, {3, 2}}, {values, counts})
    assert.same({0, 1, 0, 2, 1, 3, 0, 2}, indices)
  end)

  it("counts NaNs as one, takes lists, shapes, integers and nothing", function()
    local values, indices, counts = ipu.unique{nan, 1, nan, 1, nan}
    assert.same({"nan", 1}, plain(values))
    assert.same({0, 1, 0, 1, 0}, plain(indices))
    assert.same({3, 2}, plain(counts))
    values, indices = ipu.unique(ipu.tensor({{5, -5}, {-5, 5}}, {dtype = "int64"}))
    assert.same({{5, -5}, {{0, 1}, {1, 0}}, "int64"}, {plain(values), plain(indices), values.dtype})
    values, indices, counts = ipu.unique(ipu.zeros{0})
    assert.same({{}, {}, {}}, {plain(values), plain(indices), plain(counts)})
    assert.same({{4}, {0}, {1}}, {plain(ipu.unique{4}), plain(select(2, ipu.unique{4})),
      plain(select(3, ipu.unique{4}))})
  end)

  it("finds each of 3,000 numbers once", function()
    local many = ipu.random.uniform({3000}, {maxval = 200, dtype = "int32", seed = 1})
    local values, indices, counts = ipu.unique(many)
    local seen, order, count = {}, {}, {}
    for i, value in ipairs(many:totable()) do
      if not seen[value] then
        seen[value] = #order
        order[#order + 1] = value
      end
      count[seen[value] + 1] = (count[seen[value] + 1] or 0) + 1
      assert.equal(seen[value], indices[i]:item())
    end
    assert.same(order, plain(values))
    assert.same(count, plain(counts))
  end)

  it("has a gradient where a value stands first", function()
    local v = ipu.Variable{3, 1, 3, 2}
    local tape = ipu.GradientTape()
    local loss = tape(function() return ipu.reduce_sum(ipu.square((ipu.unique(v)))) end)
    assert.same({6, 2, 0, 4}, plain(tape:gradient(loss, v)))
  end)
end)

describe("nonzero and where of one argument", function()
  local x <const> = ipu.tensor{{0, 1}, {2, 0}, {nan, 0}}

  it("give a row of positions for each element, in order", function()
    assert.same({{0, 1}, {1, 0}, {2, 0}}, plain(ipu.nonzero(x)))
    assert.equal("int32", ipu.nonzero(x).dtype)
    assert.same({{0}, {2}}, plain(ipu.where(ipu.tensor{true, false, true})))
    assert.same({{0}, {2}}, plain(ipu.where{true, false, true}))
    assert.same({{0, 0}, {1, 1}}, plain(ipu.where{{true, false}, {false, true}}))
    assert.same({0, 2}, plain(ipu.nonzero(ipu.zeros{4, 2}).shape))
    assert.same({1, 0}, plain(ipu.nonzero(ipu.tensor(5)).shape))
    assert.same({0, 2}, plain(ipu.nonzero(ipu.ones{0, 3}).shape))
  end)

  it("keep `size` of them, or fill up", function()
    assert.same({{0, 1}, {1, 0}},
      (both(function(t) return ipu.nonzero(t, {size = 2}) end, x)))
    assert.same({{0, 1}, {1, 0}, {2, 0}, {-1, -1}},
      (both(function(t) return ipu.nonzero(t, {size = 4}) end, x)))
    assert.same({{1}, {9}, {9}, {9}},
      (both(function(t) return ipu.where(t, {size = 4, fill = 9}) end, ipu.tensor{false, true})))
  end)

  it("where still chooses between two, however it is called", function()
    local c <const> = ipu.tensor{true, false}
    assert.same({1, 2}, plain(ipu.where(c, 1, ipu.tensor{2, 2})))
    assert.same({1, 2}, plain(ipu.where{c, 1, 2}))
    assert.same({1, 4}, plain(ipu.where({true, false}, {1, 2}, {3, 4})))
    assert.same({1, 4}, plain(c:where({1, 2}, {3, 4})))
    assert.is_false(pcall(ipu.where, c, 1))
  end)
end)

describe("boolean_mask", function()
  local x <const> = ipu.tensor{{1, 2}, {3, 4}, {5, 6}}

  it("keeps where a mask of the first axes is true", function()
    assert.same({{1, 2}, {5, 6}}, plain(ipu.boolean_mask(x, {true, false, true})))
    assert.same({2, 4, 6}, plain(ipu.boolean_mask(x, ipu.equal(x % 2, 0))))
    assert.same({0, 2}, plain(ipu.boolean_mask(x, {false, false, false}).shape))
  end)

  it("keeps `size` of them, or fills up", function()
    local function of(t) return ipu.boolean_mask(t, ipu.greater(t, 3), {size = 4, fill = 0}) end
    assert.same({4, 5, 6, 0}, (both(of, x)))
    assert.same({{1, 2}}, (both(function(t)
      return ipu.boolean_mask(t, {true, false, true}, {size = 1})
    end, x)))
    assert.same({{3, 4}, {-1, -1}}, (both(function(t)
      return ipu.boolean_mask(t, {false, true, false}, {size = 2})
    end, x)))
  end)

  it("has the gradient of what is kept", function()
    local v = ipu.Variable{1, 2, 3}
    for _, options in ipairs{{}, {size = 3, fill = 7}} do
      local tape = ipu.GradientTape()
      local loss = tape(function()
        return ipu.reduce_sum(ipu.square(ipu.boolean_mask(v, {true, false, true}, options)))
      end)
      assert.same({2, 0, 6}, plain(tape:gradient(loss, v)))
    end
  end)
end)

describe("without a size a trace can't know the extent:", function()
  local x <const> = ipu.ones{3}
  for name, f in pairs{
    unique = function(t) return ipu.unique(t) end, nonzero = function(t) return ipu.nonzero(t) end,
    where = function(t) return ipu.where(ipu.greater(t, 0)) end,
    boolean_mask = function(t) return ipu.boolean_mask(t, ipu.greater(t, 0)) end,
  } do
    it(name, function()
      local ok, message = pcall(ipu.func(f), x)
      assert.is_false(ok)
      assert.matches("selection_spec.lua:%d+: " .. name .. ": how many there are is not known "
        .. "while a function is traced; give {size = n}", message)
    end)
  end

  it("boolean_mask names the masks that it takes", function()
    local ok, message = pcall(ipu.boolean_mask, x, {true})
    assert.is_false(ok)
    assert.matches("got %[1%] for %[3%]", message)
    assert.matches("'mask' must be bool, got float32",
      select(2, pcall(ipu.boolean_mask, x, {1, 0, 1})))
  end)
end)
