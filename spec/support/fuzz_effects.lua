-- Random programs that assign, branch, repeat, call each other and the script. Each runs in every
-- form, and is compared with a model in plain Lua. The final values of variables, the results, and
-- the calls of the script, in order, must agree. Values are vectors of small whole numbers, so that
-- every form has the same bits.
--
--   build/ipulua spec/support/fuzz_effects.lua [first seed] [how many]

local ipu = require "ipulua"
local seeds = require "spec.support.fuzz_seeds"

local fuzz = {}

local extent <const>, modulus <const> = 3, 11

local below <const> = seeds.below

-- ------------------------------------------------ two machines

-- Each has: add, sub, mul (remainders of modulus), is_even, is_small (of the sum), read, assign,
-- add_to, choose, times, carry, as_long_as, tell, row. Both know the same statements.

local model = {}

local function each(f)
  return function(a, b)
    local out = {}
    for i = 1, extent do out[i] = f(a[i], b and b[i]) end
    return out
  end
end

model.add = each(function(a, b) return (a + b) % modulus end)
model.sub = each(function(a, b) return (a - b) % modulus end)
model.mul = each(function(a, b) return a * b % modulus end)
model.row = function(a, i) return {a[i], a[i], a[i]} end

local function sum(a)
  local total = 0
  for i = 1, extent do total = total + a[i] end
  return total
end

model.is_even = function(a) return sum(a) % 2 == 0 end
model.is_small = function(a) return sum(a) < 12 end
model.bump = each(function(a) return a + 2 end)
function model.read(m, k) return m.variable[k] end
function model.assign(m, k, a) m.variable[k] = a end
local plus = each(function(x, y) return x + y end)
function model.add_to(m, k, a) m.variable[k] = plus(m.variable[k], a) end
function model.choose(test, yes, no)
  if test then return yes() end
  return no()
end
function model.times(_, n, body)
  for i = 0, n - 1 do body({i, i, i}) end
end
function model.carry(_, n, body, a, b)
  for _ = 1, n do a, b = body(a, b) end
  return a, b
end
function model.as_long_as(_, test, body, a, most)
  local rounds = 0
  while rounds < most and test(a) do
    a = body(a)
    rounds = rounds + 1
  end
  return a
end
function model.tell(m, id, a, reads)
  local line = {id, table.concat(a, " ")}
  for _, k in ipairs(reads) do line[#line + 1] = k .. "=" .. table.concat(m.variable[k], " ") end
  m.told[#m.told + 1] = table.concat(line, " ")
  return model.bump(a)
end

local real = {}

local function words(t)
  local list = t:totable()
  for i = 1, extent do list[i] = math.tointeger(list[i]) end
  return table.concat(list, " ")
end

function real.add(a, b) return (a + b) % modulus end
function real.sub(a, b) return (a - b) % modulus end
function real.mul(a, b) return a * b % modulus end
function real.row(a, i) return ipu.broadcast_to(a[i], {extent}) end
function real.is_even(a) return ipu.equal(ipu.reduce_sum(a) % 2, 0) end
function real.is_small(a) return ipu.less(ipu.reduce_sum(a), 12) end
function real.read(m, k)
  return m.way == 1 and m.variable[k]:read_value() or m.variable[k] * 1
end
function real.assign(m, k, a) m.variable[k]:assign(a) end
function real.add_to(m, k, a) m.variable[k]:assign_add(a) end
function real.choose(test, yes, no) return ipu.cond(test, yes, no) end
function real.times(m, n, body)
  for i in ipu.range(m.known and n or m.count[n]) do
    body(ipu.broadcast_to(ipu.cast(ipu.tensor(i, {dtype = "int32"}), m.dtype), {extent}))
  end
end
function real.carry(m, n, body, a, b)
  return ipu.loops.repeat_n(m.known and n or m.count[n], body, {a, b})
end
function real.as_long_as(_, test, body, a, most)
  return (ipu.while_loop(test, body, {a}, {maximum_iterations = most}))
end
-- How a callback looks at a variable.
local looks <const> = {
  function(v) return v:read_value() end,
  function(v) return v * 1 end,
  function(v) return ipu.stack{v[1], v[2], v[3]} end,
  function(v) return ipu.func(function() return v + v - v end)() end,
  function(v) return ipu.GradientTape()(function() return v - 0 end) end,
}

function real.tell(m, id, a, reads)
  m.callback[id] = m.callback[id] or ipu.host_callback(function(x)
    local line = {id, words(x)}
    for _, k in ipairs(reads) do
      local look = looks[1 + (id + k) % #looks]
      line[#line + 1] = k .. "=" .. words(look(m.variable[k]))
    end
    m.told[#m.told + 1] = table.concat(line, " ")
    return x + 2
  end, {outputs = {{{extent}, m.dtype}}})
  return m.callback[id](a)
end

-- ------------------------------------------------ programs

-- A statement takes a machine (its functions and its state), and the list of values that there
-- are; it may append one.
local statements = {}

local variables <const> = 3

local function pick(random)
  local back = below(random, 3)
  return function(values) return values[math.max(#values - back, 1)] end
end

local function block(random, depth, most)
  local list = {}
  for i = 1, 1 + below(random, most) do
    local kind = statements[1 + below(random, depth > 0 and #statements or statements.flat)]
    list[i] = kind(random, depth - 1)
  end
  return function(f, m, values)
    local mine = table.move(values, 1, #values, 1, {})
    for _, statement in ipairs(list) do statement(f, m, mine) end
    return mine[#mine], mine[math.max(#mine - 1, 1)]
  end
end

local function operation(random)
  local name, a, b = ({"add", "sub", "mul"})[1 + below(random, 3)], pick(random), pick(random)
  return function(f, _, values) values[#values + 1] = f[name](a(values), b(values)) end
end

local function reading(random)
  local k, also = 1 + below(random, variables), pick(random)
  return function(f, m, values) values[#values + 1] = f.add(f.read(m, k), also(values)) end
end

local function raw_reading(random)
  local k = 1 + below(random, variables)
  return function(f, m, values) values[#values + 1] = f.read(m, k) end
end

local function assignment(random)
  local k, a = 1 + below(random, variables), pick(random)
  return function(f, m, values) f.assign(m, k, a(values)) end
end

local function addition(random)
  local k, a = 1 + below(random, variables), pick(random)
  return function(f, m, values)
    f.add_to(m, k, a(values))
    f.assign(m, k, f.add(f.read(m, k), f.mul(a(values), a(values))))
  end
end

local function exchange(random)
  local k, l = 1 + below(random, variables), 1 + below(random, variables)
  return function(f, m)
    local a, b = f.read(m, k), f.read(m, l)
    f.assign(m, k, b)
    f.assign(m, l, a)
  end
end

local function element(random)
  local a, i = pick(random), 1 + below(random, extent)
  return function(f, _, values) values[#values + 1] = f.row(a(values), i) end
end

local ids = 0

local function telling(random)
  local a, reads = pick(random), {}
  for k = 1, variables do if random() < 0.4 then reads[#reads + 1] = k end end
  ids = ids + 1
  local id = ids
  return function(f, m, values) values[#values + 1] = f.tell(m, id, a(values), reads) end
end

local function branch(random, depth)
  local test, a = ({"is_even", "is_small"})[1 + below(random, 2)], pick(random)
  local yes, no = block(random, depth, 3), block(random, depth, 3)
  return function(f, m, values)
    values[#values + 1] = f.choose(f[test](a(values)), function() return (yes(f, m, values)) end,
      function() return (no(f, m, values)) end)
  end
end

local function rounds(random, depth)
  local n, body = below(random, 4), block(random, depth, 3)
  return function(f, m, values)
    f.times(m, n, function(i)
      body(f, m, table.move({i}, 1, 1, #values + 1, table.move(values, 1, #values, 1, {})))
    end)
  end
end

local function carrying(random, depth)
  local n, body, a, b = below(random, 4), block(random, depth, 3), pick(random), pick(random)
  return function(f, m, values)
    local function again(x, y) return body(f, m, {values[1], x, y}) end
    local x, y = f.carry(m, n, again, a(values), b(values))
    values[#values + 1], values[#values + 2] = x, y
  end
end

local function while_small(random, depth)
  local most, body, a = 1 + below(random, 4), block(random, depth, 2), pick(random)
  local counted = random() < 0.4 and 1 + below(random, variables)
  return function(f, m, values)
    values[#values + 1] = f.as_long_as(m, function(x)
      if counted then f.assign(m, counted, f.add(f.read(m, counted), x)) end
      return f.is_small(x)
    end, function(x) return (body(f, m, {values[1], x})) end, a(values), most)
  end
end

local function called(random, depth)
  local body, a = block(random, depth, 3), pick(random)
  return function(f, m, values)
    local g = m.func(function(x) return (body(f, m, {values[1], x})) end)
    values[#values + 1] = g(a(values))
  end
end

statements = {operation, reading, raw_reading, assignment, addition, exchange, element, telling,
  branch, rounds, carrying, while_small, called}
statements.flat = 8

-- ------------------------------------------------ forms

local function numbers(random)
  local list = {}
  for i = 1, extent do list[i] = below(random, modulus) end
  return list
end

-- The outcome, as text.
local function outcome(m, held, ...)
  local lines = {...}
  for k = 1, variables do lines[#lines + 1] = "v" .. k .. " " .. held[k] end
  table.move(m.told, 1, #m.told, #lines + 1, lines)
  return table.concat(lines, "\n")
end

local function same_function(f) return f end

local function expected(program, first, x, times)
  local m = {variable = {table.unpack(first)}, told = {}, func = same_function}
  local a, b
  for _ = 1, times do a, b = program(model, m, {x, x}) end
  local held = {}
  for k = 1, variables do held[k] = table.concat(m.variable[k], " ") end
  return outcome(m, held, table.concat(a, " "), table.concat(b, " "))
end

local function state(first, dtype, known, way)
  local m = {variable = {}, told = {}, callback = {}, count = {}, dtype = dtype, func = ipu.func,
    known = known, way = way}
  for k = 1, variables do
    m.variable[k] = ipu.Variable(ipu.tensor(first[k], {dtype = dtype}))
  end
  for n = 0, 4 do m.count[n] = ipu.tensor(n, {dtype = "int32"}) end
  return m
end

---Each runs f(x), which is to run `times` times.
fuzz.forms = {
  {"eager", 1, function(f, x) return f(x) end},
  {"under a tape", 1, function(f, x) return ipu.GradientTape()(f, x) end},
  {"compiled", 1, function(f, x) return ipu.func(f)(x) end},
  {"compiled, twice", 2, function(f, x)
    local g = ipu.func(f)
    g(x)
    return g(x)
  end},
  {"in a job", 1, function(f, x)
    local _ <close> = ipu.IPUStrategy():scope()
    return ipu.IPUStrategy():run_async(ipu.func(f), {args = {x}}):wait()
  end},
  {"in a loop", 2, function(f, x)
    return ipu.func(function(given)
      return ipu.loops.repeat_n(2, function(_, _) return f(given) end, {given * 0, given * 0})
    end)(x)
  end},
  {"in a branch", 1, function(f, x)
    return ipu.func(function(given)
      return ipu.cond(ipu.less(ipu.reduce_sum(given), 1e6), function() return f(given) end,
        function() return given * 1, given * 2 end)
    end)(x)
  end},
}

local function run(form, program, first, x, dtype, known, way)
  local m = state(first, dtype, known, way)
  local function f(given) return program(real, m, {given, given}) end
  local a, b = form[3](f, ipu.tensor(x, {dtype = dtype}))
  local held = {}
  for k = 1, variables do held[k] = words(m.variable[k]) end
  return outcome(m, held, words(a), words(b))
end

---Runs the program of a seed in all forms: nil, or what disagrees.
---@param seed integer
---@return string?
function fuzz.check(seed)
  local random = seeds.generator(seed)
  ids = 0
  local program = block(random, 3, 6)
  local first, x = {}, numbers(random)
  for k = 1, variables do first[k] = numbers(random) end
  local dtype = ({"float32", "int32"})[1 + below(random, 2)]
  local known, way = random() < 0.5, below(random, 2)
  local wrong
  for _, form in ipairs(fuzz.forms) do
    local want = expected(program, first, x, form[2])
    local ok, got = pcall(run, form, program, first, x, dtype, known, way)
    if not ok or got ~= want then
      wrong = (wrong or "") .. string.format("seed %d (%s), %s:\n%s\n-- instead of\n%s\n", seed,
        dtype, form[1], got, want)
    end
  end
  return wrong
end

seeds.main("fuzz_effects", fuzz.check)

return fuzz
