-- Programs that are found again: everything that a trace depends on is in their key.

local ipu = require "ipulua"
local structure = require "ipulua.base.structure"

local x = ipu.tensor{1, 2}

-- How many programs f has after calls with the arguments of each list.
local function programs_of(f, calls)
  for _, arguments in ipairs(calls) do f(table.unpack(arguments, 1, arguments.n or #arguments)) end
  return #f:signatures()
end

local function named(name)
  return setmetatable({name = name},
    {__tostring = function(self) return self.name end, __call = function() return x end})
end

describe("a function has a program for each", function()
  local a, b = ipu.Variable(ipu.ones{2}), ipu.Variable(ipu.ones{2})
  local one, other = named "m", named "m"
  local cases <const> = {
    ["dtype"] = {{x}, {ipu.cast(x, "float64")}, {ipu.cast(x, "float16")}},
    ["shape"] = {{x}, {ipu.ones{2, 1}}, {ipu.ones{}}},
    ["variable"] = {{a}, {b}},
    ["tensor or variable"] = {{a}, {x}},
    ["count of arguments"] = {{x}, {x, nil, n = 2}, {x, nil, nil, n = 3}},
    ["number"] = {{x, 1}, {x, 2}},
    ["kind of number"] = {{x, 1}, {x, 1.0}, {x, "1"}},
    ["sign of zero"] = {{x, 0.0}, {x, -0.0}},
    ["boolean"] = {{x, true}, {x, false}, {x, "true"}},
    ["key"] = {{{[1] = x}}, {{["1"] = x}}, {{[1.5] = x}}, {{[true] = x}}},
    ["text with marks"] = {{{a = x, b = x}}, {{["a=*,b"] = x}}},
    ["object of one name"] = {{x, one}, {x, other}},
    ["function"] = {{x, function() return 1 end}, {x, function() return 2 end}},
    ["nesting"] = {{{x, {x}}}, {{{x}, x}}, {{x, x}}},
  }
  for name, calls in pairs(cases) do
    it(name, function()
      local f = ipu.func(function(...) return select("#", ...) end)
      assert.equal(#calls, programs_of(f, calls))
      assert.equal(#calls, programs_of(f, calls)) -- and finds them again
    end)
  end

  it("scope of nodes", function()
    local f = ipu.func(function(t) return t * 2 end)
    f(x)
    for _, scope in ipairs{
      function() return ipu.ipu_shard(0) end, function() return ipu.stochastic_rounding(true) end,
      function() return ipu.frontend_attribute("a", "b") end,
    } do
      local before = #f:signatures()
      for _ = 1, 2 do
        local _ <close> = scope()
        f(x)
      end
      assert.equal(before + 1, #f:signatures())
    end
  end)

  it("model, not for what it is called", function()
    local layers = ipu.keras.layers
    local function model(value)
      return ipu.keras.Sequential(
        {layers.Dense(1,
          {input_shape = {2}, kernel_initializer = ipu.keras.initializers.Constant(value)})},
        {name = "same"})
    end
    local f = ipu.func(function(t, m) return m(t) end)
    assert.equal(3, f(ipu.ones{1, 2}, model(1.5)):item())
    assert.equal(5, f(ipu.ones{1, 2}, model(2.5)):item())
  end)
end)

describe("an identity", function()
  it("is an object's own, also where another gets its address", function()
    local seen = {}
    for _ = 1, 200 do
      local key = structure.value_key(named "m")
      assert.is_nil(seen[key])
      seen[key] = true
      collectgarbage("step", 100)
    end
  end)

  it("is a variable's own: an optimizer has no momentum for it of one that is gone", function()
    local opt = ipu.keras.optimizers.SGD(1.0, {momentum = 0.5})
    for _ = 1, 50 do
      local v = ipu.Variable(ipu.zeros{3})
      opt:apply_gradients({ipu.ones{3}}, {v})
      assert.same({-1, -1, -1}, v:read_value():totable())
      v = nil -- luacheck: ignore 311
      collectgarbage()
    end
  end)
end)

it("branches that give other keys are refused", function()
  local f = ipu.func(function(t)
    return ipu.cond(ipu.less(ipu.reduce_sum(t), 0), function() return {[1] = t} end, function()
      return {["1"] = t}
    end)
  end)
  assert.is_false((pcall(f, x)))
end)

local function count(t)
  local n = 0
  for _ in pairs(t) do n = n + 1 end
  return n
end

-- Each call makes one entry more in a cache the first time, and none the second.
local function wants_entries(cache, calls)
  for i, call in ipairs(calls) do
    local before = count(cache())
    call()
    assert.equal(before + 1, count(cache()), "call " .. i)
  end
  local all = count(cache())
  for i, call in ipairs(calls) do
    call()
    assert.equal(all, count(cache()), "call " .. i .. " again")
  end
end

describe("a session has a program for each", function()
  local sess = ipu.Session()
  local p, q = ipu.placeholder("float32", {-1}, {name = "p"}),
    ipu.placeholder("float32", {-1}, {name = "q"})
  local a, b = p * 2 + q, p * 3
  local two, three = ipu.ones{2}, ipu.ones{3}
  local function run(fetches, feeds)
    return function() sess:run(fetches, {feed_dict = feeds}) end
  end

  it("fetch, order of fetches, fed value and its type", function()
    wants_entries(function() return sess.programs end, {
      run(a, {[p] = two, [q] = two}), run(b, {[p] = two}), run({a, b}, {[p] = two, [q] = two}),
      run({b, a}, {[p] = two, [q] = two}),
      run({a, a}, {[p] = two, [q] = two}), run(b, {[p] = three}), run(b, {[b] = two}),
      run(a, {[p] = two, [q] = two, [b] = two}),
      run(b, {[p] = two, [q] = two}), run(a, {[p] = two, [q] = ipu.ones{1}}),
      run(a, {[p] = ipu.ones{1}, [q] = two}),
    })
  end)

  it("graph", function()
    sess:run(b, {feed_dict = {[p] = two}})
    ipu.reset_default_graph()
    local other = ipu.placeholder("float32", {-1}, {name = "p"}) * 5
    assert.same({5, 5}, sess:run(other, {feed_dict = {[other] = ipu.tensor{5, 5}}}):totable())
    assert.equal(1, count(sess.programs))
  end)
end)

it("a strategy runs a program for each device", function()
  local f = ipu.func(function(t) return t * 2 end)
  local function on(device) return function() ipu.IPUStrategy(device):run(f, {x}) end end
  wants_entries(function() return f:signatures() end, {function() f(x) end, on "/device:IPU:0"})
end)

describe("a Keras model has a program for each", function()
  local layers, optimizers = ipu.keras.layers, ipu.keras.optimizers
  local function model(...)
    local m = ipu.keras.Sequential{
      layers.Dense(1, {input_shape = {2}, kernel_initializer = "ones", use_bias = false}), ...}
    m:compile{optimizer = optimizers.SGD(0.0), loss = "mse", steps_per_execution = 1}
    return m
  end
  local given, labels = ipu.ones{8, 2}, ipu.zeros{8, 1}

  it("mode, batch, steps, kind of data and scope", function()
    local m = model(layers.Dense(1))
    local function fit(o)
      return function()
        m:fit(o.x or given, labels, {verbose = 0, batch_size = o.batch_size or 4,
          sample_weight = o.sample_weight,
          steps_per_epoch = o.steps})
      end
    end
    wants_entries(function() return m._programs end, {
      fit{}, fit{batch_size = 2}, fit{batch_size = 8}, fit{sample_weight = ipu.ones{8}},
      fit{x = ipu.cast(given, "float16")},
      function() m:evaluate(given, labels, {batch_size = 4, verbose = 0}) end,
      function() m:predict(given, {batch_size = 4}) end,
      function() m:train_on_batch(given, labels) end, function() m:test_on_batch(given, labels) end,
      function() m:predict_on_batch(given) end,
      function() ipu.stochastic_rounding(true)(fit{}) end,
      function()
        m.steps_per_execution = 2
        fit{}()
        m.steps_per_execution = 1
      end,
      function() -- weights of another shape
        local ds = ipu.data.from_tensor_slices{given, labels}:batch(4, {drop_remainder = true})
        m:fit(ds:map(function(given_x, y) return given_x, y, ipu.ones{4, 1} end), {verbose = 0})
      end,
      function() ipu.partials_type("float16")(fit{}) end,
    })
  end)

  it("number of replicas, which may be configured anew between two calls", function()
    finally(ipu.reset_ipu_configuration)
    local m = model()
    local function on(replicas)
      return function()
        ipu.reset_ipu_configuration()
        local cfg = ipu.IPUConfig()
        cfg.auto_select_ipus = replicas
        cfg:configure_ipu_system()
        m:fit(given, labels, {verbose = 0, batch_size = 2})
      end
    end
    wants_entries(function() return m._programs end, {on(1), on(2), on(4)})
  end)

  it("layer that was frozen when it was compiled, though it has no weights to train", function()
    local norm = layers.BatchNormalization{center = false, scale = false}
    local m = model(norm)
    local ways <const> = {
      function() m:fit(given, labels, {verbose = 0, batch_size = 8}) end,
      function() m:train_on_batch(given, labels) end,
      function() m:train_step(given, labels) end,
    }
    for _, trainable in ipairs{true, false, true} do
      norm.trainable = trainable
      m:compile{optimizer = optimizers.SGD(0.0), loss = "mse"}
      for i, way in ipairs(ways) do
        local before = norm.moving_mean:read_value():totable()[1]
        way()
        assert.equal(trainable, norm.moving_mean:read_value():totable()[1] ~= before, "way " .. i)
      end
    end
  end)

  -- A prediction is w1 + w2 = 2w: the gradient of its square for each is 4w, so that a step of 1/8
  -- halves the weight.
  it(
    "optimizer that it is given, though each was set as often as the others; and keeps the newest",
    function()
    local ways <const> = {
      function(m) m:fit(given, labels, {verbose = 0, batch_size = 8}) end,
      function(m) m:train_on_batch(given, labels) end,
      function(m) m:train_step(given, labels) end,
    }
    for i, way in ipairs(ways) do
      local m = model()
      way(m)
      local before = count(m._programs)
      for _, step in ipairs{{0.125, 0.5}, {0.0, 0.5}, {0.125, 0.25}, {0.25, 0.0}} do
        m.optimizer = optimizers.SGD(step[1])
        way(m)
        assert.equal(step[2], m:get_weights()[1]:totable()[1][1], "way " .. i)
      end
      m.optimizer = optimizers.SGD(0.0)
      m.optimizer.momentum = 0.5
      way(m)
      assert.equal(before, count(m._programs))
    end
  end)
end)

describe("an optimizer", function()
  it("forgets slots with their variables, and has the slots of all live ones", function()
    local opt = ipu.keras.optimizers.SGD(1.0, {momentum = 0.5})
    local kept = {}
    for i = 1, 500 do
      local v = ipu.Variable(ipu.zeros{3})
      opt:apply_gradients({ipu.ones{3}}, {v})
      if i % 100 == 0 then kept[#kept + 1] = v end
    end
    collectgarbage()
    collectgarbage()
    assert.equal(1 + #kept, #opt.weights) -- iterations
    assert.equal(#kept, count(opt._slots))
    assert.is_true(opt._made <= 500)
    for _, v in ipairs(kept) do
      opt:apply_gradients({ipu.ones{3}}, {v})
      assert.same({-2.5, -2.5, -2.5}, v:read_value():totable()) -- -1, then -(0.5 + 1)
    end
  end)

  it("notes no more than twice as many weights as live", function()
    local opt = ipu.keras.optimizers.SGD(1.0, {momentum = 0.5})
    for _ = 1, 2000 do
      local v = ipu.Variable(ipu.zeros{3})
      opt:apply_gradients({ipu.ones{3}}, {v})
      v = nil -- luacheck: ignore 311
      if opt._made % 64 == 0 then collectgarbage() end
    end
    assert.is_true(opt._made < 300)
  end)

  it("keeps a slot that a compiled function uses", function()
    local opt = ipu.keras.optimizers.SGD(1.0, {momentum = 0.5})
    local step
    do
      local v = ipu.Variable(ipu.zeros{1})
      step = ipu.func(function()
        opt:apply_gradients({ipu.ones{1}}, {v})
        return v:read_value()
      end)
    end
    for _, want in ipairs{-1, -2.5, -4.25} do -- velocities 1, 1.5, 1.75
      assert.equal(want, step():totable()[1])
      collectgarbage()
    end
    assert.equal(2, #opt.weights)
  end)
end)
