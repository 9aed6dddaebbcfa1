-- ONNX files: what is exported is run elsewhere (NumPy by the operators' definitions; onnxruntime,
-- where it is there) and read back.
local ipu = require "ipulua"
local command = require "spec.support.command"

local keras, layers = ipu.keras, ipu.keras.layers
local TOLERANCE <const> = 1e-5
keras.utils.set_random_seed(1) -- one of the models is trained on: not from any weights

-- name, shape without the batch, layers, whether NumPy's evaluator knows its nodes, dtype
local chains <const> = {
  {"dense", {8}, {layers.Dense{5, activation = "relu"}, layers.Dense{3, activation = "softmax"}},
    true},
  {"cnn", {8, 8, 2}, {layers.Conv2D{4, 3, padding = "same", activation = "relu"},
    layers.BatchNormalization(), layers.MaxPooling2D(2),
    layers.Conv2D{4, 3, strides = 2, groups = 2}, layers.Flatten(), layers.Dropout(0.5),
    layers.Dense{3}}, true},
  {"conv1d", {9, 4}, {layers.Conv1D{4, 3, padding = "causal"}, layers.LayerNormalization(),
    layers.MaxPooling1D(2),
    layers.GlobalAveragePooling1D()}, true},
  {"dilated", {9, 7, 4}, {layers.Conv2D{6, {3, 2}, dilation_rate = 2}, layers.Activation("tanh")},
    true},
  {"conv3d", {5, 6, 4, 2}, {layers.Conv3D{3, 2, padding = "same"}, layers.MaxPooling3D(2)}, true},
  {"lstm", {5, 4}, {layers.LSTM{3, return_sequences = true}, layers.LSTM{2}}, true},
  {"gru", {5, 4}, {layers.GRU{3, return_sequences = true}, layers.GRU{2, reset_after = false}},
    true},
  {"embedding", {6}, {layers.Embedding{10, 4}, layers.GRU{3}}, true, "int32"},
  {"depthwise", {9, 7, 3}, {layers.Conv2D{4, {3, 2}, strides = 2, padding = "same"},
    layers.DepthwiseConv2D{3, depth_multiplier = 2},
    layers.AveragePooling2D{2, padding = "same"}, layers.GlobalMaxPooling2D()}},
  {"transposed", {4, 5, 3}, {layers.Conv2DTranspose{4, 3, strides = 2, padding = "same"},
    layers.Conv2DTranspose{2, 2, strides = 3}}},
  {"rnn", {5, 4}, {layers.Bidirectional(layers.LSTM{3, return_sequences = true}),
    layers.SimpleRNN{3}}},
  {"shapes", {4, 4, 2}, {layers.ZeroPadding2D(1), layers.UpSampling2D(2), layers.Cropping2D(1),
    layers.Permute{2, 1, 3},
    layers.Reshape{-1, 5}}},
  {"activations", {6}, {layers.Activation("gelu"), layers.Activation("swish"),
    layers.Activation("selu"), layers.LeakyReLU(),
    layers.Activation("softplus"), layers.Activation("hard_sigmoid"), layers.ELU(),
    layers.PReLU()}},
  {"norms", {4, 4, 6}, {layers.LayerNormalization{axis = {2, 3}},
    layers.TimeDistributed(layers.Dense{3})}},
}

local function flat(t) return ipu.reshape(ipu.cast(t, "float32"), {-1}):totable() end

local models = {} -- name, model, inputs, evaluate

local function add(name, model, inputs, evaluate)
  local weights = model:get_weights() -- none of them zero
  for i, w in ipairs(weights) do
    weights[i] = w + ipu.random.uniform(w.shape, {minval = 0.05, maxval = 0.3, seed = i})
  end
  if #weights > 0 then model:set_weights(weights) end
  models[#models + 1] = {name, model, inputs, evaluate or false}
end

local function outputs_of(model, inputs)
  local out = model(#inputs == 1 and inputs[1] or inputs, {training = false})
  return type(out) == "table" and out or {out}
end

local function make_models()
  for i, chain in ipairs(chains) do
    local input = keras.Input{shape = chain[2], dtype = chain[5] or "float32", name = "x"}
    local x = input
    for _, layer in ipairs(chain[3]) do x = layer(x) end
    local shape = table.move(chain[2], 1, #chain[2], 2, {3})
    local given = chain[5] and ipu.tensor({{1, 2, 3, 4, 5, 6}, {9, 8, 7, 6, 5, 4}},
      {dtype = "int32"})
      or ipu.random.normal(shape, {seed = i})
    add(chain[1], keras.Model{inputs = input, outputs = x, name = chain[1]}, {given}, chain[4])
  end
  local sequence = keras.Input{shape = {4, 8}}
  add("attention",
    keras.Model{inputs = sequence, outputs = layers.MultiHeadAttention{2, 4}(sequence, sequence)},
    {ipu.random.normal({3, 4, 8}, {seed = 1})})
  local a, b = keras.Input{shape = {4}, name = "a"}, keras.Input{shape = {4}, name = "b"}
  local merged = layers.Concatenate(){layers.Add(){a, b}, layers.Multiply(){a, b},
    layers.Maximum(){a, b}}
  add("two",
    keras.Model{inputs = {a, b}, outputs = {layers.Dense{2}(merged), layers.Dot{axes = 1}{a, b}}},
    {ipu.random.normal({3, 4}, {seed = 1}), ipu.random.normal({3, 4}, {seed = 2})})
  local row = keras.Input{shape = {6}}
  local picked = layers.Lambda(function(t)
    local values, positions = ipu.top_k(ipu.sin(t) * 3 + ipu.cumsum(t, {axis = 1}), {k = 2})
    return ipu.concat({values, ipu.cast(positions, "float32"),
      ipu.reduce_variance(t, {axis = 1, keepdims = true}), ipu.reverse(t, {1}),
      ipu.one_hot(ipu.argmax(t, {axis = 1}), 3),
      ipu.where(ipu.greater(t, 0), t, ipu.zeros_like(t))}, 1)
  end)(row)
  add("ops", keras.Model{inputs = row, outputs = picked}, {ipu.random.normal({3, 6}, {seed = 3})})
end

local function assert_near(wanted, got, name)
  assert.equal(#wanted, #got, name)
  for i, list in ipairs(wanted) do
    assert.equal(#list, #got[i], name)
    for k, value in ipairs(list) do
      assert(math.abs(value - got[i][k]) <= TOLERANCE,
        ("%s: output %d, element %d: %g, not %g"):format(name, i, k, got[i][k], value))
    end
  end
end

describe("onnx", function()
  local folder, wanted = nil, {}

  setup(function()
    folder = command.folder()
    make_models()
    local cases = {}
    for i, m in ipairs(models) do
      local name, model, inputs = m[1], m[2], m[3]
      keras.onnx.export(model, folder .. "/" .. name .. ".onnx")
      local case = {file = name .. ".onnx", inputs = {}, evaluate = m[4]}
      for k, x in ipairs(inputs) do
        case.inputs[k] = {name = model.inputs[k].layer.name, shape = x.shape, dtype = x.dtype,
          data = flat(x)}
      end
      cases[i], wanted[i] = case, {}
      for k, y in ipairs(outputs_of(model, inputs)) do wanted[i][k] = flat(y) end
    end
    command.write(folder .. "/cases.json", ipu.json.encode(cases))
  end)
  teardown(function() command.remove(folder) end)

  local function compare(r, only)
    assert.equal(0, r.status, r.err)
    local i = 0
    for line in r.out:gmatch("[^\n]+") do
      i = i + 1
      if not only or models[i][4] then
        assert_near(wanted[i], ipu.json.decode(line), models[i][1])
      end
    end
    assert.equal(#models, i)
  end

  it("files are well formed and give the same numbers by the operators' definitions", function()
    compare(command.run{command.python "onnx", "spec/support/onnx_eval.py", folder}, true)
  end)

  local packages = os.getenv("NODE_PATH") or "build/npm/node_modules"
  local there = os.execute("test -d " .. command.quote(packages .. "/onnxruntime-web"))
  local run_if = there and it or pending
  run_if("files give the same numbers in onnxruntime", function()
    compare(command.run{"node", "spec/support/onnx_run.js", folder, env = {NODE_PATH = packages}})
  end)

  it("files are read back", function()
    for i, m in ipairs(models) do
      local model = keras.onnx.import(folder .. "/" .. m[1] .. ".onnx")
      local got = {}
      for k, y in ipairs(outputs_of(model, m[3])) do got[k] = flat(y) end
      assert_near(wanted[i], got, m[1])
    end
  end)

  it("models that were read can be trained on", function()
    local model = keras.onnx.import(folder .. "/dense.onnx")
    model:compile{optimizer = keras.optimizers.SGD{0.5}, loss = "mse"}
    local x = models[1][3][1]
    local y = ipu.tensor{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}
    local h = model:fit{x = x, y = y, epochs = 60, batch_size = 3, verbose = 0}
    assert.is_true(h.history.loss[60] < h.history.loss[1] / 2)
    assert.equal(4, #model.trainable_variables)
  end)

  it("a batch may be fixed", function()
    keras.onnx.export(models[1][2], folder .. "/fixed.onnx", {batch_size = 3})
    assert.same({3, 8}, keras.onnx.import(folder .. "/fixed.onnx").inputs[1].shape)
    assert.same({-1, 8}, keras.onnx.import(folder .. "/dense.onnx").inputs[1].shape)
  end)

  it("a model of a fixed batch takes no other, and predicts in batches of it", function()
    keras.onnx.export(models[1][2], folder .. "/fixed.onnx", {batch_size = 3})
    local model = keras.onnx.import(folder .. "/fixed.onnx")
    assert.error_matches(function() model(ipu.ones{5, 8}) end,
      "input '.-' has the shape %[3, 8%] in the ONNX file, got %[5, 8%]")
    assert.error_matches(function() model(ipu.ones{3, 7}) end,
      "has the shape %[3, 8%], but got %[3, 7%]")
    assert.same({6, 3}, model:predict(ipu.ones{6, 8}, {verbose = 0}).shape)
  end)

  it("another batch than the model's own is refused", function()
    local x = keras.Input{shape = {4}, batch_size = 2, name = "pair"}
    local pair = keras.Model{inputs = x, outputs = layers.Dense{3}(x)}
    keras.onnx.export(pair, folder .. "/pair.onnx", {batch_size = 2})
    assert.error_matches(function()
      keras.onnx.export(pair, folder .. "/pair.onnx", {batch_size = 3})
    end,
      "'batch_size' is 3, but input 'pair' was made for batches of 2")
  end)

  it("an index below 0 is no class in one_hot", function()
    local x = keras.Input{shape = {3}, dtype = "int32"}
    keras.onnx.export(keras.Model{inputs = x,
      outputs = layers.Lambda(function(t) return ipu.one_hot(t, 2) end)(x)}, folder .. "/hot.onnx")
    local hot = keras.onnx.import(folder .. "/hot.onnx")(
      ipu.tensor({{-1, 0, 1}, {2, -2, -3}}, {dtype = "int32"}))
    assert.same({{{0, 0}, {1, 0}, {0, 1}}, {{0, 0}, {0, 0}, {0, 0}}}, hot:totable())
  end)

  -- A number that Lua made of the batch is a constant; a shape that was right for one batch is
  -- right for that alone.
  it("a constant that depends on the batch asks for a batch size", function()
    local x = keras.Input{shape = {4}}
    local mean = keras.Model{inputs = x,
      outputs = layers.Lambda(function(t) return t / t.shape[1] end)(x)}
    assert.error_matches(function() keras.onnx.export(mean, folder .. "/no.onnx") end,
      "depends on the batch.*give a batch_size")
    keras.onnx.export(mean, folder .. "/mean.onnx", {batch_size = 2})
    local same = keras.onnx.import(folder .. "/mean.onnx")(ipu.tensor{{2, 4, 6, 8}, {1, 1, 1, 1}})
    assert.same({{1, 2, 3, 4}, {0.5, 0.5, 0.5, 0.5}}, same:totable())

    local is_built = false
    local flatten = layers.Lambda(function(t)
      return is_built and ipu.reshape(ipu.reshape(t, {-1}) + ipu.ones{8}, {-1, 4}) or t
    end)
    local model = keras.Model{inputs = x, outputs = flatten(x)}
    is_built = true
    assert.error_matches(function() keras.onnx.export(model, folder .. "/no.onnx") end,
      "%[244%] and %[8%] don't broadcast %(244 is 4 times 61, which stands for the batch, which "
      .. "onnx.export leaves open; .-give a batch_size%)")
    keras.onnx.export(model, folder .. "/flat.onnx", {batch_size = 2})
  end)

  it("an op without a counterpart is refused by name", function()
    local x = keras.Input{shape = {4}}
    local noisy = keras.Model{inputs = x,
      outputs = layers.Lambda(function(t) return t + ipu.random.normal({4}) end)(x)}
    assert.error_matches(function() keras.onnx.export(noisy, folder .. "/no.onnx") end,
      "ONNX has no counterpart of the op 'random.normal'")
    assert.error_matches(function()
      keras.onnx.export(keras.Sequential{layers.Dense{2}}, folder .. "/no.onnx")
    end,
      "inputs of model '.-' are not known")
    assert.error_matches(function() keras.onnx.export("x", folder .. "/no.onnx") end,
      "expected a Keras model")
    assert.error_matches(function()
      keras.onnx.export(noisy, folder .. "/no.onnx", {batch_size = 0})
    end,
      "'batch_size' must be positive, got 0")
    assert.error_matches(function() keras.onnx.import(folder .. "/none.onnx") end, "No such file")
  end)

  it("files that are none of ONNX are refused as such", function()
    for _, text in ipairs{"", "hello", "\137PNG\r\n\26\n", "{}"} do
      command.write(folder .. "/text.onnx", text)
      assert.error_matches(function() keras.onnx.import(folder .. "/text.onnx") end,
        "this is no ONNX model")
    end
  end)

  it("damaged files are refused", function()
    local data = command.read(folder .. "/cnn.onnx")
    for cut = 1, #data - 1, 331 do
      command.write(folder .. "/cut.onnx", data:sub(1, cut))
      local ok, message = pcall(keras.onnx.import, folder .. "/cut.onnx")
      assert(not ok and not message:find("attempt to"), message)
    end
    for at = 1, math.min(#data, 4000), 61 do
      command.write(folder .. "/bent.onnx", data:sub(1, at - 1) .. string.char(data:byte(at) ~ 0x55)
        .. data:sub(at + 1))
      local ok, message = pcall(keras.onnx.import, folder .. "/bent.onnx")
      assert(ok or not tostring(message):find("attempt to"), message)
    end
  end)
end)
