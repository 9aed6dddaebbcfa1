-- ipu.debug: the prompt where a script stands, with the locals of that place.

local blame = require "ipulua.base.blame"

local breakpoint = {}

-- ------------------------------------------------ frames

-- Levels change with every call, heights don't: the bottom of the stack is 1.
local function height()
  local level = 2
  while debug.getinfo(level, "l") do level = level + 1 end
  return level - 2
end

-- The height of the first frame of the script.
local function script_frame()
  local level = 2
  while true do
    local info = debug.getinfo(level, "S")
    if not info then return nil end
    if info.what ~= "C" and not blame.is_own(info.source) then return height() - level + 1 end
    level = level + 1
  end
end

-- The last one of a list of named slots: it hides the others.
local function last_slot(name, names)
  local found
  for i = 1, math.huge do
    local each = names(i)
    if not each then return found end
    if each == name then found = i end
  end
end

-- Reads (or, with `set`, writes) a local or an upvalue of a frame: whether there is one, its value.
local function access(frame, name, set, value)
  local level <const> = height() - frame + 1
  local i = last_slot(name, function(k) return (debug.getlocal(level + 2, k)) end)
  if i then
    if set then debug.setlocal(level, i, value) end
    return true, select(2, debug.getlocal(level, i))
  end
  local f <const> = debug.getinfo(level, "f").func
  i = last_slot(name, function(k) return (debug.getupvalue(f, k)) end)
  if not i then return false end
  if set then debug.setupvalue(f, i, value) end
  return true, select(2, debug.getupvalue(f, i))
end

-- The names of a place of a script, the frame of that height: its locals, upvalues and globals, to
-- be read and set.
local function environment(frame)
  local has_globals, globals = access(frame, "_ENV")
  if not has_globals then globals = _G end
  return setmetatable({}, {
    __index = function(_, name)
      local is_there, value = access(frame, name)
      if is_there then return value end
      return globals[name]
    end,
    __newindex = function(_, name, value)
      if not access(frame, name, true, value) then globals[name] = value end
    end,
  })
end

-- ------------------------------------------------ prompts

-- The prompt of interpreters other than the command: a line is an expression or a statement.
local function plain_prompt(env)
  while true do
    io.write("> "):flush()
    local line = io.read("l")
    if not line then return end
    local f, problem = load("return " .. line, "=stdin", "t", env)
    if not f then f, problem = load(line, "=stdin", "t", env) end
    local results = table.pack(pcall(f or error, not f and problem or nil))
    if results[1] and results.n > 1 then print(table.unpack(results, 2, results.n))
    elseif not results[1] then io.stderr:write(tostring(results[2]), "\n") end
  end
end

local function is_terminal() return os.execute("test -t 0") == true end

---Opens the prompt where the script stands. Locals, upvalues and globals of that place can be read
---and set. The script goes on at the end of the input (Ctrl-D). Where standard input is no terminal
---nothing happens.
---Source: Python's breakpoint
function breakpoint.breakpoint()
  local frame = is_terminal() and script_frame()
  if not frame then return end
  local is_command, prompt = pcall(require, "ipulua.prompt")
  print("at " .. (blame.where() or "?") .. "; Ctrl-D goes on")
  local run <const> = is_command and prompt or plain_prompt
  run(environment(frame))
end

return breakpoint
