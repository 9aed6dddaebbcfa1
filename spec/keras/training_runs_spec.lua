-- Random trainings against the same done in plain Lua; in other executions, and resumed.

local command = require "spec.support.command"
local log = require "ipulua.base.log"
local runs = require "spec.support.training_runs"

local function each(first, last, f)
  local folder = command.scratch()
  for seed = first, last do
    local case = runs.case(seed)
    os.execute("mkdir -p " .. folder)
    local fine, wrong = pcall(f, case, folder)
    os.execute("rm -r " .. folder)
    assert.is_true(fine, wrong)
    assert.same({}, wrong, runs.text(case))
  end
end

describe("a random training", function()
  local writer -- callbacks may watch what a step has not
  setup(function() writer = log.set_writer(function() end) end)
  teardown(function() log.set_writer(writer) end)

  for first = 1, 80, 20 do
    it("gives the weights, logs and calls of the same done by hand, seeds " .. first .. " to "
      .. first + 19, function() each(first, first + 19, runs.check) end)
  end

  it("has the same bits in executions of any length, called for each step, on any threads",
    function()
    each(101, 115, function(case, folder)
      local wrong, weights = runs.check(case, folder)
      return #wrong > 0 and wrong or runs.check_forms(case, folder, weights)
    end)
  end)

  it("that fails and begins again ends as one that goes through", function()
    each(201, 215, runs.check_resumed)
  end)
end)
