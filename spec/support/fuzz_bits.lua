-- Random programs of cheap ops that invite the compiler: neutral operands, detours that turn back,
-- equal nodes, casts there and back, views, constants. Numbers are at every limit, sizes on both
-- sides of the chunks. Only some results leave, so the others may go or fuse. Each runs eagerly,
-- compiled, in a branch, in a loop and twice in one function; all must have the same bits (of NaN:
-- be NaN).
--
--   build/ipulua --threads 3 spec/support/fuzz_bits.lua [first seed] [how many]
--
-- The last line holds a digest of all results, which is the same for any number of threads.

local core = require "ipulua.core"
local ipu = require "ipulua"
local seeds = require "spec.support.fuzz_seeds"

local fuzz = {}
local below <const>, pick <const> = seeds.below, seeds.pick

local dtypes <const> = {"float32", "float32", "float16", "bfloat16", "float64", "int32", "int64",
  "int8", "uint8"}
local is_real <const> = {float32 = true, float16 = true, bfloat16 = true, float64 = true}
local reals <const> = {0, -0.0, 1, -1, 0.5, 2, -3, 1 / 0, -1 / 0, 0 / 0, 1e-40, 65504, 3e38, 1e-8,
  0.1, -7.25, 1e10}
local least <const> = {int32 = -0x80000000, int64 = math.mininteger, int8 = -128, uint8 = 0}
local most <const> = {int32 = 0x7fffffff, int64 = math.maxinteger, int8 = 127, uint8 = 255}
local shapes <const> = {{}, {1}, {7}, {3, 5}, {4, 1, 3}, {0, 3}, {33, 65}, {16385}, {129, 131}}

local function element(random, dtype)
  if is_real[dtype] then
    if random() < 0.4 then return pick(random, reals) end
    return random() * 8 - 4
  end
  if random() < 0.2 then return pick(random, {least[dtype], most[dtype]}) end
  return below(random, 9) - (dtype == "uint8" and 0 or 4)
end

local function operand(random, dtype, shape)
  local count = 1
  for _, extent in ipairs(shape) do count = count * extent end
  local list = {}
  for i = 1, count do list[i] = element(random, dtype) end
  if count == 0 then return ipu.zeros(shape, dtype) end
  return ipu.reshape(ipu.tensor(list, dtype), shape)
end

-- ------------------------------------------------ programs

local function real(v) return is_real[v.dtype] end

local function column(v) -- first of each row, spread again by an elementwise op
  local begin, size = {}, {}
  for i, extent in ipairs(v.shape) do begin[i], size[i] = 0, extent end
  size[#size] = math.min(1, size[#size])
  return ipu.slice(v, begin, size)
end

local function with_rank(f) return function(a, ...) return #a.shape > 0 and f(a, ...) or a end end

-- f(a, b, n): a step of a program; n is a number in [0, 1) that was drawn for it.
local steps <const> = {
  function(a) return a * 1 end, function(a) return 1 * a end, function(a) return a + 0 end,
  function(a) return a - 0 end, function(a) return 0 - a end, function(a) return -(-a) end,
  function(a) return real(a) and a / 1 or a // 1 end,
  function(a) return a.dtype == "uint8" and a * 255 or a * -1 end,
  function(a) return a * 0 end, function(a) return a - a end,
  function(a) return real(a) and a / a or a end, function(a) return a + a end,
  function(a) return a * 2 end, function(a) return real(a) and a / 2 or a end,
  function(a) return real(a) and a ^ 1 or a end, function(a) return real(a) and a ^ 2 or a * a end,
  function(a) return real(a) and ipu.sqrt(a * a) or a end, function(a) return ipu.abs(a) end,
  function(a) return ipu.abs(ipu.abs(-a)) end,
  function(a, b) return a + b end, function(a, b) return b + a end,
  function(a, b) return a - b end, function(a, b) return a * b end,
  function(a, b) return ipu.maximum(a, b) end, function(a, b) return ipu.minimum(b, a) end,
  function(a) return ipu.maximum(a, a) end, function(a) return ipu.minimum(a, 0) end,
  function(a, b) return ipu.where(ipu.less(a, b), a, b) end,
  function(a) return ipu.where(ipu.equal(a, a), a, 0 * a) end,
  function(a, b) return ipu.where(ipu.logical_not(ipu.greater(a, b)), b, a) end,
  function(a) return ipu.cast(ipu.cast(a, "float64"), a.dtype) end,
  function(a) return ipu.cast(ipu.cast(a, "float32"), a.dtype) end,
  function(a) return real(a) and ipu.cast(ipu.cast(a, "float16"), a.dtype) or a end,
  function(a) return ipu.cast(ipu.greater(a, 0), a.dtype) end,
  function(a) return ipu.clip_by_value(a, -1, 1) end,
  function(a) return real(a) and ipu.nn.relu(a) or a end,
  function(a) return ipu.sign(a) end, function(a) return ipu.square(a) end,
  function(a) return real(a) and ipu.tanh(a) or a end,
  function(a) return real(a) and ipu.exp(ipu.minimum(a, 1)) or a end,
  function(a) return ipu.stop_gradient(a) end, function(a) return ipu.identity(a) end,
  with_rank(function(a) return ipu.reverse(ipu.reverse(a, -1), -1) end),
  with_rank(function(a, _, n)
    return ipu.reverse(a, math.floor(n * #a.shape))
  end),
  function(a) return ipu.transpose(ipu.transpose(a)) end,
  function(a) return ipu.reshape(ipu.reshape(a, {-1}), a.shape) end,
  function(a) return ipu.squeeze(ipu.expand_dims(a, -1), -1) end,
  with_rank(function(a)
    local last = a.shape[#a.shape]
    return ipu.concat({ipu.split(a, {1, last - 1}, {axis = -1})}, {axis = -1})
  end),
  with_rank(function(a, b) return b + column(a) end),
  with_rank(function(a) return a * column(a) end),
  with_rank(function(a, b)
    return ipu.slice(ipu.concat({a, b}, {axis = 0}), ipu.zeros({#a.shape}, "int32"):totable(),
      a.shape)
  end),
  with_rank(function(a) return a - ipu.reduce_max(a, {axis = -1, keepdims = true}) end),
  with_rank(function(a) return a + ipu.reduce_sum(a, {axis = 0, keepdims = true}) end),
  with_rank(function(a) return ipu.cumsum(a, {axis = -1}) end),
}

local function draw_program(random)
  local program = {dtype = pick(random, dtypes), shape = pick(random, shapes), steps = {}}
  for i = 1, 3 + below(random, 12) do
    program.steps[i] = {f = 1 + below(random, #steps), a = below(random, i + 1),
      b = below(random, i + 1), n = random()}
  end
  program.results = {#program.steps}
  for _ = 1, below(random, 3) do
    table.insert(program.results, 1 + below(random, #program.steps))
  end
  return program
end

local function run(program, x, y)
  local values = {[0] = x, y}
  for i, s in ipairs(program.steps) do
    local taken = {values[s.a], values[s.b]}
    values[i + 1] = steps[s.f](taken[1], taken[2], s.n)
  end
  local out = {}
  for i, k in ipairs(program.results) do out[i] = values[k + 1] end
  return out
end

-- ------------------------------------------------ forms

local forms <const> = {
  {"compiled", function(p)
    return ipu.func(function(x, y) return table.unpack(run(p, x, y)) end)
  end},
  {"in a branch", function(p)
    local branch = ipu.func(function(is, x, y)
      return ipu.cond(is, function() return table.unpack(run(p, x, y)) end,
        function() return table.unpack(run(p, y, x)) end)
    end)
    return function(x, y) return branch(ipu.tensor(true), x, y) end
  end},
  {"in a loop", function(p)
    return ipu.func(function(x, y)
      local first = run(p, y, x)
      return ipu.loops.repeat_n(2, function(...) -- luacheck: ignore 212
        return table.unpack(run(p, x, y))
      end, first)
    end)
  end},
  {"beside another", function(p)
    return ipu.func(function(x, y)
      local others = run(p, y, x)
      local out = run(p, x, y)
      return table.unpack(table.move(others, 1, #others, #out + 1, out))
    end)
  end},
}

local function text_of(tensor)
  local list = ipu.reshape(ipu.identity(tensor), {-1}):totable()
  for i, each in ipairs(list) do
    list[i] = each ~= each and "nan" or math.type(each) == "integer" and tostring(each)
      or ("%a"):format(each)
  end
  return tensor.dtype .. " " .. table.concat(list, " ")
end

local function first_difference(a, b)
  local n = 0
  local next_b = b:gmatch("%S+")
  for word in a:gmatch("%S+") do
    local other = next_b()
    if word ~= other then return string.format("element %d: %s, %s", n, word, other) end
    n = n + 1
  end
  return "the lengths differ"
end

local function wrong_form(program, x, y, wanted)
  for _, form in ipairs(forms) do
    local ran, results = pcall(function() return table.pack(form[2](program)(x, y)) end)
    if not ran then return form[1] .. ": " .. tostring(results) end
    if #results == 1 and type(results[1]) == "table" then results = results[1] end
    for i, each in ipairs(wanted) do
      local text = text_of(results[i])
      if text ~= each then
        return string.format("%s: result %d: %s", form[1], i, first_difference(each, text))
      end
    end
  end
  return nil
end

local digest = ""

local function check(program, x, y)
  local ran, results = pcall(run, program, x, y)
  if not ran then return "eager: " .. tostring(results) end
  local wanted = {}
  for i, each in ipairs(results) do wanted[i] = text_of(each) end
  digest = core.text_hash(digest .. table.concat(wanted))
  return wrong_form(program, x, y, wanted)
end

local function shown(program, count)
  local lines = {}
  for i, s in ipairs(program.steps) do
    local how = s.f <= count and string.format("steps[%d](v%d, v%d)", s.f, s.a, s.b) or "v" .. s.a
    lines[i] = string.format("  v%d = %s", i + 1, how)
  end
  return string.format("%s [%s] results v%s\n%s", program.dtype,
    table.concat(program.shape, ", "), table.concat(program.results, "-1, v"),
    table.concat(lines, "\n"))
end

-- Steps become their first operand, one after the other, while the program stays wrong.
local function shrink(program, x, y)
  local keep = #steps + 1
  steps[keep] = steps[keep] or function(a) return a end
  for _, s in ipairs(program.steps) do
    local former = s.f
    s.f = keep
    if not check(program, x, y) then s.f = former end
  end
  return program
end

---One program: nil, or what is wrong with it.
---@param seed integer
---@param shrinks boolean?
---@return string?, integer
function fuzz.check(seed, shrinks)
  local random = seeds.generator(seed)
  local program = draw_program(random)
  local x = operand(random, program.dtype, program.shape)
  local y = operand(random, program.dtype, program.shape)
  local wrong = check(program, x, y)
  if not wrong then return nil, #forms end
  if shrinks then
    local n = #steps
    program = shrink(program, x, y)
    wrong = check(program, x, y) or wrong
    local text = string.format("seed %d: %s\n%s", seed, wrong, shown(program, n))
    steps[n + 1] = nil
    return text, #forms
  end
  return string.format("seed %d: %s", seed, wrong), #forms
end

---What all programs so far gave.
function fuzz.digest() return digest end

seeds.main("fuzz_bits", fuzz.check)
if arg and arg[0] and arg[0]:find("fuzz_bits.lua", 1, true) then print(digest) end

return fuzz
