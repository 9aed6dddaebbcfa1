-- Random programs that take from infeeds, put into outfeeds and call the script. They do so in
-- loops, loops without a known end and branches, inside one another. A model in plain Lua gives the
-- expected results. A queue is taken from at several places. Elements and calls fail, datasets end,
-- and then the next run goes on where the failed one stopped. Compared: what was returned, what
-- each outfeed holds, what the script was told, how each run ended.
--
--   build/ipulua spec/support/fuzz_queues.lua [first seed] [how many]

local config = require "ipulua.config"
local core = require "ipulua.core"
local ipu = require "ipulua"
local seeds = require "spec.support.fuzz_seeds"

local fuzz = {}

local below <const>, pick <const> = seeds.below, seeds.pick
local modulus <const> = 1009

-- ------------------------------------------------ two machines

-- Each has: take, put, tell (infeed, outfeed or callback by number), mix, branch, times,
-- as_long_as. A machine's state is one whole number.

local model = {}

function model.mix(_, a, x) return (a * 3 + x) % modulus end

function model.take(m, q)
  local at = m.position[q] + 1
  local x = m.elements[q][at]
  if not x then error("end", 0) end
  m.position[q] = at
  if x < 0 then error("element", 0) end
  return x
end

function model.put(m, o, a)
  if m.is_last[o] then m.out[o] = {a} else m.out[o][#m.out[o] + 1] = a end
end

function model.tell(m, id, a)
  m.told[#m.told + 1] = id .. ":" .. a
  if a % 23 == m.bad then error("call", 0) end
  return (a + id) % modulus
end

function model.branch(_, a, f, g) return a % 2 == 0 and f(a) or g(a) end
function model.times(_, n, a, f)
  for _ = 1, n do a = f(a) end
  return a
end

-- The body is given an element of q, where there is one.
function model.fed(m, n, a, q, f)
  for _ = 1, n do a = f(a, model.take(m, q)) end
  return a
end

function model.as_long_as(_, most, a, f)
  local i = 0
  while i < most and a % 7 ~= 0 do a, i = f(a), i + 1 end
  return a
end

local real = {}

local function int(x) return ipu.cast(x, "int32") end
function real.mix(_, a, x) return ipu.mod(a * 3 + x, int(modulus)) end
local function whole(x, doubled) return doubled and int(doubled) - x or x end
function real.take(m, q) return whole(m.infeed[q]:dequeue_in_loop()) end
function real.put(m, o, a) m.outfeed[o]:enqueue(a) end
function real.tell(m, id, a)
  m.callback[id] = m.callback[id] or ipu.host_callback(function(x)
    local number = x:item()
    m.told[#m.told + 1] = id .. ":" .. number
    if number % 23 == m.bad then error("refused by the script") end
    return ipu.tensor((number + id) % modulus, {dtype = "int32"})
  end, {outputs = {{{}, "int32"}}})
  return m.callback[id](a)
end
function real.branch(_, a, f, g)
  return ipu.cond(ipu.equal(ipu.mod(a, int(2)), 0), function() return f(a) end,
    function() return g(a) end)
end
function real.times(_, n, a, f) return ipu.loops.repeat_n(n, f, {a}) end
function real.fed(m, n, a, q, f)
  return ipu.loops.repeat_n(n, function(v, ...) return f(v, whole(...)) end, {a}, m.infeed[q])
end
function real.as_long_as(_, most, a, f)
  return ipu.while_loop(function(v) return ipu.not_equal(ipu.mod(v, int(7)), 0) end, f, {a},
    {maximum_iterations = most})
end

-- ------------------------------------------------ programs

-- A program is a function of a machine and a number; parts are drawn once.
local block

local function drawn_statement(random, c, depth)
  local kind = below(random, depth > 0 and 8 or 4)
  if kind < 2 then
    local q = 1 + below(random, c.infeeds)
    return function(f, m, a) return f.mix(m, a, f.take(m, q)) end
  elseif kind == 2 and c.outfeeds < 3 then
    c.outfeeds = c.outfeeds + 1 -- one place each
    local o = c.outfeeds
    return function(f, m, a)
      f.put(m, o, a)
      return a
    end
  elseif kind < 4 then
    if not c.tells then return function(f, m, a) return f.mix(m, a, 5) end end
    c.callbacks = c.callbacks + 1
    local id = c.callbacks
    return function(f, m, a) return f.tell(m, id, a) end
  end
  local inner, n = block(random, c, depth - 1), pick(random, {0, 1, 2, 3, 7})
  if kind == 4 then
    local other = block(random, c, depth - 1)
    return function(f, m, a)
      return f.branch(m, a, function(v) return inner(f, m, v) end,
        function(v) return other(f, m, v) end)
    end
  elseif kind == 5 then
    return function(f, m, a)
      return f.as_long_as(m, n, a, function(v) return inner(f, m, v) end)
    end
  elseif kind == 6 then
    local q = 1 + below(random, c.infeeds)
    return function(f, m, a)
      return f.fed(m, n, a, q, function(v, x) return inner(f, m, f.mix(m, v, x)) end)
    end
  end
  return function(f, m, a)
    return f.times(m, n, a, function(v) return inner(f, m, v) end)
  end
end

function block(random, c, depth)
  local list = {}
  for i = 1, 1 + below(random, 3) do list[i] = drawn_statement(random, c, depth) end
  return function(f, m, a)
    for _, s in ipairs(list) do a = s(f, m, a) end
    return a
  end
end

-- ------------------------------------------------ runs

local function drawn_elements(random, fails)
  local list = {}
  for i = 1, 5 + below(random, 120) do
    list[i] = fails and i > 1 and random() < 0.03 and -1 or below(random, 1000)
  end
  return list
end

-- Where no element fails (−1), a loop may read the next one ahead. Pairs carry an element as a
-- difference.
local function dataset(random, list, fails)
  local pairs_of, ahead = random() < 0.5, random() < 0.3
  local ds = ipu.data.from_tensor_slices(ipu.tensor(list, {dtype = "int32"}))
  local function element(x)
    if fails and x:item() < 0 then error("unreadable") end
    if pairs_of then return x, ipu.cast(x * 2, "float32") end
    return x
  end
  if fails or pairs_of then ds = ds:map(element, {eager = fails}) end
  return ahead and ds:prefetch(2) or ds
end

local function ending(fine, problem)
  if fine then return "fine" end
  problem = tostring(problem)
  for _, case in ipairs{{"end of data", "end"}, {"unreadable", "element"},
    {"refused by the script", "call"}} do
    if problem:find(case[1], 1, true) then return case[2] end
  end
  return problem
end

local function values_of(q, is_last)
  local fine, values = pcall(q.dequeue, q)
  if not fine then return tostring(values) end
  if is_last then return tostring(values:item()) end
  return table.concat(values:totable(), " ")
end

---nil, or what is wrong.
function fuzz.check(seed)
  local random = seeds.generator(seed)
  local c = {infeeds = 1 + below(random, 2), outfeeds = 0, callbacks = 0, tells = random() < 0.5}
  local program, threads = block(random, c, 3), 1 + below(random, 3)
  local fails, refuses = random() < 0.3, random() < 0.4
  local m = {position = {}, elements = {}, out = {}, told = {}, bad = refuses and 5 or -1,
    is_last = {}}
  local r = {infeed = {}, outfeed = {}, callback = {}, told = {}, bad = m.bad}
  ipu.set_num_threads(threads)
  config.reset_ipu_configuration()
  for q = 1, c.infeeds do
    m.elements[q], m.position[q] = drawn_elements(random, fails), 0
    r.infeed[q] = ipu.IPUInfeedQueue(dataset(random, m.elements[q], fails),
      {prefetch_depth = 1 + below(random, 4)})
  end
  for o = 1, c.outfeeds do
    m.is_last[o], m.out[o] = random() < 0.3, {}
    r.outfeed[o] = ipu.IPUOutfeedQueue{outfeed_mode = m.is_last[o] and "LAST" or "ALL"}
  end
  local f = ipu.func(function(a) return program(real, r, a) end)
  local strategy = ipu.IPUStrategy()
  for round = 1, 4 do
    local start = below(random, modulus)
    local fine, result = pcall(program, model, m, start)
    local want = {fine and "fine" or result, fine and tostring(result) or "-"}
    local background = random() < 0.3
    local given = ipu.tensor(start, {dtype = "int32"})
    local ok, got_result
    if background then
      local job
      ok, job = pcall(strategy.run_async, strategy, f, {args = {given}})
      if ok then ok, got_result = pcall(job.wait, job) else got_result = job end
    else
      ok, got_result = pcall(f, given)
    end
    local got = {ending(ok, got_result), ok and tostring(got_result:item()) or "-"}
    for o = 1, c.outfeeds do
      if not m.is_last[o] or #m.out[o] > 0 then
        want[#want + 1] = table.concat(m.out[o], " ")
        got[#got + 1] = values_of(r.outfeed[o], m.is_last[o])
      end
      if not m.is_last[o] then m.out[o] = {} end
    end
    want[#want + 1], got[#got + 1] = table.concat(m.told, " "), table.concat(r.told, " ")
    local a, b = table.concat(got, " | "), table.concat(want, " | ")
    if a ~= b then
      return string.format("seed %d, run %d%s, %d threads: %s instead of %s", seed, round,
        background and " in the background" or "", threads, a, b)
    end
    if random() < 0.15 then -- from the beginning
      local q = 1 + below(random, c.infeeds)
      if r.infeed[q].queue:state() then
        r.infeed[q]:deleter()
        m.position[q] = 0
      end
    end
  end
end

local threads <const> = core.engine_info().threads
function fuzz.restore() ipu.set_num_threads(threads) end

seeds.main("fuzz_queues", fuzz.check)

return fuzz
