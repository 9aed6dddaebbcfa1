-- Scripts on several processes: with the stub of spec/support/comm_stub.c, or under a launcher of
-- MPI that is installed.
local command = require "spec.support.command"

local processes = {}

processes.stub = command.ipulua:match("^(.*)/[^/]*$") .. "/comm_stub.so"

local function exists(path)
  local file <close> = io.open(path)
  return file ~= nil
end

local function words_of(program, o)
  local words = {command.quote(program), "--threads", tostring(o.threads or 1)}
  if o.replicas then words[#words + 1] = "--replicas " .. o.replicas end
  for _, option in ipairs(o.options or {}) do words[#words + 1] = command.quote(option) end
  words[#words + 1] = command.quote(o.script)
  for _, argument in ipairs(o.args or {}) do words[#words + 1] = command.quote(argument) end
  return table.concat(words, " ")
end

local function assignments(env)
  local list = {}
  for name, value in pairs(env) do list[#list + 1] = name .. "=" .. command.quote(value) end
  return table.concat(list, " ")
end

-- A shell line that leaves the status in a file.
local function noting(line, path)
  return string.format("( %s; echo $? > %s )", line, command.quote(path))
end

local function number_in(path)
  return math.tointeger(tonumber((command.read(path):match("%d+"))))
end

local clean <const> = "env -u OMPI_COMM_WORLD_SIZE -u PMI_SIZE -u SLURM_STEP_NUM_TASKS "

---Runs a script as several processes that know each other by the stub. Gives a list by process:
---{out, err, status}.
---@param o {script: string, count: integer, replicas: integer?, threads: integer?, args: table?}
---@return table[]
function processes.with_stub(o)
  local folder <const> = command.folder()
  local lines, results = {}, {}
  for p = 0, o.count - 1 do
    local at = folder .. "/" .. p
    local env = {PMI_RANK = tostring(p), PMI_SIZE = tostring(o.count), IPULUA_COMM = processes.stub,
      COMM_STUB_FOLDER = folder, IPULUA_PROGRESS = "off"}
    for name, value in pairs(o.env or {}) do env[name] = value end
    for name, value in pairs(o.env_of and o.env_of[p + 1] or {}) do env[name] = value end
    lines[#lines + 1] = noting(string.format("%s %s timeout 100 %s > %s.out 2> %s.err < /dev/null",
      clean, assignments(env), words_of(command.ipulua, o), command.quote(at), command.quote(at)),
      at .. ".status") .. " &"
  end
  lines[#lines + 1] = "wait"
  command.write(folder .. "/run.sh", table.concat(lines, "\n"))
  os.execute("sh " .. command.quote(folder .. "/run.sh"))
  for p = 0, o.count - 1 do
    local at = folder .. "/" .. p
    results[p + 1] = {out = command.read(at .. ".out"), err = command.read(at .. ".err"),
      status = number_in(at .. ".status")}
  end
  command.remove(folder)
  return results
end

---Runs a script in one process, without a launcher.
---@return table {out, err, status}
function processes.alone(o)
  local folder <const> = command.folder()
  local env = {IPULUA_PROGRESS = "off"}
  for name, value in pairs(o.env or {}) do env[name] = value end
  os.execute(noting(string.format("%s %s %s > %s/out 2> %s/err < /dev/null", clean,
    assignments(env),
    words_of(command.ipulua, o), folder, folder), folder .. "/status"))
  local result = {out = command.read(folder .. "/out"), err = command.read(folder .. "/err"),
    status = number_in(folder .. "/status")}
  command.remove(folder)
  return result
end

---The launchers of MPI that are installed and whose plug-in was built.
---@return string[]
function processes.launchers()
  local list = {}
  local modules <const> = command.ipulua:match("^(.*)/[^/]*$") .. "/modules/ipulua/comm_"
  for _, name in ipairs{"openmpi", "mpich"} do
    local found = os.execute("command -v mpirun." .. name .. " > /dev/null 2>&1")
    if found and exists(modules .. name .. ".so") then list[#list + 1] = name end
  end
  return list
end

---The plug-in for a launcher that cuts messages into small pieces.
---@return string
function processes.pieces(launcher)
  return command.ipulua:match("^(.*)/[^/]*$") .. "/pieces/comm_" .. launcher .. ".so"
end

-- More processes than processors, and by root, are what Open MPI asks to be told of. MPICH's UCX
-- complains on standard output where there is no /sys.
local fronts <const> = {
  openmpi = "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun.openmpi "
    .. "--oversubscribe",
  mpich = "UCX_LOG_LEVEL=fatal mpirun.mpich",
}

---The beginning of a command line that launches so many processes.
---@return string
function processes.front(launcher, count)
  return string.format("%senv %s -n %d ", clean, fronts[launcher], count)
end

---Runs a script under a launcher: {out, err, status} of all together.
---@return table
function processes.launched(launcher, o)
  local folder <const> = command.folder()
  os.execute(noting(string.format("%s IPULUA_PROGRESS=off %s timeout -k 5 100 env %s -n %d %s "
    .. "> %s/out 2> %s/err < /dev/null", clean:sub(1, -2), assignments(o.env or {}),
    fronts[launcher], o.count, words_of(command.ipulua, o), folder, folder), folder .. "/status"))
  local result = {out = command.read(folder .. "/out"), err = command.read(folder .. "/err"),
    status = number_in(folder .. "/status")}
  command.remove(folder)
  return result
end

---Runs a script as several processes: with the stub, or by the launcher that $LAUNCHER names. Gives
---instance 0's output and status, and what all have told.
---@return table {out, err, status}
function processes.together(o)
  local launcher <const> = os.getenv("LAUNCHER")
  if launcher then return processes.launched(launcher, o) end
  local all = processes.with_stub(o)
  local told, status = {}, 0
  for i, each in ipairs(all) do
    told[i] = each.err
    if each.status ~= 0 then status = each.status end
  end
  return {out = all[1].out, err = table.concat(told), status = status}
end

---What a script begins with that trains in a PopDistStrategy's scope: `layers`, `strategy`.
---@param seed integer? for keras.utils.set_random_seed
---@return string
function processes.in_scope(seed)
  return [[
local layers = keras.layers
local cfg = ipu.IPUConfig()
popdist.set_ipu_config(cfg)
cfg:configure_ipu_system()
]] .. (seed and "keras.utils.set_random_seed(" .. seed .. ")\n" or "") .. [[
local strategy = ipu.PopDistStrategy()
local _ <close> = strategy:scope()
]]
end

---A script as a file, whose first lines every one has: `ipu`, `say` (instance 0 prints).
---@param text string
---@return string path
function processes.script(text)
  local path = command.scratch(".lua")
  command.write(path, [[
local ipu = require "ipulua"
local keras, popdist, distributed = ipu.keras, ipu.popdist, ipu.distributed
local me <const>, count <const> = popdist.getInstanceIndex(), popdist.getNumInstances()
local function say(...) if me == 0 then print(...) io.stdout:flush() end end
]] .. text)
  return path
end

return processes
