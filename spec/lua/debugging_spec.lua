-- ipu.debugging: checks at once and in programs, with the line that the check stands on.

local ipu = require "ipulua"

local debugging <const> = ipu.debugging
local nan <const>, inf <const> = 0 / 0, math.huge

local function line() return debug.getinfo(2, "l").currentline end

local function refused(f, ...)
  local ok, message = pcall(f, ...)
  assert.is_false(ok)
  return message
end

describe("ipu.debugging.check_numerics", function()
  it("gives what is finite back, with its gradient", function()
    assert.same({1, 2}, debugging.check_numerics({1, 2}):totable())
    local v = ipu.Variable{1, 4}
    local tape = ipu.GradientTape()
    local y = tape(function() return ipu.reduce_sum(debugging.check_numerics(ipu.sqrt(v))) end)
    assert.same({0.5, 0.25}, tape:gradient(y, v):totable())
    assert.same({0}, debugging.check_numerics(ipu.zeros{0}).shape)
  end)

  it("names the first element that isn't, at once", function()
    local at <const> = line() + 1
    local message = refused(function() debugging.check_numerics({{0, 1}, {0, nan}}, "loss") end)
    assert.equal("spec/lua/debugging_spec.lua:" .. at .. ": check_numerics: loss: nan at [1, 1]",
      message)
    assert.matches("x: inf at %[2%]", refused(debugging.check_numerics, {1, 2, inf, nan}))
    assert.matches("x: %-inf at %[%]", refused(debugging.check_numerics, -inf))
    assert.matches("'x' must be floating point, got int32",
      refused(debugging.check_numerics, ipu.arange(3)))
  end)

  it("names every place as it is indexed, from 0", function()
    for i = 0, 1 do
      for j = 0, 2 do
        for k = 0, 3 do
          local list = {}
          for n = 0, 23 do list[n + 1] = n == (i * 3 + j) * 4 + k and nan or n end
          local x = ipu.reshape(ipu.tensor(list), {2, 3, 4})
          local message = refused(debugging.check_numerics, x)
          local wanted <const> = string.format("nan at [%d, %d, %d]", i, j, k)
          assert.truthy(message:find(wanted, 1, true), message)
        end
      end
    end
  end)

  it("and in a program whenever it comes by, in a loop too", function()
    local at
    local f = ipu.func(function(x)
      return ipu.loops.repeat_n(3, function(y)
        at = line() + 1
        return debugging.check_numerics(ipu.log(y), "log")
      end, {x})
    end)
    assert.is_true(f(ipu.tensor(1e7)):item() > 0)
    assert.equal("spec/lua/debugging_spec.lua:" .. at .. ": check_numerics: log: nan at []",
      refused(f, ipu.tensor(2.0)))
    assert.is_true(f(ipu.tensor(1e7)):item() > 0)
  end)

  it("in the call of a layer that is trained", function()
    local keras = ipu.keras
    local Check = keras.layers.Layer:extend("Check")
    function Check:call(x) return debugging.check_numerics(x, self.name) end
    local model = keras.Sequential{keras.layers.Dense(1, {input_shape = {2}}),
      Check{name = "checked"}}
    model:compile{optimizer = "sgd", loss = "mse"}
    local x = ipu.ones{4, 2}
    model:fit(x, ipu.ones{4, 1}, {verbose = 0})
    x[3] = nan
    assert.matches("check_numerics: checked: nan at %[2, 0%]",
      refused(model.fit, model, x, ipu.ones{4, 1}, {verbose = 0}))
  end)
end)

describe("ipu.debugging.assert_equal", function()
  it("says which elements differ, of what broadcasts", function()
    debugging.assert_equal({1, 2}, {1, 2})
    debugging.assert_equal(ipu.ones{2, 3}, 1)
    debugging.assert_equal(1, ipu.ones({2}, {dtype = "int32"}))
    assert.matches("assert_equal: 2.0 is not 3.0 at %[1%]",
      refused(debugging.assert_equal, {1, 2}, {1, 3}))
    assert.matches("assert_equal: sum: 0 is not 1 at %[1, 0%]",
      refused(debugging.assert_equal, ipu.tensor({{1}, {0}}, {dtype = "int32"}), 1, "sum"))
    assert.matches("nan is not .*nan at %[0%]", refused(debugging.assert_equal, {nan}, {nan}))
    assert.matches("don't broadcast", refused(debugging.assert_equal, {1, 2}, {1, 2, 3}))
  end)

  it("in programs", function()
    local f = ipu.func(function(x)
      debugging.assert_equal(x, 1, "ones")
      return x * 2
    end)
    assert.same({2, 2}, f(ipu.ones{2}):totable())
    assert.matches("debugging_spec.lua:%d+: assert_equal: ones: 2.0 is not 1.0 at %[1%]",
      refused(f, ipu.tensor{1, 2}))
  end)
end)

describe("ipu.debugging.assert_shapes", function()
  it("takes numbers, -1 for any and names for equal ones", function()
    local a <const>, b <const> = ipu.ones{2, 3}, ipu.ones{3, 4}
    debugging.assert_shapes{{a, {2, -1}}, {a, {"m", "n"}}, {b, {"n", 4}}}
    assert.matches("tensor 1 has the shape %[2, 3%], not %[2, 4%]",
      refused(debugging.assert_shapes, {{a, {2, 4}}}))
    assert.matches("tensor 2 has the shape %[3, 4%], not %[m = 2, 4%]",
      refused(debugging.assert_shapes, {{a, {"m", -1}}, {b, {"m", 4}}}))
    assert.matches("tensor 1 has the shape %[2, 3%], not %[2%]",
      refused(debugging.assert_shapes, {{a, {2}}}))
    assert.matches("entry 1 must be {tensor, shape}", refused(debugging.assert_shapes, {{a}}))
  end)

  it("while a function is traced", function()
    local f = ipu.func(function(x)
      debugging.assert_shapes{{x, {2, "n"}}, {ipu.transpose(x), {"n", 2}}}
      return x
    end)
    assert.same({2, 5}, f(ipu.ones{2, 5}).shape)
    assert.matches("has the shape %[3, 5%]", refused(f, ipu.ones{3, 5}))
  end)
end)

it("the switches for all ops stand there, too", function()
  assert.is_function(debugging.enable_check_numerics)
  assert.is_function(debugging.disable_check_numerics)
end)
