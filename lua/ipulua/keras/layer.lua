-- Layer: what holds weights and maps tensors to tensors. Own layers: Layer:extend("MyLayer") with
-- `build(input_shape)`, which makes weights, and `call(x, {training =, mask =})`.
--
-- Sublayers and variables are found in the fields of a layer, in the order in which the fields were first
-- assigned; lists and tables of them count too.

local args = require "ipulua.args"
local blame = require "ipulua.blame"
local class = require "ipulua.class"
local context = require "ipulua.keras.context"
local core = require "ipulua.core"
local KerasTensor = require "ipulua.keras.tensor"
local names = require "ipulua.keras.names"
local nest = require "ipulua.keras.nest"
local parts = require "ipulua.keras.parts"
local stages = require "ipulua.keras.stages"
local tracing = require "ipulua.tracing"
local variables = require "ipulua.variables"

---@class Layer: Class
---@field name string
---@field built boolean
---@field trainable boolean
---@field dtype string of the variables
---@field compute_dtype string of the arithmetic
---@field weights userdata[]
---@field trainable_weights userdata[]
---@field non_trainable_weights userdata[]
---@field trainable_variables userdata[]
---@field non_trainable_variables userdata[]
---@field variables userdata[]
---@field losses userdata[]
---@field input any KerasTensors of the only call in a functional model
---@field output any
---@overload fun(...: any): any
local Layer = class.new("Layer")

-- Arguments that every layer takes.
local base_rows <const> = {
  {"name", "string", optional = true}, {"trainable", "boolean", true}, {"dtype", "string", optional = true},
  {"input_shape", {"integers", "integer"}, optional = true}, {"batch_input_shape", "integers", optional = true},
  {"batch_size", "integer", optional = true}, {"input_dim", "integer", optional = true},
  {"activity_regularizer", "regularizer"}, {"weights", "list", optional = true},
}
Layer.argument_rows, Layer.argument_kinds = {}, {}
Layer.base_names = {}
for _, row in ipairs(base_rows) do Layer.base_names[row[1]] = true end

---A new kind of layer; see parts.declare.
---@param name string
---@param rows table[]
---@param base table?
---@return table
function Layer.declare(name, rows, base)
  local c = parts.declare(name, base or Layer, rows, base_rows)
  return c
end

do
  local c = parts.declare("Layer", Layer, {}, base_rows)
  Layer.argument_rows, Layer.argument_kinds = c.argument_rows, c.argument_kinds
end

-- ------------------------------------------------ fields

local state_key <const> = "_keys" -- names of the fields that may hold layers or variables, in order

local function holds_state(value)
  local t = type(value)
  return t == "table" or t == "userdata"
end

function Layer:__newindex(key, value)
  if key == "trainable" then
    rawset(self, "_trainable", value)
    for _, layer in ipairs(self:sublayers()) do layer.trainable = value end
    return
  end
  local setter = getmetatable(self).setters[key]
  if setter then return setter(self, value) end
  if holds_state(value) and type(key) == "string" and key:sub(1, 1) ~= "_" then
    local keys = rawget(self, state_key)
    if not keys then
      keys = {}
      rawset(self, state_key, keys)
    end
    keys[#keys + 1] = key
    if core.is_variable(value) and self.compute_dtype ~= value.dtype and self.policy and self.policy.is_mixed then
      local automatic = rawget(self, "_automatic")
      if not automatic then
        automatic = {}
        rawset(self, "_automatic", automatic)
      end
      automatic[key] = value
      return
    end
  end
  rawset(self, key, value)
end

-- Fields that are computed: name → function of the layer.
local properties = {}
Layer.properties = properties
Layer.setters = {}

function Layer.__index(self, key)
  local c = getmetatable(self)
  local value = c[key]
  if value ~= nil then return value end
  local property = c.properties[key]
  if property then return property(self) end
  local automatic = rawget(self, "_automatic")
  local variable = automatic and automatic[key]
  if variable == nil or context.depth == 0 then return variable end
  return self:in_compute_dtype(variable)
end

---A field's variable itself, where mixed precision would give its value in the compute dtype.
---@param key string
---@return userdata?
---@package
function Layer:variable(key)
  local automatic = rawget(self, "_automatic")
  return automatic and automatic[key] or rawget(self, key)
end

function Layer:__tostring()
  return "<" .. getmetatable(self).__name .. " " .. tostring(rawget(self, "name")) .. ">"
end

-- ------------------------------------------------ making

---@param value any
---@return boolean
function Layer.is_layer(value)
  return class.is_a(value, Layer)
end

local function shape_of_first(given)
  if given.batch_input_shape then return given.batch_input_shape end
  local rest = given.input_shape
  if math.type(rest) == "integer" then rest = {rest} end
  if not rest and given.input_dim then rest = {given.input_dim} end
  if not rest then return nil end
  local shape = table.move(rest, 1, #rest, 2, {given.batch_size or -1})
  return shape
end

function Layer:init(...)
  local c = class.of(self)
  local given = parts.read(self, c, ...)
  for _, row in ipairs(c.argument_rows) do
    local name = row[1]
    if not Layer.base_names[name] and given[name] ~= nil then self[name] = given[name] end
  end
  self:init_base(given)
  if self.setup then self:setup() end
end

-- Names, dtypes and flags, from arguments that were read already.
function Layer:init_base(given)
  local c = class.of(self)
  rawset(self, "name", given.name or names.unique(names.snake(c.__name)))
  rawset(self, "built", false)
  rawset(self, "_trainable", given.trainable ~= false)
  rawset(self, "activity_regularizer", given.activity_regularizer)
  rawset(self, "batch_input_shape", shape_of_first(given))
  rawset(self, "initial_weights", given.weights)
  local policy = require "ipulua.keras.mixed_precision"
  rawset(self, "policy", policy.resolve(given.dtype))
  rawset(self, "stage", stages.current())
  rawset(self, "nodes", {})
  rawset(self, "_own", {})
  rawset(self, "_losses", {})
  rawset(self, "_metrics", {})
end

-- A layer whose own `init` never called the base's.
local function ensure(self)
  if rawget(self, "_own") == nil then
    self:init_base({name = rawget(self, "name"), trainable = rawget(self, "_trainable")})
  end
end

-- ------------------------------------------------ weights

local add_weight_rows <const> = {
  {"name", "string", "weight"}, {"shape", {"integers", "integer"}, {}}, {"dtype", "dtype", optional = true},
  {"initializer", {"string", "table", "callable", "number"}, optional = true},
  {"regularizer", {"string", "table", "callable"}, optional = true}, {"trainable", "boolean", true},
  {"constraint", {"string", "table", "callable"}, optional = true},
}

local function default_initializer(dtype)
  return dtype:find("float") and "glorot_uniform" or "zeros"
end

local function initial_value(initializer, dtype, shape)
  if type(initializer) == "number" then return core.full(shape, initializer, dtype) end
  return parts.get("initializer", initializer or default_initializer(dtype))(shape, {dtype = dtype})
end

---Makes a variable of the layer; named arguments name, shape, dtype, initializer, regularizer, trainable, constraint.
---Shapes: shape
---Errors: an unknown initializer, a dtype that there is not, an extent that is not known:
---`keras.layers.Layer():add_weight{shape = {2}, initializer = "ones_"}`
---@param ... any
---@return userdata
function Layer:add_weight(...)
  ensure(self)
  local a = args.check("add_weight", add_weight_rows, ...)
  local dtype = a.dtype or self.dtype
  local shape = type(a.shape) == "table" and a.shape or {a.shape}
  for _, extent in ipairs(shape) do
    if extent < 0 then
      blame.error(string.format("%s: the weight '%s' would have an unknown extent; say the input's shape", self.name, a.name),
        "value")
    end
  end
  local prefix = table.concat(context.path, "/")
  if context.path[#context.path] ~= self.name then prefix = prefix == "" and self.name or prefix .. "/" .. self.name end
  local v = variables.make(prefix .. "/" .. a.name, dtype, shape, a.trainable,
    function() return initial_value(a.initializer, dtype, shape) end)
  v.weight_name = a.name
  v.constraint = parts.get("constraint", a.constraint)
  v.regularizer = parts.get("regularizer", a.regularizer)
  self._own[#self._own + 1] = v
  return v
end

---Variables that are no weights but last from batch to batch: what a resumed training wants back.
---@return userdata[]
---@package
function Layer:state_variables() return {} end -- luacheck: ignore 212

local function in_fields(self, visit)
  local seen = {}
  local function walk(value)
    if class.is_a(value, Layer) or core.is_variable(value) then
      visit(value)
    elseif args.is_plain(value) and not seen[value] then
      seen[value] = true
      for _, key in ipairs(nest.keys(value)) do walk(value[key]) end
    end
  end
  for _, key in ipairs(rawget(self, state_key) or {}) do walk(self:variable(key)) end
end

---Where in the fields a sublayer is: "field" or "field.2".
---@param layer Layer
---@return string?
---@package
function Layer:place_of(layer)
  local seen, found = {}, nil
  local function walk(value, path)
    if rawequal(value, layer) then
      found = found or path
    elseif args.is_plain(value) and not seen[value] then
      seen[value] = true
      for _, key in ipairs(nest.keys(value)) do walk(value[key], path .. "." .. tostring(key)) end
    end
  end
  for _, key in ipairs(rawget(self, state_key) or {}) do walk(self:variable(key), key) end
  return found
end

---Layers that this one holds, in the order of its fields.
---@return Layer[]
---@package
function Layer:sublayers()
  local list, seen = {}, {}
  in_fields(self, function(value)
    if class.is_a(value, Layer) and not seen[value] and value ~= self then
      seen[value] = true
      list[#list + 1] = value
    end
  end)
  return list
end

---Own variables, not those of sublayers.
---@return userdata[]
---@package
function Layer:own_variables()
  local list, seen = {}, {}
  local function add(v)
    local id = core.variable_identity(v)
    if not seen[id] then
      seen[id] = true
      list[#list + 1] = v
    end
  end
  for _, v in ipairs(rawget(self, "_own") or {}) do add(v) end
  in_fields(self, function(value)
    if core.is_variable(value) then add(value) end
  end)
  return list
end

local function distinct(list)
  local out, seen = {}, {}
  for _, v in ipairs(list) do
    local id = core.variable_identity(v)
    if not seen[id] then
      seen[id] = true
      out[#out + 1] = v
    end
  end
  return out
end

local function append(list, more)
  return table.move(more, 1, #more, #list + 1, list)
end

function properties.trainable(self) return rawget(self, "_trainable") ~= false end

function properties.trainable_weights(self)
  if not self.trainable then return {} end
  local list = {}
  for _, v in ipairs(self:own_variables()) do
    if v.trainable then list[#list + 1] = v end
  end
  for _, layer in ipairs(self:sublayers()) do append(list, layer.trainable_weights) end
  return distinct(list)
end

function properties.non_trainable_weights(self)
  local list, frozen = {}, not self.trainable
  if frozen then -- in the order of weights: what would be trained comes first
    for _, v in ipairs(self:own_variables()) do
      if v.trainable then list[#list + 1] = v end
    end
  end
  for _, v in ipairs(self:own_variables()) do
    if not v.trainable then list[#list + 1] = v end
  end
  for _, layer in ipairs(self:sublayers()) do
    append(list, frozen and layer.weights or layer.non_trainable_weights)
  end
  return distinct(list)
end

function properties.weights(self)
  return distinct(append(self.trainable_weights, self.non_trainable_weights))
end

properties.trainable_variables = properties.trainable_weights
properties.non_trainable_variables = properties.non_trainable_weights
function properties.variables(self) return self.weights end

function properties.dtype(self) return rawget(self, "policy") and self.policy.variable_dtype or "float32" end
function properties.compute_dtype(self) return rawget(self, "policy") and self.policy.compute_dtype or "float32" end

---The values of the weights.
---Shapes: those of the weights
---@return userdata[] tensors
function Layer:get_weights()
  local list = {}
  for i, v in ipairs(self.weights) do list[i] = v:read_value() end
  return list
end

local function same_shape(a, b)
  if #a ~= #b then return false end
  for i = 1, #a do
    if a[i] ~= b[i] then return false end
  end
  return true
end

local function shape_text(shape)
  return "[" .. table.concat(shape, ", ") .. "]"
end

---Sets the values of the weights, given in the order of get_weights().
---Shapes: those of the weights, in their order
---Errors: another number of weights, another shape: `model:set_weights{x}`
---@param values any[] tensors or nested lists
function Layer:set_weights(values)
  local weights = self.weights
  if type(values) ~= "table" then
    blame.error("set_weights: a list of tensors is wanted, got " .. args.describe(values), "type")
  end
  if #values ~= #weights then
    blame.error(string.format("set_weights: layer '%s' has %d weights, but %d values were given", self.name, #weights, #values),
      "value")
  end
  local tensors = {}
  for i, v in ipairs(weights) do
    local value = core.is_tensor(values[i]) and values[i] or core.is_variable(values[i]) and values[i]:read_value()
      or core.tensor(values[i], v.dtype)
    if not same_shape(value.shape, v.shape) then
      blame.error(string.format("set_weights: weight %d of layer '%s', %s, has the shape %s; the value given has %s", i,
        self.name, v.name, shape_text(v.shape), shape_text(value.shape)), "value")
    end
    tensors[i] = value.dtype == v.dtype and value or value:cast(v.dtype)
  end
  for i, v in ipairs(weights) do v:assign(tensors[i]) end
end

---The number of elements of all weights.
---Errors: weights that are not made yet: `keras.layers.Dense(3):count_params()`
---@return integer
function Layer:count_params()
  if not self.built and #self.weights == 0 and not rawget(self, "_shapeless") then
    blame.error(string.format("count_params: layer '%s' has no weights yet; build it or call it first", self.name), "value")
  end
  local count = 0
  for _, v in ipairs(self.weights) do count = count + v.size end
  return count
end

-- ------------------------------------------------ losses and metrics

---Adds a loss: a scalar (or a function that gives one), which training adds to the compiled loss.
---Shapes: []
---Errors: a loss that is no tensor, number or function: `keras.layers.Layer():add_loss "mse"`
---@param loss any
function Layer:add_loss(loss)
  ensure(self)
  if context.inferring then return end
  for _, each in ipairs(args.is_plain(loss) and loss or {loss}) do self._losses[#self._losses + 1] = each end
end

---Shows the mean of a value as a metric of the model.
---Shapes: value any, averaged
---Errors: a value without a name: `keras.layers.Layer():add_metric(x)`
---@param value any
---@param options {name: string, aggregation: string?}?
function Layer:add_metric(value, options)
  ensure(self)
  local name = type(options) == "string" and options or args.is_plain(options) and options.name
  if type(name) ~= "string" then blame.error("add_metric: 'name' is missing; it must be a string", "value") end
  local metrics = require "ipulua.keras.metrics"
  local metric = self._metrics[name]
  if not metric then
    metric = metrics.Mean{name = name}
    self._metrics[name] = metric
    self._metrics[#self._metrics + 1] = metric
  end
  if not context.inferring then metric:update_state(value) end
end

-- This layer and all below it.
function Layer:walk(visit)
  ensure(self)
  visit(self)
  for _, layer in ipairs(self:sublayers()) do layer:walk(visit) end
end

-- What a regularizer gives for a value: it may be a function of the script's.
local function penalty(self, which, regularizer, value)
  local loss = regularizer(value)
  if core.is_tensor(loss) or core.is_variable(loss) or type(loss) == "number" then return loss end
  blame.error(string.format("layer '%s': its %s must return a tensor, got %s", self.name, which, args.describe(loss)), "type")
end

function properties.losses(self)
  local list, seen = {}, {}
  self:walk(function(layer)
    for _, loss in ipairs(layer._losses) do list[#list + 1] = type(loss) == "function" and loss() or loss end
    for _, v in ipairs(layer.trainable and layer:own_variables() or {}) do
      local id = core.variable_identity(v)
      if v.regularizer and v.trainable and not seen[id] then
        seen[id] = true
        local _ <close> = stages.beside(id)
        list[#list + 1] = penalty(layer, "regularizer of '" .. (v.weight_name or v.name) .. "'", v.regularizer, v)
      end
    end
  end)
  return list
end

function properties.metrics(self)
  local list = {}
  self:walk(function(layer)
    for _, metric in ipairs(layer._metrics) do list[#list + 1] = metric end
  end)
  return list
end

-- ------------------------------------------------ calling

---Makes the weights, given the shape of the input (a structure of shapes for several). Layers override it.
---@param input_shape any
function Layer:build(input_shape) -- luacheck: ignore 212
end

---What the layer does. Layers override it.
function Layer:call()
  blame.error(string.format("layer '%s': its class %s defines no call(inputs)", self.name, class.of(self).__name),
    "not_implemented")
end

---The mask of the outputs; by default that of the inputs passes on where supports_masking is set.
function Layer:compute_mask(_, mask)
  if not self.supports_masking then return nil end
  if args.is_plain(mask) then return mask[1] end
  return mask
end

local function is_value(leaf) return core.is_tensor(leaf) or core.is_variable(leaf) end

-- Lists of numbers become tensors.
local function as_inputs(value)
  if type(value) == "number" then return core.tensor(value) end
  if args.is_plain(value) and next(value) ~= nil
    and not nest.any(function(leaf) return type(leaf) ~= "number" end, value) then
    return core.tensor(value)
  end
  return value
end

-- (inputs, more…, {training = …}) → packed positional arguments, options.
local function read_call(self, ...)
  local given = table.pack(...)
  local options = {}
  local last = given[given.n]
  if given.n > 1 and args.is_plain(last) and (next(last) == nil or #last == 0) then
    options, given[given.n], given.n = last, nil, given.n - 1
  end
  while given.n > 1 and given[given.n] == nil do given.n = given.n - 1 end
  if not self.takes_numbers then given[1] = as_inputs(given[1]) end
  return given, options
end

local function check_spec_leaf(self, spec, shape, index)
  local rank, where = #shape, string.format("input %d of layer '%s'", index - 1, self.name)
  local function refuse(wanted)
    blame.error(string.format("%s doesn't fit the layer: expected %s, got the shape %s", where, wanted, shape_text(shape)),
      "value")
  end
  if spec.ndim and rank ~= spec.ndim then refuse("rank " .. spec.ndim) end
  if spec.min_ndim and rank < spec.min_ndim then refuse("a rank of at least " .. spec.min_ndim) end
  if spec.max_ndim and rank > spec.max_ndim then refuse("a rank of at most " .. spec.max_ndim) end
  for axis, extent in pairs(spec.axes or {}) do
    local got = shape[axis < 0 and rank + axis + 1 or axis + 1]
    if got and got >= 0 and got ~= extent then refuse(string.format("axis %d to have %d elements", axis, extent)) end
  end
end

-- input_spec = {ndim =, min_ndim =, max_ndim =, axes = {[-1] = 784}} or a list of such.
local function check_spec(self, inputs)
  local spec = rawget(self, "input_spec") or class.of(self).input_spec
  if not spec then return end
  local leaves = nest.flatten(inputs)
  if spec[1] == nil and args.is_plain(inputs) and #inputs > 0 and (spec.ndim or spec.min_ndim) then
    blame.error(string.format("layer '%s' takes one tensor, got a list of %d", self.name, #inputs), "type")
  end
  for i, leaf in ipairs(leaves) do
    local each = spec[i] or (spec[1] == nil and spec) or nil
    local shape = each and (is_value(leaf) or KerasTensor.is(leaf)) and leaf.shape
    if shape then check_spec_leaf(self, each, shape, i) end
  end
end

---Makes the weights if that hasn't happened; `inputs` tell the shape.
---@package
function Layer:ensure_built(inputs)
  ensure(self)
  if self.built then return end
  self:build_once(nest.map(function(leaf)
    local shape = (is_value(leaf) or KerasTensor.is(leaf)) and leaf.shape or {}
    return table.move(shape, 1, #shape, 1, {})
  end, inputs))
end

---build(shape), once, outside of whatever is being traced.
---@package
function Layer:build_once(input_shape)
  if self.built then return end
  ensure(self)
  tracing.outside(function()
    local path = context.path
    local inside = path[#path] == self.name
    if not inside then path[#path + 1] = self.name end
    local ok, problem = pcall(self.build, self, input_shape)
    if not inside then path[#path] = nil end
    if not ok then error(problem, 0) end
  end)
  rawset(self, "built", true)
  rawset(self, "build_shape", input_shape)
  if self.initial_weights then self:set_weights(self.initial_weights) end
end

---A variable as call sees it: in the compute dtype.
---@package
function Layer:in_compute_dtype(v)
  local dtype = self.compute_dtype
  if v.dtype ~= dtype and v.dtype:find("float") then return v:cast(dtype) end
  return v
end

local function autocast(self, value)
  local dtype = self.compute_dtype
  return nest.map(function(leaf)
    if core.is_tensor(leaf) and leaf.dtype ~= dtype and leaf.dtype:find("float") then
      local cast = leaf:cast(dtype)
      context.set_mask(cast, context.mask(leaf))
      return cast
    end
    return leaf
  end, value)
end

local function masks_of(inputs)
  if not args.is_plain(inputs) then return context.mask(inputs) end
  local found = false
  local masks = nest.map(function(leaf)
    local mask = context.mask(leaf)
    found = found or mask ~= nil
    return mask
  end, inputs)
  return found and masks or nil
end

local function add_activity_loss(self, results)
  if not self.activity_regularizer or context.inferring then return end
  for i = 1, results.n do
    for _, leaf in ipairs(nest.flatten(results[i])) do
      self:add_loss(penalty(self, "activity_regularizer", self.activity_regularizer, leaf) / leaf.shape[1])
    end
  end
end

local function record_masks(self, inputs, mask, results)
  local mine = self:compute_mask(inputs, mask)
  if mine == nil then return end
  if core.is_tensor(results[1]) and not args.is_plain(mine) then return context.set_mask(results[1], mine) end
  if args.is_plain(mine) then
    for i = 1, results.n do context.set_mask(results[i], mine[i]) end
  end
end

local function run(self, given, options)
  if context.depth == 0 and not context.inferring then self:walk(function(layer) layer._losses = {} end) end
  check_spec(self, given[1])
  self:ensure_built(given[1])
  stages.enter_layer(self, context.depth)
  if self.autocast ~= false then
    for i = 1, given.n do given[i] = autocast(self, given[i]) end
  end
  local passed = {}
  for key, value in next, options do passed[key] = value end
  if passed.training == nil then passed.training = context.training end
  if passed.training == nil then passed.training = false end
  if passed.mask == nil then passed.mask = masks_of(given[1]) end
  given[given.n + 1] = passed
  local results
  do
    local _ <close> = context.enter(self.name, passed.training)
    results = table.pack(self:call(table.unpack(given, 1, given.n + 1)))
    add_activity_loss(self, results)
  end
  record_masks(self, given[1], passed.mask, results)
  return table.unpack(results, 1, results.n)
end

function Layer:__call(...)
  ensure(self)
  local given, options = read_call(self, ...)
  for i = 1, given.n do
    if nest.any(KerasTensor.is, given[i]) then
      check_spec(self, given[1])
      return require "ipulua.keras.graph".apply(self, given, options)
    end
  end
  if given.n == 0 or given[1] == nil then
    blame.error(string.format("layer '%s' was called without inputs", self.name), "type")
  end
  return run(self, given, options)
end

---The shape of the output for a shape of the input (a structure of shapes for several); -1: unknown.
---Shapes: input_shape with the batch, -1 where an extent is not known → the output's
---Errors: a shape that the layer can't take: `keras.layers.Conv2D(4, 3):compute_output_shape{2, 3}`
---@param input_shape any
---@return any
function Layer:compute_output_shape(input_shape)
  local function specs(shape)
    if args.is_plain(shape) and type(nest.first(shape)) == "number" and math.type(shape[1]) == "integer" then
      return KerasTensor(shape, rawget(self, "input_dtype") or self.compute_dtype)
    end
    local out = {}
    for _, key in ipairs(nest.keys(shape)) do out[key] = specs(shape[key]) end
    return out
  end
  local inputs = specs(input_shape)
  self:ensure_built(inputs)
  local types = require "ipulua.keras.infer".results(function(x) return self(x) end, {n = 1, inputs}, KerasTensor.is)
  return nest.map(function(leaf) return leaf.shape end, types[1])
end

-- ------------------------------------------------ in functional models

local function of_only_node(self, what)
  if #self.nodes == 0 then
    blame.error(string.format("layer '%s' has no %s: it was not called with the tensors of a functional model", self.name, what),
      "value")
  end
  return self.nodes[1]
end

function properties.input(self) return of_only_node(self, "input").inputs end
function properties.output(self) return of_only_node(self, "output").outputs end
function properties.output_shape(self)
  return nest.map(function(leaf) return leaf.shape end, of_only_node(self, "output shape").outputs)
end
function properties.input_shape(self)
  return nest.map(function(leaf) return leaf.shape end, of_only_node(self, "input shape").inputs)
end

-- ------------------------------------------------ configs

---The arguments that make the layer again, without weights.
---@return table
function Layer:get_config()
  local config = parts.config(self)
  config.name, config.trainable = self.name, self.trainable
  config.dtype = self.policy and self.policy.name or nil
  config.weights = nil
  config.input_shape, config.batch_size, config.input_dim = nil, nil, nil
  return config
end

---@param config table
---@return Layer
function Layer.from_config(c, config)
  return c(config)
end

return Layer
