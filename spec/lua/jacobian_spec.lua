-- Jacobians of a tape: against derivatives worked out by hand, in eager and in compiled code.
local ipu = require "ipulua"

describe("GradientTape:jacobian", function()
  local v

  before_each(function() v = ipu.Variable(ipu.tensor{1, 2, 3}) end)

  -- f gives a tensor by a tape; the same value is wanted of a compiled function
  local function both(want, f)
    assert.same(want, f():totable())
    assert.same(want, ipu.func(f)():totable())
  end

  it("has a row for each element of the target", function()
    -- d(v_i²)/d(v_k): 2 v_i where i = k
    both({{2, 0, 0}, {0, 4, 0}, {0, 0, 6}}, function()
      local tape = ipu.GradientTape()
      return tape:jacobian(tape(function() return v * v end), v)
    end)
  end)

  it("has target's extents before the source's", function()
    local m = ipu.Variable(ipu.tensor{{1, 2}, {3, 4}, {5, 6}})
    local x = ipu.tensor{{7, 8, 9}, {10, 11, 12}}
    local tape = ipu.GradientTape()
    local j = tape:jacobian(tape(function() return ipu.matmul(x, m) end), {m = m, v = v})
    assert.is_nil(j.v)
    assert.same({2, 2, 3, 2}, j.m.shape)
    for a = 1, 2 do -- d((x m)_ab)/d(m_cd): x_ac where b = d
      for b = 1, 2 do
        for c = 1, 3 do
          for d = 1, 2 do
            assert.equal(b == d and x[a][c]:item() or 0, j.m[a][b][c][d]:item())
          end
        end
      end
    end
  end)

  it("is a Hessian of a gradient", function()
    -- Σ v³: 6 v on the diagonal
    both({{6, 0, 0}, {0, 12, 0}, {0, 0, 18}}, function()
      local outer = ipu.GradientTape()
      local inner = ipu.GradientTape()
      local gradient = inner:gradient(ipu.reduce_sum(v * v * v), v)
      return outer:jacobian(gradient, v)
    end)
  end)

  it("of a scalar is its gradient", function()
    local tape = ipu.GradientTape()
    assert.same({2, 4, 6}, tape:jacobian(ipu.reduce_sum(v * v), v):totable())
  end)

  it("has zeros where they are wanted and there is no path", function()
    local w = ipu.Variable(ipu.ones{2})
    local tape = ipu.GradientTape()
    local j = tape:jacobian(v * v, {v, w}, {unconnected_gradients = "zero"})
    assert.same({{0, 0}, {0, 0}, {0, 0}}, j[2]:totable())
    local watching = ipu.GradientTape{watch_accessed_variables = false}
    assert.is_nil(watching:jacobian(v * v, v))
  end)

  it("is given once without persistent, as gradients are", function()
    local tape = ipu.GradientTape()
    local y = v * v
    tape:jacobian(y, v)
    assert.error_matches(function() tape:gradient(y, v) end, "persistent = true")
    assert.error_matches(function() tape:jacobian(y, v) end, "persistent = true")
    local persistent = ipu.GradientTape{persistent = true}
    y = v * v
    assert.same(persistent:jacobian(y, v):totable(), persistent:jacobian(y, v):totable())
  end)

  it("refuses what is no tensor, or has no elements", function()
    assert.error_matches(function() ipu.GradientTape():jacobian({v}, v) end,
      "GradientTape.jacobian: 'target' must be one tensor")
    assert.error_matches(function() ipu.GradientTape():jacobian(ipu.zeros{0}, v) end,
      "must have elements.*%[0%]")
    assert.error_matches(function() ipu.GradientTape():jacobian(v * v, "v") end,
      "'sources' must be")
  end)
end)

describe("GradientTape:batch_jacobian", function()
  local x

  before_each(function() x = ipu.tensor{{1, 2, 3}, {4, 5, 6}} end)

  -- of each sample the sum of squares, and the product
  local function functions()
    return ipu.stack({ipu.reduce_sum(x * x, {axis = 1}), ipu.reduce_prod(x, {axis = 1})},
      {axis = 1})
  end

  it("has the derivatives of each sample by itself", function()
    local function f()
      local tape = ipu.GradientTape()
      return tape:batch_jacobian(tape(functions), x)
    end
    local want = {{{2, 4, 6}, {6, 3, 2}}, {{8, 10, 12}, {30, 24, 20}}}
    assert.same(want, f():totable())
    assert.same(want, ipu.func(f)():totable())
  end)

  it("is the diagonal of the Jacobian of a batch", function()
    local tape = ipu.GradientTape{persistent = true}
    local y = tape(functions)
    local all, each = tape:jacobian(y, x), tape:batch_jacobian(y, x)
    assert.same({2, 2, 2, 3}, all.shape)
    for i = 1, 2 do
      for k = 1, 2 do assert.same(each[i][k]:totable(), all[i][k][i]:totable()) end
    end
  end)

  it("wants one batch size, and gives nothing or zeros without a path", function()
    local function unequal() ipu.GradientTape():batch_jacobian(ipu.ones{2, 3}, ipu.ones{3}) end
    assert.error_matches(unequal, "one batch size, got float32%[2, 3%] and float32%[3%]")
    local y = ipu.ones{2, 4}
    assert.is_nil(ipu.GradientTape():batch_jacobian(y, x))
    assert.same({2, 4, 3}, ipu.GradientTape():batch_jacobian(y, x,
      {unconnected_gradients = "zero"}).shape)
  end)
end)
