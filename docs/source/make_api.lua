-- `make docs`: the pages of docs/reference/api, their index docs/reference/api.md, and
-- docs/library/ipulua.lua (annotations for LuaLS): all of `ipu` but ops and Keras. Texts are the
-- comments above each function and class, arguments the rows that check them: help() shows them,
-- too. Given a folder, it writes there.

package.path = "docs/source/?.lua;" .. package.path
local class = require "ipulua.base.class"
local enum = require "ipulua.base.enumeration"
local enums = require "ipulua.enums"
local help = require "ipulua.tools.help"
local ipu = require "ipulua"
local options = require "ipulua.config.options"
local calls, unshown = require "calls".api, require "calls".none
local entry = require "entry"
local notes = require "notes"
local pages = require "pages"
local rows = require "rows"
local values = require "ipulua.tools.values"
require "ipulua.base.log".set_writer(function() end)

local folder = arg and arg[1]

-- The sections and their pages. "loops.repeat_n" is ipu.loops.repeat_n; a class of its own that ipu
-- does not offer by name is {class, how one is got}.
local sections <const> = {
  {"Tensors", "Ops, which are functions of `ipu` and methods of tensors, are in [ops](../ops.md). "
    .. "`t[2]`, `t[-1]`, `t[{2, 5}]`, `t[{{2, 5}, {}, -1}]` and `t[mask]` take elements out: "
    .. "positions count from 1, both ends of a range are in it, `{}` is all. `t[2] = values` and "
    .. "the others write them, outside of traced functions; what was made of `t` before keeps its "
    .. "numbers.",
    "tensor constant zeros ones full eye arange linspace confusion_matrix unique nonzero "
    .. "boolean_mask is_tensor print_tensor "
    .. "set_printoptions save load "
    .. "random.set_seed"},
  {"Variables", "What lives between calls.",
    "Variable get_variable variable_scope global_variables trainable_variables "
    .. "global_variables_initializer "
    .. "move_variable_initialization_to_cpu reset_default_graph"},
  {"Functions and loops", "Traced once for each signature, then one program.",
    "func range cond while_loop loops.repeat_n loops.while_loop barrier host_callback fifo remap "
    .. "outlined_function nn.multi_conv",
    {require "ipulua.trace.func".Function, "ipu.func(f)"}},
  {"Your own gradients and ops", nil,
    "GradientTape gradients custom_gradient capture_upstream_gradients GradientCaptureContext "
    .. "GradientCaptureTape register_op load_op_library"},
  {"Sessions and scopes", "A scope is entered when it is made and left when it is closed: `local _ "
    .. "<close> = scope`, or `scope(f)`.",
    "Session placeholder ipu_compiler.compile device ipu_scope ipu_shard ipu_jit_scope "
    .. "outside_compilation_scope name_scope "
    .. "frontend_attribute partials_type stochastic_rounding"},
  {"Datasets", "`ipu.data`; [datasets.md](../../howto/datasets.md) shows them at work.",
    "data.from_tensors data.from_tensor_slices data.from_generator data.range data.zip "
    .. "data.BufferDataset data.from_idx data.from_cifar "
    .. "data.from_csv data.read_csv data.from_npy data.from_safetensors data.from_text "
    .. "data.from_image_folder "
    .. "data.Dataset "
    .. "dataset_benchmark.dataset_benchmark dataset_benchmark.infeed_benchmark"},
  {"Pictures", "Tensors as pictures in files.", "image.read image.write image.grid"},
  {"Queues and strategies", nil,
    "IPUInfeedQueue IPUOutfeedQueue ScopedIPUOutfeedQueue IPUStrategy IPUStrategyV1",
    {require "ipulua.trace.jobs".Job, "strategy:run_async(f)"}},
  {"Several processes", "[processes.md](../../howto/processes.md) shows them at work.",
    "PopDistStrategy IPUMultiWorkerStrategy MPIClusterResolver popdist.init "
    .. "popdist.isPopdistEnvSet popdist.getNumInstances popdist.getInstanceIndex "
    .. "popdist.getNumTotalReplicas popdist.getNumLocalReplicas popdist.getReplicaIndexOffset "
    .. "popdist.getNumIpusPerReplica popdist.getDeviceId popdist.set_ipu_config "
    .. "popdist.execute_on_instances popdist.finalizeBackend distributed.allreduce "
    .. "distributed.allgather distributed.broadcast distributed.barrier distributed.statistics",
    {require "ipulua.strategy.data".InputContext,
      "strategy:distribute_datasets_from_function(f)"}},
  {"Training in the manner of sessions", "`ipu.train` and the wrappers of `ipu.optimizers`.",
    "train.Optimizer train.GradientDescentOptimizer train.MomentumOptimizer train.AdamOptimizer "
    .. "train.RMSPropOptimizer "
    .. "train.AdagradOptimizer train.get_or_create_global_step train.Checkpoint "
    .. "train.latest_checkpoint optimizers.IpuOptimizer "
    .. "optimizers.CrossReplicaOptimizer optimizers.ShardedOptimizer "
    .. "optimizers.MapGradientOptimizer optimizers.GradientAccumulationOptimizerV2 "
    .. "optimizers.GradientAccumulationOptimizer "
    .. "optimizers.CrossReplicaGradientAccumulationOptimizerV2 "
    .. "optimizers.CrossReplicaGradientAccumulationOptimizer"},
  {"Pipelines and replicas", nil,
    "pipeline OptimizerFunctionOutput PipelineStageOptions recomputation_checkpoint "
    .. "get_current_iteration_counter timetable within_replica.all_reduce "
    .. "within_replica.reduce_scatter within_replica.all_gather"},
  {"Losses over a sample of the classes", "Where there are too many classes for all of them.",
    "nn.sampled_softmax_loss nn.nce_loss"},
  {"Tables on the host", nil, "create_host_embedding HostEmbeddingOptimizerSpec "
    .. "HostEmbeddingSGDGAOptimizerSpec",
    {require "ipulua.trace.host_embedding".HostEmbedding, "ipu.create_host_embedding(…)"}},
  {"Configuration", "Options of `ipu.IPUConfig` are listed in [options](options-of-ipuconfig.md).",
    "IPUConfig configure_ipu_system reset_ipu_configuration get_ipu_config "
    .. "get_num_of_ipus_in_device running_on_ipu_model "
    .. "use_synthetic_data_for set_flags set_num_threads reset_ipu_seed selection_order"},
  {"Looking inside", nil, "estimate programs graph.nodes graph.print ipu_event_trace ReportHelper "
    .. "enable_check_numerics "
    .. "disable_check_numerics debugging.check_numerics debugging.assert_equal "
    .. "debugging.assert_shapes last_error clock json.encode json.decode"},
}

local book, meta, written = pages.new "api", {}, {}
local page -- that is being written
local function write(format, ...)
  page.lines[#page.lines + 1] = select("#", ...) > 0 and string.format(format, ...) or format
end
local function annotate(format, ...)
  meta[#meta + 1] = select("#", ...) > 0 and string.format(format, ...) or format
end

local function find(name)
  local value = ipu
  for part in name:gmatch("[^.]+") do value = value[part] end
  return value
end

-- ------------------------------------------------ annotations

-- Parameters as LuaLS wants them: required ones, then a table of the others.
local function annotate_rows(list)
  local names, optional = {}, {}
  for _, row in ipairs(list) do
    if row[3] == nil and not row.optional then
      names[#names + 1] = row[1] == "function" and "f" or row[1]
      annotate("---@param %s %s", names[#names], rows.lua_type(row))
    else optional[#optional + 1] = row[1] .. "?: " .. rows.lua_type(row) end
  end
  if #optional > 0 then
    annotate("---@param options? {%s}", table.concat(optional, ", "))
    names[#names + 1] = "options"
  end
  return table.concat(names, ", ")
end

local function annotate_text(about)
  annotate("")
  for _, text in ipairs(about.text) do annotate("---" .. text) end
  for _, kind in ipairs(help.notes) do
    if about.notes[kind] then annotate("---" .. kind .. ": " .. about.notes[kind]) end
  end
end

local function annotate_function(name, about, separator)
  annotate_text(about)
  local parameters
  if about.rows then parameters = annotate_rows(about.rows)
  else
    for _, each in ipairs(about.takes) do annotate("---@param %s", each) end
    parameters = table.concat(about.parameters, ", ", separator == ":"
      and about.parameters[1] == "self" and 2 or 1)
  end
  for _, each in ipairs(about.gives) do annotate("---@return %s", each) end
  annotate("function %s(%s) end", name, parameters)
end

local function annotate_class(name, c, found, declared)
  annotate_text(found)
  annotate("---@class ipulua.%s%s", c.__name, c.super and ": ipulua." .. c.super.__name or "")
  annotate("---@overload fun(...): ipulua.%s", c.__name)
  annotate("%s = {}", declared or name)
  for _, method in ipairs(found.methods) do
    if method[3] == c then annotate_function(name .. ":" .. method[1], method[2], ":") end
  end
end

-- ------------------------------------------------ the page

local function signature(name, about)
  if about.rows then return string.format("%s(%s)", name, rows.signature(about.rows)) end
  local first = name:find(":", 1, true) and about.parameters[1] == "self" and 2 or 1
  return string.format("%s(%s)", name, table.concat(about.parameters, ", ", first))
end

local missing = {} -- entries without a call

local function sentences(name, text)
  if #text == 0 then io.stderr:write("no text above ", name, "\n") end
  return (table.concat(text, " "):gsub("%*", "\\*"))
end

-- How scripts write a name: after "ipu." or a local name of its module; a method after a colon.
local function used(name)
  local leaf = name:match("[%w_]+$"):gsub("%p", "%%%0")
  if name:find(":", 1, true) then return {":" .. leaf .. "[({]"} end
  if name:find(".", 1, true) then return {"[%w_]%." .. leaf .. "%f[^%w_]"} end
  return {"ipu%." .. leaf .. "%f[^%w_]"}
end

-- The page's entries before one; of the first the one after it.
local function near(name)
  local list = {}
  for i, each in ipairs(page.planned or page.names) do
    if each == name then list = {page.planned[i - 1] or page.planned[i + 1]} end
  end
  return #list > 0 and list or {page.names[#page.names]}
end

local function write_entry(heading, name, signed, about, extends)
  local listed = entry.notes(name, about)
  listed.Result = extends or listed.Result or "nothing"
  if listed.Errors == nil then
    listed.Errors = #entry.arguments(name, about) > 0
      and "arguments that are missing, unknown or of another type" or "none of its own"
  end
  pages.write(page, entry.lines{heading = heading, name = name,
    text = sentences(name, about.text), signature = signed, calls = calls[name],
      unshown = unshown[name],
    arguments = entry.arguments(name, about), notes = listed, names = used(name),
    folder = page.folder, near = near(name)}, heading == "###" and name or nil)
  if not calls[name] and not unshown[name] then missing[#missing + 1] = name end
end

local function write_function(name, about)
  write_entry("###", name, signature("ipu." .. name, about), about)
  annotate_function("ipu." .. name, about)
end

local function write_class(name, c, how)
  local found = help.class(c)
  local of = c.super and c.super.__name ~= "Scope" and "; extends " .. c.super.__name or ""
  found.gives = {}
  if how then found.text[#found.text + 1] = "Made by `" .. how .. "`." end
  write_entry("###", name, not how and string.format("ipu.%s(%s)", name,
    rows.signature(found.rows)) or nil, found, c.__name .. of)
  for _, method in ipairs(found.methods) do
    if method[3] == c then
      local _, about = table.unpack(method)
      write_entry("####", name .. ":" .. method[1], signature(":" .. method[1], about), about)
    end
  end
  if how then
    annotate_class(name, c, found, "local " .. name)
  else
    annotate_class("ipu." .. name, c, found)
  end
end

local function write_named(name)
  local value = find(name)
  written[name] = true
  if class.is_class(value) then
    if value.__name ~= name:match("[^.]+$") then
      pages.write(page, {"### " .. name, "", "Another name of [" .. value.__name .. "](#"
        .. value.__name:lower() .. ").", ""}, name)
    else write_class(name, value) end
  else write_function(name, assert(help.about(value), name)) end
end

-- The fields that annotations of a class in a file tell: {name, type, what}.
local function annotated_fields(path, name)
  local list, inside = {}, false
  for line in io.lines(path) do
    inside = line == "---@class " .. name or inside and line:find("^%-%-%-@field") ~= nil
    local field, kind, words = line:match("^%-%-%-@field (%S+) (%S+) ?(.*)$")
    if inside and field then
      list[#list + 1] = {field, help.plain(kind), words ~= "" and words or nil}
    end
  end
  return list
end

local function write_fields(name, fields)
  local list = {}
  for i, field in ipairs(type(fields) == "string" and annotated_fields(fields, name) or fields) do
    local kind = field[2]:gsub("%?$", ", or nil")
    list[i] = string.format("`%s` %s%s", field[1], kind, field[3] and " (" .. field[3] .. ")" or "")
  end
  write("- Fields: %s", table.concat(list, "; "))
end

-- Results of calls: tables and userdata whose classes scripts don't make by name.
local function write_values()
  page = pages.add(book, "Values", "Functions give these; none of them is made by its name.")
  for _, value in ipairs(values) do
    local name, sentence, fields, methods = table.unpack(value)
    pages.write(page, {"### " .. name, "", (sentence:gsub("%*", "\\*")), ""}, name)
    write_fields(name, fields)
    for _, method in ipairs(methods) do
      write("- `:%s`%s: %s", method[1], method[2] and " → " .. method[2] or "", method[3])
      for _, line in ipairs(notes.lines(name .. ":" .. method[1], method[4], "  ")) do
        write("%s", line)
      end
    end
    write ""
  end
end

local function write_enumerations()
  page = pages.add(book, "Enumerations", "A member is its name as a string; any letter case is "
    .. "taken where one is wanted. "
    .. "`ipu.PipelineSchedule(\"grouped\")` gives "
    .. "the member, or raises and lists all.")
  local names = {}
  for name in pairs(enums) do names[#names + 1] = name end
  table.sort(names)
  for _, name in ipairs(names) do
    local members = enum.members(enums[name])
    write("- **%s**: %s", name, table.concat(members, ", "))
    written[name] = true
    annotate("")
    annotate("---@alias ipulua.%s %s", name, '"' .. table.concat(members, '"|"') .. '"')
    annotate("---@type table<string, ipulua.%s>", name)
    annotate("ipu.%s = {}", name)
  end
  write ""
end

local function write_options()
  page = pages.add(book, "Options of IPUConfig")
  write "| option | type | default | |"
  write "| --- | --- | --- | --- |"
  for _, row in ipairs(options.table) do
    local name, kind, default, words = table.unpack(row, 1, 4)
    local of = type(kind) == "table" and tostring(kind):match("^%w+") or kind
    local fields = row[5] or {}
    local bounds = fields.above and "> " .. fields.above or fields.least and "≥ " .. fields.least
    if bounds then of = of .. " " .. bounds .. (fields.most and ", ≤ " .. fields.most or "") end
    if fields.choices then of = rows.value_text(fields.choices):gsub("[{}]", "") end
    write("| `%s` | %s | `%s` | %s |", name, of, rows.value_text(default), words)
  end
  write ""
end

local intro <const> = "All of `ipu` but [ops](ops.md) and [Keras](keras.md). `make docs` writes "
  .. "these pages from the library's own comments and from the rows that check arguments; "
  .. "`help(x)` shows the same at the prompt. Arguments in braces go by name. All may stand in one "
  .. "table.\n\nAn argument that is missing, unknown or of another type than its table says is an "
  .. "error of every function, with the script's line. *Errors* tells of further ones, with the "
  .. "message of each sample.\n\nEvery call and sample has run. In them `data` is `ipu.data`, `x` "
  .. "a "
  .. "tensor [2, 3], `v` a variable [3], `ds` is `data.range(4)`, `f` a traced function, `model` a "
  .. "Keras model of 3 inputs, `cfg` an IPUConfig, `folder` an empty folder and `pictures` one of "
  .. "images. `set` assigns a "
  .. "field and returns the object. The result follows the arrow; a tensor is shown by its shape."
annotate "---@meta ipulua"
annotate "-- Annotations of ipu for the Lua language server; written by `make docs`."
annotate ""
local modules = require "annotate_ops"(function(line) meta[#meta + 1] = line end)
for _, section in ipairs(sections) do
  for name in section[3]:gmatch("([%w_]+)%.") do
    if not modules[name] then annotate("ipu.%s = {}", name) end
    modules[name], written[name] = true, true
  end
end
for _, section in ipairs(sections) do
  page = pages.add(book, section[1], section[2])
  page.planned = {}
  for name in section[3]:gmatch("%S+") do page.planned[#page.planned + 1] = name end
  for _, name in ipairs(page.planned) do write_named(name) end
  if section[4] then write_class(section[4][1].__name, section[4][1], section[4][2]) end
end
-- Names that are in no section yet.
local rest = {}
for name in pairs(enums) do written[name] = true end
for _, name in ipairs(help.names(ipu)) do
  local is_op = require "ipulua.core".ops[name]
  local holds_ops = type(require "ipulua.ops"[name]) == "table" -- nn, random …
  if not (written[name] or is_op or holds_ops or name == "keras") then
    local module = type(ipu[name]) == "table" and not class.is_class(ipu[name]) and ipu[name]
    if not module then rest[#rest + 1] = name end
    for _, each in ipairs(module and help.names(module) or {}) do
      if not written[name .. "." .. each] then rest[#rest + 1] = name .. "." .. each end
    end
  end
end
if #rest > 0 then
  page = pages.add(book, "Others")
  for _, name in ipairs(rest) do write_named(name) end
end
write_values()
write_enumerations()
write_options()
annotate ""
annotate "return ipu"

-- Classes are ipulua.Name in annotations, tensors ipulua.Tensor.
local declared = {userdata = "ipulua.Tensor"}
for _, line in ipairs(meta) do
  local name = line:match("^%-%-%-@class ipulua%.(%w+)")
  if name then declared[name] = "ipulua." .. name end
end
for i, line in ipairs(meta) do
  local tag, kind = line:match("^(%-%-%-@return )(.*)$")
  if not tag then tag, kind = line:match("^(%-%-%-@param %S+ )(.*)$") end
  if tag then meta[i] = tag .. kind:gsub("%f[%w.]%a%w+", declared) end
end

local function save(path, list)
  local file <close> = assert(io.open(path, "w"))
  assert(file:write((table.concat(list, "\n"):gsub("\n+$", "")), "\n"))
end
notes.finish()
if #missing > 0 then notes.problem("no call in docs/source/calls.lua for %s", table.concat(missing,
  " ")) end
notes.check()
pages.save(book, "The functions and classes of ipu", intro, folder)
save(folder and folder .. "/ipulua.lua" or "docs/library/ipulua.lua", meta)
