-- Datasets as the source of programs.

local ipu = require "ipulua"
local data = ipu.data

-- Fails with a message that, line included, matches.
local function raises(f, pattern)
  local ok, message = pcall(f)
  assert.is_false(ok)
  assert.matches(pattern, message)
end

local function floats(n) return data.range(n):map(function(x) return ipu.cast(x, "float32") end) end

-- Sum of the first n elements, in one program.
local function sum_of(n, infeed)
  return ipu.func(function()
    return ipu.loops.repeat_n(n, function(sum, x) return sum + x end, {0.0}, infeed)
  end)
end

describe("IPUInfeedQueue", function()
  it("row 94: feeds a loop, and goes on where it stopped", function()
    local infeed = ipu.IPUInfeedQueue(floats(10))
    local run = sum_of(3, infeed)
    assert.equal(0 + 1 + 2, run():item())
    assert.equal(3 + 4 + 5, run():item())
    infeed:deleter()
    assert.equal(0 + 1 + 2, run():item())
    assert.is_true(infeed.dequeued)
    assert.equal(1, infeed.number_of_tuple_elements)
  end)

  it("spreads tuples", function()
    local ones = data.from_tensors(ipu.constant(1.0, {shape = {3}}))
    local infeed = ipu.IPUInfeedQueue(ones:map(function(x) return {x, x + 1} end):repeat_n())
    local f = ipu.func(function()
      return ipu.loops.repeat_n(4, function(sum, a, b) return sum + a * b end,
        {ipu.zeros{3}}, infeed)
    end)
    assert.equal("[8. 8. 8.]", tostring(f()))
  end)

  it("row 89: ends with an error that says so", function()
    local run = sum_of(6, ipu.IPUInfeedQueue(floats(5)))
    raises(run, "end of data: the dataset gave 5 elements")
    assert.equal("out_of_range", ipu.last_error().kind)
  end)

  it("passes failures of the dataset on, and can be started again", function()
    local fine = false
    local ds = floats(5):map(function(x)
      if x:item() == 2 and not fine then error("unreadable") end
      return x
    end, {eager = true})
    local infeed = ipu.IPUInfeedQueue(ds)
    local run = sum_of(5, infeed)
    raises(run, "infeed_spec%.lua:%d+: .*unreadable")
    fine = true
    infeed:deleter()
    assert.equal(10, run():item())
  end)

  for _, case in ipairs{
    {"an unknown batch", function() return floats(5):batch(2) end,
      "drop_remainder = true", "value"},
    {"int64", function() return data.range(5) end,
      "component 0 of the dataset is int64.*cast it in map", "failed_precondition"},
    {"float64", function() return data.from_tensors(ipu.tensor({1}, {dtype = "float64"})) end,
      "component 0 of the dataset is float64.*cast it in map", "failed_precondition"},
    {"an empty component", function() return data.from_tensors(ipu.zeros{0, 2}) end, "zero%-sized",
      "invalid_argument"},
    {"no dataset", function() return {} end, "must be a dataset", "type"},
  } do
    it("rows 42, 79: refuses " .. case[1], function()
      raises(function() ipu.IPUInfeedQueue(case[2]()) end, "infeed_spec%.lua:%d+: .*" .. case[3])
      assert.equal(case[4], ipu.last_error().kind)
    end)
  end

  it("rows 92, 93: checks its depth and its life", function()
    raises(function() ipu.IPUInfeedQueue(floats(3), {prefetch_depth = 256}) end,
      "at most 255, got 256")
    assert.equal(3, ipu.IPUInfeedQueue(floats(3), {prefetch_depth = 0}).prefetch_depth)
    local infeed = ipu.IPUInfeedQueue(floats(3))
    raises(function() infeed:deleter() end, "not initialised")
    assert.equal("not_found", ipu.last_error().kind)
    infeed:initializer()
    raises(function() infeed:initializer() end, "only once")
    infeed:deleter()
    infeed:initializer()
  end)
end)

-- On several threads an idle one reads the next element while the others work. Results must be the
-- same.
describe("an element that is read ahead", function()
  -- its product is shared out, the rest isn't
  local square = ipu.random.normal({128, 128}, {seed = 1})
  local function busy(x) return ipu.reduce_sum(ipu.tanh(ipu.matmul(square, square * x))) end

  for _, threads in ipairs{1, 2, 3} do
    describe("on " .. threads .. " threads", function()
      setup(function() ipu.set_num_threads(threads) end)
      teardown(function() ipu.set_num_threads(2) end)

      it("goes back when the loop fails, before it is asked for", function()
        ipu.reset_ipu_configuration()
        local _ <close> = setmetatable({}, {__close = ipu.reset_ipu_configuration})
        local cfg = ipu.IPUConfig()
        cfg.floating_point_behaviour.inv = true
        cfg:configure_ipu_system()
        local infeed = ipu.IPUInfeedQueue(floats(1000))
        local read = sum_of(1, infeed)
        local step = ipu.func(function(last)
          return ipu.loops.repeat_n(50,
            function(sum, x) return sum + 0 * busy(x) + ipu.sqrt(last - x) end, {0.0}, infeed)
        end)
        for last = 7, 240, 9 do
          raises(function() step(ipu.tensor(last + 0.5)) end, "invalid operation")
          local expected = last + 2 -- last + 1 has no root
          assert.equal(expected, select(2, infeed.queue:state()))
          assert.equal(expected, read():item())
        end
      end)

      it("is followed by the others, in another program too", function()
        local infeed = ipu.IPUInfeedQueue(floats(100):shuffle(100, {seed = 3}):repeat_n())
        local same = ipu.IPUInfeedQueue(floats(100):shuffle(100, {seed = 3}):repeat_n())
        local function program(queue, work)
          return ipu.func(function(n)
            return ipu.loops.repeat_n(n,
              function(sum, x) return 3 * sum + x + 0 * (work and busy(x) or 0) end, {0.0}, queue)
          end)
        end
        local a, b, alone = program(infeed, true), program(infeed, true), program(same)
        for _, n in ipairs{1, 2, 7, 3, 1, 12} do
          n = ipu.tensor(n, {dtype = "int32"})
          assert.equal(alone(n):item(), a(n):item())
          assert.equal(alone(n):item(), b(n):item())
        end
      end)

      it("ends where the data ends", function()
        local infeed = ipu.IPUInfeedQueue(floats(5))
        local run = ipu.func(function()
          return ipu.loops.repeat_n(8, function(sum, x) return sum + x + 0 * busy(x) end,
            {0.0}, infeed)
        end)
        raises(run, "end of data: the dataset gave 5 elements")
        raises(run, "end of data: the dataset gave 5 elements")
      end)
    end)
  end
end)

describe("a strategy's iterator", function()
  it("row 97: gives elements inside compiled functions only", function()
    local strategy = ipu.IPUStrategy()
    local _ <close> = strategy:scope()
    local it = floats(10):iterator()
    raises(function() it:next() end, "only inside a compiled function.*infeed_spec%.lua:%d+")
    local f = ipu.func(function() return it:next() + it:next() end)
    assert.equal(1, strategy:run(f):item())
    assert.equal(5, strategy:run(f):item())
    assert.same({shape = {}, dtype = "float32"}, it.element_spec)
  end)

  it("starts by itself, in the graph of a session too", function()
    ipu.reset_default_graph()
    local strategy = ipu.IPUStrategy()
    local _ <close> = strategy:scope()
    local it = floats(10):iterator()
    local out = ipu.ipu_compiler.compile(function() return it:next() + it:next() end)
    local session <close> = ipu.Session()
    assert.equal(1, session:run(out)[1]:item())
    assert.equal(5, session:run(out)[1]:item())
  end)

  it("row 98: is an ordinary one when the strategy says so", function()
    local strategy = ipu.IPUStrategy{enable_dataset_iterators = false}
    local _ <close> = strategy:scope()
    assert.equal(0, floats(2):iterator():next():item())
  end)
end)

describe("dataset_benchmark", function()
  local bench = ipu.dataset_benchmark

  it("row 244: reports epochs as JSON", function()
    local ds = floats(100):batch(4, {drop_remainder = true}):repeat_n()
    local report = ipu.json.decode(bench.dataset_benchmark(ds, 3, 7, {print_stats = false}))
    assert.equal(3, #report.epochs)
    for _, epoch in ipairs(report.epochs) do
      assert.equal(7, epoch.elements_processed)
      assert.equal(7 * 16, epoch.total_bytes_processed)
      assert.near(epoch.elements_processed / epoch.time_elapsed, epoch.elements_per_second,
        1e-6 * epoch.elements_per_second)
      assert.near(epoch.total_bytes_processed / epoch.time_elapsed / 1e9, epoch.bandwidth,
        1e-6 * epoch.bandwidth)
    end
  end)

  it("takes infeed queues", function()
    local queue = ipu.IPUInfeedQueue(floats(10):repeat_n())
    assert.equal(5,
      ipu.json.decode(bench.infeed_benchmark(queue, 1, 5,
        {print_stats = false})).epochs[1].elements_processed)
  end)

  for _, case in ipairs{
    {"no epochs", function() return bench.dataset_benchmark(floats(5), 0, 5) end,
      "'number_of_epochs' must be positive, got 0", "value"},
    {"no elements", function() return bench.dataset_benchmark(floats(5), 1, 0) end,
      "'elements_per_epochs' must be positive", "value"},
    {"no dataset", function() return bench.dataset_benchmark({}, 1, 5) end,
      "must be a dataset", "type"},
    {"no queue", function() return bench.infeed_benchmark(floats(5), 1, 5) end,
      "must be an IPUInfeedQueue", "type"},
    {"too little data", function()
      return bench.dataset_benchmark(floats(5), 2, 3, {print_stats = false})
    end,
      "ended after 5 elements; repeat_n%(%) makes it endless", "out_of_range"},
    {"empty components", function()
      return bench.dataset_benchmark(data.from_tensors(ipu.zeros{0}), 1, 1)
    end,
      "dimension of size 0", "invalid_argument"},
  } do
    it("row 245: refuses " .. case[1], function()
      raises(case[2], "infeed_spec%.lua:%d+: .*" .. case[3])
      assert.equal(case[4], ipu.last_error().kind)
    end)
  end
end)

-- A thread that has nothing to do reads a loop's next element ahead, where nothing else in the loop
-- takes one before.
describe("two loops that take turns at one queue", function()
  it("take its elements in their order, on two threads", function()
    finally(function() ipu.set_num_threads(0) end)
    ipu.set_num_threads(2)
    local numbers = ipu.data.range(90000):map(function(i) return ipu.cast(i, "float32") end)
    local queue, out = ipu.IPUInfeedQueue(numbers), ipu.IPUOutfeedQueue()
    ipu.func(function()
      ipu.loops.repeat_n(300, function(sum, outer)
        return sum + ipu.loops.repeat_n(2, function(part, inner)
          out:enqueue{outer, inner}
          return part + inner
        end, {0.0}, queue)
      end, {0.0}, queue)
    end)()
    local outer, inner = table.unpack(out:dequeue())
    for i = 0, 599 do
      assert.equal(i // 2 * 3, outer[i + 1]:item())
      assert.equal(i // 2 * 3 + i % 2 + 1, inner[i + 1]:item())
    end
  end)
end)
