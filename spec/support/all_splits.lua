-- Random trainings and programs in every split of two or four replicas, under the launchers that
-- are installed, or with the stub. All must print the same. A training that begins in one split
-- goes on in another.
--
--   build/ipulua spec/support/all_splits.lua [first seed] [how many] [openmpi | mpich | stub]
local command = require "spec.support.command"
local processes = require "spec.support.processes"

local splits = {}

local trainings <const> = "spec/support/fuzz_splits.lua"
splits.scripts = {trainings, "spec/support/fuzz_split_programs.lua"}

local function first_difference(a, b)
  local others = b:gmatch "[^\n]*"
  for line in a:gmatch "[^\n]*" do
    local other = others()
    if line ~= other then return string.format("%s\n  in place of\n%s", other, line) end
  end
  return "more lines"
end

local function run(launcher, o)
  if o.count == 1 then return processes.alone(o) end
  if launcher ~= "stub" then return processes.launched(launcher, o) end
  local all = processes.with_stub(o)
  return {out = all[1].out, err = all[1].err .. all[#all].err,
    status = math.max(all[1].status, all[#all].status)}
end

local function given(script, replicas, count, ...)
  return {script = script, args = {...}, replicas = replicas, env = {LUA_PATH = "./?.lua;;"},
    count = count}
end

local function problem_of(what, wanted, result)
  if result.status == 0 and result.out == wanted then return nil end
  return string.format("%s: status %d\n%s\n%s", what, result.status,
    first_difference(wanted, result.out), result.err)
end

---Runs a seed of a script in all splits of so many replicas: nil, or what disagrees.
---@param script string
---@param seed integer
---@param replicas integer
---@param launchers string[]
---@return string?
function splits.check(script, seed, replicas, launchers)
  local one = run("stub", given(script, replicas, 1, tostring(seed)))
  if one.status ~= 0 then return one.out .. one.err end
  local instances = replicas
  while instances > 1 do
    for _, launcher in ipairs(launchers) do
      local problem = problem_of(string.format("%d replicas on %d instances by %s", replicas,
        instances, launcher), one.out, run(launcher, given(script, replicas, instances,
        tostring(seed))))
      if problem then return problem end
    end
    instances = instances // 2
  end
end

---A training that stops in its midst in one split, and goes on in another: nil, or what disagrees.
---@param seed integer
---@param replicas integer
---@param launcher string
---@return string?
function splits.check_resumed(seed, replicas, launcher)
  local folder <const> = command.folder()
  local function part(name, count)
    return run(launcher, given(trainings, replicas, count, tostring(seed), "1",
      folder .. "/" .. (name == "whole" and "whole" or "parts"), name))
  end
  local function count(n) return n % 3 == 0 and 1 or n % 3 == 1 and 2 or replicas end
  local whole = part("whole", 1)
  local first, second = count(seed), count(seed // 3)
  local begun = part("begin", first)
  local problem
  if begun.status ~= 0 then problem = begun.out .. begun.err
  else
    problem = problem_of(string.format("begun by %d, resumed by %d of %d replicas by %s", first,
      second, replicas, launcher), whole.out, part("resume", second))
  end
  command.remove(folder)
  return problem
end

if arg and arg[0] and arg[0]:find("all_splits.lua", 1, true) then
  local first, count = math.tointeger(tonumber(arg[1] or 1)), math.tointeger(tonumber(arg[2] or 5))
  local launchers = {arg[3]}
  if not arg[3] then
    launchers = processes.launchers()
    if #launchers == 0 then launchers[1] = "stub" end
  end
  local bad = 0
  local function judge(what, problem)
    if not problem then return end
    bad = bad + 1
    print(what .. ": " .. problem)
  end
  for seed = first, first + count - 1 do
    local replicas = seed % 2 == 0 and 2 or 4
    for _, script in ipairs(splits.scripts) do
      judge(script .. " " .. seed, splits.check(script, seed, replicas, launchers))
    end
    local launcher = launchers[1 + seed % #launchers]
    judge("resumed " .. seed, splits.check_resumed(seed, replicas, launcher))
  end
  print(string.format("%d seeds, %d wrong", count, bad))
  if bad > 0 then os.exit(1) end
end

return splits
