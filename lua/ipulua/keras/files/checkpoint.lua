-- ipu.train.Checkpoint: models, optimizers, variables, iterators and plain values, saved together
-- in checkpoint folders.

local args = require "ipulua.base.args"
local blame = require "ipulua.base.blame"
local class = require "ipulua.base.class"
local core = require "ipulua.core"
local data = require "ipulua.data"
local folder = require "ipulua.keras.files.checkpoint_folder"
local json = require "ipulua.base.json"
local Layer = require "ipulua.keras.base.layer"
local learnt = require "ipulua.keras.files.learnt"
local nest = require "ipulua.base.nest"
local optimizers = require "ipulua.keras.optimizers"
local kept_weights = require "ipulua.keras.files.weights"
local instances = require "ipulua.config.instances"
local together = require "ipulua.keras.base.together"
local teams = require "ipulua.config.teams"
local seeded = require "ipulua.keras.base.seeded"
local state = require "ipulua.keras.files.state"
local train = require "ipulua.optimizers.train"

local checkpoint = {}

---Objects that are saved together: `model`, `optimizer`, and others under any name. Others are
---models, layers, optimizers, variables, infeed queues, iterators and values that JSON can hold.
---Fields may be set later.
---Errors: a name that it can't save: `ipu.train.Checkpoint{thing = print}`
---Source: tf.train.Checkpoint of TensorFlow 2.6
---@class Checkpoint: Class
---@field save_counter integer checkpoints written or restored
---@overload fun(objects: table): Checkpoint
local Checkpoint = class.new("Checkpoint")
checkpoint.Checkpoint = Checkpoint

-- ------------------------------------------------ kinds of things

local function queue_of(value)
  if class.is_a(value, data.IPUInfeedQueue) then return value.queue end
  local infeed = class.of(value) and value.infeed
  return class.is_a(infeed, data.IPUInfeedQueue) and infeed.queue or nil
end

local function is_value(value)
  local t = type(value)
  return t == "number" or t == "string" or t == "boolean" or args.is_plain(value)
end

local function kind_of(value)
  if Layer.is_layer(value) then return "layer" end
  if class.is_a(value, optimizers.Optimizer) then return "optimizer" end
  if train.is_optimizer(value) then return "graph_optimizer" end
  if core.is_variable(value) then return "variable" end
  if queue_of(value) then return "queue" end
  return is_value(value) and "value" or nil
end

local function check(key, value)
  if type(key) ~= "string" then
    blame.error(string.format("Checkpoint: each part to save has a name, as in {model = m, "
      .. "optimizer = opt}; %s has none",
      args.describe(value)), "type")
  end
  local kind = kind_of(value)
  if kind then return kind end
  blame.error(string.format("Checkpoint: '%s' must be a model, layer, optimizer, variable, infeed "
    .. "queue or iterator of a strategy, or "
    .. "a plain value, got %s", key, args.describe(value)), "type")
end

---The names of the saved members, with the kinds of models and plain values.
function Checkpoint:__tostring()
  local names, parts = {}, {}
  for name in pairs(self) do names[#names + 1] = name end
  table.sort(names)
  for i, name in ipairs(names) do
    local value = self[name]
    parts[i] = name .. " = "
      .. ((Layer.is_layer(value) or type(value) ~= "table" and is_value(value)) and tostring(value)
      or args.describe(value))
  end
  return "Checkpoint{" .. table.concat(parts, ", ") .. "}"
end

function Checkpoint:init(objects)
  if objects ~= nil and not args.is_plain(objects) then
    blame.error("Checkpoint: expected a table of the parts to save, as in {model = m, optimizer = "
      .. "opt}, got "
      .. args.describe(objects), "type")
  end
  self.save_counter = 0
  for key, value in pairs(objects or {}) do
    check(key, value)
    if Checkpoint[key] ~= nil or key == "save_counter" then
      blame.error(string.format("Checkpoint: the name '%s' is taken", key), "value")
    end
    self[key] = value
  end
end

-- Optimizers that a model holds: {key =, value =, kind =, is_inner = true}.
local function inner_optimizers(key, model)
  local list = {}
  for i, each in ipairs(kept_weights.inner_optimizers(model)) do
    list[i] = {key = key .. "." .. each.name, value = each.optimizer,
      kind = kind_of(each.optimizer), is_inner = true}
  end
  return list
end

---{key =, value =, kind =} of all fields, and the optimizers of models.
---@param self table<string, any>
---@return table[]
function checkpoint.objects_of(self)
  local list, seen = {}, {}
  for _, key in ipairs(nest.keys(self)) do
    if key ~= "save_counter" then
      list[#list + 1] = {key = key, value = self[key], kind = check(key, self[key])}
      if list[#list].kind ~= "value" then seen[self[key]] = true end
    end
  end
  for i = 1, #list do
    local opt = list[i].kind == "layer" and list[i].value.optimizer
    if opt and not seen[opt] then
      seen[opt] = true
      list[#list + 1] = {key = list[i].key .. ".optimizer", value = opt, kind = "optimizer"}
    end
    for _, inner in ipairs(list[i].kind == "layer"
      and inner_optimizers(list[i].key, list[i].value) or {}) do
      if not seen[inner.value] then list[#list + 1] = inner end
      seen[inner.value] = true
    end
  end
  return list
end

-- The model's own names for members called model, and the optimizer's for members called optimizer:
-- another one, or else the model's.
local function prefix_of(object, list)
  local key = object.key
  if key == "model" or key == "optimizer" then return "" end
  if key ~= "model.optimizer" then return key .. "/" end
  for _, other in ipairs(list) do
    if other.key == "optimizer" then return key .. "/" end
  end
  return ""
end

-- Weights of layers, and variables that are saved by themselves.
local function entries_of(list)
  local weights, alone = {}, {}
  for _, object in ipairs(list) do
    if object.kind == "layer" then
      for _, entry in ipairs(kept_weights.paths(object.value)) do
        weights[#weights + 1] = {path = prefix_of(object, list) .. entry.path,
          variable = entry.variable}
      end
    elseif object.kind == "variable" then
      alone[#alone + 1] = {path = object.key, variable = object.value}
    end
  end
  return weights, alone
end

-- Layers that learn by adapt, with their prefixes in the file of weights.
local function learners_of(list)
  local layers = {}
  for _, object in ipairs(list) do
    local own = object.kind == "layer"
      and kept_weights.learners(object.value, prefix_of(object, list)) or {}
    table.move(own, 1, #own, #layers + 1, layers)
  end
  return layers
end

-- An optimizer's slots: of weights, and of variables that are saved by themselves.
local function with_alone(weights, alone)
  local all = table.move(weights, 1, #weights, 1, {})
  for _, entry in ipairs(alone) do
    all[#all + 1] = {path = "variables/" .. entry.path, variable = entry.variable}
  end
  return all
end

local function values_of(entries, learners)
  local tensors = {}
  local order = kept_weights.collect("Checkpoint.save", tensors, entries)
  local more = learnt.collect(learners, tensors)
  return tensors, json.encode(json.array(table.move(more, 1, #more, #order + 1, order)))
end

-- ------------------------------------------------ saving

---Weights and optimizers as files of a checkpoint.
---@param list table[] {key =, value =, kind =}
---@return table<string, table> members
function checkpoint.members(list)
  local weights, alone = entries_of(list)
  local slots = {}
  for _, object in ipairs(list) do
    local found = {}
    if object.kind == "optimizer" then
      found = kept_weights.optimizer_paths(object.value, with_alone(weights, alone))
    elseif object.kind == "graph_optimizer" then found = object.value:entries() end
    local named = {}
    for i, entry in ipairs(found) do
      named[i] = {path = prefix_of(object, list) .. entry.path, variable = entry.variable}
    end
    kept_weights.collect("Checkpoint.save", slots, named)
  end
  local tensors, order = values_of(weights, learners_of(list))
  return {
    ["weights.safetensors"] = {tensors = tensors,
      metadata = {format = "ipulua.weights/1", order = order}},
    ["optim.safetensors"] = {tensors = slots},
    ["variables.safetensors"] = #alone > 0 and {tensors = (values_of(alone, {}))} or nil,
  }
end

-- A layer that is not built has no variables for the file's weights, which would be passed over
-- without a word.
local function check_built(who, list, entries, weights, known)
  local left = {}
  for _, entry in ipairs(entries) do known[entry.path] = true end
  for name in pairs(weights) do
    if not known[name] then left[#left + 1] = name end
  end
  for _, object in ipairs(list) do
    local layer = object.kind == "layer"
      and kept_weights.unbuilt(object.value, prefix_of(object, list), left)
    if layer then
      blame.error(string.format("%s: '%s' has no weights yet; build it first", who,
        rawequal(layer, object.value) and object.key or layer.name), "value")
    end
  end
end

-- The part of a shared file that belongs to an object.
local function under(prefix, tensors)
  local mine = {}
  for name, t in pairs(tensors) do
    if name:sub(1, #prefix) == prefix then mine[name:sub(#prefix + 1)] = t end
  end
  return mine
end

---Reads a saved checkpoint, and checks that all of it fits. Nothing is changed before the returned
---function is called.
---@param who string
---@param list table[] {key =, value =, kind =}
---@param saved table of checkpoint_folder.read
---@return fun() commit
function checkpoint.plan(who, list, saved)
  local weights, metadata = saved.member("weights.safetensors")
  local slots = saved.member("optim.safetensors") or {}
  local entries, alone = entries_of(list)
  entries = kept_weights.as_in_file(entries, weights or {}, metadata)
  local values, names = kept_weights.plan_learnt(learners_of(list), weights or {}, metadata)
  check_built(who, list, entries, weights or {}, names)
  local plans = {values, (kept_weights.plan(who, entries, weights or {})),
    (kept_weights.plan(who, alone, saved.member("variables.safetensors") or {}))}
  local graph_optimizers = {}
  for _, object in ipairs(list) do
    local mine = under(prefix_of(object, list), slots)
    if object.kind == "optimizer" then
      plans[#plans + 1] = kept_weights.plan_optimizer(who, object.value,
        with_alone(entries, alone), mine)
    elseif object.kind == "graph_optimizer" then
      for _, entry in ipairs(object.value:entries()) do
        local t = mine[entry.path]
        if t then mine[entry.path] = kept_weights.fitted(who, entry.path, entry.variable, t) end
      end
      graph_optimizers[object.value] = mine
    end
  end
  return function()
    for _, plan in ipairs(plans) do kept_weights.commit(plan) end
    for optimizer, mine in pairs(graph_optimizers) do optimizer:restore(mine) end
  end
end

-- The number of a checkpoint: updates made, if an optimizer counts them. In the list a model's
-- optimizer comes after optimizers that were given themselves, but has its model's name in its key.
local function step_of(self, list)
  local first
  for _, object in ipairs(list) do
    if object.kind == "optimizer" and not object.is_inner
      and (not first or object.key < first.key) then
      first = object
    end
  end
  return first and first.value.iterations:item() or self.save_counter
end

local save_rows <const> = {
  {"dir", "string"}, {"max_to_keep", "integer", 3, range = "[1, inf)"}, {"best", "boolean", false},
  together.every_row,
}

-- A plain value as JSON can hold it: infinities and NaN, too.
local function pack(object)
  local tensors = {}
  local packed = state.pack(object.value, tensors, object.key)
  if next(tensors) then
    blame.error(string.format("Checkpoint.save: '%s' is a table with a tensor in it; save the "
      .. "tensor in a variable, under a name of its own", object.key), "type")
  end
  local _, problem = json.text(packed)
  if problem then
    blame.error(string.format("Checkpoint.save: '%s' can't be written as JSON: %s", object.key,
      problem), "value")
  end
  return packed
end

---Writes a checkpoint into dir/step-NNNNNN; older ones but the newest max_to_keep (and the last
---that was said to be best) go. The number counts the updates of its Keras optimizer, or of its
---model's; of several the first by name. Without one it counts saves. A checkpoint of the same
---number is replaced.
---Errors: a folder that can't be written, a max_to_keep below 1:
---`ipu.train.Checkpoint{model = model}:save("/proc/none")`
---@param ... any dir, max_to_keep, best
---@return string path
function Checkpoint:save(...)
  local a = args.check("Checkpoint.save", save_rows, ...)
  local list = checkpoint.objects_of(self)
  local places, values, turns = {}, {}, {}
  for _, object in ipairs(list) do
    if object.kind == "layer" then turns[object.key] = seeded.turns(object.value) end
    if object.kind == "queue" then places[object.key] = queue_of(object.value):save()
    elseif object.kind == "value" then values[object.key] = pack(object) end
  end
  local members = checkpoint.members(list)
  if next(places) then members["places.safetensors"] = {tensors = places} end
  local former <const> = self.save_counter
  self.save_counter = former + 1
  local step = step_of(self, list)
  if not a.all_instances and teams.current() and not instances.is_first() then
    return string.format("%s/step-%06d", a.dir, step)
  end
  local written, result = pcall(folder.write, a.dir, step,
    {members = members, state = {iteration = step, values = values,
    save_counter = self.save_counter, random = core.save_random(), turns = turns}},
    {keep = a.max_to_keep, best = a.best})
  if written then return result end
  self.save_counter = former -- a checkpoint that was not written does not count
  error(result, 0)
end

-- ------------------------------------------------ restoring

local restore_rows <const> = {{"dir", "string"}}

-- Positions in data and random numbers, as they were saved; as they were before, where one of them
-- can't be set.
local function restore_places(list, saved)
  local places, former = saved.member("places.safetensors") or {}, {}
  local random <const> = core.save_random()
  local ok, problem = pcall(function()
    core.restore_random(saved.state.random)
    for _, object in ipairs(list) do
      if object.kind == "queue" and places[object.key] then
        local queue <const> = queue_of(object.value)
        local place <const> = queue:save()
        queue:restore(places[object.key])
        former[queue] = place
      end
    end
  end)
  if ok then return end
  for queue, place in pairs(former) do queue:restore(place) end
  core.restore_random(random)
  error(problem, 0)
end

---Sets everything as the newest complete checkpoint of a folder (or the one at this path) says;
---nothing is changed where one thing doesn't fit.
---Errors: no complete checkpoint, a file with another hash than state.json has for it, tensors of
---other shapes or names: `ipu.train.Checkpoint{model = model}:restore("nowhere")`
---@param ... any dir
---@return string path
function Checkpoint:restore(...)
  local a = args.check("Checkpoint.restore", restore_rows, ...)
  local saved = folder.read(a.dir)
  if not saved then
    blame.error(string.format("Checkpoint.restore: there is no checkpoint in '%s'", a.dir),
      "not_found")
  end
  local list = checkpoint.objects_of(self)
  local state_of <const> = saved.state
  if type(state_of.random) ~= "table" or type(state_of.values) ~= "table"
    or math.type(state_of.save_counter or 0) ~= "integer" then
    blame.error(string.format("Checkpoint.restore: '%s/state.json' was not written by a Checkpoint",
      saved.path), "value")
  end
  local commit <const> = checkpoint.plan("Checkpoint.restore", list, saved)
  restore_places(list, saved)
  commit()
  for _, object in ipairs(list) do
    if object.kind == "layer" then
      local turns <const> = saved.state.turns
      seeded.set_turns(object.value, type(turns) == "table" and turns[object.key])
    end
    local value = object.kind == "value" and saved.state.values[object.key]
    if value ~= nil and object.kind == "value" then self[object.key] = state.unpack(value, {}) end
  end
  self.save_counter = saved.state.save_counter or 0
  return saved.path
end

---The path of the newest checkpoint in a folder, nil when there is none.
---Errors: dir is no string: `ipu.train.latest_checkpoint(1)`
---Source: tf.train.latest_checkpoint of TensorFlow 2.6
---@param dir string
---@return string?
function checkpoint.latest_checkpoint(dir)
  return folder.latest(args.check("latest_checkpoint", restore_rows, dir).dir)
end

class.guard(Checkpoint)

return checkpoint
