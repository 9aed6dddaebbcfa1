-- make bench: every workload, a JSON line each. With --peers PyTorch, if it is installed, runs in
-- turn with it, and a table of median ratios follows. usage: run.lua [--peers] [--rounds N]
-- [--threads 1,2] [--workloads w1,w2 ...] [--data DIR]
local ipu = require "ipulua"

local folder = arg[0]:match("^(.*/)") or ""
local usage <const> = "usage: run.lua [--peers] [--rounds N] [--threads 1,2] [--workloads w1,w2 "
  .. "...] [--data DIR]"
local options = {
  rounds = "1", threads = "1,2", workloads = "w1,w2,w2_ga4,w3,w4,w5,w6,w7",
  data = os.getenv("IPULUA_DATA") or "data",
  command = os.getenv("IPULUA") or "build/ipulua", python = os.getenv("PYTHON"),
}
local known <const> = {rounds = true, threads = true, workloads = true, data = true}

local function refuse(...)
  io.stderr:write("run.lua: ", string.format(...), "\n", usage, "\n")
  os.exit(2)
end

local function read_arguments()
  local i = 1
  while arg[i] do
    local name = arg[i]:match("^%-%-(%a+)$")
    if name == "peers" then options.peers = true
    elseif name == "help" or arg[i] == "-h" then
      print(usage)
      os.exit(0)
    elseif not known[name] then refuse("what is '%s'?", arg[i])
    elseif not arg[i + 1] then refuse("'%s' needs a value", arg[i])
    else
      i = i + 1
      options[name] = arg[i]
    end
    i = i + 1
  end
end

local function list(text)
  local items = {}
  for item in text:gmatch("[^,%s]+") do items[#items + 1] = item end
  return items
end

local function count(name, text)
  local value = math.tointeger(tonumber(text))
  return value and value > 0 and value
    or refuse("'--%s' needs positive integers, got '%s'", name, text)
end

read_arguments()
local rounds <const>, workloads <const>, threads_list <const> = count("rounds", options.rounds),
  list(options.workloads), list(options.threads)
for i, text in ipairs(threads_list) do threads_list[i] = count("threads", text) end
for _, name in ipairs(workloads) do
  if not name:find("^w%d") or not io.open(folder .. name .. ".lua") then
    refuse("there is no workload '%s'", name)
  end
end

local function quoted(text) return "'" .. text:gsub("'", "'\\''") .. "'" end

local function succeeds(command) return (os.execute(command .. " >/dev/null 2>&1")) end

-- The last JSON line that a command prints; nil when it fails, which it tells itself.
local function run(command)
  local pipe <close> = assert(io.popen(command))
  local last
  for line in pipe:lines() do
    if line:find("^{") then last = line end
  end
  if pipe:close() and last then return ipu.json.decode(last), last end
end

-- A Python that has PyTorch.
local function find_python()
  for _, python in ipairs{options.python or "python3", "/usr/bin/python3"} do
    if succeeds(quoted(python) .. " -c 'import torch'") then return python end
  end
end

-- PyTorch at its best: memory that the allocator keeps, one pool of threads.
local function torch_environment(threads)
  local settings = "env -u OPENBLAS_CORETYPE MALLOC_TRIM_THRESHOLD_=4000000000 "
    .. "MALLOC_MMAP_THRESHOLD_=4000000000 "
    .. "MALLOC_TOP_PAD_=64000000 OMP_NUM_THREADS=" .. threads
  if threads == 1 then return settings .. " OPENBLAS_NUM_THREADS=1" end
  local pipe <close> = assert(io.popen("ls -d /usr/lib/*/openblas-openmp 2>/dev/null"))
  local openmp = pipe:read("l")
  return openmp and settings .. " LD_LIBRARY_PATH=" .. openmp or settings
end

local function median(values)
  table.sort(values)
  local n = #values
  return n % 2 == 1 and values[n // 2 + 1] or (values[n // 2] + values[n // 2 + 1]) / 2
end

local python = options.peers and find_python()
if options.peers and not python then
  io.stderr:write("no Python with PyTorch was found: ours alone\n")
end
local rows, failed = {}, {}

-- A workload on so many threads, in turn with the peer; false when a side failed.
local function compare(workload, threads)
  local ratios, ours, theirs = {}, {}, {}
  for _ = 1, rounds do
    local our, line = run(string.format("IPULUA_DATA=%s %s --threads %d %s%s.lua",
      quoted(options.data), quoted(options.command),
      threads, quoted(folder), workload))
    if not our then return false end
    print(line)
    ours[#ours + 1] = our.us_per_step
    if python then
      local their = run(string.format("%s %s %speers/torch_workload.py %s %d %s",
        torch_environment(threads), quoted(python),
        quoted(folder), workload, threads, quoted(options.data)))
      if not their then return false end
      theirs[#theirs + 1] = their.us_per_step
      ratios[#ratios + 1] = their.us_per_step / our.us_per_step
    end
  end
  if python then
    rows[#rows + 1] = string.format("%-8s%8d%14.1f%14.1f%10.2f", workload, threads, median(ours),
      median(theirs), median(ratios))
  end
  return true
end

for _, workload in ipairs(workloads) do
  for _, threads in ipairs(threads_list) do
    if not compare(workload, threads) then
      failed[#failed + 1] = workload
      break
    end
  end
end
if python then
  print(string.format("%-8s%8s%14s%14s%10s", "", "threads", "ipulua us", "PyTorch us", "ratio"))
  for _, row in ipairs(rows) do print(row) end
end
if #failed > 0 then
  io.stderr:write("run.lua: no figures of ", table.concat(failed, ", "), "; why is said above\n")
  os.exit(1)
end
