-- What the workloads share: data, timing, and the JSON line at the end.
local core = require "ipulua.core"
local ipu = require "ipulua"

local report = {}

---MNIST's training set, from $IPULUA_DATA/mnist or drawn.
function report.mnist()
  local x, y = ipu.keras.datasets.mnist.load_data()
  return x, y
end

---Train in chunks, take the median time of a step, print the JSON line.
function report.run(w)
  local chunks <const> = 10
  local per_chunk = w.steps // chunks
  w.train(ipu.tensor(1, {dtype = "int32"}))
  local startup = core.process_seconds()
  local times = {}
  for i = 1, chunks do
    local start = core.clock()
    w.train(ipu.tensor(per_chunk, {dtype = "int32"}))
    times[i] = (core.clock() - start) / per_chunk * 1e6
  end
  table.sort(times)
  local median = (times[chunks // 2] + times[chunks // 2 + 1]) / 2
  local losses = w.outfeed:dequeue()
  local function mean(first, count) return ipu.reduce_mean(losses:slice({first}, {count})):item() end
  local window = math.min(50, losses.size)
  print(ipu.json.encode{
    workload = w.workload, threads = core.engine_info().threads, us_per_step = median, gflops = w.flops / median / 1e3,
    rss_mib = core.peak_memory() / 2 ^ 20, startup_ms = startup * 1e3, loss_first = mean(0, window),
    loss = mean(losses.size - window, window),
  })
end

return report
