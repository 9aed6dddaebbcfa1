-- Callbacks under training.

local ipu = require "ipulua"
local log = require "ipulua.log"

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
  return model:fit{x = x, y = y, batch_size = 4, epochs = epochs or 3, verbose = 0, callbacks = list}.history
end

describe("callbacks", function()
  local former
  setup(function() former = log.set_writer(function() end) end)
  teardown(function() log.set_writer(former) end)

  it("EarlyStopping stops without improvement and restores the best weights", function()
    local model = line()
    local stop = callbacks.EarlyStopping{monitor = "loss", min_delta = 1000, patience = 2, restore_best_weights = true}
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

  it("ReduceLROnPlateau lowers the rate", function()
    local model = line()
    fit(model, {callbacks.ReduceLROnPlateau{monitor = "loss", patience = 1, min_delta = 1000, factor = 0.5, min_lr = 0.03}}, 5)
    assert.is_near(0.03, model.optimizer.learning_rate:item(), 1e-7)
  end)

  it("TerminateOnNaN ends training", function()
    local model = line()
    model.optimizer.learning_rate = 1e38
    local history = fit(model, {callbacks.TerminateOnNaN()}, 50)
    assert.is_true(#history.loss < 10)
  end)

  it("ModelCheckpoint fills in epoch and metrics and keeps the best", function()
    local folder = os.tmpname()
    os.remove(folder)
    os.execute("mkdir -p " .. folder)
    local model = line()
    fit(model, {callbacks.ModelCheckpoint{filepath = folder .. "/{epoch:02d}.safetensors", save_weights_only = true},
      callbacks.ModelCheckpoint{filepath = folder .. "/best.safetensors", monitor = "loss", save_best_only = true}})
    for _, name in ipairs{"01", "02", "03", "best"} do
      local file = io.open(folder .. "/" .. name .. ".safetensors", "rb")
      assert.is_not_nil(file)
      file:close()
    end
    local copy = keras.models.load_model(folder .. "/best.safetensors")
    assert.are.equal(model.weights[1]:item(), copy.weights[1]:item())
    os.execute("rm -r " .. folder)
  end)

  it("CSVLogger writes a line an epoch", function()
    local path = os.tmpname()
    local history = fit(line(), {callbacks.CSVLogger(path)}, 2)
    local lines = {}
    for l in io.lines(path) do lines[#lines + 1] = l end
    os.remove(path)
    assert.are.equal("epoch,loss", lines[1])
    assert.are.equal("0," .. tostring(history.loss[1]), lines[2])
    assert.are.equal(3, #lines)
  end)

  it("TensorBoard writes event files with checked records", function()
    local crc = require "ipulua.keras.callbacks.tensorboard"._crc32c
    assert.are.equal(0xE3069283, crc("123456789"))
    local folder = os.tmpname()
    os.remove(folder)
    fit(line(), {callbacks.TensorBoard{log_dir = folder}}, 1)
    local list = io.popen("ls " .. folder .. "/train")
    local name = list:read("l")
    list:close()
    local file = io.open(folder .. "/train/" .. name, "rb")
    local text = file:read("a")
    file:close()
    os.execute("rm -r " .. folder)
    assert.are.equal("18000000000000 00a37f4b22", (text:sub(1, 12):gsub(".", function(c)
      return string.format("%02x", c:byte())
    end):gsub("^(.-)(0[0]a37f4b22)$", "%1 %2")))
    assert.is_not_nil(text:find("brain.Event:2", 1, true))
    assert.is_not_nil(text:find("epoch_loss", 1, true))
    assert.is_not_nil(text:find("epoch_learning_rate", 1, true))
  end)

  it("refuses what is no callback", function()
    local ok, message = pcall(fit, line(), {3})
    assert.is_false(ok)
    assert.matches("entry 1 is no callback", message)
  end)
end)
