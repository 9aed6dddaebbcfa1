-- Arguments and contents of stages: inputs, elements, tables, shared variables, concurrent stages,
-- recomputation, counters.

local ipu = require "ipulua"
local log = require "ipulua.base.log"
local pipelines = require "spec.support.pipelines"

local whole <const> = {drop_remainder = true}

local function pass(...) return ... end

describe("the stages of a pipeline", function()
  local _device, outfeed
  before_each(function()
    _device = pipelines.device(4)
    outfeed = ipu.IPUOutfeedQueue()
  end)
  after_each(function() getmetatable(_device).__close() end)

  -- On as many IPUs as its stages take: there is one replica.
  local function run(given, ...)
    pipelines.device_for(given, #given.computational_stages)
    given.outfeed_queue = outfeed
    local f = ipu.func(function(...)
      given.inputs = {...}
      ipu.pipeline(given)
    end)
    f(...)
    return outfeed.enqueued and outfeed:dequeue(), f
  end

  -- d(Σ(hw)²)/dh = 2hwwᵀ: asked for, or written down.
  it("compute gradients in forward passes, at the price of their formula", function()
    local function trained(square)
      local w = ipu.Variable(ipu.random.normal({64, 64}, {stddev = 0.1, seed = 1}))
      local head = ipu.Variable(ipu.random.normal({64, 2}, {stddev = 0.1, seed = 2}))
      local x = ipu.random.normal({32, 64}, {seed = 3})
      local _, f = run{computational_stages = {
        function(h) return ipu.tanh(h + square(h, w)) end,
        function(h) return ipu.reduce_mean(ipu.square(h:matmul(head))) end,
      }, gradient_accumulation_count = 8, reduction_method = "RUNNING_MEAN",
        infeed_queue = ipu.IPUInfeedQueue(ipu.data.from_tensor_slices(x):batch(4, whole)),
        optimizer_function = function(loss)
          return ipu.OptimizerFunctionOutput(ipu.train.GradientDescentOptimizer(0.5), loss)
        end}
      return w:read_value(), head:read_value(), ipu.estimate(f).stages
    end
    local function written(h, w) return 2 * h:matmul(w):matmul(w, {transpose_b = true}) end
    local w, head, stages = trained(written)
    local function same(square)
      local own_w, own_head, own_stages = trained(square)
      assert.is_true(ipu.reduce_max(ipu.abs(w - own_w)):item() < 1e-6)
      assert.is_true(ipu.reduce_max(ipu.abs(head - own_head)):item() < 1e-6)
      for i, stage in ipairs(stages) do
        assert.is_near(stage.forward_cycles, own_stages[i].forward_cycles,
          stage.forward_cycles / 20)
        assert.is_near(stage.backward_cycles, own_stages[i].backward_cycles,
          stage.backward_cycles / 20)
      end
    end
    same(function(h, v)
      return ipu.gradients(ipu.reduce_sum(ipu.square(h:matmul(v))), {h})[1]
    end)
    same(function(h, v)
      local tape = ipu.GradientTape()
      return tape:gradient(tape(function() return ipu.reduce_sum(ipu.square(h:matmul(v))) end), h)
    end)
  end)

  it("row 117: thread a learning rate from the inputs to the optimizer", function()
    local w = ipu.Variable(1.0)
    local function train(lr)
      run({
        computational_stages = {function(rate, x) return rate, x * w end, pass},
        gradient_accumulation_count = 4, outfeed_mask = {true, true},
        optimizer_function = function(rate, loss)
          return ipu.OptimizerFunctionOutput(ipu.train.GradientDescentOptimizer(rate * 2), loss)
        end,
      }, ipu.tensor(lr), ipu.tensor(1.0))
    end
    train(0.125)
    assert.are.equal(1 - 0.25 * 4, w:item())
    train(0.0625)
    assert.are.equal(0 - 0.125 * 4, w:item())
  end)

  it("take inputs as numbers and variables (with a warning), and elements after them", function()
    pipelines.device(2)
    local warnings = {}
    local former = log.set_writer(function(text) warnings[#warnings + 1] = text end)
    local _ <close> = setmetatable({}, {__close = function() log.set_writer(former) end})
    local v = ipu.Variable(5.0)
    local infeed = ipu.IPUInfeedQueue(ipu.data.range(0, 4):map(function(i)
      return ipu.cast(i, "float32")
    end))
    ipu.func(function()
      ipu.pipeline{{function(a, b, x) return ipu.cast(a, "float32") * 100 + b + x end, pass},
        gradient_accumulation_count = 4,
        inputs = {2, v}, infeed_queue = infeed, outfeed_queue = outfeed}
    end)()
    assert.are.same({205, 206, 207, 208}, outfeed:dequeue():totable())
    assert.is_truthy(tostring(warnings[1]):find("input 2 is the variable", 1, true))
  end)

  it("row 118: get a dict element as one table, and hand on tables and lists", function()
    local ds = ipu.data.from_tensor_slices{a = ipu.tensor{1, 2, 3, 4},
      b = ipu.tensor{10, 20, 30, 40}}
    local got = run({computational_stages = {
      function(c, element) return {sum = element.a + element.b, c = c} end,
      function(t) return {t.sum, t.c} end, -- a list: two values for the next
      function(sum, c) return sum * c end,
    }, gradient_accumulation_count = 3, infeed_queue = ipu.IPUInfeedQueue(ds)}, 2.0)
    assert.are.same({22, 44, 66}, got:totable())
  end)

  it("row 121: may share a variable on one IPU: its gradients are added", function()
    local w = ipu.Variable(3.0)
    run({computational_stages = {function(x) return x * w end, pass, function(y) return y * w end},
      device_mapping = {0, 1, 0},
      gradient_accumulation_count = 6,
      optimizer_function = function(loss)
        return ipu.OptimizerFunctionOutput(ipu.train.GradientDescentOptimizer(0.125), loss)
      end}, 1.0)
    assert.are.equal(3 - 0.125 * 6 * 2 * 3, w:item())
  end)

  it("row 155: count micro-batches from 0 in each run", function()
    local got = run({computational_stages = {
      function(x) return x, ipu.get_current_iteration_counter() end,
      function(x, i) return x, i, ipu.get_current_iteration_counter() end,
    }, gradient_accumulation_count = 4, repeat_count = 2}, 1.0)
    assert.are.same({0, 1, 2, 3, 0, 1, 2, 3}, got[2]:totable())
    assert.are.same(got[2]:totable(), got[3]:totable())
  end)

  it("row 151: work on batch_serialization_iterations micro-batches in a row", function()
    local w = ipu.Variable(1.0)
    local infeed = ipu.IPUInfeedQueue(ipu.data.range(0, 100):map(function(i)
      return ipu.cast(i, "float32")
    end))
    local got = run({computational_stages = {function(x) return x * w end, pass},
      gradient_accumulation_count = 2,
      batch_serialization_iterations = 3, infeed_queue = infeed, outfeed_loss = true,
      optimizer_function = function(loss)
        return ipu.OptimizerFunctionOutput(ipu.train.GradientDescentOptimizer(1.0), loss)
      end})
    assert.are.same({0, 1, 2, 3, 4, 5}, got:totable())
    assert.are.equal(1 - 15, w:item())
  end)

  it(
    "row 143: run side by side: outputs in the order of the list, the same bits as in a row",
    function()
    local function net()
      local function weights(shape, seed)
        return ipu.Variable(ipu.random.normal(shape, {stddev = 0.4, seed = seed}))
      end
      return {weights({4, 6}, 1), weights({6, 5}, 2), weights({6, 5}, 3), weights({10, 1}, 4)}
    end
    local function train(concurrent)
      local w, queue = net(), ipu.IPUOutfeedQueue()
      local x = ipu.random.normal({32, 4}, {seed = 9})
      local infeed = ipu.IPUInfeedQueue(ipu.data.from_tensor_slices(x):batch(2,
        {drop_remainder = true}):repeat_n())
      local function first(a) return ipu.tanh(a:matmul(w[1])) end
      local function left(h) return ipu.sigmoid(h:matmul(w[2])) end
      local function right(h) return ipu.tanh(h:matmul(w[3])) end
      local function last(a, b)
        return ipu.reduce_mean(ipu.square(ipu.concat({a, b}, 1):matmul(w[4]) - 1))
      end
      local stages = concurrent and {first, {left, right}, last} or
        {first, function(h) return h, left(h) end, function(h, a) return a, right(h) end, last}
      local f = ipu.func(function()
        ipu.pipeline{computational_stages = stages, device_mapping = concurrent and {0, {1, 2}, 3}
          or nil, repeat_count = 4,
          gradient_accumulation_count = 24, infeed_queue = infeed, outfeed_queue = queue,
          outfeed_loss = true,
          optimizer_function = function(loss)
            return ipu.OptimizerFunctionOutput(ipu.train.AdamOptimizer(0.01), loss)
          end}
      end)
      f()
      local values = {queue:dequeue():totable()}
      for i, v in ipairs(w) do values[i + 1] = v:read_value():totable() end
      return values, ipu.timetable(f)
    end
    local in_a_row = train(false)
    local side_by_side, t = train(true)
    assert.are.same(in_a_row, side_by_side)
    assert.are.equal(6, t.count_multiple)
    assert.are.same({4, 2, 0}, t.stash_depth)
    local at_once = {}
    for _, e in ipairs(t.order[2]) do at_once[#at_once + 1] = e.stage .. "@" .. e.ipu end
    assert.are.same({"1@1", "1@2", "0@0"}, at_once)
  end)

  it("row 146: keep the partials of matrix products in the dtype of their options", function()
    local x, w = ipu.ones({1, 4096}, {dtype = "float16"}),
      ipu.Variable(ipu.full({4096, 1}, 1.0009765625, {dtype = "float16"}))
    local function product(options)
      outfeed = ipu.IPUOutfeedQueue()
      return run({computational_stages = {function(a) return a:matmul(w) end, pass},
        gradient_accumulation_count = 2,
        forward_propagation_stages_poplar_options = options}, x)[1]:totable()[1][1]
    end
    local half = ipu.PipelineStageOptions{matmul_options = {partialsType = "half"}}
    local _ <close> = ipu.partials_type("float16")
    local scoped = ipu.func(function(a) return a:matmul(w) end)(x):totable()[1][1]
    local plain = ipu.PipelineStageOptions{matmul_options = {partialsType = "float"}}
    assert.are.equal(scoped, product{half, ipu.PipelineStageOptions()})
    assert.are.equal(4100, product{plain, plain})
  end)

  it("keep the options of the backward pass apart", function()
    -- dx = dy·wᵀ sums 4096 products; the forward pass sums one.
    local w = ipu.Variable(ipu.full({1, 4096}, 1.0009765625, {dtype = "float16"}))
    local function gradient(forward, backward)
      local v, queue = ipu.Variable(ipu.ones({1, 1}, {dtype = "float16"})), ipu.IPUOutfeedQueue()
      pipelines.device(2)
      ipu.func(function()
        local context = ipu.GradientCaptureContext()
        ipu.pipeline{computational_stages = {
          function(x) return ipu.capture_upstream_gradients(x * v, {tag = "x"}):matmul(w) end,
          function(y) return ipu.reduce_sum(ipu.cast(y, "float32")) end,
        }, gradient_accumulation_count = 4, inputs = {ipu.ones({1, 1}, {dtype = "float16"})},
        outfeed_mask = {true},
          gradient_accumulation_for_captured_grads = false,
          forward_propagation_stages_poplar_options = forward,
          backward_propagation_stages_poplar_options = backward,
          optimizer_function = function(loss)
            return ipu.OptimizerFunctionOutput{opt = ipu.train.GradientDescentOptimizer(0.0),
              loss = loss,
              compute_gradients_kwargs = {var_list = {v}}, gradient_capture_context = context,
              captured_gradient_outfeed = queue}
          end}
        context:close()
      end)()
      return queue:dequeue().x:totable()[1][1][1]
    end
    local half, plain = ipu.PipelineStageOptions{matmul_options = {partialsType = "half"}},
      ipu.PipelineStageOptions()
    assert.are.equal(4100, gradient(nil, nil))
    assert.are.equal(4096, gradient(nil, {half, plain}))
    assert.are.equal(4100, gradient({half, plain}, nil))
    assert.are.equal(4100, gradient({half, plain}, {plain, half}))
  end)

  it(
    "rows 22, 153, 154: are computed again with the same random numbers, and say what they keep",
    function()
    local function bytes(options, config)
      pipelines.device(4, config)
      local _, _, f = pipelines.net(30):train(options)
      return ipu.timetable(f).stage_bytes
    end
    local kept = bytes{}
    local again = bytes({}, {allow_recompute = true})
    local by_op = bytes({recomputation_mode = "RecomputeAndBackpropagateInterleaved"},
      {allow_recompute = true})
    for stage = 1, 3 do assert.is_true(again[stage] <= kept[stage], stage) end
    assert.is_true(again[2] < kept[2])
    assert.are.equal(kept[4], again[4]) -- the last stage has nothing to compute again
    assert.is_true(by_op[2] >= again[2]) -- its checkpoint is kept too
    -- beside weights and momenta, as many copies as wait of what a sequence has once, and that
    local weights <const> = {6 * 8 * 4, 8 * 8 * 4, 8 * 8 * 4, 8 * 3 * 4}
    local once = bytes{pipeline_schedule = "Sequential"}
    for stage = 1, 4 do
      local stash <const> = once[stage] - 2 * weights[stage]
      assert.is_true(stash > 0)
      assert.are.equal(2 * weights[stage] + (2 * (4 - stage) + 1) * stash, kept[stage])
    end
    -- in a sequence the last stage's backward pass doesn't follow its forward pass at once
    local sequence <const> = {pipeline_schedule = "Sequential"}
    kept, again = bytes(sequence), bytes(sequence, {allow_recompute = true})
    for stage = 1, 4 do assert.is_true(again[stage] < kept[stage], stage) end
  end)

  it("rows 147, 148: put what they offload into streaming memory, as the price of their program "
    .. "says", function()
    local function memory(options)
      pipelines.device(4)
      local _, _, f = pipelines.net(30):train(options)
      return ipu.estimate(f).memory, ipu.timetable(f)
    end
    local plain, t = memory{offload_weight_update_variables = false}
    assert.is_true(plain.stash > 0)
    assert.are.equal(0, plain.streaming)
    -- Activations are 4 x 8 floats, 128 bytes, the least that is moved. Kept activations: x (4 x 6
    -- floats) six times in stage 0.
    local offloaded = memory{offload_activations = true, offload_weight_update_variables = false}
    assert.are.equal(6 * 4 * 6 * 4, offloaded.stash)
    -- one tensor in stage 0, two in each of the stages 1 and 2; one more copy than wait
    assert.are.equal((1 * 7 + 2 * 5 + 2 * 3) * 128, offloaded.streaming)
    local momenta = (6 * 8 + 8 * 8 + 8 * 8) * 4 -- the last weight's are 96 bytes
    local by_default = memory{} -- remote memory is there: the update's variables are in it
    assert.are.equal(plain.variable - momenta, by_default.variable)
    assert.are.equal(momenta, by_default.streaming)
    assert.are.equal(4, #t.stage_cycles)
    for _, cycles in ipairs(t.stage_cycles) do assert.is_true(cycles > 0) end
    assert.is_true(t.utilisation > 0 and t.utilisation < 1)
  end)

  it("row 156: of a session: placeholders for the inputs and the count", function()
    pipelines.device(2)
    ipu.reset_default_graph()
    local infeed = ipu.IPUInfeedQueue(ipu.data.from_tensors(ipu.ones{2, 3}):repeat_n())
    local n, lr
    do
      local _ <close> = ipu.device("cpu")
      n, lr = ipu.placeholder("int32", {}), ipu.placeholder("float32", {})
    end
    local function net(rate, count)
      return ipu.pipeline{{
        function(r, x)
          return r,
            ipu.matmul(x,
              ipu.get_variable("w", {shape = {3, 2}, initializer = "ones", use_resource = true}))
        end,
        function(r, h) return r, ipu.reduce_mean(h) end,
      }, gradient_accumulation_count = count, inputs = {rate}, infeed_queue = infeed,
      outfeed_queue = outfeed, outfeed_loss = true,
        optimizer_function = function(r, loss)
          return ipu.OptimizerFunctionOutput(ipu.train.GradientDescentOptimizer(r), loss)
        end}
    end
    local op = ipu.ipu_scope("/device:IPU:0")(function()
      return ipu.ipu_compiler.compile(net, {lr, n})
    end)
    local sess <close> = ipu.Session()
    sess:run(ipu.global_variables_initializer())
    infeed:initializer()
    sess:run(op, {feed_dict = {[lr] = 0.125, [n] = 4}})
    assert.are.same({3, 3, 3, 3}, outfeed:dequeue():totable())
    sess:run(op, {feed_dict = {[lr] = 0.125, [n] = 8}})
    assert.are.same({8}, outfeed:dequeue().shape)
    local list = ipu.programs()
    assert.are.same({0, 1}, list[#list].stage_ipus)
    pipelines.fails("runtime", function() sess:run(op, {feed_dict = {[lr] = 0.1, [n] = 6}}) end,
      "multiple of 4")
  end)
end)

describe("ipu.recomputation_checkpoint", function()
  it("row 154: is its argument, in its structure, and lets gradients through", function()
    local x, y = ipu.tensor{1.0, 2.0}, ipu.tensor(3.0)
    local got = ipu.recomputation_checkpoint{a = x, rest = {y}}
    assert.are.same({1, 2}, got.a:totable())
    assert.are.equal(3, got.rest[1]:item())
    local g = ipu.func(function(a)
      return ipu.gradients(ipu.recomputation_checkpoint(a * a), a)[1]
    end)(ipu.tensor(4.0))
    assert.are.equal(8, g:item())
    pipelines.fails("type", function() ipu.recomputation_checkpoint("x") end, "tensors")
  end)
end)
