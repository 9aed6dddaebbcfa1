-- Weights and models in files.

local command = require "spec.support.command"
local ipu = require "ipulua"

local keras = ipu.keras
local layers = keras.layers

local function message_of(f, ...)
  local ok, message = pcall(f, ...)
  assert.is_false(ok)
  return message
end

local function difference(a, b)
  return ipu.reduce_max(ipu.abs(a - b)):item()
end

describe("saving", function()
  local path
  before_each(function() path = command.scratch ".safetensors" end)
  after_each(function() os.remove(path) end)

  local x = ipu.tensor{{1, 2}, {3, 4}, {5, 6}, {7, 8}}
  local y = ipu.tensor({0, 1, 0, 1}, {dtype = "int32"})

  local function trained()
    local a = keras.Input{shape = {2}, name = "a"}
    local hidden = layers.BatchNormalization()(layers.Dense{4, activation = "tanh",
      name = "hidden"}(a) * 2)
    local model = keras.Model{inputs = a, outputs = layers.Dense{2, name = "out"}(hidden),
      name = "saved"}
    model:compile{loss = keras.losses.SparseCategoricalCrossentropy{from_logits = true},
      optimizer = keras.optimizers.Adam{0.05},
      metrics = {"accuracy"}, steps_per_execution = 2}
    model:fit{x = x, y = y, batch_size = 2, epochs = 2, verbose = 0, shuffle = false}
    return model
  end

  it(
    "row 223: restores a whole model, which goes on training as if nothing had happened", function()
    local model = trained()
    model:save(path)
    local copy = keras.models.load_model(path)
    assert.are.equal("saved", copy.name)
    assert.are.equal(0, difference(model(x), copy(x)))
    assert.are.equal(2, copy.steps_per_execution)
    assert.are.equal(4, copy.optimizer.iterations:item())
    for _, each in ipairs{model, copy} do
      each:fit{x = x, y = y, batch_size = 2, verbose = 0, shuffle = false}
    end
    assert.are.equal(0, difference(model(x), copy(x)))
  end)

  it("row 223: restores options and stage assignments", function()
    local model = keras.Sequential{layers.Dense{2, input_shape = {2}}, layers.Dense(2)}
    model:set_pipeline_stage_assignment{0, 1}
    model:set_pipelining_options{gradient_accumulation_steps_per_replica = 4,
      pipeline_schedule = "interleaved"}
    model:save(path)
    local copy = keras.models.load_model(path)
    assert.is_true(copy:is_pipelined())
    assert.are.equal(1, copy:get_pipeline_stage_assignment()[2].pipeline_stage)
    assert.are.equal("Interleaved", copy._options.pipelining.pipeline_schedule)
  end)

  it("row 223: writes weights by name and refuses those that don't fit", function()
    local model = trained()
    model:save_weights(path)
    local other = trained()
    other:load_weights(path)
    assert.are.equal(0, difference(model(x), other(x)))
    local names = ipu.load and ipu.load(path) or require "ipulua.core".load(path)
    assert.is_not_nil(names["hidden/kernel"])
    local wide = keras.Sequential{layers.Dense{5, name = "hidden", input_shape = {2}}}
    assert.matches("weight 'hidden/kernel' has the shape %[2, 4%] in the file, %[2, 5%] in the "
      .. "model",
      message_of(wide.load_weights, wide, path))
    assert.matches("holds no model, only tensors", message_of(keras.models.load_model, path))
  end)

  it("writes weights that NumPy reads, and takes NumPy's in their order", function()
    local folder = command.scratch()
    local written, theirs = folder .. ".npz", folder .. "_numpy.npz"
    local model = trained()
    model:save_weights(written)
    local program = [[
import numpy as np
f = np.load("%s")
print(" ".join(f.files), f["hidden/kernel"].shape)
np.savez("%s", *[f[name] for name in f.files])]]
    local python = io.popen((command.python "numpy" .. " - <<'END'\n" .. program
      .. "\nEND"):format(written, theirs))
    local said = python:read("a")
    python:close()
    local names = {}
    for _, weight in ipairs(model.weights) do names[#names + 1] = weight.name end
    assert.equal(6 + 2, #names)
    assert.matches("^hidden/kernel hidden/bias .* out/kernel out/bias %(2, 4%)", said)
    for _, path_of_weights in ipairs{written, theirs} do -- the second's members are arr_0, arr_1 …
      local other = trained()
      other:load_weights(path_of_weights)
      assert.equal(0, difference(model(x), other(x)))
    end
    local short = keras.Sequential{layers.Dense{4, input_shape = {2}}}
    assert.matches("the file has 8 weights, the model has 2",
      message_of(short.load_weights, short, theirs))
    os.remove(written)
    os.remove(theirs)
  end)

  it("takes by name what the file knows, with skip_mismatch what fits of it", function()
    ipu.save(path, {["known/kernel"] = ipu.full({2, 3}, 4), ["known/bias"] = ipu.full({3}, 5),
      ["wide/kernel"] = ipu.ones{9, 9}})
    local model = keras.Sequential{layers.Dense{3, name = "known", input_shape = {2}},
      layers.Dense{1, name = "wide"}}
    local last = model.layers[2]:get_weights()[1]:totable()
    assert.error_matches(function() model:load_weights(path, {by_name = true}) end, "wide/kernel")
    -- as in Keras 2.6: ValueError "skip_mismatch can only be set to True when by_name is True"
    assert.matches("saving_spec%.lua:%d+: load_weights: 'skip_mismatch' can only be true when "
      .. "'by_name' is",
      message_of(function() model:load_weights(path, {skip_mismatch = true}) end))
    model:load_weights(path, {by_name = true, skip_mismatch = true})
    assert.same({{4, 4, 4}, {4, 4, 4}}, model.layers[1]:get_weights()[1]:totable())
    assert.same({5, 5, 5}, model.layers[1]:get_weights()[2]:totable())
    assert.same(last, model.layers[2]:get_weights()[1]:totable())
  end)

  it("says which files it reads", function()
    local model = trained()
    assert.matches("must end in .safetensors, .npz or .h5",
      message_of(model.load_weights, model, "w.pt"))
    assert.matches("'m.h5' is of Keras", message_of(keras.models.load_model, "m.h5"))
  end)

  it("gives the weights of a saved model to one like it whose layers were named later", function()
    local function make()
      local model = keras.Sequential{layers.Dense{4, input_shape = {2}}, layers.Dense(1)}
      model:compile{loss = "mse"}
      return model
    end
    local model, other = make(), make()
    assert.are_not.equal(model.layers[1].name, other.layers[1].name)
    model:save(path)
    other:load_weights(path)
    assert.are.equal(0, difference(model(x), other(x)))
  end)

  it("says how a script's own class is given", function()
    local Own = layers.Layer:extend("OwnUnknown")
    function Own:call(inputs) return inputs end -- luacheck: ignore 212
    keras.Sequential{Own{input_shape = {2}}}:save(path)
    assert.matches("unknown layer 'OwnUnknown'; .*custom_objects = {OwnUnknown = Class}",
      message_of(keras.models.load_model, path))
  end)

  it("rebuilds own classes that are handed in", function()
    local Twice = layers.Layer:extend("Twice")
    function Twice:call(inputs) return inputs * 2 end -- luacheck: ignore 212
    local model = keras.Sequential{Twice{input_shape = {2}}, layers.Dense(1)}
    model:save(path)
    local copy = keras.models.load_model(path, {custom_objects = {Twice = Twice}})
    assert.are.equal(0, difference(model(x), copy(x)))
    assert.matches("unknown layer 'Twice'", message_of(keras.models.load_model, path))
  end)

  -- How a script's own model gets its weights → a function that makes it do so.
  for how, make_weights in pairs{
    ["a call"] = function(model) model(x) end,
    ["build"] = function(model) model:build{-1, x.shape[2]} end,
    ["fit"] = function(model) model:fit{x, x, batch_size = x.shape[1], verbose = 0} end,
  } do
    it("brings back a script's own model with its weights, which it got by " .. how, function()
      local Own = keras.Model:extend("OwnNet")
      function Own:init(config)
        keras.Model.init(self, {name = "own"})
        self.units = config.units
        self.last = layers.Dense(self.units)
      end
      function Own:call(inputs) return self.last(inputs) end
      function Own:get_config() return {units = self.units} end
      local model = Own{units = x.shape[2]}
      model:compile{optimizer = "adam", loss = "mse"}
      make_weights(model)
      model:save(path)
      local copy = keras.models.load_model(path, {custom_objects = {OwnNet = Own}})
      assert.equal(0, difference(model(x), copy(x)))
      assert.equal(model.optimizer.iterations:item(), copy.optimizer.iterations:item())
    end)
  end

  it("refuses a file whose shapes of inputs are none", function()
    local Own = keras.Model:extend("OwnDamaged")
    function Own:init() keras.Model.init(self, {name = "own"}); self.last = layers.Dense(2) end
    function Own:call(inputs) return self.last(inputs) end
    function Own:get_config() return {} end -- luacheck: ignore 212
    local model = Own()
    model(x)
    model:save(path)
    local core = require "ipulua.core"
    local tensors, metadata = core.load(path)
    for _, inputs in ipairs{"3", '{"dtype": "float32"}', '{"dtype": "float32", "shape": [0.5]}',
      '{"dtype": "float3", "shape": [2]}'} do
      metadata.inputs = inputs
      core.save(path, tensors, metadata)
      assert.matches("is damaged: 'inputs' holds no shapes",
        message_of(keras.models.load_model, path, {custom_objects = {OwnDamaged = Own}}))
    end
  end)

  it("brings back a script's own model that takes several inputs by name, and makes weights in "
    .. "build", function()
    local Own = keras.Model:extend("OwnTwo")
    function Own:init()
      keras.Model.init(self, {name = "own"}); self.table = layers.Embedding{5, 3}
    end
    function Own:build(shape)
      self.scale = self:add_weight{name = "scale", shape = {shape.values[2]},
        initializer = "random_normal"}
    end
    function Own:call(inputs) return self.table(inputs.ids) + inputs.values * self.scale end
    function Own:get_config() return {} end -- luacheck: ignore 212
    local given = {ids = ipu.tensor({1, 4}, {dtype = "int32"}), values = ipu.ones{2, 3}}
    local model = Own()
    local before = model(given)
    model:save(path)
    assert.equal(0,
      difference(before, keras.models.load_model(path, {custom_objects = {OwnTwo = Own}})(given)))
  end)

  it("describes the architecture as JSON", function()
    local model = trained()
    local copy = keras.models.model_from_json(model:to_json())
    assert.are.equal(model:count_params(), copy:count_params())
    assert.are.equal(model:to_json(), copy:to_json())
  end)

  -- Name → an optimizer with more state than slots.
  local optimizers <const> = keras.optimizers
  for name, make in pairs{
    ALSOptimizer = function()
      return optimizers.ALSOptimizer(optimizers.Adam(0.1),
        {initial_loss_scaling_factor = 4, update_frequency = 2})
    end,
    ALSOptimizerSGD = function()
      return optimizers.ALSOptimizerSGD{learning_rate = 0.1, momentum = 0.5, update_frequency = 2}
    end,
    GradientAccumulationOptimizer = function()
      return optimizers.GradientAccumulationOptimizer(optimizers.SGD(0.1), 2)
    end,
    CrossReplicaOptimizer = function()
      return optimizers.CrossReplicaOptimizer(optimizers.RMSprop(0.1))
    end,
    SGD = function()
      return optimizers.SGD{optimizers.schedules.CosineDecay{0.1, decay_steps = 10}, momentum = 0.9}
    end,
    Nadam = function() return optimizers.Nadam(0.1) end,
    Adam = function() return optimizers.Adam{0.1, use_ema = true} end,
  } do
    it("brings a model back with its optimizer: " .. name, function()
      local model = keras.Sequential{layers.Dense{1, input_shape = {2}}}
      model:compile{optimizer = make(), loss = "mse"}
      -- three updates, or one and a half
      model:fit{ipu.ones{12, 2}, ipu.zeros{12, 1}, batch_size = 4, verbose = 0}
      model:save(path)
      local loaded = keras.models.load_model(path)
      for _ = 1, 3 do
        assert.equal(model:train_on_batch(ipu.ones{4, 2}, ipu.zeros{4, 1}),
          loaded:train_on_batch(ipu.ones{4, 2}, ipu.zeros{4, 1}))
      end
    end)
  end

  it("says that an optimizer's function can't be saved", function()
    local log = require "ipulua.base.log"
    local warnings = {}
    local former = log.set_writer(function(text) warnings[#warnings + 1] = text end)
    local model = keras.Sequential{layers.Dense{1, input_shape = {2}}}
    model:compile{optimizer = optimizers.MapGradientOptimizer(optimizers.SGD(0.1),
      function(g) return g end), loss = "mse"}
    model:save(path)
    log.set_writer(former)
    assert.matches("an optimizer of compile can't be saved.*a function of the script's own",
      table.concat(warnings, "\n"))
    assert.is_nil(keras.models.load_model(path).optimizer)
  end)
end)

describe("ipu.save and ipu.load", function()
  it("refuse names and paths with a NUL in them, which no file can have", function()
    local path = command.scratch ".safetensors"
    ipu.save(path, {a = ipu.ones{1}})
    for _, ending in ipairs{".safetensors", ".npz"} do
      local words = message_of(ipu.save, path .. ending, {a = ipu.ones{1}, ["a\0b"] = ipu.ones{1}})
      assert.matches("no file can hold a name with a NUL in it: 'a\\0…'", words, 1, true)
      assert.matches("has a NUL in it", message_of(ipu.save, path .. "\0" .. ending,
        {a = ipu.ones{1}}))
      assert.matches("has a NUL in it", message_of(ipu.load, path .. "\0" .. ending))
    end
    os.remove(path)
  end)
end)
