-- Random models of all layers of keras.layers, with arguments unlike their defaults. They go
-- through every kind of file that can hold them, and back in a fresh process. They have several
-- inputs and outputs, masks, shared layers, models inside of models, states, 16-bit policies and a
-- script's own classes. layer_files.lua write FOLDER FIRST LAST and read FOLDER FIRST LAST, a
-- process each.

local command = require "spec.support.command"
local core = require "ipulua.core"
local ipu = require "ipulua"
local KerasTensor = require "ipulua.keras.base.tensor"
local layers = require "spec.support.keras_layers"

local keras = ipu.keras
local L <const>, random <const> = keras.layers, math.random

local files = {}

local function pick(list) return list[random(#list)] end

-- ------------------------------------------------ a script's own

local Scale = L.Layer:extend("OwnScale")
function Scale:init(o)
  L.Layer.init(self, {name = o and o.name, dtype = o and o.dtype})
  self.factor = o and o.factor or 2
end
function Scale:build(shape)
  self.w = self:add_weight{name = "w", shape = {shape[#shape]}, initializer = "ones"}
  self.count = self:add_weight{name = "count", shape = {}, initializer = "zeros", trainable = false}
end
function Scale:call(x) return x * self.w * self.factor end
function Scale:get_config()
  local config = L.Layer.get_config(self)
  config.factor = self.factor
  return config
end

-- A layer that wraps another one, which it makes again from its configuration.
local Twice = L.Wrapper:extend("OwnTwice")
function Twice:call(x, o) return self.layer(x, o) + self.layer(x, o) end

local function own_activation(x) return ipu.tanh(x) * 0.5 + x end
local function own_function(x, o) return x * (o and o.alpha or 0.5) end
for name, f in pairs{own_activation = own_activation, own_function = own_function} do
  keras.utils.register_keras_serializable(f, {name = name})
end

files.custom_objects = {OwnScale = Scale, OwnTwice = Twice}

-- ------------------------------------------------ layers with random arguments

-- Of several replicas, or of pipelines alone.
local left_out <const> = {AssumeEqualAcrossReplicas = true, RecomputationCheckpoint = true}
local names = {}
for name in pairs(layers.classes()) do
  if layers.samples[name] and not left_out[name] then names[#names + 1] = name end
end
table.sort(names)
files.names = names

local policies <const> = {"float32", "float32", "float32", "mixed_float16", "mixed_bfloat16",
  "float16", "float64"}

local function arguments_of(name, c)
  local more = {}
  for _, row in ipairs(c.argument_rows) do
    if random(5) == 1 and row[1] ~= "dtype" then
      local kind = type(row[2]) == "string" and row[2] or nil
      local value = layers.unlike(name, row, kind)
      if value ~= nil then
        more[row[1]] = value
        for key, each in pairs(layers.beside[name .. "." .. row[1]] or {}) do more[key] = each end
      end
    end
  end
  if random(4) == 1 then more.activation = more.activation and own_activation end
  if random(8) == 1 then more.trainable = false end
  if name == "Lambda" then more.func, more.mask = own_function, nil end
  return layers.arguments(name, more)
end

-- A layer that its class takes, and that runs: not all values go together.
local function random_layer(name)
  local c = L[name]
  for _ = 1, 12 do
    local given = arguments_of(name, c)
    local policy = layers.samples[name].dtype and "float32" or pick(policies)
    if random(2) == 1 then given.dtype = policy end
    given.name = given.name and "another_" .. random(1000000) or nil
    local ok, layer = pcall(c, given)
    if ok then
      local x = layers.inputs(name)
      local runs, y = pcall(layers.call, name, layer, x, {training = false})
      if runs then return layer, x, y end
    end
  end
  return nil
end
files.random_layer = random_layer

-- ------------------------------------------------ models

-- The batch's extent is known or not; samples that call a layer with a mask want to know it.
local function symbols_of(name, x, serial)
  local list, knows = {}, layers.samples[name].call ~= nil or random(3) == 1
  for i, t in ipairs(ipu.is_tensor(x) and {x} or x) do
    list[i] = keras.Input{batch_shape = {knows and t.shape[1] or -1,
      table.unpack(t.shape, 2)}, dtype = t.dtype, name = ("x%d_%d"):format(serial, i)}
  end
  return ipu.is_tensor(x) and list[1] or list
end

local function each_tensor(y, out)
  if ipu.is_tensor(y) or KerasTensor.is(y) then out[#out + 1] = y
  else for _, each in ipairs(y) do each_tensor(each, out) end end
  return out
end

local function wrapped(symbols, call)
  local outputs = call(symbols)
  return keras.Model{inputs = symbols, outputs = outputs}
end

-- The use of a layer: called, called twice (shared), called in a model inside of this one.
local function use(name, layer, x, serial)
  local symbols = symbols_of(name, x, serial)
  local function call(given) return layers.call(name, layer, given, {}) end
  local form = random(6)
  if form == 1 then
    local again = symbols_of(name, x, serial + 50)
    return {symbols, again}, {call(symbols), call(again)}, {x, x}
  elseif form == 2 then
    local inner = wrapped(symbols_of(name, x, serial + 20), call)
    return {symbols}, {inner(symbols)}, {x}
  elseif form == 3 then
    local inner = wrapped(symbols_of(name, x, serial + 20), call)
    local outer = wrapped(symbols_of(name, x, serial + 30), function(given) return inner(given) end)
    return {symbols}, {outer(symbols)}, {x}
  end
  return {symbols}, {call(symbols)}, {x}
end

local function flattened(list)
  local out = {}
  for _, each in ipairs(list) do each_tensor(each, out) end
  return out
end

-- Behind it: something that sees a mask, a script's own layer, an op, or nothing.
local function behind(y)
  if not y.dtype:find("float") or #y.shape < 2 then return y end
  return pick{
    function() return y end, function() return y end,
    function() return Scale{factor = random(3)}(y) end,
    function() return y * 2 + 1 end,
    function() return L.Activation(own_activation)(y) end,
    function()
      if #y.shape ~= 3 or y.shape[2] < 1 or y.shape[3] < 1 then return y end
      return pick{L.GRU(2), L.GlobalAveragePooling1D(),
        L.Bidirectional(L.LSTM{2, return_sequences = true}),
        L.TimeDistributed(Twice(L.Dense(2)))}(y)
    end,
  }()
end

---A random model, what it takes, and the names of its layers' classes.
function files.build(seed)
  math.randomseed(seed)
  ipu.random.set_seed(seed)
  local symbols, results, values, used = {}, {}, {}, {}
  for i = 1, random(1, 3) do
    local name = names[(seed * 3 + i) % #names + 1]
    local layer, x = random_layer(name)
    if layer then
      used[#used + 1] = name
      local ok, s, y, given = pcall(use, name, layer, x, i)
      if not ok then error(("seed %d, %s: %s"):format(seed, name, s), 0) end
      for _, each in ipairs(flattened(s)) do symbols[#symbols + 1] = each end
      for _, each in ipairs(flattened(given)) do values[#values + 1] = each end
      for _, each in ipairs(flattened(y)) do results[#results + 1] = behind(each) end
    end
  end
  if #results == 0 then return nil end
  local model = keras.Model{inputs = symbols, outputs = results}
  for _, v in ipairs(model.weights) do -- none stays as it was initialised
    if v.dtype:find("float") and #v.shape > 0 then
      v:assign(v + ipu.cast(ipu.random.uniform(v.shape, {minval = 0, maxval = 0.25}), v.dtype))
    end
  end
  return model, values, used
end

-- ------------------------------------------------ text of what must come back

local function text(value)
  local out = {}
  for i, t in ipairs(each_tensor(value, {})) do
    out[i] = t.dtype .. "[" .. table.concat(t.shape, ",") .. "]"
      .. core.text_hash(core.to_bytes(t))
  end
  return table.concat(out, " ")
end

---What a model is, in text.
function files.described(model, values)
  local function answer()
    return text(model(#values == 1 and values[1] or values, {training = false}))
  end
  local flags = {}
  for i, layer in ipairs(model.layers) do
    flags[i] = layer.name .. (layer.trainable and "+" or "-") .. tostring(layer.stateful)
      .. tostring(layer.compute_dtype) .. #layer.trainable_weights
  end
  local config = model:to_json()
  model:reset_states() -- the layers were tried before
  return {first = answer(), second = answer(), weights = text(model:get_weights()),
    config = config, flags = table.concat(flags, " ")}
end

local function difference(wanted, got)
  for _, key in ipairs{"config", "flags", "weights", "first", "second"} do
    if wanted[key] ~= got[key] then
      return ("%s: %s\n  now: %s"):format(key, wanted[key], got[key])
    end
  end
end

-- ------------------------------------------------ the two processes

local function values_of(folder, seed)
  local named, list = ipu.load(folder .. "/" .. seed .. "-values.npz"), {}
  while named["v" .. #list + 1] do list[#list + 1] = named["v" .. #list + 1] end
  return list
end

local formats <const> = {".safetensors", ".npz"}

---Saves the model of a seed in each form. Returns the classes, or nil and why not.
function files.write(folder, seed)
  local model, values, used = files.build(seed)
  if not model then return nil end
  local path, named = folder .. "/" .. seed, {}
  for i, t in ipairs(values) do named["v" .. i] = t end
  ipu.save(path .. "-values.npz", named)
  local optimizer = keras.optimizers.Adam{0.01}
  model:compile{optimizer = optimizer, loss = "mse"}
  if #model.trainable_variables > 0 then optimizer:build(model.trainable_variables) end
  model:save(path .. ".safetensors")
  command.write(path .. ".json", model:to_json())
  for _, ending in ipairs(formats) do model:save_weights(path .. "-weights" .. ending) end
  ipu.train.Checkpoint{model = model}:save(path .. "-checkpoint")
  command.write(path .. "-wanted.json", ipu.json.encode(files.described(model, values)))
  return used
end

---What is wrong with the model of a seed in a process that didn't make it.
function files.read(folder, seed)
  local path, found = folder .. "/" .. seed, {}
  local wanted = ipu.json.decode(command.read(path .. "-wanted.json"))
  local values = values_of(folder, seed)
  local function from_json()
    return keras.models.model_from_json(command.read(path .. ".json"), files.custom_objects)
  end
  local forms = {
    model = function()
      return keras.models.load_model(path .. ".safetensors", files.custom_objects)
    end,
    checkpoint = function()
      local model = from_json()
      ipu.train.Checkpoint{model = model}:restore(path .. "-checkpoint")
      return model
    end,
    clone = function()
      local model = keras.models.load_model(path .. ".safetensors", files.custom_objects)
      local again = keras.models.clone_model(model)
      again:set_weights(model:get_weights())
      return again
    end,
  }
  for _, ending in ipairs(formats) do
    forms["weights" .. ending] = function()
      local model = from_json()
      model:load_weights(path .. "-weights" .. ending)
      return model
    end
  end
  for name, form in pairs(forms) do
    local ok, problem = pcall(function()
      return difference(wanted, files.described(form(), values))
    end)
    if not ok or problem then
      found[#found + 1] = ("seed %d, %s: %s"):format(seed, name, problem)
    end
  end
  return found
end

if arg and arg[0] and arg[0]:find("layer_files.lua", 1, true) then
  local mode, folder, first, last = table.unpack(arg)
  local wrong, count = 0, 0
  for seed = math.tointeger(first), math.tointeger(last) do
    if mode == "write" then
      local ok, used = pcall(files.write, folder, seed)
      if not ok then
        wrong = wrong + 1
        print(("seed %d can't be written: %s"):format(seed, used))
      elseif used then
        count = count + 1
      end
    elseif core.file_exists(folder .. "/" .. seed .. "-wanted.json") then
      local problems = files.read(folder, seed)
      count = count + 1
      wrong = wrong + #problems
      for _, problem in ipairs(problems) do print(problem) end
    end
  end
  print(("%d models, %d problems"):format(count, wrong))
end

return files
