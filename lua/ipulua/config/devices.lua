-- Which IPUs a device consists of: device ids, the order in which shards take IPUs, shards and
-- replicas.
--
-- A machine of N = 2^k IPUs has 2N - 1 device ids: the single IPUs, then all pairs, all groups of
-- four, …, last the whole machine. Groups of g IPUs have the ids base .. base + N/g - 1.

local blame = require "ipulua.base.blame"
local counted = require "ipulua.base.counted"
local enums = require "ipulua.enums"

local devices = {}

local largest_system <const> = 1024 -- IPUs; the largest pod has 256

-- Groups of the 16-IPU machine (DSS8440) follow its cabling. Members stand in DNC (device-local)
-- order, as the documentation of `select_ipus` lists them: pairs first, larger groups are joined
-- from smaller ones.
local pairs_of_16 <const> = {{5, 7}, {4, 6}, {3, 1}, {2, 0}, {13, 15}, {12, 14}, {9, 11}, {10, 8}}

local function joined(a, b)
  local all = table.move(a, 1, #a, 1, {})
  return table.move(b, 1, #b, #all + 1, all)
end

-- The groups of size g, in the order of their ids: consecutive ones, or the cabled ones of 16 IPUs.
local function groups(system_ipus, g)
  local list = {}
  if g == 1 or system_ipus ~= 16 then
    for i = 0, system_ipus // g - 1 do
      list[i + 1] = {}
      for j = 0, g - 1 do list[i + 1][j + 1] = i * g + j end
    end
    return list
  end
  list = pairs_of_16
  while #list[1] < g do
    local larger = {}
    for i = 1, #list, 2 do larger[#larger + 1] = joined(list[i], list[i + 1]) end
    list = larger
  end
  return list
end

---@param n integer
---@return boolean
function devices.is_power_of_two(n) return n > 0 and n & (n - 1) == 0 end

---Whether a machine can have so many IPUs.
---@param count any
---@return boolean
function devices.is_system_size(count)
  return math.type(count) == "integer" and devices.is_power_of_two(count)
    and count <= largest_system
end

---The first id of the groups of g IPUs.
---@param system_ipus integer
---@param g integer
---@return integer
function devices.first_id(system_ipus, g)
  local base, size = 0, 1
  while size < g do
    base, size = base + system_ipus // size, size * 2
  end
  return base
end

---How many ids a machine has; they are 0 .. count - 1.
---@param system_ipus integer
---@return integer
function devices.id_count(system_ipus)
  return 2 * system_ipus - 1
end

---The IPUs of a device id in DNC order, nil when there is no such id.
---@param system_ipus integer
---@param id integer
---@return integer[]?
function devices.members(system_ipus, id)
  local base, g = 0, 1
  if id < 0 then return nil end
  while g <= system_ipus do
    local count = system_ipus // g
    if id < base + count then
      local list = groups(system_ipus, g)[id - base + 1]
      return table.move(list, 1, #list, 1, {})
    end
    base, g = base + count, g * 2
  end
  return nil
end

---The lowest id of a size whose members are all free, with its members; nil when there is none.
---@param system_ipus integer
---@param size integer
---@param taken table<integer, any> by IPU
---@return integer? id
---@return integer[]? members
function devices.free_id(system_ipus, size, taken)
  if not devices.is_power_of_two(size) or size > system_ipus then return nil end
  local base = devices.first_id(system_ipus, size)
  for i, list in ipairs(groups(system_ipus, size)) do
    local free = true
    for _, ipu in ipairs(list) do free = free and taken[ipu] == nil end
    if free then return base + i - 1, table.move(list, 1, #list, 1, {}) end
  end
  return nil
end

local orders = {}

function orders.ZIGZAG(count)
  local order = {}
  for i = 1, count do order[i] = i - 1 end
  return order
end

-- Pairs across the ladder, every other one reversed, so that neighbours are linked directly.
function orders.SNAKE(count)
  local order = {}
  for rung = 0, (count + 1) // 2 - 1 do
    local left, right = 2 * rung, 2 * rung + 1
    if rung % 2 == 1 then left, right = right, left end
    for _, ipu in ipairs {left, right} do
      if ipu < count then order[#order + 1] = ipu end
    end
  end
  return order
end

-- Up one side of the ladder, down the other.
function orders.HOOF(count)
  local order = {}
  for ipu = 0, count - 1, 2 do order[#order + 1] = ipu end
  for ipu = (count // 2) * 2 - 1, 1, -2 do order[#order + 1] = ipu end
  return order
end

---The positions in a device of `count` IPUs that shards 0, 1, 2, … take. AUTO is SNAKE for a
---program whose pipeline has the default device mapping, ZIGZAG for everything else.
---@param order string a SelectionOrder
---@param count integer
---@param default_pipeline boolean?
---@return integer[]
function devices.selection_order(order, count, default_pipeline)
  local member = enums.SelectionOrder(order)
  if math.type(count) ~= "integer" or count < 1 or count > largest_system then
    blame.error(string.format("selection_order: the number of IPUs must be an integer from 1 to "
      .. "%d, got %s",
      largest_system, tostring(count)), "value")
  end
  if member == "AUTO" then member = default_pipeline and "SNAKE" or "ZIGZAG" end
  return orders[member](count)
end

---The shards of a program whose largest shard index is given: rounded up to a power of two.
---@param largest_index integer
---@return integer
function devices.shard_count(largest_index)
  local count = 1
  while count < largest_index + 1 do count = count * 2 end
  return count
end

---How often a program of so many shards fits a device: its replicas.
---@param ipu_count integer
---@param shard_count integer
---@return integer
function devices.replica_count(ipu_count, shard_count)
  if ipu_count % shard_count ~= 0 then
    blame.error(string.format("the program is compiled for a device with %s and has %s; the number "
      .. "of IPUs must be a multiple of %d", counted(ipu_count, "IPU"),
      counted(shard_count, "shard"), shard_count),
      "failed_precondition")
  end
  return ipu_count // shard_count
end

---The ordinal of "/device:IPU:1" (or of 1); raises for anything else.
---@param device any
---@return integer
function devices.ordinal(device)
  if math.type(device) == "integer" and device >= 0 then return device end
  local digits = type(device) == "string"
    and device:match("^/?[dD][eE][vV][iI][cC][eE]:[iI][pP][uU]:(%d+)$")
  local ordinal = digits and math.tointeger(tonumber(digits))
  if not ordinal then
    blame.error("a device is named like \"/device:IPU:0\", got "
      .. tostring(device):sub(1, 80), "value")
  end
  return ordinal
end

return devices
