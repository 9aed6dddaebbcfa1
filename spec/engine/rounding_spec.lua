local ipu = require "ipulua"

local function f16(shape, value) return ipu.full(shape, value, {dtype = "float16"}) end

-- How many elements are as near as float16 gets to 1.001, and how many the step above.
local function tally(t)
  local low, high = 0, 0
  for _, x in ipairs(t:totable()) do
    if x == 1.0009765625 then low = low + 1 end
    if x == 1.001953125 then high = high + 1 end
  end
  return low, high
end

describe("stochastic rounding", function()
  local one = ipu.full({4096}, 1, {dtype = "float16"})
  local thousandth = ipu.full({4096}, 1e-3, {dtype = "float16"})

  local function is_mixed(t)
    local low, high = tally(t)
    assert.equal(4096, low + high)
    assert.is_true(high > 40 and high < 200, high .. " were rounded up")
  end

  it("is off by default", function()
    assert.equal(4096, (tally(one + thousandth)))
    assert.equal(4096, (tally(ipu.func(function(a, b) return a + b end)(one, thousandth))))
  end)

  it("rows 55, 255: is on inside its scope alone, fused or not", function()
    local f = ipu.func(function(a, b)
      local rounded
      do
        local _ <close> = ipu.stochastic_rounding(true)
        rounded = a + b
      end
      return rounded, a + b, (rounded - rounded) + (a + b)
    end)
    local inside, outside, after = f(one, thousandth)
    is_mixed(inside)
    assert.equal(4096, (tally(outside)))
    assert.equal(4096, (tally(after)))
    is_mixed(ipu.stochastic_rounding(true)(function() return one + thousandth end))
  end)

  it("differs from run to run, and a seed begins again", function()
    local f = ipu.func(function(a, b)
      local _ <close> = ipu.stochastic_rounding(true)
      return a + b
    end)
    ipu.reset_ipu_seed(3)
    local a, b = f(one, thousandth):totable(), f(one, thousandth):totable()
    assert.not_same(a, b)
    ipu.reset_ipu_seed(3)
    assert.same(a, f(one, thousandth):totable())
    assert.same(b, f(one, thousandth):totable())
  end)

  -- Of what a program makes of a step: a chain, one op, the end of a product.
  it("differs from run to run in every kind of step", function()
    local wide <const> = ipu.random.normal({64, 64}, {seed = 1})
    local kinds <const> = {
      chain = function(x) return ipu.cast(ipu.tanh(x) * 1.0001, "float16") end,
      op = function(x) return ipu.reduce_sum(ipu.cast(x, "float16"), {axis = 0}) end,
      product = function(x) return ipu.cast(ipu.matmul(x, x), "float16") end,
      ["product and more"] = function(x)
        return ipu.cast(ipu.nn.relu(ipu.matmul(x, x) + 0.3), "float16")
      end,
    }
    for kind, f in pairs(kinds) do
      local program = ipu.func(function(x)
        local _ <close> = ipu.stochastic_rounding(true)
        return f(x)
      end)
      local function two() return {program(wide):totable(), program(wide):totable()} end
      ipu.reset_ipu_seed(3)
      local made = two()
      assert.not_same(made[1], made[2], kind)
      ipu.reset_ipu_seed(3)
      assert.same(made, two(), kind)
    end
  end)

  it("belongs to an op's place in its program", function()
    local x = ipu.full({4096}, 1.0003)
    local function rounded(before, after)
      ipu.reset_ipu_seed(5)
      local _ <close> = ipu.stochastic_rounding(true)
      return (ipu.func(function(t)
        local first = before and ipu.exp(t)
        local y = ipu.cast(t, "float16")
        return y, first, after and ipu.exp(t)
      end)(x):totable())
    end
    local alone = rounded()
    assert.same(alone, rounded(false, true))
    assert.not_same(alone, rounded(true))
  end)

  -- Two results of a program of f after a seed. by_op: nothing is fused.
  local function bits(f, operands, by_op)
    ipu.reset_ipu_seed(5)
    if by_op then ipu.enable_check_numerics() end
    local program, made = ipu.func(f), {}
    for _ = 1, 2 do
      for _, t in ipairs{program(table.unpack(operands))} do made[#made + 1] = t:totable() end
    end
    if by_op then ipu.disable_check_numerics() end
    return made
  end

  it("gives the bits of a program that runs op by op, whatever is fused and copied", function()
    local wide = ipu.cast(ipu.random.normal({64, 48}, {seed = 1}), "float32")
    local half, row, column = ipu.cast(wide, "float16"), f16({48}, 1e-3), f16({64, 1}, 1e-3)
    local cases = {
      chain = function(x, r, c)
        local y = (x + r) * c
        return y, ipu.tanh(y) - x, ipu.cast(wide * 1.0001, "float16")
      end,
      expanded = function(_, r)
        local one_sum = ipu.reshape(ipu.reduce_sum(ipu.cast(r, "float32")) * 21.0003, {1})
        return ipu.cast(ipu.broadcast_to(one_sum, {4096}), "float16") * f16({4096}, 1)
      end,
      product = function(x, r)
        return ipu.cast(ipu.matmul(wide, wide, {transpose_b = true}) * 1.0001, "float16"), x + r
      end,
      loop = function(x, r, c)
        return ipu.loops.repeat_n(
          3, function(y) return ipu.cond(ipu.reduce_sum(c):greater(0), function()
            return (y + r) * 1.001
          end,
          function() return y end) end, {x})
      end,
      gradient = function(x, r, c)
        local y = ipu.cond(ipu.reduce_sum(c):greater(0),
          function() return ipu.exp(x * c) * (x + r) end, function() return x end)
        return y, ipu.gradients(y, {x})[1]
      end,
    }
    for name, f in pairs(cases) do
      local function rounded(...)
        local _ <close> = ipu.stochastic_rounding(true)
        return f(...)
      end
      local fused = bits(rounded, {half, row, column})
      assert.same(bits(rounded, {half, row, column}, true), fused, name)
      for threads = 1, 3, 2 do
        ipu.set_num_threads(threads)
        assert.same(fused, bits(rounded, {half, row, column}), name)
      end
      ipu.set_num_threads(2)
    end
  end)

  -- Rounded up with probability 0.024 each: of 4096, 4 are rounded up twice by chance, and about 98
  -- if by one number.
  it("rounds each op by numbers of its own, also in another region and eagerly", function()
    local function both_up(a, b)
      local count, first, second = 0, a:totable(), b:totable()
      for i, x in ipairs(first) do if x > 1.001 and second[i] > 1.001 then count = count + 1 end end
      return count
    end
    local function inner(a, b)
      return ipu.cond(ipu.reduce_sum(b):greater(0), function() return a + b end,
        function() return a end)
    end
    local f = ipu.func(function(a, b, other)
      local _ <close> = ipu.stochastic_rounding(true)
      return a + b, a + other, inner(a, b), inner(a, other)
    end)
    local again = f16({4096}, 1e-3)
    local made = {f(one, thousandth, again)}
    local _ <close> = ipu.stochastic_rounding(true)
    for _ = 1, 2 do made[#made + 1] = one + thousandth end
    for i, x in ipairs(made) do
      is_mixed(x)
      for k = 1, i - 1 do
        assert.is_true(both_up(x, made[k]) < 20, k .. " and " .. i .. " are rounded alike")
      end
    end
  end)

  -- y = (a + b) · 1, whose derivative by the ones is a + b, which the gradient computes again
  it("rounds what is computed again as it was", function()
    local f = ipu.func(function(a, b, ones)
      local _ <close> = ipu.stochastic_rounding(true)
      local y = ipu.cond(ipu.reduce_sum(b):greater(0), function()
        return ipu.cond(ipu.reduce_sum(a):greater(0), function() return (a + b) * ones end,
          function() return a end)
      end, function() return a end)
      return y, ipu.gradients(y, {ones})[1]
    end)
    local y, slope = f(one, thousandth, one)
    is_mixed(y)
    assert.same(y:totable(), slope:totable())
  end)

  it("rounds the elements of a dataset by their numbers alone", function()
    local function read(options, skipped)
      ipu.reset_ipu_seed(9)
      local _ <close> = ipu.stochastic_rounding(true)
      local d = ipu.data.from_tensor_slices(ipu.cast(ipu.random.normal({300, 40}, {seed = 4}),
        "float16"))
        :map(function(x)
          return x * 1.001 + ipu.loops.repeat_n(2, function(y) return y * 1.003 end, {x})
        end, options)
      for _ = 1, skipped do for _ in d:take(7):iter() do end end
      local made = {}
      for x in d:iter() do made[#made + 1] = x:totable() end
      return made
    end
    local alone = read({num_parallel_calls = 0}, 0)
    assert.not_same(alone[1], alone[2])
    for _, workers in ipairs{1, 3, 8} do
      assert.same(alone, read({num_parallel_calls = workers}, 0))
    end
    assert.same(alone, read({num_parallel_calls = 2}, 3))
  end)

  it("row 256: is chosen by the configuration, and so are overflow and traps", function()
    local cfg = ipu.IPUConfig()
    cfg.floating_point_behaviour.esr = "ON"
    cfg.floating_point_behaviour.nanoo = true
    cfg:configure_ipu_system()
    local big = ipu.full({4}, 10000, {dtype = "float16"})
    local f = ipu.func(function(a, b) return a + b end)
    is_mixed(f(one, thousandth))
    local square = ipu.func(function(x) return x * x end)
    local x = square(big):totable()[1]
    assert.is_true(x ~= x)
    ipu.reset_ipu_configuration()
    assert.equal(65504, square(big):totable()[1])
    assert.equal(4096, (tally(f(one, thousandth))))
    local trapping = ipu.IPUConfig()
    trapping.floating_point_behaviour.oflo = true
    trapping:configure_ipu_system()
    local ok, message = pcall(square, big)
    ipu.reset_ipu_configuration()
    assert.is_false(ok)
    assert.is_truthy(message:find("Tiles in excepted state", 1, true), message)
  end)
end)

describe("float16 results of finite operands", function()
  after_each(ipu.reset_ipu_configuration)
  -- 50000^9 is beyond float32, too.
  local cases <const> = {
    exp = function(x) return ipu.exp(x / 500) end, sinh = function(x) return ipu.sinh(x / 500) end,
    pow = function(x) return x ^ 9 end, reduce_prod = function(x) return ipu.reduce_prod(x) end,
    cumprod = function(x) return ipu.cumprod(x)[9] end,
    chain = function(x) return ipu.nn.relu(ipu.exp(x / 500)) end,
    det = function(x) return ipu.linalg.det(ipu.eye(9, {dtype = "float16"}) * x) end,
  }
  local function number(f, named)
    ipu.reset_ipu_configuration()
    local cfg = ipu.IPUConfig()
    for name in pairs(named) do cfg.floating_point_behaviour[name] = true end
    cfg:configure_ipu_system()
    return ipu.reshape(f(ipu.full({9}, 50000, {dtype = "float16"})), {-1}):totable()[1]
  end

  for name, f in pairs(cases) do
    it("clip where float32 is infinite before: " .. name, function()
      for _, form in ipairs{f, ipu.func(function(x) return f(x) end)} do
        assert.equal(65504, number(form, {}))
        local nan <const> = number(form, {nanoo = true})
        assert.is_true(nan ~= nan)
        assert.error_matches(function() number(form, {oflo = true}) end, "an overflow %(oflo%)")
      end
    end)
  end

  it("clip none that came of an infinity or a division by 0", function()
    local x = ipu.tensor({math.huge, -math.huge, 0}, {dtype = "float16"})
    assert.same({math.huge, 0, 1}, ipu.exp(x):totable())
    assert.equal(math.huge, ipu.log(x):neg():totable()[3])
    assert.equal(math.huge, (x ^ -1):totable()[3])
    assert.equal(math.huge, ipu.reduce_prod(ipu.abs(x) + 1):item())
  end)
end)

describe("traps", function()
  it("name the op that makes a NaN, and its line", function()
    local cfg = ipu.IPUConfig()
    cfg.floating_point_behaviour.inv = true
    cfg:configure_ipu_system()
    local f = ipu.func(function(x)
      return ipu.reduce_sum(x, {axis = 0})
    end)
    local fine = f(ipu.tensor{1.0, 2.0}):item()
    local ok, message = pcall(f, ipu.tensor{1 / 0, -1 / 0})
    ipu.reset_ipu_configuration()
    assert.equal(3, fine)
    assert.is_false(ok)
    assert.is_truthy(message:find("rounding_spec.lua:%d+: Tiles in excepted state: .*reduce_sum"),
      message)
  end)
end)
