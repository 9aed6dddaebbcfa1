-- What the compiler leaves out, fuses and looks through changes no bit: random programs that invite
-- it, on numbers at their limits.

local command = require "spec.support.command"
local fuzz = require "spec.support.fuzz_bits"

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
