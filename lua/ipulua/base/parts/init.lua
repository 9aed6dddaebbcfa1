-- The kinds of parts that layers take as arguments: activations, initializers, regularizers,
-- constraints …. Here they are found by name and shown in a config, and classes are declared whose
-- arguments may be such parts.

local args = require "ipulua.base.args"
local blame = require "ipulua.base.blame"
local class = require "ipulua.base.class"
local core = require "ipulua.core"
local custom_objects = require "ipulua.base.parts.custom_objects"
local json = require "ipulua.base.json"
local names = require "ipulua.base.parts.names"
local nearest = require "ipulua.nearest"
local nest = require "ipulua.base.nest"
local offering = require "ipulua.base.parts.offering"
local plain = require "ipulua.base.plain"
local registry = require "ipulua.base.parts.registry"

local parts = {}

-- description → the class that it is of, which need not be known by a name
local described = setmetatable({}, {__mode = "k"})

parts.module = registry.module

-- Public entries of a module by plain name; classes win over functions of the same plain name when
-- `prefers_class`.
local function find(module, name, prefers_class)
  local exact = rawget(module, name)
  if exact ~= nil and name:sub(1, 1) ~= "_" then
    if not prefers_class or class.is_class(exact) then return exact end
  end
  local wanted, other = names.plain(name), exact
  for key, value in next, module do
    if type(key) == "string" and names.plain(key) == wanted then
      if class.is_class(value) == (prefers_class == true) then return value end
      other = other or value
    end
  end
  return other
end

-- Models are layers too.
local models <const> = {Sequential = "Sequential", Model = "Model", Functional = "Model"}

local function find_model(kind, name)
  return kind == "layer" and models[name] and registry.module("model")[models[name]]
end

local function known_names(module)
  local list = {}
  for key, value in next, module do
    if type(key) == "string" and (type(value) == "function" or class.is_class(value)) then
      list[#list + 1] = key
    end
  end
  for name in next, rawget(module, "_by_output") or {} do list[#list + 1] = name end
  table.sort(list)
  return list
end

---The entry that a string names. If there is none, an error that offers the nearest name.
---@param kind string
---@param name string
---@param options {prefers_class: boolean?, custom_objects: table?}?
---@return any
function parts.find(kind, name, options)
  options = options or {}
  local objects = options.custom_objects
  if objects ~= nil and not args.is_plain(objects) then
    blame.error("'custom_objects' must be a table from names to classes, got "
      .. args.describe(objects), "type")
  end
  local custom = objects and objects[name]
  if custom == nil then custom = custom_objects.find(name) end
  if custom ~= nil then return custom end
  local module = parts.module(kind)
  local aliases = rawget(module, "_aliases")
  name = aliases and aliases[name:lower()] or offering.target(registry.kinds[kind], name) or name
  local entry = find_model(kind, name) or find(module, name, options.prefers_class ~= false)
  if entry == nil then entry = custom_objects.registered_as(name) end
  if entry ~= nil then return entry end
  local why = offering.why_missing(registry.kinds[kind], name)
  if why then blame.error(why, "value") end
  local list = known_names(module)
  for other in pairs(offering.names[registry.kinds[kind]] or {}) do
    if other ~= other:upper() then list[#list + 1] = other end -- mse rather than MSE
  end
  local hint = nearest.hint(name, list)
  if hint == "" and name:find("^%u") then
    hint = string.format("; give your own class by custom_objects = {%s = Class}, or "
      .. "register it", name)
  end
  blame.error(string.format("unknown %s '%s'%s", kind, name, hint), "value")
end

-- ------------------------------------------------ layers that several models hold

-- While a model is described, here().numbered_layers: layer → its number; while one is made of a
-- description, here().made_layers: number → layer.
local here <const> = core.here

local scopes <const> = {}

local function leave(scope) here()[scope.field] = nil end

local function enter(field)
  here()[field] = {}
  return setmetatable({field = field}, {__close = leave})
end

scopes.inside = setmetatable({}, {__close = function() end}) -- of another one, which goes on

local function count_layers(layer, count, list)
  for _, inner in ipairs(layer.sublayers and layer:sublayers() or {}) do
    count[inner] = (count[inner] or 0) + 1
    if count[inner] == 2 then list[#list + 1] = inner end
    if count[inner] == 1 then count_layers(inner, count, list) end
  end
end

---A scope in which a layer and its parts are described. Parts that two of its models share are
---described under one number.
---@param root Layer
function parts.describing(root)
  if here().numbered_layers then return scopes.inside end
  local list, scope = {}, enter "numbered_layers"
  count_layers(root, {}, list)
  for i, layer in ipairs(list) do here().numbered_layers[layer] = i end
  return scope
end

---A scope in which a layer is made of its description. Parts with one number are made once.
function parts.making()
  if here().made_layers then return scopes.inside end
  return enter "made_layers"
end

---An object from a name, a config {class_name =, config =} or the object itself; nil stays nil.
---@param kind string
---@param given any
---@param options {prefers_class: boolean?, custom_objects: table?}?
---@return any
function parts.get(kind, given, options)
  if given == nil then return nil end
  if type(given) == "string" then
    local named = rawget(parts.module(kind), "_named")
    if named and named[given] then return named[given]() end
    local entry = parts.find(kind, given, options)
    if class.is_class(entry) then return entry() end
    return entry
  end
  if plain.is(given) and given.class_name then
    local c = described[given] or parts.find(kind, given.class_name, options)
    if not class.is_class(c) then return c end
    local own = options and options.custom_objects
    local _ <close> = custom_objects.enter(own) -- for parts of the part
    if kind ~= "layer" then return c:from_config(given.config or {}, own) end
    local _ <close> = parts.making()
    local number, made = given.shared_object_id, here().made_layers
    local layer = number and made[number] or c:from_config(given.config or {}, own)
    if number then made[number] = layer end
    return layer
  end
  if class.is_class(given) then return given() end
  return given
end

-- The name of a function: that under which it was registered, or which a module offers.
local function function_name(kind, f)
  local found = custom_objects.name_of(f)
  if found then return found end
  for key, value in next, parts.module(kind) do
    if value == f and type(key) == "string" and (not found or key < found) then found = key end
  end
  return found
end

---A config's entry for a part: a name or {class_name =, config =}. A part that has neither, such as
---a function of the script's own, stands for itself. Such a config makes the same again in this
---process; parts.written finds the parts that a file can't hold.
---@param kind string
---@param part any
---@return any
function parts.serialize(kind, part)
  if part == nil or type(part) == "string" then return part end
  if type(part) == "function" then return function_name(kind, part) or part end
  local c = class.of(part)
  if not c or not part.get_config then return part end
  local _ <close> = kind == "layer" and parts.describing(part) or nil
  local description = core.plain{class_name = custom_objects.name_of(c), config = part:get_config()}
  if kind == "layer" then description.shared_object_id = here().numbered_layers[part] end
  described[description] = c
  return description
end

-- The words for the value at a place in a config.
local function why_unwritable(owner, path, value)
  local what = type(value) == "function" and "a function" or args.describe(value)
  local f = type(value) == "function" and debug.getinfo(value, "S")
  if f and f.what ~= "C" then
    what = string.format("%s of the script's own (%s:%d)", what, f.short_src, f.linedefined)
  end
  local where = path == "" and owner or string.format("%s: its '%s'", owner, path)
  return string.format("%s is %s, which can't be saved; a function is saved by its name when it is "
    .. "registered, "
    .. "keras.utils.register_keras_serializable(f, {name = …}), anything else by a class with "
    .. "get_config", where, what)
end

local function owner_of(description)
  local name = plain.is(description.config) and description.config.name
  return name and string.format("%s '%s'", description.class_name, tostring(name))
    or description.class_name
end

---A description as a file holds it: tensors as lists, functions by the names that they were
---registered under. If a file can't hold a part, nil and the words for that part.
---@param description any
---@return any, string?
function parts.written(description)
  local problem
  local function write(each, owner, path, depth)
    if core.is_tensor(each) or core.is_variable(each) then
      return {constant = each:totable(), dtype = each.dtype}
    end
    local is_simple = type(each) ~= "table" and type(each) ~= "function"
      and type(each) ~= "userdata"
    if is_simple or rawequal(each, json.null) then return each end
    if type(each) == "function" and custom_objects.name_of(each) then
      return {registered_function = custom_objects.name_of(each)}
    end
    if not plain.is(each) then
      problem = problem or why_unwritable(owner, path, each)
      return nil
    end
    if each.class_name then owner, path = owner_of(each), "" end
    depth = plain.deeper(depth or 0)
    local copy = {}
    for _, key in ipairs(nest.keys(each)) do
      local named = key ~= "config" and key ~= "class_name" and type(key) == "string"
      copy[key] = write(each[key], owner, named and (path == "" and key or path .. "." .. key)
        or path, depth)
    end
    return setmetatable(copy, getmetatable(each))
  end
  local copy = write(description, "it", "")
  if problem then return nil, problem end
  return copy
end

---The description that parts.written made, read from a file: its lists are tensors again, its names
---functions that are registered or in a scope.
---@param written any
---@return any
---@param depth integer? of tables around it
function parts.unwritten(written, depth)
  if not plain.is(written) then return written end
  local name = written.registered_function
  if type(name) == "string" and next(written, (next(written))) == nil then
    local f = custom_objects.find(name)
    if type(f) == "function" then return f end
    blame.error(string.format("there is no registered function '%s' here; "
      .. "keras.utils.register_keras_serializable(f, {name = …}) or custom_objects gives one",
      name), "value")
  end
  if written.constant ~= nil and args.is_dtype(written.dtype) then
    return core.tensor(written.constant, written.dtype)
  end
  depth = plain.deeper(depth or 0)
  for key, each in next, written do written[key] = parts.unwritten(each, depth) end
  return written
end

-- Rows may have a kind of part as their type.
local accepted <const> = {"string", "table", "callable"}
local of_numbers <const> = {regularizer = "keras.regularizers.L2",
  initializer = "keras.initializers.Constant", constraint = "keras.constraints.MaxNorm"}

local function plain_rows(rows)
  local spec, kinds = {}, {}
  for i, row in ipairs(rows) do
    local copy = {}
    for key, value in next, row do copy[key] = value end
    if registry.kinds[row[2]] then
      kinds[row[1]] = row[2]
      copy[2], copy.part, copy.for_number = accepted, true, of_numbers[row[2]]
      if copy[3] == nil then copy.optional = true end
    end
    spec[i] = copy
  end
  return spec, kinds
end

---Declares a class by the rows of its arguments (see args.lua; a type may also be a kind of part).
---Its `init` stores each argument under its name, then calls `setup`, if there is one; `get_config`
---follows from the rows.
---@param name string
---@param base table
---@param rows table[]
---@param more table[]? rows that come after, such as the base's
---@return table
function parts.declare(name, base, rows, more)
  local c = base:extend(name)
  local all = table.move(rows, 1, #rows, 1, {})
  for _, row in ipairs(more or {}) do
    local overridden = false
    for _, own in ipairs(rows) do overridden = overridden or own[1] == row[1] end
    if not overridden then all[#all + 1] = row end
  end
  c.argument_rows, c.argument_kinds = plain_rows(all)
  return c
end

-- Whether a value can serve as a part: all are called with tensors or shapes.
local function is_callable(value)
  local meta = (type(value) == "table" or type(value) == "userdata") and getmetatable(value)
  return type(value) == "function" or type(meta) == "table" and meta.__call ~= nil
end

-- kind → its base class. One in place of the other could be called, but would compute something
-- else.
local bases <const> = {initializer = "Initializer", regularizer = "Regularizer",
  constraint = "Constraint", layer = "Layer",
  loss = "Loss", metric = "Metric", optimizer = "Optimizer"}
local told_apart <const> = {initializer = true, regularizer = true, constraint = true}

local function is_of_another_kind(kind, value)
  if not told_apart[kind] or not class.of(value) then return false end
  for other, name in pairs(bases) do
    local module = other ~= kind and registry.loaded(other)
    if module and class.is_a(value, module[name]) then return true end
  end
  return false
end

local function check_part(c, name, kind, value)
  if value == nil or is_callable(value) and not is_of_another_kind(kind, value) then return end
  blame.error(string.format("%s: '%s' must be %s %s: a name, an object or a function, got %s",
    c.__name, name,
    kind:find("^[aeiou]") and "an" or "a", kind, args.describe(value)), "type")
end

---Reads a declared class' arguments into the object.
function parts.read(_, c, ...)
  local given = args.check(c.__name, c.argument_rows, ...)
  local kinds = c.argument_kinds
  for _, row in ipairs(c.argument_rows) do
    local name = row[1]
    local value = given[name]
    if kinds[name] then
      value = parts.get(kinds[name], value, {prefers_class = kinds[name] ~= "activation"})
      check_part(c, name, kinds[name], value)
    end
    given[name] = value
  end
  return given
end

---The arguments that make the object again.
---@return table
function parts.config(self)
  local c, config = class.of(self), core.plain{}
  for _, row in ipairs(c.argument_rows or {}) do
    local name = row[1]
    local kind = c.argument_kinds[name]
    local value = rawget(self, name)
    if kind then value = parts.serialize(kind, value) end
    config[name] = value
  end
  return config
end

---An error unless from_config was called of a class and with a table.
---@param c any
---@param config any
function parts.want_config(c, config)
  if not class.is_class(c) then
    blame.error(
      "from_config: it is called of a class with a colon, as in Dense:from_config(config)", "type")
  end
  if not args.is_plain(config) then
    blame.error(string.format("%s:from_config: expected a config as get_config() gives it, got %s",
      c.__name, args.describe(config)), "type")
  end
end

-- init(self, units, options) gets config's `units`, and the rest as a last table, as Python's named
-- arguments do; nil where init takes one table.
local function by_name(init, config)
  local info = debug.getinfo(init, "u")
  if info.nparams < 2 or config[debug.getlocal(init, 2)] == nil then return nil end
  local given, rest = {n = info.nparams - 1}, core.plain{}
  for key, value in pairs(config) do rest[key] = value end
  for i = 2, info.nparams do
    local name = debug.getlocal(init, i)
    given[i - 1], rest[name] = config[name], nil
  end
  if config[debug.getlocal(init, info.nparams)] == nil then given[given.n] = rest end
  return given
end

---The object that a config describes, of a script's own class, too.
---@param c Class
---@param config table as get_config() gives it
---@return any
function parts.made_of(c, config)
  parts.want_config(c, config)
  local given = by_name(c.init, config)
  if given then return c(table.unpack(given, 1, given.n)) end
  return c(config)
end

---The argument of a part that is called with a weight, as a tensor; an error where it is none.
---@param part table
---@param value any
---@return userdata
function parts.want_value(part, value)
  if args.is_tensor(value) then return value end
  local is_number = type(value) == "number" or args.is_list(value)
    and type(nest.first(value)) == "number"
  if is_number then return core.tensor(value) end
  blame.error(string.format("%s: it is called with a weight, got %s", part.__name,
    args.describe(value)), "type")
end

---A method of a base class that derived ones define.
---@param c table
---@param name string
---@param shown string such as "penalty(x)"
function parts.abstract(c, name, shown)
  c[name] = function(self)
    blame.error(string.format("%s defines no %s", self.__name, shown), "not_implemented")
  end
end

---@class Part: Class
---@field argument_rows table[]
local Part = class.new("Part")
parts.Part = Part
Part.argument_rows, Part.argument_kinds = {}, {}

function Part:init(...)
  for name, value in next, parts.read(self, class.of(self), ...) do self[name] = value end
  if self.setup then self:setup() end
end

---@return table
function Part:get_config()
  return parts.config(self)
end

---@param config table
---@return any
function Part.from_config(c, config) return parts.made_of(c, config) end

local kind_of = {} -- module's name → kind
for kind, module in pairs(registry.kinds) do kind_of[module] = kind end

---Registers a module of parts. It then saves its parts, makes them of their configs, and answers to
---its other names.
---@param which string "layers", "losses" …
---@param module table
---@param about {names: table<string, string>?, missing: table<string, string>?}?
---@return table module
function parts.give(which, module, about)
  local kind = kind_of[which]
  registry.enter(kind, module)

  ---A part in a config: {class_name =, config =}, or the name of a function.
  function module.serialize(part)
    local config = parts.serialize(kind, part)
    if config == part and part ~= nil and type(part) ~= "string" and type(part) ~= "function" then
      blame.error(string.format("%s.serialize: expected a function, a name or an object with "
        .. "get_config, got %s", which, args.describe(part)), "type")
    end
    return core.plain(config)
  end

  ---The part that serialize described, or that a name stands for. objects: {custom_objects = {name
  ---= class}}, or that table itself.
  function module.deserialize(config, objects)
    if type(config) ~= "string"
      and not (args.is_plain(config) and type(config.class_name) == "string") then
      blame.error("deserialize: expected a name or {class_name =, config =}, got "
        .. args.describe(config), "type")
    end
    local options = {custom_objects = custom_objects.given(objects),
      prefers_class = kind ~= "activation"}
    return parts.get(kind, config, options)
  end

  return offering.answer(which, module, about)
end

return parts
