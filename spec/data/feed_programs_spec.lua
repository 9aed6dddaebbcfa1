-- Random programs between queues against lists of elements.

local core = require "ipulua.core"
local ipu = require "ipulua"
local programs = require "spec.support.feed_programs"

describe("random programs on an infeed and an outfeed", function()
  local threads = core.engine_info().threads
  after_each(function() ipu.set_num_threads(threads) end)

  for first = 1, 60, 20 do
    it("take and give what lists say, seeds " .. first .. " to " .. first + 19, function()
      for seed = first, first + 19 do
        local case = programs.make(seed, seed % 2 == 0) -- elements fail in each second one
        local got, want = case.run()
        assert.equal(want, got, case.text)
      end
    end)
  end
end)
