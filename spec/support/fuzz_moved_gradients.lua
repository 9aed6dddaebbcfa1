-- Random programs that move numbers (fuzz_moves) and add, multiply and select them, differentiated
-- in every form. Numbers are whole and small, so that each form has the same bits. A model in plain
-- Lua computes the program with dual numbers. The gradients along a direction must be its
-- derivative.
--
--   build/ipulua spec/support/fuzz_moved_gradients.lua [first seed] [how many]

local ipu = require "ipulua"
local moves = require "spec.support.fuzz_moves"
local seeds = require "spec.support.fuzz_seeds"

local fuzz = {}

local below <const>, pick <const> = seeds.below, seeds.pick

-- ------------------------------------------------ two machines

-- The model's value is {n =, value =, slope = {along x, c and w, along v1, v2, v3}}, of lists of
-- numbers end to end. Each reading of a variable counts. Along the variable itself nothing passes
-- through what was assigned to it. Along all else it does in a compiled function, and doesn't
-- outside.
local variables <const> = 3
local model, real = {}, {}
local largest

local function noted(list)
  for _, x in ipairs(list) do largest = math.max(largest, math.abs(x)) end
  return list
end

local function dual(value, slope)
  for _, list in ipairs(slope) do noted(list) end
  return {n = value.n, value = noted(value), slope = slope}
end

-- f of each slope of a (and of b).
local function slopes(f, a, b)
  local out = {}
  for i, list in ipairs(a.slope) do out[i] = f(list, b and b.slope[i]) end
  return out
end

local function linear(f)
  return function(a, ...)
    local given = table.pack(...)
    return dual(f(a.value, ...), slopes(function(list)
      return f(list, table.unpack(given, 1, given.n))
    end, a))
  end
end

for _, name in ipairs{"turn", "reverse", "roll", "spread", "sift", "flat", "weave", "rows"} do
  model[name], real[name] = linear(moves.model[name]), moves.real[name]
end

local function each(f)
  return function(a, b)
    local out = {n = a.n}
    for i = 1, #a do out[i] = f(a[i], b[i]) end
    return out
  end
end
local sum, difference, product = each(function(a, b) return a + b end),
  each(function(a, b) return a - b end), each(function(a, b) return a * b end)

function model.add(a, b) return dual(sum(a.value, b.value), slopes(sum, a, b)) end
function model.sub(a, b) return dual(difference(a.value, b.value), slopes(difference, a, b)) end
function model.mul(a, b)
  return dual(product(a.value, b.value), slopes(function(da, db)
    return sum(product(a.value, db), product(da, b.value))
  end, a, b))
end
function real.add(a, b) return a + b end
function real.sub(a, b) return a - b end
function real.mul(a, b) return a * b end

function model.put(a, b, k)
  local put = moves.model.put
  return dual(put(a.value, b.value, k), slopes(function(da, db) return put(da, db, k) end, a, b))
end
real.put = moves.real.put

-- Where a < k, a; else b.
function model.mix(a, b, k)
  local function mixed(x, y)
    local out = {n = a.n}
    for i = 1, #a.value do out[i] = a.value[i] < k and x[i] or y[i] end
    return out
  end
  return dual(mixed(a.value, b.value), slopes(mixed, a, b))
end
real.mix = moves.real.mix

-- Sums of rows, in each column: rank 1 and back.
local function sums(a)
  local n, out = a.n, {n = a.n}
  for i = 0, n - 1 do
    local total = 0
    for j = 1, n do total = total + a[i * n + j] end
    for j = 0, n - 1 do out[j * n + i + 1] = total end
  end
  return out
end
model.sums = linear(sums)
function real.sums(a) return ipu.broadcast_to(ipu.reduce_sum(a, {axis = 1}), a.shape) end

function model.sign(m, a) return model.mul(a, m.signs) end
function real.sign(m, a) return a * m.signs end

function model.read(m, k)
  local held = m.variable[k]
  local slope = table.move(held.slope, 1, 1 + variables, 1, {})
  slope[1 + k] = m.direction[k]
  return dual(held.value, slope)
end
function model.assign(m, k, a)
  m.variable[k] = m.compiles and a or dual(a.value, {m.zero, m.zero, m.zero, m.zero})
end
function model.add_to(m, k, a) model.assign(m, k, model.add(m.variable[k], a)) end
real.read, real.assign, real.add_to = moves.real.read, moves.real.assign, moves.real.add_to

function model.choose(a, yes, no)
  if a.value[1] < 1 then return yes() end
  return no()
end
function real.choose(a, yes, no) return ipu.cond(ipu.less(a[1][1], 1), yes, no) end
model.carry, real.carry = moves.model.carry, moves.real.carry
function model.as_long_as(body, a, b, most)
  local rounds = 0
  while rounds < most and a.value[1] < 4 do
    a, b = body(a, b)
    rounds = rounds + 1
  end
  return a, b
end
function real.as_long_as(body, a, b, most)
  return ipu.while_loop(function(x, _) return ipu.less(x[1][1], 4) end, body, {a, b},
    {maximum_iterations = most})
end

-- ------------------------------------------------ programs

local function operation(random)
  local name, a, b = pick(random, {"add", "sub", "add", "mul"}), moves.taken(random),
    moves.taken(random)
  return function(f, _, values) values[#values + 1] = f[name](a(values), b(values)) end
end

local function signing(random)
  local a = moves.taken(random)
  return function(f, m, values) values[#values + 1] = f.sign(m, a(values)) end
end

local function summing(random)
  local a = moves.taken(random)
  return function(f, _, values) values[#values + 1] = f.sums(a(values)) end
end

local function captured(random)
  local name = pick(random, {"c", "w"})
  return function(_, m, values) values[#values + 1] = m[name] end
end

local statements = {operation, signing, summing, captured}

-- ------------------------------------------------ forms

local function numbers(random, n, most)
  local list = {n = n}
  for i = 1, n * n do list[i] = below(random, 2 * most + 1) - most end
  return list
end

local function tensor(list, dtype)
  return ipu.cast(ipu.reshape(ipu.tensor(table.move(list, 1, #list, 1, {}), {dtype = "int32"}),
    {list.n, list.n}), dtype)
end

local names <const> = {"x", "c", "w", "v1", "v2", "v3"}

local function sources(m, x)
  local list = {x, m.c, m.w}
  for k = 1, variables do list[3 + k] = m.variable[k] end
  return list
end

local function filled(found, like)
  local list = {}
  for i, s in ipairs(like) do
    list[i] = found[i] or ipu.zeros(s.shape, {dtype = s.dtype})
  end
  return list
end

-- The differentiated value: results, each element with a weight of its place.
local function weighed(m, f, x)
  local a, b = f(x)
  return ipu.reduce_sum(a * m.weights) + ipu.reduce_sum(b * m.signs)
end

local function taped(m, f, x)
  local tape = ipu.GradientTape()
  local y = tape(function() return weighed(m, f, x) end)
  local from = sources(m, x)
  return filled(tape:gradient(y, from), from)
end

local function restore(m)
  for k = 1, variables do m.variable[k]:assign(m.former[k]) end
end

fuzz.forms = {
  {"an eager tape", taped}, -- `eager` below
  {"a tape around the function", function(m, f, x) return taped(m, ipu.func(f), x) end},
  {"a tape around it a second time", function(m, f, x)
    local g = ipu.func(f)
    g(x)
    restore(m)
    taped(m, g, x)
    restore(m)
    return taped(m, g, x)
  end},
  {"a tape inside", function(m, f, x)
    return {ipu.func(function(given) return table.unpack(taped(m, f, given)) end)(x)}
  end},
  {"ipu.gradients", function(m, f, x)
    return {ipu.func(function(given)
      local from = sources(m, given)
      return table.unpack(filled(ipu.gradients(weighed(m, f, given), from), from))
    end)(x)}
  end},
  {"ipu.gradients in a loop", function(m, f, x)
    return {ipu.func(function(given)
      local from = sources(m, given)
      return ipu.loops.repeat_n(1, function(...) -- luacheck: ignore 212
        return table.unpack(filled(ipu.gradients(weighed(m, f, given), from), from))
      end, filled({}, from))
    end)(x)}
  end},
  {"ipu.gradients of recomputed parts", function(m, f, x)
    local g = ipu.outlined_function(f)
    return {ipu.func(function(given)
      local from = sources(m, given)
      return table.unpack(filled(ipu.gradients(weighed(m, g, given), from), from))
    end)(x)}
  end},
}

local function differs(a, b) return ipu.reduce_any(ipu.not_equal(a, b)):item() end

-- Whole numbers up to these are exact in a dtype, also after a few sums.
local limits <const> = {float32 = 1 << 22, float64 = 1 << 50, float16 = 1 << 9, bfloat16 = 1 << 6}
local eager <const> = "an eager tape"

-- A program with its numbers: value and slope of each source, signs and weights.
local function drawn(random)
  local n = pick(random, {1, 2, 3, 4, 7, 16, 17, 33, 65})
  local case = {n = n, value = {}, slope = {},
    dtype = pick(random, {"float32", "float64", "float64", "float32", "float16", "bfloat16"}),
    program = moves.block(random, 2, 6, statements), known = random() < 0.5,
    way = below(random, 2)}
  for _, name in ipairs(names) do
    case.value[name], case.slope[name] = numbers(random, n, 3), numbers(random, n, 3)
  end
  case.value.signs, case.weights, case.zero = numbers(random, n, 1), numbers(random, n, 2),
    numbers(random, n, 0)
  return case
end

-- The derivative of the weighed results along all slopes.
local function expected(case, compiles)
  local zero <const> = case.zero
  local function started(name, slope)
    return dual(case.value[name], {slope or zero, zero, zero, zero})
  end
  local m = {signs = started "signs", c = started("c", case.slope.c),
    w = started("w", case.slope.w), variable = {}, direction = {}, compiles = compiles,
    zero = zero}
  for k = 1, variables do
    m.variable[k], m.direction[k] = started("v" .. k), case.slope["v" .. k]
  end
  local x = started("x", case.slope.x)
  local a, b = case.program(model, m, {x, x, x})
  local total = 0
  for k = 1, 1 + variables do
    for i = 1, case.n * case.n do
      total = total + a.slope[k][i] * case.weights[i] + b.slope[k][i] * case.value.signs[i]
    end
  end
  return total
end

-- For the library: the machine, the function and its argument.
local function prepared(case)
  local function made(list) return tensor(list, case.dtype) end
  local m = {signs = made(case.value.signs), weights = made(case.weights), c = made(case.value.c),
    w = ipu.Variable(made(case.value.w)), variable = {}, former = {}, known = case.known,
    way = case.way}
  for k = 1, variables do
    m.former[k] = made(case.value["v" .. k])
    m.variable[k] = ipu.Variable(m.former[k])
  end
  return m, function(x)
    local a, b = case.program(real, m, {x, x, x})
    return a, b
  end, made(case.value.x)
end

-- The derivative along the slopes, from the gradients; and the greatest of these.
local function along(case, gradients)
  local total, most = 0, 0
  for i, name in ipairs(names) do
    for k, x in ipairs(ipu.reshape(ipu.cast(gradients[i], "float64"), {-1}):totable()) do
      total, most = total + x * case.slope[name][k], math.max(most, math.abs(x))
    end
  end
  return total, most
end

-- nil, or what is wrong with a form's gradients. first: another form's, or nil.
local function judged(case, first, got, want)
  for i, name in ipairs(names) do
    if first and differs(first[i], got[i]) then return "d/d" .. name .. " differs" end
  end
  local total, most = along(case, got)
  if most > limits[case.dtype] / 4 or total == want then return nil end
  return ("the derivative is %s in place of %s"):format(total, want)
end

---Runs the program of a seed in all forms: nil, or what disagrees.
---@param seed integer
---@return string?
function fuzz.check(seed)
  local random = seeds.generator(seed)
  local case = drawn(random)
  largest = 0
  local outside, inside = expected(case, false), expected(case, true)
  local room <const> = limits[case.dtype] * (case.dtype == "float64" and 1 or 4)
  if largest * case.n * case.n > room then return nil, 0 end
  local m, f, x = prepared(case)
  local first
  for _, form in ipairs(fuzz.forms) do
    restore(m)
    ipu.set_num_threads(pick(random, {1, 2, 3, 7}))
    local ok, got = pcall(form[2], m, f, x)
    if ok and (form[1] ~= eager or outside == inside) then first = first or got end
    local words = not ok and got
      or judged(case, first, got, form[1] == eager and outside or inside)
    if words then
      return ("seed %d (%s, %d), %s: %s"):format(seed, case.dtype, case.n, form[1], words)
    end
  end
  return nil
end

seeds.main("fuzz_moved_gradients", fuzz.check)

return fuzz
