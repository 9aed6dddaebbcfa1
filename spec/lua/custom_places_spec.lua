-- Ops and gradients of scripts and of C libraries where programs are more than a list of ops:
-- loops, pipelines, replicas, prices. Everything is compared with the same written in ipulua's own
-- ops, or with the formula's numbers.

local command = require "spec.support.command"
local ipu = require "ipulua"
local config = require "ipulua.config"
local pipelines = require "spec.support.pipelines"

local frequency <const> = 2

local function build_library()
  local path = command.scratch()
  path = path .. ".so"
  local pipe <close> = assert(io.popen("cc -O1 -shared -fPIC -Isrc -o '" .. path
    .. "' examples/interop/custom_op.c -lm 2>&1"))
  local said = pipe:read("a")
  assert(pipe:close(), said)
  local library = ipu.load_op_library(path)
  os.remove(path)
  return library
end

-- snake(x) = x + sin(2 x)^2 / 2 and its slope, 1 + sin(4 x), in ipulua's ops
local function snake(x) return x + ipu.square(ipu.sin(x * frequency)) / frequency end
local function slope(x) return 1 + ipu.sin(x * (2 * frequency)) end

local from_c = build_library().snake
local ways = {
  {"a C op", function(x) return from_c(x, {frequency = frequency}) end},
  {"a Lua op with a gradient", ipu.register_op{name = "places_snake", call = function(x)
    return snake(x)
  end,
    gradient = function(dy, x) return dy * slope(x) end}},
  {"a Lua op without one", ipu.register_op{name = "places_snake_plain", call = function(x)
    return snake(x)
  end}},
  {"a custom gradient", ipu.custom_gradient(function(x)
    return snake(x), function(dy) return dy * slope(x) end
  end)},
}

-- A network of two layers that ends in the mean square of what it says; batches of 4 rows of 6
-- numbers.
local function network(f)
  local w1 = ipu.Variable(ipu.random.normal({6, 5}, {stddev = 0.4, seed = 1}))
  local w2 = ipu.Variable(ipu.random.normal({5, 3}, {stddev = 0.4, seed = 2}))
  local layers = {
    function(x) return f(ipu.matmul(x, w1)) end,
    function(h) return ipu.reduce_mean(ipu.square(f(ipu.matmul(h, w2)) - 0.5)) end,
  }
  return layers, {w1, w2}
end

local function infeed()
  local x = ipu.random.normal({32, 6}, {seed = 3})
  return ipu.IPUInfeedQueue(ipu.data.from_tensor_slices(x):batch(4,
    {drop_remainder = true}):repeat_n())
end

local function values(variables)
  local list = {}
  for _, v in ipairs(variables) do
    for _, number in ipairs(ipu.reshape(v, {v.size}):totable()) do list[#list + 1] = number end
  end
  return list
end

local function near(expected, got, words)
  assert.equal(#expected, #got)
  for i, v in ipairs(expected) do
    assert(math.abs(v - got[i]) <= 2e-5 * (1 + math.abs(v)),
      string.format("%s: %.9g is not %.9g", words, got[i], v))
  end
end

local function train_in_a_loop(f)
  local layers, variables = network(f)
  local opt, feed = ipu.train.GradientDescentOptimizer(0.1), infeed()
  local run = ipu.func(function()
    return ipu.loops.repeat_n(6, function(_, x)
      local loss = layers[2](layers[1](x))
      opt:minimize(loss)
      return loss
    end, {0.0}, feed)
  end)
  return run():item(), values(variables)
end

local function train_in_a_pipeline(f, options)
  local layers, variables = network(f)
  local outfeed = ipu.IPUOutfeedQueue()
  local given = {
    computational_stages = layers, gradient_accumulation_count = 4, repeat_count = 3,
    infeed_queue = infeed(),
    outfeed_queue = outfeed, outfeed_loss = true, reduction_method = "MEAN",
    optimizer_function = function(loss)
      return ipu.OptimizerFunctionOutput(ipu.train.GradientDescentOptimizer(0.1), loss)
    end,
  }
  for key, value in pairs(options) do given[key] = value end
  local run = ipu.func(function() return ipu.pipeline(given) end)
  run()
  return outfeed:dequeue():totable(), values(variables), run
end

local function train_on_replicas(f)
  local layers, variables = network(f)
  local opt = ipu.optimizers.CrossReplicaOptimizer(ipu.train.GradientDescentOptimizer(0.1))
  local feed, outfeed = infeed(), ipu.IPUOutfeedQueue()
  ipu.func(function()
    ipu.loops.repeat_n(3, function(x)
      local loss = layers[2](layers[1](x))
      opt:minimize(loss)
      outfeed:enqueue(loss)
    end, {}, feed)
  end)()
  return outfeed:dequeue():totable(), values(variables)
end

for _, way in ipairs(ways) do
  local name, f = table.unpack(way)

  describe(name, function()
    teardown(function() config.reset_ipu_configuration() end)

    it("gives the formula's numbers and slopes inside of a loop", function()
      local y, g = ipu.func(function(v)
        local y = ipu.loops.repeat_n(2, function(c) return f(c) end, {v})
        return y, ipu.gradients(y, {v})[1]
      end)(ipu.tensor{1, -0.5})
      local function twice(v)
        local first = v + math.sin(2 * v) ^ 2 / 2
        return first + math.sin(2 * first) ^ 2 / 2,
          (1 + math.sin(4 * v)) * (1 + math.sin(4 * first))
      end
      local y1, g1 = twice(1)
      local y2, g2 = twice(-0.5)
      near({y1, y2}, y:totable(), "value")
      near({g1, g2}, g:totable(), "slope")
    end)

    it("trains in a loop", function()
      local loss, weights = train_in_a_loop(snake)
      local got_loss, got_weights = train_in_a_loop(f)
      near({loss}, {got_loss}, "loss")
      near(weights, got_weights, "weight")
    end)

    for _, schedule in ipairs{"Grouped", "Interleaved", "Sequential"} do
      for _, recomputation in ipairs{false, true} do
        it("trains in a pipeline, " .. schedule
          .. (recomputation and ", recomputed" or ""), function()
          local _ <close> = pipelines.device(2, {allow_recompute = recomputation})
          local options = {pipeline_schedule = ipu.PipelineSchedule[schedule]}
          local losses, weights = train_in_a_pipeline(snake, options)
          local got_losses, got_weights = train_in_a_pipeline(f, options)
          near(losses, got_losses, "loss")
          near(weights, got_weights, "weight")
        end)
      end
    end

    it("trains on replicas", function()
      local _ <close> = pipelines.device(2)
      local losses, weights = train_on_replicas(snake)
      local got_losses, got_weights = train_on_replicas(f)
      for i, pair in ipairs(losses) do near(pair, got_losses[i], "loss") end
      near(weights, got_weights, "weight")
    end)

    it("has a price, in a loop and in a pipeline", function()
      local function cycles(body)
        return ipu.estimate(body, {inputs = {{1000, 1000}}, host = "model"}).cycles.compute
      end
      local once = cycles(f)
      assert.is_true(once > 0)
      local looped = cycles(function(x)
        return ipu.loops.repeat_n(10, function(c) return f(c) end, {x})
      end)
      assert(math.abs(looped / once - 10) < 0.5, looped / once)
      local _ <close> = pipelines.device(2)
      local _, _, run = train_in_a_pipeline(f, {})
      local stages = ipu.estimate(run, {ipus = 2}).stages
      assert.is_true(stages[1].forward_cycles > 0 and stages[1].backward_cycles > 0
        and stages[2].forward_cycles > 0)
    end)
  end)
end

describe("a C op's cost", function()
  it("is the one that it says, to the cycle", function()
    local e = ipu.estimate(function(x) return from_c(x) end,
      {inputs = {{1472, 1000}}, target = "gc200", host = "model"})
    assert(math.abs(e.cycles.compute - 40 * 1000 / 2) <= 0.02 * e.cycles.compute, e.cycles.compute)
  end)

  it("names the op and the script's line in the program and when it fails in a stage", function()
    local f = ipu.func(function(x)
      return ipu.loops.repeat_n(2, function(c) return from_c(c) end, {x})
    end)
    f(ipu.tensor{1})
    assert.matches("snake float32%[1%].*custom_places_spec%.lua:%d+",
      ipu.graph.print(f, {program = true}))
    local _ <close> = pipelines.device(2)
    local ok, message = pcall(train_in_a_pipeline,
      function(x) return from_c(ipu.cast(x, "float16")) end, {})
    assert.is_false(ok)
    assert.matches("custom_places_spec%.lua:%d+: snake: operands must be float32 or float64",
      message)
  end)
end)
