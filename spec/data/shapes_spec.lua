-- Functions of datasets whose elements have many shapes.

local ipu = require "ipulua"
local data = ipu.data

describe("a function of elements of many shapes", function()
  local threads <const> = require "ipulua.core".engine_info().threads
  after_each(function() ipu.set_num_threads(threads) end)

  -- Element i of n: the number i, as often.
  local function ragged(n)
    return data.from_generator(function()
      local i = 0
      return function()
        i = i + 1
        return i <= n and ipu.full({i}, i) or nil
      end
    end, {output_types = "float32", output_shapes = {-1}})
  end

  local function read(ds)
    local list = {}
    for x in ds:iter() do list[#list + 1] = x:item() end
    return list
  end

  local function squares(n)
    local list = {}
    for i = 1, n do list[i] = i * i + 0.0 end
    return list
  end

  -- How often the script's function is called: for two trials, then once for a shape.
  local function traces(n)
    local calls = 0
    local ds = ragged(n):map(function(x)
      calls = calls + 1
      return ipu.reduce_sum(x)
    end)
    for _ = 1, 2 do assert.same(squares(n), read(ds)) end
    return calls
  end

  it("is traced once for each of 1,024 shapes", function()
    assert.equal(2 + 1024, traces(1024))
  end)

  it("is traced again for a shape that was met longer ago", function()
    assert.equal(2 + 2 * 1025, traces(1025))
  end)

  it("gives the same with parallel calls, and the same random numbers when traced again", function()
    local expected
    for _, way in ipairs{{1, 0}, {3, 2}, {7, 64}} do
      ipu.set_num_threads(way[1])
      ipu.random.set_seed(3)
      local list, sums = {}, {}
      local ds = ragged(1200):map(function(x)
        return ipu.reduce_sum(x), ipu.random.uniform({}, {seed = 1})
      end, {num_parallel_calls = way[2]})
      for _ = 1, 2 do
        for x, r in ds:iter() do sums[#sums + 1], list[#list + 1] = x:item(), r:item() end
      end
      local twice = squares(1200)
      assert.same(table.move(twice, 1, 1200, 1201), sums)
      expected = expected or list
      assert.same(expected, list)
    end
  end)

  it("may be a predicate", function()
    local kept = ragged(1100):filter(function(x) return ipu.equal(ipu.reduce_max(x) % 100, 0) end)
    local sizes = {}
    for x in kept:iter() do sizes[#sizes + 1] = x.size end
    assert.same({100, 200, 300, 400, 500, 600, 700, 800, 900, 1000, 1100}, sizes)
  end)
end)
