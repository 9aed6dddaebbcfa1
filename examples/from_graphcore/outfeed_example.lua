-- Results of a running program: a loop of 100 steps puts the answers of a classifier into an
-- outfeed. After the first run the script reads them all at once. It reads the values of the second
-- run while the loop goes on. All inputs are ones, so all answers are the same.

local ipu = require "ipulua"

local steps <const> = require "ipulua.script".arguments{{"steps", 100, short = 20}}

local cfg = ipu.IPUConfig()
cfg.auto_select_ipus = 1
cfg:configure_ipu_system()

local ds = ipu.data.from_tensors(ipu.constant(1.0, {shape = {2, 20}})):repeat_n()
local infeed = ipu.IPUInfeedQueue(ds)
local outfeed = ipu.IPUOutfeedQueue()

local function dense(x, units, name)
  local _ <close> = ipu.variable_scope(name, {use_resource = true, reuse = "auto"})
  local kernel = ipu.get_variable("kernel", {shape = {x.shape[2], units}})
  local bias = ipu.get_variable("bias", {shape = {units}, initializer = "zeros"})
  return x:matmul(kernel) + bias
end

local function body(x)
  x = ipu.nn.relu(dense(x, 256, "dense_1"))
  x = ipu.nn.relu(dense(x, 128, "dense_2"))
  x = dense(x, 10, "dense_3")
  outfeed:enqueue(ipu.argmax(x, {axis = 1}))
end

local loop = ipu.func(function() return ipu.loops.repeat_n(steps, body, {}, infeed) end)

local strategy = ipu.IPUStrategy()
local _ <close> = strategy:scope()

local step = 0
local function show(classes)
  print(string.format("Step: %d classes: %s", step, tostring(classes)))
  step = step + 1
end

strategy:run(loop)
for classes in outfeed:iter() do show(classes) end

local job = strategy:run_async(loop)
for classes in outfeed:iter(job) do show(classes) end
job:wait()
