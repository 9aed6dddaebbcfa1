-- The peers of examples/bench run where they are installed: a part of make nightly.
local command = require "spec.support.command"
local ipu = require "ipulua"

describe("examples/bench/peers", function()
  local python = command.python "torch"
  local run_if = python and it or pending
  run_if("measure without MNIST's files, too", function()
    local r = command.run{python, "examples/bench/peers/torch_workload.py", "w1", "1",
      "/nonexistent/nowhere", "0.05"}
    assert.equal(0, r.status, r.err)
    assert.is_true(ipu.json.decode(r.out:match("{.*}")).us_per_step > 0)
  end)
end)
