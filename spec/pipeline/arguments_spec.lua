-- Every argument of ipu.pipeline that can be wrong says so, by name.

local ipu = require "ipulua"
local pipelines = require "spec.support.pipelines"

local fails = pipelines.fails

local function pass(x) return x end

describe("ipu.pipeline refuses", function()
  local _device, w, outfeed
  before_each(function()
    _device = pipelines.device(4)
    w, outfeed = ipu.Variable(ipu.ones{}, {name = "weight"}), ipu.IPUOutfeedQueue()
  end)
  after_each(function() getmetatable(_device).__close() end)

  local function multiply(x) return x * w end
  local function sgd(loss)
    return ipu.OptimizerFunctionOutput(ipu.train.GradientDescentOptimizer(0.1), loss)
  end

  -- Two stages, training, with changes.
  local function run(changes)
    local given = {
      computational_stages = {multiply, pass}, gradient_accumulation_count = 4,
      inputs = {ipu.tensor(1.0)}, outfeed_queue = outfeed,
      optimizer_function = sgd,
    }
    for key, value in pairs(changes) do
      if value == "nil" then given[key] = nil else given[key] = value end
    end
    ipu.func(function() ipu.pipeline(given) end)()
  end

  local options = ipu.PipelineStageOptions
  local cases <const> = {
    {"stages that are no list", {computational_stages = pass}, "type",
      "computational_stages", "list"},
    {"row 116: one stage", {computational_stages = {pass}}, "value", "at least two", "got 1"},
    {"a stage that is no function", {computational_stages = {pass, 7}}, "type",
      "stage 1 must be a function", "integer (7)"},
    {"row 144: nested concurrent stages", {computational_stages = {pass, {pass, {pass, pass}}}},
      "type", "can't be nested"},
    {"row 115: no count", {gradient_accumulation_count = "nil"}, "value",
      "'gradient_accumulation_count' is missing"},
    {"row 115: a negative count", {gradient_accumulation_count = -1}, "value",
      "gradient_accumulation_count", "greater than 0", "-1"},
    {"a count beyond int32", {gradient_accumulation_count = 2 ^ 31}, "value",
      "gradient_accumulation_count", "at most 2147483647"},
    {"a count with a fraction", {gradient_accumulation_count = 1.5}, "type",
      "gradient_accumulation_count"},
    {"no run", {repeat_count = 0}, "value", "'repeat_count' must be positive, got 0"},
    {"a negative number of runs", {repeat_count = -1}, "value",
      "'repeat_count' must be positive, got -1"},
    {"a float count at run time", {gradient_accumulation_count = ipu.tensor(4.0)}, "type",
      "int32 scalar"},
    {"row 125: a wrong multiple, Grouped", {gradient_accumulation_count = 6}, "failed_precondition",
      "'gradient_accumulation_count' must be a multiple of 4", "it is 6"},
    {"less than the multiple", {gradient_accumulation_count = 2}, "failed_precondition",
      "multiple of 4", "it is 2"},
    {"a wrong multiple, Interleaved",
      {gradient_accumulation_count = 5, pipeline_schedule = "Interleaved"}, "failed_precondition",
      "multiple of 2", "Interleaved", "it is 5"},
    {"row 125: a wrong multiple in inference",
      {computational_stages = {multiply, pass, pass}, gradient_accumulation_count = 10,
      optimizer_function = "nil"}, "failed_precondition", "multiple of 3", "it is 10"},
    {"a mapping that is no list", {device_mapping = 1}, "type", "device_mapping"},
    {"row 119: a mapping of another length", {device_mapping = {0, 1, 2}}, "value",
      "each of the 2 stages, got 3", "2 stages"},
    {"a mapping to a fraction", {device_mapping = {0, 0.5}}, "type", "device_mapping"},
    {"a mapping to a negative IPU", {device_mapping = {0, -1}}, "value", "device_mapping"},
    {"a list for a single stage", {device_mapping = {0, {1, 2}}}, "type", "stage 1"},
    {"one IPU for concurrent stages",
      {computational_stages = {multiply, {pass, pass}, pass}, device_mapping = {0, 1, 2}}, "type",
      "list of 2 concurrent stages"},
    {"row 144: too few IPUs for concurrent stages",
      {computational_stages = {multiply, {pass, pass}, pass}, device_mapping = {0, {1}, 2}},
      "value", "2 concurrent stages", "has 1 IPU there"},
    {"a schedule that is none", {pipeline_schedule = 3}, "type", "pipeline_schedule"},
    {"an unknown schedule", {pipeline_schedule = "Sideways"}, "value",
      "choose one of Grouped, Interleaved"},
    {"row 123: Interleaved training on a shared IPU",
      {pipeline_schedule = "Interleaved", device_mapping = {0, 0}}, "not_implemented",
      "Interleaved"},
    {"OneFOneB on a shared IPU", {pipeline_schedule = "OneFOneB", device_mapping = {0, 0}}, "value",
      "OneFOneB", "InterleavedVirtual"},
    {"InterleavedVirtual out of turn",
      {pipeline_schedule = "interleavedvirtual", device_mapping = {1, 0}}, "value", "in turns"},
    {"an unknown recomputation mode", {recomputation_mode = "Never"}, "value",
      "recomputation_mode"},
    {"row 153: recomputation of Interleaved op by op", {pipeline_schedule = "Interleaved",
      recomputation_mode = "RecomputeAndBackpropagateInterleaved"}, "not_implemented",
      "RecomputeAndBackpropagateInterleaved", "Interleaved"},
    {"row 153: recomputation of Sequential as a whole",
      {pipeline_schedule = "Sequential", recomputation_mode = "RecomputeThenBackpropagate"},
      "not_implemented", "RecomputeThenBackpropagate", "Sequential"},
    {"row 152: continuous weight updates", {continuous_weight_updates = true}, "not_implemented",
      "'continuous_weight_updates'",
      "not implemented"},
    {"row 134: an unknown reduction", {reduction_method = "Exp"}, "value", "SUM", "MEAN",
      "RUNNING_MEAN"},
    {"a reduction that is no name", {reduction_method = 10}, "value", "RUNNING_MEAN"},
    {"an accumulation dtype that is none", {gradient_accumulation_dtype = "float33"}, "type",
      "gradient_accumulation_dtype"},
    {"a function that gives no dtype", {gradient_accumulation_dtype = function() return 32 end},
      "type", "must return a dtype"},
    {"a wrong infeed", {infeed_queue = {}}, "type", "infeed_queue", "IPUInfeedQueue"},
    {"a wrong outfeed", {outfeed_queue = "queue"}, "type", "outfeed_queue", "IPUOutfeedQueue"},
    {"row 141: outputs without an outfeed", {outfeed_queue = "nil"}, "value", "outfeed_queue"},
    {"outputs of inference without an outfeed", {outfeed_queue = "nil", optimizer_function = "nil"},
      "value", "outfeed_queue"},
    {"outfeed_loss without an optimizer", {outfeed_loss = true, optimizer_function = "nil"},
      "value", "outfeed_loss", "optimizer_function"},
    {"outfeed_loss without an outfeed", {outfeed_loss = true, outfeed_queue = "nil"}, "value",
      "outfeed_queue"},
    {"outfeed_loss with a mask", {outfeed_loss = true, outfeed_mask = {false}}, "value",
      "outfeed_loss", "outfeed_mask"},
    {"a mask of another length", {outfeed_mask = {true, false}}, "value",
      "2 entries, but the last stage has 1 output"},
    {"a mask in inference", {outfeed_mask = {true}, optimizer_function = "nil"}, "value",
      "optimizer_function"},
    {"a mask of numbers", {outfeed_mask = {1}}, "type", "booleans"},
    {"accumulate_outfeed without an outfeed", {accumulate_outfeed = true, outfeed_queue = "nil"},
      "value", "outfeed_queue"},
    {"accumulate_outfeed with LAST", {accumulate_outfeed = true,
      outfeed_queue = ipu.IPUOutfeedQueue{outfeed_mode = "LAST"}}, "value", "ALL"},
    {"row 146: stage options of another length",
      {forward_propagation_stages_poplar_options = {options()}}, "value",
      "forward_propagation_stages_poplar_options", "2", "1"},
    {"stage options that are none", {forward_propagation_stages_poplar_options = {options(), {}}},
      "type", "PipelineStageOptions"},
    {"stage options that are no list", {backward_propagation_stages_poplar_options = options()},
      "type",
      "backward_propagation_stages_poplar_options"},
    {"options of the update that are none", {weight_update_poplar_options = {dead = "beef"}},
      "type", "weight_update_poplar_options"},
    {"sharded state that stays on the device",
      {replicated_optimizer_state_sharding = true, offload_weight_update_variables = false},
      "value", "offload_weight_update_variables"},
    {"row 151: serialization with Grouped",
      {batch_serialization_iterations = 2, pipeline_schedule = "Grouped"}, "not_implemented",
      "Sequential"},
    {"row 151: serialization over two IPUs",
      {batch_serialization_iterations = 2, device_mapping = {0, 1}}, "not_implemented",
      "single IPU"},
    {"serialization with a mean", {batch_serialization_iterations = 2, reduction_method = "MEAN"},
      "value", "SUM"},
    {"a negative repeat_count", {repeat_count = -1}, "value", "repeat_count"},
    {"an unknown argument", {gradient_acumulation_count = 4}, "type",
      "did you mean 'gradient_accumulation_count'"},
    {"row 145: an optimizer function that returns something else", {optimizer_function = pass},
      "type", "OptimizerFunctionOutput"},
    {"an accumulating optimizer", {optimizer_function = function(loss)
      return ipu.OptimizerFunctionOutput(
        ipu.optimizers.GradientAccumulationOptimizerV2(ipu.train.GradientDescentOptimizer(0.1),
        {num_mini_batches = 4}), loss)
    end}, "value", "accumulates gradients itself"},
    {"a stage with too few parameters", {inputs = {ipu.tensor(1.0), ipu.tensor(2.0)}}, "type",
      "stage 0", "1 parameter", "2 values"},
    {"a loss that depends on no variable", {computational_stages = {pass, pass}}, "value",
      "variables"},
    {"row 121: a variable on two IPUs", {computational_stages = {multiply, multiply}},
      "not_implemented", "'weight", "same IPU"},
    {"row 39: more IPUs than the device has",
      {computational_stages = {multiply, pass, pass, pass, pass}, gradient_accumulation_count = 10},
      "internal", "number of shards, 8", "4"},
  }
  for _, case in ipairs(cases) do
    it(case[1], function() fails(case[3], function() run(case[2]) end, table.unpack(case, 4)) end)
  end

  it("row 142: a tensor from outside that a stage captures, by the line", function()
    fails("value", function()
      ipu.func(function(x)
        local outer = x + 1
        ipu.pipeline{{multiply, function(y) return y + outer end}, gradient_accumulation_count = 4,
          inputs = {x}, outfeed_queue = outfeed,
          optimizer_function = sgd}
      end)(ipu.tensor(1.0))
    end, "captures", "stage 1", "arguments_spec.lua", "inputs")
  end)

  it("row 156: a count at run time that is no multiple, when it runs", function()
    local f = ipu.func(function(n)
      ipu.pipeline{{multiply, pass}, gradient_accumulation_count = n, inputs = {ipu.tensor(1.0)},
        outfeed_queue = outfeed,
        optimizer_function = sgd}
    end)
    f(ipu.tensor(8, {dtype = "int32"}))
    assert.are.equal(8, #outfeed:dequeue()[1])
    fails("runtime", function() f(ipu.tensor(6, {dtype = "int32"})) end,
      "gradient_accumulation_count", "multiple of 4", "6")
    f(ipu.tensor(4, {dtype = "int32"}))
    assert.are.equal(4, #outfeed:dequeue()[1])
  end)

  it("a second pipeline in one program", function()
    fails("value", function()
      ipu.func(function()
        for _ = 1, 2 do
          ipu.pipeline{{pass, pass}, gradient_accumulation_count = 2, inputs = {ipu.tensor(1.0)},
            outfeed_queue = ipu.IPUOutfeedQueue()}
        end
      end)()
    end, "a pipeline in this program already")
  end)

  it("remote memory on a device that has none", function()
    ipu.reset_ipu_configuration()
    ipu.set_flags("--use_ipu_model")
    local _ <close> = setmetatable({}, {__close = function()
      ipu.reset_ipu_configuration()
      ipu.set_flags("")
    end})
    pipelines.device(4)
    for _, name in ipairs{"offload_activations", "offload_gradient_accumulation_buffers",
      "offload_weight_update_variables"} do
      fails("failed_precondition", function() run{[name] = true} end, name, "remote memory")
    end
    run{}
    pipelines.device(4, {["device_connection.enable_remote_buffers"] = true})
    run{offload_activations = true}
  end)

  it("row 28: too few micro-batches where tiles of their own move data; any number from 2S + 2 on "
    .. "will do", function()
    pipelines.device(2, {["io_tiles.num_io_tiles"] = 32, ["io_tiles.place_ops_on_io_tiles"] = true})
    fails("failed_precondition", function() run{gradient_accumulation_count = 5} end,
      "at least 6", "it is 5")
    run{gradient_accumulation_count = 7}
    assert.are.equal(7, #outfeed:dequeue()[1])
    pipelines.fails("failed_precondition",
      function() run{gradient_accumulation_count = 3, optimizer_function = "nil"} end, "at least 4")
  end)

  it("the iteration counter outside of a stage", function()
    fails("runtime", function() ipu.get_current_iteration_counter() end, "pipeline")
  end)
end)

describe("OptimizerFunctionOutput refuses", function()
  local keras, tf1 = ipu.keras.optimizers.SGD(0.1), ipu.train.GradientDescentOptimizer(0.1)
  local loss, outfeed = ipu.tensor(1.0), ipu.IPUOutfeedQueue()
  local v = ipu.Variable(1.0)
  local cases <const> = {
    {"row 145: no optimizer", {7, loss}, "type", "'opt'"},
    {"row 145: a loss that is no tensor", {tf1, "loss"}, "type", "'loss'"},
    {"arguments of compute_gradients for a Keras optimizer",
      {keras, loss, compute_gradients_args = {1}}, "value", "compute_gradients_args"},
    {"arguments that are no list", {tf1, loss, compute_gradients_args = 1}, "type",
      "compute_gradients_args"},
    {"named arguments that are no table", {tf1, loss, apply_gradients_kwargs = "x"}, "type",
      "apply_gradients_kwargs"},
    {"variables for a TF1 optimizer", {tf1, loss, variables = {v}}, "value", "variables"},
    {"a tape for a TF1 optimizer", {tf1, loss, tape = ipu.GradientTape()}, "value", "tape"},
    {"row 145: variables and a tape", {keras, loss, variables = {v}, tape = ipu.GradientTape()},
      "value", "not both"},
    {"a tape that is none", {keras, loss, tape = {"a"}}, "type", "tape"},
    {"variables that are none", {keras, loss, variables = {1}}, "type", "variables"},
    {"an empty list of variables", {keras, loss, variables = {}}, "value",
      "no variables to optimize"},
    {"an outfeed of captured gradients that is none", {tf1, loss, captured_gradient_outfeed = 1},
      "type", "captured_gradient_outfeed"},
    {"such an outfeed without captured gradients", {tf1, loss, captured_gradient_outfeed = outfeed},
      "value", "captured"},
    {"an unknown argument", {tf1, loss, tapes = 1}, "type", "did you mean 'tape'"},
  }
  for _, case in ipairs(cases) do
    it(case[1], function()
      fails(case[3], function() ipu.OptimizerFunctionOutput(case[2]) end, table.unpack(case, 4))
    end)
  end
end)

describe("PipelineStageOptions", function()
  it("take tables of strings by name", function()
    local options = ipu.PipelineStageOptions{matmul_options = {partialsType = "half"}}
    assert.are.same({}, options.slice_options)
    fails("type", function()
      ipu.PipelineStageOptions{convolution_options = {partialsType = 16}}
    end, "convolution_options")
    fails("type", function() ipu.PipelineStageOptions{matmul_options = "half"} end,
      "matmul_options")
  end)
end)
