-- Options of a configuration change a program's price, and must not change its results.

local config = require "ipulua.config"
local ipu = require "ipulua"
local pipelines = require "spec.support.pipelines"
local structure = require "ipulua.base.structure"

local function price(options, f, inputs, ipus)
  local _ <close> = pipelines.device(ipus or 1, options)
  return ipu.estimate(f, {inputs = inputs})
end

local product = ipu.func(function(a, b) return ipu.matmul(a, b) end, {name = "product"})
local image_filter = ipu.func(function(x, k) return ipu.nn.conv2d(x, k) end, {name = "filter"})
local function near(expected, got, tolerance)
  assert(math.abs(got - expected) <= tolerance,
    string.format("%.6g expected, got %.6g", expected, got))
end

local function halves(...) return ipu.zeros({...}, {dtype = "float16"}) end
local matrices <const> = {halves(512, 2048), halves(2048, 1024)}
local pictures <const> = {halves(4, 32, 32, 64), halves(3, 3, 64, 128)}

describe("the configuration in an estimate", function()
  after_each(function()
    config.reset_ipu_configuration()
    config.set_flags("")
  end)

  it("row 23: names the chip by ipu_model.version: tiles and their memory", function()
    for version, chip in pairs{ipu1 = {"GC2", 1216, 256}, ipu2 = {"GC200", 1472, 624}} do
      local _ <close> = pipelines.device(1, {["ipu_model.version"] = version})
      local e = ipu.estimate(product, {inputs = matrices})
      assert.same({chip[1], chip[2], chip[3] * 1024}, {e.target, e.tiles, e.tile_bytes})
    end
  end)

  it("row 23: has fewer tiles by ipu_model.tiles_per_ipu or --ipu_model_tiles: more cycles, fuller "
    .. "tiles", function()
    local whole = price({}, product, matrices)
    local part = price({["ipu_model.tiles_per_ipu"] = 64}, product, matrices)
    assert.equal(64, part.tiles)
    assert.is_true(part.cycles.compute > 10 * whole.cycles.compute)
    assert.is_true(part.max_tile_bytes > whole.max_tile_bytes)
    config.reset_ipu_configuration()
    config.set_flags("--ipu_model_tiles=64")
    assert.same(part.cycles, price({}, product, matrices).cycles)
  end)

  it("row 24: holds the memory of code or leaves it out", function()
    local with, without = price({}, product, matrices),
      price({["ipu_model.compile_ipu_code"] = false}, product, matrices)
    for _, category in ipairs{"vertexCode", "controlCode", "internalExchangeCode"} do
      assert.is_true(with.memory[category] > 0, category)
      assert.equal(0, without.memory[category])
    end
    assert.same(with.cycles, without.cycles)
  end)

  it("row 29: takes options of matrix products and of convolutions, each for its own", function()
    for own, other in pairs{matmuls = "convolutions", convolutions = "matmuls"} do
      local f, inputs = product, matrices
      if own == "convolutions" then f, inputs = image_filter, pictures end
      local plain = price({}, f, inputs)
      local half = price({[own .. ".poplar_options"] = {partialsType = "half"}}, f, inputs)
      assert.is_true(half.cycles.total < plain.cycles.total, own)
      assert.is_true(half.memory.partials < plain.memory.partials, own)
      assert.same(plain.cycles,
        price({[other .. ".poplar_options"] = {partialsType = "half"}}, f, inputs).cycles)
      local small = price({[own .. ".poplar_options"] = {availableMemoryProportion = "0.02"}}, f,
        inputs)
      assert.is_true(small.max_tile_bytes < plain.max_tile_bytes, own)
    end
  end)

  it("prices each collective of a program once, after the ring's formula", function()
    local x = ipu.zeros{1024 * 1024}
    local function stream(f) return price({}, ipu.func(f), {x}, 2).cycles.stream end
    local plain = stream(function(a) return ipu.nn.relu(a) end)
    local link = 14.6e9 / 1.33e9 -- bytes a cycle; a replica of one IPU owns four
    -- a hop, half of the bytes, a sync of 15 ns there and back
    local half = 3000 + 4 * 1024 ^ 2 / 2 / (4 * link) + 40
    near(2 * half, stream(function(a) return ipu.cross_replica_sum(ipu.nn.relu(a)) end) - plain, 1)
  end)

  -- Four IPUs, a replica each. Half of a ring has three hops of 3,000 cycles. Its sync takes 15 ns
  -- a hop, there and back over two hops, 80 cycles.
  local half_ring <const> = 3 * 3000 + 80
  -- 4, 8, 12, 16 KiB; 4 bytes
  local kilobytes <const> = {ipu.zeros{1024}, ipu.zeros{2048}, ipu.zeros{3072}, ipu.zeros{4096},
    ipu.zeros{1}}

  for option, case in pairs{
    maximum_cross_replica_sum_buffer_size = {"cross_replica_sum", 2 * half_ring,
      {replica_group_size = 2}},
    maximum_reduce_scatter_buffer_size = {"reduce_scatter", half_ring, {op = "MAX"}},
    maximum_all_gather_buffer_size = {"all_gather", half_ring},
  } do
    local name, each, other = table.unpack(case)
    local function all(a, b, c, d)
      return ipu[name](-a), ipu[name](-b), ipu[name](-c), ipu[name](-d)
    end
    local function chain(a) return ipu[name](ipu[name](-a)) end
    local function mixed(a, b) return ipu[name](-a), ipu[name](-b, other) end
    local function of(f, key, bytes)
      local inputs = {table.unpack(kilobytes, 1, f == all and 4 or f == mixed and 2 or 1)}
      return price({["optimizations." .. key] = bytes}, ipu.func(f), inputs, 4)
    end

    it(option .. ": joins what fits, each saves its latencies and waits with its bytes", function()
      local alone = of(all, option, 0)
      local function saved(key, bytes)
        return alone.cycles.total - of(all, key, bytes).cycles.total
      end
      for bytes, joined in pairs{[4096] = 0, [12287] = 0, [12288] = 1, [24 << 10] = 2,
        [40 << 10] = 3, [1 << 30] = 3} do
        near(joined * each, saved(option, bytes), 0.01)
      end
      assert.equal(0, saved("maximum_inter_ipu_copies_buffer_size", 1 << 30))
      assert.is_true(of(all, option, 1 << 30).memory.activation > alone.memory.activation)
    end)

    it(option .. ": joins none that need each other, nor different ones", function()
      for _, f in ipairs(other and {chain, mixed} or {chain}) do
        assert.equal(of(f, option, 0).cycles.total, of(f, option, 1 << 30).cycles.total)
      end
    end)
  end

  it("maximum_inter_ipu_copies_buffer_size: joins copies of what is there, each saves 3,000 cycles "
    .. "and a sync", function()
    local f = ipu.func(function(...)
      local x, y = {...}, {}
      local _ <close> = ipu.ipu_shard(0)
      for i = 1, 4 do x[i] = ipu.tanh(x[i]) end
      local _ <close> = ipu.ipu_shard(1)
      for _ = 1, 60 do x[5] = ipu.exp(x[5]) end -- meanwhile all four are there
      y[1] = ipu.reduce_sum(x[5])
      for i = 1, 4 do y[i + 1] = ipu.reduce_sum(x[i]) end
      return table.unpack(y)
    end)
    local later = ipu.func(function(x)
      local function shard(i, op, v) return ipu.ipu_shard(i)(function() return ipu[op](v) end) end
      local first = shard(1, "exp", shard(0, "tanh", x))
      return first, shard(1, "exp", shard(0, "tanh", first))
    end)
    local function of(g, bytes)
      local inputs = {table.unpack(kilobytes, 1, g == f and 5 or 1)}
      return price({["optimizations.maximum_inter_ipu_copies_buffer_size"] = bytes}, g, inputs, 2)
    end
    local fixed <const> = 3000 + 40 -- the sync of two IPUs: 15 ns there and back
    local alone = of(f, 0)
    for bytes, joined in pairs{[12287] = 0, [12288] = 1, [24 << 10] = 2, [40 << 10] = 3} do
      near(joined * fixed, alone.cycles.total - of(f, bytes).cycles.total, 0.01)
    end
    assert.is_true(of(f, 40 << 10).ipu[2].memory.activation > alone.ipu[2].memory.activation)
    -- its second copy needs the first
    assert.equal(of(later, 0).cycles.total, of(later, 1 << 30).cycles.total)
  end)

  it("takes the blocks of factorisations and of solves, and chooses no slower ones", function()
    local a, b = ipu.zeros{256, 256}, ipu.zeros{256, 64}
    local factorised = ipu.func(function(x) return ipu.cholesky(x) end)
    local solved = ipu.func(function(x, y) return ipu.triangular_solve(x, y) end)
    for option, case in pairs{cholesky_block_size = {factorised, {a}},
      triangular_solve_expander_block_size = {solved, {a, b}}} do
      local chosen, cycles = price({}, table.unpack(case)).cycles.total, {}
      for _, size in ipairs{8, 16, 64, 256} do
        local asked = price({["optimizations." .. option] = size}, table.unpack(case)).cycles.total
        assert.is_true(asked >= chosen, option .. " " .. size)
        cycles[asked] = true
      end
      assert.is_true(#structure.sorted_keys(cycles) > 2, option)
    end
  end)

  it(
    "copies the tensors of an infeed's element at once, or one after another, each after a sync",
    function()
    local infeed = ipu.IPUInfeedQueue(ipu.data.from_tensors{ipu.zeros{64, 64}, ipu.zeros{64},
      ipu.zeros{64}}:repeat_n())
    local loop = ipu.func(function(w)
      return ipu.loops.repeat_n(100, function(sum, x, y, z)
        return sum + ipu.matmul(x, w) + y + z
      end, {ipu.zeros{64, 64}}, infeed)
    end)
    local inputs <const> = {ipu.zeros{64, 64}}
    for _, ahead in ipairs{true, false} do
      local function cycles(merged)
        local options = {["optimizations.prefetch_data_streams"] = ahead,
          ["optimizations.merge_infeed_io_copies"] = merged}
        return price(options, loop, inputs).cycles
      end
      local merged, apart = cycles(nil), cycles(false)
      assert.same(merged, cycles(true))
      -- three tensors; a sync inside an IPU takes 130 cycles
      near(100 * 2 * 130, apart.total - merged.total, 0.01)
      near(100 * 2 * 130, apart.sync - merged.sync, 0.01)
    end
  end)

  it("row 28: overlaps input and output with computing on tiles of their own", function()
    local infeed = ipu.IPUInfeedQueue(ipu.data.from_tensors(ipu.zeros{64, 1024}):repeat_n())
    local loop = ipu.func(function(w)
      return ipu.loops.repeat_n(100, function(carried, x) return carried + ipu.matmul(x, w) end,
        {ipu.zeros{64, 1024}}, infeed)
    end)
    local inputs <const> = {ipu.zeros{1024, 1024}}
    local plain = price({["optimizations.prefetch_data_streams"] = false}, loop, inputs)
    local beside = price({["io_tiles.num_io_tiles"] = 64,
      ["io_tiles.place_ops_on_io_tiles"] = true}, loop, inputs)
    assert.is_true(beside.seconds < plain.seconds)
  end)

  it("io_tiles.available_memory_proportion: what infeeds and outfeeds move at once is on all tiles "
    .. "if it exceeds that", function()
    local infeed = ipu.IPUInfeedQueue(ipu.data.from_tensors{ipu.zeros{64, 1024},
      ipu.zeros{64}}:repeat_n())
    local queue = ipu.IPUOutfeedQueue()
    local loop = ipu.func(function()
      return ipu.loops.repeat_n(2, function(sum, x, y)
        queue:enqueue(sum)
        return sum + ipu.reduce_sum(x) + ipu.reduce_sum(y)
      end, {ipu.zeros{}}, infeed)
    end)
    local moved <const>, tile <const> = 4 * (64 * 1024 + 64 + 1), 624 * 1024
    local exact <const> = moved / (2 * tile)
    local function at(share, placed)
      return price({["io_tiles.num_io_tiles"] = 2,
        ["io_tiles.place_ops_on_io_tiles"] = placed ~= false,
        ["io_tiles.available_memory_proportion"] = share}, loop, {})
    end
    local inside, beyond, elsewhere = at(exact + 1e-6), at(exact - 1e-6), at(0.9, false)
    for share, e in pairs{[exact + 1e-6] = inside, [exact - 1e-6] = beyond} do
      assert.same({true, moved, math.floor(2 * tile * share)},
        {e.fits, e.io_tiles_bytes, e.io_tiles_limit})
    end
    assert.is_nil(elsewhere.io_tiles_bytes)
    assert.equal(elsewhere.cycles.total, beyond.cycles.total) -- nothing is overlapped then
    assert(inside.cycles.stream < beyond.cycles.stream)
    assert.equal(inside.cycles.compute, beyond.cycles.compute)
  end)

  it("row 17: copies over other distances by selection order, and computes the same", function()
    local seconds, results = {}, {}
    for order in pairs{ZIGZAG = true, SNAKE = true, HOOF = true} do
      local _ <close> = pipelines.device(8, {selection_order = order})
      local queue, w = ipu.IPUOutfeedQueue(), ipu.random.normal({64, 64}, {seed = 1})
      local stages = {}
      for i = 1, 8 do stages[i] = function(x) return ipu.tanh(ipu.matmul(x, w)) end end
      local f = ipu.func(function(x)
        ipu.pipeline{computational_stages = stages, gradient_accumulation_count = 8, inputs = {x},
          outfeed_queue = queue}
      end)
      local x = ipu.random.normal({4096, 64}, {seed = 2})
      f(x)
      results[order] = queue:dequeue():totable()[8][1]
      seconds[order] = ipu.estimate(f, {inputs = {x}}).cycles.total
    end
    assert.same(results.SNAKE, results.ZIGZAG)
    assert.same(results.SNAKE, results.HOOF)
    assert.is_true(seconds.SNAKE < seconds.ZIGZAG) -- each of SNAKE's neighbours is linked
  end)

  it("row 32: gives equal results and prices by every scheduling algorithm", function()
    local x, y = ipu.random.normal({8, 8}, {seed = 1}), ipu.random.normal({8, 8}, {seed = 2})
    local first
    for _, algorithm in ipairs{"CHOOSE_BEST", "CLUSTERING", "POST_ORDER", "LOOK_AHEAD",
      "SHORTEST_PATH"} do
      local _ <close> = pipelines.device(1, {["scheduling.algorithm"] = algorithm})
      local result = product(x, y):totable()
      first = first or result
      assert.same(first, result)
    end
  end)

  it("row 37: gives equal results by any number of infeed threads", function()
    local first
    for _, flags in ipairs{"", "--max_infeed_threads=1",
      "--max_infeed_threads=3 --max_compilation_threads=1"} do
      config.reset_ipu_configuration()
      config.set_flags(flags)
      local ds = ipu.data.range(64):shuffle(16, {seed = 3}):map(function(x)
        return ipu.cast(x, "float32") * 0.1
      end,
        {num_parallel_calls = 4})
      local infeed = ipu.IPUInfeedQueue(ds)
      local queue = ipu.IPUOutfeedQueue()
      ipu.func(function()
        ipu.loops.repeat_n(64, function(x) queue:enqueue(x) end, {}, infeed)
      end)()
      local got = queue:dequeue():totable()
      first = first or got
      assert.same(first, got)
    end
  end)
end)
