-- How many samples, batches, steps and programs a call takes: at the sizes where it changes.

local config = require "ipulua.config"
local ipu = require "ipulua"
local log = require "ipulua.base.log"

local data, keras, layers = ipu.data, ipu.keras, ipu.keras.layers

local function line(options)
  local model = keras.Sequential{layers.Dense{1, kernel_initializer = "zeros", input_shape = {1}}}
  options = options or {}
  options.loss, options.optimizer = "mse", keras.optimizers.SGD{learning_rate = 0.01}
  model:compile(options)
  return model
end

local function on_ipus(count, f)
  config.reset_ipu_configuration()
  local cfg = ipu.IPUConfig()
  cfg.auto_select_ipus = count
  cfg:configure_ipu_system()
  finally(function() config.reset_ipu_configuration() end)
  local _ <close> = ipu.IPUStrategy():scope()
  f()
end

-- Calls of a hook in one epoch.
local function count_calls(model, hook, options)
  local calls = 0
  options.callbacks = keras.callbacks.LambdaCallback{[hook] = function() calls = calls + 1 end}
  options.verbose = 0
  model:fit(options)
  return calls
end

describe("fit", function()
  -- Keras 2.6: floor(samples * (1 - validation_split)) are trained on.
  it("rounds the share of the samples that it trains on down", function()
    for _, case in ipairs{{5, 0.3, 3}, {5, 0.5, 2}, {8, 0.25, 6}, {3, 0.5, 1}} do
      local samples, share, trained = case[1], case[2], case[3]
      local function calls(hook)
        return count_calls(line(), hook, {x = ipu.ones{samples, 1}, y = ipu.ones{samples, 1},
          batch_size = 1, validation_split = share})
      end
      assert.equal(trained, calls "on_train_batch_end")
      assert.equal(samples - trained, calls "on_test_batch_end")
    end
  end)

  -- Keras 2.6, TensorLikeDataAdapter: the samples once for each epoch, in one sequence of batches,
  -- of ceil(samples / steps) where only steps are given. The mean of |i - 0| shows which were read.
  describe("of a given number of steps", function()
    local x, y = ipu.zeros{100, 1}, ipu.cast(ipu.reshape(ipu.arange(100), {100, 1}), "float32")
    local function still()
      local model = line()
      model:compile{loss = "mae", optimizer = keras.optimizers.SGD{0}}
      return model
    end
    local function mean_of(ranges)
      local sum, count = 0, 0
      for _, range in ipairs(ranges) do
        for i = range[1], range[2] do sum, count = sum + i, count + 1 end
      end
      return sum / count
    end

    it("goes on in the next epoch where the last one ended", function()
      local losses = still():fit{x, y, batch_size = 30, epochs = 4, steps_per_epoch = 3,
        shuffle = false, verbose = 0}.history.loss
      local read <const> = {{{0, 89}}, {{90, 99}, {0, 59}}, {{60, 99}, {0, 29}}, {{30, 99}}}
      for epoch, ranges in ipairs(read) do
        assert.near(mean_of(ranges), losses[epoch], 1e-4)
      end
    end)

    it("shares all samples out where no batch size is given", function()
      local model = still()
      local function calls(steps)
        return count_calls(model, "on_train_batch_end", {x = x, y = y, steps_per_epoch = steps})
      end
      for _, steps in ipairs{2, 7, 10} do assert.equal(steps, calls(steps)) end
      assert.near(49.5, model:fit{x, y, steps_per_epoch = 2, verbose = 0}.history.loss[1], 1e-4)
      assert.near(49.5, model:evaluate{x, y, steps = 3, verbose = 0}, 1e-4)
      assert.same({100, 1}, {table.unpack(model:predict{x, steps = 3}.shape)})
    end)

    it("needs no more batches than the samples make", function()
      assert.error_matches(function()
        still():fit{x, y, batch_size = 10, epochs = 2, steps_per_epoch = 20, verbose = 0}
      end, "need 40 batches, but the samples make 20; run fewer steps")
    end)
  end)

  -- Keras 2.6: `if class_weight:`
  it("weighs no sample where class_weight is empty", function()
    local function loss(class_weight)
      return line():fit{ipu.ones{4, 1}, ipu.tensor{0, 1, 0, 1}, class_weight = class_weight,
        verbose = 0}.history.loss[1]
    end
    assert.equal(0.5, loss{})
    assert.equal((0 + 3 + 0 + 3) / 4, loss{[0] = 1, [1] = 3})
    assert.error_matches(function() loss{[0] = 1, [1] = "much"} end,
      "'class_weight' holds a number for each class; the weight of class 1 is string %(much%)")
  end)

  it("tells of a class without a weight before it has learnt anything", function()
    for label, pattern in pairs{[-1] = "%-1", [2] = "2"} do
      local model = keras.Sequential{layers.Dense{2, activation = "softmax", input_shape = {1}}}
      model:compile{loss = "sparse_categorical_crossentropy", optimizer = "sgd"}
      local before = model:get_weights()[1]:totable()
      assert.error_matches(function()
        model:fit{x = ipu.ones{4, 1}, y = ipu.tensor{0, 1, 0, label}, batch_size = 1, verbose = 0,
          shuffle = false, class_weight = {[0] = 1, [1] = 2}}
      end, "must hold all classes of the labels; " .. pattern .. " is missing")
      assert.same(before, model:get_weights()[1]:totable())
    end
  end)

  it("offers the smaller one of two batch sizes that are as near", function()
    for _, case in ipairs{{5, 12, 4}, {4, 9, 3}, {7, 16, 8}, {2, 5, 1}} do
      local wanted, samples, offered = case[1], case[2], case[3]
      local input = keras.Input{shape = {1}, batch_size = 32}
      local model = keras.Model{inputs = input, outputs = layers.Dense(1)(input)}
      model:compile{loss = "mse", optimizer = "sgd"}
      local ok, words = pcall(model.fit, model,
        {x = ipu.ones{samples, 1}, y = ipu.ones{samples, 1}, batch_size = wanted})
      assert.is_false(ok)
      local said = tostring(words):match("divides " .. samples .. " %((%d+), say%)")
      assert.equal(offered > 1 and tostring(offered) or nil, said)
    end
  end)

  -- Two replicas take two batches a step: six batches are three steps.
  it("wants the batches of all replicas and epochs of a dataset that isn't repeated", function()
    on_ipus(2, function()
      local function run(batches, epochs)
        local ds = ipu.data.from_tensor_slices{ipu.ones{batches * 2, 1}, ipu.ones{batches * 2, 1}}
        return pcall(function()
          line():fit(ds:batch(2, {drop_remainder = true}),
            {epochs = epochs, steps_per_epoch = 6, verbose = 0})
        end)
      end
      local ok, words = run(9, 2)
      assert.is_false(ok)
      assert.matches("2 epochs of 3 steps need 12 batches, but the dataset has 9", tostring(words))
      assert.is_true((run(12, 2)))
    end)
  end)

  -- Each shape beside the first has a program. The layer is traced once for each.
  it("keeps as many programs for other shapes as max_programs says", function()
    local function traced(max)
      local count = 0
      local model = keras.Sequential{layers.Lambda(function(t)
        count = count + 1
        return ipu.reduce_mean(t, {axis = 1, keepdims = true})
      end)}
      model:compile{loss = "mse", optimizer = "sgd", max_programs = max}
      local lengths <const> = {4, 2, 3, 2, 3, 2, 3}
      local ds = ipu.data.from_generator(function()
        local i = 0
        return function()
          i = i + 1
          if lengths[i] then return ipu.ones{1, lengths[i]}, ipu.ones{1, 1} end
        end
      end, {output_types = {"float32", "float32"}, output_shapes = {{1, -1}, {1, 1}}})
      model:evaluate(ds, {verbose = 0})
      return count
    end
    assert.equal(traced(9), traced(2))
    assert(traced(1) > traced(2))
  end)
end)

describe("evaluate", function()
  -- Two replicas leave a smaller batch out. 296 is 8 * 37: of the sizes from 8 to 32 only 8
  -- divides it. 37 batches are 18 steps, and a batch is over.
  it("takes batches of eight at least, where only those are whole", function()
    on_ipus(2, function()
      local seen
      local Reader = keras.callbacks.Callback:extend("Reader")
      function Reader:on_test_begin() seen = self.params.steps end
      local writer = log.set_writer(function() end)
      local ok, problem = pcall(function()
        line():evaluate{x = ipu.ones{296, 1}, y = ipu.ones{296, 1}, verbose = 0,
          callbacks = Reader()}
      end)
      log.set_writer(writer)
      assert.is_true(ok, tostring(problem))
      assert.equal(18, seen)
    end)
  end)
end)

it("zipped datasets have batches of a size each, in fit and evaluate", function()
  local seen = {}
  local Both = keras.Model:extend "Both"
  function Both:init()
    keras.Model.init(self)
    self.mean = keras.metrics.Mean{name = "rows"}
  end
  local function step(self, a, b)
    seen[#seen + 1] = a.shape[1] .. "+" .. b.shape[1]
    self.mean:update_state(ipu.reduce_sum(a) + 100 * ipu.reduce_sum(b))
    return {rows = self.mean:result()}
  end
  Both.train_step, Both.test_step = step, step
  local function of(rows, size) return data.from_tensor_slices(ipu.ones{rows, 1}):batch(size) end
  local function varying(sizes)
    return data.from_generator(function()
      local i = 0
      return function()
        i = i + 1
        if sizes[i] then return ipu.ones{sizes[i], 1} end
      end
    end, "float32", {-1, 1})
  end
  local zipped = data.zip(of(48, 16), of(20, 8)):prefetch(2) -- 16+8, 16+8, 16+4
  for _, ds in ipairs{zipped, data.zip(varying{16, 16, 16}, varying{8, 8, 4})} do
    local model = Both()
    model:compile{}
    seen = {}
    local want <const> = (48 + 100 * 20) / 3
    assert.is_near(want, model:fit(ds, {epochs = 2, verbose = 0}).history.rows[2], 1e-3)
    assert.is_near(want, model:evaluate(ds, {verbose = 0, return_dict = true}).rows, 1e-3)
    assert.same({"16+4", "16+4", "16+8", "16+8"}, (table.sort(seen) or seen))
    model:compile{steps_per_execution = 3}
    assert.error_matches(function() model:fit(ds, {verbose = 0}) end,
      "may have any shape; with steps_per_execution = 1 each is an execution")
  end
end)

describe("a list of inputs", function()
  local a, b = ipu.ones{20, 3}, 2 * ipu.ones{20, 2}

  it("stays one value where a dataset holds labels beside it, or 64-bit numbers", function()
    local x, y = keras.Input{shape = {3}}, keras.Input{shape = {2}}
    local sums = {layers.Lambda(function(t) return ipu.reduce_sum(t, {axis = 1}) end)(x),
      layers.Lambda(function(t) return ipu.reduce_sum(t, {axis = 1}) end)(y)}
    local model = keras.Model({x, y}, layers.Add()(sums))
    for _, dtype in ipairs{"float32", "float64"} do
      local wide = {ipu.cast(a, dtype), ipu.cast(b, dtype)}
      for _, given in ipairs{wide, data.from_tensor_slices{wide}:batch(4),
        data.from_tensor_slices{wide, ipu.ones{20}}:batch(4)} do
        local got = model:predict(given)
        assert.same({20}, got.shape)
        assert.equal(7 * 20, ipu.reduce_sum(got):item())
      end
    end
  end)

  it("comes to train_step as one value, whatever its dtype", function()
    local Counter = keras.Model:extend "Counter"
    function Counter:init()
      keras.Model.init(self)
      self.mean = keras.metrics.Mean{name = "values"}
    end
    function Counter:train_step(...)
      self.mean:update_state(10 * select("#", ...) + #(...))
      return {values = self.mean:result()}
    end
    for _, dtype in ipairs{"float32", "float64"} do
      local model = Counter()
      model:compile{}
      local ds = data.from_tensor_slices{{ipu.cast(a, dtype), ipu.cast(b, dtype)}}:batch(4)
      assert.equal(12, model:fit(ds, {verbose = 0}).history.values[1])
    end
  end)

  it("is asked for where a dataset's second value was meant as an input", function()
    local x, y = keras.Input{shape = {3}}, keras.Input{shape = {2}}
    local model = keras.Model({x, y}, layers.Concatenate(){x, y})
    assert.error_matches(function() model:predict(data.from_tensor_slices{a, b}:batch(4)) end,
      "has 2 inputs, but got 1 tensor; several are one list, {a, b} %(the second value of a "
      .. "dataset is the labels%)$")
    assert.error_matches(function() model{a, b, b} end, "has 2 inputs, but got 3 tensors$")
  end)
end)
