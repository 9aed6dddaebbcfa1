-- Callbacks keep state, count, and write files. A training may go on where another one was
-- killed.

local command = require "spec.support.command"
local ipu = require "ipulua"
local log = require "ipulua.base.log"

local keras = ipu.keras
local callbacks, layers = keras.callbacks, keras.layers

local x, y = ipu.tensor{{0}, {1}, {2}, {3}}, ipu.tensor{{1}, {3}, {5}, {7}}

local function line()
  local model = keras.Sequential{layers.Dense{1, kernel_initializer = "zeros", input_shape = {1}}}
  model:compile{loss = "mse", optimizer = keras.optimizers.SGD{learning_rate = 0.01}}
  return model
end

local function quiet(options)
  local all = {x = x, y = y, batch_size = 1, verbose = 0, shuffle = false}
  for name, value in pairs(options) do all[name] = value end
  return all
end

-- The words that are logged while f runs are dropped.
local function unheard(f)
  local writer = log.set_writer(function() end)
  local ok, problem = pcall(f)
  log.set_writer(writer)
  if not ok then error(problem, 0) end
end

describe("a callback", function()
  it("ends training at a loss of either infinity, and at no finite one", function()
    for _, case in ipairs{{math.huge, true}, {-math.huge, true}, {0 / 0, true}, {-1e38, nil},
      {"none", nil}} do
      local terminate, model = callbacks.TerminateOnNaN(), {}
      terminate:set_model(model)
      unheard(function() terminate:on_train_batch_end(3, {loss = case[1]}) end)
      assert.equal(case[2], model.stop_training)
    end
  end)

  it("that runs last sees what the others have done, wherever it stands in the list", function()
    local calls = {}
    local function noting(name, last)
      local c = callbacks.Callback:extend(name)
      c.runs_last = last
      function c.on_epoch_end() calls[#calls + 1] = name end
      return c()
    end
    local list = callbacks.CallbackList({noting("A", true), noting("B"), noting("C", true),
      noting("D")}, line(), {})
    list:on_epoch_end(0, {})
    assert.same({"B", "D", "A", "C"}, calls)
  end)

  it("knows the steps of an epoch, and how many epochs there are", function()
    local found
    local Reader = callbacks.Callback:extend("Reader")
    function Reader:on_train_begin() found = {self.params.steps, self.params.epochs} end
    line():fit(quiet{epochs = 2, callbacks = Reader()})
    assert.same({4, 2}, found)
  end)

  -- Asynchronous callbacks hear of each replica's step: the last one completes it.
  it("saves a step of several replicas once", function()
    local checkpoint, saved = callbacks.ModelCheckpoint{"unused.safetensors", save_freq = 2}, {}
    function checkpoint:save(_, _, batch) saved[#saved + 1] = batch end
    for step = 0, 5 do
      for replica = 0, 2 do
        checkpoint:on_train_batch_end(step, {},
          {step_first = step, step_last = step, replica = replica, replicas = 3})
      end
    end
    assert.same({1, 3, 5}, saved)
  end)
end)

describe("CSVLogger", function()
  local path
  before_each(function() path = command.scratch(".csv") end)
  after_each(function() os.remove(path) end)

  it("writes NA for what the first epoch had, and a later one lacks", function()
    line():fit(quiet{epochs = 2, validation_data = {x, y}, validation_freq = {1},
      callbacks = callbacks.CSVLogger(path)})
    local rows = {}
    for row in command.read(path):gmatch("[^\n]+") do rows[#rows + 1] = row end
    assert.equal("epoch,loss,val_loss", rows[1])
    assert.matches("^0,[%d.e-]+,[%d.e-]+$", rows[2])
    assert.matches("^1,[%d.e-]+,NA$", rows[3])
  end)

  it("writes the lines after a backup again, once", function()
    local first = callbacks.CSVLogger(path)
    first:on_train_begin()
    first:on_epoch_end(0, {loss = 3})
    local state = first:get_state()
    first:on_epoch_end(1, {loss = 2})
    first:_leave() -- killed here
    local again = callbacks.CSVLogger(path)
    again:on_train_begin()
    again:set_state(state)
    again:on_epoch_end(1, {loss = 2})
    again:on_epoch_end(2, {loss = 1})
    again:on_train_end()
    assert.equal("epoch,loss\n0,3\n1,2\n2,1\n", command.read(path))
  end)
end)

describe("BackupAndRestore", function()
  local folder
  before_each(function() folder = command.folder() end)
  after_each(function() command.remove(folder) end)

  -- The end of an epoch has a backup of its own.
  it("saves the last step of an epoch once", function()
    local backup, saved = callbacks.BackupAndRestore{folder, save_freq = 2}, {}
    local save = backup.save
    function backup:save(epoch, step, latest)
      saved[#saved + 1] = epoch .. ":" .. step
      return save(self, epoch, step, latest)
    end
    line():fit(quiet{epochs = 2, callbacks = backup})
    assert.same({"0:2", "1:0", "1:2", "2:0"}, saved)
  end)

  -- 3 and 4 samples: executions of two steps end at steps 1, 3 and 5.
  it("saves after a smaller batch, where executions end at odd steps", function()
    local backup, saved = callbacks.BackupAndRestore{folder, save_freq = 2}, {}
    function backup.save(_, _, step) saved[#saved + 1] = step end
    local part = ipu.data.from_tensor_slices{ipu.ones{16, 1}, ipu.ones{16, 1}}
    local data = part:take(3):batch(4):concatenate(part:batch(4))
    local model = line()
    model:compile{loss = "mse", optimizer = "sgd", steps_per_execution = 2}
    model:fit{part:batch(4):concatenate(data), epochs = 1, verbose = 0, callbacks = backup}
    assert.same({2, 4, 7, 0}, saved)
  end)

  it("leaves its folder to other processes when a training is over", function()
    line():fit(quiet{epochs = 1,
      callbacks = callbacks.BackupAndRestore{folder, delete_checkpoint = false}})
    local r = command.run{command.ipulua, "-e", ([[
      local keras = require "ipulua".keras
      local model = keras.Sequential{keras.layers.Dense{1, input_shape = {1}}}
      model:compile{loss = "mse", optimizer = keras.optimizers.SGD{learning_rate = 0.01}}
      model:fit{x = {{0}, {1}, {2}, {3}}, y = {{1}, {3}, {5}, {7}}, batch_size = 1, epochs = 3,
        verbose = 0, shuffle = false, callbacks = {keras.callbacks.BackupAndRestore(%q),
        keras.callbacks.LambdaCallback{on_epoch_begin = print}}}]]):format(folder)}
    assert.equal("1\t{}\n2\t{}\n", r.out, r.err)
  end)
end)
