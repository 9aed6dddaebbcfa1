-- Gradients that are captured on their way back.

local ipu = require "ipulua"
local keras = ipu.keras
local layers = keras.layers

describe("captured gradients", function()
  local x = ipu.tensor{1, 2, 3}

  -- h = v·x, loss = Σh²: dloss/dh = 2h, dloss/dv = 2h·x
  it("row 167: of a tape", function()
    local tape = ipu.GradientCaptureTape()
    local v = ipu.Variable{{2, 3, 4}}
    local loss = tape(function()
      return ipu.reduce_sum(ipu.square(ipu.capture_upstream_gradients(v * x, {tag = "h"})))
    end)
    assert.same({4, 24, 72}, tape:gradient(loss, v):totable())
    assert.same({4, 12, 24}, tape.captured_gradients.h:totable())
  end)

  it("of a traced function: a list where several have the tag", function()
    local v = ipu.Variable{{2, 3, 4}}
    local f = ipu.func(function(given)
      local tape <close> = ipu.GradientCaptureTape()
      local h = ipu.capture_upstream_gradients(v * given, {tag = "h"})
      local k = ipu.capture_upstream_gradients(h * 2, {tag = "h"})
      local g = tape:gradient(ipu.reduce_sum(ipu.square(k)), {v})
      return g[1], table.unpack(tape.captured_gradients.h)
    end)
    local g, first, second = f(x)
    assert.same({16, 96, 288}, g:totable())
    assert.same({16, 48, 96}, first:totable())
    assert.same({8, 24, 48}, second:totable())
  end)

  it("come beside gradients in the structure of their sources", function()
    local v, tape = ipu.Variable{{2, 3, 4}}, ipu.GradientCaptureTape()
    local loss = tape(function()
      return ipu.reduce_sum(ipu.square(ipu.capture_upstream_gradients(v * x, {tag = "h"})))
    end)
    local g = tape:gradient(loss, {weights = {v, v}, data = x})
    assert.same({4, 24, 72}, g.weights[1]:totable())
    assert.same({4, 24, 72}, g.weights[2]:totable())
    assert.same({8, 36, 96}, g.data:totable())
    assert.same({4, 12, 24}, tape.captured_gradients.h:totable())
  end)

  -- A program's values are none of the script's tape: in the call that traces it, too.
  it("belong to the trace that computes gradients", function()
    local v = ipu.Variable{{2, 3, 4}}
    local f = ipu.func(function(given)
      return ipu.capture_upstream_gradients(v * given, {tag = "inside"})
    end)
    for _ = 1, 2 do
      local tape = ipu.GradientCaptureTape()
      local loss = tape(function()
        return ipu.reduce_sum(ipu.square(ipu.capture_upstream_gradients(f(x), {tag = "h"})))
      end)
      assert.same({4, 24, 72}, tape:gradient(loss, v):totable())
      assert.same({4, 12, 24}, tape.captured_gradients.h:totable())
      assert.is_nil(tape.captured_gradients.inside)
    end
  end)

  it("leave a value as it is where no scope collects them", function()
    assert.same({1, 2, 3}, ipu.capture_upstream_gradients(x):totable())
    assert.error_matches(function() ipu.capture_upstream_gradients(3) end, "'x' must be a tensor")
  end)

  -- y = relu(2·x), loss = Σy: 1 arrives at y; at the activation's input 1 where it is above 0.
  it("of layers", function()
    local function captured(kind, weight)
      local layer = layers[kind]{layers.Dense{1, activation = "relu",
        kernel_initializer = {class_name = "Constant",
        config = {value = weight}}}, tag = "t"}
      layer(ipu.ones{2, 1})
      local tape = ipu.GradientCaptureTape()
      local loss = tape(function() return ipu.reduce_sum(layer(ipu.ones{2, 1})) end)
      tape:gradient(loss, layer.trainable_variables)
      return tape.captured_gradients.t:totable()
    end
    assert.same({{1}, {1}}, captured("CaptureUpstreamGradients", 2))
    assert.same({{1}, {1}}, captured("CaptureUpstreamGradients", -2))
    assert.same({{0}, {0}}, captured("CaptureActivationGradients", -2))
  end)

  local function als(captured_only)
    return keras.optimizers.ALSOptimizer{keras.optimizers.SGD(0.5),
      initial_loss_scaling_factor = 4, update_frequency = 8, captured_grads_only = captured_only}
  end

  -- The optimizer of a float16 model with a captured gradient after one step on two samples.
  local function trained(optimizer, options)
    local layer = layers.CaptureUpstreamGradients{layers.Dense{1, dtype = "float16"}, tag = "t",
      dtype = "float16"}
    local model = keras.Sequential{layer}
    options = options or {}
    options.loss = function(_, y) return ipu.reduce_sum(y, {axis = -1}) end
    options.optimizer = optimizer
    model:compile(options)
    local x16, y16 = ipu.ones({2, 3}, {dtype = "float16"}), ipu.ones({2, 1}, {dtype = "float16"})
    if options.on_batch then model:train_on_batch(x16, y16)
    else model:fit{x16, y16, batch_size = 2, verbose = 0} end
    return model.optimizer
  end

  -- float16: the loss is scaled by 4, so 4/2 (the mean of two samples) arrives, below the edge: two
  -- elements a step.
  it("alone count for an ALSOptimizer that is asked for it", function()
    local function histogram(captured_only)
      return trained(als(captured_only)).histogram:totable()
    end
    assert.same({2, 0}, histogram(true))
    assert.same({2 + 3 + 1, 0}, histogram(false)) -- kernel and bias besides
  end)

  it("count alike where the model runs eagerly", function()
    assert.same({2, 0}, trained(als(true), {run_eagerly = true}).histogram:totable())
    assert.same({6, 0}, trained(als(false), {run_eagerly = true}).histogram:totable())
  end)

  for _, case in ipairs{
    {"CrossReplicaOptimizer", 1}, {"MapGradientOptimizer", 1, function(g) return g end},
    {"GradientAccumulationOptimizer", 2, 2}, {"ALSGradientAccumulationOptimizer", 1, 1},
  } do
    local name, steps = case[1], case[2]
    it("count for an ALSOptimizer inside of a " .. name, function()
      local opt = keras.optimizers[name](als(true), case[3])
      for _ = 1, steps do trained(opt) end
      assert.same({2, 0}, opt.histogram:totable())
    end)
  end
end)
