-- One line per event on stderr, for levels up to IPULUA_LOG (error, warn, info, debug; warn by
-- default).

local log = {}

local levels <const> = {error = 1, warn = 2, info = 3, debug = 4}
local labels <const> = {error = "error", warn = "warning", info = "info", debug = "debug"}

-- the level is read from the environment at the first line
local state = {level = nil, writer = nil, prefix = ""}

local function write_stderr(line)
  io.stderr:write(line, "\n")
end

local function current_level()
  if not state.level then
    local wanted = (os.getenv("IPULUA_LOG") or "warn"):lower()
    state.level = levels[wanted] or levels.warn
    if not levels[wanted] then
      (state.writer or write_stderr)("ipulua: warning: IPULUA_LOG is '"
        .. wanted:gsub("%c", "?"):sub(1, 40)
        .. "'; it can be error, warn, info or debug")
    end
  end
  return state.level
end

local function show(level, format, ...)
  local text = select("#", ...) > 0 and string.format(format, ...) or format
  local write = state.writer or write_stderr
  write(state.prefix .. "ipulua: " .. labels[level] .. ": " .. text:gsub("[\r\n]+", " "))
end

local function put(level, ...)
  if levels[level] <= current_level() then show(level, ...) end
end

---Writes lines that somebody asked for by name, at any level.
---@param format string as string.format takes it
---@param ... any
function log.always(format, ...) show("info", format, ...) end

---@param format string
---@param ... any
function log.error(format, ...) put("error", format, ...) end

---@param format string
---@param ... any
function log.warn(format, ...) put("warn", format, ...) end

---@param format string
---@param ... any
function log.info(format, ...) put("info", format, ...) end

---@param format string
---@param ... any
function log.debug(format, ...) put("debug", format, ...) end

---Whether lines of a level are shown, for callers whose text is costly to make.
---@param level "error"|"warn"|"info"|"debug"
---@return boolean
function log.shows(level)
  return levels[level] <= current_level()
end

---The beginning of lines: the process, if there are several.
---@param prefix string
function log.set_prefix(prefix) state.prefix = prefix end

---Sets the level; nil reads IPULUA_LOG again at the next line.
---Errors: a level that there is not
---@param level "error"|"warn"|"info"|"debug"|nil
function log.set_level(level)
  if level ~= nil and not levels[level] then
    error("set_level: the level must be error, warn, info or debug, got " .. tostring(level), 2)
  end
  state.level = level and levels[level]
end

---Hands lines (without newline) to a function instead of stderr; nil goes back. Returns the former
---one.
---@param writer fun(line: string)?
---@return fun(line: string)?
function log.set_writer(writer)
  local former = state.writer
  state.writer = writer
  return former
end

---Runs f with all lines up to `level` collected; returns them and f's results.
---@param level "error"|"warn"|"info"|"debug"
---@param f fun(...): any
---@param ... any
---@return string[] lines
---@return any ...
function log.capture(level, f, ...)
  local lines, former_writer, former_level = {}, state.writer, state.level
  local _ <close> = setmetatable({}, {__close = function()
    state.writer, state.level = former_writer, former_level
  end})
  state.writer = function(line) lines[#lines + 1] = line end
  state.level = levels[level]
  return lines, f(...)
end

return log
