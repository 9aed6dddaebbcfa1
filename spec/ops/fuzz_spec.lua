-- A fixed slice of `make fuzz`: random programs of every op in all forms, and random calls beside
-- NumPy.
local command = require "spec.support.command"

local function counts(result)
  return result.out:match("(%d+) passed, (%d+) failed\n$")
end

describe("random programs of the registry's ops", function()
  it(
    "have the same bits eagerly, in functions, loops and branches, under gradients, on any threads",
    function()
    local result = command.run{command.ipulua, "spec/support/fuzz/run.lua", "1", "330", "3"}
    local passed, failed = counts(result)
    assert.equal("0", failed, result.out .. result.err)
    assert.is_true(tonumber(passed) > 300, result.out .. result.err)
  end)

  it("give NumPy's numbers, within the bounds of rounding", function()
    local folder <const> = command.folder()
    finally(function() command.remove(folder) end)
    local made = command.run{command.ipulua, "spec/support/fuzz/oracle.lua", "1", "700", folder}
    assert.equal(0, made.status, made.err)
    local result = command.run{assert(command.python("numpy")), "spec/support/fuzz/oracle.py",
      folder .. "/calls.jsonl", folder .. "/values.npz"}
    local passed, failed = counts(result)
    assert.equal("0", failed, result.out .. result.err)
    assert.is_true(tonumber(passed) > 550, result.out .. result.err)
  end)
end)
