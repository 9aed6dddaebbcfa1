-- Collectives at random (spec/support/fuzz_collectives.lua): a slice of them.

local fuzz = require "spec.support.fuzz_collectives"

describe("collectives at random", function()
  it("and their gradients are what a model of all replicas says", function()
    for seed = 1, 30 do assert.is_nil(fuzz.check(seed)) end
  end)
end)
