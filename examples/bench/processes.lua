-- A training step on two processes, next to the same step on one, with one thread and with two.
-- PyTorch's DistributedDataParallel is a third column if it is installed. All take turns, --rounds
-- times; the best time of each counts. `make bench-processes` runs it.
local ipulua <const> = os.getenv("IPULUA") or "build/ipulua"
local folder <const> = arg[0]:match("^(.*/)") or ""
local rounds <const> = require "ipulua.script".arguments{{"rounds", 3}}

local function output(command)
  local pipe <close> = assert(io.popen(command .. " 2>/dev/null"))
  return tonumber(pipe:read("l") or "")
end

local function there(program)
  return (os.execute("command -v " .. program .. " >/dev/null 2>&1"))
end

local script <const> = folder .. "instances.lua --step "
local root <const> = "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "
local alone <const> = ipulua .. " --threads 1 " .. script

local function launched(launcher, n)
  local front = launcher == "openmpi" and root .. "mpirun.openmpi --oversubscribe"
    or "mpirun.mpich"
  return there("mpirun." .. launcher)
    and string.format("%s -n %d %s --threads 1 %s", front, n, ipulua, script)
end

local python <const> = os.getenv("PYTHON") or "python3"
local has_torch <const> = os.execute(python .. " -c 'import torch' >/dev/null 2>&1")

-- name, what is run for it; false where it can't be
local ways <const> = {
  {"alone", alone}, {"1 x 2, 2 threads", ipulua .. " --threads 2 --replicas 2 " .. script},
  {"2 x 1, Open MPI", launched("openmpi", 2)}, {"2 x 1, MPICH", launched("mpich", 2)},
  {"PyTorch alone", has_torch and python .. " " .. folder .. "peers/torch_ddp.py 1 "},
  {"PyTorch DDP, 2", has_torch and python .. " " .. folder .. "peers/torch_ddp.py 2 "},
}

local function measure(kind, list)
  local found = {}
  for _ = 1, rounds do
    for _, way in ipairs(list) do
      local time = way[2] and output(way[2] .. kind)
      if time then found[way[1]] = math.min(found[way[1]] or math.huge, time) end
    end
  end
  return found
end

local function show(kind, found, list)
  for _, way in ipairs(list) do
    local time = found[way[1]]
    print(string.format("%-8s %-20s %s", kind, way[1],
      time and string.format("%10.1f us", time) or "not installed"))
  end
end

local function compare(words, value, limit)
  if not value or not limit then return end
  print(string.format("  %-52s %10.1f of %-10.1f %s", words, value, limit,
    value <= limit and "met" or "not met"))
end

for _, kind in ipairs{"mlp", "cnn"} do
  local found = measure(kind, ways)
  show(kind, found, ways)
  for _, name in ipairs{"2 x 1, Open MPI", "2 x 1, MPICH"} do
    local time, own = found[name], found["alone"]
    compare(name .. ": no slower than two threads", time, found["1 x 2, 2 threads"])
    if kind == "cnn" then compare(name .. ": 1.05 of the step alone", time, own and own * 1.05)
    else compare(name .. ": an eighth of DDP's", time, found["PyTorch DDP, 2"]
      and found["PyTorch DDP, 2"] / 8) end
  end
end
local few <const> = table.move(ways, 1, 4, 1, {})
local scalar = measure("scalar", few)
show("scalar", scalar, few)
for i = 3, 4 do
  local name = few[i][1]
  compare(name .. ": 4 us more an iteration than alone", scalar[name], scalar.alone
    and scalar.alone + 4)
end
local pair <const> = {few[3], few[4]}
local float = measure("float", pair)
show("float", float, pair)
for _, way in ipairs(pair) do compare(way[1] .. ": 25 us", float[way[1]], 25) end
