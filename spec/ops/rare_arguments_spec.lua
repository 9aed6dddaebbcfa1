-- Arguments and elements that few calls have, beside plain loops or numbers worked out by hand.

local ipu = require "ipulua"

local nan <const>, inf <const> = 0 / 0, math.huge

-- Elements as words: NaN equals itself.
local function words(x)
  local list = ipu.reshape(x, {-1}):totable()
  for i, value in ipairs(list) do list[i] = value ~= value and "nan" or tostring(value + 0.0) end
  return table.concat(list, " ")
end

local function is(expected, x) assert.equal(words(ipu.tensor(expected, x.dtype)), words(x)) end

-- The positions that Python's slice(first, last, step) takes of n; false is an open end.
local function positions(n, first, last, step)
  local low, high = 0, n
  if step < 0 then low, high = -1, n - 1 end
  local function within(at, open)
    if not at then return open end
    return math.min(math.max(at < 0 and at + n or at, low), high)
  end
  local list = {}
  local from <const> = within(first, step < 0 and high or low)
  local to <const> = within(last, step < 0 and low or high)
  for i = from, to + (step < 0 and 1 or -1), step do list[#list + 1] = i end
  return list
end

describe("strided_slice", function()
  it("takes what Python takes, from any end to any other", function()
    local ends <const> = {false, -5, -4, -3, -1, 0, 1, 2, 3, 4}
    for n = 0, 4, 2 do
      local x <const> = ipu.arange(n)
      for _, first in ipairs(ends) do
        for _, last in ipairs(ends) do
          for _, step in ipairs{-3, -1, 1, 2} do
            local y <const> = ipu.strided_slice(x, {begins = {first}, ends = {last},
              strides = {step}})
            assert.same(positions(n, first, last, step), y:totable(),
              ("%d: %s:%s:%d"):format(n, first, last, step))
          end
        end
      end
    end
  end)
end)

-- Where element i of an axis of n comes from, with so many in front: x is read to and fro.
local function reflected(i, front, n, twice)
  local at, period = i - front, twice and 2 * n or math.max(2 * n - 2, 1)
  at = at % period
  if at < n then return at end
  return twice and period - 1 - at or period - at
end

describe("pad", function()
  it("mirrors at both ends, by any number", function()
    for mode, twice in pairs{REFLECT = false, SYMMETRIC = true} do
      for n = 1, 4 do
        local most <const> = twice and n or n - 1
        for front = 0, most do
          for behind = 0, most do
            local expected = {}
            for i = 0, front + n + behind - 1 do
              expected[i + 1] = reflected(i, front, n, twice)
            end
            local x <const> = ipu.stack({ipu.arange(n), ipu.arange(n) + 10}, {axis = 1})
            local y <const> = ipu.pad(x, {paddings = {{front, behind}, {0, 0}}, mode = mode})
            assert.same(expected, y[{{}, 1}]:totable())
            is(expected, y[{{}, 2}] - 10)
          end
        end
      end
    end
  end)

  it("takes a fraction, a negative number and infinity for its frame", function()
    for _, value in ipairs{0.75, -2.5, inf} do
      for _, dtype in ipairs{"float32", "float64", "float16", "bfloat16"} do
        is({value, 1, 1, value, value}, ipu.pad(ipu.ones({2}, {dtype = dtype}),
          {paddings = {{1, 2}}, constant_values = value}))
      end
    end
  end)
end)

describe("order", function()
  local x <const> = ipu.tensor{0, -0.0, nan, -1, 0, inf, -inf, nan, -0.0}

  it("has NaN at its end, and 0 beside -0 as they stood", function()
    for _, dtype in ipairs{"float32", "float64", "float16", "bfloat16"} do
      local y <const> = ipu.cast(x, dtype)
      assert.same({6, 3, 0, 1, 4, 8, 5, 2, 7}, ipu.argsort(y):totable())
      assert.same({2, 7, 5, 0, 1, 4, 8, 3, 6},
        ipu.argsort(y, {direction = "DESCENDING"}):totable())
      local _, at = ipu.top_k(y, {k = 5})
      assert.same({2, 7, 5, 0, 1}, at:totable())
    end
  end)

  -- Fewer than a quarter are taken by another way than more.
  it("of equals takes the first ones, whatever k", function()
    local y <const> = ipu.concat({ipu.zeros{2}, ipu.ones{400}}, {axis = 0})
    for _, k in ipairs{1, 3, 63, 64, 65, 100, 101, 300} do
      local values, at = ipu.top_k(y, {k = k})
      is(ipu.ones{k}:totable(), values)
      assert.same((ipu.arange(k) + 2):totable(), at:totable())
    end
  end)
end)

describe("histogram", function()
  local x <const>, levels <const> = ipu.tensor{nan, -2, -1, 0, 1, 1, 2, inf, -inf, nan}, {-1, 1}

  it("counts a level as above itself, infinities at the ends, NaN nowhere", function()
    is({2, 2, 4}, ipu.histogram(x, ipu.tensor(levels)))
    is({0, 1, 7}, ipu.histogram(x, ipu.tensor(levels), {absolute_of_input = true}))
    is({12, 22, 34}, ipu.histogram_update({10, 20, 30}, x, ipu.tensor(levels)))
    is({10, 21, 37}, ipu.histogram_update({10, 20, 30}, x, ipu.tensor(levels),
      {absolute_of_input = true}))
  end)
end)

describe("cumsum", function()
  it("goes along columns, however many stand side by side", function()
    for _, columns in ipairs{2, 63, 64, 65, 128, 129, 257, 1025} do
      for _, dtype in ipairs{"float32", "float64", "int32", "int64", "int8"} do
        local rows <const> = ipu.cast(ipu.arange(columns) % 7, dtype)
        local x <const> = ipu.stack({rows, rows, rows}, {axis = 0})
        local y <const> = ipu.cumsum(x, {axis = 0})
        for k = 1, 3 do is((ipu.arange(columns) % 7 * k):totable(), y[k]) end
      end
    end
  end)
end)

describe("cast", function()
  -- Between two numbers of bfloat16, by 1 nearer to one of them: more bits than float64 has.
  it("rounds an int64 to a half type once", function()
    for _, bits in ipairs{40, 53, 54, 60} do
      local one <const> = 1 << bits
      local middle <const> = one + (one >> 8)
      is({one, one + (one >> 7), one, -one, -one - (one >> 7), -one},
        ipu.cast(ipu.tensor({middle, middle + 1, middle - 1, -middle, -middle - 1, -middle + 1},
          "int64"), "bfloat16"))
    end
  end)
end)

describe("transpose", function()
  it("on several threads takes rows that are no multiple of those cut for them", function()
    finally(function() ipu.set_num_threads(0) end)
    ipu.set_num_threads(3)
    for _, shape in ipairs{{96, 1500}, {1500, 96}, {160, 901}, {1000, 131}, {64, 2048}} do
      local rows <const>, columns <const> = shape[1], shape[2]
      local wide <const> = ipu.reshape(ipu.arange(rows * (columns + 1)), {rows, columns + 1})
      local y <const> = ipu.transpose(ipu.slice(wide, {0, 1}, {rows, columns}))
      local expected <const> = ipu.reshape(ipu.arange(columns) + 1, {columns, 1})
        + ipu.arange(rows) * (columns + 1)
      assert.is_true(ipu.reduce_all(ipu.equal(y, expected)):item())
    end
  end)
end)

describe("a reduction", function()
  local dtypes <const> = {"float32", "float64", "float16", "bfloat16", "int8", "uint8", "int32",
    "int64"}

  -- Rows that differ from others in their first element, one in the middle or the last one.
  it("reads every element of a row and of a column, at any length", function()
    for _, n in ipairs{1, 2, 7, 8, 9, 15, 17, 31, 33, 64, 65, 127, 129, 255, 257, 511, 512, 513,
      514, 517, 1023, 1025, 2049} do
      local one <const> = ipu.one_hot({0, n // 2, n - 1}, n)
      for _, dtype in ipairs(dtypes) do
        local x <const> = ipu.cast(one, dtype)
        for axis, of in pairs{[1] = x, [0] = ipu.transpose(x)} do
          is({1, 1, 1}, ipu.reduce_sum(of, {axis = axis}))
          is({1, 1, 1}, ipu.reduce_max(of, {axis = axis}))
          is({0, 0, 0}, ipu.reduce_min(1 - of, {axis = axis}))
          is({3, 3, 3}, ipu.reduce_prod(of * 2 + 1, {axis = axis}))
          if dtype ~= "uint8" then
            is({-2, -2, -2}, ipu.reduce_min(of * 2 - 4 * of, {axis = axis}))
            is(n == 1 and {-3, -3, -3} or {-4, -4, -4}, ipu.reduce_min(of - 4, {axis = axis}))
            is({-3, -3, -3}, ipu.reduce_max(of - 4, {axis = axis}))
          end
        end
      end
      local set <const> = ipu.cast(one, "bool")
      for axis, of in pairs{[1] = set, [0] = ipu.transpose(set)} do
        assert.same({true, true, true}, ipu.reduce_any(of, {axis = axis}):totable())
        assert.same({false, false, false},
          ipu.reduce_all(ipu.logical_not(of), {axis = axis}):totable())
      end
    end
  end)
end)

describe("split", function()
  -- As numpy.split(x, 4) and torch.split(x, [4]).
  it("tells the size of one part from a number of parts", function()
    local x <const> = ipu.tensor{1, 2, 3, 4}
    local function parts(f)
      local list = {}
      for i, part in ipairs{f()} do list[i] = words(part) end
      return list
    end
    local cases <const> = {
      {function() return ipu.split(x, {4}) end, {"1.0 2.0 3.0 4.0"}},
      {function() return ipu.split(x, 4) end, {"1.0", "2.0", "3.0", "4.0"}},
      {function() return ipu.split(x, {count_or_sizes = {4}, axis = -1}) end,
        {"1.0 2.0 3.0 4.0"}},
      {function() return ipu.split(x, {1, 3}) end, {"1.0", "2.0 3.0 4.0"}},
    }
    for _, case in ipairs(cases) do
      assert.same(case[2], parts(case[1]))
      assert.same(case[2], parts(ipu.func(case[1])))
    end
    assert.error_matches(function() ipu.split(x, {2}) end, "the sizes add up to 2")
  end)

  it("of both kinds in one function", function()
    local f = ipu.func(function(x)
      local whole = ipu.split(x, {2})
      local first, second = ipu.split(x, 2)
      return whole * 1, first * 1, second * 1
    end)
    local whole, first, second = f(ipu.tensor{5, 7})
    assert.equal("5.0 7.0", words(whole))
    assert.equal("5.0", words(first))
    assert.equal("7.0", words(second))
  end)
end)
