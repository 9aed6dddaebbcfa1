-- Every layer of keras.layers under each policy, as a model that onnx.export writes, for one batch
-- size and for any. The file is read again and run. onnx_types.py looks at the files.

local command = require "spec.support.command"
local exports = require "spec.support.onnx_exports"
local ipu = require "ipulua"
local support = require "spec.support.keras_layers"

local keras = ipu.keras
local files = {}

local function as(x, dtype)
  if type(x) == "table" then
    local list = {}
    for i, each in ipairs(x) do list[i] = as(each, dtype) end
    return list
  end
  return x.dtype:find("float") and ipu.cast(x, dtype) or x
end

local function input_like(x, is_open)
  if type(x) ~= "table" then
    local shape = table.move(x.shape, 2, #x.shape, 1, {})
    return keras.Input{shape = shape, batch_size = not is_open and x.shape[1] or nil,
      dtype = x.dtype}
  end
  local list = {}
  for i, each in ipairs(x) do list[i] = input_like(each, is_open) end
  return list
end

-- Weights unlike those that layers begin with.
local function set_weights(model)
  local list = {}
  for i, w in ipairs(model:get_weights()) do
    local values = w.dtype:find("float") and ipu.cast(ipu.random.uniform(w.shape, {minval = 0.1,
      maxval = 1.0, seed = i}), w.dtype) or w
    list[i] = values
  end
  model:set_weights(list)
end

local function outputs_of(y) return type(y) == "table" and y or {y} end

---Whether what the file computes is what the model does; a text says why not.
local function compare(model, x, path)
  local wanted = outputs_of(model(x, {training = false}))
  local again = keras.onnx.import(path)
  local got = outputs_of(again(x))
  for i, t in ipairs(wanted) do
    local problem = exports.difference(t, got[i])
    if problem then return problem end
  end
end

---One layer under one policy: the model, and what it is called with; nil where the layer doesn't
---take the dtype.
local function model_of(name, policy, is_open)
  local compute = policy:gsub("^mixed_", "")
  local x = as(support.inputs(name), compute)
  local c = keras.layers[name]
  local layer = c(support.arguments(name))
  local input = input_like(x, is_open)
  local y = support.call(name, layer, input, {training = false})
  local model = keras.Model{inputs = input, outputs = y}
  set_weights(model)
  return model, x
end

---Writes what can be exported into folder. Returns cases {layer =, policy =, path =, problem =},
---and what was refused: "layer policy" → message.
function files.write(folder, policies, names)
  local cases, refused = {}, {}
  if not names then
    names = {}
    for name in pairs(support.classes()) do
      if support.samples[name] then names[#names + 1] = name end
    end
    table.sort(names)
  end
  for _, policy in ipairs(policies) do
    keras.mixed_precision.set_global_policy(policy)
    for _, name in ipairs(names) do
      for _, is_open in ipairs{false, true} do
        local key = ("%s %s %s"):format(name, policy, is_open and "any batch" or "one batch")
        local made, model, x = pcall(model_of, name, policy, is_open)
        local path = ("%s/%s-%s-%s.onnx"):format(folder, name, policy, is_open and "open"
          or "closed")
        local ok, problem
        if made then ok, problem = pcall(keras.onnx.export, model, path) end
        if ok then
          local ran, difference = pcall(compare, model, x, path)
          cases[#cases + 1] = {key = key, path = path, problem = difference, raised = not ran}
        else refused[key] = made and problem or "model: " .. tostring(model) end
      end
    end
  end
  keras.mixed_precision.set_global_policy("float32")
  return cases, refused
end

---What onnx says of files: a list of texts for each.
function files.types(paths)
  local words = {command.python "onnx", "spec/support/onnx_types.py"}
  for _, path in ipairs(paths) do words[#words + 1] = path end
  local r = command.run(words)
  assert(r.status == 0, r.err)
  local list = {}
  for line in r.out:gmatch("[^\n]+") do list[#list + 1] = ipu.json.decode(line) end
  return list
end

return files
