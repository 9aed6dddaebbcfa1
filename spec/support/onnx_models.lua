-- Random functional graphs, as onnx.export writes them for any batch. They have layers of every
-- family, merges, several inputs and outputs, and layers and models that are used twice. Some have
-- models in models, own functions, or odd names.

local command = require "spec.support.command"
local exports = require "spec.support.onnx_exports"
local ipu = require "ipulua"

local keras = ipu.keras
local L = keras.layers

local models = {}

local state = 1
local function below(n) -- 0 … n - 1
  state = (state * 6364136223846793005 + 1442695040888963407) & math.maxinteger
  return (state >> 33) % n
end
local function pick(list) return list[below(#list) + 1] end
local function maybe(n) return below(n or 2) == 0 end

local odd_names <const> = {"a/b", "x y", "é", "0", "a:0", "a.b", "x-1", "tensor", "y1", "input",
  "\u{1F600}", "a\\b", 'q"t', "%s", "n1"}
local activations <const> = {"relu", "tanh", "sigmoid", "elu", "selu", "gelu", "softplus",
  "softsign", "swish", "hard_sigmoid", "exponential", "linear", "softmax"}

local function padding() return pick{"same", "valid"} end
local function size(most) return below(most) + 1 end

-- ------------------------------------------------ layers, by the rank of what they take

local any <const> = {
  function() return L.Activation(pick(activations)) end,
  function() return L.LeakyReLU(0.2) end,
  function(rank) return L.PReLU{shared_axes = rank > 1 and maybe() and {1} or nil} end,
  function()
    return L.ReLU{max_value = maybe() and 1 or nil, negative_slope = maybe() and 0.1 or 0,
      threshold = maybe(3) and 0.2 or 0}
  end,
  function(rank) return L.Softmax{axis = rank > 1 and maybe() and 1 or -1} end,
  function(rank)
    return L.BatchNormalization{axis = size(rank), scale = maybe(), center = maybe()}
  end,
  function() return L.LayerNormalization{axis = pick{-1, 1}} end,
  function() return L.Dense{size(5), activation = pick(activations), use_bias = maybe()} end,
  function() return L.Dropout(0.4) end, function() return L.Rescaling{1.7, offset = 0.1} end,
  function() return L.Flatten() end,
}

local by_rank <const> = {
  {function() return L.RepeatVector(below(3) + 2) end},
  {
    function() return L.Permute{2, 1} end, function() return L.GlobalAveragePooling1D() end,
    function() return L.GlobalMaxPooling1D{keepdims = maybe()} end,
    function() return L.LSTM{size(4), return_sequences = maybe(), go_backwards = maybe(3)} end,
    function() return L.GRU{size(4), return_sequences = maybe(), reset_after = maybe()} end,
    function() return L.SimpleRNN{size(4), return_sequences = maybe()} end,
    function()
      return L.Bidirectional(pick{L.LSTM, L.GRU}{2, return_sequences = maybe()},
        {merge_mode = pick{"concat", "sum", "ave", "mul"}})
    end,
    function() return L.TimeDistributed(L.Dense(3)) end,
    function() return L.ZeroPadding1D{{below(2), size(2)}} end,
    function() return L.UpSampling1D(2) end,
    function()
      return L.Conv1D{size(4), size(3), strides = size(2), padding = pick{"same", "valid",
        "causal"}}
    end,
    function() return L.MaxPooling1D{2, strides = size(2), padding = padding()} end,
    function() return L.AveragePooling1D{3, strides = size(2), padding = padding()} end,
    function() return L.Conv1DTranspose{2, size(3), strides = size(2), padding = padding()} end,
  },
  {
    function() return L.Permute{3, 1, 2} end,
    function() return L.GlobalAveragePooling2D{keepdims = maybe()} end,
    function() return L.ZeroPadding2D{{{below(2), below(2)}, {below(2), 1}}} end,
    function()
      return L.UpSampling2D{{size(2), 2}, interpolation = pick{"nearest", "bilinear"}}
    end,
    function()
      return L.Conv2D{size(4), {size(3), size(2)}, strides = size(2), padding = padding(),
        activation = pick(activations)}
    end,
    function() return L.Conv2D{2, 2, dilation_rate = 2, padding = "same"} end,
    function()
      return L.DepthwiseConv2D{size(2) + 1, strides = size(2), padding = padding(),
        depth_multiplier = size(2)}
    end,
    function() return L.SeparableConv2D{2, 2, padding = "same"} end,
    function()
      return L.Conv2DTranspose{size(3), size(3), strides = size(2), padding = padding()}
    end,
    function() return L.MaxPooling2D{{2, size(2)}, strides = size(2), padding = padding()} end,
    function() return L.AveragePooling2D{3, strides = size(2), padding = padding()} end,
    function()
      return L.Resizing{below(5) + 2, below(5) + 2, interpolation = pick{"bilinear", "nearest"}}
    end,
    function() return L.CenterCrop(2, 2) end,
  },
}

local functions <const> = {
  function(x) return ipu.sin(x) * 2 end, function(x) return ipu.reverse(x, 1) end,
  function(x) return ipu.reduce_sum(x, {axis = -1, keepdims = true}) end,
  function(x) return x + ipu.sqrt(ipu.constant(2.0)) * 0.5 end,
  function(x) return ipu.cumsum(x, {axis = 1}) end,
  function(x) return ipu.where(ipu.greater(x, 0.1), x, -x) end,
  function(x) return ipu.cast(ipu.argmax(x, {axis = -1}), "float32") end,
  function(x) return ipu.concat({x, x * 2}, {axis = 1}) end,
  function(x) return ipu.clip_by_value(x, -0.3, 0.3) end,
  function(x) return ipu.expand_dims(ipu.reduce_max(x, {axis = 1}), 1) end,
}
local merges <const> = {"Add", "Subtract", "Multiply", "Average", "Maximum", "Minimum"}

-- ------------------------------------------------ graphs

local function same_shape(a, b) return table.concat(a.shape, ",") == table.concat(b.shape, ",") end

local function merged(t, pool)
  local like = {}
  for _, each in ipairs(pool) do
    if same_shape(each, t) then like[#like + 1] = each end
  end
  local other = pick(like)
  if maybe(3) then return L.Concatenate{axis = size(#t.shape - 1)}{t, other} end
  if maybe(3) and #t.shape > 2 then return L.Dot{axes = pick{-1, 1}}{t, other} end
  return L[pick(merges)](){t, other}
end

local function attended(t)
  local kind = below(3)
  if kind == 0 then return L.MultiHeadAttention{2, 3}(t, t, {use_causal_mask = maybe()}) end
  return kind == 1 and L.Attention{use_scale = maybe()}{t, t} or L.AdditiveAttention(){t, t}
end

local grow

local function nested(t, depth)
  local x = keras.Input{shape = {table.unpack(t.shape, 2)}}
  local inner = grow({x}, depth + 1)
  return keras.Model{inputs = x, outputs = inner[#inner]}
end

-- The next tensor, of a layer that may take it: what doesn't fit is refused, and another is drawn.
local function step(t, pool, twice, depth)
  local kind, rank = below(10), #t.shape - 1
  if kind == 0 then return merged(t, pool) end
  if kind == 1 and twice[1] then return pick(twice)(t) end
  if kind == 2 and depth < 2 then
    twice[#twice + 1] = nested(t, depth)
    return twice[#twice](t)
  end
  if kind == 3 then return L.Lambda(pick(functions))(t) end
  if kind == 4 and rank == 2 then return attended(t) end
  local layer = pick(maybe(3) and any or by_rank[rank] or any)(rank)
  if maybe(4) then twice[#twice + 1] = layer end
  return layer(t)
end

function grow(inputs, depth)
  local pool, twice = table.move(inputs, 1, #inputs, 1, {}), {}
  for _ = 1, below(7) + 3 do
    local ok, y = pcall(step, pick(pool), pool, twice, depth)
    local count = 1
    for i = 2, ok and #y.shape or 0 do count = count * y.shape[i] end
    if ok and #y.shape > 1 and count > 0 and count < 4000 then pool[#pool + 1] = y end
  end
  return pool
end

local shapes <const> = {{4}, {5, 3}, {6, 5, 2}, {7}, {4, 4, 1}, {8, 2}}

local function drawn_model()
  local inputs, outputs, taken = {}, {}, {}
  for k = 1, size(2) do
    local name = maybe() and pick(odd_names) or "x" .. k
    inputs[k] = keras.Input{shape = pick(shapes), name = taken[name] and "x" .. k or name}
    taken[name] = true
  end
  local pool = grow(inputs, 0)
  for _ = 1, size(3) do
    local y = pool[#pool - below(math.min(4, #pool))]
    if not taken[y] then outputs[#outputs + 1] = y end
    taken[y] = true
  end
  local model = keras.Model{inputs = inputs, outputs = outputs}
  local weights = {}
  for i, w in ipairs(model:get_weights()) do
    weights[i] = ipu.random.uniform(w.shape, {minval = 0.1, maxval = 0.9, seed = i})
  end
  model:set_weights(weights)
  return model
end

---Writes `count` models into a folder, and cases.json for onnx_run.js.
---@return table[] cases {file =, inputs =, fed =, wanted =}
---@return string[] problems with what the files give when they are read again
function models.write(folder, seed, count)
  state = seed * 104729 + 71
  for _ = 1, 7 do below(2) end
  local cases, told, problems = {}, {}, {}
  for i = 1, count do
    local model, fed, inputs = drawn_model(), {}, {}
    local batch = size(3)
    for k, input in ipairs(model.inputs) do
      local shape = {batch, table.unpack(input.shape, 2)}
      fed[k] = ipu.random.uniform(shape, {minval = -1, maxval = 1, seed = 10 * i + k})
      inputs[k] = {name = input.layer.name, shape = shape, dtype = "float32",
        data = fed[k]:reshape{-1}:totable()}
    end
    local wanted = model(fed, {training = false})
    cases[i] = {file = i .. ".onnx", fed = fed, inputs = inputs,
      wanted = ipu.is_tensor(wanted) and {wanted} or wanted}
    told[i] = {file = cases[i].file, inputs = inputs}
    local ok, problem = pcall(function()
      keras.onnx.export(model, folder .. "/" .. cases[i].file)
      return exports.differs(cases[i], folder .. "/" .. cases[i].file)
    end)
    if problem then
      problems[#problems + 1] = ("seed %d, model %d: %s%s"):format(seed, i,
        ok and "" or "refused: ", problem)
    end
  end
  command.write(folder .. "/cases.json", ipu.json.encode(told))
  return cases, problems
end

return models
