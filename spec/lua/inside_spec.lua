-- Code that runs inside of a program: its readings, assignments, calls and waits
-- (docs/howto/sessions.md).

local command = require "spec.support.command"
local core = require "ipulua.core"
local ipu = require "ipulua"

local scalar <const> = {outputs = {{{}, "float32"}}}

-- A function of three iterations that adds x to v, and calls f(v) after each.
local function counting(v, f)
  local call = ipu.host_callback(function(now) return f(now) or 0 end, scalar)
  return ipu.func(function(x)
    for _ in ipu.range(3) do
      v:assign_add(x)
      call(v)
    end
    return v * 1
  end)
end

local function as_job(f, x)
  local job = ipu.IPUStrategy():run_async(f, {args = {x}})
  return job:wait()
end

local function at_once(f, x) return f(x) end

for name, run in pairs{["a program"] = at_once, ["a job"] = as_job} do
  describe("inside of " .. name, function()
    local sizes <const> = {3, 40000}

    for _, n in ipairs(sizes) do
      it("a reading is what the variable held then, of " .. n, function()
        local v, read, given = ipu.Variable(ipu.zeros{n}), {}, {}
        run(counting(v, function(now) read[#read + 1], given[#given + 1] = v:read_value(), now end),
          ipu.ones{n})
        for i = 1, 3 do
          assert.equal(i * n, ipu.reduce_sum(read[i]):item())
          assert.equal(i * n, ipu.reduce_sum(given[i]):item())
        end
        assert.equal(3 * n, ipu.reduce_sum(v):item())
      end)
    end

    it("rows and expressions of a variable are of that moment, too", function()
      local v, rows = ipu.Variable(ipu.zeros{2, 2}), {}
      run(counting(v, function() rows[#rows + 1] = {v[2], v + 0, ipu.tensor(v)} end),
        ipu.ones{2, 2})
      for i = 1, 3 do
        assert.same({i, i}, rows[i][1]:totable())
        assert.same({{i, i}, {i, i}}, rows[i][2]:totable())
        assert.same({{i, i}, {i, i}}, rows[i][3]:totable())
      end
    end)

    it("the program's variables can't be assigned, others can; afterwards both", function()
      local v, other = ipu.Variable(ipu.zeros{40000}), ipu.Variable(0.0)
      local f = counting(v, function()
        other:assign_add(1)
        local held = v:read_value()
        local ok, message = pcall(v.assign, v, ipu.ones{40000})
        assert(not ok
          and message:find("variable 'Variable.*' can't be assigned inside of a program that uses "
            .. "it"), message)
        return held and 0
      end)
      assert.equal(3, run(f, ipu.ones{40000})[1]:item())
      assert.equal(3, other:item())
      v:assign(ipu.zeros{40000})
      assert.equal(3, run(f, ipu.ones{40000})[7]:item())
    end)

    it("the function that runs can't be called, another one can", function()
      local v, f = ipu.Variable(ipu.zeros{3}), nil
      local twice = ipu.func(function(a) return a * 2 end)
      local seen = {}
      f = counting(v, function(now)
        seen[#seen + 1] = twice(now)[1]:item()
        local ok, message = pcall(f, ipu.ones{3})
        local refused = message:find("a callback can't call the function that it is called from", 1,
          true)
          -- in another scope: a program of its own
          or message:find("can't be assigned inside of a program", 1, true)
        assert(not ok and refused, message)
      end)
      assert.same({3, 3, 3}, run(f, ipu.ones{3}):totable())
      assert.same({2, 4, 6}, seen)
    end)

    it("a function that changes the program's variables can't be called", function()
      local v = ipu.Variable(ipu.zeros{3})
      local change = ipu.func(function() v:assign_add(ipu.ones{3}) end)
      local f = counting(v, function()
        local ok, message = pcall(change)
        assert(not ok and message:find("can't be assigned inside of a program", 1, true), message)
      end)
      assert.same({3, 3, 3}, run(f, ipu.ones{3}):totable())
    end)

    it("the system isn't configured", function()
      local v = ipu.Variable(ipu.zeros{3})
      run(counting(v, function()
        local ok, message = pcall(core.set_numerics, {inv = true})
        assert(not ok and message:find("can't be done inside of a callback", 1, true), message)
      end), ipu.ones{3})
    end)

    it("an error leaves no change", function()
      local v, fails = ipu.Variable(ipu.zeros{3}), true
      local f = counting(v, function() if fails then error("own words") end end)
      local ok, message = pcall(run, f, ipu.ones{3})
      assert.is_truthy(not ok and message:find("own words", 1, true), message)
      fails = false
      v:assign(ipu.zeros{3})
      assert.same({3, 3, 3}, run(f, ipu.ones{3}):totable())
    end)

    it("a tape of the callback's own works, and one around sees nothing of it", function()
      local v, found = ipu.Variable(ipu.ones{3}), {}
      local w = ipu.Variable(ipu.ones{3})
      local f = counting(v, function(now)
        local tape = ipu.GradientTape()
        local y = tape(function() return ipu.reduce_sum(w * now) end)
        found[#found + 1] = tape:gradient(y, w)[1]:item()
      end)
      local tape = ipu.GradientTape()
      local y = tape(function() return run(f, ipu.ones{3}) end)
      assert.same({2, 3, 4}, found)
      assert.is_nil(tape:gradient(y, w))
    end)
  end)
end

describe("after a callback that failed", function()
  -- A process of its own: memory of the run that is over may be anybody's.
  it("programs read what their variables hold", function()
    local result = command.run{command.ipulua, "-e", [[
      local ipu = require "ipulua"
      local v, fails = ipu.Variable(1.0), true
      local f = ipu.func(function(x)
        v:assign_add(x)
        ipu.host_callback(function() if fails then error("no " .. v:item()) end end)(x)
      end)
      local reader = ipu.func(function() return v * 1 end)
      for i = 1, 3 do
        local _, message = pcall(f, ipu.tensor(2.0))
        print(message:match "no .*")
        v:assign(100.0 + i)
        print(reader():item(), v:item(), (v + 0):item())
      end
      fails = false
      f(ipu.tensor(2.0))
      print(reader():item())]]}
    assert.equal("no 3.0\n101.0\t101.0\t101.0\nno 103.0\n102.0\t102.0\t102.0\nno 104.0\n"
      .. "103.0\t103.0\t103.0\n105.0\n", result.out, result.err)
    assert.equal(0, result.status)
  end)
end)

describe("inside of a job", function()
  it("a dataset that feeds it can't read its variable, whatever failed before", function()
    local v = ipu.Variable(1.0)
    local failing = ipu.func(function(x)
      ipu.host_callback(function() error "no" end)(x)
    end)
    local function fed(read)
      local infeed = ipu.IPUInfeedQueue(ipu.data.from_generator(function()
        local k = 0
        return function()
          k = k + 1
          if k <= 3 then return read() end
        end
      end, {output_types = "float32", output_shapes = {}}))
      return as_job(ipu.func(function()
        return ipu.loops.repeat_n(3, function(x) v:assign_add(x) end, {}, infeed)
      end))
    end
    for _ = 1, 2 do
      local ok, message = pcall(fed, function() return v:item() end)
      assert.is_false(ok)
      assert.truthy(message:find("is being changed by the job that this feeds", 1, true), message)
      assert.is_false(pcall(failing, ipu.tensor(1.0)))
    end
    v:assign(1)
    fed(function() return 2.0 end)
    assert.equal(7, v:item())
  end)

  it("nothing waits for it", function()
    local v, job = ipu.Variable(ipu.zeros{3}), nil
    local f = counting(v, function()
      local ok, message = pcall(job.wait, job)
      assert(not ok and message:find("job:wait() is called by the job itself", 1, true), message)
      local begun, words = pcall(ipu.IPUStrategy().run_async, ipu.IPUStrategy(),
        ipu.func(function(a) return a end), {args = {ipu.ones{1}}})
      assert(not begun and words:find("run_async can't be done inside of a callback", 1, true),
        words)
    end)
    job = ipu.IPUStrategy():run_async(f, {args = {ipu.ones{3}}})
    assert.same({3, 3, 3}, job:wait():totable())
  end)

  it("the garbage collector may free a job that no variable holds", function()
    local v = ipu.Variable(ipu.zeros{3})
    local f = counting(v, function()
      collectgarbage()
      collectgarbage()
    end)
    ipu.IPUStrategy():run_async(f, {args = {ipu.ones{3}}})
    assert.is_number(v:read_value()[1]:item()) -- waits for the job, if it still runs
  end)
end)
