-- Trainings of every kind that go on and on, and what is held meanwhile. spec/engine/soak_spec.lua
-- asserts the counts of short runs. As a script, `ipulua spec/support/soak.lua MINUTES KIND` (`make
-- soak`), one kind runs for so long. Kinds that make and drop things run 10,000 times. The printed
-- line says how memory and time change by the step.

local ipu = require "ipulua"
local config = require "ipulua.config"
local core = require "ipulua.core"
local func = require "ipulua.trace.func"

local keras, layers = ipu.keras, ipu.keras.layers
local soak = {}

-- ------------------------------------------------ what is held

---Bytes of tensors, of Lua, of all that malloc gave; programs that are told of. After full
---collections: what goes with one may have kept what goes with the next. What is kept for scripts
---to ask for, and has a bound of its own, is let go of before: events, and records of the programs
---of functions that are gone.
---@return table<string, integer> held tensors, lua, heap (where it is known), programs
function soak.held()
  ipu.ipu_event_trace()
  for _ = 1, 4 do collectgarbage() end
  func.prune(0)
  collectgarbage()
  local lua = collectgarbage("count") * 1024 // 1
  return {tensors = core.bytes_alive(), lua = lua, heap = core.heap_bytes(),
    programs = #func.compiled()}
end

---What is held after so many steps more than before them, when as many have gone before that.
---@param step fun(i: integer)
---@param steps integer
function soak.growth(step, steps)
  local function run(first)
    for i = first, first + steps - 1 do
      step(i)
      if i % 20 == 0 then collectgarbage() end -- weak tables grow by what it leaves till it comes
    end
  end
  run(1)
  local before = soak.held()
  run(steps + 1)
  local after, grown = soak.held(), {}
  for what, count in pairs(before) do grown[what] = after[what] - count end
  return grown
end

-- ------------------------------------------------ trainings

local rows <const>, features <const>, classes <const>, batch <const> = 32, 6, 3, 4

---Rows of numbers and their classes.
function soak.samples()
  local labels = ipu.random.uniform({rows}, {maxval = classes, seed = 12})
  return ipu.random.normal({rows, features}, {seed = 11}), ipu.cast(labels, "int32")
end

---The same in batches, again and again.
function soak.endless()
  local x, y = soak.samples()
  return ipu.data.from_tensor_slices{x, y}:batch(batch, {drop_remainder = true}):repeat_n()
end

local function network()
  local first = layers.Dense{8, activation = "tanh", input_shape = {features}}
  return keras.Sequential{first, layers.Dense{classes}}
end

local function crossentropy()
  return keras.losses.SparseCategoricalCrossentropy{from_logits = true}
end

---A small model, compiled.
function soak.compiled_model(steps_per_execution)
  local model = network()
  model:compile{optimizer = keras.optimizers.Adam(0.01), loss = crossentropy(),
    metrics = {"accuracy"}, steps_per_execution = steps_per_execution or 8}
  return model
end

local function device(ipus)
  config.reset_ipu_configuration()
  local cfg = ipu.IPUConfig()
  cfg.auto_select_ipus = ipus
  cfg:configure_ipu_system()
end

-- f in a strategy's scope, on so many IPUs.
local function on_ipus(ipus, f)
  device(ipus)
  local _ <close> = ipu.IPUStrategy():scope()
  return f()
end

local function fits(model, dataset)
  return function() model:fit(dataset, {epochs = 1, steps_per_epoch = 8, verbose = 0}) end
end

---By kind: makes what it needs and gives its step.
---@type table<string, fun(): fun(i: integer)>
soak.kinds = {}

---A tape, gradients and an optimizer of one's own loop.
function soak.kinds.eager()
  device(1)
  local x, y = soak.samples()
  local model = network()
  local loss, optimizer = crossentropy(), keras.optimizers.Adam(0.01)
  return function()
    local tape <close> = ipu.GradientTape()
    local error = loss(y, model(x))
    local weights = model.trainable_variables
    optimizer:apply_gradients(tape:gradient(error, weights), weights)
  end
end

function soak.kinds.compiled()
  return on_ipus(1, function() return fits(soak.compiled_model(), soak.endless()) end)
end

function soak.kinds.pipeline()
  return on_ipus(2, function()
    local model = soak.compiled_model()
    model:set_pipeline_stage_assignment{0, 1}
    model:set_pipelining_options{gradient_accumulation_steps_per_replica = 4}
    return fits(model, soak.endless())
  end)
end

function soak.kinds.replicas()
  return on_ipus(2, function() return fits(soak.compiled_model(4), soak.endless()) end)
end

---Stages with threads of their own, begun anew in every step.
function soak.kinds.datasets()
  return on_ipus(1, function()
    local x, y = soak.samples()
    local model = soak.compiled_model()
    return function(i)
      local dataset = ipu.data.from_tensor_slices{x, y}:shuffle(rows, {seed = i})
        :map(function(a, b) return a * 2, b end, {num_parallel_calls = 2})
        :batch(batch, {drop_remainder = true}):prefetch(2)
      model:fit(dataset, {epochs = 1, verbose = 0})
    end
  end)
end

-- ------------------------------------------------ the prompt

-- Typed lines, a text each: globals, functions traced anew, results that are shown, help, a
-- mistake, a loop of two lines.
local typed <const> = {
  "x = ipu.ones{2, 3} * %d", "x", "f = ipu.func(function(a) return a + %d end)", "f(x)",
  "ipu.Variable(x)", "help(ipu.matmul)", "x:matmul(x)", "for i = 1, 2 do", "print(i) end",
}

---What is typed at step i.
function soak.typed(i) return (table.concat(typed, "\n"):gsub("%%d", i) .. "\n") end

---What is typed to have this module there.
soak.typed_first = "ipu = require 'ipulua'; soak = dofile 'spec/support/soak.lua'\n"

-- ------------------------------------------------ long runs

local columns <const> = {"began", "ended", "tensors", "lua", "heap", "resident"}

---How many threads the process has.
function soak.threads()
  local file <close> = assert(io.open("/proc/self/status"))
  return math.tointeger(tonumber(file:read("a"):match("Threads:%s*(%d+)")))
end

local function resident() -- bytes
  local file <close> = assert(io.open("/proc/self/status"))
  return tonumber(file:read("a"):match("VmRSS:%s*(%d+) kB")) * 1024
end

-- Takes down what is held now, and the processor time when the look at it began and ended, which
-- other programs don't change.
local function fill(s, steps)
  s.steps, s.began = steps, os.clock()
  local held = soak.held()
  s.tensors, s.lua, s.heap, s.resident = held.tensors, held.lua, held.heap or 0, resident()
  s.ended = os.clock()
  return s
end

---A sample as a line of text, for a prompt to print.
function soak.print_sample(steps)
  local s, parts = fill({}, steps), {"sample", steps}
  for i, name in ipairs(columns) do parts[i + 2] = s[name] end
  print(table.concat(parts, " "))
end

---The slope of ys by xs, and its standard error.
function soak.slope(xs, ys)
  local n, mx, my, sxx, sxy, rest = #xs, 0, 0, 0, 0, 0
  for i = 1, n do mx, my = mx + xs[i] / n, my + ys[i] / n end
  for i = 1, n do sxx, sxy = sxx + (xs[i] - mx) ^ 2, sxy + (xs[i] - mx) * (ys[i] - my) end
  local slope = sxy / sxx
  for i = 1, n do rest = rest + (ys[i] - my - slope * (xs[i] - mx)) ^ 2 end
  return slope, (rest / (n - 2) / sxx) ^ 0.5
end

local samples_a_run <const>, warm_up <const> = 60, 0.1 -- a tenth of the time isn't counted

local function print_slopes(kind, samples)
  local steps, times, memory = {}, {}, {tensors = {}, lua = {}, heap = {}, resident = {}}
  for i = 2, #samples do
    local s, before = samples[i], samples[i - 1]
    steps[i - 1] = s.steps
    times[i - 1] = (s.began - before.ended) / (s.steps - before.steps) * 1e9
    for name, list in pairs(memory) do list[i - 1] = s[name] end
  end
  local first, last = samples[1], samples[#samples]
  local function slope(list, unit)
    local change, by = soak.slope(steps, list)
    return (("%.2f ± %.2f %s"):format(change, by, unit):gsub("^%-0%.00", "0.00"))
  end
  local shown = {("%-8s %d steps, %.0f µs a step; by the step:"):format(kind, last.steps,
    (last.began - first.ended) / (last.steps - first.steps) * 1e6)}
  for _, name in ipairs{"heap", "lua", "tensors", "resident"} do
    shown[#shown + 1] = name .. " " .. slope(memory[name], "B")
  end
  print(table.concat(shown, " "), "time " .. slope(times, "ns"))
end

-- Calls step(i) until the time is up, and look(i) at times after the warm-up.
local function run(seconds, step, look)
  local begun, i, looks = core.clock(), 0, 0
  local next_look, between = begun + warm_up * seconds, (1 - warm_up) * seconds / samples_a_run
  while core.clock() < begun + seconds do
    i = i + 1
    step(i)
    if looks < samples_a_run and core.clock() >= next_look then
      looks = looks + 1
      look(i)
      next_look = next_look + between
    end
  end
end

-- Calls step(i) so often, and look(i) as often as above.
local function run_counted(steps, step, look)
  local first, every = warm_up * steps // 1, (1 - warm_up) * steps // samples_a_run
  for i = 1, steps do
    step(i)
    if i > first and (i - first) % every == 0 then look(i) end
  end
end

---What isn't a training, and is made and dropped so often instead of for so long.
soak.counted = {steps = 10000}

function soak.counted.models()
  return function() fits(soak.compiled_model(), soak.endless())() end
end

function soak.counted.functions()
  local x = soak.samples()
  return function(i) ipu.func(function(a) return ipu.tanh(a * i) end)(x) end
end

local function run_kind(kind, seconds)
  local counted = soak.counted[kind]
  local step, samples, count = (counted or soak.kinds[kind])(), {}, 0
  for i = 1, samples_a_run do -- memory that is there from the beginning
    samples[i] = {steps = 0, began = 0, ended = 0, tensors = 0, lua = 0, heap = 0, resident = 0}
  end
  local function look(i)
    count = count + 1
    fill(samples[count], i)
  end
  if counted then run_counted(soak.counted.steps, step, look) else run(seconds, step, look) end
  return table.move(samples, 1, count, 1, {})
end

local function run_prompt(seconds)
  local path, samples = os.tmpname(), {}
  local words = ("'%s' -i 2>&1 | grep '^[> ]*sample ' >'%s'"):format(arg[-1], path)
  local pipe = assert(io.popen(words, "w"))
  pipe:setvbuf("line")
  pipe:write(soak.typed_first)
  run(seconds, function(i) pipe:write(soak.typed(i)) end,
    function(i) pipe:write(("soak.print_sample(%d)\n"):format(i)) end)
  pipe:close()
  for line in io.lines(path) do
    local s = {}
    local numbers = line:match("sample (.*)"):gmatch("%S+")
    s.steps = tonumber(numbers())
    for _, name in ipairs(columns) do s[name] = tonumber(numbers()) end
    samples[#samples + 1] = s
  end
  os.remove(path)
  return samples
end

if arg and arg[0] == "spec/support/soak.lua" then
  local seconds, kind = (tonumber(arg[1]) or 10) * 60, arg[2]
  local known = kind == "prompt" or soak.kinds[kind] or soak.counted[kind]
  if not known or kind == "steps" then
    error("KIND is eager, compiled, pipeline, replicas, datasets, prompt, models or functions")
  end
  print_slopes(kind, kind == "prompt" and run_prompt(seconds) or run_kind(kind, seconds))
end

return soak
