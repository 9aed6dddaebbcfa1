-- A fixed slice of `make fuzz`: random programs of every op in all forms; random calls, layers,
-- losses, metrics, optimizers and dataset stages beside NumPy.
local command = require "spec.support.command"

local fuzz <const> = "spec/support/fuzz/"

local function counts(result)
  return result.out:match("(%d+) passed, (%d+) failed\n$")
end

-- Fails unless the command counted no failure and this many successes at least.
local function check(words, least)
  local result = command.run(words)
  local passed, failed = counts(result)
  assert.equal("0", failed, result.out .. result.err)
  assert.is_true(tonumber(passed) >= least, result.out .. result.err)
  return result
end

-- The results of a script of the folder, before NumPy's.
local function judge(script, folder, lines, least)
  check({assert(command.python("numpy")), fuzz .. script, folder .. "/" .. lines, folder
    .. "/values.npz"}, least)
end

describe("random programs of the registry's ops", function()
  it("have the same bits in all forms: eager, functions, loops, gradients, replicas", function()
    check({command.ipulua, fuzz .. "run.lua", "1", "330", "3"}, 300)
  end)

  it("give NumPy's numbers, within the bounds of rounding", function()
    local folder <const> = command.folder()
    finally(function() command.remove(folder) end)
    local made = command.run{command.ipulua, fuzz .. "oracle.lua", "1", "700", folder}
    assert.equal(0, made.status, made.err)
    judge("oracle.py", folder, "calls.jsonl", 600)
  end)
end)

describe("at random, compiled or not, on any threads and beside NumPy:", function()
  for family, least in pairs{layers = {185, 170}, losses = {85, 80}, metrics = {240, 230},
    optimizers = {50, 34}, stages = {55, 45}} do
    it(family, function()
      local folder <const> = command.folder()
      finally(function() command.remove(folder) end)
      local count <const> = {layers = 200, losses = 100, metrics = 260, optimizers = 54,
        stages = 100}
      check({command.ipulua, fuzz .. "cases.lua", "1", tostring(count[family]), folder, family},
        least[1])
      judge("cases.py", folder, "cases.jsonl", least[2])
    end)
  end
end)
