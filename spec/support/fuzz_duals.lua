-- Random programs of scalars with branches, loops, functions and gradients of their own within each
-- other, which capture, read and assign. The library's values and first and second derivatives are
-- compared with plain Lua, which computes the same program with dual numbers.
--
--   build/ipulua spec/support/fuzz_duals.lua [first seed] [how many]

local ipu = require "ipulua"
local seeds = require "spec.support.fuzz_seeds"

local fuzz = {}

local below <const>, pick <const> = seeds.below, seeds.pick
local sources <const> = 3 -- x, y and the first value of the variable

-- ------------------------------------------------ dual numbers

-- {value, its derivative}. Both are numbers or again dual numbers, for second derivatives.
local Dual = {}
Dual.__index = Dual

local function dual(v, d) return setmetatable({v, d}, Dual) end

local function is_dual(a) return getmetatable(a) == Dual end

-- Both with the same number of levels; a constant has the derivative 0.
local function level(a) return is_dual(a) and 1 + level(a[1]) or 0 end

local function lifted(a, like)
  if level(a) >= level(like) then return a end
  return dual(lifted(a, like[1]), lifted(0, like[1]))
end

local function both(f)
  return function(a, b)
    if level(a) < level(b) then a = lifted(a, b) else b = lifted(b, a) end
    return f(a, b)
  end
end

Dual.__add = both(function(a, b) return dual(a[1] + b[1], a[2] + b[2]) end)
Dual.__sub = both(function(a, b) return dual(a[1] - b[1], a[2] - b[2]) end)
Dual.__mul = both(function(a, b) return dual(a[1] * b[1], a[1] * b[2] + a[2] * b[1]) end)

local plain = {}

function plain.sin(a) return is_dual(a) and dual(plain.sin(a[1]), plain.cos(a[1]) * a[2])
  or math.sin(a) end
function plain.cos(a) return is_dual(a) and dual(plain.cos(a[1]), plain.sin(a[1]) * a[2] * -1)
  or math.cos(a) end
function plain.number(a) return is_dual(a) and plain.number(a[1]) or a end
function plain.stop(a)
  return is_dual(a) and lifted(plain.number(a), a) or a
end
function plain.less(a, b) return plain.number(a) < plain.number(b) end
function plain.choose(test, yes, no)
  if test then return yes() end
  return no()
end
function plain.times(n, body, a, b)
  for _ = 1, n do a, b = body(a, b) end
  return a, b
end
function plain.as_long_as(test, body, a, b, most)
  for _ = 1, most do
    if not test(a, b) then break end
    a, b = body(a, b)
  end
  return a, b
end
function plain.call(_, f, ...) return f(...) end
-- f's value, with the derivatives that g gives in place of its own.
function plain.custom(f, g, a, b)
  if not is_dual(a) and not is_dual(b) then return f(a, b) end
  if level(a) < level(b) then a = lifted(a, b) else b = lifted(b, a) end
  local da, db = g(a[1], b[1])
  return dual(plain.custom(f, g, a[1], b[1]), da * a[2] + db * b[2])
end
-- A value from around g, with as many levels as its arguments have.
function plain.captured(a, like)
  while level(a) > level(like) do a = a[1] end
  return a
end
-- Each reading of the variable counts, also after assignments. With respect to the variable
-- nothing passes through what was assigned; with respect to all else it does.
local function reading(a, of, from)
  if not of[from] then return a end
  local value, slope = reading(a[1], of, from + 1), a[2]
  return dual(value, of[from] == sources and lifted(1, value) or slope)
end
function plain.read(m) return reading(lifted(m.held, m.like), m.of, 1) end
function plain.assign(m, a) m.held = a end
function plain.add(m, a) m.held = lifted(m.held, m.like) + a end
function plain.each(n, body)
  for i = 0, n - 1 do body(i) end
end
function plain.kept(a) return a end

local traced = {sin = ipu.sin, stop = ipu.stop_gradient, less = ipu.less, choose = ipu.cond}

-- The number of rounds is known while the function is traced, or at run time.
function traced.times(n, body, a, b)
  if n % 2 == 1 then
    n = ipu.cast(ipu.reduce_sum(ipu.ones({n}, {dtype = "float64"}) + ipu.stop_gradient(a) * 0),
      "int32")
  end
  return ipu.loops.repeat_n(n, body, {a, b})
end
function traced.as_long_as(test, body, a, b, most)
  return ipu.loops.while_loop(test, body, {a, b}, {maximum_iterations = most})
end
function traced.call(kind, f, ...) return ipu[kind](f)(...) end
function traced.custom(f, g, a, b)
  return ipu.custom_gradient(function(x, y)
    return f(x, y), function(upstream)
      local dx, dy = g(x, y)
      return upstream * dx, upstream * dy
    end
  end)(a, b)
end
function traced.captured(a) return a end
function traced.read(m, way) return way == 1 and m.held:read_value() or m.held * 1 end
function traced.assign(m, a) m.held:assign(a) end
function traced.add(m, a) m.held:assign_add(a) end
function traced.each(n, body)
  for i in ipu.range(n) do body(ipu.cast(ipu.tensor(i, {dtype = "int32"}), "float64")) end
end
traced.kept = ipu.recomputation_checkpoint

-- ------------------------------------------------ programs

-- A block is a list of statements f(machine, values). Each adds a value; run gives the last one.
-- Inner blocks see the values around them.
local function run(block, m, values)
  local mine = table.move(values, 1, #values, 1, {})
  for _, statement in ipairs(block) do mine[#mine + 1] = statement(m, mine) end
  return mine[#mine]
end

local function near(values, back) return values[math.max(#values - back, 1)] end

local block_of

local kinds = {}

function kinds.sum(random)
  local i, k = below(random, 4), below(random, 6)
  return function(_, v) return near(v, i) + near(v, k) * 0.75 end
end
function kinds.product(random)
  local i, k = below(random, 4), below(random, 6)
  return function(_, v) return near(v, i) * near(v, k) end
end
function kinds.sine(random)
  local i, c = below(random, 4), below(random, 5) * 0.25
  return function(m, v) return m.sin(near(v, i) - c) end
end
kinds.sine_again = kinds.sine
function kinds.stop(random)
  local i = below(random, 5)
  return function(m, v) return m.stop(near(v, i)) * near(v, 0) end
end
function kinds.read(random)
  local way = below(random, 2)
  return function(m) return m.read(m, way) end
end
function kinds.assign(random)
  local i = below(random, 4)
  return function(m, v)
    m.assign(m, m.sin(near(v, i)))
    return near(v, 0) * 0.5
  end, "assigns"
end
function kinds.add(random)
  local i, n = below(random, 4), below(random, 3)
  return function(m, v)
    m.each(n, function(k) m.add(m, m.sin(near(v, i) + k) * 0.5) end)
    return m.kept(near(v, 0) * 0.5)
  end, "assigns"
end
function kinds.choose(random, depth, found)
  local i, k, yes, no = below(random, 4), below(random, 4), block_of(random, depth, found),
    block_of(random, depth, found)
  return function(m, v)
    return m.choose(m.less(near(v, i), near(v, k) * 0.5), function() return run(yes, m, v) end,
      function() return run(no, m, v) end)
  end
end
local function with(values, a, b)
  local list = table.move(values, 1, #values, 1, {})
  list[#list + 1], list[#list + 2] = a, b
  return list
end
function kinds.times(random, depth, found)
  local n, body, swaps = below(random, 4), block_of(random, depth, found), random() < 0.5
  return function(m, v)
    local a, b = m.times(n, function(x, y)
      local next_one = m.sin(run(body, m, with(v, x, y)))
      if swaps then return y * 0.5 + x, next_one end
      return next_one, y
    end, near(v, 0), near(v, 2))
    return a + b * 0.5
  end
end
function kinds.as_long_as(random, depth, found)
  local most, border, body = 1 + below(random, 4), below(random, 9) * 0.25 - 1,
    block_of(random, depth, found)
  return function(m, v)
    local a, b = m.as_long_as(function(x, y) return m.less(m.sin(x * 2) + y, border) end,
      function(x, y) return m.sin(run(body, m, with(v, x, y))) + 0.25, x end,
      near(v, 1), near(v, 0), most)
    return a - b * 0.5
  end
end
function kinds.call(random, depth, found)
  local body, kind = block_of(random, depth, found), pick(random, {"func", "outlined_function"})
  return function(m, v)
    return m.call(kind, function(x, y) return run(body, m, with(v, x, y)) end, near(v, 0),
      near(v, 3))
  end
end
function kinds.custom(random)
  local i, k, c = below(random, 4), below(random, 4), below(random, 4) * 0.5
  return function(m, v)
    local seen = near(v, 1)
    return m.custom(function(x, y) return m.sin(x) * y end,
      function(x, y) return y * x + c, m.sin(x) * m.captured(seen, x) end, near(v, i), near(v, k))
  end, "custom"
end

local names = {}
for name in pairs(kinds) do names[#names + 1] = name end
table.sort(names)

function block_of(random, depth, found)
  local block = {}
  for i = 1, 1 + below(random, depth > 1 and 5 or 3) do
    local name = names[1 + below(random, #names)]
    while depth == 0 and (name == "choose" or name == "times" or name == "as_long_as"
      or name == "call") do
      name = names[1 + below(random, #names)]
    end
    local mark
    block[i], mark = kinds[name](random, depth - 1, found)
    found[mark or name] = true
  end
  return block
end

-- ------------------------------------------------ both sides

-- Value, gradient, and the derivatives of the gradient's part `of`, by dual numbers.
local function expected(block, at, of)
  local out = {grad = {}, second = {}}
  for i = 1, sources do
    local given = {}
    for k = 1, sources do
      given[k] = dual(dual(at[k], k == i and 1 or 0), dual(k == of and 1 or 0, 0))
    end
    local m = setmetatable({held = given[3], like = given[3], of = {of, i}}, {__index = plain})
    local y = plain.sin(run(block, m, {given[1], given[2], m.read(m)})) + m.read(m) * 0.125
    out.value, out.held = plain.number(y), plain.number(m.held)
    out.grad[i], out.second[i] = y[1][2], y[2][2]
  end
  return out
end

local function scalar(x) return ipu.tensor(x, {dtype = "float64"}) end

local function forms_of(block, at)
  local v = ipu.Variable(scalar(at[3]))
  local function f(x, y)
    local m = setmetatable({held = v}, {__index = traced})
    return ipu.sin(run(block, m, {x, y, m.read(m, 0)})) + v * 0.125
  end
  local function or_zeros(list)
    local out = {}
    for i = 1, sources do out[i] = list[i] or scalar(0) end
    return out
  end
  local function listed(y, x1, x2) return or_zeros(ipu.gradients(y, {x1, x2, v})) end
  local x, y = scalar(at[1]), scalar(at[2])
  local forms = {}
  forms["ipu.gradients"] = function()
    return ipu.func(function(a, b)
      local value = f(a, b)
      return value, table.unpack(listed(value, a, b))
    end)(x, y)
  end
  forms["a tape inside"] = function()
    return ipu.func(function(a, b)
      local tape = ipu.GradientTape()
      local value = tape(function() return f(a, b) end)
      return value, table.unpack(or_zeros(tape:gradient(value, {a, b, v})))
    end)(x, y)
  end
  forms["a tape around"] = function()
    local tape = ipu.GradientTape()
    local value = tape(ipu.func(f), x, y)
    return value, table.unpack(or_zeros(tape:gradient(value, {x, y, v})))
  end
  forms["in a loop"] = function()
    return ipu.func(function(a, b)
      return ipu.loops.repeat_n(1, function(...) -- luacheck: ignore 212
        local value = f(a, b)
        return value, table.unpack(listed(value, a, b))
      end, {scalar(0), scalar(0), scalar(0), scalar(0)})
    end)(x, y)
  end
  forms["eager"] = function()
    local tape = ipu.GradientTape()
    local value = tape(f, x, y)
    return value, table.unpack(or_zeros(tape:gradient(value, {x, y, v})))
  end
  local function seconds(of)
    return ipu.func(function(a, b)
      return table.unpack(listed(listed(f(a, b), a, b)[of], a, b))
    end)(x, y)
  end
  return forms, v, seconds
end

local function far(a, b) return b ~= b or math.abs(a - b) > 1e-8 * (1 + math.abs(a)) end

---Runs the program of a seed in all forms: nil, or what disagrees.
---@param seed integer
---@return string?
function fuzz.check(seed)
  local random, found = seeds.generator(seed), {}
  local block, at, of = block_of(random, 3, found), {}, 1 + below(random, sources)
  for i = 1, sources do at[i] = math.floor(random() * 512) / 256 - 1 end
  local want = expected(block, at, of)
  local forms, v, seconds = forms_of(block, at)
  for name, form in pairs(forms) do
    if name ~= "eager" or not found.assigns then
      v:assign(scalar(at[3]))
      local got = table.pack(form())
      if far(want.value, got[1]:item()) or far(want.held, v:item()) then
        return string.format("seed %d: %s has the value %.17g, %.17g for %.17g, %.17g", seed, name,
          got[1]:item(), v:item(), want.value, want.held)
      end
      for i = 1, sources do
        if far(want.grad[i], got[1 + i]:item()) then
          return string.format("seed %d: derivative %d by %s is %.17g in place of %.17g", seed, i,
            name, got[1 + i]:item(), want.grad[i])
        end
      end
    end
  end
  v:assign(scalar(at[3]))
  local got = table.pack(seconds(of))
  for i = 1, sources do
    if far(want.second[i], got[i]:item()) then
      return string.format("seed %d: second derivative %d, %d is %.17g in place of %.17g", seed, of,
        i, got[i]:item(), want.second[i])
    end
  end
  return nil
end

seeds.main("fuzz_duals", fuzz.check)

return fuzz
