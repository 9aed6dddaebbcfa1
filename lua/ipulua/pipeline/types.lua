-- Arguments of a pipeline besides functions: options of a stage, and the result of its optimizer
-- function.

local args = require "ipulua.base.args"
local blame = require "ipulua.base.blame"
local capture = require "ipulua.trace.capture"
local class = require "ipulua.base.class"
local core = require "ipulua.core"
local library_options = require "ipulua.config.library_options"
local nearest = require "ipulua.nearest"
local structure = require "ipulua.base.structure"
local tape = require "ipulua.trace.tape"
local train = require "ipulua.optimizers.train"

local types = {}

-- ------------------------------------------------ options of a stage

---Options of a stage's convolutions and matrix products, partialsType and
---availableMemoryProportion. They go before the configuration's. Options of slices change nothing,
---there as here.
---Errors: options that are no table of texts: `ipu.PipelineStageOptions{matmul_options = 1}`
---Source: pipelining_ops.PipelineStageOptions of Graphcore's TensorFlow 2.6
---@class PipelineStageOptions
local PipelineStageOptions = class.new("PipelineStageOptions")
types.PipelineStageOptions = PipelineStageOptions

local function all_strings(t)
  for key, value in pairs(t) do
    if type(key) ~= "string" or type(value) ~= "string" then return false end
  end
  return true
end

local option_names <const> = {"convolution_options", "matmul_options", "slice_options"}

local stage_spec = {}
for i, name in ipairs(option_names) do
  stage_spec[i] = {name, "any", optional = true, of = "table<string, string>",
    says = name == "slice_options" and "changes nothing" or nil}
end

-- ": 'partialsType' is integer (3); did you mean …?" of the first member that is no string.
local function described_member(t)
  if not structure.is_plain(t) then return "" end
  for _, key in ipairs(structure.sorted_keys(t)) do
    if type(key) ~= "string" or type(t[key]) ~= "string" then
      return string.format(" with '%s', %s%s", key, args.describe(t[key]),
        nearest.hint(key, option_names))
    end
  end
  return ""
end

function PipelineStageOptions:init(...)
  local a = args.check("PipelineStageOptions", stage_spec, ...)
  for _, name in ipairs(option_names) do
    local t = a[name]
    if t ~= nil and not (structure.is_plain(t) and all_strings(t)) then
      blame.error(string.format("PipelineStageOptions: '%s' must be a table of strings by name, "
        .. "got %s%s", name, args.describe(t),
        described_member(t)), "type")
    end
    self[name] = t or {}
    library_options.check(self[name], "PipelineStageOptions: '" .. name .. "'")
  end
end

---@package
---The given arguments, by name.
function PipelineStageOptions:to_table()
  local given = {}
  for _, name in ipairs(option_names) do
    if next(self[name]) then given[name] = self[name] end
  end
  return given
end

function PipelineStageOptions:__tostring() return class.text(self, self:to_table()) end

-- ------------------------------------------------ what an optimizer function returns

---The result of a pipeline's optimizer function: the optimizer, the loss, how gradients are
---computed and what is captured.
---Shapes: loss is a value of the last stage, or computed from its values
---Errors: a loss that is no tensor, an optimizer that is none of ipu.train:
---`ipu.OptimizerFunctionOutput("sgd", x)`
---Source: pipelining_ops.OptimizerFunctionOutput of Graphcore's TensorFlow 2.6
---@class OptimizerFunctionOutput
---@field opt table
---@field loss userdata
local OptimizerFunctionOutput = class.new("OptimizerFunctionOutput")
types.OptimizerFunctionOutput = OptimizerFunctionOutput

function OptimizerFunctionOutput:__tostring()
  return class.text(self, {opt = self.opt, loss = self.loss})
end

local output_spec <const> = {
  {"opt", "any", one = true, of = "Optimizer", says = "of ipu.train or ipu.keras.optimizers"},
  {"loss", "any", of = "tensor []"},
  {"compute_gradients_args", "list", optional = true,
    says = "of opt:compute_gradients, after the loss"},
  {"compute_gradients_kwargs", "dict", optional = true, says = "the same by name"},
  {"apply_gradients_args", "list", optional = true,
    says = "of opt:apply_gradients, after the pairs"},
  {"apply_gradients_kwargs", "dict", optional = true, says = "the same by name"},
  {"variables", "any", optional = true, of = "list of variables",
    says = "that are differentiated for; all trainable ones by default"},
  {"tape", "any", optional = true, of = "GradientTape", says = "that computes the gradients"},
  {"gradient_capture_context", "any", optional = true, of = "GradientCaptureContext"},
  {"captured_gradient_outfeed", "any", optional = true, of = "IPUOutfeedQueue",
    says = "outfeed for captured gradients"},
}

-- Optimizers of Keras define how accumulated gradients are applied.
local function is_keras_optimizer(opt)
  return class.of(opt) ~= nil and class.of(opt).apply_accumulated ~= nil
end

local function refuse(name, what, value)
  blame.error(string.format("OptimizerFunctionOutput: '%s' must be %s, got %s", name, what,
    args.describe(value)), "type")
end

local function has_capture(a)
  return a.gradient_capture_context ~= nil or a.tape ~= nil and a.tape.captured_gradients ~= nil
end

local function check_capture(a)
  local context, outfeed = a.gradient_capture_context, a.captured_gradient_outfeed
  if context ~= nil and (type(context) ~= "table" or context.captured_gradients == nil) then
    refuse("gradient_capture_context", "a GradientCaptureContext", context)
  end
  if outfeed == nil then return end
  if not class.is_a(outfeed, require("ipulua.data.queues").IPUOutfeedQueue) then
    refuse("captured_gradient_outfeed", "an IPUOutfeedQueue", outfeed)
  end
  if not has_capture(a) then
    blame.error("OptimizerFunctionOutput: 'captured_gradient_outfeed' needs captured gradients: "
      .. "give a gradient_capture_context, "
      .. "or a GradientCaptureTape as 'tape'", "value")
  end
end

local function check_keras(a)
  for _, name in ipairs{"compute_gradients_args", "compute_gradients_kwargs"} do
    if a[name] ~= nil then
      blame.error(string.format("OptimizerFunctionOutput: '%s' is for the optimizers of ipu.train; "
        .. "a Keras optimizer has no "
        .. "compute_gradients: give 'variables' or 'tape'", name), "value")
    end
  end
  if a.variables ~= nil and a.tape ~= nil then
    blame.error("OptimizerFunctionOutput: give 'variables' or 'tape', not both", "value")
  end
end

local function check_plain(a)
  for _, name in ipairs{"variables", "tape"} do
    if a[name] ~= nil then
      blame.error(string.format("OptimizerFunctionOutput: '%s' is for Keras optimizers; with one "
        .. "of ipu.train, use "
        .. "compute_gradients_args", name), "value")
    end
  end
end

local function check_variables(list)
  if list == nil then return end
  if not args.is_list(list) then refuse("variables", "a list of variables", list) end
  for _, v in ipairs(list) do
    if not core.is_variable(v) then refuse("variables", "a list of variables", v) end
  end
  if #list == 0 then
    blame.error("OptimizerFunctionOutput: there are no variables to optimize: 'variables' is empty",
      "value")
  end
end

-- An optimizer is a table itself: a table that begins with one holds the arguments.
local function spread(first, ...)
  if select("#", ...) > 0 or not structure.is_plain(first) or first[1] == nil then
    return first, ...
  end
  local named = {}
  for key, value in pairs(first) do
    if math.type(key) ~= "integer" then named[key] = value end
  end
  if first[2] == nil then return first[1], named end
  return first[1], first[2], named
end

function OptimizerFunctionOutput:init(...)
  local a = args.check("OptimizerFunctionOutput", output_spec, spread(...))
  self.is_keras = is_keras_optimizer(a.opt)
  if not self.is_keras and not train.is_optimizer(a.opt) then
    refuse("opt", "an optimizer of ipu.train or ipu.keras.optimizers", a.opt)
  end
  if self.is_keras then check_keras(a)
  elseif type(a.tape) == "string" or a.tape == nil
    or class.is_a(a.tape, tape.GradientTape) then check_plain(a) end
  if a.tape ~= nil and not class.is_a(a.tape, tape.GradientTape) then
    refuse("tape", "a GradientTape", a.tape)
  end
  if not core.is_tensor(a.loss) then refuse("loss", "a tensor", a.loss) end
  check_variables(a.variables)
  check_capture(a)
  for key, value in pairs(a) do self[key] = value end
end

-- ------------------------------------------------ gradients and update

local function with_options(list, named)
  local given = {table.unpack(list or {})}
  if named and next(named) ~= nil then given[#given + 1] = named end
  return table.unpack(given)
end

-- Variables that the loss can depend on.
local function variables_read()
  local read, list = core.trace_read_variables(), {}
  for _, v in ipairs(require("ipulua.trace.variables").trainable_variables()) do
    if read[core.variable_identity(v)] then list[#list + 1] = v end
  end
  return list
end

-- The object that captures gradients: a context, or the tape; nil: none.
local function capturing(self)
  return self.gradient_capture_context or self.tape and self.tape.captured_gradients
    and self.tape or nil
end

-- f(), which computes gradients, with those that the context captures.
local function with_captures(self, f)
  local context = self.gradient_capture_context
  if context then return capture.beside(context, f) end
  return f()
end

-- The factor of the loss is the upstream gradient: a product with the loss would lie after the
-- tape's end.
local function keras_gradients(self)
  local list, opt = self.variables or variables_read(), self.opt
  local upstream = opt.scale_loss and opt:scale_loss(core.ops.ones_like(self.loss)) or nil
  local found = with_captures(self, function()
    if #list == 0 then return {} end
    if self.tape then return self.tape:gradient(self.loss, list, upstream) end
    return tape.gradients(self.loss, list, upstream)
  end)
  local given = {}
  for i, v in ipairs(list) do given[i] = {found[i] and opt:each_gradient(found[i], v), v} end
  return given
end

---@package
---Pairs {gradient, variable} of one micro-batch.
---@return table[]
function OptimizerFunctionOutput:gradients()
  local given = self.is_keras and keras_gradients(self) or with_captures(self, function()
    return self.opt:compute_gradients(self.loss,
      with_options(self.compute_gradients_args, self.compute_gradients_kwargs))
  end)
  if #given == 0 then
    blame.error("pipeline: there are no variables to optimize: the loss depends on none, or the "
      .. "list given is empty", "value")
  end
  return given
end

---@package
---The captured gradients of a micro-batch, and the template that makes a table by tag of them
---again.
---@return userdata[] leaves, table template
function OptimizerFunctionOutput:captured()
  local by = capturing(self)
  return structure.flatten(by and by.captured_gradients or {})
end

---@package
---The update from the accumulated gradients; captured ones by tag, nil when there are none.
function OptimizerFunctionOutput:apply(given, captured)
  if captured and self.captured_gradient_outfeed then
    self.captured_gradient_outfeed:enqueue(captured)
  end
  if self.is_keras then
    local grads, list = {}, {}
    for i, pair in ipairs(given) do grads[i], list[i] = pair[1] or false, pair[2] end
    if captured and self.opt.takes_captured then
      return self.opt:apply_accumulated(grads, list, {captured_grads = captured})
    end
    return self.opt:apply_accumulated(grads, list,
      with_options(self.apply_gradients_args, self.apply_gradients_kwargs))
  end
  return self.opt:apply_gradients(given,
    with_options(self.apply_gradients_args, self.apply_gradients_kwargs))
end

return types
