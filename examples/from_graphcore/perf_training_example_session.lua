-- perf_training_example.lua with a session. The loop is compiled into one program, whose results
-- come by the outfeed alone.

local ipu = require "ipulua"
require "ipulua.script".arguments{"short"} -- it is short as it stands

local cfg = ipu.IPUConfig()
cfg.auto_select_ipus = 1
cfg:configure_ipu_system()

local ds = ipu.data.from_tensors(ipu.constant(1.0, {shape = {800}}))
  :map(function(x) return {x, x} end)
  :repeat_n()

local infeed_queue = ipu.IPUInfeedQueue(ds)
local outfeed_queue = ipu.IPUOutfeedQueue()

local function body(x1, x2) return outfeed_queue:enqueue{d1 = x1 + x2, d2 = x1 - x2} end

local function my_net() return ipu.loops.repeat_n(10, body, {}, infeed_queue) end

local run_loop = ipu.ipu_scope("/device:IPU:0")(function()
  return ipu.ipu_compiler.compile(my_net, {})
end)

do
  local sess <close> = ipu.Session()
  sess:run(infeed_queue:initializer())
  sess:run(run_loop)
  local result = outfeed_queue:dequeue()
  for _, name in ipairs {"d1", "d2"} do
    local d = result[name]
    print(name, table.concat(d.shape, "x"), ipu.reduce_min(d):item(), ipu.reduce_max(d):item())
  end
end
