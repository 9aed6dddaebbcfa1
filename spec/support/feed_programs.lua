-- Random programs that read an infeed and fill outfeeds, compared with results from a list of
-- elements. They are loops and pipelines, on one replica or several, called or run in the
-- background. One program after another uses the same queues, over elements that fail.

local chains = require "spec.support.dataset_chains"
local config = require "ipulua.config"
local ipu = require "ipulua"

local failed <const> = chains.failed

local programs = {}

local function device(replicas, stages)
  config.reset_ipu_configuration()
  local cfg = ipu.IPUConfig()
  local each = 1
  while each < stages do each = each * 2 end
  cfg.auto_select_ipus = replicas * each
  cfg:configure_ipu_system()
end

-- How an element x looks in the dataset, and how a program gets x back out of it.
local shapes <const> = {
  scalar = {function(x) return ipu.cast(x, "int32") end, function(x) return x end},
  pair = {function(x) return ipu.cast(x, "int32"), ipu.cast(x * 2, "float32") end,
    function(x, y) return ipu.cast(y, "int32") - x end},
  dict = {function(x) return {b = ipu.cast(x, "int32"), a = ipu.cast(x * 3, "float32")} end,
    function(e) return ipu.cast(e.a, "int32") - 2 * e.b end},
  vector = {function(x)
    return ipu.broadcast_to(ipu.cast(x, "int32"), {67}) end, function(x) return ipu.reduce_max(x)
  end},
}

-- The value that goes into the outfeed, and the way back from the dequeued value to x.
local forms <const> = {
  tensor = {function(x) return x end, function(v) return v end},
  list = {function(x) return {x + 1, x} end, function(v) return v[2] end},
  dict = {function(x) return {x = x, y = {x * 2.0}} end, function(v) return v.x end},
}

local function pick(random, t)
  local names = {}
  for name in pairs(t) do names[#names + 1] = name end
  table.sort(names)
  return names[random(#names) + 1]
end

-- A loop of n steps. Each takes an element a replica.
local function loop_program(c, n)
  return ipu.func(function()
    return ipu.loops.repeat_n(n, function(i, ...)
      c.outfeed:enqueue(c.form[1](c.shape[2](...)))
      return i + 1
    end, {0}, c.infeed)
  end)
end

-- A loop that begins again inside of another one.
local function nested_program(c, n)
  return ipu.func(function()
    return ipu.loops.repeat_n(n, function(i)
      local x = ipu.loops.repeat_n(1, function(_, ...) return c.shape[2](...) end, {0}, c.infeed)
      c.outfeed:enqueue(c.form[1](x))
      return i + 1
    end, {0})
  end)
end

local function range_program(c, n)
  return ipu.func(function()
    for _ in ipu.range(n) do
      c.outfeed:enqueue(c.form[1](c.shape[2](c.infeed:dequeue_in_loop())))
    end
  end)
end

-- Stages hand x on; the last one puts it out. count micro-batches a run.
local function pipeline_program(c, n)
  local stages = {function(...) return c.shape[2](...) end}
  for i = 2, c.stages do stages[i] = function(x) return x + 0 end end
  return ipu.func(function()
    return ipu.pipeline{computational_stages = stages, gradient_accumulation_count = n,
      repeat_count = c.repeat_count,
      infeed_queue = c.infeed, outfeed_queue = c.outfeed, pipeline_schedule = c.schedule}
  end)
end

local kinds <const> = {loop = loop_program, nested = nested_program, range = range_program,
  pipeline = pipeline_program}

-- As repeated lists: each dequeued value is one of a step, of several replicas a list.
local function flat(t, out)
  for _, x in ipairs(type(t) == "table" and t or {t}) do
    if type(x) == "table" then flat(x, out) else out[#out + 1] = math.tointeger(x) end
  end
  return out
end

---A case: {text, run}. run() → lists of what came and what was to come, at each step, as text.
function programs.make(seed, with_failures)
  local random = chains.random_of(seed)
  local c = {replicas = ({1, 1, 2, 4})[random(4) + 1], stages = 1, repeat_count = 1}
  local kind = pick(random, kinds)
  if kind == "pipeline" then
    c.stages, c.repeat_count = random(3) + 2, random(2) + 1
    c.schedule = ({"Grouped", "Interleaved", "Sequential"})[random(3) + 1]
  end
  local shape, form = pick(random, shapes), pick(random, forms)
  if kind == "pipeline" then form = "tensor" end
  local avoid = with_failures and {} or {map_failing = true, zip = true, interleave = true}
  local ds, list, words = chains.make(seed, 60, avoid)
  c.shape, c.form = shapes[shape], forms[form]
  local depth, threads = random(5), random(3) + 1
  c.text = string.format("seed %d: %s of %s as %s, %d replicas, %d stages %s x%d, depth %d, %d"
    .. " threads: %s", seed, kind, shape,
    form, c.replicas, c.stages, tostring(c.schedule), c.repeat_count, depth, threads, words)

  -- n steps from `at` on: their elements, where the next step begins and how they end. An element
  -- that fails costs the step of all replicas; a step that the data ends in takes nothing.
  local function expect(at, n)
    local out = {}
    for _ = 1, n do
      for r = 1, c.replicas do
        local x = list[at + r]
        if x == nil then return out, at, "end" end
        if x == failed then return out, at + c.replicas, "failed" end
      end
      table.move(list, at + 1, at + c.replicas, #out + 1, out)
      at = at + c.replicas
    end
    return out, at, "fine"
  end

  function c.run()
    ipu.set_num_threads(threads)
    device(c.replicas, c.stages)
    c.infeed = ipu.IPUInfeedQueue(ds:map(c.shape[1]), {prefetch_depth = depth})
    c.outfeed = ipu.IPUOutfeedQueue()
    local strategy, at, got, want, made = ipu.IPUStrategy(), 0, {}, {}, {}
    for round = 1, random(5) + 2 do
      local n = ({1, 2, 3, 7})[random(4) + 1]
      if kind == "pipeline" then n = 2 * c.stages * (random(2) + 1) end
      made[n] = made[n] or kinds[kind](c, n)
      local elements, behind, how = expect(at, n * c.repeat_count)
      if how ~= "fine" and kind == "pipeline" then break end
      local fine, problem
      local values, way = {}, random(4)
      if way == 0 then
        fine, problem = pcall(made[n])
      else
        made[n]:concrete()
        local job = strategy:run_async(made[n])
        if way == 1 then
          for v in c.outfeed:iter(job) do
            flat(ipu.cast(c.form[2](v), "int32"):totable(), values)
          end
        elseif way == 2 then
          while not job:done() do flat(c.form[2](c.outfeed:dequeue()):totable(), values) end
        end
        fine, problem = pcall(job.wait, job)
      end
      flat(c.form[2](c.outfeed:dequeue()):totable(), values)
      local ended = fine and "fine" or tostring(problem):find("end of data", 1, true) and "end"
        or "failed"
      got[round], want[round] = table.concat(values, " ") .. " " .. ended,
        table.concat(elements, " ") .. " " .. how
      if got[round] ~= want[round] then
        got[round] = got[round] .. " " .. tostring(problem) break
      end
      at = behind
      if random(5) == 0 and at > 0 then -- from the beginning
        c.infeed:deleter()
        at = 0
      end
    end
    config.reset_ipu_configuration()
    return table.concat(got, "\n"), table.concat(want, "\n")
  end
  return c
end

return programs
