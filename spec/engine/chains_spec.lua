-- Chains of elementwise steps, in pieces that the size of the steps, a product's blocks or the
-- threads decide. A program has the bits of its ops one by one.

local ipu = require "ipulua"

local function normal(shape, seed) return ipu.random.normal(shape, {seed = seed}) end

local function agrees(f, ...)
  local alone, together = f(...), ipu.func(f)(...)
  assert.is_true(ipu.reduce_all(ipu.equal(alone, together)):item())
end

describe("a chain after a product", function()
  local x <const>, w <const> = normal({60, 30}, 1), normal({30, 40}, 2)

  it("reads operands that repeat in some other way than a row", function()
    local function f(a, b, c) return ipu.nn.relu(ipu.matmul(a, b) + c) end
    agrees(f, x, w, normal({60, 1}, 3))
    agrees(f, normal({6, 20, 30}, 1), w, normal({20, 40}, 3)) -- a table of 20 positions
    agrees(f, normal({6, 20, 30}, 1), normal({30, 520}, 2), normal({20, 520}, 3)) -- two blocks
    agrees(f, normal({6, 20, 30}, 1), w, normal({6, 1, 40}, 3))
  end)

  it("reads more operands than rows are joined with", function()
    for _, shape in ipairs{{60, 40}, {1, 40}, {60, 1}} do
      local many = {}
      for i = 1, 9 do many[i] = normal(shape, 10 + i) end
      agrees(function(a, b, ...)
        local y = ipu.matmul(a, b)
        for _, operand in ipairs{...} do y = y + operand end
        return y
      end, x, w, table.unpack(many))
    end
  end)

  -- 1.00146484375 is half-way between two float16. Of rows that were rounded by the numbers of
  -- others there would be equal ones: each has 64 elements of two kinds.
  it("rounds each element by its own number", function()
    local f = ipu.func(function(a, b, bias)
      local _ <close> = ipu.stochastic_rounding(true)
      return ipu.cast(ipu.matmul(a, b) + bias, "float16")
    end)
    local y = f(ipu.ones{64, 8}, ipu.full({8, 64}, 0.00146484375 / 8), ipu.ones{64})
    local seen = {}
    for i = 1, 64 do
      local row = table.concat(y[i]:totable(), " ")
      assert.is_nil(seen[row], "rows are alike")
      seen[row] = true
    end
    assert.is_near(1.00146484375, ipu.reduce_mean(ipu.cast(y, "float32")):item(), 3e-5)
  end)
end)

describe("bytes divided by one number", function()
  local bytes <const> = ipu.reshape(ipu.cast(ipu.arange(512), "uint8"), {2, 256})

  it("have the bits of a division, whatever else is read and of what dtype", function()
    local one = ipu.tensor(51, {dtype = "uint8"})
    agrees(function(b) return ipu.cast(b, "float32") / 255 end, bytes)
    agrees(function(b) return ipu.cast(b, "float16") / 255 end, bytes)
    agrees(function(b, x) return ipu.cast(b, "float32") / 255 + x end, one, normal({2, 256}, 1))
    agrees(function(b, x)
      return ipu.cast(ipu.broadcast_to(b, {2, 256}), "float32") / 255 + x
    end, one, normal({2, 256}, 1))
    agrees(function(b)
      local wide = ipu.cast(b, "float32")
      return wide / 255 + wide
    end, bytes)
  end)

  it("may be a result before they are divided", function()
    local wide, part = ipu.func(function(b)
      local wide = ipu.cast(b, "float32")
      return wide, wide / 51
    end)(bytes)
    assert.equal(102.0, wide[1][103]:item())
    assert.equal(2.0, part[1][103]:item())
    assert.equal(5.0, part[2][256]:item())
  end)
end)
