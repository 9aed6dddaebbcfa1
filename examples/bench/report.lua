-- Code that the workloads share: data, timing, and the JSON line at the end. Part of w1.lua, …
-- w7.lua.
local core = require "ipulua.core"
local ipu = require "ipulua"
require "ipulua.script".part("w1.lua, … w7.lua")

local report = {}

---MNIST's training set, from $IPULUA_DATA/mnist or drawn.
function report.mnist()
  local x, y = ipu.keras.datasets.mnist.load_data()
  return x, y
end

---Windows of a text as batches: characters [batch, length] and those that follow them. Endless, in
---random order.
---@param text userdata numbers of characters
---@param batch integer
---@param length integer
function report.windows(text, batch, length)
  local places = ipu.arange(length + 1)
  return ipu.data.range(text.size - length):shuffle(100000):batch(batch, {drop_remainder = true})
    :map(function(starts)
      local chars = ipu.gather(text, ipu.expand_dims(ipu.cast(starts, "int32"), 1) + places)
      return chars:slice({0, 0}, {batch, length}), chars:slice({0, 1}, {batch, length})
    end)
    :prefetch():repeat_n()
end

-- A figure with no more digits than it is good for, as string.format writes it: "%.1f", "%.4g".
local function rounded(format, figure) return tonumber(format:format(figure)) or figure end

---Train in chunks, take the median time of a step, print the JSON line.
---@param w {workload: string, steps: integer, flops: number, train: function, outfeed: table}
function report.run(w)
  local chunks <const> = 10
  local per_chunk = math.max(w.steps // chunks, 1)
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
  local function mean(first, count)
    return ipu.reduce_mean(losses:slice({first}, {count})):item()
  end
  local window = math.min(50, losses.size // 2)
  print(ipu.json.encode{
    workload = w.workload, threads = core.engine_info().threads,
    us_per_step = rounded("%.1f", median),
    gflops = rounded("%.1f", w.flops / median / 1e3),
    rss_mib = rounded("%.1f", core.peak_memory() / 2 ^ 20),
    startup_ms = rounded("%.0f", startup * 1e3), loss_first = rounded("%.4g", mean(0, window)),
    loss = rounded("%.4g", mean(losses.size - window, window)),
  })
end

return report
