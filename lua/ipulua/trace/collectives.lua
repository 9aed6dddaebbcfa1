-- Collectives beyond the rows of ops: of lists of tensors, and over the IPUs of one replica. The
-- latter are made of ordinary ops placed on the shards.

local args = require "ipulua.base.args"
local blame = require "ipulua.base.blame"
local core = require "ipulua.core"
local enum = require "ipulua.base.enumeration"
local placement = require "ipulua.trace.placement"
local structure = require "ipulua.base.structure"

local collectives = {}

local ops <const> = core.ops

---Each replica's share of the combination of all replicas' elements; for a list, the shares of its
---tensors.
---@param x any
---@return any
function collectives.reduce_scatter(x, ...)
  if not structure.is_plain(x) or not core.is_tensor(x[1]) or x.op or x.replication_factor then
    return ops.reduce_scatter(x, ...)
  end
  local shares = {}
  for i, t in ipairs(x) do shares[i] = ops.reduce_scatter(t, ...) end
  return core.plain(shares)
end

-- ------------------------------------------------ over the shards of a replica

local within = {}

local Combination <const> = enum.new("CollectiveOp", {
  "ADD", "MUL", "MIN", "MAX", "LOGICAL_AND", "LOGICAL_OR", "SQUARE_ADD", "LOCAL", "MEAN",
})

local function parse(op)
  return Combination((type(op) == "string" and op:upper():gsub("^COLLECTIVE_OP_", "") or op))
end

local function on_shard(index, f)
  local _ <close> = placement.ipu_shard(index)
  return f()
end

-- One tensor for each shard, of one dtype.
local function check_list(who, list)
  if not structure.is_plain(list) or #list < 2 then
    blame.error(who .. ": expected a list of tensors, one on each shard, got "
      .. args.describe(list), "value")
  end
  local first
  for i, t in ipairs(list) do
    if not core.is_tensor(t) and not core.is_variable(t) then
      blame.error(string.format("%s: element %d must be a tensor, got %s", who, i,
        args.describe(t)), "value")
    end
    local dtype, shape = core.type_of(t)
    first = first or {dtype, #shape}
    if dtype ~= first[1] or #shape ~= first[2] then
      blame.error(string.format("%s: all elements must have the same dtype and rank: %s and %s",
        who,
        structure.type_text(core.type_of(list[1])), structure.type_text(dtype, shape)), "value")
    end
  end
end

local function check_shapes(who, list)
  check_list(who, list)
  local first = structure.type_text(core.type_of(list[1]))
  for _, t in ipairs(list) do
    local text = structure.type_text(core.type_of(t))
    if text ~= first then
      blame.error(string.format("%s: all elements must have the same shape: %s and %s", who, first,
        text), "value")
    end
  end
end

local binary <const> = {
  ADD = "add", MEAN = "add", SQUARE_ADD = "add", MUL = "mul", MIN = "minimum", MAX = "maximum",
  LOGICAL_AND = "logical_and",
  LOGICAL_OR = "logical_or",
}

local function combined(list, op)
  local total
  for _, t in ipairs(list) do
    if op == "MEAN" then t = ops.div(t, #list) elseif op == "SQUARE_ADD" then t = ops.square(t) end
    total = total and ops[binary[op]](total, t) or t
  end
  return total
end

-- A call's list, with one tensor for each shard, and the rest of its arguments.
local shards_row <const> = {"input_shards", "any", list = true, of = "list of tensors",
  says = "one of each shard"}
local reduce_spec <const> = {
  shards_row,
  {"op", "string", "ADD", of = "\"ADD\", \"MUL\", \"MIN\", \"MAX\", \"LOGICAL_AND\", "
    .. "\"LOGICAL_OR\", \"SQUARE_ADD\", \"LOCAL\" or \"MEAN\""},
}

local function read(who, ...)
  local a = args.check(who, reduce_spec, ...)
  check_shapes(who, a.input_shards)
  return a.input_shards, parse(a.op)
end

---The combination of all elements, on every shard.
---Shapes: n tensors [...] → n tensors [...]
---Errors: fewer than two tensors, unequal dtypes or shapes, an unknown combination:
---`ipu.within_replica.all_reduce({x}, "ADD")`, `ipu.within_replica.all_reduce({x, x}, "HALF")`
---Source: within_replica_ops.all_reduce of Graphcore's TensorFlow 2.6
---@return userdata[]
function within.all_reduce(...)
  local input_shards, op = read("within_replica.all_reduce", ...)
  local results = {}
  for i, own in ipairs(input_shards) do
    results[i] = on_shard(i - 1, function()
      return op == "LOCAL" and ops.identity(own) or combined(input_shards, op)
    end)
  end
  return core.plain(results)
end

---Shard i gets the i-th share of the combination, padded with zeros.
---Shapes: n tensors [m] → n tensors [ceil(m / n)]
---Errors: as all_reduce's; tensors of another rank than 1:
---`ipu.within_replica.reduce_scatter({x, x}, "ADD")`
---Source: within_replica_ops.reduce_scatter of Graphcore's TensorFlow 2.6
---@return userdata[]
function within.reduce_scatter(...)
  local who = "within_replica.reduce_scatter"
  local input_shards, op = read(who, ...)
  local _, shape = core.type_of(input_shards[1])
  if #shape ~= 1 then
    blame.error(who .. ": tensors must be of rank 1, got "
      .. structure.type_text(core.type_of(input_shards[1])), "value")
  end
  local share, results = (shape[1] + #input_shards - 1) // #input_shards, {}
  for i = 1, #input_shards do
    results[i] = on_shard(i - 1, function()
      local from = math.min((i - 1) * share, shape[1])
      local count = math.min(share, shape[1] - from)
      local parts = {}
      for k, t in ipairs(op == "LOCAL" and {input_shards[i]} or input_shards) do
        parts[k] = ops.slice(t, {from}, {count})
      end
      local own = op == "LOCAL" and parts[1] or combined(parts, op)
      return count < share and ops.pad(own, {{0, share - count}}) or own
    end)
  end
  return core.plain(results)
end

local gather_spec <const> = {shards_row, {"axis", "integer", 0}}

---All elements joined along an axis, on every shard.
---Shapes: n tensors [..., m, ...] → n tensors [..., n * m, ...]
---Errors: fewer than two tensors, unequal dtypes or ranks: `ipu.within_replica.all_gather{x}`
---Source: within_replica_ops.all_gather of Graphcore's TensorFlow 2.6
---@return userdata[]
function within.all_gather(...)
  local a = args.check("within_replica.all_gather", gather_spec, ...)
  local input_shards, results = a.input_shards, {}
  check_list("within_replica.all_gather", input_shards)
  for i = 1, #input_shards do
    results[i] = on_shard(i - 1, function() return ops.concat(input_shards, {axis = a.axis}) end)
  end
  return core.plain(results)
end

collectives.within_replica = require("ipulua.base.modules").guard("ipu.within_replica", within)

return collectives
