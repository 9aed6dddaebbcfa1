-- The class of datasets: the structure of elements, and reading them on the host. The methods that
-- make a longer chain are in functions.lua and order.lua.

local blame = require "ipulua.base.blame"
local class = require "ipulua.base.class"
local core = require "ipulua.core"
local elements = require "ipulua.data.elements"
local structure = require "ipulua.base.structure"
local host_strings = require "ipulua.data.host_strings"

---A chain of C iterators: each method makes a longer one. An element is a value, several, or a
---table of them.
---@class Dataset
local Dataset = class.new("Dataset")

function Dataset:init(handle, template)
  if type(handle) ~= "userdata" or getmetatable(handle).__name ~= "ipulua.Dataset" then
    blame.error("a dataset is made by ipu.data.from_tensor_slices, from_csv, from_generator …",
      "type")
  end
  self.handle = handle
  self.template = template
end

---The number of elements; -1 if it is endless, -2 if it is unknown.
---@return integer
function Dataset:cardinality() return self.handle:cardinality() end

-- A slip is an error; other names are nil, as in any table.
function Dataset:__index(name)
  if name == "element_spec" then
    local specs, text = {}, host_strings.components(self.template) or {}
    for i, t in ipairs(self.handle:types()) do
      specs[i] = core.plain{shape = t.shape, dtype = text[i] and "string" or t.dtype}
    end
    return structure.rebuild(self.template, specs)
  end
  if math.type(name) == "integer" then -- ipairs(ds), ds[1]
    blame.error("a dataset has no positions; `for x in ds:iter() do` walks over its elements",
      "type")
  end
  local method = rawget(Dataset, name)
  if method == nil and type(name) == "string" then elements.suggest("a dataset", name, Dataset) end
  return method
end

---Says which of the library's functions made the dataset, where that is not the name of the first C
---iterator.
---@param name string
---@return Dataset
---@package
function Dataset:made_by(name)
  self.maker = name
  return self
end

-- "float32[3]", or the entries of a tuple or dict, which are in braces inside another one.
local function element_text(template, shown, is_inner)
  if template.leaf then return shown[template.leaf] end
  local parts, tuple = {}, elements.is_tuple(template)
  for i, item in ipairs(template.items) do
    parts[i] = (tuple and "" or item[1] .. " = ") .. element_text(item[2], shown, true)
  end
  local text = table.concat(parts, ", ")
  return (is_inner or not tuple) and "{" .. text .. "}" or text
end

function Dataset:__tostring()
  local shown, text = {}, host_strings.components(self.template) or {}
  for i, t in ipairs(self.handle:types()) do
    shown[i] = structure.type_text(text[i] and "string" or t.dtype, t.shape)
  end
  return string.format("Dataset(%s: %s)", rawget(self, "maker") or self.handle:describe(),
    element_text(self.template, shown))
end

-- #ds: how many elements, where that is known.
function Dataset:__len()
  local count = self:cardinality()
  if count >= 0 then return count end
  blame.error(string.format("the length of a dataset that is %s can't be told; ds:cardinality() is "
    .. "%d",
    count == -1 and "endless" or "read until it ends", count), "value")
end

-- Called by `for x in ds do`.
function Dataset.__call()
  blame.error("a dataset is no function; `for x in ds:iter() do` walks over its elements", "type")
end

-- Called by `for k, v in pairs(ds) do`.
function Dataset.__pairs()
  blame.error("a dataset is no table; `for x in ds:iter() do` walks over its elements", "type")
end

local closer_meta <const> = {__close = function(self) self.it:close() end,
  __tostring = function() return "<ends with the loop>" end}

---`for x, y in ds:iter() do`: on the host, from the beginning.
---Shapes: elements as in the dataset
---@return fun(): ...
function Dataset:iter()
  local step, it = elements.reader(self)
  return step, nil, nil, setmetatable({it = it}, closer_meta)
end

return Dataset
