-- What compile was given, brought into the shape of a model's outputs when these are known: a loss and metrics for
-- each output, and the running means that training reports.

local args = require "ipulua.args"
local blame = require "ipulua.blame"
local context = require "ipulua.keras.context"
local core = require "ipulua.core"
local counted = require "ipulua.counted"
local custom_objects = require "ipulua.keras.custom_objects"
local ipu = require "ipulua"
local losses = require "ipulua.keras.losses"
local metrics = require "ipulua.keras.metrics"
local nest = require "ipulua.keras.nest"
local tracing = require "ipulua.tracing"

local compiled = {}

-- One entry for each output, from one for all, a list, or a table by output name (or key of the outputs).
local function spread(given, what, outputs, broadcast)
  local count = #outputs.names
  local list = {}
  if given == nil then return list end
  if args.is_plain(given) and given.class_name == nil and next(given) ~= nil then
    if #given > 0 then
      if #given ~= count then
        blame.error(string.format("compile: '%s' has %s for %s", what, counted(#given, "entry", "entries"), counted(count, "output")), "value")
      end
      return table.move(given, 1, count, 1, list)
    end
    for name, value in pairs(given) do
      local at
      for i = 1, count do
        if outputs.names[i] == name or outputs.keys[i] == name then at = i end
      end
      if not at then
        blame.error(string.format("compile: '%s' names the output '%s'; the outputs are %s", what, tostring(name),
          table.concat(outputs.names, ", ")), "value")
      end
      list[at] = value
    end
    return list
  end
  for i = 1, broadcast and count or 1 do list[i] = given end
  return list
end

-- A list of metrics for each output. A flat list is for every output.
local function spread_metrics(given, what, outputs)
  if given == nil then return {} end
  if not args.is_plain(given) then given = {given} end
  local nested = #given == 0
  for _, each in ipairs(given) do nested = nested or args.is_plain(each) and each.class_name == nil end
  local list
  if nested then
    list = spread(given, what, outputs, false)
  else
    list = {}
    for i = 1, #outputs.names do list[i] = given end
  end
  for i, each in pairs(list) do
    if not args.is_plain(each) then list[i] = {each} end
  end
  return list
end

---@class Compiled
---@field named table<string, any> own classes and functions by the names that compile may have been given
---@field loss_metric Metric
---@field output_losses Metric[]
---@field metrics table[] {metric =, output =, weighted =}
local Compiled = {}
Compiled.__index = Compiled

---@param given {loss: any, loss_weights: any, metrics: any, weighted_metrics: any, custom_objects: table?}
---@return Compiled
function compiled.new(given)
  local self = setmetatable({given = given, named = custom_objects.current()}, Compiled)
  self.loss_metric = metrics.Mean{name = "loss"}
  self.output_losses, self.metrics = {}, {}
  -- what names a loss or a metric wrongly is told at once
  for _, loss in ipairs(nest.flatten(args.is_plain(given.loss) and not given.loss.class_name and given.loss or {given.loss})) do
    if type(loss) == "string" then losses.get(loss) end
  end
  for _, metric in ipairs(nest.flatten{given.metrics, given.weighted_metrics}) do
    if type(metric) == "string" then metrics.get(metric, {output_shape = {1, 1}}) end
  end
  return self
end

local function shape_of(x) return x ~= nil and x.shape or nil end

local function add_metrics(self, given, weighted, outputs, y_true, y_pred)
  local lists = spread_metrics(given, weighted and "weighted_metrics" or "metrics", outputs)
  for i = 1, #outputs.names do
    for _, each in ipairs(lists[i] or {}) do
      local metric = metrics.get(each, {loss = self.losses[i], label_shape = shape_of(y_true[i]), output_shape = y_pred[i].shape})
      if #outputs.names > 1 and type(each) == "string" then metric.name = outputs.names[i] .. "_" .. metric.name end
      self.metrics[#self.metrics + 1] = {metric = metric, output = i, weighted = weighted}
    end
  end
end

---Brings losses and metrics into the shape of the outputs; once.
---@param outputs {names: string[], keys: any[]}
function Compiled:build(outputs, y_true, y_pred)
  if self.losses then return end
  local _ <close> = custom_objects.enter(self.named) -- names mean what they did when compile was called
  tracing.outside(function()
    local list = spread(self.given.loss, "loss", outputs, true)
    self.losses = {}
    for i = 1, #outputs.names do
      self.losses[i] = list[i] ~= nil and losses.get(list[i], self.given.custom_objects) or false
    end
    self.loss_weights = spread(self.given.loss_weights, "loss_weights", outputs, true)
    if #outputs.names > 1 then
      for i, name in ipairs(outputs.names) do
        if self.losses[i] then self.output_losses[i] = metrics.Mean{name = name .. "_loss"} end
      end
    end
    add_metrics(self, self.given.metrics, false, outputs, y_true, y_pred)
    add_metrics(self, self.given.weighted_metrics, true, outputs, y_true, y_pred)
  end)
end

-- Labels of an output whose rank is one lower than the model saw.
local function with_mask(y_pred, weight)
  local mask = context.mask(y_pred)
  if mask == nil then return weight end
  mask = ipu.cast(mask, y_pred.dtype)
  if weight == nil then return mask end
  weight = ipu.cast(weight, y_pred.dtype)
  while #weight.shape > #mask.shape and weight.shape[#weight.shape] == 1 do weight = ipu.squeeze(weight, {axis = -1}) end
  while #weight.shape < #mask.shape do weight = ipu.expand_dims(weight, -1) end
  return mask * weight
end

---The total of the outputs' losses and of further ones; updates the running means. nil where there is no loss.
---@param extra userdata[] regularization and added losses
function Compiled:loss(y_true, y_pred, weights, extra)
  local total
  local function add(value) total = total and total + ipu.cast(value, total.dtype) or value end
  local batch
  for i, loss in ipairs(self.losses) do
    local predicted = y_pred[i]
    batch = batch or predicted.shape[1] or 1
    if loss and y_true[i] ~= nil then
      local value = loss(y_true[i], predicted, with_mask(predicted, weights[i]))
      if #value.shape > 0 then value = ipu.reduce_mean(value) end
      if self.output_losses[i] then self.output_losses[i]:update_state(value, batch) end
      local weight = self.loss_weights[i]
      add(weight and weight ~= 1 and value * weight or value)
    end
  end
  for _, value in ipairs(extra) do
    if #value.shape > 0 then value = ipu.reduce_sum(value) end
    add(value)
  end
  if total then self.loss_metric:update_state(total, batch) end
  return total
end

---Updates the metrics of a batch.
function Compiled:update_metrics(y_true, y_pred, weights)
  for _, entry in ipairs(self.metrics) do
    local i = entry.output
    if y_true[i] ~= nil then
      local weight
      if entry.weighted then weight = with_mask(y_pred[i], weights[i]) else weight = with_mask(y_pred[i], nil) end
      entry.metric:update_state(y_true[i], y_pred[i], weight)
    end
  end
end

---All running values, in the order in which they are shown.
---@return Metric[]
function Compiled:all()
  local list = {self.loss_metric}
  for i = 1, #(self.losses or {}) do list[#list + 1] = self.output_losses[i] end
  for _, entry in ipairs(self.metrics) do list[#list + 1] = entry.metric end
  return list
end

---A value read from a program, as logs hold it: a number, or a nested list.
---@param value any
---@return any
function compiled.read(value)
  if core.is_variable(value) then value = value:read_value() end
  if not core.is_tensor(value) then return value end
  if value.size == 1 then return value:reshape({}):item() end
  return value:totable()
end

return compiled
