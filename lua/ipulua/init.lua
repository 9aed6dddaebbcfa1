-- ipulua: the public names, a line each. Rarely used parts load when first asked for.

local blame = require "ipulua.base.blame"
local core = require "ipulua.core"
local func = require "ipulua.trace.func"
local modules = require "ipulua.base.modules"
local ops = require "ipulua.ops"

local ipu = {}

-- Ops stand where their rows say: add, nn.relu, random.normal.
for name, value in pairs(ops) do
  ipu[name] = type(value) == "table" and {} or value
  for leaf, f in pairs(type(value) == "table" and value or {}) do ipu[name][leaf] = f end
end

-- name = {file, field}; field false: the whole module
local public = {
  Variable = {"trace.variables", "Variable"},
  global_variables = {"trace.variables", "global_variables"},
  trainable_variables = {"trace.variables", "trainable_variables"},
  func = {"trace.func", "func"}, loops = {"trace.loops", false}, range = {"trace.loops", "range"},
  cond = {"trace.loops", "cond"},
  while_loop = {"trace.loops", "while_loop"},
  Session = {"strategy.session", "Session"}, placeholder = {"trace.session_graph", "placeholder"},
  ipu_compiler = {"trace.compiler", false},
  reset_default_graph = {"trace.session_graph", "reset_default_graph"},
  get_variable = {"trace.variables", "get_variable"},
  variable_scope = {"trace.variables", "variable_scope"},
  name_scope = {"trace.name_scopes", "name_scope"},
  global_variables_initializer = {"trace.variables", "global_variables_initializer"},
  device = {"trace.placement", "device_scope"}, ipu_scope = {"trace.placement", "ipu_scope"},
  ipu_shard = {"trace.placement", "ipu_shard"},
  ipu_jit_scope = {"trace.placement", "ipu_jit_scope"},
  outside_compilation_scope = {"trace.placement", "outside_compilation_scope"},
  stochastic_rounding = {"trace.placement", "stochastic_rounding"},
  partials_type = {"trace.placement", "partials_type"},
  frontend_attribute = {"trace.placement", "frontend_attribute"},
  train = {"optimizers.train", false}, optimizers = {"optimizers", false},
  custom_gradient = {"trace.custom", "custom_gradient"},
  register_op = {"trace.custom", "register_op"},
  load_op_library = {"trace.custom", "load_op_library"},
  gradients = {"trace.tape", "gradients"}, GradientTape = {"trace.tape", "GradientTape"},
  capture_upstream_gradients = {"trace.capture", "capture_upstream_gradients"},
  GradientCaptureContext = {"trace.capture", "GradientCaptureContext"},
  GradientCaptureTape = {"trace.capture", "GradientCaptureTape"},
  data = {"data", false}, image = {"data.image", false},
  dataset_benchmark = {"data.benchmark", false},
  IPUInfeedQueue = {"data", "IPUInfeedQueue"},
  IPUOutfeedQueue = {"data.queues", "IPUOutfeedQueue"}, IPUStrategy = {"strategy", "IPUStrategy"},
  IPUStrategyV1 = {"strategy", "IPUStrategy"}, popdist = {"strategy.popdist", false},
  distributed = {"strategy.distributed", false},
  PopDistStrategy = {"strategy.multi", "PopDistStrategy"},
  IPUMultiWorkerStrategy = {"strategy.multi", "IPUMultiWorkerStrategy"},
  MPIClusterResolver = {"strategy.resolver", "MPIClusterResolver"},
  reset_ipu_seed = {"strategy.system", "reset_ipu_seed"},
  programs = {"strategy.system", "programs"},
  ipu_event_trace = {"strategy.system", "ipu_event_trace"},
  debugging = {"strategy.debugging", false},
  enable_check_numerics = {"strategy.system", "enable_check_numerics"},
  disable_check_numerics = {"strategy.system", "disable_check_numerics"},
  estimate = {"tools.estimate", "estimate"},
  ReportHelper = {"machine.report.helper", false},
  unique = {"trace.selection", "unique"}, nonzero = {"trace.selection", "nonzero"},
  boolean_mask = {"trace.selection", "boolean_mask"},
  fifo = {"trace.effects", "fifo"}, remap = {"trace.effects", "remap"},
  outlined_function = {"trace.custom", "outlined_function"},
  create_host_embedding = {"trace.host_embedding", "create_host_embedding"},
  HostEmbeddingOptimizerSpec = {"trace.host_embedding", "HostEmbeddingOptimizerSpec"},
  HostEmbeddingSGDGAOptimizerSpec = {"trace.host_embedding", "HostEmbeddingSGDGAOptimizerSpec"},
  barrier = {"trace.effects", "barrier"}, print_tensor = {"trace.effects", "print_tensor"},
  host_callback = {"trace.effects", "host_callback"},
  within_replica = {"trace.collectives", "within_replica"},
  graph = {"trace.graph", false},
  move_variable_initialization_to_cpu = {"trace.variables", "move_variable_initialization_to_cpu"},
  ScopedIPUOutfeedQueue = {"data.queues", "ScopedIPUOutfeedQueue"},
  pipeline = {"pipeline", "pipeline"},
  recomputation_checkpoint = {"pipeline", "recomputation_checkpoint"},
  timetable = {"pipeline.timetable", "timetable"},
  get_current_iteration_counter = {"pipeline", "get_current_iteration_counter"},
  OptimizerFunctionOutput = {"pipeline", "OptimizerFunctionOutput"},
  PipelineStageOptions = {"pipeline", "PipelineStageOptions"},
  json = {"base.json", false}, keras = {"keras", false}, last_error = {"base.blame", "last_error"},
}

local configuration <const> = {
  "IPUConfig", "configure_ipu_system", "reset_ipu_configuration", "get_ipu_config",
  "get_num_of_ipus_in_device",
  "running_on_ipu_model", "use_synthetic_data_for", "set_flags", "selection_order",
}
for _, name in ipairs(configuration) do public[name] = {"config", name} end

-- Checkpoints are of models, and so of Keras, but stand in ipu.train.
local in_train <const> = {Checkpoint = true, latest_checkpoint = true}

local function with_checkpoints(train)
  ---Every name, for completion and help.
  ---@package
  function train.__names()
    local names = {}
    for name in next, train do names[#names + 1] = name end
    for name in pairs(in_train) do names[#names + 1] = name end
    return names
  end
  return modules.guard("ipu.train", train, function(name)
    if not in_train[name] then return nil end
    require "ipulua.keras" -- says where the parts are that a checkpoint may name
    return require("ipulua.keras.files.checkpoint")[name]
  end)
end

-- Enumerations and whatever a module offers under the name of a public field.
local function find(name)
  local at = public[name]
  if at then
    local module = require("ipulua." .. at[1])
    if name == "train" then return with_checkpoints(module) end
    if at[2] then return modules.offered(module[at[2]]) end
    return at[1] ~= "keras" and modules.guard("ipu." .. name, module) or module
  end
  return require("ipulua.enums")[name]
end

local lazy_nn <const> = {sampled_softmax_loss = true, nce_loss = true, multi_conv = true}

-- "nn.relu" for relu: an op that stands in a module.
local function in_module(name)
  for _, module in ipairs{"nn", "linalg", "random"} do
    if rawget(ipu[module], name) or module == "nn" and lazy_nn[name] then
      return module .. "." .. name
    end
  end
  return nil
end

setmetatable(ipu, {
  __tostring = function()
    return "<module ipulua " .. core.version .. "; help(ipu) lists its names>"
  end,
  __index = function(t, name)
    local value = find(name)
    if value == nil then
      local known = require("ipulua.base.elsewhere").hint("ipu", name)
      local near = not known and type(name) == "string"
        and (in_module(name) or require("ipulua.nearest").find(name, ipu.__names()))
      blame.error(string.format("ipu has no '%s'%s", tostring(name),
        known or near and "; did you mean '" .. near .. "'?" or ""), "value")
    end
    rawset(t, name, value)
    return value
  end,
})

---Whether ipu (or a module of it) has that name.
function ipu.__has(module, name)
  local place = module and rawget(ipu, module) or ipu
  return rawget(place, name) ~= nil
    or (not module and (public[name] ~= nil or require("ipulua.enums")[name] ~= nil))
end

---Every public name, for completion and suggestions.
function ipu.__names()
  local names = {}
  for name in pairs(public) do names[#names + 1] = name end
  for name in next, ipu do names[#names + 1] = name end
  for name in pairs(require "ipulua.enums") do names[#names + 1] = name end
  table.sort(names)
  return names
end

---For files that add public names: ipu.__add("data", "data", false).
function ipu.__add(name, module, field) public[name] = {module, field} end

local threads_spec <const> = {{"n", "integer"}}

---Bounds all that computes, dataset workers included; waits for programs that run (run_async).
---Units: threads; 0: as many as the CPU has cores
---Errors: a negative number: `ipu.set_num_threads(-1)`
---@param ... any n: 0 means the CPU's cores
function ipu.set_num_threads(...)
  core.set_threads(require("ipulua.base.args").check("set_num_threads", threads_spec, ...).n)
end

---Seconds of a clock that only goes forward: the difference of two readings is a time.
---Units: seconds, from some moment before the program began
---@return number
function ipu.clock() return core.clock() end

local print_spec <const> = {
  {"edgeitems", "integer", optional = true, range = "[1, 1000000]",
    says = "shown at both ends of each axis of a large tensor"},
  {"precision", "integer", optional = true, range = "[0, 17]",
    says = "digits after the point, at most"},
  {"threshold", "integer", optional = true, range = "[0, inf)",
    says = "tensors of more elements are large"},
}
local print_options <const> = {edgeitems = 3, precision = 8, threshold = 1000}

---How tensors are printed from now on. Options that aren't given stay as they are. At first
---edgeitems is 3, precision 8 and threshold 1000. A number alone is printed with all its digits.
---Shapes: tensors of any shape are printed
---Errors: a precision below 0 or above 17: `ipu.set_printoptions{precision = 40}`
---Source: numpy.set_printoptions
---@param ... any edgeitems, precision, threshold
function ipu.set_printoptions(...)
  local given = require("ipulua.base.args").check("set_printoptions", print_spec, ...)
  for name, value in pairs(given) do print_options[name] = value end
  core.set_print_options(print_options.edgeitems, print_options.precision, print_options.threshold)
end

local load_spec <const> = {{"path", "string"}}

---Tensors by name into .safetensors or .npz, one into .npy; the file is replaced as a whole.
---Shapes: any; of .npy one tensor
---Errors: another ending, values that are no tensors, a path that can't be written:
---`ipu.save("a.txt", {w = x})`, `ipu.save("a.npz", {1, "two"})`
---Source: the formats: safetensors (Hugging Face), NumPy's .npy and .npz
---@param path string ends in .safetensors, .npz or .npy
---@param tensors table<string, userdata>|userdata
function ipu.save(path, tensors)
  local describe = require("ipulua.base.args").describe
  if type(path) ~= "string" then
    blame.error("save: 'path' must be a string, got " .. describe(path), "type")
  end
  if type(tensors) ~= "table" and not core.is_tensor(tensors) and not core.is_variable(tensors) then
    blame.error("save: 'tensors' must be a table of tensors by name, got "
      .. describe(tensors), "type")
  end
  if not require("ipulua.base.untrained").keeps(path) then core.save(path, tensors) end
end

---The content of a file of ipu.save: a table of tensors by name; a .npy gives its tensor.
---Shapes: as they were saved
---Errors: a file that is not there, of another ending, or damaged (with the byte's position):
---`ipu.load "nowhere.npz"`
---@return table<string, userdata>|userdata
function ipu.load(...)
  return core.plain((core.load(require("ipulua.base.args").check("load", load_spec, ...).path)))
end

require "ipulua.base.start"
blame.hinting(function(problem)
  return require("ipulua.tools.explain").message(problem)
end)
func.attend_by(function()
  require "ipulua.machine.compile_progress"
  return require "ipulua.machine.report"
end)
function ipu.clip_by_global_norm(...)
  local results = table.pack(core.ops.clip_by_global_norm(...))
  return table.move(results, 1, results.n - 1, 1, core.plain{}), results[results.n]
end
function ipu.where(...) return require("ipulua.trace.selection").where(...) end
function ipu.reduce_scatter(...) return require("ipulua.trace.collectives").reduce_scatter(...) end
function ipu.nn.batch_norm(...) return require("ipulua.trace.distributed_norm").batch_norm(...) end
ipu.random.set_seed = require("ipulua.strategy.system").set_seed
---Every name, for suggestions and help.
---@package
function ipu.nn.__names()
  local names = {}
  for name in next, ipu.nn do names[#names + 1] = name end
  for name in pairs(lazy_nn) do names[#names + 1] = name end
  return names
end
modules.guard("ipu.nn", ipu.nn, function(name)
  if lazy_nn[name] then return require("ipulua.trace.candidates")[name] end
end)
-- misspelt ones are reported at once
if os.getenv("IPULUA_FLAGS") then require("ipulua.config").flags() end
modules.guard("ipu.linalg", ipu.linalg)
modules.guard("ipu.random", ipu.random)
modules.offer_all(ipu)

modules.publish(ipu)
return ipu
