-- A training that can be stopped: resume_training.lua KIND BACKUP WEIGHTS STOP FREQ. After STOP
-- batch calls (0: never) the process kills itself. With -STOP it presses Ctrl-C, and with testSTOP
-- it counts a validation's batch calls. WEIGHTS gets the weights at the end, and the history is
-- printed.
local ipu = require "ipulua"
local keras, layers, data = ipu.keras, ipu.keras.layers, ipu.data
local kind, backup, weights, stop, freq = arg[1], arg[2], arg[3], tonumber(arg[4]) or 0, arg[5]
local test_stop = tonumber(arg[4]:match("^test(%d+)$"))

local x, y = {}, {}
for i = 1, 96 do
  x[i], y[i] = {math.sin(i), math.cos(i * 3), i % 7 / 7}, i % 3
end

local kinds = {}

-- Dropout with and without a seed of its own, shuffled data with noise, statistics of batches.
function kinds.dense()
  local model = keras.Sequential{layers.Dense{16, activation = "relu"}, layers.Dropout(0.3),
    layers.BatchNormalization(),
    layers.Dropout{0.2, seed = 5}, layers.Dense(3)}
  local ds = data.from_tensor_slices{ipu.tensor(x), ipu.tensor(y, {dtype = "int32"})}:shuffle(20)
    :map(function(a, b) return a + ipu.random.normal({3}) * 0.01, b end):batch(8,
      {drop_remainder = true})
  return model, ds, keras.optimizers.Adam(0.01)
end

-- A smaller batch in the middle, after which executions end at odd steps.
function kinds.uneven()
  local model, ds, optimizer = kinds.dense()
  local smaller = data.from_tensor_slices{ipu.tensor(x), ipu.tensor(y, {dtype = "int32"})}
    :batch(3):take(1)
  return model, ds:take(4):concatenate(smaller):concatenate(ds), optimizer
end

-- Data without end, more than one epoch of it.
function kinds.endless()
  local model, ds, optimizer = kinds.dense()
  return model, ds:repeat_n(), optimizer, 12
end

-- States from batch to batch, float16 weights and a scaled loss, rounding at random.
function kinds.stateful()
  local cfg = ipu.IPUConfig()
  cfg.floating_point_behaviour.esr = ipu.StochasticRoundingBehaviour.ON
  cfg:configure_ipu_system()
  local model = keras.Sequential{layers.Reshape{3, 1, dtype = "float16"},
    layers.LSTM{8, stateful = true, dtype = "float16"},
    layers.Dense{3, dtype = "float16"}}
  local ds = data.from_tensor_slices{ipu.tensor(x, {dtype = "float16"}),
    ipu.tensor(y, {dtype = "int32"})}:shuffle(96)
    :batch(8, {drop_remainder = true})
  return model, ds, keras.optimizers.ALSOptimizer(keras.optimizers.SGD{0.1, momentum = 0.9},
    {update_frequency = 3,
    initial_loss_scaling_factor = 16})
end

-- Two stages on two IPUs, gradients of two batches at a time.
function kinds.pipeline()
  local cfg = ipu.IPUConfig()
  cfg.auto_select_ipus = 2
  cfg:configure_ipu_system()
  local model, ds, optimizer = kinds.dense()
  model:set_pipeline_stage_assignment{0, 0, 0, 1, 1}
  model:set_pipelining_options{gradient_accumulation_steps_per_replica = 2,
    pipeline_schedule = "Sequential"}
  return model, ds, optimizer
end

-- Two replicas of one IPU.
function kinds.replicas()
  local cfg = ipu.IPUConfig()
  cfg.auto_select_ipus = 2
  cfg:configure_ipu_system()
  return kinds.dense()
end

-- Part of a shuffled dataset to validate with: another one after each epoch.
function kinds.validated()
  local model, ds, optimizer = kinds.dense()
  return model, ds, optimizer, nil,
    data.from_tensor_slices{ipu.tensor(x), ipu.tensor(y, {dtype = "int32"})}:shuffle(96)
    :batch(8, {drop_remainder = true})
end

local strategy = ipu.IPUStrategy()
local _ <close> = strategy:scope()
local model, ds, optimizer, steps, validation = kinds[kind]()
model:compile{optimizer = optimizer,
  loss = keras.losses.SparseCategoricalCrossentropy{from_logits = true},
  metrics = {"accuracy"}, steps_per_execution = 2}

-- os.execute leaves signals alone while it waits.
local function press_ctrl_c() io.popen("kill -INT $PPID"):close() end

local Stop = keras.callbacks.Callback:extend("Stop")
local calls, test_calls = 0, 0
function Stop:on_test_batch_end() -- luacheck: ignore 212
  test_calls = test_calls + 1
  if test_calls == test_stop then press_ctrl_c() end
end
function Stop:on_train_batch_end() -- luacheck: ignore 212
  calls = calls + 1
  if calls == -stop then press_ctrl_c() end
  if calls ~= stop then return end
  os.execute("kill -9 $PPID")
  while true do end -- until the signal comes
end

local history = model:fit(ds, {epochs = 5, steps_per_epoch = steps, verbose = 0,
  validation_data = validation,
  validation_steps = validation and 4, callbacks = {
  keras.callbacks.BackupAndRestore{backup, save_freq = math.tointeger(tonumber(freq)) or freq},
  keras.callbacks.ReduceLROnPlateau{monitor = "loss", patience = 1, min_delta = 0.05},
  keras.callbacks.CSVLogger(weights .. ".csv"),
  keras.callbacks.EarlyStopping{monitor = "loss", patience = 10, restore_best_weights = true},
  Stop(),
}})
model:save_weights(weights)
print(ipu.json.encode(history.history), ipu.json.encode(history.epoch),
  ipu.json.encode(optimizer.iterations:item()))
