-- Random chains of dataset stages against the same done on Lua lists, failing elements among them.

local chains = require "spec.support.dataset_chains"
local core = require "ipulua.core"
local ipu = require "ipulua"
local data = ipu.data

local failed <const>, read <const> = chains.failed, chains.read

local function texts(list)
  local out = {}
  for i, x in ipairs(list) do out[i] = tostring(x) end
  return table.concat(out, " ")
end

local function plain(list)
  for _, x in ipairs(list) do
    if x == failed then return false end
  end
  return true
end

-- The elements of a queue over a dataset, one at a time: next() gives a number, `failed` or nil;
-- and the queue.
local function queue_of(ds)
  local queue = ipu.IPUInfeedQueue(ds:map(function(x) return ipu.cast(x, "int32") end))
  local f = ipu.func(function()
    return ipu.loops.repeat_n(1, function(_, x) return x end, {0}, queue)
  end)
  local function next_one()
    local fine, x = pcall(f)
    if fine then return math.tointeger(x:item()) end
    if not x:find("end of data", 1, true) then return failed end
  end
  return next_one, queue.queue
end

local function rest_of(next_one)
  local out = {}
  for x in next_one do out[#out + 1] = x end
  return out
end

describe("random chains of stages", function()
  local threads = core.engine_info().threads
  after_each(function() ipu.set_num_threads(threads) end)

  for first = 1, 400, 50 do
    it("give what lists give, whatever fails, seeds " .. first .. " to " .. first + 49, function()
      for seed = first, first + 49 do
        ipu.set_num_threads(seed % 2 + 1)
        local ds, list, words = chains.make(seed, 12 + seed % 3 * 15, {})
        local what = "seed " .. seed .. ", " .. words
        assert.equal(texts(list), texts(read(ds:iterator())), what)
        assert.equal(texts(list), texts(read(ds:iterator())), what .. ", a second time")
        local left = seed % 5
        assert.equal(texts(table.move(list, left + 1, #list, 1, {})),
          texts(read(ds:skip(left):iterator())), what .. ", from " .. left)
        local count = ds:cardinality()
        assert.is_true(count == #list or count == -2 or not plain(list),
          what .. ": cardinality " .. count)
      end
    end)

    it("are gone on with at a saved position, whatever failed before, seeds " .. first .. " to "
      .. first + 49, function()
      for seed = first, first + 49, 5 do
        local ds, list, words = chains.make(seed, 12 + seed % 3 * 15, {})
        local at = #list > 0 and seed % #list or 0
        local next_one, queue = queue_of(ds)
        local what = string.format("seed %d, %s, at %d", seed, words, at)
        for i = 1, at do assert.equal(tostring(list[i]), tostring(next_one()), what) end
        local again, restored = queue_of((chains.make(seed, 12 + seed % 3 * 15, {})))
        restored:restore(queue:save())
        local want = texts(table.move(list, at + 1, #list, 1, {}))
        assert.equal(want, texts(rest_of(next_one)), what)
        assert.equal(want, texts(rest_of(again)), what .. ", restored")
      end
    end)
  end

  -- A batch in which an element fails is one that fails, also if it is short and would be dropped.
  local function sums(list, n, drop)
    local out = {}
    for first = 1, #list, n do
      local last <const> = math.min(first + n - 1, #list)
      local sum = 0
      for i = first, last do
        sum = (sum == failed or list[i] == failed) and failed or sum + list[i]
      end
      if sum == failed or not drop or last == first + n - 1 then out[#out + 1] = sum end
    end
    return out
  end

  it("give whole batches, from any one on, whatever fails in those before", function()
    for seed = 1, 120 do
      local ds, list, words = chains.make(seed, 12 + seed % 3 * 15, {})
      local n <const>, drop <const> = seed % 4 + 2, seed % 2 == 0
      local batches = ds:batch(n, {drop_remainder = drop})
      local want = sums(list, n, drop)
      for left = 0, 3 do
        local got = batches:skip(left):map(function(x) return ipu.reduce_sum(x) end)
        assert.equal(texts(table.move(want, left + 1, #want, 1, {})), texts(read(got:iterator())),
          string.format("seed %d, %s, batches of %d from %d", seed, words, n, left))
      end
    end
  end)

  it("keep every element through a shuffle", function()
    for seed = 1, 60 do
      local ds, list, words = chains.make(seed, 12 + seed % 3 * 15, {buffer = true})
      local got = read(ds:shuffle(seed % 7 + 1, {seed = seed}):iterator())
      local function order(a, b) return (a == failed and -1 or a) < (b == failed and -1 or b) end
      table.sort(got, order)
      table.sort(list, order)
      assert.equal(texts(list), texts(got), "seed " .. seed .. ", " .. words)
    end
  end)

  it("know every stage that makes a dataset of one", function()
    local others = {}
    local known <const> = "iter iterator cardinality reduce shuffle with_options extend init "
      .. "made_by is_a"
    for name in known:gmatch "%S+" do
      others[name] = true
    end
    local missing = {}
    for name, f in pairs(data.Dataset) do
      if type(f) == "function" and not name:find "^_" and not chains.stages[name]
        and not others[name] then
        missing[#missing + 1] = name
      end
    end
    assert.same({}, missing)
  end)
end)

describe("parts beside one that fails", function()
  -- Elements 2, 3, 4 and 7 fail in one part, 5 in the other one.
  it("skip as many elements as it did, several after each other, too", function()
    local function failing(bad)
      local places = {} -- 99 is outside of all elements
      for i = 0, 8 do places[i + 1] = bad[i] and 99 or i end
      return data.range(9):map(function(x)
        return ipu.gather(ipu.arange(9), ipu.gather(ipu.tensor(places, "int32"), x))
      end)
    end
    for _, width in ipairs{2, 3} do
      local parts <const> = {failing{[2] = true, [3] = true, [4] = true, [7] = true},
        failing{[5] = true}, data.range(9)}
      local zipped <const> = data.zip(table.move(parts, 1, width, 1, {}))
      local it <const>, got = zipped:iter(), {}
      for _ = 1, 9 do
        local given <const> = table.pack(pcall(it))
        for i = 3, given.n do assert.equal(given[2]:item(), given[i]:item()) end
        got[#got + 1] = given[1] and given[2]:item() or failed
      end
      assert.equal(texts{0, 1, failed, failed, failed, failed, 6, failed, 8}, texts(got))
      assert.is_nil(it())
    end
  end)
end)
