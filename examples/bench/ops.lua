-- Our ops next to PyTorch's, in turn: `make bench-ops`, or ipulua examples/bench/ops.lua [NAME…]
-- after `make build/ops_bench`. Each side runs ROUNDS times, a variable of the environment, and the
-- best time counts. With one thread it is processor time, with two it is wall-clock time.

require "ipulua.script".options()
local ours <const> = os.getenv("OPS_BENCH") or "build/ops_bench"
local python <const> = os.getenv("PYTHON") or "/usr/bin/python3"

local function refuse(...)
  io.stderr:write(arg[0], ": ", string.format(...), "\n")
  os.exit(1)
end

-- A variable of the environment that holds a count.
local function count(name, most)
  local text = os.getenv(name)
  if not text then return nil end
  local value = math.tointeger(tonumber(text))
  return value and value >= 1 and value <= most and value
    or refuse("%s must be an integer from 1 to %d, got '%s'", name, most, text)
end

local rounds <const>, only <const> = count("ROUNDS", 1000) or 3, count("THREADS", 2)
local slow <const> = 1.2

local function read(command, times, order)
  local pipe <close> = assert(io.popen(command))
  for line in pipe:lines() do
    local name, shape, us = line:match("^(%S+) (%S+) ([%d.]+)$")
    if not name then
      print(line)
    else
      local key = name .. " " .. shape
      if not times[key] then order[#order + 1] = key end
      times[key] = math.min(times[key] or math.huge, tonumber(us))
    end
  end
end

local function compare(threads, names)
  local own, theirs, order = {}, {}, {}
  for _ = 1, rounds do
    read(string.format("%s %d %s 2>&1", ours, threads, names), own, order)
    read(string.format("%s examples/bench/peers/torch_ops.py %d %s 2>/dev/null", python, threads,
      names), theirs, {})
  end
  if #order == 0 then refuse("none of the ops that are measured begins so: %s", names) end
  local slower = 0
  print(string.format("\n%-24s %12s %12s %8s   %d thread%s", "op", "ipulua us", "PyTorch us",
    "ratio", threads, threads > 1 and "s" or ""))
  for _, key in ipairs(order) do
    local a, b = own[key], theirs[key]
    if b then
      slower = slower + (a > slow * b and 1 or 0)
      print(string.format("%-24s %12.2f %12.2f %8.2f%s", key, a, b, a / b,
        a > slow * b and "  slower" or ""))
    else
      print(string.format("%-24s %12.2f %12s", key, a, "-"))
    end
  end
  print(string.format("%d of %d more than %.1f times slower", slower, #order, slow))
end

-- The names of ops go to a shell.
local names = {}
for i, name in ipairs(arg) do names[i] = "'" .. name:gsub("'", "'\\''") .. "'" end

if not io.open(ours) then refuse("there is no %s; make build/ops_bench makes it", ours) end
for threads = 1, 2 do
  if not only or only == threads then compare(threads, table.concat(names, " ")) end
end
