-- Random chains of dataset stages, each beside the same done on a Lua list. Items of a list are
-- numbers, or `failed` where reading the element fails: it keeps its place through all stages.

local ipu = require "ipulua"
local data = ipu.data

local chains = {failed = setmetatable({}, {__tostring = function() return "failed" end})}
local failed <const> = chains.failed

---A small generator of its own, so that a seed names a case.
function chains.random_of(seed)
  local state = seed
  return function(n)
    state = (state * 6364136223846793005 + 1442695040888963407) & math.maxinteger
    return (state >> 33) % n
  end
end

local function mapped(list, f)
  local out = {}
  for i, x in ipairs(list) do out[i] = x == failed and failed or f(x, i) end
  return out
end

local function filtered(list, keep)
  local out = {}
  for i, x in ipairs(list) do
    if keep(x, i) then out[#out + 1] = x end
  end
  return out
end

local function joined(...)
  local out = {}
  for _, list in ipairs{...} do table.move(list, 1, #list, #out + 1, out) end
  return out
end

local function sub(list, from, to) return table.move(list, from, math.min(to, #list), 1, {}) end

local function has_failed(list)
  for _, x in ipairs(list) do
    if x == failed then return true end
  end
  return false
end

-- Groups of n in a row; one with a failure in it fails whole.
local function grouped(list, n, drop)
  local out = {}
  for from = 1, #list, n do
    local group = sub(list, from, from + n - 1)
    if has_failed(group) then out[#out + 1] = failed
    elseif #group == n or not drop then out = joined(out, group) end
  end
  return out
end

-- name → (dataset, list, random) → dataset, list. Elements are int64 scalars.
local stages = {}
chains.stages = stages

function stages.map(ds, list, random)
  local k = random(5)
  return ds:map(function(x) return x * 2 + k end, {num_parallel_calls = random(3)}),
    mapped(list, function(x) return x * 2 + k end)
end

function stages.map_eager(ds, list)
  return ds:map(function(x) return x + 1 end,
    {eager = true, output_types = "int64", output_shapes = {}}),
    mapped(list, function(x) return x + 1 end)
end

function stages.map_failing(ds, list, random)
  local m = random(4) + 3
  return ds:map(function(x) return x:item() % m == 1 and error "it can't be read" or x end,
    {eager = true, output_types = "int64", output_shapes = {}}),
    mapped(list, function(x) return x % m == 1 and failed or x end)
end

function stages.filter(ds, list, random)
  local m, eager = random(3) + 2, random(2) == 1
  local function keep(x)
    return eager and x:item() % m ~= 0 or not eager and ipu.not_equal(x % m, 0)
  end
  return ds:filter(keep, {eager = eager}),
    filtered(list, function(x) return x == failed or x % m ~= 0 end)
end

-- Up to the first element that isn't kept; one that fails is passed on.
function stages.take_while(ds, list, random)
  local border <const> = random(30)
  local kept = {}
  for _, x in ipairs(list) do
    if x ~= failed and x >= border then break end
    kept[#kept + 1] = x
  end
  return ds:take_while(function(x) return ipu.less(x, border) end), kept
end

function stages.apply(ds, list, random)
  local n = random(5)
  return ds:apply(function(d) return d:skip(n) end), sub(list, n + 1, #list)
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

function stages.batch(ds, list, random)
  local n, drop = random(4) + 1, random(2) == 1
  return ds:batch(n, {drop_remainder = drop}):unbatch(), grouped(list, n, drop)
end
stages.unbatch = stages.batch

function stages.padded_batch(ds, list, random)
  local n, drop = random(4) + 1, random(2) == 1
  return ds:padded_batch(n, {drop_remainder = drop}):unbatch(), grouped(list, n, drop)
end

-- Numbers that leave 0, 1 and 2 by 3 are batched by themselves.
function stages.bucket_by_sequence_length(ds, list, random)
  local sizes, drop, buckets, out = {random(2) + 1, 2, random(3) + 1}, random(2) == 1, {}, {}
  for _, x in ipairs(list) do
    if x == failed then out[#out + 1] = failed
    else
      local b = x % 3 + 1
      buckets[b] = joined(buckets[b] or {}, {x})
      if #buckets[b] == sizes[b] then out, buckets[b] = joined(out, buckets[b]), nil end
    end
  end
  for b = 1, drop and 0 or 3 do out = joined(out, buckets[b] or {}) end
  return ds:bucket_by_sequence_length(function(x) return x:item() % 3 end, {1, 2}, sizes,
    {drop_remainder = drop}):unbatch(), out
end

function stages.window(ds, list, random)
  local size, shift, stride, drop = random(3) + 1, random(3) + 1, random(2) + 1, random(2) == 1
  local out = {}
  for from = 1, #list, shift do
    local window = {}
    for k = 0, size - 1 do window[#window + 1] = list[from + k * stride] end
    if has_failed(window) then out[#out + 1] = failed
    elseif from + (size - 1) * stride <= #list or not drop then out = joined(out, window)
    else break end
  end
  return ds:window(size, {shift = shift, stride = stride, drop_remainder = drop}):flat_map(
    function(w) return w end), out
end

function stages.flat_map(ds, list)
  local out = {}
  for _, x in ipairs(list) do out = joined(out, x == failed and {x} or {x, x}) end
  return ds:flat_map(function(x) return data.from_tensors(x):repeat_n(2) end), out
end

-- In turn, `block` elements of each of up to `cycle` parts; reading the element that a part is made
-- of may fail.
local function interleaved(list, parts_of, cycle, block)
  local out, place, at, done, next_one, open = {}, {}, 1, 0, 1, 0
  while next_one <= #list or open > 0 do
    local part = place[at]
    if not part and next_one <= #list then
      local x = list[next_one]
      next_one = next_one + 1
      if x == failed then out[#out + 1] = failed else place[at], open = parts_of(x), open + 1 end
    elseif not part then
      at, done = at % cycle + 1, 0
    elseif #part == 0 then
      place[at], open, at, done = nil, open - 1, at % cycle + 1, 0
    else
      out[#out + 1] = table.remove(part, 1)
      done = done + 1
      if done == block then at, done = at % cycle + 1, 0 end
    end
  end
  return out
end

function stages.interleave(ds, list, random)
  local cycle, block = random(3) + 1, random(2) + 1
  local function parts_of(x) return x % 5 == 2 and {x, failed, x + 2} or {x, x + 1, x + 2} end
  local made = ds:interleave(function(x)
    x = x:item()
    return data.range(x, x + 3):map(function(v)
      return x % 5 == 2 and v:item() == x + 1 and error "it can't be read" or v
    end, {eager = true, output_types = "int64", output_shapes = {}})
  end, {cycle_length = cycle, block_length = block})
  return made, interleaved(list, parts_of, cycle, block)
end

function stages.enumerate(ds, list, random)
  local start = random(5)
  return ds:enumerate(start):map(function(i, x) return i * 100 + x end),
    mapped(list, function(x, i) return (i - 1 + start) * 100 + x end)
end

-- After a failure of either, both elements are gone. The second part is asked only when the first
-- one has given an element.
function stages.zip(ds, list, random)
  local other, bad, out = {}, random(9), {}
  for i = 1, 7 do other[i] = i == bad and failed or (i - 1) * 3 end
  for i, x in ipairs(list) do
    local y = other[i]
    if x ~= failed and not y then break end
    out[i] = (x == failed or y == failed) and failed or x + y
  end
  local second = data.range(7):map(function(i)
    return i:item() == bad - 1 and error "it can't be read" or i * 3
  end,
    {eager = true, output_types = "int64", output_shapes = {}})
  return data.zip(ds, second):map(function(a, b) return a + b end), out
end

function stages.cache(ds, list) return ds:cache(), list end
function stages.prefetch(ds, list, random) return ds:prefetch(random(4)), list end

-- All is read at once: failures are told first, then comes what could be read.
function stages.buffer(ds, list)
  local n = 40
  list = sub(list, 1, n)
  local bad = filtered(list, function(x) return x == failed end)
  return data.BufferDataset(ds, n):prefetch(1),
    joined(bad, filtered(list, function(x) return x ~= failed end))
end

-- at so many elements, when they are made
local looks_ahead <const> = {flat_map = 1, interleave = 1, window = 5}

local names = {}
for name in pairs(stages) do names[#names + 1] = name end
table.sort(names)

---A chain for a seed: dataset, list, its text. length: of the source; avoid: stages by name that
---are left out.
function chains.make(seed, length, avoid)
  local random = chains.random_of(seed)
  local n = random(length)
  local list = {}
  for i = 1, n do list[i] = i - 1 end
  local ds, words = data.range(n), {"range(" .. n .. ")"}
  for _ = 1, random(6) + 1 do
    local name = names[random(#names) + 1]
    if not avoid[name] and not has_failed(sub(list, 1, looks_ahead[name] or 0)) then
      ds, list = stages[name](ds, list, random)
      words[#words + 1] = name
    end
  end
  return ds, list, table.concat(words, ":")
end

---What an iterator gives, to its end: numbers and `failed`.
function chains.read(it)
  local out = {}
  while true do
    local fine, x = pcall(it.next, it)
    if fine and x == nil then return out end
    out[#out + 1] = fine and math.tointeger(x:item()) or failed
    if #out > 10000 then error "it never ends" end
  end
end

return chains
