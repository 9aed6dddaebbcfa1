-- Public modules answer a name that they don't have with the nearest one that they do have.

local blame = require "ipulua.base.blame"
local core = require "ipulua.core"

local modules = {}

local entries = setmetatable({}, {__mode = "k"})

---A value as scripts get it: a function by its entry, always the same one.
---@param value any
---@return any
function modules.offered(value)
  if type(value) ~= "function" then return value end
  entries[value] = entries[value] or core.entry(value)
  return entries[value]
end

---The functions of a module, as scripts get them.
---@param module table
function modules.offer_all(module)
  for key, value in next, module do module[key] = modules.offered(value) end
end

---Makes a module suggest names for misspelt ones. Names that its metatable finds are found as
---before.
---@param name string as scripts write it: "ipu.nn"
---@param module table
---@param find? fun(key: any): any what it has beside its fields, which __names() of it lists
---@return table module
function modules.guard(name, module, find)
  local meta = getmetatable(module) or {}
  local former = meta.__index
  -- a class, say
  if meta.guarded or (getmetatable(module) and type(former) ~= "function") then return module end
  meta.guarded = true
  modules.offer_all(module)
  meta.__tostring = meta.__tostring or function()
    return string.format("<module %s; help(%s) lists its names>", name, name)
  end
  meta.__index = function(t, key)
    local found = find and find(key)
    if found == nil and former then found = former(t, key) end
    if found ~= nil then return modules.offered(found) end
    if type(key) ~= "string" or key:sub(1, 2) == "__" then return nil end
    local names = {}
    for each in next, t do names[#names + 1] = each end
    local lister = rawget(t, "__names")
    local listed = lister and lister() or {}
    table.move(listed, 1, #listed, #names + 1, names)
    table.sort(names)
    local ipu = name:find("^ipu%.") and modules.public()
    local above = ipu and rawget(ipu, key) and "; did you mean 'ipu." .. key .. "'?" -- ipu.nn.top_k
    local hint = require "ipulua.base.elsewhere".hint(name, key) or above
      or require "ipulua.nearest".hint(key, names)
    blame.error(string.format("%s has no '%s'%s", name, key, hint), "value")
  end
  return setmetatable(module, meta)
end

local public -- see modules.publish

---Says which is the module that scripts require.
---@param module table
function modules.publish(module) public = module end

---The module that scripts require; nil before it is loaded. Only files that it loads ask for it.
---@return table?
function modules.public() return public end

---Whether x is a module that suggests names, as the modules that scripts see do.
---@param x table
---@return boolean
function modules.is_guarded(x)
  local meta = getmetatable(x)
  return type(meta) == "table" and rawget(meta, "guarded") == true
end

return modules
