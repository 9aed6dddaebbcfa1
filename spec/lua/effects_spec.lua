-- Side effects of programs.

local command = require "spec.support.command"
local ipu = require "ipulua"

-- The lines that a script writes to standard error.
local function stderr_of(script)
  local path = command.scratch()
  local file = assert(io.open(path, "w"))
  file:write("local ipu = require 'ipulua'\n", script)
  file:close()
  local pipe = io.popen((os.getenv("IPULUA") or "build/ipulua") .. " " .. path
    .. " 2>&1 >/dev/null")
  local lines = {}
  for line in pipe:lines() do lines[#lines + 1] = line end
  pipe:close()
  os.remove(path)
  return lines
end

describe("print_tensor", function()
  it(
    "row 240: writes name and value to standard error at each execution, and gives the value on",
    function()
    assert.same({"x: [1. 2.]", "x: [1. 2.]", "x: [2. 4.]"}, stderr_of [[
      local f = ipu.func(function(x) return ipu.print_tensor(x, {name = "x"}) * 2 end)
      local y = f(ipu.tensor{1, 2})
      assert(f(ipu.tensor{1, 2}):totable()[2] == 4)
      f(y)]])
  end)

  it("prints once an iteration of a loop, also if the value isn't used", function()
    assert.same({"0", "1", "2"}, stderr_of [[
      ipu.func(function()
        return ipu.loops.repeat_n(3, function(i)
          ipu.print_tensor(i)
          return i + 1
        end, {0})
      end)()]])
  end)

  it("prints in a session when it is fetched", function()
    assert.same({"a: [1. 2.]"}, stderr_of [[
      local a = ipu.placeholder("float32", {-1})
      local shown, plain = ipu.print_tensor(a, {name = "a"}), a + 1
      local session <close> = ipu.Session()
      session:run(plain, {feed_dict = {[a] = {5}}})
      assert(session:run(shown, {feed_dict = {[a] = {1, 2}}}):totable()[2] == 2)]])
  end)

  it("is the identity for gradients", function()
    local f = ipu.func(function(x)
      return ipu.gradients(ipu.print_tensor(x, "quiet") * 3, {x})[1]
    end)
    local stderr = io.stderr
    local sink <close> = assert(io.open("/dev/null", "w"))
    io.stderr = sink -- luacheck: ignore 122
    local ok, d = pcall(f, ipu.tensor(2.0))
    io.stderr = stderr -- luacheck: ignore 122
    assert.is_true(ok)
    assert.equal(3, d:item())
  end)
end)

describe("a host callback", function()
  -- y = k x, where the callback gives k: what it gave is a constant of the gradient.
  it("isn't called again by a gradient, in a branch or a loop either", function()
    local calls = 0
    local give = ipu.host_callback(function()
      calls = calls + 1
      return ipu.tensor(10.0 * calls)
    end, {outputs = {{{}, "float32"}}})
    local function product(y) return y * give(y) end
    for _, f in ipairs{product,
      function(y) return ipu.cond(ipu.greater(y, 0), function() return product(y) end, function()
        return y
      end) end,
      function(y) return (ipu.loops.repeat_n(1, product, {y})) end,
    } do
      local v, tape = ipu.Variable(ipu.tensor(2.0)), ipu.GradientTape()
      calls = 0
      local y = ipu.func(f)(v)
      assert.same({20, 10, 1}, {y:item(), tape:gradient(y, v):item(), calls})
    end
  end)

  it("takes and gives a hundred values and more", function()
    local types, given = {}, {}
    for i = 1, 300 do types[i], given[i] = {{}, "float32"}, ipu.tensor(i) end
    local add = ipu.host_callback(function(...)
      local results = {...}
      for i, x in ipairs(results) do results[i] = x + 1 end
      return table.unpack(results)
    end, {outputs = types})
    local results = {ipu.func(function(x)
      local list = {}
      for i = 1, 300 do list[i] = given[i] * x end
      return add(table.unpack(list))
    end)(ipu.tensor(2))}
    assert.equal(300, #results)
    for i, x in ipairs(results) do assert.equal(2 * i + 1, x:item()) end
  end)
end)
