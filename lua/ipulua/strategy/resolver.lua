-- MPIClusterResolver: which worker this process is, as distributed scripts ask.

local args = require "ipulua.base.args"
local class = require "ipulua.base.class"
local instances = require "ipulua.config.instances"
local launch = require "ipulua.config.launch"

local resolver = {}

---Which worker this process is: task_type, task_id, num_workers, environment and the workers'
---hosts.
---Errors: an argument, which it has none of: `ipu.MPIClusterResolver(1)`
---@class MPIClusterResolver
---@field task_type string "worker"
---@field task_id integer
---@field num_workers integer
---@field environment string "openmpi", "mpich", or "" without a launcher
---@field hosts string[] by worker; reading it the first time is a meeting
local MPIClusterResolver = class.new("MPIClusterResolver")
resolver.MPIClusterResolver = MPIClusterResolver

local none <const> = {}

function MPIClusterResolver:init(...)
  args.check("MPIClusterResolver", none, ...)
  self.task_type, self.task_id, self.num_workers = "worker", launch.index(), launch.count()
  self.environment = launch.facts().launched and launch.facts().library or ""
end

MPIClusterResolver.__index = function(self, key)
  if key == "hosts" then
    local list = instances.hosts()
    rawset(self, "hosts", list)
    return list
  end
  return MPIClusterResolver[key]
end

function MPIClusterResolver:__tostring()
  return string.format("<MPIClusterResolver, worker %d of %d>", self.task_id, self.num_workers)
end

class.guard(MPIClusterResolver)

return resolver
