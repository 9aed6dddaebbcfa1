-- Where values cross a border, their types and structure are compared each time, not the first time
-- only.

local command = require "spec.support.command"
local ipu = require "ipulua"
local log = require "ipulua.base.log"

local function refused(pattern, f, ...)
  local ok, why = pcall(f, ...)
  assert.is_false(ok)
  assert.matches(pattern, why)
end

local function put(queue, structure)
  return ipu.func(function(x)
    queue:enqueue(structure(x))
    return x
  end)
end

local function bare(x) return x end
local function pair(x) return {a = x, b = x * 2} end
local function list(x) return {x} end
local function integers(x) return ipu.cast(x, "int32") end

describe("an outfeed", function()
  for name, case in pairs {
    ["another number of components"] = {bare, pair, "shape"},
    ["fewer components"] = {pair, bare, "shape"},
    ["another structure of the same types"] = {bare, list, "structure"},
    ["another dtype"] = {bare, integers, "shape"},
    ["another shape"] = {bare, function(x) return ipu.concat({x, x}, {axis = 0}) end, "shape"},
  } do
    it("that holds values refuses values of " .. name
      .. ", and takes them when it is drained", function()
      local queue = ipu.IPUOutfeedQueue()
      local first, second = put(queue, case[1]), put(queue, case[2])
      for i = 1, 5 do first(ipu.full({3001}, i, "float32")) end
      refused("holds values of another " .. case[3], second, ipu.full({3001}, 7, "float32"))
      local got = queue:dequeue()
      local column = case[1] == pair and got.a or got
      assert.same({5, 3001}, column.shape)
      assert.same({3001, 6002, 9003, 12004, 15005}, ipu.reduce_sum(column, {axis = 1}):totable())
      if case[1] == pair then assert.equal(10, got.b[5][3001]:item()) end
      second(ipu.full({3001}, 7, "float32"))
      got = queue:dequeue()
      column = case[2] == pair and got.b or case[2] == list and got[1] or got
      assert.equal(1, column.shape[1])
      assert.equal(case[2] == pair and 14 or 7, column[1][3001]:item())
      first(ipu.full({3001}, 8, "float32")) -- the first program again
      got = queue:dequeue()
      assert.equal(8, (case[1] == pair and got.a or got)[1][1]:item())
    end)
  end

  it("compares the shapes of two signatures of one function", function()
    local queue = ipu.IPUOutfeedQueue()
    local f = put(queue, bare)
    f(ipu.ones{2003})
    refused("another shape", f, ipu.ones{4001})
    assert.same({1, 2003}, queue:dequeue().shape)
    f(ipu.ones{4001})
    f(ipu.full({4001}, 3))
    local got = queue:dequeue()
    assert.same({2, 4001}, got.shape)
    assert.same({4001, 12003}, ipu.reduce_sum(got, {axis = 1}):totable())
  end)

  it("of mode LAST gives the newest value, whatever the one before was", function()
    local queue = ipu.IPUOutfeedQueue{outfeed_mode = "LAST"}
    for _, case in ipairs{{bare, bare}, {pair, function(v) return v.b end},
      {list, function(v) return v[1] end}, {integers, bare}} do
      put(queue, case[1])(ipu.full({4001}, 6, "float32"))
      assert.equal(case[1] == pair and 12 or 6, case[2](queue:dequeue())[4001]:item())
    end
    put(queue, bare)(ipu.constant(2.5))
    assert.equal(2.5, queue:dequeue():item())
  end)

  it("takes nothing from a function whose trace fails", function()
    local queue, empty = ipu.IPUOutfeedQueue(), ipu.IPUOutfeedQueue()
    local first = put(queue, bare)
    for i = 1, 3 do first(ipu.full({2003}, i, "float32")) end
    refused("this function is wrong", ipu.func(function(x)
      queue:enqueue(pair(x))
      empty:enqueue(x)
      error "this function is wrong"
    end), ipu.ones{2003})
    assert.same({3, 2003}, queue:dequeue().shape)
    refused("has not been enqueued to", empty.dequeue, empty)
    assert.is_false(empty.enqueued)
  end)

  it("gives none of the newest program's values where it is empty", function()
    local queue = ipu.IPUOutfeedQueue()
    put(queue, bare)(ipu.ones{3})
    queue:dequeue()
    put(queue, pair):concrete(ipu.ones{5})
    local got = queue:dequeue()
    assert.same({0, 5}, got.a.shape)
    assert.same({0, 5}, got.b.shape)
  end)

  it(
    "takes values of another number of replicas when it is drained, in mode LAST always", function()
    local function configure(n)
      local config = ipu.IPUConfig()
      config.auto_select_ipus = n
      -- that the one before is reset
      return #log.capture("warn", config.configure_ipu_system, config)
    end
    finally(ipu.reset_ipu_configuration)
    local all, last = ipu.IPUOutfeedQueue(), ipu.IPUOutfeedQueue{outfeed_mode = "LAST"}
    local f = ipu.func(function(x)
      all:enqueue(x)
      last:enqueue(x)
      return x
    end)
    assert.equal(0, configure(2))
    f(ipu.full({331}, 1, "float32"))
    assert.same({2, 331}, last:dequeue().shape)
    assert.equal(1, configure(1))
    refused("another shape", f, ipu.full({331}, 2, "float32"))
    assert.same({1, 2, 331}, all:dequeue().shape)
    f(ipu.full({331}, 3, "float32"))
    assert.same({331}, last:dequeue().shape)
    assert.equal(3, all:dequeue()[1][331]:item())
  end)
end)

describe("an infeed", function()
  it("refuses another dataset whose elements differ", function()
    local queue = ipu.IPUInfeedQueue(ipu.data.from_tensor_slices(ipu.ones{8, 3}))
    for _, other in ipairs{ipu.ones{8, 4}, ipu.ones({8, 3}, "int32"),
      {ipu.ones{8, 3}, ipu.ones{8}}} do
      refused("differ from those", queue.queue.replace, queue.queue,
        ipu.data.from_tensor_slices(other).handle, 1)
    end
  end)
end)

describe("results of a script's function", function()
  -- Outside of a program and in one, results are compared with what was declared; tensors go in.
  for form, called in pairs{
    ["at once"] = function(f) return f end,
    ["in a program"] = function(f) return ipu.func(function(...) return f(...) end) end,
  } do
    it("is compared with what a host callback declares, " .. form, function()
      local one = {{{2}, "float32"}}
      local function call(f, outputs, ...)
        return called(ipu.host_callback(f, {outputs = outputs}))(...)
      end
      local function fails(words, f, outputs, ...)
        local ok, message = pcall(call, f, outputs, ...)
        assert.is_false(ok)
        assert.truthy(message:find(words, 1, true), message)
      end
      local x = ipu.tensor{3, 4}
      fails("result 1 is float32[3], but was declared as float32[2]", function()
        return {1, 2, 3}
      end, one, x)
      fails("result 1 is int32[2], but was declared as float32[2]", function()
        return ipu.tensor({1, 2}, "int32")
      end, one, x)
      fails("result 1 must be a tensor, got nil", function() end, one, x)
      fails("result 2 is one more than outputs says", function(v) return v, v end, one, x)
      fails("result 1 is one more than outputs says", function(v) return v end, nil, x)
      fails("argument 2 must be", function(v) return v end, one, x, nil, x)
      assert.same({6, 8}, call(function(v) return v + v end, one, x):totable())
      assert.equal(7, call(function(n) return n:item() + 2 end, {{{}, "float32"}}, 5.0):item())
      local w = ipu.Variable(x)
      assert.same({4, 5}, call(function(v) return v + 1 end, one, w):totable())
    end)
  end

  it("is compared each time: a host call", function()
    local wide = false
    local f = ipu.func(function(x)
      return ipu.host_callback(function(v) return wide and ipu.concat({v, v}, {axis = 0}) or v end,
        {outputs = {{{3}, "float32"}}})(x)
    end)
    assert.same({3}, f(ipu.ones{3}).shape)
    wide = true
    refused("declared as float32%[3%]", f, ipu.ones{3})
    wide = false
    assert.same({3}, f(ipu.ones{3}).shape)
  end)

  for name, make in pairs {
    ["an element of a generator"] = function(element)
      return ipu.data.from_generator(function()
        local i = 0
        return function()
          i = i + 1
          if i <= 4 then return element(i) end
        end
      end, {output_types = "float32", output_shapes = {3}})
    end,
    ["an element of an eager map"] = function(element)
      return ipu.data.range(1, 5):map(function(i) return element(i:item()) end,
        {eager = true, output_types = "float32", output_shapes = {3}})
    end,
  } do
    it("is compared each time: " .. name, function()
      local it = make(function(i)
        return i == 3 and ipu.ones{4} or ipu.full({3}, i, "float32")
      end):iterator()
      assert.equal(1, it:next()[1]:item())
      assert.equal(2, it:next()[1]:item())
      refused("float32%[4%]", it.next, it)
      assert.equal(4, it:next()[1]:item())
    end)
  end
end)

describe("a cache's file", function()
  it("is compared with the dataset that reads it, each time", function()
    local path = command.scratch()
    finally(function() os.remove(path) end)
    local function slices(t)
      return ipu.data.from_tensor_slices(t):map(function(x) return x end):cache(path)
    end
    local count = 0
    for _ = 1, 2 do
      for x in slices(ipu.ones{5, 3}):iter() do
        count = count + 1
        assert.same({3}, x.shape)
      end
    end
    assert.equal(10, count)
    for _, other in ipairs{ipu.ones{5, 4}, ipu.ones({5, 3}, "int32"), ipu.ones{5}} do
      refused("was not written by this dataset", function() slices(other):iterator():next() end)
    end
    assert.same({3}, slices(ipu.ones{5, 3}):iterator():next().shape)
  end)
end)

describe("an upstream gradient", function()
  for name, wrong in pairs{["another shape"] = ipu.ones{4},
    ["a shape that would broadcast"] = ipu.ones{1},
    ["a scalar"] = ipu.constant(1.0), ["another dtype"] = ipu.ones({3}, "float16")} do
    it("is compared with its value in each trace, and by each tape: " .. name, function()
      local f = ipu.func(function(x, dy) return ipu.gradients(x * x, {x}, {grad_ys = {dy}})[1] end)
      assert.same({2, 2, 2}, f(ipu.ones{3}, ipu.ones{3}):totable())
      refused("", f, ipu.ones{3}, wrong)
      assert.same({6, 6, 6}, f(ipu.ones{3}, ipu.full({3}, 3)):totable())
      local v = ipu.Variable(ipu.ones{3})
      for _, dy in ipairs{ipu.ones{3}, wrong} do
        local tape = ipu.GradientTape()
        local y = tape(function() return v * v end)
        local ok, dv = pcall(tape.gradient, tape, y, v, {output_gradients = dy})
        assert.equal(dy ~= wrong, ok)
        if ok then assert.same({2, 2, 2}, dv:totable()) end
      end
    end)
  end
end)
