-- MD5 (RFC 1321), for numbers of words that are the same in every run and program.

local md5 = {}

-- Rotations of each round's four kinds of steps, and the sines that the steps add.
local rotations <const> = {{7, 12, 17, 22}, {5, 9, 14, 20}, {4, 11, 16, 23}, {6, 10, 15, 21}}
local sines = {}
for i = 1, 64 do sines[i] = math.floor(math.abs(math.sin(i)) * 4294967296) end

local mask <const> = 0xFFFFFFFF

local function rotate(x, n)
  x = x & mask
  return (x << n | x >> (32 - n)) & mask
end

-- For each round: a mixture of three words, and which word of the block step i takes.
local rounds <const> = {
  {function(b, c, d) return b & c | ~b & d end, function(i) return i end},
  {function(b, c, d) return d & b | ~d & c end, function(i) return (5 * i + 1) % 16 end},
  {function(b, c, d) return b ~ c ~ d end, function(i) return (3 * i + 5) % 16 end},
  {function(b, c, d) return c ~ (b | ~d & mask) end, function(i) return 7 * i % 16 end},
}

-- Takes a block of 16 words into the state.
local function mix(state, block)
  local a, b, c, d = table.unpack(state)
  for i = 0, 63 do
    local round = i // 16 + 1
    local f, word = rounds[round][1](b, c, d), block[rounds[round][2](i) + 1]
    a, d, c, b = d, c, b,
      (b + rotate(a + f + sines[i + 1] + word, rotations[round][i % 4 + 1])) & mask
  end
  for i, x in ipairs{a, b, c, d} do state[i] = (state[i] + x) & mask end
end

---The digest of a text, 16 bytes.
---@param text string
---@return string
function md5.digest(text)
  local padded = text .. "\x80" .. ("\0"):rep((55 - #text) % 64) .. string.pack("<I8", #text * 8)
  local state = {0x67452301, 0xEFCDAB89, 0x98BADCFE, 0x10325476}
  for at = 1, #padded, 64 do mix(state, {string.unpack("<" .. ("I4"):rep(16), padded, at)}) end
  return string.pack("<I4I4I4I4", table.unpack(state))
end

---The digest as a number of 128 bits, its first byte being the highest, modulo n.
---@param text string
---@param n integer below 2^55
---@return integer
function md5.modulo(text, n)
  local rest = 0
  for byte in md5.digest(text):gmatch(".") do rest = (rest * 256 + byte:byte()) % n end
  return rest
end

return md5
