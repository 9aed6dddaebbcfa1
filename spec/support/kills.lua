-- make kills: a training of several processes, repeated so many times. One process is killed at
-- some moment. Each time the launcher must end within seconds, and no process may be left. The
-- training must go on from its newest backup, on as many processes or on others, to the bits of one
-- that nobody killed. usage: kills.lua [times]; the last line is "N passed, N failed".
local command = require "spec.support.command"
local processes = require "spec.support.processes"

local times <const> = math.tointeger(tonumber(arg[1] or "200"))
local folder <const> = command.folder()
local script <const> = folder .. "/train.lua"

command.write(script, [[
local ipu = require "ipulua"
local keras, layers, popdist = ipu.keras, ipu.keras.layers, ipu.popdist
local folder <const>, wait <const> = arg[1], arg[2] == "wait"
local cfg = ipu.IPUConfig()
popdist.set_ipu_config(cfg)
cfg:configure_ipu_system()
keras.utils.set_random_seed(3)
local strategy = ipu.PopDistStrategy()
local _ <close> = strategy:scope()
local x = ipu.random.normal({64, 6}, {seed = 1})
local y = ipu.reduce_sum(x, {axis = 1, keepdims = true})
local ds = strategy:experimental_distribute_dataset(
  ipu.data.from_tensor_slices{x, y}:shuffle(64, {seed = 4}):batch(16, {drop_remainder = true}))
local model = keras.Sequential{layers.Dense{9, activation = "tanh", input_shape = {6}},
  layers.Dropout(0.2), layers.Dense{1}}
model:compile{loss = "mse", optimizer = keras.optimizers.Adam(0.01), steps_per_execution = 2}
local pid = math.tointeger(assert(io.open("/proc/self/stat")):read("n"))
local file <close> = assert(io.open(folder .. "/pid" .. popdist.getInstanceIndex(), "w"))
file:write(pid)
file:close()
local Slow = keras.callbacks.Callback:extend("Slow")
function Slow:on_epoch_end() if wait then os.execute("sleep 0.05") end end
model:fit(ds, {epochs = 12, verbose = 0, callbacks = {Slow(),
  keras.callbacks.BackupAndRestore{folder .. "/backup", delete_checkpoint = false}}})
if popdist.getInstanceIndex() == 0 then
  for _, w in ipairs(model:get_weights()) do print(string.format("%a", ipu.reduce_sum(w):item())) end
end
]])

local function read(path)
  local file = io.open(path)
  if not file then return nil end
  local text = file:read("a")
  file:close()
  return text
end

local function line_of(launcher, count, replicas, place, how)
  return string.format("%stimeout -k 5 60 %s--threads 1 --replicas %d %s %s %s", "",
    processes.front(launcher, count) .. command.quote(command.ipulua) .. " ", replicas,
    command.quote(script), command.quote(place), how)
end

-- The weights that a run ends with; nil where it fails.
local function finish(launcher, count, place)
  local pipe <close> = assert(io.popen(line_of(launcher, count, 4, place, "go") .. " 2>"
    .. place .. "/err"))
  local text = pipe:read("a")
  return text ~= "" and text or nil
end

local function is_alive(pid) return os.execute("kill -0 " .. pid .. " 2>/dev/null") == true end

local function sleep(seconds) os.execute("sleep " .. seconds) end

-- Nil, or what is wrong.
local function kill_once(i, launcher, expected)
  local place <const> = string.format("%s/%d", folder, i)
  os.execute("mkdir " .. place)
  local count <const> = i % 2 == 0 and 2 or 4
  os.execute(string.format("( %s >/dev/null 2>%s/first; echo $? >%s/status ) &",
    line_of(launcher, count, 4, place, "wait"), place, place))
  local victim <const> = i * 7 % count
  for _ = 1, 400 do
    if (read(place .. "/pid" .. victim) or "") ~= "" then break end
    sleep(0.05)
  end
  sleep(string.format("%.3f", i * 37 % 100 / 100))
  os.execute("kill -9 " .. (read(place .. "/pid" .. victim) or "0") .. " 2>/dev/null")
  for _ = 1, 300 do
    if read(place .. "/status") then break end
    sleep(0.05)
  end
  if not read(place .. "/status") then return "the launcher hangs" end
  for q = 0, count - 1 do
    local pid, turns = read(place .. "/pid" .. q), 0
    while pid and is_alive(pid) do
      turns = turns + 1
      if turns > 100 then return "process " .. q .. " is left" end
      sleep(0.05)
    end
  end
  local ended = finish(launcher, i % 3 == 0 and 6 - count or count, place)
  if ended == expected then return nil end
  return ended and "other weights\n" .. ended or "it does not go on: " .. (read(place .. "/err")
    or "")
end

local launchers <const> = processes.launchers()
local passed, failed = 0, 0
if #launchers == 0 then print "pending kills: no launcher of MPI is installed" end
for _, launcher in ipairs(launchers) do
  os.execute("mkdir " .. folder .. "/whole" .. launcher)
  local expected = finish(launcher, 2, folder .. "/whole" .. launcher)
  for i = 1, times // #launchers do
    local at <const> = i
    local wrong = expected and kill_once(at, launcher, expected) or not expected and "no weights"
    if wrong then
      failed = failed + 1
      print(string.format("FAIL kill %d under %s: %s", i, launcher, wrong))
    else passed = passed + 1 end
    os.execute("rm -rf " .. string.format("%s/%d", folder, i))
  end
end
os.execute("rm -rf " .. command.quote(folder))
print(string.format("%d passed, %d failed", passed, failed))
os.exit(failed == 0)
