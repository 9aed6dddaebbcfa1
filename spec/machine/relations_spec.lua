-- Relations that Graphcore's tests of its TensorFlow demand of any memory and cycle report (their
-- files are named in each case).
local ipu = require "ipulua"
local layers = ipu.keras.layers
local command = require "spec.support.command"
local pipelines = require "spec.support.pipelines"

local function part(tiles) return {base = "gc200", name = "part", tiles = tiles} end

describe("a price", function()
  -- lstm_test.py, test_preserve_final_state
  it("is higher for a recurrent layer that keeps its final state", function()
    local function cycles(keeps)
      return ipu.estimate(function(x) return layers.LSTM{256, return_state = keeps}(x) end,
        {inputs = {{256, 25, 256}}, target = part(32), host = "model"}).cycles.total
    end
    assert(cycles(true) > cycles(false))
  end)

  -- conv_test.py: at most a tenth more
  it("of channels first equals the price of channels last", function()
    local function total(order, shape)
      local layer = layers.Conv2D{128, 3, padding = "same", data_format = order}
      local e = ipu.estimate(function(x) return layer(x) end, {inputs = {shape}, host = "model"})
      assert.equal(e.ops, e.ops_priced)
      return e.memory.total
    end
    local last, first = total("channels_last", {1, 14, 14, 64}),
      total("channels_first", {1, 64, 14, 14})
    assert(first <= 1.1 * last, first / last)
  end)

  -- synthetic_data_categories_test.py
  it("counts less memory for each category of synthetic data, and as much less for all as with the "
    .. "one switch", function()
    local script <const> = [[
      local ipu = require "ipulua"
      local ds = ipu.data.from_tensor_slices{ipu.zeros{80, 4, 4, 4}, ipu.zeros{80, 2}}:batch(2, {drop_remainder = true}):repeat_n()
      local infeed, outfeed = ipu.IPUInfeedQueue(ds), ipu.IPUOutfeedQueue()
      local w, d = ipu.Variable(ipu.ones{1, 1, 4, 4}), ipu.Variable(ipu.ones{4, 2})
      local train = ipu.func(function()
        return ipu.loops.repeat_n(40, function(x, y)
          local mean = ipu.reduce_mean(ipu.nn.conv2d(x, w, {padding = "SAME"}), {axis = {1, 2}})
          local loss = ipu.reduce_mean(ipu.square(ipu.matmul(mean, d) - y))
          for i, g in ipairs(ipu.gradients(loss, {w, d})) do ({w, d})[i]:assign_sub(g * 0.1) end
          outfeed:enqueue(loss)
        end, {}, infeed)
      end)
      print(ipu.estimate(train, {inputs = {}, target = {base = "gc200", name = "part", tiles = 32}, host = "model"}).memory.total)
    ]]
    local function total(flags)
      local result = command.run{command.ipulua, "-e", script, env = {IPULUA_FLAGS = flags}}
      return assert(tonumber(result.out), result.err)
    end
    local none = total("")
    for _, category in ipairs{"parameters", "infeed", "outfeed"} do
      assert(total("--synthetic_data_categories=" .. category) < none, category)
    end
    assert.equal(total("--use_synthetic_data"),
      total("--synthetic_data_categories=infeed,outfeed,seed,hostembedding,parameters"))
  end)

  -- fifo_test.py
  it("of a queue on each of two IPUs has no traffic between them", function()
    local _ <close> = pipelines.device(2)
    local e = ipu.estimate(function(x, y)
      local first, second
      do local _ <close> = ipu.ipu_shard(0); first = ipu.fifo(x, 5) end
      do local _ <close> = ipu.ipu_shard(1); second = ipu.fifo(y, 5) end
      return first, second
    end, {inputs = {{1024}, {1024}}, ipus = 2, target = part(16)})
    assert.equal(2, e.shards)
    assert.equal(0, e.memory.globalExchangePacketHeader)
  end)

  -- multi_ipu_test.py: the same place on either IPU, 1 and 1473
  it("numbers tiles on over IPUs", function()
    local folder = command.folder()
    local _ <close> = setmetatable({}, {__close = function() command.remove(folder) end})
    command.write(folder .. "/add.lua", [[
      local ipu = require "ipulua"
      local cfg = ipu.IPUConfig()
      cfg.auto_select_ipus = 2
      cfg:configure_ipu_system()
      ipu.func(function(a, b)
        return ipu.ipu_shard(0)(function() return a + b end), ipu.ipu_shard(1)(function() return a - b end)
      end)(ipu.tensor{1, 2}, ipu.tensor{3, 4})
    ]])
    local r = command.run{command.ipulua, "--profile", folder .. "/out", folder .. "/add.lua"}
    assert.equal(0, r.status, r.err)
    local path = command.run{"find", folder .. "/out", "-name", "profile.json"}.out:match("%S+")
    local ipus = ipu.json.decode(command.read(path)).ipus
    local function fullest(tiles)
      local most = math.max(table.unpack(tiles.bytes))
      for i, bytes in ipairs(tiles.bytes) do
        if bytes == most then return tiles.first + i - 1 end
      end
    end
    assert.equal(1472, fullest(ipus[2].tiles) - fullest(ipus[1].tiles))
  end)

  -- The host takes longer than computing: what goes on beside it saves no more than that.
  it("of a pipeline on I/O tiles is no less than what the host moves", function()
    local function total(tiles)
      local _ <close> = pipelines.device(2,
        {["io_tiles.num_io_tiles"] = tiles, ["io_tiles.place_ops_on_io_tiles"] = tiles > 0})
      local infeed = ipu.IPUInfeedQueue(ipu.data.from_tensors(ipu.ones{512, 512}):repeat_n())
      local a = {computational_stages = {function(x) return x + 1 end, ipu.reduce_sum},
        gradient_accumulation_count = 16, infeed_queue = infeed,
        outfeed_queue = ipu.IPUOutfeedQueue()}
      local e = ipu.estimate(function() return ipu.pipeline(a) end, {inputs = {}, ipus = 2})
      return e.cycles.total
    end
    local plain, beside = total(0), total(32)
    assert(beside < plain and beside > 0.9 * plain, beside / plain)
  end)

  it("by dependencies is no less than what the host takes from it, either", function()
    local function total(tiles, timing)
      local _ <close> = pipelines.device(2,
        {["io_tiles.num_io_tiles"] = tiles, ["io_tiles.place_ops_on_io_tiles"] = tiles > 0})
      local infeed = ipu.IPUInfeedQueue(ipu.data.from_tensors(ipu.ones{16}):repeat_n())
      local a = {
        computational_stages = {ipu.reduce_sum, function(x) return ipu.ones{512, 1024} * x end},
        gradient_accumulation_count = 16, infeed_queue = infeed,
        outfeed_queue = ipu.IPUOutfeedQueue(),
      }
      return ipu.estimate(function() return ipu.pipeline(a) end,
        {inputs = {}, ipus = 2, timing = timing}).cycles.total
    end
    local plain, beside = total(0, "steps"), total(32, "dependencies")
    assert(beside > 0.9 * plain and beside < 1.1 * plain, beside / plain)
  end)

  -- io_tiles_hw_test.py: more than 60 %, and none without
  it("overlaps streaming with computing on I/O tiles, of any number", function()
    local infeed = ipu.IPUInfeedQueue(ipu.data.from_tensors(ipu.zeros{256, 256}):repeat_n())
    local queue = ipu.IPUOutfeedQueue()
    local loop = ipu.func(function()
      return ipu.loops.repeat_n(100, function(x)
        for _ = 1, 16 do x = ipu.matmul(x, x) end
        queue:enqueue(x)
      end, {}, infeed)
    end)
    local function stream(tiles, placed)
      local _ <close> = pipelines.device(1,
        {["io_tiles.num_io_tiles"] = tiles, ["io_tiles.place_ops_on_io_tiles"] = placed})
      return ipu.estimate(loop, {inputs = {}}).cycles.stream
    end
    local alone = stream(0, false)
    assert.equal(alone, stream(32, false))
    for _, tiles in ipairs{8, 16, 32, 64, 128} do
      assert(stream(tiles, true) < 0.4 * alone, tiles)
    end
  end)
end)
