-- Batch normalisation with statistics of several replicas' batches: the option
-- norms.experimental.distributed_batch_norm_replica_group_size.

local config = require "ipulua.config"
local core = require "ipulua.core"
local replication = require "ipulua.trace.replication"
local structure = require "ipulua.base.structure"

local norm = {}

local ops <const> = core.ops
local batch_norm <const> = ops["nn.batch_norm"]

---How many replicas' batches are normalised together.
---@return integer
function norm.group_size()
  local size = config.get("norms.experimental.distributed_batch_norm_replica_group_size")
  return size > 1 and replication.count() > 1 and size or 1
end

-- Mean and variance over all axes but one, of the batches of a group; the second pass is about the
-- common mean.
local function statistics(x, axis, group)
  local axes, shape = {}, {}
  for i = 0, x.rank - 1 do
    if i ~= axis then axes[#axes + 1] = i end
    shape[i + 1] = i == axis and x.shape[i + 1] or 1
  end
  local function over_group(value)
    return ops.cross_replica_mean(ops.reduce_mean(value, {axis = axes}),
      {replica_group_size = group})
  end
  local mean = over_group(x)
  return mean, over_group(ops.square(x - ops.reshape(mean, shape)))
end

---ipu.nn.batch_norm; in training, statistics are taken over the replica's group.
function norm.batch_norm(...)
  local group = norm.group_size()
  if group == 1 then return batch_norm(...) end
  local given = table.pack(...)
  local options = structure.is_plain(given[given.n]) and not core.is_tensor(given[given.n])
    and given[given.n] or {}
  local x, gamma, beta = given[1], given[2], given[3]
  if given[4] ~= nil and given[4] ~= options and not options.training then
    return batch_norm(...)
  end
  if core.is_variable(x) then x = x:read_value() end
  local axis = options.axis or -1
  if axis < 0 then axis = axis + x.rank end
  local is_narrow = x.dtype == "float16" or x.dtype == "bfloat16"
  local mean, variance = statistics(is_narrow and ops.cast(x, "float32") or x, axis, group)
  local y = batch_norm(x, gamma, beta, mean, variance, {axis = axis, epsilon = options.epsilon})
  return y, mean, variance
end

return norm
