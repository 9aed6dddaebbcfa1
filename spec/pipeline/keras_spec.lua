-- Keras models in pipeline stages. For each kind of model, schedule and option the numbers equal
-- the model on one IPU that accumulates as many gradients.

local ipu = require "ipulua"
local pipelines = require "spec.support.pipelines"
local warnings = require "spec.support.warnings"

local keras = ipu.keras
local layers = keras.layers

local function weights(seed) return keras.initializers.RandomNormal{stddev = 0.4, seed = seed} end
local function dense(units, seed, activation, name)
  return layers.Dense{units, kernel_initializer = weights(seed), activation = activation,
    name = name}
end

local function in_stage(stage, f)
  if not stage then return f() end
  return keras.PipelineStage(stage)(f)
end

-- Models of the same numbers; with or without stages.
local makers = {}

function makers.functional(staged)
  local input = keras.Input{shape = {6}}
  local x = in_stage(staged and 0, function() return dense(8, 1, "tanh")(input) end)
  local skip = x
  x = in_stage(staged and 0, function()
    return layers.Dropout(0.25, {seed = 5})(dense(8, 2, "relu")(x))
  end)
  return keras.Model{inputs = input, outputs = in_stage(staged and 1, function()
    local y = layers.BatchNormalization()(x)
    y = layers.Add()({y, skip})
    return layers.Dense{3, kernel_initializer = weights(3),
      kernel_regularizer = keras.regularizers.L2(0.01)}(y)
  end)}
end

function makers.sequential(staged)
  local model = keras.Sequential{
    dense(8, 1, "tanh"), layers.Dropout(0.25, {seed = 5}), dense(8, 2, "relu"), dense(3, 3),
  }
  if staged then model:set_pipeline_stage_assignment{0, 0, 1, 1} end
  return model
end

function makers.nested(staged)
  local function part(stage)
    local input = keras.Input{shape = {6}}
    local x = in_stage(stage, function() return dense(8, 1, "tanh", "inner1")(input) end)
    x = in_stage(stage and stage + 1, function() return dense(8, 2, "relu", "inner2")(x) end)
    return keras.Model{inputs = input, outputs = x, name = "inner"}
  end
  local input = keras.Input{shape = {6}}
  local inner = part(staged and 0)
  return keras.Model{inputs = input,
    outputs = in_stage(staged and 1, function() return dense(3, 3, nil, "head")(inner(input)) end)}
end

makers["nested as a whole"] = function(staged)
  local inner = keras.Sequential{dense(8, 1, "tanh"), dense(8, 2, "relu"), name = "inner"}
  local model = keras.Sequential{inner, dense(3, 3)}
  if staged then model:set_pipeline_stage_assignment{0, 1} end
  return model
end

local function own_class(use_scopes)
  local Net = keras.Model:extend("Net")
  function Net:init()
    keras.Model.init(self)
    self.first, self.second, self.head = dense(8, 1, "tanh"), dense(8, 2, "relu"), dense(3, 3)
  end
  function Net:call(x)
    local h = in_stage(use_scopes and 0, function() return self.first(x) end)
    h = in_stage(use_scopes and 1, function() return self.second(h) + h end)
    return in_stage(use_scopes and 1, function() return self.head(h) end)
  end
  return Net()
end

makers["subclassed, with scopes"] = function(staged) return own_class(staged) end

makers["subclassed, assigned"] = function(staged)
  local model = own_class(false)
  if not staged then return model end
  model:build{4, 6}
  local list = model:get_pipeline_stage_assignment()
  assert(#list == 3 and list[2].layer == model.second)
  for i, entry in ipairs(list) do entry.pipeline_stage = i < 2 and 0 or 1 end
  model:set_pipeline_stage_assignment(list)
  return model
end

local function dataset(n)
  local x = ipu.random.normal({n or 64, 6}, {seed = 11})
  local y = ipu.cast(ipu.random.uniform({n or 64}, {maxval = 3, seed = 12}), "int32")
  return ipu.data.from_tensor_slices{x, y}:batch(4, {drop_remainder = true}):repeat_n()
end

describe("a pipelined Keras model", function()
  local _device, scope
  local caught = warnings.expected{"fit: steps_per_execution is 16, but there are only 6 steps; it "
    .. "is 6 for this call",
    "9 steps on 2 replicas: the last 1 are left out"}
  setup(caught.start)
  teardown(caught.stop)
  before_each(function()
    _device = pipelines.device(2)
    ipu.random.set_seed(3)
    scope = ipu.IPUStrategy():scope()
  end)
  after_each(function()
    scope:close()
    getmetatable(_device).__close()
  end)

  local function compiled(model, options)
    options = options or {}
    model:compile{loss = keras.losses.SparseCategoricalCrossentropy{from_logits = true},
      metrics = {"accuracy"},
      optimizer = options.optimizer or keras.optimizers.SGD{learning_rate = 0.02, momentum = 0.9},
      steps_per_execution = options.steps_per_execution or 16}
    return model
  end

  -- History, weights, evaluation and predictions after two epochs of 16 micro-batches, 4 an update.
  local function trained(maker, staged, options)
    pipelines.device(staged and 2 or 1, options and options.config)
    ipu.random.set_seed(3)
    local model = compiled(maker(staged), options)
    local set = staged and model.set_pipelining_options or model.set_gradient_accumulation_options
    local given = {gradient_accumulation_steps_per_replica = 4}
    for key, value in pairs(options and options.pipelining or {}) do given[key] = value end
    set(model, given)
    local history = model:fit(dataset(), {epochs = 2, steps_per_epoch = 16, verbose = 0}).history
    local values = {history, model:evaluate(dataset(), {steps = 16, verbose = 0}),
      model:predict(dataset(), {steps = 16}):totable()}
    for _, w in ipairs(model:get_weights()) do values[#values + 1] = w:totable() end
    return values, model
  end

  for name, maker in pairs(makers) do
    it("rows 181, 183, 185: has the numbers of accumulation on one IPU, to the bit: "
      .. name, function()
      local one = trained(maker, false)
      local two, model = trained(maker, true)
      assert.are.same(one, two)
      assert.is_true(model:is_pipelined())
      local programs = ipu.programs()
      local train, test, predict = table.unpack(programs, #programs - 2)
      assert.are.same({{0, 1}, {0, 1}, {0, 1}},
        {train.stage_ipus, test.stage_ipus, predict.stage_ipus})
      assert.are.same({4 + 4 - 1, 16 + 2 - 1, 16 + 2 - 1},
        {train.time_steps, test.time_steps, predict.time_steps})
      assert.are.same({2, 0}, train.stash_depth)
    end)
  end

  it("row 219: has them in every schedule, reduction and option", function()
    for _, method in ipairs{"sum", "mean", "running_mean"} do
      local reduction = {gradient_accumulation_reduction_method = method}
      local one = trained(makers.functional, false, {pipelining = reduction})
      for _, schedule in ipairs{"Grouped", "Interleaved", "Sequential", "OneFOneB"} do
        local two, model = trained(makers.functional, true, {pipelining = {
          gradient_accumulation_reduction_method = method, schedule = schedule,
          offload_activations = schedule == "Grouped",
          accumulate_outfeed = true,
        }})
        assert.are.same(one, two)
        assert.are.equal(schedule, ipu.timetable(model).schedule)
      end
    end
  end)

  it(
    "has them when stages are computed again: dropout draws the same, moving averages move once",
    function()
    local one = trained(makers.functional, false)
    for _, mode in ipairs{"Auto", "RecomputeAndBackpropagateInterleaved"} do
      local options = {config = {allow_recompute = true}, pipelining = {recomputation_mode = mode}}
      assert.are.same(one, (trained(makers.functional, true, options)))
    end
  end)

  it(
    "row 194: is told apart in reports: Interleaved takes other time steps and half the stash",
    function()
    local _, model = trained(makers.sequential, true,
      {pipelining = {pipeline_schedule = "Interleaved"}})
    local t = ipu.timetable(model)
    assert.are.same({10, {1, 0}, 4}, {t.time_steps, t.stash_depth, t.count})
    assert.are.equal(2, #t.stage_bytes)
    assert.is_true(t.stage_ops[1].forward > 0 and t.stage_ops[2].backward > 0)
  end)

  it(
    "rows 189, 192: runs on one IPU again after its stages were reset, and calls ignore them",
    function()
    local _, model = trained(makers.sequential, true)
    local x = ipu.random.normal({4, 6}, {seed = 4})
    local called = model(x):totable()
    model:reset_pipeline_stage_assignment()
    pipelines.device(1)
    assert.is_false(model:is_pipelined())
    assert.are.same(called, model:predict(x, {batch_size = 4}):totable())
    local programs = ipu.programs()
    assert.are.same({}, programs[#programs].stage_ipus)
    pipelines.fails("value", function() ipu.timetable(model) end, "not pipelined")
  end)

  it("has them with several inputs and outputs, whose stages lie side by side", function()
    local function results(staged)
      pipelines.device(staged and 2 or 1)
      local a, b = keras.Input{shape = {4}, name = "a"}, keras.Input{shape = {3}, name = "b"}
      local function at(stage, f) return in_stage(staged and stage, f) end
      local h = at(0, function() return dense(6, 1, "tanh")(a) end)
      local g = at(1, function() return dense(6, 2, "relu")(b) end)
      local aux = at(0, function() return dense(2, 3, nil, "aux")(h) end)
      local main = at(1, function() return dense(1, 4, nil, "main")(layers.Add()({h, g})) end)
      local model = keras.Model{inputs = {a, b}, outputs = {main, aux}}
      model:compile{loss = {main = "mse", aux = "mae"}, loss_weights = {main = 1.0, aux = 0.5},
        metrics = {main = {"mae"}},
        optimizer = keras.optimizers.Adam(0.01), steps_per_execution = 8}
      local set = staged and model.set_pipelining_options or model.set_gradient_accumulation_options
      set(model, {gradient_accumulation_steps_per_replica = 4})
      local function normal(seed, width) return ipu.random.normal({32, width}, {seed = seed}) end
      local x, y = {a = normal(5, 4), b = normal(6, 3)}, {main = normal(7, 1), aux = normal(8, 2)}
      local history = model:fit{x = x, y = y, batch_size = 4, epochs = 2, shuffle = false,
        verbose = 0}.history
      local p = model:predict(x, {batch_size = 4})
      return {history, model:evaluate{x = x, y = y, batch_size = 4, verbose = 0,
        return_dict = true}, p[1]:totable(), p[2]:totable()}
    end
    assert.are.same(results(false), results(true))
  end)

  it("is a replica on each pair of four IPUs: the numbers of two IPUs without stages", function()
    local function fitted(ipus, staged, schedule)
      pipelines.device(ipus)
      ipu.random.set_seed(3)
      local model = compiled(makers["nested as a whole"](staged))
      local set = staged and model.set_pipelining_options or model.set_gradient_accumulation_options
      set(model, {gradient_accumulation_steps_per_replica = 4})
      if schedule then model:set_pipelining_options{schedule = schedule} end
      local history = model:fit(dataset(), {epochs = 2, steps_per_epoch = 32, verbose = 0}).history
      local values = {history, model:evaluate(dataset(), {steps = 32, verbose = 0})}
      for _, w in ipairs(model:get_weights()) do values[#values + 1] = w:totable() end
      assert.are.equal(2, ipu.programs()[1].replicas)
      return values
    end
    local replicas = fitted(2, false)
    assert.are.same(replicas, fitted(4, true))
    assert.are.same(replicas, fitted(4, true, "Interleaved"))
  end)

  it("row 188: takes its assignment edited by name: all up to a layer, and the rest", function()
    local input = keras.Input{shape = {6}}
    local x = dense(8, 1, "tanh", "stem")(input)
    x = dense(8, 2, "relu", "block")(x)
    local model = compiled(keras.Model{inputs = input, outputs = dense(3, 3, nil, "head")(x)})
    local list, stage = model:get_pipeline_stage_assignment(), 0
    for _, entry in ipairs(list) do
      entry.pipeline_stage = stage
      if entry.layer.name == "block" then stage = 1 end
    end
    model:set_pipeline_stage_assignment(list)
    model:set_pipelining_options{gradient_accumulation_steps_per_replica = 4}
    model:fit(dataset(), {steps_per_epoch = 16, verbose = 0})
    local programs = ipu.programs()
    assert.are.same({0, 1}, programs[#programs].stage_ipus)
  end)

  it("may share a layer between stages of one IPU only", function()
    local function shared(mapping)
      local input, layer = keras.Input{shape = {6}}, dense(6, 1)
      local x = in_stage(0, function() return layer(input) end)
      x = in_stage(1, function() return dense(6, 2)(x) end)
      local model = compiled(keras.Model{inputs = input,
        outputs = in_stage(2, function() return layer(x) end)})
      model:set_pipelining_options{gradient_accumulation_steps_per_replica = 6,
        device_mapping = mapping}
      return model:fit(dataset(), {steps_per_epoch = 6, verbose = 0})
    end
    assert.is_number(shared{0, 1, 0}.history.loss[1])
    pipelines.fails("not_implemented", function() shared{0, 1, 1} end, "kernel", "same IPU")
  end)

  it("row 198: calls back for every step with asynchronous callbacks", function()
    local model = compiled(makers.sequential(true))
    model:set_pipelining_options{gradient_accumulation_steps_per_replica = 4}
    model:set_asynchronous_callbacks(true)
    local seen = {}
    model:fit(dataset(),
      {steps_per_epoch = 16, verbose = 0, callbacks = {keras.callbacks.LambdaCallback{
      on_train_batch_end = function(step) seen[#seen + 1] = step end}}})
    local want = {}
    for i = 0, 15 do want[i + 1] = i end
    assert.are.same(want, seen)
  end)

  it("row 195: counts its updates", function()
    local _, model = trained(makers.sequential, true)
    assert.are.equal(2 * 16 // 4, model.optimizer.iterations:item())
  end)

  it("row 125: refuses counts that its schedule can't have, by the option's name", function()
    local model = compiled(makers.sequential(true), {steps_per_execution = 6})
    model:set_pipelining_options{gradient_accumulation_steps_per_replica = 6}
    pipelines.fails("failed_precondition", function()
      model:fit(dataset(), {steps_per_epoch = 6, verbose = 0})
    end,
      "gradient_accumulation_steps_per_replica", "multiple of 4", "it is 6")
    model:set_pipelining_options{schedule = "Interleaved"}
    model:fit(dataset(), {steps_per_epoch = 6, verbose = 0})
    model = compiled(makers.sequential(true), {steps_per_execution = 3})
    pipelines.fails("failed_precondition", function()
      model:evaluate(dataset(), {steps = 3, verbose = 0})
    end,
      "steps_per_execution", "multiple of 2", "it is 3")
  end)

  it("row 206: refuses to train without a number of gradients to accumulate", function()
    pipelines.fails("value", function()
      compiled(makers.sequential(true)):fit(dataset(), {steps_per_epoch = 16, verbose = 0})
    end,
      "gradient_accumulation_steps_per_replica")
  end)

  it("row 199: is run once for each steps_per_execution steps", function()
    local model = compiled(makers.sequential(true), {steps_per_execution = 8})
    model:set_pipelining_options{gradient_accumulation_steps_per_replica = 4}
    ipu.ipu_event_trace()
    model:fit(dataset(), {steps_per_epoch = 32, verbose = 0})
    local executions = 0
    for _, event in ipairs(ipu.ipu_event_trace()) do
      if event.type == "EXECUTE" then executions = executions + 1 end
    end
    assert.are.equal(32 / 8, executions)
  end)

  it("row 211: refuses a device that its stages don't divide", function()
    pipelines.device(1)
    local model = compiled(makers.sequential(true))
    model:set_pipelining_options{gradient_accumulation_steps_per_replica = 4}
    pipelines.fails("value", function()
      model:fit(dataset(), {steps_per_epoch = 16, verbose = 0})
    end,
      "has 1 IPU", "multiple of 2")
  end)

  it("refuses continuous updates, own steps, and stages that leave a gap", function()
    local model = makers.sequential(true)
    pipelines.fails("not_implemented",
      function() model:set_pipelining_options{continuous_weight_updates = true} end, "continuous",
      "not implemented")
    local Own = keras.Sequential:extend("Own")
    function Own:train_step() return {} end -- luacheck: ignore 212
    local own = compiled(Own{dense(8, 1), dense(3, 2)})
    own:set_pipeline_stage_assignment{0, 1}
    own:set_pipelining_options{gradient_accumulation_steps_per_replica = 4}
    pipelines.fails("runtime",
      function() own:fit(dataset(), {steps_per_epoch = 16, verbose = 0}) end, "train_step")
  end)

  it("row 197: refuses queue options that it sets itself, and takes the others", function()
    local model = makers.sequential(true)
    for _, name in ipairs{"dataset", "infeed_spec", "element_spec"} do
      pipelines.fails("value", function() model:set_infeed_queue_options{[name] = 1} end, name,
        "automatically")
    end
    for _, name in ipairs{"outfeed_mode", "device_ordinal"} do
      pipelines.fails("value", function() model:set_outfeed_queue_options{[name] = 0} end, name,
        "automatically")
    end
    pipelines.fails("value", function() model:set_infeed_queue_options{prefetch_deph = 2} end,
      "prefetch_depth")
    pipelines.fails("type", function() model:set_infeed_queue_options{prefetch_depth = "x"} end,
      "set_infeed_queue_options: 'prefetch_depth'")
    pipelines.fails("type", function() model:set_outfeed_queue_options{optimise_latency = 3} end,
      "optimise_latency")
    pipelines.fails("value", function() model:set_outfeed_queue_options{buffer_depth = -3} end,
      "at least 1, got -3")
    pipelines.fails("type", function() model:set_pipelining_options{offload_weights = 3} end,
      "offload_weights")
    pipelines.fails("type", function() model:set_gradient_accumulation_options{dtype = 3} end,
      "'dtype' must be a dtype")
    model:set_infeed_queue_options{prefetch_depth = 5}
    model:set_outfeed_queue_options{buffer_depth = 2}
    model:set_pipelining_options{gradient_accumulation_steps_per_replica = 4}
    compiled(model):fit(dataset(), {steps_per_epoch = 16, verbose = 0})
  end)

  it(
    "rows 209, 210: is fed float64 data, and leaves steps out that its replicas can't share",
    function()
    pipelines.device(4)
    local model = makers.sequential(true)
    model:compile{loss = "mse", optimizer = keras.optimizers.SGD(0.01), steps_per_execution = 4}
    model:set_pipelining_options{gradient_accumulation_steps_per_replica = 4}
    local x, y = ipu.random.normal({36, 6}, {seed = 1}):cast("float64"),
      ipu.random.normal({36, 3}, {seed = 2}):cast("float64")
    local finite = ipu.data.from_tensor_slices{x, y}:batch(4, {drop_remainder = true})
    local history = model:fit(finite, {verbose = 0}).history
    assert.is_true(history.loss[1] > 0)
    assert.matches("9 steps on 2 replicas: the last 1 are left out", caught.lines[#caught.lines])
    assert.are.equal(1, model.optimizer.iterations:item())
  end)

  it("row 190: lists the calls of a nested model that has stages of its own", function()
    local model = makers.nested(true)
    local names, found = {}, {}
    for i, entry in ipairs(model:get_pipeline_stage_assignment()) do
      names[i], found[i] = entry.layer.name, entry.pipeline_stage
    end
    assert.are.same({"inner1", "inner2", "head"}, names)
    assert.are.same({0, 1, 1}, found)
    assert.are.equal("inner", model:get_pipeline_stage_assignment()[2].nested_model.name)
    local lines = {}
    model:print_pipeline_stage_assignment_summary{print_fn = function(line)
      lines[#lines + 1] = line
    end}
    local function starts(i, text) assert.are.equal(text, lines[i]:sub(1, #text)) end
    starts(4, "=====")
    starts(5, 'Nested Model: "inner"')
    starts(6, "-----")
    starts(7, "inner1 (Dense) (0)")
    starts(8, "_____")
    starts(9, "inner2 (Dense) (0)")
    starts(10, "=====")
    starts(11, "head (Dense) (0)")
    assert.are.equal(12, #lines)
  end)

  it("finds a subclass' calls by their layer, and names one that has no stage", function()
    local _ <close> = pipelines.device(2)
    local _ <close> = ipu.IPUStrategy():scope()
    for _, when in ipairs{"always", "training"} do
      local M = keras.Model:extend("M")
      function M:init()
        keras.Model.init(self)
        self.a, self.d, self.c = layers.Dense{17}, layers.Dropout{0.5}, layers.Dense{3}
      end
      function M:call(x, o)
        local h = self.a(x)
        if when == "always" or o and o.training then h = self.d(h) end
        return self.c(self.a(h))
      end
      local m = M()
      m:build{-1, 17}
      local list = m:get_pipeline_stage_assignment()
      for _, entry in ipairs(list) do entry.pipeline_stage = entry.layer == m.c and 1 or 0 end
      m:set_pipeline_stage_assignment(list)
      m:set_pipelining_options{gradient_accumulation_steps_per_replica = 4}
      m:compile{loss = "mse", optimizer = "sgd", steps_per_execution = 4}
      local fine, why = pcall(m.fit, m,
        {x = ipu.ones{64, 17}, y = ipu.ones{64, 3}, batch_size = 4, verbose = 0})
      assert.equal(when == "always", fine)
      if not fine then
        assert.matches("call 0 of layer '" .. m.d.name .. "' has no pipeline stage", why)
      end
    end
  end)
end)
