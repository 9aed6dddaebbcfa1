-- Orders that shuffles give: which passes have one order, and which have none in common.

local ipu = require "ipulua"

local data <const> = ipu.data
local count <const> = 12 -- of whose orders there are 479 million

local function numbers() return data.range(count) end

-- The orders of the passes that one iterator makes.
local function orders(ds)
  local list, order = {}, {}
  for x in ds:iter() do
    order[#order + 1] = x:item()
    if #order == count then list[#list + 1], order = table.concat(order, " "), {} end
  end
  assert.equal(0, #order)
  return list
end

-- How many different orders several iterators have, and how many passes they make.
local function different(ds, iterators)
  local seen, kinds, passes = {}, 0, 0
  for _ = 1, iterators do
    for _, order in ipairs(orders(ds)) do
      if not seen[order] then kinds = kinds + 1 end
      seen[order], passes = true, passes + 1
    end
  end
  return kinds, passes
end

local function all_differ(ds, iterators, passes)
  local kinds, made = different(ds, iterators)
  assert.equal(passes, made)
  assert.equal(passes, kinds)
end

for what, options in pairs{["with a seed"] = {seed = 1}, ["without one"] = {}} do
  describe("a shuffle " .. what, function()
    local function shuffled() return numbers():shuffle(count, options) end

    it("has another order in each pass of each iterator", function()
      all_differ(shuffled():repeat_n(5), 6, 30)
    end)

    it("has another order in each part of a concatenation", function()
      local ds <const> = shuffled()
      all_differ(ds:concatenate(ds):concatenate(ds):repeat_n(2), 3, 18)
    end)

    it("has another order in each dataset that a function makes", function()
      all_differ(data.range(4):interleave(shuffled, {cycle_length = 1}), 3, 12)
      all_differ(data.range(4):flat_map(shuffled):repeat_n(2), 2, 16)
    end)

    it("keeps its first order in a cache", function()
      local kinds, passes = different(shuffled():cache():repeat_n(3), 1)
      assert.same({1, 3}, {kinds, passes})
      local ds <const> = shuffled():cache()
      assert.equal(1, (different(ds, 4)))
      assert.equal(1, (different(ds:concatenate(ds), 2)))
    end)

    it("keeps another order in each cache that a function makes", function()
      local function cached() return shuffled():cache():repeat_n(2) end
      local kinds, passes = different(data.range(4):flat_map(cached), 3)
      assert.same({12, 24}, {kinds, passes})
    end)
  end)
end

describe("a shuffle that keeps its order", function()
  local function kept()
    return numbers():shuffle(count, {seed = 2, reshuffle_each_iteration = false})
  end

  it("has one in all passes, parts and iterators", function()
    local ds <const> = kept()
    assert.equal(1, (different(ds:repeat_n(3), 2)))
    assert.equal(1, (different(ds:concatenate(ds), 2)))
    assert.equal(1, (different(data.range(3):flat_map(kept), 2)))
  end)
end)

describe("two shuffles without seeds", function()
  it("have nothing in common", function()
    local first, second = {}, {}
    for a, b in data.zip(numbers():shuffle(count), numbers():shuffle(count)):iter() do
      first[#first + 1], second[#second + 1] = a:item(), b:item()
    end
    assert.not_same(first, second)
  end)
end)
