-- Random programs between several queues and the script, in loops and branches, against a model.

local queues = require "spec.support.fuzz_queues"

describe("random programs that take, put, call and branch", function()
  after_each(queues.restore)

  for first = 1, 400, 100 do
    it("do what a model of them does, seeds " .. first .. " to " .. first + 99, function()
      for seed = first, first + 99 do assert.is_nil(queues.check(seed)) end
    end)
  end
end)
