-- A fixed slice of the random programs of spec/support/price_programs.lua, whose head says how to
-- price more.
local programs = require "spec.support.price_programs"
local ipu = require "ipulua"

describe("prices of random programs hold to what is known beforehand:", function()
  before_each(ipu.reset_ipu_configuration)
  local counts <const> = {values = 250, rounds = 20, branches = 15, residuals = 6, depths = 3,
    optimizers = 8, replicas = 8, compositions = 130, splits = 60}
  for _, kind in ipairs(programs.kinds) do
    it(kind, function() assert.same({}, programs.check(kind, 1, counts[kind])) end)
  end
end)
