-- Hooks of callbacks, called one by one as fit calls them. They are called in a second training,
-- after several steps at once, and with values that are no numbers.

local ipu = require "ipulua"
local command = require "spec.support.command"
local log = require "ipulua.base.log"
local callbacks <const> = ipu.keras.callbacks

-- A model whose weights are a word.
local function model_of(weights)
  return {now = weights, get_weights = function(self) return self.now end,
    set_weights = function(self, value) self.now = value end}
end

local function epochs(callback, name, values)
  callback:on_train_begin()
  callback.model.stop_training = false
  for i, value in ipairs(values) do
    callback:on_epoch_end(i - 1, {[name] = value})
    if callback.model.stop_training then return i end
  end
end

describe("EarlyStopping", function()
  it("restores no weights of the training before", function()
    local stop <const> = callbacks.EarlyStopping{patience = 1, restore_best_weights = true}
    stop:set_model(model_of "first")
    assert.equal(2, epochs(stop, "val_loss", {1, 2}))
    stop.model.now = "second"
    assert.equal(2, epochs(stop, "val_loss", {0 / 0, 0 / 0}))
    assert.equal("second", stop.model.now)
  end)

  it("counts a growth as better only by more than min_delta", function()
    for values, ends in pairs{[{0.5, 0.55, 0.6}] = 2, [{0.5, 0.65, 0.7}] = 3} do
      local stop <const> = callbacks.EarlyStopping{monitor = "accuracy", min_delta = 0.125,
        patience = 1}
      stop:set_model(model_of "w")
      assert.equal(ends, epochs(stop, "accuracy", values))
    end
  end)
end)

describe("ReduceLROnPlateau", function()
  it("compares with no epoch of the training before", function()
    local plateau <const> = callbacks.ReduceLROnPlateau{factor = 0.5, patience = 1}
    plateau:set_model{optimizer = ipu.keras.optimizers.SGD(1.0)}
    epochs(plateau, "val_loss", {1})
    epochs(plateau, "val_loss", {5, 4})
    assert.equal(1.0, plateau.model.optimizer.learning_rate:item())
    epochs(plateau, "val_loss", {5, 5})
    assert.equal(0.5, plateau.model.optimizer.learning_rate:item())
  end)
end)

describe("a monitored metric", function()
  it("is to grow or to fall by its name", function()
    for name, grows in pairs{accuracy = true, val_acc = true, val_left_accuracy_1 = true,
      val_auc = true, auc_pr = true, myacc_2 = true, fmeasure_x = true, loss = false,
      accuracy_loss = false, accuracy_loss_1 = false, val_loss = false, mae = false,
      recall = false} do
      assert.equal(grows, callbacks._monitors.is_max("auto", name), name)
    end
  end)
end)

describe("ModelCheckpoint", function()
  -- Executions of 3 steps: 3, 6, 9, 12, 15, 18 … steps have been made; 4, 8, 12, 16 and 20 are due.
  it("saves every save_freq steps, whatever an execution makes", function()
    local saved <const>, check <const> = {}, callbacks.ModelCheckpoint{"x.safetensors",
      save_freq = 4}
    check.save = function(_, _, _, batch) saved[#saved + 1] = batch end
    for first = 0, 18, 3 do
      check:on_train_batch_end(first + 2, {}, {step_first = first, step_last = first + 2})
    end
    assert.same({5, 8, 11, 17, 20}, saved)
  end)
end)

describe("CSVLogger", function()
  it("has one header, however often it appends, and quotes its separator", function()
    local folder <const> = command.folder()
    finally(function() command.remove(folder) end)
    local path <const> = folder .. "/log.csv"
    local logger <const> = callbacks.CSVLogger{path, separator = ";", append = true}
    for run = 1, 2 do
      logger:on_train_begin()
      logger:on_epoch_end(0, {["a;b"] = run, ["c,d"] = 0.5})
      logger:on_train_end()
    end
    local file <close> = assert(io.open(path))
    assert.equal('epoch;"a;b";c,d\n0;1;0.5\n0;2;0.5\n', file:read "a")
  end)

  it("tells in each training which metrics have no column", function()
    local lines <const>, path <const> = {}, command.scratch()
    local former <const> = log.set_writer(function(text) lines[#lines + 1] = text end)
    finally(function()
      log.set_writer(former)
      os.remove(path)
    end)
    local logger <const> = callbacks.CSVLogger(path)
    for run = 1, 2 do
      logger:on_train_begin()
      for epoch = 0, 2 do
        logger:on_epoch_end(epoch, {loss = 1, val_loss = epoch > 0 and 2 or nil})
      end
      logger:on_train_end()
      assert.equal(run, #lines)
      assert.matches("without val_loss$", lines[run])
    end
  end)
end)

describe("asynchronous callbacks", function()
  it("are called as often, whatever was trained without them before", function()
    local keras <const> = ipu.keras
    local model = keras.Sequential{keras.layers.Dense{1, input_shape = {2}}}
    model:compile{optimizer = "sgd", loss = "mse", steps_per_execution = 4}
    model:set_asynchronous_callbacks(true)
    local Count = callbacks.Callback:extend "Count"
    local steps = {}
    function Count:on_train_batch_end(step) steps[#steps + 1] = step end -- luacheck: ignore 212
    local function trained(...)
      steps = {}
      model:fit{x = ipu.ones{32, 2}, y = ipu.ones{32, 1}, batch_size = 4, verbose = 0,
        callbacks = {...}}
      return table.concat(steps, " ")
    end
    for _ = 1, 2 do
      assert.equal("", trained())
      assert.equal("0 1 2 3 4 5 6 7", trained(Count()))
    end
  end)
end)

-- Keras 2.6: on_predict_batch_end(batch, {"outputs": batch_outputs}).
describe("predict", function()
  local keras <const> = ipu.keras
  local x <const> = ipu.reshape(ipu.cast(ipu.arange(7), "float32"), {7, 1})

  -- Sums of the outputs that each call of the hook gets, and the batches that it is called for.
  local function seen(outputs_of, per_execution)
    local sums, last = {}, {}
    local input = keras.Input{shape = {1}}
    local twice, half = ipu.mul(input, 2), ipu.div(input, 2)
    local model = keras.Model{inputs = input, outputs = {twice = twice, halves = {half, input}}}
    model:compile{steps_per_execution = per_execution}
    model:predict{x, batch_size = 2, callbacks = {callbacks.LambdaCallback{
      on_predict_batch_end = function(batch, logs)
        last[#last + 1] = batch
        sums[#sums + 1] = ipu.reduce_sum(outputs_of(logs.outputs)):item()
      end}}}
    return sums, last
  end

  it("hands its outputs to callbacks, in the model's structure", function()
    local sums, last = seen(function(outputs) return outputs.twice end, 1)
    assert.same({2 * (0 + 1), 2 * (2 + 3), 2 * (4 + 5), 2 * 6}, sums)
    assert.same({0, 1, 2, 3}, last)
    sums, last = seen(function(outputs) return outputs.halves[1] end, 3)
    assert.same({(0 + 1 + 2 + 3 + 4 + 5) / 2, 6 / 2}, sums)
    assert.same({2, 3}, last)
  end)
end)

describe("on_batch_begin and on_batch_end, Keras' older names,", function()
  local function trained(Class)
    local model = ipu.keras.Sequential{ipu.keras.layers.Dense{1, input_shape = {2}}}
    model:compile{optimizer = "sgd", loss = "mse"}
    local seen = Class()
    seen.calls = {}
    local x, y = ipu.ones{6, 2}, ipu.ones{6, 1}
    model:fit{x, y, batch_size = 2, verbose = 0, callbacks = {seen}}
    model:evaluate(x, y, {batch_size = 2, verbose = 0, callbacks = {seen}})
    return seen.calls
  end

  it("are called for each step of fit alone", function()
    local Class = callbacks.Callback:extend "Older"
    function Class:on_batch_begin(batch) table.insert(self.calls, "begin " .. batch) end
    function Class:on_batch_end(batch, logs, info)
      assert.equal("number", type(logs.loss))
      assert.equal(batch, info.step_last)
      table.insert(self.calls, "end " .. batch)
    end
    assert.same({"begin 0", "end 0", "begin 1", "end 1", "begin 2", "end 2"}, trained(Class))
  end)

  it("give way to the newer ones of a class", function()
    local Class = callbacks.Callback:extend "Both"
    function Class:on_batch_end(batch) table.insert(self.calls, "older " .. batch) end
    function Class:on_train_batch_end(batch)
      table.insert(self.calls, "newer " .. batch)
      if batch == 1 then callbacks.Callback.on_train_batch_end(self, batch) end
    end
    assert.same({"newer 0", "newer 1", "older 1", "newer 2"}, trained(Class))
  end)
end)
