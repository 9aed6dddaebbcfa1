-- Optimizers beyond their update rules, which the conformance cases check.

local ipu = require "ipulua"

local keras = ipu.keras
local optimizers = keras.optimizers

local function message_of(f, ...)
  local ok, message = pcall(f, ...)
  assert.is_false(ok)
  return message
end

describe("an optimizer", function()
  it("is made by position, by name and by a string", function()
    for _, opt in ipairs{optimizers.SGD(0.5), optimizers.SGD{0.5},
      optimizers.SGD{learning_rate = 0.5},
      optimizers.SGD{0.5, momentum = 0.9}} do
      assert.are.equal(0.5, opt.learning_rate:item())
    end
    assert.are.equal("Adam", optimizers.get("adam").__name)
    assert.matches("unknown optimizer 'adm'", message_of(optimizers.get, "adm"))
  end)

  it("takes another learning rate at any time", function()
    local opt, v = optimizers.SGD(1), ipu.Variable(10)
    opt:apply_gradients({ipu.tensor(1)}, {v})
    opt.learning_rate = 2
    opt:apply_gradients{{ipu.tensor(1), v}}
    assert.are.equal(7, v:item())
    assert.are.equal(2, opt.iterations:item())
  end)

  it("applies constraints after the update", function()
    local v = ipu.Variable(1)
    v.constraint = keras.constraints.NonNeg()
    optimizers.SGD(1):apply_gradients({ipu.tensor(5)}, {v})
    assert.are.equal(0, math.abs(v:item()))
  end)

  it("refuses gradients of another dtype, and no gradients", function()
    local v = ipu.Variable(ipu.tensor(1, {dtype = "float16"}), {name = "half"})
    assert.matches("gradient of variable 'half.*' is float32, the variable is float16; cast it",
      message_of(function() optimizers.SGD(1):apply_gradients({ipu.tensor(1)}, {v}) end))
    assert.matches("no gradients are provided for any variable: half",
      message_of(function() optimizers.SGD(1):apply_gradients({}, {v}) end))
  end)

  it("averages variables with use_ema", function()
    local opt = optimizers.SGD{1, use_ema = true, ema_momentum = 0.5}
    local v = ipu.Variable(8)
    opt:apply_gradients({ipu.tensor(2)}, {v}) -- 6; the average begins there
    opt:apply_gradients({ipu.tensor(2)}, {v}) -- 4; average 5
    opt:finalize_variable_values{v}
    assert.are.equal(5, v:item())
  end)

  it("lowers weights by weight_decay times the learning rate", function()
    local v = ipu.Variable(10)
    optimizers.SGD{0.5, weight_decay = 0.1}:apply_gradients({ipu.tensor(0)}, {v})
    assert.are.equal(9.5, v:item())
  end)

  -- tf.clip_by_global_norm: entries are NaN if the norm of all is infinite.
  it("clip all to NaN where the common norm is infinite", function()
    local v, w = ipu.Variable{1, 2}, ipu.Variable{1, 2}
    local opt = optimizers.SGD{1, global_clipnorm = 1}
    opt:apply_gradients({ipu.tensor{3, 4}, ipu.tensor{0, 0}}, {v, w})
    assert.near(0.4, v[1]:item(), 1e-6)
    assert.near(1.2, v[2]:item(), 1e-6)
    opt:apply_gradients({ipu.tensor{1, 2}, ipu.tensor{math.huge, 1}}, {v, w})
    for i = 1, 2 do
      assert.are_not.equal(v[i]:item(), v[i]:item())
      assert.are_not.equal(w[i]:item(), w[i]:item())
    end
  end)

  -- 3, 4 · 1e30: the square of the norm, 25e60, is beyond float32, and 2^-40 is lost in it.
  it("clip all by a norm in float64 where a gradient is float64", function()
    local function long(list) return ipu.tensor(list, {dtype = "float64"}) end
    local v, w = ipu.Variable(long{0, 0}), ipu.Variable{0, 0}
    local opt = optimizers.SGD{1, global_clipnorm = 0.5}
    opt:apply_gradients({long{3e30, 4e30}, ipu.tensor{0, 0}}, {v, w})
    assert.near(-0.3, v[1]:item(), 1e-15)
    assert.near(-0.4, v[2]:item(), 1e-15)
    v:assign(long{0, 0})
    opt:apply_gradients({long{1 + 2 ^ -40, 0}}, {v})
    assert.near(-0.5, v[1]:item(), 1e-15)
  end)

  -- tf.raw_ops.ResourceApplyGradientDescent: "var and delta do not have the same shape".
  it("refuse a gradient that would broadcast to its variable", function()
    for _, name in ipairs{"SGD", "Adam", "Ftrl", "Lion"} do
      for text, g in pairs{["[1]"] = ipu.ones{1}, ["[]"] = ipu.tensor(1),
        ["[1, 3]"] = ipu.ones{1, 3}} do
        local v, w = ipu.Variable{1, 2}, ipu.Variable{1, 2, 3}
        local opt = optimizers[name]{1}
        assert.error_matches(function()
          opt:apply_gradients({ipu.ones{2}, g}, {v, w})
        end, ("has the shape %s, the variable [3]"):format(text), nil, true)
        assert.same({1, 2}, v:totable())
        assert.same({1, 0}, {#opt.weights, opt.iterations:item()})
      end
    end
  end)

  -- Sums and statistics are as if the refused step had never been.
  it("keep nothing of a refused step in a wrapper", function()
    local wrappers = {
      function() return optimizers.GradientAccumulationOptimizer{optimizers.SGD{1}, 2} end,
      function() return optimizers.ALSOptimizer(optimizers.SGD{1}) end,
      function() return optimizers.ALSOptimizerSGD{1} end,
    }
    for _, make in ipairs(wrappers) do
      local v, w, opt = ipu.Variable{0, 0}, ipu.Variable{0, 0, 0}, make()
      local function weights()
        local list = {}
        for i, t in ipairs(opt:get_weights()) do list[i] = t:totable() end
        return list
      end
      opt:apply_gradients({ipu.ones{2}, ipu.ones{3}}, {v, w})
      local before, value = weights(), v:totable()
      assert.error_matches(function() opt:apply_gradients({ipu.ones{2}, ipu.ones{1}}, {v, w}) end,
        "has the shape %[1%], the variable %[3%]")
      assert.error_matches(function() opt:apply_gradients({ipu.ones{2}, ipu.ones{3}}, {v, "w"}) end,
        "expected a list of pairs")
      assert.same({before, value}, {weights(), v:totable()})
    end
  end)

  it("Lion moves by the sign", function()
    local v = ipu.Variable(ipu.tensor{1, 1})
    optimizers.Lion{0.1}:apply_gradients({ipu.tensor{5, -0.001}}, {v})
    assert.is_near(0.9, v:totable()[1], 1e-6)
    assert.is_near(1.1, v:totable()[2], 1e-6)
  end)

  -- Five steps with gradients that change sign, by the formulas in double precision. update(m, v,
  -- t, g) → m, v, step down.
  local function follows(opt, update)
    local w, m, v = 1.0, 0.0, 0.0
    local variable = ipu.Variable(w)
    for t, g in ipairs{0.5, -2.0, 3.0, 0.25, -1.0} do
      local step
      m, v, step = update(m, v, t, g, w)
      w = w - step
      opt:apply_gradients({ipu.tensor(g)}, {variable})
      assert.is_near(w, variable:item(), 2e-6)
      assert.are.equal(t, opt.iterations:item())
    end
  end

  local function adam(lr, b1, b2, epsilon)
    return function(m, v, t, g)
      m, v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g * g
      return m, v, lr * math.sqrt(1 - b2 ^ t) / (1 - b1 ^ t) * m / (math.sqrt(v) + epsilon)
    end
  end

  for name, case in pairs{
    SGD = {optimizers.SGD(0.1), function(m, v, _, g) return m, v, 0.1 * g end},
    ["SGD with momentum"] = {optimizers.SGD{0.1, momentum = 0.9}, function(m, v, _, g)
      m = 0.9 * m - 0.1 * g
      return m, v, -m
    end},
    ["SGD with Nesterov's momentum"] = {optimizers.SGD{0.1, momentum = 0.9,
      nesterov = true}, function(m, v, _, g)
      m = 0.9 * m - 0.1 * g
      return m, v, -(0.9 * m - 0.1 * g)
    end},
    Adam = {optimizers.Adam(), adam(0.001, 0.9, 0.999, 1e-7)},
    RMSprop = {optimizers.RMSprop(), function(m, v, _, g)
      v = 0.9 * v + 0.1 * g * g
      return m, v, 0.001 * g / (math.sqrt(v) + 1e-7)
    end},
  } do
    it("row 168: takes five steps by its formula, with its defaults: " .. name, function()
      follows(case[1], case[2])
    end)
  end

  it(
    "row 169: AdamW takes weight decay off beside Adam's step, LAMB scales the step to the weight",
    function()
    follows(optimizers.AdamW{0.01, weight_decay = 0.1}, function(m, v, t, g, w)
      local step
      m, v, step = adam(0.01, 0.9, 0.999, 1e-7)(m, v, t, g)
      return m, v, step + 0.01 * 0.1 * w
    end)
    follows(optimizers.LAMB(0.01), function(m, v, t, g, w)
      m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
      local r = m / (1 - 0.9 ^ t) / (math.sqrt(v / (1 - 0.999 ^ t)) + 1e-7)
      return m, v, 0.01 * math.abs(w) / math.abs(r) * r
    end)
  end)

  it("row 169: schedules see the number of updates", function()
    local rate = optimizers.schedules.ExponentialDecay{initial_learning_rate = 1.0, decay_steps = 1,
      decay_rate = 0.5}
    local opt, v = optimizers.SGD(rate), ipu.Variable(0.0)
    local seen = {}
    for i = 1, 4 do
      opt:apply_gradients({ipu.tensor(-1.0)}, {v})
      seen[i] = v:item()
    end
    assert.are.same({1, 1.5, 1.75, 1.875}, seen)
  end)

  it("comes back from its config, schedules included", function()
    local opt = optimizers.Adam{optimizers.schedules.CosineDecay{0.1, 100, alpha = 0.5},
      beta_1 = 0.8}
    local copy = optimizers.Adam:from_config(ipu.json.decode(ipu.json.encode(opt:get_config())))
    assert.are.equal(0.8, copy.beta_1)
    assert.is_near(0.1 * 0.5, copy.learning_rate(100):item(), 1e-7)
  end)

  -- get_config() of Keras 2.6's SGD() and RMSprop(momentum=1): what is a float there is written as
  -- one, whoever said 0 or 1.
  it("has floats where Keras has them", function()
    local sgd, rmsprop = optimizers.SGD():get_config(),
      optimizers.RMSprop{momentum = 1}:get_config()
    for _, value in ipairs{sgd.decay, sgd.momentum, rmsprop.decay, rmsprop.momentum} do
      assert.are.equal("float", math.type(value))
    end
    assert.matches('"decay":0.0', ipu.json.encode(sgd), 1, true)
    local decay, glorot = optimizers.schedules.CosineDecay(0.1, 100):get_config(),
      ipu.keras.initializers.VarianceScaling():get_config()
    assert.are.same({"float", "float", "integer"},
      {math.type(decay.alpha), math.type(glorot.scale), math.type(decay.decay_steps)})
    assert.are.equal("float", math.type(ipu.keras.regularizers.L1L2():get_config().l1))
    local set = optimizers.SGD()
    set.momentum = 1
    assert.are.equal("float", math.type(set.momentum))
  end)
end)

describe("optimizer wrappers", function()
  it("row 162: map gradients", function()
    local v = ipu.Variable(3)
    local opt = optimizers.MapGradientOptimizer(optimizers.SGD(1), function(g, w)
      return g + w * 0.01
    end)
    opt:apply_gradients({ipu.tensor(1)}, {v})
    assert.is_near(3 - 1.03, v:item(), 1e-6)
  end)

  it("row 163: accumulate over one call by doing nothing: the optimizer itself", function()
    local sgd = keras.optimizers.SGD(0.1)
    assert.are.equal(sgd,
      keras.optimizers.GradientAccumulationOptimizer(sgd, {num_mini_batches = 1}))
    assert.are_not.equal(sgd,
      keras.optimizers.GradientAccumulationOptimizer(sgd, {num_mini_batches = 2}))
  end)

  it("accumulate over calls", function()
    local v = ipu.Variable(10)
    local opt = optimizers.GradientAccumulationOptimizer(optimizers.SGD(1), 3,
      {reduction_method = "mean"})
    for i = 1, 3 do
      assert.are.equal(10, v:item())
      opt:apply_gradients({ipu.tensor(i)}, {v})
    end
    assert.is_near(8, v:item(), 1e-6)
    assert.are.equal(1, opt.iterations:item())
    assert.matches("'num_mini_batches' must be positive",
      message_of(optimizers.GradientAccumulationOptimizer, optimizers.SGD(1), 0))
  end)
end)

describe("MapGradientOptimizer", function()
  -- Gradients of w·x are 1, 3 | 5, 7; each is clipped to 4 before two are added.
  local x = ipu.tensor{{1}, {3}, {5}, {7}}
  local function clipped(opt)
    return optimizers.MapGradientOptimizer(opt, function(g) return ipu.clip_by_value(g, -4, 4) end)
  end

  local function trained(optimizer, accumulates)
    local model = keras.Sequential{keras.layers.Dense{1, use_bias = false,
      kernel_initializer = "zeros", input_shape = {1}}}
    model:compile{loss = function(_, p) return ipu.reduce_mean(p, {axis = -1}) end,
      optimizer = optimizer, steps_per_execution = 4}
    if accumulates then
      model:set_gradient_accumulation_options{gradient_accumulation_steps_per_replica = 2}
    end
    model:fit{x = x, y = ipu.zeros{4, 1}, batch_size = 1, shuffle = false, verbose = 0}
    return -model.weights[1]:item()
  end

  it("row 162: changes each gradient before it is accumulated", function()
    assert.are.equal(1 + 3 + 4 + 4, trained(clipped(optimizers.SGD(1)), true))
    assert.are.equal(1 + 3 + 4 + 4,
      trained(clipped(optimizers.GradientAccumulationOptimizer(optimizers.SGD(1), 2))))
    assert.are.equal(1 + 3 + 4 + 4,
      trained(optimizers.GradientAccumulationOptimizer(clipped(optimizers.SGD(1)), 2)))
  end)

  it("changes gradients that an ALSOptimizer around it has divided by its factor", function()
    local scaled = optimizers.ALSOptimizer(clipped(optimizers.SGD(1)),
      {initial_loss_scaling_factor = 16})
    assert.are.equal(4 + 4, trained(scaled, true)) -- the accumulated 1 + 3 and 5 + 7
  end)
end)

describe("ALSOptimizer", function()
  it("works inside of other wrappers, and is not wrapped twice", function()
    local function als(opt)
      return optimizers.ALSOptimizer(opt or optimizers.SGD(0.1), {initial_loss_scaling_factor = 64})
    end
    local function trained(opt)
      local model = keras.Sequential{keras.layers.Dense{1, input_shape = {4},
        kernel_initializer = "zeros"}}
      model:compile{optimizer = opt, loss = "mse"}
      model:fit(ipu.ones{16, 4}, ipu.ones{16, 1}, {batch_size = 4, verbose = 0, shuffle = false})
      return model:get_weights()[1]:totable()[1][1]
    end
    local function accumulated(o) return optimizers.GradientAccumulationOptimizer(o, 2) end
    local plain, by_two = trained(optimizers.SGD(0.1)), trained(accumulated(optimizers.SGD(0.1)))
    assert.is_near(plain, trained(optimizers.CrossReplicaOptimizer(als())), 1e-6)
    assert.is_near(plain, trained(optimizers.MapGradientOptimizer(als(), function(g) return g end)),
      1e-6)
    assert.is_near(by_two, trained(accumulated(als())), 1e-6)
    local mapped = optimizers.MapGradientOptimizer(als(), function(g) return g end)
    mapped:reset()
    assert.equal(64, mapped:scale_loss(ipu.tensor(1.0)):item())
    assert.matches("scales the loss already", message_of(optimizers.ALSOptimizer, als()))
    assert.matches("scales the loss already", message_of(als, accumulated(als())))
  end)

  local function half(x) return ipu.tensor(x, {dtype = "float16"}) end

  -- Applications until the factor changes.
  local function changes(opt, gradient, count)
    local v = ipu.Variable(half(1))
    local seen, last = {}, opt.loss_scaling_factor:item()
    for i = 1, count do
      opt:apply_gradients({half(gradient)}, {v})
      local factor = opt.loss_scaling_factor:item()
      if factor ~= last then seen[#seen + 1] = i .. ":" .. factor end
      last = factor
    end
    return table.concat(seen, " ")
  end

  it("row 165: reconsiders its factor at applications 9, 18 … with frequency 8", function()
    assert.are.equal("9:2.0 18:4.0", changes(optimizers.ALSOptimizer(optimizers.SGD(0)), 1, 20))
  end)

  it("row 165: halves the factor when too many elements lie at the edge or beyond, and keeps it "
    .. "above 1", function()
    local opt = optimizers.ALSOptimizer(optimizers.SGD(0),
      {update_frequency = 1, initial_loss_scaling_factor = 4})
    assert.are.equal("1:2.0 2:1.0", changes(opt, 8192, 5))
  end)

  it("row 165: keeps a factor that would reach its maximum", function()
    local opt = optimizers.ALSOptimizer(optimizers.SGD(0),
      {update_frequency = 1, initial_loss_scaling_factor = 4, max_loss_scaling_factor = 32})
    assert.are.equal("1:8.0 2:16.0", changes(opt, 1, 5))
    local wide = optimizers.ALSOptimizer(optimizers.SGD(0), {update_frequency = 1,
      initial_loss_scaling_factor = 4, increase_factor = 4, max_loss_scaling_factor = 128})
    assert.are.equal("1:16.0 2:64.0", changes(wide, 1, 5))
  end)

  it("divides gradients by the factor", function()
    local v = ipu.Variable(1)
    local opt = optimizers.ALSOptimizer(optimizers.SGD(1), {initial_loss_scaling_factor = 8})
    assert.are.equal(16, opt:scale_loss(ipu.tensor(2)):item())
    opt:apply_gradients({ipu.tensor(4)}, {v})
    assert.are.equal(0.5, v:item())
  end)

  -- v² at 3 by steps of 0.5: 3 - 0.5·6 = 0, whatever the factor.
  it("minimizes the scaled loss, alone and inside of a wrapper", function()
    local function als()
      return optimizers.ALSOptimizer(optimizers.SGD(0.5), {initial_loss_scaling_factor = 8})
    end
    local function mapped()
      return optimizers.MapGradientOptimizer(als(), function(g) return g end)
    end
    for _, make in ipairs{als, mapped} do
      local v = ipu.Variable(3.0)
      local function loss() return v * v end
      local function recorded(opt)
        local tape = ipu.GradientTape()
        opt:minimize(tape(loss), {v}, tape)
      end
      for _, minimize in ipairs{
        function(opt) opt:minimize(loss, {v}) end, recorded,
        function(opt) ipu.func(function() opt:minimize(loss, {v}) end)() end,
        function(opt) ipu.func(function() opt:minimize(loss(), {v}) end)() end,
        function(opt) opt:minimize{loss, {v}, grad_loss = ipu.tensor(1.0)} end,
      } do
        v:assign(3)
        minimize(make())
        assert.equal(0, v:item())
      end
    end
  end)

  it("row 166: checks its arguments and keeps statistics read-only", function()
    assert.matches("must be a power of two, got 3",
      message_of(optimizers.ALSOptimizer, optimizers.SGD(1), {increase_factor = 3}))
    local opt = optimizers.ALSOptimizer(optimizers.SGD(1))
    assert.matches("'histogram' is read%-only", message_of(function() opt.histogram = 1 end))
    assert.matches("must be an ALSOptimizer",
      message_of(optimizers.ALSGradientAccumulationOptimizer, optimizers.SGD(1), 2))
    assert.are.equal(0.5, opt.decrease_factor)
  end)
end)

describe("an optimizer's state", function()
  it("is made whole by build, so that weights of another can be set", function()
    for _, name in ipairs{"SGD", "Adam", "AdamW", "Adamax", "Nadam", "RMSprop", "Adagrad",
      "Adadelta", "Ftrl", "LAMB", "Lion"} do
      local function gradient(i) return ipu.random.normal({50}, {seed = i}) end
      local v, w = ipu.Variable(ipu.ones{50}), ipu.Variable(ipu.ones{50})
      local first, second = optimizers[name](), optimizers[name]()
      for i = 1, 3 do first:apply_gradients({gradient(i)}, {v}) end
      second:build{w}
      second:set_weights(first:get_weights())
      w:assign(v:read_value())
      first:apply_gradients({gradient(4)}, {v})
      second:apply_gradients({gradient(4)}, {w})
      assert.are.equal(0, ipu.reduce_max(ipu.abs(v - w)):item(), name)
    end
  end)

  it("holds what its wrappers keep: a half full sum, a loss scale", function()
    local accumulation <const>, scaling <const> = optimizers.GradientAccumulationOptimizer,
      optimizers.ALSOptimizer
    local makers <const> = {
      function() return accumulation(optimizers.Adam(), 2) end,
      function() return optimizers.CrossReplicaOptimizer(accumulation(optimizers.SGD(), 2)) end,
      function() return scaling(optimizers.Adam(), {update_frequency = 2}) end,
      function()
        return optimizers.ALSGradientAccumulationOptimizer(
          scaling(optimizers.SGD(), {update_frequency = 2}), 2)
      end,
    }
    for i, make in ipairs(makers) do
      local first, second = make(), make()
      local v, w = ipu.Variable(ipu.ones{3}), ipu.Variable(ipu.ones{3})
      local function stepped(opt, variable)
        return ipu.func(function(g) opt:apply_gradients({g}, {variable}) end)
      end
      local one, other = stepped(first, v), stepped(second, w)
      for k = 1, 3 do one(ipu.tensor{0.5, -1, 2} * k) end
      w:assign(v:read_value())
      second:build{w}
      second:set_weights(first:get_weights())
      for k = 4, 6 do
        one(ipu.tensor{0.5, -1, 2} * k)
        other(ipu.tensor{0.5, -1, 2} * k)
      end
      assert.are.same(v:totable(), w:totable(), i)
      for k, value in ipairs(first:get_weights()) do
        assert.are.same(value:totable(), second:get_weights()[k]:totable())
      end
    end
  end)
end)

describe("clipnorm and global_clipnorm", function()
  it("exclude each other, as in Keras, while clipvalue goes with either", function()
    for _, name in ipairs{"SGD", "Adam", "RMSprop", "Ftrl"} do
      assert.error_matches(function()
        return keras.optimizers[name]{clipnorm = 1, global_clipnorm = 2}
      end, name .. ": 'clipnorm' and 'global_clipnorm' can't both be given")
      assert.equal(2, keras.optimizers[name]{clipnorm = 1, clipvalue = 2}.clipvalue)
    end
  end)
end)
