-- The rules for arguments of fit, evaluate and predict, each with its error.

local command = require "spec.support.command"
local ipu = require "ipulua"
local log = require "ipulua.base.log"

local keras = ipu.keras
local data = ipu.data

local x, y = ipu.ones{8, 3}, ipu.ones{8, 1}

local function model(options)
  local m = keras.Sequential{keras.layers.Dense{1, input_shape = {3}}}
  m:compile{optimizer = "sgd", loss = "mse", steps_per_execution = options
    and options.steps_per_execution}
  return m
end

local function slices() return data.from_tensor_slices{x, y} end
local function batches() return slices():batch(2, {drop_remainder = true}) end -- four of them

local function refused(what, f, ...)
  local ok, message = pcall(f, ...)
  assert.is_false(ok)
  assert.matches(what, message)
  assert.matches("^spec/keras/arguments_spec.lua:%d+: ", message)
  return ipu.last_error().kind
end

local function fit(m, given)
  given.verbose = 0
  return m:fit(given)
end

describe("the arguments of fit", function()
  local warnings
  local former
  before_each(function()
    warnings = {}
    former = log.set_writer(function(text) warnings[#warnings + 1] = tostring(text) end)
  end)
  after_each(function() log.set_writer(former) end)

  for what, given in pairs{
    ["there is no data"] = {},
    ["a generator, iterator or sequence can't be fed"] = {x = function() return x end, y = y},
    ["different numbers of samples: 8 and 4"] = {x = x, y = ipu.ones{4, 1}},
    ["'y' must not be given beside a dataset"] = {x = batches(), y = y},
    ["'sample_weight' must not be given beside a dataset"] = {x = batches(),
      sample_weight = ipu.ones{8}},
    ["'batch_size' must not be given beside a dataset"] = {x = batches(), batch_size = 2},
    ["has the shape %[%-1, 3%], but got %[2, 3, 3%]"] = {x = slices():batch(3):batch(2)},
    ["the dataset is endless.*give 'steps_per_epoch'"] = {x = batches():repeat_n()},
    ["the dataset has no elements"] = {x = batches():filter(function() return false end)},
    ["2 epochs of 3 steps need 6 batches, but the dataset has 4"] = {x = batches(), epochs = 2,
      steps_per_epoch = 3},
    ["'validation_split' must lie in %[0, 1%)"] = {x = x, y = y, batch_size = 2,
      validation_split = 1},
    ["'validation_split' can't be taken from a dataset"] = {x = batches(), validation_split = 0.5},
    ["'validation_data' is a dataset, or a list {x, y}"] = {x = batches(), validation_data = 3},
    ["'validation_freq' must be positive, got 0"] = {x = batches(), validation_data = batches(),
      validation_freq = 0},
    ["'class_weight' must hold all classes from 0 to 2; 1 is missing"] = {x = batches(),
      class_weight = {[0] = 1, [2] = 1}},
    ["'batch_size' must be positive, got 0"] = {x = x, y = y, batch_size = 0},
    ["'steps_per_epoch' must be positive, got 0"] = {x = batches(), steps_per_epoch = 0},
    ["fit has no argument 'epoch'; did you mean 'epochs'"] = {x = batches(), epoch = 3},
    ["'epochs' must be an integer, got number %(1.5%)"] = {x = batches(), epochs = 1.5},
    ["callbacks: entry 1 is no callback"] = {x = batches(), callbacks = {3}},
  } do
    it("rows 202, 207, 208: are refused: " .. what, function()
      refused(what, fit, model(), given)
    end)
  end

  it("row 203: steps_per_execution must divide the steps", function()
    assert.equal("value",
      refused("steps_per_execution, 3, must be a divisor of the number of steps, 4", fit,
      model{steps_per_execution = 3}, {x = batches()}))
  end)

  it(
    "row 205: steps_per_execution is reduced to the steps, with a warning, for this call",
    function()
    local m = model{steps_per_execution = 9}
    assert.equal(1, #fit(m, {x = batches()}).history.loss)
    assert.matches("steps_per_execution is 9, but there are only 4 steps; it is 4 for this call",
      table.concat(warnings, "\n"))
    assert.equal(9, m.steps_per_execution)
  end)

  it("row 204: steps_per_execution must be a multiple of the accumulated steps, after it was "
    .. "reduced", function()
    local m = model{steps_per_execution = 4}
    m:set_gradient_accumulation_options{gradient_accumulation_steps_per_replica = 3}
    assert.equal("runtime",
      refused("steps_per_execution, 4, must be a multiple of the gradient accumulation steps, 3",
        fit, m,
      {x = batches()}))
    m:set_gradient_accumulation_options{gradient_accumulation_steps_per_replica = 2}
    assert.equal(2, (function() fit(m, {x = batches()}) return m.optimizer.iterations:item() end)())
  end)

  it("row 200: a model must be compiled, and under a strategy not to be run eagerly", function()
    local strategy <const> = ipu.IPUStrategy()
    local _ <close> = strategy:scope()
    local m = keras.Sequential{keras.layers.Dense{1, input_shape = {3}}}
    assert.equal("runtime", refused("must be compiled first", fit, m, {x = batches()}))
    m:compile{optimizer = "sgd", loss = "mse", run_eagerly = true}
    assert.equal("runtime",
      refused("run_eagerly = true, which is not possible", fit, m, {x = batches()}))
  end)

  it("row 210: float64 is cast, and a finite dataset is read anew for each epoch", function()
    local wide = data.from_tensor_slices{ipu.cast(x, "float64"), ipu.cast(y, "float64")}:batch(4,
      {drop_remainder = true})
    assert.equal(3, #fit(model(), {x = wide, epochs = 3}).history.loss)
  end)

  it("a dataset that is too short for its steps may be long enough for one epoch", function()
    assert.equal(1, #fit(model(), {x = batches(), steps_per_epoch = 3}).history.loss)
  end)

  it("initial_epoch counts from 0, validation_freq may list epochs", function()
    local history = fit(model(), {x = batches(), epochs = 4, initial_epoch = 1,
      validation_data = batches(), validation_freq = {2, 4}})
    assert.same({1, 2, 3}, history.epoch)
    assert.equal(2, #history.history.val_loss)
  end)
end)

describe("the arguments of evaluate and predict", function()
  it("are checked as fit's arguments are", function()
    local m = model()
    refused("evaluate: the dataset is endless.*give 'steps'", m.evaluate, m, batches():repeat_n(),
      {verbose = 0})
    refused("evaluate: 1 epoch of 5 steps need 5 batches, but the dataset has 4", m.evaluate, m,
      batches(), {steps = 5, verbose = 0})
    refused("predict has no argument 'y'", m.predict, m, {x = x, y = y})
    refused("evaluate: 'sample_weight' needs 'y', too", m.evaluate, m,
      {x = x, sample_weight = ipu.ones{8}})
  end)

  it("are quiet about fewer steps than an execution has when verbose is 0", function()
    local function shown(verbose)
      local script = [[
        local ipu = require "ipulua"
        local m = ipu.keras.Sequential{ipu.keras.layers.Dense{1, input_shape = {3}}}
        m:compile{optimizer = "sgd", loss = "mse", steps_per_execution = 8}
        m:evaluate{x = ipu.ones{8, 3}, y = ipu.ones{8, 1}, batch_size = 2,
          verbose = ]] .. verbose .. "}"
      local r = command.run{command.ipulua, "-e", script}
      assert.equal(0, r.status, r.err)
      return r.out, r.err
    end
    assert.same({"", ""}, {shown(0)})
    local out, err = shown(1)
    assert.matches("warning: .*steps_per_execution is 8, but there are only 4 steps", err)
    assert.matches("^4/4 %[=+%]", out)
  end)

  it("compute_loss needs the predictions, too", function()
    refused("compute_loss: 'y_pred' is missing", keras.Model.compute_loss, model(), y, y)
  end)

  it("predict needs no compiled model, evaluate gives what it was asked for", function()
    local plain = keras.Sequential{keras.layers.Dense{1, input_shape = {3}}}
    assert.same({8, 1}, plain:predict(x, {batch_size = 4}).shape)
    assert.is_number(model():evaluate(x, y, {batch_size = 4, verbose = 0}))
    assert.is_number(model():evaluate(x, y, {batch_size = 4, verbose = 0, return_dict = true}).loss)
  end)
end)

describe("parts by name", function()
  it("have the defaults of their names: l1_l2 0.01 each, the class L1L2 none", function()
    local w = ipu.random.normal({30, 40}, {seed = 1})
    local squares, sizes = ipu.reduce_sum(ipu.square(w)):item(), ipu.reduce_sum(ipu.abs(w)):item()
    local both, penalty = 0.01 * (squares + sizes), keras.regularizers.get
    assert.near(both, penalty("l1_l2")(w):item(), 1e-3)
    assert.near(both, keras.layers.Dense{1,
      kernel_regularizer = "l1_l2"}.kernel_regularizer(w):item(), 1e-3)
    assert.near(0.01 * sizes, penalty("l1")(w):item(), 1e-3)
    assert.near(0.01 * squares, penalty("l2")(w):item(), 1e-3)
    assert.equal(0, penalty("L1L2")(w):item())
  end)

  it("and options of calls are those that a layer has", function()
    local input = ipu.ones{2, 3}
    refused("layer 'd': its call has no option 'traning'; did you mean 'training'",
      keras.layers.Dense{3, name = "d"}, input,
      {traning = true})
    local m = keras.Sequential{keras.layers.Dense{3, input_shape = {3}}}
    refused("its call has no option 'traning'", m, input, {traning = true})
    refused("its call has no option 'traning'", keras.layers.Dropout(0.5), keras.Input{shape = {3}},
      {traning = true})
    local Own = keras.layers.Layer:extend("Own")
    function Own:call(t, o) return t * o.factor end
    assert.equal(6, ipu.reduce_max(Own()(input, {factor = 6})):item())
  end)

  it("data_format and class_id are taken where Keras has them", function()
    for name, shape in pairs{SpatialDropout2D = {4, 8, 6, 6}, SpatialDropout3D = {4, 8, 3, 3, 3}} do
      local axes = {}
      for axis = 2, #shape - 1 do axes[#axes + 1] = axis end
      local dropped = keras.layers[name]{0.5, data_format = "channels_first",
        seed = 1}(ipu.ones(shape),
        {training = true})
      local whole = ipu.reduce_max(dropped, {axis = axes}) - ipu.reduce_min(dropped, {axis = axes})
      assert.equal(0, ipu.reduce_max(whole):item())
      assert.near(0.5, ipu.reduce_mean(ipu.cast(ipu.equal(dropped, 0), "float32")):item(), 0.3)
    end
    -- the second column alone: scores 0.9, 0.6, 0.4, 0.1 of labels 1, 0, 1, 0
    local labels = ipu.tensor{{0, 1}, {1, 0}, {0, 1}, {1, 0}}
    local scores = ipu.tensor{{0.2, 0.9}, {0.1, 0.6}, {0.7, 0.4}, {0.3, 0.1}}
    for name, want in pairs{SensitivityAtSpecificity = 0.5, SpecificityAtSensitivity = 0.5,
      PrecisionAtRecall = 2 / 3, RecallAtPrecision = 0.5} do
      local metric = keras.metrics[name]{0.8, class_id = 1}
      metric:update_state(labels, scores)
      assert.near(want, metric:result():item(), 1e-6)
    end
  end)
end)
