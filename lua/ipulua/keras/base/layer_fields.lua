-- A layer's fields. They belong to the script that assigns them. Sublayers and variables are found
-- in them and in their lists and tables. Their order is the one in which the fields were first
-- assigned, with any value. The library keeps its own values of a layer beside the fields, so that
-- neither hides the other.

local blame = require "ipulua.base.blame"
local class = require "ipulua.base.class"
local context = require "ipulua.keras.base.context"
local core = require "ipulua.core"
local layer_weights = require "ipulua.keras.base.layer_weights"
local nest = require "ipulua.base.nest"
local plain = require "ipulua.base.plain"

---@class Layer
local Layer = {} -- functions of this file for the class
local fields = {methods = Layer, properties = {}}

-- Names that no script gives to a field.
local key_of_kept <const> = "(kept)"      -- of the library's values about a layer: {name = value}
local order <const> = "(order)"           -- of the fields' names: {list =, seen =}
-- of variables that are read in the compute dtype, by field
local automatic <const> = "(automatic)"

-- Names of kept values that no field may have. Names without _ that are always read by `get` are
-- free.
local kept_names = {}
for _, name in ipairs{
  "_trainable", "_own", "_losses", "_lasting_losses", "_metrics", "_options", "_programs", "_graph",
  "_stack", "_calls", "_building", "_input_specs", "_input_tensor", "_shapeless", "_watched",
  "_is_inferred", "_told_inputs", "_trained", "compiled", "compile_arguments",
} do kept_names[name] = true end

-- ------------------------------------------------ what the library keeps

---Begins the library's values about a layer; a derived class adds to the values of its base.
---@param layer Layer
---@param values table<string, any>
function fields.begin(layer, values)
  local all = rawget(layer, key_of_kept) or {}
  for name, value in next, values do all[name] = value end
  rawset(layer, key_of_kept, all)
end

---@param layer Layer
---@return boolean
function fields.has_begun(layer) return rawget(layer, key_of_kept) ~= nil end

---The kept value of a layer, whatever its class has under that name.
---@param layer Layer
---@param name string
---@return any
function fields.get(layer, name)
  local all = rawget(layer, key_of_kept)
  return all and all[name]
end
local get <const> = fields.get

---@param layer Layer
---@param name string
---@param value any
function fields.keep(layer, name, value)
  if not rawget(layer, key_of_kept) then rawset(layer, key_of_kept, {}) end
  rawget(layer, key_of_kept)[name] = value
end

-- ------------------------------------------------ assigning

local library_methods = {} -- class → names of the methods that the library calls

---Names that a class of the library needs for itself. To be called when its methods are there.
---@param c Class
function fields.reserve(c)
  local set = {}
  for name, value in next, c do
    if type(value) == "function" then set[name] = true end
  end
  library_methods[#library_methods + 1] = {class = c, names = set}
end

local function is_method(layer, key)
  for _, each in ipairs(library_methods) do
    if each.names[key] and class.is_a(layer, each.class) then return true end
  end
  return false
end

local function refuse(layer, key, what)
  blame.error(string.format("layer '%s': its field can't be called '%s', which is %s of every %s; "
    .. "choose another name",
    tostring(rawget(layer, "name") or getmetatable(layer).__name), tostring(key), what,
    class.of(layer).is_model and "model" or "layer"), "value")
end

-- class → names that were looked at and are a script's
local free_names = setmetatable({}, {__mode = "k"})

local function check_name(layer, c, key, value)
  if c.properties[key] then refuse(layer, key, "a property that is only read") end
  if kept_names[key] then refuse(layer, key, "kept by the library") end
  if not is_method(layer, key) then free_names[c][key] = true
  elseif type(value) ~= "function" and value ~= nil then refuse(layer, key, "a method") end
end

local function is_mixed(layer)
  local policy = get(layer, "policy")
  return policy and policy.is_mixed
end

-- Of mixed precision: variables of floats are given in the dtype of the arithmetic while a call
-- runs.
local function is_cast(layer, value)
  return type(value) == "userdata" and is_mixed(layer) and core.is_variable(value)
    and layer.compute_dtype ~= value.dtype
end

local function make_automatic(layer, key, variable)
  if not rawget(layer, automatic) then rawset(layer, automatic, {}) end
  rawget(layer, automatic)[key] = variable
  rawset(layer, key, nil)
end

---__newindex of layers: a field that has no value so far.
function fields.assign(layer, key, value)
  local c = getmetatable(layer)
  local free = free_names[c]
  if not free then
    free = {}
    free_names[c] = free
  end
  if not free[key] and type(key) == "string" then
    local setter = c.setters[key]
    if setter then return setter(layer, value) end
    check_name(layer, c, key, value)
  end
  local cast = rawget(layer, automatic)
  if cast then cast[key] = nil end
  if value == nil then return end
  local names = rawget(layer, order)
  if not names then
    names = {list = {}, seen = {}}
    rawset(layer, order, names)
  end
  if not names.seen[key] then
    names.seen[key] = true
    names.list[#names.list + 1] = key
  end
  if is_cast(layer, value) then make_automatic(layer, key, value) else rawset(layer, key, value) end
end

---A field that is no longer one: its value is kept elsewhere now.
---@param layer Layer
---@param key string
function fields.forget(layer, key)
  rawset(layer, key, nil)
  local names = rawget(layer, order)
  if not names or not names.seen[key] then return end
  names.seen[key] = nil
  for i, name in ipairs(names.list) do
    if name == key then return table.remove(names.list, i) end
  end
end

local function names_of(layer)
  local names = rawget(layer, order)
  return names and names.list or {}
end

-- Fields that every layer or model is born with: what is put there is not looked through.
local marks <const> = {"built", "stop_training"}

---Before a call: variables that replaced another value of their field are given in the dtype of the
---arithmetic, too.
---@package
function Layer:settle_fields()
  for _, key in ipairs(marks) do
    if type(rawget(self, key)) == "table" then refuse(self, key, "a mark") end
  end
  if not is_mixed(self) then return end
  for _, key in ipairs(names_of(self)) do
    local value = rawget(self, key)
    if is_cast(self, value) then make_automatic(self, key, value) end
  end
end

-- ------------------------------------------------ reading

---__index of layers: methods, properties, the library's values, variables of mixed precision.
function fields.read(layer, key)
  local c = getmetatable(layer)
  local value = c[key]
  if value ~= nil then return value end
  local property = c.properties[key]
  if property then return plain.of_objects(core.plain(property(layer))) end
  local all = rawget(layer, key_of_kept)
  if all and all[key] ~= nil then return all[key] end
  local cast = rawget(layer, automatic)
  local variable = cast and cast[key]
  if variable == nil or context.depth == 0 then return variable end
  return layer:in_compute_dtype(variable)
end

---A field's variable itself, where mixed precision would give its value in the compute dtype.
---@param key any
---@return userdata?
---@package
function Layer:variable(key)
  local cast = rawget(self, automatic)
  return cast and cast[key] or rawget(self, key)
end

-- ------------------------------------------------ what the fields hold

-- class → whether its objects are layers or metrics
local held_classes = setmetatable({}, {__mode = "k"})

local function holds_objects_of(c)
  local held = held_classes[c]
  if held == nil then
    local k = c
    while k and not rawequal(k, fields.Layer) and not rawequal(k, fields.Metric) do k = rawget(k,
      "super") end
    held = k ~= nil
    held_classes[c] = held
  end
  return held
end

-- Whether a value is a layer, variable or metric, and whether it is a table of a script, to be
-- looked into. Other objects and classes are not looked into.
local function kind_of(value)
  if type(value) == "userdata" then return core.is_variable(value), false end
  local c = getmetatable(value)
  if c == nil then return false, true end
  if held_classes[c] ~= nil or class.is_class(c) then return holds_objects_of(c), false end
  return false, not class.is_class(value)
end

-- Layers, variables and metrics in the fields, with the keys on the way to each; keys of tables may
-- be such, too. A test takes further objects.
local function each_held(layer, visit, test)
  local seen, path = {}, {}
  local function walk(value, key)
    if type(value) ~= "table" and type(value) ~= "userdata" then return end
    local is_held, is_table = kind_of(value)
    is_held = is_held or test ~= nil and test(value)
    path[#path + 1] = key
    if is_held then
      visit(value, path)
    elseif is_table and not seen[value] then
      seen[value] = true
      for _, inner in ipairs(nest.keys(value)) do
        walk(inner, inner)
        walk(rawget(value, inner), inner)
      end
    end
    path[#path] = nil
  end
  local cast = rawget(layer, automatic) or {}
  for _, key in ipairs(names_of(layer)) do
    local value = rawget(layer, key)
    if value == nil then value = cast[key] end
    if type(value) == "table" or type(value) == "userdata" then walk(value, key) end
  end
end

local function distinct_of(layer, class_of)
  local list, seen = {}, {}
  each_held(layer, function(value)
    if type(value) == "table" and not seen[value] and class.is_a(value, class_of)
      and not rawequal(value, layer) then
      seen[value] = true
      list[#list + 1] = value
    end
  end)
  return list
end

---The layers of two lists, each once.
---@param first Layer[]
---@param second Layer[]
---@return Layer[]
function fields.join(first, second)
  local list, seen = table.move(first, 1, #first, 1, {}), {}
  if #second == 0 then return list end
  for _, layer in ipairs(first) do seen[layer] = true end
  for _, layer in ipairs(second) do
    if not seen[layer] then list[#list + 1] = layer end
  end
  return list
end

local function place_text(path)
  local keys = {}
  for i, key in ipairs(path) do keys[i] = tostring(key) end
  return table.concat(keys, ".")
end

---Where in the fields a sublayer is: "field" or "field.2".
---@param inner Layer
---@return string?
---@package
function Layer:place_of(inner)
  local found
  each_held(self, function(value, path)
    if not found and rawequal(value, inner) then found = place_text(path) end
  end)
  return found
end

---Objects that a test takes, in the fields and their tables: {place =, value =}, each once.
---@param test fun(value: any): boolean
---@return table[]
---@package
function Layer:held_by(test)
  local list, seen = {}, {}
  each_held(self, function(value, path)
    if seen[value] or not test(value) then return end
    seen[value] = true
    list[#list + 1] = {place = place_text(path), value = value}
  end, test)
  return list
end

---Layers that this one holds, in the order of its fields.
---@return Layer[]
---@package
function Layer:sublayers() return distinct_of(self, fields.Layer) end

---Metrics in the fields, in their order.
---@return Metric[]
---@package
function Layer:field_metrics() return fields.Metric and distinct_of(self, fields.Metric) or {} end

---Own variables, without sublayers' ones.
---@return userdata[]
---@package
function Layer:own_variables()
  local list = table.move(self._own or {}, 1, #(self._own or {}), 1, {})
  each_held(self, function(value)
    if core.is_variable(value) then list[#list + 1] = value end
  end)
  return layer_weights.distinct(list)
end

return fields
