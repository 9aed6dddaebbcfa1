-- Which pipeline stage each layer of a model belongs to: from PipelineStage scopes, or assigned;
-- and how many IPUs that takes.

local args = require "ipulua.base.args"
local blame = require "ipulua.base.blame"
local class = require "ipulua.base.class"
local config = require "ipulua.config"
local counted = require "ipulua.base.counted"
local Layer = require "ipulua.keras.base.layer"
local log = require "ipulua.base.log"
local placement = require "ipulua.trace.placement"
local plain = require "ipulua.base.plain"
local summary = require "ipulua.keras.models.summary"
local training_options = require "ipulua.keras.training.options"

local kept <const> = require "ipulua.keras.base.layer_fields".get

local assignment = {methods = {}, properties = {}, defaults = training_options.defaults}
local methods <const> = assignment.methods
for name, f in pairs(training_options.methods) do methods[name] = f end

-- ------------------------------------------------ assignments

---A layer's stage in a Sequential model: fields layer, pipeline_stage.
---@class SequentialLayerPipelineStageAssignment: Class
local SequentialAssignment = class.new("SequentialLayerPipelineStageAssignment")
assignment.SequentialLayerPipelineStageAssignment = SequentialAssignment

local sequential_rows <const> = {{"layer", Layer}, {"pipeline_stage", "integer", optional = true}}
function SequentialAssignment:init(...)
  local a = args.check(self.__name, sequential_rows, ...)
  self.layer, self.pipeline_stage = a.layer, a.pipeline_stage
end

-- "<stage 1: dense>", and which call of the layer it is where a layer may have several.
local function assignment_text(self)
  local stage = self.pipeline_stage and "stage " .. self.pipeline_stage or "no stage"
  local call = (self.node_index or 0) > 0 and ", call " .. self.node_index or ""
  return string.format("<%s: %s%s>", stage, self.layer.name, call)
end
SequentialAssignment.__tostring = assignment_text

---The stage of a layer's call in a functional model: fields layer, node_index, pipeline_stage,
---inbound_layers.
---@class FunctionalLayerPipelineStageAssignment: Class
local FunctionalAssignment = class.new("FunctionalLayerPipelineStageAssignment")
assignment.FunctionalLayerPipelineStageAssignment = FunctionalAssignment
FunctionalAssignment.__tostring = assignment_text

local functional_rows <const> = {
  {"layer", Layer}, {"node_index", "integer"}, {"pipeline_stage", "integer", optional = true},
}
function FunctionalAssignment:init(...)
  local a = args.check(self.__name, functional_rows, ...)
  self.layer, self.node_index, self.pipeline_stage = a.layer, a.node_index, a.pipeline_stage
  self.inbound_layers = {}
  local node = kept(a.layer, "nodes")[a.node_index + 1]
  if not node then
    if class.of(self) == assignment.ModelLayerPipelineStageAssignment then return end
    blame.error(string.format("%s: layer '%s' has no call %d", self.__name, a.layer.name,
      a.node_index), "value")
  end
  for _, operand in ipairs(require "ipulua.keras.models.functional".operands(node)) do
    self.inbound_layers[#self.inbound_layers + 1] = operand.layer
  end
end

---The stage of a layer of a subclassed model.
---@class ModelLayerPipelineStageAssignment: FunctionalLayerPipelineStageAssignment
assignment.ModelLayerPipelineStageAssignment =
  FunctionalAssignment:extend("ModelLayerPipelineStageAssignment")

local function is_sequential(self) return self._stack ~= nil end

local function is_input(layer) return layer.__name == "InputLayer" end

-- Does a nested model say itself which of its layers are in which stage?
local function has_own_stages(layer)
  if not layer._graph then return false end
  for _, node in ipairs(layer._graph.nodes) do
    if node.stage or has_own_stages(node.layer) then return true end
  end
  return false
end

-- The calls of a model and of such models in it; owner: the nested model of each that is in one.
local function collect_nodes(model, nodes, owner, nested)
  for _, node in ipairs(model._graph.nodes) do
    if has_own_stages(node.layer) then
      collect_nodes(node.layer, nodes, owner, node.layer)
    elseif not is_input(node.layer) then
      nodes[#nodes + 1] = node
      owner[#nodes] = nested
    end
  end
  return nodes, owner
end

-- The calls that a subclassed model made while it was built.
local function called_nodes(self)
  local nodes, count = {}, {}
  for i, call in ipairs(self._calls) do
    local index = count[call.layer] or 0
    count[call.layer] = index + 1
    nodes[i] = {layer = call.layer, index = index, stage = call.stage, given = {n = 0},
      options = {}}
  end
  return nodes
end

-- The calls that have a stage, in the order in which they run.
local function stage_nodes(self)
  if self._graph then return collect_nodes(self, {}, {}) end
  if self._calls then return called_nodes(self), {} end
  blame.error(string.format("model '%s': pipeline stages can be assigned once its layers are "
    .. "connected; build it first", self.name),
    "runtime")
end

-- Stages given by PipelineStage scopes: all calls have one, or none.
local function scoped_stages(self)
  local entries = {}
  if is_sequential(self) then
    for i, layer in ipairs(self._stack) do
      entries[i] = {layer = layer, stage = kept(layer, "stage")}
    end
  elseif self._graph or self._calls then
    for i, node in ipairs(stage_nodes(self)) do
      entries[i] = {layer = node.layer, stage = node.stage}
    end
  end
  local with, without
  for _, entry in ipairs(entries) do
    if entry.stage then with = entry else without = without or entry end
  end
  if with and without then
    blame.error(string.format("model '%s': layer '%s' has a pipeline stage, but layer '%s' has "
      .. "none; make or call all layers in PipelineStage scopes, or none", self.name,
      with.layer.name,
      without.layer.name), "value")
  end
  if not with then return nil end
  local list = {}
  for i, entry in ipairs(entries) do list[i] = entry.stage end
  return list
end

---The stage of each layer (Sequential) or call, in order; nil when there is no assignment.
---@param self Model
---@return integer[]?
function assignment.stages(self)
  local options = self._options
  if options.assignment == nil and not options.was_reset then
    options.assignment = scoped_stages(self)
  end
  return options.assignment or nil
end

local function make_assignments(self, stages)
  local list = {}
  if is_sequential(self) then
    for i, layer in ipairs(self._stack) do
      list[i] = SequentialAssignment{layer = layer, pipeline_stage = stages and stages[i] or nil}
    end
    return list
  end
  local Assignment = self._graph and FunctionalAssignment
    or assignment.ModelLayerPipelineStageAssignment
  local nodes, owner = stage_nodes(self)
  for i, node in ipairs(nodes) do
    list[i] = Assignment{layer = node.layer, node_index = node.index,
      pipeline_stage = stages and stages[i] or nil}
    list[i].nested_model = owner[i]
  end
  return list
end

---A copy of the assignment: one entry for each layer (Sequential) or call.
---Errors: a model that is not built: `keras.Model:extend("M")():get_pipeline_stage_assignment()`
---@return table[]
function methods:get_pipeline_stage_assignment()
  return plain.mark(make_assignments(self, assignment.stages(self)))
end

local function check_increasing(self, stages)
  local last
  for i, stage in ipairs(stages) do
    if math.type(stage) ~= "integer" then
      blame.error(string.format("set_pipeline_stage_assignment: stages must be integers, got %s "
        .. "for layer '%s'",
        args.describe(stage), self._stack[i].name), "value")
    end
    if not last and stage ~= 0 then
      blame.error("set_pipeline_stage_assignment: stages must start at 0, got " .. stage, "value")
    end
    if last and stage ~= last and stage ~= last + 1 then
      blame.error(string.format("set_pipeline_stage_assignment: stages are not all in increasing "
        .. "order: layer '%s' has stage %d "
        .. "after %d%s", self._stack[i].name, stage, last, stage > last
        and ", and no layer has " .. last + 1 or ""), "value")
    end
    last = stage
  end
end

local function sequential_stages(self, list)
  local stages = {}
  if #list ~= #self._stack then
    blame.error(string.format("set_pipeline_stage_assignment: model '%s' needs a stage for each "
      .. "layer, got %s for %s", self.name,
      counted(#list, "stage"), counted(#self._stack, "layer")), "value")
  end
  for i, entry in ipairs(list) do
    if type(entry) == "table" then
      if entry.layer ~= self._stack[i] then
        blame.error(string.format("set_pipeline_stage_assignment: entry %d is for layer '%s', the "
          .. "model has '%s' there", i,
          tostring(entry.layer and entry.layer.name), self._stack[i].name), "value")
      end
      entry = entry.pipeline_stage
      if entry == nil then
        blame.error(string.format("set_pipeline_stage_assignment: layer '%s' has no stage",
          self._stack[i].name), "value")
      end
    end
    stages[i] = entry
  end
  check_increasing(self, stages)
  return stages
end

-- No call may take the result of a later stage.
local function check_order(nodes, stages)
  local stage_of = {}
  for i, node in ipairs(nodes) do stage_of[node] = stages[i] end
  for i, node in ipairs(nodes) do
    for _, operand in ipairs(require "ipulua.keras.models.functional".operands(node)) do
      local from = stage_of[operand.node]
      if from and from > stages[i] then
        blame.error(string.format("set_pipeline_stage_assignment: layer '%s' is in stage %d, but "
          .. "takes the output of layer '%s' "
          .. "in stage %d", node.layer.name, stages[i], operand.layer.name, from), "value")
      end
    end
  end
end

-- No stage may be empty.
local function check_contiguous(self, stages)
  local used, highest, missing = {}, 0, {}
  for _, stage in ipairs(stages) do
    used[stage] = true
    highest = math.max(highest, stage)
  end
  for stage = 0, highest do
    if not used[stage] then missing[#missing + 1] = stage end
  end
  if #missing == 0 then return end
  blame.error(string.format("model '%s': its highest pipeline stage is %d, but no layers are in "
    .. "stages [%s]", self.name, highest,
    table.concat(missing, ", ")), "runtime")
end

local function functional_stages(self, list)
  local nodes, stages = stage_nodes(self), {}
  if #list ~= #nodes then
    blame.error(string.format("set_pipeline_stage_assignment: model '%s' has %d layer calls, but "
      .. "%d assignments were given",
      self.name, #nodes, #list), "value")
  end
  for i, entry in ipairs(list) do
    if type(entry) ~= "table" then
      blame.error("set_pipeline_stage_assignment: a functional model takes the assignments that "
        .. "get_pipeline_stage_assignment() "
        .. "returns, with their pipeline_stage set; got " .. args.describe(entry), "value")
    end
    local node = nodes[i]
    if entry.layer ~= node.layer or (entry.node_index or 0) ~= node.index then
      blame.error(string.format("set_pipeline_stage_assignment: entry %d is for layer '%s', the "
        .. "model has '%s' there", i,
        tostring(entry.layer and entry.layer.name), node.layer.name), "value")
    end
    local stage = entry.pipeline_stage
    if math.type(stage) ~= "integer" or stage < 0 then
      blame.error(string.format("set_pipeline_stage_assignment: the stage of layer '%s' must be an "
        .. "integer from 0 on, got %s",
        node.layer.name, args.describe(stage)), "value")
    end
    stages[i] = stage
  end
  return stages, nodes
end

---Says which pipeline stage each layer belongs to: integers or assignments (Sequential), or the
---assignments of get_pipeline_stage_assignment() with their pipeline_stage set.
---Errors: another number of stages than of layers, stages that go back or leave one out:
---`model:set_pipeline_stage_assignment{0, 1}`
---@param list any[] integers or assignments
function methods:set_pipeline_stage_assignment(list)
  if type(list) ~= "table" then
    blame.error("set_pipeline_stage_assignment: expected a list, got "
      .. args.describe(list), "type")
  end
  if list.assignment and #list == 0 then list = list.assignment end
  local stages
  if is_sequential(self) then
    stages = sequential_stages(self, list)
  else
    local nodes
    stages, nodes = functional_stages(self, list)
    check_order(nodes, stages)
  end
  self._options.assignment, self._options.was_reset = stages, nil
  self:discard_programs()
end

---The model is no longer pipelined.
function methods:reset_pipeline_stage_assignment()
  self._options.assignment, self._options.was_reset = nil, true
  self:discard_programs()
end

---Whether the model's layers are assigned to stages of a pipeline.
---@return boolean
function methods:is_pipelined()
  return assignment.stages(self) ~= nil
end

---Checks the assignment of a model about to run; its number of stages, nil when it isn't pipelined.
---@param self Model
---@return integer?
function assignment.check(self)
  local stages = assignment.stages(self)
  if not stages then return nil end
  if not is_sequential(self) then check_order(stage_nodes(self), stages) end
  check_contiguous(self, stages)
  local highest = 0
  for _, stage in ipairs(stages) do highest = math.max(highest, stage) end
  local mapping = self._options.pipelining.device_mapping
  if mapping and #mapping ~= highest + 1 then
    blame.error(string.format("model '%s': 'device_mapping' names %s for %s", self.name,
      counted(#mapping, "IPU"),
      counted(highest + 1, "stage")),
      "value")
  end
  return highest + 1
end

---The stage of every call of a model, for the trace of a micro-batch. The field `calls` has the
---stages of a subclassed model by layer, in order.
---@param self Model
---@return {of: table?, calls: table<Layer, integer[]>?, name: string?, count: integer}?
function assignment.route(self)
  local count = assignment.check(self)
  if not count then return nil end
  local stages = assignment.stages(self)
  local of = {}
  if not self._graph then
    for i, node in ipairs((stage_nodes(self))) do
      of[node.layer] = of[node.layer] or {}
      of[node.layer][node.index + 1] = stages[i]
    end
    return {calls = of, name = self.name, count = count}
  end
  for i, node in ipairs(stage_nodes(self)) do of[node] = stages[i] end
  return {of = of, count = count}
end

---IPUs that one replica takes: a power of two.
---@param self Model
---@return integer
function assignment.shards(self)
  local count = assignment.check(self)
  if not count then return 1 end
  local highest = count - 1
  if self._options.pipelining.device_mapping then
    highest = 0
    for _, ipu in ipairs(self._options.pipelining.device_mapping) do
      highest = math.max(highest, ipu)
    end
  end
  local shards = 1
  while shards < highest + 1 do shards = shards * 2 end
  return shards
end

---How many replicas of the model its device holds.
---@param self Model
---@return integer
function assignment.replicas(self)
  local shards, ipus = assignment.shards(self), config.device(placement.ordinal()).ipus
  if ipus % shards ~= 0 then
    blame.error(string.format("model '%s': the current device has %s, the model requires a "
      .. "multiple of %d", self.name,
      counted(ipus, "IPU"), shards), "value")
  end
  return ipus // shards
end

local summary_rows <const> = {
  summary.length_row, {"print_fn", "callable", optional = true},
}

local function summary_row(entry)
  local inputs = {}
  for k, layer in ipairs(entry.inbound_layers or {}) do inputs[k] = layer.name end
  return {name = entry.layer.name, class = entry.layer.__name, stage = entry.pipeline_stage,
    node_index = entry.node_index,
    inputs = inputs}
end

---Prints which layer is in which stage.
---Units: line_length in characters
---Errors: a line_length that is no integer: `model:print_pipeline_stage_assignment_summary "wide"`
---@param ... any line_length, print_fn
function methods:print_pipeline_stage_assignment_summary(...)
  local a = args.check("print_pipeline_stage_assignment_summary", summary_rows, ...)
  local rows, nested = {}, nil -- nested: the model inside whose calls come now
  for _, entry in ipairs(self:get_pipeline_stage_assignment()) do
    if entry.nested_model and entry.nested_model ~= nested then
      rows[#rows + 1] = {nested = {name = entry.nested_model.name, rows = {}}}
    end
    nested = entry.nested_model
    local into = nested and rows[#rows].nested.rows or rows
    into[#into + 1] = summary_row(entry)
  end
  local print_line = a.print_fn or print
  local description = {name = self.name, functional = not is_sequential(self), rows = rows}
  for _, line in ipairs(summary.stage_lines(description, a.line_length)) do print_line(line) end
end

local told = setmetatable({}, {__mode = "k"}) -- models whose options were said to do nothing

---Steps that one weight update takes, and how their gradients are reduced.
---@param self Model
---@return integer steps, string method, string? dtype
function assignment.accumulation(self)
  local stages = assignment.stages(self)
  local o = stages and self._options.pipelining or self._options.gradient_accumulation
  local steps = o.gradient_accumulation_steps_per_replica
  if stages and not steps then
    blame.error(string.format("model '%s' is pipelined: "
      .. "set_pipelining_options{gradient_accumulation_steps_per_replica = …} "
      .. "must say how many steps a weight update takes", self.name), "value")
  end
  if not stages and self._options.pipelining.gradient_accumulation_steps_per_replica
    and not told[self] then
    told[self] = true
    log.warn("model '%s' has no pipeline stages, so what set_pipelining_options says has no "
      .. "effect: " ..
      "set_pipeline_stage_assignment assigns layers to stages; on one IPU, "
      .. "set_gradient_accumulation_options accumulates", self.name)
  end
  return steps or 1, o.gradient_accumulation_reduction_method or "SUM",
    o.gradient_accumulation_dtype or o.dtype
end

return assignment
