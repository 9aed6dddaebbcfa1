-- Names for classes and functions of the script's own, as in Keras' tests of
-- keras.utils.generic_utils.

local command = require "spec.support.command"
local ipu = require "ipulua"
local log = require "ipulua.base.log"

local keras = ipu.keras
local layers, utils = keras.layers, keras.utils

local function message_of(f, ...)
  local ok, message = pcall(f, ...)
  assert.is_false(ok)
  assert.matches("^spec/keras/custom_objects_spec.lua:%d+: ", message)
  return message
end

local Times = layers.Layer:extend("Times")
function Times:init(...)
  local given = {...}
  layers.Layer.init(self, {name = given[1].name, input_shape = given[1].input_shape})
  rawset(self, "factor", given[1].factor)
end
function Times:call(x) return x * self.factor end
function Times:get_config()
  local config = layers.Layer.get_config(self)
  config.factor = self.factor
  return config
end

local function triple(x) return x * 3 end

describe("own classes and functions", function()
  local path
  before_each(function() path = command.scratch ".safetensors" end)
  after_each(function()
    os.remove(path)
    for name in pairs(utils.get_custom_objects()) do utils.get_custom_objects()[name] = nil end
  end)

  local x = ipu.tensor{{1, 2}}

  it("are found in a scope, by loading and by names", function()
    keras.Sequential{Times{factor = 3, input_shape = {2}}}:save(path)
    assert.matches("unknown layer 'Times'", message_of(keras.models.load_model, path))
    utils.custom_object_scope{Times = Times, triple = triple}(function()
      assert.are.same({{3, 6}}, keras.models.load_model(path)(x):totable())
      assert.are.same({{9, 9}}, layers.Activation("triple")(ipu.tensor{{3, 3}}):totable())
      assert.are.same({{9, 9}},
        layers.Dense{2, activation = "triple", kernel_initializer = "ones"}(x):totable())
    end)
    assert.matches("unknown layer 'Times'", message_of(keras.models.load_model, path))
    assert.are.same({}, utils.get_custom_objects())
  end)

  it("are as before when a scope was left, by an error too", function()
    utils.get_custom_objects().triple = triple
    pcall(function()
      local _ <close> = utils.custom_object_scope{triple = Times, Times = Times}
      assert.equal(Times, utils.get_registered_object "triple")
      utils.get_custom_objects().more = Times
      error("out")
    end)
    assert.are.same({triple = triple}, utils.get_custom_objects())
  end)

  it("are a coroutine's own, and what was registered meanwhile stays", function()
    local co = coroutine.create(function()
      local _ <close> = utils.custom_object_scope{Times = Times}
      coroutine.yield()
      assert.equal(Times, utils.get_registered_object "Times")
      assert.equal(triple, utils.get_registered_object "triple")
    end)
    assert(coroutine.resume(co))
    assert.is_nil(utils.get_registered_object "Times")
    utils.get_custom_objects().triple = triple
    assert(coroutine.resume(co))
    assert.are.same({triple = triple}, utils.get_custom_objects())
    local forgotten = coroutine.wrap(function()
      local _ <const> = utils.custom_object_scope{Times = Times}
      coroutine.yield()
    end)
    forgotten()
    utils.custom_object_scope{Times = triple}(function() -- one without a scope of its own
      assert.equal(triple, coroutine.wrap(utils.get_registered_object)("Times"))
    end)
    assert.are.same({triple = triple}, utils.get_custom_objects())
  end)

  it("are found when get_custom_objects has them", function()
    utils.get_custom_objects().Times = Times
    local copy = keras.models.model_from_json(
      keras.Sequential{Times{factor = 2, input_shape = {2}}}:to_json())
    assert.are.same({{2, 4}}, copy(x):totable())
  end)

  it("are handed to every kind of loading", function()
    local model = keras.Sequential{Times{factor = 3, input_shape = {2}}}
    local objects = {Times = Times}
    for _, make in ipairs{
      function() return keras.models.model_from_json(model:to_json(),
        {custom_objects = objects}) end,
      function() return keras.models.model_from_config(model:get_config(),
        {custom_objects = objects}) end,
      function() return keras.models.model_from_config(model:get_config(), objects) end,
      function() return keras.models.clone_model(model) end,
      function() return keras.models.clone_model(model, {custom_objects = objects}) end,
    } do assert.are.same({{3, 6}}, make()(x):totable()) end
    local config = layers.serialize(model.layers[1])
    assert.equal("Times", config.class_name)
    assert.are.same({{3, 6}}, layers.deserialize(config, {custom_objects = objects})(x):totable())
    assert.are.same({{3, 6}}, layers.deserialize(config, objects)(x):totable())
  end)

  it("may have a config without a name", function()
    local Plus = layers.Layer:extend("Plus")
    function Plus:init(given)
      layers.Layer.init(self)
      self.number = given.number
    end
    function Plus:call(t) return t + self.number end
    function Plus:get_config() return {number = self.number} end
    local input = keras.Input{shape = {2}}
    keras.Model(input, Plus{number = 5}(Plus{number = 3}(input))):save(path)
    local copy = keras.models.load_model(path, {custom_objects = {Plus = Plus}})
    assert.are.same({{9, 10}}, copy(ipu.tensor{{1, 2}}):totable())
  end)

  it("are found inside other layers", function()
    local Cell = layers.AbstractRNNCell:extend("Cell")
    function Cell:init(given)
      layers.AbstractRNNCell.init(self, given)
      self.state_size, self.output_size = 2, 2
    end
    -- luacheck: ignore 212
    function Cell:call(step, states) return step + states[1], {step + states[1]} end
    local model = keras.Sequential{layers.TimeDistributed{Times{factor = 10}, input_shape = {3, 2}},
      layers.RNN(Cell())}
    local warned = log.capture("warn", model.save, model, path)
    assert.equal(1, #warned)
    assert.matches("class Cell has an init with arguments %(.*custom_objects_spec.lua:%d+%), but "
      .. "no get_config that gives them", warned[1])
    local copy = keras.models.load_model(path, {custom_objects = {Times = Times, Cell = Cell}})
    assert.are.same({{90, 120}}, copy(ipu.tensor{{{1, 2}, {3, 4}, {5, 6}}}):totable())
  end)

  it("that are registered are saved under package and name", function()
    local Own = Times:extend("Own")
    assert.equal(Own, utils.register_keras_serializable(Own, {package = "spec"}))
    utils.register_keras_serializable(triple, {name = "triple"})
    assert.equal("spec>Own", utils.get_registered_name(Own))
    assert.equal("Custom>triple", utils.get_registered_name(triple))
    assert.equal("Times", utils.get_registered_name(Times))
    assert.equal(Own, utils.get_registered_object "spec>Own")
    assert.is_nil(utils.get_registered_object "Own")
    local model = keras.Sequential{Own{factor = 2, input_shape = {2}}, layers.Activation(triple)}
    assert.equal("spec>Own", layers.serialize(model.layers[1]).class_name)
    model:save(path)
    assert.are.same({{6, 12}}, keras.models.load_model(path)(x):totable())
    assert.are.same({{6, 12}}, keras.models.clone_model(model)(x):totable())
  end)

  it("that are registered later are found by the class' own name, unless two have it", function()
    local Later = Times:extend("Later")
    keras.Sequential{Later{factor = 2, input_shape = {2}}}:save(path)
    assert.matches("unknown layer 'Later'", message_of(keras.models.load_model, path))
    utils.register_keras_serializable(Later, {package = "a"})
    assert.are.same({{2, 4}}, keras.models.load_model(path)(x):totable())
    utils.register_keras_serializable(Times:extend("Later"), {package = "b"})
    assert.matches("unknown layer 'Later'", message_of(keras.models.load_model, path))
  end)

  it("are losses and metrics by the names that they had at compile", function()
    local function double_error(y, p) return ipu.reduce_mean(ipu.abs(y - p) * 2, {axis = -1}) end
    local model = keras.Sequential{Times{factor = 1, input_shape = {2}},
      layers.Dense{1, kernel_initializer = "zeros"}}
    utils.custom_object_scope{double_error = double_error}(function()
      model:compile{optimizer = keras.optimizers.SGD(0), loss = "double_error",
        metrics = {"double_error", "mae"}}
    end)
    local logs = model:evaluate(ipu.ones{4, 2}, ipu.full({4, 1}, 3),
      {batch_size = 4, verbose = 0, return_dict = true})
    assert.is_near(6, logs.loss, 1e-6)
    assert.is_near(6, logs.double_error, 1e-6)
    assert.is_near(3, logs.mae, 1e-6)
    model:save(path)
    local loaded = keras.models.load_model(path,
      {custom_objects = {Times = Times, double_error = double_error}})
    assert.is_near(6, loaded:evaluate(ipu.ones{4, 2}, ipu.full({4, 1}, 3),
      {batch_size = 4, verbose = 0})[1], 1e-6)
  end)

  it("are refused where they are none", function()
    assert.matches("expected names of classes or functions, got Twice = integer %(2%)",
      message_of(utils.custom_object_scope, {Twice = 2}))
    assert.matches("'name' is missing: a function has none",
      message_of(utils.register_keras_serializable, print))
    assert.matches("expected a class or a function, got table",
      message_of(utils.register_keras_serializable, {}))
    assert.matches("can't be saved; it has no get_config%(%)",
      message_of(utils.register_keras_serializable, keras.callbacks.Callback))
    utils.register_keras_serializable(Times:extend("Other"), {name = "T"})
    assert.matches("'Custom>T' is the name of another",
      message_of(utils.register_keras_serializable, layers.Dense, {name = "T"}))
    assert.matches("'custom_objects' must be a table",
      message_of(keras.models.model_from_config, {class_name = "Sequential", config = {
      layers = {{class_name = "Dense", config = {units = 1}}}}}, 3))
  end)
end)
