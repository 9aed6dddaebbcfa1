-- Hashes that put words into bins: FarmHash's 64-bit fingerprint, and SipHash-2-4, which has a key.
-- Sources: G. Pike, FarmHash, 2014; J.-P. Aumasson and D. J. Bernstein, SipHash, 2012.

local hashes = {}

local k0 <const>, k1 <const>, k2 <const> =
  0xc3a5c85c97cb3127, 0xb492b66fbe98f273, 0x9ae16a3b2f90404f -- FarmHash's primes

local function rotate(x, n) return x >> n | x << 64 - n end -- to the right

local function fold(x) return x ~ x >> 47 end

local function word(s, at) return (string.unpack("<i8", s, at + 1)) end

local function half(s, at) return (string.unpack("<I4", s, at + 1)) end

-- Two words in one.
local function mix(u, v, mul)
  local a = fold((u ~ v) * mul)
  return fold((v ~ a) * mul) * mul
end

local function of_16(s, n)
  local mul <const> = k2 + n * 2
  if n >= 8 then
    local a, b = word(s, 0) + k2, word(s, n - 8)
    return mix(rotate(b, 37) * mul + a, (rotate(a, 25) + b) * mul, mul)
  elseif n >= 4 then
    return mix(n + (half(s, 0) << 3), half(s, n - 4), mul)
  elseif n == 0 then
    return k2
  end
  local y = s:byte(1) + (s:byte(n // 2 + 1) << 8)
  local z = n + (s:byte(n) << 2)
  return fold(y * k2 ~ z * k0) * k2
end

-- Both halves of a block of 32 bytes: its first two words and its last two.
local function pair(a, b, c, d)
  local y = rotate(a + b, 43) + rotate(c, 30) + d
  return y, a + rotate(b + k2, 18) + c
end

local function of_32(s, n)
  local mul <const> = k2 + n * 2
  local y, z = pair(word(s, 0) * k1, word(s, 8), word(s, n - 8) * mul, word(s, n - 16) * k2)
  return mix(y, z, mul)
end

local function of_64(s, n)
  local mul <const> = k2 + n * 2
  local a = word(s, 0) * k2
  local y, z = pair(a, word(s, 8), word(s, n - 8) * mul, word(s, n - 16) * k2)
  z = mix(y, z, mul)
  local e, f = word(s, 16) * mul, word(s, 24)
  local g, h = (y + word(s, n - 32)) * mul, (z + word(s, n - 24)) * mul
  return mix(rotate(e + f, 43) + rotate(g, 30) + h, e + rotate(f + a, 18) + g, mul)
end

-- 32 bytes and two words as two words.
local function weak(s, at, a, b)
  a = a + word(s, at)
  local last = word(s, at + 24)
  b = rotate(b + a + last, 21)
  local before = a
  a = a + word(s, at + 8) + word(s, at + 16)
  return a + last, b + rotate(a, 44) + before
end

-- The state of long texts: x, y, z and the pairs v, w. A block of 64 bytes is taken in.
local function block(state, s, at, mul, weight)
  local x, y, z, v1, v2, w1, w2 = table.unpack(state)
  x = rotate(x + y + v1 + word(s, at + 8), 37) * mul
  y = rotate(y + v2 + word(s, at + 48), 42) * mul
  x = x ~ w2 * weight
  y = y + v1 * weight + word(s, at + 40)
  z = rotate(z + w1, 33) * mul
  v1, v2 = weak(s, at, v2 * mul, x + w1)
  w1, w2 = weak(s, at + 32, z + w2, y + word(s, at + 16))
  return {z, y, x, v1, v2, w1, w2}
end

local function of_long(s, n)
  local y = 81 * k1 + 113
  local state = {81 * k2 + word(s, 0), y, fold(y * k2 + 113) * k2, 0, 0, 0, 0}
  for at = 0, (n - 1) // 64 * 64 - 64, 64 do state = block(state, s, at, k1, 1) end
  local mul <const> = k1 + ((state[3] & 255) << 1)
  state[6] = state[6] + (n - 1 & 63)
  state[4] = state[4] + state[6]
  state[6] = state[6] + state[4]
  state = block(state, s, n - 64, mul, 9)
  local x, z, v1, v2, w1, w2 = state[1], state[3], state[4], state[5], state[6], state[7]
  return mix(mix(v1, w1, mul) + fold(state[2]) * k0 + z, mix(v2, w2, mul) + x, mul)
end

---FarmHash's fingerprint of a string.
---@param s string
---@return integer
function hashes.fingerprint(s)
  local n <const> = #s
  local of = n <= 16 and of_16 or n <= 32 and of_32 or n <= 64 and of_64 or of_long
  return of(s, n)
end

local function left(x, n) return x << n | x >> 64 - n end

local function round(a, b, c, d)
  a, c = a + b, c + d
  b, d = left(b, 13) ~ a, left(d, 16) ~ c
  a = left(a, 32)
  a, c = a + d, c + b
  d, b = left(d, 21) ~ a, left(b, 17) ~ c
  return a, b, left(c, 32), d
end

---SipHash-2-4 of a string, with the two halves of a key.
---@param s string
---@param key integer
---@param other integer
---@return integer
function hashes.keyed(s, key, other)
  local a, b = 0x736f6d6570736575 ~ key, 0x646f72616e646f6d ~ other
  local c, d = 0x6c7967656e657261 ~ key, 0x7465646279746573 ~ other
  local n <const> = #s
  s = s .. ("\0"):rep(7 - n % 8) .. string.char(n & 255)
  for at = 0, #s - 8, 8 do
    local m = word(s, at)
    d = d ~ m
    for _ = 1, 2 do a, b, c, d = round(a, b, c, d) end
    a = a ~ m
  end
  c = c ~ 0xff
  for _ = 1, 4 do a, b, c, d = round(a, b, c, d) end
  return a ~ b ~ c ~ d
end

---The rest of a hash, which has no sign.
---@param x integer
---@param n integer
---@return integer
function hashes.modulo(x, n)
  local rest = x - ((x >> 1) // n << 1) * n -- below 2n: half of x is divided
  return math.ult(rest, n) and rest or rest - n
end

return hashes
