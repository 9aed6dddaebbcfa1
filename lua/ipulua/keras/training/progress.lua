-- The progress of fit, evaluate and predict. Lines for people are on standard output, JSON for
-- programs on standard error.
--
--   classic   3/10 [=======>......................] - ETA: 12s - loss: 0.2345
--   modern    3/10 ━━━━━━━━━━━━━━━━━━━━ 12s 2s/step - loss: 0.2345
--
-- Modes (IPULUA_PROGRESS): "bar" draws one line again and again. "line" writes a line every ten
-- seconds and one at the end. "json" writes an object a line, at most two each second. "off" writes
-- nothing. "auto" is "bar" on a terminal, "line" elsewhere, and "off" where programs are only
-- priced.

local blame = require "ipulua.base.blame"
local class = require "ipulua.base.class"
local counted = require "ipulua.base.counted"
local json = require "ipulua.base.json"
local log = require "ipulua.base.log"
local plain = require "ipulua.base.plain"
local terminal = require "ipulua.base.text.terminal"
local text_columns = require "ipulua.base.text.columns"

local progress = {}

local cells <const> = {classic = 30, modern = 20} -- of a bar, where the window has room for them
local intervals <const> = {bar = 0.05, line = 10, json = 0.5} -- seconds between two draws

local modes <const> = {auto = true, bar = true, line = true, json = true, off = true}

-- Seconds from any origin. Plain Lua counts whole ones; a host program hands in a better clock.
local default_clock = os.time

---Sets the clock of bars that have none of their own. nil sets os.time.
---@param clock (fun(): number)?
function progress.set_clock(clock)
  default_clock = clock or os.time
end

local function write_output(s)
  io.stdout:write(s)
  io.stdout:flush()
end

local function write_error(s)
  io.stderr:write(s)
  io.stderr:flush()
end

---Writes a line of progress; does nothing if progress is off, or read by programs.
---@param line string?
function progress.line(line)
  local mode = progress.settings().mode
  if line and mode ~= "off" and mode ~= "json" then write_output(line .. "\n") end
end

local told -- which unknown mode a warning named already

---The settings of the environment: mode "bar", "line", "json" or "off", style "classic" or
---"modern", colour.
---@return {mode: string, style: string, colour: boolean}
function progress.settings()
  local mode = (os.getenv("IPULUA_PROGRESS") or ""):lower()
  if mode == "" then mode = "auto" end
  if not modes[mode] then
    if mode ~= told then
      log.warn("IPULUA_PROGRESS is '%s'; it can be auto, bar, line, json or off",
        text_columns.cut(mode, 40))
    end
    told, mode = mode, "auto"
  end
  if mode == "auto" and terminal.is_quiet() then mode = "off" end
  if mode == "auto" then mode = terminal.output_is_terminal() and "bar" or "line" end
  return {mode = mode, style = terminal.style(), colour = mode == "bar" and terminal.wants_colour()}
end

-- ------------------------------------------------ numbers

-- NaN has a sign for printf; a reader has no use for it.
local function show_number(v)
  if v ~= v then return "nan" end
  return string.format(math.abs(v) > 1e-3 and "%.4f" or "%.4e", v)
end

---A metric's value as it is shown; a list (one value for each replica) in brackets.
---@param value any
---@return string
function progress.show_value(value)
  if type(value) == "number" then return show_number(value) end
  if type(value) ~= "table" then return tostring(value) end
  local parts = {}
  for i, v in ipairs(value) do parts[i] = progress.show_value(v) end
  return "[" .. table.concat(parts, ", ") .. "]"
end

---Seconds left: h:mm:ss, m:ss or Ns.
---@param seconds number
---@return string
function progress.show_eta(seconds)
  if seconds ~= seconds or seconds >= 1e15 then return "?" end
  local s = math.floor(seconds)
  if seconds > 3600 then return string.format("%d:%02d:%02d", s // 3600, s % 3600 // 60, s % 60) end
  if seconds > 60 then return string.format("%d:%02d", s // 60, s % 60) end
  return string.format("%ds", s)
end

---Time of a step: "2s/step", "15ms/step", "30us/step".
---@param seconds number
---@param unit string
---@return string
function progress.show_rate(seconds, unit)
  if seconds >= 1 or seconds == 0 then return string.format("%.0fs/%s", seconds, unit) end
  if seconds >= 1e-3 then return string.format("%.0fms/%s", seconds * 1e3, unit) end
  return string.format("%.0fus/%s", seconds * 1e6, unit)
end

---The meaning of verbose = 0, 1, 2, "auto" or a boolean.
---@param verbose any
---@return integer
function progress.verbosity(verbose)
  if verbose == nil or verbose == "auto" or verbose == true then return 1 end
  if verbose == false then return 0 end
  if verbose == 0 or verbose == 1 or verbose == 2 then return math.tointeger(verbose) end
  blame.error("verbose must be 0, 1, 2 or \"auto\", got " .. tostring(verbose), "value")
end

-- ------------------------------------------------ the bar

---@class ProgressBar: Class
local Bar = class.new("ProgressBar")

---options: target (number of steps, nil: unknown), verbose, unit ("step"). mode, style and colour
---are as progress.settings gives them. writer(text) and clock() in seconds are for tests; epoch,
---epochs for json.
---@param options table
function Bar:init(options)
  local settings = {}
  if not (options.mode and options.style) then settings = progress.settings() end
  self.target = options.target
  self.verbose = progress.verbosity(options.verbose)
  self.unit = options.unit or "step"
  self.mode = options.mode or settings.mode
  self.style = options.style or settings.style
  self.colour = self.mode == "bar" and options.colour
  if options.colour == nil then self.colour = settings.colour or false end
  self.write = options.writer or (self.mode == "json" and write_error or write_output)
  self.clock = options.clock or default_clock
  self.interval = options.interval or intervals[self.mode] or 0
  self.epoch, self.epochs = options.epoch, options.epochs
  self.start = self.clock()
  self.last_draw = self.mode == "bar" and -math.huge or self.start
  self.first_count, self.first_time = nil, nil
  self.drawn_width = 0
  self.columns = options.columns -- nil: as wide as the window is when a line is drawn
  self.shown, self.cells = math.huge, cells[self.style] -- metrics, of the bar
  self.names, self.values = {}, {}
  self.finished = false
end

-- Values come as {{"loss", 0.1}, …}, in the order in which they are to appear, or as a table by
-- name.
local function take_values(self, values)
  local pairs_list = values
  if values[1] == nil then
    pairs_list = {}
    for name, value in pairs(values) do pairs_list[#pairs_list + 1] = {name, value} end
    table.sort(pairs_list, function(a, b) return a[1] < b[1] end)
  end
  for _, pair in ipairs(pairs_list) do
    local name, value = pair[1], pair[2]
    if self.values[name] == nil then self.names[#self.names + 1] = name end
    self.values[name] = value
  end
end

-- Seconds of a step. The first update's extra time (compiling, filling queues) is left out as soon
-- as there is another measurement.
local function step_seconds(self, current, now)
  if current <= 0 then return 0 end
  if self.first_count and current > self.first_count then
    return (now - self.first_time) / (current - self.first_count)
  end
  return (now - self.start) / current
end

local function metrics_text(self)
  local names = self.names
  if self.style == "modern" then
    names = table.move(names, 1, #names, 1, {})
    table.sort(names)
  end
  local parts = {}
  for i, name in ipairs(names) do
    parts[i] = " - " .. name .. ": " .. progress.show_value(self.values[name])
  end
  return table.concat(parts, "", 1, math.min(#parts, self.shown))
end

local function count_text(self, current)
  if not self.target then return string.format("%7d/Unknown", current) end
  local digits = #string.format("%d", self.target)
  return string.format("%" .. digits .. "d/%d", current, self.target)
end

local function filled(self, current, width)
  if self.target <= 0 then return width end
  return math.floor(width * math.min(math.max(current / self.target, 0), 1))
end

local function classic_bar(self, current)
  local bar = count_text(self, current)
  if not self.target then return bar end
  local done = filled(self, current, self.cells)
  local head = done > 0 and ("="):rep(done - 1) .. (current < self.target and ">" or "=") or ""
  return bar .. " [" .. head .. ("."):rep(self.cells - done) .. "]"
end

local function classic_line(self, current, now, final)
  local per_step = step_seconds(self, current, now)
  local time
  if final or not self.target then
    time = string.format(" - %.0fs %s", now - self.start, progress.show_rate(per_step, self.unit))
  else
    time = " - ETA: " .. progress.show_eta(per_step * (self.target - current))
  end
  local line = classic_bar(self, current) .. time .. metrics_text(self)
  return line, text_columns.width(line)
end

-- The line, and its width without the codes that select colours.
local function modern_line(self, current, now, final)
  local per_step = step_seconds(self, current, now)
  local bold = self.colour and "\27[1m%s\27[0m" or "%s"
  local count = count_text(self, current)
  local bar, bar_width = count, text_columns.width(count)
  if self.target then
    local done = filled(self, current, self.cells)
    -- without colours the rest is drawn thinner
    local left, right = ("━"):rep(done), (self.colour and "━" or "─"):rep(self.cells - done)
    if self.colour then
      left = done > 0 and "\27[32m" .. left .. "\27[0m" or ""
      right = "\27[37m" .. right .. "\27[0m"
    end
    bar = bold:format(count) .. " " .. left .. right
    bar_width = bar_width + 1 + self.cells
  end
  local time = self.target and not final and progress.show_eta(per_step * (self.target - current))
    or string.format("%.0fs", now - self.start)
  local rest = " " .. progress.show_rate(per_step, self.unit) .. metrics_text(self)
  return bar .. " " .. bold:format(time) .. rest,
    bar_width + 1 + text_columns.width(time) + text_columns.width(rest)
end

local function line_of(self, current, now, final)
  return (self.style == "modern" and modern_line or classic_line)(self, current, now, final)
end

-- A line that is drawn again and again must stay within the window. Metrics that don't fit show at
-- the end only, and a line that is still too long has a shorter bar.
local function draw_bar(self, current, now, final)
  local columns = self.columns or terminal.columns()
  self.shown, self.cells = math.huge, cells[self.style]
  local line, width = line_of(self, current, now, final)
  for shown = #self.names - 1, final and math.maxinteger or 0, -1 do
    if width < columns then break end
    self.shown = shown
    line, width = line_of(self, current, now, final)
  end
  if width >= columns and not final then
    self.cells = math.max(self.cells - (width - columns + 1), 0)
    line, width = line_of(self, current, now, final)
  end
  local padding = (" "):rep(math.max(math.min(self.drawn_width, columns - 1) - width, 0))
  self.write((self.drawn_width > 0 and "\r" or "") .. line .. padding .. (final and "\n" or ""))
  self.drawn_width = width
end

local function draw_line(self, current, now, final)
  self.write(line_of(self, current, now, final) .. "\n")
end

local function json_value(v, depth)
  if type(v) == "number" and (v ~= v or math.abs(v) == math.huge) then
    return tostring(show_number(v))
  end
  if type(v) == "table" then
    local list = {}
    depth = plain.deeper(depth or 0)
    for i, element in ipairs(v) do list[i] = json_value(element, depth) end
    return json.array(list)
  end
  return (type(v) == "number" or type(v) == "boolean") and v or tostring(v)
end

local function draw_json(self, current, now, final)
  local metrics = {}
  for name, value in pairs(self.values) do metrics[name] = json_value(value) end
  self.write(json.encode {event = final and "end" or "progress", step = current,
    steps = self.target, seconds = now - self.start,
    seconds_per_step = step_seconds(self, current, now), epoch = self.epoch, epochs = self.epochs,
    metrics = metrics} .. "\n")
end

-- verbose = 2: one line at the end of an epoch.
local function draw_epoch_line(self, current, now)
  local line = string.format("%s - %.0fs", count_text(self, current), now - self.start)
  if self.style == "modern" then
    line = line .. " - " .. progress.show_rate(step_seconds(self, current, now), self.unit)
  end
  self.write(line .. metrics_text(self) .. "\n")
end

local draws <const> = {bar = draw_bar, line = draw_line, json = draw_json}

---Says that `current` steps are done.
---@param current integer
---@param values table? {{"loss", 0.1}, …} or {loss = 0.1, …}: newest values, replacing earlier ones
---@param final boolean? whether this was the last; by default when target is reached
function Bar:update(current, values, final)
  if self.finished then return end
  if values then take_values(self, values) end
  if final == nil then final = self.target ~= nil and current >= self.target end
  local now = self.clock()
  self.current, self.finished = current, final
  if self.verbose > 0 and self.mode ~= "off"
    and (final or now - self.last_draw >= self.interval) then
    if self.mode == "json" or self.verbose == 1 then
      draws[self.mode](self, current, now, final)
      self.last_draw = now
    elseif final then
      draw_epoch_line(self, current, now)
    end
  end
  if not self.first_count and current > 0 then self.first_count, self.first_time = current, now end
end

---Says that n more steps are done.
---@param n integer
---@param values table?
function Bar:add(n, values)
  self:update((self.current or 0) + n, values)
end

---Ends the bar where it is, if it has not ended: for lengths that were unknown, and for early
---stops.
---@param values table?
function Bar:finish(values)
  self.target = self.target or self.current
  self:update(self.current or 0, values, true)
end

progress.Bar = Bar

---@param options table see Bar
---@return ProgressBar
function progress.new(options)
  return Bar(options)
end

---The line before an epoch's bar; nil for a single epoch, and for verbose = 0.
---@param epoch integer from 1
---@param epochs integer
---@param verbose any
---@return string?
function progress.epoch_header(epoch, epochs, verbose)
  if progress.verbosity(verbose) == 0 or epochs <= 1 then return nil end
  return string.format("Epoch %d/%d", epoch, epochs)
end

---The sentence at the start of fit that explains a step.
---@param batch_size integer samples of a micro-batch
---@param replicas integer
---@param accumulation integer steps to a weight update
---@return string
function progress.step_sentence(batch_size, replicas, accumulation)
  local samples = batch_size * replicas
  local step = replicas == 1 and "One step is one micro-batch of " .. counted(batch_size, "sample")
    or string.format("One step is one micro-batch of %s on each of %d replicas (%s)",
      counted(batch_size, "sample"), replicas,
      counted(samples, "sample"))
  local update = accumulation == 1 and "every step"
    or string.format("every %d steps (%s)", accumulation, counted(samples * accumulation, "sample"))
  return step .. "; the weights are updated after " .. update .. "."
end

return progress
