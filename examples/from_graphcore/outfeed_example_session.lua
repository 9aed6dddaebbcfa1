-- outfeed_example.lua with a session. The loop runs twice. The second time its results are read
-- while it goes on.

local ipu = require "ipulua"

local steps <const> = require "ipulua.script".arguments{{"steps", 100, short = 20}}

local cfg = ipu.IPUConfig()
cfg.auto_select_ipus = 1
cfg:configure_ipu_system()

local ds = ipu.data.from_tensors(ipu.constant(1.0, {shape = {2, 20}})):repeat_n()
local infeed_queue = ipu.IPUInfeedQueue(ds)
local outfeed_queue = ipu.IPUOutfeedQueue()

local function dense(x, units, name)
  local _ <close> = ipu.variable_scope(name, {use_resource = true})
  local kernel = ipu.get_variable("kernel", {shape = {x.shape[2], units}})
  local bias = ipu.get_variable("bias", {shape = {units}, initializer = "zeros"})
  return x:matmul(kernel) + bias
end

local function inference_step(x)
  x = ipu.nn.relu(dense(x, 256, "dense_1"))
  x = ipu.nn.relu(dense(x, 128, "dense_2"))
  x = dense(x, 10, "dense_3")
  return outfeed_queue:enqueue(ipu.argmax(x, {axis = 1}))
end

local function inference_loop()
  return ipu.loops.repeat_n(steps, inference_step, {}, infeed_queue)
end

local run_loop = ipu.ipu_scope("/device:IPU:0")(function()
  return ipu.ipu_compiler.compile(inference_loop)
end)
ipu.move_variable_initialization_to_cpu()

local step = 0
local function show(classes)
  print(string.format("Step: %d classes: %s", step, tostring(classes)))
  step = step + 1
end

do
  local sess <close> = ipu.Session()
  sess:run(ipu.global_variables_initializer())
  sess:run(infeed_queue:initializer())

  sess:run(run_loop)
  for classes in outfeed_queue:iter() do show(classes) end

  local job = sess:run_async(run_loop)
  for classes in outfeed_queue:iter(job) do show(classes) end
  job:wait()
end
