-- The arguments of compile. When a model's outputs are known, they are arranged by output: a loss
-- and metrics for each, and the running means that training reports.

local args = require "ipulua.base.args"
local blame = require "ipulua.base.blame"
local class = require "ipulua.base.class"
local context = require "ipulua.keras.base.context"
local core = require "ipulua.core"
local counted = require "ipulua.base.counted"
local custom_objects = require "ipulua.base.parts.custom_objects"
local json = require "ipulua.base.json"
local losses = require "ipulua.keras.losses"
local metrics = require "ipulua.keras.metrics"
local nest = require "ipulua.base.nest"
local ops = require "ipulua.ops"
local plain = require "ipulua.base.plain"
local tracing = require "ipulua.trace.tracing"

local compiled = {}

-- nil, false and JSON null stand for none, in a list and by a name.
local function is_none(given) return not given or rawequal(given, json.null) end

-- Whether it is one loss or metric, not a structure of such: a name, a function, an object, or its
-- description.
local function is_one(given) return not args.is_plain(given) or given.class_name ~= nil end

local function refuse_name(who, name, outputs)
  blame.error(string.format("%s names the output '%s'; the outputs are %s", who, tostring(name),
    table.concat(outputs.names, ", ")), "value")
end

---One entry for each output, from a list, or a table by output name (or key of the outputs).
---@param given table
---@param who string such as "compile: 'loss'"
---@param outputs {names: string[], keys: any[]}
---@return table
function compiled.by_output(given, who, outputs)
  local count, list = #outputs.names, {}
  for _, key in ipairs(nest.keys(given)) do
    local at = math.type(key) == "integer" and key or nil
    for i = 1, at and 0 or count do
      if outputs.names[i] == key or outputs.keys[i] == key then at = i end
    end
    if not at then refuse_name(who, key, outputs) end
    if at < 1 or at > count then
      blame.error(string.format("%s has %s for %s", who, counted(#given, "entry", "entries"),
        counted(count, "output")), "value")
    end
    if not is_none(given[key]) then list[at] = given[key] end
  end
  return list
end

-- The same, or one for all.
local function spread(given, what, outputs)
  local count = #outputs.names
  if is_none(given) then return {} end
  if not is_one(given) and next(given) ~= nil then
    if #given > 0 and #given ~= count then
      blame.error(string.format("compile: '%s' has %s for %s%s", what,
        counted(#given, "entry", "entries"), counted(count, "output"),
        #given < count and "; false stands for an output that has none" or ""), "value")
    end
    return compiled.by_output(given, "compile: '" .. what .. "'", outputs)
  end
  local list = {}
  for i = 1, count do list[i] = given end
  return list
end

-- A list of metrics for each output. A flat list is for every output.
local function spread_metrics(given, what, outputs)
  if is_none(given) then return {} end
  if is_one(given) then given = {given} end
  local nested = #given == 0
  for _, each in pairs(given) do nested = nested or not is_one(each) end
  local list = {}
  if nested then
    list = spread(given, what, outputs)
  else
    for i = 1, #outputs.names do list[i] = given end
  end
  for i, each in pairs(list) do
    if is_one(each) then each = {each} end
    list[i] = {}
    for _, key in ipairs(nest.keys(each)) do
      if not is_none(each[key]) then table.insert(list[i], each[key]) end
    end
  end
  return list
end

-- The names among losses or metrics; those inside of descriptions are none.
local function each_name(given, visit, depth)
  if type(given) == "string" then visit(given) end
  if is_one(given) then return end
  depth = plain.deeper(depth or 0)
  for _, key in ipairs(nest.keys(given)) do each_name(given[key], visit, depth) end
end

---@class Compiled
---@field named table<string, any> own classes and functions by the names that compile may get
---@field loss_metric Metric
---@field output_losses Metric[]
---@field metrics table[] {metric =, output =, weighted =}
local Compiled = {}
Compiled.__index = Compiled

---@param given table {loss, loss_weights, metrics, weighted_metrics, custom_objects}
---@return Compiled
function compiled.new(given)
  local self = setmetatable({given = given, named = custom_objects.current()}, Compiled)
  self.loss_metric = metrics.Mean{name = "loss"}
  self.output_losses, self.metrics = {}, {}
  -- a wrong name of a loss or a metric is an error at once
  each_name(given.loss, losses.get)
  for _, list in ipairs{given.metrics or {}, given.weighted_metrics or {}} do
    each_name(list, function(name) metrics.get(name, {output_shape = {1, 1}}) end)
  end
  return self
end

local function shape_of(x) return x ~= nil and x.shape or nil end

-- A metric adds up one output's values: an object that is given for several is copied for each but
-- the first. Its name is the given one.
local function of_its_own(self, metric)
  for _, entry in ipairs(self.metrics) do
    if rawequal(entry.metric, metric) then
      local copy = class.of(metric):from_config(metric:get_config())
      return copy, entry.given_name
    end
  end
  return metric, metric.name
end

-- A name that no other value has. With several outputs it begins with the output's name. If a
-- metric is there with weights and without, the name of the weighted one says so.
local function name_metric(self, metric, given_name, outputs, i, weighted)
  local taken, base = {}, given_name
  for _, other in ipairs(self:all()) do taken[other.name] = true end
  local prefix = outputs.names[i] .. "_"
  local is_prefixed = #outputs.names > 1 and base:sub(1, #prefix) ~= prefix
  if is_prefixed then base = prefix .. base end
  if weighted and taken[base] then
    base = (is_prefixed and prefix or "") .. "weighted_" .. given_name
  end
  local name, count = base, 0
  while taken[name] do
    count = count + 1
    name = base .. "_" .. count
  end
  metric.name = name
end

local function add_metrics(self, given, weighted, outputs, y_true, y_pred)
  local lists = spread_metrics(given, weighted and "weighted_metrics" or "metrics", outputs)
  for i = 1, #outputs.names do
    for _, each in ipairs(lists[i] or {}) do
      local metric, name = of_its_own(self, metrics.get(each,
        {loss = self.losses[i], label_shape = shape_of(y_true[i]), output_shape = y_pred[i].shape}))
      name_metric(self, metric, name, outputs, i, weighted)
      metric:reset_state() -- an object may have seen other values before
      self.metrics[#self.metrics + 1] = {metric = metric, given_name = name, output = i,
        weighted = weighted}
    end
  end
end

---The loss of each output; false: it has none.
---@param outputs {names: string[], keys: any[]}
---@return (Loss|false)[]
function Compiled:losses_of(outputs)
  local _ <close> = custom_objects.enter(self.named)
  local given, list = spread(self.given.loss, "loss", outputs), {}
  for i = 1, #outputs.names do
    list[i] = given[i] ~= nil and losses.get(given[i], self.given.custom_objects) or false
  end
  return list
end

---Brings losses and metrics into the shape of the outputs; once. Where one of them doesn't fit, all
---is as before.
---@param outputs {names: string[], keys: any[]}
function Compiled:build(outputs, y_true, y_pred)
  if self.losses then return end
  local made = setmetatable({given = self.given, loss_metric = self.loss_metric,
    output_losses = {}, metrics = {}}, Compiled)
  -- names have the meaning that they had when compile was called
  local _ <close> = custom_objects.enter(self.named)
  tracing.outside(function()
    made.losses = self:losses_of(outputs)
    made.loss_weights = spread(self.given.loss_weights, "loss_weights", outputs)
    if #outputs.names > 1 then
      for i, name in ipairs(outputs.names) do
        if made.losses[i] then made.output_losses[i] = metrics.Mean{name = name .. "_loss"} end
      end
    end
    add_metrics(made, self.given.metrics, false, outputs, y_true, y_pred)
    add_metrics(made, self.given.weighted_metrics, true, outputs, y_true, y_pred)
  end)
  for key, value in pairs(made) do self[key] = value end
end

-- Labels of an output whose rank is one lower than the model saw.
local function with_mask(y_pred, weight)
  local mask = context.mask(y_pred)
  if mask == nil then return weight end
  mask = ops.cast(mask, y_pred.dtype)
  if weight == nil then return mask end
  weight = ops.cast(weight, y_pred.dtype)
  while #weight.shape > #mask.shape and weight.shape[#weight.shape] == 1 do
    weight = ops.squeeze(weight, {axis = -1})
  end
  while #weight.shape < #mask.shape do weight = ops.expand_dims(weight, -1) end
  return mask * weight
end

---The total of the outputs' losses and of further ones; updates the running means. nil if there is
---no loss.
---@param extra userdata[] regularization and added losses
function Compiled:loss(y_true, y_pred, weights, extra)
  local total
  local function add(value)
    if type(value) == "number" then value = core.tensor(value, "float32") end
    if not total then
      total = value
    elseif total.dtype == value.dtype then
      total = total + value
    else -- of a half loss and float32 penalties
      total = ops.cast(total, "float32") + ops.cast(value, "float32")
    end
  end
  local batch
  for i, loss in ipairs(self.losses) do
    local predicted = y_pred[i]
    batch = batch or predicted.shape[1] or 1
    if loss and y_true[i] ~= nil then
      local value = loss(y_true[i], predicted, with_mask(predicted, weights[i]))
      if #value.shape > 0 then value = ops.reduce_mean(value) end
      if self.output_losses[i] then self.output_losses[i]:update_state(value, batch) end
      local weight = self.loss_weights[i]
      add(weight and weight ~= 1 and value * weight or value)
    end
  end
  for _, value in ipairs(extra) do
    if type(value) ~= "number" and #value.shape > 0 then value = ops.reduce_sum(value) end
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
      if entry.weighted then
        weight = with_mask(y_pred[i], weights[i])
      else
        weight = with_mask(y_pred[i], nil)
      end
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

---The values of a metric, by name: itself, or the values of a table of several.
---@param metric Metric
---@return {[1]: string, [2]: any}[]
function compiled.values(metric)
  local value = metric:result()
  if not args.is_plain(value) then return {{metric.name, value}} end
  local list = {}
  for i, key in ipairs(nest.keys(value)) do list[i] = {tostring(key), value[key]} end
  return list
end

---The values of all metrics of a model, in their order.
---@param model Model
---@return {[1]: string, [2]: any}[]
function compiled.all_values(model)
  local list = {}
  for _, metric in ipairs(model.metrics) do
    local own = compiled.values(metric)
    table.move(own, 1, #own, #list + 1, list)
  end
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
