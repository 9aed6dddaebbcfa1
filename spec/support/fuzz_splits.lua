-- Trainings of a random kind under PopDistStrategy: fuzz_splits.lua SEED [COUNT [FOLDER PART]]. All
-- that a script can see is printed in all its bits. The same replicas print the same in every
-- split, whatever the launcher. spec/support/all_splits.lua runs the splits.
--
-- With a folder the trainings are backed up there. As part "begin" each stops in its midst, as
-- "resume" it goes on. A training that is resumed in any split ends as one without a stop.

local ipu = require "ipulua"
local seeds = require "spec.support.fuzz_seeds"
local parts = require "spec.support.splits_parts"

local keras, popdist, distributed = ipu.keras, ipu.popdist, ipu.distributed
local layers <const> = keras.layers
local pick <const>, below <const> = seeds.pick, seeds.below
local replicas <const> = popdist.getNumTotalReplicas()
local say <const>, bits <const>, digest <const> = parts.say, parts.bits, parts.digest

require "ipulua.base.log".set_writer(function() end)

-- ------------------------------------------------ the case

local function random_case(random)
  local function chance(p) return random() < p end
  local c = {
    stages = chance(0.35) and 2 or 1, accumulation = pick(random, {1, 1, 2, 3}),
    recurrent = chance(0.25), half = chance(0.15), group = pick(random, {1, 1, 2, replicas}),
    optimizer = pick(random, {"sgd", "momentum", "adam", "rmsprop", "clipped", "averaged", "decay",
      "scaled"}),
    own_step = true, reduction = pick(random, {"SUM", "MEAN", "RUNNING_MEAN"}),
    metric_reduction = pick(random, {"NONE", "NONE", "LIST", "SUM", "MEAN"}),
    shuffles = chance(0.5), validates = chance(0.4), weighted = chance(0.3),
    classes = chance(0.2), asynchronous = chance(0.2), twice = chance(0.3), kinds = {},
    rounds = chance(0.3), draws = chance(0.6), runs = 1 + below(random, 2),
    callbacks = {}, outfeed_sum = chance(0.15),
  }
  for i = 1, 2 + below(random, 3) do c.kinds[i] = 1 + below(random, #parts.layers) end
  if c.stages > 1 then
    c.accumulation = 4 * (1 + below(random, 2))
    c.schedule = pick(random, {"Grouped", "Interleaved", "Sequential", "OneFOneB"})
    c.cut = 1 + below(random, #c.kinds + 1)
    c.recomputes = chance(0.3)
  end
  for _, name in ipairs{"early", "judges", "plateau", "rate", "stops", "tells"} do
    if chance(0.25) then c.callbacks[#c.callbacks + 1] = name end
  end
  if c.stages > 1 or chance(0.7) then c.own_step = false end
  if c.own_step then c.accumulation = 1 end
  if replicas % c.group ~= 0 then c.group = 1 end
  return c
end

-- ------------------------------------------------ the model

local function model_of(c, seed)
  local list = {keras.Input{shape = c.recurrent and {5, 6} or {6}}}
  if c.recurrent then
    list[#list + 1] = seed % 2 == 0 and layers.LSTM{7, dropout = c.draws and 0.25 or 0}
      or layers.GRU{7}
  end
  for _, kind in ipairs(c.kinds) do list[#list + 1] = parts.layers[kind](c) end
  list[#list + 1] = layers.Dense{3, activation = "softmax"}
  local model = c.own_step and parts.own_model(list) or keras.Sequential(list)
  local options = {gradient_accumulation_reduction_method = c.reduction,
    gradient_accumulation_steps_per_replica = c.accumulation}
  if c.stages > 1 then
    options.pipeline_schedule = c.schedule
    options.accumulate_outfeed = c.outfeed_sum or nil
    local at = {}
    local count = #model.layers
    for i = 1, count do at[i] = i <= math.min(c.cut, count - 1) and 0 or 1 end
    model:set_pipeline_stage_assignment(at)
    model:set_pipelining_options(options)
  elseif c.accumulation > 1 then
    model:set_gradient_accumulation_options(options)
  end
  if c.metric_reduction ~= "NONE" then
    model:set_replication_options{replicated_metric_reduction_method = c.metric_reduction}
  end
  if c.asynchronous then model:set_asynchronous_callbacks(true) end
  model:compile{loss = "sparse_categorical_crossentropy",
    optimizer = parts.optimizers[c.optimizer](), metrics = {"accuracy", parts.greatest},
    weighted_metrics = {"sparse_categorical_crossentropy"},
    steps_per_execution = c.accumulation * c.runs}
  return model
end

local function batches_of(strategy, c, seed, shuffles, weighted)
  local rows, steps = 3, c.accumulation * c.runs * 2
  local n = rows * steps * replicas
  local x = ipu.random.normal(c.recurrent and {n, 5, 6} or {n, 6}, {seed = seed})
  local y = ipu.cast(ipu.random.uniform({n}, {seed = seed + 1, maxval = 3}), "int32")
  local given = {x, y}
  if weighted then given[3] = ipu.random.uniform({n}, {seed = seed + 2}) end
  local ds = ipu.data.from_tensor_slices(given)
  if shuffles then ds = ds:shuffle(n, {seed = 5}) end
  ds = ds:batch(rows * replicas, {drop_remainder = true})
  return strategy:experimental_distribute_dataset(ds), x
end

local function configure(c)
  local cfg = ipu.IPUConfig()
  cfg.allow_recompute = c.recomputes or false
  cfg.norms.experimental.distributed_batch_norm_replica_group_size = c.group
  if c.half and c.rounds then
    cfg.floating_point_behaviour.esr = ipu.StochasticRoundingBehaviour.ON
  end
  popdist.set_ipu_config(cfg, {ipus_per_replica = c.stages})
  cfg:configure_ipu_system()
end

local function history_text(history)
  local names, lines = {}, {}
  for name in pairs(history) do names[#names + 1] = name end
  table.sort(names)
  for i, name in ipairs(names) do lines[i] = name .. " " .. bits(history[name]) end
  return table.concat(lines, "; ")
end

-- Replicas predict batches in turn: state of their own, and rounding by chance, are of a split.
local function predicts_alike(c)
  for _, kind in ipairs(c.kinds) do
    if parts.has_state(kind) then return false end
  end
  return not (c.half and c.rounds)
end

-- A backup, and a callback that fails where a training is to stop.
local function add_backup(c, list, seed, folder, part)
  local random = seeds.generator(seed + 1000)
  local at <const> = 1 + below(random, 5)
  local steps <const> = c.accumulation * c.runs * (1 + below(random, 2))
  list[#list + 1] = keras.callbacks.BackupAndRestore{folder .. "/" .. seed,
    save_freq = pick(random, {"epoch", steps}), delete_checkpoint = false,
    double_checkpoint = random() < 0.3}
  list[#list + 1] = parts.fails_at(part == "begin" and at or -1)
end

local function train(c, seed, folder, part)
  configure(c)
  keras.utils.set_random_seed(seed)
  keras.mixed_precision.set_global_policy(c.half and "float16" or "float32")
  local strategy = ipu.PopDistStrategy()
  local _ <close> = strategy:scope()
  local model = model_of(c, seed)
  local ds, x = batches_of(strategy, c, seed, c.shuffles, c.weighted)
  for run = 1, c.twice and 2 or 1 do
    local list = {}
    for i, name in ipairs(c.callbacks) do list[i] = parts.callbacks[name](seed) end
    if folder then add_backup(c, list, seed, folder, part) end
    local h = model:fit(ds, {epochs = 3, verbose = 0, callbacks = list,
      class_weight = c.classes and not c.weighted and {[0] = 0.5, [1] = 2, [2] = 1} or nil,
      validation_data = c.validates and batches_of(strategy, c, seed + 9) or nil})
    say("fit", run, history_text(h.history))
    for i, each in ipairs(list) do
      if each.told and not c.asynchronous and not folder then
        say("told", c.callbacks[i], table.concat(each.told, " "))
      end
    end
  end
  local result = model:evaluate(batches_of(strategy, c, seed + 3), {verbose = 0})
  say("evaluated", bits(result))
  say("weights", digest(model:get_weights()))
  say("optimizer", digest(model.optimizer:get_weights()))
  if predicts_alike(c) then say("predicted", digest{model:predict(x, {batch_size = 3})}) end
  local all = distributed.allgather(ipu.tensor(parts.crc(), {dtype = "float64"}))
  say("alike", ipu.reduce_all(ipu.equal(all, all[1])):item())
end

local first <const>, count <const> = tonumber(arg[1]), tonumber(arg[2] or 1)
for seed = math.tointeger(first), math.tointeger(first + count - 1) do
  local c = random_case(seeds.generator(seed))
  if arg[3] then c.twice = false end
  say("seed", seed, ipu.json.encode(c))
  local ok, problem = pcall(train, c, seed, arg[3], arg[4])
  if not ok then say("refused", (tostring(problem):gsub("^%S+:%d+: ", "")))  end
end
