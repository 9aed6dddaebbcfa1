-- --show_progress_bar: a line on standard error that shows the progress of a compilation. `auto`:
-- on a terminal only, once it has taken a while. The line is cleared again unless it took long.

local config = require "ipulua.config"
local core = require "ipulua.core"
local func = require "ipulua.trace.func"
local terminal = require "ipulua.base.text.terminal"

-- In seconds, for `auto`: the age of a compilation at which its line appears, and at which the line
-- stays.
local compile_progress = {appears = 0.5, stays = 2.0}

local width <const> = 20

-- Events of ipu.func in the order of a compilation: per cent done, and the next part.
local steps <const> = {trace = {0, "tracing"}, lower = {50, "lowering"},
  compile = {100, "finished"}}

-- name and start of the compilation, whether it is watched anyhow, and the length of the drawn line
local state = {}
local function write_stderr(s) io.stderr:write(s) end
local write = write_stderr

-- The flag's setting for a compilation that begins now; nil: nothing to show.
local function begin(name)
  local wanted = config.flag("show_progress_bar")
  if wanted == "false" or wanted == "auto" and not terminal.is_terminal() then return {} end
  return {name = name, start = core.epoch(), always = wanted == "true"}
end

local function age() return core.epoch() - state.start end

-- A line that is drawn again and again must stay within the window. If it is too long, the name is
-- cut, then the end.
local function draw(percent, doing)
  if not state.always and age() < compile_progress.appears then return end
  local text_columns = require "ipulua.base.text.columns" -- unnecessary if nothing is drawn
  local full = percent * width // 100
  local rest = string.format("' [%s%s] %3d%% %-8s [%.1f s]", ("="):rep(full),
    ("."):rep(width - full), percent, doing, age())
  local room = terminal.is_terminal() and terminal.columns() - 1 or math.maxinteger
  local name = text_columns.cut(state.name, math.max(room - #"Compiling '" - #rest, 8))
  local line = text_columns.cut("Compiling '" .. name .. rest, room)
  state.drawn = math.max(state.drawn or 0, text_columns.width(line))
  write("\r" .. line)
end

local function finish(keep)
  if state.drawn then write(keep and "\n" or "\r" .. (" "):rep(state.drawn) .. "\r") end
  state = {}
end

func.listen(function(event, entry)
  local step = steps[event]
  if event == "trace" then state = begin(entry.name) end
  if not state.name then return end
  if step then draw(step[1], step[2]) end
  if event == "compile" then
    finish(state.always or age() >= compile_progress.stays)
  elseif event == "traced" then -- by an error: a compilation has ended already
    finish(false)
  end
end)

---The function that gets the line instead of standard error; nil: standard error again.
---@param f? fun(s: string)
function compile_progress.set_writer(f) write = f or write_stderr end

return compile_progress
