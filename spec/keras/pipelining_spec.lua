-- The options of training on IPUs and the assignment of layers to pipeline stages.

local ipu = require "ipulua"
local log = require "ipulua.base.log"

local keras = ipu.keras
local layers = keras.layers

local function message_of(f, ...)
  local ok, message = pcall(f, ...)
  assert.is_false(ok)
  return message
end

local function stack(count)
  local list = {}
  for i = 1, count do
    list[i] = layers.Dense{2, name = "layer" .. i, input_shape = i == 1 and {2} or nil}
  end
  return keras.Sequential{layers = list}
end

describe("set_pipelining_options", function()
  it("of a model without stages is said, once, to have no effect", function()
    local model = stack(1)
    model:set_pipelining_options{gradient_accumulation_steps_per_replica = 2}
    model:compile{loss = "mse", optimizer = "sgd"}
    local function fit()
      model:fit{x = ipu.ones{4, 2}, y = ipu.ones{4, 2}, batch_size = 2, verbose = 0}
    end
    local told = log.capture("warn", function()
      fit()
      fit()
    end)
    assert.are.equal(1, #told)
    assert.matches("has no pipeline stages, so what set_pipelining_options says has no effect",
      told[1])
  end)

  it("row 194: merges options over calls", function()
    local model = stack(2)
    model:set_pipelining_options{gradient_accumulation_steps_per_replica = 4,
      schedule = "interleaved"}
    model:set_pipelining_options{gradient_accumulation_steps_per_replica = 8}
    assert.are.equal("Interleaved", model._options.pipelining.pipeline_schedule)
    assert.are.equal(8, model._options.pipelining.gradient_accumulation_steps_per_replica)
  end)

  for words, options in pairs{
    ["must be a positive integer, got integer %(%-1%)"] =
    {gradient_accumulation_steps_per_replica = -1},
    ["'device_mapping' must be a list of integers"] = {device_mapping = {0.5, 1}},
    ["gradient_accumulation_steps_per_replica"] = {gradient_accumulation_count = 4},
    ["'repeat_count' is set automatically"] = {repeat_count = 2},
    ["is not compatible with Keras models"] = {batch_serialization_iterations = 2},
    ["did you mean 'pipeline_schedule'"] = {pipeline_shedule = "Grouped"},
    ["choose one of Grouped, Interleaved"] = {pipeline_schedule = "Sideways"},
  } do
    it("row 193: refuses, with words: " .. words, function()
      local model = stack(2)
      assert.matches(words, message_of(model.set_pipelining_options, model, options))
    end)
  end

  it("rows 193, 195: of gradient accumulation refuses what the model sets itself", function()
    local model = stack(1)
    assert.matches("'opt' is set automatically by the model",
      message_of(model.set_gradient_accumulation_options, model, {opt = 1}))
    assert.matches("must be a boolean", message_of(model.set_asynchronous_callbacks, model, 1))
  end)
end)

describe("a pipeline's arguments that a model sets itself", function()
  local remedies <const> = {
    gradient_accumulation_count = "gradient_accumulation_steps_per_replica",
    experimental_normalize_gradients = "removed",
    outfeed_loss = "not compatible", outfeed_mask = "not compatible",
    batch_serialization_iterations = "not compatible",
    computational_stages = "automatically", repeat_count = "automatically",
    inputs = "automatically", infeed_queue = "automatically",
    outfeed_queue = "automatically", optimizer_function = "automatically",
  }
  for name, remedy in pairs(remedies) do
    it("row 193: are refused, with what to do: " .. name, function()
      local model = stack(2)
      local message = message_of(model.set_pipelining_options, model, {[name] = 1})
      assert.is_truthy(message:find("'" .. name .. "'", 1, true), message)
      assert.is_truthy(message:find(remedy, 1, true), message)
      assert.are.equal("value", ipu.last_error().kind)
    end)
  end

  for name, remedy in pairs{
    opt = "automatically", num_mini_batches = "gradient_accumulation_steps_per_replica",
    experimental_normalize_gradients = "removed",
  } do
    it("row 195: are refused by gradient accumulation, with what to do: " .. name, function()
      local model = stack(1)
      local message = message_of(model.set_gradient_accumulation_options, model, {[name] = 1})
      assert.is_truthy(message:find("'" .. name .. "'", 1, true), message)
      assert.is_truthy(message:find(remedy, 1, true), message)
      assert.are.equal("value", ipu.last_error().kind)
    end)
  end
end)

describe("a Sequential model's stages", function()
  it("rows 186, 188, 189: are set, read and reset", function()
    local model = stack(3)
    assert.is_false(model:is_pipelined())
    assert.is_nil(model:get_pipeline_stage_assignment()[1].pipeline_stage)
    model:set_pipeline_stage_assignment{0, 0, 1}
    local list = model:get_pipeline_stage_assignment()
    assert.are.equal(1, list[3].pipeline_stage)
    assert.are.equal("layer3", list[3].layer.name)
    list[2].pipeline_stage = 1
    model:set_pipeline_stage_assignment(list)
    assert.are.equal(1, model:get_pipeline_stage_assignment()[2].pipeline_stage)
    model:reset_pipeline_stage_assignment()
    assert.is_false(model:is_pipelined())
  end)

  for words, stages in pairs{
    ["needs a stage for each layer, got 2 stages for 3 layers"] = {0, 1},
    ["must start at 0, got 1"] = {1, 1, 2},
    ["not all in increasing order: .* after 1$"] = {0, 1, 0},
    ["must be integers"] = {0.5, 0.5, 1.5},
    ["has stage 2 after 0, and no layer has 1$"] = {0, 0, 2},
  } do
    it("rows 186, 187: refuse, with words: " .. words, function()
      local model = stack(3)
      assert.matches(words, message_of(model.set_pipeline_stage_assignment, model, stages))
    end)
  end

  for words, stages in pairs{
    ["'layer2' has stage 2 after 0"] = {0, 2}, ["must start at 0, got 1"] = {1, 1},
    ["stages must start at 0"] = {1, 0},
  } do
    it("row 187: refuse " .. table.concat(stages, ", "), function()
      local model = stack(2)
      assert.matches(words, message_of(model.set_pipeline_stage_assignment, model, stages))
      assert.is_false(model:is_pipelined())
    end)
  end

  it("are forgotten when a layer is added", function()
    local model = stack(2)
    model:set_pipeline_stage_assignment{0, 1}
    model:add(layers.Dense(2))
    assert.is_false(model:is_pipelined())
  end)

  it("row 191: print as a table", function()
    local model = keras.Sequential{layers.Flatten{name = "flatten"},
      layers.Dense{2, name = "dense"}, name = "mlp"}
    local lines = {}
    model:print_pipeline_stage_assignment_summary{line_length = 65, print_fn = function(l)
      lines[#lines + 1] = l
    end}
    assert.are.equal('Model: "mlp"', lines[1])
    assert.are.equal("Layer (type)                    Pipeline Stage                   ", lines[3])
    assert.are.equal("flatten (Flatten)               None                             ", lines[5])
  end)
end)

describe("PipelineStage", function()
  local strategy = ipu.IPUStrategy()

  it("row 183: gives layers made or called in it their stage; the call's wins", function()
    local _ <close> = strategy:scope()
    local x = keras.Input{shape = {2}}
    local first, second
    do
      local _ <close> = keras.PipelineStage(0)
      first = layers.Dense(2)
      second = layers.Dense(2)
    end
    local y = first(x)
    do
      local _ <close> = keras.PipelineStage(1)
      y = second(y)
    end
    local model = keras.Model{inputs = x, outputs = y}
    local list = model:get_pipeline_stage_assignment()
    assert.are.same({0, 1}, {list[1].pipeline_stage, list[2].pipeline_stage})
    assert.is_true(model:is_pipelined())
  end)

  it("row 184: refuses negative stages, nesting, and no strategy", function()
    assert.matches("only inside an IPUStrategy", message_of(keras.PipelineStage, 0))
    local _ <close> = strategy:scope()
    assert.matches("not negative", message_of(keras.PipelineStage, -1))
    local _ <close> = keras.PipelineStage(0)
    assert.matches("must not be nested", message_of(keras.PipelineStage, 1))
  end)

  it("row 185: needs all layers or none", function()
    local _ <close> = strategy:scope()
    local x = keras.Input{shape = {2}}
    local y
    do
      local _ <close> = keras.PipelineStage(0)
      y = layers.Dense{2, name = "inside"}(x)
    end
    local z = layers.Dense{2, name = "outside"}(y)
    assert.matches("'inside' has a pipeline stage, but layer 'outside' has none",
      message_of(function() return keras.Model{inputs = x, outputs = z} end))
  end)
end)

describe("a functional model's stages", function()
  it("row 187: must not go backwards, nor leave one empty", function()
    local x = keras.Input{shape = {2}}
    local model = keras.Model{inputs = x,
      outputs = layers.Dense{2, name = "b"}(layers.Dense{2, name = "a"}(x))}
    local list = model:get_pipeline_stage_assignment()
    list[1].pipeline_stage, list[2].pipeline_stage = 1, 0
    assert.matches("layer 'b' is in stage 0, but takes the output of layer 'a' in stage 1",
      message_of(model.set_pipeline_stage_assignment, model, list))
    list[1].pipeline_stage, list[2].pipeline_stage = 0, 2
    model:set_pipeline_stage_assignment(list)
    model:set_pipelining_options{gradient_accumulation_steps_per_replica = 1}
    model:compile{loss = "mse", optimizer = "sgd"}
    assert.matches("no layers are in stages %[1%]",
      message_of(model.fit, model, {x = ipu.ones{2, 2}, y = ipu.ones{2, 2}, batch_size = 2}))
  end)
end)
