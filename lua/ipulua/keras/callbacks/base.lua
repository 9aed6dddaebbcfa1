-- The base of callbacks, with the hooks that fit, evaluate and predict call. Also History,
-- functions as a callback, and lists of callbacks.

local about = require "ipulua.base.parts.about"
local blame = require "ipulua.base.blame"
local args = require "ipulua.base.args"
local class = require "ipulua.base.class"
local core = require "ipulua.core"
local log = require "ipulua.base.log"
local nearest = require "ipulua.nearest"
local together = require "ipulua.keras.base.together"

local callbacks = {}

---@class Callback: Class
---@field model Model
---@field params table
local Callback = class.new("Callback")
callbacks.Callback = Callback

local events <const> = {
  "on_train_begin", "on_train_end", "on_test_begin", "on_test_end", "on_predict_begin",
  "on_predict_end",
  "on_epoch_begin", "on_epoch_end", "on_train_batch_begin", "on_train_batch_end",
  "on_test_batch_begin", "on_test_batch_end",
  "on_predict_batch_begin", "on_predict_batch_end",
}
for _, event in ipairs(events) do Callback[event] = function() end end

-- Keras' older names of two hooks. The newer ones call them, unless a class has its own.
local older <const> = {on_train_batch_begin = "on_batch_begin", on_train_batch_end = "on_batch_end"}
for event, name in pairs(older) do
  Callback[name] = function() end
  Callback[event] = function(self, ...) self[name](self, ...) end
end

function Callback:init() end -- for subclasses, whose init may call it

function Callback:set_model(model) self.model = model end
function Callback:set_params(params) self.params = params end

---The state of the callback that a resumed training needs: plain values and tensors. A subclass may
---override it.
---@return any
function Callback:get_state() return nil end -- luacheck: ignore 212

---Takes back the result of get_state.
---@param state any
function Callback:set_state(state) end -- luacheck: ignore 212

---Steps that a callback has seen as a whole. Asynchronous callbacks are called once for each
---replica. They count a step with the last one, whose logs are also the logs of an epoch.
---@param info {step_first: integer, step_last: integer, replica: integer?, replicas: integer?}
---@return integer
function callbacks._new_steps(info)
  if info.replica and info.replica + 1 < info.replicas then return 0 end
  return info.step_last - info.step_first + 1
end

-- Fields as a state.
local function keep_fields(c, names)
  function c:get_state()
    local state = {}
    for _, name in ipairs(names) do state[name] = self[name] end
    return core.plain(state)
  end
  function c:set_state(state)
    args.check_value(self.__name .. ".set_state", {"state", "table"}, state)
    for _, name in ipairs(names) do self[name] = state[name] end
  end
end
callbacks._keep_fields = keep_fields

---Collects the numbers that training reported.
---@class History: Callback
---@field history table<string, number[]>
---@field epoch integer[]
---@field params table
local History = Callback:extend("History")
callbacks.History = History

function History:init() self:on_train_begin() end

function History:on_train_begin()
  self.history, self.epoch = core.plain{}, core.plain{}
end

function History:__tostring() return "History" .. tostring(self.history) end

function History:on_epoch_end(epoch, logs)
  self.epoch[#self.epoch + 1] = epoch
  for name, value in pairs(logs) do
    self.history[name] = self.history[name] or core.plain{}
    local list = self.history[name]
    list[#list + 1] = value
  end
end

---Curves over the epochs: the loss, then each metric, the validation's beside it; in letters on
---standard output, or into an .svg. Returns the drawing.
---Errors: another ending, a history without epochs: `history:plot("run.gif")`
---@param to_file string?
---@return string
function History:plot(to_file)
  return require "ipulua.keras.callbacks.curves".plot(self, to_file)
end

keep_fields(History, {"history", "epoch"})

-- Keras' positional ones, then the others. on_batch_begin is another name of on_train_batch_begin,
-- called before it.
local lambda_events <const> = {
  "on_epoch_begin", "on_epoch_end", "on_batch_begin", "on_batch_end", "on_train_begin",
  "on_train_end",
}
local lambda_rows <const>, is_row = {}, {}
for _, list in ipairs{lambda_events, events} do
  for _, event in ipairs(list) do
    if not is_row[event] then
      lambda_rows[#lambda_rows + 1] = {event, "callable", optional = true}
    end
    is_row[event] = true
  end
end

---Functions as a callback: {on_epoch_end = function(epoch, logs) … end}.
---@class LambdaCallback: Callback
local LambdaCallback = Callback:extend("LambdaCallback")
callbacks.LambdaCallback = LambdaCallback

LambdaCallback.argument_rows = lambda_rows

function LambdaCallback:init(...)
  local given = args.check("LambdaCallback", lambda_rows, ...)
  for _, row in ipairs(lambda_rows) do
    local event = row[1]
    local f, name = given[event], (event:gsub("^on_batch", "on_train_batch"))
    local before = rawget(self, name) -- on_batch_end of on_train_batch_end
    if f then
      self[name] = function(callback, ...)
        if before then before(callback, ...) end
        return f(...)
      end
    end
  end
end

-- ------------------------------------------------ lists of them

---@class CallbackList
local CallbackList = class.new("CallbackList")
callbacks.CallbackList = CallbackList

-- A hint for an entry that is no callback.
local function remedy(entry)
  if class.is_class(entry) then return string.format("; a class is called: %s()", entry.__name) end
  if type(entry) == "function" or args.is_plain(entry) then
    return "; functions become one by keras.callbacks.LambdaCallback{on_epoch_end = f}"
  end
  return ""
end

local function refuse_entry(i, entry)
  local which = math.type(i) == "integer" and tostring(i) or "'" .. tostring(i) .. "'"
  local got = class.is_class(entry) and "the class " .. entry.__name or args.describe(entry)
  blame.error(string.format("callbacks: entry %s is no callback, got %s%s", which, got,
    remedy(entry)), "type")
end

local told = setmetatable({}, {__mode = "k"})

-- A hook whose name is misspelt would never be called. It is said once for each class.
local function tell_of_hooks(c)
  if told[c] then return end
  told[c] = true
  for name in next, c do
    local near = type(name) == "string" and name:find("^on_") and Callback[name] == nil
      and nearest.find(name, events)
    if near then
      log.warn("callback '%s': '%s' is no hook, so nothing calls it; did you mean '%s'?",
        c.__name, name, near)
    end
  end
end

---@param list any[]? callbacks
---@param model Model
---@param params table
function CallbackList:init(list, model, params)
  self.list, self.model = {}, model
  if class.is_a(list, Callback) or class.is_a(list, CallbackList) then list = {list} end
  if list ~= nil and not args.is_plain(list) then
    blame.error("callbacks: expected a callback or a list of them, got "
      .. args.describe(list), "type")
  end
  local places = {} -- there may be gaps: callbacks = {wanted and one or nil, another}
  for i, entry in pairs(list or {}) do
    if math.type(i) ~= "integer"
      or not (class.is_a(entry, Callback) or class.is_a(entry, CallbackList)) then
      refuse_entry(i, entry)
    end
    places[#places + 1] = i
  end
  table.sort(places)
  for _, i in ipairs(places) do
    local entry = list[i]
    for _, callback in ipairs(class.is_a(entry, CallbackList) and entry.list or {entry}) do
      self:add(callback, model, params)
    end
  end
end

-- Callbacks with runs_last see the effects of all others.
function CallbackList:add(callback, model, params)
  tell_of_hooks(class.of(callback))
  local at = #self.list + 1
  while not callback.runs_last and at > 1 and self.list[at - 1].runs_last do at = at - 1 end
  table.insert(self.list, at, callback)
  callback:set_model(model)
  callback:set_params(params)
end

-- Of several instances the first one writes files.
local function is_called(self, callback)
  return not callback.writes_files or together.is_speaker(self.model)
end

for _, event in ipairs(events) do
  CallbackList[event] = function(self, ...)
    for _, callback in ipairs(self.list) do
      if is_called(self, callback) then callback[event](callback, ...) end
    end
  end
end

---The run is over, well or by an error: callbacks close their files.
function CallbackList:leave()
  for _, callback in ipairs(self.list) do
    if callback._leave then callback:_leave() end
  end
end

---Whether some callback has a hook of its own for an event.
---@param event string
function CallbackList:listens(event)
  local name <const> = older[event] or event
  for _, callback in ipairs(self.list) do
    if callback[event] ~= Callback[event] or callback[name] ~= Callback[name] then return true end
  end
  return false
end

about.say("callbacks", {
  {"Callback", text = "The base of all callbacks; extend it with any of "
    .. "`on_{train,test,predict}_{begin,end}(logs)`, `on_epoch_{begin,end}(epoch, logs)`, "
    .. "`on_{train,test,predict}_batch_{begin,end}(batch, logs, info)`, "
    .. "`on_batch_{begin,end}` (of fit alone); at a batch's end info "
    .. "holds step_first, step_last, samples, and in training updates. Of predict, a batch's logs "
    .. "hold its `outputs`. `self.model`, `self.params`; `get_state` and `set_state(state)` are "
    .. "for BackupAndRestore."},
  {"History", text = "Collects the numbers that training reported: `history`, a list for "
    .. "each number, and `epoch`. `history:plot()` draws curves in letters on standard output, "
    .. "`history:plot(\"run.svg\")` into a file."},
  {"CallbackList", text = "Several callbacks as one, made of a list of them, as fit makes "
    .. "one of its list."},
})

return callbacks
