-- Programs on several replicas: who gets which data, what comes back, what variables are, where
-- replicas must agree.

local config = require "ipulua.config"
local ipu = require "ipulua"

local function with_ipus(count)
  config.reset_ipu_configuration()
  local cfg = ipu.IPUConfig()
  cfg.auto_select_ipus = count
  cfg:configure_ipu_system()
end

local function numbers(n)
  return ipu.data.from_tensor_slices(ipu.arange(1, n + 1, 1):cast("float32"))
end

local function message(f, ...)
  local ok, problem = pcall(f, ...)
  assert.is_false(ok)
  assert.matches("programs_spec.lua:%d+:", problem)
  return problem
end

describe("replicas", function()
  teardown(function() config.reset_ipu_configuration() end)

  it("rows 40, 41: are IPUs divided by shards, rounded up to a power of two", function()
    for _, case in ipairs{{4, 0, 4, 1}, {4, 1, 2, 2}, {4, 2, 1, 4}, {4, 3, 1, 4}, {1, 0, 1, 1},
      {8, 1, 4, 2}} do
      local ipus, shard, replicas, shards = table.unpack(case)
      with_ipus(ipus)
      local index = ipu.func(function(x)
        local _ <close> = ipu.ipu_shard(shard)
        return ipu.cross_replica_sum(x) + 0
      end)(ipu.tensor(1.0))
      assert.equal(replicas, index:item())
      local p = ipu.programs()[1]
      assert.equal(replicas, p.replicas)
      assert.equal(shards, p.shards)
    end
  end)

  it("row 39: need enough IPUs: 3 shards don't fit 2", function()
    with_ipus(2)
    local f = ipu.func(function(x)
      local _ <close> = ipu.ipu_shard(2)
      return x + 1
    end)
    assert.matches("2 IPUs and has 4 shards; the number of IPUs must be a multiple of 4",
      message(f, ipu.tensor(1.0)))
    assert.equal("failed_precondition", ipu.last_error().kind)
  end)

  it("row 95: are dealt elements in turns, in each iteration", function()
    with_ipus(2)
    local out, feed = ipu.IPUOutfeedQueue(), ipu.IPUInfeedQueue(numbers(6))
    local run = ipu.func(function()
      ipu.loops.repeat_n(3, function(x) out:enqueue(x) end, {}, feed)
    end)
    run()
    assert.same({{1, 2}, {3, 4}, {5, 6}}, out:dequeue():totable())
    assert.same({0, 2}, out:dequeue().shape)
    assert.matches("end of data", message(run))
  end)

  it("row 100: give LAST, lists and tables an axis of replicas too", function()
    with_ipus(4)
    local last = ipu.IPUOutfeedQueue{outfeed_mode = "LAST"}
    local all = ipu.IPUOutfeedQueue()
    local feed = ipu.IPUInfeedQueue(numbers(8))
    ipu.func(function()
      ipu.loops.repeat_n(2, function(x)
        last:enqueue(x)
        all:enqueue{a = x, list = {ipu.stack{x, -x}}}
      end, {}, feed)
    end)()
    assert.same({5, 6, 7, 8}, last:dequeue():totable())
    local got = all:dequeue()
    assert.same({2, 4}, got.a.shape)
    assert.same({{{1, -1}, {2, -2}, {3, -3}, {4, -4}}, {{5, -5}, {6, -6}, {7, -7}, {8, -8}}},
      got.list[1]:totable())
    ipu.func(function()
      ipu.loops.repeat_n(3, function()
        all:enqueue{a = ipu.replication_index():cast("float32"), list = {ipu.zeros{2}}}
      end)
    end)()
    local count = 0
    for element in all:iter() do
      count = count + 1
      assert.same({0, 1, 2, 3}, element.a:totable())
    end
    assert.equal(3, count)
  end)

  it("return the results of the first", function()
    with_ipus(4)
    assert.equal(0, ipu.func(function() return ipu.replication_index() end)():item())
  end)

  it("keep variables of their own, until the script assigns", function()
    with_ipus(2)
    local v = ipu.Variable(10.0)
    local out = ipu.IPUOutfeedQueue()
    local step = ipu.func(function()
      v:assign_add(ipu.replication_index():cast("float32") + 1)
      out:enqueue(v:read_value())
    end)
    step()
    step()
    assert.same({{11, 12}, {12, 14}}, out:dequeue():totable())
    assert.equal(12, v:item()) -- the first replica's
    v:assign(0)
    step()
    assert.same({{1, 2}}, out:dequeue():totable())
  end)

  it("differ in another program too", function()
    with_ipus(2)
    local v = ipu.Variable(0.0)
    ipu.func(function() v:assign_add(ipu.replication_index():cast("float32")) end)()
    assert.equal(1, ipu.func(function() return ipu.cross_replica_sum(v:read_value()) end)():item())
    ipu.func(function() v:assign_add(1) end)() -- tells nobody apart, but runs on both
    assert.equal(3, ipu.func(function() return ipu.cross_replica_sum(v:read_value()) end)():item())
  end)

  it("draw other numbers, unless the seed says otherwise", function()
    with_ipus(2)
    local out = ipu.IPUOutfeedQueue()
    local draw = ipu.func(function() out:enqueue(ipu.random.uniform{4}) end)
    ipu.reset_ipu_seed(5)
    draw()
    local first = out:dequeue()[1]:totable()
    assert.are_not.same(first[1], first[2])
    ipu.reset_ipu_seed(5)
    draw()
    assert.same(first, out:dequeue()[1]:totable())
    ipu.reset_ipu_seed(5, {experimental_identical_replicas = true})
    draw()
    local same = out:dequeue()[1]:totable()
    assert.same(same[1], same[2])
    assert.same(first[1], same[1])
  end)

  it("call the host one after the other", function()
    with_ipus(2)
    local seen = {}
    local show = ipu.host_callback(function(x)
      seen[#seen + 1] = x:item()
      return x * 2
    end, {outputs = {{{}, "int32"}}})
    local sum = ipu.func(function()
      return (ipu.loops.repeat_n(2, function(total)
        return total + ipu.cross_replica_sum(show(ipu.replication_index()))
      end, {0}))
    end)()
    assert.same({0, 1, 0, 1}, seen)
    assert.equal(4, sum:item())
  end)

  it("run loops and branches of their own where they don't meet", function()
    with_ipus(4)
    local out = ipu.IPUOutfeedQueue()
    ipu.func(function()
      local i = ipu.replication_index()
      local power = ipu.loops.repeat_n(i, function(x) return x * 2 end, {1.0})
      local digits = ipu.loops.while_loop(function(n) return ipu.greater(n, 0) end,
        function(n) return n - 1 end, {i * 3})
      local branch = ipu.cond(ipu.greater(i, 1), function() return ipu.constant(1.0) end, function()
        return ipu.constant(-1.0)
      end)
      out:enqueue{power, digits, branch}
    end)()
    local got = out:dequeue()
    assert.same({{1, 2, 4, 8}}, got[1]:totable())
    assert.same({{0, 0, 0, 0}}, got[2]:totable())
    assert.same({{-1, -1, 1, 1}}, got[3]:totable())
  end)

  it("must agree where they meet", function()
    with_ipus(2)
    local function meets(x) return ipu.cross_replica_sum(x) end
    assert.matches("agree on the number of iterations; it is 0 on replica 0 and 1 on replica 1",
      message(ipu.func(function()
      return (ipu.loops.repeat_n(ipu.replication_index(), meets, {1.0}))
    end)))
    assert.matches("agree on the condition", message(ipu.func(function()
      return ipu.cond(ipu.equal(ipu.replication_index(), 0), function()
        return meets(ipu.constant(1.0))
      end,
        function() return ipu.constant(1.0) end)
    end)))
    assert.matches("agree on the condition", message(ipu.func(function()
      return (ipu.loops.while_loop(function(n)
        return ipu.less(n, ipu.replication_index())
      end, function(n)
        return meets(n) + 1
      end, {0}))
    end)))
    local sum = ipu.func(function()
      return ipu.loops.while_loop(function(n) return ipu.less(n, 5) end, meets, {1})
    end)()
    assert.equal(8, sum:item())
  end)

  it("raise the failure of the first that fails", function()
    with_ipus(4)
    local problem = message(ipu.func(function(x)
      return ipu.gather(x, ipu.cross_replica_sum(ipu.replication_index()) + ipu.replication_index())
    end), ipu.tensor{1, 2})
    assert.matches("6", problem)
    assert.equal(3, ipu.func(function() return ipu.constant(3.0) end)():item()) -- and all goes on
  end)

  it("row 96: refuse an infeed that deals to another number", function()
    with_ipus(4)
    local feed = ipu.IPUInfeedQueue(numbers(4):repeat_n())
    local function program(shard)
      return ipu.func(function()
        local _ <close> = ipu.ipu_shard(shard)
        return (ipu.loops.repeat_n(1, function(v, x) return v + x end, {0.0}, feed))
      end)
    end
    program(1)()
    assert.matches("replication factors: it feeds 2 replicas, and the program has 4",
      message(program(0)))
  end)

  it("are known inside of pipelines: IPUs over what the stages take", function()
    with_ipus(4)
    local out, feed = ipu.IPUOutfeedQueue(), ipu.IPUInfeedQueue(numbers(16))
    ipu.func(function()
      ipu.pipeline{
        computational_stages = {function(x) return x + 1 end, function(x)
          return ipu.all_gather(x)
        end},
        gradient_accumulation_count = 4, infeed_queue = feed, outfeed_queue = out,
      }
    end)()
    local got = out:dequeue()
    assert.same({4, 2, 2}, got.shape)
    assert.same({{2, 3}, {2, 3}}, got[1]:totable())
    assert.same({{8, 9}, {8, 9}}, got[4]:totable())
    assert.equal(2, ipu.programs()[1].replicas)
  end)

  it("accumulate over a pipeline, then take the mean once", function()
    local function trained_by(ipus, per_step, make)
      with_ipus(ipus)
      local w1, w2 = ipu.Variable(ipu.full({3, 3}, 0.2)), ipu.Variable(ipu.full({3, 1}, 0.3))
      local x = ipu.random.normal({48, 3}, {seed = 21})
      local feed = ipu.IPUInfeedQueue(ipu.data.from_tensor_slices(x):batch(per_step,
        {drop_remainder = true}):repeat_n())
      local out = ipu.IPUOutfeedQueue()
      ipu.func(function()
        ipu.pipeline{
          computational_stages = {
            function(part) return ipu.tanh(ipu.matmul(part, w1)) end,
            function(h) return ipu.reduce_mean(ipu.square(ipu.matmul(h, w2) - 1)) end,
          },
          gradient_accumulation_count = 4, repeat_count = 3, infeed_queue = feed,
          outfeed_queue = out,
          reduction_method = "MEAN",
          optimizer_function = function(loss) return ipu.OptimizerFunctionOutput(make(), loss) end,
        }
      end)()
      return {w1:totable(), w2:totable()}
    end
    local function sgd() return ipu.train.GradientDescentOptimizer(0.1) end
    local one = trained_by(2, 4, sgd)
    local two = trained_by(4, 2, function() return ipu.optimizers.CrossReplicaOptimizer(sgd()) end)
    for i = 1, 2 do
      assert.is_true(ipu.reduce_max(ipu.abs(ipu.tensor(one[i]) - ipu.tensor(two[i]))):item() < 1e-6)
    end
  end)

  it("work in sessions and on the second device", function()
    with_ipus({1, 2})
    local result = ipu.ipu_scope("/device:IPU:1")(function()
      return ipu.ipu_compiler.compile(function()
        return ipu.cross_replica_sum(ipu.constant(2.0))
      end, {})
    end)
    local sess <close> = ipu.Session()
    assert.equal(4, sess:run(result)[1]:item())
    local alone = ipu.ipu_compiler.compile(function()
      return ipu.cross_replica_sum(ipu.constant(2.0))
    end, {})
    assert.equal(2, sess:run(alone)[1]:item())
  end)

  it("run asynchronously", function()
    with_ipus(2)
    local out = ipu.IPUOutfeedQueue()
    local strategy = ipu.IPUStrategy()
    local f = ipu.func(function()
      ipu.loops.repeat_n(50, function() out:enqueue(ipu.replication_index()) end)
      return ipu.cross_replica_sum(ipu.constant(1.0))
    end)
    local job, count = strategy:run_async(f), 0
    for element in out:iter(job) do
      count = count + 1
      assert.same({0, 1}, element:totable())
    end
    assert.equal(50, count)
    assert.equal(2, job:wait():item())
  end)

  it("row 174: reduce by the operation that the strategy is given", function()
    with_ipus(2)
    local strategy = ipu.IPUStrategy()
    assert.equal(1, strategy.num_replicas_in_sync)
    local sum, mean = strategy:run(ipu.func(function()
      local i = ipu.replication_index():cast("float32")
      return strategy:reduce("SUM", i), strategy:reduce("MEAN", i)
    end))
    assert.equal(1, sum:item())
    assert.equal(0.5, mean:item())
    assert.equal(7, strategy:reduce("SUM", 7))
  end)

  it("give the same bits for any number of threads", function()
    local reference
    for _, threads in ipairs{1, 2, 3} do
      ipu.set_num_threads(threads)
      with_ipus(4)
      ipu.random.set_seed(9)
      -- enough work to be handed out
      local w = ipu.Variable(ipu.random.normal({100, 100}, {seed = 1}))
      local feed = ipu.IPUInfeedQueue(
        ipu.data.from_tensor_slices(ipu.random.normal({32, 60, 100}, {seed = 2})):repeat_n())
      local out = ipu.IPUOutfeedQueue()
      ipu.func(function()
        ipu.loops.repeat_n(10, function(x)
          local y = ipu.nn.dropout(ipu.tanh(ipu.matmul(x, w)), {rate = 0.1})
          local g = ipu.gradients(ipu.reduce_mean(ipu.square(y)), {w})[1]
          w:assign_sub(ipu.cross_replica_mean(g) * 0.1)
          out:enqueue(ipu.reduce_sum(y))
        end, {}, feed)
      end)()
      local got = {w:totable(), out:dequeue():totable()}
      reference = reference or got
      assert.same(reference, got)
    end
    ipu.set_num_threads(2)
  end)
end)

-- ------------------------------------------------ optimizers of ipu.train

local batches <const> = 24
local data = ipu.random.normal({batches, 4, 3}, {seed = 11})
local labels = ipu.random.normal({batches, 4, 2}, {seed = 12})

-- Weights after `iterations` of wrap(optimizer) on replicas, which together see `per_step` batches
-- of 4 each.
local function trained(replicas, iterations, joined, wrap)
  with_ipus(replicas)
  local x = ipu.reshape(data, {batches // joined, 4 * joined, 3})
  local y = ipu.reshape(labels, {batches // joined, 4 * joined, 2})
  local feed = ipu.IPUInfeedQueue(ipu.data.from_tensor_slices{x, y}:repeat_n())
  local w, b = ipu.Variable(ipu.full({3, 2}, 0.3)), ipu.Variable(ipu.zeros{2})
  local opt = wrap()
  ipu.func(function()
    ipu.loops.repeat_n(iterations, function(features, wanted)
      local loss = ipu.reduce_mean(ipu.square(ipu.tanh(ipu.matmul(features, w) + b) - wanted))
      opt:minimize(loss, {var_list = {w, b}})
    end, {}, feed)
  end)()
  return ipu.concat({ipu.reshape(w:read_value(), {6}), b:read_value()}, {axis = 0})
end

local function close(a, b, tolerance)
  local worst = ipu.reduce_max(ipu.abs(a - b)):item()
  assert.is_true(worst <= (tolerance or 1e-6), "differs by " .. worst)
end

describe("the table of what reduces where", function()
  local train, optimizers = ipu.train, ipu.optimizers
  local function momentum(rate) return train.MomentumOptimizer(rate, 0.9) end

  teardown(function() config.reset_ipu_configuration() end)

  it("a plain optimizer reduces nothing: the first replica learns from its own batches", function()
    local two = trained(2, 3, 1, function() return momentum(0.1) end)
    with_ipus(1)
    local w, b = ipu.Variable(ipu.full({3, 2}, 0.3)), ipu.Variable(ipu.zeros{2})
    local opt = momentum(0.1)
    local step = ipu.func(function(features, wanted)
      opt:minimize(ipu.reduce_mean(ipu.square(ipu.tanh(ipu.matmul(features, w) + b) - wanted)),
        {var_list = {w, b}})
    end)
    for _, i in ipairs{1, 3, 5} do step(data[i], labels[i]) end
    close(two, ipu.concat({ipu.reshape(w:read_value(), {6}), b:read_value()}, {axis = 0}))
  end)

  for _, replicas in ipairs{2, 4} do
    it("row 157: CrossReplicaOptimizer is the joined batch of " .. replicas, function()
      close(trained(1, 6, replicas, function() return momentum(0.1) end),
        trained(replicas, 6, 1, function()
          return optimizers.CrossReplicaOptimizer(momentum(0.1))
        end))
    end)
  end

  for method, factor in pairs{MEAN = 1, SUM = 3, RUNNING_MEAN = 1} do
    it("row 160: accumulation by " .. method .. ", then the mean over replicas", function()
      close(trained(1, 2, 6, function() return momentum(0.1 * factor) end),
        trained(2, 6, 1, function()
        return optimizers.CrossReplicaGradientAccumulationOptimizerV2(momentum(0.1),
          {num_mini_batches = 3, reduction_method = method})
      end))
      close(trained(1, 2, 6, function() return momentum(0.1 * factor) end),
        trained(2, 6, 1, function()
        return optimizers.GradientAccumulationOptimizerV2(
          optimizers.CrossReplicaOptimizer(momentum(0.1)),
          {num_mini_batches = 3, reduction_method = method})
      end))
    end)
  end

  it("row 161: the first version sums", function()
    close(trained(1, 2, 6, function() return momentum(0.3) end), trained(2, 6, 1, function()
      return optimizers.CrossReplicaGradientAccumulationOptimizer(momentum(0.1),
        {num_mini_batches = 3})
    end))
  end)

  it("the first version refuses momenta that replicas would keep apart", function()
    local mean = optimizers.CrossReplicaOptimizer
    local function accumulated(opt)
      return optimizers.GradientAccumulationOptimizer(opt, {num_mini_batches = 3})
    end
    local ok, problem = pcall(trained, 2, 6, 1, function() return accumulated(momentum(0.1)) end)
    assert.is_false(ok)
    assert.matches("GradientAccumulationOptimizer: on 2 replicas "
      .. ".*CrossReplicaGradientAccumulationOptimizer", problem)
    assert.equal("failed_precondition", ipu.last_error().kind)
    local expected = trained(1, 2, 6, function() return momentum(0.3) end)
    close(expected, trained(1, 6, 2, function() return accumulated(momentum(0.1)) end))
    close(expected, trained(2, 6, 1, function() return accumulated(mean(momentum(0.1))) end))
    close(expected, trained(2, 6, 1, function() return mean(accumulated(momentum(0.1))) end))
  end)

  it("state shared out among replicas gives the same weights", function()
    local function options(sharded)
      return {num_mini_batches = 3, reduction_method = "MEAN",
        offload_weight_update_variables = true,
        replicated_optimizer_state_sharding = sharded}
    end
    for _, make in ipairs{function() return momentum(0.1) end,
      function() return train.AdamOptimizer(0.05) end} do
      close(trained(2, 6, 1, function()
        return optimizers.CrossReplicaGradientAccumulationOptimizerV2(make(), options(false))
      end), trained(2, 6, 1, function()
        return optimizers.CrossReplicaGradientAccumulationOptimizerV2(make(), options(true))
      end))
    end
  end)

  it("row 149: offloaded state is in streaming memory, shared out among replicas where that is "
    .. "asked for", function()
    with_ipus(4)
    local streaming = {}
    for i, options in ipairs{{}, {offload_weight_update_variables = true},
      {offload_weight_update_variables = true, replicated_optimizer_state_sharding = true}} do
      options.num_mini_batches = 2
      local w = ipu.Variable(ipu.zeros{64, 64})
      local opt = optimizers.CrossReplicaGradientAccumulationOptimizerV2(momentum(0.1), options)
      local f = ipu.func(function(x)
        return (ipu.loops.repeat_n(2, function(carried)
          opt:minimize(ipu.reduce_sum(ipu.matmul(carried, w)), {var_list = {w}})
          return carried
        end, {x}))
      end)
      streaming[i] = ipu.estimate(f, {inputs = {ipu.zeros{8, 64}}, ipus = 4}).memory.streaming
    end
    assert.equal(0, streaming[1])
    assert.is_true(streaming[2] >= 64 * 64 * 4)
    assert.equal(streaming[2] / 4, streaming[3])
  end)

  it("row 64: a sharded training is an unsharded one", function()
    local whole = trained(1, 4, 1, function() return momentum(0.1) end)
    with_ipus(2)
    local w, b = ipu.Variable(ipu.full({3, 2}, 0.3)), ipu.Variable(ipu.zeros{2})
    local feed = ipu.IPUInfeedQueue(ipu.data.from_tensor_slices{data, labels})
    local opt = optimizers.ShardedOptimizer(momentum(0.1))
    local run = ipu.func(function()
      ipu.loops.repeat_n(4, function(features, wanted)
        local hidden
        do
          local _ <close> = ipu.ipu_shard(0)
          hidden = ipu.matmul(features, w) + b
        end
        local _ <close> = ipu.ipu_shard(1)
        opt:minimize(ipu.reduce_mean(ipu.square(ipu.tanh(hidden) - wanted)), {var_list = {w, b}})
      end, {}, feed)
    end)
    run()
    assert.same(whole:totable(),
      ipu.concat({ipu.reshape(w:read_value(), {6}), b:read_value()}, {axis = 0}):totable())
    assert.equal(1, ipu.programs()[1].replicas)
    for _, node in ipairs(ipu.graph.nodes(run)) do
      if node.op == "matmul" and node.backward then assert.equal(0, node.shard) end
      if node.op == "tanh" then assert.equal(1, node.shard) end
    end
  end)
end)
