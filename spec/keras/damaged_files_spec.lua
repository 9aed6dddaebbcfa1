-- Damaged files of every format that is read: each byte cut and changed, each value of a JSON text
-- another one.

local command = require "spec.support.command"
local core = require "ipulua.core"
local damaged = require "spec.support.damaged_files"
local ipu = require "ipulua"
local log = require "ipulua.base.log"

local keras, layers, data = ipu.keras, ipu.keras.layers, ipu.data

local function dense()
  return keras.Sequential{layers.Dense{2, input_shape = {3}, name = "d"},
    layers.BatchNormalization{name = "b"}}
end

local function compiled()
  local m = dense()
  m:compile{optimizer = keras.optimizers.Adam{keras.optimizers.schedules.ExponentialDecay{0.1, 10,
    0.5}}, loss = "mse",
    metrics = {keras.metrics.MeanAbsoluteError()}}
  m:fit{ipu.ones{4, 3}, ipu.ones{4, 2}, batch_size = 4, verbose = 0}
  return m
end

local function functional()
  local i, j = keras.Input{shape = {4, 4, 1}}, keras.Input{shape = {6}, dtype = "int32"}
  local x = layers.Conv2D{2, 3, kernel_regularizer = "l2", kernel_constraint = "MaxNorm"}(i)
  x = layers.Flatten()(layers.Add(){x, layers.Activation("relu")(x) * 3})
  local t = layers.Bidirectional(layers.LSTM{2, dropout = 0.1})(
    layers.Embedding{10, 3, mask_zero = true}(j))
  return keras.Model{inputs = {i, j},
    outputs = {layers.Dense{2}(x), layers.Dense{2}(t + ipu.ones{4})}}
end

local function walk(ds) for _ in ds:iter() do end end -- luacheck: ignore 542

describe("a damaged file", function()
  local folder, former
  setup(function()
    folder = command.folder()
    former = log.set_writer(function() end) -- checkpoints tell which of them they pass over
  end)
  teardown(function()
    log.set_writer(former)
    command.remove(folder)
  end)

  -- name, ending, what makes one, what reads it, how many variants at most
  for _, c in ipairs{
    {"safetensors", ".safetensors",
      function(path) ipu.save(path, {a = ipu.ones{2}, b = ipu.zeros{1}}) end, ipu.load},
    {"npy", ".npy", function(path) ipu.save(path, ipu.ones{2}) end, ipu.load},
    {"npz", ".npz", function(path) ipu.save(path, {a = ipu.ones{2}}) end, ipu.load},
    {"weights", ".safetensors", function(path) dense():save_weights(path) end,
      function(path) dense():load_weights(path) end, 600},
    {"a model", ".safetensors", function(path) compiled():save(path) end,
      keras.models.load_model, 900},
    {"JSON of a model", ".json", function(path) command.write(path, functional():to_json()) end,
      function(path) keras.models.model_from_json(command.read(path)) end, 900},
    {"onnx", ".onnx", function(path)
      keras.onnx.export(keras.Sequential{layers.Conv1D{2, 2, input_shape = {4, 1}}, layers.LSTM(2),
        layers.Dense(2)}, path)
    end, keras.onnx.import, 1500},
    {"csv", ".csv", function(path) command.write(path, 'a,"b"\n1,2.5\n3,"4"\n') end, function(path)
      walk(data.from_csv(path))
    end},
    {"idx", ".idx", function(path) command.write(path, "\0\0\8\2\0\0\0\2\0\0\0\3abcdef") end,
      function(path) walk(data.from_idx(path)) end},
    {"a cache", ".cache", function(path)
      walk(data.from_tensor_slices(ipu.ones{3, 2}):cache(path))
    end,
      function(path) walk(data.from_tensor_slices(ipu.ones{3, 2}):cache(path)) end},
    {"a vocabulary", ".txt", function(path) command.write(path, "11\n-5\n7\n") end,
      function(path) layers.IntegerLookup{vocabulary = path} end},
  } do
    it("is told in its terms: " .. c[1], function()
      local path = folder .. "/f" .. c[2]
      c[3](path)
      local problems, tried = damaged.try(path, c[4], c[5])
      assert.same({}, problems)
        assert(tried > 40)
    end)
  end

  it("is told in its terms: a checkpoint", function()
    local dir, m = folder .. "/checkpoints", compiled()
    ipu.train.Checkpoint{model = m, n = {1, 2}}:save(dir)
    for _, name in ipairs{"state.json", "weights.safetensors", "optim.safetensors",
      "../latest.json"} do
      local problems = damaged.try(dir .. "/step-000001/"
        .. name, function() ipu.train.Checkpoint{model = m, n = {1,
        2}}:restore(dir) end, 200)
      assert.same({}, problems)
    end
    local path = dir .. "/step-000001/state.json"
    -- whose hash is right
    local problems, tried = damaged.try_values(command.read(path), function(text)
      local state = ipu.json.decode(text)
      state.sha256 = nil
      state.sha256 = core.text_hash(ipu.json.encode(state))
      command.write(path, ipu.json.encode(state))
      ipu.train.Checkpoint{model = m, n = {1, 2}}:restore(dir)
    end)
    assert.same({}, problems)
    assert(tried > 150)
  end)

  it("is told in its terms: JSON whose values are others", function()
    local words = keras.preprocessing.text.Tokenizer{num_words = 10}
    words:fit_on_texts{"a b c", "b c"}
    for text, read in pairs{
      [functional():to_json()] = function(text) keras.models.model_from_json(text) end,
      [keras.Sequential{layers.BatchNormalization{input_shape = {3, 3, 2}}, layers.MaxPooling2D(2),
        layers.Reshape{1, 2},
        layers.GRU(2)}:to_json()] =
        function(text) keras.models.model_from_json(text) end,
      [ipu.IPUConfig():to_json()] = function(text) ipu.IPUConfig():from_json(text) end,
      [words:to_json()] = keras.preprocessing.text.tokenizer_from_json,
    } do
      -- 5: with 13 changes of each value, all kinds
      local problems, tried = damaged.try_values(text, read, #text > 3000 and 5 or 1)
      assert.same({}, problems)
      assert(tried > 100)
    end
  end)

  it("is told in its terms: a model's file whose settings are others", function()
    local path = folder .. "/m.safetensors"
    compiled():save(path)
    local tensors, metadata = core.load(path)
    for _, key in ipairs{"training", "options", "order", "format"} do
      local function read(text)
        local changed = {}
        for name, value in pairs(metadata) do changed[name] = value end
        changed[key] = text
        core.save(path, tensors, changed)
        keras.models.load_model(path)
      end
      if key ~= "format" then assert.same({}, (damaged.try_values(metadata[key], read))) end
      for _, text in ipairs{"", "{", "[]", "7", "null", '"x"'} do
        local ok, message = pcall(read, text)
        assert.is_nil(not ok and damaged.what_is_raw(message) or nil)
      end
    end
  end)
end)

describe("a script's own mistake", function()
  it("is told with its own line when a model is loaded", function()
    local path = command.scratch ".safetensors"
    local Own = layers.Layer:extend("Own")
    function Own:call(x) return x end -- luacheck: ignore 212
    local i = keras.Input{shape = {2}}
    keras.Model{inputs = i, outputs = Own()(i)}:save(path)
    function Own.from_config() return nil + 1 end
    local ok, message = pcall(keras.models.load_model, path, {Own = Own})
    os.remove(path)
    assert.is_false(ok)
    assert.matches("damaged_files_spec.lua:%d+: attempt to perform arithmetic on a nil value",
      message)
  end)
end)
