-- Nodes that a program leaves out: repeated ones, detours, sums of constants. Nodes that only look
-- like these stay.
local ipu = require "ipulua"

-- The ops of f's program, in order. Ops of regions follow their node.
local function ops_of(f, ...)
  local traced = ipu.func(f)
  traced(...)
  local ops = {}
  for _, n in ipairs(ipu.graph.nodes(traced)) do
    if n.op ~= "input" and n.op ~= "argument" and n.op ~= "constant" and #n.operands > 0 then
      ops[#ops + 1] = n.op
    end
  end
  return ops, traced
end

local function here() return debug.getinfo(2, "l").currentline end

describe("a compiled graph", function()
  local x <const> = ipu.tensor{{0.5, -1.5, 2.0}, {4.0, 0.0, -3.0}}

  it("computes what is written twice once, at the first line", function()
    local line = here() + 2
    local ops, f = ops_of(function(a)
      local first = ipu.exp(a)
      return first + ipu.exp(a) * ipu.exp(a)
    end, x)
    assert.same({"exp", "mul", "add"}, ops)
    for _, n in ipairs(ipu.graph.nodes(f)) do
      if n.op == "exp" then assert.matches(":" .. line .. "$", n.line) end
    end
    local e = math.exp(0.5)
    assert.near(e + e * e, f(x)[1][1]:item(), 1e-5)
  end)

  it("tells attributes, operands and their order apart", function()
    assert.same({"reduce_sum", "reduce_sum", "add"}, (ops_of(function(a)
      return ipu.reduce_sum(a, {axis = 0, keepdims = true})
        + ipu.reduce_sum(a, {axis = 1, keepdims = true})
    end, x)))
    assert.same({"exp", "sub", "sub", "mul"}, (ops_of(function(a)
      local b = ipu.exp(a)
      return (a - b) * (b - a)
    end, x)))
  end)

  it("leaves out what changes no bit", function()
    local detours = {
      function(a) return a - 0 end, function(a) return a + -0.0 end,
      function(a) return -0.0 + a end, function(a) return a * 1 end,
      function(a) return 1 * a end, function(a) return a / 1 end,
      function(a) return a * ipu.ones{2, 3} end,
      function(a) return a * ipu.ones_like(a) end,
      function(a) return ipu.transpose(ipu.transpose(a)) end,
      function(a) return a:reshape{6}:reshape{3, 2}:reshape{2, 3} end,
      function(a) return ipu.squeeze(ipu.expand_dims(a, 0)) end,
      function(a) return ipu.cast(ipu.cast(a, "float64"), "float32") end,
      function(a) return ipu.broadcast_to(a, {2, 3}) end,
      function(a) return ipu.slice(a, {0, 0}, {2, 3}) end,
      function(a) return ipu.pad(a, {{0, 0}, {0, 0}}) end,
      function(a) return ipu.tile(a, {1, 1}) end, function(a) return ipu.concat({a}, 0) end,
      ipu.identity, ipu.stop_gradient,
    }
    for i, detour in ipairs(detours) do
      local ops, f = ops_of(function(a) return ipu.exp(detour(a * 2)) end, x)
      assert.same({"mul", "exp"}, ops, "detour " .. i)
      assert.same(ipu.exp(x * 2):totable(), f(x):totable())
    end
  end)

  it("keeps what may change one: + 0 of -0, products with one that widen, one as an integer's "
    .. "divisor", function()
    local minus = ipu.tensor{-0.0, 1.0}
    local ops, f = ops_of(function(a) return 1 / (a + 0.0) end, minus)
    assert.same({"add", "div"}, ops)
    assert.equal(math.huge, f(minus)[1]:item())
    local subtracted, g = ops_of(function(a) return 1 / (a * 2 - 0.0) end, minus)
    assert.same({"mul", "div"}, subtracted)
    assert.equal(-math.huge, g(minus)[1]:item())
    assert.same({"mul"}, (ops_of(function(a) return a * ipu.ones{4, 1} end, minus)))
    local small = ipu.tensor{1e-40, 1.0} -- arithmetic makes 0 of numbers below the normal range
    local multiplied, h = ops_of(function(a) return a * 1 end, small)
    assert.same({"mul"}, multiplied)
    assert.same((small * 1):totable(), h(small):totable())
    assert.same({"div"},
      (ops_of(function(a) return a / ipu.tensor(1, {dtype = "int32"}) end,
        ipu.tensor({4, 5}, {dtype = "int32"}))))
    assert.same({"sub"}, (ops_of(function(a) return 0.0 - a end, minus)))
    assert.same({"cast", "cast"},
      (ops_of(function(a) return ipu.cast(ipu.cast(a, "float16"), "float32") end, minus)))
  end)

  it("makes one transpose of two, and one broadcast", function()
    local y = ipu.random.normal({2, 3, 4}, {seed = 1})
    local ops, f = ops_of(function(a)
      return ipu.transpose(ipu.transpose(a, {1, 2, 0}), {2, 1, 0})
    end, y)
    assert.same({"transpose"}, ops)
    assert.same(ipu.transpose(y, {0, 2, 1}):totable(), f(y):totable())
    assert.same({"broadcast_to", "sort"}, (ops_of(function(a)
      return ipu.sort(ipu.broadcast_to(ipu.broadcast_to(a, {3, 1}), {3, 4}))
    end, ipu.tensor{{1.0}, {2.0}, {3.0}})))
  end)

  it("computes constants while it compiles", function()
    -- d mean(x^2) / dx: 1 / 6 times the seed is a constant
    assert.same({"add", "broadcast_to", "mul"}, (function()
      local ops = ops_of(function(a)
        return ipu.gradients(ipu.reduce_mean(ipu.square(a)), {a})[1]
      end, x)
      table.sort(ops)
      return ops
    end)())
  end)

  it("draws as many random numbers as were asked for, and keeps effects", function()
    local outfeed, other = ipu.IPUOutfeedQueue(), ipu.IPUOutfeedQueue()
    local ops, f = ops_of(function(a)
      outfeed:enqueue(a * 2)
      other:enqueue(a * 2)
      return ipu.random.normal{64} - ipu.random.normal{64}
    end, ipu.tensor(3.0))
    local count = {}
    for _, op in ipairs(ops) do count[op] = (count[op] or 0) + 1 end
    assert.equal(1, count.mul)
    assert.is_true(ipu.reduce_max(ipu.abs(f(ipu.tensor(3.0)))):item() > 0)
    assert.same({{6, 6}, {6, 6}}, {outfeed:dequeue():totable(), other:dequeue():totable()})
  end)

  it("simplifies bodies of loops and branches", function()
    local ops = ops_of(function(n, a)
      return ipu.loops.repeat_n(n, function(y) return ipu.exp(y) - ipu.exp(y) * 1 end, {a})
    end, ipu.tensor(2, {dtype = "int32"}), x)
    assert.same({"repeat", "exp", "sub"}, ops)
  end)

  it("makes in each shard what is equal in two", function()
    local ops = ops_of(function(a)
      local near = ipu.ipu_shard(0)(function() return ipu.exp(a) end)
      local far = ipu.ipu_shard(1)(function() return ipu.exp(a) end)
      return near + far
    end, x)
    assert.same({"exp", "exp", "add"}, ops)
  end)

  it("rounds at random twice where that was asked for", function()
    local ops = ops_of(function(a)
      local _ <close> = ipu.stochastic_rounding(true)
      return ipu.cast(a, "float16"), ipu.cast(a, "float16")
    end, x)
    assert.same({"cast", "cast"}, ops)
  end)
end)
