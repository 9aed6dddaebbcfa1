-- A matrix product in a compiled function, run by the strategy.

local ipu = require "ipulua"
require "ipulua.script".arguments{}

local cfg = ipu.IPUConfig()
cfg.auto_select_ipus = 1
cfg:configure_ipu_system()

local strategy = ipu.IPUStrategy()

local matmul_fn = ipu.func(function(x, y) return ipu.matmul(x, y) end)

do
  local _ <close> = strategy:scope()
  local x = ipu.constant({{1.0, 2.0, 3.0}, {4.0, 5.0, 6.0}})
  local y = ipu.constant({{1.0, 2.0}, {3.0, 4.0}, {5.0, 6.0}})
  print(strategy:run(matmul_fn, {x, y}))
end
