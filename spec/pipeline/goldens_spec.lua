-- An inference pipeline of the tests of Graphcore's TensorFlow 2.6. Batches of two blocks v, w of
-- [4, 4, 2] give 80·(v + w) + 320 + c.

local ipu = require "ipulua"
local log = require "ipulua.base.log"
local pipelines = require "spec.support.pipelines"

local blocks <const> = 5

local function infeed()
  local ds = ipu.data.range(blocks):map(function(i)
    return ipu.zeros{4, 4, 2} + ipu.cast(i, "float32")
  end):repeat_n()
  return ipu.IPUInfeedQueue(ds:batch(2, {drop_remainder = true}):map(function(v)
    return {a = v, b = (v + 10) / 2}
  end))
end

local function convolve(c, element)
  local kernel = ipu.ones{1, 1, 2, 2}
  return ipu.nn.conv2d(element.a, kernel) + element.b, c
end
local function add_up(x, c) return ipu.reduce_sum(x) + c end
local function pass(x) return x end

local function run(options)
  local queue = ipu.IPUOutfeedQueue()
  local given = {computational_stages = {convolve, add_up, pass}, gradient_accumulation_count = 12,
    infeed_queue = infeed(),
    outfeed_queue = queue}
  for name, value in pairs(options) do given[name] = value end
  pipelines.device_for(given, 3)
  ipu.func(function(c)
    given.inputs = {c}
    ipu.pipeline(given)
  end)(10.01)
  local list = ipu.programs()
  return queue:dequeue(), list[#list]
end

-- the blocks 0 1, 2 3, 4 0, 1 2, 3 4
local mini_batches <const> = {410.01, 730.01, 650.01, 570.01, 890.01}

describe("the inference pipeline of Graphcore's tests", function()
  after_each(ipu.reset_ipu_configuration)

  for name, case in pairs{
    ["stages on IPUs 2, 0 and 1"] = {mapping = {2, 0, 1}, stage_ipus = {2, 0, 1}},
    ["all stages on one IPU"] = {mapping = {0, 0, 0}},
    ["the default mapping"] = {stage_ipus = {0, 1, 3}},
  } do
    it("rows 113, 118, 119, 120: gives 12 values with " .. name .. ", in every schedule", function()
      for _, schedule in ipairs{"Grouped", "Interleaved", "Sequential"} do
        local got, program = run{device_mapping = case.mapping, pipeline_schedule = schedule}
        assert.same({12}, got.shape)
        for i = 1, 12 do assert.is_near(mini_batches[(i - 1) % blocks + 1], got[i]:item(), 1e-3) end
        assert.same(case.stage_ipus or program.stage_ipus, program.stage_ipus)
      end
    end)
  end

  it("row 125: refuses 10 mini-batches for three Interleaved stages", function()
    pipelines.fails("failed_precondition", function()
      run{gradient_accumulation_count = 10, pipeline_schedule = "Interleaved"}
    end,
      "gradient_accumulation_count", "multiple of 3", "it is 10")
  end)

  it("row 129: goes on with its data in the next run of repeat_count", function()
    local got = run{repeat_count = 2}
    assert.same({24}, got.shape)
    for i = 1, 24 do assert.is_near(mini_batches[(i - 1) % blocks + 1], got[i]:item(), 1e-3) end
  end)
end)

describe("a pipeline on two replicas", function()
  after_each(ipu.reset_ipu_configuration)

  it("row 150: trains to the same weights where these are shared out", function()
    local function trained(options)
      pipelines.device(8)
      ipu.random.set_seed(3)
      local losses, weights, f = pipelines.net(20):train(options)
      return {losses:totable(), weights}, ipu.estimate(f)
    end
    local whole = trained{}
    local warned, same, shared = log.capture("warn", trained, {replicated_weight_sharding = true})
    assert.equal(1, #warned)
    assert.matches("'replicated_weight_sharding' has no effect: what an update reads is not the "
      .. "same on all replicas", warned[1])
    assert.same(whole, same)
    assert.equal(2, shared.replicas)
  end)
end)
