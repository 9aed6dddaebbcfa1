-- Evenly spaced numbers: which dtype they have, what fits it, and where they end.

local ipu = require "ipulua"

local function raises(kind, pattern, ...)
  local ok, message = pcall(...)
  assert.is_false(ok)
  assert.matches(pattern, message)
  assert.equal(kind, ipu.last_error().kind)
end

describe("arange", function()
  it("is int32 for integers, float32 otherwise, or the given dtype", function()
    for _, case in ipairs{
      {{4}, "int32", {0, 1, 2, 3}}, {{2, 10, 2}, "int32", {2, 4, 6, 8}},
      {{5, 0, -2}, "int32", {5, 3, 1}},
      {{0, 1, 0.25}, "float32", {0, 0.25, 0.5, 0.75}}, {{1.0, 4.0}, "float32", {1, 2, 3}},
      {{0}, "int32", {}}, {{3, 1}, "int32", {}},
      {{1}, "int32", {0}}, {{2}, "int32", {0, 1}}, {{3, dtype = "float16"}, "float16", {0, 1, 2}},
      {{2 ^ 53 | 0, (2 ^ 53 | 0) + 2, dtype = "int64"}, "int64", {2 ^ 53 | 0, (2 ^ 53 | 0) + 1}},
    } do
      local t = ipu.arange(case[1])
      assert.equal(case[2], t.dtype)
      assert.same(case[3], t:totable())
    end
  end)

  it("refuses a dtype that does not hold its numbers", function()
    raises("value", "299 does not fit int8", ipu.arange, 300, {dtype = "int8"})
    raises("value", "0.25 is no int32", ipu.arange, 0, 1, 0.25, {dtype = "int32"})
    raises("value", "3000000000 does not fit int32", ipu.arange, 3000000000, 3000000002)
  end)

  it("makes ten million elements without a Lua list", function()
    local before = collectgarbage("count")
    local t = ipu.arange(1e7 | 0)
    assert.is_true(collectgarbage("count") - before < 1000) -- KiB
    assert.equal(9999999, t[1e7 | 0]:item())
  end)
end)

describe("linspace", function()
  it("includes both ends", function()
    assert.same({0, 0.25, 0.5, 0.75, 1}, ipu.linspace(0, 1, 5):totable())
    assert.same({3}, ipu.linspace(3, 4, 1):totable())
    assert.same({0}, ipu.linspace(0, 1, 0).shape)
    assert.same({0, 5, 10}, ipu.linspace(0, 10, 3, {dtype = "int32"}):totable())
    local t = ipu.linspace(0.1, 0.7, 50)
    assert.is_near(0.7, t[50]:item(), 1e-7)
  end)

  it("and arange reach from end to end of what a dtype has", function()
    local least, most = math.mininteger, math.maxinteger
    assert.same({least, -(1 << 62), 0, 1 << 62},
      ipu.arange(least, most, 1 << 62, {dtype = "int64"}):totable())
    assert.same({most, (1 << 62) - 1, -1, -(1 << 62) - 1},
      ipu.arange(most, least, -(1 << 62), {dtype = "int64"}):totable())
    assert.same({most, -1}, ipu.arange(most, least, least, {dtype = "int64"}):totable())
    raises("value", "too many", ipu.arange, least, most, 1, {dtype = "int64"})
    raises("value", "too many", ipu.arange, 0, most, {dtype = "int64"})
    assert.same({-1e308, -5e307, 0, 5e307},
      ipu.arange(-1e308, 1e308, 5e307, {dtype = "float64"}):totable())
    local line = ipu.linspace(-1.5e308, 1.5e308, 7, {dtype = "float64"}):totable()
    for i = 1, 7 do assert.is_near((i - 4) * 0.5, line[i] / 1e308, 1e-14) end
    assert.equal(1.5e308, line[7])
  end)
end)
