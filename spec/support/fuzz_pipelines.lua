-- Random pipelines. Stages have weights, state, loops, branches, dropout and calls of the script.
-- They are trained under every schedule, mapping, way of recomputing, offloading and sharing out.
-- All must have the bits of the plainest one. Without dropout they must also have the numbers of an
-- eager loop over micro-batches that adds up a tape's gradients.
--
--   build/ipulua spec/support/fuzz_pipelines.lua [first seed] [how many]

local ipu = require "ipulua"
local blocks = require "spec.support.pipeline_blocks"
local pipelines = require "spec.support.pipelines"
local seeds = require "spec.support.fuzz_seeds"

local fuzz = {}

local rows <const>, width <const>, repeats <const> = 4, blocks.width, 2

local below <const>, pick <const> = seeds.below, seeds.pick

-- ------------------------------------------------ stages

local function random_stage(random)
  local stage = {blocks = {}, draws = false, rounds = false}
  for i = 1, 1 + below(random, 3) do
    local block = blocks[1 + below(random, #blocks)]
    stage.blocks[i] = block
    stage.draws, stage.rounds = stage.draws or block.draws, stage.rounds or block.rounds
  end
  return stage
end

-- ------------------------------------------------ a network

local function weights(seed, shape)
  return ipu.random.normal(shape, {stddev = 0.4, seed = seed})
end

-- A queue for values of a stage: an outfeed, or a list where the network is run by hand.
local function new_queue(net)
  local queue = net.by_hand and {list = {}, enqueue = function(self, x)
    self.list[#self.list + 1] = x
  end} or ipu.IPUOutfeedQueue()
  net.queues[#net.queues + 1] = queue
  return queue
end

-- Variables of a network, the same numbers each time.
local function make(plan, by_hand)
  local net = {w = {}, state = {}, twin = {}, named = {}, told = {}, queues = {}, by_hand = by_hand}
  local function variable(value, name)
    local v = ipu.Variable(value, {name = name, trainable = not name:find("state")})
    net.named[#net.named + 1] = v
    return v
  end
  for s, stage in ipairs(plan.stages) do
    net.w[s], net.state[s] = {}, {}
    for i, block in ipairs(stage.blocks) do
      net.w[s][i] = variable(weights(17 * s + i, {width, width}), "w" .. s .. i)
      net.state[s][i] = block.state and variable(ipu.zeros{width}, "state" .. s .. i)
        or block.queue and new_queue(net)
    end
  end
  for i in ipairs(plan.twin_stage and plan.twin_stage.blocks or {}) do
    net.twin[i] = variable(weights(500 + i, {width, width}), "twin" .. i)
  end
  if plan.shares then -- two stages have the same weights, if both have some
    local a, b = net.w[plan.shares[1]], net.w[plan.shares[2]]
    if a and b and a[1] and b[1] then b[1] = a[1] end
  end
  net.head = variable(weights(999, {width, 3}), "head")
  return net
end

-- The stages as functions of (h, x, y); the last gives the loss, and what is enqueued beside it.
local function functions_of(plan, net, e)
  local list = {}
  local function through(stage, w, state, h, x, rate)
    local mine = setmetatable({rate = rate}, {__index = e})
    for i, block in ipairs(stage.blocks) do h = block.f(w[i], state[i], h, x, mine) end
    return h
  end
  for s, stage in ipairs(plan.stages) do
    list[s] = function(h, x, y, rate, twin, ...) -- luacheck: ignore 212
      if twin then h = (h + twin) * 0.5 end
      h = through(stage, net.w[s], net.state[s], h, x, rate)
      if s < #plan.stages then return h, x, y, rate end
      if plan.infers then return ipu.reduce_mean(h), h:matmul(net.head) end
      local loss = ipu.reduce_mean(ipu.square(h:matmul(net.head) - y))
      if plan.more then return loss, ipu.reduce_mean(h) end
      return loss
    end
  end
  local function twin(h, x, _, rate, other, ...) -- luacheck: ignore 212
    if other then h = (h + other) * 0.5 end
    return through(plan.twin_stage, net.twin, {}, h, x, rate)
  end
  return list, plan.twin and twin
end

local function data(elements)
  local x = ipu.random.normal({elements * rows, width}, {seed = 3})
  local y = ipu.random.normal({elements * rows, 3}, {seed = 4})
  return x, y
end

local function dataset(elements)
  local x, y = data(elements)
  return ipu.data.from_tensor_slices{x, x * 0.5, y}:batch(rows, {drop_remainder = true}):repeat_n()
end

local optimizers <const> = {
  sgd = function() return ipu.train.GradientDescentOptimizer(0.0625) end,
  momentum = function() return ipu.train.MomentumOptimizer(0.0625, 0.5) end,
  adam = function() return ipu.train.AdamOptimizer(0.0625) end,
}

-- ------------------------------------------------ ways to run

local function flat(value, list)
  if type(value) == "table" then
    local keys = {}
    for key in pairs(value) do keys[#keys + 1] = key end
    table.sort(keys)
    for _, key in ipairs(keys) do flat(value[key], list) end
  else
    list[#list + 1] = value
  end
  return list
end

-- The program, run plan.calls times: what came out, what the variables hold, what the script saw.
local function run(plan, options)
  ipu.random.set_seed(7)
  local net = make(plan)
  local e = {
    counter = ipu.get_current_iteration_counter,
    call = function(h)
      return ipu.host_callback(function(a)
        net.told[#net.told + 1] = a
        return a * 2
      end, {outputs = {{{rows, width}, "float32"}}})(h)
    end,
  }
  local outfeed, optimizer = ipu.IPUOutfeedQueue(), optimizers[plan.optimizer]()
  if plan.dtype then
    optimizer = ipu.optimizers.MapGradientOptimizer(optimizer,
      function(g, v) return ipu.cast(g, v.dtype) end)
  end
  if options.replicas > 1 then optimizer = ipu.optimizers.CrossReplicaOptimizer(optimizer) end
  local functions, twin = functions_of(plan, net, e)
  local given = {
    computational_stages = functions, gradient_accumulation_count = plan.count,
    repeat_count = repeats, infeed_queue = ipu.IPUInfeedQueue(dataset(plan.elements)),
    outfeed_queue = outfeed, reduction_method = plan.reduction,
    gradient_accumulation_dtype = plan.dtype, accumulate_outfeed = plan.sums,
    outfeed_loss = plan.loss_alone,
    optimizer_function = function(loss, ...) -- luacheck: ignore 212
      return ipu.OptimizerFunctionOutput(optimizer, loss)
    end,
  }
  for key, value in pairs(options.pipeline) do given[key] = value end
  if plan.infers then
    given.optimizer_function, given.outfeed_loss, given.reduction_method = nil, nil, nil
  end
  local count = given.gradient_accumulation_count
  if plan.known then
    given.inputs = nil
  else
    given.gradient_accumulation_count = nil
  end
  -- the rate is an input: it comes first, so the stages are told where it goes
  local first = given.computational_stages[1]
  functions[1] = function(rate, h, x, y) return first(h, x, y, rate) end
  if plan.twin == 1 then
    local other = twin
    twin = function(rate, h, x, y) return other(h, x, y, rate) end
  end
  if twin then functions[plan.twin] = {functions[plan.twin], twin} end
  local f = ipu.func(function(rate, n)
    given.inputs = {rate}
    given.gradient_accumulation_count = plan.known and count or n
    return ipu.pipeline(given)
  end)
  for call = 1, plan.calls do -- a count that is handed over may be another one each time
    f(ipu.tensor(0.875), ipu.tensor(plan.known and count or count * call, {dtype = "int32"}))
  end
  local held = {}
  for i, v in ipairs(net.named) do held[i] = v:read_value() end
  for _, v in ipairs(optimizer.variables and optimizer:variables() or {}) do
    held[#held + 1] = v:read_value()
  end
  local out = flat(outfeed:dequeue(), {})
  for _, queue in ipairs(net.queues) do out[#out + 1] = queue:dequeue() end
  return {out = out, held = held, told = net.told}
end

-- The same by hand, on one replica: eager tapes, sums of gradients, the optimizer's own arithmetic.
local function by_hand(plan)
  local net, at = make(plan, true), 0
  local e = {
    counter = function() return ipu.tensor(at, {dtype = "int32"}) end,
    call = function(h) return ipu.identity(h) * 2 end,
  }
  local x, y = data(plan.elements)
  local functions, twin = functions_of(plan, net, e)
  local optimizer, trained = optimizers[plan.optimizer](), {}
  for _, v in ipairs(net.named) do if v.trainable then trained[#trained + 1] = v end end
  local losses, others, element = {}, {}, 0
  for run_number = 0, plan.calls * repeats - 1 do
    local sums = {}
    local count = plan.known and plan.count or plan.count * (1 + run_number // repeats)
    local loss_sum, other_sum = 0, 0
    for k = 0, count - 1 do
      at = k
      local begin = {element % plan.elements * rows, 0}
      element = element + 1
      local h, want = x:slice(begin, {rows, width}), y:slice(begin, {rows, 3})
      local tape, other = ipu.GradientTape(), nil
      local loss = tape(function()
        local values = table.pack(h, h * 0.5, want, ipu.tensor(0.875))
        for s, f in ipairs(functions) do
          local beside = s == plan.twin and twin(table.unpack(values))
          values = table.pack(f(table.unpack(values)))
          if beside then values[#values + 1] = beside end
        end
        other = values[2]
        return values[1]
      end)
      if not plan.infers then
        local found = tape:gradient(loss, trained, {unconnected_gradients = "zero"})
        for i, g in ipairs(found) do sums[i] = sums[i] and sums[i] + g or g end
      end
      losses[#losses + 1], others[#others + 1] = loss, other
      loss_sum, other_sum = loss_sum + loss, other and other_sum + other
    end
    if plan.sums then
      losses[#losses - count + 1] = loss_sum
      for _ = 2, count do table.remove(losses) end
      if plan.more or plan.infers then
        others[#others - count + 1] = other_sum
        for _ = 2, count do table.remove(others) end
      end
    end
    local pairs_of = {}
    for i, v in ipairs(plan.infers and {} or trained) do
      pairs_of[i] = {plan.reduction == "SUM" and sums[i] or sums[i] / count, v}
    end
    if not plan.infers then optimizer:apply_gradients(pairs_of) end
  end
  local held = {}
  for i, v in ipairs(net.named) do held[i] = v:read_value() end
  local out = {ipu.stack(losses)}
  if plan.infers or plan.more and not plan.loss_alone then out[2] = ipu.stack(others) end
  for _, queue in ipairs(net.queues) do out[#out + 1] = ipu.stack(queue.list) end
  return {out = out, held = held}
end

-- ------------------------------------------------ plans

local function random_plan(random)
  local count = pick(random, {4, 8, 12})
  local plan = {
    stages = {}, count = count, elements = pick(random, {7, 12, 64}), calls = 1 + below(random, 2),
    optimizer = pick(random, {"sgd", "momentum", "adam"}),
    reduction = pick(random, {"SUM", "MEAN", "RUNNING_MEAN"}),
    dtype = pick(random, {false, "float32", "float64", "float16", "bfloat16"}) or nil,
    sums = random() < 0.25, more = random() < 0.5, known = random() < 0.7,
  }
  plan.loss_alone = random() < 0.4
  local stages = 2 + below(random, 3)
  for s = 1, stages do plan.stages[s] = random_stage(random) end
  if random() < 0.3 then plan.shares = {1 + below(random, stages), 1 + below(random, stages)} end
  if random() < 0.3 then
    plan.twin = 1 + below(random, stages - 1)
    local twin = {blocks = {}}
    for _, block in ipairs(plan.stages[plan.twin].blocks) do
      if blocks.is_pure(block) then twin.blocks[#twin.blocks + 1] = block end
    end
    plan.twin_stage = twin
  end
  plan.infers = random() < 0.15
  for _, stage in ipairs(plan.stages) do
    plan.draws, plan.rounds = plan.draws or stage.draws, plan.rounds or stage.rounds
  end
  return plan
end

-- IPUs of the stages: each its own, all one, or as it comes.
local function random_mapping(random, stages, own)
  local mapping, kind = {}, below(random, own and 1 or 3)
  for s = 1, stages do
    mapping[s] = kind == 0 and s - 1 or kind == 1 and 0 or below(random, stages)
  end
  if kind == 2 then -- without gaps
    local names, n = {}, 0
    for s = 1, stages do
      if not names[mapping[s]] then names[mapping[s]], n = n, n + 1 end
      mapping[s] = names[mapping[s]]
    end
  end
  return mapping
end

local function random_options(random, plan, replicas)
  local stages = #plan.stages
  local schedule = pick(random, {"Grouped", "Interleaved", "Sequential", "OneFOneB",
    "InterleavedVirtual", "own"})
  local mapping = random_mapping(random, stages, schedule == "Interleaved")
  local given = {pipeline_schedule = schedule, device_mapping = mapping}
  local function maybe(name, ...) if random() < 0.4 then given[name] = pick(random, {...}) end end
  if plan.twin then
    mapping[plan.twin] = {mapping[plan.twin], math.max(table.unpack(mapping)) + 1}
  end
  maybe("offload_activations", true, false)
  maybe("offload_gradient_accumulation_buffers", true, false)
  maybe("offload_weight_update_variables", true, false)
  maybe("offload_weights", true, false)
  if replicas > 1 and not plan.rounds then -- a share rounds by other random numbers
    maybe("replicated_optimizer_state_sharding", true, false)
    maybe("replicated_weight_sharding", true, false)
  end
  local recompute = random() < 0.5
  if recompute then
    maybe("recomputation_mode", "RecomputeThenBackpropagate",
      "RecomputeAndBackpropagateInterleaved")
  end
  local serial = schedule == "Sequential" and not plan.twin and plan.reduction == "SUM"
  if serial and random() < 0.4 then
    for s = 1, stages do mapping[s] = 0 end
    given.batch_serialization_iterations = 4
    given.gradient_accumulation_count = plan.count // 4
  end
  if schedule == "own" and (plan.twin or plan.infers) then given.pipeline_schedule = nil end
  if schedule == "own" and given.pipeline_schedule then
    local ok, made = pcall(ipu.timetable,
      {schedule = "OneFOneB", device_mapping = mapping, count = plan.count})
    given.pipeline_schedule = ok and made.order or "Sequential"
    if ok and random() < 0.5 then -- all forward passes of a stage first
      local steps = {}
      for _, kind in ipairs{"forward", "backward"} do
        for m = 0, plan.count - 1 do
          for s = 0, stages - 1 do
            local stage = kind == "forward" and s or stages - 1 - s
            local entry = {ipu = mapping[stage + 1], kind = kind, stage = stage, micro_batch = m}
            steps[#steps + 1] = {entry}
          end
        end
      end
      given.pipeline_schedule = steps
    end
    if type(given.pipeline_schedule) == "table" then plan.known = true end
  end
  return {pipeline = given, replicas = replicas, config = {
    allow_recompute = recompute,
    ["optimizations.minimum_remote_tensor_size"] = random() < 0.5 and 4 or nil,
  }}
end

local function ipus_of(options)
  local highest, n = 0, 1
  for _, i in ipairs(options.pipeline.device_mapping) do
    highest = math.max(highest, table.unpack(type(i) == "table" and i or {i}))
  end
  while n < highest + 1 do n = n * 2 end
  return n * options.replicas
end

local function configured(plan, options)
  local config = {}
  for key, value in pairs(options.config) do config[key] = value end
  if plan.rounds then
    config["floating_point_behaviour.esr"] = ipu.StochasticRoundingBehaviour.ON
  end
  local _ <close> = pipelines.device(ipus_of(options), config)
  return run(plan, options)
end

-- ------------------------------------------------ comparing

local function text_of(given)
  local parts = {}
  for key, value in pairs(given) do
    local shown = tostring(value)
    if type(value) == "table" then
      shown = key == "device_mapping" and ipu.json.encode(value) or "own"
    end
    parts[#parts + 1] = key .. "=" .. shown
  end
  table.sort(parts)
  return table.concat(parts, " ")
end

local function plan_text(plan)
  local parts = {}
  for s, stage in ipairs(plan.stages) do
    local list = {}
    for i, block in ipairs(stage.blocks) do list[i] = block.index end
    parts[s] = table.concat(list, ",")
  end
  for _, name in ipairs{"sums", "more", "loss_alone", "twin", "shares", "infers"} do
    if plan[name] then parts[#parts + 1] = name end
  end
  return string.format("%s; count %d, %s, %s", table.concat(parts, " | "), plan.count,
    plan.reduction, plan.optimizer)
end

local function same_bits(a, b)
  return a.dtype == b.dtype and table.concat(a.shape, ",") == table.concat(b.shape, ",")
    and ipu.reduce_all(ipu.logical_or(ipu.equal(a, b),
      ipu.logical_and(ipu.not_equal(a, a), ipu.not_equal(b, b)))):item()
end

local function differs(a, b, what)
  if #a ~= #b then return string.format("%d of %s in place of %d", #b, what, #a) end
  for i = 1, #a do
    if not same_bits(a[i], b[i]) then
      return string.format("%s %d: %s in place of %s", what, i, b[i], a[i])
    end
  end
end

local function far(a, b, what)
  for i = 1, #b do
    local x, y = a[i], ipu.reshape(b[i], a[i].shape)
    local finite = ipu.logical_and(ipu.less(ipu.abs(x), 1e6), ipu.less(ipu.abs(y), 1e6))
    local distance = ipu.abs(x - y) / (1 + ipu.abs(y))
    local off = ipu.reduce_max(ipu.where(finite, distance, 0)):item()
    if off ~= off or off >= 2e-4 then return string.format("%s %d is off by %g", what, i, off) end
  end
end

local function refused(message)
  for _, words in ipairs{
    "must be a multiple", "works only with", "is used by stages", "an IPU of its own", "own IPU",
    "must run", "is not supported by schedule", "needs the stages on the IPUs in turns",
    "shares out optimizer state that is offloaded",
  } do
    if message:find(words, 1, true) then return true end
  end
end

-- The fault of the plan run in that way, or nil; and whether it ran.
local function problem(plan, plain, options)
  local ok, base = pcall(configured, plan, plain)
  if not ok then return "plainly: " .. base, false end
  if not options then
    local narrow = plan.dtype == "float16" or plan.dtype == "bfloat16"
    if plan.draws or narrow or plain.replicas > 1 then return nil, true end
    local hand = by_hand(plan)
    local wrong = far(base.held, hand.held, "variable") or far(base.out, hand.out, "output")
    return wrong and "by hand: " .. wrong, true
  end
  local done, got = pcall(configured, plan, options)
  if not done then return not refused(got) and got or nil, false end
  return differs(base.held, got.held, "variable") or differs(base.out, got.out, "output")
    or (#base.told ~= #got.told
      and string.format("%d calls in place of %d", #got.told, #base.told) or nil), true
end

local function copy(t)
  if type(t) ~= "table" then return t end
  local out = {}
  for key, value in pairs(t) do out[key] = copy(value) end
  return out
end

-- Smaller plans and options: each a function that changes copies of them, or false.
local function smaller(plan, options)
  local list = {}
  for s, stage in ipairs(plan.stages) do
    for i in ipairs(stage.blocks) do
      list[#list + 1] = function(p)
        table.remove(p.stages[s].blocks, i)
        return true
      end
    end
  end
  for _, key in ipairs{"sums", "more", "loss_alone", "dtype", "shares", "infers"} do
    list[#list + 1] = function(p)
      if not p[key] then return false end
      p[key] = nil
      return true
    end
  end
  list[#list + 1] = function(p)
    if p.calls == 1 then return false end
    p.calls = 1
    return true
  end
  for key in pairs(options and options.pipeline or {}) do
    if key ~= "device_mapping" then
      list[#list + 1] = function(_, o)
        o.pipeline[key] = nil
        return true
      end
    end
  end
  return list
end

local function shrink(plan, plain, options, wrong)
  local changed = true
  while changed do
    changed = false
    for _, change in ipairs(smaller(plan, options)) do
      local p, o = copy(plan), copy(options)
      local now = change(p, o) and problem(p, plain, o)
      if now then
        plan, options, wrong, changed = p, o, now, true
        break
      end
    end
  end
  return plan, options, wrong
end

---Runs the plan of a seed in several ways: nil, or what disagrees; and how many ran.
---@param seed integer
---@param shrinks boolean?
---@return string?
---@return integer
function fuzz.check(seed, shrinks)
  local random = seeds.generator(seed)
  local plan, ran = random_plan(random), 0
  local replicas = random() < 0.3 and 2 or 1
  local plain = {replicas = replicas, config = {},
    pipeline = {pipeline_schedule = "Sequential", device_mapping = {}}}
  for s = 1, #plan.stages do
    plain.pipeline.device_mapping[s] = s == plan.twin and {0, 1} or 0
  end
  local ways = {false}
  for i = 2, 6 do ways[i] = random_options(random, plan, replicas) end
  for _, options in ipairs(ways) do
    local wrong, did = problem(plan, plain, options)
    ran = ran + (did and 1 or 0)
    if wrong then
      if shrinks then plan, options, wrong = shrink(plan, plain, options, wrong) end
      local how = options and text_of(options.pipeline) .. " (" .. text_of(options.config) .. ")"
      return string.format("seed %d [%s], %d replicas, %s: %s", seed, plan_text(plan), replicas,
        how or "plainly", wrong), ran
    end
  end
  return nil, ran
end

seeds.main("fuzz_pipelines", fuzz.check)

return fuzz
