-- Callbacks under training.

local command = require "spec.support.command"
local ipu = require "ipulua"
local warnings = require "spec.support.warnings"

local keras = ipu.keras
local callbacks, layers = keras.callbacks, keras.layers

local x = ipu.tensor{{0}, {1}, {2}, {3}}
local y = ipu.tensor{{1}, {3}, {5}, {7}}

local function line()
  local model = keras.Sequential{layers.Dense{1, kernel_initializer = "zeros", input_shape = {1}}}
  model:compile{loss = "mse", optimizer = keras.optimizers.SGD{learning_rate = 0.1}}
  return model
end

local function fit(model, list, epochs)
  return model:fit{x = x, y = y, batch_size = 4, epochs = epochs or 3, verbose = 0,
    callbacks = list}.history
end

describe("callbacks", function()
  local caught = warnings.expected{"batch %d: the loss is %-?nan; training ends"}
  setup(caught.start)
  teardown(caught.stop)

  -- Keras 2.6: "Training will stop if the model doesn't show improvement over the baseline".
  -- Getting better is not enough: patience counts on until the baseline is met.
  it("EarlyStopping's patience ends before the baseline is met", function()
    local function epochs(options, losses)
      local stop, model = callbacks.EarlyStopping(options), {}
      stop:set_model(model)
      stop:on_train_begin()
      for i, loss in ipairs(losses) do
        stop:on_epoch_end(i - 1, {val_loss = loss})
        if model.stop_training then return i end
      end
      return nil
    end
    local falling <const> = {1, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4}
    assert.equal(3, epochs({patience = 3, baseline = 0.1}, falling))
    assert.is_nil(epochs({patience = 3, baseline = 0.85}, falling))
    assert.equal(5, epochs({patience = 2, baseline = 0.85}, {1, 0.8, 0.7, 0.75, 0.75, 0.6}))
    assert.equal(2, epochs({patience = 0, baseline = 0.1}, falling))
    assert.is_nil(epochs({patience = 0}, falling))
  end)

  it("row 217: EarlyStopping stops without improvement and restores the best weights", function()
    local model = line()
    local stop = callbacks.EarlyStopping{monitor = "loss", min_delta = 1000, patience = 2,
      restore_best_weights = true}
    local after = {}
    local history = fit(model, {callbacks.LambdaCallback{on_epoch_end = function(epoch)
      after[epoch] = model.weights[1]:item()
    end}, stop}, 10)
    assert.are.equal(3, #history.loss)
    assert.are.equal(2, stop.stopped_epoch)
    assert.are.equal(after[0], model.weights[1]:item())
  end)

  it("LearningRateScheduler sets the rate of each epoch", function()
    local function halve(epoch, rate) return epoch == 0 and rate or rate / 2 end
    local history = fit(line(), {callbacks.LearningRateScheduler(halve)})
    assert.is_near(0.1, history.lr[1], 1e-7)
    assert.is_near(0.05, history.lr[2], 1e-7)
    assert.is_near(0.025, history.lr[3], 1e-7)
  end)

  it("ReduceLROnPlateau leaves a rate alone that float32 rounds up to min_lr", function()
    local model = keras.Sequential{keras.layers.Dense{1, input_shape = {2}}}
    model:compile{optimizer = keras.optimizers.SGD{0.1}, loss = "mse"}
    local plateau = callbacks.ReduceLROnPlateau{monitor = "loss", patience = 1, min_lr = 0.001,
      min_delta = 1e9}
    local cooldown = 0
    model:fit(ipu.ones{8, 2}, ipu.ones{8, 1},
      {epochs = 8, verbose = 0, callbacks = {plateau, callbacks.LambdaCallback{
      on_epoch_end = function(epoch)
        if epoch == 4 then plateau.cooldown = 7 end -- at min_lr by now
        cooldown = plateau.cooldown_counter
      end}}})
    assert.equal(0, cooldown)
    assert.is_near(0.001, model.optimizer.learning_rate:item(), 1e-9)
  end)

  it("ReduceLROnPlateau lowers the rate", function()
    local model = line()
    fit(model,
      {callbacks.ReduceLROnPlateau{monitor = "loss", patience = 1, min_delta = 1000, factor = 0.5,
        min_lr = 0.03}}, 5)
    assert.is_near(0.03, model.optimizer.learning_rate:item(), 1e-7)
  end)

  it("TerminateOnNaN ends training", function()
    local model = line()
    model.optimizer.learning_rate = 1e38
    local history = fit(model, {callbacks.TerminateOnNaN()}, 50)
    assert.is_true(#history.loss < 10)
  end)

  it("row 217: ModelCheckpoint fills in epoch and metrics and keeps the best", function()
    local folder = command.scratch()
    os.execute("mkdir -p " .. folder)
    local model = line()
    fit(model,
      {callbacks.ModelCheckpoint{filepath = folder .. "/made/for/{epoch:02d}.safetensors",
        save_weights_only = true},
      callbacks.ModelCheckpoint{filepath = folder .. "/best.safetensors", monitor = "loss",
        save_best_only = true}})
    for _, name in ipairs{"made/for/01", "made/for/02", "made/for/03", "best"} do
      local file = io.open(folder .. "/" .. name .. ".safetensors", "rb")
      assert.is_not_nil(file)
      file:close()
    end
    local copy = keras.models.load_model(folder .. "/best.safetensors")
    assert.are.equal(model.weights[1]:item(), copy.weights[1]:item())
    os.execute("rm -r " .. folder)
  end)

  it("CSVLogger tells once which metrics the columns of the first epoch lack", function()
    local path = command.scratch()
    local log = require "ipulua.base.log"
    local lines = {}
    local former = log.set_writer(function(text) lines[#lines + 1] = text end)
    finally(function()
      log.set_writer(former)
      os.remove(path)
    end)
    line():fit{x = x, y = y, batch_size = 4, epochs = 4, verbose = 0, validation_data = {x, y},
      validation_freq = 2, callbacks = callbacks.CSVLogger(path)}
    assert.equal(1, #lines)
    assert.matches("has the columns of the first epoch, without val_loss", lines[1])
  end)

  it("row 217: CSVLogger writes a line an epoch", function()
    local path = command.scratch()
    local history = fit(line(), {callbacks.CSVLogger(path)}, 2)
    local lines = {}
    for l in io.lines(path) do lines[#lines + 1] = l end
    os.remove(path)
    assert.are.equal("epoch,loss", lines[1])
    assert.are.equal("0," .. tostring(history.loss[1]), lines[2])
    assert.are.equal(3, #lines)
  end)

  -- The contents by an independent reader: {kind .. tag → {step → value}}, or a message.
  local function events_in(folder)
    local pipe <close> = assert(io.popen(command.python "struct" .. " spec/support/read_events.py "
      .. command.quote(folder) .. " 2>&1"))
    local text = pipe:read("a")
    local found = {}
    for kind, tag, step, value in text:gmatch("(%S+) (%S+) (%-?%d+) (%S+)\n") do
      local at = kind .. "/" .. tag
      found[at] = found[at] or {}
      found[at][tonumber(step)] = tonumber(value)
    end
    return found, text
  end

  it("TensorBoard writes event files that another reader accepts", function()
    local folder = command.scratch()
    local model = line()
    local history = model:fit{x = x, y = y, batch_size = 1, epochs = 3, verbose = 0,
      validation_data = {x, y},
      validation_batch_size = 4,
      callbacks = {callbacks.TensorBoard{folder, update_freq = 3, histogram_freq = 2,
        write_steps_per_second = true}}}.history
    local found, text = events_in(folder)
    os.execute("rm -r " .. folder)
    assert.is_truthy(text:find("train version brain.Event:2", 1, true), text)
    for epoch = 0, 2 do
      assert.equal(history.loss[epoch + 1], found["train/epoch_loss"][epoch])
      assert.equal(history.val_loss[epoch + 1], found["validation/epoch_loss"][epoch])
      assert.is_near(0.1, found["train/epoch_learning_rate"][epoch], 1e-7)
      assert.is_true(found["train/epoch_steps_per_second"][epoch] > 0)
    end
    local steps = {}
    for step in pairs(found["train/batch_loss"]) do steps[#steps + 1] = step end
    table.sort(steps)
    assert.same({3, 6, 9, 12}, steps)
    -- of a histogram the reader gives the number of elements
    for tag, values in pairs(found) do
      if tag:find("histogram$") then assert.same({[0] = 1, [2] = 1}, values) end
    end
    assert.is_truthy(text:find("kernel/histogram", 1, true))
  end)

  it("TensorBoard draws the model's graph and its weights", function()
    local folder = command.scratch()
    local model = keras.Sequential{layers.Conv2D{2, 3, input_shape = {6, 6, 1}, name = "c",
      kernel_initializer = "ones"}, layers.Flatten{name = "f"}, layers.Dense{3, name = "d"}}
    model:compile{optimizer = keras.optimizers.SGD{0.0}, loss = "mse"}
    model:fit{ipu.zeros{4, 6, 6, 1}, ipu.zeros{4, 3}, verbose = 0, callbacks = {
      callbacks.TensorBoard{folder, histogram_freq = 1, write_images = true}}}
    local _, text = events_in(folder)
    command.remove(folder)
    assert.matches("train node c Conv2D %S+\n", text)
    assert.matches("train node f Flatten c\n", text)
    assert.matches("train node d Dense f\n", text)
    -- [3, 3, 1, 2] without the 1: two pictures of 3 × 3, all white
    assert.matches("train c/kernel/image/1 0 picture 3 3 1 " .. 9 * 255 .. "\n", text)
    assert.matches("train d/kernel/image 0 picture 3 32 1 %d+\n", text) -- turned to lie
    assert.matches("train d/bias/image 0 picture 3 1 1 0\n", text)
  end)

  it("counts steps under steps_per_execution", function()
    local folder = command.scratch()
    require "ipulua.core".make_folder(folder)
    local model = keras.Sequential{layers.Dense(1)}
    model:compile{loss = "mse", optimizer = "sgd", steps_per_execution = 2}
    local calls = {}
    model:fit{x = ipu.ones{24, 1}, y = ipu.ones{24, 1}, batch_size = 2, epochs = 2, verbose = 0,
      callbacks = {
      callbacks.ModelCheckpoint{folder .. "/{epoch}-{batch}.safetensors", save_weights_only = true,
        save_freq = 4},
      callbacks.LambdaCallback{on_train_batch_end = function(batch, _, info)
        calls[#calls + 1] = {batch, info.step_first, info.step_last, info.samples, info.updates}
      end}}}
    assert.same({"1-12.safetensors", "1-4.safetensors", "1-8.safetensors", "2-12.safetensors",
      "2-4.safetensors", "2-8.safetensors"},
      require "ipulua.core".list_folder(folder))
    os.execute("rm -r " .. folder)
    assert.equal(12, #calls)
    assert.same({1, 0, 1, 4, 2}, calls[1])
    assert.same({11, 10, 11, 4, 24}, calls[12])
  end)

  it("are called for each step, while the device runs, when they are asynchronous", function()
    local function fitted(asynchronous)
      local model = keras.Sequential{layers.Dense{1, kernel_initializer = "ones"}}
      model:compile{loss = "mse", optimizer = "sgd", metrics = {"mae"}, steps_per_execution = 6}
      model:set_asynchronous_callbacks(asynchronous)
      local calls, values = {}, {}
      local Watch = callbacks.Callback:extend("Watch")
      -- as classes of layers and models do it
      function Watch:init() callbacks.Callback.init(self) end
      -- luacheck: ignore 212
      function Watch:on_train_batch_begin(batch) calls[#calls + 1] = "begin " .. batch end
      function Watch:on_train_batch_end(batch, logs, info) -- luacheck: ignore 212
        calls[#calls + 1] = string.format("end %d: %d to %d, %d samples, %d updates", batch,
          info.step_first, info.step_last,
          info.samples, info.updates)
        values[#values + 1] = logs.loss
      end
      local history = model:fit{x = ipu.reshape(ipu.arange(24), {24, 1}) / 24, y = ipu.ones{24, 1},
        batch_size = 2, epochs = 1,
        verbose = 0, shuffle = false, callbacks = {Watch()}}.history
      return calls, values, history, model:get_weights()[1]:item()
    end
    local calls, values, history, weight = fitted(true)
    assert.equal(24, #calls)
    assert.same({"begin 0", "end 0: 0 to 0, 2 samples, 1 updates", "begin 1",
      "end 1: 1 to 1, 2 samples, 2 updates"},
      table.move(calls, 1, 4, 1, {}))
    assert.equal("end 11: 11 to 11, 2 samples, 12 updates", calls[24])
    local plain_calls, plain_values, plain_history, plain_weight = fitted(false)
    assert.equal(4, #plain_calls)
    assert.equal(plain_values[1], values[6])
    assert.equal(plain_values[2], values[12])
    assert.same(plain_history, history)
    assert.equal(plain_weight, weight)
  end)

  it("an error in an asynchronous callback ends fit", function()
    local model = line()
    model:set_asynchronous_callbacks(true)
    local ok, message = pcall(fit, model,
      {callbacks.LambdaCallback{on_train_batch_end = function() error("too much") end}})
    assert.is_false(ok)
    assert.matches("too much", message)
    assert.equal(3, #fit(model, {}).loss) -- and leaves the model usable
  end)

  it("have Keras' defaults", function()
    local filepath <const> = "m.safetensors"
    for name, expected in pairs {
      EarlyStopping = {monitor = "val_loss", min_delta = 0, patience = 0, verbose = 0,
        mode = "auto", restore_best_weights = false,
        start_from_epoch = 0},
      ModelCheckpoint = {filepath, monitor = "val_loss", verbose = 0, save_best_only = false,
        save_weights_only = false,
        mode = "auto", save_freq = "epoch"},
      BackupAndRestore = {"backup", save_freq = "epoch", double_checkpoint = false,
        delete_checkpoint = true, verbose = 0},
      ReduceLROnPlateau = {monitor = "val_loss", factor = 0.1, patience = 10, verbose = 0,
        mode = "auto", min_delta = 1e-4,
        cooldown = 0, min_lr = 0},
      LearningRateScheduler = {print, verbose = 0}, TerminateOnNaN = {raise_error = false},
      CSVLogger = {"log.csv", separator = ",", append = false},
      TensorBoard = {log_dir = "logs", histogram_freq = 0, update_freq = "epoch"},
    } do
      local made = callbacks[name](expected[1])
      for key, value in pairs(expected) do
        if key ~= 1 then assert.equal(value, made[key], name .. "." .. key) end
      end
    end
  end)

  it("takes lists that were made one already", function()
    local Count = keras.callbacks.Callback:extend("Count")
    function Count:on_epoch_end() self.ends = (self.ends or 0) + 1 end
    local a, b, c = Count(), Count(), Count()
    local model = keras.Sequential{keras.layers.Dense{1}}
    model:compile{loss = "mse", optimizer = "sgd"}
    local both = keras.callbacks.CallbackList{a, b}
    for _, given in ipairs{both, {both, c}} do
      model:fit(ipu.ones{4, 2}, ipu.ones{4, 1},
        {batch_size = 4, epochs = 2, verbose = 0, callbacks = given})
    end
    assert.same({4, 4, 2}, {a.ends, b.ends, c.ends})
  end)

  it(
    "calls all functions of a LambdaCallback, those of batches before those of training batches",
    function()
    local seen, given = {}, {}
    for _, event in ipairs{"on_train_batch_begin", "on_batch_begin", "on_train_batch_end",
      "on_batch_end"} do
      given[event] = function() seen[#seen + 1] = event end
    end
    local model = keras.Sequential{keras.layers.Dense{1}}
    model:compile{loss = "mse", optimizer = "sgd"}
    model:fit(x, y,
      {batch_size = 4, verbose = 0, callbacks = {keras.callbacks.LambdaCallback(given)}})
    assert.same({"on_batch_begin", "on_train_batch_begin", "on_batch_end", "on_train_batch_end"},
      seen)
  end)

  it("tells callbacks of a fit what its validation does", function()
    local Notes = keras.callbacks.Callback:extend("Notes")
    local notes = {}
    for _, event in ipairs{"on_test_begin", "on_test_batch_end", "on_test_end", "on_epoch_end"} do
      Notes[event] = function(self) notes[#notes + 1] = event .. " of " .. self.params.epochs end
    end
    local model = keras.Sequential{keras.layers.Dense{1}}
    model:compile{loss = "mse", optimizer = "sgd"}
    model:fit(x, y, {batch_size = 4, epochs = 2, verbose = 0, callbacks = Notes(),
      validation_data = {x, y}, validation_freq = 2})
    assert.same({"on_epoch_end of 2", "on_test_begin of 2", "on_test_batch_end of 2",
      "on_test_end of 2", "on_epoch_end of 2"}, notes)
  end)

  it("refuses what is no callback", function()
    local ok, message = pcall(fit, line(), {3})
    assert.is_false(ok)
    assert.matches("entry 1 is no callback", message)
  end)
end)
