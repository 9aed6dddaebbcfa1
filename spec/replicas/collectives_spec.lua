-- Collectives of replicas, by hand: replica r of R holds r + 1 or the like.

local config = require "ipulua.config"
local ipu = require "ipulua"

local function with_ipus(count)
  config.reset_ipu_configuration()
  local cfg = ipu.IPUConfig()
  cfg.auto_select_ipus = count
  cfg:configure_ipu_system()
end

-- The values of all replicas: what f gives of (x + the replica's index), dequeued.
local function on_each(replicas, f, x)
  with_ipus(replicas)
  local out = ipu.IPUOutfeedQueue()
  local run = ipu.func(function(given)
    out:enqueue(f(given + ipu.cast(ipu.replication_index(), given.dtype)))
  end)
  run(ipu.tensor(x))
  local got = out:dequeue()
  return replicas == 1 and {got:totable()[1]} or got[1]:totable()
end

describe("collectives", function()
  teardown(function() config.reset_ipu_configuration() end)

  it("row 234: number the replicas from 0", function()
    with_ipus(4)
    local out = ipu.IPUOutfeedQueue()
    ipu.func(function() out:enqueue(ipu.replication_index()) end)()
    local got = out:dequeue()
    assert.equal("int32", got.dtype)
    assert.same({{0, 1, 2, 3}}, got:totable())
    assert.equal(0, ipu.replication_index():item()) -- outside of programs
  end)

  -- x is each replica's: d sum(x * x) / dx is 4 * 2 x, of replicas that don't compute together 2 x.
  it("are differentiated inside of the function, and refused by a tape around it", function()
    with_ipus(4)
    local x = ipu.tensor{1, 2}
    local function around(f)
      local tape = ipu.GradientTape()
      local y = tape(function() return ipu.func(f)(x) end)
      return tape:gradient(y, x)
    end
    local bodies <const> = {
      function(a) return ipu.cross_replica_sum(a * a) end,
      function(a) return ipu.reduce_sum(ipu.all_gather(a * a)) end,
      function(a)
        return ipu.loops.repeat_n(1, function(s) return ipu.cross_replica_sum(s * s) end, {a})
      end,
    }
    for _, f in ipairs(bodies) do
      local inside = ipu.func(function(a) return ipu.gradients(f(a), {a})[1] end)
      assert.same({8, 16}, inside(x):totable())
      assert.error_matches(function() around(f) end,
        "a tape can't go back through a function whose replicas compute together", 1, true)
    end
    assert.same({2, 4}, around(function(a) return a * a end):totable())
    local tape = ipu.GradientTape() -- its way leads around such a function
    local y = tape(function()
      ipu.func(bodies[1])(x)
      return ipu.reduce_sum(x * x * x)
    end)
    assert.same({3, 12}, tape:gradient(y, x):totable())
    with_ipus(1)
    assert.same({2, 4}, around(bodies[1]):totable())
  end)

  it("row 231: sum over all replicas, and over groups of neighbours or of those apart", function()
    local function sums(options)
      return on_each(4, function(x) return ipu.cross_replica_sum(x, options) end, {10, 20})
    end
    assert.same({{46, 86}, {46, 86}, {46, 86}, {46, 86}}, sums())
    assert.same({{21, 41}, {21, 41}, {25, 45}, {25, 45}}, sums{replica_group_size = 2})
    assert.same({{22, 42}, {24, 44}, {22, 42}, {24, 44}},
      sums{replica_group_size = 2, replica_group_type = "orthogonal"})
    assert.same({{10, 20}, {11, 21}, {12, 22}, {13, 23}}, sums{replica_group_size = 1})
  end)

  it("take the mean of float16 without overflow", function()
    with_ipus(4)
    local out = ipu.IPUOutfeedQueue()
    ipu.func(function(x) out:enqueue(ipu.cross_replica_mean(x)) end)(
      ipu.tensor({65504, 1}, {dtype = "float16"}))
    assert.same({{65504, 1}, {65504, 1}, {65504, 1}, {65504, 1}}, out:dequeue()[1]:totable())
  end)

  it("clip float16 sums, or trap where the configuration says so", function()
    with_ipus(2)
    local x = ipu.tensor({40000, 1}, {dtype = "float16"})
    local sum = ipu.func(function(given) return ipu.cross_replica_sum(given) end)
    assert.same({65504, 2}, sum(x):totable())
    config.reset_ipu_configuration()
    local cfg = ipu.IPUConfig()
    cfg.auto_select_ipus, cfg.floating_point_behaviour.oflo = 2, true
    cfg:configure_ipu_system()
    local ok, problem = pcall(sum, x)
    assert.is_false(ok)
    assert.matches("overflow %(oflo%) in cross_replica_sum", problem)
  end)

  it("row 232: gather values along a new first axis", function()
    assert.same({{{1, 5}, {2, 6}}, {{1, 5}, {2, 6}}}, on_each(2, ipu.all_gather, {1, 5}))
    assert.same({{{1, 5}}}, on_each(1, ipu.all_gather, {1, 5}))
  end)

  it("row 232: scatter what they reduce, padded with zeros", function()
    local function scattered(op)
      return on_each(2, function(x) return ipu.reduce_scatter(x, {op = op}) end, {1, 2, 3})
    end
    assert.same({{3, 5}, {7, 0}}, scattered())
    assert.same({{2, 6}, {12, 0}}, scattered("MUL"))
    assert.same({{1, 2}, {3, 0}}, scattered("MIN"))
    assert.same({{2, 3}, {4, 0}}, scattered("COLLECTIVE_OP_MAX"))
    assert.same({{5, 13}, {25, 0}}, scattered("SQUARE_ADD"))
    assert.same({{1, 2}, {4, 0}}, scattered("LOCAL"))
    assert.same({{1.5, 2.5}, {3.5, 0}}, scattered("MEAN"))
    assert.same({{1.5, 2.5}, {3.5, 0}}, scattered("collective_op_mean"))
  end)

  it("row 232: list each combination once, and say which is meant", function()
    local words <const> = "reduce_scatter: 'op' must be one of ADD, MUL, MIN, MAX, LOGICAL_AND, "
      .. "LOGICAL_OR, SQUARE_ADD, LOCAL, MEAN, got '"
    for given, meant in pairs{SUM = "ADD", prod = "MUL", COLLECTIVE_OP_MEEN = "MEAN",
      logical_adn = "LOGICAL_AND"} do
      local ok, message = pcall(function() return ipu.reduce_scatter(ipu.ones{4}, {op = given}) end)
      assert.is_false(ok)
      assert.truthy(message:find(words .. given .. "'; did you mean '" .. meant .. "'?", 1, true),
        message)
    end
  end)

  it("combine logical values", function()
    with_ipus(2)
    local out = ipu.IPUOutfeedQueue()
    ipu.func(function(x)
      local mine = ipu.equal(x, ipu.cast(ipu.replication_index(), "float32"))
      out:enqueue{all = ipu.reduce_scatter(mine, {op = "LOGICAL_AND"}),
        any = ipu.reduce_scatter(mine, {op = "LOGICAL_OR"})}
    end)(ipu.tensor{0, 1, 2, 0})
    local got = out:dequeue()
    assert.same({{false, false}, {false, false}}, got.all[1]:totable())
    assert.same({{true, true}, {false, true}}, got.any[1]:totable())
  end)

  it("take a list of tensors where Graphcore's TensorFlow does", function()
    with_ipus(2)
    local a, b = ipu.func(function(x, y) return table.unpack(ipu.reduce_scatter{x, y}) end)(
      ipu.tensor{1, 2}, ipu.tensor{3, 4, 5})
    assert.same({2}, a:totable())
    assert.same({6, 8}, b:totable())
  end)

  it("row 232: exchange blocks", function()
    assert.same({{{0, 1, 1, 2}}, {{2, 3, 3, 4}}}, on_each(2, function(x)
      return ipu.all_to_all(x, {split_dimension = 0, concat_dimension = 1})
    end, {{0, 1}, {2, 3}}))
    assert.same({{1, 2, 3, 4}, {11, 12, 13, 14}, {21, 22, 23, 24}, {31, 32, 33, 34}},
      on_each(4, function(x)
      return ipu.all_to_all(x, {split_dimension = 0, concat_dimension = 0})
    end, {1, 11, 21, 31}))
  end)

  it("work on int32", function()
    with_ipus(4)
    local sum = ipu.func(function() return ipu.cross_replica_sum(ipu.replication_index()) end)()
    assert.equal("int32", sum.dtype)
    assert.equal(6, sum:item())
  end)

  it("are not computed while tracing: constants count once for each replica", function()
    with_ipus(2)
    assert.equal(6,
      ipu.func(function() return ipu.cross_replica_sum(ipu.constant(3.0)) end)():item())
  end)

  it("are the value itself where nothing is replicated", function()
    local x = ipu.tensor{1, 2}
    assert.same({1, 2}, ipu.cross_replica_sum(x):totable())
    assert.same({1, 2}, x:cross_replica_mean():totable())
    assert.same({{1, 2}}, ipu.all_gather(x):totable())
    assert.same({1, 2}, ipu.reduce_scatter(x):totable())
    assert.same({1, 2}, ipu.assume_equal_across_replicas(x):totable())
  end)

  describe("have gradients:", function()
    -- d (sum over replicas of sum(w_r * f(x))) / dx on replica 0, with w_r = r + 1.
    local function gradient(f, x)
      with_ipus(2)
      return ipu.func(function(given)
        local y = f(given)
        local weight = ipu.cast(ipu.replication_index(), "float32") + 1
        return ipu.gradients(ipu.reduce_sum(y * weight), {given})[1]
      end)(ipu.tensor(x)):totable()
    end
    it("a sum's is the sum", function()
      assert.same({3, 3}, gradient(ipu.cross_replica_sum, {1, 2}))
    end)
    it("a mean's is the mean", function()
      assert.same({1.5, 1.5}, gradient(ipu.cross_replica_mean, {1, 2}))
    end)
    it("a gathered value's is what all made of it", function()
      assert.same({3, 3}, gradient(ipu.all_gather, {1, 2}))
    end)
    it("a scattered sum's is gathered", function()
      assert.same({1, 1, 2}, gradient(ipu.reduce_scatter, {1, 2, 3}))
    end)
    it("of squares, with the factor 2 x", function()
      assert.same({2, 4, 12},
        gradient(function(x) return ipu.reduce_scatter(x, {op = "SQUARE_ADD"}) end, {1, 2, 3}))
    end)
    it("of the replica's own share, zero elsewhere", function()
      assert.same({1, 1, 0},
        gradient(function(x) return ipu.reduce_scatter(x, {op = "LOCAL"}) end, {1, 2, 3}))
    end)
    it("an exchange's is the exchange back", function()
      assert.same({1, 2}, gradient(function(x)
        return ipu.all_to_all(x, {split_dimension = 0, concat_dimension = 0})
      end, {5, 6}))
    end)
  end)

  describe("refuse", function()
    local function message(f, ...)
      local ok, problem = pcall(f, ...)
      assert.is_false(ok)
      assert.matches("collectives_spec.lua:%d+:", problem)
      return problem
    end

    it("groups that don't divide the replicas", function()
      assert.matches("4.*multiple.*3", message(on_each, 4, function(x)
        return ipu.cross_replica_sum(x, {replica_group_size = 3})
      end, {1}))
      assert.matches("positive", message(on_each, 4, function(x)
        return ipu.cross_replica_sum(x, {replica_group_size = 0})
      end, {1}))
    end)

    it("another number of replicas than there are", function()
      assert.matches("traced for 3 replicas.*has 2", message(on_each, 2, function(x)
        return ipu.all_gather(x, {replication_factor = 3})
      end, {1}))
    end)

    it("shapes and dtypes that don't fit", function()
      assert.matches("rank 1", message(on_each, 2, ipu.reduce_scatter, {{1, 2}}))
      assert.matches("multiple of the replicas", message(on_each, 2, function(x)
        return ipu.all_to_all(x, {split_dimension = 0, concat_dimension = 0})
      end, {1, 2, 3}))
      with_ipus(2)
      message(ipu.func(function(x) return ipu.cross_replica_mean(ipu.cast(x, "int32")) end),
        ipu.tensor{1})
    end)

    it("to have a gradient where there is none", function()
      message(on_each, 2, function(x)
        return ipu.gradients(ipu.reduce_scatter(x, {op = "MAX"}), {x})[1]
      end, {1})
    end)
  end)

  it("find the number of replicas though the shards come later", function()
    with_ipus(4)
    local out = ipu.IPUOutfeedQueue()
    ipu.func(function(x)
      local all = ipu.all_gather(x) -- there are 2 replicas, since shard 1 is used below
      local _ <close> = ipu.ipu_shard(1)
      out:enqueue(all + 1)
    end)(ipu.tensor{1})
    assert.same({1, 2, 2, 1}, out:dequeue().shape)
  end)
end)

describe("collectives over the shards of one replica", function()
  local within = ipu.within_replica

  local function run(f, ...)
    with_ipus(2)
    local results = table.pack(ipu.func(function(a, b)
      local x, y
      do
        local _ <close> = ipu.ipu_shard(0)
        x = a + 0
      end
      do
        local _ <close> = ipu.ipu_shard(1)
        y = b + 0
      end
      return table.unpack(f{x, y})
    end)(...))
    for i = 1, results.n do results[i] = results[i]:totable() end
    results.n = nil
    return results
  end

  teardown(function() config.reset_ipu_configuration() end)

  it("row 233: reduce to all", function()
    assert.same({{4, 6}, {4, 6}},
      run(function(list) return within.all_reduce(list, "COLLECTIVE_OP_ADD") end, ipu.tensor{1, 2},
      ipu.tensor{3, 4}))
    assert.same({{4, 6}, {4, 6}},
      run(function(list) return within.all_reduce(list, {op = "ADD"}) end, ipu.tensor{1, 2},
      ipu.tensor{3, 4}))
    assert.same({{3, 8}, {3, 8}}, run(function(list) return within.all_reduce(list, "MUL") end,
      ipu.tensor{1, 2}, ipu.tensor{3, 4}))
  end)
  it("row 233: reduce and scatter", function()
    assert.same({{5, 7}, {9, 0}}, run(function(list) return within.reduce_scatter(list, "ADD") end,
      ipu.tensor{1, 2, 3},
      ipu.tensor{4, 5, 6}))
    assert.same({{2.5, 3.5}, {4.5, 0}},
      run(function(list) return within.reduce_scatter(list, "MEAN") end, ipu.tensor{1, 2, 3},
      ipu.tensor{4, 5, 6}))
  end)
  it("row 233: gather", function()
    assert.same({{1, 2, 3}, {1, 2, 3}}, run(within.all_gather, ipu.tensor{1, 2}, ipu.tensor{3}))
  end)
  it("give lists that print their tensors", function()
    local x = ipu.tensor{1, 2}
    for _, f in ipairs{within.all_reduce, within.reduce_scatter} do
      assert.matches("^{tensor%(%[", tostring(f{x, x}))
    end
    assert.matches("^{%s*tensor%(%[1%., 2%., 1%., 2%.%]", tostring(within.all_gather{x, x}))
  end)
  it("refuse lists that don't fit", function()
    assert.has_error(function()
      run(within.all_reduce, ipu.tensor{1, 2}, ipu.tensor({1, 2}, {dtype = "int32"}))
    end)
    assert.has_error(function() run(within.all_reduce, ipu.tensor{1, 2}, ipu.tensor{{1, 2}}) end)
    assert.has_error(function()
      run(function(list) return within.all_reduce{list[1]} end, ipu.tensor{1, 2}, ipu.tensor{1, 2})
    end)
  end)
end)
