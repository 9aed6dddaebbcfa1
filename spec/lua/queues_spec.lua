-- Queues: shapes, structures, draining, reading while a program runs, and what they survive.

local command = require "spec.support.command"
local ipu = require "ipulua"
local data = ipu.data

local function floats(n) return data.range(n):map(function(x) return ipu.cast(x, "float32") end) end

local function raises(kind, pattern, f, ...)
  local ok, message = pcall(f, ...)
  assert.is_false(ok)
  assert.matches("queues_spec%.lua:%d+: .*" .. pattern, message)
  assert.equal(kind, ipu.last_error().kind)
end

-- A program of n steps that enqueues make(step) each time.
local function enqueuing(queue, n, make)
  return ipu.func(function()
    return ipu.loops.repeat_n(n, function(i)
      queue:enqueue(make(i))
      return i + 1
    end, {0})
  end)
end

describe("an outfeed", function()
  it("row 99: stacks all values along a new first axis", function()
    local queue = ipu.IPUOutfeedQueue()
    enqueuing(queue, 20, function(i) return ipu.broadcast_to(i, {4, 4}) end)()
    local got = queue:dequeue()
    assert.same({20, 4, 4}, got.shape)
    assert.equal("int32", got.dtype)
    assert.equal(19, got[20][4][4]:item())
  end)

  it("row 101: of mode LAST keeps the newest, a scalar as a scalar", function()
    local queue = ipu.IPUOutfeedQueue{outfeed_mode = "LAST"}
    local f = enqueuing(queue, 5, function(i) return i end)
    raises("value", "not been enqueued", function() queue:dequeue() end)
    f:concrete()
    raises("failed_precondition", "before any program has put a value in", function()
      queue:dequeue()
    end)
    f()
    assert.same({}, queue:dequeue().shape)
    assert.equal(4, queue:dequeue():item()) -- and again the same one
  end)

  for name, case in pairs {
    ["a tensor"] = {function(x) return x end, function(r) return {r} end},
    ["a list of one"] = {function(x) return {x} end, function(r) return {r[1]} end},
    ["a list of two"] = {function(x) return {x, x + 1} end, function(r) return {r[1], r[2]} end},
    ["a table"] = {function(x) return {loss = x, acc = x + 1} end, function(r)
      return {r.loss, r.acc}
    end},
    ["nested tables"] = {function(x) return {a = {x, {b = x + 1}}, [7] = x} end,
      function(r) return {r.a[1], r.a[2].b, r[7]} end},
  } do
    it("row 102: gives " .. name .. " back as it was", function()
      local queue = ipu.IPUOutfeedQueue()
      enqueuing(queue, 2, case[1])()
      local got = queue:dequeue()
      local parts = case[2](got)
      assert.equal(#case[2](case[1](ipu.tensor(1))), #parts)
      assert.same({0, 1}, parts[1]:totable())
      if parts[2] then assert.same({1, 2}, parts[2]:totable()) end
    end)
  end

  it("row 102: takes plain numbers, booleans and variables", function()
    local queue, v = ipu.IPUOutfeedQueue(), ipu.Variable(2.5)
    enqueuing(queue, 2, function() return {1, 0.5, true, v} end)()
    local got = queue:dequeue()
    assert.same({"int32", "float32", "bool", "float32"},
      {got[1].dtype, got[2].dtype, got[3].dtype, got[4].dtype})
    assert.same({2.5, 2.5}, got[4]:totable())
  end)

  it("row 103: is drained by dequeue: then no rows, of the right type", function()
    local queue = ipu.IPUOutfeedQueue()
    local f = enqueuing(queue, 3, function(i) return {x = ipu.broadcast_to(i, {2})} end)
    f:concrete()
    assert.same({0, 2}, queue:dequeue().x.shape) -- compiled, not yet run
    f()
    assert.same({3, 2}, queue:dequeue().x.shape)
    local rest = queue:dequeue().x
    assert.same({0, 2}, rest.shape)
    assert.equal("int32", rest.dtype)
  end)

  it("rows 104, 105: holds the values of all runs, however many", function()
    local queue, last = ipu.IPUOutfeedQueue(), ipu.IPUOutfeedQueue{outfeed_mode = "LAST"}
    local f = ipu.func(function(n)
      return ipu.loops.repeat_n(n, function(i)
        queue:enqueue(i)
        last:enqueue(i)
        return i + 1
      end, {0})
    end)
    f(ipu.tensor(1, {dtype = "int32"}))
    f(ipu.tensor(1000, {dtype = "int32"}))
    assert.same({1001}, queue:dequeue().shape)
    assert.equal(999, last:dequeue():item())
    f(ipu.tensor(10000, {dtype = "int32"}))
    local got = queue:dequeue()
    assert.same({10000}, got.shape)
    assert.equal(9999, got[10000]:item())
  end)

  it("row 107: is iterated value by value, until it is empty", function()
    local queue = ipu.IPUOutfeedQueue()
    local function count()
      local n = 0
      for x in queue:iter() do
        assert.equal(n, x:item())
        n = n + 1
      end
      return n
    end
    assert.equal(0, count()) -- not connected yet
    local f = ipu.func(function(n)
      return ipu.loops.repeat_n(n, function(i)
        queue:enqueue(i)
        return i + 1
      end, {0})
    end)
    f(ipu.tensor(10, {dtype = "int32"}))
    assert.equal(10, count())
    assert.equal(0, count())
    f(ipu.tensor(5, {dtype = "int32"}))
    assert.equal(5, count())
    raises("runtime", "mode ALL", function() ipu.IPUOutfeedQueue{outfeed_mode = "LAST"}:iter() end)
    raises("type", "must be a job", function() queue:iter(3) end)
  end)

  it("row 108: is enqueued to once in a program, in several programs", function()
    local queue = ipu.IPUOutfeedQueue()
    raises("value", "only once", ipu.func(function()
      queue:enqueue(1)
      queue:enqueue(2)
    end))
    local other = ipu.IPUOutfeedQueue()
    enqueuing(other, 2, function(i) return i end)()
    enqueuing(other, 3, function(i) return i * 10 end)()
    assert.same({0, 1, 0, 10, 20}, other:dequeue():totable())
  end)

  it("gives each program's structure once it is empty, of equal types, too", function()
    local forms <const> = {
      {function(x) return {a = x, b = x + 1} end, function(r) return {r.a, r.b} end},
      {function(x) return {x, {x + 1}} end, function(r) return {r[1], r[2][1]} end},
      {function(x) return {b = {x, x + 1}} end, function(r) return {r.b[1], r.b[2]} end},
    }
    for _, mode in ipairs{"ALL", "LAST"} do
      local queue = ipu.IPUOutfeedQueue{outfeed_mode = mode}
      local programs = {}
      for i, form in ipairs(forms) do
        programs[i] = ipu.func(function(x) queue:enqueue(form[1](x)) end)
      end
      for value = 1, 9 do
        local i <const> = value % 3 + 1
        programs[i](ipu.tensor(value + 0.0))
        local found = forms[i][2](queue:dequeue())
        for k, t in ipairs(found) do
          assert.equal(value + k - 1, ipu.reshape(t, {}):item(), mode .. " " .. i)
        end
        assert.equal(2, #found)
      end
    end
  end)

  it("row 109: can't be dequeued before anything was ever enqueued", function()
    raises("value", "not been enqueued", function() ipu.IPUOutfeedQueue():dequeue() end)
  end)

  it("row 110: is one of several in a program, with contents of its own", function()
    local a, b = ipu.IPUOutfeedQueue(), ipu.IPUOutfeedQueue()
    enqueuing(a, 3, function(i)
      b:enqueue(i * 2)
      return i
    end)()
    assert.same({0, 1, 2}, a:dequeue():totable())
    assert.same({0, 2, 4}, b:dequeue():totable())
  end)

  it("row 111: gives the same with any buffer_depth and optimise_latency", function()
    for _, options in ipairs {{buffer_depth = 1}, {buffer_depth = 100},
      {optimise_latency = true}} do
      local queue = ipu.IPUOutfeedQueue(options)
      enqueuing(queue, 3, function(i) return i end)()
      assert.same({0, 1, 2}, queue:dequeue():totable())
    end
    raises("value", "buffer depth of at least 1, got 0", ipu.IPUOutfeedQueue, {buffer_depth = 0})
  end)

  it("row 112: waits for the end of what runs when asked to", function()
    local queue = ipu.IPUOutfeedQueue()
    local f = enqueuing(queue, 20000, function(i) return i end)
    f:concrete()
    local job = ipu.IPUStrategy():run_async(f)
    assert.same({20000}, queue:dequeue{wait_for_completion = true}.shape)
    assert.is_true(job:done())
  end)

  it("is emptied by its deleter, by leaving the block of a scoped one", function()
    local queue = ipu.IPUOutfeedQueue()
    enqueuing(queue, 3, function(i) return i end)()
    queue:deleter()
    assert.same({0}, queue:dequeue().shape)
    local kept
    do
      local scoped <close> = ipu.ScopedIPUOutfeedQueue()
      kept = scoped
      enqueuing(scoped, 3, function(i) return i end)()
    end
    assert.same({0}, kept:dequeue().shape)
  end)

  for name, case in pairs {
    ["nothing"] = {nil, "nothing to enqueue", "type"},
    ["a string"] = {"x", "carries tensors.*string", "type"},
    ["a function"] = {{print}, "carries tensors.*function", "type"},
    ["an empty table"] = {{}, "no tensor", "value"},
    ["an empty tensor"] = {ipu.zeros{0, 2}, "extent of 0", "invalid_argument"},
  } do
    it("refuses " .. name, function()
      raises(case[3], case[2], ipu.func(function() ipu.IPUOutfeedQueue():enqueue(case[1]) end))
    end)
  end

  it(
    "refuses a table that holds itself, several values, and to be used in the wrong place",
    function()
    local loop = {}
    loop[1] = loop
    raises("value", "holds itself", ipu.func(function() ipu.IPUOutfeedQueue():enqueue(loop) end))
    raises("type", "takes one value", ipu.func(function() ipu.IPUOutfeedQueue():enqueue(1, 2) end))
    raises("value", "only inside a compiled function", function()
      ipu.IPUOutfeedQueue():enqueue(1)
    end)
    raises("runtime", "can't be called inside a compiled function",
      ipu.func(function() ipu.IPUOutfeedQueue():dequeue() end))
    raises("value", "must not be negative", ipu.IPUOutfeedQueue, {device_ordinal = -1})
    raises("value", "'SOME' is not a", ipu.IPUOutfeedQueue, {outfeed_mode = "SOME"})
  end)
end)

describe("an infeed", function()
  it("row 93: begins with the first element again after deleter and initializer", function()
    local infeed = ipu.IPUInfeedQueue(floats(10))
    local f = ipu.func(function()
      return ipu.loops.repeat_n(2, function(s, x) return s + x end, {0.0}, infeed)
    end)
    infeed:initializer()
    assert.equal(1, f():item())
    assert.equal(5, f():item())
    infeed:deleter()
    infeed:initializer()
    assert.equal(1, f():item())
  end)

  it("is initialised by the script where a session reads it", function()
    ipu.reset_default_graph()
    local infeed = ipu.IPUInfeedQueue(floats(10))
    local out = ipu.ipu_compiler.compile(function()
      return ipu.loops.repeat_n(3, function(s, x) return s + x end, {0.0}, infeed)
    end)
    local session <close> = ipu.Session()
    raises("failed_precondition", "not initialised.*initializer", function() session:run(out) end)
    session:run(infeed:initializer())
    assert.equal(3, session:run(out)[1]:item())
    assert.equal(12, session:run(out)[1]:item())
    session:run(infeed:deleter())
    raises("failed_precondition", "not initialised", function() session:run(out) end)
  end)

  it("can't be deleted while a program runs with it", function()
    local infeed = ipu.IPUInfeedQueue(floats(10):repeat_n())
    local f = ipu.func(function()
      return ipu.loops.repeat_n(100000000, function(s, x) return s + x end, {0.0}, infeed)
    end)
    f:concrete()
    local job = ipu.IPUStrategy():run_async(f)
    raises("failed_precondition", "is running with this infeed", function() infeed:deleter() end)
    job:cancel()
    assert.is_false(pcall(job.wait, job))
    infeed:deleter()
  end)

  it("and an outfeed can't either", function()
    local outfeed = ipu.IPUOutfeedQueue()
    local f = enqueuing(outfeed, 100000000, function(i) return i end)
    f:concrete()
    local job = ipu.IPUStrategy():run_async(f)
    raises("failed_precondition", "is running with this outfeed", function() outfeed:deleter() end)
    job:cancel()
    raises("runtime", "the job was cancelled", job.wait, job)
    outfeed:deleter()
  end)

  it("has no axis to stack values of eight on, in one replica and in two", function()
    local value = ipu.ones{1, 1, 1, 1, 1, 1, 1, 2}
    local all, last = ipu.IPUOutfeedQueue(), ipu.IPUOutfeedQueue{outfeed_mode = "LAST"}
    ipu.func(function(x)
      all:enqueue(x)
      last:enqueue(x * 3)
    end)(value)
    raises("invalid_argument", "an outfeed can't stack values of rank 8", all.dequeue, all)
    assert.same({3, 3}, ipu.reshape(last:dequeue(), {2}):totable())
    local config = ipu.IPUConfig()
    config.auto_select_ipus = 2
    config:configure_ipu_system()
    local _ <close> = setmetatable({}, {__close = function() ipu.reset_ipu_configuration() end})
    local strategy = ipu.IPUStrategy()
    local _ <close> = strategy:scope()
    local of_two = ipu.IPUOutfeedQueue()
    local f = ipu.func(function(x) of_two:enqueue(x) end)
    raises("invalid_argument", "can't stack the replicas' values of rank 8", strategy.run, strategy,
      f, {value})
  end)

  it("refuses what was removed", function()
    raises("value", "get_next was removed", function() ipu.IPUInfeedQueue(floats(3)):get_next() end)
    raises("type", "no argument 'feed_name'", ipu.IPUInfeedQueue, floats(3), {feed_name = "x"})
    raises("value", "must not be negative", ipu.IPUInfeedQueue, floats(3), {device_ordinal = -1})
  end)
end)

-- Runs a script in a process of its own → its output and exit status; with Ctrl-C while the last
-- part of it runs.
local function run_script(text, interrupted)
  local path = command.scratch()
  if interrupted then text = command.ready .. "\n" .. text end
  command.write(path, [[
local ipu = require "ipulua"
local infeed = ipu.IPUInfeedQueue(ipu.data.from_tensors(ipu.constant(1.0)):repeat_n())
local outfeed = ipu.IPUOutfeedQueue()
local endless = ipu.func(function()
  return ipu.loops.repeat_n(2000000000, function(s, x)
    outfeed:enqueue(x)
    return s + x
  end, {0.0}, infeed)
end)
local strategy = ipu.IPUStrategy()
]] .. text)
  local r = (interrupted and command.interrupted or command.run){command.ipulua, path}
  return r.out .. r.err, r.status
end

describe("queues survive", function()
  it("a producer that raises while a job runs", function()
    local n = 0
    local ds = data.from_generator(function()
      return function()
        n = n + 1
        if n > 5 then error("boom") end
        return 1.0
      end
    end, "float32", {})
    local infeed, outfeed = ipu.IPUInfeedQueue(ds), ipu.IPUOutfeedQueue()
    local f = ipu.func(function()
      return ipu.loops.repeat_n(100, function(s, x)
        outfeed:enqueue(x)
        return s + x
      end, {0.0}, infeed)
    end)
    local job, seen = ipu.IPUStrategy():run_async(f), 0
    for _ in outfeed:iter(job) do seen = seen + 1 end
    assert.equal(5, seen)
    raises("runtime", "boom", job.wait, job)
    n = -1000
    infeed:deleter()
    assert.equal(100, f():item())
  end)

  it("a consumer that stops early", function()
    local infeed, outfeed = ipu.IPUInfeedQueue(floats(10):repeat_n()), ipu.IPUOutfeedQueue()
    local f = ipu.func(function(n)
      return ipu.loops.repeat_n(n, function(s, x)
        outfeed:enqueue(x)
        return s + x
      end, {0.0}, infeed)
    end)
    local job = ipu.IPUStrategy():run_async(f, {ipu.tensor(2000000000, {dtype = "int32"})})
    for x in outfeed:iter(job) do
      if x:item() == 3 then break end
    end
    job:cancel()
    assert.is_false(pcall(job.wait, job))
    outfeed:deleter()
    assert.is_number(f(ipu.tensor(10, {dtype = "int32"})):item())
    assert.same({10}, outfeed:dequeue().shape)
  end)

  it("a script that ends with a job running", function()
    local output, status = run_script [[
      local job = strategy:run_async(endless)
      for _ in outfeed:iter(job) do break end
      print "done"]]
    assert.matches("^done", output)
    assert.equal(0, status)
  end)

  it("a script that fails with a job running", function()
    local output, status = run_script [[
      local job = strategy:run_async(endless)
      error "by itself"]]
    assert.matches("by itself", output)
    assert.equal(1, status)
  end)

  it("Ctrl-C in a run, in a job, and where a script goes on after it", function()
    for _, text in ipairs {"strategy:run(endless)", "strategy:run_async(endless):wait()"} do
      local output, status = run_script(text, true)
      assert.matches("interrupted", output)
      assert.is_true(status ~= 0)
    end
    local output = run_script([[
      print(pcall(strategy.run, strategy, endless))
      print(outfeed:dequeue().shape[1] > 0)]], true)
    assert.matches("false\t.*interrupted.*\ntrue", output)
  end)

  it("Ctrl-C where a dataset never gives the next element", function()
    local never = [[
      local never = ipu.data.range(5):repeat_n():filter(function(x) return ipu.greater(x, 9) end)
      local queue = ipu.IPUInfeedQueue(never:map(function(x) return ipu.cast(x, "float32") end))
      local waiting = ipu.func(function() return ipu.loops.repeat_n(2, function(s, x) return s + x end, {0.0}, queue) end)
      local function tell(f, ...)
        print(pcall(f, ...))
        print "and on"
      end
    ]]
    for _, text in ipairs {
      "tell(function() never:iterator():next() end)", "tell(waiting)",
      "tell(function() strategy:run_async(waiting):wait() end)",
      "tell(function() ipu.data.range(5):repeat_n():shuffle(1 << 31):iterator():next() end)",
    } do
      local output, status = run_script(never .. text, true)
      assert.matches("false\t.*interrupted.*\nand on", output)
      assert.equal(0, status)
    end
  end)

  it("ten thousand of them, made and dropped, used and unused", function()
    local output = run_script [[
      local ds = ipu.data.from_tensors(ipu.zeros{1000}):repeat_n()
      local function resident()
        collectgarbage()
        collectgarbage()
        for line in io.lines("/proc/self/status") do
          local kib = line:match("^VmRSS:%s*(%d+)")
          if kib then return math.tointeger(kib) end
        end
      end
      local function churn(unused, used)
        for _ = 1, unused do
          local infeed = ipu.IPUInfeedQueue(ds)
          infeed:initializer()
          ipu.IPUOutfeedQueue()
        end
        for _ = 1, used do
          local infeed, outfeed = ipu.IPUInfeedQueue(ds), ipu.IPUOutfeedQueue()
          ipu.func(function()
            return ipu.loops.repeat_n(3, function(s, x)
              outfeed:enqueue(x)
              return s + x
            end, {ipu.zeros{1000}}, infeed)
          end)()
        end
        ipu.ipu_event_trace()
      end
      churn(1000, 500) -- as much as the collector lets lie
      local before = resident()
      churn(9500, 500)
      print(resident() - before)]]
    -- freed memory is kept; leaks are its business
    local sanitized = (os.getenv("IPULUA") or ""):find("build-", 1, true)
    -- an element alone is 4 KiB: 40 MiB if the queues stayed
    local most = sanitized and 512 * 1024 or 12 * 1024
    assert.is_true(tonumber(output:match("^%-?%d+")) < most, output)
  end)
end)
