-- Variables in streaming memory change the transfers of a program and the bytes in its report, and
-- no other number.

local ipu = require "ipulua"
local log = require "ipulua.base.log"
local pipelines = require "spec.support.pipelines"

local least <const> = "optimizations.minimum_remote_tensor_size"
local offloads <const> = {
  "offload_weight_update_variables", "offload_activations", "offload_gradient_accumulation_buffers",
  "offload_weights",
}

-- Arguments of a pipeline that offloads nothing but what is named.
local function only(...)
  local options = {offload_weight_update_variables = false}
  for _, name in ipairs{...} do options[name] = true end
  return options
end

local function program_of(f) return f.order[1].program end

-- How many lines of the program's text begin with that kind of step.
local function steps(f, kind)
  local count = 0
  for line in program_of(f):text():gmatch("[^\n]+") do
    if line:match("^%s*%d+ (%a+)") == kind then count = count + 1 end
  end
  return count
end

describe("offloading", function()
  local _device
  before_each(function() _device = pipelines.device(4) end)
  after_each(function()
    getmetatable(_device).__close()
    ipu.set_num_threads(2)
  end)

  -- The net of the support file has weights of 6x8, 8x8, 8x8 and 8x3 floats, and micro-batches of
  -- 4.
  local weights_bytes <const>, last_weight <const> = (6 * 8 + 8 * 8 + 8 * 8 + 8 * 3) * 4, 8 * 3 * 4

  local function trained(options, config, threads)
    pipelines.device(4, config)
    if threads then ipu.set_num_threads(threads) end
    ipu.random.set_seed(3)
    local losses, weights, f = pipelines.net(20):train(options)
    return {losses = losses:totable(), weights = weights, memory = ipu.estimate(f).memory,
      cycles = ipu.estimate(f).cycles, f = f}
  end

  describe("changes no bit:", function()
    local plain
    local function expected()
      if plain then return plain end
      pipelines.device(1)
      ipu.random.set_seed(3)
      local losses, weights = pipelines.net(20):train_plainly(8, 50, 0.25)
      plain = {losses = losses:totable(), weights = weights}
      return plain
    end

    local cases <const> = {
      {"Grouped"}, {"Grouped", "RecomputeThenBackpropagate"},
      {"Grouped", "RecomputeAndBackpropagateInterleaved"},
      {"Interleaved"}, {"Interleaved", "RecomputeThenBackpropagate"}, {"Sequential"},
      {"Sequential", "RecomputeAndBackpropagateInterleaved"}, {"OneFOneB"}, {"OneFOneB", "Auto"},
      {"InterleavedVirtual"},
    }
    local all = only(table.unpack(offloads))
    for _, case in ipairs(cases) do
      local schedule, mode = table.unpack(case)
      it(schedule .. (mode and " with " .. mode or "")
        .. " is accumulation on one IPU, whatever is offloaded", function()
        local settings = {[least] = 0, allow_recompute = mode ~= nil}
        local choices = {all}
        for i, name in ipairs(offloads) do choices[i + 1] = only(name) end
        for _, options in ipairs(choices) do
          options.pipeline_schedule, options.recomputation_mode, options.repeat_count,
            options.rate = schedule, mode, 50, 0.25
          options.device_mapping = schedule == "InterleavedVirtual" and {0, 1, 0, 1} or nil
          for _, threads in ipairs{1, 2, 8} do
            if schedule == "InterleavedVirtual" then settings.auto_select_ipus = 2 end
            local got = trained(options, settings, threads)
            assert.are.same(expected().losses, got.losses)
            assert.are.same(expected().weights, got.weights)
          end
        end
      end)
    end
  end)

  -- Normalisation with statistics of its own, dropout, a layer that two stages share, an optimizer
  -- with averages, two kinds of accumulators. The trained model is evaluated.
  local function fitted(options, o)
    pipelines.device(o.ipus or 2, {[least] = 0, allow_recompute = o.recompute})
    ipu.random.set_seed(5)
    local keras, layers = ipu.keras, ipu.keras.layers
    local _ <close> = ipu.IPUStrategy():scope()
    local function kernel(n) return keras.initializers.GlorotUniform{seed = n} end
    local shared, x = layers.Dense{6, activation = "tanh", kernel_initializer = kernel(3)},
      keras.Input{shape = {5, 5, 2}}
    local y
    do
      local _ <close> = keras.PipelineStage(0)
      y = layers.Conv2D{3, 3, activation = "relu", kernel_initializer = kernel(1)}(x)
      y = layers.Flatten()(layers.BatchNormalization()(y))
    end
    do
      local _ <close> = keras.PipelineStage(1)
      y = layers.Dropout{0.25, seed = 9}(shared(layers.Dense{6, kernel_initializer = kernel(2)}(y)))
    end
    do
      local _ <close> = keras.PipelineStage(2)
      y = shared(y)
    end
    do
      local _ <close> = keras.PipelineStage(3)
      y = layers.Dense{4, kernel_initializer = kernel(4)}(y)
    end
    local model = keras.Model{inputs = x, outputs = y}
    options.gradient_accumulation_steps_per_replica, options.device_mapping = 8, o.mapping
    options.gradient_accumulation_reduction_method = o.reduction
    model:set_pipelining_options(options)
    model:compile{loss = keras.losses.SparseCategoricalCrossentropy{from_logits = true},
      metrics = {"accuracy"},
      optimizer = keras.optimizers.Adam{0.01, amsgrad = true, clipnorm = 0.5},
      steps_per_execution = 16}
    x = ipu.random.normal({64, 5, 5, 2}, {seed = 1})
    y = ipu.cast(ipu.random.uniform({64}, {maxval = 4, seed = 2}), "int32")
    local history = model:fit{x = x, y = y, batch_size = 2, epochs = 3, verbose = 0,
      shuffle = false}
    local all = {history.history.loss, model:evaluate{x = x, y = y, batch_size = 2, verbose = 0},
      model:predict(x, {batch_size = 2}):totable()}
    for i, t in ipairs(model:get_weights()) do all[3 + i] = t:totable() end
    for i, t in ipairs(model.optimizer:get_weights()) do all[#all + 1] = {i, t:totable()} end
    return all
  end

  for name, o in pairs{
    ["all stages on one IPU"] = {mapping = {0, 0, 0, 0}, ipus = 1},
    ["replicas"] = {mapping = {0, 1, 1, 0}, ipus = 4},
    ["two stages an IPU, RUNNING_MEAN"] = {mapping = {0, 1, 1, 0}, reduction = "RUNNING_MEAN"},
    ["computed again"] = {mapping = {0, 1, 1, 0}, recompute = true, reduction = "MEAN"},
  } do
    it("changes no bit of a Keras model: " .. name, function()
      local expected = fitted(only(), o)
      for _, offload in ipairs{only(table.unpack(offloads)), only(offloads[1]), only(offloads[2]),
        only(offloads[3]), only(offloads[4])} do
        assert.are.same(expected, fitted(offload, o))
      end
    end)
  end

  it(
    "changes no bit of concurrent stages, of stages that serialise batches, of wider accumulators",
    function()
    local function run(options, more)
      pipelines.device(more.ipus, {[least] = 0})
      ipu.random.set_seed(3)
      local w = {}
      local function cast(x) return ipu.cast(x, more.dtype or "float32") end
      for i = 1, 4 do
        w[i] =
          ipu.Variable(cast(ipu.random.uniform({8, 8}, {minval = -0.5, maxval = 0.5, seed = i})))
      end
      local data = ipu.data.from_tensor_slices{cast(ipu.random.normal({32, 8}, {seed = 7}))}
      local opt = ipu.train.AdamOptimizer(0.01)
      -- Adam's epsilon would be zero
      if more.dtype then opt = ipu.train.MomentumOptimizer(0.01, 0.9) end
      local function sum(a, b) return b and a + b or a end
      local both = {function(h) return ipu.tanh(h:matmul(w[2])) end, function(h)
        return ipu.nn.relu(h:matmul(w[3]))
      end}
      local given = {
        computational_stages = {
          function(x) return ipu.tanh(x:matmul(w[1])) end, more.concurrent and both or both[1],
          function(...) return ipu.reduce_mean(ipu.square(sum(...):matmul(w[4]))) end,
        },
        gradient_accumulation_count = 12, repeat_count = 4,
        infeed_queue = ipu.IPUInfeedQueue(data:batch(4, {drop_remainder = true}):repeat_n()),
        outfeed_queue = ipu.IPUOutfeedQueue(), outfeed_loss = true,
        optimizer_function = function(loss) return ipu.OptimizerFunctionOutput(opt, loss) end,
      }
      for _, t in ipairs{options, more.pipeline or {}} do
        for key, value in pairs(t) do given[key] = value end
      end
      ipu.func(function() return ipu.pipeline(given) end)()
      local all = {given.outfeed_queue:dequeue():totable()}
      for i, v in ipairs(w) do all[1 + i] = v:read_value():totable() end
      return all
    end
    for _, more in ipairs{
      {ipus = 4, concurrent = true, pipeline = {device_mapping = {0, {1, 2}, 3}}},
      {ipus = 1, pipeline = {batch_serialization_iterations = 2, gradient_accumulation_count = 6}},
      {ipus = 4, dtype = "float16"},
    } do
      local expected = run({offload_weight_update_variables = false, offload_weights = false}, more)
      for i, name in ipairs(offloads) do
        assert.are.same(expected, run({[name] = true}, more), i)
      end
      assert.are.same(expected, run(only(table.unpack(offloads)), more))
    end
  end)

  it("row 147, 148: what can't be is refused", function()
    local fails = pipelines.fails
    for _, make in ipairs{
      function(o) return ipu.optimizers.GradientAccumulationOptimizerV2(
        ipu.train.GradientDescentOptimizer(1), o) end,
      function(o) return ipu.keras.optimizers.GradientAccumulationOptimizer(
        ipu.keras.optimizers.SGD(1), o) end,
    } do
      fails("value", function()
        make{num_mini_batches = 2, replicated_optimizer_state_sharding = true}
      end,
        "replicated_optimizer_state_sharding", "offload_weight_update_variables")
    end
    local model = ipu.keras.Sequential{ipu.keras.layers.Dense{1, input_shape = {2}}}
    fails("value", function()
      model:set_gradient_accumulation_options{gradient_accumulation_steps_per_replica = 2,
        replicated_optimizer_state_sharding = true}
    end, "replicated_optimizer_state_sharding", "offload_weight_update_variables")
    fails("value", function()
      trained{replicated_optimizer_state_sharding = true, offload_weight_update_variables = false}
    end,
      "offload_weight_update_variables")
    local _ <close> = setmetatable({}, {__close = function()
      ipu.reset_ipu_configuration()
      ipu.set_flags("")
    end})
    ipu.reset_ipu_configuration()
    ipu.set_flags("--use_ipu_model")
    for _, name in ipairs(offloads) do
      fails("failed_precondition", function() trained{[name] = true} end, name, "remote memory")
    end
    local queue = ipu.func(function(x) return ipu.fifo(x, 2, {offload = true}) end)
    fails("failed_precondition", function() queue(ipu.zeros{64}) end, "remote memory")
  end)

  it(
    "row 147: offload_weight_update_variables moves momenta to streaming memory; weights are equal",
    function()
    local stay, go = trained(only()), trained(only(offloads[1]))
    assert.are.same(stay.weights, go.weights)
    assert.are.equal(0, stay.memory.streaming)
    -- the last one's 96 bytes are too few to be moved
    assert.are.equal(weights_bytes - last_weight, go.memory.streaming)
    assert.are.equal(stay.memory.variable - go.memory.streaming, go.memory.variable)
    assert.are.equal(0, steps(stay.f, "load") + steps(stay.f, "store"))
    assert.are.equal(3, steps(go.f, "load"))
    assert.are.equal(3, steps(go.f, "store"))
    -- each of the five updates moves them in and out at the least at 20 GB/s of one IPU's share,
    -- after 50,000 cycles of latency
    assert.is_true(go.cycles.total >= stay.cycles.total + 5 * 50000)
  end)

  it("row 147: it is the default where there is remote memory", function()
    assert.are.equal(weights_bytes - last_weight, trained{}.memory.streaming)
    local _ <close> = setmetatable({}, {__close = function()
      ipu.reset_ipu_configuration()
      ipu.set_flags("")
    end})
    ipu.reset_ipu_configuration()
    ipu.set_flags("--use_ipu_model")
    assert.are.equal(0, trained{}.memory.streaming)
  end)

  it("row 148: offload_activations moves what waits for backward passes", function()
    local stay, go = trained(only(), {[least] = 0}), trained(only(offloads[2]), {[least] = 0})
    assert.are.same(stay.weights, go.weights)
    assert.is_true(stay.memory.stash > 0)
    assert.are.equal(0, go.memory.stash)
    -- Grouped keeps 2 (3 - i) copies in stage i, beside the one in use
    local one = {4 * 6 + 4 * 8, 4 * 8 + 4 * 8, 4 * 8 + 4 * 8}
    local waiting = stay.memory.stash
    assert.are.equal(waiting + (one[1] + one[2] + one[3]) * 4, go.memory.streaming)
    for _, each in ipairs{stay, go} do -- wherever they wait
      for i, stage in ipairs(ipu.estimate(each.f).stages) do
        assert.are.equal(2 * (4 - i) * (one[i] or 0) * 4, stage.stash_bytes)
      end
    end
    -- on this computer places begin at multiples of 64 bytes
    assert.are.equal(((128 + 128) * 7 + 2 * 128 * 5 + 2 * 128 * 3),
      program_of(go.f):describe().remote_bytes)
    assert.are.equal(steps(go.f, "store"), steps(go.f, "load"))
    assert.are.equal(6, steps(go.f, "store"))
  end)

  it("row 148: what is computed again needs no transfer", function()
    local settings = {[least] = 0, allow_recompute = true}
    local kept, again = trained(only(offloads[2]), {[least] = 0}),
      trained(only(offloads[2]), settings)
    assert.are.same(kept.weights, again.weights)
    assert.is_true(again.memory.streaming < kept.memory.streaming)
    assert.are.equal(0, again.memory.stash)
  end)

  it("row 148: offload_gradient_accumulation_buffers moves the sums", function()
    local stay, go = trained(only(), {[least] = 0}), trained(only(offloads[3]), {[least] = 0})
    assert.are.same(stay.weights, go.weights)
    assert.are.equal(weights_bytes, go.memory.streaming)
    -- zeros are stored before a run, each micro-batch loads and stores, and the update loads
    assert.are.equal(4 + 4, steps(go.f, "store"))
    assert.are.equal(4 + 4, steps(go.f, "load"))
  end)

  it("row 148: offload_weights loads weights for each pass that uses them", function()
    local stay, go = trained(only(), {[least] = 0}), trained(only(offloads[4]), {[least] = 0})
    assert.are.same(stay.weights, go.weights)
    assert.are.equal(weights_bytes, go.memory.streaming)
    assert.are.equal(stay.memory.variable - weights_bytes, go.memory.variable)
    -- forward passes of four stages, backward ones of the three that hand a gradient on, the update
    assert.are.equal(4 + 3 + 4, steps(go.f, "load"))
    assert.are.equal(4, steps(go.f, "store"))
  end)

  it("leaves tensors alone that are smaller than minimum_remote_tensor_size", function()
    local all = only(table.unpack(offloads))
    assert.are.equal(0, trained(all, {[least] = 257}).memory.streaming)
    local some = trained(only(offloads[1]), {[least] = 193})
    assert.are.equal(2 * 8 * 8 * 4, some.memory.streaming)
    assert.are.equal(2, steps(some.f, "load"))
  end)

  it(
    "row 241: a fifo gives what was pushed some executions ago, zeros before, wherever it waits",
    function()
    for _, offload in ipairs{false, true} do
      local f = ipu.func(function(x) return ipu.fifo(x, 2, {offload = offload}) end)
      local got = {}
      for i = 1, 5 do got[i] = ipu.reduce_max(f(ipu.full({64}, i))):item() end
      assert.are.same({0, 0, 1, 2, 3}, got)
      assert.are.equal(offload and 2 * 64 * 4 or 0,
        ipu.estimate(f, {inputs = {ipu.zeros{64}}}).memory.streaming)
      local looped = ipu.func(function()
        return ipu.loops.repeat_n(6, function(i, sum)
          return i + 1, sum * 10 + ipu.fifo(i, 3, {offload = offload})
        end, {1.0, 0.0})
      end)
      assert.are.equal(123, (select(2, looped())):item()) -- 0, 0, 0, 1, 2, 3
    end
    -- One slot of 64 floats goes each way; of small tensors the whole queue stays on the tiles.
    local f = ipu.func(function(x) return ipu.fifo(x, 5, {offload = true}), x + 1 end)
    f(ipu.ones{64})
    assert.are.same({1, 1}, {steps(f, "load"), steps(f, "store")})
    assert.truthy(program_of(f):text():find("load%s[^\n]*float32%[64%]"), program_of(f):text())
    local price = ipu.estimate(f, {inputs = {ipu.zeros{64}}})
    assert.are.equal(5 * 64 * 4, price.memory.streaming)
    local small = ipu.func(function(x) return ipu.fifo(x, 2, {offload = true}) end)
    small(ipu.ones{2})
    assert.are.same({0, 0}, {steps(small, "load"), steps(small, "store")})
    -- A queue that is twice as deep moves no more.
    local deep = ipu.func(function(x) return ipu.fifo(x, 1000, {offload = true}), x + 1 end)
    assert.are.equal(price.cycles.total,
      ipu.estimate(deep, {inputs = {ipu.zeros{64}}}).cycles.total)
    assert.are.equal(3, ipu.func(ipu.remap)(ipu.tensor{3})[1]:item())
    pipelines.fails("runtime", function() ipu.fifo(ipu.zeros{2}, 1) end, "compiled function")
    pipelines.fails("value", function()
      ipu.func(function(x) return ipu.fifo(x, 0) end)(ipu.zeros{2})
    end, "must be positive", "0")
  end)

  it("lowers the fullest tile of a large model, for cycles that streaming memory takes", function()
    local function price(options)
      pipelines.device(2)
      options.gradient_accumulation_steps_per_replica = 16
      local keras, layers = ipu.keras, ipu.keras.layers
      local function deep()
        local _ <close> = ipu.IPUStrategy():scope()
        local list = {}
        for i = 1, 4 do
          list[i] = layers.Dense{2048, activation = "gelu", input_shape = i == 1 and {2048} or nil}
        end
        local model = keras.Sequential(list)
        model:compile{optimizer = "adam", loss = "mse"}
        model:set_pipeline_stage_assignment{0, 0, 1, 1}
        model:set_pipelining_options(options)
        return model
      end
      return ipu.estimate(deep, {batch_size = 512, ipus = 2})
    end
    local stay = price(only())
    local layer <const> = (2048 * 2048 + 2048) * 4
    local expected <const> = {
      offload_weight_update_variables = 4 * 2 * layer,
      offload_gradient_accumulation_buffers = 4 * layer, offload_weights = 4 * layer,
    }
    for _, name in ipairs(offloads) do
      local go = price(only(name))
      assert.is_true(go.max_tile_bytes < stay.max_tile_bytes, name)
      assert.is_true(go.cycles.stream > stay.cycles.stream, name)
      if expected[name] then assert.are.equal(expected[name], go.memory.streaming, name) end
    end
    local state = price(only(offloads[1]))
    -- two layers an IPU, of whose two slots each it keeps no more than one layer's on its 1472
    -- tiles at a time
    local saved = stay.max_tile_bytes - state.max_tile_bytes
    assert.is_true(saved > 0.9 * 2 * layer / 1472 and saved < 1.1 * 4 * layer / 1472, saved)
  end)
end)

describe("tensors shared out among replicas", function()
  local _device
  before_each(function() _device = pipelines.device(8) end) -- two replicas of four
  after_each(function() getmetatable(_device).__close() end)

  local optimizers <const> = {
    Momentum = function() return ipu.train.MomentumOptimizer(0.05, 0.9) end,
    Adam = function() return ipu.train.AdamOptimizer(0.05) end,
    RMSProp = function() return ipu.train.RMSPropOptimizer(0.01, 0.9, 0.5) end,
  }

  local function trained(make, options, settings)
    settings = settings or {[least] = 0}
    pipelines.device(8, settings)
    ipu.random.set_seed(3)
    local net = pipelines.net(20)
    local infeed, outfeed = net:infeed(), ipu.IPUOutfeedQueue()
    local opt = ipu.optimizers.CrossReplicaOptimizer(make())
    local given = {
      computational_stages = net:layers(), gradient_accumulation_count = 8, repeat_count = 5,
      infeed_queue = infeed,
      outfeed_queue = outfeed, outfeed_loss = true,
      optimizer_function = function(loss) return ipu.OptimizerFunctionOutput(opt, loss) end,
    }
    for key, value in pairs(options) do given[key] = value end
    local f = ipu.func(function() return ipu.pipeline(given) end)
    f()
    local slots = {}
    for i, entry in ipairs(opt.wrapped:entries()) do
      slots[i] = entry.variable:read_value():totable()
    end
    return {weights = net:values(), slots = slots, price = ipu.estimate(f), f = f}
  end

  local function close(expected, got)
    if type(expected) ~= "table" then
      assert.is_true(math.abs(expected - got) <= 1e-6, expected .. " and " .. tostring(got))
      return
    end
    assert.are.equal(#expected, #got)
    for i = 1, #expected do close(expected[i], got[i]) end
  end

  for name, make in pairs(optimizers) do
    it("row 149: replicated_optimizer_state_sharding halves the state of two replicas; weights are "
      .. "equal: " .. name, function()
      local whole, shared = trained(make, {}),
        trained(make, {replicated_optimizer_state_sharding = true})
      close(whole.weights, shared.weights)
      close(whole.slots, shared.slots)
      assert.are.equal(2, shared.price.replicas)
      assert.are.equal(whole.price.memory.streaming / 2, shared.price.memory.streaming)
      local text = program_of(shared.f):text()
      for _, op in ipairs{"reduce_scatter", "all_gather", "remote_load", "remote_store"} do
        assert.truthy(text:find(op, 1, true), op)
      end
      assert.falsy(text:find("cross_replica_mean", 1, true))
    end)

    it("row 150: replicated_weight_sharding halves the weights too: " .. name, function()
      local whole, both = trained(make, {offload_weights = true}),
        trained(make,
          {replicated_weight_sharding = true, replicated_optimizer_state_sharding = true})
      close(whole.weights, both.weights)
      assert.are.equal(whole.price.memory.streaming / 2, both.price.memory.streaming)
      assert.are.equal(whole.price.memory.variable, both.price.memory.variable)
    end)
  end

  it("row 150: weights are shared out also where the state stays whole, on the tiles or in "
    .. "streaming memory", function()
    for name, make in pairs(optimizers) do
      local weights
      for _, offloaded in ipairs{false, true} do
        local options = {offload_weights = true, offload_weight_update_variables = offloaded}
        local whole = trained(make, options)
        weights = weights or whole.price.memory.streaming
        options.replicated_weight_sharding = true
        local shared
        assert.are.same({}, log.capture("warn", function() shared = trained(make, options) end),
          name)
        close(whole.weights, shared.weights)
        close(whole.slots, shared.slots)
        assert.are.equal(whole.price.memory.streaming - weights / 2,
          shared.price.memory.streaming, name)
      end
    end
  end)

  it("row 149: a tensor is padded to a multiple of the replicas", function()
    pipelines.device(4)
    local w = ipu.Variable(ipu.zeros{7})
    local opt = ipu.optimizers.CrossReplicaGradientAccumulationOptimizerV2(
      ipu.train.MomentumOptimizer(0.5, 0.5),
      {num_mini_batches = 2, offload_weight_update_variables = true,
        replicated_optimizer_state_sharding = true})
    local f = ipu.func(function(x)
      return (ipu.loops.repeat_n(4, function(carried)
        opt:minimize(ipu.reduce_sum(carried * w)
          * (ipu.cast(ipu.replication_index(), "float32") + 1), {var_list = {w}})
        return carried
      end, {x}))
    end)
    pipelines.device(4, {[least] = 0})
    f(ipu.arange(1, 8):cast("float32"))
    -- Replicas' gradients are 1, 2, 3 and 4 times x, their mean 2.5 x; two mini-batches make 5 x.
    -- The momentum's first step is 5 x, its second 7.5 x, and the rate a half: w = -(2.5 + 3.75) x.
    local expected, momentum = {}, {}
    for i = 1, 7 do expected[i], momentum[i] = -6.25 * i, 7.5 * i end
    assert.are.same(expected, w:read_value():totable())
    assert.are.same(momentum, opt.wrapped.wrapped:entries()[1].variable:read_value():totable())
    -- 8 elements of 4 replicas
    assert.are.equal(2 * 4, ipu.estimate(f, {inputs = {ipu.zeros{7}}}).memory.streaming)
  end)

  it("stays whole where replicas have gradients of their own, with a warning", function()
    pipelines.device(8, {[least] = 0})
    ipu.random.set_seed(3)
    local weights, f
    local warnings = log.capture("warn", function()
      local _
      _, weights, f = pipelines.net(30):train{replicated_optimizer_state_sharding = true,
        replicated_weight_sharding = true}
    end)
    table.sort(warnings)
    assert.are.equal(2, #warnings, table.concat(warnings, "\n"))
    for i, option in ipairs{"replicated_optimizer_state_sharding", "replicated_weight_sharding"} do
      assert.truthy(warnings[i]:find("'" .. option .. "' has no effect", 1, true), warnings[i])
      assert.truthy(warnings[i]:find("CrossReplicaOptimizer", 1, true), warnings[i])
    end
    assert.are.same({}, log.capture("warn", function()
      trained(optimizers.Momentum,
        {replicated_optimizer_state_sharding = true, replicated_weight_sharding = true})
    end))
    pipelines.device(8)
    ipu.random.set_seed(3)
    local _, plain = pipelines.net(30):train{}
    assert.are.same(plain, weights)
    assert.falsy(program_of(f):text():find("all_gather", 1, true))
  end)

  describe("of Keras", function()
    local keras, layers = ipu.keras, ipu.keras.layers

    local function fitted(make, options, how)
      pipelines.device(how == "accumulation" and 2 or 4, {[least] = 0})
      ipu.random.set_seed(7)
      local strategy = ipu.IPUStrategy()
      local scope = strategy:scope()
      local x = ipu.random.normal({64, 5}, {seed = 1})
      local y = ipu.random.normal({64, 3}, {seed = 2})
      local model = keras.Sequential{
        layers.Dense{7, activation = "tanh", input_shape = {5},
          kernel_initializer = keras.initializers.GlorotUniform{seed = 4}},
        layers.Dense{3, kernel_initializer = keras.initializers.GlorotUniform{seed = 5}},
      }
      model:compile{loss = "mse", optimizer = make(), steps_per_execution = 8}
      options.gradient_accumulation_steps_per_replica = 4
      if how == "accumulation" then
        model:set_gradient_accumulation_options(options)
      else
        model:set_pipeline_stage_assignment{0, 1}
        model:set_pipelining_options(options)
      end
      model:fit{x = x, y = y, batch_size = 2, epochs = 3, verbose = 0, shuffle = false}
      local all = {}
      for i, t in ipairs(model:get_weights()) do all[i] = t:totable() end
      scope:close()
      local list = require "ipulua.trace.func".compiled()
      return all, list[#list].entry[1].program:text()
    end

    local rules <const> = {
      SGD = function() return keras.optimizers.SGD{0.02, momentum = 0.9} end,
      Adam = function() return keras.optimizers.Adam(0.01) end,
      LAMB = function() return keras.optimizers.LAMB{0.01, weight_decay = 0.01} end,
      ["Adam with clipnorm"] = function() return keras.optimizers.Adam{0.01, clipnorm = 0.05} end,
      ["SGD with global_clipnorm"] = function()
        return keras.optimizers.SGD{0.02, momentum = 0.9, global_clipnorm = 0.05}
      end,
    }
    for name, make in pairs(rules) do
      for _, how in ipairs{"pipeline", "accumulation"} do
        it("row 149: " .. name .. " in a " .. how .. " has equal weights", function()
          local whole = fitted(make, {offload_weight_update_variables = true}, how)
          local shared, text = fitted(make,
            {offload_weight_update_variables = true, replicated_optimizer_state_sharding = true},
            how)
          close(whole, shared)
          assert.truthy(text:find("reduce_scatter", 1, true))
        end)
      end
    end
  end)
end)
