-- Synthetic data: no data crosses between host and device.

local ipu = require "ipulua"

describe("synthetic data", function()
  local read, infeed, all, last, sum -- of a program of four steps

  before_each(function()
    ipu.reset_ipu_configuration()
    read = 0
    local ds = ipu.data.from_generator(function()
      return function()
        read = read + 1
        return ipu.tensor{1.0, 2.0}
      end
    end, "float32", {2})
    infeed, all = ipu.IPUInfeedQueue(ds), ipu.IPUOutfeedQueue()
    last = ipu.IPUOutfeedQueue{outfeed_mode = "LAST"}
    sum = ipu.func(function()
      return ipu.loops.repeat_n(4, function(s, x)
        all:enqueue(x)
        last:enqueue(x)
        return s + x
      end, {ipu.zeros{2}}, infeed)
    end)
  end)

  after_each(function()
    ipu.reset_ipu_configuration()
    ipu.set_flags("")
  end)

  it("is off without a flag", function()
    ipu.set_flags("")
    assert.same({4, 8}, sum():totable())
    assert.is_true(read >= 4)
    assert.is_false(ipu.use_synthetic_data_for("infeed"))
  end)

  it("row 34: reads no dataset and gives zeros", function()
    ipu.set_flags("--use_synthetic_data")
    assert.same({0, 0}, sum():totable())
    assert.equal(0, read)
    assert.is_true(ipu.use_synthetic_data_for("infeed"))
  end)

  it("row 34: holds the number of the initializer", function()
    ipu.set_flags("--use_synthetic_data --synthetic_data_initializer=3")
    assert.same({12, 12}, sum():totable())
  end)

  it("row 34: draws from a distribution, differently for each element", function()
    ipu.set_flags("--synthetic_data_categories=infeed --synthetic_data_initializer=uniform")
    sum()
    local seen = {}
    for _, row in ipairs(all:dequeue():totable()) do
      for _, x in ipairs(row) do
        assert.is_true(x >= 0 and x < 1)
        seen[x] = true
      end
    end
    local distinct = 0
    for _ in pairs(seen) do distinct = distinct + 1 end
    assert.equal(8, distinct)
    assert.equal(0, read)
  end)

  it("row 34: makes weights up too, where a program is loaded: nothing of them crosses", function()
    ipu.set_flags("--synthetic_data_categories=parameters --synthetic_data_initializer=0.5")
    local w, steps = ipu.Variable(ipu.ones{2}), ipu.Variable(7.0, {trainable = false})
    local f = ipu.func(function(x)
      steps:assign_add(1.0)
      w:assign_add(x)
      return w * 1
    end)
    ipu.ipu_event_trace()
    assert.same({1.5, 1.5}, f(ipu.ones{2}):totable())
    assert.same({2.5, 2.5}, f(ipu.ones{2}):totable()) -- once
    -- not again by another program
    assert.same({4.5, 4.5}, ipu.func(function(x) return w + x end)(ipu.full({2}, 2)):totable())
    assert.equal(9, steps:item()) -- a variable that no optimizer trains keeps its value
    for _, event in ipairs(ipu.ipu_event_trace()) do
      assert.not_equal("HOST_TO_DEVICE_TRANSFER", event.type)
    end
    local late = ipu.get_variable("late " .. tostring(w), {shape = {2}})
    -- a value that there isn't is not made up
    assert.is_false(pcall(ipu.func(function() return late + 1 end)))
  end)

  it("row 34: draws weights from a distribution, each its own", function()
    ipu.set_flags("--use_synthetic_data --synthetic_data_initializer=normal")
    local a, b = ipu.Variable(ipu.zeros{3000}), ipu.Variable(ipu.zeros{3000})
    local x, y = ipu.func(function() return a * 1, b * 1 end)()
    assert.not_same(x:totable(), y:totable())
    assert.is_near(0, ipu.reduce_mean(x):item(), 0.1)
    assert.is_near(1, ipu.reduce_std(y):item(), 0.1)
    assert.same(x:totable(), a:read_value():totable())
  end)

  it("row 35: leaves outfeeds without rows, and one of mode LAST is an error", function()
    ipu.set_flags("--synthetic_data_categories=outfeed")
    assert.same({4, 8}, sum():totable())
    local got = all:dequeue()
    assert.same({0, 2}, got.shape)
    assert.equal("float32", got.dtype)
    local ok, message = pcall(function() return last:dequeue() end)
    assert.is_false(ok)
    assert.matches("mode LAST is dequeued before any program has put a value in$", message)
    assert.equal("failed_precondition", ipu.last_error().kind)
  end)
end)

describe("--log_cycle_count", function()
  it("row 38: logs a line for each run", function()
    local log = require "ipulua.base.log"
    local lines = {}
    local former = log.set_writer(function(line) lines[#lines + 1] = line end)
    local _ <close> = setmetatable({}, {__close = function()
      log.set_writer(former)
      ipu.reset_ipu_configuration()
      ipu.set_flags("")
    end})
    ipu.reset_ipu_configuration()
    ipu.set_flags("--log_cycle_count=0")
    local f = ipu.func(function(x) return ipu.matmul(x, x) end, {name = "square"})
    f(ipu.ones{8, 8})
    f(ipu.ones{8, 8})
    local counts = {}
    for _, line in ipairs(lines) do
      counts[#counts + 1] = tonumber(line:match("IPU 0: (%d+) cycles in a run of 'square'"))
    end
    assert.equal(2, #counts)
    assert.is_true(counts[1] > 0 and counts[1] == counts[2])
  end)
end)
