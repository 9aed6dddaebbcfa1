-- t[2] = v: what is written, and that what was made of the tensor before stays as it was.

local ipu = require "ipulua"

local function grid() return ipu.reshape(ipu.cast(ipu.arange(12), "float32"), {3, 4}) end

-- Plain nested lists, which assert.same compares.
local function plain(t)
  local list = type(t) == "userdata" and t:totable() or t
  if type(list) ~= "table" then return list end
  local copy = {}
  for i, each in ipairs(list) do copy[i] = plain(each) end
  return copy
end

describe("assigning to elements of a tensor", function()
  it("writes a row, from the front and from the end", function()
    local t = grid()
    t[2] = 7
    t[-1] = {1, 2, 3, 4}
    assert.same({{0, 1, 2, 3}, {7, 7, 7, 7}, {1, 2, 3, 4}}, plain(t))
    local v = ipu.arange(3)
    v[1], v[-1] = 10, 12
    assert.same({10, 1, 12}, plain(v))
  end)

  it("writes ranges and positions of axes, and broadcasts what is written", function()
    local t = ipu.reshape(ipu.cast(ipu.arange(24), "float32"), {2, 3, 4})
    t[{{}, 2}] = {{1}, {2}}
    t[{2, {2, 3}, {2, 3}}] = -5
    assert.same({ -- NumPy: t[:, 1] = [[1], [2]]; t[1, 1:, 1:3] = -5
      {{0, 1, 2, 3}, {1, 1, 1, 1}, {8, 9, 10, 11}},
      {{12, 13, 14, 15}, {2, -5, -5, 2}, {20, -5, -5, 23}},
    }, plain(t))
    local v = ipu.tensor{1, 2, 3, 4, 5}
    v[{2, 5}] = 0
    assert.same({1, 0, 0, 0, 0}, plain(v))
  end)

  it("writes where a mask is true: one number, or values in order", function()
    local t = ipu.reshape(ipu.arange(12), {3, 4})
    t[ipu.equal(t % 3, 0)] = {100, 101, 102, 103}
    assert.same({{100, 1, 2, 101}, {4, 5, 102, 7}, {8, 103, 10, 11}}, plain(t))
    t[ipu.tensor{true, false, true}] = {0, 10, 20, 30}
    assert.same({{0, 10, 20, 30}, {4, 5, 102, 7}, {0, 10, 20, 30}}, plain(t))
    t[ipu.greater(t, 5)] = 0
    assert.same({{0, 0, 0, 0}, {4, 5, 0, 0}, {0, 0, 0, 0}}, plain(t))
    t[ipu.greater(t, 99)] = 1
    assert.same({4, 5, 0, 0}, plain(t[2]))
  end)

  it("writes through what an index took out: t[1][2] = v", function()
    local t = grid()
    t[1][2] = -1
    t[-1][-1] = 99
    t[{{}, {1, 2}}][2] = {50, 51}
    assert.same({{0, -1, 2, 3}, {50, 51, 6, 7}, {8, 9, 10, 99}}, plain(t))
    local row = t[3]
    row[1] = 5
    assert.same({5, 9, 10, 99}, plain(t[3]))
    assert.same({5, 9, 10, 99}, plain(row))
  end)

  -- NumPy: t[0][1] = -1
  it("writes through where tapes are open that don't record here", function()
    local written = {}
    local function write()
      local t = ipu.tensor{{1, 2}, {3, 4}}
      t[1][2] = -1
      written[#written + 1] = plain(t)
      return 0
    end
    local callback = ipu.host_callback(write, {outputs = {{{}, "float32"}}})
    local around = ipu.GradientTape()
    around(function() return ipu.func(function(x) return callback(x) end)(ipu.ones{2}) end)
    local waiting = coroutine.create(function()
      local tape <close> = ipu.GradientTape()
      coroutine.yield()
      return tape
    end)
    assert(coroutine.resume(waiting))
    write()
    assert(coroutine.resume(waiting))
    assert.same({{{1, -1}, {3, 4}}, {{1, -1}, {3, 4}}}, written)
  end)

  it("takes a part of the tensor itself", function()
    local t = grid()
    t[{2, 3}] = t[{1, 2}]
    assert.same({{0, 1, 2, 3}, {0, 1, 2, 3}, {4, 5, 6, 7}}, plain(t))
  end)

  for _, dtype in ipairs{"float32", "float16", "bfloat16", "float64", "int8", "uint8", "int32",
    "int64"} do
    it("keeps " .. dtype, function()
      local t = ipu.zeros({2, 3}, {dtype = dtype})
      t[{{}, 2}] = {1, 2}
      assert.equal(dtype, t.dtype)
      assert.same({{0, 1, 0}, {0, 2, 0}}, plain(t))
    end)
  end

  it("takes booleans", function()
    local t = ipu.zeros({3}, {dtype = "bool"})
    t[2] = true
    assert.same({false, true, false}, plain(t))
  end)

  it("fills what shared one number", function()
    local t = ipu.broadcast_to(ipu.tensor(4), {2, 2})
    t[1][1] = 0
    assert.same({{0, 4}, {4, 4}}, plain(t))
  end)
end)

describe("an object that was given the tensor before keeps its numbers:", function()
  local function after(make, read)
    local t = ipu.tensor{1, 2, 3}
    local made = make(t)
    t[2] = 20
    assert.same({1, 20, 3}, plain(t))
    return plain(read(made))
  end

  it("a variable", function()
    assert.same({1, 2, 3}, after(ipu.Variable, function(v) return v end))
    local v = ipu.Variable{1, 2}
    local value = v:read_value()
    value[1] = 5
    assert.same({1, 2}, plain(v))
  end)

  it("a dataset", function()
    assert.same({1, 2, 3}, after(ipu.data.from_tensor_slices, function(ds)
      local list = {}
      for x in ds:iter() do list[#list + 1] = x:item() end
      return list
    end))
  end)

  it("a program", function()
    assert.same({1, 2, 3}, after(function(t)
      local f = ipu.func(function(x) return x + t end)
      f(ipu.zeros{3})
      return f
    end, function(f) return f(ipu.zeros{3}) end))
  end)

  it("another shape of it", function()
    assert.same({{1, 2, 3}}, after(function(t) return t:reshape{1, 3} end,
      function(t) return t end))
  end)
end)

describe("elements can't be assigned to", function()
  local function refuses(pattern, f, ...)
    local ok, message = pcall(f, ...)
    assert.is_false(ok)
    assert.matches(pattern, message)
    assert.matches("assignment_spec.lua:%d+: ", message)
  end

  it("of a tensor that a tape holds, until the tape was asked", function()
    local t = ipu.ones{3}
    local tape = ipu.GradientTape()
    local y = tape(function() return t * t end)
    refuses("a gradient tape holds this tensor.*ipu.scatter_nd", function() t[1] = 0 end)
    refuses("a gradient tape holds this tensor", function() t[{{2, 3}}][1] = 0 end)
    assert.same({2, 2, 2}, plain(tape:gradient(y, t)))
    t[1] = 0
    assert.same({0, 1, 1}, plain(t))
  end)

  it("while a function is traced", function()
    local other = ipu.ones{2}
    refuses("while a function is traced", ipu.func(function(x) x[1] = 0 end), ipu.ones{2})
    refuses("while a function is traced", ipu.func(function(x) other[1] = 0 return x end),
      ipu.ones{2})
    assert.same({1, 1}, plain(other))
  end)

  it("of a variable", function()
    local v = ipu.Variable{1, 2}
    refuses("v:assign", function() v[1] = 0 end)
    local m = ipu.Variable(ipu.zeros{2, 2, 2})
    refuses("v:assign", function() m[1][2] = 5 end)
    refuses("v:assign", function() m[1][2][1] = 5 end)
    refuses("v:assign", function() m[-1][1] = 5 end)
    refuses("v:assign", function() m[{{1, 2}}][1] = 5 end)
    refuses("v:assign", function() m[{1, 2}][1] = 5 end)
    local reading = m:read_value() -- a tensor of its own
    reading[1][2] = 5
    assert.same({0, 0, 5, 5, 0, 0, 0, 0}, plain(ipu.reshape(reading, {-1})))
    assert.same({0, 0, 0, 0, 0, 0, 0, 0}, plain(ipu.reshape(m:read_value(), {-1})))
  end)

  it("where index or values don't fit", function()
    local t = grid()
    refuses("position 4 lies outside of axis 0, which has 3", function() t[4] = 0 end)
    refuses("there is no position 0", function() t[0] = 0 end)
    refuses("%[3%] don't fit elements of the shape %[4%]", function() t[1] = {1, 2, 3} end)
    refuses("%[3%] don't fit elements of the shape %[2%]", function()
      t[ipu.tensor{true, false, false}] = 0
      ipu.arange(3)[ipu.tensor{true, false, true}] = {1, 2, 3}
    end)
    refuses("elements of float32 are assigned values of int32", function() t[1] = ipu.arange(4) end)
    refuses("0.5 is no int32", function() ipu.arange(3)[1] = 0.5 end)
    refuses("what is assigned to elements must be .* got string %(x%)", function() t[1] = "x" end)
    refuses("what is assigned to elements must be .* got nil", function() t[1] = nil end)
    refuses("got %[2%] for %[3, 4%]", function() t[ipu.tensor{true, false}] = 0 end)
    refuses("fields can't be assigned to, such as 'shape'", function() t.shape = {4, 3} end)
    refuses("a tensor of rank 0 has no axis 0", function() ipu.tensor(1)[1] = 0 end)
    assert.same({0, 0, 0, 0}, plain(t[1]))
  end)
end)
