-- The pipelined models of earlier releases: the same numbers as today's, with steps that are weight
-- updates.

local ipu = require "ipulua"
local pipelines = require "spec.support.pipelines"

local keras = ipu.keras
local layers = keras.layers

local function dense(units, seed, activation)
  return layers.Dense{units, kernel_initializer = keras.initializers.RandomNormal{stddev = 0.4,
    seed = seed}, activation = activation}
end

local function dataset()
  local x, y = ipu.random.normal({64, 6}, {seed = 11}), ipu.random.normal({64, 2}, {seed = 12})
  return ipu.data.from_tensor_slices{x, y}:batch(4, {drop_remainder = true}):repeat_n()
end

describe("older pipelined models", function()
  local _device, scope
  before_each(function()
    _device = pipelines.device(2)
    scope = ipu.IPUStrategy():scope()
  end)
  after_each(function()
    scope:close()
    getmetatable(_device).__close()
  end)

  local function compile(model)
    model:compile{loss = "mse", optimizer = keras.optimizers.SGD(0.05), steps_per_execution = 8}
  end

  local function results(model, fit, evaluate)
    local history = model:fit(dataset(), fit).history
    return {history, model:evaluate(dataset(), evaluate), model:get_weights()[1]:totable(),
      model.optimizer.iterations:item()}
  end

  local function today()
    local model = keras.Sequential{dense(8, 1, "tanh"), dense(8, 2, "tanh"), dense(2, 3)}
    model:set_pipeline_stage_assignment{0, 1, 1}
    model:set_pipelining_options{gradient_accumulation_steps_per_replica = 4}
    compile(model)
    return results(model, {epochs = 2, steps_per_epoch = 16, verbose = 0}, {steps = 8, verbose = 0})
  end

  it("SequentialPipelineModel: a list of layers for each stage", function()
    local model = keras.SequentialPipelineModel({{dense(8, 1, "tanh")},
      {dense(8, 2, "tanh"), dense(2, 3)}},
      {gradient_accumulation_count = 4})
    compile(model)
    assert.are.same(today(),
      results(model, {epochs = 2, steps_per_epoch = 4, steps_per_run = 2, verbose = 0},
      {steps = 2, steps_per_run = 2, verbose = 0}))
    assert.are.equal(4, ipu.timetable(model).count)
    assert.are.equal(keras.SequentialPipelineModel, keras.PipelineSequential)
  end)

  it("PipelineModel: stages from scopes, the pipeline's arguments in the constructor", function()
    local input = keras.Input{shape = {6}}
    local x
    do
      local _ <close> = keras.PipelineStage(0)
      x = dense(8, 1, "tanh")(input)
    end
    do
      local _ <close> = keras.PipelineStage(1)
      x = dense(2, 3)(dense(8, 2, "tanh")(x))
    end
    local model = keras.PipelineModel{inputs = input, outputs = x, gradient_accumulation_count = 4,
      device_mapping = {1, 0},
      pipeline_schedule = ipu.PipelineSchedule.Interleaved}
    compile(model)
    assert.are.same(today(),
      results(model, {epochs = 2, steps_per_epoch = 4, verbose = 0}, {steps = 2, verbose = 0}))
    assert.are.equal("Interleaved", ipu.timetable(model).schedule)
    assert.are.same({4, 2}, model:predict(dataset():map(function(a) return a end):take(4),
      {}):slice({0, 0}, {4, 2}).shape)
  end)

  it("say what is wrong", function()
    local fails = pipelines.fails
    fails("value", function() keras.SequentialPipelineModel{{dense(2, 1)}, {dense(2, 2)}} end,
      "gradient_accumulation_count")
    fails("type", function()
      keras.SequentialPipelineModel({dense(2, 1), dense(2, 2)}, {gradient_accumulation_count = 4})
    end, "stage 0")
    local input = keras.Input{shape = {6}}
    fails("value", function()
      keras.PipelineModel{inputs = input, outputs = dense(2, 1)(input),
        gradient_accumulation_count = 4}
    end, "PipelineStage")
    local model = keras.SequentialPipelineModel({{dense(8, 1)}, {dense(2, 3)}},
      {gradient_accumulation_count = 4})
    compile(model)
    fails("value", function()
      model:fit(dataset(), {steps_per_epoch = 3, steps_per_run = 2, verbose = 0})
    end, "steps_per_epoch", "3", "2")
  end)

  it("validate runs, too, and leave steps_per_execution as it was", function()
    local model = keras.SequentialPipelineModel({{dense(8, 1)}, {dense(2, 3)}},
      {gradient_accumulation_count = 4})
    compile(model)
    local last = {}
    local Last = keras.callbacks.Callback:extend "Last"
    function Last:on_test_batch_end(step) last[#last + 1] = step end
    function Last:on_epoch_end()
      self.model:evaluate(dataset(), {steps = 5, verbose = 0, callbacks = {self}})
    end
    model:fit(dataset(), {steps_per_epoch = 6, steps_per_run = 3, verbose = 0,
      validation_data = dataset(),
      validation_steps = 3, callbacks = {Last()}})
    -- three runs at once; of the callback's own call one after the other
    assert.same({11, 3, 7, 11, 15, 19}, last)
    assert.equal(8, model.steps_per_execution)
  end)
end)
