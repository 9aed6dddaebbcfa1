-- Random layers inside of wrappers, beside the same layers called by themselves: at each step, and
-- on the sequence and its reverse. Eagerly, compiled, in a model and in one that was saved and
-- loaded.

local chains = require "spec.support.dataset_chains"
local command = require "spec.support.command"
local class = require "ipulua.base.class"
local ipu = require "ipulua"

local keras = ipu.keras
local layers = keras.layers

local wrapped = {}

local function choose(random, list) return list[random(#list) + 1] end

local function again(layer)
  local config = layer:get_config()
  config.name = nil
  return class.of(layer):from_config(config)
end

-- x[:, i]
local function step_of(x, axis, i)
  local begin, size = {}, {}
  for k, extent in ipairs(x.shape) do begin[k], size[k] = 0, extent end
  begin[axis + 1], size[axis + 1] = i, 1
  return ipu.squeeze(ipu.slice(x, begin, size), {axis = axis})
end

-- ------------------------------------------------ TimeDistributed

local inner <const> = {
  vector = {
    function(random) return layers.Dense(random(4) + 1, {activation = "tanh"}) end,
    function() return layers.LayerNormalization() end, function() return layers.Reshape{-1, 1} end,
    function() return layers.Activation "softmax" end, function() return layers.RepeatVector(2) end,
    function()
      return layers.PReLU() end, function() return layers.Lambda(function(x) return x * 2 end)
    end,
  },
  sequence = {
    function(random) return layers.LSTM(random(4) + 1) end,
    function(random) return layers.GRU{random(4) + 1, return_sequences = true} end,
    function(random) return layers.TimeDistributed(layers.Dense(random(4) + 1)) end,
    function(random) return layers.Bidirectional(layers.SimpleRNN(random(3) + 1)) end,
    function(random) return layers.Conv1D(random(3) + 1, 2) end,
    function() return layers.GlobalMaxPooling1D() end, function() return layers.Flatten() end,
    function() return layers.Permute{2, 1} end, function() return layers.Cropping1D(1) end,
  },
}

local function time_distributed(random)
  local kind = choose(random, {"vector", "sequence"})
  local steps, shape = random(5) + 1, {random(3) + 1, 0}
  shape[2] = steps
  for _ = 1, kind == "vector" and 1 or 2 do shape[#shape + 1] = random(4) + 3 end
  local layer = choose(random, inner[kind])(random)
  local wrapper = layers.TimeDistributed(layer)
  return wrapper, shape, function(x)
    local list = {}
    for i = 1, steps do list[i] = layer(step_of(x, 1, i - 1)) end
    return {ipu.stack(list, {axis = 1})}
  end
end

-- ------------------------------------------------ Bidirectional

local function recurrent(random, o)
  local units = random(4) + 1
  return choose(random, {
    function() return layers.LSTM(units, o) end, function() return layers.GRU(units, o) end,
    function() return layers.SimpleRNN(units, o) end,
    function() return layers.RNN(layers.GRUCell(units), o) end,
    function()
      return layers.RNN(layers.StackedRNNCells{layers.LSTMCell(units), layers.SimpleRNNCell(2)}, o)
    end,
  })()
end

local function reversed(x, axis) return ipu.reverse(x, axis) end

local merges <const> = {
  concat = function(a, b) return {ipu.concat({a, b}, {axis = -1})} end,
  sum = function(a, b) return {a + b} end, mul = function(a, b) return {a * b} end,
  ave = function(a, b) return {(a + b) / 2} end, none = function(a, b) return {a, b} end,
}

local function bidirectional(random)
  local o = {return_sequences = random(2) == 0, return_state = random(2) == 0,
    go_backwards = random(4) == 0}
  local merge = choose(random, {"concat", "sum", "mul", "ave", "none"})
  local shape = {random(3) + 1, random(5) + 1, random(3) + 1}
  local wrapper = layers.Bidirectional(recurrent(random, o), {merge_mode = merge})
  return wrapper, shape, function(x, mask)
    -- each by itself, as a layer that goes forwards over what it is to see
    local function one(layer)
      local plain = again(layer)
      plain:build(x.shape)
      plain:set_weights(layer:get_weights())
      return table.pack(plain(x, {mask = mask}))
    end
    local a, b = one(wrapper.forward_layer), one(wrapper.backward)
    local y, z = a[1], b[1]
    if o.return_sequences then z = reversed(z, 1) end
    local out = merges[merge](y, z)
    for i = 2, o.return_state and a.n or 1 do out[#out + 1] = a[i] end
    for i = 2, o.return_state and b.n or 1 do out[#out + 1] = b[i] end
    return out
  end, true
end

-- ------------------------------------------------ the comparison

local function flat(list)
  local out = {}
  for _, t in ipairs(list) do
    out[#out + 1] = "[" .. table.concat(t.shape, ", ") .. "]"
    for _, v in ipairs(ipu.reshape(t, {-1}):totable()) do out[#out + 1] = v end
  end
  return out
end

local function difference(got, want)
  got, want = flat(got), flat(want)
  if #got ~= #want then return #got .. " numbers for " .. #want end
  for i, b in ipairs(want) do
    local a = got[i]
    local near = a == b or type(b) ~= "string" and math.abs(a - b) <= 1e-5 + 1e-4 * math.abs(b)
    if not near then
      return string.format("number %d is %s, not %s", i, tostring(a), tostring(b))
    end
  end
end

local function loaded(model)
  local path = command.scratch ".safetensors"
  model:save(path)
  local other = keras.models.load_model(path)
  os.remove(path)
  return other
end

---Runs a case: a list of what is wrong, and its text.
function wrapped.check(seed)
  local random = chains.random_of(seed * 7919 + 5)
  for _ = 1, 5 do random(2) end
  keras.utils.set_random_seed(seed)
  local wrapper, shape, by_hand, masked = choose(random, {time_distributed, bidirectional})(random)
  local x = ipu.random.normal(shape, {seed = seed})
  local mask
  if masked and random(2) == 0 then
    mask = ipu.greater(ipu.random.uniform({shape[1], shape[2]}, {seed = seed}), 0.4)
  end
  local o = {mask = mask}
  local eager = table.pack(wrapper(x, o))
  local want, wrong = by_hand(x, mask), {}
  local forms = {
    eager = function() return eager end,
    compiled = function()
      return table.pack(ipu.func(function(t) return wrapper(t, o) end)(x))
    end,
    ["made again"] = function()
      local other = again(wrapper)
      other:build(x.shape)
      other:set_weights(wrapper:get_weights())
      return table.pack(other(x, o))
    end,
  }
  local is_own = wrapper.layer and class.is_a(wrapper.layer, layers.Lambda)
  if not mask then
    local input = keras.Input{shape = table.move(shape, 2, #shape, 1, {})}
    local outputs = table.pack(wrapper(input))
    outputs.n = nil
    local model = keras.Model(input, #outputs == 1 and outputs[1] or outputs)
    local function predicted(m)
      local y = m:predict(x)
      return type(y) == "table" and not y.totable and y or {y}
    end
    forms.model = function() return predicted(model) end
    forms.loaded = not is_own and function() return predicted(loaded(model)) end or nil
  end
  for form, f in pairs(forms) do
    local fine, result = pcall(f)
    local problem = not fine and tostring(result) or difference(result, want)
    if problem then wrong[#wrong + 1] = form .. ": " .. problem end
  end
  local held = wrapper.layer or wrapper.forward_layer
  return wrong, string.format("seed %d: %s of %s, [%s]%s", seed, wrapper.__name, tostring(held),
    table.concat(shape, ", "), mask and ", masked" or "")
end

return wrapped
