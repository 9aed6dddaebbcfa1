-- Elements and their order: what tf.data gives for the same calls.

local command = require "spec.support.command"
local ipu = require "ipulua"
local data = ipu.data

-- Fails with a message that, line included, matches.
local function raises(f, pattern)
  local ok, message = pcall(f)
  assert.is_false(ok)
  assert.matches(pattern, message)
end

-- All elements as text: components by ",", elements by "; ".
local function elements(ds, most)
  local list = {}
  for a, b, c in ds:iter() do
    local parts = {}
    for _, v in ipairs{a, b, c} do parts[#parts + 1] = (tostring(v):gsub("%s+", " ")) end
    list[#list + 1] = table.concat(parts, ",")
    if #list == most then break end
  end
  return table.concat(list, "; ")
end

local function numbers(n) return data.range(n) end
local function pairs_of(n)
  local x, y = {}, {}
  for i = 1, n do x[i], y[i] = {i, -i}, i end
  return data.from_tensor_slices{ipu.tensor(x), ipu.tensor(y, {dtype = "int32"})}
end

-- A generator of n scalars; count.starts and count.elements say how often it was asked.
local function counted(n, count)
  return data.from_generator(function()
    count.starts = (count.starts or 0) + 1
    local i = 0
    return function()
      i = i + 1
      if i > n then return nil end
      count.elements = (count.elements or 0) + 1
      return i
    end
  end, {output_types = "float32", output_shapes = {}})
end

describe("dataset sources", function()
  it("row 76: from_tensors is one element", function()
    assert.equal("[1. 2.]", elements(data.from_tensors(ipu.tensor{1, 2})))
    assert.equal("[1. 2.],3.0", elements(data.from_tensors{ipu.tensor{1, 2}, 3}))
  end)

  it("row 76: from_tensor_slices slices the first axis", function()
    assert.equal("[1. 2.]; [3. 4.]", elements(data.from_tensor_slices(ipu.tensor{{1, 2}, {3, 4}})))
    assert.equal("[ 1. -1.],1; [ 2. -2.],2", elements(pairs_of(2)))
  end)

  it("takes a nested list of numbers as one tensor, a list of tensors as components", function()
    assert.equal("[1. 2.]; [3. 4.]", elements(data.from_tensor_slices{{1, 2}, {3, 4}}))
    assert.equal("1.0,3.0; 2.0,4.0",
      elements(data.from_tensor_slices{ipu.tensor{1, 2}, ipu.tensor{3, 4}}))
  end)

  -- Rows of 80,000 bytes, each a chunk of its own, and shorter rows, several in a chunk.
  it("gathers shuffled rows of any length", function()
    for _, width in ipairs{20000, 5000} do
      local x = ipu.broadcast_to(ipu.reshape(ipu.arange(12), {12, 1}), {12, width})
      local seen = {}
      for batch in data.from_tensor_slices(x):shuffle(12, {seed = 4}):batch(6):iter() do
        local low, high = ipu.reduce_min(batch, {axis = 1}), ipu.reduce_max(batch, {axis = 1})
        assert.same(low:totable(), high:totable())
        for _, row in ipairs(low:totable()) do seen[#seen + 1] = row end
      end
      table.sort(seen)
      for i = 1, 12 do assert.equal(i - 1, seen[i]) end
    end
  end)

  it("keeps dicts", function()
    local ds = data.from_tensor_slices{image = ipu.tensor{1, 2},
      label = ipu.tensor({3, 4}, {dtype = "int32"})}
    local seen = {}
    for e in ds:iter() do seen[#seen + 1] = e.image:item() .. ":" .. e.label:item() end
    assert.same({"1.0:3", "2.0:4"}, seen)
    assert.same({image = {shape = {}, dtype = "float32"}, label = {shape = {}, dtype = "int32"}},
      ds.element_spec)
  end)

  it("refuses components of different length", function()
    raises(function() data.from_tensor_slices{ipu.zeros{2, 3}, ipu.zeros{3, 3}} end,
      "spec%.lua:%d+: from_tensor_slices: the first extents differ: component 0 has shape %[2, "
      .. "3%], component 1 has %[3, 3%]")
  end)

  it("range counts in int64", function()
    assert.equal("0; 1; 2", elements(data.range(3)))
    assert.equal("5; 3", elements(data.range(5, 1, -2)))
    assert.same({shape = {}, dtype = "int64"}, data.range(3).element_spec)
  end)

  -- So many numbers when it is opened first, none later; and how often it was opened.
  local function once(n)
    local count = {starts = 0}
    return data.from_generator(function()
      count.starts = count.starts + 1
      local left = count.starts == 1 and n or 0
      return function()
        left = left - 1
        return left >= 0 and left + 0.0 or nil
      end
    end, {output_types = "float32", output_shapes = {}}), count
  end

  it("repeat_n ends at an empty epoch, whatever the epochs before had", function()
    for n = 0, 2 do
      local ds, count = once(n)
      assert.equal(({"", "0.0", "1.0; 0.0"})[n + 1], elements(ds:repeat_n(40)))
      assert.equal(n > 0 and 2 or 1, count.starts)
    end
  end)

  it("from_generator starts f anew each time", function()
    local count = {}
    local ds = counted(2, count)
    assert.equal("1.0; 2.0", elements(ds))
    assert.equal("1.0; 2.0; 1.0; 2.0", elements(ds:repeat_n(2)))
    assert.equal(3, count.starts)
  end)

  it("from_generator takes iterators as `for` does, and structures", function()
    local ds = data.from_generator(function() return ipairs{10, 20} end,
      {output_types = {"int32", "float32"}, output_shapes = {{}, {}}})
    assert.equal("1,10.0; 2,20.0", elements(ds))
    local dicts = data.from_generator(function()
      local left = 2
      return function()
        left = left - 1
        if left >= 0 then return {a = left, b = {left, left}} end
      end
    end, {output_types = {a = "int32", b = "float32"}, output_shapes = {a = {}, b = {2}}})
    local seen = {}
    for e in dicts:iter() do seen[#seen + 1] = e.a:item() .. tostring(e.b) end
    assert.same({"1[1. 1.]", "0[0. 0.]"}, seen)
  end)

  it("row 77: from_generator feeds a program, where its shapes are given", function()
    local function three()
      local i = 0
      return function()
        i = i + 1
        if i <= 3 then return ipu.tensor{i, 2 * i} end
      end
    end
    local infeed = ipu.IPUInfeedQueue(data.from_generator(three,
      {output_types = "float32", output_shapes = {2}}))
    local sum = ipu.func(function()
      return ipu.loops.repeat_n(3, function(s, x) return s + x end, {ipu.zeros{2}}, infeed)
    end)()
    assert.same({6, 12}, sum:totable())
    raises(function()
      ipu.IPUInfeedQueue(data.from_generator(three, {output_types = "float32"}))
    end, "shape")
  end)

  it("from_generator takes a coroutine, and says so to a function that yields by itself", function()
    local function counting() for i = 1, 3 do coroutine.yield(i) end end
    local wrapped = data.from_generator(function() return coroutine.wrap(counting) end,
      {output_types = "int32", output_shapes = {}})
    assert.equal("1; 2; 3", elements(wrapped))
    local bare = data.from_generator(counting, {output_types = "int32", output_shapes = {}})
    raises(function() elements(bare) end,
      "returns an iterator: a generator that yields is coroutine%.wrap")
  end)

  it("from_generator checks what comes", function()
    raises(function() data.from_generator(function() end, {output_types = "float32"}) end,
      "output_shapes")
    local ds = data.from_generator(function() return ipairs{{1, 2}} end,
      {output_types = {"int32", "float32"}, output_shapes = {{}, {3}}})
    raises(function() elements(ds) end, "declared float32%[3%], but an element has float32%[2%]")
  end)
end)

describe("dataset functions", function()
  it("row 78: map traces and passes tuples as arguments", function()
    assert.equal("[ 1. -1.]; [ 4. -4.]",
      elements(pairs_of(2):map(function(x, y) return x * ipu.cast(y, "float32") end)))
  end)

  it("map counts several returns and a list as a tuple", function()
    local two = data.from_tensors(ipu.constant(1.0, {shape = {2}}))
    for _, f in ipairs{function(x) return x, x + 1 end, function(x) return {x, x + 1} end} do
      assert.equal("[1. 1.],[2. 2.]", elements(two:map(f)))
      assert.equal("[3. 3.]", elements(two:map(f):map(function(a, b) return a + b end)))
    end
  end)

  it("map keeps the order with parallel calls", function()
    local want = elements(numbers(50):map(function(x) return x * x end))
    for _, n in ipairs{2, 7, data.AUTOTUNE} do
      assert.equal(want,
        elements(numbers(50):map(function(x) return x * x end, {num_parallel_calls = n})))
    end
  end)

  it("map calls its function while tracing only", function()
    local calls = 0
    elements(numbers(10):map(function(x) calls = calls + 1 return x end))
    assert.equal(1, calls)
  end)

  it("map refuses what can't be traced, naming the way out", function()
    raises(function()
      numbers(3):map(function(x) if x:item() > 1 then return x end return x end)
    end, "spec%.lua:%d+: map: the function can't be traced: .*eager = true")
  end)

  -- {eager = true} would not help: these are wrong in Lua, too
  it("map says what is wrong with a function that would be wrong in Lua, too", function()
    for wanted, f in pairs{["add: 'b': 0.5 is no int32$"] = function(x)
      return ipu.cast(x, "int32") + 0.5
    end,
      ["map: the function returned nothing$"] = function() end,
      ["a tensor has no 'sahpe'; did you mean 'shape'%?$"] = function(x) return x.sahpe end,
      ["tensors are compared with ipu.less.*"] = function(x) return x < 3 end} do
      raises(function() numbers(3):map(f) end, "^[^\n]*spec%.lua:%d+: " .. wanted)
    end
  end)

  it("is no table to walk over, and the end of a walk is no address", function()
    raises(function() for _ in pairs(numbers(3)) do assert.is_true(false) end end,
      "a dataset is no table; `for x in ds:iter%(%) do`")
    raises(function() for _ in ipairs(numbers(3)) do assert.is_true(false) end end,
      "a dataset has no positions")
    local closer = select(4, numbers(3):iter())
    assert.equal("<ends with the loop>", tostring(closer))
  end)

  it("a generator's element that is no number is told of as that", function()
    local ds = data.from_generator(function() return function() return "a" end end,
      {output_types = "int32", output_shapes = {}})
    raises(function() for _ in ds:iter() do assert.is_true(false) end end,
      "what an element holds must be a number, a list or a tensor, got string %(a%)")
  end)

  it("map {eager} calls Lua once an element", function()
    local calls = 0
    local ds = numbers(3):map(function(x) calls = calls + 1 return x:item() * 10 end,
      {eager = true})
    assert.equal("0.0; 10.0; 20.0", elements(ds))
    assert.equal(3, calls)
  end)

  it("takes a number among several results for a component of its own", function()
    local ds = data.from_tensor_slices{ipu.arange(2), ipu.arange(2) * 10}
      :map(function(x, y) return x:item() + 0.5, y, true, {{1, 2}} end, {eager = true})
    assert.equal("Dataset(map: float32[], int32[], bool[], float32[1, 2])", tostring(ds))
    local found = {}
    for a, b, c, d in ds:iter() do
      found[#found + 1] = table.concat({tostring(a), tostring(b), tostring(c), tostring(d)}, " ")
    end
    assert.same({"0.5 0 True [[1. 2.]]", "1.5 10 True [[1. 2.]]"}, found)
  end)

  it("map works on batches of several sizes", function()
    assert.equal("[0 2]; [4 6]; [8]",
      elements(numbers(5):batch(2):map(function(x) return x * 2 end)))
    assert.equal("1; 5; 4",
      elements(numbers(5):batch(2):map(function(x) return ipu.reduce_sum(x) end)))
    assert.same({shape = {-1}, dtype = "int64"},
      numbers(5):batch(2):map(function(x) return x * 2 end).element_spec)
  end)

  it("map's random numbers depend on the pass and the element alone", function()
    local function noisy(n)
      return numbers(8):map(function() return ipu.random.uniform({2}, {seed = 4}) end,
        {num_parallel_calls = n})
    end
    local a = noisy(0)
    local first, second = elements(a), elements(a)
    assert.are_not.equal(first, second)
    for _, same in ipairs{noisy(0), noisy(3), a:prefetch(3)} do
      assert.equal(first, elements(same))
    end
    local repeated = elements(a:repeat_n(2))
    assert.equal(first, repeated:sub(1, #first))
    local seen = {}
    for text in (repeated .. "; "):gmatch("(.-); ") do
      assert.is_nil(seen[text])
      seen[text] = true
    end
  end)

  it(
    "map draws the same numbers in whatever order shapes come, and whatever was traced between",
    function()
    local function ragged()
      ipu.random.set_seed(1)
      return ipu.data.from_generator(function()
        local i = 0
        return function() i = i + 1 if i <= 40 then return ipu.ones{1 + i % 7} end end
      end, {output_types = "float32", output_shapes = {-1}}):map(function(x)
        return ipu.reduce_sum(x) * 0 + ipu.random.uniform({})
      end)
    end
    local alone = elements(ragged())
    local d = ragged()
    elements(d:skip(3):take(4))
    ipu.func(function() return ipu.random.uniform({3}) end)()
    assert.equal(alone, elements(d))
    local other = elements(d:map(function() return ipu.random.uniform({}) end))
    assert.are_not.equal(alone, other)
  end)

  it("map refuses variables", function()
    local v = ipu.Variable(2.0, {name = "scale"})
    raises(function() numbers(3):map(function(x) return ipu.cast(x, "float32") * v end) end,
      "reads variable 'scale'")
  end)

  it("row 84: filter keeps what the predicate holds for", function()
    assert.equal("1; 3; 5",
      elements(numbers(6):filter(function(x) return ipu.equal(ipu.mod(x, 2), 1) end)))
    assert.equal("4; 5",
      elements(numbers(6):filter(function(x) return x:item() > 3 end, {eager = true})))
    raises(function() numbers(3):filter(function(x) return x end) end,
      "must return one bool%[%], it returns int64%[%]")
  end)

  it("row 85: flat_map and interleave read datasets in turn", function()
    local function twice(x) return data.from_tensors(x):repeat_n(2) end
    assert.equal("0; 0; 1; 1; 2; 2", elements(numbers(3):flat_map(twice)))
    local function five(x) return data.from_tensors(x):repeat_n(5) end
    -- the example of tf.data's documentation
    assert.equal("1; 1; 1; 1; 2; 2; 2; 2; 1; 2; 3; 3; 3; 3; 4; 4; 4; 4; 3; 4; 5; 5; 5; 5; 5",
      elements(data.range(1, 6):interleave(five, {cycle_length = 2, block_length = 4})))
  end)

  it("row 85: window gives datasets", function()
    local function sums(w) return w:batch(3) end
    assert.equal("[0 1 2]; [3 4 5]; [6]", elements(numbers(7):window(3):flat_map(sums)))
    assert.equal("[0 1 2]; [1 2 3]; [2 3 4]",
      elements(numbers(5):window(3, {shift = 1, drop_remainder = true}):flat_map(sums)))
    assert.equal("[0 2 4]; [2 4 6]; [4 6]; [6]",
      elements(numbers(7):window(3, {shift = 2, stride = 2}):flat_map(sums)))
    local seen = {}
    for w in numbers(4):window(2):iter() do seen[#seen + 1] = elements(w) end
    assert.same({"0; 1", "2; 3"}, seen)
    local both = pairs_of(4):window(2):flat_map(function(x, y)
      return data.zip(x:batch(2), y:batch(2))
    end)
    assert.equal("[[ 1. -1.] [ 2. -2.]],[1 2]; [[ 3. -3.] [ 4. -4.]],[3 4]", elements(both))
  end)
end)

describe("dataset grouping and order", function()
  it("batch keeps the remainder unless told otherwise", function()
    assert.equal("[0 1]; [2 3]; [4]", elements(numbers(5):batch(2)))
    assert.equal("[0 1]; [2 3]", elements(numbers(5):batch(2, {drop_remainder = true})))
    assert.same({shape = {-1}, dtype = "int64"}, numbers(4):batch(2).element_spec)
    assert.same({shape = {2}, dtype = "int64"},
      numbers(4):batch(2, {drop_remainder = true}).element_spec)
  end)

  it("row 85: padded_batch fills up", function()
    local ragged = data.from_generator(function() return ipairs{{1}, {2, 3}, {4}} end,
      {output_types = {"int32", "float32"},
        output_shapes = {{}, {-1}}}):map(function(_, x) return x end, {eager = true})
    assert.equal("[[1. 0.] [2. 3.]]; [[4.]]", elements(ragged:padded_batch(2)))
    assert.equal("[[ 1. -1. -1.] [ 2. 3. -1.]]; [[ 4. -1. -1.]]",
      elements(ragged:padded_batch(2, {padded_shapes = {3}, padding_values = -1})))
    raises(function() elements(ragged:padded_batch(2, {padded_shapes = {1}})) end,
      "shape %[2%], larger than %[1%]")
  end)

  it("padded_batch fills each component by its own value", function()
    local two = data.from_generator(function()
      local at = 0
      return function()
        at = at + 1
        if at < 3 then return ipu.ones{at}, ipu.ones{3 - at} end
      end
    end, {output_types = {"float32", "float32"}, output_shapes = {{-1}, {-1}}})
    local batches = 0
    for a, b in two:padded_batch(2, {padding_values = {-1, 7}}):iter() do
      batches = batches + 1
      assert.same({{1, -1}, {1, 1}}, a:totable())
      assert.same({{1, 1}, {1, 7}}, b:totable())
    end
    assert.equal(1, batches)
  end)

  it("row 85: unbatch takes batches apart", function()
    assert.equal("0; 1; 2; 3; 4", elements(numbers(5):batch(2):unbatch()))
  end)

  it("row 84: take, skip, concatenate, enumerate, zip, shard", function()
    assert.equal("0; 1", elements(numbers(5):take(2)))
    assert.equal("3; 4", elements(numbers(5):skip(3)))
    assert.equal("0; 1; 0", elements(numbers(2):concatenate(numbers(1))))
    assert.equal("7,0; 8,1", elements(numbers(2):enumerate(7)))
    assert.equal("0,0; 1,1", elements(data.zip(numbers(2), numbers(9))))
    assert.equal("1; 4", elements(numbers(6):shard(3, 1)))
    local named
    for e in data.zip{a = numbers(1), b = pairs_of(1)}:iter() do named = e end
    assert.equal(0, named.a:item())
    assert.equal(1, named.b[2]:item())
  end)

  it("row 81: repeat_n counts, or goes on forever", function()
    assert.equal("0; 1; 0; 1", elements(numbers(2):repeat_n(2)))
    assert.equal("0; 1; 0; 1; 0", elements(numbers(2):repeat_n(), 5))
    assert.equal("0; 1; 0", elements(numbers(2):repeat_n(-1), 3))
  end)

  it("row 80: shuffle permutes, by its seed, differently each epoch", function()
    local function epochs(seed)
      local text = elements(numbers(10):shuffle(10, {seed = seed}):batch(10):repeat_n(2))
      return text:match("^%[(.-)%]; %[(.-)%]$")
    end
    local a, b = epochs(3)
    local c, d = epochs(3)
    assert.same({a, b}, {c, d})
    assert.are_not.equal(a, b)
    assert.are_not.equal(a, (epochs(4)))
    for _, text in ipairs{a, b} do
      local list = {}
      for n in text:gmatch("%d+") do list[#list + 1] = tonumber(n) end
      table.sort(list)
      assert.same({0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, list)
    end
    local same = elements(numbers(10):shuffle(10,
      {seed = 3, reshuffle_each_iteration = false}):batch(10):repeat_n(2))
    assert.equal(same:match("^%[(.-)%]"), same:match("; %[(.-)%]$"))
  end)

  it("shuffle reshuffles for each new iterator", function()
    local ds = numbers(20):shuffle(20, {seed = 1})
    assert.are_not.equal(elements(ds), elements(ds))
  end)

  it("shuffle reaches as far as its buffer", function()
    local place = 0
    for x in numbers(50):shuffle(4, {seed = 9}):iter() do
      assert.is_true(x:item() <= place + 3)
      place = place + 1
    end
  end)

  it("shuffle holds small elements in little more than their bytes", function()
    local script = [[
      local core, ipu = require "ipulua.core", require "ipulua"
      ipu.data.range(10):shuffle(10):iter()()
      local before = core.peak_memory()
      local first = ipu.data.range(400000):shuffle(400000):iter()():item()
      print(first < 400000, core.peak_memory() - before)]]
    local grown = tonumber(command.run{command.ipulua, "-e", script}.out:match("^true%s+(%d+)"))
    -- sanitizers keep notes of all that is allocated
    local most = command.ipulua:find("/build%-[at]san/") and 48e6 or 24e6
    assert(grown < most, grown) -- 6.4 MB and what doubling leaves; a tensor each would take 120 MB
  end)

  it("row 83: prefetch changes nothing", function()
    for _, n in ipairs{1, 5, data.AUTOTUNE} do
      assert.equal("0; 1; 2", elements(numbers(3):prefetch(n)))
    end
    assert.equal("0; 1; 2", elements(numbers(3):prefetch():with_options{}))
  end)
end)

-- Rows of 132 bytes are copied 496 at a time from 128 KiB on: element j of row i is 100 i + j.
describe("shuffled batches", function()
  it("are rows of the source, each of them once, for any team", function()
    local rows, cols = 5003, 33
    local places = ipu.reshape(ipu.cast(ipu.arange(rows), "float32"), {rows, 1}) * 100
      + ipu.cast(ipu.arange(cols), "float32")
    local first
    for _, threads in ipairs{1, 2, 3} do
      ipu.set_num_threads(threads)
      local seen, count, order = {}, 0, {}
      for x in ipu.data.from_tensor_slices(places):shuffle(5003, {seed = 3}):batch(1999):iter() do
        for _, row in ipairs(x:totable()) do
          local i = row[1] // 100
          local whole = not seen[i]
          for j = 1, cols do whole = whole and row[j] == 100 * i + j - 1 end
          if not whole then error("row " .. i .. " is not as it was, or comes twice") end
          seen[i], count = true, count + 1
          order[count] = i
        end
      end
      assert.equal(rows, count)
      first = first or order
      assert.same(first, order)
    end
    ipu.set_num_threads(2)
  end)
end)

describe("dataset cache", function()
  it("row 82: reads its source once", function()
    local count = {}
    assert.equal("1.0; 2.0; 3.0; 1.0; 2.0; 3.0", elements(counted(3, count):cache():repeat_n(2)))
    assert.same({starts = 1, elements = 3}, count)
  end)

  it("is there for the next iterator too, after a full pass", function()
    local count = {}
    local ds = counted(3, count):cache()
    elements(ds, 2)
    elements(ds)
    elements(ds)
    assert.equal(2, count.starts)
  end)

  it("keeps a file", function()
    local path = command.scratch()
    local count = {}
    assert.equal("1.0; 2.0", elements(counted(2, count):cache(path)))
    assert.equal("1.0; 2.0", elements(counted(2, count):cache(path)))
    assert.same({starts = 1, elements = 2}, count)
    raises(function() elements(numbers(2):cache(path)) end, "was not written by this dataset")
    os.remove(path)
  end)

  it("row 87: BufferDataset holds the first elements", function()
    local count = {}
    local ds = data.BufferDataset(counted(9, count):repeat_n(), 3)
    assert.equal("1.0; 2.0; 3.0; 1.0; 2.0; 3.0", elements(ds:repeat_n(2)))
    assert.same({starts = 1, elements = 3}, count)
    local it = ds:iterator()
    for _ = 1, 3 do it:next() end
    raises(function() it:next() end, "has no more elements")
    assert.equal("out_of_range", ipu.last_error().kind)
  end)
end)

describe("dataset questions", function()
  it("row 86: cardinality", function()
    for _, case in ipairs{
      {numbers(5), 5}, {numbers(5):repeat_n(), -1}, {numbers(5):repeat_n(2), 10},
      {numbers(5):batch(2), 3},
      {numbers(5):batch(2, {drop_remainder = true}), 2},
      {numbers(5):filter(function(x) return ipu.equal(x, 1) end), -2},
      {numbers(5):take(3), 3}, {numbers(5):skip(3), 2}, {counted(3, {}), -2},
      {numbers(5):shuffle(2):cache():prefetch(), 5},
      {data.zip(numbers(3), numbers(5):repeat_n()), 3}, {numbers(2):concatenate(numbers(3)), 5},
      {numbers(7):window(3), 3},
      {data.from_tensors(1), 1}, {numbers(5):shard(2, 0), 3},
    } do assert.equal(case[2], case[1]:cardinality()) end
  end)

  it("row 86: element_spec has the element's structure", function()
    assert.same({{shape = {2}, dtype = "float32"}, {shape = {}, dtype = "int32"}},
      pairs_of(3).element_spec)
    assert.equal("Dataset(batch: float32[-1, 2], int32[-1])", tostring(pairs_of(3):batch(2)))
    assert.equal("Dataset(from_tensor_slices: {x = {float32[3], int32[]}, y = float32[]})",
      tostring(data.from_tensor_slices{x = {ipu.ones{4, 3}, ipu.zeros({4}, "int32")},
        y = ipu.zeros{4}}))
    assert.equal("Dataset(from_tensor_slices: float32[3], {a = float32[]})",
      tostring(data.from_tensor_slices{ipu.ones{4, 3}, {a = ipu.ones{4}}}))
  end)

  it("refuses bad arguments at the script's line", function()
    for _, case in ipairs{
      {function() numbers(3):batch(0) end, "batch: 'batch_size' must be positive, got 0"},
      {function() numbers(3):shuffle(0) end, "shuffle: the buffer size must be at least 1"},
      {function() numbers(3):batch(2, {drop_reminder = true}) end, "drop_remainder"},
      {function() numbers(3):take("x") end, "take"},
      {function() numbers(3):shard(2, 2) end, "shard: the index must be between 0 and 1, got 2"},
      {function() data.range(1, 2, 0) end, "range: step is 0"},
      {function() data.zip(numbers(3), 7) end, "zip: argument 2 must be a dataset, got"},
      {function() numbers(3):concatenate(pairs_of(2)) end,
        "concatenate: the elements nest as int64[] in the first dataset, as {float32[2], int32[]}"},
      {function() numbers(3):flat_map(function(x) return x end) end,
        "flat_map: the function must return a dataset"},
    } do raises(case[1], "dataset_spec%.lua:%d+: .*" .. case[2]:gsub("[%[%]%-]", "%%%0")) end
  end)
end)

describe("dataset misuse", function()
  local function ragged()
    return data.from_generator(function() return coroutine.wrap(function()
      for i = 1, 3 do coroutine.yield(ipu.ones{i}) end
    end) end, "float32", {-1})
  end
  local holds_itself = {}
  holds_itself[1] = holds_itself

  for name, case in pairs {
    ["map: nothing returned"] = {function() numbers(3):map(function() end) end,
      "the function returned nothing"},
    ["map: a string returned"] = {function() numbers(3):map(function() return "x" end) end,
      "must return tensors, got string"},
    ["map: too many parameters"] = {function() numbers(3):map(function(a, b) return a + b end) end,
      "map: the function has 2 parameters, but an element of the dataset is one value"},
    ["map: itself returned"] = {function() numbers(3):map(function() return holds_itself end) end,
      "holds itself"},
    ["map: no function"] = {function() numbers(3):map(nil) end, "'f' is missing"},
    ["map: another type later"] = {function()
      elements(numbers(3):map(function(x) return x:item() == 1 and ipu.zeros{2} or ipu.zeros{} end,
        {eager = true}))
    end, "stage 'map' %(.-dataset_spec%.lua:%d+%).*declared float32%[%], but an element has "
      .. "float32%[2%]"},
    ["batch: different shapes"] = {function() elements(ragged():batch(2)) end,
      "stage 'batch'.*element 1 has shape %[2%], the first element's has %[1%]"},
    ["batch: larger than memory"] = {function() elements(numbers(3):batch(1 << 60)) end,
      "is too large"},
    ["padded_batch: a shape of another rank"] = {function()
      numbers(3):padded_batch(2, {padded_shapes = {2, 3}})
    end,
      "can't be filled up to %[2, 3%]"},
    ["unbatch: scalars"] = {function() numbers(3):unbatch() end, "is a scalar: it has no rows"},
    ["from_tensors: itself"] = {function() data.from_tensors(holds_itself) end, "holds itself"},
    ["from_tensors: nothing"] = {function() data.from_tensors(nil) end, "no tensor"},
    ["from_tensor_slices: a number"] = {function() data.from_tensor_slices(3) end,
      "no dimension to slice"},
    ["from_tensor_slices: ragged lists"] = {function() data.from_tensor_slices{{1, 2}, {3}} end,
      "ragged"},
    ["from_generator: no iterator"] = {function()
      elements(data.from_generator(function() return 3 end, "float32", {}))
    end, "stage 'from_generator'.*must return an iterator.*integer %(3%)"},
    ["from_generator: no dtype"] = {function() data.from_generator(pairs, "float33", {}) end,
      "did you mean 'float32'"},
    ["from_generator: no shape"] = {function() data.from_generator(pairs, "float32") end,
      "'output_shapes' must be given"},
    ["cache: no folder"] = {function() elements(numbers(3):cache("/no/such/folder/x")) end,
      "stage 'cache'.*cannot write"},
    ["prefetch: negative"] = {function() numbers(3):prefetch(-3) end, "must be at least %-1"},
    ["interleave: no cycle"] = {function()
      numbers(3):interleave(data.from_tensors, {cycle_length = 0})
    end, "cycle_length"},
    ["a misspelt method"] = {function() numbers(3):shufle(3) end,
      "has no 'shufle'; did you mean 'shuffle'"},
    ["a misspelt reader"] = {function() data.from_cvs("x") end,
      "has no 'from_cvs'; did you mean 'from_csv'"},
    ["stages without end"] = {function()
      local ds = numbers(3)
      for _ = 1, 1000 do ds = ds:take(2) end
    end, "up to 500 stages"},
  } do
    it("is an error: " .. name, function()
      raises(case[1], "dataset_spec%.lua:%d+: .*" .. case[2])
    end)
  end

  it("is none where there is a meaning: too much to take, skip, prefetch and shuffle", function()
    assert.equal("0; 1; 2", elements(numbers(3):take(-1)))
    assert.equal("", elements(numbers(3):skip(1 << 62)))
    assert.equal("0; 1; 2", elements(numbers(3):prefetch(1 << 40)))
    assert.equal("", elements(numbers(0):repeat_n()))
    local sum = 0
    for x in numbers(3):shuffle(1 << 60):iter() do sum = sum + x:item() end
    assert.equal(3, sum)
  end)
end)

describe("dataset failures", function()
  it("row 88: are errors that name the line, and the process lives", function()
    local ds = numbers(5):map(function(x)
      if x:item() == 2 then error("no twos") end
      return x
    end, {eager = true})
    local ok, message = pcall(elements, ds)
    assert.is_false(ok)
    assert.matches("dataset_spec%.lua:%d+: .*no twos", message)
    assert.equal("0; 1", elements(ds:take(2)))
  end)

  it("in a generator", function()
    local ds = data.from_generator(function() return function() error("the disk is gone") end end,
      {output_types = "float32", output_shapes = {}})
    raises(function() elements(ds) end, "from_generator.*the disk is gone")
    raises(function() elements(ds:prefetch(2):batch(2)) end, "the disk is gone")
  end)

  it("an iterator can't be read from inside itself", function()
    local it
    local ds = data.from_generator(function() return function() return (it:next()) end end,
      {output_types = "float32", output_shapes = {}})
    it = ds:iterator()
    raises(function() it:next() end, "already being read")
  end)
end)

describe("dataset iterators on the host", function()
  it("row 90: give nothing at the end, again and again", function()
    local it = numbers(1):iterator()
    assert.equal(0, it:next():item())
    assert.is_nil(it:next())
    assert.is_nil(it:next())
    it:close()
    assert.is_nil(it:next())
  end)

  it("close at break", function()
    local closed = 0
    for x in counted(9, {}):iter() do
      closed = closed + x:item()
      if closed >= 3 then break end
    end
    assert.equal(3, closed)
  end)

  it("run inside coroutines", function()
    local co = coroutine.wrap(function() return elements(counted(3, {})) end)
    assert.equal("1.0; 2.0; 3.0", co())
  end)
end)

describe("take_while", function()
  local function values_of(ds)
    local list = {}
    for x in ds:iter() do list[#list + 1] = type(x) == "string" and x or x:item() end
    return list
  end

  it("ends before the first element that fails, at each walk", function()
    local ds = data.range(10):map(function(i) return i * 3 % 10 end) -- 0 3 6 9 2 …
      :take_while(function(i) return ipu.less(i, 9) end)
    assert.same({0, 3, 6}, values_of(ds))
    assert.same({0, 3, 6}, values_of(ds))
    assert.equal(-2, ds:cardinality())
    assert.same({0, 3}, values_of(ds:take(2)))
    assert.same({0, 1}, values_of(data.range(2):take_while(function() return true end)))
    assert.same({}, values_of(data.range(2):take_while(function() return false end)))
  end)

  it("takes structures and texts", function()
    local tables = data.from_tensor_slices{a = ipu.arange(5), b = ipu.arange(5) * 2}
      :take_while(function(x) return ipu.less(x.a + x.b, 7) end)
    local sums = {}
    for x in tables:iter() do sums[#sums + 1] = (x.a + x.b):item() end
    assert.same({0, 3, 6}, sums)
    assert.same({"a", "b"}, values_of(data.from_tensor_slices{"a", "b", "end", "c"}
      :take_while(function(word) return word ~= "end" end)))
  end)

  it("feeds fit to its end, every epoch", function()
    local model = ipu.keras.Sequential{ipu.keras.layers.Dense{1, input_shape = {2}}}
    model:compile{optimizer = "sgd", loss = "mse"}
    local steps = {}
    local counter = ipu.keras.callbacks.LambdaCallback{on_train_batch_end = function(batch)
      steps[#steps + 1] = batch
    end}
    local ds = data.from_tensor_slices{ipu.ones{40, 2}, ipu.ones{40, 1}}:enumerate()
      :take_while(function(i) return ipu.less(i, 17) end)
      :map(function(_, each) return each[1], each[2] end):batch(4)
    model:fit(ds, {epochs = 2, verbose = 0, callbacks = {counter}})
    assert.same({0, 1, 2, 3, 4, 0, 1, 2, 3, 4}, steps)
  end)

  it("refuses what is no bool scalar", function()
    local ok, message = pcall(function()
      return values_of(data.range(3):take_while(function(i) return i end))
    end)
    assert.is_false(ok)
    assert.matches("take_while: the predicate must give one bool scalar, got a tensor", message)
  end)
end)

describe("reduce and apply", function()
  it("fold the elements into a state", function()
    assert.equal(10, data.range(5):reduce(0, function(sum, i) return sum + i end):item())
    local sums = data.from_tensor_slices{ipu.tensor{1, 2, 3}, ipu.tensor{5, 5, 5}}
      :reduce({0.0, 1.0}, function(s, x, y) return {s[1] + x, s[2] * y} end)
    assert.equal(6, sums[1]:item())
    assert.equal(125, sums[2]:item())
    local none = data.range(0):reduce(7, function() error "never" end)
    assert.equal(7, none:item())
    assert.equal("int32", none.dtype)
    local ok, message = pcall(function() return data.range(2):reduce(0, function() end) end)
    assert.is_false(ok)
    assert.matches("reduce: the function returned nothing; it returns the new state", message)
  end)

  it("hand a dataset to a function in a chain", function()
    local list = {}
    for x in data.range(5):apply(function(ds) return ds:batch(2) end):iter() do
      list[#list + 1] = #x
    end
    assert.same({2, 2, 1}, list)
    local ok, message = pcall(function() return data.range(2):apply(function() return 1 end) end)
    assert.is_false(ok)
    assert.matches("apply: the function must return a dataset, got integer %(1%)", message)
  end)
end)
