-- Keras' weights in HDF5: .h5 files of Keras 2 (layer_names and weight_names as attributes) and
-- .weights.h5 of Keras 3 (layers/dense/vars/0). Reading needs the plug-in ipulua.hdf5.

local blame = require "ipulua.base.blame"
local class = require "ipulua.base.class"
local core = require "ipulua.core"
local counted = require "ipulua.base.counted"
local locale = require "ipulua.base.locale"
local names = require "ipulua.base.parts.names"

local h5 = {}

local function reader()
  local ok, plugin = pcall(require, "ipulua.hdf5")
  if ok then return plugin end
  blame.error("load_weights: .h5 files need the plug-in ipulua.hdf5, which is not here; "
    .. "install libhdf5 (Debian's libhdf5-dev), then run make and make install", "not_implemented")
end

local function tensor(d, name)
  if d.holds then
    blame.error(string.format("load_weights: the dataset '%s' holds %s; weights are read from "
      .. "floats, whole numbers of up to 64 bits and truth values, of up to 8 axes", name, d.holds),
      "value")
  end
  return core.from_bytes(d.dtype, d.shape, d.data)
end

-- A list of names that is split over several attributes: weight_names0, weight_names1 …
local function listed(attributes, name)
  if attributes[name] then return attributes[name] end
  local out, i = {}, 0
  while attributes[name .. i] do
    table.move(attributes[name .. i], 1, #attributes[name .. i], #out + 1, out)
    i = i + 1
  end
  return i > 0 and out or nil
end

local function is_learner(layer) return class.of(layer).learnt_in_keras ~= nil end

-- Layers with weights. If with_learners is set, those that learn by adapt, too: what they have
-- learnt is weights in Keras.
local function weighty(layers, with_learners)
  local out = {}
  for _, layer in ipairs(layers) do
    if #layer.weights > 0 or with_learners and is_learner(layer) then out[#out + 1] = layer end
  end
  return out
end

-- ------------------------------------------------ Keras 2

-- List of {name, tensors}, one for each layer with weights.
local function keras2(datasets, groups, root)
  local prefix = root == "/" and "" or root .. "/"
  local out = {}
  for _, layer in ipairs(listed(groups[root], "layer_names")) do
    local tensors = {}
    for i, weight in ipairs(listed(groups[prefix .. layer] or {}, "weight_names") or {}) do
      local path <const> = prefix .. layer .. "/" .. weight
      local d = datasets[path]
      if not d then
        blame.error(string.format("load_weights: the file has no weight '%s/%s'", layer, weight),
          "value")
      end
      tensors[i] = tensor(d, path)
    end
    if #tensors > 0 then out[#out + 1] = {layer, tensors} end
  end
  return out
end

-- Keras 2 wrote a layer's trainable weights before the rest. For a model inside a model that order
-- differs from its weights' order.
local function as_written(layer)
  local trained, rest = layer.trainable_weights, layer.non_trainable_weights
  return table.move(rest, 1, #rest, #trained + 1, trained)
end

local function pair(layer, tensors)
  return {layer = layer, tensors = tensors, variables = as_written(layer)}
end

-- By name where all names are known, else in order. Values that a layer was given are no weights in
-- Keras, either.
local function pair_all(model, found)
  local layers = weighty(model.layers, true)
  if #layers ~= #found then layers = weighty(model.layers) end
  if #layers ~= #found then
    blame.error(string.format("load_weights: the file has %s with weights, the model has %d",
      counted(#found, "layer"), #layers), "value")
  end
  local by_name = {}
  for _, layer in ipairs(layers) do by_name[layer.name] = layer end
  local all = true
  for _, f in ipairs(found) do all = all and by_name[f[1]] ~= nil end
  local pairs_of = {}
  for i, f in ipairs(found) do pairs_of[i] = pair(all and by_name[f[1]] or layers[i], f[2]) end
  return pairs_of
end

-- Whether each tensor has its weight's shape.
local function fits(each)
  if is_learner(each.layer) then return #each.tensors == #class.of(each.layer).learnt_in_keras end
  if #each.variables ~= #each.tensors then return false end
  for i, v in ipairs(each.variables) do
    if table.concat(v.shape, ",") ~= table.concat(each.tensors[i].shape, ",") then return false end
  end
  return true
end

-- Only layers that the file has by name; with skip_mismatch only layers of the same shapes.
local function pair_known(model, found, skip_mismatch)
  local tensors_of = {}
  for _, f in ipairs(found) do tensors_of[f[1]] = f[2] end
  local pairs_of = {}
  for _, layer in ipairs(weighty(model.layers, true)) do
    local each = tensors_of[layer.name] and pair(layer, tensors_of[layer.name])
    if each and (not skip_mismatch or fits(each)) then pairs_of[#pairs_of + 1] = each end
  end
  return pairs_of
end

-- ------------------------------------------------ Keras 3

-- Sublayers that aren't in alphabetical order.
local ranks <const> = {
  forward_layer = 1, backward_layer = 2, query_dense = 1, key_dense = 2, value_dense = 3,
  output_dense = 4,
}

-- A class's name in a path; a model of layers isn't called Model there.
local function stem_of(layer)
  local name = class.of(layer).__name
  return name == "Model" and layer._graph and "functional" or names.snake(name)
end

-- The name in a path of the next layer of a list: the second dense one is dense_1.
local function next_name(used, layer)
  local stem = stem_of(layer)
  local count = used[stem] or 0
  used[stem] = count + 1
  return count > 0 and stem .. "_" .. count or stem
end

-- Positions of sublayers that are in lists, by "cells/gru_cell_1"; false where two lists differ.
local function positions_in(layer, found)
  local used = {}
  for i, inner in ipairs(layer:sublayers()) do
    local list = (layer:place_of(inner) or ""):match("^(.*)%.%d+$")
    if list then
      used[list] = used[list] or {}
      local path = list .. "/" .. next_name(used[list], inner)
      if found[path] == nil or found[path] == i then found[path] = i else found[path] = false end
    end
    positions_in(inner, found)
  end
  return found
end

-- "dense_10" → "dense", 10; "dense" → "dense", 0.
local function numbered(name)
  local stem, number = name:match("^(.-)_(%d+)$")
  return stem or name, tonumber(number or 0)
end

local function before(a, b, position)
  local i = 1
  while a[i] and a[i] == b[i] do i = i + 1 end
  local x, y = a[i] or "", b[i] or ""
  if tonumber(x) and tonumber(y) then return tonumber(x) < tonumber(y) end
  if ranks[x] and ranks[y] then return ranks[x] < ranks[y] end
  local list = (a[i - 1] or "") .. "/"
  local p, q = position[list .. x], position[list .. y]
  if p and q then return p < q end
  local stem, number = numbered(x)
  local other, its_number = numbered(y)
  if stem == other then return number < its_number end
  return locale.before(stem, other)
end

-- The tensors below a folder, in the order of the layer's weights.
local function below(datasets, folder, layer)
  local found = {}
  for path, d in pairs(datasets) do
    if path:sub(1, #folder) == folder and path:find("/vars/%d+$") then
      local parts = {data = d, path = path}
      for part in path:sub(#folder + 1):gmatch("[^/]+") do parts[#parts + 1] = part end
      found[#found + 1] = parts
    end
  end
  local position = positions_in(layer, {})
  table.sort(found, function(a, b) return before(a, b, position) end)
  for i, parts in ipairs(found) do found[i] = tensor(parts.data, parts.path) end
  return found
end

local function root_of(datasets)
  for path in pairs(datasets) do
    local old = path:match("^_layer_checkpoint_dependencies/")
    if old then return old end
  end
  return "layers/"
end

local function any_below(datasets, folder)
  for path in pairs(datasets) do
    if path:sub(1, #folder) == folder then return true end
  end
  return false
end

-- Adds {layer =, tensors =, variables =} for each layer with weights; a model among them has its
-- own layers below its folder.
local function keras3(layers, datasets, root, out)
  local used = {}
  for _, layer in ipairs(layers) do
    local folder = root .. next_name(used, layer) .. "/"
    if class.of(layer).is_model and any_below(datasets, folder .. "layers/") then
      keras3(layer.layers, datasets, folder .. "layers/", out)
    elseif #layer.weights > 0 or is_learner(layer) and any_below(datasets, folder) then
      local tensors = below(datasets, folder, layer)
      if #tensors == 0 then
        blame.error("load_weights: the file has nothing for '" .. folder .. "'", "value")
      end
      out[#out + 1] = {layer = layer, tensors = tensors, variables = layer.weights}
    end
  end
  return out
end

-- ------------------------------------------------ both

local function check_count(each, count)
  if count == #each.tensors then return end
  blame.error(string.format("load_weights: layer '%s' has %s, the file %d", each.layer.name,
    counted(count, "weight"), #each.tensors), "value")
end

local function add_learnt(each, plan)
  local values, known = {}, class.of(each.layer).learnt_in_keras
  check_count(each, #known)
  for i, name in ipairs(known) do values[name] = each.tensors[i] end
  plan[#plan + 1] = {learn = each.layer:_learning(values)}
end

local function add_to_plan(each, path_of, plan, fitted)
  local variables, tensors = each.variables, each.tensors
  if is_learner(each.layer) then return add_learnt(each, plan) end
  check_count(each, #variables)
  for i, t in ipairs(tensors) do
    local v = variables[i]
    plan[#plan + 1] = {variable = v,
      value = fitted("load_weights", path_of[core.variable_identity(v)], v, t)}
  end
end

local function find_pairs(model, datasets, groups, o)
  local root = listed(groups["/"], "layer_names") and "/" or groups.model_weights
    and "model_weights"
  if not root then
    if o.by_name then
      blame.error("load_weights: 'by_name' needs a file of Keras 2; one of Keras 3 does not have "
        .. "the layers' names", "value")
    end
    return keras3(model.layers, datasets, root_of(datasets), {})
  end
  local found = keras2(datasets, groups, root)
  if o.by_name then return pair_known(model, found, o.skip_mismatch) end
  return pair_all(model, found)
end

---Values to assign to a model's weights, from a file that Keras wrote; an error unless all of them
---fit.
---@param model Model
---@param path string
---@param entries table[] {path =, variable =} of the model's weights
---@param o {by_name: boolean, skip_mismatch: boolean}
---@param fitted fun(who: string, name: string, v: userdata, t: userdata): userdata of weights.lua
---@return table[] plan {variable =, value =}
function h5.plan(model, path, entries, o, fitted)
  if not core.file_exists(path) then
    blame.error("load_weights: there is no file '" .. path .. "'", "not_found")
  end
  local ok, datasets, groups = blame.attempt(reader().read, path)
  if not ok then blame.error("load_weights: " .. datasets, "value") end
  local found = find_pairs(model, datasets, groups, o)
  local path_of = {}
  for _, entry in ipairs(entries) do
    path_of[core.variable_identity(entry.variable)] = entry.path
  end
  local plan = {}
  for _, each in ipairs(found) do add_to_plan(each, path_of, plan, fitted) end
  return plan
end

return h5
