-- The weights of a model in a file, by their position in it: layer, then weight; and beside them
-- the state of its optimizer.

local args = require "ipulua.base.args"
local blame = require "ipulua.base.blame"
local class = require "ipulua.base.class"
local core = require "ipulua.core"
local counted = require "ipulua.base.counted"
local formats = require "ipulua.keras.files.formats"
local held = require "ipulua.keras.base.held"
local json = require "ipulua.base.json"
local learnt = require "ipulua.keras.files.learnt"
local optimizers = require "ipulua.keras.optimizers.base"
local together = require "ipulua.keras.base.together"
local train = require "ipulua.optimizers.train"
local untrained = require "ipulua.base.untrained"

local weights, methods = {}, {}
weights.methods = methods

-- ------------------------------------------------ names of weights

local function leaf_name(v)
  return v.weight_name or v.name:match("[^/]+$") or v.name
end

-- A path that no earlier weight has: with the least free number after it if one had.
local function free_path(taken, path)
  local free, count = path, 0
  while taken[free] do
    count = count + 1
    free = path .. "_" .. count
  end
  taken[free] = true
  return free
end

-- Layers of a model are found by their names, others by the field that holds them.
local function each_sublayer(layer, prefix, visit)
  local is_graph = layer._graph or layer._stack
  for i, inner in ipairs(layer:sublayers()) do
    local name = is_graph and inner.name or layer:place_of(inner) or tostring(i)
    visit(inner, prefix .. name .. "/")
  end
end

-- Visits each variable once, with its path. seen: variables; taken: paths.
local function walk_weights(layer, prefix, seen, taken, visit)
  for _, v in ipairs(layer:own_variables()) do
    local id = core.variable_identity(v)
    if not seen[id] then
      seen[id] = true
      visit(free_path(taken, prefix .. leaf_name(v)), v)
    end
  end
  each_sublayer(layer, prefix, function(inner, path)
    walk_weights(inner, path, seen, taken, visit)
  end)
end

---A layer in it that has no weights yet, though a file has tensors for it; nil where there is none.
---@param layer Layer
---@param prefix string of its weights' paths
---@param left string[] names of the file's other tensors
---@return Layer?
---@package
function weights.unbuilt(layer, prefix, left)
  if not layer.built then
    for _, name in ipairs(left) do
      if name:sub(1, #prefix) == prefix then return layer end
    end
  end
  local found
  each_sublayer(layer, prefix, function(inner, path)
    found = found or weights.unbuilt(inner, path, left)
  end)
  return found
end

---The weights of a layer or model: a list of {path =, variable =}. No two have one path.
---@param layer Layer
---@return table[]
function weights.paths(layer)
  local list = {}
  walk_weights(layer, "", {}, {}, function(path, v)
    list[#list + 1] = {path = path, variable = v}
  end)
  return list
end

---The layers of a layer or model that learn values by adapt, each once, with the prefixes of their
---names in a file: {layer =, prefix =}.
---@param layer Layer
---@param prefix string
---@return table[]
function weights.learners(layer, prefix)
  local list, seen = {}, {}
  local function visit(each, path)
    if seen[each] then return end
    seen[each] = true
    if each._learnt then list[#list + 1] = {layer = each, prefix = path} end
    each_sublayer(each, path, visit)
  end
  visit(layer, prefix)
  return list
end

-- ------------------------------------------------ weights

local weights_rows <const> = {{"path", "string"}, {"overwrite", "boolean", true},
  together.every_row}

---Adds the values of entries to tensors by path. A path that is taken is refused.
---@param who string
---@param tensors table<string, userdata>
---@param entries table[] {path =, variable =}
---@return string[] paths in the order of the entries
function weights.collect(who, tensors, entries)
  local order = {}
  for i, entry in ipairs(entries) do
    if tensors[entry.path] then
      blame.error(string.format("%s: two weights would both be called '%s' in the file; give "
        .. "one another name", who, entry.path), "value")
    end
    tensors[entry.path] = entry.variable:read_value()
    order[i] = entry.path
  end
  return order
end

---The contents of a file of a model: tensors by path; the paths of its weights in their order, then
---the paths of learnt values.
---@param who string
---@param model Model
---@return table<string, userdata> tensors
---@return string[] order
function weights.tensors(who, model)
  local list = {}
  local order = weights.collect(who, list, weights.paths(model))
  local more = learnt.collect(weights.learners(model, ""), list)
  return list, table.move(more, 1, #more, #order + 1, order)
end

---Writes the weights to a .safetensors or .npz file, and beside them what layers have learnt by
---adapt.
---Errors: another ending than .safetensors and .npz, a model without weights, a path that can't be
---written, a file that is there where overwrite is false: `model:save_weights "w.txt"`
---@param ... any path, overwrite, all_instances
function methods:save_weights(...)
  local a = args.check("save_weights", weights_rows, ...)
  local path = a.path
  local format = formats.of("save_weights", path, true)
  if not a.overwrite and core.file_exists(path) then
    blame.error(string.format("save_weights: '%s' exists already", path), "value")
  end
  local tensors, order = weights.tensors("save_weights", self)
  if #order == 0 and not self.built then
    blame.error(string.format("save_weights: model '%s' has no weights yet; build it first",
      self.name), "value")
  end
  if untrained.keeps(path) or together.leaves_to_first(self, a) then return end
  format.write(path, tensors, order)
end

---Refuses a file's tensor whose shape is not the weight's.
---@param who string
---@param name string of the weight
---@param v userdata
---@param t userdata
---@package
function weights.check_shape(who, name, v, t)
  local want, got = table.concat(v.shape, ", "), table.concat(t.shape, ", ")
  if want == got then return end
  blame.error(string.format("%s: weight '%s' has the shape [%s] in the file, [%s] in the model",
    who, name, got, want), "value")
end

---A file's tensor in the dtype of the weight; refused where the shapes differ, or the weight's
---dtype can't hold its values.
---@param who string
---@param name string of the weight
---@param v userdata
---@param t userdata
---@return userdata
---@package
function weights.fitted(who, name, v, t)
  weights.check_shape(who, name, v, t)
  if t.dtype == v.dtype then return t end
  local cast = held.cast(t, v.dtype)
  if cast then return cast end
  blame.error(string.format("%s: weight '%s' is %s in the file, with values that the model's %s "
    .. "can't hold", who, name, t.dtype, v.dtype),
    "value")
end

---The tensors that weights.commit will assign, by path: all must be there and fit. Nothing is
---changed.
---@param who string
---@param entries table[] {path =, variable =}
---@param tensors table<string, userdata>
---@return table[] plan {variable =, value =}
---@return table<string, true> expected
function weights.plan(who, entries, tensors)
  local plan, expected = {}, {}
  for i, entry in ipairs(entries) do
    local t = tensors[entry.path]
    expected[entry.path] = true
    if not t then
      blame.error(string.format("%s: the file has no weight '%s'", who, entry.path), "value")
    end
    plan[i] = {variable = entry.variable,
      value = weights.fitted(who, entry.path, entry.variable, t)}
  end
  return plan, expected
end

---@param plan table[] of weights.plan or weights.plan_optimizer
function weights.commit(plan)
  for _, each in ipairs(plan) do
    if each.learn then each.learn()
    elseif each.optimizer then each.optimizer:state(each.state, each.value)
    else each.variable:assign(each.value) end
  end
end

-- The names of a file's weights in their order, then the names of its learnt values.
local function order_of(metadata)
  local order = metadata and metadata.order and json.decode(metadata.order)
  if type(order) ~= "table" then return nil, {} end
  return learnt.split(order)
end

---A plan for weights.commit: the learnt values of layers that learn by adapt.
---@param layers table[] of weights.learners
---@param tensors table<string, userdata>
---@param metadata table<string, string>?
---@return table[] plan
---@return table<string, true> expected
function weights.plan_learnt(layers, tensors, metadata)
  return learnt.plan(layers, tensors, (select(2, order_of(metadata))))
end

---The entries under the names that a file gives them. Names that were given automatically differ
---when a model is made twice. If the file knows the order of its weights and has as many as the
---model, they are taken in that order.
---@param entries table[] {path =, variable =}
---@param tensors table<string, userdata>
---@param metadata table<string, string>?
---@return table[]
function weights.as_in_file(entries, tensors, metadata)
  local order = order_of(metadata)
  local missing = false
  for _, entry in ipairs(entries) do missing = missing or tensors[entry.path] == nil end
  if not missing or not order or #order ~= #entries then return entries end
  local renamed = {}
  for i, entry in ipairs(entries) do renamed[i] = {path = order[i], variable = entry.variable} end
  return renamed
end

-- If weights are known by their order alone, their number is checked first.
local function check_count(entries, tensors, metadata)
  local order = order_of(metadata)
  if not order or #order == #entries then return end
  for _, entry in ipairs(entries) do
    if tensors[entry.path] then return end -- names say more
  end
  blame.error(string.format("load_weights: the file has %s, the model has %d",
    counted(#order, "weight"), #entries), "value")
end

function weights.check_left(who, tensors, expected)
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

local load_rows <const> = {{"path", "string"}, {"by_name", "boolean", false},
  {"skip_mismatch", "boolean", false}}

---Sets the weights from a file. by_name: only weights that the file has; skip_mismatch: of these
---only weights of the same shapes.
---Shapes: each weight has the shape that it was saved with, unless skip_mismatch leaves it out
---Errors: a file that is missing or damaged, weights of other shapes or names, skip_mismatch
---without by_name: `model:load_weights "nowhere.safetensors"`
---@param ... any path, by_name, skip_mismatch
function methods:load_weights(...)
  local a = args.check("load_weights", load_rows, ...)
  if a.skip_mismatch and not a.by_name then
    blame.error("load_weights: 'skip_mismatch' can only be true when 'by_name' is", "value")
  end
  local entries = weights.paths(self)
  local format = formats.of("load_weights", a.path)
  if format.plan then
    check_built(self, entries)
    weights.commit(format.plan(self, a.path, entries, a, weights.fitted))
    return
  end
  local tensors, metadata = format.read(a.path)
  check_built(self, entries)
  local values, names = weights.plan_learnt(weights.learners(self, ""), tensors,
    not a.by_name and metadata or nil)
  if a.by_name then
    local known = {}
    for _, entry in ipairs(entries) do
      local t = tensors[entry.path]
      local fits = t and (not a.skip_mismatch or table.concat(t.shape, ",")
        == table.concat(entry.variable.shape, ","))
      if fits then known[#known + 1] = entry end
    end
    weights.commit((weights.plan("load_weights", known, tensors)))
    weights.commit(values)
    return
  end
  check_count(entries, tensors, metadata)
  local plan, expected = weights.plan("load_weights",
    weights.as_in_file(entries, tensors, metadata), tensors)
  for name in pairs(names) do expected[name] = true end
  weights.check_left("load_weights", tensors, expected)
  weights.commit(plan)
  weights.commit(values)
end

-- ------------------------------------------------ optimizer state

local function is_optimizer(value)
  return class.is_a(value, optimizers.Optimizer) or train.is_optimizer(value)
end

---Optimizers in the fields of a model and of its layers, and in their tables, beside the one that
---the model was compiled with. Models inside have compiled ones, too.
---@param model Model
---@return table[] {name =, optimizer =}
function weights.inner_optimizers(model)
  local list, seen, count = {}, {[model.optimizer or false] = true}, 0
  local function add(name, value)
    if not seen[value] then list[#list + 1] = {name = name, optimizer = value} end
    seen[value] = true
  end
  model:walk(function(layer)
    local prefix = count > 0 and "layer" .. count .. "." or ""
    count = count + 1
    for _, each in ipairs(layer:held_by(is_optimizer)) do add(prefix .. each.place, each.value) end
    if is_optimizer(layer.optimizer) then add(prefix .. "optimizer", layer.optimizer) end
  end)
  return list
end

---An optimizer's variables by name, beside the weights they belong to.
---@param optimizer Optimizer?
---@param of_model table[] {path =, variable =}
---@return table[] {path =, variable =}
function weights.optimizer_paths(optimizer, of_model)
  local list = {}
  for i, entry in ipairs(optimizer and optimizer.entries and optimizer:entries(of_model) or {}) do
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

-- State of another kind of optimizer is an error: it would be ignored silently, and its step count
-- taken for this one's. An optimizer without a step may have no slots yet.
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

---The saved tensors that weights.commit will assign to an optimizer. Slots that the file has are
---made.
---@param who string
---@param optimizer Optimizer?
---@param of_model table[] {path =, variable =}
---@param tensors table<string, userdata>
---@return table[] plan
function weights.plan_optimizer(who, optimizer, of_model, tensors)
  if not optimizer or not tensors["optimizer/iterations"] then return {} end
  local trained = {}
  for _, entry in ipairs(of_model) do
    if entry.variable.trainable then trained[#trained + 1] = entry.variable end
  end
  optimizer:build(trained)
  local found, known = {}, {}
  for _, entry in ipairs(weights.optimizer_paths(optimizer, of_model)) do
    known[entry.path] = true
    if tensors[entry.path] then found[#found + 1] = entry end
  end
  if #trained > 0 then check_kinds(who, optimizer, known, tensors) end
  local plan <const> = weights.plan(who, found, tensors)
  plan_states(who, optimizer, tensors, known, plan)
  return plan
end

return weights
