-- A cast of bytes and the division after it are one pass. Each quotient is still the float32
-- nearest to the true one.

local ipu = require "ipulua"

local list = {}
for i = 0, 255 do list[i + 1] = i end
local bytes = ipu.tensor(list, {dtype = "uint8"})

-- Lua divides in float64, which has more than twice the digits of float32. So rounding its quotient
-- once more gives the nearest float32.
local function nearest(x) return string.unpack("<f", string.pack("<f", x)) end

local function text(x) return x ~= x and "nan" or string.format("%a", x) end

describe("bytes divided by a number", function()
  for _, divisor in ipairs{255, -255, 127.5, 3, -7.25, 0.10000000149011612, 1e-30, 1e30, 0, -0.0,
    math.huge} do
    it("gives the nearest float32, by " .. divisor, function()
      local quotients = ipu.func(function(x) return ipu.cast(x, "float32") / divisor end)(
        bytes):totable()
      local by = nearest(divisor)
      for i, q in ipairs(quotients) do assert.equal(text(nearest((i - 1) / by)), text(q)) end
    end)
  end

  it("leaves the cast to its other readers", function()
    local both = ipu.func(function(x)
      local wide = ipu.cast(x, "float32")
      return wide / 255 + wide
    end)(bytes):totable()
    for i, y in ipairs(both) do assert.equal(nearest(nearest((i - 1) / 255) + (i - 1)), y) end
  end)

  it("tells a trap of a division by zero", function()
    local config = require "ipulua.config"
    finally(config.reset_ipu_configuration)
    local c = ipu.IPUConfig()
    c.floating_point_behaviour.div0 = true
    c:configure_ipu_system()
    local f = ipu.func(function(x) return ipu.cast(x, "float32") / 0 end)
    assert.error_matches(function() f(bytes) end, "division by zero")
  end)
end)
