-- Training: what fit, evaluate and predict accept, report and refuse.

local command = require "spec.support.command"
local ipu = require "ipulua"

local keras, data = ipu.keras, ipu.data
local layers = keras.layers

local function message_of(f, ...)
  local ok, message = pcall(f, ...)
  assert.is_false(ok)
  return message
end

-- y = w x + b, one weight and one bias, beginning at 0.
local function line(options)
  local model = keras.Sequential{layers.Dense{1, kernel_initializer = "zeros", input_shape = {1}}}
  options = options or {}
  options.loss = options.loss or "mse"
  options.optimizer = options.optimizer or keras.optimizers.SGD{learning_rate = 0.1}
  model:compile(options)
  return model
end

local x = ipu.tensor{{0}, {1}, {2}, {3}}
local y = ipu.tensor{{1}, {3}, {5}, {7}}

local function quiet(options)
  options.verbose = 0
  return options
end

-- One step of plain gradient descent by hand: w, b and the loss before.
local function by_hand(w, b, xs, ys, rate)
  local loss, dw, db = 0, 0, 0
  for i = 1, #xs do
    local e = w * xs[i] + b - ys[i]
    loss, dw, db = loss + e * e / #xs, dw + 2 * e * xs[i] / #xs, db + 2 * e / #xs
  end
  return w - rate * dw, b - rate * db, loss
end

describe("compile", function()
  it("keeps what it was given, as Keras' model.loss does", function()
    local model = keras.Sequential{keras.layers.Dense(1, {input_shape = {2}})}
    assert.is_nil(model.loss)
    model:compile{loss = "mse"}
    assert.equal("mse", model.loss)
    local loss = keras.losses.Huber()
    model:compile{loss = loss}
    assert.is_true(rawequal(loss, model.loss))
    model:compile{optimizer = "sgd"}
    assert.is_nil(model.loss)
  end)
end)

describe("fit", function()
  it("row 201: takes the steps that gradient descent takes", function()
    local model = line()
    local history = model:fit(quiet{x = x, y = y, batch_size = 2, epochs = 3, shuffle = false})
    local w, b = 0, 0
    for epoch = 1, 3 do
      local first, second
      w, b, first = by_hand(w, b, {0, 1}, {1, 3}, 0.1)
      w, b, second = by_hand(w, b, {2, 3}, {5, 7}, 0.1)
      assert.is_near((first + second) / 2, history.history.loss[epoch], 1e-5)
    end
    assert.is_near(w, model.weights[1]:item(), 1e-5)
    assert.is_near(b, model.weights[2]:item(), 1e-5)
    assert.are.same({0, 1, 2}, history.epoch)
    assert.are.equal(2, history.params.steps)
  end)

  it("gives the same numbers for any number of steps in an execution", function()
    local losses = {}
    for i, count in ipairs{1, 2, 4} do
      local model = line{steps_per_execution = count}
      losses[i] = model:fit(quiet{x = x, y = y, batch_size = 1, epochs = 2,
        shuffle = false}).history.loss
    end
    assert.are.same(losses[1], losses[2])
    assert.are.same(losses[1], losses[3])
  end)

  it("row 195: accumulates gradients: the mean over 2 batches is a step on both", function()
    local model, whole = line{steps_per_execution = 2}, line()
    model:set_gradient_accumulation_options{gradient_accumulation_steps_per_replica = 2,
      gradient_accumulation_reduction_method = "mean"}
    model:fit(quiet{x = x, y = y, batch_size = 2, epochs = 3, shuffle = false})
    whole:fit(quiet{x = x, y = y, batch_size = 4, epochs = 3, shuffle = false})
    assert.is_near(whole.weights[1]:item(), model.weights[1]:item(), 1e-5)
    assert.are.equal(3, model.optimizer.iterations:item())
  end)

  it("shuffles in another order in each epoch, whether of one call or of several", function()
    -- lr is 0 and the loss is the prediction, x itself. So the loss of an epoch of one step is its
    -- first sample
    local function beginnings(calls, epochs)
      keras.utils.set_random_seed(7)
      local model = keras.Sequential{layers.Dense{1, kernel_initializer = "ones",
        input_shape = {1}}}
      model:compile{optimizer = keras.optimizers.SGD(0), loss = function(_, p)
        return ipu.reduce_mean(p, {axis = -1})
      end}
      local order = {}
      for _ = 1, calls do
        local losses = {}
        local Watch = keras.callbacks.LambdaCallback{on_train_batch_end = function(batch, logs)
          if batch == 0 then losses[#losses + 1] = logs.loss end
        end}
        model:fit{x = ipu.reshape(ipu.cast(ipu.arange(8), "float32"), {8, 1}), y = ipu.zeros{8, 1},
          batch_size = 1, epochs = epochs,
          verbose = 0, callbacks = {Watch}}
        table.move(losses, 1, #losses, #order + 1, order)
      end
      return order
    end
    local several, one = beginnings(6, 1), beginnings(1, 6)
    assert.equal(6, #several)
    assert.same(one, several)
    local distinct = {}
    for _, order in ipairs(several) do distinct[order] = true end
    assert.is_truthy(next(distinct, next(distinct))) -- more than one
  end)

  it("compiles its program once for several calls", function()
    local model = line()
    model:fit(quiet{x = x, y = y, batch_size = 2})
    local count = 0
    for _ in pairs(model._programs) do count = count + 1 end
    model:fit(quiet{x = x, y = y, batch_size = 2})
    for _ in pairs(model._programs) do count = count - 1 end
    assert.are.equal(0, count)
  end)

  it("sees a learning rate that was set between calls", function()
    local model = line()
    model:fit(quiet{x = x, y = y, batch_size = 4})
    local before = model.weights[1]:item()
    model.optimizer.learning_rate = 0
    model:fit(quiet{x = x, y = y, batch_size = 4})
    assert.are.equal(before, model.weights[1]:item())
  end)

  it("row 215: weighs samples and classes", function()
    local one, other = line(), line()
    one:fit(quiet{x = x, y = y, batch_size = 4, sample_weight = {1, 1, 0, 0}})
    other:fit(quiet{x = x, y = y, batch_size = 4, sample_weight = {{1}, {1}, {0}, {0}}})
    local w = by_hand(0, 0, {0, 1}, {1, 3}, 0.1)
    assert.is_near(w / 2, one.weights[1]:item(), 1e-6)
    assert.is_near(w / 2, other.weights[1]:item(), 1e-6)
    local labels = ipu.tensor({0, 1, 1, 1}, {dtype = "int32"})
    local a = line{loss = "binary_crossentropy"}
    assert.has_no.errors(function()
      a:fit(quiet{x = x, y = labels, batch_size = 4, class_weight = {[0] = 3, [1] = 1}})
    end)
    local incomplete = quiet{x = x, y = labels, batch_size = 4, class_weight = {[1] = 1}}
    assert.matches("must hold all classes", message_of(a.fit, a, incomplete))
  end)

  -- Classes along the last axis, of samples and of their steps.
  it("row 215: weighs classes as the weights of their samples, in all forms of labels", function()
    local function whole(list) return ipu.tensor(list, {dtype = "int32"}) end
    local classes <const> = whole{0, 1, 2, 2, 1, 0}
    local steps <const> = whole{{0, 1}, {2, 2}, {1, 0}, {2, 0}, {1, 1}, {0, 2}}
    local forms <const> = {
      {"numbers", {2}, classes, classes}, {"a column", {2}, classes, ipu.expand_dims(classes, -1)},
      {"one-hot", {2}, classes, ipu.one_hot(classes, 3)},
      {"one-hot steps", {2, 4}, steps, ipu.one_hot(steps, 3)},
    }
    for _, form in ipairs(forms) do
      local what, shape, of_class, labels = table.unpack(form)
      local function trained(options)
        local model = keras.Sequential{layers.Dense{3, activation = "softmax", input_shape = shape,
          kernel_initializer = "zeros"}}
        model:compile{optimizer = keras.optimizers.SGD(0.5), loss = what:find "one%-hot"
          and "categorical_crossentropy" or "sparse_categorical_crossentropy"}
        options.batch_size, options.shuffle = 3, false
        model:fit(ipu.random.normal({6, table.unpack(shape)}, {seed = 4}), labels, quiet(options))
        return model.weights[1]:totable()
      end
      local weights = ipu.gather(ipu.tensor{1, 3, 0.5}, of_class)
      local weighed = trained{sample_weight = weights}
      assert.same(weighed, trained{class_weight = {[0] = 1, 3, 0.5}}, what)
      assert.not_same(weighed, trained{}, what)
    end
  end)

  it("goes on with the orders of its epochs, however many calls they are divided among", function()
    local inputs, labels = ipu.random.normal({16, 2}, {seed = 1}),
      ipu.random.normal({16, 1}, {seed = 2})
    local function trained(calls)
      ipu.random.set_seed(3)
      local model = keras.Sequential{layers.Dense{1, input_shape = {2},
        kernel_initializer = "zeros"}}
      model:compile{optimizer = keras.optimizers.SGD(0.05), loss = "mse"}
      for _, options in ipairs(calls) do
        options.x, options.y, options.batch_size = inputs, labels, 4
        model:fit(quiet(options))
      end
      return model.weights[1]:totable()
    end
    local whole = trained{{epochs = 4}}
    for _, calls in ipairs{{{epochs = 3}, {}}, {{}, {epochs = 3}}, {{}, {epochs = 2}, {}},
      {{epochs = 2}, {epochs = 4, initial_epoch = 2}}} do
      assert.same(whole, trained(calls))
    end
    assert.not_same(whole, trained{{epochs = 4, shuffle = false}})
  end)

  it("names a batch without rows, or with an empty axis, wherever it comes", function()
    local function of(at, whole, empty)
      local count = 0
      local inputs, labels = ipu.ones{12, table.unpack(whole)}, ipu.ones{12, 1}
      local extents = {-1, table.unpack(whole)}
      if #whole > 1 then extents[2] = -1 end
      return data.from_tensor_slices{inputs, labels}:batch(4):map(function(a, b)
        count = count + 1
        if count ~= at then return a, b end
        return ipu.zeros(empty), ipu.ones{empty[1], 1}
      end, {eager = true, output_types = {"float32", "float32"},
        output_shapes = {extents, {-1, 1}}})
    end
    local rows = keras.Sequential{layers.Dense{1, input_shape = {2}}}
    local steps = keras.Sequential{layers.Dense{1, input_shape = {-1, 2}},
      layers.GlobalMaxPooling1D()}
    for _, model in ipairs{rows, steps} do model:compile{optimizer = "sgd", loss = "mse"} end
    for at = 2, 3 do
      assert.matches("component 0 of an element is float32%[0, 2%], where batches are "
        .. "float32%[4, 2%]", message_of(rows.fit, rows, of(at, {2}, {0, 2}), {verbose = 0}))
      assert.matches("component 0 of an element is float32%[4, 0, 2%], where batches are "
        .. "float32%[4, 3, 2%]", message_of(steps.fit, steps, of(at, {3, 2}, {4, 0, 2}),
        {verbose = 0}))
    end
  end)

  it("row 214: evaluates validation data at the ends of epochs", function()
    local model = line()
    local history = model:fit(quiet{x = x, y = y, batch_size = 2, epochs = 2,
      validation_data = {x, y}, shuffle = false})
    assert.are.equal(2, #history.history.val_loss)
    assert.is_near(model:evaluate(quiet{x = x, y = y, batch_size = 2}),
      history.history.val_loss[2], 1e-6)
    local split = line():fit(quiet{x = x, y = y, batch_size = 1, validation_split = 0.25})
    assert.is_near(1, #split.history.val_loss, 0)
  end)

  -- Of predictions that are 0 the losses are 9 and 16, and (2 * 9 + 0 * 16) / 2 = 9.
  it("weighs the samples that validation_split holds out", function()
    local model = keras.Sequential{keras.layers.Dense{1, kernel_initializer = "zeros",
      input_shape = {1}}}
    model:compile{loss = "mse", optimizer = keras.optimizers.SGD(0.0)}
    local history = model:fit(quiet{x = ipu.ones{4, 1}, y = ipu.tensor{{1}, {2}, {3}, {4}},
      sample_weight = ipu.tensor{1, 1, 2, 0}, batch_size = 2, validation_split = 0.5}).history
    assert.equal(9, history.val_loss[1])
    assert.equal(2.5, history.loss[1]) -- (1 + 4) / 2
  end)

  it("evaluates validation data in batches of their own, as many as validation_steps", function()
    local Counter = keras.callbacks.Callback:extend("Counter")
    function Counter:init() self.batches = 0 end
    function Counter:on_test_batch_end() self.batches = self.batches + 1 end
    local function count(more)
      local counter, options = Counter(), quiet{x = x, y = y, batch_size = 4, epochs = 1,
        validation_data = {ipu.ones{12, 1}, ipu.ones{12, 1}}}
      options.callbacks = {counter}
      for name, value in pairs(more) do options[name] = value end
      line():fit(options)
      return counter.batches
    end
    assert.equal(3, count{})
    assert.equal(6, count{validation_batch_size = 2})
    assert.equal(2, count{validation_steps = 2})
    assert.equal(4, count{validation_batch_size = 2, validation_steps = 4})
  end)

  it("computes with data of another type by another program", function()
    local model = keras.Sequential{keras.layers.Lambda(function(v) return ipu.cast(v, "float32") / 4
    end, {input_shape = {2}})}
    model:compile{loss = "mse"}
    local function predict(dtype, value)
      return model:predict(ipu.full({4, 2}, value, {dtype = dtype})):totable()[1][1]
    end
    for _ = 1, 2 do
      assert.equal(0.75, predict("int32", 3))
      assert.equal(0.375, predict("float32", 1.5))
      assert.equal(-0.25, predict("int8", -1))
    end
  end)

  it("shows validation's numbers in the order of training's", function()
    local result = command.run{command.ipulua, "-e", [[
      local ipu = require "ipulua"
      local m = ipu.keras.Sequential{ipu.keras.layers.Dense(1)}
      m:compile{loss = "mse", metrics = {"mae", "accuracy"}}
      m:fit{ipu.ones{4, 2}, ipu.ones{4, 1}, batch_size = 2, verbose = 2,
        validation_split = 0.5}]], env = {IPULUA_STYLE = "classic"}}
    local names = {}
    for name in result.out:gmatch("%- ([%a_]+): ") do names[#names + 1] = name end
    assert.same({"loss", "mae", "accuracy", "val_loss", "val_mae", "val_accuracy"}, names)
  end)

  it("row 217: stops when a callback says so, and tells callbacks what happens", function()
    local Recorder = keras.callbacks.Callback:extend("Recorder")
    local seen = {}
    function Recorder:on_train_begin() seen[#seen + 1] = "begin" end -- luacheck: ignore 212
    function Recorder:on_train_batch_end(batch, _, info)
      seen[#seen + 1] = string.format("%d %d-%d %d", batch, info.step_first, info.step_last,
        info.samples)
      self.model.stop_training = true
    end
    -- luacheck: ignore 212
    function Recorder:on_epoch_end(epoch) seen[#seen + 1] = "epoch " .. epoch end
    local model = line{steps_per_execution = 2}
    model:fit(quiet{x = x, y = y, batch_size = 1, epochs = 3, callbacks = {Recorder()}})
    assert.are.same({"begin", "1 0-1 2", "epoch 0"}, seen)
  end)

  it("trains a model with its own train_step", function()
    local Own = keras.Model:extend("Own")
    function Own:init()
      keras.Model.init(self)
      self.dense = layers.Dense{1, kernel_initializer = "zeros"}
    end
    function Own:call(inputs) return self.dense(inputs) end
    function Own:train_step(inputs, labels)
      local tape = ipu.GradientTape()
      local loss = tape(function()
        return ipu.reduce_mean(ipu.square(self(inputs, {training = true}) - labels))
      end)
      self.optimizer:apply_gradients(tape:gradient(loss, self.trainable_variables),
        self.trainable_variables)
      return {own_loss = loss}
    end
    local model = Own()
    model:compile{optimizer = keras.optimizers.SGD{0.1}}
    local history = model:fit(quiet{x = x, y = y, batch_size = 4, epochs = 2})
    local w, b, first = by_hand(0, 0, {0, 1, 2, 3}, {1, 3, 5, 7}, 0.1)
    local _, _, second = by_hand(w, b, {0, 1, 2, 3}, {1, 3, 5, 7}, 0.1)
    assert.is_near(first, history.history.own_loss[1], 1e-5)
    assert.is_near(second, history.history.own_loss[2], 1e-5)
  end)

  it("trains a model that makes its weights in a build of its own", function()
    local Own, shapes = keras.Model:extend("OwnBuild"), {}
    function Own:build(shape)
      shapes[#shapes + 1] = shape[2]
      self.slope = self:add_weight{name = "slope", shape = {1, 1}, initializer = "zeros"}
      self.offset = self:add_weight{name = "offset", shape = {1}, initializer = "zeros"}
    end
    function Own:call(inputs) return ipu.matmul(inputs, self.slope) + self.offset end
    local model = Own()
    model:compile{optimizer = keras.optimizers.SGD{0.1}, loss = "mse"}
    model:fit(quiet{x = x, y = y, batch_size = 4, shuffle = false})
    local w, b = by_hand(0, 0, {0, 1, 2, 3}, {1, 3, 5, 7}, 0.1)
    assert.is_near(w, model.slope:item(), 1e-5)
    assert.is_near(b, model.offset:item(), 1e-5)
    assert.are.same({1}, shapes) -- once
  end)

  it("trains several outputs with losses and weights by name", function()
    local input = keras.Input{shape = {1}}
    local model = keras.Model{inputs = input, outputs = {
      layers.Dense{1, name = "up", kernel_initializer = "zeros"}(input),
      layers.Dense{1, name = "down", kernel_initializer = "ones"}(input),
    }}
    model:compile{loss = {up = "mse", down = "mae"}, loss_weights = {up = 1, down = 0.5},
      optimizer = "sgd",
      metrics = {down = {"mse"}}}
    local result = model:evaluate(quiet{x = x, y = {y, y}, batch_size = 4, return_dict = true})
    assert.is_near(21, result.up_loss, 1e-5)
    assert.is_near(2.5, result.down_loss, 1e-5)
    assert.is_near(21 + 1.25, result.loss, 1e-5)
    assert.is_near(7.5, result.down_mse, 1e-5)
    assert.are.same({"loss", "up_loss", "down_loss", "down_mse"}, model.metrics_names)
  end)
end)

describe("one table", function()
  it("of x and y is the same as the two", function()
    local a, b = line(), line()
    a:fit(quiet{x, y, batch_size = 4})
    a:evaluate(quiet{x, y, batch_size = 4})
    local wide_x, wide_y = ipu.zeros{32, 1}, ipu.ones{32, 1}
    assert.equal(1, b:fit({wide_x, wide_y}, {verbose = 0}).history.loss[1]) -- w = b = 0: (0 - 1)^2
    assert.near(0.64, b:evaluate({wide_x, wide_y}, {verbose = 0}), 1e-6) -- b = 0.1 * 2
  end)

  it("of x, y and weights has the weights last", function()
    assert.equal(0.5, line():fit({ipu.zeros{32, 1}, ipu.ones{32, 1}, ipu.full({32}, 0.5)},
      {verbose = 0}).history.loss[1])
  end)

  it("of a dataset is the dataset", function()
    local ds = data.from_tensor_slices{ipu.zeros{8, 1}, ipu.ones{8, 1}}:batch(4,
      {drop_remainder = true})
    local model = line()
    assert.equal(2, #model:fit({ds}, {epochs = 2, verbose = 0}).history.loss)
    assert.is_number(model:evaluate({ds}, {verbose = 0}))
    assert.same({8, 1}, model:predict{ds}.shape)
  end)

  it("in another one is no place for options", function()
    assert.matches("fit{x, y, verbose = 0}",
      message_of(function() line():fit{x, y, {verbose = 0}} end), 1, true)
  end)

  it("of x and y is a batch of both", function()
    assert.equal(1, line():train_on_batch{ipu.zeros{8, 1}, ipu.ones{8, 1}})
    assert.equal(1, line():test_on_batch{ipu.zeros{8, 1}, ipu.ones{8, 1}})
  end)

  it("of inputs and outputs makes a model", function()
    local a, b = keras.Input{shape = {2}}, keras.Input{shape = {2}}
    assert.same({3, 4}, keras.Model{a, layers.Dense{4}(a)}(ipu.ones{3, 2}).shape)
    assert.equal(2, #keras.Model{{a, b}, a + b}.inputs)
  end)
end)

describe("verbose", function()
  it("may be a boolean", function()
    local model = line()
    assert.equal(1, #model:fit{x, y, batch_size = 4, verbose = false}.history.loss)
    assert.is_number(model:evaluate{x, y, batch_size = 4, verbose = false})
    assert.same({4, 1}, model:predict(x, {batch_size = 4, verbose = false}).shape)
  end)
end)

describe("a layer", function()
  it("may have an init that doesn't call the base's", function()
    local Twice = layers.Layer:extend("Twice")
    function Twice:init(factor) self.factor = factor end
    function Twice:call(v) return v * self.factor end
    assert.matches("^<Twice twice", tostring(Twice(3)))
    local model = keras.Sequential{Twice(3)}
    assert.same({3, 6}, model(ipu.tensor{{1, 2}}):totable()[1])
    assert.matches("^twice", model.layers[1].name)
  end)
end)

it("without a batch_size batches have 32 samples, the last one what is left", function()
  local model = keras.Sequential{layers.Dense{1, input_shape = {1}}}
  model:compile{loss = "mse", optimizer = "sgd"}
  local count
  local Count = keras.callbacks.Callback:extend("Count")
  for _, kind in ipairs{"train", "test", "predict"} do
    Count["on_" .. kind .. "_batch_end"] = function() count = count + 1 end
  end
  for _, case in ipairs{{"fit", 5, 1}, {"fit", 64, 2}, {"fit", 65, 3}, {"evaluate", 5, 1},
    {"evaluate", 1000, 32}, {"predict", 1, 1}, {"predict", 40, 2}, {"predict", 10000, 313}} do
    local who, samples, batches = table.unpack(case)
    count = 0
    local options = {verbose = 0, callbacks = {Count()}}
    local result = who == "predict" and model:predict(ipu.ones{samples, 1}, options)
      or model[who](model, ipu.ones{samples, 1}, ipu.ones{samples, 1}, options)
    assert.equal(batches, count, who .. " of " .. samples)
    if who == "predict" then assert.equal(samples, result.shape[1]) end
  end
end)

describe("fit that ends before its last epoch", function()
  -- The warnings of a fit with these arguments, in a process of its own.
  local function warned(given, prepare)
    local r = command.run{command.ipulua, "-e", ([[
      local ipu = require "ipulua"
      local keras = ipu.keras
      local m = keras.Sequential{keras.layers.Dense{1}}
      m:compile{optimizer = "sgd", loss = "mse"}
      local function stop_after(epoch)
        return keras.callbacks.LambdaCallback{on_epoch_end = function(e) m.stop_training = e + 1 == epoch end}
      end
      %s
      local h = m:fit{x = ipu.ones{8, 2}, y = ipu.ones{8, 1}, batch_size = 4, %s}
      print(#h.epoch)]]):format(prepare or "", given), env = {IPULUA_PROGRESS = "off"}}
    assert.equal(0, r.status, r.err)
    return r.err, r.out
  end

  it("says which way it was", function()
    local stopped = "ipulua: warning: fit: training was ended by a callback: stop_training is set "
      .. "after epoch 2 of 5\n"
    assert.same({stopped, "2\n"}, {warned "epochs = 5, callbacks = stop_after(2)"})
    assert.same({stopped, "2\n"}, {warned [[epochs = 5,
      callbacks = keras.callbacks.EarlyStopping{monitor = "loss", min_delta = 100}]]})
    assert.same({"ipulua: warning: fit: no epoch is left: training begins after epoch 5 of 5\n",
      "0\n"},
      {warned "epochs = 5, initial_epoch = 5"})
    assert.matches(
      "the loss is %-?nan; training ends\n.*stop_training is set after epoch 1 of 5\n$",
      (warned("epochs = 5, callbacks = keras.callbacks.TerminateOnNaN()",
        "m.optimizer.learning_rate = 0 / 0")))
    assert.same({"ipulua: warning: fit: interrupted; the model keeps what it has learnt so far\n",
      "1\n"},
      {
        warned [[epochs = 5, callbacks = keras.callbacks.LambdaCallback{on_batch_end = function()
          io.popen("kill -INT $PPID"):close() end}]]})
    local folder = command.folder()
    local backup =
      ("callbacks = keras.callbacks.BackupAndRestore{'%s', delete_checkpoint = false}"):format(
        folder)
    warned("epochs = 5, " .. backup)
    assert.same({"ipulua: warning: fit: no epoch is left: training begins after epoch 5 of 5\n",
      "5\n"},
      {warned("epochs = 5, " .. backup)})
    command.remove(folder)
  end)

  it("and one that doesn't says nothing, nor one that is to be quiet", function()
    assert.same({"", "5\n"}, {warned "epochs = 5"})
    assert.same({"", "5\n"}, {warned "epochs = 5, callbacks = stop_after(5)"})
    assert.same({"", "2\n"}, {warned "epochs = 5, verbose = 0, callbacks = stop_after(2)"})
  end)
end)

describe("fit refuses", function()
  local endless = data.from_tensor_slices{x, y}:batch(2, {drop_remainder = true}):repeat_n()

  for name, case in pairs{
    ["a model that isn't compiled"] = {"must be compiled first",
      function() return keras.Sequential{layers.Dense(1)}, {x = x, y = y} end},
    ["a partial batch of a fixed batch size"] = {"5 samples in batches of 4: it has a partial "
      .. "batch; the inputs of the model fix it, so add 3, or leave 1 out$",
      function()
        local input = keras.Input{shape = {1}, batch_size = 4}
        local model = keras.Model{inputs = input, outputs = layers.Dense(1)(input)}
        model:compile{loss = "mse", optimizer = "sgd"}
        return model, {x = ipu.ones{5, 1}, y = ipu.ones{5, 1}}
      end},
    ["an endless dataset without steps"] = {"endless.*steps_per_epoch", {x = endless}},
    ["a generator"] = {"from_generator", {x = function() end}},
    ["a coroutine"] = {"shapes of its elements must be known",
      {x = coroutine.create(function() end)}},
    ["labels beside a dataset"] = {"'y' must not be given",
      {x = endless, y = y, steps_per_epoch = 1}},
    ["an open shape where the model fixes the batch"] = {"every shape must be fully known",
      function()
        local input = keras.Input{shape = {1}, batch_size = 2}
        local model = keras.Model{inputs = input, outputs = layers.Dense{1}(input)}
        model:compile{loss = "mse", optimizer = "sgd"}
        return model, {x = data.from_generator(function()
          return function() return ipu.ones{2, 1}, ipu.ones{1} end
        end, {"float32", "float32"}, {{-1, 1}, {1}})}
      end},
    ["steps that don't divide"] = {"steps_per_execution, 3, must be a divisor of the number of "
      .. "steps, 4",
      function() return line{steps_per_execution = 3}, {x = x, y = y, batch_size = 1} end},
    ["more steps than there are data"] = {"2 epochs of 2 steps need 4 batches, but the dataset has "
      .. "3",
      {x = data.from_tensor_slices{x, y}:take(3):batch(1, {drop_remainder = true}),
        steps_per_epoch = 2, epochs = 2}},
    ["tensors of different lengths"] = {"different numbers of samples: 4 and 3",
      {x = x, y = {{1}, {2}, {3}}}},
    ["an unknown argument"] = {"fit has no argument 'epoch'; did you mean 'epochs'",
      {x = x, y = y, epoch = 2}},
    ["a prediction of another shape than the labels"] =
    {"have different shapes, %[4, 2%] and %[4, 1%]",
      {x = x, y = {{1, 2}, {1, 2}, {1, 2}, {1, 2}}, batch_size = 4}},
    ["accumulation that doesn't divide"] =
    {"multiple of the gradient accumulation steps", function()
      local model = line{steps_per_execution = 4}
      model:set_gradient_accumulation_options{gradient_accumulation_steps_per_replica = 3}
      return model, {x = x, y = y, batch_size = 1}
    end},
  } do
    it(name, function()
      local model, options = nil, case[2]
      if type(options) == "function" then model, options = options() end
      model = model or line()
      assert.matches(case[1], message_of(model.fit, model, quiet(options)))
    end)
  end
end)

describe("evaluate and predict", function()
  it("row 212: evaluate gives a number, a list, or a table", function()
    local model = line()
    assert.is_near(21, model:evaluate(quiet{x = x, y = y, batch_size = 2}), 1e-5)
    model = line{metrics = {"mae"}}
    local list = model:evaluate(quiet{x = x, y = y, batch_size = 2})
    assert.is_near(21, list[1], 1e-5)
    assert.is_near(4, list[2], 1e-5)
    assert.is_near(4, model:evaluate(quiet{x = x, y = y, batch_size = 2, return_dict = true}).mae,
      1e-5)
  end)

  it("row 213: predict keeps the order of the data", function()
    local model = line{steps_per_execution = 2}
    model:set_weights{{{2}}, {1}}
    assert.are.same({{1}, {3}, {5}, {7}}, model:predict{x = x, batch_size = 1}:totable())
    local dataset = data.from_tensor_slices{x, y}:batch(2, {drop_remainder = true})
    assert.are.same({{1}, {3}, {5}, {7}}, model:predict(dataset):totable())
    assert.are.same({{1}, {3}}, model:predict(dataset, {steps = 1}):totable())
  end)

  it("handles one batch at a time", function()
    local model = line()
    assert.is_near(21, model:train_on_batch(x, y), 1e-5)
    local w, b = by_hand(0, 0, {0, 1, 2, 3}, {1, 3, 5, 7}, 0.1)
    assert.is_near(w, model.weights[1]:item(), 1e-5)
    local _, _, loss = by_hand(w, b, {0, 1, 2, 3}, {1, 3, 5, 7}, 0)
    assert.is_near(loss, model:test_on_batch(x, y, {return_dict = true}).loss, 1e-5)
    assert.is_near(3 * w + b, model:predict_on_batch(x)[4]:item(), 1e-5)
  end)
end)

describe("accuracy", function()
  it("means what labels and output call for", function()
    local inputs = ipu.tensor{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}, {1, 0, 0}}
    local function accuracy(loss, labels, units)
      local identity = keras.initializers.Identity()
      local model = keras.Sequential{layers.Dense{units or 3, kernel_initializer = identity,
        use_bias = false}}
      if units == 1 then
        model = keras.Sequential{layers.Dense{1, kernel_initializer = "ones", use_bias = false}}
      end
      model:compile{loss = loss, metrics = {"accuracy"}}
      return model:evaluate{x = inputs, y = labels, batch_size = 4, verbose = 0,
        return_dict = true}.accuracy
    end
    assert.are.equal(0.75,
      accuracy("sparse_categorical_crossentropy", ipu.tensor({0, 1, 2, 1}, {dtype = "int32"})))
    assert.are.equal(0.75,
      accuracy("categorical_crossentropy", ipu.tensor{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}, {0, 1, 0}}))
    assert.are.equal(0.5, accuracy("binary_crossentropy", ipu.tensor{1, 0, 1, 0}, 1))
  end)
end)

-- TensorFlow, on a CPU: "Received a label value of 3 which is outside the valid range of [0, 3)."
describe("a label that is no class", function()
  local outside <const> = "^[^:]*fit_spec%.lua:%d+: .*labels%[%d%] is 3, outside 0 … 2"
  local inputs, labels = ipu.zeros{4, 2}, ipu.tensor({0, 1, 2, 3}, {dtype = "uint8"})

  local function model()
    local made = keras.Sequential{layers.Dense{3, input_shape = {2}}}
    made:compile{loss = keras.losses.SparseCategoricalCrossentropy{from_logits = true},
      optimizer = "sgd"}
    return made
  end

  for _, way in ipairs{"fit", "evaluate", "train_on_batch", "test_on_batch"} do
    it("is refused by " .. way, function()
      local given = way:find("batch") and {inputs, labels}
        or {quiet{x = inputs, y = labels, batch_size = 4}}
      local made = model()
      assert.matches(outside, message_of(function()
        local _ = made[way](made, table.unpack(given))
      end))
    end)
  end

  it("leaves the last class a class: uniform logits cost log 3", function()
    local loss = model():evaluate(quiet{x = inputs, y = ipu.tensor({2, 2, 2, 2}, {dtype = "int32"}),
      batch_size = 4})
    assert.is_near(1.0986123, loss, 1e-6)
  end)
end)

describe("a softmax output", function()
  it("row 222: is trained by its logits, without overflow", function()
    local model = keras.Sequential{layers.Dense{2, activation = "softmax", use_bias = false}}
    model:compile{loss = "sparse_categorical_crossentropy", optimizer = "sgd"}
    model:build{-1, 1}
    model:set_weights{{{200, -200}}}
    local loss = model:test_on_batch(ipu.tensor{{1}}, ipu.tensor({1}, {dtype = "int32"}))
    assert.is_near(400, loss, 1e-3)
  end)
end)
