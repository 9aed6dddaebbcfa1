-- Keras on several replicas against one replica on the joined batches.

local config = require "ipulua.config"
local ipu = require "ipulua"

local keras, layers = ipu.keras, ipu.keras.layers

local function with_ipus(count, options)
  config.reset_ipu_configuration()
  local cfg = ipu.IPUConfig()
  cfg.auto_select_ipus = count
  if options then options(cfg) end
  cfg:configure_ipu_system()
end

local samples <const>, features <const>, batch <const> = 48, 5, 4
local x = ipu.random.normal({samples, features}, {seed = 3})
local y = ipu.random.normal({samples, 2}, {seed = 4})

local function network(extra)
  local list = {
    layers.Dense{6, activation = "tanh",
      kernel_initializer = keras.initializers.GlorotUniform{seed = 1}, input_shape = {features}},
  }
  if extra then list[#list + 1] = extra() end
  list[#list + 1] = layers.Dense{2, kernel_initializer = keras.initializers.GlorotUniform{seed = 2}}
  return keras.Sequential{layers = list}
end

-- A model trained on so many replicas; o: optimizer, steps_per_execution, prepare(model), fit
-- options.
local function train(replicas, o)
  with_ipus(replicas, o.config)
  local _ <close> = ipu.IPUStrategy():scope()
  local model = network(o.extra)
  model:compile{loss = "mse", optimizer = o.optimizer, metrics = o.metrics,
    steps_per_execution = o.steps_per_execution or 3}
  if o.prepare then o.prepare(model) end
  local fit = {x = x, y = y, shuffle = false, verbose = 0, epochs = 2,
    batch_size = o.batch_size or batch}
  for key, value in pairs(o.fit or {}) do fit[key] = value end
  local history = model:fit(fit).history
  return model, history
end

local function same(a, b, tolerance)
  local wa, wb = a:get_weights(), b:get_weights()
  assert.equal(#wa, #wb)
  for i = 1, #wa do
    local worst = ipu.reduce_max(ipu.abs(wa[i] - wb[i])):item()
    assert.is_true(worst <= (tolerance or 1e-6), string.format("weight %d differs by %g", i, worst))
  end
end

local function gathered(replicas, f)
  with_ipus(replicas, function(cfg)
    cfg.norms.experimental.distributed_batch_norm_replica_group_size = replicas
  end)
  local out = ipu.IPUOutfeedQueue()
  local feed = ipu.IPUInfeedQueue(ipu.data.from_tensor_slices(x):batch(samples // replicas,
    {drop_remainder = true}))
  ipu.func(function()
    ipu.loops.repeat_n(1, function(part) out:enqueue(f(part)) end, {}, feed)
  end)()
  return out:dequeue()
end

describe("fit on replicas", function()
  teardown(config.reset_ipu_configuration)

  it("adds gradients up once, whatever wrappers are inside of wrappers", function()
    local optimizers = keras.optimizers
    local idle = optimizers.CrossReplicaOptimizer(optimizers.SGD(0))
    local Nested = optimizers.SGD:extend("Nested")
    function Nested:apply_gradients(grads, vars)
      idle:apply_gradients(grads, vars)
      return optimizers.SGD.apply_gradients(self, grads, vars)
    end
    local nested = train(2, {optimizer = optimizers.CrossReplicaOptimizer(Nested(0.1))})
    local plain = train(2, {optimizer = optimizers.CrossReplicaOptimizer(optimizers.SGD(0.1))})
    same(nested, plain)
  end)

  for _, replicas in ipairs{2, 4} do
    it("row 164: adds the gradients of " .. replicas .. " replicas", function()
      local one = train(1, {optimizer = keras.optimizers.SGD{0.1, momentum = 0.9},
        batch_size = batch * replicas,
        steps_per_execution = 3})
      local many = train(replicas,
        {optimizer = keras.optimizers.SGD{0.1 / replicas, momentum = 0.9}, steps_per_execution = 3})
      same(one, many)
    end)
  end

  it("takes the mean with CrossReplicaOptimizer", function()
    local one = train(1, {optimizer = keras.optimizers.Adam(0.01), batch_size = 2 * batch})
    local two = train(2,
      {optimizer = keras.optimizers.CrossReplicaOptimizer(keras.optimizers.Adam(0.01))})
    same(one, two)
  end)

  it("accumulates on each replica, then adds once", function()
    local one = train(1, {optimizer = keras.optimizers.SGD(0.1), batch_size = 6 * batch,
      steps_per_execution = 1})
    local two = train(2, {optimizer = keras.optimizers.SGD(0.05), steps_per_execution = 3,
      prepare = function(model)
      model:set_gradient_accumulation_options{gradient_accumulation_steps_per_replica = 3,
        gradient_accumulation_reduction_method = "mean"}
    end})
    same(one, two)
  end)

  it("pipelined, too", function()
    local function staged(model)
      model:set_pipeline_stage_assignment{0, 1}
      model:set_pipelining_options{gradient_accumulation_steps_per_replica = 2,
        pipeline_schedule = "Interleaved",
        gradient_accumulation_reduction_method = "mean"}
    end
    local one = train(1, {optimizer = keras.optimizers.SGD(0.1), batch_size = 4 * batch,
      steps_per_execution = 1})
    local four = train(4,
      {optimizer = keras.optimizers.SGD(0.05), steps_per_execution = 2, prepare = staged})
    same(one, four)
    assert.equal(2, ipu.programs()[1].replicas)
    assert.equal(2, ipu.programs()[1].shards)
  end)

  it("gives the same bits for any number of threads", function()
    local reference
    for _, threads in ipairs{1, 2, 3} do
      ipu.set_num_threads(threads)
      local model = train(4, {optimizer = keras.optimizers.Adam(0.01), steps_per_execution = 1})
      local bits = {}
      for i, w in ipairs(model:get_weights()) do bits[i] = w:totable() end
      reference = reference or bits
      assert.same(reference, bits)
    end
    ipu.set_num_threads(2)
  end)

  it("row 196: reports by set_replication_options", function()
    local values = {}
    for _, method in ipairs{"NONE", "LIST", "SUM", "mean"} do
      local _, history = train(2, {optimizer = keras.optimizers.SGD(0.0), metrics = {"mae"},
        prepare = function(model)
        model:set_replication_options{replicated_metric_reduction_method = method}
      end})
      values[method] = history.mae[1]
    end
    assert.equal(2, #values.LIST)
    local first, last = table.unpack(values.LIST)
    assert.are_not.equal(first, last)
    assert.equal(last, values.NONE)
    assert.is_true(math.abs(first + last - values.SUM) < 1e-5)
    assert.is_true(math.abs((first + last) / 2 - values.mean) < 1e-6)
    -- with a rate of 0, batches 0, 2, 4 … are the first replica's
    with_ipus(1)
    local _ <close> = ipu.IPUStrategy():scope()
    local model = network()
    model:compile{loss = "mse", metrics = {"mae"}}
    local sum = 0
    for i = 0, samples // batch - 1, 2 do
      local mae = model:test_on_batch(ipu.slice(x, {i * batch, 0}, {batch, features}),
        ipu.slice(y, {i * batch, 0}, {batch, 2}),
        {return_dict = true}).mae
      sum = sum + mae
    end
    assert.is_true(math.abs(sum / (samples // batch // 2) - first) < 1e-5)
  end)

  it("row 198: calls asynchronous callbacks for each step and replica", function()
    local calls = {}
    train(2, {optimizer = keras.optimizers.SGD(0.1),
      fit = {epochs = 1, callbacks = {keras.callbacks.LambdaCallback{
      on_train_batch_end = function(step) calls[#calls + 1] = step end,
    }}}, prepare = function(model) model:set_asynchronous_callbacks(true) end})
    assert.same({0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5}, calls)
  end)

  it("trains on one batch as one replica does", function()
    local results = {}
    for i, replicas in ipairs{1, 2} do
      with_ipus(replicas)
      local _ <close> = ipu.IPUStrategy():scope()
      local model = network()
      model:compile{loss = "mse", optimizer = keras.optimizers.SGD(0.1)}
      model:train_on_batch(x, y)
      results[i] = model
    end
    same(results[1], results[2])
  end)

  it("leaves one state: batch statistics of the first replica", function()
    local model = train(2, {optimizer = keras.optimizers.SGD(0.01), extra = function()
      return layers.BatchNormalization()
    end})
    local _ <close> = ipu.IPUStrategy():scope()
    local two = model:predict{x, batch_size = batch}
    with_ipus(1)
    local one = model:predict{x, batch_size = batch}
    assert.same(one:totable(), two:totable())
  end)

  it("row 213: predicts in the order of the data", function()
    local model = train(2, {optimizer = keras.optimizers.SGD(0.1)})
    local two = model:predict{x, batch_size = batch}
    with_ipus(1)
    assert.same(model:predict{x, batch_size = batch}:totable(), two:totable())
    assert.same({samples, 2}, two.shape)
  end)

  it("predicts all samples where the batches don't divide by the replicas", function()
    local model = network()
    local want = model(x)
    for _, replicas in ipairs{2, 4} do
      with_ipus(replicas)
      local _ <close> = ipu.IPUStrategy():scope()
      for _, count in ipairs{1, 3, 5, 13} do
        local some = x[{1, count}]
        local ds = ipu.data.from_tensor_slices(some):batch(1, {drop_remainder = true})
        for _, each in ipairs{model:predict{some, batch_size = 1}, model:predict{ds},
          model:predict{ds:repeat_n(), steps = count}} do
          assert.same({count, 2}, each.shape)
          assert.is_true(ipu.reduce_max(ipu.abs(each - want[{1, count}])):item() < 1e-6)
        end
        assert.error_matches(function() model:predict{ds, steps = 17} end,
          "give a number of steps that " .. replicas .. " divides")
      end
    end
  end)

  it("evaluates and predicts with pipelined replicas, too", function()
    local model = train(1, {optimizer = keras.optimizers.SGD(0.1)})
    local _ <close> = ipu.IPUStrategy():scope()
    local predictions, losses = {}, {}
    for i, ipus in ipairs{1, 4} do
      with_ipus(ipus)
      if ipus == 4 then
        model:set_pipeline_stage_assignment{0, 1}
        model:set_replication_options{replicated_metric_reduction_method = "MEAN"}
      end
      model:compile{loss = "mse", steps_per_execution = 2}
      predictions[i] = model:predict{x, batch_size = batch}:totable()
      losses[i] = model:evaluate{x, y, batch_size = batch, verbose = 0}
    end
    assert.same(predictions[1], predictions[2])
    assert.is_true(math.abs(losses[1] - losses[2]) < 1e-6)
  end)

  it("row 211: refuses IPUs that are no multiple of the stages", function()
    local ok, problem = pcall(train, 2,
      {optimizer = "sgd", extra = function() return layers.Dense(3) end, prepare = function(model)
      model:set_pipeline_stage_assignment{0, 1, 2}
      model:set_pipelining_options{gradient_accumulation_steps_per_replica = 4}
    end})
    assert.is_false(ok)
    assert.matches("2 IPUs, the model requires a multiple of 4", problem)
  end)
end)

describe("distributed batch normalisation", function()
  teardown(function() config.reset_ipu_configuration() end)

  it("row 31: has the statistics of the joined batch", function()
    local got = gathered(2, function(part)
      local normed, mean, variance = ipu.nn.batch_norm(part, ipu.ones{features},
        ipu.zeros{features}, {training = true})
      return {y = normed, mean = mean, variance = variance}
    end)
    local joined_y, mean, variance = ipu.nn.batch_norm(x, ipu.ones{features}, ipu.zeros{features},
      {training = true})
    local function close(a, b) assert.is_true(ipu.reduce_max(ipu.abs(a - b)):item() < 1e-5) end
    for replica = 1, 2 do
      close(got.mean[1][replica], mean)
      close(got.variance[1][replica], variance)
    end
    close(ipu.reshape(got.y, {samples, features}), joined_y)
  end)

  it("trains a model as one replica on the joined batch does", function()
    local function norm() return layers.BatchNormalization() end
    local one = train(1, {optimizer = keras.optimizers.SGD(0.1), batch_size = 2 * batch,
      extra = norm})
    local two = train(2, {optimizer = keras.optimizers.SGD(0.05), extra = norm,
      config = function(cfg)
      cfg.norms.experimental.distributed_batch_norm_replica_group_size = 2
    end})
    same(one, two, 2e-6)
    local apart = train(2, {optimizer = keras.optimizers.SGD(0.05), extra = norm})
    assert.has_error(function() same(one, apart, 1e-4) end)
  end)

  it("needs a multiple of the group", function()
    local ok, problem = pcall(train, 4, {optimizer = "sgd", extra = function()
      return layers.BatchNormalization()
    end,
      config = function(cfg)
        cfg.norms.experimental.distributed_batch_norm_replica_group_size = 3
      end})
    assert.is_false(ok)
    assert.matches("4.*multiple of.*3", problem)
  end)
end)
