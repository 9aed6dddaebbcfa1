-- A function of the script that feeds a running program, in the foreground or in the background.
-- The program waits for it, so it must not wait for the program. It must not change variables that
-- the program uses, either.

local ipu = require "ipulua"

describe("a function that feeds a program", function()
  local strategy, own, other = ipu.IPUStrategy(), ipu.Variable(2.0), ipu.Variable(5.0)
  local elsewhere, mine = ipu.IPUOutfeedQueue{outfeed_mode = "LAST"},
    ipu.IPUOutfeedQueue{outfeed_mode = "LAST"}
  local all = ipu.IPUOutfeedQueue()
  local twice = ipu.func(function(x)
    elsewhere:enqueue(x)
    return x * 2
  end)
  twice(ipu.constant(1.0))
  local job

  -- Each gives 1 where it may be done: in the background, too, if it is not in `refused`.
  local deeds = {
    compute = function() return ipu.constant(3.0) / 3 end,
    read_another_variable = function() return other:read_value() / 5 end,
    assign_another_variable = function()
      other:assign(5)
      return ipu.constant(1.0)
    end,
    dequeue_another_last = function() return elsewhere:dequeue() * 0 + 1 end,
    dequeue = function() return ipu.constant(1.0 + 0 * all:dequeue().shape[1]) end,
    collect = function()
      collectgarbage()
      return ipu.constant(1.0)
    end,
    run_a_function = function() return twice(ipu.constant(0.5)) end,
    read_its_variable = function() return own:read_value() / 2 end,
    assign_its_variable = function()
      own:assign(2)
      return ipu.constant(1.0)
    end,
    dequeue_its_last = function() return mine:dequeue() * 0 + 1 end,
    wait_for_completion = function()
      return ipu.constant(1.0 + 0 * all:dequeue{wait_for_completion = true}.shape[1])
    end,
    reset_the_seed = function()
      ipu.reset_ipu_seed(3)
      return ipu.constant(1.0)
    end,
    run_in_the_background = function()
      return strategy:run_async(twice, {ipu.constant(0.5)}):wait()
    end,
    wait_for_its_job = function() return job and job:wait() or ipu.constant(1.0) end,
    walk_over_its_job = function()
      if job then for _ in all:iter(job) do end end -- luacheck: ignore 542
      return ipu.constant(1.0)
    end,
  }
  local refused = {
    assign_its_variable = "can't be assigned inside of a program",
    wait_for_completion = "can't be waited for in it",
    run_in_the_background = "run_async can't be done inside",
    wait_for_its_job = "job:wait%(%) is called by the job itself",
    walk_over_its_job = "waits for the job",
  }
  -- in the foreground, too
  local refused_always = {assign_its_variable = true, run_in_the_background = true}

  local sources = {
    ["an eager map"] = function(f)
      return ipu.data.range(1000):map(function() return f() end,
        {eager = true, output_types = "float32", output_shapes = {}})
    end,
    ["a generator"] = function(f)
      return ipu.data.from_generator(function() return f end,
        {output_types = "float32", output_shapes = {}})
    end,
    ["an eager map that is read ahead"] = function(f)
      return ipu.data.range(1000):map(function() return f() end,
        {eager = true, output_types = "float32", output_shapes = {}}):prefetch(4)
    end,
  }

  -- A program that adds 30 elements up, times its variable.
  local function program(source, f)
    local queue = ipu.IPUInfeedQueue(sources[source](f))
    return ipu.func(function()
      return ipu.loops.repeat_n(30, function(s, x)
        mine:enqueue(x)
        all:enqueue(x)
        return s + x * own
      end, {0.0}, queue)
    end)
  end

  for source in pairs(sources) do
    for name, deed in pairs(deeds) do
      it(source .. ": " .. name, function()
        job = nil
        local f = program(source, deed)
        program(source, deeds.compute)() -- both queues have held something
        local fine, result = pcall(f)
        assert.equal(not refused_always[name], fine)
        if fine then assert.equal(60, result:item()) else assert.matches(refused[name], result) end
        job = strategy:run_async(program(source, deed))
        if refused[name] then
          local ok, why = pcall(job.wait, job)
          assert.is_false(ok)
          assert.matches(refused[name], why)
        else
          assert.equal(60, job:wait():item())
        end
        job = nil
        assert.equal(2, own:item())
        assert.equal(60, program(source, deeds.compute)():item())
      end)
    end

    it(source
      .. ": a job that nobody holds ends, also when it is collected inside of it", function()
      strategy:run_async(program(source, deeds.collect))
      assert.equal(2, twice(ipu.constant(1.0)):item())
      for _ = 1, 5 do strategy:run_async(program(source, deeds.collect)) end
      collectgarbage()
      assert.equal(60, program(source, deeds.collect)():item())
    end)
  end

  it("is called while the script polls its outfeed", function()
    all:dequeue()
    for source in pairs(sources) do
      local running, seen, calls = strategy:run_async(program(source, deeds.compute)), 0, 0
      while seen < 30 and calls < 10 ^ 7 do
        seen, calls = seen + all:dequeue().shape[1], calls + 1
      end
      assert.equal(30, seen)
      assert.equal(60, running:wait():item())
    end
  end)

  it("is called for elements of changing shape while the script polls", function()
    local queue = ipu.IPUOutfeedQueue()
    local infeed = ipu.IPUInfeedQueue(ipu.data.range(40):batch(3):map(function(x)
      return ipu.cast(ipu.reduce_sum(x), "float32")
    end))
    local running = strategy:run_async(ipu.func(function()
      return ipu.loops.repeat_n(14, function(s, x)
        queue:enqueue(x)
        return s + x
      end, {0.0}, infeed)
    end))
    local seen, calls = 0, 0
    while seen < 14 and calls < 10 ^ 7 do
      seen, calls = seen + queue:dequeue().shape[1], calls + 1
    end
    assert.equal(14, seen)
    assert.equal(780, running:wait():item())
  end)
end)
