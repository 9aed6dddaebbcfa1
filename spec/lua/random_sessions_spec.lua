-- Graphs and configurations at random: spec/support/fuzz_sessions.lua, fuzz_updates.lua,
-- fuzz_configs.lua.

local configs = require "spec.support.fuzz_configs"
local ipu = require "ipulua"
local log = require "ipulua.base.log"
local sessions = require "spec.support.fuzz_sessions"
local updates = require "spec.support.fuzz_updates"

describe("at random", function()
  local former
  setup(function() former = log.set_writer(function() end) end) -- deprecated options
  teardown(function()
    log.set_writer(former)
    ipu.reset_default_graph()
  end)

  it("sessions give what the same ops give at once", function()
    for seed = 1, 25 do assert.same({}, sessions.problems(seed)) end
  end)

  it("sessions update variables as the graph was written", function()
    for seed = 1, 60 do assert.same({}, updates.problems(seed)) end
  end)

  it("configurations keep all that they are given, and share nothing with their copies", function()
    for seed = 1, 25 do assert.same({}, configs.problems(seed)) end
  end)
end)
