-- Random chains of collectives, in groups, in loops and branches, with their gradients. A model in
-- plain Lua, which has the vectors of all replicas side by side, gives the expected results.
-- Numbers are small and whole.
--
--   build/ipulua spec/support/fuzz_collectives.lua [first seed] [how many]

local ipu = require "ipulua"
local pipelines = require "spec.support.pipelines"
local seeds = require "spec.support.fuzz_seeds"

local fuzz = {}

local length <const> = 8

local below <const>, pick <const> = seeds.below, seeds.pick

-- ------------------------------------------------ steps

-- Each: (random, replicas) → f(x), which is traced, and model(xs), of the vectors of all.

local function members(r, replicas, size, kind)
  local list = {}
  for i = 0, size - 1 do
    if kind == "ORTHOGONAL" then
      local groups = replicas // size
      list[i + 1] = r % groups + i * groups
    else
      list[i + 1] = r // size * size + i
    end
  end
  return list
end

local function per_replica(f)
  return function(xs)
    local out = {}
    for r = 0, #xs - 1 do
      out[r + 1] = {}
      for k = 1, length do out[r + 1][k] = f(xs, r, k) end
    end
    return out
  end
end

local function grouped(name, scale)
  return function(random, replicas)
    local size, kind = replicas, pick(random, {"CONSECUTIVE", "ORTHOGONAL"})
    while size > 1 and random() < 0.5 do size = size // 2 end
    local given = size == replicas and random() < 0.5 and {} or
      {replica_group_size = size, replica_group_type = kind}
    return function(x) return ipu[name](x, given) end, per_replica(function(xs, r, k)
      local sum = 0
      for _, m in ipairs(members(r, replicas, size, kind)) do sum = sum + xs[m + 1][k] end
      return sum / (scale and size or 1)
    end)
  end
end

local function sum_over(xs, k)
  local sum = 0
  for _, x in ipairs(xs) do sum = sum + x[k] end
  return sum
end

local steps <const> = {
  grouped("cross_replica_sum", false),
  grouped("cross_replica_mean", true),
  function(_, replicas) -- a weighted sum of what all have
    return function(x)
      local all = ipu.all_gather(x, {replication_factor = replicas})
      local weights = ipu.reshape(ipu.cast(ipu.arange(replicas), "float32") + 1, {replicas, 1})
      return ipu.reduce_sum(all * weights, {axis = 0})
    end, per_replica(function(xs, _, k)
      local sum = 0
      for r, x in ipairs(xs) do sum = sum + r * x[k] end
      return sum
    end)
  end,
  function(_, replicas)
    local share = length // replicas
    return function(x)
      local part = ipu.reduce_scatter(x, {op = "ADD", replication_factor = replicas})
      return ipu.tile(part, {replicas})
    end, per_replica(function(xs, r, k) return sum_over(xs, r * share + (k - 1) % share + 1) end)
  end,
  function(_, replicas)
    local share = length // replicas
    return function(x)
      local parts = ipu.reshape(x, {replicas, share})
      return ipu.reshape(ipu.all_to_all(parts, 0, 0, {replication_factor = replicas}), {length})
    end, per_replica(function(xs, r, k)
      return xs[(k - 1) // share + 1][r * share + (k - 1) % share + 1]
    end)
  end,
  function()
    return function(x) return x * (ipu.cast(ipu.replication_index(), "float32") + 1) end,
      per_replica(function(xs, r, k) return xs[r + 1][k] * (r + 1) end)
  end,
  function()
    return function(x) return ipu.reverse(x, {0}) - 1 end,
      per_replica(function(xs, r, k) return xs[r + 1][length + 1 - k] - 1 end)
  end,
}

local function chain(random, replicas, depth)
  local list, n = {}, 1 + below(random, 3)
  for i = 1, n do
    local f, model = pick(random, steps)(random, replicas)
    local wrapped = depth > 0 and below(random, 5) or 0
    if wrapped == 1 then
      local g, inner = chain(random, replicas, depth - 1)
      local times = below(random, 3)
      list[i] = {
        function(x)
          return (ipu.loops.repeat_n(times, function(s) return g(s) * 0.5 end, {x}))
        end,
        function(xs)
          for _ = 1, times do
            xs = inner(xs)
            xs = per_replica(function(now, r, k) return now[r + 1][k] * 0.5 end)(xs)
          end
          return xs
        end}
    elseif wrapped == 2 then
      local g, inner = chain(random, replicas, depth - 1)
      local yes = random() < 0.5 -- the same for all
      list[i] = {function(x)
        local zero = ipu.cross_replica_sum(ipu.reduce_sum(ipu.stop_gradient(x) * 0))
        local pred = ipu.less(zero, yes and 1 or -1)
        return ipu.cond(pred, function() return g(x) end, function() return f(x) end)
      end, yes and inner or model}
    else
      list[i] = {f, model}
    end
  end
  return function(x)
    for _, step in ipairs(list) do x = step[1](x) end
    return x
  end, function(xs)
    for _, step in ipairs(list) do xs = step[2](xs) end
    return xs
  end
end

-- ------------------------------------------------ comparing

local function whole(random)
  local x = {}
  for k = 1, length do x[k] = below(random, 9) - 4 end
  return x
end

-- The change of the weighted sum of all results when one element of one replica moves.
local function slopes(model, xs, weights)
  local function total()
    local sum = 0
    for r, y in ipairs(model(xs)) do
      for k = 1, length do sum = sum + y[k] * weights[r][k] end
    end
    return sum
  end
  local out, first = {}, total()
  for r in ipairs(xs) do
    out[r] = {}
    for k = 1, length do
      xs[r][k] = xs[r][k] + 1
      out[r][k] = total() - first
      xs[r][k] = xs[r][k] - 1
    end
  end
  return out
end

local function differs(want, got, what)
  for r, x in ipairs(want) do
    for k = 1, length do
      local y = got[r][k]
      if math.abs(x[k] - y) > 1e-4 * (1 + math.abs(x[k])) then
        return string.format("%s of replica %d, element %d: %g in place of %g", what, r - 1, k, y,
          x[k])
      end
    end
  end
end

---Runs the program of a seed: nil, or what disagrees.
---@param seed integer
---@return string?
function fuzz.check(seed)
  local random = seeds.generator(seed)
  local replicas = pick(random, {2, 4, 8})
  local f, model = chain(random, replicas, 2)
  local xs, weights = {}, {}
  for r = 1, replicas do xs[r], weights[r] = whole(random), whole(random) end
  local _ <close> = pipelines.device(replicas)
  local infeed = ipu.IPUInfeedQueue(ipu.data.from_tensor_slices{ipu.tensor(xs),
    ipu.tensor(weights)})
  local outfeed = ipu.IPUOutfeedQueue()
  local way = below(random, 3)
  local ok, message = pcall(ipu.func(function()
    ipu.loops.repeat_n(1, function(x, w)
      local y, g
      if way == 0 then
        local tape = ipu.GradientTape()
        y = tape(f, x)
        g = tape:gradient(y, x, w)
      else
        y = f(x)
        g = ipu.gradients(way == 1 and ipu.reduce_sum(y * w) or y, {x}, way == 2 and {w} or nil)[1]
      end
      outfeed:enqueue{y = y, g = g or ipu.zeros{length}}
    end, {}, infeed)
  end))
  if not ok then return string.format("seed %d: %s", seed, message) end
  local out = outfeed:dequeue()
  local wrong = differs(model(xs), out.y[1]:totable(), "result")
    or differs(slopes(model, xs, weights), out.g[1]:totable(), "gradient")
  return wrong and string.format("seed %d, %d replicas: %s", seed, replicas, wrong)
end

seeds.main("fuzz_collectives", fuzz.check)

return fuzz
