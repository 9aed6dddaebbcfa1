-- Remedies that change a program so that it fits. The program is traced again, with less data or on
-- more IPUs, and priced. Nothing runs. A change that can't be traced is left out.

local blame = require "ipulua.base.blame"
local core = require "ipulua.core"
local func = require "ipulua.trace.func"
local log = require "ipulua.base.log"
local machine = require "ipulua.config.target"
local structure = require "ipulua.base.structure"

local remedies = {}

---Half of a batch's elements, at least one, of a list of {dtype =, shape =}; nil when they have no
---first axis in common.
---@return table[]? types
---@return integer? batch
function remedies.halved(types)
  local batch
  for _, t in ipairs(types) do
    local extent = t.shape[1]
    if extent and batch and extent ~= batch then return nil end
    batch = extent or batch
  end
  if not batch or batch < 2 then return nil end
  local list = {}
  for i, t in ipairs(types) do
    local shape = table.move(t.shape, 1, #t.shape, 1, {})
    if shape[1] then shape[1] = batch // 2 end
    list[i] = {dtype = t.dtype, shape = shape}
  end
  return list, batch
end

---The word for halving a batch.
function remedies.words_of_half(batch)
  return string.format("a batch of %d instead of %d", batch // 2, batch)
end

-- A function's program for arguments of half the batch.
local function on_less_data(entry)
  local list, types, at = {}, {}, {}
  local held = func.variables_of(entry)
  for i, leaf in ipairs(entry.leaf_types) do
    if leaf.is_variable then list[i] = held and held[i]
    else types[#types + 1], at[#at + 1] = leaf, i end
  end
  local smaller, batch = remedies.halved(types)
  if not (smaller and held) then return nil end
  for k, i in ipairs(at) do list[i] = core.full(smaller[k].shape, 0, smaller[k].dtype) end
  local given = structure.rebuild(entry.template, list)
  return entry.fn:outline(table.unpack(given, 1, entry.count)), remedies.words_of_half(batch)
end

---{words, price} of each change: a function that gives the changed entry, words and, where it takes
---another number than the machine has, IPUs.
---@param name string of the program that is changed
---@param changes (fun(): table?, string?, integer?)[]
---@param given? table {target, ipus, topology, host}: what the call says of the machine
---@param ordinal? integer of the device
---@return table[]
function remedies.price(name, changes, given, ordinal)
  local list = {}
  for _, change in ipairs(changes) do
    local ok, changed, words, ipus = blame.attempt(change)
    if not ok then
      log.debug("a remedy for '%s' can't be traced: %s", name, tostring(changed))
    elseif changed then
      local options = machine.options(given, ordinal)
      options.ipus = ipus or options.ipus
      local good, price = blame.attempt(machine.price, changed, options)
      if good then list[#list + 1] = {words, price} end
    end
  end
  return list
end

---The same of a compiled function's program. It may know changes of its own: fn.changes() gives the
---list.
---@param entry table what func.concrete gave
---@param given? table as in remedies.price
---@return table[]
function remedies.of(entry, given)
  if not entry.fn then return {} end
  local changes = entry.fn.changes and entry.fn.changes()
    or {function() return on_less_data(entry) end}
  return remedies.price(entry.name, changes, given, entry.device)
end

return remedies
