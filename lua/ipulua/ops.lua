-- The library's own files compute with this module. It has the ops by their names in scripts
-- (ops.add, ops.nn.relu, ops.random.normal), and makes tensors of numbers (ops.tensor, ops.zeros,
-- …). Unlike the public module, it loads nothing else.

local core = require "ipulua.core"
local creation = require "ipulua.base.creation"

local ops = {nn = {}, random = {}}

for name, f in pairs(core.ops) do
  local module, leaf = name:match("^(.-)%.?([^.]+)$")
  local place = ops
  if module ~= "" then
    ops[module] = ops[module] or {}
    place = ops[module]
  end
  if not core.is_internal(name) then place[leaf] = f end
end

for _, name in ipairs{
  "tensor", "constant", "zeros", "ones", "full", "eye", "arange", "linspace", "is_tensor",
  "confusion_matrix",
} do ops[name] = creation[name] end

return ops
