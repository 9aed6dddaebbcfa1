-- Models and weights in files. Weights are named by their place in the model (layer, then weight);
-- a whole model is one .safetensors file with the architecture, how it was compiled, and its
-- options as JSON in the metadata.

local args = require "ipulua.base.args"
local blame = require "ipulua.base.blame"
local class = require "ipulua.base.class"
local core = require "ipulua.core"
local counted = require "ipulua.base.counted"
local own_names = require "ipulua.keras.base.custom_objects"
local input = require "ipulua.keras.models.input"
local json = require "ipulua.base.json"
local KerasTensor = require "ipulua.keras.base.tensor"
local layer_fields = require "ipulua.keras.base.layer_fields"
local log = require "ipulua.base.log"
local nest = require "ipulua.keras.base.nest"
local parts = require "ipulua.keras.base.parts"
local PipelineStageOptions = require "ipulua.pipeline.types".PipelineStageOptions
local plain = require "ipulua.base.plain"
local untrained = require "ipulua.base.untrained"

local kept <const> = layer_fields.get

local saving = {}

-- ------------------------------------------------ names of weights

local function leaf_name(v)
  return v.weight_name or v.name:match("[^/]+$") or v.name
end

-- A path that no weight before had: with the least number behind it where one had.
local function free_path(taken, path)
  local free, count = path, 0
  while taken[free] do
    count = count + 1
    free = path .. "_" .. count
  end
  taken[free] = true
  return free
end

-- Visits each variable once, with its path: layers of a model by their names, others by the field
-- that holds them. seen: variables; taken: paths.
local function walk_weights(layer, prefix, seen, taken, visit)
  for _, v in ipairs(layer:own_variables()) do
    local id = core.variable_identity(v)
    if not seen[id] then
      seen[id] = true
      visit(free_path(taken, prefix .. leaf_name(v)), v)
    end
  end
  local is_graph = layer._graph or layer._stack
  for i, inner in ipairs(layer:sublayers()) do
    local name = is_graph and inner.name or layer:place_of(inner) or tostring(i)
    walk_weights(inner, prefix .. name .. "/", seen, taken, visit)
  end
end

---The weights of a layer or model: a list of {path =, variable =}. No two have one path.
---@param layer Layer
---@return table[]
function saving.paths(layer)
  local list = {}
  walk_weights(layer, "", {}, {}, function(path, v)
    list[#list + 1] = {path = path, variable = v}
  end)
  return list
end

-- ------------------------------------------------ weights

local weights_rows <const> = {{"path", "string"}, {"overwrite", "boolean", true}}

local function check_path(who, path, endings)
  if path == "" then
    blame.error(who .. ": the path of a file is wanted, got " .. args.describe(path), "type")
  end
  if not path:find("%.safetensors$") and not path:find("%.npz$") then
    blame.error(string.format("%s: '%s' must end in %s", who, path,
      endings or ".safetensors or .npz"), "value")
  end
end

---Adds the values of entries to tensors by path; what another has the path of is refused.
---@param who string
---@param tensors table<string, userdata>
---@param entries table[] {path =, variable =}
---@return string[] paths in the order of the entries
function saving.collect(who, tensors, entries)
  local order = {}
  for i, entry in ipairs(entries) do
    if tensors[entry.path] then
      blame.error(string.format("%s: two of what is saved would be called '%s' in the file; give "
        .. "one another name", who, entry.path), "value")
    end
    tensors[entry.path] = entry.variable:read_value()
    order[i] = entry.path
  end
  return order
end

-- Tensors by path, and the paths in the order of the weights.
local function tensors_of(who, model)
  local list = {}
  return list, saving.collect(who, list, saving.paths(model))
end

---@param model Model
---@param path string
function saving.save_weights(model, ...)
  local a = args.check("save_weights", weights_rows, ...)
  local path = a.path
  check_path("save_weights", path)
  if not a.overwrite and core.file_exists(path) then
    blame.error(string.format("save_weights: '%s' exists already", path), "value")
  end
  local tensors, order = tensors_of("save_weights", model)
  if #order == 0 and not model.built then
    blame.error(string.format("save_weights: model '%s' has no weights yet; build it first",
      model.name), "value")
  end
  if untrained.keeps(path) then return end
  -- its members' order is all that it can say beside them
  if path:find("%.npz$") then core.save(path, tensors, nil, order)
  else
    core.save(path, tensors, {format = "ipulua.weights/1", order = json.encode(json.array(order))})
  end
end

---Refuses a file's tensor whose shape is not that of the weight.
---@param who string
---@param name string of the weight
---@param v userdata
---@param t userdata
---@package
function saving.check_shape(who, name, v, t)
  local want, got = table.concat(v.shape, ", "), table.concat(t.shape, ", ")
  if want == got then return end
  blame.error(string.format("%s: weight '%s' has the shape [%s] in the file, [%s] in the model",
    who, name, got, want), "value")
end

-- Whether two tensors of one dtype and shape are equal, element by element; NaN equals itself.
local function same_values(a, b)
  local equal = core.ops.equal(a, b)
  if a.dtype:find("float") then
    equal = core.ops.logical_or(equal, core.ops.logical_and(core.ops.is_nan(a), core.ops.is_nan(b)))
  end
  return core.ops.reduce_all(equal):item()
end

-- Between floats rounding is wanted, as that of a float32 model loaded into a float16 one; but
-- nothing may become infinite or be cut to the greatest number there is.
local function is_held(t, cast)
  local back <const>, ops <const> = cast:cast(t.dtype), core.ops
  if not (t.dtype:find("float") and cast.dtype:find("float")) then return same_values(t, back) end
  local lost = ops.less(ops.abs(back), ops.mul(ops.abs(t), 0.99))
  return same_values(ops.is_finite(t), ops.is_finite(cast))
    and not ops.reduce_any(ops.logical_and(lost, ops.greater(ops.abs(t), 1))):item()
end

---A file's tensor in the dtype of the weight; refused where the shapes differ, or the weight's
---dtype can't hold its values.
---@param who string
---@param name string of the weight
---@param v userdata
---@param t userdata
---@return userdata
---@package
function saving.fitted(who, name, v, t)
  saving.check_shape(who, name, v, t)
  if t.dtype == v.dtype then return t end
  local cast = t:cast(v.dtype)
  if is_held(t, cast) then return cast end
  blame.error(string.format("%s: weight '%s' is %s in the file, with values that the model's %s "
    .. "can't hold", who, name, t.dtype, v.dtype),
    "value")
end

---What saving.commit will assign: the tensors by path, all of which must be there and fit. Nothing
---is changed.
---@param who string
---@param entries table[] {path =, variable =}
---@param tensors table<string, userdata>
---@return table[] plan {variable =, value =}
---@return table<string, true> expected
function saving.plan(who, entries, tensors)
  local plan, expected = {}, {}
  for i, entry in ipairs(entries) do
    local t = tensors[entry.path]
    expected[entry.path] = true
    if not t then
      blame.error(string.format("%s: the file has no weight '%s'", who, entry.path), "value")
    end
    plan[i] = {variable = entry.variable, value = saving.fitted(who, entry.path, entry.variable, t)}
  end
  return plan, expected
end

---@param plan table[] of saving.plan or saving.plan_optimizer
function saving.commit(plan)
  for _, each in ipairs(plan) do
    if each.optimizer then each.optimizer:state(each.state, each.value)
    else each.variable:assign(each.value) end
  end
end

---The entries under the names that a file gives them. Names that were given automatically differ
---when a model is made twice: where the file knows the order of its weights and has as many as the
---model, they are taken in that order.
---@param entries table[] {path =, variable =}
---@param tensors table<string, userdata>
---@param metadata table<string, string>?
---@return table[]
function saving.as_in_file(entries, tensors, metadata)
  local order = metadata and metadata.order and json.decode(metadata.order)
  local missing = false
  for _, entry in ipairs(entries) do missing = missing or tensors[entry.path] == nil end
  if not missing or not order or #order ~= #entries then return entries end
  local renamed = {}
  for i, entry in ipairs(entries) do renamed[i] = {path = order[i], variable = entry.variable} end
  return renamed
end

-- Weights that are told by their order alone are told by their number first.
local function check_count(entries, tensors, metadata)
  local order = metadata and metadata.order and json.decode(metadata.order)
  if not order or #order == #entries then return end
  for _, entry in ipairs(entries) do
    if tensors[entry.path] then return end -- names say more
  end
  blame.error(string.format("load_weights: the file has %s, the model has %d",
    counted(#order, "weight"), #entries), "value")
end

local function check_left(who, tensors, expected)
  local left = {}
  for name in pairs(tensors) do
    if not expected[name] and not name:find("^optimizer/") then left[#left + 1] = name end
  end
  table.sort(left)
  if #left > 0 then
    blame.error(string.format("%s: the model has no place for the file's weight%s %s", who,
      #left == 1 and "" or "s",
      table.concat(left, ", ")), "value")
  end
end

local function check_built(model, entries)
  if #entries > 0 or model.built then return end
  blame.error(string.format("load_weights: model '%s' has no weights yet; build it first",
    model.name), "value")
end

local function is_hdf5(path) return path:find("%.h5$") or path:find("%.hdf5$") end

local load_rows <const> = {{"path", "string"}, {"by_name", "boolean", false},
  {"skip_mismatch", "boolean", false}}

---@param model Model
---@param ... any path; by_name: only layers that the file knows; skip_mismatch: only equal shapes
function saving.load_weights(model, ...)
  local a = args.check("load_weights", load_rows, ...)
  if a.skip_mismatch and not a.by_name then
    blame.error("load_weights: 'skip_mismatch' can only be true when 'by_name' is", "value")
  end
  local entries = saving.paths(model)
  if is_hdf5(a.path) then
    check_built(model, entries)
    return require "ipulua.keras.files.h5".load_weights(model, a.path, entries, a)
  end
  check_path("load_weights", a.path, ".safetensors, .npz or .h5")
  local tensors, metadata, order = core.load(a.path)
  if a.path:find("%.npz$") then metadata = {order = json.encode(json.array(order))} end
  check_built(model, entries)
  if a.by_name then
    local known = {}
    for _, entry in ipairs(entries) do
      local t = tensors[entry.path]
      local fits = t and (not a.skip_mismatch or table.concat(t.shape, ",")
        == table.concat(entry.variable.shape, ","))
      if fits then known[#known + 1] = entry end
    end
    saving.commit((saving.plan("load_weights", known, tensors)))
    return
  end
  check_count(entries, tensors, metadata)
  local plan, expected = saving.plan("load_weights",
    saving.as_in_file(entries, tensors, metadata), tensors)
  check_left("load_weights", tensors, expected)
  saving.commit(plan)
end

-- ------------------------------------------------ optimizer state

---An optimizer's variables by name, beside the weights they belong to.
---@param optimizer Optimizer?
---@param weights table[] {path =, variable =}
---@return table[] {path =, variable =}
function saving.optimizer_paths(optimizer, weights)
  local list = {}
  for i, entry in ipairs(optimizer and optimizer.entries and optimizer:entries(weights) or {}) do
    list[i] = {path = "optimizer/" .. entry.path, variable = entry.variable}
  end
  return list
end

-- The kinds of slots among names, such as "momentum": sorted.
local function kinds_of(names)
  local kinds, list = {}, {}
  for name in pairs(names) do
    local kind = name:match("^optimizer/slot/.*/([^/]+)$")
    if kind and not kinds[kind] then list[#list + 1] = kind end
    kinds[kind or 0] = true
  end
  table.sort(list)
  return table.concat(list, ", ")
end

-- State of another optimizer would be left out without a word, and its step count taken for this
-- one's. One that has made no step may have made no slots yet.
local function check_kinds(who, optimizer, paths, tensors)
  local mine, theirs = kinds_of(paths), kinds_of(tensors)
  local steps <const> = tensors["optimizer/iterations"]
  if mine == theirs or theirs == "" and steps.size == 1 and steps:reshape{}:item() == 0 then
    return
  end
  local function told(kinds) return kinds == "" and "nothing" or kinds end
  blame.error(string.format("%s: the file has the state of another optimizer: beside its weights "
    .. "that kept %s, optimizer '%s' keeps %s", who, told(theirs), optimizer.name, told(mine)),
    "value")
end

-- States that the optimizer has not made yet are made when the plan is carried out.
local function plan_states(who, optimizer, tensors, known, plan)
  for name, t in pairs(tensors) do
    local state = name:match("^optimizer/state/([^/]+)$")
    if state and t.size ~= 1 then
      blame.error(string.format("%s: '%s' is a number, in the file it has the shape [%s]", who,
        name, table.concat(t.shape, ", ")), "value")
    end
    if state and not known[name] then
      plan[#plan + 1] = {optimizer = optimizer, state = state, value = t:reshape{}:item()}
    end
  end
end

---What saving.commit will assign to an optimizer of what was saved; slots that the file has are
---made.
---@param who string
---@param optimizer Optimizer?
---@param weights table[] {path =, variable =}
---@param tensors table<string, userdata>
---@return table[] plan
function saving.plan_optimizer(who, optimizer, weights, tensors)
  if not optimizer or not tensors["optimizer/iterations"] then return {} end
  local trained = {}
  for _, entry in ipairs(weights) do
    if entry.variable.trainable then trained[#trained + 1] = entry.variable end
  end
  optimizer:build(trained)
  local found, known = {}, {}
  for _, entry in ipairs(saving.optimizer_paths(optimizer, weights)) do
    known[entry.path] = true
    if tensors[entry.path] then found[#found + 1] = entry end
  end
  if #trained > 0 then check_kinds(who, optimizer, known, tensors) end
  local plan <const> = saving.plan(who, found, tensors)
  plan_states(who, optimizer, tensors, known, plan)
  return plan
end

-- ------------------------------------------------ architecture

-- KerasTensors in the arguments of calls, as {tensor = {node, which result}}.
local function encode(value, position)
  return nest.map(function(leaf)
    if KerasTensor.is(leaf) then
      return {tensor = json.array{position[leaf.node], leaf.tensor_index}}
    end
    return leaf
  end, value)
end

local function decode(value, nodes)
  if not args.is_plain(value) then return value end
  if value.tensor and #value.tensor == 2 then
    return nodes[value.tensor[1]].results[value.tensor[2]]
  end
  local out = {}
  for key, each in pairs(value) do out[key] = decode(each, nodes) end
  return out
end

---@param model Model a functional one
---@return table
function saving.graph_config(model)
  local _ <close> = parts.describing(model)
  local g = model._graph
  local position, nodes, layers = {}, {}, {}
  local inputs_first = {}
  for _, t in ipairs(g.inputs) do inputs_first[#inputs_first + 1] = t.node end
  local order = {}
  for _, node in ipairs(inputs_first) do
    if not position[node] then
      order[#order + 1] = node
      position[node] = #order
    end
  end
  for _, node in ipairs(g.nodes) do
    if not position[node] then
      order[#order + 1] = node
      position[node] = #order
    end
  end
  for i, node in ipairs(order) do
    local given = {}
    for k = 1, node.given.n do given[k] = encode(node.given[k], position) end
    local options = encode(node.options, position)
    nodes[i] = {layer = node.layer.name, args = json.array(given),
      options = next(options) and options or nil, stage = node.stage,
      is_input = i <= #inputs_first or nil}
  end
  for i, layer in ipairs(g.layers) do layers[i] = parts.serialize("layer", layer) end
  local watched = {}
  for i, each in ipairs(model._watched or {}) do
    watched[i] = {value = encode(each.tensor, position), metric = each.metric}
  end
  return core.plain{name = model.name, trainable = model._trainable, layers = layers, nodes = nodes,
    inputs = encode(g.input_structure, position), outputs = encode(g.output_structure, position),
    watched = watched[1] and watched}
end

---@param c table class of the model
---@param config table
---@param custom_objects table?
---@return Model
function saving.graph_from_config(c, config, custom_objects)
  local _ <close> = parts.making()
  local by_name, nodes = {}, {}
  for _, each in ipairs(config.layers) do
    if each.class_name == "InputLayer" then
      by_name[each.config.name] = each.config
    else
      by_name[each.config.name] = parts.get("layer", each, {custom_objects = custom_objects})
    end
  end
  for i, node in ipairs(config.nodes) do
    local layer = by_name[node.layer]
    if not class.of(layer) then
      local t = input.Input{batch_shape = layer.batch_input_shape, dtype = layer.dtype,
        name = layer.name}
      nodes[i] = t.node
    else
      local given = {}
      for k, value in ipairs(node.args) do given[k] = decode(value, nodes) end
      local count = #node.args
      if node.options then
        count = count + 1
        given[count] = decode(node.options, nodes)
      -- a last table must not be taken for options
      elseif args.is_plain(given[count]) and count > 1 then
        count = count + 1
        given[count] = {}
      end
      layer(table.unpack(given, 1, count))
      local calls = kept(layer, "nodes")
      nodes[i] = calls[#calls]
      nodes[i].stage = node.stage
    end
  end
  local model = c{inputs = decode(config.inputs, nodes), outputs = decode(config.outputs, nodes),
    name = config.name}
  layer_fields.keep(model, "_trainable", config.trainable ~= false)
  for _, each in ipairs(config.watched or {}) do
    model:watch(each.metric and "add_metric" or "add_loss", decode(each.value, nodes), each.metric)
  end
  return model
end

-- A description as JSON; infinities in it are written, too.
local function as_text(who, value)
  local text, problem = json.text(json.pack(value))
  if not text then
    blame.error(string.format("%s: the model can't be written as JSON: %s", who, problem), "value")
  end
  return text
end

---The architecture as JSON.
---@param model Model
---@return string
function saving.to_json(model)
  local spec, problem = parts.written(parts.serialize("layer", model))
  if not spec then
    blame.error(string.format("model '%s': %s", model.name, problem), "not_implemented")
  end
  spec.keras_version, spec.backend = "2.6.0", "ipulua"
  local text <const> = as_text("to_json", spec)
  return text
end

---The model that to_json described, with new weights.
---Errors: a text that is not JSON or describes no model, an unknown class:
---`keras.models.model_from_json "{}"`
---@param text string
---@param options {custom_objects: table?}?
---@return Model
function saving.model_from_json(text, options)
  local spec, problem = json.parse(text)
  if problem then
    blame.error("model_from_json: " .. problem, type(text) == "string" and "value" or "type")
  end
  return blame.reading("model_from_json: the model's description", saving.model_from_config,
    parts.unwritten(json.unpack(spec)),
    own_names.given(options))
end

---@param spec table {class_name =, config =}
---@param custom_objects table?
---@return Model
function saving.model_from_config(spec, custom_objects)
  if type(spec) ~= "table" or type(spec.class_name) ~= "string" then
    blame.error("a model's description must hold class_name and config", "value")
  end
  return parts.get("layer", spec, {custom_objects = custom_objects})
end

-- ------------------------------------------------ how it was compiled

-- What compile was given, as far as it can be written down.
local function serialize_compiled(kind, value)
  if value == nil or type(value) == "number" or type(value) == "string"
    or type(value) == "boolean" then
    return value
  end
  if args.is_plain(value) then
    local out = {}
    for _, key in ipairs(nest.keys(value)) do -- a list stays one where an entry is left out
      local each = serialize_compiled(kind, value[key])
      if math.type(key) == "integer" then out[#out + 1] = each else out[key] = each end
    end
    return out
  end
  local saved, problem = parts.written(parts.serialize(kind, value))
  if problem then
    log.warn("save: %s %s of compile can't be saved; compile the model again after loading it (%s)",
      kind == "optimizer" and "an" or "a",
      kind, problem)
  end
  return saved
end

local function training_config(model)
  local a = model.compile_arguments
  if not a then return nil end
  local optimizer = serialize_compiled("optimizer", model.optimizer)
  if not optimizer then return nil end
  return {
    optimizer = optimizer,
    loss = serialize_compiled("loss", a.loss), metrics = serialize_compiled("metric", a.metrics),
    weighted_metrics = serialize_compiled("metric", a.weighted_metrics),
    loss_weights = a.loss_weights,
    steps_per_execution = model.steps_per_execution,
  }
end

local function deserialize_compiled(kind, value, custom_objects)
  if not args.is_plain(value) then return value end
  if value.class_name then return parts.get(kind, value, {custom_objects = custom_objects}) end
  local out = {}
  for key, each in pairs(value) do out[key] = deserialize_compiled(kind, each, custom_objects) end
  return out
end

---Compiles a model as a description says: parts are names or {class_name =, config =}.
---@param model Model
---@param t table what compile takes
---@param custom_objects table?
function saving.compile(model, t, custom_objects)
  local _ <close> = own_names.enter(custom_objects) -- names may stand where parts do
  local given = {}
  for name, value in pairs(t) do given[name] = value end
  given.optimizer = parts.get("optimizer", t.optimizer or "rmsprop",
    {custom_objects = custom_objects})
  given.loss = deserialize_compiled("loss", t.loss, custom_objects)
  given.metrics = deserialize_compiled("metric", t.metrics, custom_objects)
  given.weighted_metrics = deserialize_compiled("metric", t.weighted_metrics, custom_objects)
  model:compile(given)
end

-- Options as data. A function can't be kept: whoever set it is told.
local function plain_options(value, name, depth)
  if type(value) == "function" or type(value) == "userdata" then
    log.warn("save: the option '%s' is a function, which a file doesn't hold; set it again when "
      .. "the model is loaded", name)
    return nil
  end
  if type(value) ~= "table" then return value end
  if class.is_a(value, PipelineStageOptions) then return {["$stage_options"] = value:to_table()} end
  if not plain.is(value) then return nil end
  local out = {}
  depth = plain.deeper(depth or 0)
  for key, each in pairs(value) do out[key] = plain_options(each, key, depth) end
  return out
end

-- What plain_options took apart.
local function options_again(value)
  if type(value) ~= "table" then return value end
  if value["$stage_options"] then return PipelineStageOptions(value["$stage_options"]) end
  local out = core.plain{}
  for key, each in pairs(value) do out[key] = options_again(each) end
  return out
end

-- ------------------------------------------------ whole models

local save_rows <const> = {{"path", "string"}, {"include_optimizer", "boolean", true},
  {"overwrite", "boolean", true}}

---@param model Model
---@param ... any path, include_optimizer, overwrite
function saving.save(model, ...)
  local a = args.check("save", save_rows, ...)
  if not a.path:find("%.safetensors$") then
    blame.error(string.format("save: a model is saved as .safetensors, not as '%s'", a.path),
      "value")
  end
  if not a.overwrite and core.file_exists(a.path) then
    blame.error(string.format("save: '%s' exists already", a.path), "value")
  end
  local base = require "ipulua.keras.models.model".Model
  if not model._graph and model._stack == nil and model.get_config == base.get_config then
    blame.error(string.format("save: model '%s' is a subclass without get_config(); save_weights "
      .. "saves its weights", model.name),
      "not_implemented")
  end
  local tensors, order = tensors_of("save", model)
  if a.include_optimizer then
    saving.collect("save", tensors, saving.optimizer_paths(model.optimizer, saving.paths(model)))
  end
  local training, inputs = training_config(model), model._input_specs
  if untrained.keeps(a.path) then return end
  core.save(a.path, tensors, {
    format = "ipulua.model/1", order = json.encode(json.array(order)),
    model = saving.to_json(model),
    options = as_text("save", plain_options(model._options)), inputs = inputs
    and as_text("save", inputs) or nil,
    training = training and as_text("save", training) or nil,
  })
end

-- A subclass makes its weights when it is first called: it is called with symbols of the inputs
-- that the saved one was built with.
local function build_again(model, inputs, path)
  local function damaged()
    blame.error(string.format("load_model: '%s' is damaged: 'inputs' holds no shapes", path),
      "value")
  end
  local function symbols(spec)
    if type(spec) ~= "table" then damaged() end
    if args.is_dtype(spec.dtype) then
      for _, extent in ipairs(args.is_list(spec.shape) and spec.shape or damaged()) do
        if math.type(extent) ~= "integer" or extent < -1 then damaged() end
      end
      return KerasTensor(spec.shape, spec.dtype)
    end
    local out = {}
    for key, each in pairs(spec) do out[key] = symbols(each) end
    return out
  end
  if not model.built then model:build_with(symbols(inputs)) end
end

local load_model_rows <const> = {
  {"path", "string"}, {"custom_objects", "table", optional = true}, {"compile", "boolean", true},
}

---The model of a file that model:save() wrote, with its weights, options, and (compile) its
---training state.
---Errors: a file that is missing, damaged or not of model:save, a class that custom_objects doesn't
---name: `keras.models.load_model "nowhere.safetensors"`
---@param ... any path, custom_objects, compile
---@return Model
function saving.load_model(...)
  local a = args.check("load_model", load_model_rows, ...)
  if is_hdf5(a.path) or a.path:find("%.keras$") then
    blame.error(string.format("load_model: '%s' is of Keras, whose layers are not read: build the "
      .. "model here, and give it " ..
      "the weights of an .h5 file with model:load_weights", a.path), "value")
  end
  check_path("load_model", a.path, ".safetensors")
  local tensors, metadata = core.load(a.path)
  if not metadata or not metadata.model then
    blame.error(string.format("load_model: '%s' holds no model, only tensors; load_weights reads "
      .. "those", a.path), "value")
  end
  local function described(name)
    local value, problem = json.parse(metadata[name])
    if problem then
      blame.error(string.format("load_model: '%s' is damaged: '%s' is not JSON: %s", a.path, name,
        problem), "value")
    end
    return parts.unwritten(json.unpack(value))
  end
  local file = "load_model: '" .. a.path .. "'"
  local model = blame.reading(file, saving.model_from_config, described "model", a.custom_objects)
  if metadata.inputs then build_again(model, described "inputs", a.path) end
  local entries = saving.as_in_file(saving.paths(model), tensors, metadata)
  local plan, expected = saving.plan("load_model", entries, tensors)
  check_left("load_model", tensors, expected)
  if metadata.options then
    local options = described "options"
    if type(options) ~= "table" then
      blame.error(file .. " is damaged: 'options' is no table", "value")
    end
    for key, value in pairs(options) do model._options[key] = options_again(value) end
  end
  if a.compile and metadata.training then
    blame.reading(file, saving.compile, model, described "training", a.custom_objects)
    local of_optimizer <const> = saving.plan_optimizer("load_model", model.optimizer, entries,
      tensors)
    table.move(of_optimizer, 1, #of_optimizer, #plan + 1, plan)
  end
  saving.commit(plan)
  return model
end

return saving
