-- Trainings of random kinds after one that failed, against a fresh process: see spec/support/
-- fuzz_runs.lua. A callback fails, or an element of the data, or a metric that is traced, or Ctrl-C
-- comes. That happens in fit, evaluate or predict, on one IPU, on replicas or in a pipeline.

local command = require "spec.support.command"

describe("a training after one that failed", function()
  local function printed(seed, mode)
    local r = command.run{command.ipulua, "spec/support/fuzz_runs.lua", tostring(seed), mode}
    assert.equal(0, r.status, r.err)
    return r.out
  end

  for _, seeds in ipairs{{2, 6, 8, 20}, {22, 24, 25, 37}} do
    it("has the bits of a fresh process, seeds " .. table.concat(seeds, " "), function()
      for _, seed in ipairs(seeds) do
        local fresh = printed(seed, "fresh")
        assert.truthy(#fresh > 200)
        for _, mode in ipairs{"after", "again"} do
          local before, rest = printed(seed, mode):match("^([^\n]*)\n(.*)$")
          assert.matches("^before\t%l+\t", before) -- it did fail
          assert.equal(fresh, rest, "seed " .. seed .. ", " .. mode)
        end
      end
    end)
  end
end)
