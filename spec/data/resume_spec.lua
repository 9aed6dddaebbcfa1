-- A queue restored in another process gives the elements that the saved one would have given. This
-- holds for random numbers, orders and caches, in every order of stages, in the current epoch and
-- in later ones.

local chains = require "spec.support.dataset_chains"
local core = require "ipulua.core"
local ipu = require "ipulua"
local data = ipu.data

local function draws(x, seed)
  return x % 1000 + 1000 * ipu.floor(1000 * ipu.random.uniform({}, {seed = seed}))
end

-- name → (dataset, random) → dataset. Elements are float32 scalars.
local stages = {}
function stages.random_map(ds, random)
  local seed = random(100) + 1
  return ds:map(function(x) return draws(x, seed) end, {num_parallel_calls = random(3)})
end
function stages.shuffle(ds, random) return ds:shuffle(random(60) + 1, {seed = random(50)}) end
function stages.shuffle_unseeded(ds, random) return ds:shuffle(random(60) + 1) end
function stages.shuffle_once(ds, random)
  return ds:shuffle(random(60) + 1, {seed = random(50), reshuffle_each_iteration = false})
end
function stages.cache(ds) return ds:cache() end
function stages.buffer(ds) return data.BufferDataset(ds, 200):prefetch(1) end
function stages.prefetch(ds, random) return ds:prefetch(random(4) + 1) end
function stages.batch(ds, random) return ds:batch(random(5) + 1):unbatch() end
function stages.repeat_n(ds) return ds:take(15):repeat_n(2) end
function stages.skip(ds, random) return ds:skip(random(5)) end
function stages.zip(ds, random)
  return data.zip(ds, data.range(40):shuffle(random(20) + 1)):map(function(a, b)
    return a + ipu.cast(b, "float32") / 64
  end)
end
function stages.filter(ds) return ds:filter(function(x) return ipu.greater(x % 7, 1) end) end
function stages.flat_map(ds, random)
  local seed, kept = random(100) + 1, random(2) == 1
  return ds:take(12):flat_map(function(x)
    local part = data.from_tensors(x):repeat_n(2):map(function(y) return draws(y, seed) end)
    return kept and part:cache():repeat_n(2) or part
  end)
end

local names = {}
for name in pairs(stages) do names[#names + 1] = name end
table.sort(names)

local function chain(seed)
  local random = chains.random_of(seed)
  local ds, words = data.range(30 + random(20)):map(function(x) return ipu.cast(x, "float32") end),
    {}
  for i = 1, random(5) + 2 do
    words[i] = names[random(#names) + 1]
    ds = stages[words[i]](ds, random)
  end
  return ds, table.concat(words, ":")
end

local function open(seed)
  local ds, words = chain(seed)
  local queue = ipu.IPUInfeedQueue(ds)
  local f = ipu.func(function()
    return ipu.loops.repeat_n(1, function(_, x) return x end, {0.0}, queue)
  end)
  return queue, function()
    local fine, x = pcall(f)
    if fine then return x:item() end
    assert.matches("end of data", x)
  end, words
end

-- The rest of an epoch, and the next ones.
local function rest(queue, next_one, epochs)
  local out = {}
  for epoch = 1, epochs do
    for x in next_one do out[#out + 1] = string.format("%.6g", x) end
    out[#out + 1] = "|"
    if epoch < epochs then
      queue:deleter()
      queue:initializer()
    end
  end
  return table.concat(out, " ")
end

describe("a saved position", function()
  local threads = core.engine_info().threads
  after_each(function() ipu.set_num_threads(threads) end)

  for first = 1, 160, 40 do
    it("is gone on from with the same elements, seeds " .. first .. " to " .. first + 39, function()
      for seed = first, first + 39 do
        ipu.set_num_threads(seed % 2 + 1)
        local queue, next_one, words = open(seed)
        local epoch = seed % 3
        rest(queue, next_one, epoch + 1)
        if epoch > 0 then
          queue:deleter()
          queue:initializer()
          for _ = 1, seed % 11 do next_one() end
        end
        local saved = queue.queue:save()
        local again, next_again = open(seed)
        again.queue:restore(saved)
        assert.equal(rest(queue, next_one, 3), rest(again, next_again, 3),
          "seed " .. seed .. ", " .. words)
      end
    end)
  end

  it("gives a cache what its first reading drew, whichever reading fills it", function()
    local function dataset()
      return data.range(101):map(function(x) return draws(ipu.cast(x, "float32"), 3) end):shuffle(
        40, {seed = 4})
    end
    local function pass(ds)
      local out = {}
      for x in ds:iter() do out[#out + 1] = x:item() end
      return table.concat(out, " ")
    end
    local first = pass(dataset())
    local kept = dataset():cache()
    kept:iterator():next() -- a reading that isn't complete
    assert.equal(first, pass(kept))
    assert.equal(first, pass(kept))
    local twice = dataset():cache():repeat_n(2)
    assert.equal(first .. " " .. first, pass(twice))
  end)

  it("shuffles in one order, whatever the elements are kept as", function()
    local function pass(ds)
      local out = {}
      for x in ds:iter() do out[#out + 1] = tostring(x[1]:item()) end
      return table.concat(out, " ")
    end
    for buffer = 1, 1001, 250 do
      for _, extent in ipairs{1, 300} do -- packed side by side, and as tensors
        local function source()
          return data.range(1009):map(function(x) return ipu.broadcast_to(x, {extent}) end)
        end
        local rows = data.from_tensor_slices(
          ipu.broadcast_to(ipu.reshape(ipu.cast(ipu.arange(1009), "int64"), {1009, 1}),
            {1009, extent}))
        local order = {seed = 3, reshuffle_each_iteration = false}
        local plain, cached = source():shuffle(buffer, order),
          source():cache():shuffle(buffer, order)
        local one = pass(plain)
        assert.equal(one, pass(plain))
        assert.equal(one, pass(rows:shuffle(buffer, order)))
        for _ = 1, 2 do assert.equal(one, pass(cached)) end
      end
    end
  end)
end)
