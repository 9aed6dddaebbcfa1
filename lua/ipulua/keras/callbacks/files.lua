-- Callbacks that write files: checkpoints of the model, and logs as CSV.

local args = require "ipulua.base.args"
local blame = require "ipulua.base.blame"
local locale = require "ipulua.base.locale"
local monitors = require "ipulua.keras.callbacks.monitors"._monitors
local nest = require "ipulua.base.nest"
local base = require "ipulua.keras.callbacks.base"
local core = require "ipulua.core"
local log = require "ipulua.base.log"
local Callback <const> = base.Callback

local files = {}

-- ------------------------------------------------ ModelCheckpoint

local function path_check(path)
  if not path:find("%.safetensors$") then return "must end in .safetensors, got " .. path end
end

local frequency_row <const> = {"save_freq", {"string", "integer"}, "epoch", check = function(x)
  if type(x) == "string" and x ~= "epoch" or type(x) == "number" and x < 1 then
    return 'is "epoch" or a positive number of steps, got ' .. x
  end
end, of = "\"epoch\" or integer ≥ 1", says = "steps"}

local checkpoint_rows <const> = {
  {"filepath", "string", check = path_check}, {"monitor", "string", "val_loss"},
  {"verbose", "integer", 0},
  {"save_best_only", "boolean", false}, {"save_weights_only", "boolean", false},
  {"mode", "string", "auto", choices = {"auto", "min", "max"}}, frequency_row,
  {"initial_value_threshold", "number", optional = true},
}

---Saves the model (or its weights) at each epoch's end, or each save_freq steps; save_best_only:
---when the metric is the best so far. The path may hold {epoch:02d} and metrics such as
---{val_loss:.2f}; its folder is made.
---@class ModelCheckpoint: Callback
local ModelCheckpoint = Callback:extend("ModelCheckpoint")
files.ModelCheckpoint = ModelCheckpoint

ModelCheckpoint.argument_rows = checkpoint_rows

function ModelCheckpoint:init(...)
  for key, value in pairs(args.check("ModelCheckpoint", checkpoint_rows, ...)) do
    self[key] = value
  end
  self.is_max = monitors.is_max(self.mode, self.monitor)
  self.best = self.initial_value_threshold or (self.is_max and -math.huge or math.huge)
  self.steps_since_save = 0
end

base._keep_fields(ModelCheckpoint, {"best", "steps_since_save", "epoch"})

-- "{epoch:02d}" and the like, as Python's format writes them.
local function fill(path, values)
  return (path:gsub("{([%w_]+):?([^}]*)}", function(name, format)
    local value = values[name]
    if value == nil then
      blame.error(string.format("ModelCheckpoint: the path '%s' names '%s', which the logs don't "
        .. "have", path, name), "value")
    end
    if format == "" then return tostring(value) end
    if not format:find("^%-?0?%d*%.?%d*[dfeg]$") then
      blame.error(string.format("ModelCheckpoint: '{%s:%s}' has an unknown format", name, format),
        "value")
    end
    if format:find("d$") then value = math.tointeger(value) or value // 1 | 0 end
    return string.format("%" .. format, value)
  end))
end

function ModelCheckpoint:save(epoch, logs, batch)
  if self.save_best_only then
    local current = monitors.value(self, logs)
    if not current then return end
    local better = self.is_max and current > self.best or not self.is_max and current < self.best
    if not better then
      monitors.say(self, "Epoch %d: %s did not improve from %.5f", epoch + 1,
        self.monitor, self.best)
      return
    end
    monitors.say(self, "Epoch %d: %s improved from %.5f to %.5f", epoch + 1, self.monitor,
      self.best, current)
    self.best = current
  end
  local values = {epoch = epoch + 1, batch = batch and batch + 1}
  for name, value in pairs(logs) do values[name] = value end
  local path = fill(self.filepath, values)
  monitors.say(self, "Epoch %d: saving model to %s", epoch + 1, path)
  core.make_folder(path:match("^(.+)/") or ".")
  if self.save_weights_only then self.model:save_weights(path) else self.model:save(path) end
end

function ModelCheckpoint:on_epoch_begin(epoch) self.epoch = epoch end

function ModelCheckpoint:on_train_batch_end(batch, logs, info)
  if self.save_freq == "epoch" then return end
  local count = base._new_steps(info)
  self.steps_since_save = self.steps_since_save + count
  if count == 0 or self.steps_since_save < self.save_freq then return end
  self.steps_since_save = self.steps_since_save % self.save_freq
  self:save(self.epoch or 0, logs, batch)
end

function ModelCheckpoint:on_epoch_end(epoch, logs)
  if self.save_freq == "epoch" then self:save(epoch, logs) end
end

-- ------------------------------------------------ CSVLogger

local separator_row <const> = {"separator", "string", ",", of = "one character",
  check = function(text)
    if utf8.len(text) ~= 1 or text:find '["\r\n]' then
      return "must be one character, and no quote or line break"
    end
  end}
local csv_rows <const> = {{"filename", "string"}, separator_row, {"append", "boolean", false}}

---Writes each epoch's metrics as a line of a CSV file.
---@class CSVLogger: Callback
local CSVLogger = Callback:extend("CSVLogger")
files.CSVLogger = CSVLogger
CSVLogger.writes_files = true

CSVLogger.argument_rows = csv_rows

function CSVLogger:init(...)
  for key, value in pairs(args.check("CSVLogger", csv_rows, ...)) do self[key] = value end
end

local function open(self, mode)
  local file, problem = io.open(self.filename, mode)
  if not file then blame.error("CSVLogger: " .. problem, "not_found") end
  return file
end

-- If a log can't be written, that ends the training, as for a checkpoint. Otherwise it would be
-- noticed only at the end.
local function put(self, ...)
  local done, problem = self.file:write(...)
  if done then done, problem = self.file:flush() end
  if done then return end
  self.file:close()
  self.file = nil
  blame.error(string.format("CSVLogger: %s: cannot write: %s", self.filename, problem), "runtime")
end

-- Can it be written? Opened to append, nothing is lost yet: a resumed training goes on with the
-- file.
function CSVLogger:on_train_begin()
  open(self, "ab"):close()
  self.file, self.wants_header, self.keys = nil, true, self.append and self.keys or nil
  self.told = false
end

local function begin(self)
  if self.append then
    local existing = open(self, "rb")
    self.wants_header = existing:read(1) == nil
    existing:close()
  end
  self.file = open(self, self.append and "ab" or "wb")
end

function CSVLogger:get_state()
  return core.plain{keys = self.keys, wants_header = self.wants_header,
    bytes = self.file and self.file:seek("cur", 0) or nil}
end

-- Lines after the interrupted run's last backup are written again.
function CSVLogger:set_state(state)
  args.check_value("CSVLogger.set_state", {"state", "table"}, state)
  self.keys, self.wants_header = state.keys, state.wants_header
  if not state.bytes then return end
  local file = open(self, "rb")
  local text = file:read(state.bytes) or ""
  file:close()
  core.replace_file(self.filename, text)
  self.file = open(self, "ab")
end

local function plain(value)
  return type(value) == "number" and locale.plain_number(tostring(value)) or tostring(value)
end

local function field(self, value)
  if value == nil then return "NA" end
  if type(value) == "table" then
    local parts = {}
    for i, each in ipairs(value) do parts[i] = plain(each) end
    return '"[' .. table.concat(parts, ", ") .. ']"'
  end
  local text = plain(value)
  if text:find('["\n]') or text:find(self.separator, 1, true) then
    return '"' .. text:gsub('"', '""') .. '"'
  end
  return text
end

-- As in Keras, the columns are the first epoch's. For later ones, such as values of a validation
-- that not every epoch has, there is one warning.
local function tell_left_out(self, logs)
  local known, names = {}, {}
  for _, name in ipairs(self.keys) do known[name] = true end
  for _, name in ipairs(nest.keys(logs)) do
    if not known[name] then names[#names + 1] = name end
  end
  if #names == 0 or self.told then return end
  self.told = true
  log.warn("CSVLogger: '%s' has the columns of the first epoch, without %s", self.filename,
    table.concat(names, ", "))
end

function CSVLogger:on_epoch_end(epoch, logs)
  if not self.file then begin(self) end
  if not self.keys then
    self.keys = nest.keys(logs)
  end
  tell_left_out(self, logs)
  if self.wants_header then
    local names = {"epoch"}
    for i, name in ipairs(self.keys) do names[i + 1] = field(self, name) end
    put(self, table.concat(names, self.separator), "\n")
    self.wants_header = false
  end
  local row = {tostring(epoch)}
  for i, name in ipairs(self.keys) do row[i + 1] = field(self, logs[name]) end
  put(self, table.concat(row, self.separator), "\n")
end

function CSVLogger:_leave()
  if self.file then self.file:close() end
  self.file = nil
end
CSVLogger.on_train_end = CSVLogger._leave

return files
