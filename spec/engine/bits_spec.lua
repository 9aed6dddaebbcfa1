-- The compiler leaves out, fuses and looks through nodes without changing a bit. Random programs
-- invite it, on numbers at their limits.

local command = require "spec.support.command"
local fuzz = require "spec.support.fuzz_bits"
local ipu = require "ipulua"

describe("random programs of neutral operands, detours and views", function()
  it("have the bits of eager ops in every form, seeds 1 to 80", function()
    for seed = 1, 80 do
      local wrong = fuzz.check(seed)
      assert.is_nil(wrong, wrong)
    end
  end)

  it("have the same bits on 1, 2, 3 and 7 threads", function()
    local digests = {}
    for i, threads in ipairs{1, 2, 3, 7} do
      local r = command.run{command.ipulua, "--threads", tostring(threads),
        "spec/support/fuzz_bits.lua", "1", "20"}
      assert.equal(0, r.status, r.err)
      assert.matches("20 seeds, 80 programs, 0 wrong", r.out)
      digests[i] = r.out:match("%x+%s*$")
      assert.equal(64, #digests[i]:gsub("%s", ""))
      assert.equal(digests[1], digests[i])
    end
  end)
end)

-- More operands than short rows are written out of: x + 1 + 2 … + 12, then 12 times the column.
it("a chain of short rows takes any number of operands that are repeated", function()
  local x = ipu.reshape(ipu.arange(0, 64 * 7, {dtype = "float32"}), {64, 7})
  for _, count in ipairs{3, 8, 9, 12} do
    local rows = {}
    for i = 1, count do rows[i] = ipu.arange(i, i + 7, {dtype = "float32"}) end
    local f = ipu.func(function(y, ...)
      for _, row in ipairs{...} do y = ipu.nn.relu(y + row) end
      return y
    end)
    local y, first = f(x, table.unpack(rows)):totable(), count * (count + 1) // 2
    for i = 0, 63 do
      for k = 0, 6 do assert.equal(7 * i + k + first + count * k, y[i + 1][k + 1]) end
    end
  end
end)
