-- PipelineStageOptions work for a stage as the configuration's dictionaries do for all. Each kind
-- is checked by itself, forwards and backwards, in ipu.pipeline and in Keras models. Lists that
-- don't fit are refused.

local ipu = require "ipulua"
local pipelines = require "spec.support.pipelines"
local keras = ipu.keras
local layers = keras.layers

local half <const>, float <const> = {partialsType = "half"}, {partialsType = "float"}
local pictures = ipu.random.normal({8, 4, 9, 9, 32}, {seed = 1}):cast "float16"
local kernel = ipu.random.normal({3, 3, 32, 8}, {seed = 2}):cast "float16"
local matrix = ipu.random.normal({9 * 9 * 8, 5}, {seed = 3}):cast "float16" / 16

local function configure(o)
  ipu.reset_ipu_configuration()
  local config = ipu.IPUConfig()
  config.auto_select_ipus = 2
  config.matmuls.poplar_options = o.matmul_options or {}
  config.convolutions.poplar_options = o.convolution_options or {}
  config:configure_ipu_system()
end

local function both(options)
  return options and {ipu.PipelineStageOptions(options), ipu.PipelineStageOptions(options)}
end

-- o: whole (of the configuration), forward, backward. Two updates of a convolution and a product.
local function by_pipeline(o)
  configure(o.whole or {})
  local k, m = ipu.Variable(kernel), ipu.Variable(matrix)
  local infeed, outfeed = ipu.IPUInfeedQueue(ipu.data.from_tensor_slices(pictures)),
    ipu.IPUOutfeedQueue()
  ipu.func(function()
    return ipu.pipeline{
      computational_stages = {
        function(x) return ipu.reshape(ipu.nn.conv2d(x, k, {padding = "SAME"}), {4, 9 * 9 * 8}) end,
        function(h) return ipu.reduce_mean(ipu.square(h:matmul(m):cast "float32")) end,
      },
      gradient_accumulation_count = 4, repeat_count = 2, infeed_queue = infeed,
      outfeed_queue = outfeed,
      forward_propagation_stages_poplar_options = both(o.forward),
      backward_propagation_stages_poplar_options = both(o.backward),
      optimizer_function = function(loss)
        return ipu.OptimizerFunctionOutput(ipu.train.GradientDescentOptimizer(0.01), loss)
      end,
    }
  end)()
  return k:read_value(), m:read_value()
end

local function new_model(o)
  local model = keras.Sequential{
    layers.Conv2D{8, 3, padding = "same", use_bias = false, dtype = "float16",
      input_shape = {9, 9, 32}},
    layers.Flatten{dtype = "float16"}, layers.Dense{5, use_bias = false, dtype = "float16"},
    layers.Activation{"linear", dtype = "float32"},
  }
  model:build{4, 9, 9, 32}
  model:set_weights{kernel, matrix}
  model:set_pipeline_stage_assignment{0, 0, 1, 1}
  model:set_pipelining_options{gradient_accumulation_steps_per_replica = 4,
    forward_propagation_stages_poplar_options = both(o.forward),
    backward_propagation_stages_poplar_options = both(o.backward)}
  model:compile{loss = "mse", optimizer = keras.optimizers.SGD(0.01), steps_per_execution = 4}
  return model
end

local function by_keras(o)
  configure(o.whole or {})
  local _ <close> = ipu.IPUStrategy():scope()
  local model = new_model(o)
  local x = ipu.reshape(pictures, {32, 9, 9, 32})
  model:fit{x, ipu.zeros{32, 5}, batch_size = 4, verbose = 0, shuffle = false}
  return table.unpack(model:get_weights())
end

local function differs(a, b)
  return ipu.reduce_max(ipu.abs(a:cast "float32" - b:cast "float32")):item() > 0
end

describe("options of pipeline stages", function()
  teardown(function() ipu.reset_ipu_configuration() end)

  for name, train in pairs{["ipu.pipeline"] = by_pipeline, Keras = by_keras} do
    it("are the configuration's, kind by kind: " .. name, function()
      local plain_k, plain_m = train{}
      for _, options in ipairs{
        {matmul_options = half}, {convolution_options = half},
        {matmul_options = float, convolution_options = half},
        {matmul_options = half, convolution_options = half},
      } do
        local whole_k, whole_m = train{whole = options}
        local k, m = train{forward = options, backward = options}
        assert.is_false(differs(whole_k, k))
        assert.is_false(differs(whole_m, m))
        assert.is_true(differs(whole_k, plain_k) or differs(whole_m, plain_m))
      end
    end)

    it("of the forward pass say nothing of gradients: " .. name, function()
      local all_half = {matmul_options = half, convolution_options = half}
      local all_float = {matmul_options = float, convolution_options = float}
      local k, m = train{whole = all_half, forward = all_float}
      local same_k, same_m = train{whole = all_half, forward = all_float, backward = all_half}
      assert.is_false(differs(k, same_k))
      assert.is_false(differs(m, same_m))
    end)

    it("say it of the forward and the backward pass apart: " .. name, function()
      local all_half = {matmul_options = half, convolution_options = half}
      local all_float = {matmul_options = float, convolution_options = float}
      local plain_k = train{}
      local k, m = train{backward = all_half}
      local same_k, same_m = train{whole = all_half, forward = all_float, backward = all_half}
      assert.is_false(differs(k, same_k))
      assert.is_false(differs(m, same_m))
      assert.is_true(differs(k, plain_k))
    end)
  end

  -- Cycles of the first stage's passes, and of the second's.
  local function priced(option, given)
    configure{}
    local _ <close> = ipu.IPUStrategy():scope()
    local model = keras.Sequential{
      layers.Conv2D{64, 3, padding = "same", input_shape = {32, 32, 64}},
      layers.Flatten(), layers.Dense(512)}
    model:set_pipeline_stage_assignment{0, 0, 1}
    model:set_pipelining_options{gradient_accumulation_steps_per_replica = 4,
      [option] = given and both(given)}
    model:compile{loss = "mse", optimizer = "sgd", steps_per_execution = 4}
    local stages = ipu.estimate(model, {batch_size = 8}).stages
    return {stages[1].forward_cycles, stages[1].backward_cycles, stages[2].forward_cycles,
      stages[2].backward_cycles}
  end

  it("say what share of a tile's memory products and convolutions take, pass by pass", function()
    local small <const> = {availableMemoryProportion = "0.005"}
    for option, first in pairs{forward_propagation_stages_poplar_options = 1,
      backward_propagation_stages_poplar_options = 2} do
      local plain = priced(option)
      for kind, place in pairs{convolution_options = first, matmul_options = first + 2} do
        local got = priced(option, {[kind] = small})
        for i = 1, 4 do
          local what = option .. " " .. kind .. " " .. i
          if i == place then assert.is_true(got[i] > plain[i], what)
          else assert.equal(plain[i], got[i], what) end
        end
      end
      assert.same(plain, priced(option, {slice_options = small}))
    end
  end)

  it("name the program of a model that trains", function()
    configure{}
    local _ <close> = ipu.IPUStrategy():scope()
    local model = new_model{}
    model:set_pipelining_options{name = "of two stages"}
    model:fit{ipu.reshape(pictures, {32, 9, 9, 32}), ipu.zeros{32, 5}, batch_size = 4, verbose = 0}
    local made = ipu.programs()
    assert.equal("of two stages.train", made[#made].name)
  end)

  it("are refused where they don't fit the stages", function()
    configure{}
    local _ <close> = ipu.IPUStrategy():scope()
    local one = {ipu.PipelineStageOptions{matmul_options = half}}
    for option, wrong in pairs{
      forward_propagation_stages_poplar_options = {one, {"half", "half"}, half},
      backward_propagation_stages_poplar_options = {one, {"half", "half"}},
      weight_update_poplar_options = {one, half, 1},
    } do
      for _, value in ipairs(wrong) do
        local model = new_model{}
        local fine, why = pcall(function()
          model:set_pipelining_options{gradient_accumulation_steps_per_replica = 4,
            [option] = value}
          model:fit{ipu.reshape(pictures, {32, 9, 9, 32}), ipu.zeros{32, 5}, batch_size = 4,
            verbose = 0}
        end)
        assert.is_false(fine)
        assert.matches(option, why)
      end
    end
  end)

  it("are saved with a model", function()
    configure{}
    local _ <close> = ipu.IPUStrategy():scope()
    local path = os.tmpname() .. ".safetensors"
    finally(function() os.remove(path) end)
    local options = {matmul_options = half, convolution_options = float}
    local model = new_model{forward = options, backward = options}
    model:save(path)
    local loaded = keras.models.load_model(path)
    for _, name in ipairs{"forward_propagation_stages_poplar_options",
      "backward_propagation_stages_poplar_options"} do
      local list = loaded._options.pipelining[name]
      assert.equal(2, #list)
      assert.equal(tostring(model._options.pipelining[name][2]), tostring(list[2]))
    end
  end)
end)

describe("the share of memory of a stage's products", function()
  it("costs what the same share costs in the configuration", function()
    local function price(share, settings)
      local _ <close> = pipelines.device(2, settings)
      local w = ipu.Variable(ipu.ones{1024, 2048})
      local options = share
        and ipu.PipelineStageOptions{matmul_options = {availableMemoryProportion = share}}
      local a = {gradient_accumulation_count = 4, outfeed_queue = ipu.IPUOutfeedQueue(),
        infeed_queue = ipu.IPUInfeedQueue(ipu.data.from_tensors(ipu.ones{512, 1024}):repeat_n()),
        computational_stages = {function(x) return ipu.matmul(x, w) end, ipu.reduce_sum},
        forward_propagation_stages_poplar_options = options and {options, options} or nil}
      local e = ipu.estimate(function() return ipu.pipeline(a) end,
        {inputs = {}, ipus = 2, host = "model"})
      return e.cycles.total
    end
    local former
    for _, share in ipairs{"0.01", "0.05", "0.3"} do
      local cycles = price(share)
      assert.equal(price(nil, {["matmuls.poplar_options"] = {availableMemoryProportion = share}}),
        cycles, share)
      assert.is_true(not former or cycles < former)
      former = cycles
    end
  end)
end)
