-- `make fuzz`: random programs in all forms, and random calls, layers, losses, metrics, optimizers
-- and dataset stages beside NumPy. Each instruction set has its turn, until the time is up. `ipulua
-- spec/support/fuzz/main.lua SECONDS SEED`; each failure prints a script, and the last line is "N
-- passed, N failed".

package.path = "./?.lua;" .. package.path
local command = require "spec.support.command"

local seconds, seed = tonumber(arg[1]) or 60, math.tointeger(tonumber(arg[2]))
  or os.time() % 1000000 * 1000
local executable, python = command.quote(arg[-1]), command.python("numpy")
local classes <const> = {"avx512", "avx2",
  "base"} -- each is a class at most: a CPU without it takes the one below
local programs_a_round <const>, calls_a_round <const>, cases_a_round <const> = 100, 300, 200

-- A command's output but for its counts, which are added up. One that dies, or doesn't count though
-- it should, is a failure.
local passed, failed = 0, 0
local function run(words, counts)
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
  local fine = pipe:close()
  if not counted and (counts or not fine) then
    failed = failed + 1
    print("died: " .. words)
  end
end

local folder = command.folder()
if not python then print("no Python here has NumPy: what is compared with it is left out") end
print(("seed %d, %g s, %d ops"):format(seed, seconds, #require "spec.support.fuzz.calls".registry))

-- Calls or cases by a script of this folder, then NumPy's word on them.
local function judged(with, script, first, count, judge, lines)
  local made = ("%s%s spec/support/fuzz/%s %d %d '%s'"):format(with, executable, script, first,
    count, folder)
  run(made, script == "cases.lua")
  if python then run(("%s spec/support/fuzz/%s '%s/%s' '%s/values.npz'"):format(python, judge,
    folder, lines, folder), true) end
end

local started, round = os.time(), 0
while os.time() - started < seconds do
  local with = "IPULUA_CPU=" .. classes[round % #classes + 1] .. " "
  local first = seed + round * calls_a_round
  run(("%s%s spec/support/fuzz/run.lua %d %d"):format(with, executable, first, programs_a_round),
    true)
  if python then judged(with, "oracle.lua", first, calls_a_round, "oracle.py", "calls.jsonl") end
  judged(with, "cases.lua", seed + round * cases_a_round, cases_a_round, "cases.py", "cases.jsonl")
  round = round + 1
end
command.remove(folder)
print(("%d rounds"):format(round))
print(("%d passed, %d failed"):format(passed, failed))
os.exit(failed == 0)
