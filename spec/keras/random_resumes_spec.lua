-- Random trainings, stopped and resumed: models, optimizers, schedules, callbacks and datasets
-- drawn by a seed.

local resumes = require "spec.support.random_resumes"

describe("a random training that is stopped", function()
  for first = 1, 24, 12 do
    it("goes on bit for bit, seeds " .. first .. " to " .. first + 11, function()
      local met = 0
      for seed = first, first + 11 do
        local wrong, was_stopped = resumes.check(seed)
        assert.is_nil(wrong, "seed " .. seed .. ": " .. tostring(wrong))
        met = met + (was_stopped and 1 or 0)
      end
      assert.is_true(met > 6)
    end)
  end
end)
