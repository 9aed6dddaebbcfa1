-- ipu.popdist: which instance this is, what it has, and acts of some instances alone. Facts come
-- from the environment.

local args = require "ipulua.base.args"
local blame = require "ipulua.base.blame"
local config = require "ipulua.config"
local devices = require "ipulua.config.devices"
local instances = require "ipulua.config.instances"
local ipu_config = require "ipulua.config.ipu_config"
local launch = require "ipulua.config.launch"

local popdist = {}

---Joins the other instances, as strategies do by themselves.
---Errors: a library that the launcher doesn't fit
function popdist.init() instances.begin() end

---Whether a launcher started this process.
---@return boolean
function popdist.isPopdistEnvSet() return launch.facts().launched end

---How many instances there are.
---@return integer
function popdist.getNumInstances() return launch.count() end

---Which one this is, from 0.
---@return integer
function popdist.getInstanceIndex() return launch.index() end

---Replicas of all instances.
---@return integer
function popdist.getNumTotalReplicas() return launch.count() * launch.local_replicas() end

---Replicas of this instance.
---@return integer
function popdist.getNumLocalReplicas() return launch.local_replicas() end

---The number, among all, of this instance's first replica.
---@return integer
function popdist.getReplicaIndexOffset() return launch.index() * launch.local_replicas() end

---IPUs of a replica: the number given to set_ipu_config, else --ipus-per-replica, else 1.
---@return integer
function popdist.getNumIpusPerReplica() return launch.ipus_per_replica() end


local function device_id(who, ipus_per_replica)
  local ipus <const>, total <const> = launch.local_replicas() * ipus_per_replica,
    config.system_ipus()
  if not devices.is_power_of_two(ipus) then
    blame.error(string.format("%s: an instance of %d replicas of %d IPUs would have %d; devices "
      .. "have 1, 2, 4, 8, … IPUs", who,
      launch.local_replicas(), ipus_per_replica, ipus), "failed_precondition")
  end
  local wanted = ipus * launch.count()
  if wanted > total then
    local larger = total
    while larger < wanted do larger = larger * 2 end
    blame.error(string.format("%s: %d instances of %d IPUs are more than the machine's %d; ipulua "
      .. "--ipus %d makes it a larger one", who,
      launch.count(), ipus, total, larger), "failed_precondition")
  end
  return devices.first_id(total, ipus) + launch.index()
end

local id_spec <const> = {{"ipus_per_replica", "integer", optional = true, range = "[1, 1024]",
  says = "by default getNumIpusPerReplica()"}}

---The device id of this instance's IPUs: its group of local replicas times IPUs, in the order of
---instances.
---Errors: more IPUs than the machine has: `ipu.popdist.getDeviceId(1024)`
---@return integer
function popdist.getDeviceId(...)
  local a = args.check("popdist.getDeviceId", id_spec, ...)
  return device_id("popdist.getDeviceId", a.ipus_per_replica or launch.ipus_per_replica())
end

local config_spec <const> = {
  {"config", ipu_config.IPUConfig},
  {"ipus_per_replica", "integer", optional = true, range = "[1, 1024]",
    says = "--ipus-per-replica, else 1, by default"},
  {"configure_device", "boolean", true, says = "false: select_ipus is left alone"},
}

---Makes an IPUConfig one for this instance: its IPUs, its index among the instances. Returns it.
---Errors: more IPUs than the machine has
---@return IPUConfig
function popdist.set_ipu_config(...)
  local a = args.check("popdist.set_ipu_config", config_spec, ...)
  local ipus = a.ipus_per_replica or launch.ipus_per_replica()
  launch.set_ipus_per_replica(ipus)
  if config.running_on_ipu_model() then
    if a.configure_device then
      a.config.auto_select_ipus = (launch.stated_replicas() or launch.count())
        // launch.count() * ipus
    end
    return a.config
  end
  if a.configure_device then a.config.select_ipus = device_id("popdist.set_ipu_config", ipus) end
  popdist.update_ipu_config(a.config)
  return a.config
end

---Fills in a configuration's index among the instances.
---@package
function popdist.update_ipu_config(cfg)
  local place = cfg.experimental.multi_replica_distribution
  place.process_count = launch.count()
  place.process_index = launch.index()
end

local function is_among(list)
  for _, each in ipairs(list) do
    if each == launch.index() then return true end
  end
  return false
end

---f(…) on the instances that are listed; all wait for its end. An error in it is everybody's.
---Errors: an instance that there is not, no function: `ipu.popdist.execute_on_instances({0}, 1)`
---@param list integer[]
---@param f function
---@param ... any handed to f
---@return any ... what f gave; nothing on the others
function popdist.execute_on_instances(list, f, ...)
  local who <const> = "popdist.execute_on_instances"
  args.check_value(who, {"instances", "integers"}, list)
  if type(f) ~= "function" then
    blame.error(who .. ": expected a function, got " .. args.describe(f), "type")
  end
  for _, each in ipairs(list) do
    if each < 0 or each >= launch.count() then
      blame.error(string.format("%s: there is no instance %d; they are 0 to %d", who, each,
        launch.count() - 1), "value")
    end
  end
  instances.begin()
  local results = {n = 0}
  if is_among(list) then results = table.pack(instances.telling(f, ...)) end
  instances.exchange("execute_on_instances", "execute_on_instances", 0)
  return table.unpack(results, 1, results.n)
end

---Changes nothing: instances leave each other at the script's end.
function popdist.finalizeBackend() end

return popdist
