-- Instances of one training on the stub: what they exchange, how they end, what they tell.
local command = require "spec.support.command"
local processes = require "spec.support.processes"

local function run(text, o)
  o = o or {}
  o.script, o.count = processes.script(text), o.count or 3
  return processes.with_stub(o)
end

local function statuses(results)
  local list = {}
  for i, each in ipairs(results) do list[i] = each.status end
  return list
end

describe("collectives of the host", function()
  it("row 175: add in the order of instances, in float32 and int64", function()
    local results = run[[
      say(distributed.allreduce(ipu.tensor(({1e8, 1, -1e8})[me + 1]), "SUM"))
      say(distributed.allreduce(ipu.tensor(({1e8, -1e8, 1})[me + 1]), "SUM"))
      say(distributed.allreduce(ipu.tensor({2048, 1, 1}, {dtype = "float16"}), "SUM"))
      say(distributed.allreduce(ipu.tensor({100, -7}, {dtype = "int8"}), "MEAN"))
      say(distributed.allreduce(ipu.tensor(me == 0 and 5 or -4, {dtype = "int32"}), "MEAN"))
      -- -2 / 3, -4 / 3 and 5 / 3: towards zero
      say(distributed.allreduce(ipu.tensor(({{0, -1, 1}, {-1, -1, 2}, {-1, -2, 2}})[me + 1],
        {dtype = "int32"}), "MEAN"))
    ]]
    assert.equal("0.0\n1.0\n[6.144e+03 3.000e+00 3.000e+00]\n[100  -7]\n-1\n[ 0 -1  1]\n",
      results[1].out,
      results[1].err)
    assert.same({0, 0, 0}, statuses(results))
  end)
  it("stack, send and wait, of any size and root", function()
    local results = run[[
      say(distributed.allgather(ipu.tensor{me, 10 * me}))
      for root = 0, 2 do say(distributed.broadcast(ipu.tensor(me), {root_rank = root})) end
      local large = ipu.ones{100000} * me
      say(ipu.reduce_sum(distributed.allgather(large)):item())
      for root = 0, 2 do
        say(ipu.reduce_sum(distributed.broadcast(large, {root_rank = root})):item())
      end
      say(table.concat(distributed.allgather(ipu.zeros{0, 2}).shape, " "))
      distributed.barrier()
      local s = distributed.statistics()
      say(s.meetings > 6, s.bytes_sent > 400000, s.waited <= s.seconds)
    ]]
    assert.equal("[[ 0.  0.]\n [ 1. 10.]\n [ 2. 20.]]\n0.0\n1.0\n2.0\n300000.0\n"
      .. "0.0\n100000.0\n200000.0\n3 0 2\ntrue\ttrue\ttrue\n", results[1].out, results[1].err)
  end)
  it("refuse what has no place on the host", function()
    local results = run([[
      local f = ipu.func(function(x) return distributed.allreduce(x, "SUM") end)
      say(select(2, pcall(f, ipu.ones{2})):match("cross_replica_sum"))
      say(select(2, pcall(distributed.allreduce, ipu.ones{2}, "MAX")):match("SUM"))
      say(select(2, pcall(distributed.broadcast, 1, {root_rank = 9})):match("0 to 1"))
    ]], {count = 2})
    assert.equal("cross_replica_sum\nSUM\n0 to 1\n", results[1].out, results[1].err)
  end)
  it("are identities in one process, which opens nothing", function()
    local alone = processes.alone{script = processes.script[[
      print(distributed.allreduce(ipu.tensor{1, 2}, "SUM"), distributed.allgather(3),
        distributed.broadcast(4), distributed.statistics().meetings)
      distributed.barrier()
      print(ipu.PopDistStrategy().num_replicas_in_sync, popdist.isPopdistEnvSet())
    ]]}
    assert.equal("[1. 2.]\t[3.]\t4.0\t0\n1\tfalse\n", alone.out, alone.err)
  end)
end)

describe("an event that ends one instance", function()
  local function all_told(text, words, o)
    local results = run(text, o)
    for i, each in ipairs(results) do
      assert.is_true(each.status ~= 0, i .. ": " .. each.err)
      for _, word in ipairs(words) do
        assert.truthy(each.err:find(word, 1, true), i .. ": " .. each.err)
      end
      assert.is_nil(each.out:find("not reached"), each.out)
    end
    return results
  end
  it("is told to all, with the words of an error", function()
    all_told([[
      distributed.barrier()
      if me == 1 then error("no more apples") end
      distributed.barrier()
      say("not reached")
    ]], {"no more apples"})
  end)
  it("is told to those who wait for one that has ended", function()
    local results = run[[
      distributed.barrier()
      if me == 2 then os.exit(0) end
      distributed.barrier()
    ]]
    for i = 1, 2 do
      assert.equal(1, results[i].status)
      assert.truthy(results[i].err:find("instance 2 has ended its script", 1, true), results[i].err)
      assert.truthy(results[i].err:find("barrier", 1, true), results[i].err)
    end
  end)
  it("keeps its own status", function()
    local results = run[[
      distributed.barrier()
      if me == 2 then os.exit(3) end
      distributed.barrier()
    ]]
    assert.same({1, 1, 3}, statuses(results))
    assert.truthy(results[1].err:find("instance 2 has ended with status 3", 1, true))
  end)
  it("is noticed where it was killed", function()
    local results = run[[
      distributed.barrier()
      if me == 1 then
        os.execute("kill -9 " .. math.tointeger(assert(io.open("/proc/self/stat")):read("n")))
      end
      distributed.barrier()
    ]]
    assert.same({1, 137, 1}, statuses(results))
    assert.truthy(results[1].err:find("instance 1 is gone", 1, true), results[1].err)
  end)
  it("may be that it never comes, for so long", function()
    local results = run([[
      distributed.barrier()
      if me == 1 then os.execute("sleep 4") end
      distributed.barrier()
    ]], {count = 2, env = {IPULUA_COMM_TIMEOUT = "1"}})
    assert.equal(1, results[1].status)
    assert.truthy(results[1].err:find("has not come to barrier", 1, true), results[1].err)
    assert.truthy(results[1].err:find("IPULUA_COMM_TIMEOUT", 1, true), results[1].err)
  end)
  it("may be that it comes later than a number with a unit, which is none", function()
    local results = run([[
      distributed.barrier()
      if me == 1 then os.execute("sleep 2") end
      distributed.barrier()
    ]], {count = 2, env = {IPULUA_COMM_TIMEOUT = "1ms"}})
    assert.same({0, 0}, statuses(results))
  end)
  it("is another meeting, and both sides are told", function()
    all_told([[
      if me == 0 then distributed.allreduce(ipu.ones{3}, "SUM") else distributed.barrier() end
    ]], {"allreduce 'SUM' of float32[3]", "barrier", "instance 0", "instance 1"}, {count = 2})
    all_told([[distributed.allreduce(ipu.ones{3 + me}, "SUM")]], {"float32[3]", "float32[4]"},
      {count = 2})
    all_told([[distributed.allreduce(1, me == 0 and "SUM" or "MEAN")]], {"SUM", "MEAN"},
      {count = 2})
    all_told([[distributed.broadcast(1, {root_rank = me})]],
      {"instance 0 is in broadcast from 0", "instance 1 in broadcast from 1"}, {count = 2})
  end)
  it("stays, where it is caught", function()
    all_told([[
      pcall(function()
        if me == 1 then popdist.execute_on_instances({0, 1}, error, "no more pears") end
        popdist.execute_on_instances({0, 1}, function() end)
      end)
      distributed.barrier()
      say("not reached")
    ]], {"no more pears"}, {count = 2})
  end)
end)

describe("a plug-in", function()
  it("that sees other processes than the launcher says is refused with both names", function()
    local results = run("distributed.barrier()", {count = 2, env = {COMM_STUB_ALONE = "1"}})
    for _, each in ipairs(results) do
      assert.equal(1, each.status)
      assert.truthy(each.err:find("of 2 by MPICH's mpirun, but stub sees 0 of 1", 1, true),
        each.err)
    end
  end)
  it("that is none, or not there, is named", function()
    local function refused(comm, words)
      local each = processes.alone{script = processes.script "popdist.init()",
        env = {PMI_RANK = "0", PMI_SIZE = "2", IPULUA_COMM = comm}}
      assert.equal(1, each.status)
      assert.truthy(each.err:find(words, 1, true), each.err)
    end
    refused("carrier pigeon", "IPULUA_COMM is 'carrier pigeon'; it can be openmpi, mpich")
    refused("/nowhere/comm.so", "/nowhere/comm.so")
  end)
  it("of MPI exports one symbol, and the command links no MPI", function()
    local folder <const> = command.ipulua:match("^(.*)/[^/]*$")
    local function linked(path)
      local pipe <close> = assert(io.popen("ldd " .. command.quote(path) .. " 2>&1"))
      return pipe:read("a"):find("libmpi") ~= nil
    end
    for _, name in ipairs{"/ipulua", "/modules/ipulua/core.so", "/libipulua.so.0"} do
      assert.is_false(linked(folder .. name), name)
    end
    for _, name in ipairs(processes.launchers()) do
      local path <const> = folder .. "/modules/ipulua/comm_" .. name .. ".so"
      assert.is_true(linked(path))
      local pipe <close> = assert(io.popen("nm -D --defined-only " .. command.quote(path)))
      local names = {}
      for symbol in pipe:read("a"):gmatch(" [A-Z] ([%w_]+)\n") do names[#names + 1] = symbol end
      assert.same({"comm_table"}, names)
    end
  end)
  it("of MPI never waits", function()
    local text = command.read("src/plugin/comm_mpi.c")
    for _, call in ipairs{"MPI_Send", "MPI_Recv", "MPI_Wait", "MPI_Waitall", "MPI_Barrier",
      "MPI_Allreduce", "MPI_Bcast", "MPI_Probe"} do
      assert.is_nil(text:find(call .. "(", 1, true), call)
    end
    assert.truthy(text:find("MPI_THREAD_SERIALIZED", 1, true))
    assert.truthy(text:find("MPI_ERRORS_RETURN", 1, true))
  end)
end)
