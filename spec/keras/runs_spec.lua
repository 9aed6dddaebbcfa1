-- A run that ends by an error leaves no trace: begun again, it has the bits of a run in a fresh
-- model. Errors come from every hook of a callback, from elements of the data and from the host.

local ipu = require "ipulua"
local keras = ipu.keras
local layers = keras.layers

local samples <const>, batch <const> = 32, 4
local x = ipu.random.normal({samples, 5}, {seed = 1})
local y = ipu.random.normal({samples, 2}, {seed = 2})

local fault -- {kind =, at =}: what fails, and the how manyth time; it counts down

local function fail_here(kind)
  if not fault or fault.kind ~= kind then return end
  fault.at = fault.at - 1
  if fault.at == 0 then error("stop at " .. kind) end
end

-- Elements that the script makes, and that may fail.
local function dataset(kind)
  local function rows(t, i, n) return ipu.slice(t, {i * batch, 0}, {batch, n}) end
  return ipu.data.range(samples // batch):map(function(i)
    fail_here(kind)
    return rows(x, i:item(), 5), rows(y, i:item(), 2)
  end, {eager = true, output_types = {"float32", "float32"},
    output_shapes = {{batch, 5}, {batch, 2}}})
end

local Host = layers.Layer:extend("Host")
function Host:call(given) -- luacheck: ignore 212
  return ipu.host_callback(function(v)
    fail_here "host"
    return v
  end, {outputs = {{{batch, 5}, "float32"}}})(given)
end

-- Any hook may fail. The arguments of each call are noted.
local hooks = {}
for name in pairs(keras.callbacks.Callback) do
  if type(name) == "string" and name:find "^on_" then hooks[#hooks + 1] = name end
end
table.sort(hooks)
local Watch = keras.callbacks.Callback:extend "Watch"
for _, name in ipairs(hooks) do
  Watch[name] = function(self, at, logs)
    fail_here(name)
    if type(at) == "table" then at, logs = "", at end
    local words = {name, tostring(at)}
    for _, key in ipairs{"loss", "val_loss"} do
      if logs and logs[key] then words[#words + 1] = string.format("%a", logs[key]) end
    end
    self.seen[#self.seen + 1] = table.concat(words, " ")
  end
end
function Watch:init() self.seen = {} end

local forms <const> = {
  plain = {}, pipelined = {pipelined = true}, asynchronous = {asynchronous = true},
  ["pipelined and asynchronous"] = {pipelined = true, asynchronous = true},
  ["on the host, too"] = {host = true},
}

local weights

local function new_model(form)
  local list = {layers.Dense{7, activation = "tanh", input_shape = {5}}, layers.Dense(2)}
  if form.host then table.insert(list, 1, Host{input_shape = {5}}) end
  local model = keras.Sequential(list)
  model:build{batch, 5}
  weights = weights or model:get_weights()
  if form.pipelined then
    model:set_pipeline_stage_assignment{0, 1}
    model:set_pipelining_options{gradient_accumulation_steps_per_replica = 4}
  end
  if form.asynchronous then model:set_asynchronous_callbacks(true) end
  model:compile{optimizer = keras.optimizers.SGD{0.125, momentum = 0.5}, loss = "mse",
    steps_per_execution = 4}
  model:set_weights(weights)
  return model
end

-- As it was made: weights and the optimizer's state.
local function reset(model)
  model:set_weights(weights)
  local state = model.optimizer:get_weights()
  for i, value in ipairs(state) do state[i] = ipu.zeros_like(value) end
  model.optimizer:set_weights(state)
end

local function bits(value)
  if type(value) == "userdata" then value = ipu.reshape(value, {-1}):totable() end
  if type(value) == "number" then return string.format("%a", value) end
  local out = {}
  for i, each in ipairs(value) do out[i] = bits(each) end
  return table.concat(out, " ")
end

-- name → what is done, and how many times its data may fail. Each returns text of all its results.
local works <const> = {
  fit = function(model)
    local watch = Watch()
    model:fit{dataset "element", epochs = 2, validation_data = dataset "validation", verbose = 0,
      prefetch_depth = 5,
      callbacks = {nil, watch}}
    return table.concat(watch.seen, "\n") .. bits(model:get_weights())
  end,
  ["fit of tensors"] = function(model)
    local watch = Watch()
    model:fit{x = x, y = y, batch_size = batch, epochs = 2, verbose = 0, callbacks = {watch},
      validation_data = {x, y}}
    return table.concat(watch.seen, "\n") .. bits(model:get_weights())
  end,
  evaluate = function(model)
    local watch = Watch()
    local loss = model:evaluate{dataset "element", verbose = 0, callbacks = {watch}}
    return table.concat(watch.seen, "\n") .. bits(loss)
  end,
  predict = function(model)
    local watch = Watch()
    local out = model:predict{dataset "element", callbacks = {watch}}
    return table.concat(watch.seen, "\n") .. bits(out)
  end,
}

describe("a run that fails", function()
  setup(function()
    local config = ipu.IPUConfig()
    config.auto_select_ipus = 2
    config:configure_ipu_system()
  end)
  teardown(function() ipu.reset_ipu_configuration() end)

  local function two_replicas(form) return not form.pipelined end

  for form_name, form in pairs(forms) do
    for work_name, work in pairs(works) do
      it("leaves nothing open: " .. work_name .. ", " .. form_name, function()
        local strategy = ipu.IPUStrategy()
        local _ <close> = strategy:scope()
        fault = nil
        local want = work(new_model(form))
        local model, count = new_model(form), 0
        local kinds = {"element", "validation", "host", table.unpack(hooks)}
        for _, kind in ipairs(kinds) do
          for _, at in ipairs(two_replicas(form) and {1, 2} or {1, 2, 7}) do
            fault = {kind = kind, at = at}
            local fine, why = pcall(work, model)
            assert.equal(fault.at > 0, fine, kind .. " " .. at .. ": " .. tostring(why))
            if not fine then
              count = count + 1
              assert.matches("stop at " .. kind, why)
            end
            fault = nil
            reset(model)
            if not fine then assert.equal(want, work(model), "after " .. kind .. " " .. at) end
            reset(model)
            rawset(model, "_epochs_fed", nil) -- another call of fit shuffles on
          end
        end
        assert.is_true(count >= 6, count)
        for _, entry in pairs(model._programs) do
          assert.is_nil(entry.infeed.queue:state() or nil)
        end
      end)
    end
  end
end)

-- A program beside a run's own. 18 samples make an execution of 4 batches, and a batch of 2
-- samples, which is read from a dataset of its own.
describe("a run that fails in its remainder", function()
  local function open_queues(model)
    local count, open = 0, 0
    for _, entry in pairs(model._programs) do
      count = count + 1
      if entry.infeed.queue:state() then open = open + 1 end
    end
    return count, open
  end

  it("leaves no queue open, nor does one that goes through", function()
    local model = new_model(forms.plain)
    local function work()
      local watch = Watch()
      model:fit{x = x:slice({0, 0}, {18, 5}), y = y:slice({0, 0}, {18, 2}), batch_size = batch,
        epochs = 2, verbose = 0, callbacks = {watch}}
      return table.concat(watch.seen, "\n") .. bits(model:get_weights())
    end
    fault = nil
    local want = work()
    local count, open = open_queues(model)
    assert.same({2, 0}, {count, open})
    for at = 1, 4 do -- each execution of two epochs
      reset(model)
      rawset(model, "_epochs_fed", nil)
      fault = {kind = "on_train_batch_end", at = at}
      assert.matches("stop at on_train_batch_end", select(2, pcall(work)))
      fault = nil
      assert.same({count, 0}, {open_queues(model)})
      reset(model)
      rawset(model, "_epochs_fed", nil)
      assert.equal(want, work())
    end
  end)
end)

describe("fit", function()
  it("keeps prefetch_depth to itself", function()
    local model = keras.Sequential{layers.Dense{2, input_shape = {5}}}
    model:compile{optimizer = "sgd", loss = "mse"}
    local function depth()
      local _, entry = next(model._programs)
      return entry.infeed.prefetch_depth
    end
    model:fit{x, y, verbose = 0, prefetch_depth = 9}
    assert.equal(9, depth())
    model:fit{x, y, verbose = 0}
    assert.equal(3, depth())
  end)

  it("uses a hyperparameter that a callback sets from the next execution on", function()
    local function train(by_callback)
      local model = keras.Sequential{layers.Dense{2, input_shape = {5},
        kernel_initializer = "ones"}}
      local optimizer = keras.optimizers.SGD{0.0625, momentum = 0.5}
      model:compile{optimizer = optimizer, loss = "mse", steps_per_execution = 2}
      local Set = keras.callbacks.Callback:extend "Set"
      function Set:on_epoch_begin(epoch)
        if epoch == 1 then optimizer.momentum = 0.0 end
      end
      local o = {x, y, batch_size = 4, verbose = 0, shuffle = false}
      if by_callback then
        model:fit{x, y, batch_size = 4, verbose = 0, shuffle = false, epochs = 2,
          callbacks = {Set()}}
      else
        model:fit(o)
        optimizer.momentum = 0.0
        model:fit(o)
      end
      return model:get_weights()[1]:totable()
    end
    assert.same(train(false), train(true))
  end)

  it("takes callbacks after a gap", function()
    local model = keras.Sequential{layers.Dense{2, input_shape = {5}}}
    model:compile{optimizer = "sgd", loss = "mse"}
    local order = {}
    local function note(word)
      return keras.callbacks.LambdaCallback{on_train_begin = function()
        order[#order + 1] = word
      end}
    end
    model:fit{x, y, verbose = 0, callbacks = {nil, note "second", nil, note "fourth"}}
    assert.same({"second", "fourth"}, order)
    for _, wrong in ipairs{{[0] = note "zero", 5}, {[2] = "x"}, {a = note "a"}} do
      assert.is_false((pcall(model.fit, model, {x, y, verbose = 0, callbacks = wrong})))
    end
  end)

  it("closes what callbacks opened when it fails", function()
    local path = os.tmpname()
    finally(function() os.remove(path) end)
    local model = keras.Sequential{layers.Dense{2, input_shape = {5}}}
    model:compile{optimizer = "sgd", loss = "mse"}
    local logger = keras.callbacks.CSVLogger(path)
    local stop = keras.callbacks.LambdaCallback{on_epoch_end = function(epoch)
      if epoch == 1 then error "stop" end
    end}
    assert.is_false(
      (pcall(model.fit, model, {x, y, verbose = 0, epochs = 3, callbacks = {logger, stop}})))
    assert.is_nil(logger.file)
    model:fit{x, y, verbose = 0, epochs = 2, callbacks = {logger}}
    local lines = 0
    for _ in io.lines(path) do lines = lines + 1 end
    assert.equal(3, lines)
  end)

  it("warns when a backup doesn't hold a hyperparameter that a callback sets", function()
    local folder = os.tmpname()
    os.remove(folder)
    local log, warned = require "ipulua.base.log", {}
    local warn = log.warn
    log.warn = function(...) warned[#warned + 1] = string.format(...) end
    finally(function()
      log.warn = warn
      os.execute("rm -rf " .. folder)
    end)
    local model = keras.Sequential{layers.Dense{2, input_shape = {5}}}
    model:compile{optimizer = keras.optimizers.SGD{0.125, momentum = 0.5}, loss = "mse"}
    local Set = keras.callbacks.Callback:extend "Set"
    function Set:on_epoch_begin(epoch)
      self.model.optimizer.learning_rate = 0.25 / (epoch + 1) -- a variable
      if epoch == 2 then self.model.optimizer.momentum = 0.25 end
    end
    local epochs = {2, 4}
    for i, count in ipairs(epochs) do
      model:fit{x, y, batch_size = 4, epochs = count, verbose = 0,
        callbacks = {Set(), keras.callbacks.BackupAndRestore{folder, delete_checkpoint = false}}}
      assert.equal(i - 1, #warned)
    end
    assert.matches("a hyperparameter was set while training", warned[1])
  end)

  it("goes on from its last backup when it failed, in the same process", function()
    local folder = os.tmpname()
    os.remove(folder)
    finally(function() os.execute("rm -rf " .. folder) end)
    local function train(fails, backs_up)
      local model = keras.Sequential{layers.Dense{2, input_shape = {5},
        kernel_initializer = "ones"}}
      model:compile{optimizer = "adam", loss = "mse"}
      local list = {keras.callbacks.LambdaCallback{on_epoch_begin = function(epoch)
        if fails and epoch == 2 then error "stop here" end
      end}}
      list[2] = backs_up and keras.callbacks.BackupAndRestore{folder, delete_checkpoint = false}
        or nil
      local fine = pcall(model.fit, model,
        {x, y, batch_size = 4, epochs = 4, verbose = 0, callbacks = list})
      assert.equal(not fails, fine)
      return model:get_weights()[1]:totable()
    end
    local whole = train(false, false)
    train(true, true)
    train(true, true)
    assert.same(whole, train(false, true))
  end)
end)
