-- Random programs and what must hold of their prices: price_programs.lua SEED COUNT prints what is
-- wrong, then "N programs, M wrong". Expected bytes are counted here, from the program as it was
-- drawn, not by the code under test.
local ipu = require "ipulua"
local estimate = require "ipulua.tools.estimate"
local json = require "ipulua.base.json"

local programs = {}

local BYTES <const> = 4

local function on(shard, f) return ipu.ipu_shard(shard)(f) end

---The profile of a function: its steps by name of column, and what the price says in all.
local function profile_of(f, inputs, ipus, more)
  local a = {fn = f, inputs = inputs, ipus = ipus, host = "model"}
  for k, v in pairs(more or {}) do a[k] = v end
  local price = estimate.price(a)
  local p, steps = json.decode(price:json("{}")), {}
  for i, values in ipairs(p.steps) do
    local step = {}
    for k, name in ipairs(p.step_columns) do step[name] = values[k] end
    step.kind, step.name = p.strings[step.kind + 1], p.strings[step.name + 1]
    steps[i] = step
  end
  p.steps = steps
  return p, price:summary()
end
programs.profile_of = profile_of

---Bytes that come into each IPU over links in a run, and how many copies.
local function links_of(p, shards)
  local bytes, copies = {}, 0
  for i = 0, shards - 1 do bytes[i] = 0 end
  for _, s in ipairs(p.steps) do
    if s.kind == "link" then
      bytes[s.ipu] = bytes[s.ipu] + s.bytes * s.times
      copies = copies + s.times
    end
  end
  return bytes, copies
end

local function check(wrong, holds, ...)
  if not holds then wrong[#wrong + 1] = string.format(...) end
end

local function near(a, b, share)
  return math.abs(a - b) <= share * math.max(math.abs(a), math.abs(b)) + 1
end

-- ------------------------------------------------ what holds of every price

local function check_sums(wrong, p, s)
  local ends, categories = 0, 0
  for _, e in ipairs(p.timeline) do ends = math.max(ends, e[1] + e[2]) end
  check(wrong, near(ends, s.cycles.total, 1e-4), "the trace ends at %.0f, a run takes %.0f cycles",
    ends, s.cycles.total)
  for i, x in ipairs(p.ipus) do
    local c, tiles = x.cycles, 0
    check(wrong, near(c.compute + c.exchange + c.sync + c.stream, c.total, 1e-6),
      "IPU %d: phases don't add up", i - 1)
    check(wrong, near(c.total, s.cycles.total, 1e-6), "IPU %d takes %.0f of %.0f cycles", i - 1,
      c.total, s.cycles.total)
    for _, bytes in ipairs(x.tiles.bytes) do tiles = tiles + bytes end
    for _, bytes in pairs(x.memory.categories) do categories = categories + bytes end
    check(wrong, near(tiles, x.memory.total, 1e-3),
      "IPU %d: tiles hold %.0f, the categories %.0f bytes", i - 1, tiles, x.memory.total)
  end
  check(wrong, near(categories, s.memory.total, 1e-6), "categories hold %.0f, all is %.0f",
    categories, s.memory.total)
end
programs.check_sums = check_sums

-- ------------------------------------------------ values on several IPUs

local unary <const> = {"exp", "tanh", "sin", "cos", "sigmoid"}
local binary <const> = {"add", "mul", "maximum", "sub"}

-- A value for each node: {op, operands, shard}. Sources read an argument each. No two nodes are
-- equal, and all reach a result.
local function draw(random, shards)
  local extent, list, seen = 32 * random(1, 16), {}, {}
  local sources = random(1, 3)
  local function add(op, operands, shard)
    local key = table.concat({op, shard, table.unpack(operands)}, " ")
    if seen[key] then return end
    seen[key] = true
    list[#list + 1] = {op = op, operands = operands, shard = shard}
  end
  for i = 1, sources do add("exp", {-i}, random(0, shards - 1)) end
  for _ = 1, random(2, 24) do
    local shard, n = random(0, shards - 1), #list
    if random(1, 2) == 1 then add(unary[random(1, #unary)], {random(1, n)}, shard)
    else
      local a, b = random(1, n), random(1, n)
      if a ~= b then add(binary[random(1, #binary)], {math.min(a, b), math.max(a, b)}, shard) end
    end
  end
  return {list = list, sources = sources, shape = {extent, 256}, bytes = extent * 256 * BYTES,
    shards = shards}
end

local function traced(drawn, arguments)
  local values, read = {}, {}
  for i, node in ipairs(drawn.list) do
    values[i] = on(node.shard, function()
      local x = {}
      for k, o in ipairs(node.operands) do
        x[k] = o < 0 and arguments[-o] or values[o]
        if o > 0 then read[o] = true end
      end
      return ipu[node.op](table.unpack(x))
    end)
  end
  local results = {}
  for i, v in ipairs(values) do
    if not read[i] then results[#results + 1] = v end
  end
  return results
end

-- Each value crosses once to each other IPU that reads it.
local function expected_links(drawn)
  local into, sent, copies = {}, {}, 0
  for i = 0, drawn.shards - 1 do into[i] = 0 end
  for _, node in ipairs(drawn.list) do
    for _, o in ipairs(node.operands) do
      local key = o .. ">" .. node.shard
      if o > 0 and drawn.list[o].shard ~= node.shard and not sent[key] then
        sent[key], copies = true, copies + 1
        into[node.shard] = into[node.shard] + drawn.bytes
      end
    end
  end
  return into, copies
end

local function inputs_of(drawn)
  local inputs = {}
  for i = 1, drawn.sources do inputs[i] = drawn.shape end
  return inputs
end

---Values on several IPUs: what is read elsewhere crosses once, and nothing else does.
function programs.values(random)
  local drawn, wrong = draw(random, 2 ^ random(1, 3) // 1 | 0), {}
  local p, s = profile_of(function(...) return table.unpack(traced(drawn, {...})) end,
    inputs_of(drawn), drawn.shards)
  local into, copies = expected_links(drawn)
  local got, count = links_of(p, drawn.shards)
  check(wrong, count == copies, "%g copies between IPUs, %d are needed", count, copies)
  for i = 0, drawn.shards - 1 do
    check(wrong, got[i] == into[i], "%.0f bytes come to IPU %d, %.0f are needed", got[i],
      i, into[i])
  end
  check_sums(wrong, p, s)
  local results = {}
  for _, node in ipairs(drawn.list) do
    for _, o in ipairs(node.operands) do if o > 0 then drawn.list[o].read = true end end
  end
  for _, node in ipairs(drawn.list) do
    if not node.read then results[node.shard] = (results[node.shard] or 0) + drawn.bytes end
  end
  for shard, bytes in pairs(results) do
    local held = p.ipus[shard + 1].memory.categories.activation
    check(wrong, held >= bytes, "IPU %d holds %.0f bytes, its results alone are %.0f", shard,
      held, bytes)
  end
  return wrong
end

---The same in a loop, which only reads the arguments and values made before it: those cross once,
---however many rounds there are.
function programs.rounds(random)
  local drawn, wrong, shards = draw(random, 2), {}, 2
  local function stream(rounds)
    local p = profile_of(function(x, ...)
      local given = {...}
      local before = {}
      for i, a in ipairs(given) do before[i] = on(i % shards, function() return ipu.exp(a) end) end
      return on(0, function()
        return ipu.loops.repeat_n(rounds, function(h)
          local sum = h
          for i, b in ipairs(before) do
            sum = on(0, function() return ipu.tanh(sum + b * i) end)
          end
          return sum
        end, {x})
      end)
    end, {drawn.shape, table.unpack(inputs_of(drawn))}, shards)
    return (links_of(p, shards))
  end
  local once, often = stream(1), stream(random(2, 50))
  for i = 0, 1 do
    check(wrong, once[i] == often[i], "%.0f bytes come to IPU %d in one round, %.0f in several",
      once[i], i, often[i])
  end
  check(wrong, once[0] == (drawn.sources + 1) // 2 * drawn.bytes, "%.0f bytes cross for %d values",
    once[0], drawn.sources)
  return wrong
end

---Of two branches the dearer one is charged, whatever it holds: work, links, sums over replicas.
function programs.branches(random)
  local drawn, wrong = draw(random, 2), {}
  local function body(kind)
    if kind == 1 then return function(x) return x + 1 end end
    if kind == 2 then return function(x) return ipu.cross_replica_sum(x) end end
    if kind == 3 then return function(x) return on(1, function() return ipu.exp(x) end) + 1 end end
    return function(x)
      local list = {}
      for i = 1, drawn.sources do list[i] = x end
      return traced(drawn, list)[1] + 1
    end
  end
  local function total(a, b)
    local f = ipu.func(function(p, x, z)
      -- of two IPUs, whatever the branches are
      local second = on(1, function() return ipu.cos(z) end)
      return on(0, function()
        local y = ipu.exp(x)
        local function there(g) return function() return on(0, function() return g(y) end) end end
        return ipu.tanh(ipu.cond(p, there(a), there(b)))
      end), second
    end)
    local p, s = profile_of(f, {{shape = {}, dtype = "bool"}, drawn.shape, {8}}, 4)
    check_sums(wrong, p, s)
    return s.cycles.total
  end
  local a, b = body(random(1, 4)), body(random(1, 4))
  local both, dearer = total(a, b), math.max(total(a, a), total(b, b))
  check(wrong, both >= 0.97 * dearer and both <= 1.03 * dearer,
    "one of two branches takes %.0f cycles, the dearer one alone %.0f", both,
    dearer)
  check(wrong, near(both, total(b, a), 0.03), "the order of branches matters")
  return wrong
end

-- ------------------------------------------------ trained stages

local momentums <const> = { -- the first one's rate is a variable of one IPU that all updates read
  function() return ipu.train.MomentumOptimizer(
    ipu.Variable(0.1, {name = "rate", trainable = false}), 0.9) end,
  function() return ipu.train.RMSPropOptimizer{0.1, momentum = 0} end,
}

-- {pipeline = , with =}: stages of products, each on an IPU; the residual ones add what they got.
local function trained(width, stages, residual, count, optimizer, offload)
  local weights = {}
  for i = 1, stages do weights[i] = ipu.Variable(ipu.full({width, width}, 0.01)) end
  local data = ipu.data.from_tensors(ipu.ones{16, width}):repeat_n()
  local infeed, outfeed = ipu.IPUInfeedQueue(data), ipu.IPUOutfeedQueue()
  local list = {}
  for i = 1, stages do
    list[i] = function(x)
      local y = ipu.tanh(x:matmul(weights[i]))
      if residual[i] then y = y + x end
      return i == stages and ipu.reduce_sum(y) or y
    end
  end
  return ipu.func(function()
    ipu.pipeline{computational_stages = list, gradient_accumulation_count = count,
      infeed_queue = infeed, outfeed_queue = outfeed,
      offload_weight_update_variables = offload,
      optimizer_function = optimizer
      and function(l) return ipu.OptimizerFunctionOutput(optimizer(), l) end or nil}
  end)
end

local function power_of_two(n)
  local p = 1
  while p < n do p = 2 * p end
  return p
end

---A residual around a stage adds nothing to what crosses to any IPU: its value is there already.
function programs.residuals(random)
  local wrong, stages, width = {}, random(2, 6), 64 * random(1, 4)
  local none, some = {}, {}
  for i = 1, stages do some[i] = random(1, 2) == 1 end
  local ipus, count = power_of_two(stages), 2 * stages
  local function priced(residual)
    local p, s = profile_of(trained(width, stages, residual, count, momentums[1], false), nil, ipus)
    check_sums(wrong, p, s)
    return links_of(p, ipus), s
  end
  local plain, with = priced(none), priced(some)
  for i = 0, ipus - 1 do
    check(wrong, with[i] - plain[i] <= 16 * width * BYTES * count,
      "a residual adds %.0f bytes to what comes to IPU %d", with[i] - plain[i], i)
  end
  return wrong
end

---A longer pipeline of equal stages takes no longer for a micro-batch once it is full; twice the
---micro-batches more take twice as long.
function programs.depths(random)
  local wrong, width, residual = {}, 64 * random(1, 4), {}
  for i = 1, 8 do residual[i] = random(1, 2) == 1 end
  local function each(stages, first)
    local function total(n)
      return select(2, profile_of(trained(width, stages, residual, n, momentums[1], false), nil,
        stages)).cycles.total
    end
    local a, b, c = total(first), total(2 * first), total(4 * first)
    check(wrong, near(c - b, 2 * (b - a), 0.001),
      "%d stages: %.0f cycles for %d micro-batches more, %.0f for twice as many", stages,
      b - a, first, c - b)
    return (b - a) / first
  end
  local few, many = each(2, 16), each(8, 16 * 2 ^ random(0, 6) // 1 | 0)
  check(wrong, many <= 1.1 * few,
    "2 stages take %.0f cycles for a micro-batch, 8 of the same take %.0f", few, many)
  return wrong
end

---Two optimizers with one tensor of state each cost the same but for what they compute, wherever
---the state lies.
function programs.optimizers(random)
  local wrong, stages, width, offload = {}, 2 ^ random(1, 3) // 1 | 0, 128 * random(1, 4),
    random(1, 2) == 1
  local list = {}
  for k, optimizer in ipairs(momentums) do
    local p, s = profile_of(trained(width, stages, {}, 2 * stages, optimizer, offload), nil, stages)
    check_sums(wrong, p, s)
    list[k] = s
  end
  local work = 0
  for i, x in ipairs(list[1].ipu) do
    local y = list[2].ipu[i]
    work = math.max(work,
      math.abs(x.cycles.compute + x.cycles.exchange - y.cycles.compute - y.cycles.exchange))
  end
  local between = math.abs(list[1].cycles.total - list[2].cycles.total)
  check(wrong, near(list[1].memory.streaming, list[2].memory.streaming, 1e-3),
    "the states aren't of one size")
  check(wrong, between <= 1.5 * work + 12000,
    "the optimizers' runs differ by %.0f cycles, their work by %.0f", between, work)
  return wrong
end

---Replicas take as long as one, and their collectives; a sum of something else doesn't spare those
---of the gradients.
function programs.replicas(random)
  local wrong, width, replicas = {}, 64 * random(1, 8), 2 ^ random(1, 3) // 1 | 0
  local function total(ipus, sums)
    local w = ipu.Variable(ipu.full({width, width}, 0.1))
    local p, s = profile_of(ipu.func(function(x)
      local loss = ipu.reduce_sum(ipu.square(ipu.matmul(x, w)))
      local gradient = ipu.gradients(loss, {w})[1]
      if sums == "gradient" then gradient = ipu.cross_replica_sum(gradient) end
      w:assign_sub(gradient * 0.1)
      return sums == "loss" and ipu.cross_replica_mean(loss) or loss
    end), {{16, width}}, ipus)
    check_sums(wrong, p, s)
    local collectives = 0
    for _, step in ipairs(p.steps) do
      if step.kind == "collective" then
        collectives = collectives + step.times
          * (step.compute + step.exchange + step.sync + step.stream)
      end
    end
    return s.cycles.total, collectives
  end
  local one, least = total(1), 0
  for _, sums in ipairs{"gradient", "none", "loss"} do
    local all, collectives = total(replicas, sums)
    check(wrong, collectives >= least and collectives > 0,
      "%d replicas (%s) sum for %.0f cycles, with less to sum for %.0f", replicas, sums,
      collectives, least)
    least = collectives
    check(wrong, near(all, one + collectives, 0.05),
      "%d replicas (%s) take %.0f cycles, one %.0f, collectives %.0f", replicas, sums, all, one,
      collectives)
  end
  return wrong
end

-- ------------------------------------------------ one op, and what it is made of

-- Of one IPU, without what moves from the host and to it.
local function alone(f, shapes)
  local p, s = profile_of(f, shapes, 1)
  local sum, steps = {compute = 0, exchange = 0, sync = 0, count = 0}, 0
  for _, step in ipairs(p.steps) do
    if step.kind == "op" then
      for _, phase in ipairs{"compute", "exchange", "sync"} do
        sum[phase] = sum[phase] + step.times * step[phase]
      end
      steps = steps + step.times
    end
  end
  sum.total, sum.count = sum.compute + sum.exchange + sum.sync, steps
  return sum, p, s
end

-- {name, the op, its composition, steps that the composition has more, cycles of a worker for a
-- vector of 8 bytes that it has more}. A step saved is 250 cycles, and a vertex less that is
-- entered: six workers of 29 cycles at most, and 11. The vectors' are PopLibs' estimates. sub 3 and
-- square 2 stand for 3, mul 3 and sigmoid 12 for 11, and abs 2, add 3 and div 10 for 11.
local made_of <const> = {
  {"bias_add", function(x, b) return ipu.nn.bias_add(x, b) end, function(x, b) return x + b end,
    0, 0},
  {"squared_difference", function(x, b) return ipu.squared_difference(x, b) end,
    function(x, b) return ipu.square(x - b) end, 1, 2},
  {"swish", function(x) return ipu.nn.swish(x) end, function(x) return x * ipu.sigmoid(x) end,
    1, 4},
  {"softsign", function(x) return ipu.nn.softsign(x) end,
    function(x) return x / (ipu.abs(x) + 1) end, 2, 4},
  {"relu6", function(x) return ipu.nn.relu6(x) end,
    function(x) return ipu.clip_by_value(x, 0, 6) end, 0, 0},
}

---An op and its composition agree within what fusion saves.
function programs.compositions(random)
  local wrong, row = {}, made_of[random(1, #made_of)]
  local rows, columns = random(1, 2000), 2 * random(1, 800)
  local shapes = {{rows, columns}, {columns}}
  local one, several = alone(row[2], shapes), alone(row[3], shapes)
  -- elements of the fullest tile: spread in grains of a vector, 128 bytes at least
  local share = math.min(rows * columns, math.max(32, 2 * math.ceil(rows * columns / 2 / 1472)))
  local vectors = math.ceil(math.ceil(share / 6) / 2)
  local most = row[4] * (250 + 6 * 29 + 11) + 6 * row[5] * vectors
  check(wrong, several.count - one.count == row[4], "%s: %g ops, composed %g", row[1], one.count,
    several.count)
  local more = several.total - one.total
  check(wrong, more <= most + 1e-6 and more >= 0.9 * most - 1e-6,
    "%s of %d x %d takes %.0f cycles, composed %.0f: fusion saves %.0f", row[1], rows,
    columns, one.total, several.total, most)
  return wrong
end

---A layer that is split by its outputs over IPUs takes them no less in all than the whole takes
---one, where that fits without serial parts: but for what the planner leaves, which compares other
---figures than are charged.
function programs.splits(random)
  local wrong, parts = {}, 2 ^ random(1, 2) // 1 | 0
  local rows, inputs, outputs = 8 * random(1, 64), 16 * random(1, 32), 64 * random(1, 16)
  local function taken(n)
    local p, s = profile_of(function(x)
      local list = {}
      for i = 1, n do
        local w = ipu.Variable(ipu.full({inputs, outputs // n}, 0.1))
        list[i] = on(i - 1, function() return ipu.matmul(x, w) end)
      end
      return table.unpack(list)
    end, {{rows, inputs}}, n)
    check_sums(wrong, p, s)
    local sum = 0
    for _, step in ipairs(p.steps) do
      if step.kind == "op" then
        sum = sum + step.times * (step.compute + step.exchange + step.sync)
      end
    end
    return sum
  end
  local whole, split = taken(1), taken(parts)
  check(wrong, split >= 0.97 * whole, "%d x %d x %d takes %.0f cycles, in %d parts %.0f",
    rows, inputs, outputs, whole, parts, split)
  return wrong
end

programs.kinds = {"values", "rounds", "branches", "residuals", "depths", "optimizers", "replicas",
  "compositions", "splits"}

---What is wrong with the programs of a kind that seeds first … last draw.
---@return string[]
function programs.check(kind, first, last)
  local found = {}
  for seed = first, last do
    local state = seed * 2654435761 % 4294967296
    local function random(least, most)
      state = (state * 6364136223846793005 + 1442695040888963407)
      return least + (state >> 33) % (most - least + 1)
    end
    for _ = 1, 3 do random(0, 1) end
    ipu.reset_default_graph()
    for _, words in ipairs(programs[kind](random)) do
      found[#found + 1] = string.format("%s, seed %d: %s", kind, seed, words)
    end
  end
  return found
end

if arg and arg[0] and arg[0]:find("price_programs.lua", 1, true) then
  local first, count, wrong = math.tointeger(tonumber(arg[1])) or 1,
    math.tointeger(tonumber(arg[2])) or 100, 0
  for _, kind in ipairs(arg[3] and {arg[3]} or programs.kinds) do
    for _, words in ipairs(programs.check(kind, first, first + count - 1)) do
      print(words)
      wrong = wrong + 1
    end
  end
  print(string.format("%d programs, %d wrong", count * (arg[3] and 1 or #programs.kinds), wrong))
  os.exit(wrong == 0, true)
end

return programs
