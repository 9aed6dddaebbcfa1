-- A pipeline as a loop over micro-batches. Its body has the forward and backward passes of one
-- micro-batch. Gradient accumulators are carried from one to the next, and the update follows the
-- loop. Run as it is, this is gradient accumulation. Its plan says how stages may overlap.
-- ipu.pipeline and pipelined Keras models both use it.

local accumulation = require "ipulua.optimizers.accumulation"
local blame = require "ipulua.base.blame"
local core = require "ipulua.core"
local placement = require "ipulua.trace.placement"
local plans = require "ipulua.pipeline.plan"
local replication = require "ipulua.trace.replication"
local tracing = require "ipulua.trace.tracing"

local loop = {}

-- core.here().iteration: of the innermost pipeline that is being traced, {value, root}

---The index of the micro-batch, an int32 scalar; counts from 0 in each run.
---Shapes: int32 []
---Errors: outside of a pipeline's stages: `ipu.get_current_iteration_counter()`
---Source: internal_ops.get_current_iteration_counter of Graphcore's TensorFlow 2.6
---@return userdata
function loop.iteration()
  local innermost = core.here().iteration
  if not innermost or innermost.root ~= tracing.root() then
    blame.error("get_current_iteration_counter works only in the stages of a pipeline", "runtime")
  end
  return innermost.value
end

local closed_meta <const> = {__close = function(self) core.here().iteration = self.former end}

-- The values that the loop carries, each from zeros on: types = {dtype, shape}, and the results of
-- a micro-batch.
local Carried = {}
Carried.__index = Carried

function Carried:add(shape, dtype)
  self.types[#self.types + 1] = {dtype, shape}
  return core.trace_argument(dtype, shape, "carried " .. #self.types)
end

-- Zeros made by the program: a constant would take a parameter's memory.
local function zeros(t)
  local zero = core.trace_value(core.tensor(0, t[1]))
  return #t[2] > 0 and core.ops.broadcast_to(zero, t[2]) or zero
end

-- The first values, in the trace around the loop.
function Carried:begin(around)
  local body, list = core.trace_current(), {}
  core.trace_show(around)
  for i, t in ipairs(self.types) do list[i] = zeros(t) end
  core.trace_show(body)
  return list
end

function Carried:give(result) self.result[#self.result + 1] = result end

---Notes which stage reads which variable, of the nodes from the first on. Two IPUs can't share one.
---@param first integer
---@param stage_of table<userdata, integer> by identity; filled
---@param ipu_of fun(stage: integer): integer
---@return string? captured the script's line where a tensor from outside of the loop is used
function loop.note_uses(who, first, stage_of, ipu_of)
  local used, captured = core.trace_uses(first)
  for _, each in ipairs(used) do
    local identity, name, stage = table.unpack(each)
    local former = stage_of[identity] or stage
    if former >= 0 and stage >= 0 and ipu_of(former) ~= ipu_of(stage) then
      blame.error(string.format("%s: the variable '%s' is used by stages on IPU %d and IPU %d; "
        .. "stages that share a variable must be "
        .. "on the same IPU: set device_mapping", who, name, ipu_of(former), ipu_of(stage)),
        "not_implemented")
    end
    stage_of[identity] = former
  end
  return captured
end

---Notes the pipeline of the program being traced, which can have one.
---@param facts PipelineFacts
function loop.note(who, facts)
  local all = tracing.facts()
  if all.pipeline then
    blame.error(who .. ": there is a pipeline in this program already; a program can hold one",
      "value")
  end
  plans.check_device(who, facts.shards, placement.ordinal())
  replication.need_ipus(facts.shards)
  all.pipeline = facts
end

-- The accumulators of gradients, of values that are summed over the run, and of captured gradients.
local function accumulate(o, work, iteration, carried)
  for _, pair in ipairs(work.gradients) do
    local g, v, stage = pair[1], pair[2], pair.stage
    if g then
      local _ <close> = stage and placement.in_stage(stage, o.ipu_of(stage), true) or nil
      local argument = carried:add(v.shape, accumulation.dtype(o.who, o.dtype, v))
      carried:give(accumulation.add(argument, g, o.reduction or "SUM", o.count, iteration))
    end
  end
  for _, x in ipairs(work.sums or {}) do
    local _ <close> = o.last_stage
      and placement.in_stage(o.last_stage, o.ipu_of(o.last_stage), false) or nil
    local argument = carried:add(x.shape, accumulation.dtype(o.who, o.sum_dtype, x))
    carried:give(accumulation.sum(argument, x))
  end
  for _, g in ipairs(work.captured or {}) do
    local _ <close> = o.last_stage
      and placement.in_stage(o.last_stage, o.ipu_of(o.last_stage), true) or nil
    carried:give(accumulation.add(carried:add(g.shape, g.dtype), g, o.reduction or "SUM", o.count,
      iteration))
  end
end

local function argument_like(x) return core.trace_argument(x.dtype, x.shape, "final") end

-- The part after the last micro-batch. It is traced while the body is still open, so that it may
-- use values of the body. They are the last micro-batch's, and leave the loop, too.
local function trace_after(work, carried)
  core.trace_begin(true, true)
  local finals, at = {}, 0
  for i, x in ipairs(carried.result) do finals[i] = argument_like(x) end
  local pairs_of = {}
  for i, pair in ipairs(work.gradients) do
    if pair[1] then at = at + 1 end
    pairs_of[i] = {pair[1] and finals[at] or nil, pair[2]}
  end
  local sums = work.sums and #work.sums or 0
  work.finish(pairs_of, table.move(finals, at + 1, at + sums, 1, {}),
    table.move(finals, at + sums + 1, #finals, 1, {}))
  local captured = core.trace_captured()
  return core.suspend{}, captured
end

---@class PipelineLoop
---@field who string for messages
---@field count integer|userdata micro-batches
---@field plan userdata? nil: nothing but accumulation; then there are no stages
---@field ipu_of (fun(stage: integer): integer)?
---@field last_stage integer?
---@field reduction string?
---@field dtype any of the accumulators: nil, a dtype, a function of the variable
---@field sum_dtype any the same, of what is summed
---@field trace fun(): table one micro-batch: {gradients = {{g, v, stage =}, …}, sums = tensors,
--- captured = gradients that are accumulated too, finish = fun(pairs, sums, captured)}

---Traces the loop into the current trace.
---@param o PipelineLoop
function loop.trace(o)
  local _ <close> = tracing.guard()
  local around = core.trace_current()
  core.trace_begin(true)
  local iteration = core.trace_argument("int32", {}, "iteration")
  local carried = setmetatable({types = {}, result = {}}, Carried)
  local region, captured
  do
    local _ <close> = setmetatable({former = core.here().iteration}, closed_meta)
    core.here().iteration = {value = iteration, root = tracing.root()}
    local work = o.trace()
    accumulate(o, work, iteration, carried)
    if work.finish then region, captured = trace_after(work, carried) end
  end
  local count = #carried.result
  for _, x in ipairs(captured or {}) do
    carried:add(x.shape, x.dtype)
    carried:give(x)
  end
  local finals = core.end_repeat(core.is_tensor(o.count) and o.count
    or core.tensor(o.count, "int32"),
    carried:begin(around), carried.result, o.plan)
  if region then
    core.inline_region(region, table.move(finals, 1, count, 1, {}),
      table.move(finals, count + 1, #finals, 1, {}))
  end
end

---The same, several times.
---@param o PipelineLoop
---@param times integer
function loop.trace_repeated(o, times)
  if times == 1 then return loop.trace(o) end
  local _ <close> = tracing.guard()
  core.trace_begin(true)
  core.trace_argument("int32", {}, "run")
  loop.trace(o)
  core.end_repeat(core.tensor(times, "int32"), {}, {})
end

return loop
