-- Random chains of dataset stages against the same done on Lua lists.

local ipu = require "ipulua"
local data = ipu.data

-- A small generator of its own, so that a seed names a case.
local function random_of(seed)
  local state = seed
  return function(n)
    state = (state * 6364136223846793005 + 1442695040888963407) & math.maxinteger
    return (state >> 33) % n
  end
end

local function filtered(list, keep)
  local out = {}
  for i, x in ipairs(list) do
    if keep(x, i) then out[#out + 1] = x end
  end
  return out
end

local function mapped(list, f)
  local out = {}
  for i, x in ipairs(list) do out[i] = f(x, i) end
  return out
end

local function joined(...)
  local out = {}
  for _, list in ipairs {...} do table.move(list, 1, #list, #out + 1, out) end
  return out
end

local function sub(list, from, to) return table.move(list, from, math.min(to, #list), 1, {}) end

-- name → (dataset, list, random) → dataset, list. Elements are int64 scalars.
local stages = {}

function stages.map(ds, list, random)
  local k = random(5)
  return ds:map(function(x) return x * 2 + k end, {num_parallel_calls = random(3)}), mapped(list, function(x) return x * 2 + k end)
end

function stages.map_eager(ds, list)
  return ds:map(function(x) return x + 1 end, {eager = true}), mapped(list, function(x) return x + 1 end)
end

function stages.filter(ds, list, random)
  local m = random(3) + 2
  return ds:filter(function(x) return ipu.not_equal(x % m, 0) end), filtered(list, function(x) return x % m ~= 0 end)
end

function stages.take(ds, list, random)
  local n = random(9)
  return ds:take(n), sub(list, 1, n)
end

function stages.skip(ds, list, random)
  local n = random(5)
  return ds:skip(n), sub(list, n + 1, #list)
end

function stages.shard(ds, list, random)
  local n = random(3) + 1
  local index = random(n)
  return ds:shard(n, index), filtered(list, function(_, i) return (i - 1) % n == index end)
end

function stages.repeat_n(ds, list, random)
  local n, out = random(3), {}
  for _ = 1, n do out = joined(out, list) end
  return ds:repeat_n(n), out
end

function stages.concatenate(ds, list, random)
  local n, more = random(4), {}
  for i = 1, n do more[i] = i - 1 end
  return ds:concatenate(data.range(n)), joined(list, more)
end

function stages.batch_and_unbatch(ds, list, random)
  local n = random(4) + 1
  local drop = random(2) == 1
  return ds:batch(n, {drop_remainder = drop}):unbatch(), drop and sub(list, 1, #list // n * n) or list
end

function stages.window(ds, list, random)
  local size, shift, stride, drop = random(3) + 1, random(3) + 1, random(2) + 1, random(2) == 1
  local out = {}
  for from = 1, #list, shift do
    local window = {}
    for k = 0, size - 1 do window[#window + 1] = list[from + k * stride] end
    if #window == size or not drop then out = joined(out, window) end
  end
  return ds:window(size, {shift = shift, stride = stride, drop_remainder = drop}):flat_map(function(w) return w end), out
end

function stages.flat_map(ds, list)
  local out = {}
  for _, x in ipairs(list) do out = joined(out, {x, x}) end
  return ds:flat_map(function(x) return data.from_tensors(x):repeat_n(2) end), out
end

function stages.enumerate(ds, list, random)
  local start = random(5)
  return ds:enumerate(start):map(function(i, x) return i * 100 + x end), mapped(list, function(x, i) return (i - 1 + start) * 100 + x end)
end

function stages.zip(ds, list)
  return data.zip(ds, data.range(7)):map(function(a, b) return a + b * 3 end),
    mapped(sub(list, 1, 7), function(x, i) return x + (i - 1) * 3 end)
end

function stages.cache(ds, list) return ds:cache(), list end
function stages.prefetch(ds, list, random) return ds:prefetch(random(4)), list end

local names = {}
for name in pairs(stages) do names[#names + 1] = name end
table.sort(names)

local function read(ds)
  local out = {}
  for x in ds:iter() do out[#out + 1] = math.tointeger(x:item()) end
  return out
end

-- A chain for a seed: dataset, list, its text.
local function chain(seed)
  local random = random_of(seed)
  local n = random(12)
  local list = {}
  for i = 1, n do list[i] = i - 1 end
  local ds, words = data.range(n), {"range(" .. n .. ")"}
  for _ = 1, random(6) + 1 do
    local name = names[random(#names) + 1]
    ds, list = stages[name](ds, list, random)
    words[#words + 1] = name
  end
  return ds, list, table.concat(words, ":")
end

describe("random chains of stages", function()
  local threads = require("ipulua.core").engine_info().threads
  after_each(function() ipu.set_num_threads(threads) end)

  for first = 1, 300, 50 do
    it("give what lists give, seeds " .. first .. " to " .. first + 49, function()
      for seed = first, first + 49 do
        ipu.set_num_threads(seed % 2 + 1)
        local ds, list, words = chain(seed)
        local what = "seed " .. seed .. ", " .. words
        assert.same(list, read(ds), what)
        assert.same(list, read(ds), what .. ", a second time")
        local count = ds:cardinality()
        assert.is_true(count == #list or count == -2, what .. ": cardinality " .. count)
      end
    end)
  end

  it("keep every element through a shuffle", function()
    for seed = 1, 60 do
      local ds, list, words = chain(seed)
      local got = read(ds:shuffle(seed % 7 + 1, {seed = seed}))
      table.sort(got)
      table.sort(list)
      assert.same(list, got, "seed " .. seed .. ", " .. words)
    end
  end)
end)
