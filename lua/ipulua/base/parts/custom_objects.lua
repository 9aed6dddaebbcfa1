-- keras.utils.custom_object_scope and its relatives: names for classes and functions of the
-- script's own, by which saved models, and strings that name a part, find them.

local args = require "ipulua.base.args"
local blame = require "ipulua.base.blame"
local class = require "ipulua.base.class"
local core = require "ipulua.core"
local scope = require "ipulua.base.scope"

local custom_objects = {}

local here <const> = core.here

-- name → class or function, for all models
local everywhere = core.plain{}

-- In a scope: the names that held when it was entered, and its own names. A coroutine has the names
-- of the place where it is resumed, or its own.
local function names() return here().custom_names or everywhere end

-- Names that other code has registered since are found, too.
local function find(name)
  local object = names()[name]
  if object == nil then return everywhere[name] end
  return object
end

-- class or function → the name in files that it was registered under
local registered_names = setmetatable({}, {__mode = "k"})

---Names of own classes and functions that every model is loaded with: a table to be changed.
---@return table<string, any>
function custom_objects.get_custom_objects() return names() end

---@param name string
---@return any
---@package
function custom_objects.find(name) return find(name) end

---The part registered by that name in one package. Files hold the name alone if the part was
---registered after they were written. Nil in several.
---@param name string
---@return any
---@package
function custom_objects.registered_as(name)
  local found
  for full, object in pairs(custom_objects.current()) do
    if type(full) == "string" and full:match(">(.*)$") == name then
      if found ~= nil and found ~= object then return nil end
      found = object
    end
  end
  return found
end

---The table of names that a function was given: itself, or as {custom_objects = …}.
---@param given any
---@return any
---@package
function custom_objects.given(given)
  return args.is_plain(given) and args.is_plain(given.custom_objects)
    and given.custom_objects or given
end

---The name of a class (or function) in files.
---@param object any
---@return string?
---@package
function custom_objects.name_of(object)
  return registered_names[object] or class.is_class(object) and object.__name or nil
end

local function is_object(value) return type(value) == "function" or class.is_class(value) end

local function check_objects(who, list)
  for name, value in pairs(list) do
    if type(name) ~= "string" or not is_object(value) then
      blame.error(string.format("%s: expected names of classes or functions, got %s = %s", who,
        tostring(name), args.describe(value)),
        "type")
    end
  end
end

local function copy_of(list)
  local copy = {}
  for name, value in pairs(list) do copy[name] = value end
  return copy
end

---The names as they are now, for a later enter.
---@return table<string, any>
---@package
function custom_objects.current()
  local copy = core.plain(copy_of(everywhere))
  for name, value in pairs(here().custom_names or {}) do copy[name] = value end
  return copy
end

-- Adds names; returns a function that removes them again.
local function add(list)
  local former, own = here().custom_names, custom_objects.current()
  for name, value in pairs(list) do own[name] = value end
  here().custom_names = own
  return function() here().custom_names = former end
end

---Adds names until the returned value is closed, by `<close>`.
---@param list table<string, any>?
---@return table
---@package
function custom_objects.enter(list) return setmetatable({}, {__close = add(list or {})}) end

local scope_rows <const> = {{"objects", "table", whole = true}}

---A scope in which names stand for own classes and functions, as `custom_objects` of load_model
---does for one model. When it is left, get_custom_objects gives the same as before.
---Errors: a value that is neither a class nor a function: `keras.utils.custom_object_scope{Twice =
---2}`
---@param ... any objects
---@return Scope
function custom_objects.custom_object_scope(...)
  local list = args.check("custom_object_scope", scope_rows, ...).objects
  check_objects("custom_object_scope", list)
  return scope.new("custom_object_scope", add(list))
end

local register_rows <const> = {
  {"object", {"table", "function"}}, {"package", "string", "Custom"},
  {"name", "string", optional = true},
}

---Makes models with an own class or function loadable without custom_objects: it is saved as
---"package>name" and found by that. A class has its own name by default. Returns the class or
---function.
---Errors: a function without a name, a class without get_config, a name that is taken:
---`keras.utils.register_keras_serializable(print)`
---@param ... any object, package, name
---@return any
function custom_objects.register_keras_serializable(...)
  local a = args.check("register_keras_serializable", register_rows, ...)
  local object = a.object
  if not is_object(object) then
    blame.error("register_keras_serializable: expected a class or a function, got "
      .. args.describe(object), "type")
  end
  local name = a.name or class.is_class(object) and object.__name
  if not name then
    blame.error("register_keras_serializable: 'name' is missing: a function has none of its own",
      "value")
  end
  if class.is_class(object) and not object.get_config then
    blame.error(string.format("register_keras_serializable: %s can't be saved; it has no "
      .. "get_config()", object.__name), "value")
  end
  local full = a.package .. ">" .. name
  local taken = find(full)
  if taken ~= nil and taken ~= object then
    blame.error(string.format("register_keras_serializable: '%s' is the name of another class or "
      .. "function already", full), "value")
  end
  names()[full], registered_names[object] = object, full
  return object
end

local name_rows <const> = {{"object", {"table", "function"}}}

---The name that a class or function has in files: "package>name" if it was registered, else a
---class' own.
---Errors: a value that is neither a class nor a function: `keras.utils.get_registered_name(1)`
---@param ... any object
---@return string?
function custom_objects.get_registered_name(...)
  local object = args.check("get_registered_name", name_rows, ...).object
  if not is_object(object) then
    blame.error("get_registered_name: expected a class or a function, got "
      .. args.describe(object), "type")
  end
  return custom_objects.name_of(object)
end

local object_rows <const> = {{"name", "string"}, {"custom_objects", "table", optional = true}}

---The class or function that a name stands for, nil for none: registered, in a scope, or in the
---given table.
---Errors: a name that is no string: `keras.utils.get_registered_object(1)`
---@param ... any name, custom_objects
---@return any
function custom_objects.get_registered_object(...)
  local a = args.check("get_registered_object", object_rows, ...)
  local own = a.custom_objects and a.custom_objects[a.name]
  if own ~= nil then return own end
  return find(a.name)
end

return custom_objects
