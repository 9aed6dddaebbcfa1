-- Costs besides the arithmetic, a JSON line each: deep models, compiling, ops one at a time,
-- queues, reading batches, long loops, memory. Figures are for reading; nothing fails here.
-- `costs.lua --depth --op` measures those alone.
local core = require "ipulua.core"
local ipu = require "ipulua"
local keras = ipu.keras

local names <const> = {"depth", "compile", "eager", "op", "queues", "reading", "memory", "arena"}
local chosen <const> = {require "ipulua.script".arguments(names)}
local all = true
for _, is_chosen in ipairs(chosen) do all = all and not is_chosen end

-- Every program that is compiled from here on.
local compiled = {}
local trace_end = core.trace_end
core.trace_end = function(...)
  local program = trace_end(...)
  compiled[#compiled + 1] = program
  return program
end

local function report(name, figures)
  figures.name = name
  print(ipu.json.encode(figures))
end

-- The least of several times, in seconds: other work on the machine only adds.
local function least(rounds, f)
  local best = math.huge
  for _ = 1, rounds do
    local start = core.clock()
    f()
    best = math.min(best, core.clock() - start)
  end
  return best
end

local function int(n) return ipu.tensor(n, {dtype = "int32"}) end

local costs = {}

-- A step of an MLP of 64 layers against what a layer costs where there is one, or two. A layer
-- takes three products, the first one two: nobody asks for the gradient of the data. So 64 layers
-- are 95.5 times one layer's work.
function costs.depth()
  local width <const>, batch <const>, steps <const> = 128, 256, 20
  local x, y = ipu.random.normal({batch, width}, {seed = 1}),
    ipu.random.normal({batch, width}, {seed = 2})
  local function step_time(depth)
    local model = keras.Sequential()
    for _ = 1, depth do model:add(keras.layers.Dense{width, activation = "relu"}) end
    model:build{batch, width}
    local optimizer = keras.optimizers.SGD(0.001)
    local train = ipu.func(function(count)
      return ipu.loops.repeat_n(count, function()
        local loss = ipu.reduce_mean(ipu.squared_difference(model(x), y))
        local variables = model.trainable_variables
        optimizer:apply_gradients(ipu.gradients(loss, variables), variables)
      end)
    end)
    train(int(1))
    return least(10, function() train(int(steps)) end) / steps
  end
  local one, two, deep = step_time(1), step_time(2), step_time(64)
  report("depth", {us_first = one * 1e6, us_layer = (two - one) * 1e6, us_64 = deep * 1e6,
    layers_in_64 = deep / one,
    time_by_work = deep / one / ((3 * 64 - 1) / 2)})
end

-- Tracing and compiling a chain of products and sums.
function costs.compile()
  local a = ipu.ones{4, 4}
  local function seconds(nodes)
    return least(2, function()
      local f = ipu.func(function(x)
        for _ = 1, nodes // 2 do x = ipu.matmul(x, a) + 1 end
        return x
      end)
      f(ipu.ones{4, 4})
    end)
  end
  for _, nodes in ipairs{1000, 2000, 5000, 10000, 20000} do
    local s = seconds(nodes)
    report("compile", {nodes = nodes, seconds = s, us_per_node = s / nodes * 1e6})
  end
end

-- Ops one at a time, as at the prompt.
function costs.eager()
  local x, count <const> = ipu.ones{4}, 20000
  local seconds = least(5, function()
    local y = x
    for _ = 1, count do y = y + x end
  end)
  report("eager", {ops_per_second = count / seconds})
end

-- An op of a compiled program that has next to nothing to do. Transpositions can't be fused or left
-- out.
function costs.op()
  local ops <const>, rounds <const> = 1000, 200
  local f = ipu.func(function(n, x)
    return ipu.loops.repeat_n(n, function(y)
      for _ = 1, ops do y = ipu.reverse(y, {0}) end
      return y
    end, {x})
  end)
  local x = ipu.ones{2}
  f(int(1), x)
  local seconds = least(7, function() f(int(rounds), x) end)
  report("op", {ns_per_op = seconds / rounds / ops * 1e9,
    steps = compiled[#compiled]:describe().steps})
end

-- W1's step alone, and with an outfeed and two running metrics.
function costs.queues()
  local steps <const> = 1000
  local x, y = ipu.random.normal({32, 784}, {seed = 1}),
    ipu.random.uniform({32}, {maxval = 10, dtype = "int32", seed = 2})
  local function training(watched)
    local model = keras.Sequential{keras.layers.Dense{128, activation = "relu"},
      keras.layers.Dense(10)}
    model:build{32, 784}
    local loss_of, optimizer = keras.losses.SparseCategoricalCrossentropy{from_logits = true},
      keras.optimizers.SGD(0.01)
    local mean, accuracy = keras.metrics.Mean(), keras.metrics.SparseCategoricalAccuracy()
    local outfeed = ipu.IPUOutfeedQueue()
    local train = ipu.func(function(count)
      return ipu.loops.repeat_n(count, function()
        local logits = model(x)
        local loss, variables = loss_of(y, logits), model.trainable_variables
        optimizer:apply_gradients(ipu.gradients(loss, variables), variables)
        if watched then
          mean:update_state(loss)
          accuracy:update_state(y, logits)
          outfeed:enqueue(loss)
        end
      end)
    end)
    train(int(1))
    return function()
      local start = core.clock()
      train(int(steps))
      local seconds = core.clock() - start
      if watched then outfeed:dequeue() end
      return seconds / steps
    end
  end
  local plain, watched = training(false), training(true)
  local alone, both = math.huge, math.huge
  for _ = 1, 12 do alone, both = math.min(alone, plain()), math.min(both, watched()) end
  report("queues", {us_alone = alone * 1e6, us_watched = both * 1e6, share = both / alone - 1})
end

-- w1's step on the batches of a shuffled, mapped, prefetched dataset against the same step on a
-- batch that stays.
function costs.reading()
  local steps <const>, batch <const> = 2000, 32
  local images, labels = keras.datasets.mnist.load_data()
  local function prepared(x, y)
    return ipu.cast(x:reshape{batch, 784}, "float32") / 255, ipu.cast(y, "int32")
  end
  local ds = ipu.data.from_tensor_slices{images, labels}:shuffle(60000):batch(batch,
    {drop_remainder = true}):map(prepared)
    :prefetch():repeat_n()
  local x, y = prepared(images:slice({0, 0, 0}, {batch, 28, 28}), labels:slice({0}, {batch}))
  local function training(infeed)
    local model = keras.Sequential{keras.layers.Dense{128, activation = "relu"},
      keras.layers.Dense(10)}
    model:build{batch, 784}
    local loss_of, optimizer = keras.losses.SparseCategoricalCrossentropy{from_logits = true},
      keras.optimizers.SGD(0.01)
    local function step(some_x, some_y)
      optimizer:minimize(loss_of(some_y, model(some_x)), {var_list = model.trainable_variables})
    end
    local train = ipu.func(function(count)
      return ipu.loops.repeat_n(count, infeed and step or function() step(x, y) end, {}, infeed)
    end)
    train(int(1))
    return function()
      local start = core.clock()
      train(int(steps))
      return (core.clock() - start) / steps
    end
  end
  local read, stays = training(ipu.IPUInfeedQueue(ds)), training()
  local with, without = math.huge, math.huge
  for _ = 1, 12 do with, without = math.min(with, read()), math.min(without, stays()) end
  report("reading", {threads = core.engine_info().threads, us_step = with * 1e6,
    us_same_batch = without * 1e6,
    us_reading = (with - without) * 1e6})
end

-- A million steps that enqueue nothing, or into a queue that keeps the last value.
function costs.memory()
  for _, mode in ipairs{"none", "LAST"} do
    local outfeed = ipu.IPUOutfeedQueue{outfeed_mode = ipu.IPUOutfeedMode.LAST}
    local f = ipu.func(function(n)
      return ipu.loops.repeat_n(n, function(x)
        if mode == "LAST" then outfeed:enqueue(x) end
        return x + 1
      end, {0.0})
    end)
    f(int(1000))
    local before = core.peak_memory()
    f(int(1000000))
    report("memory", {enqueues = mode, grown_bytes = core.peak_memory() - before})
  end
end

-- Planned memory against the most that is live at once.
function costs.arena()
  local function plan(name, model, shape)
    model:build(shape)
    local optimizer = keras.optimizers.Adam()
    local f = ipu.func(function(x)
      local loss = ipu.reduce_mean(ipu.square(model(x, {training = true})))
      local variables = model.trainable_variables
      optimizer:apply_gradients(ipu.gradients(loss, variables), variables)
      return loss
    end)
    f(ipu.random.normal(shape))
    local d = compiled[#compiled]:describe()
    report("arena", {model = name, planned_bytes = d.memory_bytes, live_bytes = d.live_bytes,
      ratio = d.memory_bytes / d.live_bytes})
  end
  local layers = keras.layers
  plan("mlp", keras.Sequential{layers.Dense{256, activation = "relu"},
    layers.Dense{128, activation = "relu"}, layers.Dense(10)},
    {32, 784})
  plan("cnn", keras.Sequential{layers.Conv2D{32, 3, activation = "relu"},
    layers.BatchNormalization(),
    layers.Conv2D{64, 3, activation = "relu"}, layers.MaxPooling2D(), layers.Flatten(),
    layers.Dense(10)}, {16, 28, 28, 1})
  plan("lstm", keras.Sequential{layers.LSTM{64, return_sequences = true}, layers.LSTM(64),
    layers.Dense(10)}, {16, 32, 40})
end

for i, name in ipairs(names) do
  if all or chosen[i] then costs[name]() end
end
