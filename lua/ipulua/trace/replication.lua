-- The number of replicas of a program: IPUs of its device divided by its shards. It isn't given
-- anywhere. While a function is traced, the number follows from the shards that it has used so far.

local blame = require "ipulua.base.blame"
local config = require "ipulua.config"
local core = require "ipulua.core"
local counted = require "ipulua.base.counted"
local devices = require "ipulua.config.devices"
local launch = require "ipulua.config.launch"
local placement = require "ipulua.trace.placement"
local teams = require "ipulua.config.teams"
local tracing = require "ipulua.trace.tracing"

local replication = {}

-- core.here().replication: of the innermost root trace, {root, ipus, shards, left, below}

-- The state of the program being traced.
local function innermost()
  local state = core.here().replication
  while state and state.left do state = state.below end
  return state and state.root == tracing.root() and state or nil
end

-- Of this process.
local function local_replicas(state)
  if not state or state.alone then return 1 end
  return math.max(state.ipus // state.shards, 1)
end

-- Of all instances, where the program is a strategy's for several.
local function state_replicas(state)
  local count = local_replicas(state)
  return state and state.team and teams.all(count) or count
end

---How many replicas the program being traced has, as far as is known; 1 outside of traces.
---@return integer
function replication.count()
  local state = innermost()
  local count = state_replicas(state)
  if state then state.asked = state.asked or count end
  return count
end

---How many of them this process has.
---@return integer
function replication.local_count()
  local state = innermost()
  replication.count()
  return local_replicas(state)
end

---Whether the program has another number of replicas than was said while it was traced.
---@return boolean
function replication.misled()
  local state = innermost()
  if not state then return false end
  local asked = core.replicas_asked() -- by collectives
  return asked > 0 and asked ~= state_replicas(state) or state.asked ~= nil
    and state.asked ~= state_replicas(state)
end

-- Collectives whose shapes depend on the number of replicas ask the core.
local function tell() core.set_replicas(state_replicas(innermost())) end

local left_meta = {__close = function(self)
  self.state.left = true
  core.here().replication = self.state.below
  tell()
end}

---To be closed. Operations traced until then become a program of its own, which may have replicas.
---former: facts of an earlier trace of the same function.
---@param former table?
function replication.begin(former)
  local state = {root = tracing.root(), ipus = 1, shards = 1, team = teams.current()}
  if not placement.on_host() then
    state.ordinal = placement.ordinal()
    state.ipus, state.shards = config.device(state.ordinal).ipus,
      devices.shard_count(placement.shard())
  end
  if former then
    state.shards, state.ordinal, state.ipus = former.shards, former.ordinal, former.ipus
  end
  state.below, core.here().replication = core.here().replication, state
  core.replicas_asked() -- forget the questions of other programs
  tell()
  return setmetatable({state = state}, left_meta)
end

---The program being traced uses that many IPUs at least for each of its replicas.
---@param count integer
function replication.need_ipus(count)
  local state = innermost()
  if not state then return end
  state.shards = math.max(state.shards, devices.shard_count(count - 1))
  tell()
end

---The program being traced has one replica, whatever its device holds.
function replication.alone()
  local state = innermost()
  if not state then return end
  state.alone = true
  tell()
end

-- A scope inside the traced function says where the program runs.
placement.on_device(function(ordinal)
  local state = innermost()
  if not state then return end
  state.ordinal, state.ipus = ordinal, config.device(ordinal).ipus
  tell()
end)

placement.on_shard(function(index) replication.need_ipus(index + 1) end)
tracing.on_change(tell)

---The facts that settle must know of the program being traced: {shards, alone}.
---@return table?
function replication.traced() return innermost() end

-- ------------------------------------------------ queues

local queues = setmetatable({}, {__mode = "v"}) -- by identity of the core's queue

---Registers a queue. A program that uses it calls queue:set_replicas(n, {form, types}) with its
---number of replicas, and the form and types of the elements that it enqueues.
function replication.remember(queue, handle) queues[handle:identity()] = queue end

---An infeed deals its elements to the same number of replicas in all programs.
function replication.check_infeed(infeed, replicas)
  if infeed.replicas and infeed.replicas ~= replicas then
    blame.error(string.format("IPUInfeedQueue: a queue can't be shared by programs of different "
      .. "replication factors: it feeds "
      .. "%s, and the program has %d", counted(infeed.replicas, "replica"), replicas),
      "failed_precondition")
  end
  infeed.replicas = replicas
end

config.on_reset(function()
  for _, queue in pairs(queues) do queue.replicas = nil end
end)

-- ------------------------------------------------ programs

local function at(line) return line and " (" .. line .. ")" or "" end

---The device that a program runs on. Its ops decide it, not the scope in which it is compiled or
---called. If no op has a device, it is the device of the scope of tracing. nil if the whole program
---is the host's.
---@param entry table {name, program, replication}
---@param described table what the program says of itself
---@return integer?
function replication.device_of(entry, described)
  local device, other = described.device, described.other_device
  if device == nil then return entry.replication and entry.replication.ordinal or 0 end
  if device < 0 then return nil end
  if other then
    blame.error(string.format("'%s' has ops for /device:IPU:%d%s and for /device:IPU:%d%s; a "
      .. "program runs on one device: compute them "
      .. "in runs of their own", entry.name, device, at(described.device_line), other,
      at(described.other_line)), "value")
  end
  return device
end

-- In a strategy's program for several instances, replicas are numbered among all instances'.
local function replicate(entry, is_alone)
  if not entry.team then return entry.program:replicate(entry.replicas) end
  local first, all = teams.place(entry.replicas)
  if not is_alone and all > 1 and entry.program:meets() then launch.check_local(entry.replicas) end
  entry.program:replicate(entry.replicas, first, all)
end

---Gives a registered program its device and replicas, and tells its queues. A program that a
---configured device can't hold gets none. Without a configuration it runs once.
---@param entry table
function replication.settle(entry)
  local program, traced = entry.program, entry.replication
  local described = program:describe()
  local ordinal = replication.device_of(entry, described)
  local shards = math.max(described.shards, traced and traced.shards or 1)
  entry.device, entry.shards, entry.replicas = ordinal or 0, shards, 1
  if ordinal and not (traced and traced.alone) then
    local ipus = config.device(ordinal).ipus
    entry.replicas = ipus % shards == 0 and ipus // shards or not config.is_configured()
      and 1 or nil
  end
  if not entry.replicas then return end
  for _, used in ipairs(program:queues()) do
    local queue = queues[used.identity]
    if queue then queue:set_replicas(entry.replicas, used) end
  end
  replicate(entry, traced and traced.alone)
end

---Raises why a program has no replicas.
function replication.refuse(entry)
  devices.replica_count(config.device(entry.device).ipus, entry.shards)
end

return replication
