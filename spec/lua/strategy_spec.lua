-- IPUStrategy, variables' places, the step counter.

local ipu = require "ipulua"

local function raises(kind, pattern, f, ...)
  local ok, message = pcall(f, ...)
  assert.is_false(ok)
  assert.matches("strategy_spec%.lua:%d+: .*" .. pattern, message)
  assert.equal(kind, ipu.last_error().kind)
end

describe("strategy:run", function()
  local strategy = ipu.IPUStrategy()

  it("row 170: runs a compiled function", function()
    local matmul = ipu.func(function(a, b) return ipu.matmul(a, b) end)
    local a, b = ipu.tensor{{1, 2, 3}, {4, 5, 6}}, ipu.tensor{{1, 2}, {3, 4}, {5, 6}}
    local _ <close> = strategy:scope()
    assert.same({{22, 28}, {49, 64}}, strategy:run(matmul, {a, b}):totable())
  end)

  it("hands named arguments over as one last table", function()
    local f = ipu.func(function(x, named) return x + named.bias end)
    assert.equal(3, strategy:run(f, {ipu.tensor(1.0), bias = ipu.tensor(2.0)}):item())
  end)

  it("row 171: refuses a function that isn't compiled", function()
    raises("value", "must be compiled: wrap it in ipu%.func", strategy.run, strategy,
      function() end)
    raises("value", "must be compiled", strategy.run_async, strategy, function() end)
  end)

  it("row 172: refuses float64 in and out", function()
    local same = ipu.func(function(x) return x end)
    raises("type", "float64 is not supported for an input", strategy.run, strategy, same,
      {ipu.tensor(1, {dtype = "float64"})})
    local wider = ipu.func(function(x) return ipu.cast(x, "float64") end)
    raises("type", "float64 is not supported for an output", strategy.run, strategy, wider,
      {ipu.tensor(1.0)})
  end)

  it("row 173: is the name of what was experimental_run_v2", function()
    raises("runtime", "use strategy:run", strategy.experimental_run_v2, strategy, function() end)
  end)

  it("row 174: reduces to the value itself outside of compiled functions", function()
    assert.equal(3, strategy:reduce("SUM", ipu.tensor(3.0)):item())
    assert.equal(3, strategy:reduce("mean", ipu.tensor(3.0)):item())
    raises("value", "must be SUM or MEAN, got string %(MAX%)", strategy.reduce, strategy, "MAX", 1)
  end)

  it("counts as one in sync, and checks what it is made of", function()
    assert.equal(1, strategy.num_replicas_in_sync)
    raises("value", "'/device:GPU:0' is no device", function()
      ipu.IPUStrategy{ipu_device = "/device:GPU:0"}:scope()
    end)
    local f = ipu.func(function() return ipu.constant(1.0) end)
    raises("not_found", "no device /device:IPU:3", function()
      ipu.IPUStrategy{ipu_device = "/device:IPU:3"}:run(f)
    end)
    raises("value", "is no device", ipu.device, "/device:IPU:99999999999999999999")
  end)
end)

describe("a strategy for several processes", function()
  local optimizers <const> = ipu.keras.optimizers

  -- An optimizer that reduces by itself is refused where the strategy does.
  it("counts until its scope is closed, and no longer", function()
    local function apply()
      local v = ipu.Variable(1.0)
      local opt = optimizers.CrossReplicaOptimizer(optimizers.SGD(0.5))
      ipu.func(function() opt:apply_gradients({ipu.tensor(1.0)}, {v}) end)()
      return v:item()
    end
    for _, leaves in ipairs{function() end, function() error "out" end} do
      pcall(function()
        local _ <close> = ipu.PopDistStrategy():scope()
        local ok, message = pcall(apply)
        assert.is_false(ok)
        assert.matches("PopDistStrategy adds gradients over the replicas by itself", message)
        leaves()
      end)
      assert.equal(0.5, apply())
    end
  end)

  it("gives back what a function on some instances gave, nils too", function()
    assert.same({n = 3, [2] = 2}, table.pack(ipu.popdist.execute_on_instances({0}, function(...)
      return nil, select("#", ...), nil
    end, nil, nil)))
    assert.same({n = 0}, table.pack(ipu.popdist.execute_on_instances({0}, function() end)))
    assert.same({n = 0}, table.pack(ipu.popdist.execute_on_instances({}, function() return 1 end)))
  end)
end)

describe("variables", function()
  it("rows 65, 177: get their values without a program on the device", function()
    ipu.reset_default_graph()
    local before = #ipu.programs()
    local strategy = ipu.IPUStrategy()
    strategy:scope()(function()
      ipu.keras.layers.Dense(4):build{-1, 3}
      ipu.Variable(ipu.random.normal{3, 4})
    end)
    ipu.ipu_scope("/device:IPU:0")(function() ipu.get_variable("w", {shape = {3, 4}}) end)
    ipu.move_variable_initialization_to_cpu()
    local session <close> = ipu.Session()
    session:run(ipu.global_variables_initializer())
    assert.equal(before, #ipu.programs())
  end)
end)

describe("the step counter", function()
  it("row 63: is made once, counts updates, and stands on the host", function()
    ipu.reset_default_graph()
    local step = ipu.device("cpu")(function() return ipu.train.get_or_create_global_step() end)
    local again = ipu.ipu_scope("/device:IPU:0")(function()
      return ipu.train.get_or_create_global_step()
    end)
    assert.is_true(rawequal(step, again))
    assert.equal("int64", step.dtype)
    local w = ipu.get_variable("w", {shape = {}, initializer = 1})
    local opt = ipu.train.GradientDescentOptimizer(0.1)
    local update = opt:minimize(w * w, {global_step = step})
    local session <close> = ipu.Session()
    session:run(ipu.global_variables_initializer())
    for _ = 1, 3 do session:run(update) end
    assert.equal(3, session:run(step):item())
  end)
end)

describe("a tape in a script's own loop", function()
  it("row 178: trains", function()
    local x = ipu.random.normal({32, 4}, {seed = 1})
    local y = ipu.matmul(x, ipu.tensor{{1}, {-2}, {3}, {0.5}})
    local w = ipu.Variable(ipu.zeros{4, 1})
    local opt = ipu.keras.optimizers.SGD(0.1)
    local step = ipu.func(function(inputs, targets)
      local tape = ipu.GradientTape()
      local loss = tape(function()
        return ipu.reduce_mean(ipu.square(ipu.matmul(inputs, w) - targets))
      end)
      opt:apply_gradients(tape:gradient(loss, {w}), {w})
      return loss
    end)
    local first, last = nil, nil
    local strategy = ipu.IPUStrategy()
    for _ = 1, 100 do
      last = strategy:run(step, {x, y}):item()
      first = first or last
    end
    assert.is_true(last < 1e-3 * first)
  end)

  it("refuses gradients of what is no tensor", function()
    raises("type", "'target' must be a tensor", function() ipu.GradientTape():gradient(3, 4) end)
    raises("type", "'sources' must be a tensor", function()
      ipu.GradientTape():gradient(ipu.tensor(1.0), "x")
    end)
  end)
end)
