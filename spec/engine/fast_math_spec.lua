-- Rewrites that change rounding: made where the configuration allows them, and nowhere else.

local config = require "ipulua.config"
local ipu = require "ipulua"
local pipelines = require "spec.support.pipelines"

-- The ops that f's program computes, in order, and its results, element by element.
local function compiled(options, f, ...)
  local _ <close> = pipelines.device(1, options)
  local traced, ops = ipu.func(f), {}
  local result = traced(...)
  for _, n in ipairs(ipu.graph.nodes(traced)) do
    if n.op ~= "input" and n.op ~= "argument" and n.op ~= "constant" and #n.operands > 0 then
      ops[#ops + 1] = n.op
    end
  end
  return ops, result:reshape{-1}:totable()
end

local fast <const> = {["optimizations.math.fast"] = true}

describe("optimizations.math.fast", function()
  after_each(function() config.reset_ipu_configuration() end)

  local numbers = ipu.random.uniform({1000}, {minval = 0.001, maxval = 1000, seed = 3})
  local divisors = ipu.random.uniform({1000}, {minval = 1, maxval = 9, seed = 4})

  for name, case in pairs{
    ["a division by a number"] = {function(x) return x / 3 end, {"div"}, {"mul"}, function(x)
      return x / 3
    end},
    ["a division by a list"] = {function(x) return x / divisors end, {"div"}, {"mul"},
      function(x, i) return x / divisors[i]:item() end},
    ["products with several numbers"] =
      {function(x) return 0.7 * (x * 3 / 7) end, {"mul", "div", "mul"}, {"mul"}, function(x)
        return x * 3 / 7 * 0.7
      end},
    ["a division by a square root"] =
      {function(x) return (x + 1) / ipu.sqrt(x) end, {"add", "sqrt", "div"},
        {"add", "rsqrt", "mul"},
        function(x) return (x + 1) / math.sqrt(x) end},
  } do
    it("rewrites " .. name
      .. ": results are within 1e-6, some differ in their last bits", function()
      local f, plain_ops, fast_ops, exact = table.unpack(case)
      local ops, plain = compiled({}, f, numbers)
      assert.same(plain_ops, ops)
      local rewritten, quick = compiled(fast, f, numbers)
      assert.same(fast_ops, rewritten)
      local differing = 0
      for i, x in ipairs(numbers:totable()) do
        local right = exact(x, i)
        assert(math.abs(quick[i] - right) <= 1e-6 * right,
          string.format("f(%.9g) is %.9g, not %.9g", x, quick[i], right))
        if quick[i] ~= plain[i] then differing = differing + 1 end
      end
      assert.is_true(differing > 0)
    end)
  end

  it("is off by default: each operation rounds its own result", function()
    local _, plain = compiled({}, function(x) return x * 3 / 7 end, numbers)
    local rounded = {}
    for i, x in ipairs(numbers:totable()) do
      local product = string.unpack("f", string.pack("f", x * 3))
      rounded[i] = string.unpack("f", string.pack("f", product / 7))
    end
    assert.same(rounded, plain)
  end)

  it("leaves alone what it would spoil", function()
    local whole, halves = ipu.tensor({1, 2, 7}, {dtype = "int32"}),
      ipu.tensor({1, 2, 7}, {dtype = "float16"})
    for _, case in ipairs{
      {function(x) return x / 0 end, numbers, {"div"}}, -- infinite, not NaN
      {function(x) return x / 1e-39 end, numbers, {"div"}}, -- the reciprocal is no float32
      {function(x) return (x * 1e30) * 1e30 end, numbers, {"mul", "mul"}},
      -- of float16 a reciprocal would cost three digits
      {function(x) return x / 3 end, halves, {"div"}},
      {function(x) return x // 3 end, whole, {"floordiv"}},
      -- two read the root
      {function(x) return x / ipu.sqrt(x) + ipu.sqrt(x) end, numbers, {"sqrt", "div", "add"}},
    } do
      local ops, plain = compiled({}, case[1], case[2])
      assert.same(case[3], ops)
      local kept, quick = compiled(fast, case[1], case[2])
      assert.same(case[3], kept)
      assert.same(plain, quick)
    end
  end)

  it("reaches into loops, and makes a program cheaper", function()
    local f = ipu.func(function(x)
      return (ipu.loops.repeat_n(10, function(y) return (y + x) / 3 end, {x}))
    end)
    local function run(options)
      local _ <close> = pipelines.device(1, options)
      return f(numbers):totable(), ipu.estimate(f, {inputs = {numbers}}).cycles.compute
    end
    local plain, dear = run{}
    local quick, cheap = run(fast)
    for i, x in ipairs(plain) do assert.near(x, quick[i], 2e-6 * x) end
    assert.is_true(cheap < dear)
  end)
end)
