local ipu = require "ipulua"

describe("run_async", function()
  local strategy = ipu.IPUStrategy()

  -- Counts w up to n, one value an iteration.
  local function counter(n)
    local w, queue = ipu.Variable(0.0), ipu.IPUOutfeedQueue()
    local f = ipu.func(function(count)
      return ipu.loops.repeat_n(count, function(i)
        queue:enqueue(w:assign_add(1.0))
        return i + 1
      end, {0})
    end)
    return f, queue, w, ipu.tensor(n, {dtype = "int32"})
  end

  it("gives every value in order, none lost or doubled", function()
    local f, queue, w, n = counter(20000)
    local job, last = strategy:run_async(f, {n}), 0
    for v in queue:iter(job) do
      assert.equal(last + 1, v:item())
      last = last + 1
    end
    assert.is_true(job:done())
    assert.equal(20000, last)
    assert.equal(20000, job:wait():item())
    assert.equal(20000, job:wait():item())
    assert.equal(20000, w:item())
  end)

  it("can be cancelled, and its values read before", function()
    local f, queue, _, n = counter(2000000000)
    local job = strategy:run_async(f, {n})
    local first
    for v in queue:iter(job) do
      first = v:item()
      break
    end
    assert.equal(1, first)
    job:cancel()
    assert.is_false((pcall(job.wait, job)))
    assert.is_true(job:done())
    assert.equal(0, f(ipu.tensor(0, {dtype = "int32"})):item())
  end)

  it("makes the script wait where both would touch the same", function()
    local f, queue, w, n = counter(3000)
    strategy:run_async(f, {n})
    assert.equal(3000, w:item())
    strategy:run_async(f, {n})
    assert.equal(3000, f(n):item())
    assert.equal(9000, w:item())
    assert.equal(9000, queue:dequeue{wait_for_completion = true}.shape[1])
  end)

  it("raises the job's error when it is waited for", function()
    local f = ipu.func(function(x) return ipu.host_callback(function() error("mine") end, {outputs = {{{}, "float32"}}})(x) end)
    local job = strategy:run_async(f, {ipu.tensor(1.0)})
    local ok, message = pcall(job.wait, job)
    assert.is_false(ok)
    assert.is_truthy(message:find("mine", 1, true))
  end)
end)

describe("host callbacks", function()
  it("are called once an iteration, on the script's thread", function()
    local seen = {}
    local double = ipu.host_callback(function(x)
      seen[#seen + 1] = x:item()
      return x * 2
    end, {outputs = {{{}, "float32"}}})
    local f = ipu.func(function(x) return ipu.loops.repeat_n(4, function(v) return double(v) end, {x}) end)
    assert.equal(16, f(ipu.tensor(1.0)):item())
    assert.same({1, 2, 4, 8}, seen)
    assert.equal(16, ipu.IPUStrategy():run_async(f, {ipu.tensor(1.0)}):wait():item())
    assert.equal(6, double(ipu.tensor(3.0)):item())
  end)

  it("say what they returned wrongly", function()
    local f = ipu.func(function(x) return ipu.host_callback(function(v) return v end, {outputs = {{{2}, "float32"}}})(x) end)
    local ok, message = pcall(f, ipu.tensor(1.0))
    assert.is_false(ok)
    assert.is_truthy(message:find("float32[2]", 1, true), message)
  end)
end)

describe("the strategy", function()
  local strategy = ipu.IPUStrategy()

  it("runs compiled functions only", function()
    local ok, message = pcall(strategy.run, strategy, function() end)
    assert.is_false(ok)
    assert.is_truthy(message:find("ipu.func", 1, true))
    ok, message = pcall(strategy.experimental_run_v2, strategy, function() end)
    assert.is_false(ok)
    assert.is_truthy(message:find("strategy:run", 1, true))
  end)

  it("reduces over the replicas of a device function, elsewhere not", function()
    assert.equal(3, strategy:reduce("SUM", ipu.tensor(3.0)):item())
    assert.is_false((pcall(strategy.reduce, strategy, "MAX", ipu.tensor(3.0))))
  end)
end)

describe("seeds", function()
  it("start what programs draw again", function()
    local f = ipu.func(function(x) return ipu.nn.dropout(x, {rate = 0.5}) end)
    local x = ipu.ones{32}
    ipu.reset_ipu_seed(42)
    local a, b = f(x):totable(), f(x):totable()
    assert.not_same(a, b)
    ipu.reset_ipu_seed(42)
    assert.same(a, f(x):totable())
    assert.same(b, f(x):totable())
    ipu.reset_ipu_seed(43)
    assert.not_same(a, f(x):totable())
  end)

  it("make initial values the same again", function()
    ipu.random.set_seed(7)
    local a = ipu.random.normal{4}:totable()
    ipu.random.set_seed(7)
    assert.same(a, ipu.random.normal{4}:totable())
  end)
end)

describe("events", function()
  it("show that a second run compiles and moves nothing", function()
    local w = ipu.Variable(1.0)
    local f = ipu.func(function(x) return x * w end)
    ipu.ipu_event_trace()
    f(ipu.tensor(1.0))
    local kinds = {}
    for _, event in ipairs(ipu.ipu_event_trace()) do kinds[#kinds + 1] = event.type end
    assert.same({"COMPILE_BEGIN", "COMPILE_END", "LOAD_ENGINE", "HOST_TO_DEVICE_TRANSFER", "EXECUTE"}, kinds)
    f(ipu.tensor(2.0))
    local second = ipu.ipu_event_trace()
    assert.equal(1, #second)
    assert.equal("EXECUTE", second[1].type)
    f(ipu.tensor{1.0, 2.0})
    assert.equal("COMPILE_BEGIN", ipu.ipu_event_trace()[1].type)
    assert.same({}, ipu.ipu_event_trace())
  end)
end)
