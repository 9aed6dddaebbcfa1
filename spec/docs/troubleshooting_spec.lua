-- Each message of docs/reference/troubleshooting.md comes up as the page says.

local command = require "spec.support.command"
local ipu = require "ipulua"

local keras, layers, data = ipu.keras, ipu.keras.layers, ipu.data

local function configure(change)
  local cfg = ipu.IPUConfig()
  change(cfg)
  cfg:configure_ipu_system()
end

local function compiled(options)
  local m = keras.Sequential{layers.Dense{1}}
  m:compile{optimizer = "sgd", loss = "mse", steps_per_execution = options
    and options.steps_per_execution}
  return m
end

local function two_stages(options)
  local _ <close> = ipu.IPUStrategy():scope()
  local m = keras.Sequential{layers.Dense{4, input_shape = {4}}, layers.Dense{4}}
  m:set_pipeline_stage_assignment{0, 1}
  m:set_pipelining_options(options or {gradient_accumulation_steps_per_replica = 4})
  local steps = options and options.gradient_accumulation_steps_per_replica or 4
  m:compile{optimizer = "sgd", loss = "mse", steps_per_execution = steps}
  m:fit{x = ipu.ones{4 * steps, 4}, y = ipu.ones{4 * steps, 4}, batch_size = 4, verbose = 0}
end

local folder

-- The code that provokes each, in any order.
local causes <const> = {
  ["ipu has no 'matmull'"] = function() return ipu.matmull end,
  ["reduce_sum has no argument 'axes'"] = function() ipu.reduce_sum(ipu.ones{2}, {axes = 0}) end,
  ["'units' must be an integer"] = function() layers.Dense{units = "four"} end,
  ["'auto_select' is not"] = function() ipu.IPUConfig().auto_select = 2 end,
  ["got a module"] = function() ipu:ones{2} end,
  ["a tensor has no 'summ'"] = function() ipu.ones{2}:summ() end,
  ["labels[0] is 3"] = function()
    local m = keras.Sequential{layers.Dense{3}}
    m:compile{optimizer = "sgd",
      loss = keras.losses.SparseCategoricalCrossentropy{from_logits = true}}
    m:fit{x = ipu.ones{2, 2}, y = ipu.tensor{3, 3}, batch_size = 2, verbose = 0}
  end,
  ["inside a loop or branch"] = function()
    ipu.func(function(x) for _ in ipu.range(3) do x = x + 1 end return x end)(ipu.tensor(1.0))
  end,
  ["'y' is missing"] = function() compiled():fit(ipu.ones{4, 1}, {batch_size = 4, verbose = 0}) end,
  ["Dataset.batch is a method"] = function() data.range(3).batch(2) end,
  ["inner extents"] = function() ipu.matmul(ipu.ones{2, 3}, ipu.ones{2, 3}) end,
  ["don't broadcast"] = function() return ipu.ones{2, 3} + ipu.ones{2} end,
  ["dtypes float32"] = function() return ipu.ones{2} + ipu.ones({2}, {dtype = "int32"}) end,
  ["is no int32"] = function() return ipu.ones({2}, {dtype = "int32"}) + 0.5 end,
  ["must be floating point, got uint8"] = function() ipu.tanh(ipu.ones({2}, "uint8")) end,
  ["the batch axis is missing"] = function()
    keras.Sequential{layers.Dense{1, input_shape = {3}}}:predict(ipu.ones{3}, {verbose = 0})
  end,
  ["is ragged"] = function() ipu.tensor{{1, 2}, {3}} end,
  ["y_true and y_pred"] = function()
    keras.losses.MeanSquaredError()(ipu.ones{2, 3}, ipu.ones{2, 1})
  end,
  ["while a function is traced"] = function()
    ipu.func(function(x) return x:item() end)(ipu.tensor(1.0))
  end,
  ["tensors are compared"] = function() return ipu.tensor(1) < ipu.tensor(2) end,
  ["a symbolic tensor has no value"] = function() ipu.placeholder("float32", {2}):item() end,
  ["after the function that made it"] = function()
    local kept
    ipu.func(function(x) kept = x * 2 return x end)(ipu.tensor(1.0))
    return kept + 1
  end,
  ["before it was initialised"] = function()
    local session <close> = ipu.Session()
    session:run(ipu.get_variable("unset", {shape = {2}}))
  end,
  ["a tape gives gradients once"] = function()
    local v, tape = ipu.Variable(1.0), ipu.GradientTape()
    local y = tape(function() return v * 2 end)
    tape:gradient(y, v)
    tape:gradient(y, v)
  end,
  ["body declares 0 parameters"] = function() ipu.loops.repeat_n(3, function() end, {0}) end,
  ["enqueue works only inside"] = function() ipu.IPUOutfeedQueue():enqueue(ipu.ones{1}) end,
  ["partial batch"] = function()
    local input = keras.Input{shape = {2}, batch_size = 4}
    keras.Model{inputs = input, outputs = layers.Dense{1}(input)}:predict(ipu.ones{10, 2})
  end,
  ["every shape must be fully known"] = function()
    ipu.IPUInfeedQueue(data.from_tensor_slices(ipu.ones{10}):batch(4))
  end,
  ["is int64, which"] = function() ipu.IPUInfeedQueue(data.range(4)) end,
  ["the function can't be traced"] = function()
    data.range(3):map(function(x) return x:item() end)
  end,
  ["must be compiled first"] = function()
    keras.Sequential{layers.Dense{1}}:fit{x = ipu.ones{4, 2}, y = ipu.ones{4, 1}}
  end,
  ["the dataset is endless"] = function()
    compiled():fit(data.from_tensors{ipu.ones{2, 2}, ipu.ones{2, 1}}:repeat_n())
  end,
  ["must be a divisor"] = function()
    compiled{steps_per_execution = 2}:fit{x = ipu.ones{12, 2}, y = ipu.ones{12, 1}, batch_size = 4,
      verbose = 0}
  end,
  ["has no weights yet"] = function() keras.Sequential{layers.Dense{1}}:count_params() end,
  ["is not built yet"] = function() keras.Sequential{layers.Dense{1}}:summary() end,
  ["its files are missing"] = function()
    keras.datasets.cifar10.load_data{path = "/nonexistent"}
  end,
  ["has the shape"] = function()
    keras.Sequential{layers.Dense{1, input_shape = {2}, name = "a"}}:save_weights(folder
      .. "/w.safetensors")
    keras.Sequential{layers.Dense{2, input_shape = {2}, name = "a"}}:load_weights(folder
      .. "/w.safetensors")
  end,
  ["must end in"] = function() ipu.save("weights.txt", {a = ipu.ones{1}}) end,
  ["a model is saved as"] = function() compiled():save(folder .. "/model.keras") end,
  ["the current device has"] = function()
    configure(function(cfg) cfg.auto_select_ipus = 1 end)
    two_stages()
  end,
  ["must be a multiple of"] = function()
    configure(function(cfg) cfg.auto_select_ipus = 2 end)
    two_stages{gradient_accumulation_steps_per_replica = 3, pipeline_schedule = "Grouped"}
  end,
  ["needs each stage"] = function()
    ipu.timetable{schedule = "OneFOneB", device_mapping = {0, 0}}
  end,
  ["PipelineStage works only"] = function() keras.PipelineStage(0) end,
  ["needs remote memory"] = function()
    configure(function(cfg) cfg.auto_select_ipus, cfg.device_connection.type = 2, "ON_DEMAND" end)
    two_stages{gradient_accumulation_steps_per_replica = 4, offload_activations = true}
  end,
  ["does not fit on"] = function()
    configure(function(cfg) cfg.auto_select_ipus = 1 end)
    ipu.func(ipu.matmul)(ipu.zeros{20000, 4000}, ipu.zeros{4000, 8000})
  end,
  ["Tiles in excepted"] = function()
    configure(function(cfg) cfg.floating_point_behaviour.div0 = true end)
    ipu.func(function(x) return 1 / x end)(ipu.zeros{2})
  end,
  ["that is not finite"] = function()
    ipu.enable_check_numerics()
    ipu.func(function(x) return ipu.log(x) end)(ipu.tensor{-1})
  end,
}
-- Messages that other specs provoke, by a signal, from C, or with another library.
local elsewhere <const> = {"interrupted!", "ONNX has no counterpart", "depends on the batch",
  "models need ipulua/core.so",
  "of the C interface", "attempt to call a nil value (method 'compil')", "a script begins with"}

-- Each row's first text of the page.
local function messages()
  local list = {}
  for text in command.read("docs/reference/troubleshooting.md"):gmatch("\n| `([^`]+)` |") do
    list[#list + 1] = text
  end
  return list
end

describe("docs/reference/troubleshooting.md", function()
  setup(function() folder = command.folder() end)
  teardown(function() command.remove(folder) end)
  before_each(ipu.reset_ipu_configuration)
  after_each(function()
    ipu.disable_check_numerics()
    ipu.reset_ipu_configuration()
    ipu.reset_default_graph()
  end)

  for _, text in ipairs(messages()) do
    local cause, known
    for fragment, f in pairs(causes) do
      if text:find(fragment, 1, true) then cause = f end
    end
    for _, fragment in ipairs(elsewhere) do known = known or text:find(fragment, 1, true) end
    if not known then
      it("says what the message is: " .. text, function()
        assert.is_function(cause, "nothing provokes it here")
        local ok, message = pcall(cause)
        assert.is_false(ok)
        assert.is_truthy(message:find(text, 1, true), message)
      end)
    end
  end

  it("has as many messages as there are causes", function()
    local count = #elsewhere
    for _ in pairs(causes) do count = count + 1 end
    assert.equal(count, #messages())
  end)
end)
