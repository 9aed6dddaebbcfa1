-- ipu.dataset_benchmark: how fast a dataset delivers elements, without a program that uses them.

local args = require "ipulua.base.args"
local blame = require "ipulua.base.blame"
local class = require "ipulua.base.class"
local data = require "ipulua.data"
local json = require "ipulua.base.json"

local benchmark = {}

local spec <const> = {
  {"dataset", "any", one = true, of = "Dataset"},
  {"number_of_epochs", "integer", range = "[1, inf)"},
  {"elements_per_epochs", "integer", range = "[1, inf)"},
  {"print_stats", "boolean", true, says = "a line for each epoch"},
  {"apply_debug_options", "boolean", true, says = "changes nothing"},
  {"do_memcpy", "boolean", true, says = "copy the data, as an infeed does"},
}
local infeed_spec <const> = {
  {"infeed_queue", "any", one = true, of = "IPUInfeedQueue"},
  {"number_of_epochs", "integer", range = "[1, inf)"},
  {"elements_per_epochs", "integer", range = "[1, inf)"},
  {"print_stats", "boolean", true, says = "a line for each epoch"},
  {"do_memcpy", "boolean", true, says = "copy the data, as an infeed does"},
}

local function rate(amount, seconds) return seconds > 0 and amount / seconds or 0.0 end

-- elements_per_epochs elements, number_of_epochs times, from one iterator → JSON text.
local function measure(dataset, a)
  local it = dataset.handle:iterator()
  local epochs = {}
  for i = 1, a.number_of_epochs do
    local elements, bytes, seconds = it:benchmark(a.elements_per_epochs, a.do_memcpy)
    local per_second, bandwidth = rate(elements, seconds), rate(bytes, seconds) / 1e9
    epochs[i] = {
      elements_processed = elements, total_bytes_processed = bytes, time_elapsed = seconds,
      elements_per_second = per_second,
      bandwidth = bandwidth,
    }
    if a.print_stats then
      print(string.format("epoch %d: %d elements, %d bytes in %.6f s: %.1f elements/s, %.6f GB/s",
        i, elements, bytes, seconds,
        per_second, bandwidth))
    end
  end
  it:close()
  return json.encode{epochs = epochs}
end

---Pull elements from a dataset. The report is JSON text. apply_debug_options is accepted; it
---changes nothing here.
---Units: time_elapsed in seconds, total_bytes_processed in bytes, bandwidth in GB/s (1e9 bytes)
---Errors: no dataset, counts below 1: `ipu.dataset_benchmark.dataset_benchmark(1, 1, 1)`
---Source: dataset_benchmark.dataset_benchmark of Graphcore's TensorFlow 2.6
---@return string
function benchmark.dataset_benchmark(...)
  local a = args.check("dataset_benchmark", spec, ...)
  if not class.is_a(a.dataset, data.Dataset) then
    blame.error("dataset_benchmark: 'dataset' must be a dataset, got "
      .. args.describe(a.dataset), "type")
  end
  return measure(a.dataset, a)
end

---The same for a dataset in an infeed queue; not for a queue that a program uses.
---Units: as dataset_benchmark's
---Errors: no infeed queue, counts below 1: `ipu.dataset_benchmark.infeed_benchmark(1, 1, 1)`
---Source: dataset_benchmark.infeed_benchmark of Graphcore's TensorFlow 2.6
---@return string
function benchmark.infeed_benchmark(...)
  local a = args.check("infeed_benchmark", infeed_spec, ...)
  if not class.is_a(a.infeed_queue, data.IPUInfeedQueue) then
    blame.error("infeed_benchmark: 'infeed_queue' must be an IPUInfeedQueue, got "
      .. args.describe(a.infeed_queue), "type")
  end
  if a.infeed_queue.dequeued then
    blame.error("infeed_benchmark: a program uses this queue; make another one of the same dataset",
      "failed_precondition")
  end
  return measure(a.infeed_queue.dataset, a)
end

return benchmark
