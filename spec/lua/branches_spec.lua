-- ipu.cond: values, gradients, effects.

local ipu = require "ipulua"

describe("ipu.cond", function()
  -- y and dy/dx of a branch at x, in one program
  local function both(yes, no)
    return ipu.func(function(p, x)
      local y = ipu.cond(p, function() return yes(x) end, function() return no(x) end)
      return y, ipu.gradients(y, {x})[1]
    end)
  end

  local function pair(f, p, x)
    local y, d = f(ipu.tensor(p), ipu.tensor(x))
    return {y:item(), d:item()}
  end

  it("row 75: gives the value and the gradient of the branch that is taken", function()
    local f = both(function(x) return x * x end, function(x) return x * 5 end)
    assert.same({9, 6}, pair(f, true, 3.0))
    assert.same({15, 5}, pair(f, false, 3.0))
  end)

  it("has a gradient of zero where the branch does not use the value", function()
    local f = both(function(x) return x * x end, function() return ipu.constant(1.0) end)
    assert.same({1, 0}, pair(f, false, 3.0))
  end)

  it("differentiates by variables, through nested branches", function()
    local v = ipu.Variable(2.0)
    local f = ipu.func(function(p)
      local tape = ipu.GradientTape()
      local y = tape(function()
        return ipu.cond(p, function()
          return ipu.cond(ipu.greater(v, 1), function() return v * v * v end,
            function() return v end)
        end, function() return -v end)
      end)
      return tape:gradient(y, v)
    end)
    assert.equal(12, f(ipu.tensor(true)):item())
    assert.equal(-1, f(ipu.tensor(false)):item())
    v:assign(0.5)
    assert.equal(1, f(ipu.tensor(true)):item())
  end)

  it("has second derivatives", function()
    local f = ipu.func(function(p, x)
      local y = ipu.cond(p, function() return x * x * x end, function() return x end)
      local d = ipu.gradients(y, {x})[1]
      return ipu.gradients(d, {x})[1]
    end)
    assert.equal(12, f(ipu.tensor(true), ipu.tensor(2.0)):item())
    assert.equal(0, f(ipu.tensor(false), ipu.tensor(2.0)):item())
  end)

  it("runs effects of a branch once, though its gradient computes it again", function()
    local queue, v = ipu.IPUOutfeedQueue(), ipu.Variable(0.0)
    local f = ipu.func(function(p, x)
      local y = ipu.cond(p, function()
        queue:enqueue(x)
        v:assign_add(1)
        return x * 2
      end, function() return x end)
      return ipu.gradients(y, {x})[1]
    end)
    assert.equal(2, f(ipu.tensor(true), ipu.tensor(3.0)):item())
    assert.equal(1, f(ipu.tensor(false), ipu.tensor(3.0)):item())
    assert.equal(1, v:item())
    assert.same({3}, queue:dequeue():totable())
  end)

  it("drops the same elements forward and backward", function()
    local f = ipu.func(function(p, x)
      local y = ipu.cond(p, function() return ipu.nn.dropout(x, {rate = 0.5}) end,
        function() return x end)
      return y, ipu.gradients(y, {x})[1]
    end)
    for _ = 1, 3 do
      local y, d = f(ipu.tensor(true), ipu.ones{64})
      assert.same(y:totable(), d:totable()) -- 0 or 2 in both
    end
  end)

  it("refuses a gradient that would read an infeed again", function()
    local infeed = ipu.IPUInfeedQueue(ipu.data.from_tensors(ipu.constant(2.0)):repeat_n())
    local f = ipu.func(function(p, x)
      local y = ipu.cond(p, function() return x * infeed:dequeue_in_loop() end,
        function() return x end)
      return ipu.gradients(y, {x})[1]
    end)
    local ok, message = pcall(f, ipu.tensor(true), ipu.tensor(1.0))
    assert.is_false(ok)
    assert.matches("branches_spec%.lua:%d+: .*infeed_dequeue", message)
  end)
end)

describe("a compiled function in a session's graph", function()
  it("is differentiated", function()
    ipu.reset_default_graph()
    local a = ipu.placeholder("float32", {})
    local out = ipu.ipu_compiler.compile(function(x) return x * x end, {a})
    local session <close> = ipu.Session()
    assert.equal(8, session:run(ipu.gradients(out[1], {a})[1], {feed_dict = {[a] = 4}}):item())
  end)
end)
