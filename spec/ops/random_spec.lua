-- Draws of random ops, beside the distributions' own numbers. Shares of draws beyond quantiles must
-- lie within five standard deviations of the expected share.

local ipu = require "ipulua"
local core = require "ipulua.core"

local random <const> = ipu.random
local count <const> = 40000

local function share(condition) return ipu.reduce_mean(ipu.cast(condition, "float64")):item() end

local function is_share(expected, condition, of)
  local n <const> = of or condition.size
  assert.is_near(expected, share(condition), 5 * math.sqrt(expected * (1 - expected) / n) + 1e-9)
end

-- p → the number of standard deviations above the mean that a share p of draws exceeds, Φ⁻¹(1 - p).
-- Also for the normal distribution that is cut at 2.
local normal_above <const> = {[0.001] = 3.0902323, [0.01] = 2.3263479, [0.05] = 1.6448536,
  [0.25] = 0.6744898, [0.5] = 0}
local truncated_above <const> = {[0.001] = 1.9826256, [0.01] = 1.8480835, [0.05] = 1.4722616,
  [0.25] = 0.6391119, [0.5] = 0}

-- Draws of mean 3 and deviation 2, in order: also each second one and those between them, and no
-- draw says anything of its neighbour.
local function check_normal(x, above)
  local z <const> = (ipu.cast(x, "float64") - 3) / 2
  local pairs_of <const> = ipu.reshape(z, {-1, 2})
  local first <const>, second <const> = pairs_of[{{}, 1}], pairs_of[{{}, 2}]
  for p, quantile in pairs(above) do
    for _, part in ipairs{z, first, second} do
      is_share(p, ipu.greater(part, quantile))
      is_share(p, ipu.less(part, -quantile))
    end
  end
  is_share(0.5, ipu.greater(first * second, 0))
  is_share(0.5, ipu.greater(ipu.abs(first), ipu.abs(second)))
end

local floats <const> = {"float32", "float64", "float16", "bfloat16"}

local checks = {}

checks["random.normal"] = function()
  for i, dtype in ipairs(floats) do
    check_normal(random.normal({count}, {mean = 3, stddev = 2, dtype = dtype, seed = i}),
      normal_above)
  end
end

checks["random.truncated_normal"] = function()
  for i, dtype in ipairs(floats) do
    local x <const> = random.truncated_normal({count}, {mean = 3, stddev = 2, dtype = dtype,
      seed = i})
    check_normal(x, truncated_above)
    assert.is_true(ipu.reduce_max(ipu.abs(ipu.cast(x, "float64") - 3)):item() <= 4.02)
  end
end

checks["random.uniform"] = function()
  for i, dtype in ipairs(floats) do
    local x <const> = random.uniform({count}, {minval = -1, maxval = 3, dtype = dtype, seed = i})
    -- half types draw from 256 numbers at least
    for _, p in ipairs(i > 2 and {0.25, 0.5, 0.75} or {0.001, 0.05, 0.25, 0.5, 0.75, 0.95}) do
      is_share(p, ipu.less(x, 4 * p - 1))
    end
  end
  for i, dtype in ipairs{"int8", "uint8", "int32", "int64"} do
    local x <const> = random.uniform({count}, {minval = 2, maxval = 9, dtype = dtype, seed = i})
    for value = 2, 8 do is_share(1 / 7, ipu.equal(x, value)) end
  end
end

checks["random.bernoulli"] = function()
  for i, dtype in ipairs{"float32", "float64", "float16", "bfloat16", "int32", "bool"} do
    for _, p in ipairs{0, 0.1, 0.75, 1} do
      local x <const> = random.bernoulli({count}, {p = p, dtype = dtype, seed = i})
      is_share(p, ipu.equal(ipu.cast(x, "float32"), 1))
      is_share(1 - p, ipu.equal(ipu.cast(x, "float32"), 0))
    end
  end
end

-- Logits may be of any size: only their differences count.
checks["random.categorical"] = function()
  local row <const> = {0, math.log(2), math.log(3), -math.huge}
  local logits = {}
  for i, shift in ipairs{0, 700, -900} do
    logits[i] = {}
    for k, each in ipairs(row) do logits[i][k] = each + shift end
  end
  for i, dtype in ipairs(floats) do
    local x <const> = random.categorical(ipu.tensor(logits, "float64"), count, {seed = i})
    for r = 1, 3 do
      for k = 0, 2 do is_share((k + 1) / 6, ipu.equal(x[r], k)) end
    end
    local few <const> = random.categorical(ipu.tensor({row, {0, 0, 0, 0}}, dtype), count,
      {seed = i})
    for k = 0, 3 do is_share(1 / 4, ipu.equal(few[2], k)) end
  end
end

-- Of 200 orders of 40 rows: a permutation each, every row anywhere.
checks["random.shuffle"] = function()
  local x <const>, places = ipu.reshape(ipu.arange(80), {40, 2}), {}
  for seed = 1, 200 do
    local rows <const> = random.shuffle(x, {seed = seed})
    assert.same(x:totable(), ipu.sort(rows, {axis = 0}):totable())
    places[seed] = ipu.argmax(ipu.cast(ipu.equal(rows[{{}, 1}], 0), "int32")):item()
    assert.is_true(ipu.reduce_all(ipu.equal(rows[{{}, 2}] - rows[{{}, 1}], 1)):item())
  end
  for _, quarter in ipairs{10, 20, 30} do
    is_share(quarter / 40, ipu.less(ipu.tensor(places), quarter))
  end
end

checks["nn.dropout"] = function()
  for i, dtype in ipairs(floats) do
    local x <const> = ipu.ones({400, 100}, {dtype = dtype}) * 3
    local y <const> = ipu.nn.dropout(x, {rate = 0.25, seed = i})
    is_share(0.25, ipu.equal(y, 0))
    is_share(0.75, ipu.equal(y, 4))
    local alike <const> = ipu.nn.dropout(x, {rate = 0.25, noise_shape = {400, 1}, seed = i})
    is_share(0.25, ipu.equal(alike, 0), 400)
    is_share(0.75, ipu.equal(alike, 4), 400)
    assert.same(alike[{{}, 1}]:totable(), alike[{{}, 100}]:totable())
  end
end

describe("draws of", function()
  for name, check in pairs(checks) do it(name, check) end

  it("a call that was refused are still to come", function()
    local x <const> = ipu.ones{4}
    local function after(f, ...)
      ipu.random.set_seed(3)
      if f then assert.is_false((pcall(f, ...))) end
      return ipu.random.uniform{8}:totable()
    end
    local wanted <const> = after()
    assert.same(wanted, after(ipu.random.uniform, {3}, {minval = 3, maxval = 1}))
    assert.same(wanted, after(ipu.random.normal, {-3}))
    assert.same(wanted, after(ipu.random.normal, {3}, {dtype = "int32"}))
    assert.same(wanted, after(ipu.random.truncated_normal, {1 << 40, 1 << 20}))
    assert.same(wanted, after(ipu.nn.dropout, x, {rate = 2}))
    assert.same(wanted, after(ipu.random.shuffle, ipu.tensor(1)))
    assert.are_not.same(wanted, ipu.random.uniform{8}:totable())
  end)

  it("every random op of the registry are looked at here", function()
    local missing = {}
    local function walk(functions, prefix)
      for name, value in pairs(functions) do
        if type(value) == "table" then walk(value, prefix .. name .. ".")
        else
          local row <const> = core.describe_op(prefix .. name)
          if row.random and not row.internal and not checks[row.name] then
            missing[#missing + 1] = row.name
          end
        end
      end
    end
    walk(core.ops, "")
    assert.same({}, missing)
  end)
end)
