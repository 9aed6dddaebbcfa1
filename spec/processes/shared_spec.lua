-- Instances of one host read each other's values in memory that they share. Instances of several
-- hosts send them. Neither changes a bit.
local processes = require "spec.support.processes"

-- Shared memory, messages, and instances that are told to be on hosts of their own.
local ways <const> = {{}, {IPULUA_COMM_SHARED = "off"}, {COMM_STUB_HOSTS = "1"}}

local begin <const> = processes.in_scope(7)

-- new() gives a program of its own: the sum of x, 2 x, 3 x of replicas 0, 1, 2.
local new_sum <const> = [[
  local function new()
    local f = ipu.func(function(x)
      return ipu.cross_replica_sum(x * (ipu.cast(ipu.replication_index(), "float32") + 1))
    end)
    return function(x) return strategy:run(f, {x}) end
  end
]]

local function in_every_way(text, o)
  local script <const> = processes.script(begin .. text)
  local first
  for _, env in ipairs(ways) do
    local result = processes.together{script = script, count = o.count, replicas = o.replicas,
      threads = o.threads, env = env}
    assert.equal(0, result.status, result.err)
    first = first or result.out
    assert.equal(first, result.out, result.err)
  end
  return first
end

describe("row 176: memory that instances share", function()
  -- Replica g brings 0.1 (g + 1) i for element i. The sums are computed here by string.pack's
  -- float32, one rounding at a time from the left.
  local function float32(x) return (string.unpack("<f", string.pack("<f", x))) end

  local function sum_of(i, n)
    local sum
    for g = 0, n - 1 do
      local x = float32(float32(float32(0.1) * (g + 1)) * i)
      sum = sum and float32(sum + x) or x
    end
    return sum
  end

  -- Both sides of what travels with a header, 4 KiB, and of a chain's piece, 128 KiB.
  local sizes <const> = {1, 3, 512, 1000, 1024, 1025, 1500, 32768, 32769, 70001, 163841, 300000}

  for _, split in ipairs{{2, 2}, {2, 4}, {3, 3}, {4, 4}} do
    local count <const>, replicas <const> = split[1], split[2]
    it(("adds from left to right: %d replicas on %d instances"):format(replicas, count), function()
      local out = in_every_way("local sizes <const> = {" .. table.concat(sizes, ",") .. "}\n" .. [[
        local f = ipu.func(function(...)
          local share = 0.1 * ipu.cast(ipu.replication_index() + 1, "float32")
          local sums = {...}
          for i, x in ipairs(sums) do sums[i] = ipu.cross_replica_sum(x * share) end
          return table.unpack(sums)
        end)
        local xs = {}
        for i, n in ipairs(sizes) do xs[i] = ipu.arange(n, {dtype = "float32"}) end
        for _ = 1, 3 do
          local sums = {strategy:run(f, xs)}
          for i, n in ipairs(sizes) do
            local s, want = sums[i], nil
            for g = 0, strategy.num_replicas_in_sync - 1 do
              local part = xs[i] * (0.1 * ipu.tensor(g + 1.0))
              want = want and want + part or part
            end
            local fine = ipu.cast(ipu.reduce_all(ipu.equal(s, want)), "float32")
            say(n, string.format("%a", s[n]:item()), distributed.allreduce(fine, "SUM"):item())
          end
        end
      ]], {count = count, replicas = replicas})
      local want = {}
      for _, n in ipairs(sizes) do
        want[#want + 1] = string.format("%d\t%a\t%.1f\n", n, sum_of(n - 1, replicas), count)
      end
      assert.equal(table.concat(want):rep(3), out)
    end)
  end

  -- Ctrl-C comes to one instance alone, while the program runs and no Lua code of it.
  for _, elements in ipairs{4, 2000, 100000} do
    it("ends a loop in the same iteration on all, with sums of " .. elements, function()
      for which = 0, 2, 2 do
        for _, env in ipairs{ways[1], ways[2]} do
          local result = processes.together{count = 3, env = env, script = processes.script(begin
            .. "local elements <const>, which <const> = " .. elements .. "," .. which .. [[

            local own <const> = math.tointeger(assert(io.open("/proc/self/stat")):read("n"))
            local steps, x = ipu.Variable(0.0), ipu.ones{elements}
            local press = ipu.host_callback(function(v)
              if me == which then os.execute("(sleep 0.2; kill -INT " .. own .. ") &") end
              return v
            end, {outputs = {{{}, "float32"}}})
            local f = ipu.func(function()
              return ipu.loops.repeat_n(1000000, function(s)
                steps:assign_add(1)
                local one = ipu.cond(ipu.equal(steps, 3), function() return press(steps) end,
                  function() return steps:read_value() end)
                return s + ipu.reduce_max(ipu.cross_replica_sum(x * one))
              end, {0.0})
            end)
            local g = ipu.func(function()
              return ipu.loops.repeat_n(9, function(s)
                return s + ipu.reduce_max(ipu.cross_replica_sum(x))
              end, {0.0})
            end)
            local _, problem = pcall(strategy.run, strategy, f)
            local all = distributed.allgather(steps:read_value())
            say(problem:match("interrupted!$"), ipu.reduce_all(ipu.equal(all, all[1])):item())
            say(strategy:run(g)) -- goes on: nine times the sum of three
          ]])}
          assert.equal("interrupted!\ttrue\n27.0\n", result.out, result.err)
          assert.equal(0, result.status, result.err)
        end
      end
    end)
  end

  -- Two replicas bring 1 and 2 times x. So s1 = 3 x, s2 = 2 (3 x) on each, in all 12 x, and s3 = 3
  -- z. s3 reads what is there when s1 runs, s2 is exchanged between the two.
  it("keeps what has arrived while another sum is exchanged", function()
    local out = in_every_way([[
      local f = ipu.func(function(x, z)
        local share = ipu.cast(ipu.replication_index() + 1, "float32")
        local a, b = x * share, z * share
        local s1 = ipu.cross_replica_sum(a)
        local s2 = ipu.cross_replica_sum(s1 * 2)
        local s3 = ipu.cross_replica_sum(b)
        return s1, s2, s3
      end)
      for _, n in ipairs{4, 3000} do
        for _ = 1, 3 do
          local s1, s2, s3 = strategy:run(f, {ipu.full({n}, 1.0), ipu.full({n}, 100.0)})
          say(s1[n]:item(), s2[n]:item(), s3[n]:item())
        end
      end
    ]], {count = 2, replicas = 2})
    assert.equal(("3.0\t12.0\t300.0\n"):rep(6), out)
  end)

  -- Readers of the sums are an update alone, two steps, an update of the sum's own operand, one
  -- that repeats a row, and the caller. Replica g of three brings 0.1 (g + 1) i for element i.
  it("gives each reader of a sum the whole sum", function()
    local out = in_every_way([[
      local n <const> = 6000
      local function new(x) return ipu.Variable(ipu.cast(ipu.arange(n), "float32") * x) end
      local a, b, c, d = new(1.0), new(1.0), new(0.0), new(1.0)
      local e, g, h = new(1.0), new(1.0), new(1.0)
      local row = ipu.cast(ipu.arange(50), "float32")
      local f = ipu.func(function(x)
        local share = x * (0.1 * ipu.cast(ipu.replication_index() + 1, "float32"))
        local function sum() return ipu.cross_replica_sum(share) end
        local s = sum()
        a:assign(a - s * 0.5)
        c:assign(c * 0.9 + ipu.cross_replica_mean(share))
        b:assign(b - c * 0.1)
        d:assign(ipu.cross_replica_mean(d) * 0.25)
        s = ipu.cross_replica_sum(share * 2)
        e:assign(e - ipu.reshape(ipu.reshape(s, {120, 50}) + row, {n}))
        s = ipu.cross_replica_sum(share * 3)
        g:assign(g - s * 0.5)
        local t = sum()
        h:assign(h - t * 0.25)
        return s, ipu.reduce_max(t)
      end)
      local x = ipu.cast(ipu.arange(n), "float32")
      for _ = 1, 3 do
        local s, most = strategy:run(f, {x})
        for _, t in ipairs{a, b, c, d, e, g, h, s} do say(string.format("%a", t[n]:item())) end
        say(string.format("%a", most:item()))
        for _, t in ipairs{a, b, c, d, e, g, h, s} do
          local all = distributed.allgather(t)
          for q = 2, count do assert(ipu.reduce_all(ipu.equal(all[1], all[q])):item()) end
        end
      end
    ]], {count = 3, replicas = 3})
    local i <const>, want, f = 5999.0, {}, float32
    local function sum(times, members)
      local total
      for r = 1, 3 do
        local x = f(f(f(i * f(f(0.1) * r)) * times) / (members or 1))
        total = total and f(total + x) or x
      end
      return total
    end
    local a, b, c, d, e, g, h = i, i, 0.0, i, i, i, i
    local third <const> = function(x) return f(x / 3) end
    for _ = 1, 3 do
      a = f(a - f(sum(1) * 0.5))
      c = f(f(c * f(0.9)) + sum(1, 3))
      b = f(b - f(c * f(0.1)))
      d = f(f(f(third(d) + third(d)) + third(d)) * 0.25)
      e = f(e - f(sum(2) + 49))
      g = f(g - f(sum(3) * 0.5))
      h = f(h - f(sum(1) * 0.25))
      for _, v in ipairs{a, b, c, d, e, g, h, sum(3), sum(1)} do
        want[#want + 1] = string.format("%a\n", v)
      end
    end
    assert.equal(table.concat(want), out)
  end)

  it("trains to the same bits, in loops, with accumulation and with two models in turn", function()
    local out = in_every_way([[
      local x = ipu.random.normal({64, 40}, {seed = 1})
      local y = ipu.reduce_sum(x, {axis = 1, keepdims = true})
      local ds = strategy:experimental_distribute_dataset(
        ipu.data.from_tensor_slices{x, y}:batch(16, {drop_remainder = true}))
      local models = {}
      for i = 1, 2 do
        local model = keras.Sequential{layers.Dense{50 * i, activation = "relu", input_shape = {40}},
          layers.Dense{70, activation = "relu"}, layers.Dense{1}}
        model:set_gradient_accumulation_options{gradient_accumulation_steps_per_replica = i}
        model:compile{loss = "mse", optimizer = keras.optimizers.Adam(0.01), steps_per_execution = 2}
        models[i] = model
      end
      for _ = 1, 2 do
        for _, model in ipairs(models) do
          say(string.format("%a", model:fit(ds, {epochs = 2, verbose = 0}).history.loss[2]))
          for _, w in ipairs(model:get_weights()) do
            say(string.format("%a", ipu.reduce_sum(w):item()))
          end
        end
      end
    ]], {count = 2, replicas = 4})
    assert.truthy(out ~= "")
  end)

  -- A program's sum takes twice 2 MB of a window of 32 MB at most. Memory of a program that is gone
  -- is free again. The profile's list of meetings has the way of each sum. A few numbers travel in
  -- the message of the meeting.
  it("is given back by programs that are gone, and used for large sums alone", function()
    for i = 1, 2 do
      local result = processes.together{count = 2, env = ways[i], script = processes.script(begin .. [[
        local ways = {}
        local function add(x)
          local f = ipu.func(function(y) return ipu.cross_replica_sum(y * 3) end)
          assert(strategy:run(f, {x})[1]:item() == 6)
          for _, record in ipairs(require "ipulua.trace.func".compiled()) do
            local entry = record.entry[1] -- nil of a function that is gone
            for _, m in ipairs(entry and entry.program:meetings() or {}) do ways[#ways + 1] = m.way end
          end
        end
        for _ = 1, 12 do
          add(ipu.ones{500000})
          collectgarbage()
          collectgarbage()
        end
        add(ipu.ones{3})
        say(table.concat(ways, " "))
      ]])}
      assert.equal(0, result.status, result.err)
      -- where there is hardly any shared memory, all are messages, as without it
      local large <const> = result.out:match("%a+ ")
      assert.equal(large:rep(12) .. "gather\n", result.out)
      assert.is_true(large == "chain " or i == 1 and large == "shared ", large)
    end
  end)

  -- Instance 0 gives back the memory of a first program, the others of a second one. A third
  -- program then has another place on each. Its values are 1, 2 and 3 times x.
  it("reads the values of each instance where that one has them", function()
    local out = in_every_way(new_sum .. [[
      local programs = {new(), new()}
      for i, run in ipairs(programs) do run(ipu.full({50000}, 100.0 * i)) end
      programs[me == 0 and 1 or 2] = false
      collectgarbage()
      collectgarbage()
      local run = new()
      for i = 1, 3 do
        local sum = run(ipu.full({50000}, 1.0 * i))
        say(ipu.reduce_min(sum):item(), ipu.reduce_max(sum):item())
      end
    ]], {count = 3, replicas = 3})
    assert.equal("6.0\t6.0\n12.0\t12.0\n18.0\t18.0\n", out)
  end)

  -- A sum of 3.2 MB takes twice as much, and a window has 32 MiB. On instance 0 five programs leave
  -- no room for a sixth.
  it("sends what one instance has no room for", function()
    local out = in_every_way(new_sum .. [[
      local kept = {}
      for i = 1, 5 do
        kept[i] = new()
        kept[i](ipu.full({800000}, 100.0))
      end
      if me ~= 0 then kept = {} end
      collectgarbage()
      collectgarbage()
      local sum = new()(ipu.ones{800000})
      say(ipu.reduce_min(sum):item(), ipu.reduce_max(sum):item(), #kept)
    ]], {count = 3, replicas = 3})
    assert.equal("6.0\t6.0\t5\n", out)
  end)

  -- A sum has two places of 3.6 MB. The window has 32 MiB: room for nine places.
  it("has no more sums in the window than fit", function()
    local out = in_every_way(new_sum .. [[
      local kept = {}
      for i = 1, 6 do
        kept[i] = new()
        kept[i](ipu.full({900000}, 100.0))
      end
      local shared = 0
      for _, record in ipairs(require "ipulua.trace.func".compiled()) do
        for _, m in ipairs(record.entry[1] and record.entry[1].program:meetings() or {}) do
          if m.way == "shared" then shared = shared + 1 end
        end
      end
      say(shared * 2 * 3600000 <= 32 << 20, #kept)
    ]], {count = 2, replicas = 2})
    assert.equal("true\t6\n", out)
  end)

  it("tells of instances that come to different meetings, as messages do", function()
    for _, env in ipairs(ways) do
      local result = processes.together{count = 2, env = env, script = processes.script(begin .. [[
        local f = ipu.func(function(x) return ipu.cross_replica_sum(x) end)
        if me == 0 then strategy:run(f, {ipu.full({5000}, 1.0)})
        else distributed.barrier() end
      ]])}
      assert.not_equal(0, result.status)
      assert.truthy(result.err:find("barrier", 1, true), result.err)
    end
  end)
end)
