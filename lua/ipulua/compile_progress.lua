-- --show_progress_bar: a line on standard error that tells how far the compilation of a program has come. `auto`: on a
-- terminal only, where the line of what took less than a second goes again.

local config = require "ipulua.config"
local core = require "ipulua.core"
local func = require "ipulua.func"
local terminal = require "ipulua.terminal"

local compile_progress = {}

local width <const> = 20
local brief <const> = 1.0 -- seconds

-- Events of ipu.func in the order of a compilation: per cent done, what is done next.
local steps <const> = {trace = {0, "tracing"}, lower = {50, "lowering"}, compile = {100, "finished"}}

local state = {} -- name and start of what compiles, and whether its line is there
local function write_stderr(text) io.stderr:write(text) end
local write = write_stderr

local function is_wanted()
  local wanted = config.flag("show_progress_bar")
  return wanted == "true" or wanted == "auto" and terminal.is_terminal()
end

local function draw(percent, doing)
  local full = percent * width // 100
  write(string.format("\rCompiling '%s' [%s%s] %3d%% %-8s [%.1f s]", state.name, ("="):rep(full), ("."):rep(width - full), percent,
    doing, core.epoch() - state.start))
end

local function erase() write("\r" .. (" "):rep(#state.name + width + 44) .. "\r") end

local function finish()
  local took = core.epoch() - state.start
  if config.flag("show_progress_bar") == "true" or took >= brief then write("\n") else erase() end
  state = {}
end

func.listen(function(event, entry)
  local step = steps[event]
  if event == "trace" and is_wanted() then state = {name = entry.name, start = core.epoch()} end
  if not state.name then return end
  if step then draw(step[1], step[2]) end
  if event == "compile" then
    finish()
  elseif event == "traced" then -- by an error: a compilation has ended already
    erase()
    state = {}
  end
end)

---Where the line goes instead of standard error; nil: there again.
---@param f? fun(text: string)
function compile_progress.set_writer(f) write = f or write_stderr end

return compile_progress
