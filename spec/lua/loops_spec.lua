-- Loops on the device: values carried, infeeds, counts known at run time, and what is refused.

local ipu = require "ipulua"
local data, loops = ipu.data, ipu.loops

local function int32(n) return ipu.tensor(n, {dtype = "int32"}) end
local function floats(n) return data.range(n):map(function(x) return ipu.cast(x, "float32") end) end

local function raises(kind, pattern, f, ...)
  local ok, message = pcall(f, ...)
  assert.is_false(ok)
  assert.matches("loops_spec%.lua:%d+: .*" .. pattern, message)
  assert.equal(kind, ipu.last_error().kind)
end

describe("repeat_n", function()
  it(
    "row 69: takes its count at run time; 0 changes nothing and leaves the data where it is",
    function()
    local infeed = ipu.IPUInfeedQueue(floats(10):repeat_n())
    local f = ipu.func(function(n)
      return loops.repeat_n(n, function(v, x) return v + x end, {0.0}, infeed)
    end)
    local results = {}
    for i, n in ipairs {0, 2, 2, 2} do results[i] = f(int32(n)):item() end
    assert.same({0, 1, 5, 9}, results)
    assert.equal(1, #f:signatures())
  end)

  it("carries integers as int32, other numbers as float32, a lone value, several, none", function()
    local a, b = loops.repeat_n(3, function(x, y) return x + 1, y * 2 end, {1, 0.5})
    assert.same({"int32", "float32"}, {a.dtype, b.dtype})
    assert.same({4, 4}, {a:item(), b:item()})
    assert.equal(10, loops.repeat_n(3, function(x) return x + 1 end, 7):item())
    local v = ipu.Variable(0.0)
    assert.is_nil(loops.repeat_n(3, function() v:assign_add(1) end))
    assert.equal(3, v:item())
    assert.equal(5, loops.repeat_n(0, function(x) return x + 1 end, {5}):item())
  end)

  it("reads two successive loops' elements one after the other", function()
    local infeed = ipu.IPUInfeedQueue(floats(2):repeat_n())
    local f = ipu.func(function()
      local function body(v, x) return v + x end
      return loops.repeat_n(5, body, {loops.repeat_n(5, body, {0.0}, infeed)}, infeed)
    end)
    assert.equal(5, f():item())
  end)

  it("nests", function()
    local f = ipu.func(function()
      return loops.repeat_n(10, function(sum)
        return loops.repeat_n(10, function(s) return s + 1 end, {sum})
      end, {0})
    end)
    assert.equal(100, f():item())
  end)

  local one <const> = {1.0}
  for name, case in pairs {
    ["a result of another shape"] = {"type",
      "carried value 1 is float32%[%], but the body returned float32%[2%]",
      function(x) return ipu.stack{x, x} end, one},
    ["a result of another dtype"] = {"type",
      "carried value 1 is int32%[%], but the body returned float32%[%]",
      function(x) return ipu.cast(x, "float32") end, {1}},
    ["too few results"] = {"type", "returned 0 values, but 1 value is carried",
      function(_) end, one},
    ["too many results"] = {"type", "returned 2 values, but 1 value is carried",
      function(x) return x, x end, one},
    ["too few parameters"] = {"type", "declares 0 parameters, but it is given 1 value",
      function() end, one},
    ["something else than tensors to carry"] = {"type", "got string",
      function(x) return x end, {"x"}},
  } do
    it("row 73: refuses " .. name, function()
      raises(case[1], case[2], loops.repeat_n, 3, case[3], case[4])
    end)
  end

  it("refuses counts that are none, and queues that are none", function()
    local function id(x) return x end
    raises("value", "must not be negative, got %-1", loops.repeat_n, -1, id, {0})
    raises("type", "must be an integer", loops.repeat_n, 1.5, id, {0})
    raises("type", "int32 scalar, got float32%[%]", loops.repeat_n, ipu.tensor(1.0), id, {0})
    raises("type", "'body' must be a function", loops.repeat_n, 3, 4, {0})
    for _, queue in ipairs {{}, floats(3), ipu.IPUOutfeedQueue()} do
      raises("type", "'infeed_queue' must be an IPUInfeedQueue", loops.repeat_n, 3,
        function(x, _) return x end, {0}, queue)
    end
  end)

  it("leaves nothing open after an error in the body", function()
    raises("type", "must be bool", loops.repeat_n, 3, function(x) return ipu.logical_not(x) end,
      {1}, nil, nil)
    assert.equal(2, ipu.func(function(x) return x + 1 end)(ipu.tensor(1.0)):item())
  end)
end)

describe("while_loop", function()
  it("row 72: goes on while the condition holds, at most maximum_iterations times", function()
    local function below(n) return function(i) return ipu.less(i, n) end end
    local function step(i) return i + 1 end
    assert.equal(20, loops.while_loop(below(20), step, {0}):item())
    assert.equal(7, loops.while_loop(below(20), step, {0}, nil, {maximum_iterations = 7}):item())
    assert.equal(0, loops.while_loop(below(0), step, {0}):item())
  end)

  -- As in TensorFlow, where a loop goes on while its counter is less than maximum_iterations.
  it("has no iteration under a negative maximum_iterations, in each form", function()
    local function below(i) return ipu.less(i, 20) end
    local v = ipu.Variable(0, {dtype = "int32"})
    local function counted(i)
      v:assign_add(1)
      return ipu.less(i, 20)
    end
    for _, condition in ipairs{below, counted} do
      local function f(n)
        return loops.while_loop(condition, function(i) return i + 1 end, {0},
          {maximum_iterations = n})
      end
      for _, n in ipairs{-1, -7} do
        assert.equal(0, f(int32(n)):item())
        assert.equal(0, ipu.func(f)(int32(n)):item())
        assert.equal(0, ipu.func(function() return f(int32(n)) end)():item())
        assert.equal(0, ipu.GradientTape()(f, int32(n)):item())
      end
    end
    assert.equal(0, v:item())
  end)

  it("refuses a condition that is no bool scalar, or takes other values", function()
    local function step(i) return i + 1 end
    raises("type", "must give a bool scalar, got int32%[%]", loops.while_loop,
      function(i) return i end, step, {0})
    raises("type", "condition declares 2 parameters, but it is given 1 value", loops.while_loop,
      function(i, _) return ipu.less(i, 3) end, step, {0})
    raises("value", "must not be negative", loops.while_loop, function(i) return ipu.less(i, 3) end,
      step, {0}, nil,
      {maximum_iterations = -1})
  end)
end)

describe("ipu.range", function()
  it("row 74: is one loop of the program inside a compiled function", function()
    local queue, v = ipu.IPUOutfeedQueue(), ipu.Variable(0.0)
    local bodies = 0
    local f = ipu.func(function(n)
      for i in ipu.range(n) do
        bodies = bodies + 1
        v:assign_add(ipu.cast(i, "float32"))
        queue:enqueue(v)
      end
    end)
    f(int32(10))
    assert.equal(1, bodies)
    assert.same({0, 1, 3, 6, 10, 15, 21, 28, 36, 45}, queue:dequeue():totable())
    f(int32(2))
    assert.same({45, 46}, queue:dequeue():totable())
  end)

  it("is an ordinary loop elsewhere", function()
    local seen = {}
    for i in ipu.range(3) do seen[#seen + 1] = i end
    assert.same({0, 1, 2}, seen)
    assert.equal("integer", math.type(seen[1]))
    for _ in ipu.range(-3) do error("never") end
  end)

  it("refuses to be left, and values of its body after it", function()
    raises("runtime", "can't be left by break or return", ipu.func(function()
      for _ in ipu.range(3) do break end -- luacheck: ignore 512
    end))
    raises("runtime", "can't be left by break or return", ipu.func(function()
      for i in ipu.range(3) do return i end -- luacheck: ignore 512
    end))
    local f = ipu.func(function(x)
      local y
      for _ in ipu.range(3) do y = x + 1 end
      return y * 2
    end)
    raises("value", "made inside a loop.*ipu%.loops%.repeat_n", f, ipu.tensor(1.0))
    raises("type", "must be an integer", function()
      for _ in ipu.range("x") do error("never") end
    end)
  end)
end)

describe("a function", function()
  it("that calls itself while it is traced must end by a number", function()
    local power
    power = ipu.func(function(x, n) return n == 0 and x or power(x, n - 1) * x end)
    assert.equal(16, power(ipu.tensor(2.0), 3):item())
    local endless
    endless = ipu.func(function(x) return endless(x) + 1 end)
    raises("runtime", "calls itself without end", endless, ipu.tensor(1.0))
  end)

  it("refuses arguments that hold themselves", function()
    local t = {}
    t[1] = t
    raises("value", "holds itself", ipu.func(function() end), t)
  end)

  -- random.uniform gives the same numbers in a loop of its own; a geometric distribution of mean 10
  it("draw and assign in the condition of a while_loop each time that it runs", function()
    ipu.random.set_seed(3)
    local rounds = ipu.func(function()
      return ipu.while_loop(function(_) return ipu.less(ipu.random.uniform{}, 0.9) end,
        function(i) return i + 1 end, {ipu.tensor(0)},
        {maximum_iterations = 1000})
    end)
    local sum, seen = 0, {}
    for _ = 1, 100 do
      local n = rounds():item()
      sum, seen[n] = sum + n, true
    end
    assert.is_true(sum > 500 and sum < 1500, sum)
    assert.is_false(seen[1000] == true)
    local calls = ipu.Variable(0, {dtype = "int32"})
    for _, case in ipairs{{false, 10, 11}, {0, 0, 0}, {1, 1, 1}, {5, 5, 5}, {20, 10, 11}} do
      calls:assign(0)
      local counted = ipu.func(function(x)
        return ipu.while_loop(function(s) calls:assign_add(1) return ipu.less(s, 10) end,
          function(s) return s + 1 end, {x},
          case[1] and {maximum_iterations = case[1]} or {use_while_v1 = true})
      end)
      assert.equal(case[2], counted(ipu.tensor(0.0)):item())
      assert.equal(case[3], calls:item())
    end
    local v = ipu.Variable(2.0)
    local slope = ipu.func(function()
      local y = ipu.while_loop(function(s) calls:assign_add(1) return ipu.less(s, 100) end,
        function(s) return s * v end, {ipu.tensor(1.0)},
        {maximum_iterations = 50})
      return ipu.gradients(y, {v})[1]
    end)
    assert.equal(7 * 64, slope():item()) -- y = v ^ 7
  end)
end)

-- Lua's lists end at a nil. Values after it took other places, or none.
describe("a nil before a value", function()
  local function any(...) return ... end
  local x <const> = ipu.ones{1}
  local cases <const> = {
    ["of carried values"] = {"repeat_n: carried value 2 is nil",
      function() ipu.loops.repeat_n(3, any, {x, nil, x}) end},
    ["of a condition's values"] = {"while_loop: carried value 2 is nil",
      function()
        ipu.while_loop(function(a) return ipu.less(a[1], 0) end, any, {x, nil, x})
      end},
    ["of a body's results"] = {"repeat_n: the body's result 2 is nil",
      function() ipu.loops.repeat_n(3, function(a, b) return a, nil, b end, {x, x}) end},
    ["of a computation's results"] = {"ipu_compiler.compile: result 1 is nil",
      function() ipu.ipu_compiler.compile(function(a) return nil, a end, {x}) end},
    ["of a barrier's"] = {"barrier: value 2 is nil", function() ipu.barrier{x, nil, x} end},
  }

  for name, case in pairs(cases) do
    it(name .. " is refused", function() assert.error_matches(case[2], case[1]) end)
  end
end)
