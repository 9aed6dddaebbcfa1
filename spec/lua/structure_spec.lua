-- Functions that keep values or code from one execution to the next, and functions that only
-- describe them.

local config = require "ipulua.config"
local ipu = require "ipulua"

local function fails(kind, f, ...)
  local ok, message = pcall(f)
  assert.is_false(ok)
  for _, text in ipairs{"structure_spec.lua:", ...} do
    assert.is_truthy(message:find(text, 1, true), message)
  end
  assert.equal(kind, ipu.last_error().kind)
end

local function ints(...) return ipu.tensor({...}, {dtype = "int32"}) end

describe("fifo", function()
  it("row 241: gives what it was given some executions before, zeros at first", function()
    local f = ipu.func(function(x) return ipu.fifo(x, 2), ipu.fifo(x, 1) end)
    local two, one = {}, {}
    for i = 1, 4 do
      local a, b = f(ipu.tensor{i, -i})
      two[i], one[i] = a:totable(), b:totable()
    end
    assert.same({{0, 0}, {0, 0}, {1, -1}, {2, -2}}, two)
    assert.same({{0, 0}, {1, -1}, {2, -2}, {3, -3}}, one)
  end)

  it("row 241: takes each iteration of a loop for an execution", function()
    local queue = ipu.IPUOutfeedQueue()
    ipu.func(function()
      ipu.loops.repeat_n(5, function(i)
        queue:enqueue(ipu.fifo(i, 3))
        return i + 1
      end, {10})
    end)()
    assert.same({0, 0, 0, 10, 11}, queue:dequeue():totable())
  end)

  it("refuses a depth of 0, and to be used outside of programs", function()
    fails("value", function() ipu.func(function(x) return ipu.fifo(x, 0) end)(ipu.tensor(1.0)) end,
      "must be positive, got 0")
    fails("runtime", function() ipu.fifo(ipu.tensor(1.0), 2) end, "inside a compiled function")
  end)
end)

describe("barrier, remap and outlined functions", function()
  it("rows 239, 241: change no value and no gradient", function()
    local function body(x, y) return ipu.tanh(x * 2) + y, x - y end
    local outlined = ipu.outlined_function(body)
    local function through(f)
      return ipu.func(function(x, y)
        local a, b = f(ipu.remap(x), y)
        a, b = f(ipu.barrier{a, b})
        return a, b, table.unpack(ipu.gradients(a * b, {x, y}))
      end)
    end
    local function values(f)
      local list = {through(f)(ipu.tensor{0.5, -1}, ipu.tensor{2, 3})}
      for i, t in ipairs(list) do list[i] = t:totable() end
      return list
    end
    local plain = ipu.func(function(x, y)
      local a, b = body(body(x, y))
      return a, b, table.unpack(ipu.gradients(a * b, {x, y}))
    end)
    local want = {plain(ipu.tensor{0.5, -1}, ipu.tensor{2, 3})}
    for i, t in ipairs(want) do want[i] = t:totable() end
    assert.same(want, values(outlined))
    assert.same({1, 2}, ipu.remap(ipu.tensor{1, 2}):totable())
    fails("type", function() ipu.outlined_function(3) end, "func")
  end)

  it("row 239: keep the code of what is called several times once", function()
    local outlined = ipu.outlined_function(function(x, w) return ipu.tanh(ipu.matmul(x, w)) end)
    local f = ipu.func(function(x, w)
      for _ = 1, 6 do x = outlined(x, w) end
      return x
    end)
    local function code(outlining)
      config.reset_ipu_configuration()
      local cfg = ipu.IPUConfig()
      cfg.optimizations.enable_graph_outlining = outlining
      cfg:configure_ipu_system()
      local memory = ipu.estimate(f, {inputs = {ipu.zeros{64, 64}, ipu.zeros{64, 64}}}).memory
      return memory.internalExchangeCode + memory.controlCode
    end
    local once, each = code(true), code(false)
    config.reset_ipu_configuration()
    assert.is_true(once < each)
  end)
end)

describe("a host embedding", function()
  local function embedding(spec)
    return ipu.create_host_embedding("words", {4, 2}, "float32",
      {optimizer_spec = spec, initializer = "ones"})
  end

  -- Looks rows up and adds up what the weights 1 and 3 make of them; the optimizer's own rate is 0.
  local function training(e)
    local w, opt = ipu.Variable{1, 3}, ipu.train.GradientDescentOptimizer(0.0)
    return ipu.func(function(ids)
      local rows = e:lookup(ids)
      opt:minimize(ipu.reduce_sum(rows * w))
      return rows
    end)
  end

  it(
    "row 242: is updated by gradient descent where it was looked up, duplicates adding up",
    function()
    local e = embedding(ipu.HostEmbeddingOptimizerSpec(0.5))
    local step = training(e)
    assert.same({{1, 1}, {1, 1}, {1, 1}}, step(ints(1, 1, 3)):totable())
    assert.same({{1, 1}, {1 - 2 * 0.5, 1 - 2 * 1.5}, {1, 1}, {1 - 0.5, 1 - 1.5}}, e.value:totable())
    assert.same({{0, -2}, {0.5, -0.5}}, step(ints(1, 3)):totable())
    assert.same({{-0.5, -3.5}, {0, -2}}, e:lookup(ints(1, 3)):totable())
  end)

  it("row 242: may wait with its updates", function()
    local e = embedding(ipu.HostEmbeddingSGDGAOptimizerSpec(0.5, 2))
    local step = training(e)
    step(ints(0))
    assert.same({1, 1}, e.value[1]:totable())
    step(ints(0))
    assert.same({0, -2}, e.value[1]:totable())
  end)

  it(
    "row 242: learns in loops, by a rate known at run time, with Keras optimizers and on replicas",
    function()
    local _ <close> = setmetatable({}, {__close = config.reset_ipu_configuration})
    local cfg = ipu.IPUConfig()
    cfg.auto_select_ipus = 2
    cfg:configure_ipu_system()
    local rate = ipu.Variable(0.25, {trainable = false})
    local e, w = embedding(ipu.HostEmbeddingOptimizerSpec(rate)), ipu.Variable{1, 1}
    local opt = ipu.keras.optimizers.SGD(0.0)
    local infeed = ipu.IPUInfeedQueue(ipu.data.from_tensor_slices(ints(0, 1, 0, 2)):batch(1,
      {drop_remainder = true}))
    ipu.func(function()
      ipu.loops.repeat_n(2, function(ids)
        local loss = ipu.reduce_sum(e:lookup(ids) * w)
        opt:apply_gradients(ipu.gradients(loss, {w}), {w})
      end, {}, infeed)
    end)()
    -- one table for both
    assert.same({{0.5, 0.5}, {0.75, 0.75}, {0.75, 0.75}, {1, 1}}, e.value:totable())
  end)

  it("row 34: is not asked where data is synthetic", function()
    local _ <close> = setmetatable({}, {__close = function()
      config.reset_ipu_configuration()
      ipu.set_flags("")
    end})
    config.reset_ipu_configuration()
    ipu.set_flags("--synthetic_data_categories=hostembedding --synthetic_data_initializer=3")
    local e = embedding(ipu.HostEmbeddingOptimizerSpec(0.5))
    assert.same({{3, 3}}, training(e)(ints(1)):totable())
    assert.same({1, 1}, e.value[2]:totable())
  end)

  it("is not trained without an optimizer_spec, and clips indices or refuses them", function()
    local e = ipu.create_host_embedding("fixed", {3, 2}, "float16",
      {initializer = {{1, 2}, {3, 4}, {5, 6}}, partition_strategy = "ENCODING"})
    local sess <close> = ipu.Session()
    local _ <close> = e:register(sess)
    assert.same({{5, 6}, {1, 2}},
      ipu.func(function(ids) return e:lookup(ids) end)(ints(9, -1)):totable())
    fails("out_of_range", function() e:lookup(ints(9), {clip_indices = false}) end, "9")
    fails("type", function() e:lookup(ipu.tensor{0.5}) end, "int32")
    fails("value", function() ipu.create_host_embedding("x", {3}) end, "{rows, width}")
    fails("value", function()
      ipu.create_host_embedding("x", {3, 2}, "float32", {partition_strategy = "ROWS"})
    end, "TOKEN", "ENCODING")
    fails("type", function()
      ipu.create_host_embedding("x", {3, 2}, "float32", {optimizer_spec = {}})
    end, "HostEmbeddingOptimizerSpec")
    fails("value", function() ipu.HostEmbeddingSGDGAOptimizerSpec(0.1, 0) end,
      "accumulation_factor")
  end)
end)
