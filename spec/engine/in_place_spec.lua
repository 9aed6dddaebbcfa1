-- A program copies nothing that could have been written where it belongs.
local core = require "ipulua.core"
local ipu = require "ipulua"

-- The steps of the programs that f compiles, as text.
local function steps_of(f)
  local trace_end, text = core.trace_end, ""
  core.trace_end = function(...)
    local program = trace_end(...)
    text = text .. program:text()
    return program
  end
  local ok, message = pcall(f)
  core.trace_end = trace_end
  assert(ok, message)
  return text
end

local function int(n) return ipu.tensor(n, {dtype = "int32"}) end

describe("a program", function()
  it(
    "copies no accumulator that a branch leaves alone, and adds products as it stores them",
    function()
    local w = ipu.Variable(ipu.zeros{3, 2})
    local sums = ipu.Variable(ipu.zeros{3, 2})
    local count = ipu.Variable(int(0))
    local x, y = ipu.tensor{{1, 2, 3}, {4, 5, 6}}, ipu.tensor{{1, 0}, {0, 2}}
    local text = steps_of(function()
      ipu.func(function(n, a, b)
        return ipu.loops.repeat_n(n, function()
          sums:assign_add(ipu.matmul(a, b, {transpose_a = true}))
          count:assign_add(int(1))
          ipu.cond(ipu.equal(ipu.mod(count, int(3)), int(0)), function()
            w:assign_add(sums)
            sums:assign(ipu.zeros{3, 2})
          end, function() end)
        end)
      end)(int(7), x, y)
    end)
    -- x' y = {{1, 8}, {2, 10}, {3, 12}}: six times in w, once in the sums
    assert.same({{6, 48}, {12, 60}, {18, 72}}, w:totable())
    assert.same({{1, 8}, {2, 10}, {3, 12}}, sums:totable())
    assert.is_nil(text:match("copy[^\n]*input"), text)
    assert.is_truthy(text:match("gemm +3x2x2  add"), text)
  end)

  it("keeps the old value where it is read after the branch", function()
    local v = ipu.Variable(ipu.tensor{1, 2})
    local seen = ipu.Variable(ipu.zeros{2})
    local step = ipu.func(function(n)
      return ipu.loops.repeat_n(n, function()
        local before = v:read_value()
        v:assign(before * 2)
        local doubled = v:read_value()
        ipu.cond(ipu.greater(ipu.reduce_sum(doubled), 20), function() v:assign(ipu.zeros{2}) end,
          function() end)
        seen:assign(before + doubled + v)
      end)
    end)
    step(int(3)) -- 1 2, 2 4, 4 8: doubled to 8 16 and then set to zero
    assert.same({0, 0}, v:totable())
    assert.same({12, 24}, seen:totable())
  end)

  it("gives the same sums with an accumulator as with an addition afterwards", function()
    local a, b = ipu.random.normal({40, 700}, {seed = 1}), ipu.random.normal({40, 30}, {seed = 2})
    local start = ipu.random.normal({700, 30}, {seed = 3})
    local apart = start + ipu.matmul(a, b, {transpose_a = true})
    local sums = ipu.Variable(start)
    ipu.func(function(p, q) sums:assign_add(ipu.matmul(p, q, {transpose_a = true})) end)(a, b)
    assert.same(apart:totable(), sums:totable())
  end)
end)
