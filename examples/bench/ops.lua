-- Our ops next to PyTorch's, in turn: `make bench-ops`, or ipulua examples/bench/ops.lua [NAME…]. Each side runs ROUNDS times; the
-- best time counts, of one thread's own processor time, or of the clock with two threads.

local ours <const> = os.getenv("OPS_BENCH") or "build/ops_bench"
local python <const> = os.getenv("PYTHON") or "/usr/bin/python3"
local rounds <const> = tonumber(os.getenv("ROUNDS")) or 3
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
    read(string.format("%s examples/bench/peers/torch_ops.py %d %s 2>/dev/null", python, threads, names), theirs, {})
  end
  local slower = 0
  print(string.format("\n%-24s %12s %12s %8s   %d thread%s", "op", "ipulua us", "PyTorch us", "ratio", threads, threads > 1 and "s" or ""))
  for _, key in ipairs(order) do
    local a, b = own[key], theirs[key]
    if b then
      slower = slower + (a > slow * b and 1 or 0)
      print(string.format("%-24s %12.2f %12.2f %8.2f%s", key, a, b, a / b, a > slow * b and "  slower" or ""))
    else
      print(string.format("%-24s %12.2f %12s", key, a, "-"))
    end
  end
  print(string.format("%d of %d more than %.1f times slower", slower, #order, slow))
end

for threads = 1, 2 do
  if not os.getenv("THREADS") or tonumber(os.getenv("THREADS")) == threads then compare(threads, table.concat(arg, " ")) end
end
