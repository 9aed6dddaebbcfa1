-- make bench: every workload, a JSON line each; with --peers next to PyTorch, if it is installed: ours and the peer alternate,
-- and a table of median ratios follows.
-- usage: run.lua [--peers] [--rounds N] [--threads 1,2] [--workloads w1,w2 ...] [--data DIR]
local ipu = require "ipulua"

local folder = arg[0]:match("^(.*/)") or ""
local options = {
  rounds = 1, threads = "1,2", workloads = "w1,w2,w2_ga4,w3,w4,w5,w6,w7", data = os.getenv("IPULUA_DATA") or "data",
  command = os.getenv("IPULUA") or "build/ipulua", python = os.getenv("PYTHON"),
}
do
  local i = 1
  while arg[i] do
    local name = arg[i]:match("^%-%-(%a+)$")
    if name == "peers" then options.peers = true
    elseif name == "help" then
      print("usage: run.lua [--peers] [--rounds N] [--threads 1,2] [--workloads w1,w2 ...] [--data DIR]")
      return
    elseif name and options[name] and arg[i + 1] then
      i = i + 1
      options[name] = type(options[name]) == "number" and math.tointeger(tonumber(arg[i])) or arg[i]
    else
      io.stderr:write("run.lua: what is '", arg[i], "'?\n")
      os.exit(2)
    end
    i = i + 1
  end
end

local function list(text)
  local items = {}
  for item in text:gmatch("[^,%s]+") do items[#items + 1] = item end
  return items
end

local function quoted(text) return "'" .. text:gsub("'", "'\\''") .. "'" end

local function succeeds(command) return (os.execute(command .. " >/dev/null 2>&1")) end

-- The last JSON line that a command prints.
local function run(command)
  local pipe <close> = assert(io.popen(command))
  local last
  for line in pipe:lines() do
    if line:find("^{") then last = line end
  end
  if not pipe:close() or not last then error("failed: " .. command, 0) end
  return ipu.json.decode(last), last
end

-- A Python that has PyTorch.
local function find_python()
  for _, python in ipairs{options.python or "python3", "/usr/bin/python3"} do
    if succeeds(quoted(python) .. " -c 'import torch'") then return python end
  end
end

-- PyTorch at its best: memory that the allocator keeps, one pool of threads.
local function torch_environment(threads)
  local settings = "env -u OPENBLAS_CORETYPE MALLOC_TRIM_THRESHOLD_=4000000000 MALLOC_MMAP_THRESHOLD_=4000000000 "
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
if options.peers and not python then io.stderr:write("no Python with PyTorch was found: ours alone\n") end
local rows = {}
for _, workload in ipairs(list(options.workloads)) do
  for _, threads in ipairs(list(options.threads)) do
    threads = math.tointeger(tonumber(threads))
    local ratios, ours, theirs = {}, {}, {}
    for _ = 1, options.rounds do
      local our, line = run(string.format("IPULUA_DATA=%s %s --threads %d %s%s.lua", quoted(options.data), quoted(options.command),
        threads, quoted(folder), workload))
      print(line)
      ours[#ours + 1] = our.us_per_step
      if python then
        local their = run(string.format("%s %s %speers/torch_workload.py %s %d %s", torch_environment(threads), quoted(python),
          quoted(folder), workload, threads, quoted(options.data)))
        theirs[#theirs + 1] = their.us_per_step
        ratios[#ratios + 1] = their.us_per_step / our.us_per_step
      end
    end
    if python then
      rows[#rows + 1] = string.format("%-8s%8d%14.1f%14.1f%10.2f", workload, threads, median(ours), median(theirs), median(ratios))
    end
  end
end
if python then
  print(string.format("%-8s%8s%14s%14s%10s", "", "threads", "ipulua us", "PyTorch us", "ratio"))
  for _, row in ipairs(rows) do print(row) end
end
