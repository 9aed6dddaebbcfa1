-- The conformance cases of the dataset benchmark, one spec each.

local jsonl = require "spec.support.jsonl"
local system_benchmark = require "spec.support.system_benchmark"

describe("benchmark conformance", function()
  local cases = jsonl("spec/conformance/system/benchmark.jsonl")
  for _, case in ipairs(cases) do
    it(case.id .. ": " .. case.title, function()
      local ok, message = system_benchmark.run(case)
      assert.is_true(ok, message)
    end)
  end

  it("notices a wrong count, a missing field and a missing error", function()
    local infeeds = cases[1].infeeds
    local fields = {"elements_processed", "total_bytes_processed", "time_elapsed",
      "elements_per_second", "bandwidth"}
    local base = {["do"] = "benchmark", what = "dataset", epochs = 2, elements_per_epoch = 3}
    local function outcome(more)
      local step = {}
      for _, t in ipairs {base, more} do
        for key, value in pairs(t) do step[key] = value end
      end
      return (system_benchmark.run {infeeds = infeeds, script = {step}})
    end
    assert.is_true(outcome {expect = {top_level_key = "epochs", epochs = 2, fields = fields,
      elements_processed = 3}})
    assert.is_false(outcome {expect = {top_level_key = "epochs", epochs = 2, fields = fields,
      elements_processed = 4}})
    assert.is_false(outcome {expect = {top_level_key = "epochs", epochs = 3, fields = fields}})
    assert.is_false(
      outcome {expect = {top_level_key = "epochs", epochs = 2, fields = {"elements_processed"}}})
    assert.is_false(outcome {expect = {top_level_key = "runs", epochs = 2, fields = fields}})
    assert.is_false(outcome {error = {kind = "any"}})
    assert.is_false(outcome {["do"] = "dance"})
  end)
end)
