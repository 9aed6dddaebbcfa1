-- A loop on the device: an infeed brings the data, and an outfeed takes the results of each
-- iteration.

local ipu = require "ipulua"
require "ipulua.script".arguments{"short"} -- it is short as it stands

local cfg = ipu.IPUConfig()
cfg.auto_select_ipus = 1
cfg:configure_ipu_system()

local ds = ipu.data.from_tensors(ipu.constant(1.0, {shape = {800}}))
  :map(function(x) return x, x end)
  :repeat_n()

local infeed = ipu.IPUInfeedQueue(ds)
local outfeed = ipu.IPUOutfeedQueue()

local function body(counter, x1, x2)
  outfeed:enqueue{d1 = x1 + x2, d2 = x1 - x2}
  return counter + 1
end

local my_net = ipu.func(function() return ipu.loops.repeat_n(10, body, {0}, infeed) end)

local strategy = ipu.IPUStrategy()
do
  local _ <close> = strategy:scope()
  print("counter", strategy:run(my_net))
  local result = outfeed:dequeue()
  for _, name in ipairs {"d1", "d2"} do
    local d = result[name]
    print(name, table.concat(d.shape, "x"), ipu.reduce_min(d):item(), ipu.reduce_max(d):item())
  end
end
