-- Which devices a configuration asks for: auto_select_ipus numbers of IPUs, select_ipus ids.

local blame = require "ipulua.base.blame"
local devices = require "ipulua.config.devices"

local selection = {}

---A number stands for a list of one.
---@param value integer|integer[]
---@return integer[]
function selection.as_list(value)
  return type(value) == "number" and {value} or value
end

---An error when the options on devices exclude each other.
---@param values table<string, any> of a configuration, by full name
---@param flags table<string, any> run flags
function selection.check(values, flags)
  local auto, select_ids = selection.as_list(values.auto_select_ipus),
    selection.as_list(values.select_ipus)
  if #auto > 0 and #select_ids > 0 then
    blame.error("IPUConfig: only one of 'auto_select_ipus' and 'select_ipus' can be used, but both "
      .. "are set", "value")
  end
  local seen = {}
  for _, id in ipairs(select_ids) do
    if seen[id] then
      blame.error(string.format("IPUConfig: 'select_ipus' names the id %d twice; a device can be "
        .. "used once", id), "value")
    end
    seen[id] = true
  end
  if flags.use_ipu_model and #select_ids > 0 then
    blame.error(
      "IPUConfig: 'select_ipus' cannot be used with the IPU Model; use 'auto_select_ipus'", "value")
  end
end

local function new_device(ordinal, id, dnc)
  local members = table.move(dnc, 1, #dnc, 1, {})
  table.sort(members)
  return {device = "/device:IPU:" .. ordinal, ordinal = ordinal, ipus = #members, id = id,
    members = members, dnc = dnc,
    attached = false}
end

local function refuse_count(count, why)
  blame.error(string.format("IPUConfig: unsupported number of IPUs: %d (%s)", count, why),
    "failed_precondition")
end

local function take(taken, members)
  for _, ipu in ipairs(members) do taken[ipu] = true end
end

-- Any number of IPUs, numbered on from device to device; a device's id is its ordinal.
local function model_devices(counts)
  local list, next_ipu = {}, 0
  for i, count in ipairs(counts) do
    if count < 1 then refuse_count(count, "a device has at least one") end
    if next_ipu + count > 1024 then refuse_count(count, "all devices together can have 1024") end
    local members = {}
    for j = 1, count do members[j] = next_ipu + j - 1 end
    next_ipu = next_ipu + count
    list[i] = new_device(i - 1, i - 1, members)
  end
  return list
end

local function auto_devices(counts, total)
  local list, taken = {}, {}
  for i, count in ipairs(counts) do
    if count < 1 or count & (count - 1) ~= 0 then
      refuse_count(count, "devices have 1, 2, 4, 8, … IPUs")
    end
    if count > total then
      refuse_count(count, "the machine has " .. total .. "; ipulua --ipus N makes it another one")
    end
    local id, members = devices.free_id(total, count, taken)
    if not id then
      refuse_count(count, "no device with so many of the machine's " .. total .. " IPUs is free")
    end
    take(taken, members)
    list[i] = new_device(i - 1, id, members)
  end
  return list
end

local function selected_devices(ids, total)
  local list, owner = {}, {}
  for i, id in ipairs(ids) do
    local members = devices.members(total, id)
    if not members then
      blame.error(string.format("IPUConfig: 'select_ipus' names the id %d; the machine's %d IPUs "
        .. "have the ids 0 to %d", id,
        total, devices.id_count(total) - 1), "not_found")
    end
    for _, ipu in ipairs(members) do
      if owner[ipu] then
        blame.error(string.format("IPUConfig: 'select_ipus' names the ids %d and %d, which share "
          .. "IPU %d", owner[ipu], id, ipu),
          "failed_precondition")
      end
      owner[ipu] = id
    end
    list[i] = new_device(i - 1, id, members)
  end
  return list
end

---@class Device
---@field device string "/device:IPU:0"
---@field ordinal integer
---@field ipus integer
---@field id integer
---@field members integer[] its IPUs' numbers in the machine
---@field dnc integer[] the same in device-local order
---@field attached boolean

---The devices that a configuration asks for; one of one IPU if it says nothing.
---@param values table<string, any>
---@param flags table<string, any>
---@param system_ipus integer of the machine
---@return Device[]
function selection.devices(values, flags, system_ipus)
  local auto, ids = selection.as_list(values.auto_select_ipus),
    selection.as_list(values.select_ipus)
  if #ids > 0 then return selected_devices(ids, system_ipus) end
  if #auto == 0 then auto = {1} end
  return (flags.use_ipu_model and model_devices or auto_devices)(auto, system_ipus)
end

return selection
