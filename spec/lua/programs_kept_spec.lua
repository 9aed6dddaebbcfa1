-- ipu.func keeps max_programs programs: the one that was called longest ago goes.

local ipu = require "ipulua"

-- A function of n ones that counts its traces.
local function counting(options)
  local traced = {}
  local f = ipu.func(function(x)
    traced[#traced + 1] = x.shape[1]
    return ipu.reduce_sum(x)
  end, options)
  return function(n)
    assert.equal(n, f(ipu.ones{n}):item())
    return #traced
  end, f
end

describe("ipu.func", function()
  it("keeps 64 programs unless max_programs says otherwise", function()
    local call, f = counting()
    for n = 1, 70 do call(n) end
    assert.equal(64, #f:signatures())
    assert.equal(70, call(70))
    assert.equal(70, call(7)) -- the oldest that is kept
    assert.equal(71, call(6))
  end)

  it("leaves the program that was called longest ago, not the oldest", function()
    local call, f = counting{max_programs = 2}
    call(1)
    call(2)
    call(1)
    assert.equal(3, call(3)) -- in the place of 2
    assert.equal(3, call(1))
    assert.equal(4, call(2))
    assert.same({"(float32[1])", "(float32[2])"}, {table.unpack(f:signatures())})
  end)

  it("draws the same numbers with few programs as with many", function()
    local function draws(most)
      ipu.random.set_seed(3)
      local f = ipu.func(function(x) return x + ipu.random.uniform(x.shape) end,
        {max_programs = most})
      local list = {}
      for i = 1, 12 do list[i] = ipu.reduce_sum(f(ipu.zeros{i % 3 + 1})):item() end
      list[13] = ipu.random.uniform({1}):item()
      return list
    end
    local many = draws(64)
    assert.not_equal(many[1], many[4])
    assert.same(many, draws(2))
    assert.same(many, draws(1))
  end)

  it("goes on drawing where an error came while a program was traced again", function()
    ipu.random.set_seed(1)
    local fails = false
    local f = ipu.func(function(x)
      if fails then error "no" end
      return x + ipu.random.uniform(x.shape)
    end, {max_programs = 1})
    for n = 1, 2 do f(ipu.zeros{n}) end
    local expected = ipu.random.uniform({1}, {seed = 5}):item()
    local before = ipu.random.uniform({1}):item()
    fails = true
    assert.is_false(pcall(f, ipu.zeros{1}))
    assert.equal(expected, ipu.random.uniform({1}, {seed = 5}):item())
    assert.not_equal(before, ipu.random.uniform({1}):item())
  end)

  it("refuses to keep none", function()
    local ok, message = pcall(ipu.func, print, {max_programs = 0})
    assert.is_false(ok)
    assert.matches("func: 'max_programs' must be positive, got 0", message, 1, true)
  end)
end)
