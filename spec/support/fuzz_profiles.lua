-- Prices of random programs of every kind, for random chips, sizes and settings. The estimate,
-- profile.json, the summary and the trace of one program must agree. Each must be consistent in
-- itself, as docs/reference/profile.md says.
--
--   build/ipulua spec/support/fuzz_profiles.lua [first seed] [how many]

local ipu = require "ipulua"
local estimate = require "ipulua.tools.estimate"
local pipelines = require "spec.support.pipelines"
local seeds = require "spec.support.fuzz_seeds"

local fuzz = {}

local below <const>, pick <const> = seeds.below, seeds.pick

-- ------------------------------------------------ programs

local extents <const> = {1, 2, 3, 7, 16, 31, 64, 100, 129, 257, 1000}

-- f(x, w): of x [m, n] and a variable [n, n] one or more values; all have the shape of x.
local kinds_of_step <const> = {
  function(x, w) return x:matmul(w) end,
  function(x, w) return ipu.tanh(x + w[1]) end,
  function(x) return ipu.nn.softmax(x) end,
  function(x) return ipu.reduce_sum(x, {axis = 0, keepdims = true}) * x end,
  function(x) return ipu.sort(x) end,
  function(x) return ipu.transpose(ipu.transpose(x)) * 2 end,
  function(x, w) return ipu.nn.dropout(x, {rate = 0.5}) + w[1] end,
  function(x, w) return ipu.concat({x, x}, 0):slice({0, 0}, {x.shape[1], w.shape[1]}) end,
  function(x) return ipu.cast(ipu.cast(x, "float16") * 2, "float32") end,
  function(x, w) return x + ipu.gather(w, ipu.zeros({x.shape[1]}, "int32")) end,
  function(x, w)
    return (ipu.loops.repeat_n(3, function(s) return ipu.tanh(s:matmul(w)) end, {x}))
  end,
  function(x, w)
    return (ipu.while_loop(function(s) return ipu.less(ipu.reduce_sum(s), 9) end,
      function(s) return s + w[1] end, {x}, {maximum_iterations = 5}))
  end,
  function(x, w)
    return ipu.cond(ipu.less(ipu.reduce_sum(x), 0), function() return x:matmul(w) end,
      function() return x * 3 end)
  end,
  function(x, w)
    w:assign_add(w * 0.5)
    return x - w[1]
  end,
  function(x) return ipu.cross_replica_sum(x) end,
  function(x)
    return x + ipu.host_callback(function() return 0 end, {outputs = {{{}, "float32"}}})(x)
  end,
  function(x, w)
    for _ in ipu.range(4) do w:assign(w * 0.5) end
    return x
  end,
  function(x, w)
    local slope = ipu.gradients(ipu.reduce_sum(ipu.tanh(x:matmul(w))), {x, w})
    w:assign_sub(slope[2])
    return slope[1]
  end,
  function(x) return ipu.stop_gradient(x) end,
  function(x, w)
    return ipu.outside_compilation_scope()(function() return ipu.sin(x + w[1]) end) * 2
  end,
  function(x) return x + ipu.outside_compilation_scope()(function() return ipu.exp(x) end) end,
  function(x) return x end,
}

local function random_chain(random, shards)
  local list = {}
  for i = 1, 1 + below(random, 6) do
    list[i] = {pick(random, kinds_of_step), 1 + below(random, 2), below(random, shards)}
  end
  return list
end

local function apply(chain, x, ws, stage)
  for _, step in ipairs(chain) do
    local function f() return step[1](x, ws[step[2]]) end
    x = stage and f() or ipu.ipu_shard(step[3])(f)
  end
  return x
end

local function variables(n)
  return {ipu.Variable(ipu.zeros{n, n}), ipu.Variable(ipu.zeros{n, n})}
end

local kinds = {}

function kinds.straight(random, m, n, shards)
  local chain, ws = random_chain(random, shards), variables(n)
  return function(x) return apply(chain, x, ws) end, {{m, n}}
end

function kinds.fed(random, m, n, shards)
  local chain, ws = random_chain(random, shards), variables(n)
  local rounds = pick(random, {1, 2, 10, 1000})
  local infeed = ipu.IPUInfeedQueue(ipu.data.from_tensors(ipu.zeros{m, n}):repeat_n())
  local outfeed = ipu.IPUOutfeedQueue()
  return function()
    return ipu.loops.repeat_n(rounds, function(s, x)
      local y = apply(chain, x, ws)
      outfeed:enqueue{y = y}
      return s + ipu.reduce_sum(y)
    end, {0.0}, infeed)
  end, {}
end

function kinds.pipeline(random, m, n)
  local count, stages = pick(random, {4, 8, 24}), 2 + below(random, 2)
  local given = {
    computational_stages = {}, gradient_accumulation_count = count * stages,
    repeat_count = 1 + below(random, 2), device_mapping = {},
    infeed_queue = ipu.IPUInfeedQueue(ipu.data.from_tensors(ipu.zeros{m, n}):repeat_n()),
    outfeed_queue = ipu.IPUOutfeedQueue(),
    pipeline_schedule = pick(random, {"Grouped", "Interleaved", "Sequential", "OneFOneB"}),
    offload_activations = random() < 0.3 or nil,
  }
  for s = 1, stages do
    local chain, ws = random_chain(random, 1), variables(n)
    given.device_mapping[s] = s - 1
    given.computational_stages[s] = function(x)
      local y = apply(chain, x, ws, true)
      return s < stages and y or ipu.reduce_mean(y * ws[1][1])
    end
  end
  if random() < 0.7 then
    given.optimizer_function = function(loss)
      return ipu.OptimizerFunctionOutput(ipu.train.AdamOptimizer(0.1), loss)
    end
  end
  return function() return ipu.pipeline(given) end, {}
end

local targets <const> = {"gc2", "gc200", "bow", "c600", {base = "GC200", name = "one", tiles = 1},
  {base = "GC200", name = "odd", tiles = 37}, {base = "Bow", name = "wide", tile_bytes = 4194304},
  {base = "GC200", name = "slow", clock_hz = 1000000}}

local settings <const> = {
  {}, {}, {["io_tiles.num_io_tiles"] = 32, ["io_tiles.place_ops_on_io_tiles"] = true},
  {["optimizations.maximum_cross_replica_sum_buffer_size"] = 1000000},
  {["optimizations.merge_infeed_io_copies"] = false}, {allow_recompute = true},
  {["matmuls.poplar_options"] = {availableMemoryProportion = "0.1"}},
}

-- ------------------------------------------------ what must hold

local phases <const> = {"compute", "exchange", "sync", "stream"}

-- Bytes and cycles of each IPU are rounded.
local function near(a, b, share)
  return math.abs(a - b) <= share * math.max(math.abs(a), math.abs(b)) + 2
end

local Check = {}
Check.__index = Check

function Check:that(holds, ...)
  if not holds then self[#self + 1] = string.format(...) end
end

function Check:equal(what, a, b, share)
  self:that(near(a, b, share or 1e-6), "%s: %.17g and %.17g", what, a, b)
end

-- Rows as tables by their columns' names.
local function rows_of(list, names, strings)
  local rows = {}
  for i, values in ipairs(list) do
    local row = {}
    for k, name in ipairs(names) do row[name] = values[k] end
    for _, name in ipairs{"kind", "name", "category"} do
      if row[name] then row[name] = strings[row[name] + 1] end
    end
    rows[i] = row
  end
  return rows
end

local function finite(check, value, where)
  if type(value) == "table" then
    for key, inner in pairs(value) do finite(check, inner, where .. "." .. tostring(key)) end
  elseif type(value) == "number" then
    check:that(value == value and math.abs(value) < math.huge, "%s is %s", where, value)
  end
end

local function check_phases(check, p, s)
  for _, x in ipairs{p.totals, table.unpack(p.ipus)} do
    local sum = 0
    for _, phase in ipairs(phases) do
      sum = sum + x.cycles[phase]
      check:that(x.cycles[phase] >= 0, "%s of %s is %g", phase, x.ipu or "all", x.cycles[phase])
    end
    check:equal("phases of " .. (x.ipu or "all"), sum, x.cycles.total)
    check:equal("all of " .. (x.ipu or "all"), x.cycles.total, s.cycles.total)
  end
  check:equal("seconds", p.totals.seconds, s.cycles.total / p.target.clock_hz, 1e-6)
end

local function check_steps(check, p, steps)
  if #p.stages > 0 then return end
  local most = {}
  for i, step in ipairs(steps) do
    check:that(step.parent < i - 1, "step %d is in the block %d behind it", i - 1, step.parent)
    check:that(step.times >= 0, "step %d runs %g times", i - 1, step.times)
    for _, phase in ipairs(phases) do
      check:that(step[phase] >= 0, "%s of step %d (%s) is %g", phase, i - 1, step.name, step[phase])
      most[phase] = (most[phase] or 0) + step.times * step[phase]
    end
  end
  if #p.ipus > 1 then return end
  for _, phase in ipairs(phases) do
    check:equal("steps' " .. phase, most[phase] or 0, p.totals.cycles[phase], 1e-5)
  end
end

local of_tensors <const> = {variable = true, constant = true, activation = true, stash = true}

-- The live bytes at each step are nowhere more than at the peak.
local function check_memory(check, p, steps, s)
  local held = rows_of(p.variables, p.variable_columns, p.strings)
  local all = 0
  for _, x in ipairs(p.ipus) do
    local categories, tensors, tiles, most = 0, 0, 0, 0
    for name, bytes in pairs(x.memory.categories) do
      categories = categories + bytes
      if of_tensors[name] then tensors = tensors + bytes end
      check:that(bytes >= 0, "%s of IPU %d is %g", name, x.ipu, bytes)
    end
    all = all + categories
    for _, bytes in ipairs(x.tiles.bytes) do tiles, most = tiles + bytes, math.max(most, bytes) end
    check:equal("categories of IPU " .. x.ipu, categories, x.memory.total)
    check:equal("parts of IPU " .. x.ipu, x.memory.always_live + x.memory.not_always_live,
      x.memory.total)
    check:that(math.abs(tiles - x.memory.total) <= 0.5 * #x.tiles.bytes + 1e-6 * tiles,
      "tiles of IPU %d hold %g of %g bytes", x.ipu, tiles, x.memory.total)
    check:that(math.abs(most - x.tiles.most) <= 1, "most of IPU %d is %g, of its tiles %g", x.ipu,
      x.tiles.most, most)
    check:that(x.tiles.least <= x.tiles.mean + 1 and x.tiles.mean <= x.tiles.most + 1,
      "least, mean, most of IPU %d: %g %g %g", x.ipu, x.tiles.least, x.tiles.mean, x.tiles.most)
    local live, peak = {}, x.memory.peak_step
    for i = 0, math.max(#steps - 1, 0) do live[i] = 0 end
    for _, v in ipairs(held) do
      if v.ipu == x.ipu and v.offloaded ~= 1 then
        local always = v.always == 1
        check:that(always or v.first <= v.last, "%s is live from %d to %d", v.name, v.first, v.last)
        for i = always and 0 or math.max(v.first, 0), always and #steps - 1 or v.last do
          live[i] = (live[i] or 0) + v.bytes
        end
      end
    end
    if #steps > 0 then
      check:equal("live at the peak of IPU " .. x.ipu, live[peak] or 0, tensors)
    end
    for i = 0, #steps - 1 do
      local temporary = steps[i + 1].ipu == x.ipu and steps[i + 1].temporary or 0
      check:that(live[i] + temporary <= x.memory.total * (1 + 1e-6) + 1,
        "step %d of IPU %d has %g bytes live, the peak has %g", i, x.ipu, live[i] + temporary,
        x.memory.total)
    end
  end
  check:equal("memory", all, s.memory.total)
end

local function check_timeline(check, p)
  local ends, last = 0, {}
  for _, e in ipairs(rows_of(p.timeline, p.timeline_columns, p.strings)) do
    local former = last[e.ipu] or 0
    check:that(e.begin >= former - 2 - 1e-9 * former, "on IPU %d %g begins before %g", e.ipu,
      e.begin, former)
    last[e.ipu] = e.begin + e.cycles
    ends = math.max(ends, last[e.ipu])
  end
  check:that(math.abs(ends - p.totals.cycles.total) <= 2 + #p.timeline + 1e-6 * ends,
    "the time line ends at %g of %g", ends, p.totals.cycles.total)
end

local function check_trace(check, p, text)
  local trace, ends, last = ipu.json.decode(text), 0, {}
  for _, event in ipairs(trace.traceEvents) do
    if event.ph == "X" then
      local key = event.pid .. " " .. event.tid
      check:that(event.ts >= (last[key] or 0) - 2e-3 - 1e-9 * event.ts, "slices of %s overlap", key)
      check:that(event.dur >= 0, "%s lasts %g", event.name, event.dur)
      last[key] = event.ts + event.dur
      ends = math.max(ends, last[key])
    end
  end
  check:equal("end of the trace in us", ends, 1e6 * p.totals.seconds, 1e-4)
end

local function whole(text) return tonumber((text:gsub(",", ""))) end

local function check_text(check, p, text)
  local cycles = text:match("One run: ([%d,]+) cycles")
  check:that(cycles, "the summary has no cycles")
  if cycles then check:equal("cycles in words", whole(cycles), p.totals.cycles.total, 1e-9) end
  for _, phase in ipairs(phases) do
    local said = text:match("\n  " .. phase .. " +([%d,]+) ")
    check:that(said, "the summary has no %s", phase)
    if said then check:equal(phase .. " in words", whole(said), p.totals.cycles[phase], 1e-9) end
  end
  check:that(not text:find("nan", 1, true) and not text:find("inf[^e]"),
    "the summary has what is no number")
  check:that(p.totals.fits == not text:find("DOES NOT FIT", 1, true),
    "the summary says something else of fitting")
end

local function check_stages(check, p, s)
  check:that(#p.stages == #s.stages, "%d and %d stages", #p.stages, #s.stages)
  for i, stage in ipairs(p.stages) do
    local other = s.stages[i]
    for _, key in ipairs{"ipu", "forward_cycles", "backward_cycles", "stash_bytes",
      "stash_depth"} do
      check:equal("stage " .. i .. "'s " .. key, stage[key], other[key])
    end
  end
end

-- ------------------------------------------------ a seed

local function ipus_for(kind, shards, random)
  if kind == "pipeline" then return 4 * pick(random, {1, 1, 2}) end
  local n = 1
  while n < shards do n = n * 2 end
  return n * pick(random, {1, 1, 2, 4})
end

---Prices the program of a seed: nil, or what doesn't hold.
---@param seed integer
---@return string?
function fuzz.check(seed)
  local random = seeds.generator(seed)
  local kind = pick(random, {"straight", "straight", "fed", "pipeline"})
  local m, n, shards = pick(random, extents), pick(random, extents), pick(random, {1, 1, 1, 2, 3})
  local options = {target = pick(random, targets), host = pick(random, {"machine", "model"}),
    ipus = ipus_for(kind, shards, random), topology = pick(random, {"mesh", "torus", "line"})}
  local chosen = pick(random, settings)
  local small = type(options.target) == "table" and (options.target.tiles or 1472) < 64
  if small and chosen["io_tiles.num_io_tiles"] then chosen = {} end
  local _ <close> = pipelines.device(options.ipus, chosen)
  local ok, problem = pcall(function()
    local f, inputs = kinds[kind](random, m, n, shards)
    options.fn, options.inputs = f, inputs
    local price = estimate.price(options)
    local p, s = ipu.json.decode(price:json("{}")), price:summary()
    local steps = rows_of(p.steps, p.step_columns, p.strings)
    local check = setmetatable({}, Check)
    finite(check, p, "profile")
    finite(check, s, "estimate")
    check_phases(check, p, s)
    check_steps(check, p, steps)
    check_memory(check, p, steps, s)
    check_timeline(check, p)
    check_trace(check, p, price:trace())
    check_text(check, p, price:text())
    check_stages(check, p, s)
    check:that(p.totals.fits == s.fits, "fits %s and %s", p.totals.fits, s.fits)
    check:that(s.fits or price:complaint():find("does not fit", 1, true) ~= nil, "no complaint")
    return #check > 0 and table.concat(check, "\n  ", 1, math.min(#check, 6)) or nil
  end)
  if ok and not problem then return nil end
  local refused = false
  for _, words in ipairs{"must be a multiple", "is used by stages", "a pipeline can't overlap"} do
    refused = refused or not ok and problem:find(words, 1, true) ~= nil
  end
  if refused then return nil end
  local name = type(options.target) == "table" and options.target.name or options.target
  return string.format("seed %d, %s of [%d, %d] on %d IPUs of %s, %d shards:\n  %s", seed, kind, m,
    n, options.ipus, name, shards, problem)
end

seeds.main("fuzz_profiles", fuzz.check)

return fuzz
