-- ipu.pipeline itself: a network in two stages on two IPUs learns digits. The learning rate is an
-- input that the stages hand on to the optimizer function. The outfeed gets the loss of each
-- micro-batch.
local ipu = require "ipulua"

local repeat_count = require "ipulua.script".arguments{{"repeat_count", 100, short = 20}}
local count = 16 -- micro-batches of an update

local cfg = ipu.IPUConfig()
cfg.auto_select_ipus = 2
cfg:configure_ipu_system()

local x, y = ipu.keras.datasets.mnist.load_data()
local dataset = ipu.data.from_tensor_slices{x, y}
  :shuffle(10000, {seed = 7})
  :batch(16, {drop_remainder = true})
  :map(function(images, labels)
    return ipu.reshape(ipu.cast(images, "float32") / 255, {16, 784}), ipu.cast(labels, "int32")
  end)
  :repeat_n()
local infeed, outfeed = ipu.IPUInfeedQueue(dataset), ipu.IPUOutfeedQueue()

local function dense(name, input, units)
  local _ <close> = ipu.variable_scope(name, {use_resource = true})
  local kernel = ipu.get_variable("kernel",
    {shape = {input.shape[2], units}, initializer = "glorot_uniform"})
  local bias = ipu.get_variable("bias", {shape = {units}, initializer = "zeros"})
  return ipu.matmul(input, kernel) + bias
end

local function stage1(lr, images, labels)
  local hidden = ipu.nn.relu(dense("hidden", images, 128))
  return lr, hidden, labels
end

local function stage2(lr, hidden, labels)
  local logits = dense("logits", hidden, 10)
  local loss = ipu.reduce_mean(ipu.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))
  return lr, loss
end

local function optimizer_function(lr, loss)
  return ipu.OptimizerFunctionOutput(ipu.train.GradientDescentOptimizer(lr), loss)
end

local train = ipu.func(function(lr)
  return ipu.pipeline{
    computational_stages = {stage1, stage2}, gradient_accumulation_count = count,
    repeat_count = repeat_count,
    inputs = {lr}, infeed_queue = infeed, outfeed_queue = outfeed,
    optimizer_function = optimizer_function,
    pipeline_schedule = ipu.PipelineSchedule.Grouped, outfeed_loss = true,
    reduction_method = ipu.GradientAccumulationReductionMethod.MEAN,
  }
end, {name = "pipelining"})

ipu.IPUStrategy():run(train, {ipu.tensor(0.1)})
local losses = outfeed:dequeue()
print(ipu.timetable(train))
print(string.format("losses: %d, first %.4f, mean of the last %d %.4f", #losses,
  losses[1]:item(), count,
  ipu.reduce_mean(ipu.slice(losses, {#losses - count}, {count})):item()))
