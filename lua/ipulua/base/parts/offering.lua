-- Names that a module of Keras answers to beside its own. One kind are second names:
-- layers.MaxPool2D is layers.MaxPooling2D. The other are names of Keras that the module lacks, with
-- a replacement for each. Each module lists its own.

local blame = require "ipulua.base.blame"
local class = require "ipulua.base.class"
local modules = require "ipulua.base.modules"
local names = require "ipulua.base.parts.names"

local offering = {}

---Module → other name → name, of the modules that are loaded.
---@type table<string, table<string, string>>
offering.names = {}

---Module → name → the reason why the module lacks it, and the replacement.
---@type table<string, table<string, string>>
offering.missing = {}

---The module's own name for another name of a part. Names are compared as Keras compares strings,
---without case and underscores.
---@param which string? "layers", "losses" …
---@param name string
---@return string?
function offering.target(which, name)
  local list = offering.names[which]
  if not list then return nil end
  if list[name] then return list[name] end
  local wanted = names.plain(name)
  for other, target in pairs(list) do
    if names.plain(other) == wanted then return target end
  end
  return nil
end

---Why a module lacks a name of Keras.
---@param which string?
---@param name string
---@return string?
function offering.why_missing(which, name)
  for each, why in pairs(offering.missing[which] or {}) do
    if names.plain(each) == names.plain(name) then return each .. " is not offered: " .. why end
  end
  return nil
end

---The names of classes in small letters, but for their base: {glorot_normal = "GlorotNormal"}.
---@param module table
---@return table<string, string>
function offering.small(module)
  local list = {}
  for name, value in next, module do
    if type(name) == "string" and class.is_class(value) and value.super.__name ~= "Part" then
      list[names.snake(name)] = name
    end
  end
  return list
end

---Lets a module answer to its other names, and say why it lacks names of Keras that can't be had.
---@param which string "layers", "preprocessing.text"
---@param module table
---@param about {names: table<string, string>?, missing: table<string, string>?}?
---@return table module
function offering.answer(which, module, about)
  local other, missing = about and about.names or {}, about and about.missing or {}
  offering.names[which], offering.missing[which] = about and about.names, about and about.missing
  modules.offer_all(module)
  return setmetatable(module, {__index = function(t, name)
    if type(name) ~= "string" then return nil end
    if other[name] then return rawget(t, other[name]) end
    if missing[name] then
      blame.error(string.format("keras.%s.%s is not offered: %s", which, name, missing[name]),
        "value")
    end
    return nil
  end})
end

return offering
