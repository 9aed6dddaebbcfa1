-- Values that leave a pipeline by its outfeed, and the reduction of gradients and its dtype.

local ipu = require "ipulua"
local pipelines = require "spec.support.pipelines"

local function pass(...) return ... end

-- Several stages that hand everything on, between a first and a last one.
local function stages(first, last) return {first, pass, pass, last} end

describe("a pipeline's outfeed", function()
  local _device, outfeed, w
  before_each(function()
    _device = pipelines.device(4)
    outfeed, w = ipu.IPUOutfeedQueue(), ipu.Variable(1.0)
  end)
  after_each(function() getmetatable(_device).__close() end)

  local function run(given, ...)
    local inputs = {...}
    given.gradient_accumulation_count = given.gradient_accumulation_count or 8
    given.outfeed_queue = outfeed
    pipelines.device_for(given, #given.computational_stages)
    ipu.func(function(...)
      given.inputs = {...}
      ipu.pipeline(given)
    end)(table.unpack(inputs))
    return outfeed:dequeue()
  end

  local function times_w(x, ...) return x * w, ... end
  local function sgd(loss)
    return ipu.OptimizerFunctionOutput(ipu.train.GradientDescentOptimizer(0.0), loss)
  end

  it("row 139: gets a list of the last stage's outputs in training, also of one", function()
    local got = run({computational_stages = stages(times_w, pass), optimizer_function = sgd}, 1.0)
    assert.are.equal(1, #got)
    assert.are.same({8}, got[1].shape)
  end)

  it("row 137: gets the bare loss with outfeed_loss", function()
    local got = run({computational_stages = stages(times_w, pass), outfeed_loss = true,
      optimizer_function = function(x) return sgd(x + 1) end}, 0.0)
    assert.are.same({1, 1, 1, 1, 1, 1, 1, 1}, got:totable())
  end)

  it("row 138: does not get masked outputs: true is masked", function()
    local got = run({computational_stages = stages(times_w, function(x) return x, x + 3 end),
      outfeed_mask = {true, false},
      optimizer_function = function(x, _) return sgd(x) end}, 1.0)
    assert.are.same({{4, 4, 4, 4, 4, 4, 4, 4}}, {got[1]:totable(), got[2]})
  end)

  for _, method in ipairs{"SUM", "MEAN", "running_mean"} do
    it("row 140: gets a plain sum with accumulate_outfeed, also with the reduction "
      .. method, function()
      local given = {computational_stages = stages(times_w, pass), accumulate_outfeed = true,
        reduction_method = method,
        optimizer_function = sgd, repeat_count = 3}
      assert.are.same({8, 8, 8}, run(given, 1.0)[1]:totable())
      given.outfeed_loss, outfeed = true, ipu.IPUOutfeedQueue()
      assert.are.same({8, 8, 8}, run(given, 1.0):totable())
    end)
  end

  it("row 140: gets sums in a list in inference, each in the dtype asked for", function()
    local given = {computational_stages = stages(pass,
      function(x, y) return ipu.cast(x, "float16"), y end), accumulate_outfeed = true}
    local got = run(given, 30000.0, 2.0)
    assert.are.equal("inf", tostring(got[1]):match("inf"))
    assert.are.same({16}, got[2]:totable())
    outfeed = ipu.IPUOutfeedQueue()
    given.accumulate_outfeed_dtype = "float32"
    assert.are.same({240000}, run(given, 30000.0, 2.0)[1]:totable())
    outfeed = ipu.IPUOutfeedQueue()
    given.accumulate_outfeed_dtype = function(x)
      return x.dtype == "float16" and "float32" or nil
    end
    got = run(given, 30000.0, 2.0)
    assert.are.equal("float32", got[1].dtype)
    outfeed = ipu.IPUOutfeedQueue()
    given.computational_stages = stages(pass, function(x) return x end)
    assert.are.same({{8}}, {run(given, 1.0)[1]:totable()}) -- a list of one
  end)

  it("gets one output or a table bare in inference, several as a list", function()
    assert.are.same({8}, run({computational_stages = stages(pass, pass)}, 1.0).shape)
    outfeed = ipu.IPUOutfeedQueue()
    assert.are.equal(2, #run({computational_stages = stages(pass, pass)}, 1.0, 2.0))
    outfeed = ipu.IPUOutfeedQueue()
    local got =
      run(
        {computational_stages = stages(pass,
          function(x) return {twice = x * 2, parts = {x, x + 1}} end)}, 1.0)
    assert.are.equal(2, got.twice[8]:item())
    assert.are.equal(2, got.parts[2][1]:item())
  end)

  it(
    "rows 129, 130: gets count times repeat_count values, and the weights stay while a run lasts",
    function()
    local got = run({computational_stages = {function(x) return x * w end, pass},
      gradient_accumulation_count = 4, repeat_count = 3,
      optimizer_function = function(loss)
        return ipu.OptimizerFunctionOutput(ipu.train.GradientDescentOptimizer(0.125), loss)
      end}, 1.0)
    assert.are.same({1, 1, 1, 1, 0.5, 0.5, 0.5, 0.5, 0, 0, 0, 0}, got[1]:totable())
    assert.are.equal(-0.5, w:item())
  end)

  it("needs no outfeed where everything is masked", function()
    pipelines.device(2)
    ipu.func(function()
      ipu.pipeline{computational_stages = {function(x) return x * w end, pass},
        gradient_accumulation_count = 4,
        inputs = {ipu.tensor(1.0)}, outfeed_mask = {true},
        optimizer_function = function(loss)
          return ipu.OptimizerFunctionOutput(ipu.train.GradientDescentOptimizer(1.0), loss)
        end}
    end)()
    assert.are.equal(-3, w:item())
  end)
end)

describe("a pipeline's gradients", function()
  local _device
  before_each(function() _device = pipelines.device(2) end)
  after_each(function() getmetatable(_device).__close() end)

  -- The weight after one update by gradients g₀ … g₇ of x·w; what apply_gradients sees is kept in
  -- `seen`.
  local function updated(values, dtype, given, opt)
    local w = ipu.Variable(ipu.tensor(0.0, {dtype = dtype}))
    local infeed = ipu.IPUInfeedQueue(
      ipu.data.from_tensor_slices(ipu.tensor(values, {dtype = dtype})))
    given.computational_stages = {function(x) return x * w end, function(y) return y end}
    given.gradient_accumulation_count, given.infeed_queue, given.outfeed_mask = #values,
      infeed, {true}
    given.optimizer_function = function(loss)
      return ipu.OptimizerFunctionOutput(opt or ipu.train.GradientDescentOptimizer(1.0), loss)
    end
    ipu.func(function() ipu.pipeline(given) end)()
    return -w:item()
  end

  local eight <const> = {1, 2, 3, 4, 5, 6, 7, 8}

  it("rows 131, 133: are summed, or averaged", function()
    assert.are.equal(36, updated(eight, "float32", {}))
    assert.are.equal(4.5, updated(eight, "float32", {reduction_method = "mean"}))
    assert.is_near(4.5,
      updated(eight, "float32",
        {reduction_method = ipu.GradientAccumulationReductionMethod.RUNNING_MEAN}), 1e-5)
  end)

  it(
    "row 132: of float16: a mean is scaled before it is added, so that it does not overflow",
    function()
    local large = {}
    for i = 1, 8 do large[i] = 8192 end
    assert.are.equal(8192, updated(large, "float16", {reduction_method = "MEAN"}))
    assert.are.equal(8192, updated(large, "float16", {reduction_method = "RUNNING_MEAN"}))
    assert.are.equal(math.huge, updated(large, "float16", {}))
  end)

  it("rows 135, 136: in another dtype reach the optimizer in it: a mismatch says what to do, "
    .. "casting mends it", function()
    pipelines.fails("type", function()
      updated(eight, "float16", {gradient_accumulation_dtype = "float32"})
    end,
      "is float32", "is float16", "MapGradientOptimizer")
    local cast = {seen = {}}
    local Caster = ipu.train.GradientDescentOptimizer:extend("Caster")
    function Caster:apply_gradients(pairs_of, ...)
      for _, pair in ipairs(pairs_of) do
        cast.seen[#cast.seen + 1] = pair[1].dtype
        pair[1] = ipu.cast(pair[1], pair[2].dtype)
      end
      return ipu.train.GradientDescentOptimizer.apply_gradients(self, pairs_of, ...)
    end
    assert.are.equal(36, updated(eight, "float16", {gradient_accumulation_dtype = function(v)
      cast.name = v.name
      return "float32"
    end}, Caster(1.0)))
    assert.are.same({"float32"}, cast.seen)
    assert.is_truthy(cast.name)
  end)

  for name, mapped in pairs{
    ["ipu.train"] = function(f)
      return ipu.optimizers.MapGradientOptimizer(ipu.train.GradientDescentOptimizer(1.0), f)
    end,
    ["Keras"] = function(f)
      return ipu.keras.optimizers.MapGradientOptimizer(ipu.keras.optimizers.SGD(1.0), f)
    end,
  } do
    it("row 162: are mapped before they are accumulated, by optimizers of " .. name, function()
      assert.are.equal(1 + 7 * 2,
        updated(eight, "float32", {}, mapped(function(g) return ipu.clip_by_value(g, -2, 2) end)))
    end)

    it("row 136: are cast by a map where they were accumulated in another dtype, by optimizers of "
      .. name, function()
      local opt = mapped(function(g, v) return ipu.cast(g, v.dtype) end)
      assert.are.equal(36,
        updated(eight, "float16", {gradient_accumulation_dtype = "float32"}, opt))
    end)
  end

  it("serve Keras optimizers, with variables, a tape, or what the loss depends on", function()
    local w, frozen = ipu.Variable(2.0), ipu.Variable(3.0)
    local function run(options)
      local opt = ipu.keras.optimizers.SGD{learning_rate = 0.25}
      ipu.func(function(x)
        local tape
        ipu.pipeline{computational_stages = {function(y)
          tape = options.tape and ipu.GradientTape()
          return y * w * frozen
        end, function(y) return y end}, gradient_accumulation_count = 4, inputs = {x},
          outfeed_mask = {true},
          optimizer_function = function(loss)
            if tape then tape:close() end
            return ipu.OptimizerFunctionOutput{opt = options.around and options.around(opt) or opt,
              loss = loss, tape = tape, variables = options.variables}
          end}
      end)(1.0)
      return opt.iterations:item()
    end
    assert.are.equal(1, run{variables = {w}})
    assert.are.same({-1, 3}, {w:item(), frozen:item()})
    run{} -- both
    assert.are.same({-4, 4}, {w:item(), frozen:item()})
    run{tape = true}
    assert.are.same({-8, 8}, {w:item(), frozen:item()})
    run{tape = true, around = function(opt) -- the loss is scaled where the tape has ended
      return ipu.keras.optimizers.ALSOptimizer(opt, {initial_loss_scaling_factor = 4})
    end}
    assert.are.same({-16, 16}, {w:item(), frozen:item()})
  end)

  -- loss = (x·w)²: at h = x·w arrives 2h, times what arrives at the loss.
  it("row 259: are captured on their way back, accumulated or as they were last", function()
    for _, case in ipairs{{true, 1}, {false, 1}, {true, 3}} do
      local accumulated, upstream = table.unpack(case)
      local w, captured = ipu.Variable(3.0), ipu.IPUOutfeedQueue()
      local infeed = ipu.IPUInfeedQueue(ipu.data.from_tensor_slices(ipu.tensor{1, 2, 3, 4}))
      ipu.func(function()
        local context = ipu.GradientCaptureContext()
        ipu.pipeline{computational_stages = {
          function(x) return ipu.capture_upstream_gradients(x * w, {tag = "h"}) end,
          function(h) return ipu.square(h) end,
        }, gradient_accumulation_count = 4, infeed_queue = infeed, outfeed_mask = {true},
          gradient_accumulation_for_captured_grads = accumulated,
          optimizer_function = function(loss)
            return ipu.OptimizerFunctionOutput{opt = ipu.train.GradientDescentOptimizer(0.0),
              loss = loss, compute_gradients_kwargs = {grad_loss = ipu.tensor(upstream)},
              gradient_capture_context = context, captured_gradient_outfeed = captured}
          end}
        context:close()
      end)()
      assert.are.same({upstream * (accumulated and 2 * 3 * 10 or 2 * 3 * 4)},
        captured:dequeue().h:totable())
    end
  end)
end)
