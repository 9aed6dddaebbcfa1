-- Results of float16 and bfloat16 that are computed in wider types, since 16 bits would not do.

local ipu = require "ipulua"
local keras = ipu.keras
local log = require "ipulua.base.log"
local parts = require "spec.support.keras_parts"

local function full(shape, value, dtype) return ipu.full(shape, value, {dtype = dtype}) end
local function length(x)
  return ipu.sqrt(ipu.reduce_sum(ipu.square(ipu.cast(x, "float32")))):item()
end

describe("lengths of 16 bits", function()
  for dtype, error in pairs{float16 = 2e-3, bfloat16 = 1e-2, float32 = 5e-5} do
    local function near(expected, got) assert.is_near(expected, got, math.abs(expected) * error) end

    -- 1000 elements of 20 are 632 long, squares of 1e-4 vanish in float16
    it("clip gradients of " .. dtype, function()
      for _, case in ipairs{{20, 1}, {1e-4, 1e-3}, {3, 50}} do
        local value, norm = table.unpack(case)
        for _, option in ipairs{"clipnorm", "global_clipnorm"} do
          local v = ipu.Variable{ipu.zeros({1000}, {dtype = dtype})}
          keras.optimizers.SGD{1.0, [option] = norm}:apply_gradients{
            {full({1000}, value, dtype), v}}
          near(norm, length(v))
        end
      end
      local v = ipu.Variable{ipu.zeros({4}, {dtype = dtype})}
      keras.optimizers.SGD{1.0, clipnorm = 100}:apply_gradients{{full({4}, 2, dtype), v}}
      near(4, length(v))
    end)

    it("keep weights of " .. dtype .. " in their constraints", function()
      local large, small = full({1000, 1}, 20, dtype), full({1000, 1}, 1e-4, dtype)
      near(2, length(keras.constraints.MaxNorm(2)(large)))
      for _, w in ipairs{large, small} do near(1, length(keras.constraints.UnitNorm()(w))) end
      near(3, length(keras.constraints.MinMaxNorm{2, 3}(large)))
      near(2, length(keras.constraints.MinMaxNorm{2, 3}(small)))
    end)

    it("divide vectors and weigh penalties of " .. dtype, function()
      local x = full({1, 1000}, 20, dtype)
      near(1, length(keras.utils.normalize(x)))
      assert.equal(dtype, keras.utils.normalize(x).dtype)
      near(1000 * 20 * 1e-4 + 400000 * 1e-4, keras.regularizers.L1L2{1e-4, 1e-4}(x):item())
      near(-1, ipu.reduce_mean(keras.losses.cosine_similarity(x, x)):item())
      assert.equal(0, ipu.reduce_mean(keras.losses.cosine_similarity(x * 0, x)):item())
    end)

    -- the first step of LAMB goes |w| / |direction| times the direction, of length |w| times the
    -- rate
    it("make steps of LAMB of " .. dtype, function()
      local v = ipu.Variable{full({1000}, 20, dtype)}
      keras.optimizers.LAMB{0.5, epsilon = 1e-3}:apply_gradients{{full({1000}, 0.5, dtype), v}}
      near(316.2278, length(v))
    end)

    it("leave room for sampled losses of " .. dtype, function()
      local labels = ipu.tensor({{3}, {7}}, {dtype = "int32"})
      for _, name in ipairs{"sampled_softmax_loss", "nce_loss"} do
        local function loss(d)
          local w = ipu.cast(ipu.random.normal({50, 8}, {seed = 1}), d)
          return ipu.nn[name](w, ipu.zeros({50}, {dtype = d}), labels, w:slice({0, 0}, {2, 8}), 20,
            50, {seed = 3})
        end
        local got, want = loss(dtype), loss "float64"
        assert.equal(dtype, got.dtype)
        for i = 1, 2 do
          assert.is_near(want[i]:item(), got[i]:item(),
            math.abs(want[i]:item()) * 3 * error + 0.02 * error)
        end
      end
    end)
  end
end)

-- The two nearest rows and columns alone are read: TensorFlow's image.resize.
describe("resized pictures", function()
  local L = keras.layers
  local function spoiled(value)
    local list = ipu.reshape(ipu.cast(ipu.arange(16), "float32"), {1, 4, 4, 1}):totable()
    list[1][1][1][1] = value
    return ipu.tensor(list)
  end
  local function broken(y)
    return ipu.reduce_sum(ipu.cast(ipu.logical_not(ipu.is_finite(y)), "int32")):item()
  end

  it("keep what is no number where it is", function()
    for _, value in ipairs{0 / 0, math.huge} do
      assert.equal(4, broken(L.Resizing{8, 8, interpolation = "nearest"}(spoiled(value))))
      assert.equal(9, broken(L.Resizing{8, 8}(spoiled(value))))
      assert.equal(9, broken(L.UpSampling2D{2, interpolation = "bilinear"}(spoiled(value))))
      assert.equal(4, broken(L.UpSampling2D{2}(spoiled(value))))
      assert.equal(1, broken(L.Resizing{2, 2}(spoiled(value))))
      -- 3 rows of 5 lie at 1/3, 2 and 3 2/3: the middle one is row 2 itself, whatever row 3 holds
      local five = ipu.where(ipu.equal(ipu.reshape(ipu.arange(25), {1, 5, 5, 1}), 3 * 5 + 2), value,
        ipu.ones{1, 5, 5, 1})
      assert.equal(1, broken(L.Resizing{3, 3}(five)))
    end
  end)

  -- rows of 4 at 0.25 · (0.5, 1.5 …) - 0.5, clipped to the picture
  it("are means of two rows and two columns", function()
    local y = L.Resizing{8, 8}(spoiled(0)):totable()[1]
    local at = {0, 0.25, 0.75, 1.25, 1.75, 2.25, 2.75, 3}
    for r = 1, 8 do
      for c = 1, 8 do assert.is_near(at[r] * 4 + at[c], y[r][c][1], 1e-5) end
    end
    local x = ipu.Variable{spoiled(0)}
    local dx = ipu.func(function()
      return ipu.gradients(L.Resizing{8, 8}(x:read_value()), {x})[1]
    end)()
    assert.is_near(64, ipu.reduce_sum(dx):item(), 1e-4)
    local third = L.Resizing{3, 5, interpolation = "nearest"}(spoiled(0)):totable()[1]
    for r, row in ipairs{0, 2, 3} do
      for c, column in ipairs{0, 1, 2, 2, 3} do assert.equal(row * 4 + column, third[r][c][1]) end
    end
  end)
end)

describe("the mean of the steps that a mask keeps", function()
  it("may have a sum that 16 bits can't hold", function()
    for _, dtype in ipairs{"float16", "bfloat16"} do
      local layer = keras.layers.GlobalAveragePooling1D{dtype = dtype}
      local y = layer(full({2, 3001, 3}, 100, dtype),
        {mask = ipu.less(ipu.reshape(ipu.arange(6002), {2, 3001}), 5999)})
      assert.equal(dtype, y.dtype)
      for _, row in ipairs(y:totable()) do assert.same({100, 100, 100}, row) end
    end
  end)
end)

describe("Average", function()
  it("may have a sum that 16 bits can't hold", function()
    for dtype, wanted in pairs{float16 = 55008, bfloat16 = 54784} do
      local y = keras.layers.Average{dtype = dtype}{full({2, 3}, 60000, dtype),
        full({2, 3}, 50000, dtype)}
      assert.equal(dtype, y.dtype)
      assert.is_near(wanted, y[1][1]:item(), 256)
    end
    local whole = keras.layers.Average(){ipu.tensor{{1.0}}, ipu.tensor{{4.0}}}
    assert.equal(2.5, whole[1][1]:item())
  end)
end)

describe("Discretization", function()
  it("of whole numbers takes any boundaries", function()
    local layer = keras.layers.Discretization{{-1e30, -0.5, 17.5, 64.5, 3e9, 1e30}}
    for _, dtype in ipairs{"int32", "int64"} do
      assert.same({1, 2, 2, 3, 3, 4},
        layer(ipu.tensor({-1, 0, 17, 18, 64, 65}, {dtype = dtype})):totable())
    end
    assert.same({5}, layer(ipu.tensor({3000000000}, {dtype = "int64"})):totable())
    assert.same({1, 1, 4}, layer(ipu.tensor({-100, -1, 127}, {dtype = "int8"})):totable())
    assert.same({2, 3, 4}, layer(ipu.tensor({0, 18, 255}, {dtype = "uint8"})):totable())
  end)
end)

-- Eight numbers, -1024 and 2048 in turn: mean 512, variance 1536², which float16 can't hold.
describe("statistics of normalisation", function()
  local L = keras.layers
  local narrow <const> = {"float16", "bfloat16"}
  local function column(low, high, shape)
    return ipu.reshape(ipu.tensor{low, high, low, high, low, high, low, high}, shape)
  end

  it("are float32 for operands of 16 bits", function()
    for _, dtype in ipairs(narrow) do
      for _, given in ipairs{dtype, "float32"} do
        local x = ipu.cast(column(-1024, 2048, {8, 1}), dtype)
        local gamma, beta = full({1}, 2, given), full({1}, 3, given)
        local y, mean, variance = ipu.nn.batch_norm(x, gamma, beta)
        assert.same({dtype, "float32", "float32"}, {y.dtype, mean.dtype, variance.dtype})
        assert.equal(512, mean[1]:item())
        assert.equal(1536 ^ 2, variance[1]:item())
        for i, sign in ipairs{-1, 1} do assert.is_near(3 + sign * 2, y[i][1]:item(), 1e-2) end
      end
      assert.has_error(function()
        ipu.nn.batch_norm(ipu.zeros({8, 1}, {dtype = dtype}), full({1}, 2, "float64"),
          full({1}, 3, dtype))
      end)
    end
  end)

  it("move in float32 in mixed precision", function()
    for _, dtype in ipairs(narrow) do
      for _, shape in ipairs{{8, 1}, {2, 2, 2, 1}} do
        local layer = L.BatchNormalization{dtype = "mixed_" .. dtype, momentum = 0.5}
        local y = layer(column(-1024, 2048, shape), {training = true})
        local unbiased = #shape == 4 and 8 / 7 or 1
        assert.equal(dtype, y.dtype)
        assert.equal(256, layer.moving_mean[1]:item())
        assert.is_near(0.5 + 0.5 * 1536 ^ 2 * unbiased, layer.moving_variance[1]:item(), 0.5)
        -- and are used as they are
        layer:set_weights{ipu.ones{1}, ipu.zeros{1}, ipu.zeros{1}, ipu.tensor{1e6}}
        assert.is_near(2.048, ipu.reduce_max(layer(column(-1024, 2048, shape))):item(), 2e-2)
      end
    end
  end)

  -- The loss is the sum of 30000 h y with h = ±1. Its derivative by gamma is the sum of 30000 over
  -- eight elements.
  it("have gradients of wide parameters that float16 can't hold", function()
    local along = ipu.reshape(ipu.concat({column(-1024, 2048, {8}), column(-1024, 2048, {8})},
      {axis = 0}), {2, 8})
    local rows = ipu.transpose(along)
    local cases = {
      {L.BatchNormalization, rows}, {L.LayerNormalization, ipu.reshape(along, {8, 2})},
      {L.GroupNormalization, ipu.reshape(rows, {1, 8, 2}), groups = 1},
      {L.InstanceNormalization, ipu.reshape(rows, {1, 8, 2})},
    }
    for _, case in ipairs(cases) do
      local make, x = table.unpack(case)
      local layer = make{dtype = "mixed_float16", groups = case.groups}
      local c = ipu.cast(ipu.sign(x) * 30000, "float16")
      local tape = ipu.GradientTape()
      local loss = tape(function()
        local y = layer(x, {training = true})
        return ipu.reduce_sum(ipu.cast(y * c, "float32"))
      end)
      local dgamma = tape:gradient(loss, {layer.gamma})[1]
      assert.equal("float32", dgamma.dtype)
      assert.same({2}, dgamma.shape)
      for i = 1, 2 do assert.is_near(240000, dgamma[i]:item(), 300) end
    end
  end)

  -- first and second derivatives, with parameters of both widths
  it("have the derivatives that float32 has", function()
    local nn = ipu.nn
    local cases = {
      layer = {{6, 5, 4}, 5, function(x, g, b) return nn.layer_norm(x, g, b, {axis = 1}) end},
      group = {{6, 4, 5}, 4, function(x, g, b)
        return nn.group_norm(x, g, b, {groups = 2, channels_axis = 1})
      end},
      instance = {{6, 5, 4}, 4, nn.instance_norm},
      batch = {{6, 5, 4}, 4, function(x, g, b) return (nn.batch_norm(x, g, b)) end},
      statistics = {{6, 5, 4}, 4, function(x, g, b)
        local y, mean, variance = nn.batch_norm(x, g, b)
        return ipu.cast(y, "float32") * mean + variance
      end},
      given = {{6, 5, 4}, 4, function(x, g, b)
        return (nn.batch_norm(x, g, b, b * 0 + 1, b * 0 + 2))
      end},
    }
    for name, case in pairs(cases) do
      local shape, channels, f = table.unpack(case)
      local function draw(s) return ipu.cast(ipu.random.normal(s) * 3 + 2, "bfloat16") end
      local given = {draw(shape), draw{channels}, draw{channels}}
      local weights = ipu.random.normal(shape)
      local function derivatives(dtype, of_parameters)
        local v = {}
        for i, t in ipairs(given) do
          v[i] = ipu.Variable{ipu.cast(t, i == 1 and dtype or of_parameters)}
        end
        local outer, first = ipu.GradientTape{persistent = true}, nil
        local squares = outer(function()
          local inner = ipu.GradientTape()
          local loss = inner(function()
            return ipu.reduce_sum(ipu.cast(f(v[1], v[2], v[3]), "float32") * weights)
          end)
          first = inner:gradient(loss, v)
          local sum = ipu.tensor(0.0)
          for _, d in ipairs(first) do sum = sum + ipu.reduce_sum(ipu.square(d:cast "float32")) end
          return sum
        end)
        return first, outer:gradient(squares, v)
      end
      local first, second = derivatives("float32", "float32")
      for _, dtype in ipairs(narrow) do
        for _, of_parameters in ipairs{dtype, "float32"} do
          local got_first, got_second = derivatives(dtype, of_parameters)
          for i = 1, 3 do
            local what = string.format("%s, %s, operand %d", name, dtype, i)
            local function near(want, got, error)
              if want == nil then return end
              assert.equal(i == 1 and dtype or of_parameters, got.dtype, what)
              local most = ipu.reduce_max(ipu.abs(want)):item()
              assert.is_near(0, ipu.reduce_max(ipu.abs(ipu.cast(got, "float32") - want)):item(),
                error * most + 1e-6, what)
            end
            near(first[i], got_first[i], dtype == "float16" and 4e-3 or 3e-2)
            near(second[i], got_second[i], dtype == "float16" and 3e-2 or 0.2)
          end
        end
      end
    end
  end)
end)

-- Squares of gradients below 0.0055, times 0.001, are below half of float16's least number. The
-- first three steps are then divided by epsilon alone.
describe("Adam of float16 weights", function()
  local function after_three_steps(gradient, options)
    local v = ipu.Variable(full({1}, 1, "float16"), {name = "narrow"})
    options.learning_rate = 0.01
    local adam = keras.optimizers.Adam(options)
    local lines = log.capture("warn", function()
      for _ = 1, 3 do adam:apply_gradients{{full({1}, gradient, "float16"), v}} end
    end)
    return v[1]:item(), lines
  end

  it("wants the epsilon of docs/howto/models.md for small gradients, and warns without", function()
    local value, lines = after_three_steps(0.1, {})
    assert.is_near(1 - 0.03, value, 2e-3)
    assert.equal(1, #lines) -- once for an optimizer
    assert.matches("Adam keeps the mean of squared gradients of 'narrow.*' in float16, where small "
      .. "ones are 0; epsilon = 1e%-07 is too small for that", lines[1])
    for _, gradient in ipairs{0.01, 0.005, 0.001} do
      value, lines = after_three_steps(gradient, {epsilon = 1e-3})
      assert(value > 1 - 0.03 and value < 1, value)
      assert.same({}, lines)
    end
  end)

  it("takes Adam's steps with state_dtype, whatever the size of gradients", function()
    for _, gradient in ipairs{1, 0.01, 1e-3, 1e-4, 2 ^ -24} do
      local value, lines = after_three_steps(gradient, {state_dtype = "float32", epsilon = 1e-13})
      assert.is_near(1 - 0.03, value, 3 * 2 ^ -12) -- each step is rounded to float16
      assert.same({}, lines)
    end
  end)

  it("warns in optimizers of sessions, too", function()
    local function lines_of(name, options)
      local v = ipu.Variable(full({1}, 1, "float16"))
      local opt = ipu.train[name](options)
      return log.capture("warn", function()
        for _ = 1, 2 do opt:apply_gradients{{full({1}, 0.5, "float16"), v}} end
      end)
    end
    assert.matches("AdamOptimizer keeps .* give epsilon = 1e%-3", lines_of("AdamOptimizer", {})[1])
    local lines = lines_of("RMSPropOptimizer", {0.1})
    assert.equal(1, #lines)
    assert.matches("RMSPropOptimizer keeps .* give epsilon = 1e%-6", lines[1])
    assert.same({}, lines_of("RMSPropOptimizer", {0.1, epsilon = 1e-6}))
    assert.same({}, lines_of("MomentumOptimizer", {0.1, momentum = 0.9}))
  end)
end)

describe("state_dtype", function()
  local function trained(name, dtype, options)
    local opt = keras.optimizers[name](options)
    local v = ipu.Variable(full({3}, 0, dtype))
    local scale = opt.loss_scaling_factor and opt.loss_scaling_factor:item() or 1
    for i = 1, 12 do
      local g = ipu.tensor{1e-3 * scale, -5e-4 * scale, 2e-3 * scale * math.cos(i)}
      opt:apply_gradients{{ipu.cast(g, dtype), v}}
    end
    return v:read_value():totable(), opt
  end

  parts.each(function(module, name, c)
    local has = false
    for _, row in ipairs(module == "optimizers" and c.argument_rows or {}) do
      has = has or row[1] == "state_dtype"
    end
    if not has then return end
    for _, more in ipairs{{}, {weight_decay = 0.3}, {clipnorm = 1e-4}} do
      local words = next(more) and " with " .. next(more) or ""
      it("lets " .. name .. words .. " train float16 weights as float32 ones", function()
        local options = {learning_rate = 0.01, update_frequency = name:find("ALS") and 100 or nil}
        for key, value in pairs(more) do options[key] = value end
        local wanted = trained(name, "float32", options)
        options.state_dtype = "float32"
        local got, opt = trained(name, "float16", options)
        for i, value in ipairs(wanted) do
          assert(math.abs(got[i] - value) <= 0.01 * math.abs(value) + 2e-5,
            got[i] .. " is not near " .. value)
        end
        for _, w in ipairs(opt.weights) do
          assert.is_true(w.shape[1] ~= 3 or w.dtype == "float32")
        end
      end)
    end
  end)

  it("decays weights before the update, which may not keep what they were", function()
    for _, dtype in ipairs{"float32", "float64"} do
      local opt = keras.optimizers.Ftrl{0.5, weight_decay = 0.25, state_dtype = dtype}
      local v = ipu.Variable(full({1}, 1, "float32"))
      opt:apply_gradients{{full({1}, 0.3, "float32"), v}}
      -- n = 0.1 + 0.3² and z = 0.3 - (√n - √0.1) / 0.5 · 0.875. The weight is -z · 0.5 / √n.
      local root = math.sqrt(0.19)
      local z = 0.3 - (root - math.sqrt(0.1)) / 0.5 * 0.875
      assert.is_near(-z * 0.5 / root, v:read_value()[1]:item(), 1e-6)
    end
  end)

  it("keeps float64 where that is the weights' dtype", function()
    local _, opt = trained("Adam", "float64", {state_dtype = "float32"})
    assert.equal("float64", opt.weights[2].dtype)
    _, opt = trained("ALSOptimizerAdam", "float64", {})
    assert.equal("float64", opt.weights[2].dtype)
  end)

  it("is told with what there is, and fixed once there is state", function()
    assert.error_matches(function() keras.optimizers.Adam{state_dtype = "float16"} end,
      "'state_dtype' must be one of 'float32', 'float64'")
    local opt = keras.optimizers.Adam()
    opt.state_dtype = "float32"
    opt:apply_gradients{{full({2}, 1, "float16"), ipu.Variable(full({2}, 1, "float16"))}}
    assert.error_matches(function() opt.state_dtype = nil end, "can't be changed once there is")
    opt.state_dtype = "float32"
    assert.equal("float32", opt:get_config().state_dtype)
  end)

  it("is in a saved model's state", function()
    keras.mixed_precision.set_global_policy("float16")
    local model = keras.Sequential{keras.layers.Dense{2, input_shape = {3}}}
    keras.mixed_precision.set_global_policy("float32")
    model:compile{optimizer = keras.optimizers.Adam{0.01, state_dtype = "float32"}, loss = "mse"}
    local x, y = ipu.random.normal({16, 3}, {seed = 1}), ipu.random.normal({16, 2}, {seed = 2})
    model:fit{x = x, y = y, batch_size = 4, epochs = 2, verbose = 0}
    local path = os.tmpname() .. ".safetensors"
    model:save(path)
    local again = keras.models.load_model(path)
    os.remove(path)
    os.remove((path:gsub("%.safetensors$", "")))
    local function state(m)
      local list = {}
      for i, w in ipairs(m.optimizer.weights) do list[i] = {w.dtype, w:read_value():totable()} end
      return list
    end
    assert.equal("float32", state(model)[2][1])
    assert.same(state(model), state(again))
    for _, each in ipairs{model, again} do
      each:fit{x = x, y = y, batch_size = 4, epochs = 1, verbose = 0, shuffle = false}
    end
    assert.same(state(model), state(again))
  end)
end)
