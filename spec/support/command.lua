-- Running commands from specs: arguments quoted for the shell, output and exit status caught.
local command = {}

-- The interpreter under test; make asan and make tsan name another one.
command.ipulua = os.getenv("IPULUA") or "build/ipulua"
if command.ipulua:sub(1, 1) ~= "/" then
  local pipe <close> = assert(io.popen("pwd"))
  command.ipulua = pipe:read("l") .. "/" .. command.ipulua
end

-- Statements that never end. The thread sanitizer delivers a signal only inside a call of the C
-- library.
command.endless = command.ipulua:find("/build%-tsan/") and "while true do io.write('') end"
  or "while true do end"

function command.quote(text)
  return "'" .. text:gsub("'", [['\'']]) .. "'"
end

function command.read(path)
  local file <close> = assert(io.open(path, "rb"))
  return file:read("a")
end

function command.write(path, text)
  local file <close> = assert(io.open(path, "wb"))
  file:write(text)
end

-- A new, empty folder, below $TMPDIR or /tmp.
function command.folder()
  local pipe <close> = assert(io.popen("mktemp -d"))
  return pipe:read("l")
end

function command.remove(folder)
  os.execute("rm -rf " .. command.quote(folder))
end

local place -- this process's folder for scratch: made when it is wanted, removed at the end
local count = 0

-- A name of that ending (".npz") for a file that isn't there.
function command.scratch(ending)
  if not place then
    place = setmetatable({path = command.folder()},
      {__gc = function(self) command.remove(self.path) end})
  end
  count = count + 1
  return ("%s/%d%s"):format(place.path, count, ending or "")
end

local interpreters = {}

-- A Python that has these modules: $PYTHON, or the one on the path, or Debian's own. nil if none
-- has them.
function command.python(modules)
  if interpreters[modules] == nil then
    interpreters[modules] = false
    for _, name in ipairs{os.getenv("PYTHON") or "python3", "python3", "/usr/bin/python3"} do
      if os.execute(("%s -c 'import %s' >/dev/null 2>&1"):format(command.quote(name), modules)) then
        interpreters[modules] = name
        break
      end
    end
  end
  return interpreters[modules] or nil
end

-- Starts with no variable that steers an interpreter and with a seed, so that no process draws by
-- chance. Then adds env's variables.
local function environment(env)
  local words = {"env"}
  for _, name in ipairs {"LUA_INIT", "LUA_PATH", "LUA_CPATH"} do
    words[#words + 1] = ("-u %s -u %s_5_4"):format(name, name)
  end
  words[#words + 1] = "IPULUA_SEED=20"
  for name, value in pairs(env or {}) do words[#words + 1] = name .. "=" .. command.quote(value) end
  return table.concat(words, " ")
end

-- Runs {program, argument ...}: named fields are name (the program's name as it sees it), stdin (a
-- text), env, dir. Returns {out, err, status}; a signal gives 128 + its number.
function command.run(words)
  local files = {}
  for i = 1, 3 do files[i] = command.scratch() end
  command.write(files[1], words.stdin or "")
  local line = {}
  for i, word in ipairs(words) do line[i] = command.quote(word) end
  local call = ("exec -a %s %s"):format(command.quote(words.name or words[1]),
    table.concat(line, " "))
  local shell = ("cd %s && %s bash -c %s <%s >%s 2>%s"):format(command.quote(words.dir or "."),
    environment(words.env),
    command.quote(call), command.quote(files[1]), command.quote(files[2]), command.quote(files[3]))
  local _, kind, status = os.execute(shell)
  local result = {out = command.read(files[2]), err = command.read(files[3]),
    status = kind == "signal" and 128 + status or status}
  for i = 1, 3 do os.remove(files[i]) end
  return result
end

-- Runs words (as run does) and presses Ctrl-C, once or `times` times, each when the process has
-- computed a while. The time counts from when it has made the file of its environment's variable
-- READY, or from its start if words.at_once.
function command.interrupted(words, times)
  local ready = command.scratch()
  local script = [[
    ready=$READY; "$@" & pid=$!
    spent() { local line; read -r line 2>/dev/null <"/proc/$pid/stat" || return 1; set ${line##*) }; ticks=$((${12} + ${13})); }
    until [ -e "$ready" ]; do kill -0 $pid 2>/dev/null || break; sleep 0.01; done
    for press in $(seq ]] .. (times or 1) .. [[); do
      spent || break
      least=$((ticks + 5))
      while [ $ticks -lt $least ]; do sleep 0.01; spent || break 2; done
      kill -INT $pid
    done
    (sleep 60; kill -KILL $pid) >/dev/null 2>&1 & last=$!
    wait $pid; status=$?; kill $last; exit $status]]
  if words.at_once then command.write(ready, "") end
  local all = {"bash", "-c", script, "bash", table.unpack(words)}
  all.dir, all.env = words.dir, {READY = ready}
  for name, value in pairs(words.env or {}) do all.env[name] = value end
  return command.run(all)
end

-- The code by which a script says that it is to be interrupted from now on.
command.ready = "do local ready <close> = assert(io.open(os.getenv('READY'), 'w')) end "

return command
