-- Values with several readers: results that are also operands, sums that trap, results of replicas
-- that are read on, and queues after they were emptied.

local config = require "ipulua.config"
local ipu = require "ipulua"
local pipelines = require "spec.support.pipelines"

local function with_ipus(count)
  config.reset_ipu_configuration()
  local cfg = ipu.IPUConfig()
  cfg.auto_select_ipus = count
  cfg:configure_ipu_system()
end

describe("optimizations.math.fast", function()
  local fast <const> = {["optimizations.math.fast"] = true}
  after_each(config.reset_ipu_configuration)

  it("leaves a root as it is that is a result, too", function()
    local _ <close> = pipelines.device(1, fast)
    local quotient, root = ipu.func(function(x)
      local r = ipu.sqrt(x)
      return (x + 1) / r, r
    end)(ipu.tensor{4, 9})
    assert.same({2, 3}, root:totable())
    assert.is_near(2.5, quotient[1]:item(), 1e-6)
    assert.is_near(10 / 3, quotient[2]:item(), 1e-6)
  end)

  it("divides by a number below the normal ones as without it", function()
    local function divided(options)
      local _ <close> = pipelines.device(1, options)
      return ipu.func(function(x) return x / 1e-38 end)(ipu.tensor{1, -2}):totable()
    end
    assert.same(divided{}, divided(fast))
  end)
end)

describe("a result that takes the place of its operand", function()
  -- The operands are finite, the results are not.
  for what, update in pairs{
    ["a product that is added"] = function(v, a) v:assign_add(ipu.matmul(a, a)) end,
    ["a sum"] = function(v, a) v:assign(v + a * a) end,
    ["a product of elements"] = function(v, a) v:assign(v * a) end,
  } do
    it("traps an overflow: " .. what, function()
      finally(config.reset_ipu_configuration)
      local cfg = ipu.IPUConfig()
      cfg.floating_point_behaviour.oflo = true
      cfg:configure_ipu_system()
      local v <const> = ipu.Variable(ipu.full({2, 2}, 3e38))
      local f <const> = ipu.func(function(a) update(v, a) end)
      assert.error_matches(function() f(ipu.full({2, 2}, 1e19)) end, "an overflow %(oflo%)")
    end)
  end
end)

describe("replicas", function()
  after_each(config.reset_ipu_configuration)

  it("have each result in memory of its own", function()
    with_ipus(2)
    local out <const> = ipu.IPUOutfeedQueue()
    local f <const> = ipu.func(function(x)
      local a = ipu.reverse(x + ipu.cast(ipu.replication_index(), "float32"), {axis = 0})
      local b = ipu.reverse(a * 10, {axis = 0})
      out:enqueue{a, b}
      return a, b
    end)
    f(ipu.tensor{1, 2})
    local got <const> = out:dequeue()
    assert.same({{{2, 1}, {3, 2}}}, got[1]:totable())
    assert.same({{{10, 20}, {20, 30}}}, got[2]:totable())
  end)
end)

describe("an outfeed", function()
  local function enqueuing(out)
    return ipu.func(function(x) out:enqueue(x * 1) end)
  end

  it("begins at its beginning after some values were taken and the others forgotten", function()
    local out <const> = ipu.IPUOutfeedQueue()
    local f <const> = enqueuing(out)
    for i = 1, 3 do f(ipu.tensor{i, 10 * i}) end
    assert.same({1, 10}, out:iter()():totable())
    out:deleter()
    f(ipu.tensor{7, 70})
    f(ipu.tensor{8, 80})
    assert.same({{7, 70}, {8, 80}}, out:dequeue():totable())
  end)

  it("that was emptied of large values takes others", function()
    local out <const> = ipu.IPUOutfeedQueue()
    local f <const> = enqueuing(out)
    for i = 1, 3 do
      f(ipu.full({400000}, i))
      local got <const> = out:dequeue()
      assert.same({1, 400000}, got.shape)
      assert.equal(i, ipu.reduce_max(got):item())
      assert.equal(i, ipu.reduce_min(got):item())
    end
  end)
end)
