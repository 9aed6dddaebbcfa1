-- `make fuzz`: random programs in all forms and random calls beside NumPy, on each instruction set
-- in turn, until the time is up. `ipulua spec/support/fuzz/main.lua SECONDS SEED`; each failure
-- prints a script, and the last line is "N passed, N failed".

package.path = "./?.lua;" .. package.path
local command = require "spec.support.command"

local seconds, seed = tonumber(arg[1]) or 60, math.tointeger(tonumber(arg[2]))
  or os.time() % 1000000 * 1000
local executable, python = command.quote(arg[-1]), command.python("numpy")
-- each is a class at most: a CPU without it takes the one below
local classes <const> = {"avx512", "avx2", "base"}
local programs_a_round <const>, calls_a_round <const> = 100, 300

-- A command's output but for its counts, which are added up. One that dies counts as a failure.
local passed, failed = 0, 0
local function run(words)
  local pipe = assert(io.popen(words .. " 2>&1"))
  local counted = false
  for line in pipe:lines() do
    local good, bad = line:match("^(%d+) passed, (%d+) failed$")
    if good then
      passed, failed, counted = passed + tonumber(good), failed + tonumber(bad), true
    else
      print(line)
    end
  end
  pipe:close()
  if not counted then
    failed = failed + 1
    print("died: " .. words)
  end
end

local folder = command.folder()
if not python then print("no Python here has NumPy: the calls beside it are left out") end
print(("seed %d, %g s, %d ops"):format(seed, seconds, #require "spec.support.fuzz.calls".registry))
local started, round = os.time(), 0
while os.time() - started < seconds do
  local with = "IPULUA_CPU=" .. classes[round % #classes + 1] .. " "
  local first = seed + round * calls_a_round
  run(("%s%s spec/support/fuzz/run.lua %d %d"):format(with, executable, first, programs_a_round))
  if python then
    run(("%s%s spec/support/fuzz/oracle.lua %d %d '%s' && %s spec/support/fuzz/oracle.py "
      .. "'%s/calls.jsonl' '%s/values.npz'"):format(
      with, executable, first, calls_a_round, folder, python, folder, folder))
  end
  round = round + 1
end
command.remove(folder)
print(("%d rounds"):format(round))
print(("%d passed, %d failed"):format(passed, failed))
os.exit(failed == 0)
