-- Copies of layers and models, in memory and through files, keep a script's functions and classes,
-- options of calls, and stages. A part that a file can't hold is refused by its name.

local ipu = require "ipulua"
local command = require "spec.support.command"
local keras = ipu.keras
local L = keras.layers
local warnings = require "spec.support.warnings"

local function own(t) return ipu.sin(t) * 0.9 end
local function difference(a, b) return ipu.reduce_max(ipu.abs(a - b)):item() end

local function cell_class(name)
  local Cell = L.AbstractRNNCell:extend(name)
  function Cell:init(o)
    L.AbstractRNNCell.init(self, {})
    self.units, self.state_size, self.output_size = o.units, o.units, o.units
  end
  function Cell:build(shape) self.w = self:add_weight{name = "w", shape = {shape[#shape],
    self.units}} end
  function Cell:call(x, states)
    local h = ipu.tanh(ipu.matmul(x, self.w) + states[1])
    return h, {h}
  end
  function Cell:get_config()
    local config = L.AbstractRNNCell.get_config(self)
    config.units = self.units
    return config
  end
  return Cell
end

-- A functional model around a layer, and its clone with its weights.
local function model_of(layer, shape)
  local i = keras.Input{shape = shape}
  return keras.Model{inputs = i, outputs = layer(i)}
end

local function check_clone(model, x)
  local clone = keras.models.clone_model(model)
  clone:set_weights(model:get_weights())
  assert.near(0, difference(model(x), clone(x)), 1e-6)
end

describe("copies", function()
  local x = ipu.random.normal({6, 5, 4}, {seed = 1})
  local path

  before_each(function() path = os.tmpname() .. ".safetensors" end)
  after_each(function() os.remove(path) end)

  it("in memory keep functions of a script's own", function()
    local function init(shape, o) return ipu.full(shape, 0.25, o.dtype) end
    local function penalty(w) return ipu.reduce_sum(ipu.abs(w)) end
    for _, layer in ipairs{
      L.Dense{3, activation = own, kernel_initializer = init, kernel_regularizer = penalty,
        kernel_constraint = own},
      L.Conv1D{3, 2, activation = own}, L.LSTM{3, activation = own, recurrent_activation = own},
        L.Activation{own}, L.Lambda{own},
      L.TimeDistributed(L.Dense{3, activation = own}), L.RNN(L.GRUCell{3, activation = own}),
      L.Bidirectional(L.SimpleRNN{3, activation = own}), keras.Sequential{L.Dense{3,
        activation = own}},
    } do
      check_clone(model_of(layer, {5, 4}), x)
      local config = layer:get_config()
      assert.same(tostring(config), tostring(layer:get_config()))
    end
    local clone = keras.models.clone_model(model_of(L.Dense{3, kernel_regularizer = penalty,
      kernel_constraint = own}, {5, 4}))
    assert.equal(penalty, clone.layers[2].kernel_regularizer)
    assert.equal(own, clone.layers[2].kernel_constraint)
    assert.equal(own, L.Bidirectional(L.GRU{3, activation = own}).forward_layer.activation)
    local rate = function() return 0.5 end
    assert.equal(rate,
      keras.optimizers.SGD:from_config(keras.optimizers.SGD{rate}:get_config()).learning_rate)
  end)

  it("keep classes of a script's own, in Bidirectional, clones and StackedRNNCells", function()
    local Cell = cell_class "OwnCell"
    assert.equal(6, L.Bidirectional(L.RNN(Cell{units = 3}))(x).shape[2])
    check_clone(model_of(L.Bidirectional(L.RNN{Cell{units = 3}, L.LSTMCell(2)}), {5, 4}), x)
    check_clone(model_of(L.TimeDistributed(L.RNN(Cell{units = 3})), {2, 5, 4}), ipu.reshape(x, {3,
      2, 5, 4}))
    local config = {cells = {L.LSTMCell(2):get_config()}}
    config.cells[1] = {class_name = "LSTMCell", config = config.cells[1]}
    L.StackedRNNCells:from_config(config)
    assert.equal("LSTMCell", config.cells[1].class_name) -- a description stays one
  end)

  it("keep the options of a layer's calls, training among them", function()
    local flat = ipu.random.normal({64, 50}, {seed = 2}) + 3
    local i = keras.Input{shape = {50}}
    local frozen = keras.Model{inputs = i, outputs = L.BatchNormalization()(i, {training = false})}
    local batch = keras.Model{inputs = i, outputs = L.BatchNormalization()(i, {training = true})}
    local dropping = keras.Model{inputs = i, outputs = L.Dropout(0.5)(i, {training = true})}
    for _, copy in ipairs{keras.models.clone_model,
      function(m) return keras.models.model_from_json(m:to_json()) end, function(m)
      m:save(path)
      return keras.models.load_model(path)
    end, function(m) return keras.Model:from_config(m:get_config()) end} do
      local moved = copy(frozen)
      moved:compile{loss = "mse", optimizer = "sgd"}
      moved:fit(flat, flat, {verbose = 0, batch_size = 16})
      assert.equal(0, ipu.reduce_max(ipu.abs(moved.layers[2].moving_mean:read_value())):item())
      assert.near(0, difference(batch(flat), copy(batch)(flat)), 1e-4)
      local zeros = ipu.reduce_mean(ipu.cast(ipu.equal(copy(dropping):predict(flat), 0),
        "float32")):item()
      assert.near(0.5, zeros, 0.1)
    end
    local s = keras.Input{shape = {5, 4}}
    local h = L.Dense(3)(keras.Input{shape = {4}})
    local causal = keras.Model{inputs = s, outputs = L.Attention(){s, s}}
    assert.is_not_nil(h and causal)
    local seen = L.MultiHeadAttention(2, 3)
    check_clone(keras.Model{inputs = s, outputs = seen(s, s, {use_causal_mask = true})}, x)
  end)

  it("keep whether models are trainable, their added losses and metrics, and stages", function()
    local i = keras.Input{shape = {4}}
    local code = L.Dense(3)(i)
    local model = keras.Model{inputs = i, outputs = L.Dense(2)(code)}
    model:add_loss(ipu.reduce_mean(ipu.square(code)))
    model:add_metric(ipu.reduce_mean(code), {name = "code"})
    local clone = keras.models.model_from_json(model:to_json())
    clone:set_weights(model:get_weights())
    model(x[1])
    clone(x[1])
    assert.equal(1, #clone.losses)
    assert.near(model.losses[1]:item(), clone.losses[1]:item(), 1e-6)
    assert.equal("code", clone.metrics[1].name)
    local frozen = keras.Sequential{layers = {L.Dense{2, input_shape = {3}}}, trainable = false}
    assert.is_false(keras.models.clone_model(frozen).trainable)
    assert.equal(0, #keras.models.clone_model(frozen).trainable_weights)
    assert.is_false(keras.models.clone_model(keras.Model{inputs = i, outputs = code,
      trainable = false}).trainable)
  end)

  it("in files refuse functions that have no name, and keep those that have one", function()
    local function registered(t) return t * 2 end
    keras.utils.register_keras_serializable(registered, {name = "twice_for_copies"})
    local kept = model_of(L.Dense{3, activation = registered}, {5, 4})
    kept:save(path)
    assert.near(0, difference(kept(x), keras.models.load_model(path)(x)), 1e-6)
    for what, layer in pairs{
      activation = L.Dense{3, activation = own}, kernel_regularizer = L.Conv1D{3, 2,
        kernel_regularizer = own},
      recurrent_activation = L.LSTM{3, recurrent_activation = own}, func = L.Lambda(own),
        kernel_constraint = L.Dense{2, kernel_constraint = own},
    } do
      local model = model_of(layer, {5, 4})
      for _ = 1, 2 do
        assert.error_matches(function() model:save(path) end, layer.__name .. " '" .. layer.name
          .. "': its '" .. what
          .. "' is a function of the script's own %(spec/keras/copies_spec.lua:%d+%), which can't "
          .. "be saved")
        assert.error_matches(function() model:to_json() end, "can't be saved")
      end
    end
    local i = keras.Input{shape = {4}}
    local Own = L.Layer:extend("WithOption")
    function Own:call(t, o) return o.f(t) end
    local model = keras.Model{inputs = i, outputs = Own()(i, {f = own})}
    check_clone(model, x[1])
    assert.error_matches(function() model:to_json() end, "can't be saved")
  end)

  it("in files leave out what of compile has no name, and keep the rest", function()
    local log = require "ipulua.base.log"
    local told = {}
    local former = log.set_writer(function(text) told[#told + 1] = text end)
    local model = keras.Sequential{L.Dense{1, input_shape = {3}}}
    model:compile{optimizer = "adam", loss = "mse",
      metrics = {"mae", function(y, p) return y - p end, "mse"}}
    model:save(path)
    log.set_writer(former)
    assert.matches("a metric of compile can't be saved", table.concat(told))
    assert.same({"mae", "mse"}, keras.models.load_model(path).compile_arguments.metrics)
  end)
end)

describe("functions of the script's own in a model's file", function()
  local register = keras.utils.register_keras_serializable
  local twice = register(function(x) return x * 2 end, {name = "copies_twice"})
  local rate = register(function(step) return ipu.cast(step, "float32") * 0 + 0.5 end,
    {name = "copies_rate"})
  local dtype_of = register(function() return "float32" end, {name = "copies_dtype"})
  local path = command.scratch ".safetensors"
  after_each(function() os.remove(path) end)

  local function again(model)
    model:save(path)
    return keras.models.load_model(path)
  end
  local function dense() return keras.Sequential{L.Dense{1, input_shape = {3}}} end

  it("are what was registered, wherever a config has them", function()
    local x = ipu.reshape(ipu.arange(12.0), {4, 3})
    local lambda = keras.Sequential{L.Lambda{twice, input_shape = {3}}}
    assert.same((x * 2):totable(), again(lambda)(x):totable())
    assert.same((x * 2):totable(), keras.models.model_from_json(lambda:to_json())(x):totable())

    local scheduled = dense()
    scheduled:compile{optimizer = keras.optimizers.SGD{rate}, loss = "mse"}
    assert.equal(rate, again(scheduled).optimizer.learning_rate)
    local mapped = dense()
    mapped:compile{loss = "mse",
      optimizer = keras.optimizers.MapGradientOptimizer(keras.optimizers.SGD(0.1), twice)}
    assert.equal(twice, again(mapped).optimizer:get_config().gradient_mapping_function)
  end)

  it("are what custom_objects names", function()
    local named = dense()
    named:compile{optimizer = keras.optimizers.SGD{rate}, loss = "mse"}
    named:save(path)
    local other = function() return 0.25 end
    local loaded = keras.models.load_model(path,
      {custom_objects = {["Custom>copies_rate"] = other}})
    assert.equal(other, loaded.optimizer.learning_rate)
  end)

  it("are refused where their names mean nothing", function()
    local text = keras.Sequential{L.Lambda{twice, input_shape = {3}}}:to_json()
    assert.error_matches(function()
      keras.models.model_from_json((text:gsub("copies_twice", "copies_thrice")))
    end, "there is no registered function 'Custom>copies_thrice' here")
  end)

  it("among the options are kept by name, or refused with the option's", function()
    local model = dense()
    model:set_gradient_accumulation_options{gradient_accumulation_steps_per_replica = 2,
      dtype = dtype_of}
    assert.equal(dtype_of, again(model)._options.gradient_accumulation.dtype)
    model:set_gradient_accumulation_options{dtype = function() return "float32" end}
    assert.error_matches(function() model:save(path) end,
      "save: the option 'dtype' can't be saved, a function")
  end)
end)

describe("a loss that no file can hold", function()
  local function distance(y, p) return ipu.reduce_mean(ipu.abs(y - p)) end
  local path = command.scratch ".safetensors"
  after_each(function() os.remove(path) end)

  -- With one loss of two a model would learn something else.
  for name, loss in pairs{alone = distance, first = {distance, "mse"}, last = {"mse", distance},
    named = {a = distance, b = "mse"}} do
    it("(" .. name .. ") leaves a model that asks for compile", function()
      local caught = warnings.expected{"a loss of compile can't be saved, so nothing that compile"}
      local i = keras.Input{shape = {3}}
      local model = keras.Model{inputs = i,
        outputs = {L.Dense{1, name = "a"}(i), L.Dense{1, name = "b"}(i)}}
      model:compile{optimizer = "sgd", loss = loss, metrics = {"mae"}}
      caught.start()
      model:save(path)
      caught.stop()
      local loaded = keras.models.load_model(path)
      assert.is_nil(loaded.optimizer)
      local x = ipu.ones{4, 3}
      assert.same(model(x)[1]:totable(), loaded(x)[1]:totable())
      assert.error_matches(function() loaded:evaluate(x, {x, x}, {verbose = 0}) end,
        "must be compiled first")
    end)
  end
end)
