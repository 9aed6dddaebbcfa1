-- ipu.distributed: collectives of the host, called outside of programs. With one instance each is
-- the identity.

local args = require "ipulua.base.args"
local blame = require "ipulua.base.blame"
local core = require "ipulua.core"
local enum = require "ipulua.base.enumeration"
local instances = require "ipulua.config.instances"
local structure = require "ipulua.base.structure"
local tracing = require "ipulua.trace.tracing"

local distributed = {}

local ReduceOp <const> = enum.new("ReduceOp", {"SUM", "MEAN"})
local name_row <const> = {"tensor_name", "string", "", says = "must be alike everywhere"}

local function refuse_tracing(who)
  if not tracing.is_active() then return end
  blame.error(who .. " meets the other instances on the host, not inside a compiled function; "
    .. "there use ipu.cross_replica_sum, or "
    .. "strategy:reduce", "runtime")
end

local function as_tensor(who, x)
  if core.is_variable(x) then return x:read_value() end
  if core.is_tensor(x) then
    if core.is_symbolic(x) then
      blame.error(who .. ": a symbolic tensor has no value on the host", "type")
    end
    return x
  end
  return core.tensor(x, nil, who .. ": 'x'")
end

local function type_text(t) return structure.type_text(core.type_of(t)) end

local function collect(who, name, label, x, tensor_name, more)
  local detail <const> = label .. ";" .. type_text(x) .. ";" .. tensor_name
  local words <const> = string.format("%s%s of %s", who, tensor_name ~= ""
    and " '" .. tensor_name .. "'" or "", type_text(x))
  return instances.collect(name, detail, words, x, more)
end

local reduce_spec <const> = {
  {"x", "any", list_of = "number", of = "tensor, variable or number"},
  {"reduce_op", ReduceOp, says = "SUM or MEAN"}, name_row,
}

---The sum or mean of all instances' values, added in their order; of one instance the value.
---Shapes: [...] → [...], the same everywhere
---Errors: another combination than SUM and MEAN, booleans, a call inside of a compiled function:
---`ipu.distributed.allreduce(x, "MAX")`
---@return userdata
function distributed.allreduce(...)
  refuse_tracing("distributed.allreduce")
  local a = args.check("distributed.allreduce", reduce_spec, ...)
  local x = as_tensor("distributed.allreduce", a.x)
  if x.dtype == "bool" then blame.error("distributed.allreduce takes numbers, got bool", "type") end
  if not instances.are_several() then return x end
  return collect("allreduce '" .. a.reduce_op .. "'", "allreduce", a.reduce_op, x, a.tensor_name,
    a.reduce_op == "MEAN")
end

local gather_spec <const> = {{"x", "any", list_of = "number", of = "tensor, variable or number"},
  name_row}

---The values of all instances, stacked along a new first axis.
---Shapes: [...] → [instances, ...]
---Errors: a call inside of a compiled function:
---`ipu.func(function(a) return ipu.distributed.allgather(a) end)(x)`
---@return userdata
function distributed.allgather(...)
  refuse_tracing("distributed.allgather")
  local a = args.check("distributed.allgather", gather_spec, ...)
  local x = as_tensor("distributed.allgather", a.x)
  if not instances.are_several() then return tracing.outside(core.ops.expand_dims, x, 0) end
  return collect("allgather", "allgather", "", x, a.tensor_name)
end

local broadcast_spec <const> = {
  {"x", "any", list_of = "number", of = "tensor, variable or number"},
  {"root_rank", "integer", 0, range = "[0, inf)", says = "whose value it is"}, name_row,
}

---One instance's value, on all; the others give one of its type.
---Shapes: [...] → [...]
---Errors: a root that there is not: `ipu.distributed.broadcast(x, {root_rank = 9})`
---@return userdata
function distributed.broadcast(...)
  refuse_tracing("distributed.broadcast")
  local a = args.check("distributed.broadcast", broadcast_spec, ...)
  local x = as_tensor("distributed.broadcast", a.x)
  if a.root_rank >= instances.count() then
    blame.error(string.format("distributed.broadcast: 'root_rank' is %d, but the instances are 0 "
      .. "to %d", a.root_rank,
      instances.count() - 1), "value")
  end
  if not instances.are_several() then return x end
  return collect("broadcast from " .. a.root_rank, "broadcast", tostring(a.root_rank), x,
    a.tensor_name, a.root_rank)
end

---Waits until all instances are there.
---Errors: a call inside of a compiled function
function distributed.barrier()
  refuse_tracing("distributed.barrier")
  instances.exchange("barrier", "barrier", 0)
end

---The cost of meetings since the start: {meetings, bytes_sent, bytes_received, seconds, waited}.
---Units: bytes; seconds
---@return table
function distributed.statistics() return core.plain(instances.statistics()) end

return distributed
