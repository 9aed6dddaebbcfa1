-- The conformance cases of loops, queues, gradient accumulation, pipelines, replicas and shards,
-- one spec each.

local jsonl = require "spec.support.jsonl"
local system_program = require "spec.support.system_program"

describe("program conformance", function()
  for _, file in ipairs {"loops_and_feeds", "gradient_accumulation", "pipelines",
    "replicas_and_sharding"} do
    for _, case in ipairs(jsonl("spec/conformance/system/" .. file .. ".jsonl")) do
      it(case.id .. ": " .. case.title, function()
        local ok, message = system_program.run(case)
        assert.is_true(ok, message)
      end)
    end
  end

  it("notices a wrong value, a missing error and a wrong error", function()
    local base = {
      programs = {main = {kind = "call", feeds = {x = {shape = {2}}},
        ops = {{"y", "addc", "x", {c = 1}}}, result = {"y"}}},
    }
    for _, step in ipairs {
      {["do"] = "run", program = "main", feeds = {x = {const = 1}},
        expect = {{shape = {2}, all = 3}}},
      {["do"] = "run", program = "main", feeds = {x = {const = 1}}, error = {kind = "any"}},
      {["do"] = "construct", what = "GradientAccumulationOptimizerV2",
        args = {num_mini_batches = 0}, error = {kind = "type"}},
      {["do"] = "dance"},
    } do
      base.script = {step}
      local ok, message = system_program.run(base)
      assert.is_false(ok)
      assert.is_string(message)
    end
  end)
end)
