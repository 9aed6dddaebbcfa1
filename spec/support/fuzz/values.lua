-- Operands as Lua source: numbers of a kind (the letters of src/graph/op.h), a dtype and a shape.
-- Some have NaN, infinities, -0 and subnormal elements. Some are views: a slice, a transposed or a
-- broadcast tensor.

local calls = require "spec.support.fuzz.calls"

local values = {}

local real <const> = {F = true, P = true, U = true, D = true, M = true, W = true, H = true}

local function pick(list) return list[math.random(#list)] end
local function list(shape) return "{" .. table.concat(shape, ", ") .. "}" end
local function seed() return math.random(1, 1 << 20) end

local function uniform(shape, low, high, dtype)
  return ("ipu.random.uniform(%s, {minval = %s, maxval = %s, dtype = %q, seed = %d})"):format(
    list(shape), low, high, dtype, seed())
end

local makers = {}
function makers.F(o, dtype)
  return ("ipu.random.normal(%s, {dtype = %q, seed = %d})"):format(list(o.shape), dtype, seed())
end
function makers.P(o, dtype) return uniform(o.shape, 0.1, 2, dtype) end
function makers.U(o, dtype) return uniform(o.shape, -0.9, 0.9, dtype) end
makers.D = makers.F
function makers.H(o) return makers.F(o, "float32") end
function makers.M(o, dtype)
  local n = o.shape[#o.shape]
  return ("ipu.cast(ipu.eye(%d), %q) * %d + %s"):format(n, dtype, n + 2,
    uniform(o.shape, 0, 0.01, dtype))
end
function makers.W(o, dtype)
  local n = o.shape[#o.shape]
  return ("ipu.cast(ipu.eye(%d), %q) * %d + %s"):format(n, dtype, n + 2,
    uniform(o.shape, -1, 1, dtype))
end
function makers.I(o, _, integer)
  return uniform(o.shape, 0, math.max(o.below or 9, 1), integer)
end
function makers.S(o, _, integer)
  return "ipu.sort(" .. uniform(o.shape, 0, math.max(o.below or 9, 1), integer) .. ")"
end
function makers.B(o) return ("ipu.less(%s, 0)"):format(makers.F(o, "float32")) end

local special <const> = {"0 / 0", "math.huge", "-math.huge", "-0.0", "1e-40", "3e38",
  "-65504", "1e-8"}

-- One element in a hundred or so is something else.
local function sprinkle(source, o)
  return ("ipu.where(ipu.less(%s, 0.01), %s, %s)"):format(uniform(o.shape, 0, 1, "float32"),
    pick(special), source)
end

local function swapped(shape)
  local out = {table.unpack(shape)}
  out[#out], out[#out - 1] = out[#out - 1], out[#out]
  return out
end

-- The same operand as what an op made that need not copy: how, and the operand that goes in.
local views = {}
function views.sliced(o)
  local bigger, begin = {}, {}
  for i, extent in ipairs(o.shape) do
    begin[i] = math.random(0, 2)
    bigger[i] = extent + begin[i] + math.random(0, 1)
  end
  return bigger, ("ipu.slice(%%s, %s, %s)"):format(list(begin), list(o.shape))
end
function views.transposed(o)
  if #o.shape < 2 then return nil end
  local perm = {}
  for i = 1, #o.shape do perm[i] = i - 1 end
  perm[#perm], perm[#perm - 1] = perm[#perm - 1], perm[#perm]
  return swapped(o.shape), ("ipu.transpose(%%s, %s)"):format(list(perm))
end
function views.spread(o)
  if #o.shape == 0 then return nil end
  local narrow = {table.unpack(o.shape)}
  narrow[math.random(#narrow)] = 1
  return narrow, ("ipu.broadcast_to(%%s, %s)"):format(list(o.shape))
end
function views.reversed(o)
  if #o.shape == 0 then return nil end
  return o.shape, ("ipu.reverse(%%s, %d)"):format(math.random(0, #o.shape - 1))
end
local kinds <const> = {"sliced", "transposed", "spread", "reversed"}

---Source for an operand {letter, below, shape}: how the input is made, and what is done with it
---inside the function (a format for the input's name).
function values.source(o, dtype, integer)
  local shape, wrap = o.shape, "%s"
  if o.letter ~= "M" and o.letter ~= "W" and o.letter ~= "S" and math.random() < 0.25 then
    local inner, how = views[pick(kinds)](o)
    if inner and calls.count(inner) <= calls.most_elements then shape, wrap = inner, how end
  end
  local made = {letter = o.letter, below = o.below, shape = shape}
  local source = makers[o.letter](made, dtype, integer)
  if o.letter == "F" and math.random() < 0.08 and calls.count(shape) > 0 then
    source = sprinkle(source, made)
  end
  return source, wrap
end

function values.is_real(letter) return real[letter] or false end

return values
