-- The workloads of examples/bench run, a few steps each, end with their line, and waste no memory
-- (spec/support/plans.lua).
local command = require "spec.support.command"
local ipu = require "ipulua"

local folder

local function run(name, steps)
  local line = string.format("IPULUA_DATA=%s IPULUA_LOG=error %s -l spec.support.plans --seed 1 "
    .. "--threads 1 examples/bench/%s.lua --steps %d 2>&1",
    command.quote(folder), command.quote(command.ipulua), name, steps)
  local pipe <close> = assert(io.popen(line))
  local lines = {}
  for text in pipe:lines() do lines[#lines + 1] = text end
  assert.is_truthy(pipe:close(), table.concat(lines, "\n"))
  return ipu.json.decode(lines[#lines]), lines[#lines]
end

describe("examples/bench", function()
  setup(function()
    folder = command.folder()
    local words = {}
    for i = 1, 4000 do
      words[i] = ("speak citizen before you proceed"):sub(i % 13 + 1, i % 19 + 8)
    end
    command.write(folder .. "/tinyshakespeare.txt", table.concat(words, "\n"))
  end)
  teardown(function() command.remove(folder) end)

  for name, steps in pairs{w1 = 300, w2 = 300, w2_ga4 = 400, w4 = 10, w5 = 10, w6 = 20} do
    it(name .. " trains and reports", function()
      local figures, line = run(name, steps)
      assert.equal(name, figures.workload)
      assert.equal(1, figures.threads)
      for _, key in ipairs{"us_per_step", "gflops", "rss_mib", "startup_ms"} do
        assert.is_true(figures[key] > 0, key)
      end
      assert.is_true(figures.loss < figures.loss_first)
      assert.matches(
        '"gflops":%d+%.?%d?,.*"rss_mib":%d+%.?%d?,"startup_ms":%d+,.*"us_per_step":%d+%.?%d?,',
        line)
    end)
  end

  it("explains itself, and refuses arguments in words", function()
    for _, case in ipairs{
      {0, "--steps 10000\n", "w1", "--help"},
      {1, "'--steps' must be an integer, got 'many'", "w2", "--steps", "many"},
      {1, "it has no option '--fast'", "w5", "--fast"}, {0, "usage: run.lua ", "run", "--help"},
      {2, "what is '--round'?\nusage: run.lua ", "run", "--round"},
      {2, "'--rounds' needs a value\nusage: ", "run", "--rounds"},
      {2, "'--rounds' needs positive integers, got 'x'\nusage: ", "run", "--rounds", "x"},
      {2, "'--threads' needs positive integers, got 'two'\nusage: ", "run", "--threads", "1,two"},
      {2, "there is no workload 'w9'\nusage: ", "run", "--workloads", "w9"},
      {0, "Our ops next to PyTorch's", "ops", "--help"},
      {1, "it has no option '--all'", "ops", "--all"},
      {1, "there is no nowhere/ops_bench; make build/ops_bench makes it", "ops"},
      {1, "it is a part of w2.lua and w2_ga4.lua", "mlp", "--help"},
      {1, "it is a part of w1.lua, … w7.lua", "report"},
      {0, "  --wide\n", "lanes", "--help"},
      {1, "it has no option '--wid'; did you mean '--wide'?", "lanes", "--wid"},
      {1, "it takes options only, got 'deep'", "costs", "deep"},
      {1, "it takes options only, got '1'", "feed", "1"},
      {0, "It takes no options.", "feed", "--help"},
      {0, "  --rounds 3\n", "processes", "--help"},
      {0, "  --step mlp\n", "instances", "--help"},
    } do
      local words = {command.ipulua, "examples/bench/" .. case[3] .. ".lua", table.unpack(case, 4)}
      words.env = {OPS_BENCH = "nowhere/ops_bench"}
      local r = command.run(words)
      assert.truthy((r.out .. r.err):find(case[2], 1, true), r.out .. r.err)
      assert.equal(case[1], r.status, case[3])
      assert.is_nil((r.out .. r.err):find("stack traceback", 1, true))
    end
  end)

  local function peer(python, workload)
    return command.run{python, "examples/bench/peers/torch_workload.py", workload, "1",
      folder .. "/nowhere", "0.05"}
  end

  it("has a peer that says which text it lacks", function()
    for _, workload in ipairs{"w5", "w6"} do
      local r = peer(command.python "json", workload)
      assert.equal(1, r.status)
      assert.equal("torch_workload.py: there is no " .. folder
        .. "/nowhere/tinyshakespeare.txt\n", r.err)
    end
  end)

  it("goes on when one workload fails", function()
    local folder_without = command.folder()
    local r = command.run{command.ipulua, "examples/bench/run.lua", "--workloads", "w5,w6",
      "--threads", "1", "--data", folder_without,
      env = {IPULUA = command.ipulua, HOME = folder_without}}
    command.remove(folder_without)
    assert.equal(1, r.status)
    assert.truthy(r.err:find("w6.lua:%d+: keras.datasets.text: its files are missing"), r.err)
    assert.truthy(r.err:find("run.lua: no figures of w5, w6; why is said above\n", 1, true), r.err)
  end)
end)
