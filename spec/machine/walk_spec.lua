-- Places and lifetimes of allocations, and how often a cost is charged. Each number is by hand.
local command = require "spec.support.command"
local ipu = require "ipulua"
local programs = require "spec.support.price_programs"

local function on(shard, f) return ipu.ipu_shard(shard)(f) end

local function priced(f, inputs, more)
  local a = {inputs = inputs, host = "model"}
  for k, v in pairs(more or {}) do a[k] = v end
  return ipu.estimate(f, a)
end

local function link_bytes(f, inputs, ipus)
  local sum = 0
  for _, s in ipairs((programs.profile_of(f, inputs, ipus)).steps) do
    if s.kind == "link" then sum = sum + s.bytes * s.times end
  end
  return sum
end

local function pipeline(count, more, shape)
  local n = shape or 64
  local w1, w2 = ipu.Variable(ipu.full({n, n}, 0.1)), ipu.Variable(ipu.full({n, n}, 0.1))
  local infeed, outfeed = ipu.IPUInfeedQueue(ipu.data.from_tensors(ipu.ones{8, n}):repeat_n()),
    ipu.IPUOutfeedQueue()
  local a = {
    computational_stages = {function(x) return x:matmul(w1) end, function(h)
      return ipu.reduce_sum(h:matmul(w2))
    end},
    gradient_accumulation_count = count, infeed_queue = infeed, outfeed_queue = outfeed,
  }
  for k, v in pairs(more or {}) do a[k] = v end
  if count then return ipu.func(function() return ipu.pipeline(a) end) end
  return ipu.func(function(c)
    a.gradient_accumulation_count = c
    return ipu.pipeline(a)
  end)
end

local function momentum(l)
  return ipu.OptimizerFunctionOutput(ipu.train.MomentumOptimizer(0.1, 0.9), l)
end

describe("a price", function()
  before_each(ipu.reset_ipu_configuration)

  it("of an op on the host isn't taken for an equal one on the IPU, in either order", function()
    local function host(f) local _ <close> = ipu.outside_compilation_scope() return f() end
    local shapes <const> = {{512, 1024}, {1024, 1024}}
    local function work(f)
      local e = priced(f, shapes)
      return e.cycles.compute + e.cycles.exchange
    end
    local one = work(function(a, b) return ipu.matmul(a, b) end)
    assert.equal(one, work(function(a, b)
      return ipu.matmul(host(function() return ipu.matmul(a, b) end), b)
    end))
    assert.equal(one, work(function(a, b)
      local x = ipu.matmul(a, b)
      return host(function() return ipu.matmul(x, b) end)
    end))
  end)

  it(
    "holds what is read later: through a transposition, and behind an update that runs early",
    function()
    local inputs = {{8, 128, 128, 16}}
    for k = 1, 6 do inputs[k + 1] = {3, 3, 16, 16} end
    local held = priced(function(x, ...)
      local out = {}
      for _, w in ipairs{...} do
        local y = ipu.nn.conv2d(x, w, {padding = "SAME"})
        out[#out + 1] = y
        out[#out + 1] = ipu.nn.relu(ipu.transpose(y, {perm = {0, 3, 1, 2}}))
      end
      return table.unpack(out)
    end, inputs).memory.activation
    assert(held >= 12 * (8 << 20), held)
    local function tensors(behind)
      local w = ipu.Variable(ipu.full({1024, 1024}, 0.1))
      return priced(function(x)
        local g = ipu.matmul(x, x, {transpose_a = true})
        local norm = not behind and ipu.reduce_sum(g)
        w:assign_sub(g * 0.1)
        return norm or ipu.reduce_sum(g)
      end, {{16, 1024}}).memory.activation / (4 << 20)
    end
    assert(math.abs(tensors(false) - tensors(true)) < 0.1)
  end)

  it("sends a variable again when it was written, and what is written on another IPU to where it "
    .. "is kept", function()
    local bytes <const> = 512 * 512 * 4
    local function sent(twice, assigns)
      local v = ipu.Variable(ipu.full({512, 512}, 0.1))
      return link_bytes(function(x)
        local a = on(0, function() return ipu.reduce_sum(v * 2) end) + x
        local b = on(1, function() return twice and ipu.reduce_sum(v * 3) or ipu.reduce_sum(x) end)
        if assigns then on(1, function() v:assign(ipu.exp(v)) end) end
        return on(0, function() return a + ipu.reduce_sum(v * 4) end), b
      end, {{shape = {}}}, 2) // 1024 * 1024
    end
    assert.equal(bytes, sent(true, false))
    assert.equal(2 * bytes, sent(false, true)) -- to IPU 1, which computes the new value, and back
    assert.equal(2 * bytes, sent(true, true))
  end)

  it(
    "has the rows of a host function, and arguments and results, on the IPU that needs them",
    function()
    local host = ipu.create_host_embedding("t", {10000, 512})
    local e = priced(ipu.func(function(i)
      return on(1, function() return ipu.sin(host:lookup(i)) end)
    end),
      {{shape = {5120}, dtype = "int32"}}, {ipus = 2})
    assert(e.ipu[1].memory.activation < 100000)
    assert(e.ipu[2].memory.activation >= 5120 * 512 * 4)
    local function total(shard)
      return priced(function(x)
        return on(shard, function()
          for _ = 1, 40 do x = ipu.pow(ipu.exp(x), 1.5) end
          return x
        end)
      end, {{4096, 512}}, {ipus = 2}).cycles.total
    end
    assert(math.abs(total(1) / total(0) - 1) < 0.03)
  end)

  it("of a pipeline has its collectives, and twice the micro-batches on either side of what is "
    .. "laid out", function()
    local cfg = ipu.IPUConfig()
    cfg.auto_select_ipus = 8
    cfg:configure_ipu_system()
    local function total(with)
      local function stage(f)
        return function(x) local y = f(x) return with and ipu.cross_replica_sum(y) or y end
      end
      local w = ipu.Variable(ipu.full({64, 64}, 0.1))
      return priced(
        pipeline(16,
          {computational_stages = {stage(function(x) return x:matmul(w) end),
            stage(function(h) return h + 1 end)}}))
        .cycles.total
    end
    -- rings of four replicas: six hops a sum at the least
    assert(total(true) > total(false) + 16 * 2 * 6 * 400)
    ipu.reset_ipu_configuration()
    local before
    for _, count in ipairs{1 << 14, 1 << 15, 1 << 16, 1 << 20, 1 << 21} do
      local e = priced(pipeline(count), nil, {ipus = 2})
      local each, c = e.cycles.total / count, e.ipu[1].cycles
      assert(not before or math.abs(each / before - 1) < 0.001, count)
      assert(math.abs((c.compute + c.exchange + c.sync + c.stream) / e.cycles.total - 1) < 1e-6)
      assert(e.time_steps > count)
      before = each
    end
  end)

  it(
    "of a pipeline whose count isn't known is that of the smallest, and each call has its own",
    function()
    local cfg = ipu.IPUConfig()
    cfg.auto_select_ipus = 2
    cfg:configure_ipu_system()
    local f = pipeline(nil, {optimizer_function = momentum})
    f(ipu.constant(4, {dtype = "int32"}))
    local smallest = priced(pipeline(4, {optimizer_function = momentum})).cycles.total
    assert.near(smallest, priced(f).cycles.total, 0.02 * smallest)
    local script = [[
      local ipu = require "ipulua"
      local w = ipu.Variable(ipu.ones{32, 32})
      local f = ipu.func(function(n, x) return ipu.loops.repeat_n(n, function(h) return ipu.tanh(h:matmul(w)) end, {x}) end, {name = "f"})
      local x = ipu.ones{256, 32}
      for _, n in ipairs{1, 1000, 1} do f(ipu.constant(n, {dtype = "int32"}), x) end]]
    local r = command.run{command.ipulua, "-e", script,
      env = {IPULUA_FLAGS = "--log_cycle_count=0"}}
    local logged = {}
    for cycles in r.err:gmatch("(%d+) cycles") do logged[#logged + 1] = tonumber(cycles) end
    assert.equal(3, #logged, r.err)
    assert.equal(logged[1], logged[3])
    assert(logged[2] > logged[1])
    local shown = command.run{command.ipulua, "--estimate", "-e", script}.out
    local all = tonumber(shown:match("Priced for 3 calls: (%S+) s in all"))
    assert.near((logged[1] + logged[2] + logged[3]) / 1.33e9, all, 0.01 * all)
  end)

  it("fits only if it fits on every IPU", function()
    local function fits(large)
      return priced(function(x)
        local y = on(large, function()
          return ipu.reduce_sum(ipu.tanh(ipu.broadcast_to(x, {20000, 20000})))
        end)
        return y, on(1 - large, function() return ipu.exp(x) end)
      end, {{1}}, {ipus = 2, target = {base = "GC200", name = "part", tiles = 16}}).fits
    end
    assert.is_false(fits(0))
    assert.is_false(fits(1))
  end)

  it("of one IPU's memory is the same whatever another one computes", function()
    local function bytes(work)
      local e = priced(function(x, y)
        local sum = on(0, function() return ipu.reduce_sum(ipu.tanh(ipu.concat({x, x, x}, 0))) end)
        return on(0, function() return ipu.exp(sum) end), on(1, function() return work(y) end)
      end, {{512, 512}, {1024, 1024}}, {ipus = 2})
      return e.ipu[1].max_tile_bytes, e.ipu[2].max_tile_bytes
    end
    local alone, little = bytes(function(y) return y * 2 end)
    local beside, much = bytes(function(y)
      return ipu.nn.softmax(ipu.matmul(y, ipu.transpose(y)))
    end)
    assert.equal(alone, beside)
    assert(much > little)
  end)

  it("of an all-gather equals the price of the reduce-scatter of its result", function()
    for _, replicas in ipairs{2, 4, 16} do
      local given = priced(function(x) return ipu.all_gather(x) end, {{4096}}, {ipus = replicas})
      local divided = priced(function(x) return ipu.reduce_scatter(x) end, {{4096 * replicas}},
        {ipus = replicas})
      assert.near(divided.cycles.stream, given.cycles.stream, 1e-6 * given.cycles.stream)
      assert(given.cycles.stream > 0)
    end
  end)

  it("of sums over the replicas is as often as the most frequent update, in any order", function()
    local function total(at, updates)
      return priced(function(x)
        local v = {ipu.Variable(ipu.ones{64, 64}), ipu.Variable(ipu.ones{64, 64})}
        local many <const>, once <const> = v[at], v[3 - at]
        ipu.loops.repeat_n(updates, function(h)
          many:assign_sub(ipu.matmul(h, h, {transpose_a = true}) * 1e-3)
          return ipu.matmul(h, many)
        end, {x})
        once:assign_sub(ipu.matmul(x, x, {transpose_a = true}))
      end, {{32, 64}}, {ipus = 4}).cycles.stream
    end
    assert.equal(total(1, 10), total(2, 10))
    assert(total(1, 10) > 4 * total(1, 2))
  end)

  it("is of the branch with more work, of two that take as long, in either order", function()
    local function flops(swapped)
      return priced(function(x, y, takes)
        local function one() return on(0, function() return ipu.tanh(x) end), y end
        local function both()
          return on(0, function() return ipu.tanh(x) end), on(1, function() return ipu.tanh(y) end)
        end
        return ipu.cond(takes, swapped and both or one, swapped and one or both)
      end, {{512, 512}, {512, 512}, {shape = {}, dtype = "bool"}}, {ipus = 2}).flops
    end
    assert.equal(2 * 512 * 512, flops(false))
    assert.equal(2 * 512 * 512, flops(true))
  end)

  it("knows how much streaming memory there is", function()
    local function of(target, offload, more)
      return priced(pipeline(16,
        {optimizer_function = momentum, offload_weight_update_variables = offload}, 512), nil,
        {target = target, ipus = 2, explain = more})
    end
    assert.equal(0, of("c600").memory.streaming) -- by default only where there is some
    assert(of("gc200").memory.streaming > 0)
    assert.is_true(of("gc200", true).fits)
    local none = of("c600", true, true)
    assert.is_false(none.fits)
    assert.matches("lie in its streaming memory, and it has none", none.explanation)
    local little = of({base = "GC200", name = "tiny", streaming_bytes = 1000}, true, true)
    assert.is_false(little.fits)
    assert.matches("which holds 1,000", little.explanation)
    local full = ipu.estimate(function()
      local Dense <const> = ipu.keras.layers.Dense
      local m = ipu.keras.Sequential{Dense{4096, input_shape = {4096}}, Dense{4096}, Dense{10}}
      m:compile{optimizer = "adam", loss = "mse"}
      return m
    end, {batch_size = 1024, target = "c600", explain = true})
    assert.is_nil(full.explanation:find("offload", 1, true))
  end)

  -- A byte takes a cycle here. Of the transfers of a pass one waits for its address.
  it("has the latency of streaming memory once, for transfers one after another", function()
    local wide, narrow = ipu.Variable(ipu.full({64, 128}, 0.1)), ipu.Variable(ipu.full({64}, 0.1))
    local infeed = ipu.IPUInfeedQueue(ipu.data.from_tensors(ipu.ones{8, 64}):repeat_n())
    local f = ipu.func(function()
      return ipu.pipeline{
        computational_stages = {function(x)
          return ipu.reduce_sum(x:matmul(wide)) + ipu.reduce_sum(x * narrow)
        end, function(x) return x end},
        gradient_accumulation_count = 4, infeed_queue = infeed,
        outfeed_queue = ipu.IPUOutfeedQueue(), optimizer_function = momentum,
        offload_weight_update_variables = true,
      }
    end)
    local target <const> = {base = "GC200", name = "slow", clock_hz = 1000000000,
      streaming_bytes_per_second = 1000000000, host_latency_cycles = 50000}
    local found, bytes = 0, 0
    for _, s in ipairs((programs.profile_of(f, nil, 2, {target = target})).steps) do
      if s.kind == "streaming memory" then
        assert.equal((found == 0 and 50000 or 0) + s.bytes, s.stream)
        found, bytes = found + 1, bytes + s.bytes
      end
    end
    assert.equal(4, found) -- the momenta of two weights, read and written
    assert.equal(2 * 4 * (64 * 128 + 64), bytes)
  end)

  it("of a loop keeps what each iteration reads until the last one", function()
    local function activation(again)
      return priced(function(x)
        local y = ipu.exp(x) -- 1 MiB
        local r = ipu.loops.repeat_n(3, function(a)
          return ipu.reduce_sum(ipu.tanh(ipu.ones{1024, 1024} * ipu.reduce_sum(y * a))) -- 4 MiB
        end, {ipu.reduce_sum(x)})
        return again and r + ipu.reduce_sum(y) or r
      end, {{512, 512}}).memory.activation
    end
    assert.equal(activation(true), activation(false))
    assert(activation(false) >= 5 << 20)
  end)

  it("explains what doesn't fit where nothing runs", function()
    local e = ipu.estimate(function()
      local v = ipu.Variable(ipu.zeros{9000, 9000})
      v:assign(v)
    end, {target = "gc2", host = "model", explain = true})
    assert.is_false(e.fits)
    assert.matches("does not fit on IPU 0 of GC2", e.explanation)
  end)

  it("leaves the state of random numbers as a checkpoint saves it", function()
    local core <const> = require "ipulua.core"
    local function draws(x) return ipu.nn.dropout(x, {rate = 0.5}) + ipu.random.normal{4} end
    ipu.random.set_seed(3)
    ipu.func(draws)(ipu.ones{4})
    local before = core.save_random()
    for _ = 1, 3 do assert.equal(1, priced(draws, {{4}}).shards) end
    assert.same(before, core.save_random())
  end)

  it("draws no random numbers", function()
    local keras, layers = ipu.keras, ipu.keras.layers
    local function loss(times)
      ipu.random.set_seed(3)
      local model = keras.Sequential{layers.Dense{16, input_shape = {8}}, layers.Dropout{0.3},
        layers.Dense{10}}
      model:compile{optimizer = "adam", loss = "mse"}
      ipu.random.set_seed(4)
      local x, y = ipu.random.normal{64, 8}, ipu.random.normal{64, 10}
      for _ = 1, times do
        ipu.estimate(model,
          {batch_size = 16, explain = true, target = {base = "GC200", name = "t", tiles = 8}})
      end
      local trained = model:fit(x, y,
        {batch_size = 16, epochs = 2, verbose = 0, shuffle = false}).history.loss[2]
      return {trained, ipu.random.normal{2}:totable()}
    end
    assert.same(loss(0), loss(1))
    assert.same(loss(0), loss(3))
  end)

  it("needs neither the batch nor more memory for a larger one", function()
    local m = ipu.keras.Sequential{ipu.keras.layers.Dense{10, input_shape = {784}}}
    m:compile{optimizer = "sgd", loss = "mse"}
    local core = require "ipulua.core"
    collectgarbage()
    local before = core.bytes_alive()
    local small, large = ipu.estimate(m, {batch_size = 1000}),
      ipu.estimate(m, {batch_size = 1000000})
    assert(core.bytes_alive() - before < 1 << 20)
    assert.is_false(large.fits)
    assert(large.seconds > 100 * small.seconds)
    assert(ipu.estimate(m, {batch_size = 1 << 31}).seconds > large.seconds)
  end)

  it("is for a device that there is, and on one tile exchanges nothing", function()
    local function double(x) return x * 2 end
    for _, count in ipairs{3, 5, 12, 2048} do
      local ok, why = pcall(ipu.estimate, double, {inputs = {{8}}, ipus = count})
      assert.is_false(ok)
      assert.matches("power of two", tostring(why))
    end
    local r = command.run{command.ipulua, "-e",
      "local ipu = require 'ipulua' print(ipu.estimate(function(x) return x * 2 end, "
      .. "{inputs = {{8}}, ipus = 3}).ipus)", env = {IPULUA_FLAGS = "--use_ipu_model"}}
    assert.equal("3\n", r.out)
    local e = priced(function(x, y)
      return ipu.reduce_sum(ipu.nn.softmax(ipu.matmul(x, y) + ipu.reduce_sum(y, {axis = 0})))
    end,
      {{16, 16}, {16, 16}}, {target = {base = "GC200", name = "one", tiles = 1}})
    assert.equal(0, e.cycles.exchange)
  end)

  it("and the tensor map of the event trace are of the chip that was asked for", function()
    local script = [[
      local ipu = require "ipulua"
      local v = ipu.Variable(ipu.ones{100000}, {name = "v"})
      local w = ipu.Variable(ipu.ones{100}, {name = "w"})
      ipu.func(function(x) v:assign_add(x) w:assign(w + 1) return x end, {name = "f"})(ipu.ones{100000})
      for _, e in ipairs(ipu.ipu_event_trace()) do
        if e.tensor_map then print(e.tensor_map) end end]]
    for target, tiles in pairs{gc2 = 1216, gc200 = 1472} do
      local map = command.run{command.ipulua, "--target", target, "-e", script}.out
      local most, sum, least = 0, 0, math.huge
      for tile, count in map:gmatch("%[(%d+),(%d+)%]") do
        most, sum, least = math.max(most, tonumber(tile)), sum + count,
          math.min(least, tonumber(count))
      end
      assert(most > 0.5 * tiles and most < tiles, map:sub(1, 200))
      assert.equal(100100, sum)
      -- 32 elements of 4 bytes to a tile at least, but the last
      assert(least == 100 % 32 or least >= 100000 % 96)
    end
  end)
end)
