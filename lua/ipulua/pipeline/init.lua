-- ipu.pipeline: stages of a model on several IPUs, each working on another micro-batch. Gradients
-- are accumulated, and the weights are updated once, at the end of a run. Here its arguments are
-- read and its stages traced; pipeline_loop makes the loop.

local accumulation = require "ipulua.optimizers.accumulation"
local args = require "ipulua.base.args"
local blame = require "ipulua.base.blame"
local class = require "ipulua.base.class"
local core = require "ipulua.core"
local data = require "ipulua.data"
local enum = require "ipulua.base.enumeration"
local enums = require "ipulua.enums"
local func = require "ipulua.trace.func"
local log = require "ipulua.base.log"
local loop = require "ipulua.pipeline.loop"
local loops = require "ipulua.trace.loops"
local offloading = require "ipulua.trace.offloading"
local operation = require "ipulua.trace.operation"
local optimizers = require "ipulua.optimizers"
local outputs = require "ipulua.pipeline.outputs"
local placement = require "ipulua.trace.placement"
local plain = require "ipulua.base.plain"
local plans = require "ipulua.pipeline.plan"
local queues = require "ipulua.data.queues"
local session_graph = require "ipulua.trace.session_graph"
local stage_options = require "ipulua.pipeline.stage_options"
local structure = require "ipulua.base.structure"
local tracing = require "ipulua.trace.tracing"
local types = require "ipulua.pipeline.types"

local pipeline = {}

-- ------------------------------------------------ arguments

local who <const> = "pipeline"

local rows <const> = {
  {"computational_stages", "any", of = "list of functions",
    says = "two or more; a list in place of one runs side by side"},
  {"gradient_accumulation_count", "any", optional = true, of = "integer or int32 tensor []",
    says = "micro-batches of a run"},
  {"gradient_accumulation_dtype", {"dtype", "function"}, optional = true,
    says = "of the sums, or a function of the variable"},
  {"gradient_accumulation_for_captured_grads", "boolean", true,
    says = "sum captured gradients, too"},
  {"repeat_count", "integer", 1, range = "[1, inf)", says = "runs of a call: weight updates"},
  {"batch_serialization_iterations", "integer", 1, range = "[1, inf)",
    says = "micro-batches that a stage works on in a row, so many times as many in a run; "
    .. plans.serial_schedule .. " on one IPU"},
  {"inputs", "any", optional = true, of = "tensor or list of tensors",
    says = "the first stage's first arguments"},
  {"infeed_queue", data.IPUInfeedQueue, optional = true},
  {"outfeed_queue", queues.IPUOutfeedQueue, optional = true},
  {"optimizer_function", "callable", optional = true},
  {"device_mapping", "any", optional = true, of = "integers",
    says = "the IPU of each stage; 0, 1, 2, … by default"},
  {"pipeline_schedule", "any", optional = true, says = plans.default_schedule .. " by default",
    of = table.concat(enum.members(enums.PipelineSchedule), ", ") .. " or an order, as a timetable "
    .. "has it"},
  {"recomputation_mode", enums.RecomputationMode, "Auto"},
  {"forward_propagation_stages_poplar_options", "any", optional = true,
    of = "list of PipelineStageOptions", says = "one a stage"},
  {"backward_propagation_stages_poplar_options", "any", optional = true,
    of = "list of PipelineStageOptions", says = "one a stage"},
  {"weight_update_poplar_options", "any", optional = true, of = "PipelineStageOptions"},
  {"offload_weight_update_variables", "boolean", optional = true,
    says = "momenta and the like in streaming memory; if there is any by default"},
  {"replicated_optimizer_state_sharding", "boolean", false,
    says = "a share of them for each replica"},
  {"offload_activations", "boolean", optional = true,
    says = "activations kept for backward passes, in streaming memory"},
  {"offload_gradient_accumulation_buffers", "boolean", optional = true,
    says = "sums of gradients in streaming memory"},
  {"replicated_weight_sharding", "boolean", optional = true,
    says =
    "a share of the weights for each replica; with batch_serialization_iterations by default"},
  {"offload_weights", "boolean", optional = true,
    says = "weights in streaming memory; as replicated_weight_sharding by default"},
  {"continuous_weight_updates", "boolean", false,
    says = "true is an error, as in Graphcore's TensorFlow 2.6"},
  {"outfeed_loss", "boolean", false, says = "enqueue the loss alone"},
  {"accumulate_outfeed", "boolean", false, says = "enqueue sums, once a run"},
  {"accumulate_outfeed_dtype", {"dtype", "function"}, optional = true, says = "of these sums"},
  {"outfeed_mask", "list", optional = true, says = "booleans, one an output; true: not enqueued"},
  {"reduction_method", "any", "SUM", of = "SUM, MEAN or RUNNING_MEAN"},
  {"name", "string", "pipeline"},
}
pipeline.rows = rows

local function is_callable(f) return type(f) == "function" or func.is_function(f) end

-- Stages as positions: {functions =, concurrent =, count =}.
local function read_stages(list)
  if not args.is_list(list) then
    blame.error("pipeline: 'computational_stages' must be a list of functions, got "
      .. args.describe(list), "type")
  end
  if #list < 2 then
    blame.error("pipeline: 'computational_stages' must hold at least two stages, got "
      .. #list, "value")
  end
  local positions = {}
  for i, stage in ipairs(list) do
    local concurrent = structure.is_plain(stage)
    local functions = concurrent and stage or {stage}
    for _, f in ipairs(functions) do
      if not is_callable(f) then
        blame.error(string.format("pipeline: stage %d must be a function%s, got %s", i - 1,
          concurrent and " at each position of its list; lists of concurrent stages can't be nested"
          or " or a list of functions",
          args.describe(f)), "type")
      end
    end
    if #functions == 0 then
      blame.error(string.format("pipeline: stage %d is an empty list", i - 1), "value")
    end
    positions[i] = {functions = functions, concurrent = concurrent, count = #functions}
  end
  return positions
end

local most_count <const> = 2 ^ 31 - 1

-- A number, or an int32 scalar known at run time.
local function read_count(count)
  if core.is_variable(count) then count = count:read_value() end
  if core.is_tensor(count) then
    local dtype, shape = core.type_of(count)
    if dtype ~= "int32" or #shape > 0 then
      blame.error("pipeline: 'gradient_accumulation_count' must be an int32 scalar, got "
        .. structure.type_text(dtype, shape), "type")
    end
    return core.is_symbolic(count) and count or count:item()
  end
  if count == nil then
    blame.error("pipeline: 'gradient_accumulation_count' is missing: say how many micro-batches a "
      .. "run takes", "value")
  end
  local n = type(count) == "number" and math.tointeger(count)
  if not n then
    blame.error("pipeline: 'gradient_accumulation_count' must be an integer or an int32 tensor, "
      .. "got " .. args.describe(count), "type")
  end
  if n < 1 or n > most_count then
    blame.error(string.format("pipeline: 'gradient_accumulation_count' must be greater than 0 and "
      .. "at most %d, got %d", most_count, n), "value")
  end
  return n
end

local function check_serialization(a, mapping)
  local n = a.batch_serialization_iterations
  if n == 1 then return end
  if a.pipeline_schedule ~= plans.serial_schedule then
    blame.error(
      "pipeline: 'batch_serialization_iterations' works only with the " .. plans.serial_schedule
      .. " schedule",
      "not_implemented")
  end
  for _, ipu in ipairs(mapping) do
    if type(ipu) == "table" or ipu ~= mapping[1] then
      blame.error("pipeline: 'batch_serialization_iterations' works only with all stages on a "
        .. "single IPU", "not_implemented")
    end
  end
  if a.reduction ~= "SUM" then
    blame.error("pipeline: 'batch_serialization_iterations' works only with the reduction method "
      .. "SUM, got " .. a.reduction, "value")
  end
end

local function read_defaults(a, positions)
  local serial = a.batch_serialization_iterations > 1
  a.pipeline_schedule = plans.read_schedule(who, a.pipeline_schedule
    or (serial and plans.serial_schedule or plans.default_schedule))
  if not serial then return end
  if a.device_mapping == nil then
    a.device_mapping = {}
    for i in ipairs(positions) do a.device_mapping[i] = 0 end
  end
  check_serialization(a, structure.is_plain(a.device_mapping) and a.device_mapping or {})
end

local function check_count(a, facts)
  if core.is_tensor(a.count) then return end
  local words = plans.refuse_count(facts, a.count, "gradient_accumulation_count")
  if words then blame.error("pipeline: " .. words, "failed_precondition") end
  facts.count = a.count
end

-- The checked arguments, with positions, count, facts, training … beside them.
local function read(...)
  local a = args.check(who, rows, ...)
  a.positions = read_stages(a.computational_stages)
  a.training = a.optimizer_function ~= nil
  a.count = read_count(a.gradient_accumulation_count)
  if a.continuous_weight_updates then
    blame.error("pipeline: 'continuous_weight_updates' (continuous weight updates) is not "
      .. "implemented", "not_implemented")
  end
  a.reduction = a.training and accumulation.parse_reduction(who, a.reduction_method) or "SUM"
  read_defaults(a, a.positions)
  stage_options.check(who, a, #a.positions, a.training)
  outputs.check(who, a)
  offloading.check(who, a, a.training)
  a.facts = plans.new(who, {
    schedule = a.pipeline_schedule, training = a.training, widths = a.positions,
    device_mapping = a.device_mapping,
    recomputation_mode = a.recomputation_mode, offload_activations = a.offload_activations,
    offload_weights = a.offload_weights,
    offload_gradient_accumulation_buffers = a.offload_gradient_accumulation_buffers,
    offload_weight_update_variables = a.offload_weight_update_variables,
    replicated_optimizer_state_sharding = a.replicated_optimizer_state_sharding,
    replicated_weight_sharding = a.replicated_weight_sharding,
  })
  a.ipu_of = function(stage) return a.facts.ipu_of[stage + 1] end
  return a
end

-- ------------------------------------------------ stages

local function as_tensor(value)
  -- so that a node of the stage reads it
  if core.is_variable(value) then return core.ops.identity(value) end
  return structure.number_tensor(value)
end

local function map_leaves(value, depth)
  if not structure.is_plain(value) then return as_tensor(value) end
  local copy = {}
  depth = plain.deeper(depth or 0)
  for key, inner in pairs(value) do copy[key] = map_leaves(inner, depth) end
  return copy
end

-- A list that a stage returned is its outputs, if the next one takes so many; otherwise it goes on
-- as one table.
local function spread_for(f, given)
  local first = given[1]
  local wanted = loops.parameter_count(f)
  if given.n ~= 1 or not args.is_list(first) or wanted == 1 then return given end
  return wanted == #first and table.pack(table.unpack(first)) or given
end

-- One stage; notes which variables it reads.
local function run_stage(a, position, stage, f, given)
  local role = string.format("function of stage %d", position - 1)
  given = spread_for(f, given)
  loops.check_parameters(f, given.n, role)
  local _ <close> = placement.in_stage(stage, a.ipu_of(stage), false)
  local _ <close> = stage_options.scope(
    (a.forward_propagation_stages_poplar_options or {})[position])
  local first = core.trace_uses()
  local results, list = table.pack(f(table.unpack(given, 1, given.n))), {n = 0}
  for i = 1, results.n do
    if results[i] ~= nil and not operation.is(results[i]) then
      list.n = list.n + 1
      list[list.n] = map_leaves(results[i])
    end
  end
  local captured = loop.note_uses(who, first, a.stage_of, a.ipu_of)
  if captured then
    blame.error(string.format("pipeline: stage %d captures a tensor from outside%s; pass it in by "
      .. "'inputs' or the infeed, and on "
      .. "from stage to stage", position - 1, captured ~= "" and " (at " .. captured .. ")"
      or ""), "value")
  end
  return list
end

-- The outputs of a position: of one stage, or of concurrent ones one after the other.
local function run_place(a, i, stage, given)
  local position = a.positions[i]
  if not position.concurrent then return run_stage(a, i, stage, position.functions[1], given) end
  local all = {n = 0}
  for k, f in ipairs(position.functions) do
    local results = run_stage(a, i, stage + k - 1, f, given)
    for r = 1, results.n do all[all.n + r] = results[r] end
    all.n = all.n + results.n
  end
  return all
end

-- Inputs and infeed element, in the first stage.
local function first_arguments(a)
  local _ <close> = placement.in_stage(0, a.ipu_of(0), false)
  local given = {n = #a.tensors}
  for i, x in ipairs(a.tensors) do given[i] = core.ops.identity(core.trace_value(x)) end
  if not a.infeed_queue then return given end
  local element = table.pack(a.infeed_queue:dequeue_in_loop(who))
  for i = 1, element.n do given[given.n + i] = element[i] end
  given.n = given.n + element.n
  return given
end

-- ------------------------------------------------ one micro-batch

local function check_optimizer_output(output)
  if class.is_a(output, types.OptimizerFunctionOutput) then
    local opt = output.opt
    while opt do
      if class.is_a(opt, optimizers.GradientAccumulationOptimizerV2) then
        blame.error("pipeline: it accumulates gradients itself; use the optimizer inside "
          .. opt.name .. " alone", "value")
      end
      opt = rawget(opt, "wrapped")
    end
    return output
  end
  blame.error("pipeline: the optimizer function must return an OptimizerFunctionOutput, got "
    .. args.describe(output), "type")
end

local function trace_gradients(a, results)
  local stage = a.last_stage
  local _ <close> = placement.in_stage(stage, a.ipu_of(stage), false)
  loops.check_parameters(a.optimizer_function, results.n, "optimizer function")
  local output = check_optimizer_output(a.optimizer_function(table.unpack(results, 1, results.n)))
  local _ <close> = placement.in_stage(stage, a.ipu_of(stage), true)
  local first = core.trace_uses()
  local given = output:gradients()
  stage_options.backward(a, a.facts.position_of, first)
  for _, pair in ipairs(given) do
    pair.stage = a.stage_of[core.variable_identity(pair[2])] or stage
  end
  return output, given
end

local function trace_micro_batch(a)
  a.stage_of = {} -- variable identity → stage that reads it
  local results, stage = first_arguments(a), 0
  for i, position in ipairs(a.positions) do
    results = run_place(a, i, stage, results)
    stage = stage + position.count
  end
  a.last_stage = stage - 1
  local work = {gradients = {}}
  local output
  if a.training then
    results = spread_for(a.optimizer_function, results)
    output, work.gradients = trace_gradients(a, results)
  end
  local feed = outputs.choose(who, a, results, output and output.loss)
  do
    local _ <close> = placement.in_stage(a.last_stage, a.ipu_of(a.last_stage), false)
    work.sums = outputs.enqueue(a, feed)
  end
  local captured, template = {}, nil
  if output then captured, template = output:captured() end
  if a.gradient_accumulation_for_captured_grads then work.captured = captured end
  if output or #work.sums > 0 then
    work.finish = function(given, sums, accumulated)
      outputs.enqueue_sums(a, feed, sums)
      local by_tag = #captured > 0
        and structure.rebuild(template, work.captured and accumulated or captured) or nil
      local _ <close> = stage_options.scope(a.weight_update_poplar_options)
      if output then output:apply(given, by_tag) end
    end
  end
  return work
end

-- ------------------------------------------------ the pipeline

local function check_run_time_count(a)
  if not core.is_tensor(a.count) then return a.count end
  local facts = a.facts
  local checked = core.host_callback(function(n)
    local words = plans.refuse_count(facts, n:item(), "gradient_accumulation_count")
    if words then blame.error("pipeline: " .. words, "runtime") end
    return n
  end, {a.count}, {{shape = {}, dtype = "int32"}})
  return checked[1]
end

local function input_tensors(inputs)
  if inputs == nil then return {} end
  if not structure.is_plain(inputs) then inputs = {inputs} end
  local list = {}
  for i, value in ipairs(inputs) do
    if core.is_variable(value) then
      log.warn("pipeline: input %d is the variable '%s'; its value is passed, and updates of it "
        .. "are not seen", i, value.name)
      value = value:read_value()
    end
    list[i] = type(value) == "table" and core.tensor(value) or as_tensor(value)
    if not core.is_tensor(list[i]) then
      blame.error(string.format("pipeline: input %d must be a tensor, got %s", i,
        args.describe(value)), "type")
    end
  end
  return list
end

local function trace(a)
  loop.note(who, a.facts)
  local count = check_run_time_count(a)
  local serial = a.batch_serialization_iterations
  loop.trace_repeated({
    who = who, count = count * serial, plan = a.facts.plan, reduction = a.reduction,
    dtype = a.gradient_accumulation_dtype,
    sum_dtype = a.accumulate_outfeed_dtype, ipu_of = a.ipu_of,
    last_stage = #a.facts.ipu_of - 1, trace = function() return trace_micro_batch(a) end,
  }, a.repeat_count)
  check_count(a, a.facts) -- last, so that an error in a stage shows first
  return operation.new(a.name)
end

-- Outside of traced functions it is a program of its own; the sessions' graph gets one that can be
-- fetched.
local function trace_apart(a)
  local given = {table.unpack(a.tensors)}
  if core.is_tensor(a.count) then given[#given + 1] = a.count end
  local function body(...)
    local passed = {...}
    if core.is_tensor(a.count) then a.count = table.remove(passed) end
    a.tensors = passed
    return trace(a)
  end
  if session_graph.any_deferred(given) then
    return require("ipulua.trace.compiler").compile(body, given)
  end
  return func.func(body, {name = a.name})(table.unpack(given))
end

---Runs computational_stages, a list of functions, on gradient_accumulation_count micro-batches, and
---updates the weights by the result of optimizer_function. All data leaves by the outfeed.
---Shapes: a stage takes the values that the stage before it gives; a micro-batch is an element of
---infeed_queue
---Errors: a gradient_accumulation_count that the schedule can't run, stages whose values don't fit,
---fewer IPUs than device_mapping names, outfeed_loss without an optimizer_function:
---`ipu.pipeline{{print}, 4}`
---Source: pipelining_ops.pipeline of Graphcore's TensorFlow 2.6
---@return Operation
function pipeline.pipeline(...)
  local a = read(...)
  a.tensors = input_tensors(a.inputs)
  if tracing.is_active() then return trace(a) end
  return trace_apart(a)
end

---The index of the micro-batch that a stage works on, from 0 in each run.
pipeline.get_current_iteration_counter = loop.iteration

local checkpoint_spec <const> = {{"tensors", "any", whole = true,
  of = "tensor or table of tensors"}, {"name", "string", optional = true}}

---Values that a stage which is computed again keeps instead: themselves, in their structure.
---Shapes: any, as they were
---Errors: values that are no tensors: `ipu.recomputation_checkpoint("x")`
---Source: pipelining_ops.recomputation_checkpoint of Graphcore's TensorFlow 2.6
---@return any
function pipeline.recomputation_checkpoint(...)
  local a = args.check("recomputation_checkpoint", checkpoint_spec, ...)
  local leaves, template = structure.flatten(a.tensors)
  if #leaves == 0 then
    blame.error("recomputation_checkpoint: 'tensors' must be a tensor or a table of tensors, got "
      .. args.describe(a.tensors), "type")
  end
  for i, x in ipairs(leaves) do leaves[i] = core.ops.recomputation_checkpoint(x) end
  return structure.rebuild(template, leaves)
end

pipeline.OptimizerFunctionOutput, pipeline.PipelineStageOptions = types.OptimizerFunctionOutput,
  types.PipelineStageOptions

return pipeline
