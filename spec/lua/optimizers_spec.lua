local ipu = require "ipulua"

local function fails(f, ...)
  local ok, message = pcall(f)
  assert.is_false(ok)
  for _, text in ipairs {...} do
    assert.is_truthy(tostring(message):find(text, 1, true), message)
  end
end

local function near(want, got, tolerance)
  assert.is_true(math.abs(want - got) <= (tolerance or 1e-6), got .. " is not " .. want)
end

-- w after the loop, from ones: rows of x one after the other, loss the mean of (x·w)².
local function trained(make, iterations, size)
  local x = ipu.random.normal({iterations * size, 3}, {seed = 5})
  local w = ipu.Variable(ipu.ones{3, 1}, {name = "w"})
  local opt = make()
  local infeed = ipu.IPUInfeedQueue(ipu.data.from_tensor_slices(x):batch(size,
    {drop_remainder = true}))
  ipu.func(function()
    ipu.loops.repeat_n(iterations, function(batch)
      opt:minimize(ipu.reduce_mean(ipu.square(ipu.matmul(batch, w))), {var_list = {w}})
    end, {}, infeed)
  end)()
  return w:totable()
end

local function same_weights(a, b)
  for i = 1, 3 do near(a[i][1], b[i][1], 1e-5) end
end

describe("gradient accumulation", function()
  local sgd = ipu.train.GradientDescentOptimizer

  it("row 158: with MEAN over k mini-batches equals one step on the joined batch", function()
    local function accumulated()
      return ipu.optimizers.GradientAccumulationOptimizerV2(sgd(0.1),
        {num_mini_batches = 4, reduction_method = "mean"})
    end
    same_weights(trained(accumulated, 4, 2), trained(function() return sgd(0.1) end, 1, 8))
    same_weights(trained(accumulated, 8, 2), trained(function() return sgd(0.1) end, 2, 8))
  end)

  it("row 131: with SUM multiplies the learning rate, RUNNING_MEAN equals MEAN", function()
    local function by(method, lr)
      return function()
        return ipu.optimizers.GradientAccumulationOptimizerV2(ipu.train.MomentumOptimizer(lr, 0.9),
          {num_mini_batches = 4, reduction_method = method})
      end
    end
    same_weights(trained(by("SUM", 0.025), 8, 2), trained(by("MEAN", 0.1), 8, 2))
    same_weights(trained(by("RUNNING_MEAN", 0.1), 8, 2), trained(by("MEAN", 0.1), 8, 2))
  end)

  it("over one mini-batch is the optimizer itself, also outside of loops", function()
    local opt = ipu.optimizers.GradientAccumulationOptimizerV2(sgd(0.5), {num_mini_batches = 1})
    local w = ipu.Variable(2.0)
    ipu.func(function() opt:minimize(w * w, {var_list = {w}}) end)()
    near(0, w:item())
  end)

  it("works in ipu.range, and counts one global step an update", function()
    local opt = ipu.optimizers.GradientAccumulationOptimizerV2(sgd(0.1), {num_mini_batches = 3})
    local w, steps = ipu.Variable(1.0), ipu.Variable(0, {dtype = "int32", trainable = false})
    ipu.func(function()
      for _ in ipu.range(6) do opt:minimize(w * 2, {var_list = {w}, global_step = steps}) end
    end)()
    near(1 - 0.1 * 12, w:item())
    assert.equal(2, steps:item())
  end)

  it("row 159: needs a loop whose count is a multiple", function()
    local opt = ipu.optimizers.GradientAccumulationOptimizerV2(sgd(0.1), {num_mini_batches = 4})
    local w = ipu.Variable(1.0)
    fails(function()
      ipu.func(function()
        ipu.loops.repeat_n(10, function() opt:minimize(w * 2, {var_list = {w}}) end)
      end)()
    end, "4 mini-batches", "10 iterations")
    assert.equal("failed_precondition", ipu.last_error().kind)
    fails(function() ipu.func(function() opt:minimize(w * 2, {var_list = {w}}) end)() end, "loop")
  end)

  it("row 161: checks what it is made of", function()
    fails(function()
      ipu.optimizers.GradientAccumulationOptimizerV2(sgd(0.1), {num_mini_batches = 0})
    end, "num_mini_batches")
    fails(function()
      ipu.optimizers.GradientAccumulationOptimizerV2(sgd(0.1),
        {num_mini_batches = 2, reduction_method = "median"})
    end, "SUM", "MEAN", "RUNNING_MEAN")
    fails(function()
      ipu.optimizers.GradientAccumulationOptimizer(ipu.train.AdamOptimizer(0.1),
        {num_mini_batches = 2})
    end, "MomentumOptimizer")
    fails(function() ipu.optimizers.CrossReplicaOptimizer({}) end, "ipu.train")
  end)

  it("row 136: in a wider dtype says that gradients must be cast, and a map does it", function()
    local function train(opt)
      local w = ipu.Variable(ipu.tensor({1, 2}, {dtype = "float16"}))
      local ga = ipu.optimizers.GradientAccumulationOptimizerV2(opt,
        {num_mini_batches = 2, dtype = "float32"})
      ipu.func(function()
        ipu.loops.repeat_n(2, function() ga:minimize(w * 2, {var_list = {w}}) end)
      end)()
      return w
    end
    fails(function() train(sgd(0.1)) end, "float32", "float16", "MapGradientOptimizer")
    local Cast = sgd:extend("CastGradients")
    function Cast:apply_gradients(given, ...)
      for _, pair in ipairs(given) do pair[1] = ipu.cast(pair[1], pair[2].dtype) end
      return sgd.apply_gradients(self, given, ...)
    end
    near(1 - 0.1 * 4, train(Cast(0.1)):totable()[1], 1e-3)
    local map = ipu.optimizers.MapGradientOptimizer(sgd(0.1), function(g, v)
      return ipu.cast(g, v.dtype)
    end)
    near(1 - 0.1 * 4, train(map):totable()[1], 1e-3)
  end)

  -- tf.raw_ops.ResourceApplyGradientDescent: "alpha is not a scalar".
  it("refuse a learning rate of several elements", function()
    local function rates() return ipu.tensor{1, 10} end
    for _, opt in ipairs{ipu.train.GradientDescentOptimizer(rates()),
      ipu.train.AdamOptimizer(rates), ipu.keras.optimizers.SGD{rates}} do
      local v = ipu.Variable{1, 2}
      assert.error_matches(function() opt:apply_gradients{{ipu.ones{2}, v}} end,
        "the learning rate must be a single number, got a tensor of the shape %[2%]")
      assert.same({1, 2}, v:totable())
    end
  end)

  -- tf.raw_ops.ResourceApplyMomentum: "var and grad do not have the same shape".
  it("refuse a gradient that would broadcast to its variable", function()
    for _, name in ipairs{"GradientDescentOptimizer", "AdamOptimizer", "AdagradOptimizer"} do
      local v, w = ipu.Variable{1, 2}, ipu.Variable{1, 2, 3}
      assert.error_matches(function()
        ipu.train[name](0.5):apply_gradients{{ipu.ones{2}, v}, {ipu.ones{1}, w}}
      end, "has the shape [1], the variable [3]", nil, true)
      assert.same({1, 2}, v:totable())
    end
  end)
end)

describe("wrappers and own optimizers", function()
  it("row 162: MapGradientOptimizer changes each gradient", function()
    local v = ipu.Variable{1, 2, 3}
    local opt = ipu.optimizers.MapGradientOptimizer(ipu.train.GradientDescentOptimizer(1.0),
      function(g, x) return g + x * 0.01 end)
    local found
    ipu.func(function()
      found = opt:compute_gradients(ipu.reduce_sum(v * ipu.tensor{5, 4, 3}), {var_list = {v}})
      opt:apply_gradients(found)
    end)()
    local after = v:totable()
    for i, g in ipairs {5.01, 4.02, 3.03} do near(i - g, after[i], 1e-5) end
  end)

  it("CrossReplicaOptimizer changes nothing on one replica", function()
    local v = ipu.Variable(3.0)
    local opt = ipu.optimizers.CrossReplicaOptimizer(ipu.train.GradientDescentOptimizer(0.5))
    ipu.func(function() opt:minimize(v * v, {var_list = {v}}) end)()
    near(0, v:item())
  end)

  it("an own optimizer defines one update", function()
    local Sign = ipu.train.Optimizer:extend("SignOptimizer")
    function Sign:apply_gradient(g, v) return v:assign_sub(ipu.sign(g) * self:rate(v.dtype)) end
    local v = ipu.Variable{1.0, -1.0}
    local opt = Sign(0.25)
    ipu.func(function() opt:minimize(ipu.reduce_sum(v * v), {var_list = {v}}) end)()
    assert.same({0.75, -0.75}, v:totable())
  end)

  it("apply_gradients works at once, on what a tape gave", function()
    local v = ipu.Variable(4.0)
    local tape = ipu.GradientTape()
    local loss = tape(function() return v * v end)
    ipu.train.GradientDescentOptimizer(0.25):apply_gradients{{tape:gradient(loss, v), v}}
    near(2, v:item())
  end)

  it("say when a loss depends on nothing", function()
    local v = ipu.Variable(1.0)
    fails(function()
      ipu.func(function(x)
        ipu.train.GradientDescentOptimizer(0.1):minimize(x * 2, {var_list = {v}})
      end)(ipu.tensor(1.0))
    end, "no gradient")
    fails(function() ipu.train.GradientDescentOptimizer(0.1):minimize(ipu.tensor(1.0)) end,
      "symbolic")
  end)
end)

describe("an estimate before the first run", function()
  it("leaves a function that has not run fit to run", function()
    for name, make in pairs{
      Momentum = function() return ipu.train.MomentumOptimizer(0.1, 0.9) end,
      Adam = function() return ipu.train.AdamOptimizer(0.1) end,
      accumulated = function()
        return ipu.optimizers.GradientAccumulationOptimizerV2(
          ipu.train.GradientDescentOptimizer(0.1), 2)
      end,
    } do
      local results = {}
      for i, estimated in ipairs{true, false} do
        local w, opt = ipu.Variable(ipu.ones{8}), make()
        local f = ipu.func(function()
          ipu.loops.repeat_n(2, function() opt:minimize(ipu.reduce_sum(ipu.square(w))) end)
        end)
        if estimated then assert.is_true(ipu.estimate(f).fits) end
        f()
        results[i] = w:read_value():totable()
      end
      assert.same(results[2], results[1], name)
      assert.is_true(results[1][1] < 1, name)
    end
  end)
end)
