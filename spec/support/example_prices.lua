-- Figures about the prices of examples' programs agree. example_prices.lua [PATH …] prices each
-- script (all of examples/ by default) with --estimate --profile, prints what is wrong, then "N
-- programs, M wrong". Cycles of a run are the sum of its phases, of each IPU, and, on one IPU
-- without a pipeline, of the steps. The summary, the time line and the trace have the same sum.
local command = require "spec.support.command"
local json = require "ipulua.base.json"

local prices = {}

local phases <const> = {"compute", "exchange", "sync", "stream"}

local function sum_of(cycles)
  local sum = 0
  for _, phase in ipairs(phases) do sum = sum + cycles[phase] end
  return sum
end

local function end_of_timeline(p)
  local last = 0
  for _, e in ipairs(p.timeline) do last = math.max(last, e[1] + e[2]) end
  return last
end

-- In cycles; the trace's times are microseconds.
local function end_of_trace(p, trace)
  local last = 0
  for _, e in ipairs(trace.traceEvents) do
    if e.dur then last = math.max(last, e.ts + e.dur) end
  end
  return last * 1e-6 * p.target.clock_hz
end

-- Cycles of all steps; nil where they may run side by side.
local function sum_of_steps(p)
  local at, sum = {}, 0
  for i, name in ipairs(p.step_columns) do at[name] = i end
  for _, step in ipairs(p.steps) do
    if p.strings[step[at.kind] + 1] == "pipeline" then return nil end
    for _, phase in ipairs(phases) do sum = sum + step[at.times] * step[at[phase]] end
  end
  return #p.ipus == 1 and sum or nil
end

local function check_profile(folder, wrong)
  local p = json.decode(command.read(folder .. "/profile.json"))
  local total = p.totals.cycles.total
  local function near(name, cycles, share)
    if math.abs(cycles - total) > share * total + 1 then
      wrong[#wrong + 1] = ("%s: %s %.0f, a run %.0f cycles"):format(folder, name, cycles, total)
    end
  end
  near("phases take", sum_of(p.totals.cycles), 1e-6)
  for i, x in ipairs(p.ipus) do near("IPU " .. i - 1 .. " takes", x.cycles.total, 1e-6) end
  near("seconds are", p.totals.seconds * p.target.clock_hz, 1e-6)
  local summary = command.read(folder .. "/summary.txt"):match("\nOne run: ([%d,]+) cycles")
  near("the summary says", tonumber((summary:gsub(",", ""))), 1e-6)
  near("the time line ends at", end_of_timeline(p), 1e-4)
  local trace = json.decode(command.read(folder .. "/trace.json"))
  near("the trace ends at", end_of_trace(p, trace), 1e-3)
  local steps = sum_of_steps(p)
  if steps then near("steps take", steps, 1e-5) end
end

---What is wrong with the prices of a script's programs, and how many programs it has.
---@param path string
---@return string[]
---@return integer
function prices.check(path)
  local folder, wrong, count = command.folder(), {}, 0
  local help = command.run{command.ipulua, path, "--help"}.out
  local options = help:find("--short", 1, true) and {"--short"} or {}
  local result = command.run{command.ipulua, "--estimate", "--profile", folder .. "/out", path,
    table.unpack(options)}
  if result.status ~= 0 then wrong[1] = path .. ": " .. result.err end
  local list <close> = assert(io.popen("ls -d " .. folder .. "/out/*/ 2>/dev/null"))
  for name in list:lines() do
    count = count + 1
    check_profile(name:sub(1, -2), wrong)
  end
  command.remove(folder)
  return wrong, count
end

if arg and arg[0] and arg[0]:find("example_prices.lua", 1, true) then
  local paths, programs, bad = {table.unpack(arg)}, 0, 0
  if #paths == 0 then
    local list <close> = assert(io.popen("ls examples/*/*.lua"))
    for path in list:lines() do
      local is_part = command.read(path):find('script".part', 1, true)
      if not path:find "^examples/bench/" and not is_part then paths[#paths + 1] = path end
    end
  end
  for _, path in ipairs(paths) do
    local wrong, count = prices.check(path)
    programs = programs + count
    for _, words in ipairs(wrong) do
      print(words)
      bad = bad + 1
    end
  end
  print(("%d programs, %d wrong"):format(programs, bad))
  os.exit(bad == 0 and programs > 0, true)
end

return prices
