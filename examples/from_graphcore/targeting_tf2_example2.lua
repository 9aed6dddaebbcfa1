-- The same product, with its operands made inside the function.

local ipu = require "ipulua"
require "ipulua.script".arguments{}

local strategy = ipu.IPUStrategy()

local matmul_fn = ipu.func(function()
  local x = ipu.constant({{1.0, 2.0, 3.0}, {4.0, 5.0, 6.0}})
  local y = ipu.constant({{1.0, 2.0}, {3.0, 4.0}, {5.0, 6.0}})
  return ipu.matmul(x, y)
end)

local _ <close> = strategy:scope()
print(strategy:run(matmul_fn))
