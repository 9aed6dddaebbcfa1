-- Eight lanes on eight threads give the bits of one thread. The lanes are replicas, and the stages
-- of a pipeline, whose result is gradient descent on all micro-batches at once. Run by `make tsan`,
-- this is where lanes meet.

local config = require "ipulua.config"
local ipu = require "ipulua"
local util = require "luassert.util"

local lanes <const> = 8

local function device()
  config.reset_ipu_configuration()
  local cfg = ipu.IPUConfig()
  cfg.auto_select_ipus = lanes
  cfg:configure_ipu_system()
end

-- Runs run() on 1, 2 and 8 threads. Returns the first result; the others must be equal.
local function same_on_any_threads(run)
  local reference
  for _, threads in ipairs{1, 2, lanes} do
    ipu.set_num_threads(threads)
    device()
    ipu.random.set_seed(9)
    local got = run()
    reference = reference or got
    -- thousands of numbers needn't be shown
    assert.is_true(util.deepcompare(reference, got), threads .. " threads")
  end
  return reference
end

describe("eight lanes", function()
  after_each(function()
    ipu.set_num_threads(2)
    config.reset_ipu_configuration()
  end)

  it("are eight replicas that sum their gradients in every step", function()
    local got = same_on_any_threads(function()
      -- enough work to be handed out
      local w = ipu.Variable(ipu.random.normal({64, 64}, {stddev = 0.1, seed = 1}))
      local feed = ipu.IPUInfeedQueue(
        ipu.data.from_tensor_slices(ipu.random.normal({lanes * 12, 32, 64}, {seed = 2})))
      local out = ipu.IPUOutfeedQueue()
      ipu.func(function()
        ipu.loops.repeat_n(12, function(x)
          local loss = ipu.reduce_mean(
            ipu.square(ipu.nn.dropout(ipu.tanh(ipu.matmul(x, w)), {rate = 0.1}) - 0.5))
          w:assign_sub(ipu.cross_replica_mean(ipu.gradients(loss, {w})[1]))
          out:enqueue(loss)
        end, {}, feed)
      end)()
      assert.equal(lanes, ipu.programs()[1].replicas)
      local losses = out:dequeue()
      assert.same({12, lanes}, {table.unpack(losses.shape)})
      return {w:totable(), losses:totable()}
    end)
    local losses, first, last = got[2], 0, 0
    for r = 1, lanes do first, last = first + losses[1][r], last + losses[12][r] end
    assert.is_true(last < first)
  end)

  -- Each stage adds what its own weight makes of the value, so that a plain loop can train the same
  -- network.
  local micro_batches <const>, updates <const> = 16, 6
  local function weights()
    local w = {}
    for i = 1, lanes do
      w[i] = ipu.Variable(ipu.random.normal({16, 16}, {stddev = 0.2, seed = i}))
    end
    return w
  end
  local function rows() return ipu.random.normal({updates * micro_batches, 8, 16}, {seed = 99}) end
  local function layer(w, x) return x + ipu.tanh(ipu.matmul(x, w)) end
  local function loss_of(x) return ipu.reduce_mean(ipu.square(x - 1)) end
  local function values(w)
    local all = {}
    for i, v in ipairs(w) do all[i] = v:totable() end
    return all
  end

  local function pipelined(schedule)
    local w, stages = weights(), {}
    for i = 1, lanes - 1 do stages[i] = function(x) return layer(w[i], x) end end
    stages[lanes] = function(x) return loss_of(layer(w[lanes], x)) end
    local feed, out = ipu.IPUInfeedQueue(ipu.data.from_tensor_slices(rows())), ipu.IPUOutfeedQueue()
    ipu.func(function()
      return ipu.pipeline{computational_stages = stages,
        gradient_accumulation_count = micro_batches, repeat_count = updates,
        infeed_queue = feed, outfeed_queue = out, outfeed_loss = true, reduction_method = "SUM",
        pipeline_schedule = schedule,
        optimizer_function = function(loss)
          return ipu.OptimizerFunctionOutput(ipu.train.GradientDescentOptimizer(0.05), loss)
        end}
    end)()
    return {values(w), out:dequeue():totable()}
  end

  local function step_of(w) -- an update by all micro-batches together
    return ipu.func(function(data)
      local total = 0
      for m = 1, micro_batches do
        local x = data[m]
        for i = 1, lanes do x = layer(w[i], x) end
        total = total + loss_of(x)
      end
      for i, g in ipairs(ipu.gradients(total, w)) do w[i]:assign_sub(g * 0.05) end
    end)
  end

  for _, schedule in ipairs{"Grouped", "Interleaved", "OneFOneB"} do
    it("are eight stages of a pipeline: " .. schedule, function()
      local got = same_on_any_threads(function() return pipelined(schedule) end)
      local w, data = weights(), rows():reshape{updates, micro_batches, 8, 16}
      local step = step_of(w)
      for u = 1, updates do step(data[u]) end
      for i = 1, lanes do
        assert.is_true(ipu.reduce_max(ipu.abs(w[i] - ipu.tensor(got[1][i]))):item() < 1e-5)
      end
    end)
  end
end)
