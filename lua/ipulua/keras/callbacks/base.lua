-- What a callback is: hooks that fit, evaluate and predict call; History; functions as a callback; lists of callbacks.

local blame = require "ipulua.blame"
local args = require "ipulua.args"
local class = require "ipulua.class"

local callbacks = {}

---@class Callback: Class
---@field model Model
---@field params table
local Callback = class.new("Callback")
callbacks.Callback = Callback

local events <const> = {
  "on_train_begin", "on_train_end", "on_test_begin", "on_test_end", "on_predict_begin", "on_predict_end",
  "on_epoch_begin", "on_epoch_end", "on_train_batch_begin", "on_train_batch_end", "on_test_batch_begin", "on_test_batch_end",
  "on_predict_batch_begin", "on_predict_batch_end",
}
for _, event in ipairs(events) do Callback[event] = function() end end

function Callback:set_model(model) self.model = model end
function Callback:set_params(params) self.params = params end

---Collects what training reported.
---@class History: Callback
---@field history table<string, number[]>
---@field epoch integer[]
---@field params table
local History = Callback:extend("History")
callbacks.History = History

function History:init()
  self.history, self.epoch = {}, {}
end

function History:on_train_begin()
  self.history, self.epoch = {}, {}
end

function History:on_epoch_end(epoch, logs)
  self.epoch[#self.epoch + 1] = epoch
  for name, value in pairs(logs) do
    self.history[name] = self.history[name] or {}
    local list = self.history[name]
    list[#list + 1] = value
  end
end

local lambda_events <const> = {
  "on_epoch_begin", "on_epoch_end", "on_batch_begin", "on_batch_end", "on_train_begin", "on_train_end",
  "on_train_batch_begin", "on_train_batch_end",
}
local lambda_rows <const> = {}
for i, event in ipairs(lambda_events) do lambda_rows[i] = {event, "callable", optional = true} end

---Functions as a callback: {on_epoch_end = function(epoch, logs) … end}.
---@class LambdaCallback: Callback
local LambdaCallback = Callback:extend("LambdaCallback")
callbacks.LambdaCallback = LambdaCallback

function LambdaCallback:init(...)
  local given = args.check("LambdaCallback", lambda_rows, ...)
  for event, f in pairs(given) do
    local name = event:gsub("^on_batch", "on_train_batch")
    self[name] = function(_, ...) return f(...) end
  end
end

-- ------------------------------------------------ lists of them

---@class CallbackList
local CallbackList = class.new("CallbackList")
callbacks.CallbackList = CallbackList

---@param list any[]? callbacks
---@param model Model
---@param params table
function CallbackList:init(list, model, params)
  self.list = {}
  if class.is_a(list, Callback) then list = {list} end
  for i, callback in ipairs(list or {}) do
    if not class.is_a(callback, Callback) then
      blame.error(string.format("callbacks: entry %d is no callback, got %s", i, args.describe(callback)), "type")
    end
    self:add(callback, model, params)
  end
end

function CallbackList:add(callback, model, params)
  self.list[#self.list + 1] = callback
  callback:set_model(model)
  callback:set_params(params)
end

for _, event in ipairs(events) do
  CallbackList[event] = function(self, ...)
    for _, callback in ipairs(self.list) do callback[event](callback, ...) end
  end
end

---Whether some callback has a hook of its own for an event.
---@param event string
function CallbackList:listens(event)
  for _, callback in ipairs(self.list) do
    if callback[event] ~= Callback[event] then return true end
  end
  return false
end

return callbacks
