-- keras.backend, and names of Keras that are not names of classes. Numbers are worked out by hand
-- or come from Keras' documentation.

local command = require "spec.support.command"
local ipu = require "ipulua"

local keras = ipu.keras
local K = keras.backend

local function numbers(t) return t:totable() end

describe("keras.backend", function()
  local x

  before_each(function() x = ipu.tensor{{1, 2, 3}, {4, 5, 6}} end)

  it("reduces along axes that are given by place or by name", function()
    assert.same({2, 5}, numbers(K.mean(x, -1)))
    assert.same({{5, 7, 9}}, numbers(K.sum(x, {axis = 0, keepdims = true})))
    assert.equal(6, K.max(x):item())
    assert.same({2, 2}, numbers(K.argmax(x)))
    assert.is_true(K.any(ipu.tensor{0, 1}):item())
    assert.is_false(K.all(ipu.tensor{0, 1}):item())
  end)

  it(
    "multiplies matrices of any rank as Keras' dot does: the last axis by the last but one",
    function()
    assert.same({{22, 28}, {49, 64}}, numbers(K.dot(x, ipu.tensor{{1, 2}, {3, 4}, {5, 6}})))
    assert.same({14, 32}, numbers(K.dot(x, ipu.tensor{1, 2, 3})))
    assert.same({2, 3, 5, 2}, K.dot(ipu.ones{2, 3, 4}, ipu.ones{5, 4, 2}).shape)
    -- y[k][d] with d the summed axis: y = [[[1], [2]], [[3], [4]]], x = [1, 10]
    assert.same({{21}, {43}}, numbers(K.dot(ipu.tensor{1, 10}, ipu.tensor{{{1}, {2}}, {{3}, {4}}})))
  end)

  it("multiplies sample by sample", function()
    assert.same({{14}, {77}}, numbers(K.batch_dot(x, x)))
    assert.same({2, 3, 5}, K.batch_dot(ipu.ones{2, 3, 4}, ipu.ones{2, 4, 5}).shape)
    assert.same({{{4}, {4}, {4}}}, numbers(K.batch_dot(ipu.ones{1, 3, 4}, ipu.ones{1, 1, 4}, 2)))
  end)

  it("has roots of 0 for numbers below 0, and no slope there", function()
    assert.same({0, 0, 2}, numbers(K.sqrt(ipu.tensor{-1, 0, 4})))
    local v = ipu.Variable{-1.0, 4.0}
    local tape = ipu.GradientTape()
    local y = tape(function() return K.sum(K.sqrt(v)) end)
    assert.equal(0.25, tape:gradient(y, v)[2]:item())
  end)

  it("chooses by a condition of lower rank, and calls functions of the branch only", function()
    local rows = K.switch(ipu.tensor{true, false}, ipu.ones{2, 2}, ipu.zeros{2, 2})
    assert.same({{1, 1}, {0, 0}}, numbers(rows))
    local chosen = K.switch(ipu.tensor(true), function() return ipu.tensor(1.0) end, function()
      return ipu.tensor(2.0)
    end)
    assert.equal(1, chosen:item())
    assert.equal(7, K.in_train_phase(7, function() error("not called") end, true))
    assert.equal(8, K.in_test_phase(7, 8, true))
  end)

  it("repeats, flattens, clips and pads shapes as Keras does", function()
    assert.same({{{1, 2, 3}, {1, 2, 3}}, {{4, 5, 6}, {4, 5, 6}}}, numbers(K["repeat"](x, 2)))
    assert.same({{1, 1, 2, 2, 3, 3}, {4, 4, 5, 5, 6, 6}}, numbers(K.repeat_elements(x, 2, 1)))
    assert.same({2, 12}, K.batch_flatten(ipu.ones{2, 3, 4}).shape)
    assert.same({{2, 2, 3}, {4, 5, 5}}, numbers(K.clip(x, 2, 5)))
    assert.same({{2, 2, 3}, {4, 5, 6}}, numbers(K.clip(x, 2)))
    -- backend.py of Keras 2.6: a max_value below min_value becomes min_value
    assert.same({{5, 5, 5}, {5, 5, 5}}, numbers(K.clip(x, 5, 2)))
    assert.same({2, 2, 3}, K.stack({x, x}, {axis = 0}).shape)
    assert.same({2, 3, 2}, K.stack({x, x}, -1).shape)
    assert.same({2, 3, 1}, K.expand_dims(x).shape)
    assert.same({2, 6}, K.concatenate({x, x}).shape)
    assert.same({2, 2, 3}, K.stack({x, x}, 1).shape)
    assert.has_error(function() K["repeat"](ipu.ones{2}, 2) end)
  end)

  it("gives crossentropies for each element or sample", function()
    local each = numbers(K.binary_crossentropy(ipu.tensor{1, 0}, ipu.tensor{0.9, 0.2}))
    assert.is_near(-math.log(0.9), each[1], 1e-6)
    assert.is_near(-math.log(0.8), each[2], 1e-6)
    local logits = numbers(K.binary_crossentropy(ipu.tensor{1.0}, ipu.tensor{2.0}, true))
    assert.is_near(math.log(1 + math.exp(-2)), logits[1], 1e-6)
    assert.is_near(-math.log(0.9),
      K.categorical_crossentropy(ipu.tensor{{1, 0}}, ipu.tensor{{0.9, 0.1}}):totable()[1], 1e-6)
    local labels = ipu.tensor({1}, {dtype = "int32"})
    assert.is_near(-math.log(0.1),
      K.sparse_categorical_crossentropy(labels, ipu.tensor{{0.9, 0.1}}):totable()[1], 1e-6)
  end)

  it("reads and changes variables", function()
    local v = K.variable(x)
    K.update_add(v, ipu.ones{2, 3})
    assert.same({{2, 3, 4}, {5, 6, 7}}, numbers(K.get_value(v)))
    K.batch_set_value{{v, x}}
    assert.same({{1, 2, 3}, {4, 5, 6}}, numbers(K.batch_get_value{v}[1]))
    assert.equal(2, K.ndim(v))
    assert.equal("float32", K.floatx())
    assert.equal("float32", K.cast_to_floatx{1, 2}.dtype)
  end)

  it("works on what stands for tensors in functional models", function()
    local input = keras.Input{shape = {3}}
    assert.is_true(K.is_keras_tensor(input))
    local model = keras.Model{inputs = input, outputs = K.sum(K.square(input), -1)}
    assert.same({14, 77}, numbers(model(x)))
  end)
end)

describe("other names of Keras", function()
  it("mean the same classes and functions", function()
    assert.equal(keras.layers.MaxPooling2D, keras.layers.MaxPool2D)
    assert.equal(keras.layers.GlobalAveragePooling1D, keras.layers.GlobalAvgPool1D)
    assert.equal(keras.layers.Conv3DTranspose, keras.layers.Convolution3DTranspose)
    assert.equal(keras.losses.mean_squared_error, keras.losses.MSE)
    assert.equal(keras.losses.kl_divergence, keras.metrics.kullback_leibler_divergence)
    assert.equal(keras.losses.hinge, keras.metrics.hinge)
    assert.equal(keras.initializers.HeNormal, keras.initializers.he_normal)
    assert.equal(keras.constraints.NonNeg, keras.constraints.non_neg)
    assert.error_matches(function() return keras.layers.MaxPoolin2D end,
      "keras.layers has no 'MaxPoolin2D'; did you mean 'MaxPooling2D'?",
      1, true)
  end)

  it("are understood where a part is named", function()
    assert.equal("MaxPooling2D",
      keras.layers.deserialize{class_name = "MaxPool2D", config = {}}.__name)
  end)

  it("say what to use where a name can't be had", function()
    assert.error_matches(function() return keras.layers.RandomHeight end,
      "RandomHeight is not offered.*RandomZoom")
    assert.error_matches(function() keras.layers.deserialize("RandomWidth") end,
      "RandomWidth is not offered.*RandomZoom")
    local picture = ipu.ones{1, 4, 4, 1}
    assert.same({1, 4, 4, 1},
      keras.layers.RandomZoom(0, {width_factor = 0.2})(picture, {training = true}).shape)
  end)
end)

describe("serialize and deserialize", function()
  it("describe parts and make them again", function()
    local saved = keras.optimizers.serialize(keras.optimizers.Adam(0.25))
    assert.equal("Adam", saved.class_name)
    assert.equal(0.25, K.get_value(keras.optimizers.deserialize(saved).learning_rate):item())
    assert.equal(2,
      keras.losses.deserialize(keras.losses.serialize(keras.losses.Huber{delta = 2})).delta)
    assert.equal("relu", keras.activations.serialize(keras.activations.relu))
    assert.equal(keras.activations.relu, keras.activations.deserialize("relu"))
    assert.equal(3, keras.layers.deserialize(keras.layers.serialize(keras.layers.Dense(3))).units)
  end)

  it("models from a config have the same architecture", function()
    local model = keras.Sequential{keras.layers.Dense{3, input_shape = {2}}}
    local again = keras.models.model_from_config(model:get_config())
    assert.same({1, 3}, again(ipu.ones{1, 2}).shape)
  end)
end)

describe("small parts of Keras", function()
  it("Discretization numbers the bins, as in Keras' documentation", function()
    local layer = keras.layers.Discretization{bin_boundaries = {0, 1, 2}}
    assert.same({{0, 2, 3, 1}, {1, 3, 2, 1}},
      numbers(layer(ipu.tensor{{-1.5, 1, 3.4, 0.5}, {0, 3, 1.3, 0}})))
    assert.has_error(function() keras.layers.Discretization{bin_boundaries = {1, 0}} end)
  end)

  it("RadialConstraint takes rings from the diagonal, as Keras' code does", function()
    local function kernel(n)
      local data = {}
      for i = 1, n * n do data[i] = i - 1 end
      return ipu.reshape(ipu.tensor(data, {dtype = "float32"}), {n, n, 1, 1})
    end
    local function project(n)
      return numbers(ipu.reshape(keras.constraints.RadialConstraint()(kernel(n)), {n, n}))
    end
    -- the middle from [0][0], the ring from [1][1]
    assert.same({{4, 4, 4}, {4, 0, 4}, {4, 4, 4}}, project(3))
    assert.same({{15, 15, 15, 15}, {15, 5, 5, 15}, {15, 5, 5, 15}, {15, 15, 15, 15}}, project(4))
    assert.has_error(function() keras.constraints.RadialConstraint()(ipu.ones{2, 3, 1, 1}) end)
  end)

  it("normalize divides vectors by their norm; zeros stay", function()
    assert.same({{0, 0}, {1, 0}}, numbers(keras.utils.normalize(ipu.tensor{{0, 0}, {5, 0}})))
    assert.same({{0.25, 0.75}}, numbers(keras.utils.normalize(ipu.tensor{{2, 6}}, {order = 1})))
    -- numpy.linalg.norm's results for these orders: 8, 0 (which stays), 2
    local x <const> = ipu.tensor{{2, -8, 0}}
    assert.same({{0.25, -1, 0}}, numbers(keras.utils.normalize(x, {order = math.huge})))
    assert.same({{2, -8, 0}}, numbers(keras.utils.normalize(x, {order = -math.huge})))
    assert.same({{1, -4, 0}}, numbers(keras.utils.normalize(x, {order = 0})))
  end)

  it("AUC knows its curves in any case", function()
    assert.equal("PR", keras.metrics.AUC{curve = "pr"}.curve)
    assert.equal("minoring", keras.metrics.AUC{summation_method = "Minoring"}.summation_method)
  end)

  it("save_model writes what load_model reads", function()
    local path = command.scratch ".safetensors"
    local model = keras.Sequential{keras.layers.Dense{2, input_shape = {2}}}
    keras.models.save_model(model, path)
    local x = ipu.ones{1, 2}
    assert.same(numbers(model(x)), numbers(keras.models.load_model(path)(x)))
    os.remove(path)
  end)

  it("mean, var and std of bool are computed of zeros and ones", function()
    local hits = ipu.equal(ipu.tensor{1, 0, 1, 1}, ipu.tensor{1, 1, 1, 1})
    assert.equal(0.75, K.mean(hits):item())
    assert.equal(0.1875, K.var(hits):item())
    assert.is_near(0.4330127, K.std(hits):item(), 1e-6)
    local model = keras.Sequential{keras.layers.Dense{1, input_shape = {2},
      kernel_initializer = "ones"}}
    model:compile{optimizer = "sgd", loss = "mse",
      metrics = {function(t, p) return K.mean(K.equal(t, K.round(p))) end}}
    local x = ipu.tensor{{1, 0}, {0, 1}, {1, 1}, {0, 0}}
    assert.equal(0.5, model:evaluate(x, ipu.ones{4, 1}, {verbose = 0})[2])
  end)
end)
