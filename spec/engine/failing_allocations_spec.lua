-- Trainings in which an allocation fails end in an error that says so, or in the right weights. The
-- next training finds no trace of it.

local command = require "spec.support.command"

-- One allocation in so many fails; make coverage and make nightly let each one fail.
local every <const> = os.getenv "FAILING_EVERY" or "5"
-- LD_PRELOAD splits its list at spaces, so the module is named from its folder.
local folder <const> = command.ipulua:match("^(.*)/[^/]*$")
local script <const> = io.popen("pwd"):read("l") .. "/spec/support/failing.lua"
local run_if <const> = command.ipulua:find "/build%-[at]san/" and pending or it

describe("a training in which an allocation fails", function()
  for _, kind in ipairs{"plain", "replicas", "pipeline", "recomputing", "offloading", "eager",
    "traced", "datasets"} do
    run_if("says that memory is short, or goes on: " .. kind, function()
      local result = command.run{command.ipulua, script, "./failing.so", kind, every, dir = folder,
        env = {LD_PRELOAD = "./failing.so"}}
      assert.equal("", result.err)
      assert.equal(0, result.status)
      local allocations, failed, went_on = result.out:match "^(%d+)\t(%d+)\t(%d+)\n$"
      assert(failed, result.out)
      assert.equal((allocations - 1) // every + 1, failed + went_on)
      assert(tonumber(failed) > (failed + went_on) / 5, failed .. " failed")
    end)
  end
end)
