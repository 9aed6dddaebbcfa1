-- Instances under the launchers of MPI that are installed: one script of each kind.
local processes = require "spec.support.processes"

local launchers <const> = processes.launchers()

describe("under MPI", function()
  if #launchers == 0 then
    pending("a launcher and its plug-in are there")
    return
  end
  for _, launcher in ipairs(launchers) do
    local function run(text, o)
      o = o or {}
      o.script, o.count = processes.script(text), o.count or 2
      return processes.launched(launcher, o)
    end
    it("rows 175, 176: instances meet and train: " .. launcher, function()
      local result = run(processes.in_scope() .. [[
        say(strategy.cluster_resolver.environment, distributed.allreduce(me + 1.0, "SUM"))
        local model = keras.Sequential{layers.Dense{1, use_bias = false, kernel_initializer = "ones",
          input_shape = {1}}}
        model:compile{loss = "mse", optimizer = keras.optimizers.SGD(0.25)}
        model:fit{x = ipu.tensor{{me + 1.0}}, y = ipu.tensor{{0.0}}, batch_size = 1, verbose = 0}
        say(distributed.allgather(model:get_weights()[1]:item()))
        local long = ipu.ones{400000} * (me + 1)
        local sum = strategy:run(ipu.func(function(x) return ipu.cross_replica_sum(x) end), {long})
        say(ipu.reduce_min(sum):item(), ipu.reduce_max(sum):item())
      ]])
      assert.equal(0, result.status, result.err)
      -- 1 - 0.25 * (2 * 1 + 2 * 4) / 2
      assert.equal(launcher .. "\t3.0\n[-0.25 -0.25]\n3.0\t3.0\n", result.out)
    end)
    -- A message is cut where MPI can't count its bytes. Here it is cut at 150000 bytes, and nothing
    -- is in shared memory.
    it("messages of several pieces arrive whole: " .. launcher, function()
      local result = run([[
        local function mixed(n, seed)
          return ipu.cast(ipu.mod(ipu.arange(n) * 7919 + seed, 1000003), "float32")
        end
        for _, n in ipairs{37500, 37501, 100000, 112500, 250001} do
          local all, right = distributed.allgather(mixed(n, me)), true
          for q = 0, 2 do right = right and ipu.reduce_all(ipu.equal(all[q + 1], mixed(n, q))):item() end
          say(n, right, distributed.allreduce(right and 1 or 0, "SUM"))
        end
      ]], {count = 3, env = {IPULUA_COMM_SHARED = "off", IPULUA_COMM = processes.pieces(launcher)}})
      assert.equal(0, result.status, result.err)
      local want = {}
      for i, n in ipairs{37500, 37501, 100000, 112500, 250001} do
        want[i] = n .. "\ttrue\t3.0\n"
      end
      assert.equal(table.concat(want), result.out)
    end)
    it("four instances have the bits of one with four replicas: " .. launcher, function()
      local text = [[
        local cfg = ipu.IPUConfig()
        popdist.set_ipu_config(cfg)
        cfg:configure_ipu_system()
        local strategy = ipu.PopDistStrategy()
        local values = ipu.tensor{1e8, 1, -1e8, 1}
        local long = ipu.cast(ipu.mod(ipu.arange(200000), 31), "float32") / 3
        local small, sum = strategy:run(ipu.func(function()
          local i = ipu.replication_index()
          return ipu.cross_replica_sum(ipu.gather(values, i)),
            ipu.cross_replica_sum(long * (ipu.cast(i, "float32") * 1000003 + 1))
        end))
        say(small, string.format("%a", ipu.reduce_sum(sum):item()))
      ]]
      local four = run(text, {count = 4})
      assert.equal(0, four.status, four.err)
      local one = processes.alone{script = processes.script(text), replicas = 4}
      assert.equal(one.out, four.out)
      assert.truthy(one.out:find("^1.0\t")) -- ((1e8 + 1) - 1e8) + 1 in float32
    end)
    it("lines that all write at once stay whole: " .. launcher, function()
      local result = run [[
        io.stderr:write("written before the instances meet\n")
        for i = 1, 40 do
          distributed.barrier()
          io.stderr:write("line ", i, " of ", me, ": ", "whole", "\n")
        end
      ]]
      local whole, torn = 0, {} -- the library of MPI may write lines of its own
      for line in result.err:gmatch("[^\n]+") do
        if line:find("^line %d+ of [01]: whole$") then whole = whole + 1
        elseif line:find("line", 1, true) or line:find("whole", 1, true) then
          torn[#torn + 1] = line
        end
      end
      assert.same({}, torn)
      assert.equal(80, whole)
    end)
    it("an error on one ends all, with its words: " .. launcher, function()
      local result = run([[
        distributed.barrier()
        if me == 1 then error("no more apples") end
        distributed.barrier()
        say("not reached")
      ]], {count = 3})
      assert.is_true(result.status ~= 0)
      assert.is_nil(result.out:find("not reached"), result.out)
      assert.truthy(result.err:find("no more apples", 1, true), result.err)
      assert.truthy(result.err:find("[instance 1]", 1, true), result.err)
    end)
    -- Instance 0 sends the sum's beginning to instance 1, which never receives it: the library of
    -- MPI would wait for that at its end.
    it("a sum that one never comes to ends all: " .. launcher, function()
      local result = run(processes.in_scope() .. [[
        local f = ipu.func(function(x) return ipu.cross_replica_sum(x) end)
        strategy:run(f, {ipu.ones{400000}})
        if me == 1 then error("no more apples") end
        strategy:run(f, {ipu.ones{400000}})
        say("not reached")
      ]], {count = 3, env = {IPULUA_COMM_SHARED = "off"}})
      assert.is_true(result.status ~= 0 and result.status < 124, result.status .. result.err)
      assert.is_nil(result.out:find("not reached"), result.out)
      assert.truthy(result.err:find("[instance 2]", 1, true), result.err)
      assert.truthy(result.err:find("instance 1 failed: .*no more apples"), result.err)
    end)
    it("a killed instance ends the job: " .. launcher, function()
      local result = run[[
        distributed.barrier()
        if me == 1 then
          os.execute("kill -9 " .. math.tointeger(assert(io.open("/proc/self/stat")):read("n")))
        end
        distributed.barrier()
        say("not reached")
      ]]
      -- the mpirun of MPICH 4.2 often ends with 0 after a plain C program was killed, too
      assert.is_true(launcher == "mpich" or result.status ~= 0)
      assert.is_nil(result.out:find("not reached"), result.out)
    end)
  end
end)
