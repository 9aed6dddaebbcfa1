-- Protocol buffers' wire format: writing fields, and reading the fields of a message. The callers
-- know what messages mean.

local blame = require "ipulua.base.blame"

local protobuf = {}

-- ------------------------------------------------ writing

---@param n integer negative ones take ten bytes
---@return string
local function varint(n)
  local out = {}
  repeat
    local byte = n & 0x7f
    n = n >> 7
    out[#out + 1] = string.char(n ~= 0 and byte | 0x80 or byte)
  until n == 0
  return table.concat(out)
end

---A field: an integer, a string or message, a double, a float.
function protobuf.integer(number, value) return varint(number << 3) .. varint(value) end
function protobuf.bytes(number, data) return varint(number << 3 | 2) .. varint(#data) .. data end
function protobuf.double(number, value)
  return varint(number << 3 | 1) .. string.pack("<d", value)
end
function protobuf.float(number, value)
  return varint(number << 3 | 5) .. string.pack("<f", value)
end

---A repeated field of integers or floats, unpacked.
function protobuf.integers(number, list)
  local out = {}
  for i, value in ipairs(list) do out[i] = protobuf.integer(number, value) end
  return table.concat(out)
end

-- ------------------------------------------------ reading

local function damaged(what, at)
  blame.error(string.format("%s: damaged at byte %d", what, at - 1), "value")
end

local function read_varint(data, at, stop, what)
  local value, shift = 0, 0
  for i = at, math.min(at + 9, stop) do
    local byte = data:byte(i)
    value = value | (byte & 0x7f) << shift
    if byte < 0x80 then return value, i + 1 end
    shift = shift + 7
  end
  damaged(what, at)
end

local function read_length(data, at, stop, what)
  local length, from = read_varint(data, at, stop, what)
  if length < 0 or length > stop - from + 1 then damaged(what, at) end
  return from, from + length
end

-- wire type → function(data, at, stop, what) → value, position after it
local readers <const> = {
  [0] = read_varint,
  [1] = function(data, at, stop, what)
    if at + 7 > stop then damaged(what, at) end
    return data:sub(at, at + 7), at + 8
  end,
  [2] = function(data, at, stop, what)
    local from, behind = read_length(data, at, stop, what)
    return data:sub(from, behind - 1), behind
  end,
  [5] = function(data, at, stop, what)
    if at + 3 > stop then damaged(what, at) end
    return data:sub(at, at + 3), at + 4
  end,
}

---The fields of a message: field number → list of values (integers; strings for everything else).
---@param data string
---@param what string names the file in errors
---@return table<integer, any[]>
function protobuf.fields(data, what)
  local fields = {}
  local at, stop = 1, #data
  while at <= stop do
    local key, value
    local from = at
    key, at = read_varint(data, at, stop, what)
    local reader = readers[key & 7]
    if not reader or key >> 3 == 0 then damaged(what, from) end
    value, at = reader(data, at, stop, what)
    local list = fields[key >> 3] or {}
    fields[key >> 3] = list
    list[#list + 1] = value
  end
  return fields
end

---A repeated field of integers, packed or not.
function protobuf.read_integers(list, what)
  local out = {}
  for _, value in ipairs(list or {}) do
    if math.type(value) == "integer" then
      out[#out + 1] = value
    else
      local at = 1
      while at <= #value do out[#out + 1], at = read_varint(value, at, #value, what) end
    end
  end
  return out
end

---A repeated field of floats, packed or not.
function protobuf.read_floats(list)
  local out = {}
  for _, value in ipairs(list or {}) do
    for at = 1, #value - 3, 4 do out[#out + 1] = (string.unpack("<f", value, at)) end
  end
  return out
end

return protobuf
