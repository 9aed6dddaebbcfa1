-- Results of loops over feeds in the tests of Graphcore's TensorFlow 2.6. Element k of the data is
-- a block of k, modulo its length.

local config = require "ipulua.config"
local ipu = require "ipulua"
local data, loops = ipu.data, ipu.loops

local function blocks(n, shape)
  return data.range(n):map(function(i)
    return ipu.zeros(shape or {4, 4}) + ipu.cast(i, "float32")
  end)
end
local function endless(n) return blocks(n):repeat_n() end
local function with_half(x) return x, (x + 10) / 2 end

-- The one number that all elements of a tensor are.
local function all(t)
  local low, high = ipu.reduce_min(t):item(), ipu.reduce_max(t):item()
  assert.equal(low, high)
  return low
end

local function each(t)
  local list = {}
  for i = 1, #t do list[i] = all(t[i]) end
  return list
end

describe("loops over feeds", function()
  local zeros, ones = ipu.zeros{4, 4}, ipu.ones{4, 4}

  it("rows 66, 99: carry a sum of 20 blocks to 91, and hand each on", function()
    local infeed, queue = ipu.IPUInfeedQueue(endless(10)), ipu.IPUOutfeedQueue()
    local v = ipu.func(function()
      return loops.repeat_n(20, function(sum, x)
        local new = sum + x
        queue:enqueue(new)
        return new
      end, {ones}, infeed)
    end)()
    assert.equal(91, all(v))
    local got = queue:dequeue()
    assert.same({20, 4, 4}, got.shape)
    assert.same({16, 91}, {all(got[6]), all(got[20])})
    local short = ipu.IPUInfeedQueue(blocks(10))
    assert.equal(46,
      all(ipu.func(function()
        return loops.repeat_n(10, function(s, x) return s + x end, {ones}, short)
      end)()))
  end)

  it("rows 67, 101: take a pair as two arguments: 31", function()
    local infeed = ipu.IPUInfeedQueue(endless(3):map(with_half))
    local queue, last = ipu.IPUOutfeedQueue(), ipu.IPUOutfeedQueue{outfeed_mode = "LAST"}
    local v = ipu.func(function()
      return loops.repeat_n(5, function(sum, a, b)
        local new = sum + a + b
        queue:enqueue{new, a, b}
        last:enqueue{new, a, b}
        return new
      end, {zeros}, infeed)
    end)()
    assert.equal(31, all(v))
    local got = queue:dequeue()
    assert.same({5, 11.5, 19.5, 24.5, 31}, each(got[1]))
    assert.same({0, 1, 2, 0, 1}, each(got[2]))
    assert.same({5, 5.5, 6, 5, 5.5}, each(got[3]))
    local newest = last:dequeue()
    assert.same({31, 1, 5.5}, {all(newest[1]), all(newest[2]), all(newest[3])})
  end)

  it("row 68: take a dict as one table: 4 and 27", function()
    local infeed = ipu.IPUInfeedQueue(endless(3):map(function(x)
      return {a = x, b = (x + 10) / 2}
    end))
    local v1, v2 = ipu.func(function()
      return loops.repeat_n(5, function(first, second, x) return first + x.a, second + x.b end,
        {zeros, zeros}, infeed)
    end)()
    assert.same({4, 27}, {all(v1), all(v2)})
  end)

  it("rows 69, 94: go on where the queue stands, and not at all with 0: 0, 1, 5, 9", function()
    local infeed, got = ipu.IPUInfeedQueue(endless(10)), {}
    for i, n in ipairs{0, 2, 2, 2} do
      got[i] =
        all(ipu.func(function()
          return loops.repeat_n(n, function(s, x) return s + x end, {zeros}, infeed)
        end)())
    end
    assert.same({0, 1, 5, 9}, got)
  end)

  it(
    "rows 70, 94: two over one queue share its elements, programs of two queues go on by turns",
    function()
    local function sum(s, x) return s + x end
    local infeed = ipu.IPUInfeedQueue(endless(2))
    local v = ipu.func(function()
      return loops.repeat_n(5, sum, {loops.repeat_n(5, sum, {zeros}, infeed)}, infeed)
    end)()
    assert.equal(5, all(v))
    local function program(queue)
      return ipu.func(function() return loops.repeat_n(5, sum, {zeros}, queue) end)
    end
    local first, second = program(ipu.IPUInfeedQueue(endless(20))),
      program(ipu.IPUInfeedQueue(endless(3)))
    assert.same({10, 4, 35, 5}, {all(first()), all(second()), all(first()), all(second())})
  end)

  it("rows 71, 110: nest, each with an outfeed of its own", function()
    local outer, inner = ipu.IPUOutfeedQueue(), ipu.IPUOutfeedQueue()
    ipu.func(function()
      loops.repeat_n(10, function(count)
        outer:enqueue(count)
        return loops.repeat_n(10, function(i)
          inner:enqueue(i)
          return i + 1
        end, {count})
      end, {0})
    end)()
    local tens, all_numbers = {}, {}
    for i = 0, 99 do
      all_numbers[i + 1] = i
      if i % 10 == 0 then tens[#tens + 1] = i end
    end
    assert.same(tens, outer:dequeue():totable())
    assert.same(all_numbers, inner:dequeue():totable())
  end)

  it("row 72: while a condition on the carried values holds: 91, and 129.5 over pairs", function()
    local function twenty(i) return ipu.less(i, 20) end
    local function condition(i, _) return twenty(i) end
    local infeed = ipu.IPUInfeedQueue(endless(10))
    local _, v = ipu.func(function()
      return loops.while_loop(condition, function(i, s, x) return i + 1, s + x end,
        {0, ones}, infeed)
    end)()
    assert.equal(91, all(v))
    local pairs_of = ipu.IPUInfeedQueue(endless(3):map(with_half))
    local _, w = ipu.func(function()
      return loops.while_loop(condition, function(i, s, a, b) return i + 1, s + a + b end,
        {0, ones}, pairs_of)
    end)()
    assert.equal(129.5, all(w))
  end)

  it("rows 101, 104: two runs before a dequeue add up: 1 and 1000 losses are 1001, the newest is a "
    .. "scalar", function()
    for _, mode in ipairs{"ALL", "LAST"} do
      local queue, w = ipu.IPUOutfeedQueue{outfeed_mode = mode}, ipu.Variable(1.0)
      local opt = ipu.train.GradientDescentOptimizer(0.1)
      local run = ipu.func(function(n)
        loops.repeat_n(n, function()
          local loss = w * w
          queue:enqueue(loss)
          opt:minimize(loss, {var_list = {w}})
        end)
      end)
      for _, n in ipairs{1, 1000} do run(ipu.tensor(n, {dtype = "int32"})) end
      local got = queue:dequeue()
      assert.same(mode == "ALL" and {1001} or {}, got.shape)
      if mode == "ALL" then
        assert.same({1, 0.64}, {got[1]:item(), math.floor(got[2]:item() * 1e6 + 0.5) / 1e6})
      end
    end
  end)

  it("row 249: run once for ten steps, where a call for each step runs ten times", function()
    local w = ipu.Variable(0.0)
    local function executions(run)
      ipu.ipu_event_trace()
      run()
      local count = 0
      for _, event in ipairs(ipu.ipu_event_trace()) do
        count = count + (event.type == "EXECUTE" and 1 or 0)
      end
      return count
    end
    local infeed = ipu.IPUInfeedQueue(blocks(100, {}):repeat_n())
    local fed = ipu.func(function()
      loops.repeat_n(10, function(x) w:assign_add(x) end, {}, infeed)
    end)
    local single = ipu.func(function(x) w:assign_add(x) end)
    assert.equal(10, executions(function() for _ = 1, 10 do fed() end end))
    local fed_sum = w:item()
    w:assign(0.0)
    assert.equal(100, executions(function() for i = 0, 99 do single(ipu.tensor(i * 1.0)) end end))
    assert.equal(fed_sum, w:item())
  end)

  it(
    "rows 95, 100: two replicas sum over both: 1, 4, 11, 23, 48, and deal [[1, 2], [3, 4]]",
    function()
    local _ <close> = setmetatable({}, {__close = config.reset_ipu_configuration})
    local cfg = ipu.IPUConfig()
    cfg.auto_select_ipus = 2
    cfg:configure_ipu_system()
    local queue, infeed = ipu.IPUOutfeedQueue(), ipu.IPUInfeedQueue(blocks(3, {2}):repeat_n())
    local v = ipu.func(function()
      return loops.repeat_n(5, function(sum, x)
        local new = ipu.cross_replica_sum(sum + x)
        queue:enqueue(new)
        return new
      end, {ipu.zeros{2}}, infeed)
    end)()
    assert.equal(48, all(v))
    local got = queue:dequeue()
    assert.same({5, 2, 2}, got.shape)
    assert.same({1, 4, 11, 23, 48}, each(got))
    local dealt = ipu.IPUOutfeedQueue()
    local numbers = ipu.IPUInfeedQueue(data.from_tensor_slices(ipu.tensor{1, 2, 3, 4}))
    ipu.func(function() loops.repeat_n(2, function(x) dealt:enqueue(x) end, {}, numbers) end)()
    assert.same({{1, 2}, {3, 4}}, dealt:dequeue():totable())
  end)
end)
