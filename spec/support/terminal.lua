-- The prompt on a terminal: steps as in terminal.py, without the escapes.
local command = require "spec.support.command"

local function escape(text)
  return (text:gsub("[^\x20-\x7e]", function(c) return ("\\x%02x"):format(c:byte()) end):gsub(
    "\\([^x])", "\\\\%1"))
end

-- steps: a list of {send = text}, {expect = text}, {signal = name}, {busy = ""} ...; options: args,
-- env, dir. Returns what the terminal showed, without escape sequences of colour, and the exit
-- status.
return function(steps, options)
  options = options or {}
  local lines = {}
  for i, step in ipairs(steps) do
    local verb, text = next(step)
    lines[i] = verb .. " " .. ((verb == "send" or verb == "expect") and escape(text)
      or tostring(text))
  end
  local env = {TERM = "xterm", NO_COLOR = "1", LC_ALL = "C.UTF-8", XDG_STATE_HOME = "/nonexistent"}
  for name, value in pairs(options.env or {}) do env[name] = value end
  local pipe <close> = assert(io.popen("pwd"))
  local words = {command.python "pty", pipe:read("l") .. "/spec/support/terminal.py",
    options.program or command.ipulua}
  for _, word in ipairs(options.args or {}) do words[#words + 1] = word end
  words.stdin, words.env, words.dir = table.concat(lines, "\n"), env, options.dir
  local result = command.run(words)
  return result.out .. result.err, result.status
end
