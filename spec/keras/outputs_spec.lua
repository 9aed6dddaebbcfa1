-- Losses, labels, weights and metrics of models with several outputs, and losses and metrics that
-- are added to models.

local ipu = require "ipulua"
local keras = ipu.keras
local L = keras.layers

local x, y = ipu.random.normal({60, 5}, {seed = 1}), ipu.random.normal({60, 2}, {seed = 2})
local w = ipu.random.uniform({60}, {seed = 3})

local function model_of(count, arguments, as_table)
  local i, outputs = keras.Input{shape = {5}}, {}
  for k = 1, count do outputs[as_table and "key" .. k or k] = L.Dense{2, name = "o" .. k}(i) end
  local model = keras.Model{inputs = i, outputs = count == 1 and outputs[1] or outputs}
  arguments.optimizer = keras.optimizers.SGD(0.0)
  model:compile(arguments)
  return model
end

local function mse(p, labels, weights)
  local each = ipu.reduce_mean(ipu.square(p - labels), {axis = -1})
  return ipu.reduce_mean(weights and each * weights or each):item()
end

local options <const> = {verbose = 0, batch_size = 20, return_dict = true}
local function evaluate(model, labels, weights)
  return model:evaluate(x, labels, {verbose = 0, batch_size = 20, return_dict = true,
    sample_weight = weights})
end

-- numbers: 2 of 3 labels are right, and of the weights 1, 1, 2 the right ones' are 2 / 4
describe("a metric with weights and the same one without them", function()
  local labels = {ipu.tensor({0, 0, 1}, {dtype = "int32"}), ipu.tensor{1, 1, 2}}
  local function run(count, arguments, weights)
    local model = model_of(count, arguments)
    for _, v in ipairs(model.trainable_variables) do
      v:assign(#v.shape == 1 and ipu.tensor{1, 0} or ipu.zeros(v.shape))
    end
    return model:evaluate(x[{1, 3}], labels[1], {verbose = 0, return_dict = true,
      sample_weight = weights})
  end

  it("have the names that Keras gives them: one output", function()
    local r = run(1, {loss = "sparse_categorical_crossentropy", metrics = {"accuracy"},
      weighted_metrics = {"accuracy"}}, labels[2])
    assert.near(2 / 3, r.accuracy, 1e-6)
    assert.near(2 / 4, r.weighted_accuracy, 1e-6)
  end)

  it("have the names that Keras gives them: several outputs", function()
    local r = run(2, {loss = "sparse_categorical_crossentropy", metrics = {o1 = "accuracy"},
      weighted_metrics = {o1 = {"accuracy"}, o2 = {"accuracy"}}}, labels[2])
    assert.near(2 / 3, r.o1_accuracy, 1e-6)
    assert.near(2 / 4, r.o1_weighted_accuracy, 1e-6)
    assert.near(2 / 4, r.o2_accuracy, 1e-6)
  end)
end)

describe("an output without a loss or metrics", function()
  local null <const> = ipu.json.null
  local labels = {y, y * 2}

  -- one output alone has a loss, times its weight
  local function check(arguments, k, factor)
    local model = model_of(2, arguments)
    local file <const> = os.tmpname() .. ".safetensors"
    model:save(file)
    local again = keras.models.load_model(file)
    os.remove(file)
    for _, m in ipairs{model, again} do
      local r = evaluate(m, labels)
      local want = mse(m(x)[k], labels[k])
      assert.near(want * (factor or 1), r.loss, 1e-5)
      assert.near(want, r["o" .. k .. "_loss"], 1e-5)
      assert.is_nil(r["o" .. 3 - k .. "_loss"])
    end
  end

  it("has false, nil or JSON's null in a list, and comes back from a file", function()
    check({loss = {"mse", false}}, 1)
    check({loss = {"mse", null}}, 1)
    check({loss = {false, "mse"}}, 2)
    check({loss = {nil, "mse"}}, 2)
    check({loss = {"mse", false}, loss_weights = {3, false}}, 1, 3)
  end)

  it("may be left out of a table, or have false in it", function()
    check({loss = {o2 = "mse"}}, 2)
    check({loss = {o1 = false, o2 = "mse"}, loss_weights = {o2 = 0.5}}, 2, 0.5)
    check({loss = {o1 = "mse", o2 = null}}, 1)
  end)

  it("needs no labels", function()
    local model = model_of(2, {loss = {"mse", false}})
    assert.near(mse(model(x)[1], y), evaluate(model, {y}).loss, 1e-5)
    assert.near(mse(model(x)[1], y), evaluate(model, {o1 = y}).loss, 1e-5)
  end)

  it("is no shorter list", function()
    local model = model_of(2, {loss = {"mse"}})
    for _ = 1, 2 do -- the second time as the first
      assert.error_matches(function() evaluate(model, labels) end,
        "'loss' has 1 entry for 2 outputs; false stands for an output that has none")
    end
    model = model_of(2, {loss = "mse", metrics = {{"mae"}}})
    for _ = 1, 2 do
      assert.error_matches(function() evaluate(model, labels) end, "'metrics' has 1 entry for 2")
    end
  end)

  it("keeps the others' metrics", function()
    local function names(metrics)
      local model, list = model_of(2, {loss = "mse", metrics = metrics}), {}
      evaluate(model, labels)
      for _, name in ipairs(model.metrics_names) do
        if not name:find("loss") then list[#list + 1] = name end
      end
      return table.concat(list, " ")
    end
    assert.equal("o2_mae", names{nil, {"mae"}})
    assert.equal("o2_mae", names{false, {"mae"}})
    assert.equal("o1_mae", names{{"mae"}, null})
    assert.equal("o1_mae o2_mae", names{"mae", false})
    assert.equal("o1_mae o2_mae", names{nil, "mae"})
    assert.equal("o1_mae o2_mse", names{{nil, "mae"}, {"mse"}})
  end)
end)

it("a list of one output, or one input, is that one, as in Keras", function()
  local i = keras.Input{shape = {5}, name = "i"}
  local out = L.Dense{2, name = "o"}(i)
  local one, alone = keras.Model{inputs = {i}, outputs = {out}}, keras.Model(i, out)
  assert.same({6, 2}, {table.unpack(one:predict(x[{1, 6}]).shape)})
  assert.equal(tostring(alone(x)), tostring(one{x}))
  assert.equal(out, one.output)
  assert.equal(i, one.input)
  one:compile{optimizer = "sgd", loss = {"mse"}, metrics = {o = "mae"}}
  local first = one:evaluate({x}, {y}, {verbose = 0})
  assert.same(first, one:evaluate({i = x}, {o = y}, {verbose = 0}))
  assert.near(mse(alone(x), y), first[1], 1e-5)
end)

describe("several outputs", function()
  it("take one label and one weight for all, lists, or tables by name or key", function()
    for _, as_table in ipairs{false, true} do
      local model = model_of(2, {loss = "mse"}, as_table)
      local p = model:predict(x, {batch_size = 20})
      local first, second = p[1] or p.key1, p[2] or p.key2
      local function check(labels, weights, want1, want2)
        local r = evaluate(model, labels, weights)
        assert.near(want1, r.o1_loss, 1e-5)
        assert.near(want2, r.o2_loss, 1e-5)
        assert.near(want1 + want2, r.loss, 1e-5)
      end
      check(y, nil, mse(first, y), mse(second, y))
      check(y, w, mse(first, y, w), mse(second, y, w))
      check({y, y * 2}, w, mse(first, y, w), mse(second, y * 2, w))
      check({o1 = y, o2 = y * 2}, {o2 = w}, mse(first, y), mse(second, y * 2, w))
      check({y, y}, {w, w * 2}, mse(first, y, w), mse(second, y, w * 2))
      if as_table then check({key1 = y, key2 = y * 2}, {key1 = w}, mse(first, y, w), mse(second,
        y * 2)) end
    end
  end)

  it("refuse names that no output has, and lists of another length", function()
    for _, count in ipairs{1, 3} do
      local model = model_of(count, {loss = "mse"})
      local good = {}
      for k = 1, count do good["o" .. k] = y end
      for _, run in ipairs{"fit", "evaluate", "train_on_batch"} do
        local function try(labels, weights)
          return function() model[run](model, {x = x, y = labels, sample_weight = weights,
            batch_size = run ~= "train_on_batch" and 20 or nil,
            verbose = run ~= "train_on_batch" and 0 or nil}) end
        end
        assert.error_matches(try{o_1 = y}, "'y' names the output 'o_1'; the outputs are o1")
        assert.error_matches(try(good, {o_1 = w}), "'sample_weight' names the output 'o_1'")
        assert.error_matches(try{y, y, y, y}, "'y' has 4 entries for " .. count)
        if count > 1 then assert.error_matches(try{y, y}, "'y' has nothing for the output 'o3'") end
        try(good)()
      end
    end
  end)

  it("are measured by a metric each, whatever was given", function()
    local mean = keras.metrics.MeanSquaredError{name = "same"}
    for _, given in ipairs{{mean}, {"mse"}, {keras.losses.mean_squared_error}, {{mean}, {"mse"}},
      {{class_name = "MeanSquaredError", config = {name = "config"}}}} do
      local model = model_of(2, {loss = "mse", metrics = given})
      local r = model:evaluate(x, {y, y * 3}, {verbose = 0, batch_size = 20})
      assert.equal(5, #r)
      assert.near(r[2], r[4], 1e-5)
      assert.near(r[3], r[5], 1e-5)
      local names = model.metrics_names
      assert.matches("^o1_", names[4])
      assert.matches("^o2_", names[5])
    end
  end)

  it("have names of their own for metrics of one name", function()
    local model = model_of(1, {loss = "mse", metrics = {"mae", "mae"}, weighted_metrics = {"mae"}})
    evaluate(model, y)
    assert.same({"loss", "mae", "mae_1", "weighted_mae"}, model.metrics_names)
  end)

  it("name a metric as Keras does: by a class' own name, or else as it was given", function()
    local model = model_of(1, {loss = "mse", metrics = {"AUC", "Precision", "RootMeanSquaredError",
      "MeanAbsoluteError", "mae", "MSE", "binary_accuracy"}})
    evaluate(model, ipu.cast(ipu.greater(y, 0), "float32"))
    assert.same({"loss", "auc", "precision", "root_mean_squared_error", "mean_absolute_error",
      "mae", "MSE", "binary_accuracy"}, model.metrics_names)
  end)

  it("take descriptions of losses and metrics, whatever words are in them", function()
    local model = model_of(1, {loss = {o1 = {class_name = "Huber", config = {delta = 2.0,
      name = "x"}}},
      metrics = {{class_name = "AUC", config = keras.metrics.AUC():get_config()},
        {class_name = "MeanAbsoluteError", config = {name = "q"}}}})
    evaluate(model, ipu.cast(ipu.greater(y, 0), "float32"))
    assert.equal("q", model.metrics_names[3])
    assert.error_matches(function() model_of(1, {loss = "msee"}) end, "unknown loss 'msee'")
    assert.error_matches(function() model_of(1, {loss = {o1 = "msee"}}) end, "unknown loss 'msee'")
    assert.error_matches(function() model_of(1, {loss = "mse", metrics = {{"maee"}}}) end,
      "unknown metric 'maee'")
  end)

  it("show the values of a metric that has several by their names", function()
    local Both = keras.metrics.Metric:extend("Both")
    function Both:init(o)
      keras.metrics.Metric.init(self, o or {})
      self.sum = self:add_weight{name = "sum"}
    end
    function Both:update_state(_, p) self.sum:assign_add(ipu.reduce_mean(p)) end
    function Both:result() return {single = self.sum:read_value(), double = self.sum * 2} end
    local model = model_of(1, {loss = "mse", metrics = {Both()}})
    local seen = {}
    local watch = keras.callbacks.LambdaCallback{on_epoch_end = function(_,
      logs) seen[#seen + 1] = logs.double end}
    local h = model:fit(x, y, {verbose = 0, batch_size = 20, epochs = 2,
      callbacks = {watch}}).history
    for epoch = 1, 2 do
      assert.near(2 * h.single[epoch], h.double[epoch], 1e-6)
      assert.equal(h.double[epoch], seen[epoch])
    end
    local r = evaluate(model, y)
    assert.near(2 * r.single, r.double, 1e-6)
    r = model:train_on_batch(x, y, {return_dict = true})
    assert.near(2 * r.single, r.double, 1e-6)
  end)

  it("begin anew in each run with the metrics in their fields", function()
    local Mean = keras.metrics.Metric:extend("F1")
    function Mean:init(o)
      keras.metrics.Metric.init(self, o or {})
      self.precision, self.others = keras.metrics.Precision(), {keras.metrics.Recall()}
    end
    function Mean:update_state(labels, p)
      self.precision:update_state(labels, p)
      self.others[1]:update_state(labels, p)
    end
    function Mean:result()
      local a, b = self.precision:result(), self.others[1]:result()
      return 2 * a * b / (a + b)
    end
    local i = keras.Input{shape = {5}}
    local model = keras.Model{inputs = i, outputs = L.Dense{2, activation = "sigmoid"}(i)}
    model:compile{loss = "mse", optimizer = keras.optimizers.SGD(0.5), metrics = {Mean()}}
    local labels = ipu.cast(ipu.greater(y, 0), "float32")
    model:fit(x, labels, {verbose = 0, batch_size = 20, epochs = 3})
    local p = ipu.cast(ipu.greater(model:predict(x, {batch_size = 20}), 0.5), "float32")
    local hits = ipu.reduce_sum(p * labels):item()
    local want = 2 * hits / (ipu.reduce_sum(p) + ipu.reduce_sum(labels)):item()
    for _ = 1, 2 do assert.near(want, evaluate(model, labels).f1, 1e-5) end
  end)

  it("begin anew with variables in their fields", function()
    local Count = keras.metrics.Metric:extend("Count")
    function Count:init(o)
      keras.metrics.Metric.init(self, o or {})
      self.own = {ipu.Variable(0.0)}
      self.made = self:add_weight{name = "made"}
    end
    function Count:update_state()
      self.own[1]:assign_add(1)
      self.made:assign_add(10)
    end
    function Count:result() return self.own[1] + self.made end
    local model = model_of(1, {loss = "mse", metrics = {Count()}})
    for _ = 1, 2 do assert.equal(33, evaluate(model, y).count) end
  end)

  it("multiply weights of classes and of samples, of vectors and columns", function()
    local labels = ipu.cast(ipu.greater(w, 0.5), "float32")
    local i = keras.Input{shape = {5}}
    local model = keras.Model{inputs = i, outputs = L.Dense(1)(i)}
    model:compile{loss = "mse", optimizer = keras.optimizers.SGD(0.0)}
    local column = ipu.expand_dims(labels, -1)
    local squares = ipu.square(model:predict(x, {batch_size = 20}) - column)
    local want = ipu.reduce_mean(squares * (column * 2 + 1) * ipu.expand_dims(w, -1)):item()
    for _, weight in ipairs{w, ipu.expand_dims(w, -1)} do
      for _, label in ipairs{labels, column} do
        local h = model:fit(x, label, {sample_weight = weight, class_weight = {[0] = 1, [1] = 3},
          batch_size = 20, verbose = 0})
        assert.near(want, h.history.loss[1], 1e-5)
      end
    end
  end)
end)

describe("losses", function()
  it("of many samples in half precision are their mean, not what half precision holds", function()
    local n = 16384
    local half = ipu.full({n, 1}, 8, "float16")
    assert.near(64, keras.losses.MeanSquaredError()(ipu.zeros{n, 1}, half):item(), 0.1)
    assert.near(64, keras.losses.MeanSquaredError()(ipu.zeros{n, 1}, half, ipu.ones{n}):item(), 0.1)
    -- penalties: 16384 elements of 8 are 2^20 for l2 = 1
    assert.equal(2 ^ 20, keras.regularizers.L2(1.0)(half):item())
    assert.equal(2 ^ 17, keras.regularizers.L1(1.0)(half):item())
    local layer = L.Activation{"linear", activity_regularizer = keras.regularizers.L2(1.0),
      dtype = "float16"}
    layer(half)
    assert.equal(64, layer.losses[1]:item())
  end)

  it("of half precision and float32 penalties are added in float32", function()
    local model = keras.Sequential{L.Dense{1, input_shape = {5}, dtype = "mixed_float16",
      kernel_initializer = "ones",
      kernel_regularizer = keras.regularizers.L2(100000.0)}}
    model:compile{loss = "mse", optimizer = keras.optimizers.SGD(0.0)}
    local r = model:evaluate(x, ipu.zeros{60, 1}, options)
    local squares = ipu.reduce_mean(ipu.square(ipu.cast(model:predict(x, {batch_size = 20}),
      "float32"))):item()
    assert.near(500000 + squares, r.loss, 0.5)
  end)

  it("that are functions stay, wherever they were added outside of calls", function()
    local dense = L.Dense{4, input_shape = {5}}
    local model = keras.Sequential{dense}
    model:add_loss(function() return ipu.reduce_sum(ipu.square(dense.kernel)) * 10 end)
    model:compile{loss = "mse", optimizer = keras.optimizers.SGD(0.0)}
    local labels = ipu.zeros{60, 4}
    local want = mse(model:predict(x, {batch_size = 20}),
      labels) + ipu.reduce_sum(ipu.square(dense.kernel)):item() * 10
    for _ = 1, 2 do
      assert.near(want, model:fit(x, labels, {verbose = 0, batch_size = 20}).history.loss[1], 1e-4)
      assert.near(want, model:evaluate(x, labels, options).loss, 1e-4)
      assert.equal(1, #model.losses)
    end
    local Own = L.Layer:extend("OwnLoss")
    function Own:build() self:add_loss(function() return 3.0 end) end
    function Own:call(t)
      self:add_loss(ipu.reduce_mean(t))
      return t
    end
    local own = Own()
    for _ = 1, 2 do
      own(x)
      assert.equal(2, #own.losses)
    end
    local other = keras.Sequential{Own(), L.Dense(4)}
    other:compile{loss = "mse", optimizer = keras.optimizers.SGD(0.0)}
    local r = other:evaluate(x, labels, options)
    assert.near(mse(other:predict(x, {batch_size = 20}), labels) + 3 + ipu.reduce_mean(x):item(),
      r.loss, 1e-4)
    assert.error_matches(function() own:add_loss(ipu.tensor(1.0)) end,
      "outside of a call.*takes a function")
  end)

  it("and metrics may be tensors of a functional model", function()
    local i = keras.Input{shape = {5}}
    local code = L.Dense{3, name = "code"}(i)
    local outputs = L.Dense(5)(code)
    local model, encoder = keras.Model{inputs = i, outputs = outputs}, keras.Model{inputs = i,
      outputs = code}
    model:add_loss(ipu.reduce_mean(ipu.square(code)) * 10)
    model:add_loss{ipu.reduce_mean(outputs), ipu.reduce_mean(i)}
    model:add_metric(ipu.reduce_mean(code), {name = "mean_code"})
    model:compile{loss = "mse", optimizer = keras.optimizers.SGD(0.0)}
    local p, c = model:predict(x, {batch_size = 20}), encoder:predict(x, {batch_size = 20})
    local want = mse(p, x) + 10 * ipu.reduce_mean(ipu.square(c)):item() + ipu.reduce_mean(p):item()
      + ipu.reduce_mean(x):item()
    local r = model:evaluate(x, x, options)
    assert.near(want, r.loss, 1e-4)
    assert.near(ipu.reduce_mean(c):item(), r.mean_code, 1e-5)
    -- the losses of a model inside another count there
    local outer = keras.Model{inputs = i, outputs = model(i)}
    outer:compile{loss = "mse", optimizer = keras.optimizers.SGD(0.0)}
    assert.near(want, outer:evaluate(x, x, options).loss, 1e-4)
    assert.error_matches(function() L.Dense(1):add_loss(code) end, "is no functional model")
    assert.error_matches(function() model:add_metric(code, {name = "m", aggregation = "sum"}) end,
      "'aggregation' must be")
  end)
end)

describe("inputs by name", function()
  it("are all needed, and an unknown name has one warning", function()
    local log = require "ipulua.base.log"
    local function input(name) return keras.Input{shape = {2}, name = name} end
    local a, b, c = input "a", input "b", input "c"
    local v = {a = ipu.ones{3, 2}, b = ipu.ones{3, 2} * 2, c = ipu.ones{3, 2} * 3}
    for _, structure in ipairs{{a, b, c}, {a = a, b = b, c = c}} do
      local model = keras.Model{inputs = structure, outputs = L.Concatenate(){a, b, c}}
      assert.same({1, 1, 2, 2, 3, 3}, model(v):totable()[1])
      assert.error_matches(function() model{a = v.a, c = v.c} end, "its input 'b' is missing")
      local function more() return model{a = v.a, b = v.b, c = v.c, d = v.a} end
      local told, out = log.capture("warn", more)
      assert.matches("has no input 'd'", table.concat(told))
      assert.same({1, 1, 2, 2, 3, 3}, out:totable()[1])
      assert.same({}, (log.capture("warn", more)))
    end
    local nested = keras.Model{inputs = {first = a, rest = {b, c}},
      outputs = L.Concatenate(){a, b, c}}
    assert.same({1, 1, 2, 2, 3, 3}, nested{first = v.a, rest = {v.b, v.c}}:totable()[1])
  end)
end)

-- Keras 2.6, Functional._set_output_names: s is taken, and so is s_1.
describe("outputs of one layer's calls", function()
  it("have names that no other output has", function()
    local i = keras.Input{shape = {5}}
    local one, shared = L.Dense{2, name = "s_1"}, L.Dense{2, name = "s"}
    local model = keras.Model{inputs = i, outputs = {one(i), shared(i), shared(i * 2)}}
    model:compile{loss = "mse", metrics = {{"mae"}, {"mae"}, {"mae"}}}
    local logs = evaluate(model, {y, y, y})
    local p = model:predict(x)
    for k, name in ipairs{"s_1", "s", "s_2"} do
      assert.near(mse(p[k], y), logs[name .. "_loss"], 1e-5)
      assert.near(ipu.reduce_mean(ipu.abs(p[k] - y)):item(), logs[name .. "_mae"], 1e-5)
    end
    assert.same({"loss", "s_1_loss", "s_loss", "s_2_loss", "s_1_mae", "s_mae", "s_2_mae"},
      model.metrics_names)
  end)
end)
