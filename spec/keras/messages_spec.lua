-- Messages for common mistakes of the first hours: they say what to do.

local ipu = require "ipulua"
local log = require "ipulua.base.log"

local keras, layers = ipu.keras, ipu.keras.layers

local x, y = ipu.ones{8, 4}, ipu.ones{8, 1}

local function model(options)
  local m = keras.Sequential{layers.Dense{1, input_shape = {4}}}
  if options then m:compile(options) end
  return m
end

local function compiled() return model{optimizer = "sgd", loss = "mse"} end

local mistakes <const> = {
  ["fit of a model that was compiled without a loss"] = {
    function() model{optimizer = "sgd"}:fit{x, y, verbose = 0} end,
    "has no loss to optimize; compile it with a loss"},
  ["a misspelt input name"] = {function()
    local a = keras.Input{shape = {4}, name = "left"}
    local b = keras.Input{shape = {4}, name = "right"}
    keras.Model{inputs = {left = a, right = b}, outputs = layers.Add(){a, b}}:predict{
      {left = x, rigth = x}}
  end, "its input 'right' is missing; given are: left, rigth"},
  ["a layer's call with a dot"] = {function() return layers.Dense(3).call(x) end,
    "Dense.call is a method; it is called with a colon"},
  ["the layer at position 0"] = {function() return model().layers[0] end,
    "there is no position 0: a list's positions count from 1, up to 1"},
  ["the weight at position 0"] = {function() return model():get_weights()[0] end,
    "there is no position 0: a list's positions count from 1, up to 2"},
  ["a learning rate for compile"] = {
    function() model{loss = "mse", learning_rate = 0.1} end,
    "compile has no argument 'learning_rate'; it is the optimizer's, as in keras.optimizers.SGD"},
  ["layers one by one"] = {
    function() return keras.Sequential(layers.Dense(1), layers.Dense(2)) end,
    "Sequential: the layers stand in one list, as in Sequential{a, b}"},
  ["a shape as two numbers"] = {function() return keras.Input(28, 28) end,
    "Input: 'shape' is one list, as in Input{28, 28}"},
  ["a text layer in a model"] = {
    function() return keras.Sequential{layers.TextVectorization(), layers.Dense(1)} end,
    "expected a layer, got TextVectorization; texts are no tensors: .* ds:map%(vectorize%)"},
  ["texts for a model"] = {function() compiled():predict{"a good film", "a bad one"} end,
    "predict: expected tensors or a dataset, got string %(a good film%); texts are no tensors"},
  ["one label for two outputs of a binary loss"] = {function()
    local m = keras.Sequential{layers.Dense{2, activation = "softmax", input_shape = {4}}}
    m:compile{loss = "binary_crossentropy"}
    m:fit{x, y, verbose = 0}
  end, "different shapes, %[8, 1%] and %[8, 2%]; it wants one output, Dense%(1%), or a label"},
  ["a metric without predictions"] = {
    function() keras.metrics.Accuracy():update_state(y) end,
    "Accuracy: update_state is called with y_true and y_pred, got no y_pred"},
  ["a mean of nothing"] = {function() keras.metrics.Mean():update_state() end,
    "Mean: update_state is called with values, got no values"},
  ["a map of tables that wants two values"] = {function()
    return ipu.data.from_tensor_slices{left = x, right = y}:map(function(a, _) return a end)
  end, "map: the function has 2 parameters, but an element of the dataset is one table, with "
    .. "'left', 'right'; function%(x%) finds x.left in it"},
  ["a filter of single values that wants two"] = {function()
    return ipu.data.range(3):filter(function(a, _) return ipu.less(a, 1) end)
  end, "filter: the function has 2 parameters, but an element of the dataset is one value"},
  ["a flat_map of pairs that wants three"] = {function()
    return ipu.data.from_tensor_slices{x, y}:flat_map(function(_, _, _) return nil end)
  end, "flat_map: the function has 3 parameters, but an element of the dataset is 2 values"},
  ["a layer's build with a dot"] = {function() return layers.Dense(3).build{-1, 4} end,
    "Dense.build is a method; it is called with a colon"},
  ["a call without return"] = {function()
    local Lost = layers.Layer:extend("Lost")
    function Lost:call(input) self.last = input * 2 end
    return Lost{name = "lost"}(x)
  end, "layer 'lost': its call returned nothing; Lost:call%(x%) must end with `return`"},
  ["a model's call without return"] = {function()
    local Lost = keras.Model:extend("Lost")
    function Lost:call(input) self.last = input * 2 end
    local m = Lost{name = "lost"}
    m:compile{loss = "mse"}
    m:fit(x, y, {verbose = 0})
  end, "layer 'lost': its call returned nothing; Lost:call%(x%) must end with `return`"},
  ["set_floatx"] = {function() keras.backend.set_floatx("float16") end,
    'keras.mixed_precision.set_global_policy%("float16"%) sets the dtype of all layers'},
  ["a function of TensorFlow's"] = {function() return ipu.shape(x) end,
    "ipu has no 'shape'; it is a field of a tensor, x.shape"},
  ["a method called with a dot"] = {function() return x.reshape{2, 16} end,
    "methods are called with a colon"},
  ["validation data of two lengths"] = {function()
    compiled():fit{x, y, verbose = 0, validation_data = {ipu.ones{2, 4}, ipu.ones{3, 1}}}
  end, "fit: validation_data: the tensors have different numbers of samples: 2 and 3"},
  ["labels that begin with 1"] = {function()
    local m = keras.Sequential{layers.Dense{3, activation = "softmax", input_shape = {4}}}
    m:compile{optimizer = "sgd", loss = "sparse_categorical_crossentropy"}
    m:fit{x, ipu.full({8}, 3), verbose = 0}
  end, "labels%[0%] is 3, outside 0 … 2; classes count from 0"},
  ["another framework's name of an activation"] = {function() return ipu.nn.silu end,
    "did you mean 'swish'"},
  ["a cross-entropy of no kind"] = {function() model{loss = "crossentropy"} end,
    "binary_crossentropy.*categorical_crossentropy.*sparse_categorical_crossentropy"},
  ["bytes for a convolution"] = {function()
    return layers.Conv2D{2, 3}(ipu.ones({1, 5, 5, 1}, "uint8"))
  end, "must be floating point, got uint8; convert it by ipu.cast, in a dataset by map"},
  ["a dataset that isn't batched"] = {function()
    compiled():fit{ipu.data.from_tensor_slices{x, y}, verbose = 0}
  end, "the batch axis is missing: ds:batch%(n%)"},
  ["a misspelt name where a part may stand"] = {
    function() layers.Dense(8, {activaton = "relu"}) end,
    "Dense has no argument 'activaton'; did you mean 'activation'"},
  ["both directions of a layer that has none"] = {
    function() layers.Bidirectional(layers.Dense(8)) end,
    "Bidirectional: 'layer' must be a recurrent layer, got Dense"},
  ["an input of texts"] = {function() keras.Input{shape = {1}, dtype = "string"} end,
    "texts are no tensors; TextVectorization or StringLookup numbers them"},
  ["a script's own schedule that defines call"] = {function()
    local Own = keras.optimizers.schedules.LearningRateSchedule:extend("Own")
    function Own:call(step) return 0.1 / step end
    Own()(1)
  end, "Own defines no rate%(step%), which is Keras' __call__%(step%)"},
}

it("a last table without names is no part: Dense(8, {activation = nil})", function()
  assert.equal("linear", layers.Dense(8, {activation = nil}):get_config().activation)
  assert.same({{2, 8}}, {layers.Dense(8, {})(ipu.ones{2, 3}).shape})
end)

describe("a common mistake is told with what helps:", function()
  for name, case in pairs(mistakes) do
    it(name, function()
      local former = log.set_writer(function() end)
      local ok, message = pcall(case[1])
      log.set_writer(former)
      assert.is_false(ok)
      assert.matches(case[2], message)
    end)
  end
end)

local function warnings_of(f)
  local list = {}
  local former = log.set_writer(function(text) list[#list + 1] = tostring(text) end)
  local ok, problem = pcall(f)
  log.set_writer(former)
  assert(ok, problem)
  return list
end

describe("a script's own train_step that takes one value, as Keras' does,", function()
  local function train(parameters, ...)
    local Own = keras.Model:extend("Own")
    Own.train_step = parameters
    local m, given = Own(), {...}
    m:compile{}
    return warnings_of(function()
      for _ = 1, 2 do m:fit{given[1], given[2], verbose = 0} end
    end)
  end

  it("is told once that x and y come one by one", function()
    local said = train(function(_, data) return {sum = ipu.reduce_sum(data[1])} end, x, y)
    assert.equal(1, #said)
    assert.matches("train_step takes 1 value, but gets 2; x, y and sample_weight come one by one, "
      .. "as in Own:train_step(x, y)", said[1], 1, true)
  end)

  it("is not, where nothing is lost", function()
    local function sum(data) return {sum = ipu.reduce_sum(data)} end
    assert.same({}, train(function(_, data) return sum(data) end, x))
    assert.same({}, train(function(_, ...) return sum((...)) end, x, y))
    assert.same({}, train(function(_, first, _) return sum(first) end, x, y))
  end)
end)

describe("a callback's misspelt hook", function()
  it("is told, once for each class, and others are not", function()
    local Own = keras.callbacks.Callback:extend("Own")
    function Own:on_epoch_ends() end -- luacheck: ignore 212
    function Own:on_paper() end -- luacheck: ignore 212
    function Own:on_train_end() end -- luacheck: ignore 212
    local lines = log.capture("warn", function()
      for _ = 1, 2 do compiled():fit(x, y, {callbacks = {Own()}, verbose = 0}) end
    end)
    assert.same({"ipulua: warning: callback 'Own': 'on_epoch_ends' is no hook, so nothing calls "
      .. "it; did you mean 'on_epoch_end'?"}, lines)
  end)
end)

describe("Lua's random numbers in a traced function", function()
  it("are told, once for each line; math.random is itself again afterwards", function()
    local original <const> = math.random
    local said = warnings_of(function()
      for _ = 1, 2 do
        local f = ipu.func(function(v) return v * math.random() end)
        f(ipu.ones{2})
      end
      for _ in ipu.data.range(3):map(function(v) return v + math.random(3) end):iter() do end
    end)
    assert.equal(2, #said)
    for _, text in ipairs(said) do
      assert.matches("messages_spec.lua:%d+: math.random is called while a function is traced",
        text)
    end
    assert.equal(original, math.random)
  end)

  it("are not, where they are drawn on the host", function()
    assert.same({}, warnings_of(function()
      local _ = ipu.ones{2} * math.random()
      local d = ipu.data.range(3):map(function(v) return v + math.random(3) end, {eager = true})
      for _ in d:iter() do end
      pcall(function() ipu.func(function() error("no") end)() end)
      math.random()
    end))
  end)
end)

it("layers that need a size say so of a placeholder that has none", function()
  local L = ipu.keras.layers
  local cases = {
    {L.GaussianNoise(0.1), 2}, {L.GaussianDropout(0.1), 2}, {L.AlphaDropout(0.1), 2},
    {L.RandomFlip(), 4}, {L.RandomRotation(0.1), 4}, {L.LSTM(2), 3}, {L.GRU(2), 3},
  }
  for _, case in ipairs(cases) do
    local layer <const>, rank <const> = case[1], case[2]
    local shape = {-1, 4, 4, 1}
    local fed = ipu.placeholder("float32", table.move(shape, 1, rank, 1, {}))
    assert.error_matches(function() layer(fed, {training = true}) end, "layer '" .. layer.name
      .. "'.*extent %-1.*fed later must be known here: give the placeholder its size")
  end
end)

describe("the module ipulua.log", function()
  it("hands lines to a function, and chooses the level", function()
    local public, list = require "ipulua.log", {}
    local former = public.set_writer(function(line) list[#list + 1] = line end)
    finally(function()
      public.set_writer(former)
      public.set_level(nil)
    end)
    public.set_level "error"
    log.warn("one")
    public.set_level "warn"
    log.warn("two")
    assert.equal(1, #list)
    assert.matches("two", list[1])
    assert.error_matches(function() public.set_level "loud" end, "must be error, warn, info")
  end)
end)
