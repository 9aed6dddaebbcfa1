-- Pipelines at random (spec/support/fuzz_pipelines.lua, fuzz_keras_pipelines.lua): a slice of them.

local keras_models = require "spec.support.fuzz_keras_pipelines"
local log = require "ipulua.base.log"
local networks = require "spec.support.fuzz_pipelines"

describe("pipelines at random", function()
  it("have the bits of the plainest one, and the numbers of a loop by hand", function()
    log.capture("warn", function() -- of options that have no effect in one that doesn't train
      for seed = 1, 10 do assert.is_nil((networks.check(seed))) end
    end)
  end)

  it("of Keras models have the bits of those on one IPU", function()
    for seed = 1, 6 do assert.is_nil((keras_models.check(seed))) end
  end)
end)
