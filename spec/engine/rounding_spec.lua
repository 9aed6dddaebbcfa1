local ipu = require "ipulua"

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
    assert.is_truthy(message:find("rounding_spec.lua:%d+: Tiles in excepted state: .*reduce_sum"), message)
  end)
end)
