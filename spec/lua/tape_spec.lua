-- Eager tapes: the ops that they record, and how often they give gradients.

local ipu = require "ipulua"

local x = ipu.tensor{1, 2}

local function recorded(options, f)
  local tape = ipu.GradientTape(options)
  local y = tape(f)
  return tape, y
end

describe("GradientTape", function()
  it("gives gradients once, or as often as asked when persistent", function()
    local tape, y = recorded({}, function() return ipu.reduce_sum(x * x * x) end)
    assert.same({3, 12}, tape:gradient(y, x):totable())
    local ok, message = pcall(tape.gradient, tape, y, x)
    assert.is_false(ok)
    assert.is_truthy(message:find("persistent", 1, true))
    tape, y = recorded({persistent = true}, function() return ipu.reduce_sum(x * x) end)
    assert.same({2, 4}, tape:gradient(y, x):totable())
    assert.same({2, 4}, tape:gradient(y, x):totable())
  end)

  it("gives them as often in a compiled function, of a tensor known while tracing", function()
    local twice = ipu.func(function(is_used_before)
      local before = is_used_before and ipu.reduce_sum(x) or nil
      local tape, y = recorded({persistent = true}, function() return ipu.reduce_sum(x * x) end)
      local first, second = tape:gradient(y, x), tape:gradient(y, x)
      local later = ipu.GradientTape{persistent = true}
      local z = later(function() return ipu.reduce_sum(x * x * x) end)
      return first, second, later:gradient(z, x), later:gradient(z, x), tape:gradient(y, x), before
    end)
    for _, each in ipairs{false, true} do
      local results = {twice(each)}
      for k, want in ipairs{{2, 4}, {2, 4}, {3, 12}, {3, 12}, {2, 4}} do
        assert.same(want, results[k]:totable())
      end
    end
  end)

  it("inside another gives second derivatives", function()
    local outer = ipu.GradientTape()
    local first = outer(function()
      local inner, y = recorded({}, function() return ipu.reduce_sum(x ^ 3) end)
      return inner:gradient(y, x)
    end)
    assert.same({6, 12}, outer:gradient(first, x):totable())
  end)

  it("gives none through integers, whose quotient is a float32", function()
    local v, halves = ipu.Variable(ipu.tensor{4, 6}), ipu.tensor({2, 4}, {dtype = "int32"})
    local tape <close> = ipu.GradientTape{persistent = true}
    local y = ipu.cast(v, "int32") / halves
    assert.same({2, 1.5}, y:totable())
    assert.is_nil((tape:gradient(y, v)))
    assert.same({3, 2.5}, tape:gradient(y * v + v, v):totable())
  end)

  it("leaves stopped gradients out", function()
    local tape, y = recorded({persistent = true}, function()
      return ipu.reduce_sum(ipu.stop_gradient(x * x) * x)
    end)
    assert.same({1, 4}, tape:gradient(y, x):totable())
    tape, y = recorded({persistent = true}, function()
      return ipu.reduce_sum(ipu.stop_gradient(x * x))
    end)
    assert.is_nil(tape:gradient(y, x))
    assert.same({0, 0}, tape:gradient(y, x, {unconnected_gradients = "zero"}):totable())
  end)

  it("watches only the given tensors when accessed variables don't count", function()
    local v, u = ipu.Variable(ipu.tensor{3, 4}), ipu.Variable(ipu.tensor{5, 6})
    local tape = ipu.GradientTape{watch_accessed_variables = false}
    local y = tape(function()
      tape:watch(v)
      return ipu.reduce_sum(v * u)
    end)
    local grads = tape:gradient(y, {v, u})
    assert.same({5, 6}, grads[1]:totable())
    assert.is_nil(grads[2])
  end)

  -- d(3 c) + d(10 c) + d(c^2): as a tape of TensorFlow's, which counts every reading
  it("counts readings of a variable before its assignment, and after", function()
    local c = ipu.Variable(3.0)
    local tape = ipu.GradientTape{persistent = true}
    local before, y = tape(function()
      local first = c * 3
      c:assign(5)
      local second = c * 10
      c:assign_add(1)
      return first, first + second + c * c
    end)
    assert.equal(9 + 50 + 36, y:item())
    assert.equal(3, tape:gradient(before, c):item())
    assert.equal(3 + 10 + 2 * 6, tape:gradient(y, c):item())
    local list = tape:gradient(y, {c, c})
    assert.equal(25, list[2]:item())
  end)

  it("records a traced function, its captured tensors and its variables", function()
    local v = ipu.Variable(ipu.tensor{2, 3})
    local w = ipu.tensor{3, 4}
    local f = ipu.func(function(a)
      v:assign_add(a)
      return ipu.reduce_sum(v * a * w)
    end)
    local tape, y = recorded({persistent = true}, function() return f(x * 1) end)
    assert.equal(3 * 1 * 3 + 5 * 2 * 4, y:item())
    assert.same({3 * (3 + 1), 4 * (5 + 2)}, tape:gradient(y, x):totable())
    assert.same({3, 10}, tape:gradient(y, w):totable())
  end)

  it("records loops that run at once", function()
    local tape, y = recorded({}, function()
      return ipu.reduce_sum(ipu.loops.repeat_n(3, function(c) return c * x end, {x}))
    end)
    assert.same({4, 32}, tape:gradient(y, x):totable())
    tape, y = recorded({}, function()
      local _, c = ipu.loops.while_loop(function(i, _) return ipu.less(i, 2) end,
        function(i, c) return i + 1, c * x end, {0, x})
      return ipu.reduce_sum(c)
    end)
    assert.same({3, 12}, tape:gradient(y, x):totable())
    tape, y = recorded({}, function()
      return ipu.cond(ipu.less(ipu.reduce_sum(x), 5), function() return ipu.reduce_sum(x * x) end,
        function() return x end)
    end)
    assert.same({2, 4}, tape:gradient(y, x):totable())
  end)

  -- As an optimizer that a function calls twice, and as the inner steps of a WGAN.
  it("gives gradients by a variable that was assigned before the tape began", function()
    local v, w = ipu.Variable(2.0), ipu.Variable(5.0)
    local function square_by(source, a)
      local tape, y = recorded({}, function() return v * v * a end)
      return tape:gradient(y, source)
    end
    local f = ipu.func(function(a)
      local found = {}
      for i = 1, 3 do
        found[i] = square_by(v, a)
        v:assign_sub(0.25 * found[i]) -- 2, 1, 0.5, 0.25
      end
      v:assign(w * 2)
      found[4] = square_by(v, a)
      assert.is_nil(square_by(w, a)) -- the tape has not seen the assignment
      return table.unpack(found)
    end)
    local found = {f(ipu.tensor(1.0))}
    for i, want in ipairs{4, 2, 1, 20} do assert.equal(want, found[i]:item()) end
    v:assign(2.0)
    local loop = ipu.func(function(a)
      return ipu.loops.repeat_n(2, function(sum)
        for _ = 1, 2 do
          local slope = square_by(v, a)
          v:assign_sub(0.25 * slope)
          sum = sum + slope
        end
        return sum
      end, {0.0})
    end)
    assert.equal(4 + 2 + 1 + 0.5, loop(ipu.tensor(1.0)):item())
    assert.equal(0.125, v:item())
  end)
end)
