-- Ops by the names that scripts call them by (ops.add, ops.nn.relu, ops.random.normal), and tensors
-- made of numbers (ops.tensor, ops.zeros, …): what the library's own files compute with. It loads
-- nothing else, as the public module would.

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
