-- The workloads of examples/bench run, a few steps each, end with their line, and waste no memory (spec/support/plans.lua).
local command = require "spec.support.command"
local ipu = require "ipulua"

local folder

local function run(name, steps)
  local line = string.format("IPULUA_DATA=%s IPULUA_LOG=error %s -l spec.support.plans --seed 1 --threads 1 examples/bench/%s.lua %d 2>&1",
    command.quote(folder), command.quote(command.ipulua), name, steps)
  local pipe <close> = assert(io.popen(line))
  local lines = {}
  for text in pipe:lines() do lines[#lines + 1] = text end
  assert.is_truthy(pipe:close(), table.concat(lines, "\n"))
  return ipu.json.decode(lines[#lines])
end

describe("examples/bench", function()
  setup(function()
    folder = command.folder()
    local words = {}
    for i = 1, 4000 do words[i] = ("speak citizen before you proceed"):sub(i % 13 + 1, i % 19 + 8) end
    command.write(folder .. "/tinyshakespeare.txt", table.concat(words, "\n"))
  end)
  teardown(function() command.remove(folder) end)

  for name, steps in pairs{w1 = 300, w2 = 300, w2_ga4 = 400, w4 = 10, w5 = 10, w6 = 20} do
    it(name .. " trains and reports", function()
      local figures = run(name, steps)
      assert.equal(name, figures.workload)
      assert.equal(1, figures.threads)
      for _, key in ipairs{"us_per_step", "gflops", "rss_mib", "startup_ms"} do assert.is_true(figures[key] > 0, key) end
      assert.is_true(figures.loss < figures.loss_first)
    end)
  end
end)
