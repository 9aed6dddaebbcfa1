-- The estimate, the profile, the summary and the trace agree on one price.

local config = require "ipulua.config"
local estimate = require "ipulua.tools.estimate"
local examples = require "spec.support.example_prices"
local fuzz = require "spec.support.fuzz_profiles"
local ipu = require "ipulua"
local pipelines = require "spec.support.pipelines"

local phases <const> = {"compute", "exchange", "sync", "stream"}

-- A pipeline of two stages that only infers, on data of [rows, 256].
local function inferring(rows, settings, more)
  local _ <close> = pipelines.device(2, settings)
  local w = {ipu.Variable(ipu.zeros{256, 256}), ipu.Variable(ipu.zeros{256, 256})}
  local given = {fn = function()
    return ipu.pipeline{
      computational_stages = {
        function(x) return x:matmul(w[1]) end, function(x) return x:matmul(w[2]) end,
      },
      gradient_accumulation_count = 64,
      infeed_queue = ipu.IPUInfeedQueue(ipu.data.from_tensors(ipu.zeros{rows, 256}):repeat_n()),
      outfeed_queue = ipu.IPUOutfeedQueue(),
    }
  end, ipus = 2, host = "model"}
  for key, value in pairs(more or {}) do given[key] = value end
  local price = estimate.price(given)
  return ipu.json.decode(price:json("{}")), price:summary()
end

local function end_of(profile)
  local last = 0
  for _, event in ipairs(profile.timeline) do last = math.max(last, event[1] + event[2]) end
  return last
end

describe("a price", function()
  after_each(config.reset_ipu_configuration)

  it("of a random program is the same wherever it stands", function()
    for seed = 1, 20 do assert.is_nil(fuzz.check(seed)) end
  end)

  -- make nightly looks at all examples
  for _, path in ipairs{"start/mnist", "start/denoising", "from_graphcore/tutorial_sharding",
    "from_graphcore/inference_pipelining", "machine/recompilation"} do
    it("of " .. path .. "'s programs is that of its profile and trace", function()
      local wrong, programs = examples.check("examples/" .. path .. ".lua")
      assert.same({}, wrong)
      assert.is_true(programs > 0)
    end)
  end

  it("of a pipeline charges no IPU for what moves while it computes", function()
    local io <const> = {["io_tiles.num_io_tiles"] = 64, ["io_tiles.place_ops_on_io_tiles"] = true}
    local p, s = inferring(64, io)
    for _, x in ipairs(p.ipus) do
      local sum = 0
      for _, phase in ipairs(phases) do sum = sum + x.cycles[phase] end
      assert(math.abs(sum - s.cycles.total) < 1, sum .. " of " .. s.cycles.total)
    end
    assert(math.abs(end_of(p) - s.cycles.total) < 2, "it ends at " .. end_of(p))
    local _, alone = inferring(64)
    assert(s.cycles.total < alone.cycles.total)
  end)

  it("of a pipeline has a time line that ends with the last result's move", function()
    local p, s = inferring(64)
    assert(math.abs(end_of(p) - s.cycles.total) < 2, end_of(p) .. " of " .. s.cycles.total)
    local kinds = {}
    for _, event in ipairs(p.timeline) do
      local step = p.steps[event[3] + 1]
      kinds[p.strings[step[1] + 1]] = true
    end
    assert.is_true(kinds.pipeline and kinds["host out"])
  end)

  it("holds what one tile has beyond the others among the categories", function()
    local price = estimate.price{fn = function(x) return ipu.reduce_sum(x, {axis = 0}) end,
      inputs = {{4096, 8}}, target = {base = "GC200", name = "few", tiles = 8}, host = "model"}
    local p = ipu.json.decode(price:json("{}"))
    local tiles = 0
    for _, bytes in ipairs(p.ipus[1].tiles.bytes) do tiles = tiles + bytes end
    assert(math.abs(tiles - p.ipus[1].memory.total) <= 0.5 * 8, tiles)
  end)

  it("has what the host reads and gives in the middle of a program, once", function()
    local function host(f) return ipu.outside_compilation_scope()(f) end
    local function moved(f)
      local price = estimate.price{fn = f, inputs = {{512, 1024}}, host = "model"}
      local p, bytes = ipu.json.decode(price:json("{}")), {["host in"] = 0, ["host out"] = 0}
      local at = {}
      for i, name in ipairs(p.step_columns) do at[name] = i end
      for _, step in ipairs(p.steps) do
        local kind = p.strings[step[at.kind] + 1]
        if bytes[kind] then bytes[kind] = bytes[kind] + step[at.times] * step[at.bytes] end
      end
      return {bytes["host in"] / (2 << 20), bytes["host out"] / (2 << 20)}
    end
    assert.same({1, 1}, moved(function(x) return ipu.exp(x) end))
    assert.same({2, 2}, moved(function(x)
      return ipu.exp(host(function() return ipu.sin(x) end))
    end))
    assert.same({1, 1}, moved(function(x) return host(function() return ipu.sin(x) end) end))
    assert.same({2, 2}, moved(function(x)
      local h = host(function() return ipu.exp(ipu.sin(x)) end)
      return ipu.exp(h) + ipu.tanh(h)
    end))
    assert.same({11, 11}, moved(function(x)
      return ipu.loops.repeat_n(10, function(s)
        return ipu.exp(host(function() return ipu.sin(s) end))
      end, {x})
    end))
    local v = ipu.Variable(ipu.zeros{512, 1024})
    assert.same({2, 1}, moved(function(x)
      v:assign(host(function() return ipu.sin(x) end))
    end))
  end)

  it("lets no copy into a loop's branch wait for that branch", function()
    local function on(shard, f) return ipu.ipu_shard(shard)(f) end
    local w = ipu.Variable(ipu.zeros{100, 100})
    local price = estimate.price{fn = function(x)
      return ipu.loops.repeat_n(3, function(s)
        local big = on(1, function() return ipu.exp(s) end)
        return on(0, function()
          return ipu.cond(ipu.less(ipu.reduce_sum(s), 0),
            function() return ipu.matmul(big, w) end, function() return s * 3 end)
        end)
      end, {x})
    end, inputs = {{100, 100}}, ipus = 2, host = "model"}
    local p = ipu.json.decode(price:json("{}"))
    local begins = {}
    for _, event in ipairs(p.timeline) do
      local step = event[3]
      begins[step] = begins[step] or {}
      table.insert(begins[step], event[1])
    end
    local rounds = 0
    for _, list in pairs(begins) do -- each round takes as long as the others
      if #list == 3 then
        rounds = rounds + 1
        assert(math.abs(list[3] - 2 * list[2] + list[1]) <= 2, table.concat(list, " "))
      end
    end
    assert(rounds > 3)
  end)
end)
