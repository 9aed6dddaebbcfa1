-- The conformance cases of Keras' parts: numbers from other implementations and from Keras' own tests.

local jsonl = require "spec.support.jsonl"
local log = require "ipulua.log"
local op_runner = require "spec.support.conformance_ops"
local runner = require "spec.support.conformance_keras"

local files <const> = {
  "initializer", "keras_tests", "layer_attention", "layer_core", "layer_recurrent", "loss", "metric", "model", "optimizer",
  "schedule", "more", "more_ops",
}

describe("Keras conformance", function()
  local former
  setup(function() former = log.set_writer(function() end) end)
  teardown(function() log.set_writer(former) end)

  for _, file in ipairs(files) do
    it("agrees with every case of " .. file, function()
      local failures = {}
      for _, case in ipairs(jsonl("spec/conformance/keras/" .. file .. ".jsonl")) do
        local ok, message = (case.group == "op" and op_runner or runner).run(case)
        if not ok then failures[#failures + 1] = case.id .. ": " .. tostring(message) end
      end
      assert.are.equal("", table.concat(failures, "\n"))
    end)
  end

  it("notices a wrong number, a wrong shape and an unknown name", function()
    local wrong = {group = "loss", name = "mean_squared_error", args = {}, inputs = {
      {shape = {1, 2}, dtype = "float32", data = {0, 0}}, {shape = {1, 2}, dtype = "float32", data = {1, 1}},
    }, outputs = {{shape = {}, dtype = "float32", data = {2}}}, rtol = 1e-5, atol = 1e-6}
    assert.is_false((runner.run(wrong)))
    wrong.outputs = {{shape = {1}, dtype = "float32", data = {1}}}
    assert.is_false((runner.run(wrong)))
    wrong.outputs = {{shape = {}, dtype = "float32", data = {1}}}
    assert.is_true((runner.run(wrong)))
    wrong.name = "mean_squared_eror"
    assert.is_false((runner.run(wrong)))
  end)
end)
