-- float16: values that are computed in it, values that stay float32, and scaled losses. Expected
-- numbers follow from IEEE half precision: 11 bits, the smallest number 2^-24.

local ipu = require "ipulua"
local keras = ipu.keras
local layers, optimizers = keras.layers, keras.optimizers
local policy = keras.mixed_precision

local function half(x) return ipu.tensor(x, {dtype = "float16"}) end
local function constant(value) return {class_name = "Constant", config = {value = value}} end

describe("mixed precision", function()
  after_each(function() policy.set_global_policy("float32") end)

  it("computes in float16, keeps float32", function()
    policy.set_global_policy("mixed_float16")
    local dense = layers.Dense{1, kernel_initializer = "ones", bias_initializer = constant(0)}
    local y = dense(ipu.tensor{{2049}}) -- between 2048 and 2050: to the even one
    assert.equal("float16", y.dtype)
    assert.equal(2048, y:item())
    assert.equal("float32", dense.weights[1].dtype)
    assert.equal("float32", dense.dtype)
    assert.equal("float16", dense.compute_dtype)
    assert.equal("mixed_float16", dense.dtype_policy.name)
    assert.equal(2049, layers.Dense{1, kernel_initializer = "ones",
      dtype = "float32"}(ipu.tensor{{2049}}):item())
  end)

  it("bfloat16 has 8 bits", function()
    policy.set_global_policy("mixed_bfloat16")
    assert.equal(256, layers.Dense{1, kernel_initializer = "ones"}(ipu.tensor{{257}}):item())
  end)

  it(
    "trains with float32 steps: w ← w - lr·2·mean((w·x - y)·x), where the products are halves",
    function()
    policy.set_global_policy("mixed_float16")
    local model = keras.Sequential{layers.Dense{1, use_bias = false,
      kernel_initializer = constant(0.5)},
      layers.Activation{"linear", dtype = "float32"}}
    model:compile{optimizer = optimizers.SGD(0.0001), loss = "mse"}
    model:fit{ipu.tensor{{2}, {4}}, ipu.tensor{{0}, {1}}, batch_size = 2, verbose = 0}
    -- predictions 1 and 2, errors 1 and 1, gradient mean(2·1·2, 2·1·4) = 6
    -- a float16 weight would have stayed at 0.5 or gone to 0.49951
    assert.is_near(0.5 - 0.0006, model.weights[1]:item(), 1e-7)
    assert.equal("float32", model.weights[1].dtype)
  end)

  it("names what is no policy", function()
    assert.error_matches(function() policy.set_global_policy("mixed_float8") end,
      "'mixed_float8' is neither a dtype .* nor a policy")
  end)
end)

-- dloss/dw = 2^-26, which no half is: without scaling it is 0.
local function small_gradients(optimizer)
  local model = keras.Sequential{layers.Dense{1, use_bias = false, kernel_initializer = constant(1),
    dtype = "float16"}}
  model:compile{optimizer = optimizer, loss = function(_, y)
    return ipu.reduce_mean(y * 2 ^ -13, {axis = -1}) * 2 ^ -13
  end}
  model:fit{half{{1}}, half{{0}}, batch_size = 1, verbose = 0}
  return model.weights[1]:item()
end

describe("scaled losses", function()
  it("save gradients that are no halves", function()
    assert.equal(1, small_gradients(optimizers.SGD(2 ^ 13)))
    local scaled = {initial_loss_scaling_factor = 2 ^ 10, update_frequency = 100}
    -- divided as a half: gone again
    assert.equal(1, small_gradients(optimizers.ALSOptimizer(optimizers.SGD(2 ^ 13), scaled)))
    scaled.learning_rate = 2 ^ 20
    -- divided within the update
    assert.equal(1 - 2 ^ -6, small_gradients(optimizers.ALSOptimizerSGD(scaled)))
  end)

  -- Adam's first step is lr in the direction of the gradient (epsilon aside); RMSprop's is
  -- lr / √(1 - rho).
  it("within Adam and RMSprop, which keep their moments in float32", function()
    local options = {learning_rate = 2 ^ -5, epsilon = 0, initial_loss_scaling_factor = 2 ^ 10,
      update_frequency = 100}
    assert.is_near(1 - 2 ^ -5, small_gradients(optimizers.ALSOptimizerAdam(options)), 2 ^ -11)
    options.rho = 0.75
    assert.is_near(1 - 2 ^ -4, small_gradients(optimizers.ALSOptimizerRMSProp(options)), 2 ^ -11)
  end)

  it("low-pass the statistics: h ← α·h + (1 - α)·new", function()
    local function histogram(options)
      options.update_frequency, options.initial_loss_scaling_factor = 100, 1
      local opt = optimizers.ALSOptimizer(optimizers.SGD(0), options)
      local v = ipu.Variable(half{1, 1})
      for _, g in ipairs{half{1, 2}, half{8192, 3}, half{9000, 10000}} do
        opt:apply_gradients({g}, {v})
      end
      return opt.histogram:totable()
    end
    -- all six elements
    assert.same({3, 3}, histogram{})
    -- the last two
    assert.same({0, 2}, histogram{accumulate_statistics_over_update_period = false})
    -- {1, 0}, then {0.5 + 0.5, 0.5}, then {0.5, 0.25 + 1}
    assert.same({0.5, 1.25},
      histogram{accumulate_statistics_over_update_period = false, lpf_alpha = 0.5})
  end)

  it("accumulate with float16 weights", function()
    local v = ipu.Variable(half(1))
    local opt = optimizers.ALSGradientAccumulationOptimizer(
      optimizers.ALSOptimizer(optimizers.SGD(0.25),
      {initial_loss_scaling_factor = 4}), 2, {reduction_method = "mean"})
    assert.equal(8, opt:scale_loss(half(2)):item())
    opt:apply_gradients({half(4)}, {v})
    assert.equal(1, v:item())
    opt:apply_gradients({half(8)}, {v}) -- mean 6, divided by 4, times 0.25
    assert.equal(1 - 0.375, v:item())
  end)

  it("gives a layer's state as a value that is assigned to all the same", function()
    policy.set_global_policy("mixed_float16")
    finally(function() policy.set_global_policy("float32") end)
    local State = keras.layers.Layer:extend "State"
    function State:build()
      self.n = self:add_weight{name = "n", shape = {3}, initializer = "ones", trainable = false}
    end
    function State:call(x)
      local before = self.n * 2
      assert.equal("float16", self.n.dtype)
      self.n:assign_add(ipu.full({3}, 0.5))
      self.n:assign_sub(ipu.full({3}, 0.25))
      self.n:assign(self.n:read_value() * 2) -- the float32 one
      return x * self.n + before
    end
    local layer = State()
    local run = ipu.func(function(x) return layer(x) end)
    assert.same({4.5, 4.5, 4.5}, layer(ipu.ones{3}):totable()) -- ((1 + 0.5 - 0.25) * 2) + 1 * 2
    assert.same({10.5, 10.5, 10.5}, run(ipu.ones{3}):totable()) -- ((2.5 + 0.25) * 2) + 2.5 * 2
    assert.equal("float32", layer.n.dtype)
    assert.same({5.5, 5.5, 5.5}, layer.n:totable())
    assert.has_error(function() ipu.ones{3}:assign_add(1) end)
  end)

  it("casts first states that are given as an option", function()
    for name, count in pairs{LSTM = 2, GRU = 1, SimpleRNN = 1} do
      local layer = keras.layers[name]{4, dtype = "mixed_float16"}
      local x, states = ipu.random.normal({2, 3, 5}, {seed = 1}), {}
      for i = 1, count do states[i] = ipu.random.normal({2, 4}, {seed = 2 + i}) end
      local y = layer(x, {initial_state = states})
      assert.equal("float16", y.dtype)
      assert.same(layer{x, table.unpack(states)}:totable(), y:totable())
    end
  end)

  it("casts the key of an attention, which is an option", function()
    local layer = keras.layers.MultiHeadAttention{2, 3, dtype = "mixed_float16"}
    local x = ipu.random.normal({2, 4, 5}, {seed = 1})
    local key = ipu.random.normal({2, 4, 5}, {seed = 2})
    local y = layer(x, x, {key = key})
    assert.equal("float16", y.dtype)
    assert.same(layer(x, x, {key = key:cast "float16"}):totable(), y:totable())
    assert.is_true(ipu.reduce_max(ipu.abs(y - layer(x, x))):item() > 0)
  end)
end)
