-- Traps of floating-point events, by the definitions of IEEE 754-2019, 7.2 to 7.4. They are looked
-- for in single calls, compiled functions, loops and sessions, inside and outside of fused steps.

local ipu = require "ipulua"

local huge <const> = math.huge
local function row(a, b) return ipu.tensor{{a, b}} end

-- {words, option, function of two matrices [1, 2] and [2, 1], a, b}
local events <const> = {
  {"inf - inf", "inv", function(a) return a - a end, {huge, 1}, {1, 1}},
  {"0 * inf", "inv", function(a, b) return a * ipu.transpose(b) end, {huge, 1}, {0, 1}},
  {"inf / inf", "inv", function(a) return a / a end, {-huge, 1}, {0, 1}},
  {"the sine of inf", "inv", function(a) return ipu.sin(a) end, {-huge, 1}, {0, 1}},
  {"the root of -inf", "inv", function(a) return ipu.sqrt(a) end, {-huge, 1}, {0, 1}},
  {"a product with 0 * inf", "inv", ipu.matmul, {huge, 1}, {0, 1}},
  {"a product with inf - inf", "inv", ipu.matmul, {huge, 1}, {1, -huge}},
  {"a product that a chain follows", "inv",
    function(a, b) return ipu.nn.relu(ipu.matmul(a, b) + 1) end, {huge, -huge}, {1, 1}},
  {"a sum of inf and -inf", "inv", function(a) return ipu.reduce_sum(a) end, {huge, -huge}, {1, 1}},
  {"softmax of inf", "inv", function(a) return ipu.nn.softmax(a) end, {huge, huge}, {1, 1}},
  {"the quotient by 0", "div0", function(a, b) return a / ipu.transpose(b) end, {1, 1}, {0, 1}},
  {"the logarithm of 0", "div0", function(a) return ipu.log(a) end, {0, 1}, {1, 1}},
  {"log1p of -1", "div0", function(a) return ipu.log1p(a) end, {-1, 1}, {1, 1}},
  {"a power below 0 of 0", "div0", function(a, b) return a ^ ipu.transpose(b) end, {0, 1}, {-1, 1}},
  {"a square", "oflo", function(a) return a * a end, {1e30, 1}, {1, 1}},
  {"a product of matrices", "oflo", ipu.matmul, {1e30, 1}, {1e30, 1}},
  {"a product that a chain follows", "oflo",
    function(a, b) return ipu.nn.relu(ipu.matmul(a, b) + 1) end, {1e30, 1}, {1e30, 1}},
  {"a sum", "oflo", function(a) return ipu.reduce_sum(a) end, {3e38, 3e38}, {1, 1}},
  {"a running sum", "oflo", function(a) return ipu.cumsum(a, {axis = 1}) end, {3e38, 3e38}, {1, 1}},
  {"a convolution", "oflo", function(a, b)
    return ipu.nn.conv2d(a:reshape{1, 1, 2, 1}, b:reshape{1, 2, 1, 1}, {padding = "VALID"})
  end, {1e30, 1}, {1e30, 1}},
}

-- No event: infinities that were there, that the script wrote, or that are values.
local none <const> = {
  {"inf + 1", function(a, b) return ipu.matmul(a + 1, b) end, {huge, 1}, {1, 1}},
  {"NaN that was there", function(a, b) return ipu.matmul(a * 0, b) end, {0 / 0, 1}, {1, 1}},
  {"padding with infinities", function(a)
    return ipu.pad(a, {{0, 0}, {1, 1}}, {constant_values = -huge})
  end, {1, 1}, {1, 1}},
  {"softmax with masks", function(a) return ipu.nn.softmax(a) end, {-huge, 1}, {1, 1}},
  {"where", function(a) return ipu.where(ipu.less(a, 2), a, huge) end, {1, 3}, {1, 1}},
  {"the loss where no alignment is long enough", function(a)
    return ipu.nn.ctc_loss(ipu.tensor({{1, 1, 1}}, {dtype = "int32"}), a:reshape{1, 1, 2},
      {3}, {1})
  end, {1, 3}, {1, 1}},
  {"the logarithm of a determinant", function(a)
    return select(2, ipu.linalg.slogdet(ipu.matmul(a, a, {transpose_a = true})))
  end, {1, 0}, {1, 1}},
}

local forms <const> = {
  ["a single call"] = function(f, a, b) return f(a, b) end,
  ["a compiled function"] = function(f, a, b) return ipu.func(function(...) return f(...) end)(a, b)
  end,
  ["a loop"] = function(f, a, b)
    return ipu.func(function(x, y)
      return ipu.loops.repeat_n(2, function(sum) return sum + ipu.reduce_max(f(x, y)) end, {0.0})
    end)(a, b)
  end,
  ["a session"] = function(f, a, b)
    local x, y = ipu.placeholder("float32", {1, 2}), ipu.placeholder("float32", {2, 1})
    local sess <close> = ipu.Session()
    local out = ipu.ipu_compiler.compile(function(...) return f(...) end, {x, y})
    return sess:run(out, {feed_dict = {[x] = a, [y] = b}})
  end,
}

local function with(names, f, ...)
  local cfg = ipu.IPUConfig()
  for _, name in ipairs(names) do cfg.floating_point_behaviour[name] = true end
  cfg:configure_ipu_system()
  local ok, problem = pcall(f, ...)
  ipu.reset_ipu_configuration()
  return ok, problem
end

describe("a trap", function()
  after_each(ipu.reset_ipu_configuration)
  for name, form in pairs(forms) do
    it("stops " .. name .. " that makes a NaN or an infinity", function()
      for _, each in ipairs(events) do
        local words, option, f, a, b = table.unpack(each)
        local other <const> = option == "oflo" and "inv" or "oflo"
        a, b = row(table.unpack(a)), ipu.transpose(row(table.unpack(b)))
        local ok, problem = with({option}, form, f, a, b)
        assert.is_false(ok, option .. ": " .. words)
        assert.matches("Tiles in excepted state: an? %a+.*%(" .. option .. "%)", problem)
        assert.is_true((with({other}, form, f, a, b)), other .. ": " .. words)
        assert.is_true((with({}, form, f, a, b)), words)
      end
    end)

    it("lets pass in " .. name .. " what is no event", function()
      for _, each in ipairs(none) do
        local words, f, a, b = table.unpack(each)
        a, b = row(table.unpack(a)), ipu.transpose(row(table.unpack(b)))
        local ok, problem = with({"inv", "oflo"}, form, f, a, b)
        assert.is_true(ok, words .. ": " .. tostring(problem))
      end
    end)
  end

  it("stops sums of each dtype", function()
    for dtype, large in pairs{float16 = 6e4, bfloat16 = 3e38, float32 = 3e38, float64 = 1.7e308} do
      local function sum_of(...)
        local x = ipu.tensor({...}, {dtype = dtype})
        return function() return ipu.reduce_sum(x) end
      end
      for _, form in ipairs{function(f) return f() end, function(f) return ipu.func(f)() end} do
        assert.is_false((with({"oflo"}, form, sum_of(large, large))), dtype)
        assert.is_true((with({"inv"}, form, sum_of(large, large))), dtype)
        assert.is_false((with({"inv"}, form, sum_of(-huge, huge))), dtype)
        assert.is_true((with({"oflo"}, form, sum_of(-huge, huge))), dtype)
        assert.is_true((with({"inv", "oflo"}, form, sum_of(-huge, 1, 0 / 0))), dtype)
        assert.is_true((with({"inv", "oflo"}, form, sum_of(-large, large))), dtype)
      end
    end
  end)

  it("stops sums over replicas", function()
    for _, each in ipairs{{"oflo", 3e38, 3e38}, {"inv", huge, -huge}} do
      local cfg = ipu.IPUConfig()
      cfg.auto_select_ipus = 2
      cfg.floating_point_behaviour[each[1]] = true
      cfg:configure_ipu_system()
      local f = ipu.func(function(x)
        local own <const> = ipu.gather(x, ipu.replication_index())
        return ipu.cross_replica_sum(own)
      end)
      local strategy = ipu.IPUStrategy()
      local ok, problem = pcall(strategy.run, strategy, f, {ipu.tensor{each[2], each[3]}})
      ipu.reset_ipu_configuration()
      assert.is_false(ok, each[1])
      assert.matches("Tiles in excepted state: .*cross_replica_sum", problem)
    end
  end)

  it("lets a function on the host give infinities", function()
    local give = ipu.host_callback(function(x) return x * huge end, {outputs = {{{2}, "float32"}}})
    local f = ipu.func(function(x) return give(x) end)
    assert.is_true((with({"oflo"}, f, ipu.tensor{1, 2})))
  end)
end)
