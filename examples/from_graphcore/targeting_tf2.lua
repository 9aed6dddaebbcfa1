-- A matrix product in a compiled function, run by the strategy: once with operands as arguments,
-- once with operands made inside.

local ipu = require "ipulua"
require "ipulua.script".arguments{"short"} -- it is short as it stands

local cfg = ipu.IPUConfig()
cfg.auto_select_ipus = 1
cfg:configure_ipu_system()

local function operands()
  return ipu.constant({{1.0, 2.0, 3.0}, {4.0, 5.0, 6.0}}),
    ipu.constant({{1.0, 2.0}, {3.0, 4.0}, {5.0, 6.0}})
end

local product = ipu.func(function(x, y) return ipu.matmul(x, y) end)
local own_product = ipu.func(function() return ipu.matmul(operands()) end)

local strategy = ipu.IPUStrategy()
local _ <close> = strategy:scope()
print(strategy:run(product, {operands()}))
print(strategy:run(own_product))
