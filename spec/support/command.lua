-- Running commands from specs: arguments quoted for the shell, output and exit status caught.
local command = {}

-- The interpreter under test; make asan and make tsan name another one.
command.ipulua = os.getenv("IPULUA") or "build/ipulua"
if command.ipulua:sub(1, 1) ~= "/" then
  local pipe <close> = assert(io.popen("pwd"))
  command.ipulua = pipe:read("l") .. "/" .. command.ipulua
end

-- Statements that never end. The thread sanitizer delivers a signal only inside a call of the C library.
command.endless = command.ipulua:find("/build%-tsan/") and "while true do io.write('') end" or "while true do end"

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

-- A name of that ending (".npz") for a file that isn't there.
function command.scratch(ending)
  local path = os.tmpname()
  os.remove(path)
  return path .. ending
end

-- A new, empty folder.
function command.folder()
  local pipe <close> = assert(io.popen("mktemp -d"))
  return pipe:read("l")
end

function command.remove(folder)
  os.execute("rm -rf " .. command.quote(folder))
end

local interpreters = {}

-- A Python that has these modules: $PYTHON, or that of the path, or Debian's own; nil where none has them.
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

-- Starts with no variable that steers an interpreter, then adds those of env.
local function environment(env)
  local words = {"env"}
  for _, name in ipairs {"LUA_INIT", "LUA_PATH", "LUA_CPATH"} do
    words[#words + 1] = ("-u %s -u %s_5_4"):format(name, name)
  end
  for name, value in pairs(env or {}) do words[#words + 1] = name .. "=" .. command.quote(value) end
  return table.concat(words, " ")
end

-- Runs {program, argument ...}: named fields are name (the program's name as it sees it), stdin (a text), env, dir.
-- Returns {out, err, status}; a signal gives 128 + its number.
function command.run(words)
  local files = {}
  for i = 1, 3 do files[i] = os.tmpname() end
  command.write(files[1], words.stdin or "")
  local line = {}
  for i, word in ipairs(words) do line[i] = command.quote(word) end
  local call = ("exec -a %s %s"):format(command.quote(words.name or words[1]), table.concat(line, " "))
  local shell = ("cd %s && %s bash -c %s <%s >%s 2>%s"):format(command.quote(words.dir or "."), environment(words.env),
    command.quote(call), files[1], files[2], files[3])
  local _, kind, status = os.execute(shell)
  local result = {out = command.read(files[2]), err = command.read(files[3]),
    status = kind == "signal" and 128 + status or status}
  for i = 1, 3 do os.remove(files[i]) end
  return result
end

return command
