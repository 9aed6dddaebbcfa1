-- Facts about the instances of a training from the command line and the launcher. Nothing is loaded
-- for them.

local blame = require "ipulua.base.blame"
local config = require "ipulua.config"
local core = require "ipulua.core"
local start = require "ipulua.base.start"

local launch = {}

local facts

---The launcher, the number of processes and the number of this one: {launcher, library, count,
---index}; one without a launcher.
---@return table
function launch.facts()
  if facts then return facts end
  facts = core.instances.launch()
  facts.launched = facts.launcher ~= nil
  local wanted = start.environment("IPULUA_COMM")
  if wanted then facts.library = wanted end
  local priced = start.options.instances
  if priced and (start.options.estimate or not facts.launched) then -- instance 0 of so many
    if not start.options.estimate then
      blame.error("--instances is the number of instances that are priced; it needs --estimate. "
        .. "Instances that run are launched: mpirun -n " .. priced .. " ipulua …", "value")
    end
    facts.count, facts.index, facts.is_priced = priced, 0, true
  elseif start.options.estimate then
    facts.is_priced = true
  end
  return facts
end

---@return integer
function launch.count() return launch.facts().count end

---@return integer
function launch.index() return launch.facts().index end

local function stated_replicas()
  local given = start.options.replicas
  if given then return given, "--replicas" end
  local text = start.environment("IPULUA_REPLICAS")
  if not text then return nil end
  local n = math.tointeger(tonumber(text))
  if not n or n < 1 then
    blame.error("IPULUA_REPLICAS must be an integer of at least 1, got '" .. text .. "'", "value")
  end
  return n, "IPULUA_REPLICAS"
end

---The number of all instances' replicas by the command line; nil if it isn't given.
---@return integer?
function launch.stated_replicas()
  local n, name = stated_replicas()
  if n and n % launch.count() ~= 0 then
    blame.error(string.format("%s %d can't be shared among %d instances: the number of all "
      .. "replicas must be a multiple of theirs", name, n,
      launch.count()), "value")
  end
  return n
end

local configured_ipus -- IPUs of a replica, as given to set_ipu_config

---IPUs of a replica.
---@return integer
function launch.ipus_per_replica()
  return configured_ipus or start.options["ipus-per-replica"] or 1
end

---Sets the value that ipus_per_replica returns from now on.
---@param n integer
function launch.set_ipus_per_replica(n) configured_ipus = n end

---Replicas of this instance: from the command line, or as many as the device has.
---@return integer
function launch.local_replicas()
  local all = launch.stated_replicas()
  if all then return all // launch.count() end
  if not config.is_configured() then return 1 end
  return math.max(config.device(0).ipus // launch.ipus_per_replica(), 1)
end

---Words on the number of local replicas, where a program has another one.
---@param replicas integer
function launch.check_local(replicas)
  local all, name = stated_replicas()
  if not all or all // launch.count() == replicas then return end
  blame.error(string.format("this program has %d replica%s in each instance, but %s %d with %d "
    .. "instance%s says %d", replicas,
    replicas == 1 and "" or "s", name, all, launch.count(), launch.count() == 1 and "" or "s",
    all // launch.count()),
    "failed_precondition")
end

---To be closed: until then there are this many instances, and this is the first; for estimates.
---@param count integer? nil: as many as there are
function launch.pretend(count)
  local former = launch.facts()
  if count then facts = setmetatable({count = count, index = 0, is_priced = true},
    {__index = former}) end
  return setmetatable({}, {__close = function() facts = former end})
end

return launch
