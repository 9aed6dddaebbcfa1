-- Views that are assigned, carried and chosen, and their gradients.

local gradients = require "spec.support.fuzz_moved_gradients"
local moves = require "spec.support.fuzz_moves"

describe("random programs that move numbers", function()
  after_each(moves.restore)

  it("agree in all forms with plain Lua", function()
    for seed = 1, 30 do assert.is_nil(moves.check(seed)) end
  end)

  it("have the derivatives of dual numbers in all forms", function()
    for seed = 1, 40 do assert.is_nil((gradients.check(seed))) end
  end)
end)
