-- Strategies of one training on several processes: PopDistStrategy, and IPUMultiWorkerStrategy, its
-- older name.

local args = require "ipulua.base.args"
local blame = require "ipulua.base.blame"
local class = require "ipulua.base.class"
local config = require "ipulua.config"
local core = require "ipulua.core"
local distributed = require "ipulua.strategy.distributed"
local instances = require "ipulua.config.instances"
local launch = require "ipulua.config.launch"
local log = require "ipulua.base.log"
local placement = require "ipulua.trace.placement"
local popdist = require "ipulua.strategy.popdist"
local resolver = require "ipulua.strategy.resolver"
local scope = require "ipulua.base.scope"
local strategy = require "ipulua.strategy"
local teams = require "ipulua.config.teams"
local tracing = require "ipulua.trace.tracing"

local multi = {}

---One training on the replicas of all instances. Variables made in its scope are equal on all
---instances, and gradients of all replicas are combined.
---@class MultiStrategy: IPUStrategy
---@field num_replicas_in_sync integer replicas of all instances
---@field cluster_resolver MPIClusterResolver
local Multi = strategy.IPUStrategy:extend("MultiStrategy")

local serials = 0

function Multi:begin(name, a)
  placement.check_ipu(name, a.ipu_device)
  self.ipu_device, self.cpu_device = a.ipu_device, "/device:CPU:0"
  self.enable_dataset_iterators, self.enable_keras_extensions = a.enable_dataset_iterators ~= false,
    a.enable_keras_extensions ~= false
  self.add_ipu_cross_replica_reductions = a.add_ipu_cross_replica_reductions ~= false
  serials = serials + 1
  self.key = (self.add_ipu_cross_replica_reductions and "team" or "apart") .. serials
  instances.begin()
  self.cluster_resolver = a.cluster_resolver or resolver.MPIClusterResolver()
end

-- Replicas of a device's IPUs, of all instances. There may be more once a device is configured.
local function find(self, key)
  if key == "num_replicas_in_sync" then return teams.all(launch.local_replicas()) end
  return class.of(self)[key]
end

---Until it is closed, models and variables are the job's: they begin as instance 0's, their
---programs have all replicas.
---@return Scope
function Multi:scope()
  local leave = placement.enter_device(self.__name, self.ipu_device)
  local here <const> = core.here()
  local former, former_team = here.strategy, here.team
  here.strategy, here.team = self, self
  return scope.new("strategy:scope()", function()
    here.strategy, here.team = former, former_team
    leave()
  end)
end

function Multi:on_device(f)
  local _ <close> = teams.enter(self)
  return strategy.IPUStrategy.on_device(self, f)
end

local reductions <const> = {SUM = "cross_replica_sum", MEAN = "cross_replica_mean"}

---Inside a compiled function the sum or mean over all replicas; outside over the instances' values,
---on the host.
---Shapes: [...] → [...]
---Errors: a reduction other than SUM and MEAN: `ipu.PopDistStrategy():reduce("MAX", x)`
---@param reduce_op string SUM or MEAN
---@param value userdata
---@return userdata
function Multi:reduce(reduce_op, value)
  local how = type(reduce_op) == "string" and reduce_op:upper()
  local name = reductions[how]
  if not name then
    blame.error("strategy:reduce: the reduction must be SUM or MEAN, got "
      .. args.describe(reduce_op), "value")
  end
  if not tracing.is_active() then return distributed.allreduce(value, how) end
  if not self.add_ipu_cross_replica_reductions then return value end
  return core.ops[name](value)
end

---A dataset of global batches, cut along the first axis: an ordinary dataset of this instance's
---parts, in order.
---Shapes: [rows, ...] → [rows / replicas, ...]
---Errors: batches of an unknown extent, or of one that the replicas don't divide:
---`ipu.PopDistStrategy():experimental_distribute_dataset(1)`
---@param dataset Dataset
---@return Dataset
function Multi:experimental_distribute_dataset(dataset)
  return require "ipulua.strategy.data".distribute(self, dataset)
end

---The dataset that f(context) gives for this instance.
---Errors: f is no function, or gives no dataset:
---`ipu.PopDistStrategy():distribute_datasets_from_function(1)`
---@param f function of {num_input_pipelines, input_pipeline_id, num_replicas_in_sync}
---@return Dataset
function Multi:distribute_datasets_from_function(f)
  return require "ipulua.strategy.data".from_function(self, f)
end

-- ------------------------------------------------ the two names

local popdist_spec <const> = {
  {"ipu_device", "string", "/device:IPU:0"},
  {"add_ipu_cross_replica_reductions", "boolean", true,
    says = "false: for loops that reduce by themselves"},
  {"enable_dataset_iterators", "boolean", true, says = "dataset:iterator() gives an infeed"},
  {"enable_keras_extensions", "boolean", true, says = "changes nothing"},
}

---One training on the replicas of all processes that a launcher started, or of one process alone.
---Errors: a device of another form; a library of MPI that the launcher doesn't fit:
---`ipu.PopDistStrategy("/device:GPU:0")`
---Source: popdist_strategy.PopDistStrategy of Graphcore's TensorFlow 2.6
---@class PopDistStrategy: MultiStrategy
local PopDistStrategy = Multi:extend("PopDistStrategy")
multi.PopDistStrategy = PopDistStrategy
PopDistStrategy.__index = find

function PopDistStrategy:init(...)
  self:begin("PopDistStrategy", args.check("PopDistStrategy", popdist_spec, ...))
end

function PopDistStrategy:__tostring() return "<PopDistStrategy " .. self.ipu_device .. ">" end

---Fills in a configuration's index among the instances: experimental.multi_replica_distribution.
---Errors: an argument that is no IPUConfig: `ipu.PopDistStrategy():update_ipu_config(1)`
---@param cfg IPUConfig
function PopDistStrategy:update_ipu_config(cfg) -- luacheck: ignore 212
  args.check_value("update_ipu_config", {"config", config.IPUConfig}, cfg)
  popdist.update_ipu_config(cfg)
end

local worker_spec <const> = {
  {"cluster_resolver", "any", optional = true, of = "MPIClusterResolver"},
  {"ipu_device", "string", "/device:IPU:0"},
  {"variables_on_host", "boolean", false, says = "refused when true"},
}

---As PopDistStrategy, under the name that older scripts say.
---Errors: variables_on_host = true: `ipu.IPUMultiWorkerStrategy{variables_on_host = true}`
---Source: ipu_multi_worker_strategy.IPUMultiWorkerStrategyV1 of Graphcore's TensorFlow 2.6
---@class IPUMultiWorkerStrategy: MultiStrategy
local IPUMultiWorkerStrategy = Multi:extend("IPUMultiWorkerStrategy")
multi.IPUMultiWorkerStrategy = IPUMultiWorkerStrategy
IPUMultiWorkerStrategy.__index = find

local told_preferred, told_config = false, false

local function check_tf_config()
  local text = os.getenv "TF_CONFIG"
  local _, count = (text or ""):match('"worker"%s*:%s*%[(.-)%]')
  local workers = text and text:match('"worker"%s*:%s*%[(.-)%]')
  if not workers or told_config then return count end
  local stated = select(2, workers:gsub('"[^"]*"', ""))
  if stated == launch.count() then return nil end
  told_config = true
  log.warn("TF_CONFIG names %d workers, but there are %d: how many there are is mpirun's to say",
    stated, launch.count())
  return nil
end

function IPUMultiWorkerStrategy:init(...)
  local a = args.check("IPUMultiWorkerStrategy", worker_spec, ...)
  if a.variables_on_host then
    blame.error("IPUMultiWorkerStrategy: variables_on_host = true is not implemented; optimizers "
      .. "keep their states in streaming memory with "
      .. "offload_weight_update_variables", "not_implemented")
  end
  if a.cluster_resolver ~= nil
    and not class.is_a(a.cluster_resolver, resolver.MPIClusterResolver) then
    blame.error("IPUMultiWorkerStrategy: 'cluster_resolver' must be an MPIClusterResolver, got "
      .. args.describe(a.cluster_resolver),
      "type")
  end
  self:begin("IPUMultiWorkerStrategy", a)
  check_tf_config()
  if instances.is_first() and not told_preferred then
    told_preferred = true
    log.warn("IPUMultiWorkerStrategy is the older name; PopDistStrategy is preferred")
  end
end

function IPUMultiWorkerStrategy:__tostring()
  return "<IPUMultiWorkerStrategy " .. self.ipu_device .. ">"
end

class.guard(Multi)
class.guard(PopDistStrategy)
class.guard(IPUMultiWorkerStrategy)

return multi
