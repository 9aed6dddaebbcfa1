-- IPUConfig: a hierarchy of typed options. Setting one only edits the object; config.lua applies
-- it. Values are kept flat, by full dotted name, in a table that scripts do not see. A category
-- such as cfg.ipu_model is a view of the same table with a prefix.

local args = require "ipulua.base.args"
local blame = require "ipulua.base.blame"
local class = require "ipulua.base.class"
local core = require "ipulua.core"
local json = require "ipulua.base.json"
local log = require "ipulua.base.log"
local option_rows = require "ipulua.config.option_rows"
local options = require "ipulua.config.options"
local plain = require "ipulua.base.plain"

---The devices that there are and how programs are made for them. Options are its fields, or fields
---of a category: `cfg.ipu_model.version`. An unknown one or a value of another type is an error.
---Errors: an unknown option, a value of another type: `set(cfg, "auto_select", 2)`,
---`set(cfg, "auto_select_ipus", "two")`
---Source: config.IPUConfig of Graphcore's TensorFlow 2.6
---@class IPUConfig: Class
---@field auto_select_ipus integer|integer[]
---@field select_ipus integer|integer[]
---@field selection_order string
---@field allow_recompute boolean
---@field serialization_output_folder string
---@field compilation_poplar_options table<string, string>
---@field gcl_poplar_options table<string, string>
---@field convolutions table
---@field matmuls table
---@field slices table
---@field pooling table
---@field device_connection table
---@field experimental table
---@field floating_point_behaviour table
---@field io_tiles table
---@field ipu_model table
---@field norms table
---@field optimizations table
---@field scheduling table
local IPUConfig = class.new("IPUConfig")
local Category = class.new("IPUConfigCategory")
local Metadata = class.new("IPUConfigMetadata")

local copy_value <const>, warn_if_deprecated <const> = option_rows.copy, option_rows.warn
local checked <const>, refuse_unknown <const> = option_rows.checked, option_rows.refuse_unknown
local rows <const>, full_names <const> = option_rows.by_name, option_rows.names

-- ------------------------------------------------ metadata

-- Fields: name, type, types, default, deprecated, deprecated_msg, doc. A category has no type and
-- no default.
function Metadata:init(name)
  local row = rows[name]
  self.name = name
  self.deprecated_msg = option_rows.deprecation(name)
  self.deprecated = self.deprecated_msg ~= nil
  if row then
    self.type = option_rows.type_name(row)
    self.types = core.plain(row[2] == "ints" and {"int", "list"} or {self.type})
    self.default = copy_value(row[3])
    self.doc = row[4]
  else
    self.doc = options.categories[name][1]
  end
end

---Raises when a value has not the option's type.
---@param value any
function Metadata:check_type(value)
  local row = rows[self.name]
  if row then
    checked(row, value)
  else
    blame.error("'" .. self.name .. "' is a category and has no type", "type")
  end
end

---Warns when the option, or a category that it is in, is deprecated.
function Metadata:warn_if_deprecated()
  warn_if_deprecated(self.name)
end

local name_row <const> = {"name", "string"}

local function metadata(prefix, name)
  args.check_value("get_attribute_metadata", name_row, name)
  if not (rows[prefix .. name] or options.categories[prefix .. name]) then
    refuse_unknown(prefix, name)
  end
  return Metadata(prefix .. name)
end

-- ------------------------------------------------ reading and writing options

-- object or category → {values, assigned, categories, prefix}
local hidden = setmetatable({}, {__mode = "k"})

local function assign(data, name, value)
  local row = rows[name]
  local kept = checked(row, value)
  warn_if_deprecated(name)
  data.values[name] = kept
  data.assigned[name] = true
end

local function read(self, key)
  local data = hidden[self]
  if type(key) == "string" then
    local name = data.prefix .. key
    local value = data.values[name]
    if value ~= nil then return value end
    if options.categories[name] then
      local view = data.categories[name]
      if not view then
        view = setmetatable({}, Category)
        hidden[view] = {values = data.values, assigned = data.assigned,
          categories = data.categories, prefix = name .. "."}
        data.categories[name] = view
      end
      return view
    end
  end
  refuse_unknown(data.prefix, key)
end

local function write(self, key, value)
  local data = hidden[self]
  if type(key) == "string" then
    local name = data.prefix .. key
    if rows[name] then return assign(data, name, value) end
    if options.categories[name] then
      blame.error(string.format("'%s' is a category of options and cannot be assigned to; assign "
        .. "to its attributes, "
        .. "such as '%s'", name, name .. "." .. (function()
          for _, full in ipairs(full_names) do
            if full:sub(1, #name + 1) == name .. "." then return full:sub(#name + 2) end
          end
        end)()), "value")
    end
  end
  refuse_unknown(data.prefix, key)
end

local function lua_text(value, depth)
  if type(value) == "string" then return (string.format("%q", value):gsub("\\\n", "\\n")) end
  if type(value) ~= "table" then return tostring(value) end
  local parts = {}
  depth = plain.deeper(depth or 0)
  for i, v in ipairs(value) do parts[i] = lua_text(v, depth) end
  if #parts == 0 then
    local keys = {}
    for key in next, value do keys[#keys + 1] = tostring(key) end
    table.sort(keys)
    for i, key in ipairs(keys) do
      parts[i] = "[" .. lua_text(key) .. "] = " .. lua_text(value[key], depth)
    end
  end
  return "{" .. table.concat(parts, ", ") .. "}"
end

-- One line per option below a prefix.
local function lines(data, indent)
  local text = {}
  for _, name in ipairs(full_names) do
    if name:sub(1, #data.prefix) == data.prefix then
      text[#text + 1] = (indent or "") .. name .. " = " .. lua_text(data.values[name])
    end
  end
  return table.concat(text, "\n")
end

local category_methods = {
  ---@param self table
  ---@param name string relative to the category
  get_attribute_metadata = function(self, name)
    return metadata(hidden[self].prefix, name)
  end,
}

Category.__index = function(self, key)
  return category_methods[key] or read(self, key)
end
Category.__newindex = write
Category.__tostring = function(self) return lines(hidden[self]) end

IPUConfig.__index = function(self, key)
  local method = IPUConfig[key]
  if method ~= nil and type(key) == "string" and key:sub(1, 2) ~= "__" then return method end
  return read(self, key)
end
IPUConfig.__newindex = function(self, key, value)
  if IPUConfig[key] ~= nil then refuse_unknown("", key) end
  write(self, key, value)
end
IPUConfig.__tostring = function(self) return lines(hidden[self]) end

-- ------------------------------------------------ the object

---A fresh configuration: every option at its default.
function IPUConfig:init(...)
  if select("#", ...) > 0 then
    blame.error("IPUConfig takes no arguments; assign to its attributes", "type")
  end
  local values = {}
  for name, row in pairs(rows) do values[name] = copy_value(row[3]) end
  hidden[self] = {values = values, assigned = {}, categories = {}, prefix = ""}
end

---Facts about an option or a category; metadata:check_type(value) refuses a value of another type,
---metadata:warn_if_deprecated() says when it is deprecated.
---Errors: an unknown option: `cfg:get_attribute_metadata "ipus"`
---@param name string such as "ipu_model.version"
---@return table metadata name, type, types, default, deprecated, deprecated_msg, doc
function IPUConfig:get_attribute_metadata(name)
  return metadata(hidden[self].prefix, name)
end

---Every option by its full dotted name; tables are copies.
---@return table<string, any>
function IPUConfig:to_dict()
  local dict = core.plain{}
  for name, value in pairs(hidden[self].values) do dict[name] = copy_value(value) end
  return dict
end

local named_at_most <const> = 3

local function warn_of_missing(who, missing)
  if #missing == 0 then return end
  local rest = #missing - named_at_most
  log.warn("%s was not given %d of the %d options, which stay as they are: %s%s", who, #missing,
    #full_names,
    table.concat(missing, ", ", 1, math.min(#missing, named_at_most)),
    rest > 0 and string.format(" and %d more", rest) or "")
end

-- Every value is checked before one is taken over.
local function take_over(self, dict, who)
  local data, kept, missing = hidden[self], {}, {}
  for name, value in next, dict do
    local row = type(name) == "string" and rows[name]
    if not row then refuse_unknown("", name, who) end
    kept[name] = checked(row, value, who)
  end
  for _, name in ipairs(full_names) do
    local value = kept[name]
    if value == nil then
      missing[#missing + 1] = name
    elseif lua_text(value) ~= lua_text(data.values[name]) then
      assign(data, name, value)
    end
  end
  warn_of_missing(who, missing)
end

---Takes over the options of a table as to_dict makes it. Options that it lacks keep their values;
---one warning names them.
---Errors: an unknown option, a value of another type: `cfg:from_dict{ipus = 2}`
---@param dict table<string, any>
function IPUConfig:from_dict(dict)
  if type(dict) ~= "table" then
    blame.error("IPUConfig: from_dict takes a table, got " .. args.describe(dict), "type")
  end
  take_over(self, dict, "IPUConfig: from_dict")
end

---The options as JSON, names sorted.
---@return string
function IPUConfig:to_json()
  local dict = self:to_dict()
  for name, value in pairs(dict) do
    if rows[name][2] == "ints" and type(value) == "table" then json.array(value) end
  end
  return json.encode(dict, {indent = 2})
end

---Takes over options from JSON, as from_dict does from a table.
---Errors: a text that is no JSON object, an unknown option: `cfg:from_json "[1]"`
---@param text string as to_json makes it
function IPUConfig:from_json(text)
  local dict, problem = json.parse(text)
  if problem then blame.error("IPUConfig: from_json: " .. problem, "value") end
  if type(dict) ~= "table" or json.is_array(dict) or dict[1] ~= nil then
    blame.error("IPUConfig: from_json takes an object of options", "value")
  end
  take_over(self, dict, "IPUConfig: from_json")
end

---An independent copy.
---@return IPUConfig
function IPUConfig:copy()
  local other, data = IPUConfig(), hidden[self]
  local target = hidden[other]
  for name, value in pairs(data.values) do target.values[name] = copy_value(value) end
  for name in pairs(data.assigned) do target.assigned[name] = true end
  return other
end

---@package
---The text form with a header line, for debugging.
---@return string
function IPUConfig:debug_text()
  return "IPUConfig:\n" .. lines(hidden[self], "  ")
end

-- ------------------------------------------------ for the library

local object = {IPUConfig = IPUConfig, lua_text = lua_text}

---The options and categories that a configuration or a category holds itself; nil of anything else.
---@param self any
---@return string[]?
function object.names(self)
  local data = hidden[self]
  if not data then return nil end
  local names, seen = {}, {}
  for _, full in ipairs(full_names) do
    local name = full:sub(1, #data.prefix) == data.prefix
      and full:sub(#data.prefix + 1):match("^%.?([%w_]+)")
    if name and not seen[name] then names[#names + 1] = name end
    seen[name or ""] = true
  end
  return names
end

---Copies of all values after a check of types (a script may have edited a table in place) and
---bounds.
---@param self IPUConfig
---@return table<string, any> values
---@return table<string, boolean> assigned the names that the script has set
function object.snapshot(self)
  local data, values = hidden[self], {}
  for _, name in ipairs(full_names) do
    local row = rows[name]
    local value = checked(row, data.values[name])
    option_rows.check_bounds(row, value, lua_text)
    values[name] = value
  end
  return values, copy_value(data.assigned)
end

---A number in auto_select_ipus or select_ipus becomes a list of one, as applying does.
---@param self IPUConfig
function object.listify(self)
  local values = hidden[self].values
  for _, name in ipairs {"auto_select_ipus", "select_ipus"} do
    if type(values[name]) == "number" then values[name] = {values[name]} end
  end
end

---One text for equal values, whatever the order of a table's keys.
---@param values table<string, any>
---@return string
function object.fingerprint(values)
  local text = {}
  for i, name in ipairs(full_names) do text[i] = lua_text(values[name]) end
  return table.concat(text, "\n")
end

class.guard(IPUConfig, {
  copy = true, debug_text = true, from_dict = true, from_json = true, get_attribute_metadata = true,
  to_dict = true, to_json = true,
})

return object
