-- Tensors that live in remote (streaming) memory between their uses. Options are checked in the
-- words of the public function, and passed to the core, which adds the transfers to the program.

local blame = require "ipulua.base.blame"
local config = require "ipulua.config"
local core = require "ipulua.core"
local instances = require "ipulua.config.instances"
local log = require "ipulua.base.log"

local offloading = {}

local function has_remote_memory()
  if config.get("device_connection.enable_remote_buffers") then return true end
  return config.get("device_connection.type") == "ALWAYS" and not config.running_on_ipu_model()
end

local function need_remote_memory(who, name)
  if has_remote_memory() then return end
  blame.error(string.format("%s: '%s' needs remote memory, which the device does not have", who,
    name), "failed_precondition")
end

-- Shares of one value can't lie in several processes.
local function refuse_shares(who, a)
  for _, name in ipairs{"replicated_optimizer_state_sharding", "replicated_weight_sharding"} do
    if a[name] then
      instances.refuse(who, "'" .. name .. "'", "offload_weight_update_variables keeps optimizers' "
        .. "states in streaming memory")
    end
  end
end

-- Options that aren't given are on only if the chip has such memory.
local function chip_has_some()
  return has_remote_memory() and require "ipulua.config.target".chip().streaming_bytes > 0
end

---Keeps a variable in remote memory in all programs, if it is large enough.
---@param v userdata
function offloading.move(v, who, name)
  need_remote_memory(who, name)
  v.remote = v.nbytes >= config.get("optimizations.minimum_remote_tensor_size")
end

local names <const> = {
  "offload_weight_update_variables", "offload_activations", "offload_gradient_accumulation_buffers",
  "offload_weights",
}

---Checks a pipeline's options, and decides the ones that aren't given.
---@param a table arguments of ipu.pipeline; changed
function offloading.check(who, a, training)
  refuse_shares(who, a)
  if a.replicated_optimizer_state_sharding and a.offload_weight_update_variables == false then
    blame.error(who .. ": 'replicated_optimizer_state_sharding' shares out optimizer state that is "
      .. "offloaded; "
      .. "'offload_weight_update_variables' must not be false", "value")
  end
  if not training then
    for _, name in ipairs{"offload_weight_update_variables",
      "replicated_optimizer_state_sharding"} do
      if a[name] then
        log.warn("%s: '%s' has no effect in a pipeline that does not train", who, name)
      end
    end
    a.offload_weight_update_variables, a.replicated_optimizer_state_sharding = nil, nil
  end
  if a.replicated_weight_sharding == nil and (a.batch_serialization_iterations or 1) > 1
    and chip_has_some() and not (core.here().team and instances.are_several()) then
    a.replicated_weight_sharding = true
  end
  if a.offload_weights == nil then a.offload_weights = a.replicated_weight_sharding end
  for _, name in ipairs(names) do
    if a[name] then need_remote_memory(who, name) end
  end
  if training and a.offload_weight_update_variables == nil then
    a.offload_weight_update_variables = chip_has_some()
  end
end

---The same as the core takes it.
---@return table
function offloading.of_pipeline(a)
  return {
    state = a.offload_weight_update_variables, weights = a.offload_weights,
    activations = a.offload_activations,
    accumulators = a.offload_gradient_accumulation_buffers,
    shard_state = a.replicated_optimizer_state_sharding,
    shard_weights = a.replicated_weight_sharding,
    least = config.get("optimizations.minimum_remote_tensor_size"),
  }
end

---The optimizer state of the program being traced, where gradients are accumulated without a
---pipeline.
---@param a table {offload_weight_update_variables, replicated_optimizer_state_sharding}
function offloading.of_updates(who, a)
  refuse_shares(who, a)
  if not a.offload_weight_update_variables then return end
  need_remote_memory(who, "offload_weight_update_variables")
  core.offload{
    state = true, shard_state = a.replicated_optimizer_state_sharding,
    least = config.get("optimizations.minimum_remote_tensor_size"),
  }
end

---Refuses state that is shared out but not offloaded.
function offloading.check_updates(who, a)
  if a.replicated_optimizer_state_sharding and not a.offload_weight_update_variables then
    blame.error(who .. ": 'replicated_optimizer_state_sharding' needs "
      .. "'offload_weight_update_variables'", "value")
  end
end

---Warns if replicas were to share variables whose values differ between them.
---@param name string the program's
---@param facts table of Program:describe
function offloading.warn_unshared(name, facts)
  for fact, option in pairs{unshared_state = "replicated_optimizer_state_sharding",
    unshared_weights = "replicated_weight_sharding"} do
    if facts[fact] then
      log.warn("%s: '%s' has no effect: what an update reads is not the same on all replicas, so "
        .. "each keeps all of it; let them sum "
        .. "their gradients, as ipu.optimizers.CrossReplicaOptimizer(opt) does", name, option)
    end
  end
end

return offloading
