-- Random programs, differentiated in every form. The forms are an eager tape, a tape around the
-- compiled function (a first and a second time), a tape inside of it, and ipu.gradients. The last
-- two also stand in a loop and in a branch. All must agree, and with central differences where no
-- gradient is stopped or replaced.
--
--   build/ipulua spec/support/fuzz_gradients.lua [first seed] [how many]

local ipu = require "ipulua"

local fuzz = {}

-- ------------------------------------------------ programs

local shape <const> = {2, 3}

local function numbers(random)
  local list = {}
  for i = 1, 6 do list[i] = math.floor((random() * 1.6 - 0.8) * 1024) / 1024 end
  return list
end

local function tensor(list) return ipu.reshape(ipu.tensor(list, {dtype = "float64"}), shape) end

-- One step of a program: f(env, a, b) of two values that there are already. env: x, v, c, d (c's
-- numbers in another tensor), k.
local steps <const> = {
  function(_, a, b) return a * b end,
  function(_, a, b) return a + b end,
  function(_, a, b) return ipu.sin(a) - b end,
  function(_, a) return ipu.tanh(a) end,
  function(e, a) return a * e.x end,
  function(e, a) return a * e.c + e.d end,
  function(e, a) return a * (e.c * 2) + ipu.sin(e.d) end,
  function(e, a) return a * 1 + e.ones * a end,
  function(e, a) return a + e.v end,
  function(e, a) return a * e.v:read_value() end,
  function(e, a) return a - e.former * 0.5 end, -- v's earlier value
  function(_, a, b) return ipu.stack{a[2] * b[1], a[1] + b[2]} end,
  function(e, a) return ipu.stack{e.c[1], e.v[2]} * a end,
  function(e, a) return ipu.loops.repeat_n(2,
    function(s) return ipu.sin(s) * e.c + e.v end, {a}) end,
  function(_, a, b)
    local _, s = ipu.while_loop(function(i, _) return ipu.less(i, 3) end,
      function(i, s) return i + 1, s * 0.5 + b end, {0, a})
    return s
  end,
  function(e, a, b)
    return ipu.cond(ipu.less(ipu.reduce_sum(a), 0), function() return a * e.d end, function()
      return ipu.tanh(b) + e.v
    end)
  end,
  function(e, a) return e.inner(a) end,
  function(e, a)
    e.v:assign(e.v + 0.25)
    return a * e.v
  end,
  function(e, a)
    for _ in ipu.range(2) do e.v:assign(e.v + 0.125) end
    return a + e.v * 0.5
  end,
  function(_, a, b) return ipu.stop_gradient(a) * b end,
  function(_, a) return ipu.custom_gradient(function(s)
    local t = ipu.sin(s)
    return t * s, function(dy) return dy * t end
  end)(a) end,
}
local smooth <const> = #steps - 2 -- those whose gradient is the derivative
local steady <const> = #steps - 4 -- and that leave v alone

local function program(random, most)
  local list = {}
  for i = 1, 1 + math.floor(random() * 7) do
    list[i] = {steps[1 + math.floor(random() * most)], math.floor(random() * 4),
      math.floor(random() * 4)}
  end
  return function(e)
    local values = {e.x, e.x * e.c, e.v * 1, e.x}
    for _, s in ipairs(list) do
      values[#values + 1] = s[1](e, values[#values - s[2]], values[#values - s[3]])
    end
    return ipu.reduce_sum(values[#values] * values[#values - 1])
  end
end

-- ------------------------------------------------ forms

local sources <const> = {"x", "v", "c", "d", "former", "ones"}

local function listed(e, x)
  local list = {}
  for i, name in ipairs(sources) do list[i] = name == "x" and x or e[name] end
  return list
end

local function with(e, x)
  return setmetatable({x = x}, {__index = e})
end

local function or_zeros(found)
  local list = {}
  for i = 1, #sources do list[i] = found[i] or ipu.zeros(shape, {dtype = "float64"}) end
  return list
end

local function taped(f, e, x)
  local tape = ipu.GradientTape()
  local y = tape(function() return f(with(e, x)) end)
  return or_zeros(tape:gradient(y, listed(e, x)))
end

local function around(compiled, e)
  local tape = ipu.GradientTape()
  local y = tape(compiled, e.x)
  return or_zeros(tape:gradient(y, listed(e, e.x)))
end

-- Each gives the gradients of f(env) for all sources, and the value that v ends with.
fuzz.forms = {
  {"an eager tape", function(f, e) return taped(f, e, e.x) end},
  {"a tape around the function", function(f, e)
    return around(ipu.func(function(x) return f(with(e, x)) end), e)
  end},
  {"a tape around it a second time", function(f, e)
    local compiled = ipu.func(function(x) return f(with(e, x)) end)
    compiled(e.x)
    e.v:assign(e.first)
    return around(compiled, e)
  end},
  {"a tape inside", function(f, e)
    return {ipu.func(function(x) return table.unpack(taped(f, e, x)) end)(e.x)}
  end},
  {"ipu.gradients", function(f, e)
    return {ipu.func(function(x)
      return table.unpack(or_zeros(ipu.gradients(f(with(e, x)), listed(e, x))))
    end)(e.x)}
  end},
  {"ipu.gradients in a loop", function(f, e)
    return {ipu.func(function(x)
      local zeros = or_zeros{}
      return ipu.loops.repeat_n(1, function(...) -- luacheck: ignore 212
        return table.unpack(or_zeros(ipu.gradients(f(with(e, x)), listed(e, x))))
      end, zeros)
    end)(e.x)}
  end},
  {"ipu.gradients in a branch behind the function", function(f, e)
    return {ipu.func(function(x)
      local y = f(with(e, x))
      return ipu.cond(ipu.is_finite(y), function()
        return table.unpack(or_zeros(ipu.gradients(y, listed(e, x))))
      end,
        function() return table.unpack(or_zeros{}) end)
    end)(e.x)}
  end},
  {"ipu.gradients in a branch of what is computed there from the function's value", function(f, e)
    return {ipu.func(function(x)
      local y = f(with(e, x))
      return ipu.cond(ipu.is_finite(y), function()
        return table.unpack(or_zeros(ipu.gradients(y * 3 - y - y, listed(e, x))))
      end, function() return table.unpack(or_zeros{}) end)
    end)(e.x)}
  end},
  {"ipu.gradients in a branch in a loop in a branch, of what each adds", function(f, e)
    return {ipu.func(function(x)
      local y = f(with(e, x))
      local function zeros() return table.unpack(or_zeros{}) end
      return ipu.cond(ipu.is_finite(y), function()
        local half = y * 0.5
        return ipu.loops.repeat_n(1, function(...) -- luacheck: ignore 212
          local more = half * y
          return ipu.cond(ipu.is_finite(more), function()
            -- 1 in all, of y
            local whole = half + more - ipu.stop_gradient(y) * half
              - ipu.stop_gradient(half) * y + half
            return table.unpack(or_zeros(ipu.gradients(whole, listed(e, x))))
          end, zeros)
        end, or_zeros{})
      end, zeros)
    end)(e.x)}
  end},
}

local function sum_of_squares(list)
  local sum = 0
  for _, g in ipairs(list) do sum = ipu.reduce_sum(g * g) + sum end
  return sum
end

-- The gradients of the sum of the squares of all gradients.
fuzz.second_forms = {
  {"nested tapes", function(f, e)
    local outer = ipu.GradientTape()
    local y = outer(function() return sum_of_squares(taped(f, e, e.x)) end)
    return or_zeros(outer:gradient(y, listed(e, e.x)))
  end},
  {"ipu.gradients twice", function(f, e)
    return {ipu.func(function(x)
      local y = sum_of_squares(or_zeros(ipu.gradients(f(with(e, x)), listed(e, x))))
      return table.unpack(or_zeros(ipu.gradients(y, listed(e, x))))
    end)(e.x)}
  end},
  {"a tape around a function with gradients", function(f, e)
    return around(ipu.func(function(x)
      return sum_of_squares(or_zeros(ipu.gradients(f(with(e, x)), listed(e, x))))
    end), e)
  end},
  {"a tape around a tape around the function", function(f, e)
    local compiled, outer = ipu.func(function(x) return f(with(e, x)) end), ipu.GradientTape()
    local y = outer(function() return sum_of_squares(around(compiled, e)) end)
    return or_zeros(outer:gradient(y, listed(e, e.x)))
  end},
}

local function environment(random)
  local c, v, x = numbers(random), numbers(random), numbers(random)
  local e = {c = tensor(c), d = tensor(c), ones = ipu.ones(shape, {dtype = "float64"}),
    first = tensor(v), x = tensor(x)}
  e.v = ipu.Variable(e.first)
  e.former = e.v:read_value()
  e.inner = ipu.func(function(a) return ipu.sin(a) * e.c + e.v end)
  return e
end

local function worst(a, b) return ipu.reduce_max(ipu.abs(a - b) / (1 + ipu.abs(a))):item() end

-- The gradient by source `name` from central differences, of a program that leaves v alone.
local function differences(f, e, name)
  local step, list = 1e-5, {}
  local at = (name == "v" and e.first or e[name]):totable()
  local function value_at()
    local changed = setmetatable({}, {__index = e})
    if name == "v" then e.v:assign(ipu.tensor(at, {dtype = "float64"}))
    else changed[name] = ipu.tensor(at, {dtype = "float64"}) end
    if name == "c" then
      changed.inner = ipu.func(function(a) return ipu.sin(a) * changed.c + e.v end)
    end
    local y = f(changed):item()
    e.v:assign(e.first)
    return y
  end
  for i = 1, 2 do
    list[i] = {}
    for k = 1, 3 do
      local middle = at[i][k]
      at[i][k] = middle + step
      local above = value_at()
      at[i][k] = middle - step
      list[i][k] = (above - value_at()) / (2 * step)
      at[i][k] = middle
    end
  end
  return ipu.tensor(list, {dtype = "float64"})
end

-- A generator of numbers in [0, 1) of its own: the same on every machine.
local function generator(seed)
  local state = seed * 2654435761 % 4294967296 + 1
  return function()
    state = (state * 1664525 + 1013904223) % 4294967296
    return (state >> 8) / 16777216
  end
end

-- The gradients of f in the first form of a list, or the difference of another form.
local function agreed(seed, forms, f, e)
  local expected, last
  for _, form in ipairs(forms) do
    e.v:assign(e.first)
    local got = form[2](f, e)
    local now = e.v:read_value()
    expected, last = expected or got, last or now
    for i, name in ipairs(sources) do
      local off = worst(expected[i], got[i])
      if off ~= off or off >= 1e-9 then
        return nil, string.format("seed %d: d/d%s by %s is off by %g", seed, name, form[1], off)
      end
    end
    if worst(last, now) > 1e-12 then
      return nil, string.format("seed %d: v ends as another by %s", seed, form[1])
    end
  end
  return expected
end

---Runs the program of a seed in all forms: nil, or what disagrees.
---@param seed integer
---@return string?
function fuzz.check(seed)
  local random = generator(seed)
  local kinds <const> = {#steps, smooth, steady}
  local kind = kinds[1 + seed % 3]
  local e, f = environment(random), program(random, kind)
  local expected, message = agreed(seed, fuzz.forms, f, e)
  if not expected then return message end
  if kind == steady and seed % 2 == 0 then
    local second
    second, message = agreed(seed, fuzz.second_forms, f, e)
    if not second then return message end
  end
  if kind ~= steady then return nil end
  e.v:assign(e.first)
  for i, name in ipairs{"x", "v", "c", "d"} do
    local off = worst(differences(f, e, name), expected[i])
    if off ~= off or off >= 1e-6 then
      return string.format("seed %d: d/d%s differs from central differences by %g", seed, name, off)
    end
  end
  return nil
end

if arg and arg[0] and arg[0]:find("fuzz_gradients", 1, true) then
  local first, count, bad = math.tointeger(tonumber(arg[1])) or 1,
    math.tointeger(tonumber(arg[2])) or 100, 0
  for seed = first, first + count - 1 do
    local ok, message = pcall(fuzz.check, seed)
    if not ok or message then
      bad = bad + 1
      print(ok and message or string.format("seed %d: %s", seed, message))
    end
  end
  print(string.format("%d programs, %d disagree", count, bad))
end

return fuzz
