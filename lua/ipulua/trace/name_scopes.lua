-- Names inside ipu.name_scope: "outer/inner/name".

local args = require "ipulua.base.args"
local core = require "ipulua.core"
local scope = require "ipulua.base.scope"

local names = {}

local here <const> = core.here -- here().prefix: of names made now, nil for none

---@param name string
---@return string
function names.qualified(name) return (here().prefix or "") .. name end

local function enter(new)
  local former = here().prefix
  core.set_name_prefix(new) -- it may fail if memory is short
  here().prefix = new
  return function()
    here().prefix = former
    core.set_name_prefix(former or "")
  end
end

---The names of nodes inside layers; "" outside.
function names.set_layers(path) core.set_name_prefix(names.qualified(path)) end

local spec <const> = {{"name", "string"}}

---Names made inside begin with name.
---Errors: a name that is no string: `ipu.name_scope(1)`
---Source: tf.name_scope of TensorFlow 2.6
---@return Scope
function names.name_scope(...)
  local a = args.check("name_scope", spec, ...)
  return scope.new("name_scope(" .. a.name .. ")", enter(names.qualified(a.name .. "/")))
end

return names
