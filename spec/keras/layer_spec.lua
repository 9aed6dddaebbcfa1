-- Layers, their weights, and functional models.

local ipu = require "ipulua"
local log = require "ipulua.base.log"

local keras = ipu.keras
local layers = keras.layers

local function shape_of(t) return table.concat(t.shape, ",") end

local function message_of(f, ...)
  local ok, message = pcall(f, ...)
  assert.is_false(ok)
  return message
end

describe("a layer", function()
  it("takes arguments by position, by name, and both", function()
    for _, layer in ipairs{layers.Dense(3, "relu"), layers.Dense{3, activation = "relu"},
      layers.Dense(3, {activation = "relu"}),
      layers.Dense{units = 3, activation = "relu"}} do
      assert.are.equal(3, layer.units)
      assert.are.equal(keras.activations.relu, layer.activation)
    end
  end)

  it("offers the nearest name for an unknown argument", function()
    assert.matches("layer_spec.lua:%d+: Dense has no argument 'aktivation'; did you mean "
      .. "'activation'%?",
      message_of(function() return layers.Dense{3, aktivation = "relu"} end))
  end)

  it("is named after its class, numbered from the second one on", function()
    keras.utils.reset_names()
    assert.are.equal("max_pooling2d", layers.MaxPooling2D().name)
    assert.are.equal("max_pooling2d_1", layers.MaxPooling2D().name)
    assert.are.equal("lstm", layers.LSTM(2).name)
  end)

  -- Keras 2.6, input_layer.py: "input_" and a count that begins at 1
  it("is an input, numbered from the first one on", function()
    keras.utils.reset_names()
    assert.are.equal("input_1", keras.Input{3}.name)
    assert.are.equal("mine", keras.Input{3, name = "mine"}.name)
    assert.are.equal("input_2", keras.Input{3}.name)
  end)

  it("makes its weights at the first call", function()
    local layer = layers.Dense(3)
    assert.are.equal(0, #layer.weights)
    local y = layer(ipu.ones{2, 4})
    assert.are.equal("2,3", shape_of(y))
    assert.are.equal(15, layer:count_params())
    assert.are.equal("4,3", shape_of(layer.kernel))
  end)

  it("refuses an input of another width than it was built for", function()
    local layer = layers.Dense{3, name = "narrow"}
    layer(ipu.ones{2, 4})
    local message = message_of(function() return layer(ipu.ones{2, 5}) end)
    assert.matches("input 0 of layer 'narrow' doesn't fit the layer: expected axis %-1 to have 4 "
      .. "elements", message)
    assert.matches("got the shape %[2, 5%]", message)
  end)

  it("sets and gets weights, checking number and shapes", function()
    local layer = layers.Dense{2, name = "d"}
    layer(ipu.ones{1, 2})
    layer:set_weights{{{1, 2}, {3, 4}}, {5, 6}}
    assert.are.same({{9, 12}}, layer(ipu.tensor{{1, 1}}):totable())
    assert.are.same({5, 6}, layer:get_weights()[2]:totable())
    assert.matches("layer 'd' has 2 weights, but 1 value was given",
      message_of(layer.set_weights, layer, {{1}}))
    assert.matches("has the shape %[2, 2%]; the value given has %[1, 2%]",
      message_of(layer.set_weights, layer, {{{1, 2}}, {5, 6}}))
  end)

  it("gives no trainable weights once it is frozen", function()
    local layer = layers.BatchNormalization()
    layer(ipu.ones{2, 3})
    assert.are.equal(2, #layer.trainable_weights)
    assert.are.equal(2, #layer.non_trainable_weights)
    layer.trainable = false
    assert.are.equal(0, #layer.trainable_weights)
    assert.are.equal(4, #layer.non_trainable_weights)
  end)

  it("comes back from its config", function()
    for _, layer in ipairs{
      layers.Dense{4, activation = "gelu",
        kernel_initializer = keras.initializers.RandomNormal{stddev = 0.1},
        bias_regularizer = keras.regularizers.l1(0.5)},
      layers.Conv2D{3, {2, 1}, padding = "same"}, layers.LSTM{3, return_sequences = true},
      layers.Bidirectional{layers.GRU{2}, merge_mode = "sum"},
      layers.Embedding{5, 3, mask_zero = true},
      layers.MultiHeadAttention{2, 3, output_shape = 4}, layers.BatchNormalization{momentum = 0.5},
    } do
      local config = ipu.json.decode(ipu.json.encode(layer:get_config()))
      local copy = getmetatable(layer):from_config(config)
      assert.are.same(ipu.json.encode(layer:get_config()), ipu.json.encode(copy:get_config()))
    end
  end)
end)

describe("an own layer", function()
  local Scale = layers.Layer:extend("Scale")
  function Scale:build(input_shape)
    self.factor = self:add_weight{name = "factor", shape = {input_shape[#input_shape]},
      initializer = "ones"}
    self.inner = layers.Dense{2, use_bias = false}
  end
  function Scale:call(x, options)
    if options.training then x = x * 2 end
    return self.inner(x * self.factor)
  end

  it("row 182: finds the weights of its fields, its own first", function()
    local layer = Scale()
    layer(ipu.ones{1, 3})
    assert.are.equal(2, #layer.weights)
    assert.are.equal("3", shape_of(layer.weights[1]))
    assert.are.equal("3,2", shape_of(layer.weights[2]))
  end)

  it("gets `training`", function()
    local layer = Scale()
    local x = ipu.ones{1, 3}
    local y, z = layer(x), layer(x, {training = true})
    assert.are.equal(2 * y[1][1]:item(), z[1][1]:item())
  end)

  it("adds losses of its latest call", function()
    local Penalty = layers.Layer:extend("Penalty")
    function Penalty:call(x)
      self:add_loss(ipu.reduce_sum(x))
      return x
    end
    local layer = Penalty()
    layer(ipu.ones{3})
    layer(ipu.ones{4})
    assert.are.equal(1, #layer.losses)
    assert.are.equal(4, layer.losses[1]:item())
  end)

  it("names a regularizer that returns no loss", function()
    local function nothing() end
    assert.error_matches(function()
      layers.Dense(2, {activity_regularizer = nothing, name = "a"})(ipu.ones{1, 2})
    end,
      "layer 'a': its activity_regularizer must return a tensor, got nil")
    local layer = layers.Dense(2, {kernel_regularizer = nothing, name = "b"})
    layer(ipu.ones{1, 2})
    assert.error_matches(function() return layer.losses end,
      "layer 'b': its regularizer of 'kernel' must return a tensor, got nil")
  end)

  it("says that call is missing", function()
    local Empty = layers.Layer:extend("Empty")
    assert.matches("its class Empty defines no call",
      message_of(function() return Empty()(ipu.ones{1}) end))
  end)
end)

describe("masks", function()
  it("pass from Embedding through a recurrent layer's steps", function()
    local embedding, lstm = layers.Embedding{5, 3, mask_zero = true}, layers.LSTM{2}
    local padded = ipu.tensor({{1, 2, 0, 0}}, {dtype = "int32"})
    local short = ipu.tensor({{1, 2}}, {dtype = "int32"})
    assert.are.same(lstm(embedding(short)):totable(), lstm(embedding(padded)):totable())
  end)
end)

describe("dropout", function()
  it("row 229: scales what it keeps and does nothing outside of training", function()
    local layer = layers.Dropout{0.5}
    local x = ipu.ones{1000}
    assert.are.equal(1000, ipu.reduce_sum(layer(x)):item())
    local y = layer(x, {training = true})
    local kept = ipu.reduce_sum(ipu.cast(ipu.greater(y, 0), "float32")):item()
    assert.is_true(kept > 400 and kept < 600)
    assert.are.equal(2 * kept, ipu.reduce_sum(y):item())
  end)
end)

describe("a functional model", function()
  it("begins with an Input of any shape, in any spelling", function()
    local function shape(...) return shape_of(keras.Input(...)) end
    assert.equal("-1,28,28", shape{28, 28})
    assert.equal("-1,28,28", shape{{28, 28}})
    assert.equal("-1,28,28", shape{shape = {28, 28}})
    assert.equal("-1,28,28,3", shape{28, 28, 3, name = "pictures"})
    assert.equal("32,28", shape({28}, 32))
    assert.equal("32,28", shape{{28}, 32})
    assert.equal("-1,28", shape(28))
  end)

  it("reshapes and permutes, in any spelling", function()
    assert.equal("2,3,2", shape_of(layers.Reshape{{3, 2}, input_shape = {6}}(ipu.ones{2, 6})))
    assert.equal("2,3,2", shape_of(layers.Reshape{3, 2}(ipu.ones{2, 6})))
    assert.equal("2,4,3", shape_of(layers.Permute{{2, 1}}(ipu.ones{2, 3, 4})))
  end)

  local function two_inputs()
    local a, b = keras.Input{shape = {3}, name = "a"}, keras.Input{shape = {3}, name = "b"}
    local shared = layers.Dense{2, use_bias = false, kernel_initializer = "ones", name = "shared"}
    local sum = layers.Add()({shared(a), shared(b)})
    return keras.Model{inputs = {a, b}, outputs = {sum = sum, twice = sum * 2}, name = "m"}, shared
  end

  it("knows the shapes of its tensors", function()
    local x = keras.Input{shape = {28, 28, 1}}
    assert.are.same({-1, 28, 28, 1}, x.shape)
    local y = layers.Flatten()(layers.Conv2D{4, 3}(x))
    assert.are.same({-1, 26 * 26 * 4}, y.shape)
    assert.are.same({-1}, ipu.reduce_sum(y, {axis = -1}).shape)
    local seven = keras.Input{shape = {28, 28, 1}, batch_size = 7}
    assert.are.same({7, 26 * 26 * 4}, layers.Flatten()(layers.Conv2D{4, 3}(seven)).shape)
  end)

  it("computes structures of outputs, with ops between its layers", function()
    local model = two_inputs()
    local y = model{ipu.ones{1, 3}, ipu.ones{1, 3} * 2}
    assert.are.same({{9, 9}}, y.sum:totable())
    assert.are.same({{18, 18}}, y.twice:totable())
    assert.are.same({{9, 9}}, model{a = ipu.ones{1, 3}, b = ipu.ones{1, 3} * 2}.sum:totable())
  end)

  it("holds a shared layer's weights once", function()
    local model, shared = two_inputs()
    assert.are.equal(1, #model.weights)
    assert.are.equal(2, #shared.nodes)
    assert.are.equal(shared, model:get_layer("shared"))
    assert.matches("has no layer 'shard'; did you mean 'shared'",
      message_of(model.get_layer, model, "shard"))
  end)

  it("can be a layer of another", function()
    local inner = keras.Sequential{layers.Dense{2, input_shape = {3}}, name = "inner"}
    local x = keras.Input{shape = {3}}
    local model = keras.Model{inputs = x, outputs = layers.Dense(1)(inner(x))}
    assert.are.equal(8 + 3, model:count_params())
    assert.are.equal("4,1", shape_of(model(ipu.ones{4, 3})))
  end)

  it("mends a missing or superfluous last axis of 1", function()
    local x = keras.Input{shape = {4, 4, 1}}
    local model = keras.Model{inputs = x, outputs = layers.Flatten()(x)}
    assert.are.equal("2,16", shape_of(model(ipu.ones{2, 4, 4})))
    assert.matches("its input .* has the shape %[%-1, 4, 4, 1%], but got %[2, 5, 4%]",
      message_of(function() return model(ipu.ones{2, 5, 4}) end))
  end)

  it("refuses outputs that its inputs don't lead to, and equal names", function()
    local a, b = keras.Input{shape = {3}}, keras.Input{shape = {3}}
    assert.matches("not connected", message_of(function()
      return keras.Model{inputs = a, outputs = layers.Dense(1)(b)}
    end))
    local y = layers.Dense{3, name = "same"}(layers.Dense{3, name = "same"}(a))
    assert.matches("two layers have the name 'same'",
      message_of(function() return keras.Model{inputs = a, outputs = y} end))
  end)
end)

describe("a Sequential model", function()
  it(
    "row 180: is built by its first batch, its first layer's input_shape, an Input, or build",
    function()
    local made = {
      keras.Sequential{layers.Dense(2)}, keras.Sequential{layers.Dense{2, input_shape = {3}}},
      keras.Sequential{keras.Input{shape = {3}}, layers.Dense(2)},
      keras.Sequential{layers.Dense(2)},
    }
    made[1](ipu.ones{1, 3})
    made[4]:build{-1, 3}
    for _, model in ipairs(made) do
      assert.are.equal(8, model:count_params())
      assert.are.same({-1, 2}, model.output_shape)
      assert.are.equal(1, #model.layers)
    end
  end)

  it("adds and takes layers away", function()
    local model = keras.Sequential()
    model:add(layers.Dense{4, input_shape = {3}})
    model:add(layers.Dense(2))
    assert.are.equal(16 + 10, model:count_params())
    model:pop()
    assert.are.equal(16, model:count_params())
    assert.matches("expected a layer, got", message_of(model.add, model, 3))
  end)
end)

describe("a script's own class", function()
  it("whose call gives a number has an error that says so", function()
    local Five = layers.Layer:extend("Five")
    function Five:call() return 5 end -- luacheck: ignore 212
    assert.matches(
      "layer_spec.lua:%d+: layer 'five': its call must give tensors, got integer %(5%)",
      message_of(function()
        return keras.Sequential{layers.Dense{4, input_shape = {3}}, Five()}
      end))
    local One = keras.losses.Loss:extend("One")
    function One:call() return 1 end -- luacheck: ignore 212
    assert.matches("a loss must return a tensor, .* integer %(1%)",
      message_of(function() return One()(ipu.ones{2}, ipu.ones{2}) end))
  end)

  it("with an init that files can't tell of is warned of, once", function()
    local function saved(get_config)
      local Times = layers.Layer:extend("Times")
      function Times:init(factor)
        layers.Layer.init(self)
        self.factor = factor
      end
      function Times:call(x) return x * self.factor end
      Times.get_config = get_config
      local model = keras.Sequential{layers.Dense{4, input_shape = {3}}, Times(2), Times(3)}
      return (log.capture("warn", model.to_json, model))
    end
    local told = saved()
    assert.are.equal(1, #told)
    assert.matches("class Times has an init with arguments %(spec/keras/layer_spec.lua:%d+%), but "
      .. "no get_config that gives them", told[1])
    assert.are.equal(0, #saved(function(self) return {factor = self.factor} end))
  end)
end)

describe("functions that make a layer and call it", function()
  it("take the layer's arguments after the inputs, or among them", function()
    local a, b = keras.Input{3}, keras.Input{3}
    for _, name in ipairs{"add", "subtract", "multiply", "average", "maximum", "minimum",
      "concatenate"} do
      local f = keras.layers[name]
      for i, out in ipairs{f({a, b}, {name = name .. "_1"}), f{a, b, name = name .. "_2"},
        f{{a, b}, name = name .. "_3"}} do
        assert.equal(name .. "_" .. i, keras.Model{inputs = {a, b}, outputs = out}.layers[3].name)
      end
      assert.equal("float16", f({a, b}, {dtype = "float16"}).dtype)
      assert.error_matches(function() f({a, b}, {nam = "x"}) end,
        "has no argument 'nam'; did you mean 'name'?", 1, true)
    end
    assert.same({{11}}, keras.layers.dot({ipu.tensor{{1, 2}}, ipu.tensor{{3, 4}}},
      {axes = 1}):totable())
    assert.same({{11}}, keras.layers.dot{ipu.tensor{{1, 2}}, ipu.tensor{{3, 4}},
      axes = 1}:totable())
  end)
end)

describe("a layer that several calls of functional models share", function()
  local long, short = keras.Input{shape = {-1}}, keras.Input{shape = {7}}
  local shared, once = layers.Embedding(5, 3), layers.Embedding(5, 3)
  local first, second = shared(long), shared(short)
  local only = once(short)

  it("gives inputs and outputs by the number of the call", function()
    assert.equal(first, shared:get_output_at(0))
    assert.equal(second, shared:get_output_at(1))
    assert.equal(short, shared:get_input_at{node_index = 1})
    assert.same({-1, 7, 3}, {table.unpack(shared:get_output_shape_at(1))})
    assert.same({-1, -1}, {table.unpack(shared:get_input_shape_at(0))})
    assert.equal(only, once.output)
  end)

  it("has no one output, as in Keras", function()
    local function told(f) return select(2, pcall(f)) end
    assert.matches("was called 2 times .* so it has no one output; layer:get_output_at%(i%)",
      told(function() return shared.output end))
    assert.matches("no one input shape; layer:get_input_shape_at%(i%)",
      told(function() return shared.input_shape end))
    assert.matches("get_output_at: layer '[%w_]+' was called 2 times, counted from 0; there is no "
      .. "call 2", told(function() return shared:get_output_at(2) end))
    assert.matches("has no output: it was not called with the tensors of a functional model",
      told(function() return layers.Dense(1):get_output_at(0) end))
  end)

  it("has one shape where all calls have the same", function()
    local twice = layers.Dense(2)
    twice(short)
    twice(keras.Input{shape = {7}})
    assert.same({-1, 2}, {table.unpack(twice.output_shape)})
  end)
end)

-- four values; the metric object finds three right
it("add_metric shows what a metric gave by that metric, under its name", function()
  local Endpoint = layers.Layer:extend("Endpoint")
  function Endpoint:init()
    layers.Layer.init(self)
    self.right = keras.metrics.BinaryAccuracy()
  end
  function Endpoint:call(logits, targets)
    self:add_metric(self.right(targets, logits), {name = "accuracy"})
    self:add_loss(ipu.reduce_mean(ipu.square(logits - targets)))
    return logits
  end
  local logits, targets = keras.Input{shape = {1}}, keras.Input{shape = {1}}
  local model = keras.Model{inputs = {logits, targets}, outputs = Endpoint()(logits, targets)}
  model:compile{optimizer = "sgd"}
  local x, y = ipu.tensor{{1}, {0}, {1}, {1}}, ipu.tensor{{1}, {0}, {1}, {0}}
  local r = model:evaluate({x, y}, nil, {verbose = 0, return_dict = true})
  assert.near(3 / 4, r.binary_accuracy, 1e-6)
  assert.near(1 / 4, r.loss, 1e-6)
  assert.is_nil(r.accuracy)
end)
