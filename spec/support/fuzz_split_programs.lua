-- Random programs under PopDistStrategy, without Keras' fit: fuzz_split_programs.lua SEED [COUNT].
-- Loops, pipelines and collectives are run by strategy:run, run_async or a session. All bits of
-- their results are printed. They are the same in every split (spec/support/all_splits.lua).

local ipu = require "ipulua"
local parts = require "spec.support.splits_parts"
local seeds = require "spec.support.fuzz_seeds"

local distributed, popdist = ipu.distributed, ipu.popdist
local pick <const>, below <const> = seeds.pick, seeds.below
local replicas <const>, width <const> = popdist.getNumTotalReplicas(), 6
local say <const>, digest <const> = parts.say, parts.digest

require "ipulua.base.log".set_writer(function() end)

-- ------------------------------------------------ collectives of a step

-- Each takes h [rows, width] and gives the same shape; groups lie across instances.
local function group(c) return {replica_group_size = c.group, replica_group_type = c.kind} end

local blocks <const> = {
  function(h) return ipu.tanh(h) end,
  function(h, c) return h + ipu.cross_replica_sum(h, group(c)) * 0.125 end,
  function(h, c) return h - ipu.cross_replica_mean(ipu.stop_gradient(h), group(c)) end,
  function(h) return h + ipu.reduce_max(ipu.all_gather(h), {axis = 0}) * 0.25 end,
  function(h) return h * (1 + ipu.cast(ipu.replication_index(), "float32") * 0.25) end,
  function(h) return ipu.nn.dropout(h, {rate = 0.25, seed = 3}) end,
  function(h) return h + ipu.random.normal({width}, {stddev = 0.125}) end,
  function(h)
    local all = ipu.all_to_all(ipu.tile(h, {replicas, 1}), 0, 0)
    return h + ipu.reduce_mean(all, {axis = 0, keepdims = true})
  end,
  function(h)
    return ipu.loops.repeat_n(2, function(s) return ipu.cross_replica_mean(s) * 0.5 + s end, {h})
  end,
  function(h)
    local sum = ipu.cross_replica_sum(ipu.reduce_sum(h))
    return ipu.cond(ipu.less(sum, 0), function() return h + ipu.cross_replica_mean(h) end,
      function() return h * 0.5 end)
  end,
  function(h)
    local flat = ipu.reshape(ipu.tile(h, {replicas, 1}), {-1})
    return h + ipu.reduce_mean(ipu.reduce_scatter(flat)) * 0.125
  end,
  function(h) return ipu.assume_equal_across_replicas(ipu.cross_replica_sum(h)) * 0.5 + h end,
}

local function random_case(random)
  local c = {
    group = pick(random, {1, 2, replicas}), kind = pick(random, {"CONSECUTIVE", "ORTHOGONAL"}),
    rows = 1 + below(random, 4), steps = 4 * (1 + below(random, 3)), blocks = {{}, {}, {}},
    way = pick(random, {"run", "run", "async", "session"}), pipelined = random() < 0.4,
    optimizer = pick(random, {"sgd", "momentum", "adam", "keras"}), accumulates = random() < 0.3,
    apart = random() < 0.3, own = pick(random, {"SUM", "MEAN", "ONLY_FIRST_REPLICA"}),
    last = random() < 0.2, twice = random() < 0.5, wide = random() < 0.2,
    schedule = pick(random, {"Grouped", "Interleaved", "Sequential", "OneFOneB"}),
    reduction = pick(random, {"SUM", "MEAN", "RUNNING_MEAN"}), offloads = random() < 0.3,
    recomputes = random() < 0.3,
  }
  for s = 1, 3 do
    for i = 1, below(random, 3) do c.blocks[s][i] = 1 + below(random, #blocks) end
  end
  if c.pipelined and c.optimizer == "keras" then c.optimizer = "sgd" end
  c.shares_ipu = random() < 0.5 and (c.schedule == "Grouped" or c.schedule == "Sequential")
  return c
end

-- ------------------------------------------------ the program

local optimizers <const> = {
  sgd = function() return ipu.train.GradientDescentOptimizer(0.03125) end,
  momentum = function() return ipu.train.MomentumOptimizer(0.03125, 0.5) end,
  adam = function() return ipu.train.AdamOptimizer(0.03125) end,
  keras = function() return ipu.keras.optimizers.RMSprop(0.03125) end,
}

local function optimizer_of(c)
  local optimizer = optimizers[c.optimizer]()
  if c.optimizer == "keras" then
    return c.apart and ipu.keras.optimizers.CrossReplicaOptimizer(optimizer) or optimizer
  end
  if c.apart then optimizer = ipu.optimizers.CrossReplicaOptimizer(optimizer) end
  if c.accumulates and not c.pipelined then
    optimizer = ipu.optimizers.GradientAccumulationOptimizerV2(optimizer, 4,
      {reduction_method = c.reduction})
  end
  return optimizer
end

local function weights_of(c, seed)
  local list = {}
  for s = 1, 3 do
    local shape = {width, width}
    if s == 2 and c.wide then shape = {width, 9000} end -- sums that go another way
    local value = ipu.random.normal(shape, {seed = seed + s, stddev = 0.25})
    if c.way == "session" then
      list[s] = ipu.get_variable("w" .. seed .. s, {shape = shape, initializer = value})
    else
      list[s] = ipu.Variable(value, {name = "w" .. s})
    end
  end
  return list
end

local function stage(c, w, s, h)
  h = h:matmul(w[s])
  if s == 2 and c.wide then h = h:matmul(w[s], {transpose_b = true}) end
  for _, number in ipairs(c.blocks[s]) do h = blocks[number](h, c) end
  return h
end

local function queue_of(strategy, c, seed)
  local n = c.rows * replicas * c.steps * 2
  local x = ipu.random.normal({n, width}, {seed = seed + 10})
  local y = ipu.random.normal({n, width}, {seed = seed + 11})
  return ipu.IPUInfeedQueue(strategy:experimental_distribute_dataset(
    ipu.data.from_tensor_slices{x, y}:batch(c.rows * replicas, {drop_remainder = true}))
    :repeat_n())
end

local function pipeline(c, w, infeed, outfeed)
  local options = {
    computational_stages = {
      function(x, y) return stage(c, w, 1, x), y end,
      function(h, y) return stage(c, w, 2, h), y end,
      function(h, y) return ipu.reduce_mean(ipu.square(stage(c, w, 3, h) - y)) end,
    },
    gradient_accumulation_count = 6,
    repeat_count = c.steps // 4, infeed_queue = infeed, outfeed_queue = outfeed,
    optimizer_function = function(loss)
      return ipu.OptimizerFunctionOutput(optimizer_of(c), loss)
    end,
    pipeline_schedule = c.schedule, reduction_method = c.reduction,
    device_mapping = c.shares_ipu and {0, 1, 1} or nil,
  }
  if c.offloads then
    options.offload_gradient_accumulation_buffers, options.offload_activations = true, true
  end
  if c.recomputes and c.schedule ~= "Sequential" then
    options.recomputation_mode = "RecomputeThenBackpropagate"
  end
  return ipu.pipeline(options)
end

local function loop(c, w, own, infeed, outfeed)
  local optimizer = optimizer_of(c)
  return ipu.loops.repeat_n(c.steps, function(total, x, y)
    local tape, h = ipu.GradientTape(), x
    local loss = tape(function()
      for s = 1, 3 do h = stage(c, w, s, h) end
      return ipu.reduce_mean(ipu.square(h - y))
    end)
    if own then own:assign_add(ipu.stop_gradient(loss)) end
    if c.accumulates and c.optimizer ~= "keras" then optimizer:minimize(loss, {var_list = w})
    else optimizer:apply_gradients(parts.pairs_of(tape:gradient(loss, w), w)) end
    outfeed:enqueue(loss)
    return total + loss
  end, {0.0}, infeed)
end

-- ------------------------------------------------ what is printed

-- An outfeed's values of all replicas: [values, replicas].
local function of_all(values)
  local mine <const> = popdist.getNumLocalReplicas()
  local rows = ipu.reshape(values, {-1, mine})
  local all = distributed.allgather(rows)
  return ipu.reshape(ipu.transpose(all, {1, 0, 2}), {-1, replicas})
end

local function run(strategy, c, f, w, outfeed, infeed)
  if c.way == "session" then
    local session <close> = ipu.Session()
    local compiled = ipu.ipu_compiler.compile(f)
    session:run(ipu.global_variables_initializer())
    session:run(infeed:initializer())
    for call = 1, c.twice and 2 or 1 do
      session:run(compiled)
      say("out", call, digest{of_all(session:run(outfeed:dequeue()))})
    end
    say("weights", digest(session:run(w)))
    return
  end
  local program = ipu.func(f)
  for call = 1, c.twice and 2 or 1 do
    if c.way == "async" then strategy:run_async(program):wait() else strategy:run(program) end
    say("out", call, digest{of_all(outfeed:dequeue())})
  end
  say("weights", digest(w))
end

local function check(c, seed)
  local cfg = ipu.IPUConfig()
  cfg.allow_recompute = c.recomputes
  popdist.set_ipu_config(cfg, {ipus_per_replica = not c.pipelined and 1 or c.shares_ipu and 2 or 4})
  cfg:configure_ipu_system()
  ipu.random.set_seed(seed)
  ipu.reset_default_graph()
  local strategy = ipu.PopDistStrategy{add_ipu_cross_replica_reductions = not c.apart}
  local _ <close> = strategy:scope()
  local w = weights_of(c, seed)
  local own = not c.pipelined and c.way ~= "session" and ipu.Variable(0.0,
    {synchronization = "ON_READ", aggregation = c.own, trainable = false})
  local infeed = queue_of(strategy, c, seed)
  local outfeed = ipu.IPUOutfeedQueue{outfeed_mode = c.last and "LAST" or "ALL"}
  run(strategy, c, function()
    if c.pipelined then return pipeline(c, w, infeed, outfeed) end
    return loop(c, w, own, infeed, outfeed)
  end, w, outfeed, infeed)
  if own then say("own", digest{own:read_value()}) end
  local all = distributed.allgather(ipu.tensor(parts.crc(), {dtype = "float64"}))
  say("alike", ipu.reduce_all(ipu.equal(all, all[1])):item())
end

local first <const> = math.tointeger(tonumber(arg[1]))
for seed = first, first + math.tointeger(tonumber(arg[2] or 1)) - 1 do
  local c = random_case(seeds.generator(seed))
  say("seed", seed, ipu.json.encode(c))
  local ok, problem = pcall(check, c, seed)
  if not ok then say("refused", (tostring(problem):gsub("^%S+:%d+: ", ""))) end
end
