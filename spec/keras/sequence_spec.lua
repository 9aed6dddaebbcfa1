-- Batches that Lua code makes: keras.utils.Sequence, and generators, as the data of fit, evaluate and predict.

local ipu = require "ipulua"
local log = require "ipulua.log"

local keras = ipu.keras
local Sequence = keras.utils.Sequence

local function message_of(f, ...)
  local ok, message = pcall(f, ...)
  assert.is_false(ok)
  assert.matches("^spec/keras/sequence_spec.lua:%d+: ", message)
  return message
end

-- y = w·x with w from 0; the loss (y − w·x)² with a rate of 0.1 makes of w: w + 0.2·(y − w), where x is 1.
local function line(options)
  local model = keras.Sequential{keras.layers.Dense{1, use_bias = false, kernel_initializer = "zeros", input_shape = {1}}}
  options = options or {}
  options.optimizer, options.loss = keras.optimizers.SGD(0.1), "mse"
  model:compile(options)
  return model
end

local function weight(model) return model:get_weights()[1]:totable()[1][1] end

-- `count` batches of two samples: x = 1 and y = the batch's number + 1. Notes what is asked of it.
local Steps = Sequence:extend("Steps")
function Steps:init(count) self.count, self.asked, self.ended = count, {}, 0 end
function Steps:length() return self.count end
function Steps:get_item(index)
  self.asked[#self.asked + 1] = index
  return ipu.ones{2, 1}, ipu.full({2, 1}, index + 1)
end
function Steps:on_epoch_end() self.ended = self.ended + 1 end

-- Two batches of inputs alone: 0 and 10, 1 and 11.
local Inputs = Sequence:extend("Inputs")
function Inputs:length() return 2 end -- luacheck: ignore 212
function Inputs:get_item(index) return {{index}, {index + 10}} end -- luacheck: ignore 212

describe("a Sequence", function()
  local former
  setup(function() former = log.set_writer(function() end) end)
  teardown(function() log.set_writer(former) end)

  it("is read in its order, from the beginning in each epoch", function()
    local model, steps = line(), Steps(3)
    local loss = model:fit(steps, {epochs = 2, shuffle = false, verbose = 0}).history.loss
    -- losses 1, 3.24, 5.9536, then from w = 1.048, worked out by hand
    assert.is_near(3.3978666666666668, loss[1], 1e-5)
    assert.is_near(1.3524434261333333, loss[2], 1e-5)
    assert.is_near(1.584576, weight(model), 1e-5)
    assert.are.same({0, 1, 2, 0, 1, 2}, steps.asked)
    assert.equal(2, steps.ended)
  end)

  it("is read in another order in each epoch, every batch once", function()
    keras.utils.set_random_seed(3)
    local model, steps = line(), Steps(8)
    model:fit(steps, {epochs = 2, verbose = 0})
    model:fit(steps, {verbose = 0})
    local orders = {}
    for epoch = 0, 2 do
      local order = table.move(steps.asked, 8 * epoch + 1, 8 * epoch + 8, 1, {})
      orders[epoch] = table.concat(order, " ")
      table.sort(order)
      assert.are.same({0, 1, 2, 3, 4, 5, 6, 7}, order)
    end
    assert.equal(24, #steps.asked)
    assert.is_true(orders[0] ~= "0 1 2 3 4 5 6 7" and orders[0] ~= orders[1] and orders[1] ~= orders[2] and orders[0] ~= orders[2])
  end)

  it("is evaluated and predicted in its order", function()
    local model, steps = line(), Steps(3)
    assert.is_near((1 + 4 + 9) / 3, model:evaluate(steps, {verbose = 0}), 1e-5)
    assert.equal(1, steps.ended)
    model:set_weights{{{2}}}
    assert.are.same({{0}, {20}, {2}, {22}}, model:predict(Inputs(), {verbose = 0}):totable())
    assert.are.same({6, 1}, model:predict(steps, {verbose = 0}).shape)
    assert.equal(2, steps.ended)
  end)

  it("validates", function()
    local model, held = line(), Steps(2)
    local history = model:fit(Steps(3), {epochs = 2, shuffle = false, validation_data = held, verbose = 0}).history
    -- w is 1.048 and 1.584576 after the epochs: ((1 − w)² + (2 − w)²) / 2
    assert.is_near((0.048 ^ 2 + 0.952 ^ 2) / 2, history.val_loss[1], 1e-5)
    assert.is_near((0.584576 ^ 2 + 0.415424 ^ 2) / 2, history.val_loss[2], 1e-5)
    assert.are.same({0, 1, 0, 1}, held.asked)
    assert.equal(2, held.ended)
  end)

  it("may take part in an epoch, which then begins with its first batch all the same", function()
    local model, steps = line(), Steps(3)
    model:fit(steps, {epochs = 2, steps_per_epoch = 2, shuffle = false, verbose = 0})
    -- 0.2, 0.56; then 0.648, 0.9184
    assert.is_near(0.9184, weight(model), 1e-5)
  end)

  it("runs several steps in an execution", function()
    local model, steps = line{steps_per_execution = 3}, Steps(3)
    model:fit(steps, {epochs = 2, shuffle = false, verbose = 0})
    assert.is_near(1.584576, weight(model), 1e-5)
  end)

  it("feeds replicas and pipelines", function()
    local config = ipu.IPUConfig()
    config.auto_select_ipus = 2
    config:configure_ipu_system()
    finally(ipu.reset_ipu_configuration)
    local strategy <const> = ipu.IPUStrategy()
    local _ <close> = strategy:scope()
    local piped = keras.Sequential{
      keras.layers.Dense{1, use_bias = false, kernel_initializer = "zeros", input_shape = {1}}, keras.layers.Activation("linear"),
    }
    piped:set_pipeline_stage_assignment{0, 1}
    piped:set_pipelining_options{gradient_accumulation_steps_per_replica = 4}
    piped:compile{optimizer = keras.optimizers.SGD(0.1), loss = "mse", steps_per_execution = 4}
    piped:fit(Steps(4), {verbose = 0})
    assert.is_near(2, weight(piped), 1e-5) -- gradients are summed: 0.2 · (1 + 2 + 3 + 4)
    local replicated = line()
    replicated:build{2, 1}
    replicated:set_weights{{{2}}}
    assert.are.same({{0}, {20}, {2}, {22}}, replicated:predict(Inputs(), {verbose = 0}):totable())
  end)

  it("feeds an interrupted training that goes on, in the midst of an epoch", function()
    local folder = os.tmpname()
    os.remove(folder)
    -- Three epochs of six batches; an error after some step, if one is given.
    local function fit(place, fails_after)
      keras.utils.set_random_seed(5)
      local model, steps, count = line(), Steps(6), 0
      local Failing = keras.callbacks.Callback:extend("Failing")
      function Failing:on_train_batch_end() -- luacheck: ignore 212
        count = count + 1
        if count == fails_after then error("the power is gone") end
      end
      local ok, problem = pcall(model.fit, model, steps, {epochs = 3, verbose = 0,
        callbacks = {keras.callbacks.BackupAndRestore(folder .. place, {save_freq = 2}), Failing()}})
      assert.equal(fails_after == nil, ok, problem)
      return weight(model), table.concat(steps.asked, " ")
    end
    local whole, order = fit("a")
    fit("b", 11)
    local resumed, rest = fit("b")
    os.execute("rm -rf " .. folder .. "a " .. folder .. "b")
    assert.equal(whole, resumed)
    assert.equal(order:sub(-#"x x x x x x x x"), rest:sub(-#"x x x x x x x x")) -- 10 of 18 were saved
  end)

  it("hears of no epoch's end after the last one that was stopped", function()
    local Stop = keras.callbacks.Callback:extend("Stop")
    function Stop:on_epoch_end(epoch) self.model.stop_training = epoch == 1 end
    local steps = Steps(2)
    line():fit(steps, {epochs = 5, callbacks = {Stop()}, verbose = 0})
    assert.equal(1, steps.ended)
  end)

  it("weighs samples and classes", function()
    local Weighted = Steps:extend("Weighted")
    function Weighted:get_item(index) return {ipu.ones{2, 1}, ipu.full({2, 1}, index + 1), {1, 3}} end -- luacheck: ignore 212
    assert.is_near((2 * 1 + 2 * 4) / 2, line():evaluate(Weighted(2), {verbose = 0}), 1e-5)
    local loss = line():fit(Steps(1), {class_weight = {[0] = 1, [1] = 5}, shuffle = false, verbose = 0}).history.loss[1]
    assert.is_near(5, loss, 1e-5)
  end)

  it("has a length, and is walked", function()
    assert.equal(3, #Steps(3))
    local seen = {}
    for x, y in Steps(2):iter() do seen[#seen + 1] = {x.shape[1], y:totable()[1][1]} end
    assert.are.same({{2, 1}, {2, 2}}, seen)
  end)

  it("gives tables of inputs", function()
    local Pairs = Sequence:extend("Pairs")
    function Pairs:length() return 2 end -- luacheck: ignore 212
    function Pairs:get_item(index) -- luacheck: ignore 212
      return {left = ipu.ones{2, 1}, right = ipu.full({2, 1}, index)}, ipu.zeros{2, 1}
    end
    local left, right = keras.Input{shape = {1}, name = "left"}, keras.Input{shape = {1}, name = "right"}
    local model = keras.Model{inputs = {left = left, right = right}, outputs = keras.layers.Add(){left, right}}
    model:compile{loss = "mse"}
    assert.is_near((1 + 4) / 2, model:evaluate(Pairs(), {verbose = 0}), 1e-5)
  end)

  local Bad = Steps:extend("Bad")
  function Bad:get_item(index) return self.what(index) end
  local function bad(what, count)
    local sequence = Bad(count or 2)
    sequence.what = what
    return sequence
  end

  for wanted, make in pairs{
    ["the length of Steps must be a positive integer, got integer %(0%)"] = function() return {x = Steps(0)} end,
    ["Sequence defines no length%(%)"] = function() return {x = Sequence()} end,
    ["'y' must not be given beside a Sequence"] = function() return {x = Steps(2), y = ipu.ones{4, 1}} end,
    ["'batch_size' must not be given beside a Sequence"] = function() return {x = Steps(2), batch_size = 2} end,
    ["'validation_split' can't be taken from a dataset"] = function() return {x = Steps(2), validation_split = 0.5} end,
    ["1 epoch of 5 steps need 5 batches, but the dataset has 2; run fewer steps"] = function() return {x = Steps(2), steps_per_epoch = 5} end,
    ["batch 1 of Bad is float32%[1, 1%], float32%[1, 1%], the first one is float32%[2, 1%], float32%[2, 1%]"] = function()
      return {x = bad(function(index) return ipu.ones{2 - index, 1}, ipu.ones{2 - index, 1} end), shuffle = false}
    end,
    ["get_item%(0%) of Bad returned nothing"] = function() return {x = bad(function() end), shuffle = false} end,
    ["batch 0 of Bad: it is x, y and sample weights; got 4 values"] = function()
      return {x = bad(function() return {{1}}, {{1}}, {1}, 2 end), shuffle = false}
    end,
    ["there is no picture"] = function() return {x = bad(function(index) if index == 1 then error("there is no picture") end
      return ipu.ones{1, 1}, ipu.ones{1, 1} end), shuffle = false} end,
  } do
    it("is refused: " .. wanted, function()
      local given = make()
      given.verbose = 0
      assert.matches(wanted, message_of(function() line():fit(given) end))
    end)
  end
end)

describe("a generator", function()
  local former
  setup(function() former = log.set_writer(function() end) end)
  teardown(function() log.set_writer(former) end)

  -- Batches of Steps, 1, 2, 3 …, up to a last one.
  local function counting(last)
    return coroutine.wrap(function()
      for y = 1, last or math.huge do coroutine.yield(ipu.ones{2, 1}, ipu.full({2, 1}, y)) end
    end)
  end

  it("goes on through the epochs", function()
    local model = line()
    local loss = model:fit(counting(), {epochs = 2, steps_per_epoch = 2, verbose = 0}).history.loss
    -- w: 0.2, 0.56, 1.048, 1.6384; the losses 1, 3.24, 5.9536, 8.714304
    assert.is_near(2.12, loss[1], 1e-5)
    assert.is_near(7.333952, loss[2], 1e-5)
    assert.is_near(1.6384, weight(model), 1e-5)
  end)

  it("is a coroutine, a function, or an iterator", function()
    local function fitted(x)
      local model = line()
      model:fit(x, {steps_per_epoch = 3, verbose = 0})
      return weight(model)
    end
    local y = 0
    assert.is_near(1.048, fitted(coroutine.create(function()
      for i = 1, 3 do coroutine.yield({{1}, {1}}, {{i}, {i}}) end
    end)), 1e-5)
    assert.is_near(1.048, fitted(function()
      y = y + 1
      return {{1}}, {{y}}
    end), 1e-5)
    assert.is_near(1.048, fitted(ipu.data.from_tensor_slices{ipu.ones{3, 1, 1}, {{{1}}, {{2}}, {{3}}}}:iterator()), 1e-5)
  end)

  it("is evaluated and predicted for a number of steps", function()
    local model = line()
    assert.is_near((1 + 4) / 2, model:evaluate(counting(2), {steps = 2, verbose = 0}), 1e-5)
    assert.are.same({{0}, {0}, {0}, {0}}, model:predict(counting(), {steps = 2, verbose = 0}):totable())
  end)

  it("validates, each time where it stands", function()
    local history = line():fit(Steps(1), {epochs = 2, validation_data = counting(), validation_steps = 1, verbose = 0}).history
    assert.is_near(0.8 ^ 2, history.val_loss[1], 1e-5) -- 1 − 0.2; what was read ahead is lost to the second
    assert.is_true(history.val_loss[2] > 1)
  end)

  for wanted, make in pairs{
    ["size of the dataset is unknown.*give 'steps_per_epoch'"] = function() return {x = counting()} end,
    ["'y' must not be given beside a generator"] = function() return {x = counting(), y = ipu.ones{2, 1}, steps_per_epoch = 1} end,
    ["the generator gave no batch.*ipu.data.from_generator"] = function() return {x = function() end, steps_per_epoch = 1} end,
    ["batch 1 of the generator is float32%[1, 1%], float32%[1%], the first one is float32%[2, 1%], float32%[2%]"] = function()
      local n = 3
      return {x = function()
        n = n - 1
        return ipu.ones{n, 1}, ipu.ones{n}
      end, steps_per_epoch = 2}
    end,
    ["the disk is gone"] = function() return {x = coroutine.wrap(function() error("the disk is gone") end), steps_per_epoch = 1} end,
    ["a generator or iterator can't stand here"] = function() return {x = ipu.ones{2, 1}, y = counting()} end,
  } do
    it("is refused: " .. wanted, function()
      local given = make()
      given.verbose = 0
      assert.matches(wanted, message_of(function() line():fit(given) end))
    end)
  end

  it("is no dataset's iterator inside a strategy, which programs read", function()
    local _ <close> = ipu.IPUStrategy():scope()
    local iterator = ipu.data.from_tensor_slices{ipu.ones{3, 1, 1}, ipu.ones{3, 1, 1}}:iterator()
    assert.matches("give the dataset itself", message_of(function() line():fit(iterator, {steps_per_epoch = 1, verbose = 0}) end))
  end)

  it("that ends too early is an error", function()
    assert.matches("end", message_of(function() line():fit(counting(2), {steps_per_epoch = 3, verbose = 0}) end))
  end)
end)
