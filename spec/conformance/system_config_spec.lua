-- The conformance cases of configuration, one spec each.

local jsonl = require "spec.support.jsonl"
local system_config = require "spec.support.system_config"
local warnings = require "spec.support.warnings"

describe("configuration conformance", function()
  local caught = warnings.expected{"configure_ipu_system: the existing configuration is being "
    .. "reset, and its compiled programs are forgotten"}
  setup(caught.start)
  teardown(caught.stop)

  for _, case in ipairs(jsonl("spec/conformance/system/config.jsonl")) do
    it(case.id .. ": " .. case.title, function()
      local ok, message = system_config.run(case)
      assert.is_true(ok, message)
    end)
  end

  it("notices a wrong value, a missing error and a wrong error", function()
    for _, step in ipairs {
      {["do"] = "get", path = "allow_recompute", expect = true},
      {["do"] = "get", path = "allow_recompute", expect = false, error = {kind = "any"}},
      {["do"] = "set", path = "ipu_model", value = 1, error = {kind = "type"}},
      {["do"] = "set", path = "ipu_model", value = 1,
        error = {kind = "any", must_mention = {"banana"}}},
      {["do"] = "set", path = "ipu_model", value = 1,
        error = {kind = "any", must_not_mention = {"category"}}},
      {["do"] = "dance"},
    } do
      local ok, message = system_config.run {script = {step}}
      assert.is_nil(ok)
      assert.is_string(message)
    end
  end)
end)
