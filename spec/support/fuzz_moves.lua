-- Random programs that move numbers: views of values and of variables, which are then assigned,
-- carried by loops and given by branches. Each runs in every form, and is compared with a model in
-- plain Lua. Sizes lie on both sides of a chunk, so that an update in place shows as numbers.
--
--   build/ipulua spec/support/fuzz_moves.lua [first seed] [how many]

local core = require "ipulua.core"
local ipu = require "ipulua"
local seeds = require "spec.support.fuzz_seeds"

local fuzz = {}

local below <const>, pick <const> = seeds.below, seeds.pick
local modulus <const> = 43
local variables <const> = 3

-- ------------------------------------------------ two machines

-- A value is a square matrix of whole numbers; the model holds its rows end to end, and its extent
-- as n. gathered(a, f): element (i, j) is a's at f(i, j), all from 0.
local model, real = {}, {}

local function gathered(a, f)
  local n, out = a.n, {n = a.n}
  for i = 0, n - 1 do
    for j = 0, n - 1 do
      local k, l = f(i, j, n)
      out[i * n + j + 1] = a[k * n + l + 1]
    end
  end
  return out
end

local function each(f)
  return function(a, b)
    local out = {n = a.n}
    for i = 1, #a do out[i] = f(a[i], b and b[i]) % modulus end
    return out
  end
end

model.add = each(function(a, b) return a + b end)
model.mul = each(function(a, b) return a * b end)
model.least = each(math.min)
function real.add(a, b) return (a + b) % modulus end
function real.mul(a, b) return (a * b) % modulus end
real.least = ipu.minimum

function model.turn(a) return gathered(a, function(i, j) return j, i end) end
function real.turn(a) return ipu.transpose(a) end

function model.reverse(a, axis)
  return gathered(a, function(i, j, n)
    if axis == 0 then return n - 1 - i, j end
    return i, n - 1 - j
  end)
end
function real.reverse(a, axis) return ipu.reverse(a, axis) end

function model.roll(a, axis, k)
  return gathered(a, function(i, j, n)
    if axis == 0 then return (i + k) % n, j end
    return i, (j + k) % n
  end)
end
-- In two slices, end to end.
function real.roll(a, axis, k)
  local n = a.shape[1]
  k = k % n
  if k == 0 then return a end
  local begin, head, tail = {0, 0}, {n, n}, {n, n}
  begin[axis + 1], head[axis + 1], tail[axis + 1] = k, k, n - k
  return ipu.concat({ipu.slice(a, begin, tail), ipu.slice(a, {0, 0}, head)}, axis)
end

function model.spread(a, axis, k)
  return gathered(a, function(i, j, n)
    if axis == 0 then return k % n, j end
    return i, k % n
  end)
end
function real.spread(a, axis, k)
  local n = a.shape[1]
  local begin, size = {0, 0}, {n, n}
  begin[axis + 1], size[axis + 1] = k % n, 1
  return ipu.broadcast_to(ipu.slice(a, begin, size), {n, n})
end

-- Every second row, then the others.
function model.sift(a)
  return gathered(a, function(i, j, n)
    local half = (n + 1) // 2
    return i < half and 2 * i or 2 * (i - half) + 1, j
  end)
end
function real.sift(a)
  local n = a.shape[1]
  if n < 2 then return a end
  return ipu.concat({ipu.strided_slice(a, {0, 0}, {n, n}, {2, 1}),
    ipu.strided_slice(a, {1, 0}, {n, n}, {2, 1})}, 0)
end

function model.flat(a)
  local n = a.n
  return gathered(a, function(i, j)
    local at = n * n - 1 - (i * n + j)
    return at // n, at % n
  end)
end
function real.flat(a)
  return ipu.reshape(ipu.reverse(ipu.reshape(a, {-1}), 0), a.shape)
end

-- As [a, b, n], the two first axes exchanged.
local function factor(n)
  for k = math.floor(math.sqrt(n)), 1, -1 do if n % k == 0 then return k end end
end
function model.weave(a)
  local k = factor(a.n)
  local rows = a.n // k
  return gathered(a, function(i, j) return i % k * rows + i // k, j end)
end
function real.weave(a)
  local n = a.shape[1]
  local k = factor(n)
  return ipu.reshape(ipu.transpose(ipu.reshape(a, {k, n // k, n}), {1, 0, 2}), {n, n})
end

function model.rows(a, k) return gathered(a, function(i, j, n) return (i * k + 1) % n, j end) end
function real.rows(a, k)
  local n = a.shape[1]
  return ipu.gather(a, (ipu.arange(n) * ipu.tensor(k, {dtype = "int32"}) + 1) % n)
end

-- Row k of b in a.
function model.put(a, b, k)
  local n = a.n
  local out = table.move(a, 1, n * n, 1, {n = n})
  k = k % n
  table.move(b, k * n + 1, k * n + n, k * n + 1, out)
  return out
end
function real.put(a, b, k)
  local n = a.shape[1]
  k = k % n
  local parts = {}
  if k > 0 then parts[#parts + 1] = ipu.slice(a, {0, 0}, {k, n}) end
  parts[#parts + 1] = ipu.slice(b, {k, 0}, {1, n})
  if k < n - 1 then parts[#parts + 1] = ipu.slice(a, {k + 1, 0}, {n - 1 - k, n}) end
  return ipu.concat(parts, 0)
end

function model.mix(a, b, k)
  local out = {n = a.n}
  for i = 1, #a do out[i] = a[i] < k and a[i] or b[i] end
  return out
end
function real.mix(a, b, k) return ipu.where(ipu.less(a, k), a, b) end

function model.read(m, k) return m.variable[k] end
function model.assign(m, k, a) m.variable[k] = a end
function model.add_to(m, k, a)
  local v = m.variable[k]
  local out = {n = v.n}
  for i = 1, #v do out[i] = v[i] + a[i] end
  m.variable[k] = out
end
function real.read(m, k)
  return m.way == 1 and m.variable[k]:read_value() or ipu.identity(m.variable[k])
end
function real.assign(m, k, a) m.variable[k]:assign(a) end
function real.add_to(m, k, a) m.variable[k]:assign_add(a) end

local function corner(a) return a[1] % 2 == 0 end
function model.choose(a, yes, no)
  if corner(a) then return yes() end
  return no()
end
function real.choose(a, yes, no)
  return ipu.cond(ipu.equal(a[1][1] % 2, 0), yes, no)
end
function model.carry(_, n, body, a, b, c)
  for _ = 1, n do a, b, c = body(a, b, c) end
  return a, b, c
end
function real.carry(m, n, body, a, b, c)
  return ipu.loops.repeat_n(m.known and n or ipu.tensor(n, {dtype = "int32"}), body, {a, b, c})
end
function model.as_long_as(body, a, b, most)
  local rounds = 0
  while rounds < most and a[1] < 25 do
    a, b = body(a, b)
    rounds = rounds + 1
  end
  return a, b
end
function real.as_long_as(body, a, b, most)
  return ipu.while_loop(function(x, _) return ipu.less(x[1][1], 25) end, body, {a, b},
    {maximum_iterations = most})
end

-- ------------------------------------------------ programs

local statements = {}

local function taken(random)
  local back = below(random, 4)
  return function(values) return values[math.max(#values - back, 1)] end
end

-- Makers of further statements, which inner blocks take too.
local others

local function block(random, depth, most)
  local list = {}
  for i = 1, 1 + below(random, most) do
    local kind = statements[1 + below(random, depth > 0 and #statements or statements.flat)]
    if others then
      if kind == statements.remainders then kind = others[1] end
      if random() < 0.4 then kind = pick(random, others) end
    end
    list[i] = kind(random, depth - 1)
  end
  local first, second, third = taken(random), taken(random), taken(random)
  return function(f, m, values)
    local mine = table.move(values, 1, #values, 1, {})
    for _, statement in ipairs(list) do statement(f, m, mine) end
    return first(mine), second(mine), third(mine)
  end
end

local moves <const> = {"turn", "reverse", "roll", "spread", "sift", "flat", "weave", "rows"}

local function move(random)
  local name, a, x, k = pick(random, moves), taken(random), below(random, 2), 1 + below(random, 9)
  if name == "rows" then x = k end
  return function(f, _, values) values[#values + 1] = f[name](a(values), x, k) end
end

local function operation(random)
  local name, a, b = pick(random, {"add", "mul", "least"}), taken(random), taken(random)
  return function(f, _, values) values[#values + 1] = f[name](a(values), b(values)) end
end

local function merging(random)
  local name, a, b, k = pick(random, {"put", "mix"}), taken(random), taken(random),
    below(random, 40)
  return function(f, _, values) values[#values + 1] = f[name](a(values), b(values), k) end
end

local function reading(random)
  local k = 1 + below(random, variables)
  return function(f, m, values) values[#values + 1] = f.read(m, k) end
end

local function assignment(random)
  local k, a = 1 + below(random, variables), taken(random)
  return function(f, m, values) f.assign(m, k, a(values)) end
end

-- A variable becomes its own numbers, moved.
local function shift(random)
  local k, by = 1 + below(random, variables), move(random)
  return function(f, m)
    local values = {f.read(m, k)}
    by(f, m, values)
    f.assign(m, k, values[#values])
  end
end

local function addition(random)
  local k, by = 1 + below(random, variables), move(random)
  return function(f, m, values)
    local mine = {f.read(m, k)}
    by(f, m, mine)
    f.add_to(m, k, mine[#mine])
    f.assign(m, k, f.add(f.read(m, k), values[#values]))
  end
end

local function exchange(random)
  local k, l = 1 + below(random, variables), 1 + below(random, variables)
  return function(f, m)
    local a, b = f.read(m, k), f.read(m, l)
    f.assign(m, k, f.turn(b))
    f.assign(m, l, a)
  end
end

local function branch(random, depth)
  local test, yes, no = taken(random), block(random, depth, 3), block(random, depth, 3)
  return function(f, m, values)
    local a, b = f.choose(test(values), function() return yes(f, m, values) end,
      function() return no(f, m, values) end)
    values[#values + 1], values[#values + 2] = a, b
  end
end

local function carrying(random, depth)
  local n, body = below(random, 4), block(random, depth, 4)
  local a, b, c = taken(random), taken(random), taken(random)
  return function(f, m, values)
    local x, y, z = f.carry(m, n, function(...)
      return body(f, m, {values[1], ...})
    end, a(values), b(values), c(values))
    values[#values + 1], values[#values + 2], values[#values + 3] = x, y, z
  end
end

local function while_small(random, depth)
  local most, body, a, b = 1 + below(random, 4), block(random, depth, 3), taken(random),
    taken(random)
  return function(f, m, values)
    local x, y = f.as_long_as(function(...)
      local p, q = body(f, m, {values[1], ...})
      return p, q
    end, a(values), b(values), most)
    values[#values + 1], values[#values + 2] = x, y
  end
end

statements = {move, move, move, operation, merging, reading, assignment, shift, addition, exchange,
  branch, carrying, while_small}
statements.flat = 10
statements.remainders = operation

fuzz.model, fuzz.real, fuzz.taken = model, real, taken

---A random block, of which `more` are makers of statements that stand in place of the remainders.
function fuzz.block(random, depth, most, more)
  others = more
  local made = block(random, depth, most)
  others = nil
  return made
end

-- ------------------------------------------------ forms

local function numbers(random, n)
  local list = {n = n}
  for i = 1, n * n do list[i] = below(random, modulus) end
  return list
end

local function tensor(list, dtype)
  return ipu.cast(ipu.reshape(ipu.tensor(table.move(list, 1, #list, 1, {}), {dtype = "int32"}),
    {list.n, list.n}), dtype)
end

local function words(t)
  local list = ipu.reshape(ipu.cast(t, "int32"), {-1}):totable()
  for i, x in ipairs(list) do list[i] = math.tointeger(x) end
  return table.concat(list, " ")
end

local function same_function(f) return f end

local function expected(program, first, x, times)
  local m = {variable = {table.unpack(first)}}
  local results
  for _ = 1, times do results = {program(model, m, {x, x, x})} end
  for k = 1, variables do results[3 + k] = m.variable[k] end
  for i, a in ipairs(results) do results[i] = table.concat(a, " ") end
  return results
end

fuzz.forms = {
  {"eager", 1, same_function},
  {"under a tape", 1, function(f)
    return function(x) return ipu.GradientTape()(f, x) end
  end},
  {"compiled", 1, ipu.func},
  {"compiled, twice", 2, function(f)
    local g = ipu.func(f)
    return function(x)
      g(x)
      return g(x)
    end
  end},
  {"in a loop", 2, function(f)
    return ipu.func(function(given)
      return ipu.loops.repeat_n(2, function(...) -- luacheck: ignore 212
        return f(given)
      end, {given, given, given})
    end)
  end},
  {"in a branch", 1, function(f)
    return ipu.func(function(given)
      return ipu.cond(ipu.less(ipu.cast(given[1][1], "float32"), 1e6),
        function() return f(given) end,
        function() return given, given, given end)
    end)
  end},
}

local function run(form, program, first, x, dtype, known, way)
  local m = {variable = {}, known = known, way = way}
  for k = 1, variables do m.variable[k] = ipu.Variable(tensor(first[k], dtype)) end
  local results = {form[3](function(given)
    return program(real, m, {given, given, given})
  end)(tensor(x, dtype))}
  for k = 1, variables do results[3 + k] = m.variable[k]:read_value() end
  for i, a in ipairs(results) do results[i] = words(a) end
  return results
end

local threads <const> = core.engine_info().threads
function fuzz.restore() ipu.set_num_threads(threads) end

---Runs the program of a seed in all forms: nil, or what disagrees.
---@param seed integer
---@return string?
function fuzz.check(seed)
  local random = seeds.generator(seed)
  local n = pick(random, {1, 2, 3, 4, 7, 16, 17, 33, 64, 65, 91})
  local dtype = pick(random, {"float32", "int32", "int64", "float64", "float16"})
  local program = block(random, 2, 7)
  local first, x = {}, numbers(random, n)
  for k = 1, variables do first[k] = numbers(random, n) end
  local known, way = random() < 0.5, below(random, 2)
  for _, form in ipairs(fuzz.forms) do
    local want = expected(program, first, x, form[2])
    ipu.set_num_threads(pick(random, {1, 2, 3, 7}))
    local ok, got = pcall(run, form, program, first, x, dtype, known, way)
    for i = 1, 3 + variables do
      if not ok or got[i] ~= want[i] then
        return string.format("seed %d (%s, %d), %s: %s", seed, dtype, n, form[1],
          ok and "value " .. i .. " differs" or got)
      end
    end
  end
  return nil
end

seeds.main("fuzz_moves", fuzz.check)

return fuzz
