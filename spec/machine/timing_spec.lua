-- Pipelines priced in time steps, and by the values that each pass waits for. Expected times are
-- worked out here, from the stages' own cycles.
local ipu = require "ipulua"
local programs = require "spec.support.price_programs"

local function mapping(stages)
  local list = {}
  for i = 1, stages do list[i] = i - 1 end
  return list
end

-- Stages that multiply by weights of [width, width] as often as `products` says, each on an IPU.
local function priced(schedule, timing, products, count)
  ipu.reset_default_graph()
  local stages, width <const>, list = #products, 256, {}
  for i = 1, stages do
    local w = ipu.Variable(ipu.full({width, width}, 0.01))
    list[i] = function(x)
      for _ = 1, products[i] do x = ipu.tanh(x:matmul(w)) end
      return i == stages and ipu.reduce_sum(x) or x
    end
  end
  local infeed = ipu.IPUInfeedQueue(ipu.data.from_tensors(ipu.ones{16, width}):repeat_n())
  local outfeed = ipu.IPUOutfeedQueue()
  local f = ipu.func(function()
    ipu.pipeline{computational_stages = list, gradient_accumulation_count = count,
      infeed_queue = infeed, outfeed_queue = outfeed, pipeline_schedule = schedule,
      optimizer_function = function(l)
        return ipu.OptimizerFunctionOutput(ipu.train.GradientDescentOptimizer(0.1), l)
      end}
  end)
  local wrong = {}
  local p, s = programs.profile_of(f, nil, stages, {timing = timing})
  programs.check_sums(wrong, p, s)
  assert.same({}, wrong)
  return s, p
end

local function near(expected, found)
  assert(math.abs(expected - found) <= 1e-6 * math.abs(expected) + 0.5,
    found .. ", expected " .. expected)
end

-- Cycles of a kind of step for one micro-batch.
local function for_each(p, kind, count)
  local sum = 0
  for _, step in ipairs(p.steps) do
    if step.kind == kind then
      local each = step.compute + step.exchange + step.sync + step.stream
      sum = sum + step.times / count * each
    end
  end
  return sum
end

describe("timing by dependencies", function()
  -- Tensors that a stage hands on cross the links one after another.
  it("of a stage with several results is the same in any order of them", function()
    local function total(sizes)
      local infeed = ipu.IPUInfeedQueue(ipu.data.from_tensors(ipu.ones{16}):repeat_n())
      local a = {gradient_accumulation_count = 8, infeed_queue = infeed,
        outfeed_queue = ipu.IPUOutfeedQueue(), computational_stages = {
          function(x)
            local list = {}
            for i, n in ipairs(sizes) do list[i] = ipu.broadcast_to(x[1], {n}) + i end
            return table.unpack(list)
          end,
          function(...)
            local sum = 0
            for _, t in ipairs{...} do sum = sum + ipu.reduce_max(t) end
            return sum
          end}}
      return ipu.estimate(function() return ipu.pipeline(a) end,
        {inputs = {}, ipus = 2, host = "model", timing = "dependencies"}).cycles.total
    end
    local large <const>, small <const> = 1 << 20, 1 << 10
    assert.near(total{large, small}, total{small, large}, 1e-3 * total{large, small})
    assert(total{large, large} > 1.3 * total{large, small})
  end)

  after_each(ipu.reset_ipu_configuration)

  it("leaves the bubble of the literature, (S - 1) / (M + S - 1), to every schedule that overlaps",
    function()
      for _, stages in ipairs{2, 4, 8} do
        for _, count in ipairs{16, 32} do
          for _, schedule in ipairs{"Grouped", "Interleaved", "OneFOneB"} do
            local t = ipu.timetable{schedule = schedule, device_mapping = mapping(stages),
              count = count, timing = "dependencies"}
            assert.equal(2 * (count + stages - 1), t.span)
            near(1 - (stages - 1) / (count + stages - 1), t.utilisation)
          end
          local alone = ipu.timetable{schedule = "Sequential", device_mapping = mapping(stages),
            count = count, timing = "dependencies"}
          near(1 / stages, alone.utilisation)
        end
      end
    end)

  it("is asked for: in time steps a Grouped IPU has two slots in each of M + 2S - 1", function()
    local t = ipu.timetable{device_mapping = mapping(4), count = 16}
    assert.equal("steps", t.timing)
    assert.equal(2 * (16 + 2 * 4 - 1), t.span)
    assert.has_error(function() ipu.timetable{device_mapping = {0, 1}, timing = "soon"} end)
  end)

  it("runs a full pipeline at the pace of the IPU that has the most to do", function()
    local products = {1, 3, 2, 1}
    local a = priced("Grouped", "dependencies", products, 16)
    local b = priced("Grouped", "dependencies", products, 32)
    local slowest = 0
    for _, stage in ipairs(a.stages) do
      slowest = math.max(slowest, stage.forward_cycles + stage.backward_cycles)
    end
    near(16 * slowest, b.cycles.total - a.cycles.total)
  end)

  it("of one micro-batch at a time is all passes and what moves between them", function()
    local a, p = priced("Sequential", "dependencies", {1, 2}, 4)
    local b = priced("Sequential", "dependencies", {1, 2}, 12)
    local each = for_each(p, "link", 4)
    for _, stage in ipairs(a.stages) do
      each = each + stage.forward_cycles + stage.backward_cycles
    end
    near(8 * (each + for_each(p, "host in", 4) + for_each(p, "host out", 4)),
      b.cycles.total - a.cycles.total)
  end)

  it("makes Interleaved and OneFOneB one, which differ in time steps while they fill", function()
    local products = {8, 1}
    local function both(timing)
      return priced("Interleaved", timing, products, 8), priced("OneFOneB", timing, products, 8)
    end
    local i, o = both("dependencies")
    near(i.cycles.total, o.cycles.total)
    i, o = both("steps")
    -- two steps of two stages: {F0 of stage 1}, {F1 of stage 0, B0 of stage 1} here,
    -- {F1 of stage 0, F0 of stage 1}, {B0 of stage 1} there
    local f0, f1, b1 = i.stages[1].forward_cycles, i.stages[2].forward_cycles,
      i.stages[2].backward_cycles
    near(f1 + math.max(f0, b1) - math.max(f0, f1) - b1, i.cycles.total - o.cycles.total)
    assert(i.cycles.total ~= o.cycles.total)
  end)

  it("takes no longer than time steps do", function()
    for _, schedule in ipairs{"Grouped", "Interleaved", "OneFOneB", "Sequential"} do
      local products = {1, 2, 1, 3}
      assert(priced(schedule, "dependencies", products, 8).cycles.total
        < priced(schedule, "steps", products, 8).cycles.total, schedule)
    end
  end)
end)
