-- Random models, compiled and trained a little, through every kind of file that can hold them. Each
-- file brings back the same bits, and training goes on to the same bits. An ONNX file computes the
-- same. problems(seed, folder) gives what is wrong with one model.

local exports = require "spec.support.onnx_exports"
local ipu = require "ipulua"

local keras = ipu.keras
local L <const>, random <const> = keras.layers, math.random

local function pick(list) return list[random(#list)] end

local serial = 0
-- Often with a name of its own, often without: then it differs when the model is built again.
local function named(t)
  serial = serial + 1
  if random(2) == 1 then t.name = pick{"own", "block", "a", "layer"} .. "_" .. serial end
  if random(6) == 1 then t.trainable = false end
  return t
end

local function activation()
  return pick{"relu", "tanh", "sigmoid", "gelu", "elu", "softplus", "linear"}
end

-- ------------------------------------------------ parts, [batch, features] to the same

local function dense(x)
  return L.Dense(named{random(2, 7), activation = activation(), use_bias = random(3) > 1})(x)
end

local function norm(x)
  return pick{L.BatchNormalization, L.LayerNormalization}(named{epsilon = pick{1e-3, 1e-5}})(x)
end

local function twice(x) -- a shared layer
  local layer = L.Dense(named{x.shape[2], activation = "tanh"})
  return layer(layer(x))
end

local function residual(x)
  return pick{L.Add, L.Average, L.Maximum, L.Multiply}()({x, L.Dense(named{x.shape[2],
    activation = activation()})(x)})
end

local function nested(x)
  return keras.Sequential{L.Dense(named{3, input_shape = {x.shape[2]}}),
    L.BatchNormalization(named{}), L.Dense(named{random(2, 5)})}(x)
end

local function branches(x)
  return L.Concatenate{axis = -1}{L.Dense(named{2})(x), L.Dense(named{3, activation = "relu"})(x),
    x}
end

local function recurrent(x)
  local n = x.shape[2]
  local y = L.Reshape{{n, 1}}(x)
  local rnn = pick{L.LSTM, L.GRU, L.SimpleRNN}(named{random(2, 4), go_backwards = random(2) == 1})
  if random(3) == 1 then rnn = L.Bidirectional{rnn, merge_mode = pick{"concat", "sum", "ave"}} end
  return rnn(y)
end

local function image(x)
  local n = x.shape[2]
  local y = L.Reshape{{n, 2, 1}}(L.Concatenate{axis = -1}{x, x})
  y = pick{
    function() return L.Conv2D(named{3, 2, padding = "same", activation = "relu"})(y) end,
    function() return L.DepthwiseConv2D(named{2, padding = "same", depth_multiplier = 2})(y) end,
    function() return L.Conv2DTranspose(named{2, 2, strides = 2, padding = pick{"same",
      "valid"}})(y) end,
    function() return L.SeparableConv2D(named{3, {2, 1}, padding = "same"})(y) end,
  }()
  if random(2) == 1 then y = L.BatchNormalization(named{axis = pick{-1, 3}})(y) end
  if random(2) == 1 then
    y = pick{L.MaxPooling2D, L.AveragePooling2D}{{2, 1}, padding = "same"}(y)
  end
  return pick{L.Flatten(), L.GlobalAveragePooling2D(), L.GlobalMaxPooling2D()}(y)
end

local function spread(x) -- over a time axis
  local y = L.RepeatVector(3)(x)
  y = L.TimeDistributed{L.Dense(named{2, activation = "tanh"})}(y)
  return L.Flatten()(pick{L.Permute{{2, 1}}, L.ZeroPadding1D(1), L.Cropping1D{{1, 0}},
    L.UpSampling1D(2)}(y))
end

local parts <const> = {dense, dense, norm, twice, residual, nested, branches, recurrent, image,
  spread}

-- ------------------------------------------------ models

-- The same model for the same seed, but for the names that layers give themselves.
local function build(seed)
  math.randomseed(seed)
  serial = 0
  local inputs = {keras.Input{shape = {random(2, 5)}, name = "x"}}
  if random(3) == 1 then inputs[2] = keras.Input{shape = {random(2, 4)}, name = "z"} end
  local x = inputs[2] and L.Concatenate(){inputs[1], inputs[2]} or inputs[1]
  for _ = 1, random(1, 4) do x = pick(parts)(x) end
  local outputs = {L.Dense(1)(x)} -- never frozen: something is trained
  if random(3) == 1 then outputs[2] = L.Dense(named{2, activation = "sigmoid"})(x) end
  return keras.Model{inputs = #inputs == 1 and inputs[1] or inputs, outputs = #outputs == 1
    and outputs[1] or outputs}
end

local function compile(model, seed)
  math.randomseed(seed)
  local rate = pick{0.01, 0.125, keras.optimizers.schedules.ExponentialDecay{0.05, 3, 0.5}}
  local optimizer = pick{
    function() return keras.optimizers.SGD{rate, momentum = pick{0.0, 0.9},
      nesterov = random(2) == 1} end,
    function() return keras.optimizers.Adam{rate, amsgrad = random(2) == 1} end,
    function() return keras.optimizers.RMSprop{rate, centered = random(2) == 1} end,
    function() return keras.optimizers.Nadam{0.01} end,
    function() return keras.optimizers.Adagrad{rate, clipnorm = 1.0} end,
    function() return keras.optimizers.Ftrl{rate} end,
  }()
  local several = #model.outputs > 1
  model:compile{optimizer = optimizer, loss = pick{"mse", "mae", "huber"}, metrics = {"mae"},
    loss_weights = several and {1.0, 0.5} or nil}
end

local function data_of(model)
  local function values(t, i)
    return ipu.random.normal({12, table.unpack(t.shape, 2)}, {seed = i})
  end
  local x, y = {}, {}
  for i, t in ipairs(model.inputs) do x[i] = values(t, i) end
  for i, t in ipairs(model.outputs) do y[i] = values(t, 10 + i) end
  return #x == 1 and x[1] or x, #y == 1 and y[1] or y
end

local function fit(model, x, y)
  return model:fit{x, y, batch_size = 4, epochs = 2, shuffle = false, verbose = 0}
end

local function bytes_of(value)
  if ipu.is_tensor(value) then
    return value.dtype .. tostring(value:totable()) .. require "ipulua.core".to_bytes(value)
  end
  local list = {}
  for i, each in ipairs(value) do list[i] = bytes_of(each) end
  return table.concat(list, "|")
end

-- ------------------------------------------------ files

local function weights_are(model, wanted, what)
  local got = model:get_weights()
  if #got ~= #wanted then return ("%s: %d weights instead of %d"):format(what, #got, #wanted) end
  for i, t in ipairs(wanted) do
    local problem = exports.difference(t, got[i])
    if problem or bytes_of(t) ~= bytes_of(got[i]) then
      return ("%s: weight %d: %s"):format(what, i, problem or "other bits")
    end
  end
end

local forms = {}

function forms.save(model, _, path)
  model:save(path .. ".safetensors")
  return keras.models.load_model(path .. ".safetensors"), true
end

function forms.json(model)
  local again = keras.models.model_from_json(model:to_json())
  again:set_weights(model:get_weights())
  return again
end

function forms.clone(model)
  local again = keras.models.clone_model(model)
  again:set_weights(model:get_weights())
  return again
end

for _, ending in ipairs{".safetensors", ".npz"} do
  forms["weights" .. ending] = function(model, seed, path)
    model:save_weights(path .. "-weights" .. ending)
    local again = build(seed)
    again:load_weights(path .. "-weights" .. ending)
    return again
  end
end

function forms.checkpoint(model, seed, path)
  ipu.train.Checkpoint{model = model}:save(path .. "-checkpoint")
  local again = build(seed)
  compile(again, seed)
  ipu.train.Checkpoint{model = again}:restore(path .. "-checkpoint")
  return again, true
end

local function onnx(model, x, wanted, path)
  keras.onnx.export(model, path .. ".onnx")
  local again = keras.onnx.import(path .. ".onnx")(x)
  if ipu.is_tensor(again) then again = {again} end
  for i, t in ipairs(ipu.is_tensor(wanted) and {wanted} or wanted) do
    local problem = exports.difference(t, again[i])
    if problem then return "onnx: " .. problem end
  end
end

local function problems(seed, folder)
  local found, path = {}, folder .. "/" .. seed
  local model = build(seed)
  compile(model, seed)
  local x, y = data_of(model)
  fit(model, x, y)
  local before = bytes_of(model:predict(x))
  local weights, trained = model:get_weights(), {}
  local y_of_file = model(x, {training = false})
  found[1] = onnx(model, x, y_of_file, path)
  for name, form in pairs(forms) do
    local ok, again, has_optimizer = pcall(form, model, seed, path)
    if not ok then found[#found + 1] = name .. ": " .. tostring(again)
    else
      found[#found + 1] = weights_are(again, weights, name)
      if bytes_of(again:predict(x)) ~= before then
        found[#found + 1] = name .. ": predicts other bits"
      end
      for i, v in ipairs(again.trainable_variables) do
        if #again.trainable_variables ~= #model.trainable_variables or table.concat(v.shape, ",")
          ~= table.concat(model.trainable_variables[i].shape, ",") then found[#found + 1] = name
            .. ": trains other weights" break end
      end
      if has_optimizer then trained[name] = again end
    end
  end
  fit(model, x, y)
  for name, again in pairs(trained) do
    fit(again, x, y)
    found[#found + 1] = weights_are(again, model:get_weights(), name .. ", trained on")
  end
  return found
end

return {problems = problems, build = build, compile = compile, data_of = data_of}
