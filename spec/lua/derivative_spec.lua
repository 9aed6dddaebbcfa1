-- One derivative: what the table of docs/explain/tensors-and-gradients.md says, in each form in
-- which one can be asked for.

local duals = require "spec.support.fuzz_duals"
local fuzz = require "spec.support.fuzz_gradients"
local ipu = require "ipulua"

local x, c, same, ones = ipu.tensor{1, 2, 3}, ipu.tensor{4, 5, 6}, ipu.tensor{4, 5, 6}, ipu.ones{3}
local v = ipu.Variable(ipu.tensor{1, 2, 3})
local start = ipu.tensor{1, 2, 3}
local before = v:read_value()
local rows = ipu.tensor{{1, 2}, {3, 4}}
local sum <const> = ipu.reduce_sum

local log1pexp = ipu.custom_gradient(function(a)
  local e = ipu.exp(a)
  return ipu.log(1 + e), function(dy) return dy * (1 - 1 / (1 + e)) end
end)
local nested = ipu.func(function(a) return a * c end)
local called = ipu.host_callback(function(a) return a * 5 end, {outputs = {{{3}, "float32"}}})

-- The function of the argument, the variable that it is differentiated by, and the derivative by
-- hand.
local cells <const> = {
  {"a product", function(a) return sum(a * a) end, x, {2, 4, 6}},
  {"a stopped gradient", function(a) return sum(a * ipu.stop_gradient(a)) end, x, {1, 2, 3}},
  {"a stopped variable", function(a) return sum(a * ipu.stop_gradient(v) + v) end, v, {1, 1, 1}},
  {"a captured tensor", function(a) return sum(a * c) end, c, {1, 2, 3}},
  {"one of two of equal numbers", function(a) return sum(a * c + a * a * same) end, c, {1, 2, 3}},
  {"the other one", function(a) return sum(a * c + a * a * same) end, same, {1, 4, 9}},
  {"captured ones", function(a) return sum((a + a) * ones) end, ones, {2, 4, 6}},
  {"captured, computed while tracing", function(a) return sum(a * (c * 2 + ipu.sin(same))) end, c,
    {2, 4, 6}},
  {"captured in a loop", function(a)
    return sum(ipu.loops.repeat_n(2, function(s) return s * c end, {a}))
  end, c, {8, 20, 36}},
  {"captured in a branch", function(a)
    return ipu.cond(ipu.greater(sum(a), 0), function() return sum(a * c) end, function()
      return sum(a)
    end)
  end, c, {1, 2, 3}},
  {"captured in a branch in a loop", function(a)
    return sum(ipu.loops.repeat_n(2, function(s)
      return ipu.cond(ipu.greater(sum(s), 0), function() return s * c end, function() return s end)
    end, {a}))
  end, c, {8, 20, 36}},
  {"captured as a loop's first value", function(a)
    return sum(ipu.loops.repeat_n(2, function(s) return s * a end, {c}))
  end, c, {1, 4, 9}},
  {"captured by a function that is called", function(a) return sum(nested(a) * a) end, c,
    {1, 4, 9}},
  {"the argument behind it", function(a) return sum(nested(a) * a) end, x, {8, 20, 36}},
  {"a reading from before", function(a) return sum(a * before + v) end, v, {1, 1, 1}},
  {"that reading itself", function(a) return sum(a * before + v) end, before, {1, 2, 3}},
  {"read_value", function() local r = v:read_value(); return sum(r * v) end, v, {2, 4, 6}},
  {"ipu.tensor of a variable", function() return sum(ipu.tensor(v) * v) end, v, {2, 4, 6}},
  {"a list of variables", function(a) return sum(ipu.tensor{v, {1, 2, 3}, v} * a) end, v,
    {2, 4, 6}},
  {"a list of the argument and a captured tensor", function(a) return sum(ipu.tensor{a, c} * a) end,
    x, {6, 9, 12}},
  {"the captured tensor of that list", function(a) return sum(ipu.tensor{a, c} * a) end, c,
    {1, 2, 3}},
  {"an operand that is a list of rows", function(a) return sum(a * {v[1], v[2] * 2, 5}) end, v,
    {1, 4, 0}},
  {"a variable that is carried", function()
    return sum(ipu.loops.repeat_n(2, function(s) return s * v end, {v}))
  end, v, {3, 12, 27}},
  {"a variable carried by while_loop", function()
    local _, s = ipu.while_loop(function(i, _) return ipu.less(i, 2) end,
      function(i, s) return i + 1, s * v end, {0, v})
    return sum(s)
  end, v, {3, 12, 27}},
  {"rows", function() return sum(rows[1] * rows[2]) + sum(rows * rows) end, rows,
    {{5, 8}, {7, 10}}},
  {"rows of a variable", function() return sum(v[1] * v[3] + v[2]) end, v, {3, 1, 1}},
  {"readings before an assignment", function(a)
    local y = sum(v * a)
    v:assign(v + 1)
    return y
  end, v, {1, 2, 3}},
  {"readings before and after one", function(a)
    local y = sum(v * a)
    v:assign(a * 1.5)
    return y + sum(v)
  end, v, {2, 3, 4}},
  {"an assignment of what depends on it", function(a)
    v:assign(v + a)
    return sum(v * c) + sum(v * a)
  end, v, {5, 7, 9}},
  {"a custom gradient", function(a) return sum(log1pexp(a * 0)) end, x, {0, 0, 0}},
  {"a host callback", function(a) return sum(called(ipu.stop_gradient(a)) * a) end, x, {5, 10, 15}},
}

local function taped(f, a, source)
  local tape = ipu.GradientTape()
  local y = tape(function() return f(a) end)
  return tape:gradient(y, source == x and a or source)
end

local function around(g, source)
  local tape = ipu.GradientTape()
  local y = tape(g, x)
  return tape:gradient(y, source)
end

local function asked(f, a, source) return ipu.gradients(f(a), {source == x and a or source})[1] end

local forms <const> = {
  {"by an eager tape", function(f, source) return taped(f, x, source) end},
  {"by a tape around the function", function(f, source) return around(ipu.func(f), source) end},
  {"by a tape around it, a second time", function(f, source)
    local g = ipu.func(f)
    g(x)
    v:assign(start)
    around(g, source)
    collectgarbage()
    v:assign(start)
    return around(g, source)
  end},
  {"by a tape inside", function(f, source)
    return ipu.func(function(a) return taped(f, a, source) end)(x)
  end},
  {"by ipu.gradients", function(f, source)
    return ipu.func(function(a) return asked(f, a, source) end)(x)
  end},
  {"by ipu.gradients in a loop", function(f, source)
    return ipu.func(function(a)
      return ipu.loops.repeat_n(2, function(s)
        v:assign(start)
        return s * 0 + asked(f, a, source)
      end, {ipu.zeros_like(source)})
    end)(x)
  end},
  {"by ipu.gradients in a branch behind it", function(f, source)
    return ipu.func(function(a)
      local y = f(a)
      return ipu.cond(ipu.is_finite(y), function()
        return ipu.gradients(y, {source == x and a or source})[1]
      end,
        function() return ipu.zeros_like(source) end)
    end)(x)
  end},
  {"by ipu.gradients in a branch that goes on", function(f, source)
    return ipu.func(function(a)
      local y = f(a)
      return ipu.cond(ipu.is_finite(y), function()
        return ipu.gradients(y * 2 - y, {source == x and a or source})[1]
      end,
        function() return ipu.zeros_like(source) end)
    end)(x)
  end},
}

describe("one derivative:", function()
  before_each(function() v:assign(start) end)

  for _, cell in ipairs(cells) do
    local name, f, source, expected = table.unpack(cell)
    for _, form in ipairs(forms) do
      if not (name == "a host callback" and form[1]:find("around", 1, true)) then
        it(name .. " " .. form[1], function()
          assert.same(expected, form[2](f, source):totable())
        end)
      end
    end
  end

  local function second(g) -- 1 / (1 + e^-a) has the derivative s (1 - s)
    local a = ipu.tensor({0.5, -1, 2}, {dtype = "float64"})
    local s = ipu.sigmoid(a)
    assert.is_true(ipu.reduce_max(ipu.abs(g(a) - s * (1 - s))):item() < 1e-12)
  end

  it(
    "a custom gradient's own derivative goes through what it has of the function around it",
    function()
    second(ipu.func(function(a)
      return ipu.gradients(ipu.gradients(log1pexp(a), {a})[1], {a})[1]
    end))
    second(function(a)
      local outer = ipu.GradientTape()
      local slope = outer(function()
        return taped(function(b) return sum(log1pexp(b)) end, a, a)
      end)
      return outer:gradient(slope, a)
    end)
    second(function(a)
      local outer, f = ipu.GradientTape(),
        ipu.func(function(b) return ipu.gradients(log1pexp(b), {b})[1] end)
      local slope = outer(f, a)
      return outer:gradient(slope, a)
    end)
  end)

  it(
    "what a gradient function does on the side happens, as often as its gradient is computed",
    function()
    local seen
    local look = ipu.host_callback(function(d)
      seen[#seen + 1] = d[1]:item()
      return d
    end, {outputs = {{{3}, "float32"}}})
    local square = ipu.custom_gradient(function(a)
      return a * a, function(dy)
        look(dy)
        return dy * 2 * a
      end
    end)
    local twice <const> = {2, function(a) return sum(ipu.loops.repeat_n(2, square, {a})) end,
      {4, 32, 108}}
    for _, case in ipairs{
      {1, function(a) return sum(square(a)) end, {2, 4, 6}}, twice,
      {1, function(a)
        return sum(ipu.cond(ipu.less(0, sum(a)), function() return square(a) end,
          function() return a end))
      end, {2, 4, 6}},
    } do
      for _, form in ipairs{
        function(f) return taped(f, x, x) end, function(f) return around(ipu.func(f), x) end,
        function(f) return ipu.func(function(a) return asked(f, a, x) end)(x) end,
      } do
        seen = {}
        assert.same(case[3], form(case[2]):totable())
        assert.equal(case[1], #seen)
        assert.equal(1, seen[1])
      end
    end
  end)

  it("a gradient function assigns nothing", function()
    local count = ipu.Variable(0.0)
    local square = ipu.custom_gradient(function(a)
      return a * a, function(dy)
        count:assign_add(1)
        return dy * 2 * a
      end
    end)
    for _,
      form in ipairs{taped, function(f)
        return ipu.func(function(a) return asked(f, a, x) end)(x)
      end} do
      local ok, message = pcall(form, function(a) return sum(square(a)) end, x, x)
      assert.is_truthy(not ok and message:find("assigns variable 'Variable", 1, true), message)
    end
  end)

  -- The documented difference: what was assigned carries its gradient on in a compiled function,
  -- and doesn't outside.
  it("an assignment carries the gradient to what was assigned where it is traced", function()
    local function f(a)
      v:assign(a * 3)
      return sum(v * c)
    end
    assert.is_nil(taped(f, x, x))
    v:assign(start)
    assert.same({12, 15, 18}, around(ipu.func(f), x):totable())
    assert.same({12, 15, 18}, ipu.func(function(a) return asked(f, a, x) end)(x):totable())
  end)

  describe("a tape around a function that calls back keeps what it was given:", function()
    local asked_for, fails
    local double = ipu.host_callback(function(a)
      asked_for = asked_for + 1
      if fails then error("no answer") end
      return a * 2
    end, {outputs = {{{3}, "float32"}}})
    before_each(function() asked_for, fails = 0, false end)
    local b <const> = ipu.tensor{3, 4, 5}
    local function product(a) return double(a) * a end -- whose derivative is 2 a
    local inner = ipu.func(product)
    local ways <const> = {
      {"of its own", function(a) return sum(product(a) * a) end, {36, 64, 100}, 1}, -- 4 a^2
      {"twice, in a row", function(a) return sum(double(double(a)) * a) end, {12, 16, 20}, 2},
      {"in a branch", function(a)
        return ipu.cond(ipu.greater(a[1], 0), function() return sum(product(a)) end,
          function() return sum(a) end)
      end, {6, 8, 10}, 1},
      {"in a branch not taken", function(a)
        return ipu.cond(ipu.less(a[1], 0), function() return sum(product(a)) end,
          function() return sum(a * 5) end)
      end, {5, 5, 5}, 0},
      {"in functions that it calls", function(a) return sum(inner(a) + inner(a * 2)) end,
        {30, 40, 50}, 2}, -- 2 a + 2 * 4 a
      {"before a loop that reads it", function(a)
        local k = double(a)
        return sum(ipu.loops.repeat_n(3, function(each) return each + k * a end, {a}))
      end, {19, 25, 31}, 1}, -- 1 + 3 * 2 a
      {"in a loop of one", function(a)
        return sum(ipu.loops.repeat_n(1, function(each) return each + product(a) end, {a}))
      end, {7, 9, 11}, 1},
    }
    for _, way in ipairs(ways) do
      it(way[1], function()
        local f = ipu.func(way[2])
        for _ = 1, 2 do -- compiled, and again
          asked_for = 0
          local tape = ipu.GradientTape{persistent = true}
          local y = tape(f, b)
          for _ = 1, 2 do assert.same(way[3], tape:gradient(y, b):totable()) end
          assert.equal(way[4], asked_for) -- by the run alone
        end
      end)
    end

    it("also to be differentiated again", function()
      local f = ipu.func(ways[1][2])
      local outer = ipu.GradientTape()
      local slope = outer(function()
        local tape = ipu.GradientTape()
        local y = tape(f, b)
        return tape:gradient(y, b)
      end)
      assert.same({12, 16, 20}, outer:gradient(slope, b):totable()) -- 2 k for k = 2 b
    end)

    it("not where it was called several times, which is refused", function()
      local f = ipu.func(function(a)
        return sum(ipu.loops.repeat_n(2, function(each) return each + product(a) end, {a}))
      end)
      local tape = ipu.GradientTape()
      local y = tape(f, b)
      assert.error_matches(function() tape:gradient(y, b) end,
        "gradients: the loop, branch or function calls back")
    end)

    it("and nothing of a run that failed", function()
      local f = ipu.func(ways[1][2])
      fails = true
      local tape = ipu.GradientTape()
      assert.error_matches(function() tape(f, b) end, "no answer")
      fails = false
      tape = ipu.GradientTape()
      local y = tape(f, b)
      assert.same({36, 64, 100}, tape:gradient(y, b):totable())
    end)

    it("apart from what a callback of its own tapes", function()
      local f = ipu.func(ways[1][2])
      local slope = ipu.host_callback(function(a)
        local tape = ipu.GradientTape()
        local y = tape(f, a)
        return tape:gradient(y, a)
      end, {outputs = {{{3}, "float32"}}})
      local tape = ipu.GradientTape()
      local y = tape(ipu.func(function(a) return sum(slope(a) * a) end), b)
      assert.same({36, 64, 100}, tape:gradient(y, b):totable())
    end)
  end)

  it(
    "a table of targets is the sum of its tensors, with gradients in the same structure", function()
    local function gradient(target, dy)
      local tape = ipu.GradientTape()
      local y = tape(target)
      return tape:gradient(y, v, dy)
    end
    assert.same({6, 6, 6}, gradient(function() return {{v * 1, v * 3}, v * 2} end):totable())
    assert.same({3, 3, 3}, gradient(function() return {a = v * 1, b = v * 2} end):totable())
    assert.same({5, 6, 7},
      gradient(function() return {a = v * 1, b = v * 2} end, {a = ipu.tensor{3, 4, 5}}):totable())
    local ok, message = pcall(gradient, function() return {a = v * 1} end, {c = ipu.ones{3}})
    assert.is_truthy(not ok and message:find("a gradient for each of the outputs", 1, true),
      message)
  end)

  local wrong <const> = {
    {ipu.nn.softmax, ipu.ones{5}}, {ipu.identity, ipu.ones{5}},
    {function(a) return a * 2 end, ipu.ones{2, 3}},
    {ipu.tanh, ipu.ones{1}}, {ipu.tanh, ipu.ones({3}, {dtype = "float64"})},
  }
  it("an output's gradient has the output's shape and dtype", function()
    for _, case in ipairs(wrong) do
      local f, dy = table.unpack(case)
      for _, form in ipairs{
        ipu.func(function(a, b) return ipu.gradients(f(a), {a}, {b})[1] end),
        ipu.func(function(a, b)
          local tape = ipu.GradientTape()
          return tape:gradient(tape(f, a), a, b)
        end),
        function(a, b) local tape = ipu.GradientTape(); return tape:gradient(tape(f, a), a, b) end,
      } do
        local ok, message = pcall(form, x, dy)
        assert.is_truthy(not ok and message:find("the gradient given for an output", 1, true),
          tostring(message))
      end
    end
  end)

  it("whether the compiler knows an operand is no matter, 0, 1 and infinities too", function()
    local inf <const>, nan <const> = math.huge, 0 / 0
    local given = ipu.tensor({0, -0.0, 1, 2, -1, 0.5, 3, -2.5, inf, -inf, nan, 1e30})
    local function text(t)
      return t and table.concat(t:totable(), " "):gsub("%-nan", "nan") or "nil"
    end
    local ops <const> = {"add", "sub", "mul", "div", "pow", "maximum", "minimum", "mod", "floordiv",
      "atan2", "squared_difference"}
    for _, name in ipairs(ops) do
      for _, number in ipairs{0, -0.0, 1, 2, -1, 0.5, 3, -2, inf, -inf} do
        for _, f in ipairs{
          function(a) return ipu[name](a, number) end,
          function(a) return ipu[name](ipu.tensor(number), a) end,
        } do
          local tape = ipu.GradientTape()
          local eager = tape:gradient(tape(f, given), given)
          local compiled = ipu.func(function(a)
            return ipu.gradients(f(a), {a})[1] or nil
          end)(given)
          assert.equal(text(eager), text(compiled), name .. " and " .. number)
        end
      end
    end
    local slope = ipu.func(function(a) return ipu.gradients(a ^ 0, {a})[1] end)
    assert.same({0, 0, 0}, slope(ipu.tensor{0, 2, -1}):totable()) -- it is 1 whatever a is
  end)

  it("random programs agree in all forms", function()
    for seed = 1, 36 do assert.is_nil(fuzz.check(seed)) end
  end)

  it("random programs with branches, loops and functions within each other agree with dual numbers",
    function()
      for seed = 1, 40 do assert.is_nil(duals.check(seed)) end
    end)
end)

describe("a tape's record", function()
  local function nodes_kept(make)
    collectgarbage()
    collectgarbage()
    local bytes = require "ipulua.core".bytes_alive()
    for _ = 1, 200 do make() end
    collectgarbage()
    collectgarbage()
    return require "ipulua.core".bytes_alive() - bytes
  end

  it("goes with the answer, and with the tape", function()
    local w = ipu.Variable(ipu.ones{1000})
    local function step() return sum(w * w * 2) end
    assert.equal(0, nodes_kept(function()
      local tape = ipu.GradientTape()
      local y = tape(step)
      tape:gradient(y, w)
    end))
    assert.equal(0, nodes_kept(function()
      local tape = ipu.GradientTape()
      return tape:gradient(step(), w) -- never closed
    end))
    assert.equal(0, nodes_kept(function() ipu.GradientTape()(step) end)) -- never asked
    assert.equal(0, nodes_kept(function() ipu.GradientTape(); step() end)) -- neither
  end)

  it("of a persistent one stays, and doesn't grow by being asked", function()
    local w = ipu.Variable(ipu.ones{1000})
    local tape = ipu.GradientTape{persistent = true}
    local y = tape(function() return sum(w * w * 2) end)
    tape:gradient(y, w)
    assert.equal(0, nodes_kept(function() tape:gradient(y, w) end))
    assert.equal(4, tape:gradient(y, w)[1]:item())
  end)

  it("is its own: one tape's end is nothing to another", function()
    local outer = ipu.GradientTape{persistent = true}
    local y = outer(function()
      local inner = ipu.GradientTape()
      local z = inner(function() return sum(x * x * x) end)
      local g = inner:gradient(z, x)
      collectgarbage()
      return sum(g * x)
    end)
    assert.same({9, 36, 81}, outer:gradient(y, x):totable()) -- of 3 x^3
    local other = ipu.GradientTape()
    assert.is_nil(other:gradient(y, x))
  end)
end)

describe("gradients asked in branches in branches", function()
  -- x + depth: its square times x, differentiated in the innermost branch.
  local function asked_at(depth)
    return ipu.func(function(given)
      local function go(left, s)
        if left == 0 then return ipu.gradients(ipu.reduce_sum(s * s * given), {given})[1] end
        return ipu.cond(ipu.less(ipu.reduce_sum(s), 1e9), function() return go(left - 1, s + 1) end,
          function() return given * 0 end)
      end
      return go(depth, given)
    end)(ipu.tensor{1.0})
  end

  it("are as the code computes them, however deep", function()
    for _, depth in ipairs{1, 2, 3, 17, 63, 64, 65, 130} do
      local s = 1 + depth
      assert.same({2 * s + s * s}, asked_at(depth):totable())
    end
  end)
end)

describe("a tape in a compiled function records what is computed while it is open:", function()
  local point = ipu.tensor{1, 2}
  local function sum_of(a) return ipu.reduce_sum(a) end
  local function found_by(f)
    local u = ipu.Variable(ipu.tensor{3, 4})
    local eager = f(point, u):totable()
    u:assign{3, 4}
    local compiled = ipu.func(function(given) return f(given, u) end)(point):totable()
    assert.same(eager, compiled)
    return compiled
  end
  local zero <const> = {unconnected_gradients = "zero"}

  it("not ops before it", function()
    assert.same({3, 8}, found_by(function(given, u)
      local earlier = given * u
      local tape = ipu.GradientTape()
      return tape:gradient(tape(function() return sum_of(earlier * u) end), u)
    end))
    assert.same({1, 4}, found_by(function(given)
      local earlier = given * given
      local tape = ipu.GradientTape()
      return tape:gradient(tape(function() return sum_of(earlier * given) end), given)
    end))
  end)

  it("not ops after it", function()
    assert.same({0, 0}, found_by(function(given, u)
      local tape = ipu.GradientTape()
      local y = tape(function() return given * u end)
      return tape:gradient(sum_of(y * y), u, zero)
    end))
  end)

  it("not what a loop or branch is given from before", function()
    local found = ipu.func(function(given)
      local earlier = given * given
      return ipu.loops.repeat_n(1, function(_)
        local tape = ipu.GradientTape()
        return tape:gradient(tape(function() return sum_of(earlier * given) end), given)
      end, {given * 0})
    end)(point)
    assert.same({1, 4}, found:totable())
  end)
end)
