-- Calls of ops at random sizes, from the registry's own samples. The extents of a sample are
-- replaced, equal ones by equal ones. Calls that the op then refuses are left out. An op that is
-- added later is called without being named here.

local core = require "ipulua.core"

local calls = {}

-- Vector tails, panels of products, blocks and grains of kernels: sizes at which some algorithm
-- changes, and primes between them.
local small <const> = {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33}
local medium <const> = {63, 64, 65, 67, 96, 127, 128, 129, 131, 200, 255, 256, 257}
local large <const> = {511, 513, 1000, 1023, 1025, 2047, 2049, 4095, 4097, 4099}
local huge <const> = {16383, 16384, 16385, 16411, 32768, 32771, 65535, 65537}

calls.most_elements = 300000 -- of an operand or a result

local function pick(list) return list[math.random(#list)] end

---An extent; the larger the rank, the smaller.
function calls.extent(rank)
  local dice = math.random()
  if dice < 0.02 then return 0 end
  if rank <= 1 and dice > 0.7 then return pick(huge) end
  if rank <= 2 and dice > 0.6 then return pick(large) end
  if dice > (rank <= 2 and 0.3 or 0.8) then return pick(medium) end
  return pick(small)
end

function calls.count(shape)
  local n = 1
  for _, extent in ipairs(shape) do n = n * extent end
  return n
end

-- "F[2,3] I5[4] {axis = 1}" → operands {letter, below, shape}, attributes as text or nil.
local function read_case(text)
  local attributes = text:match("{.*}")
  local operands = {}
  for word in text:gsub("{.*}", ""):gmatch("%S+") do
    local letter, below, extents = word:match("^(%u)(%d*)(%[?[%d,]*%]?)$")
    local shape = {}
    for extent in extents:gmatch("%d+") do shape[#shape + 1] = math.tointeger(extent) end
    operands[#operands + 1] = {letter = letter, below = tonumber(below), shape = shape}
  end
  return operands, attributes
end

-- Every op that scripts can call, by name, with its row and its cases.
local function read_registry()
  local list = {}
  local function walk(functions, prefix)
    for name, value in pairs(functions) do
      if type(value) == "table" then walk(value, prefix .. name .. ".")
      else
        local row = core.describe_op(prefix .. name)
        if row.sample and not row.internal and not row.random then
          row.cases = {}
          for text in (row.sample .. "|"):gmatch("([^|]*)|") do row.cases[#row.cases + 1] = text end
          list[#list + 1] = row
        end
      end
    end
  end
  walk(core.ops, "")
  table.sort(list, function(a, b) return a.name < b.name end)
  return list
end

calls.registry = read_registry()
calls.by_name = {}
for _, row in ipairs(calls.registry) do calls.by_name[row.name] = row end

local collective <const> = {all_gather = true, all_to_all = true, cross_replica_mean = true,
  cross_replica_sum = true,
  reduce_scatter = true, replication_index = true}

---Whether replicas get other results of it than one alone does.
function calls.is_collective(name) return collective[name] or false end

-- Extents of the sample → new ones. `wanted`: the shape that operand `slot` is to have, if its rank
-- fits.
local function substitution(operands, slot, wanted)
  local map, largest_rank = {}, 0
  for _, each in ipairs(operands) do largest_rank = math.max(largest_rank, #each.shape) end
  if wanted then
    local shape = operands[slot].shape
    if #shape ~= #wanted then return nil end
    for i, extent in ipairs(shape) do
      if map[extent] and map[extent] ~= wanted[i] then return nil end
      map[extent] = wanted[i]
    end
  end
  for _, each in ipairs(operands) do
    for _, extent in ipairs(each.shape) do
      -- An extent of 1 broadcasts: it mostly stays.
      if not map[extent] then map[extent] = (extent == 1 and math.random() < 0.8) and 1
        or calls.extent(largest_rank) end
    end
  end
  return map
end

local function replace(operands, map)
  local out = {}
  for i, each in ipairs(operands) do
    local shape = {}
    for k, extent in ipairs(each.shape) do shape[k] = map[extent] end
    if calls.count(shape) > calls.most_elements then return nil end
    -- Positions below an extent follow that extent.
    out[i] = {letter = each.letter, below = each.below and (map[each.below] or each.below),
      shape = shape}
  end
  return out
end

local function replace_numbers(attributes, map)
  return attributes and (attributes:gsub("%f[%w_]%d+%f[^%w_.]", function(digits)
    local new = map[math.tointeger(digits)]
    return new and tostring(new) or nil
  end))
end

-- Each whole number becomes another one, now and then: axes, windows, widths of beams.
local function change_numbers(attributes)
  return attributes and (attributes:gsub("%f[%w_]%d+%f[^%w_.]", function()
    return math.random() < 0.5 and tostring(math.random(0, 6)) or nil
  end))
end

---A call of a random op, or of the one named: {name, operands, attributes, variadic}. `wanted`
---(optional): the shape that one of its
---real operands (`call.slot`) should have. Whether the op takes it is only known by calling it; nil
---where nothing fits.
function calls.random(name, wanted)
  local row = name and calls.by_name[name] or pick(calls.registry)
  local operands, attributes = read_case(pick(row.cases))
  local slots = {}
  for i, each in ipairs(operands) do if each.letter == "F"
    and not each.below then slots[#slots + 1] = i end end
  local slot = wanted and #slots > 0 and pick(slots) or nil
  if wanted and not slot then return nil end
  if math.random() < 0.1 and not wanted then
    return {name = row.name, operands = operands, attributes = attributes, variadic = row.variadic}
  end
  local map = substitution(operands, slot, wanted)
  if not map then return nil end
  local changed = replace(operands, map)
  if not changed then return nil end
  if math.random() < 0.5 then attributes = replace_numbers(attributes, map) end
  if math.random() < 0.2 then attributes = change_numbers(attributes) end
  return {name = row.name, operands = changed, attributes = attributes, variadic = row.variadic,
    slot = slot}
end

return calls
